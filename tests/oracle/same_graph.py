"""Whether two graphs are the same, factor by factor and bit by bit."""

import numpy as np

from anytimebp.model.kinds.at_most_one import AtMostOneSource
from anytimebp.model.kinds.dense import DenseSource
from anytimebp.model.kinds.difference import DifferenceSource
from anytimebp.model.kinds.listed import ListedSource


def bits(values):
    return np.ascontiguousarray(values).view(np.int64)


def assert_same_numbers(one, other):
    """Same universes, scopes and numbers; names and labels may differ."""
    assert one.variables.sizes().tolist() == other.variables.sizes().tolist()
    assert one.n_factors == other.n_factors
    for k in range(one.n_factors):
        (a, i), (b, j) = one.locate(k), other.locate(k)
        assert a.scopes[i].tolist() == b.scopes[j].tolist()
        assert type(a.source) is type(b.source)
        if isinstance(a.source, DenseSource):
            assert a.source.is_log == b.source.is_log
            assert (bits(a.source.values[a.member(i)]) == bits(b.source.values[b.member(j)])).all()
        elif isinstance(a.source, ListedSource):
            assert a.source.indices.tolist() == b.source.indices.tolist()
            assert (bits(a.source.log_scores) == bits(b.source.log_scores)).all()
            assert a.source.default == b.source.default
        elif isinstance(a.source, DifferenceSource):
            assert (a.source.first, a.source.default) == (b.source.first, b.source.default)
            assert (bits(a.source.log_kernel) == bits(b.source.log_kernel)).all()
        elif isinstance(a.source, AtMostOneSource):
            assert a.source.states.tolist() == b.source.states.tolist()


def assert_same_names(one, other):
    assert [v.name for v in one.variables] == [v.name for v in other.variables]
    assert [tuple(v.labels) for v in one.variables] == [tuple(v.labels) for v in other.variables]
    types = [[type(label) for label in v.labels] for v in one.variables]
    assert types == [[type(label) for label in v.labels] for v in other.variables]

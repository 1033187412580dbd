"""Log scores of all message factors over given domains."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.evidence import read_evidence_mapping
from anytimebp.tables.log_tables import make_log_tables


def finite_range(values):
    """Return the range of the finite numbers of a table."""
    finite = values[values > -np.inf]
    return finite.max() - finite.min()


@pytest.mark.parametrize("evidence", [{}, {0: {0, 2}}])
def test_the_span_is_the_sum_of_the_ranges_of_all_tables_or_more_where_states_are_left_out(evidence):
    rng, graph = np.random.default_rng(1), abp.FactorGraph()
    graph.add_variables(3, 3)
    tied, stacked, potentials = rng.normal(size=(3, 3)), rng.normal(size=(2, 3, 3)), rng.random((3, 3))
    stacked[0, 1, 1], potentials[2, 2] = -np.inf, 0.0
    graph.add_factors([[0, 1], [1, 2]], log_table=tied)
    graph.add_factors([[0, 2], [2, 1]], log_table=stacked)
    graph.add_factor([0, 1], table=potentials)
    graph.add_factor([1, 2], rule=lambda a, b: 1.0 * a - b)
    compiled = compiled_graph(graph)
    domains = full_domains(compiled, read_evidence_mapping(evidence, graph.variables))
    making = make_log_tables(compiled, domains)
    while True:
        try:
            next(making)
        except StopIteration as end:
            span = end.value.span
            break
    wanted = 0.0
    for factor in range(graph.n_factors):
        states = [domains.states_of(graph.variables.index_of(name)) for name in graph.factor_scope(factor)]
        wanted += finite_range(graph.factor_log_table(factor)[np.ix_(*states)])
    assert span == pytest.approx(wanted, abs=1e-12) if not evidence else span >= wanted - 1e-12

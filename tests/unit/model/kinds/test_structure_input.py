"""What structures and lists of entries are given is checked when they are added."""

from decimal import Decimal

import numpy as np
import pytest

import anytimebp as abp

NO_NUMBERS = ["1.5", None, 1j, object(), 10**400, np.datetime64("2020"), Decimal("1.5"), np.ma.array(1.0, mask=True)]


@pytest.mark.parametrize("value", [*NO_NUMBERS, np.nan, [1.0, 2.0]], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "ways",
    [
        lambda value: {"structure": abp.Equality(value)},
        lambda value: {"structure": abp.Equality(0.0, value)},
        lambda value: {"structure": abp.Deterministic(lambda a: a, value)},
        lambda value: {"structure": abp.Deterministic(lambda a: a, 0.0, value)},
        lambda value: {"structure": abp.Difference([0.0], 0, value)},
        lambda value: {"entries": ([[0, 0]], value)},
    ],
    ids=["same", "default of equality", "score", "default of a function", "default of a difference", "values"],
)
def test_what_is_no_log_score_is_refused(ways, value):
    graph = abp.FactorGraph()
    graph.add_variables(2, 3)
    with pytest.raises(abp.ModelError, match="factor 0"):
        graph.add_factor([0, 1], **ways(value))


def test_states_of_different_lengths_are_refused():
    graph = abp.FactorGraph()
    graph.add_variables(2, 3)
    with pytest.raises(abp.ModelError, match="AtMostOne"):
        graph.add_factor([0, 1], structure=abp.AtMostOne([[1], [1, 2]]))

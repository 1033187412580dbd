"""What is compiled before a run's clock starts."""

import importlib
import pkgutil
import sys

import numpy as np
import pytest

import anytimebp as abp
import anytimebp.kernels
from oracle.models import grid

pytestmark = pytest.mark.compiled


def signatures():
    """Return how many versions of each kernel there are."""
    found = {}
    for module in pkgutil.iter_modules(anytimebp.kernels.__path__):
        for name, value in vars(importlib.import_module(f"anytimebp.kernels.{module.name}")).items():
            if hasattr(value, "overloads"):
                found[module.name, name] = len(value.overloads)
    return found


def test_a_run_of_adaptive_compiles_nothing_after_its_clock_has_started():
    abp.infer(grid(2, 2, 1.0, 0.5, seed=0))
    assert "anytimebp.kernels.rounds" in sys.modules
    before = signatures()
    for graph in (grid(4, 120, 10.0, 1.0, seed=0), grid(5, 50, 6.0, 2.0, seed=0), grid(5, 60, 1.0, 0.5, seed=0)):
        ways = {moment.choice.split(":")[0] for moment in abp.infer(graph).trace}
        assert ways
        abp.infer(graph, target_error=1e-3)
        abp.infer(graph, evidence={"x0": 1, "x1": np.zeros(graph.variables[1].n_states)})
        abp.infer(graph, damping=0.3)
    assert signatures() == before

"""Random models by every method, each answer checked independently of the library.

Set ANYTIMEBP_MODELS to the number of models per method, ANYTIMEBP_FIRST_MODEL to the first seed. To look at one seed:
`python tests/fuzz/try_models.py --show --count 1 --first-seed SEED --method METHOD`.
"""

import os
from dataclasses import replace

import numpy as np
import pytest

import anytimebp as abp
from fuzz.trials import UNCOMPILED, Trial
from oracle.random_models import random_plan
from oracle.verdict import Kept, check_snapshot, enumerated, supported

COUNT = int(os.environ.get("ANYTIMEBP_MODELS", "4" if UNCOMPILED else "24"))
FIRST = int(os.environ.get("ANYTIMEBP_FIRST_MODEL", "0"))


@pytest.mark.parametrize("method", abp.METHODS)
def test_every_answer_on_random_models_holds_up(method):
    failed, endings = [], set()
    for seed in range(FIRST, FIRST + COUNT):
        trial = Trial(seed, method)
        trial.run()
        failed += [f"seed {seed}, {method}: {kind}: {text:.300}" for kind, text in trial.complaints]
        endings.update(trial.endings)
    assert not failed, "\n".join(failed)
    assert "CONVERGED" in endings or COUNT < 4  # the checks have had something to check


ONCE_WRONG = [
    ("random", 11443),
    ("adaptive", 10199),
    ("adaptive", 10932),
    ("adaptive", 701821),
    ("adaptive", 750042),
    ("adaptive", 874836),
    ("dynamic", 76107),
    ("fixed", 76107),
]


@pytest.mark.parametrize(("method", "seed"), ONCE_WRONG)
def test_models_that_were_once_answered_wrongly_hold_up(method, seed):
    trial = Trial(seed, method)
    trial.run()
    assert not trial.complaints


def kinds(plan, snapshot):
    return {kind for kind, _ in check_snapshot(plan, snapshot)}


def plans(wanted):
    """Give the first plans that converge and for which something holds."""
    for seed in range(1000):
        plan = random_plan(seed)
        if wanted(plan) and all(alive.any() for alive in supported(plan)):
            yield plan


def converged(plan, **options):
    return abp.infer(plan.graph(), "bp", evidence=plan.given, factor_marginals=True, **options)


def coupled(plan):
    """Tell whether a plan is a small, mild model in which messages matter."""
    return plan.is_forest and len(plan.sizes) < 8 and all(abs(t).max() < 3.0 for s, t in plan.factors if len(s) > 1)


def test_the_plans_tables_are_those_of_the_graph():
    for seed in range(40):
        plan = random_plan(seed)
        graph = plan.graph()
        assert graph.n_factors == len(plan.factors)
        for f, (scope, table) in enumerate(plan.factors):
            assert graph.factor_scope(f) == tuple(f"v{i}" for i in scope)
            assert np.array_equal(graph.factor_log_table(f), table)


def test_a_wrong_log_z_is_found():
    plan = next(plans(coupled))
    result = converged(plan)
    assert kinds(plan, result) == set()
    assert any("log Z" in kind for kind in kinds(plan, replace(result, log_z=result.log_z + 1e-4)))


def test_messages_that_have_not_settled_are_found():
    plan = next(p for p in plans(lambda p: p.shape == "cycle" and coupled_cycle(p)))
    result = converged(plan, tolerance=1e-2)
    assert kinds(plan, result) == set()
    assert "a message moves by more than the tolerance" in kinds(plan, replace(result, tolerance=1e-13))


def coupled_cycle(plan):
    return len(plan.sizes) < 8 and min(plan.sizes) > 1 and all(0.3 < abs(t).max() < 3.0 for _, t in plan.factors)


def test_the_answer_of_another_model_is_found():
    plan = next(p for p in plans(coupled) if any(len(scope) > 1 and table.size > 3 for scope, table in p.factors))
    other = random_plan(plan.seed)
    block = next(b for b in other.blocks if len(b.scopes[0]) > 1 and b.table(0).size > 3)
    block.tables[0] = block.tables[0].copy()
    block.tables[0].flat[-1] += 1e-3
    assert kinds(other, converged(plan))


def test_a_snapshot_that_changes_is_found():
    plan = next(plans(coupled))
    result = converged(plan)
    kept = Kept(result)
    assert kept.changes() == []
    kept.snapshot = replace(result, log_z=result.log_z + 1e-15 * abs(result.log_z) + 1e-15)
    assert len(kept.changes()) == 1


def test_messages_vanish_where_no_state_is_supported():
    found = {True: 0, False: 0}
    for seed in range(300):
        plan = random_plan(seed)
        if plan.can_be_enumerated and plan.is_forest:
            alive = all(a.any() for a in supported(plan))
            assert alive == (enumerated(plan) is not None)
            found[alive] += 1
    assert min(found.values()) > 0

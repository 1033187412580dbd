"""One run, measured: against the same run stopped by hand."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import anytimebp as abp
from anytimebp_evaluation.contenders import CONTENDERS
from anytimebp_evaluation.families import (
    GRIDS,
    N_RELATIONS,
    N_TYPES,
    READINGS,
    Arrays,
    graph_of,
    grid,
    joint_extraction,
)
from anytimebp_evaluation.folder import ResultsFolder
from anytimebp_evaluation.pairs import PairModel
from anytimebp_evaluation.plans import PLANS
from anytimebp_evaluation.sampling import Setting, converged_bp, measure

pytestmark = pytest.mark.compiled  # how runs are measured, not kernels: one pass is enough


@pytest.fixture(scope="module")
def small():
    return graph_of(grid(3, 3, 6, 4.0, 1.0, seed=2))


@pytest.fixture(scope="module")
def reference(small):
    return converged_bp(small)


def setting(graph, reference, **changes):
    return Setting(**{"graph": graph, "reference": reference, "seed": 5, "tolerance": 1e-6, **changes})


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_is_followed_to_its_end(small, reference, name):
    curve = measure(CONTENDERS[name], setting(small, reference))
    assert curve.ended == "CONVERGED"
    for figure in ("seconds", "work", "updates"):
        values = [getattr(point, figure) for point in curve.points]
        assert values == sorted(values)
    last = curve.points[-1]
    assert last.seconds > 0
    assert all(np.isfinite([point.l2, point.tv]).all() for point in curve.points)
    assert all(0 <= point.message_work <= point.work for point in curve.points)
    if name != "truncbp":
        assert last.l2 < max(1e-5, 0.01 * CONTENDERS[name].options.get("tolerance", 0.0))
        assert last.states == 54


@pytest.mark.parametrize("name", [name for name in CONTENDERS if name != "rbp-ahead"])  # not a method of the library
def test_the_last_point_is_the_result_of_the_method(small, reference, name):
    contender = CONTENDERS[name]
    result = abp.infer(small, contender.method, rng=5, **{"tolerance": 1e-6, **contender.options})
    last = measure(contender, setting(small, reference)).points[-1]
    assert (last.work, last.updates) == (result.work, result.updates)
    assert last.l2 == result.distance(reference)
    assert last.tv == result.distance(reference, "tv")


@pytest.mark.parametrize("name", ["bp", "fixed", "dynamic"])
def test_points_on_the_way_are_those_of_a_run_that_is_stopped_there(small, reference, name):
    contender = CONTENDERS[name]
    points = measure(contender, setting(small, reference)).points
    for point in points[:: max(1, len(points) // 5)]:
        with warnings.catch_warnings(action="ignore", category=abp.NotConvergedWarning):
            stopped = abp.infer(
                small, contender.method, tolerance=1e-6, rng=5, max_updates=point.updates, **contender.options
            )
        assert stopped.current.updates == point.updates
        assert stopped.current.work == point.work
        assert stopped.distance(reference) == point.l2


def test_a_run_to_an_error_ends_well_under_it(small, reference):
    curve = measure(CONTENDERS["dynamic"], setting(small, reference, error=1e-2))
    assert curve.ended == "CLOSE_ENOUGH"
    assert curve.points[-1].l2 <= 1e-3
    assert all(point.l2 > 1e-3 for point in curve.points[:-1])


def test_a_method_that_grows_is_given_up_when_it_has_read_enough(small, reference):
    curve = measure(CONTENDERS["fixed"], setting(small, reference, max_work=2000))
    assert curve.ended == "GIVEN_UP"
    assert curve.points[-1].work >= 2000
    assert curve.points[-2].work < 2000


def test_a_measurement_leaves_no_layout_behind(small, reference):
    measure(CONTENDERS["bp"], setting(small, reference))
    assert small.compiled is None


def test_ctrl_c_ends_the_whole_evaluation(small, reference, monkeypatch):
    real = abp.Inference.run

    def interrupted(self, **limits):
        result = real(self, **limits)
        return abp.Result.of(result, result, abp.StopReason.INTERRUPTED, result.trace)

    monkeypatch.setattr(abp.Inference, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure(CONTENDERS["bp"], setting(small, reference))


# ---------------------------------------------------------------- families
def test_the_families_are_those_that_are_stated():
    assert {name: tuple(scores) for name, scores in GRIDS.items()} == {
        "peaked": (10.0, 0.5),
        "middle": (6.0, 2.0),
        "flat": (1.0, 0.5),
        "high": (10.0, 1.0),
        "sharp": (12.0, 1.0),
        "strong": (12.0, 2.0),
    }
    model = grid(10, 10, 100, *GRIDS["peaked"], seed=3)
    assert np.std(model.unary) == pytest.approx(10.0, rel=0.05)
    assert np.std(model.tables) == pytest.approx(0.5, rel=0.01)
    assert len(model.scopes) == 180


def test_joint_extraction_is_stated_as_in_its_docstring():
    model = joint_extraction(8, 0, READINGS["flat"])
    graph = graph_of(model)
    assert [variable.n_states for variable in graph.variables] == [N_TYPES] * 8 + [N_RELATIONS] * 56
    assert graph.n_factors == 120
    assert model.tables.shape[1:] == (42, 42, 24)
    assert model.tables[..., 0].mean() == pytest.approx(0.5, abs=0.05)
    assert (model.tables[..., 1:].mean(axis=0) > -2.0).mean() == pytest.approx(0.03, abs=0.005)
    assert np.std(model.tables - model.tables.mean(axis=0)) == pytest.approx(0.3, rel=0.02)


def test_arrays_and_graph_say_the_same():
    model = Arrays(np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([[0, 1]]), np.array([[[0.0, 1.0], [2.0, 3.0]]]))
    graph = graph_of(model)
    assert [graph.factor_scope(k) for k in range(3)] == [("x0",), ("x1",), ("x0", "x1")]
    assert graph.factor_log_table(1).tolist() == [2.0, 3.0]
    assert graph.factor_log_table(2).tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_plans_tell_settings_that_differ_apart():
    assert PLANS["grids"].settings() != PLANS["domains"].settings()
    assert PLANS["grids"].settings() == replace(PLANS["grids"], families=("flat",), runs=1).settings()


def test_a_family_that_has_changed_is_refused_and_a_new_one_joins(tmp_path):
    folder = ResultsFolder(tmp_path)
    old = replace(PLANS["grids"], families=("peaked",))
    folder.note_machine("grids", old.settings(), {"peaked": old.scores("peaked")})
    assert folder.raw(PLANS["grids"]).curves == {}
    folder.note_machine("grids", old.settings(), {"flat": old.scores("flat")})
    assert set(folder.about("grids")["families"]) == {"peaked", "flat"}
    folder.note_machine("grids", old.settings(), {"flat": "something else"})
    with pytest.raises(abp.OptionError, match="another family 'flat' .something else, not unary log scores Normal"):
        folder.raw(PLANS["grids"])


def test_residuals_by_the_formula_of_the_paper_are_never_infinite(small, reference):
    for name in PLANS["residuals"].contenders:
        curve = measure(CONTENDERS[name], setting(small, reference, timed=False, pairs=PairModel.of(small)))
        assert np.isfinite([point.mean_residual for point in curve.points if point.updates]).all()

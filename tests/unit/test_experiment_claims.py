"""The paper's observations are judged from curves: on invented runs of which the answer is known."""

from dataclasses import replace

import numpy as np
import pytest

from anytimebp.experiments.campaign import REFERENCE
from anytimebp.experiments.claims import GRID_CLAIMS, judge_all
from anytimebp.experiments.contenders import CONTENDERS
from anytimebp.experiments.evaluation import CHAPTERS
from anytimebp.experiments.plans import PLANS
from anytimebp.experiments.raw import Key
from anytimebp.experiments.runs import Runs
from anytimebp.experiments.sampling import Curve, Point
from anytimebp.experiments.size_claims import DOMAIN_CLAIMS, JOINT_CLAIMS

GRIDS = replace(PLANS["grids"], families=("peaked",), runs=2)
DOMAINS = replace(PLANS["domains"], families=("peaked",), sizes=(10, 250), runs=2)


def falling(begin, end, first=0.5, last=1e-9, residuals=(1.0, 1e-9), ended="CONVERGED"):
    """Return a run whose error and residual fall by the same factor from step to step, from one time to another."""
    seconds, errors = np.geomspace(begin, end, 40), np.geomspace(first, last, 40)
    return Curve(
        [
            Point(float(s), int(1e6 * s), int(5e5 * s), k, 9, float(r), float(e), float(e))
            for k, (s, e, r) in enumerate(zip(seconds, errors, np.geomspace(*residuals, 40), strict=True))
        ],
        ended,
    )


AS_IN_THE_PAPER = {
    "bp": falling(20.0, 40.0),
    "bp-random": falling(20.0, 45.0),
    "rbp": falling(30.0, 67.0),
    "truncbp": falling(1.0, 2.0, last=0.05),
    "random": falling(0.5, 60.0, last=1e-8),
    "fixed": falling(0.1, 12.0, residuals=(1e-5, 1e-7)),
    "dynamic": falling(1.0, 4.0, residuals=(1e-5, 1e-7)),
    "fixed-raw": falling(1.0, 50.0),
    "dynamic-raw": falling(1.0, 50.0),
    "adaptive": falling(0.5, 2.0),
}
UPSIDE_DOWN = {
    **AS_IN_THE_PAPER,
    "bp-random": falling(0.01, 45.0, residuals=(1e-4, 1e-9)),
    "truncbp": falling(1.0, 2.0, last=1e-5),
    "random": falling(30.0, 50.0),
    "fixed": falling(40.0, 50.0, residuals=(1.0, 1e-2)),
    "dynamic": falling(30.0, 55.0),
}


def runs_of(curves, plan):
    return Runs(
        plan,
        {
            Key(family, size, seed, name): curves[name]
            for family, size in plan.groups()
            for name in plan.contenders
            for seed in range(plan.runs)
        },
    )


def holds(curves, plan, claims):
    return [[verdict.holds for verdict in verdicts] for _, verdicts in judge_all(runs_of(curves, plan), claims)]


def test_what_the_paper_saw_is_seen_where_it_is_there():
    assert all(all(verdicts) for verdicts in holds(AS_IN_THE_PAPER, GRIDS, GRID_CLAIMS))


@pytest.mark.parametrize("which", range(len(GRID_CLAIMS)))
def test_every_observation_can_fail(which):
    assert not any(holds(UPSIDE_DOWN, GRIDS, GRID_CLAIMS)[which])


def test_costs_compare_with_the_better_bp_run_by_run():
    curves = {**AS_IN_THE_PAPER, "bp-random": falling(10.0, 20.0)}
    cost = runs_of(curves, GRIDS).cost("peaked", 100, "adaptive", 1e-7)
    slower = runs_of(curves, GRIDS).cost("peaked", 100, "bp", 1e-7)
    assert cost.reached == cost.runs == 2
    assert slower.times_faster == pytest.approx(0.5, rel=0.01)
    assert cost.times_less_messages == pytest.approx(2 * cost.times_less_work, rel=0.01)
    assert cost.fastest == cost.slowest == pytest.approx(cost.seconds)


def test_what_is_never_reached_has_no_time():
    cost = runs_of(AS_IN_THE_PAPER, GRIDS).cost("peaked", 100, "truncbp", 1e-7)
    assert (cost.reached, cost.given_up) == (0, 0)
    assert np.isnan(cost.seconds)


def test_models_that_a_contender_is_missing_on_do_not_count():
    curves = {Key("peaked", 100, seed, name): AS_IN_THE_PAPER[name] for name in GRIDS.contenders for seed in range(3)}
    del curves[Key("peaked", 100, 0, "rbp")]
    curves[Key("peaked", 100, 7, REFERENCE)] = falling(1, 2)
    runs = Runs(GRIDS, curves)
    assert runs.seeds("peaked", 100) == [1, 2]
    assert [key.seed for key in runs.unsettled] == [7]


def sized(gain_small, gain_large, plan):
    """Return runs in which the growing methods are so many times faster than BP at the smallest and largest size."""
    bp = falling(20.0, 40.0)
    gains = dict(zip(plan.sizes, (gain_small, gain_large), strict=True))
    return Runs(
        plan,
        {
            Key(family, size, seed, name): falling(20.0 / gains[size], 40.0 / gains[size])
            if name in {"fixed", "dynamic"}
            else bp
            for family, size in plan.groups()
            for name in plan.contenders
            for seed in range(plan.runs)
        },
    )


def verdicts_of(runs, claims):
    return [{verdict.holds for verdict in verdicts} for _, verdicts in judge_all(runs, claims)]


def test_gains_with_size_are_judged():
    assert verdicts_of(sized(0.5, 30.0, DOMAINS), DOMAIN_CLAIMS) == [{True}, {True}, {True}]
    assert verdicts_of(sized(2.0, 1.5, DOMAINS), DOMAIN_CLAIMS) == [{False}, {False}, {False}]
    joint = replace(PLANS["joint-ie"], families=("flat",), sizes=(4, 8), runs=2)
    assert verdicts_of(sized(1.5, 6.5, joint), JOINT_CLAIMS) == [{True}, {True}, {True}]
    assert verdicts_of(sized(4.0, 3.0, joint), JOINT_CLAIMS) == [{False}, {False}, {False}]


def test_gains_that_were_never_reached_are_no_gains():
    never = {
        **AS_IN_THE_PAPER,
        "fixed": falling(1.0, 2.0, last=0.1),
        "dynamic": falling(1, 2, last=0.1, ended="GIVEN_UP"),
    }
    small, at_250, grows = verdicts_of(runs_of(never, DOMAINS), DOMAIN_CLAIMS)
    assert (small, at_250, grows) == ({True}, {False}, {False})


# ---------------------------------------------------------------- the page
def test_the_page_says_where_we_do_not_see_it_and_why():
    page = CHAPTERS["grids"].section(runs_of(UPSIDE_DOWN, GRIDS), ["2026-01-01, a machine."])
    for claim in GRID_CLAIMS:
        assert f"- **{claim.text}**: not on peaked" in page
        assert claim.otherwise in page
    assert "**no**" in page
    assert "2026-01-01, a machine." in page
    assert "results/grids-peaked.png" in page


def test_the_page_has_the_papers_figures_beside_ours():
    page = CHAPTERS["grids"].section(runs_of(AS_IN_THE_PAPER, GRIDS), [])
    assert "| Fixed | 3.7 | 12 | " in page
    assert "Where we do not see" not in page
    assert all(CONTENDERS[name].label in page for name in GRIDS.contenders)
    joint = replace(PLANS["joint-ie"], sizes=(4, 8))
    shown = CHAPTERS["joint-ie"].section(runs_of(AS_IN_THE_PAPER, joint), [])
    assert "| Dynamic | 24,931 | 36,432 | 41,371 |" in shown


def test_what_was_given_up_is_called_so():
    curves = {**AS_IN_THE_PAPER, "fixed": falling(1.0, 2.0, last=0.1, ended="GIVEN_UP")}
    page = CHAPTERS["domains"].section(runs_of(curves, DOMAINS), [])
    assert "given up" in page.split("| 10 |")[1].split("\n")[0]


def test_figures_show_every_panel():
    figures = {
        **CHAPTERS["grids"].figures(runs_of(AS_IN_THE_PAPER, GRIDS)),
        **CHAPTERS["domains"].figures(runs_of(AS_IN_THE_PAPER, DOMAINS)),
        **CHAPTERS["joint-ie"].figures(runs_of(AS_IN_THE_PAPER, PLANS["joint-ie"])),
    }
    assert {name: len(figure.axes) for name, figure in figures.items()} == {
        "grids-peaked": 6,
        "domains": 3,
        "joint-ie": 6,
    }
    for figure in figures.values():
        assert all(axes.lines for axes in figure.axes)

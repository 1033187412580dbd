"""The paper's observations are judged from curves: on invented runs of which the answer is known."""

from dataclasses import replace

import numpy as np
import pytest

from anytimebp_evaluation.campaign import REFERENCE
from anytimebp_evaluation.claims import GRID_CLAIMS, RESIDUAL_CLAIMS
from anytimebp_evaluation.contenders import CONTENDERS, ROUND_TOLERANCES
from anytimebp_evaluation.evaluation import CHAPTERS
from anytimebp_evaluation.headlines import headlines
from anytimebp_evaluation.markdown import times
from anytimebp_evaluation.plans import PLANS
from anytimebp_evaluation.raw import Key
from anytimebp_evaluation.runs import Runs
from anytimebp_evaluation.sampling import Curve, Point
from anytimebp_evaluation.size_claims import DOMAIN_CLAIMS, JOINT_CLAIMS
from anytimebp_evaluation.tolerances import tolerance_part
from anytimebp_evaluation.verdicts import judge_all

pytestmark = pytest.mark.compiled  # files, tables and figures, not kernels: one pass is enough

GRIDS = replace(PLANS["grids"], families=("peaked",), runs=2, side=2)  # priorities cost next to nothing
RESIDUALS = replace(PLANS["residuals"], families=("peaked",), runs=2)
DOMAINS = replace(PLANS["domains"], families=("peaked",), sizes=(10, 250), runs=2)


def falling(begin, end, first=0.5, last=1e-9, residuals=(1.0, 1e-9), ended="CONVERGED", states=9):
    """Return a run whose error and residual fall by the same factor from step to step, from one time to another."""
    seconds, errors = np.geomspace(begin, end, 40), np.geomspace(first, last, 40)
    return Curve(
        [
            Point(float(s), int(1e6 * s), int(5e5 * s), k, states, float(r), float(e), float(e))
            for k, (s, e, r) in enumerate(zip(seconds, errors, np.geomspace(*residuals, 40), strict=True))
        ],
        ended,
    )


def late(curve, high=1.0):
    """Return the same run with a residual that stays high and falls in the last tenth."""
    kept = int(0.9 * len(curve.points))
    points = [point._replace(mean_residual=high) if k < kept else point for k, point in enumerate(curve.points)]
    return Curve(points, curve.ended)


AS_IN_THE_PAPER = {
    "bp": late(falling(20.0, 40.0)),
    "bp-random": late(falling(20.0, 45.0)),
    "rbp": late(falling(30.0, 67.0)),
    "truncbp": falling(1.0, 2.0, last=0.05, states=3),
    "random": falling(0.5, 60.0, last=1e-8),
    "fixed": falling(2.0, 14.0, last=1e-10, residuals=(1e-5, 1e-7)),
    "dynamic": falling(6.0, 10.5, last=1e-10, residuals=(1e-5, 1e-7)),
    "fixed-raw": falling(1.0, 50.0),
    "dynamic-raw": falling(1.0, 50.0),
    "adaptive": falling(0.5, 2.0),
    "rbp-ahead": falling(60.0, 130.0),
}
UPSIDE_DOWN = {
    **AS_IN_THE_PAPER,
    "bp-random": falling(20.0, 45.0),
    "truncbp": falling(1.0, 2.0, last=1e-9, states=3),
    "random": falling(30.0, 45.0),
    "fixed": falling(40.0, 60.0, residuals=(1.0, 1e-2)),
    "dynamic": falling(20.0, 50.0),
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


def test_residuals_are_as_in_the_paper_where_they_are():
    assert all(all(verdicts) for verdicts in holds(AS_IN_THE_PAPER, RESIDUALS, RESIDUAL_CLAIMS))
    assert all(set(verdicts) == {False} for verdicts in holds(UPSIDE_DOWN, RESIDUALS, RESIDUAL_CLAIMS))


@pytest.mark.parametrize("which", range(len(GRID_CLAIMS)))
def test_every_observation_can_fail(which):
    assert set(holds(UPSIDE_DOWN, GRIDS, GRID_CLAIMS)[which]) == {False}


def test_what_differs_by_less_than_a_tenth_cannot_be_told():
    curves = {**AS_IN_THE_PAPER, **dict.fromkeys(("fixed", "dynamic", "random"), falling(1.0, 4.0))}
    told = dict(zip([claim.text for claim in GRID_CLAIMS], holds(curves, GRIDS, GRID_CLAIMS), strict=True))
    for text, n in (("Random falls behind", 2), ("Fixed is ahead", 3), ("Fixed is still", 3), ("Dynamic overtakes", 3)):
        assert [verdicts for claim, verdicts in told.items() if claim.startswith(text)] == [[None] * n]


def test_costs_compare_with_bp_in_random_order_run_by_run():
    curves = {**AS_IN_THE_PAPER, "bp-random": falling(10.0, 20.0), "bp": falling(5.0, 10.0)}
    cost = runs_of(curves, GRIDS).cost("peaked", 100, "adaptive", 1e-7)
    ordered = runs_of(curves, GRIDS).cost("peaked", 100, "bp", 1e-7)
    assert cost.reached == cost.runs == 2
    assert ordered.faster.mean == pytest.approx(2.0, rel=0.01)
    assert cost.less_messages.mean == pytest.approx(2 * cost.less_work.mean, rel=0.01)
    assert cost.seconds.low == cost.seconds.high == pytest.approx(cost.seconds.mean)


def test_what_is_never_reached_has_no_time():
    cost = runs_of(AS_IN_THE_PAPER, GRIDS).cost("peaked", 100, "truncbp", 1e-7)
    assert (cost.reached, cost.given_up, cost.elsewhere) == (0, 0, 0)
    assert np.isnan([*cost.seconds, *cost.faster, cost.states]).all()


def test_settling_elsewhere_is_told_from_never_getting_there():
    curves = {**AS_IN_THE_PAPER, "bp-random": falling(10.0, 20.0, last=0.3)}
    cost = runs_of(curves, GRIDS).cost("peaked", 100, "bp-random", 1e-7)
    assert (cost.reached, cost.given_up, cost.elsewhere) == (0, 0, 2)
    page = CHAPTERS["grids"].section(runs_of(curves, GRIDS), [])
    assert "| RBP, look-ahead |  |  | not timed | - | " in page
    assert "| BP, random order | 45.5 | 1.0 | at another fixed point | - | - | - |" in page
    assert "| TruncBP |  |  | never | - | - | - |" in page


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
    given_up = {**never, "fixed": never["dynamic"]}
    assert verdicts_of(runs_of(given_up, DOMAINS), DOMAIN_CLAIMS) == [{True}, {False}, {None}]
    assert verdicts_of(runs_of(never, DOMAINS), DOMAIN_CLAIMS) == [{None}, {None}, {None}]


def test_what_the_runs_cannot_tell_is_called_so_and_drawn_all_the_same():
    short = {
        **AS_IN_THE_PAPER,
        **{name: falling(1.0, 2.0, last=0.2) for name in ("bp-random", "fixed", "dynamic", "random")},
    }
    told = dict(zip([claim.text for claim in GRID_CLAIMS], holds(short, GRIDS, GRID_CLAIMS), strict=True))
    for text, n in (("Random falls behind", 2), ("Fixed is ahead", 3), ("Fixed is still", 3), ("Dynamic overtakes", 3)):
        assert [verdicts for claim, verdicts in told.items() if claim.startswith(text)] == [[None] * n]
    page = CHAPTERS["grids"].section(runs_of(short, GRIDS), [])
    assert "cannot be told" in page
    assert "nan" not in page
    assert "inf" not in page.replace("infinite", "")


def test_the_papers_sizes_are_judged_at_no_other_size():
    small = replace(DOMAINS, sizes=(10, 20))
    (verdicts,) = [v for claim, v in judge_all(runs_of(AS_IN_THE_PAPER, small), DOMAIN_CLAIMS) if "250" in claim.text]
    assert [verdict.holds for verdict in verdicts] == [None]


def test_a_leader_from_the_start_overtakes_nobody():
    curves = {**AS_IN_THE_PAPER, "dynamic": falling(0.05, 4.0, residuals=(1e-5, 1e-7))}
    page = CHAPTERS["grids"].section(runs_of(curves, GRIDS), [])
    assert "- **Dynamic overtakes Fixed in the end**: not on peaked (time), peaked (work)" in page
    assert "ahead throughout: Fixed / Dynamic at L2 0.1 to 1e-08" in page


def test_sizes_that_are_missing_are_named():
    plan = replace(DOMAINS, sizes=(10, 20, 250))
    curves = runs_of(AS_IN_THE_PAPER, DOMAINS)._curves
    unsettled = {Key("peaked", 20, seed, REFERENCE): falling(1, 2) for seed in range(3)}
    runs = Runs(plan, {**curves, **unsettled})
    assert runs.sizes("peaked") == [10, 250]
    page = CHAPTERS["domains"].section(runs, [])
    assert "BP does not settle, however damped, on peaked 20 seed 0, peaked 20 seed 1, peaked 20 seed 2;" in page
    assert "Not measured: peaked 20." in page
    assert CHAPTERS["domains"].figures(runs)["domains"].axes


# ---------------------------------------------------------------- the page
def test_the_page_says_where_we_do_not_see_it_and_why():
    page = CHAPTERS["grids"].section(runs_of(UPSIDE_DOWN, GRIDS), ["2026-01-01, a machine."])
    judged = judge_all(runs_of(UPSIDE_DOWN, GRIDS), GRID_CLAIMS)
    for claim, verdicts in judged:
        places = [f"{one.family} ({one.axis})" if one.axis else one.family for one in verdicts]
        assert claim.why
        assert f"- **{claim.text}**: not on {', '.join(places)}. {claim.why}\n" in f"{page}\n"
    assert "**no**" in page
    assert "2026-01-01, a machine." in page
    assert "results/grids-peaked.png" in page


def test_the_page_has_the_papers_figures_beside_ours():
    page = CHAPTERS["grids"].section(runs_of(AS_IN_THE_PAPER, GRIDS), [])
    assert "| Fixed | 3.7 | 12 | " in page
    assert "Why we do not see" not in page
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
        **CHAPTERS["residuals"].figures(runs_of(AS_IN_THE_PAPER, RESIDUALS)),
        **CHAPTERS["domains"].figures(runs_of(AS_IN_THE_PAPER, DOMAINS)),
        **CHAPTERS["joint-ie"].figures(runs_of(AS_IN_THE_PAPER, PLANS["joint-ie"])),
    }
    assert {name: len(figure.axes) for name, figure in figures.items()} == {
        "grids-peaked": 4,
        "residuals": 1,
        "domains": 3,
        "joint-ie": 6,
    }
    for name, figure in figures.items():
        plan = GRIDS if name.startswith("grids") else RESIDUALS if name == "residuals" else PLANS[name]
        drawn = [each for each in plan.contenders if CONTENDERS[each].drawn]
        for index, axes in enumerate(figure.axes):
            rows = 3 if name in {"domains", "joint-ie"} else 1
            wanted = drawn if rows == 1 or index < len(figure.axes) // rows else ("fixed", "dynamic", "adaptive")
            shown = {line.get_color() for line in axes.lines if len(line.get_xdata()) > 1}
            assert {CONTENDERS[each].colour for each in wanted} <= shown
            assert len(axes.collections) == len(wanted)  # the spread of each


# ---------------------------------------------------------------- the summary and the round tolerance
def everything(curves):
    plans = {name: replace(plan, sizes=plan.sizes[-1:], runs=1) for name, plan in PLANS.items() if name != "joint-ie"}
    plans["joint-ie"] = replace(PLANS["joint-ie"], sizes=(8,), runs=1)
    by_name = {name: curves[name.partition("-0")[0].partition("-1e")[0]] for name in CONTENDERS}
    return {name: runs_of(by_name, plan) for name, plan in plans.items()}


def test_the_summary_has_the_figures_of_the_tables():
    runs = everything({**AS_IN_THE_PAPER, "dynamic": falling(1.0, 4.0)})
    title, lines = headlines(runs)
    assert title == "## Summary"
    assert len(lines.split("\n")) == 10
    cost = runs["grids"].cost("sharp", 100, "dynamic", 1e-7)
    assert f"Dynamic {times(cost.less_work.mean)} times less" in lines
    assert "nan" not in lines


def test_there_is_no_summary_of_a_part_of_the_experiments():
    runs = everything(AS_IN_THE_PAPER)
    del runs["tolerance"]
    assert headlines(runs) == []


def test_the_round_tolerance_has_a_row_per_family_and_tolerance():
    runs = everything({**AS_IN_THE_PAPER, "fixed": falling(1.0, 2.0, last=0.1, ended="GIVEN_UP")})["tolerance"]
    rows = [line for line in tolerance_part(runs).split("\n") if line.startswith("|")][2:]
    assert len(rows) == len(PLANS["tolerance"].families) * len(ROUND_TOLERANCES)
    dynamic = runs.cost("peaked", 100, "dynamic-0.1", 1e-7)
    assert rows[0].endswith(f"| 0.1 | given up | given up | {times(dynamic.less_work.mean)} |")


def test_what_is_not_timed_has_a_row_only_where_it_was_measured():
    curves = dict(runs_of(AS_IN_THE_PAPER, GRIDS)._curves)
    del curves[Key("peaked", 100, 1, "rbp-ahead")]
    runs = Runs(GRIDS, curves)
    assert runs.seeds("peaked", 100) == [0, 1]
    page = CHAPTERS["grids"].section(runs, [])
    assert "| RBP, look-ahead |" not in page
    assert "| RBP |" in page

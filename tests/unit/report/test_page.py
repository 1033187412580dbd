"""The page on a run: what is in the file. How a browser shows it is tested in tests/browser."""

import json
import math
import re
from dataclasses import replace
from html import unescape
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.report import shown_marginals as shown_module
from anytimebp.report.page import as_json, page_html, thinned
from anytimebp.report.wording import figure_text, probability_text, share_text, short_text, shown_labels
from anytimebp.results.marginals import likeliest
from anytimebp.results.trace import Moment, Trace
from oracle.models import grid

HOSTILE = "</script><script>alert(1)</script>"
TIMINGS = re.compile(r'(<script type="application/json" id="timings">)(.*?)(</script>)')


def block(page, name):
    """Return one of the blocks of data in a page."""
    (text,) = re.findall(rf'<script type="application/json" id="{name}">(.*?)</script>', page)
    return json.loads(text)


def cards(page):
    shown = block(page, "marginals")
    return {
        card[0]: {
            "n_states": card[1],
            "n_active": card[2],
            "states": list(zip([shown["texts"][i] for i in card[3]], card[4], strict=True)),
            "rest": card[5],
            "rest_closed": card[6],
        }
        for card in shown["cards"]
    }


def one_variable(labels, log_scores, name="v"):
    graph = abp.FactorGraph()
    graph.add_variable(name, labels)
    graph.add_factor([0], log_table=log_scores)
    return abp.infer(graph, "bp")


def small_run(**options):
    record = abp.Every(rounds=1, estimates=True)
    return abp.infer(grid(3, 6, 2.0, 0.5, seed=1), "dynamic", record=record, rng=0, **options)


# Same run, same page


def test_two_runs_give_the_same_page_but_for_the_timings():
    pages = [page_html(result, about={"seed": "0"}) for result in (small_run(), small_run())]
    assert TIMINGS.search(pages[0])[2] != TIMINGS.search(pages[1])[2]
    same = [TIMINGS.sub(r"\1\3", page) for page in pages]
    assert same[0] == same[1]


def test_the_timings_stand_in_their_block_only():
    result = small_run()
    late = result.seconds + 1234.5
    moved = [point._replace(seconds=point.seconds + late) for point in result.trace]
    pages = [page_html(replace(result, trace=Trace(points))) for points in (result.trace, moved)]
    assert TIMINGS.sub(r"\1\3", pages[0]) == TIMINGS.sub(r"\1\3", pages[1])
    timings = block(pages[1], "timings")
    assert timings["points"] == [point.seconds for point in moved]
    assert timings["answer"] == result.seconds
    assert timings["stopped"] == result.current.seconds


# Escaping


def test_no_name_label_or_line_ends_a_script_or_opens_a_tag():
    result = one_variable([HOSTILE, "<!--<script>", "b"], [0.0, 0.1, 0.2], name=HOSTILE)
    page = page_html(result, about={HOSTILE: HOSTILE, '"><img src=x onerror=alert(1)>': "'"})
    assert page.count("<script") == page.count("</script>") == 4
    assert "<!--" not in page
    assert "<img" not in page
    assert page.count(unescape("&lt;script&gt;alert")) == 0
    assert list(cards(page)) == [HOSTILE]
    assert {label for label, _ in cards(page)[HOSTILE]["states"]} == {HOSTILE, "<!--<script>", "b"}


def test_what_looks_like_a_placeholder_stays():
    page = page_html(one_variable(["$run", "${script}"], [0.0, 0.0], name="$title"), about={"$run": "${timings} $$"})
    assert "<dt>$run</dt><dd><bdi>${timings} $$</bdi></dd>" in page
    assert {label for label, _ in cards(page)["$title"]["states"]} == {"$run", "${script}"}


def test_any_text_can_be_written(tmp_path):
    labels = ["\ud800 half", "😀", "שלום", "a\u2028b", "\0", "x" * 500]
    result = one_variable(labels, np.zeros(6), name="\udfff")
    path = tmp_path / "report.html"
    abp.write_report(result, path, about={"half": "\ud800"})
    page = path.read_text(encoding="utf-8")
    assert [label for label, _ in cards(page)["\udfff"]["states"]] == labels
    assert "\\ud800" in page


def test_json_has_no_infinity():
    with pytest.raises(ValueError, match="JSON"):
        as_json(float("inf"))
    unknown = Moment(0.1, 1, 2, math.inf, math.nan, 0.0, 3, -math.inf)
    page = page_html(replace(one_variable(2, [0.0, 0.0]), trace=Trace([unknown])))
    points = block(page, "run")["points"]
    assert points["max_residual"] == points["mean_residual"] == points["log_z"] == [None]
    assert points["unexplored_mass"] == [0.0]  # the last point has the result's


def test_an_infinite_tolerance_is_no_obstacle():
    result = abp.infer(grid(2, 3, 1.0, 0.5, seed=0), "bp", tolerance=math.inf)
    assert block(page_html(result), "run")["tolerance"] is None


def test_the_page_asks_for_nothing():
    page = page_html(small_run())
    assert "default-src 'none'" in page
    assert re.findall(r"(?:src|href)=\"[^\"]*\"", page) == ['href="data:,"']
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in page
    assert "@import" not in page


# What the head says


def test_an_unsettled_answer_is_flagged():
    settled = small_run()
    unsettled = abp.infer(grid(4, 5, 2.0, 1.0, seed=0), "bp", max_updates=10)
    assert not unsettled.consistent
    assert 'class="warning" role="alert"' in page_html(unsettled)
    assert "not settled" in page_html(unsettled)
    assert 'role="alert"' not in page_html(settled)
    assert ">yes<" in page_html(settled)
    assert ">no<" in page_html(unsettled)


def test_a_run_without_time_says_that_nothing_is_known():
    result = abp.infer(grid(3, 5, 2.0, 1.0, seed=0), "dynamic", seconds=0.0)
    figures = dict(re.findall(r'<dt>(.*?)</dt><dd class="value".*?>(.*?)</dd>', page_html(result)))
    assert figures["Unexplored mass"] == "1"
    assert figures["log Z"] == "unknown"
    assert figures["Largest residual"] == "infinite"
    assert "not every message had been computed" in page_html(result)


def test_an_answer_on_part_of_the_states_says_so():
    result = small_run(max_work=400)
    assert result.consistent
    assert result.unexplored_mass > 0
    page = page_html(result)
    assert "Not all states took part" in page
    assert "Not all states took part" not in page_html(small_run())


def test_the_head_has_every_figure():
    result = small_run()
    page = page_html(result, about={"Model": "grid.uai"})
    figures = dict(re.findall(r'<dt>(.*?)</dt><dd class="value".*?>(.*?)</dd>', page))
    assert figures["log Z"] == figure_text(result.log_z, 9)
    assert figures["Work"] == f"{result.work:,}"
    assert figures["Updates"] == f"{result.updates:,}"
    assert figures["Method"] == "dynamic"
    assert figures["Arithmetic"] == "linear"
    assert figures["Active states"] == "54 of 54 (100\N{NO-BREAK SPACE}%)"
    assert figures["Unexplored mass"] == "0"
    assert figures["Consistent"] == "yes"
    assert figures["Time"] == ""
    assert "CONVERGED" in page
    assert "<dt>Model</dt><dd><bdi>grid.uai</bdi></dd>" in page


@pytest.mark.parametrize("method", abp.METHODS)
def test_every_method_is_explained(method):
    page = page_html(abp.infer(grid(2, 4, 1.0, 0.2, seed=0), method, rng=0))
    assert "How messages and states were chosen" not in page


def test_only_results_are_reported():
    result = small_run()
    with pytest.raises(abp.OptionError, match="Snapshot"):
        page_html(result.current)


def test_a_model_without_variables_has_a_page():
    assert "on 0 variables" in page_html(abp.infer(abp.FactorGraph(), "bp"))


# Numbers and labels


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1e-9, "1.00e-9"),
        (5e-324, "4.94e-324"),
        (0.000999, "9.99e-4"),
        (0.0123456, "0.0123"),
        (0.175, "0.175"),
        (0.5, "0.500"),
        (0.9944, "0.9944"),
        (0.9989, "0.9989"),
        (0.9995, "0.99950"),
        (0.99999, "0.999990"),
        (0.9999999, "> 0.999999"),
        (math.nextafter(1.0, 0.0), "> 0.999999"),
        (1.0, "> 0.999999"),
        (math.nan, "unknown"),
    ],
)
def test_probabilities_never_round_to_something_false(value, text):
    assert probability_text(value) == text


def test_probabilities_are_close_and_on_the_right_side():
    for value in np.concatenate([np.logspace(-12, 0, 500)[:-1], 1.0 - np.logspace(-12, -1, 500)]).tolist():
        text = probability_text(value)
        if text.startswith("> "):
            assert float(text[2:]) < value < 1
        else:
            assert 0 < float(text) < 1
            assert float(text) == pytest.approx(value, rel=6e-3)
            assert 1 - float(text) == pytest.approx(1 - value, rel=6e-2)


def test_one_is_shown_where_nothing_else_is_possible():
    assert cards(page_html(one_variable(["a", "b"], [0.0, -np.inf])))["v"]["states"] == [("a", "1"), ("b", "0")]
    shown = cards(page_html(one_variable(["a", "b"], [0.0, -50.0])))["v"]["states"]
    assert shown == [("a", "> 0.999999"), ("b", "1.93e-22")]


def test_shares_keep_nothing_and_everything_apart():
    space = "\N{NO-BREAK SPACE}"
    said = [share_text(part, 100_000) for part in (0, 1, 500, 34_500, 99_999, 100_000)]
    assert said == [f"{x}{space}%" for x in ("0", "under 0.1", "0.5", "34.5", "over 99.9", "100")]
    assert share_text(0, 0) == f"100{space}%"


def test_figures_as_text():
    assert figure_text(1e-8, 3) == "1e-8"
    assert figure_text(-1234.56789, 9) == "\N{MINUS SIGN}1234.56789"
    assert figure_text(math.inf, 3) == "infinite"
    assert figure_text(-1.5e-7, 3) == "\N{MINUS SIGN}1.5e-7"
    assert figure_text(math.nan, 3) == "unknown"


def test_labels_of_any_kind_are_told_apart():
    assert shown_labels([1, 2.5, None, ("a", 1), "x"]) == ["1", "2.5", "None", "('a', 1)", "x"]
    assert shown_labels([3, "3", "x"]) == ["3", "'3'", "x"]
    assert shown_labels(["", " "]) == ["''", "' '"]
    assert len(set(shown_labels([3, "3", "'3'"]))) == 3


def test_very_long_texts_are_cut_and_say_so():
    assert short_text("x" * 1000) == "x" * 1000
    assert short_text("x" * 12_345) == "x" * 1000 + "… (12,345 characters)"


# Bounds


def test_at_most_twenty_states_and_the_rest_in_sum():
    card = cards(page_html(one_variable(300, np.linspace(0.0, -30.0, 300))))["v"]
    marginal = one_variable(300, np.linspace(0.0, -30.0, 300)).marginals["v"]
    assert [label for label, _ in card["states"]] == [str(i) for i in range(20)]
    assert card["rest"] == probability_text(float(marginal[20:].sum()))
    assert card["rest_closed"] == probability_text(float(marginal[5:].sum()))
    assert card["n_states"] == 300


def test_zeros_of_a_large_universe_are_not_listed():
    log_scores = np.full(100, -np.inf)
    log_scores[[7, 50]] = 0.0
    card = cards(page_html(one_variable(100, log_scores)))["v"]
    assert card["states"] == [("7", "0.500"), ("50", "0.500")]
    assert card["rest"] == "0"


def test_at_most_five_thousand_variables_and_the_page_says_what_is_left_out():
    graph = abp.FactorGraph()
    graph.add_variables(5_003, 25)
    graph.add_factors(np.arange(5_003)[:, None], log_table=np.linspace(0.0, 1.0, 25))
    page = page_html(abp.infer(graph, "bp"))
    assert len(block(page, "marginals")["cards"]) == 5_000
    assert "the first 5,000 of 5,003 variables and at most 20 states of each variable" in page
    assert "<code>--output</code>" in page
    assert len(page) < 2_000_000
    assert "This page lists" not in page_html(one_variable(3, np.zeros(3)))


def test_long_labels_do_not_make_a_huge_page(monkeypatch):
    monkeypatch.setattr(shown_module, "MOST_CHARACTERS", 5_000)
    graph = abp.FactorGraph()
    for i in range(30):
        graph.add_variable(f"v{i}", [f"{i}{j}".ljust(500, "x") for j in range(2)])
    page = page_html(abp.infer(graph, "bp"))
    assert len(block(page, "marginals")["cards"]) == 5
    assert "the first 5 of 30 variables" in page


def test_labels_that_many_variables_share_are_written_once():
    graph = abp.FactorGraph()
    for i in range(50):
        graph.add_variable(f"v{i}", ["a label that all share", "another"])
    assert page_html(abp.infer(graph, "bp")).count("a label that all share") == 1


def test_likeliest_is_stable():
    rng = np.random.default_rng(0)
    for _ in range(50):
        marginal = rng.integers(0, 4, 60) / 100
        for count in (0, 1, 20, 60, 100):
            assert likeliest(marginal, count) == np.argsort(-marginal, kind="stable")[:count].tolist()


def test_by_uncertainty_is_by_entropy():
    graph = abp.FactorGraph()
    for name, odds in (("sure", 9.0), ("even", 0.0), ("fair", 1.0), ("even too", 0.0)):
        graph.add_variable(name, 2)
        graph.add_factor([name], log_table=[odds, 0.0])
    assert block(page_html(abp.infer(graph, "bp")), "marginals")["by_uncertainty"] == [1, 3, 2, 0]


def test_many_points_are_thinned_evenly_with_both_ends():
    points = [Moment(i / 10, i, i, 1.0, 1.0, 0.0, i, 0.0) for i in range(10_007)]
    kept = thinned(points, 2_000)
    assert len(kept) == 2_000
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    gaps = np.diff([point.updates for point in kept])
    assert set(gaps.tolist()) == {5, 6}
    run = block(page_html(replace(small_run(), trace=Trace(points))), "run")
    assert run["n_points"] == 10_007
    assert len(run["points"]["work"]) == 2_000


# Estimates in the trace


def test_a_trace_with_estimates_has_what_the_snapshots_had():
    seen = []
    options = {"record": abp.Every(rounds=1, estimates=True), "callback": seen.append}
    result = abp.infer(grid(3, 6, 2.0, 0.5, seed=1), "dynamic", **options)
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert len(result.trace) > 10
    del seen[-2]  # told twice: the end of the last round, and of the run
    for moment, snapshot in zip(result.trace, seen, strict=True):
        assert moment.states == snapshot.domain_sizes.sum()
        assert (moment.updates, moment.work, moment.log_z) == (snapshot.updates, snapshot.work, snapshot.log_z)
        assert (moment.max_residual, moment.mean_residual) == (snapshot.max_residual, snapshot.mean_residual)
        assert math.isnan(moment.unexplored_mass) or moment.unexplored_mass == snapshot.unexplored_mass
        assert math.isnan(moment.estimated_error) or moment.estimated_error == snapshot.estimated_error


def test_iterating_keeps_the_estimates_that_running_keeps():
    inference = abp.Inference(
        grid(3, 6, 2.0, 0.5, seed=1), "dynamic", rng=0, record=abp.Every(rounds=1, estimates=True)
    )
    for _ in inference:
        pass
    names = ("updates", "log_z", "unexplored_mass", "estimated_error")
    pulled, run = inference.run().trace, small_run().trace
    for name in names:
        np.testing.assert_array_equal(pulled.column(name), run.column(name))


def test_estimates_are_asked_for_now_and_then():
    trace = small_run().trace
    looked = [moment.states for moment in trace if not math.isnan(moment.unexplored_mass)]
    assert looked[0] == trace[0].states
    assert 3 < len(looked) < len(trace) / 2
    assert all(b >= 4 / 3 * a for a, b in pairwise(looked))


def test_estimates_are_no_part_of_a_trace_that_nobody_asked_for_them():
    plain = abp.infer(grid(3, 6, 2.0, 0.5, seed=1), "dynamic", rng=0)
    asked = small_run()
    for name in ("unexplored_mass", "estimated_error"):
        assert np.isnan(plain.trace.column(name)).all()
    for name in ("updates", "work", "states", "max_residual"):
        np.testing.assert_array_equal(plain.trace.column(name), asked.trace.column(name))


def test_a_moment_that_is_recorded_twice_keeps_its_estimates():
    graph = abp.FactorGraph()  # no messages: the last round and the end have the same figures
    graph.add_variables(2, 3)
    graph.add_factor([0], log_table=[0.0, 1.0, 2.0])
    trace = abp.infer(graph, "dynamic", record=abp.Every(rounds=1, estimates=True)).trace
    assert trace.column("states").tolist() == [2, 3, 4, 5, 6]
    assert np.isnan(trace.column("unexplored_mass")).tolist() == [False, False, False, True, False]


def test_a_trace_keeps_no_snapshot():
    assert all(type(value) in {int, float, str} for moment in small_run().trace for value in moment)


def test_a_page_without_estimates_has_those_of_the_end():
    result = abp.infer(grid(3, 6, 2.0, 0.5, seed=1), "dynamic", max_work=400)
    page = page_html(result)
    points = block(page, "run")["points"]
    assert points["work"] == result.trace.column("work").tolist()
    assert block(page, "timings")["points"] == result.trace.column("seconds").tolist()
    assert points["unexplored_mass"] == [*[None] * (len(result.trace) - 1), result.unexplored_mass]
    assert result.unexplored_mass > 0


def test_a_page_ends_where_the_run_stopped():
    result = small_run(max_updates=37)
    points = block(page_html(result), "run")["points"]
    assert points["updates"][-1] == result.current.updates == 37
    assert points["unexplored_mass"][-1] == result.unexplored_mass


# The file


def test_a_report_replaces_a_file_whole_or_not_at_all(tmp_path, monkeypatch):
    result = small_run()
    path = tmp_path / "report.html"
    path.write_text("old")
    abp.write_report(result, path)
    assert path.read_text(encoding="utf-8") == page_html(result)
    monkeypatch.setattr("anytimebp.report.page.page_html", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        abp.write_report(result, path)
    assert path.read_text(encoding="utf-8") == page_html(result)
    assert list(tmp_path.iterdir()) == [path]


def test_assets_are_in_the_package():
    names = {item.name for item in (files("anytimebp.report") / "assets").iterdir()}
    assert names == {"page.html", "page.css", "axes.js", "plots.js", "marginals.js"}


def test_a_mass_that_hard_zeros_hide_is_called_unknown():
    graph = abp.FactorGraph()  # the states that start together rule out the others
    graph.add_variables(3, 3)
    for pair in ((0, 1), (1, 2)):
        graph.add_factor(pair, table=np.diag([1.0, 0.8, 0.7]))
    inference = abp.Inference(graph, "dynamic")
    assert next(inference).consistent
    result = inference.run(max_updates=0)
    assert math.isnan(result.unexplored_mass)
    assert "cannot be estimated, because hard zeros" in page_html(result)
    assert abp.infer(graph, "dynamic", target_error=0.9).domain_sizes.sum() == 8  # not while states are shut out

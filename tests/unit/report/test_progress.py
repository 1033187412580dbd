"""What people see of a run, of its estimated error and of what `adaptive` chose: display, print, page and picture."""

import io
import json
import math
import re
from dataclasses import replace
from html import unescape
from itertools import pairwise

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.cli.show import ended_line, next_step, show_result
from anytimebp.report.page import page_html
from anytimebp.report.progress import RunDisplay
from anytimebp.report.wording import Chosen, choices_of, split_choice
from anytimebp.results.trace import Moment, Trace
from oracle.models import grid

PLAIN = Moment(1.25, 1_234, 99, 0.5, 0.25, 0.0, 54, math.nan)
SPARSE = "sparse domains: domains of 3 % of the states would cost 8 % of full BP"
TAILS = "frozen tails: a sweep over the likely states costs 3 % of a full one"
FULL = "full BP: residuals have not halved"


def moment(updates=1, choice="", error=math.nan):
    return PLAIN._replace(updates=updates, choice=choice, estimated_error=error)


def small_result(*moments, **changes):
    result = abp.infer(grid(2, 4, 1.0, 0.5, seed=0), changes.pop("method", "adaptive"))
    return replace(result, **changes, **({"trace": Trace(moments)} if moments else {}))


def figures(page):
    return dict(re.findall(r'<dt>(.*?)</dt><dd class="value".*?>(.*?)</dd>', page))


def run_block(page):
    (text,) = re.findall(r'<script type="application/json" id="run">(.*?)</script>', page)
    return json.loads(text)


# ---------------------------------------------------------------- choices
def test_choices_are_told_where_they_change():
    trace = [moment(1, SPARSE), moment(5, SPARSE), moment(9, TAILS), moment(12, TAILS), moment(20, SPARSE)]
    assert [(each.way, each.updates) for each in choices_of(trace)] == [
        ("sparse domains", 1),
        ("frozen tails", 9),
        ("sparse domains", 20),
    ]
    assert choices_of(trace)[1].reason == "a sweep over the likely states costs 3 % of a full one"


def test_a_reason_that_comes_later_belongs_to_what_it_explains():
    assert choices_of([moment(1, "full BP"), moment(5, FULL)]) == [Chosen("full BP", "residuals have not halved", 1)]
    assert len(choices_of([moment(1, FULL), moment(5, "full BP: another reason")])) == 2


def test_methods_without_a_choice_tell_none():
    assert choices_of(abp.infer(grid(2, 3, 1.0, 0.5, seed=0), "bp").trace) == []
    assert split_choice("") == ("", "")
    assert "choices" not in page_html(small_result(method="bp")).split("<body>")[1].split("<script")[0]


@pytest.mark.compiled
def test_a_run_on_a_peaked_model_tells_what_it_chose():
    result = abp.infer(grid(4, 300, 10.0, 1.0, seed=0), "adaptive")
    ways = [each.way for each in choices_of(result.trace)]
    assert ways[0] == "rounds on likely states"
    assert len(ways) > 1
    page = unescape(page_html(result))
    told = page[page.index("What the method chose") : page.index("Marginals</h2>")]
    assert [way in told for way in ways] == [True] * len(ways)
    assert f"{result.trace[0].updates:,} updates" in told


# ---------------------------------------------------------------- the page
def test_the_page_lists_choices_by_updates_and_escapes_them():
    page = page_html(small_result(moment(1, SPARSE), moment(12_345, "<b>odd</b>: <script>")))
    assert '<span class="when">12,345 updates</span><span><strong>&lt;b&gt;odd&lt;/b&gt;</strong>: &lt;script' in page
    assert page.count("<script") == 4


def test_choices_and_errors_do_not_depend_on_the_clock():
    trace = [moment(1, SPARSE, 0.5), moment(9, TAILS, 0.1)]
    late = [each._replace(seconds=each.seconds + 100.0) for each in trace]
    pages = [re.sub(r'id="timings">.*?<', "", page_html(small_result(*moments))) for moments in (trace, late)]
    same = [re.sub(r'id="seconds">.*?<', "", page) for page in pages]
    assert same[0] == same[1]


def test_the_page_has_the_estimated_error_as_a_figure_and_as_a_curve():
    result = abp.infer(grid(3, 6, 2.0, 0.5, seed=1), "bp", record=abp.Every(rounds=1, estimates=True))
    page = page_html(result)
    assert 0.0 < result.estimated_error < 1e-6
    assert float(figures(page)["Estimated distance to BP"]) == pytest.approx(result.estimated_error, rel=0.1)
    curve = run_block(page)["points"]["estimated_error"]
    assert curve == result.trace.column("estimated_error").tolist()
    assert curve[0] > 1e3 * curve[-1]


def test_an_error_of_which_nothing_is_known_is_called_unknown():
    result = small_result(error=math.inf)
    assert figures(page_html(result))["Estimated distance to BP"] == "unknown"
    assert run_block(page_html(result))["points"]["estimated_error"][-1] is None


def test_a_target_reached_by_a_method_that_has_not_settled_is_no_alarm():
    result = abp.infer(grid(4, 5, 2.0, 1.0, seed=0), "bp", target_error=0.05)
    assert result.stop_reason is abp.StopReason.TARGET_REACHED
    assert not result.consistent
    page = page_html(result)
    assert 'class="ending good"' in page
    assert 'class="note">The messages had not settled' in page
    assert 'role="alert"' not in page


def test_states_outside_the_domains_of_adaptive_are_not_said_to_be_zero():
    result = small_result(outside=0.25, consistent=True, stop_reason=abp.StopReason.OUT_OF_TIME)
    assert "the others have estimates, or probability 0, and they are estimated to hold up to 0.250" in page_html(
        result
    )
    assert "the others are held at probability 0" in page_html(replace(result, method="dynamic"))


def test_a_residual_above_the_tolerance_of_a_settled_round_is_explained():
    settled = small_result(tolerance=0.01, max_residual=0.22, consistent=True)
    assert "before they settled to 0.01" in page_html(settled)
    assert "before they settled" not in page_html(small_result())


# ---------------------------------------------------------------- estimates
def test_the_page_has_the_estimated_errors_of_the_trace_and_that_of_the_result_at_the_end():
    result = small_result(moment(1, SPARSE, 0.5), moment(9, TAILS, math.nan))
    assert run_block(page_html(result))["points"]["estimated_error"] == [0.5, result.estimated_error]


def test_a_trace_looks_at_the_error_when_it_looks_at_the_mass():
    trace = abp.infer(grid(3, 6, 2.0, 0.5, seed=1), "dynamic", record=abp.Every(rounds=1, estimates=True)).trace
    looked = ~np.isnan(trace.column("estimated_error"))
    assert looked.tolist() == (~np.isnan(trace.column("unexplored_mass"))).tolist()
    assert 3 < looked.sum() < len(trace) / 2


def test_watchers_hear_of_every_log_z_that_is_recorded():
    heard = []
    result = abp.Inference(grid(3, 6, 2.0, 0.5, seed=1), "bp", record=abp.Every(rounds=1, estimates=True)).run(
        watch=heard.append
    )
    known = [each.log_z for each in heard if not math.isnan(each.log_z)]
    assert known == [*result.trace.column("log_z"), result.log_z]


# ---------------------------------------------------------------- display
class Terminal(io.StringIO):
    def isatty(self):
        return True


def a_terminal(monkeypatch, columns=150):
    """Put a terminal in place of standard error; in the test itself, as pytest does the same before each."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    return stream


def at(seconds, **figures):
    return moment(**figures)._replace(seconds=seconds)


def test_lines_say_all_that_is_known_and_leave_out_what_is_not(capsys):
    for given, text in (
        (moment(7), "1.25 s  domains 50%  residual 5.0e-01  54 states  7 updates"),
        (
            moment(7, TAILS, 2.5e-4)._replace(log_z=-3.25),
            "1.25 s  domains 50%  to BP 2.5e-04  residual 5.0e-01  frozen tails  log Z -3.25  54 states  7 updates",
        ),
    ):
        with RunDisplay(108) as display:
            display.watch(given)
        assert capsys.readouterr().err == f"{text}\n"


def test_lines_come_every_second_then_more_rarely_and_at_the_end(capsys):
    with RunDisplay(108, seconds=200.0) as display:
        for tenths in range(2_000):
            display.watch(at(tenths / 10, updates=tenths))
    seconds = [float(line.split()[0]) for line in capsys.readouterr().err.splitlines()]
    assert seconds[:3] == [1.0, 2.0, 3.0]
    assert seconds[-1] == 199.9
    assert len(seconds) < 50
    assert max(later / sooner for sooner, later in pairwise(seconds[10:])) < 1.12


def test_a_short_run_leaves_one_line(capsys):
    with RunDisplay(108) as display:
        for tenths in range(10):
            display.watch(at(tenths / 10))
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_that_has_shown_nothing_leaves_nothing(capsys, monkeypatch):
    with RunDisplay(108):
        pass
    assert capsys.readouterr().err == ""
    terminal = a_terminal(monkeypatch)
    with RunDisplay(108):
        pass
    assert terminal.getvalue().strip() == ""


def test_a_line_in_a_notebook_is_rewritten(monkeypatch):
    notebook = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr("sys.stderr", notebook)
    with RunDisplay(108) as display:
        display.watch(at(0.0, updates=7, choice=TAILS))
        display.watch(at(0.05, updates=8, choice=TAILS))  # too soon
        display.watch(at(0.2, updates=9))
    first, second, last = notebook.getvalue().split("\r")[1:]
    assert (first.endswith("7 updates"), second.strip().endswith("9 updates")) == (True, True)
    assert len(second) == len(first)  # nothing of the longer line is left standing
    assert last == second.strip() + "\n"


def bar_text(display):
    return display._bar.tasks[0].description


def test_the_bar_shows_the_last_estimates_known_and_the_choice(monkeypatch):
    terminal = a_terminal(monkeypatch)
    with RunDisplay(108, seconds=5.0) as display:
        display.watch(at(1.0, choice=SPARSE))
        assert bar_text(display).startswith("1.00 s  4.0 s left  domains 50%  residual 5.0e-01  sparse domains")
        display.watch(at(1.05, error=2.5e-4)._replace(log_z=-3.25))  # too soon, but kept in mind
        display.watch(at(2.0, choice=TAILS))
        assert "domains 50%  to BP 2.5e-04  residual 5.0e-01  frozen tails  log Z -3.25" in bar_text(display)
        display.watch(at(3.0, error=math.inf))
        display.watch(at(4.0))
        assert "to BP unknown  residual 5.0e-01  log Z -3.25" in bar_text(display)
        assert display._bar.tasks[0].completed == 0.8
        assert "residual" in terminal.getvalue()


def test_a_narrow_bar_keeps_time_domains_and_error(monkeypatch):
    a_terminal(monkeypatch, columns=66)
    with RunDisplay(108) as display:
        display.watch(moment(2, SPARSE, 2.5e-4))
        assert bar_text(display) == "1.25 s  domains 50%  to BP 2.5e-04"


def test_the_bar_vanishes_and_leaves_a_line_where_one_is_wanted(monkeypatch):
    terminal = a_terminal(monkeypatch)
    for wanted in (True, False):
        with RunDisplay(108, leaves_line=wanted) as display:
            display.watch(moment(7))
        assert terminal.getvalue().endswith("54 states  7 updates\n") == wanted


def test_what_is_printed_to_a_file_does_not_end_up_on_the_terminal(monkeypatch, capsys):
    terminal = a_terminal(monkeypatch)
    abp.infer(grid(3, 5, 1.0, 0.7, seed=2), "bp", progress=True, callback=lambda _: print("a round"))  # noqa: T201
    assert "a round\n" in capsys.readouterr().out
    assert "a round" not in terminal.getvalue()
    assert "residual" in terminal.getvalue()


def test_shares_are_of_the_states_that_the_evidence_allows(capsys):
    evidence = {0: 3, 1: {0, 1}, 2: np.array([0.0, -1.0, -np.inf, -1.0, -1.0])}
    inference = abp.Inference(grid(3, 5, 1.0, 0.7, seed=2), "bp", evidence=evidence)
    assert inference.n_allowed == 6 * 5 + 1 + 2 + 4
    abp.infer(grid(3, 5, 1.0, 0.7, seed=2), "bp", evidence=evidence, progress=True)
    assert "domains 100%" in capsys.readouterr().err


# ---------------------------------------------------------------- print
def printed(result, capsys):
    show_result(result, [], is_forest=False, n_allowed=16)
    return capsys.readouterr()


def test_the_print_says_what_adaptive_chose_in_the_end(capsys):
    result = small_result(moment(1, SPARSE), moment(9, TAILS))
    lines = printed(result, capsys).out.splitlines()
    assert lines[4] == "chose frozen tails (a sweep over the likely states costs 3 % of a full one)"
    assert f"estimated distance to BP {result.estimated_error:.1e}" in lines[3]
    assert "chose" not in printed(small_result(method="bp"), capsys).out
    assert "\nchose full BP\n" in printed(small_result(moment(1, "full BP")), capsys).out


def test_an_error_that_is_not_known_is_printed_as_such(capsys):
    assert "estimated distance to BP unknown" in printed(small_result(error=math.inf), capsys).out


def test_a_target_reached_says_so_and_warns_of_nothing(capsys):
    result = small_result(stop_reason=abp.StopReason.TARGET_REACHED, consistent=False)
    out, errors = printed(result, capsys)
    assert errors == ""
    assert out.startswith("stopped: the estimated distance to BP is at most --target-error; messages have not settled")
    assert next_step(result).startswith("a smaller --target-error")
    assert "consistent on the domains" in ended_line(replace(result, consistent=True))
    assert "fixed point" in printed(replace(result, stop_reason=abp.StopReason.OUT_OF_TIME), capsys).err


# ---------------------------------------------------------------- picture
def test_estimated_errors_are_drawn_dashed_where_they_are_known():
    known = small_result(moment(1, SPARSE, 0.5), moment(9, TAILS), moment(12, TAILS, 0.1))
    panels = abp.plot_run(known).axes
    assert len(panels) == 3
    (line,) = panels[2].lines
    assert line.get_linestyle() == "--"
    assert line.get_ydata().tolist() == [0.5, 0.1]
    assert panels[2].get_ylabel() == "estimated distance to BP"
    both = abp.plot_run(known, [(0.5, 0.4), (1.0, 0.05)]).axes[2]
    assert [each.get_label() for each in both.lines] == ["measured", "estimated"]
    assert both.get_ylabel() == "L2 error"
    assert len(abp.plot_run(small_result(moment(1), moment(2))).axes) == 2


# ---------------------------------------------------------------- tables
def test_the_trace_copes_with_text():
    result = abp.infer(grid(2, 4, 1.0, 0.5, seed=0), "adaptive")
    trace = result.trace
    assert trace.column("choice").tolist() == [each.choice for each in trace]
    assert trace.column("estimated_error").dtype == np.float64
    frame = trace.to_pandas()
    assert frame["choice"].tolist() == [each.choice for each in trace]
    assert frame["estimated_error"].dtype == np.float64
    assert frame["updates"].dtype == np.int64


def test_json_and_notebooks_have_the_estimated_error(tmp_path):
    result = abp.infer(grid(2, 4, 1.0, 0.5, seed=0), "adaptive")
    for given, written in ((result, result.estimated_error), (replace(result, error=math.inf), None)):
        abp.write_marginals(given, tmp_path / "r.json")
        assert json.loads((tmp_path / "r.json").read_text())["estimated_error"] == written
    assert f"{result.estimated_error:.2g}" in result._repr_html_()
    assert "unknown" in replace(result, error=math.inf)._repr_html_()


# ---------------------------------------------------------------- exact answers, and what they would cost
def test_the_page_of_a_loopy_run_says_that_bp_may_be_off_and_what_exact_costs():
    page = page_html(abp.infer(grid(2, 4, 1.0, 0.5, seed=0), "bp"))
    assert "belief propagation itself is an approximation and may be off" in page
    assert "exact inference would need cliques of 148 entries in all" in page
    assert "Estimated distance to BP" in figures(page)


def test_the_page_of_an_exact_run_says_so():
    page = page_html(abp.infer(grid(2, 4, 1.0, 0.5, seed=0)))
    assert "The marginals are exact." in page
    assert "may be off" not in page
    assert figures(page)["Exact"] == "yes"
    assert "a junction tree" in page


def test_the_page_of_a_forest_has_nothing_to_warn_of():
    tree = abp.FactorGraph()
    tree.add_variables(2, 3)
    tree.add_factor([0, 1], log_table=np.eye(3))
    page = page_html(abp.infer(tree, "bp"))
    assert "may be off" not in page
    assert figures(page)["Exact"] == "yes"

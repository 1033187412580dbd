"""Means over runs, times to an error, and the raw files that they come from."""

import itertools
import lzma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp_evaluation.curves import (
    LEVELS,
    NEVER,
    SPACING,
    crossing,
    geometric_mean,
    mean_curve,
    milestones,
    thinned,
)
from anytimebp_evaluation.markdown import table, times
from anytimebp_evaluation.packed import packed_path
from anytimebp_evaluation.raw import HEADER, Key, RawFile
from anytimebp_evaluation.sampling import Curve, Point

pytestmark = pytest.mark.compiled  # files, tables and figures, not kernels: one pass is enough


def curve(*pairs, ended="CONVERGED", residual=1.0):
    """Return a run by pairs of seconds and L2 error; work is a hundred times the seconds, messages half of that."""
    points = [Point(s, int(100 * s), int(50 * s), k, 7, residual, e, e / 2) for k, (s, e) in enumerate(pairs)]
    return Curve(points, ended)


# ---------------------------------------------------------------- times to an error
def test_an_error_is_reached_when_the_run_stays_under_it():
    run = curve((1.0, 0.5), (2.0, 0.01), (3.0, 0.2), (4.0, 0.02), (5.0, 0.01))
    assert crossing(run, 0.1) == (4.0, 400, 200, 7)
    assert crossing(run, 0.6) == (1.0, 100, 50, 7)


def test_an_error_that_is_touched_but_not_undercut_at_the_end_is_never_reached():
    assert crossing(curve((1.0, 0.01), (2.0, 0.2)), 0.1) == NEVER
    assert crossing(curve((1.0, 0.1)), 0.1) == NEVER
    assert crossing(curve((1.0, float("nan"))), 0.1) == NEVER


runs = st.lists(
    st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(1e-9, 1.0)), min_size=1, max_size=6, unique_by=lambda p: p[0]),
    min_size=1,
    max_size=4,
)


errors = st.one_of(st.floats(1e-9, 1.0), st.just(float("nan")), st.just(float("inf")))


@given(st.lists(errors, min_size=1, max_size=40), st.floats(1e-6, 1.0), st.integers(0, 40))
def test_runs_that_are_kept_tell_when_errors_are_reached(fallen, error, unheard):
    whole = curve(*enumerate(fallen, start=1))
    points = [p._replace(mean_residual=np.inf) if k < unheard else p for k, p in enumerate(whole.points)]
    whole = whole._replace(points=points)
    assert crossing(milestones(whole, error), error) == crossing(whole, error)
    few = thinned(whole, error)
    assert all(crossing(few, level) == crossing(whole, level) for level in (error, *LEVELS))
    heard = [[p for p in run.points if np.isfinite(p.mean_residual)][:1] for run in (few, whole)]
    assert heard[0] == heard[1]
    assert [few.points[0], few.points[-1]] == [whole.points[0], whole.points[-1]]
    assert few.ended == whole.ended
    assert [point.updates for point in few.points] == sorted({point.updates for point in few.points})


def test_milestones_leave_out_what_lies_between():
    slow = curve(*((k + 1.0, 0.99 - k / 1000) for k in range(500)), (600.0, 1e-9))
    assert len(milestones(slow, 0.001).points) == 3
    kept = [point.updates for point in thinned(slow, 0.001).points]
    assert len(kept) < 40
    assert all(after <= SPACING * before + 1 for before, after in itertools.pairwise(kept))


@given(runs)
def test_the_mean_curve_is_that_of_the_last_values_of_all_runs(pairs):
    curves = [curve(*sorted(run)) for run in pairs]
    mean = mean_curve(curves, "seconds", "l2")
    for at, middle, low, high in zip(*mean, strict=True):
        last = [[p.l2 for p in run.points if p.seconds <= at][-1] for run in curves]
        assert low == pytest.approx(min(last))
        assert high == pytest.approx(max(last))
        assert middle == pytest.approx(np.exp(np.mean(np.log(last))))
    assert mean.at[-1] == pytest.approx(max(run.points[-1].seconds for run in curves))


def test_the_mean_curve_begins_where_every_run_has_begun():
    mean = mean_curve([curve((1.0, 0.5), (4.0, 0.1)), curve((2.0, 0.3))], "seconds", "l2")
    assert mean.at[0] == 2.0
    assert mean.at[0] == 2.0
    assert mean.mean[0] == pytest.approx(np.sqrt(0.5 * 0.3))
    assert mean.mean[-1] == pytest.approx(np.sqrt(0.1 * 0.3))


def test_residuals_that_mean_nothing_are_left_out_of_the_mean():
    points = [
        p._replace(mean_residual=r)
        for p, r in zip(curve((1, 1), (2, 1), (3, 1)).points, (np.inf, 1e-3, 0.0), strict=True)
    ]
    mean = mean_curve([Curve(points, "")], "seconds", "mean_residual")
    assert mean.at[0] == 2.0
    assert np.allclose(mean.mean, 1e-3)


def test_an_error_of_zero_has_a_place_on_a_log_axis():
    assert mean_curve([curve((1.0, 0.1), (2.0, 0.0))], "seconds", "l2").mean[-1] == pytest.approx(1e-16)


def test_the_geometric_mean_of_nothing_is_not_a_number():
    assert np.isnan(geometric_mean([]))
    assert geometric_mean([1.0, float("inf")]) == float("inf")
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("factor", "text"), [(12.3, "12"), (1.04, "1.0"), (0.97, "1.0"), (0.5, "1/2.0"), (0.01, "1/100"), (np.nan, "-")]
)
def test_factors_are_written_as_people_say_them(factor, text):
    assert times(factor) == text


def test_tables_have_a_line_per_row():
    assert table(["a", "b"], [[1, "x"]]) == "| a | b |\n| --- | --- |\n| 1 | x |"


# ---------------------------------------------------------------- raw files
KEYS = [Key("peaked", 100, 0, "bp"), Key("flat", 20, 3, "dynamic")]


@pytest.fixture
def raw(tmp_path):
    file = RawFile(tmp_path / "grids.csv")
    file.add(KEYS[0], curve((1.0, 0.5), (2.0, 1e-9), ended="CONVERGED", residual=np.inf))
    file.add(KEYS[1], curve((0.125, 0.25), ended="GIVEN_UP"))
    return file


def test_what_is_written_is_what_is_read(raw):
    again = RawFile(raw.path)
    assert again.curves == raw.curves
    assert raw.path.read_text().startswith(HEADER)


def test_a_run_that_was_cut_short_in_writing_is_dropped_and_the_file_goes_on(raw):
    whole = raw.path.read_text()
    unfinished = whole.splitlines(keepends=True)[1]
    for tail in ("peaked,1", unfinished, unfinished + "peaked,100"):
        raw.path.write_text(whole + tail)
        again = RawFile(raw.path)
        assert again.curves == raw.curves
        assert raw.path.read_text() == whole
    again.add(KEYS[0]._replace(seed=9), curve((1.0, 1.0)))
    assert len(RawFile(raw.path).curves) == 3


def test_runs_that_two_evaluations_have_written_into_each_other_are_refused(raw):
    first, second, third = raw.path.read_text().splitlines(keepends=True)[1:]
    raw.path.write_text(HEADER + first + third + second)
    with pytest.raises(abp.FormatError, match=r"line 3: the run before has no end; did two evaluations write"):
        RawFile(raw.path)


@pytest.mark.parametrize("text", ["", HEADER[:5], HEADER])
def test_a_file_without_a_run_starts_anew(tmp_path, text):
    (tmp_path / "grids.csv").write_text(text)
    file = RawFile(tmp_path / "grids.csv")
    file.add(KEYS[0], curve((1.0, 1.0)))
    assert list(RawFile(file.path).curves) == KEYS[:1]


def test_files_of_another_kind_are_refused_with_the_line(raw):
    whole = raw.path.read_text()
    raw.path.write_text("a,b\n1,2\n")
    with pytest.raises(abp.FormatError, match=r"grids.csv.*line 1: expected the columns family,size"):
        RawFile(raw.path)
    raw.path.write_text(whole.replace("peaked,100,0,bp,2", "peaked,100,0,bp,two"))
    with pytest.raises(abp.FormatError, match=r"grids.csv.*line 3: could not convert"):
        RawFile(raw.path)
    raw.path.write_text(whole + "peaked,1\n")
    with pytest.raises(abp.FormatError, match=r"line 5: "):
        RawFile(raw.path)


# ---------------------------------------------------------------- compressed raw files
def test_compressed_runs_are_read_and_further_runs_join_them(raw):
    plain = raw.path.read_text()
    raw.pack()
    assert not raw.path.exists()
    assert lzma.decompress(packed_path(raw.path).read_bytes()).decode() == plain
    again = RawFile(raw.path)
    assert again.curves == raw.curves
    again.add(KEYS[0]._replace(seed=9), curve((1.0, 1.0)))
    assert RawFile(raw.path).curves == again.curves
    again.pack()
    assert RawFile(raw.path).curves == again.curves
    assert lzma.decompress(packed_path(raw.path).read_bytes()).decode().startswith(plain)


def test_the_same_runs_give_the_same_bytes(raw, tmp_path):
    other = RawFile(tmp_path / "other.csv")
    for key, run in raw.curves.items():
        other.add(key, run)
        other.pack()
    raw.pack()
    before = packed_path(raw.path).read_bytes()
    assert packed_path(other.path).read_bytes() == before
    raw.pack()
    assert packed_path(raw.path).read_bytes() == before


def test_a_run_is_not_there_twice_where_compressing_was_interrupted_at_the_end(raw):
    plain = raw.path.read_text()
    raw.pack()
    packed = packed_path(raw.path).read_bytes()
    raw.path.write_text(plain)
    again = RawFile(raw.path)
    assert again.curves == raw.curves
    again.pack()
    assert packed_path(raw.path).read_bytes() == packed
    assert not raw.path.exists()


def test_a_write_that_fails_leaves_the_compressed_file_as_it_was(raw, monkeypatch):
    raw.pack()
    before = packed_path(raw.path).read_bytes()
    raw.add(KEYS[0]._replace(seed=9), curve((1.0, 1.0)))
    monkeypatch.setattr(lzma, "compress", lambda _: None)
    with pytest.raises(TypeError):
        raw.pack()
    assert packed_path(raw.path).read_bytes() == before
    assert len(RawFile(raw.path).curves) == 3


def test_a_compressed_file_that_is_cut_short_is_refused(raw):
    raw.pack()
    path = packed_path(raw.path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(abp.FormatError, match=r"grids.csv.xz.*cannot be unpacked"):
        RawFile(raw.path)

"""Beliefs along a run: marks, rates and what is left."""

import numpy as np
import pytest

from anytimebp.inference.control import estimated_error
from anytimebp.inference.control.estimated_error import SAFE, SLOWEST, BeliefHistory, rate_of

START = np.array([0, 2, 5])
END, MODE = np.array([0.5, 0.5, 0.2, 0.3, 0.5]), np.array([0.1, -0.1, 0.05, 0.05, -0.1])


def follow(beliefs):
    """Return the trend at the end of a run with these beliefs after its sweeps, from the start on."""
    history = BeliefHistory(START)
    for sweeps, belief in enumerate(beliefs):
        if history.is_due(sweeps):
            history.note(sweeps, belief)
    return history.trend(history.marks, len(beliefs) - 1.0, beliefs[-1])


def distance(belief):
    gap = belief - END
    return np.mean([np.linalg.norm(gap[:2]), np.linalg.norm(gap[2:])])


@pytest.mark.parametrize("sweeps", [3, 6, 15, 21, 37, 100, 333])
@pytest.mark.parametrize("rate", [0.3, 0.6, 0.9, 0.98])
def test_a_geometric_run_is_known_to_its_end(rate, sweeps):
    beliefs = [END + MODE * rate**k for k in range(sweeps + 1)]
    if distance(beliefs[-1]) < 1e-12:
        return  # nothing is left to tell
    assert follow(beliefs).left == pytest.approx(SAFE * distance(beliefs[-1]), rel=0.05)


def test_a_run_that_goes_back_and_forth_is_off_by_about_what_it_moves():
    beliefs = [END + MODE * (-1) ** k for k in range(12)]
    trend = follow([belief + 1e-3 * k * MODE for k, belief in enumerate(beliefs)])
    assert 0.001 < trend.left < 5.0 * distance(beliefs[-1])


def test_a_run_that_speeds_up_is_far_from_its_end():
    beliefs = [END + 1e-3 * MODE * 1.2**k for k in range(10)]
    trend = follow(beliefs)
    assert trend.left > 500.0 * trend.moved


def test_a_rate_that_rises_is_taken_to_rise_further():
    slow = np.array([0.1, -0.1, 0.0, 0.0, 0.0])
    beliefs = [END + MODE * 0.1**k + slow * 0.9**k for k in range(4)]
    assert follow(beliefs).left > 3.0 * follow(beliefs[1:]).left  # without the first change, there is no rise to see
    assert follow(beliefs).left > distance(beliefs[-1]) / 3


def test_without_two_changes_there_is_no_rate():
    history = BeliefHistory(START)
    assert not history.trend(history.marks, 1.0, END).has_rate
    assert history.trend(history.marks, 1.0, END).moved == np.inf
    history.note(0, END)
    trend = history.trend(history.marks, 1.0, END + MODE)
    assert not trend.has_rate
    assert trend.moved == pytest.approx(distance(END + MODE))


def test_within_a_sweep_only_marks_at_least_a_sweep_old_count():
    history = BeliefHistory(START)
    for sweeps in range(3):
        history.note(sweeps, END + MODE * 0.5**sweeps)
    trend = history.trend(history.marks, 2.5, END + MODE * 0.25)
    assert trend.moved == pytest.approx(distance(END + MODE * 0.25))  # from the mark at 1, not from that at 2


@pytest.mark.parametrize(("before", "after"), [(1.0, 1.0), (2.0, 2.5), (8.0, 11.0), (3.0, 1.0)])
@pytest.mark.parametrize("rate", [0.05, 0.4, 0.9])
def test_the_rate_is_that_of_the_series(rate, before, after):
    ratio = rate**before * (1.0 - rate**after) / (1.0 - rate**before)
    assert rate_of(ratio, before, after) == pytest.approx(rate, rel=1e-6)


def test_rates_are_told_up_to_a_limit():
    assert rate_of(5.0, 1.0, 1.0) == pytest.approx(SLOWEST)
    assert rate_of(-0.5, 1.0, 1.0) == 0.0


def test_a_very_slow_run_is_not_taken_for_slower_than_can_be_told():
    beliefs = [END + MODE * 0.9999**k for k in range(40)]
    trend = follow(beliefs)
    assert trend.left < SAFE * trend.moved / (1.0 - SLOWEST)


def test_few_marks_are_set_along_a_long_run():
    history = BeliefHistory(START)
    assert [sweeps for sweeps in range(21) if history.is_due(sweeps)] == [*range(5), *range(6, 21, 2)]
    assert sum(history.is_due(sweeps) for sweeps in range(10_000)) < 100


def test_of_very_many_variables_some_stand_for_all(monkeypatch):
    monkeypatch.setattr(estimated_error, "MANY", 50)
    start = np.arange(0, 303, 3)
    rng = np.random.default_rng(0)
    end, mode = rng.random(300), rng.normal(0, 0.1, 300)
    history = BeliefHistory(start)
    for sweeps in range(5):
        history.note(sweeps, history.part(end + mode * 0.5**sweeps))
    assert max(len(mark.belief) for mark in history.marks) <= 60
    trend = history.trend(history.marks, 5.0, history.part(end + mode * 0.5**5))
    truth = np.linalg.norm((mode * 0.5**5).reshape(100, 3), axis=1).mean()
    assert trend.left == pytest.approx(SAFE * truth, rel=0.3)


def test_kinds_of_variables_that_take_turns_are_all_followed(monkeypatch):
    monkeypatch.setattr(estimated_error, "MANY", 40)
    sizes = np.tile([8, 2], 20)  # every second variable moves
    start = np.append(0, np.cumsum(sizes))
    is_moving = np.repeat(sizes == 2, sizes)
    history = BeliefHistory(start)
    for sweeps in range(5):
        history.note(sweeps, history.part(np.where(is_moving, 0.1 * 0.5**sweeps, 0.5)))
    assert history.trend(history.marks, 5.0, history.part(np.where(is_moving, 0.1 * 0.5**5, 0.5))).left > 0.0


def test_the_next_mark_is_the_first_that_is_due():
    history = BeliefHistory(np.array([0, 2]))
    due = [sweeps for sweeps in range(1, 3000) if history.is_due(sweeps)]
    for sweeps in range(2500):
        assert history.next_due(sweeps) == next(k for k in due if k > sweeps)


@pytest.mark.parametrize("in_logs", [False, True])
def test_a_mark_before_any_message_is_made_of_the_priors_when_asked_for(in_logs):
    start, prior = np.array([0, 2, 5]), np.array([1.0, 0.5, 0.25, 1.0, 0.75])
    beliefs = [np.array([0.5, 0.5, 0.2, 0.3, 0.5]), np.array([0.4, 0.6, 0.2, 0.4, 0.4])]
    expected, found = BeliefHistory(start), BeliefHistory(start)
    expected.note(0, np.array([2 / 3, 1 / 3, 0.125, 0.5, 0.375]))
    found.note_priors(0, np.log(prior) if in_logs else prior, in_logs=in_logs)
    assert found.trend(found.marks, 1.0, beliefs[0]).moved == pytest.approx(
        expected.trend(expected.marks, 1.0, beliefs[0]).moved, rel=1e-14
    )
    for history in (expected, found):
        history.note(1, beliefs[0])
    assert found.trend(found.marks, 2.0, beliefs[1]).left == pytest.approx(
        expected.trend(expected.marks, 2.0, beliefs[1]).left, rel=1e-12
    )

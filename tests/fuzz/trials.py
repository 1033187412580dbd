"""One trial: a random model, random options, several runs that must agree, and every answer checked.

A model depends on the seed alone and options on little more, so that all methods see the same ones.
"""

import faulthandler
import os
import signal
import sys
import traceback
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

import anytimebp as abp
from oracle.random_models import random_plan
from oracle.verdict import Kept, check_snapshot, enumerated, supported

SECONDS = 60.0  # for all runs of one model, before it counts as a hang
STOPS = 4  # budgets that a run is interrupted by before it goes to its end
UNCOMPILED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
MOST_UPDATES = 400 if UNCOMPILED else 20_000  # of a run that nothing else ends


class HangError(BaseException):
    """A model took too long; not an Exception, so that nothing on the way takes it for its own."""


@contextmanager
def alarm(seconds):
    """Raise HangError after some time; end the process with a traceback where not even that helps."""

    def ring(*_):
        raise HangError

    can_ring = hasattr(signal, "SIGALRM")  # not on Windows
    if can_ring:
        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(4 * seconds, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        if can_ring:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)


# ------------------------------------------------------------ options
def random_options(plan, method):
    """Return the options of a run, the budgets of its one call, and whether `adaptive` is to go through every stage."""
    rng = np.random.default_rng([plan.seed, 1])
    options = {
        "tolerance": float(rng.choice([1e-8, 1e-8, 1e-10, 1e-6, 1e-3])),
        "damping": float(rng.choice([0.0, 0.0, 0.0, 0.2, 0.5, 0.9])) * (not plan.is_plain),
        "grow": int(rng.choice([1, 1, 2, 3, 10, 100])),
        "rng": int(rng.integers(1000)),
        "record": [
            "round",
            "end",
            abp.Every(rounds=3),
            abp.Every(states=2),
            abp.Every(growth=1.5),
        ][int(rng.integers(5))],
    }
    fraction, schedule = float(rng.choice([0.1, 0.25, 0.5, 0.9, 1.0])), str(rng.choice(["sequential", "random"]))
    if rng.random() < (0.7 if plan.shape == "wide" else 0.25):
        entries = sum(float(table.size) for scope, table in plan.factors if len(scope) > 1)
        needed = 80.0 * sum(plan.sizes) + 40.0 * entries  # roughly, by `bp`
        options["max_memory"] = 1 + int(needed * 10.0 ** rng.uniform(-1.7, 0.6))
    if method == "truncated":
        options["fraction"] = fraction
    if method == "bp":
        options["schedule"] = schedule
    budget = {}
    if rng.random() < 0.15:
        budget["max_updates"] = int(10.0 ** rng.uniform(0.0, 3.0))
    if rng.random() < 0.15:
        budget["max_work"] = int(10.0 ** rng.uniform(0.0, 4.5))
    if rng.random() < 0.1:
        budget["target_error"] = float(10.0 ** rng.uniform(-6.0, -1.0))
    if rng.random() < 0.05:
        budget["seconds"] = 0.0
    return options, budget, bool(rng.random() < 0.5)


@contextmanager
def every_stage(*, wanted):
    """Have small models go where large ones do: rounds on domains, structures without tables."""
    from anytimebp.inference.adaptive import (  # noqa: PLC0415
        adaptive_run,
        choice,
        first_domains,
        large_rounds,
        rough_look,
        rounds,
    )
    from anytimebp.model import source  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        if wanted:
            patch.setattr(adaptive_run, "SMALL", 0)
            patch.setattr(choice, "FEW", 1.0)
            patch.setattr(choice, "FIRST_WORTH", float("inf"))
            patch.setattr(choice, "FIRST_MASS", 0.0)
            patch.setattr(rounds, "WORTH", float("inf"))
            patch.setattr(source, "LIST_GAIN", 0.0)
            patch.setattr(large_rounds, "BLOCKS", (4, 8))
            patch.setattr(rough_look, "MUCH", 64)
            patch.setattr(first_domains, "SMALL", 2)
        yield


# ------------------------------------------------------------ runs
class Trial:
    """All runs of one model by one method."""

    def __init__(self, seed, method, *, once=False):
        """Draw the model and the options; `once` leaves out the runs that must agree with the first one."""
        self.seed, self.method, self.once = seed, method, once
        self.plan = random_plan(seed)
        self.options, self.budget, self.stages = random_options(self.plan, method)
        self.complaints = []
        self.endings = []
        self.kept = []

    def run(self):
        """Run everything; return the complaints."""
        try:
            with alarm(SECONDS), every_stage(wanted=self.stages), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._runs()
        except HangError:
            self._say("hang", f"{SECONDS} s are over", where=True)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is the finding)
            self._say(f"exception {type(error).__name__}", str(error), where=True)
        return self.complaints

    def _say(self, kind, text, *, where=False):
        place = ""
        if where:
            frames = [f for f in traceback.extract_tb(sys.exception().__traceback__) if "anytimebp" in f.filename]
            place = "".join(f" <- {os.path.basename(f.filename)}:{f.lineno} {f.name}" for f in frames[:-4:-1])  # noqa: PTH119
        self.complaints.append((kind, f"{text}{place}"))

    def _runs(self):
        joint = {"factor_marginals": self.method != "adaptive" or self.seed % 4 > 0}
        whole = self._ended(joint, self.budget if self.once else {})
        if self.once:
            return
        again = self._ended({**self._same(joint), "record": "end"}, {}, graph=whole[0])
        self._compare("another run", whole, again)
        if self.method == "exact":
            self._compare_numbers("a run without factor marginals", whole, self._ended({}, {}))
        self._compare("an interrupted run", whole, self._ended(joint, {}, interrupted=True))
        if self.budget:
            one = self._ended(joint, self.budget)
            used = one[0] if self.seed % 2 else None
            if "seconds" not in self.budget:
                self._compare("another run on a budget", one, self._ended(self._same(joint), self.budget, graph=used))
        for kept in self.kept:
            self.complaints += kept.changes()

    def _same(self, joint):
        """Return what a run must share to end with the same bits.

        For factor marginals, `adaptive` keeps its leaves, and `exact` makes tables of all cliques.
        """
        return joint if self.method in {"adaptive", "exact", "auto"} else {}

    def _ended(self, more, budget, *, graph=None, interrupted=False):
        """Run once; return the graph and the result, or the graph and the kind of error."""
        graph = graph or self.plan.graph()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                inference = abp.Inference(graph, self.method, evidence=self.plan.given, **{**self.options, **more})
                done = self._stops(inference) if interrupted else 0
                if done > MOST_UPDATES:
                    return None  # further than others will go
                result = inference.run(**{"max_updates": MOST_UPDATES - done, **budget})
            except abp.InconsistentModelError as error:
                self._check_inconsistent(inference, error)
                return graph, type(error).__name__
            except abp.MemoryLimitError as error:
                if "max_memory" not in self.options:
                    self._say("memory error without a limit", str(error))
                return graph, type(error).__name__
        self._check_result(result, budget, caught)
        self.endings.append(result.stop_reason.name)
        return (graph, result) if result.updates <= MOST_UPDATES else None

    def _stops(self, inference):
        """Stop a run several times; return the updates that it has made."""
        rng = np.random.default_rng([self.seed, 2])
        for _ in range(STOPS):
            kind, size = (
                str(rng.choice(["max_updates", "max_work", "seconds", "next"])),
                int(10.0 ** rng.uniform(0, 2.5)),
            )
            if kind == "next":
                snapshot = next(inference, None)
            else:
                snapshot = inference.run(**{kind: 0.0 if kind == "seconds" else size})
                self.complaints += check_snapshot(self.plan, snapshot.current)
            if snapshot is not None:
                self.complaints += check_snapshot(self.plan, snapshot)
                self.kept.append(Kept(snapshot))
        return inference._run.figures.updates if inference._run.method else 0

    # ------------------------------------------------------------ checks
    def _check_inconsistent(self, inference, error):
        domains = None
        workspace = getattr(inference._run.method, "workspace", None)
        if self.method == "truncated" and workspace is not None:
            domains = [workspace.domains.states_of(i) for i in range(len(workspace.domains.sizes))]
        if all(alive.any() for alive in supported(self.plan, domains)):
            self._say("inconsistent though messages do not vanish", str(error))

    def _check_result(self, result, budget, caught):
        plan, reason = self.plan, result.stop_reason
        self.complaints += check_snapshot(plan, result)
        if result.current is not result:
            self.complaints += check_snapshot(plan, result.current)
        self.kept.append(Kept(result))
        fair = (abp.NotConvergedWarning, abp.UncertainResultWarning, abp.UnconnectedVariableWarning)
        texts = [w for w in caught if not issubclass(w.category, fair)]
        self.complaints += [(f"warning {w.category.__name__}", str(w.message)) for w in texts]
        asked = {"TARGET_REACHED": "target_error", "OUT_OF_UPDATES": "max_updates", "OUT_OF_WORK": "max_work"}
        asked["OUT_OF_TIME"] = "seconds"
        needed = asked.get(reason.name)
        if needed and needed not in budget and (needed != "max_updates" or result.current.updates < MOST_UPDATES):
            self._say("stop without a budget", f"{reason.name} with {budget}")
        if reason.name == "OUT_OF_MEMORY" and "max_memory" not in self.options:
            self._say("stop without a budget", "OUT_OF_MEMORY")
        if reason is abp.StopReason.CONVERGED:
            self._check_converged(result)
        if reason is abp.StopReason.NOT_CONVERGED and plan.is_forest:
            self._say("not converged on a forest", f"residual {result.max_residual}")
        warned = any(issubclass(w.category, abp.NotConvergedWarning) for w in caught)
        unsettled = not result.consistent and needed is None  # a budget of the user's needs no warning
        if warned != (unsettled or reason is abp.StopReason.NOT_CONVERGED):
            self._say("no warning though unsettled" if not warned else "warning for nothing", reason.name)
        near = 1e-6 + len(plan.factors) * result.tolerance
        if result.estimated_error == 0.0 and self._distance(result) > near:
            self._say("estimate 0 though far from the truth", f"{self._distance(result)} off, {reason.name}")
        if reason is abp.StopReason.TARGET_REACHED:
            self._check_target(result, budget["target_error"])
        if "max_updates" in budget and result.current.updates > budget["max_updates"]:
            self._say("more updates than allowed", f"{result.current.updates} of {budget['max_updates']}")

    def _check_converged(self, result):
        allowed = [int((np.asarray(self.plan.scores.get(i, np.zeros(n))) > -np.inf).sum()) for i, n in self._sizes]
        if not result.consistent:
            self._say("converged but not consistent", f"residual {result.max_residual}")
        possible = [int((self.plan.prior(i) > -np.inf).sum()) for i, _ in self._sizes]  # others may be left out
        if self.method != "truncated" and result.domain_sizes.tolist() not in (allowed, possible):
            self._say("converged on some of the states", f"{result.domain_sizes} of {allowed}")
        if result.max_residual > self.options["tolerance"] and result.consistent:
            self._say("converged with a large residual", f"{result.max_residual} for {self.options['tolerance']}")

    @property
    def _sizes(self):
        return list(enumerate(self.plan.sizes))

    def _check_target(self, result, target):
        if not result.estimated_error <= target:
            self._say("target reached above the target", f"{result.estimated_error} for {target}")
        off = self._distance(result)
        if off > 10.0 * target + 1e-6:
            self._say("target reached far from the truth", f"estimate {result.estimated_error}, {off} off")

    def _distance(self, result):
        """Return the mean L2 distance to the truth on a forest, which is where BP ends; 0 where it is not known."""
        truth = enumerated(self.plan) if self.plan.is_forest and self.plan.can_be_enumerated else None
        if truth is None:
            return 0.0
        return float(np.mean([np.linalg.norm(result.marginals[i] - m) for i, m in enumerate(truth[0])]))

    def _compare_numbers(self, what, first, second):
        """Complain if two runs that sum in another order differ by more than rounding."""
        if first is None or second is None or isinstance(first[1], str) or isinstance(second[1], str):
            return
        one, other = (np.concatenate([np.zeros(0), *found[1].marginals.values()]) for found in (first, second))
        if not np.allclose(one, other, rtol=1e-9, atol=1e-12):
            self._say(f"{what} differs", f"by {np.abs(one - other).max()}")

    def _compare(self, what, first, second):
        """Complain if two runs that must take the same steps differ."""
        if first is None or second is None:
            return
        first, second = first[1], second[1]
        if isinstance(first, str) or isinstance(second, str):
            if first != second:
                self._say(f"{what} ends otherwise", f"{first} and {second}")
            return
        pairs = {
            "stop_reason": (first.stop_reason, second.stop_reason),
            "updates": (first.updates, second.updates),
            "domain_sizes": (first.domain_sizes.tolist(), second.domain_sizes.tolist()),
            "consistent": (first.consistent, second.consistent),
            "marginals": tuple(b"".join(m.tobytes() for m in r.marginals.values()).hex() for r in (first, second)),
        }
        differ = [f"{name} {a!r:.80} and {b!r:.80}" for name, (a, b) in pairs.items() if a != b]
        if not np.isclose(first.log_z, second.log_z, rtol=1e-13, atol=1e-12, equal_nan=True):
            differ.append(f"log_z {first.log_z} and {second.log_z}")
        if differ:
            self._say(f"{what} differs", "; ".join(differ))

"""The runs whose answers are kept, what is kept of an answer, and how two answers are compared.

What depends on how an answer is found (updates, work, sweeps, time) is not kept.
"""

import json
import lzma
import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import anytimebp as abp
from golden import kinds, models

MODELS = models.MODELS | kinds.MODELS | kinds.CONTRADICTIONS
FILE = Path(__file__).parent / "answers.json.xz"
METHODS = ("bp", "residual", "truncated", "random", "fixed", "dynamic", "adaptive")
GROWING = ("truncated", "random", "fixed", "dynamic")
ON_ALL_STATES = ("bp", "residual")
CLOSE = 1e-9  # by which marginals may differ, and log Z relative to its size
ACTIVE = 1e-200  # marginals above this show that a state has joined; smaller ones may be lost to rounding


class LastFirst:
    """A policy whose scores are known at the start: the last states join first, those of late variables later."""

    rescores = False

    def first_states(self, view):
        return np.array([view.allowed(i)[-1] for i in range(len(view.variables))])

    def scores(self, view, variable):
        return np.arange(view.variables[variable].n_states) - 0.3 * variable


class LooksAround:
    """A policy that looks at all that a view shows, whenever messages have moved."""

    rescores = True

    def first_states(self, view):
        return np.array([view.allowed(i)[view.unary(i)[view.allowed(i)].argmax()] for i in range(len(view.variables))])

    def scores(self, view, variable):
        own = 0.3 * view.unary(variable) + 0.2 * view.priorities(variable)
        order = view.domain(variable) @ np.arange(len(view.domain(variable)))
        return np.maximum(view.estimates(variable), -50.0) + own - view.belief(variable).max() + 0.01 * order


# ------------------------------------------------------------ which runs
@dataclass(frozen=True)
class Case:
    """One run: a model, a method, and a variant of its options."""

    model: str
    method: str
    variant: str = ""

    def __str__(self):
        return "-".join(filter(None, (self.model, self.method, self.variant)))

    @property
    def is_long(self):
        """Whether the run takes too long uncompiled."""
        return self.model in LARGE or (self.model in LONG_TO_GROW and self.method in GROWING)

    @property
    def options(self):
        options = {"tolerance": 1e-12, "rng": 7, **USUAL.get(self.model, {})}
        return options | (VARIANTS[self.variant][0](self.method) if self.variant else {})


USUAL = {"wide_grid": {"grow": 20}, "wide_structures": {"grow": 10}}
"""Options of every run on a model that are not the defaults."""

ONLY = {"loop_of_wide_universes": ("bp", "adaptive")}
"""The methods of a model that does not run with all."""

LARGE = {"wide_grid", "wide_structures", "loop_of_wide_universes", "unsettled", "frustrated"}
"""Models that take too long uncompiled."""

LONG_TO_GROW = {"peaked_grid", "hub_of_a_ring", "joint_extraction", "tied_joint_extraction"}
"""Models that take too long uncompiled with methods that grow."""

RAW = {"fixed": abp.FixedGrowth, "dynamic": abp.DynamicGrowth}

VARIANTS = {
    "grow_3": (
        lambda _: {"grow": 3},
        GROWING[1:],
        ("peaked_grid", "hard_zeros", "equal_unary_scores", "joint_extraction"),
    ),
    "random_schedule": (
        lambda _: {"schedule": "random"},
        ("bp",),
        ("chain", "flat_grid", "hub_of_a_ring", "frustrated"),
    ),
    "damped": (lambda _: {"damping": 0.3}, METHODS, ("single_loop", "wide_range_in_a_loop", "tied_joint_extraction")),
    "damped_early": (
        lambda _: {"damping": 0.3, "max_updates": 15},
        ON_ALL_STATES,
        ("single_loop", "wide_range_in_a_loop"),
    ),
    "early": (lambda _: {"max_updates": 15}, ON_ALL_STATES, ("single_loop", "wide_range_in_a_loop")),
    "half": (
        lambda _: {"fraction": 0.5},
        ("truncated",),
        (
            "peaked_grid",
            "mixed_arities",
            "hard_zeros",
            "colouring",
            "equality",
            "deterministic",
            "evidence_of_all_kinds",
        ),
    ),
    "factors": (
        lambda _: {"factor_marginals": True},
        ("bp", "residual", "truncated", "dynamic"),
        (
            "tree_of_mixed_arities",
            "mixed_arities",
            "hard_zeros",
            "wide_range_in_a_loop",
            "listed_entries",
            "rules",
            "deterministic",
            "difference",
            "at_most_one",
            "evidence_of_all_kinds",
        ),
    ),
    "raw": (
        lambda method: {"policy": RAW[method](raw=True)},
        ("fixed", "dynamic"),
        ("mixed_arities", "peaked_grid", "hub_of_a_tree", "huge_and_tiny_scores", "evidence_of_all_kinds"),
    ),
    "last_first": (
        lambda _: {"policy": LastFirst()},
        ("fixed",),
        ("mixed_arities", "hard_zeros", "evidence_of_all_kinds"),
    ),
    "looks_around": (
        lambda _: {"policy": LooksAround()},
        ("dynamic",),
        ("mixed_arities", "wide_range_in_a_loop", "evidence_of_all_kinds"),
    ),
}
"""By name: options by method, and the methods and models that run with them."""


def all_cases():
    """Return every run whose answer is kept."""
    plain = [Case(model, method) for model in MODELS for method in ONLY.get(model, METHODS)]
    return plain + [
        Case(model, method, name)
        for name, (_, methods, chosen) in VARIANTS.items()
        for model in chosen
        for method in methods
    ]


# ------------------------------------------------------------ answers
def answer(case, graph=None):
    """Run a case, by default on a new graph; return what is kept of its answer, as JSON would give it back."""
    graph = abp.FactorGraph() if graph is None else graph
    evidence = MODELS[case.model](graph)
    options = case.options
    budget = {name: options.pop(name) for name in ("max_updates",) if name in options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            inference = abp.Inference(graph, case.method, evidence=evidence, **options)
            rounds = list(inference) if case.method in GROWING else []
            found = _kept(inference.run(**budget), rounds, is_rewritten=case.method == "adaptive")
        except abp.InconsistentModelError as error:
            found = {"error": str(error)}
    return json.loads(json.dumps(found))


def _kept(result, snapshots, *, is_rewritten):
    """Return the fields of an answer; few of one whose method may go another way to the same end."""
    found = {"stop": result.stop_reason.name}
    if result.stop_reason is abp.StopReason.NOT_CONVERGED:
        return found  # where messages happen to be says nothing
    found |= {"log_z": result.log_z, "marginals": _flat(result)}
    if is_rewritten:
        return found
    found |= {"arithmetic": result.arithmetic, "domain_sizes": result.domain_sizes.tolist()}
    if result.factor_marginals:
        found["factor_marginals"] = [result.factor_marginals[f].reshape(-1).tolist() for f in result.factor_marginals]
    if snapshots:
        found |= _history(snapshots)
    return found


def _history(snapshots):
    """Return how domains have grown, and some rounds on the way."""
    sizes = [snapshot.domain_sizes.tolist() for snapshot in snapshots]
    last = [k for k in range(len(sizes)) if k == len(sizes) - 1 or sizes[k] != sizes[k + 1]]
    rounds = [snapshots[k] for k in last]  # one per set of domains
    joined_at = np.full(len(_flat(rounds[0])), -1)
    for k, snapshot in enumerate(rounds):
        joined_at[(np.array(_flat(snapshot)) > ACTIVE) & (joined_at < 0)] = k
    shown = sorted({0, len(rounds) // 3, 2 * len(rounds) // 3} - {len(rounds) - 1})
    return {
        "sizes_by_round": [sizes[k] for k in last],
        "joined_at": joined_at.tolist(),
        "rounds": {str(k): {"log_z": rounds[k].log_z, "marginals": _flat(rounds[k])} for k in shown},
    }


def _flat(snapshot):
    return [float(p) for marginal in snapshot.marginals.values() for p in marginal]


def states_of(graph):
    """Return a name for every state of every variable, in the order of flat marginals."""
    return [f"{variable.name}={label}" for variable in graph.variables for label in variable.labels]


# ------------------------------------------------------------ comparison
def differences(expected, got, states):
    """Return a line for everything that has changed."""
    if expected.keys() != got.keys():
        return [f"expected {_short(expected)}, got {_short(got)}"]
    found = [_in_value(name, expected[name], got[name], states) for name in expected if name != "rounds"]
    kept, now = expected.get("rounds", {}), got.get("rounds", {})
    if kept.keys() != now.keys():
        found.append(f"rounds: expected {list(kept)}, got {list(now)}")
    for k in kept.keys() & now.keys():
        found += [f"round {k}: {line}" for line in differences(kept[k], now[k], states)]
    return [line for line in found if line]


def _in_value(name, expected, got, states):
    """Return what has changed in one field, or an empty text."""
    if name == "log_z":
        is_close = abs(expected - got) <= CLOSE * max(1.0, abs(expected)) or (math.isnan(expected) and math.isnan(got))
        return "" if is_close else f"log_z: expected {expected!r}, got {got!r}"
    if name == "marginals":
        return _off(name, np.array(expected), np.array(got), states)
    if name == "factor_marginals":
        if len(expected) != len(got):
            return f"{name}: expected {len(expected)}, got {len(got)}"
        each = [
            _off(f"factor {k}", np.array(a), np.array(b)) for k, (a, b) in enumerate(zip(expected, got, strict=True))
        ]
        return "; ".join(filter(None, each))
    if expected == got:
        return ""
    if name == "joined_at":
        changed = [(a, b, s) for a, b, s in zip(expected, got, states, strict=True) if a != b]
        return "; ".join(f"{s} joined in round {b}, not {a}" for a, b, s in sorted(changed)[:6])
    if name == "sizes_by_round":
        k = next(
            (k for k, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b), min(len(expected), len(got))
        )
        return f"{name}: {len(got)} rounds, not {len(expected)}; round {k}: {got[k : k + 1]}, not {expected[k : k + 1]}"
    return f"{name}: expected {expected!r}, got {got!r}"


def _off(name, expected, got, states=None):
    if expected.shape != got.shape:
        return f"{name}: expected {expected.shape}, got {got.shape}"
    off = np.abs(expected - got)
    if (off <= CLOSE).all():
        return ""
    k = int(np.where(np.isnan(off), np.inf, off).argmax())
    where = states[k] if states else f"entry {k}"
    return f"{name}: {(~(off <= CLOSE)).sum()} differ, most of all {where}: expected {expected[k]!r}, got {got[k]!r}"


def _short(found):
    return found.get("error") or f"{found.get('stop')} with {', '.join(found)}"


# ------------------------------------------------------------ file
def load():
    """Return the answers that are kept, by the text of their case."""
    with lzma.open(FILE, "rt") as file:
        return json.load(file)


def save(answers, path=FILE):
    """Write answers, one a line before they are packed."""
    lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in answers.items()]
    with lzma.open(path, "wt", preset=9) as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")

"""The methods that are compared, as the paper names them, and how each is run, sampled and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anytimebp import DynamicGrowth, FixedGrowth


@dataclass(frozen=True)
class Contender:
    """A method with its options.

    Attributes:
        label: What tables and figures call it.
        method: Of `infer`.
        colour: In figures.
        options: Further options of `infer`.
        sampled: "sweeps", "rounds" or "stops", see `sampling`; "look-ahead", see `look_ahead`.
        drawn: Whether curves show it; tables always do.
        timed: Whether its seconds can be compared with those of the others.
    """

    label: str
    method: str
    colour: str
    options: Mapping[str, Any] = field(default_factory=dict)
    sampled: str = "stops"
    drawn: bool = True
    timed: bool = True

    @property
    def reads_first(self) -> bool:
        """Whether all tables are read once, for fixed priorities, before the first answer."""
        return self.method in {"fixed", "truncated"}


CONTENDERS = {
    "bp": Contender("BP", "bp", "#22303c", sampled="sweeps"),
    "bp-random": Contender("BP, random order", "bp", "#8a949e", {"schedule": "random"}, sampled="sweeps"),
    "rbp": Contender("RBP", "residual", "#b07aa1", sampled="sweeps"),
    "truncbp": Contender("TruncBP", "truncated", "#9c755f"),
    "random": Contender("Random", "random", "#edae49"),
    "fixed": Contender("Fixed", "fixed", "#59a14f"),
    "dynamic": Contender("Dynamic", "dynamic", "#2f6db5"),
    "fixed-raw": Contender("Fixed, as printed", "fixed", "#59a14f", {"policy": FixedGrowth(raw=True)}, drawn=False),
    "dynamic-raw": Contender(
        "Dynamic, as printed", "dynamic", "#2f6db5", {"policy": DynamicGrowth(raw=True)}, drawn=False
    ),
    "adaptive": Contender("adaptive (ours)", "adaptive", "#d1362f", sampled="rounds"),
    "rbp-ahead": Contender("RBP, look-ahead", "residual", "#b07aa1", sampled="look-ahead", drawn=False, timed=False),
}
"""By the names that raw results use."""

ROUND_TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
"""Of the sweep over the tolerance to which messages settle before the next state joins."""


def settling_to(name: str, tolerance: float) -> str:
    """Return the name of a contender whose rounds settle to a tolerance."""
    return f"{name}-{tolerance:g}"


CONTENDERS |= {
    settling_to(name, tolerance): replace(
        CONTENDERS[name],
        label=f"{CONTENDERS[name].label}, rounds to {tolerance:g}",
        options={"tolerance": tolerance},
        drawn=False,
    )
    for name in ("fixed", "dynamic")
    for tolerance in ROUND_TOLERANCES
}

BASELINE = "bp-random"
"""What others are compared with: the paper's BP goes in random order. Our own order is the stronger one."""

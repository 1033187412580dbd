"""The methods that are compared, as the paper names them, and how each is run, sampled and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
        sampled: "sweeps", "rounds" or "stops", see `sampling`.
        drawn: Whether curves show it; tables always do.
    """

    label: str
    method: str
    colour: str
    options: Mapping[str, Any] = field(default_factory=dict)
    sampled: str = "stops"
    drawn: bool = True


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
}
"""By the names that raw results use. The paper's BP goes in random order; in our order it is the stronger baseline."""

BASELINE = "bp"

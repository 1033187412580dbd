"""What the experiments consist of, as data: families, sizes, contenders, runs, and the error in question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from anytimebp import FactorGraph
from anytimebp_evaluation.contenders import ROUND_TOLERANCES, settling_to
from anytimebp_evaluation.curves import milestones, thinned
from anytimebp_evaluation.families import GRIDS, N_RELATIONS, N_TYPES, READINGS, graph_of, grid, joint_extraction
from anytimebp_evaluation.sampling import Curve

EVERYTHING = (
    *("bp-random", "bp", "rbp", "rbp-ahead", "truncbp", "random"),
    *("fixed", "dynamic", "fixed-raw", "dynamic-raw", "adaptive"),
)
TO_AN_ERROR = ("bp-random", "bp", "rbp", "fixed", "dynamic", "adaptive")
BY_TOLERANCE = (
    "bp-random",
    "bp",
    *(settling_to(name, tolerance) for name in ("fixed", "dynamic") for tolerance in ROUND_TOLERANCES),
)
BY_A_FEW_TOLERANCES = (
    "bp-random",
    *(settling_to(name, tolerance) for name in ("fixed", "dynamic") for tolerance in ROUND_TOLERANCES[2:4]),
)
WITH_RESIDUALS = ("bp-random", "rbp", "fixed", "dynamic")

FAMILIES = ("peaked", "sharp", "strong", "middle", "flat")
MOST_SECONDS = 30.0

Tell = Callable[[str, int, int], object]
"""Told what is about to run, how many runs are done, and how many there are in all."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """An experiment.

    Attributes:
        name: As on the command line.
        families: Names of the families of models.
        sizes: States of a variable, or entities of a sentence.
        side: Of grids; 0 for joint extraction.
        contenders: Names, in the order of tables.
        runs: Random models of each family and size.
        fewer: The same for families that have fewer.
        error: The L2 error that times are taken to.
        to_the_end: Whether runs go on to convergence; else until they are well under the error.
        tolerance: To which messages settle in every round.
        patience: A method that grows is given up once it has read so many times what BP reads, or MOST_SECONDS have
            passed; None to run to the end, however long that takes.
        timed: Whether runs are repeated for their times; else work alone is told.
        printed_residuals: Whether residuals are computed by the formula of the paper (`pairs`).
    """

    name: str
    families: tuple[str, ...]
    sizes: tuple[int, ...]
    side: int
    contenders: tuple[str, ...]
    runs: int
    error: float
    to_the_end: bool = False
    tolerance: float
    patience: int | None = None
    fewer: Mapping[str, int] = field(default_factory=dict)
    timed: bool = True
    printed_residuals: bool = False

    def runs_of(self, family: str) -> int:
        """Return how many random models of each size a family has."""
        return min(self.runs, self.fewer.get(family, self.runs))

    def groups(self) -> Iterator[tuple[str, int]]:
        """Give the pairs of family and size."""
        for family in self.families:
            for size in self.sizes:
                yield family, size

    def graph(self, family: str, size: int, seed: int) -> FactorGraph:
        """Return the model of a run."""
        if self.side:
            return graph_of(grid(self.side, self.side, size, *GRIDS[family], seed))
        return graph_of(joint_extraction(size, seed, READINGS[family]))

    def n_factors(self, size: int) -> int:
        """Return how many factors, but for unary ones, a model of a size has."""
        return 2 * self.side * (self.side - 1) if self.side else size * (size - 1)

    def n_entries(self, size: int) -> int:
        """Return the number of table entries of a model, which fixed priorities read once."""
        return self.n_factors(size) * (size**2 if self.side else N_TYPES**2 * N_RELATIONS)

    def kept(self, curve: Curve) -> Curve:
        """Return what raw results keep of a run."""
        if self.printed_residuals:
            return curve  # every stop counts
        return thinned(curve, self.error) if self.to_the_end else milestones(curve, self.error)

    def settings(self) -> str:
        """Return what must be the same for results to be put together; more runs, sizes and families may join later."""
        limit = f"given up after {self.patience} times the work of BP or {MOST_SECONDS:g} seconds"
        end = "run to the end" if self.to_the_end else limit
        model = f"{self.side} x {self.side} grids" if self.side else "joint extraction"
        return f"{model}, tolerance {self.tolerance:g}, L2 error {self.error:g}, {end}"

    def scores(self, family: str) -> str:
        """Return how the scores of a family are drawn."""
        return str(GRIDS[family] if self.side else READINGS[family])


PLANS = {
    "grids": Plan(
        name="grids",
        families=FAMILIES,
        sizes=(100,),
        side=10,
        contenders=EVERYTHING,
        runs=10,
        fewer={"sharp": 5, "strong": 2},
        error=1e-7,
        to_the_end=True,
        tolerance=1e-6,
    ),
    "domains": Plan(
        name="domains",
        families=("peaked", "middle", "flat"),
        sizes=(10, 20, 50, 100, 250, 500, 1000),
        side=5,
        contenders=TO_AN_ERROR,
        runs=10,
        error=1e-4,
        tolerance=1e-4,
        patience=100,
    ),
    "residuals": Plan(
        name="residuals",
        families=("peaked", "sharp"),
        sizes=(100,),
        side=10,
        contenders=WITH_RESIDUALS,
        runs=1,
        error=1e-7,
        to_the_end=True,
        tolerance=1e-6,
        timed=False,
        printed_residuals=True,
    ),
    "tolerance": Plan(
        name="tolerance",
        families=FAMILIES,
        sizes=(100,),
        side=10,
        contenders=BY_TOLERANCE,
        runs=3,
        error=1e-7,
        tolerance=1e-6,
        patience=10,
        timed=False,
    ),
    "tolerance-small": Plan(
        name="tolerance-small",
        families=("high", "sharp", "strong"),
        sizes=(250,),
        side=5,
        contenders=BY_A_FEW_TOLERANCES,
        runs=2,
        error=1e-4,
        tolerance=1e-6,
        patience=10,
        timed=False,
    ),
    "joint-ie": Plan(
        name="joint-ie",
        families=("peaked", "flat"),
        sizes=(4, 6, 8, 12, 16),
        side=0,
        contenders=TO_AN_ERROR,
        runs=5,
        error=1e-3,
        tolerance=1e-4,
        patience=30,
    ),
}

QUICK = {
    "grids": replace(PLANS["grids"], families=("peaked", "strong", "flat"), side=4, sizes=(16,), runs=2),
    "domains": replace(PLANS["domains"], side=3, sizes=(6, 12), runs=2, patience=30),
    "residuals": replace(PLANS["residuals"], families=("peaked", "flat"), side=4, sizes=(16,), runs=2),
    "tolerance": replace(PLANS["tolerance"], families=("sharp",), side=3, sizes=(12,), runs=2),
    "tolerance-small": replace(PLANS["tolerance-small"], families=("high",), side=3, sizes=(16,), runs=2),
    "joint-ie": replace(PLANS["joint-ie"], sizes=(2, 3), runs=2, patience=10),
}
"""The same on small models: to see everything work, in under a minute."""

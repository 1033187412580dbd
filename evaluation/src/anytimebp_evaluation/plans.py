"""What the experiments consist of, as data: families, sizes, contenders, runs, and the error in question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from anytimebp import FactorGraph
from anytimebp_evaluation.families import GRIDS, READINGS, graph_of, grid, joint_extraction

EVERYTHING = ("bp", "bp-random", "rbp", "truncbp", "random", "fixed", "dynamic", "fixed-raw", "dynamic-raw", "adaptive")
TO_AN_ERROR = ("bp", "bp-random", "rbp", "fixed", "dynamic", "adaptive")

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
        error: The L2 error that times are taken to.
        to_the_end: Whether runs go on to convergence; else until they are well under the error.
        tolerance: To which messages settle in every round.
        patience: A method that grows is given up once it has read so many times what BP reads, or MOST_SECONDS have
            passed; None to run to the end, however long that takes.
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

    def settings(self) -> str:
        """Return what must be the same for results to be put together; more runs and sizes may join later."""
        families = "; ".join(f"{family}: {self.scores(family)}" for family in self.families)
        limit = f"given up after {self.patience} times the work of BP or {MOST_SECONDS:g} seconds"
        end = "run to the end" if self.to_the_end else limit
        model = f"{self.side} x {self.side} grids" if self.side else "joint extraction"
        return f"{model}, {families}, tolerance {self.tolerance:g}, L2 error {self.error:g}, {end}"

    def scores(self, family: str) -> str:
        """Return how the scores of a family are drawn."""
        return str(GRIDS[family] if self.side else READINGS[family])


PLANS = {
    "grids": Plan(
        name="grids",
        families=("peaked", "middle", "flat"),
        sizes=(100,),
        side=10,
        contenders=EVERYTHING,
        runs=10,
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
    "grids": replace(PLANS["grids"], side=4, sizes=(16,), runs=2),
    "domains": replace(PLANS["domains"], side=3, sizes=(6, 12), runs=2, patience=30),
    "joint-ie": replace(PLANS["joint-ie"], sizes=(2, 3), runs=2, patience=10),
}
"""The same on small models: to see everything work, in under a minute."""

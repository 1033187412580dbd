"""The unexplored mass of a snapshot, computed when somebody asks."""

from __future__ import annotations

import numpy as np

from anytimebp.growth.estimates import log_ratios
from anytimebp.kernels.codes import LINEAR, OK
from anytimebp.kernels.readout import read_weights
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.workspace.space import WorkspaceArrays
from anytimebp.workspace.universe import Universe


class UnexploredMass:
    """Scores all states outside the domains of one snapshot, once."""

    def __init__(
        self,
        universe: Universe,
        arrays: WorkspaceArrays,
        states: IndexArray,
        log_scale: FloatArray,
        log_normaliser: FloatArray,
    ) -> None:
        """Hold what a snapshot was read from.

        Args:
            universe: Topology, sources and priors, which do not change.
            arrays: Frozen messages.
            states: The states of all domains, variable after variable.
            log_scale: (F,) of the tables.
            log_normaliser: (V,) log sum of each belief.
        """
        self._universe = universe
        self._arrays = arrays
        self._states = states
        self._log_scale = log_scale
        self._start = np.zeros(len(log_normaliser) + 1, dtype=np.int64)
        np.cumsum(arrays.domain_size, out=self._start[1:])
        self._log_normaliser = log_normaliser

    def __call__(self) -> float:
        """Return the largest, over variables, estimated belief outside the domain; NaN if messages exclude it."""
        weight = np.empty(len(self._arrays.message))
        status, _ = read_weights(self._universe.compiled.arrays, self._arrays, weight)
        if status != OK:
            return float("nan")
        unexplored = self._arrays.domain_size < self._universe.n_allowed
        return max((self._of(i, weight) for i in np.flatnonzero(unexplored).tolist()), default=0.0)

    def _domain(self, variable: int) -> IndexArray:
        return self._states[self._start[variable] : self._start[variable + 1]]

    def _of(self, variable: int, weight: FloatArray) -> float:
        arrays, edge_variable = self._arrays, self._universe.compiled.arrays.edge_variable

        def weights(edge: int) -> FloatArray:
            start = arrays.edge_slot_start[edge]
            return weight[start : start + arrays.domain_size[edge_variable[edge]]]

        def scale(edge: int) -> float:
            value = float(arrays.edge_scale[edge])
            return float(np.log(value)) if arrays.arithmetic == LINEAR else value

        ratios = (
            log_ratios(self._universe, self._domain, weights, scale, self._log_scale, variable)
            - self._log_normaliser[variable]
        )
        ratios[self._domain(variable)] = -np.inf
        peak = max(0.0, float(ratios.max(initial=-np.inf)))
        total = float(np.exp(ratios - peak).sum())
        return total / (total + float(np.exp(-peak)))

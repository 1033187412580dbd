"""Beliefs of a graph whose leaves were summed into its core: those of leaves are made when somebody reads."""

from __future__ import annotations

from weakref import ref

import numpy as np

from anytimebp.inference.beliefs import beliefs_of, bethe_terms
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.leaves import Leaves, copied


class LaterBeliefs:
    """Makes the beliefs of all variables, from messages as they are now; sends to the leaves when asked.

    The messages are those of the run itself until it goes on; it has them copied before that.
    """

    def __init__(self, leaves: Leaves, belief_start: IndexArray, *, is_over: bool) -> None:
        """Keep the messages.

        Args:
            leaves: Of a run whose pass up is through.
            belief_start: (V + 1,) where each variable's belief starts.
            is_over: Whether the run is, so that nothing but this object will write to its messages.
        """
        self._leaves = leaves
        self._start = belief_start
        self._is_over = is_over
        self._copy: WorkspaceArrays | None = None
        self._sent: WorkspaceArrays | None = None
        if not is_over:
            leaves.readers.append(ref(self))

    def keep(self) -> None:
        """Copy the messages, as the run is about to go on."""
        self._copy = copied(self._leaves.workspace.layout, self._leaves.all_arrays())
        self._sent = None

    def arrays(self) -> WorkspaceArrays:
        """Return the messages, those to leaves included; those of a run that is not over, until it goes on."""
        leaves = self._leaves
        with leaves.reading:
            if self._is_over:
                return leaves.final_arrays()
            if self._sent is None:
                if self._copy is None and len(leaves.workspace.arrays.hub_variable):
                    self.keep()  # totals of hubs would change in the last bit, were messages sent in place and again
                self._sent = leaves.send_down(self._copy or leaves.all_arrays())
            return self._sent

    def __call__(self) -> FloatArray:
        """Return the beliefs, variable after variable."""
        workspace = self._leaves.workspace
        with self._leaves.reading:
            return beliefs_of(workspace.compiled, workspace.layout, self.arrays(), self._start)[0]


def core_beliefs(leaves: Leaves) -> tuple[FloatArray, float]:
    """Return the beliefs of the core's variables as they are now, and log Z but for the scales of tables and priors."""
    core = leaves.core
    if core is None:
        return np.empty(0), leaves.constant
    compiled = leaves.workspace.compiled
    belief, log_normaliser = beliefs_of(compiled, core.layout, core.arrays, core.slot_start, core.variables)
    return belief, leaves.constant + bethe_terms(core.layout, core.arrays, log_normaliser)

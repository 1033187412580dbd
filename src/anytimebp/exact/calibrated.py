"""A tree of cliques that is calibrated under observations which stay, and asked with some more of them."""

from __future__ import annotations

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.exact.passes import Passes
from anytimebp.kernels.calibrated import CalibratedArrays, add_observations, sum_separators
from anytimebp.kernels.kept_evidence import find_alike
from anytimebp.model.source import FloatArray, IndexArray


class CalibratedTree:
    """Joint marginals of all cliques under some observations.

    Attributes:
        tree: The cliques.
        slot_start: (V + 1,) where the states of a variable start in rows of beliefs.
        slot_state: These states; empty where they are the universes.
        in_logs: Whether a clique was summed in logs.
        log_z: Of the model, under the observations of the last query.
        scratch: A number per slot, for whoever wants few of them.
    """

    def __init__(self, passes: Passes, domains: Domains, log_z: float) -> None:
        """Take over what two passes have come to.

        Args:
            passes: Which are through, over the whole graph.
            domains: The states that the observations leave.
            log_z: Of the model under these.
        """
        joints, tree = passes.joints(), passes.tree
        self.tree, self.in_logs, self.log_z = tree, passes.in_logs, log_z
        self.slot_start, self.slot_state = domains.slot_start, domains.slot_state
        self._sizes, self._belief, self._log_z = domains.sizes, passes.belief, log_z
        self.scratch: FloatArray = self._belief.copy()
        n, n_entries = tree.n, tree.message_entries
        scopes = tree.arrays.scope_start[: n + 1]
        n_axes = int(np.maximum.reduce(scopes[1:] - scopes[:-1], initial=1))
        numbers, flags = np.empty((5, n), dtype=np.int64), np.empty((5, n), dtype=np.bool_)
        root, alike, seen, marks, inputs = numbers
        self._arrays = CalibratedArrays(
            joint=joints.table,
            marginal=np.empty(n_entries),
            slot_start=domains.slot_start,
            root=root,
            alike=alike,
            now=np.empty(len(joints.table)),
            up=np.empty(n_entries),
            down=np.empty(n_entries),
            ratio=np.empty(tree.largest_message),
            axes=np.empty((3, n_axes), dtype=np.int64),
            position=np.empty(n, dtype=np.int64),
            seen=seen,
            marks=marks,
            inputs=inputs,
            is_sent=flags[0],
            is_moved=flags[1],
            came_down=flags[2],
            is_summed=flags[3],
            is_needed=flags[4],
        )
        find_alike(tree.arrays, n, alike)
        sum_separators(self._sizes, tree.arrays, self._arrays, n)

    def position_of(self, variable: int, state: int) -> int:
        """Return where a state is in the domain of a variable; -1 where the observations that stay exclude it."""
        if not len(self.slot_state):
            return state
        first, last = int(self.slot_start[variable]), int(self.slot_start[variable + 1])
        found = int(np.searchsorted(self.slot_state[first:last], state))
        return found if first + found < last and self.slot_state[first + found] == state else -1

    def answer(self, seen: dict[int, int], wanted: IndexArray, belief: FloatArray) -> tuple[bool, int, int]:
        """Add observations, and fill the marginals under them.

        Args:
            seen: Observed states, as places in the domains of their variables.
            wanted: Variables whose marginals are wanted; all, if there are none.
            belief: A number per slot; overwritten with the marginals of these, or of all.

        Returns:
            Whether the observations are possible, and not so unlikely that numbers may have been lost; cliques that
            were moved, and entries read.
        """
        free = {v: position for v, position in seen.items() if self.tree.arrays.clique_of[v] >= 0}
        variables, positions = np.array([*free], dtype=np.int64), np.array([*free.values()], dtype=np.int64)
        for v in wanted.tolist():
            own = slice(int(self.slot_start[v]), int(self.slot_start[v + 1]))
            belief[own] = self._belief[own]
        if not len(wanted):
            belief[:] = self._belief
        given = self._sizes, self.tree.arrays, self._arrays, self.tree.n
        log_share, moved, work = add_observations(*given, variables, positions, wanted, belief)
        self.log_z = self._log_z + log_share
        return log_share > -np.inf, moved, work

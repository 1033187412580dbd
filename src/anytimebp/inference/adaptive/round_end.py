"""What rounds on strips leave behind, and why there are no more of them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from anytimebp.inference.adaptive.nested import NestedWorkspace
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.arrays import WorkspaceArrays


class Outcome(Enum):
    """Why the rounds have ended; the texts complete "left the domains because"."""

    DEAR = "strips would now cost half as much as whole tables do"
    WIDE = "strips would ask for more scores than looking at states in passing does"
    CLOSE = "what is left out no longer counts"
    UNSETTLED = "messages on the domains do not settle"
    NOT_POSITIVE = "scores have hard zeros or a range beyond linear arithmetic"
    MEMORY = "the domains would outgrow the memory"
    CONVERGED = "the domains hold every state, and messages have settled"


class RoundEnd(NamedTuple):
    """What is known at the end of a round; owns its arrays.

    Attributes:
        workspace: Of the run; its messages move on.
        arrays: Messages over the states within reach, as they were.
        belief: Per variable slot.
        domain_size: (V,) of the domains.
        tolerance: To which the domains have settled.
        residual: What the sweep over the strips has moved on the domains, before they settled.
        change: By how much the round has moved the marginals: mean over variables of the L2 distance.
        outside: Largest, over variables, belief outside the domain.
        error: Estimated distance of the marginals to those of BP.
        log_z: Bethe estimate on the states that messages reach.
        updates: Factor updates until then.
        work_parts: Entries read until then, by purpose.
    """

    workspace: NestedWorkspace
    arrays: WorkspaceArrays
    belief: FloatArray
    domain_size: IndexArray
    tolerance: float
    residual: float
    change: float
    outside: float
    error: float
    log_z: float
    updates: int
    work_parts: dict[str, int]

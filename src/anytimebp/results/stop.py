"""Why a run ended, with a text that says what to try next."""

from __future__ import annotations

from enum import Enum


class StopReason(Enum):
    """Why a run ended. `str()` gives a sentence that says what to try next.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(2, 3)
        >>> _ = graph.add_factor([0, 1], log_table=np.eye(3))
        >>> abp.infer(graph).stop_reason is abp.StopReason.CONVERGED
        True
    """

    CONVERGED = "converged: no message moves by more than the tolerance"
    OUT_OF_TIME = "the time was used up; allow more `seconds`, or go on with `Inference.run()`"
    OUT_OF_UPDATES = "the updates were used up; allow more `max_updates`, or go on with `Inference.run()`"
    OUT_OF_WORK = "the work was used up; allow more `max_work`, or go on with `Inference.run()`"
    OUT_OF_MEMORY = "larger domains need more memory than `max_memory` allows, or than there is"
    OUT_OF_CANDIDATES = (
        "messages have settled on all states that rules propose; `unexplored_mass` says what others may weigh"
    )
    TARGET_REACHED = "the estimated distance to BP is under `target_error`"
    NOT_CONVERGED = (
        "belief propagation does not settle on this model, damped or not; "
        'try another `method`, `schedule="random"`, another `damping` or a looser `tolerance`'
    )
    OPTIMAL = "no joint state has a higher score"
    NO_BETTER_STATE = (
        "neither the joint state nor the bound on its score improves any more, and there may be a better one; "
        'try `method="exact"`'
    )
    NO_POSSIBLE_STATE = 'no possible joint state was found, though there may be one; try `method="exact"`'
    INTERRUPTED = "interrupted from the keyboard"
    CALLBACK = "stopped by the callback"

    def __str__(self) -> str:
        """Return the sentence."""
        return self.value

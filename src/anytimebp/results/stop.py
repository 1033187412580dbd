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
    OUT_OF_TIME = "out of time; allow more `seconds`, or continue with `Inference.run()`"
    OUT_OF_UPDATES = "out of updates; allow more `max_updates`, or continue with `Inference.run()`"
    OUT_OF_WORK = "out of work; allow more `max_work`, or continue with `Inference.run()`"
    OUT_OF_MEMORY = "larger domains would need more memory than `max_memory` allows, or than the machine has"
    OUT_OF_CANDIDATES = (
        "messages have settled on all states that rules propose; `unexplored_mass` estimates the belief of the others"
    )
    TARGET_REACHED = "the estimated distance to BP is at most `target_error`"
    NOT_CONVERGED = (
        "belief propagation does not settle on this model, even with damping; "
        'try another `method`, `schedule="random"`, another `damping` or a looser `tolerance`'
    )
    OPTIMAL = "no joint state has a higher score"
    NO_BETTER_STATE = (
        "neither the joint state nor the bound on its score improves any more, but a better state may exist; "
        'try `method="exact"`'
    )
    NO_POSSIBLE_STATE = 'no possible joint state was found, but one may exist; try `method="exact"`'
    INTERRUPTED = "interrupted from the keyboard"
    CALLBACK = "stopped by the callback"

    def __str__(self) -> str:
        """Return the sentence."""
        return self.value

"""Which class runs a method."""

from __future__ import annotations

from anytimebp.errors import MemoryLimitError
from anytimebp.inference.active_exact import ActiveExactRun
from anytimebp.inference.adaptive.adaptive_run import AdaptiveRun
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.auto_run import AutoRun
from anytimebp.inference.exact_run import ExactRun
from anytimebp.inference.forest_run import forest_run
from anytimebp.inference.method import Method, Task
from anytimebp.inference.methods import FULL_METHODS
from anytimebp.inference.one_by_one import OneByOne
from anytimebp.inference.truncated_run import truncated_run


def make_method(task: Task) -> Method:
    """Return the method that a task asks for, about to begin."""
    method = task.options.method
    if method == "exact":
        try:
            return forest_run(task) or ExactRun(task)
        except MemoryLimitError:
            return ActiveExactRun(task)
    if method == "auto" and task.options.policy is None:
        return AutoRun(task)
    if method == "adaptive" and task.options.policy is None:
        return AdaptiveRun(task)
    return AllStates(task) if method in FULL_METHODS else truncated_run(task) or OneByOne(task)

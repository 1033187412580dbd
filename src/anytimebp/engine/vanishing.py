"""What to say of a model whose messages vanish."""

from __future__ import annotations

from anytimebp.errors import InconsistentModelError
from anytimebp.kernels.codes import VARIABLE_VANISHED
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.factor import describe_factor


def vanished(compiled: CompiledGraph, status: int, culprit: int, given: str) -> InconsistentModelError:
    """Return the error that names the culprit.

    Args:
        compiled: The graph.
        status: VARIABLE_VANISHED or FACTOR_VANISHED.
        culprit: The variable, or the message factor.
        given: On what it vanishes, empty or with a space in front.
    """
    if status == VARIABLE_VANISHED:
        what = f"the neighbours of variable {compiled.variables.name(culprit)!r} exclude its every state"
    else:
        name = describe_factor(compiled.blocks, compiled.variables, compiled.graph_factor(culprit))
        what = f"{name} excludes every state"
    return InconsistentModelError(f"no joint state is possible{given}: messages vanish, as {what}")

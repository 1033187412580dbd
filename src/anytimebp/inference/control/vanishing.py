"""Domains that admit no joint state, and what to say of a model whose messages vanish."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anytimebp.errors import InconsistentModelError
from anytimebp.inference.options import RunOptions
from anytimebp.kernels.codes import VARIABLE_VANISHED
from anytimebp.kernels.journal import N_TOUCHED
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.factor import describe_factor
from anytimebp.paper.growing_domains import GrowingDomains


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


def vanished_on_domains(
    compiled: CompiledGraph, options: RunOptions, is_impossible: npt.NDArray[np.bool_], status: int, culprit: int
) -> InconsistentModelError:
    """Return the error for domains that cannot grow and admit no joint state; a variable without any is named first."""
    given = " under this evidence" if options.observed else ""
    if options.method == "truncated":
        given += f" on the {options.fraction:g} of each universe that `fraction` allows"
    if is_impossible.any():
        return vanished(compiled, VARIABLE_VANISHED, int(is_impossible.argmax()), given)
    return vanished(compiled, status, culprit, given)


def may_be_possible(growing: GrowingDomains, status: int) -> bool:
    """Tell whether the domains of a run that has not settled yet admit a joint state, as far as messages tell.

    Without hard zeros they do. Otherwise messages must not have vanished when they were last sent (`status`), and every
    factor must have sent some. Beliefs that have not heard from all factors may be certain of what is impossible.
    """
    has_zero = growing.workspace.tables.has_zero
    return not has_zero.any() or (status == 0 and int(growing.journal.counts[N_TOUCHED]) == len(has_zero))

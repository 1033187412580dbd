"""Messages read and set from outside, and carried over from one workspace to another."""

from __future__ import annotations

import numpy as np

from anytimebp.kernels.codes import LOG
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.workspace import Workspace, add_messages_to_hubs


def log_message(workspace: Workspace, edge: int) -> FloatArray:
    """Return the log message of an edge, factor to variable, over the active states; its largest number is 0."""
    arrays, slots = workspace.arrays, _slots(workspace, edge)
    if arrays.arithmetic == LOG:
        return arrays.message[slots].copy()
    with np.errstate(divide="ignore"):
        found: FloatArray = np.log(arrays.message[slots])
    return found


def set_log_message(workspace: Workspace, edge: int, values: FloatArray) -> None:
    """Replace the message of an edge; `values` are logs over the active states, -inf for a hard zero.

    The totals of hubs are not brought up to date: `add_messages_to_hubs` does that, once for all messages.
    """
    arrays = workspace.arrays
    values = values - values.max()
    arrays.message[_slots(workspace, edge)] = values if arrays.arithmetic == LOG else np.exp(values)
    arrays.edge_min[edge] = np.exp(values[values > -np.inf].min())


def _slots(workspace: Workspace, edge: int) -> slice:
    start = int(workspace.arrays.edge_slot_start[edge])
    return slice(start, start + int(workspace.arrays.domain_size[workspace.layout.edge_variable[edge]]))


def carry_over(old: Workspace, new: Workspace) -> IndexArray:
    """Start a workspace with the messages of another on the same graph; return the factors that this disturbs.

    These are the factors of variables whose active states or priors differ, and those whose messages are not carried
    over: they have hard zeros, which may not hold any more.
    """
    layout, arrays = new.layout, new.arrays
    changed = _changed_variables(old, new)
    disturbed = np.zeros(len(layout.factor_edge_start) - 1, dtype=np.bool_)
    disturbed[layout.edge_factor[changed[layout.edge_variable]]] = True
    same_arithmetic = old.arrays.arithmetic == arrays.arithmetic
    for edge, variable in enumerate(layout.edge_variable.tolist()):
        values = log_message(old, edge)
        if (values == -np.inf).any():
            disturbed[layout.edge_factor[edge]] = True
            continue
        if changed[variable]:
            values = _on_states(values, _states(old, variable), _states(new, variable))
        if same_arithmetic and not changed[variable]:
            arrays.message[_slots(new, edge)] = old.arrays.message[_slots(old, edge)]
            arrays.edge_min[edge] = old.arrays.edge_min[edge]
        else:
            set_log_message(new, edge, values)
    if same_arithmetic:  # what log Z needs of factors that are not updated again
        kept = ~disturbed & (old.tables.log_scale == new.tables.log_scale)
        arrays.factor_total[kept] = old.arrays.factor_total[kept]
        edges = kept[layout.edge_factor]
        arrays.edge_scale[edges] = old.arrays.edge_scale[edges]
        disturbed |= ~kept
    else:
        disturbed[:] = True
    add_messages_to_hubs(arrays, new.layout, new.domains)
    found: IndexArray = np.flatnonzero(disturbed)
    return found


def _changed_variables(old: Workspace, new: Workspace) -> np.ndarray:
    """Return (V,) whether a variable's active states or log priors differ."""
    changed: np.ndarray = old.domains.sizes != new.domains.sizes
    for variable in {*old.domains.states, *new.domains.states}:
        changed[variable] |= not np.array_equal(_states(old, variable), _states(new, variable))
    for variable in np.flatnonzero(~changed).tolist():
        before, after = (
            w.arrays.prior[w.domains.slot_start[variable] :][: w.domains.sizes[variable]] for w in (old, new)
        )
        changed[variable] = not np.array_equal(before, after)
    return changed


def _priors(workspace: Workspace, variable: int) -> FloatArray:
    start = workspace.domains.slot_start
    return workspace.arrays.prior[start[variable] : start[variable + 1]]


def _states(workspace: Workspace, variable: int) -> IndexArray:
    every = np.arange(workspace.compiled.universe_sizes[variable])
    return workspace.domains.states.get(variable, every)


def _on_states(values: FloatArray, old: IndexArray, new: IndexArray) -> FloatArray:
    """Return log numbers over other states; states that are new get the largest, as at the start of a run."""
    place = np.clip(np.searchsorted(old, new), 0, len(old) - 1)
    found: FloatArray = np.where(old[place] == new, values[place], 0.0)
    return found

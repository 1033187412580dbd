"""Messages from outside: of another run, or set one by one; and which factors they disturb."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from anytimebp.kernels.codes import LOG
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.tables.workspace import Workspace


class Start(NamedTuple):
    """What a run starts from instead of uniform messages.

    Attributes:
        workspace: Of an earlier run on a graph with the same variables and factors, its messages to leaves sent.
        changed: Message factors whose tables are others now.
        messages: Log messages to set, by edge, over the active states; -inf is a hard zero.
    """

    workspace: Workspace
    changed: IndexArray
    messages: Mapping[int, FloatArray]


def read_message(workspace: Workspace, edge: int) -> FloatArray:
    """Return the log message of an edge, factor to variable, over the active states; its largest number is 0."""
    arrays, slots = workspace.arrays, _slots(workspace, edge)
    if arrays.arithmetic == LOG:
        return arrays.message[slots].copy()
    with np.errstate(divide="ignore"):
        found: FloatArray = np.log(arrays.message[slots])
    return found


def carry_over(start: Start, workspace: Workspace) -> IndexArray:
    """Put messages in place of those that a workspace starts with; return the message factors that this disturbs.

    Those are to be updated; all others would send what they have sent. A factor is disturbed if its table has changed,
    if the active states or the prior of one of its variables have, or if another factor's message to one of them has.
    Messages with hard zeros, which may not hold any more, are not carried over.
    """
    layout, old, before = workspace.layout, start.workspace, start.workspace.arrays
    has_other_states, has_other_prior = _changed_variables(old, workspace)
    moved = np.zeros(len(layout.edge_variable), dtype=np.bool_)  # messages that receivers have not seen
    for edge, variable in enumerate(layout.edge_variable.tolist()):
        values = read_message(old, edge)
        if edge in start.messages or (values == -np.inf).any():
            moved[edge] = True
            if edge in start.messages:
                _set_message(workspace, edge, start.messages[edge])
        else:
            if has_other_states[variable]:
                values = _on_states(values, old.domains.states_of(variable), workspace.domains.states_of(variable))
            _set_message(workspace, edge, values)
    disturbed = np.zeros(len(layout.factor_edge_start) - 1, dtype=np.bool_)
    disturbed[start.changed] = True
    changed = has_other_states | has_other_prior
    changed[layout.edge_variable[moved]] = True
    disturbed[layout.edge_factor[changed[layout.edge_variable]]] = True
    disturbed |= old.tables.log_scale != workspace.tables.log_scale
    if before.arithmetic != workspace.arrays.arithmetic:
        disturbed[:] = True
    else:  # what log Z needs of factors that are not updated again
        kept = ~disturbed
        workspace.arrays.factor_total[kept] = before.factor_total[kept]
        edges = kept[layout.edge_factor]
        workspace.arrays.edge_scale[edges] = before.edge_scale[edges]
        lone = edges & (workspace.arrays.domain_size[layout.edge_variable] == 1)  # a pass over trees leaves them out
        workspace.arrays.edge_scale[lone] = before.factor_total[layout.edge_factor[lone]]
    _sum_hubs(workspace)
    found: IndexArray = np.flatnonzero(disturbed)
    return found


def _set_message(workspace: Workspace, edge: int, values: FloatArray) -> None:
    """Replace the message of an edge by its logs; the totals of hubs are left to `_sum_hubs`."""
    arrays, slots = workspace.arrays, _slots(workspace, edge)
    values = values - values.max()
    arrays.message[slots] = values if arrays.arithmetic == LOG else np.exp(values)
    arrays.edge_min[edge] = np.exp(values[values > -np.inf].min())


def _slots(workspace: Workspace, edge: int) -> slice:
    start = int(workspace.arrays.edge_slot_start[edge])
    return slice(start, start + int(workspace.arrays.domain_size[workspace.layout.edge_variable[edge]]))


def _changed_variables(old: Workspace, new: Workspace) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return (V,) whether a variable's active states differ, and whether only its priors do."""
    states: npt.NDArray[np.bool_] = old.domains.sizes != new.domains.sizes
    if not (old.domains.is_whole and new.domains.is_whole):
        for variable in np.flatnonzero(~states).tolist():
            states[variable] = not np.array_equal(old.domains.states_of(variable), new.domains.states_of(variable))
    priors = np.zeros(len(states), dtype=np.bool_)
    for variable in np.flatnonzero(~states).tolist():
        priors[variable] = not np.array_equal(_log_prior(old, variable), _log_prior(new, variable))
    return states, priors


def _log_prior(workspace: Workspace, variable: int) -> FloatArray:
    arrays, start = workspace.arrays, int(workspace.domains.slot_start[variable])
    prior = arrays.prior[start : start + int(arrays.domain_size[variable])]
    if arrays.arithmetic == LOG:
        return prior
    with np.errstate(divide="ignore"):
        found: FloatArray = np.log(prior)
    return found


def _on_states(values: FloatArray, old: IndexArray, new: IndexArray) -> FloatArray:
    """Return log numbers over other states; states that are new get the largest, as at the start of a run."""
    place = np.minimum(np.searchsorted(old, new), len(old) - 1)
    found: FloatArray = np.where(old[place] == new, values[place], 0.0)
    return found


def _sum_hubs(workspace: Workspace) -> None:
    """Fill the totals of variables of high degree from their priors and messages, to twice the digits."""
    layout, arrays = workspace.layout, workspace.arrays
    for hub, variable in enumerate(arrays.hub_variable.tolist()):
        edges = layout.variable_edge[layout.variable_edge_start[variable] : layout.variable_edge_start[variable + 1]]
        logs = np.array([_log_prior(workspace, variable), *(read_message(workspace, int(edge)) for edge in edges)])
        is_zero = logs == -np.inf
        place = slice(int(arrays.hub_start[hub]), int(arrays.hub_start[hub]) + logs.shape[1])
        columns = np.where(is_zero, 0.0, logs).T.tolist()
        high = [fsum(column) for column in columns]
        arrays.hub_high[place] = high
        arrays.hub_low[place] = [fsum([*column, -total]) for column, total in zip(columns, high, strict=True)]
        arrays.hub_zeros[place] = is_zero.sum(axis=0)

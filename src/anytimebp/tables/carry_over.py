"""Start messages: taken from another run or set one by one; and which factors must be updated because of them."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from typing import NamedTuple

import numpy as np

from anytimebp.kernels.codes import LOG
from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.source import BoolArray, FloatArray, IndexArray
from anytimebp.tables.arrays import WorkspaceArrays
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
    """Replace the uniform messages of a workspace; return the message factors that have to be updated.

    All other factors would send the same messages again. A factor has to be updated if its table has changed, if the
    active states or the prior of one of its variables have changed, or if another factor's message to one of them has.
    Messages with hard zeros are not copied, because the zeros may no longer hold.
    """
    layout, old, before = workspace.layout, start.workspace, start.workspace.arrays
    has_other_states, has_other_prior = _changed_variables(old, workspace)
    moved = _copy_messages(old, workspace)  # messages that receivers have not seen
    for edge, values in start.messages.items():
        _set_message(workspace, edge, values)
        moved[edge] = True
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


def set_priors(workspace: Workspace, variables: IndexArray, log_prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Replace the priors of some variables.

    Args:
        workspace: Whose priors and totals of hubs are overwritten. Its arithmetic must be able to hold the new priors.
        variables: (n,) whose domains are their universes.
        log_prior: Log priors over the universes, row after row; each has a finite one.

    Returns:
        (n,) the largest log prior of each variable, which was subtracted; and (n,) by how many nats its priors moved.
    """
    arrays, sizes = workspace.arrays, workspace.arrays.domain_size[variables]
    if not len(variables):
        return np.empty(0), np.empty(0)
    slots, first = row_items(arrays.variable_slot_start[variables], sizes), np.cumsum(sizes) - sizes
    scale = np.maximum.reduceat(log_prior, first)
    new, old = log_prior - np.repeat(scale, sizes), _log_priors(workspace, variables)
    arrays.prior[slots] = new if arrays.arithmetic == LOG else np.exp(new)
    arrays.prior_min[variables] = np.exp(np.minimum.reduceat(np.where(new > -np.inf, new, 0.0), first))
    _sum_hubs(workspace, set(variables.tolist()))
    return scale, ranges(new, old, first)


def ranges(new: FloatArray, old: FloatArray, first: IndexArray) -> FloatArray:
    """Return the range of the log ratio of new and old numbers, row by row; infinite where zeros have come or gone.

    Args:
        new: Logs, row after row; -inf is a hard zero.
        old: The same.
        first: Where each row starts; none is empty.
    """
    is_zero, was_zero = new == -np.inf, old == -np.inf
    is_left = ~(is_zero | was_zero)
    ratio = np.subtract(new, old, out=np.zeros_like(new), where=is_left)
    high = np.maximum.reduceat(np.where(is_left, ratio, -np.inf), first)
    low = np.minimum.reduceat(np.where(is_left, ratio, np.inf), first)
    has_changed = np.logical_or.reduceat(is_zero != was_zero, first)
    found: FloatArray = np.where(has_changed, np.inf, np.maximum(0.0, high - low))
    return found


def messages_in(workspace: Workspace, variables: IndexArray) -> FloatArray:
    """Return the log of what all factors together send to some variables, row after row; not normalised."""
    layout, arrays = workspace.layout, workspace.arrays
    sizes = arrays.domain_size[variables]
    first, degree = layout.variable_edge_start[variables], np.diff(layout.variable_edge_start)[variables]
    edges, owner = layout.variable_edge[row_items(first, degree)], np.repeat(np.arange(len(variables)), degree)
    values = arrays.message[row_items(arrays.edge_slot_start[edges], sizes[owner])]
    if arrays.arithmetic != LOG:
        with np.errstate(divide="ignore"):
            values = np.log(values)
    n, position = int(sizes.sum()), row_items((np.cumsum(sizes) - sizes)[owner], sizes[owner])
    is_zero = values == -np.inf
    total = np.bincount(position, weights=np.where(is_zero, 0.0, values), minlength=n)
    has_zero = np.bincount(position[is_zero], minlength=n) > 0
    found: FloatArray = np.where(has_zero, -np.inf, total)
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


def _copy_messages(old: Workspace, new: Workspace) -> BoolArray:
    """Copy messages between slots of the same states; return (E,) which were left out, as they have hard zeros.

    States that are new get the largest number, as at the start of a run.
    """
    layout, before, after = new.layout, old.arrays, new.arrays
    n_edges = len(layout.edge_variable)
    if not n_edges:
        return np.zeros(0, dtype=np.bool_)
    if np.array_equal(before.edge_slot_start, after.edge_slot_start) and _are_alike(old, new):
        return _copy_all(before, after)
    old_size, new_size = before.domain_size[layout.edge_variable], after.domain_size[layout.edge_variable]
    values, states = before.message[row_items(before.edge_slot_start, old_size)], _states(old, layout.edge_variable)
    is_zero = values == (-np.inf if before.arithmetic == LOG else 0.0)
    is_left: BoolArray = np.logical_or.reduceat(is_zero, np.cumsum(old_size) - old_size)
    if before.arithmetic != after.arithmetic:
        with np.errstate(divide="ignore"):
            values = np.log(values) if after.arithmetic == LOG else np.exp(values)
    universe = row_starts(new.compiled.universe_sizes)
    position = np.full(int(universe[-1]), -1)
    variables = np.arange(len(after.domain_size))
    own = _states(new, variables)
    position[np.repeat(universe[:-1], after.domain_size) + own] = row_items(np.zeros_like(variables), after.domain_size)
    edge = np.repeat(np.arange(n_edges), old_size)
    target = position[universe[layout.edge_variable[edge]] + states]
    carried = (target >= 0) & ~is_left[edge]
    after.message[after.edge_slot_start[edge[carried]] + target[carried]] = values[carried]
    slots, first = row_items(after.edge_slot_start, new_size), np.cumsum(new_size) - new_size
    largest = np.maximum.reduceat(after.message[slots], first)
    scale = np.repeat(largest, new_size)
    after.message[slots] -= scale if after.arithmetic == LOG else 0.0
    after.message[slots] /= scale if after.arithmetic != LOG else 1.0
    least = np.minimum.reduceat(after.message[slots], first)
    after.edge_min[:] = np.exp(least) if after.arithmetic == LOG else least
    return is_left


def _are_alike(old: Workspace, new: Workspace) -> bool:
    """Tell whether messages of two workspaces have the same slots, one after the other, and arithmetic."""
    is_whole = old.domains.is_whole and new.domains.is_whole
    before, after = old.arrays, new.arrays
    start, size = after.edge_slot_start, after.domain_size[new.layout.edge_variable]
    is_dense = bool((start[1:] == start[:-1] + size[:-1]).all()) and len(after.message) == start[-1] + size[-1]
    return is_whole and is_dense and before.arithmetic == after.arithmetic and len(before.message) == len(after.message)


def _copy_all(before: WorkspaceArrays, after: WorkspaceArrays) -> BoolArray:
    """Copy the messages of all edges but those that have hard zeros; return (E,) which have."""
    zero, one = (-np.inf, 0.0) if after.arithmetic == LOG else (0.0, 1.0)
    start = after.edge_slot_start
    is_left: BoolArray = np.minimum.reduceat(before.message, start) == zero
    after.message[:] = before.message
    after.edge_min[:] = np.where(is_left, 1.0, before.edge_min)
    for edge in np.flatnonzero(is_left).tolist():
        last = start[edge + 1] if edge + 1 < len(start) else len(after.message)
        after.message[start[edge] : last] = one
    return is_left


def _states(workspace: Workspace, variables: IndexArray) -> IndexArray:
    """Return the active states of some variables, row after row."""
    sizes = workspace.arrays.domain_size[variables]
    if workspace.domains.is_whole:
        return row_items(np.zeros_like(sizes), sizes)
    states: IndexArray = workspace.domains.slot_state[row_items(workspace.domains.slot_start[variables], sizes)]
    return states


def _changed_variables(old: Workspace, new: Workspace) -> tuple[BoolArray, BoolArray]:
    """Return (V,) whether a variable's active states differ, and whether only its priors do."""
    states: BoolArray = old.arrays.domain_size != new.arrays.domain_size
    priors = np.zeros(len(states), dtype=np.bool_)
    alike = np.flatnonzero(~states)
    if not len(alike):
        return states, priors
    if len(alike) == len(states) and old.domains.is_whole and new.domains.is_whole:
        rows = new.domains.slot_start[:-1]
        if old.arrays.arithmetic == new.arrays.arithmetic:
            return states, np.logical_or.reduceat(old.arrays.prior != new.arrays.prior, rows)
    sizes = new.arrays.domain_size[alike]
    first = np.cumsum(sizes) - sizes
    if not (old.domains.is_whole and new.domains.is_whole):
        states[alike] = np.logical_or.reduceat(_states(old, alike) != _states(new, alike), first)
    differs = _log_priors(old, alike) != _log_priors(new, alike)
    priors[alike] = np.logical_or.reduceat(differs, first) & ~states[alike]
    return states, priors


def _log_priors(workspace: Workspace, variables: IndexArray) -> FloatArray:
    """Return the log priors of some variables, row after row."""
    arrays = workspace.arrays
    prior: FloatArray = arrays.prior[row_items(workspace.domains.slot_start[variables], arrays.domain_size[variables])]
    if arrays.arithmetic == LOG:
        return prior
    with np.errstate(divide="ignore"):
        return np.log(prior)


def _sum_hubs(workspace: Workspace, variables: set[int] | None = None) -> None:
    """Fill the totals of variables of high degree, all or some, from priors and messages, to twice the digits."""
    layout, arrays = workspace.layout, workspace.arrays
    for hub, variable in enumerate(arrays.hub_variable.tolist()):
        if variables is not None and variable not in variables:
            continue
        edges = layout.variable_edge[layout.variable_edge_start[variable] : layout.variable_edge_start[variable + 1]]
        prior = _log_priors(workspace, np.array([variable]))
        logs = np.array([prior, *(read_message(workspace, int(edge)) for edge in edges)])
        is_zero = logs == -np.inf
        position = slice(int(arrays.hub_start[hub]), int(arrays.hub_start[hub]) + logs.shape[1])
        columns = np.where(is_zero, 0.0, logs).T.tolist()
        high = [fsum(column) for column in columns]
        arrays.hub_high[position] = high
        arrays.hub_low[position] = [fsum([*column, -total]) for column, total in zip(columns, high, strict=True)]
        arrays.hub_zeros[position] = is_zero.sum(axis=0)

"""From messages to frozen records: beliefs, those of leaves when somebody reads them, factor marginals, log Z."""

from __future__ import annotations

import math
from collections.abc import Callable
from weakref import ref

import numpy as np

from anytimebp.domains.domains import Domains, variable_parts
from anytimebp.errors import InconsistentModelError, InternalError
from anytimebp.inference.figures import Figures
from anytimebp.inference.look.unexplored import UnexploredMass
from anytimebp.kernels.codes import LINEAR, OK
from anytimebp.kernels.readout import read_beliefs, read_weights, sum_bethe_terms
from anytimebp.layout.graph_layout import CompiledGraph, GraphLayout
from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray, read_only
from anytimebp.results.factor_marginals import NOT_ASKED_FOR, FactorMarginals
from anytimebp.results.marginals import REPORT_IT, Marginals
from anytimebp.results.snapshot import Snapshot
from anytimebp.tables.arrays import WorkspaceArrays
from anytimebp.tables.leaves import Leaves, copied
from anytimebp.tables.readable import Readable

READ_AT_ONCE = 2**14  # beliefs made of priors in one piece, which stays in the processor's cache


def beliefs_of(
    compiled: CompiledGraph,
    layout: GraphLayout,
    arrays: WorkspaceArrays,
    belief_start: IndexArray,
    variables: IndexArray | None = None,
    room: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the beliefs, variable after variable, and the logs of what they were divided by.

    Args:
        compiled: The graph.
        layout: Topology of the graph, or of its core.
        arrays: Messages.
        belief_start: Where each variable's belief starts.
        variables: Numbers of the core's variables in the graph; None for the whole graph.
        room: For the beliefs, which own it from now on; None for new memory.

    Raises:
        InconsistentModelError: Where messages exclude every state of a variable.
    """
    belief = np.empty(int(belief_start[-1])) if room is None else room
    log_normaliser = np.empty(len(arrays.domain_size))
    status, variable = read_beliefs(layout, arrays, belief_start, belief, log_normaliser)
    if status != OK:
        raise no_belief(compiled, variable if variables is None else int(variables[variable]))
    return belief, log_normaliser


def beliefs_if_any(layout: GraphLayout, arrays: WorkspaceArrays, belief_start: IndexArray) -> FloatArray | None:
    """Return the beliefs, variable after variable; None where messages exclude each other as yet."""
    belief, log_normaliser = np.empty(int(belief_start[-1])), np.empty(len(belief_start) - 1)
    status, _ = read_beliefs(layout, arrays, belief_start, belief, log_normaliser)
    return belief if status == OK else None


def part_of(layout: GraphLayout, arrays: WorkspaceArrays, variables: IndexArray) -> tuple[GraphLayout, WorkspaceArrays]:
    """Return some variables of a graph, numbered for themselves, as far as beliefs are read from them.

    Edges keep their numbers. `edge_variable` goes by the places in `variable_edge` instead.
    """
    first = layout.variable_edge_start[variables]
    degree = layout.variable_edge_start[variables + 1] - first
    edges = layout.variable_edge[row_items(first, degree)]
    owner = np.repeat(np.arange(len(variables)), degree)
    part = layout._replace(variable_edge_start=row_starts(degree), variable_edge=edges, edge_variable=owner)
    names = ("domain_size", "variable_slot_start", "prior_min", "variable_hub")
    return part, arrays._replace(**{name: getattr(arrays, name)[variables] for name in names})


def no_belief(compiled: CompiledGraph, variable: int) -> InconsistentModelError:
    """Return the error that names a variable without a possible state."""
    name = compiled.variables.name(variable)
    return InconsistentModelError(f"no joint state is possible: messages exclude every state of variable {name!r}")


def bethe_terms(layout: GraphLayout, arrays: WorkspaceArrays, log_normaliser: FloatArray) -> float:
    """Return log Z by the formula that heads the kernels, but for the scales of tables and priors."""
    total: float = sum_bethe_terms(
        layout.factor_edge_start, arrays.arithmetic, arrays.factor_total, arrays.edge_scale, log_normaliser
    )
    return total


def take_snapshot(
    source: Readable,
    figures: Figures,
    *,
    swept: bool,
    factor_marginals: bool,
    outside: float | Callable[[FloatArray, FloatArray], UnexploredMass],
    error: float | Callable[[FloatArray], Callable[[], float]] | None = None,
    domain_sizes: IndexArray | None = None,
    room: FloatArray | None = None,
) -> Snapshot:
    """Read the beliefs out of a workspace; log Z is not known (NaN) before every factor has been updated once.

    Args:
        source: What to read.
        figures: What goes with it.
        swept: Whether every factor has been updated.
        factor_marginals: Whether to keep what the marginals of factors need.
        outside: The unexplored mass, or how to compute it from the beliefs and the logs of their sums.
        error: The estimated error, or how to compute it from the beliefs, of the core where there are leaves; None if
            `outside` knows.
        domain_sizes: Of the domains, where messages reach further.
        room: For the beliefs, where all are read now.
    """
    arrays, leaves = source.arrays, source.leaves
    if leaves is None:
        given = source.compiled, source.compiled.arrays, arrays, source.belief_start
        belief, log_normaliser = beliefs_of(*given, room=room)
        marginals = Marginals(source.compiled.variables, belief, source.belief_start, source.states)
        unseen = outside(belief, log_normaliser) if callable(outside) else outside
        log_z = bethe_terms(source.compiled.arrays, arrays, log_normaliser) if swept else float("nan")
    else:
        belief, log_z = core_beliefs(leaves)
        later = LaterBeliefs(leaves, source.belief_start, is_over=figures.ending is not None)
        marginals = Marginals(source.compiled.variables, later, source.belief_start, source.states)
        unseen = 0.0
        if factor_marginals or leaves.workspace.tables.are_borrowed:  # the user may change those before they are read
            marginals.read()
            arrays = later.arrays()
    estimate: float | Callable[[], float] = float("inf")
    if error is not None:
        estimate = error(belief) if callable(error) else error
    elif isinstance(unseen, UnexploredMass):
        estimate = unseen.error
    log_z = (
        _finite(log_z + np.add.reduce(source.log_scale) + np.add.reduce(source.log_prior_scale))
        if swept
        else float("nan")
    )
    if swept and figures.consistent and math.isnan(log_z):
        msg = f"internal error: log Z is not a number although all messages have settled; {REPORT_IT}"
        raise InternalError(msg)
    return Snapshot.holding(
        marginals=marginals,
        log_z=log_z,
        outside=unseen,
        error=estimate,
        domain_sizes=read_only(arrays.domain_size if domain_sizes is None else domain_sizes),
        arithmetic="linear" if source.arrays.arithmetic == LINEAR else "log",
        factor_marginals=_factor_marginals(source.compiled, arrays, marginals) if factor_marginals else NOT_ASKED_FOR,
        **figures.shown(),
    )


def prior_snapshot(
    compiled: CompiledGraph,
    domains: Domains,
    figures: Figures,
    *,
    outside: float,
    factor_marginals: bool,
    n_priors: int = 0,
    room: FloatArray | None = None,
) -> Snapshot:
    """Return what is known before any message: unary scores alone, and for factors, these and their own scores.

    Args:
        compiled: The graph.
        domains: Of every state that the evidence allows, with log priors.
        figures: What goes with it.
        outside: The unexplored mass.
        factor_marginals: Whether the snapshot can give those.
        n_priors: Slots, from the first one on, where a workspace has made priors of log priors.
        room: For the beliefs, which own it from now on; None for new memory.
    """
    sizes, start = domains.sizes, domains.slot_start
    belief = np.empty(len(domains.log_prior)) if room is None else room
    for first, last in variable_parts(start, READ_AT_ONCE):
        fill_from_priors(domains, belief, first, last, n_priors)
    marginals = Marginals(compiled.variables, belief, start, domains.slot_state)
    joint: FactorMarginals = NOT_ASKED_FOR
    if factor_marginals:
        with np.errstate(divide="ignore"):
            log_prior = np.append(np.log(domains.log_prior[:n_priors]), domains.log_prior[n_priors:])
        edge_start = start[compiled.arrays.edge_variable]
        joint = FactorMarginals(marginals, compiled.blocks, _first_edges(compiled), edge_start, log_prior)
    return Snapshot(
        marginals=marginals,
        log_z=float("nan"),
        outside=outside,
        error=float("inf"),
        domain_sizes=read_only(sizes),
        arithmetic="linear",
        factor_marginals=joint,
        **figures.shown(),
    )


def fill_from_priors(domains: Domains, belief: FloatArray, first: int, last: int, n_priors: int = 0) -> None:
    """Fill the beliefs of some successive variables with what their priors alone say; see `prior_snapshot`."""
    start = domains.slot_start[first : last + 1]
    own, prior = belief[start[0] : start[-1]], domains.log_prior[start[0] : start[-1]]
    n_priors = max(0, n_priors - int(start[0]))
    own[:n_priors] = prior[:n_priors]
    np.exp(prior[n_priors:], out=own[n_priors:])
    if last > first:
        own /= np.repeat(np.add.reduceat(own, start[:-1] - start[0]), domains.sizes[first:last])


def _finite(log_z: float) -> float:
    return float(log_z) if math.isfinite(log_z) else float("nan")


def _factor_marginals(compiled: CompiledGraph, arrays: WorkspaceArrays, marginals: Marginals) -> FactorMarginals:
    log_weight = np.empty(len(arrays.message))
    status, variable = read_weights(compiled.arrays, arrays, log_weight)
    if status != OK:
        raise no_belief(compiled, variable)
    return FactorMarginals(marginals, compiled.blocks, _first_edges(compiled), arrays.edge_slot_start, log_weight)


def _first_edges(compiled: CompiledGraph) -> IndexArray:
    """Return the first edge of every factor of the graph, -1 for unary ones."""
    factor_edge = np.full(sum(len(block.scopes) for block in compiled.blocks), -1, dtype=np.int64)
    for first, block in compiled.message_blocks:
        n = len(block.scopes)
        factor_edge[block.first : block.first + n] = compiled.arrays.factor_edge_start[first : first + n]
    return factor_edge


class LaterBeliefs:
    """Makes the beliefs of all variables, from messages as they are now; sends to the leaves when asked.

    The messages are those of the run itself until it goes on; it has them copied before that.
    """

    def __init__(self, leaves: Leaves, belief_start: IndexArray, *, is_over: bool) -> None:
        """Keep the messages.

        Args:
            leaves: Of a run whose pass up is through.
            belief_start: (V + 1,) where each variable's belief starts.
            is_over: Whether the run is, so that nothing but this object will write to its messages.
        """
        self._leaves = leaves
        self._start = belief_start
        self._is_over = is_over
        self._copy: WorkspaceArrays | None = None
        self._sent: WorkspaceArrays | None = None
        if not is_over:
            leaves.readers.append(ref(self))

    def keep(self) -> None:
        """Copy the messages, as the run is about to go on."""
        self._copy = copied(self._leaves.workspace.layout, self._leaves.all_arrays())
        self._sent = None

    def arrays(self) -> WorkspaceArrays:
        """Return the messages, those to leaves included; those of a run that is not over, until it goes on."""
        leaves = self._leaves
        with leaves.reading:
            if self._is_over:
                return leaves.final_arrays()
            if self._sent is None:
                if self._copy is None and len(leaves.workspace.arrays.hub_variable):
                    self.keep()  # totals of hubs would change in the last bit, were messages sent in place and again
                self._sent = leaves.send_down(self._copy or leaves.all_arrays())
            return self._sent

    def __call__(self) -> FloatArray:
        """Return the beliefs, variable after variable."""
        workspace = self._leaves.workspace
        with self._leaves.reading:
            return beliefs_of(workspace.compiled, workspace.layout, self.arrays(), self._start)[0]


def core_beliefs(leaves: Leaves) -> tuple[FloatArray, float]:
    """Return the beliefs of the core's variables as they are now, and log Z but for the scales of tables and priors."""
    core = leaves.core
    if core is None:
        return np.empty(0), leaves.constant
    compiled = leaves.workspace.compiled
    belief, log_normaliser = beliefs_of(compiled, core.layout, core.arrays, core.slot_start, core.variables)
    return belief, leaves.constant + bethe_terms(core.layout, core.arrays, log_normaliser)

"""Solves chunks of many graphs, in whatever thread or process."""

from __future__ import annotations

import math
import pickle
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from anytimebp.domains.domains import domain_sizes
from anytimebp.errors import AnytimeBPError, InconsistentModelError
from anytimebp.exact.passes import Room
from anytimebp.inference.adaptive.adaptive_run import why_full
from anytimebp.inference.adaptive.choice import Choice
from anytimebp.inference.adaptive.choice import Way as WayOfAdaptive
from anytimebp.inference.auto_run import choose
from anytimebp.inference.inference import Inference
from anytimebp.inference.method import LEAVES
from anytimebp.inference.methods import DEFAULT_METHOD
from anytimebp.inference.options import RunOptions
from anytimebp.inference.part_sweeps import PARTS
from anytimebp.inference.run import Stop
from anytimebp.inference.schedule.sweeps import TINY
from anytimebp.inference.session import Session
from anytimebp.inference.warm_up import load_kernels
from anytimebp.kernels.messages import EDGE_COST
from anytimebp.layout.graph_layout import CompiledGraph, compiled_graph
from anytimebp.model.evidence import EvidenceLike, Observation, read_evidence_mapping, read_targets
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import IndexArray
from anytimebp.parallel.merged import MOST_ENTRIES, Item, can_merge, has_large_ties, solve_together
from anytimebp.parallel.merged_bp import sweep_cores_together, sweep_together
from anytimebp.parallel.packing import pack, unpack
from anytimebp.results.snapshot import Result
from anytimebp.results.stop import StopReason
from anytimebp.tables.memory import table_entries, update_entries

BUDGETS = ("seconds", "max_updates", "max_work", "target_error", "callback")
"""Budgets, which are options of `Session.query`. Graphs under a budget are solved one by one."""
OF_A_QUERY = (*BUDGETS, "targets")  # all others are options of `Session`

MOST_EDGES = 2**12  # of graphs that share elimination orders with others
KEPT_SHAPES = 256  # topologies whose orders are remembered
MOST_JOINT_STATES = 2**25  # of the factors of graphs whose leaves are summed out together

NOTHING: dict[int, Observation] = {}  # is known
Answer: TypeAlias = Result | Exception


class Chunk(NamedTuple):
    """Work for one worker.

    Attributes:
        first: Number of its first graph.
        graphs: One each; or one for all.
        evidence: One each.
    """

    first: int
    graphs: list[FactorGraph] | FactorGraph
    evidence: list[EvidenceLike | None]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle tables that graphs share once; as ever where it cannot be, as with rules that only Ray pickles."""
        try:
            packed, arrays = pack(tuple(self))
        except (pickle.PicklingError, AttributeError, TypeError):
            return Chunk, tuple(self)
        return _unpacked, (packed, arrays)


def _unpacked(packed: bytes, arrays: list[Any]) -> Chunk:
    """Return a chunk that was pickled."""
    return Chunk(*unpack(packed, arrays))


class Stops:
    """Calls of `infer_many` by what ends their runs in this process: its threads share it."""

    def __init__(self) -> None:
        """Know of none."""
        self._of: dict[str, Stop] = {}

    def of(self, call: str) -> Stop:
        """Return what ends the runs of a call."""
        return self._of.setdefault(call, Stop())

    def end(self, call: str, *, for_good: bool) -> None:
        """End all runs of a call, and those that begin later; for good if none will."""
        self.of(call).is_set = True
        if for_good:
            self._of.pop(call, None)


STOPS = Stops()


class Way(NamedTuple):
    """How `auto` would work on a graph.

    Attributes:
        entries: Of the cliques of a junction tree; infinite where it would send messages.
        reason: In words.
        sweeps: What `adaptive` says of the plain sweeps that it makes; empty where it does something else.
    """

    entries: float
    reason: str
    sweeps: str

    @property
    def is_exact(self) -> bool:
        """Whether it would be exact, on a junction tree."""
        return self.entries < math.inf


def _way(compiled: CompiledGraph, sizes: IndexArray) -> Way:
    """Return how `auto` would work on a graph of tables."""
    tree, reason = choose(compiled, sizes)
    if tree is not None:
        return Way(tree.entries, reason, "")
    why, n_edges = why_full(update_entries(compiled, sizes)), len(compiled.arrays.edge_variable)
    is_tiny = table_entries(compiled.arrays, sizes) + EDGE_COST * n_edges < TINY
    return Way(math.inf, reason, f"{Choice(WayOfAdaptive.FULL, why)}; {reason}" if why and is_tiny else "")


class SharedOrders:
    """Elimination orders of graphs that have the same topology: what a search finds depends on nothing else.

    Searches take a third to two thirds of the time of graphs such as sentences, of which many are alike.
    """

    def __init__(self) -> None:
        """Know of none."""
        self._of: OrderedDict[tuple[bytes, bytes], dict[bytes, object]] = OrderedDict()
        self._ways: OrderedDict[tuple[bytes, bytes, bytes], Way] = OrderedDict()

    def chosen(self, item: Item) -> Way:
        """Return how `auto` would work on a graph of tables; that depends on its topology and its domains alone."""
        self.share(item.graph)
        compiled = compiled_graph(item.graph)
        sizes = domain_sizes(compiled, item.observed)
        key = compiled.arrays.edge_variable.tobytes(), compiled.arrays.factor_edge_start.tobytes(), sizes.tobytes()
        found = self._ways.get(key)
        if found is None:
            found = self._ways[key] = _way(compiled, sizes)
            if len(self._ways) > KEPT_SHAPES:
                self._ways.popitem(last=False)
        return found

    def share(self, graph: FactorGraph) -> None:
        """Let a small graph have the orders that were found for graphs like it, and others those found for it."""
        if graph.rows.n_edges > MOST_EDGES:
            return
        graph.take_changes()
        compiled = compiled_graph(graph)
        key = compiled.arrays.edge_variable.tobytes(), compiled.arrays.factor_edge_start.tobytes()
        found = self._of.setdefault(key, compiled.orders)
        self._of.move_to_end(key)
        if len(self._of) > KEPT_SHAPES:
            self._of.popitem(last=False)
        compiled.orders = found


class Solver:
    """Solves chunks, one after the other; keeps a session for the graph that it was last given."""

    def __init__(self, options: dict[str, Any], stop: Stop | None = None) -> None:
        """Take the options of `infer_many`, and what ends it."""
        self._stop = stop or Stop()
        self._options = {name: value for name, value in options.items() if name not in OF_A_QUERY}
        self._targets = options.get("targets")
        self._budget = {name: value for name, value in options.items() if name in BUDGETS and value is not None}
        self._session: Session | None = None
        self._of: FactorGraph | None = None
        self._room, self._orders = Room(), SharedOrders()
        self._checked: dict[str, RunOptions] = {}
        self._method = self._options.get("method", DEFAULT_METHOD)
        own = self._options.get
        self._may_join = (
            not self._budget
            and self._method in {"auto", "exact", "bp"}
            and own("schedule", "sequential") == "sequential"
            and own("record", "round") == "round"
            and not own("factor_marginals")
            and not own("damping")
            and own("policy") is None
            and own("max_memory") is None
        )

    def solve(self, chunk: Chunk) -> list[Answer]:
        """Return a result or an error for each graph."""
        if isinstance(chunk.graphs, FactorGraph):
            if self._session is None or self._of is not chunk.graphs:
                self._session, self._of = Session(chunk.graphs, **self._options), chunk.graphs
            return [self._ask(self._session, seen) for seen in chunk.evidence]
        self._look_at_stop()
        found: dict[int, Answer] = {}
        if self._may_join:
            every = enumerate(chunk.graphs)
            together = [k for k, graph in every if isinstance(graph, FactorGraph) and can_merge(graph)]
            if len(together) > 1:
                found = self._solve_together(chunk, together)
        return [
            found[k] if k in found else self._ask_once(graph, seen)
            for k, (graph, seen) in enumerate(zip(chunk.graphs, chunk.evidence, strict=True))
        ]

    def _solve_together(self, chunk: Chunk, together: list[int]) -> dict[int, Answer]:
        """Solve some graphs of a chunk as one; none of them, where one has to be solved by itself."""
        assert isinstance(chunk.graphs, list)  # noqa: S101  (of one graph there is a session)
        items, positions, wanted = [], [], self._targets
        for k in together:
            graph, seen = chunk.graphs[k], chunk.evidence[k]
            try:
                graph.take_changes()
                observed = NOTHING if seen is None else read_evidence_mapping(seen, graph.variables)
                targets = None if wanted is None else read_targets(wanted, graph.variables)
            except AnytimeBPError:
                continue  # which it says again, by itself
            items.append(Item(graph, observed, targets))
            positions.append(k)
        if not items:
            return {}
        try:
            results = self._merge(items)
        except InconsistentModelError:
            return {}
        return {k: result for k, result in zip(positions, results, strict=True) if result is not None}

    def _merge(self, items: list[Item]) -> list[Result | None]:
        """Return results of graphs that are solved as one, as a run on each alone would be; None for all others."""
        found: list[Result | None] = [None] * len(items)
        of_ties = [has_large_ties(item.graph) for item in items]
        for merge, is_tied in ((self._merge_small, False), (self._merge_tied, True)):
            own = [k for k, has_ties in enumerate(of_ties) if has_ties is is_tied]
            if len(own) > 1:
                for k, result in zip(own, merge([items[k] for k in own]), strict=True):
                    found[k] = result
        return found

    def _merge_small(self, items: list[Item]) -> list[Result | None]:
        """Do so with graphs whose factors are small."""
        if self._method == "bp":
            return sweep_together(items, self._run_options("bp"))
        whole = solve_together(items, self._run_options("exact"), self._room)
        if whole is not None or self._method == "exact":
            return [None] * len(items) if whole is None else [*whole]
        found: list[Result | None] = [None] * len(items)
        chosen = [self._orders.chosen(item) for item in items]
        self._solve_groups(items, chosen, found)
        swept = [k for k, choice in enumerate(chosen) if choice.sweeps and items[k].targets is None]
        if len(swept) > 1:
            options, choices = self._run_options("bp"), [chosen[k].sweeps for k in swept]
            for k, answer in zip(swept, sweep_together([items[k] for k in swept], options, choices), strict=True):
                found[k] = answer
        return found

    def _merge_tied(self, items: list[Item]) -> list[Result | None]:
        """Do so with graphs of large factors that share tables, in groups that fit into the processor's caches."""
        found: list[Result | None] = [None] * len(items)
        swept, choices = [*range(len(items))], None
        if self._method != "bp":
            chosen = [self._orders.chosen(item) for item in items]
            self._solve_groups(items, chosen, found)
            is_free = self._method == "auto"
            swept = [k for k in swept if is_free and not chosen[k].is_exact and items[k].targets is None]
            choices = [f"full BP; {choice.reason}" for choice in chosen]
        options = self._run_options("bp")
        load_kernels(options, kernels=LEAVES)
        for group in _groups(swept, [item.graph.rows.n_joint_states for item in items], MOST_JOINT_STATES):
            self._look_at_stop()
            own = [items[k] for k in group]
            given = None if choices is None else [choices[k] for k in group]
            for k, result in zip(group, sweep_cores_together(own, options, given), strict=True):
                found[k] = result
        return found

    def _solve_groups(self, items: list[Item], chosen: list[Way], found: list[Result | None]) -> None:
        """Solve graphs whose junction trees are known to be small, as many at once as there is room for."""
        narrow, entries = [k for k, way in enumerate(chosen) if way.is_exact], [way.entries for way in chosen]
        for group in _groups(narrow, entries, MOST_ENTRIES / 4):
            self._look_at_stop()
            together = solve_together([items[k] for k in group], self._run_options("exact"), self._room)
            for k, result in zip(group, together or [], strict=together is not None):
                found[k] = result

    def _run_options(self, method: str) -> RunOptions:
        """Return the options of runs that are merged, with kernels loaded."""
        if method not in self._checked:
            self._checked[method] = Inference(FactorGraph(), **{**self._options, "method": method}).options
            for kernels in ("bp", PARTS) if method == "bp" else ("exact",):
                load_kernels(self._checked[method], kernels=kernels)
        return self._checked[method]

    def _look_at_stop(self) -> None:
        if self._stop.is_set:
            raise KeyboardInterrupt

    def _ask_once(self, graph: FactorGraph, evidence: EvidenceLike | None) -> Answer:
        """Solve one graph by itself."""
        self._look_at_stop()
        try:
            if not self._budget and isinstance(graph, FactorGraph):
                self._orders.share(graph)
            inference = Inference(graph, evidence=evidence, targets=self._targets, **self._options)
            inference.stop_by(self._stop)
            return _whole(inference.run(**self._budget))
        except Exception as error:  # noqa: BLE001  (whatever it is, it is the answer)
            return error

    def _ask(self, session: Session, evidence: EvidenceLike | None) -> Answer:
        """Ask the session."""
        self._look_at_stop()
        try:
            return _whole(session.query(evidence, self._targets, **self._budget))
        except Exception as error:  # noqa: BLE001  (whatever it is, it is the answer)
            return error


def _groups(chosen: list[int], weight: list[float], most: float) -> Iterator[list[int]]:
    """Yield groups of two or more neighbours that weigh so much at the most."""
    group: list[int] = []
    total = 0.0
    for k in chosen:
        if total + weight[k] > most:
            if len(group) > 1:
                yield group
            group, total = [], 0.0
        group.append(k)
        total += weight[k]
    if len(group) > 1:
        yield group


class _Own(threading.local):
    """What a thread keeps from chunk to chunk of a call: memory, orders, and the session of one graph."""

    def __init__(self) -> None:
        self.call, self.solver = "", Solver({})


OWN = _Own()


def solve_chunk(chunk: Chunk, options: dict[str, Any], call: str) -> list[Answer]:
    """Solve a chunk of a call, in whatever process.

    A process that was interrupted solves no other chunk of the same call: some may have been sent to it before.
    """
    if OWN.call != call:
        OWN.call, OWN.solver = call, Solver(options, STOPS.of(call))
    try:
        return OWN.solver.solve(chunk)
    except KeyboardInterrupt:
        STOPS.end(call, for_good=False)
        raise


def _whole(result: Result) -> Result:
    """Return a result, unless Ctrl-C has ended the run."""
    if result.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    return result

"""`sample`: random joint states, exactly on a junction tree, or one variable after the other by BP."""

from __future__ import annotations

import numpy as np

from anytimebp.domains.domains import domain_sizes, full_domains
from anytimebp.errors import InconsistentModelError, MemoryLimitError, OptionError
from anytimebp.exact.best_passes import DrawingPasses
from anytimebp.exact.cost import plan_within
from anytimebp.exact.potentials import make_potentials
from anytimebp.exact.relevance import Part
from anytimebp.exact.tree import Tree
from anytimebp.inference.auto_run import choose
from anytimebp.inference.inference import Inference
from anytimebp.inference.options import RandomLike, RunOptions
from anytimebp.inference.session import Session
from anytimebp.inference.warm_up import compile_rules
from anytimebp.layout.graph_layout import CompiledGraph, compiled_graph
from anytimebp.model.evidence import EvidenceLike, Observation
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import IndexArray
from anytimebp.model.summary import format_bytes
from anytimebp.results.samples import Samples
from anytimebp.slices import at_one_go
from anytimebp.tables.machine import available_memory

MOST_BYTES = 2**30  # of a junction tree that is made for samples, where it is dearer than BP
SAMPLING_METHODS = ("auto", "exact", "bp")


def sample(
    graph: FactorGraph, n: int, rng: RandomLike = None, evidence: EvidenceLike | None = None, *, method: str = "auto"
) -> Samples:
    """Return random joint states of a factor graph, each drawn with its probability.

    The samples are exact if a junction tree fits into a gigabyte; `Samples.exact` says so. Otherwise each variable is
    drawn from its marginal in BP, given the variables drawn before it. Such samples are as good as BP is, and take one
    run of BP for each variable of each sample.

    Args:
        graph: The model. It is not changed.
        n: Number of samples.
        rng: Seed or NumPy generator (SPEC 7 of Scientific Python).
        evidence: As for `infer`.
        method: "exact", "bp", or "auto" for the choice described above.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("weather", ["sun", "rain"])
        >>> _ = graph.add_factor(["weather"], table=[0.75, 0.25])
        >>> samples = abp.sample(graph, 10_000, rng=0)
        >>> abs(samples["weather"].count("rain") / 10_000 - 0.25) < 0.02
        True

    Raises:
        InconsistentModelError: If no joint state is possible or, with BP, if a sample cannot be completed.
        MemoryLimitError: If the samples do not fit into memory, or `method` is "exact" and no junction tree does.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        msg = f"n must be a whole number of at least 0, got {n!r}"
        raise OptionError(msg)
    if method not in SAMPLING_METHODS:
        msg = f"method must be one of {', '.join(map(repr, SAMPLING_METHODS))}, got {method!r}"
        raise OptionError(msg)
    inference = Inference(graph, "exact", evidence=evidence, rng=rng)
    _check_room(n, len(graph.variables))
    inference.load()
    compile_rules(graph.asked_sources)
    graph.take_changes()
    options, compiled = inference.options, compiled_graph(graph)
    tree = _tree(compiled, domain_sizes(compiled, options.observed), method)
    with np.errstate(under="ignore"):
        if tree is not None:
            states = _exactly(compiled, tree, options, int(n))
        else:
            states = _by_bp(graph, compiled, options, int(n))
    return Samples(states=states, exact=tree is not None, variables=compiled.variables)


def _check_room(n: int, n_variables: int) -> None:
    """Raise MemoryLimitError if there is no memory for the samples themselves."""
    needed, limit = 8 * int(n) * n_variables, available_memory()
    if limit is not None and needed > limit:
        msg = f"{n:,} samples of {n_variables:,} variables need {format_bytes(needed)}, more than the "
        raise MemoryLimitError(msg + f"{format_bytes(limit)} that this machine has left; draw fewer at a time")


def _tree(compiled: CompiledGraph, sizes: IndexArray, method: str) -> Tree | None:
    """Return the tree to draw on, or None for BP."""
    if method == "bp":
        return None
    if method == "exact":
        return plan_within(compiled, sizes, None)
    found = choose(compiled, sizes).tree
    if found is None:
        try:
            found = plan_within(compiled, sizes, MOST_BYTES)
        except (MemoryLimitError, OptionError):
            return None
    return found


def _exactly(compiled: CompiledGraph, tree: Tree, options: RunOptions, n: int) -> IndexArray:
    """Draw on a tree: one pass up, and one down for each joint state."""
    domains = full_domains(compiled, options.observed)
    tables = at_one_go(make_potentials(compiled, domains))
    passes = DrawingPasses(compiled, domains, Part(compiled.arrays, domains.sizes), tree, tables)
    while not passes.is_up:
        passes.advance(2**62, 2**62)
        if not passes.is_possible:
            msg = "no joint state is possible: every one has a factor that excludes it"
            raise InconsistentModelError(msg)
    slots = passes.draw(n, options.generator())
    if domains.is_whole:
        return slots
    states: IndexArray = domains.slot_state[domains.slot_start[:-1] + slots]
    return states


def _by_bp(graph: FactorGraph, compiled: CompiledGraph, options: RunOptions, n: int) -> IndexArray:
    """Draw one variable after the other by BP, given those drawn before."""
    rng, n_variables = options.generator(), len(compiled.universe_sizes)
    states = np.empty((n, n_variables), dtype=np.int64)
    session = Session(graph, "bp")
    for row in states:
        given: dict[int, object] = {index: _as_evidence(seen, graph, index) for index, seen in options.observed.items()}
        for index in range(n_variables):
            belief = session.query(given, targets=[index]).marginals[index]
            row[index] = rng.choice(len(belief), p=belief / belief.sum())
            given[index] = graph.variables[index].labels[int(row[index])]
    return states


def _as_evidence(seen: Observation, graph: FactorGraph, index: int) -> object:
    """Return what was observed of a variable as log scores."""
    scores = np.full(graph.variables[index].n_states, -np.inf)
    scores[slice(None) if seen.states is None else seen.states] = 0.0 if seen.log_scores is None else seen.log_scores
    return scores

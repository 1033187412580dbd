"""`infer`: the one call that most users need."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from anytimebp.inference.inference import Inference
from anytimebp.inference.methods import DEFAULT_METHOD
from anytimebp.inference.options import RandomLike
from anytimebp.inference.recording import Every
from anytimebp.model.evidence import EvidenceLike, Targets
from anytimebp.model.graph import FactorGraph
from anytimebp.paper.policy import GrowthPolicy
from anytimebp.parallel.on_ray import infer_on_ray
from anytimebp.report.progress import RunDisplay
from anytimebp.results.snapshot import Result, Snapshot


def infer(
    graph: FactorGraph,
    method: str = DEFAULT_METHOD,
    *,
    evidence: EvidenceLike | None = None,
    seconds: float | None = None,
    target_error: float | None = None,
    tolerance: float = 1e-8,
    max_updates: int | None = None,
    max_work: int | None = None,
    max_memory: int | None = None,
    rng: RandomLike = None,
    progress: bool = False,
    callback: Callable[[Snapshot], object] | None = None,
    schedule: str = "sequential",
    damping: float = 0.0,
    record: Every | str = "round",
    factor_marginals: bool = False,
    grow: int = 1,
    fraction: float = 0.25,
    policy: GrowthPolicy | None = None,
    threads: int | None = None,
    targets: Targets | None = None,
    parts: int | None = None,
    workers: str = "threads",
) -> Result:
    """Return the marginals of a factor graph.

    The default method, "auto", runs exact inference if that is cheap: if the cliques of a junction tree have fewer than
    a million entries, or if exact inference costs no more than belief propagation (BP). Otherwise it runs "adaptive",
    which starts on likely states where that saves time, goes on to all states, and ends at the marginals of BP.
    `result.method` says which method ran, `result.choice` why, `result.exact` whether the marginals are exact, and
    `result.estimated_error` how far they are from those of BP.

    Ctrl-C ends the run and returns the answer so far (`stop_reason` is INTERRUPTED). A second Ctrl-C within two seconds
    raises KeyboardInterrupt, also in another call. While kernels are loaded or compiled, there is no answer yet, and
    Ctrl-C raises KeyboardInterrupt at once.

    Args:
        graph: The model. It is not changed.
        method: One of `anytimebp.METHODS`: "auto", "exact" or "adaptive"; "bp" or "residual", which use all states from
            the start; or "dynamic", "fixed", "random" or "truncated", the sparse methods of Singh, Riedel and McCallum
            (2013).
        evidence: Mapping from variable (name, handle or index) to a label, a set of allowed labels, or an array of log
            scores over the states.
        seconds: Time budget; None for no limit.
        target_error: Stop once `Snapshot.estimated_error`, the estimated distance to the marginals of BP, is at most
            this. It is an estimate, not a bound.
        tolerance: The run has converged when no message would move by more than this, in nats.
        max_updates: Largest number of factor updates; None for no limit.
        max_work: Largest number of table entries to read or score; None for no limit.
        max_memory: Number of bytes that the run may allocate. If they need more, "bp" and "residual" raise an error
            before they start, "exact" solves the model on its likely states, and methods that grow stop growing.
        rng: Seed or NumPy generator for random schedules and growth (SPEC 7 of Scientific Python).
        progress: Whether to show progress on standard error: a bar on a terminal, lines elsewhere.
        callback: Called with a snapshot at each recorded moment. The run stops if it returns a true value.
        schedule: Order of updates for "bp": "sequential" or "random".
        damping: Share of the old message to keep in each update. A run that does not settle raises it by itself.
        record: When to record a moment of the trace: after each "round" (or "sweep", which is the same), only at the
            "end", or an `Every` such as `Every(seconds=0.1)`.
        factor_marginals: Whether to make the joint marginals of factors available in the result.
        grow: Number of states that join in each round of "dynamic", "fixed" or "random".
        fraction: Share of each variable's states that "truncated" uses.
        policy: Your own GrowthPolicy for "dynamic", "fixed" or "random".
        threads: Number of threads for a run in parts; all cores by default. Without parts, a run uses one thread.
        targets: Variables (names, handles or indices) whose marginals you want; None for all. The result has no others.
            "exact" leaves out what the targets do not depend on, and then `log_z` may be NaN.
        parts: Number of parts to cut the graph into, which threads sweep at the same time; for "bp", "residual",
            "adaptive" and "auto". Two to four per thread are best. The number of parts decides the order of updates;
            the number of threads changes nothing in the answer.
        workers: What sweeps the parts: "threads"; or "ray", actors of a running cluster or of a local one, each with
            parts of its own. `threads` is the number of actors.

    Returns:
        The marginals, log Z, and how the run ended.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variable("weather", ["sun", "rain"])
        >>> _ = graph.add_variable("ground", ["dry", "wet"])
        >>> _ = graph.add_factor(["weather"], table=[0.7, 0.3])
        >>> _ = graph.add_factor(["weather", "ground"], table=[[0.9, 0.1], [0.2, 0.8]])
        >>> result = abp.infer(graph, evidence={"ground": "wet"}, seconds=1.0)
        >>> round(result.probability("weather", "rain"), 3), result.exact
        (0.774, True)
    """
    inference = Inference(
        graph,
        method,
        evidence=evidence,
        tolerance=tolerance,
        max_memory=max_memory,
        rng=rng,
        schedule=schedule,
        damping=damping,
        record=record,
        factor_marginals=factor_marginals,
        grow=grow,
        fraction=fraction,
        policy=policy,
        threads=threads,
        targets=targets,
        parts=parts,
        workers=workers,
    )
    budget = {"seconds": seconds, "max_updates": max_updates, "max_work": max_work, "target_error": target_error}
    run = inference.run
    if inference.options.workers == "ray":
        run = partial(infer_on_ray, graph, inference.options)
    go = partial(run, **budget, callback=callback)  # type: ignore[arg-type]
    if not progress:
        return go()
    with RunDisplay(inference.n_allowed, seconds) as display:
        return go(watch=display.watch)

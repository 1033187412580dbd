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

    The default method, "auto", is exact where that is cheap: on a junction tree whose cliques have under a million
    entries, or that costs no more than belief propagation. Elsewhere it is "adaptive", which works on the likely states
    first where that saves time, then on all of them, and ends where belief propagation does; the `estimated_error` of a
    result says how far it is from there. `result.method` says which was taken, `result.choice` why, and `result.exact`
    whether the marginals are exact.

    Ctrl-C ends the run and returns what there is (`stop_reason` is INTERRUPTED). Pressed again, within two seconds also
    in another call, it raises KeyboardInterrupt. So it does while kernels are loaded or compiled, when there is nothing
    to return yet.

    Args:
        graph: The model; not changed.
        method: One of `anytimebp.METHODS`: "auto", "exact" or "adaptive"; "bp" and "residual", on all states from the
            start; "dynamic", "fixed", "random" and "truncated", on sparse domains after Singh, Riedel and McCallum
            (2013).
        evidence: By variable (name, handle or index): a label, a set of allowed labels, or log scores over the states.
        seconds: Time budget; None for none.
        target_error: Stop once the estimated distance to BP is under this: the mean over variables of the L2 distance
            to the marginals of BP. An estimate, not a bound; see `Snapshot.estimated_error`.
        tolerance: Residual in nats under which a message counts as settled.
        max_updates: Budget of factor updates; None for none.
        max_work: Budget of table entries to read or score; None for none.
        max_memory: Bytes that the run may allocate. "bp" and "residual" are refused before they start if they need
            more; "exact" then solves the model on its likely states; methods that grow stop growing.
        rng: Seed or NumPy generator of random schedules and growth (SPEC 7 of Scientific Python).
        progress: Whether to show on standard error how far the run is: a bar on a terminal, elsewhere lines.
        callback: Called with a snapshot at each recorded moment; a true answer stops the run.
        schedule: Of `bp`: "sequential" or "random".
        damping: Part of the old message kept in each update; raised by the run itself if it does not settle.
        record: When to record a moment of the trace: after each "round" (or "sweep", the same), at the "end" only, or
            an `Every`, such as `Every(seconds=0.1)`.
        factor_marginals: Whether the result can give the marginals of factors.
        grow: Of "dynamic", "fixed" and "random": states that join the domains in a round.
        fraction: Of `truncated`: the part of each universe that takes part.
        policy: A GrowthPolicy of yours, instead of that of "dynamic", "fixed" or "random".
        threads: Of a run in parts: how many threads sweep over them; all cores by default. Without parts, a run uses
            one thread.
        targets: The variables (names, handles or indices) whose marginals are wanted; None for all. The result has no
            others. "exact" leaves out what these do not depend on; `log_z` is NaN if that has a sum of its own.
        parts: Cut the graph into so many parts, whose sweeps go on at the same time; of "bp", "adaptive" and "auto".
            Two to four a thread are best; how many there are decides the order of updates, how many threads does not.
        workers: What sweeps over parts: "threads"; or "ray", actors of a running cluster, or of one on this machine,
            each with parts of its own. `threads` is how many there are.

    Returns:
        Marginals, log Z, and how the run ended.
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

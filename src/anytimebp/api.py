"""`infer`: the one call that most users need."""

from __future__ import annotations

from collections.abc import Callable

from anytimebp.engine.inference import Inference
from anytimebp.engine.options import RandomLike
from anytimebp.errors import OptionError
from anytimebp.model.evidence import EvidenceLike
from anytimebp.model.graph import FactorGraph
from anytimebp.report.progress import ProgressLine
from anytimebp.results.snapshot import Result, Snapshot


def infer(
    graph: FactorGraph,
    method: str = "bp",
    *,
    evidence: EvidenceLike | None = None,
    seconds: float | None = None,
    target_error: float | None = None,
    tolerance: float = 1e-8,
    max_updates: int | None = None,
    max_memory: int | None = None,
    rng: RandomLike = None,
    progress: bool = False,
    callback: Callable[[Snapshot], object] | None = None,
    schedule: str = "sequential",
    damping: float = 0.0,
    record: str = "sweep",
    factor_marginals: bool = False,
) -> Result:
    """Return the marginals of a factor graph.

    Ctrl-C ends the run and returns what there is (`stop_reason` is INTERRUPTED); pressed again, it raises.

    Args:
        graph: The model; not changed.
        method: One of `anytimebp.METHODS`.
        evidence: By variable (name, handle or index): a label, a set of allowed labels, or log scores over the states.
        seconds: Time budget; None for none.
        target_error: Not for `bp` and `residual`, which do not estimate their error: use `tolerance`.
        tolerance: Residual in nats under which a message counts as settled.
        max_updates: Budget of factor updates; None for none.
        max_memory: Bytes that the run may allocate; refused before it starts if it needs more.
        rng: Seed or NumPy generator of random schedules (SPEC 7 of Scientific Python).
        progress: Whether to show a line on standard error while running.
        callback: Called with a snapshot after each sweep; a true answer stops the run.
        schedule: Of `bp`: "sequential" or "random".
        damping: Part of the old message kept in each update; raised by the run itself if it does not settle.
        record: What to record in the trace: a moment per "sweep", or the "end" only.
        factor_marginals: Whether the result can give the marginals of factors.

    Returns:
        Marginals, log Z, and how the run ended.
    """
    if target_error is not None:
        msg = f"target_error: method {method!r} does not estimate its error; use tolerance"
        raise OptionError(msg)
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
    )
    if not progress:
        return inference.run(seconds, max_updates, callback=callback)
    with ProgressLine() as line:
        return inference.run(seconds, max_updates, callback=callback, watch=line.show)

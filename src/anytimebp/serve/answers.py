"""A run as JSON: its figures, the marginals that are shown, and what has changed since the previous query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anytimebp.model.source import FloatArray
from anytimebp.report.headline import ending_words
from anytimebp.results.marginals import Marginals, likeliest
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.serve.reading import Shown
from anytimebp.serve.served_model import ServedModel

MOST_MOMENTS = 200  # of a trace
LEAST_CHANGE = 1e-9  # of a marginal, in total variation, that is listed


def number(value: float) -> float | None:
    """Return a number for JSON: None, which becomes null, if it is not finite."""
    return float(value) if math.isfinite(value) else None


def figures(snapshot: Snapshot) -> dict[str, Any]:
    """Return the figures of a moment, and how the run ended if it has."""
    found: dict[str, Any] = {
        "method": snapshot.method,
        "choice": snapshot.choice,
        "seconds": number(snapshot.seconds),
        "updates": int(snapshot.updates),
        "work": int(snapshot.work),
        "log_z": number(snapshot.log_z),
        "exact": snapshot.exact,
        "consistent": snapshot.consistent,
        "max_residual": number(snapshot.max_residual),
        "estimated_error": number(snapshot.estimated_error),
        "active_states": int(snapshot.domain_sizes.sum()),
    }
    if not isinstance(snapshot, Result):
        return found
    reason = snapshot.stop_reason
    return found | {"stop_reason": reason.name, "ending": ending_words(reason), "advice": str(reason)}


def trace(result: Result) -> list[list[float | None]]:
    """Return seconds, residual, estimated error and active states of recorded moments, not too many."""
    moments = list(result.trace)
    if len(moments) > MOST_MOMENTS:
        last = len(moments) - 1
        moments = [moments[k * last // (MOST_MOMENTS - 1)] for k in range(MOST_MOMENTS)]
    return [[number(m.seconds), number(m.max_residual), number(m.estimated_error), float(m.states)] for m in moments]


def shown_marginals(model: ServedModel, marginals: Marginals, shown: list[Shown]) -> list[dict[str, Any]]:
    """Return the likeliest states of some variables, likeliest first, and then the states asked for by name."""
    return [_shown(model, marginals[each.variable], each) for each in shown]


def _shown(model: ServedModel, marginal: FloatArray, asked: Shown) -> dict[str, Any]:
    best = likeliest(marginal, asked.states) if asked.states else []
    states = list(dict.fromkeys([*best, *asked.also]))
    rest = 1.0 - float(marginal[states].sum()) if len(states) < len(marginal) else 0.0
    return {
        "index": asked.variable,
        "name": model.name_of(asked.variable),
        "n_states": len(marginal),
        "states": states,
        "labels": model.label_texts(asked.variable, states),
        "probabilities": [float(marginal[state]) for state in states],
        "rest": max(0.0, rest),
    }


def changes(model: ServedModel, before: Marginals, now: Marginals, count: int, most: int) -> dict[str, Any]:
    """Return the variables whose marginals have changed most, by their total variation distance.

    Args:
        model: The model.
        before: Answer to the query before.
        now: Answer to this one.
        count: Variables to list.
        most: States of all variables up to which marginals are compared.
    """
    sizes = model.variables.sizes()
    if model.n_states > most or not len(sizes):
        return {"compared": False, "changed": 0, "largest": []}
    start = np.cumsum(sizes) - sizes
    distance = np.add.reduceat(np.abs(now.concatenated() - before.concatenated()), start) / 2.0
    order = likeliest(distance, count)
    largest = [int(index) for index in order if distance[index] > LEAST_CHANGE]
    return {
        "compared": True,
        "changed": int(np.count_nonzero(distance > LEAST_CHANGE)),
        "largest": [
            {"index": index, "name": model.name_of(index), "distance": float(distance[index])}
            | {"before": _top(model, before, index), "now": _top(model, now, index)}
            for index in largest
        ],
    }


def _top(model: ServedModel, marginals: Marginals, index: int) -> list[Any]:
    marginal = marginals[index]
    state = int(marginal.argmax())
    return [model.label_texts(index, [state])[0], float(marginal[state])]

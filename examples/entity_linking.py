"""Links the mentions of a document to 50,000 entities, all mentions together.

A mention alone has a few dozen candidates with similar names, and the likeliest of them is often wrong. What helps is
that neighbouring mentions are about the same topics: pairs of mentions within two places score the dot product of their
entities' embeddings. As tables, those 117 pairs would take 117 * 50,000**2 * 8 bytes = 2.3 TB. Here they are a rule, a
function that is asked for the scores that matter, and no more.

    python examples/entity_linking.py --out linking.png
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import anytimebp as abp

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

DIMENSIONS, TOPICS = 64, 200
SCALE = 8.0  # nats for a pair of entities with the same embedding; about half as much for two of one topic
PLAUSIBLE = 30  # entities whose names fit a mention
BONUS, TELLING = 8.0, 0.6  # log score that the true entity has in addition, and in which share of the mentions
HOPELESS = -16.0  # log score of all others


class Document(NamedTuple):
    """A made-up document: its model and its true entities.

    Attributes:
        graph: A variable per mention, "m0", "m1", ...; a state per entity.
        prior: Log scores of each mention alone, shape (mentions, entities).
        truth: The entity that each mention is about, shape (mentions,).
        pairs: The mentions that are near each other, shape (pairs, 2).
        embedding: Of the entities, shape (entities, dimensions).
    """

    graph: abp.FactorGraph
    prior: Floats
    truth: Indices
    pairs: Indices
    embedding: Floats


def coherence(embedding: Floats, a: Indices, b: Indices) -> Floats:
    """Return the log scores of pairs of entities, for any index arrays that broadcast together."""
    if a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0] == 1:  # noqa: PLR2004
        # Every a with every b, which is how a run asks: one matrix product, and no array of (a, b, dimensions).
        return embedding[a[:, 0]] @ embedding[b[0]].T
    return np.einsum("...d,...d->...", embedding[a], embedding[b])


def propose(embedding: Floats, states: tuple[Indices | None, Indices | None], k: int) -> Indices:
    """Return the k entities that go best with the likely ones at the other end of a pair: one matrix-vector product."""
    likely = next(one for one in states if one is not None)
    fit = embedding @ embedding[likely].mean(axis=0)
    return np.argpartition(-fit, k)[:k] if k < len(fit) else np.arange(len(fit))


def make_document(mentions: int, entities: int, rng: np.random.Generator, *, with_propose: bool = False) -> Document:
    """Return a document of three topics that come in runs, and its model.

    Args:
        mentions: How many there are.
        entities: How many a mention could be about.
        rng: Makes the document.
        with_propose: Whether to tell the library which entities a pair of mentions makes likely.
    """
    # Fewer entities have fewer topics and candidates, so that wrong candidates agree on a topic no more often.
    n_topics, n_fitting = min(TOPICS, entities // 6), min(PLAUSIBLE, entities // 40)
    topic = rng.integers(n_topics, size=entities)
    embedding = rng.normal(size=(TOPICS, DIMENSIONS))[topic] + rng.normal(size=(entities, DIMENSIONS))
    embedding *= np.sqrt(SCALE) / np.linalg.norm(embedding, axis=1, keepdims=True)
    truth = _true_entities(topic, mentions, rng)
    prior = HOPELESS + rng.normal(0.0, 0.5, (mentions, entities))
    for scores, entity in zip(prior, truth, strict=True):
        fitting = rng.choice(entities, n_fitting, replace=False)
        scores[fitting] = rng.normal(0.0, 3.0, n_fitting)
        scores[entity] = rng.normal(0.0, 3.0) + (BONUS if rng.random() < TELLING else 0.0)
    near = np.array([(i, i + step) for i in range(mentions) for step in (1, 2) if i + step < mentions])

    graph = abp.FactorGraph()
    variables = [graph.add_variable(f"m{i}", entities).index for i in range(mentions)]
    graph.add_factors(np.array(variables)[:, np.newaxis], log_table=prior)
    more: dict[str, Callable[..., Indices]] = {"propose": partial(propose, embedding)} if with_propose else {}
    graph.add_factors(near, rule=partial(coherence, embedding), **more)
    return Document(graph, prior, truth, near, embedding)


def _true_entities(topic: Indices, mentions: int, rng: np.random.Generator) -> Indices:
    """Return an entity per mention, of three topics; four times in five, of the topic of the mention before."""
    about = rng.choice(np.unique(topic), 3, replace=False)
    now, found = about[0], []
    for _ in range(mentions):
        now = now if rng.random() < 0.8 else rng.choice(about)  # noqa: PLR2004
        found.append(rng.choice(np.flatnonzero(topic == now)))
    return np.array(found)


def link(document: Document, seconds: float | None) -> abp.Result:
    """Return the joint marginals of all mentions, from a run in one gigabyte."""
    return abp.infer(document.graph, "adaptive", seconds=seconds, max_memory=10**9)


def linked_right(scores: Floats, truth: Indices) -> int:
    """Return how many mentions have their true entity on top; scores have shape (mentions, entities)."""
    return int((scores.argmax(axis=1) == truth).sum())


def report(document: Document, result: abp.Result) -> str:
    """Return what came out, in a few lines."""
    mentions, entities = document.prior.shape
    joint = np.array([result.marginals[i] for i in range(mentions)])
    pairwise = len(document.pairs) * entities**2
    alone, together = linked_right(document.prior, document.truth), linked_right(joint, document.truth)
    return "\n".join(
        [
            f"linked right: {alone} of {mentions} by names alone, {together} jointly",
            f"{result.seconds:.1f} seconds; ended as {result.stop_reason.name}",
            f"{result.work:,} entries read or scored, {result.work / pairwise:.2%} of all {pairwise:,} pairwise ones",
            f"{result.domain_sizes.sum():,} of {result.n_states:,} states took part",
            f"unexplored mass {result.unexplored_mass:.1e}, estimated error {result.estimated_error:.1e}",
        ]
    )


def draw(document: Document, result: abp.Result, path: str) -> None:
    """Draw candidates before and after for the mentions that changed most, and how the estimated error fell."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (only here, so that all else works without it)

    alone = np.exp(document.prior - document.prior.max(axis=1, keepdims=True))
    alone /= alone.sum(axis=1, keepdims=True)
    joint = np.array([result.marginals[i] for i in range(len(alone))])
    changed = np.sort(np.argsort(-np.abs(joint - alone).sum(axis=1))[:8])
    figure = Figure(figsize=(13, 5), dpi=150, layout="constrained")
    bars, curve = figure.subfigures(1, 2, width_ratios=[2.2, 1])
    right = f"{linked_right(alone, document.truth)} and {linked_right(joint, document.truth)} of {len(alone)} right"
    bars.suptitle(f"by name alone (grey), all mentions together (blue): {right}; ★ true entity")
    for axes, mention in zip(bars.subplots(2, 4, sharex=True).flat, changed, strict=True):
        shown = np.argsort(-np.maximum(alone[mention], joint[mention]))[3::-1]
        if document.truth[mention] not in shown:
            shown[0] = document.truth[mention]
        axes.barh(np.arange(len(shown)) + 0.2, alone[mention, shown], 0.36, color="#b4bec8")
        axes.barh(np.arange(len(shown)) - 0.2, joint[mention, shown], 0.36, color="#2f6db5")
        names = [f"★ {entity:,}" if entity == document.truth[mention] else f"{entity:,}" for entity in shown]
        axes.set_yticks(range(len(shown)), names, fontsize=8)
        axes.set(title=f"mention {mention}", xlim=(0, 1), xticks=[0, 0.5, 1])
        axes.spines[["top", "right"]].set_visible(False)
    axes = curve.subplots()
    work, error = (result.trace.column(name) for name in ("work", "estimated_error"))
    axes.loglog(work, error, "o-", color="#d9822b")
    full = len(document.pairs) * document.prior.shape[1] ** 2
    axes.axvline(full, color="#22303c", linestyle=":")
    axes.text(
        full / 1.5,
        0.95,
        "all pairwise entries",
        rotation=90,
        va="top",
        ha="right",
        transform=axes.get_xaxis_transform(),
    )
    axes.set(title="estimated error of the marginals", xlabel="entries read or scored")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main() -> None:
    """Make a document, link its mentions, print how many are right, and draw the result."""
    parser = argparse.ArgumentParser(description="Links the mentions of a made-up document, all of them together.")
    parser.add_argument("--small", action="store_true", help="12 mentions and 500 entities instead of 60 and 50,000")
    parser.add_argument(
        "--out", metavar="PICTURE", help="where to draw a picture, such as linking.png (needs matplotlib)"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of the run")
    parser.add_argument("--seed", type=int, default=0, help="of the document")
    options = parser.parse_args()
    size = (12, 500) if options.small else (60, 50_000)
    document = make_document(*size, np.random.default_rng(options.seed))
    result = link(document, options.seconds)
    print(report(document, result))
    if options.out:
        draw(document, result, options.out)


if __name__ == "__main__":
    main()

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
from time import perf_counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import anytimebp as abp

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

DIMENSIONS, TOPICS = 64, 200
SCALE = 8.0  # nats for a pair of entities with the same embedding; about half as much for two of one topic
PLAUSIBLE = 30  # entities whose names fit a mention
BONUS, TELLING = 8.0, 0.6  # what the true entity has over the others, in this part of the mentions
HOPELESS = -16.0  # log score of all others


class Document(NamedTuple):
    """A made-up document: the model, and what it is about in truth.

    Attributes:
        graph: A variable per mention, "m0", "m1", ...; a state per entity.
        prior: Log scores of each mention alone, shape (mentions, entities).
        truth: The entity that each mention is about, shape (mentions,).
        pairs: The mentions that are near each other, shape (pairs, 2).
    """

    graph: abp.FactorGraph
    prior: Floats
    truth: Indices
    pairs: Indices


def coherence(embedding: Floats, a: Indices, b: Indices) -> Floats:
    """Return the log scores of pairs of entities, for any index arrays that broadcast together."""
    if a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0] == 1:  # noqa: PLR2004
        # Every a with every b, which is how a run asks: one matrix product, and no array of (a, b, dimensions).
        return SCALE * embedding[a[:, 0]] @ embedding[b[0]].T
    return SCALE * np.einsum("...d,...d->...", embedding[a], embedding[b])


def propose(embedding: Floats, states: tuple[Indices | None, Indices | None], k: int) -> Indices:
    """Return the k entities that go best with the likely ones at the other end of a pair: one matrix-vector product."""
    likely = next(one for one in states if one is not None)
    fit = embedding @ embedding[likely].mean(axis=0)
    return np.argpartition(-fit, k)[:k] if k < len(fit) else np.arange(len(fit))


def make_document(
    mentions: int, entities: int, rng: np.random.Generator, *, with_propose: bool = False
) -> Document:
    """Return a document of three topics that come in runs, and its model.

    Args:
        mentions: How many there are.
        entities: How many a mention could be about.
        rng: Makes the document.
        with_propose: Whether to tell the library which entities a pair of mentions makes likely.
    """
    topic = rng.integers(TOPICS, size=entities)
    embedding = rng.normal(size=(TOPICS, DIMENSIONS))[topic] + rng.normal(size=(entities, DIMENSIONS))
    embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
    truth = _true_entities(topic, mentions, rng)
    prior = HOPELESS + rng.normal(0.0, 0.5, (mentions, entities))
    for scores, entity in zip(prior, truth, strict=True):
        fitting = rng.choice(entities, min(PLAUSIBLE, entities // 4), replace=False)
        scores[fitting] = rng.normal(0.0, 3.0, len(fitting))
        scores[entity] = rng.normal(0.0, 3.0) + (BONUS if rng.random() < TELLING else 0.0)
    near = np.array([(i, i + step) for i in range(mentions) for step in (1, 2) if i + step < mentions])

    graph = abp.FactorGraph()
    variables = [graph.add_variable(f"m{i}", entities).index for i in range(mentions)]
    graph.add_factors(np.array(variables)[:, np.newaxis], log_table=prior)
    more: dict[str, Callable[..., Indices]] = {"propose": partial(propose, embedding)} if with_propose else {}
    graph.add_factors(near, rule=partial(coherence, embedding), **more)
    return Document(graph, prior, truth, near)


def _true_entities(topic: Indices, mentions: int, rng: np.random.Generator) -> Indices:
    """Return an entity per mention, of three topics; four times in five, of the topic of the mention before."""
    about = rng.choice(np.unique(topic), 3, replace=False)
    now, found = about[0], []
    for _ in range(mentions):
        now = now if rng.random() < 0.8 else rng.choice(about)  # noqa: PLR2004
        found.append(rng.choice(np.flatnonzero(topic == now)))
    return np.array(found)

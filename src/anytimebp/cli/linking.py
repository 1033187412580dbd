"""The first half of `anytimebp demo`: a made-up document whose mentions are linked to 50,000 entities.

About thirty entities share each name, so the text of a mention alone does not tell which of them is meant. But mentions
near each other are about related topics, so factors on pairs of mentions score the similarity of their entities.
As tables these scores would take 2.3 TB. Here they are a rule, which a run asks for the scores that matter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

import anytimebp as abp
from anytimebp.cli.names import say
from anytimebp.model.source import FloatArray
from anytimebp.report.wording import estimate_text
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.results.trace import Moment

MENTIONS, ENTITIES, SAME_NAME, DIMENSIONS = 60, 50_000, 30, 32
SECONDS, TARGET, MEMORY = 30.0, 1e-3, 360_000_000  # bytes; the document, Python and compiling take about 100 MB more
SCALE = 8.0  # nats for two entities with the same embedding; about half as much for two of one topic
HOPELESS = -16.0  # log score of an entity with another name
SHOWN = 8  # mentions on the screen

STARTS = [
    "Al",
    "Bar",
    "Cor",
    "Dan",
    "El",
    "Fer",
    "Gar",
    "Hol",
    "In",
    "Jor",
    "Kel",
    "Lan",
    "Mar",
    "Nor",
    "Ol",
    "Per",
    "Quin",
    "Ros",
    "San",
    "Tor",
    "Ul",
    "Ver",
    "Wes",
    "Yor",
    "Zan",
]
ENDS = [
    "ford",
    "ton",
    "ville",
    "berg",
    "mont",
    "ley",
    "field",
    "ham",
    "well",
    "worth",
    "stad",
    "ridge",
    "wick",
    "haven",
    "dale",
    "brook",
    "mere",
    "gate",
    "by",
    "sen",
]
PLACES = [
    "Oslo",
    "Kyoto",
    "Lima",
    "Cairo",
    "Delhi",
    "Porto",
    "Quito",
    "Riga",
    "Turin",
    "Accra",
    "Boston",
    "Dakar",
    "Havana",
    "Lyon",
    "Malmo",
    "Perth",
]
SUBJECTS = [
    "football",
    "opera",
    "physics",
    "cuisine",
    "trams",
    "poetry",
    "sailing",
    "chess",
    "banking",
    "jazz",
    "film",
    "botany",
]

Indices = npt.NDArray[np.int64]


class Document(NamedTuple):
    """A document to link.

    Attributes:
        graph: A variable per mention, a state per entity.
        prior: (mentions, entities) log scores of each mention alone.
        truth: (mentions,) the entity that each mention is about.
        entities: The entities' labels.
    """

    graph: abp.FactorGraph
    prior: FloatArray
    truth: Indices
    entities: list[str]


def similarity(embedding: FloatArray) -> Callable[[Indices, Indices], FloatArray]:
    """Return the rule that scores pairs of entities: the dot product of their embeddings."""

    def score(a: Indices, b: Indices) -> FloatArray:
        if a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0] == 1:  # noqa: PLR2004
            return np.asarray(embedding[a[:, 0]] @ embedding[b[0]].T)  # every a with every b, which is how a run asks
        return np.asarray(np.einsum("...d,...d->...", embedding[a], embedding[b]))

    return score


def make_document(mentions: int = MENTIONS, entities: int = ENTITIES, seed: int = 0) -> Document:
    """Return a document in which every mention has the topic of the one before, four times in five."""
    rng = np.random.default_rng(seed)
    topics = [f"{place} {subject}" for place, subject in itertools.product(PLACES, SUBJECTS)]
    topic = np.arange(entities) % len(topics)
    name = rng.integers(max(1, entities // SAME_NAME), size=entities)
    embedding = rng.normal(size=(len(topics), DIMENSIONS))[topic] + rng.normal(size=(entities, DIMENSIONS))
    embedding *= np.sqrt(SCALE) / np.linalg.norm(embedding, axis=1, keepdims=True)
    about, now, truth = rng.choice(len(topics), 3, replace=False), 0, np.empty(mentions, dtype=np.int64)
    for i in range(mentions):
        now = now if rng.random() < 0.8 else int(rng.integers(3))  # noqa: PLR2004
        truth[i] = rng.choice(np.flatnonzero(topic == about[now]))
    prior = HOPELESS + rng.normal(0.0, 0.5, (mentions, entities))
    for scores, entity in zip(prior, truth, strict=True):
        same = np.flatnonzero(name == name[entity])
        scores[same] = rng.normal(0.0, 3.0, len(same))
        scores[entity] += 8.0 if rng.random() < 0.5 else 0.0  # noqa: PLR2004  (the context tells, every other time)
    names = [f"{start}{end}" for start, end in itertools.product(STARTS, ENDS)]
    words = [f"{names[k % len(names)]}{'-' + names[k // len(names)] if k >= len(names) else ''}" for k in name.tolist()]
    labels = [f"{word} of {topics[t]} {i}" for i, (word, t) in enumerate(zip(words, topic.tolist(), strict=True))]

    graph = abp.FactorGraph()
    graph.add_variables(mentions, labels, [f"{i + 1} {words[entity]}" for i, entity in enumerate(truth.tolist())])
    graph.add_factors(np.arange(mentions)[:, np.newaxis], log_table=prior)
    near = [(i, i + step) for i in range(mentions) for step in (1, 2) if i + step < mentions]
    graph.add_factors(near, rule=similarity(embedding))
    return Document(graph, prior, truth, labels)


class LiveView:
    """Shows a run: rows that change on a terminal, a line per answer elsewhere."""

    def __init__(self, document: Document, live: Live | None) -> None:
        """Show nothing yet."""
        self._document, self._live = document, live
        alone = document.prior.argmax(axis=1)
        self._alone, self._best = alone, alone.copy()
        self._chance = np.full(len(alone), np.nan)
        self._figures = ""
        self._error = float("inf")
        wrong = np.flatnonzero(alone != document.truth)
        rest = np.setdiff1d(np.arange(len(alone)), wrong)
        self._rows = np.sort(np.concatenate([wrong, rest])[:SHOWN]).tolist()

    @property
    def n_right(self) -> tuple[int, int]:
        """How many mentions are linked correctly: each alone, and now."""
        truth = self._document.truth
        return int((self._alone == truth).sum()), int((self._best == truth).sum())

    def answer(self, snapshot: Snapshot) -> None:
        """Show the likeliest entities of a snapshot."""
        for i in range(len(self._best)):
            marginal = snapshot.marginals[i]
            self._best[i] = marginal.argmax()
            self._chance[i] = marginal[self._best[i]]
        self._error = snapshot.estimated_error
        states, seconds = int(snapshot.domain_sizes.sum()), snapshot.seconds
        self._show(seconds, states)
        if self._live is None:
            say(self._figures)

    def watch(self, moment: Moment) -> None:
        """Show the current figures."""
        self._show(moment.seconds, moment.states)

    def _show(self, seconds: float, states: int) -> None:
        n, (alone, now) = len(self._best), self.n_right
        right = f"right: {alone} of {n} alone, {now} together"
        error = f"error {estimate_text(self._error)}" if self._error < 1.0 else "error unknown"
        self._figures = f"{seconds:5.1f} s  {states:>6,} active states  {error:<13}  {right}"
        if self._live is not None:
            self._live.update(self._page(), refresh=True)

    def _page(self) -> Group:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for title in ("mention", "by name alone", "all together", ""):
            table.add_column(title, overflow="ellipsis", no_wrap=True)
        labels, truth = self._document.entities, self._document.truth
        for i in self._rows:
            alone, now = (labels[k].partition(" of ")[2] for k in (self._alone[i], self._best[i]))
            is_right, known = self._best[i] == truth[i], not np.isnan(self._chance[i])
            style = "" if not known else "green" if is_right else "red"
            chance = f"{self._chance[i]:.2f} {'right' if is_right else 'wrong'}" if known else ""
            name = self._document.graph.variables[i].name
            table.add_row(name, Text(alone, "dim"), Text(now if known else "...", style), Text(chance, style))
        return Group(Text(self._figures, "bold"), table)


def link(document: Document, view: LiveView) -> Result:
    """Return the marginals of all mentions together."""
    record = abp.Every(rounds=1, estimates=True)
    inference = abp.Inference(document.graph, max_memory=MEMORY, record=record)
    return inference.run(SECONDS, target_error=TARGET, callback=view.answer, watch=view.watch)

"""Which variables and states a page shows, and what it says about those that it leaves out."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

import numpy as np

from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.report.wording import probability_text, short_text, shown_labels
from anytimebp.results.marginals import Marginals, likeliest

MOST_STATES = 20  # per variable
CLOSED_STATES = 5  # per variable, before a reader asks for more
MOST_VARIABLES = 5_000
MOST_CHARACTERS = 10_000_000  # characters of names and distinct labels that a browser opens without a pause


class Card(NamedTuple):
    """What is shown of one variable; a JSON array in this order.

    Attributes:
        name: Of the variable.
        n_states: Size of the universe.
        n_active: Size of the domain.
        labels: Places of the likeliest states' labels in the list of all texts, likeliest first.
        probabilities: As text.
        rest: Probability of all states that are not listed, as text.
        rest_closed: Probability of all states that a closed card does not show, as text.
    """

    name: str
    n_states: int
    n_active: int
    labels: list[int]
    probabilities: list[str]
    rest: str
    rest_closed: str


class ShownMarginals(TypedDict):
    """What the page's script draws.

    Attributes:
        texts: Labels, each once.
        cards: Of the variables shown, in the order of the model.
        by_uncertainty: Places in `cards`, highest entropy first.
        n_closed: States of a card before it is opened.
    """

    texts: list[str]
    cards: list[Card]
    by_uncertainty: list[int]
    n_closed: int


class TextList:
    """Texts, each once, by position."""

    def __init__(self) -> None:
        """Start empty."""
        self.position: dict[str, int] = {}
        self.characters = 0

    def add(self, text: str) -> int:
        """Return the position of a text, a new one if it is not there yet."""
        if text not in self.position:
            self.position[text] = len(self.position)
            self.characters += len(text)
        return self.position[text]


def shown_marginals(marginals: Marginals, domain_sizes: IndexArray) -> ShownMarginals:
    """Return the first variables of the model with their likeliest states, as many as fit into a page."""
    texts = TextList()
    cards: list[Card] = []
    name_characters = 0
    for index in marginals.indices[:MOST_VARIABLES]:
        marginal = marginals[index]
        cards.append(_card(marginals, index, marginal, int(domain_sizes[index]), texts))
        name_characters += len(cards[-1].name)
        if name_characters + texts.characters > MOST_CHARACTERS:
            break
    order = np.argsort(-marginals.entropies()[: len(cards)], kind="stable").tolist()
    return {"texts": list(texts.position), "cards": cards, "by_uncertainty": order, "n_closed": CLOSED_STATES}


def _card(marginals: Marginals, index: int, marginal: FloatArray, n_active: int, texts: TextList) -> Card:
    labels = marginals.variables[index].labels
    n_possible = int(np.count_nonzero(marginal))
    best = likeliest(marginal, MOST_STATES)
    if len(marginal) > MOST_STATES:
        best = best[:n_possible]  # a row of zeros, out of many, tells nothing
    return Card(
        name=short_text(marginals.variables.name(index)),
        n_states=len(labels),
        n_active=n_active,
        labels=[texts.add(text) for text in shown_labels([labels[state] for state in best])],
        probabilities=[probability_text(float(marginal[state]), alone=n_possible == 1) for state in best],
        rest=probability_text(float(np.delete(marginal, best).sum())),
        rest_closed=probability_text(float(np.delete(marginal, best[:CLOSED_STATES]).sum())),
    )


def left_out(shown: ShownMarginals, n_variables: int) -> str:
    """Return a sentence on what the page does not list, and where it is; empty if it lists everything."""
    parts = []
    if len(shown["cards"]) < n_variables:
        parts.append(f"the first {len(shown['cards']):,} of {n_variables:,} variables")
    if any(card.n_states > len(card.labels) for card in shown["cards"]):
        parts.append(f"at most {MOST_STATES} states of each variable")
    if not parts:
        return ""
    return (
        f"This page lists {' and '.join(parts)}. All marginals are in the file that `--output` writes "
        "on the command line, or `write_marginals` in Python."
    )

"""`anytimebp demo`: who is what, and how are they related? One sentence, read jointly.

Four mentions get a type each, every ordered pair of them a relation. Local scores, as a tagger would give them, are
unsure; a table says which types may take part in which relation. Inference decides about all of them together.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import click
import numpy as np

import anytimebp as abp
from anytimebp.cli.convert import say_what_is_lost
from anytimebp.cli.names import say
from anytimebp.cli.paths import check_output
from anytimebp.cli.show import ended_line
from anytimebp.formats.files import WRITERS, write_model_file
from anytimebp.model.graph import FactorGraph
from anytimebp.model.source import FloatArray

SENTENCE = "Marie Curie left Warsaw for Paris, where the Sorbonne made her a professor."
TYPES = ["person", "city", "university", "country", "company", "award"]
RELATIONS = ["none", "born in", "lived in", "works for", "teaches at", "located in"]

LOCAL_TYPES = {  # log scores of a tagger that sees one mention at a time; all others are at -4
    "Curie": {"person": 2.0, "award": 1.8, "university": 0.5},
    "Warsaw": {"city": 1.0, "country": 0.4, "company": 0.8},
    "Paris": {"city": 1.2, "person": 1.3},
    "Sorbonne": {"university": 0.4, "company": 0.9, "city": 0.3},
}
LOCAL_RELATIONS = {  # log scores from the words between two mentions; "none" is at 0, all others are at -3
    ("Curie", "Warsaw"): {"born in": 0.7, "lived in": 1.0},
    ("Curie", "Paris"): {"lived in": 1.6},
    ("Curie", "Sorbonne"): {"teaches at": 2.4, "works for": 1.4},
    ("Sorbonne", "Paris"): {"located in": 1.0},
}
ALLOWED = {  # what the relations may hold between
    ("person", "born in", "city"),
    ("person", "born in", "country"),
    ("person", "lived in", "city"),
    ("person", "lived in", "country"),
    ("person", "works for", "university"),
    ("person", "works for", "company"),
    ("person", "teaches at", "university"),
    ("university", "located in", "city"),
    ("university", "located in", "country"),
    ("company", "located in", "city"),
    ("company", "located in", "country"),
    ("city", "located in", "country"),
}


@click.command()
@click.option("--save", type=click.Path(path_type=Path), help="Also write the model, as .npz, to try `infer` on.")
def demo(save: Path | None) -> None:
    """Read one sentence jointly: types of mentions and relations between them."""
    if save:
        check_output(save, WRITERS, "a model")
    graph = build()
    if save:
        say_what_is_lost(write_model_file(graph, save))
    say(f"{SENTENCE}\n\n{graph.summary()}\n")
    alone, result = abp.infer(build(together=False)), abp.infer(graph, seconds=60.0)
    say(f"{'':<22}{'alone':<26}together")
    for variable in graph.variables:
        before, after = alone.top(variable)[0], result.top(variable)[0]
        if variable.name in LOCAL_TYPES or "none" not in {before[0], after[0]}:
            changed = "" if before[0] == after[0] else "   <- changed"
            say(f"{variable.name:<22}{before[0]!s:<16}{before[1]:<10.2f}{after[0]!s:<16}{after[1]:.2f}{changed}")
    say(f"\n{ended_line(result)}; {result.updates} factor updates, log Z = {result.log_z:.3f}")
    if save:
        say(f"The model is in {save}: try `anytimebp infer {save}`, with --observe Paris=person, say.")


def scores(labels: list[str], known: dict[str, float], other: float) -> list[float]:
    """Return a log score per label."""
    return [known.get(label, other) for label in labels]


def constraint() -> FloatArray:
    """Return the table over (type, type, relation): 0 where allowed, -5 where not."""
    table = np.full((len(TYPES), len(TYPES), len(RELATIONS)), -5.0)
    table[:, :, RELATIONS.index("none")] = 0.0
    for left, relation, right in ALLOWED:
        table[TYPES.index(left), TYPES.index(right), RELATIONS.index(relation)] = 0.0
    return table


def build(*, together: bool = True) -> FactorGraph:
    """State the model: a variable per mention and per ordered pair of mentions, and what ties them together."""
    graph = FactorGraph()
    table = constraint()
    for mention, known in LOCAL_TYPES.items():
        graph.add_variable(mention, TYPES)
        graph.add_factor([mention], log_table=scores(TYPES, known, -4.0))
    for left, right in itertools.permutations(LOCAL_TYPES, 2):
        pair = f"{left} > {right}"
        graph.add_variable(pair, RELATIONS)
        known = {"none": 0.0} | LOCAL_RELATIONS.get((left, right), {})
        graph.add_factor([pair], log_table=scores(RELATIONS, known, -3.0))
        if together:
            graph.add_factor([left, right, pair], log_table=table)
    return graph

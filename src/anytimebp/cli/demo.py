"""`anytimebp demo`: a document with 50,000 entities (`linking.py`), then the types and relations of one sentence.

In the sentence, each of four mentions gets a type, and each ordered pair of mentions a relation. Local scores, as from
a tagger, are uncertain; a table says which types may take part in which relation. Inference decides about all mentions
and relations together.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.live import Live

import anytimebp as abp
from anytimebp.cli.convert import say_what_is_lost
from anytimebp.cli.linking import ENTITIES, MENTIONS, LiveView, link, make_document
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
@click.option(
    "--save", type=click.Path(path_type=Path), help="Also write the sentence's model, to try `infer` on: .npz."
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    default=Path("demo.html"),
    show_default=True,
    help="Where to write the report on the first part.",
)
@click.option("--sentence-only", is_flag=True, help="Skip the first part and its report.")
def demo(save: Path | None, report: Path, *, sentence_only: bool) -> None:
    """Link 60 mentions to 50,000 entities, live; then infer the types and relations of one sentence."""
    if save:
        check_output(save, WRITERS, "a model")
    if sentence_only:
        read_sentence(save)
        return
    check_output(report, {".html": None, ".htm": None}, "a report")
    helper = compile_meanwhile()
    try:
        link_mentions(report)
        if helper is not None:
            helper.wait()
    finally:
        if helper is not None:
            helper.kill()
    read_sentence(save)
    again = "" if save else "\nTry `anytimebp demo --sentence-only --save demo.npz`,\nthen `anytimebp infer demo.npz`."
    say(f"\nThe report on the 60 mentions is in {report}: open it in a browser.{again}")


def compile_meanwhile() -> subprocess.Popen[bytes] | None:
    """Start a process that compiles the sentence's kernels while mentions are linked; None if all are compiled."""
    from anytimebp.kernels.cliques import distribute_slice  # noqa: PLC0415  (loads Numba)
    from anytimebp.kernels.disk_cache import is_kept  # noqa: PLC0415
    from anytimebp.kernels.jit import UNCOMPILED  # noqa: PLC0415

    if UNCOMPILED or is_kept(distribute_slice):
        return None
    command = [sys.executable, "-m", "anytimebp", "warmup", "--method", "exact", "--jobs", "1"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603  (our own)


def link_mentions(report: Path) -> None:
    """Link the mentions of a made-up document, show progress, and write a report."""
    say(
        "A document has 60 mentions. Each may be any of 50,000 entities, and some 30 entities share its name.\n"
        "Pairs of mentions near each other prefer related entities: 117 tables of 50,000 x 50,000 scores, 2.3 TB.\n"
        "The library asks a function for the few scores that matter. Ctrl-C ends the run with the best answer so far.\n"
    )
    document = make_document()
    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live:
        view = LiveView(document, live)
        result = link(document, view)
    n_states, (alone, together) = MENTIONS * ENTITIES, view.n_right
    memory = f", {peak_memory()} MB of memory" if peak_memory() else ""
    say(
        f"\n{result.domain_sizes.sum():,} of {n_states:,} states took part; {result.seconds:.1f} seconds{memory}.\n"
        f"Linked right: {alone} of {MENTIONS} by name alone, {together} all together.\n"
    )
    abp.write_report(result, report, about={"model": "60 mentions linked to 50,000 entities (anytimebp demo)"})


def peak_memory() -> int:
    """Return the peak memory of this process in megabytes; 0 if the system does not tell."""
    try:
        import resource  # noqa: PLC0415  (Unix only)
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6)


def read_sentence(save: Path | None) -> None:
    """Infer types and relations of one sentence jointly, and print what changes."""
    graph = build()
    if save:
        say_what_is_lost(write_model_file(graph, save))
    say(f"Now a sentence, read jointly: types of mentions and relations between them.\n{SENTENCE}\n")
    alone, result = abp.infer(build(together=False)), abp.infer(graph, seconds=60.0)
    say(f"{'':<22}{'alone':<26}together")
    for variable in graph.variables:
        before, after = alone.top(variable)[0], result.top(variable)[0]
        if variable.name in LOCAL_TYPES or "none" not in {before[0], after[0]}:
            changed = "" if before[0] == after[0] else "  <- changed"
            say(f"{variable.name:<22}{before[0]!s:<16}{before[1]:<10.2f}{after[0]!s:<16}{after[1]:.2f}{changed}")
    say(f"\n{ended_line(result)}; log Z = {result.log_z:.3f}")
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
    """Build the model: a variable per mention and per ordered pair of mentions, and the factors between them."""
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

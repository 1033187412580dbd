"""Marginals as JSON, CSV and Parquet. They contain no times, so that the same run gives the same bytes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from anytimebp.errors import FormatError
from anytimebp.model.variable import Labels
from anytimebp.optional import missing_package
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.results.tables import label_texts

QUOTED = re.compile('[,;"\t\r\n]')  # characters that need quotes in CSV, or that some readers take for a separator
FORMULA = re.compile("'*[=+@\t\r-]")  # beginnings that spreadsheets take for a formula, and the mark that prevents it
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", re.IGNORECASE)


def write_csv(result: Snapshot, file: BinaryIO, path: Path) -> None:
    """Write a line per state: variable, state, probability.

    A name or label that a spreadsheet would run as a formula gets an apostrophe in front. To read names back, remove
    one apostrophe where apostrophes come before any of = + - @, tab and carriage return. Numbers stay as they are.
    """
    del path
    file.write(b"variable,state,probability\n")
    for variable in map(result.marginals.variables.__getitem__, result.marginals.indices):
        name, labels = _field(variable.name), map(_field, label_texts(variable.labels))
        marginal = result.marginals[variable.index].tolist()
        rows = [f"{name},{label},{p!r}\n" for label, p in zip(labels, marginal, strict=True)]
        file.write("".join(rows).encode("utf-8"))


def _field(text: str) -> str:
    """Return a text as a field of CSV; the module csv of Python 3.11 leaves carriage returns without quotes."""
    if FORMULA.match(text) and not NUMBER.fullmatch(text):
        text = f"'{text}"
    return '"' + text.replace('"', '""') + '"' if QUOTED.search(text) else text


def write_json(result: Snapshot, file: BinaryIO, path: Path) -> None:
    """Write figures, and labels and probabilities by variable name."""
    del path
    head = json.dumps(_figures(result), ensure_ascii=False, indent=1)
    file.write(f'{head.removesuffix("}").rstrip()},\n "marginals": {{'.encode())
    file.writelines(piece.encode("utf-8", errors="surrogatepass") for piece in _variables(result))
    file.write(b"\n }\n}\n")


def _figures(result: Snapshot) -> dict[str, Any]:
    stop = {"stop_reason": result.stop_reason.name} if isinstance(result, Result) else {}
    return stop | {
        "method": result.method,
        "consistent": result.consistent,
        "exact": result.exact,
        "tolerance": result.tolerance,
        "log_z": _finite(result.log_z),
        "max_residual": _finite(result.max_residual),
        "estimated_error": _finite(result.estimated_error),
        "unexplored_mass": _finite(result.unexplored_mass),
        "active_states": int(result.domain_sizes.sum()),
        "states": result.n_states,
        "updates": int(result.updates),
        "work": int(result.work),
        "arithmetic": result.arithmetic,
    }


def _variables(result: Snapshot) -> Iterator[str]:
    for position, index in enumerate(result.marginals.indices):
        variable = result.marginals.variables[index]
        each = {"labels": _json_labels(variable.labels), "probabilities": result.marginals[variable.index].tolist()}
        comma = "," if position else ""
        yield f"{comma}\n  {json.dumps(variable.name)}: {json.dumps(each)}"


def _json_labels(labels: Labels) -> list[Any]:
    """Return labels as JSON values, other objects as text. If two would become equal, all labels become text."""
    plain = [label if type(label) in {str, int, bool} else str(label) for label in labels]
    return plain if len({(type(label), label) for label in plain}) == len(plain) else label_texts(labels)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def load_parquet(path: Path) -> Any:
    """Return the Parquet part of pyarrow, or say how to get it."""
    try:
        return import_module("pyarrow.parquet")
    except ImportError:
        raise FormatError(path, missing_package("pyarrow", "arrow")) from None


def write_parquet(result: Snapshot, file: BinaryIO, path: Path) -> None:
    """Write a row per state: variable, state, probability."""
    parquet = load_parquet(path)
    parquet.write_table(import_module("pyarrow").table(result), file)

"""`anytimebp infer MODEL --cases`: one model under many kinds of evidence, to a folder of part files.

A part file appears under its name when it is complete. So a command that was killed can be given again: it goes on with
the first part that is missing. What the folder was begun with is written into it, and other cases are refused.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click

import anytimebp as abp
from anytimebp.cli.names import say
from anytimebp.cli.observed import label_of
from anytimebp.errors import FormatError
from anytimebp.formats.whole_file import HALF, whole_file
from anytimebp.model.graph import FactorGraph
from anytimebp.results.snapshot import Result

PART = 1000  # cases in a part file
BEGUN_WITH = "cases.json"
ENDINGS = {".jsonl": "JSON lines", ".csv": "CSV"}


def infer_cases(model: Path, graph: FactorGraph, cases: Path, folder: Path, options: dict[str, Any]) -> None:
    """Solve all cases that are not in the folder yet.

    Args:
        model: Where the graph comes from.
        graph: The model.
        cases: A file with one kind of evidence a line.
        folder: Where part files go.
        options: Of `infer_many`.
    """
    if cases.suffix.lower() not in ENDINGS:
        msg = f"--cases takes a .jsonl or .csv file, got {cases.name!r}"
        raise click.UsageError(msg)
    folder.mkdir(parents=True, exist_ok=True)
    _check_folder(folder, _begun_with(model, cases, options))
    every, number, n_new = read_cases(cases, graph), 0, 0
    while True:
        part = list(islice(every, PART))
        if not part:
            break
        target = folder / f"part-{number:05d}.jsonl"
        if not target.exists():
            results = abp.infer_many(graph, evidence=part, errors="return", **options)
            with whole_file(target) as file:
                for case, result in enumerate(results, number * PART):
                    file.write(json.dumps(_line(case, result)).encode() + b"\n")
            n_new += len(part)
        number += 1
    say(f"{n_new:,} cases solved; {number:,} part files in {folder}")


def _begun_with(model: Path, cases: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return what a folder of results depends on."""
    files = {what: hashlib.sha256(path.read_bytes()).hexdigest() for what, path in (("model", model), ("cases", cases))}
    return {**files, "options": {name: repr(value) for name, value in sorted(options.items())}, "part": PART}


def _check_folder(folder: Path, begun_with: dict[str, Any]) -> None:
    """Refuse a folder that was begun with other input; mark a new one."""
    mark = folder / BEGUN_WITH
    if mark.exists():
        if json.loads(mark.read_text()) != begun_with:
            msg = "belongs to another model, other cases or other options; use another folder"
            raise FormatError(folder, msg)
        for half in folder.glob(HALF):
            half.unlink(missing_ok=True)
        return
    if any(folder.glob("part-*.jsonl")):
        raise FormatError(folder, f"has part files, but no {BEGUN_WITH} that says which model and cases they belong to")
    with whole_file(mark) as file:
        file.write(json.dumps(begun_with, indent=1).encode())


def _line(case: int, result: Result | Exception) -> dict[str, Any]:
    """Return what is written of a case."""
    if isinstance(result, Exception):
        return {"case": case, "error": f"{type(result).__name__}: {result}"}
    return {
        "case": case,
        "method": result.method,
        "stop_reason": result.stop_reason.name,
        "log_z": result.log_z if math.isfinite(result.log_z) else None,
        "marginals": {name: marginal.tolist() for name, marginal in result.marginals.items()},
    }


def read_cases(path: Path, graph: FactorGraph) -> Iterator[dict[str, object]]:
    """Yield the evidence of each line.

    In JSON lines, every line is an object with a label, or a list of allowed labels, for each observed variable. In
    CSV, the first line has the variables and the others have labels; an empty cell means that nothing is observed.
    """
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix.lower() == ".csv":
            yield from _read_csv(path, csv.reader(file), graph)
            return
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _read_json(path, number, line)


def _read_json(path: Path, number: int, line: str) -> dict[str, object]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise FormatError(path, f"is not JSON: {error}", number) from None
    if not isinstance(found, dict):
        raise FormatError(path, "expected an object, with a label by variable", number)
    return {name: frozenset(label) if isinstance(label, list) else label for name, label in found.items()}


def _read_csv(path: Path, rows: Iterator[list[str]], graph: FactorGraph) -> Iterator[dict[str, object]]:
    names = next(rows, [])
    for name in names:
        if graph.variables.find(name) is None:
            raise FormatError(path, f"there is no variable named {name!r}", 1)
    for number, row in enumerate(rows, 2):
        if len(row) != len(names):
            raise FormatError(path, f"expected {len(names)} fields, got {len(row)}", number)
        yield {name: label_of(graph, name, text) for name, text in zip(names, row, strict=True) if text}

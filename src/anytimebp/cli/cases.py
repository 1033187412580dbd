"""`anytimebp infer MODEL --cases`: one model under many kinds of evidence, to a folder of part files.

A part file appears under its name when it is complete. So a command that was killed can be given again: it continues
with the first missing part. A file in the folder says which model, cases and options it belongs to; others are refused.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import click

import anytimebp as abp
from anytimebp.cli.names import say
from anytimebp.cli.observed import label_of
from anytimebp.errors import FormatError
from anytimebp.formats.evidence import evidence_in_json
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
    """Return everything that the results in a folder depend on."""
    files = {what: hashlib.sha256(path.read_bytes()).hexdigest() for what, path in (("model", model), ("cases", cases))}
    return {**files, "options": {name: repr(value) for name, value in sorted(options.items())}, "part": PART}


def _check_folder(folder: Path, begun_with: dict[str, Any]) -> None:
    """Refuse a folder that belongs to other input; write into a new one what it belongs to."""
    mark = folder / BEGUN_WITH
    if mark.exists():
        try:
            before = json.loads(mark.read_bytes())
        except ValueError:
            raise FormatError(mark, "is damaged; use another folder") from None
        if before != begun_with:
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
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if path.suffix.lower() == ".csv":
                yield from _read_csv(path, file, graph)
                return
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield evidence_in_json(line, path, number)
    except UnicodeDecodeError:
        raise FormatError(path, "the file is not UTF-8 text", _first_bad_line(path)) from None


def _first_bad_line(path: Path) -> int | None:
    """Return the first line that is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return None


def _read_csv(path: Path, file: TextIO, graph: FactorGraph) -> Iterator[dict[str, object]]:
    rows = csv.reader(file)
    try:
        names = next(rows, [])
        for name, count in Counter(names).items():
            if graph.variables.find(name) is None:
                raise FormatError(path, f"there is no variable named {name!r}", 1)
            if count > 1:
                raise FormatError(path, f"variable {name!r} has {count} columns", 1)
        for row in rows:
            if len(row) != len(names):
                raise FormatError(path, f"expected {len(names)} fields, got {len(row)}", rows.line_num)
            yield {name: label_of(graph, name, text) for name, text in zip(names, row, strict=True) if text}
    except csv.Error as error:
        raise FormatError(path, f"not CSV: {error}", rows.line_num) from None

"""Marginals as JSON, CSV and Parquet. No time stands in them, so that the same run gives the same bytes."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from anytimebp.errors import FormatError
from anytimebp.results.snapshot import Result, Snapshot


def write_csv(result: Snapshot, file: BinaryIO, path: Path) -> None:
    """Write a line per state: variable, state, probability."""
    del path
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["variable", "state", "probability"])
    for variable in result.marginals.variables:
        marginal = result.marginals[variable.index].tolist()
        writer.writerows((variable.name, label, p) for label, p in zip(variable.labels, marginal, strict=True))
    text.flush()
    text.detach()


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
        "tolerance": result.tolerance,
        "log_z": _finite(result.log_z),
        "max_residual": _finite(result.max_residual),
        "unexplored_mass": _finite(result.unexplored_mass),
        "active_states": int(result.domain_sizes.sum()),
        "states": result.n_states,
        "updates": int(result.updates),
        "work": int(result.work),
        "arithmetic": result.arithmetic,
    }


def _variables(result: Snapshot) -> Iterator[str]:
    for variable in result.marginals.variables:
        labels = [label if type(label) in {str, int, bool} else str(label) for label in variable.labels]
        each = {"labels": labels, "probabilities": result.marginals[variable.index].tolist()}
        comma = "," if variable.index else ""
        yield f"{comma}\n  {json.dumps(variable.name)}: {json.dumps(each)}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def load_parquet(path: Path) -> Any:
    """Return the Parquet part of pyarrow, or say how to get it."""
    try:
        return import_module("pyarrow.parquet")
    except ImportError:
        raise FormatError(path, 'Parquet needs pyarrow, an extra: pip install "anytimebp[arrow]"') from None


def write_parquet(result: Snapshot, file: BinaryIO, path: Path) -> None:
    """Write a row per state: variable, state, probability."""
    parquet = load_parquet(path)
    parquet.write_table(import_module("pyarrow").table(result), file)

"""Where a training stands, and the file from which it goes on after it was killed.

An optimiser of SciPy cannot be stopped and resumed. So its calls of the objective are recorded for as long as it runs,
and played back to a new one, which then stands where the other stood.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anytimebp.errors import OptionError
from anytimebp.formats.whole_file import whole_file
from anytimebp.learn.objective import Evaluation
from anytimebp.model.source import FloatArray

VERSION = 1  # of the file
MOST_ITERATIONS = "max_iterations"  # an ending after which a training with a larger limit goes on


class Iteration(NamedTuple):
    """Figures of one step of an optimiser, or of one pass of Adam over all examples.

    Attributes:
        objective: Mean negative log likelihood of an example with its share of the penalty.
        gradient: The largest number of its derivative.
        tolerance: To which messages had to settle.
        work: Table entries read since the last one.
        unsettled: Batches whose messages had not settled.
        held_out: Mean log likelihood of a held-out example; NaN if there are none.
    """

    objective: float
    gradient: float
    tolerance: float
    work: int
    unsettled: int
    held_out: float


@dataclass
class State:
    """Where a training stands.

    Attributes:
        vector: The weights at which the optimiser began.
        best: The weights that are best so far: on held-out examples, if there are any.
        best_held_out: How good they are there.
        stale: Iterations since.
        stage: Number of the accuracy that is in force.
        rows: What was done.
        first_row: How many of them there were when the optimiser began.
        tape: What the objective has answered to this optimiser.
        digests: Of the weights that it was asked for, one each.
        moments: Of Adam: first and second.
        steps: Of Adam.
        ending: Why it is over; empty before that.
        is_exact: Whether all log Z were exact so far.
    """

    vector: FloatArray
    best: FloatArray
    best_held_out: float = -np.inf
    stale: int = 0
    stage: int = 0
    rows: list[Iteration] = field(default_factory=list)
    first_row: int = 0
    tape: list[Evaluation] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    moments: FloatArray = field(default_factory=lambda: np.zeros((2, 0)))
    steps: int = 0
    ending: str = ""
    is_exact: bool = True

    @classmethod
    def at(cls, vector: FloatArray) -> State:
        """Begin at some weights."""
        return cls(vector.copy(), vector.copy(), moments=np.zeros((2, len(vector))))

    def note(self, row: Iteration, vector: FloatArray) -> None:
        """Write down an iteration; keep its weights if they are the best, as the last are without held-out examples."""
        self.rows.append(row)
        if np.isnan(row.held_out) or row.held_out > self.best_held_out:
            self.best, self.best_held_out, self.stale = vector.copy(), row.held_out, 0
        else:
            self.stale += 1

    def begin_anew(self, vector: FloatArray) -> None:
        """Forget what the objective has answered: another optimiser begins at these weights."""
        self.vector, self.tape, self.digests, self.first_row = vector.copy(), [], [], len(self.rows)


def digest(vector: FloatArray) -> bytes:
    """Return 32 bytes that tell weights from others."""
    return sha256(vector.tobytes()).digest()


class Checkpoint:
    """A file that holds the state of a training, and is written whole."""

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        """Name the file, and what tells this training from others."""
        self._path, self._fingerprint = Path(path), fingerprint

    def save(self, state: State) -> None:
        """Write the state."""
        tape = state.tape
        numbers: dict[str, Any] = {
            "version": VERSION,
            "fingerprint": self._fingerprint,
            "vector": state.vector,
            "best": state.best,
            "best_held_out": state.best_held_out,
            "counts": np.array([state.stale, state.stage, state.first_row, state.steps, state.is_exact]),
            "rows": np.array(state.rows, dtype=np.float64).reshape(-1, len(Iteration._fields)),
            "values": np.array([own.value for own in tape]),
            "gradients": np.array([own.gradient for own in tape]).reshape(len(tape), len(state.vector)),
            "figures": np.array([own[2:] for own in tape], dtype=np.int64).reshape(-1, 3),
            "digests": np.frombuffer(b"".join(state.digests), dtype=np.uint8),
            "moments": state.moments,
            "ending": state.ending,
        }
        with whole_file(self._path) as file:
            np.savez(file, **numbers)

    def load(self) -> State | None:
        """Return the state that was last written; None if there is no file.

        Raises:
            OptionError: If the file is of another training, or no checkpoint.
        """
        if not self._path.exists():
            return None
        try:
            with np.load(self._path, allow_pickle=False) as file:
                held = {name: file[name] for name in file.files}
            is_mine = int(held["version"]) == VERSION and str(held["fingerprint"]) == self._fingerprint
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            msg = f"checkpoint {self._path} cannot be read: {error}"
            raise OptionError(msg) from error
        if not is_mine:
            msg = (
                f"checkpoint {self._path} is of another training (other examples, labels, blocks or options): "
                "remove it, or choose another file"
            )
            raise OptionError(msg)
        stale, stage, first_row, steps, is_exact = held["counts"].tolist()
        rows = [Iteration(a, b, c, int(d), int(e), f) for a, b, c, d, e, f in held["rows"].tolist()]
        tape = [
            Evaluation(value, gradient, work, unsettled, bool(exact))
            for value, gradient, (work, unsettled, exact) in zip(
                held["values"].tolist(), held["gradients"], held["figures"].tolist(), strict=True
            )
        ]
        digests = held["digests"].tobytes()
        return State(
            vector=held["vector"],
            best=held["best"],
            best_held_out=float(held["best_held_out"]),
            stale=stale,
            stage=stage,
            rows=rows,
            first_row=first_row,
            tape=tape,
            digests=[digests[k : k + 32] for k in range(0, len(digests), 32)],
            moments=held["moments"],
            steps=steps,
            ending=str(held["ending"]),
            is_exact=bool(is_exact),
        )

"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that takes its name only once everything is in it."""
    target = Path(path)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name[:60]}.", delete=False) as file:
        try:
            yield cast("BinaryIO", file)
            file.close()
            Path(file.name).replace(target)
        except BaseException:
            file.close()
            Path(file.name).unlink(missing_ok=True)
            raise

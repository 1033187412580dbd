"""Compiled kernels on disk: damaged files are replaced, and a folder that cannot be used costs time, not the run.

Numba reads and writes its cache on the assumption that nothing ever goes wrong with it. A truncated file would end
every run from then on, and one with wrong bytes in its machine code would crash. So what is written carries a checksum.

This leans on inner parts of Numba: `FunctionCache`, what it saves by, and where a compiled function keeps it. In a
version that has them no more, the cache is Numba's own.
"""

from __future__ import annotations

import logging
import pickle
import zlib
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, ccallback, serialize

from anytimebp.kernels import bundle
from anytimebp.kernels.held_signals import hold_signals, let_signals_in

_FunctionCache: Any = getattr(caching, "FunctionCache", object)
_Functions: Any = getattr(caching, "CompileResultCacheImpl", object)
_dumps: Any = getattr(serialize, "dumps", None)

logger = logging.getLogger("anytimebp")

IS_KNOWN = object not in {_FunctionCache, _Functions} and _dumps is not None
"""Whether Numba has all that a checked cache needs."""

_unusable: dict[str, str] = {}  # folders, and what is to be told of them
_told: set[str] = set()  # those of them that were told
_damaged: set[str] = set()  # folders with files that had to be replaced
_copied_to: list[Path] = []  # where a bundle of compiled kernels is made


def also_keep_in(folder: Path) -> None:
    """Have all that is compiled from now on written to a bundle, too."""
    folder.mkdir(parents=True, exist_ok=True)
    _copied_to.append(folder)


def is_kept(kernel: Any) -> bool:
    """Tell whether some version of a kernel is on disk, or comes with the wheel."""
    folder, module = Path(kernel.stats.cache_path or "."), kernel.__module__.rpartition(".")[2]
    return bundle.holds(module, kernel.__name__) or any(folder.glob(f"{module}.{kernel.__name__}-*.nbi"))


class _CheckedFunctions(_Functions):  # type: ignore[misc]
    """What a compiled function is on disk: a checksum and bytes."""

    def reduce(self, made: Any) -> tuple[int, bytes]:
        content = _dumps(super().reduce(made))
        return zlib.crc32(content), content

    def rebuild(self, context: Any, kept: Any) -> Any:
        checksum, content = kept
        if zlib.crc32(content) != checksum:
            msg = "wrong checksum"
            raise ValueError(msg)
        return super().rebuild(context, pickle.loads(content))  # noqa: S301  (as Numba does)


class CheckedCache(_FunctionCache):  # type: ignore[misc]
    """The cache of one kernel, which never raises: what cannot be read is compiled anew."""

    _impl_class = _CheckedFunctions

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return a compiled function; None if there is none that can be used."""
        let_signals_in()
        with hold_signals():
            found = self._load_from_wheel(signature, context)
            if found is not None:
                return found
            try:
                return super().load_overload(signature, context)
            except Exception as damage:  # noqa: BLE001  (whatever bytes can lead to)
                self._replace(damage)
        return None

    def _load_from_wheel(self, signature: Any, context: Any) -> Any:
        """Return a function that came with the wheel; None if there is none, or it cannot be used."""
        try:
            kept = bundle.read(self._py_func, signature)
            return None if kept is None else self._impl.rebuild(context, pickle.loads(kept))  # noqa: S301
        except Exception:  # noqa: BLE001  (it is compiled instead)
            return None

    def save_overload(self, signature: Any, made: Any) -> None:
        """Write a compiled function, if possible."""
        for folder in _copied_to:
            (folder / bundle.file_of(self._py_func, signature)).write_bytes(pickle.dumps(self._impl.reduce(made)))
        try:
            super().save_overload(signature, made)
        except Exception as failure:  # noqa: BLE001  (the run needs no cache)
            self._give_up(failure)
        let_signals_in()

    def _replace(self, damage: Exception) -> None:
        """Forget what is on disk, so that it is written anew."""
        if self.cache_path not in _damaged:
            _damaged.add(self.cache_path)
            reason = _in_words(damage)
            logger.warning("compiled kernels in %s are damaged (%s); they are compiled again", self.cache_path, reason)
        try:
            self.flush()
        except OSError as failure:
            self._give_up(failure)

    def _give_up(self, failure: Exception) -> None:
        self.disable()
        note_unusable(self.cache_path, _in_words(failure))


def keep_on_disk(made: Any, function: Any) -> None:
    """Have Numba keep what it compiles on disk, where a folder for it can be written.

    Args:
        made: A dispatcher or C function that has not compiled anything yet.
        function: The Python function in it.
    """
    try:
        if IS_KNOWN and hasattr(made, "_cache"):
            made._cache = CheckedCache(function)
        else:
            made.enable_caching()
    except RuntimeError:
        note_unusable(
            getattr(numba.config, "CACHE_DIR", "") or str(Path(__file__).parent / "__pycache__"), "it cannot be written"
        )


def compile_callback(function: Any, argument: Any, result: Any, options: dict[str, Any]) -> Any:
    """Return a function of one argument as a C function, compiled or loaded; it has an `address`."""
    with hold_signals():
        try:
            made = ccallback.CFunc(function, ((argument,), result), locals={}, options=options)
            keep_on_disk(made, function)
            made.compile()
        except (AttributeError, TypeError):  # another version of Numba
            made = numba.cfunc(result(argument), **options)(function)
    return made


def note_unusable(folder: str, reason: str) -> None:
    """Keep in mind that a folder cannot hold compiled kernels."""
    _unusable.setdefault(
        folder,
        f"compiled kernels cannot be kept in {folder} ({reason}), so every process compiles them, which takes 10 to "
        "30 seconds; make room there or make it writable, delete its .nbi and .nbc files if they are damaged, or set "
        "NUMBA_CACHE_DIR to another folder",
    )


def newly_unusable() -> list[str]:
    """Return, in words and each once, which folders cannot hold compiled kernels."""
    if len(_told) == len(_unusable):
        return []
    folders = [folder for folder in _unusable if folder not in _told]
    _told.update(folders)
    return [_unusable[folder] for folder in folders]


def _in_words(error: Exception) -> str:
    strerror = getattr(error, "strerror", None)
    return strerror or f"{type(error).__name__}: {error}"

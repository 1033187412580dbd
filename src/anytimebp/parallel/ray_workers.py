"""An executor whose workers are Ray's: on this machine or on a cluster. Tables are sent once to each node."""

from __future__ import annotations

import io
import os
import pickle
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor, Future
from hashlib import blake2b
from typing import Any

import numpy as np

from anytimebp.errors import OptionError
from anytimebp.optional import load_optional
from anytimebp.parallel.packing import LARGE, Array, unpack

MOST_BYTES = 2**30  # of arrays that the executor keeps there
RETRIES = 10  # of a chunk whose worker has died


def ray_executor(workers: int | None = None) -> RayExecutor:
    """Return an executor for `infer_many` that uses Ray workers.

    It joins a running cluster: the one from `ray.init`, or the one that RAY_ADDRESS names. Otherwise it starts Ray on
    this machine, on the loopback interface only, and shuts it down with the executor. Arrays such as tables are put
    into the object store once, however many graphs share them, and each node reads them from there. A chunk whose
    worker dies is given to another worker.

    Args:
        workers: Number of chunks to solve at the same time; all CPUs of the cluster by default.

    Examples:
        >>> with abp.parallel.ray_executor() as pool:  # doctest: +SKIP
        ...     results = list(abp.infer_many(graphs, executor=pool))

    Raises:
        ModuleNotFoundError: If Ray is not installed (extra `ray`).
    """
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        msg = f"workers must be a whole number of at least 1, got {workers!r}"
        raise OptionError(msg)
    return RayExecutor(load_optional("ray"), workers)


class RayExecutor(Executor):
    """Calls functions in Ray's workers; see `ray_executor`."""

    def __init__(self, ray: Any, workers: int | None) -> None:
        """Join a cluster, or start one."""
        self._ray, self._is_owner = ray, _join_or_start(ray, workers)
        self._max_workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._call = ray.remote(num_cpus=1, max_retries=RETRIES)(_call)
        self._arrays = _Stored(ray)
        self._running: set[Future[Any]] = set()
        self._is_shut_down = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in a worker."""
        if self._is_shut_down:
            msg = "cannot schedule new futures after shutdown"
            raise RuntimeError(msg)
        packed, arrays = self._arrays.pack((fn, args, kwargs))
        task = self._call.remote(packed, *arrays)
        future: Future[Any] = Future()
        self._running.add(future)

        def take(done: Future[Any]) -> None:
            self._running.discard(future)
            if not future.set_running_or_notify_cancel():
                return
            error = done.exception()
            if error is None:
                future.set_result(done.result())
            else:
                future.set_exception(getattr(error, "cause", None) or error)

        def end(done: Future[Any]) -> None:
            if done.cancelled():
                self._ray.cancel(task)

        future.add_done_callback(end)
        task.future().add_done_callback(take)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  (as its base)
        """Wait for what is at work, or cancel it; then leave the cluster, or shut down one that was started here."""
        self._is_shut_down = True
        for future in list(self._running):
            if cancel_futures:
                future.cancel()
            elif wait:
                future.exception()
        self._arrays.forget()
        if self._is_owner and self._ray.is_initialized():
            self._ray.shutdown()
            self._is_owner = False


def join_or_start(workers: int | None) -> tuple[Any, bool]:
    """Join a cluster, or start one on this machine; return Ray, and whether one was started.

    Raises:
        ModuleNotFoundError: If Ray is not installed (extra `ray`).
    """
    ray = load_optional("ray")
    return ray, _join_or_start(ray, workers)


def _join_or_start(ray: Any, workers: int | None) -> bool:
    if ray.is_initialized():
        return False
    if os.environ.get("RAY_ADDRESS"):
        ray.init(log_to_driver=False)
        return False
    _start(ray, workers)
    return True


def _start(ray: Any, workers: int | None) -> None:
    """Start Ray on this machine, for nobody else, without reports to its makers."""
    name = "RAY_USAGE_STATS_ENABLED"
    before = os.environ.get(name)
    os.environ[name] = "0"
    try:
        ray.init(
            address="local",
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="warning",
            _node_ip_address="127.0.0.1",
        )
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


class _Stored:
    """Large arrays in the object store, by what is in them: one that was changed in place is another."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._held: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def pack(self, what: object) -> tuple[bytes, list[Any]]:
        """Pickle something; return the bytes, and references to the large arrays in it."""
        file, stored, cloud_pickler = io.BytesIO(), self, self._ray.cloudpickle.CloudPickler
        positions: dict[bytes, int] = {}
        known: dict[int, int] = {}
        found: list[Any] = []

        class Pickler(cloud_pickler):  # type: ignore[misc, valid-type]
            def persistent_id(self, item: object) -> int | None:
                if type(item) is not np.ndarray or item.nbytes < LARGE or item.dtype.hasobject:
                    return None
                if id(item) not in known:  # all that is pickled stays alive meanwhile
                    key = _content(item)
                    if key not in positions:
                        positions[key] = len(found)
                        found.append(stored.put(key, item))
                    known[id(item)] = positions[key]
                return known[id(item)]

        Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(what)
        return file.getvalue(), found

    def put(self, key: bytes, array: Array) -> Any:
        """Return a reference to an array in the store."""
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key][0]
        reference = self._ray.put(array)
        self._held[key] = reference, array.nbytes
        self._bytes += array.nbytes
        while self._bytes > MOST_BYTES and len(self._held) > 1:
            _, (_, n) = self._held.popitem(last=False)  # tasks that need it hold it themselves
            self._bytes -= n
        return reference

    def forget(self) -> None:
        self._held.clear()
        self._bytes = 0


def _content(array: Array) -> bytes:
    """Return what tells an array from all others."""
    found = blake2b(f"{array.dtype.str} {array.shape}".encode(), digest_size=16)
    found.update(np.ascontiguousarray(array).data.cast("B"))
    return found.digest()


def _call(packed: bytes, *arrays: Array) -> Any:
    """Call what was packed, in a worker."""
    fn, args, kwargs = unpack(packed, list(arrays))
    return fn(*args, **kwargs)

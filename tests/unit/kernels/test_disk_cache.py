"""Compiled kernels on disk: damaged files, folders that cannot be written, a disk that is full."""

import ast
import errno
import importlib.util
import signal
import sys
import warnings
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

import anytimebp as abp
from anytimebp.kernels import disk_cache, jit
from anytimebp.kernels.held_signals import hold_signals
from oracle.models import grid

KERNELS = """
from anytimebp.kernels.jit import callback, kernel

@kernel()
def twice(x):
    return x + x

@kernel()
def twice_and_one(x):
    return twice(x) + 1.0

def for_others(n):
    twice(n)
"""


@pytest.fixture(autouse=True)
def nothing_noted(monkeypatch):
    monkeypatch.setattr(disk_cache, "_unusable", {})
    monkeypatch.setattr(disk_cache, "_told", set())
    monkeypatch.setattr(disk_cache, "_damaged", set())


@pytest.fixture
def new_process(tmp_path, monkeypatch):
    """Give what imports two kernels and a C function as a new process would, with a cache of their own."""
    (tmp_path / "small_kernels.py").write_text(KERNELS)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))

    def start():
        spec = importlib.util.spec_from_file_location("small_kernels", tmp_path / "small_kernels.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "small_kernels", module)
        spec.loader.exec_module(module)
        return module

    return start


def use(module):
    """Call everything; return how much of it came from the disk."""
    assert module.twice_and_one(2.0) == 5.0
    made = module.callback(module.for_others)
    assert made.address
    return sum(module.twice_and_one.stats.cache_hits.values()) + made.owner.cache_hits


def files(tmp_path, ending):
    found = sorted((tmp_path / "cache").glob(f"*/*{ending}"))
    assert found
    return found


def overwrite_middle(path):
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(content)


DAMAGE = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "garbage": lambda path: path.write_bytes(np.random.default_rng(0).bytes(500)),
    "a pickle of something else": lambda path: path.write_bytes(b"\x80\x04K\x01."),
    "wrong in the middle": overwrite_middle,
}


@pytest.mark.compiled
@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_files_are_replaced(name, ending, new_process, tmp_path, caplog):
    assert use(new_process()) == 0
    assert use(new_process()) == 2
    for path in files(tmp_path, ending):
        DAMAGE[name](path)
    assert use(new_process()) < 2
    assert use(new_process()) == 2
    said = [record.getMessage() for record in caplog.records]
    assert len(said) <= 1  # an index of a strange version is none, to Numba
    assert all(str(tmp_path / "cache") in text and "damaged" in text for text in said)
    assert disk_cache.newly_unusable() == []


@pytest.mark.compiled
def test_a_damaged_file_that_cannot_be_replaced_is_left_alone(new_process, tmp_path, monkeypatch):
    use(new_process())
    for path in files(tmp_path, ".nbi"):
        path.write_bytes(b"")
    monkeypatch.setattr(IndexDataCacheFile, "_open_for_write", full_disk)
    assert use(new_process()) == 0
    (told,) = disk_cache.newly_unusable()
    assert str(tmp_path / "cache") in told
    assert "delete its .nbi and .nbc files" in told


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.compiled
def test_a_full_disk_costs_time_and_not_the_run(new_process, tmp_path, monkeypatch):
    monkeypatch.setattr(IndexDataCacheFile, "_open_for_write", full_disk)
    assert use(new_process()) == use(new_process()) == 0
    (told,) = disk_cache.newly_unusable()
    assert str(tmp_path / "cache") in told
    assert "No space left on device" in told
    assert disk_cache.newly_unusable() == []


@pytest.mark.compiled
def test_a_folder_that_cannot_be_written_any_more_costs_time_and_not_the_run(new_process, tmp_path):
    module = new_process()
    (folder,) = (tmp_path / "cache").iterdir()
    folder.rmdir()
    folder.write_text("a file is in the way")
    assert use(module) == 0
    (told,) = disk_cache.newly_unusable()
    assert str(folder) in told


@pytest.mark.compiled
def test_no_folder_at_all_costs_time_and_not_the_run(new_process, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "UserProvidedCacheLocator", raising=False)
    assert use(new_process()) == 0
    (told,) = disk_cache.newly_unusable()
    assert str(tmp_path / "file" / "cache") in told


@pytest.mark.compiled
def test_other_versions_of_numba_keep_kernels_in_their_own_way(new_process, monkeypatch):
    monkeypatch.setattr(disk_cache, "IS_KNOWN", False)
    assert use(new_process()) == 0
    assert use(new_process()) == 2


@pytest.mark.compiled
@pytest.mark.usefixtures("plain_ctrl_c")
def test_ctrl_c_between_two_kernels_keeps_what_is_compiled(new_process, tmp_path, monkeypatch):
    module = new_process()
    save = IndexDataCacheFile.save

    def press_and_save(*arguments):
        signal.raise_signal(signal.SIGINT)
        return save(*arguments)

    monkeypatch.setattr(IndexDataCacheFile, "save", press_and_save)
    with pytest.raises(KeyboardInterrupt), hold_signals():
        module.twice(module.twice_and_one(2.0))
    monkeypatch.setattr(IndexDataCacheFile, "save", save)
    assert [path.name.split("-")[0] for path in files(tmp_path, ".nbc")] == ["small_kernels.twice_and_one"]
    assert not module.twice.overloads
    assert use(module) == 0
    assert use(new_process()) == 2


def test_a_run_warns_once_that_kernels_cannot_be_kept():
    disk_cache.note_unusable("/some/folder", "No space left on device")
    graph = grid(2, 2, 1.0, 0.5, seed=0)
    with pytest.warns(abp.KernelCacheWarning, match=r"/some/folder \(No space left on device\)") as caught:
        abp.infer(graph, "bp")
    assert Path(caught[0].filename) == Path(__file__)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        abp.infer(graph, "bp")


def test_the_fingerprint_of_kernels_covers_every_constant_that_they_are_compiled_with():
    """Numba's cache would not notice that a constant of another module has changed."""
    package = Path(abp.__file__).parent
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in sorted((package / "kernels").glob("*.py"))]
    imported = {node.module for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    outside = {name for name in imported if name.startswith("anytimebp.") and not name.startswith("anytimebp.kernels")}
    assert outside == {f"anytimebp.{path.removesuffix('.py').replace('/', '.')}" for path in jit.CONSTANTS}
    assert all((package / path).is_file() for path in jit.CONSTANTS)

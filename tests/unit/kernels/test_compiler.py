"""Kernels that others call are parts of those: no machine code, no file and no version of their own."""

import importlib.util
import signal
import sys

import numba
import numpy as np
import pytest
from numba.core.compiler import Flags

from anytimebp.kernels import compiler
from anytimebp.kernels.compiler import _KernelFlags
from anytimebp.kernels.held_signals import hold_signals

pytestmark = pytest.mark.compiled

KERNELS = """
from anytimebp.kernels.jit import FAST, kernel

@kernel(inline=True)
def twice(x):
    return x + x

@kernel(FAST)
def total(values):
    found = 0.0
    for k in range(values.size):
        found += twice(values[k])
    return found

@kernel()
def entry(values, k):
    return total(values) + twice(values[k])
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Give three kernels, each of which calls the one before, with a cache of their own."""
    (tmp_path / "three_kernels.py").write_text(KERNELS)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    spec = importlib.util.spec_from_file_location("three_kernels", tmp_path / "three_kernels.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "three_kernels", module)
    spec.loader.exec_module(module)
    return module


def on_disk(tmp_path):
    return {path.name.split("-")[0] for path in (tmp_path / "cache").glob("*/*.nbi")}


def test_only_what_python_calls_is_kept(kernels, tmp_path):
    assert kernels.entry(np.arange(5.0), 3) == 26.0
    assert on_disk(tmp_path) == {"three_kernels.entry"}
    assert [len(k.overloads) for k in (kernels.twice, kernels.total, kernels.entry)] == [0, 0, 1]


def test_a_part_of_others_can_be_called_from_python_before_and_after(kernels, tmp_path):
    values = np.arange(5.0)
    assert kernels.total(values) == 20.0
    assert kernels.entry(values, 3) == 26.0
    assert kernels.twice(4.0) == 8.0
    assert on_disk(tmp_path) == {"three_kernels.entry", "three_kernels.total", "three_kernels.twice"}


@pytest.mark.usefixtures("plain_ctrl_c")
def test_ctrl_c_is_heard_between_two_parts(kernels, tmp_path, monkeypatch):
    define, made = compiler.PartCompiler.define_pipelines, []

    def press_and_define(self):
        if not made:
            signal.raise_signal(signal.SIGINT)
        made.append(self.state.func_id.func_name)
        return define(self)

    monkeypatch.setattr(compiler.PartCompiler, "define_pipelines", press_and_define)
    values = np.arange(5.0)
    with pytest.raises(KeyboardInterrupt), hold_signals():
        kernels.entry(values, 3)
    assert made[0] == "total"
    assert not kernels.entry.overloads
    assert on_disk(tmp_path) == set()
    assert kernels.entry(values, 3) == 26.0


def test_flags_are_equal_where_numba_says_so():
    ours, plain = [], []
    for fastmath in (set(), {"nnan"}):
        for forceinline in (False, True):
            flags = Flags()
            flags.fastmath, flags.forceinline = fastmath, forceinline
            plain += [flags, flags.copy()]
            ours += [_KernelFlags(flags), _KernelFlags(flags).copy()]
    assert [[a == b for a in ours] for b in ours] == [[a == b for a in plain] for b in plain]
    assert all(hash(a) == hash(b) for a in ours for b in ours if a == b)

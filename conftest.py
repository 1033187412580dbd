"""Set-up of all tests, those of evaluation/ included.

It must come before Numba is imported: every version of the kernels has a disk cache of its own.
"""

import hashlib
import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent
UNCOMPILED = os.environ.get("NUMBA_DISABLE_JIT") == "1"

# Numba's cache does not notice a changed callee in another file, nor a changed bounds-check setting.
_kernels = sorted((ROOT / "src/anytimebp/kernels").glob("*.py"))
_digest = hashlib.sha256(b"".join(file.read_bytes() for file in _kernels)).hexdigest()[:16]
_bounds = os.environ.get("NUMBA_BOUNDSCHECK", "0")
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache" / f"{_digest}-{_bounds}"))
sys.path.insert(0, str(ROOT / "tests"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job that a shell runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

from hypothesis import settings  # noqa: E402

settings.register_profile("compiled", max_examples=150, deadline=None)
settings.register_profile("uncompiled", max_examples=15, deadline=None)
settings.load_profile("uncompiled" if UNCOMPILED else "compiled")


def pytest_collection_modifyitems(items):
    """Begin with the test that compiles kernels in any case; leave out on Windows what it lacks: terminals, signals."""
    items.sort(key=lambda item: "test_small_graphs_compile" not in item.name)
    if sys.platform == "win32":
        for item in items:
            if item.get_closest_marker("unix"):
                item.add_marker(pytest.mark.skip(reason="Windows has no such thing"))


DATA = Path(os.environ.get("ANYTIMEBP_DATA", ROOT.parent / "shared" / "data"))


def real(name):
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"the folder {name} of real data is not there (set ANYTIMEBP_DATA to where the data is)")
    return folder


@pytest.fixture(scope="session")
def models_folder():
    return real("models")


@pytest.fixture(scope="session")
def nerel_folder():
    return real("ie_nerel")


@pytest.fixture(scope="session")
def conll04_folder():
    return real("ie_conll04")


@pytest.fixture(params=["linear", "log"])
def any_arithmetic(request, monkeypatch):
    """Run a test in the arithmetic that the library would choose, and in log arithmetic by force."""
    if request.param == "log":
        from anytimebp.inference import all_states, one_by_one  # noqa: PLC0415
        from anytimebp.kernels.codes import LOG  # noqa: PLC0415

        monkeypatch.setattr(all_states, "first_arithmetic", lambda *_: LOG)
        monkeypatch.setattr(one_by_one, "first_arithmetic", lambda *_: LOG)
    return request.param


@pytest.fixture(scope="module")
def every_stage():
    """Have `adaptive` make rounds wherever they are possible, not where they pay."""
    from anytimebp.inference.adaptive import adaptive_run, choice, rounds  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adaptive_run, "SMALL", 0)
        patch.setattr(choice, "FEW", 1.0)
        patch.setattr(choice, "FIRST_WORTH", float("inf"))
        patch.setattr(choice, "FIRST_MASS", 0.0)
        patch.setattr(rounds, "WORTH", float("inf"))
        yield


@pytest.fixture(autouse=True)
def no_earlier_ctrl_c(monkeypatch):
    """Have every test begin as if Ctrl-C had not been pressed in the one before."""
    if "anytimebp.inference.budget" in sys.modules:
        monkeypatch.setattr("anytimebp.inference.budget.InterruptFlag._ended_a_call", float("-inf"))


@pytest.fixture
def plain_ctrl_c():
    """Restore Python's own handling of Ctrl-C, which a shell that starts the tests in the background switches off."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)

"""A training that was killed goes on from its file, and ends with the same bits."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.learn import CRF
from oracle import tagged

pytest.importorskip("scipy", minversion="1.11")
TESTS = Path(__file__).resolve().parents[2]
OPTIONS = [
    {"method": "bp", "max_iterations": 60},
    {"optimizer": "adam", "batch_size": 4, "max_iterations": 25},
    {"method": "bp", "max_iterations": 60, "validation_fraction": 0.2},
]
NAMES = ["lbfgs", "adam", "held out"]


def data():
    rng = np.random.default_rng(0)
    examples = [tagged.chain(rng, int(rng.integers(3, 7)), loop=True) for _ in range(12)]
    weights = tagged.random_weights(np.random.default_rng(1), examples[0])
    return examples, [tagged.sampled(rng, own, weights) for own in examples]


def trained(options, path=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abp.NotConvergedWarning)
        return CRF(checkpoint=path, **options).fit(*data())


def same(one, two):
    return one.iterations_ == two.iterations_ and all(
        own.tobytes() == two.weights_[name].tobytes() for name, own in one.weights_.items()
    )


def without_nan(crf):
    """Compare rows by their texts: NaN is not itself."""
    crf.iterations_ = tuple(map(repr, crf.iterations_))
    return crf


CHILD = """
import sys, json
sys.path.insert(0, sys.argv[1])
sys.path.insert(0, sys.argv[1] + "/unit/learn")
import test_checkpoints
test_checkpoints.trained(json.loads(sys.argv[3]), sys.argv[2])
"""


@pytest.mark.compiled  # files and iterations, not kernels: one pass is enough
@pytest.mark.unix
@pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
def test_a_killed_training_ends_with_the_same_bits(options, tmp_path):
    whole, path, kills = without_nan(trained(options)), tmp_path / "state.npz", 0
    for wanted in (2, 7):  # iterations on file, after which the process is killed
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(TESTS), str(path), json.dumps(options)])
        while child.poll() is None:
            if path.exists():
                with np.load(path) as file:
                    if len(file["rows"]) >= wanted:
                        os.kill(child.pid, signal.SIGKILL)
                        kills += child.wait() == -signal.SIGKILL
                        break
            time.sleep(0.001)
        assert child.wait() in {0, -signal.SIGKILL}
    assert kills
    assert same(without_nan(trained(options, path)), whole)


@pytest.mark.compiled
@pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
def test_a_training_can_go_on_from_every_iteration(options, tmp_path, monkeypatch):
    whole, path = without_nan(trained(options)), tmp_path / "state.npz"
    from anytimebp.learn import state  # noqa: PLC0415

    kept, save = [], state.Checkpoint.save

    def keep(self, now):
        save(self, now)
        kept.append(path.read_bytes())

    monkeypatch.setattr(state.Checkpoint, "save", keep)
    trained(options, path)
    monkeypatch.undo()
    assert len(kept) > len(whole.iterations_) - 1
    for content in kept[:: max(1, len(kept) // 6)]:
        path.write_bytes(content)
        assert same(without_nan(trained(options, path)), whole)


def test_a_training_that_is_over_is_not_done_again(tmp_path):
    first = trained(OPTIONS[0], tmp_path / "state.npz")
    before = (tmp_path / "state.npz").stat().st_mtime_ns
    again = trained(OPTIONS[0], tmp_path / "state.npz")
    assert again.weights_["next"].tobytes() == first.weights_["next"].tobytes()
    assert (tmp_path / "state.npz").stat().st_mtime_ns >= before


def test_a_limit_can_be_raised_afterwards(tmp_path):
    short = trained({"max_iterations": 3}, tmp_path / "state.npz")
    assert short.ending_ == "max_iterations"
    longer = trained({"max_iterations": 100}, tmp_path / "state.npz")
    assert longer.converged_
    assert longer.iterations_[0].objective == short.iterations_[0].objective


def test_checkpoints_of_other_trainings_and_other_files_are_refused(tmp_path):
    path = tmp_path / "state.npz"
    trained({"max_iterations": 2}, path)
    with pytest.raises(abp.OptionError, match="another training"):
        trained({"max_iterations": 2, "l2": 3.0}, path)
    examples, labels = data()
    with pytest.raises(abp.OptionError, match="another training"):
        CRF(max_iterations=2, checkpoint=path).fit(examples[1:], labels[1:])
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(abp.OptionError, match="cannot be read"):
        trained({"max_iterations": 2}, path)

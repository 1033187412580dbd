"""Spoiled files give the right model or a clear error: never another exception, never much time or memory.

Set ANYTIMEBP_FUZZ to the number of files to try of each format; 100,000 in all take about a minute.
"""

import os
import sys
import time

import pytest

import anytimebp as abp
from fuzz.mutations import SEEDS, UAI, mutants

pytestmark = pytest.mark.compiled  # files, not kernels: one pass is enough

COUNT = int(os.environ.get("ANYTIMEBP_FUZZ", "1500"))
MOST_SECONDS = 5.0  # for one file of some kilobytes
MOST_BYTES = 600e6


def peak_memory():
    """Return the most bytes that this process has held; 0 on Windows, which does not say."""
    try:
        import resource  # noqa: PLC0415
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def reader(ending, tmp_path):
    if ending == ".MAR":
        return abp.read_marginals
    if ending in {".evid", ".json"}:
        (tmp_path / "model.uai").write_bytes(UAI)
        graph = abp.read_model(tmp_path / "model.uai")
        return lambda path: abp.read_evidence(path, graph)
    return abp.read_model


@pytest.mark.parametrize("ending", SEEDS)
@pytest.mark.filterwarnings("ignore::anytimebp.errors.DistributionWarning")
@pytest.mark.filterwarnings("ignore:Reading `.npy`")  # NumPy, on headers that look like those of Python 2
def test_spoiled_files_give_a_model_or_an_error_that_names_the_file(ending, tmp_path):
    read, path = reader(ending, tmp_path), tmp_path / f"spoiled{ending}"
    before = peak_memory()
    refused = unnamed = 0
    for data in mutants(ending, COUNT, seed=os.environ.get("ANYTIMEBP_FUZZ_SEED", "0")):
        path.unlink(missing_ok=True)  # some file systems wait for the disk before they write over a file
        path.write_bytes(data)
        start = time.perf_counter()
        try:
            read(path)
        except abp.AnytimeBPError as error:
            refused += "spoiled" in str(error)  # the file is named
            unnamed += "spoiled" not in str(error)
        except Exception as error:
            raise AssertionError(data[:3000]) from error
        assert time.perf_counter() - start < MOST_SECONDS, data[:3000]
    assert unnamed == 0
    assert COUNT * 0.2 < refused < COUNT  # some mutants are fine models
    assert peak_memory() - before < MOST_BYTES


@pytest.mark.parametrize("ending", SEEDS)
def test_the_files_that_are_spoiled_were_fine(ending, tmp_path):
    read = reader(ending, tmp_path)
    for seed in SEEDS[ending]:
        (tmp_path / f"fine{ending}").write_bytes(seed)
        read(tmp_path / f"fine{ending}")

"""The real models through our own files: read as the slow reader reads them, and written without losing a bit."""

import time
import tracemalloc

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.cli.main import main
from anytimebp.formats.files import write_model_file
from anytimebp.formats.uai_results import read_pr
from oracle import uai
from oracle.same_graph import assert_same_numbers

pytestmark = pytest.mark.compiled  # files, not kernels: one pass is enough

MODELS = (
    *("279_ASP", "CSP_12", "ObjectDetection_11", "ObjectDetection_24", "Promedus_11", "Segmentation_11", "alarm"),
    *("mildew", "pathfinder", "pdb1fna", "pdb1i24", "pdb1k51", "pdb1mof", "pdb1rh4"),
)


def test_all_models_are_listed(models_folder):
    assert {path.stem for path in models_folder.glob("*.uai")} == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_models_are_read_as_the_slow_reader_reads_them(models_folder, name):
    path = models_folder / f"{name}.uai"
    assert_same_numbers(abp.read_model(path), uai.read_model(path))


@pytest.mark.parametrize("name", MODELS)
def test_conversion_there_and_back_keeps_every_number(models_folder, tmp_path, name):
    first = abp.read_model(models_folder / f"{name}.uai")
    current = first
    for step, ending in enumerate((".fg", ".npz", ".uai")):
        path = tmp_path / f"{step}{ending}"
        assert write_model_file(current, path) == []
        current = abp.read_model(path)
    assert_same_numbers(first, current)
    kinds = [p.read_text().split(None, 1)[0] for p in (models_folder / f"{name}.uai", tmp_path / "2.uai")]
    assert kinds[0] == kinds[1]


def test_evidence_marginals_and_partition_functions_are_read(models_folder):
    for path in sorted(models_folder.glob("*.evid")):
        model = models_folder / path.name.replace(".ev1", "").removesuffix(".evid")
        graph = abp.read_model(model)
        known = {graph.variables[name].index: label for name, label in abp.read_evidence(path, graph).items()}
        assert known == uai.read_evidence(path)
    for path in sorted(models_folder.glob("*.MAR")):
        ours, theirs = abp.read_marginals(path), uai.read_marginals(path)
        assert all((a == b).all() for a, b in zip(ours, theirs, strict=True))
    for path in sorted(models_folder.glob("*.PR")):
        assert np.isfinite(read_pr(path))


@pytest.mark.compiled
@pytest.mark.parametrize("case", ["alarm.uai.ev1", "pathfinder.uai.ev1", "pdb1rh4.uai", "ObjectDetection_24.uai"])
def test_the_command_line_agrees_with_the_reference(models_folder, tmp_path, capsys, case):
    model = models_folder / case.replace(".ev1", "")
    arguments = ["infer", model, "--evidence", models_folder / f"{case}.evid", "--method", "bp"]
    assert main([*map(str, arguments), "--output", str(tmp_path / "r.MAR"), "--output", str(tmp_path / "r.PR")]) == 0
    ours = abp.read_marginals(tmp_path / "r.MAR")
    reference = uai.read_marginals(models_folder / f"{case}.LBP")
    assert max(float(np.abs(a - b).max()) for a, b in zip(ours, reference, strict=True)) < 1e-6
    graph = abp.read_model(model)
    result = abp.infer(graph, "bp", evidence=abp.read_evidence(models_folder / f"{case}.evid", graph))
    assert [m.tolist() for m in ours] == [result.marginals[i].tolist() for i in range(len(ours))]
    assert read_pr(tmp_path / "r.PR") == pytest.approx(result.log_z / np.log(10), abs=1e-12)


def test_reading_a_large_file_takes_little_more_memory_than_its_tables(models_folder):
    path = models_folder / "pdb1i24.uai"
    start = time.perf_counter()
    graph = abp.read_model(path)
    seconds = time.perf_counter() - start
    tracemalloc.start()
    abp.read_model(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * graph.summary().table_bytes
    assert seconds < 30.0  # a hang, not a speed: that is for benchmarks

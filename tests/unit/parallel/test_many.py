import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import time
import weakref
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import FrozenInstanceError, fields
from itertools import islice
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.parallel import many
from anytimebp.parallel.solver import Chunk
from oracle.models import grid, random_loopy, random_tree
from unit.tables.test_carry_over import draw_evidence


def gap(result, other):
    return float(np.abs(result.marginals.concatenated() - other.marginals.concatenated()).max(initial=0.0))


def plain(seed, states=3):
    """Return a small graph that has tables only."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(4, states)
    graph.add_factors([[i] for i in range(4)], log_table=rng.normal(size=(4, states)))
    graph.add_factors([[0, 1], [1, 2], [2, 0]], log_table=rng.normal(size=(3, states, states)))
    graph.add_factor([2, 3], table=rng.random((states, states)))
    return graph


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.2]))
def test_many_graphs_equal_one_call_each(seed, zeros):
    rng = np.random.default_rng(seed)
    graphs = [random_loopy(seed + k, zeros=zeros) for k in range(3)]
    graphs += [random_tree(seed, n_factors=2), plain(seed), plain(seed + 1, 5), abp.FactorGraph(), plain(seed + 2)]
    evidence = [draw_evidence(graph, rng) if len(graph.variables) else {} for graph in graphs]
    found = list(abp.infer_many(graphs, evidence=evidence, errors="return", method="exact"))
    assert len(found) == len(graphs)
    for graph, seen, result in zip(graphs, evidence, found, strict=True):
        try:
            cold = abp.infer(graph, "exact", evidence=seen)
        except abp.InconsistentModelError:
            assert isinstance(result, abp.InconsistentModelError)
            continue
        assert gap(result, cold) < 1e-9
        assert result.log_z == pytest.approx(cold.log_z, abs=1e-8)
        assert result.domain_sizes.tolist() == cold.domain_sizes.tolist()
        assert result.exact
        assert result.stop_reason is abp.StopReason.CONVERGED
        assert gap(pickle.loads(pickle.dumps(result)), cold) < 1e-9


def test_small_graphs_are_solved_together():
    found = list(abp.infer_many(plain(seed) for seed in range(5)))
    assert all("4 other graphs" in result.choice for result in found)


def test_graphs_that_are_solved_together_have_figures_of_their_own():
    graphs = [plain(seed, states) for seed, states in enumerate((2, 3, 5, 7))]
    graphs.append(too_wide_for_linear_arithmetic())
    found, other = list(abp.infer_many(graphs)), list(abp.infer_many([plain(9, 4), *graphs[::-1]]))[:0:-1]
    for graph, result, twin in zip(graphs, found, other, strict=True):
        alone = abp.infer(graph, "exact")
        assert (result.updates, result.work_parts, result.cost) == (twin.updates, twin.work_parts, twin.cost)
        assert result.updates == alone.updates == 2 * len(graph.variables)
        assert result.work == pytest.approx(alone.work, rel=0.3)  # messages that are alike are multiplied first
        assert result.exact_entries == alone.exact_entries
        assert result.trace[-1].work == result.work
        assert result.arithmetic == alone.arithmetic
    assert [result.arithmetic for result in found] == ["linear"] * 4 + ["log"]


def test_a_result_is_made_when_it_is_read_and_keeps_no_graph_alive():
    graphs = [plain(seed) for seed in range(4)]
    refs, found = [weakref.ref(graph) for graph in graphs], list(abp.infer_many(graphs))
    whole = [abp.infer(graph, "exact") for graph in graphs]
    del graphs
    gc.collect()
    assert not any(ref() for ref in refs)
    for result, other in zip(found, whole, strict=True):
        assert "log_z" not in vars(result)
        assert result.log_z == pytest.approx(other.log_z)
        assert set(vars(result)) == {field.name for field in fields(abp.Result)}
        with pytest.raises(AttributeError, match="'nothing'"):
            _ = result.nothing
    for read in (
        lambda r: r.exact,
        lambda r: r.choice,
        lambda r: r.exact_entries,
        repr,
        copy.copy,
        lambda r: r.top("x0"),
    ):
        result = next(abp.infer_many([plain(0), plain(1)]))
        read(result)
        assert result.stop_reason is result.stop_reason.CONVERGED
    with pytest.raises(FrozenInstanceError):
        result.log_z = 0.0


def too_wide_for_linear_arithmetic():
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], log_table=[[0.0, -900.0], [-1000.0, 0.5]])
    return graph


@pytest.mark.parametrize("targets", ["x2", ["x3", "x1"], iter(["x3", "x1"])])
def test_targets_are_those_of_each_graph(targets):
    names = ["x2"] if targets == "x2" else ["x1", "x3"]
    graphs = [*(plain(seed) for seed in range(3)), grid(4, 30, 1.0, 0.5, 0)]
    for graph, result in zip(graphs, abp.infer_many(graphs, targets=targets), strict=True):
        assert list(result.marginals) == names
        whole = abp.infer(graph)
        for name in names:
            np.testing.assert_allclose(pickle.loads(pickle.dumps(result)).marginals[name], whole.marginals[name])
        with pytest.raises(abp.UnknownVariableError, match="not one of the `targets`"):
            result.marginals["x0"]


def test_targets_of_one_graph_and_such_as_are_not_there():
    found = list(abp.infer_many(plain(0), evidence=({"x0": k} for k in range(3)), targets=iter(["x1"])))
    for k, result in enumerate(found):
        assert list(result.marginals) == ["x1"]
        np.testing.assert_allclose(result.marginals["x1"], abp.infer(plain(0), evidence={"x0": k}).marginals["x1"])
    wrong = list(abp.infer_many([plain(0), plain(1)], targets=["nobody"], errors="return"))
    assert all(isinstance(error, abp.UnknownVariableError) for error in wrong)


def test_one_graph_under_many_kinds_of_evidence_keeps_its_cliques():
    graph = plain(0)
    found = list(abp.infer_many(graph, evidence=({"x0": k % 3} for k in range(6))))
    assert all("kept junction tree" in result.choice for result in found)
    for k, result in enumerate(found):
        assert gap(result, abp.infer(graph, evidence={"x0": k % 3})) < 1e-12


def test_graphs_are_read_as_they_are_needed():
    read = []

    def graphs():
        for seed in range(10 * many.CHUNK):
            read.append(seed)
            yield plain(0)

    results = abp.infer_many(graphs())
    assert not read
    next(results)
    assert len(read) == many.CHUNK


@pytest.mark.parametrize("way", ["threads", "executor"])
def test_threads_and_executors_give_the_same_results_in_order(way):
    graphs = [impossible() if seed == 300 else plain(seed) for seed in range(600)]
    whole = list(abp.infer_many(graphs, errors="return"))
    if way == "threads":
        found = list(abp.infer_many(graphs, threads=2, errors="return"))
    else:
        with ThreadPoolExecutor(2) as pool:
            found = list(abp.infer_many(graphs, executor=pool, errors="return"))
    assert_same(found, whole)


def assert_same(found, whole):
    assert len(found) == len(whole)
    for k, (result, other) in enumerate(zip(found, whole, strict=True)):
        if k == 300:
            assert isinstance(result, abp.InconsistentModelError)
            assert "graph 300 " in result.__notes__[0]
        else:
            assert result.log_z == other.log_z
            assert gap(result, other) == 0.0


@pytest.mark.compiled
def test_processes_give_the_same_results_in_order_and_their_errors():
    graphs = [impossible() if seed == 300 else plain(seed) for seed in range(400)]
    whole = list(abp.infer_many(graphs, errors="return"))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert_same(list(abp.infer_many(graphs, executor=pool, errors="return")), whole)
        results = abp.infer_many(graphs, executor=pool)
        assert sum(1 for _ in islice(results, 300)) == 300
        with pytest.raises(abp.InconsistentModelError) as caught:
            next(results)
    assert "graph 300 " in caught.value.__notes__[0]


def test_what_is_not_asked_for_any_more_is_not_solved():
    results = abp.infer_many((grid(2, 3, 1.0, 0.5, seed) for seed in range(100_000)), threads=2, method="bp")
    next(results)
    results.close()  # which waits for threads that are at work
    began = time.process_time()
    time.sleep(0.05)
    assert time.process_time() - began < 0.04


def impossible():
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0], log_table=[0.0, -np.inf])
    graph.add_factor([1], log_table=[-np.inf, 0.0])
    graph.add_factor([0, 1], table=[[1.0, 0.0], [0.0, 1.0]])
    return graph


def ring(**how):
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], **how)
    return graph


@pytest.mark.parametrize("method", ["auto", "exact", "bp"])
@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e300])
def test_potentials_of_extreme_scale_are_solved_together(method, scale):
    graphs = [ring(table=np.array([[1.0, 2.0], [3.0, 1.0]]) * each) for each in (scale, 1.0)]
    for found, graph in zip(abp.infer_many(graphs, method=method), graphs, strict=True):
        whole = abp.infer(graph, method)
        assert gap(found, whole) < 1e-9
        assert found.log_z == pytest.approx(whole.log_z, rel=1e-12)


@pytest.mark.parametrize("method", ["auto", "exact", "bp"])
def test_evidence_that_a_factor_excludes_is_an_error_of_its_graph_alone(method):
    graphs = [ring(log_table=[[-np.inf, 0.0], [0.0, 0.5]]) for _ in range(2)]
    evidence = [{"x0": 0, "x1": 0}, None]
    failed, found = abp.infer_many(graphs, evidence=evidence, method=method, errors="return")
    assert isinstance(failed, abp.InconsistentModelError)
    assert "factor 0 (x0, x1)" in str(failed)
    assert gap(found, abp.infer(graphs[1], method)) < 1e-9


def test_a_graph_that_fails_is_an_error_with_its_number_or_an_item():
    graphs = [plain(0), plain(1), impossible(), plain(2)]
    results = abp.infer_many(graphs)
    next(results)
    next(results)
    with pytest.raises(abp.InconsistentModelError) as caught:
        next(results)
    assert "graph 2 " in caught.value.__notes__[0]
    found = list(abp.infer_many(graphs, errors="return"))
    assert isinstance(found[2], abp.InconsistentModelError)
    assert gap(found[3], abp.infer(plain(2))) < 1e-12
    wrong = list(abp.infer_many([plain(0), plain(1)], evidence=[{"nobody": 1}, None], errors="return"))
    assert isinstance(wrong[0], abp.EvidenceError)
    assert gap(wrong[1], abp.infer(plain(1))) < 1e-12
    assert isinstance(next(abp.infer_many(["no graph"], errors="return")), abp.OptionError)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: abp.infer_many([], errors="ignore"), "errors must be"),
        (lambda: abp.infer_many([], threads=0), "threads must be"),
        (lambda: abp.infer_many(plain(0)), "needs `evidence`"),
        (lambda: abp.infer_many([], method="nothing"), "method must be"),
        (lambda: list(abp.infer_many([plain(0)], evidence=[])), "less evidence"),
        (lambda: list(abp.infer_many([plain(0)], evidence=[{}, {}])), "more evidence"),
    ],
)
def test_what_cannot_be_is_refused(call, text):
    with pytest.raises(abp.OptionError, match=text):
        call()


def test_other_methods_budgets_and_large_graphs_are_solved_one_by_one():
    for found in abp.infer_many([plain(0), plain(1)], method="bp"):
        assert found.method == "bp"
    stopped = list(abp.infer_many([grid(3, 3, 1.0, 0.5, 0)] * 2, method="bp", max_updates=1))
    assert all(result.stop_reason is abp.StopReason.OUT_OF_UPDATES for result in stopped)
    assert len(list(abp.infer_many([grid(4, 30, 1.0, 0.5, 0), plain(0)]))) == 2


def test_an_interrupt_comes_through():
    def graphs():
        yield plain(0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(abp.infer_many(graphs()))


def test_chunks_are_pickled_with_tables_that_graphs_share_once():
    table = np.random.default_rng(0).normal(size=(80, 80))
    graphs = []
    for seed in range(20):
        graph = abp.FactorGraph()
        graph.add_variables(3, 80)
        graph.add_factor([0], log_table=np.random.default_rng(seed).normal(size=80))
        graph.add_factors([[0, 1], [1, 2]], log_table=table)
        graphs.append(graph)
    chunk = Chunk(0, graphs, [None] * 20)
    packed = pickle.dumps(chunk)
    assert len(packed) < 2 * table.nbytes
    copy = pickle.loads(packed)
    assert isinstance(copy, Chunk)
    assert copy.evidence == chunk.evidence
    for graph, other in zip(copy.graphs, graphs, strict=True):
        np.testing.assert_array_equal(graph.factor_log_table(2), other.factor_log_table(2))
        assert abp.infer(graph).log_z == abp.infer(other).log_z
    graphs[0].add_factor([0, 1], rule=lambda a, b: 0.0 * (a + b))
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(chunk)


SLOW = """
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import anytimebp as abp
from oracle.models import grid

def graphs():
    for seed in range(100_000):
        yield grid(5, 8, 3.0, 1.5, seed % 7)

def tell(results):
    for k, result in enumerate(results):
        if k == 0:
            print("READY", flush=True)

if __name__ == "__main__":
    way = sys.argv[1]
    if way == "threads":
        tell(abp.infer_many(graphs(), threads=2, method="bp"))
    else:
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            tell(abp.infer_many(graphs(), executor=pool, method="bp"))
"""


@pytest.mark.compiled
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another thing there")
@pytest.mark.parametrize("way", ["threads", "processes"])
def test_ctrl_c_stops_threads_and_processes_and_raises(way, tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        [sys.executable, str(script), way],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout.readline() == "READY\n"
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
            said = process.communicate(timeout=60)[1]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGINT, said
    assert "KeyboardInterrupt" in said


def test_progress_is_shown_on_standard_error(capsys):
    list(abp.infer_many([plain(0)], progress=True))
    assert "1 graphs in" in capsys.readouterr().err

"""Workers of Ray."""

import os
import signal
from itertools import islice

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.parallel import ray_workers

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.filterwarnings("ignore"),  # of Ray itself: files and sockets that it leaves open
]


def small(seed):
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(10, 5)
    graph.add_factors([[i] for i in range(10)], log_table=rng.normal(size=(10, 5)))
    pairs = [[i, (i + 1) % 10] for i in range(10)] + [[0, 5], [2, 7]]
    graph.add_factors(pairs, log_table=rng.normal(size=(len(pairs), 5, 5)))
    return graph


@pytest.fixture(name="pool", scope="module")
def _pool():
    with abp.parallel.ray_executor(2) as pool:
        yield pool


def assert_equal(found, serial):
    assert len(found) == len(serial)
    for result, other in zip(found, serial, strict=True):
        np.testing.assert_array_equal(result.marginals.concatenated(), other.marginals.concatenated())
        assert (result.log_z, result.updates, result.work) == (other.log_z, other.updates, other.work)


def test_results_of_workers_equal_serial_ones(pool):
    graphs = [small(seed) for seed in range(300)]
    assert_equal(list(abp.infer_many(graphs, executor=pool)), list(abp.infer_many(graphs)))
    graph, evidence = small(0), [{"x0": k % 5, "x3": k // 5 % 5} for k in range(300)]
    found = list(abp.infer_many(graph, evidence=evidence, executor=pool))
    for result, other in zip(found, abp.infer_many(graph, evidence=evidence), strict=True):
        np.testing.assert_allclose(result.marginals.concatenated(), other.marginals.concatenated(), atol=1e-12)


def test_killed_workers_lose_no_result_of_2000_graphs(pool):
    graphs = [small(seed) for seed in range(2000)]
    serial = list(abp.infer_many(graphs))
    workers = {pool.submit(os.getpid).result() for _ in range(10)}
    results = abp.infer_many(graphs, executor=pool)
    found = list(islice(results, 300))
    for worker in workers:
        os.kill(worker, signal.SIGKILL)  # the others of its chunks are at work, or wait
    found += results
    assert_equal(found, serial)
    assert workers.isdisjoint({pool.submit(os.getpid).result() for _ in range(10)})


def test_a_graph_that_fails_is_an_error_with_its_number_or_an_item(pool):
    graphs = [small(seed) for seed in range(5)]
    evidence = [None, None, {"x0": "nobody"}, None, None]
    found = list(abp.infer_many(graphs, evidence=evidence, executor=pool, errors="return"))
    assert isinstance(found[2], abp.AnytimeBPError)
    assert not any(isinstance(found[k], Exception) for k in (0, 1, 3, 4))
    with pytest.raises(abp.AnytimeBPError) as caught:
        list(abp.infer_many(graphs, evidence=evidence, executor=pool))
    assert "graph 2 " in caught.value.__notes__[0]


def test_a_table_is_stored_once_until_its_numbers_change(pool):
    table = np.random.default_rng(0).normal(size=(80, 80))
    graphs = []
    for _ in range(300):
        graph = abp.FactorGraph()
        graph.add_variables(3, 80)
        graph.add_factors([[0, 1], [1, 2]], log_table=table)
        graphs.append(graph)
    before = len(pool._arrays._held)
    list(abp.infer_many(graphs, executor=pool))
    assert len(pool._arrays._held) == before + 1
    packed, arrays = pool._arrays.pack(graphs)
    assert len(arrays) == 1
    assert len(packed) < len(graphs) * table.nbytes / 20
    table[0, 0] += 3.0
    found = next(abp.infer_many(graphs, executor=pool))
    np.testing.assert_allclose(found.marginals["x0"], abp.infer(graphs[0]).marginals["x0"])
    assert len(pool._arrays._held) == before + 2


def test_what_is_stored_is_bounded(pool, monkeypatch):
    monkeypatch.setattr(ray_workers, "MOST_BYTES", 3 * 2**16)
    pool._arrays.forget()
    for seed in range(6):
        pool._arrays.pack(np.full(2**13, float(seed)))
    assert len(pool._arrays._held) == 3


def test_cancelled_work_is_not_waited_for(pool):
    futures = [pool.submit(abp.infer, small(0)) for _ in range(20)]
    assert futures[-1].cancel()
    assert futures[0].result().log_z == pytest.approx(abp.infer(small(0)).log_z)


def test_a_cluster_that_runs_is_joined_and_left_running(pool):
    import ray  # noqa: PLC0415

    with abp.parallel.ray_executor() as other:
        assert other._max_workers == 2
        assert other.submit(sum, (1, 2)).result() == 3
    assert ray.is_initialized()
    with pytest.raises(RuntimeError, match="after shutdown"):
        other.submit(sum, (1, 2))


def test_numbers_of_workers_that_cannot_be_are_refused():
    with pytest.raises(abp.OptionError, match="workers must be"):
        abp.parallel.ray_executor(0)

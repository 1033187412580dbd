"""Parts of one graph on Ray."""

import os
import signal
from contextlib import suppress

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.inference import Inference
from anytimebp.parallel import on_ray, part_workers
from anytimebp.parallel.exchange import Limits
from anytimebp.parallel.ray_workers import join_or_start
from anytimebp.parallel.splitting import evidence_of, homes, split
from oracle.cut_graphs import agree

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.filterwarnings("ignore"),  # of Ray itself: files and sockets that it leaves open
]


def grid(side, states=6, seed=0):
    rng, graph, number = np.random.default_rng(seed), abp.FactorGraph(), np.arange(side * side).reshape(side, side)
    graph.add_variables(side * side, states)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    pairs = np.concatenate([across, down])
    graph.add_factors(number.reshape(-1, 1), log_table=rng.normal(0, 1, (side * side, states)))
    graph.add_factors(pairs, log_table=rng.normal(0, 0.7, (len(pairs), states, states)))
    return graph


@pytest.fixture(name="ray", scope="module")
def _ray():
    ray, is_owner = join_or_start(2)
    yield ray
    if is_owner:
        ray.shutdown()


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive", "auto"])
def test_actors_end_at_the_fixed_point_of_one_run(ray, method):
    graph = grid(12)
    evidence = {"x3": 2, "x70": {0, 1}, "x100": np.linspace(0, 2, 6)}
    found = abp.infer(graph, method, evidence=evidence, parts=5, workers="ray", threads=2, tolerance=1e-9)
    agree(abp.infer(graph, "bp", evidence=evidence, tolerance=1e-9), found)
    assert ray.is_initialized()  # a cluster that was there stays


def test_a_snapshot_of_the_whole_comes_with_every_round_and_can_stop_it(ray):
    assert ray.is_initialized()
    seen = []

    def callback(snapshot):
        seen.append(snapshot.marginals.concatenated())
        return len(seen) == 2

    result = abp.infer(grid(10), "bp", parts=4, workers="ray", threads=2, callback=callback)
    assert result.stop_reason is abp.StopReason.CALLBACK
    assert len(seen) == 2


def test_errors_of_the_library_come_as_they_are(ray):
    assert ray.is_initialized()
    graph = abp.FactorGraph()
    graph.add_variables(12, 2)
    graph.add_factors([[i, (i + 1) % 12] for i in range(12)], table=np.eye(2))
    graph.add_factor([0, 6], table=1 - np.eye(2))
    graph.add_factors([[0], [6]], table=[1.0, 0.0])
    with pytest.raises(abp.InconsistentModelError):
        abp.infer(graph, "bp", parts=3, workers="ray", threads=2)


class _Dying(part_workers.RayWorkers):
    """Actors that are killed after some answers."""

    def __init__(self, *given, kills):
        super().__init__(*given)
        self._kills, self.answers = kills, 0

    def next(self):
        found = super().next()
        if found is not None:
            self.answers += 1
            for worker in self._kills.get(self.answers, ()):
                self.kill(worker)
        return found

    def kill(self, worker):
        with suppress(self._ray.exceptions.RayActorError):  # dead already
            pid = self._ray.get(self._actors[worker].__ray_call__.remote(lambda _: os.getpid()))
            os.kill(pid, signal.SIGKILL)

    def read(self, part):
        if part == 3 and "reading" in self._kills:
            del self._kills["reading"]
            self.kill(self.worker_of(part))
        return super().read(part)


@pytest.mark.parametrize("kills", [{7: [0]}, {12: [1]}, {9: [0, 1]}, {5: [0], 11: [0, 1], 20: [1]}, {"reading": []}])
def test_a_run_of_8_parts_survives_actors_that_are_killed(ray, kills):
    graph = grid(16)
    options = Inference(graph, "bp", tolerance=1e-9, parts=8).options
    cut = split(graph, homes(graph, 8))
    parts = [(part, evidence_of({}, cut, number)) for number, part in enumerate(cut.parts)]
    workers = _Dying(on_ray.StoredParts(ray, parts), len(parts), options, 2, kills=kills)
    result = on_ray.Whole(graph, cut, workers, options).result(Limits())
    workers.close()
    assert workers.answers > max([n for n in kills if n != "reading"], default=0)
    assert "reading" not in kills
    agree(abp.infer(graph, "bp", tolerance=1e-9), result)


def test_a_worker_that_always_dies_is_named(ray, monkeypatch):
    monkeypatch.setattr(part_workers, "MOST_LOSSES", 2)
    graph = grid(6)
    options = Inference(graph, "bp", parts=2).options
    cut = split(graph, homes(graph, 2))
    parts = [(part, {}) for part in cut.parts]
    workers = _Dying(on_ray.StoredParts(ray, parts), len(parts), options, 2, kills={n: [0] for n in range(1, 200)})
    with pytest.raises(abp.AnytimeBPError, match="the worker of parts 0 has died 3 times"):
        on_ray.Whole(graph, cut, workers, options).result(Limits())
    workers.close()


def test_a_graph_made_in_parts_is_written_where_it_runs(ray, tmp_path):
    assert ray.is_initialized()
    graph = grid(9)
    abp.parallel.write_parts(graph, tmp_path / "parts", 4)
    in_parts = abp.parallel.PartitionedGraph.from_folder(tmp_path / "parts")
    result = in_parts.infer(workers="ray", threads=2, output=tmp_path / "answers", tolerance=1e-9)
    whole = abp.infer(graph, "bp", tolerance=1e-9)
    for part in range(4):
        for name, marginal in result.marginals(part).items():
            np.testing.assert_allclose(marginal, whole.marginals[name], atol=1e-7)

"""Graphs that are made in parts, and workers that are lost."""

import json

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.inference import Inference
from anytimebp.parallel.exchange import Exchange, Limits
from anytimebp.parallel.on_ray import Whole
from anytimebp.parallel.part_workers import LocalWorkers, Lost
from anytimebp.parallel.splitting import split
from oracle.cut_graphs import random_graph


@pytest.fixture(name="graph")
def _graph():
    return random_graph(6)


@pytest.fixture(name="folder")
def _folder(graph, tmp_path):
    assert abp.parallel.write_parts(graph, tmp_path / "parts", 3) == 3
    return tmp_path / "parts"


@pytest.mark.parametrize("has_output", [False, True])
def test_a_folder_of_parts_gives_the_marginals_of_the_graph(graph, folder, tmp_path, has_output):
    whole = abp.infer(graph, "bp", tolerance=1e-10)
    in_parts = abp.parallel.PartitionedGraph.from_folder(folder)
    result = in_parts.infer(tolerance=1e-10, threads=2, output=tmp_path / "answers" if has_output else None)
    assert (result.stop_reason, result.consistent) == (abp.StopReason.CONVERGED, True)
    assert result.log_z == pytest.approx(whole.log_z, abs=1e-7)
    seen = set()
    for part in range(in_parts.n_parts):
        found = result.marginals(part)
        assert len(found) == result.n_variables[part]
        for name, marginal in found.items():
            np.testing.assert_allclose(marginal, whole.marginals[name], atol=1e-7)
            seen.add(name)
    assert seen == set(whole.marginals)
    assert len(list((tmp_path / "answers").glob("*.npz"))) == (3 if has_output else 0)


@pytest.mark.parametrize("method", ["residual", "adaptive"])
def test_other_methods_end_at_the_same_fixed_point(graph, folder, method):
    whole = abp.infer(graph, "bp", tolerance=1e-10)
    result = abp.parallel.PartitionedGraph.from_folder(folder).infer(method, tolerance=1e-10)
    assert result.log_z == pytest.approx(whole.log_z, abs=1e-7)
    assert result.consistent


def test_a_function_makes_parts_that_share_variables_by_key():
    rng = np.random.default_rng(0)
    tables = rng.normal(size=(4, 3, 3))

    def make(number):
        graph = abp.FactorGraph()
        graph.add_variables(3, 3, [f"{number}-{k}" for k in range(3)])
        graph.add_factors([[0, 1], [1, 2]], log_table=tables[2 * number : 2 * number + 2])
        ends = {f"{number}-0": "left", f"{number}-2": "right"}
        return abp.parallel.Part(graph, ends)

    whole = abp.FactorGraph()
    whole.add_variables(4, 3, ["left", "up", "right", "down"])
    whole.add_factors([[0, 1], [1, 2], [0, 3], [3, 2]], log_table=tables)
    expected = abp.infer(whole, "bp", tolerance=1e-12)
    result = abp.parallel.PartitionedGraph(make, 2).infer(tolerance=1e-10)
    np.testing.assert_allclose(result.marginals(1)["1-1"], expected.marginals["down"], atol=1e-8)
    np.testing.assert_allclose(result.marginals(0)["0-2"], expected.marginals["right"], atol=1e-8)
    assert result.log_z == pytest.approx(expected.log_z, abs=1e-8)


def _chain(number, length=4):
    """Return part `number` of a chain of three; neighbours share a variable of three labels."""
    rng, graph = np.random.default_rng(number), abp.FactorGraph()
    for k in range(length + 1):
        graph.add_variable(f"v{k}", ["low", "mid", "high"] if k in (0, length) else 3)
        if k < length or number == 2:
            graph.add_factor([k], log_table=rng.normal(size=3))
    graph.add_factors([[k, k + 1] for k in range(length)], log_table=rng.normal(size=(length, 3, 3)))
    keys = {0: {"v4": "first"}, 1: {"v0": "first", "v4": ("second", 1)}, 2: {"v0": ("second", 1)}}
    return abp.parallel.Part(graph, keys[number])


def _whole_chain():
    """Return the same chain as one graph, whose variables go by number."""
    whole = abp.FactorGraph()
    for k in range(13):
        whole.add_variable(f"v{k}", ["low", "mid", "high"] if k % 4 == 0 else 3)
    for number in range(3):
        for block in _chain(number).graph.blocks:
            stated = {block.source.tag: block.source.tables.values}
            whole.add_factors(block.scopes + 4 * number, **stated)
    return whole


@pytest.mark.parametrize(
    ("evidence", "as_one"),
    [
        ({(1, "v2"): 1}, {"v6": 1}),
        ({(0, "v1"): {0, 2}, (2, "v3"): np.array([0.0, 1.0, -2.0])}, {"v1": {0, 2}, "v11": np.array([0.0, 1.0, -2.0])}),
        ({"first": "mid"}, {"v4": "mid"}),
        (
            {("second", 1): {"low", "high"}, "first": np.array([0.5, 3.0, -1.0])},
            {"v8": {"low", "high"}, "v4": np.array([0.5, 3.0, -1.0])},
        ),
        ({(1, "v0"): "high", (1, "v1"): 2}, {"v4": "high", "v5": 2}),
        ({("second", 1): np.array([-np.inf, 0.0, 1.5])}, {"v8": np.array([-np.inf, 0.0, 1.5])}),
    ],
)
def test_evidence_on_parts_is_that_on_the_graph(evidence, as_one):
    expected = abp.infer(_whole_chain(), "bp", evidence=as_one, tolerance=1e-12)
    result = abp.parallel.PartitionedGraph(_chain, 3).infer(evidence=evidence, tolerance=1e-10)
    assert result.log_z == pytest.approx(expected.log_z, abs=1e-8)
    for part in range(3):
        for k in range(5):
            found = result.marginals(part)[f"v{k}"]
            np.testing.assert_allclose(found, expected.marginals[f"v{4 * part + k}"], atol=1e-8)


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        ({"third": 1}, "no part shares a variable as 'third'"),
        ({(7, "v1"): 1}, "there is no part 7 among 3"),
        ({(1, "v9"): 1}, "part 1: evidence: there is no variable named 'v9'"),
        ({"first": "middle"}, "has no state 'middle'"),
        ({(1, "v2"): 3}, "'v2' has the states 0 to 2, not 3"),
        ({(1, "v2"): set()}, "the set of allowed states is empty"),
        ({(1, "v2"): np.zeros(2)}, r"log scores must have shape \(3,\)"),
        ({"first": "mid", (1, "v0"): "mid"}, "'v0' is given twice"),
        ({(0, "v4"): "mid", (1, "v0"): "low"}, "different things of the variable that they share as 'first'"),
        ([1], "evidence must be a mapping"),
    ],
)
def test_bad_evidence_on_parts_is_named(evidence, text):
    with pytest.raises(abp.EvidenceError, match=text):
        abp.parallel.PartitionedGraph(_chain, 3).infer(evidence=evidence)


def test_evidence_that_may_mean_two_variables_is_refused():
    def make(number):
        graph = abp.FactorGraph()
        graph.add_variables(2, 2, ["a", "b"])
        graph.add_factor([0, 1], table=np.eye(2) + 1)
        return abp.parallel.Part(graph, {"a": (0, "b")})

    with pytest.raises(abp.EvidenceError, match=r"\(0, 'b'\) is a variable of part 0, and one that parts share"):
        abp.parallel.PartitionedGraph(make, 2).infer(evidence={(0, "b"): 1})


def test_evidence_that_excludes_every_state_is_named():
    with pytest.raises(abp.InconsistentModelError, match="'v0'|'v4'"):
        abp.parallel.PartitionedGraph(_with_zero, 2).infer(evidence={"first": "low"})


def _with_zero(number):
    part = _chain(number)
    part.graph.add_factor(["v4" if number == 0 else "v0"], table=[0.0, 1.0, 1.0])
    return part._replace(shared={"v4" if number == 0 else "v0": "first"})


class _Forgetful(LocalWorkers):
    """Loses all parts of a worker now and then, as when a process dies."""

    def __init__(self, *given, loses):
        super().__init__(*given)
        self._loses, self.answers = loses, 0

    def next(self):
        found = super().next()
        if found is None:
            return None
        self.answers += 1
        if self.answers not in self._loses:
            return found
        worker = self.worker_of(found[0])
        lost = [part for part in range(self._n_parts) if self.worker_of(part) == worker]
        for part in lost:
            self._holder.add(part)
        return Lost(lost)


@pytest.mark.parametrize("loses", [{1}, {4, 5}, {9}, {2, 3, 6, 12, 13}])
def test_a_run_whose_workers_are_lost_ends_where_others_do(graph, loses):
    options = Inference(graph, "bp", tolerance=1e-10).options
    cut = split(graph, np.arange(len(graph.variables)) % 4)
    workers = _Forgetful([(part, {}) for part in cut.parts].__getitem__, 4, options, 2, loses=loses)
    whole = Whole(graph, cut, workers, options)
    result = whole.result(Limits())
    workers.close()
    assert workers.answers > max(loses)
    expected = abp.infer(graph, "bp", tolerance=1e-10)
    np.testing.assert_allclose(result.marginals.concatenated(), expected.marginals.concatenated(), atol=1e-7)
    assert result.log_z == pytest.approx(expected.log_z, abs=1e-7)
    assert result.stop_reason is abp.StopReason.CONVERGED


def test_a_run_that_a_budget_has_ended_goes_on(graph):
    options = Inference(graph, "bp", tolerance=1e-10).options
    cut = split(graph, np.arange(len(graph.variables)) % 3)
    workers = LocalWorkers([(part, {}) for part in cut.parts].__getitem__, 3, options, 2)
    exchange = Exchange(workers, 1e-10)
    assert exchange.run(Limits(max_updates=1)) is abp.StopReason.OUT_OF_UPDATES
    assert exchange.run(Limits()) is abp.StopReason.CONVERGED
    assert exchange.run(Limits()) is abp.StopReason.CONVERGED
    assert [moment.updates for moment in exchange.trace] == sorted(moment.updates for moment in exchange.trace)
    workers.close()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda folder: (folder / "parts.json").unlink(), "not the index of a graph in parts"),
        (lambda folder: (folder / "parts.json").write_text("[]"), "not the index of a graph in parts"),
        (
            lambda folder: (folder / "parts.json").write_text(json.dumps({"anytimebp_parts": 9, "parts": 1})),
            "version 9",
        ),
        (lambda folder: (folder / "shared-00001.npz").write_bytes(b"x"), "not the shared variables of a part"),
        (lambda folder: (folder / "part-00001.npz").write_bytes(b"x"), "not an .npz archive"),
    ],
)
def test_damaged_folders_are_named(folder, change, text):
    change(folder)
    with pytest.raises(abp.FormatError, match=text):
        abp.parallel.PartitionedGraph.from_folder(folder).infer()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"workers": "mules"}, "workers must be one of 'threads', 'ray'"),
        ({"method": "exact"}, "method must be one of"),
        ({"seconds": -1}, "seconds must be"),
    ],
)
def test_bad_options_are_named(folder, options, text):
    with pytest.raises(abp.OptionError, match=text):
        abp.parallel.PartitionedGraph.from_folder(folder).infer(**options)


def test_bad_parts_are_named():
    with pytest.raises(abp.OptionError, match="make must be a function"):
        abp.parallel.PartitionedGraph(3, 2)
    with pytest.raises(abp.OptionError, match="n_parts must be"):
        abp.parallel.PartitionedGraph(print, 0)
    with pytest.raises(abp.OptionError, match=r"make\(0\) must return a Part, got NoneType"):
        abp.parallel.PartitionedGraph(lambda number: None, 1).infer()
    graph = abp.FactorGraph()
    graph.add_variable("a", 2)
    graph.add_factor(["a"], table=[1.0, 3.0])
    result = abp.parallel.PartitionedGraph(lambda number: abp.parallel.Part(graph, {}), 1).infer()
    np.testing.assert_allclose(result.marginals(0)["a"], [0.25, 0.75])
    with pytest.raises(abp.OptionError, match="there is no part 5 among 1"):
        result.marginals(5)


@pytest.mark.parametrize(
    ("shared", "text"),
    [
        ({"x0": "s", "x1": "s"}, "`shared` of part 0 gives two variables the name 's'"),
        ({"x0": "s", 0: "t"}, "`shared` of part 0 gives two names to variable 'x0'"),
    ],
)
def test_a_variable_has_one_name_for_all_parts(shared, text):
    def make(number):
        graph = abp.FactorGraph()
        graph.add_variables(2, 2)
        graph.add_factor([0, 1], log_table=np.eye(2))
        return abp.parallel.Part(graph, shared)

    with pytest.raises(abp.ModelError, match=text):
        abp.parallel.PartitionedGraph(make, 2).infer()


def test_parts_agree_on_the_labels_of_a_shared_variable():
    def make(number):
        graph = abp.FactorGraph()
        graph.add_variable("a", [["p", "q"], ["q", "p"], 2][number])
        graph.add_factor(["a"], table=[1.0, 3.0])
        return abp.parallel.Part(graph, {"a": "s"})

    with pytest.raises(abp.ModelError, match="parts share variable 's', but part 1 has other labels"):
        abp.parallel.PartitionedGraph(make, 2).infer()
    counted = abp.parallel.PartitionedGraph(lambda number: make(2 * number), 2).infer()
    np.testing.assert_allclose(counted.marginals(1)["a"], [0.1, 0.9])


def test_ray_is_for_infer_and_for_parts(graph):
    with pytest.raises(abp.OptionError, match="say how many `parts`"):
        abp.infer(graph, "bp", workers="ray")
    with pytest.raises(abp.OptionError, match="is for `infer`"):
        abp.Inference(graph, "bp", workers="ray", parts=2).run()
    with pytest.raises(abp.OptionError, match="factor_marginals=True does not go with"):
        abp.infer(graph, "bp", workers="ray", parts=2, factor_marginals=True)
    with pytest.raises(abp.OptionError, match="does not run in parts"):
        abp.infer(graph, "dynamic", workers="ray", parts=2)

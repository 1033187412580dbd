"""Tables that a user changes in place after they were added: noticed, checked and used, or never looked at."""

import copy
import pickle

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.model import changes


def chain(unary, pairwise, way="log_table"):
    graph = abp.FactorGraph()
    graph.add_variables(2, unary.shape[0])
    graph.add_factor([0], **{way: unary})
    graph.add_factor([0, 1], **{way: pairwise})
    return graph


def tables(n=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random(n) + 0.1, rng.random((n, n)) + 0.1


def bits(result):
    return [m.tobytes() for m in result.marginals.values()] + [result.log_z]


@pytest.mark.parametrize("method", ["bp", "dynamic", "adaptive"])
@pytest.mark.parametrize("way", ["log_table", "table"])
def test_a_run_uses_the_numbers_that_a_table_holds_when_it_starts(method, way):
    unary, pairwise = tables()
    graph = chain(unary, pairwise, way)
    before = bits(abp.infer(graph, method))
    unary *= [1.0, 2.0, 3.0]
    pairwise[0, 1] *= 30.0
    after = bits(abp.infer(graph, method))
    assert after != before
    assert after == bits(abp.infer(chain(unary.copy(), pairwise.copy(), way), method))


def test_a_table_that_turned_bad_is_named_as_when_it_is_added():
    unary, pairwise = tables()
    graph = chain(unary, pairwise)
    abp.infer(graph, "bp")
    pairwise[1, 2] = np.nan
    for _ in range(2):
        with pytest.raises(abp.ModelError, match=r"the table of factor 1 \(x0, x1\) holds nan at \(1, 2\)"):
            abp.infer(graph, "bp")
    pairwise[1, 2] = 0.0
    unary[0] = np.inf
    with pytest.raises(abp.ModelError, match=r"factor 0 \(x0\) holds inf at \(0,\)"):
        abp.infer(graph, "bp")
    unary[:] = -np.inf
    with pytest.raises(abp.InconsistentModelError, match=r"factor 0 \(x0\) is zero everywhere"):
        abp.infer(graph, "bp")
    unary[:] = [0.0, -np.inf, 1.0]
    assert abp.infer(graph, "bp").marginals["x0"][1] == 0.0


def test_a_bad_member_of_a_stack_and_a_bad_shared_table_are_named():
    stacked, shared = np.zeros((2, 3)), np.zeros((3, 3))
    graph = abp.FactorGraph()
    graph.add_variables(3, 3)
    graph.add_factors([[0], [2]], log_table=stacked)
    graph.add_factors([[0, 1], [1, 2]], log_table=shared)
    stacked[1, 0] = np.nan
    with pytest.raises(abp.ModelError, match=r"factor 1 \(x2\) holds nan at \(0,\)"):
        abp.infer(graph, "bp")
    stacked[1, 0], shared[2, 2] = 0.0, np.nan
    with pytest.raises(abp.ModelError, match=r"factors 2 to 3 holds nan at \(2, 2\)"):
        abp.infer(graph, "bp")


def test_a_change_before_the_first_run_is_noticed():
    unary, pairwise = tables()
    graph = chain(unary, pairwise)
    unary[0] = np.nan
    with pytest.raises(abp.ModelError, match="holds nan"):
        abp.infer(graph, "bp")


def negate(values):
    values *= -1.0


def swap(values):
    values[[0, 1]] = values[[1, 0]]


def touch(values):
    values[-1] += 1e-15


@pytest.mark.parametrize("change", [negate, swap, touch, np.ndarray.sort])
@pytest.mark.parametrize("n", [5, 512, 513, 2042, 2**15, 2**15 + 1, 34 * 1021, 50_000])
def test_any_change_shows_whatever_the_size_of_the_table(change, n):
    values = np.random.default_rng(0).normal(size=n)
    watch = changes.TableWatch()
    watch.add(7, values)
    watch.add(8, np.zeros(3))
    assert watch.changed() == []
    change(values)
    assert watch.changed() == [7]
    assert watch.renewed().changed() == []


def test_changes_show_in_every_group_of_tables():
    tables = [np.full(n, 0.5) for n in [150] * 20 + [5000, 3] * 5 + [40_000]]  # three to a group, or one
    watch = changes.TableWatch()
    for block, values in enumerate(tables):
        watch.add(block, values)
    assert watch.changed() == []
    twin = watch.copy()
    twin.add(99, tables[0])
    for block, values in enumerate(tables):
        values[-1] += 1.0
        assert watch.changed() == [block] == twin.changed()[:1]
        assert (99 in twin.changed()) == (block == 0)
        values[-1] -= 1.0
    assert watch.changed() == twin.changed() == []


def test_beyond_the_limit_nothing_is_watched(monkeypatch):
    monkeypatch.setattr(changes, "MOST_WATCHED", 10)
    unary, pairwise = tables()
    graph = chain(unary, pairwise)
    graph.add_factor([1], log_table=np.zeros(3))
    unary[0] = 5.0
    assert graph._watch.changed() == []


def test_what_nobody_else_can_change_is_not_watched():
    fixed = np.zeros((2, 2))
    fixed.flags.writeable = False
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0, 1], log_table=[[0.0, 1.0], [2.0, 3.0]])
    graph.add_factor([0, 1], log_table=np.zeros((2, 2), dtype=np.float32))
    graph.add_factor([0, 1], log_table=np.zeros((2, 2)).T[:, ::-1])
    graph.add_factor([0, 1], log_table=fixed)
    assert graph._watch._n_entries == 0
    graph.add_factor([0, 1], log_table=memoryview(np.zeros((2, 2))))
    assert graph._watch._n_entries == 4


def test_copies_of_a_graph_notice_changes_too():
    unary, pairwise = tables()
    graph = chain(unary, pairwise)
    before = bits(abp.infer(graph, "bp"))
    twin = copy.copy(graph)
    unary[0] += 1.0
    assert bits(abp.infer(twin, "bp")) == bits(abp.infer(graph, "bp")) != before
    unary[0] += 1.0
    pickled = pickle.loads(pickle.dumps(graph))
    assert bits(abp.infer(pickled, "bp")) == bits(abp.infer(graph, "bp"))
    unary[0] = np.nan
    abp.infer(pickled, "bp")
    with pytest.raises(abp.ModelError, match="holds nan"):
        pickle.dumps(graph)


def test_a_started_run_is_not_disturbed_by_the_next_one():
    unary, pairwise = tables()
    graph = chain(unary, pairwise)
    inference = abp.Inference(graph, "bp")
    first = next(inference)
    before = bits(first)
    unary[0] += 1.0
    abp.infer(graph, "bp")
    assert bits(first) == before


def test_entries_are_copied():
    indices, scores = np.array([[0, 1], [1, 0]]), np.array([1.0, 2.0])
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0, 1], entries=(indices, scores))
    graph.add_factor([0, 1], structure=abp.Difference(scores, first=0, default=0.0))
    before = bits(abp.infer(graph, "bp"))
    indices[:], scores[:] = 0, 9.0
    assert bits(abp.infer(graph, "bp")) == before
    assert graph.factor_log_table(0).tolist() == [[-np.inf, 1.0], [2.0, -np.inf]]


def test_a_table_that_turned_bad_is_not_written(tmp_path):
    table = np.ones((2, 2))
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0, 1], table=table)
    table[0, 0] = np.nan
    with pytest.raises(abp.ModelError, match="factor 0"):
        abp.write_model(graph, tmp_path / "bad.uai")
    assert not (tmp_path / "bad.uai").exists()


def test_a_graph_knows_whether_a_user_may_hold_its_arrays(tmp_path):
    unary, pairwise = tables()
    graph = chain(unary, pairwise, "table")
    assert graph.lends_tables
    assert copy.copy(graph).lends_tables
    assert not pickle.loads(pickle.dumps(graph)).lends_tables
    assert not chain(unary.astype(np.float32), pairwise.astype(np.float32), "table").lends_tables
    abp.write_model(graph, tmp_path / "model.uai")
    read = abp.read_model(tmp_path / "model.uai")
    assert not read.lends_tables
    read.add_factor([1], table=unary)
    assert read.lends_tables


@pytest.mark.parametrize("is_read", [False, True])
def test_a_snapshot_stays_what_it_was_whoever_holds_the_tables(tmp_path, is_read):
    rng = np.random.default_rng(0)
    given = rng.random((3, 30, 30, 30)) + 0.1
    graph = abp.FactorGraph()
    graph.add_variables(6, 30)
    graph.add_factors([[0, 1, 3], [1, 2, 4], [2, 0, 5]], table=given)
    if is_read:
        abp.write_model(graph, tmp_path / "model.npz")
        graph = abp.read_model(tmp_path / "model.npz")
    inference = abp.Inference(graph, "bp")
    first, now = next(inference), abp.Inference(graph, "bp")
    assert inference._run.method.leaves is not None
    before = next(now).marginals.concatenated()
    for _ in inference:
        pass
    given[:] = 1.0  # nobody else's, if it was written and read
    assert np.array_equal(first.marginals.concatenated(), before)

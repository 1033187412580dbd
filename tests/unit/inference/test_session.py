import asyncio
import pickle
import threading
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.exact import kept_tree
from oracle.examples import examples
from oracle.models import grid, random_loopy, random_tree
from unit.tables.test_carry_over import draw_evidence

LOOSE, TIGHT = 1e-7, 1e-9


@pytest.fixture(autouse=True)
def _messages_are_kept_of_small_graphs(monkeypatch):
    monkeypatch.setattr("anytimebp.inference.session_run.WORTH_A_START", 0.0)
    monkeypatch.setattr("anytimebp.inference.session_run.SOME_DISTURBED", 0)
    for cost in ("ONE_BY_ONE", "BY_SWEEPS"):  # so low that messages are always started from
        monkeypatch.setattr(f"anytimebp.inference.session_run.{cost}", 0.0)


def gap(result, other):
    return float(np.abs(result.marginals.concatenated() - other.marginals.concatenated()).max(initial=0.0))


def settled(graph, **options):
    """Return a result from nothing; None where BP does not settle or nothing is possible."""
    try:
        found = abp.infer(graph, **options)
    except abp.InconsistentModelError:
        return None
    return found if found.stop_reason is abp.StopReason.CONVERGED else None


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.2]), is_tree=st.booleans())
def test_a_chain_of_queries_on_kept_cliques_equals_exact_runs_from_nothing(seed, zeros, is_tree):
    make, rng = random_tree if is_tree else random_loopy, np.random.default_rng(seed)
    graph = make(seed, zeros=zeros)
    session = abp.Session(graph)
    for _ in range(6):
        evidence = draw_evidence(graph, rng)
        try:
            cold = abp.infer(graph, "exact", evidence=evidence)
        except abp.InconsistentModelError:
            with pytest.raises(abp.InconsistentModelError):
                session.query(evidence)
            continue
        warm = session.query(evidence)
        assert gap(warm, cold) < TIGHT
        assert warm.log_z == pytest.approx(cold.log_z, abs=1e-8)
        assert warm.domain_sizes.tolist() == cold.domain_sizes.tolist()
        assert warm.exact
        target = int(rng.integers(len(graph.variables)))
        np.testing.assert_allclose(session.query(evidence, [target]).marginals[target], cold.marginals[target])


@pytest.mark.parametrize("few", [0, 100, 10**6])  # updates one by one; both; sweeps
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6), method=st.sampled_from(["bp", "residual", "adaptive"]), zeros=st.sampled_from([0, 0.1])
)
def test_a_chain_of_queries_by_messages_ends_where_runs_from_nothing_end(few, seed, method, zeros, monkeypatch):
    monkeypatch.setattr("anytimebp.inference.session_run.FEW_DISTURBED", few)
    graph, rng = random_loopy(seed, scale=0.2, zeros=zeros), np.random.default_rng(seed)
    session = abp.Session(graph, method, tolerance=1e-10)
    for _ in range(5):
        evidence = draw_evidence(graph, rng)
        cold = settled(graph, method=method, evidence=evidence, tolerance=1e-10)
        if cold is None:
            continue
        warm = session.query(evidence)
        assert warm.stop_reason is abp.StopReason.CONVERGED
        assert gap(warm, cold) < LOOSE
        assert warm.log_z == pytest.approx(cold.log_z, abs=1e-6)
        assert warm.domain_sizes.tolist() == cold.domain_sizes.tolist()


def test_a_result_says_which_way_was_taken():
    session = abp.Session(random_loopy(3))
    assert session.query({"v0": 0}).choice.startswith("a kept junction tree")
    by_messages = abp.Session(grid(4, 5, 1.0, 0.5, 0), "bp")
    assert by_messages.query().choice == "from nothing: no messages are kept of a query before"
    warm = by_messages.query({"x3": 1})
    assert warm.choice.startswith("messages of the last query")


def test_messages_that_need_no_update_get_none(monkeypatch):
    monkeypatch.setattr("anytimebp.inference.session_run.FEW_DISTURBED", 0)
    session = abp.Session(grid(4, 5, 1.0, 0.5, 0), "bp")
    session.query({"x3": 1})
    session.query({"x3": 2})
    again = session.query({"x3": 2})
    assert again.updates == 0
    assert again.consistent


def test_evidence_that_leaves_little_is_answered_on_what_is_left():
    session = abp.Session(grid(4, 5, 1.0, 0.5, 0), "bp")
    session.query()
    found = session.query({f"x{i}": 0 for i in range(14)})
    assert found.choice.startswith("from nothing: evidence leaves")


def test_changes_that_have_not_paid_start_from_nothing_and_smaller_ones_do_not(monkeypatch):
    monkeypatch.setattr("anytimebp.inference.session_run.BY_SWEEPS", 100.0)
    session = abp.Session(grid(4, 5, 1.0, 0.5, 0), "bp")
    session.query()
    assert session.query({"x5": 0}).choice.startswith("messages of the last query")
    assert session.query({"x5": 1}).choice.startswith("from nothing: changes that disturb 4 factors have taken")
    assert session.query({"x5": 1, "x0": 1}).choice.startswith("messages of the last query")  # 2 factors
    session.set_log_table(0, np.zeros((5,)))
    assert session.query({"x5": 1, "x0": 1}).stop_reason is abp.StopReason.CONVERGED


def test_a_table_that_was_set_disturbs_one_query(monkeypatch):
    monkeypatch.setattr("anytimebp.inference.session_run.FEW_DISTURBED", 0)
    graph = grid(4, 5, 1.0, 0.5, 0)
    session = abp.Session(graph, "bp")
    session.query()
    pair = next(block.first for block in graph.blocks if block.scopes.shape[1] == 2)
    session.set_log_table(pair, np.zeros((5, 5)))
    assert session.query().updates > 0
    assert session.query().updates == 0


def test_changes_that_disturb_much_start_from_nothing(monkeypatch):
    monkeypatch.setattr("anytimebp.inference.session_run.SOME_DISTURBED", 8)
    session = abp.Session(grid(4, 5, 1.0, 0.5, 0), "bp")
    session.query()
    assert session.query({"x5": 0, "x10": 1}).choice == "from nothing: changes disturb 8 of 24 factors"


def test_zeros_that_no_longer_hold_are_forgotten():
    graph = abp.FactorGraph()
    graph.add_variables(4, 2)
    equal = np.where(np.eye(2) > 0, 0.0, -np.inf)
    graph.add_factors([[0, 1], [1, 2], [2, 3], [3, 0]], log_table=equal)
    graph.add_factor([0], log_table=[0.0, 0.5])
    session = abp.Session(graph, "bp")
    for state in (0, 1, 0):
        assert session.query({"x2": state}).marginals["x0"][state] == 1.0
    np.testing.assert_allclose(session.query().marginals["x2"], abp.infer(graph, "bp").marginals["x2"], atol=1e-7)


# ---------------------------------------------------------------- errors leave a session as it was
def test_a_session_goes_on_after_impossible_evidence():
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factor([0], log_table=[0.0, -np.inf])
    graph.add_factor([0, 1], log_table=[[0.0, -np.inf], [0.3, 0.2]])
    graph.add_factor([1, 2], log_table=[[0.0, 1.0], [0.3, 0.2]])
    session = abp.Session(graph)
    before = session.query({"x2": 1})
    for evidence in ({"x0": 1}, {"x1": 1}, {"x0": {1}}):
        with pytest.raises(abp.InconsistentModelError):
            session.query(evidence)
        assert gap(session.query({"x2": 1}), before) == 0.0


def test_an_interrupt_in_the_middle_of_a_query_leaves_no_evidence_behind(monkeypatch):
    graph = grid(3, 3, 1.0, 0.5, 0)
    session = abp.Session(graph)
    before, put = session.query(), kept_tree.answer

    def interrupt(*arguments):
        put(*arguments)  # the evidence is in the tree, and nobody has taken note of it
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kept_tree, "answer", interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.query({"x4": 1})
    assert gap(session.query(), before) < TIGHT


@pytest.mark.parametrize(
    ("evidence", "error"),
    [({"x9": 1}, abp.EvidenceError), ({"x0": 7}, abp.EvidenceError), ({"x0": 1, 0: 1}, abp.EvidenceError)],
)
def test_bad_evidence_is_refused_as_by_infer(evidence, error):
    session = abp.Session(grid(2, 3, 1.0, 0.5, 0))
    session.query({"x0": 1})
    with pytest.raises(error):
        session.query(evidence)


def test_labels_that_are_equal_but_of_another_type_are_not_mixed_up():
    session = abp.Session(grid(2, 3, 1.0, 0.5, 0))
    session.query({"x0": 1})
    with pytest.raises(abp.EvidenceError):
        session.query({"x0": True})


# ---------------------------------------------------------------- targets
@pytest.mark.parametrize("method", ["auto", "bp"])
def test_a_query_with_targets_has_their_marginals_alone(method):
    graph = grid(3, 4, 1.0, 0.5, 0)
    session, whole = abp.Session(graph, method), abp.infer(graph, method, evidence={"x1": 0})
    found = session.query({"x1": 0}, targets=["x4", "x2"])
    assert list(found.marginals) == ["x2", "x4"]  # in the order of the graph, as by infer
    np.testing.assert_allclose(found.marginals["x4"], whole.marginals["x4"], atol=1e-7)
    np.testing.assert_allclose(found.marginals[graph.variable("x2")], whole.marginals["x2"], atol=1e-7)
    assert "x5" not in found.marginals
    with pytest.raises(abp.UnknownVariableError, match="variable 'x5' is not one of the `targets`"):
        found.marginals["x5"]
    assert list(session.query({"x1": 0}, targets=7).marginals) == list(session.query(targets="x7").marginals) == ["x7"]
    with pytest.raises(abp.OptionError, match="at least one"):
        session.query(targets=[])
    with pytest.raises(abp.UnknownVariableError):
        session.query(targets=["nobody"])
    assert pickle.loads(pickle.dumps(found)).top("x4", 1) == found.top("x4", 1)


def test_targets_and_factor_marginals_exclude_each_other_as_by_infer():
    session = abp.Session(grid(2, 3, 1.0, 0.5, 0), factor_marginals=True)
    with pytest.raises(abp.OptionError, match="targets. cannot be combined"):
        session.query(targets=["x0"])
    assert session.query().factor_marginals


@pytest.mark.parametrize("method", ["auto", "exact", "bp", "adaptive"])
def test_a_query_with_targets_that_starts_from_nothing_knows_other_tables_and_unary_scores(method, monkeypatch):
    monkeypatch.setattr("anytimebp.inference.session_run.SessionRun._plan", lambda *_: (None, "not kept"))
    monkeypatch.setattr("anytimebp.inference.kept.Kept.may_calibrate", False)
    monkeypatch.setattr("anytimebp.inference.session_run.WORTH_A_START", np.inf)
    graph, rng = grid(3, 4, 1.0, 0.5, 0), np.random.default_rng(1)
    session, pair = abp.Session(graph, method, tolerance=1e-10), graph.n_factors - 1
    session.query({"x1": 0}, targets=["x4"])
    session.set_log_table(pair, rng.normal(size=graph.locate(pair)[0].source.shape))
    session.set_unary("x4", rng.normal(size=4))
    whole, part = session.query({"x1": 0}), session.query({"x1": 0}, targets=["x4", "x8"])
    assert "kept junction tree" not in part.choice
    assert "messages of the last query" not in part.choice
    for name in ("x4", "x8"):
        np.testing.assert_allclose(part.marginals[name], whole.marginals[name], atol=1e-7)
    with pytest.raises(abp.UnknownVariableError, match="not one of the `targets`"):
        part.marginals["x0"]


# ---------------------------------------------------------------- another model
@pytest.mark.parametrize("method", ["auto", "bp"])
def test_other_tables_and_unary_scores_equal_a_graph_that_has_them(method):
    rng = np.random.default_rng(5)
    tables, unary = rng.normal(size=(4, 3, 3)), rng.normal(size=(4, 3))
    tied = rng.normal(size=(3, 3))
    pairs, cross = [[0, 1], [1, 2], [2, 3], [3, 0]], [[0, 2], [1, 3]]

    def build():
        graph = abp.FactorGraph()
        graph.add_variables(4, 3)
        graph.add_factors(pairs, log_table=tables.copy())
        graph.add_factors(cross, log_table=tied.copy())
        graph.add_factors([[i] for i in range(4)], log_table=unary.copy())
        return graph

    graph = build()
    session = abp.Session(graph, method, tolerance=1e-10)
    first = session.query({"x0": 1})
    tables[1] += rng.normal(size=(3, 3))
    session.set_log_table(1, tables[1])
    tied = tied + rng.normal(size=(3, 3))
    session.set_log_table(5, tied)
    unary[2] = rng.normal(size=3)
    session.set_log_table(range(8, 9), unary[2])
    assert gap(session.query({"x0": 1}), abp.infer(build(), method, evidence={"x0": 1}, tolerance=1e-10)) < LOOSE
    unary[3] = [0.0, -np.inf, 1.0]
    session.set_unary("x3", unary[3])
    assert gap(session.query({"x0": 1}), abp.infer(build(), method, evidence={"x0": 1}, tolerance=1e-10)) < LOOSE
    assert gap(session.query(), abp.infer(build(), method, tolerance=1e-10)) < LOOSE
    assert gap(abp.infer(graph, method, evidence={"x0": 1}, tolerance=1e-10), first) < LOOSE  # the graph is as it was


def test_tables_changed_in_place_are_noticed():
    scores = np.random.default_rng(0).normal(size=(3, 3))
    graph = abp.FactorGraph()
    graph.add_variables(3, 3)
    graph.add_factors([[0, 1], [1, 2]], log_table=scores)
    session = abp.Session(graph)
    before = session.query()
    scores[0, 0] += 3.0
    after = session.query()
    assert gap(after, before) > 0.01
    assert gap(after, abp.infer(graph)) < TIGHT


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda s: s.set_log_table(0, np.zeros((2, 3))), abp.ModelError, "shape"),
        (lambda s: s.set_log_table(0, np.full((3, 3), np.nan)), abp.ModelError, "nan"),
        (lambda s: s.set_log_table(99, np.zeros((3, 3))), IndexError, "index of a factor"),
        (lambda s: s.set_log_table(-1, np.zeros((3, 3))), abp.UnknownFactorError, "0 to 1, got -1"),
        (lambda s: s.set_log_table([0], np.zeros((3, 3))), abp.UnknownFactorError, "got"),
        (lambda s: s.set_unary("x0", [0.0, 1.0]), abp.ModelError, "shape"),
        (lambda s: s.set_unary("x0", [0.0, np.inf, 1.0]), abp.ModelError, "x0"),
        (lambda s: s.set_unary("x0", [-np.inf] * 3), abp.InconsistentModelError, "x0"),
        (lambda s: s.set_unary("x0", ["0", "0", "q"]), abp.ModelError, "'x0' must be log scores"),
        (lambda s: s.set_unary("x0", [0.0, 1.0j, 1.0]), abp.ModelError, "'x0' must be log scores"),
        (lambda s: s.set_unary("x0", np.ma.array([0.0, 1.0, 2.0], mask=[0, 1, 0])), abp.ModelError, "'x0' must be log"),
        (lambda s: s.set_unary("x0", [True, False, True]), abp.ModelError, "'x0' are True and False"),
        (lambda s: s.set_unary("nobody", [0.0] * 3), abp.UnknownVariableError, "nobody"),
    ],
)
def test_bad_tables_and_scores_are_refused(call, error, text):
    graph = abp.FactorGraph()
    graph.add_variables(3, 3)
    graph.add_factors([[0, 1], [1, 2]], log_table=np.zeros((2, 3, 3)))
    session = abp.Session(graph)
    session.query()
    with pytest.raises(error, match=text):
        call(session)
    assert gap(session.query(), abp.infer(graph)) < TIGHT


def test_a_rule_has_no_table_to_replace():
    graph = abp.FactorGraph()
    graph.add_variables(2, 3)
    graph.add_factor([0, 1], rule=lambda a, b: -1.0 * (a - b) ** 2)
    with pytest.raises(abp.ModelError, match="has no table"):
        abp.Session(graph).set_log_table(0, np.zeros((3, 3)))


# ---------------------------------------------------------------- budgets, pickles, threads
def test_budgets_end_a_query_and_the_next_one_is_whole():
    graph = grid(4, 4, 1.0, 0.5, 0)
    session, whole = abp.Session(graph), abp.infer(graph, evidence={"x0": 0})
    part = session.query({"x0": 0}, max_updates=3)
    assert part.stop_reason is abp.StopReason.OUT_OF_UPDATES
    assert not part.consistent
    assert session.query({"x0": 0}, max_work=5).stop_reason is abp.StopReason.OUT_OF_WORK
    assert gap(session.query({"x0": 0}), whole) < TIGHT


def test_a_session_can_be_pickled():
    session = abp.Session(grid(3, 4, 1.0, 0.5, 0))
    session.set_unary("x1", np.arange(4.0))
    before = session.query({"x0": 2})
    twin = pickle.loads(pickle.dumps(session))
    assert gap(twin.query({"x0": 2}), before) == 0.0


def test_a_session_refuses_a_second_thread():
    session = abp.Session(grid(3, 4, 1.0, 0.5, 0), "bp")
    inside, errors = threading.Event(), []
    go_on = threading.Event()

    def wait(_):
        inside.set()
        go_on.wait(10)

    thread = threading.Thread(target=lambda: session.query(callback=wait))
    thread.start()
    inside.wait(10)
    for call in (session.query, lambda: session.set_unary("x0", np.zeros(4))):
        try:
            call()
        except abp.OptionError as error:
            errors.append(str(error))
    go_on.set()
    thread.join()
    assert len(errors) == 2
    assert "already in use" in errors[0]
    session.query()


def test_factor_marginals_are_those_of_a_run_from_nothing():
    graph = grid(3, 3, 1.0, 0.5, 0)
    session = abp.Session(graph, factor_marginals=True)
    session.query({"x1": 0})
    warm = session.query({"x2": 1})
    cold = abp.infer(graph, "exact", evidence={"x2": 1}, factor_marginals=True)
    for factor in range(graph.n_factors):
        np.testing.assert_allclose(warm.factor_marginals[factor], cold.factor_marginals[factor], atol=1e-12)
    kept = np.array(warm.factor_marginals[9])
    session.query({"x2": 2})
    np.testing.assert_array_equal(warm.factor_marginals[9], kept)


def test_an_empty_graph_has_a_session():
    assert len(abp.Session(abp.FactorGraph()).query().marginals) == 0


@pytest.mark.parametrize("method", ["dynamic", "truncated"])
def test_methods_that_grow_start_from_nothing_every_time(method):
    session = abp.Session(grid(3, 3, 1.0, 0.5, 0), method)
    session.query()
    assert "keeps nothing" in session.query({"x0": 1}).choice


# ---------------------------------------------------------------- streams
def test_a_stream_ends_with_the_result():
    session = abp.Session(grid(4, 5, 1.0, 0.5, 0), "bp")

    async def last():
        return [snapshot async for snapshot in session.stream({"x0": 1})][-1]

    found = asyncio.run(last())
    assert isinstance(found, abp.Result)
    assert gap(found, abp.infer(grid(4, 5, 1.0, 0.5, 0), "bp", evidence={"x0": 1})) < LOOSE


def test_a_slow_reader_gets_the_newest_snapshot():
    every = abp.Session(grid(6, 20, 1.0, 1.0, 0), "bp", tolerance=1e-13).query()
    session = abp.Session(grid(6, 20, 1.0, 1.0, 0), "bp", tolerance=1e-13)

    async def slowly():
        seen = []
        async for snapshot in session.stream():
            seen.append(snapshot)
            await until_free(session)
        return seen

    *earlier, last = asyncio.run(slowly())
    assert len(earlier) <= 1  # the first; the run was over when the next was asked for
    assert isinstance(last, abp.Result)
    assert last.updates == every.updates
    assert len(every.trace) > 10


async def until_free(session):
    """Wait until no run uses a session."""
    while True:
        try:
            session.query(max_updates=1)
        except abp.OptionError:
            await asyncio.sleep(0.001)
        else:
            return


@pytest.mark.compiled
@pytest.mark.parametrize("way", ["leave", "cancel"])
def test_leaving_a_stream_stops_the_work_within_20_ms(way):
    session = abp.Session(grid(10, 60, 1.0, 0.5, 0), "dynamic")  # state by state, which takes seconds
    session.query(max_updates=1)

    async def stop():
        task = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        began = time.process_time()  # of all threads: other processes do not count
        if way == "cancel":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            leaves.set()
            await task
        took = time.process_time() - began
        session.query(max_updates=1)  # nobody uses it any more
        return took

    async def read():
        stream = session.stream()
        async for _ in stream:
            if leaves.is_set():
                break
        await stream.aclose()

    found = []
    for _ in range(5):
        leaves = asyncio.Event()
        found.append(asyncio.run(stop()))
    assert min(found) < 0.02


def test_a_stream_cancelled_twice_leaves_the_session_free():
    session = abp.Session(grid(10, 20, 1.0, 0.5, 0), "dynamic")  # state by state, which takes long
    session.query(max_updates=1)

    async def read():
        async for _ in session.stream():
            pass

    async def stop():
        task = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0)  # the stream waits for its thread now
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        session.query(max_updates=1)

    for _ in range(5):
        asyncio.run(stop())


def test_errors_of_a_stream_come_through():
    session = abp.Session(grid(3, 3, 1.0, 0.5, 0))

    async def ask():
        return [snapshot async for snapshot in session.stream({"nobody": 1})]

    with pytest.raises(abp.EvidenceError):
        asyncio.run(ask())

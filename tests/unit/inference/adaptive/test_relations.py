"""The first round on relations: BP on its active states, as the general rounds are, and what goes on from there."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference.adaptive import adaptive_run, relations, relations_look
from anytimebp.inference.adaptive.adaptive_run import AdaptiveRun
from anytimebp.inference.adaptive.relations import FirstRound
from anytimebp.inference.adaptive.rounds import Rounds
from anytimebp.inference.adaptive.settling import MAX_SWEEPS
from anytimebp.inference.adaptive.whole_model import WholeModel
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.method import Step, new_task, steps
from anytimebp.kernels.codes import LINEAR
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.tables.spare import SpareMemory
from anytimebp.tables.workspace import Workspace
from oracle.examples import examples

seeds = st.integers(0, 10**6)
few = settings(max_examples=examples(25, uncompiled=8))
KINDS = ("log_table", "table", "tied log_table", "tied table")


def related(seed, kind="tied log_table", *, n_ends=5, n_factors=12, n_states=6, leaf=7, scale=0.7):
    """Return tags of some variables, and relations of random pairs of them; unary factors are of all kinds."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    ends, leaves = graph.add_variables(n_ends, n_states), graph.add_variables(n_factors, leaf)
    pairs = np.array([rng.choice(n_ends, 2, replace=False) for _ in range(n_factors)])
    scores = rng.normal(0.0, scale, (1 if kind.startswith("tied") else n_factors, n_states, n_states, leaf))
    stated, table = ("log_table", scores) if kind.endswith("log_table") else ("table", np.exp(scores - 2.0))
    scopes = np.column_stack([np.array(ends)[pairs], np.array(leaves)])
    graph.add_factors(scopes, **{stated: table[0] if kind.startswith("tied") else table})
    graph.add_factors(np.array(ends)[:, None], log_table=rng.normal(0.0, 3.0, (n_ends, n_states)))
    graph.add_factors(np.array(ends)[:2, None], table=rng.random((2, n_states)) + 0.1)  # twice as many for some
    for k in range(0, n_factors - 2, 3):  # none for some
        own = rng.normal(0.0, 2.0, leaf)
        own[rng.random(leaf) < 0.3] = -np.inf
        own[0] = 0.0
        graph.add_factor([leaves[k]], log_table=own)
        graph.add_factor([leaves[k + 1]], table=rng.random(leaf) + 0.01)
    return graph


def first_of(graph, **options):
    """Return a run with its first round, forced to be made."""
    task = new_task(graph, abp.Inference(graph, "adaptive", **options)._options)
    run = AdaptiveRun(task, at_any_cost=True)
    slices = steps(run, task.figures)
    while next(slices) is not Step.RECORD:
        pass
    return run


@pytest.fixture
def tight(monkeypatch):
    """Have first rounds settle to all digits, and every joint state count."""
    monkeypatch.setattr(relations, "FIRST_TOLERANCE", 1e-13)
    monkeypatch.setattr(relations, "LEFT_UNREAD", 0.0)


def first_round_fails(graph):
    """Tell whether `bp` on the first active states does not settle either in so many sweeps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relations, "FIRST_TOLERANCE", 0.05)
        patch.setattr(relations, "LEFT_UNREAD", 0.0)
        active = first_of(graph).read(settled=True)
    allowed = {v: set(np.flatnonzero(own > 0.0)) for v, own in enumerate(map(active.marginals.get, active.marginals))}
    swept = abp.infer(graph, "bp", evidence=allowed, tolerance=1e-13, max_updates=12 * MAX_SWEEPS)
    return swept.stop_reason is not abp.StopReason.CONVERGED or swept.damping > 0.0


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("kind", KINDS)
@settings(parent=few, suppress_health_check=["function_scoped_fixture"])
@given(seed=seeds)
def test_a_first_round_is_bp_on_its_active_states(kind, seed):
    graph = related(seed, kind)
    run = first_of(graph, tolerance=1e-13)
    if not isinstance(run.now, FirstRound):  # general rounds take over where messages do not settle
        assert first_round_fails(graph)
        return
    ours = run.read(settled=True)
    allowed = {v: set(np.flatnonzero(own > 0.0)) for v, own in enumerate(map(ours.marginals.get, ours.marginals))}
    expected = abp.infer(graph, "bp", evidence=allowed, tolerance=1e-13)
    assert ours.consistent
    assert ours.domain_sizes[:5].tolist() == [len(allowed[v]) for v in range(5)]
    assert ours.domain_sizes[5:].tolist() == [7] * 12
    assert ours.distance(expected) < 1e-9
    assert ours.log_z == pytest.approx(expected.log_z, abs=1e-8)
    assert ours.estimated_error == np.inf


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_round_and_the_general_one_say_the_same(monkeypatch, kind):
    graphs = related(7, kind), related(7, kind)
    ours = first_of(graphs[0]).read(settled=True)
    monkeypatch.setattr(adaptive_run, "may_have_relations", lambda *_: False)
    general = first_of(graphs[1])
    assert isinstance(general.now, Rounds)
    theirs = general.read(settled=True)
    assert ours.distance(theirs) < 0.02  # both settle to a twentieth of a nat
    assert ours.domain_sizes.tolist() == theirs.domain_sizes.tolist()
    assert ours.choice == theirs.choice
    assert ours.log_z == pytest.approx(theirs.log_z, abs=1e-2)


@pytest.mark.usefixtures("tight")
@few
@given(seed=seeds)
def test_messages_are_handed_over(seed):
    """What rounds go on from is what they would have come to themselves, to scales and totals of hubs."""
    run = first_of(related(seed, n_ends=3, n_factors=40, scale=0.1), tolerance=1e-13)
    handed = run._rounds_after(run.now)
    whole = WholeModel(run._compiled, run._domains, sum_out=True)
    itself = Rounds(run._task, whole, run.now.beginning, at_any_cost=True)
    itself._loose = 1e-13
    for _ in itself.settle():
        pass
    for name in ("message", "edge_scale", "factor_total", "hub_high"):
        ours, theirs = (getattr(rounds._model.arrays, name) for rounds in (handed, itself))
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9)
    assert len(handed._model.arrays.hub_variable)
    assert handed.read(settled=True).log_z == pytest.approx(itself.read(settled=True).log_z, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_runs_end_where_bp_does(kind):
    graph = related(3, kind)
    task = new_task(graph, abp.Inference(graph, "adaptive", tolerance=1e-10)._options)
    run = AdaptiveRun(task, at_any_cost=True)
    for _ in steps(run, task.figures):
        pass
    assert run.read(settled=False).distance(abp.infer(related(3, kind), "bp", tolerance=1e-10)) < 1e-7


def test_messages_that_do_not_settle_are_left_to_the_general_rounds(monkeypatch):
    monkeypatch.setattr(relations, "MAX_SWEEPS", 1)
    graph = related(0, scale=2.0)
    assert relations.first_round(*given_to(graph), at_any_cost=True) is None
    assert not isinstance(first_of(graph).now, FirstRound)


def given_to(graph, **options):
    """Return a task on a graph, and the graph compiled."""
    return new_task(graph, abp.Inference(graph, "adaptive", **options)._options), compiled_graph(graph)


def unrelated():
    """Yield graphs that are none of relations, and options with which none is taken for one."""
    yield related(0), {"damping": 0.2}
    yield related(0), {"factor_marginals": True}
    yield related(0), {"evidence": {0: 1}}
    graph = related(0)
    graph.add_factor([0, 1], log_table=np.zeros((6, 6)))
    yield graph, {}
    graph = related(0)
    graph.add_factor([0, 1, 2], log_table=np.zeros((6, 6, 6)))  # no leaf
    yield graph, {}
    graph = related(0)
    table = np.zeros((6, 6, 7))
    table[0, 0, 0] = -np.inf
    graph.add_variables(1, 7)
    graph.add_factor([0, 1, 17], log_table=table)
    yield graph, {}
    graph = related(0)
    graph.add_variables(1, 7)
    graph.add_factor([17, 0, 1], log_table=np.zeros((7, 6, 6)))  # the leaf comes first
    yield graph, {}


@pytest.mark.parametrize("number", range(7))
def test_other_graphs_and_options_take_the_general_way(number):
    graph, options = list(unrelated())[number]
    run = first_of(graph, tolerance=1e-9, **options)
    assert not isinstance(run.now, FirstRound)
    evidence = options.get("evidence")
    right = abp.infer(graph, "bp", evidence=evidence, tolerance=1e-10)
    assert abp.infer(graph, "adaptive", tolerance=1e-10, **options).distance(right) < 1e-7


def test_a_variable_without_a_possible_state_is_named():
    graph = related(0)
    graph.add_factors([[3], [3]], table=np.eye(6)[:2])
    with pytest.raises(abp.InconsistentModelError, match="'x3' has no possible state"):
        first_of(graph)


def test_marginals_are_read_again_and_again():
    snapshot = first_of(related(5)).read(settled=True)
    first = snapshot.marginals.concatenated()
    kept = first.copy()
    first[:] = -1.0
    assert (snapshot.marginals.concatenated() == kept).all()
    assert (snapshot.marginals["x0"] == kept[:6]).all()


def test_memory_is_used_again_but_never_while_somebody_reads_from_it():
    SpareMemory._spare.clear()
    snapshots = [first_of(related(seed)).read(settled=True) for seed in range(3)]
    assert not SpareMemory._spare
    expected = [snapshot.marginals.concatenated() for snapshot in snapshots]
    again = [first_of(related(seed)).read(settled=True) for seed in range(3)]
    assert all((a.marginals.concatenated() == b).all() for a, b in zip(again, expected, strict=True))
    gc.disable()
    try:
        del snapshots, again
        assert len(SpareMemory._spare) == 1  # without the garbage collector
        assert (first_of(related(1)).read(settled=True).marginals.concatenated() == expected[1]).all()
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", KINDS)
def test_tables_that_change_later_do_not_change_an_answer(kind):
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(2, 6)
    leaves = graph.add_variables(12, 7)
    shape = (6, 6, 7) if kind.startswith("tied") else (12, 6, 6, 7)
    table, own = rng.random(shape) + 0.1, rng.normal(0.0, 2.0, (12, 7))
    scopes = np.array([[0, 1, leaf] for leaf in leaves])
    graph.add_factors(scopes, **{kind.split()[-1]: table})
    graph.add_factors(scopes[:, 2:], log_table=own)
    snapshot = first_of(graph).read(settled=True)
    expected = first_of(graph).read(settled=True).marginals.concatenated()
    table[:], own[:] = 0.5, 0.0
    assert (snapshot.marginals.concatenated() == expected).all()


def looked(graph, **options):
    """Return the run after the look from its first round, and what that has found; None if it did not look."""
    run = first_of(graph, **options)
    if not isinstance(run.now, FirstRound):
        return run, None
    next(run.grow(), None)
    return run, run.now._looked if isinstance(run.now, FirstRound) else None


class SlowLook:
    """One round of messages out of active states, and leaves by joint states of which at most one end is outside.

    Args:
        graph: Relations.
        active: A snapshot of BP on the active states.
    """

    def __init__(self, graph, active):
        compiled = compiled_graph(graph)
        self.within = [np.array(active.marginals[variable.name]) > 0.0 for variable in graph.variables]
        self.prior, self.factors = [np.ones(len(own)) for own in self.within], []
        for block in compiled.blocks:
            for k, scope in enumerate(block.scopes.tolist()):
                scores = block.log_values(k, [np.arange(n) for n in block.source.shape], compiled.variables)
                table = np.exp(np.asarray(scores).reshape(block.source.shape))
                if len(scope) == 1:
                    self.prior[scope[0]] = self.prior[scope[0]] * table
                else:
                    self.factors.append((scope, table))
        ends = [(f, end) for f in range(len(self.factors)) for end in range(2)]
        self.messages = {(f, end): np.ones(len(self.prior[self.factors[f][0][end]])) for f, end in ends}
        for _ in range(200):
            for f, end in ends:
                self.messages[f, end] = self.sent(f, end)

    def belief(self, variable, without=-1):
        """Return the product of a prior and messages, but for one factor's."""
        found = self.prior[variable]
        for (f, end), message in self.messages.items():
            if f != without and self.factors[f][0][end] == variable:
                found = found * message
        return found

    def weight(self, f, end):
        """Return what an end says to a factor, largest 1 over active states."""
        variable = self.factors[f][0][end]
        found = self.belief(variable, without=f)
        return found / found[self.within[variable]].max()

    def sent(self, f, end):
        """Return what a factor says to all states of an end."""
        scope, table = self.factors[f]
        other, summed = scope[1 - end], table @ self.prior[scope[2]]
        told = (summed if end == 0 else summed.T) @ (self.weight(f, 1 - end) * self.within[other])
        return told / told[self.within[scope[end]]].max()

    def marginals(self):
        """Return the beliefs of all states."""
        found = [self.belief(variable) for variable in range(len(self.prior))]
        for f, ((a, b, leaf), table) in enumerate(self.factors):
            joint = np.outer(self.weight(f, 0), self.weight(f, 1)) * (self.within[a][:, None] | self.within[b][None, :])
            found[leaf] = np.einsum("ij,ijr->r", joint, table) * self.prior[leaf]
        return np.concatenate([own / own.sum() for own in found])


@pytest.fixture
def every_state_counts(monkeypatch, tight):
    """Have looks leave nothing out, whatever they cost."""
    monkeypatch.setattr(relations, "LEFT_OUT", 0.0)
    monkeypatch.setattr(relations, "FIRST_WORTH", np.inf)
    monkeypatch.setattr(relations_look, "NEGLIGIBLE", 0.0)


@pytest.mark.usefixtures("every_state_counts")
@settings(parent=few, suppress_health_check=["function_scoped_fixture"])
@given(seed=seeds)
def test_a_look_is_one_round_of_messages_out_of_the_active_states(seed):
    graph = related(seed, scale=0.3)
    active = first_of(graph, tolerance=1e-13)
    if not isinstance(active.now, FirstRound):
        return
    active = active.read(settled=True)
    run, found = looked(graph, tolerance=1e-13)
    if found is None:  # all states are active, or messages say too much
        return
    assert run.read(settled=True).marginals.concatenated() == pytest.approx(
        SlowLook(graph, active).marginals(), abs=1e-9
    )


@pytest.mark.parametrize("kind", KINDS)
def test_relations_of_one_log_table_are_looked_at_before_general_rounds(monkeypatch, kind):
    monkeypatch.setattr(relations, "FIRST_WORTH", np.inf)
    right = abp.infer(related(1, kind, scale=0.3), "bp", tolerance=1e-12)
    first = first_of(related(1, kind, scale=0.3)).read(settled=True)
    run, found = looked(related(1, kind, scale=0.3))
    assert (found is not None) == (kind == "tied log_table")
    if found is not None:
        ours = run.read(settled=True)
        assert ours.consistent
        assert ours.distance(right) < 0.1 * first.distance(right)
        assert abs(ours.log_z - right.log_z) < 0.1 * abs(first.log_z - right.log_z)
        assert ours.estimated_error > 0.3 * ours.distance(right)
        assert 0.0 < ours.unexplored_mass < 1.0
        assert ours.domain_sizes.tolist() == first.domain_sizes.tolist()


def test_rounds_go_on_from_what_a_first_look_has_found(monkeypatch):
    """They take it over as if it were their own, to the same answer; and no general look is made in its place."""
    monkeypatch.setattr(relations, "FIRST_WORTH", np.inf)
    run, found = looked(related(1, scale=0.3))
    before = run.read(settled=True)
    rounds = run._rounds_after(run.now)
    taken = rounds._known.answer()["marginals"].concatenated()
    assert taken == pytest.approx(before.marginals.concatenated(), abs=1e-3)
    assert rounds.read(settled=True).marginals is before.marginals
    monkeypatch.setattr(Rounds, "_look", lambda *_: pytest.fail("it looks again"))
    for _ in rounds._grow():
        pass
    assert rounds._reach is found.candidates
    assert rounds._model.size.sum() > rounds._known.model.size.sum()


def test_a_look_that_would_cost_too_much_or_say_too_little_is_left_to_general_rounds(monkeypatch):
    monkeypatch.setattr(relations, "FIRST_WORTH", 0.0)
    assert looked(related(1, scale=0.3))[1] is None
    monkeypatch.setattr(relations, "FIRST_WORTH", np.inf)
    monkeypatch.setattr(relations, "SMALL_SPREAD", 0.0)
    assert looked(related(1, scale=0.3))[1] is None


@pytest.mark.parametrize("seed", range(3))
def test_hubs_and_large_domains_are_looked_at_alike(monkeypatch, seed):
    """Every end has dozens of factors, and leaves have fewer states than are added up together."""
    monkeypatch.setattr(relations, "FIRST_WORTH", np.inf)
    given = {"n_ends": 4, "n_factors": 40, "n_states": 21, "leaf": 3, "scale": 0.05}
    run, found = looked(related(seed, **given))
    assert found is not None
    first, right = first_of(related(seed, **given)), abp.infer(related(seed, **given), "bp", tolerance=1e-12)
    assert run.read(settled=True).distance(right) < 0.2 * first.read(settled=True).distance(right)


@pytest.mark.parametrize("scale", [0.05, 0.3])
def test_full_bp_goes_on_from_what_a_first_look_has_found(monkeypatch, scale):
    """Every message to a state outside is what the look has told it; all are right once they are so everywhere."""
    monkeypatch.setattr(relations, "FIRST_WORTH", np.inf)
    monkeypatch.setattr(relations, "SMALL_LOOK", 0.0)
    run, found = looked(related(1, scale=scale))
    assert found is not None
    first = run.now
    assert first.is_enough
    workspace = Workspace(run._compiled, run._domains, LINEAR)
    first.put_all(workspace)
    arrays, layout, model, active = workspace.arrays, workspace.layout, first._model, first._active
    for edge, variable in enumerate(layout.edge_variable.tolist()):
        ours = arrays.message[arrays.edge_slot_start[edge] :][: run._domains.sizes[variable]]
        assert ours.max() == pytest.approx(1.0)
        assert ours.min() == pytest.approx(arrays.edge_min[edge])
        if edge % 3 < 2:
            start = active.message_start[edge // 3] + (active.size[layout.edge_variable[edge - 1]] if edge % 3 else 0)
            own = slice(active.start[variable], active.start[variable + 1])
            other = slice(found.candidates.start[variable], found.candidates.start[variable + 1])
            told = found.candidates.told[found.candidates.edge_start[edge // 3 * 2 + edge % 3] :]
            expected = np.empty(len(ours))
            first_slot = model.slot_start[variable]
            expected[active.slot[own] - first_slot] = active.message[start : start + active.size[variable]]
            expected[found.candidates.state[other]] = told[: other.stop - other.start]
            assert ours == pytest.approx(np.exp(expected - expected.max()))


def test_a_run_that_has_looked_at_all_states_cheaply_goes_on_with_rounds(monkeypatch):
    """One whose look took a larger part of full BP goes on with that. The look answers until a sweep is over."""
    monkeypatch.setattr(relations, "FIRST_WORTH", np.inf)
    right = abp.infer(related(1, scale=0.3), "bp", tolerance=1e-10)
    for most, expected in ((np.inf, Rounds), (0.0, AllStates)):
        monkeypatch.setattr(relations, "SMALL_LOOK", most)
        graph = related(1, scale=0.3)
        task = new_task(graph, abp.Inference(graph, "adaptive", tolerance=1e-10)._options)
        run, stages, found = AdaptiveRun(task, at_any_cost=True), [], []
        for step in steps(run, task.figures):
            stages.append(type(run.now))
            if run.read(settled=False) is not None and FirstRound in stages and step is not None:
                found.append(run.read(settled=False).distance(right))
        assert next(stage for stage in stages if stage not in (FirstRound, type(None))) is expected
        assert found[-1] < 1e-7
        best = np.minimum.accumulate(found)
        assert all(now < 3.0 * before + 1e-9 for now, before in zip(found[1:], best[:-1], strict=True))


@pytest.mark.usefixtures("every_state_counts")
@pytest.mark.parametrize("seed", range(4))
def test_ends_may_have_different_universes(seed):
    rng, graph = np.random.default_rng(seed), abp.FactorGraph()
    first, second, leaves = graph.add_variables(3, 4), graph.add_variables(3, 19), graph.add_variables(14, 5)
    scopes = [[first[k % 3], second[k // 3 % 3], leaf] for k, leaf in enumerate(leaves)]
    graph.add_factors(scopes, log_table=rng.normal(0.0, 0.3, (4, 19, 5)))
    for variables, n, scale in ((first, 4, 4.0), (second, 19, 6.0), (leaves, 5, 2.0)):
        graph.add_factors(np.array(variables)[:, None], log_table=rng.normal(0.0, scale, (len(variables), n)))
    active = first_of(graph, tolerance=1e-13).read(settled=True)
    run, found = looked(graph, tolerance=1e-13)
    assert found is not None
    assert run.read(settled=True).marginals.concatenated() == pytest.approx(
        SlowLook(graph, active).marginals(), abs=1e-9
    )

"""Rounds on active states: each is BP on these states alone; looks, growth, and what other stages take from them."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.inference.adaptive import relations, relations_look, rounds, settling
from anytimebp.inference.adaptive.adaptive_run import AdaptiveRun
from anytimebp.inference.adaptive.choice import first_choice
from anytimebp.inference.adaptive.known import Outcome
from anytimebp.inference.adaptive.rounds import Rounds
from anytimebp.inference.adaptive.whole_model import WholeModel
from anytimebp.inference.method import Step, new_task, steps
from anytimebp.kernels.active import look_outside, weigh_outside
from anytimebp.kernels.active_rows import keep_heavy
from anytimebp.kernels.codes import LINEAR, OK
from anytimebp.kernels.readout import read_weights
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.tables.workspace import Workspace
from oracle.examples import examples
from oracle.models import hub, peaked, random_loopy, structured, wide

seeds = st.integers(0, 10**6)
few = settings(max_examples=examples(25, uncompiled=8))
pytestmark = pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")


def ring_with_leaves(seed, stated="log_table", *, tied=False, scale=0.5, zeros=0.0):
    """Return a ring of four variables whose factors have a leaf each, on any axis."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    n, leaf, axis = int(rng.integers(2, 6)), int(rng.integers(1, 6)), int(rng.integers(0, 3))
    core, leaves = graph.add_variables(4, n), graph.add_variables(8 if tied else 4, leaf)
    shape = [n, n]
    shape.insert(axis, leaf)
    scores = rng.normal(0.0, scale, (1 if tied else 4, *shape))
    scores[rng.random(scores.shape) < zeros] = -np.inf
    scopes = [[core[k % 4], core[(k + 1) % 4]] for k in range(len(leaves))]
    for k, scope in enumerate(scopes):
        scope.insert(axis, leaves[k])
    if stated == "rule":
        for k, scope in enumerate(scopes):
            own = scores[0] if tied else scores[k]
            graph.add_factor(scope, rule=lambda *states, own=own: own[states])
    else:
        table = {"log_table": scores, "table": np.exp(scores - 3.0)}[stated]
        graph.add_factors(np.array(scopes), **{stated: table[0] if tied else table})
    for variables, size in ((core, n), (leaves, leaf)):
        graph.add_factors(np.array(variables)[:, None], log_table=rng.normal(0.0, 3.0, (len(variables), size)))
    return graph


SETTLING = 8  # sweeps after which messages to states that are gone have settled, too
MODELS = {
    "peaked": peaked,
    "zeros in priors": lambda seed: peaked(seed, zeros=0.3),
    "zeros in tables": lambda seed: random_loopy(seed, scale=0.2, unary=3.0, zeros=0.05),
    "hub": hub,
    "leaves": ring_with_leaves,
    "leaves and zeros": lambda seed: ring_with_leaves(seed, zeros=0.05),
    "tied leaves": lambda seed: ring_with_leaves(seed, tied=True),
    "potentials": lambda seed: ring_with_leaves(seed, "table"),
    "tied potentials": lambda seed: ring_with_leaves(seed, "table", tied=True),
    "rules": lambda seed: ring_with_leaves(seed, "rule"),
    "wide tables": wide,
    "wide priors": lambda seed: peaked(seed, unary=400.0),
    "structures": structured,
    "hard structures": lambda seed: structured(seed, default=-np.inf),
}


def all_rounds(graph, *, tails=False, **options):
    """Yield the rounds of a run that makes all of them, each after it has settled, or after the look that follows."""
    task = new_task(graph, abp.Inference(graph, "adaptive", **options)._options)
    run = AdaptiveRun(task, at_any_cost=True)
    seen = 0
    for _ in steps(run, task.figures):
        if isinstance(run.now, Rounds) and run.now._known is not None and task.figures.rounds > seen:
            seen = task.figures.rounds
            if (run.now._known.tail is not None) == tails:
                yield run.now


def states_of(found):
    """Return the active states of each variable, all that evidence allows of leaves that are summed out."""
    model, whole = found._known.model, found._whole
    active, domains = model.active, whole.domains
    return {
        v: set(
            (domains.states_of(v) if whole.is_leaf[v] else active.state[active.start[v] : active.start[v + 1]]).tolist()
        )
        for v in range(len(model.size))
    }


@pytest.fixture
def tight(monkeypatch):
    """Have every round settle to all digits and be answered with, and every joint state count."""
    for module in (rounds, relations):
        monkeypatch.setattr(module, "FIRST_TOLERANCE", 1e-13)
        monkeypatch.setattr(module, "LEFT_UNREAD", 0.0)
        monkeypatch.setattr(module, "LEFT_OUT", 0.0)
    monkeypatch.setattr(rounds, "SETTLED", 0.0)
    monkeypatch.setattr(rounds, "LOSES", 0.0)


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("kind", MODELS)
@settings(parent=few, suppress_health_check=["function_scoped_fixture"])
@given(seed=seeds, joint=st.booleans())
def test_a_round_is_bp_on_its_active_states(kind, seed, joint):
    graph = MODELS[kind](seed)
    for found in all_rounds(graph, tolerance=1e-12, factor_marginals=joint):
        ours, states = found.read(settled=True), states_of(found)
        expected = abp.infer(graph, "bp", evidence=states, tolerance=1e-12, factor_marginals=joint)
        if not expected.consistent:
            continue
        assert ours.consistent
        assert ours.domain_sizes.tolist() == [len(own) for own in states.values()]
        assert ours.distance(expected) < 1e-9
        assert ours.log_z == pytest.approx(expected.log_z, abs=1e-8)
        if joint:
            assert ours.factor_marginals[0] == pytest.approx(expected.factor_marginals[0], abs=1e-9)


@pytest.mark.usefixtures("tight")
@settings(parent=few, suppress_health_check=["function_scoped_fixture"])
@given(seed=seeds, data=st.data())
def test_evidence_leaves_its_states_alone(seed, data):
    graph = ring_with_leaves(seed)
    evidence = {}
    for variable in data.draw(st.sets(st.integers(0, 7), max_size=4)):
        n = graph.variables[variable].n_states
        evidence[variable] = data.draw(st.sets(st.integers(0, n - 1), min_size=1))
    for found in all_rounds(graph, tolerance=1e-12, evidence=evidence):
        ours, states = found.read(settled=True), states_of(found)
        assert all(states[v] <= allowed for v, allowed in evidence.items())
        assert ours.distance(abp.infer(graph, "bp", evidence=states, tolerance=1e-12)) < 1e-9


# ---------------------------------------------------------------- looks
def looked(graph, seed):
    """Return a model of some states each, what a look at all others finds, and the same by its definition."""
    compiled, rng = compiled_graph(graph), np.random.default_rng(seed)
    whole = WholeModel(compiled, full_domains(compiled, {}), sum_out=True)
    task = new_task(graph, abp.Inference(graph, "adaptive")._options)
    stage = Rounds(task, whole, first_choice(whole), at_any_cost=True)
    stage._loose = 1e-12
    stage._begin_round(whole.likely(float(rng.uniform(0.1, 4.0)))[0])
    for _ in stage.settle():
        pass
    if stage.outcome is not None:
        return None
    model, whole = stage._model, stage._whole
    candidates = whole.candidates(model.active, np.full(len(model.size), np.inf))
    status, _, _ = look_outside(
        model.layout, model.arrays, whole.sources, model.active, candidates, model.scratch, 0.0, 0, 10**9
    )
    assert status == OK
    for _ in model.ask_outside(candidates):
        pass
    weigh_outside(model.layout, model.arrays, candidates, np.empty(len(model.size)))
    return model, candidates


@few
@given(seed=seeds, left_out=st.sampled_from([0.0, 1e-6, 1e-2, 0.5]))
def test_heavy_joint_states_have_most_of_the_weight_and_keep_their_order(seed, left_out):
    rng = np.random.default_rng(seed)
    weight = np.exp(-rng.exponential(5.0, rng.integers(1, 40)))
    base, given_weight = np.arange(len(weight)), weight.copy()
    kept = keep_heavy(left_out, base, given_weight)
    assert kept >= 1
    assert (base[:kept] == np.sort(base[:kept])).all()
    assert (given_weight[:kept] == weight[base[:kept]]).all()
    assert given_weight[:kept].sum() >= (1.0 - left_out) * weight.sum() * (1.0 - 1e-12)
    assert kept == len(weight) or left_out > 0.0


@few
@example(seed=0)
@given(seed=seeds)
def test_what_a_look_leaves_out_changes_beliefs_outside_by_little(seed):
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(6, 40)
    graph.add_factors(np.arange(6)[:, None], log_table=rng.normal(0.0, 3.0, (6, 40)))
    ring = np.stack([np.arange(6), np.roll(np.arange(6), -1)], axis=1)
    graph.add_factors(ring, log_table=rng.normal(0.0, 0.5, (6, 40, 40)))
    found = {}
    for left_out in (0.0, rounds.LEFT_OUT):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rounds, "LEFT_OUT", left_out)
            patch.setattr(rounds, "QUICK", 0.0)  # looks are not halved
            second = next(islice(all_rounds(graph, tails=True), 1, None))
            found[left_out] = second.read(settled=True)
    exact, ours = found[0.0], found[rounds.LEFT_OUT]
    assert ours.work <= exact.work
    assert seed != 0 or ours.work < exact.work  # something was left out
    assert ours.distance(exact) <= rounds.LEFT_OUT * exact.unexplored_mass


def belief_of_one_more(graph, states, variable, state):
    """Return the belief of a state that hears from the others' domains, in parts of its own domain's; at most 1."""
    evidence = {**states, variable: states[variable] | {state}}
    with_it = abp.Inference(graph, "bp", evidence=evidence, tolerance=1e-13)
    settled = abp.Inference(graph, "bp", evidence=states, tolerance=1e-13, factor_marginals=True)
    settled.run()
    run = settled._run.method
    run.complete()
    layout, arrays = run.workspace.layout, run.workspace.arrays
    weight = np.empty(len(arrays.message))
    read_weights(layout, arrays, weight)
    domains = run.workspace.domains
    log_belief = np.zeros(len(evidence[variable]))
    order = np.array(sorted(evidence[variable]))
    compiled = run.workspace.compiled
    prior = full_domains(compiled, with_it._options.observed)
    log_belief += prior.log_prior[prior.slot_start[variable] : prior.slot_start[variable + 1]]
    for edge in compiled.edges_of(variable):
        factor = int(layout.edge_factor[edge])
        edges = compiled.edges(factor)
        own_states = [order if e == edge else domains.states_of(int(layout.edge_variable[e])) for e in edges]
        scores = np.array(compiled.log_values(factor, own_states))
        for axis, e in enumerate(edges):
            if e != edge:
                start = arrays.edge_slot_start[e]
                own = weight[start : start + len(own_states[axis])]
                scores += own.reshape([-1 if k == axis else 1 for k in range(len(edges))])
        axis = edges.index(edge)
        log_belief += np.logaddexp.reduce(np.moveaxis(scores, axis, 0).reshape(len(order), -1), axis=1)
    position = int(np.searchsorted(order, state))
    return float(log_belief[position] - np.logaddexp.reduce(np.delete(log_belief, position)))


@pytest.mark.parametrize(
    "kind", ["peaked", "hub", "leaves", "tied leaves", "potentials", "rules", "wide tables", "structures"]
)
@few
@example(seed=877)  # one factor says much more of a state than linear numbers can, another one much less
@example(seed=1406)  # two factors say of a state that it is gone; each counts the other's word
@example(seed=66970)  # a state is gone, but not for the factor that says so
@given(seed=seeds)
def test_a_look_is_one_round_of_messages_out_of_the_domains(kind, seed):
    graph = MODELS[kind](seed)
    found = looked(graph, seed)
    if found is None:
        return
    model, candidates = found
    whole, active = model.whole, model.active
    states = {
        v: set(
            (
                whole.domains.states_of(v) if whole.is_leaf[v] else active.state[active.start[v] : active.start[v + 1]]
            ).tolist()
        )
        for v in range(len(model.size))
    }

    def beyond(variable):
        """Return by how many nats over 600 the likeliest state outside is over the domain."""
        own = slice(candidates.start[variable], candidates.start[variable + 1])
        best = int(candidates.state[own][candidates.log_belief[own].argmax()])
        return max(0.0, belief_of_one_more(graph, states, variable, best) - 600.0)

    rng = np.random.default_rng(seed)
    for variable in rng.permutation(len(model.size))[:2].tolist():
        for position in range(
            candidates.start[variable], min(candidates.start[variable] + 2, candidates.start[variable + 1])
        ):
            expected = belief_of_one_more(graph, states, variable, int(candidates.state[position])) - beyond(variable)
            assert candidates.belief[position] == pytest.approx(np.exp(expected), rel=1e-6, abs=1e-12)


# ---------------------------------------------------------------- answers that count states outside
def counted_states(found):
    """Return the states of each variable that count after a look: active ones, and those that it has found."""
    candidates = found._known.candidates
    outside = np.split(candidates.state, candidates.start[1:-1])
    return [np.array(sorted(own | set(outside[v].tolist()))) for v, own in states_of(found).items()]


def settle_gone_states(compiled, domain, slot_start, weight):
    """Send messages some more, and overwrite the logs of those from variables to factors.

    Residuals do not count states that are gone, which may weigh something for one factor.
    """
    layout, prior = compiled.arrays, full_domains(compiled, {})
    n_factors, told = len(layout.factor_edge_start) - 1, {}
    for factor in [*range(n_factors)] * SETTLING:
        edges = compiled.edges(factor)
        owners = [int(layout.edge_variable[edge]) for edge in edges]
        scores = np.array(compiled.log_values(factor, [domain[v] for v in owners]))
        own = [weight[slot_start[edge] :][: len(domain[v])] for edge, v in zip(edges, owners, strict=True)]
        for axis, edge in enumerate(edges):
            others = scores
            for k, log_weight in enumerate(own):
                if k != axis:
                    others = others + log_weight.reshape([-1 if k == m else 1 for m in range(len(edges))])
            sums = np.logaddexp.reduce(np.moveaxis(others, axis, 0).reshape(scores.shape[axis], -1), axis=1)
            told[edge] = sums - sums.max()
        for v in owners if len(told) == len(layout.edge_variable) else ():
            of_prior = prior.log_prior[prior.slot_start[v] + domain[v]]
            for edge in compiled.edges_of(v):
                log_weight = of_prior + sum(told[other] for other in compiled.edges_of(v) if other != edge)
                weight[slot_start[edge] :][: len(domain[v])] = log_weight - log_weight.max()


def settled_weights(found, domain):
    """Return where each edge's states start, and the logs of messages from variables to factors at a fixed point.

    It is the one of the round, from whose messages more are sent here: around loops of functions, other messages may
    belong to the same marginals, and say something else of states outside.
    """
    whole, model, compiled = found._whole, found._known.model, found._whole.graph
    owners = compiled.arrays.edge_variable.tolist()
    slot_start = np.cumsum([0, *(len(domain[v]) for v in owners)])
    prior, weight = full_domains(compiled, {}), np.empty(slot_start[-1])
    for edge, v in enumerate(owners):  # what leaves that were summed out send
        weight[slot_start[edge] : slot_start[edge + 1]] = prior.log_prior[prior.slot_start[v] + domain[v]]
    for ours, edge in enumerate(whole.edge.tolist()):
        v, start = owners[edge], model.arrays.edge_slot_start[ours]
        states = model.active.state[model.active.start[v] : model.active.start[v + 1]]
        weight[slot_start[edge] : slot_start[edge + 1]] = model.log_weights[start:][: len(states)][np.argsort(states)]
    settle_gone_states(compiled, domain, slot_start, weight)
    return slot_start, weight


def with_one_outside(found, states, counted):
    """Return the marginals where joint states count of which one variable at the most is outside its domain.

    States that are not among those `counted` have no belief. Messages to all states are summed up from the domains of
    the others. A leaf that was summed out hears of its neighbours' states outside, one at a time; everybody else's
    belief is the prior times the messages.
    """
    compiled, summed_out = found._whole.graph, found._whole.is_leaf
    layout, prior = compiled.arrays, full_domains(compiled, {})
    universe = [np.arange(n) for n in compiled.universe_sizes]
    domain = [np.array(sorted(states[v])) for v in range(len(universe))]
    slot_start, weight = settled_weights(found, domain)
    told = {}
    for edge in range(len(layout.edge_variable)):
        edges = compiled.edges(int(layout.edge_factor[edge]))
        axis = edges.index(edge)
        asked = [(universe if e == edge else domain)[layout.edge_variable[e]] for e in edges]
        scores = np.array(compiled.log_values(int(layout.edge_factor[edge]), asked))
        for k, e in enumerate(edges):
            if e != edge:
                own = weight[slot_start[e] :][: len(asked[k])]
                scores += own.reshape([-1 if k == m else 1 for m in range(len(edges))])
        told[edge] = np.logaddexp.reduce(np.moveaxis(scores, axis, 0).reshape(scores.shape[axis], -1), axis=1)
    log_belief = [
        prior.log_prior[prior.slot_start[v] : prior.slot_start[v + 1]] + sum(told[e] for e in compiled.edges_of(v))
        for v in range(len(universe))
    ]
    for own, kept in zip(log_belief, counted, strict=True):
        own[~np.isin(np.arange(len(own)), kept)] = -np.inf
    for leaf in np.flatnonzero(summed_out).tolist():
        (edge,) = compiled.edges_of(leaf)
        edges = compiled.edges(int(layout.edge_factor[edge]))
        asked = [universe[layout.edge_variable[e]] for e in edges]
        scores = np.array(compiled.log_values(int(layout.edge_factor[edge]), asked))
        n_outside = np.zeros(scores.shape, dtype=int)
        for k, e in enumerate(edges):
            v = int(layout.edge_variable[e])
            shape = [-1 if k == m else 1 for m in range(len(edges))]
            n_outside += (~np.isin(universe[v], domain[v])).reshape(shape)
            n_outside += 2 * (~np.isin(universe[v], counted[v])).reshape(shape)
            own = prior.log_prior[prior.slot_start[v] : prior.slot_start[v + 1]]
            own = own + sum(told[other] for other in compiled.edges_of(v) if other != e)
            scores += own.reshape(shape)
        scores[n_outside > 1] = -np.inf
        axis = edges.index(edge)
        log_belief[leaf] = np.logaddexp.reduce(np.moveaxis(scores, axis, 0).reshape(scores.shape[axis], -1), axis=1)
    return [np.exp(own - np.logaddexp.reduce(own)) for own in log_belief]


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("kind", MODELS)
@settings(parent=few, suppress_health_check=["function_scoped_fixture"])
@example(seed=149)  # hard zeros among the states outside
@example(seed=887)  # a state is gone, but not for the factor that says so
@example(seed=2643)  # the same, and `bp` has not settled it
@example(seed=54332)  # functions around a loop: messages of one round and of `bp` differ where their marginals do not
@given(seed=seeds)
def test_after_a_look_the_states_outside_count(kind, seed):
    graph = MODELS[kind](seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "FAR", 1e3)  # every state is within reach
        patch.setattr(rounds, "NEGLIGIBLE", 1e-30)
        patch.setattr(relations_look, "NEGLIGIBLE", 1e-30)
        patch.setattr(rounds, "QUICK", 0.0)  # no half of a look is answered with
        for found in all_rounds(graph, tails=True, tolerance=1e-12):
            ours, states = found.read(settled=True), states_of(found)
            if not abp.infer(graph, "bp", evidence=states, tolerance=1e-12).consistent:
                continue
            everything = [np.arange(n) for n in graph.variables.sizes()]
            expected = with_one_outside(found, states, everything)
            assert ours.consistent
            for variable, marginal in zip(ours.marginals.values(), expected, strict=True):
                assert variable == pytest.approx(marginal, abs=1e-9)


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("kind", ["hub", "leaves", "tied leaves", "tied potentials", "rules"])
@settings(parent=few, suppress_health_check=["function_scoped_fixture"])
@example(seed=0)
@given(seed=seeds)
def test_after_half_a_look_the_states_count_that_it_has_found(kind, seed):
    graph, n_states = MODELS[kind](seed), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "FAR", 1e3)  # every state is within reach
        patch.setattr(rounds, "NEGLIGIBLE", 1e-30)
        patch.setattr(relations, "FIRST_WORTH", 0.0)  # no look at all states at once
        patch.setattr(rounds, "SMALL_SPREAD", np.inf)  # halves of looks are answered with
        patch.setattr(rounds, "QUICK", 1.0)
        patch.setattr(rounds, "LATER", 0.3)
        for found in all_rounds(graph, tails=True, tolerance=1e-12):
            ours, states, counted = found.read(settled=True), states_of(found), counted_states(found)
            n_states.append(sum(map(len, counted)))
            expected = with_one_outside(found, states, counted)
            assert ours.consistent
            assert ours.unexplored_mass <= 1.0
            for variable, marginal in zip(ours.marginals.values(), expected, strict=True):
                assert variable == pytest.approx(marginal, abs=1e-9)
    assert kind != "tied leaves" or seed != 0 or n_states[0] < n_states[1]  # there was a half


@few
@given(seed=seeds)
def test_log_z_counts_the_states_outside(seed):
    """On a forest of two variables it is exact: one state outside at a time is all that a look leaves out."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(2, 12)
    graph.add_factors([[0], [1]], log_table=np.array([np.r_[0.0, np.full(11, -30.0)], rng.normal(0, 6, 12)]))
    graph.add_factor([0, 1], log_table=rng.normal(0, 0.5, (12, 12)))
    exact = abp.infer(graph, "bp", tolerance=1e-12).log_z
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "FAR", 1e3)  # every state is within reach
        patch.setattr(rounds, "LEFT_OUT", 0.0)
        patch.setattr(rounds, "QUICK", 0.0)
        for found in all_rounds(graph, tails=True, tolerance=1e-12):
            assert found.read(settled=True).log_z == pytest.approx(exact, abs=1e-6)


# ---------------------------------------------------------------- when answers are made
def many_tied_leaves():
    """Return variables of few likely states, all tied to each other by one table whose leaves are relations."""
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    types, pairs = graph.add_variables(7, 24), np.array([[a, b] for a in range(7) for b in range(7) if a != b])
    relations = np.array(graph.add_variables(len(pairs), 20))
    graph.add_factors(np.array(types)[:, None], log_table=rng.normal(0.0, 6.0, (7, 24)))
    graph.add_factors(relations[:, None], log_table=rng.normal(0.0, 3.0, (len(pairs), 20)))
    graph.add_factors(np.column_stack([pairs, relations]), log_table=rng.normal(0.0, 0.5, (24, 24, 20)))
    return graph


def test_answers_that_are_read_late_are_those_that_are_read_at_once():
    graph = many_tied_leaves()
    early = [snapshot.marginals.concatenated() for snapshot in islice(abp.Inference(graph, "adaptive"), 2)]
    first, second, _ = islice(abp.Inference(graph, "adaptive"), 3)
    assert first.choice.startswith("rounds on likely states")
    for late, before in zip((first, second), early, strict=True):
        assert callable(late.marginals._known)  # nobody has read it yet
        given = late.marginals.concatenated()
        assert (given == before).all()
        given[:] = 2.0  # the caller's own
        assert (late.marginals.concatenated() == before).all()
        assert (late.marginals[0] == before[: len(late.marginals[0])]).all()
        assert (late.marginals.concatenated() == before).all()


def test_a_budget_that_ends_while_a_small_graph_is_set_up_gives_the_first_round():
    right = next(iter(abp.Inference(many_tied_leaves(), "adaptive")))
    result = abp.infer(many_tied_leaves(), "adaptive", seconds=1e-9)
    assert result.stop_reason is abp.StopReason.OUT_OF_TIME
    assert result.consistent
    assert (result.marginals.concatenated() == right.marginals.concatenated()).all()
    assert not abp.infer(many_tied_leaves(), "adaptive", seconds=0.0).consistent


def test_a_first_round_that_is_quick_is_made_in_one_slice():
    graph = many_tied_leaves()
    task = new_task(graph, abp.Inference(graph, "adaptive")._options)
    run = AdaptiveRun(task)
    assert next(steps(run, task.figures)) is Step.RECORD
    assert run.read(settled=True).consistent


@pytest.mark.parametrize(("loses", "is_held_back"), [(0.0, False), (rounds.LOSES, True)])
def test_a_round_that_loses_more_than_it_gains_is_not_answered_with(monkeypatch, loses, is_held_back):
    """States outside that a look has weighed well count no longer after the round that follows it."""
    monkeypatch.setattr(rounds, "THRESHOLDS", (1e-3,))
    monkeypatch.setattr(rounds, "LOSES", loses)
    rng = np.random.default_rng(2)
    graph = abp.FactorGraph()
    pairs = np.array([[0, 1], [1, 2], [2, 0]])
    graph.add_variables(3, 24)
    graph.add_factors([[0], [1], [2]], log_table=rng.normal(0.0, 6.0, (3, 24)))
    graph.add_factors(pairs, log_table=rng.normal(0.0, 0.05, (3, 24, 24)))
    right, (_, stage, seen) = abp.infer(graph, "bp", tolerance=1e-12), staged(graph)
    errors = [snapshot.distance(right) for snapshot in seen if snapshot.choice.startswith("rounds")]
    assert (stage._told is not stage._known) == is_held_back
    assert stage._told is stage._known or stage._told.tail is not None
    assert (errors[-1] == min(errors)) == is_held_back
    assert seen[-1].distance(right) < 1e-8


# ---------------------------------------------------------------- what comes after
@few
@given(seed=seeds)
def test_messages_go_on_over_all_states(seed):
    graph = ring_with_leaves(seed)
    *_, found = all_rounds(graph, tolerance=1e-10)
    compiled = found._whole.compiled
    whole = compiled_graph(graph)
    workspace = Workspace(whole, full_domains(whole, {}), LINEAR)
    found.put_messages(workspace)
    model, layout = found._known.model, workspace.layout
    for edge, number in enumerate(found._whole.edge.tolist()):
        variable = int(layout.edge_variable[number])
        given_states = model.active.state[model.active.start[variable] : model.active.start[variable + 1]]
        ours = workspace.arrays.message[workspace.arrays.edge_slot_start[number] :][: workspace.domains.sizes[variable]]
        start = model.arrays.edge_slot_start[edge]
        expected = np.full(len(ours), model.arrays.edge_min[edge])
        expected[given_states] = model.arrays.message[start : start + len(given_states)]
        assert ours == pytest.approx(expected)
        assert workspace.arrays.edge_min[number] == ours.min()
        assert compiled.arrays.edge_variable[edge] == variable


def staged(graph, **options):
    """Run to the end, with all rounds; return the run, its rounds, and the snapshots on the way."""
    task = new_task(graph, abp.Inference(graph, "adaptive", **options)._options)
    run, stage, seen = AdaptiveRun(task, at_any_cost=True), None, []
    for step in steps(run, task.figures):
        stage = run.now if isinstance(run.now, Rounds) else stage
        if step is Step.RECORD:
            seen.append(run.read(settled=False))
    return run, stage, seen


def apart(**scores):
    """Return three variables whose five likely states each admit no joint state."""
    graph = abp.FactorGraph()
    graph.add_variables(3, 30)
    own = np.r_[np.zeros(5), np.full(25, -30.0)]
    graph.add_factors([[0], [1], [2]], log_table=own)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], **scores)
    return graph


FAR_OUT = np.add.outer(np.arange(30), np.arange(30)) > 35
APART = {
    "table": {"log_table": np.where(FAR_OUT, 0.0, -np.inf)},
    "rule": {"rule": lambda i, j: np.where(i + j > 35, 0.0, -np.inf)},
    "list": {"entries": (np.argwhere(FAR_OUT), np.zeros(int(FAR_OUT.sum())))},
}


@pytest.mark.parametrize("stated", APART)
def test_domains_that_admit_no_joint_state_grow_until_they_do(stated):
    graph = apart(**APART[stated])
    run, stage, seen = staged(graph)
    assert stage.outcome is Outcome.CLOSE
    assert seen[0].consistent
    assert (seen[0].domain_sizes < 30).all()
    assert run.read(settled=False).distance(abp.infer(graph, "bp", tolerance=1e-12)) < 1e-7


def test_domains_double_where_factors_exclude_each_other():
    graph = abp.FactorGraph()
    graph.add_variables(3, 40)
    graph.add_factors([[0], [1], [2]], log_table=-1.0 * np.arange(40))
    i, j = np.indices((40, 40))
    graph.add_factors([[0, 1], [1, 2]], log_table=np.where(i < j, 0.0, -np.inf))  # each of them likes 0 and 1
    graph.add_factor([2, 0], log_table=np.where(j + 17 <= i, 0.0, -np.inf))
    run, stage, seen = staged(graph)
    assert stage.outcome is Outcome.CLOSE
    assert seen[0].domain_sizes.sum() < 120
    assert run.read(settled=False).distance(abp.infer(graph, "bp", tolerance=1e-12)) < 1e-7


def test_a_model_without_joint_states_is_left_for_whole_tables():
    graph = abp.FactorGraph()
    graph.add_variables(3, 3)
    i, j = np.indices((3, 3))
    graph.add_factors([[0, 1], [1, 2]], log_table=np.where(i < j, 0.0, -np.inf))
    graph.add_factor([2, 0], log_table=np.where(i < j, 0.0, -np.inf))
    with pytest.raises(abp.InconsistentModelError):
        staged(graph)


def oscillating():
    """Return a graph of strong couplings whose messages go to and fro unless they are damped."""
    rng = np.random.default_rng(2)
    graph = abp.FactorGraph()
    graph.add_variables(9, 3)
    graph.add_factors([[i] for i in range(9)], log_table=rng.normal(0.0, 0.3, (9, 3)))
    scopes = [[i, j] for i in range(9) for j in range(i) if rng.random() < 0.6]
    graph.add_factors(scopes, log_table=rng.normal(0.0, 2.0, (len(scopes), 3, 3)))
    return graph


@pytest.mark.usefixtures("tight")
def test_rounds_whose_messages_oscillate_are_damped(monkeypatch):
    monkeypatch.setattr(settling, "MAX_SWEEPS", 10)
    _, stage, seen = staged(oscillating(), tolerance=1e-3)
    assert stage.outcome is not Outcome.UNSETTLED
    assert seen[0].consistent
    assert seen[0].damping > 0.0


def test_rounds_that_do_not_settle_are_given_up(monkeypatch):
    monkeypatch.setattr(settling, "MAX_SWEEPS", 1)
    monkeypatch.setattr(settling, "MOST_SWEEPS", 1)
    graph = peaked(3)
    run, stage, _ = staged(graph)
    assert stage.outcome is Outcome.UNSETTLED
    assert run._figures.choice == f"full BP: {Outcome.UNSETTLED.value}"
    assert run.read(settled=False).distance(abp.infer(graph, "bp", tolerance=1e-12)) < 1e-7


@few
@given(seed=seeds)
def test_damping_that_was_asked_for_counts_in_rounds(seed):
    graph = peaked(seed)
    run, stage, seen = staged(graph, damping=0.3)
    assert stage is not None
    assert all(snapshot.damping == 0.3 for snapshot in seen)
    assert run.read(settled=False).distance(abp.infer(graph, "bp", tolerance=1e-12)) < 1e-7


@few
@given(seed=seeds)
def test_leaves_get_states_of_their_own_in_log_arithmetic(seed):
    graph = ring_with_leaves(seed)
    n = graph.variables[0].n_states
    graph.add_factor([0, 1], log_table=np.where(np.eye(n) > 0, -1500.0, 0.0))
    for found in all_rounds(graph, tolerance=1e-10):
        ours = found.read(settled=True)
        if ours.arithmetic == "log":
            assert not found._known.model.whole.has_leaves
            states = states_of(found)
            assert all(len(states[v]) == graph.variables[v].n_states for v in range(4, 8))
            expected = abp.infer(graph, "bp", evidence=states, tolerance=1e-12)
            assert ours.distance(expected) < 0.1  # as loosely as rounds settle


def test_of_several_leaves_the_longest_is_summed_out_and_rules_keep_theirs():
    graph = abp.FactorGraph()
    for k, n in enumerate([3, 2, 5, 4, 3]):
        graph.add_variable(f"v{k}", n)
    graph.add_factor([0, 1], log_table=np.zeros((3, 2)))
    graph.add_factor([0, 2, 1, 3], log_table=np.zeros((3, 5, 2, 4)))
    graph.add_factor([0, 1, 4], rule=lambda a, b, c: 0.1 * (a + b + c))
    compiled = compiled_graph(graph)
    whole = WholeModel(compiled, full_domains(compiled, {}), sum_out=True)
    assert whole.sources.leaf.tolist() == [-1, 2, -1]
    assert np.flatnonzero(whole.is_leaf).tolist() == [2]
    assert whole.sources.size.tolist() == [6, 120, 18]
    assert whole.sources.leaf_stride.tolist() == [0, 8, 0]
    assert whole.sources.edge_stride.tolist() == [2, 1, 40, 4, 1, 6, 3, 1]
    assert whole.edge.tolist() == [0, 1, 2, 4, 5, 6, 7, 8]
    assert whole.compiled.arrays.factor_edge_start.tolist() == [0, 2, 5, 8]
    assert whole.compiled.arrays.variable_edge.tolist() == [0, 2, 5, 1, 3, 6, 4, 7]
    assert not WholeModel(compiled, full_domains(compiled, {}), sum_out=False).has_leaves

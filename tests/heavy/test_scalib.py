"""Marginals of structured graphs beside those of SCALib, where both settle."""

import warnings

import numpy as np
import pytest

import anytimebp as abp

scalib = pytest.importorskip("scalib.attacks")

SIGNS = {"^": abp.Xor(), "&": abp.And(), "+": abp.ModularSum([1, 1, -1])}
ROUNDS = 400  # all messages at once, which settle later than ours one by one


def random_lines(rng, n_states, n_variables, n_factors):
    """Return a graph in SCALib's language: random triples, S-boxes and negations."""
    lines = [f"NC {n_states}", f"TABLE t = {rng.permutation(n_states).tolist()}"]
    lines += [f"VAR SINGLE x{k}" for k in range(n_variables)]
    for k in range(n_factors):
        a, b, c = rng.choice(n_variables, 3, replace=False).tolist()
        sign = rng.choice([*SIGNS, "t", "!"])
        how = {"t": f"t[x{a}]", "!": f"!x{a}"}.get(sign, f"x{a} {sign} x{b}")
        lines.append(f"PROPERTY f{k}: x{c} = {how}")
    return "\n".join(lines) + "\n"


def their_marginals(text, log_scores):
    """Return what SCALib finds after many rounds, and what the last one has moved."""
    state = scalib.BPState(scalib.FactorGraph(text), 1)
    for k, own in enumerate(log_scores):
        weight = np.exp(own - own.max())
        state.set_evidence(f"x{k}", weight / weight.sum())
    names = [f"x{k}" for k in range(len(log_scores))]
    state.bp_loopy(ROUNDS, initialize_states=True)
    before = [np.array(state.get_distribution(name)) for name in names]
    state.bp_loopy(1, initialize_states=False)
    after = [state.get_distribution(name) for name in names]
    return after, max(np.abs(a - b).max() for a, b in zip(after, before, strict=True))


@pytest.mark.parametrize("n_states", [16, 256, 1024])
@pytest.mark.parametrize("seed", range(8))
def test_marginals_are_those_of_scalib(n_states, seed, tmp_path):
    rng = np.random.default_rng([n_states, seed])
    n_variables = 12
    text = random_lines(rng, n_states, n_variables, 6)
    log_scores = rng.normal(0.0, 0.7, (n_variables, n_states))
    (tmp_path / "graph.sasca").write_text(text)
    graph = abp.read_model(tmp_path / "graph.sasca")
    evidence = {f"x{k}": own for k, own in enumerate(log_scores)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abp.NotConvergedWarning)
        result = abp.infer(graph, "bp", evidence=evidence, tolerance=1e-10, max_updates=20_000)
    try:
        theirs, moved = their_marginals(text, log_scores)
    except BaseException as error:  # of Rust, which is no Exception
        if type(error).__name__ != "PanicException":
            raise
        pytest.skip("SCALib has lost its digits")
    if result.stop_reason is not abp.StopReason.CONVERGED or moved > 1e-9:
        pytest.skip(f"ours ended as {result.stop_reason.name}; SCALib still moves by {moved:.0e}")
    for k, wanted in enumerate(theirs):
        np.testing.assert_allclose(result.marginals[f"x{k}"], wanted, rtol=0.0, atol=1e-6)

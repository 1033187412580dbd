"""Marginals of structured graphs beside those of SCALib, which sends the same messages for as many rounds."""

import warnings

import numpy as np
import pytest

import anytimebp as abp

scalib = pytest.importorskip("scalib.attacks")

SIGNS = {"^": abp.Xor(), "&": abp.And(), "+": abp.ModularSum([1, 1, -1])}
ROUNDS = 60


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
    """Return what SCALib finds after many rounds."""
    state = scalib.BPState(scalib.FactorGraph(text), 1)
    for k, own in enumerate(log_scores):
        weight = np.exp(own - own.max())
        state.set_evidence(f"x{k}", weight / weight.sum())
    state.bp_loopy(ROUNDS, initialize_states=True)
    return [state.get_distribution(f"x{k}") for k in range(len(log_scores))]


@pytest.mark.parametrize("n_states", [4, 16, 256])
@pytest.mark.parametrize("seed", range(8))
def test_marginals_are_those_of_scalib(n_states, seed, tmp_path):
    rng = np.random.default_rng([n_states, seed])
    n_variables = 9
    text = random_lines(rng, n_states, n_variables, 6)
    log_scores = rng.normal(0.0, 1.0, (n_variables, n_states))
    (tmp_path / "graph.sasca").write_text(text)
    graph = abp.read_model(tmp_path / "graph.sasca")
    evidence = {f"x{k}": own for k, own in enumerate(log_scores)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", abp.NotConvergedWarning)
        try:
            result = abp.infer(graph, "bp", evidence=evidence, tolerance=1e-10, max_updates=6 * ROUNDS)
        except abp.NotConvergedWarning:
            pytest.skip("neither settles")
    if result.stop_reason is not abp.StopReason.CONVERGED:
        pytest.skip("it settles later than SCALib's rounds end")
    for k, wanted in enumerate(their_marginals(text, log_scores)):
        np.testing.assert_allclose(result.marginals[f"x{k}"], wanted, rtol=0.0, atol=1e-6)

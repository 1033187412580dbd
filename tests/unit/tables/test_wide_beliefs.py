"""Which runs begin in logs because the product of many messages would not be a double."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference import all_states


def attack(nats, n_traces=40, n=16):
    """Return a key, and for each trace an XOR with a public number and an S-box, whose value is scored."""
    rng, graph, evidence = np.random.default_rng(0), abp.FactorGraph(), {}
    graph.add_variable("key", n)
    box = rng.permutation(n)
    for k in range(n_traces):
        for name in ("text", "mixed", "value"):
            graph.add_variable(f"{name} {k}", n)
        graph.add_factor(["key", f"text {k}", f"mixed {k}"], structure=abp.Xor())
        graph.add_factor([f"mixed {k}", f"value {k}"], structure=abp.Deterministic(lambda x: box[x]))
        text = int(rng.integers(n))
        evidence |= {f"text {k}": text, f"value {k}": -nats * (np.arange(n) != box[5 ^ text])}
    return graph, evidence


@pytest.mark.parametrize(("nats", "arithmetic"), [(1.0, "linear"), (200.0, "log")])
def test_a_key_of_many_traces_begins_in_logs_if_its_belief_leaves_doubles(monkeypatch, nats, arithmetic):
    graph, evidence = attack(nats)
    began, take = [], all_states.AllStates._take_workspace
    monkeypatch.setattr(all_states.AllStates, "_take_workspace", lambda *given: (began.append(given[2]), take(*given)))
    result = abp.infer(graph, "bp", evidence=evidence)
    assert result.arithmetic == arithmetic
    assert len(began) == 1  # it did not begin again
    assert result.top("key")[0][0] == 5
    assert result.marginals["key"].min() >= 0.0


def test_a_start_in_logs_changes_no_marginal(monkeypatch):
    graph, evidence = attack(20.0)
    marginals = []
    for wide in (False, True):
        monkeypatch.setattr(all_states, "outgrows_doubles", lambda *_, wide=wide: wide)
        marginals.append(abp.infer(graph, "bp", evidence=evidence).marginals.concatenated())
    np.testing.assert_allclose(marginals[0], marginals[1], rtol=1e-9, atol=1e-300)

"""XOR, AND and + beside SCALib, in one process: processor time of an update of a factor, set-up apart.

Run it with a Python that has scalib and this library: `python scalib_speed.py`. SCALib updates all factors, then all
variables; `bp` updates factor after factor, each with the messages that its variables send. So one sweep of each has
updated every message once. Graphs: a ring of inputs with a value for each pair of neighbours, and random triples.
"""

import os
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

os.environ.setdefault("RAYON_NUM_THREADS", "1")

import numpy as np
from scalib.attacks import BPState
from scalib.attacks import FactorGraph as ScalibGraph

import anytimebp as abp

SIZES = {256: 100, 1_024: 50, 4_096: 20, 65_536: 6}  # states, and factors
SWEEPS, ROUNDS = 3, 6
OPERATIONS = {"XOR": ("^", abp.Xor()), "AND": ("&", abp.And()), "+": ("+", abp.ModularSum([1, 1, -1]))}
MEAN_BAR, LEAST_BAR = 1.2, 0.7


def ring(n_factors, _rng):
    """Return triples of two neighbours on a ring, and a variable of their own."""
    return [(k, (k + 1) % n_factors, n_factors + k) for k in range(n_factors)]


def random_triples(n_factors, rng):
    """Return triples of two random inputs, of half as many as there are factors, and a variable of their own.

    So there are loops everywhere: on trees, `bp` would leave out what has settled.
    """
    inputs = max(3, n_factors // 2)
    return [(*rng.choice(inputs, 2, replace=False).tolist(), n_factors + k) for k in range(n_factors)]


def our_seconds(structure, n, scopes, scores):
    """Return the seconds of an update, and marginals after as many sweeps."""
    graph = abp.FactorGraph()
    graph.add_variables(len(scores), n)
    graph.add_factors(np.arange(len(scores))[:, np.newaxis], log_table=scores)
    graph.add_factors(scopes, structure=structure)
    best = np.inf
    for _ in range(ROUNDS):
        inference = abp.Inference(graph, "bp", tolerance=1e-300, record="end")
        before = inference.run(max_updates=len(scopes)).updates
        started = process_time()
        after = inference.run(max_updates=SWEEPS * len(scopes)).updates
        best = min(best, (process_time() - started) / (after - before))
    return best


def their_seconds(sign, n, scopes, scores):
    """Return the seconds of an update."""
    lines = [f"NC {n}", *(f"VAR SINGLE x{k}" for k in range(len(scores)))]
    lines += [f"PROPERTY f{k}: x{c} = x{a} {sign} x{b}" for k, (a, b, c) in enumerate(scopes)]
    graph, best = ScalibGraph("\n".join(lines) + "\n"), np.inf
    for _ in range(ROUNDS):
        state = BPState(graph, 1)
        for k, own in enumerate(scores):
            weight = np.exp(own - own.max())
            state.set_evidence(f"x{k}", weight / weight.sum())
        state.bp_loopy(1, initialize_states=True)
        started = process_time()
        state.bp_loopy(SWEEPS, initialize_states=False)
        best = min(best, (process_time() - started) / (SWEEPS * len(scopes)))
    return best


ATTACK = """
NC 256
TABLE sbox
VAR SINGLE k
PUB MULTI p
VAR MULTI x
VAR MULTI y
PROPERTY x = k ^ p
PROPERTY y = sbox[x]
"""


def attack(noise, n_traces=1_000):
    """Return the seconds in which both find a byte of a key, from Hamming weights, and those of setting up before.

    Setting up: SCALib takes evidence into a state of its graph; we check the evidence, add up priors, and write down
    what is summed. The graphs are there before that.
    """
    rng, weight = np.random.default_rng(0), np.array([state.bit_count() for state in range(256)])
    sbox, plaintext, key = rng.permutation(256), rng.integers(256, size=n_traces), 173
    measured = weight[sbox[plaintext ^ key]] + rng.normal(0.0, noise, n_traces)
    scores = -0.5 * ((measured[:, np.newaxis] - weight) / noise) ** 2
    theirs, their_set_up, state = np.inf, np.inf, None
    graph = ScalibGraph(ATTACK, {"sbox": sbox.astype(np.uint32)})
    for _ in range(ROUNDS):
        began = process_time()
        state = BPState(graph, n_traces, {"p": plaintext.astype(np.uint32)})
        likelihood = np.exp(scores)
        state.set_evidence("y", likelihood / likelihood.sum(axis=1, keepdims=True))
        started = process_time()
        state.bp_loopy(2, initialize_states=True)  # from y to x, and from x to k
        theirs, their_set_up = min(theirs, process_time() - started), min(their_set_up, started - began)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "attack.sasca"
        file.write_text(ATTACK)
        graph = abp.read_model(file, tables={"sbox": sbox}, n_executions=n_traces)
    evidence = {f"p[{k}]": int(own) for k, own in enumerate(plaintext)}
    evidence |= {f"y[{k}]": own for k, own in enumerate(scores)}
    ours, whole, result = np.inf, np.inf, abp.infer(graph, "bp", evidence=evidence)
    for _ in range(ROUNDS):
        inference = abp.Inference(graph, "bp", evidence=evidence, record="end")
        while not inference.run(max_updates=0).work:  # a slice of setting up at a time, each of which reads an answer
            pass
        started = process_time()
        result = inference.run()
        ours, began = min(ours, process_time() - started), process_time()
        abp.Inference(graph, "bp", evidence=evidence, record="end").run()
        whole = min(whole, process_time() - began)
    belief, their_belief = result.marginals["k"], state.get_distribution("k")
    found = belief.argmax() == key and their_belief.argmax() == key
    return theirs, ours, their_set_up, whole - ours, found


def attacks():
    """Print a row for each level of noise."""
    header = ["leakage of 1,000 traces", "SCALib, ms", "anytimebp, ms", "times as fast"]
    header += ["set-up of SCALib, ms", "set-up of anytimebp, ms", "key found by both"]
    print(f"\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for name, noise in (("noise 4", 4.0), ("noise 1", 1.0), ("peaked, noise 0.1", 0.1)):
        theirs, ours, *set_up, found = attack(noise)
        first, second = (f"{1e3 * own:.1f}" for own in set_up)
        row = [name, f"{1e3 * theirs:.1f}", f"{1e3 * ours:.1f}", f"{theirs / ours:.2f}", first, second, str(found)]
        print("|", " | ".join(row), "|", flush=True)


def main():
    """Print a row for each operation, graph and number of states, and the bars."""
    warnings.simplefilter("ignore")
    attacks()
    ratios = []
    print("| operation | graph | states | SCALib, us | anytimebp, us | times as fast |\n|---|---|---|---|---|---|")
    for name, (sign, structure) in OPERATIONS.items():
        for make in (ring, random_triples):
            ours = {}
            for n, n_factors in SIZES.items():
                rng = np.random.default_rng(0)
                scopes = make(n_factors, rng)
                scores = rng.normal(0.0, 1.0, (2 * n_factors, n))
                ours[n] = our_seconds(structure, n, scopes, scores)
                theirs = their_seconds(sign, n, scopes, scores)
                ratios.append(theirs / ours[n])
                row = [name, make.__name__.replace("_", " "), f"{n:,}", f"{1e6 * theirs:.1f}", f"{1e6 * ours[n]:.1f}"]
                print("|", " | ".join([*row, f"{ratios[-1]:.2f}"]), "|", flush=True)
            slope = np.polyfit(np.log(list(ours)), np.log(list(ours.values())), 1)[0]
            print(f"| {name} | {make.__name__.replace('_', ' ')} | exponent of states | | {slope:.2f} | |", flush=True)
    mean = np.exp(np.mean(np.log(ratios)))
    print(f"\ngeometric mean {mean:.2f} (at least {MEAN_BAR}), slowest {min(ratios):.2f} (at least {LEAST_BAR})")


if __name__ == "__main__":
    main()

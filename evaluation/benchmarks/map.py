"""The most probable joint state of model files: score, bound and time, beside rounded marginals and toulbar2.

    python evaluation/benchmarks/map.py FOLDER [--seconds 10] [--toulbar2 PYTHON]

FOLDER holds .uai files, with evidence in .uai.evid beside them. PYTHON is an interpreter that has pytoulbar2.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import anytimebp as abp
from anytimebp.model.evidence import read_evidence_mapping
from anytimebp.model.joint_score import joint_log_score

CLOSE = 0.01  # gap, relative to the score

TOULBAR2 = """
import json, sys, time
import pytoulbar2
path, evidence, seconds = sys.argv[1], json.loads(sys.argv[2]), int(float(sys.argv[3]))
problem = pytoulbar2.CFN(resolution=6, verbose=-1)
began = time.perf_counter()
problem.Read(path)
for index, state in evidence:
    problem.CFN.wcsp.assign(index, state)
problem.CFN.timer(seconds)
found = problem.Solve(timeLimit=seconds)
print(json.dumps([found[0] if found else None, time.perf_counter() - began]))
"""


def rounded_score(graph: abp.FactorGraph, observed: dict[str, object]) -> float:
    """Return the log score of the joint state of the likeliest states."""
    result = abp.infer(graph, evidence=observed, seconds=30.0)
    states = np.array([int(result.marginals[i].argmax()) for i in range(len(graph.variables))])
    return joint_log_score(graph.blocks, graph.variables, read_evidence_mapping(observed, graph.variables), states)


def of_toulbar2(python: str, path: Path, graph: abp.FactorGraph, observed: dict[str, object], seconds: float) -> str:
    """Return what toulbar2 finds: its log score as it counts it, and its time."""
    pairs = [(graph.variables.index_of(k), graph.variables[k].state_index(v)) for k, v in observed.items()]
    call = [python, "-c", TOULBAR2, str(path), json.dumps(pairs), str(seconds)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=seconds + 60)
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    if not lines:
        return "no answer"
    states, took = json.loads(lines[-1])
    if states is None:
        return f"none in {took:.2f} s"
    known = read_evidence_mapping(observed, graph.variables)
    score = joint_log_score(graph.blocks, graph.variables, known, np.array(states, dtype=np.int64))
    return f"{score:.4f} in {took:.3f} s"


def load_kernels() -> None:
    """Search on small graphs, by both methods, so that no model is charged for loading or compiling."""
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], log_table=[[0.1, 0.0], [0.0, 0.2]])
    for method in ("exact", "bp"):
        abp.infer_map(graph, method)


def main() -> None:
    """Print a line per model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--toulbar2")
    given = parser.parse_args()
    out = sys.stdout.write
    out("| model | method | score | bound | gap | seconds | gap under 1 %, s | rounded marginals | toulbar2 |\n")
    out("|" + " --- |" * 9 + "\n")
    load_kernels()
    for path in sorted(given.folder.glob("*.uai")):
        graph = abp.read_model(path)
        evidence = path.with_name(path.name + ".evid")
        observed = abp.read_evidence(evidence, graph) if evidence.exists() else {}
        began = time.perf_counter()
        result = abp.infer_map(graph, evidence=observed, seconds=given.seconds)
        took, gap = time.perf_counter() - began, result.upper_bound - result.log_score
        other = of_toulbar2(given.toulbar2, path, graph, observed, given.seconds) if given.toulbar2 else "not run"
        rounded, size = rounded_score(graph, observed), max(1.0, abs(result.log_score))
        close = [own.seconds for own in result.trace if own.upper_bound - own.log_score <= CLOSE * size]
        out(
            f"| {path.stem} | {result.method} | {result.log_score:.4f} | {result.upper_bound:.4f} | "
            f"{gap / size:.2%} | {took:.3f} | {f'{close[0]:.3f}' if close else ''} | {rounded:.4f} | {other} |\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()

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
    return f"{score:.4f} in {took:.2f} s"


def main() -> None:
    """Print a line per model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--toulbar2")
    given = parser.parse_args()
    out = sys.stdout.write
    out("| model | method | score | bound | gap | seconds | rounded marginals | toulbar2 |\n|" + " --- |" * 8 + "\n")
    for path in sorted(given.folder.glob("*.uai")):
        graph = abp.read_model(path)
        evidence = path.with_name(path.name + ".evid")
        observed = abp.read_evidence(evidence, graph) if evidence.exists() else {}
        began = time.perf_counter()
        result = abp.infer_map(graph, evidence=observed, seconds=given.seconds)
        took, gap = time.perf_counter() - began, result.upper_bound - result.log_score
        other = of_toulbar2(given.toulbar2, path, graph, observed, given.seconds) if given.toulbar2 else "not run"
        rounded, share = rounded_score(graph, observed), gap / max(1.0, abs(result.log_score))
        out(
            f"| {path.stem} | {result.method} | {result.log_score:.4f} | {result.upper_bound:.4f} | "
            f"{share:.2%} | {took:.2f} | {rounded:.4f} | {other} |\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()

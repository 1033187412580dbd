"""Measures `bp` against a fixed older version of the library, and prints a table of ratios.

    python limits.py --old FOLDER [--models FOLDER] [--nerel FOLDER] [--rounds N] [--only WORD]

`--old` is the `src` folder of the older version, `--models` has the UAI files, `--nerel` has `nerel.py`, the bare full
BP, and its documents. Two processes take turns, one for each version; figures are minima of processor time, from a
built graph to all marginals, layout included. Rows of several cases (sets of observed variables) are geometric means.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # must be set before NumPy is loaded

import argparse
import pickle
import sys
import tempfile
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
from models import joint_extraction
from numpy_bp import log_flooding
from timing import table, verdict
from workers import Worker

import anytimebp as abp
from anytimebp_evaluation.families import Arrays, grid

WORKER = Path(__file__).with_name("limits_worker.py")
EVIDENCE_SETS = 6


class Bench:
    """Old and new, taking turns."""

    def __init__(self, options, folder):
        """Start a process for each; cases go through files in the folder."""
        self.options, self._folder, self._n = options, Path(folder), 0
        self.new, self.old = Worker(WORKER), Worker(WORKER, options.old)

    def times(self, case, *, with_old=True):
        """Return the best seconds of the old version (NaN if not asked) and of the new one, and how runs ended."""
        path = self._folder / f"{self._n}.pickle"
        self._n += 1
        path.write_bytes(pickle.dumps(case))
        workers = {"old": self.old, "new": self.new} if with_old else {"new": self.new}
        found = {name: [] for name in ("old", "new")}
        for _ in range(self.options.rounds):
            for name, worker in workers.items():
                found[name].append(worker.ask(case=str(path)))
        old, new = (min((one["seconds"] for one in found[name]), default=np.nan) for name in ("old", "new"))
        return old, new, {one["reason"] for one in found["new"]} | {f"old {one['reason']}" for one in found["old"]}

    def ratios(self, cases):
        """Return a row's cells: the geometric mean of old over new, all of them, and milliseconds of the first case."""
        ratios, first, ends = [], None, set()
        for case in cases:
            old, new, how = self.times(case)
            ratios.append(old / new)
            first = first or new
            ends |= how
        odd = sorted(end for end in ends if not end.endswith("CONVERGED"))
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        return float(np.exp(np.mean(np.log(ratios)))), f"{each}" + (f" ({', '.join(odd)})" if odd else ""), 1e3 * first


# ------------------------------------------------------------ models
def arrays_case(model, **more):
    """Return a case of a model in arrays."""
    unary = model.unary
    by_size = {}
    for index, scores in enumerate(unary):
        by_size.setdefault(len(scores), []).append(index)
    factors = [(np.array(own)[:, None], np.array([unary[k] for k in own])) for own in by_size.values()]
    return {"sizes": [len(scores) for scores in unary], "factors": [*factors, (model.scopes, model.tables)], **more}


def scaled_case(graph, scale):
    """Return a case of all log scores of a graph, multiplied."""
    factors = []
    for block in graph.blocks:
        for k, scope in enumerate(block.scopes.tolist()):
            states = [np.arange(graph.variables[i].n_states) for i in scope]
            factors.append((np.array([scope]), scale * block.log_values(k, states, graph.variables)[None]))
    return {"sizes": graph.variables.sizes().tolist(), "factors": factors}


def diabetes_like(seed, slices=24):
    """Return a network of time slices, as that for insulin doses: levels of 7 to 21 states, mostly hard zeros."""
    rng = np.random.default_rng(seed)
    sizes, factors = [], []

    def variable(size, *parents):
        """Add a variable that is a noisy mean of its parents, give or take a state or two."""
        index, shape = len(sizes), [sizes[p] for p in parents]
        sizes.append(size)
        axes = np.meshgrid(*[np.linspace(0.0, 1.0, n) for n in shape], indexing="ij") if parents else [np.array(0.5)]
        weights = rng.dirichlet(np.ones(len(axes)))
        centre = sum(w * axis for w, axis in zip(weights, axes, strict=True)) * (size - 1)
        far = np.abs(np.arange(size) - centre[..., None])
        width = 1.5 if parents else size
        scores = np.where(far < width, -0.5 * far**2 + rng.normal(0.0, 0.2, far.shape), -np.inf)
        factors.append((np.array([[*parents, index]]), scores[None]))
        return index

    glucose, insulin = variable(21), variable(11)
    for _ in range(slices):
        meal, dose = variable(7), variable(7)
        gut, uptake = variable(11, meal, glucose), variable(11, dose, insulin)
        used = variable(15, uptake, glucose)
        glucose, insulin = variable(21, gut, used), variable(11, uptake, dose)
        variable(21, glucose)
    return {"sizes": sizes, "factors": factors}


def observed(graph, seed, count=3):
    """Draw variables and likely states of them, one after the other."""
    rng, found = np.random.default_rng(seed), {}
    for index in rng.permutation(len(graph.variables)).tolist():
        marginal = abp.infer(graph, "bp", evidence=found).marginals[graph.variables.name(index)]
        likely = np.flatnonzero(marginal > 0.02)
        if len(likely) > 1:
            found[index] = graph.variables[index].labels[int(rng.choice(likely))]
        if len(found) == count:
            return found
    return found


def small_case(seed):
    """Return ten variables of five states in a ring, with unary scores."""
    rng = np.random.default_rng(seed)
    scopes = np.array([(k, (k + 1) % 10) for k in range(10)])
    return arrays_case(Arrays(rng.normal(size=(10, 5)), scopes, rng.normal(size=(10, 5, 5))))


def tied_case():
    """Return a thousand variables and a thousand ternary factors on one table."""
    rng = np.random.default_rng(0)
    scopes = np.array([rng.choice(1000, 3, replace=False) for _ in range(1000)])
    return arrays_case(Arrays(rng.normal(size=(1000, 5)), scopes, rng.normal(size=(5, 5, 5))))


# ------------------------------------------------------------ rows
def rows_of_documents(bench):
    """NEREL against the bare full BP."""
    if not bench.options.nerel:
        return
    sys.path.insert(0, bench.options.nerel)
    nerel = import_module("nerel")
    total = 0.0
    for document in nerel.documents():
        scores, types, pairs, relations = document
        n = len(types)
        relation = n + np.arange(len(pairs))
        case = {
            "sizes": [types.shape[1]] * n + [relations.shape[1]] * len(pairs),
            "factors": [
                (np.arange(n)[:, None], types),
                (relation[:, None], relations),
                (np.column_stack([pairs, relation]), scores),
            ],
        }
        total += bench.times(case, with_old=False)[1]
    bare = min(bench.new.ask(yardstick=bench.options.nerel)["seconds"] for _ in range(bench.options.rounds))
    yield "NEREL, 12 documents, against the bare full BP", bare / total, "", 1e3 * total, 2.5


def rows_of_tables(bench):
    """Leaves, and graphs without any."""
    for entities in (8, 16):
        yield f"joint extraction, {entities} entities", *bench.ratios([arrays_case(joint_extraction(entities, 2))]), 2.5
    yield "10x10 grid, 100 states", *bench.ratios([arrays_case(grid(10, 10, 100, 1.0, 0.5, 0))]), 0.95
    for name in ("pdb1fna", "pdb1i24", "pdb1k51", "ObjectDetection_11", "ObjectDetection_24"):
        if path := model_file(bench, name):
            yield name, *bench.ratios([{"file": path}]), 0.95


def rows_of_networks(bench):
    """Networks with zeros, three variables observed."""
    for name in ("pathfinder", "mildew"):
        if path := model_file(bench, name):
            graph = abp.read_model(path)
            cases = [{"file": path, "evidence": observed(graph, seed)} for seed in range(EVIDENCE_SETS)]
            yield f"{name}, 3 observed", *bench.ratios(cases), 2.0
    cases = []
    for seed in range(EVIDENCE_SETS):
        case = diabetes_like(seed)
        cases.append(case | {"evidence": observed(built(case), seed)})
    yield "diabetes-like, 3 observed", *bench.ratios(cases), 2.0


def rows_of_logs(bench):
    """Scores over more than 600 nats, against the old version and NumPy."""
    for name, scale in (("ObjectDetection_24", 120.0), ("ObjectDetection_11", 100.0)):
        path = model_file(bench, name)
        if path is None:
            continue
        case = scaled_case(abp.read_model(path), scale)
        ratio, each, milliseconds = bench.ratios([case])
        yield f"{name} x {scale:.0f}, in logs", ratio, each, milliseconds, 3.0
        yield f"the same against NumPy in logs, {SWEEPS} sweeps each", *against_numpy(case), 1.0


SWEEPS = 20


def against_numpy(case):
    """Return how many times as long NumPy takes as `bp` for as many sweeps, both in logs, in this process."""
    from time import process_time  # noqa: PLC0415

    sizes = np.array(case["sizes"])
    unary = np.zeros((len(sizes), int(sizes.max())))
    scopes, tables = [], []
    for scope, scores in case["factors"]:
        if scope.shape[1] == 1:
            unary[scope[0, 0]] += scores[0]
        else:
            scopes.append(scope[0])
            tables.append(scores[0])
    model, graph = Arrays(unary, np.array(scopes), np.array(tables)), built(case)
    ours, theirs = [], []
    for _ in range(5):
        started = process_time()
        log_flooding(model, 0.0, SWEEPS)
        theirs.append(process_time() - started)
        graph.compiled, started = None, process_time()
        abp.infer(graph, "bp", max_updates=SWEEPS * len(scopes))
        ours.append(process_time() - started)
    return min(theirs) / min(ours), "", 1e3 * min(ours)


def rows_of_setting_up(bench):
    """The cost of a call without its messages, in milliseconds, against a bar."""
    old, new, _ = bench.times(tied_case() | {"options": {"max_updates": 1}})
    yield "1,000 variables, 1,000 ternary tied factors, one update", 1e3 * new, f"old {1e3 * old:.2f}", 1e3 * new, 1.0
    graphs = [small_case(seed) for seed in range(200)]
    for method in ("bp", "adaptive", "auto"):
        case, with_old = {"graphs": graphs, "options": {"method": method}}, method != "auto"  # it had none
        old, new, _ = bench.times(case, with_old=with_old)
        before = f"old {1e3 * old:.3f}" if with_old else ""
        yield f"10 variables, 5 states, `{method}`", 1e3 * new, before, 1e3 * new, 0.3


def model_file(bench, name):
    """Return the path of a UAI file, None if there is no such file."""
    path = Path(bench.options.models or ".") / f"{name}.uai"
    return str(path) if path.is_file() else None


def built(case):
    """Return the graph of a case in arrays."""
    graph = abp.FactorGraph()
    for size in case["sizes"]:
        graph.add_variable(f"v{len(graph.variables)}", int(size))
    for scopes, scores in case["factors"]:
        graph.add_factors(scopes, log_table=scores)
    return graph


GROUPS = {
    "documents": rows_of_documents,
    "tables": rows_of_tables,
    "networks": rows_of_networks,
    "logs": rows_of_logs,
    "setup": rows_of_setting_up,
}


def main():
    """Measure the groups of rows, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, help="src folder of the older version")
    parser.add_argument("--models", help="folder of UAI files")
    parser.add_argument("--nerel", help="folder of nerel.py and its documents")
    parser.add_argument("--rounds", type=int, default=5, help="visits to each version for each case")
    parser.add_argument("--only", choices=list(GROUPS), help="measure one group of rows")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        bench, lines = Bench(options, folder), []
        for name, rows in GROUPS.items():
            if options.only in (None, name):
                for what, figure, each, milliseconds, bar in rows(bench):
                    met = figure <= bar if name == "setup" else figure >= bar
                    lines.append([what, f"{figure:.2f}", f"{bar:g}", verdict(met=met), f"{milliseconds:.2f}", each])
                    print(*lines[-1], sep=" | ", flush=True)
        bench.new.close()
        bench.old.close()
    print()
    print(table(["model", "times (set-up: ms)", "bar", "met", "new, ms", "each case"], lines))


if __name__ == "__main__":
    main()

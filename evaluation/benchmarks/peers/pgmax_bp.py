"""PGMax in double precision: sum-product (temperature 1) without damping, compiled before the clock starts."""

import jax
import numpy as np
import peer
from pgmax import fgraph, fgroup, infer, vgroup

jax.config.update("jax_enable_x64", True)  # noqa: FBT003  (positional in JAX)
TOLERANCE = 1e-10
PAIR = 2


def build(unary, scopes, tables, sweeps):
    """State the model; find out how many iterations it needs, as PGMax has no stopping rule."""
    groups, handles = _variables([len(scores) for scores in unary])
    graph = fgraph.FactorGraph(variable_groups=list(groups.values()))
    graph.add_factors(_factors([[handles[v] for v in scope] for scope in scopes.tolist()], tables))
    bp = infer.build_inferer(graph.bp_state, backend="bp")
    scores = {
        group: np.array([row for row in unary if len(row) == states]) for states, group in groups.items()
    }  # a group has its variables in their order in the model
    start = bp.init(evidence_updates=scores)
    iterations = _iterations(bp, start, 2 * sweeps)
    compiled = jax.jit(lambda arrays: bp.run(arrays, num_iters=iterations, damping=0.0, temperature=1.0))

    def run():
        found = infer.get_marginals(bp.get_beliefs(compiled(start)))
        rows = {states: iter(np.asarray(found[group])) for states, group in groups.items()}
        return [next(rows[len(row)]) for row in unary]

    return run


def _variables(sizes):
    """Return a group of variables per number of states, and the handle of each variable."""
    groups = {
        states: vgroup.NDVarArray(num_states=states, shape=(sizes.count(states),)) for states in dict.fromkeys(sizes)
    }
    taken = dict.fromkeys(groups, 0)
    handles = []
    for states in sizes:
        handles.append(groups[states][taken[states]])
        taken[states] += 1
    return groups, handles


def _factors(scopes, tables):
    """Return all factors as one group: pairs as such, larger ones as a list of all their joint states."""
    if tables.ndim == PAIR + 1:
        return fgroup.PairwiseFactorGroup(variables_for_factors=scopes, log_potential_matrix=tables)
    joint_states = np.stack([axis.ravel() for axis in np.indices(tables.shape[1:])], axis=1)
    return fgroup.EnumFactorGroup(
        variables_for_factors=scopes, factor_configs=joint_states, log_potentials=tables.reshape(len(tables), -1)
    )


def _iterations(bp, start, most):
    """Return after how many iterations messages move by no more than the tolerance."""
    _, changes = bp.run_with_diffs(start, num_iters=most, damping=0.0, temperature=1.0)
    settled = np.flatnonzero(np.asarray(changes) <= TOLERANCE)
    if not settled.size:
        msg = f"messages still move after {most} iterations"
        raise RuntimeError(msg)
    return int(settled[0]) + 1


if __name__ == "__main__":
    peer.main({"bp": build})

"""PGMax in double precision: sum-product (temperature 1) without damping, compiled before the clock starts."""

import jax
import numpy as np
import peer
from pgmax import fgraph, fgroup, infer, vgroup

jax.config.update("jax_enable_x64", True)  # noqa: FBT003  (positional in JAX)
TOLERANCE = 1e-10
MOST_SWEEPS = 200


def build(unary, scopes, tables, _sweeps):
    """State the model; find out how many iterations it needs, as PGMax has no stopping rule."""
    variables = vgroup.NDVarArray(num_states=unary.shape[1], shape=(len(unary),))
    graph = fgraph.FactorGraph(variable_groups=variables)
    pairs = [[variables[int(a)], variables[int(b)]] for a, b in scopes]
    graph.add_factors(fgroup.PairwiseFactorGroup(variables_for_factors=pairs, log_potential_matrix=tables))
    bp = infer.build_inferer(graph.bp_state, backend="bp")
    start = bp.init(evidence_updates={variables: unary})
    _, changes = bp.run_with_diffs(start, num_iters=MOST_SWEEPS, damping=0.0, temperature=1.0)
    iterations = int(np.argmax(np.asarray(changes) <= TOLERANCE)) + 1
    compiled = jax.jit(lambda arrays: bp.run(arrays, num_iters=iterations, damping=0.0, temperature=1.0))

    def run():
        beliefs = bp.get_beliefs(compiled(start))
        return np.asarray(infer.get_marginals(beliefs)[variables])

    return run


if __name__ == "__main__":
    peer.main(build)

"""PyAgrum's loopy BP, which takes Bayesian networks only.

The model is stated as one that has the same posterior and the same messages: a root per variable, and per factor a
binary child of its variables that is seen to be 1 and whose probability of that is the potential, scaled.
"""

import numpy as np
import peer
import pyagrum as gum

TOLERANCE = 1e-14  # of squared size: marginals agree to about 1e-8 then; below 1e-15 it never stops


def build(unary, scopes, tables, _sweeps):
    """State the network and its evidence."""
    network = gum.BayesNet()
    for k, scores in enumerate(unary):
        network.add(gum.RangeVariable(f"x{k}", "", 0, len(scores) - 1))
        network.cpt(f"x{k}")[:] = _softmax(scores)
    for k, (scope, scores) in enumerate(zip(scopes.tolist(), tables, strict=True)):
        child = network.add(gum.RangeVariable(f"f{k}", "", 0, 1))
        for v in scope:
            network.addArc(f"x{v}", f"f{k}")
        seen = np.exp(scores - scores.max()).T
        cpt = network.cpt(child)  # axes: parents from the last to the first, then the child
        cpt[:] = np.ascontiguousarray(np.stack([1.0 - seen, seen], axis=-1))
    evidence = {f"f{k}": 1 for k in range(len(scopes))}

    def run():
        engine = gum.LoopyBeliefPropagation(network)
        engine.setEpsilon(TOLERANCE)
        engine.setEvidence(evidence)
        engine.makeInference()
        return [engine.posterior(f"x{k}").toarray() for k in range(len(unary))]

    return run


def _softmax(scores):
    weight = np.exp(scores - scores.max())
    return weight / weight.sum()


if __name__ == "__main__":
    peer.main({"bp": build})

"""Our own methods by the same rules as the peers, to measure their memory."""

import peer

import anytimebp as abp

TOLERANCE = 1e-10


def bp(unary, scopes, tables, _sweeps):
    """State the model for `bp`."""
    return _build("bp", unary, scopes, tables)


def adaptive(unary, scopes, tables, _sweeps):
    """State the model for `adaptive`."""
    return _build("adaptive", unary, scopes, tables)


def _build(method, unary, scopes, tables):
    graph = abp.FactorGraph()
    for k, scores in enumerate(unary):
        graph.add_factor([graph.add_variable(f"x{k}", len(scores))], log_table=scores)
    graph.add_factors(scopes, log_table=tables)

    def run():
        graph.compiled = None  # the layout is part of a run
        result = abp.infer(graph, method, tolerance=TOLERANCE)
        return [result.marginals[k] for k in range(len(unary))]

    return run


def _load_kernels():
    """Run a small graph, as our import leaves Numba for the first run, and peers have imported all they need."""
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factors([[0, 1]], log_table=[[1.0, 0.0], [0.0, 1.0]])
    for method in ("bp", "adaptive"):
        abp.infer(graph, method)


if __name__ == "__main__":
    _load_kernels()
    peer.main({"bp": bp, "adaptive": adaptive})

"""A reader of UAI models, evidence and marginals, just enough for the regression tests."""

import numpy as np

import anytimebp as abp


def read_model(path):
    tokens = iter(path.read_text().split())
    next(tokens)
    n = int(next(tokens))
    graph = abp.FactorGraph()
    for i in range(n):
        graph.add_variable(f"x{i}", int(next(tokens)))
    scopes = [[int(next(tokens)) for _ in range(int(next(tokens)))] for _ in range(int(next(tokens)))]
    for scope in scopes:
        count = int(next(tokens))
        values = np.array([float(next(tokens)) for _ in range(count)])
        graph.add_factor(scope, table=values.reshape([graph.variables[i].n_states for i in scope]))
    return graph


def read_evidence(path):
    if not path.exists():
        return {}
    numbers = [int(token) for token in path.read_text().split()]
    return dict(zip(numbers[1::2], numbers[2::2], strict=True))


def read_marginals(path):
    tokens = path.read_text().split()
    numbers = tokens[tokens.index("MAR") + 1 :] if "MAR" in tokens else tokens
    stream = iter(numbers)
    return [np.array([float(next(stream)) for _ in range(int(next(stream)))]) for _ in range(int(next(stream)))]

"""Small graphs with learned factors of every kind, and labels for them."""

import numpy as np

import anytimebp as abp
from anytimebp.learn import Example

TAGS, KINDS = ("a", "b", "c"), ("x", "y")


def chain(rng, n, *, loop=False, n_features=4, sparse=None):
    """Return an example of n tags in a row, or in a ring; one more variable hangs on the first."""
    graph = abp.FactorGraph()
    tags = np.array(graph.add_variables(n, TAGS, [f"tag {k}" for k in range(n)]))
    kind = graph.add_variable("kind", KINDS)
    graph.add_factor([kind], log_table=[0.0, 0.3])
    example = Example(graph)
    rows = (rng.random((n, n_features)) < 0.5).astype(float)
    example.add_factors("word", tags[:, np.newaxis], features=rows if sparse is None else sparse(rows))
    pairs = np.column_stack([tags[:-1], tags[1:]])
    if loop:
        pairs = np.vstack([pairs, [tags[-1], tags[0]]])
    example.add_factors("next", pairs)
    example.add_factors("kind", [[0, kind]], offset=[[0.5, 0.0], [0.0, 0.0], [0.0, -0.5]])
    example.add_factors("model", tags[:, np.newaxis], joint_features=rng.normal(0, 1, (n, 3, 2)))
    return example


def random_weights(rng, example, scale=0.7):
    """Return weights of all blocks."""
    return {term.name: rng.normal(0, scale, term.weight_shape) for term in example.terms}


def sampled(rng, example, weights):
    """Return labels, drawn from the model."""
    graph = example.with_weights(weights)
    states = abp.sample(graph, 1, rng=rng).states[0]
    return [graph.variables[k].labels[state] for k, state in enumerate(states.tolist())]

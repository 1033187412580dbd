"""A reference for linked mentions at full size: BP on a few hundred entities a mention, picked without the method.

BP over the names that fit gives beliefs; entities are ranked by their own score and by how well they go with what the
neighbours believe in; the best of them take part in BP again. On the documents of seeds 0 to 2, what is left out holds
less than 3e-4 of any belief, by a round of messages to all entities, so that smaller distances mean nothing.
"""

import numpy as np

import anytimebp as abp

NAMES, TAKEN = 32, 400  # entities a mention: in the first BP, in the second


def largest_distance(example, document, joint):
    """Return the largest total variation, over mentions, between marginals (mentions, entities) and the reference."""
    count = min(TAKEN, document.prior.shape[1])
    names = np.argsort(-document.prior, axis=1)[:, : min(NAMES, count)]
    taken = np.argsort(-_with_neighbours(example, document, names, _bp(example, document, names)), axis=1)[:, :count]
    reference = np.zeros_like(joint)
    np.put_along_axis(reference, taken, _bp(example, document, taken), axis=1)
    return float(0.5 * np.abs(joint - reference).sum(axis=1).max())


def _bp(example, document, taken):
    """Return BP's marginals over some entities of each mention, (mentions, taken)."""
    graph = abp.FactorGraph()
    variables = np.array(graph.add_variables(*taken.shape))
    graph.add_factors(variables[:, np.newaxis], log_table=np.take_along_axis(document.prior, taken, axis=1))
    tables = [example.coherence(document.embedding, *np.ix_(taken[i], taken[j])) for i, j in document.pairs]
    graph.add_factors(document.pairs, log_table=np.array(tables))
    result = abp.infer(graph, "bp", tolerance=1e-9)
    return np.array([result.marginals[i] for i in range(len(taken))])


def _with_neighbours(example, document, names, belief):
    """Return log scores of all entities, (mentions, entities): their own, and those from the neighbours' beliefs."""
    scores, every = document.prior.copy(), np.arange(document.prior.shape[1])
    for pair in document.pairs:
        for own, other in (pair, pair[::-1]):
            likely = belief[other] > 1e-4
            block = np.exp(example.coherence(document.embedding, *np.ix_(names[other][likely], every)))
            scores[own] += np.log(belief[other][likely] @ block)
    return scores

"""Which states rounds on strips begin with, which they leave out of reach, and what those may weigh."""

from __future__ import annotations

import math

import numpy as np

from anytimebp.domains.domains import Domains
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.source import FloatArray
from anytimebp.tables.sizes import strip_entries

FIRST_DOMAIN = 5.0  # nats of prior under the best, within which states are in the first domains
REACHES = (1e-3, 1e-6, 0.0)  # beliefs that the states out of reach are not expected to have; 0: all are within reach
WORTH_CUTTING = 0.75  # part of all states that may be within reach, or the rest is, too
FAR = 3.0  # standard deviations of messages that a state's prior may have against it and still be within reach
MOST = 700.0  # nats that messages are expected to add, so that numbers stay finite
MANY = 7.0  # nats that states may be short of it and still count together
MESSAGE_BYTES = 56  # of an edge and state within reach: messages, tails and copies of them
MOST_NEW = 2e7  # entries of strips that a round may ask for where whole tables do not fit


def guessed_gain(spread: FloatArray) -> FloatArray:
    """Return (V,) by how much messages are expected to raise the mean of many states, as far as tables vary.

    Args:
        spread: (V,) standard deviation of what messages add to a state's log prior, in nats.
    """
    return np.exp(np.minimum(MOST, np.minimum(0.5 * spread**2, 0.5 * FAR * spread)))


def least_prior(belief: float, spread: FloatArray) -> FloatArray:
    """Return (V,) the log prior under which no state is expected to have such a belief, nor all together."""
    return math.log(belief) - np.maximum(FAR * spread, spread + MANY)


def first_strips(compiled: CompiledGraph, domains: Domains, spread: FloatArray) -> tuple[float, float]:
    """Return the entries of the first strips, over the states within reach, and about how many bytes a round needs."""
    start = domains.slot_start[:-1]
    near = domains.log_prior > np.repeat(least_prior(REACHES[0], spread), domains.sizes)
    reach = np.add.reduceat(near, start, dtype=np.int64)
    if reach.sum() > WORTH_CUTTING * domains.sizes.sum():
        reach = domains.sizes
    first = np.add.reduceat(domains.log_prior > -FIRST_DOMAIN, start, dtype=np.int64)
    messages = MESSAGE_BYTES * float(reach[compiled.arrays.edge_variable].sum())
    entries = float(strip_entries(compiled.arrays, first, reach).sum())
    return entries, messages + 16.0 * entries

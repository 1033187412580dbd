"""How far a round has moved beliefs."""

import numpy as np
import pytest

from anytimebp.inference.adaptive.whole_model import Active
from anytimebp.kernels.active_readout import mean_move

NONE, NO_NUMBERS = np.empty(0, dtype=np.int64), np.empty(0)


def drawn(rng, slot_start):
    """Return some active states of every variable, with beliefs, and the same as a row of all states."""
    chosen = [np.flatnonzero(rng.random(n) < 0.5) for n in np.diff(slot_start)]
    slot = np.concatenate([own + first for own, first in zip(chosen, slot_start, strict=False)])
    start, belief = np.r_[0, np.cumsum([len(own) for own in chosen])], rng.random(len(slot))
    row = np.zeros(slot_start[-1])
    row[slot] = belief
    return Active(start, slot, slot, slot_start, NO_NUMBERS, NO_NUMBERS), belief, row


@pytest.mark.parametrize("seed", range(20))
def test_moves_are_distances_of_rows_of_all_states(seed):
    rng = np.random.default_rng(seed)
    slot_start, is_leaf = np.r_[0, np.cumsum(rng.integers(1, 9, 8))], rng.random(8) < 0.3
    is_leaf[0] = False
    after, belief, row = drawn(rng, slot_start)
    before, belief_before, row_before = drawn(rng, slot_start)
    for values in (belief, belief_before):
        values.flags.writeable = False
    each = np.sqrt(np.add.reduceat((row - row_before) ** 2, slot_start[:-1]))
    found = mean_move(after, belief, before, belief_before, is_leaf)
    assert found == pytest.approx(each[~is_leaf].mean(), rel=1e-12)

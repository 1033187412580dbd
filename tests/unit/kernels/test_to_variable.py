"""Damping of messages, against its formula."""

import numpy as np
import pytest

from anytimebp.kernels.codes import LINEAR, LOG
from anytimebp.kernels.to_variable import _damp


def mixed(new, old, damping):
    """Return the logs of damped messages; hard zeros are taken at once, both ways."""
    logs = np.where((new == -np.inf) | (old == -np.inf), new, 0.0)
    both = (new > -np.inf) & (old > -np.inf)
    logs[both] = (1.0 - damping) * new[both] + damping * old[both]
    return logs - logs.max()


@pytest.mark.parametrize("damping", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("zeros", [0, 3])
@pytest.mark.parametrize("arithmetic", [LINEAR, LOG])
def test_damped_messages_are_between_old_and_new_along_the_logarithms(arithmetic, zeros, damping):
    rng = np.random.default_rng(zeros)
    new, old = rng.normal(0.0, 60.0, (2, 41))
    new[:zeros] = old[zeros : 2 * zeros] = -np.inf
    new, old = new - new.max(), old - old.max()
    expected = mixed(new, old, damping)
    if arithmetic == LINEAR:
        new, old = np.exp(new), np.exp(old)
    least = _damp(arithmetic, new, old, damping)
    assert new.max() == pytest.approx(1.0 if arithmetic == LINEAR else 0.0, abs=1e-15)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(np.log(new) if arithmetic == LINEAR else new, expected, rtol=1e-13, atol=1e-13)
    assert np.log(least) == pytest.approx(expected[expected > -np.inf].min(), rel=1e-12)

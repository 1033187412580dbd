"""What is fetched ahead changes nothing, wherever it lies."""

import numpy as np

from anytimebp.kernels.jit import fetch, kernel


@kernel()
def _sum_fetched(numbers, ahead):
    total = 0.0
    for k in range(numbers.size):
        fetch(numbers, k + ahead)
        total += numbers[k]
    return total


def test_fetching_changes_nothing_even_behind_the_end():
    numbers = np.arange(100.0)
    for ahead in (0, 8, 10_000_000):
        assert _sum_fetched(numbers, ahead) == numbers.sum()
    np.testing.assert_array_equal(numbers, np.arange(100.0))

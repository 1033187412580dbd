"""Log tables to linear ones."""

from anytimebp.kernels.arithmetic import exp
from anytimebp.kernels.jit import kernel, table_view


@kernel()
def _shift_and_exponentiate(given, made, shift):
    for k in range(given.size):
        made[k] = exp(given[k] - shift)


@kernel()
def exponentiate_slice(given, target, size, shift, position, entry, limit):
    """Write exp(given - shift) of some tables, from entry `entry` of table `position` on, about `limit` entries.

    Args:
        given: (tables,) addresses of log tables, read.
        target: (tables,) addresses of the results, overwritten.
        size: (tables,) their entries.
        shift: (tables,) numbers to subtract first.
        position: The table to go on with.
        entry: The entry of that table to go on with.
        limit: How many entries to do at the most.

    Returns:
        The table and entry to go on with.
    """
    while position < size.size and limit > 0:
        n = min(limit, size[position] - entry)
        _shift_and_exponentiate(
            table_view(given[position] + 8 * entry, n), table_view(target[position] + 8 * entry, n), shift[position]
        )
        limit -= n
        entry += n
        if entry == size[position]:
            position, entry = position + 1, 0
    return position, entry

"""Many graphs as one: the rows of all their blocks, with variables numbered on."""

from anytimebp.kernels.jit import index_view, kernel
from anytimebp.model.factor import ARITY, FACTORS, SCOPES


@kernel()
def number_on(rows, first, scopes, address):
    """Copy the scopes of all blocks with their variables numbered on, and have the rows point there.

    Args:
        rows: (blocks, WIDTH), see `model/factor.py`; overwritten.
        first: (blocks,) number of the first variable of each block's graph.
        scopes: Overwritten.
        address: Where `scopes` lies in memory.
    """
    end = 0
    for block in range(rows.shape[0]):
        n = rows[block, FACTORS] * rows[block, ARITY]
        given = index_view(rows[block, SCOPES], n)
        rows[block, SCOPES] = address + 8 * end
        for k in range(n):
            scopes[end + k] = given[k] + first[block]
        end += n

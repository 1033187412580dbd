"""Tables of which every row has few entries that are not zero, next to each other: their bands are read instead.

So are tables of what depends on its parents by a function, in steps: 93 % of mildew's entries are zeros. Rows whose
entries begin at the same column lie next to each other, so that their sums stay in registers. A band is one word, its
width w; then, for each of the columns 0 to n - w, how many rows begin there or before; then the numbers of the rows in
that order; then w entries of each of them. It lies beside the table.
"""

from anytimebp.kernels.codes import TABLE
from anytimebp.kernels.jit import index_view, kernel, table_view
from anytimebp.kernels.through_table import NARROW, edge_size

LEAST_COLUMNS = 10  # of rows, under which a band saves nothing
PART = 8  # of a row that a band may have which is not NARROW: rows are read in vectors, and bands are not
LEAST_ENTRIES = 512  # of a table, under which finding its band costs more than is saved


@kernel()
def _span(row):
    """Return the first entry that is not zero, and the one behind the last; the whole row reversed if all are."""
    n = row.size
    first, end = n, 0
    for c in range(n):  # no branches, so that the compiler makes vectors of it
        first = min(first, c if row[c] != 0.0 else n)
        end = max(end, c + 1 if row[c] != 0.0 else 0)
    return first, end


@kernel()
def _width(table, n, start):
    """Return the width of a table's band, 0 if it does not pay; fill where the entries of each row start."""
    most, width = max(NARROW, n // PART), 1
    for r in range(start.size):
        first, end = _span(table[r * n : r * n + n])
        start[r] = min(first, n - 1)
        width = max(width, end - first)
        if width > most:
            return 0
    return width


@kernel()
def find_bands(layout, bp, width, start):
    """Find the tables that have bands.

    Args:
        layout: Topology.
        bp: Messages over fixed domains, with their tables; read.
        width: (F,) overwritten: of each factor's band, 0 if it has none.
        start: Room for as many numbers as tables have rows; overwritten, table after table of those with bands.

    Returns:
        The words that the bands need.
    """
    words = position = 0
    for factor in range(width.size):
        first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
        width[factor] = 0
        if bp.factor_kind[factor] != TABLE or bp.table_in_logs[factor] or not bp.table_has_zero[factor]:
            continue
        n, rows = edge_size(layout.edge_variable, bp.domain_size, last - 1), 1
        for edge in range(first, last - 1):
            rows *= edge_size(layout.edge_variable, bp.domain_size, edge)
        if n < LEAST_COLUMNS or rows * n < LEAST_ENTRIES:
            continue
        table = table_view(bp.table_address[factor], rows * n)
        width[factor] = _width(table, n, start[position : position + rows])
        if width[factor]:
            words += 2 + n - width[factor] + rows * (1 + width[factor])
            position += rows
    return words


@kernel()
def _fill_band(table, n, start, end, row, band):
    """Write a band: its rows in the order in which they begin, and where those end that begin at a column."""
    w, rows = n - end.size + 1, row.size
    for begin in range(end.size):
        end[begin] = 0
    for r in range(rows):
        start[r] = min(start[r], n - w)
        end[start[r]] += 1
    total = 0
    for begin in range(end.size):
        total += end[begin]
        end[begin] = total - end[begin]
    for r in range(rows):
        begin = start[r]
        k = end[begin]
        row[k], end[begin] = r, k + 1
        for c in range(w):
            band[k * w + c] = table[r * n + begin + c]


@kernel()
def fill_bands(layout, bp, width, start, made, base):
    """Write the bands, and `bp.table_band`, where each of them lies.

    Args:
        layout: Topology.
        bp: As in `find_bands`.
        width: From there, read.
        start: From there, overwritten.
        made: Room for the bands, overwritten.
        base: Its address.
    """
    position = word = 0
    for factor in range(width.size):
        w = width[factor]
        if w == 0:
            continue
        first, last = layout.factor_edge_start[factor], layout.factor_edge_start[factor + 1]
        n, rows = edge_size(layout.edge_variable, bp.domain_size, last - 1), 1
        for edge in range(first, last - 1):
            rows *= edge_size(layout.edge_variable, bp.domain_size, edge)
        bp.table_band[factor] = base + 8 * word
        n_words = 2 + n - w + rows
        header, band = index_view(base + 8 * word, n_words), made[word + n_words : word + n_words + w * rows]
        table = table_view(bp.table_address[factor], rows * n)
        header[0] = w
        _fill_band(table, n, start[position : position + rows], header[1 : 2 + n - w], header[2 + n - w :], band)
        position += rows
        word += n_words + w * rows

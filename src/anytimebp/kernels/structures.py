"""Messages of factors that are no tables: lists of entries, differences, at most one.

Each fills `outgoing` from `incoming` as `contract` does with a table, in linear arithmetic or in logs, at a cost of its
entries or of its variables' states. With t the listed scores, d the default, n_j the incoming messages and
T_i the product of their sums over j other than i:

    list          o_i(x)  =  d T_i + sum over entries e with e_i = x of (t_e - d) * product of n_j(e_j), j not i
    difference    o_0(x)  =  sum over y of k(x - y) n_1(y), and o_1 likewise; outside the kernel, d
    at most one   o_i(on) =  product of q_j;  o_i(off) = that + sum over k of p_k * product of q_j, j not k
                  p_j the weight of the state "on", q_j that of all others; products and sums over j, k other than i

Where entries are under the default, or in logs, d T_i less what is listed can cancel. Where it would, the states of the
others are walked one by one instead, so that no digit is lost.

What a factor is made of lies at `table_address` in words of 8 bytes; `tables/structures.py` writes them.

Updates call all this by its address (`send`), so that runs without structures neither load nor compile any of it. What
it needs lies in a row of whole numbers, `space.post`: the function, the factor, the arithmetic, and where the arrays of
a `Post` are and how long.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from anytimebp.kernels.codes import AT_MOST_ONE, DIFFERENCE, LOG
from anytimebp.kernels.either_arithmetic import add, dot, sum_of, times
from anytimebp.kernels.jit import Callback, call, callback, index_view, kernel, table_view
from anytimebp.kernels.lists import HEAD, through_list

FUNCTION, FACTOR, ARITHMETIC, ARRAYS = 0, 1, 2, 3  # places in a post; then addresses and lengths of arrays


class Post(NamedTuple):
    """What structures need of a layout and a workspace, in the order in which a post lists them."""

    factor_edge_start: np.ndarray
    edge_variable: np.ndarray
    domain_size: np.ndarray
    factor_kind: np.ndarray
    table_address: np.ndarray
    incoming: np.ndarray
    outgoing: np.ndarray
    peak: np.ndarray


@kernel(inline=True)
def send(post, factor, arithmetic):
    """Have a factor that is no table fill `outgoing` from `incoming`."""
    post[FACTOR], post[ARITHMETIC] = factor, arithmetic
    call(post[FUNCTION], post.ctypes.data)


# -------------------------------------------------------------------- differences
@kernel()
def _add_up(arithmetic, weight, below, above):
    """Fill the sums of the weights before each place, and from each place on."""
    n, nothing = weight.size, (-np.inf if arithmetic == LOG else 0.0)
    below[0], above[n] = nothing, nothing
    for v in range(n):
        below[v + 1] = add(arithmetic, below[v], weight[v])
    for v in range(n - 1, -1, -1):
        above[v] = add(arithmetic, above[v + 1], weight[v])


@kernel()
def _slide(arithmetic, scores, shift, default, weight, below, above, sums):
    """Fill sums[v] with the sum over u of the score of u - v, which is scores[u - v - shift] or the default."""
    m, none = weight.size, default == (-np.inf if arithmetic == LOG else 0.0)
    if not none:
        _add_up(arithmetic, weight, below, above)
    for v in range(sums.size):
        begin = min(max(0, v + shift), m)
        end = max(begin, min(m, v + shift + scores.size))
        place = begin - v - shift
        total = dot(arithmetic, scores[place : place + end - begin], weight[begin:end])
        if not none:
            rest = add(arithmetic, below[begin], above[end])
            total = add(arithmetic, total, times(arithmetic, default, rest))
        sums[v] = total


@kernel()
def _through_difference(post, factor, arithmetic):
    """Words: first difference, how many, default; their scores; the scores backwards."""
    edge = post.factor_edge_start[factor]
    address = post.table_address[factor]
    head = table_view(address, HEAD)
    counts = index_view(address, HEAD)
    shift, length, default = counts[0], counts[1], head[2]
    words = table_view(address, HEAD + 2 * length)
    scores, backwards = words[HEAD : HEAD + length], words[HEAD + length :]
    n, m = post.domain_size[post.edge_variable[edge]], post.domain_size[post.edge_variable[edge + 1]]
    left, right = post.incoming[:n], post.incoming[n : n + m]
    below, above = post.peak[: max(n, m) + 1], post.peak[max(n, m) + 1 :]
    _slide(arithmetic, backwards, 1 - shift - length, default, right, below, above, post.outgoing[:n])
    _slide(arithmetic, scores, shift, default, left, below, above, post.outgoing[n : n + m])


# -------------------------------------------------------------------- at most one
@kernel()
def _through_at_most_one(post, factor, arithmetic):
    """Words: per axis the slot of the state "on", or -1.

    `none` and `one` hold, per edge, the weight of no "on", and of one, among the edges before it; the same from behind
    is kept in two numbers.
    """
    first, last = post.factor_edge_start[factor], post.factor_edge_start[factor + 1]
    arity, nothing = last - first, (-np.inf if arithmetic == LOG else 0.0)
    slot = index_view(post.table_address[factor], arity)
    on, off = post.peak[:arity], post.peak[arity : 2 * arity]
    none, one = post.peak[2 * arity : 3 * arity], post.peak[3 * arity : 4 * arity]
    offset, so_far, once = 0, (0.0 if arithmetic == LOG else 1.0), nothing
    for k in range(arity):
        n = post.domain_size[post.edge_variable[first + k]]
        on[k] = post.incoming[offset + slot[k]] if slot[k] >= 0 else nothing
        cut = slot[k] if slot[k] >= 0 else n
        off[k] = sum_of(arithmetic, post.incoming[offset : offset + cut])
        off[k] = add(arithmetic, off[k], sum_of(arithmetic, post.incoming[offset + min(n, cut + 1) : offset + n]))
        none[k], one[k] = so_far, once
        once = add(arithmetic, times(arithmetic, once, off[k]), times(arithmetic, so_far, on[k]))
        so_far = times(arithmetic, so_far, off[k])
        offset += n
    so_far, once = (0.0 if arithmetic == LOG else 1.0), nothing
    for k in range(arity - 1, -1, -1):
        n = post.domain_size[post.edge_variable[first + k]]
        offset -= n
        nobody = times(arithmetic, none[k], so_far)
        somebody = add(arithmetic, times(arithmetic, one[k], so_far), times(arithmetic, none[k], once))
        post.outgoing[offset : offset + n] = add(arithmetic, nobody, somebody)
        if slot[k] >= 0:
            post.outgoing[offset + slot[k]] = nobody
        once = add(arithmetic, times(arithmetic, once, off[k]), times(arithmetic, so_far, on[k]))
        so_far = times(arithmetic, so_far, off[k])


def _through_structure(address):
    """Fill the unscaled messages of the factor that the post at an address speaks of."""
    row = index_view(address, ARRAYS + 16)
    post = Post(
        index_view(row[ARRAYS + 0], row[ARRAYS + 1]),
        index_view(row[ARRAYS + 2], row[ARRAYS + 3]),
        index_view(row[ARRAYS + 4], row[ARRAYS + 5]),
        index_view(row[ARRAYS + 6], row[ARRAYS + 7]),
        index_view(row[ARRAYS + 8], row[ARRAYS + 9]),
        table_view(row[ARRAYS + 10], row[ARRAYS + 11]),
        table_view(row[ARRAYS + 12], row[ARRAYS + 13]),
        table_view(row[ARRAYS + 14], row[ARRAYS + 15]),
    )
    factor, arithmetic = row[FACTOR], row[ARITHMETIC]
    kind = post.factor_kind[factor]
    if kind == DIFFERENCE:
        _through_difference(post, factor, arithmetic)
    elif kind == AT_MOST_ONE:
        _through_at_most_one(post, factor, arithmetic)
    else:
        through_list(post, factor, arithmetic)


@cache
def structures() -> Callback:
    """Return what updates call for factors that are no tables; compiled or loaded when it is first asked for."""
    return callback(_through_structure)

"""How threads share out one piece of work: a mailbox in which a leader writes what is to be done, in parts.

Whoever is free claims the next part; the leader claims parts too and then waits for those that others have claimed. So
helpers that come late, or not at all, only cost time. What is to be done may be read by those who hold a part, as the
leader changes it only once all parts are done. Between two pieces of work, helpers look at the mailbox again and again:
the gap is a few microseconds, which a lock of the operating system would double.
"""

import numpy as np

from anytimebp.kernels.jit import fetch_add, give_way, kernel, load, store

PARTS = 8  # of each piece of work; more would cost the leader more adding up, fewer would leave helpers without any
SPINS = 2**12  # looks at a mailbox before other threads of the machine are let in: some microseconds

# Places in a mailbox. Counters that several threads change are a cache line apart.
CLAIMED, DONE, IS_OPEN = 0, 8, 16
LEAST_ENTRIES, LEAST_ROWS, LEAD, GIVE_WAY, PARTIAL, WIDEST = range(24, 30)  # the same for all pieces of work
ARITHMETIC, MATRIX, STRIDE, ROWS, COLUMNS, ROW_WEIGHT, COLUMN_WEIGHT, DOTS, SUMS = range(32, 41)  # what is to be done
MAILBOX_SIZE = 48


@kernel(inline=True)
def publish(mailbox):
    """Let parts be claimed of what has been written into the mailbox."""
    store(mailbox, DONE, 0)
    store(mailbox, CLAIMED, 0)


@kernel(inline=True)
def claim(mailbox):
    """Return the next part, or PARTS or more if there is none left."""
    return fetch_add(mailbox, CLAIMED, 1)


@kernel(inline=True)
def finish(mailbox):
    """Tell that a part is done."""
    fetch_add(mailbox, DONE, 1)


@kernel()
def wait_until_done(mailbox):
    """Wait for the parts that others have claimed."""
    looks = 0
    while load(mailbox, DONE) < PARTS:
        looks += 1
        if looks > SPINS:
            give_way(mailbox[GIVE_WAY])


@kernel()
def next_part(mailbox):
    """Wait for a part to claim; return it, or -1 when the mailbox is closed."""
    looks = 0
    while load(mailbox, IS_OPEN):
        if load(mailbox, CLAIMED) < PARTS:
            part = claim(mailbox)
            if part < PARTS:
                return part
        looks += 1
        if looks > SPINS:
            give_way(mailbox[GIVE_WAY])
    return np.int64(-1)

"""Codes and limits that kernels share with those who call them."""

import numpy as np

LINEAR, LOG = 0, 1  # arithmetic
SUM, MAX = 0, 1  # semiring: what is done with the scores of all joint states that a message is about
OK, CONVERGED, VARIABLE_VANISHED, FACTOR_VANISHED, OUT_OF_RANGE = 0, 1, 2, 3, 4  # status
VANISHED, DIVERGED = -1.0, -2.0  # in place of a residual

SAFE = 1e-290  # products at least this large have full precision; the smallest normal double is 2e-308
CERTAIN = 1e-280
"""Linear sums of weights in logs that are at least this large have lost nothing that counts, see `log_sums.py`.

All that is lost is under 1e-293, of a billion entries up to 20,000 each. Larger, and more is summed twice."""
MAX_LINEAR_RANGE = 600.0  # nats; exp(-600) = 3e-261 leaves room for sums of small terms above SAFE
GONE = 1e-30
"""Part of the largest belief under which a state that falls counts as settled, see `to_variable.py`.

Larger, and less likely states lose digits: those of belief b keep GONE / b. Smaller, and runs wait longer for them."""
MAX_LOG = 1e12  # nats; log messages beyond are those of a run that diverges, and no longer resolve a nat's digits

# how a slice of a growing run ended
WORKING, ROUND_DONE, FINISHED, NEEDS_ROOM, NEEDS_ENTRIES, NEEDS_SCORES, NEEDS_RANKING, UNSETTLED = range(10, 18)

# what a growing run does next
CHOOSE, JOIN, START, CONVERGE, RESCORE, REPORT = range(6)

LOG_TABLE, POTENTIALS, ASKED, SCALED, STRUCTURED, WIDE_TABLE = range(6)
"""What a factor's source is: ASKED ones are asked from Python, SCALED ones are potentials with a maximum of 1,
STRUCTURED ones are asked and may sum without a table, WIDE_TABLEs are log tables of which some part may need logs."""

RANKED, POLLED, DYNAMIC, DYNAMIC_RAW = 0, 1, 2, 3  # where growth priorities come from

LEAST = -1e300  # priority of a state that is impossible as things stand
EXHAUSTED = -np.inf  # priority of a variable without candidates

TABLE = 0  # what a factor sums over; the codes of structures are in `structures.py`

UPDATE, GATHER, CONTRACT, STORE, SUM_IN_LOGS, SUM_AXIS_BY_LOGS, GATHER_HUB, MOVE_HUB, BAND, N_CALLS = range(10)
"""Positions in `WorkspaceArrays.calls`, and how many there are."""
CORE, UP, DOWN, CUT = range(4)  # ways of edges: in the core; from a tree to the core; to a leaf; to a lone state

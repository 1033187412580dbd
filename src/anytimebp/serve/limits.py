"""What a client may use: time, memory, bytes, and how many clients there may be at a time."""

from __future__ import annotations

from typing import NamedTuple, Self

from anytimebp.model.graph import FactorGraph
from anytimebp.tables.machine import available_memory

SHARE = 0.5  # of the free memory, for all runs and all that sessions keep
MOST_RUNS, MOST_SESSIONS = 4, 32
LEAST = 2**26  # bytes of a run, however little memory is free
UNKNOWN = 2**31  # bytes, where the system does not say how much is free


class Limits(NamedTuple):
    """Limits of a server.

    Attributes:
        seconds: Of a run; also what a run has that asks for no time of its own.
        max_memory: Bytes that one run may allocate.
        runs: Runs at the same time; others wait.
        waiting: Requests that wait for a run; more are refused.
        sessions: Pages that keep a session each; the one that was idle for longest makes room for another.
        connections: Open connections; the one that was idle for longest makes room for another.
        body: Bytes of a request.
        body_seconds: Until a request must be complete, and a connection must have asked for something.
        send_seconds: Until a client must have taken what it was sent.
        numbers: Probabilities in one answer.
        exported: States of all variables that are exported.
        compared: States of all variables up to which the answers to two queries are compared.
    """

    seconds: float = 10.0
    max_memory: int | None = None
    runs: int = MOST_RUNS
    waiting: int = 200
    sessions: int = MOST_SESSIONS
    connections: int = 400
    body: int = 2**20
    body_seconds: float = 10.0
    send_seconds: float = 20.0
    numbers: int = 1_000_000
    exported: int = 20_000_000
    compared: int = 20_000_000

    @classmethod
    def of(cls, graph: FactorGraph, seconds: float = 10.0, max_memory: int | None = None) -> Self:
        """Return limits for a model on this machine: as many runs and sessions as fit into half of the free memory.

        Args:
            graph: The model.
            seconds: Of a run.
            max_memory: Bytes of a run; None for a share of what is free.
        """
        free = SHARE * (available_memory() or UNKNOWN)
        need = max(1, min(graph.summary().full_bp_bytes, max_memory or 2**62))
        kept = max(1, int(free / 2 / need))  # a session keeps about what a run needs
        runs = max(1, min(MOST_RUNS, int(free / 2 / need)))
        each = max_memory or max(LEAST, int(free / 2 / runs))
        return cls(seconds=seconds, max_memory=each, runs=runs, sessions=max(2, min(MOST_SESSIONS, kept)))

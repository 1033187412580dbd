"""Tables with room: what was written is there, in whatever order, scale and arithmetic, and however often they move."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.domains.domains import Universe
from anytimebp.kernels.codes import LINEAR, LOG, MAX_LINEAR_RANGE
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.tables.workspace import Workspace

SHAPE = (4, 3, 5)


def with_room(arithmetic):
    """Return a workspace of one factor by a rule, with a state in each domain and room for no more."""
    graph = abp.FactorGraph()
    for name, n in zip("abc", SHAPE, strict=True):
        graph.add_variable(name, n)
    graph.add_factor(["a", "b", "c"], rule=lambda a, b, c: a + b + c)
    compiled = compiled_graph(graph)
    domains = Universe(compiled, {}).domains(np.ones(3, dtype=np.int64), np.zeros(3, dtype=np.int64))
    return Workspace(compiled, domains, arithmetic, room=np.ones(3, dtype=np.int64))


def fill(workspace, box, scores):
    """Write scores into the table of the only factor, as a growing run does; logs where linear numbers do not do."""
    tables = workspace.tables
    holds_nothing = 0 in tables.unscaled
    change = tables.widen(0, scores)
    if tables.log_min[0] < -MAX_LINEAR_RANGE and tables.arithmetic == LINEAR:
        workspace.to_logs()
    tables.lower(0, 0.0 if holds_nothing else change)
    tables.fill_box(0, box, scores.copy())


def stored(workspace):
    """Return the log scores that the table of the only factor stands for, over its domains."""
    tables = workspace.tables
    numbers = tables.numbers(0)[tuple(slice(0, n) for n in workspace.arrays.domain_size)]
    with np.errstate(divide="ignore"):
        return (numbers if tables.in_logs[0] else np.log(numbers)) + tables.log_scale[0]


def grown(workspace, scores, axes):
    """Let the domains grow along these axes, one state at a time; fill in what is new."""
    sizes = workspace.arrays.domain_size
    fill(workspace, (slice(0, 1),) * 3, scores[:1, :1, :1])
    for axis in axes:
        if sizes[axis] == SHAPE[axis]:
            continue
        if workspace.arrays.edge_capacity[axis] == sizes[axis]:
            workspace.enlarge_table(axis, int(sizes[axis]) + 1, SHAPE[axis])
        box = [slice(0, n) for n in sizes.tolist()]
        box[axis] = slice(int(sizes[axis]), int(sizes[axis]) + 1)
        sizes[axis] += 1
        fill(workspace, tuple(box), scores[tuple(box)])


SCALES = {"flat": 1.0, "some nats": 30.0, "beyond linear numbers": 900.0}


@pytest.mark.parametrize("arithmetic", [LINEAR, LOG])
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("zeros", [0.0, 0.4])
@given(axes=st.lists(st.integers(0, 2), max_size=14), seed=st.integers(0, 10**6))
def test_a_table_that_grows_holds_every_score(arithmetic, scale, zeros, axes, seed):
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.0, scale, SHAPE)
    scores[rng.random(SHAPE) < zeros] = -np.inf
    workspace = with_room(arithmetic)
    grown(workspace, scores, axes)
    tables, wanted = workspace.tables, scores[tuple(slice(0, n) for n in workspace.arrays.domain_size)]
    np.testing.assert_allclose(stored(workspace), wanted, rtol=1e-11, atol=1e-11)
    finite = wanted[wanted > -np.inf]
    assert tables.has_zero[0] == (finite.size < wanted.size)
    assert tables.address[0] == tables.numbers(0).ctypes.data
    if finite.size:
        assert tables.log_scale[0] == pytest.approx(finite.max())
        assert tables.log_min[0] == pytest.approx(finite.min() - finite.max(), abs=1e-9)
    must_be_logs = tables.has_zero[0] or tables.log_min[0] < -MAX_LINEAR_RANGE
    assert tables.in_logs[0] == (tables.arithmetic == LOG and must_be_logs)


@given(seed=st.integers(0, 10**6))
def test_messages_that_move_are_where_their_edges_start(seed):
    rng = np.random.default_rng(seed)
    workspace = with_room(LINEAR)
    sizes, beside = workspace.arrays.domain_size, np.ones(3)
    held = [[1.0], [1.0], [1.0]]
    for variable in rng.integers(0, 3, 12).tolist():
        if sizes[variable] == SHAPE[variable]:
            continue
        if sizes[variable] == workspace.room[variable]:
            (beside,) = workspace.move_messages(variable, int(rng.integers(sizes[variable] + 1, 9)), [beside])
        position = workspace.arrays.edge_slot_start[variable] + sizes[variable]
        held[variable].append(float(rng.random()))
        workspace.arrays.message[position], beside[position] = held[variable][-1], -held[variable][-1]
        sizes[variable] += 1
        for edge, expected in enumerate(held):
            start = workspace.arrays.edge_slot_start[edge]
            assert workspace.arrays.message[start : start + sizes[edge]].tolist() == expected
            assert np.abs(beside[start : start + sizes[edge]]).tolist() == expected
    starts = workspace.arrays.edge_slot_start
    positions = [position for edge in range(3) for position in range(starts[edge], starts[edge] + workspace.room[edge])]
    assert len(positions) == len(set(positions)) == workspace.n_slots
    assert max(positions) < len(workspace.in_use.message)

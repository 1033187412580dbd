"""Bands of tables with hard zeros, beside the tables themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.inference.schedule.sweeps import no_news
from anytimebp.kernels import bands as kernels
from anytimebp.kernels.codes import LINEAR, LOG, MAX, OK
from anytimebp.kernels.messages import sweep_slice
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.tables.making import make_bands
from anytimebp.tables.workspace import Workspace
from oracle.examples import examples


def banded(rng, shape, width):
    """Return potentials with at most `width` entries next to each other in a row; some rows have none."""
    table = np.zeros(shape)
    for position in np.ndindex(*shape[:-1]):
        n = int(rng.integers(0, width + 1))
        begin = int(rng.integers(0, shape[-1] - n + 1))
        table[(*position, slice(begin, begin + n))] = rng.random(n) + 0.05
    table[(0,) * len(shape)] = 1.0
    return table


def updated(graph, arithmetic, *, with_bands):
    """Return what the first factor sends, the work of its update and whether its table has a band."""
    compiled = CompiledGraph(graph)
    workspace = Workspace(compiled, full_domains(compiled, {}, {}), arithmetic)
    for _ in workspace.prepare():
        pass
    if with_bands:
        make_bands(workspace.layout, workspace.arrays, workspace.tables)
    sweeps, news, moved = np.zeros((1, 3)), no_news(workspace.layout), np.zeros(len(graph.variables))
    order, arrays = np.array([[0]]), workspace.arrays
    status, *_ = sweep_slice(workspace.layout, arrays, news, order, 0, 1, 10**9, 0.0, 0.0, sweeps, moved)
    assert status == OK
    return arrays.message.copy(), arrays.factor_total.copy(), sweeps[0, 0], int(arrays.table_band[0])


@given(
    seed=st.integers(0, 10**6),
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    columns=st.integers(10, 60),
    width=st.integers(1, 7),
    arithmetic=st.sampled_from([LINEAR, LOG]),
)
@settings(max_examples=examples(150), deadline=None)
def test_messages_through_a_band_are_those_through_the_table(seed, shape, columns, width, arithmetic):
    rng = np.random.default_rng(seed)
    shape = (*shape, columns)
    graph = abp.FactorGraph()
    for axis, n in enumerate(shape):
        graph.add_variable(f"v{axis}", n)
        graph.add_factor([f"v{axis}"], table=rng.random(n) + 0.01)
    table = banded(rng, shape, width)
    graph.add_factor([f"v{axis}" for axis in range(len(shape))], table=table)
    plain, found = (updated(graph, arithmetic, with_bands=with_bands) for with_bands in (False, True))
    assert plain[3] == 0
    np.testing.assert_allclose(found[0], plain[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found[1], plain[1], rtol=1e-12, atol=1e-14)
    assert plain[2] == table.size
    spans = [np.flatnonzero(row) for row in table.reshape(-1, columns)]
    widest = max(int(span[-1] - span[0]) + 1 for span in spans if len(span))
    most = max(kernels.NARROW, columns // kernels.PART)
    pays = table.size >= kernels.LEAST_ENTRIES and widest <= most and (table == 0.0).any()
    assert bool(found[3]) == pays
    assert found[2] == (len(spans) * widest if pays else table.size)


def test_only_sums_of_linear_tables_have_bands():
    graph = abp.FactorGraph()
    graph.add_variables(2, 40)
    graph.add_factor([0, 1], log_table=np.where(np.eye(40) > 0, np.linspace(-700.0, 0.0, 40), -np.inf))
    assert updated(graph, LOG, with_bands=True)[3] == 0
    compiled = CompiledGraph(graph)
    workspace = Workspace(compiled, full_domains(compiled, {}, {}), LOG, semiring=MAX)
    make_bands(workspace.layout, workspace.arrays, workspace.tables)
    assert not workspace.arrays.table_band.any()


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
def test_runs_with_bands_end_where_runs_without_do(method, monkeypatch):
    rng = np.random.default_rng(4)
    graph = abp.FactorGraph()
    graph.add_variables(8, 40)
    graph.add_factors([[k] for k in range(8)], table=rng.random((8, 40)) + 0.05)
    for k in range(8):
        table = banded(rng, (40, 40, 40), 2)
        table[..., 0] += 0.02  # some joint state is possible, whatever the others say
        table[..., 2:] = 0.0
        graph.add_factor([k, (k + 1) % 8, (k + 3) % 8], table=table)
    found = abp.infer(graph, method)
    monkeypatch.setattr("anytimebp.tables.making.LEAST_ENTRIES", 10**9)
    plain = abp.infer(graph, method)
    assert found.work < plain.work
    assert found.stop_reason is plain.stop_reason is abp.StopReason.CONVERGED
    np.testing.assert_allclose(found.marginals.concatenated(), plain.marginals.concatenated(), atol=1e-8)

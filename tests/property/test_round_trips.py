"""Writing and reading a graph gives the graph."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.formats.files import write_model_file
from oracle.same_graph import assert_same_names, assert_same_numbers

pytestmark = pytest.mark.compiled  # files, not kernels: one pass is enough

names = st.text(st.characters(codec="utf-8", exclude_characters='"'), min_size=1, max_size=8).filter(
    lambda name: name == name.strip() and name.isprintable()
)
potentials = st.floats(0.0, 1e300, allow_subnormal=True)


@st.composite
def graphs(draw, *, logs):
    """Graphs whose every variable has a factor, of potentials or of anything that .npz keeps."""
    graph = abp.FactorGraph()
    for k in range(draw(st.integers(1, 5))):
        labelled = draw(st.booleans())
        graph.add_variable(f"v{k}", draw(st.lists(names, min_size=1, max_size=4, unique=True)) if labelled else 3)
    n = len(graph.variables)
    scopes = [[k] for k in range(n)]
    scopes += draw(st.lists(st.lists(st.integers(0, n - 1), min_size=1, max_size=3, unique=True), max_size=4))
    for scope in scopes:
        shape = [graph.variables[i].n_states for i in scope]
        values = np.array(draw(st.lists(potentials, min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))))
        values[draw(st.integers(0, len(values) - 1))] = draw(st.floats(1e-3, 1e3))
        values = values.reshape(shape)
        if logs and draw(st.booleans()):
            with np.errstate(divide="ignore"):
                graph.add_factor(scope, log_table=np.log(values))
        else:
            graph.add_factor(scope, table=values)
    return graph


@given(graphs(logs=True))
def test_npz_keeps_everything(graph):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.npz")
        assert write_model_file(graph, path) == []
        back = abp.read_model(path)
    assert_same_names(graph, back)
    assert_same_numbers(graph, back)


@given(graphs(logs=False))
def test_uai_to_fg_to_npz_to_uai_keeps_every_number(graph):
    current = graph
    with tempfile.TemporaryDirectory() as folder:
        for ending in (".uai", ".fg", ".npz", ".uai.gz"):
            path = Path(folder, f"m{ending}")
            write_model_file(current, path)
            current = abp.read_model(path)
    assert_same_numbers(graph, current)


@st.composite
def networks(draw):
    """Bayesian networks with names of all kinds."""
    graph = abp.FactorGraph()
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    for name in draw(st.lists(names, min_size=1, max_size=5, unique=True)):
        variable = graph.add_variable(name, draw(st.lists(names, min_size=1, max_size=4, unique=True)))
        parents = draw(st.lists(st.integers(0, variable.index), max_size=3, unique=True))
        parents = [p for p in parents if p != variable.index]
        shape = [graph.variables[p].n_states for p in parents]
        table = rng.dirichlet(np.ones(variable.n_states), shape or None)
        graph.add_factor([*parents, variable], table=table)
    return graph


@given(networks(), st.sampled_from([".bif", ".xmlbif"]))
def test_networks_keep_names_and_numbers(graph, ending):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"m{ending}")
        assert write_model_file(graph, path) == []
        back = abp.read_model(path)
    assert_same_names(graph, back)
    assert_same_numbers(graph, back)

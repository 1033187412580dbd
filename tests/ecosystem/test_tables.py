"""Marginals as tables of other libraries, read back by those libraries."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import anytimebp as abp
from anytimebp.results.tables import given_labels, row_names, typed_labels


def run(*universes, **options):
    """Infer a chain on these universes, with scores that tell all states apart."""
    graph = abp.FactorGraph()
    rng = np.random.default_rng(7)
    for number, states in enumerate(universes):
        variable = graph.add_variable(f"v{number}", states)
        graph.add_factor([variable], log_table=rng.normal(size=variable.n_states))
        if number:
            shape = graph.variables[number - 1].n_states, variable.n_states
            graph.add_factor([number - 1, number], log_table=rng.normal(size=shape))
    return abp.infer(graph, "bp", **options)


def rows(result):
    """Return what every table must hold, the slow way."""
    variables = result.marginals.variables
    return [
        (v.name, label, p)
        for v in variables
        for label, p in zip(v.labels, result.marginals[v.name].tolist(), strict=True)
    ]


WORDS = ["sun", "rain"], ["dry", "wet", "wét"]
MIXED = ["sun", "rain"], 3, [(0, 1), (1, 0)]


@pytest.mark.parametrize("universes", [WORDS, (2, 3), MIXED])
def test_pandas_keeps_labels_as_given(universes):
    result = run(*universes)
    frame = result.to_pandas()
    assert list(frame.columns) == ["variable", "state", "probability"]
    assert list(frame.itertuples(index=False, name=None)) == rows(result)
    assert frame["state"].dtype == object


@pytest.mark.parametrize(
    ("universes", "state", "dtype"),
    [
        (WORDS, str, pl.String),
        ((2, [5, -3, 2**62]), int, pl.Int64),
        (MIXED, str, pl.String),
        (([False, True],), str, pl.String),
        (([1, True + 1],), int, pl.Int64),
        (([0.5, 1.5], 2), str, pl.String),
        (([2**63, 1],), str, pl.String),
    ],
)
def test_polars_and_arrow_have_whole_numbers_or_text(universes, state, dtype):
    result = run(*universes)
    expected = [(name, state(label), p) for name, label, p in rows(result)]
    for frame in (result.to_polars(), pl.DataFrame(result)):
        assert frame.schema == {"variable": pl.String, "state": dtype, "probability": pl.Float64}
        assert frame.rows() == expected
    table = pa.table(result)
    assert table.schema.types == [pa.string(), pa.int64() if dtype == pl.Int64 else pa.string(), pa.float64()]
    assert [tuple(row.values()) for row in table.to_pylist()] == expected


def test_arrow_honours_the_schema_that_is_asked_for():
    result = run(2, 3)
    wanted = pa.schema([("variable", pa.large_string()), ("state", pa.int64()), ("probability", pa.float64())])
    capsule = result.__arrow_c_stream__(wanted.__arrow_c_schema__())
    assert pa.RecordBatchReader._import_from_c_capsule(capsule).read_all() == pa.table(result).cast(wanted)


def test_snapshots_have_tables_too():
    graph = abp.FactorGraph()
    graph.add_variables(2, 3)
    graph.add_factor([0, 1], log_table=np.arange(9.0).reshape(3, 3))
    snapshot = next(iter(abp.Inference(graph, method="dynamic")))
    assert snapshot.domain_sizes.sum() < 6
    for frame in (snapshot.to_polars(), pl.DataFrame(snapshot), pl.from_pandas(snapshot.to_pandas())):
        assert frame["probability"].to_list() == [p for _, _, p in rows(snapshot)]
    assert snapshot.to_xarray().to_numpy().ravel().tolist() == [p for _, _, p in rows(snapshot)]


@pytest.mark.parametrize("method", ["bp", "dynamic", "truncated"])
def test_rows_of_states_outside_the_domain_are_zero_and_in_place(method):
    graph = abp.FactorGraph()
    graph.add_variables(3, 4)
    graph.add_factors([[0, 1], [1, 2]], log_table=np.random.default_rng(3).normal(size=(4, 4)))
    result = abp.infer(graph, method, evidence={"x1": {3, 1}, "x2": 2})
    assert result.to_polars()["probability"].to_list() == [p for _, _, p in rows(result)]
    assert result.to_polars().filter(pl.col("variable") == "x2")["probability"].to_list() == [0, 0, 1, 0]


def test_xarray_has_names_and_labels_as_coordinates():
    result = run(["low", "high"], ["low", "high"], ["low", "high"])
    array = result.to_xarray()
    assert isinstance(array, xr.DataArray)
    assert array.dims == ("variable", "state")
    assert array.name == "probability"
    assert [(str(v), str(s), float(array.sel(variable=v, state=s))) for v, s, _ in rows(result)] == rows(result)
    counted = run(3, [0, 1, 2]).to_xarray()
    assert counted["state"].dtype == np.int64
    assert float(counted.sel(variable="v1", state=2)) == pytest.approx(float(counted[1, 2]))


@pytest.mark.parametrize("last", [3, ["high", "low"], [0, 1], ["low", "high", "higher"]])
def test_xarray_refuses_variables_without_one_universe(last):
    result = run(["low", "high"], ["low", "high"], last)
    with pytest.raises(abp.OptionError, match="to_xarray.*'v2' has the states.*'v0' has 'low', 'high'"):
        result.to_xarray()


def test_xarray_tells_numbers_from_booleans():
    with pytest.raises(abp.OptionError, match="'v1' has the states False, True, 'v0' has 0, 1"):
        run(2, [False, True]).to_xarray()


def test_a_graph_without_variables_gives_tables_without_rows():
    result = abp.infer(abp.FactorGraph(), "bp")
    assert result.to_pandas().shape == result.to_polars().shape == pa.table(result).shape == (0, 3)
    assert result.to_xarray().shape == (0, 0)


def test_columns_are_plain_arrays():
    result = run(["a", ("b", 1)], 2)
    variables = result.marginals.variables
    assert row_names(variables).tolist() == ["v0", "v0", "v1", "v1"]
    assert given_labels(variables.blocks).tolist() == ["a", ("b", 1), 0, 1]
    assert result.marginals.concatenated().tolist() == [p for _, _, p in rows(result)]
    assert typed_labels(variables.blocks).tolist() == ["a", "('b', 1)", "0", "1"]


def test_labels_that_are_equal_as_text_are_told_apart():
    result = run([1, "1", None], ["a", "b"], [3, "3", "'3'"])
    expected = ["1", "'1'", "None", "a", "b", "3", "'3'", "\"'3'\""]
    assert result.to_polars()["state"].to_list() == expected
    assert pa.table(result)["state"].to_pylist() == expected
    assert run([1, "1", None]).to_xarray()["state"].to_numpy().tolist() == expected[:3]


def test_labels_that_cannot_be_encoded_name_their_variable():
    result = run(["ok", "fine"], ["ok", "\ud800"])
    for make in (abp.Result.to_polars, pa.table):
        with pytest.raises(abp.OptionError, match="of variable 'v1', cannot be encoded"):
            make(result)


def test_names_that_cannot_be_encoded_are_named():
    graph = abp.FactorGraph()
    graph.add_variable("\udc00", 2)
    result = abp.infer(graph, "bp")
    for make in (abp.Result.to_polars, abp.Result.to_xarray, pa.table):
        with pytest.raises(abp.OptionError, match=r"of variable '\\udc00', cannot be encoded"):
            make(result)


def test_trace_in_polars_is_the_one_in_pandas():
    trace = run(2, 3, 4).trace
    frame = trace.to_polars()
    pd.testing.assert_frame_equal(pd.DataFrame(frame.to_dict(as_series=False)), trace.to_pandas())
    assert frame.schema["updates"] == pl.Int64


WITHOUT = {
    "abp.infer(graph, 'bp').to_pandas()": (
        ["pandas"],
        'needs pandas: pip install pandas (or, in a clone, ".[pandas]")',
    ),
    "abp.infer(graph, 'bp').to_polars()": (["polars"], "pip install polars"),
    "abp.infer(graph, 'bp').to_xarray()": (["xarray"], "pip install xarray"),
    "abp.to_networkx(graph)": (["networkx"], "pip install networkx"),
    "abp.infer(graph, 'bp').__arrow_c_stream__()": (
        ["pyarrow", "polars"],
        'pip install pyarrow (or, in a clone, ".[arrow]")',
    ),
    "abp.infer(graph, 'bp').__arrow_c_stream__( )": (["pyarrow"], "arrow_array_stream"),
}
"""What is used, the packages that are missing, and what is said or given then."""

HIDING = """
import json, sys
uses = {uses!r}
sys.modules |= dict.fromkeys(name for hidden in uses.values() for name in hidden)
import anytimebp as abp
graph = abp.FactorGraph()
graph.add_variable("a", 2)
said = {{}}
for use, hidden in uses.items():
    for name in ("pandas", "polars", "xarray", "networkx", "pyarrow"):
        sys.modules.pop(name, None)
    sys.modules |= dict.fromkeys(hidden)
    try:
        said[use] = str(eval(use))
    except ImportError as error:
        said[use] = str(error)
print(json.dumps(said))
"""


def test_missing_packages_are_named_with_the_extra_that_brings_them():
    code = HIDING.format(uses={use: hidden for use, (hidden, _) in WITHOUT.items()})
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert [said[use] for use, (_, wanted) in WITHOUT.items() if wanted not in said[use]] == []
    assert said.keys() == WITHOUT.keys()

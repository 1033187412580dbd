"""Lists and structures in files: kept by .npz, written as tables by others while that can be done, refused beyond."""

import json

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.formats import potentials
from anytimebp.formats.files import write_model_file
from anytimebp.model.kinds.listed import ListedSource

pytestmark = pytest.mark.compiled  # files, not kernels: one pass is enough


def small():
    graph = abp.FactorGraph()
    graph.add_variables(3, 4)
    graph.add_variable("x3", 3)
    graph.add_factor([0, 1], structure=abp.Equality(1.5, default=-1.0))
    graph.add_factor([0, 3, 2], structure=abp.Deterministic(lambda a, b: (a + b) % 4))
    graph.add_factors([[1, 2], [2, 0]], structure=abp.Difference([0.5, -np.inf, 0.25], first=-2, default=-3.0))
    graph.add_factor([3, 1, 0], structure=abp.AtMostOne([2, 0, 1]))
    graph.add_factor([3, 2], entries=([[0, 1], [2, 3]], [0.5, -np.inf]))
    return graph


def tables(graph):
    return [graph.factor_log_table(k) for k in range(graph.n_factors)]


@pytest.mark.parametrize("ending", [".uai", ".fg", ".npz"])
def test_small_structures_are_written_everywhere(tmp_path, ending):
    dropped = write_model_file(small(), tmp_path / f"m{ending}")
    assert dropped == ([] if ending == ".npz" else [potentials.ROUNDED])
    back = abp.read_model(tmp_path / f"m{ending}")
    assert [back.factor_scope(k) for k in range(6)] == [small().factor_scope(k) for k in range(6)]
    for found, expected in zip(tables(back), tables(small()), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("ending", [".bif", ".xmlbif", ".uai"])
def test_functions_are_distributions_of_networks(tmp_path, ending):
    graph = abp.FactorGraph()
    graph.add_variables(3, 4)
    graph.add_factors([[0], [1]], table=[0.1, 0.2, 0.3, 0.4])
    graph.add_factor([0, 1, 2], structure=abp.Deterministic(lambda a, b: (a * b) % 4))
    with pytest.warns(abp.DroppedWarning):
        abp.write_model(graph, tmp_path / f"m{ending}")
    back = abp.read_model(tmp_path / f"m{ending}")
    assert back.factor_scope(2) == ("x0", "x1", "x2")
    assert (back.factor_log_table(2) == graph.factor_log_table(2)).all()
    if ending == ".uai":
        assert (tmp_path / "m.uai").read_text().startswith("BAYES")


def test_what_is_no_distribution_is_no_network(tmp_path):
    graph = abp.FactorGraph()
    graph.add_variables(2, 4)
    graph.add_factor([0], table=[0.1, 0.2, 0.3, 0.4])
    graph.add_factor([0, 1], structure=abp.Equality(1.0, default=0.0))
    with pytest.raises(abp.FormatError, match="Bayesian networks only"):
        abp.write_model(graph, tmp_path / "m.bif")


def with_transforms():
    graph = abp.FactorGraph()
    graph.add_variables(4, 4)
    graph.add_variables(3, 2)
    graph.add_variables(2, 5)
    graph.add_factors([[0, 1, 2], [1, 2, 3]], structure=abp.Xor())
    graph.add_factor([0, 1, 2], structure=abp.And())
    graph.add_factor([0, 1, 2], structure=abp.Or())
    graph.add_factor([0, 1, 3], structure=abp.ModularSum([1, -1, 1], 3))
    graph.add_factor([0, 1, 3], structure=abp.FieldCheck(4, [1, 2, 3]))
    graph.add_factor([7, 8], structure=abp.FieldCheck(5, [4, 2]))
    graph.add_factor([0, 7, 5], structure=abp.Cardinality([0.0, -np.inf, 1.0, 2.0], [3, 4, 1]))
    graph.add_factor([4, 5, 6], structure=abp.NoisyOr([0.3, 1.0], leak=0.01))
    graph.add_factor([0, 7], structure=abp.LowRank([np.arange(12.0).reshape(4, 3), np.eye(5)[:, :3]]))
    return graph


@pytest.mark.parametrize("ending", [".uai", ".npz"])
def test_structures_with_transforms_are_written(tmp_path, ending):
    write_model_file(with_transforms(), tmp_path / f"m{ending}")
    back = abp.read_model(tmp_path / f"m{ending}")
    for found, expected in zip(tables(back), tables(with_transforms()), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)
    if ending == ".npz":
        kinds = [type(block.source) for block in with_transforms().blocks]
        assert [type(block.source) for block in back.blocks] == kinds


HUGE = {
    "Equality": ([0, 1], {"structure": abp.Equality(1.0, default=0.0)}),
    "Difference": ([0, 1], {"structure": abp.Difference(np.zeros(101))}),
    "AtMostOne": ([0, 1], {"structure": abp.AtMostOne()}),
    "entries": ([0, 1], {"entries": ([[5, 7], [19_999, 0]], [1.0, 2.0]), "default": -1.0}),
}


@pytest.mark.parametrize("ending", [".uai", ".fg"])
@pytest.mark.parametrize("kind", HUGE)
def test_huge_structures_are_refused_by_name_before_memory_is_used(tmp_path, monkeypatch, kind, ending):
    graph = abp.FactorGraph()
    graph.add_variables(2, 20_000)
    graph.add_factor([0], table=np.ones(20_000))
    scope, how = HUGE[kind]
    graph.add_factor(scope, **how)

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(abp.FactorGraph, "factor_log_table", never)
    with pytest.raises(abp.FormatError, match=rf"m{ending}: factor 1 \(x0, x1\) .* 400,000,000 entries.*write \.npz"):
        abp.write_model(graph, tmp_path / f"m{ending}")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(abp.FormatError, match="Bayesian networks only"):
        abp.write_model(graph, tmp_path / "m.bif")
    abp.write_model(graph, tmp_path / "m.npz")
    assert type(abp.read_model(tmp_path / "m.npz").blocks[1].source) is type(graph.blocks[1].source)


def test_fg_keeps_lists_of_what_is_possible_however_large(tmp_path):
    graph = abp.FactorGraph()
    graph.add_variables(3, 20_000)
    graph.add_factors([[0, 1], [2, 1]], structure=abp.Equality(np.linspace(-1.0, 1.0, 20_000)))
    graph.add_factor([2, 0], entries=([[5, 7], [19_999, 0], [0, 3]], [1.0, 2.0, -np.inf]))
    assert write_model_file(graph, tmp_path / "m.fg") == [potentials.ROUNDED]
    back = abp.read_model(tmp_path / "m.fg")
    states = [np.array([5, 19_999, 0, 7]), np.array([7, 0, 3, 5])]
    for k in range(3):
        assert isinstance(back.locate(k)[0].source, ListedSource)
        found, expected = (g.locate(k)[0].source.log_values(0, states) for g in (back, graph))
        np.testing.assert_allclose(found, expected, rtol=1e-13)


# ---------------------------------------------------------------- distrust
def archive(path, factor, **arrays):
    header = {"anytimebp": 1, "variables": [{"n": 3, "names": None, "states": 4}], "factors": [factor]}
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)


SCOPES = np.array([[0, 1], [1, 2]])
KERNEL = np.array([0.5, 1.0])
FINE = {"kind": "difference", "first": -1, "default": -2.0}
BAD_DIFFERENCES = [
    ({"first": 0.5}, {}, "first difference of factor block 0 must be whole, got 0.5"),
    ({"first": True}, {}, "must be whole, got True"),
    ({"first": None}, {}, "must be whole, got None"),
    ({"first": "1"}, {}, "must be whole, got '1'"),
    ({"default": "0"}, {}, "default of factor block 0 must be a number, got '0'"),
    ({"default": False}, {}, "must be a number, got False"),
    ({"default": [1.0]}, {}, "must be a number"),
    ({"default": float("nan")}, {}, "factors 0 to 1: the `default` of Difference holds nan"),
    ({"default": float("inf")}, {}, "`default` of Difference holds inf"),
    ({"default": 10**400}, {}, "header is not as it should be"),
    ({"kind": "differences"}, {}, "unknown kind 'differences'"),
    ({}, {"log_kernel_0": np.array([1, 2])}, "array 'log_kernel_0' holds int64"),
    ({}, {"log_kernel_0": np.zeros((1, 2))}, "factors 0 to 1: Difference takes two variables and a row"),
    ({}, {"log_kernel_0": np.zeros(0)}, "factors 0 to 1: Difference takes two variables and a row"),
    ({}, {"log_kernel_0": np.array([np.nan, 0.0])}, "kernel of Difference holds nan"),
    ({}, {"scopes_0": np.array([[0, 1, 2]])}, "Difference takes two variables"),
    ({}, {"scopes_0": np.array([[0, 7]])}, "outside the variables"),
]


@pytest.mark.parametrize(("change", "arrays", "said"), BAD_DIFFERENCES)
def test_npz_differences_are_checked(tmp_path, change, arrays, said):
    archive(tmp_path / "m.npz", FINE | change, **({"scopes_0": SCOPES, "log_kernel_0": KERNEL} | arrays))
    with pytest.raises(abp.FormatError, match=rf"m\.npz: .*{said}"):
        abp.read_model(tmp_path / "m.npz")


@pytest.mark.parametrize("missing", ["first", "default"])
def test_npz_differences_miss_nothing(tmp_path, missing):
    archive(tmp_path / "m.npz", {k: v for k, v in FINE.items() if k != missing}, scopes_0=SCOPES, log_kernel_0=KERNEL)
    with pytest.raises(abp.FormatError, match=rf"m\.npz: the header is not as it should be.*{missing}"):
        abp.read_model(tmp_path / "m.npz")
    archive(tmp_path / "m.npz", FINE, scopes_0=SCOPES)
    with pytest.raises(abp.FormatError, match=r"m\.npz: array 'log_kernel_0' is missing"):
        abp.read_model(tmp_path / "m.npz")


def test_npz_differences_far_from_all_universes_are_the_default(tmp_path):
    archive(tmp_path / "m.npz", FINE | {"first": 10**30}, scopes_0=SCOPES, log_kernel_0=KERNEL)
    assert (abp.read_model(tmp_path / "m.npz").factor_log_table(1) == -2.0).all()
    archive(tmp_path / "m.npz", FINE | {"first": 10**30, "default": None}, scopes_0=SCOPES, log_kernel_0=KERNEL)
    with pytest.raises(abp.InconsistentModelError, match=r"m\.npz: factors 0 to 1 is zero everywhere"):
        abp.read_model(tmp_path / "m.npz")


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (np.array([0, 4]), r"states \[0, 4\] of AtMostOne are outside the universes"),
        (np.array([0, -1]), "outside the universes"),
        (np.array([0, 1, 2]), "factors 0 to 1: AtMostOne takes two variables or more and a state index"),
        (np.array([[0, 1]]), "AtMostOne takes two variables"),
        (np.array([0.0, 1.0]), "array 'states_0' holds float64"),
    ],
)
def test_npz_states_of_at_most_one_are_checked(tmp_path, states, said):
    archive(tmp_path / "m.npz", {"kind": "at_most_one"}, scopes_0=SCOPES, states_0=states)
    with pytest.raises(abp.FormatError, match=rf"m\.npz: .*{said}"):
        abp.read_model(tmp_path / "m.npz")


def test_summary_tells_lists_from_tables():
    graph = abp.FactorGraph()
    graph.add_variables(4, 20_000)
    graph.add_factor([0], table=np.ones(20_000))
    assert "listed" not in str(graph.summary())
    graph.add_factors([[0, 1], [1, 2]], structure=abp.Equality())
    graph.add_factors([[2, 3], [3, 0]], structure=abp.Difference(np.zeros(101)))
    graph.add_factor([0, 1, 2, 3], structure=abp.AtMostOne())
    summary = graph.summary()
    assert (summary.table_entries, summary.n_structures) == (20_000, 5)
    assert summary.listed_entries == 2 * 20_000 + 2 * 101 + 4
    assert summary.listed_joint_states == 4 * 20_000**2 + 20_000**4
    assert summary.table_bytes == 8 * (20_000 + 3 * 20_000 + 101 + 4)
    assert summary.full_bp_bytes < 10_000_000
    assert "40,206 of 5 factors with 160,000,001,600,000,000 joint states" in str(summary)

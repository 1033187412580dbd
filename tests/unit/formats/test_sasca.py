"""The graph language of SCALib: what each statement means, and which line and token errors name."""

import numpy as np
import pytest

import anytimebp as abp

SBOX = np.array([3, 0, 2, 1, 7, 5, 4, 6])
ATTACK = """
# an S-box
NC 8  # states
TABLE sbox
VAR SINGLE k
PUB MULTI p
VAR MULTI x   # S-box input
VAR MULTI y
PROPERTY x = k ^ p
PROPERTY look: y = sbox[x]
"""


@pytest.fixture
def read(tmp_path):
    def read(text, **options):
        path = tmp_path / "graph.sasca"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return abp.read_model(path, **options)

    return read


def test_an_attack_has_variables_and_factors_of_each_execution(read):
    graph = read(ATTACK, tables={"sbox": SBOX}, n_executions=3)
    names = [variable.name for variable in graph.variables]
    assert names == ["k", "p[0]", "p[1]", "p[2]", "x[0]", "x[1]", "x[2]", "y[0]", "y[1]", "y[2]"]
    assert graph.n_factors == 6
    assert [graph.factor_scope(f) for f in range(3)] == [(f"x[{k}]", "k", f"p[{k}]") for k in range(3)]
    assert graph.factor_scope(4) == ("x[1]", "y[1]")
    evidence = {"p[0]": 3, "p[1]": 5, "p[2]": 0} | {f"y[{k}]": int(SBOX[6 ^ p]) for k, p in enumerate((3, 5, 0))}
    assert abp.infer(graph, "bp", evidence=evidence).marginals["k"][6] == pytest.approx(1.0)


MEANINGS = {
    "c = a ^ b": lambda a, b: a ^ b,
    "c = a & b": lambda a, b: a & b,
    "c = a | b": lambda a, b: a | b,
    "c = a + b": lambda a, b: (a + b) % 8,
    "c = a - b": lambda a, b: (a - b) % 8,
    "c = -a + b": lambda a, b: (b - a) % 8,
    "c=-a-b": lambda a, b: (-a - b) % 8,
}


@pytest.mark.parametrize("text", MEANINGS)
def test_operations_of_two_variables(read, text):
    graph = read(f"PROPERTY f: {text}\nVAR SINGLE a\nVAR SINGLE b\nVAR SINGLE c\nNC 8\n")
    table, scope = graph.factor_log_table("f"), graph.factor_scope("f")
    table = np.moveaxis(table, [scope.index(name) for name in "abc"], [0, 1, 2])
    a, b, c = np.ix_(*[np.arange(8)] * 3)
    assert ((table == 0.0) == (MEANINGS[text](a, b) == c)).all()


@pytest.mark.parametrize(
    ("text", "function"), [("b = !a", lambda a: 7 - a), ("b = t[a]", lambda a: SBOX[a]), ("b = a", lambda a: a)]
)
def test_operations_of_one_variable(read, text, function):
    graph = read(f"NC 8\nTABLE t = {SBOX.tolist()}\nVAR SINGLE a\nVAR SINGLE b\nPROPERTY f: {text}\n")
    table = graph.factor_log_table("f")
    table = table if graph.factor_scope("f") == ("a", "b") else table.T
    assert ((table == 0.0) == (function(np.arange(8))[:, np.newaxis] == np.arange(8))).all()


def test_sums_of_many_terms(read):
    graph = read("NC 4\nVAR SINGLE w\nVAR SINGLE x\nVAR SINGLE y\nVAR SINGLE z\nPROPERTY w = x + y - z\n")
    w, x, y, z = np.ix_(*[np.arange(4)] * 4)
    assert ((graph.factor_log_table(0) == 0.0) == (w == (x + y - z) % 4)).all()


@pytest.mark.parametrize("often", ["SINGLE", "MULTI"])
def test_generic_factors_take_potentials(read, often):
    table = np.random.default_rng(0).random((2, 4, 4) if often == "MULTI" else (4, 4))
    text = f"NC 4\nVAR SINGLE a\nVAR MULTI b\nGENERIC {often} f\nPROPERTY f(a, b)\n"
    graph = read(text, tables={"f": table}, n_executions=2)
    for k in range(2):
        assert graph.factor_scope(k) == ("a", f"b[{k}]")
        np.testing.assert_allclose(np.exp(graph.factor_log_table(k)), table[k] if often == "MULTI" else table)


def test_a_single_execution_is_the_default(read):
    assert [variable.name for variable in read("NC 2\nVAR MULTI a\nVAR SINGLE b\n").variables] == ["a[0]", "b"]


WRONG = {
    "NC 8\nNC 8": (2, "twice"),
    "NC 12": (1, "'12'"),
    "NC 1": (1, "power of two"),
    "NC x": (1, "'x'"),
    "NC": (1, "line ends"),
    "VAR SINGLE a": (None, "NC"),
    "NC 8\nVAR a": (2, "'a'"),
    "NC 8\nVAR SINGLE a b": (2, "'b'"),
    "NC 8\nVAR SINGLE a\n\nPUB MULTI a": (4, "since line 2"),
    "NC 8\nLET a": (2, "'LET'"),
    "NC 8\nVAR SINGLE é": (2, "'é'"),
    "NC 8\nVAR SINGLE a\nPROPERTY a = b ^ c": (3, "'b'"),
    "NC 8\nVAR SINGLE a\nVAR SINGLE b\nPROPERTY a = b ^ b": (4, "twice, at 'b'"),
    "NC 8\nVAR SINGLE a\nVAR SINGLE b\nPROPERTY a = b ^ b & a": (4, "'&'"),
    "NC 8\nVAR SINGLE a\nVAR SINGLE b\nPROPERTY a = b * b": (4, "'*'"),
    "NC 8\nVAR SINGLE a\nVAR SINGLE b\nPROPERTY a = s[b]": (4, "'s'"),
    "NC 8\nVAR SINGLE a\nVAR SINGLE b\nPROPERTY s(a, b)": (4, "'s'"),
    "NC 8\nVAR SINGLE a\nVAR SINGLE b\nGENERIC SINGLE s\nPROPERTY s(a, b)": (5, "tables="),
    "NC 4\nTABLE t = [0, 1, 2]": (2, "4 whole numbers"),
    "NC 4\nTABLE t = [0, 1, 2, 4]": (2, "0 to 3"),
    "NC 4\nTABLE t = [0, 1, 2 4]": (2, "'4'"),
    "NC 4\nTABLE t": (2, "tables="),
}


@pytest.mark.parametrize("text", WRONG)
def test_errors_name_the_line_and_the_token(read, text):
    line, token = WRONG[text]
    with pytest.raises(abp.FormatError) as caught:
        read(text)
    assert caught.value.line == line
    assert token in str(caught.value)
    assert "graph.sasca" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"tables": {"box": SBOX}}, "'box'"),
        ({"tables": {"sbox": SBOX[:3]}}, "'sbox'"),
        ({"tables": {"sbox": SBOX + 1}}, "0 to 7"),
        ({"tables": {"sbox": [[1], [1, 2]]}}, "'sbox'"),
        ({"n_executions": 0}, "n_executions"),
        ({"n_executions": 1.5}, "n_executions"),
    ],
)
def test_wrong_options_are_named(read, options, culprit):
    with pytest.raises(abp.FormatError, match=culprit.replace("(", "\\(")):
        read(ATTACK, **options)


def test_other_formats_take_no_tables(tmp_path):
    (tmp_path / "a.uai").write_text("MARKOV 1 2 1 1 0 2 0.5 0.5")
    with pytest.raises(abp.FormatError, match=r"\.sasca"):
        abp.read_model(tmp_path / "a.uai", n_executions=2)

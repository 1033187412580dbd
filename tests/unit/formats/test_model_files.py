"""Models in files: what each format says, what it keeps, and what it refuses."""

import contextlib
import gzip
import tracemalloc
import zipfile

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.formats.files import write_model_file
from fuzz.mutations import BIF, FG, UAI, XMLBIF
from oracle.same_graph import assert_same_names, assert_same_numbers

pytestmark = pytest.mark.compiled  # files, not kernels: one pass is enough


@pytest.fixture
def read(tmp_path):
    def read_text(text, ending=".uai"):
        path = tmp_path / f"model{ending}"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return abp.read_model(path)

    return read_text


def refusal(read, text, ending=".uai"):
    with pytest.raises(abp.FormatError) as caught:
        read(text, ending)
    return caught.value


def log_tables(graph):
    return [graph.factor_log_table(k) for k in range(graph.n_factors)]


# ---------------------------------------------------------------- UAI
def test_uai_has_the_last_variable_fastest(read):
    graph = read(UAI)
    assert [v.n_states for v in graph.variables] == [2, 3, 1, 2]
    assert [v.name for v in graph.variables] == ["x0", "x1", "x2", "x3"]
    assert graph.factor_scope(1) == ("x0", "x1")
    assert np.exp(graph.factor_log_table(1)) == pytest.approx(np.array([[1, 2, 3], [4, 5e-3, 0]]))
    assert np.exp(graph.factor_log_table(4)) == pytest.approx(np.array([[1, 1], [1, 0.25]]))


def test_uai_factor_without_variables_counts_in_log_z(read):
    with_constant = abp.infer(read("MARKOV 1 2 2 0 1 0 1 3.5 2 0.5 1.5"), "bp")
    without = abp.infer(read("MARKOV 1 2 1 1 0 2 0.5 1.5"), "bp")
    assert with_constant.log_z == pytest.approx(without.log_z + np.log(3.5), abs=1e-14)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.replace(b"\n", b"\r"),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: b"# made by hand\n" + text.replace(b"\n", b" # 7 7 7\n\n"),
        lambda text: (b"# made by hand\n" + text.replace(b"\n", b" # 7 # 7\n")).replace(b"\n", b"\r"),
        lambda text: text.replace(b"\n", b" "),
        lambda text: text.replace(b" ", b"\t\n").lower(),
        gzip.compress,
        lambda text: text.rstrip(),
        lambda text: text + b"\n\n  \n# the end",
    ],
)
def test_uai_does_not_mind_how_it_is_laid_out(read, change):
    assert_same_numbers(read(change(UAI)), read(UAI))


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", None, "ends where the kind of model should be"),
        ("\n\nMARKOW 1", 3, "starts with MARKOV or BAYES, at 'MARKOW'"),
        ("MARKOV\n-3", 2, "number of variables: expected a whole number of at least 0, at '-3'"),
        ("MARKOV\n2\n2 x\n1\n", 3, "numbers of states: expected a whole number of at least 0, at 'x'"),
        ("MARKOV\n2\n2 0\n1\n", 3, "variable 1 must have 1 to"),
        ("MARKOV\n2\n2 2\n1\n2 0 2\n", 5, "scope of factor 0 must be between 0 and 1, got 2, at '2'"),
        ("MARKOV\n2\n2 2\n1\n2 1 1\n", 5, "names a variable twice"),
        ("MARKOV\n2\n2 2\n1\n31 0\n", 5, "must be between 0 and 30"),
        ("MARKOV\n1\n2\n1\n1 0\n3\n1 2 3", 6, "factor 0 has 2 joint states and needs as many entries, at '3'"),
        (
            "MARKOV\n1\n2\n2\n1 0\n1 0\n2\n1 2\n2\n1\n",
            10,
            "ends in the table of factor 1, after 1 of 2 entries, at '1'",
        ),
        ("MARKOV\n1\n2\n2\n1 0\n1 0\n2\n1 2\n", 8, "ends in the table of factor 1, after 0 of 2 entries, at '2'"),
        (f"MARKOV\n1\n2\n9\n{'1 0 ' * 9}\n2 1 2\n2 1\n{'2 1 5' * 7}", 8, "factor 2 has 2 joint states and needs as m"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 2\n7", 8, "goes on after the last table, at '7'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1\nabc", 8, "expected a number, at 'abc'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 1_000", 7, "expected a number, at '1_000'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 -0.5", 7, "potentials are finite and not negative, at '-0.5'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 nan", 7, "potentials are finite and not negative, at 'nan'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 1e999", 7, "potentials are finite and not negative, at '1e999'"),
        ("MARKOV\n3000000000\n2", 2, "must be between 0 and 2,147,483,648"),
        ("MARKOV\n2000000000\n2", 2, "more than the file can hold"),
        ("MARKOV\n2\n1000000 1000000\n1\n2 0 1\n1000000000000\n1 1", 6, "1,000,000,000,000 numbers are announced"),
        ("MARKOV\n0\n1\n0\n1\n2.0", None, "a factor needs a variable"),
        (b"\xff\xfeM\0A\0", None, "the file is UTF-16"),
        ("x" * 100_000, 1, "no blank within"),
    ],
)
def test_uai_errors_name_the_line_and_the_token(read, text, line, said):
    error = refusal(read, text)
    assert error.line == line
    assert said in str(error), str(error)
    assert "model.uai" in str(error)


def test_lines_are_right_far_into_a_file_with_comments(read):
    rows = "\n".join("0.125 0.125 # one row" for _ in range(40_000))
    error = refusal(read, f"MARKOV\n2\n2 40000\n1\n2 1 0\n80000\n{rows}\n-1\n")
    assert error.line == 6 + 40_000 + 1
    middle = rows.replace("0.125", "oops", 1)[:-5000] + "\nbad"
    assert refusal(read, f"MARKOV\n2\n2 40000\n1\n2 1 0\n80000\n{middle}").line == 7


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@pytest.mark.parametrize("comment", ["", " # one row", " # " + "long " * 20_000])
def test_lines_are_counted_whatever_ends_them(read, end, comment):
    for shift in range(3):  # blocks end at other characters
        rows = end.join(["0.125 0.125"] * 2000 + [comment] + ["0.25 0.25"] * 8000)
        text = f"MARKOV{' ' * shift}{end}2{end}2 10000{end}1{end}2 1 0{end}20000{end}{rows}"
        assert read(text).n_factors == 1
        assert refusal(read, f"{text}{end}7").line == 6 + 10_001 + 1
        assert refusal(read, text.replace("0.25 ", "0.25x ", 1)).line == 6 + 2001 + 1


def test_tokens_may_end_with_the_file(tmp_path, read):
    graph = read("MARKOV 11 2 2 2 2 2 2 2 2 2 2 2 1 1 10 2 1 12")
    assert np.exp(graph.factor_log_table(0)) == pytest.approx([1, 12])
    (tmp_path / "e.evid").write_text("10")
    with pytest.raises(abp.FormatError, match="the count is 10, and 0 numbers follow"):
        abp.read_evidence(tmp_path / "e.evid", graph)


def test_bif_of_the_first_macs(read):
    assert_same_names(read(BIF, ".bif"), read(BIF.replace(b"\n", b"\r"), ".bif"))
    assert refusal(read, BIF.replace(b"\n", b"\r") + b"\rx", ".bif").line == 15


def test_a_header_that_claims_much_allocates_little(read):
    texts = {
        ".uai": [
            "MARKOV\n2\n1000000 1000000\n1\n2 0 1\n1000000000000\n1 1",
            "MARKOV\n1000000000\n2 2",
            "MARKOV\n1\n2\n1000000000\n1 0",
        ],
        ".fg": ["1\n\n2\n0 1\n1000000 1000000\n1\n0 1.0\n", "1000000000\n\n1\n0\n2\n1\n0 1\n", "1\n1\n0\n9\n9\n0 1"],
    }
    for ending, files in texts.items():
        for text in files:
            tracemalloc.start()
            with contextlib.suppress(abp.FormatError):
                read(text, ending)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 5e6, text


def test_a_gzip_file_cut_short_says_so(read):
    error = refusal(read, gzip.compress(UAI * 1000)[:-20])
    assert "gzip" in str(error)


def test_all_zero_factors_are_inconsistent_and_name_the_file(read):
    with pytest.raises(abp.InconsistentModelError, match="model.uai: factor 0"):
        read("MARKOV 1 2 1 1 0 2 0 0")


# ---------------------------------------------------------------- libDAI
def test_fg_has_the_first_variable_fastest_and_keeps_labels_as_names(read):
    graph = read(FG, ".fg")
    assert [v.name for v in graph.variables] == ["x0", "x4"]
    table = np.exp(graph.factor_log_table(1))
    assert table == pytest.approx(np.array([[1.5, 0, 0], [2, 1e-5, 7]]))


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        ((b"\n2 3\n", b"\n3 3\n"), 13, "variable 0 has 2 states in a factor before"),
        ((b"5 7", b"6 7"), 18, "whole number from 0 to 5, at '6'"),
        ((b"5 7", b"3 7"), 18, "lists an entry twice"),
        ((b"5 7", b"5 -7"), 18, "not negative, at '-7'"),
        ((b"0 4", b"4 4"), 12, "names a variable twice"),
        ((b"\n4\n0 1.5", b"\n40\n0 1.5"), 14, "between 0 and 6, got 40"),
        ((b"2 1\n", b"2 1 1\n"), 24, "goes on after the last factor"),
    ],
)
def test_fg_errors_name_the_line(read, change, line, said):
    error = refusal(read, FG.replace(*change), ".fg")
    assert said in str(error), str(error)
    assert error.line == line


def test_fg_tables_that_are_nearly_all_zero_stay_lists(read):
    graph = read("1\n\n2\n0 1\n100000 100000\n2\n0 0.5\n9999999999 2\n", ".fg")
    source = graph.blocks[0].source
    assert source.indices.tolist() == [[0, 0], [99999, 99999]]
    assert np.exp(source.log_scores) == pytest.approx([0.5, 2.0])


def test_fg_entries_may_come_in_any_order_and_in_many_blocks(read):
    n = 300_000  # more than are read at once
    rng = np.random.default_rng(0)
    values, order = rng.random(2 * n).tolist(), rng.permutation(2 * n).tolist()
    lines = [f"{k} {values[k]!r}" for k in order]
    text = f"1\n\n2\n0 1\n2 {n}\n{2 * n}\n"
    graph = read(text + "\n".join(lines), ".fg")
    assert (graph.blocks[0].source.values[0] == np.reshape(values, (n, 2)).T).all()
    lines[-1] = f"{order[3]} 1"  # in another block than the first of that index
    error = refusal(read, text + "\n".join(lines), ".fg")
    assert f"lists an entry twice, at '{order[3]}'" in str(error)
    assert error.line == 6 + 2 * n
    assert f"ends {2 * n + 2:,} numbers early" in str(refusal(read, text + "\n".join(lines[: n - 1]), ".fg"))


def test_fg_says_how_many_joint_states_can_be_listed(read):
    error = refusal(read, f"1\n\n2\n0 1\n{2**30} {2**30}\n1\n{2**53} 0.5\n", ".fg")
    assert f"from 0 to {2**53 - 1:,} (there are more joint states" in str(error)


def test_fg_keeps_the_labels_of_variables(tmp_path):
    graph = abp.FactorGraph()
    graph.add_variables(2, 3, names=["x3", "x12"])
    graph.add_factor([1, 0], table=np.arange(9.0).reshape(3, 3))
    assert write_model_file(graph, tmp_path / "m.fg") == []
    back = abp.read_model(tmp_path / "m.fg")
    assert_same_names(graph, back)
    assert_same_numbers(graph, back)


def test_fg_says_which_names_it_loses(tmp_path):
    for names in (["x12", "x3"], ["x3", "y"], ["x3", "x04"]):  # x3 would be read before x12
        graph = abp.FactorGraph()
        graph.add_variables(2, 3, names=names)
        graph.add_factor([1, 0], table=np.arange(9.0).reshape(3, 3))
        assert "names of variables" in write_model_file(graph, tmp_path / "m.fg")[0]
        assert_same_numbers(graph, abp.read_model(tmp_path / "m.fg"))


def test_fg_says_that_variables_without_factors_are_lost(tmp_path):
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factor([1], table=[1.0, 2.0])
    with pytest.warns(abp.DroppedWarning, match=r"variables without factors \(2: x0, x2\)"):
        abp.write_model(graph, tmp_path / "m.fg")
    assert [v.name for v in abp.read_model(tmp_path / "m.fg").variables] == ["x1"]


# ---------------------------------------------------------------- BIF and XMLBIF
def test_bif_keeps_names_and_puts_the_child_last(read):
    graph = read(BIF, ".bif")
    assert [v.name for v in graph.variables] == ["rain", "grass", "dew"]
    assert graph.variables["grass"].labels == ("very wet", "wet", "dry")
    assert graph.factor_scope(1) == ("rain", "dew", "grass")
    table = np.exp(graph.factor_log_table(1))
    assert table[0, 0] == pytest.approx([0.5, 0.3, 0.2])
    assert table[1, 1] == pytest.approx([0.1, 0.2, 0.7])
    assert table[0, 1] == pytest.approx([0.3, 0.3, 0.4])
    assert graph.factor_scope(2) == ("rain", "dew")  # of a `table` the child is slowest: P(dew = a) is .25, then .5
    assert np.exp(graph.factor_log_table(2)) == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]))


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        ((b"variable rain", b"variabel rain"), 3, "expected network, variable or probability, at 'variabel'"),
        ((b"[ 2 ]", b"[ 5 ]"), 3, "said to have '5' states and lists 2"),
        ((b"{ yes, no }", b"{ yes, yes }"), 3, "a state twice"),
        ((b"discrete [ 2 ]", b"continuous [ 2 ]"), 3, "must be of type discrete"),
        ((b"(yes, a)", b"(yes, z)"), 9, "variable 'dew' has no state 'z'"),
        ((b"(yes, a)", b"(yes)"), 9, "expected a state for each of the 2 parents, got 1"),
        ((b"(no, b)", b"(yes, a)"), 10, "a row twice"),
        ((b"0.1 0.2 0.7", b"0.1 0.2"), 10, "a row of 'grass' needs 3 numbers, got 2"),
        ((b"0.1 0.2 0.7", b"0.1 0.2 -0.7"), 10, "probabilities are numbers of at least 0, at '-0.7"),
        ((b"  default 0.3, 0.3, 0.4;\n", b""), 11, "lacks 2 of 4 rows"),
        ((b"rain, dew )", b"rain, snow )"), 8, "no variable 'snow'"),
        ((b"dew  rain", b"rain  dew"), 13, "has a probability block already"),
        ((b"and their child */", b"and their child"), 7, "does not end"),
        ((b"(yes, a)", b"(yse, a)"), 9, "variable 'rain' has no state 'yse', at 'yse'"),
        ((b"(yes, a)", b"(yes, a, a)"), 9, "got more, at 'a'"),
        ((b"rain, dew )", b"rain, rain, dew )"), 8, "names a variable twice, at 'rain'"),
        ((b"table 0.2, 0.8;", b"table 0.2, 0.8; table 0.3, 0.7;"), 6, "goes on after its table, at 'table'"),
        ((b"table 0.2, 0.8;", b"table 0.2, 0.8; default 0.3, 0.7;"), 6, "goes on after its table, at 'default'"),
        ((b"table 0.2, 0.8;", b"table 0.2, 0.8; () 0.3, 0.7;"), 6, "goes on after its table, at '('"),
        ((b"(yes, a) 0.5, 0.3, 0.2;", b"table 1;"), 9, "'grass' needs 12 numbers, got 1"),
        ((b"(no, b) 0.1 0.2 0.7;", b"table 1;"), 10, "a table besides rows or a default, at 'table'"),
        ((b"default 0.3, 0.3, 0.4;", b"default 0.3, 0.3, 0.4; default 0, 0, 1;"), 11, "two defaults"),
        ((b"{ yes, no }", b'{ "", "" }'), 3, "a state twice"),
        ((b"variable rain", b'variable ""'), 3, "expected the name of a variable"),
        ((b"0.75 0.5; }", b"0.75 0.5;"), 14, "expected type, table, default"),
        ((b"0.75 0.5; }", b"0.75 // 0.1; }"), 14, "probabilities are numbers of at least 0, at the end of the file"),
    ],
)
def test_bif_errors_name_the_line(read, change, line, said):
    error = refusal(read, BIF.replace(*change), ".bif")
    assert said in str(error), str(error)
    assert error.line == line


def test_bif_needs_a_distribution_for_every_variable(read):
    assert "'rain' has no distribution" in str(
        refusal(read, BIF.replace(b"probability ( rain ) { table 0.2, 0.8; }", b""), ".bif")
    )


def test_xmlbif_has_the_child_fastest(read):
    graph = read(XMLBIF, ".xmlbif")
    assert [v.name for v in graph.variables] == ["rain", "grass & more"]
    assert graph.factor_scope(1) == ("rain", "grass & more")
    assert np.exp(graph.factor_log_table(1)) == pytest.approx(np.array([[0.9, 0.1], [0.3, 0.7]]))


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        ((b"0.3 0.7</TABLE>", b"0.3 x</TABLE>"), 9, "at 'x'"),
        ((b"0.3 0.7</TABLE>", b"0.3</TABLE>"), 9, "needs 4 numbers, got 3"),
        ((b"<GIVEN>rain<", b"<GIVEN>snow<"), 9, "no variable 'snow'"),
        ((b"</NETWORK></BIF>", b"</BIF>"), 10, "not well-formed XML"),
        ((b"<!ELEMENT BIF ( NETWORK )*>", b'<!ENTITY a "b">'), 2, "entities are not read"),
        ((b'TYPE="nature"><NAME>rain', b'TYPE="decision"><NAME>rain'), 4, "type 'decision'"),
        ((b'TYPE="nature"><NAME>rain', b'type="decision"><NAME>rain'), 4, "type 'decision'"),
        ((b"0.2 0.8</TABLE>", b"0.2 0.8</TABLE><TABLE>0.3 0.7</TABLE>"), 6, "a definition with two tables"),
        ((b"[ <!ELEMENT BIF ( NETWORK )*> ]>", b'SYSTEM "x.dtd">&nbsp;'), 2, "not well-formed"),
        ((b"0.3 0.7</TABLE>", b"0.3 0_7</TABLE>"), 9, "at '0_7'"),
        ((b"0.9 0.1", b"0.9 -0.1"), 8, "at '-0.1'"),
        ((b"0.9 0.1", b"9" * 200_000), 8, "no blank within 2,000 characters"),
        (
            (b"<OUTCOME>wet", b"<OUTCOME>" + b"we\n" * 2**20),
            None,
            "text of OUTCOME has more than 1,048,576 chara",
        ),
    ],
)
def test_xmlbif_errors_name_the_line(read, change, line, said):
    error = refusal(read, XMLBIF.replace(*change), ".xmlbif")
    assert said in str(error), str(error)
    assert error.line == line or line is None


@pytest.mark.parametrize("encoding", ["Shift_JIS", "big5", "utf-7", "nosuch", "rot13", "idna", "punycode"])
def test_xml_in_an_encoding_that_cannot_be_read_is_refused(read, encoding):
    error = refusal(read, XMLBIF.replace(b"utf-8", encoding.encode()), ".xmlbif")
    assert "the encoding of the file cannot be read" in str(error)


def test_xmlbif_entities_of_a_document_type_elsewhere_are_refused(read):
    text = XMLBIF.replace(b"[ <!ELEMENT BIF ( NETWORK )*> ]", b'SYSTEM "x.dtd"')
    assert read(text, ".xmlbif").n_factors == 2
    error = refusal(read, text.replace(b"<NAME>rain", b"<NAME>rain&half;"), ".xmlbif")
    assert "'half' is not declared here" in str(error)
    assert error.line == 4


def test_what_properties_hold_is_not_the_variables(read):
    text = XMLBIF.replace(b"<NAME>rain</NAME>", b"<NAME>rain</NAME><PROPERTY><NAME>other</NAME>p</PROPERTY>")
    assert_same_names(read(XMLBIF, ".xmlbif"), read(text, ".xmlbif"))


@pytest.mark.filterwarnings("ignore::anytimebp.errors.DistributionWarning")
def test_xmlbif_tables_are_read_in_pieces(read):
    values = np.random.default_rng(0).random((2, 50_000))  # more text than one piece
    rows = "\n".join(" ".join(map(repr, row)) for row in values.T.tolist())
    states = "".join(f"<OUTCOME>{k}</OUTCOME>" for k in range(50_000))
    text = (
        f"<BIF><VARIABLE><NAME>a</NAME>{states}</VARIABLE><VARIABLE><NAME>b</NAME><OUTCOME>0</OUTCOME>"
        f"<OUTCOME>1</OUTCOME></VARIABLE><DEFINITION><FOR>a</FOR><TABLE>{'1 ' * 50_000}</TABLE></DEFINITION>"
        f"<DEFINITION><FOR>b</FOR><GIVEN>a</GIVEN><TABLE>\n{rows}</TABLE></DEFINITION></BIF>"
    )
    graph = read(text, ".xmlbif")
    assert (graph.blocks[-1].source.values[0] == values.T).all()
    spoiled = text.replace(repr(float(values[1, 40_000])), "x", 1)
    assert refusal(read, spoiled, ".xmlbif").line == 40_002


def test_a_million_entities_cost_nothing(read):
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + "".join(
        f'<!ENTITY {chr(98 + k)} "{f"&{chr(97 + k)};" * 10}">' for k in range(12)
    )
    assert "entities" in str(refusal(read, f"{bomb}]><BIF>&m;</BIF>", ".xmlbif"))


def network():
    graph = abp.FactorGraph()
    graph.add_variable("is it | raining?", ["yes, it is", "no"])
    graph.add_variable("übergang", ["<5", "5-12", ">12"])
    rng = np.random.default_rng(0)
    graph.add_factor(["is it | raining?"], table=[0.1, 0.9])
    graph.add_factor(["is it | raining?", "übergang"], table=rng.dirichlet(np.ones(3), 2))
    return graph


@pytest.mark.parametrize("ending", [".bif", ".xmlbif", ".bif.gz", ".npz", ".npz.gz"])
def test_networks_keep_odd_names_and_every_bit(tmp_path, ending):
    assert write_model_file(network(), tmp_path / f"m{ending}") == []
    back = abp.read_model(tmp_path / f"m{ending}")
    assert_same_names(network(), back)
    assert_same_numbers(network(), back)


@pytest.mark.parametrize("ending", [".bif", ".xmlbif"])
def test_a_state_may_have_an_empty_label(tmp_path, ending):
    graph = abp.FactorGraph()
    graph.add_variables(2, ["", "b"])
    graph.add_factor([0], table=[0.25, 0.75])
    graph.add_factor([0, 1], table=[[0.25, 0.75], [0.5, 0.5]])
    write_model_file(graph, tmp_path / f"m{ending}")
    back = abp.read_model(tmp_path / f"m{ending}")
    assert_same_names(graph, back)
    assert_same_numbers(graph, back)


def test_text_that_unpacks_beyond_all_bounds_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("anytimebp.formats.bif.MOST_BYTES", 10_000)
    for padding, name in ((b" " * 5000, "fine.bif.gz"), (b" " * 20_000, "bomb.bif.gz")):
        (tmp_path / name).write_bytes(gzip.compress(BIF + padding))
    assert abp.read_model(tmp_path / "fine.bif.gz").n_factors == 3
    with pytest.raises(abp.FormatError, match=r"bomb.bif.gz: the file holds more than 10,000 bytes"):
        abp.read_model(tmp_path / "bomb.bif.gz")


@pytest.mark.parametrize("ending", [".bif", ".xmlbif"])
def test_only_networks_go_into_network_files(tmp_path, ending):
    graph = network()
    graph.add_factor([0], table=[1.0, 2.0])
    with pytest.raises(abp.FormatError, match="Bayesian networks only"):
        abp.write_model(graph, tmp_path / f"m{ending}")
    assert list(tmp_path.iterdir()) == []


def test_networks_with_the_child_first_are_networks_too(tmp_path):
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0], table=[0.25, 0.75])
    graph.add_factor([1, 0], table=[[0.1, 0.5], [0.9, 0.5]])
    with pytest.warns(abp.DroppedWarning, match="written as text"):
        abp.write_model(graph, tmp_path / "m.bif")
    back = abp.read_model(tmp_path / "m.bif")
    assert back.factor_scope(1) == ("x0", "x1")
    assert np.exp(back.factor_log_table(1)) == pytest.approx(np.array([[0.1, 0.9], [0.5, 0.5]]))


def test_uai_says_bayes_for_networks_and_markov_for_the_rest(tmp_path):
    with pytest.warns(abp.DroppedWarning, match="names of variables"):
        abp.write_model(network(), tmp_path / "m.uai")
    assert (tmp_path / "m.uai").read_text().startswith("BAYES")
    graph = network()
    graph.add_factor([0], table=[1.0, 2.0])
    with pytest.warns(abp.DroppedWarning, match="labels of states"):
        abp.write_model(graph, tmp_path / "m.uai")
    assert (tmp_path / "m.uai").read_text().startswith("MARKOV")


# ---------------------------------------------------------------- our own
def everything():
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_variable("mixed", ["a", 1, 2.5, None, "1"])
    graph.add_variables(2, ["p", "q"], names=["é 🜁", "\ud800"])
    graph.add_factors([[0, 1], [1, 2]], log_table=[[0.1, -np.inf], [5e-324, -1e12]])
    graph.add_factors([[0], [1]], table=[[1.0, 2.0], [3.0, 5e-324]])
    graph.add_factor([0, 3], entries=([[0, 1], [1, 2]], [0.5, -1.0]), default=-2.0)
    graph.add_factor([4, 5], entries=([[0, 1]], [0.5]))
    graph.add_factors([[0, 3], [1, 3]], structure=abp.Difference([0.1, -np.inf, 5e-324], first=-2))
    graph.add_factor([3, 3 - 1], structure=abp.Difference(np.linspace(-1.0, 1.0, 99), default=-0.1))
    graph.add_factors([[0, 1, 3], [2, 4, 3]], structure=abp.AtMostOne([1, 0, 4]))
    return graph


@pytest.mark.parametrize("ending", [".npz", ".npz.gz"])
def test_npz_keeps_everything(tmp_path, ending):
    assert write_model_file(everything(), tmp_path / f"m{ending}") == []
    back = abp.read_model(tmp_path / f"m{ending}")
    assert_same_names(everything(), back)
    assert_same_numbers(everything(), back)
    assert len(back.blocks) == 7  # tied factors are stored once
    assert back.blocks[0].source.n_members == 1


def test_npz_says_what_becomes_of_odd_labels(tmp_path):
    graph = abp.FactorGraph()
    graph.add_variable("pair", [(0, 1), (1, 0)])
    with pytest.warns(abp.DroppedWarning, match=r"\(0, 1\) is a tuple and becomes text"):
        abp.write_model(graph, tmp_path / "m.npz")
    assert abp.read_model(tmp_path / "m.npz").variables[0].labels == ("(0, 1)", "(1, 0)")


def test_the_same_graph_gives_the_same_bytes(tmp_path):
    for ending in (".npz", ".npz.gz"):
        write_model_file(everything(), tmp_path / f"one{ending}")
        write_model_file(everything(), tmp_path / f"two{ending}")
        assert (tmp_path / f"one{ending}").read_bytes() == (tmp_path / f"two{ending}").read_bytes()


@pytest.mark.parametrize("ending", [".npz", ".uai", ".fg"])
def test_rules_are_refused_by_name(tmp_path, ending):
    graph = abp.FactorGraph()
    graph.add_variables(2, 3)
    graph.add_factor([0, 1], rule=lambda a, b: -abs(a - b))
    with pytest.raises(abp.FormatError, match=r"factor 0 \(x0, x1\) is a rule"):
        abp.write_model(graph, tmp_path / f"m{ending}")


def test_other_archives_are_refused(tmp_path):
    np.savez(tmp_path / "m.npz", a=np.arange(3))
    with pytest.raises(abp.FormatError, match="'header' is missing"):
        abp.read_model(tmp_path / "m.npz")
    np.savez(tmp_path / "m.npz", header=np.frombuffer(b'{"anytimebp": 9}', dtype=np.uint8))
    with pytest.raises(abp.FormatError, match="version 9"):
        abp.read_model(tmp_path / "m.npz")


def archive(path, header, **arrays):
    np.savez(path, header=np.frombuffer(header.encode(), dtype=np.uint8), **arrays)


SPARSE = '{"anytimebp":1,"variables":[{"n":1,"names":["a"],"states":2}],"factors":[{"kind":"entries","default":%s}]}'


def test_npz_numbers_beyond_floats_are_refused(tmp_path):
    arrays = {"scopes_0": np.array([[0]]), "indices_0": np.array([[1]]), "log_scores_0": np.array([0.5])}
    archive(tmp_path / "m.npz", SPARSE % "-1", **arrays)
    assert abp.read_model(tmp_path / "m.npz").factor_log_table(0).tolist() == [-1.0, 0.5]
    archive(tmp_path / "m.npz", SPARSE % f"1{'0' * 400}", **arrays)
    with pytest.raises(abp.FormatError, match=r"m.npz: the header is not as it should be"):
        abp.read_model(tmp_path / "m.npz")


@pytest.mark.parametrize("shape", ["((((", "'''", "\n   1", "1" * 60, "-1,-1", "(" * 60, "1,\\\n"])
def test_npz_headers_of_arrays_that_make_no_sense_are_refused(tmp_path, shape):
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({shape}), }}".ljust(117) + "\n"
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as file:
        file.writestr("header.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
    with pytest.raises(abp.FormatError, match="array 'header' is missing or damaged"):
        abp.read_model(tmp_path / "m.npz")


def test_npz_arrays_may_be_in_the_order_of_fortran(tmp_path):
    values = np.arange(1.0, 7.0).reshape(1, 2, 3)
    header = '{"anytimebp":1,"variables":[{"n":1,"names":null,"states":2},{"n":1,"names":null,"states":3}],'
    archive(
        tmp_path / "m.npz",
        header + '"factors":[{"kind":"table"}]}',
        scopes_0=np.array([[0, 1]]),
        values_0=np.asfortranarray(values),
    )
    assert (abp.read_model(tmp_path / "m.npz").blocks[0].source.values == values).all()


def test_npz_errors_about_labels_name_the_variable(tmp_path):
    archive(tmp_path / "m.npz", SPARSE.replace('"states":2', '"states":["p","p"]') % 0)
    with pytest.raises(abp.FormatError, match="variable 'a'"):
        abp.read_model(tmp_path / "m.npz")


# ---------------------------------------------------------------- many factors
def chain(n, kind):
    graph = abp.FactorGraph()
    graph.add_variables(n, ["a", "b"])
    rng = np.random.default_rng(0)
    for k in range(n):
        table = rng.dirichlet([1.0, 1.0], 2 if k else None)
        graph.add_factor([k - 1, k] if k else [k], **{kind: table if kind == "table" else np.log(table)})
    return graph


@pytest.mark.parametrize(
    ("ending", "kind"),
    [(e, "table") for e in (".npz", ".uai", ".fg", ".bif", ".xmlbif")] + [(e, "log_table") for e in (".uai", ".fg")],
)
def test_writing_looks_through_the_factors_a_few_times_only(tmp_path, monkeypatch, ending, kind):
    looks = []
    blocks = abp.FactorGraph.blocks.fget
    graph = chain(200, kind)
    monkeypatch.setattr(abp.FactorGraph, "blocks", property(lambda self: looks.append(1) or blocks(self)))
    write_model_file(graph, tmp_path / f"m{ending}")
    assert len(looks) < 20


@pytest.mark.parametrize("ending", [".uai", ".fg", ".bif", ".xmlbif"])
def test_small_factors_of_one_shape_that_follow_each_other_are_read_as_one_block(tmp_path, ending):
    graph = chain(200, "table")
    write_model_file(graph, tmp_path / f"m{ending}")
    back = abp.read_model(tmp_path / f"m{ending}")
    assert len(back.blocks) == 2
    assert_same_numbers(graph, back)


@pytest.mark.parametrize(
    ("ending", "most"), [(".npz", 3), (".npz.gz", 3), (".uai", 3), (".fg", 4), (".xmlbif", 4), (".bif", 6.5)]
)
def test_reading_takes_a_few_times_the_memory_of_the_tables(tmp_path, ending, most):
    n = 500  # BIF is read as text, which of such numbers is three times as large
    graph, rng = abp.FactorGraph(), np.random.default_rng(0)
    graph.add_variables(2, n)
    graph.add_factors([[0]], table=rng.dirichlet(np.ones(n)))
    graph.add_factor([0, 1], table=rng.dirichlet(np.ones(n), n))
    write_model_file(graph, tmp_path / f"m{ending}")
    tracemalloc.start()
    back = abp.read_model(tmp_path / f"m{ending}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < most * 8 * n * n
    assert back.n_factors == 2


def test_a_packed_archive_is_not_unpacked_into_memory(tmp_path):
    write_model_file(everything(), tmp_path / "m.npz")
    with zipfile.ZipFile(tmp_path / "m.npz", "a") as file:
        file.writestr("more", bytes(50_000_000))
    (tmp_path / "m.npz.gz").write_bytes(gzip.compress((tmp_path / "m.npz").read_bytes(), 1))
    tracemalloc.start()
    assert abp.read_model(tmp_path / "m.npz.gz").n_factors == everything().n_factors
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


# ---------------------------------------------------------------- log scores in formats of potentials
def test_log_scores_become_potentials_and_it_is_said(tmp_path):
    graph = abp.FactorGraph()
    graph.add_variables(1, 2)
    graph.add_factor([0], log_table=[-1.5, -np.inf])
    with pytest.warns(abp.DroppedWarning, match="log scores are written as potentials"):
        abp.write_model(graph, tmp_path / "m.uai")
    assert abp.read_model(tmp_path / "m.uai").factor_log_table(0) == pytest.approx([-1.5, -np.inf])


@pytest.mark.parametrize("scores", [[0.0, -800.0], [0.0, 800.0]])
def test_log_scores_that_potentials_cannot_hold_are_refused(tmp_path, scores):
    graph = abp.FactorGraph()
    graph.add_variables(1, 2)
    graph.add_factor([0], log_table=scores)
    with pytest.raises(abp.FormatError, match=r"factor 0 \(x0\) has log scores from"):
        abp.write_model(graph, tmp_path / "m.uai")


@pytest.mark.parametrize("ending", [".npz", ".bif"])
def test_numbers_too_long_for_text_are_refused_with_the_file(tmp_path, ending):
    graph = abp.FactorGraph()
    graph.add_variable("a", [10**5000, 1])
    graph.add_factor([0], table=[0.5, 0.5])
    with pytest.raises(abp.FormatError, match=rf"m{ending}: a name or a label cannot be written"):
        abp.write_model(graph, tmp_path / f"m{ending}")


def test_unknown_endings_name_the_known_ones(tmp_path):
    for call in (abp.read_model, lambda path: abp.write_model(network(), path)):
        with pytest.raises(abp.FormatError, match=r"'.txt'; there are .uai, .fg, .bif"):
            call(tmp_path / "m.txt")
    with pytest.raises(FileNotFoundError):
        abp.read_model(tmp_path / "m.uai")

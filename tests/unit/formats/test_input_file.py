"""Small files that ask for much: what is refused, by what rule, and that reading takes memory in proportion."""

import gzip
import io
import json
import os
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.formats.input_file import FREE_UNPACKED
from anytimebp.formats.table_runs import FREE_STATES
from fuzz.mutations import BIF, EVID, JSON_EVID, MAR, UAI, XMLBIF, npz

pytestmark = pytest.mark.compiled  # files, not kernels: one pass is enough

MILLION = 10**6


def refusal(path, read=abp.read_model):
    with pytest.raises(abp.FormatError) as caught:
        read(path)
    return str(caught.value)


def peak_of(read, path):
    """Return the error of a file that is refused, and the memory that this took."""
    tracemalloc.start()
    try:
        return refusal(path, read), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- what is not a regular file
@pytest.mark.parametrize("ending", [".uai", ".fg", ".bif", ".xmlbif", ".npz", ".npz.gz"])
@pytest.mark.unix
def test_links_to_devices_are_refused(tmp_path, ending):
    (tmp_path / f"zero{ending}").symlink_to("/dev/zero")
    assert f"zero{ending}: this is a device, not a file" in refusal(tmp_path / f"zero{ending}")


@pytest.mark.unix
def test_pipes_that_nobody_writes_to_are_refused_at_once(tmp_path):
    graph = abp.FactorGraph()
    for name, read in (
        ("p.uai", abp.read_model),
        ("p.evid", lambda path: abp.read_evidence(path, graph)),
        ("p.json", lambda path: abp.read_evidence(path, graph)),
        ("p.MAR", abp.read_marginals),
    ):
        os.mkfifo(tmp_path / name)
        assert "this is a pipe, not a file" in refusal(tmp_path / name, read)


@pytest.mark.unix
def test_links_to_regular_files_are_read(tmp_path):
    (tmp_path / "m.uai").write_bytes(UAI)
    (tmp_path / "link.uai").symlink_to(tmp_path / "m.uai")
    assert abp.read_model(tmp_path / "link.uai").n_factors == 5


# ---------------------------------------------------------------- what is packed
def test_what_unpacks_to_too_much_is_refused_whatever_the_format(tmp_path, monkeypatch):
    monkeypatch.setattr("anytimebp.formats.input_file.FREE_UNPACKED", 10_000)
    monkeypatch.setattr("anytimebp.formats.input_file.UNPACKED_PER_BYTE", 2)
    graph = abp.FactorGraph()
    graph.add_variables(4, 3)
    blanks = b" " * 50_000
    for ending, data in ((".uai", UAI), (".bif", BIF), (".xmlbif", XMLBIF), (".fg", b"0"), (".npz", npz())):
        path = tmp_path / f"m{ending}.gz"
        path.write_bytes(gzip.compress(data + blanks))
        assert "unpacks to more than 10,000" in refusal(path)
    for ending, data in ((".evid", EVID), (".json", JSON_EVID)):
        path = tmp_path / f"e{ending}.gz"
        path.write_bytes(gzip.compress(data + blanks))
        assert "unpacks to more than 10,000" in refusal(path, lambda path: abp.read_evidence(path, graph))
    (tmp_path / "r.MAR.gz").write_bytes(gzip.compress(MAR + blanks))
    assert "unpacks to more than 10,000" in refusal(tmp_path / "r.MAR.gz", abp.read_marginals)


def test_arrays_that_unpack_to_too_much_are_refused(tmp_path):
    header = {
        "anytimebp": 1,
        "variables": [{"n": 1, "names": None, "states": 2}],
        "factors": [{"kind": "table"} for _ in range(9)],
    }
    with zipfile.ZipFile(tmp_path / "m.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        add_array(archive, "header", np.frombuffer(json.dumps(header).encode(), np.uint8))
        for k in range(9):
            add_array(archive, f"scopes_{k}", np.zeros((MILLION // 2, 1), np.int64))
            add_array(archive, f"values_{k}", np.ones((MILLION // 2, 2)))
    assert 9 * 12 * MILLION > FREE_UNPACKED
    assert (tmp_path / "m.npz").stat().st_size < FREE_UNPACKED // 200
    assert f"unpacks to more than {FREE_UNPACKED:,}" in refusal(tmp_path / "m.npz")


def add_array(archive, name, values):
    file = io.BytesIO()
    np.lib.format.write_array(file, values)
    archive.writestr(f"{name}.npy", file.getvalue())


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (".uai", b"MARKOV 2 1 2 20000 " + b"1 0 1 1 " * 10_000 + b"1 1 2 1 1 " * 10_000),
        (".fg", b"20000 " + b"1 0 1 1 0 1 1 1 2 1 0 1 " * 10_000),
        (
            ".bif",
            b"".join(b"variable v%d{type discrete[1]{a};}probability(v%d){table 1;}" % (k, k) for k in range(9000)),
        ),
        (".bif", b"variable v{type discrete[99999]{" + b"".join(b"%d " % k for k in range(99_999)) + b"};}"),
        (
            ".xmlbif",
            b"<BIF><VARIABLE>" + b"".join(b"<OUTCOME>%d</OUTCOME>" % k for k in range(99_999)) + b"</VARIABLE></BIF>",
        ),
        (".uai", b"MARKOV 1 100000 1000 " + b"0 " * 1000 + b"1 1 " * 1000),
    ],
)
def test_a_packed_file_states_no_more_than_a_file_of_its_size_may(tmp_path, monkeypatch, ending, text):
    monkeypatch.setattr("anytimebp.formats.input_file.FREE_ROOM", 2**20)
    monkeypatch.setattr("anytimebp.formats.input_file.ROOM_PER_BYTE", 1)
    (tmp_path / f"m{ending}.gz").write_bytes(gzip.compress(text))
    assert "states more variables, labels or factors" in refusal(tmp_path / f"m{ending}.gz")


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (".uai", b"MARKOV 2 1 2 2000 " + b"1 0 1 1 " * 1000 + b"1 1 2 1 1 " * 1000),
        (".uai", b"MARKOV 20000 " + b"1 2 " * 10_000 + b"0"),
        (".uai", b"MARKOV 1 1 2000 " + b"0 " * 2000 + b"1 1 " * 2000),
        (".fg", b"2000 " + b"1 0 1 1 0 1 1 1 2 1 0 1 " * 1000),
        (".bif", b"".join(b"variable %x{type discrete[1]{a};}probability(%x){table 1;}" % (k, k) for k in range(2000))),
    ],
)
def test_text_that_is_not_packed_is_never_too_much_for_its_size(tmp_path, monkeypatch, ending, text):
    monkeypatch.setattr("anytimebp.formats.input_file.FREE_ROOM", 0)
    (tmp_path / f"m{ending}").write_bytes(text)
    abp.read_model(tmp_path / f"m{ending}")


# ---------------------------------------------------------------- structure
@pytest.mark.parametrize(
    ("ending", "data", "said", "most"),
    [
        (".bif.gz", b"network u {}\n" + b"//\n" * MILLION, "states no variable", 5),
        (".bif.gz", b"network u {}\n" + b"/**/ " * (MILLION // 2), "states no variable", 5),
        (".bif.gz", b"network u {}\n" + b"a" * MILLION, "expected network", 5),
        (".xml.gz", b"<BIF>" + b"<a>" * MILLION, "nested more than 100 deep", 1),
        (".xml.gz", b"<BIF a='" + b"a" * (2 * MILLION), "goes on for more than 1,048,576 bytes", 3),
        (".xml.gz", b"<BIF><!--" + b"a" * (2 * MILLION), "goes on for more than 1,048,576 bytes", 3),
        (".xml.gz", b"<BIF>" + b"".join(b"<a%d/>" % k for k in range(100_000)), "more than 1,000 kinds", 1),
        (".xml.gz", b"<BIF>" + b"".join(b"<a b%d=''/>" % k for k in range(100_000)), "more than 1,000 kinds", 1),
    ],
)
def test_structure_without_end_takes_memory_in_proportion(tmp_path, ending, data, said, most):
    path = tmp_path / f"m{ending}"
    path.write_bytes(gzip.compress(data))
    error, peak = peak_of(abp.read_model, path)
    assert said in error
    assert peak < most * len(data)


def test_declared_attributes_are_not_added_to_every_element(tmp_path):
    declared = "".join(f"<!ATTLIST a b{k} CDATA 'x'>" for k in range(1000))
    (tmp_path / "m.xml").write_text(f"<!DOCTYPE BIF [{declared}]><BIF>{'<a/>' * 1000}</BIF>")
    assert "declares more than 50 attributes" in refusal(tmp_path / "m.xml")
    declared = '<!ATTLIST BIF VERSION CDATA #REQUIRED><!ATTLIST VARIABLE TYPE (nature|decision|utility) "decision">'
    (tmp_path / "m.xml").write_bytes(XMLBIF.replace(b"<!ELEMENT", f"{declared}<!ELEMENT".encode()))
    assert abp.read_model(tmp_path / "m.xml").n_factors == 2


def test_bif_comments_and_words_are_told_apart(tmp_path):
    text = '/**//*a*/ // x\nvariable a/b/*c*/{type discrete[2]{/x/ "//"//\n};}probability(a/b){table .5/* ;*/ .5;}'
    (tmp_path / "m.bif").write_text(text)
    (variable,) = abp.read_model(tmp_path / "m.bif").variables
    assert (variable.name, variable.labels) == ("a/b", ("/x/", "//"))
    for spoiled in (text + '"', text + "/* a"):
        (tmp_path / "m.bif").write_text(spoiled)
        assert "a comment or a quoted name does not end" in refusal(tmp_path / "m.bif")


# ---------------------------------------------------------------- universes
@pytest.mark.parametrize(
    ("ending", "text", "line"),
    [
        (".uai", "MARKOV 1 900000000 0", 1),
        (".uai", "BAYES\n2\n2\n900000000\n1\n1 0\n2\n.5 .5", 4),
        (".fg", "1\n\n1\n0\n900000000\n1\n0 1.0\n", 5),
    ],
)
def test_universes_that_nothing_in_a_file_backs_up_are_refused(tmp_path, ending, text, line):
    (tmp_path / f"m{ending}").write_text(text)
    error = refusal(tmp_path / f"m{ending}")
    assert f"m{ending}, line {line}: with the 900,000,000 states of this variable" in error
    assert "larger universes go into an .npz file, at '900000000'" in error


def test_states_count_together_and_each_number_backs_one_up(tmp_path):
    rest = FREE_STATES - 2
    (tmp_path / "m.uai").write_text(f"MARKOV 2 2 {rest} 0")
    assert [v.n_states for v in abp.read_model(tmp_path / "m.uai").variables] == [2, rest]
    (tmp_path / "m.uai").write_text(f"MARKOV 2 2 {rest + 5} 0")  # five numbers: MARKOV counts
    assert abp.read_model(tmp_path / "m.uai").variables[1].n_states == rest + 5
    (tmp_path / "m.uai").write_text(f"MARKOV 2 2 {rest + 6} 0")
    assert "backs up" in refusal(tmp_path / "m.uai")


def test_npz_keeps_universes_of_any_size(tmp_path):
    graph = abp.FactorGraph()
    graph.add_variables(2, 900_000_000)
    graph.add_factor([0, 1], structure=abp.Difference([0.5, 1.0, 0.5]))
    abp.write_model(graph, tmp_path / "m.npz")
    assert abp.read_model(tmp_path / "m.npz").variables[1].n_states == 900_000_000


def test_factors_without_variables_do_not_fill_the_largest_universe(tmp_path):
    (tmp_path / "m.uai").write_text(f"MARKOV 2 {MILLION} 2 300 {'0 ' * 300}{'1 2.0 ' * 300}")
    tracemalloc.start()
    graph = abp.read_model(tmp_path / "m.uai")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert graph.n_factors == 300
    assert graph.factor_scope(299) == ("x1",)
    assert peak < 10 * MILLION


# ---------------------------------------------------------------- distributions
@pytest.mark.parametrize(
    ("ending", "data", "said"),
    [
        (
            ".bif",
            BIF.replace(b"(yes, a) 0.5", b"(yes, a) 0.6").replace(b"default 0.3", b"default 0.5"),
            "the distribution of 'grass' given 'rain' = 'yes', 'dew' = 'a' sums to 1.1, not to 1, and 2 more",
        ),
        (".xmlbif", XMLBIF.replace(b"0.2 0.8", b"2 8"), "the distribution of 'rain' sums to 10, not to 1; the numbers"),
        (
            ".uai",
            b"BAYES 2 2 2 3 0 1 0 2 0 1 1 3.5 2 .5 .5 4 1 0 .25 .25",
            "the distribution of 'x1' given 'x0' = 1 sums to 0.5, not to 1; the numbers",
        ),
    ],
)
def test_distributions_that_do_not_sum_to_1_warn_once_and_are_kept(tmp_path, ending, data, said):
    (tmp_path / f"m{ending}").write_bytes(data)
    with pytest.warns(abp.DistributionWarning) as caught:
        graph = abp.read_model(tmp_path / f"m{ending}")
    assert len(caught) == 1
    assert said in str(caught[0].message)
    assert f"m{ending}: " in str(caught[0].message)
    assert caught[0].filename == __file__
    if ending == ".xmlbif":
        assert graph.factor_log_table(0) == pytest.approx(np.log([2.0, 8.0]))


def test_rounded_distributions_and_markov_models_do_not_warn(tmp_path):
    (tmp_path / "m.bif").write_bytes(BIF.replace(b"0.2, 0.8", b"0.201, 0.807"))
    abp.read_model(tmp_path / "m.bif")
    (tmp_path / "m.uai").write_bytes(b"MARKOV 1 2 1 1 0 2 3 4")
    abp.read_model(tmp_path / "m.uai")


def test_published_networks_do_not_warn(models_folder):
    for name in ("alarm", "mildew", "pathfinder"):
        abp.read_model(models_folder / f"{name}.uai")


def test_distributions_rounded_to_two_digits_are_fine(tmp_path):
    file = tmp_path / "rounded.bif"
    file.write_text(
        "network u { } variable a { type discrete [ 3 ] { s, t, w }; } probability ( a ) { table 0.33, 0.33, 0.33; }",
        encoding="utf-8",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        abp.read_model(file)

"""The examples run, and what they show is so."""

import asyncio
import sys
from importlib import import_module
from pathlib import Path

import numba
import numpy as np
import pytest

import anytimebp as abp

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def linking():
    return _load("entity_linking")


@pytest.fixture(scope="module")
def localisation():
    return _load("localisation")


@pytest.fixture(scope="module")
def tracking():
    return _load("tracking")


def _load(name):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        return import_module(name)


def _document(linking, seed=0):
    return linking.make_document(8, 200, np.random.default_rng(seed))


def _network(localisation, side, seed=0, sensors=12, known=6):
    return localisation.make_network(side, np.random.default_rng(seed), sensors=sensors, known=known)


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(4))
def test_mentions_are_linked_jointly_at_least_as_well_as_alone_and_as_by_bp(linking, seed):
    document = _document(linking, seed)
    result, exact = linking.link(document, None), abp.infer(document.graph, "bp", tolerance=1e-9)
    assert result.stop_reason is exact.stop_reason is abp.StopReason.CONVERGED
    joint = np.array([result.marginals[i] for i in range(8)])
    assert linking.linked_right(joint, document.truth) >= linking.linked_right(document.prior, document.truth)
    assert max(np.abs(result.marginals[i] - exact.marginals[i]).max() for i in range(8)) < 1e-6


def test_coherence_scores_any_index_arrays_alike(linking):
    embedding = np.random.default_rng(0).normal(size=(9, 5))
    a, b = np.array([0, 3, 8]), np.array([1, 3])
    whole = linking.coherence(embedding, *np.ix_(a, b))
    assert whole == pytest.approx(embedding[a] @ embedding[b].T)
    assert linking.coherence(embedding, a[:2], b) == pytest.approx(whole[[0, 1], [0, 1]])
    assert linking.coherence(embedding, np.int64(3), np.int64(1)) == pytest.approx(whole[1, 0])
    assert linking.coherence(embedding, a[:, np.newaxis, np.newaxis], b)[:, 0] == pytest.approx(whole)


def test_proposed_entities_have_the_largest_mean_coherence(linking):
    embedding = np.random.default_rng(0).normal(size=(50, 5))
    likely = np.array([4, 7, 9])
    mean = linking.coherence(embedding, *np.ix_(likely, np.arange(50))).mean(axis=0)
    best = set(np.argsort(-mean)[:6].tolist())
    assert set(linking.propose(embedding, (likely, None), 6).tolist()) == best
    assert set(linking.propose(embedding, (None, likely), 6).tolist()) == best
    assert len(linking.propose(embedding, (likely, None), 500)) == 50


@pytest.mark.compiled
def test_marginals_are_those_of_bp_and_located_sensors_are_near_the_truth(localisation):
    near, far = [], []
    for seed in range(12):
        network = _network(localisation, 20, seed)
        result, exact = (localisation.locate(network, method) for method in ("adaptive", "bp"))
        assert result.stop_reason is exact.stop_reason is abp.StopReason.CONVERGED
        assert max(np.abs(result.marginals[i] - exact.marginals[i]).max() for i in range(12)) < 1e-6
        belief = localisation.read_belief(network, result)
        near.extend(belief.miss[belief.located])
        far.extend(belief.miss[6:][~belief.located[6:]])
    assert len(near) > 20
    assert np.mean(near) < 1.0  # cells
    assert np.mean(far) > 5.0  # so the spread tells the two apart


def test_a_network_is_the_same_at_every_size_of_the_map(localisation):
    coarse, fine = _network(localisation, 20), _network(localisation, 100)
    assert fine.places == pytest.approx(5 * coarse.places)
    assert fine.pairs.tolist() == coarse.pairs.tolist()


def test_a_range_scores_best_on_its_ring_and_is_bounded_far_from_it(localisation):
    rule = localisation.range_rule(5.0, 20)
    cells = np.arange(400)
    scores = rule(cells, 0)
    assert np.unravel_index(scores.argmax(), (20, 20)) in {(0, 5), (3, 4), (4, 3), (5, 0)}
    assert scores.min() == pytest.approx(np.log(localisation.OUTLIERS), abs=1e-6)
    assert scores[5] == rule(5, 0)  # numbers as well as arrays


@pytest.mark.compiled
def test_the_rule_of_a_range_compiles_to_a_function_of_two_numbers(localisation):
    rule = localisation.range_rule(5.0, 20)
    assert numba.njit(rule)(3, 104) == pytest.approx(rule(3, 104))


@pytest.mark.compiled
def test_a_target_is_tracked_as_by_a_bayes_filter_and_no_wall_is_crossed(tracking):
    world = tracking.make_world(14, 40, np.random.default_rng(0))
    found = asyncio.run(tracking.track(world, rate=0))
    moves, belief = np.exp(tracking.make_graph(world).factor_log_table(0)), np.ones(14 * 14)
    belief[world.is_wall.ravel()] = tracking.TINY
    for k, answer in enumerate(found.belief):
        belief = np.maximum(belief, tracking.TINY) @ moves * np.exp(tracking.measurement_scores(world, k))
        belief /= belief.sum()
        np.testing.assert_allclose(answer, belief, atol=1e-9)
    assert not found.belief[:, world.is_wall.ravel()].any()
    rows = np.arange(14 * 14) // 14
    wall = int(np.flatnonzero(world.is_wall[:, 0])[0])
    above, below = (rows < wall) & (rows >= wall - 2), (rows > wall) & (rows <= wall + 2)
    columns = np.arange(14 * 14) % 14 < 5  # far from the gap
    assert not moves[np.ix_(above & columns, below & columns)].any()


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["entity_linking", "localisation", "tracking"])
def test_an_example_prints_its_figures_and_draws_its_picture(name, monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    example = _load(name)
    if name == "localisation":  # --small takes seconds and 400 MB
        make = example.make_network
        monkeypatch.setattr(example, "make_network", lambda side, rng: make(10, rng, sensors=10))
    options = ["--rate", "0"] if name == "tracking" else []
    monkeypatch.setattr(sys, "argv", [name, *options, "--small", "--seed", "1", "--out", str(tmp_path / "picture.png")])
    example.main()
    assert "CONVERGED" in capsys.readouterr().out
    assert (tmp_path / "picture.png").stat().st_size > 10_000


@pytest.fixture(scope="module")
def aes():
    return _load("aes_attack")


@pytest.fixture(scope="module")
def ldpc():
    return _load("ldpc")


def test_the_sbox_is_that_of_aes(aes):
    assert aes.SBOX[[0x00, 0x01, 0x53, 0xFF]].tolist() == [0x63, 0x7C, 0xED, 0x16]  # as FIPS 197 prints it
    assert sorted(aes.SBOX.tolist()) == list(range(256))


@pytest.mark.compiled
def test_the_key_has_the_marginal_that_bayes_rule_gives(aes):
    rng, key = np.random.default_rng(0), 0xA7
    plaintext = rng.integers(256, size=4)
    of_x, of_y = (aes.leak(states, 1.5, rng) for states in (plaintext ^ key, aes.SBOX[plaintext ^ key]))
    x = plaintext[:, np.newaxis] ^ np.arange(256)
    log_weight = (np.take_along_axis(of_x, x, 1) + np.take_along_axis(of_y, aes.SBOX[x], 1)).sum(axis=0)
    weight = np.exp(log_weight - log_weight.max())
    np.testing.assert_allclose(aes.attack(plaintext, of_x, of_y), weight / weight.sum(), rtol=1e-9, atol=1e-12)


@pytest.mark.compiled
def test_an_attack_prints_ranks_and_draws_them(aes, monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "argv", ["aes_attack", "--small", "--out", str(tmp_path / "picture.png")])
    aes.main()
    assert "noise 0.5; mean rank of a byte by traces: 1:" in capsys.readouterr().out
    assert (tmp_path / "picture.png").stat().st_size > 5_000


CODE = """4 2 64
1 4
1 2 1 2
3 3
1 5
1 7 2 9
2 1
1 33 2 2
1 5 2 7 4 33
2 9 3 1 4 2
"""


def test_a_code_is_read_check_by_check(ldpc, tmp_path):
    (tmp_path / "code.txt").write_text(CODE)
    graph = ldpc.read_code(tmp_path / "code.txt")
    assert [graph.factor_scope(k) for k in range(2)] == [("x0", "x1", "x3"), ("x1", "x2", "x3")]
    assert [block.source.coefficients.tolist() for block in graph.blocks] == [[5, 7, 33], [9, 1, 2]]


@pytest.mark.compiled
def test_frames_without_noise_are_decoded_and_the_picture_is_drawn(ldpc, monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    (tmp_path / "code.txt").write_text(CODE)
    graph = ldpc.read_code(tmp_path / "code.txt")
    assert ldpc.frame_errors(graph, 12.0, 5, np.random.default_rng(0)) == 0
    assert ldpc.frame_errors(graph, -20.0, 5, np.random.default_rng(0)) == 5
    monkeypatch.setattr(sys, "argv", ["ldpc", str(tmp_path / "code.txt"), "--small", "--out", str(tmp_path / "a.png")])
    ldpc.main()
    assert "4.0 dB: 0 of 10 frames in error" in capsys.readouterr().out
    assert (tmp_path / "a.png").stat().st_size > 5_000


def test_without_a_code_there_is_nothing_to_decode(ldpc, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["ldpc", str(tmp_path / "missing.txt")])
    ldpc.main()
    assert "nothing to decode" in capsys.readouterr().out

"""The first half of the demo: its model, and what it shows."""

import io

import numpy as np
import pytest
from rich.console import Console
from rich.live import Live

import anytimebp as abp
from anytimebp.cli import linking
from anytimebp.cli.linking import LiveView, link, make_document


@pytest.fixture(scope="module")
def document():
    return make_document(6, 400)


def test_a_mention_has_the_name_of_its_true_entity(document):
    names = [variable.name.partition(" ")[2] for variable in document.graph.variables]
    assert names == [document.entities[k].partition(" of ")[0] for k in document.truth]


def test_every_label_is_there_once(document):
    assert len(set(document.entities)) == 400


def test_pairs_score_the_same_asked_at_once_and_one_by_one():
    embedding = np.random.default_rng(0).normal(size=(9, 5))
    score = linking.similarity(embedding)
    a, b = np.array([0, 3, 8]), np.array([1, 3])
    whole = score(*np.ix_(a, b))
    assert whole == pytest.approx(embedding[a] @ embedding[b].T)
    assert score(a[:2], b) == pytest.approx(whole[[0, 1], [0, 1]])


def test_without_a_terminal_every_answer_is_a_line(document, capsys):
    result = link(document, LiveView(document, None))
    lines = capsys.readouterr().out.splitlines()
    assert result.stop_reason in {abp.StopReason.TARGET_REACHED, abp.StopReason.CONVERGED}
    assert lines
    assert all("active states" in line and " alone, " in line for line in lines)


def test_on_a_terminal_of_80_columns_rows_change_and_no_line_wraps(document):
    written = io.StringIO()
    console = Console(file=written, width=80, force_terminal=True)
    with Live(console=console, auto_refresh=False) as live:
        view = LiveView(document, live)
        link(document, view)
        shown = Console(file=io.StringIO(), width=80)
        with shown.capture() as page:
            shown.print(view._page())
    assert "all together" in written.getvalue()
    assert len(page.get().splitlines()) == 2 + len(document.truth)

"""Verdicts that are shares of a point: the case with values by hand, and what refuses it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ppe
from ppe.errors import InputError
from ppe.inference.score_limits import estimated_difference
from ppe.inference.score_tests import pair_tests, score_tests
from ppe.random_streams import stream
from ppe.rankers.likelihood import Design

GRADED = Path(__file__).parents[1] / "cases" / "evidence_4_graded.csv"
REFUSED = "graded verdicts have no ties and no winners, which are needed here; use bradley-terry, or round them"


def test_evidence_4_graded():
    "Gap ln(.7/.3), z = .8/√.185, dispersion 1 − .815/.84."
    table = pd.read_csv(GRADED)
    first, second = np.zeros(len(table), int), np.ones(len(table), int)
    design, rng = Design.of(first, second, ("one", "two")), stream(1, "graded")
    tests = score_tests(design, table["verdict"].to_numpy(), table["question_id"].to_numpy(), n_flips=99, rng=rng)
    assert estimated_difference(tests, 0, 1) == pytest.approx(np.log(0.7 / 0.3))
    assert abs(pair_tests(tests).z[0]) == pytest.approx(0.8 / np.sqrt(0.185))
    assert tests.dispersion == pytest.approx(1 - 0.815 / 0.84)
    board = ppe.rank(GRADED)
    assert board.to_frame()["score"].tolist() == pytest.approx([np.log(0.7 / 0.3) / 2, -np.log(0.7 / 0.3) / 2])
    assert board.to_frame()[["rank_low", "rank_high"]].to_numpy().tolist() == [[1, 2], [1, 2]]
    assert ppe.check(GRADED).facts["graded"] == 4


@pytest.mark.parametrize(
    "use",
    [
        ppe.cycles,
        ppe.diagnose,
        lambda table: ppe.graph(table, question="q1"),
        lambda table: ppe.rank(table, ranker="davidson"),
        lambda table: ppe.rank(table, ranker="copeland"),
        lambda table: ppe.rank(table, order_effect=True),
        lambda table: ppe.rank(table, select="global", keep=2),
        lambda table: ppe.agree(table, people=table),
        ppe.comparison_graphs,
    ],
)
def test_evidence_4_graded_is_refused_by_what_needs_a_winner(use):
    with pytest.raises(InputError) as refusal:
        use(pd.read_csv(GRADED))
    assert str(refusal.value).endswith(REFUSED)


def test_trap_7_the_sign_of_a_named_scale():
    "−3 … 3, the first answer better below 0, as in HelpSteer3; without named ends nothing is guessed."
    shares = pd.read_csv(GRADED)
    scale = shares.assign(verdict=3 - 6 * shares["verdict"])
    right = ppe.rank(scale, columns={"low": 3, "high": -3}).to_frame()
    pd.testing.assert_frame_equal(right, ppe.rank(shares).to_frame())
    assert ppe.rank(scale, columns="low=-3,high=3").to_frame()["model"].tolist() == ["two", "one"]
    for frame, message in (
        (scale, "name the ends"),
        (shares.assign(verdict=[0, 1, 1, 0]), "unknown verdict '0', '1'"),
        (shares.assign(verdict=["0.8", "a", "tie", "b"]), "unknown verdict '0.8'"),
    ):
        with pytest.raises(InputError, match=message):
            ppe.rank(frame)

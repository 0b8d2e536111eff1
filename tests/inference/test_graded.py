"""Verdicts that are shares of a point: the case with values by hand, and what refuses it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import refused

import ppe
from ppe.errors import InputError
from ppe.inference.score_limits import estimated_difference
from ppe.inference.score_tests import pair_tests, score_tests
from ppe.random_streams import stream
from ppe.rankers.likelihood import Design

GRADED = Path(__file__).parents[1] / "cases" / "evidence_4_graded.csv"
REFUSED = "no ties and no winners, which are needed here; use bradley-terry, or round them yourself"


def test_evidence_4_graded():
    "Gap ln(.7/.3), z = .8/√.185, dispersion 1 − .815/.84: taken as 1, limits would be valid and too wide."
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


COLUMNS = ["judge", "question_id", "category", "variant", "model_a", "model_b", "verdict"]


def graded_by_hand(n_questions: int = 12) -> pd.DataFrame:
    "Three models; every pair on every question, in two categories: x leads in one, y in the other."
    rng = stream(3, "graded by category")
    rows = []
    for question in range(n_questions):
        leads = {"x": 0.1, "y": 0.0, "z": -0.2} if question % 2 else {"x": 0.0, "y": 0.1, "z": -0.2}
        for a, b in (("x", "y"), ("z", "x"), ("y", "z")):
            share = float(np.clip(0.5 + leads[a] - leads[b] + rng.normal(0, 0.03), 0.01, 0.99))
            rows.append(("j", question, f"c{question % 2}", 0, a, b, share))
    return pd.DataFrame(rows, columns=COLUMNS)


def points(table: pd.DataFrame) -> pd.DataFrame:
    "Of each question (rows) and model, added up by hand."
    first = table.pivot_table(index="question_id", columns="model_a", values="verdict", aggfunc="sum")
    second = (1 - table["verdict"]).groupby([table["question_id"], table["model_b"]]).sum().unstack()
    return first.add(second, fill_value=0)


def test_robustness_of_graded_verdicts_is_that_of_their_points():
    table = graded_by_hand()
    board = ppe.rank(table, fragility=True)
    change = board.fragility.changes[0]
    lead = (points(table)[change.ahead] - points(table)[change.behind]).sort_values(ascending=False)
    n_fewest = int((lead.sum() - lead.cumsum() < 0).to_numpy().argmax()) + 1
    assert change.exact and change.questions == [str(name) for name in lead.index[:n_fewest]]
    assert f"dropping {n_fewest} of the 12 questions (the fewest that can)" in str(board)


def test_graded_verdicts_by_category_are_those_of_each_alone():
    table = graded_by_hand(24)
    boards = ppe.rank(table, by="category")
    assert boards.winners[["category", "model", "certain"]].to_numpy().tolist() == [
        ["c0", "y", True],
        ["c1", "x", True],
    ]
    for category, board in boards.boards.items():
        alone = ppe.rank(table[table["category"] == category], intervals=0)
        np.testing.assert_allclose(board.ranking.scores, alone.ranking.scores)


def test_graded_questions_that_repeat_another_are_counted():
    table = graded_by_hand(40)
    again = table[table["question_id"].isin([1, 5])].assign(question_id=lambda rows: rows["question_id"] + 100)
    turned = again.rename(columns={"model_a": "model_b", "model_b": "model_a"}).assign(verdict=1 - again["verdict"])
    assert ppe.check(table).facts["questions_repeated"] == 0
    check = ppe.check(pd.concat([table, again]))
    assert check.facts["questions_repeated"] == 2 and "2 questions repeat the verdicts of another" in check.notes()
    assert not any("--order-effect" in note for note in check.notes())
    for copy in (
        again.assign(question_id=again["question_id"] - 100),
        turned.assign(question_id=turned["question_id"] - 100),
    ):
        for use in (ppe.check, ppe.rank):
            with pytest.raises(InputError, match="the same pair twice in one graph in rows 121, 122"):
                use(pd.concat([table, copy]))


def test_large_files_of_graded_verdicts_are_ranked_from_a_table(ppe_main, tmp_path, monkeypatch):
    path = tmp_path / "graded.csv"
    graded_by_hand().to_csv(path, index=False)
    usual = ppe_main("rank", path).out
    monkeypatch.setattr("ppe.api.inputs.LARGE", 20)
    assert ppe_main("rank", path).out == usual and ppe_main("check", path).code == 0
    monkeypatch.setattr("ppe.api.inputs.ROW_BYTES", 2**50)
    refused(ppe_main("rank", path), "a ranking of graded verdicts needs a table", "give a part of the rows")
    refused(ppe_main("counts", path, "--out", tmp_path / "c.csv"), "graded.csv: graded verdicts", "round them yourself")

"""Traps of evidence that is not a verdict: what a naive reading would say, and what is said."""

import numpy as np
import pandas as pd
import pytest

import ppe
from ppe.errors import InputError
from ppe.inference.mean_tests import MeanTests, pair_statistics
from ppe.random_streams import stream
from ppe.scores import ScoreCells, validate_scores

COLUMNS = ["question_id", "model", "score"]


def common_means(frame: pd.DataFrame) -> pd.Series:
    "Model effects of a regression on models and questions, written out with dummy variables."
    models, questions = (pd.get_dummies(frame[name].astype(str), dtype=float) for name in ("model", "question_id"))
    effects = np.linalg.lstsq(np.hstack([models, questions]), frame["score"], rcond=None)[0][: models.shape[1]]
    return pd.Series(effects - effects.mean(), models.columns)


def test_trap_1_raw_means_of_other_questions():
    "The worst model answered the easy questions alone: it has the best raw mean, and the last place."
    for number in range(10):
        rng = stream(1, "easy questions", number)
        ease = np.sort(rng.normal(50, 20, 40))
        rows = [(q, m, ease[q] - 5 * k + rng.normal()) for q in range(40) for k, m in enumerate("abc")]
        frame = pd.DataFrame(rows, columns=COLUMNS)
        frame = frame[(frame["model"] != "c") | (frame["question_id"] >= 25)]
        assert frame.groupby("model")["score"].mean().idxmax() == "c"
        board = ppe.rank(frame, intervals=0).to_frame().set_index("model")["score"]
        assert [*board.index] == ["a", "b", "c"]
        expected = common_means(frame)
        np.testing.assert_allclose((board - board.mean())[expected.index], expected, atol=1e-8)
    assert "Means of all scores would put c first; on the same questions a is." in str(ppe.diagnose(frame))


@pytest.mark.filterwarnings("ignore::ppe.errors.Remark")
def test_trap_8_losers_of_a_call_for_the_best_are_no_tie():
    "x is named 3 times, y 2, z 1: chances of 3 : 2 : 1, which ties among losers would draw together."
    rows = [
        {"judge": "j", "question_id": q, "candidates": ["x", "y", "z"], "winner": w} for q, w in enumerate("xxxyyz")
    ]
    table = ppe.read(pd.DataFrame(rows))
    score = ppe.rank(table, intervals=0).to_frame().set_index("model")["score"]
    expected = np.log([3, 2, 1]) - np.log([3, 2, 1]).mean()
    np.testing.assert_allclose(score[["x", "y", "z"]], expected, atol=1e-8)
    lost = [("j", q, "all", 1, *sorted({"x", "y", "z"} - {w}), "tie") for q, w in enumerate("xxxyyz")]
    lost = pd.DataFrame(lost, columns=["judge", "question_id", "category", "variant", "model_a", "model_b", "verdict"])
    tied = ppe.rank(pd.concat([table.astype(object), lost], ignore_index=True), intervals=0).to_frame()
    assert np.ptp(tied["score"]) < 0.7  # ln 3 is 1.1


def test_trap_10_a_task_is_one_question_whatever_lies_below_it():
    "20 tasks of 50 samples: z is ΣD / √ΣD² of 20 differences, and the limits are those of the 20 means."
    rng = stream(10, "tasks")
    rows = [
        (f"t{t:02}", k, m, value)
        for t in range(20)
        for m, ability in zip("ab", rng.normal(0, 0.3, 2) + (0.2, 0), strict=True)
        for k, value in enumerate(rng.normal(ability, 1, 50))
    ]
    samples = pd.DataFrame(rows, columns=["task", "sample", "model", "score"])
    means = samples.groupby(["task", "model"], as_index=False)["score"].mean()
    board = ppe.rank(means, columns={"question_id": "task"})
    assert "on 20 questions" in str(board)
    of_samples = ppe.rank(samples, columns={"question_id": "task", "repeat": "sample"})
    pd.testing.assert_frame_equal(of_samples.to_frame(), board.to_frame())
    differences = means.pivot(index="task", columns="model", values="score").diff(axis=1)["b"]
    tests = MeanTests.of(
        ScoreCells.of(validate_scores(means.rename(columns={"task": "question_id"}))), n_flips=9, rng=rng
    )
    z = differences.sum() / np.sqrt((differences**2).sum())
    np.testing.assert_allclose(np.abs(pair_statistics(tests).z), [abs(z)])
    with pytest.raises(InputError, match="question_id=task\\); each task is one question then"):
        ppe.rank(means)


@pytest.mark.parametrize("n_unlike, is_certain", [(5, False), (6, True)])
def test_trap_11_one_sided_questions_decide_from_six_on(n_unlike, is_certain):
    "All that differ speak for a: two of 2⁵ signs are as far, .0625, and two of 2⁶, .031."
    rows = [(q, m, int(m == "a" or q >= n_unlike)) for q in range(100) for m in "ab"]
    board = ppe.rank(pd.DataFrame(rows, columns=COLUMNS))
    assert (board.to_frame()["rank_high"].tolist() == [1, 2]) == is_certain
    assert ("Models differ on 5 of 100 questions: ranges need at least 6." in board.notes()) != is_certain


def scored(*values: float) -> pd.DataFrame:
    "Scores of models a, b, … on 30 questions; beyond the first five all have that of a."
    rows = [(q, m, value if q < 5 else values[0]) for q in range(30) for m, value in zip("abc", values, strict=False)]
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.mark.parametrize(
    "frame, sentence",
    [
        (scored(1.0), "means (ppe rank): one model: at least two are compared"),
        (scored(1.0, 1.0), "means (ppe rank): all scores are the same, or nearly"),
        (scored(1e-7, 0.0), "means (ppe rank): all scores are the same, or nearly"),
        (scored(1.0, 0.0), "ranges of ranks: 30 questions, of which models differ on 5 (6 needed)"),
    ],
)
def test_check_says_what_rank_would_refuse_or_leave_open(frame, sentence):
    check = ppe.check(frame)
    assert sentence in check.fit_for
    assert [case.outcome for case in check.cases if f"{case.name}: {case.sentence}" == sentence] == ["failure"]


@pytest.mark.parametrize(
    "frame, words",
    [
        (
            scored(1.0, 0.0).assign(score=[[value] for value in scored(1.0, 0.0)["score"]]),
            r"score '\[1.0\]'.*in rows 1",
        ),
        (scored(1.0, 0.0).assign(score=scored(1.0, 0.0)["score"].map("{:.0%}".format)), "score '100%', '0%' in rows 1"),
        (scored(1e-12, 0.0), "all scores lie within 1e-12.*give them in larger units"),
    ],
)
def test_scores_that_are_no_numbers_or_too_near_are_refused(frame, words):
    with pytest.raises(InputError, match=words):
        ppe.rank(frame)


def test_a_limit_where_signs_jump_is_zero():
    "Five questions speak for a, none against: its bound is 0, and no rounding of the solver stands in the table."
    table = ppe.rank(scored(1.0, 0.0)).to_frame()
    assert table["behind_at_most"][0] == 0
    assert "to +0;" in str(ppe.compare(scored(1.0, 0.0), model=["a", "b"]))

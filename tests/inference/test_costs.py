"""Costs: which model is named, which files are refused, and what a bound promises."""

import numpy as np
import pandas as pd
import pytest
from conftest import refused

import ppe
from ppe.errors import InputError
from ppe.random_streams import stream

MODELS = ("large", "middle", "small")


def score_frame(n_questions: int, gaps: tuple[float, ...], rng: np.random.Generator) -> pd.DataFrame:
    "Scores of 0 and 1; each model is right on a share of the questions of its own."
    right = rng.random((n_questions, 1)) + rng.normal(0, 0.1, (n_questions, len(gaps))) < 0.8 - np.array(gaps)
    rows = [(q, m, int(right[q, k])) for q in range(n_questions) for k, m in enumerate(MODELS)]
    return pd.DataFrame(rows, columns=["question_id", "model", "score"])


@pytest.fixture
def scores(tmp_path):
    path = tmp_path / "scores.csv"
    score_frame(300, (0.0, 0.01, 0.3), stream(1, "costs")).to_csv(path, index=False)
    return path


def costs_file(tmp_path, *rows: str):
    path = tmp_path / "costs.csv"
    path.write_text("model,cost\n" + "".join(f"{row}\n" for row in rows))
    return path


GOOD = ("large,10", "middle,2", "small,0.5")


def test_the_cheapest_model_that_is_shown_or_none(ppe_main, scores, tmp_path):
    costs = costs_file(tmp_path, *GOOD)
    done = ppe_main("rank", scores, "--costs", costs, "--within", "0.1", "--format", "json").json()
    bounds = {row["model"]: row["behind_at_most"] for row in done["costs"]["models"]}
    assert done["costs"]["cheapest"] == "middle" and bounds["middle"] <= 0.1 < bounds["small"]
    none = ppe_main("rank", scores, "--costs", costs, "--within", "0.001")
    assert "No model is shown within 0.001 of the best" in none.out and "cost" in none.out.splitlines()[0]
    assert ppe.rank(str(scores), costs=dict(large=10, middle=2, small=0.5), within=0.1).cheapest == "middle"


@pytest.mark.parametrize(
    "rows, words",
    [
        (GOOD[:2], ("no cost of small",)),
        ((*GOOD, "huge,3"), ("costs of huge",)),
        ((*GOOD[:2], "small,-1"), ("cost -1", "small")),
        ((*GOOD[:2], "small,nan"), ("cost nan", "small")),
        ((*GOOD[:2], "small,inf"), ("cost inf", "small")),
        ((*GOOD[:2], "small,cheap"), ("cost 'cheap'", "small")),
        ((*GOOD, "small,1"), ("small", "one cost for each model")),
    ],
)
def test_costs_that_cannot_be_used_are_refused_in_one_line(ppe_main, scores, tmp_path, rows, words):
    refused(ppe_main("rank", scores, "--costs", costs_file(tmp_path, *rows), "--within", "0.1"), *words)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"within": 0.1}, "--costs COSTS.csv"),
        ({"costs": dict.fromkeys(MODELS, 1), "within": -0.1}, "0 or more"),
        ({"costs": dict.fromkeys(MODELS, 1), "within": float("nan")}, "0 or more"),
        ({"costs": dict.fromkeys(MODELS, 1), "intervals": 0}, "--intervals 0"),
        ({"costs": dict.fromkeys(MODELS, 1), "ranker": "davidson"}, "bradley-terry of all graphs"),
        ({"costs": dict.fromkeys(MODELS, 1), "ranker": "bradley-terry", "within": 0.5}, "below 0.5"),
        ({"costs": dict.fromkeys(MODELS, 1), "ranker": "bradley-terry", "judges": "separate"}, "--judges separate"),
    ],
)
def test_what_has_no_bounds_is_refused(scores, options, words):
    with pytest.raises(InputError, match=words):
        ppe.rank(str(scores), **options)


def test_trap_4_few_questions_name_no_model():
    "With 100 questions and a cheap model .06 behind, it is never named within .05; *not shown to be worse* would."
    named, not_shown_worse = 0, 0
    for number in range(30):
        frame = score_frame(100, (0.0, 0.02, 0.06), stream(4, "cheapest", number))
        board = ppe.rank(frame, costs={"large": 10, "middle": 2, "small": 1}, within=0.05, intervals=199)
        named += board.cheapest == "small"
        not_shown_worse += board.to_frame().set_index("model")["rank_low"]["small"] == 1
    assert named <= 1 and not_shown_worse >= 12


def test_trap_9_at_the_ceiling_the_mean_is_reported():
    "Log odds near 0 for models that are nearly always both right; the mean says how far apart they are."
    rows = [(q, m, int(q % 40 != 0 or m == "a") if q % 20 == 0 else 1) for q in range(200) for m in "ab"]
    frame = pd.DataFrame(rows, columns=["question_id", "model", "score"])
    means = ppe.rank(frame).to_frame().set_index("model")["score"]
    assert means.to_dict() == pytest.approx({"a": 1.0, "b": 0.975})
    odds = ppe.rank(frame, ranker="bradley-terry", intervals=0).ranking.scores
    assert np.ptp(odds) < 0.06


def test_trap_15_the_best_itself_may_be_behind():
    "Bounds are cautious: of few questions that of the best model is wide, and it is printed."
    board = ppe.rank(score_frame(100, (0.0, 0.02, 0.06), stream(15, "cautious")))
    table = board.to_frame()
    assert table["behind_at_most"].iloc[0] > 0.03
    assert "behind_at_most" in str(board).splitlines()[0]


def test_trap_3_rare_failures_say_how_few_questions_carry_them():
    "A mean that rests on two failures in 30 questions: the line on robustness says so."
    rng = stream(3, "failures")
    frame = pd.DataFrame([(q, m, 80 + (m == "a") + rng.normal(0, 0.2)) for q in range(30) for m in "ab"])
    frame.columns = ["question_id", "model", "score"]
    frame.loc[(frame["model"] == "a") & frame["question_id"].isin([3, 4]), "score"] = 5.0
    board = ppe.rank(frame)
    assert board.to_frame()["model"].tolist() == ["b", "a"] and board.fragility is not None
    assert "dropping 2 of the 30 questions (the fewest that can) would put a first" in str(board)


def test_trap_13_criteria_are_not_pooled(ppe_main, tmp_path):
    "One is named, or each is a category of its own; what nobody named is refused."
    rng = stream(13, "criteria")
    rows = [(q, m, c, rng.normal(k, 1)) for q in range(12) for k, m in enumerate("ab") for c in ("depth", "wit")]
    frame = pd.DataFrame(rows, columns=["question_id", "model", "criterion", "score"])
    path = tmp_path / "criteria.csv"
    frame.to_csv(path, index=False)
    refused(ppe_main("rank", path), "2 criteria, depth, wit", "--columns criterion=depth")
    alone = ppe.rank(frame[frame["criterion"] == "wit"]).to_frame()
    pd.testing.assert_frame_equal(ppe.rank(frame, criterion="wit").to_frame(), alone)
    each = ppe_main("rank", path, "--columns", "category=criterion", "--by", "category")
    assert each.code == 0 and "depth" in each.out and "wit" in each.out
    refused(ppe_main("rank", path, "--columns", "criterion=style"), "no scores of criterion 'style'")
    halves = [tmp_path / f"{name}.csv" for name in ("depth", "wit")]
    for half in halves:
        frame[frame["criterion"] == half.stem].to_csv(half, index=False)
    refused(ppe_main("rank", *halves), "2 criteria")

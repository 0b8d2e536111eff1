"""Intervals across modules: questions are what is resampled, whoever judged them."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from drawn import frame

from ppe.errors import InputError
from ppe.inference.advice import diagnose_verdicts, open_ranks, split_gain
from ppe.inference.budget import cross_validate
from ppe.inference.intervals import question_weights, rank_intervals
from ppe.inference.leaderboard import leaderboard
from ppe.inference.methods import Method
from ppe.pool import comparison_graphs
from ppe.reports.comparison import compare
from ppe.reports.report import make_report
from ppe.streams import stream
from ppe.verdicts import validate_verdicts

SEED = 20260324
N_QUESTIONS, MODELS = 8, "pqrst"


@pytest.fixture(scope="module")
def one_judge():
    "Eight questions in two wordings; each question has an opinion of its own."
    rng = stream(SEED, "one judge")
    opinion = np.linspace(1, -1, len(MODELS)) + rng.normal(0, 1.0, (N_QUESTIONS, len(MODELS)))
    rows = [
        ("judge 1", f"q{q}", "any", variant, MODELS[a], MODELS[b],
         "a" if opinion[q, a] - opinion[q, b] + rng.logistic() > 0 else "b")
        for q in range(N_QUESTIONS) for variant in (0, 1) for a, b in combinations(range(len(MODELS)), 2)
    ]  # fmt: skip
    return frame(rows)


@pytest.fixture(scope="module")
def two_judges(one_judge):
    "The same rows again under a second judge: nothing new about other questions."
    return validate_verdicts(pd.concat([one_judge, one_judge.assign(judge="judge 2")], ignore_index=True))


def test_a_second_judge_of_the_same_questions_narrows_no_interval(one_judge, two_judges):
    kinds = ("percentile", "differences", "simultaneous")
    for kind in kinds:
        alone, both = (leaderboard(t).with_intervals(n_resamples=99, kind=kind) for t in (one_judge, two_judges))
        assert both.n_graphs == 2 * alone.n_graphs
        pd.testing.assert_frame_equal(alone.table(), both.table(), atol=1e-6)
    *notes, pooled = both.notes()
    assert alone.notes() == notes != [] and pooled.startswith("verdicts of 2 judges are pooled")


def test_a_question_is_drawn_with_the_graphs_of_all_its_judges(two_judges):
    pool = comparison_graphs(two_judges)
    question = pd.factorize(pool.index["question_id"].astype(str))[0]
    for method in (Method("all"), Method("best of each judge and question", keep=1, by="block")):
        weights = question_weights(method, pool, n_resamples=30, rng=stream(SEED))
        drawn = np.array([[row[question == q].sum() for q in range(N_QUESTIONS)] for row in weights])
        for judge in ("judge 1", "judge 2"):
            own = (pool.index["judge"] == judge).to_numpy()
            part = [[row[own & (question == q)].sum() for q in range(N_QUESTIONS)] for row in weights]
            assert np.array_equal(2 * np.array(part), drawn)
        assert (weights.sum(axis=1) == (len(pool) if method.by == "pool" else len(pool) // 2)).all()


def test_a_question_with_more_judges_may_not_be_counted_on(one_judge):
    # Question q0 has a second judge: seven others drawn may leave 16 graphs, not 18.
    more = one_judge[one_judge["question_id"] == "q0"].assign(judge="judge 2")
    pool = comparison_graphs(validate_verdicts(pd.concat([one_judge, more], ignore_index=True)))
    assert len(pool) == 18 and pool.n_questions == N_QUESTIONS
    rank_intervals(pool, method=Method("sixteen", keep=16), n_resamples=5, rng=stream(SEED))
    with pytest.raises(InputError, match="8 questions may have only 16"):
        rank_intervals(pool, method=Method("seventeen", keep=17), n_resamples=5, rng=stream(SEED))


def test_no_question_stands_on_both_sides_of_a_fold_or_a_half(two_judges):
    pool = comparison_graphs(two_judges)
    cv = cross_validate(pool, [1.0], rng=stream(SEED))
    question = pd.factorize(pool.index["question_id"].astype(str))[0]
    assert all(len(set(cv.fold[question == q])) == 1 for q in range(N_QUESTIONS))
    # Halves of one judge's questions, and the same halves with both judges: the same distances.
    alone = split_gain(pool.subset(pool.index["judge"] == "judge 1"), n_simulations=5, rng=stream(SEED)).done()
    both = split_gain(pool, n_simulations=5, rng=stream(SEED)).done()
    assert both.iloc[0]["distance"] == alone.iloc[0]["distance"]


def test_the_diagnosis_counts_questions_not_judgements(one_judge, two_judges):
    alone, both = (diagnose_verdicts(table, n_simulations=2) for table in (one_judge, two_judges))
    assert both.sections()["pool"][0] == "32 of 32 graphs, on 8 questions, 5 models; complete"
    assert both.ranks is not None and both.ranks.equals(alone.ranks)


@pytest.mark.parametrize("ranker", ["bradley-terry", "copeland", "kemeny"])
def test_questions_that_all_agree_decide_a_rank_only_where_a_sign_test_could(ranker):
    def identical(n_questions, order="pqrs"):
        rows = [("j", q, "any", 0, a, b, "a") for q in range(n_questions) for a, b in combinations(order, 2)]
        return frame(rows)

    # All 12 statements about four models together: 12 / 2^8 is below 5 %; the 6 about one of them: 6 / 2^7.
    for n_questions in (2, 4, 6, 7, 8):
        decided, certain = n_questions >= 8, n_questions >= 7
        report = make_report(identical(n_questions), ranker=ranker, n_resamples=99, parts=())
        assert (report.decided, report.n_open) == (decided, 0 if decided else 4)
        said = " ".join(report.board.notes())
        assert ("decide nothing" in said, "decide no rank" in said) == (n_questions < 5, 5 <= n_questions < 8)
        old = compare(identical(n_questions, "qprs"), identical(n_questions), ranker=ranker, n_resamples=99)
        assert old.swaps["shown"].tolist() == [decided]
        ranks = open_ranks(comparison_graphs(identical(n_questions)), rng=stream(SEED))
        assert (ranks["rank_low"] == ranks["rank_high"]).all() == certain
        assert (ranks["rank_high"] == 4).all() == (not certain)

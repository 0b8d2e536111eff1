"""Intervals across modules: questions are what is resampled, whoever judged them."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from definitions import definitions
from drawn import frame
from scipy.sparse import csr_array

import ppe
from ppe.errors import InputError
from ppe.inference.diagnosis import diagnose_verdicts
from ppe.inference.findings import open_ranks
from ppe.inference.graph_selection import Method
from ppe.inference.leaderboard import leaderboard
from ppe.inference.pool_intervals import rank_intervals
from ppe.inference.question_resamples import question_weights
from ppe.inference.score_limits import contrast_limits
from ppe.inference.score_tests import score_tests
from ppe.pool import comparison_graphs
from ppe.random_streams import stream
from ppe.rankers.likelihood import Design
from ppe.verdicts import read_verdicts, validate_verdicts

SEED = 20260324
N_QUESTIONS, MODELS = 8, "pqrst"
CASES = Path(__file__).parents[1] / "cases"


@pytest.fixture(scope="module")
def one_judge():
    "Eight questions in two wordings; each has an opinion of its own, so that scores spread more than coins would."
    rng = stream(SEED, "one judge")
    opinion = np.linspace(1, -1, len(MODELS)) + rng.normal(0, 1.5, (N_QUESTIONS, len(MODELS)))
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


def test_a_copied_judge_moves_no_rank_and_limits_by_less_than_a_twentieth(one_judge, two_judges):
    "Tests hold copies for what they are; the floor under the variance of limits counts verdicts, so limits may move."
    for kind in ("percentile", "single", "simultaneous"):
        alone, both = (leaderboard(t).with_intervals(n_resamples=99, kind=kind) for t in (one_judge, two_judges))
        assert both.verdicts.n_graphs == 2 * alone.verdicts.n_graphs
        ends = ["score_low", "score_high"]
        pd.testing.assert_frame_equal(alone.table()[ends], both.table()[ends], atol=0.05)
        pd.testing.assert_frame_equal(alone.table().drop(columns=ends), both.table().drop(columns=ends), atol=1e-6)
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
    rank_intervals(pool, method=Method("sixteen", keep=16), n_resamples=39, rng=stream(SEED))
    with pytest.raises(InputError, match="8 questions may have only 16"):
        rank_intervals(pool, method=Method("seventeen", keep=17), n_resamples=39, rng=stream(SEED))


def test_no_question_stands_on_both_sides_of_a_fold_or_a_half(two_judges):
    pool = comparison_graphs(two_judges)
    cv = definitions("tables/tab_keep_k_cv.ipynb").cross_validate(pool, [1.0], rng=stream(SEED))
    question = pd.factorize(pool.index["question_id"].astype(str))[0]
    assert all(len(set(cv.fold[question == q])) == 1 for q in range(N_QUESTIONS))


def test_the_diagnosis_counts_questions_not_judgements(one_judge, two_judges):
    asked = ["pool", "misspecification", "ranks"]
    alone, both = (diagnose_verdicts(table, sections=asked) for table in (one_judge, two_judges))
    assert both.lines()[0].startswith("The file holds 320 valid verdicts by 2 judges on 8 questions and 5 models; each")
    assert both.to_dict()["ranks"] == alone.to_dict()["ranks"]
    one, two = (found.to_dict()["misspecification"] for found in (alone, both))
    assert one.pop("worst_pair") == two.pop("worst_pair") and one == pytest.approx(two)


def identical(n_questions, order="pqrs"):
    rows = [("j", q, "any", 0, a, b, "a") for q in range(n_questions) for a, b in combinations(order, 2)]
    return frame(rows)


def test_questions_that_all_agree_decide_a_rank_only_where_a_sign_test_could():
    # Two-sided: 2 / 2^6 is below 5 %, and 2 / 2^5 is not.
    for n_questions in (5, 8):
        board = leaderboard(identical(n_questions), on_separation="ridge")
        board = board.with_intervals(n_resamples=999, kind="simultaneous")
        rows = board.table()
        assert (rows["rank_low"] < rows["rank_high"]).all() or n_questions >= 6
        assert ("decide nothing" in " ".join(board.notes())) == (n_questions < 6)
        ranks = open_ranks(comparison_graphs(identical(n_questions)), rng=stream(SEED))[0]
        assert (ranks["rank_low"] == ranks["rank_high"]).all() == (n_questions > 6)
        assert (ranks["rank_high"] == 4).all() or n_questions >= 6


@pytest.mark.parametrize("ranker", ["copeland", "kemeny"])
def test_rankers_without_a_likelihood_describe_and_say_so(ranker):
    board = leaderboard(identical(8), ranker=ranker).with_intervals(n_resamples=99, kind="simultaneous")
    assert board.kind == "percentile" and board.to_dict()["intervals"]["kind"] == "percentile"
    assert any("a description: tests of pairs need a likelihood" in line for line in board.notes())


@pytest.mark.parametrize("kind", ["single", "simultaneous", "percentile"])
def test_top_lost_once(kind, ppe_main):
    "`top` wins 599 of 600: first in every kind, and the limits of the others are finite."
    options = "--intervals", 1000, "--interval-kind", kind, "--format", "json"
    run = ppe_main("rank", CASES / "top_lost_once.csv", *options)
    report = json.loads(run.out)
    ranges = {row["model"]: (row["rank_low"], row["rank_high"]) for row in report["models"]}
    assert not run.code and ranges.pop("top") == (1, 1) and all(2 <= low <= high <= 4 for low, high in ranges.values())
    if kind != "percentile":
        limits = {row["model"]: (row["score_low"], row["score_high"]) for row in report["models"]}
        (low, high), others = limits.pop("top"), limits.values()
        assert high is None and low > max(high for _, high in others)
        assert report["intervals"]["scale"] == ["b", "c", "d"]


def test_top_lost_once_is_settled_everywhere():
    table = read_verdicts(CASES / "top_lost_once.csv")
    board = leaderboard(table).with_intervals(n_resamples=999, kind="simultaneous")
    assert board.table().loc[0, ["model", "rank_low", "rank_high"]].tolist() == ["top", 1, 1]
    top = diagnose_verdicts(table, sections=["ranks"]).to_dict()["ranks"]["top"]
    assert (top["low"], top["high"]) == (1, 1)
    played, met_b = (table["model_a"].eq(name) | table["model_b"].eq(name) for name in ("top", "b"))
    won = np.where(table["model_a"] == "top", "a", "b")
    for lost in (0, 1, 2, 6):  # better evidence never widens
        said, first = np.where(played, won, table["verdict"].astype(str)), np.flatnonzero(played & met_b)[:lost]
        said[first] = np.where(won[first] == "a", "b", "a")
        board = leaderboard(validate_verdicts(table.assign(verdict=said)), on_separation="ridge")
        for kind in ("single", "simultaneous"):
            limits = board.with_intervals(n_resamples=199, kind=kind).table().set_index("model")
            assert limits.loc["top", ["rank_low", "rank_high"]].tolist() == [1, 1], (lost, kind)


def test_ranges_are_for_all_models_at_once_unless_one_was_chosen(ppe_main):
    "Every form of a result says the same kind; `differences` is the old name of `single`."
    path = CASES / "top_lost_once.csv"
    said = {}
    for kind in ((), ("--interval-kind", "simultaneous"), ("--interval-kind", "single")):
        words = "rank", path, "--intervals", 99, *kind
        name = "".join(kind[1:]) or "simultaneous"
        report = ppe_main(*words, "--format", "json").json()
        said[kind] = report["models"]
        assert report["intervals"]["kind"] == name and {row["interval_kind"] for row in report["models"]} == {name}
        csv = ppe_main(*words, "--format", "csv").out.splitlines()
        assert csv[0].split(",")[-1] == "interval_kind" and {line.split(",")[-1] for line in csv[1:]} == {name}
        whom = {"simultaneous": "for all models at once (", "single": "for one model chosen in advance ("}[name]
        for form in ("table", "markdown"):
            assert f"95 % ranges over questions, {whom}--interval-kind " in ppe_main(*words, "--format", form).out
    default, simultaneous, single = said.values()
    assert default == simultaneous != single
    old = ppe_main("rank", path, "--intervals", 99, "--interval-kind", "differences", "--format", "json").json()
    assert old["models"] == single and old["intervals"]["kind"] == "single"
    board = ppe.rank(path, intervals=99, interval_kind="differences")
    assert board.kind == "single" and whom in str(board) and whom in board._repr_html_()
    assert whom.removesuffix(" (") in board.plot().get_xlabel()


def test_ranges_by_category_are_of_one_kind():
    rows = identical(8)
    rows["category"] = [f"c{int(question) % 2}" for question in rows["question_id"]]
    with pytest.raises(InputError, match="hold for all models of all categories at once"):
        ppe.rank(rows, by="category", interval_kind="single")


@pytest.mark.parametrize("level", [0.9, 0.95, 0.999])
def test_a_diagnosis_has_the_ranges_of_the_leaderboard(one_judge, level):
    told = diagnose_verdicts(one_judge, sections=["ranks"], level=level).to_dict()["ranks"]
    table = ppe.rank(one_judge, level=level).to_frame()
    ranges = {row.model: (row.rank_low, row.rank_high) for row in table.itertuples()}
    assert {model: (row["low"], row["high"]) for model, row in told.items()} == ranges


def test_up_to_nine_questions_nothing_is_drawn(one_judge):
    turned = one_judge.assign(model_a=one_judge["model_b"], model_b=one_judge["model_a"])
    for kind in ("single", "simultaneous"):
        boards = [leaderboard(one_judge).with_intervals(n_resamples=n, kind=kind, seed=n) for n in (99, 400)]
        table, again = (board.table().set_index("model") for board in boards)
        pd.testing.assert_frame_equal(table, again)
        # Every verdict the other way round: limits change their signs and places, ranges of ranks their ends.
        back = leaderboard(turned).with_intervals(n_resamples=99, kind=kind).table().set_index("model").loc[table.index]
        np.testing.assert_allclose(back["score_low"], -table["score_high"], atol=1e-6)
        assert (back["rank_low"] == len(MODELS) + 1 - table["rank_high"]).all()


def test_ten_questions_are_drawn_and_a_design_without_balance_widens_its_limits(one_judge):
    "Pairs that questions ask unequally: limits with what the fit takes from them are the wider ones, mostly."
    wider = []
    for number in range(12):
        rng = stream(SEED, "unequal", number)
        question = np.repeat(np.arange(12), 20)
        pairs = np.array(list(combinations(range(6), 2)))
        first, second = pairs[np.repeat(rng.integers(len(pairs), size=24), 10)].T
        effect = 2 * rng.standard_normal((12, 6))
        points = (rng.logistic(size=240) < effect[question, first] - effect[question, second]).astype(float)
        tests = score_tests(Design.of(first, second, [*"uvwxyz"]), points, question, n_flips=399, rng=rng)
        assert not tests.listed and len(tests.draws.flips) == 399
        as_balanced = replace(tests, unusual=csr_array(tests.unusual.shape))
        ends = [contrast_limits(some, np.array([1.0, -1, 0, 0, 0, 0]), level=0.9) for some in (tests, as_balanced)]
        width, narrower = (high - low for low, high in ends)
        wider.append(width >= narrower - 1e-9)
    assert np.mean(wider) > 0.7


def test_sparse_model(ppe_main):
    "Of A, B and D a Fisher information by hand; S, with one win and one loss, opens its own limits alone."
    path = CASES / "sparse_model.csv"
    report = ppe_main("rank", path, "--interval-kind", "single", "--format", "json").json()
    limits = {row["model"]: row for row in report["models"]}
    assert report["intervals"]["scale"] == ["A", "B", "D"]
    p = np.array([[0.5, 0.6, 0.7], [0.4, 0.5, 0.6], [0.3, 0.4, 0.5]])  # as the scores say, 100 verdicts a pair
    share = 1 / (1 + np.exp(-np.subtract.outer(*[np.array([limits[m]["score"] for m in "ABD"])] * 2)))
    assert np.allclose(share, p, atol=0.006)
    weight = 100 * share * (1 - share) * (1 - np.eye(3))
    error = np.sqrt(np.diag(np.linalg.pinv(np.diag(weight.sum(axis=1)) - weight)))
    assert np.allclose(error, [0.099, 0.096, 0.099], atol=0.001)
    for model, one in zip("ABD", error, strict=True):
        half = (limits[model]["score_high"] - limits[model]["score_low"]) / 2
        assert abs(half - 1.96 * one) < 0.02
        assert abs(limits[model]["score_high"] + limits[model]["score_low"] - 2 * limits[model]["score"]) < 0.03
    assert limits["S"]["score_low"] is None and limits["S"]["score_high"] is None
    shown = ppe_main("rank", path).out
    assert "Scores against the mean of A, B, D." in shown
    table = ppe.rank(path).to_frame().set_index("model")
    assert np.isfinite(table.loc[["A", "B", "D"], ["score_low", "score_high"]]).all(axis=None)
    ranges = {model: (row.rank_low, row.rank_high) for model, row in table.iterrows()}
    assert ranges == {"A": (1, 2), "B": (2, 3), "D": (3, 4), "S": (1, 4)}


def with_thin(verdicts, *results):
    "The sparse model's table with more verdicts, (winner, loser, how often), each on a question of its own."
    rows = [(a, b) for a, b, times in results for _ in range(times)]
    more = pd.DataFrame(rows, columns=["model_a", "model_b"]).assign(judge="J", category="all", variant=1, verdict="a")
    more["question_id"] = [f"more {row}" for row in range(len(more))]
    columns = ["judge", "question_id", "category", "variant", "model_a", "model_b", "verdict"]
    return validate_verdicts(pd.concat([verdicts.astype(object), more])[columns].astype({"variant": int}))


@pytest.mark.parametrize(
    "more, scale",
    [
        ([("T", "A", 1), ("B", "T", 2)], "ABD"),  # two thin models
        ([("S", "T", 30), ("T", "S", 30)], "ABD"),  # two islands: the larger one has the scale
        ([("S", "D", 9), ("A", "S", 9)], "ABDS"),  # as well observed as the others
        ([("T", "A", 20), ("T", "B", 20), ("T", "D", 20), ("A", "T", 1)], "ABD"),  # a model that won nearly all
    ],
)
def test_thin_models_open_their_own_limits_alone(more, scale):
    rows = with_thin(read_verdicts(CASES / "sparse_model.csv"), *more)
    for kind in ("single", "simultaneous"):
        board = ppe.rank(rows, interval_kind=kind, intervals=499)
        table = board.to_frame().set_index("model")
        assert board.intervals.scale == tuple(scale)
        assert np.isfinite(table.loc[[*scale], ["score_low", "score_high"]]).all(axis=None)
        assert not np.isfinite(table.drop(index=[*scale])[["score_low", "score_high"]]).all(axis=1).any()


def test_a_star_has_limits_if_each_leaf_is_well_observed():
    rows = [("A", leaf, 12) for leaf in "BCD"] + [(leaf, "A", 10) for leaf in "BCD"]
    star = with_thin(read_verdicts(CASES / "sparse_model.csv").iloc[:0], *rows)
    assert np.isfinite(ppe.rank(star, intervals=499).to_frame()[["score_low", "score_high"]]).all(axis=None)
    thin = with_thin(star, ("A", "E", 2), ("E", "A", 1))
    board = ppe.rank(thin, intervals=499)
    assert board.intervals.scale == tuple("ABCD") and not np.isfinite(board.to_frame()["score_low"][4 - 1 :]).all()


def test_a_thin_model_leaves_limits_over_judges_as_they_are_without_it():
    rng, rows = stream(SEED, "thin, over judges"), []
    likes = rng.normal(0, 0.5, (5, 3)) + [0.4, 0.0, -0.4]
    for judge in range(5):
        for question in range(40):
            for a, b in combinations(range(3), 2):
                won = likes[judge, a] - likes[judge, b] + rng.logistic() > 0
                rows.append((f"j{judge}", f"q{question}", "all", 0, "ABD"[a], "ABD"[b], "a" if won else "b"))
    without = frame(rows)
    more = [(f"j{judge}", "q0", "all", 0, *two, "a") for judge in range(5) for two in (("S", "D"), ("A", "S"))]
    for over in ("judges", "questions,judges"):
        how = {"over": over, "intervals": 499, "interval_kind": "single"}
        alone = ppe.rank(without, **how).to_frame().set_index("model")
        board = ppe.rank(frame(rows + more), **how)
        table = board.to_frame().set_index("model")
        assert board.intervals.scale == tuple("ABD") and "Scores against the mean of A, B, D." in str(board)
        assert np.isinf(table.loc["S", ["score_low", "score_high"]].astype(float)).all()
        widths = [(each["score_high"] - each["score_low"])[[*"ABD"]] for each in (alone, table)]
        assert np.allclose(*widths, rtol=0.05)

"The fewest questions that change a leader: against every subset of the questions, and on the public sets."

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from drawn import drawn_rows, frame

import ppe
from ppe.errors import InputError, NoMaximumError
from ppe.inference.fragility import CHEAP, fragility, fragility_cost
from ppe.pool import Pool, comparison_graphs
from ppe.rankers.registry import rank_batch
from ppe.sources.datasets import load_verdicts

CASES = Path(__file__).parents[1] / "cases"
STRENGTH = {"a": 0.8, "b": 0.5, "c": 0.2, "d": 0.0, "e": -0.2}


def orders_without(pool: Pool, size: int, ranker: str) -> np.ndarray:
    "Ranks after every choice of so many questions is left out, where a maximum exists or graphs are complete."
    questions = np.unique(pool.questions, return_inverse=True)[1]
    kept = 1 - np.eye(pool.n_questions, dtype=int)[np.array([*combinations(range(pool.n_questions), size)])].sum(axis=1)
    wins, ties = pool.counts(kept[:, questions])
    kept = kept[(wins + ties).any(axis=(1, 2))]
    fits = rank_batch(pool, kept[:, questions], ranker=ranker)
    met, n = pool.adjacency | np.swapaxes(pool.adjacency, 1, 2), pool.n_models
    return fits.ranks if met.sum() == len(pool) * n * (n - 1) else fits.ranks[~fits.ridge]


def fewest(pool: Pool, changed, ranker: str) -> int | None:
    "By trying every subset: the smallest after which the ranks (B, n) are changed."
    sizes = range(1, pool.n_questions)
    return next((size for size in sizes if changed(orders_without(pool, size, ranker)).any()), None)


def judges_of(pool: Pool, ranker: str) -> dict:
    "What each change means, as a function of ranks; by what, ahead, behind (of neighbours)."
    ranks = rank_batch(pool, np.ones((1, len(pool)), dtype=int), ranker=ranker).ranks[0]
    order = np.argsort(ranks, kind="stable")
    top, rest = order[:3], order[3:]
    judges = {
        ("leader",): lambda r: r[:, order[0]] > np.delete(r, order[0], axis=1).min(axis=1),
        ("top 3",): lambda r: r[:, top].max(axis=1) > r[:, rest].min(axis=1),
    }
    for one, other in zip(order, order[1:], strict=False):
        key = ("neighbours", pool.models[one], pool.models[other])
        judges[key] = lambda r, one=one, other=other: r[:, one] > r[:, other]
    return judges


def compared(pool: Pool, ranker: str) -> list[tuple[int | None, int | None]]:
    "What is said beside what trying gives."
    found = fragility(pool, tie_parameter=ranker == "davidson")
    said = {(c.kind, c.ahead, c.behind) if c.kind == "neighbours" else (c.kind,): c.questions for c in found.changes}
    judges = judges_of(pool, ranker)
    assert set(said) == set(judges)
    return [(said[key] and len(said[key]), fewest(pool, changed, ranker)) for key, changed in judges.items()]


@pytest.mark.parametrize("ranker,two", [("bradley-terry", False), ("davidson", False), ("bradley-terry", True)])
def test_complete_graphs_are_exact(ranker, two):
    "Two judges, one of them in both orders, too: a question is left out whole."
    judges = {"j": (1.0, 0.0)} | ({"k": (0.5, 0.2)} if two else {})
    rows = drawn_rows(1, STRENGTH, judges, n_questions=8, ties=0.2)
    rows += [(*row[:3], 1, row[5], row[4], row[6]) for row in rows if row[0] == "k"]
    pool = comparison_graphs(frame(rows))
    made = fragility(pool)
    assert made.exact and made.n_questions == 8 and len(pool) == (24 if two else 8)
    assert {question for change in made.changes for question in change.questions or ()} <= set(map(str, range(8)))
    assert all(said == tried for said, tried in compared(pool, ranker))


@pytest.mark.parametrize("ranker", ["bradley-terry", "davidson"])
def test_elsewhere_the_answer_is_an_upper_bound_and_mostly_the_truth(ranker):
    pairs = []
    for seed in range(4):
        rows = drawn_rows(seed, dict(list(STRENGTH.items())[:4]), {"j": (1.0, 0.0)}, n_questions=9, holes=0.25)
        pool = comparison_graphs(frame(rows), incomplete="keep")
        assert not fragility(pool).exact
        pairs += compared(pool, ranker)
    over = [said - tried for said, tried in pairs if said is not None]
    assert min(over) >= 0 and over.count(0) > 0.9 * len(over) and len(over) > 0.9 * len(pairs)
    assert all(said is None or tried is not None for said, tried in pairs)


def test_what_is_left_out_is_enough_and_says_who_is_first():
    "On H2O the fourth is first sooner than the second; the verdicts without the named questions say the same."
    verdicts = load_verdicts("h2o-gpt4")
    for incomplete in ("drop", "keep"):
        found = fragility(comparison_graphs(verdicts, incomplete=incomplete))
        leader, top = found.changes[:2]
        assert (found.exact, found.n_questions) == ((True, 58) if incomplete == "drop" else (False, 60))
        assert len(leader.questions) == len(set(leader.questions)) == (25 if incomplete == "drop" else 27)
        for change, places in ((leader, 1), (top, 3)):
            rest = verdicts[~verdicts["question_id"].astype(str).isin(change.questions)]
            models = ppe.rank(rest, incomplete=incomplete, intervals=0).to_frame()["model"].tolist()[:places]
            assert change.behind in models and change.ahead not in models


def test_who_passes_need_not_be_first():
    "Without a question of x, y is ahead of x, and z, who lost to y there alone, ahead of both."
    points = {0: "xyz", 1: "xyz", 2: "yzx", 3: "zyx", 4: "zxy"}
    graphs = np.zeros((5, 3, 3), dtype=bool)
    for question, order in points.items():
        for better, worse in combinations(order, 2):
            graphs[question, "xyz".index(better), "xyz".index(worse)] = True
    pool = Pool.of(graphs, models="xyz")
    change = fragility(pool).changes[0]
    kept = [question for question in range(5) if str(question) not in change.questions]
    first = pool.models[graphs[kept].sum(axis=(0, 2)).argmax()]
    assert change.behind == first != change.ahead


def test_where_nothing_helps_it_is_said():
    graphs = np.zeros((4, 2, 2), dtype=bool)
    graphs[:, 0, 1] = True
    found = fragility(Pool.of(graphs, models="xy"))
    assert found.exact and found.changes[0].questions is None
    assert found.sentence() == "Robustness: no choice of questions to drop would put another model before x."
    assert found.to_frame()["questions"].isna().all() and json.dumps(found.to_dict())
    apart = np.zeros((4, 3, 3), dtype=bool)
    apart[:, 0, 1] = True  # the third never met them
    with pytest.raises(NoMaximumError):
        fragility(Pool.of(apart))


def test_too_many_questions_are_refused_where_each_choice_needs_a_fit(monkeypatch):
    rows = drawn_rows(0, STRENGTH, {"j": (1.0, 0.0)}, n_questions=12, holes=0.2)
    verdicts = frame(rows)
    assert "Robustness" in str(ppe.rank(verdicts))
    monkeypatch.setattr("ppe.inference.question_removal.MOST_QUESTIONS", 11)
    with pytest.raises(InputError, match="12 questions that do not compare all pairs equally often: up to 11"):
        fragility(comparison_graphs(verdicts, incomplete="keep"))
    board = ppe.rank(verdicts)
    assert board.fragility is None and "Robustness" not in str(board)


def test_rank_and_diagnose_say_it_and_name_the_questions():
    rows = frame(drawn_rows(3, STRENGTH, {"j": (2.0, 0.0)}, n_questions=20))
    board, diagnosis = ppe.rank(rows), ppe.diagnose(rows)
    said = board.fragility.sentence()
    assert said in str(board) and said in str(diagnosis)
    told = board.to_dict()
    assert told["fragility"] == board.fragility.to_dict() and json.dumps(told["fragility"])
    assert diagnosis.to_dict()["fragility"]["changes"] == told["fragility"]["changes"]
    for other in ({"ranker": "copeland"}, {"order_effect": True}, {"select": "global", "keep": 15}):
        assert ppe.rank(rows, intervals=0, **other).to_dict()["fragility"] is None
        with pytest.raises(InputError, match="--fragility is known for bradley-terry"):
            ppe.rank(rows, intervals=0, fragility=True, **other)


def test_it_is_left_out_without_ranges_or_at_great_cost_and_can_be_asked_for(monkeypatch):
    rows = frame(drawn_rows(3, STRENGTH, {"j": (2.0, 0.0)}, n_questions=20))
    usual = ppe.rank(rows).fragility
    assert ppe.rank(rows, intervals=0).fragility is None
    assert ppe.rank(rows, intervals=0, fragility=True).fragility.to_dict() == usual.to_dict()
    monkeypatch.setattr("ppe.inference.leaderboard_result.CHEAP", 0.0)
    board = ppe.rank(rows)
    assert board.fragility is None and any("--fragility" in note or "fragility=" in note for note in board.notes())
    assert ppe.rank(rows, fragility=True).fragility.to_dict() == usual.to_dict()


@pytest.mark.parametrize("n,n_pairs,is_cheap", [(60, 60, True), (300, 400, False)])
def test_sixty_models_are_cheap_and_three_hundred_are_not(n, n_pairs, is_cheap):
    "Of incomplete graphs; sixty models take a quarter of a second, three hundred some ten."
    rng = np.random.default_rng(2)
    rows = []
    for question in range(30):
        pairs = {(min(pair), max(pair)) for pair in rng.choice(n, (n_pairs, 2)) if pair[0] != pair[1]}
        rows += [("j", question, "c", 0, f"m{a}", f"m{b}", rng.choice(["a", "b"])) for a, b in pairs]
    assert (fragility_cost(comparison_graphs(frame(rows), incomplete="keep")) <= CHEAP) == is_cheap


def test_fragility_single_question():
    "Where graphs lack pairs each question is tried alone: without question 7 m4 leads, and no fewer can do it."
    rows = ppe.read(CASES / "fragility_single_question.csv")
    board = ppe.rank(rows)
    change = board.fragility.changes[0]
    assert len(change.questions) == 1 and change.exact and change.behind == "m4"
    rest = rows[rows["question_id"].astype(str) != change.questions[0]]
    assert ppe.rank(rest, intervals=0).to_frame()["model"][0] == "m4"
    assert "dropping 1 of the 9 questions (the fewest that can) would put m4 first" in str(board)


def pool_with_holes(seed: int) -> Pool:
    "Three to five models on five to nine questions; two in five pairs of a question were not judged."
    rng, n, n_questions = np.random.default_rng(seed), 3 + seed % 3, 5 + seed % 5
    strength = np.array([*STRENGTH.values()])[:n]
    ahead = rng.random((n_questions, n, n)) < 1 / (1 + np.exp(-np.subtract.outer(strength, strength)))
    met = np.triu(rng.random((n_questions, n, n)) > 0.4, 1)
    return Pool.of((met & ahead) | np.swapaxes(met & ~ahead, 1, 2))


def test_a_single_question_is_never_missed():
    "250 small pools with holes, against a fit without each question; 3 s on an idle machine."
    n_pools = n_single = 0
    for seed in range(1000):
        pool = pool_with_holes(seed)
        try:
            change = fragility(pool).changes[0]
        except NoMaximumError:
            continue
        ranks = rank_batch(pool, np.ones((1, len(pool)), dtype=int), ranker="bradley-terry").ranks[0]
        without_one = orders_without(pool, 1, "bradley-terry")
        if change.shared:
            shared = [pool.models.index(name) for name in change.shared]
            assert sorted(shared) == np.flatnonzero(ranks == ranks.min()).tolist()
            is_single = bool((np.ptp(without_one[:, shared], axis=1) > 0).any())
        else:
            leader = int(ranks.argmin())
            others = np.delete(without_one, leader, axis=1)
            is_single = bool((without_one[:, leader] > others.min(axis=1)).any())
        assert is_single == (change.questions is not None and len(change.questions) == 1), seed
        n_single += is_single
        n_pools += 1
        if n_pools == 250:
            break
    assert n_pools == 250 and n_single > 50


def test_tied_leaders():
    rows = ppe.read(CASES / "tied_leaders.csv")
    found = ppe.rank(rows).fragility
    assert set(found.changes[0].shared) == {"x", "y"} and found.changes[0].is_alone
    assert found.sentence().startswith("Robustness: x and y share the first place; dropping ")
    left_out = found.changes[0].questions
    table = ppe.rank(rows[~rows["question_id"].astype(str).isin(left_out)], intervals=0).to_frame()
    assert (table["model"][0], table["rank"][0]) == (found.changes[0].behind, 1)


def test_show_tie():
    shown = ppe.show(CASES / "show_tie.csv", models="A,B")
    assert str(shown).startswith("A and B share their rank\n") and "ranks above" not in str(shown)
    assert "A ranks above C" in str(ppe.show(CASES / "show_tie.csv", models="C,A"))


def test_the_best_three_are_those_that_all_ranges_together_leave():
    rows = frame(drawn_rows(3, STRENGTH, {"j": (2.0, 0.0)}, n_questions=20))
    lines, wide = [], ppe.rank(rows, interval_kind="simultaneous").to_frame()
    for kind in ("single", "simultaneous"):
        board = ppe.rank(rows, interval_kind=kind)
        among = board.to_dict()["intervals"]["top_3_among"]
        assert among == wide.loc[wide["rank_low"] <= 3, "model"].tolist()
        lines.append([line for line in str(board).splitlines() if line.startswith("Top 3, with 95 % confidence")])
    assert lines[0] == lines[1] and len(lines[0]) == (3 <= len(among) < 5)
    assert ppe.rank(rows, interval_kind="percentile").to_dict()["intervals"]["top_3_among"] is None

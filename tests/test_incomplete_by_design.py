"""Graphs that lack pairs by design are ranked as they are; only what compares cycle scores asks for more."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from conftest import refused

from ppe.errors import InputError
from ppe.inference.leaderboard import incomplete_by_design, leaderboard
from ppe.inference.methods import Method
from ppe.rankers.registry import rank_counts
from ppe.verdicts import COLUMNS, validate_verdicts, write_verdicts

N = 6
MODELS = tuple("abcdef")
PAIRS = list(combinations(range(N), 2))
THETA = np.linspace(1.0, -1.0, N)
SIGMA, NU = 0.7, 0.4


def chances(u):
    "Davidson: first wins, second wins, tie."
    won, lost = np.exp(u / 2), np.exp(-u / 2)
    return np.stack([won, lost, np.full_like(u, NU)]) / (won + lost + NU)


def spread(n_questions: int, per_question: int, seed: int) -> pd.DataFrame:
    "A few pairs on each question, every pair equally often; strengths move with the question."
    rng = np.random.default_rng(seed)
    deck, rows = [], []
    for question in range(n_questions):
        effects = THETA + rng.normal(0, SIGMA, N)
        taken: list[int] = []
        while len(taken) < per_question:
            deck = deck or rng.permutation(len(PAIRS)).tolist()
            taken.append(deck.pop())
        for pair in dict.fromkeys(taken):
            i, j = PAIRS[pair][:: rng.choice([1, -1])]
            verdict = rng.choice(["a", "b", "tie"], p=chances(np.array(effects[i] - effects[j])))
            rows.append(("judge", question, "all", 0, MODELS[i], MODELS[j], verdict))
    return validate_verdicts(pd.DataFrame(rows, columns=list(COLUMNS)))


def marginal_scores() -> np.ndarray:
    "Bradley–Terry scores of all questions there could be, by Gauss–Hermite integration over their effects."
    x, weight = np.polynomial.hermite_e.hermegauss(60)
    wins = np.zeros((N, N))
    for i in range(N):
        for j in set(range(N)) - {i}:
            won, _, tie = chances(THETA[i] - THETA[j] + np.sqrt(2) * SIGMA * x)
            wins[i, j] = (won + tie / 2) @ weight / weight.sum()
    return rank_counts(wins, np.zeros((N, N)), models=MODELS).scores


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_verdicts(spread(80, 3, seed=1), tmp_path_factory.mktemp("spread") / "verdicts.csv")


# ---- the three commands, as a newcomer gives them


@pytest.mark.parametrize(
    "options", [(), ("--intervals", "100"), ("--order-effect",), ("--ranker", "davidson"), ("--ranker", "hodgerank")]
)
def test_rank_takes_a_spread_design_by_default(ppe_main, file, options):
    done = ppe_main("rank", file, *options)
    assert done.code == 0 and "80 of 80 graphs, incomplete by design: every verdict counts" in done.out
    assert done.err == "", "no note: nothing is wrong"


def test_all_verdicts_count_and_the_report_says_why(ppe_main, file):
    by_default = ppe_main("rank", file, "--format", "json").json()
    kept = ppe_main("rank", file, "--incomplete", "keep", "--format", "json").json()
    assert by_default["incomplete_by_design"] and not kept["incomplete_by_design"]
    assert by_default | {"incomplete_by_design": False} == kept


@pytest.mark.parametrize(
    "options",
    [("--select", "global", "--keep", "9"), ("--select", "block", "--keep", "1"), ("--ranker", "soft-weights")],
)
def test_what_needs_cycle_scores_says_so_in_one_line(ppe_main, file, options):
    said = "these lack pairs by design (at most 3 of 15 judged)", "--incomplete drop", "ppe design --kind complete"
    refused(ppe_main("rank", file, *options), *said)
    assert ppe_main("rank", file, *options, "--incomplete", "keep", "--on-separation", "ridge").code == 0


def test_cycles_are_counted_among_the_pairs_that_were_judged(ppe_main, tmp_path):
    "A circle of three on one question, two pairs on each of the others."
    rows = [("j", 1, "c", 0, "a", "b", "a"), ("j", 1, "c", 0, "b", "c", "a"), ("j", 1, "c", 0, "c", "a", "a")]
    rows += [("j", q, "c", 0, *pair, "a") for q in range(2, 6) for pair in ("ad", "db")]
    path = write_verdicts(validate_verdicts(pd.DataFrame(rows, columns=list(COLUMNS))), tmp_path / "v.csv")
    done = ppe_main("cycles", path, "--format", "json")
    assert [graph["c3_bad"] for graph in done.json()] == [1, 0, 0, 0, 0]
    assert done.err.count("\n") == 1 and "lack pairs by design" in done.err


def test_diagnose_says_what_it_cannot(ppe_main, file):
    done = ppe_main("diagnose", file, "--simulations", "10")
    assert done.code == 0 and "none of them complete" in done.out
    assert done.err.count("\n") == 1 and "ppe design --kind complete" in done.err


# ---- which tables are incomplete by design


def table(n_whole: int, n_partial: int, *, invalid: bool = False) -> pd.DataFrame:
    "Graphs of three models; partial ones lack a pair, or have an invalid verdict on it."
    rows = []
    for question in range(n_whole + n_partial):
        for k, pair in enumerate(("xy", "yz", "zx")):
            verdict = "ab"[(question + k) % 2]
            if question >= n_whole and k == 2:
                if not invalid:
                    continue
                verdict = "invalid"
            rows.append(("j", question, "c", 0, *pair, verdict))
    return validate_verdicts(pd.DataFrame(rows, columns=list(COLUMNS)))


@pytest.mark.parametrize(
    ("n_whole", "n_partial", "design"),
    [(0, 5, True), (1, 9, True), (1, 8, False), (5, 5, False), (9, 1, False), (9, 0, False)],
)
def test_one_complete_graph_in_ten_is_the_border(n_whole, n_partial, design):
    verdicts = table(n_whole, n_partial)
    assert incomplete_by_design(verdicts) is design
    board = leaderboard(verdicts, on_separation="ridge")
    assert board.by_design is design and board.n_used == (n_whole + n_partial if design else n_whole)
    assert board.n_dropped == (0 if design else n_partial)


def test_invalid_verdicts_are_no_design():
    verdicts = table(1, 30, invalid=True)
    assert not incomplete_by_design(verdicts)
    assert (leaderboard(verdicts, on_separation="ridge").n_dropped) == 30
    with pytest.raises(InputError, match="no complete graph"):
        leaderboard(table(0, 30, invalid=True))


def test_complete_graphs_are_ranked_as_they_were():
    whole = table(9, 0)
    for method in (Method("all", keep=1.0), Method("half", keep=0.5)):
        by_default, dropping = (
            leaderboard(whole, method=method, incomplete=how, on_separation="ridge") for how in ("auto", "drop")
        )
        assert by_default.report() == dropping.report() and by_default.notes() == dropping.notes()


# ---- intervals from resampled questions


@pytest.mark.parametrize(("n_questions", "per_question"), [(60, 3), (60, 1), (30, 1)])
def test_limits_hold_the_truth_also_where_resamples_fall_apart(n_questions, per_question):
    "Scores at level 0.95 in 40 pools; with 30 calls one resample in five takes the fallback."
    truth, order = marginal_scores(), np.arange(1, N + 1)
    scores, ranks, apart = [], [], []
    for seed in range(40):
        board = leaderboard(spread(n_questions, per_question, seed), on_separation="ridge")
        board = board.with_intervals(n_resamples=60, seed=seed)
        limits = board.table().set_index("model").loc[list(MODELS)]
        scores += ((limits["score_low"] <= truth) & (truth <= limits["score_high"])).tolist()
        ranks += ((limits["rank_low"] <= order) & (order <= limits["rank_high"])).tolist()
        apart.append(board.intervals.ridge.mean())
        assert np.isfinite(limits["score_low"]).all() and np.isfinite(limits["score_high"]).all()
    assert np.mean(scores) > 0.92 and np.mean(ranks) > 0.95
    assert (np.mean(apart) > 0.1) == (n_questions * per_question == 30)

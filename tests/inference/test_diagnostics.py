"""Whether one score per model fits: chance does not warn, what no score can say does."""

from itertools import combinations

import numpy as np
import pytest
from drawn import frame

from ppe.inference.diagnosis import diagnose_verdicts
from ppe.inference.diagnostics import judges_agree
from ppe.inference.findings import open_ranks
from ppe.inference.wording_spread import wording_spread
from ppe.pool import Pool, comparison_graphs
from ppe.random_streams import stream
from ppe.sources.datasets import load_verdicts


def told(rows) -> tuple[dict, str]:
    found = diagnose_verdicts(frame(rows), sections=["misspecification"])
    return found.to_dict()["misspecification"], found.lines()[0]


def test_chance_is_not_taken_for_a_misfit():
    "Verdicts by tossing a coin, and coins that whole questions toss: every model is as good as another."
    rng, pairs = stream(20260324, "coins"), list(combinations(["m0", "m1", "m2", "m3", "m4", "m5"], 2))
    rows = [("j", q, "any", 0, *pair, "ab"[rng.integers(2)]) for q in range(8) for pair in pairs]
    report, sentence = told(rows)
    assert report["p_value"] > 0.05 and sentence.startswith("Fit: one score per model describes these verdicts")
    again = [(judge, *row[1:]) for judge in "jklm" for row in rows]  # the same verdicts by four judges say no more
    assert told(again)[0]["p_value"] > 0.05 and np.isclose(told(again)[0]["deviance"], report["deviance"])


def test_a_single_pair_beyond_the_scores_is_named():
    "Everything by strength, but the worst model always beats the best."
    rng, names = stream(20260324, "one pair"), ["a", "b", "c", "d"]
    rows = []
    for q in range(40):
        for i, j in combinations(range(4), 2):
            ahead = (i, j) != (0, 3) if rng.random() < 0.8 else (i, j) == (0, 3)
            rows.append(("j", q, "any", 0, names[i], names[j], "a" if ahead else "b"))
    report, sentence = told(rows)
    assert report["p_value"] < 0.01 and report["worst_pair"] == "d over a" and "Largest misfit: d won " in sentence
    assert "does not fully describe these verdicts" in sentence


def test_judges_agree_as_often_as_counted_one_by_one():
    "Each verdict beside those of the other judges on the same pair in the same wording, never itself."
    rng, sides = np.random.default_rng(3), (("x", "y"), ("y", "x"))
    rows = [
        (f"j{judge}", question, "c", 0, *sides[rng.integers(2)], str(rng.choice(["a", "b", "tie"])))
        for judge in range(4)
        for question in range(12)
        if rng.random() < 0.8
    ]
    said = [(judge, question, {"a": a, "b": b}.get(verdict)) for judge, question, _, _, a, b, verdict in rows]
    others = [(one, other) for one in said for other in said if one[0] != other[0] and one[1] == other[1]]
    for judge in ("", "j0", "j3"):
        pairs = [(one, other) for one, other in others if judge in ("", one[0])]
        row = judges_agree(frame(rows)).set_index("judge").loc[judge]
        assert row["n"] == len(pairs)
        assert row["share"] == pytest.approx(sum(one[2] == other[2] for one, other in pairs) / len(pairs))


def test_so_many_times_as_many_questions_close_an_open_rank():
    "Copies of the questions, as new ones: fewer than the number that is said leave the rank open, more close it."

    def times(n_copies: int) -> float | None:
        rows = [("j", q, "any", 0, "x", "y", "a" if q % 12 < 8 else "b") for q in range(12 * n_copies)]
        pool = comparison_graphs(frame(rows), incomplete="keep")
        return open_ranks(pool, n_flips=4000, rng=stream(1, "copies"))[1].get(("x", "y"))

    first = times(1)
    assert first is not None and 2.2 < first < 3.6 and times(2) is not None and times(4) is None


def test_a_typical_question_is_the_median_over_questions():
    "Two equal models on a question differ by a normal of variance 2 sigma^2; the favoured one wins so often."
    found = diagnose_verdicts(load_verdicts("mt-bench-gpt4"), sections=["question_effect_size"])
    sigma = found.to_dict()["question_effect_size"]["sigma"]["value"]
    gap = np.abs(stream(1, "questions").normal(0, np.sqrt(2) * sigma, 200_001))
    share = 100 * np.median(1 / (1 + np.exp(-gap)))
    assert f"one of two equally good models wins {share:.0f} % of the time" in found.lines()[0]


def test_too_few_questions_decide_nothing_and_the_fewest_are_named():
    "Signs of five questions can all agree by chance once in sixteen times, both ways; of six once in thirty-two."
    for n_questions, said in ((5, True), (6, False)):
        rows = [("j", q, "any", 0, "x", "y", "a" if q < 4 else "b") for q in range(n_questions)]
        sentence = diagnose_verdicts(frame(rows), sections=["ranks"]).lines()[0]
        assert ("decide nothing even if they all agree: 6 are the fewest that can" in sentence) == said, sentence


@pytest.mark.parametrize(("n_questions", "n_wordings"), [(6, 2), (10, 4)])
def test_limits_of_all_spreads_hold_over_other_questions(n_questions, n_wordings):
    "Five models that questions and wordings move, on few questions; the truth is that of very many questions."
    rng, (i, j) = stream(20260324, "wordings"), np.triu_indices(5, 1)

    def draw(n: int) -> Pool:
        moved = np.linspace(0.8, -0.8, 5) + 0.5 * (
            rng.standard_normal((n, 1, 5)) + rng.standard_normal((n, n_wordings, 5))
        )
        won = (rng.random((n, n_wordings, 10)) < 1 / (1 + np.exp(moved[..., j] - moved[..., i]))).reshape(-1, 10)
        graphs = np.zeros((len(won), 5, 5), dtype=bool)
        graphs[:, i, j], graphs[:, j, i] = won, ~won
        return Pool.of(graphs, np.repeat(np.arange(n), n_wordings))

    truth, held = wording_spread(draw(20_000)).set_index("model")["spread"], []
    for _ in range(200):
        table = wording_spread(draw(n_questions)).set_index("model").loc[truth.index]
        assert (table["low"] <= table["spread"]).all() and (table["spread"] <= table["high"]).all()
        held.append(((table["low"] <= truth) & (truth <= table["high"])).all())
    assert np.mean(held) > 0.87, np.mean(held)


def test_no_spread_seen_is_not_a_spread_of_nothing():
    "Six questions, the same in both wordings: seven of ten questions that differ would be missed so once in 1,400."
    rows = [("j", q, "any", v, *pair, "a") for q in range(6) for v in (0, 1) for pair in combinations("abc", 2)]
    table = wording_spread(comparison_graphs(frame(rows)))
    assert (table["spread"] == 0).all() and (table["low"] == 0).all()
    assert np.allclose(table["high"], np.sqrt((1 - (0.05 / 6) ** (1 / 6)) / 2))

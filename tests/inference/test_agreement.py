"""How far judges agree with people: every number by its definition, limits that hold, a gate that says what it did."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from conftest import refused, write
from drawn import frame
from scipy import optimize, stats

from ppe.errors import InputError
from ppe.inference.agreement import agreement_measures, agreement_with_people
from ppe.inference.people_battles import matched_battles

TURNED = {"a": "b", "b": "a", "tie": "tie"}
NAMES = ("agreement", "without_ties", "kappa", "ac1")


def drawn_table(rng: np.random.Generator, who: str, n_questions: int = 12) -> list[tuple]:
    "Verdicts by raters named by letters: some battles missing, some invalid, in either order, in two categories."
    return [
        (name, q, "even" if q % 2 == 0 else "odd", v, *pair[:: rng.choice([-1, 1])], str(rng.choice(words, p=odds)))
        for name in who
        for q in range(n_questions)
        for v in (0, 1)
        for pair in combinations("xyz", 2)
        if rng.random() < 0.6
        for words, odds in [(["a", "b", "tie", "invalid"], [0.3, 0.4, 0.2, 0.1])]
    ]


def said(rows: list[tuple]) -> dict:
    "By question, wording and pair, what each said of the pair in the order of the alphabet."
    table: dict = {}
    for name, q, _, v, first, second, verdict in rows:
        if verdict != "invalid":
            told = verdict if first < second else TURNED[verdict]
            table.setdefault((q, v, *sorted((first, second))), {})[name] = told
    return table


def by_definition(pairs: list[tuple]) -> list[float]:
    "Of pairs of words: the table of both orders, Cohen's and Gwet's formulas on it."
    words = ["a", "tie", "b"] if any("tie" in pair for pair in pairs) else ["a", "b"]
    both = [*pairs, *((TURNED[one], TURNED[other]) for one, other in pairs)]
    square = np.array([[sum(pair == (i, j) for pair in both) for j in words] for i in words]) / len(both)
    share, rows, columns = np.trace(square), square.sum(axis=1), square.sum(axis=0)
    clear = [one == other for one, other in pairs if "tie" not in (one, other)]
    chance, mean = rows @ columns, (rows + columns) / 2
    guess = (mean * (1 - mean)).sum() / (len(words) - 1)
    return [share, np.mean(clear), (share - chance) / (1 - chance), (share - guess) / (1 - guess)]


def jackknife(values: list, everything: float) -> tuple[float, float]:
    n, values = len(values), np.array(values)
    half = stats.t.ppf(0.975, n - 1) * np.sqrt((n - 1) / n * ((values - values.mean()) ** 2).sum())
    return everything - half, everything + half


def measure(shares: np.ndarray, number: int) -> float:
    "Kappa or AC1 of shares of: both tie, the one, the other, the same winner, another."
    words = [("tie", "tie"), ("tie", "a"), ("a", "tie"), ("a", "a"), ("a", "b")]
    square = np.zeros((3, 3))
    at = {word: k for k, word in enumerate(("a", "tie", "b"))}
    for share, (one, other) in zip(shares, words, strict=True):
        square[at[one], at[other]] += share / 2
        square[at[TURNED[one]], at[TURNED[other]]] += share / 2
    square /= square.sum()
    rows, columns = square.sum(axis=1), square.sum(axis=0)
    mean = (rows + columns) / 2
    chance = rows @ columns if number == 2 else (mean * (1 - mean)).sum() / 2
    return (np.trace(square) - chance) / (1 - chance)


def score_limits(pairs: list[tuple], number: int) -> tuple[float, float]:
    "Of (question, word, word): the two values whose own error just reaches the estimate, by bisection."
    kind = [
        0 if (w, v) == ("tie", "tie") else 1 if w == "tie" else 2 if v == "tie" else 3 if w == v else 4
        for _, w, v in pairs
    ]
    counts, n = np.bincount(kind, minlength=5) / len(pairs), len(pairs)
    questions = sorted({q for q, *_ in pairs})
    same = np.array(
        [[sum(w == v for q, w, v in pairs if q == each), sum(q == each for q, *_ in pairs)] for each in questions]
    )
    p, q = same[:, 0].sum() / n, len(questions)
    design = max(1, q / (q - 1) * ((same[:, 0] - p * same[:, 1]) ** 2).sum() / n / (p * (1 - p)))
    t, u = ((n * counts[list(ties)].sum() + 0.5) / (n + 1) for ties in ((0, 1), (0, 2)))
    alone = np.array([t * u, t * (1 - u), (1 - t) * u, (1 - t) * (1 - u) / 2, (1 - t) * (1 - u) / 2])
    apart = alone * [0, 1, 1, 0, 1] / (alone @ [0, 1, 1, 0, 1])
    copies = np.array([(t + u) / 2, 0, 0, 1 - (t + u) / 2, 0])

    def distance(share: float, side: int) -> float:
        pi = (1 - abs(share)) * alone + abs(share) * (copies if share > 0 else apart)
        slope = [(measure(pi + 1e-5 * e, number) - measure(pi - 1e-5 * e, number)) / 2e-5 for e in np.eye(5)]
        error = np.sqrt(design / n * (pi @ np.square(slope) - (pi @ slope) ** 2))
        return measure(pi, number) + side * stats.t.ppf(0.975, q - 1) * error - measure(counts, number)

    def value(share: float) -> float:
        return measure((1 - abs(share)) * alone + abs(share) * (copies if share > 0 else apart), number)

    return tuple(value(optimize.brentq(distance, -0.999, 0.999, args=(side,))) for side in (1, -1))


def test_every_number_is_its_definition():
    rng = np.random.default_rng(5)
    judges, people = drawn_table(rng, "JK"), drawn_table(rng, "pqr")
    board = agreement_with_people(frame(judges), frame(people)).measures.set_index(["judge", "category"])
    machine, crowd = said(judges), said(people)
    for judge, (category, keeps) in ((j, c) for j in "JK" for c in (("", 0), ("even", 2), ("odd", 1))):
        mine = {
            battle: words[judge]
            for battle, words in machine.items()
            if judge in words and battle in crowd and (not keeps or battle[0] % 2 == keeps % 2)
        }
        pairs = [(q, word, other) for (q, *rest), word in mine.items() for other in crowd[q, *rest].values()]
        row, questions = board.loc[judge, category], sorted({q for q, _, _ in pairs})
        values = by_definition([pair[1:] for pair in pairs])
        assert (row["cases"], row["questions"]) == (len(pairs), len(questions))
        assert np.allclose(row[list(NAMES)].astype(float), values)
        without = [by_definition([pair[1:] for pair in pairs if pair[0] != q]) for q in questions]
        for name, all_of, some in list(zip(NAMES, values, np.transpose(without), strict=True))[2:]:
            ends = np.transpose([jackknife(some, all_of), score_limits(pairs, NAMES.index(name))])
            low, high = row[[f"{name}_low", f"{name}_high"]].astype(float)
            assert np.allclose([low, high], [ends[0].min(), ends[1].max()], atol=2e-4)
        beside = [
            (q, ((word == one) + (word == other)) / 2 - (one == other))
            for (q, *rest), word in mine.items()
            for one, other in combinations(crowd[q, *rest].values(), 2)
        ]
        at = {q for q, _ in beside}
        mean = np.mean([hit for _, hit in beside])
        some = [np.mean([hit for each, hit in beside if each != q]) for q in at]
        ends = row[["beyond_people", "beyond_people_low", "beyond_people_high"]].astype(float)
        assert np.allclose(ends, (mean, *jackknife(some, mean)))
    two = [pair for battle, words in crowd.items() if battle in machine for pair in combinations(words.values(), 2)]
    assert board.loc[("two people", ""), "cases"] == len(two)
    assert np.allclose(board.loc[("two people", ""), list(NAMES)].astype(float), by_definition(two))


def test_limits_of_a_share_take_questions_as_trials():
    "Twelve questions, ten verdicts on each, all alike: as Clopper and Pearson for the twelve, at Student's t."
    question, one = np.repeat(np.arange(12), 10), np.ones(120)
    other = np.where(question < 9, 1, -1)
    told = agreement_measures(question, one, other)
    n = 120 * (0.75 * 0.25 / 120) / (12 / 11 * 12 * 0.1875 * 100 / 120**2)  # trials that give that variance
    n *= (stats.t.ppf(0.025, 119) / stats.t.ppf(0.025, 11)) ** 2
    ends = stats.beta.ppf(0.025, 9 / 12 * n, n / 4 + 1), stats.beta.ppf(0.975, 9 / 12 * n + 1, n / 4)
    assert np.allclose([told["agreement_low"], told["agreement_high"]], ends)
    assert told["ac1"] == told["kappa"] == pytest.approx(0.5), "two words: chance is one half by either"


@pytest.mark.parametrize("sign", [1, -1])
def test_kappa_of_all_or_none_is_as_open_as_the_share(sign):
    "Eight questions; Clopper and Pearson's limit of eight trials, turned into kappa by a chance of one half."
    one = np.repeat([1, -1] * 4, 3)
    told = agreement_measures(np.repeat(np.arange(8), 3), one, sign * one)
    open_end = told["kappa_low"] if sign == 1 else -told["kappa_high"]
    n = 8 * (stats.t.ppf(0.025, 23) / stats.t.ppf(0.025, 7)) ** 2
    assert told["kappa"] == sign and open_end == pytest.approx(2 * 0.025 ** (1 / n) - 1)
    assert told["kappa_low"] == told["ac1_low"] and told["kappa_high"] == told["ac1_high"]


def test_limits_hold_over_other_questions():
    "Questions differ in how far they agree and how often all is a tie; the truth is that of very many questions."
    rng = np.random.default_rng(11)

    def draw(n_questions: int) -> tuple:
        question = np.repeat(np.arange(n_questions), 6)
        agrees, ties = rng.beta(3, 2, n_questions)[question], rng.beta(1, 3, n_questions)[question]
        words = [np.where(rng.random(len(question)) < ties, 0, rng.choice([-1, 1], len(question))) for _ in range(2)]
        return question, words[0], np.where(rng.random(len(question)) < agrees, words[0], words[1])

    truth, inside, below = agreement_measures(*draw(200_000)), np.zeros(4), np.zeros(4)
    for _ in range(400):
        told = agreement_measures(*draw(25))
        inside += [told[f"{name}_low"] <= truth[name] <= told[f"{name}_high"] for name in NAMES]
        below += [told[f"{name}_high"] < truth[name] for name in NAMES]
    assert (np.abs(inside / 400 - 0.95) < 0.035).all() and (below / 400 < 0.055).all(), (inside, below)


def three_judges() -> tuple[list[tuple], list[tuple]]:
    "Judges that are right always, in three of four questions, and never; two people who say the same."
    sides = [(name, q, "c", 0, "x", "y") for name in ("good", "fair", "bad") for q in range(40)]
    wrong = {"good": lambda q: False, "fair": lambda q: q % 4 == 0, "bad": lambda q: True}
    judges = [(*row, "b" if wrong[row[0]](row[1]) else "a") for row in sides]
    return judges, [(who, q, "c", 0, "y", "x", "b") for who in ("Ann", "Bo") for q in range(40)]


def test_the_gate_closes_where_the_whole_interval_lies_below(ppe_main, tmp_path):
    judges, people = (write(tmp_path / f"{name}.csv", rows) for name, rows in zip("jp", three_judges(), strict=True))
    call = ("agree", judges, "--people", people)
    told = ppe_main(*call, "--require-agreement", "0.7")
    assert told.code == 4
    verdict = "is shown for good, refuted for bad (the whole interval lies below), not decided for fair (the interval"
    assert f"agreement of at least 0.7, ties counted, {verdict} contains it)" in told.out
    assert ppe_main(*call, "--judge", "fair", "--require-agreement", "0.7").code == 0
    assert ppe_main(*call, "--judge", "fair", "--require-agreement", "0.9").code == 4
    found = json.loads(ppe_main(*call, "--require-agreement", "0.7", "--format", "json").out)
    assert found["below"] == ["bad"] and found["required"] == 0.7
    rows = {row["judge"]: row for row in found["measures"]}
    assert [*rows] == ["bad", "fair", "good", "two people"] and rows["fair"]["agreement"] == 0.75
    assert rows["good"]["beyond_people"] == 0 and rows["two people"]["beyond_people"] is None
    assert ppe_main(*call).code == 0 and "at least" not in ppe_main(*call).out
    assert ppe_main(*call, "--format", "csv").out.startswith("judge,category,cases,questions,")
    assert "good" in agreement_with_people(*map(frame, three_judges()))._repr_html_()
    for words, why in (
        (("--require-agreement", "60"), "--require-agreement 60: give a share above 0 and at most 1, such as 0.6"),
        (("--require-agreement", "0"), "--require-agreement 0: give a share"),
        (("--require-agreement", "nan"), "--require-agreement nan: give a share"),
        (("--require-agreement", "most"), "'most' is not a number"),
        (("--people", judges), "take these verdicts out of the first"),
        (("--judge", "none"), "none"),
    ):
        refused(ppe_main(*call, *words), why)
    refused(ppe_main("agree", judges), "Missing option '--people'")
    refused(ppe_main("agree", "-", "--people", "-"), "standard input can be read once")


def test_what_cannot_be_told_is_said():
    judges, people = three_judges()
    alone = [row for row in people if row[0] == "Ann"]
    board = agreement_with_people(frame(judges), frame(alone))
    assert "two people" not in {*board.measures["judge"]} and board.measures["beyond_people"].isna().all()
    assert "agreement among people is not measurable here: no battle was judged by two" in board.notes()[0]
    absent = [(*row[:1], row[1] + 100, *row[2:]) for row in judges if row[0] == "bad"]
    notes = agreement_with_people(frame([*judges[:80], *absent]), frame(people)).notes()
    assert notes[0] == "bad: no valid verdict on any battle that people judged"
    assert notes[1:] == [
        f"always saying x would agree with people in 100.0 %, {judge} does in {share} %; kappa does not correct for "
        "that"
        for judge, share in (("fair", "75.0"), ("good", "100.0"))
    ]
    single = agreement_with_people(frame([row for row in judges if row[1] == 1]), frame(people), required=0.9)
    assert single.measures["agreement_low"].isna().all() and single.below == []
    assert "not decided for bad, fair, good (" in str(single) and "nan" not in " ".join(single.lines())
    ties = [[(*row[:6], "tie" if row[1] else row[6]) for row in rows] for rows in (judges, people)]
    board = agreement_with_people(*map(frame, ties))
    assert "most verdicts are ties, and chance alone gives 95 % of bad" in board.notes()[0]
    everywhere = agreement_with_people(*(frame([(*row[:6], "tie") for row in rows]) for rows in (judges, people)))
    assert everywhere.measures["kappa"].isna().all() and (everywhere.measures["ac1"] == 1).all()
    assert everywhere.to_dict()["measures"][0]["kappa"] is None and "kappa" not in everywhere.lines()[0]
    json.dumps(everywhere.to_dict(), allow_nan=False)


def test_a_judge_called_as_people_are_is_refused():
    judges, people = three_judges()
    with pytest.raises(InputError, match="a judge is called 'two people'"):
        agreement_with_people(frame([("two people", *row[1:]) for row in judges[:40]]), frame(people))


def test_numbers_of_questions_meet_the_same_numbers_as_text(ppe_main, tmp_path):
    "One question of the people with a name makes all of theirs text."
    judges, people = (write(tmp_path / f"{name}.csv", rows) for name, rows in zip("jp", three_judges(), strict=True))
    named = [*three_judges()[1], *((who, "extra", "c", 0, "x", "y", "a") for who in ("Ann", "Bo"))]
    for command in (("agree", judges), ("diagnose", judges)):
        done = [ppe_main(*command, "--people", of) for of in (people, write(tmp_path / "named.csv", named))]
        more = done[1].out.replace("2 of 82 of people met none", "0 of 80 of people met none")
        assert done[0].code == done[1].code == 0 and done[0].out == more
    extra = [*three_judges()[0], *((judge, "extra", "c", 0, "x", "y", "b") for judge in ("good", "fair", "bad"))]
    battles = matched_battles(frame(named), frame(extra))
    assert len(battles.question) == 41


CASES = Path(__file__).parents[1] / "cases"


def agreed(ppe_main, case: str, *words: str) -> dict:
    "What `ppe agree` says of a case, by judge in JSON, with its notes."
    call = ("agree", CASES / f"{case}_judge.csv", "--people", CASES / f"{case}_people.csv", *words, "--format", "json")
    found = ppe_main(*call).json()
    return {row["judge"]: row for row in found["measures"]} | {"found": found}


def test_agree_orders(ppe_main):
    "Order 1: 90 of 100; order 2: 10 of 100."
    told = agreed(ppe_main, "agree_orders")
    row = told["always-first"]
    assert (row["cases"], row["same"], row["agreement"], row["kappa"]) == (200, 100, 0.5, 0)
    assert told["found"]["matching"]["n_judged_unmet"] == told["found"]["matching"]["n_voted_unmet"] == 0
    assert "variants 1, 2 of the judges are games about the same answers" in told["found"]["matching"]["said"]
    call = ("agree", CASES / "agree_orders_judge.csv", "--people", CASES / "agree_orders_people.csv")
    assert "is refuted for always-first" in ppe_main(*call, "--require-agreement", "0.8").out
    by_number = agreed(ppe_main, "agree_orders", "--match", "wording")
    assert by_number["always-first"]["agreement"] == 0.9 and by_number["found"]["matching"]["n_judged_unmet"] == 100
    assert "100 of 200 verdicts of judges" in by_number["found"]["matching"]["said"]
    told = ppe_main("diagnose", call[1], "--people", call[3], "--format", "json").json()["people"]
    assert told["always-first"]["value"] == 0.5 and told["n_judged_unmet"] == 0
    ranked = ppe_main("rank", call[1], "--people", call[3], "--format", "json").json()
    assert ranked["n_people"] == 100 and ranked["weights"] == {
        "always-first": 0
    }  # its games average to a tie everywhere


def test_agree_two_games(ppe_main, tmp_path):
    "107 votes on the turns of a judge that has two games of each; with agreed games 74.8 % of 107."
    for games, n_cases, agreement in (("both", 214, None), ("agreed", 107, 0.748)):
        files = [tmp_path / f"{games}_{who}.csv" for who in ("judge", "people")]
        assert ppe_main("import", CASES / "agree_two_games_judge.jsonl", "--games", games, "--out", files[0]).code == 0
        assert ppe_main("import", CASES / "agree_two_games_people.jsonl", "--out", files[1]).code == 0
        found = ppe_main("agree", files[0], "--people", files[1], "--format", "json").json()
        (row,) = found["measures"]
        assert (
            row["cases"] == n_cases and found["matching"]["n_voted"] == 107 and found["matching"]["n_voted_unmet"] == 0
        )
        assert agreement is None or round(row["agreement"], 3) == agreement
    # By hand: the mean over votes of the mean over the two games, from the records themselves.
    said = {}
    for line in (CASES / "agree_two_games_judge.jsonl").read_text().splitlines():
        r = json.loads(line)
        said[r["question_id"], r["turn"], frozenset((r["model_1"], r["model_2"]))] = [
            r.get(r[game], "tie") for game in ("g1_winner", "g2_winner")
        ]
    hits = []
    for line in (CASES / "agree_two_games_people.jsonl").read_text().splitlines():
        r = json.loads(line)
        games = said[r["question_id"], r["turn"], frozenset((r["model_a"], r["model_b"]))]
        hits.append(np.mean([game == r.get(r["winner"], "tie") for game in games]))
    both = [tmp_path / f"both_{who}.csv" for who in ("judge", "people")]
    (row,) = ppe_main("agree", both[0], "--people", both[1], "--format", "json").json()["measures"]
    assert row["agreement"] == pytest.approx(np.mean(hits))


def test_kappa_mostly_ties(ppe_main):
    row = agreed(ppe_main, "kappa_mostly_ties")["judge"]
    assert (
        row["kappa"] == pytest.approx(-0.081, abs=1e-3) and row["kappa_low"] < row["kappa"] and row["kappa_high"] > 0.1
    )


def test_ac1_one_tie(ppe_main):
    "Three words for both judges: chance of `two`, which never said tie, is a quarter."
    told = agreed(ppe_main, "ac1_one_tie")
    assert told["two"]["ac1"] == pytest.approx((0.8 - 0.25) / 0.75) and told["three"]["ac1"] == pytest.approx(
        0.73289, abs=1e-5
    )
    alone = agreed(ppe_main, "ac1_one_tie", "--judge", "two")
    assert alone["two"]["ac1"] == pytest.approx(0.6), "a table in which nobody says tie"


def test_kappa_base_rate(ppe_main):
    told = agreed(ppe_main, "kappa_base_rate")
    assert told["brand"]["base_rate"] == pytest.approx(0.9) and told["brand"]["kappa"] == pytest.approx(0.8)
    notes = " ".join(told["found"]["notes"])
    assert "always saying X would agree with people in 90.0 %, brand does in 90.0 %" in notes


def test_the_base_rate_is_of_other_questions():
    "Of two questions that say opposite things of a pair, neither is told by the other; pairs are apart."
    rows = [("j", q, "c", 0, *pair, "a") for q in range(2) for pair in (("x", "y"), ("x", "z"))]
    votes = [
        ("ann", q, "c", 0, *pair, "ab"[q if pair[1] == "y" else 0])
        for q in range(2)
        for pair in (("x", "y"), ("x", "z"))
    ]
    row = agreement_with_people(frame(rows), frame(votes)).measures.iloc[0]
    assert row["base_rate"] == 0.5  # x against z: two of two; x against y: none of two
    alone = agreement_with_people(frame(rows[:2]), frame(votes[:2])).measures.iloc[0]
    assert np.isnan(alone["base_rate"])


def test_the_judges_games_are_averaged_and_a_vote_counts_once():
    "Question 0 has two games, one of them invalid; question 1 has two; votes on them count alike."
    games = [("j", 0, "c", 1, "x", "y", "a"), ("j", 0, "c", 2, "y", "x", "invalid")]
    games += [("j", 1, "c", 1, "x", "y", "a"), ("j", 1, "c", 2, "y", "x", "a")]
    votes = [("human", q, "c", number, "y", "x", "b") for q in range(2) for number in (1, 2, 3)]
    row = agreement_with_people(frame(games), frame(votes)).measures.iloc[0]
    assert row["cases"] == 9 and row["same"] == 6 and row["agreement"] == 0.75


def test_the_order_and_the_number_of_a_verdict_change_nothing():
    "Answers exchanged, games renamed, votes numbered otherwise, rows turned round: the same measures."
    rng = np.random.default_rng(3)
    judges, votes = [], []
    for q in range(12):
        for pair in combinations("xyz", 2):
            order = pair[:: rng.choice([-1, 1])]
            judges += [("j", q, "c", 0, *order, str(rng.choice(["a", "b", "tie"])))]
            judges += [("j", q, "c", 1, *order[::-1], str(rng.choice(["a", "b", "tie", "invalid"])))]
            votes += [("human", q, "c", n, *pair, str(rng.choice(["a", "b", "tie"]))) for n in (1, 2, 3)]
    turn = lambda rows: [(*r[:4], r[5], r[4], TURNED.get(r[6], r[6])) for r in rows][::-1]  # noqa: E731
    renamed = [(*r[:3], f"g{2 - r[3]}", *r[4:]) for r in judges]
    others = [(*r[:3], 10 * r[3], *r[4:]) for r in votes]
    measures = [
        agreement_with_people(frame(j), frame(v)).measures.drop(columns=["judge", "category"]).astype(float)
        for j, v in ((judges, votes), (turn(judges), votes), (judges, turn(votes)), (renamed, others))
    ]
    assert all(np.allclose(each, measures[0], equal_nan=True) for each in measures)


def test_what_variants_mean_is_asked_where_it_is_open(ppe_main, tmp_path):
    "Four variants in two orders: which two are games is open, and the answer decides."
    judges = [("j", q, "c", v, *("xy"[:: 1 - 2 * (v % 2)]), "a") for q in range(20) for v in range(4)]
    people = [("ann", q, "c", 1, "x", "y", "a") for q in range(20)]
    files = [write(tmp_path / f"{name}.csv", rows) for name, rows in (("j", judges), ("p", people))]
    for command in ("agree", "rank"):
        refused(ppe_main(command, files[0], "--people", files[1]), "which two are games about the same answers is open")
    shown = ppe_main("diagnose", files[0], "--people", files[1])
    assert shown.code == 0 and "Agreement with people: not measurable here, variant" in shown.out
    for match, cases, agreement in (("question", 80, 0.5), ("wording", 20, 0)):
        (row,) = ppe_main("agree", *files[:1], "--people", files[1], "--match", match, "--format", "json").json()[
            "measures"
        ]
        assert (row["cases"], row["agreement"]) == (cases, agreement)
    for command in ("rank", "diagnose"):
        refused(ppe_main(command, files[0], "--match", "question"), "name --people, too")
    refused(ppe_main("agree", files[0], "--people", files[1], "--match", "number"), "--match")


GAMES = {"g": "g{g}", "number": "{g}", "turn": "t{t}g{g}", "inspect": "{t}g{g}", "column": "winner_{g}"}


@pytest.mark.parametrize(
    ("games", "vote", "n_turns", "n_games", "n_votes", "n_people"),
    [
        ("g", "{k}", 1, 2, 3, 1),
        ("number", "{k}", 1, 2, 3, 1),
        ("number", "vote {k}", 1, 1, 3, 1),
        ("number", "1", 1, 2, 1, 3),
        ("column", "7", 1, 2, 1, 1),
        ("turn", "{t}", 2, 2, 1, 2),
        ("inspect", "{t}", 3, 2, 1, 1),
    ],
)
def test_games_votes_and_turns_under_any_names(games, vote, n_turns, n_games, n_votes, n_people):
    "Drawn tables whose meaning is known: the mean over votes of the mean over the judge's valid games."
    rng, judged, voted, hits = np.random.default_rng(n_votes * 10 + n_people), [], [], []
    for q, t, pair in (
        (q, t, pair) for q in range(10) for t in range(1, n_turns + 1) for pair in combinations("wxyz", 2)
    ):
        order, valid = pair[:: rng.choice([-1, 1])], []
        for g in range(1, n_games + 1):
            sides, word = order[:: 3 - 2 * g], str(rng.choice(["a", "b", "tie", "invalid"]))
            judged.append(("j", q, "c", GAMES[games].format(t=t, g=g), *sides, word))
            valid += [] if word == "invalid" else [word if sides == pair else TURNED[word]]
        for n, k in ((n, k) for n in range(n_people) for k in range(n_votes) if rng.random() < 0.7):
            word = str(rng.choice(["a", "b", "tie"]))
            voted.append((f"person {n}", q, "c", vote.format(t=t, k=k), *pair, word))
            hits += [np.mean([word == other for other in valid])] if valid else []
    board = agreement_with_people(frame(judged), frame(voted))
    assert board.measures["agreement"][0] == pytest.approx(np.mean(hits))
    assert board.counts["n_voted"] == len(voted) and board.counts["n_voted"] - board.counts["n_voted_unmet"] == len(
        hits
    )

"The verdicts behind the order of two models: against loops over the rows, and against every subset of the questions."

import json
from itertools import combinations

import numpy as np
import pytest
from drawn import drawn_rows, frame
from stages import answer, by_number

import ppe
from ppe.errors import InputError
from ppe.stages.dispatch import Session
from ppe.stages.judging import judge_answers
from ppe.stages.ledger import Ledger
from ppe.stages.limits import Limits

STRENGTH = {"ada": 0.6, "bob": 0.3, "cyd": 0.0}
JUDGES = {"j": (1.0, 0.0), "k": (1.0, 0.3)}


def rows_of(seed: int) -> list[tuple]:
    return drawn_rows(np.random.default_rng(seed), STRENGTH, JUDGES, n_questions=7, ties=0.2, holes=0.1)


def points(rows: list[tuple], model: str, other: str) -> dict:
    "By question: won, lost, tied of a model against another, and pairs of judges that contradict each other."
    said: dict = {}
    for judge, question, _, _, a, b, verdict in rows:
        if {a, b} == {model, other} and verdict != "invalid":
            word = verdict if verdict == "tie" else "won" if (verdict == "a") == (a == model) else "lost"
            said.setdefault(question, []).append((judge, word))
    return said


def order_of(rows: list[tuple]) -> list[str]:
    return ppe.rank(frame(rows), intervals=0).table()["model"].tolist()


@pytest.mark.parametrize("seed", range(6))
def test_pairs_and_questions_are_those_that_loops_count(seed: int):
    rows = rows_of(seed)
    order, pairs = order_of(rows), ppe.show(frame(rows)).to_frame()
    assert {*zip(pairs["ahead"], pairs["behind"], strict=True)} == {*combinations(order, 2)}
    assert pairs["against"].is_monotonic_decreasing
    for pair in pairs.itertuples():
        said = points(rows, pair.ahead, pair.behind)
        words = {question: [word for _, word in each] for question, each in said.items()}
        lost = {q for q, each in words.items() if each.count("lost") > each.count("won")}
        split = {q for q, each in words.items() if {"won", "lost"} <= {*each}}
        flat = sum(words.values(), [])
        assert [pair.questions, pair.against, pair.disputed] == [len(words), len(lost), len(split)]
        assert [pair.won, pair.lost, pair.tie] == [flat.count(word) for word in ("won", "lost", "tie")]
        assert pair.points == flat.count("won") + flat.count("tie") / 2
        shown = ppe.show(frame(rows), models=[pair.behind, pair.ahead])
        tables = {why: table for why, (_, table) in shown.tables.items()}
        assert {*tables["against"]["question_id"]} == lost and {*tables["disputed"]["question_id"]} == split
        assert {*tables["against"]["verdict"]} <= {"lost"} and {*tables["disputed"]["verdict"]} <= {"won", "lost"}
        standing = tables["standing"]
        assert standing.loc[standing["of"] == "all", ["won", "lost", "tie"]].to_numpy().tolist() == [
            [pair.won, pair.lost, pair.tie]
        ]
        for judge in JUDGES:
            row = standing[(standing["of"] == "judge") & (standing["name"] == judge)].iloc[0]
            assert row["won"] == sum((judge, "won") in each for each in said.values())
        places = [("first", "second")[a != pair.ahead] for *_, a, b, _ in rows if {a, b} == {pair.ahead, pair.behind}]
        for place in {*places}:
            row = standing[(standing["of"] == "order") & (standing["name"] == place)].iloc[0]
            assert row[["won", "lost", "tie", "invalid"]].sum() == places.count(place)


def test_the_questions_that_carry_an_order_are_the_fewest_of_all_subsets():
    "Of complete graphs; each smaller subset leaves the two in their order."
    rng = np.random.default_rng(3)
    rows = drawn_rows(rng, STRENGTH, JUDGES, n_questions=6, ties=0.2, holes=0.0)
    order = order_of(rows)
    for ahead, behind in combinations(order, 2):
        sentence, carrying = ppe.show(frame(rows), models=[ahead, behind]).tables["carrying"]
        totals = {q: 0.0 for q in range(6)}
        for _, q, _, _, a, b, verdict in rows:
            for model, won in ((a, verdict == "a"), (b, verdict == "b")):
                totals[q] += ((model == ahead) - (model == behind)) * (won + (verdict == "tie") / 2)
        sizes = [
            size for size in range(1, 6)
            if any(sum(totals.values()) - sum(totals[q] for q in left) < 0 for left in combinations(totals, size))
        ]  # fmt: skip
        assert (f"dropping {sizes[0]} of the 6 questions" in sentence) if sizes else ("no choice" in sentence)
        assert {*carrying["verdict"]} <= {"won"} and carrying["question_id"].nunique() <= (sizes or [0])[0]


def test_a_question_shows_all_its_verdicts_and_answers(tmp_path):
    rows = rows_of(1)
    text = '{{"question_id": 2, "category": "any", "variant": 0, "prompt": "Why?", "model": "{}", "answer": "by {}"}}\n'
    (tmp_path / "answers.jsonl").write_text("".join(text.format(name, name) for name in STRENGTH))
    shown = ppe.show(frame(rows), models="ada,bob", question="2", answers=[tmp_path / "answers.jsonl"])
    verdicts = shown.tables["verdicts"][1]
    there = [row for row in rows if row[1] == 2 and {*row[4:6]} == {"ada", "bob"}]
    assert len(verdicts) == len(there) and {*verdicts["question_id"]} == {2}
    assert "Why?" in str(shown) and "by ada" in str(shown) and "by bob" in str(shown) and "by cyd" not in str(shown)


def test_what_a_judge_said_is_found_in_its_ledger(tmp_path):
    "Both orders of the pair and the request that `ppe ledger show` takes, of this question and these models alone."
    said = [answer(q, m, f"{n} by {m}") for q in (1, 2) for n, m in ((7, "ada"), (5, "bob"), (3, "cyd"))]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        judged = judge_answers(said, session=Session(ledger, by_number(0), Limits()), model="m")
    options = {"models": "bob,cyd", "question": 2, "ledger": str(tmp_path / "ledger.sqlite")}
    shown = ppe.show(judged.verdicts, **options).tables["texts"][1]
    details = judged.details[judged.details["question_id"].eq(2) & judged.details["model_a"].ne("ada")]
    assert {*details[["model_a", "model_b"]].iloc[0]} == {"bob", "cyd"} and len(details) == 1
    assert {*shown["request"]} == {key[:12] for key in details[["key_ab", "key_ba"]].iloc[0]}
    assert {*shown["on"]} == {"bob then cyd", "cyd then bob"} and shown["text"].str.contains("so it is").all()


def test_ten_rows_unless_all_are_asked_for():
    table = ppe.load("mt-bench-gpt4")
    short, whole = (str(ppe.show(table, all=every)) for every in (False, True))
    assert "the first 10 of 15 rows; --all shows them" in short and len(whole.splitlines()) == 4 + 15


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"models": "ada,dee"}, "no model 'dee': the table has ada, bob, cyd"),
        ({"models": "ada"}, "two different models"),
        ({"models": "ada,ada"}, "two different models"),
        ({"models": "ada,bob", "question": 99}, "question '99' has no verdict on these two models; these have: 0, 1"),
        ({"question": 1}, "--models A,B"),
        ({"models": "ada,bob", "ledger": "ledger.sqlite"}, "--question"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(options, said):
    with pytest.raises(InputError, match=said) as error:
        ppe.show(frame(rows_of(0)), **options)
    assert "\n" not in str(error.value)


def test_a_share_of_no_valid_verdict_is_null():
    rows = [(*row[:6], "invalid" if {*row[4:6]} == {"ada", "bob"} else row[6]) for row in rows_of(0)]
    shown = ppe.show(frame(rows), models="ada,bob").to_dict()
    assert shown["standing"]["rows"][0]["share"] is None and json.dumps(shown, allow_nan=False)

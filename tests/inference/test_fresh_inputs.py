"""Fresh inputs of many kinds: frames, people, designs, gates. Right answers by scipy or by counting."""

from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import COLUMNS, write
from scipy.optimize import minimize

import ppe

MODELS = ("x", "y", "z")


def drawn(seed=0, n=15, models=MODELS, judges=("j",), variants=(1,), words=("a", "b", "tie"), swap=True):
    rng, rows = np.random.default_rng(seed), []
    for question in range(n):
        for pair in combinations(models, 2):
            for judge in judges:
                for variant in variants:
                    shown = pair[::-1] if swap and rng.random() < 0.5 else pair
                    rows.append((judge, question, "all", variant, *shown, str(rng.choice(words))))
    return pd.DataFrame(rows, columns=COLUMNS)


def bradley_terry(table):
    "Scores with mean 0; a tie is half a win."
    table = table[table["verdict"] != "invalid"]
    names = sorted({*table["model_a"], *table["model_b"]})
    first, second = (table[side].map(names.index).to_numpy() for side in ("model_a", "model_b"))
    points = table["verdict"].map({"a": 1.0, "b": 0.0, "tie": 0.5}).to_numpy()

    def loss(theta):
        gap = theta[first] - theta[second]
        return (np.logaddexp(0, gap) - points * gap).sum()

    theta = minimize(loss, np.zeros(len(names)), options={"gtol": 1e-7}).x
    return dict(zip(names, theta - theta.mean(), strict=True))


def scores(board):
    frame = board.to_frame()
    return dict(zip(frame["model"], frame["score"], strict=True))


# ---- frames

TABLE = drawn(words=("a", "b", "a", "tie", "invalid"))
UNUSED = {"model_a": pd.Categorical(TABLE["model_a"], [*"abcxyz"]),
          "verdict": pd.Categorical(TABLE["verdict"], ["a", "b", "tie", "invalid", "draw"])}  # fmt: skip
FRAMES = {
    "strings": TABLE.astype(dict.fromkeys(("judge", "model_a", "model_b", "verdict"), "string")),
    "nullable ids": TABLE.astype({"question_id": "Int64", "variant": "Int64"}),
    "ids as float": TABLE.astype({"question_id": float}),
    "unused categories": TABLE.assign(**UNUSED),
    "Arrow": pa.Table.from_pandas(TABLE),
    "Arrow in pandas": TABLE.convert_dtypes(dtype_backend="pyarrow"),
    "Arrow, two dictionaries": pa.concat_tables(
        pa.Table.from_pandas(part.astype({"model_a": "category"}), preserve_index=False)
        for part in (TABLE[:20], TABLE[20:])
    ),
    "an index of two levels": TABLE.set_index(["judge", "question_id"]),
    "labels of rows repeated": TABLE.set_axis([0] * len(TABLE)),
    "ids as number and text": TABLE.assign(question_id=[q if q % 2 else str(q) for q in TABLE["question_id"]]),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_is_ranked_as_scipy_does(name):
    assert scores(ppe.rank(FRAMES[name], intervals=0, incomplete="keep")) == pytest.approx(
        bradley_terry(TABLE), abs=1e-5
    )


BAD_FRAMES = {
    "a missing id": (
        TABLE.assign(question_id=TABLE["question_id"].astype("Int64").mask(TABLE.index == 3)),
        "question_id",
    ),
    "two levels of columns": (pd.concat({"v": TABLE}, axis=1), "column"),
    "a column twice": (pd.concat([TABLE, TABLE[["model_a"]]], axis=1), "model_a"),
    "no row": (TABLE[:0], "row"),
    "no column": (pd.DataFrame(), "column"),
    "one win": (TABLE[:1].assign(verdict="a"), "no maximum"),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_frame_that_says_nothing_is_refused(name):
    frame, words = BAD_FRAMES[name]
    with pytest.raises(ppe.PpeError, match=words):
        ppe.rank(frame, intervals=0, incomplete="keep")


# ---- people

JUDGE = drawn(1, variants=(1, 2), swap=False)
JUDGE.loc[JUDGE["variant"] == 2, ["model_a", "model_b"]] = JUDGE.loc[
    JUDGE["variant"] == 2, ["model_b", "model_a"]
].to_numpy()
PEOPLE = {
    "a vote": {},
    "three votes of a name": {"variants": (1, 2, 3)},
    "two names, three votes each": {"judges": ("p", "q"), "variants": (1, 2, 3)},
    "a vote with another number": {"variants": (7,)},
    "some invalid": {"variants": (1, 2, 3), "words": ("a", "b", "tie", "invalid")},
}


def say_the_same(judge, people):
    "Of all pairs of a judge's and a person's valid verdict on a question and pair: how many, and how many agree."
    votes, both = defaultdict(list), []
    for table, other in ((people, None), (judge, votes)):
        for row in table[table["verdict"] != "invalid"].itertuples():
            winner = {"a": row.model_a, "b": row.model_b}.get(row.verdict, row.verdict)
            key = (int(row.question_id), *sorted((row.model_a, row.model_b)))
            if other is None:
                votes[key].append(winner)
            else:
                both += [vote == winner for vote in votes[key]]
    return len(both), sum(both)


@pytest.mark.parametrize("dtype", [int, float, str])
@pytest.mark.parametrize("name", PEOPLE)
def test_people_meet_a_judge_on_question_and_pair(name, dtype):
    people = drawn(2, **{"judges": ("p",)} | PEOPLE[name]).astype({"question_id": dtype})
    row = ppe.agree(JUDGE, people=people).to_frame().iloc[0].to_dict()
    n, n_same = say_the_same(JUDGE, people)
    assert row["agreement"] == pytest.approx(n_same / n) and n in row.values()


@pytest.mark.parametrize("change, words", [
    ({"question_id": lambda t: t["question_id"] + 100}, "questions and models alike"),
    ({side: lambda t, side=side: t[side] + "-1" for side in ("model_a", "model_b")}, "questions and models alike"),
    ({"verdict": "invalid"}, "valid"),
    ({"judge": "j"}, "judge"),
])  # fmt: skip
def test_people_who_meet_no_judge_are_refused(change, words):
    with pytest.raises(ppe.PpeError, match=words):
        ppe.agree(JUDGE, people=drawn(2, judges=("p",)).assign(**change))


def test_a_judge_of_nothing_but_ties_leaves_peoples_own_scores():
    people = drawn(2, judges=("p",))
    board = ppe.rank(JUDGE.assign(verdict="tie"), people=people, intervals=0)
    assert scores(board) == pytest.approx(bradley_terry(people), abs=1e-4)


# ---- designs

DESIGNS = {  # models, questions, calls, options: differing counts of pairs at most
    "one call": (2, 1, 1, {}, 0),
    "complete": (4, 3, 18, {"kind": "complete"}, 0),
    "spread": (5, 50, 100, {}, 0),
    "each pair once": (30, 200, 435, {}, 0),
    "blocks": (6, 20, 60, {"kind": "blocks", "block_size": 3}, 15),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_is_as_even_as_it_can_be(name):
    n, n_questions, calls, options, uneven = DESIGNS[name]
    frame = ppe.design(
        models=[f"m{k}" for k in range(n)], questions=list(range(n_questions)), calls=calls, **options
    ).to_frame()
    pairs = [tuple(sorted(pair)) for pair in zip(frame["model_a"], frame["model_b"], strict=True)]
    assert len(frame) == calls and len({*zip(frame["question_id"], frame["variant"], pairs, strict=True)}) == calls
    counts = Counter(pairs)
    assert len(counts) == min(calls, n * (n - 1) // 2) and max(counts.values()) - min(counts.values()) <= uneven
    if options.get("block_size"):
        assert all(len({*part["model_a"], *part["model_b"]}) == 3 for _, part in frame.groupby("question_id"))


@pytest.mark.parametrize("models, questions, calls, words", [
    ("ab", [1], 9, "more than there are"),
    ("a", [1], 1, "two models"),
    (["caf\u00e9", "cafe\u0301"], [1], 1, "look the same"),
    ("aba", [1], 1, "once"),
    ("abc", [], 3, "at least one"),
    ("abc", [1], 0, "at least 2 are needed"),
    ("abc", pd.DataFrame({"question_id": [1, np.nan, 3]}), 3, "identifier"),
])  # fmt: skip
def test_a_design_of_nothing_is_refused(models, questions, calls, words):
    with pytest.raises(ppe.PpeError, match=words):
        ppe.design(models=list(models), questions=questions, calls=calls)


def test_next_calls_join_two_islands():
    table = pd.concat([drawn(1, 8, ("a", "b")), drawn(2, 8, ("c", "d"))])
    plan = ppe.next_calls(table, questions=table[["question_id", "variant"]].drop_duplicates(), calls=4).to_frame()
    assert any((a in "ab") != (b in "ab") for a, b in zip(plan["model_a"], plan["model_b"], strict=True))


# ---- gates


def gate(wins, n=40, me="me", ids=None, n_invalid=0):
    "Verdicts on 40 questions, of which a version wins some against one opponent."
    ids = ids or str
    words = ["invalid" if q < n_invalid else "ab"[(q * 7 + 3) % n >= wins] for q in range(n)]
    return [("j", ids(q), "all", 1, me, "o", word) for q, word in enumerate(words)]


GATES = {  # old, new, options, exit code
    "much worse": (gate(30), gate(5), (), 4),
    "better": (gate(5), gate(35), (), 0),
    "within the margin": (gate(25), gate(12), ("--margin", "4"), 0),
    "all invalid": (gate(20), gate(20, n_invalid=40), (), 2),
    "lost 5 %": (gate(20), gate(20, n_invalid=2), (), 0),
    "lost 7.5 %": (gate(20), gate(20, n_invalid=3), (), 5),
    "worse before lost": (gate(36), gate(2, n_invalid=8), (), 4),
    "no common question": (gate(20), gate(20, ids=lambda q: f"q{q}"), (), 2),
    "ids with a decimal": (gate(30), gate(5, ids=lambda q: f"{q}.0"), (), 4),
    "another name": (gate(30, me="me-1"), gate(5, me="me-2"), ("--model", "me-1", "--model", "me-2"), 4),
}


@pytest.mark.parametrize("name", GATES)
def test_a_gate_ends_with_its_code(ppe_main, tmp_path, name):
    old, new, words, code = GATES[name]
    paths = write(tmp_path / "old.csv", old), write(tmp_path / "new.csv", new)
    models = () if "--model" in words else ("--model", "me")
    assert ppe_main("compare", *paths, "--fail-if", "worse", *models, *words).code == code


@pytest.mark.parametrize("level", [0.49, 1.0])
def test_a_level_that_is_none_is_refused(level):
    with pytest.raises(ppe.PpeError, match="0.5"):
        ppe.compare(JUDGE, JUDGE.assign(judge="k"), judges=True, level=level)

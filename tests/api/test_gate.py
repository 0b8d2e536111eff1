"The gate of `ppe compare`: a collapse, copies, and mixes of judges and wordings."

import os
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import refused, write
from oracles import bradley_terry, counts
from scipy import stats

import ppe

CASES = Path(__file__).parents[1] / "cases"
GATE = "--fail-if", "worse"


def rows_of(name: str) -> list[tuple]:
    return [tuple(line.split(",")) for line in (CASES / f"{name}.csv").read_text().splitlines()[1:]]


def with_wins(rows: list[tuple], model: str, n_wins: int) -> list[tuple]:
    "So many of the verdicts of a model, which is always shown first, are wins; the others are lost."
    own = [k for k, row in enumerate(rows) if row[4] == model]
    won = set(np.random.default_rng(n_wins).permutation(own)[:n_wins])
    return [(*row[:6], "ab"[k not in won]) if row[4] == model else row for k, row in enumerate(rows)]


@pytest.mark.parametrize("n_wins", [0, 1, 4])
def test_gate_old_gate_new(ppe_main, tmp_path, n_wins):
    "151 of 300 wins, and then hardly any: worse, with a limit beside the exact one of the new version alone."
    old, new = CASES / "gate_old.csv", CASES / "gate_new.csv"
    if n_wins != 1:
        new = write(tmp_path / "new.csv", with_wins(rows_of("gate_new"), "v2", n_wins))
    run = ppe_main("compare", old, new, *GATE)
    assert run.code == 4 and run.out.startswith("WORSE: v2 would win ") and "(95 % interval 0 to " in run.out
    assert run.err.count("\n") == 1 and "in one order only (9 of 9 that met several times)" in run.err
    found = ppe_main("compare", old, new, "--format", "json").json()
    exact = stats.beta.isf(0.025, n_wins + 1, 300 - n_wins)
    assert found["low"] is None and found["worse"] and (found["difference"] is None) == (n_wins == 0)
    assert found["high"] == pytest.approx(np.log(exact / (1 - exact)), abs=0.15) and found["confidence"] > 0.999
    margin = ppe_main("compare", old, new, *GATE, "--margin", 5)
    assert margin.code == 0 and "NOT SHOWN TO BE WORSE by more than 5 log odds: v2" in margin.out
    back = ppe_main("compare", new, old, *GATE)
    assert back.code == 0 and back.out.startswith("BETTER: v1 would win ") and " to 100; 100 questions" in back.out
    row = ppe_main("compare", old, new, "--format", "csv").out
    assert ",,-" in row and "inf" not in row and "nan" not in row


@pytest.mark.parametrize("place", [0, 1.5, 9])
def test_copies_of_a_deterministic_model_are_no_change(ppe_main, tmp_path, place):
    "Of one that wins all, one in the middle, one that loses all."
    order = {"x": 1, "y": 2, "z": 3, "v1": place}
    rows = [(*row[:6], "ab"[order[row[4]] > order[row[5]]]) for row in rows_of("gate_old")]
    copies = write(tmp_path / "one.csv", rows), write(tmp_path / "two.csv", rows)
    run = ppe_main("compare", *copies, "--model", "v1", *GATE)
    assert run.code == 0 and run.out.startswith("NOT SHOWN TO BE WORSE: v1, new would win 50 % against v1, old")
    assert "copies are no further evidence" in run.err
    found = ppe_main("compare", *copies, "--model", "v1", "--format", "json").json()
    assert (found["difference"], found["power"], found["detectable"], found["worse"]) == (0, None, None, False)


def test_judge_mix(ppe_main, tmp_path):
    "One and the same model; most questions of the old version are judged by j, of the new one by k."
    files = CASES / "judge_mix_old.csv", CASES / "judge_mix_new.csv"
    refused(ppe_main("compare", *files, *GATE), "1 questions on which old and new both", "234 verdicts have no partner")
    old, new = rows_of("judge_mix_old"), rows_of("judge_mix_new")
    common = [("j", f"c{q}", "c", 0, "{}", other, "ab"[q % 2]) for q, other in product(range(20), ("m1", "m2", "m3"))]
    tables = [
        write(tmp_path / f"{name}.csv", rows + [(*row[:4], name, *row[5:]) for row in common])
        for name, rows in (("old", old), ("new", new))
    ]
    run = ppe_main("compare", *tables, *GATE)
    assert run.code == 0 and "would win 50 % against " in run.out and "21 questions" in run.out
    assert "234 verdicts left out: the other version has none by the same judge on the same wording" in run.err


def test_mix_of_wordings(ppe_main, tmp_path):
    "Every verdict on one of two wordings of opposite taste; shares turned around."
    rng, tables = np.random.default_rng(5), []
    for name, share in (("old", 0.1), ("new", 0.9)):
        rows = []
        for q, other in product(range(80), ("m1", "m2", "m3")):
            taste = rng.random() < share
            word = "ab"[taste != (rng.random() < 0.2)]
            rows.append(("j", q, "c", int(taste), name, other, word))
        rows += [("j", q, "c", 0, "m1", "m2", "ab"[rng.random() < 0.5]) for q in range(80)]
        tables.append(write(tmp_path / f"{name}.csv", rows))
    run = ppe_main("compare", *tables, *GATE, "--format", "json")
    found = run.json()
    assert run.code == 0 and abs(found["difference"]) < 1.5 and found["n_unpaired"] > 300
    assert "verdicts left out: the other version has none by the same judge" in run.err


def test_opponents_may_differ_where_judge_and_wording_are_one(ppe_main, tmp_path):
    "Each version meets two of the three opponents on a question, as a spread design has it."
    tables = []
    for name, absent in (("gate_old", "xyz"), ("gate_new", "yzx")):
        rows = [row for row in rows_of(name) if row[4][0] != "v" or row[5] != absent[int(row[1]) % 3]]
        tables.append(write(tmp_path / f"{name}.csv", rows))
    found = ppe_main("compare", *tables, "--format", "json").json()
    assert found["worse"] and found["n_unpaired"] == 0 and found["n_questions"] == 100


# ---- how two versions are given


def versions(
    n: int = 40, models: str = "xy", judges: str = "j", wordings: int = 1, **chances: float
) -> list[list[tuple]]:
    "Verdicts on v1 and on v2 against the models, by a coin for each verdict; two categories by turns."
    rng, both = np.random.default_rng(7), []
    for name in ("v1", "v2"):
        cells = product(judges, range(n), range(wordings), models)
        chance = chances.get(name, 0.5)
        both.append([(j, q, "ab"[q % 2], w, name, m, "ab"[rng.random() > chance]) for j, q, w, m in cells])
    return both


@pytest.fixture
def gate(ppe_main, tmp_path):
    "Runs `ppe compare` on two tables of rows, old and new."

    def run(old, new, *words):
        return ppe_main("compare", write(tmp_path / "old.csv", old), write(tmp_path / "new.csv", new), *words)

    return run


def test_compare_equals_the_oracle_and_takes_two_models_of_one_table(gate, ppe_main, tmp_path):
    old, new = versions(24, "xyz", v2=0.2)
    found = gate(old, new, "--format", "json").json()
    models, wins, ties = counts(old + new)
    theta = dict(zip(models, bradley_terry(wins, ties)[0], strict=True))
    assert found["difference"] == pytest.approx(theta["v2"] - theta["v1"], abs=1e-5) and found["n_questions"] == 24
    one = write(tmp_path / "one.csv", old + new)
    both = ppe_main("compare", one, "--model", "v1", "--model", "v2", "--format", "json").json()
    assert both["difference"] == pytest.approx(found["difference"]) and both["worse"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("old.csv", "unexpected extra argument"),
        ("--level 0.99999", "at most 0.9999"),
        ("--model nobody", "no verdicts of model 'nobody'"),
        ("--judges --model m", "takes no --model"),
        ("--judges", "two judges are compared"),
        ("--margin -1", "--margin"),
        ("--margin nan", "--margin"),
        ("--drop 0", "--drop"),
        ("--fail-if better", "--fail-if"),
        ("--judge j --judge j", "2 times --judge"),
    ],
)
def test_what_cannot_be_compared_is_refused(gate, words, said):
    refused(gate(*versions(8), *words.split()), said)


def test_compare_tells_a_new_judge_from_an_old_one(gate, ppe_main, tmp_path):
    "A judge that says the same of every pair but for each fourth question, where it says the opposite."
    rows, _ = versions(24, "xyz")
    new = [("k", *row[1:6], {"a": "b", "b": "a"}[row[6]] if row[1] % 4 == 0 else row[6]) for row in rows]
    found = gate(rows, new, "--judges", "--format", "json").json()
    assert found["same"]["share"] == 0.75
    words = "compare", write(tmp_path / "both.csv", rows + new), "--judges", "--judge", "j", "--judge", "k"
    assert ppe_main(*words, "--format", "json").json() == found
    text = ppe_main(*words).out
    assert text.startswith("j and k agree on") and "log odds after 24 questions judged by both" in text


# ---- lost by the new version alone

LOST = "v2 has no valid verdict on 50 of the 100 questions on which v1 has one (hard 50 of 50)"


def table(rows: list[tuple]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["judge", "question_id", "category", "variant", "model_a", "model_b", "verdict"])


def invalid(rows: list[tuple], where) -> list[tuple]:
    return [(*row[:6], "invalid") if where(*row[:6]) else row for row in rows]


def without(rows: list[tuple], where) -> list[tuple]:
    return [row for row in rows if not where(*row[:6])]


def test_gate_lost_half(ppe_main):
    "50 of 100 questions lost, as many as the file has without a valid verdict of v2; worse is another matter."
    files = CASES / "gate_lost_half_old.csv", CASES / "gate_lost_half_new.csv"
    run = ppe_main("compare", *files, *GATE)
    assert run.code == 5 and run.out.startswith(
        f"NOT DECIDED whether v2 is worse than v1: {LOST}.\nOn the others v2 would win 57 %"
    )
    assert "If v2 failed there, it is weaker than it looks" in run.err
    assert ppe_main("compare", *files).code == 0  # without a gate it is a sentence
    found = ppe_main("compare", *files, "--format", "json").json()
    assert found["decided"] is False and found["worse"] is False and found["lost"] == [["hard", 50, 50]]
    assert (found["n_lost"], found["n_asked"], found["n_left_out"]) == (50, 100, 50)
    change = ppe.compare(*files)
    losses = change.losses
    assert not change.decided and (losses.n_lost, losses.n_added, losses.n_unasked) == (50, 0, 0)
    back = ppe_main("compare", *reversed(files), *GATE)  # what is new to a version is a note
    assert back.code == 0 and "50 questions left out: v2 has no valid verdict there" in back.err
    assert ppe_main("compare", *files, *GATE, "--category", "easy").code == 0
    refused(ppe_main("compare", *files, *GATE, "--category", "hard"), "every verdict on v2 is invalid")


def lost_of(old: list[tuple], new: list[tuple], **options: object) -> "ppe.inference.change_result.Change":
    return ppe.compare(table(old), table(new), model=["v1", "v2"], **options)


def turned(rows: list[tuple]) -> list[tuple]:
    return [(*row[:4], row[5], row[4], {"a": "b", "b": "a"}.get(row[6], row[6])) for row in rows]


JUDGES, WORDINGS = {"judges": "jk"}, {"wordings": 2}
KINDS = {  # settings, rows of the new table -> n_lost of n_asked, whether it is decided
    "one opponent fails": ({}, lambda new: invalid(new, lambda j, q, c, w, a, b: b == "x"), (0, 40), True),
    "one opponent is missing": ({}, lambda new: without(new, lambda j, q, c, w, a, b: b == "x"), (0, 40), True),
    "a category is missing": ({}, lambda new: without(new, lambda j, q, c, *_: c == "b"), (20, 40), False),
    "one judge fails": (JUDGES, lambda new: invalid(new, lambda j, *_: j == "k"), (0, 40), True),
    "a judge is gone": (JUDGES, lambda new: without(new, lambda j, *_: j == "k"), (0, 40), True),
    "a wording of two fails": (WORDINGS, lambda new: invalid(new, lambda j, q, c, w, *_: w == 1), (40, 80), False),
    "a wording is missing": (WORDINGS, lambda new: without(new, lambda j, q, c, w, *_: w == 1), (0, 80), True),
    "both are missing": (WORDINGS, lambda new: without(new, lambda j, q, *_: q < 9), (18, 80), False),
    "few wordings fail": (WORDINGS, lambda new: invalid(new, lambda j, q, c, w, *_: w and q < 4), (4, 80), True),
    "shown second": ({}, lambda new: turned(invalid(new, lambda j, q, *_: q < 9)), (9, 40), False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_lost_is_counted_by_question_and_wording(kind):
    settings, change, expected, decided = KINDS[kind]
    old, new = versions(**settings)
    found = lost_of(old, change(new))
    lost = found.losses
    assert ((lost.n_lost, lost.n_asked), found.decided) == (expected, decided)
    assert lost.unit == ("wording" if "wordings" in settings else "question")
    assert sum(n for _, n, _ in lost.categories) == lost.n_lost


def test_what_the_new_version_was_not_asked_is_not_lost():
    "Other opponents on other questions; pairs that a design drew for each version anew."
    old, new = versions()
    elsewhere = [(*row[:5], {"x": "z", "y": "u"}[row[5]], row[6]) if row[1] >= 30 else row for row in old]
    found = lost_of(elsewhere, without(new, lambda j, q, *_: q >= 30))
    assert (found.losses.n_lost, found.losses.n_unasked) == (
        0,
        10,
    ) and "10 questions left out: v2 was not judged there" in str(found.notes())
    pairs = [("j", q, "ab"[q % 2], 0, "x", "y", "a") for q in range(40)]
    drawn = without(old, lambda j, q, *_: q % 4 == 0), without(new, lambda j, q, *_: q % 4 == 1)
    found = lost_of(*(rows + pairs for rows in drawn))
    assert (found.losses.n_lost, found.losses.n_asked, found.losses.n_unasked, found.decided) == (0, 30, 10, True)
    found = ppe.compare(table([*drawn[0], *drawn[1], *pairs]), model=["v1", "v2"])
    assert (found.losses.n_lost, found.losses.n_asked, found.losses.n_unasked) == (0, 30, 10)
    found = lost_of(old + pairs, drawn[1] + pairs)  # nothing was drawn for the old one
    assert (found.losses.n_lost, found.losses.n_asked, found.decided) == (10, 40, False)


def test_two_models_of_one_table_and_over_other_facets():
    old, new = versions(judges="jkl")
    rows = table(old + invalid(new, lambda j, q, *_: q >= 30))
    for over in ("questions", "questions,judges"):
        change = ppe.compare(rows, model=["v1", "v2"], over=over)
        assert (change.losses.n_lost, change.losses.n_asked, change.decided) == (10, 40, False)
        assert change.lines()[0].startswith(
            "NOT DECIDED whether v2 is worse than v1: v2 has no valid verdict on 10 of the 40"
        )


def test_the_same_table_twice_is_refused(ppe_main, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(CASES / "gate_old.csv", "old.csv")
    os.mkdir("ci")
    for old, new in (("old.csv", "old.csv"), ("old.csv", "./ci/../old.csv"), (tmp_path / "old.csv", "old.csv")):
        for options in ((), GATE, ("--model", "v1"), ("--judges",)):
            refused(ppe_main("compare", old, new, *options), "old.csv is both the old and the new table")
    frame = table(rows_of("gate_old"))
    for same in (frame, ["old.csv"], tmp_path / "old.csv"):
        with pytest.raises(ppe.PpeError, match="is both the old and the new table"):
            ppe.compare(same, same, model="v1")
    assert ppe.compare(frame, frame.copy(), model="v1").estimate.test.sensitivity.power is None


def test_what_one_judge_alone_could_read_is_said():
    old, new = versions(models="xyz", v1=0.8)
    rows = old + new + [("j", q, "ab"[q % 2], 0, "x", "y", "ab"[q % 3 == 0]) for q in range(40)]
    flipped = [("k", *row[1:6], "ba"[row[6] == "b"] if (row[1] + n) % 7 else row[6]) for n, row in enumerate(rows)]
    lost = invalid(flipped, lambda j, q, *_: q < 10)
    change = ppe.compare(table(rows), table(lost), judges=True)
    said = "70 verdicts of j left out: k has no valid one on the same pair, question and wording."
    assert change.n_alone == (70, 0) and said in change.notes()

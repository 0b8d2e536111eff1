"""Votes that contradict or repeat each other, questions with one name in two categories, one judge of several."""

from pathlib import Path

import pandas as pd
import pytest
from conftest import refused
from layout_records import CASES, alpaca, anchored, arena, fastchat, hard_v1, imported, published, saved

from ppe.importers.verdict_files import import_verdicts


def test_votes_that_contradict_each_other_count_for_nobody(tmp_path: Path):
    "A win and a loss, a win and a tie, a win of the first place both ways round; invalid says nothing."
    votes = [
        arena(1), arena(1, "model_b"),
        arena(2), arena(2, "tie"), arena(2),
        arena(3), arena(3, model_a="y", model_b="x"),
        arena(4, None), arena(4, "model_b"), arena(4, "model_b"),
        arena(5), arena(5, judge="another"), arena(5, "model_b", judge="another"),
        arena(6, None), arena(6, None),
    ]  # fmt: skip
    for drawn in (votes, votes[::-1]):
        report = (table := import_verdicts(saved(tmp_path, *drawn), "chatbot-arena")).attrs["report"]
        left = table.sort_values("question_id")[["question_id", "judge", "verdict"]]
        judge = "arena_user_973"
        assert left.values.tolist() == [[4, judge, "b"], [5, judge, "a"], [6, judge, "invalid"]]
        assert report["left_out"] == {"contradictory vote": 9, "repeated vote": 3}
        (said,) = [line for line in report["remarks"] if "contradict" in line]
        assert all(f"question {question}" in said for question in (1, 2, 3, 5)) and "9 votes" in said


def test_a_record_that_comes_twice_is_remarked_once(tmp_path: Path):
    "A run that was resumed repeats lines; what is said of a record is said of those that count."
    differ, strong = fastchat(g2="model_2"), hard_v1(first="A>>B")
    rounded, both_bad, named = alpaca(1.2), arena(winner="tie (bothbad)"), arena(anony=False)
    for row, said in (
        (differ, "judged differently"), (strong, "strong wins"), (anchored(), "strong wins"),
        (rounded, "nearest whole number"), (both_bad, "both were called bad"), (named, "not anonymous"),
        (published(winner="tie (inconsistent)"), "changed with the order"),
        (fastchat() | {"m1_score": 5}, "two separate scores"),
    ):  # fmt: skip
        one, copy = saved(tmp_path, row, row), saved(tmp_path, row, name="copy.jsonl")
        (line,) = [line for line in import_verdicts([one, copy]).attrs["report"]["remarks"] if said in line]
        assert line.endswith(": 1"), line


def test_ids_within_category(ppe_main, tmp_path: Path):
    case, names = "ids_within_category.jsonl", "model_a=model_a,model_b=model_b,winner=winner,judge=judge"
    words = "a=model_a,b=model_b,question_id=question_id,category=category"
    for options in ((), ("--columns", f"{names},{words}")):
        _, notes, table = imported(ppe_main, tmp_path, case, *options)
        assert len(table) == 60 and table["question_id"].nunique() == 20 and ": 10" in notes
    models = ppe_main("rank", "v.csv", "--format", "json").json()["models"]
    assert {row["model"]: row["score"] for row in models}["x"] == pytest.approx(-0.4206, abs=5e-5)
    done = ppe_main("import", CASES / case, "--out", "w.csv", "--columns", f"{names},a=model_a,b=model_b")
    assert ": 10" in done.err, "columns with the names of a verdict table need not be named"


def test_a_judge_that_is_named_is_chosen(ppe_main, tmp_path: Path):
    rows = [{"x": "m", "y": "n", "won": w, "grader": g, "q": q} for q in range(3) for w, g in (("m", "j"), ("n", "k"))]
    pd.DataFrame(rows).to_csv("g.csv", index=False)
    names = "question_id=q,model_a=x,model_b=y,winner=won,judge=grader"
    counts, notes, table = imported(ppe_main, tmp_path, tmp_path / "g.csv", "--columns", names, "--judge", "k")
    assert {*table["judge"]} == {"k"} and counts["b"] == len(table) == 3
    done = ppe_main("import", "g.csv", "--out", "w.csv", "--columns", names, "--judge", "other")
    refused(done, "2 judged (j, k)", "--judge @other")
    alone = names.removesuffix(",judge=grader")
    done = ppe_main("import", "g.csv", "--out", "w.csv", "--columns", alone, "--judge", "grader")
    refused(done, "--judge grader chooses a judge", "--columns judge=grader")

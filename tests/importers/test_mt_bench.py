"""The published MT-Bench verdicts, turns as wordings or questions, and files that name their judge otherwise."""

from pathlib import Path

import pandas as pd
import pytest
from conftest import refused
from layout_records import CASES, fastchat, imported, saved

from ppe.errors import InputError
from ppe.importers.verdict_files import import_verdicts
from ppe.sources.datasets import load_verdicts
from ppe.verdicts import COLUMNS

RAW = Path(__file__).resolve().parents[3] / "shared" / "raw" / "mtbench"


def test_the_real_set_gives_the_verdicts_of_the_project():
    if not RAW.is_dir():
        pytest.skip("no raw files beside the checkout")
    for file, name, judge in (("gpt4_pair.jsonl", "mt-bench-gpt4", "gpt-4"), ("human.jsonl", "mt-bench-human", None)):
        report = (table := import_verdicts(RAW / file, judge=judge)).attrs["report"]
        expected = load_verdicts(name)
        same = [column for column in COLUMNS if column != "category"]
        pd.testing.assert_frame_equal(table[same].astype(str), expected[same].astype(str))
    assert report["left_out"] == {"repeated vote": 1}


def test_turns_are_wordings_unless_they_are_asked_for_as_questions(tmp_path: Path):
    records = [fastchat(question_id, turn=turn, g2="model_2") for question_id in (81, 82) for turn in (1, 2)]
    path, about = saved(tmp_path, *records), [{"question_id": q, "category": f"c{q}"} for q in (81, 82)]
    asked = saved(tmp_path, *about, name="questions.jsonl")
    together, apart = (import_verdicts(path, turns=turns, questions=asked) for turns in (None, "questions"))
    assert together["question_id"].nunique() == 2 and set(together["variant"]) == {"t1g1", "t1g2", "t2g1", "t2g2"}
    assert apart["question_id"].nunique() == 4 and set(apart["variant"]) == {"g1", "g2"}
    assert set(zip(apart["question_id"], apart["category"], strict=True)) >= {
        ("81 turn 2", "c81"),
        ("82 turn 1", "c82"),
    }
    same = ["judge", "category", "model_a", "model_b", "verdict"]
    pd.testing.assert_frame_equal(together[same], apart[same])
    agreed = import_verdicts(path, turns="questions", games="agreed")
    assert set(agreed["variant"]) == {1} and set(agreed["verdict"]) == {"tie"}
    with pytest.raises(InputError, match="strong does not apply"):
        import_verdicts(path, strong=3)


def test_pair_judge_model(ppe_main, tmp_path: Path):
    case, expected = "pair_judge_model.jsonl", ["a", "b", "b", "b", "tie", "a", "b", "a"]
    by_hand = "model_a=model_1,model_b=model_2,winner=g1_winner,winner_2=g2_winner,a=model_1,b=model_2,tie=tie"
    for options in (
        ("--judge", "gpt-4"), ("--columns", f"{by_hand},question_id=question_id,judge=judge_model"),
        ("--columns", f"{by_hand},question_id=question_id,judge=@gpt-4"),
    ):  # fmt: skip
        _, _, table = imported(ppe_main, tmp_path, case, *options)
        assert table["verdict"].tolist() == expected and {*table["judge"]} == {"gpt-4"}
        assert table["model_a"].tolist() == ["m1", "m2"] * 4
    refused(ppe_main("import", CASES / case, "--out", "w.csv"), "--judge NAME")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / case).write_bytes((CASES / case).read_bytes())
    assert len(imported(ppe_main, tmp_path, tmp_path / "folder", "--judge", "gpt-4")[2]) == 8

"""Logs of other programs' scored answers, written by those programs themselves, become score tables that are ranked."""

import json
from pathlib import Path

import pytest
from conftest import refused

from ppe.importers.score_files import import_scores

LOGS = Path(__file__).resolve().parent / "logs"
CHOSEN = {"helm": "score=exact_match", "lm_eval": "score=exact_match,filter=strict-match"}


@pytest.mark.parametrize("name", ["every_eval_ever", "lm_eval", "inspect", "helm", "promptfoo.json"])
def test_a_log_is_ranked_by_two_commands(ppe_main, tmp_path: Path, name: str) -> None:
    out = tmp_path / "scores.csv"
    options = ["--columns", CHOSEN[name]] if name in CHOSEN else []
    done = ppe_main("import", LOGS / name, "--out", out, *options)
    assert done.code == 0, done.err
    ranked = ppe_main("rank", out, "--format", "csv")
    assert ranked.code == 0 and ranked.out.splitlines()[1].partition(",")[0].endswith("red")
    text = out.read_text()
    assert "capital" not in text and "answer" not in text  # of questions and answers


def test_trap_5_doc_id_is_a_position() -> None:
    "The blue model answered the same documents in another order: joined by doc_id it would be compared on others."
    table = import_scores(LOGS / "lm_eval", columns=CHOSEN["lm_eval"]).to_frame()
    both = table.pivot(index="question_id", columns="model", values="score").astype(float)
    assert sorted(map(tuple, both[["lab__red", "lab__blue"]].to_numpy())) == [(0, 0), (1, 0), (1, 1), (1, 1)]


def test_trap_6_an_error_is_no_0() -> None:
    blue = import_scores(LOGS / "every_eval_ever").to_frame().query("model == 'lab/blue'")["score"]
    assert blue.isna().sum() == 1 and blue.sum() == 2
    notes = import_scores(LOGS / "inspect").remarks
    assert "2 of 16 scores are N" in notes[0] and "count as 0" in notes[0] and "ended in an error" in notes[1]


def test_options_of_verdicts_are_refused_by_name(ppe_main, tmp_path: Path) -> None:
    out = tmp_path / "x.csv"
    refused(ppe_main("import", LOGS / "inspect", "--games", "agreed", "--out", out), "games", "inspect-scores")
    assert not out.exists()


@pytest.mark.parametrize("log", ["inspect/blue.eval", "inspect/red.json", "promptfoo.json"])
@pytest.mark.parametrize("words", [["rank"], ["check"], ["diagnose"], ["cycles"]])
def test_a_log_that_is_no_table_is_told_how_it_becomes_one(ppe_main, log: str, words: list[str]) -> None:
    refused(ppe_main(*words, LOGS / log), "is a log, not a table", f"ppe import {LOGS / log} --out table.csv")


def test_several_logs_and_folders_are_told_the_same(ppe_main) -> None:
    samples = sorted((LOGS / "lm_eval").glob("*/samples_*.jsonl"))
    refused(ppe_main("rank", *samples), f"ppe import {samples[0]} {samples[1]} --out table.csv")
    refused(ppe_main("rank", LOGS / "lm_eval"), f"ppe import {LOGS / 'lm_eval'} --out table.csv")


def test_a_log_that_ended_in_an_error_without_scores_says_so(ppe_main, tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect" / "red.json").read_text())
    log["status"] = "error"
    for sample in log["samples"]:
        sample["scores"] = {}
    (tmp_path / "red.json").write_text(json.dumps(log))
    done = ppe_main("import", tmp_path / "red.json", "--layout", "inspect-scores", "--out", tmp_path / "s.csv")
    refused(done, "red.json ended with status 'error', and no sample has a score")

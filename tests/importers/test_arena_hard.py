"""Files against a baseline that they do not name, and with one game."""

from pathlib import Path

from layout_records import imported


def test_arena_hard_assumed_baseline(ppe_main, tmp_path: Path):
    case = "arena_hard_assumed_baseline.jsonl"
    _, notes, table = imported(ppe_main, tmp_path, case)  # no model's name is invented
    assert {*table["model_a"], *table["model_b"]} == {"baseline", "my-base", "m1", "m2"}
    assert "name no baseline, called 'baseline' here (--baseline NAME names it): 9" in notes
    counts, _, table = imported(ppe_main, tmp_path, case, "--baseline", "my-base")
    assert sum(counts.values()) == 12 and {*table["model_a"], *table["model_b"]} == {"my-base", "m1", "m2"}


def test_arena_hard_one_game(ppe_main, tmp_path: Path):
    counts, notes, table = imported(ppe_main, tmp_path, "arena_hard_one_game.jsonl")
    assert counts["invalid"] == 1 and sum(counts.values()) == 32 and "without a score, which are invalid: 1" in notes
    assert table[table["verdict"] == "invalid"]["question_id"].tolist() == ["q3"]

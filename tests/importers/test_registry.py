"""Each layout is known in every form of a file."""

from pathlib import Path

import pandas as pd
import pytest
from layout_records import alpaca, anchored, battle, fastchat, hard_v1, one_hot, saved

from ppe.importers.registry import LAYOUTS
from ppe.importers.verdict_files import import_verdicts

EXAMPLES = {
    "mt-bench": [fastchat(), fastchat(model_2="z", g2="model_2"), fastchat(82, g1="error")],
    "arena-hard": [hard_v1(), hard_v1("y", None, "A>>B"), hard_v1(question_id=7)],
    "anchor-selection": [anchored(), anchored("y=x", "7_y_x", "y"), anchored("INVALID", "8_x_y")],
    "alpaca-eval": [alpaca(), alpaca(1.7, "y"), alpaca(None, "z")],
    "one-hot": [one_hot(0, 0, 1), one_hot(1, 0, 0), one_hot(0, 1, 0)],
    "chatbot-arena": [battle(), battle("y", "z", "tie"), battle("z", "x", "tie (bothbad)")],
}


@pytest.mark.parametrize("layout", EXAMPLES)
def test_a_layout_is_known_in_every_form_and_its_records_are_accounted_for(tmp_path: Path, layout):
    lacking = {*LAYOUTS} - {*EXAMPLES, "inspect", "lists", "columns"}  # whose records are not objects of a file
    assert not lacking, f"give three records of {lacking} in EXAMPLES of tests/importers/test_registry.py"
    rows = [row | {"question_id": str(row["question_id"])} if "question_id" in row else row for row in EXAMPLES[layout]]
    report = (table := import_verdicts(saved(tmp_path, *rows))).attrs["report"]
    games = 2 if layout in ("mt-bench", "arena-hard") else 1
    assert report["layout"] == layout and report["n_records"] == 3
    assert len(table) + sum(report["left_out"].values()) == 3 * games
    for name in ("e.json", "e.jsonl.gz", "e.parquet"):
        pd.testing.assert_frame_equal(import_verdicts(saved(tmp_path, *rows, name=name), layout), table)

"""A table says whether the order of the answers is known, by who published it."""

from pathlib import Path

import pandas as pd
import pytest
from layout_records import alpaca, anchored, arena, battle, fastchat, hard_v1, one_hot, published, saved

from ppe.importers.verdict_files import import_verdicts
from ppe.verdicts import read_verdicts, write_verdicts


@pytest.mark.parametrize(
    ("records", "options", "lost"),
    [
        ([fastchat()], {}, {"yes"}),
        ([fastchat()], {"games": "agreed"}, {"no"}),
        ([fastchat() | {"m1_score": 7, "m2_score": 5}], {}, {"no"}),
        ([published(), published(question_id=82)], {}, {"no"}),
        ([published(judge="gpt-4", winner="tie (inconsistent)"), published(82, judge="gpt-4")], {}, {"no"}),
        ([published(judge=["gpt-4", "pair-v2"])], {"judge": "gpt-4"}, {"no"}),
        ([published(judge="expert_3")], {}, {"yes"}),
        ([published(judge="expert_3"), published(82)], {}, {"yes", "no"}),
        ([hard_v1()], {}, {"yes"}),
        ([hard_v1()], {"games": "agreed"}, {"no"}),
        ([alpaca()], {}, {"no"}),
        ([arena()], {}, {"yes"}),
        ([one_hot(1, 0, 0)], {}, {"yes"}),
        ([anchored()], {}, {"yes"}),
        ([battle(said="L", again="L")], {"columns": "model_a=model_a,model_b=model_b,winner=said,a=L,b=R"}, {"yes"}),
        (
            [battle(said="L", again="L")],
            {"columns": "model_a=model_a,model_b=model_b,winner=said,winner_2=again,a=L,b=R", "games": "agreed"},
            {"no"},
        ),
    ],
)
def test_a_table_says_whether_its_order_is_known(tmp_path: Path, records, options, lost):
    "By who published it: merged from two games, not in the files, or as the answers were shown."
    table = import_verdicts(saved(tmp_path, *records), **options)
    known = set(table["order_known"]) if "order_known" in table else {"yes"}
    assert known == lost
    again = read_verdicts(write_verdicts(table, tmp_path / "table.csv"))
    assert set(again.get("order_known", pd.Series(["yes"]))) == lost

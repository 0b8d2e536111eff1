"""Verdict files of other projects become tables that `ppe rank` takes, and nothing is written over."""

import re
from pathlib import Path

import pandas as pd
import pytest
from conftest import refused
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_records import battle, fastchat, saved

from ppe.errors import InputError
from ppe.files import is_name
from ppe.importers.verdict_files import import_verdicts
from ppe.verdicts import COLUMNS, read_verdicts, write_verdicts

texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)


@given(texts)
@settings(max_examples=20, deadline=None)
def test_what_import_takes_for_a_name_rank_reads_and_the_rest_is_refused(tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("names")
    rows = [battle(name, "other model", "model_a"), battle("other model", name, "model_a")]
    if is_name(name) and name != "other model":
        table = import_verdicts(saved(folder, *rows))
        for ending in ("csv", "parquet"):
            back = read_verdicts(write_verdicts(table, folder / f"t.{ending}"))
            models = back[["model_a", "model_b"]].astype(str)
            assert models.values.tolist() == [[name, "other model"], ["other model", name]]
    else:
        with pytest.raises(InputError, match="one line"):
            import_verdicts(saved(folder, *rows))


def test_import_then_rank(ppe_main, tmp_path: Path):
    said = ((1, "model_1"), (2, "model_2"))
    saved(tmp_path, *(fastchat(q, a, b, g1, "tie") for q, g1 in said for a, b in ("xy", "yz", "xz")))
    run = ppe_main("import", "some.jsonl", "--out", "verdicts.csv")
    assert (run.code, run.new_files) == (0, ("verdicts.csv",))
    assert "ppe: note: layout mt-bench, by the fields of the first record" in run.err and re.search(
        "records +6\n", run.out
    )
    written = read_verdicts("verdicts.csv")
    pd.testing.assert_frame_equal(written.astype(str), import_verdicts("some.jsonl").astype(str))
    refused(ppe_main("rank", "some.jsonl"), "ppe import")


def test_no_command_writes_over_what_it_reads(ppe_main, tmp_path: Path):
    "Under the same name or a link to it, --force or not; another table is overwritten if forced."
    (tmp_path / "v.csv").write_text(",".join(COLUMNS) + "\nme,1,all,0,x,y,a\nme,2,all,0,x,y,b\n")
    saved(tmp_path, battle(), name="b.csv")
    (tmp_path / "models.csv").write_text("model\nx\ny\n")
    (tmp_path / "q.csv").write_text("question_id,category\n1,math\n")
    (tmp_path / "v-soft.csv").symlink_to("v.csv")
    chosen = ("--questions", "q.csv", "--models", "models.csv", "--calls", 1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for words, inputs in (
        (("counts", "v.csv"), "v"), (("counts", "v.c*"), "v"), (("counts", "v-soft.csv"), "v"),
        (("import", "b.csv"), "b"), (("import", "b.csv", "--questions", "q.csv"), "q"),
        (("next", "v.csv", *chosen), ("v", "models", "q")), (("design", *chosen), ("models", "q")),
    ):  # fmt: skip
        for name in inputs:
            said = " is an input: it would be overwritten; name another file"
            refused(ppe_main(*words, "--out", f"./{name}.csv", "--force"), said)
    refused(ppe_main("import", "b.csv", "--out", "v.csv"), "--force")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert ppe_main("import", "b.csv", "--out", "v.csv", "--force").code == 0
    assert len(read_verdicts(tmp_path / "v.csv")) == 1

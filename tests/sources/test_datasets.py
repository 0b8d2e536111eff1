"""The public verdict sets that come along: their facts agree with their tables and with what is said of them.

That the tables equal the lines of their authors is tested in nbs/raw_verdicts.ipynb, where the raw files are.
"""

import gzip
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ppe.sources import datasets
from ppe.sources.datasets import load_verdicts, verdict_sets
from ppe.verdicts import COLUMNS, ORDER_KNOWN, read_verdicts, validate_verdicts, write_verdicts

ROOT = Path(__file__).resolve().parents[2]
SETS = pytest.mark.parametrize("name", verdict_sets())


@SETS
def test_a_set_is_a_verdict_table_in_normal_form(name: str, tmp_path: Path):
    table = load_verdicts(name)
    mark = (ORDER_KNOWN,) if name == "mt-bench-gpt4" else ()  # its order is lost
    assert tuple(table.columns) == COLUMNS + mark and len(table) == verdict_sets()[name].verdicts
    pd.testing.assert_frame_equal(table, validate_verdicts(table))
    few = table.iloc[:3000]
    read = read_verdicts(write_verdicts(few, tmp_path / "table.csv.gz"))
    assert read.astype(str).equals(few.astype(str))


def test_no_sentence_is_carried():
    "Identifiers are numbers, and every other cell is one of few short names."
    for path in (ROOT / "data" / "verdicts").glob("*.csv.gz"):
        table = pd.read_csv(gzip.open(path), dtype=str)
        assert table["question_id"].str.fullmatch("[0-9]{1,5}").all()
        assert table.drop(columns="question_id").map(len).max(axis=None) <= 42, path.name
        assert table.drop(columns="question_id").nunique().max() <= 65
        assert path.stat().st_size < 1_000_000


def test_scores_are_small_whole_numbers_of_known_systems():
    readme = (ROOT / "data" / "verdicts" / "README.md").read_text(encoding="utf-8")
    tables = {judge: datasets.load_scores(judge) for judge in datasets.SCORES}
    assert f"{sum(table.iloc[:, 3:].size for table in tables.values()):,} scores" in readme
    for judge, table in tables.items():
        assert f"`gemba-{judge}.parquet`" in readme and not table.isna().any(axis=None)
        cells = table[["languages", "segment", "system"]]
        assert (cells == tables["gpt4"][cells.columns]).all(axis=None) and not cells.duplicated().any()
        assert table["system"].nunique() <= 25 and table["system"].astype(str).map(len).max() <= 20
        assert (table.iloc[:, 3:].dtypes == np.int8).all() and table.iloc[:, 3:].min(axis=None) >= 0


def test_accuracies_in_rewordings_are_facts_alone():
    table = datasets.load_rewordings()
    readme = (ROOT / "data" / "verdicts" / "README.md").read_text(encoding="utf-8")
    assert f"{len(table):,} accuracies" in readme and "`rewordings.parquet`" in readme
    assert list(table.columns) == ["task", "rewording", "model", "accuracy", "correct"] and not table.isna().any(
        axis=None
    )
    assert table["accuracy"].between(0, 1).all() and not table.duplicated(["task", "rewording", "model"]).any()
    assert (table.groupby(["task", "rewording"], observed=True)["correct"].nunique() == 1).all()
    assert table[["task", "model"]].astype(str).map(len).max(axis=None) <= 42 and table["task"].nunique() == 20


def test_the_folder_says_where_each_set_is_from():
    readme = (ROOT / "data" / "verdicts" / "README.md").read_text(encoding="utf-8")
    raw = [line.split("  ") for line in (ROOT / "data" / "verdicts" / "raw.sha256").read_text().splitlines()]
    assert len(raw) == len({name for _, name in raw}) == 176
    assert all(len(bytes.fromhex(digest)) == 32 for digest, _ in raw)
    tables = {path.name.removesuffix(".csv.gz") for path in (ROOT / "data" / "verdicts").glob("*.gz")}
    assert tables == {*verdict_sets()}
    for name, known in verdict_sets().items():
        (row,) = (line for line in readme.splitlines() if line.startswith(f"| `{name}` |"))
        repository, commit = known.source.split("@")
        assert repository in row and commit[:7] in row and len(bytes.fromhex(commit)) == 20
        assert known.licence in row and known.citation.rsplit(", ", 1)[1] in row
        left_out = ", ".join(f"{count} ({reason})" for reason, count in known.left_out.items()) or "none"
        assert f"| {known.rows:,} | {left_out} |" in row


def test_the_references_exist():
    voted = datasets.arena_counts().models
    for name, known in verdict_sets().items():
        table = load_verdicts(name)
        models = {*table["model_a"], *table["model_b"]}
        if isinstance(known.reference, str):
            assert verdict_sets()[known.reference].reference == known.reference
            ratings = datasets.human_reference(name)
            assert {*ratings.index} == models and ratings.sum() == pytest.approx(0, abs=1e-9)
        elif known.reference:
            ratings = datasets.human_reference(name)
            assert {*known.reference.values()} <= {*voted} and {*ratings.index} == {*known.reference} < models
            assert ratings.idxmax() == {"h2o-gpt4": "gpt-4-0314", "oa-gpt4": "gpt4"}[name]
        assert not known.reference or np.isfinite(ratings).all()


def test_position_and_model_are_not_confounded():
    table = load_verdicts("vicuna80-gpt4")
    first = (table["model_a"].astype(str) < table["model_b"].astype(str)).groupby(table["variant"]).mean()
    assert set(first.index) == {0, 1} and first.between(0.45, 0.55).all()


def test_the_command_writes_a_set_and_refuses_what_is_none(ppe_main):
    assert ppe_main("data", "write", "vicuna80-gpt4", "--out", "v.parquet").code == 0
    sets = ppe_main("data", "list", "--format", "json").json()
    assert [one["verdicts"] for one in sets if one["name"] == "oa-gpt4"] == [40026]
    for words, message in (
        (("data", "write", "mtbench", "--out", "w.csv"), "unknown verdict set 'mtbench': there are mt-bench-gpt4"),
        (("data", "write", "vicuna80-gpt4", "--out", "v.parquet"), "v.parquet exists"),
        (("data", "write", "vicuna80-gpt4", "--out", "v.xlsx"), "ends in .csv, .csv.gz or .parquet"),
    ):
        run = ppe_main(*words)
        assert run.code == 2 and message in run.err and run.err.count("\n") == 1 and not run.new_files
    assert re.search(r"(?m)^ +1 +gpt4 ", ppe_main("rank", "v.parquet", "--intervals", 0).out)

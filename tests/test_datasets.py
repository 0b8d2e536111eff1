"""Public verdict sets: what holds with and without the files on this machine.

That the tables equal their upstream lines one by one is tested in nbs/paper/datasets.ipynb.
"""

import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ppe import sources
from ppe.errors import InputError, MissingDataError
from ppe.inference.diagnostics import order_flips
from ppe.paper import datasets
from ppe.pool import comparison_graphs
from ppe.verdicts import COLUMNS, read_verdicts, validate_verdicts, write_verdicts

SETS = pytest.mark.parametrize("name", datasets.SETS)


@cache
def here(source: str) -> Path:
    try:
        return sources.locate(source)
    except MissingDataError as missing:
        pytest.skip(str(missing))


def load(name: str) -> pd.DataFrame:
    for source in datasets.SETS[name].needs:
        here(source)
    return datasets.load(name)


# ---- without the files


def test_every_file_is_pinned_once():
    pinned = sources.read_sources()
    small = ["mtbench", "qlora-vicuna80", "prd-vicuna80", "mt-bench-questions"]
    assert list(pinned) == [*small, "h2o-eval", "qlora-oa", "ppr-arena"]
    assert [len(source.files) for source in pinned.values()] == [4, 58, 61, 1, 1, 43, 5]
    hashes = [file.sha256 for source in pinned.values() for file in source.files if file.path != "LICENSE"]
    assert len(set(hashes)) == len(hashes) and all(len(bytes.fromhex(text)) == 32 for text in hashes)
    for source in pinned.values():
        assert len(bytes.fromhex(source.commit)) == 20 and source.commit in source.base_url
        assert all([source.title, source.licence, source.citation, source.repository in source.base_url])


def test_the_registry_names_sources_and_references_that_exist():
    for name, entry in datasets.SETS.items():
        assert name == entry.name and set(entry.needs) <= set(sources.read_sources())
        if isinstance(entry.reference, str):
            assert datasets.SETS[entry.reference].reference == entry.reference
        else:
            votes = datasets.arena_votes()
            assert set(entry.reference.values()) <= set(votes["model_a"]) | set(votes["model_b"])


def test_missing_data_is_one_line_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PPE_DATA_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr(sources, "data_directories", lambda: [tmp_path / "empty"])
    for name in datasets.SETS:
        with pytest.raises(MissingDataError, match=r"public set '.*' .*make data.* PPE_DATA_DIR") as caught:
            datasets.load(name)
        assert "\n" not in str(caught.value)
    assert not sources.available()["present"].any()


def test_the_arena_reference_is_complete():
    table, models = datasets.arena_reference(), datasets.target_models()
    assert table.shape == (160, 9) and not table.isna().any(axis=None)
    assert (table["rating_q025"] < table["rating"]).all() and (table["rating"] < table["rating_q975"]).all()
    mapping = datasets.arena_mapping()
    assert set(mapping["category"]) == set(datasets.MTBENCH_CATEGORIES)
    assert mapping["type"].value_counts().to_dict() == {"Proxy": 5, "Exact": 3}
    for row in mapping.itertuples():
        part = datasets.arena_reference(row.category)
        assert list(part["model"]) == list(models["model"])
        assert list(part["arena_name"]) == list(models["arena_name"])
        assert {row.lm_arena_category.lower()} == set(part["arena_category"].str.lower())
        assert {row.type.lower()} == set(part["mapping"])
    with pytest.raises(InputError, match="unknown category 'Coding': the reference has coding"):
        datasets.arena_reference("Coding")


# ---- with the files


@SETS
def test_a_set_is_a_verdict_table_in_normal_form(name: str, tmp_path: Path):
    table = load(name)
    assert tuple(table.columns) == COLUMNS
    pd.testing.assert_frame_equal(table, validate_verdicts(table))
    pd.testing.assert_frame_equal(table, datasets.load(name))
    read = read_verdicts(write_verdicts(table, tmp_path / "table.csv.gz"))
    assert read.astype(str).equals(table.astype(str))


@pytest.mark.parametrize(
    ("name", "n_rows", "n_graphs", "n_dropped", "n_models"),
    [
        ("mtbench-gpt4", 2400, 160, 0, 6),
        ("vicuna80-gpt4", 4480, 148, 12, 8),
        ("vicuna80-human", 6720, 240, 0, 8),
    ],
)
def test_sizes(name: str, n_rows: int, n_graphs: int, n_dropped: int, n_models: int):
    table = load(name)
    graphs = comparison_graphs(table)
    assert (len(table), len(graphs), graphs.n_dropped, graphs.n_models) == (
        n_rows, n_graphs, n_dropped, n_models,
    )  # fmt: skip
    assert set(table["question_id"]) == set(range(81, 161) if n_models == 6 else range(1, 81))


VOTED = [name for name, one in datasets.SETS.items() if isinstance(one.reference, str)]


@pytest.mark.parametrize("name", VOTED)
def test_the_reference_rates_the_same_models(name: str):
    table = load(name)
    load(datasets.SETS[name].reference)
    ratings = datasets.human_reference(name)
    assert set(ratings.index) == set(table["model_a"]) | set(table["model_b"])
    assert np.isfinite(ratings).all() and ratings.sum() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "n_known", "first"), [("h2o-gpt4", 7, "gpt-4-0314"), ("oa-gpt4", 4, "gpt4")],
)
def test_the_arena_rates_some_of_the_models(name: str, n_known: int, first: str):
    table, ratings = load(name), datasets.human_reference(name)
    assert set(ratings.index) < set(table["model_a"]) | set(table["model_b"]) and len(ratings) == n_known
    assert ratings.idxmax() == first and np.isfinite(ratings).all()


def test_position_and_model_are_not_confounded():
    table = load("vicuna80-gpt4")
    first = (table["model_a"].astype(str) < table["model_b"].astype(str)).groupby(table["variant"]).mean()
    assert set(first.index) == {0, 1}
    assert first.between(0.45, 0.55).all()
    flips = order_flips(table).iloc[0]
    assert flips[["pairs", "both_valid", "changed", "reversed"]].tolist() == [2240, 2227, 860, 456]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"winner":"model_b"}', b'"winner":"model_c"}', r"gpt4_pair\.jsonl: unknown label 'model_c'"),
        (b'"winner":"model_b"}', b'"winner":"model_b",', r"gpt4_pair\.jsonl, line 1 is not JSON"),
    ],
)
def test_an_altered_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: bytes, new: bytes, message: str
):
    shutil.copytree(here("mtbench"), tmp_path / "mtbench")
    monkeypatch.setenv("PPE_DATA_DIR", str(tmp_path))
    file = tmp_path / "mtbench" / "gpt4_pair.jsonl"
    file.chmod(0o644)
    file.write_bytes(file.read_bytes().replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        datasets.mtbench_gpt4()
    monkeypatch.setattr(sources, "data_directories", lambda: [tmp_path])
    with pytest.raises(MissingDataError, match=r"gpt4_pair\.jsonl: another SHA-256"):
        sources.locate("mtbench", verify=True)

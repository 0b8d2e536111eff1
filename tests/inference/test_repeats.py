"""A judge that is asked the same again: each run is a verdict of its question, no question and no wording."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ppe
from ppe.comparisons import Comparisons
from ppe.errors import InputError
from ppe.inference.score_tests import pair_tests, score_tests
from ppe.inference.variance_components import variance_components
from ppe.large_files import stream_counts
from ppe.random_streams import stream
from ppe.rankers.likelihood import Design
from ppe.verdicts import validate_verdicts

CASES = Path(__file__).parents[1] / "cases"


@pytest.fixture
def table() -> pd.DataFrame:
    return pd.read_csv(CASES / "evidence_5_repeats.csv")


def test_evidence_5_repeats_trap_2_runs_are_no_questions(table: pd.DataFrame) -> None:
    "By hand: 8 of 12 points, a gap of ln 2; z is 2 / √7 by question, and would be 4 / √12 of runs."
    scores = ppe.rank(table, intervals=0).to_frame()["score"]
    np.testing.assert_allclose(scores[0] - scores[1], np.log(2), atol=1e-9)
    rows = Comparisons.of(validate_verdicts(table))
    design = Design.of(rows.first, rows.second, rows.models)
    tests = score_tests(design, rows.points, rows.question, n_flips=9, rng=np.random.default_rng(1))
    np.testing.assert_allclose(pair_tests(tests).z, [2 / np.sqrt(7)])


def test_a_judge_agrees_with_itself(table: pd.DataFrame) -> None:
    "By hand: 3 of 3, 3 of 3, 3 of 3 and 1 of 3 pairs of runs."
    found = ppe.diagnose(table)
    np.testing.assert_allclose(found.to_dict()["runs"]["j"]["value"], 10 / 12)
    assert not any("ordings (variants)" in line for line in found.lines())
    copies = pd.concat([table[table["repeat"] == 1].assign(repeat=run) for run in range(5)])
    assert any("copies, or temperature 0" in line for line in ppe.diagnose(copies).lines())


@pytest.mark.parametrize("name", ["epoch", "run", "trial", "train_trial_index", "repeatIndex"])
def test_other_names_are_read_where_rows_stand_twice(table: pd.DataFrame, tmp_path, name: str) -> None:
    expected = validate_verdicts(table)
    renamed = table.rename(columns={"repeat": name})
    renamed.to_csv(tmp_path / "runs.csv", index=False)
    for given in (validate_verdicts(renamed), ppe.read(tmp_path / "runs.csv")):
        pd.testing.assert_frame_equal(given, expected)
    assert "repeat" not in validate_verdicts(renamed[renamed[name] == 1])


def test_without_the_column_it_is_refused_with_both_ways_out(table: pd.DataFrame, tmp_path) -> None:
    path = tmp_path / "twice.csv"
    table.drop(columns="repeat").to_csv(path, index=False)
    for call in (lambda: ppe.rank(path), lambda: stream_counts([path])):
        with pytest.raises(InputError, match=r"asked again\? name the column .*was the row copied\? remove it"):
            call()
    table.to_csv(path, index=False)
    assert stream_counts([path]).counts.n_verdicts == 12


def test_trap_14_the_number_of_a_run_is_never_tested() -> None:
    "Runs are crossed with nothing, whatever a test would say of their numbers."
    rng = np.random.default_rng(3)
    pairs = [("x", "y"), ("x", "z"), ("y", "z")]
    cells = [(j, q, v, r, *pair) for q in range(12) for j in "AB" for v in (1, 2) for r in (1, 2) for pair in pairs]
    table = pd.DataFrame(cells, columns=["judge", "question_id", "variant", "repeat", "model_a", "model_b"])
    table["verdict"] = np.where(table["repeat"] == 1, "a", rng.choice(["a", "b"], len(table)))  # run 1 is another world
    rows = Comparisons.of(validate_verdicts(table.assign(category="all")))
    study = variance_components(rows, rng=stream(1, "runs"), groups=0)
    assert "repeat" in study.nested and "repeat" not in study.tested and study.levels["repeat"] == 2
    assert [name for name in study.to_frame()["component"] if "repeat" in name] == [
        "question × judge × wording × repeat"
    ]

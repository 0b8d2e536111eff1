"""Models that nothing in the data tells apart share a rank, on the command line and in an expected distance."""

import numpy as np
import pytest
from conftest import write
from definitions import definitions

from ppe.rankers.bradley_terry import bradley_terry
from ppe.rankers.davidson import davidson, davidson_batch
from ppe.rankers.distances import mid_ranks, spearman_distance
from ppe.rankers.registry import COUNT_RANKERS


@pytest.mark.parametrize("ranker", COUNT_RANKERS)
def test_all_level_is_half_way_on_the_command_line(tmp_path, ppe_main, ranker):
    verdicts = [(k, pair, word) for k, word in enumerate(["a", "b", "tie"]) for pair in ("zy", "yx", "zx")]
    level = [("j", question, "c", 0, *pair, word) for question, pair, word in verdicts]
    (reference := tmp_path / "reference.csv").write_text("model,rating\nx,3\ny,2\nz,1\n")
    command = "rank", write(tmp_path / "level.csv", level), "--ranker", ranker, "--reference", reference
    report = ppe_main(*command, "--intervals", "0", "--format", "json").json()
    assert [row["rank"] for row in report["models"]] == [2, 2, 2]
    assert report["distances"]["spearman"] == report["distances"]["kendall"] == 0.5


@pytest.mark.parametrize(("last", "ranks"), [("tie", ["1.0", "2.5", "2.5"]), ("a", ["1", "2", "3"])])
def test_ranks_are_shown_as_halves_only_where_a_tie_makes_one(tmp_path, ppe_main, last, ranks):
    rows = [("j", 0, "c", 0, *pair) for pair in (("x", "y", "a"), ("x", "z", "a"), ("y", "z", last))]
    shown = ppe_main("rank", write(tmp_path / "table.csv", rows), "--ranker", "copeland", "--format", "csv").out
    assert [line.split(",")[2] for line in shown.splitlines()[1:]] == ranks


def test_the_parts_of_an_expected_distance_add_up_with_ties():
    rng = np.random.default_rng(3)
    ranks, drawn = mid_ranks(rng.integers(0, 3, (20, 6))), mid_ranks(rng.integers(0, 4, (50, 6)))
    missed, noise = definitions("figures/fig_reference_noise.ipynb").spearman_parts(ranks, drawn)
    means = [spearman_distance(row, drawn).mean() for row in ranks]
    assert np.allclose(missed + noise, means, atol=1e-12)


def test_davidson_without_a_tie_is_bradley_terry():
    "The maximum is at nu = 0, which no number of Newton steps reaches."
    wins = np.array([[0.0, 3, 2], [1, 0, 4], [2, 1, 0]])
    fit = davidson(wins, np.zeros((3, 3)))
    assert fit.fit.nu == 0 and np.allclose(fit.scores, bradley_terry(wins, np.zeros((3, 3))).scores, atol=1e-9)
    assert davidson_batch(wins[None], np.zeros((1, 3, 3))).nu.tolist() == [0]

"""Models that nothing in the data tells apart: every ranker ties them, and names do not matter."""

import numpy as np
import pandas as pd
import pytest
from conftest import COLUMNS

from ppe.paper.studies.references import expected_distance, spearman_parts
from ppe.rankers.rankings import mid_ranks
from ppe.rankers.registry import COUNT_RANKERS


def mirrored(names, seed, n_questions=8):
    "A table that stays the same when models 1 and 2 change places: each question is asked again like that."
    rng, strength, rows = np.random.default_rng(seed), np.array([1, 0.3, 0.3, -0.2, -0.8]), []
    for question in range(n_questions):
        verdicts = {}
        for i in range(5):
            for j in range(i + 1, 5):
                wins = rng.random() < 1 / (1 + np.exp(strength[j] - strength[i]))
                verdicts[i, j] = "tie" if rng.random() < 0.2 else "ab"[not wins]
        for variant, place in enumerate(([0, 1, 2, 3, 4], [0, 2, 1, 3, 4])):
            for (i, j), verdict in verdicts.items():
                rows.append(("j", question, "c", variant, names[place[i]], names[place[j]], verdict))
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.mark.parametrize("names", ["xyz", "zyx"])
@pytest.mark.parametrize("ranker", COUNT_RANKERS)
def test_all_level_is_half_way_on_the_command_line(tmp_path, ppe_main, ranker, names):
    counted = pd.DataFrame(
        [("j", q, "c", 0, a, b, verdict) for q, verdict in enumerate(["a", "b", "tie"])
         for a, b in (names[:2], names[1:], names[::2])],
        columns=COLUMNS,
    )  # fmt: skip
    counted.to_csv(table := tmp_path / "level.csv", index=False)
    (reference := tmp_path / "reference.csv").write_text("model,rating\nx,3\ny,2\nz,1\n")
    command = ["rank", str(table), "--ranker", ranker, "--reference", str(reference), "--format", "json"]
    report = ppe_main(*command).json()
    assert [row["rank"] for row in report["models"]] == [2, 2, 2]
    assert report["distances"]["spearman"] == report["distances"]["kendall"] == 0.5


def test_two_level_models_show_half_a_rank(tmp_path, ppe_main):
    frame = mirrored("abcde", 1)
    frame.to_csv(table := tmp_path / "two.csv", index=False)
    shown = ppe_main("rank", str(table), "--format", "csv").out
    ranks = dict(line.split(",")[::2] for line in shown.splitlines()[1:])
    assert ranks["b"] == ranks["c"] and ranks["b"].endswith(".5")
    frame = frame[frame["variant"] == 0]
    frame.to_csv(table, index=False)
    shown = ppe_main("rank", str(table), "--format", "csv").out
    ranks = sorted(line.split(",")[2] for line in shown.splitlines()[1:])
    assert ranks == list("12345"), "whole numbers without a tie"


def test_the_parts_of_an_expected_distance_add_up_with_ties():
    rng = np.random.default_rng(3)
    ranks, drawn = mid_ranks(rng.integers(0, 3, (20, 6))), mid_ranks(rng.integers(0, 4, (50, 6)))
    missed, noise = spearman_parts(ranks, drawn)
    assert np.allclose(missed + noise, expected_distance(ranks, drawn), atol=1e-12)

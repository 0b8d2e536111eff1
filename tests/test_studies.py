"""What two pages of figures/ say of one thing is one number."""

import csv
from pathlib import Path

FIGURES = Path(__file__).resolve().parents[1] / "figures"


def rows(name):
    with (FIGURES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_noise_of_the_arena_reference_is_the_same_in_table_and_figure():
    table = {row["mt_bench_category"].lower(): row for row in rows("tab_arena_mapping")}
    figure = {row["category"]: row for row in rows("fig_reference_noise_categories")}
    assert len(table) == 8 and set(table) == set(figure)
    for category, row in table.items():
        for column in ("floor", "floor_high"):
            assert abs(float(row[column]) - float(figure[category][column])) < 1e-9, (category, column)

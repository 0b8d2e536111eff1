"""What two pages of figures/, or a page and its data, say of one thing is one number."""

import csv
from pathlib import Path

FIGURES = Path(__file__).resolve().parents[2] / "figures"


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


def test_the_coverage_table_counts_its_methods_and_kinds_of_limits():
    table = rows("tab_coverage")
    kinds = [column for column in table[0] if column.startswith("inside ")]
    assert (len({row["method"] for row in table}), len(kinds)) == (4, 3)
    page = (FIGURES.parent / "nbs/tables/tab_coverage.ipynb").read_text(encoding="utf-8")
    assert "for four methods and three kinds of limits" in page

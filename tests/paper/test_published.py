"""The paper's numbers as files."""

import re

import numpy as np
import pandas as pd
import pytest

from ppe.paper.printed_numbers import CATEGORIES, JUDGES, printed_table

# Rows of the paper's LaTeX, one or more of each table; lines are broken elsewhere.
MAIN = {
    "GPT-5": r"""
Trunc25$\rightarrow$20 & 70 {\tiny$\pm$ 1} & \textbf{49 {\tiny$\pm$ 2}} & 61 {\tiny$\pm$ 1} & \textbf{24 {\tiny$\pm$ 1}}
& 54 {\tiny$\pm$ 1} & 44 {\tiny$\pm$ 1} & 47 {\tiny$\pm$ 1} & \textbf{102 {\tiny$\pm$ 1}} & \textbf{56} \\
""",
    "Prometheus": r"""
NoTrunc boot & 66 {\tiny$\pm$ 2} & 118 {\tiny$\pm$ 10} & 88 {\tiny$\pm$ 2} & 41 {\tiny$\pm$ 2} & 57 {\tiny$\pm$ 2}
& 79 {\tiny$\pm$ 3} & 59 {\tiny$\pm$ 2} & 159 {\tiny$\pm$ 3} & 83 \\

Single$\rightarrow$20 & 83 {\tiny$\pm$ 0} & 111 {\tiny$\pm$ 0} & 86 {\tiny$\pm$ 0} & 49 {\tiny$\pm$ 0}
& 98 {\tiny$\pm$ 0} & 87 {\tiny$\pm$ 0} & 113 {\tiny$\pm$ 0} & \textbf{132 {\tiny$\pm$ 0}} & 95 \\
""",
}
DIAGNOSTIC = r"""
GPT-5 & no truncation & 2 & 2 & 4 & -0.001 \\
Prometheus & global top-$K$ & 0 & 4 & 4 & -0.004 \\
"""
BUDGETS = r"""
GPT-5 & Coding & 28 & Prometheus & Coding & 18 \\
GPT-5 & STEM & 20 & Prometheus & STEM & 28 \\
"""
BENCHMARKS = r"""
Trunc50$\rightarrow$40 & \textbf{82 {\tiny$\pm$ 1}} & \textbf{13 {\tiny$\pm$ 1}} \\
Random50$\rightarrow$40$\times$10 & 92 {\tiny$\pm$ 1} & 24 {\tiny$\pm$ 1} \\
"""


MAIN_TABLE = printed_table("main_baselines")


def cells(tex: str) -> list[list[str]]:
    "The cells of LaTeX rows as plain text, a star for bold."
    plain = tex.replace(r"$\rightarrow$", "→").replace(r"$\times$", "×").replace("$K$", "K")
    plain = re.sub(r"\{\\tiny\$\\pm\$ (\d+)\}", r"± \1", plain)
    plain = re.sub(r"\\textbf\{([^}]*)\}", r"*\1", plain)
    return [[cell.strip() for cell in row.split("&")] for row in plain.split(r"\\") if row.strip()]


# ---- the files


def printed_cells(rows: pd.DataFrame) -> list[str]:
    "Means and half-widths as the paper prints them."
    halves = rows["half_width"].map(lambda half: "" if np.isnan(half) else f" ± {half:.0f}")
    return (rows["bold"].map({True: "*", False: ""}) + rows["mean"].astype(str) + halves).tolist()


@pytest.mark.parametrize("judge", JUDGES)
def test_main_rows_equal_the_latex(judge: str):
    panel = MAIN_TABLE[MAIN_TABLE["judge"] == judge].set_index(["method", "category"])
    for method, *printed in cells(MAIN[judge]):
        assert printed_cells(panel.loc[[(method, c) for c in (*CATEGORIES, "average")]]) == printed


def test_other_rows_equal_the_latex():
    rows = printed_table("bt_diagnostic").astype(str).to_numpy().tolist()
    assert all(row in rows for row in cells(DIAGNOSTIC))
    budgets = printed_table("data_driven_k").set_index(["judge", "category"])["k"]
    for row in cells(BUDGETS):
        for judge, category, k in (row[:3], row[3:]):
            assert budgets[judge, category.lower()] == int(k)
    benchmarks = printed_table("add_benchmark_judge").set_index(["method", "benchmark"])
    for method, *printed in cells(BENCHMARKS):
        assert printed_cells(benchmarks.loc[[(method, "HumanEval"), (method, "MATH")]]) == printed

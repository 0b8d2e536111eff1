"""The paper's numbers as files."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ppe.errors import InputError
from ppe.paper import published
from ppe.paper.published import CATEGORIES, JUDGES

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


MAIN_TABLE = published.main_baselines()


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
    rows = published.bt_diagnostic().astype(str).to_numpy().tolist()
    assert all(row in rows for row in cells(DIAGNOSTIC))
    budgets = published.data_driven_k().set_index(["judge", "category"])["k"]
    for row in cells(BUDGETS):
        for judge, category, k in (row[:3], row[3:]):
            assert budgets[judge, category.lower()] == int(k)
    benchmarks = published.add_benchmark_judge().set_index(["method", "benchmark"])
    for method, *printed in cells(BENCHMARKS):
        assert printed_cells(benchmarks.loc[[(method, "HumanEval"), (method, "MATH")]]) == printed


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("main_baselines", "coding,70,1", "coding,70.5,1", "lines 3: each has a whole mean"),
        ("main_baselines", "average,56,,", "average,56,1,", "lines 11: each"),
        ("main_baselines", "Single→20", "Single", "lacks GPT-5 Single→20 average"),
        ("bt_diagnostic", "0,2,6,-0.007", "0,2,60,-0.007", "no_strong is 60"),
        ("data_driven_k", "coding,28", "coding,", "k is nan"),
        ("add_benchmark_judge", "HumanEval,82", "HumanEval,many", "mean is many"),
        ("stated_values", "0.056,0.056", "0.056,none", "high is none"),
        ("stated_values", "section,", "part,", "has columns part"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, old: str, new: str, message: str):
    text = published.data_file(f"paper/{name}.csv").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / f"{name}.csv").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        getattr(published, name)(tmp_path)
    assert "\n" not in str(caught.value)

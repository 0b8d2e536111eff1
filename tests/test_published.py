"""The paper's numbers as files, and the verdicts on its claims."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ppe.errors import InputError
from ppe.paper import published
from ppe.paper.published import (
    CATEGORIES,
    JUDGES,
    METHODS,
    PublishedTables,
    claims,
    published_tables,
    read_claims,
)

# Rows of the paper's LaTeX, letter by letter, one or more of each table.
MAIN = {
    "GPT-5": r"""
Trunc25$\rightarrow$20
& 70 {\tiny$\pm$ 1}
& \textbf{49 {\tiny$\pm$ 2}}
& 61 {\tiny$\pm$ 1}
& \textbf{24 {\tiny$\pm$ 1}}
& 54 {\tiny$\pm$ 1}
& 44 {\tiny$\pm$ 1}
& 47 {\tiny$\pm$ 1}
& \textbf{102 {\tiny$\pm$ 1}}
& \textbf{56} \\
""",
    "Prometheus": r"""
NoTrunc boot
& 66 {\tiny$\pm$ 2}
& 118 {\tiny$\pm$ 10}
& 88 {\tiny$\pm$ 2}
& 41 {\tiny$\pm$ 2}
& 57 {\tiny$\pm$ 2}
& 79 {\tiny$\pm$ 3}
& 59 {\tiny$\pm$ 2}
& 159 {\tiny$\pm$ 3}
& 83 \\

Single$\rightarrow$20
& 83 {\tiny$\pm$ 0}
& 111 {\tiny$\pm$ 0}
& 86 {\tiny$\pm$ 0}
& 49 {\tiny$\pm$ 0}
& 98 {\tiny$\pm$ 0}
& 87 {\tiny$\pm$ 0}
& 113 {\tiny$\pm$ 0}
& \textbf{132 {\tiny$\pm$ 0}}
& 95 \\
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


@cache
def tables() -> PublishedTables:
    return published_tables()


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
    panel = tables().main[tables().main["judge"] == judge].set_index(["method", "category"])
    for method, *printed in cells(MAIN[judge]):
        assert printed_cells(panel.loc[[(method, c) for c in (*CATEGORIES, "average")]]) == printed


def test_other_rows_equal_the_latex():
    rows = tables().diagnostic.astype(str).to_numpy().tolist()
    assert all(row in rows for row in cells(DIAGNOSTIC))
    budgets = tables().budgets.set_index(["judge", "category"])["k"]
    for row in cells(BUDGETS):
        for judge, category, k in (row[:3], row[3:]):
            assert budgets[judge, category.lower()] == int(k)
    benchmarks = tables().benchmarks.set_index(["method", "benchmark"])
    for method, *printed in cells(BENCHMARKS):
        assert printed_cells(benchmarks.loc[[(method, "HumanEval"), (method, "MATH")]]) == printed


def test_shapes_and_margins():
    shapes = [
        frame.shape for frame in (tables().main, tables().diagnostic, tables().budgets, tables().benchmarks)
    ]
    assert shapes == [(144, 6), (6, 6), (16, 3), (28, 6)]
    for judge in JUDGES:
        panel = tables().distances(judge)
        # A mean of eight rounded numbers and its own rounding can be one unit apart.
        assert ((panel[list(CATEGORIES)].mean(axis=1) - panel["average"]).abs() < 1).all()
    counts = tables().diagnostic[["likely", "possible", "no_strong"]]
    assert (counts.sum(axis=1) == len(CATEGORIES)).all()


def test_a_stated_number_stands_in_its_quotation():
    for row in tables().stated.itertuples():
        numbers = [float(number) for number in re.findall(r"\d*\.?\d+", row.quotation)]
        assert row.low in numbers and row.high in numbers


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("main_baselines", "coding,70,1", "coding,-70,1", "mean is -70"),
        ("main_baselines", "coding,70,1", "coding,70.5,1", "lines 3: each has a whole mean"),
        ("main_baselines", "coding,70,1", "coding,70,", "half_width is nan"),
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


def test_an_absent_file_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="main_baselines.csv is not in"):
        published_tables(tmp_path)


# ---- the claims


def holds(table: pd.DataFrame, words: str) -> str:
    return table.loc[table["claim"].str.contains(words, regex=False), "holds"].item()


def with_main(**changes: int) -> pd.DataFrame:
    "Claims after other means of Trunc25→20 under GPT-5."
    main = tables().main.copy()
    for category, mean in changes.items():
        main.loc[
            (main["judge"] == "GPT-5") & (main["method"] == "Trunc25→20") & (main["category"] == category),
            "mean",
        ] = mean
    return claims(replace(tables(), main=main))


def test_every_claim_is_complete():
    table = claims()
    assert table["claim"].is_unique and (table["found"] != "").all()
    assert table["holds"].isin(["yes", "partly", "no"]).all()
    assert ((table["holds"] == "yes") == (table["n_hold"] == table["n_parts"])).all()
    assert (table["n_parts"] > 0).all()
    # What fails has a margin below zero or, in a tie, at zero.
    assert (table.loc[table["n_hold"] < table["n_parts"], "margin"].dropna() <= 0).all()
    assert (table.loc[table["holds"] == "yes", "margin"].dropna() >= 0).all()


def test_claims_by_an_independent_count():
    main = {
        (row.judge, row.method, row.category): row.mean
        for row in tables().main.drop(columns="bold").itertuples()
    }
    for judge, words, named in (
        ("GPT-5", "five of eight tasks under GPT-5", ["coding", "extraction", "math", "roleplay", "writing"]),
        ("Prometheus", "four of eight under Prometheus", ["coding", "extraction", "math", "roleplay"]),
    ):
        won = [c for c in named if main[judge, "Trunc25→20", c] == min(main[judge, m, c] for m in METHODS)]
        row = claims().set_index("claim").filter(like=words, axis=0).iloc[0]
        assert (row["n_hold"], row["n_parts"]) == (len(won), len(named))
    boot = [main[j, "NoTrunc boot", c] > main[j, "Trunc25→20", c] for j in JUDGES for c in CATEGORIES]
    assert (sum(boot[:8]), sum(boot[8:])) == (5, 5) and holds(
        claims(), "NoTrunc boot on five of eight"
    ) == "yes"


@pytest.mark.parametrize(
    ("words", "changes", "before", "after"),
    [
        ("five of eight tasks under GPT-5", {"coding": 64, "roleplay": 42}, "partly", "yes"),
        ("Boldface marks", {"coding": 64}, "yes", "partly"),
        ("lowest macro-average under both", {"average": 66}, "yes", "partly"),
        ("Avg. is the macro-average", {"average": 58}, "yes", "partly"),
        ("Sample25→20 is worse", {"writing": 168}, "yes", "partly"),
        ("more than twice", {"average": 61}, "yes", "partly"),
        ("on five of eight tasks for each judge", {"stem": 45}, "yes", "partly"),
        ("especially large", {"roleplay": 53}, "yes", "partly"),
        ("second-best", {"average": 69}, "yes", "partly"),
        ("Perturbation drops to about", {"average": 71}, "yes", "partly"),
    ],
)
def test_a_verdict_follows_the_table(words: str, changes: dict[str, int], before: str, after: str):
    assert holds(claims(), words) == before
    assert holds(with_main(**changes), words) == after


def test_verdicts_on_the_other_tables_follow_them():
    diagnostic = tables().diagnostic.copy()
    diagnostic.loc[
        diagnostic.eval("judge == 'Prometheus' and selection == 'global top-K'"), ["possible", "no_strong"]
    ] = 2, 6
    table = claims(replace(tables(), diagnostic=diagnostic))
    assert (
        holds(claims(), "misspecification warnings") == "partly"
        and holds(table, "misspecification warnings") == "yes"
    )
    assert (
        holds(claims(), "most tasks with no strong") == "yes"
        and holds(table, "most tasks with no strong") == "partly"
    )
    budgets = tables().budgets.assign(k=25)
    table = claims(replace(tables(), budgets=budgets))
    assert holds(table, "often smaller") == "no" and holds(table, "default choice K = 25") == "yes"
    benchmarks = tables().benchmarks.assign(mean=100 - tables().benchmarks["mean"])
    assert holds(claims(replace(tables(), benchmarks=benchmarks)), "lowest distance on HumanEval") == "no"


def test_a_tie_in_print_is_reported_as_open():
    table = claims().set_index("claim")
    assert table.filter(like="four of eight under Prometheus", axis=0)["rounding"].item() == "Math"
    tied = with_main(humanities=44).set_index("claim")  # as NoTrunc boot: five stays five, and could be six
    row = tied.filter(like="on five of eight tasks for each judge", axis=0).iloc[0]
    assert row["holds"] == "yes" and "GPT-5 Humanities" in row["rounding"]


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(5)
    frames = {
        name: (frame := getattr(tables(), name)).iloc[rng.permutation(len(frame))]
        for name in ("main", "diagnostic", "budgets", "benchmarks", "stated")
    }
    columns = ["claim", "holds", "n_hold", "n_parts", "margin"]
    pd.testing.assert_frame_equal(claims(replace(tables(), **frames))[columns], claims()[columns])


# ---- the file of the claims

CLAIM = """
[[claims]]
id = "one"
section = "4.2"
table = "main_baselines"
text = "A sentence"
columns = ["Coding"]
checks = [{ kind = "lowest", row = "Trunc25→20" }]
each = "{panel} {first.words}"
"""


def test_a_claim_is_read_with_its_checks(tmp_path: Path):
    (tmp_path / "claims.toml").write_text(CLAIM, encoding="utf-8")
    (claim,) = read_claims(tmp_path / "claims.toml")
    parts, found = published.decide(claim, tables(), published.views(tables()))
    assert [part.label for part in parts] == list(JUDGES) and parts[0].margin == -5
    assert found.startswith("GPT-5 70 after BlockTop1 65; ") and claim.unit == "0.001" and claim.reading == ""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lowest", "cheapest", "claim 'one': check of kind 'cheapest': known are below, lowest"),
        ("row =", "rows =", "claim 'one': missing a required argument: 'row'"),
        ("Trunc25→20\"", "Trunc25→20\", twice = 2", "got an unexpected keyword argument 'twice'"),
        ("each =", "every =", "unexpected keyword argument 'every'"),
        ("checks =", "# checks =", "claim 'one': 'checks'"),
        ("[[claims]]", "[[claims]", "claims.toml: "),
        (CLAIM, CLAIM * 2, "claim 'one': its id stands twice"),
    ],
)
def test_a_misspelt_claim_is_refused(tmp_path: Path, old: str, new: str, message: str):
    assert old in CLAIM
    (tmp_path / "claims.toml").write_text(CLAIM.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_claims(tmp_path / "claims.toml")
    assert "\n" not in str(caught.value)


def test_a_claim_on_what_no_table_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "claims.toml").write_text(CLAIM.replace("Trunc25→20", "Trunc26→20"), encoding="utf-8")
    listed = read_claims(tmp_path / "claims.toml")
    monkeypatch.setattr(published, "read_claims", lambda: listed)
    with pytest.raises(InputError, match="claim 'one': the tables have no .*Trunc26→20"):
        claims(tables())

"""What a result rests on is said, and what it does not rest on: groups that never met, one question, rounding."""

import html
import re
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from conftest import refused, write

CASES = Path(__file__).parents[1] / "cases"


# ---- orders that rest on a penalty alone


@pytest.mark.parametrize("words", [(), ("--intervals", "100"), ("--order-effect",), ("--ranker", "davidson")])
def test_ridge_two_islands(ppe_main, words):
    path = CASES / "ridge_two_islands.csv"
    named = ("first place with judge J",) if "--order-effect" in words else ("A", "B", "C", "D")
    refused(ppe_main("rank", path, *words), *named)
    if "--order-effect" in words:  # no penalty tells the place from strength
        return
    done = ppe_main("rank", path, "--on-separation", "ridge", *words)
    assert done.code == 0 and "with penalty" in done.out
    notes = [line for line in done.err.splitlines() if "never met" in line]
    assert notes == ["ppe: note: C, D never met A, B: orders across the groups come from the penalty alone"]
    assert ppe_main("report", path, "--out", "r.html", "--intervals", "100").code == 0
    assert "C, D never met A, B: orders across the groups" in Path("r.html").read_text(encoding="utf-8")


def test_counts_of_two_islands(ppe_main):
    assert ppe_main("counts", CASES / "ridge_two_islands.csv", "--out", "c.csv").code == 0
    assert "C, D never met A, B" in ppe_main("rank", "c.csv", "--on-separation", "ridge").err


def test_models_that_never_lost_are_named_beside_the_scores_of_a_penalty(ppe_main, tmp_path):
    rows = [("j", q, "c", 0, *pair, "ab"[q % 2] if "t" not in pair else "a") for q in range(6) for pair in ("tx", "xy")]
    done = ppe_main("rank", write(tmp_path / "v.csv", rows), "--on-separation", "ridge")
    assert "x, y never beat or tied t: how far apart they are comes from the penalty alone" in done.err
    whole = [(*row[:6], "ab"[row[1] % 2]) for row in rows]
    done = ppe_main("rank", write(tmp_path / "w.csv", whole), "--on-separation", "ridge", "--intervals", 0)
    assert "penalty" not in done.err


# ---- the comparison page and `ppe compare`


def versions(rng, rates):
    "Verdicts on a version of a model against three opponents, and of these among each other."
    rows = []
    for question in range(60):
        for a, b in combinations(["new" if "new" in rates else "old", "x", "y", "z"], 2):
            rows.append(("j", question, "c", 0, a, b, "ab"[int(rng.random() > rates.get(a, 0.5))]))
    return rows


def test_the_comparison_page_begins_with_the_sentence_of_compare(ppe_main, tmp_path):
    rng = np.random.default_rng(1)
    old, new = (
        write(tmp_path / f"{name}.csv", versions(rng, {name: rate})) for name, rate in (("old", 0.6), ("new", 0.3))
    )
    gate = ppe_main("compare", old, new, "--fail-if", "worse")
    assert gate.code == 4
    assert ppe_main("report", old, new, "--out", "r.html", "--intervals", "100").code == 0
    page = html.unescape((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert all(line in page.replace("−", "-") for line in gate.out.replace("−", "-").splitlines())


def test_the_comparison_page_says_why_compare_says_nothing(ppe_main, tmp_path):
    rows = versions(np.random.default_rng(2), {"old": 0.6})
    old, again = write(tmp_path / "old.csv", rows), write(tmp_path / "again.csv", rows)
    reason = ppe_main("compare", old, again)
    refused(reason, "--model NAME", "old, x, y, z")
    assert "models=" not in reason.err and "--model OLD" not in reason.err
    assert ppe_main("report", old, again, "--out", "r.html", "--intervals", "100").code == 0
    page = html.unescape((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "which model changed?" in page and "--model NAME" in page


@pytest.mark.parametrize("option", ["--margin", "--drop"])
@pytest.mark.parametrize("value", ["1e308", "1e4", "101"])
def test_a_margin_beyond_all_log_odds_is_refused(ppe_main, tmp_path, option, value):
    path = write(tmp_path / "old.csv", versions(np.random.default_rng(3), {"old": 0.6}))
    words = "compare", path, "--model", "x", "--model", "y", option
    refused(ppe_main(*words, value), option.removeprefix("--"), "100")
    assert ppe_main(*words, "100").code == 0


# ---- numbers as they are printed


def test_a_score_that_is_rounding_prints_as_zero(ppe_main, tmp_path):
    "Between a better and a worse one, the middle is zero but for the last bits."
    rows = []
    for question, (a, b, said) in enumerate(
        [("x", "y", "a")] * 3 + [("x", "y", "b")] + [("y", "z", "a")] * 3 + [("y", "z", "b")]
    ):
        rows.append(("j", question, "c", 0, a, b, said))
    path = write(tmp_path / "v.csv", rows)
    for ranker in ("bradley-terry", "davidson", "rank-centrality", "hodgerank", "copeland"):
        done = ppe_main("rank", path, "--ranker", ranker)
        assert not re.search(r"e-1\d", done.out), done.out
        shown = [
            row["score"] for row in ppe_main("rank", path, "--ranker", ranker, "--format", "json").json()["models"]
        ]
        largest = max(map(abs, shown))
        assert all(score == 0 or abs(score) > 1e-12 * largest for score in shown)


# ---- one question


def test_diagnose_on_many_models_and_one_question_answers_soon(ppe_main, tmp_path):
    rng = np.random.default_rng(4)
    rows = [
        ("j", 1, "c", 0, f"m{i:03d}", f"m{k:03d}", rng.choice(["a", "b", "tie"]))
        for i, k in combinations(range(200), 2)
    ]
    path, start = write(tmp_path / "v.csv", rows), time.process_time()
    done = ppe_main("diagnose", path)
    assert done.code == 0 and time.process_time() - start < 60, "mostly compiling, where nothing is cached"
    assert "19,900 valid verdicts by 1 judge (j) on 1 question and 200 models" in done.out
    assert "one question: which model it favours cannot be separated from strength" in done.out


def test_models_too_many_for_question_effects_are_said_in_one_line(ppe_main, tmp_path, monkeypatch):
    monkeypatch.setattr("ppe.inference.findings.MOST_WORK", 2 * 4.0**4 - 1)
    rows = versions(np.random.default_rng(5), {"old": 0.6})[:12]
    text = ppe_main("diagnose", write(tmp_path / "v.csv", rows)).out
    assert "up to 4 models on a question: the fit would take minutes to hours" in text

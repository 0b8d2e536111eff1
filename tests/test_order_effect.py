"""The effect of the first place on the command line and in the library, beside fits to rows told apart here."""

import numpy as np
import pytest
from conftest import write
from drawn import comparisons, drawn_rows, frame, refused
from scipy.special import expit

from ppe.errors import InputError
from ppe.inference.diagnostics import first_place_rates
from ppe.rankers.order_effect import ORDER_FORMS, order_effect
from ppe.rankers.registry import RANKERS

STRENGTH = {"a": 0.9, "b": 0.3, "c": 0.0, "d": -0.5, "e": -0.7}
EFFECT = {"one": 1.0, "two": -0.6}


def table(seed, *, n_questions=14, judges=("one", "two"), **options):
    judges = {judge: (1.0, EFFECT[judge]) for judge in judges}
    return drawn_rows(seed, STRENGTH, judges, n_questions=n_questions, **options)


def scores_of(report):
    return {row["model"]: row["score"] for row in report["models"]}


def assert_fits(report, rows):
    "The report is that of the fit to these rows."
    fitted = order_effect(comparisons(rows))
    assert scores_of(report) == pytest.approx(dict(zip(fitted.models, fitted.scores, strict=True)), abs=1e-8)
    for name in ("first_place", "first_place_se"):
        assert report["fit"][name] == pytest.approx(fitted.fit.estimates[name], abs=1e-8)
    assert report["fit"]["log_likelihood"] == pytest.approx(fitted.fit.log_likelihood, abs=1e-8)
    for judge, effect in report["fit"]["first_place"].items():
        assert report["fit"]["equal_first_wins"][judge] == pytest.approx(expit(effect), abs=1e-8)


def test_the_command_fits_what_it_was_told_to(ppe_main, tmp_path):
    rows = table(2, holes=0.08)
    words = "rank", write(tmp_path / "t.csv", rows), "--order-effect", "--format", "json"
    dropped, kept = ppe_main(*words, "--incomplete", "drop"), ppe_main(*words)
    bad = {row[:2] for row in rows if row[6] == "invalid"}
    assert 3 < len(bad) < 25
    assert_fits(dropped.json(), [row for row in rows if row[:2] not in bad])
    assert_fits(kept.json(), rows)
    assert_fits(ppe_main(*words, "--judge", "two").json(), [r for r in rows if r[0] == "two"])
    assert f"{len(bad)} graphs that lack a pair or hold an invalid verdict left out" in dropped.err
    assert "left out" not in kept.err


@pytest.mark.parametrize(
    ("ranker", "words"),
    [("bradley-terry", ()), ("davidson", ("--select", "block", "--keep", 1)),
     ("bradley-terry", ("--select", "global", "--keep", 20))],
)  # fmt: skip
def test_selection_intervals_and_formats(ppe_main, tmp_path, ranker, words):
    rows = [(*row[:3], variant, *row[4:]) for variant in range(2) for row in table(4 + variant, n_questions=12)]
    common = ["rank", write(tmp_path / "t.csv", rows), "--ranker", ranker, "--order-effect", *words]
    report = ppe_main(*common, "--format", "json").json()
    keys = {tuple(kept[name] for name in ("judge", "question_id", "variant")) for kept in report["kept"]}
    if ranker == "bradley-terry":
        assert_fits(report, [row for row in rows if (row[0], row[1], row[3]) in keys])
    else:
        assert report["fit"]["nu"] > 0
    widths = []
    for kind in ("single", "simultaneous"):
        limits = ppe_main(*common, "--intervals", 60, "--interval-kind", kind, "--format", "json").json()
        assert scores_of(limits) == pytest.approx(scores_of(report), abs=1e-9)
        for row in limits["models"]:
            assert row["rank_low"] <= row["rank"] <= row["rank_high"]
            assert row["score_low"] < row["score"] < row["score_high"]
        widths.append(sum(row["score_high"] - row["score_low"] for row in limits["models"]))
    assert widths[0] < widths[1] or words  # a selection has percentiles alone
    lines = ppe_main(*common).out.splitlines()
    for judge, effect in report["fit"]["first_place"].items():
        line = next(line for line in lines if line.startswith(f"first place with judge {judge}"))
        assert f"{effect:+.4f} ± {report['fit']['first_place_se_questions'][judge]:.4f}" in line
        assert f"{100 * report['fit']['equal_first_wins'][judge]:.1f} %" in line
    assert ppe_main(*common, "--format", "csv").out.splitlines()[0].startswith("model,score,rank,score_low")


def test_one_order_only_is_noted_and_told_from_nothing_when_it_fits_a_line(ppe_main, tmp_path):
    done = ppe_main("rank", write(tmp_path / "t.csv", table(7, fixed=True)), "--order-effect")
    assert done.code == 0 and "in one order only" in done.err
    # x always before y and z, y before z, and everyone wins sometimes: a line and a place explain the same.
    pairs = enumerate([("x", "y"), ("y", "z")])
    rows = [("me", q, "any", 0, x, y, "ab"[(q + k) % 2]) for k, (x, y) in pairs for q in range(4)]
    words = "rank", write(tmp_path / "line.csv", rows), "--order-effect", "--incomplete", "keep"
    refused(ppe_main(*words), "cannot be told from strength", "judge me", "both orders")
    ridge = ppe_main(*words, "--on-separation", "ridge", "--format", "json").json()
    assert ridge["fit"]["ridge"] > 0 and ridge["fit"]["first_place_se"] == {"me": None}
    assert "penalty" in ppe_main(*words, "--on-separation", "ridge").out


def test_what_has_no_such_estimate_is_refused(ppe_main, tmp_path):
    path = write(tmp_path / "t.csv", rows := [(*row[:6], "a") for row in table(8, judges=("one",))])
    words = "first place with judge one → +∞ contradicts no verdict", "--on-separation ridge"
    refused(ppe_main("rank", path, "--order-effect"), *words)
    assert ppe_main("rank", path).code == 0
    mixed = write(tmp_path / "mixed.csv", rows + table(9, judges=("two",)))
    refused(ppe_main("rank", mixed, "--order-effect"), "judge one")
    for ranker in sorted(set(RANKERS) - set(ORDER_FORMS)):
        refused(ppe_main("rank", path, "--order-effect", "--ranker", ranker), ranker, *ORDER_FORMS)


@pytest.mark.parametrize("ranker", ORDER_FORMS)
def test_standard_errors_over_questions_are_those_of_left_out_questions(ranker):
    "Beside the jackknife over questions, refitted here."
    rows = table(14, n_questions=30)

    def estimates(without=None):
        return order_effect(comparisons([r for r in rows if r[1] != without]), ranker=ranker).fit.estimates

    left = [estimates(question)["first_place"] for question in range(30)]
    for judge, error in estimates()["first_place_se_questions"].items():
        assert error == pytest.approx(np.std([part[judge] for part in left]) * np.sqrt(29), rel=0.1)


def test_a_single_question_has_no_error_over_questions(ppe_main, tmp_path):
    rows = [(row[0], 0, "any", row[1], *row[4:]) for row in table(15, n_questions=6)]
    fit = ppe_main("rank", write(tmp_path / "t.csv", rows), "--order-effect", "--format", "json").json()["fit"]
    assert fit["first_place_se_questions"] == {"one": None, "two": None} and fit["first_place_se"]["one"] > 0
    assert "of independent verdicts" in ppe_main("rank", tmp_path / "t.csv", "--order-effect").out


def test_many_judges_are_cut_short_in_the_readable_form(ppe_main, tmp_path):
    rows = [(f"{row[0]} {row[1] % 6}", *row[1:]) for row in table(16, n_questions=36)]
    out = ppe_main("rank", write(tmp_path / "t.csv", rows), "--order-effect").out
    assert out.count("first place with judge") == 10 and "and 2 more judges" in out


# ---- how often the first answer wins


def test_both_orders_are_told_apart_from_pairs_that_lost_one():
    "Verdicts whose other order is invalid are left out of the rate, and of nothing else."
    once, other = (table(seed, n_questions=20, judges=("one",), ties=ties) for seed, ties in ((19, 0.0), (20, 0.15)))
    again = [(*row[:3], 1, row[5], row[4], said[6]) for row, said in zip(once, other, strict=True)]
    again[:30] = [(*row[:6], "invalid") for row in again[:30]]
    rates = first_place_rates(frame(once + again)).iloc[0]
    assert rates["basis"] == "both orders" and rates["valid"] == 370
    assert rates["first"] + rates["second"] + rates["ties"] == 340
    for level in (0, 1, 95, float("nan")):
        with pytest.raises(InputError, match="between 0 and 1"):
            first_place_rates(frame(once), level=level)

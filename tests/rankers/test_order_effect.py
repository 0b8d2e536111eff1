"""The effect of the first place on the command line and in the library, beside fits to rows told apart here."""

from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from conftest import write
from drawn import comparisons, drawn_rows, frame, refused
from scipy.special import expit

import ppe
from ppe.comparisons import Comparisons
from ppe.errors import InputError
from ppe.inference.position_bias import first_place_rates
from ppe.inference.presentation_order import order_caution
from ppe.rankers.order_effect import ORDER_FORMS
from ppe.rankers.predictor import order_effect
from ppe.rankers.registry import RANKERS
from ppe.verdicts import COLUMNS

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
        assert report["fit"][name] == pytest.approx(fitted.fit.to_dict()[name], abs=1e-8)
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
        line = next(line for line in lines if line.startswith(f"First-position bias of {judge}"))
        assert f"log-odds {effect:.2f}, SE {report['fit']['first_place_se_questions'][judge]:.2f} over" in line
        assert f"{100 * report['fit']['equal_first_wins'][judge]:.1f} %" in line
    assert ppe_main(*common, "--format", "csv").out.splitlines()[0].startswith("model,score,rank,")


def test_one_order_only_is_noted_and_told_from_nothing_when_it_fits_a_line(ppe_main, tmp_path):
    done = ppe_main("rank", write(tmp_path / "t.csv", table(7, fixed=True)), "--order-effect")
    assert done.code == 0 and "in one order only" in done.err
    # x always before y and z, y before z, and everyone wins sometimes: a line and a place explain the same.
    pairs = enumerate([("x", "y"), ("y", "z")])
    rows = [("me", q, "any", 0, x, y, "ab"[(q + k) % 2]) for k, (x, y) in pairs for q in range(4)]
    words = "rank", write(tmp_path / "line.csv", rows), "--order-effect", "--incomplete", "keep"
    refused(ppe_main(*words), "cannot be separated from the models' scores", "judge me", "both orders")
    refused(ppe_main(*words, "--on-separation", "ridge"), "cannot be separated from the models' scores", "judge me")
    # Everyone loses from the first place alone: an estimate runs off, and that of a penalty is said to be one.
    always = [("me", q, "any", k, *pair, "b") for q in range(4) for k, pair in enumerate(("xy", "yz", "zx", "yx"))]
    words = "rank", write(tmp_path / "always.csv", always), "--order-effect", "--on-separation", "ridge"
    ridge = ppe_main(*words, "--incomplete", "keep", "--format", "json").json()
    assert ridge["fit"]["ridge"] > 0 and ridge["fit"]["first_place_se"] == {"me": None}


def test_what_has_no_such_estimate_is_refused(ppe_main, tmp_path):
    path = write(tmp_path / "t.csv", rows := [(*row[:6], "a") for row in table(8, judges=("one",))])
    words = "no verdict goes against first place with judge one → +∞", "--on-separation ridge"
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
        return order_effect(comparisons([r for r in rows if r[1] != without]), ranker=ranker).fit.to_dict()

    left = [estimates(question)["first_place"] for question in range(30)]
    for judge, error in estimates()["first_place_se_questions"].items():
        assert error == pytest.approx(np.std([part[judge] for part in left]) * np.sqrt(29), rel=0.1)


def test_a_single_question_has_no_error_over_questions(ppe_main, tmp_path):
    rows = [(row[0], 0, "any", row[1], *row[4:]) for row in table(15, n_questions=6)]
    fit = ppe_main("rank", write(tmp_path / "t.csv", rows), "--order-effect", "--format", "json").json()["fit"]
    assert fit["first_place_se_questions"] == {"one": None, "two": None} and fit["first_place_se"]["one"] > 0
    assert "if verdicts are independent" in ppe_main("rank", tmp_path / "t.csv", "--order-effect").out


def test_many_judges_are_cut_short_in_the_readable_form(ppe_main, tmp_path):
    rows = [(f"{row[0]} {row[1] % 6}", *row[1:]) for row in table(16, n_questions=36)]
    out = ppe_main("rank", write(tmp_path / "t.csv", rows), "--order-effect").out
    assert out.count("First-position bias of") == 10 and "and 2 more judges" in out


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


# ---- nearly every pair in one order, and an order that is lost


def always_a(order, *, judge="me", n=6, n_questions=12, seed=1, said="a"):
    "Each pair once on each question, the first of the list first, or by a coin, or in both orders."
    rng, names = np.random.default_rng(seed), [f"m{k}" for k in range(n)]
    rows = []
    for question in range(n_questions):
        for pair in combinations(names, 2):
            shown = pair[::-1] if order == "coins" and rng.random() < 0.5 else pair
            rows.append((judge, question, f"c{question % 2}", 0, *shown, said))
            if order == "both":
                rows.append((judge, question, f"c{question % 2}", 1, *shown[::-1], said))
    return rows


ONE_ORDER = "one order only (15 of 15 that met several times): only the model separates position from strength"
RIDGE = "--on-separation", "ridge"


@pytest.mark.parametrize("order", ["given", "coins"])
def test_one_order_is_a_caution_in_every_command_and_form(ppe_main, tmp_path, order):
    "A judge that always says the first: six equal models, ranked by the list."
    path = write(tmp_path / "t.csv", always_a(order))
    expected = 1 if order == "given" else 0
    for words in (("rank", path, *RIDGE), ("check", path), ("compare", path, "--model", "m0", "--model", "m3")):
        done = ppe_main(*words)
        assert done.code == 0 and done.err.count(ONE_ORDER) == expected, words
        assert "random or both orders" in done.err or not expected
        shown = ppe_main(*words, "--format", "markdown") if words[0] != "rank" else done
        assert (shown.out + done.err).count("only the model separates position") >= expected
    diagnosis = ppe_main("diagnose", path)
    assert diagnosis.out.count(ONE_ORDER) == expected
    assert ("one_order" in ppe_main("diagnose", path, "--format", "json").json()["cautions"]) == bool(expected)
    page = tmp_path / "r.html"
    assert ppe_main("report", path, "--out", page).code == 0
    assert ("only the model separates position" in page.read_text()) == bool(expected)
    frame_ = ppe.read(path)
    assert (
        sum("only the model separates" in note for note in ppe.rank(frame_, on_separation="ridge").notes()) == expected
    )
    by_category = ppe.rank(frame_, on_separation="ridge", by="category", intervals=0).notes()
    assert (
        sum("only the model separates" in note for note in by_category) == expected
    )  # once, and not for each category


def test_an_estimate_from_one_order_never_stands_without_its_caveat(ppe_main, tmp_path):
    done = ppe_main("rank", write(tmp_path / "t.csv", table(7, fixed=True)), "--order-effect")
    *_, last, caveat = done.out[: done.out.index("only the model")].splitlines()
    assert last.startswith("First-position bias of two") and caveat.startswith("Nearly every pair")
    assert "also with --order-effect" in done.err
    assert "only the model" in str(ppe.rank(tmp_path / "t.csv", order_effect=True))


def is_refused(ppe_main, path):
    for words in (("--order-effect",), ("--order-effect", *RIDGE)):
        refused(ppe_main("rank", path, *words), "the order of the answers is lost")


def test_a_public_set_that_lost_its_order_says_so_wherever_it_goes(ppe_main, tmp_path):
    path = tmp_path / "mt.parquet"
    assert ppe_main("data", "write", "mt-bench-gpt4", "--out", path).code == 0
    for some in (path, ppe.read(path).to_csv(tmp_path / "again.csv", index=False) or tmp_path / "again.csv"):
        is_refused(ppe_main, some)
        for words in (("rank", some), ("check", some), ("diagnose", some), ("rank", some, "--category", "math")):
            done = ppe_main(*words)
            assert done.code == 0 and "only the model separates" not in done.out + done.err and "44.3" not in done.out
        assert "one order only" not in ppe_main("compare", some, "--model", "gpt-4", "--model", "claude-v1").err
    assert ppe_main("check", path, "--format", "json").json()["order_lost"] == 2400
    told = ppe_main("diagnose", path, "--format", "json").json()
    assert told["first_place"]["gpt-4"]["value"] is None and told["order_flips"] is None
    assert ppe_main("report", path, "--out", tmp_path / "r.html").code == 0
    assert "only the model separates" not in (tmp_path / "r.html").read_text()
    found = ppe_main("compare", path, "--model", "gpt-4", "--model", "claude-v1", "--format", "json").json()
    assert found["shown_first"] is None


def test_several_files_keep_which_rows_lost_their_order(ppe_main, tmp_path):
    "The judge whose order is known is looked at, by itself and beside the other."
    assert ppe_main("data", "write", "mt-bench-gpt4", "--out", tmp_path / "mt.csv").code == 0
    for order in ("coins", "given"):
        other = write(tmp_path / f"{order}.csv", [(*row[:6], "ab"[k % 2]) for k, row in enumerate(always_a(order))])
        words = "rank", tmp_path / "mt.csv", other, *RIDGE
        both = ppe_main(*words)
        assert ("one order only (15 of 15" in both.err) == (order == "given")
        refused(ppe_main(*words, "--order-effect"), "merged, in 2,400 of 2,580 verdicts")
        if order == "coins":
            alone = ppe_main(*words, "--order-effect", "--judge", "me")
            assert alone.code == 0 and "First-position bias of me" in alone.out
    frame_ = pd.concat([ppe.load("mt-bench-gpt4"), ppe.read(tmp_path / "coins.csv")], ignore_index=True)
    with pytest.raises(InputError, match="merged, in 2,400 of 2,580 verdicts"):
        ppe.rank(frame_, order_effect=True, on_separation="ridge")
    rates = first_place_rates(ppe.read(frame_)).set_index("judge")["basis"]
    assert rates["gpt-4"] == "lost" and rates["me"] == "random order"


def test_json_lines_and_frames_with_other_names_keep_the_mark(tmp_path):
    table_ = ppe.load("mt-bench-gpt4").head(600)
    table_.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    names = (
        {name: name for name in COLUMNS if name not in ("judge", "category", "verdict")}
        | {"winner": "verdict"}
        | {word: word for word in ("a", "b", "tie")}
    )
    for source in (tmp_path / "t.jsonl", table_):
        assert set(ppe.read(source, **names)["order_known"]) == {"no"}
    renamed = table_.rename(columns={"model_a": "left", "order_known": "seen"})
    assert set(ppe.read(renamed, **names | {"model_a": "left", "order_known": "seen"})["order_known"]) == {"no"}
    assert set(ppe.read(table_.drop(columns="order_known"), **names | {"order_known": "@no"})["order_known"]) == {"no"}
    assert "order_known" not in ppe.read(table_.drop(columns="order_known"), **names)


def test_large_files_are_cautioned_by_their_counts(ppe_main, tmp_path, monkeypatch):
    monkeypatch.setattr("ppe.api.inputs.LARGE", 100)
    rows = [(*row[:6], "ab"[k % 3 == 0]) for k, row in enumerate(always_a("given"))]
    path = write(tmp_path / "t.csv", rows)
    assert ONE_ORDER in ppe_main("rank", path, *RIDGE).err
    coins = write(tmp_path / "coins.csv", [(*row[:6], "ab"[k % 3 == 0]) for k, row in enumerate(always_a("coins"))])
    assert "one order" not in ppe_main("rank", coins, *RIDGE).err
    lost = tmp_path / "lost.csv"
    pd.read_csv(path).assign(order_known="no").to_csv(lost, index=False)
    done = ppe_main("rank", lost, *RIDGE)
    assert "too many for a table" in done.err and "one order" not in done.err
    pd.read_csv(path).assign(order_known="perhaps").to_csv(lost, index=False)
    refused(ppe_main("rank", lost), "order_known 'perhaps'")


def test_randomised_single_orders_stay_estimable():
    "40 models, each of 780 pairs once, the order by a coin: .50 to .70 where the truth is .6, and no caution."
    i, j = np.triu_indices(40, 1)
    found, each, zeros = [], np.arange(780), np.zeros(780, int)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        theta, coin = rng.standard_normal(40), rng.random(780) < 0.5
        first, second = np.where(coin, i, j), np.where(coin, j, i)
        lost = rng.random(780) > expit(theta[first] - theta[second] + np.log(0.6 / 0.4))
        names = tuple(f"m{k:02}" for k in range(40))
        rows = Comparisons(first, second, lost.astype(int), zeros, each, zeros, each, names, ("me",))
        assert not order_caution(rows)
        found.append(order_effect(rows, on_separation="ridge").fit.to_dict()["equal_first_wins"]["me"])
    assert 0.5 < min(found) and max(found) < 0.7 and abs(np.mean(found) - 0.6) < 4 * np.std(found) / 60**0.5


@pytest.mark.parametrize("pairs", ["hub first", "hub second", "chain", "groups"])
def test_a_design_that_cannot_tell_place_from_strength_is_refused(ppe_main, tmp_path, pairs):
    "Beside the rank of the design, with verdicts of every kind, so that nothing is separated."
    names = "uvwxyz"
    chosen = {
        "hub first": [("u", other) for other in names[1:]],
        "hub second": [(other, "u") for other in names[1:]],
        "chain": list(pairwise(names)),
        "groups": [(one, other) for one in "uvw" for other in "xyz"],
    }[pairs]
    rng = np.random.default_rng(3)
    rows = [("me", q, "any", 0, *pair, str(rng.choice(["a", "b", "tie"]))) for q in range(40) for pair in chosen]
    path = write(tmp_path / "t.csv", rows)
    design = np.array([[(name == a) - float(name == b) for name in names] + [1.0] for a, b in chosen])
    assert np.linalg.matrix_rank(design) == np.linalg.matrix_rank(design[:, :-1])
    for words in ((), RIDGE, ("--ranker", "davidson", *RIDGE)):
        refused(
            ppe_main("rank", path, "--order-effect", *words), "judge me cannot be separated from the models' scores"
        )
    case = ppe_main("check", path).out
    assert "an effect of the order (--order-effect): first place with judge me cannot be separated" in case
    assert ppe_main("plan", "--models", 6, "--questions", 60, "--pilot", path).code == 0
    turned = [("me", 41 + k, "any", 0, *chosen[0][::-1], said) for k, said in enumerate("ab")]
    one_more = write(tmp_path / "u.csv", [*rows, *turned])
    assert ppe_main("rank", one_more, "--order-effect").code == 0

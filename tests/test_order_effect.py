"""The effect of the first place, on the command line and in the library, against oracles written here."""

import json

import numpy as np
import pandas as pd
import pytest
from conftest import COLUMNS, write
from scipy.optimize import minimize
from scipy.special import expit, log_expit

import ppe
from ppe.errors import InputError, NoMaximumError
from ppe.inference.diagnostics import first_place_rates
from ppe.inference.leaderboard import leaderboard
from ppe.inference.methods import Method
from ppe.places import placed
from ppe.rankers.order_effect import ORDER_FORMS, order_effect
from ppe.rankers.registry import RANKERS
from ppe.verdicts import validate_verdicts

STRENGTH = {"a": 0.9, "b": 0.3, "c": 0.0, "d": -0.5, "e": -0.7}
EFFECT = {"one": 1.0, "two": -0.6}


def table(seed, *, n_questions=14, judges=("one", "two"), fixed=False, ties=0.15, holes=0.0):
    "Every pair of every question once by each judge, in random order or by the alphabet."
    rng, rows = np.random.default_rng(seed), []
    for judge in judges:
        for question in range(n_questions):
            for k, x in enumerate(STRENGTH):
                for y in list(STRENGTH)[k + 1 :]:
                    first, second = (x, y) if fixed or rng.random() < 0.5 else (y, x)
                    win = rng.random() < expit(STRENGTH[first] - STRENGTH[second] + EFFECT[judge])
                    verdict = "tie" if rng.random() < ties else "ab"[not win]
                    verdict = "invalid" if rng.random() < holes else verdict
                    rows.append((judge, question, "any", 0, first, second, verdict))
    return rows


def oracle(rows):
    "Strengths by name and effects by judge: scipy on the sum over verdicts, a tie counting as half of each."
    models, judges = sorted({row[4] for row in rows}), sorted({row[0] for row in rows})

    def loss(point):
        value = 0.0
        for judge, *_, x, y, verdict in rows:
            g = point[models.index(x)] - point[models.index(y)] + point[len(models) + judges.index(judge)]
            share = {"a": 1.0, "b": 0.0, "tie": 0.5}.get(verdict)
            if share is not None:
                value -= share * log_expit(g) + (1 - share) * log_expit(-g)
        return value

    best = minimize(loss, np.zeros(len(models) + len(judges)), method="BFGS", options={"gtol": 1e-5})
    strengths = best.x[: len(models)] - best.x[: len(models)].mean()
    return (
        dict(zip(models, strengths, strict=True)),
        dict(zip(judges, best.x[len(models) :], strict=True)),
        -best.fun,
    )


def refused(done, *words):
    assert (done.code, done.out, done.err.count("\n"), done.new_files) == (2, "", 1, ()), done
    assert all(word in done.err for word in words), done.err


def test_the_command_equals_scipy_on_the_written_objective(ppe_main, tmp_path):
    rows = table(1, n_questions=6)
    found = ppe_main("rank", write(tmp_path / "t.csv", rows), "--order-effect", "--format", "json").json()
    strengths, effects, value = oracle(rows)
    assert {m["model"]: m["score"] for m in found["models"]} == pytest.approx(strengths, abs=1e-4)
    assert found["fit"]["first_place"] == pytest.approx(effects, abs=1e-4)
    assert found["fit"]["log_likelihood"] == pytest.approx(value, abs=1e-6)
    for judge, effect in effects.items():
        assert found["fit"]["equal_first_wins"][judge] == pytest.approx(expit(effect), abs=1e-4)
        assert found["fit"]["first_place_se"][judge] > 0 < found["fit"]["first_place_se_questions"][judge]
    one = ppe_main("rank", tmp_path / "t.csv", "--order-effect", "--judge", "two", "--format", "json").json()
    assert one["fit"]["first_place"] == pytest.approx(oracle([r for r in rows if r[0] == "two"])[1], abs=1e-4)


def test_incomplete_graphs_are_left_out_of_the_effect_too(ppe_main, tmp_path):
    rows = table(2, holes=0.08)
    path = write(tmp_path / "t.csv", rows)
    dropped = ppe_main("rank", path, "--order-effect", "--format", "json")
    kept = ppe_main("rank", path, "--order-effect", "--incomplete", "keep", "--format", "json")
    bad = {row[:2] for row in rows if row[6] == "invalid"}
    assert 3 < len(bad) < 25
    for done, used in ((dropped, [r for r in rows if r[:2] not in bad]), (kept, rows)):
        strengths, effects, _ = oracle(used)
        assert done.json()["fit"]["first_place"] == pytest.approx(effects, abs=1e-4)
        assert {m["model"]: m["score"] for m in done.json()["models"]} == pytest.approx(strengths, abs=1e-4)
    assert f"{len(bad)} incomplete graphs dropped" in dropped.err and "dropped" not in kept.err


def test_a_table_too_large_for_its_graphs_gives_the_same(ppe_main, tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", table(3))
    words = "rank", path, "--order-effect", "--incomplete", "keep", "--format", "json"
    whole = ppe_main(*words).json()
    monkeypatch.setattr("ppe.pool.MAX_ADJACENCY_BYTES", 10)
    counted = ppe_main(*words).json()
    assert counted["kept"] is None and counted["fit"] == whole["fit"] and counted["models"] == whole["models"]


@pytest.mark.parametrize("ranker", ORDER_FORMS)
@pytest.mark.parametrize("words", [(), ("--select", "block", "--keep", 1), ("--select", "global", "--keep", 20)])
def test_selection_intervals_and_formats(ppe_main, tmp_path, ranker, words):
    rows = [(*row[:3], variant, *row[4:]) for variant in range(2) for row in table(4 + variant, n_questions=12)]
    path = write(tmp_path / "t.csv", rows)
    common = ["rank", path, "--ranker", ranker, "--order-effect", *words]
    found = ppe_main(*common, "--format", "json").json()
    keys = {tuple(kept[name] for name in ("judge", "question_id", "variant")) for kept in found["kept"]}
    used = [row for row in rows if (row[0], row[1], row[3]) in keys]
    if ranker == "bradley-terry":
        assert found["fit"]["first_place"] == pytest.approx(oracle(used)[1], abs=1e-4)
    else:
        assert found["fit"]["nu"] > 0
    widths = []
    for kind in ("percentile", "differences", "simultaneous"):
        limits = ppe_main(*common, "--intervals", 60, "--interval-kind", kind, "--format", "json").json()
        assert [(m["model"], m["score"]) for m in limits["models"]] == [
            (m["model"], pytest.approx(m["score"], abs=1e-9)) for m in found["models"]
        ]
        assert all(
            m["rank_low"] <= m["rank"] <= m["rank_high"] and m["score_low"] < m["score"] < m["score_high"]
            for m in limits["models"]
        )
        widths.append(sum(m["score_high"] - m["score_low"] for m in limits["models"]))
    assert widths[1] < widths[2]
    lines = ppe_main(*common).out.splitlines()
    for judge, effect in found["fit"]["first_place"].items():
        line = next(line for line in lines if line.startswith(f"first place with judge {judge}"))
        assert f"{effect:+.4f} ± {found['fit']['first_place_se_questions'][judge]:.4f}" in line
        assert f"{100 * found['fit']['equal_first_wins'][judge]:.1f} %" in line
    assert ppe_main(*common, "--format", "csv").out.splitlines()[0] == "model,score,rank"


def test_limits_are_those_of_refits_to_resampled_questions():
    "Every refit is done anew here, from the table written out."
    rows = pd.DataFrame(table(6, n_questions=10), columns=COLUMNS)
    board = leaderboard(validate_verdicts(rows), order_effect=True).with_intervals(n_resamples=20, level=0.9, seed=3)
    plain = leaderboard(validate_verdicts(rows)).with_intervals(n_resamples=20, level=0.9, seed=3)
    from ppe.inference.intervals import question_weights
    from ppe.streams import stream

    rng = stream(3, "intervals")
    weights = question_weights(Method("all"), board.pool, n_resamples=20, rng=rng)
    index = board.pool.index
    for b in range(4):
        copies = []
        for g in np.flatnonzero(weights[b]):
            mine = rows[(rows["judge"] == index["judge"][g]) & (rows["question_id"] == index["question_id"][g])]
            copies += [mine.assign(variant=copy) for copy in range(weights[b][g])]
        refit = order_effect(
            placed(validate_verdicts(pd.concat(copies, ignore_index=True)), models=board.pool.models).counts()
        )
        assert np.abs(refit.scores - board.intervals.resampled_scores[b]).max() < 1e-8
    assert not np.allclose(board.intervals.resampled_scores, plain.intervals.resampled_scores)


def test_one_order_only_is_noted_and_told_from_nothing_when_it_fits_a_line(ppe_main, tmp_path):
    done = ppe_main("rank", write(tmp_path / "t.csv", table(7, fixed=True)), "--order-effect")
    assert done.code == 0 and "in one order only" in done.err
    # x always before y and z, y before z, and everyone wins sometimes: a line and a place explain the same.
    rows = [
        ("me", q, "any", 0, x, y, "ab"[(q + k) % 2])
        for q in range(4)
        for k, (x, y) in enumerate([("x", "y"), ("y", "z")])
    ]
    path = write(tmp_path / "line.csv", rows)
    refused(
        ppe_main("rank", path, "--order-effect", "--incomplete", "keep"),
        "cannot be told from strength",
        "judge me",
        "both orders",
    )
    ridge = ppe_main(
        "rank", path, "--order-effect", "--incomplete", "keep", "--on-separation", "ridge", "--format", "json"
    ).json()
    assert ridge["fit"]["ridge"] > 0 and ridge["fit"]["first_place_se"] == {"me": None}
    assert "penalty" in ppe_main("rank", path, "--order-effect", "--incomplete", "keep", "--on-separation", "ridge").out


def test_a_judge_who_always_says_the_first_has_no_estimate(ppe_main, tmp_path):
    rows = [(*row[:6], "a") for row in table(8, judges=("one",))]
    path = write(tmp_path / "t.csv", rows)
    refused(
        ppe_main("rank", path, "--order-effect"),
        "advantage of the first place",
        "judge one",
        "--on-separation ridge",
    )
    assert ppe_main("rank", path).code == 0
    mixed = write(tmp_path / "mixed.csv", rows + table(9, judges=("two",)))
    refused(ppe_main("rank", mixed, "--order-effect"), "judge one")
    with pytest.raises(NoMaximumError):
        leaderboard(ppe.read_verdicts(path), order_effect=True)


@pytest.mark.parametrize("ranker", sorted(set(RANKERS) - set(ORDER_FORMS)))
def test_rankers_without_such_a_form_are_refused(ppe_main, tmp_path, ranker):
    path = write(tmp_path / "t.csv", table(10, n_questions=3))
    refused(ppe_main("rank", path, "--order-effect", "--ranker", ranker), ranker, *ORDER_FORMS)


def test_standard_errors_over_questions_are_those_of_left_out_questions():
    "Beside the jackknife over questions, refitted here."
    rows = pd.DataFrame(table(14, n_questions=30), columns=COLUMNS)
    for ranker in ORDER_FORMS:
        board = leaderboard(validate_verdicts(rows), order_effect=True, ranker=ranker)
        left = [
            leaderboard(validate_verdicts(rows[rows["question_id"] != q]), order_effect=True, ranker=ranker)
            for q in range(30)
        ]
        for judge, error in board.estimates()["first_place_se_questions"].items():
            each = np.array([part.estimates()["first_place"][judge] for part in left])
            jackknife = np.sqrt(29 / 30 * ((each - each.mean()) ** 2).sum())
            assert error == pytest.approx(jackknife, rel=0.1)


def test_the_report_is_plain_json_and_a_single_question_has_no_error_over_questions(ppe_main, tmp_path):
    rows = [(row[0], 0, "any", row[1], *row[4:]) for row in table(15, n_questions=6)]
    done = ppe_main("rank", write(tmp_path / "t.csv", rows), "--order-effect", "--format", "json")
    fit = json.loads(done.out)["fit"]
    assert fit["first_place_se_questions"] == {"one": None, "two": None} and fit["first_place_se"]["one"] > 0
    assert "of independent verdicts" in ppe_main("rank", tmp_path / "t.csv", "--order-effect").out


def test_many_judges_are_cut_short_in_the_readable_form(ppe_main, tmp_path):
    rows = [(f"{row[0]} {row[1] % 6}", *row[1:]) for row in table(16, n_questions=36)]
    out = ppe_main("rank", write(tmp_path / "t.csv", rows), "--order-effect").out
    assert out.count("first place with judge") == 10 and "and 2 more judges" in out


# ---- how often the first answer wins


def test_rates_are_counts_of_the_table():
    found = first_place_rates(validate_verdicts(pd.DataFrame(table(17, n_questions=40), columns=COLUMNS))).set_index(
        "judge"
    )
    frame = pd.DataFrame(table(17, n_questions=40), columns=COLUMNS)
    for judge, rows in frame.groupby("judge"):
        row, said = found.loc[judge], rows["verdict"].value_counts()
        assert [row["first"], row["second"], row["ties"]] == [said["a"], said["b"], said["tie"]] and row[
            "basis"
        ] == "random order"
        assert row["rate"] == said["a"] / (said["a"] + said["b"]) and row["low"] < row["rate"] < row["high"]
        assert row["half_tie_rate"] == pytest.approx((said["a"] + said["tie"] / 2) / len(rows))
        assert (row["rate"] > 0.5) == (EFFECT[judge] > 0) and abs(row["first_place"] - EFFECT[judge]) < 4 * row[
            "first_place_se"
        ]


def test_a_fixed_order_and_merged_orders_give_no_rate():
    fixed = first_place_rates(validate_verdicts(pd.DataFrame(table(18, fixed=True), columns=COLUMNS)))
    assert (fixed["basis"] == "confounded").all() and fixed[
        ["rate", "low", "high", "half_tie_rate", "first_place", "first_place_se"]
    ].isna().all(axis=None)
    assert fixed["reason"].str.contains("one order only").all() and (fixed["first"] + fixed["second"] > 0).all()


def test_both_orders_are_told_apart_from_pairs_that_lost_one():
    "Verdicts whose other order is invalid are left out of the rate, and of nothing else."
    once = table(19, n_questions=20, judges=("one",), ties=0.0)
    again = [
        (*row[:3], 1, row[5], row[4], verdict)
        for row, verdict in zip(once, [r[6] for r in table(20, n_questions=20, judges=("one",))], strict=True)
    ]
    again[:30] = [(*row[:6], "invalid") for row in again[:30]]
    found = first_place_rates(validate_verdicts(pd.DataFrame(once + again, columns=COLUMNS))).iloc[0]
    assert (
        found["basis"] == "both orders"
        and found["valid"] == 370
        and found["first"] + found["second"] + found["ties"] == 340
    )


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, float("nan")])
def test_a_level_that_is_none_is_refused(level):
    with pytest.raises(InputError, match="between 0 and 1"):
        first_place_rates(validate_verdicts(pd.DataFrame(table(21, n_questions=2), columns=COLUMNS)), level=level)

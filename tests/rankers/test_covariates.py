"""Covariates on the command line, beside a fit by scipy; a table that has them serves every command as before."""

import csv
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import COLUMNS, write
from drawn import copied, refused

from ppe.comparisons import Comparisons
from ppe.inference.leaderboard import leaderboard
from ppe.rankers.covariates import frozen_coefficients
from ppe.rankers.predictor import Predictor, fit_predictor
from ppe.sources.datasets import load_verdicts
from ppe.verdicts import read_verdicts, validate_verdicts, write_verdicts

STYLED = [*COLUMNS, "length_a", "length_b", "markdown_a", "markdown_b", "mood_a", "mood_b"]
MODELS = "wxyz"


def table(seed, *, n_questions=30, judges=("one",), ties=0.15, invalid=0.0):
    "Rows in which longer answers win, and markdown and mood mean nothing; the model w is the best and the shortest."
    rng, rows = np.random.default_rng(seed), []
    for question in range(n_questions):
        of = {}
        for k, m in enumerate(MODELS):
            of[m] = int(np.exp(5 + 0.3 * k + 0.5 * rng.normal())), int(rng.integers(0, 9)), round(rng.normal(), 3)
        for judge in judges:
            for pair in combinations(MODELS, 2):
                a, b = pair if rng.random() < 0.5 else pair[::-1]
                ahead = (MODELS.index(b) - MODELS.index(a)) * 0.4 + 3 * (of[a][0] - of[b][0]) / (of[a][0] + of[b][0])
                word = "a" if rng.random() < 1 / (1 + np.exp(-ahead)) else "b"
                word = "tie" if rng.random() < ties else "invalid" if rng.random() < invalid else word
                numbers = (n for pair in zip(of[a], of[b], strict=True) for n in pair)
                rows.append((judge, question, "any", 0, a, b, word, *numbers))
    return rows


def fitted(rows, columns, **options):
    "The library's fit; its notebook compares it with scipy's."
    verdicts = validate_verdicts(pd.DataFrame(rows, columns=STYLED), columns)
    return fit_predictor(Predictor.of(Comparisons.of(verdicts, covariates=columns, models=MODELS)), **options)


@pytest.mark.parametrize(
    ("ranker", "columns"), [("bradley-terry", ["length", "markdown", "mood"]), ("davidson", ["length"])]
)
def test_the_command_fits_what_it_was_told_to(ranker, columns, ppe_main, tmp_path):
    rows = table(1, invalid=0.1, judges=("one", "two"))
    path = write(tmp_path / "t.csv", rows, STYLED)
    words = "rank", path, "--covariates", ", ".join(columns), "--ranker", ranker, "--format", "json"
    bad = {row[:2] for row in rows if row[6] == "invalid"}
    assert 3 < len(bad) < 50
    for more, counted in (
        (("--incomplete", "drop"), [row for row in rows if row[:2] not in bad]),
        ((), rows),
        (("--judge", "two"), [row for row in rows if row[0] == "two"]),
    ):
        report = ppe_main(*words, *more).json()
        alone = fitted(counted, columns, ranker=ranker)
        scores = dict(zip(MODELS, alone.scores, strict=True))
        assert {m["model"]: m["score"] for m in report["models"]} == pytest.approx(scores, abs=1e-8)
        told = report["fit"]["coefficients"]
        for name, coefficient in alone.fit.estimates.coefficients.items():
            for number in ("beta", "se", "low", "high"):
                assert told[name][number] == pytest.approx(getattr(coefficient, number), abs=1e-7)
        assert told["length"]["low"] > 0.3 and told["length"]["difference"] == "relative"
        assert "mood" not in told or told["mood"]["difference"] == "plain"
        plain = ppe_main("rank", path, "--ranker", ranker, "--format", "json", *more).json()
        want = {m["model"]: pytest.approx((m["score"], m["rank"])) for m in plain["models"]}
        assert {m["model"]: (m["score_without"], m["rank_without"]) for m in report["models"]} == want
        assert all(m["change"] == m["rank_without"] - m["rank"] for m in report["models"])


def test_every_command_reads_such_a_table_as_one_without(ppe_main, tmp_path):
    rows = table(2, n_questions=12)[:-5]
    seven = write(tmp_path / "seven.csv", [row[:7] for row in rows])
    styled = write(tmp_path / "styled.csv", rows, STYLED)
    for words in (("rank",), ("cycles",), ("diagnose",)):
        assert ppe_main(words[0], seven, *words[1:]).out == ppe_main(words[0], styled, *words[1:]).out
    for words in (
        ("counts",), ("next", "--questions", seven, "--calls", 5),
        ("design", "--models", seven, "--questions", seven, "--calls", 20),
    ):  # fmt: skip
        made = []
        for path in (seven, styled):
            out = tmp_path / f"{words[0]}-{path.stem}.csv"
            own = [path if word == seven else word for word in words[1:]]
            done = ppe_main(words[0], *([] if words[0] == "design" else [path]), *own, "--out", out)
            assert done.code == 0, done.err
            made.append(out.read_text(encoding="utf-8"))
        assert made[0] == made[1] and "length" not in made[1]


@pytest.mark.parametrize(
    "effect", [("--covariates", "length"), ("--order-effect",), ("--covariates", "length", "--order-effect")]
)
def test_a_table_too_large_for_its_graphs_gives_the_same(effect, ppe_main, tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", table(3, invalid=0.1), STYLED)
    words = "rank", path, *effect, "--incomplete", "keep", "--intervals", 0, "--format", "json"
    whole = ppe_main(*words).json()
    monkeypatch.setattr("ppe.pool.MAX_ADJACENCY_BYTES", 10)
    counted = ppe_main(*words).json()
    assert counted["kept"] is None and counted["fit"] == whole["fit"] and counted["models"] == whole["models"]


def test_limits_hold_every_resample_with_its_own_coefficients():
    rows, columns = table(4, n_questions=12), ["length"]
    verdicts = validate_verdicts(pd.DataFrame(rows, columns=STYLED), columns)
    board = leaderboard(verdicts, covariates=columns).with_intervals(n_resamples=9, level=0.8, seed=3)
    for copies, scores in zip(copied(rows, board, 9, 3), board.intervals.resampled.scores[:3], strict=False):
        assert np.allclose(fitted(copies, columns).scores, scores, atol=1e-6)


def test_frozen_coefficients_bring_their_units(ppe_main, tmp_path):
    first, other = (write(tmp_path / f"{n}.csv", table(seed, n_questions=n), STYLED) for seed, n in ((6, 30), (7, 5)))
    saved, names = tmp_path / "week.json", ["length", "mood"]
    saved.write_text(ppe_main("rank", first, "--covariates", ",".join(names), "--format", "json").out)
    told = json.loads(saved.read_text())["fit"]["coefficients"]
    report = ppe_main("rank", other, "--coefficients", saved, "--format", "json").json()
    for name in names:
        again = report["fit"]["coefficients"][name]
        assert all(again[key] == told[name][key] for key in ("beta", "scale", "difference", "se")) and again["se"] > 0
    frozen = frozen_coefficients(told)
    there = leaderboard(read_verdicts(other, covariates=names), covariates=names, coefficients=frozen)
    assert [m["score"] for m in report["models"]] == there.table()["score"].tolist()
    # Lengths all alike: no spread here is needed.
    write(other, [(*row[:7], 100, 100, *row[9:]) for row in table(7, n_questions=5)], STYLED)
    refused(ppe_main("rank", other, "--covariates", "length"), "covariate length is the same for both answers")
    assert ppe_main("rank", other, "--coefficients", saved).code == 0


def test_bad_numbers_are_named_by_row(ppe_main, tmp_path):
    rows = table(8, n_questions=4)
    path = tmp_path / "t.csv"

    def with_cell(value):
        changed = [list(row) for row in rows]
        changed[2][7] = value
        return write(path, changed, STYLED)

    for value, *words in (
        ("", "empty length_a in row 3", "not asked for"),
        ("nan", "length_a 'nan' in row 3", "a number is needed"),
        ("1e400", "length_a '1e400' in row 3"),
        ("many", "length_a 'many' in row 3", "leave these rows out"),
    ):
        refused(ppe_main("rank", with_cell(value), "--covariates", "length"), *words)
        assert ppe_main("rank", path, "--covariates", "markdown", "--on-separation", "ridge").code == 0
        assert ppe_main("rank", path, "--on-separation", "ridge").code == 0
    parts = write(tmp_path / "one.csv", rows[:12], STYLED), write(tmp_path / "two.csv", [row[:7] for row in rows[12:]])
    refused(ppe_main("rank", *parts, "--covariates", "length"), "two.csv", "missing column length_a, length_b")
    with_cell(-5)
    assert "plain difference" in ppe_main("rank", path, "--covariates", "length", "--on-separation", "ridge").out


def test_h2o_has_numbers_and_no_sentence(ppe_main, tmp_path):
    assert ppe_main("data", "write", "h2o-gpt4", "--out", out := tmp_path / "h2o.csv").code == 0
    rows = pd.read_csv(out)
    numbers = ["length_a", "length_b", "markdown_a", "markdown_b"]
    assert list(rows) == [*COLUMNS, *numbers] and (rows[numbers].dtypes == np.int64).all()
    plain = load_verdicts("h2o-gpt4")
    pd.testing.assert_frame_equal(read_verdicts(out).astype(str), plain.astype(str))
    assert list(plain) == list(COLUMNS) == list(load_verdicts("oa-gpt4", style=True))
    again = write_verdicts(read_verdicts(out, covariates=["length", "markdown"]), tmp_path / "again.csv")
    assert again.read_bytes() == out.read_bytes()


def test_covariate_per_model(ppe_main, tmp_path):
    path = Path(__file__).parents[1] / "cases" / "covariate_per_model.csv"
    refused(ppe_main("rank", path, "--covariates", "size"), "does not vary within a model", "leave it out")
    refused(ppe_main("rank", path, "--covariates", "size", "--on-separation", "ridge"), "covariate size does not vary")
    # A little noise within a model: no longer one number for each, and told by its variance inflation.
    with open(path, encoding="utf-8") as file:
        rows, rng = list(csv.DictReader(file)), np.random.default_rng(1)
    for row in rows:
        for side in "ab":
            row[f"size_{side}"] = str(float(row[f"size_{side}"]) * (1 + 0.01 * rng.normal()))
    noisy = write(tmp_path / "noisy.csv", [list(row.values()) for row in rows], list(rows[0]))
    done = ppe_main("rank", noisy, "--covariates", "size")
    assert done.code == 0 and "variance inflation" in done.out and "the effect of size is hard to separate" in done.err
    fit = ppe_main("rank", noisy, "--covariates", "size", "--format", "json").json()["fit"]
    # R² by least squares on models.
    models = sorted({row["model_a"] for row in rows} | {row["model_b"] for row in rows})
    x = np.array([[(row["model_a"] == m) - (row["model_b"] == m) for m in models] for row in rows], float)
    a, b = (np.array([float(row[f"size_{side}"]) for row in rows]) for side in "ab")
    d = (a - b) / (a + b)
    rest = d - x @ np.linalg.lstsq(x, d)[0]
    assert fit["coefficients"]["size"]["variance_inflation"] == pytest.approx((d @ d) / (rest @ rest), rel=1e-6)
    varying = ppe_main("rank", write(tmp_path / "t.csv", table(1), STYLED), "--covariates", "length,mood")
    assert varying.out.count("variance inflation 1.") == 2 and "hard to separate" not in varying.err


def test_bad_coefficients_are_one_line(ppe_main, tmp_path):
    path, saved = write(tmp_path / "t.csv", table(6), STYLED), tmp_path / "c.json"
    report = ppe_main("rank", path, "--covariates", "length", "--format", "json").json()
    good = report["fit"]["coefficients"]["length"]
    for bad in (
        {"beta": True}, {"scale": 1e-320}, {"scale": float("nan")}, {"scale": -1.0}, {"scale": True}, {"beta": 1e308},
        {"beta": float("nan")}, {"se": -0.1}, {"se": float("nan")}, {"se": True}, {"se": "0.1"}, {"scale": 1e300},
        {"n_questions": 1}, {"n_questions": "many"}, {"correlation": {"mood": 2}}, {"judges": "one"}, {"difference": 1},
    ):  # fmt: skip
        report["fit"]["coefficients"]["length"] = good | bad
        saved.write_text(json.dumps(report))
        refused(ppe_main("rank", path, "--coefficients", saved), "coefficient of 'length'")


def test_the_error_of_a_frozen_coefficient_widens_limits(ppe_main, tmp_path):
    path, saved = write(tmp_path / "t.csv", table(6), STYLED), tmp_path / "c.json"
    report = ppe_main("rank", path, "--covariates", "length,mood", "--format", "json").json()
    told, widths = report["fit"]["coefficients"], []
    assert told["length"]["n_questions"] == 30 and told["length"]["judges"] == ["one"]
    assert told["length"]["correlation"]["mood"] == pytest.approx(told["mood"]["correlation"]["length"])
    for se in (0.0, 1.0):
        told["length"]["se"] = se
        saved.write_text(json.dumps(report))
        done = ppe_main("rank", path, "--coefficients", saved, "--intervals", 400, "--format", "json").json()
        models = {m["model"]: m for m in done["models"]}
        widths.append({name: m["score_high"] - m["score_low"] for name, m in models.items()})
    assert widths[1]["w"] > 1.5 * widths[0]["w"]
    # A file without errors, of another judge, is said to be one.
    told["length"] |= {"se": None, "judges": ["another"]}
    saved.write_text(json.dumps(report))
    said = ppe_main("rank", path, "--coefficients", saved).err
    assert "length has no standard error in its file" in said and "length comes from verdicts of another" in said
    assert "mood comes from" not in said

"""Several judges, on the command line and in the library, against oracles written here."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from conftest import COLUMNS, write
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from scipy.stats import kendalltau, spearmanr

import ppe
from ppe.errors import InputError, NoMaximumError
from ppe.inference.intervals import question_weights
from ppe.inference.leaderboard import leaderboard
from ppe.inference.methods import ALL_GRAPHS
from ppe.places import placed
from ppe.rankers.judges import weighted_judges
from ppe.streams import stream
from ppe.verdicts import validate_verdicts

STRENGTH = {"a": 1.0, "b": 0.3, "c": 0.0, "d": -0.5, "e": -0.8}
JUDGES = {"careful": (2.0, 0.0), "middling": (1.0, 0.7), "hasty": (0.3, -0.5)}  # discrimination, first place


def table(seed, *, n_questions=16, judges=tuple(JUDGES), ties=0.15, holes=0.0, strength=STRENGTH):
    "Every pair of every question once by each judge, in random order."
    rng, rows = np.random.default_rng(seed), []
    for judge in judges:
        a, first_place = JUDGES[judge]
        for question in range(n_questions):
            for k, x in enumerate(strength):
                for y in list(strength)[k + 1 :]:
                    first, second = (x, y) if rng.random() < 0.5 else (y, x)
                    win = rng.random() < expit(a * (strength[first] - strength[second]) + first_place)
                    verdict = "tie" if rng.random() < ties else "ab"[not win]
                    verdict = "invalid" if rng.random() < holes else verdict
                    rows.append((judge, question, "any", 0, first, second, verdict))
    return rows


def frame(rows):
    return validate_verdicts(pd.DataFrame(rows, columns=COLUMNS))


def share(verdict):
    return {"a": 1.0, "b": 0.0, "tie": 0.5}.get(verdict)


def refused(done, *words):
    assert (done.code, done.out, done.err.count("\n"), done.new_files) == (2, "", 1, ()), done
    assert all(word in done.err for word in words), done.err


# ---- what is said of a table of several judges


def test_pooled_judges_are_named_in_a_note_and_change_nothing(ppe_main, tmp_path):
    rows = table(1)
    path, one = write(tmp_path / "all.csv", rows), write(tmp_path / "one.csv", table(1, judges=("careful",)))
    renamed = write(
        tmp_path / "renamed.csv", [("same", *row[1:3], list(JUDGES).index(row[0]), *row[4:]) for row in rows]
    )
    done, alone = ppe_main("rank", path), ppe_main("rank", one)
    assert "3 judges are pooled" in done.err and "--judges separate" in done.err and alone.err == ""
    assert done.out == ppe_main("rank", renamed).out == ppe_main("rank", path, "--judges", "pooled").out
    found = ppe_main("rank", path, "--format", "json").json()
    assert (found["judges"], found["n_judges"]) == ("pooled", 3)
    assert ppe_main("rank", path, "--judge", "hasty").err == ""


# ---- separate


def test_separate_is_each_judge_alone_with_the_distances(ppe_main, tmp_path):
    path = write(tmp_path / "t.csv", table(2))
    for words in ((), ("--order-effect",), ("--intervals", 39), ("--select", "global", "--keep", 8)):
        found = ppe_main("rank", path, "--judges", "separate", *words, "--format", "json").json()
        assert found["judges"] == "separate" and list(found["leaderboards"]) == sorted(JUDGES)
        ranks = {}
        for judge, report in found["leaderboards"].items():
            assert report == ppe_main("rank", path, "--judge", judge, *words, "--format", "json").json()
            ranks[judge] = [row["rank"] for row in sorted(report["models"], key=lambda row: row["model"])]
        assert len(found["distances"]) == 3
        assert words[:1] == ("--select",) or not any(rank % 1 for rank in sum(ranks.values(), []))
        for row in found["distances"]:
            pair = ranks[row["judge"]], ranks[row["other"]]
            if any(rank % 1 for rank in sum(pair, [])):
                continue  # scipy has another rule for tied models
            assert row["spearman"] == pytest.approx((1 - spearmanr(*pair).statistic) / 2)
            assert row["kendall"] == pytest.approx((1 - kendalltau(*pair).statistic) / 2)
            assert row["footrule"] == pytest.approx(np.abs(np.subtract(*pair)).sum() / 12)
            assert row["chebyshev"] == pytest.approx(np.abs(np.subtract(*pair)).max() / 4)


def test_separate_as_csv_and_for_the_eye(ppe_main, tmp_path):
    path = write(tmp_path / "t.csv", table(2))
    rows = list(csv.DictReader(io.StringIO(ppe_main("rank", path, "--judges", "separate", "--format", "csv").out)))
    for judge in JUDGES:
        alone = csv.DictReader(io.StringIO(ppe_main("rank", path, "--judge", judge, "--format", "csv").out))
        assert [{k: v for k, v in row.items() if k != "judge"} for row in rows if row["judge"] == judge] == list(alone)
    done = ppe_main("rank", path, "--judges", "separate", "--intervals", 39)
    lines = done.out.splitlines()
    assert lines[0].split() == ["model", *sorted(JUDGES)] and "distances between the rankings:" in lines
    assert all(f"judge {judge}:" in lines for judge in JUDGES) and "pooled" not in done.err


def test_separate_refuses_what_has_no_distance(ppe_main, tmp_path):
    rows = table(4)
    one = write(tmp_path / "one.csv", [row for row in rows if row[0] == "hasty"])
    refused(ppe_main("rank", one, "--judges", "separate"), "one judge, hasty", "at least two")
    fewer = write(tmp_path / "fewer.csv", [row for row in rows if row[0] != "hasty" or "e" not in row[4:6]])
    refused(ppe_main("rank", fewer, "--judges", "separate"), "different models", "(e by one", "hasty")
    never = [
        (*row[:6], {"a": "a", "b": "b"}["ab"[row[5] == "a"]]) if row[0] == "hasty" and "a" in row[4:6] else row
        for row in rows
    ]
    path = write(tmp_path / "never.csv", never)
    refused(ppe_main("rank", path, "--judges", "separate"), "judge hasty: no maximum likelihood estimate", "a")
    assert ppe_main("rank", path, "--judges", "separate", "--on-separation", "ridge").code == 0
    dropped = write(tmp_path / "holes.csv", [(*row[:6], "invalid") if row[0] == "hasty" else row for row in rows])
    refused(ppe_main("rank", dropped, "--judges", "separate"), "judge hasty: no valid verdict")
    refused(ppe_main("rank", one, "--judges", "together"), "together")


# ---- weighted


def log_posterior(point, rows, models, judges, spread):
    "One verdict after the other; strengths, effects of the first place, log discriminations."
    theta, delta, v = np.split(point, [len(models), len(models) + len(judges)])
    total = -1e-3 * theta.sum() ** 2 - (v**2).sum() / (2 * spread**2)
    for judge, *_, x, y, verdict in rows:
        points = share(verdict)
        if points is not None:
            c = judges.index(judge)
            eta = np.exp(v[c]) * (theta[models.index(x)] - theta[models.index(y)]) + delta[c]
            total += points * log_expit(eta) + (1 - points) * log_expit(-eta)
    return total


def test_weighted_is_the_maximum_of_the_written_objective(ppe_main, tmp_path):
    rows, models, judges = table(5, n_questions=8), sorted(STRENGTH), sorted(JUDGES)
    done = ppe_main("rank", write(tmp_path / "t.csv", rows), "--judges", "weighted", "--format", "json")
    found = done.json()
    fit = found["fit"]
    assert done.err == "" and found["judges"] == "weighted" and fit["spread"] > 0.2
    best = minimize(
        lambda x: -log_posterior(x, rows, models, judges, fit["spread"]),
        np.zeros(11),
        method="BFGS",
        options={"gtol": 1e-5},
    )
    theta, delta, v = np.split(best.x, [5, 8])
    scores = (theta - theta.mean()) * np.exp(v.mean())
    assert {row["model"]: row["score"] for row in found["models"]} == pytest.approx(
        dict(zip(models, scores, strict=True)), abs=1e-3
    )
    assert fit["discrimination"] == pytest.approx(dict(zip(judges, np.exp(v - v.mean()), strict=True)), rel=1e-3)
    assert fit["first_place"] == pytest.approx(dict(zip(judges, delta, strict=True)), abs=1e-3)
    assert fit["equal_first_wins"] == pytest.approx(dict(zip(judges, expit(delta), strict=True)), abs=1e-3)
    no_prior = -best.fun + (v**2).sum() / (2 * fit["spread"] ** 2)
    assert fit["log_likelihood"] == pytest.approx(no_prior, abs=1e-2)
    assert fit["discrimination"]["careful"] > fit["discrimination"]["middling"] > fit["discrimination"]["hasty"]


def test_weighted_turns_with_the_places_and_not_with_the_names():
    rows = table(7, n_questions=10)
    here = weighted_judges(placed(frame(rows)).counts())
    turned = [(*row[:4], row[5], row[4], {"a": "b", "b": "a"}.get(row[6], row[6])) for row in rows]
    there = weighted_judges(placed(frame(turned)).counts())
    assert np.allclose(here.scores, there.scores, atol=1e-4)
    for judge, effect in here.fit.estimates["first_place"].items():
        assert there.fit.estimates["first_place"][judge] == pytest.approx(-effect, abs=1e-3)
    names = dict(zip("abcde", "vzxwy", strict=True))
    renamed = weighted_judges(
        placed(frame([("j " + row[0], *row[1:4], names[row[4]], names[row[5]], row[6]) for row in rows])).counts()
    )
    scores = dict(zip(renamed.models, renamed.scores, strict=True))
    assert [scores[names[model]] for model in here.models] == pytest.approx(here.scores.tolist(), abs=1e-4)


def test_weighted_text_says_what_each_judge_is(ppe_main, tmp_path):
    path = write(tmp_path / "t.csv", table(6))
    done = ppe_main("rank", path, "--judges", "weighted")
    for judge in JUDGES:
        assert f"judge {judge}: discrimination" in done.out
    assert "spread of log discrimination over judges" in done.out and done.err == ""
    report = ppe_main("rank", path, "--judges", "weighted", "--format", "json").json()
    fitted = weighted_judges(placed(frame(table(6))).counts())
    assert {row["model"]: row["score"] for row in report["models"]} == pytest.approx(
        dict(zip(fitted.models, fitted.scores, strict=True)), abs=1e-9
    )
    assert all(report["fit"][name] == pytest.approx(value) for name, value in fitted.fit.estimates.items())
    assert report["fit"]["log_likelihood"] == pytest.approx(fitted.fit.log_likelihood)
    one = ppe_main("rank", path, "--judges", "weighted", "--judge", "hasty", "--format", "json")
    ordered = ppe_main("rank", path, "--order-effect", "--judge", "hasty", "--format", "json").json()
    assert "nothing to weigh" in one.err and one.json()["fit"]["discrimination"] == {"hasty": 1.0}
    pairs = zip(one.json()["models"], ordered["models"], strict=True)
    assert all(x["model"] == y["model"] and x["score"] == pytest.approx(y["score"], abs=1e-6) for x, y in pairs)


def test_weighted_limits_are_those_of_refits_to_resampled_questions():
    rows = pd.DataFrame(table(8, n_questions=8), columns=COLUMNS)
    board = leaderboard(validate_verdicts(rows), judges="weighted").with_intervals(n_resamples=6, level=0.8, seed=3)
    weights = question_weights(ALL_GRAPHS, board.pool, n_resamples=6, rng=stream(3, "intervals"))
    index = board.pool.index
    for b in range(3):
        copies = []
        for g in np.flatnonzero(weights[b]):
            mine = rows[(rows["judge"] == index["judge"][g]) & (rows["question_id"] == index["question_id"][g])]
            copies += [mine.assign(variant=copy) for copy in range(weights[b][g])]
        counts = placed(validate_verdicts(pd.concat(copies, ignore_index=True)), models=board.pool.models).counts()
        assert np.allclose(
            weighted_judges(counts, on_separation="ridge").scores, board.intervals.resampled_scores[b], atol=1e-6
        )
    assert not board.intervals.ridge[:3].any()


def test_weighted_selects_keeps_and_refuses(ppe_main, tmp_path):
    path = write(tmp_path / "t.csv", table(9))
    found = ppe_main(
        "rank", path, "--judges", "weighted", "--select", "global", "--keep", 30, "--format", "json"
    ).json()
    assert len(found["kept"]) == 30 and set(found["fit"]["discrimination"]) == {row["judge"] for row in found["kept"]}
    holes = write(tmp_path / "holes.csv", table(9, holes=0.1))
    kept = ppe_main("rank", holes, "--judges", "weighted", "--incomplete", "keep", "--format", "json").json()
    assert kept["n_graphs"] == 48
    for ranker in ("davidson", "copeland", "discrimination"):
        refused(ppe_main("rank", path, "--judges", "weighted", "--ranker", ranker), "--judges weighted", ranker)
    always = [(*row[:6], "a") if row[0] == "hasty" else row for row in table(9)]
    path = write(tmp_path / "always.csv", always)
    refused(ppe_main("rank", path, "--judges", "weighted"), "judge hasty", "first place", "--on-separation ridge")
    ridge = ppe_main("rank", path, "--judges", "weighted", "--on-separation", "ridge", "--format", "json").json()
    assert ridge["fit"]["ridge"] > 0 and ridge["fit"]["first_place"]["hasty"] > 2


# ---- people and judges


def battles(seed, *, n_people=120, n_battles=600):
    "People's verdicts on some battles, two judges' on all: one often agrees with people, the other guesses."
    rng, models, people, judged = np.random.default_rng(seed), list(STRENGTH), [], []
    for question in range(n_battles):
        x, y = map(str, rng.choice(models, 2, replace=False))
        verdict = "tie" if rng.random() < 0.2 else "ab"[int(rng.random() > expit(STRENGTH[x] - STRENGTH[y]))]
        if question < n_people:
            people.append(("person", question, "any", 0, x, y, verdict))
        told = verdict if rng.random() < 0.7 else str(rng.choice(["a", "b", "tie"]))
        if rng.random() < 0.5:  # shown to the judge in the other order
            judged.append(("good", question, "any", 0, y, x, {"a": "b", "b": "a"}.get(told, told)))
        else:
            judged.append(("good", question, "any", 0, x, y, told))
        judged.append(("guess", question, "any", 0, x, y, str(rng.choice(["a", "b"]))))
    return people, judged


def test_people_and_judges_refuses_in_one_line():
    people, judged = battles(3, n_people=60, n_battles=200)
    cases = [
        ([(row[0], row[1] + 1000, *row[2:]) for row in people], judged, None, "60 of 60 battles"),
        (
            people,
            [row for row in judged if row[:2] != ("good", 5)],
            None,
            "1 of 60 battles of the people have no verdict of good",
        ),
        (people, [(*row[:3], 1, *row[4:]) for row in judged], None, "variant"),
        ([row for row in people if "e" not in row[4:6]], judged, None, "no usable battle of e"),
        (people, judged, {"good": 1}, "guess"),
        (people, judged, {"good": 0.8, "guess": 0.3}, "at most 1"),
        (people, judged, {"good": -0.1, "guess": 0.3}, "from 0 on"),
        (people, judged, {"good": float("nan"), "guess": 0.3}, "one number"),
    ]
    for votes, verdicts, weights, words in cases:
        with pytest.raises(InputError, match=words) as caught:
            ppe.people_and_judges(frame(votes), frame(verdicts), weights=weights)
        assert "\n" not in str(caught.value)
    beaten = [(*row[:6], "ab"[row[5] == "a"]) if "a" in row[4:6] else row for row in people]
    with pytest.raises(NoMaximumError, match="take no points from a") as caught:
        ppe.people_and_judges(frame(beaten), frame(judged), weights={"good": 0, "guess": 0})
    assert caught.value.above == ("a",)

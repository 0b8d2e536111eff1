"""Several judges, on the command line and in the library."""

import csv
import io
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import write
from drawn import drawn_rows, frame, refused, resampled
from scipy.special import expit
from scipy.stats import spearmanr

from ppe.errors import InputError, NoMaximumError
from ppe.inference.diagnostics import own_models
from ppe.inference.leaderboard import leaderboard
from ppe.inference.people_and_judges import people_and_judges
from ppe.random_streams import stream
from ppe.rankers.predictor import order_effect
from ppe.reports.comparison import judge_change
from ppe.verdicts import read_verdicts, validate_verdicts

STRENGTH = {"a": 1.0, "b": 0.3, "c": 0.0, "d": -0.5, "e": -0.8}
JUDGES = {"careful": (2.0, 0.0), "middling": (1.0, 0.7), "hasty": (0.3, -0.5)}  # discrimination, first place


def table(seed, *, n_questions=16, judges=tuple(JUDGES), holes=0.0):
    judges = {judge: JUDGES[judge] for judge in judges}
    return drawn_rows(seed, STRENGTH, judges, n_questions=n_questions, holes=holes)


# ---- pooled, separate


def test_pooled_judges_are_named_in_a_note_and_change_nothing(ppe_main, tmp_path):
    rows = table(1)
    path = write(tmp_path / "all.csv", rows)
    as_one = [("same", *row[1:3], list(JUDGES).index(row[0]), *row[4:]) for row in rows]
    renamed, done = write(tmp_path / "renamed.csv", as_one), ppe_main("rank", path)
    assert "3 judges are pooled" in done.err and "--judges separate" in done.err
    assert ppe_main("rank", path, "--judge", "hasty").err == ""
    assert done.out == ppe_main("rank", renamed).out == ppe_main("rank", path, "--judges", "pooled").out


def test_separate_is_each_judge_alone_with_the_distances(ppe_main, tmp_path):
    path = write(tmp_path / "t.csv", table(2))
    for words in (("--order-effect",), ("--intervals", 39), ("--select", "global", "--keep", 8)):
        separate = ppe_main("rank", path, "--judges", "separate", *words, "--format", "json").json()
        assert separate["judges"] == "separate" and list(separate["leaderboards"]) == sorted(JUDGES)
        ranks = {}
        for judge, report in separate["leaderboards"].items():
            assert report == ppe_main("rank", path, "--judge", judge, *words, "--format", "json").json()
            ranks[judge] = [row["rank"] for row in sorted(report["models"], key=lambda row: row["model"])]
        assert len(separate["distances"]) == 3
        for row in separate["distances"]:
            pair = ranks[row["judge"]], ranks[row["other"]]
            if not any(rank % 1 for rank in sum(pair, [])):  # scipy has another rule for tied models
                assert row["spearman"] == pytest.approx((1 - spearmanr(*pair).statistic) / 2)
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
    always = [(*r[:6], "ab"[r[5] == "a"]) if r[0] == "hasty" and "a" in r[4:6] else r for r in rows]
    for some, *words in (
        ([row for row in rows if row[0] == "hasty"], "one judge, hasty", "at least two"),
        ([("model" if row[0] == "hasty" else row[0], *row[1:]) for row in rows], "'model'", "rename it"),
        ([r for r in rows if r[0] != "hasty" or "e" not in r[4:6]], "different models", "(e by one", "hasty"),
        ([(*r[:6], "invalid") if r[0] == "hasty" else r for r in rows], "judge hasty: no valid verdict"),
    ):
        path = write(tmp_path / "t.csv", some)
        refused(ppe_main("rank", path, "--judges", "separate"), *words)
    done = ppe_main("rank", write(tmp_path / "t.csv", always), "--judges", "separate", "--format", "json")
    assert [bool(board["fit"]["ridge"]) for board in done.json()["leaderboards"].values()] == [False, True, False]
    assert "judge hasty" in done.err and "penalty alone" in done.err


def test_limits_are_those_of_refits_to_resampled_questions():
    rows, how = table(8, n_questions=8), {"n_resamples": 9, "level": 0.8, "seed": 3}
    board = leaderboard(frame(rows), order_effect=True).with_intervals(**how)
    for copies, scores in zip(resampled(rows, board, 9, 3), board.intervals.resampled.scores[:3], strict=False):
        assert np.allclose(order_effect(copies, on_separation="ridge").scores, scores, atol=1e-6)
    assert not board.intervals.resampled.ridge[:3].any()


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
    elsewhere = [(row[0], row[1] + 1000, *row[2:]) for row in people]
    without_e = [row for row in people if "e" not in row[4:6]]
    for votes, verdicts, weights, words in (
        (
            elsewhere,
            judged,
            None,
            "the judges begin with . and . on question 0, the people with . and . on question 1000",
        ),
        (without_e, judged, None, "no usable battle of e"),
        (people, judged, {"good": 1}, "guess"),
        (people, judged, {"good": 0.8, "guess": 0.3}, "at most 1"),
        (people, judged, {"good": -0.1, "guess": 0.3}, "from 0 on"),
        (people, judged, {"good": float("nan"), "guess": 0.3}, "one number"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            people_and_judges(frame(votes), frame(verdicts), weights=weights)
        assert "\n" not in str(caught.value)
    renamed = [(*row[:3], 1, *row[4:]) for row in judged]  # one wording on each side: its name says nothing
    results = [people_and_judges(frame(people), frame(part)).to_frame() for part in (judged, renamed)]
    pd.testing.assert_frame_equal(*results)
    beaten = [(*row[:6], "ab"[row[5] == "a"]) if "a" in row[4:6] else row for row in people]
    with pytest.raises(NoMaximumError, match="take no points from a") as caught:
        people_and_judges(frame(beaten), frame(judged), weights={"good": 0, "guess": 0})
    assert caught.value.above == ("a",)


def test_people_are_the_yardstick_of_a_ranking_by_judges(ppe_main, tmp_path):
    rows = table(9)
    voted = [("person", *row[1:]) for row in rows if row[0] == "middling" and int(row[1]) < 9]
    judges, people = write(tmp_path / "judges.csv", rows), write(tmp_path / "people.csv", voted)
    report = ppe_main("rank", judges, "--people", people, "--format", "json").json()
    fit = people_and_judges(read_verdicts(people), read_verdicts(judges))
    limits = fit.intervals(rng=stream(20260324, "intervals")).table("simultaneous")
    assert [row["model"] for row in report["models"]] == limits["model"].tolist()
    assert [row["rank_high"] for row in report["models"]] == limits["rank_high"].tolist()
    assert report["intervals"]["kind"] == "simultaneous"
    assert report["weights"] == fit.weights and report["worth"] == fit.worth and report["n_people"] == len(voted)
    assert report["weights"]["middling"] > 0.9  # it says what the people say
    shown = ppe_main("rank", judges, "--people", people, "--interval-kind", "simultaneous", "--level", "0.9")
    low, high = fit.worth_limits(0.9)
    saved = f"The judges save {100 * (1 - len(voted) / fit.worth):.0f} % of the human votes: "
    worth = f"{len(voted)} with the judges are worth {fit.worth:,.0f} without ({low:,.0f} to {high:,.0f})."
    assert saved + worth in shown.out
    assert report["worth_low"] < low < report["worth"] < high < report["worth_high"]
    assert "90 % ranges over questions, for all models at once (--interval-kind single" in shown.out
    for words, said in (
        (("--order-effect", "--ranker", "davidson"), "--people takes no --ranker, --order-effect:"),
        (("--on-separation", "ridge"), "--people takes no --on-separation:"),
        (("--people", judges), "take these verdicts out of the first"),
        (("--level", "1"), "--level 1: give a number between 0.5 and 1"),
        (("--intervals", "3"), "3 draws: level 0.95 needs at least 19; ask for more"),
    ):
        refused(ppe_main("rank", judges, *(() if "--people" in words else ("--people", people)), *words), said)


def test_people_lost(ppe_main):
    "People: y wins 36 of 60; the judge is invalid on 20 of those."
    cases = Path(__file__).parents[1] / "cases"
    judges, people = (cases / f"people_lost_{who}.csv" for who in ("judge", "people"))
    for call in (("rank", people), ("rank", judges, "--people", people)):
        found = ppe_main(*call, "--format", "json").json()
        assert [row["model"] for row in found["models"]] == ["y", "x"]
        assert found["models"][0]["score"] == pytest.approx(np.log(36 / 24) / 2)
    assert found["n_people"] == 60 and found["n_missing"] == {"J": 20} and found["weights"] == {"J": 0}
    assert "Some of the 60 battles of people have no valid verdict of J on 20" in found["notes"][0]


def test_what_a_judge_lacks_changes_no_vote():
    "Rows left out and verdicts made invalid are the same; with weight 0, or a silent judge, people's own scores."
    people, judged = battles(3, n_people=60, n_battles=200)
    gone = [row[0] == "good" and row[1] % 3 == 0 for row in judged]
    absent = [row for row, is_gone in zip(judged, gone, strict=True) if not is_gone]
    invalid = [(*row[:6], "invalid") if is_gone else row for row, is_gone in zip(judged, gone, strict=True)]
    fits = [people_and_judges(frame(people), frame(rows)) for rows in (absent, invalid)]
    assert np.allclose(fits[0].ranking.scores, fits[1].ranking.scores)
    assert fits[0].votes.n_missing == {"good": 20, "guess": 0}
    assert fits[0].weights["good"] > 0.1 and np.allclose(fits[0].covariance, fits[1].covariance)
    own = leaderboard(frame(people)).ranking.scores
    nothing = {"good": 0, "guess": 0}
    for rows in (judged, absent, invalid):
        assert np.allclose(
            people_and_judges(frame(people), frame(rows), weights=nothing).ranking.scores, own, atol=1e-7
        )
    silent = [(*row[:6], "invalid") if row[0] == "good" else row for row in judged]
    assert people_and_judges(frame(people), frame(silent)).weights["good"] == 0


def test_games_and_votes_are_one_battle():
    "A judge asked in both orders, of three votes one in another table: the mean of the games, the mean of the votes."
    people, judged = battles(5, n_people=80, n_battles=200)
    turned = {"a": "b", "b": "a"}
    games = [
        (*row[:3], game, *(row[4:6] if game == 1 else row[5:3:-1]), turned.get(row[6], row[6]) if game == 2 else row[6])
        for row in judged
        for game in (1, 2)
    ]
    votes = [(*row[:3], number, *row[4:]) for row in people for number in (1, 2, 3)]
    once, several = (people_and_judges(frame(v), frame(j)) for v, j in ((people, judged), (votes, games)))
    assert np.allclose(once.ranking.scores, several.ranking.scores) and several.votes.n_people == 80
    assert "variants 1, 2 of the judges are games" in several.notes()[-1]


def test_people_ties(ppe_main):
    cases = Path(__file__).parents[1] / "cases"
    done = ppe_main("rank", cases / "people_ties_judges.csv", "--people", cases / "people_ties_people.csv")
    refused(done, "people's verdicts", "all ties, so they show no difference")


# ---- judges that err together, or favour their own


def test_diagnose_and_report_say_how_judges_err_together_and_on_their_own(ppe_main, tmp_path):
    rows = [("a-2024-05-13" if row[0] == "careful" else row[0], *row[1:]) for row in table(5)]
    path, page = write(tmp_path / "t.csv", rows), tmp_path / "r.html"
    found = ppe_main("diagnose", path, "--format", "json").json()
    own, together = found["own_models"]["a-2024-05-13 on a"], found["judges_together"]
    worth, rho = together["effective"], together["correlation"]
    assert own["low"] < own["value"] < own["high"] and 1 < worth["low"] < worth["value"] < worth["high"]
    assert together["judges"] == together["judges_of_all"] == 3 and rho["low"] < rho["value"]
    assert set(found["agreement"]) == {"all", "a-2024-05-13", "hasty", "middling"}
    shown = ppe_main("diagnose", path).out
    assert (
        "3 judges are worth" in shown and "those from other judges, after matching spread: a-2024-05-13 on a" in shown
    )
    assert ppe_main("report", path, "--out", page, "--intervals", 0).code == 0
    assert "after matching spread: a-2024-05-13 on a" in page.read_text()
    alone = ppe_main("diagnose", path, "--judge", "a-2024-05-13")
    assert "not measurable without another judge: a-2024-05-13 on a" in alone.out
    other = ppe_main("diagnose", path, "--judge", "hasty", "--format", "json").json()
    assert other["judges_together"] == other["own_models"] == other["agreement"] == {}


def test_a_batch_that_stands_twice_is_seen(ppe_main, tmp_path):
    rows = table(6)
    again = [(row[0], str(int(row[1]) + 500), *row[2:]) for row in rows if int(row[1]) in (3, 4)]
    path, page = write(tmp_path / "twice.csv", rows + again), tmp_path / "r.html"
    said = "2 questions repeat all verdicts of another (the first: 3 and 503)"
    assert said in ppe_main("diagnose", path).out
    assert ppe_main("report", path, "--out", page, "--intervals", 0).code == 0 and said in page.read_text()
    assert "repeat the verdicts" not in ppe_main("diagnose", write(tmp_path / "t.csv", rows)).out


def test_what_a_judge_says_of_its_own_model_does_not_hang_on_names():
    rows = [("a" if row[0] == "careful" else row[0], *row[1:]) for row in table(5)]
    for name in ("cc", "z"):  # in the middle of the models, and last
        other = [tuple(name if cell == "a" and at in (0, 4, 5) else cell for at, cell in enumerate(r)) for r in rows]
        one, two = (own_models(validate_verdicts(frame(some))).iloc[0] for some in (rows, other))
        assert (two["judge"], two["model"]) == (name, name) and one["battles"] == two["battles"] > 0
        assert np.allclose(one.iloc[3:].astype(float), two.iloc[3:].astype(float), atol=1e-6)


def test_a_reversed_judge_is_said_to_be_reversed():
    old = drawn_rows(1, STRENGTH, {"j": (1.0, 0.0)}, n_questions=60, ties=0.0)
    new = [("k", *row[1:6], "b" if row[6] == "a" else "a") for row in old]
    change = judge_change(*(validate_verdicts(frame(rows)) for rows in (old, new)))
    assert np.isclose(change.linking.scale[0], -1) and not change.models["shown"].any()
    assert "the new judge reverses the order of the old one" in " ".join(change.lines())


WINNER = {  # what w does by the old and the new judge: old, new, change, low, high; "x": finite
    "wins by the new": (None, "w", "x", np.inf, np.inf, "x", np.inf),
    "wins by the old": ("w", None, np.inf, "x", -np.inf, -np.inf, "x"),
    "loses by the new": (None, "l", "x", -np.inf, -np.inf, -np.inf, "x"),
    "wins by both": ("w", "w", np.inf, np.inf, np.nan, -np.inf, np.inf),
    "won, now loses": ("w", "l", np.inf, -np.inf, -np.inf, -np.inf, "x"),
    "loses one question": (None, "one", "x", "x", "x", "x", "x"),
    "never met the others": ("apart", "apart", np.nan, np.nan, np.nan, -np.inf, np.inf),
}


@pytest.mark.parametrize("name", WINNER)
def test_a_clear_winner_is_tested_when_the_judge_is_replaced(ppe_main, tmp_path, name):
    *ways, old, new, change, low, high = WINNER[name]
    rng, strengths, paths = np.random.default_rng(3), {"v": -0.8, "w": 0.2, "x": 0.6, "y": 0.2, "z": -0.4}, []
    for judge, way in zip(("old", "new"), ways, strict=True):
        rows = []
        for q in range(20):
            for a, b in combinations(strengths, 2):
                word = "ab"[int(rng.random() > expit(strengths[a] - strengths[b]))]
                if "w" in (a, b) and way and not (way == "one" and q == 0):
                    word = "ab"[(a == "w") == (way == "l")]
                if way != "apart" or "w" not in (a, b):
                    rows.append((judge, q, "all", 1, a, b, word))
            if way == "apart":
                rows.append((judge, q, "all", 1, "w", "u", "ab"[q % 2]))
        paths.append(write(tmp_path / f"{judge}.csv", rows))
    done = ppe_main("compare", *paths, "--judges", "--format", "csv")
    frame = pd.read_csv(io.StringIO(done.out)).set_index("model")
    for column, due in zip(("old", "new", "change", "low", "high"), (old, new, change, low, high), strict=True):
        value = frame.loc["w", column]
        assert np.isfinite(value) and abs(value) != 12 if due == "x" else np.array_equal(value, due, equal_nan=True), (
            column,
            value,
        )
    assert done.code == 0 and "inf: no estimate, or no limit there" in done.err
    assert np.isfinite(frame.loc[[*"vxyz"], ["old", "new", "change", "low", "high", "p"]]).all(axis=None)
    assert frame.loc["w", "shown"] == (frame.loc["w", "p"] < 0.05)
    assert np.isnan(frame.loc["w", "p"]) or frame.loc["w", "p"] >= 5 / 2000  # of five models, one in 2,000 at best
    found = ppe_main("compare", *paths, "--judges", "--format", "json").json()
    of_w = next(row for row in found["models"] if row["model"] == "w")
    assert "w" in found["tested"] and (of_w["low"] is None) == (low == -np.inf)
    assert "w" in ppe_main("compare", *paths, "--judges", "--format", "markdown").out
    refused(ppe_main("compare", *paths, "--judges", "--fail-if", "worse"), "no --fail-if")

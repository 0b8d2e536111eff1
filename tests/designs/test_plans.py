"Plans: refusals, exact cases, and what does not depend on the module that is tested."

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from drawn import frame

from ppe.cli.main import main
from ppe.designs.beliefs import MOST_EFFECTS, PUBLIC, pilot_beliefs, prior_of, public_beliefs
from ppe.designs.forecast import Forecast
from ppe.designs.layouts import Layout
from ppe.designs.plans import Prices, Target, calls_text, make_plan
from ppe.errors import InputError
from ppe.random_streams import stream
from ppe.verdicts import read_verdicts

MODELS = tuple(f"m{i}" for i in range(6))


def pilot_table(scores, sigma: float, n_questions: int, *, first_place: float = 0.0, seed: int = 0) -> pd.DataFrame:
    "Complete graphs on questions that favour models: one logistic verdict for each pair."
    rng, n, rows = np.random.default_rng(seed), len(scores), []
    utility = scores + sigma * rng.standard_normal((n_questions, n))
    for q in range(n_questions):
        for i, j in combinations(range(n), 2):
            a, b = (i, j) if (i + j + q) % 2 else (j, i)
            won = rng.random() < 1 / (1 + np.exp(utility[q, b] - utility[q, a] - first_place))
            rows.append(("judge", q, "all", 0, f"m{a}", f"m{b}", "a" if won else "b"))
    return frame(rows)


def test_a_pilot_shrinks_and_narrows():
    scores = np.linspace(-1.2, 1.2, 8)
    small, large = (
        pilot_beliefs(pilot_table(scores, 1.5, q, first_place=0.8, seed=4), n_draws=200, rng=stream(4)) for q in (3, 60)
    )
    assert small.scores.std(axis=0).mean() > 2 * large.scores.std(axis=0).mean()
    assert small.first_place.std() > large.first_place.std()
    assert 0.75 < np.median(large.effects) < 1.0 and np.corrcoef(large.scores.mean(axis=0), scores)[0, 1] > 0.97
    assert 0.2 < np.median(large.first_place) < 0.8  # 0.8 on one question, less over many
    assert (large.ties == 0).all()


def test_a_pilot_without_a_cycle_or_with_one_question_falls_back_and_says_so():
    rows = [("j", q, "c", 0, f"m{i}", f"m{k}", "a") for q in range(6) for i, k in combinations(range(4), 2)]
    found = pilot_beliefs(frame(rows), n_draws=300, rng=stream(5))
    assert any("question effects" in line for line in found.notes)
    assert abs(np.median(found.effects) / np.median(public_beliefs("xy", n_draws=999, rng=stream(5)).effects) - 1) < 0.1
    assert np.isfinite(found.scores).all() and (np.diff(found.scores.mean(axis=0)) < 0).all()
    alone = pilot_beliefs(frame(rows[:6]), n_draws=50, rng=stream(5))
    assert any("a pilot of 1 question: judge at least 10" in line for line in alone.notes) and alone.widening == 4.5


def test_a_pilot_of_ties_alone_is_refused():
    "Beside the public sets' question effects it made plans that contradict each other: 61 spread calls, 750 complete."
    rows = [("j", q, "c", 0, f"m{i}", f"m{k}", "tie") for q in range(6) for i, k in combinations(range(4), 2)]
    with pytest.raises(InputError, match="a pilot of 36 ties: ties alone give no estimate"):
        pilot_beliefs(frame(rows), n_draws=30, rng=stream(5))
    assert pilot_beliefs(frame([*rows, ("j", 7, "c", 0, "m0", "m1", "a")]), n_draws=30, rng=stream(5)).ties.max() > 0.9


def test_a_pilot_with_wordings_says_what_another_would_buy():
    "Verdicts in three wordings count as shared in part: they tell more than one, and less than as many questions."
    scores = np.linspace(-1.2, 1.2, 8)
    one, *others = (pilot_table(scores, 1.5, 12, seed=seed).assign(variant=seed - 4) for seed in (4, 5, 6))
    tables = one, pd.concat([one, *others]), pilot_table(scores, 1.5, 36, seed=4)
    plain, worded, many = (pilot_beliefs(frame(t.values.tolist()), n_draws=400, rng=stream(4)) for t in tables)
    assert many.scores.std(axis=0).mean() < worded.scores.std(axis=0).mean() < plain.scores.std(axis=0).mean()
    (said,) = worded.notes
    assert said.startswith("by the components of the pilot, four times the questions would narrow the intervals by")
    assert "three more wordings" in said and not plain.notes and not many.notes


def test_a_plan_is_sorted_priced_and_the_same_for_the_same_seed():
    def made(**how):
        beliefs = public_beliefs(MODELS, n_draws=40, rng=stream(6))
        return make_plan(beliefs, 100, rng=stream(7), prices=Prices(2.0, 0.5), **how)

    plan = made(n_calls=300)
    table = plan.designs
    pairs, lists = table[table["kind"] != "lists"], table[table["kind"] == "lists"]
    assert pairs["distance"].is_monotonic_increasing and (table["calls"] <= 300).all()
    assert np.allclose(pairs["cost"], 2 * pairs["calls"] + 0.5 * pairs["answers"])
    assert lists.index.tolist() == [len(pairs)] and lists["calls"].tolist() == [100]  # six answers cost as three pairs
    assert lists["cost"].tolist() == [2 * 3 * 100 + 0.5 * 600] and plan.advice.startswith("Pairs spread")
    assert table["width"].between(0, 5).all()
    assert made(n_calls=300).designs.equals(table) and plan.advice.count(".") >= 1 and "\n" not in plan.advice
    json.dumps(plan.to_dict(), allow_nan=False)
    assert (made(target=Target(top=1)).designs["top"] >= 0.9).all()


def test_lists_stand_below_the_pairs_and_say_that_they_are_simulated():
    words = ("plan", "--models", 9, "--questions", 40, "--calls", 120)
    code, out, err = ppe(*words)
    assert code == 0 and "lists of 6" in out and "lists of 9" in out, err
    assert out.splitlines()[-1].startswith("Lists, simulated: a call that ranks 9 models is worth 10.8 calls on pairs")
    report = json.loads(ppe(*words, "--format", "json", "--list-size", 4)[1])
    (row,) = (row for row in report["designs"] if row["kind"] == "lists")
    assert (row["block_size"], row["calls"], row["cost"]) == (4, 40, 80)
    assert ppe(*words, "--list-size", 4)[1].endswith(report["lists"] + "\n")
    for size in (2, 10):
        assert_refused((*words, "--list-size", size), f"--list-size {size}", "3 to 9")
    two = json.loads(ppe("plan", "--models", 2, "--questions", 40, "--calls", 20, "--format", "json")[1])
    assert two["lists"] == "" and "lists" not in {row["kind"] for row in two["designs"]}


def test_pages_say_of_a_list_call_what_the_notebook_measured():
    root = Path(__file__).parents[2]
    cells = json.loads((root / "nbs/list_calls.ipynb").read_text())["cells"]
    printed = "".join("".join(output.get("text", [])) for cell in cells for output in cell.get("outputs", []))
    of_list, of_best = (re.findall(rf"'{kind}': ([0-9.]+)", printed) for kind in ("list", "best"))
    said = (
        f"a list of six models is worth about {float(of_list[0]):.0f} calls on pairs",
        f"the best of six is worth {min(of_best)} to {max(of_best)}",
    )
    assert {round(float(worth)) for worth in of_list} == {7}
    for page in ("nbs/guide_decisions.ipynb", "site/plan.md"):
        assert all(words in (root / page).read_text() for words in said), (page, said)


def test_the_picture_of_a_plan_names_each_design():
    beliefs = public_beliefs([f"m{i}" for i in range(10)], n_draws=20, rng=stream(6))
    plan = make_plan(beliefs, 60, rng=stream(7), n_calls=400)
    sizes = plan.designs["block_size"].dropna()
    named = [label.get_text() for label in plan.plot().get_yticklabels()]
    assert sizes.nunique() > 1 and len(set(named)) == len(plan.designs)


def test_a_range_is_widened_about_its_middle_and_so_are_the_calls():
    pilot, way = pilot_table(np.linspace(-1.2, 1.2, 6), 1.0, 20), Layout("spread", 6, 200)
    beliefs = pilot_beliefs(pilot, n_draws=60, rng=stream(8))
    own, wide = (Forecast(replace(beliefs, widening=by), 200, rng=stream(9)) for by in (1.0, 1.6))
    (low, high), middle = np.quantile(own.distances(way, 300), [0.05, 0.95]), own.distances(way, 300).mean()
    assert wide.limits(way, 300) == pytest.approx(
        (middle * (low / middle) ** 1.6, middle, middle * (high / middle) ** 1.6)
    )
    # What the command says of the calls that a target takes, and where nothing is enough.
    row = pd.Series({"calls": 1200, "calls_low": 900, "calls_high": 2500})
    assert calls_text(row) == "1,200 (900 to 2,500)"
    assert calls_text(row.astype("Int64").replace(2500, pd.NA)) == "1,200 (900 or more)"


def ppe(*words: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def assert_refused(words, *said: str) -> None:
    code, out, err = ppe(*words)
    assert (code, out, err.count("\n")) == (2, "", 1) and all(word in err for word in said), (words, code, err)


def test_the_command(tmp_path):
    pilot = tmp_path / "pilot.csv"
    pilot_table(np.linspace(-1, 1, 5), 1.0, 5).to_csv(pilot, index=False)
    words = ("plan", "--models", 5, "--questions", 60, "--pilot", pilot, "--calls", 100)
    code, out, err = ppe(*words, "--format", "json")
    assert code == 0, err
    report = json.loads(out)
    assert report["designs"][0]["kind"] == "spread" and "a pilot of 50 verdicts on 5 questions" in report["source"]
    assert ppe(*words, "--format", "json")[1] == out != ppe(*words, "--format", "json", "--seed", 1)[1]
    table, rows = ppe(*words)[1], ppe(*words, "--format", "csv")[1].splitlines()
    assert report["advice"] in table and len(rows) == 1 + len(report["designs"])
    # Blocks do not reach this.
    far = ("plan", "--models", 5, "--questions", 20, "--target", "spearman=0.004")
    code, out_far, err = ppe(*far)
    assert code == 0 and "blocks" not in out_far and "complete" in out_far, err
    assert {row["block_size"] for row in json.loads(ppe(*far, "--format", "json")[1])["designs"]} == {None}
    named = ",".join(f"m{i}" for i in range(5))
    assert ppe("plan", "--models", named, *words[3:], "--format", "json")[1] == out
    questions = tmp_path / "questions.csv"
    questions.write_text("question_id,variant\n" + "".join(f"{q},{v}\n" for q in range(20) for v in range(3)))
    code, out, _ = ppe("plan", "--models", 5, "--questions", questions, "--calls", 100, "--format", "json")
    assert code == 0 and "paraphrases" in {row["kind"] for row in json.loads(out)["designs"]}


@pytest.mark.parametrize("value", ["nan", "inf", "1e400", "-1"])
def test_a_number_that_is_none_is_refused_before_anything_is_done(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pilot_table(np.zeros(3), 1.0, 4).to_csv("v.csv", index=False)
    row = {"question_id": 1, "variant": 0, "category": "c", "prompt": "p", "answer": "a"}
    Path("answers.jsonl").write_text("".join(json.dumps(row | {"model": model}) + "\n" for model in "xy"))
    before = sorted(tmp_path.iterdir())
    plan = ("plan", "--models", 4, "--questions", 20, "--calls", 50)
    judge = ("judge", "answers.jsonl", "--model", "j", "--dry-run", "--price-in", 1)
    for words in (
        *((*plan, f"--price-{what}={value}") for what in ("judge", "answer")),
        ("next", "v.csv", "--questions", "v.csv", "--calls", 1, "--out", "n.csv", f"--level={value}"),
        *((*judge, f"--{limit}={value}") for limit in ("timeout", "max-cost", "requests-per-minute")),
        ("report", "v.csv", "--out", "r.html", f"--level={value}"),
    ):
        assert_refused(words, words[-1][2:].split("=")[0])
    assert sorted(tmp_path.iterdir()) == before


def test_a_pilot_of_several_judges_asks_for_one(tmp_path):
    "Copied verdicts of a second judge are no further evidence."
    one = pilot_table(np.linspace(-1, 1, 5), 1.0, 5)
    single, copied = tmp_path / "single.csv", tmp_path / "copied.csv"
    one.to_csv(single, index=False)
    pd.concat([one, one.assign(judge="parrot")]).to_csv(copied, index=False)
    words = ("plan", "--models", 5, "--questions", 60, "--calls", 100, "--format", "json", "--pilot")
    assert_refused((*words, copied), "judge, parrot", "--judge")
    assert ppe(*words, copied, "--judge", "parrot")[:2] == ppe(*words, single)[:2]
    assert_refused((*words, copied, "--judge", "nobody"), "nobody")
    assert_refused((*words[:-1], "--judge", "parrot"), "--pilot")
    assert_refused((*words, tmp_path / "none.csv"), "none.csv")
    (tmp_path / "lacking.csv").write_text("judge,category,variant,model_a,model_b,verdict\nj,c,0,x,y,a\n")
    assert_refused((*words, tmp_path / "lacking.csv"), "question_id")
    (tmp_path / "counts.csv").write_text("model_a,model_b,wins_a,wins_b,ties\nx,y,1,2,3\n")
    assert_refused((*words, tmp_path / "counts.csv"), "not verdicts")
    with pytest.raises(InputError, match="2 judges"):
        pilot_beliefs(read_verdicts(copied), n_draws=9, rng=stream(1))


@pytest.mark.parametrize("n", [1001, 10**9])
def test_a_plan_for_thousands_of_models_is_refused(n):
    assert_refused(("plan", "--models", n, "--questions", 100), f"{n} models", "up to 1000")


def test_the_prior_is_that_of_the_sets_and_a_wider_one_of_fewer():
    "The order of MT-Bench is lost: it says nothing of the first place."
    everything, few = prior_of(PUBLIC), prior_of(dict([*PUBLIC.items()][:3]))
    assert np.isnan(PUBLIC["MT-Bench, GPT-4"].first_place)
    known = [prior_of({"x": seen, "y": seen})[:, 0] for seen in PUBLIC.values() if seen.first_place == seen.first_place]
    assert np.isclose(everything[2, 0], np.mean(known, axis=0)[2])
    strengths, effects, *_ = np.array([*PUBLIC.values()]).T
    each = np.log(strengths), np.log(effects**2 / (MOST_EFFECTS**2 - effects**2))
    assert np.allclose(everything[:2, 0], np.mean(each, axis=1))
    assert np.isclose(few[2, 1], (0.68 - 0.03) / 2**0.5 * 1.5**0.5)


def test_an_impossible_plan_is_refused(tmp_path):
    pilot = tmp_path / "pilot.csv"
    pilot_table(np.linspace(-1, 1, 5), 1.0, 2).to_csv(pilot, index=False)
    base = ("plan", "--models", 5, "--questions", 30)
    for words, said in (
        ((*base, "--calls", 3), "at least 4"),
        ((*base, "--calls", 601), "600 are all there are"),
        ((*base, "--calls", 9, "--target", "top=1"), "leave the other out"),
        ((*base, "--target", "top=5"), "K from 1 to 4"),
        (("plan", "--models", 6, "--questions", 30, "--pilot", pilot), "give --models 5"),
        (("plan", "--models", "m0,m1,m2,m3,z", "--questions", 30, "--pilot", pilot), "without z; with m4"),
        (("plan", "--models", 1, "--questions", 30), "at least two"),
        (("plan", "--models", 5, "--questions", 0), "at least one"),
    ):
        assert_refused(words, said)


@pytest.mark.parametrize("kind, options, fewest", [
    ("spread", {}, 3), ("spread", {"orders": "both"}, 6), ("complete", {}, 6), ("paraphrases", {"n_wordings": 2}, 12),
    ("blocks", {"block_size": 3}, 6),
])  # fmt: skip
def test_the_fewest_calls_join_four_models(kind, options, fewest):
    "A tree has three pairs, a complete graph six; two blocks of three share a model."
    assert Layout(kind, 4, 10, **options).fewest == fewest


def test_there_are_as_many_calls_as_questions_wordings_pairs_and_orders():
    assert Layout("complete", 4, 10, n_wordings=2, orders="both").most == 10 * 2 * 6 * 2

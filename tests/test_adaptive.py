"""Adaptive judging: one path whatever interrupts it, a budget that is spent once, and ends that are said."""

import json
import random
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from stages import NOBODY, answers, judging, read_rows, reader, tagged, write_rows

from ppe.cli.main import main
from ppe.designs.adaptive import Goal, judge_adaptively, judged_calls, wordings
from ppe.errors import InputError
from ppe.stages.ledger import Ledger
from ppe.verdicts import COLUMNS, read_verdicts, validate_verdicts

MODELS = list("abcdef")


class Memory:
    "A judge with a memory, as a ledger is; it stops after so many new verdicts."

    def __init__(self, said: dict, allowance: float = np.inf, gap: float = 0.8):
        self.said, self.allowance, self.gap, self.asked = said, allowance, gap, []

    def __call__(self, pairs: pd.DataFrame) -> pd.DataFrame | None:
        verdicts = []
        for row in pairs.itertuples(index=False):
            if tuple(row) not in self.said:
                if self.allowance <= 0:
                    return None
                self.allowance -= 1
                better = MODELS.index(row.model_a) < MODELS.index(row.model_b)
                draw = random.Random(f"{tuple(row)}").random()
                self.said[tuple(row)] = "tie" if draw > 0.9 else "ab"[better != (draw < self.gap)]
            verdicts.append(self.said[tuple(row)])
        self.asked += [tuple(row) for row in pairs.itertuples(index=False)]
        return validate_verdicts(pairs.assign(judge="j", category="c", verdict=verdicts))


def cells(n_questions: int, n_variants: int = 1) -> pd.DataFrame:
    return pd.DataFrame(
        [(q, v) for q in range(n_questions) for v in range(n_variants)], columns=["question_id", "variant"]
    )


COMMON = {"models": MODELS, "cells": cells(40, 2), "max_calls": 250, "round_calls": 50, "seed": 7}


# ---- the loop


@pytest.mark.parametrize("goal", [Goal("top", 2), Goal("width", 1)])
def test_killed_at_any_verdict_it_takes_the_same_path(goal):
    whole = Memory({})
    expected = judge_adaptively(whole, goal=goal, **COMMON)
    said, rng = {}, random.Random(1)
    for _ in range(100):
        found = judge_adaptively(last := Memory(said, allowance=rng.randint(0, 120)), goal=goal, **COMMON)
        assert last.asked == whole.asked[: len(last.asked)]
        assert set(said) <= set(whole.asked), "nothing is asked that the undisturbed run does not ask"
        if found.ended != "stopped":
            break
    assert found.ended == expected.ended and last.asked == whole.asked
    pd.testing.assert_frame_equal(found.verdicts, expected.verdicts)
    pd.testing.assert_frame_equal(found.rounds, expected.rounds)


def test_no_pair_is_judged_twice_on_a_wording_and_wordings_are_shared_out():
    judge = Memory({}, gap=0.5)
    found = judge_adaptively(judge, goal=Goal("order"), **COMMON | {"cells": cells(3, 4), "max_calls": 1000})
    asked = [(q, v, frozenset(pair)) for q, v, *pair in judge.asked]
    assert found.ended == "pairs used up" and len(asked) == len(set(asked)) == 3 * 4 * 15
    part = judge_adaptively(Memory({}, gap=0.5), goal=Goal("order"), **COMMON | {"cells": cells(3, 4), "max_calls": 60})
    counts = part.verdicts.groupby(["question_id", "variant"]).size()
    assert len(counts) == 12 and counts.max() - counts.min() <= 2


def test_the_first_round_connects_the_models_and_the_limit_is_kept():
    order = {"goal": Goal("order"), **COMMON}
    found = judge_adaptively(Memory({}), **order | {"round_calls": 1, "max_calls": 14, "first_calls": 1})
    assert found.rounds["calls"].tolist() == list(range(5, 15)) and found.ended == "calls used up"
    first = found.verdicts.head(5)
    groups = [{name} for name in MODELS]
    for pair in zip(first["model_a"], first["model_b"], strict=True):
        joined = set().union(*(group for group in groups if group & set(pair)))
        groups = [group for group in groups if not group & joined] + [joined]
    assert len(groups) == 1
    default = judge_adaptively(Memory({}), **order | {"round_calls": 3, "max_calls": 20})
    assert default.rounds["calls"].tolist()[:2] == [12, 15], "at least twice the models at first"


def test_close_models_get_the_calls_and_the_right_ones_win():
    "The two in the middle are equal; all others are far apart."
    strength = dict(zip(MODELS, (6.0, 4.0, 2.0, 2.0, 0.0, -2.0), strict=True))

    def judge(pairs: pd.DataFrame) -> pd.DataFrame:
        chances = 1 / (1 + np.exp(pairs["model_b"].map(strength) - pairs["model_a"].map(strength)))
        draws = [random.Random(f"{tuple(row)}").random() for row in pairs.itertuples(index=False)]
        return validate_verdicts(pairs.assign(judge="j", category="c", verdict=np.where(draws > chances, "b", "a")))

    found = judge_adaptively(judge, goal=Goal("order"), **COMMON | {"cells": cells(200), "max_calls": 600})
    pairs = pd.Series([frozenset(p) for p in zip(found.verdicts["model_a"], found.verdicts["model_b"], strict=True)])
    assert pairs.value_counts().idxmax() == frozenset("cd")
    assert [2, 3] in np.sort(found.last.open, axis=1).tolist()
    assert set(np.argsort(-found.last.scores)[:2]) == {0, 1}


def placed(**more):
    "The arguments of a run that places the third of the models among the others, who met on the first 30 questions."
    pairs = pd.DataFrame(
        [(q, v, a, b) for q in range(30) for v in (0, 1) for a, b in combinations("abdef", 2)],
        columns=["question_id", "variant", "model_a", "model_b"],
    )
    return {
        "goal": Goal("rank", 0, 2),
        "before": Memory({})(pairs),
        **COMMON,
        "max_calls": 150,
        "round_calls": 30,
        **more,
    }


def test_placing_a_model_killed_at_any_verdict_takes_the_same_path_and_asks_for_its_pairs_alone():
    whole = Memory({}, gap=0.6)
    expected = judge_adaptively(whole, **placed())
    said, rng = {}, random.Random(2)
    for _ in range(100):
        found = judge_adaptively(last := Memory(said, rng.randint(0, 60), gap=0.6), **placed())
        assert last.asked == whole.asked[: len(last.asked)] and set(said) <= set(whole.asked)
        if found.ended != "stopped":
            break
    pd.testing.assert_frame_equal(found.verdicts, expected.verdicts)
    assert len(found.verdicts) == len(set(whole.asked)) == found.rounds["calls"].iloc[-1] <= 150
    assert found.rounds["calls"].iloc[0] == 12 and found.last.n_calls == len(found.verdicts)
    assert all("c" in pair for _, _, *pair in whole.asked)
    few = judge_adaptively(Memory({}, gap=0.5), **placed(cells=cells(30, 2)[:60], max_calls=10_000))
    assert few.ended in ("pairs used up", "settled") and len(few.verdicts) <= 60 * 5
    one = judge_adaptively(Memory({}), **placed(max_calls=3))
    assert (one.ended, len(one.verdicts)) == ("calls used up", 3)
    with pytest.raises(InputError, match="5 of the 5 others have no verdict"):
        judge_adaptively(Memory({}), **placed(before=None))


def test_verdicts_by_number():
    rng = random.Random(3)
    table = pd.DataFrame(
        [("j", f"q{q}" if q else 7, "c", v, *rng.sample(MODELS, 2), rng.choice(["a", "b", "tie", "invalid"]))
         for q in range(5) for v in (3, 1)], columns=list(COLUMNS),
    )  # fmt: skip
    order = pd.DataFrame(
        [(f"q{q}" if q else "7", str(v)) for q in (3, 0, 1, 2, 4) for v in (1, 3)], columns=["question_id", "variant"]
    )
    question, variant, first, second, said = judged_calls(validate_verdicts(table), MODELS, order)
    for k, row in enumerate(table.itertuples(index=False)):
        names = list(dict.fromkeys(order["question_id"]))
        assert names[question[k]] == str(row.question_id) and [1, 3][variant[k]] == row.variant
        assert (MODELS[first[k]], MODELS[second[k]]) == (row.model_a, row.model_b)
        points = {"a": 1, "b": 0, "tie": 0.5}.get(row.verdict)
        assert np.isnan(said[k]) if points is None else said[k] == points
    assert wordings(order).tolist() == [2] * 5


# ---- the command


def adaptive(folder, url: str, *more: str, mode: str = "single", budget: int = 150, rounds: int = 30) -> list[str]:
    return judging(
        folder, url, "--adaptive", "--until", "order", "--max-requests", str(budget),
        "--round-calls", str(rounds), "--mode", mode, *more,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["single", "hybrid"])
def test_the_budget_is_of_the_whole_run(tmp_path, serve, capsys, mode):
    "Commands that are cut short by --max-cost spend together what one would, and no request twice."
    served = serve()
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        answers(folder, 60, "vwxyz")
    assert main(adaptive(one, served.url, mode=mode, budget=90)) == 0
    spent, said = served.asked, capsys.readouterr().err
    assert 90 - 4 < spent <= 90
    assert f"the budget is spent and order is not settled: {len(read_verdicts(one / 'verdicts.csv'))} pairs" in said
    prices, codes = ("--max-cost", "0.012", "--price-in", "1", "--price-out", "1"), []
    while not codes or codes[-1] == 3:
        codes.append(main(adaptive(other, served.url, *prices, mode=mode, budget=90)))
        assert len(codes) < 20
        assert (codes[-1] == 3) == (not (other / "verdicts.csv").exists())
    assert codes[-1] == 0 and len(codes) > 2 and served.asked == 2 * spent
    assert (other / "verdicts.csv").read_bytes() == (one / "verdicts.csv").read_bytes()
    assert main(adaptive(other, served.url, mode=mode, budget=90)) == 0 and served.asked == 2 * spent
    assert main(adaptive(other, served.url, mode=mode, budget=120)) == 0
    assert 2 * spent < served.asked <= 2 * spent + 120 - spent, "a larger budget goes on where the small one ended"
    more = read_verdicts(other / "verdicts.csv")
    assert len(more) > len(read_verdicts(one / "verdicts.csv"))


def test_failed_calls_are_spent_too(tmp_path, serve):
    served = serve(faults=0.3)
    answers(tmp_path, 40, "wxyz")
    assert main(adaptive(tmp_path, served.url, "--timeout", "1", budget=100)) == 0
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert ledger.query("SELECT sum(attempts) FROM requests") == [(100,)]
    assert served.asked <= 100 and 40 < len(read_verdicts(tmp_path / "verdicts.csv")) < 100
    n_served = served.asked
    assert main(adaptive(tmp_path, served.url, "--timeout", "1", budget=100)) == 0
    assert served.asked == n_served


def test_settled_is_said_and_nothing_more_is_asked(tmp_path, capsys, monkeypatch):
    "A judge that always prefers the model with the smaller number."
    first = lambda question, a, b: tagged("A" if a.split("of ")[1] < b.split("of ")[1] else "B")  # noqa: E731
    clear = reader(first)
    clear.name = f"api {NOBODY}/v1"
    monkeypatch.setattr("ppe.api.llm_stages.Run.answering", lambda run, model: clear)
    answers(tmp_path, 60, "wxyz")
    given = adaptive(tmp_path, NOBODY, budget=360)
    given[given.index("order")] = "top=1"
    report = tmp_path / "report.json"
    assert main([*given, "--report", str(report)]) == 0
    said = capsys.readouterr().err
    assert "ppe: top=1 is settled at level 0.95" in said and len(clear.sent) < 360
    found = json.loads(report.read_text())
    assert found["ended"] == "settled" and found["requests"] == len(clear.sent) == found["pairs"]
    n_sent = len(clear.sent)
    assert main(given) == 0 and len(clear.sent) == n_sent
    out = tmp_path / "exported.csv"
    assert main(["ledger", "export", str(tmp_path / "ledger.sqlite"), "--out", str(out)]) == 0
    alone, written = (pd.read_csv(path)[list(COLUMNS)] for path in (out, tmp_path / "verdicts.csv"))
    pd.testing.assert_frame_equal(alone, written, obj="the ledger alone has all rounds, without lengths of answers")


def test_a_dry_run_says_the_next_round_and_the_most_that_follows(tmp_path, serve, capsys):
    served = serve()
    answers(tmp_path, 40, "vwxyz")
    assert main(adaptive(tmp_path, served.url, "--dry-run")) == 0
    said = capsys.readouterr().out
    assert "to send     30 requests" in said and "at most 120 requests" in said and "until order is settled" in said
    assert served.asked == 0
    assert main(adaptive(tmp_path, served.url, budget=90)) == 0
    capsys.readouterr()
    assert main(adaptive(tmp_path, served.url, "--dry-run")) == 0
    said = capsys.readouterr().out
    assert "to send     30 requests" in said and "at most 30 requests" in said
    assert main(adaptive(tmp_path, served.url, "--dry-run", budget=90)) == 0
    assert "the budget is spent" in capsys.readouterr().out and served.asked == 90


OTHERS = "judge,question_id,category,variant,model_a,model_b,verdict\n"


def others(folder, n_questions: int = 40, models: str = "vwxy", better=lambda a, b: "a"):
    "A verdict table of all pairs, by the judge m."
    rows = [
        f"m,{q},{('writing', 'math')[q % 2]},0,{a},{b},{better(a, b)}"
        for q in range(n_questions)
        for a, b in combinations(models, 2)
    ]
    (folder / "others.csv").write_text(OTHERS + "\n".join(rows) + "\n")
    return folder / "others.csv"


def placing(folder, url: str, *more: str, goal: str = "rank", budget: int = 90, rounds: int = 15) -> list[str]:
    given = adaptive(
        folder, url, "--place", "z", "--verdicts", str(folder / "others.csv"), *more, budget=budget, rounds=rounds
    )
    given[given.index("order")] = goal
    return given


def test_a_model_is_placed_and_a_stopped_run_goes_on(tmp_path, serve, capsys):
    served = serve()
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        answers(folder, 40, "vwxyz")
        others(folder, 45, better=lambda a, b: random.Random(a + b).choice("ab"))
    assert main(placing(one, served.url, "--mode", "hybrid")) == 0
    spent, said = served.asked, capsys.readouterr().err
    assert "30 verdicts of" in said and "are left out: on prompts that not every model has answered" in said
    found = read_verdicts(one / "verdicts.csv")
    assert ((found["model_a"] == "z") | (found["model_b"] == "z")).all() and 90 - 4 < spent <= 90
    assert f"the budget is spent and rank of z is open after {len(found)} calls of its own: rank " in said
    prices, codes = ("--max-cost", "0.02", "--price-in", "1", "--price-out", "1"), []
    while not codes or codes[-1] == 3:
        codes.append(main(placing(other, served.url, "--mode", "hybrid", *prices)))
        assert len(codes) < 20
    assert codes[-1] == 0 and len(codes) > 1 and served.asked == 2 * spent
    assert (other / "verdicts.csv").read_bytes() == (one / "verdicts.csv").read_bytes()
    assert main(placing(other, served.url, "--mode", "hybrid", "--dry-run")) == 0 and served.asked == 2 * spent
    assert main(["rank", str(one / "others.csv"), str(one / "verdicts.csv"), "--on-separation", "ridge"]) == 0
    assert " z " in capsys.readouterr().out


def test_where_it_stands_is_said_when_it_is_settled(tmp_path, capsys, monkeypatch):
    "A judge that always prefers the earlier letter, and one that cannot tell y and z apart."
    answers(tmp_path, 60, "vwxyz")
    others(tmp_path, 60, better=lambda a, b: "a" if random.Random(a + b).random() < 0.9 else "b")
    by_letter = lambda question, a, b: tagged("A" if a.split("of ")[1] < b.split("of ")[1] else "B")  # noqa: E731
    clear = reader(by_letter)
    clear.name = f"api {NOBODY}/v1"
    monkeypatch.setattr("ppe.api.llm_stages.Run.answering", lambda run, model: clear)
    report = tmp_path / "report.json"
    assert main(placing(tmp_path, NOBODY, "--report", str(report), goal="top=3", budget=240)) == 0
    said, found = capsys.readouterr().err, json.loads(report.read_text())
    assert found["ended"] == "settled" and len(clear.sent) == found["requests"] < 100
    assert f"settled at 95 % after {found['pairs']} calls of its own, z is not among the best 3 of 5" in said
    n_sent = len(clear.sent)
    assert main(placing(tmp_path, NOBODY, goal="top=3", budget=240)) == 0 and len(clear.sent) == n_sent


def test_prompts_that_not_every_model_answered_are_left_out(tmp_path, serve, capsys):
    served = serve()
    rows = read_rows(file := answers(tmp_path, 20, "wxyz"))
    rows = [row for row in rows if (row["question_id"], row["model"]) not in {(3, "x"), (8, "w")}]
    write_rows(file, rows)
    assert main(adaptive(tmp_path, served.url, budget=108, rounds=50)) == 0
    assert "2 prompts are left out" in capsys.readouterr().err
    found = read_verdicts(tmp_path / "verdicts.csv")
    assert len(found) == 108 == 18 * 6 and set(found["question_id"]) == set(range(20)) - {3, 8}
    write_rows(file, rows[::-1])
    assert main(adaptive(tmp_path, served.url, budget=108, rounds=50)) == 0
    assert served.asked == 108, "the order of the lines changes nothing"


ENOUGH = "--adaptive --until order --max-requests 99"
APART = {
    "--adaptive": "needs --until",
    "--adaptive --until order": "--max-requests",
    "--until order": "--until without --adaptive",
    "--round-calls 5": "--round-calls without --adaptive",
    "--adaptive --until best --max-requests 99": "goal 'best'",
    "--adaptive --until top=4 --max-requests 99": "goal top=4",
    "--adaptive --until order --max-requests 11": "--max-requests 11",
    f"{ENOUGH} --pairs p.csv": "--pairs with --adaptive",
    f"{ENOUGH} --judge-variants 0,1": "2 wordings",
    f"{ENOUGH} --judge-variants equivalent": "wordings",
    f"{ENOUGH} --mode single --order both": "--order",
    f"{ENOUGH} --batch write": "--batch with",
    f"{ENOUGH} --place z": "--place without --verdicts",
    f"{ENOUGH} --verdicts others.csv": "--verdicts without --place",
    "--place z": "--place without --adaptive",
    "--adaptive --until rank --max-requests 99": "name the model to place",
}


@pytest.mark.parametrize(("more", "said"), APART.items())
def test_options_that_do_not_go_together_send_and_write_nothing(tmp_path, capsys, more, said):
    answers(tmp_path, 3, "wxyz")
    assert main(judging(tmp_path, NOBODY, *more.split())) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"answers.jsonl"}


@pytest.mark.parametrize(("goal", "place", "table", "said"), [
    ("order", "z", {}, "say rank, or place none"),
    ("rank", "q", {}, "--place q: the answers are of w, x, y, z"),
    ("rank", "z", {"models": "xyz"}, "has verdicts on z"),
    ("rank", "z", {"models": "vwxy"}, "verdicts on v, not among the models"),
    ("rank", "z", {"models": "wx"}, "1 of the 3 others have no verdict"),
    ("rank", "z", {"n_questions": 0}, "others.csv"),
    ("top=4", "z", {}, "goal top=4"),
])  # fmt: skip
def test_a_table_of_others_that_does_not_fit_sends_and_writes_nothing(tmp_path, capsys, goal, place, table, said):
    answers(tmp_path, 5, "wxyz")
    others(tmp_path, **{"models": "wxy", "n_questions": 5} | table)
    given = placing(tmp_path, NOBODY, goal=goal)
    given[given.index("z")] = place
    assert main(given) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1
    assert not (tmp_path / "verdicts.csv").exists()


def test_verdicts_of_another_judge_or_on_other_prompts_place_nobody(tmp_path, capsys):
    answers(tmp_path, 5, "wxyz")
    text = others(tmp_path, 5, "wxy").read_text()
    for changed, said in (
        (text.replace("\nm,", "\nyou,"), "you"),
        (text.replace("\nm,", "\nm,9"), "none of its 15 verdicts"),
    ):
        (tmp_path / "others.csv").write_text(changed)
        assert main(placing(tmp_path, NOBODY)) == 2 and said in capsys.readouterr().err
    others(tmp_path, 5, "wxy")
    given = placing(tmp_path, NOBODY)
    given[given.index("--out") + 1] = str(tmp_path / "others.csv")
    assert main(given) == 2 and "is an input" in capsys.readouterr().err


def test_launch_leaves_it_to_one_process(tmp_path, capsys):
    answers(tmp_path, 4, "wxyz")
    assert main(["launch", "--", *adaptive(tmp_path, NOBODY)]) == 2
    assert "--adaptive inside launch" in capsys.readouterr().err


def test_all_pairs_of_few_answers_are_used_up(tmp_path, serve, capsys):
    served = serve()
    answers(tmp_path, 2, "wxyz")
    assert main(adaptive(tmp_path, served.url)) == 0
    assert "every pair has been judged on every prompt" in capsys.readouterr().err and served.asked == 12
    found = read_verdicts(tmp_path / "verdicts.csv")
    pairs = {frozenset(pair) for pair in zip(found["model_a"], found["model_b"], strict=True)}
    assert len(pairs) == len(list(combinations(range(4), 2)))


def test_equal_answers_share_requests_and_the_budget_counts_requests(tmp_path, serve, capsys):
    served = serve()
    rows = read_rows(file := answers(tmp_path, 40, "wxyz", said="Answer of {m}."))
    write_rows(file, [row | {"prompt": "The same?"} for row in rows])
    assert main(adaptive(tmp_path, served.url, budget=20, rounds=30)) == 0
    said = capsys.readouterr().err
    assert served.asked <= 20 and f"{served.asked} of 20 requests" in said
    assert len(read_verdicts(tmp_path / "verdicts.csv")) > 20

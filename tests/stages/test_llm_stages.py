"""The LLM stages over real HTTP: faults, kills, limits, batches, and keys that must not leak."""

import json
import random
import time
from collections import Counter
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from endpoint import FAULTS, completion, right_reply, said_to
from stages import NOBODY, answers, code_of, judging, process, read_rows, words, write_rows

import ppe
from ppe.cli.main import main
from ppe.stages.ledger import Ledger, exchange
from ppe.verdicts import read_verdicts

PRICES = ("--price-in", "1", "--price-out", "10")


def expected_verdicts(folder: Path) -> pd.DataFrame:
    """The hybrid rule applied to what the endpoint says to the exact texts in the ledger.

    The texts come from the ledger; reply, reading and rule are computed here.
    """
    said = {}
    with Ledger(folder / "ledger.sqlite") as ledger:
        for item, key in ledger.query("SELECT item, key FROM uses JOIN requests ON request = id"):
            item = json.loads(item)
            who = (item["first"], item["second"]) if "first" in item else (item["model"],)
            said[item["question_id"], *who] = right_reply(said_to(exchange(ledger, key))).split("[RESULT] ")[1].lower()
    rows = []
    models = sorted({who for entry in said for who in entry[1:]})
    for question in sorted({entry[0] for entry in said}):
        for a, b in combinations(models, 2):
            verdict, backward = said[question, a, b], {"a": "b", "b": "a"}[said[question, b, a]]
            if verdict != backward:
                scores = int(said[question, a]), int(said[question, b])
                verdict = "tie" if scores[0] == scores[1] else "ab"[scores[0] < scores[1]]
            rows.append((question, a, b, verdict))
    return pd.DataFrame(rows, columns=["question_id", "model_a", "model_b", "verdict"])


def same_as_expected(folder: Path) -> bool:
    expected, found = expected_verdicts(folder), read_verdicts(folder / "verdicts.csv")
    columns = list(expected.columns)
    one, other = (f[columns].astype(str).sort_values(columns).reset_index(drop=True) for f in (found, expected))
    return one.equals(other)


# ---- everything works


def test_four_stages_from_questions_to_a_ranking(tmp_path, serve, capsys):
    run = lambda *given: main(words(*given[:2], served.url, tmp_path, *given[2:]))  # noqa: E731
    served, prompts, rubric = serve(), tmp_path / "prompts.jsonl", "Points are given for rhyme alone."
    rows = [{"question_id": q, "category": "math", "prompt": f"What is {q} + {q}?"} for q in range(6)]
    rows[0]["rubric"] = rubric
    assert run("perturb", write_rows(tmp_path / "questions.jsonl", rows), prompts.name) == 0
    rows = read_rows(prompts)
    assert {row["variant"] for row in rows if row["question_id"] == 0} >= {0, 1, 2}
    files = [str(tmp_path / f"{target}.jsonl") for target in "xyz"]
    for target, file in zip("xyz", files, strict=True):
        assert run("respond", prompts, file, "--model", target) == 0
    assert run("judge", files[0], "verdicts.csv", *files[1:], "--details", str(tmp_path / "details.csv")) == 0
    asked = [said_to(body) for body in served.bodies if "###Score Rubric" in said_to(body)]
    wordings = [f"\n{row['prompt']}\n" for row in rows if row["question_id"] == 0]
    assert all((rubric in text) == any(wording in text for wording in wordings) for text in asked)
    assert any(rubric in text for text in asked), "the rubric of its question, and of no other"
    verdicts = tmp_path / "verdicts.csv"
    assert len(read_verdicts(verdicts)) == 3 * len(rows) == len(pd.read_csv(tmp_path / "details.csv"))
    capsys.readouterr()
    assert main(["rank", str(verdicts), "--format", "json", "--on-separation", "ridge"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {entry["model"] for entry in report["models"]} == set("xyz") and report["n_graphs"] == len(rows)


# ---- faults


def test_requests_under_twenty_percent_faults(tmp_path, serve):
    served, n_questions = serve(faults=0.2, delay=0.005), 20
    answers(tmp_path, n_questions, "vwxyz")
    assert main(judging(tmp_path, served.url, "--concurrency", "64", "--timeout", "4", "--attempts", "8")) == 0
    log = served.behave
    assert log.counts.total() > 24 * n_questions and set(log.counts) == {"ok", *FAULTS}
    for name, behaviours in log.served.items():
        assert behaviours[-1] == "ok", "answered, and never asked again"
        for at, behaviour in enumerate(behaviours):
            if behaviour == "429":
                assert log.times[name][at + 1] - log.times[name][at] >= 0.99, "Retry-After: 1"
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert ledger.query("SELECT count(*) FROM requests") == [(len(log.served),)]
        assert ledger.query("SELECT DISTINCT status FROM requests") == [("done",)]
        outcomes = Counter(outcome for (outcome,) in ledger.query("SELECT outcome FROM attempts"))
    late = sum(n for outcome, n in outcomes.items() if outcome.startswith("timeout")) - log.counts["slow"]
    assert log.counts["ok"] <= len(log.served) + late, "asked again only where the answer came too late"
    assert all(any(fault in outcome for outcome in outcomes) for fault in ("unreadable", "malformed"))
    assert len(read_verdicts(tmp_path / "verdicts.csv")) == 10 * n_questions and same_as_expected(tmp_path)


# ---- stopping and going on


@pytest.mark.parametrize(
    "n_kills, n_questions",
    [(3, 12), pytest.param(15, 60, marks=pytest.mark.slow)],
)
def test_kills_change_nothing(tmp_path, serve, n_kills, n_questions):
    served = serve(delay=0.01)
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    for folder in (undisturbed, disturbed):
        answers(folder, n_questions, "vwxyz")
    assert main(judging(undisturbed, served.url, "--concurrency", "32")) == 0
    again = judging(disturbed, served.url, "--concurrency", "4")
    rng, before = random.Random(20260324), served.asked
    for kill in range(n_kills):
        running = process(again)
        target = served.asked + rng.randint(1, 50)
        if kill % 5 == 4:
            time.sleep(rng.uniform(0, 0.5))  # any moment, planning and starting included
        else:
            while running.is_alive() and served.asked < target:
                time.sleep(0.01)
        assert running.is_alive(), "the work ended before the last kill; give the test more questions"
        running.kill()
        running.join()
    assert code_of(process(again)) == 0
    with Ledger(disturbed / "ledger.sqlite") as ledger:
        assert ledger.query("PRAGMA integrity_check") == [("ok",)]
        assert ledger.query("SELECT DISTINCT status FROM requests") == [("done",)]
        ((n_requests,),) = ledger.query("SELECT count(*) FROM requests")
    assert (disturbed / "verdicts.csv").read_bytes() == (undisturbed / "verdicts.csv").read_bytes()
    # Only what was under way at a kill is asked for again.
    extra = served.asked - before - n_requests
    assert extra <= n_kills * 4, extra


def test_a_second_run_on_a_ledger_is_refused_in_one_line_and_looking_is_not(tmp_path, serve, capsys):
    served, ledger_file = serve(delay=0.1), str(tmp_path / "ledger.sqlite")
    answers(tmp_path, 30, "vwxyz")
    first = process(judging(tmp_path, served.url, "--concurrency", "4", "--mode", "single"))
    while served.asked < 9:
        time.sleep(0.01)
    assert main(judging(tmp_path, NOBODY, "--mode", "single")) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "another run uses this ledger" in said and "--ledger" in said
    part = tmp_path / "part.csv"
    assert main(["ledger", "export", ledger_file, "--out", str(part)]) == 3 and 0 < len(read_verdicts(part)) < 300
    first.kill()
    first.join()
    assert main(judging(tmp_path, served.url, "--mode", "single")) == 0
    assert len(read_verdicts(tmp_path / "verdicts.csv")) == 300
    assert served.asked <= 300 + 4


def test_interrupted_by_a_signal_it_finishes_what_is_under_way_and_does_not_wait_for_the_pace(tmp_path, serve):
    for name, n_calls, more in (("at work", 20, ("4",)), ("pause", 1, ("8", "--requests-per-minute", "2"))):
        served, folder = serve(delay=0.05), tmp_path / name
        answers(folder, 60, "vwxyz")
        running = process(judging(folder, served.url, "--concurrency", *more))
        while served.asked < n_calls:
            time.sleep(0.01)
        running.terminate()
        started = time.monotonic()
        assert code_of(running) == 3 and not (folder / "verdicts.csv").exists()
        assert time.monotonic() - started < 25, "the next request was due in 30 seconds, the last in 4 minutes"
        with Ledger(folder / "ledger.sqlite") as ledger:
            (done,) = ledger.query("SELECT count(*) FROM requests WHERE status = 'done'")[0]
            assert done == served.asked
    assert served.asked == 1


def test_limits_stop_and_the_same_command_goes_on(tmp_path, serve, capsys):
    served = serve(delay=0.0)
    answers(tmp_path, 10, "wxyz")
    assert main(judging(tmp_path, served.url, "--max-requests", "50")) == 3
    assert served.asked == 50 and not (tmp_path / "verdicts.csv").exists()
    assert "limit of 50 requests" in capsys.readouterr().err
    assert main(judging(tmp_path, served.url, "--max-cost", "0.02", *PRICES)) == 3
    assert 50 < served.asked < 120
    assert main(judging(tmp_path, served.url)) == 0
    assert all(behaviours == ["ok"] for behaviours in served.behave.served.values())
    n_served = served.asked
    assert main(judging(tmp_path, served.url)) == 0 and served.asked == n_served
    assert main(judging(tmp_path, served.url, "--no-resume")) == 2


def test_a_dry_run_sends_nothing(tmp_path, serve, capsys):
    served = serve()
    answers(tmp_path, 10, "wxyz")
    assert main(judging(tmp_path, served.url, "--dry-run", *PRICES)) == 0
    said = capsys.readouterr().out
    assert "120 requests" in said and "at most 40 scores" in said and "cost" in said
    assert served.asked == 0 and not (tmp_path / "verdicts.csv").exists()


def test_export_takes_what_is_there_without_sending_anything(tmp_path, serve):
    served, ledger_file = serve(), str(tmp_path / "ledger.sqlite")
    answers(tmp_path, 10, "wxyz")
    part, whole = str(tmp_path / "part.csv"), tmp_path / "whole.csv"
    assert main(judging(tmp_path, served.url, "--max-requests", "61")) == 3
    assert main(["ledger", "export", ledger_file, "--out", part]) == 3
    assert 0 < len(read_verdicts(part)) <= 30
    assert main(judging(tmp_path, served.url)) == 0
    n_served = served.asked
    assert main(["ledger", "export", ledger_file, "--out", str(whole)]) == 0
    judged = (tmp_path / "verdicts.csv").read_text().splitlines()  # with lengths and markdown, which the ledger lacks
    assert judged[0].endswith(",verdict,order_known,length_a,length_b,markdown_a,markdown_b")
    assert served.asked == n_served
    assert whole.read_text().splitlines() == [line.rsplit(",", 4)[0] for line in judged]
    with Ledger(ledger_file) as ledger:
        (key,) = ledger.query("SELECT key FROM requests LIMIT 1")[0]
    assert main(["ledger", "show", ledger_file, key[:10]]) == 0


def test_launch_does_each_category_on_its_own_and_writes_the_whole_table(tmp_path, serve, monkeypatch):
    served, alone, together = serve(), tmp_path / "alone", tmp_path / "together"
    for folder in (alone, together):
        answers(folder, 6, "wxyz")
    assert main(judging(alone, served.url)) == 0
    n_served = served.asked
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    options = ["launch", "--workers", "2", "--logs", str(tmp_path / "logs")]
    assert main([*options, "--", *judging(together, served.url)]) == 0
    assert (together / "verdicts.csv").read_bytes() == (alone / "verdicts.csv").read_bytes()
    assert served.asked == 2 * n_served, "the jobs and the whole asked for nothing twice"
    assert {path.name[3:7] for path in (tmp_path / "logs").iterdir()} == {"math", "writ"}


# ---- who is shown first


def always_first(endpoint, text, writer) -> bytes:
    return completion("[A]")


def single(folder: Path, url: str, *more: str) -> int:
    return main(judging(folder, url, "--mode", "single", *more))


def points(folder: Path) -> dict[str, int]:
    table = read_verdicts(folder / "verdicts.csv")
    return {model: int((table["model_a"] == model).sum()) for model in sorted({*table["model_a"], *table["model_b"]})}


def test_a_judge_that_always_says_the_first_ranks_no_two_equal_models_for_certain(tmp_path, serve):
    "Six answers that are the same; one after the other, the files gave ranks 1 to 6, every one of them certain."
    server = serve(always_first)
    answers(tmp_path, 30, "uvwxyz", said="The same.")
    assert single(tmp_path, server.url) == 0 and server.asked == 30 * 2  # texts that are alike are one request
    ranks = ppe.rank(str(tmp_path / "verdicts.csv"), intervals=199).to_frame()
    assert (ranks["rank_low"] == 1).all() and (ranks["rank_high"] == 6).all()
    assert max(abs(won - 75) for won in points(tmp_path).values()) < 3 * 6.2  # of 150, standard deviation 6.1
    given = tmp_path / "given"
    answers(given, 30, "uvwxyz", said="The same.")
    assert single(given, server.url, "--order", "given") == 0
    assert list(points(given).values()) == [150, 120, 90, 60, 30, 0]


def test_the_order_is_the_same_after_a_stop_for_any_number_of_workers_and_beside_other_models(tmp_path, serve):
    server, tables = serve(), []
    for name, steps, n_workers in (
        ("one", ("1000",), "1"),
        ("many", ("1000",), "16"),
        ("stopped", ("7", "20", "1000"), "3"),
    ):
        answers(tmp_path / name, 6, "wxyz")
        for most in steps:
            code = single(tmp_path / name, server.url, "--max-requests", most, "--concurrency", n_workers)
        assert code == 0
        tables.append((tmp_path / name / "verdicts.csv").read_bytes())
    assert len({*tables}) == 1 and server.asked == 3 * 36
    answers(tmp_path / "one", 6, "vwxyz")  # one model more, first in the file
    assert single(tmp_path / "one", server.url) == 0 and server.asked == 3 * 36 + 6 * 4
    more = read_verdicts(tmp_path / "one" / "verdicts.csv").astype(str)
    with_v = (more["model_a"] == "v") | (more["model_b"] == "v")
    columns = ["question_id", "model_a", "model_b", "verdict"]
    before = read_verdicts(tmp_path / "many" / "verdicts.csv").astype(str)
    assert sorted(more.loc[~with_v, columns].values.tolist()) == sorted(before[columns].values.tolist())


def test_a_ledger_in_the_order_of_the_files_goes_on_and_pays_for_nothing_twice(tmp_path, serve, capsys):
    server = serve(always_first)
    answers(tmp_path, 4)
    assert single(tmp_path, server.url, "--order", "given", "--max-requests", "5") == 3 and server.asked == 5
    capsys.readouterr()
    assert single(tmp_path, server.url, "--dry-run") == 0 and "7 requests (5 finished before" in capsys.readouterr().out
    assert single(tmp_path, server.url) == 0 and server.asked == 12
    assert "it goes on in that order: --order random draws it" in capsys.readouterr().err
    assert points(tmp_path) == {"x": 8, "y": 4, "z": 0}
    assert single(tmp_path, server.url) == 0 and server.asked == 12
    answers(tmp_path, 40)  # more questions: the pairs that were judged keep their order, a coin is for the others
    assert single(tmp_path, server.url) == 0 and server.asked == 120
    assert "12 of 120 pairs were judged in the order of the files" in capsys.readouterr().err
    assert points(tmp_path)["z"] > 20
    assert single(tmp_path, server.url) == 0 and server.asked == 120
    answers(tmp_path, 4)
    assert single(tmp_path, server.url, "--order", "random") == 0
    n_turned = server.asked - 120  # asked for once more, since somebody said so
    assert 0 < n_turned < 12
    assert "in the order" not in capsys.readouterr().err.split("wrote")[-1]
    assert single(tmp_path, server.url) == 0 and server.asked == 120 + n_turned, "the order that was asked for last"


def test_a_run_that_was_only_planned_in_the_order_of_the_files_is_drawn(tmp_path, serve, capsys):
    server = serve(always_first)
    answers(tmp_path, 20)
    assert single(tmp_path, server.url, "--order", "given", "--dry-run") == 0
    assert single(tmp_path, server.url) == 0 and "order of the files" not in capsys.readouterr().err
    assert points(tmp_path)["z"] > 0


def test_the_python_function_has_the_same_order(tmp_path, serve):
    server = serve(always_first)
    source = answers(tmp_path, 12)
    how = {"model": "m", "base_url": f"{server.url}/v1", "quiet": True, "mode": "single"}
    one = ppe.judge(str(source), ledger=tmp_path / "a.sqlite", **how).to_frame()
    assert single(tmp_path, server.url) == 0
    other = read_verdicts(tmp_path / "verdicts.csv")
    assert one["model_a"].tolist() == other["model_a"].tolist() and one["model_a"].nunique() == 3

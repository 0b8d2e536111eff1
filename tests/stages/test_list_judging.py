"""A judge that ranks all answers to a prompt, over HTTP: what was said, stops, faults, refusals."""

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from endpoint import completion, right_reply, said_to
from stages import answer

import ppe
from ppe.cli.main import main
from ppe.stages.benchmarks import write_rows
from ppe.verdicts import read_verdicts


@pytest.fixture
def answers(tmp_path) -> Path:
    path = tmp_path / "answers.jsonl"
    rows = [answer(q, f"model {m}", f"{m} says {q}", prompt=f"{q} in words?") for q in range(1, 9) for m in range(4)]
    write_rows(rows, path)
    return path


def judged(folder: Path, answers: Path, url: str, *more: str, out: str = "verdicts.csv") -> int:
    given = ["judge", str(answers), "--model", "j", "--mode", "list", "--base-url", url, "--out", str(folder / out)]
    ledger = ["--ledger", str(folder / "ledger.sqlite"), "--allow-insecure", "--quiet"]
    return main([*given, *ledger, *more])


def shown(text: str) -> list[str]:
    "The answers in a request, in the order shown."
    return [answer for _, answer in re.findall(r"<<ANSWER_([A-Z])_START \w+>>\n(.*?)\n<<ANSWER", text, re.S)]


def pairs_said(bodies: list[dict], by_text: dict[str, tuple]) -> set[tuple]:
    "Question, pair in the order shown, and verdict: from the texts that were sent, with the endpoint's own reply."
    found = set()
    for body in bodies:
        text = said_to(body)
        places = {label: at for at, label in enumerate(right_reply(text).split("[RANKING] ")[1].split(" > "))}
        keys = [by_text[answer] for answer in shown(text)]
        for (i, a), (j, b) in combinations(enumerate(keys), 2):
            assert a[0] == b[0], "one question"
            found.add((a[0], a[1], b[1], "a" if places[chr(65 + i)] < places[chr(65 + j)] else "b"))
    return found


def as_set(table: pd.DataFrame) -> set[tuple]:
    columns = ["question_id", "model_a", "model_b", "verdict"]
    return {(int(q), str(a), str(b), str(v)) for q, a, b, v in table[columns].itertuples(index=False)}


def test_the_pairs_are_what_the_endpoint_said_of_the_texts(tmp_path, answers, serve):
    served = serve()
    assert judged(tmp_path, answers, served.url, "--details", str(tmp_path / "details.csv")) == 0
    rows = [json.loads(line) for line in answers.read_text().splitlines()]
    by_text = {row["answer"]: (row["question_id"], row["model"]) for row in rows}
    assert len(by_text) == len(rows), "each answer is known by its text"
    table = read_verdicts(tmp_path / "verdicts.csv")
    assert served.asked == 8 and len(table) == 8 * 6
    assert as_set(table) == pairs_said(served.bodies, by_text)
    first = {by_text[shown(said_to(body))[0]][1] for body in served.bodies}
    assert len(first) > 1, "not always the same model first"
    details = pd.read_csv(tmp_path / "details.csv")
    assert (details.groupby("question_id")["key_ab"].nunique() == 1).all() and {*details["basis"]} == {"list"}
    assert main(["ledger", "export", str(tmp_path / "ledger.sqlite"), "--out", str(tmp_path / "again.csv")]) == 0
    assert as_set(read_verdicts(tmp_path / "again.csv")) == as_set(table)
    assert judged(tmp_path, answers, served.url, out="second.csv") == 0 and served.asked == 8, "nothing is paid twice"
    board = ppe.rank(str(tmp_path / "verdicts.csv"), on_separation="ridge")
    assert "48 verdicts on 8 questions" in str(board)


def test_a_run_that_stopped_goes_on_to_the_same_bytes(tmp_path, answers, serve):
    served, folder = serve(), tmp_path / "stopped"
    folder.mkdir()
    assert judged(tmp_path, answers, served.url) == 0
    assert judged(folder, answers, served.url, "--max-requests", "3") == 3 and not (folder / "verdicts.csv").exists()
    assert served.asked == 8 + 3
    assert judged(folder, answers, served.url) == 0 and served.asked == 16
    assert (folder / "verdicts.csv").read_bytes() == (tmp_path / "verdicts.csv").read_bytes()
    prices = ("--price-in", "1000", "--price-out", "1000", "--max-cost", "0.000001")
    other = tmp_path / "poor"
    other.mkdir()
    assert judged(other, answers, served.url, *prices) == 3 and served.asked == 16, "not one call is paid for"


def test_what_is_no_ranking_is_invalid_and_the_best_alone_says_nothing_of_losers(tmp_path, answers, serve):
    def behave(endpoint, text, writer):
        said = "[RANKING] A > B = C > D" if "\n1 in words?" in text else "A is best. [RANKING] A"
        return completion(said, text)

    served = serve(behave)
    assert judged(tmp_path, answers, served.url) == 0
    table = read_verdicts(tmp_path / "verdicts.csv")
    sizes = table.groupby("question_id")["verdict"].agg(lambda verdicts: " ".join(sorted(verdicts)))
    assert sorted(sizes) == ["a a a"] * 7 + [" ".join(["invalid"] * 6)]


def test_answers_are_dealt_into_lists_and_a_stopped_run_deals_them_alike(tmp_path, serve):
    "Six models on ten questions in lists of three: 20 calls, and every two models meet four times."
    answers = tmp_path / "answers.jsonl"
    rows = [answer(q, f"model {m}", f"{m} says {q}", prompt=f"{q} in words?") for q in range(1, 11) for m in range(6)]
    write_rows(rows, answers)
    served, size = serve(), ("--list-size", "3")
    assert judged(tmp_path, answers, served.url, *size) == 0 and served.asked == 20
    table = read_verdicts(tmp_path / "verdicts.csv")
    by_text = {row.answer: (row.question_id, row.model) for row in rows}
    assert as_set(table) == pairs_said(served.bodies, by_text)
    met = Counter(map(frozenset, table[["model_a", "model_b"]].astype(str).to_numpy()))
    assert len(table) == 20 * 3 and [*met.values()] == [4] * 15
    assert {len(shown(said_to(body))) for body in served.bodies} == {3}
    stopped = tmp_path / "stopped"
    stopped.mkdir()
    assert judged(stopped, answers, served.url, *size, "--max-requests", "7") == 3 and served.asked == 27
    assert judged(stopped, answers, served.url, *size) == 0 and served.asked == 40
    assert (stopped / "verdicts.csv").read_bytes() == (tmp_path / "verdicts.csv").read_bytes()
    poor = tmp_path / "poor"
    poor.mkdir()
    prices = ("--price-in", "1000", "--price-out", "1000", "--max-cost", "0.000001")
    assert judged(poor, answers, served.url, *size, *prices) == 3 and served.asked == 40, "not one call is paid for"
    board = ppe.rank(str(tmp_path / "verdicts.csv"), on_separation="ridge")
    assert "60 verdicts on 10 questions" in str(board)


@pytest.mark.parametrize(
    "more", [("--list-size", "2"), ("--list-size", "27"), ("--list-size", "3", "--mode", "single")]
)
def test_a_list_size_that_no_call_has_is_refused(tmp_path, answers, more, capsys):
    assert judged(tmp_path, answers, "http://127.0.0.1:9", *more) == 2
    err = capsys.readouterr().err
    assert "list size" in err and err.count("\n") == 1 and not (tmp_path / "verdicts.csv").exists()


@pytest.mark.parametrize("more", [("--order", "both"), ("--judge-variants", "1"), ("--pairs", "pairs.csv")])
def test_what_lists_do_not_have_is_refused(tmp_path, answers, more, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pairs.csv").write_text("question_id,variant,model_a,model_b\n0,0,model 0,model 1\n1,0,model 0,model 1\n")
    assert judged(tmp_path, answers, "http://127.0.0.1:9", *more) == 2
    assert "list" in capsys.readouterr().err and not (tmp_path / "verdicts.csv").exists()

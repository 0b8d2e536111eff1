"""The LLM stages over real HTTP: faults, kills, limits, batches, and keys that must not leak."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from driver import Forked
from endpoint import right_reply

from ppe.cli.main import main
from ppe.stages.ledger import Ledger, claim, open_run, release_dead, run_progress
from ppe.verdicts import read_verdicts

KEY = "planted-key-5b1e9c"
# The command without the rankers, which take a second to import.
PPE = [
    sys.executable, "-c",
    "import sys; from ppe.cli.stages import llm_commands as c; sys.exit(c()[sys.argv[1]].main(sys.argv[2:], "
    "standalone_mode=False))",
]  # fmt: skip


class Served:
    "An endpoint in a process of its own."

    def __init__(self, folder: Path, *options: str):
        port_file = folder / "port"
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("endpoint.py")), str(port_file), *options]
        )
        deadline = time.monotonic() + 30
        while not (port_file.is_file() and port_file.read_text()):
            assert time.monotonic() < deadline and self.process.poll() is None
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{port_file.read_text()}"
        port_file.unlink()

    def log(self) -> dict:
        with urllib.request.urlopen(f"{self.url}/log") as reply:
            return json.load(reply)

    def n_served(self) -> int:
        with urllib.request.urlopen(f"{self.url}/count") as reply:
            return int(reply.read())


@pytest.fixture
def serve(tmp_path):
    running = []

    def start(*options: str) -> Served:
        running.append(Served(tmp_path, *options))
        return running[-1]

    yield start
    for served in running:
        served.process.kill()
        served.process.wait()


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture(scope="module")
def judge_process():
    "Starts a judge in a process of its own, forked from one that serves this file's tests."
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("driver.py"))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"OPENAI_API_KEY": KEY},
    )  # fmt: skip
    yield lambda folder, url, *more: Forked(server, judge_arguments(folder, url, *more))
    server.stdin.close()
    server.wait()


@pytest.fixture
def no_back_off(monkeypatch):
    "The pauses between calls, made short; Retry-After is still kept."
    monkeypatch.setattr("ppe.stages.dispatch.MAX_BACK_OFF", 0.05)


def write_answers_file(path: Path, n_models: int, n_questions: int) -> list[dict]:
    rows = [
        {
            "question_id": q, "category": "math" if q % 2 else "writing", "variant": 0,
            "prompt": f"Question {q}?", "model": f"model-{m}",
            "answer": f"Answer of model {m} to question {q}. " * (1 + (q * m) % 7),
        }
        for q in range(n_questions) for m in range(n_models)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def judge_arguments(folder: Path, url: str, *more: str) -> list[str]:
    return [
        "judge", str(folder / "answers.jsonl"), "--model", "some-judge", "--base-url", f"{url}/v1", "--quiet",
        "--ledger", str(folder / "ledger.sqlite"), "--out", str(folder / "verdicts.csv"), *more,
    ]  # fmt: skip


def expected_verdicts(folder: Path) -> pd.DataFrame:
    """The hybrid rule applied to what the endpoint says to the exact texts in the ledger.

    The texts come from the ledger; reply, reading and rule are computed here.
    """
    from ppe.stages.ledger import exchange

    with Ledger(folder / "ledger.sqlite") as ledger:
        said = {}
        for item, key in ledger.query("SELECT item, key FROM uses JOIN requests ON request = id"):
            text = "\n".join(message["content"] for message in exchange(ledger, key)["messages"])
            item = json.loads(item)
            who = (item["first"], item["second"]) if "first" in item else (item["model"],)
            said[item["question_id"], *who] = right_reply(text).split("[RESULT] ")[1].lower()
    rows = []
    models = sorted({who for entry in said for who in entry[1:]})
    for question in sorted({entry[0] for entry in said}):
        for a, b in combinations(models, 2):
            forward, backward = said[question, a, b], {"a": "b", "b": "a"}[said[question, b, a]]
            if forward == backward:
                rows.append((question, a, b, forward))
            else:
                scores = int(said[question, a]), int(said[question, b])
                rows.append((question, a, b, "tie" if scores[0] == scores[1] else "ab"[scores[0] < scores[1]]))
    return pd.DataFrame(rows, columns=["question_id", "model_a", "model_b", "verdict"])


def same_table(found: pd.DataFrame, expected: pd.DataFrame) -> bool:
    columns = list(expected.columns)
    left, right = (
        frame[columns].astype(str).sort_values(columns).reset_index(drop=True) for frame in (found, expected)
    )
    return left.equals(right)


# ---- everything works


def test_four_stages_from_questions_to_a_ranking(tmp_path, serve, capsys):
    url = f"{serve().url}/v1"
    common = ["--base-url", url, "--quiet", "--ledger", str(tmp_path / "ledger.sqlite")]
    questions = tmp_path / "questions.jsonl"
    rows = [{"question_id": q, "category": "math", "prompt": f"What is {q} + {q}?"} for q in range(6)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prompts = tmp_path / "prompts.jsonl"
    assert main(["perturb", str(questions), "--model", "writer", "--out", str(prompts), *common]) == 0
    rows = [json.loads(line) for line in prompts.read_text().splitlines()]
    assert {row["variant"] for row in rows if row["question_id"] == 0} >= {0, 1, 2}
    files = []
    for target in ("x", "y", "z"):
        files.append(str(tmp_path / f"{target}.jsonl"))
        arguments = ["respond", str(prompts), "--model", target, "--out", files[-1], *common]
        assert main(arguments) == 0
    verdicts = tmp_path / "verdicts.csv"
    arguments = ["judge", *files, "--model", "judge", "--out", str(verdicts), *common]
    assert main([*arguments, "--details", str(tmp_path / "details.csv")]) == 0
    assert len(read_verdicts(verdicts)) == 3 * len(rows) == len(pd.read_csv(tmp_path / "details.csv"))
    capsys.readouterr()
    assert main(["rank", str(verdicts), "--format", "json", "--on-separation", "ridge"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {entry["model"] for entry in report["models"]} == {"x", "y", "z"}
    assert report["n_graphs"] == len(rows)


@pytest.mark.parametrize("command", ["perturb", "respond", "judge", "ledger", "launch"])
def test_each_command_explains_itself(command, capsys):
    assert main([command, "--help"]) == 0
    assert len(capsys.readouterr().out) > 200


# ---- faults


@pytest.mark.parametrize(
    "n_questions", [20, pytest.param(100, marks=pytest.mark.slow)], ids=["four hundred", "two thousand"]
)
def test_requests_under_twenty_percent_faults(tmp_path, serve, n_questions):
    served = serve("--faults", "0.2", "--delay", "0.005")
    write_answers_file(tmp_path / "answers.jsonl", 5, n_questions)
    patient = ("--concurrency", "64", "--timeout", "3", "--attempts", "8")
    arguments = judge_arguments(tmp_path, served.url, *patient)
    assert main(arguments) == 0
    log = served.log()
    assert sum(log["counts"].values()) > 24 * n_questions and set(log["counts"]) == {
        "ok", "429", "500", "drop", "drop half way", "slow", "truncated", "prose", "empty", "wrong length",
        "large",
    }  # fmt: skip
    for behaviours in log["served"].values():
        assert behaviours.count("ok") == 1 and behaviours[-1] == "ok", "answered once, and never again"
    for name, behaviours in log["served"].items():
        for at, behaviour in enumerate(behaviours):
            if behaviour == "429":
                assert log["times"][name][at + 1] - log["times"][name][at] >= 0.99, "Retry-After: 1"
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert ledger.query("SELECT count(*) FROM requests") == [(len(log["served"]),)]
        assert ledger.query("SELECT DISTINCT status FROM requests") == [("done",)]
        outcomes = {outcome for (outcome,) in ledger.query("SELECT DISTINCT outcome FROM attempts")}
    assert any("unreadable" in outcome for outcome in outcomes) and any("malformed" in outcome for outcome in outcomes)
    verdicts = read_verdicts(tmp_path / "verdicts.csv")
    assert len(verdicts) == 10 * n_questions and same_table(verdicts, expected_verdicts(tmp_path))


def test_a_judge_that_never_gives_a_verdict_leaves_invalid_rows_and_no_tie(tmp_path, serve, no_back_off):
    served = serve("--faults", "1.0")
    write_answers_file(tmp_path / "answers.jsonl", 3, 2)
    patient = ("--timeout", "1", "--attempts", "1", "--concurrency", "18")
    assert main(judge_arguments(tmp_path, served.url, *patient)) in (0, 3)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert ledger.query("SELECT count(*) FROM requests WHERE status = 'done'") == [(0,)]
        replies = ledger.query("SELECT reply FROM attempts WHERE outcome LIKE 'unreadable%'")
    assert replies and all(reply is not None for (reply,) in replies)
    if (tmp_path / "verdicts.csv").exists():
        assert set(read_verdicts(tmp_path / "verdicts.csv")["verdict"]) == {"invalid"}


def test_the_key_is_sent_and_kept_nowhere(tmp_path, serve, capsys, no_back_off):
    served = serve("--faults", "0.3")
    write_answers_file(tmp_path / "answers.jsonl", 3, 10)
    patient = ("--timeout", "1", "--concurrency", "32")
    main(judge_arguments(tmp_path, served.url, *patient, "--report", str(tmp_path / "report.json")))
    assert served.log()["bearers"] == [KEY]
    printed = capsys.readouterr()
    assert KEY not in printed.out + printed.err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 3
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path.name


# ---- stopping and going on


@pytest.mark.parametrize(
    "n_kills, n_questions", [(6, 24), pytest.param(50, 120, marks=pytest.mark.slow)], ids=["six", "fifty"]
)
def test_kills_change_nothing(tmp_path, serve, judge_process, n_kills, n_questions):
    served = serve("--delay", "0.01")
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    for folder in (undisturbed, disturbed):
        folder.mkdir()
        write_answers_file(folder / "answers.jsonl", 5, n_questions)
    assert main(judge_arguments(undisturbed, served.url, "--concurrency", "32")) == 0
    rng, kills, in_the_work, before = random.Random(20260324), 0, 0, served.n_served()
    while kills < n_kills:
        process = judge_process(disturbed, served.url, "--concurrency", "4")
        target = served.n_served() + rng.randint(1, 60)
        if kills % 5 == 4:
            time.sleep(rng.uniform(0, 0.5))  # any moment, planning and starting included
        else:
            while process.poll() is None and served.n_served() < target:
                time.sleep(0.01)
            in_the_work += process.poll() is None
        assert process.poll() is None, "the work ended before the last kill; give the test more questions"
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    assert in_the_work == n_kills - n_kills // 5
    assert judge_process(disturbed, served.url, "--concurrency", "4").wait() == 0
    with Ledger(disturbed / "ledger.sqlite") as ledger:
        assert ledger.integrity() == "ok"
        assert ledger.query("SELECT DISTINCT status FROM requests") == [("done",)]
        n_requests = ledger.query("SELECT count(*) FROM requests")[0][0]
    assert (disturbed / "verdicts.csv").read_bytes() == (undisturbed / "verdicts.csv").read_bytes()
    assert not list(disturbed.glob("*.lock"))
    # Only what was under way at a kill, or had come back in the 50 ms before it, is asked for again.
    extra = served.n_served() - before - n_requests
    assert extra <= n_kills * (4 + 30), extra


def test_two_processes_on_one_ledger_share_the_work(tmp_path, serve, judge_process):
    served = serve("--delay", "0.01")
    write_answers_file(tmp_path / "answers.jsonl", 5, 30)
    workers = [judge_process(tmp_path, served.url, "--concurrency", "16") for _ in range(2)]
    assert [worker.wait() for worker in workers] == [0, 0]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert ledger.query("SELECT count(*), sum(attempts) FROM requests") == [(served.n_served(),) * 2]
    assert all(behaviours == ["ok"] for behaviours in served.log()["served"].values())
    assert same_table(read_verdicts(tmp_path / "verdicts.csv"), expected_verdicts(tmp_path))


def test_a_lock_without_a_worker_is_cleared_and_that_of_a_living_one_is_not(tmp_path):
    with Ledger(tmp_path / "l.sqlite") as living, Ledger(tmp_path / "l.sqlite") as other:
        run = open_run(living, "test", {}, "")
        claim(living, run, 1)  # registers
        dead = tmp_path / f"l.sqlite-{'0' * 32}.lock"
        dead.touch()
        (held,) = [path for path in tmp_path.glob("*.lock") if path != dead]
        release_dead(other)
        assert list(tmp_path.glob("*.lock")) == [held]


def test_interrupted_by_a_signal_it_finishes_what_is_under_way(tmp_path, serve):
    served = serve("--delay", "0.05")
    write_answers_file(tmp_path / "answers.jsonl", 5, 60)
    process = subprocess.Popen(
        [*PPE, *judge_arguments(tmp_path, served.url, "--concurrency", "4")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while served.n_served() < 20:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 3 and not (tmp_path / "verdicts.csv").exists()
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        (done,) = ledger.query("SELECT count(*) FROM requests WHERE status = 'done'")[0]
        assert done == served.n_served() and run_progress(ledger, 1).claimed == 0


def test_a_stop_does_not_wait_for_the_pace(tmp_path, serve, judge_process):
    served = serve()
    write_answers_file(tmp_path / "answers.jsonl", 4, 10)
    process = judge_process(tmp_path, served.url, "--concurrency", "8", "--requests-per-minute", "2")
    while served.n_served() < 1:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    started = time.monotonic()
    assert process.wait() == 3
    assert time.monotonic() - started < 25, "the next request was due in 30 seconds, the last in 4 minutes"
    assert served.n_served() == 1


def test_limits_stop_and_the_same_command_goes_on(tmp_path, serve, capsys):
    served = serve()
    write_answers_file(tmp_path / "answers.jsonl", 4, 10)
    prices = ("--price-in", "1", "--price-out", "10")
    assert main(judge_arguments(tmp_path, served.url, "--max-requests", "50")) == 3
    assert served.n_served() == 50 and not (tmp_path / "verdicts.csv").exists()
    assert "limit of 50 requests" in capsys.readouterr().err
    assert main(judge_arguments(tmp_path, served.url, "--max-cost", "0.02", *prices)) == 3
    assert 50 < served.n_served() < 120
    assert main(judge_arguments(tmp_path, served.url)) == 0
    assert all(behaviours == ["ok"] for behaviours in served.log()["served"].values())
    n_served = served.n_served()
    assert main(judge_arguments(tmp_path, served.url)) == 0 and served.n_served() == n_served
    assert main(judge_arguments(tmp_path, served.url, "--no-resume")) == 2


def test_a_dry_run_sends_nothing(tmp_path, serve, capsys):
    served = serve()
    write_answers_file(tmp_path / "answers.jsonl", 4, 10)
    arguments = judge_arguments(tmp_path, served.url, "--dry-run", "--price-in", "1", "--price-out", "10")
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "120 requests" in said and "at most 40 scores" in said and "cost" in said
    assert served.n_served() == 0 and not (tmp_path / "verdicts.csv").exists()


def test_export_takes_what_is_there_without_sending_anything(tmp_path, serve):
    served = serve()
    write_answers_file(tmp_path / "answers.jsonl", 4, 10)
    part, whole = str(tmp_path / "part.csv"), tmp_path / "whole.csv"
    assert main(judge_arguments(tmp_path, served.url, "--max-requests", "61")) == 3
    assert main(["ledger", "export", str(tmp_path / "ledger.sqlite"), "--out", part]) == 3
    assert 0 < len(read_verdicts(part)) <= 30
    assert main(judge_arguments(tmp_path, served.url)) == 0
    n_served = served.n_served()
    assert main(["ledger", "export", str(tmp_path / "ledger.sqlite"), "--out", str(whole)]) == 0
    assert whole.read_bytes() == (tmp_path / "verdicts.csv").read_bytes() and served.n_served() == n_served
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        (key,) = ledger.query("SELECT key FROM requests LIMIT 1")[0]
    assert main(["ledger", "show", str(tmp_path / "ledger.sqlite"), key[:10]]) == 0
    assert main(["ledger", "status", str(tmp_path / "ledger.sqlite")]) == 0


def test_launch_does_each_category_on_its_own_and_writes_the_whole_table(tmp_path, serve, monkeypatch):
    served = serve()
    alone, together = tmp_path / "alone", tmp_path / "together"
    for folder in (alone, together):
        folder.mkdir()
        write_answers_file(folder / "answers.jsonl", 4, 6)
    assert main(judge_arguments(alone, served.url)) == 0
    n_served = served.n_served()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    options = ["launch", "--workers", "2", "--logs", str(tmp_path / "logs")]
    assert main([*options, "--", *judge_arguments(together, served.url)]) == 0
    assert (together / "verdicts.csv").read_bytes() == (alone / "verdicts.csv").read_bytes()
    assert served.n_served() == 2 * n_served, "the jobs and the whole asked for nothing twice"
    assert {path.name[3:7] for path in (tmp_path / "logs").iterdir()} == {"math", "writ"}


# ---- batch files


def answer_batch(path: Path, out: Path) -> int:
    lines = []
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        text = "\n".join(message["content"] for message in entry["body"]["messages"])
        body = {"choices": [{"message": {"content": right_reply(text)}, "finish_reason": "stop"}]}
        lines.append({"custom_id": entry["custom_id"], "response": {"status_code": 200, "body": body}})
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return len(lines)


def test_batch_files_give_the_same_table_as_the_endpoint(tmp_path, serve):
    served = serve()
    live, batch = tmp_path / "live", tmp_path / "batch"
    for folder in (live, batch):
        folder.mkdir()
        write_answers_file(folder / "answers.jsonl", 4, 10)
    assert main(judge_arguments(live, served.url)) == 0
    n_live = served.n_served()
    sent = 0
    for phase in ("pairs", "scores"):
        requests, results = batch / f"{phase}.jsonl", batch / f"{phase}-results.jsonl"
        arguments = judge_arguments(batch, served.url, "--batch")
        assert main([*arguments, "write", "--batch-file", str(requests)]) == 0
        sent += answer_batch(requests, results)
        assert main([*arguments, "read", "--batch-file", str(results)]) == 0
    assert main(judge_arguments(batch, served.url)) == 0
    assert served.n_served() == n_live == sent
    assert (batch / "verdicts.csv").read_bytes() == (live / "verdicts.csv").read_bytes()

"""What the tests of the LLM stages share: a stand-in for a model, files of answers, command lines, processes."""

import asyncio
import json
import multiprocessing
import os
import re
import sys
from pathlib import Path

import pytest
from endpoint import Endpoint, Faulty, fine

KEY = "planted/key-5b1e9c"
NOBODY = "http://127.0.0.1:9"  # nothing listens there


class StandIn:
    "A model that speaks by a rule, from the request to a text, a list to be written as JSON, a reply, or an error."

    name, endpoint = "api", "stand-in"

    def __init__(self, rule):
        self.rule, self.sent = rule, []

    async def complete(self, request):
        from ppe.stages.chat import Reply

        self.sent.append(request)
        await asyncio.sleep(0)
        said = self.rule(request)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, Reply):
            return said
        said = said if isinstance(said, str) else json.dumps(said)
        return Reply(said, tokens_in=1000, tokens_out=100, finish_reason="stop")

    async def close(self):
        pass


def fenced(text: str) -> dict[str, str]:
    "What stands between the first two fence lines of each label, by the marker in the prompt."
    marker, fields = re.search(r"marked ([0-9a-f]{16}) is material", text)[1], {}
    for label in ("INSTRUCTION", "ANSWER_A", "ANSWER_B", "ANSWER"):
        start, end = f"<<{label}_START {marker}>>\n", f"\n<<{label}_END {marker}>>"
        if start in text:
            rest = text[text.index(start) + len(start) :]
            fields[label] = rest[: rest.index(end)]
    return fields


def reader(pair, score=lambda question, answer: "[RESULT] 3") -> StandIn:
    "A judge that decides by what it reads in the prompt."

    def rule(request):
        fields = fenced(request.messages[-1].text)
        if request.stage == "judge/score":
            return score(fields["INSTRUCTION"], fields["ANSWER"])
        return pair(fields["INSTRUCTION"], fields["ANSWER_A"], fields["ANSWER_B"])

    return StandIn(rule)


def tagged(tag: str) -> str:
    "The same choice for both kinds of prompt."
    return f"Feedback: so it is.\nVerdict: [{tag}]\n[RESULT] {tag}"


def number(text: str) -> int:
    return int(re.match(r"-?\d+", text)[0])


def by_number(bias: float) -> StandIn:
    "Prefers the larger number; what is shown first gets a bonus."
    return reader(
        lambda question, a, b: tagged("A" if number(a) + bias > number(b) else "B"),
        lambda question, text: f"[RESULT] {number(text) % 5 + 1}",
    )


def answer(question_id, model, text, *, variant=0, prompt=None, category="test"):
    from ppe.stages.responses import Answer

    return Answer(question_id, category, variant, prompt or f"Question {question_id}?", model, text)


def pool(n_questions=3, n_models=5, seed=0, n_variants=1):
    "Answers that begin with a number, each prompt by its wording."
    import numpy as np

    rng = np.random.default_rng(seed)
    return [
        answer(q, f"model {m}", f"{rng.integers(0, 8)} and more", variant=v, prompt=f"{q} in words {v}?")
        for q in range(1, n_questions + 1) for v in range(n_variants) for m in range(n_models)
    ]  # fmt: skip


# ---- the commands


def write_rows(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read_rows(path: Path | str) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def answers(folder: Path, n_questions: int = 1, models: str = "xyz", said: str = "Answer of {m} to {q}.") -> Path:
    "A file of answers in a folder, which may have to be made; odd questions are on math."
    folder.mkdir(exist_ok=True)
    return write_rows(folder / "answers.jsonl", [
        {"question_id": q, "category": "math" if q % 2 else "writing", "variant": 0, "prompt": f"Question {q}?",
         "model": m, "answer": said.format(m=m, q=q)}
        for q in range(n_questions) for m in models
    ])  # fmt: skip


def words(stage: str, source: Path, url: str, folder: Path, out: str, *more: str) -> list[str]:
    return [
        stage, str(source), "--model", "m", "--base-url", f"{url}/v1", "--quiet",
        "--ledger", str(folder / "ledger.sqlite"), "--out", str(folder / out), *more,
    ]  # fmt: skip


def judging(folder: Path, url: str, *more: str) -> list[str]:
    return words("judge", folder / "answers.jsonl", url, folder, "verdicts.csv", *more)


@pytest.fixture
def serve(monkeypatch):
    "Starts endpoints that behave as told, and whose pauses between calls are short; Retry-After is still kept."
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("ppe.stages.dispatch.MAX_BACK_OFF", 0.01)
    running = []

    def start(behave=fine, **faults: float) -> Endpoint:
        running.append(Endpoint(Faulty(**faults) if faults else behave))
        return running[-1]

    yield start
    for endpoint in running:
        endpoint.close()


@pytest.fixture
def ledger(tmp_path: Path):
    from ppe.stages.ledger import Ledger

    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


def run_alone(arguments: list[str]) -> None:
    "Run a command that says nothing; its code is that of the process."
    from ppe.cli.main import main

    os.environ["OPENAI_API_KEY"] = KEY
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.exit(main(arguments))


def process(arguments: list[str]) -> multiprocessing.Process:
    """A command under way in a process forked from one that has imported what it needs.

    Starting an interpreter and importing the client take longer than most of the runs that the tests kill. A
    forked process is one like any other: it opens the ledger itself, has its own locks, and can be killed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "httpx2", "openai", "ppe.cli.main", "ppe.cli.stages"])
    started = context.Process(target=run_alone, args=(arguments,), daemon=True)
    started.start()
    return started


def code_of(ended: multiprocessing.Process) -> int:
    ended.join()
    return ended.exitcode

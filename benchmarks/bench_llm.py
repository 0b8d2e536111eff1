"""The judging stage at full scale against a server on this machine: `make bench-llm`.

The paper's design, 400 prompts × 190 pairs in both orders and the scores of pairs in doubt, is judged by an
endpoint that answers in 20 ms, with 64 requests under way. Beside it, in turn and on the same server: a bare
loop around the official client, which is what a program built on that client can draw from the server. What
is left of it after ledger, reading and bookkeeping is the ratio. Exits with 1 if a bound is missed.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from ppe.stages.chat import ApiBackend, Decoding, Reply, Request
from ppe.stages.dispatch import Session
from ppe.stages.judging import judge_answers
from ppe.stages.ledger import Ledger, Use, exchange, open_requests, open_run, plan_run, settle
from ppe.stages.limits import Limits, WorkDone
from ppe.stages.prompts import Message
from ppe.stages.responses import Answer

ENDPOINT = Path(__file__).resolve().parents[1] / "tests" / "endpoint.py"
CONCURRENCY, DELAY = 64, 0.02
WORDS = "the model answers at some length and gives its reasons one after the other ".split()


def answers(n_models: int, n_prompts: int) -> list[Answer]:
    "Answers of 500 to 4,000 characters."
    rows = []
    for q in range(n_prompts):
        for m in range(n_models):
            length = 100 + (37 * q + 101 * m) % 600
            text = " ".join(WORDS[(q + m + k) % len(WORDS)] for k in range(length))
            prompt, model = f"Question {q}? " * 20, f"model-{m:02}"
            rows.append(Answer(q, f"category {q % 8}", 0, prompt, model, f"{m}: {text}"))
    return rows


async def bare_loop(url: str, bodies: list[dict]) -> float:
    "Requests per second of the official client alone, as its manual shows it."
    import openai

    client, todo = openai.AsyncOpenAI(api_key="none", base_url=url), iter(bodies)

    async def worker() -> None:
        for body in todo:
            await client.chat.completions.create(**body)

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    await client.close()
    return len(bodies) / (time.perf_counter() - start)


def bodies_of(ledger: Ledger, n: int) -> list[dict]:
    "The first requests of a ledger, as the plain client would send them."
    found = []
    for (key,) in ledger.query("SELECT key FROM requests ORDER BY id LIMIT ?", n):
        record = exchange(ledger, key)
        found.append({"model": record["model"], "messages": record["messages"], **record["decoding"]})
    return found


class Timed(Session):
    "A session that knows how long it has worked."

    seconds = 0.0

    def work(self, run: int, label: str = "") -> WorkDone:
        start = time.perf_counter()
        summary = Session.work(self, run, label)
        Timed.seconds += time.perf_counter() - start
        return summary


def ours(folder: Path, name: str, url: str, rows: list[Answer]) -> tuple[float, float, int]:
    "Requests per second of the working phases, seconds in all, requests."
    start = time.perf_counter()
    with Ledger(folder / f"{name}.sqlite") as ledger:
        session, Timed.seconds = Timed(ledger, ApiBackend(url), Limits(concurrency=CONCURRENCY)), 0.0
        result = judge_answers(rows, session=session, model="judge", mode="hybrid")
        assert result.complete and set(result.details["basis"]) <= {"agree", "scored", "scored-tie"}
        n = sum(summary.done for summary in session.history)
    return n / Timed.seconds, time.perf_counter() - start, n


def ledger_rate(folder: Path, n: int) -> float:
    "Requests that the ledger alone reads and settles in a second, one at a time."

    def request(k: int) -> Request:
        return Request("rate", "api", "m", "1", (Message("user", (f"{k}", "x" * 4000)),), Decoding())

    with Ledger(folder / "rate.sqlite") as ledger:
        run = open_run(ledger, "rate", {}, "")
        plan_run(ledger, run, (Use(k, request(k), {"n": k}) for k in range(n)))
        start = time.perf_counter()
        for waiting in open_requests(ledger, run):
            settle(ledger, {waiting.id: Reply("[RESULT] A", 1, 1, status="done", parsed="a")})
        return n / (time.perf_counter() - start)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompts", type=int, default=400, help="of 190 pairs each; the paper has 400")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the paired comparison")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port_file = folder / "port"
        server = subprocess.Popen([sys.executable, ENDPOINT, port_file, "--delay", str(DELAY)])
        try:
            while not (port_file.is_file() and port_file.read_text()):
                time.sleep(0.05)
            url = f"http://127.0.0.1:{port_file.read_text()}/v1"
            pairs = []
            for k in range(given.rounds):
                mine, _, n = ours(folder, f"round-{k}", url, answers(20, min(6, given.prompts)))
                with Ledger(folder / f"round-{k}.sqlite") as ledger:
                    theirs = asyncio.run(bare_loop(url, bodies_of(ledger, n)))
                pairs.append((mine, theirs))
            alone = ledger_rate(folder, 50 * given.prompts)
            rate, whole, n = ours(folder, "full", url, answers(20, given.prompts))
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            size = (folder / "full.sqlite").stat().st_size / 2**20
        finally:
            server.terminate()
            server.wait()
    ratio = median(mine / theirs for mine, theirs in pairs)
    lines = [
        ("requests/s, ours", f"{median(mine for mine, _ in pairs):.0f}", "", True),
        ("requests/s, bare official client", f"{median(theirs for _, theirs in pairs):.0f}", "", True),
        ("ratio", f"{ratio:.2f}", ">= 0.80", ratio >= 0.8),
        ("ledger alone, requests/s", f"{alone:.0f}", ">= 4 × ours", alone >= 4 * rate),
        (f"full run of {n} requests, requests/s", f"{rate:.0f}", "", True),
        ("full run, minutes with planning", f"{whole / 60:.1f}", "", True),
        ("full run, peak memory in MB", f"{memory:.0f}", "< 500", memory < 500),
        ("full run, ledger in MB", f"{size:.0f}", "", True),
        ("64 requests under way / 20 ms, requests/s", f"{CONCURRENCY / DELAY:.0f}", "", True),
    ]
    for what, value, bound, passed in lines:
        print(f"{what:45} {value:>10} {bound:>12} {'' if not bound else 'pass' if passed else 'FAIL'}")
    print(json.dumps({"pairs": [[round(mine), round(theirs)] for mine, theirs in pairs]}))
    return 0 if all(passed for *_, passed in lines) else 1


if __name__ == "__main__":
    sys.exit(main())

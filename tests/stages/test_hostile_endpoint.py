"""Endpoints, ledgers and files that are broken or mean harm.

Each case ends with one line and exit code 2 or 3, or with an invalid verdict; nothing is lost, and time and
memory are bounded. All servers listen on this machine, in a thread of the test.
"""

import asyncio
import json
import os
import re
import resource
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pandas as pd
import pytest
from endpoint import LARGE, Endpoint, completion, fine, http, right_reply, said_to
from stages import KEY, NOBODY, answers, judging, read_rows, words, write_rows

from ppe.cli.main import main
from ppe.stages.chat import ApiBackend, CallFailed, _failure, reply_from_body
from ppe.stages.ledger import Ledger
from ppe.verdicts import read_verdicts

PRICES = ("--price-in", "0.1", "--price-out", "80")
SINGLE = ("--mode", "single", "--order", "given")  # who is first in the file stands first in what is asserted


def refusing(status: int, **error: str):
    return lambda *_: http(status, json.dumps({"error": error}).encode())


def judged(folder: Path, url: str, *more: str) -> int:
    source = folder / "answers.jsonl" if (folder / "answers.jsonl").exists() else answers(folder)
    return main(words("judge", source, url, folder, "verdicts.csv", "--timeout", "2", *more))


def answered(folder: Path, url: str, *more: str, texts: tuple[str, ...] = ("Why?", "How?")) -> int:
    rows = [{"question_id": q, "category": "c", "variant": 0, "prompt": text} for q, text in enumerate(texts, 1)]
    return main(words("respond", write_rows(folder / "prompts.jsonl", rows), url, folder, "out.jsonl", *more))


def states(folder: Path) -> dict[str, int]:
    with Ledger(folder / "ledger.sqlite") as ledger:
        assert ledger.query("PRAGMA integrity_check") == [("ok",)]
        return dict(ledger.query("SELECT status, count(*) FROM requests GROUP BY status"))


def verdicts(folder: Path) -> list[str]:
    return read_verdicts(folder / "verdicts.csv")["verdict"].tolist()


def goes_on(folder: Path, server: Endpoint) -> None:
    "The same command, at an endpoint that is well again, has a verdict on everything."
    server.behave = fine
    assert judged(folder, server.url) == 0
    assert set(states(folder)) == {"done"} and "invalid" not in verdicts(folder)


async def after(seconds: float, said: bytes) -> bytes:
    await asyncio.sleep(seconds)
    return said


def one_line(capsys) -> str:
    "What was said, which is one line and no traceback."
    lines = (error := capsys.readouterr().err).strip().splitlines()
    assert len(lines) == 1 and "Traceback" not in error, error
    return lines[0]


# ---- a request that never reached a judge stays open


def drip(first: bytes):
    async def behave(endpoint, text: str, writer) -> None:
        writer.write(first)
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    return behave


WEB_PAGE = http(200, b"<html>Please log in.</html>")
DEAR = "--max-cost 2 --price-in 100 --price-out 2000"  # a call whose price nobody knows counts in full
UNREACHED = {  # how it behaves, the options, and how many calls are made if that is certain
    "400": (refusing(400, message="no such parameter"), "", None),
    "a refused key": (refusing(401, message=f"bad key Bearer {KEY}"), "--concurrency 1", 1),
    "redirect": (lambda *_: http(307, b"", "Location: http://127.0.0.1:9/v1/chat/completions\r\n"), "", None),
    "500": (lambda *_: http(500, b"oops"), "", None),
    "500 and a limit": (lambda *_: http(500, b"oops"), "--max-requests 2", 2),
    "hangs up": (lambda *_: None, "", None),
    "a web page": (lambda *_: WEB_PAGE, "", None),
    "a web page and a limit": (lambda *_: WEB_PAGE, DEAR, 1),
    "JSON of something else": (lambda *_: http(200, b'{"hello": "world"}'), "", None),
    "half a reply": (lambda e, text, writer: writer.write(completion("[RESULT] A")[:-40]), "", None),
    "headers that trickle": (drip(b"HTTP/1.1 200 OK\r\nX-Filler: "), "--timeout 0.4", None),
    "endless body": (drip(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"), "--timeout 0.4", None),
}


@pytest.mark.parametrize("name", UNREACHED)
def test_what_reached_no_judge_is_open_and_the_same_command_goes_on(tmp_path, serve, name, capsys, monkeypatch):
    behave, options, asked = UNREACHED[name]
    if "--timeout" in options:
        monkeypatch.setattr("ppe.stages.dispatch.CALLS", 1)
    server, started = serve(behave), time.monotonic()
    assert judged(tmp_path, server.url, *options.split(), "--report", str(tmp_path / "report.json")) == 3
    assert states(tmp_path) == {"open": 6} and not (tmp_path / "verdicts.csv").exists()
    assert asked in (None, server.asked) and ("--timeout" not in options or time.monotonic() - started < 5)
    said = capsys.readouterr().err
    assert "not finished (" in said and "Traceback" not in said and KEY not in said
    assert "redirects to another address" in said or name != "redirect"
    assert "the key was refused" in said or name != "a refused key"
    goes_on(tmp_path, server)


@pytest.mark.parametrize("model", "xz")
def test_a_text_that_the_model_does_not_take_is_invalid_at_once(tmp_path, serve, model):
    refuse = refusing(400, message="filtered", code="content_filter")
    server = serve(lambda s, text, w: refuse() if f"Answer of {model}" in text else fine(s, text, w))
    for more, asked in {"--concurrency=1": 3, "--retry-invalid": 5}.items():  # invalid again when refused again
        assert judged(tmp_path, server.url, *SINGLE, more) == 0 and server.asked == asked
        assert [verdict == "invalid" for verdict in verdicts(tmp_path)] == [model == "x", True, model == "z"]


OF_ITS_LENGTH = {  # what servers say of a text that they do not take, in 2023 to 2026
    "OpenAI": (400, {"message": "This model's maximum context length is 4096 tokens."}),
    "OpenAI, by code": (400, {"message": "Please shorten the messages.", "code": "context_length_exceeded"}),
    "OpenAI, responses": (400, {"message": "Your input exceeds the context window of this model."}),
    "vLLM": (400, {"message": "The decoder prompt (length 9000) is longer than the maximum model length of 4096."}),
    "Anthropic": (400, {"message": "prompt is too long: 215000 tokens > 200000 maximum"}),
    "Anthropic, sum": (400, {"message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}),
    "Anthropic, bytes": (413, {"type": "request_too_large", "message": "Request exceeds the maximum size"}),
    "llama.cpp": (400, {"message": "the request exceeds the available context size, try increasing it",
                        "type": "exceed_context_size_error"}),
    "SGLang": (400, {"message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."}),
    "TGI": (422, {"message": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096."}),
    "Gemini": (400, {"message": "The input token count (1200000) exceeds the maximum number of tokens allowed."}),
    "nginx": (413, {"message": "Request Entity Too Large"}),
    "a router, by HTTP 200": (200, {"message": "maximum context length exceeded", "code": 400}),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ITS_LENGTH)
def test_servers_say_in_many_ways_that_a_text_is_too_long(name):
    status, error = OF_ITS_LENGTH[name]
    with pytest.raises(CallFailed, match="refused: too long"):
        raise _failure(status, {}, {"error": error}, "") if status != 200 else reply_from_body({"error": error})


def test_what_is_too_long_is_named_by_model_and_not_a_verdict_unless_accepted(tmp_path, serve, capsys):
    refuse = refusing(400, message="This model's maximum context length is 4096 tokens.")
    server = serve(lambda s, text, w: refuse() if "Very long" in text else fine(s, text, w))
    said = {"w": "Brief.", "x": "Very long. " * 9, "y": "Brief, too.", "z": "Short."}
    row = {"question_id": 1, "variant": 0, "category": "c", "prompt": "Why?"}
    write_rows(tmp_path / "answers.jsonl", [row | {"model": m, "answer": said[m]} for m in said])
    report, details = tmp_path / "report.json", tmp_path / "details.csv"
    for _ in range(2):
        assert judged(tmp_path, server.url, *SINGLE, "--report", str(report)) == 3 and server.asked == 6
        said = capsys.readouterr().err
        assert "because these are too long for m: 3 × x;" in said and "--accept-too-long" in said
        assert not (tmp_path / "verdicts.csv").exists() and not json.loads(report.read_text())["complete"]
    assert judged(tmp_path, server.url, *SINGLE, "--accept-too-long", "--details", str(details)) == 0
    assert [verdict == "invalid" for verdict in verdicts(tmp_path)] == [True, False, False, True, True, False]
    causes = ["refused: too long" * (verdict == "invalid") for verdict in verdicts(tmp_path)]
    assert pd.read_csv(details, keep_default_na=False)["cause"].tolist() == causes and server.asked == 6


def test_launch_names_what_is_too_long_at_the_end(tmp_path, serve, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    refuse = refusing(400, code="context_length_exceeded")
    server = serve(lambda s, text, w: refuse() if "Answer of x" in text else fine(s, text, w))
    job = words("judge", answers(tmp_path, 2), server.url, tmp_path, "verdicts.csv", *SINGLE)
    assert main(["launch", "--workers", "1", "--logs", str(tmp_path / "logs"), "--", *job]) == 3
    assert "too long for m: 4 × x" in capsys.readouterr().err and server.asked == 6
    assert main([*job, "--accept-too-long"]) == 0 and verdicts(tmp_path).count("invalid") == 4


def test_a_pair_too_long_for_both_orders_is_named_though_scores_decide_it(tmp_path, serve, capsys):
    refuse = refusing(400, code="context_length_exceeded", message="too many tokens")
    pair = lambda text: "Answer of x" in text and "(A or B)" in text  # noqa: E731
    server = serve(lambda s, text, w: refuse() if pair(text) else fine(s, text, w))
    assert judged(tmp_path, server.url) == 3 and "too long for m: 2 × x" in capsys.readouterr().err
    assert judged(tmp_path, server.url, "--accept-too-long") == 0 and "invalid" not in verdicts(tmp_path)


def test_a_question_too_long_to_answer_or_to_reword_is_missing_only_if_accepted(tmp_path, serve, capsys):
    refuse = refusing(400, message="This model's maximum context length is 4096 tokens.")
    server = serve(lambda s, text, w: refuse() if "Why" in text else fine(s, text, w))
    assert answered(tmp_path, server.url) == 3 and "too long for m: 1 × m" in capsys.readouterr().err
    assert answered(tmp_path, server.url, "--accept-too-long") == 0 and len(read_rows(tmp_path / "out.jsonl")) == 1
    rows = [{"question_id": q, "category": "c", "prompt": text} for q, text in ((1, "Why?"), (2, "How?"))]
    source = write_rows(tmp_path / "questions.jsonl", rows)
    job = words("perturb", source, server.url, tmp_path, "perturbed.jsonl")
    capsys.readouterr()
    out = tmp_path / "perturbed.jsonl"
    assert main(job) == 3 and "1 × question 1" in capsys.readouterr().err and not out.exists()
    assert main([*job, "--accept-too-long"]) == 0 and out.exists()


# ---- replies without a text to read


def test_what_a_filter_cut_is_invalid_even_if_it_is_all_there_is(tmp_path, serve):
    server = serve(lambda *_: completion(None, message=None, finish_reason="content_filter: PROHIBITED_CONTENT"))
    for _ in range(2):
        assert judged(tmp_path, server.url, *SINGLE) == 0 and server.asked == 9
        assert verdicts(tmp_path) == ["invalid"] * 3


BLANK = {
    "empty": completion(""),
    "null": completion(None),
    "reasoning alone": completion(None, message={"content": None, "reasoning_content": "Let me see. [A]"}),
    "tags alone": completion("<think>Let me see. [RESULT] A</think>\n"),
    "cut while reasoning": completion("", finish_reason="length"),
    "cut in its tags": completion("<think>Let me see. Verdict: [A]", finish_reason="length"),
    "cut": completion("Feedback: both are", finish_reason="length"),
    "filtered": completion(None, message=None, finish_reason="content_filter"),
}


@pytest.mark.parametrize("name, n_questions", [*((name, 1) for name in BLANK if name != "filtered"), ("cut", 20)])
def test_who_never_says_anything_is_stopped_and_has_judged_nothing(tmp_path, serve, name, n_questions, capsys):
    server = serve(lambda *_: BLANK[name])
    answers(tmp_path, n_questions)
    assert judged(tmp_path, server.url) == 2
    said, reasoning = one_line(capsys), "reasoning" in name or "tags" in name
    assert "--max-tokens" in said and "same command" in said
    assert "while reasoning" in said or "reasoning alone" in said or not reasoning
    assert server.asked <= 3 * min(6 * n_questions, 25 + 4 * 8) and not (tmp_path / "verdicts.csv").exists()
    assert states(tmp_path) == {"open": 6 * n_questions}
    goes_on(tmp_path, server)


@pytest.mark.parametrize("name", ["empty", "cut while reasoning", "filtered"])
def test_few_bad_replies_among_good_ones_stop_nothing(tmp_path, serve, name):
    server = serve(lambda s, text, w: BLANK[name] if "Answer of x" in text else fine(s, text, w))
    answers(tmp_path, 15, "wxyz")
    assert judged(tmp_path, server.url, *SINGLE, "--concurrency", "2") == 0
    assert [verdict == "invalid" for verdict in verdicts(tmp_path)] == [True, False, False, True, True, False] * 15


@pytest.mark.parametrize("name", ["empty", "too long"])
def test_a_first_model_that_nobody_can_judge_stops_a_run_once(tmp_path, serve, name):
    "Its 29 pairs come first, when nothing is known yet; given again, the others come first."
    bad = BLANK["empty"] if name == "empty" else refusing(400, code="context_length_exceeded")()
    server = serve(lambda s, text, w: bad if "Answer of A " in text else fine(s, text, w))
    answers(tmp_path, 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcd")
    assert judged(tmp_path, server.url, *SINGLE, "--accept-too-long") in (0, 2)  # 0 where others were sooner
    assert judged(tmp_path, server.url, *SINGLE, "--accept-too-long") == 0
    assert verdicts(tmp_path).count("invalid") == 29 and len(verdicts(tmp_path)) == 435


def thinker(needed: int, most: int = 10**9):
    "A judge whose reasoning takes that many tokens, on a server that writes no more than the most."

    def behave(endpoint, text: str, writer) -> bytes:
        tokens = endpoint.bodies[-1]["max_tokens"]
        if tokens > most:
            return refusing(400, message=f"max_tokens is too large: {tokens}. This model writes at most {most}.")()
        usage = {"prompt_tokens": len(text.encode()), "completion_tokens": min(tokens, needed)}
        if tokens < needed and "Answer of z" in text:
            return completion(None, usage=usage, finish_reason="length")
        return completion(right_reply(text), usage=usage)

    return behave


def test_the_limit_on_the_cost_holds_for_twice_the_budget_and_a_later_run_knows_of_it(tmp_path, serve):
    server = serve(thinker(1500))
    answers(tmp_path, 1, "yz")
    assert judged(tmp_path, server.url, *SINGLE, "--price-out", "1000", "--max-cost", "2.0") == 3
    assert [body["max_tokens"] for body in server.bodies] == [1024], "1.024 is spent, 2.048 would pass the limit"
    assert judged(tmp_path, server.url, *SINGLE) == 0 and server.bodies[-1]["max_tokens"] == 2048 and server.asked == 2


@pytest.mark.parametrize("needed, most", [(9000, 10**9), (1500, 1024)], ids=["never enough", "twice is refused"])
def test_twice_the_budget_is_asked_for_once_and_what_it_does_not_help_is_invalid(tmp_path, serve, needed, most):
    server = serve(thinker(needed, most))
    for _ in range(2):
        assert judged(tmp_path, server.url, *SINGLE) == 0 and server.asked == 5
        assert [verdict == "invalid" for verdict in verdicts(tmp_path)] == [False, True, True]


REFUSALS = {
    "limit on tokens": "'max_tokens' is too large: 1024. This model's maximum context length is 1024 tokens.",
    "account": "Blocked: see our content policy, and your billing page.",
}


@pytest.mark.parametrize("name, n_questions, workers", [("limit on tokens", 1, "8"), ("account", 10, "1")])
def test_who_refuses_everything_has_judged_nothing(tmp_path, serve, name, n_questions, workers, capsys):
    server = serve(refusing(400, message=REFUSALS[name]))
    answers(tmp_path, n_questions)
    assert judged(tmp_path, server.url, "--concurrency", workers) == 2
    said = one_line(capsys)
    assert REFUSALS[name].split(":")[0] in said and "same command" in said
    assert server.asked <= 25 + int(workers) - 1 and not (tmp_path / "verdicts.csv").exists()
    assert states(tmp_path) == {"open": 6 * n_questions}
    goes_on(tmp_path, server)


@pytest.mark.parametrize("workers", ["8", "64"])
def test_who_refuses_all_from_some_moment_on_has_judged_what_came_before(tmp_path, serve, workers, capsys):
    refuse = refusing(400, message="content policy")
    server = serve(lambda s, text, w: after(1.0, refuse()) if s.asked > 12 else fine(s, text, w))
    answers(tmp_path, 10)
    patient = ("--concurrency", workers, "--timeout", "30")  # for a slow machine
    assert judged(tmp_path, server.url, *patient) == 2 and "in a row" in one_line(capsys)
    assert states(tmp_path) == {"open": 48, "done": 12}
    goes_on(tmp_path, server)


# ---- one poisonous reply


def bomb() -> bytes:
    packer = zlib.compressobj(1, wbits=31)
    packed = b"".join(packer.compress(b" " * 1_000_000) for _ in range(300)) + packer.flush()
    return http(200, packed, "Content-Encoding: gzip\r\n")


POISON = {
    **{
        f"{number!r:.9} tokens": completion("[RESULT] A", usage={"prompt_tokens": number, "completion_tokens": 1})
        for number in (2**63, 10**400, -1, "many")
    },
    "content that is a table": completion({"text": "[RESULT] A"}),
    "utf-16": completion("[RESULT] A").replace(b"/json", b"/json; charset=utf-16"),
    "unknown charset": completion("[RESULT] A").replace(b"/json", b"/json; charset=none"),
    "lone surrogate": completion("\ud800 [RESULT]"),
    "reason with a surrogate": completion("hm", finish_reason="\ud800" * 9),
    "reason that is a table": completion("hm", finish_reason={"a": [1]}),
    "error with a surrogate": http(200, b'{"error": {"message": "\\ud800 \\u001b[2J"}}'),
    "deep nesting": http(200, b"[" * 200_000),
    "a number of 5000 digits": http(200, b'{"choices": [' + b"9" * 5000 + b"]}"),
    "10 MB": http(200, LARGE),
    "10 MB of error": http(500, b"x" * 10_000_000),
    "compressed bomb": None,
}


@pytest.mark.parametrize("name", POISON)
def test_one_poisonous_reply_harms_itself_only(tmp_path, serve, name, capsys):
    poison, before = POISON[name] or bomb(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    poisoned = lambda text: "Answer of x" in text and "Answer of z" in text  # noqa: E731
    server = serve(lambda s, text, w: poison if poisoned(text) else fine(s, text, w))
    code, said = judged(tmp_path, server.url, *SINGLE, "--concurrency", "1"), capsys.readouterr().err
    assert code in (0, 3) and "Traceback" not in said and "\x1b" not in said
    kept = states(tmp_path)
    assert kept.get("done", 0) >= 2, "the paid replies are kept"
    server.behave, asked = fine, server.asked
    assert judged(tmp_path, server.url, *SINGLE, "--retry-invalid") == 0
    assert server.asked - asked == 3 - kept["done"] and states(tmp_path) == {"done": 3}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 250_000  # kB


# ---- time


# ---- limits


def test_the_limit_on_the_cost_holds_in_any_language(tmp_path, serve, capsys):
    "An endpoint that counts a token for every byte, the most there can be."
    server, prices = serve(), ("--price-in", "1000", "--price-out", "1000")
    server.behave = lambda s, text, w: completion(
        right_reply(text), usage={"prompt_tokens": len(text.encode()), "completion_tokens": 512}
    )
    answers(tmp_path, 10, said="模型{m}对问题{q}的回答。" * 60)
    cost = lambda: sum(len(said_to(body).encode()) + 512 for body in server.bodies) / 1000  # noqa: E731
    assert judged(tmp_path, server.url, "--max-cost", "30", *prices) == 3 and 0 < cost() <= 30
    (tmp_path / "ledger.sqlite").unlink()
    server.bodies.clear()
    capsys.readouterr()
    assert judged(tmp_path, server.url, "--dry-run", *prices) == 0
    pairs, scores = (float(part.split()[0]) for part in capsys.readouterr().out.split(" at most ")[2::2])
    assert judged(tmp_path, server.url, *prices) == 0 and cost() <= pairs + scores


def price(server: Endpoint, replies: list[int]) -> float:
    "What the endpoint charges for all it was asked, in its own count of tokens."
    return (0.1 * sum(len(said_to(body)) // 4 for body in server.bodies) + 80 * sum(replies)) / 1e6


def test_the_limit_on_the_cost_holds_when_replies_grow(tmp_path, serve):
    "Short replies, then as long as they may be."
    counts = []

    def behave(server, text, writer):
        counts.append(server.bodies[-1]["max_tokens"] if int(text[:-1]) >= 10 else 5)
        usage = {"prompt_tokens": len(text) // 4, "completion_tokens": counts[-1]}
        return completion("x " * counts[-1], finish_reason="length" if counts[-1] > 5 else "stop", usage=usage)

    server, texts = serve(behave), tuple(f"{q}?" for q in range(30))
    more = ("--concurrency", "4", "--max-tokens", "600", *PRICES)
    assert answered(tmp_path, server.url, *more, "--max-cost", "0.11", texts=texts) == 3
    assert 0.05 < price(server, counts) <= 0.11
    assert set(states(tmp_path)) == {"open", "done"} and not (tmp_path / "out.jsonl").exists()
    assert answered(tmp_path, server.url, *more, texts=texts) == 0
    assert [row["answer"].count("x") for row in read_rows(tmp_path / "out.jsonl")] == [5] * 10 + [600] * 20


# ---- keys


ECHOES = {
    "plain": KEY,
    "escaped": "".join(f"\\u{ord(c):04x}" for c in KEY),
    "capitals": "".join(f"\\u{ord(c):04X}" for c in KEY),
    "solidus": KEY.replace("/", "\\/"),
    **{f"cut at {end}": "." * (end - 10) + KEY for end in (500, 120, 200)},
}
SHAPES = [
    (400, '{{"error": {{"message": "{}"}}}}'), (401, '{{"error": "{}"}}'), (500, "oops {}"),
    (200, '{{"error": {{"message": "{}"}}}}'), (200, "not JSON: {}"), (200, '{{"choices": [{{"mess{}'),
    (200, '{{"error": "{}"}}'),
]  # fmt: skip


def hidden(folder: Path, capsys, *forms: str) -> str:
    "All that was kept and said, which holds the key in none of these forms."
    printed = capsys.readouterr()
    kept = b"".join(path.read_bytes() for path in folder.iterdir()).decode("utf-8", "replace")
    kept += printed.out + printed.err
    for form in (KEY, KEY.replace("/", "\\/"), *forms):
        assert form not in kept, form
    return kept


@pytest.mark.parametrize("echo, status, form", [(echo, *SHAPES[k % len(SHAPES)]) for k, echo in enumerate(ECHOES)])
def test_an_echoed_key_is_kept_nowhere(tmp_path, serve, echo, status, form, capsys):
    server = serve(lambda *_: http(status, form.format(ECHOES[echo]).encode()))
    answers(tmp_path, models="xy")
    assert judged(tmp_path, server.url, *SINGLE, "--report", str(tmp_path / "report.json")) == 3
    hidden(tmp_path, capsys, KEY[:8], ECHOES["escaped"][:36], ECHOES["capitals"][:36])


@pytest.mark.parametrize("echo", ["plain", "escaped", "solidus"])
def test_a_key_that_a_reply_repeats_is_kept_nowhere(tmp_path, serve, echo, capsys):
    said, first = f"<think>{KEY}</think>Authorization: Bearer {ECHOES[echo]} [A]", iter([True])
    packed = http(200, b"", f"Content-Encoding: {KEY}, gzip\r\nX-Key: {KEY}\r\n")
    server = serve(lambda *_: packed if next(first, False) else completion(said, finish_reason=KEY, id=KEY))
    assert answered(tmp_path, server.url, "--report", str(tmp_path / "report.json")) == 0
    kept = hidden(tmp_path, capsys, ECHOES[echo][-len(KEY) :])
    assert "[key]" in kept


# ---- endpoints are told apart, and what a judge says


@pytest.mark.parametrize("more, asked", [((), (3, 3)), (("--endpoint-name", "the cluster"), (3, 0))])
def test_two_endpoints_with_one_model_name_are_two_judges_but_one_with_a_name_may_move(tmp_path, serve, more, asked):
    servers = serve(), serve()
    for url in (*(server.url for server in servers), servers[0].url.replace("http", "HTTP")):
        assert judged(tmp_path, url, *SINGLE, *more) == 0
    assert tuple(server.asked for server in servers) == asked


def test_what_was_cut_off_or_filtered_is_no_verdict_and_is_named_in_an_answer(tmp_path, serve, capsys):
    cut = lambda text: "length" if "Answer of x" in text or "Answer" not in text else "stop"  # noqa: E731
    server = serve(lambda s, text, w: completion(right_reply(text), finish_reason=cut(text)))
    assert judged(tmp_path, server.url, *SINGLE) == 0
    assert [verdict == "invalid" for verdict in verdicts(tmp_path)] == [True, True, False]
    assert answered(tmp_path, server.url) == 0
    said = capsys.readouterr().err
    assert "2 cut" in said and "see --max-tokens" in said
    reason = lambda text: "content_filter" if "Why" in text else "stop"  # noqa: E731
    server = serve(lambda s, text, w: completion("It is beca", finish_reason=reason(text)))
    assert answered(tmp_path, server.url) == 0
    said = capsys.readouterr().err
    assert "content filter" in said and "no usable answer to question 1" in said and "max-tokens" not in said
    assert read_rows(tmp_path / "out.jsonl")[0]["question_id"] == 2


def batch_reply(name: str, status: int, **body: object) -> str:
    return json.dumps({"custom_id": name, "response": {"status_code": status, "body": body}, "error": None})


def test_a_batch_asks_with_twice_the_budget_too_and_knows_what_is_too_long(tmp_path, capsys):
    long = {"error": {"message": "no", "code": "context_length_exceeded"}}
    cut = {"choices": [{"message": {"content": None}, "finish_reason": "length"}]}
    names = written(tmp_path, 1)
    assert read_back(tmp_path, "1.jsonl", *(batch_reply(name, 400, **long) for name in names)) == 0
    assert states(tmp_path) == {"open": 3}, "who refuses everything has judged nothing"
    one, two, three = written(tmp_path, 2)
    said = batch_reply(one, 400, **long), batch_reply(two, 200, **cut), batch_line(three, "[A]")
    assert read_back(tmp_path, "2.jsonl", *said) == 0 and states(tmp_path) == {"invalid": 1, "open": 1, "done": 1}
    (again,) = written(tmp_path, 3)
    assert read_rows(tmp_path / "batch-3.jsonl")[0]["body"]["max_tokens"] == 2048
    assert read_back(tmp_path, "3.jsonl", batch_line(again, "[B]")) == 0
    assert judged(tmp_path, NOBODY, *SINGLE) == 3 and "too long for m: 1 × x" in capsys.readouterr().err
    assert judged(tmp_path, NOBODY, *SINGLE, "--accept-too-long") == 0 and verdicts(tmp_path) == ["invalid", "b", "a"]


# ---- parameters that a model does not take, and headers of the account


TOKENS = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
VALUE = "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."
TOP_P = "Unsupported parameter: 'top_p' is not supported with this model."
UNSUPPORTED = {  # what OpenAI's reasoning models say of it
    "max_tokens": {"message": TOKENS, "param": "max_tokens", "code": "unsupported_parameter"},
    "temperature": {"message": VALUE, "param": "temperature", "code": "unsupported_value"},
    "top_p": {"message": TOP_P, "param": "top_p", "code": "unsupported_parameter"},
}


def reasoner(endpoint, text: str, writer) -> bytes:
    "A model that refuses the first of these parameters that it finds."
    refused = next((error for name, error in UNSUPPORTED.items() if name in endpoint.bodies[-1]), None)
    return refusing(400, type="invalid_request_error", **refused)() if refused else fine(endpoint, text, writer)


def test_what_a_reasoning_model_refuses_is_left_out_said_and_remembered(tmp_path, serve, capsys):
    "README's three commands with its own name of a model, then more questions: nothing refused is sent again."
    server, plain = serve(reasoner), serve()
    questions = [{"question_id": q, "category": "math", "prompt": f"What is {q} + {q}?"} for q in range(12)]
    keys, before = {}, 0  # what was sent before the second command
    for folder, url in ((tmp_path / "reasoner", server.url), (tmp_path / "plain", plain.url)):
        folder.mkdir()
        alike = ("--endpoint-name", "e", "--concurrency", "4")
        for n in (6, 12):
            before = len(server.bodies) if url == server.url and n == 12 else before
            asked = write_rows(folder / "questions.jsonl", questions[:n])
            for stage, source, out in (
                ("perturb", asked, "prompts.jsonl"), ("respond", folder / "prompts.jsonl", "target.jsonl"),
            ):  # fmt: skip
                arguments = words(stage, source, url, folder, out, *alike)
                arguments[arguments.index("m")] = "gpt-5.2"
                assert main(arguments) == 0
            says = "gpt-5.2 refuses max_tokens (max_completion_tokens is sent instead)" in capsys.readouterr().err
            assert says == (url == server.url)
        with Ledger(folder / "ledger.sqlite") as ledger:
            keys[url] = {key for (key,) in ledger.query("SELECT key FROM requests")}
            assert {status for (status,) in ledger.query("SELECT status FROM requests")} == {"done"}
    assert keys[server.url] == keys[plain.url], "what is sent otherwise is known by the same name"
    later = server.bodies[before:]
    assert later and all("max_completion_tokens" in body and not UNSUPPORTED.keys() & body.keys() for body in later)


def test_a_batch_file_leaves_out_what_the_one_before_was_refused_for(tmp_path, capsys):
    names = written(tmp_path, 1)
    refused = [batch_reply(name, 400, error=UNSUPPORTED["max_tokens"]) for name in names]
    assert read_back(tmp_path, "1.jsonl", *refused) == 0 and states(tmp_path) == {"open": 3}
    written(tmp_path, 2)
    (body, *_) = [row["body"] for row in read_rows(tmp_path / "batch-2.jsonl")]
    assert body["max_completion_tokens"] == 1024 and "max_tokens" not in body and body["temperature"] == 0.0
    assert "m refuses max_tokens" in capsys.readouterr().err


@pytest.mark.parametrize("asked", [False, True])
def test_the_account_of_the_environment_is_told_to_its_own_host_alone(tmp_path, serve, monkeypatch, asked):
    for name in ("ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", f"secret-{name}")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: secret-team\nX-Cost-Centre: secret-centre")
    server = serve()
    answers(tmp_path, 1)
    assert judged(tmp_path, server.url, *SINGLE, *(["--account-headers"] if asked else [])) == 0
    told = ("secret-org_id", "secret-project_id", "secret-team", "secret-centre")
    assert all((word in head) == asked for head in server.heads for word in told) and server.bearers == {KEY}


def test_headers_of_the_environment_do_not_replace_the_key(tmp_path, serve, monkeypatch):
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer another\nbroken line")
    server = serve()
    answers(tmp_path, 1)
    assert judged(tmp_path, server.url, *SINGLE) == 0 and server.bearers == {KEY}


def test_the_default_host_is_told_the_account(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert ApiBackend()._headers(None) == {}
    assert ApiBackend("https://api.openai.com.example/v1")._headers(None)["OpenAI-Organization"] is None


@pytest.mark.parametrize("url", ["", " "])
def test_an_empty_address_is_refused_and_nobody_is_asked(tmp_path, monkeypatch, capsys, url):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    answers(tmp_path, 1)
    arguments = judging(tmp_path, NOBODY)
    arguments[arguments.index("--base-url") + 1] = url
    assert main(arguments) == 2 and "base URL" in capsys.readouterr().err
    assert not (tmp_path / "ledger.sqlite").exists()


# ---- judges of whom nothing can be read


@pytest.mark.parametrize(
    "said, options",
    [("Both have their merits.", ()), ("[RESULT] C", ()), ("", SINGLE[:2]), ("[D]", (*SINGLE[:2], "--order", "both"))],
)
def test_a_judge_of_whom_nothing_can_be_read_stops_after_25_replies(tmp_path, serve, capsys, options, said):
    server = serve(lambda s, text, w: completion(said))
    answers(tmp_path, 20, "vwxyz")
    assert judged(tmp_path, server.url, *options, "--concurrency", "2") == 2
    assert 25 <= server.asked <= 26 and "could be read" in capsys.readouterr().err
    assert states(tmp_path).keys() == {"open"} and not (tmp_path / "verdicts.csv").exists()


def test_scores_of_which_none_can_be_read_stop_too(tmp_path, serve, capsys):
    "A judge that always prefers the first, so that scores decide, and gives none."
    first = lambda s, text, w: completion("[RESULT] A" if "(A or B)" in text else "I give no points.")  # noqa: E731
    server = serve(first)
    answers(tmp_path, 20, "xyz")
    assert judged(tmp_path, server.url, "--concurrency", "1") == 2
    assert server.asked == 20 * 3 * 2 + 25 and "none of 25 replies could be read" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["prose", "the same again", "not equivalent"])
def test_paraphrases_of_which_none_is_accepted_are_said_and_not_written(tmp_path, serve, capsys, kind):
    def behave(endpoint, text, writer):
        k = re.search(r"exactly (\d+) paraphrases", text)
        if kind == "prose":
            return completion("I would rather not.")
        if k is None:
            return completion(json.dumps(["NO"] * 8))
        n = int(re.search(r"What is (\d)", text)[1])
        again = [f"What is {n}?"] if kind == "the same again" else [f"{j} in other words {n}" for j in range(8)]
        return completion(json.dumps((again * 8)[: int(k[1])]))

    rows = [{"question_id": q, "category": "math", "prompt": f"What is {q}?"} for q in range(3)]
    source = write_rows(tmp_path / "questions.jsonl", rows)
    assert main(words("perturb", source, serve(behave).url, tmp_path, "prompts.jsonl")) == 3
    said = capsys.readouterr().err
    assert "no paraphrase was accepted for any of 3 questions" in said and not (tmp_path / "prompts.jsonl").exists()
    shown = {"prose": "I would rather not.", "the same again": "What is 0?", "not equivalent": '["NO", "NO"'}
    assert shown[kind] in said


def test_half_a_surrogate_pair_in_a_batch_file_belongs_to_nobody(tmp_path):
    half = "\\ud800"
    names = written(tmp_path, 1)
    lines = [
        f'{{"custom_id": "{half}", "response": null, "error": null}}',
        f'{{"custom_id": "{half * 48}-1", "response": null, "error": null}}',
        batch_line(names[0], "[A]").replace("[A]", f"{half} Verdict: [A]"),
        batch_reply(names[1], 400, error={"message": "HALF"}).replace("HALF", half),
        batch_line(names[2], "[B]").replace('"stop"', f'"{half}"'),
    ]
    assert read_back(tmp_path, "1.jsonl", *lines) == 0
    assert states(tmp_path) == {"done": 2, "open": 1}


# ---- proxies


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_proxy_of_the_environment_sees_a_request_or_the_key(tmp_path, serve, scheme, monkeypatch):
    seen, proxy = [], socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        while True:
            try:
                caller = proxy.accept()[0]
            except OSError:
                return
            seen.append(caller.recv(65536))
            caller.close()

    threading.Thread(target=listen, daemon=True).start()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        for spelled in (name, name.lower()):
            monkeypatch.setenv(spelled, f"http://127.0.0.1:{proxy.getsockname()[1]}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = serve()
    assert answered(tmp_path, NOBODY.replace("http", scheme), "--endpoint-name", "nobody") == 3
    assert judged(tmp_path, server.url) == 0 and server.bearers == {KEY}
    proxy.close()
    assert seen == []


# ---- options


REFUSED = [
    "--timeout 0", "--timeout nan", "--concurrency 100000", "--base-url http://127.0.0.1:99999/v1",
    "--base-url http://127.0.0.1:x/v1", "--base-url http://[::1/v1", "--base-url http://127.0.0.1:9/\u00a0v1",
    "--out /proc/nowhere/verdicts.csv", "--out verdicts.txt", "--out {d}", "--report {d}/pipe",
    "--details {d}/answers.jsonl", "--out {d}/ledger.sqlite", "--report {d}/./verdicts.csv",
    "--details {d}/verdicts.csv", "--report {d}/answers.jsonl", "--report {d}/ledger.sqlite-wal", "--report {d}/link",
    "--report {d}/hard", "--report {d}/folder/answers.jsonl", "--batch-file {d}/answers.jsonl --batch write",
    "--batch-file {d}/link.jsonl --batch write", "--batch-file {d}/b.jsonl --batch write --report {d}/b.jsonl",
    "--base-url http://example.org/v1", "--key-variable PPE_NO_SUCH_KEY --base-url https://example.org/v1",
    "--max-cost 1", "--concurrency 0", "--category poetry", "--judge-variants 0,x", "--temperature hot",
    "--prompts no-such.toml",
]  # fmt: skip


@pytest.mark.parametrize("more", REFUSED)
def test_refused_before_anything_is_sent(tmp_path, serve, more, capsys):
    server = serve()
    answers(tmp_path)
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "precious")
    (tmp_path / "hard").hardlink_to(tmp_path / "answers.jsonl")
    (tmp_path / "folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    given = [word.replace("\u00a0", " ").format(d=tmp_path) for word in more.split(" ")]
    assert judged(tmp_path, server.url, *given) == 2
    names = {"--base-url": "base URL", "--timeout": "timeout", "--concurrency": "concurrency"}
    names["--max-cost"] = "--price-in"
    files = ("--out", "--report", "--details", "--batch-file")
    said = names.get(given[0], given[0] if given[0] in files and "link.jsonl" not in more else Path(given[1]).name)
    line = one_line(capsys)
    assert said in line and ("example.org" not in given[1] or "--allow-insecure" in line) and server.asked == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_what_is_missing_is_named_before_the_ledger_is_made(tmp_path, serve, monkeypatch, capsys):
    url, out = serve().url, "/proc/nowhere/v.csv"
    job = words("judge", answers(tmp_path), url, tmp_path, out)
    assert main(["launch", "--logs", str(tmp_path / "logs"), "--", *job]) == 2
    assert "--out" in one_line(capsys) and not (tmp_path / "logs").exists()
    monkeypatch.setattr("ppe.stages.chat.find_spec", lambda name: None)
    assert judged(tmp_path, url) == 2 and "pip install 'openai>=3'" in one_line(capsys)
    assert not (tmp_path / "ledger.sqlite").exists()


def test_a_full_disk_is_named_by_the_file(tmp_path, serve, monkeypatch, capsys):
    def full(path, mode="r", **how):
        return open(path, mode, **how) if mode != "xb" else (open(path, mode).close(), open("/dev/full", "wb"))[1]

    monkeypatch.setattr("ppe.files.open", full, raising=False)
    assert judged(tmp_path, serve().url) == 2 and not list(tmp_path.glob("*verdicts.csv*"))
    said = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert said == [f"ppe: error: No space left on device: {tmp_path / 'verdicts.csv'}"]


@pytest.mark.parametrize("broken", ["closed", "no reader", "full"])
def test_progress_that_nobody_can_read_costs_nothing(tmp_path, serve, broken):
    job = words("judge", answers(tmp_path), serve().url, tmp_path, "out.csv")
    job = [word for word in job if word != "--quiet"]
    ppe = [sys.executable, "-c", "import sys; from ppe.cli.main import main; sys.exit(main())"]
    shell = ["sh", "-c", 'exec "$@"' + " 2>&-" * (broken == "closed"), "sh"]
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "w") as full:
        done = subprocess.run([*shell, *ppe, *job], stderr=full if broken == "full" else writer)
    os.close(writer)
    assert done.returncode == 0 and len(pd.read_csv(tmp_path / "out.csv")) >= 3


# ---- ledgers


BROKEN = {
    "random bytes": os.urandom(5000),
    "cut": b"SQLite format 3\x00" + bytes(50),
    "a text": b"ledger\n" * 900,
    "a version that is a text": "INSERT INTO ledger VALUES ('x')",
    "version 1": "INSERT INTO ledger VALUES (1)",
    "no version": "",
    "no tables": "INSERT INTO ledger VALUES (2)",
}


@pytest.mark.parametrize("name, command", [*((name, "judge") for name in BROKEN), ("cut", "export"), ("cut", "show")])
def test_a_broken_ledger_is_refused_in_one_line(tmp_path, serve, name, command, capsys):
    path, content = tmp_path / "ledger.sqlite", BROKEN[name]
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with sqlite3.connect(path) as db:
            db.executescript(f"CREATE TABLE ledger (version INTEGER NOT NULL); {content}")
        db.close()
    before, server = path.read_bytes(), serve()
    more = {"export": ["--out", str(tmp_path / "out.csv")], "show": ["ab"]}.get(command, [])
    run = judged(tmp_path, server.url) if command == "judge" else main(["ledger", command, str(path), *more])
    assert run == 2 and (name if name == "version 1" else "") in one_line(capsys)
    assert path.read_bytes() == before and server.asked == 0


# ---- batches


def batch(folder: Path, what: str, file: Path) -> int:
    return judged(folder, NOBODY, *SINGLE, "--batch", what, "--batch-file", str(file))


def written(folder: Path, number: int) -> list[str]:
    file = folder / f"batch-{number}.jsonl"
    assert batch(folder, "write", file) == 0
    return [row["custom_id"] for row in read_rows(file)]


def batch_line(name: object, content: str | None) -> str:
    body = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    expired = {"response": None, "error": {"code": "batch_expired", "message": "too late"}}
    right = {"response": {"status_code": 200, "body": body}, "error": None}
    return json.dumps({"custom_id": name, **(expired if content is None else right)})


def read_back(folder: Path, name: str, *lines: str) -> int:
    (folder / name).write_text("".join(line + "\n" for line in lines))
    return batch(folder, "read", folder / name)


def test_an_old_error_file_does_not_count_against_a_newer_batch(tmp_path):
    old = written(tmp_path, 1)
    errors = [batch_line(name, None) for name in old]
    assert read_back(tmp_path, "errors.jsonl", *errors) == 0 and states(tmp_path) == {"open": 3}
    new = written(tmp_path, 2)
    for _ in range(5):
        assert read_back(tmp_path, "errors.jsonl", *errors) == 0 and states(tmp_path) == {"batch": 3}
    # A reply that was paid for is taken whenever it comes.
    assert read_back(tmp_path, "late.jsonl", batch_line(old[0], "[A]")) == 0
    assert read_back(tmp_path, "results.jsonl", *(batch_line(name, "[B]") for name in new)) == 0
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert sorted(ledger.query("SELECT parsed FROM requests")) == [("a",), ("b",), ("b",)]


def test_of_two_entries_for_one_request_the_good_one_counts(tmp_path, capsys):
    one, two, three = written(tmp_path, 1)
    said = ((one, None), (one, "[A]"), (two, "[B]"), (two, None), (two, "[B]"))
    capsys.readouterr()
    assert read_back(tmp_path, "results.jsonl", *(batch_line(*entry) for entry in said)) == 0
    assert "2 done" in one_line(capsys) and states(tmp_path) == {"batch": 1, "done": 2}
    assert read_back(tmp_path, "more.jsonl", batch_line(three, "[A]"), batch_line(three, "[B]")) == 2
    assert "more.jsonl" in one_line(capsys) and states(tmp_path) == {"batch": 1, "done": 2}


DAMAGED = {
    "a list": [batch_line(["a"], "[A]")], "none": [batch_line(None, "[A]")], "deep": ["[" * 100_000], "empty": ["{}"],
    "a number": ["7"], "NUL": ["\x00"], "half": [batch_line("f" * 64, "[A]"), "{half"],
}  # fmt: skip


@pytest.mark.parametrize("name", [*DAMAGED, "strangers"])
def test_a_damaged_batch_file_changes_nothing_and_neither_do_foreign_ids(tmp_path, name, capsys):
    own, strangers = written(tmp_path, 1)[0][:10], name == "strangers"
    capsys.readouterr()
    lines = [batch_line(other, "[A]") for other in ("f" * 64, "%", "", own, "é")] if strangers else DAMAGED[name]
    assert read_back(tmp_path, "results.jsonl", *lines) == (0 if strangers else 2)
    assert ("5 strangers" if strangers else "results.jsonl") in one_line(capsys) and states(tmp_path) == {"batch": 3}


@pytest.mark.parametrize("asked, least", [("86400", 0), ("0.5", 0.5)], ids=["a day", "half a second"])
def test_a_pause_is_kept_unless_nobody_can_keep_it(tmp_path, serve, asked, least):
    busy, times = http(503, b"", f"Retry-After: {asked}\r\n"), []
    server = serve(lambda *request: times.append(time.monotonic()) or (busy if len(times) == 1 else fine(*request)))
    answers(tmp_path, models="xy")
    assert judged(tmp_path, server.url, *SINGLE) == 0 and len(times) == 2 and least <= times[1] - times[0] < 3

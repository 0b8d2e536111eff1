"""An endpoint on this machine that speaks the OpenAI API, and misbehaves on request.

`Endpoint(behave)` serves in a thread of a test; `python tests/endpoint.py PORT_FILE [--delay SECONDS]` serves on a
free port of 127.0.0.1 and writes the port to PORT_FILE.
"""

import argparse
import asyncio
import hashlib
import inspect
import json
import random
import re
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

FAULTS = {
    "429": 3, "500": 3, "drop": 3, "drop half way": 2, "slow": 1, "truncated": 2, "prose": 3, "empty": 3,
    "wrong length": 2, "large": 0.25,
}  # fmt: skip
LARGE = b'{"choices": "' + b"x" * 10_000_000 + b'"}'


def digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big")


def right_reply(text: str) -> str:
    "What a judge, a generator or a target says; depends on the text alone."
    number = digest(text)
    if "paraphrase generator" in text:
        k = int(re.search(r"exactly (\d+) paraphrases", text)[1])
        return json.dumps([f"paraphrase {j} of {number % 10_000}" for j in range(k)])
    if "equivalence judge" in text:
        k = int(re.search(r"array of strings of length (\d+)", text)[1])
        return json.dumps(["NO" if (number >> j) % 4 == 0 else "YES" for j in range(k)])
    if "an integer number between 1 and 5" in text:
        return f"Feedback: a score. [RESULT] {1 + number % 5}"
    if "[RESULT] (A or B)" in text:
        return f"Feedback: a comparison. [RESULT] {'AB'[number % 2]}"
    if "[RANKING]" in text:
        labels = re.findall(r"<<ANSWER_([A-Z])_START", text)
        random.Random(number).shuffle(labels)
        return f"A comparison. [RANKING] {' > '.join(labels)}"
    if "[C]" in text:
        return f"A short explanation. Verdict: [{'ABC'[number % 3]}]"
    return f"An answer, number {number % 10_000}."


def completion(content: object, request: str = "", usage: dict | None = None, **choice: object) -> bytes:
    "A whole answer over HTTP with this content; further keys go into the choice."
    said = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}} | choice
    counted = {"prompt_tokens": len(request) // 4, "completion_tokens": len(str(content)) // 4 + 1}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "served", "choices": [said]}
    return http(200, json.dumps(body | {"usage": counted if usage is None else usage}).encode())


def http(status: int, body: bytes, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{headers}\r\n".encode() + body


def said_to(body: dict) -> str:
    return "\n".join(message["content"] for message in body["messages"])


def fine(endpoint: "Endpoint", text: str, writer: asyncio.StreamWriter) -> bytes:
    return completion(right_reply(text), text)


class Faulty:
    """Meets attempts with faults; which, depends on the text of the request and the number of the attempt alone.

    For each request (by hash) it knows the behaviours met, in order, and when.
    """

    def __init__(self, faults: float = 0.0, delay: float = 0.0):
        self.faults, self.delay = faults, delay
        self.served: dict[str, list[str]] = defaultdict(list)
        self.times: dict[str, list[float]] = defaultdict(list)

    @property
    def counts(self) -> Counter:
        return Counter(behaviour for behaviours in self.served.values() for behaviour in behaviours)

    async def __call__(self, endpoint: "Endpoint", text: str, writer: asyncio.StreamWriter) -> bytes | None:
        body = endpoint.bodies[-1]
        name = f"{digest(json.dumps([body['model'], text, body.get('temperature')])):016x}"
        draw = random.Random(f"0 {name} {len(self.served[name])}")
        fault = draw.random() < self.faults
        behaviour = draw.choices(list(FAULTS), list(FAULTS.values()))[0] if fault else "ok"
        self.served[name].append(behaviour)
        self.times[name].append(time.monotonic())
        await asyncio.sleep(self.delay)
        good = completion(content := right_reply(text), text)
        head, body = good.split(b"\r\n\r\n", 1)
        if behaviour == "drop half way":
            writer.write(good[: -len(body) // 2])
        if behaviour == "slow":
            writer.write(head + b"\r\n\r\n")
            for byte in body:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.1)
            return b""
        wrong = json.dumps(["YES"] * 99) if content.startswith("[") else "[D] [RESULT] C"
        return {
            "ok": good,
            "429": http(429, b'{"error": {"message": "slow down"}}', "Retry-After: 1\r\n"),
            "500": http(500, b"internal error"),
            "truncated": http(200, body[: len(body) // 2]),
            "prose": completion("Both have their merits, and I would not say."),
            "empty": completion(""),
            "wrong length": completion(wrong),
            "large": http(200, LARGE),
        }.get(behaviour)


class Endpoint:
    """Serves in a thread of its own, from the start until it is closed.

    `behave(endpoint, text, writer)` gives the bytes that a request is answered with, or None to hang up; it may wait.
    """

    def __init__(self, behave=fine):
        self.behave, self.bodies, self.heads, self.bearers, ready = behave, [], [], set(), threading.Event()
        self.transports: set[asyncio.BaseTransport] = set()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.serve(ready)), daemon=True)
        self.thread.start()
        assert ready.wait(30)

    @property
    def asked(self) -> int:
        return len(self.bodies)

    async def serve(self, ready: threading.Event) -> None:
        self.loop, self.over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self.talk, "127.0.0.1", 0, limit=2**22, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        ready.set()
        await self.over.wait()
        server.close()
        for transport in self.transports:  # a caller that left may have taken a part of its answer only
            transport.abort()

    def close(self) -> None:
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.over.set)
            self.thread.join()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.transports.add(writer.transport)
        try:
            answer = b""
            while answer is not None:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                body = json.loads(await reader.readexactly(int(re.search(r"(?im)^content-length: (\d+)", head)[1])))
                self.bearers |= set(re.findall(r"(?im)^authorization: bearer (.*?)\r$", head))
                self.bodies.append(body)
                self.heads.append(head.lower())
                answer = self.behave(self, said_to(body), writer)
                answer = await answer if inspect.isawaitable(answer) else answer
                writer.write(answer or b"")
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port_file", type=Path)
    parser.add_argument("--delay", type=float, default=0.0)
    given = parser.parse_args()
    endpoint = Endpoint(Faulty(delay=given.delay))
    given.port_file.write_text(str(endpoint.port))
    endpoint.thread.join()

"""A model on this machine behind the OpenAI API, for the demo and for trying `ppe` with any client.

    python demo/server.py MODEL [--name NAME] [--port 8000] [--batch-size 8]

Answers `POST /v1/chat/completions` (no streaming) and `GET /v1/models`, on the loopback address only, since
it asks for no key. Requests that come at the same time are answered in one batch. Port 0 takes any free port.
"""

import argparse
import json
import socket
import sys
import time
import uuid
from itertools import count
from typing import Any

from ppe.errors import InputError, PpeError
from ppe.stages.chat import CallFailed, Decoding, Request
from ppe.stages.prompts import Message

DEFAULT_TOKENS = 512


class Refused(Exception):
    "A request that gets an error for an answer."

    def __init__(self, status: int, message: str, code: str = "invalid_request"):
        super().__init__(message)
        self.status, self.code = status, code


def message(turn: dict[str, Any]) -> Message:
    "A message of the API, whose content is text or a list of text parts."
    content = turn["content"]
    parts = [content] if isinstance(content, str) else [part["text"] for part in content]
    return Message(turn["role"], tuple(parts))


class App:
    "ASGI application over a backend."

    def __init__(self, backend: Any, model: str):
        self.backend, self.model, self.draws = backend, model, count()

    def request(self, body: Any) -> Request:
        "The request in a body. Without a seed every call is a draw of its own."
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list) or not body["messages"]:
            raise Refused(400, "a JSON object with a non-empty list of messages is needed")
        if (model := body.get("model")) != self.model:
            raise Refused(404, f"no model {model!r}: this server has {self.model!r}", "model_not_found")
        if body.get("stream") or body.get("n", 1) != 1:
            raise Refused(400, "streaming and n > 1 are not offered")
        limit = body.get("max_completion_tokens", body.get("max_tokens", DEFAULT_TOKENS))
        try:
            messages = tuple(map(message, body["messages"]))
            decoding = Decoding(body.get("temperature", 1.0), body.get("top_p", 1.0), limit)
            repeat = next(self.draws) if body.get("seed") is None else int(body["seed"])
        except (InputError, KeyError, TypeError, ValueError) as error:
            raise Refused(400, f"{type(error).__name__}: {error}") from None
        return Request("serve", self.backend.name, self.model, "", messages, decoding, repeat=repeat)

    async def completion(self, body: bytes) -> dict[str, Any]:
        try:
            request = self.request(json.loads(body))
        except ValueError:
            raise Refused(400, "the body is not JSON") from None
        try:
            reply = await self.backend.complete(request)
        except CallFailed as error:
            status = 503 if error.retryable else 500 if error.fatal else 400
            raise Refused(status, str(error), error.kind) from None
        used = {"prompt_tokens": reply.tokens_in or 0, "completion_tokens": reply.tokens_out or 0}
        # As the model said it: whoever asks decides what to clean.
        said = {"role": "assistant", "content": reply.text if reply.raw is None else reply.raw}
        choice = {"index": 0, "message": said, "finish_reason": reply.finish_reason, "logprobs": None}
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}", "object": "chat.completion", "created": int(time.time()),
            "model": self.model, "choices": [choice], "usage": used | {"total_tokens": sum(used.values())},
        }  # fmt: skip

    async def answer(self, scope: dict, receive: Any) -> dict[str, Any]:
        route = (scope["method"], scope["path"].rstrip("/"))
        if route == ("GET", "/v1/models"):
            model = {"id": self.model, "object": "model", "created": 0, "owned_by": "ppe"}
            return {"object": "list", "data": [model]}
        if route != ("POST", "/v1/chat/completions"):
            raise Refused(404, f"{scope['method']} {scope['path']} is not offered", "not_found")
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        return await self.completion(body)

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        try:
            status, answer = 200, await self.answer(scope, receive)
        except Refused as error:
            kind = "server_error" if error.status >= 500 else "invalid_request_error"
            status = error.status
            answer = {"error": {"message": str(error), "type": kind, "code": error.code}}
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


def main() -> None:
    import uvicorn

    from ppe.stages.local import LocalBackend

    parser = argparse.ArgumentParser(description="A model on this machine behind the OpenAI API.")
    parser.add_argument("model", help="folder, .gguf file, or name on the Hugging Face hub")
    parser.add_argument("--name", help="what clients call the model")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    try:
        backend = LocalBackend(args.model, name=args.name, batch_size=args.batch_size)
    except PpeError as error:
        sys.exit(f"server: {error}")
    listening = socket.create_server(("127.0.0.1", args.port))
    print(f"{backend.model} at http://127.0.0.1:{listening.getsockname()[1]}/v1", flush=True)
    config = uvicorn.Config(App(backend, backend.model), log_level="warning", lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()

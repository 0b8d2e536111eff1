"""A headless Chromium over the DevTools protocol: what a page asks for, complaints, its looks."""

import json
import shutil
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import websocket


def chromium() -> str | None:
    "The program, if there is one."
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@dataclass
class Visit:
    "What was seen while a page was opened."

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)  # errors of the console, exceptions, failed requests


class Browser:
    "One window; closed by leaving the `with` block."

    def __init__(self, folder: Path) -> None:
        program = chromium()
        assert program is not None
        options = [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-extensions", "--disable-background-networking", "--hide-scrollbars",
            "--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={folder}",
            "about:blank",
        ]  # fmt: skip
        self.process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port_file, end = folder / "DevToolsActivePort", time.monotonic() + 120
        while not (port_file.exists() and port_file.read_text().count("\n")):
            assert time.monotonic() < end and self.process.poll() is None, "Chromium did not start"
            time.sleep(0.1)
        port = port_file.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=60) as reply:
            address = next(target for target in json.load(reply) if target["type"] == "page")["webSocketDebuggerUrl"]
        self.socket = websocket.create_connection(address, timeout=120, suppress_origin=True)
        self.number, self.visit = 0, Visit()
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.process.terminate()
        self.process.wait(30)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        "One command; what happens meanwhile is noted in `visit`."
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        wanted = self.number
        while True:
            message = self.receive()
            if message.get("id") == wanted:
                assert "error" not in message, message["error"]
                return message["result"]

    def receive(self) -> dict[str, Any]:
        message = json.loads(self.socket.recv())
        given = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.visit.requests.append(given["request"]["url"])
            case "Network.loadingFailed" if not given.get("canceled"):
                self.visit.complaints.append(f"not loaded: {given['errorText']}")
            case "Runtime.exceptionThrown":
                self.visit.complaints.append(
                    given["exceptionDetails"].get("exception", {}).get("description", "exception")
                )
            case "Runtime.consoleAPICalled" if given["type"] == "error":
                self.visit.complaints.append(str([part.get("value") for part in given["args"]]))
            case "Log.entryAdded" if given["entry"]["level"] == "error":
                self.visit.complaints.append(f"{given['entry']['text']} {given['entry'].get('url', '')}")
        return message

    def open(self, url: str, *, width: int = 1280, dark: bool = False) -> Visit:
        "Show a page in a window of this width until it is loaded and its formulas are set."
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.visit = Visit()
        self.call("Page.navigate", url=url)
        while self.receive().get("method") != "Page.loadEventFired":
            pass
        self.evaluate("window.MathJax && MathJax.startup ? MathJax.startup.promise.then(() => 1) : 1")
        return self.visit

    def evaluate(self, script: str) -> Any:
        "The value of an expression in the page; a promise is waited for."
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return found["result"].get("value")

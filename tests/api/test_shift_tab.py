"""JupyterLab in Chromium: Shift+Tab behind a function of the front door shows its parameters."""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest
from browser import Browser, chromium

SEEN = "(document.querySelector('.jp-Tooltip') || {}).innerText || ''"
FOCUS = """(() => { const cell = document.querySelectorAll('.jp-Notebook .cm-content')[AT];
if (!cell) return false; cell.focus(); return document.activeElement === cell; })()"""


def until(ask, seconds: float = 90) -> str:
    "The first answer that is not empty."
    end = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.5)
    return answer


@pytest.mark.slow
def test_shift_tab_shows_the_parameters(tmp_path: Path):
    if chromium() is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on PATH")
    pytest.importorskip("jupyterlab")
    cells = [nbformat.v4.new_code_cell(text) for text in ("import ppe", "ppe.rank(")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "try.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["lab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}", "--IdentityProvider.token=once"]
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyter", *words], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"

    def is_up() -> bool:
        try:
            with urllib.request.urlopen(f"{address}/api?token=once", timeout=5) as reply:
                return "version" in json.load(reply)
        except OSError:
            return False

    try:
        until(is_up)
        with Browser(tmp_path / "profile") as browser:
            browser.open(f"{address}/lab/tree/try.ipynb?token=once")
            until(lambda: browser.evaluate(FOCUS.replace("AT", "0")))

            def press(key: str, code: int, modifiers: int = 0) -> None:
                for kind in ("keyDown", "keyUp"):
                    about = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
                    browser.call("Input.dispatchKeyEvent", type=kind, **about)

            def ran() -> bool:
                browser.evaluate(FOCUS.replace("AT", "0"))
                press("Enter", 13, modifiers=8)  # Shift
                time.sleep(2)
                return browser.evaluate("/\\[\\d+\\]/.test(document.querySelector('.jp-InputPrompt').innerText)")

            def shown() -> str:
                browser.evaluate(FOCUS.replace("AT", "1"))
                press("End", 35)
                press("Tab", 9, modifiers=8)  # Shift
                time.sleep(1)
                return browser.evaluate(SEEN)

            until(ran)
            text = until(shown)
    finally:
        server.terminate()
        server.wait(30)
    assert "Parameters" in text and "ranker" in text and " at 0x" not in text and "Annotated" not in text

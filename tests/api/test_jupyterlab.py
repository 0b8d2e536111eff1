"JupyterLab in Chromium: Shift+Tab shows the parameters of a function, and the slider of the guide moves."

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from browser import Browser, chromium

ROOT = Path(__file__).resolve().parents[2]
SHIFT = 8
SEEN = "(document.querySelector('.jp-Tooltip') || {}).innerText || ''"
FOCUS = """(() => { const cell = document.querySelectorAll('.jp-Notebook .cm-content')[AT];
if (!cell) return false; cell.focus(); return document.activeElement === cell; })()"""
PICTURE = "(document.querySelector('.jp-OutputArea img') || {}).src || ''"
HANDLE = """(() => { const handle = document.querySelector('.noUi-handle');
if (!handle) return false; handle.focus(); return document.activeElement === handle; })()"""


def until(ask, seconds: float = 90) -> str:
    "The first answer that is not empty."
    end = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.5)
    return answer


class Lab:
    "A notebook in JupyterLab, its cells run by Shift+Enter."

    def __init__(self, browser: Browser, address: str) -> None:
        self.browser = browser
        browser.open(address)
        until(lambda: self.focus(0))

    def focus(self, cell: int) -> bool:
        return self.browser.evaluate(FOCUS.replace("AT", str(cell)))

    def press(self, key: str, code: int, modifiers: int = 0) -> None:
        for kind in ("keyDown", "keyUp"):
            about = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
            self.browser.call("Input.dispatchKeyEvent", type=kind, **about)

    def run(self, cell: int) -> None:
        "Until the cell has its number; a kernel that is not there yet is asked again."
        asked = f"(document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')[{cell}] || {{}}).innerText || ''"

        def number() -> bool:
            text = self.browser.evaluate(asked)
            if "*" not in text and not any(letter.isdigit() for letter in text):
                self.focus(cell)
                self.press("Enter", 13, SHIFT)
                time.sleep(1)
            return any(letter.isdigit() for letter in self.browser.evaluate(asked))

        until(number)


@contextmanager
def opened(folder: Path, cells: list[str]) -> Iterator[Lab]:
    "A notebook of these cells, in a server of its own on loopback."
    if chromium() is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on PATH")
    pytest.importorskip("jupyterlab")
    nbformat.write(nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, cells)]), folder / "try.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["lab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}", "--IdentityProvider.token=once"]
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyter", *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
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
        with Browser(folder / "profile") as browser:
            yield Lab(browser, f"{address}/lab/tree/try.ipynb?token=once")
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.slow
def test_shift_tab_shows_the_parameters(tmp_path: Path):
    with opened(tmp_path, ["import ppe", "ppe.rank("]) as lab:
        lab.run(0)

        def shown() -> str:
            lab.focus(1)
            lab.press("End", 35)
            lab.press("Tab", 9, SHIFT)
            time.sleep(1)
            return lab.browser.evaluate(SEEN)

        text = until(shown)
    assert "Parameters" in text and "ranker" in text and " at 0x" not in text and "Annotated" not in text


@pytest.mark.slow
def test_the_slider_of_the_guide_draws_another_picture(tmp_path: Path):
    guide = nbformat.read(ROOT / "nbs" / "guide.ipynb", as_version=4)
    sources = [cell.source for cell in guide.cells if cell.cell_type == "code"]
    (slider,) = [source for source in sources if "SelectionSlider" in source]
    imports = [line for source in sources for line in source.splitlines() if line.startswith(("import ", "from "))]
    with opened(tmp_path, ["\n".join(imports), slider]) as lab:
        lab.run(0)
        lab.run(1)
        before = until(lambda: lab.browser.evaluate(PICTURE))
        until(lambda: lab.browser.evaluate(HANDLE))
        lab.press("ArrowRight", 39)
        after = until(lambda: (drawn := lab.browser.evaluate(PICTURE)) != before and drawn)
    assert after.startswith("data:image/png") and before.startswith("data:image/png")

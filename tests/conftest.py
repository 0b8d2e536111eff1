"""Verdict tables written by hand, and the `ppe` command run as a reader runs it."""

import csv
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from stages import ledger, serve  # noqa: F401 - fixtures of the LLM stages

settings.register_profile("patient", deadline=None)  # a busy machine is no fault of an example
settings.load_profile("patient")

# What changes how programs print, find servers or compile; data folders and search paths stay.
INHERITED = re.compile(
    r"LC_|MPL|OPENAI_|PYTHON(?!PATH$|HASHSEED$)|(?:COLUMNS|LINES|NO_COLOR|FORCE_COLOR)$|.*_proxy$",
    re.IGNORECASE,
)


def forget_what_was_inherited() -> None:
    """Signals, file mode and environment as after a plain login, for this process and for all that it starts.

    Under `nohup` hangups are ignored, in the background of a script interrupts are, and programs started from
    there ignore them too. A handler is not passed on: what it ignores here has its default effect in them.
    """
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"):
        number = signal.Signals[name]
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o022)
    for name in filter(INHERITED.match, list(os.environ)):
        del os.environ[name]
    os.environ.update(LANG="C.UTF-8", TZ="UTC")
    time.tzset()
    sys.dont_write_bytecode = False  # what no process may keep, each compiles anew
    if not os.access(os.environ.get("HOME", ""), os.W_OK):
        os.environ["HOME"] = HOME.name


HOME = tempfile.TemporaryDirectory(prefix="ppe-home-")
forget_what_was_inherited()

COLUMNS = ("judge", "question_id", "category", "variant", "model_a", "model_b", "verdict")
Row = tuple  # (judge, question_id, category, variant, model_a, model_b, verdict)


@dataclass(frozen=True)
class Run:
    "What one call of the command left behind."

    code: int
    out: str
    err: str
    new_files: tuple[str, ...]

    def json(self) -> object:
        "The output read as strict JSON: NaN and Infinity are not numbers."

        def refuse(constant: str):
            raise AssertionError(f"{constant} in JSON")

        assert self.code == 0, self
        assert all(line.startswith("ppe: note: ") for line in self.err.splitlines()), self.err
        return json.loads(self.out, parse_constant=refuse)


def command(*arguments: object, cwd: Path, env: dict[str, str] | None = None) -> Run:
    "Run the installed console command in `cwd`."
    before = {path.name for path in cwd.iterdir()}
    done = subprocess.run(
        [Path(sys.executable).parent / "ppe", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        timeout=120,
        env=os.environ | {"PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"} | (env or {}),
    )
    new_files = tuple(sorted({path.name for path in cwd.iterdir()} - before))
    return Run(done.returncode, done.stdout.decode(), done.stderr.decode(), new_files)


def read_terminal(master: int) -> bytes:
    "All that a terminal gets until its other side is closed."
    shown = b""
    try:
        while part := os.read(master, 65536):
            shown += part
    except OSError:  # it is closed
        pass
    os.close(master)
    return shown


@pytest.fixture
def ppe(tmp_path: Path):
    "The console command, started anew for every call in this test's own folder."

    def run(*arguments: object, **options: object) -> Run:
        return command(*arguments, cwd=tmp_path, **options)

    return run


@pytest.fixture
def ppe_main(tmp_path: Path, monkeypatch, capfd):
    "The entry point of the command, called in this process: for lists of cases, without a start-up each."
    from ppe.cli.main import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Run:
        before = {path.name for path in tmp_path.iterdir()}
        capfd.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a warning would be a second line on stderr
            warnings.simplefilter("ignore", DeprecationWarning)  # which Python does not show to users
            code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        new_files = tuple(sorted({path.name for path in tmp_path.iterdir()} - before))
        return Run(code, out, err, new_files)

    return run


def refused(done: Run, *words: str | re.Pattern) -> None:
    "Bad input: exit code 2, one clear printable line on standard error that holds the words; nothing written."
    assert (done.code, done.out, done.new_files) == (2, "", ()), done
    line = done.err.removesuffix("\n")
    assert done.err == line + "\n" and line.startswith("ppe: error: ") and line.isprintable(), done.err
    assert 20 < len(line) < 5000 and "Traceback" not in line, done.err
    for word in words:
        assert (word in line) if isinstance(word, str) else word.search(line), (word, done.err)


def write(path: Path, rows: Iterable[Row], columns: Sequence[str] = COLUMNS) -> Path:
    "Write rows as .csv or .csv.gz with Python's own csv module."
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def graph_rows(
    judge: str,
    question: object,
    category: str,
    variant: object,
    verdicts: dict[tuple[str, str], str],  # (first model, second model) -> verdict
) -> list[Row]:
    return [(judge, question, category, variant, a, b, verdict) for (a, b), verdict in verdicts.items()]


# Names that a careless reader of CSV breaks: a comma, quotes, an umlaut, a word that pandas takes for NaN.
MODELS = ("Zephyr 7B, beta", 'The "quoted" one', "Ärger-13b", "NA", "alpaca", "mistral")


def random_pool(
    seed: int = 20260324,
    *,
    models: Sequence[str] = MODELS,
    judges: Sequence[str] = ("zeta", "alpha judge"),  # not in alphabetical order, nor are the questions
    questions: Sequence[tuple[int, str]] = ((9, "writing"), (2, "math"), (17, "writing"), (1, "math")),
    variants: Sequence[int] = (2, 0, 1),
    tie_rate: float = 0.25,
) -> list[Row]:
    "Complete graphs of noisy verdicts, each pair shown in a random order."
    rng = np.random.default_rng(seed)
    strength = dict(zip(models, np.linspace(1.5, -1.5, len(models)), strict=True))
    rows = []
    for judge in judges:
        for question, category in questions:
            for variant in variants:
                verdicts = {}
                for pair in combinations(models, 2):
                    a, b = pair if rng.random() < 0.5 else pair[::-1]
                    a_wins = 1 / (1 + np.exp(strength[b] - strength[a]))
                    verdicts[a, b] = str(
                        rng.choice(
                            ["tie", "a", "b"],
                            p=[tie_rate, *((1 - tie_rate) * np.array([a_wins, 1 - a_wins]))],
                        )
                    )
                rows += graph_rows(judge, question, category, variant, verdicts)
    return rows

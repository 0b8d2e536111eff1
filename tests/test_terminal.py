"""What rank, diagnose and plan show on a terminal, and that a pipe gets what it got before."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from conftest import random_pool, read_terminal, write

PPE = [sys.executable, "-c", "from ppe.cli.main import main; raise SystemExit(main())"]
SGR = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(*arguments: object, columns: int = 120, **environment: str) -> str:
    "Everything that a terminal of this width gets from standard output."
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    kept = os.environ.keys() - {"NO_COLOR", "COLUMNS", "FORCE_COLOR"}
    inherited = {name: os.environ[name] for name in kept}
    process = subprocess.Popen(
        [*PPE, *map(str, arguments)], stdout=slave, stderr=subprocess.PIPE,
        env={**inherited, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environment},
    )  # fmt: skip
    os.close(slave)
    shown = read_terminal(master)
    assert process.wait() == 0, process.stderr.read().decode()
    process.stderr.close()
    return shown.decode().replace("\r\n", "\n")


def piped(*arguments: object) -> str:
    return subprocess.run([*PPE, *map(str, arguments)], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory) -> Path:
    models = ["[bold]x[/bold]", "y", "z" * 30]
    return write(tmp_path_factory.mktemp("t") / "v.csv", random_pool(judges=["j"], models=models))


def test_ranks_have_bars_on_a_terminal_and_none_in_a_pipe(verdicts):
    command = ("rank", verdicts, "--intervals", 50)
    shown, plain = on_terminal(*command), piped(*command)
    bare = SGR.sub("", shown)
    assert shown != bare, "colour on a terminal"
    assert bare.count("●") == 3 and "[bold]x[/bold]" in bare and "z" * 30 in bare
    assert "●" not in plain and "\x1b" not in plain
    assert re.findall(r"\w+", plain.splitlines()[0]) == re.findall(r"\w+", bare.splitlines()[0])[:7]
    # Each bar lies where the numbers say: the mark of rank 1 at the left end, of rank 3 at the right.
    marks = [line.index("●") for line in bare.splitlines() if "●" in line]
    assert marks == sorted(marks) and marks[0] < marks[-1]


def test_no_color_is_respected_and_a_narrow_terminal_cuts_no_number(verdicts):
    command = ("rank", verdicts, "--intervals", 50)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", on_terminal(*command, NO_COLOR="1"))
    narrow = SGR.sub("", on_terminal(*command, columns=50))
    shown, table = narrow.split("bradley-terry, ")[0], piped(*command).split("\n\n")[0]
    assert "…" not in narrow and narrow.count("z" * 30) > 1, "two tables, each with the names"
    assert all(len(line) <= 50 for line in shown.splitlines())
    assert {f"{float(x):.3f}" for x in re.findall(r"-?\d+\.\d+", table)} <= {*re.findall(r"-?\d+\.\d+", shown)}


def test_no_table_is_broken_at_80_columns(tmp_path):
    "Every row of a table stands on one line; a table of zeros is a sentence."
    ppe = tmp_path / "mt.csv"
    on_terminal("data", "write", "mt-bench-gpt4", "--out", ppe)
    listed = SGR.sub("", on_terminal("data", "list", columns=80))
    names = [row["name"] for row in json.loads(piped("data", "list", "--format", "json"))]
    assert [line for line in listed.splitlines() if line and not line.startswith(" ")] == names
    cycles, rows = SGR.sub("", on_terminal("cycles", ppe, columns=80)), piped("cycles", ppe).splitlines()
    assert len(cycles.splitlines()) <= len(rows) + 4
    plan = SGR.sub("", on_terminal("plan", "--models", 10, "--questions", 50, columns=80))
    assert all(len(line) <= 80 for text in (listed, cycles, plan) for line in text.splitlines())
    assert plan.count("●") == plan.split("distance:")[0].count("\ncomplete") * 2 == 8, "a bar in one of two tables"


def test_json_and_csv_are_the_same_on_a_terminal(verdicts):
    for form in ("json", "csv"):
        command = ("rank", verdicts, "--intervals", 50, "--format", form)
        assert on_terminal(*command) == piped(*command)


def test_diagnose_and_plan_on_a_terminal(verdicts):
    shown, plain = SGR.sub("", on_terminal("diagnose", verdicts, columns=80)), piped("diagnose", verdicts)
    assert shown.split() == plain.split() and len(plain.splitlines()) <= 15
    assert all(len(line) <= 80 for line in shown.splitlines())
    command = ("plan", "--models", 4, "--questions", 20, "--calls", 100)
    shown = SGR.sub("", on_terminal(*command, columns=150))
    found = json.loads(piped(*command, "--format", "json"))
    assert shown.count("●") == len(found["designs"])
    assert all(len(line) <= 150 for line in shown.splitlines())


def test_a_line_before_the_first_compilation_and_none_where_all_is_kept(tmp_path):
    "On standard error if that is a terminal; a pipe gets nothing."
    uses = "import numpy as np; from ppe.rankers.likelihood import strengths_exist"
    code = f"{uses}; assert strengths_exist(np.zeros((0, 2), int), np.zeros((3, 0)), 1, False)"

    def said(folder: str, *, terminal: bool) -> str:
        master, slave = pty.openpty()
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / folder)}
        error = slave if terminal else subprocess.PIPE
        done = subprocess.run([sys.executable, "-c", code], stderr=error, env=environment, check=True)
        os.set_blocking(master, False)
        try:
            shown = os.read(master, 65536) if terminal else done.stderr
        except BlockingIOError:
            shown = b""
        os.close(slave)
        os.close(master)
        return shown.decode()

    line = said("one", terminal=True)
    assert line.startswith("ppe: note: compiling, once") and line.count("\n") == 1
    assert said("one", terminal=True) == said("two", terminal=False) == ""

"""What rank, diagnose and plan show on a terminal, and that a pipe gets what it got before."""

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import redirect_stdout

import pytest
from conftest import random_pool, read_terminal, write

from ppe.cli.main import main

SGR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def printed(out: io.StringIO, *arguments: object) -> str:
    with redirect_stdout(out):
        assert main([*map(str, arguments)]) == 0
    return out.getvalue()


def piped(*arguments: object) -> str:
    return printed(io.StringIO(), *arguments)


@pytest.fixture
def on_terminal(monkeypatch):
    "What a terminal of this width gets, in this process."
    monkeypatch.setenv("TERM", "xterm-256color")

    def shown(*arguments: object, columns: int = 120) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        return printed(Terminal(), *arguments)

    return shown


@pytest.fixture(scope="module")
def command(tmp_path_factory) -> tuple:
    models = ["[bold]x[/bold]", "y", "z" * 30]
    path = write(tmp_path_factory.mktemp("t") / "v.csv", random_pool(judges=["j"], models=models))
    return "rank", path, "--intervals", 50


def test_a_real_terminal_gets_the_same(command, on_terminal):
    "A process of its own, which asks the terminal for its width."
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
    program = [sys.executable, "-c", "from ppe.cli.main import main; raise SystemExit(main())", *map(str, command)]
    env = {name: os.environ[name] for name in os.environ.keys() - {"NO_COLOR", "COLUMNS", "FORCE_COLOR"}}
    env |= {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(program, stdout=slave, env=env) as process:
        os.close(slave)
        shown = read_terminal(master).decode().replace("\r\n", "\n")
    assert process.returncode == 0 and shown == on_terminal(*command)


def test_ranks_have_bars_on_a_terminal_and_none_in_a_pipe(command, on_terminal):
    shown, plain = on_terminal(*command), piped(*command)
    bare = SGR.sub("", shown)
    assert shown != bare, "colour on a terminal"
    assert bare.count("●") == 3 and "[bold]x[/bold]" in bare and "z" * 30 in bare
    assert "●" not in plain and "\x1b" not in plain
    assert re.findall(r"\w+", plain.splitlines()[0]) == re.findall(r"\w+", bare.splitlines()[0])[:7]
    # Each bar lies where the numbers say: the mark of rank 1 at the left end, of rank 3 at the right.
    marks = [line.index("●") for line in bare.splitlines() if "●" in line]
    assert marks == sorted(marks) and marks[0] < marks[-1]


def test_no_color_is_respected_and_a_narrow_terminal_cuts_no_number(command, on_terminal, monkeypatch):
    narrow = SGR.sub("", on_terminal(*command, columns=50))
    shown, table = narrow.split("Bradley–Terry scores")[0], piped(*command).split("\n\n")[0]
    assert "…" not in narrow and narrow.count("z" * 30) > 1, "two tables, each with the names"
    assert all(len(line) <= 50 for line in shown.splitlines())
    assert {*re.findall(r"-?\d+\.\d+", table)} <= {*re.findall(r"-?\d+\.\d+", shown)}
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", on_terminal(*command))


def test_no_table_is_broken_at_80_columns(tmp_path, on_terminal):
    "Every row of a table stands on one line; a table of zeros is a sentence."
    path = tmp_path / "mt.csv"
    on_terminal("data", "write", "mt-bench-gpt4", "--out", path)
    listed = SGR.sub("", on_terminal("data", "list", columns=80))
    names = [row["name"] for row in json.loads(piped("data", "list", "--format", "json"))]
    assert [line for line in listed.splitlines() if line and not line.startswith(" ")] == names
    cycles, rows = SGR.sub("", on_terminal("cycles", path, columns=80)), piped("cycles", path).splitlines()
    assert len(cycles.splitlines()) <= len(rows) + 4
    plan = SGR.sub("", on_terminal("plan", "--models", 10, "--questions", 50, columns=80))
    assert all(len(line) <= 80 for text in (listed, cycles, plan) for line in text.splitlines())
    first = plan.split("distance:")[0]
    assert (first.count("\ncomplete"), first.count("\nlists of")) == (2 * 2, 2 * 2), "each stands in both tables"
    assert plan.count("●") == 8 + 2, "a bar in one of two tables, for each design and each size of lists"


def test_json_and_csv_are_the_same_on_a_terminal(command, on_terminal):
    for form in ("json", "csv"):
        assert on_terminal(*command, "--format", form) == piped(*command, "--format", form)


def test_diagnose_and_plan_on_a_terminal(command, on_terminal):
    words = ("diagnose", command[1])
    shown, plain = SGR.sub("", on_terminal(*words, columns=80)), piped(*words)
    assert shown.split() == plain.split() and len(plain.splitlines()) <= 15
    assert all(len(line) <= 80 for line in shown.splitlines())
    words = ("plan", "--models", 4, "--questions", 20, "--calls", 100)
    shown = SGR.sub("", on_terminal(*words, columns=150))
    assert shown.count("●") == len(json.loads(piped(*words, "--format", "json"))["designs"])
    assert all(len(line) <= 150 for line in shown.splitlines())


def test_a_line_before_the_first_compilation_and_none_where_all_is_kept(tmp_path):
    "On standard error if that is a terminal, or if the command itself runs; another program's pipe gets nothing."
    code = "from ppe.compiled import njit\n@njit(cache=True)\ndef twice(x):\n    return 2 * x\ntwice(1)\n"
    for name in ("tiny.py", "ppe"):
        (tmp_path / name).write_text(code)

    def said(folder: str, *, terminal: bool, name: str = "tiny.py") -> str:
        master, slave = pty.openpty()
        env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / folder)}
        error = slave if terminal else subprocess.PIPE
        done = subprocess.run([sys.executable, tmp_path / name], stderr=error, env=env, check=True)
        os.close(slave)
        shown = read_terminal(master)
        return (shown if terminal else done.stderr).decode()

    line = said("one", terminal=True)
    assert line.startswith("ppe: note: compiling, once") and line.count("\n") == 1
    assert said("one", terminal=True) == said("two", terminal=False) == ""
    assert said("three", terminal=False, name="ppe").splitlines() == line.splitlines()
    assert said("three", terminal=False, name="ppe") == ""

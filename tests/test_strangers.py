"""Files and places of strangers: each case says what comes out, an exact result or one line and exit code 2.

The worst that can happen is a wrong result without a word, so a case that is read is compared with numbers
worked out by hand, and a case that is refused must leave nothing behind.
"""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import random_pool, refused
from verdict_files import ACCENT, COMBINED, KEEP, REFUSED, TAKEN, duel, frame, parquet, text

ROOT = Path(__file__).resolve().parents[1]
ENTRY = Path(sys.executable).parent / "ppe"


# ---- tables


@pytest.mark.parametrize("name", TAKEN)
def test_a_good_table_is_ranked_exactly(ppe_main, tmp_path, name):
    data, expected = TAKEN[name]
    (tmp_path / "table").write_bytes(data)
    found = ppe_main("rank", "table", "--format", "json").json()["models"]
    assert {row["model"]: row["score"] for row in found} == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_table_is_refused_by_every_command(ppe_main, tmp_path, name):
    data, words = REFUSED[name]
    (tmp_path / "theirs.any").write_bytes(data)
    words += ("theirs.any",) * (name != "all invalid")  # which the table says, not its reader
    for command in ("rank", "cycles", "diagnose")[: 3 if name in ("no Parquet", "all invalid") else 1]:
        refused(ppe_main(command, "theirs.any", "--format", "json"), *words)


def test_verdicts_that_allow_no_scores_are_refused(ppe_main, tmp_path):
    (tmp_path / "separated").write_bytes(text(duel("x", "y", lost=0)))
    refused(ppe_main("rank", "separated"), "x", "ridge")
    (tmp_path / "invalid").write_bytes(REFUSED["all invalid"][0])
    refused(ppe_main("rank", "invalid", *KEEP), "no valid verdict", "all 3 are invalid")


def test_7_and_007_are_two_questions(ppe_main, tmp_path):
    rows = [("me", question, "all", 1, "x", "y", "a") for question in ("007", "7")]
    for name, data in {"a.csv": text(rows), "a.parquet": parquet(frame(rows))}.items():
        (tmp_path / name).write_bytes(data)
        graphs = ppe_main("cycles", name, "--format", "json").json()["graphs"]
        assert [graph["question_id"] for graph in graphs] == ["007", "7"]


# ---- files of other projects


def lines(*records: dict, indent: int | None = None) -> bytes:
    return "".join(json.dumps(record, indent=indent) + "\n" for record in records).encode()


def battle(model_a: str = "x", model_b: str = "y", winner: object = "model_a", **more: object) -> dict:
    return {"model_a": model_a, "model_b": model_b, "winner": winner} | more


NAMED = ("--columns", "model_a=l,model_b=r,winner=w,a=L,b=R,tie=T,question_id=q")
IMPORTS = {  # bytes, words of the message, options
    "pretty-printed": (lines(battle(), indent=2), ("line 1", "several lines", "jq -c")),
    "a name with a return": (lines(battle(model_b="y\r")), ("line 1", "model_b", "one line")),
    "a name with an escape": (lines(battle(), battle(model_a="\x1b[2J")), ("line 2", "\\x1b[2J")),
    "names that look alike": (lines(battle(ACCENT, COMBINED)), ("look the same",)),
    "half a surrogate pair": (lines(battle(model_a="\ud83d")), ("line 1", "\\ud83d")),
    "anony that is neither": (lines(battle(anony="perhaps")), ("anony", "perhaps")),
    "a column twice": (b"model_a,model_b,winner,winner\nx,y,model_a,model_b\n", ("winner", "more than once")),
    "a number with underscores": (
        lines({"instruction": "i", "generator_1": "x", "generator_2": "y", "annotator": "j", "preference": "1_2"}),
        ("preference", "1_2"),
    ),
    "a word that is not explained": (b"q,l,r,w\n1,x,y,L\n2,x,y,draw\n", ("row 2", "draw", "tie=WORD"), *NAMED),
    "columns that are not there": (b"q,l,r\n1,x,y\n", ("no w", "'q', 'l', 'r'"), *NAMED),
    "a named column twice": (b"q,l,l,r,w\n1,x,u,y,L\n", ("l more than once",), *NAMED),
    "no such part of --columns": (b"q,l,r,w\n", ("left=l", "model_a="), "--columns", "left=l"),
    "--columns for another layout": (lines(battle()), ("columns", "mt-bench"), "--layout", "mt-bench", *NAMED),
    "a log without samples": (lines({"eval": {}, "samples": []}), ("Inspect", "samples")),
    "a spreadsheet": (b"PK\x03\x04 and more", ("damaged zip",)),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPORTS)
def test_an_import_that_would_be_a_guess_is_refused(ppe_main, tmp_path, name):
    data, words, *options = IMPORTS[name]
    (tmp_path / "theirs.any").write_bytes(data)
    refused(ppe_main("import", "theirs.any", *options, "--out", "ours.csv"), *words)


def test_what_is_imported_is_ranked(ppe_main, tmp_path):
    "A name that import takes is one that rank takes; awkward but good ones come through whole."
    names = ["Ärger, 13b", 'the "quoted"', "=cmd()", "007", "דגם", "NaN"]
    (tmp_path / "b.jsonl").write_bytes(lines(*(battle(a, b, "tie") for a, b in zip(names, names[1:], strict=False))))
    for out in ("v.csv", "v.csv.gz", "v.parquet"):
        assert ppe_main("import", "b.jsonl", "--out", out).code == 0
        found = ppe_main("rank", out, *KEEP, "--format", "json").json()
        assert sorted(row["model"] for row in found["models"]) == sorted(names)


# ---- places


def shell(command: str, folder: Path, **env: str) -> subprocess.CompletedProcess:
    "A line of a shell in which `ppe` is the command."
    before = {path.name for path in folder.iterdir()}
    done = subprocess.run(
        ["bash", "-c", f"ppe() {{ '{ENTRY}' \"$@\"; }}\n{command}"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in (signal.SIGPIPE, signal.SIGINT)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "0"} | env,
    )
    done.new_files = tuple(sorted({path.name for path in folder.iterdir()} - before))
    done.code, done.out, done.err = done.returncode, done.stdout, done.stderr
    return done


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "v.csv").write_bytes(text(duel("x", "y")))
    return tmp_path


def test_a_folder_and_what_is_not_there(ppe_main, place):
    refused(ppe_main("rank", place), "is a folder", str(place))
    for path in (place / "none.csv", place / "none" / "v.csv", place / "v.csv" / "v.csv"):
        refused(ppe_main("rank", path), "cannot read", str(path))
        said = "is a verdict table already" if path == place else "cannot read"  # the files of a folder are imported
        refused(ppe_main("import", path, "--out", "o.csv"), said)


def test_a_loop_of_links_is_one_line_wherever_a_file_is_read(ppe_main, place):
    (place / "loop").symlink_to("loop")
    (place / "b.jsonl").write_bytes(lines(battle()))
    pairs = ("--questions", "v.csv", "--calls", 1, "--out", "o.csv")
    for words in (
        ("rank", "v.csv", "loop"), ("rank", "v.csv", "--reference", "loop"), ("rank", "loop/v.csv"),
        ("counts", "loop", "--out", "o.csv"), ("import", "loop", "--out", "o.csv"),
        ("import", "b.jsonl", "--questions", "loop", "--out", "o.csv"), ("report", "loop", "--out", "o.html"),
        ("next", "v.csv", *pairs, "--models", "loop"), ("design", "--models", "x,y", *pairs, "--questions", "loop"),
        ("judge", "loop", "--model", "m", "--dry-run"), ("ledger", "show", "loop", "x"),
    ):  # fmt: skip
        refused(ppe_main(*words), "loop")


def test_a_pipe_gives_what_a_file_gives(ppe_main, place):
    whole = ppe_main("rank", "v.csv").out
    os.mkfifo(place / "pipe")
    writer = threading.Thread(target=lambda: (place / "pipe").write_bytes((place / "v.csv").read_bytes()))
    writer.start()
    assert ppe_main("rank", "pipe").out == whole
    writer.join()


OUTPUTS = {
    "full disk": ("ppe cycles v.csv > /dev/full", ("No space left on device",)),
    "input closed": ("ppe rank - <&-", ("standard input is closed",)),
    "output closed": ("ppe cycles v.csv >&-", ("standard output is closed",)),
    "a foreign encoding": (
        "PYTHONIOENCODING=cp1252 ppe rank --intervals 0 names.csv",
        ("cp1252", "\\u0416", "PYTHONIOENCODING"),
    ),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_cannot_be_said_is_an_error(place, name):
    command, words = OUTPUTS[name]
    (place / "names.csv").write_bytes(text(duel("Ж", "y")))
    refused(shell(command, place), *words)


def test_an_error_that_cannot_be_said_is_still_an_exit_code(place):
    done = shell("ppe rank none.csv 2> /dev/full", place)
    assert (done.code, done.out, done.err) == (2, "", "")


def test_numbers_do_not_change_with_the_locale(place):
    plain = shell("ppe rank v.csv --intervals 0", place)
    assert shell("ppe rank v.csv --intervals 0", place, LC_ALL="de_DE.UTF-8", LANG="tr_TR.UTF-8").out == plain.out != ""


def test_a_reader_that_has_gone_is_no_error_to_speak_of(place):
    (place / "many.csv").write_bytes(text(duel("x", "y", won=700, lost=700)))
    done = shell("ppe cycles many.csv | head -1; exit ${PIPESTATUS[0]}", place)
    assert done.err == "" and done.code != 0 and done.out.count("\n") == 1


# ---- who may write where


STRANGER = """
import os, shlex, statistics, sys, tomllib, xml.etree.ElementTree, xml.sax.saxutils
import click, fastcore.docments, numba, numba.core.caching, numpy, pandas
import pyarrow, pyarrow.compute, pyarrow.csv, pyarrow.parquet
import scipy.linalg, scipy.optimize, scipy.sparse.csgraph, scipy.special, scipy.stats

if os.getuid() == 0:  # a root may write anywhere: become somebody who may not
    os.setgroups([])
    os.setgid(54321)
    os.setuid(54321)
for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
    os.environ.pop(name, None)
os.environ["TMPDIR"] = sys.argv[1]
sys.path.insert(0, sys.argv[2])
import ppe
assert ppe.__file__.startswith(sys.argv[2]), ppe.__file__
import ppe.compiled
ppe.compiled.LOADING = 0.0  # the smallest file needs what is compiled
from ppe.cli.main import main
sys.exit(main(sys.argv[3:]))
"""


@pytest.fixture(scope="module")
def read_only(tmp_path_factory) -> Path:
    "A copy of the package that nobody may write, and a folder `tmp` that everybody may."
    folder = tmp_path_factory.mktemp("stranger")
    shutil.copytree(ROOT / "ppe", folder / "site" / "ppe", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "data", folder / "site" / "data", ignore=shutil.ignore_patterns("external"))
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    (folder / "v.csv").write_bytes(text(duel("x", "y")))
    (folder / "b.jsonl").write_bytes(lines(battle()))
    for path in [*(folder / "site").rglob("*"), folder / "site"]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for above in (folder, *folder.parents):
        if above.owner() == folder.owner() and above != Path("/tmp"):
            above.chmod(above.stat().st_mode | 0o055)
    (folder / "closed").mkdir(mode=0o555)
    yield folder
    for path in [folder / "site", *(folder / "site").rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def stranger(folder: Path, *words: str, cwd: str = "closed") -> subprocess.CompletedProcess:
    kept = {name: text for name, text in os.environ.items() if name not in ("HOME", "PYTHONPATH", "XDG_CACHE_HOME")}
    call = [sys.executable, "-c", STRANGER, folder / "tmp", folder / "site", *words]
    return subprocess.run(
        call, cwd=folder / cwd, env=kept | {"PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, timeout=120
    )


@pytest.mark.slow
def test_every_command_starts_for_a_user_without_a_home_on_a_read_only_install(read_only):
    done = stranger(read_only, "rank", "none.csv")
    assert (done.returncode, done.stdout) == (2, "") and "cannot read none.csv" in done.stderr, done.stderr
    done = stranger(read_only, "cycles", "../v.csv")
    assert done.returncode == 0 and done.stdout, done.stderr
    done = stranger(read_only, "import", "../b.jsonl", "--out", "../tmp/b.csv")
    assert done.returncode == 0 and (read_only / "tmp" / "b.csv").read_text().count("\n") == 2, done.stderr
    (compiled,) = (read_only / "tmp").glob("ppe-compiled-*")
    assert compiled.stat().st_mode & 0o077 == 0
    done = stranger(read_only, "import", "../b.jsonl", "--out", "b.csv")
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1, done.stderr
    assert "b.csv cannot be written: Permission denied" in done.stderr
    assert not list((read_only / "closed").iterdir())


def test_compiled_code_of_another_user_is_not_run(read_only):
    "A folder under our name that we did not make is passed over."
    code = """
import collections.abc, functools, hashlib, importlib, os, stat, sys, tempfile, typing
if os.getuid() == 0:
    os.setuid(54321)
os.environ.update(TMPDIR=sys.argv[1], HOME="/nowhere")
for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
    os.environ.pop(name, None)
sys.path.insert(0, sys.argv[2])
folder = os.path.join(sys.argv[1], f"ppe-compiled-{os.getuid()}")
os.makedirs(folder, exist_ok=True)
os.chmod(folder, 0o777)
from ppe.compiled import find_room
find_room()
found = os.environ["NUMBA_CACHE_DIR"]
print(found != folder and not os.stat(found).st_mode & 0o077)
"""
    (room := read_only / "tmp" / "shared").mkdir(exist_ok=True)
    room.chmod(0o1777)
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    call = [sys.executable, "-S", "-c", code, room, read_only / "site"]
    done = subprocess.run(call, env=kept, cwd=read_only, capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr


# ---- interruption


def test_ctrl_c_ends_a_long_computation_at_once(tmp_path):
    "Also while compiled code runs, or the compiler. A shell shows the status as 130."
    rows = random_pool(judges=["j"], models=["p", "q", "r", "s"], questions=[(q, "c") for q in range(12)])
    (tmp_path / "v.csv").write_bytes(text(rows))
    done = subprocess.Popen(
        [ENTRY, "rank", "v.csv", "--intervals", "1000000"], cwd=tmp_path, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        started = time.monotonic()
        while _seconds(done.pid) < 2 and time.monotonic() - started < 60:  # past the imports
            time.sleep(0.05)
        assert done.poll() is None
        done.send_signal(signal.SIGINT)
        asked = time.monotonic()
        out, err = done.communicate(timeout=30)
    finally:
        done.kill()
    assert (done.returncode, out, err) == (-signal.SIGINT, "", "")
    assert time.monotonic() - asked < 10 and [path.name for path in tmp_path.iterdir()] == ["v.csv"]


def _seconds(pid: int) -> float:
    "Processor time of a process."
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.inf
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

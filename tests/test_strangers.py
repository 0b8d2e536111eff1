"""Files and places of strangers: each case says what comes out, an exact result or one line and exit code 2.

The worst that can happen is a wrong result without a word, so a case that is read is compared with numbers
worked out by hand, and a case that is refused must leave nothing behind.
"""

import gzip
import io
import json
import math
import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from conftest import COLUMNS, random_pool

ROOT = Path(__file__).resolve().parents[1]
HEADER = ",".join(COLUMNS)
BIG = 2**20  # larger than what Arrow reads at a time


def duel(a: str, b: str, *, won: int = 2, lost: int = 1, judge: str = "me", first: object = 1) -> list[tuple]:
    "Verdicts on one pair, each on a question of its own; `a` scores log(won/lost) more than `b`."
    return [
        (judge, question, "all", 1, a, b, "a" if question < first + won else "b")
        for question in range(first, first + won + lost)
    ]


def text(rows: list[tuple], sep: str = ",", end: str = "\n", more: str | None = None) -> bytes:
    "A table as somebody else's program writes it, all cells in quotes; `more` fills a column of theirs."
    quoted = [sep.join('"' + str(cell).replace('"', '""') + '"' for cell in row) for row in rows]
    if more is not None:
        quoted = [f'"{more}"{sep}{line}' for line in quoted]
    head = HEADER.replace(",", sep) if more is None else f"reasoning{sep}{HEADER.replace(',', sep)}"
    return (end.join([head, *quoted]) + end).encode()


# ---- tables


@dataclass(frozen=True)
class Scores:
    "An exact result: score and rank of each model, and the words of the notes."

    scores: dict[str, float]
    options: tuple[str, ...] = ()
    tolerance: float = 1e-5


@dataclass(frozen=True)
class Refused:
    "One line that holds these words."

    words: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    "Bytes of a file, and what comes of them."

    data: Callable[[], bytes]
    expected: Scores | Refused
    name: str = "table.csv"


def parquet(frame: pd.DataFrame | pa.Table) -> bytes:
    buffer = io.BytesIO()
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    pa.parquet.write_table(table, buffer)
    return buffer.getvalue()


def frame(rows: list[tuple]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS)


def two(a: str = "x", b: str = "y") -> Scores:
    "What `duel` comes to."
    return Scores({a: math.log(2) / 2, b: -math.log(2) / 2})


def zigzag(n: int) -> list[tuple]:
    "Models in a row, each against the next, and every other is better by log 2."
    rows = []
    for i in range(n - 1):
        better, worse = (i, i + 1) if i % 2 == 0 else (i + 1, i)
        rows += [("me", 3 * i + k, "all", 1, f"m{better:05}", f"m{worse:05}", v) for k, v in enumerate("aab")]
    return rows


def zigzag_scores(n: int) -> dict[str, float]:
    return {f"m{i:05}": (math.log(2) / 2 if i % 2 == 0 else -math.log(2) / 2) for i in range(n)}


def with_type(column: str, kind: pa.DataType) -> bytes:
    table = pa.Table.from_pandas(frame(duel("x", "y")), preserve_index=False)
    at = table.column_names.index(column)
    values = pa.chunked_array([pa.array([str(v) for v in table[column].to_pylist()])])
    cast = values.dictionary_encode() if pa.types.is_dictionary(kind) else values.cast(kind)
    return parquet(table.set_column(at, column, cast))


def with_values(column: str, values: list, kind: pa.DataType | None = None) -> bytes:
    table = pa.Table.from_pandas(frame(duel("x", "y")), preserve_index=False)
    return parquet(table.set_column(table.column_names.index(column), column, pa.array(values, type=kind)))


def column_twice() -> bytes:
    table = pa.Table.from_pandas(frame(duel("x", "y")), preserve_index=False)
    return parquet(table.append_column("judge", pa.array(["you"] * 3)))


KEEP = ("--incomplete", "keep")
LONG = "n" * 10_000
ACCENT, COMBINED = "caf\u00e9", unicodedata.normalize("NFD", "caf\u00e9")
TABLES = {
    # how many models
    "one model": Case(lambda: text(duel("x", "x")), Refused(("itself", "x"))),
    "two models": Case(lambda: text(duel("x", "y")), two()),
    "5,000 models": Case(
        lambda: text(zigzag(5000)), Scores(zigzag_scores(5000), ("--ranker", "copeland", *KEEP), math.inf)
    ),
    "100 models in a row": Case(lambda: text(zigzag(100)), Scores(zigzag_scores(100), KEEP, 1e-4)),
    # what the verdicts say
    "all ties": Case(lambda: text([(*row[:6], "tie") for row in duel("x", "y")]), Scores({"x": 0.0, "y": 0.0})),
    "all invalid": Case(
        lambda: text([(*row[:6], "invalid") for row in duel("x", "y")]), Refused(("no valid verdict",))
    ),
    "all invalid, kept": Case(
        lambda: text([(*row[:6], "invalid") for row in duel("x", "y")]),
        Refused(("no valid verdict", "all 3 are invalid"), KEEP),
    ),
    "separation": Case(lambda: text(duel("x", "y", lost=0)), Refused(("x", "ridge"))),
    "repeated rows": Case(lambda: text([*duel("x", "y"), duel("x", "y")[0]]), Refused(("twice", "row 4"))),
    "a question in two categories": Case(
        lambda: text([*duel("x", "y"), ("you", 1, "math", 1, "x", "y", "a")]),
        Refused(("two categories", "question 1", "row 4")),
    ),
    # names
    "names that are numbers": Case(lambda: text(duel("7", "07")), two("7", "07")),
    "names that are numbers with a point": Case(lambda: text(duel("1.0", "1")), two("1.0", "1")),
    "names that are words of programs": Case(lambda: text(duel("NaN", "null")), two("NaN", "null")),
    "a name that is empty": Case(lambda: text(duel("x", "")), Refused(("empty model_b", "row"))),
    "a name of blanks": Case(lambda: text(duel("x", "  ")), Refused(("model_b",))),
    "a name of 10 kB": Case(lambda: text(duel("x", LONG)), two("x", LONG)),
    "names that look alike": Case(
        lambda: text(duel(ACCENT, COMBINED)), Refused(("look the same", "\\xe9", "e\\u0301"))
    ),
    "a name with a space after it": Case(lambda: text(duel("x", "x ")), Refused(("'x '", "spaces"))),
    "right-to-left names": Case(lambda: text(duel("דגם", "نموذج")), two("דגם", "نموذج")),
    "a name that turns the line": Case(lambda: text(duel("x", "y\u202e")), Refused(("\\u202e", "printable"))),
    "a name that is a formula": Case(lambda: text(duel("=cmd()", "+1")), two("=cmd()", "+1")),
    "a name that colours": Case(lambda: text(duel("x", "\x1b[31my")), Refused(("\\x1b[31my", "printable"))),
    "a name that rings": Case(lambda: text(duel("x", "y\x07")), Refused(("\\x07",))),
    "a name with a C1 control": Case(lambda: text(duel("x", "y\x9b0m")), Refused(("\\x9b",))),
    "a name with a line break": Case(lambda: text(duel("x", "y\nz")), Refused(("\\n", "one line"))),
    "a name with a return": Case(lambda: text(duel("x", "y\r")), Refused(("\\r", "one line"))),
    "a judge with a line break": Case(lambda: text(duel("x", "y", judge="a\nb")), Refused(("judge", "\\n"))),
    "a verdict with an escape": Case(
        lambda: text([(*row[:6], "\x1b[2J") for row in duel("x", "y")]), Refused(("unknown verdict", "\\x1b"))
    ),
    "a column with an escape": Case(lambda: b"\x1b[2Jjudge,b\n1,2\n", Refused(("\\x1b[2Jjudge",))),
    # forms of text
    "byte order mark": Case(lambda: b"\xef\xbb\xbf" + text(duel("x", "y")), two()),
    "CRLF": Case(lambda: text(duel("x", "y"), end="\r\n"), two()),
    "CR alone": Case(lambda: text(duel("x", "y"), end="\r"), two()),
    "semicolons": Case(lambda: text(duel("x", "y"), sep=";"), Refused(("missing column", ";"))),
    "tabs": Case(lambda: text(duel("x", "y"), sep="\t"), Refused(("missing column",))),
    "quoted line breaks": Case(lambda: text(duel("x", "y"), more='a ""b""\r\n\n, c'), two()),
    "quoted line breaks, large": Case(lambda: text(duel("x", "y"), more="a\nb,\n" * (BIG // 4)), two()),
    "UTF-16": Case(lambda: text(duel("x", "y")).decode().encode("utf-16"), Refused(())),
    "Latin-1": Case(lambda: text(duel("x", "ä")).decode().encode("latin-1"), Refused(("UTF-8",))),
    "blank lines": Case(lambda: text(duel("x", "y"), end="\n\n"), two()),
    # gzip
    "gzip": Case(lambda: gzip.compress(text(duel("x", "y"))), two(), "table.csv.gz"),
    "gzip under another name": Case(lambda: gzip.compress(text(duel("x", "y"))), two()),
    "gzip in two parts": Case(
        lambda: gzip.compress(text(duel("x", "y"))[:50]) + gzip.compress(text(duel("x", "y"))[50:]), two()
    ),
    "truncated gzip": Case(lambda: gzip.compress(text(duel("x", "y")))[:-9], Refused(("damaged gzip",))),
    # Parquet
    "Parquet": Case(lambda: parquet(frame(duel("x", "y"))), two(), "table.parquet"),
    "Parquet with dictionaries": Case(lambda: with_type("model_a", pa.dictionary(pa.int32(), pa.string())), two()),
    "Parquet with large_string": Case(lambda: with_type("model_b", pa.large_string()), two()),
    "Parquet with text as identifiers": Case(lambda: with_type("question_id", pa.large_string()), two()),
    "Parquet with small integers": Case(lambda: with_values("variant", [1, 1, 1], pa.uint8()), two()),
    "Parquet with identifiers beyond 64 bits": Case(
        lambda: with_values("question_id", [1, 2, 2**63], pa.uint64()), Refused(())
    ),
    "Parquet with a null": Case(lambda: with_values("model_b", ["y", None, "y"]), Refused(("model_b", "row 2"))),
    "Parquet with a column of nulls": Case(
        lambda: with_values("category", [None] * 3, pa.null()), Refused(("empty category",))
    ),
    "Parquet with NaN as a category": Case(
        lambda: with_values("category", [1.5, math.nan, 1.5]), Refused(("empty category", "row 2"))
    ),
    "Parquet with a nested column": Case(
        lambda: with_values("model_a", [["x"], ["x"], ["x"]]), Refused(("model_a", "list"))
    ),
    "Parquet with a nested column of theirs": Case(
        lambda: parquet(frame(duel("x", "y")).assign(turns=[[{"a": 1}]] * 3)), two()
    ),
    "Parquet with a column twice": Case(column_twice, Refused(("judge more than once",))),
    "a column twice": Case(
        lambda: text(duel("x", "y")).replace(b"judge,", b"judge,judge,", 1).replace(b'"me",', b'"me","you",'),
        Refused(("judge more than once",)),
    ),
}


def one_line(done, words=()) -> None:
    "Bad input: exit code 2, one printable line on standard error, nothing else, nothing written."
    assert (done.code, done.out, done.new_files) == (2, "", ()), done
    line = done.err.removesuffix("\n")
    assert line.startswith("ppe: error: ") and line.isprintable() and "Traceback" not in line, done.err
    assert len(line) < 5000 and all(word in line for word in words), done.err


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_ranked_exactly_or_refused(ppe_main, tmp_path, name):
    case = TABLES[name]
    (tmp_path / case.name).write_bytes(case.data())
    done = ppe_main("rank", case.name, "--format", "json", *case.expected.options)
    if isinstance(case.expected, Refused):
        one_line(done, case.expected.words)
        return
    found = {row["model"]: row["score"] for row in done.json()["models"]}
    assert found.keys() == case.expected.scores.keys()
    assert max(abs(found[model] - score) for model, score in case.expected.scores.items()) <= case.expected.tolerance
    if case.expected.tolerance == math.inf:  # of Copeland the order alone is asked
        better = [model for model, score in case.expected.scores.items() if score > 0]
        assert min(found[model] for model in better) > max(found[m] for m in found.keys() - set(better))


def test_7_and_007_are_two_questions(ppe_main, tmp_path):
    rows = [("me", question, "all", 1, "x", "y", "a") for question in ("007", "7")]
    for name, data in {"a.csv": text(rows), "a.parquet": parquet(frame(rows))}.items():
        (tmp_path / name).write_bytes(data)
        assert [graph["question_id"] for graph in ppe_main("cycles", name, "--format", "json").json()] == ["007", "7"]
    records = [{"question_id": q, "model_a": "x", "model_b": "y", "winner": "tie"} for q in ("007", "7")]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert ppe_main("import", "b.jsonl", "--out", "b.csv").code == 0
    assert [graph["question_id"] for graph in ppe_main("cycles", "b.csv", "--format", "json").json()] == ["007", "7"]


# ---- files of other projects


def lines(*records: dict, indent: int | None = None) -> bytes:
    return "".join(json.dumps(record, indent=indent) + "\n" for record in records).encode()


def battle(model_a: str = "x", model_b: str = "y", winner: object = "model_a", **more: object) -> dict:
    return {"model_a": model_a, "model_b": model_b, "winner": winner} | more


NAMED = ("--columns", "model_a=l,model_b=r,winner=w,a=L,b=R,tie=T,question_id=q")
IMPORTS = {
    "pretty-printed": (lines(battle(), indent=2), (), ("line 1", "several lines", "jq -c")),
    "pretty-printed, two": (lines(battle(), battle(), indent=2), (), ("line 1", "several lines", "jq -c")),
    "a name with a return": (lines(battle(model_b="y\r")), (), ("line 1", "model_b", "one line")),
    "a name with an escape": (lines(battle(), battle(model_a="\x1b[2J")), (), ("line 2", "\\x1b[2J")),
    "names that look alike": (lines(battle(ACCENT, COMBINED)), (), ("look the same",)),
    "half a surrogate pair": (lines(battle(model_a="\ud83d")), (), ("line 1", "\\ud83d")),
    "anony that is neither": (lines(battle(anony="perhaps")), (), ("anony", "perhaps")),
    "a column twice": (b"model_a,model_b,winner,winner\nx,y,model_a,model_b\n", (), ("winner", "more than once")),
    "a number with underscores": (
        lines({"instruction": "i", "generator_1": "x", "generator_2": "y", "annotator": "j", "preference": "1_2"}),
        (),
        ("preference", "1_2"),
    ),
    "NaN as a language": (
        parquet(pd.DataFrame([battle(language=1.0), battle(language=math.nan)])),
        (),
        ("language", "no name"),
    ),
    "a word that is not explained": (b"q,l,r,w\n1,x,y,L\n2,x,y,draw\n", NAMED, ("row 2", "draw", "tie=WORD")),
    "columns that are not there": (b"q,l,r\n1,x,y\n", NAMED, ("no w", "'q', 'l', 'r'")),
    "a named column twice": (b"q,l,l,r,w\n1,x,u,y,L\n", NAMED, ("l more than once",)),
    "no such part of --columns": (b"q,l,r,w\n", ("--columns", "left=l"), ("left=l", "model_a=")),
    "--columns for another layout": (lines(battle()), ("--layout", "mt-bench", *NAMED), ("columns", "mt-bench")),
    "a log without samples": (lines({"eval": {}, "samples": []}), (), ("Inspect", "samples")),
    "a spreadsheet": (b"PK\x03\x04 and more", (), ("damaged zip",)),
    "two categories of one question": (
        lines(*(battle(question_id=1, language=x, judge=x) for x in ("de", "pl"))),
        (),
        ("two categories", "question 1"),
    ),
}


@pytest.mark.parametrize("name", IMPORTS)
def test_an_import_that_would_be_a_guess_is_refused(ppe_main, tmp_path, name):
    data, options, words = IMPORTS[name]
    (tmp_path / "theirs.any").write_bytes(data)
    done = ppe_main("import", "theirs.any", *options, "--out", "ours.csv")
    one_line(done, words)


def test_what_is_imported_is_ranked(ppe_main, tmp_path):
    "A name that import takes is one that rank takes; awkward but good ones come through whole."
    names = ["Ärger, 13b", 'the "quoted"', "=cmd()", "007", "דגם", "NaN"]
    (tmp_path / "b.jsonl").write_bytes(lines(*(battle(a, b, "tie") for a, b in zip(names, names[1:], strict=False))))
    for out in ("v.csv", "v.csv.gz", "v.parquet"):
        assert ppe_main("import", "b.jsonl", "--out", out).code == 0
        found = ppe_main("rank", out, *KEEP, "--format", "json").json()
        assert sorted(row["model"] for row in found["models"]) == sorted(names)


@pytest.mark.parametrize("sep", [",", "jsonl"])
def test_any_columns_are_imported_as_counted_by_hand(ppe_main, tmp_path, sep):
    said = [("x", "y", "L"), ("y", "x", "T"), ("x", "z", "R"), ("y", "z", ""), ("x", "y", "L")]
    rows = [{"q": 1, "l": a, "r": b, "w": w} for a, b, w in said]
    if sep == ",":
        pd.DataFrame(rows).to_csv(tmp_path / "mine", index=False)
    else:
        (tmp_path / "mine").write_bytes(lines(*(row | {"w": row["w"] or None} for row in rows)))
    done = ppe_main("import", "mine", *NAMED, "--judge", "me", "--out", "v.csv", "--format", "json")
    report = json.loads(done.out)
    assert report["verdicts"] == {"a": 2, "b": 1, "tie": 1, "invalid": 1} and report["left_out"] == {}
    found = pd.read_csv(tmp_path / "v.csv")
    assert found["variant"].tolist() == [1, 2, 1, 1, 3] and set(found["judge"]) == {"me"}
    assert found["verdict"].tolist() == ["a", "tie", "b", "invalid", "a"]


def test_stars_and_several_judges_are_said(ppe_main, tmp_path):
    votes = [battle("hub", m, "model_a", question_id=q, judge=j) for q, m in enumerate("xyz") for j in ("p", "q")]
    (tmp_path / "b.jsonl").write_bytes(lines(*votes))
    done = ppe_main("import", "b.jsonl", "--out", "v.csv")
    assert done.code == 0 and "every pair holds hub, which won 100%" in done.err
    assert "2 judges (p, q)" in done.err and "--judge NAME" in done.err
    (tmp_path / "c.jsonl").write_bytes(lines(battle("x", "y"), battle("y", "z"), battle("z", "x")))
    done = ppe_main("import", "c.jsonl", "--out", "w.csv")
    assert "every pair holds" not in done.err and "judges" not in done.err


def test_votes_with_names_shown_are_left_out_however_it_is_written(ppe_main, tmp_path):
    spelled = ["no", "0", "False", "yes", "1", "true"]
    rows = "".join(f"{i},x,y,model_a,{word}\n" for i, word in enumerate(spelled))
    (tmp_path / "b.csv").write_text("question_id,model_a,model_b,winner,anony\n" + rows)
    done = ppe_main("import", "b.csv", "--anonymous-only", "--out", "v.csv", "--format", "json")
    assert json.loads(done.out)["left_out"] == {"not anonymous": 3}


@pytest.mark.parametrize("rating", ["1_000", "١", "1,0"])
def test_a_rating_that_only_python_takes_for_a_number_is_refused(ppe_main, tmp_path, rating):
    (tmp_path / "v.csv").write_bytes(text(duel("x", "y")))
    (tmp_path / "ref.csv").write_text(f'model,rating\nx,"{rating}"\ny,2\n')
    one_line(ppe_main("rank", "v.csv", "--reference", "ref.csv"), ("rating", "x"))
    (tmp_path / "ref.csv").write_text("model,rating,rating\nx,1,2\ny,2,1\n")
    one_line(ppe_main("rank", "v.csv", "--reference", "ref.csv"), ("rating more than once",))


# ---- places


def limited(gigabytes: float) -> Callable[[], None]:
    def limit() -> None:
        size = int(gigabytes * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))
        for number in (signal.SIGPIPE, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)

    return limit


def shell(command: str, folder: Path, **env: str) -> subprocess.CompletedProcess:
    "A line of a shell in which `ppe` is the command, with two gigabytes."
    before = {path.name for path in folder.iterdir()}
    done = subprocess.run(
        ["bash", "-c", f"ppe() {{ '{ENTRY}' \"$@\"; }}\n{command}"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        preexec_fn=limited(2),
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "0"} | env,
    )
    done.new_files = tuple(sorted({path.name for path in folder.iterdir()} - before))
    done.code, done.out, done.err = done.returncode, done.stdout, done.stderr
    return done


ENTRY = Path(sys.executable).parent / "ppe"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "v.csv").write_bytes(text(duel("x", "y")))
    return tmp_path


def test_a_folder_and_what_is_not_there(ppe_main, place):
    for path in (place, place / "none.csv", place / "none" / "v.csv", place / "v.csv" / "v.csv"):
        one_line(ppe_main("rank", path), ("cannot read", str(path)))
        one_line(ppe_main("import", path, "--out", "o.csv"), ("cannot read",))


def test_a_loop_of_links_is_one_line_wherever_a_file_is_read(ppe_main, place):
    (place / "loop").symlink_to("loop")
    (place / "b.jsonl").write_bytes(lines(battle()))
    pairs = ("--questions", "v.csv", "--calls", 1, "--out", "o.csv")
    for words in (
        ("rank", "loop"), ("rank", "v.csv", "loop"), ("rank", "v.csv", "--reference", "loop"),
        ("rank", "loop/v.csv"), ("cycles", "loop"), ("diagnose", "loop"),
        ("counts", "loop", "--out", "o.csv"),
        ("import", "loop", "--out", "o.csv"), ("import", "loop/b", "--out", "o.csv"),
        ("import", "b.jsonl", "--questions", "loop", "--out", "o.csv"),
        ("report", "loop", "--out", "o.html"),
        ("next", "loop", *pairs), ("next", "v.csv", *pairs, "--models", "loop"),
        ("design", *pairs, "--models", "loop"),
        ("design", "--models", "x,y", *pairs, "--questions", "loop"),
        ("plan", "--questions", 2, "--models", 3, "--calls", 4, "--pilot", "loop"),
        ("perturb", "loop", "--model", "m", "--dry-run"), ("respond", "loop", "--model", "m", "--dry-run"),
        ("judge", "loop", "--model", "m", "--dry-run"), ("ledger", "status", "loop"),
    ):  # fmt: skip
        one_line(ppe_main(*words), ("loop",))


@pytest.mark.parametrize("command", [["rank"], ["import", "--out", "o.csv"]])
def test_a_device_that_never_ends(ppe_main, place, command, monkeypatch):
    monkeypatch.setattr("ppe.files.MAX_UNPACKED", 2**24)
    one_line(ppe_main(*command, "/dev/zero"), ("/dev/zero", "more than 16 MiB"))


@pytest.mark.parametrize("command", [["rank"], ["import", "--out", "o.csv"]])
def test_a_gzip_file_that_explodes(ppe_main, place, command, monkeypatch):
    monkeypatch.setattr("ppe.files.MAX_UNPACKED", 2**24)
    head = text(duel("x", "y"))
    (place / "bomb.csv.gz").write_bytes(gzip.compress(head + bytes(2**25)))
    one_line(ppe_main(*command, "bomb.csv.gz"), ("bomb.csv.gz unpacks to more than 16 MiB",))


def test_memory_is_bounded(place):
    "Without the bound the four gigabytes would not fit into the two that the process may take."
    part = gzip.compress(bytes(2**26))
    (place / "bomb.csv.gz").write_bytes(gzip.compress(text(duel("x", "y"))) + part * 64)
    for words, size in (("rank bomb.csv.gz", 50), ("cycles bomb.csv.gz", 512), ("rank - < <(yes)", 512)):
        one_line(shell(f"ppe {words}", place), (f"more than {size} MiB",))


def test_a_pipe_gives_what_a_file_gives(ppe_main, place):
    whole = ppe_main("rank", "v.csv").out
    os.mkfifo(place / "pipe")
    writer = threading.Thread(target=lambda: (place / "pipe").write_bytes((place / "v.csv").read_bytes()))
    writer.start()
    assert ppe_main("rank", "pipe").out == whole
    writer.join()


OUTPUTS = {
    "full disk": ("ppe rank v.csv > /dev/full", ("No space left on device",)),
    "full disk, help": ("ppe --help > /dev/full", ("No space left on device",)),
    "input closed": ("ppe rank - <&-", ("standard input is closed",)),
    "output closed": ("ppe rank v.csv >&-", ("standard output is closed",)),
    "a foreign encoding": ("PYTHONIOENCODING=cp1252 ppe rank names.csv", ("cp1252", "\\u0416", "PYTHONIOENCODING")),
    "a folder in the place of the table": (
        "mkdir t.csv; ppe import b.jsonl --force --out t.csv; code=$?; rmdir t.csv; exit $code",
        ("cannot write --out t.csv", "a folder"),
    ),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_cannot_be_said_is_an_error(place, name):
    command, words = OUTPUTS[name]
    (place / "names.csv").write_bytes(text(duel("Ж", "y")))
    (place / "b.jsonl").write_bytes(lines(battle()))
    one_line(shell(command, place), words)


def test_an_error_that_cannot_be_said_is_still_an_exit_code(place):
    for command in ("ppe rank none.csv 2> /dev/full", "ppe rank none.csv 2>&-"):
        done = shell(command, place)
        assert (done.code, done.out, done.err) == (2, "", "")


def test_json_can_be_written_in_any_encoding(place):
    (place / "names.csv").write_bytes(text(duel("Ж", "é")))
    found = [
        json.loads(shell("ppe rank names.csv --format json", place, PYTHONIOENCODING=encoding).out)
        for encoding in ("utf-8", "cp1252")
    ]
    assert found[0] == found[1] and found[0]["models"][0]["model"] == "Ж"


def test_numbers_do_not_change_with_the_locale(place):
    plain = shell("ppe rank v.csv", place)
    assert shell("ppe rank v.csv", place, LC_ALL="de_DE.UTF-8", LANG="tr_TR.UTF-8").out == plain.out != ""


def test_a_reader_that_has_gone_is_no_error_to_speak_of(place):
    (place / "many.csv").write_bytes(text(duel("x", "y", won=2000, lost=2000)))
    done = shell("ppe cycles many.csv | head -1; exit ${PIPESTATUS[0]}", place)
    assert done.err == "" and done.code != 0 and done.out.count("\n") == 1


def test_control_characters_do_not_reach_a_terminal(place):
    (place / "v.csv").write_bytes(text(duel("x", "\x1b]0;mine\x07")))
    parent, child = pty.openpty()
    done = subprocess.Popen([ENTRY, "rank", "v.csv"], cwd=place, stdout=child, stderr=child)
    os.close(child)
    said = b""
    try:
        while part := os.read(parent, 4096):
            said += part
    except OSError:  # the terminal is closed
        pass
    assert done.wait(30) == 2 and b"\\x1b]0;mine" in said
    assert not any(byte < 32 and byte not in b"\r\n" for byte in said), said


# ---- who may write where


STRANGER = """
import os, sys
import click, numba, numba.core.caching, numpy, pandas, pyarrow, pyarrow.compute, pyarrow.csv, pyarrow.parquet
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


def test_every_command_starts_for_a_user_without_a_home_on_a_read_only_install(read_only):
    done = stranger(read_only, "rank", "none.csv")
    assert (done.returncode, done.stdout) == (2, "") and "cannot read none.csv" in done.stderr, done.stderr
    done = stranger(read_only, "cycles", "../v.csv")
    assert done.returncode == 0 and done.stdout, done.stderr
    done = stranger(read_only, "import", "../b.jsonl", "--out", "../tmp/b.csv")
    assert done.returncode == 0 and (read_only / "tmp" / "b.csv").read_text().count("\n") == 2, done.stderr
    (compiled,) = (read_only / "tmp").glob("ppe-compiled-*")
    assert compiled.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written(read_only):
    done = stranger(read_only, "import", "../b.jsonl", "--out", "b.csv")
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1, done.stderr
    assert "b.csv cannot be written: Permission denied" in done.stderr
    assert not list((read_only / "closed").iterdir())


def test_compiled_code_of_another_user_is_not_run(read_only):
    "A folder under our name that we did not make is passed over."
    code = """
import collections.abc, functools, importlib, os, stat, sys, tempfile, typing
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


@pytest.mark.parametrize("words", [["diagnose", "--simulations", "1000000"], ["rank", "--intervals", "1000000"]])
def test_ctrl_c_ends_a_long_computation_at_once(tmp_path, words):
    "Also while compiled code runs, or the compiler. A shell shows the status as 130."
    rows = random_pool(judges=["j"], models=["p", "q", "r", "s"], questions=[(q, "c") for q in range(12)])
    (tmp_path / "v.csv").write_bytes(text(rows))
    done = subprocess.Popen(
        [ENTRY, words[0], "v.csv", *words[1:]],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
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

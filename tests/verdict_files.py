"""Verdict tables as others write them, and what comes of each: exact scores or one line with these words.

Every reader gets all of them: in memory and by counts, as CSV and as Parquet (test_strangers.py, test_streaming.py).
"""

import gzip
import io
import math
import os
import unicodedata

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from conftest import COLUMNS

HEADER = ",".join(COLUMNS)
HEAD = (HEADER + "\n").encode()
ROW = b"me,1,math,0,x,y,a\n"
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


def parquet(table: pd.DataFrame | pa.Table) -> bytes:
    buffer = io.BytesIO()
    table = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
    pa.parquet.write_table(table, buffer)
    return buffer.getvalue()


def frame(rows: list[tuple]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS)


PLAIN = duel("x", "y")
CSV = text(PLAIN)
ARROW = pa.Table.from_pandas(frame(PLAIN), preserve_index=False)


def column(name: str, values: list | pa.Array, kind: pa.DataType | None = None) -> bytes:
    "The plain table as Parquet with one column of these values."
    values = values if isinstance(values, pa.Array) else pa.array(values, type=kind)
    return parquet(ARROW.set_column(COLUMNS.index(name), name, values))


def with_verdict(word: str) -> bytes:
    return text([(*row[:6], word) for row in PLAIN])


def with_cell(name: str, value: str) -> bytes:
    "The plain table with another value in row 2."
    row = tuple(value if column == name else cell for column, cell in zip(COLUMNS, PLAIN[1], strict=True))
    return text([PLAIN[0], row, PLAIN[2]])


def two(a: str = "x", b: str = "y") -> dict[str, float]:
    "The scores that `duel` comes to."
    return {a: math.log(2) / 2, b: -math.log(2) / 2}


KEEP = ("--incomplete", "keep")
LONG = "n" * 10_000
ACCENT, COMBINED = "caf\u00e9", unicodedata.normalize("NFD", "caf\u00e9")
TAKEN = {  # bytes and scores
    "two models": (CSV, two()),
    "all ties": (with_verdict("tie"), {"x": 0.0, "y": 0.0}),
    # names
    "names that are numbers": (text(duel("7", "07")), two("7", "07")),
    "names that are whole numbers with a point": (text(duel("1.0", "2")), two("1", "2")),
    "names that are versions": (text(duel("3.0", "3.5")), two("3.0", "3.5")),
    "one model, in two spellings": (text(duel("1.0", "y") + duel("y", "1", won=1, lost=2, first=4)), two("1", "y")),
    "questions in two spellings": (text([("me", "1.0", *PLAIN[0][2:]), *PLAIN[1:]]), two()),
    "names that are words of programs": (text(duel("NaN", "null")), two("NaN", "null")),
    "NA without quotes": (text(duel("NA", "null")).replace(b'"', b""), two("NA", "null")),
    "a name of 10 kB": (text(duel("x", LONG)), two("x", LONG)),
    "quotes and a comma": (text(duel('m,"e"', "y", judge='"me", ma')), two('m,"e"', "y")),
    "right-to-left names": (text(duel("דגם", "نموذج")), two("דגם", "نموذج")),
    "a name that is a formula": (text(duel("=cmd()", "+1")), two("=cmd()", "+1")),
    # forms of text
    "byte order mark": (b"\xef\xbb\xbf" + CSV, two()),
    "CRLF": (text(PLAIN, end="\r\n"), two()),
    "CR alone": (text(PLAIN, end="\r"), two()),
    "quoted line breaks": (text(PLAIN, more='a ""b""\r\n\n, c'), two()),
    "quoted line breaks, large": (text(PLAIN, more="a\nb,\n" * (BIG // 4)), two()),
    "blank lines": (text(PLAIN, end="\n\n"), two()),
    "gzip": (gzip.compress(CSV), two()),
    "gzip in two parts": (gzip.compress(CSV[:50]) + gzip.compress(CSV[50:]), two()),
    # Parquet
    "Parquet": (parquet(ARROW), two()),
    "Parquet with dictionaries": (column("model_a", pa.array(["x"] * 3).dictionary_encode()), two()),
    "Parquet with a dictionary of questions": (column("question_id", pa.array([*"qrs"]).dictionary_encode()), two()),
    "Parquet with a verdict and a model that no row has": (
        parquet(
            frame(PLAIN).assign(
                verdict=pd.Categorical([row[-1] for row in PLAIN], ["error", "b", "a"]),
                model_a=pd.Categorical(["x"] * 3, ["x", "é", "e\u0301", ""]),
            )
        ),
        two(),
    ),
    "Parquet with models that are numbers with a point": (
        parquet(frame(duel("0", "1")).astype({"model_a": int}).astype({"model_b": float})),
        two("0", "1"),
    ),
    "Parquet with large_string": (column("model_b", ["y"] * 3, pa.large_string()), two()),
    "Parquet with text as identifiers": (column("question_id", ["é", "2", "3"], pa.large_string()), two()),
    "Parquet with small integers": (column("variant", [1, 1, 1], pa.uint8()), two()),
    "Parquet with small questions": (column("question_id", [1, 2, 3], pa.int8()), two()),
    "Parquet with numbers with a point": (column("question_id", [1.0, 2.5, 3.0]), two()),
    "Parquet with judges that are numbers": (column("judge", [1, 2, 1]), two()),
    "Parquet with times": (column("question_id", pa.array([1, 2, 3]).cast(pa.timestamp("s"))), two()),
    "Parquet with 007 and 7": (column("question_id", ["007", "7", "8"]), two()),
    "Parquet with a nested column of theirs": (parquet(frame(PLAIN).assign(turns=[[{"a": 1}]] * 3)), two()),
}  # fmt: skip
REFUSED = {  # bytes and words of the message
    # what the verdicts say
    "against itself": (text(duel("x", "x")), ("itself", "x")),
    "all invalid": (with_verdict("invalid"), ("no valid verdict",)),
    "unknown verdict": (with_cell("verdict", "A wins"), ("unknown verdict", "A wins", "invalid", "row 2")),
    "verdict in another case": (with_cell("verdict", "TIE"), ("TIE",)),
    "a verdict with an escape": (with_verdict("\x1b[2J"), ("unknown verdict", "\\x1b")),
    "one model against itself, in two spellings": (text(duel("1.0", "1")), ("itself", "row")),
    "repeated rows, the question in two spellings": (
        text([*PLAIN, ("me", "1.0", *PLAIN[0][2:])]), ("same pair twice", "row 4"),
    ),
    "repeated rows": (text([*PLAIN, PLAIN[0]]), ("twice", "row 4")),
    "a pair turned round": (text([*PLAIN, ("me", 1, "all", 1, "y", "x", "tie")]), ("twice", "row 4")),
    "a question in two categories": (
        text([*PLAIN, ("you", 1, "math", 1, "x", "y", "a")]), ("two categories", "question 1", "row 4"),
    ),
    "a graph in two categories": (text([*PLAIN, ("me", 1, "math", 1, "x", "z", "a")]), ("two categories", "row 4")),
    # cells
    **{f"empty {name}": (with_cell(name, ""), (f"empty {name}", "row 2")) for name in COLUMNS},
    "only commas": (HEAD + b",,,,,,\n", ("empty", "row 1")),
    "a name of blanks": (text(duel("x", "  ")), ("model_b",)),
    "names that look alike": (text(duel(ACCENT, COMBINED)), ("look the same", "\\xe9", "e\\u0301")),
    "a name with a space after it": (text(duel("x", "x ")), ("'x '", "spaces")),
    "a name that turns the line": (text(duel("x", "y\u202e")), ("\\u202e", "cannot be seen")),
    "a name that colours": (text(duel("x", "\x1b[31my")), ("\\x1b[31my", "cannot be seen")),
    "a name that rings": (text(duel("x", "y\x07")), ("\\x07",)),
    "a name with a C1 control": (text(duel("x", "y\x9b0m")), ("\\x9b",)),
    "a name with a line break": (text(duel("x", "y\nz")), ("\\n", "one line")),
    "a name with a return": (text(duel("x", "y\r")), ("\\r", "one line")),
    "a judge with a line break": (text(duel("x", "y", judge="a\nb")), ("judge", "\\n")),
    "a tab in a question": (with_cell("question_id", "1\t2"), ("question_id", "\\t")),
    # columns and rows
    "a column with an escape": (b"\x1b[2Jjudge,b\n1,2\n", ("\\x1b[2Jjudge",)),
    "a column twice": (HEAD.replace(b"judge,", b"judge,judge,") + b"you," + ROW, ("judge more than once",)),
    "a missing column": (HEAD.replace(b",verdict", b"") + b"me,1,math,0,x,y\n", ("missing column", "verdict")),
    "half a header": (HEAD[:20], ()),
    "too many cells": (HEAD + ROW[:-1] + b",extra\n", ()),
    "too few cells": (HEAD + b"me,1\n", ()),
    "an open quote": (CSV + b'j,1,c,0,"x,y,a\n', ()),
    "header only": (HEAD, ()),
    "nothing": (b"", ("empty",)),
    "blank": (b"\n\n", ()),
    # forms of text, other files
    "semicolons": (text(PLAIN, sep=";"), ("separated by semicolons", "commas")),
    "tabs": (text(PLAIN, sep="\t"), ("separated by tabs", "commas")),
    "UTF-16": (CSV.decode().encode("utf-16"), ()),
    "Latin-1": (text(duel("x", "ä")).decode().encode("latin-1"), ("UTF-8",)),
    "Latin-1 in a question": (HEAD + "me,é,math,0,x,y,a\n".encode("latin-1"), ("UTF-8",)),
    "zeros": (b"\0" * 200, ()),
    "a spreadsheet": (b"PK\x03\x04" + bytes(range(200)), ()),
    "truncated gzip": (gzip.compress(CSV)[:-9], ("damaged gzip",)),
    "gzip cut in two": (gzip.compress(HEAD * 1000 + os.urandom(5000))[:4000], ("damaged gzip",)),
    "gzip with another sum": (gzip.compress(CSV)[:-8] + b"12345678", ("damaged gzip",)),
    "gzip of noise": (b"\x1f\x8b" + bytes(range(60)), ()),
    # Parquet
    "no Parquet": (b"PAR1 but nothing else", ()),
    "Parquet of others": (parquet(pd.DataFrame({"x": [1]})), ("missing column",)),
    "Parquet without rows": (parquet(ARROW.slice(0, 0)), ()),
    "Parquet with numbers beyond 64 bits": (column("question_id", [1, 2, 2**63], pa.uint64()), ()),
    "Parquet with a null": (column("model_b", ["y", None, "y"]), ("model_b", "row 2")),
    "Parquet without one judge": (column("judge", ["me", None, "me"]), ("empty judge", "row 2")),
    "Parquet with a missing number": (column("question_id", [1, None, 2]), ("empty question_id", "row 2")),
    "Parquet with NaN for a question": (column("question_id", [1.0, math.nan, 2.0]), ("question_id", "row 2")),
    "Parquet with NaN for a judge": (column("judge", [1.5, math.nan, 1.5]), ("empty judge", "row 2")),
    "Parquet with NaN as a category": (column("category", [1.5, math.nan, 1.5]), ("empty category", "row 2")),
    "Parquet with a column of nulls": (column("category", pa.nulls(3)), ("empty category",)),
    "Parquet without judges": (column("judge", pa.nulls(3)), ("empty judge",)),
    "Parquet with a nested column": (column("model_a", [["x"]] * 3), ("model_a", "list")),
    "Parquet with bytes": (column("model_a", [b"\x80", b"x", b"x"]), ()),
    "Parquet with bytes in a question": (column("question_id", [b"\x80", b"y", b"z"]), ()),
    "Parquet with truth values": (column("verdict", [True, False, True]), ("verdict",)),
    "Parquet with numbers as verdicts": (column("verdict", [1.0, 1.0, 1.0]), ("verdict",)),
    "Parquet with a pair turned round": (
        parquet(frame([("me", "7", "all", 1, *pair, "a") for pair in ("xy", "yx")])), ("twice",),
    ),
    "Parquet with a column twice": (parquet(ARROW.append_column("judge", pa.array(["you"] * 3))),
                                    ("judge more than once",)),
}  # fmt: skip

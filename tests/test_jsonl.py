"""Files of JSON lines: any object comes back, and what is no such file is refused in one line."""

import gzip
import hashlib
import json
import math
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ppe.errors import InputError
from ppe.files import (
    check_name,
    check_text,
    entry_places,
    errors_at,
    json_object,
    needed_fields,
    read_content,
    read_json_lines,
    require_distinct,
    write_json_lines,
)

# A loaded machine may take its time to make examples; that is no failure.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=150)

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)
objects = st.dictionaries(texts, values, max_size=4)


# ---- round trips


@given(
    st.lists(st.tuples(objects, st.integers(0, 2)), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
@settings(PATIENT)
def test_any_objects_survive_a_file(rows: list, zipped: bool, mark: bool, newline: bytes):
    "Also with another program's mark, compression, line ends and blank lines."
    with tempfile.TemporaryDirectory() as folder:
        path = write_json_lines((row for row, _ in rows), Path(folder) / "rows.jsonl")
        back, sha256 = read_json_lines(path)
        assert back == [(f"line {number}", row) for number, (row, _) in enumerate(rows, start=1)]
        lines = path.read_bytes().split(b"\n")
        assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest() and lines.pop() == b""
        assert [json.loads(line) for line in lines] == [row for row, _ in rows]  # each line stands alone
        data, number, places = b"\xef\xbb\xbf" * mark, 0, []
        for line, (_, blank) in zip(lines, rows, strict=True):
            data += (newline + b" ") * blank + line + newline
            number += blank + 1
            places.append(f"line {number}")
        path.write_bytes(gzip.compress(data) if zipped else data)
        assert read_json_lines(path)[0] == list(zip(places, [row for row, _ in rows], strict=True))
        assert read_content(path)[0] == data.removeprefix(b"\xef\xbb\xbf")


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_only_newline_and_return_end_a_line(tmp_path: Path, character: str):
    "`str.splitlines` would end a line at each of these."
    path = write_json_lines([{"prompt": f"a{character}b"}, {"prompt": "c"}], tmp_path / "rows.jsonl")
    assert read_json_lines(path)[0] == [("line 1", {"prompt": f"a{character}b"}), ("line 2", {"prompt": "c"})]


# ---- what is no file of JSON lines


@given(
    st.lists(
        st.binary(max_size=40)
        | st.sampled_from([b"{", b"{}", b"[" * 100_000, b"null", b"\x1f\x8b", b"1" * 5000])
        | objects.map(lambda row: json.dumps(row).encode())
    )
)
@settings(PATIENT)
def test_any_bytes_are_read_or_refused(lines: list[bytes]):
    data = b"\n".join(lines)
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "any.jsonl").write_bytes(data)
        try:
            rows, _ = read_json_lines(path)
        except InputError as error:
            assert str(error).startswith("any.jsonl") and "\n" not in str(error) and len(str(error)) < 1000
        else:
            parts = re.split(b"\r\n|\r|\n", data.removeprefix(b"\xef\xbb\xbf"))
            parts = [(f"line {k}", part) for k, part in enumerate(parts, start=1) if part.strip()]
            assert [place for place, _ in rows] == [place for place, _ in parts]
            assert repr([row for _, row in rows]) == repr([json.loads(part.decode()) for _, part in parts])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[1]", r"b'\[1\]' is not a JSON object"),
        (b'"{}"', "is not a JSON object"),
        (b'{"a": 1} {"a": 1}', "is not JSON; one whole object is needed"),
        (b'{"a": "x', "is not JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "is not JSON"),  # a mark is one at the beginning of the file alone
        (b'{"a": "\xe9"}', "is not UTF-8; save the file with UTF-8 encoding"),
        ('{"a": 1}'.encode("utf-16-le"), "is not"),
        (b'{"a": 1, "b": 2, "a": 1}', r"given twice: 'a' in entry 3 \(first in entry 1\); each key"),
        (b'{"b": [{"a": 1, "\\u0061": 1}]}', "given twice: 'a' in entry 2"),
    ],
)
def test_the_line_at_fault_is_named(tmp_path: Path, line: bytes, message: str):
    with pytest.raises(InputError, match=f"^{message}" if message.startswith(("b'", "given")) else message):
        json_object(line)
    (path := tmp_path / "rows.jsonl").write_bytes(b'{"a": 1}\n\n' + line + b"\n")
    with pytest.raises(InputError, match=rf"^rows\.jsonl, line 3: .*{message}"):
        read_json_lines(path)


# Without a fixed time, workers that collect the tests in different seconds would name them differently.
EMPTY_FILES = [b"", b"\n \r\n", b"\xef\xbb\xbf", *(gzip.compress(data, mtime=0) for data in (b"", b"\n"))]


@pytest.mark.parametrize("data", EMPTY_FILES)
def test_an_empty_file_is_refused(tmp_path: Path, data: bytes):
    (path := tmp_path / "rows.jsonl").write_bytes(data)
    with pytest.raises(InputError, match=r"^rows\.jsonl is empty: one JSON object per line is needed$"):
        read_json_lines(path)


def test_a_damaged_gzip_file_is_refused_at_every_length(tmp_path: Path):
    whole = gzip.compress(b'{"a": 1}\n' * 20)
    path = tmp_path / "rows.jsonl.gz"
    for size in range(2, len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"^rows\.jsonl\.gz is a damaged gzip file; copy or download"):
            read_json_lines(path)
    path.write_bytes(whole)
    assert len(read_json_lines(path)[0]) == 20


def test_what_cannot_be_opened_is_named(tmp_path: Path):
    for path in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(InputError, match=f"^cannot read {path}: "):
            read_content(path)


# ---- what is not written


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": "\ud83d"}, "half of a surrogate pair"),
        ({"\udc00": "a"}, "half of a surrogate pair"),
        ({"a": [math.nan]}, "would not come back"),
        ({"a": math.inf}, "would not come back"),
        ({"a": (1, 2)}, "would not come back"),
        ({1: "a"}, "would not come back"),
        ({None: "a"}, "would not come back"),
        ({"a": b"bytes"}, "would not come back"),
        (["a"], "would not come back"),
    ],
)
def test_a_row_that_would_not_come_back_is_not_written(tmp_path: Path, row: object, message: str):
    path = write_json_lines([{"a": 1}], tmp_path / "rows.jsonl")
    before = path.read_bytes()
    with pytest.raises(InputError, match=rf"^cannot write rows\.jsonl, entry 2: .*{message}") as caught:
        write_json_lines([{"a": 2}, row], path)
    str(caught.value).encode()  # can be printed
    with pytest.raises(InputError, match=r"^nothing to write to rows\.jsonl"):
        write_json_lines([], path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["rows.jsonl"]


# ---- checks of values and keys


@given(st.text(max_size=6) | st.sampled_from([None, 7, b"a", "a b", " a", "a\u2009", "a\nb", "\ud83d"]))
@settings(PATIENT)
def test_names_and_texts_are_taken_if_and_only_if_they_follow_the_rules(value: object):
    is_text = isinstance(value, str) and value.strip() != "" and not re.search("[\ud800-\udfff]", value)
    is_name = is_text and value == value.strip() and all(c == " " or c.isprintable() for c in value)
    for check, good in (
        (lambda: check_name(value, "category"), is_name),
        (lambda: check_text(value, "category", "drop it"), is_text),
    ):
        if good:
            assert check() == value
        else:
            with pytest.raises(InputError, match="^category ") as caught:
                check()
            str(caught.value).encode()  # can be printed


def test_keys_given_twice_are_named_with_both_places():
    rows = ["a", "b", "a", "c", "a"]
    with pytest.raises(InputError) as caught, errors_at("rows.jsonl"):
        require_distinct(rows, entry_places(rows), "drop the copies")
    assert str(caught.value) == (
        "rows.jsonl: given twice: 'a' in entry 3 (first in entry 1), 'a' in entry 5 (first in entry 1); drop the copies"
    )
    with pytest.raises(InputError, match=r"… \(8 in all\)"):
        require_distinct([1] * 9, entry_places([1] * 9), "drop the copies")
    require_distinct(["a", "b", ("a", "b")], entry_places(range(3)), "drop the copies")


def test_missing_fields_are_named_with_those_that_are_there():
    assert needed_fields({"a": 1, "b": None, "c": 3}, "c", "b") == [3, None]
    with pytest.raises(InputError, match="^no b, c: a, b, c are needed, there is 'a', 'd'; add what"):
        needed_fields({"a": 1, "d": 2}, "a", "b", "c")

"""Files of JSON lines: any object comes back, and what is no such file is refused in one line."""

import gzip
import hashlib
import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ppe.errors import InputError
from ppe.files import check_name, check_text, read_content, read_json_lines, write_json_lines

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


def test_a_mark_inside_and_another_encoding_are_named_by_line(tmp_path: Path):
    for line in (b'\xef\xbb\xbf{"a": 1}', '{"a": 1}'.encode("utf-16-le"), b'"{}"'):
        (path := tmp_path / "rows.jsonl").write_bytes(b'{"a": 1}\n\n' + line + b"\n")
        with pytest.raises(InputError, match=r"^rows\.jsonl, line 3: .*is not"):
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

"""Files that are read piece by piece: the counts and the refusals of the table, in little memory."""

import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from conftest import COLUMNS, random_pool, refused, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from verdict_files import REFUSED, TAKEN

from ppe import large_files, table_files
from ppe.errors import InputError, PpeError
from ppe.large_files import stream_counts
from ppe.pool import win_tie_counts_from_table
from ppe.verdicts import read_verdicts, select_verdicts


@pytest.fixture
def small_pieces(monkeypatch):
    "Pieces of three rows of Parquet, or a few lines of CSV."
    monkeypatch.setattr(table_files, "PIECE", 3)
    monkeypatch.setattr(table_files, "BYTES", 200)


def answer(call, *args, **options):
    "What a reader says: its value, or the message of its InputError."
    try:
        return call(*args, **options)
    except InputError as error:
        assert len(str(error).splitlines()) == 1
        return str(error)


def same_counts(found, table) -> None:
    wins, ties, models = win_tie_counts_from_table(table)
    assert found.counts.models == models and found.n_rows == len(table)
    assert np.array_equal(found.counts.wins, wins) and np.array_equal(found.counts.ties, ties)
    assert found.judges == tuple(sorted(set(table["judge"])))


def same(path: Path) -> bool:
    "Both readers refuse a file with the same words, or take it with the same counts; whether it was taken."
    table, found = answer(read_verdicts, path), answer(stream_counts, [path])
    if isinstance(found, str) and "no valid verdict" in found:
        assert set(table["verdict"]) == {"invalid"}
        return False
    if isinstance(table, str) or isinstance(found, str):
        assert found == table
        return False
    same_counts(found, table)
    return True


# ---- the same refusals


@pytest.mark.parametrize("name", [*TAKEN, *REFUSED])
def test_every_table_is_taken_or_refused_as_by_the_reader_of_tables(tmp_path, name):
    (path := tmp_path / "table").write_bytes((TAKEN | REFUSED)[name][0])
    assert same(path) == (name in TAKEN)


# Cells that are nearly right, each with the others: whichever check is broken first is the one that is named.
cells = st.fixed_dictionaries(
    {
        "judge": st.sampled_from(["me", "me", "you", "", "me "]),
        "question_id": st.sampled_from(["1", "2", "3", "03", "x", "-0", "", " 1", "é"]),
        "category": st.sampled_from(["law", "law", "law", "math"]),
        "variant": st.sampled_from(["0", "1", "0", "1", "a"]),
        "model_a": st.sampled_from(["x", "y", "z", "é", "e\u0301", ""]),
        "model_b": st.sampled_from(["x", "y", "z", "w"]),
        "verdict": st.sampled_from(["a", "b", "tie", "invalid", "a", "b", "A", ""]),
    }
)
likely = st.fixed_dictionaries(
    {
        "judge": st.sampled_from(["me", "you"]), "question_id": st.integers(1, 40).map(str),
        "category": st.just("law"), "variant": st.sampled_from("01"), "model_a": st.sampled_from("xy"),
        "model_b": st.sampled_from("zw"), "verdict": st.sampled_from(["a", "b", "tie", "invalid"]),
    }
)  # fmt: skip
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@given(st.lists(likely, min_size=3, max_size=25), st.lists(cells, max_size=3), st.data())
@settings(PATIENT, max_examples=30)
def test_any_rows_are_taken_or_refused_as_by_the_reader_of_tables(small_pieces, good, odd, data):
    "As CSV, as Parquet, and in two files, where the message is that on the whole, with each row named in its file."
    rows = data.draw(st.permutations(good + odd))
    cut = data.draw(st.integers(1, len(rows) - 1))
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    with tempfile.TemporaryDirectory() as folder:
        whole, first, second = (Path(folder) / name for name in ("whole.csv", "first.csv", "second.csv"))
        for part, path in ((frame, whole), (frame[:cut], first), (frame[cut:], second)):
            part.to_csv(path, index=False)
        frame.to_parquet(parquet := Path(folder) / "whole.parquet")
        assert same(whole) == same(parquet)
        table, found = answer(read_verdicts, whole), answer(stream_counts, [first, second])
        if isinstance(table, str):
            parts = re.fullmatch(r"(.*? in rows? )(\d+(?:, \d+)*)(.*)", table.removeprefix(f"{whole}: "))
            if parts:
                named = [
                    f"{number} of {first}" if int(number) <= cut else f"{int(number) - cut} of {second}"
                    for number in parts[2].split(", ")
                ]
                assert found == parts[1] + ", ".join(named) + parts[3]
            else:
                assert found == table.removeprefix(f"{whole}: ")
        elif not isinstance(found, str):
            same_counts(found, table)
        else:
            assert "no valid verdict" in found and set(table["verdict"]) == {"invalid"}


@pytest.mark.parametrize("chosen", [{"judge": "nobody"}, {"category": "none"}, {"judge": "third", "category": "math"}])
def test_a_selection_of_nothing_is_refused_as_by_the_table(tmp_path, small_pieces, chosen):
    path = write(tmp_path / "v.csv", [*random_pool(), ("third", 30, "law", 0, "alpaca", "mistral", "a")])
    assert answer(stream_counts, [path], **chosen) == answer(select_verdicts, read_verdicts(path), **chosen)


def test_too_many_models_are_refused_before_memory_is(tmp_path, monkeypatch):
    monkeypatch.setattr(large_files, "MAX_COUNT_BYTES", 4 * 8 * 3**2)
    rows = [("j", k, "c", 0, a, b, "a") for k, (a, b) in enumerate(("xy", "yz", "zw"))]
    assert stream_counts([write(tmp_path / "three.csv", rows[:2])]).n_rows == 2
    assert "4 models" in answer(stream_counts, [write(tmp_path / "four.csv", rows)])


# ---- suspects


def test_more_suspects_than_are_looked_for(tmp_path, monkeypatch):
    rows = [("j", k, "c", 0, "x", "y", "a") for k in range(50)]
    path = write(tmp_path / "v.csv", [*rows, *rows])
    assert "(50 in all)" in answer(stream_counts, [path])
    monkeypatch.setattr(large_files, "MAX_SUSPECTS", 10)
    said = answer(stream_counts, [path])
    assert "same pair twice" in said and "(10 or more)" in said
    named = said.partition("rows ")[2].partition(", …")[0].split(", ")
    assert len(named) == 5 and all(50 < int(number) <= 100 for number in named)


# ---- memory, disk, interruption


PEAK = """
import sys
from pathlib import Path
from ppe.large_files import stream_counts
counted = stream_counts(sys.argv[1:])
print(counted.n_rows, Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell the peak")
@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path):
    "A table would need 250 MB more for a million more rows, and their keys 8 MB."
    peaks, rng = {}, np.random.default_rng(4)
    for n_rows in (1_200_000, 2_400_000):
        path, a = tmp_path / f"{n_rows}.parquet", rng.integers(0, 100, n_rows)
        columns = {"judge": pa.repeat("0", n_rows), "question_id": pa.array(np.arange(n_rows)).cast(pa.string())}
        columns |= {"category": columns["judge"], "variant": columns["judge"], "model_a": pa.array(a).cast(pa.string())}
        columns["model_b"] = pa.array((a + rng.integers(1, 100, n_rows)) % 100).cast(pa.string())
        columns["verdict"] = pa.array(["a", "b", "tie"] * (n_rows // 3))
        pa.parquet.write_table(pa.table(columns), path, row_group_size=250_000)
        done = subprocess.run([sys.executable, "-c", PEAK, path], capture_output=True, text=True, check=True)
        seen, peak = map(int, done.stdout.split())
        assert seen == n_rows
        peaks[n_rows] = peak / 1024
    assert peaks[2_400_000] - peaks[1_200_000] < 100 and peaks[2_400_000] < 1000, peaks


def test_a_full_disk_is_one_line_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(large_files.tempfile, "TemporaryFile", lambda **_: open("/dev/full", "wb", buffering=0))
    with pytest.raises(PpeError, match="No space left on device; name a folder with room in TMPDIR"):
        stream_counts([write(tmp_path / "v.csv", random_pool())])


def test_a_disk_that_takes_a_part_at_a_time(tmp_path, monkeypatch):
    class Slow(io.FileIO):
        def write(self, data):
            return super().write(data[:1000])

    monkeypatch.setattr(large_files.tempfile, "TemporaryFile", lambda **_: Slow(tmp_path / "keys", "w+b"))
    keys = np.random.default_rng(2).integers(0, 2**64, 5000, dtype=np.uint64)
    assert np.array_equal(large_files.suspects([keys[:3000], keys[3000:]], lambda part: part), np.sort(keys))


# ---- the command


@pytest.fixture
def all_large(monkeypatch):
    monkeypatch.setattr("ppe.api.inputs.LARGE", 0)


def test_a_large_file_is_ranked_by_its_counts_and_says_so(tmp_path, ppe_main, all_large):
    rows = random_pool(judges=["j"])[:-5]
    path = write(tmp_path / "v.csv", rows)
    expected = ppe_main("rank", path, "--incomplete", "keep", "--intervals", 0, "--format", "json")
    done = ppe_main("rank", path, "--format", "json")
    report = done.json()
    assert "too many for a table" in done.err and "incomplete" in done.err
    assert report["n_verdicts"] == len(rows) and report["n_graphs"] is None
    assert report["models"] == expected.json()["models"]
    two = write(tmp_path / "w.csv", [("k", *row[1:]) for row in rows])
    done = ppe_main("rank", path, two, "--format", "json")
    assert done.json()["n_verdicts"] == 2 * len(rows) and "2 judges are added up (j, k)" in done.err
    done = ppe_main("rank", path, two, "--judge", "k", "--format", "json")
    assert done.json()["models"] == report["models"]


def test_rows_decide_what_is_large_whatever_they_are_written_in(tmp_path, ppe_main, monkeypatch):
    "In CSV, gzip, Parquet, and a pipe."
    rows = random_pool(judges=["j"])[:-5]
    frame = pd.DataFrame(rows, columns=COLUMNS).assign(note="a cell of another column " * 12)
    for name in ("v.csv", "v.csv.gz"):
        frame.to_csv(tmp_path / name, index=False)
    frame.to_parquet(tmp_path / "v.parquet")
    os.mkfifo(tmp_path / "pipe")
    for limit, n_graphs in ((len(rows), 12), (len(rows) - 1, None)):
        monkeypatch.setattr("ppe.api.inputs.LARGE", limit)
        files = ("v.parquet", "v.csv", "v.csv.gz")
        found = [ppe_main("rank", name, "--format", "json") for name in files]
        with subprocess.Popen(["cp", "v.csv", "pipe"], cwd=tmp_path):
            found.append(ppe_main("rank", "pipe", "--format", "json"))
        assert all(done == found[0] for done in found) and found[0].json()["n_graphs_used"] == n_graphs
    other = write(tmp_path / "w.csv", [("k", *row[1:]) for row in rows])
    monkeypatch.setattr("ppe.api.inputs.LARGE", 2 * len(rows))
    assert ppe_main("rank", "v.csv", other, "--format", "json").json()["n_graphs_used"] == 24


def test_what_needs_graphs_gets_them_from_a_large_file(tmp_path, ppe_main, all_large, monkeypatch):
    path = write(tmp_path / "v.csv", random_pool())
    for words in (
        ("--select", "block", "--keep", 1), ("--incomplete", "drop"), ("--intervals", 50),
    ):  # fmt: skip
        assert ppe_main("rank", path, *words, "--format", "json").json()["n_graphs"] == 24
        monkeypatch.setattr("ppe.api.inputs.ROW_BYTES", 2**60)
        refused(ppe_main("rank", path, *words), words[0], "GiB")
        monkeypatch.setattr("ppe.api.inputs.ROW_BYTES", 300)


def test_small_files_together_are_one_table(tmp_path, ppe_main):
    rows = random_pool()
    whole = write(tmp_path / "whole.csv", rows)
    parts = [write(tmp_path / "part-1.csv", rows[:77]), write(tmp_path / "part-2.csv.gz", rows[77:200])]
    pd.DataFrame(rows[200:], columns=COLUMNS).to_parquet(tmp_path / "part-3.parquet")
    for words in (("--intervals", 0), ("--select", "block", "--keep", 1, "--intervals", 40)):
        expected = ppe_main("rank", whole, *words, "--format", "json")
        found = ppe_main("rank", *parts, "part-?.parquet", *words, "--format", "json")
        assert json.loads(found.out) == json.loads(expected.out) and found.err == expected.err
    again = write(tmp_path / "again.csv", [rows[100]])
    refused(ppe_main("rank", "part-*", again), f"in row 1 of {again}", "same pair twice")

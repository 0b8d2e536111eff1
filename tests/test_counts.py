"""Counts of pairs: files made by others, sums of parts, and rankings against an independent fit."""

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import COLUMNS, random_pool, refused, write

from ppe.counts import is_counts, read_counts, write_counts
from ppe.errors import InputError
from ppe.files import data_file

HEAD = ["model_a", "model_b", "wins_a", "wins_b", "ties"]
PAIRS = [("x", "y", 3, 1, 2), ("y", "z", 2, 2, 0), ("z", "x", 1, 4, 1)]


def counts_file(path: Path, rows=PAIRS, head=HEAD) -> Path:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


# ---- the Arena's votes


@pytest.fixture(scope="module")
def arena() -> tuple[Path, list[str], np.ndarray, np.ndarray]:
    "The file, and by Python's csv: names, W and T."
    path = data_file("arena_votes_2024-08-14.csv")
    if not path.is_file():
        pytest.skip(f"no {path.name}")
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    models = sorted({row[side] for row in rows for side in ("model_a", "model_b")})
    at, (wins, ties) = {name: k for k, name in enumerate(models)}, np.zeros((2, len(models), len(models)))
    for row in rows:
        a, b = at[row["model_a"]], at[row["model_b"]]
        wins[a, b] += int(row["wins_a"])
        wins[b, a] += int(row["wins_b"])
        for i, j in ((a, b), (b, a)):
            ties[i, j] += int(row["ties"]) + int(row["both_bad"])
    return path, models, wins, ties


def test_the_arenas_votes_are_all_read(arena):
    path, models, wins, ties = arena
    found = read_counts(path)
    assert found.models == tuple(models) and found.n_verdicts == 1_670_250
    assert np.array_equal(found.wins, wins) and np.array_equal(found.ties, ties)


def test_counts_without_a_maximum_are_no_ranking_unless_a_penalty_is_asked_for(tmp_path, ppe_main):
    path = counts_file(tmp_path / "counts.csv", [("x", "y", 3, 0, 0), ("y", "z", 2, 1, 0)])
    refused(ppe_main("rank", path), "x", "ridge")
    report = ppe_main("rank", path, "--on-separation", "ridge", "--format", "json").json()
    assert report["fit"]["ridge"] > 0 and report["models"][0]["model"] == "x"


# ---- sums


def test_ppe_counts_and_rank_are_the_ranking_of_the_verdicts(tmp_path, ppe_main):
    rows = [row for k, row in enumerate(random_pool(judges=["j", "k"])) if k % 7]
    whole = write(tmp_path / "whole.csv", rows)
    first, second = (write(tmp_path / f"part-{k}.csv", part) for k, part in enumerate((rows[:40], rows[40:])))
    expected = ppe_main("rank", whole, "--incomplete", "keep", "--format", "json").json()
    for number, files in enumerate(([whole], [first, second], ["part-*.csv"])):
        out = tmp_path / f"counts-{number}.csv"
        done = ppe_main("counts", *files, "--out", out)
        assert done.code == 0 and "2 judges are added up" in done.err, done
        found = ppe_main("rank", out, "--format", "json").json()
        assert [row["model"] for row in found["models"]] == [row["model"] for row in expected["models"]]
        scores = ([row["score"] for row in report["models"]] for report in (found, expected))
        assert next(scores) == pytest.approx(next(scores), abs=1e-9)
        assert f"{found['n_verdicts']} verdicts" in done.out
    assert ppe_main("counts", whole, "--judge", "j", "--out", tmp_path / "j.csv").err == ""
    again = ppe_main("counts", "counts-0.csv", "counts-1.csv", "--out", tmp_path / "twice.csv")
    assert f"{2 * found['n_verdicts']} verdicts" in again.out


def test_a_model_without_a_verdict_is_not_forgotten(tmp_path, ppe_main):
    verdicts = (("x", "y", "a"), ("x", "y", "b"), ("x", "z", "invalid"))
    rows = [("j", question, "c", 0, *verdict) for question, verdict in enumerate(verdicts)]
    path, out = write(tmp_path / "v.csv", rows), tmp_path / "counts.csv"
    assert ppe_main("counts", path, "--out", out).code == 0
    assert read_counts(out).models == ("x", "y", "z")
    verdicts, counts = ppe_main("rank", path, "--incomplete", "keep"), ppe_main("rank", out)
    refused(verdicts)
    assert (counts.code, counts.err) == (verdicts.code, verdicts.err)


# ---- what is refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (words, words)
        for words in ("--intervals 100", "--judge me", "--category law", "--incomplete drop", "--order-effect")
    ]
    + [("--select global --keep 1", "--select global")],
)
def test_what_counts_do_not_hold_is_refused_with_the_way_out(tmp_path, ppe_main, words, said):
    done = ppe_main("rank", counts_file(tmp_path / "counts.csv"), *words.split())
    refused(done, said, "give the verdict table")


def test_every_count_ranker_takes_counts_and_a_reference(tmp_path, ppe_main):
    path, reference = counts_file(tmp_path / "counts.csv"), tmp_path / "reference.csv"
    reference.write_text("model,rating\nx,3\ny,2\nz,1\n")
    for ranker in ("davidson", "kemeny"):
        words = ("--ranker", ranker, "--reference", reference, "--format", "json")
        report = ppe_main("rank", path, *words).json()
        assert report["models"][0]["model"] == "x" and set(report["distances"]) >= {"spearman", "kendall"}
    for command in ("cycles", "diagnose"):
        refused(ppe_main(command, path), "counts of pairs", "ppe rank")


def test_bad_counts_are_refused_in_the_same_line_from_parquet(tmp_path, ppe_main):
    twice = [("x", "y", 1, 1, 1), ("y", "x", 1, 1, 1)] * 2
    for rows, said in (([("x", "y", 1, 1, 0), ("x", "z", 0.5, 1, 0)], "wins_a '0.5' in row 2"), (twice, "rows 3, 4")):
        done = ppe_main("rank", path := counts_file(tmp_path / "counts.csv", rows))
        refused(done, said, "counts.csv")
        pd.DataFrame(rows, columns=HEAD).astype(str).to_parquet(buffer := io.BytesIO(), index=False)
        with pytest.raises(InputError) as caught:
            read_counts(buffer.getvalue())
        assert str(caught.value).replace("input", str(path), 1) in done.err
        path.unlink()


def test_names_alike_across_files_and_a_file_given_twice(tmp_path, ppe_main):
    one = counts_file(tmp_path / "one.csv", [("é", "y", 1, 1, 1)])
    two = counts_file(tmp_path / "two.csv", [("e\u0301", "y", 1, 1, 1)])
    for words, said in (
        ((one, two), "look the same"), ((one, one), "given twice"), ((one, "./one.csv"), "given twice"),
    ):  # fmt: skip
        refused(ppe_main("rank", *words), said)


def test_what_sql_and_others_write_as_a_sum_is_a_count():
    frame = pd.DataFrame(PAIRS, columns=HEAD)
    for kind in ("int8", "uint64", "float32", "float64", "Int32", "object"):
        frame.astype(dict.fromkeys(HEAD[2:], kind)).to_parquet(buffer := io.BytesIO(), index=False)
        found = read_counts(buffer.getvalue())
        assert found.wins.tolist() == [[0, 3, 4], [1, 0, 2], [1, 2, 0]] and found.n_verdicts == 16
        assert is_counts(buffer.getvalue())
    for data in (b"", b"#\n", b"PAR1", b"\x1f\x8b", b"\x1f\x8b\x08\x00", ",".join(COLUMNS).encode()):
        assert not is_counts(data)


def test_the_largest_count_is_the_last_that_float64_tells_from_its_neighbours(tmp_path):
    path = counts_file(tmp_path / "counts.csv", [("x", "y", 2**53, 2**53 - 1, "9007199254740992.0")])
    for source in (path, write_counts(read_counts(path), tmp_path / "again.parquet")):
        found = read_counts(source)
        assert found.wins.tolist() == [[0, 2**53], [2**53 - 1, 0]] and found.ties[0, 1] == 2**53

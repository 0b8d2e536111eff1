"The gate of `ppe compare`: a collapse, copies, and mixes of judges and wordings."

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from conftest import refused, write
from scipy import stats

CASES = Path(__file__).parent / "cases"
GATE = "--fail-if", "worse"


def rows_of(name: str) -> list[tuple]:
    return [tuple(line.split(",")) for line in (CASES / f"{name}.csv").read_text().splitlines()[1:]]


def with_wins(rows: list[tuple], model: str, n_wins: int) -> list[tuple]:
    "So many of the verdicts of a model, which is always shown first, are wins; the others are lost."
    own = [k for k, row in enumerate(rows) if row[4] == model]
    won = set(np.random.default_rng(n_wins).permutation(own)[:n_wins])
    return [(*row[:6], "ab"[k not in won]) if row[4] == model else row for k, row in enumerate(rows)]


@pytest.mark.parametrize("n_wins", [0, 1, 4])
def test_gate_old_gate_new(ppe_main, tmp_path, n_wins):
    "151 of 300 wins, and then hardly any: worse, with a limit beside the exact one of the new version alone."
    old, new = CASES / "gate_old.csv", CASES / "gate_new.csv"
    if n_wins != 1:
        new = write(tmp_path / "new.csv", with_wins(rows_of("gate_new"), "v2", n_wins))
    run = ppe_main("compare", old, new, *GATE)
    assert run.code == 4 and run.out.startswith("v2 is worse than v1: ") and "[no limit, -" in run.out
    assert run.err.count("\n") == 1 and "in one order only (9 of 9 that met several times)" in run.err
    assert ("the estimate runs off" in run.out) == (n_wins == 0)
    found = ppe_main("compare", old, new, "--format", "json").json()
    exact = stats.beta.isf(0.025, n_wins + 1, 300 - n_wins)
    assert found["low"] is None and found["worse"] and (found["difference"] is None) == (n_wins == 0)
    assert found["high"] == pytest.approx(np.log(exact / (1 - exact)), abs=0.15) and found["confidence"] > 0.999
    margin = ppe_main("compare", old, new, *GATE, "--margin", 5)
    assert margin.code == 0 and "not shown to be worse than v1 by more than 5: " in margin.out
    back = ppe_main("compare", new, old, *GATE)
    assert back.code == 0 and back.out.startswith("v1 is better than v2: ") and ", no limit]" in back.out
    row = ppe_main("compare", old, new, "--format", "csv").out
    assert ",,-" in row and "inf" not in row and "nan" not in row


@pytest.mark.parametrize("place", [0, 1.5, 9])
def test_copies_of_a_deterministic_model_are_no_change(ppe_main, tmp_path, place):
    "Of one that wins all, one in the middle, one that loses all."
    order = {"x": 1, "y": 2, "z": 3, "v1": place}
    rows = [(*row[:6], "ab"[order[row[4]] > order[row[5]]]) for row in rows_of("gate_old")]
    copies = write(tmp_path / "one.csv", rows), write(tmp_path / "two.csv", rows)
    run = ppe_main("compare", *copies, "--model", "v1", *GATE)
    assert run.code == 0 and "not shown to be worse" in run.out and "+0.000 log odds" in run.out
    assert "copies of one run say nothing of another" in run.err
    found = ppe_main("compare", *copies, "--model", "v1", "--format", "json").json()
    assert (found["difference"], found["power"], found["detectable"], found["worse"]) == (0, None, None, False)


def test_copies_of_a_random_model_are_no_change(ppe_main):
    run = ppe_main("compare", CASES / "gate_old.csv", CASES / "gate_old.csv", "--model", "v1", *GATE)
    assert run.code == 0 and "+0.000 log odds [-0." in run.out
    assert "What drop would be noticed is not known" in run.out


def test_judge_mix(ppe_main, tmp_path):
    "One and the same model; most questions of the old version are judged by j, of the new one by k."
    files = CASES / "judge_mix_old.csv", CASES / "judge_mix_new.csv"
    refused(ppe_main("compare", *files, *GATE), "1 questions on which old and new both", "234 verdicts have no partner")
    old, new = rows_of("judge_mix_old"), rows_of("judge_mix_new")
    common = [("j", f"c{q}", "c", 0, "{}", other, "ab"[q % 2]) for q, other in product(range(20), ("m1", "m2", "m3"))]
    tables = [
        write(tmp_path / f"{name}.csv", rows + [(*row[:4], name, *row[5:]) for row in common])
        for name, rows in (("old", old), ("new", new))
    ]
    run = ppe_main("compare", *tables, *GATE)
    assert run.code == 0 and "+0.000 log odds" in run.out and "21 questions" in run.out
    assert "234 verdicts left out: the other version has none by the same judge on the same wording" in run.err


@pytest.mark.parametrize("column", ["judge", "variant"])
def test_judge_mix_of_single_verdicts(ppe_main, tmp_path, column):
    "Every verdict by one of two judges of opposite taste, or on one of two such wordings; shares turned around."
    rng, tables = np.random.default_rng(5), []
    for name, share in (("old", 0.1), ("new", 0.9)):
        rows = []
        for q, other in product(range(80), ("m1", "m2", "m3")):
            taste = rng.random() < share
            word = "ab"[taste != (rng.random() < 0.2)]
            judge, variant = ("jk"[taste], 0) if column == "judge" else ("j", int(taste))
            rows.append((judge, q, "c", variant, name, other, word))
        rows += [("j", q, "c", 0, "m1", "m2", "ab"[rng.random() < 0.5]) for q in range(80)]
        tables.append(write(tmp_path / f"{name}.csv", rows))
    run = ppe_main("compare", *tables, *GATE, "--format", "json")
    found = run.json()
    assert run.code == 0 and abs(found["difference"]) < 1.5 and found["n_unpaired"] > 300
    assert "verdicts left out: the other version has none by the same judge" in run.err


def test_opponents_may_differ_where_judge_and_wording_are_one(ppe_main, tmp_path):
    "Each version meets two of the three opponents on a question, as a spread design has it."
    tables = []
    for name, absent in (("gate_old", "xyz"), ("gate_new", "yzx")):
        rows = [row for row in rows_of(name) if row[4][0] != "v" or row[5] != absent[int(row[1]) % 3]]
        tables.append(write(tmp_path / f"{name}.csv", rows))
    found = ppe_main("compare", *tables, "--format", "json").json()
    assert found["worse"] and found["n_unpaired"] == 0 and found["n_questions"] == 100

"""Files of rankings and of best answers: the case with values by hand, every form of a file, and refusals."""

import json
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest

import ppe
from ppe.errors import NoMaximumError, Remark

CASES = Path(__file__).parents[1] / "cases"
CALL = {"judge": "j", "question_id": 1, "candidates": ["x", "y", "z"]}


@pytest.mark.filterwarnings("ignore::ppe.errors.Remark")
def test_evidence_6_lists(ppe_main, tmp_path):
    "x–y 3:1, x–z 4:0, y–z 3:1: scores 1.4195, 0, −1.4195; ranges 1 to 3."
    path = str(CASES / "evidence_6_lists.jsonl")
    table = ppe.rank(path).to_frame().set_index("model")
    assert table["score"].to_dict() == pytest.approx({"x": 1.4195, "y": 0, "z": -1.4195}, abs=1e-4)
    assert {*table["rank_low"]} == {1} and {*table["rank_high"]} == {3}
    out = tmp_path / "pairs.csv"
    assert ppe_main("import", path, "--out", str(out)).code == 0
    rows = pd.read_csv(out)
    wins = rows.groupby(["model_a", "model_b", "verdict"]).size().to_dict()
    assert wins == {("x", "y", "a"): 3, ("x", "y", "b"): 1, ("x", "z", "a"): 4, ("y", "z", "a"): 3, ("y", "z", "b"): 1}
    assert {*rows["order_known"]} == {"no"}


def test_evidence_6_best():
    "Eight verdicts, x–y 3:1, y–z one verdict and no tie of losers; z won nothing and is named."
    path = str(CASES / "evidence_6_best.jsonl")
    with pytest.warns(Remark, match="name the best alone"):
        table = ppe.read(path)
    assert len(table) == 8 and not (table["verdict"] == "tie").any()
    assert ((table[["model_a", "model_b"]] == ["y", "z"]).all(axis=1)).sum() == 1
    with pytest.raises(NoMaximumError, match="z never beat"), pytest.warns(Remark):
        ppe.rank(path)


def saved(path: Path, rows: list[dict]) -> str:
    "The rows in the form that the name of the file says."
    if path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    elif path.suffix == ".csv":
        as_text = [{k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()} for row in rows]
        pd.DataFrame(as_text).to_csv(path, index=False)
    else:
        pd.DataFrame(rows).to_parquet(path)
    return str(path)


@pytest.mark.parametrize("form", ["a.jsonl", "a.csv", "a.parquet", "frame"])
@pytest.mark.filterwarnings("ignore::ppe.errors.Remark")
def test_lists_of_every_form_are_the_same_pairs(tmp_path, form):
    rows = [
        {"sample_id": "q1", "models": ["x", "y", "z"], "label": "y", "evaluator": "j", "epoch": 1},
        {"sample_id": "q1", "models": ["x", "y", "z"], "label": "x", "evaluator": "j", "epoch": 2},
        {"sample_id": "q2", "models": ["x", "y", "z"], "label": None, "evaluator": "j", "epoch": 1},
        {"sample_id": "q3", "models": ["z", "x"], "label": "tie", "evaluator": "j", "epoch": 1},
    ]
    table = ppe.read(pd.DataFrame(rows) if form == "frame" else saved(tmp_path / form, rows))
    found = [*table[["question_id", "repeat", "model_a", "model_b", "verdict"]].astype(str).agg(" ".join, axis=1)]
    assert found == [
        "q1 1 x y b", "q1 1 y z a", "q1 2 x y a", "q1 2 x z a",
        "q2 1 x y invalid", "q2 1 x z invalid", "q2 1 y z invalid", "q3 1 x z tie",
    ]  # fmt: skip
    assert {*table["judge"]} == {"j"} and {*table["order_known"]} == {"no"}


@pytest.mark.filterwarnings("ignore::ppe.errors.Remark")
def test_candidates_stand_in_the_order_shown(tmp_path):
    rows = [CALL | {"ranking": ["z", "x", "y"]}, CALL | {"question_id": 2, "winner": "y", "order_known": "no"}]
    table = ppe.read(saved(tmp_path / "a.jsonl", rows))
    assert [*(table["model_a"].astype(str) + table["model_b"].astype(str))][:3] == ["xy", "xz", "yz"]
    assert table["order_known"].tolist() == ["yes", "yes", "yes", "no", "no"]


@pytest.mark.parametrize(
    "rows, words",
    [
        ([CALL | {"ranking": ["x", "y"]}], "line 1: ranking lacks 'z'"),
        ([CALL | {"ranking": ["x", "y", "z"]}, CALL | {"winner": "q"}], "line 2: winner 'q' is none of"),
        ([CALL | {"ranking": ["x", "y", "y"]}], "line 1: ranking has 'y' more than once"),
        ([CALL | {"winner": "x"}] * 2, "lines 1, 2: x and y are compared twice"),
    ],
)
@pytest.mark.parametrize("command", ["import", "rank"])
def test_lists_that_nobody_can_read_are_refused_with_their_rows(ppe_main, tmp_path, command, rows, words):
    path, out = saved(tmp_path / "a.jsonl", rows), tmp_path / "out.csv"
    done = ppe_main(command, path, *(["--out", str(out)] if command == "import" else []))
    assert done.code == 2 and words in done.err and not out.exists()
    assert len(done.err.strip().splitlines()) == 1


def test_files_of_lists_that_repeat_a_call_say_so(tmp_path):
    first, second = (saved(tmp_path / f"{name}.jsonl", [CALL | {"winner": name}]) for name in "xy")
    with pytest.warns(Remark, match="contradict another"):
        ppe.read([first, second])


@pytest.mark.filterwarnings("ignore::ppe.errors.Remark")
@pytest.mark.parametrize("form", ["a.jsonl", "a.csv", "a.parquet", "frame"])
def test_columns_of_lists_are_named(tmp_path, form):
    rows = [{"item": f"q{q}", "shown": ["z", "x", "y"], "order": ["x", "y", "z"], "best": "x"} for q in range(4)]
    source = pd.DataFrame(rows) if form == "frame" else saved(tmp_path / form, rows)
    ranked = ppe.read(source, columns="question_id=item,ranking=order,judge=@j")
    assert len(ranked) == 12 and {*ranked["order_known"]} == {"no"} and {*ranked["judge"]} == {"j"}
    assert {*(ranked["model_a"].astype(str) + ranked["model_b"].astype(str) + ranked["verdict"].astype(str))} == {
        "xya", "xza", "yza"
    }  # fmt: skip
    best = ppe.read(source, question_id="item", candidates="shown", winner="best", judge="@j")
    assert [*zip(best["model_a"], best["model_b"], best["verdict"], strict=True)][:2] == [
        ("z", "x", "b"),
        ("x", "y", "a"),
    ]
    assert len(best) == 8 and "order_known" not in best
    board = ppe.rank(source, columns="question_id=item,ranking=order", on_separation="ridge")
    assert board.to_frame()["model"].tolist() == ["x", "y", "z"]


@pytest.mark.parametrize(
    "columns, words",
    [
        ("question_id=item,ranking=orders", "ranking=orders"),
        ("question_id=item,ranking=order,model_a=left", "model_a=… is not"),
        ("ranking=order", "no question_id"),
        ("question_id=item,ranking=best", "ranking 'x': a list of names is needed"),
        ("question_id=item,candidates=shown,winner=item", "winner 'q0' is none of the candidates"),
    ],
)
@pytest.mark.parametrize("command", ["import", "rank"])
def test_columns_of_lists_that_say_nothing_are_refused(ppe_main, tmp_path, command, columns, words):
    rows = [{"item": f"q{q}", "shown": ["z", "x"], "order": ["x", "z"], "best": "x"} for q in range(2)]
    more = ["--out", str(tmp_path / "out.csv")] if command == "import" else []
    done = ppe_main(command, saved(tmp_path / "a.jsonl", rows), "--columns", columns, *more)
    assert done.code == 2 and words in done.err and done.err.count("\n") == 1 and not (tmp_path / "out.csv").exists()


@pytest.mark.filterwarnings("ignore::ppe.errors.Remark")
def test_models_that_share_no_list_are_not_compared(tmp_path):
    "w and z are in no list together; they stand apart by x and y alone."
    rows = [{"question_id": f"{q}{k}", "ranking": order} for q in range(8) for k, order in enumerate(("wxy", "xyz"))]
    rows += [{"question_id": f"r{k}", "ranking": order} for k, order in enumerate(("yxw", "zyx"))]
    rows = [row | {"ranking": [*row["ranking"]]} for row in rows]
    table = ppe.read(saved(tmp_path / "a.jsonl", rows))
    pairs = {frozenset(pair) for pair in table[["model_a", "model_b"]].astype(str).to_numpy()}
    implied = {frozenset(pair) for row in rows for pair in combinations(row["ranking"], 2)}
    assert pairs == implied and frozenset("wz") not in pairs
    board = ppe.rank(str(tmp_path / "a.jsonl")).to_frame()
    assert board["model"].tolist() == ["w", "x", "y", "z"]

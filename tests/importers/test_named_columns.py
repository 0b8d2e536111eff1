"""Words and numbers that are not explained, and second games whose letters mean places."""

from pathlib import Path

import pandas as pd
import pytest
from conftest import refused
from layout_records import CASES, battle, imported, saved


def test_an_unexplained_winner_is_counted_by_value(ppe_main, tmp_path: Path):
    saved(tmp_path, battle(winner="x"), battle(winner="draw"), battle(winner="draw"), name="b.jsonl")
    names = "model_a=model_a,model_b=model_b,winner=winner"
    done = ppe_main("import", "b.jsonl", "--out", "w.csv", "--columns", names)
    refused(done, "'draw' (2): known are the names of the two models; explain it")
    refused(ppe_main("import", "b.jsonl", "--out", "w.csv", "--columns", f"{names},a=x,b=y"), "'draw' (2)")


def test_second_game_places(ppe_main, tmp_path: Path):
    "The letter in winner_ba is a place: the judge agrees with itself in 108 of 120, and p is ahead of q and r."
    case = "second_game_places.jsonl"
    names = "question_id=question_id,model_a=model_a,model_b=model_b,judge=judge_id,winner=winner_ab,winner_2=winner_ba"
    names += ",a=A,b=B"
    done = ppe_main("import", CASES / case, "--out", "w.csv", "--columns", names)
    refused(done, "different winners in 108 of 120", "second=places", "second=models")
    _, notes, table = imported(ppe_main, tmp_path, case, "--columns", f"{names},second=places")
    assert "(--games agreed makes them ties): 12" in notes and set(table["variant"]) == {"g1", "g2"}
    models = ppe_main("rank", "v.csv", "--intervals", 0, "--format", "json").json()["models"]
    scores = {row["model"]: row["score"] for row in models}  # by scipy, letters as places
    assert scores == pytest.approx({"p": 0.5496, "q": -0.0889, "r": -0.4607}, abs=5e-5)
    counts, notes, _ = imported(ppe_main, tmp_path, case, "--columns", f"{names},second=models", "--games", "agreed")
    assert counts["tie"] == 108 and "ties now (--games both keeps both): 108" in notes


def test_few_games_that_contradict_each_other_are_no_reason_to_refuse(ppe_main, tmp_path: Path):
    "Nine of nine happen in one of 512 by chance, ten of ten in one of 1024; the rule is one in a thousand."
    names = "model_a=x,model_b=y,winner=one,winner_2=two,a=A,b=B"
    for n, code in ((9, 0), (10, 2)):
        rows = pd.DataFrame({"x": ["m"] * n, "y": "o", "one": "A", "two": "B"})
        rows.to_csv("games.csv", index=False)
        assert ppe_main("import", "games.csv", "--out", "v.csv", "--force", "--columns", names).code == code, n
    said = rows.assign(one="m", two="o")  # a name of a model is no place
    said.to_csv("games.csv", index=False)
    done = ppe_main("import", "games.csv", "--out", "v.csv", "--force", "--columns", names.removesuffix(",a=A,b=B"))
    assert done.code == 0, done
    for i in range(10):
        rows.iloc[[i]].to_csv(tmp_path / f"part{i}.csv", index=False)
    parts = [f"part{i}.csv" for i in range(10)]
    refused(ppe_main("import", *parts, "--out", "w.csv", "--columns", names), "in 10 of 10")
    for wrong in ("second=sides", "second=places,second=models"):
        refused(ppe_main("import", "games.csv", "--out", "w.csv", "--columns", f"{names},{wrong}"), "second")
    alone = names.replace("winner_2=two,", "second=places,")
    refused(ppe_main("import", "games.csv", "--out", "w.csv", "--columns", alone), "second=places")


def test_number_words(ppe_main, tmp_path: Path):
    "1 the left, 0 the right, 0.5 a tie; as text, numbers, JSON, CSV and Parquet; 0.5 is never 0."
    names = "question_id=q,model_a=x,model_b=y,winner=won"
    frame = pd.DataFrame({"q": range(6), "x": [*"mno"] * 2, "y": [*"nom"] * 2, "won": [1.0, 0.0, 0.5] * 2})
    frame.to_csv("n.csv", index=False)
    frame.to_parquet("n.parquet", index=False)
    frame.to_json("n.jsonl", orient="records", lines=True)
    for name in ("n.csv", "n.parquet", "n.jsonl"):
        for words in ("a=1,b=0,tie=0.5", "a=1.0,b=0.0,tie=0.50"):
            table = imported(ppe_main, tmp_path, tmp_path / name, "--columns", f"{names},{words}")[2]
            assert table["verdict"].tolist() == ["a", "b", "tie"] * 2
        refused(ppe_main("import", name, "--out", "w.csv", "--columns", f"{names},a=1,b=0"), "'0.5' (2)")

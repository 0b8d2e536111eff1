"""Battles with a column for each outcome."""

from pathlib import Path

from conftest import refused
from layout_records import CASES, imported


def test_one_hot_winner(ppe_main, tmp_path: Path):
    case, models = "one_hot_winner.csv", "model_a=model_a,model_b=model_b,question_id=id"
    hot = "winner_a=winner_model_a,winner_b=winner_model_b,winner_tie=winner_tie"
    for options in ((), ("--columns", f"{models},{hot}")):
        assert imported(ppe_main, tmp_path, case, *options)[0] == {"a": 17, "b": 24, "tie": 19, "invalid": 0}
    half = f"{models},winner=winner_model_a,a=1,b=0"
    refused(ppe_main("import", CASES / case, "--out", "w.csv", "--columns", half), "winner_tie", "winner_a=")
    head = "model_a,model_b,winner_model_a,winner_model_b,winner_tie\n"
    (tmp_path / "true.csv").write_text(head + "x,y,True,False,False\ny,x,1.0,0.0,0.0\nx,y,0,0,1\n")
    assert imported(ppe_main, tmp_path, tmp_path / "true.csv")[0] == {"a": 2, "b": 0, "tie": 1, "invalid": 0}
    for wrong, said in (("0,0,0", "0 of"), ("1,1,0", "2 of"), ("2,0,0", "winner_model_a '2'")):
        (tmp_path / "wrong.csv").write_text(head + f"x,y,1,0,0\nx,z,{wrong}\n")
        refused(ppe_main("import", "wrong.csv", "--out", "w.csv"), "wrong.csv, row 2", said)

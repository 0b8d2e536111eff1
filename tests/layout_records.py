"""One record of each layout, with the fields that are really there, and files of them."""

import csv
import gzip
import json
from pathlib import Path

import pandas as pd

from ppe.verdicts import read_verdicts

CASES = Path(__file__).parent / "cases"  # published files, as small ones of the same kind


def fastchat(question_id=81, model_1="x", model_2="y", g1="model_1", g2="model_1", turn=1, judge=("gpt-4", "pair-v2")):
    return {
        "question_id": question_id, "model_1": model_1, "model_2": model_2, "g1_winner": g1, "g2_winner": g2,
        "judge": list(judge), "g1_user_prompt": "…", "g1_judgment": "[[A]]", "g2_user_prompt": "…",
        "g2_judgment": "[[B]]", "turn": turn, "tstamp": 1687222222.5,
    }  # fmt: skip


def published(question_id=81, model_a="x", model_b="y", winner="model_a", turn=1, judge="gpt4_pair"):
    return {
        "question_id": question_id, "model_a": model_a, "model_b": model_b, "winner": winner, "judge": judge,
        "conversation_a": [{"role": "user", "content": "…"}], "conversation_b": [], "turn": turn,
    }  # fmt: skip


def hard_v1(
    model="x", first="A>B", second="B>A", question_id="328c149ed45a41c0b9d6f14659e63599", baseline="gpt-4-0314"
):
    games = [{"user_prompt": "…", "judgment": "…", "score": score} for score in (first, second)]
    judge = "gpt-4-1106-preview"
    return {"question_id": question_id, "model": model, "judge": judge, "games": games, "baseline": baseline}


def alpaca(preference=1.0, generator_2="x", instruction="Name a colour.", generator_1="gpt4_1106_preview"):
    return {
        "instruction": instruction, "output_1": "…", "generator_1": generator_1,
        "dataset": "koala", "output_2": "…",
        "generator_2": generator_2, "annotator": "weighted_alpaca_eval_gpt4_turbo", "preference": preference,
        "time_per_example": 1.5, "price_per_example": 0.01, "raw_completion": {"logprobs": None},
    }  # fmt: skip


def one_hot(a, b, tie):
    outcome = {"winner_model_a": a, "winner_model_b": b, "winner_tie": tie}
    return {"id": 7 + a + 2 * b, "model_a": "x", "model_b": "y", **outcome}


def battle(model_a="x", model_b="y", winner="model_a", **more):
    return {"model_a": model_a, "model_b": model_b, "winner": winner, **more}


def anchored(final_verdict="x>>y", uid="ab12_x_y", model_a="x"):
    return {
        "uid": uid, "model_1_name": "x", "model_2_name": "y", "model_a_in_prompt": model_a, "judge_model": "qwen",
        "extracted_verdict": "A>>B", "confidence": "significantly", "final_verdict": final_verdict,
    }  # fmt: skip


def arena(question_id="58210e39b3fd4441a2bd4a518bb44c2d", winner="model_a", **more):
    conversation = {"conversation_a": [], "conversation_b": [], "turn": 3, "anony": True, "language": "German"}
    about = {"question_id": question_id, "judge": "arena_user_973", "tstamp": 1682351591.1}
    return battle(winner=winner) | about | conversation | more


def saved(folder: Path, *rows, name="some.jsonl") -> Path:
    "The rows as JSON lines, an array, CSV or Parquet, by the ending of the name."
    path = folder / name
    if name.endswith(".parquet"):
        pd.DataFrame(rows).to_parquet(path)
    elif name.endswith(".csv"):
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
            writer.writeheader()
            writer.writerows(rows)
    else:
        array = name.removesuffix(".gz").endswith(".json")
        text = (json.dumps(rows, indent=2) if array else "\n".join(map(json.dumps, rows))).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def imported(ppe_main, tmp_path: Path, name: object, *options: str) -> tuple[dict[str, int], str, pd.DataFrame]:
    "The counts of verdicts, the notes and the table."
    done = ppe_main("import", CASES / name, "--out", "v.csv", "--force", "--format", "json", *options)
    assert done.code == 0, done
    report, table = json.loads(done.out), read_verdicts(tmp_path / "v.csv")
    said = table["verdict"].value_counts()
    assert report["verdicts"] == len(table)
    return {word: int(said.get(word, 0)) for word in ("a", "b", "tie", "invalid")}, "\n".join(report["notes"]), table

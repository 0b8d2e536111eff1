"""Verdict files of other projects, written by hand as those projects publish them, become verdict tables."""

import csv
import gzip
import hashlib
import json
import re
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from conftest import refused
from hypothesis import given, settings
from hypothesis import strategies as st

from ppe.errors import InputError
from ppe.files import is_name
from ppe.importers.layouts import LAYOUTS, import_verdicts
from ppe.sources.datasets import load_verdicts
from ppe.verdicts import COLUMNS, read_verdicts, write_verdicts

RAW = Path(__file__).resolve().parents[3] / "shared" / "raw" / "mtbench"

# ---- one record of each layout, with the fields that are really there


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


# ---- one layout each


def test_the_real_set_gives_the_verdicts_of_the_project():
    if not RAW.is_dir():
        pytest.skip("no raw files beside the checkout")
    for file, name, judge in (("gpt4_pair.jsonl", "mt-bench-gpt4", "gpt-4"), ("human.jsonl", "mt-bench-human", None)):
        report = (table := import_verdicts(RAW / file, judge=judge)).attrs["report"]
        expected = load_verdicts(name)
        same = [column for column in COLUMNS if column != "category"]
        pd.testing.assert_frame_equal(table[same].astype(str), expected[same].astype(str))
    assert report["left_out"] == {"repeated vote": 1}


@pytest.mark.parametrize(
    ("records", "options", "lost"),
    [
        ([fastchat()], {}, {"yes"}),
        ([fastchat()], {"games": "agreed"}, {"no"}),
        ([fastchat() | {"m1_score": 7, "m2_score": 5}], {}, {"no"}),
        ([published(), published(question_id=82)], {}, {"no"}),
        ([published(judge="gpt-4", winner="tie (inconsistent)"), published(82, judge="gpt-4")], {}, {"no"}),
        ([published(judge=["gpt-4", "pair-v2"])], {"judge": "gpt-4"}, {"no"}),
        ([published(judge="expert_3")], {}, {"yes"}),
        ([published(judge="expert_3"), published(82)], {}, {"yes", "no"}),
        ([hard_v1()], {}, {"yes"}),
        ([hard_v1()], {"games": "agreed"}, {"no"}),
        ([alpaca()], {}, {"no"}),
        ([arena()], {}, {"yes"}),
        ([one_hot(1, 0, 0)], {}, {"yes"}),
        ([anchored()], {}, {"yes"}),
        ([battle(said="L", again="L")], {"columns": "model_a=model_a,model_b=model_b,winner=said,a=L,b=R"}, {"yes"}),
        (
            [battle(said="L", again="L")],
            {"columns": "model_a=model_a,model_b=model_b,winner=said,winner_2=again,a=L,b=R", "games": "agreed"},
            {"no"},
        ),
    ],
)
def test_a_table_says_whether_its_order_is_known(tmp_path: Path, records, options, lost):
    "By who published it: merged from two games, not in the files, or as the answers were shown."
    table = import_verdicts(saved(tmp_path, *records), **options)
    known = set(table["order_known"]) if "order_known" in table else {"yes"}
    assert known == lost
    again = read_verdicts(write_verdicts(table, tmp_path / "table.csv"))
    assert set(again.get("order_known", pd.Series(["yes"]))) == lost


def test_turns_are_wordings_unless_they_are_asked_for_as_questions(tmp_path: Path):
    records = [fastchat(question_id, turn=turn, g2="model_2") for question_id in (81, 82) for turn in (1, 2)]
    path, about = saved(tmp_path, *records), [{"question_id": q, "category": f"c{q}"} for q in (81, 82)]
    asked = saved(tmp_path, *about, name="questions.jsonl")
    together, apart = (import_verdicts(path, turns=turns, questions=asked) for turns in (None, "questions"))
    assert together["question_id"].nunique() == 2 and set(together["variant"]) == {"t1g1", "t1g2", "t2g1", "t2g2"}
    assert apart["question_id"].nunique() == 4 and set(apart["variant"]) == {"g1", "g2"}
    assert set(zip(apart["question_id"], apart["category"], strict=True)) >= {
        ("81 turn 2", "c81"),
        ("82 turn 1", "c82"),
    }
    same = ["judge", "category", "model_a", "model_b", "verdict"]
    pd.testing.assert_frame_equal(together[same], apart[same])
    agreed = import_verdicts(path, turns="questions", games="agreed")
    assert set(agreed["variant"]) == {1} and set(agreed["verdict"]) == {"tie"}
    with pytest.raises(InputError, match="strong does not apply"):
        import_verdicts(path, strong=3)


def test_an_instruction_is_any_text(tmp_path: Path):
    "Published instructions have line breaks and spaces around them; the text is a question, no name."
    texts = ["one", "one\n", "one\n\ntwo\t", " one", "1", "\u202e", "a" * 10_000]
    for name in ("a.json", "a.jsonl", "a.csv", "a.parquet"):
        path = saved(tmp_path, *(alpaca(instruction=text) for text in texts), name=name)
        table = import_verdicts(path)
        hashes = [hashlib.sha256(f"koala\n{text}".encode()).hexdigest()[:12] for text in texts]
        assert table["question_id"].tolist() == [f"i{digest}" for digest in hashes]


# ---- all layouts


EXAMPLES = {
    "mt-bench": [fastchat(), fastchat(model_2="z", g2="model_2"), fastchat(82, g1="error")],
    "arena-hard": [hard_v1(), hard_v1("y", None, "A>>B"), hard_v1(question_id=7)],
    "anchor-selection": [anchored(), anchored("y=x", "7_y_x", "y"), anchored("INVALID", "8_x_y")],
    "alpaca-eval": [alpaca(), alpaca(1.7, "y"), alpaca(None, "z")],
    "one-hot": [one_hot(0, 0, 1), one_hot(1, 0, 0), one_hot(0, 1, 0)],
    "chatbot-arena": [battle(), battle("y", "z", "tie"), battle("z", "x", "tie (bothbad)")],
}


@pytest.mark.parametrize("layout", EXAMPLES)
def test_a_layout_is_known_in_every_form_and_its_records_are_accounted_for(tmp_path: Path, layout):
    lacking = {*LAYOUTS} - {*EXAMPLES, "inspect", "lists", "columns"}  # whose records are not objects of a file
    assert not lacking, f"give three records of {lacking} in EXAMPLES of tests/importers/test_layouts.py"
    rows = [row | {"question_id": str(row["question_id"])} if "question_id" in row else row for row in EXAMPLES[layout]]
    report = (table := import_verdicts(saved(tmp_path, *rows))).attrs["report"]
    games = 2 if layout in ("mt-bench", "arena-hard") else 1
    assert report["layout"] == layout and report["n_records"] == 3
    assert len(table) + sum(report["left_out"].values()) == 3 * games
    for name in ("e.json", "e.jsonl.gz", "e.parquet"):
        pd.testing.assert_frame_equal(import_verdicts(saved(tmp_path, *rows, name=name), layout), table)


def test_votes_that_contradict_each_other_count_for_nobody(tmp_path: Path):
    "A win and a loss, a win and a tie, a win of the first place both ways round; invalid says nothing."
    votes = [
        arena(1), arena(1, "model_b"),
        arena(2), arena(2, "tie"), arena(2),
        arena(3), arena(3, model_a="y", model_b="x"),
        arena(4, None), arena(4, "model_b"), arena(4, "model_b"),
        arena(5), arena(5, judge="another"), arena(5, "model_b", judge="another"),
        arena(6, None), arena(6, None),
    ]  # fmt: skip
    for drawn in (votes, votes[::-1]):
        report = (table := import_verdicts(saved(tmp_path, *drawn), "chatbot-arena")).attrs["report"]
        left = table.sort_values("question_id")[["question_id", "judge", "verdict"]]
        judge = "arena_user_973"
        assert left.values.tolist() == [[4, judge, "b"], [5, judge, "a"], [6, judge, "invalid"]]
        assert report["left_out"] == {"contradictory vote": 9, "repeated vote": 3}
        (said,) = [line for line in report["remarks"] if "contradict" in line]
        assert all(f"question {question}" in said for question in (1, 2, 3, 5)) and "9 votes" in said


def test_a_record_that_comes_twice_is_remarked_once(tmp_path: Path):
    "A run that was resumed repeats lines; what is said of a record is said of those that count."
    differ, strong = fastchat(g2="model_2"), hard_v1(first="A>>B")
    rounded, both_bad, named = alpaca(1.2), arena(winner="tie (bothbad)"), arena(anony=False)
    for row, said in (
        (differ, "judged differently"), (strong, "strong wins"), (anchored(), "strong wins"),
        (rounded, "nearest whole number"), (both_bad, "both were called bad"), (named, "not anonymous"),
        (published(winner="tie (inconsistent)"), "changed with the order"),
        (fastchat() | {"m1_score": 5}, "two separate scores"),
    ):  # fmt: skip
        one, copy = saved(tmp_path, row, row), saved(tmp_path, row, name="copy.jsonl")
        (line,) = [line for line in import_verdicts([one, copy]).attrs["report"]["remarks"] if said in line]
        assert line.endswith(": 1"), line


# ---- any battles at all, in any form


texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)


@given(texts)
@settings(max_examples=20, deadline=None)
def test_what_import_takes_for_a_name_rank_reads_and_the_rest_is_refused(tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("names")
    rows = [battle(name, "other model", "model_a"), battle("other model", name, "model_a")]
    if is_name(name) and name != "other model":
        table = import_verdicts(saved(folder, *rows))
        for ending in ("csv", "parquet"):
            back = read_verdicts(write_verdicts(table, folder / f"t.{ending}"))
            models = back[["model_a", "model_b"]].astype(str)
            assert models.values.tolist() == [[name, "other model"], ["other model", name]]
    else:
        with pytest.raises(InputError, match="one line"):
            import_verdicts(saved(folder, *rows))


# ---- the command


def test_import_then_rank(ppe_main, tmp_path: Path):
    said = ((1, "model_1"), (2, "model_2"))
    saved(tmp_path, *(fastchat(q, a, b, g1, "tie") for q, g1 in said for a, b in ("xy", "yz", "xz")))
    run = ppe_main("import", "some.jsonl", "--out", "verdicts.csv")
    assert (run.code, run.new_files) == (0, ("verdicts.csv",))
    assert "ppe: note: layout mt-bench, by the fields of the first record" in run.err and re.search(
        "records +6\n", run.out
    )
    written = read_verdicts("verdicts.csv")
    pd.testing.assert_frame_equal(written.astype(str), import_verdicts("some.jsonl").astype(str))
    refused(ppe_main("rank", "some.jsonl"), "ppe import")


def test_no_command_writes_over_what_it_reads(ppe_main, tmp_path: Path):
    "Under the same name or a link to it, --force or not; another table is overwritten if forced."
    (tmp_path / "v.csv").write_text(",".join(COLUMNS) + "\nme,1,all,0,x,y,a\nme,2,all,0,x,y,b\n")
    saved(tmp_path, battle(), name="b.csv")
    (tmp_path / "models.csv").write_text("model\nx\ny\n")
    (tmp_path / "q.csv").write_text("question_id,category\n1,math\n")
    (tmp_path / "v-soft.csv").symlink_to("v.csv")
    chosen = ("--questions", "q.csv", "--models", "models.csv", "--calls", 1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for words, inputs in (
        (("counts", "v.csv"), "v"), (("counts", "v.c*"), "v"), (("counts", "v-soft.csv"), "v"),
        (("import", "b.csv"), "b"), (("import", "b.csv", "--questions", "q.csv"), "q"),
        (("next", "v.csv", *chosen), ("v", "models", "q")), (("design", *chosen), ("models", "q")),
    ):  # fmt: skip
        for name in inputs:
            said = " is an input: it would be overwritten; name another file"
            refused(ppe_main(*words, "--out", f"./{name}.csv", "--force"), said)
    refused(ppe_main("import", "b.csv", "--out", "v.csv"), "--force")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert ppe_main("import", "b.csv", "--out", "v.csv", "--force").code == 0
    assert len(read_verdicts(tmp_path / "v.csv")) == 1


# ---- files that were published, as small ones of the same kind: tests/cases

CASES = Path(__file__).parents[1] / "cases"


def imported(ppe_main, tmp_path: Path, name: object, *options: str) -> tuple[dict[str, int], str, pd.DataFrame]:
    "The counts of verdicts, the notes and the table."
    done = ppe_main("import", CASES / name, "--out", "v.csv", "--force", "--format", "json", *options)
    assert done.code == 0, done
    report, table = json.loads(done.out), read_verdicts(tmp_path / "v.csv")
    said = table["verdict"].value_counts()
    assert report["verdicts"] == len(table)
    return {word: int(said.get(word, 0)) for word in ("a", "b", "tie", "invalid")}, "\n".join(report["notes"]), table


def test_arena_hard_assumed_baseline(ppe_main, tmp_path: Path):
    case = "arena_hard_assumed_baseline.jsonl"
    _, notes, table = imported(ppe_main, tmp_path, case)  # no model's name is invented
    assert {*table["model_a"], *table["model_b"]} == {"baseline", "my-base", "m1", "m2"}
    assert "name no baseline, called 'baseline' here (--baseline NAME names it): 9" in notes
    counts, _, table = imported(ppe_main, tmp_path, case, "--baseline", "my-base")
    assert sum(counts.values()) == 12 and {*table["model_a"], *table["model_b"]} == {"my-base", "m1", "m2"}


def test_arena_hard_one_game(ppe_main, tmp_path: Path):
    counts, notes, table = imported(ppe_main, tmp_path, "arena_hard_one_game.jsonl")
    assert counts["invalid"] == 1 and sum(counts.values()) == 32 and "without a score, which are invalid: 1" in notes
    assert table[table["verdict"] == "invalid"]["question_id"].tolist() == ["q3"]


def test_pair_judge_model(ppe_main, tmp_path: Path):
    case, expected = "pair_judge_model.jsonl", ["a", "b", "b", "b", "tie", "a", "b", "a"]
    by_hand = "model_a=model_1,model_b=model_2,winner=g1_winner,winner_2=g2_winner,a=model_1,b=model_2,tie=tie"
    for options in (
        ("--judge", "gpt-4"), ("--columns", f"{by_hand},question_id=question_id,judge=judge_model"),
        ("--columns", f"{by_hand},question_id=question_id,judge=@gpt-4"),
    ):  # fmt: skip
        _, _, table = imported(ppe_main, tmp_path, case, *options)
        assert table["verdict"].tolist() == expected and {*table["judge"]} == {"gpt-4"}
        assert table["model_a"].tolist() == ["m1", "m2"] * 4
    refused(ppe_main("import", CASES / case, "--out", "w.csv"), "--judge NAME")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / case).write_bytes((CASES / case).read_bytes())
    assert len(imported(ppe_main, tmp_path, tmp_path / "folder", "--judge", "gpt-4")[2]) == 8


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


def test_ids_within_category(ppe_main, tmp_path: Path):
    case, names = "ids_within_category.jsonl", "model_a=model_a,model_b=model_b,winner=winner,judge=judge"
    words = "a=model_a,b=model_b,question_id=question_id,category=category"
    for options in ((), ("--columns", f"{names},{words}")):
        _, notes, table = imported(ppe_main, tmp_path, case, *options)
        assert len(table) == 60 and table["question_id"].nunique() == 20 and ": 10" in notes
    models = ppe_main("rank", "v.csv", "--format", "json").json()["models"]
    assert {row["model"]: row["score"] for row in models}["x"] == pytest.approx(-0.4206, abs=5e-5)
    done = ppe_main("import", CASES / case, "--out", "w.csv", "--columns", f"{names},a=model_a,b=model_b")
    assert ": 10" in done.err, "columns with the names of a verdict table need not be named"


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


def test_a_judge_that_is_named_is_chosen(ppe_main, tmp_path: Path):
    rows = [{"x": "m", "y": "n", "won": w, "grader": g, "q": q} for q in range(3) for w, g in (("m", "j"), ("n", "k"))]
    pd.DataFrame(rows).to_csv("g.csv", index=False)
    names = "question_id=q,model_a=x,model_b=y,winner=won,judge=grader"
    counts, notes, table = imported(ppe_main, tmp_path, tmp_path / "g.csv", "--columns", names, "--judge", "k")
    assert {*table["judge"]} == {"k"} and counts["b"] == len(table) == 3
    done = ppe_main("import", "g.csv", "--out", "w.csv", "--columns", names, "--judge", "other")
    refused(done, "2 judged (j, k)", "--judge @other")
    alone = names.removesuffix(",judge=grader")
    done = ppe_main("import", "g.csv", "--out", "w.csv", "--columns", alone, "--judge", "grader")
    refused(done, "--judge grader chooses a judge", "--columns judge=grader")


@pytest.mark.parametrize("status", ["started", "cancelled", "error", "success"])
def test_a_log_of_inspect_that_did_not_end_is_imported_and_said(ppe_main, tmp_path: Path, status: str):
    samples = [
        {"id": k, "epoch": 1, "scores": {"s": {"value": "A"}}, "metadata": {"model_a": "x", "model_b": "y"}}
        for k in range(3)
    ]
    header = {"version": 2, "eval": {"model": "judge"}, "status": status}
    (tmp_path / "log.json").write_text(json.dumps(header | {"samples": samples}))
    del header["status"]  # of the first part of an archive, written before the run has ended
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        start = {"header.json": header | {"status": status}} if status == "success" else {"_journal/start.json": header}
        for name, entry in (start | {f"samples/{k}_epoch_1.json": sample for k, sample in enumerate(samples)}).items():
            archive.writestr(name, json.dumps(entry))
    for file, shown in (("log.json", status), ("log.eval", status if status == "success" else "started")):
        run = ppe_main("import", file, "--out", f"{file}.csv")
        assert run.code == 0 and len(read_verdicts(tmp_path / f"{file}.csv")) == 3
        said = f"samples of a log that did not finish (status {shown}), so that others may be missing: 3"
        assert (said in run.out + run.err) == (status != "success"), run

"""Verdict files of other projects, written by hand as those projects publish them, become verdict tables."""

import csv
import gzip
import hashlib
import json
import unicodedata
import zipfile
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppe.errors import InputError
from ppe.files import is_name
from ppe.importers.layouts import LAYOUTS, import_verdicts
from ppe.paper.datasets import load_verdicts
from ppe.pool import comparison_graphs, win_tie_counts_from_table
from ppe.verdicts import COLUMNS, read_verdicts, write_verdicts

RAW = Path(__file__).resolve().parents[2] / "shared" / "raw" / "mtbench"

# ---- one record of each layout, with the fields that are really there


def fastchat(
    question_id=81, model_1="x", model_2="y", g1="model_1", g2="model_1", turn=1, judge=("gpt-4", "pair-v2")
):
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


def hard_v1(model="x", first="A>B", second="B>A", question_id="328c149ed45a41c0b9d6f14659e63599"):
    games = [{"user_prompt": "…", "judgment": "…", "score": score} for score in (first, second)]
    return {"question_id": question_id, "model": model, "judge": "gpt-4-1106-preview", "games": games}


def hard_v2(
    model="x", first="A>B", second="B>A", uid="0c1d", category="hard_prompt", baseline="o3-mini-2025-01-31"
):
    games = [{"score": score, "judgment": {"answer": "…"}, "prompt": []} for score in (first, second)]
    return {
        "uid": uid,
        "category": category,
        "judge": "gpt-4.1",
        "model": model,
        "baseline": baseline,
        "games": games,
    }


def alpaca(preference=1.0, generator_2="x", instruction="Name a colour.", generator_1="gpt4_1106_preview"):
    return {
        "instruction": instruction, "output_1": "…", "generator_1": generator_1,
        "dataset": "koala", "output_2": "…",
        "generator_2": generator_2, "annotator": "weighted_alpaca_eval_gpt4_turbo", "preference": preference,
        "time_per_example": 1.5, "price_per_example": 0.01, "raw_completion": {"logprobs": None},
    }  # fmt: skip


def battle(model_a="x", model_b="y", winner="model_a", **more):
    return {"model_a": model_a, "model_b": model_b, "winner": winner, **more}


def arena(question_id="58210e39b3fd4441a2bd4a518bb44c2d", winner="model_a", **more):
    conversation = {
        "conversation_a": [],
        "conversation_b": [],
        "turn": 3,
        "anony": True,
        "language": "German",
    }
    return (
        battle(winner=winner)
        | {"question_id": question_id, "judge": "arena_user_973", "tstamp": 1682351591.1}
        | conversation
        | more
    )


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
        text = (
            json.dumps(rows, indent=2)
            if ".json" == Path(name.removesuffix(".gz")).suffix
            else "\n".join(map(json.dumps, rows))
        )
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def read(folder: Path, *rows, **options) -> list[tuple]:
    "Rows of the imported table: variant, model shown first, model shown second, verdict."
    table, _ = import_verdicts(saved(folder, *rows), **options)
    return list(table[["variant", "model_a", "model_b", "verdict"]].itertuples(index=False, name=None))


# ---- MT-Bench


def test_two_games_are_two_graphs_and_the_first_model_is_who_was_shown_first(tmp_path: Path):
    rows = read(tmp_path, fastchat(g1="model_1", g2="model_1"), fastchat(turn=2, g1="model_2", g2="tie"))
    assert rows == [
        ("t1g1", "x", "y", "a"),
        ("t1g2", "y", "x", "b"),
        ("t2g1", "x", "y", "b"),
        ("t2g2", "y", "x", "tie"),
    ]


@pytest.mark.parametrize(
    ("g1", "g2", "agreed"),
    [
        ("model_1", "model_1", "a"),
        ("model_2", "model_2", "b"),
        ("tie", "tie", "tie"),
        ("model_1", "model_2", "tie"),
        ("model_1", "tie", "tie"),
        ("error", "model_1", "invalid"),
        ("tie", "error", "invalid"),
        ("error", "error", "invalid"),
        (None, "tie", "invalid"),
    ],
)
def test_agreed_games_follow_fastchat(tmp_path: Path, g1, g2, agreed):
    assert read(tmp_path, fastchat(g1=g1, g2=g2), games="agreed") == [(1, "x", "y", agreed)]


def test_an_error_is_invalid_and_never_a_tie(tmp_path: Path):
    table, report = import_verdicts(saved(tmp_path, fastchat(g1="error", g2="tie")))
    assert table["verdict"].tolist() == ["invalid", "tie"]
    assert report.verdicts == {"a": 0, "b": 0, "tie": 1, "invalid": 1} and report.n_complete == 1


def test_the_prompts_of_one_judge_are_one_judge(tmp_path: Path):
    rows = [
        fastchat(),
        fastchat(turn=2, judge=("gpt-4", "pair-v2-multi-turn")),
        fastchat(111, judge=("gpt-4", "pair-math-v1")),
    ]
    table, report = import_verdicts(saved(tmp_path, *rows))
    assert report.n_judges == 1 and set(table["judge"]) == {"gpt-4"} and report.n_questions == 2


def test_scores_given_one_by_one_are_one_verdict(tmp_path: Path):
    row = fastchat(g1="model_2", g2="model_2") | {"m1_score": 7, "m2_score": 9}
    del row["turn"]  # FastChat writes none here
    table, report = import_verdicts(saved(tmp_path, row))
    assert table[["variant", "model_a", "verdict"]].values.tolist() == [[1, "x", "b"]]
    assert "scores given one by one" in report.warnings[-1]


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.json", "pairs.parquet", "pairs.jsonl.gz"])
def test_the_published_set_has_one_verdict_a_pair(tmp_path: Path, name):
    labels = ("model_a", "model_b", "tie", "tie (inconsistent)")
    path = saved(tmp_path, *(published(81 + i, winner=label) for i, label in enumerate(labels)), name=name)
    assert import_verdicts(path)[1].layout == "mt-bench"
    table, report = import_verdicts(path, judge="gpt-4")
    assert table["verdict"].tolist() == ["a", "b", "tie", "tie"] and set(table["judge"]) == {"gpt-4"}
    assert any("'tie (inconsistent)'" in line and line.endswith(": 1") for line in report.warnings)


def test_the_real_set_gives_the_verdicts_of_the_project():
    if not RAW.is_dir():
        pytest.skip("no raw files beside the checkout")
    for file, name, judge in (("gpt4_pair.jsonl", "mt-bench-gpt4", "gpt-4"), ("human.jsonl", "mt-bench-human", None)):
        table, report = import_verdicts(RAW / file, judge=judge)
        expected = load_verdicts(name)
        same = [column for column in COLUMNS if column != "category"]
        pd.testing.assert_frame_equal(table[same].astype(str), expected[same].astype(str))
    assert report.left_out == {"repeated vote": 1} and report.n_never_met == 0


# ---- Arena-Hard


@pytest.mark.parametrize(
    ("score", "shown_first"),
    [
        ("A>>B", "a"),
        ("A>B", "a"),
        ("A=B", "tie"),
        ("B>A", "b"),
        ("B>>A", "b"),
        ("A<B", "b"),
        ("A<<B", "b"),
        ("B<A", "a"),
        ("B<<A", "a"),
        ("B=A", "tie"),
        (None, "invalid"),
    ],
)
def test_the_baseline_is_shown_first_in_the_first_game(tmp_path: Path, score, shown_first):
    rows = read(tmp_path, hard_v1(first=score, second="A=B"), hard_v1("z", first="A=B", second=score))
    assert rows == [
        (1, "gpt-4-0314", "x", shown_first), (2, "x", "gpt-4-0314", "tie"),
        (1, "gpt-4-0314", "z", "tie"), (2, "z", "gpt-4-0314", shown_first),
    ]  # fmt: skip


def test_a_game_that_was_not_played_is_invalid(tmp_path: Path):
    row = hard_v2() | {"games": [None, {"score": "B>A"}]}
    assert read(tmp_path, row) == [
        (1, "o3-mini-2025-01-31", "x", "invalid"),
        (2, "x", "o3-mini-2025-01-31", "b"),
    ]


def test_version_2_names_baseline_and_category(tmp_path: Path):
    rows = [hard_v2(), hard_v2(uid="9f", category="creative_writing", baseline="gemini-2.0-flash-001")]
    table, report = import_verdicts(saved(tmp_path, *rows))
    assert table["category"].tolist() == ["hard_prompt"] * 2 + ["creative_writing"] * 2
    assert not any("assumed" in line for line in report.warnings)


def test_strong_wins_are_counted_once_and_said(tmp_path: Path):
    table, report = import_verdicts(
        saved(tmp_path, hard_v1(first="A>>B", second="A<<B"), hard_v1("z", "A>B", "A>B"))
    )
    assert len(table) == 4 and any("strong wins" in line and line.endswith(": 2") for line in report.warnings)


def test_one_file_a_model_is_the_normal_case(tmp_path: Path):
    files = [
        saved(tmp_path, hard_v1(model), hard_v1(model, question_id="ff"), name=f"{model}.jsonl")
        for model in "uvw"
    ]
    table, report = import_verdicts(files, baseline="base")
    assert (report.n_records, report.n_verdicts, report.n_graphs, report.n_complete) == (6, 12, 4, 0)
    assert (report.models, report.hub, report.n_never_met) == (("base", "u", "v", "w"), "base", 3)
    assert (
        "every model met base only" in report.warnings[0]
        and "`ppe rank FILE`" in report.warnings[0]
    )
    with pytest.raises(InputError, match="no complete graph"):
        comparison_graphs(table)


# ---- AlpacaEval


@pytest.mark.parametrize(
    ("preference", "verdict"),
    [
        (1, "a"),
        (1.0, "a"),
        (2, "b"),
        (1.5, "tie"),
        (0, "tie"),
        (1.49, "a"),
        (1.51, "b"),
        (1.0000001, "a"),
        (None, "invalid"),
        (float("nan"), "invalid"),
    ],
)
def test_a_preference_is_its_nearest_whole_number(tmp_path: Path, preference, verdict):
    assert read(tmp_path, alpaca(preference)) == [(1, "gpt4_1106_preview", "x", verdict)]


@given(st.floats(1, 2), st.floats(0, 0.49))
@settings(max_examples=30, deadline=None)
def test_the_tie_width_is_symmetric(tmp_path_factory, preference, width):
    folder = tmp_path_factory.mktemp("alpaca")
    one, other = (read(folder, alpaca(p), tie_width=width)[0][-1] for p in (preference, 3 - preference))
    near = abs(abs(preference - 1.5) - width) < 1e-9  # rounding decides
    assert near or other == {"a": "b", "b": "a", "tie": "tie"}[one]
    assert near or (one == "tie") == (abs(preference - 1.5) <= width)


def test_an_instruction_is_any_text(tmp_path: Path):
    "Published instructions have line breaks and spaces around them; the text is a question, no name."
    texts = ["one", "one\n", "one\n\ntwo\t", " one", "1", "\u202e", "a" * 10_000]
    for name in ("a.json", "a.jsonl", "a.csv", "a.parquet"):
        path = saved(tmp_path, *(alpaca(instruction=text) for text in texts), name=name)
        table, _ = import_verdicts(path)
        hashes = [hashlib.sha256(f"koala\n{text}".encode()).hexdigest()[:12] for text in texts]
        assert table["question_id"].tolist() == [f"i{digest}" for digest in hashes]


def test_a_question_has_the_same_identifier_in_every_file(tmp_path: Path):
    some, other = (
        [alpaca(instruction=text) for text in "abc"],
        [alpaca(1.2, "z", instruction=text) for text in "cab"],
    )
    one = import_verdicts(saved(tmp_path, *some, name="one.json"))[0]
    both, report = import_verdicts(
        [saved(tmp_path, *some, name="one.json"), saved(tmp_path, *other, name="other.json")]
    )
    assert set(one["question_id"]) == set(both["question_id"]) and report.n_graphs == 3
    assert Counter(both["question_id"]) == dict.fromkeys(one["question_id"], 2)
    assert any("1, 1.5 or 2" in line and line.endswith(": 3") for line in report.warnings)
    assert any("order in which the outputs were shown" in line for line in report.warnings)


# ---- Chatbot Arena


@pytest.mark.parametrize("name", ["b.jsonl", "b.json", "b.csv", "b.parquet", "b.json.gz"])
def test_battles_are_numbered_where_they_have_no_number(tmp_path: Path, name):
    labels = ("model_a", "model_b", "tie", "tie (bothbad)")
    path = saved(tmp_path, *(battle(winner=label) for label in labels), name=name)
    assert import_verdicts(path)[1].layout == "chatbot-arena"
    table, report = import_verdicts(path)
    assert table["verdict"].tolist() == ["a", "b", "tie", "tie"] and table["question_id"].tolist() == [
        1,
        2,
        3,
        4,
    ]
    assert set(table["judge"]) == {"arena"} and any(
        "both were called bad: 1" in line for line in report.warnings
    )


def test_numbers_go_on_through_the_files(tmp_path: Path):
    files = [saved(tmp_path, battle(), battle(), name=f"{i}.jsonl") for i in range(3)]
    assert import_verdicts(files)[0]["question_id"].tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("name", ["b.jsonl", "b.json", "b.csv", "b.parquet"])
def test_votes_with_voter_and_language(tmp_path: Path, name):
    path = saved(tmp_path, arena("a"), arena("b", "tie", anony=False, language="English"), name=name)
    assert import_verdicts(path)[1].layout == "chatbot-arena"
    table, report = import_verdicts(path)
    assert table["category"].tolist() == ["German", "English"] and set(table["judge"]) == {"arena_user_973"}
    assert any("not anonymous" in line and line.endswith(": 1") for line in report.warnings)
    assert import_verdicts(path, anonymous_only=True)[1].left_out == {"not anonymous": 1}


def test_the_newer_names_of_fields(tmp_path: Path):
    row = battle(
        winner="both_bad",
        id="8c6e",
        evaluation_session_id="f1",
        evaluation_order=1,
        language="pl",
        is_code=False,
    )
    table, _ = import_verdicts(saved(tmp_path, row))
    assert table.iloc[0].tolist() == ["arena", "8c6e", "pl", 1, "x", "y", "tie"]
    table, _ = import_verdicts(saved(tmp_path, battle(question_id="q", judge_hash="ab")))
    assert table.iloc[0].tolist() == ["ab", "q", "all", 1, "x", "y", "a"]


def test_the_counts_are_those_of_a_loop(tmp_path: Path):
    rng, names = np.random.default_rng(20260324), ["Ärger, 7B", 'a "quoted" one', "NA", "z z"]
    rows, wins, ties = [], Counter(), Counter()
    for _ in range(300):
        a, b = rng.choice(names, 2, replace=False).tolist()
        winner = str(rng.choice(["model_a", "model_b", "tie", "tie (bothbad)"]))
        rows.append(battle(a, b, winner))
        wins[(a, b) if winner == "model_a" else (b, a)] += winner.startswith("model")
        ties[frozenset((a, b))] += winner.startswith("tie")
    for name in ("b.jsonl", "b.json", "b.csv", "b.parquet"):
        W, T, models = win_tie_counts_from_table(import_verdicts(saved(tmp_path, *rows, name=name))[0])
        assert sorted(models) == sorted(names)
        for (i, one), (j, other) in permutations(enumerate(models), 2):
            assert (W[i, j], T[i, j]) == (wins[one, other], ties[frozenset((one, other))])


# ---- all layouts


EXAMPLES = {
    "mt-bench": [fastchat(), fastchat(model_2="z", g2="model_2"), fastchat(82, g1="error")],
    "arena-hard": [hard_v1(), hard_v1("y", None, "A>>B"), hard_v1(question_id=7)],
    "alpaca-eval": [alpaca(), alpaca(1.7, "y"), alpaca(None, "z")],
    "chatbot-arena": [battle(), battle("y", "z", "tie"), battle("z", "x", "tie (bothbad)")],
}


@pytest.mark.parametrize("layout", EXAMPLES)
def test_a_layout_is_known_and_its_records_are_accounted_for(tmp_path: Path, layout):
    assert {*EXAMPLES, "inspect", "columns"} == set(LAYOUTS)  # whose records are not objects of a file
    path = saved(tmp_path, *EXAMPLES[layout])
    assert import_verdicts(path)[1].layout == layout
    table, report = import_verdicts(path)
    games = 2 if layout in ("mt-bench", "arena-hard") else 1
    assert report.layout == layout and report.n_records == 3
    assert report.n_verdicts + sum(report.left_out.values()) == 3 * games == sum(report.verdicts.values())
    forced, again = import_verdicts(path, layout)
    pd.testing.assert_frame_equal(table, forced)
    assert again == report


@pytest.mark.parametrize("layout", EXAMPLES)
@pytest.mark.parametrize("name", ["e.json", "e.jsonl.gz", "e.parquet"])
def test_the_form_of_the_file_does_not_matter(tmp_path: Path, layout, name):
    rows = [
        row | {"question_id": str(row["question_id"])} if "question_id" in row else row
        for row in EXAMPLES[layout]
    ]
    plain, _ = import_verdicts(saved(tmp_path, *rows))
    pd.testing.assert_frame_equal(import_verdicts(saved(tmp_path, *rows, name=name))[0], plain)


def turned(row):
    "The same record with the two models exchanged, and so the other verdict."
    swap = {"model_a": "model_b", "model_1": "model_2", "generator_1": "generator_2"}
    both = {key: value for pair in swap.items() for key, value in (pair, pair[::-1])}
    words = {key: both[value] for key, value in row.items() if key.endswith("winner")}
    other = {both.get(key, key): value for key, value in (row | words).items()}
    return other | ({"preference": 3 - row["preference"]} if "preference" in row else {})


@pytest.mark.parametrize("layout", EXAMPLES)
def test_a_repeated_vote_counts_once_whichever_way_round(tmp_path: Path, layout):
    row = EXAMPLES[layout][0]
    if layout == "chatbot-arena":
        row = row | {"question_id": 1}
    once, _ = import_verdicts(saved(tmp_path, row))
    table, report = import_verdicts(saved(tmp_path, row, turned(row), row))
    pd.testing.assert_frame_equal(table, once)
    assert report.left_out == {"repeated vote": 2 * len(once)}


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
        table, report = import_verdicts(saved(tmp_path, *drawn), "chatbot-arena")
        left = table.sort_values("question_id")[["question_id", "judge", "verdict"]]
        judge = "arena_user_973"
        assert left.values.tolist() == [[4, judge, "b"], [5, judge, "a"], [6, judge, "invalid"]]
        assert report.left_out == {"contradictory vote": 9, "repeated vote": 3}
        (said,) = [line for line in report.warnings if "contradict" in line]
        assert all(f"question {question}" in said for question in (1, 2, 3, 5)) and "9 votes" in said
    with pytest.raises(InputError, match="nothing to import.*2 contradictory vote"):
        import_verdicts(saved(tmp_path, *votes[:2]), "chatbot-arena")


def test_a_record_that_comes_twice_is_remarked_once(tmp_path: Path):
    "A run that was resumed repeats lines; what is said of a record is said of those that count."
    differ, strong = fastchat(g2="model_2"), hard_v1(first="A>>B")
    rounded, both_bad, named = alpaca(1.2), arena(winner="tie (bothbad)"), arena(anony=False)
    for row, said in (
        (differ, "judged differently"), (strong, "strong wins"), (strong, "name no baseline"),
        (rounded, "nearest whole number"), (both_bad, "both were called bad"), (named, "not anonymous"),
        (published(winner="tie (inconsistent)"), "changed with the order"),
        (fastchat() | {"m1_score": 5}, "two scores"),
    ):  # fmt: skip
        one, copy = saved(tmp_path, row, row), saved(tmp_path, row, name="copy.jsonl")
        (line,) = [line for line in import_verdicts([one, copy])[1].warnings if said in line]
        assert line.endswith(": 1"), line


def test_a_model_against_itself_is_left_out_and_counted(tmp_path: Path):
    assert import_verdicts(saved(tmp_path, battle(), battle("x", "x")))[1].left_out == {
        "model against itself": 1
    }
    assert import_verdicts(saved(tmp_path, hard_v1(), hard_v1("gpt-4-0314")))[1].left_out == {
        "model against itself": 2
    }
    with pytest.raises(InputError, match="nothing to import.*2 model against itself"):
        import_verdicts(saved(tmp_path, battle("x", "x"), battle("y", "y")))


def test_categories_come_from_the_questions(tmp_path: Path):
    questions = saved(
        tmp_path,
        {"question_id": 81, "category": "writing", "turns": []},
        {"question_id": 82, "category": "math"},
        name="q.jsonl",
    )
    table, _ = import_verdicts(saved(tmp_path, fastchat(), fastchat(82)), questions=questions)
    assert table["category"].tolist() == ["writing"] * 2 + ["math"] * 2
    with pytest.raises(InputError, match="q.jsonl has no question 83"):
        import_verdicts(saved(tmp_path, fastchat(83)), questions=questions)
    hard = saved(tmp_path, {"uid": "0c1d", "category": "coding"}, name="h.jsonl")
    assert set(import_verdicts(saved(tmp_path, hard_v2()), questions=hard)[0]["category"]) == {"coding"}


def test_complete_graphs_leave_no_warning(tmp_path: Path):
    rows = [fastchat(q, a, b) for q in (1, 2) for a, b in ("xy", "xz", "yz")]
    _, report = import_verdicts(saved(tmp_path, *rows))
    assert (report.n_graphs, report.n_complete, report.n_never_met, report.hub, report.warnings) == (
        4,
        4,
        0,
        None,
        (),
    )


def test_pairs_that_never_met_are_counted(tmp_path: Path):
    _, report = import_verdicts(saved(tmp_path, battle("u", "v"), battle("v", "w"), battle("w", "x")))
    assert (report.n_never_met, report.hub) == (
        3,
        None,
    ) and "3 of 6 pairs of models never met" in report.warnings[0]
    # A verdict that is invalid is no meeting.
    _, report = import_verdicts(saved(tmp_path, battle("u", "v"), battle("u", "w"), battle("v", "w", None)))
    assert (report.n_never_met, report.hub) == (1, "u")


# ---- bad files


BAD_RECORDS = [
    (battle(winner="left"), "unknown winner 'left': known are 'model_a', 'model_b', 'tie'"),
    (battle(winner=1), "unknown winner 1"),
    (battle(winner=["model_a"]), "unknown winner"),
    (battle(model_b=""), "model_b '' is no name"),
    (battle(model_a=None), "model_a None is no name"),
    (battle(model_a=7), "model_a 7 is no name"),
    ({"model_a": "x", "winner": "tie"}, "no model_b: model_a, model_b, winner are needed"),
]


@pytest.mark.parametrize(("row", "message"), BAD_RECORDS, ids=[message for _, message in BAD_RECORDS])
@pytest.mark.parametrize("name", ["b.jsonl", "b.json"])
def test_a_bad_record_is_named_by_its_line(tmp_path: Path, row, message, name):
    path = saved(tmp_path, battle(), row, name=name)
    with pytest.raises(InputError) as caught:
        import_verdicts(path)
    line = 2 if name == "b.jsonl" else path.read_text().split("\n").index("  {", 2) + 1
    assert str(caught.value).startswith(f"{name}, line {line}: {message}") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (fastchat(g1="A"), "unknown g1_winner 'A': known are 'model_1', 'model_2', 'tie', 'error'"),
        (fastchat(g2="model_a"), "unknown g2_winner"),
        (fastchat(judge=()), "judge [] is no name"),
        (fastchat(81.5), "question_id 81.5 is no identifier"),
        (fastchat(True), "question_id True is no identifier"),
        (published(winner="model_1"), "unknown winner 'model_1'"),
        (published(turn=None), "turn None is no identifier"),
        (hard_v1(first="A>C"), "unknown score 'A>C': known are 'A>>B'"),
        (hard_v1() | {"games": []}, "games []: two games are needed"),
        (hard_v1() | {"games": [{"score": "A>B"}]}, "two games are needed"),
        (hard_v1() | {"games": "A>B"}, "games 'A>B': two games are needed"),
        (hard_v1() | {"games": [{}, {}]}, "two games are needed"),
        ({k: v for k, v in hard_v2().items() if k != "baseline"}, "no baseline, which from version 2 on"),
        (alpaca(3), "preference 3: a number from 1 to 2"),
        (alpaca(0.5), "preference 0.5"),
        (alpaca("1st"), "preference '1st'"),
        (alpaca(True), "preference True"),
        (alpaca(float("inf")), "preference inf"),
        (alpaca(instruction=" \n"), r"instruction ' \n': it is text with something in it"),
        (alpaca(instruction=None), "instruction None: it is text"),
        (alpaca(instruction="\ud800"), "half of a surrogate pair"),
    ],
)
def test_bad_values_in_every_layout(tmp_path: Path, row, message):
    with pytest.raises(InputError) as caught:
        import_verdicts(saved(tmp_path, row))
    assert str(caught.value).startswith("some.jsonl, line 1: ") and message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"[]", "holds no record"),
        (b"model_a,model_b,winner\n", "holds no record"),
        (b'{"model_a": "x"', "line 1: .* is not JSON"),
        (b'{"a": 1} {"b": 2}', "line 1: .* is not JSON"),
        (b'{"a": 1, "a": 2}', "line 1: given twice: 'a'"),
        (b"[1, 2]", "line 1: .* is not a whole JSON object"),
        (b'[{"model_a": "x", "model_b": "y", "winner": "tie"}, {"model_a', "line 1: .* is the file cut off"),
        (b'[{"model_a": "x", "model_b": "y", "winner": "tie"}', "line 1: .* is the file cut off"),
        (b'[{"model_a": "x", "model_b": "y", "winner": "tie"},]', "line 1: .* is the file cut off"),
        (b'[{"model_a": "x", "model_b": "y", "winner": "tie"}] {}', "line 1: .* after an object"),
        (b"\xff\xfe\n", "not UTF-8"),
        (b"PAR1 and no more", "cannot parse"),
        (b"\x1f\x8b broken", "damaged gzip"),
        (b"model_a,model_b,winner\nx,y,tie\nx,y\n", "cannot parse .*Row #3"),
        (b"a;b\n1;2\n", "no known layout"),
        (b"[" * 100_000, "line 1"),
        (b'{"model_a": ' + b"[" * 100_000, "line 1"),
    ],
    ids=range(19),
)
def test_a_damaged_file_is_one_line(tmp_path: Path, content, message):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        import_verdicts(tmp_path / "bad")
    assert "bad" in str(caught.value) and "\n" not in str(caught.value)


def test_options_that_mean_nothing_are_refused(tmp_path: Path):
    for layout, rows in EXAMPLES.items():
        path = saved(tmp_path, *rows)
        for option, value in {
            "games": "agreed",
            "baseline": "z",
            "tie_width": 0.1,
            "anonymous_only": True,
        }.items():
            if option not in LAYOUTS[layout].options:
                with pytest.raises(InputError, match=f"{option} has no meaning in layout {layout}"):
                    import_verdicts(path, **{option: value})
    for options in (
        {"games": "all"},
        {"tie_width": -0.1},
        {"tie_width": 0.5},
        {"tie_width": float("nan")},
        {"baseline": " "},
    ):
        with pytest.raises(InputError, match="games|tie width|baseline"):
            import_verdicts(path, **options)


def test_files_that_do_not_belong_together(tmp_path: Path):
    one, other = saved(tmp_path, fastchat(), name="one.jsonl"), saved(tmp_path, battle(), name="other.jsonl")
    with pytest.raises(
        InputError, match=r"different layouts: one.jsonl \(mt-bench\), other.jsonl \(chatbot-arena\)"
    ):
        import_verdicts([one, other])
    with pytest.raises(InputError, match="one.jsonl named twice"):
        import_verdicts([one, tmp_path / "." / "one.jsonl"])
    with pytest.raises(InputError, match="no file to import"):
        import_verdicts([])
    with pytest.raises(InputError, match="unknown layout 'elo': known are mt-bench"):
        import_verdicts(one, "elo")
    with pytest.raises(InputError, match="its two games are one verdict already"):
        import_verdicts(saved(tmp_path, published()), games="agreed")
    with pytest.raises(InputError, match="'z', but some.jsonl names o3-mini"):
        import_verdicts(saved(tmp_path, hard_v2()), baseline="z")
    with pytest.raises(InputError, match="is a verdict table already"):
        import_verdicts(saved(tmp_path, dict.fromkeys(COLUMNS, "a"), name="table.csv"))
    with pytest.raises(InputError, match="two categories for question 1"):
        import_verdicts(saved(tmp_path, arena(1, language="de"), arena(1, model_a="z", language="en")))


# ---- any battles at all, in any form


texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
printable = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8)
names = printable.map(lambda name: unicodedata.normalize("NFC", name)).filter(is_name)
battles = st.lists(
    st.tuples(names, names, st.sampled_from(["model_a", "model_b", "tie", "tie (bothbad)", None])),
    min_size=1,
    max_size=12,
)


@given(battles)
@settings(max_examples=40, deadline=None)
def test_every_battle_comes_back_or_is_counted(tmp_path_factory, drawn):
    folder = tmp_path_factory.mktemp("battles")
    meaning = {"model_a": "a", "model_b": "b", "tie": "tie", "tie (bothbad)": "tie", None: "invalid"}
    expected = [(i, a, b, meaning[w]) for i, (a, b, w) in enumerate(drawn, start=1) if a != b]
    rows = [battle(*row) for row in drawn]
    for name in ("b.jsonl", "b.json", "b.parquet"):
        path = saved(folder, *rows, name=name)
        if not expected:
            with pytest.raises(InputError, match="nothing to import"):
                import_verdicts(path, "chatbot-arena")
            continue
        table, report = import_verdicts(path, "chatbot-arena")
        found = table[["question_id", "model_a", "model_b", "verdict"]].itertuples(index=False, name=None)
        assert list(found) == expected and report.n_records == len(drawn)


@given(texts)
@settings(max_examples=60, deadline=None)
def test_what_import_takes_for_a_name_rank_reads_and_the_rest_is_refused(tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("names")
    rows = [battle(name, "other model", "model_a"), battle("other model", name, "model_a")]
    if is_name(name) and name != "other model":
        table, _ = import_verdicts(saved(folder, *rows))
        for ending in ("csv", "parquet"):
            back = read_verdicts(write_verdicts(table, folder / f"t.{ending}"))
            models = back[["model_a", "model_b"]].astype(str)
            assert models.values.tolist() == [
                [name, "other model"],
                ["other model", name],
            ]
    else:
        with pytest.raises(InputError, match="one line"):
            import_verdicts(saved(folder, *rows))


# ---- logs


def inspect_sample(name, model_a, model_b, value, question="q", epoch=1):
    metadata = {"model_a": model_a, "model_b": model_b, "question_id": question}
    return {
        "id": name,
        "epoch": epoch,
        "input": "…",
        "metadata": metadata,
        "scores": {"pair": {"value": value}},
    }


@pytest.mark.parametrize("name", ["log.json", "log.json.gz", "log.eval"])
def test_a_log_of_inspect_is_read_as_counted_by_hand(ppe_main, tmp_path: Path, name):
    samples = [
        inspect_sample(1, "x", "y", "A"), inspect_sample(2, "y", "x", "A"),
        inspect_sample(3, "x", "z", "tie"),
        inspect_sample(4, "z", "y", None), inspect_sample(1, "x", "y", "B", epoch=2),
    ]  # fmt: skip
    header = {"version": 2, "status": "success", "eval": {"task": "pairs", "model": "openai/gpt-4o"}}
    if name.endswith(".eval"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for sample in reversed(samples):  # in the order in which they were finished
                archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
            archive.writestr("header.json", json.dumps(header))
    else:
        data = json.dumps(header | {"samples": samples}, indent=2).encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    done = ppe_main("import", name, "--out", "v.csv")
    assert done.code == 0 and "layout inspect" in done.err, done.err
    rows = [line.split(",") for line in (tmp_path / "v.csv").read_text().splitlines()[1:]]
    assert rows == [
        ["openai/gpt-4o", "q", "all", "1", "x", "y", "a"],
        ["openai/gpt-4o", "q", "all", "2", "y", "x", "a"],
        ["openai/gpt-4o", "q", "all", "1", "x", "z", "tie"],
        ["openai/gpt-4o", "q", "all", "1", "z", "y", "invalid"],
        ["openai/gpt-4o", "q", "all", "3", "x", "y", "b"],
    ]


def test_many_battles(tmp_path: Path):
    rng, n = np.random.default_rng(20260324), 100_000
    a = rng.integers(0, 40, n)
    b = (a + rng.integers(1, 40, n)) % 40
    label = np.array(["model_a", "model_b", "tie", "tie (bothbad)"])[rng.integers(0, 4, n)]
    frame = pd.DataFrame({"model_a": [f"m{i}" for i in a], "model_b": [f"m{i}" for i in b], "winner": label})
    frame.to_parquet(tmp_path / "many.parquet")
    frame.to_json(tmp_path / "many.jsonl", orient="records", lines=True)
    (one, report), (other, _) = (import_verdicts(tmp_path / name) for name in ("many.parquet", "many.jsonl"))
    pd.testing.assert_frame_equal(one, other)
    wins, ties, models = win_tie_counts_from_table(one)
    assert wins.sum() + ties.sum() / 2 == n == report.n_graphs and len(models) == 40
    assert ties.sum() / 2 == np.char.startswith(label.astype(str), "tie").sum()


# ---- the command


def test_import_then_rank(ppe_main, tmp_path: Path):
    saved(
        tmp_path,
        *(
            fastchat(q, a, b, g1, "tie")
            for q, g1 in ((1, "model_1"), (2, "model_2"))
            for a, b in ("xy", "yz", "xz")
        ),
    )
    run = ppe_main("import", "some.jsonl", "--out", "verdicts.csv")
    assert (run.code, run.new_files) == (0, ("verdicts.csv",))
    assert (
        "ppe: note: layout mt-bench, by the fields of the first record" in run.err
        and "records read  6" in run.out
    )
    written = read_verdicts("verdicts.csv")
    pd.testing.assert_frame_equal(written.astype(str), import_verdicts("some.jsonl")[0].astype(str))
    assert ppe_main("rank", "verdicts.csv").code == 0 and ppe_main("cycles", "verdicts.csv").code == 0


@pytest.mark.parametrize("out", ["v.csv", "v.csv.gz", "v.parquet"])
def test_a_table_of_every_kind_is_written(ppe_main, tmp_path: Path, out):
    saved(tmp_path, *EXAMPLES["alpaca-eval"])
    run = ppe_main(
        "import",
        "some.jsonl",
        "--layout",
        "alpaca-eval",
        "--tie-width",
        "0.3",
        "--judge",
        "me",
        "--out",
        out,
        "--format",
        "json",
    )
    report = run.json()
    assert "layout" not in run.err.split("ppe rank")[0]
    table = read_verdicts(tmp_path / out)
    assert table["verdict"].tolist() == ["a", "tie", "invalid"] and set(table["judge"]) == {"me"}
    assert report["n_verdicts"] == 3 and report["verdicts"] == {"a": 1, "b": 0, "tie": 1, "invalid": 1}
    assert f"`ppe rank {out}`" in run.err


def test_incomplete_graphs_are_said_and_ranked(ppe_main, tmp_path: Path):
    saved(tmp_path, *(battle(a, b, w) for a, b in ("xy", "yz", "zx") for w in ("model_a", "tie")))
    run = ppe_main("import", "some.jsonl", "--out", "v.csv")
    assert run.err.count("0 of 6 graphs are complete") == 1
    assert ppe_main("rank", "v.csv", "--incomplete", "drop").code == 2
    assert ppe_main("rank", "v.csv").code == ppe_main("rank", "v.csv", "--incomplete", "keep").code == 0


def test_a_file_is_not_overwritten_unless_forced(ppe_main, tmp_path: Path):
    saved(tmp_path, battle())
    (tmp_path / "v.csv").write_text("mine")
    run = ppe_main("import", "some.jsonl", "--out", "v.csv")
    assert (run.code, run.out, run.new_files) == (2, "", ()) and "--force" in run.err
    assert (tmp_path / "v.csv").read_text() == "mine"
    assert ppe_main("import", "some.jsonl", "--out", "v.csv", "--force").code == 0
    assert len(read_verdicts(tmp_path / "v.csv")) == 1


def test_no_command_writes_over_what_it_reads(ppe_main, tmp_path: Path):
    "Under the same name, another spelling, a link to it or from it, or as standard input; --force or not."
    (tmp_path / "v.csv").write_text(",".join(COLUMNS) + "\nme,1,all,0,x,y,a\nme,2,all,0,x,y,b\n")
    saved(tmp_path, battle(), name="b.csv")
    (tmp_path / "models.csv").write_text("model\nx\ny\n")
    (tmp_path / "q.csv").write_text("question_id,category\n1,math\n")
    for name in ("v", "b", "models", "q"):
        (tmp_path / f"{name}-hard.csv").hardlink_to(tmp_path / f"{name}.csv")
        (tmp_path / f"{name}-soft.csv").symlink_to(f"{name}.csv")
    chosen = ("--questions", "q.csv", "--models", "models.csv", "--calls", 1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for words, inputs in (
        (("counts", "v.csv"), "v"), (("counts", "v.c*"), "v"), (("counts", "v-soft.csv"), "v"),
        (("import", "b.csv"), "b"), (("import", "b.csv", "--questions", "q.csv"), "q"),
        (("next", "v.csv", *chosen), ("v", "models", "q")), (("design", *chosen), ("models", "q")),
    ):  # fmt: skip
        for name in inputs:
            here = tmp_path / f"{name}.csv"
            for out in (here.name, f"./{here.name}", here, f"{name}-hard.csv", f"{name}-soft.csv"):
                for force in ((), ("--force",)):
                    run = ppe_main(*words, "--out", out, *force)
                    assert (run.code, run.out, run.err.count("\n"), run.new_files) == (2, "", 1, ()), run
                    assert run.err.endswith(" is an input: it would be overwritten; name another file\n")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "words",
    [
        ("some.jsonl",),
        ("--out", "v.csv"),
        ("nowhere.jsonl", "--out", "v.csv"),
        ("some.jsonl", "--out", "v.txt"),
        ("some.jsonl", "--out", "no/v.csv"),
        ("some.jsonl", "--out", "v.csv", "--layout", "elo"),
        ("some.jsonl", "--out", "v.csv", "--games", "agreed"),
        ("some.jsonl", "--out", "v.csv", "--games", "all"),
        ("some.jsonl", "--out", "v.csv", "--layout", "mt-bench"),
        ("some.jsonl", "some.jsonl", "--out", "v.csv"),
        ("bad.jsonl", "--out", "v.csv"),
        (".", "--out", "v.csv"),
        ("some.jsonl", "--out", "v.csv", "--questions", "bad.jsonl"),
    ],
    ids=" ".join,
)
def test_an_error_is_one_line_and_writes_nothing(ppe_main, tmp_path: Path, words):
    saved(tmp_path, battle())
    (tmp_path / "bad.jsonl").write_text('{"model_a": "x", "model_b": "y", "winner": "X"}\n')
    run = ppe_main("import", *words)
    assert (run.code, run.out, run.err.count("\n"), run.new_files) == (2, "", 1, ())
    assert run.err.startswith("ppe: error: ")


def test_a_table_that_cannot_be_written_leaves_nothing(ppe_main, tmp_path: Path):
    saved(tmp_path, battle())
    (tmp_path / "v.csv").mkdir()
    run = ppe_main("import", "some.jsonl", "--out", "v.csv", "--force")
    assert (run.code, run.out, run.err.count("\n"), run.new_files) == (2, "", 1, ())

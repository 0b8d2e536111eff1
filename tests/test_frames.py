"Frames of any library and with any columns are the table that a file of them would be, or one line with the row."

import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import COLUMNS

import ppe
from ppe.door.inputs import verdict_table
from ppe.errors import InputError

ROWS = [("x", "y", "x", 1), ("y", "z", "z", 1), ("z", "x", "draw", 2), ("x", "z", "z", 3)]
SAID = pd.DataFrame(ROWS, columns=["left", "right", "said", "q"])
NAMES = {"model_a": "left", "model_b": "right", "winner": "said", "question_id": "q"}
WORDS = NAMES | {"tie": "draw"}
TABLE = pd.DataFrame(
    [("imported", q, "all", 1, a, b, v) for (a, b, _, q), v in zip(ROWS, ["a", "b", "tie", "b"], strict=True)],
    columns=COLUMNS,
)


def same(found: pd.DataFrame, expected: pd.DataFrame = TABLE) -> bool:
    return found.astype(str).equals(expected.astype(str))


CHUNKS = pa.concat_tables([pa.Table.from_pandas(SAID.iloc[:2]), pa.Table.from_pandas(SAID.iloc[2:])])
FRAMES = {
    **{kind: SAID.astype({"left": kind, "right": kind, "said": kind}) for kind in ("object", "string", "category")},
    "nullable numbers": SAID.astype({"q": "Int64"}),
    "categories that nobody has": SAID.assign(left=pd.Categorical(SAID["left"], categories=["w", "z", "y", "x"])),
    "an index of its own": SAID.set_index(pd.Index([7, 7, 3, 1])),
    "an index that is a column": SAID.set_index("q"),
    "an index named as a column": SAID.rename_axis("left"),
    "two columns of one name that nobody asked for": pd.concat([SAID, *[SAID["q"].rename("z")] * 2], axis=1),
    "cells that are anything, in another column": SAID.assign(more=[object(), [1], {2: 3}, np.arange(3)]),
    "Arrow": pa.Table.from_pandas(SAID),
    "Arrow, a batch": pa.RecordBatch.from_pandas(SAID),
    "Arrow, in pieces": CHUNKS,
    "Arrow, dictionaries": pa.table({name: pa.array(SAID[name]).dictionary_encode() for name in SAID}),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_the_kind_of_a_frame_does_not_matter(name):
    assert same(verdict_table(FRAMES[name], **WORDS))


def test_frames_of_polars():
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(pa.Table.from_pandas(SAID))
    names = polars.col("left", "right", "said")
    for kind in (polars.String, polars.Categorical, polars.Enum(["x", "y", "z", "draw"])):
        assert same(verdict_table(frame.with_columns(names.cast(kind)), **WORDS))
    assert same(verdict_table(polars.from_arrow(pa.Table.from_pandas(TABLE))))
    with pytest.raises(InputError, match="LazyFrame"):
        verdict_table(frame.lazy(), **WORDS)


@pytest.mark.parametrize(
    "values", [(1, 0, 2, 0), (1.0, 0.0, np.nan, 0.0), ("1", "0", "2", "0"), (True, False, None, 0)]
)
def test_words_are_numbers_and_truth_values_too(values):
    words = {"a": True, "b": (False, 0)} if values[0] is True else {"a": 1, "b": 0, "tie": [2]}
    found = verdict_table(SAID.assign(said=values), **NAMES, **words)["verdict"].tolist()
    assert found == ["a", "b", "invalid" if values[2] is None or values[2] != values[2] else "tie", "b"]


def test_labels_of_columns_need_not_be_text():
    numbers = SAID.set_axis(range(4), axis=1)
    assert same(verdict_table(numbers, model_a=0, model_b=1, winner=2, question_id=3, tie="draw"))
    levels = pd.concat({"mine": SAID}, axis=1)
    named = {key: ("mine", name) for key, name in NAMES.items()}
    assert same(verdict_table(levels, **named, tie="draw"))


@pytest.mark.parametrize("form", [lambda table: table, pa.Table.from_pandas, lambda table: table.astype("category")])
def test_a_verdict_table_is_taken_as_it_is(form):
    assert same(verdict_table(form(TABLE)))
    with pytest.raises(InputError, match="unknown verdict 'A' in row 2"):
        verdict_table(form(TABLE.assign(verdict=["a", "A", "b", "b"])))
    with_length = TABLE.assign(length_a=[1, 2, 3, 4], length_b=2.5)
    assert verdict_table(form(with_length), covariates=["length"])["length_a"].tolist() == [1, 2, 3, 4]


def test_what_is_missing_is_one_constant_and_what_is_there_counts():
    assert same(verdict_table(TABLE.drop(columns=["judge", "category", "variant"])))
    two = pd.concat([TABLE, TABLE.assign(judge="you")], ignore_index=True)
    assert set(verdict_table(two.drop(columns="variant"))["judge"]) == {"imported", "you"}
    named = two.rename(columns={"model_a": "left", "verdict": "said"}).drop(columns="variant")
    words = {"model_a": "left", "winner": "said", "a": "a", "b": "b", "tie": "tie"}
    assert set(verdict_table(named, **words)["judge"]) == {"imported", "you"}
    assert set(verdict_table(named, **words, judge="you")["judge"]) == {"you"}


def test_a_column_for_each_outcome():
    hot = SAID.drop(columns="said").assign(a=[1, 0, 0, 0], b=[0, 1, 0, 1], t=[0, 0, 1, 0], winner="of something else")
    names = {"model_a": "left", "model_b": "right", "question_id": "q", "winner_a": "a", "winner_b": "b"}
    for kind in (int, bool, float, str):
        assert same(verdict_table(hot.astype({"a": kind, "b": kind, "t": kind}), **names, winner_tie="t"))
    with pytest.raises(InputError, match="row 3: 0 of a, b set"):
        verdict_table(hot, **names)


def test_what_is_left_out_or_taken_apart_is_said():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verdict_table(SAID, **WORDS)
    with pytest.warns(UserWarning, match="without a question .*: 4"):
        verdict_table(SAID.drop(columns="q"), **{key: name for key, name in WORDS.items() if name != "q"})
    twice = pd.concat([SAID, SAID.iloc[:1].assign(said="y")]).assign(variant=1)
    with pytest.warns(UserWarning, match="left out: 2 contradictory vote"):
        verdict_table(twice, **WORDS)


REFUSED = {  # what is wrong, and the words of the message
    "a name that is missing": (SAID.assign(left=["x", np.nan, "z", "x"]), WORDS, "row 2: left None is no name"),
    "a name with a space": (SAID.assign(right=["y", "z", "x ", "z"]), WORDS, "row 3: right 'x '"),
    "a word that is not explained": (SAID, NAMES, "row 3: unknown said 'draw'"),
    "a question that is missing": (SAID.assign(q=pd.array([1, 1, None, 3], "Int64")), WORDS, "row 3: q None"),
    "questions with a point": (SAID.assign(q=[1.5, 1, 2, 3]), WORDS, "q 1.5 is no identifier"),
    "questions that are true or false": (SAID.assign(q=[True, False, True, True]), WORDS, "q True"),
    "bytes": (SAID.assign(left=[b"x"] * 4), WORDS, "b'x' is no name"),
    "lists": (SAID.assign(left=[["x"]] * 4), WORDS, "is no name"),
    "a column that is not there": (SAID, WORDS | {"winner": "won"}, "no won"),
    "a column twice": (pd.concat([SAID, SAID[["left"]]], axis=1), WORDS, "left more than once"),
    "no row": (SAID.iloc[:0], WORDS, "no record"),
    "nothing": (pd.DataFrame(), {}, "no known layout"),
    "no name of a column": (SAID, {}, "model_a=…"),
    "a meaning that is none": (SAID, {"moddel_a": "left"}, "moddel_a="),
    "a series": (SAID["left"], WORDS, "Series"),
    "a dict": (SAID.to_dict("list"), WORDS, "of type dict"),
    "records": (SAID.to_dict("records"), WORDS, "list of dict"),
    "an array": (SAID.to_numpy(), WORDS, "ndarray"),
    "None": (None, {}, "NoneType"),
    "no files": ([], {}, "at least one"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_odd_frame_is_one_line_that_names_the_row(name):
    frame, columns, said = REFUSED[name]
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        verdict_table(frame, **columns)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"judges": "apart"}, {"select": "best", "keep": 3}, {"interval_kind": "any"}])
def test_a_word_that_no_option_takes_is_refused_as_on_the_command_line(options):
    with pytest.raises(ppe.PpeError, match="choose one of"):
        ppe.rank(ppe.load("mt-bench-gpt4"), **options)

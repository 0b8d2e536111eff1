"Frames of any library and with any columns are the table that a file of them would be, or one line with the row."

import inspect
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import COLUMNS

import ppe
from ppe.api.inputs import verdict_table
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
    "a name that is missing": (SAID.assign(left=["x", np.nan, "z", "x"]), WORDS, "row 2: left None is not a name"),
    "a name with a space": (SAID.assign(right=["y", "z", "x ", "z"]), WORDS, "row 3: right 'x '"),
    "a word that is not explained": (SAID, NAMES, "row 3: unknown said 'draw'"),
    "a question that is missing": (SAID.assign(q=pd.array([1, 1, None, 3], "Int64")), WORDS, "row 3: q None"),
    "questions with a point": (SAID.assign(q=[1.5, 1, 2, 3]), WORDS, "q 1.5 is not an identifier"),
    "questions that are true or false": (SAID.assign(q=[True, False, True, True]), WORDS, "q True"),
    "bytes": (SAID.assign(left=[b"x"] * 4), WORDS, "b'x' is not a name"),
    "lists": (SAID.assign(left=[["x"]] * 4), WORDS, "is not a name"),
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


# ---- columns= and --columns, everywhere where a table is read

OTHER = {
    "judge": "grader", "question_id": "prompt_id", "category": "topic", "variant": "wording", "model_a": "left",
    "model_b": "right", "winner": "said", "a": "L", "b": "R", "tie": "T", "invalid": "X",
}  # fmt: skip
WRITTEN = ",".join(f"{key}={name}" for key, name in OTHER.items())
FEW = ["gpt-4", "claude-v1", "gpt-3.5-turbo"]


def mine() -> pd.DataFrame:
    "Twelve questions of a public set, three models, one judge more who says the opposite of the first."
    table = ppe.load("mt-bench-gpt4")[list(COLUMNS)].astype(object)
    few = table[table["model_a"].isin(FEW) & table["model_b"].isin(FEW) & (table["question_id"] < 93)]
    few = few.assign(category=np.where(few["question_id"] < 87, "one", "two"))
    return pd.concat([few, few.assign(judge="other", verdict=few["verdict"].map({"a": "tie", "b": "b"}).fillna("a"))])


def renamed(table: pd.DataFrame) -> pd.DataFrame:
    words = {"a": "L", "b": "R", "tie": "T", "invalid": "X"}
    return table.assign(verdict=table["verdict"].map(words)).rename(columns=OTHER | {"verdict": "said"})


def answers(v, people, **names):
    "What every function of the door says of a table."
    cells = pd.DataFrame({"question_id": [*range(81, 94)] * 2, "variant": [1] * 13 + [2] * 13})
    one = {"judge": "gpt-4", **names}
    return {
        "rank": lambda: ppe.rank(v, intervals=0, **one), "check": lambda: ppe.check(v, category="one", **one),
        "cycles": lambda: ppe.cycles(v, **one), "diagnose": lambda: ppe.diagnose(v, **one),
        "show": lambda: ppe.show(v, models=FEW[:2], **one), "graph": lambda: ppe.graph(v, 81, variant=1, **one),
        "compare": lambda: ppe.compare(v, model=FEW[:2], **one), "report": lambda: ppe.report(v, intervals=0, **one),
        "agree": lambda: ppe.agree(v, people=people, **names),
        "people": lambda: ppe.rank(v, people=people, intervals=0, match="question", **one),
        "next": lambda: ppe.next_calls(v, questions=cells, calls=3, **one),
        "read": lambda: ppe.read(v, **one),
        "design": lambda: ppe.design(models=v, questions=v, calls=9, **names),
        "plan": lambda: ppe.plan(models=3, questions=20, calls=60, pilot=v, **one),
    }  # fmt: skip


def told(result):
    return result.astype(str).to_dict("records") if isinstance(result, pd.DataFrame) else result.to_dict()


@pytest.mark.parametrize("name", answers(None, None))
def test_columns_are_named_in_every_function_of_the_door(name, tmp_path):
    table = mine()
    people = table[table["judge"] == "other"].assign(judge="p1")
    wanted = told(answers(table, people)[name]())
    other, others = renamed(table), renamed(people)
    forms = [{"columns": WRITTEN}, {"columns": OTHER}, {"columns": WRITTEN, "model_a": None}]
    for columns in forms if name == "read" else forms[:1]:  # which are made one in one place
        assert told(answers(other, others, **columns)[name]()) == wanted
    some = {key: word for key, word in OTHER.items() if key in ("judge", "category", "variant")}
    if name != "graph":  # there variant= chooses
        short = {key: word for key, word in OTHER.items() if key not in some}
        assert told(answers(other, others, columns=some, **short)[name]()) == wanted
    with pytest.raises(InputError, match="question_idd= is neither an option.*question_id= is the nearest name"):
        answers(other, others, columns=some, question_idd="prompt_id")[name]()
    with pytest.raises(InputError, match="model_a= and columns= with model_a"):
        answers(other, others, columns=OTHER, model_a="left")[name]()
    if name not in ("agree", "compare", "design"):  # which need --people, --model, and no judge
        with pytest.raises(InputError, match="judge='grader' .*chooses a judge.*columns={'judge': 'grader'}"):
            answers(other, others, **{"columns": OTHER, "judge": "grader"})[name]()
    path = tmp_path / "other.csv"
    other.to_csv(path, index=False)
    if name not in ("agree", "people", "report"):  # a report names its file
        assert told(answers(str(path), others, columns=OTHER)[name]()) == wanted


COMMANDS = {  # words after the command; P: the people's file
    "rank": ["v", "--judge", "gpt-4", "--intervals", "0", "--format", "json"],
    "check": ["v", "--judge", "gpt-4", "--category", "two", "--format", "json"],
    "cycles": ["v", "--format", "json"],
    "diagnose": ["v", "--judge", "gpt-4", "--format", "json"],
    "show": ["v", "--models", "gpt-4,claude-v1", "--format", "json"],
    "compare": ["v", "--judge", "gpt-4", "--model", "gpt-4", "--model", "claude-v1", "--format", "json"],
    "agree": ["v", "--people", "p", "--format", "json"],
    "report": ["v", "--judge", "gpt-4", "--intervals", "0", "--out", "{out}.html"],
    "counts": ["v", "--judge", "gpt-4", "--out", "{out}.csv"],
    "import": ["v", "--judge", "gpt-4", "--category", "two", "--out", "{out}.csv"],
    "next": ["v", "--judge", "gpt-4", "--questions", "q.csv", "--calls", "3", "--out", "{out}.csv"],
    "design": ["--models", "v", "--questions", "v", "--calls", "9", "--out", "{out}.csv"],
    "plan": ["--models", "3", "--questions", "20", "--calls", "60", "--pilot", "v", "--judge", "gpt-4"],
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_columns_are_named_on_every_command_that_reads_a_table(name, ppe_main, tmp_path):
    table = mine()
    cells = pd.DataFrame({"question_id": [*range(81, 94)] * 2, "variant": [1] * 13 + [2] * 13})
    cells.to_csv("q.csv", index=False)
    people = table[table["judge"] == "other"].assign(judge="p1")
    for file, rows in (("v", table), ("p", people)):
        rows.to_csv(f"own_{file}.csv", index=False)
        renamed(rows).to_csv(f"other_{file}.csv", index=False)
        renamed(rows).astype(str).to_parquet(f"parquet_{file}.parquet", index=False)
        renamed(rows).to_json(f"lines_{file}.jsonl", orient="records", lines=True)
    said = {}
    kinds = [("own", "csv"), ("other", "csv"), ("parquet", "parquet"), ("lines", "jsonl")]
    for kind, end in kinds if name == "import" else kinds[:2]:
        words = [f"{kind}_{w}.{end}" if w in "vp" else w.format(out=kind) for w in COMMANDS[name]]
        words += ["--columns", WRITTEN] if kind != "own" else ["--columns", "judge=judge"] * (name == "import")
        done = ppe_main(name, *words)
        assert done.code == 0 and all(line.startswith("ppe: ") for line in done.err.splitlines()), done
        written = [path.read_bytes() for path in sorted(tmp_path.glob(f"{kind}.*")) if path.suffix == ".csv"]
        said[kind] = (done.out if name != "report" else "", written)
    assert all(one == said["own"] for one in said.values())


@pytest.mark.parametrize("name", ["agree", "people", "diagnose", "compare", "report"])
def test_the_table_that_lacks_a_named_column_is_said(name):
    table = mine()
    own, other = table[table["judge"] == "other"].assign(judge="p1"), renamed(table)
    calls = answers(other, own, columns=OTHER) | {
        "diagnose": lambda: ppe.diagnose(other, people=own, columns=OTHER),
        "compare": lambda: ppe.compare(other, own, columns=OTHER),
        "report": lambda: ppe.report(other, own, columns=OTHER),
    }
    which = "new" if name in ("compare", "report") else "people"
    with pytest.raises(InputError, match=f"the table of {which} has no column grader, prompt_id.*--columns .*both"):
        calls[name]()


@pytest.mark.parametrize("kind", ["frame", "csv", "jsonl"])
@pytest.mark.parametrize("games", [1, 2])
def test_covariates_stand_beside_named_columns(kind, games, tmp_path):
    rng = np.random.default_rng(1)
    table = mine().assign(length_a=0, length_b=0)
    table[["length_a", "length_b"]] = rng.integers(9, 300, (len(table), 2))
    table = table[table["judge"] == "gpt-4"].assign(variant=1).drop_duplicates(["question_id", "model_a", "model_b"])
    turned = {"model_a": "model_b", "model_b": "model_a", "length_a": "length_b", "length_b": "length_a"}
    second = table["verdict"].sample(frac=1, random_state=1).to_numpy()
    exchanged = table.assign(verdict=second, variant=2).rename(columns=turned)
    wanted = ppe.rank(pd.concat([table, exchanged][:games]), covariates="length", intervals=0).to_frame()
    other = renamed(table).drop(columns="wording").rename(columns={"length_a": "chars_l", "length_b": "chars_r"})
    other["said_2"] = pd.Series(second, other.index).map({"a": "L", "b": "R", "tie": "T", "invalid": "X"})
    names = {key: name for key, name in OTHER.items() if key != "variant"}
    names |= {"length_a": "chars_l", "length_b": "chars_r"}
    names |= {"winner_2": "said_2", "second": "places"} if games == 2 else {}
    source = other if kind == "frame" else str(tmp_path / f"other.{kind}")
    if kind == "csv":
        other.to_csv(source, index=False)
    elif kind == "jsonl":
        other.to_json(source, orient="records", lines=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ranked = ppe.rank(source, covariates="length", intervals=0, columns=names).to_frame()
    pd.testing.assert_frame_equal(ranked, wanted)
    assert not [str(remark.message) for remark in caught if "length" in str(remark.message)]  # no remark of its own
    with pytest.raises(InputError, match="lengths_a=chars_l is none of"):
        ppe.rank(source, covariates="length", columns=names | {"lengths_a": "chars_l"})


def test_unmapped_columns_are_said_by_name(ppe_main, tmp_path):
    frame = SAID.assign(grader=["i", "j", "i", "j"], prompt="?")
    with pytest.warns(UserWarning, match="columns that are not used: grader, prompt"):
        ppe.read(frame, **WORDS)
    frame.to_csv("s.csv", index=False)
    names = ",".join(f"{key}={name}" for key, name in WORDS.items())
    done = ppe_main("import", "s.csv", "--out", "v.csv", "--columns", names)
    assert done.code == 0 and "ppe: note: columns that are not used: grader, prompt" in done.err


def test_judge_chooses_and_columns_names():
    frame = SAID.assign(grader=["i", "j", "i", "j"], topic="t")
    for call in (ppe.read, ppe.rank, ppe.check):
        with pytest.raises(InputError, match="judge='grader' .*columns={'judge': 'grader'} .--columns judge=grader"):
            call(frame, judge="grader", **WORDS)
        with pytest.raises(InputError, match="category='topic' .*columns={'category': 'topic'}"):
            call(frame, category="topic", **WORDS)
    both = ppe.read(frame, columns={"judge": "grader", "category": "topic"}, **WORDS)
    assert set(both["judge"]) == {"i", "j"} and set(both["category"]) == {"t"} and set(both["variant"]) == {1}
    one = ppe.read(frame, columns={"judge": "grader"}, judge="i", **WORDS)
    assert one["judge"].tolist() == ["i", "i"] and one["verdict"].tolist() == ["a", "tie"]
    with pytest.raises(InputError, match="no judge 'k': 2 judged"):
        ppe.read(frame, columns={"judge": "grader"}, judge="k", **WORDS)
    assert set(ppe.read(frame, judge="me", **WORDS)["judge"]) == {"me"}


def test_a_file_needs_neither_judge_nor_category_nor_wording(tmp_path, ppe_main):
    "As its frame does not; an unknown word is an error there, too."
    rows = [(q, "x", "y", "aab"[q % 3]) for q in range(9)]
    frame, path = pd.DataFrame(rows, columns=["question_id", "model_a", "model_b", "verdict"]), tmp_path / "v.csv"
    frame.to_csv(path, index=False)
    (tmp_path / "v.jsonl").write_text(
        "".join(f"{line}\n" for line in frame.to_json(orient="records", lines=True).split())
    )
    wanted = ppe.rank(frame).to_frame()
    for name in ("v.csv", "v.jsonl"):
        assert ppe.rank(str(tmp_path / name)).to_frame().equals(wanted)
        assert f">{name}, SHA-256" in ppe.report(str(tmp_path / name)).html
    assert ppe_main("rank", path, "--format", "json").json()["n_verdicts"] == 9
    assert ppe_main("import", path, "--out", "made.csv", "--judge", "me").code == 0
    assert set(ppe.read("made.csv")["judge"]) == {"me"} and len(ppe.read(str(path), judge="me")) == 9
    frame.assign(verdict="zz").to_csv(path, index=False)
    done = ppe_main("rank", path)
    assert done.code == 2 and "unknown verdict 'zz'" in done.err


# ---- a pool of graphs


def test_pool_options():
    "An option of a pool is heeded, or refused by name; a selection is that of the table (the case pool_options)."
    table = ppe.load("mt-bench-gpt4")
    pool = ppe.comparison_graphs(table)
    for options in ({"select": "global", "keep": 25}, {"select": "block", "keep": 1, "mu": 0.0, "ranker": "copeland"}):
        wanted = ppe.rank(table, intervals=0, **options).to_frame().set_index("model")["score"]
        found = ppe.rank(pool, **options).to_frame().set_index("model")["score"]
        assert found.to_dict() == pytest.approx(wanted.to_dict())
    kept = ppe.rank(pool, select="global", keep=25).to_frame()
    assert kept["score"].round(4).tolist()[:2] == [2.4613, 2.3245]
    taken = {"ranker": "davidson", "on_separation": "ridge", "intervals": 0, "level": 0.95}
    assert ppe.rank(pool, **taken).ranking.ranker == "davidson"
    refused = {
        "judge": "nobody", "category": "nothing", "by": "category", "incomplete": "drop", "covariates": "length",
        "coefficients": {"length": 1}, "order_effect": True, "judges": "separate", "mu": 2.0, "reference": {"x": 1},
        "intervals": 100, "level": 0.9, "interval_kind": "single", "over": "judges", "seed": 1, "people": table,
        "match": "question", "columns": {"judge": "x"}, "fragility": True, "costs": {"x": 1.0}, "within": 0.1,
    }  # fmt: skip
    for name, value in refused.items():
        with pytest.raises(InputError, match=f"a pool of graphs takes no --{name.replace('_', '-')}"):
            ppe.rank(pool, **{name: value})
    others = {"verdicts", "names", "select", "keep", *taken, *refused}
    assert others == {*inspect.signature(ppe.rank).parameters}, "every option is heeded or refused here"
    for wrong, said in (
        ({"intervall": 3}, "intervals= is the nearest name"),
        ({"level": 5}, "--level"),
        ({"keep": 3}, "takes no"),
    ):
        with pytest.raises(InputError, match=said):
            ppe.rank(pool, **wrong)
    lacking = ppe.comparison_graphs(mine().iloc[1:], incomplete="keep")
    with pytest.raises(InputError, match="lack a pair"):
        ppe.rank(lacking, select="global", keep=3)


# ---- frames as pandas leaves them


def test_unused_category(ppe_main, tmp_path):
    "A category that no row has any more is as if it had been removed."
    table = ppe.load("mt-bench-gpt4")[list(COLUMNS)]
    raw = table.assign(verdict=table["verdict"].cat.add_categories(["error"]))
    raw.loc[:4, "verdict"] = "error"
    left = raw[raw["verdict"] != "error"]
    removed = left.assign(verdict=left["verdict"].cat.remove_unused_categories())
    for call in (
        ppe.check, ppe.cycles, ppe.diagnose, ppe.show, lambda v: ppe.rank(v, intervals=0),
        lambda v: ppe.compare(v, model=["gpt-4", "claude-v1"]), lambda v: ppe.graph(v, 90, variant=1),
    ):  # fmt: skip
        assert call(left).to_dict() == call(removed).to_dict()
    first = ppe.rank(left, intervals=0).to_frame().iloc[0]
    assert (first["model"], round(first["score"], 4)) == ("gpt-4", 1.8091)
    left.to_parquet("unused.parquet", index=False)
    row = ppe_main("rank", "unused.parquet", "--intervals", 0, "--format", "json").json()["models"][0]
    assert (row["model"], round(row["score"], 4)) == ("gpt-4", 1.8091)


def test_mixed_ids():
    "81 and 81.0 are one question, 0 and 0.0 one model."
    table = ppe.load("mt-bench-gpt4")[list(COLUMNS)].astype(str).astype({"question_id": int})
    again = table.iloc[:1200].assign(question_id=table["question_id"].iloc[:1200].astype(float))
    with pytest.raises(InputError, match=r"the same pair twice in one graph in rows 2401, .*1200 in all"):
        ppe.check(pd.concat([table.astype(object), again.astype(object)], ignore_index=True))
    numbers = pd.factorize(pd.concat([table["model_a"], table["model_b"]]))[0]
    mixed = table.assign(model_a=numbers[: len(table)], model_b=numbers[len(table) :].astype(float))
    assert sorted(ppe.rank(mixed, intervals=0).to_frame()["model"]) == [*"012345"]


def floats(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(question_id=table["question_id"].astype(float), variant=table["variant"].astype(float))


def test_tables_with_integers_and_with_floats_meet():
    "In compare, agree, people, several files, a list of pairs, references."
    table = mine()
    people = table[table["judge"] == "other"].assign(judge="p1")
    judge = table[table["judge"] == "gpt-4"]
    for call in (
        lambda v, p: ppe.agree(v, people=p), lambda v, p: ppe.diagnose(v, people=p, match="question"),
        lambda v, p: ppe.rank(v, people=p, intervals=0, match="question"),
    ):  # fmt: skip
        assert call(judge, floats(people)).to_dict() == call(judge, people).to_dict()
    new = judge.replace({"gpt-3.5-turbo": "gpt-3.5-new"})
    wanted = ppe.compare(judge, new).to_dict()
    for other in (
        floats(new),
        floats(new).astype(str),
        floats(new).astype(object),
        new.astype({"question_id": "Int64"}),
    ):
        assert ppe.compare(judge, other).to_dict() == wanted
    numbered = judge.replace({"gpt-4": "1", "claude-v1": "2", "gpt-3.5-turbo": "3"})
    ratings = pd.Series([3, 2, 1], index=[1.0, 2.0, 3.0])
    assert ppe.rank(numbered, reference=ratings, intervals=0).to_dict()["distances"]["spearman"] == 0

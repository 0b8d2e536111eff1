"""What must stay true of any table: relabelling, swapping, reversal, duplication, one more win, garbage."""

import gzip
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from conftest import COLUMNS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ppe.errors import InputError
from ppe.inference.intervals import INTERVAL_KINDS
from ppe.inference.leaderboard import leaderboard
from ppe.pool import comparison_graphs, win_tie_counts_from_table
from ppe.rankers.bradley_terry import bradley_terry
from ppe.rankers.order_effect import ORDER_FORMS
from ppe.rankers.registry import COUNT_RANKERS, RANKERS
from ppe.verdicts import read_verdicts, validate_verdicts

ANY_METHOD = pytest.mark.parametrize("method", COUNT_RANKERS)


def examples(count):
    "The same examples on every run and every machine."
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


# ---- strategies


@st.composite
def counts(draw):
    "Wins and ties of a few models; everyone has beaten the next one round a circle, so that there is a maximum."
    n = draw(st.integers(2, 6))
    entries = st.lists(st.integers(0, 6), min_size=n * n, max_size=n * n)
    wins, ties = (np.array(draw(entries)).reshape(n, n) for _ in range(2))
    np.fill_diagonal(wins, 0)
    ties = np.triu(ties, 1) + np.triu(ties, 1).T
    wins[np.arange(n), (np.arange(n) + 1) % n] += 1
    return wins, ties


@st.composite
def tables(draw, *, min_models=2, max_models=5):
    "Complete verdict tables of a few graphs, each pair shown in either order."
    names, rows = [f"model {k}" for k in range(draw(st.integers(min_models, max_models)))], []
    for judge, question, variant in draw(
        st.lists(
            st.tuples(st.sampled_from("jk"), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=6, unique=True
        )
    ):
        for pair in combinations(names, 2):
            a, b = pair if draw(st.booleans()) else pair[::-1]
            rows.append((judge, question, "cat", variant, a, b, draw(st.sampled_from(["a", "b", "tie"]))))
    return pd.DataFrame(rows, columns=COLUMNS)


def same_scores(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=1e-6)


# ---- rankings


@ANY_METHOD
@examples(25)
@given(counts(), st.data())
def test_labels_copies_and_direction_do_what_they_must(method, pair, data):
    fit, (wins, ties) = RANKERS[method].fit, pair
    order = np.array(data.draw(st.permutations(range(len(wins)))))
    first = fit(wins, ties)
    again = fit(wins[np.ix_(order, order)], ties[np.ix_(order, order)])
    same_scores(again.scores, first.scores[order])
    assert (again.ranks == first.ranks[order]).all(), "the order of the models does not matter, ties included"
    same_scores(fit(3 * wins, 3 * ties).scores, first.scores)
    if method not in ("rank-centrality", "denoise"):
        same_scores(fit(wins.T, ties).scores, -first.scores)


CIRCLE = [(0, 1, "a"), (1, 2, "a"), (2, 0, "a")]
TWO_CIRCLES = CIRCLE + [(3, 4, "a"), (4, 5, "a"), (5, 3, "a")]
PAIRS = list(combinations(range(6), 2))
SYMMETRIC = {  # verdicts of every question, and the rank and the range of every model
    "rock, paper, scissors": (CIRCLE, [(2, 1, 3)] * 3),
    "all ties": ([(i, j, "tie") for i, j in PAIRS], [(3.5, 1, 6)] * 6),
    "one circle above another": (
        TWO_CIRCLES + [(i, j, "a") for i, j in PAIRS if i < 3 <= j], [(2, 1, 3)] * 3 + [(5, 4, 6)] * 3,
    ),
    "two circles that never met": (TWO_CIRCLES, [(3.5, 1, 6)] * 6),
    "five round a circle": ([(i, (i + d) % 5, "a") for i in range(5) for d in (1, 2)], [(3, 1, 5)] * 5),
}  # fmt: skip


@pytest.mark.parametrize(
    ("ranker", "verdicts"),
    [(r, v) for r in COUNT_RANKERS for v in SYMMETRIC],
)
def test_models_that_only_their_names_tell_apart_share_ranks_and_ranges(ranker, verdicts):
    (rows, expected), rng = SYMMETRIC[verdicts], np.random.default_rng(0)
    names = rng.permutation([f"model {k}" for k in range(len(expected))])
    table = [("j", q, "cat", 0, names[i], names[j], said) for q in range(12) for i, j, said in rows]
    frame = pd.DataFrame([table[k] for k in rng.permutation(len(table))], columns=COLUMNS)
    board = leaderboard(validate_verdicts(frame), ranker=ranker, on_separation="ridge", incomplete="keep")
    for kind in INTERVAL_KINDS if ranker in ORDER_FORMS else ["percentile"]:
        limits = board.with_intervals(n_resamples=39, kind=kind).table().set_index("model")
        ranges = limits.loc[names, ["rank", "rank_low", "rank_high"]]
        assert [tuple(row) for row in ranges.to_numpy()] == expected, kind


@examples(25)
@given(counts(), st.data())
def test_an_extra_win_never_lowers_a_bradley_terry_score(pair, data):
    wins, ties = pair
    winner, loser = data.draw(st.permutations(range(len(wins))))[:2]
    more = wins.copy()
    more[winner, loser] += 1
    gain = bradley_terry(more, ties).scores - bradley_terry(wins, ties).scores
    assert gain[winner] >= -1e-9
    assert gain[winner] >= gain.max() - 1e-9, "nobody gains more than the winner"
    assert gain[loser] <= gain.min() + 1e-9, "nobody loses more than the loser"


# ---- tables, graphs and cycles


@examples(15)
@given(tables(max_models=4), st.data())
def test_neither_positions_nor_the_order_of_rows_within_a_graph_matter(frame, data):
    swapped = frame.rename(columns={"model_a": "model_b", "model_b": "model_a"})[list(COLUMNS)]
    swapped["verdict"] = swapped["verdict"].replace({"a": "b", "b": "a"})
    groups = [group for _, group in frame.groupby(["judge", "question_id", "variant"], sort=False)]
    shuffled = pd.concat(group.iloc[data.draw(st.permutations(range(len(group))))] for group in groups)
    one, *others = (validate_verdicts(table) for table in (frame, swapped, shuffled))
    graphs = comparison_graphs(one)
    for other in others:
        again = comparison_graphs(other)
        assert again.models == graphs.models and again.index.equals(graphs.index)
        assert (again.adjacency == graphs.adjacency).all()
        assert all(map(np.array_equal, win_tie_counts_from_table(other), win_tie_counts_from_table(one)))


# ---- files and garbage


CELLS = st.one_of(
    st.sampled_from(["a", "b", "tie", "invalid", "x", "y", "", " a", "A", "nan", "0", "-1", "01", "1.0", "1e3"]),
    st.just("9" * 25), st.text(max_size=4), st.integers(), st.floats(), st.booleans(), st.none(), st.binary(max_size=3),
    st.just(pd.NA), st.just(pd.Timestamp("2026-03-24")), st.lists(st.integers(), max_size=2),
)  # fmt: skip
COLUMN_NAMES = st.one_of(st.sampled_from(COLUMNS), st.text(max_size=6), st.integers())


@st.composite
def garbage(draw):
    "A frame with anything in it, often close to a verdict table."
    n = draw(st.integers(0, 4))
    near = draw(st.booleans())
    names = list(COLUMNS) if near else draw(st.lists(COLUMN_NAMES, max_size=9))
    columns = []
    for name in names:
        usual = {"verdict": st.sampled_from(["a", "tie", "b", "invalid"])}.get(name, st.sampled_from("wxyz"))
        spoilt = draw(st.booleans()) if near else True
        columns.append(draw(st.lists(st.one_of(CELLS, usual) if spoilt else usual, min_size=n, max_size=n)))
    frame = pd.DataFrame({k: pd.Series(values, dtype=object) for k, values in enumerate(columns)})
    frame.columns = names
    return frame.convert_dtypes() if frame.columns.is_unique and draw(st.booleans()) else frame


def accepted(table):
    "A table that passed the checks obeys them."
    assert list(table.columns) == list(COLUMNS) and len(table)
    assert not table.isna().any(axis=None)
    assert set(table["verdict"]) <= {"a", "b", "tie", "invalid"}
    assert (table["model_a"].astype(str) != table["model_b"].astype(str)).all()
    for column in ("question_id", "variant"):
        assert table[column].dtype == np.int64 or all(isinstance(value, str) for value in table[column])
    pairs = [
        (judge, question, variant, *sorted((a, b)))
        for judge, question, _, variant, a, b, _ in table.itertuples(index=False)
    ]
    assert len(set(pairs)) == len(pairs)


def read_or_refused(path):
    "A file is read as a table that obeys the checks, or refused in one line that names it."
    try:
        table = read_verdicts(path)
    except InputError as error:
        assert len(str(error).splitlines()) == 1 and path.name in str(error)
    else:
        accepted(table)


@examples(60)
@given(garbage())
def test_garbage_frames_are_refused_in_one_line(frame):
    try:
        table = validate_verdicts(frame)
    except InputError as error:
        assert len(str(error).splitlines()) == 1 and str(error)
    else:
        accepted(table)


TOKENS = st.sampled_from(
    [*COLUMNS, ",".join(COLUMNS), "j,1,c,0,x,y,a", "j,1,c,0,y,z,tie", "j,01,c,0,x,z,b", "j,2,c,0,x,y,invalid",
     ",", "\n", "\r\n", '"', '""', "\0", "\ufeff", "é", "a", "tie", "1", ";", "\t", "x", " "]
)  # fmt: skip
HEADER = st.sampled_from(["", ",".join(COLUMNS) + "\n"])
TEXTS = st.builds(lambda head, tokens: (head + "".join(tokens)).encode(), HEADER, st.lists(TOKENS, max_size=12))
USUAL = {"judge": "jk", "question_id": "12", "category": "c", "variant": "01", "model_a": "xy", "model_b": "yz"}
ROW = st.tuples(*(st.sampled_from([*3 * USUAL.get(c, ("a", "b", "tie")), "", "nan", "x"]) for c in COLUMNS))
ROWS = st.lists(st.one_of(ROW, ROW, ROW, ROW.map(lambda row: row[1:]), ROW.map(lambda row: (*row, "more"))), max_size=3)
NEAR = st.builds(lambda rows: "\n".join([",".join(COLUMNS), *map(",".join, rows)]).encode(), ROWS)


@examples(120)
@given(
    data=st.one_of(st.binary(max_size=60), TEXTS, NEAR),
    ending=st.sampled_from([".csv", ".csv.gz", ".parquet"]),
    zip_it=st.booleans(),
)
def test_garbage_files_are_refused_in_one_line(tmp_path, data, ending, zip_it):
    path = tmp_path / f"garbage{ending}"
    path.write_bytes(gzip.compress(data) if zip_it and ending == ".csv.gz" else data)
    read_or_refused(path)

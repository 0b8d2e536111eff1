"""Lists of pairs: what is written is read back, and what is wrong with a file is said in one line."""

import numpy as np
import pandas as pd
import pytest

from ppe.errors import InputError
from ppe.pairs import PAIR_COLUMNS, read_pairs, validate_pairs, write_pairs

GOOD = {"question_id": ["q1", "q2"], "variant": [0, 0], "model_a": ["a", "b"], "model_b": ["b", "c"]}


def test_text_and_whole_numbers_as_identifiers(tmp_path):
    for questions in (["q1", "007"], [81, 82], ["81", "82"]):
        table = validate_pairs(pd.DataFrame(GOOD | {"question_id": questions}))
        back = read_pairs(write_pairs(table, tmp_path / "p.csv"))
        pd.testing.assert_frame_equal(back, table)
        assert (table["question_id"].dtype == np.int64) == (questions != ["q1", "007"])
    assert tuple(table.columns) == PAIR_COLUMNS


@pytest.mark.parametrize(("change", "said"), [
    ({"model_b": ["a", "c"]}, "model against itself in row 1"),
    ({"model_a": ["a", None]}, "empty model_a in row 2"),
    ({"question_id": ["q1", ""]}, "empty question_id in row 2"),
    ({"model_a": [" a", "b"]}, "in row 1: it is printable text"),
    ({"question_id": ["q1", "q\n2"]}, "in row 2: it is printable text"),
    ({"model_a": ["\u00e9", "e\u0301"]}, "look the same"),
    ({name: values[:1] * 2 for name, values in GOOD.items()}, "row 2 for the second time"),
])  # fmt: skip
def test_a_bad_list_is_refused_and_nothing_written(tmp_path, change, said):
    with pytest.raises(InputError, match=said):
        write_pairs(pd.DataFrame(GOOD | change), tmp_path / "p.csv")
    assert not list(tmp_path.iterdir())


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"ends in \.csv or \.csv\.gz"):
        write_pairs(pd.DataFrame(GOOD), tmp_path / "p.txt")

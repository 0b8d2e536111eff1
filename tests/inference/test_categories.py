"A ranking of each category: the clearest are tested, and categories of other models stand by themselves."

import json
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

import ppe
from ppe.errors import InputError

CASES = Path(__file__).parents[1] / "cases"
COLUMNS = ["judge", "question_id", "category", "variant", "model_a", "model_b", "verdict"]


def test_category_clear_winner():
    "All four; in cat0 and cat1 all twelve questions agree: p = 2 / 2**12 each, which 5 % / 4 holds and 0.1 % / 4 not."
    rows = ppe.read(CASES / "category_clear_winner.csv")
    made = ppe.rank(rows, by="category")
    names = [f"cat{number}" for number in range(4)]
    assert list(made.ranks().columns) == ["model", "all", *names]
    assert set(made.to_frame()["category"]) == {"all", *names}
    assert list(made.to_dict()["leaderboards"]) == names and json.dumps(made.to_dict())
    clear = made.winners[made.winners["certain"].eq(True)]
    assert list(zip(clear["category"], clear["model"], strict=True)) == [("cat0", "x"), ("cat1", "x")]
    assert 0.05 / 4 > 2 / 2**12 > 0.001 / 4
    assert not ppe.rank(rows, by="category", level=0.999).winners["certain"].any()


def test_by_category_disjoint():
    "Each category as if it were alone; over all there is no ranking, and that is said."
    rows = ppe.read(CASES / "by_category_disjoint.csv")
    made = ppe.rank(rows, by="category")
    ranks = made.ranks().set_index("model")
    assert (ranks["all"] == "").all() and made.overall is None
    for name in ("x", "y"):
        alone = ppe.rank(rows, category=name).to_frame().set_index("model")["rank"]
        assert made.boards[name].to_frame().set_index("model")["rank"].equals(alone)
    assert made.boards["x"].to_frame()["model"].tolist() == ["B", "A"]
    assert made.notes()[0].startswith("no ranking over all categories: ") and "C, D never met A, B" in made.notes()[0]
    assert json.loads(json.dumps(made.to_dict()))["overall"] is None and set(made.to_frame()["category"]) == {"x", "y"}
    assert "first over all" not in made.sentence()


def test_draws_asked_for_are_refused_where_they_cannot_reach_the_level():
    with pytest.raises(InputError, match="need at least 79"):
        ppe.rank(CASES / "category_clear_winner.csv", by="category", intervals=20)
    assert ppe.rank(CASES / "category_clear_winner.csv", by="category", intervals=79).winners["certain"].sum() == 2


def test_more_than_fifty_categories_have_ranges():
    "x wins all: of 57 categories with 20 questions each, 2 / 2**20 is far less than 5 % / 57."
    rows = [
        ("j", f"{c}-{q}", f"c{c}", 0, *pair, "a")
        for c, q, pair in product(range(57), range(20), (("x", "y"), ("x", "z")))
    ]
    made = ppe.rank(pd.DataFrame(rows, columns=COLUMNS), by="category")
    assert not any("no ranges" in note for note in made.notes())
    assert made.winners["certain"].eq(True).all() and len(made.winners) == 57


def test_categories_with_little_or_nothing():
    "One question, one pair, all ties, all invalid, models that never met, beside one that is plain."
    rows = [("j", q, "plain", 0, *pair, "a" if q % 3 else "b") for q in range(12) for pair in ("xy", "yz", "xz")]
    rows += [("j", 20, "one", 0, "x", "y", "a")] + [("j", 30 + q, "pair", 0, "x", "y", "a") for q in range(12)]
    rows += [("j", 50 + q, "ties", 0, "x", "y", "tie") for q in range(12)]
    rows += [("j", 70 + q, "invalid", 0, "x", "y", "invalid") for q in range(12)]
    rows += [("j", 90 + q, "apart", 0, *pair, "ab"[q % 2]) for q in range(12) for pair in ("xy", "zw")]
    rows += [("j", 110, "plain", 0, "w", "x", "a"), ("j", 111, "plain", 0, "w", "x", "b")]
    made = ppe.rank(pd.DataFrame(rows, columns=COLUMNS), by="category")
    assert list(made.boards) == ["plain", "one", "pair", "ties"]
    winners = made.winners.set_index("category")["certain"]
    assert winners["pair"] is True and winners["ties"] is False and not winners["one"]
    notes = "\n".join(made.notes())
    assert "category invalid is left out" in notes and "category apart is left out" in notes

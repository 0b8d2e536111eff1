"""Verdicts that are shares of a point: the case with values by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ppe.inference.score_limits import estimated_difference
from ppe.inference.score_tests import pair_tests, score_tests
from ppe.random_streams import stream
from ppe.rankers.likelihood import Design

CASES = Path(__file__).parents[1] / "cases"


def test_evidence_4_graded():
    "Gap ln(.7/.3), z = .8/√.185, dispersion 1 − .815/.84."
    table = pd.read_csv(CASES / "evidence_4_graded.csv")
    first, second = np.zeros(len(table), int), np.ones(len(table), int)
    design, rng = Design.of(first, second, ("one", "two")), stream(1, "graded")
    tests = score_tests(design, table["verdict"].to_numpy(), table["question_id"].to_numpy(), n_flips=99, rng=rng)
    assert estimated_difference(tests, 0, 1) == pytest.approx(np.log(0.7 / 0.3))
    assert abs(pair_tests(tests).z[0]) == pytest.approx(0.8 / np.sqrt(0.185))
    assert tests.dispersion == pytest.approx(1 - 0.815 / 0.84)

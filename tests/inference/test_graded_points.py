"""Shares of a point in the score tests, by hand and by closed form."""

import numpy as np
import pytest

from ppe.errors import InputError
from ppe.inference.score_limits import contrast_limits
from ppe.inference.score_tests import pair_tests, score_tests
from ppe.rankers.likelihood import Design

PAIR = Design.of(np.zeros(4), np.ones(4), ("one", "two"))
GIVEN = np.array([0.8, 0.6, 0.75, 0.65])


def scored(points: np.ndarray, **options: bool):
    return score_tests(PAIR, points, np.arange(4), n_flips=99, rng=np.random.default_rng(1), **options)


def test_trap_7_a_turned_scale_turns_the_answer() -> None:
    "The signs of a preference scale: its mirror image is the opposite answer, with the same certainty."
    contrast = np.array([1.0, -1.0])
    low, high = contrast_limits(scored(GIVEN), contrast, level=0.5)
    np.testing.assert_allclose(contrast_limits(scored(1 - GIVEN), contrast, level=0.5), (-high, -low), atol=1e-6)
    np.testing.assert_allclose(pair_tests(scored(1 - GIVEN)).z, -pair_tests(scored(GIVEN)).z)


@pytest.mark.parametrize("points", [4.0, -0.1, np.nan])
def test_no_share_of_a_point_is_refused(points: float) -> None:
    with pytest.raises(InputError, match="gives the first model 0 to 1"):
        scored(np.append(GIVEN[:3], points))
    with pytest.raises(InputError, match="graded verdicts have no ties"):
        scored(GIVEN, tie_parameter=True)

"""Counts of any size: the maximum of the likelihood, or one line that refuses."""

from math import isclose, log, sqrt

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ppe.errors import InputError
from ppe.rankers.bradley_terry import LARGEST_PENALISED, LARGEST_RATIO, bradley_terry, bradley_terry_batch
from ppe.rankers.davidson import davidson, davidson_batch, davidson_probabilities

EXPONENT = st.one_of(st.floats(-300, 300), st.floats(-8, 8))


def examples(count):
    return settings(max_examples=count, deadline=None, derandomize=True)


def two(wins, losses, ties=0.0):
    return np.array([[0.0, wins], [losses, 0.0]]), np.array([[0.0, ties], [ties, 0.0]])


def refused_or(answer):
    "The answer, or None if it was refused in one line."
    try:
        return answer()
    except InputError as error:
        assert len(str(error).splitlines()) == 1 and "range from" in str(error)
        return None


@examples(300)
@given(EXPONENT, EXPONENT)
@example(-100.0, 0.0)
@example(17.0, 0.0)
@example(11.0, 0.0)
def test_two_models_of_bradley_terry_differ_by_the_log_of_their_wins(a, b):
    wins, losses = 10.0**a, 10.0**b
    single = refused_or(lambda: bradley_terry(*two(wins, losses)))
    batch = refused_or(lambda: bradley_terry_batch(*(counts[None] for counts in two(wins, losses))))
    within = abs(a - b) < log(LARGEST_RATIO, 10) and -100 < min(a, b) and max(a, b) < 100
    assert (single is None) == (batch is None) and (single is not None or not within)
    if single is not None:
        assert single.fit.converged
        for scores in (single.scores, batch.scores[0]):
            assert isclose(scores[0] - scores[1], log(wins) - log(losses), abs_tol=1e-6)


@examples(300)
@given(EXPONENT, EXPONENT, EXPONENT)
@example(12.0, 0.0, 0.0)
@example(100.0, 0.0, 0.0)
@example(10.0, 0.0, 12.0)
@example(-300.0, -300.0, -300.0)
def test_two_models_of_davidson_have_a_closed_form(a, b, c):
    wins, losses, ties = 10.0**a, 10.0**b, 10.0**c
    single = refused_or(lambda: davidson(*two(wins, losses, ties)))
    batch = refused_or(lambda: davidson_batch(*(counts[None] for counts in two(wins, losses, ties))))
    least, most = min(a, b, c), max(a, b, c)
    within = most - least < log(LARGEST_RATIO, 10) and least > -100 and most < 100
    assert (single is None) == (batch is None) and (single is not None or not within)
    if single is not None:
        assert single.fit.converged
        nu = ties / sqrt(wins) / sqrt(losses)
        for scores, found in ((single.scores, single.fit.nu), (batch.scores[0], batch.nu[0])):
            assert isclose(scores[0] - scores[1], log(wins) - log(losses), abs_tol=1e-6)
            assert isclose(log(found), log(nu), abs_tol=1e-6)


def test_ties_that_outnumber_wins_do_not_end_in_nan():
    wins = np.array([[0, 1.1, 1.0], [100, 0, 0], [2.1, 100, 0]])
    ties = np.array([[0, 1e4, 5.4], [1e4, 0, 0], [5.4, 0, 0]])
    found = davidson(wins, ties)
    win, tie = davidson_probabilities(found.scores, found.fit.nu)
    compared = wins + wins.T + ties
    assert np.allclose((compared * (win + tie / 2)).sum(axis=1), (wins + ties / 2).sum(axis=1), atol=1e-6)
    assert isclose((compared * tie).sum(), ties.sum(), abs_tol=1e-5)


@pytest.mark.parametrize("fit", [bradley_terry, davidson])
def test_the_penalty_holds_against_its_largest_count_and_refuses_more(fit):
    from scipy.optimize import brentq

    for count in (1e2, 1e5, LARGEST_PENALISED):
        expected = brentq(lambda d, n=count: n / (1 + np.exp(d)) - 1e-4 * d / 2, 0, 200, xtol=1e-13)
        found = fit(*two(count, 0.0), on_separation="ridge").scores
        assert isclose(found[0] - found[1], expected, abs_tol=1e-6)
    with pytest.raises(InputError, match="divide all counts"):
        fit(*two(2 * LARGEST_PENALISED, 0.0), on_separation="ridge")

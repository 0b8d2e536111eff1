"""Counts of any size: the maximum of the likelihood, or one line that refuses."""

from math import isclose, log

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ppe.errors import ConvergenceError, InputError
from ppe.rankers.bradley_terry import bradley_terry, bradley_terry_batch
from ppe.rankers.davidson import davidson, davidson_batch
from ppe.rankers.likelihood import LARGEST_PENALISED, Design, maximise
from ppe.rankers.newton import LARGEST_RATIO

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


@pytest.mark.parametrize(("single", "batch"), [(bradley_terry, bradley_terry_batch), (davidson, davidson_batch)])
@examples(80)
@given(EXPONENT, EXPONENT, EXPONENT)
@example(-100.0, 0.0, 0.0)
@example(17.0, 0.0, 0.0)
@example(11.0, 0.0, 0.0)
@example(10.0, 0.0, 12.0)
@example(-300.0, -300.0, -300.0)
def test_two_models_have_a_closed_form(single, batch, a, b, c):
    "Strengths differ by the log of the wins; Bradley-Terry is given no ties."
    wins, losses, ties = 10.0**a, 10.0**b, 10.0**c if single is davidson else 0.0
    one = refused_or(lambda: single(*two(wins, losses, ties)))
    many = refused_or(lambda: batch(*(counts[None] for counts in two(wins, losses, ties))))
    exponents = (a, b, c) if single is davidson else (a, b)
    least, most = min(exponents), max(exponents)
    within = most - least < log(LARGEST_RATIO, 10) and least > -100 and most < 100
    assert (one is None) == (many is None) and (one is not None or not within)
    if one is not None:
        assert one.fit.converged
        for scores in (one.scores, many.scores[0]):
            assert isclose(scores[0] - scores[1], log(wins) - log(losses), abs_tol=1e-6)
        for nu in (one.fit.nu, many.nu[0]) if single is davidson else ():
            assert isclose(log(nu), log(ties) - (log(wins) + log(losses)) / 2, abs_tol=1e-6)


@pytest.mark.parametrize("fit", [bradley_terry, davidson])
def test_the_penalty_holds_against_its_largest_count_and_refuses_more(fit):
    from scipy.optimize import brentq

    for count in (1e2, 1e5, LARGEST_PENALISED):
        expected = brentq(lambda d, n=count: n / (1 + np.exp(d)) - 1e-4 * d / 2, 0, 200, xtol=1e-13)
        found = fit(*two(count, 0.0), on_separation="ridge").scores
        assert isclose(found[0] - found[1], expected, abs_tol=1e-6)
    with pytest.raises(InputError, match="divide all counts"):
        fit(*two(2 * LARGEST_PENALISED, 0.0), on_separation="ridge")


def test_a_maximum_that_is_not_reached_is_an_error_and_not_a_ranking(monkeypatch):
    "No counts within the limits are known that are not reached; so the steps are left out."
    monkeypatch.setattr("ppe.rankers.likelihood.compiled_or_plain", lambda *arguments, cost: None)
    design = Design.of(np.array([0]), np.array([1]), ("x", "y"))
    with pytest.raises(ConvergenceError, match="did not converge in 2 of 2 fits"):
        maximise(design, np.ones((2, 3, 1)))

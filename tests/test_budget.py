"""Budgets: candidates that keep the same training graphs are one candidate."""

import numpy as np
import pytest

from ppe.inference.budget import appendix_rule, cross_validate, main_rule, rank_stability
from ppe.pool import Pool
from ppe.streams import stream

N_MODELS = 6


@pytest.fixture
def pool():
    "Twenty questions with one graph each: five folds leave sixteen to train on, and ⌈.95 · 16⌉ = 16."
    rng = stream(11)
    strength = np.linspace(1.2, -1.2, N_MODELS)
    ahead = strength[:, None] - strength + rng.logistic(size=(20, N_MODELS, N_MODELS))
    upper = np.triu(ahead > 0, 1)
    return Pool.of(upper | np.swapaxes(np.triu(ahead <= 0, 1), 1, 2))


def test_all_graphs_can_be_chosen_where_nineteen_of_twenty_train_the_same(pool):
    cv = cross_validate(pool, [0.9, 0.95, 1.0], rng=stream(1))
    assert cv.n_kept[0].tolist() == [15, 16, 16] and cv.budgets.tolist() == [18, 19, 20]
    assert np.array_equal(cv.losses[:, 1], cv.losses[:, 2])
    steep = cross_validate(pool, [0.05, 0.95, 1.0], rng=stream(1))  # one graph is far from enough
    stability = rank_stability(pool, [0.05, 0.95, 1.0], rng=stream(2))
    assert main_rule(steep).k == 20
    choice = appendix_rule(steep, stability, tau=1.0)
    assert not choice.within[0] and choice.k == 20


def test_a_screen_may_leave_the_smaller_of_two_that_train_the_same(pool):
    cv = cross_validate(pool, [0.05, 0.95, 1.0], rng=stream(1))
    stability = rank_stability(pool, [0.05, 0.95, 1.0], rng=stream(2))
    stability.distance[:] = [0.0, 0.05, 0.2]
    assert appendix_rule(cv, stability).k == 19
    stability.distance[:] = [0.0, 0.2, 0.05]
    assert appendix_rule(cv, stability).k == 20


def test_the_appendix_takes_the_smallest_of_different_sets_though_their_losses_are_equal():
    graph = np.triu(np.ones((N_MODELS, N_MODELS), dtype=bool), 1)
    graph[[0, -1], [-1, 0]] = [False, True]  # the last beats the first: a maximum exists
    same = Pool.of(np.repeat(graph[None], 20, axis=0))
    alphas = [0.25, 0.5, 0.95, 1.0]
    cv = cross_validate(same, alphas, rng=stream(1))
    assert np.allclose(cv.losses, cv.losses[0, 0])
    assert main_rule(cv).k == 20
    assert appendix_rule(cv, rank_stability(same, alphas, rng=stream(2))).k == 5

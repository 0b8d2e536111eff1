"""Methods on small pools of any shape: an answer or an error that names models; rank intervals of all."""

import numpy as np
import pandas as pd
import pytest
from conftest import random_pool
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ppe.errors import NoMaximumError
from ppe.inference.graph_selection import ALL_GRAPHS
from ppe.inference.intervals import INTERVAL_KINDS
from ppe.inference.pool_intervals import rank_intervals
from ppe.inference.question_resamples import question_copies, question_weights
from ppe.pool import Pool, comparison_graphs
from ppe.random_streams import stream
from ppe.rankers.order_effect import ORDER_FORMS
from ppe.rankers.registry import RANKERS, rank, rank_batch
from ppe.rankers.separation import separation
from ppe.verdicts import COLUMNS, validate_verdicts

SEED = 20260324
ANY_RANKER = pytest.mark.parametrize("ranker", RANKERS)
EXAMPLES = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,  # the same on every run and every machine
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


# ---- any pool


@st.composite
def pools(draw):
    "Small pools, complete or not."
    n, sizes = draw(st.integers(3, 5)), draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    blocks = np.repeat(np.arange(len(sizes)), sizes)
    i, j = np.triu_indices(n, 1)
    # Complete graphs in half of the pools; win, tie, loss, and not compared.
    outcomes = st.sampled_from([0, 0, 1, 2] if draw(st.booleans()) else [0, 0, 1, 2, 3])
    codes = draw(st.lists(outcomes, min_size=len(blocks) * len(i), max_size=len(blocks) * len(i)))
    codes = np.array(codes).reshape(len(blocks), len(i))
    codes[0, :2] = 0  # question effects are of models that share a question
    adjacency = np.zeros((len(blocks), n, n), dtype=bool)
    adjacency[:, i, j], adjacency[:, j, i] = codes < 2, (codes == 1) | (codes == 2)
    pool = Pool.of(adjacency, blocks, models=[f"m{k}" for k in range(n)])
    # A graph and its reverse, or models that trade places, leave several equal maxima: then rounding decides.
    assume(np.diff(np.sort(rank(pool, on_separation="ridge").scores)).min() > 1e-3)
    return pool


def same_scores(scores, expected):
    np.testing.assert_allclose(scores, expected, atol=1e-4, rtol=1e-4)


@ANY_RANKER
@EXAMPLES
@given(pools())
def test_a_fit_is_finite_or_an_error_that_names_the_separated_models(ranker, pool):
    names = list(pool.models)
    try:
        found = rank(pool, ranker=ranker)
        assert found.fit.ridge == 0
    except NoMaximumError as error:
        above, below = ([names.index(name) for name in part] for part in (error.above, error.below))
        wins, ties = pool.counts()
        if above:  # Davidson's model can also fail because ties fix a line
            assert not wins[np.ix_(below, above)].any() and not ties[np.ix_(below, above)].any()
        found = rank(pool, ranker=ranker, on_separation="ridge")
        assert found.fit.ridge > 0
    batch = rank_batch(pool, np.ones((1, len(pool)), dtype=int), ranker=ranker)
    assert bool(batch.ridge[0]) == (found.fit.ridge > 0)
    same_scores(batch.scores[0], found.scores)
    assert np.isfinite(found.scores).all() and abs(found.scores.sum()) < 1e-6


def table():
    frame = [dict(zip(COLUMNS, row, strict=True)) for row in random_pool(judges=("zeta",))]
    return validate_verdicts(pd.DataFrame(frame))


@ANY_RANKER
def test_intervals_run_the_whole_method_in_every_resample(ranker):
    pool, options = comparison_graphs(table()), {"ranker": ranker, "level": 0.8}
    intervals = rank_intervals(pool, n_resamples=9, rng=stream(SEED), **options)
    own = rank(pool, ranker=ranker, on_separation="ridge")
    np.testing.assert_allclose(intervals.scores, own.scores, atol=1e-6)
    assert intervals.models == pool.models and intervals.ranker == ranker and intervals.scope.n_questions == 4
    assert intervals.separated == (own.fit.ridge > 0)
    # Copies of a question are questions of their own.
    weights, drawn = question_weights(ALL_GRAPHS, pool, n_resamples=9, rng=stream(SEED)), intervals.resampled
    for row, scores, flag in zip(weights[:4], drawn.scores, drawn.ridge, strict=False):
        rows, own_block = question_copies(pool.blocks, row[np.unique(pool.blocks, return_index=True)[1]])
        again = rank(Pool.of(pool.adjacency[rows], own_block), ranker=ranker, on_separation="ridge")
        np.testing.assert_allclose(again.scores, scores, atol=1e-3, rtol=1e-3)
        assert (again.fit.ridge > 0) == flag
    assert set(intervals.limits) == (set(INTERVAL_KINDS) if ranker in ORDER_FORMS else {"percentile"})
    for kind in intervals.limits:
        limits = intervals.table(kind)
        assert list(limits["rank"]) == [1, 2, 3, 4, 5, 6]
        for what in ("rank", "score"):
            assert (limits[f"{what}_low"] <= limits[f"{what}_high"]).all()


def test_of_two_separating_groups_of_one_size_the_upper_one_is_named():
    groups = separation(np.triu(np.ones((3, 3), dtype=bool), 1))  # a chain: 0 beats 1 beats 2
    assert (groups.above.tolist(), groups.below.tolist()) == ([0], [1, 2])

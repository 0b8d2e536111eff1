"""Methods that look at graphs one by one: joint optima by scipy, invariances; rank intervals of all."""

import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import random_pool
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ppe.errors import InputError, NoMaximumError
from ppe.inference.intervals import INTERVAL_KINDS, question_copies, question_weights, rank_intervals
from ppe.inference.methods import ALL_GRAPHS, TRUNCATED, source_rows
from ppe.paper import datasets
from ppe.pool import Pool, comparison_graphs
from ppe.rankers.discrimination import LIMITS, draw_graphs, fit_discrimination, fit_discrimination_batch
from ppe.rankers.registry import COUNT_RANKERS, RANKERS, rank, rank_batch
from ppe.streams import stream
from ppe.verdicts import COLUMNS, validate_verdicts

SEED = 20260324
ANY_RANKER = pytest.mark.parametrize("ranker", RANKERS)
POOL_RANKER = pytest.mark.parametrize("ranker", [name for name in RANKERS if name not in COUNT_RANKERS])
VARIANT = pytest.mark.parametrize("ties", [False, True])
SLOPE = pytest.mark.parametrize("cycles", [False, True])


def examples(count):
    "The same examples on every run and every machine."
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


# ---- the joint objective, written again


def prior_precision(blocks, spread, share):
    "Inverse covariance of the log discriminations, graph by graph."
    same = blocks[:, None] == blocks[None, :]
    return np.linalg.inv(spread**2 * ((1 - share) * np.eye(len(blocks)) + share * same))


def joint_optimum(pool, *, spread, share, ties=False, cycles=False, penalty=0.0):
    "Maximum of J over all parameters by L-BFGS-B: its value, strengths, log discriminations, slope, nu."
    n, n_graphs = pool.n_models, len(pool)
    i, j = np.triu_indices(n, 1)
    won, lost = pool.adjacency[:, i, j], pool.adjacency[:, j, i]
    met, tied, sign = won | lost, won & lost, won.astype(float) - lost
    z = np.log1p(pool.scores())
    z = (z - z.mean()) / z.std() if z.std() > 0 else 0 * z
    precision = prior_precision(pool.blocks, spread, share)
    incidence = np.zeros((n, len(i)))
    incidence[i, np.arange(len(i))], incidence[j, np.arange(len(i))] = 1, -1

    def parts(x):
        slope = x[n + 1] if cycles else 0.0
        return x[:n], x[n], slope, x[n + 2 :], x[n + 2 :] + slope * z

    def loss(x):
        theta, log_nu, slope, v, log_a = parts(x)
        a = np.exp(log_a)[:, None]
        gap = theta @ incidence
        half = a * gap / 2
        total = np.logaddexp(half, -half)
        if ties:
            total = np.logaddexp(total, log_nu)
        value = np.sum(met * (sign * half - total)) + (tied.sum() * log_nu if ties else 0.0)
        value -= v @ precision @ v / 2 + slope**2 / 2 + penalty * (theta @ theta + ties * log_nu**2) / 2
        pull = met * (sign - (np.exp(half - total) - np.exp(-half - total))) / 2  # by utility
        by_log_a = np.sum(pull * a * gap, axis=1)
        gradient = np.zeros_like(x)
        gradient[:n] = incidence @ np.sum(pull * a, axis=0) - penalty * theta
        if ties:
            gradient[n] = tied.sum() - np.sum(met * np.exp(log_nu - total)) - penalty * log_nu
        if cycles:
            gradient[n + 1] = by_log_a @ z - slope
        gradient[n + 2 :] = by_log_a - precision @ v
        return -value, -gradient

    start = np.zeros(n + 2 + n_graphs)
    start[:n] = rank(pool, on_separation="ridge").scores
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": 1e-8, "maxcor": 50}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    theta, log_nu, slope, _, log_a = parts(found.x)
    strengths = (theta - theta.mean()) * np.exp(log_a.mean())
    return -found.fun, strengths, log_a - log_a.mean(), slope, np.exp(log_nu)


def same_optimum(fit, pool, **options):
    value, theta, log_a, slope, nu = joint_optimum(pool, **options)
    assert fit.log_posterior == pytest.approx(value, abs=1e-6 * (1 + abs(value)))
    assert fit.log_posterior >= value - 1e-7 * (1 + abs(value)), "scipy has found a better point"
    np.testing.assert_allclose(fit.theta, theta, atol=2e-4 * (1 + np.abs(theta).max()))
    np.testing.assert_allclose(fit.log_a, log_a, atol=2e-3)
    if options["cycles"]:
        assert fit.cycle_slope == pytest.approx(slope, abs=2e-3)
    if options["ties"]:
        assert fit.nu == pytest.approx(nu, rel=2e-3)


@pytest.fixture(scope="module")
def mtbench():
    return comparison_graphs(datasets.load_verdicts("mt-bench-gpt4"))


@VARIANT
@SLOPE
def test_the_joint_optimum_of_real_verdicts_is_scipys(mtbench, ties, cycles):
    pool = mtbench
    fit = fit_discrimination(pool, spread=0.8, block_share=0.4, ties=ties, cycles=cycles)
    same_optimum(fit, pool, spread=0.8, share=0.4, ties=ties, cycles=cycles)


@VARIANT
def test_the_estimated_spread_of_real_verdicts_is_a_peak_and_its_fit_scipys(mtbench, ties):
    pool = mtbench
    fit = fit_discrimination(pool, ties=ties)
    assert fit.spread > 0 and fit.log_marginal > fit.log_marginal_equal
    same_optimum(fit, pool, spread=fit.spread, share=fit.block_share, ties=ties, cycles=False)
    for factor in (0.7, 1.4):
        near = fit_discrimination(pool, ties=ties, spread=factor * fit.spread, block_share=fit.block_share)
        assert near.log_marginal < fit.log_marginal


LOW_AND_OBLIQUE = [(34, 24, 2, 8, 0.2), (36, 10, 5, 20, 0.0), (50, 10, 5, 20, 0.0), (34, 10, 5, 20, 0.6)]


@pytest.mark.parametrize(("seed", "questions", "wordings", "n", "spread"), LOW_AND_OBLIQUE)
def test_the_search_for_the_spread_reaches_the_top_of_a_dense_grid(seed, questions, wordings, n, spread):
    "Low peaks at small spreads, and an oblique ridge: coarse searches stop beside both."
    rng, blocks = np.random.default_rng(seed), np.repeat(np.arange(questions), wordings)
    question, wording = rng.normal(size=questions)[blocks], rng.normal(size=len(blocks))
    log_a = spread * (np.sqrt(0.8) * question + np.sqrt(0.2) * wording)
    graphs = draw_graphs(np.exp(log_a)[:, None] * np.linspace(1, -1, n), 0.5, rng=rng)
    pool = Pool.of(graphs, blocks, scores=np.zeros(len(blocks)))

    def log_marginal(**given):
        return fit_discrimination(pool, ties=True, **given).log_marginal

    highest = log_marginal()
    for s in np.geomspace(0.02, 3.0, 16):
        along = max(log_marginal(spread=s, block_share=share) for share in (0, 0.3, 0.6, 0.8, 0.95))
        assert highest > along - 0.005
        # The share alone: far from the peak its last parabola is coarse, but not beside 1.92.
        assert log_marginal(spread=s) > along - 0.03


@VARIANT
@SLOPE
@pytest.mark.parametrize("case", range(4))
def test_the_joint_optimum_of_random_verdicts_is_scipys(case, ties, cycles):
    rng = stream(SEED, "joint", case)
    n, questions = int(rng.integers(2, 6)), int(rng.integers(2, 7))
    blocks = np.repeat(np.arange(questions), rng.integers(1, 4, size=questions))
    adjacency = random_graphs(rng, len(blocks), n, missing=0.2 * (case % 2))
    pool = Pool.of(adjacency, blocks)
    spread, share, penalty = rng.uniform(0.1, 1.5), rng.uniform(0, 0.9), 0.05
    variant = {"ties": ties, "cycles": cycles, "penalty": penalty}
    fit = fit_discrimination(pool, spread=spread, block_share=share, on_separation="ridge", **variant)
    same_optimum(fit, pool, spread=spread, share=share, **variant)


def random_graphs(rng, n_graphs, n, *, missing=0.0):
    "Graphs of a common order with noise and ties, some pairs left out."
    i, j = np.triu_indices(n, 1)
    outcome = rng.choice(3, p=[0.5, 0.25, 0.25], size=(n_graphs, len(i)))  # win, tie, loss
    seen = rng.random(outcome.shape) >= missing
    seen[0, 0] = True
    adjacency = np.zeros((n_graphs, n, n), dtype=bool)
    adjacency[:, i, j], adjacency[:, j, i] = (outcome < 2) & seen, (outcome > 0) & seen
    return adjacency


# ---- invariances


@st.composite
def pools(draw):
    "Small pools, complete or not. No scores are equal: at a threshold such graphs go by source order."
    n, sizes = draw(st.integers(3, 5)), draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    blocks = np.repeat(np.arange(len(sizes)), sizes)
    i, j = np.triu_indices(n, 1)
    # Complete graphs in half of the pools; win, tie, loss, and not compared.
    outcomes = st.sampled_from([0, 0, 1, 2] if draw(st.booleans()) else [0, 0, 1, 2, 3])
    codes = draw(st.lists(outcomes, min_size=len(blocks) * len(i), max_size=len(blocks) * len(i)))
    codes = np.array(codes).reshape(len(blocks), len(i))
    codes[0, 0] = 0
    adjacency = np.zeros((len(blocks), n, n), dtype=bool)
    adjacency[:, i, j], adjacency[:, j, i] = codes < 2, (codes == 1) | (codes == 2)
    scores = np.array(draw(st.permutations(range(len(blocks)))), dtype=float)
    pool = Pool.of(adjacency, blocks, models=[f"m{k}" for k in range(n)], scores=scores)
    # A graph and its reverse, or models that trade places, leave several equal maxima: then rounding decides.
    assume(np.diff(np.sort(rank(pool, on_separation="ridge").scores)).min() > 1e-3)
    return pool


def same_scores(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-4)


def has_one_maximum(pool, ranker):
    "A few graphs can have a spread of several units; the objective then has several maxima."
    variants = {"discrimination-cycles": {"cycles": True}, "discrimination-davidson": {"ties": True}}
    variant = variants.get(ranker, {})
    if not ranker.startswith("discrimination"):
        return True
    return fit_discrimination(pool, on_separation="ridge", **variant).spread < 1


@POOL_RANKER
@examples(30)
@given(pools(), st.data())
def test_relabelling_permutes_the_scores(ranker, pool, data):
    assume(has_one_maximum(pool, ranker))
    order = np.array(data.draw(st.permutations(range(pool.n_models))))
    other = Pool.of(pool.adjacency[:, order][:, :, order], pool.blocks, scores=pool.scores())
    first = rank(pool, ranker=ranker, on_separation="ridge")
    again = rank(other, ranker=ranker, on_separation="ridge")
    same_scores(again.scores, first.scores[order])
    assert again.fit.ridge == first.fit.ridge


@POOL_RANKER
@examples(30)
@given(pools(), st.data())
def test_neither_order_of_graphs_nor_names_of_questions_matter(ranker, pool, data):
    order = np.array(data.draw(st.permutations(range(len(pool)))))
    names = np.array(data.draw(st.permutations(range(10))))
    other = Pool.of(pool.adjacency[order], names[pool.blocks[order]], scores=pool.scores()[order])
    assume(has_one_maximum(pool, ranker))
    first = rank(pool, ranker=ranker, on_separation="ridge").scores
    same_scores(rank(other, ranker=ranker, on_separation="ridge").scores, first)


@POOL_RANKER
@examples(30)
@given(pools())
def test_reversing_every_verdict_reverses_the_scores(ranker, pool):
    other = Pool.of(np.swapaxes(pool.adjacency, 1, 2), pool.blocks, scores=pool.scores())
    assume(has_one_maximum(pool, ranker))
    first = rank(pool, ranker=ranker, on_separation="ridge").scores
    same_scores(rank(other, ranker=ranker, on_separation="ridge").scores, -first)


@POOL_RANKER
@examples(30)
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


def test_equal_discriminations_are_bradley_terry_and_davidson():
    pool = comparison_graphs(table())
    for ties, ranker in ((False, "bradley-terry"), (True, "davidson")):
        fit = fit_discrimination(pool, spread=0.0, ties=ties)
        np.testing.assert_allclose(fit.theta, rank(pool, ranker=ranker).scores, atol=1e-6)
        assert not fit.log_a.any()


# ---- rank intervals


def table():
    frame = [dict(zip(COLUMNS, row, strict=True)) for row in random_pool(judges=("zeta",))]
    return validate_verdicts(pd.DataFrame(frame))


@ANY_RANKER
def test_intervals_run_the_whole_method_in_every_resample(ranker):
    pool, options = comparison_graphs(table()), {"ranker": ranker, "level": 0.8}
    found = rank_intervals(pool, n_resamples=9, rng=stream(SEED), **options)
    own = rank(pool, ranker=ranker, on_separation="ridge")
    np.testing.assert_allclose(found.scores, own.scores, atol=1e-6)
    assert found.models == pool.models and found.ranker == ranker and found.n_questions == 4
    assert found.separated == (own.fit.ridge > 0)
    few = rank_intervals(pool, n_resamples=4, rng=stream(SEED), **options)
    assert np.array_equal(few.resampled_scores, found.resampled_scores[:4])
    # Copies of a question: questions of their own to the discrimination models, a heavier one to others.
    weights = question_weights(ALL_GRAPHS, pool, n_resamples=9, rng=stream(SEED))
    for row, scores, flag in zip(weights[:4], found.resampled_scores, found.ridge, strict=False):
        rows, own_block = question_copies(pool.blocks, row[np.unique(pool.blocks, return_index=True)[1]])
        drawn = Pool.of(pool.adjacency[rows], pool.blocks[rows] if ranker == "soft-weights" else own_block)
        again = rank(drawn, ranker=ranker, on_separation="ridge")
        np.testing.assert_allclose(again.scores, scores, atol=1e-3, rtol=1e-3)
        assert (again.fit.ridge > 0) == flag
    for kind in INTERVAL_KINDS:
        limits = found.table(kind)
        assert list(limits["rank"]) == [1, 2, 3, 4, 5, 6]
        for what in ("rank", "score"):
            assert (limits[f"{what}_low"] <= limits[f"{what}_high"]).all()


def test_a_method_that_truncates_can_feed_any_ranker():
    pool = comparison_graphs(table())
    kept = pool.subset(source_rows(TRUNCATED, pool.scores(), pool.blocks))
    for ranker in RANKERS:
        how = {"n_resamples": 4, "rng": stream(SEED), "level": 0.5}
        found = rank_intervals(pool, method=TRUNCATED, ranker=ranker, **how)
        own = rank(kept, ranker=ranker, on_separation="ridge").scores
        np.testing.assert_allclose(found.scores, own, atol=1e-3, rtol=1e-3, err_msg=ranker)


def test_bad_weights_are_refused_in_one_line_by_every_ranker():
    pool = comparison_graphs(table())
    ones = np.ones((2, len(pool)))
    for ranker in RANKERS:
        for weights in (ones / 2, -ones, 0 * ones, ones[:, 1:], ones[0], ones * np.nan, ones[:0]):
            with pytest.raises(InputError, match="whole numbers of copies") as caught:
                rank_batch(pool, weights, ranker=ranker)
            assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="spread"):
        fit_discrimination(pool, spread=-1.0)
    assert np.isfinite(fit_discrimination_batch(pool, ones.astype(int), cycles=True)[1]).all()


def test_a_spread_at_its_upper_limit_can_be_given_back():
    "The search ends there for some pools of one question; rounding must not take it beyond what is taken."
    limit = float(np.exp(LIMITS[0][1]))
    assert 9.999999 < limit <= 10
    pool = comparison_graphs(validate_verdicts(pd.DataFrame(random_pool(judges=["j"]), columns=COLUMNS)))
    assert fit_discrimination(pool, spread=limit).spread == limit


# ---- the benchmark


@pytest.mark.parametrize(
    "part", ["bradley_terry_lines", "cycle_lines", "aggregator_lines", "streaming_lines"]
)
def test_what_the_benchmark_compares_agrees(part: str):
    "Answers against its peers, on smaller work; its times are for `make bench` to judge."
    bench = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "bench.py"))
    compared = [line for line in bench[part](quick=True) if re.match("equal|≤ 1e-", line.bound)]
    assert compared and all(line.passed for line in compared), compared

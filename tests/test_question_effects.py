"""Question effects: the fit against exact integrals, against simulation, and on the command line."""


import numpy as np
import pandas as pd
import pytest
from conftest import COLUMNS
from scipy import integrate, special, stats

from ppe.errors import InputError, NoMaximumError
from ppe.inference.intervals import fitted_intervals
from ppe.pool import Pool
from ppe.rankers.bradley_terry import bradley_terry
from ppe.rankers.question_effects import (
    attenuated_probability,
    fit_question_effects,
    rank_question_effects_batch,
)
from ppe.streams import stream


def drawn(n_questions, n_wordings, sigma, rng, *, n=3, gap=0.6):
    "Complete graphs without ties, written with plain loops."
    adjacency = np.zeros((n_questions * n_wordings, n, n), dtype=bool)
    for question in range(n_questions):
        eta = -gap * np.arange(n) + sigma * rng.standard_normal(n)
        for wording in range(n_wordings):
            for i in range(n):
                for j in range(i):
                    first = rng.random() < special.expit(eta[i] - eta[j])
                    adjacency[question * n_wordings + wording, i if first else j, j if first else i] = True
    return Pool.of(adjacency, np.repeat(np.arange(n_questions), n_wordings))


def exact_log_likelihood(pool, theta, sigma):
    "Sum over questions of log integral; the two differences of three effects by a product rule."
    nodes, weights = special.roots_hermitenorm(60)
    x, y = np.meshgrid(nodes, nodes)
    weights = np.multiply.outer(weights, weights) / (2 * np.pi)
    effects = [x / np.sqrt(2) + y / np.sqrt(6), -x / np.sqrt(2) + y / np.sqrt(6), -2 * y / np.sqrt(6)]
    u = sigma * np.array(effects)
    eta, total = theta[:, None, None] + u, 0.0
    for question in np.unique(pool.blocks):
        chance = 1.0
        for graph in pool.adjacency[pool.blocks == question]:
            for i, j in zip(*np.nonzero(graph), strict=True):
                chance = chance * special.expit(eta[i] - eta[j])
        total += np.log((weights * chance).sum())
    return total


def test_the_likelihood_is_the_integral():
    pool = drawn(20, 2, 1.2, np.random.default_rng(2))
    fit = fit_question_effects(pool)
    assert fit.sigma > 0
    exact = exact_log_likelihood(pool, fit.theta, fit.sigma)
    assert fit.log_marginal == pytest.approx(exact, abs=20 * 0.004)
    at_zero = bradley_terry(*pool.counts()).fit.log_likelihood
    assert exact > at_zero


@pytest.mark.parametrize("sigma", [0.0, 0.7, 2.5])
def test_attenuation(sigma):
    for gap in (-3.0, 0.0, 0.4, 2.0):

        def chance(z, gap=gap):
            return special.expit(gap + np.sqrt(2) * sigma * z) * stats.norm.pdf(z)

        expected = integrate.quad(chance, -9, 9, epsabs=1e-11)[0]
        assert attenuated_probability(gap, sigma) == pytest.approx(expected, abs=1e-9)
    assert attenuated_probability(1.0, sigma) + attenuated_probability(-1.0, sigma) == pytest.approx(1)


def test_sigma_is_found_and_its_interval_holds():
    found = [fit_question_effects(drawn(30, 2, 1.5, stream(8, k), n=6)) for k in range(20)]
    assert np.mean([fit.sigma for fit in found]) == pytest.approx(1.5, rel=0.1)
    inside = [fit.sigma_low <= 1.5 <= fit.sigma_high for fit in found]
    assert sum(inside) >= 16  # 19 expected; fewer than 16 once in a thousand
    assert all(fit.sigma_low <= fit.sigma <= fit.sigma_high and fit.p_value < 1e-6 for fit in found)


def test_no_effects_are_seldom_significant_and_give_bradley_terry():
    pools = [drawn(25, 1, 0.0, stream(9, k), n=5) for k in range(30)]
    found = [fit_question_effects(pool) for pool in pools]
    none = [(pool, fit) for pool, fit in zip(pools, found, strict=True) if fit.sigma == 0]
    assert len(none) >= 8 and sum(fit.p_value < 0.05 for fit in found) <= 5
    for pool, fit in none:
        plain = bradley_terry(*pool.counts())
        np.testing.assert_allclose(fit.theta, plain.scores, atol=1e-6)
        assert fit.log_marginal == pytest.approx(plain.fit.log_likelihood) and fit.p_value == 1


def test_a_row_of_weights_is_its_pool_of_copies():
    pool = drawn(10, 2, 1.0, np.random.default_rng(4), n=4)
    times = np.random.default_rng(5).multinomial(10, np.full(10, 0.1), size=3)
    batch = rank_question_effects_batch(pool, np.repeat(times, 2, axis=1))
    for row, scores in zip(times, batch.scores, strict=True):
        copies = [(q, c) for q in range(10) for c in range(row[q])]
        graphs = np.concatenate([pool.adjacency[pool.blocks == q] for q, _ in copies])
        blocks = np.repeat([10 * q + c for q, c in copies], 2)
        again = fit_question_effects(Pool.of(graphs, blocks), on_separation="ridge")
        np.testing.assert_allclose(again.theta, scores, atol=1e-4)
        weighted = fit_question_effects(pool, np.repeat(row, 2), on_separation="ridge")
        assert weighted.sigma == pytest.approx(again.sigma, abs=1e-4)


def test_uneven_copies_of_the_graphs_of_a_question():
    "Weights 2 and 1: one copy of the question with both graphs, one with the first alone."
    pool = drawn(6, 2, 1.0, np.random.default_rng(6), n=4)
    weights = np.ones(12, dtype=int)
    weights[0] = 2
    graphs = np.concatenate([pool.adjacency, pool.adjacency[:1]])
    again = fit_question_effects(Pool.of(graphs, np.append(pool.blocks, 99)), on_separation="ridge")
    found = fit_question_effects(pool, weights, on_separation="ridge")
    assert (found.sigma, found.log_marginal) == pytest.approx((again.sigma, again.log_marginal), abs=1e-5)


def test_what_cannot_be_estimated_is_refused_in_one_line():
    order = np.triu(np.ones((3, 3), dtype=bool), 1)
    sure = Pool.of(np.array([order] * 6), models=["best", "mid", "last"])
    with pytest.raises(NoMaximumError, match="never beat or tied") as caught:
        fit_question_effects(sure)
    assert caught.value.above == ("best",)
    single = np.zeros((6, 2, 2), dtype=bool)
    single[:4, 0, 1], single[4:, 1, 0] = True, True
    with pytest.raises(InputError, match="share a model") as caught:
        fit_question_effects(Pool.of(single))
    assert "\n" not in str(caught.value)
    opposite = Pool.of(np.array([order] * 12 + [order.T] * 4))
    with pytest.raises(NoMaximumError, match="contradicts itself"):
        fit_question_effects(opposite)
    fallback = fit_question_effects(opposite, on_separation="ridge")
    assert fallback.ridge > 0 and fallback.theta[0] > fallback.theta[1] > fallback.theta[2]


def test_intervals_from_one_fit_cover_as_those_of_the_covariance():
    pool = drawn(20, 2, 1.0, np.random.default_rng(7), n=5)
    fit = fit_question_effects(pool)
    table = fitted_intervals(pool, n_draws=50_000, rng=stream(1)).table("percentile")
    table = table.set_index("model").loc[list(pool.models)]
    half = 1.959964 * np.sqrt(np.diag(fit.covariance))
    np.testing.assert_allclose(table["score_high"] - fit.theta, half, rtol=0.05)
    np.testing.assert_allclose(fit.theta - table["score_low"], half, rtol=0.05)


def as_table(pool):
    rows = []
    for g, graph in enumerate(pool.adjacency):
        for i, j in zip(*np.triu_indices(pool.n_models, 1), strict=True):
            rows.append(("j", int(pool.blocks[g]), "c", g, f"m{i}", f"m{j}", "a" if graph[i, j] else "b"))
    return pd.DataFrame(rows, columns=COLUMNS)


def test_the_command_prints_sigma_with_its_interval(tmp_path, ppe_main):
    pool = drawn(15, 2, 1.5, np.random.default_rng(11), n=4)
    as_table(pool).to_csv(path := tmp_path / "table.csv", index=False)
    fit = fit_question_effects(pool)
    found = ppe_main("rank", path, "--ranker", "question-effects", "--format", "json").json()
    assert found["fit"]["sigma"] == pytest.approx(fit.sigma, rel=1e-6)
    assert found["fit"]["sigma_low"] == pytest.approx(fit.sigma_low, rel=1e-3)
    scores = {row["model"]: row["score"] for row in found["models"]}
    assert scores == pytest.approx({f"m{k}": fit.theta[k] for k in range(4)}, abs=1e-6)
    text = ppe_main("rank", path, "--ranker", "question-effects", "--intervals", "40").out
    assert f"sigma {fit.sigma:.4f} logits (95 %: {fit.sigma_low:.4f} to {fit.sigma_high:.4f})" in text
    assert "rank_low" in text


def test_the_command_refuses_single_verdicts(tmp_path, ppe_main):
    rows = [("j", q, "c", 0, "x", "y", "ab"[q % 3 == 0]) for q in range(9)]
    pd.DataFrame(rows, columns=COLUMNS).to_csv(path := tmp_path / "single.csv", index=False)
    done = ppe_main("rank", path, "--ranker", "question-effects")
    assert done.code == 2 and "share a model" in done.err and len(done.err.splitlines()) == 1 and not done.out

"""Question effects: uneven copies, intervals from one fit, and the command line."""

import numpy as np
import pandas as pd
import pytest
from conftest import COLUMNS
from scipy import special

from ppe.inference.intervals import fitted_intervals
from ppe.pool import Pool
from ppe.rankers.question_effects import fit_question_effects
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


def test_uneven_copies_of_the_graphs_of_a_question():
    "Weights 2 and 1: one copy of the question with both graphs, one with the first alone."
    pool = drawn(6, 2, 1.0, np.random.default_rng(6), n=4)
    weights = np.ones(12, dtype=int)
    weights[0] = 2
    graphs = np.concatenate([pool.adjacency, pool.adjacency[:1]])
    again = fit_question_effects(Pool.of(graphs, np.append(pool.blocks, 99)), on_separation="ridge")
    found = fit_question_effects(pool, weights, on_separation="ridge")
    assert (found.sigma, found.log_marginal) == pytest.approx((again.sigma, again.log_marginal), abs=1e-5)


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

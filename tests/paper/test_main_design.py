"""The design on simulated pools: sweeps, one list of graphs for all rankers, the pools of appendix C.2."""

from dataclasses import replace

import numpy as np
import pytest
from definitions import definitions

from ppe.inference.graph_selection import MAIN_METHODS, METHODS
from ppe.paper.printed_numbers import PRINTED_METHODS
from ppe.paper.reference_pools import simulated_pools
from ppe.paper.studies.main_design import keep_k, sweep, tuned_methods
from ppe.pool import comparison_graphs
from ppe.random_streams import stream
from ppe.rankers.distances import DISTANCES, spearman_distance
from ppe.rankers.registry import PAPER_RANKERS, rank_batch
from ppe.sources.simulated import load_parameters, simulate

SEED = 20260324


@pytest.fixture(scope="module")
def cells():
    return simulated_pools(seed=SEED, categories=["math", "writing"])


def lowest(pool, k, mu=1.0):
    score = [float(c3 + mu * c4) for c3, c4 in zip(pool.cycles.c3_bad, pool.cycles.c4_bad, strict=True)]
    return sorted(range(len(score)), key=lambda graph: (score[graph], graph))[:k]


def agrees(found, cell, pool, chosen):
    """The Spearman distance of the ranking by wins and half ties, by the printed formula; None where points tie.

    On complete graphs this is the Bradley–Terry ranking: points are one increasing function of the score.
    """
    beats = pool.adjacency[chosen]
    points = (beats - 0.5 * (beats & beats.swapaxes(1, 2))).sum(axis=(0, 2))
    n = len(points)
    if len(set(points.tolist())) < n:
        return None
    ranks = np.array([1 + (points > own).sum() for own in points])
    return np.isclose(found, 6 * ((ranks - cell.reference) ** 2).sum() / (n * (n * n - 1)) / 2)


def once(curve, key, n_values, n_resamples):
    "Spearman's distances of the kept graphs ranked once, by judge and what is swept; the draw stands beside."
    assert len(curve) == 2 * 2 * n_values * len(DISTANCES) and set(curve["draw"]) == {"once", "subsample"}
    assert (curve.query("draw == 'subsample'")["n_resamples"] == n_resamples).all()
    found = curve.query("draw == 'once'")
    assert (found["n_resamples"] == 1).all() and (found["low"] == found["high"]).all()
    return found.query("metric == 'spearman'").set_index(["judge", key])["distance"]


@pytest.mark.parametrize("source", ["pool", "replicated"])
def test_a_keep_k_curve_ranks_the_kept_graphs_once_and_shows_the_draw_beside(cells, source):
    budgets, seen = (3, 20, 25, 40, 50), []
    for pair in (cells[::2], cells[1::2]):  # one category under both judges
        found = once(keep_k(pair, budgets=budgets, n_resamples=4, seed=1, source=source), "k", len(budgets), 4)
        for cell in pair:
            pool = cell.sources[source]
            seen += [agrees(found[cell.judge, k], cell, pool, lowest(pool, k)) for k in budgets]
    assert False not in seen and seen.count(True) >= 8


def test_a_mu_sweep_ranks_the_kept_graphs_once_and_shows_the_draw_beside():
    mus, seen = (0.1, 1.0, 10.0), []
    mu_sweep = definitions("figures/fig_mu.ipynb").mu_sweep
    found = once(mu_sweep(mus=mus, n_resamples=3, seed=SEED, categories=["coding"]), "mu", len(mus), 3)
    for cell in simulated_pools(seed=SEED, categories=["coding"], replicated=False):
        seen += [agrees(found[cell.judge, mu], cell, cell.pool, lowest(cell.pool, 25, mu)) for mu in mus]
    assert False not in seen and seen.count(True) >= 3


def test_every_ranker_gets_the_lists_of_the_main_table(cells):
    frame = definitions("tables/tab_ranker_robustness.ipynb").ranker_table(cells, n_resamples=3, seed=2)
    assert frame["method"].unique().tolist() == list(PRINTED_METHODS) and set(frame["ranker"]) == set(PAPER_RANKERS)
    assert len(frame) == 2 * len(PRINTED_METHODS) * len(PAPER_RANKERS) * len(DISTANCES)
    table = frame[frame["metric"] == "spearman"].set_index(["judge", "method", "ranker"])["distance"]
    # ScoreWin40 gives up its own ranker: Copeland's is one of five here.
    own = sweep(cells, [MAIN_METHODS["ScoreWin40"]], study="rankers", n_resamples=3, seed=2, metrics=["spearman"])
    own = own.set_index("judge")["distance"]
    assert all(table[judge, "ScoreWin40", "copeland"] == own[judge] for judge in own.index)
    assert any(table[judge, "ScoreWin40", "bradley-terry"] != own[judge] for judge in own.index)
    # Single→20 keeps what is best under the ranker of the study, whichever ranker it is handed to.
    for judge in own.index:
        part, distances = [cell for cell in cells if cell.judge == judge], []
        best = tuned_methods([METHODS["Single→20"]], part, seed=2)[0].keep
        for cell in part:
            original = (cell.pool.index["variant"] == 1).to_numpy()
            chosen = [graph for graph in lowest(cell.pool, len(cell.pool)) if original[graph]][:best]
            ranks = rank_batch(cell.pool, np.bincount(chosen, minlength=len(cell.pool))[None], ranker="copeland").ranks
            distances.append(spearman_distance(ranks[0], cell.reference))
        assert np.isclose(table[judge, "Single→20", "copeland"], np.mean(distances))


def test_the_rewrites_are_those_of_a_pool_with_its_original():
    benchmark_cells, parameters = (
        definitions("tables/tab_benchmarks_judge_prompts.ipynb").benchmark_cells,
        load_parameters(),
    )
    cell, _ = benchmark_cells(seed=3)["judge-prompt"]
    root = int(stream(3, "benchmarks").integers(2**31))
    six = replace(parameters, wording_points=0.0, n_variants=6)
    verdicts = simulate(seed=root, judges=cell.judge, categories=cell.category, parameters=six).verdicts
    graphs = comparison_graphs(verdicts[verdicts["variant"] > 1])
    assert np.array_equal(graphs.adjacency, cell.pool.adjacency)

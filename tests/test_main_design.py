"""The design on simulated pools: sweeps, one list of graphs for all rankers, the pools of appendix C.2."""

from dataclasses import replace

import numpy as np
import pytest

from ppe.inference.methods import MAIN_METHODS
from ppe.paper.published import METHODS as PAPER_METHODS
from ppe.paper.referenced import Referenced, simulated_pools
from ppe.paper.simulated import load_parameters, simulate
from ppe.paper.studies.main_design import benchmark_cells, best_single_keep, keep_k, mu_sweep, ranker_table, sweep
from ppe.pool import comparison_graphs
from ppe.rankers.rankings import DISTANCES, spearman_distance
from ppe.rankers.registry import PAPER_RANKERS, rank_batch
from ppe.streams import stream

SEED = 20260324


@pytest.fixture(scope="module")
def cells() -> list[Referenced]:
    return simulated_pools(seed=SEED, categories=["math", "writing"])


def distance_by_points(cell: Referenced, chosen: list[int]) -> float | None:
    """Spearman distance of the ranking by wins and half ties, by the printed formula; None where points tie.

    On complete graphs this is the Bradley–Terry ranking: points are one increasing function of the score.
    """
    beats = cell.pool.adjacency[chosen]
    points = (beats - 0.5 * (beats & beats.swapaxes(1, 2))).sum(axis=(0, 2))
    if len(set(points.tolist())) < len(points):
        return None
    ranks = np.array([1 + (points > own).sum() for own in points])
    n = len(points)
    return 6 * ((ranks - cell.reference) ** 2).sum() / (n * (n * n - 1)) / 2


def lowest(cell: Referenced, k: int, mu: float = 1.0) -> list[int]:
    counts = cell.pool.cycles
    score = [float(c3 + mu * c4) for c3, c4 in zip(counts.c3_bad, counts.c4_bad, strict=True)]
    return sorted(range(len(score)), key=lambda graph: (score[graph], graph))[:k]


@pytest.mark.parametrize("source", ["pool", "replicated"])
def test_a_keep_k_curve_ranks_the_kept_graphs_once_and_shows_the_draw_beside(cells: list[Referenced], source: str):
    budgets, compared = (3, 20, 25, 40, 50), 0
    for cell in cells:
        curve = keep_k([cell], budgets=budgets, n_resamples=4, seed=1, source=source)
        assert len(curve) == 2 * len(budgets) * len(DISTANCES) and set(curve["draw"]) == {"once", "subsample"}
        once = curve.query("draw == 'once'")
        assert (once["n_resamples"] == 1).all() and (once["low"] == once["high"]).all()
        assert (curve.query("draw == 'subsample'")["n_resamples"] == 4).all()
        spearman = once.query("metric == 'spearman'").set_index("k")["distance"]
        for k in budgets:
            own = replace(cell, pool=cell.sources[source])
            if (expected := distance_by_points(own, lowest(own, k))) is not None:
                assert np.isclose(spearman[k], expected)
                compared += 1
    assert compared >= 8


def test_a_mu_sweep_ranks_the_kept_graphs_once_and_shows_the_draw_beside():
    mus, compared = (0.1, 1.0, 10.0), 0
    curve = mu_sweep(mus=mus, n_resamples=3, seed=SEED, categories=["coding"])
    assert len(curve) == 2 * 2 * len(mus) * len(DISTANCES)
    once = curve.query("draw == 'once' and metric == 'spearman'").set_index(["judge", "mu"])["distance"]
    for cell in simulated_pools(seed=SEED, categories=["coding"], replicated=False):
        for mu in mus:
            if (expected := distance_by_points(cell, lowest(cell, 25, mu))) is not None:
                assert np.isclose(once[cell.judge, mu], expected)
                compared += 1
    assert compared >= 3


def test_every_ranker_gets_the_lists_of_the_main_table(cells: list[Referenced]):
    frame = ranker_table(cells, n_resamples=3, seed=2)
    assert frame["method"].unique().tolist() == list(PAPER_METHODS) and set(frame["ranker"]) == set(PAPER_RANKERS)
    assert len(frame) == 2 * len(PAPER_METHODS) * len(PAPER_RANKERS) * len(DISTANCES)
    table = frame.set_index(["judge", "method", "ranker", "metric"])["distance"]
    judges = list(dict.fromkeys(cell.judge for cell in cells))
    # ScoreWin40 gives up its own ranker: Copeland's is one of five here.
    own = sweep(cells, [MAIN_METHODS["ScoreWin40"]], study="rankers", n_resamples=3, seed=2)
    own = own.set_index(["judge", "metric"])["distance"]
    for judge in judges:
        assert table[judge, "ScoreWin40", "copeland", "spearman"] == own[judge, "spearman"]
    assert any(table[judge, "ScoreWin40", "bradley-terry", "spearman"] != own[judge, "spearman"] for judge in judges)
    # Single→20 keeps what is best under the ranker of the study, whichever ranker it is handed to.
    for judge in judges:
        part = [cell for cell in cells if cell.judge == judge]
        best = best_single_keep(part, seed=2)
        for ranker in ("bradley-terry", "copeland"):
            distances = []
            for cell in part:
                weights = np.bincount(lowest_originals(cell, best), minlength=len(cell.pool))
                ranks = rank_batch(cell.pool, weights[None], ranker=ranker).ranks[0]
                distances.append(spearman_distance(ranks, cell.reference))
            assert np.isclose(table[judge, "Single→20", ranker, "spearman"], np.mean(distances))


def lowest_originals(cell: Referenced, k: int) -> list[int]:
    originals = np.flatnonzero((cell.pool.index["variant"] == 1).to_numpy()).tolist()
    order = lowest(cell, len(cell.pool))
    return [graph for graph in order if graph in originals][:k]


def test_the_rewrites_are_those_of_a_pool_with_its_original():
    (cell, _), parameters = benchmark_cells(seed=3)["judge-prompt"], load_parameters()
    root = int(stream(3, "benchmarks").integers(2**31))
    six = replace(parameters, wording_points=0.0, n_variants=6)
    verdicts = simulate(seed=root, judges=cell.judge, categories=cell.category, parameters=six).verdicts
    graphs = comparison_graphs(verdicts[verdicts["variant"] > 1])
    assert np.array_equal(graphs.adjacency, cell.pool.adjacency)

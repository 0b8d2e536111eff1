"""Cycles of majorities against enumeration and networkx, limits by hand, and what the truth has planted."""

import networkx as nx
import numpy as np
import pytest
from definitions import definitions

from ppe.inference.real_cycles import real_cycles
from ppe.pool import Pool
from ppe.random_streams import stream

SEED = 20260324


def random_graphs(n_graphs, n_models, *, tie_rate=0.2, missing=0.1, lean=0.5):
    "Verdicts at random: ties, missing pairs, and a lean towards the model of the smaller number."
    rng, (i, j) = stream(SEED, "graphs", n_graphs, n_models), np.triu_indices(n_models, 1)
    met, tied, first = rng.random((3, n_graphs, len(i))) < np.array([1 - missing, tie_rate, lean])[:, None, None]
    graphs = np.zeros((n_graphs, n_models, n_models), dtype=bool)
    graphs[:, i, j], graphs[:, j, i] = met & (tied | first), met & (tied | ~first)
    return graphs


def margins_by_hand(graphs):
    "Share of wins less share of losses."
    back = np.swapaxes(graphs, 1, 2)
    won, met = (graphs & ~back).sum(axis=0), (graphs | back).sum(axis=0)
    return (won - won.T) / np.maximum(met, 1)


def cycles_by_hand(margins):
    "Directed triangles by networkx."
    graph = nx.DiGraph([(i, j) for i, j in np.argwhere(margins > 0).tolist()])
    found = [cycle for cycle in nx.simple_cycles(graph, length_bound=3) if len(cycle) == 3]
    return sorted(tuple(np.roll(cycle, -int(np.argmin(cycle))).tolist()) for cycle in found)


@pytest.mark.parametrize(("n_models", "missing"), [(3, 0.0), (9, 0.5)])
def test_majority_cycles_are_those_of_enumeration(n_models, missing):
    graphs = random_graphs(7, n_models, missing=missing)
    found = real_cycles(Pool.of(graphs), n_resamples=19, rng=stream(SEED))
    margins = margins_by_hand(graphs)
    assert np.allclose(found.margins, margins)
    assert sorted(map(tuple, found.cycles.tolist())) == cycles_by_hand(margins)
    count = definitions("figures/fig_real_cycles.ipynb").count_majority_cycles
    assert count(np.stack([margins, -margins])).tolist() == [len(found.cycles)] * 2
    strict = nx.Graph([tuple(pair) for pair in np.argwhere(margins != 0).tolist()])
    assert found.n_triples == sum(nx.triangles(strict).values()) // 3


def test_limits_are_those_of_the_bootstrap_written_out():
    "Every resample stacked graph by graph, its margins counted anew; the standard errors by the definition."
    graphs = random_graphs(24, 4, missing=0.0, lean=0.6)
    blocks = np.repeat(np.arange(12), 2)
    found = real_cycles(Pool.of(graphs, blocks), n_resamples=39, level=0.9, rng=stream(SEED, "limits"))
    times = stream(SEED, "limits").multinomial(12, np.full(12, 1 / 12), size=39)
    own = np.array([margins_by_hand(graphs[blocks == q]) for q in range(12)])
    pairs = np.triu_indices(4, 1)

    def error(values):
        return np.maximum(values.std(axis=0, ddof=1) / np.sqrt(12), 2 / 13)

    largest = []
    for row in times:
        drawn = np.repeat(own, row, axis=0)[(slice(None), *pairs)]
        largest.append((np.abs(drawn.mean(axis=0) - found.margins[pairs]) / error(drawn)).max())
    half = np.sort(largest)[int(np.ceil(40 * 0.9)) - 1] * error(own[(slice(None), *pairs)])
    assert np.allclose(found.low[pairs], found.margins[pairs] - half)
    assert np.allclose(found.high[pairs], found.margins[pairs] + half)
    low = found.low
    assert found.confident.tolist() == [min(low[i, j], low[j, k], low[k, i]) > 0 for i, j, k in found.cycles]


def test_chance_gives_the_cycles_of_coin_tosses():
    "Level models, one verdict a pair: a triple is a cycle with probability 1/4."
    graphs = random_graphs(1, 6, tie_rate=0, missing=0)
    both = np.concatenate([graphs, np.swapaxes(graphs, 1, 2)])  # every pair one win each: the fit is level
    cycles_by_chance = definitions("figures/fig_real_cycles.ipynb").cycles_by_chance
    drawn = cycles_by_chance(Pool.of(np.concatenate([both, both])), n_pools=2000, rng=stream(SEED, "coins"))
    # Four verdicts a pair: strict with probability 5/8, so a cycle with (5/8)³ / 4.
    expected = 20 * (5 / 8) ** 3 / 4
    assert abs(drawn.mean() - expected) < 4 * drawn.std() / np.sqrt(2000)

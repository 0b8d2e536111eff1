"""The replay of designs against loops, enumeration, and runs whose unasked verdicts are turned round."""

from itertools import combinations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import t as student

from ppe.paper.studies.designs import (
    BLOCKS,
    KINDS,
    PEERS,
    STATIC,
    Recorded,
    Replay,
    arena_weights,
    block_size,
    call_ratio,
    choose_calls,
    halves,
    peer_calls,
    question_groups,
    ratio_table,
    replay_sets,
    swiss_round,
    tree_round,
)
from ppe.pool import Pool
from ppe.rankers.bradley_terry import bradley_terry


def verdicts(seed, *, n_questions=24, n=8, sigma=1.0, ties=0.2, name="drawn"):
    "A set of complete graphs of models that lie evenly, with effects of questions."
    rng = np.random.default_rng(seed)
    utility = np.linspace(1.5, -1.5, n) + sigma * rng.standard_normal((n_questions, n))
    forth = rng.random((n_questions, n, n)) < expit(utility[:, :, None] - utility[:, None])
    forth = np.triu(forth, 1) | np.tril(~np.swapaxes(np.triu(forth, 1), 1, 2), -1)
    tied = np.triu(rng.random(forth.shape) < ties, 1)
    return Recorded.of(name, name, Pool.of(forth | tied | np.swapaxes(tied, 1, 2)))


def rows(calls):
    return list(zip(*(part.tolist() for part in calls), strict=True))


# ---- what calls say and cost


def test_the_place_counts_only_where_both_orders_were_judged():
    ordered = np.full((1, 3, 3), np.nan)
    ordered[0, 0, 1], ordered[0, 1, 0] = 1, 1  # whoever is shown first wins
    ordered[0, 2, 0], ordered[0, 1, 2] = 0, 0.5  # one order only
    adjacency = np.array([[[0, 1, 1], [0, 0, 1], [0, 1, 0]]], dtype=bool)
    found = Recorded.of("s", "s", Pool.of(adjacency), ordered).points[0]
    assert np.array_equal(found, [[0, 1, 1], [1, 0, 0.5], [0, 0.5, 0]])
    assert np.array_equal(Recorded.of("s", "s", Pool.of(adjacency)).points[0], [[0, 1, 1], [0, 0, 0.5], [0, 0.5, 0]])


def test_several_graphs_of_a_question_are_one_question_and_all_count_in_the_reference():
    one, two = verdicts(3, n_questions=4, n=5), verdicts(4, n_questions=4, n=5)
    graphs = np.concatenate([points >= 0.5 for points in (one.points, two.points)]) & ~np.eye(5, dtype=bool)
    found = Recorded.of("s", "s", Pool.of(graphs, np.tile(np.arange(4), 2)))
    assert np.array_equal(found.points, one.points)
    assert np.array_equal(found.wins, one.wins + two.wins) and np.array_equal(found.ties, one.ties + two.ties)


# ---- ways to spend calls


@pytest.mark.parametrize("kind", KINDS)
def test_no_verdict_is_asked_for_twice_and_only_those_asked_for_matter(kind):
    points = verdicts(5).points
    calls = choose_calls(kind, points, 190, rng=np.random.default_rng(7))
    asked = {(q, min(i, j), max(i, j)) for q, i, j in rows(calls)}
    assert len(asked) == len(calls[0]) == 190 and all(i != j for _, i, j in rows(calls))
    known = np.zeros(points.shape, dtype=bool)
    for q, i, j in asked:
        known[q, i, j] = known[q, j, i] = True
    turned = np.where(known, points, 1 - points)
    again = choose_calls(kind, turned, 190, rng=np.random.default_rng(7))
    assert rows(again) == rows(calls)
    other = choose_calls(kind, verdicts(19).points, 190, rng=np.random.default_rng(7))
    assert (rows(other) == rows(calls)) == (kind in STATIC)


@pytest.mark.parametrize("kind", (*STATIC, *PEERS))
def test_a_shorter_run_is_the_beginning_of_a_longer_one(kind):
    points = verdicts(6).points
    long, short = (choose_calls(kind, points, size, rng=np.random.default_rng(3)) for size in (280, 56))
    assert rows(short) == rows(long)[:56]


@pytest.mark.parametrize("kind", PEERS)
def test_pairs_of_others_are_spread_over_questions_until_all_is_judged(kind):
    for n_questions, made in ((24, 7), (24, 50), (3, 6), (3, 30)):
        points = verdicts(8, n_questions=n_questions, n=5).points
        calls = peer_calls(PEERS[kind], points, made, rng=np.random.default_rng(made))
        assert np.ptp(np.bincount(calls[0], minlength=n_questions)) <= (1 if made < 30 or n_questions > 3 else 0)
    assert len({(q, min(i, j), max(i, j)) for q, i, j in rows(calls)}) == 30
    assert 5 < sum(i < j for _, i, j in rows(calls)) < 25  # who is shown first is random


def test_blocks_are_whole_and_leave_room():
    points = verdicts(9).points
    assert (block_size(20), block_size(15), block_size(8), block_size(6)) == (6, 6, 4, 3)
    question, first, second = choose_calls("blocks", points, 10_000, rng=np.random.default_rng(1))
    assert len(question) == int(BLOCKS * 24) * 6
    for start in range(0, len(question), 6):
        assert (
            len(set(question[start : start + 6])) == 1
            and len(set(first[start : start + 6]) | set(second[start : start + 6])) == 4
        )


def test_arena_weights_are_how_much_one_more_vote_narrows_the_interval():
    half = np.array([[0, 3, 0], [1, 0, 2.5], [0, 2.5, 0]])
    found = arena_weights(half)
    for i, j in combinations(range(3), 2):
        a, b = half[i, j] + 0.5, half[j, i] + 0.5
        outcomes = a * (1 - a / (a + b)) ** 2 + b * (a / (a + b)) ** 2  # sum of squares around the mean
        variance = outcomes / (a + b)
        assert np.isclose(found[i, j], np.sqrt(variance / (a + b)) - np.sqrt(variance / (a + b + 1))) and np.isclose(
            found[j, i], found[i, j]
        )
    assert found[0, 2] > max(found[0, 1], found[1, 2])  # never met


def test_swiss_rounds_pair_equal_points_and_nobody_twice():
    rng = np.random.default_rng(4)
    half, left = np.zeros((7, 7)), ~np.eye(7, dtype=bool)
    for made in range(12):
        first, second = swiss_round(half, left, rng)
        assert len(first) == 3 and len({*first.tolist(), *second.tolist()}) == 6
        points = half.sum(axis=1)
        (out,) = set(range(7)) - {*first.tolist(), *second.tolist()}
        met = (half + half.T).sum(axis=1)
        assert met[out] == met.max()
        order = sorted((points[model] for model in range(7) if model != out), reverse=True)
        gaps = sorted(abs(points[first] - points[second]).tolist())
        assert np.isclose(sum(gaps), sum(order[0::2]) - sum(order[1::2])), made  # neighbours in the order of points
        for i, j in zip(first, second, strict=True):
            half[i, j] += 1


def test_swiss_meets_the_next_where_a_pair_is_used_up():
    half = np.zeros((4, 4))
    half[0, 1:], half[1, 2:], half[2, 3] = 1, 1, 1  # 3, 2, 1, 0 points
    left = ~np.eye(4, dtype=bool)
    left[0, 1] = left[1, 0] = False
    first, second = swiss_round(half, left, np.random.default_rng(0))
    assert set(zip(first.tolist(), second.tolist(), strict=True)) == {(0, 2), (1, 3)}


@pytest.mark.parametrize("seed", range(3))
def test_the_tree_is_the_best_of_all_125(seed):
    rng, n = np.random.default_rng(seed), 5
    half = rng.integers(0, 6, (n, n)) * (1.0 - np.eye(n))
    known = half + 0.5 * (1 - np.eye(n))
    theta = bradley_terry(known, np.zeros((n, n))).scores
    covariance = np.zeros((n, n))
    for i, j in combinations(range(n), 2):  # Laplacian, edge by edge
        edge = np.eye(n)[i] - np.eye(n)[j]
        covariance += (
            (known[i, j] + known[j, i]) * expit(theta[i] - theta[j]) * expit(theta[j] - theta[i]) * np.outer(edge, edge)
        )
    covariance = np.linalg.pinv(covariance)

    def entropy(p):
        return -(p * np.log(p) + (1 - p) * np.log(1 - p))

    def information(i, j):
        edge = np.eye(n)[i] - np.eye(n)[j]
        mean, sd = theta[i] - theta[j], np.sqrt(edge @ covariance @ edge)

        def expected(of):
            return quad(lambda z: of(expit(mean + sd * z)) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), -9, 9)[0]

        return entropy(expected(lambda p: p)) - expected(entropy)

    pairs = list(combinations(range(n), 2))
    price = {pair: 1 / information(*pair) for pair in pairs}

    def is_tree(edges):
        group = list(range(n))
        for i, j in edges:
            if group[i] == group[j]:
                return False
            group = [group[i] if g == group[j] else g for g in group]
        return True

    trees = [edges for edges in combinations(pairs, n - 1) if is_tree(edges)]
    assert len(trees) == 125
    best = min(trees, key=lambda edges: sum(price[edge] for edge in edges))
    assert set(zip(*(part.tolist() for part in tree_round(half, ~np.eye(n, dtype=bool), rng)), strict=True)) == set(
        best
    )


# ---- many replays


def test_left_out_groups_are_a_partition_and_the_split_is_one_for_all_kinds():
    recorded = verdicts(12)
    groups = question_groups(recorded, n_groups=5, seed=1)
    assert sorted(np.concatenate(groups).tolist()) == list(range(24))
    whole, part = halves(recorded, np.array([], dtype=int), 3, seed=1), halves(recorded, groups[0], 3, seed=1)
    order = [q for half in whole for q in half.tolist() if q not in groups[0]]
    assert [q for half in part for q in half.tolist()] == order


def test_the_number_of_processes_and_of_repetitions_changes_nothing():
    recorded = [verdicts(13), verdicts(14, n=6, name="other")]
    settings = dict(kinds=["spread", "adaptive"], graphs=[1, 3], n_groups=2, seed=9)
    once = replay_sets(recorded, n_repetitions=52, n_group_repetitions={"adaptive": 3}, **settings)
    twice = replay_sets(recorded, n_repetitions=52, n_group_repetitions={"adaptive": 3}, workers=2, **settings)
    fewer = replay_sets(recorded[1:], n_repetitions=4, **settings)
    for one, two in zip(once, twice, strict=True):
        for kind in one.distances:
            assert np.array_equal(one.distances[kind], two.distances[kind]) and np.array_equal(
                one.without[kind], two.without[kind]
            )
        assert one.without["adaptive"].shape == (2, 3, 2) and one.without["spread"].shape == (2, 52, 2)
    assert np.array_equal(fewer[0].distances["adaptive"], once[1].distances["adaptive"][:4])


def test_the_jackknife_interval_is_the_formula():
    sizes, graphs = (10, 20, 40, 80), (1.0, 2.0, 4.0, 8.0)
    base = np.array([0.4, 0.2, 0.1, 0.05])
    factors = np.array([0.8, 1.0, 1.3])
    # Without noise of repetitions; group by group the second kind needs these shares of the calls.
    replay = Replay(
        verdicts(15, n_questions=3),
        sizes,
        graphs,
        {"complete": np.tile(base, (6, 1)), "spread": np.tile(base / 2, (6, 1))},
        {},
        {
            "complete": np.tile(base, (3, 2, 1)),
            "spread": np.stack([np.tile(base / 2 * factor, (2, 1)) for factor in factors]),
        },
    )
    row = ratio_table([replay], kinds=["spread"], graphs=[4], seed=1).iloc[0]
    assert (
        np.isclose(row["ratio"], 0.5) and row["calls"] == 40 and np.isclose(row["distance"], 0.1) and not row["bound"]
    )
    assert np.isclose(row["low"], 0.5) and np.isclose(row["high"], 0.5)
    logs = np.log(factors / 2)  # the distance falls as one over the calls
    width = student.isf(0.025, 2) * np.sqrt(2 / 3 * ((logs - logs.mean()) ** 2).sum())
    assert np.allclose([row["question_low"], row["question_high"]], [0.5 * np.exp(-width), 0.5 * np.exp(width)])
    assert ratio_table([replay], kinds=["spread"], graphs=[1], seed=1).iloc[0]["bound"]
    assert np.isclose(call_ratio(sizes, {"complete": base, "spread": base}, "spread", 2), 1)


# ---- simulated pools

"""The replay of designs against loops, enumeration, and runs whose unasked verdicts are turned round."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import t as student

from ppe.errors import InputError
from ppe.paper.studies.designs import (
    BLOCKS,
    KINDS,
    PAPER,
    PAPER_ANSWERS,
    PAPER_CALLS,
    PEERS,
    STATIC,
    Recorded,
    Replay,
    answers_needed,
    arena_weights,
    block_size,
    call_counts,
    call_ratio,
    calls_needed,
    choose_calls,
    halves,
    judged_graphs,
    paper_pool,
    peer_calls,
    question_groups,
    ratio_table,
    replay_sets,
    replay_simulated,
    swiss_round,
    tree_round,
)
from ppe.pool import Pool
from ppe.rankers.bradley_terry import bradley_terry
from ppe.rankers.rankings import spearman_distance


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


def test_counts_and_answers_are_those_of_a_loop():
    points = verdicts(1).points
    rng = np.random.default_rng(2)
    calls = tuple(
        np.array(part)
        for part in zip(*[(q, *rng.permutation(8)[:2]) for q in rng.integers(0, 24, 90)], strict=True)
    )
    sizes = [1, 7, 40, 90]
    wins, ties = call_counts(points, calls, sizes)
    own, tied, seen, at = np.zeros((8, 8)), np.zeros((8, 8)), set(), 0
    for made, (q, i, j) in enumerate(rows(calls), 1):
        if points[q, i, j] == 0.5:
            tied[i, j] += 1
            tied[j, i] += 1
        elif points[q, i, j] == 1:
            own[i, j] += 1
        else:
            own[j, i] += 1
        seen |= {(q, i), (q, j)}
        assert answers_needed(calls, 8)[made - 1] == len(seen)
        if made == sizes[at]:
            assert np.array_equal(wins[at], own) and np.array_equal(ties[at], tied)
            at += 1
    assert at == len(sizes)


def test_the_place_counts_only_where_both_orders_were_judged():
    ordered = np.full((1, 3, 3), np.nan)
    ordered[0, 0, 1], ordered[0, 1, 0] = 1, 1  # whoever is shown first wins
    ordered[0, 2, 0], ordered[0, 1, 2] = 0, 0.5  # one order only
    adjacency = np.array([[[0, 1, 1], [0, 0, 1], [0, 1, 0]]], dtype=bool)
    found = Recorded.of("s", "s", Pool.of(adjacency), ordered).points[0]
    assert np.array_equal(found, [[0, 1, 1], [1, 0, 0.5], [0, 0.5, 0]])
    assert np.array_equal(
        Recorded.of("s", "s", Pool.of(adjacency)).points[0], [[0, 1, 1], [0, 0, 0.5], [0, 0.5, 0]]
    )


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
        assert np.ptp(np.bincount(calls[0], minlength=n_questions)) <= (
            1 if made < 30 or n_questions > 3 else 0
        )
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
        assert np.isclose(
            found[i, j], np.sqrt(variance / (a + b)) - np.sqrt(variance / (a + b + 1))
        ) and np.isclose(found[j, i], found[i, j])
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
        assert np.isclose(sum(gaps), sum(order[0::2]) - sum(order[1::2])), (
            made
        )  # neighbours in the order of points
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
            (known[i, j] + known[j, i])
            * expit(theta[i] - theta[j])
            * expit(theta[j] - theta[i])
            * np.outer(edge, edge)
        )
    covariance = np.linalg.pinv(covariance)

    def entropy(p):
        return -(p * np.log(p) + (1 - p) * np.log(1 - p))

    def information(i, j):
        edge = np.eye(n)[i] - np.eye(n)[j]
        mean, sd = theta[i] - theta[j], np.sqrt(edge @ covariance @ edge)

        def expected(of):
            return quad(lambda z: of(expit(mean + sd * z)) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), -9, 9)[
                0
            ]

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
    assert set(
        zip(*(part.tolist() for part in tree_round(half, ~np.eye(n, dtype=bool), rng)), strict=True)
    ) == set(best)


# ---- many replays


def test_a_replay_is_the_distance_between_two_rankings_on_other_questions():
    recorded = verdicts(11)
    (found,) = replay_sets(
        [recorded], kinds=["complete", "swiss"], graphs=[1, 4], n_repetitions=3, n_groups=2, seed=5
    )
    for group, distances in (
        (-1, found.distances),
        *((g, {kind: found.without[kind][g] for kind in found.without}) for g in range(2)),
    ):
        gone = question_groups(recorded, n_groups=2, seed=5)[group] if group >= 0 else np.array([], dtype=int)
        for repetition in range(3):
            spent, rest = halves(recorded, gone, repetition, seed=5)
            assert not set(spent) & set(rest) and not (set(spent) | set(rest)) & set(gone)
            assert len(spent) + len(rest) + len(gone) == 24 and len(rest) - len(spent) in (0, 1)
            reference = bradley_terry(recorded.wins[rest].sum(axis=0), recorded.ties[rest].sum(axis=0)).ranks
            assert distances["complete"].shape == (3, 2)
            # Four complete graphs, whichever they are: the distance of one of the sets of four questions.
            possible = {
                round(
                    float(
                        spearman_distance(
                            bradley_terry(
                                recorded.wins[list(four)].sum(axis=0),
                                recorded.ties[list(four)].sum(axis=0),
                                on_separation="ridge",
                            ).ranks,
                            reference,
                        )
                    ),
                    9,
                )
                for four in combinations(spent.tolist(), 4)
            }
            assert round(float(distances["complete"][repetition, 1]), 9) in possible


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
    twice = replay_sets(
        recorded, n_repetitions=52, n_group_repetitions={"adaptive": 3}, workers=2, **settings
    )
    fewer = replay_sets(recorded[1:], n_repetitions=4, **settings)
    for one, two in zip(once, twice, strict=True):
        for kind in one.distances:
            assert np.array_equal(one.distances[kind], two.distances[kind]) and np.array_equal(
                one.without[kind], two.without[kind]
            )
        assert one.without["adaptive"].shape == (2, 3, 2) and one.without["spread"].shape == (2, 52, 2)
    assert np.array_equal(fewer[0].distances["adaptive"], once[1].distances["adaptive"][:4])


def test_calls_needed_are_read_off_in_logarithms():
    rng = np.random.default_rng(0)
    sizes = np.array([10, 30, 50, 100, 400])
    for _ in range(20):
        distances = np.sort(rng.uniform(0.01, 0.4, 5))[::-1]
        level = rng.uniform(distances[-1], distances[0])
        expected = np.exp(np.interp(-np.log(level), -np.log(distances), np.log(sizes)))
        assert np.isclose(calls_needed(sizes, distances, level), expected)
    assert calls_needed(sizes, distances, distances[0] * 2) == 10 and np.isnan(
        calls_needed(sizes, distances, distances[-1] / 2)
    )
    # The first time that the level is reached counts; beyond the last number nothing is known.
    assert np.isclose(calls_needed([1, 2, 4, 8], [0.4, 0.2, 0.3, 0.1], 0.2), 2)
    assert np.isclose(calls_needed([1, 2, 4], [0.4, 0.2, np.nan], 0.2), 2) and np.isnan(
        calls_needed([1, 2, 4], [0.4, 0.2, np.nan], 0.1)
    )


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
        np.isclose(row["ratio"], 0.5)
        and row["calls"] == 40
        and np.isclose(row["distance"], 0.1)
        and not row["bound"]
    )
    assert np.isclose(row["low"], 0.5) and np.isclose(row["high"], 0.5)
    logs = np.log(factors / 2)  # the distance falls as one over the calls
    width = student.isf(0.025, 2) * np.sqrt(2 / 3 * ((logs - logs.mean()) ** 2).sum())
    assert np.allclose(
        [row["question_low"], row["question_high"]], [0.5 * np.exp(-width), 0.5 * np.exp(width)]
    )
    assert ratio_table([replay], kinds=["spread"], graphs=[1], seed=1).iloc[0]["bound"]
    assert np.isclose(call_ratio(sizes, {"complete": base, "spread": base}, "spread", 2), 1)


def test_effects_of_questions_make_the_difference():
    needed = {}
    for sigma in (0.0, 2.0):
        found = [
            replay_sets(
                [verdicts(k, n_questions=60, sigma=sigma, name=f"{k}")],
                kinds=["complete", "spread"],
                n_repetitions=40,
                seed=2,
            )[0]
            for k in range(5)
        ]
        means = {
            kind: np.mean([one.distances[kind].mean(axis=0) for one in found], axis=0)
            for kind in ("complete", "spread")
        }
        needed[sigma] = call_ratio(found[0].sizes, means, "spread", found[0].graphs.index(5))
    assert 0.7 < needed[0.0] < 1.4 and needed[2.0] < 0.55


# ---- simulated pools


def test_what_is_bought_at_the_papers_price_and_how_it_is_ranked():
    replay, answers, bought = replay_simulated(
        kinds=["complete", "spread"], graphs=[1, 10], n_pools=2, n_questions=460, n_resamples=2, seed=3
    )
    assert (PAPER_CALLS, PAPER_ANSWERS) == (9500, 1000) and replay.sizes == (190, 1900)
    for number in range(2):
        pool = paper_pool(number, n_questions=460, seed=3)
        own = bought[(bought["pool"] == number) & (bought["kind"] == PAPER)]
        fit = bradley_terry(*pool.own.counts(), on_separation="ridge")
        assert np.allclose(own["AllGraphs"], spearman_distance(fit.ranks, pool.truth)) and len(own) == 2
        best = pool.own.models[int(np.argmin(pool.truth))]
        assert (pool.own.adjacency.sum(axis=(0, 2))[pool.own.models.index(best)]) > np.median(
            pool.own.adjacency.sum(axis=(0, 2))
        )
        for row in bought[(bought["pool"] == number) & (bought["kind"] != PAPER)].itertuples():
            assert (
                9500 + row.price * 1000 - 3 < row.calls + row.price * row.answers <= 9500 + row.price * 1000
            )
    assert answers["complete"].tolist() == [20, 200] and (answers["spread"] > answers["complete"]).all()


def test_graphs_of_calls_hold_what_was_judged_and_nothing_else():
    points = verdicts(16, n_questions=6).points
    calls = choose_calls("spread", points, 20, rng=np.random.default_rng(1))
    pool = judged_graphs(points, calls)
    used = sorted(set(calls[0].tolist()))
    compared = pool.adjacency | np.swapaxes(pool.adjacency, 1, 2)
    assert len(pool) == len(used) and compared.sum() == 40
    for q, i, j in rows(calls):
        g = used.index(q)
        assert (pool.adjacency[g, i, j], pool.adjacency[g, j, i]) == (
            points[q, i, j] >= 0.5,
            points[q, i, j] <= 0.5,
        )


# ---- refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kinds": ["random"]}, "unknown way to spend calls"),
        ({"n_repetitions": 1}, "at least two repetitions"),
        ({"n_groups": 1}, "no group of questions or at least two"),
        ({"graphs": [2, 2]}, "increase"),
        ({"graphs": [13]}, "verdicts of half of the questions"),
        ({"graphs": [11], "n_groups": 8}, "verdicts of half of the questions"),
        ({"graphs": []}, "no calls"),
    ],
)
def test_impossible_requests_are_one_line(change, words):
    with pytest.raises(InputError, match=words) as caught:
        replay_sets([verdicts(17)], **{"n_repetitions": 2, "seed": 1} | change)
    assert "\n" not in str(caught.value)


def test_too_few_questions_for_simulated_pools_and_unknown_kinds():
    with pytest.raises(InputError, match="room for 9500 calls"):
        replay_simulated(n_pools=2, n_questions=60, n_resamples=2, seed=1)
    with pytest.raises(InputError, match="one of complete"):
        choose_calls("random", verdicts(18).points, 10, rng=np.random.default_rng(0))
    assert replace(verdicts(18), name="x").name == "x"

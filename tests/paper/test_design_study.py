"""The replay of designs: what may not matter to it, and runs whose unasked verdicts are turned round."""

import sys

import numpy as np
import pytest
from definitions import definitions
from scipy.special import expit
from scipy.stats import t as student

from ppe.pool import Pool

study = definitions("figures/fig_design.ipynb")
KINDS, PEERS, STATIC, Recorded = study.KINDS, study.PEERS, study.STATIC, study.Recorded


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


# ---- ways to spend calls


@pytest.mark.parametrize("kind", KINDS)
def test_no_verdict_is_asked_for_twice_and_only_those_asked_for_matter(kind):
    points, other = verdicts(5).points, verdicts(19).points

    def chosen(points):
        return rows(study.choose_calls(kind, points, 190, rng=np.random.default_rng(7)))

    calls, turned = chosen(points), 1 - points
    asked = {(q, *sorted(pair)) for q, *pair in calls}
    assert len(asked) == len(calls) == 190 and all(i < j for _, i, j in asked)
    for q, i, j in asked:
        turned[q, [i, j], [j, i]] = points[q, [i, j], [j, i]]
    assert chosen(turned) == calls
    assert (chosen(other) == calls) == (kind in STATIC)


@pytest.mark.parametrize("kind", (*STATIC, *PEERS))
def test_a_shorter_run_is_the_beginning_of_a_longer_one(kind):
    points = verdicts(6).points
    long, short = (study.choose_calls(kind, points, size, rng=np.random.default_rng(3)) for size in (280, 56))
    assert rows(short) == rows(long)[:56]


def test_blocks_are_whole_and_leave_room():
    points = verdicts(9).points
    assert (study.block_size(20), study.block_size(15), study.block_size(8), study.block_size(6)) == (6, 6, 4, 3)
    question, first, second = study.choose_calls("blocks", points, 10_000, rng=np.random.default_rng(1))
    assert len(question) == int(study.BLOCKS * 24) * 6
    for start in range(0, len(question), 6):
        block = slice(start, start + 6)
        assert len(set(question[block])) == 1 and len({*first[block], *second[block]}) == 4


def test_swiss_meets_the_next_where_a_pair_is_used_up():
    half = np.zeros((4, 4))
    half[0, 1:], half[1, 2:], half[2, 3] = 1, 1, 1  # 3, 2, 1, 0 points
    left = ~np.eye(4, dtype=bool)
    left[0, 1] = left[1, 0] = False
    first, second = study.swiss_round(half, left, np.random.default_rng(0))
    assert set(zip(first.tolist(), second.tolist(), strict=True)) == {(0, 2), (1, 3)}


# ---- many replays


def test_the_number_of_processes_and_of_repetitions_changes_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "fig_design", study)  # where forked processes look for its functions
    recorded = [verdicts(13), verdicts(14, n=6, name="other")]
    settings = dict(kinds=["spread", "adaptive"], graphs=[1, 3], n_groups=2, seed=9)
    once, twice = (
        study.replay_sets(recorded, n_repetitions=52, n_group_repetitions={"adaptive": 3}, workers=workers, **settings)
        for workers in (1, 2)
    )
    fewer = study.replay_sets(recorded[1:], n_repetitions=4, **settings)
    for one, two in zip(once, twice, strict=True):
        for kind in one.distances:
            assert np.array_equal(one.distances[kind], two.distances[kind])
            assert np.array_equal(one.without[kind], two.without[kind])
        assert one.without["adaptive"].shape == (2, 3, 2) and one.without["spread"].shape == (2, 52, 2)
    assert np.array_equal(fewer[0].distances["adaptive"], once[1].distances["adaptive"][:4])


def test_the_jackknife_interval_is_the_formula():
    sizes, graphs = (10, 20, 40, 80), (1.0, 2.0, 4.0, 8.0)
    base = np.array([0.4, 0.2, 0.1, 0.05])
    factors = np.array([0.8, 1.0, 1.3])
    # Without noise of repetitions; group by group the second kind needs these shares of the calls.
    whole = {"complete": np.tile(base, (6, 1)), "spread": np.tile(base / 2, (6, 1))}
    left = [np.tile(base / 2 * factor, (2, 1)) for factor in factors]
    without = {"complete": np.tile(base, (3, 2, 1)), "spread": np.stack(left)}
    replay = study.Replay(verdicts(15, n_questions=3), sizes, graphs, whole, {}, without)
    row = study.ratio_table([replay], kinds=["spread"], graphs=[4], seed=1).iloc[0]
    logs = np.log(factors / 2)  # the distance falls as one over the calls
    width = np.exp(student.isf(0.025, 2) * np.sqrt(2 / 3 * ((logs - logs.mean()) ** 2).sum()))
    expected = {"ratio": 0.5, "low": 0.5, "high": 0.5, "question_low": 0.5 / width, "question_high": 0.5 * width}
    expected |= {"calls": 40, "distance": 0.1}
    assert not row["bound"] and np.allclose(row[list(expected)].astype(float), list(expected.values()))
    assert study.ratio_table([replay], kinds=["spread"], graphs=[1], seed=1).iloc[0]["bound"]
    assert np.isclose(study.call_ratio(sizes, {"complete": base, "spread": base}, "spread", 2), 1)

"The next calls: the rule written out plainly, balance, and what does not matter."

import numpy as np
import pytest
from scipy.optimize import minimize

from ppe.designs.adaptive import Goal, next_calls
from ppe.errors import InputError


def judged(n, wordings, size, rng, invalid=0.1):
    "Random verdicts, no pair twice on one wording."
    cells = [(q, v, i, j) for q, count in enumerate(wordings) for v in range(count) for i in range(n) for j in range(i)]
    rows = np.array([cells[at] for at in rng.permutation(len(cells))[:size]]).reshape(-1, 4)
    turned = rng.random(len(rows)) < 0.5
    first, second = np.where(turned, rows[:, 3], rows[:, 2]), np.where(turned, rows[:, 2], rows[:, 3])
    points = rng.choice([0.0, 0.5, 1.0, np.nan], size=len(rows), p=[0.4, 0.1, 0.5 - invalid, invalid])
    return rows[:, 0], rows[:, 1], first, second, points


def plain_posterior(n, first, second, points):
    "Scores and covariance from the penalised likelihood, by a general optimiser."
    games = [(i, j, y) for i, j, y in zip(first, second, points, strict=True) if not np.isnan(y)]

    def loss(theta):
        return (
            sum(np.logaddexp(0, theta[j] - theta[i]) + (1 - y) * (theta[i] - theta[j]) for i, j, y in games)
            + (theta @ theta) / 2
        )

    theta = minimize(loss, np.zeros(n), method="BFGS", options={"gtol": 1e-10}).x
    information = np.eye(n)
    for i, j, _ in games:
        x = np.eye(n)[i] - np.eye(n)[j]
        p = 1 / (1 + np.exp(theta[j] - theta[i]))
        information += p * (1 - p) * np.outer(x, x)
    return theta, np.linalg.inv(information)


def after(theta, cov, x):
    "The covariance after one more call on the pair x, whatever its verdict."
    v = x @ cov @ x
    chance = 1 / (1 + np.exp(abs(theta @ x) / np.sqrt(1 + np.pi / 8 * v)))
    w = chance * (1 - chance)
    return cov - w * np.outer(cov @ x, cov @ x) / (1 + w * v)


def plain_next(question, variant, first, second, points, n, wordings, n_calls, rng, top=0, placed=None):
    "The rule of the notebook, call by call, from its definitions."
    start = np.concatenate([[0], np.cumsum(wordings)])
    rank_pair, rank_graph = rng.permutation(n * n).reshape(n, n), rng.permutation(start[-1])
    theta, cov = plain_posterior(n, first, second, points)
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    unit = {(i, j): np.eye(n)[i] - np.eye(n)[j] for i, j in pairs}
    ahead = sorted(range(n), key=lambda i: -theta[i])[:top]
    spread = {p: unit[p] @ cov @ unit[p] for p in pairs}
    tie = {p: np.exp(-((theta @ unit[p]) ** 2) / (2 * v)) / np.sqrt(v) for p, v in spread.items()}
    if top:
        tie = {p: value * ((p[0] in ahead) != (p[1] in ahead)) for p, value in tie.items()}
    with_it = [p for p in pairs if placed is None or placed in p]
    tie = {p: value * (p in with_it) for p, value in tie.items()}
    rows = np.stack([question, start[question] + variant, first, second], axis=1)
    calls = [tuple(row) for row in rows.tolist()]
    chosen, tried, shut = [], 0, set(pairs) - set(with_it)
    while len(chosen) < n_calls and len(shut) < len(pairs):
        if tried % n == 0:
            weight = {p: tie[p] / np.sqrt(unit[p] @ cov @ unit[p]) for p in pairs}
        open_pairs = [p for p in pairs if p not in shut]
        own = [c for c in calls if placed is None or placed in c[2:]]
        if tried % 5 == 4 or (placed is not None and len(own) < n - 1):
            value = {p: -sum({i, j} == set(p) for *_, i, j in calls) for p in open_pairs}
        else:
            value = {}
            for p in open_pairs:
                change = cov - after(theta, cov, unit[p])
                value[p] = sum(weight[o] * (unit[o] @ change @ unit[o]) for o in pairs)
        best = max(value.values())
        i, j = min((p for p in open_pairs if value[p] >= best - 1e-7 * abs(best)), key=lambda p: rank_pair[p])
        tried += 1
        used = {g for _, g, a, b in calls if {a, b} == {i, j}}
        room = [q for q in range(len(wordings)) if any(g not in used for g in range(start[q], start[q + 1]))]
        if not room:
            shut.add((i, j))
            continue
        load = {q: sum(c[0] == q for c in own) for q in room}
        room = [q for q in room if load[q] <= min(load.values()) + (placed is None)]
        met = {q: sum(c[2:].count(i) + c[2:].count(j) for c in calls if c[0] == q) for q in room}
        q = min(room, key=lambda q: (met[q], load[q], rank_graph[start[q]]))
        free = [g for g in range(start[q], start[q + 1]) if g not in used]
        g = min(free, key=lambda g: (sum(c[1] == g for c in calls), rank_graph[g]))
        lead = [sum((c[2] == m) - (c[3] == m) for c in own) for m in (i, j)]
        before = [sum(c[2:] == pair for c in calls) for pair in ((i, j), (j, i))]
        if (lead[1], before[1], rank_pair[j, i]) < (lead[0], before[0], rank_pair[i, j]):
            i, j = j, i
        calls.append((q, int(g), i, j))
        chosen.append((q, int(g - start[q]), i, j))
        cov = after(theta, cov, np.eye(n)[i] - np.eye(n)[j])
    return chosen


def columns(found):
    return found.question, found.variant, found.first, found.second


def rows_of(found):
    return list(zip(*(column.tolist() for column in columns(found)), strict=True))


def judged_too(calls, new, points):
    return [np.append(*pair) for pair in zip(calls, (*columns(new), points), strict=True)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("top", [0, 1, 2])
@pytest.mark.parametrize("placed", [None, 0, 2])
def test_the_rule_written_out(seed, top, placed):
    rng = np.random.default_rng(seed + 20 * (placed == 0))  # no two of these have the same score, as a new model may
    n, wordings = 4 + seed % 2, np.array([2, 1, 3, 1, 1, 2, 1])
    calls = judged(n, wordings, 18, rng)
    if placed == 0:  # that nobody has judged
        others = (calls[2] != 0) & (calls[3] != 0)
        calls = [column[others] for column in calls]
    goal = Goal("top" if top else "rank", top, placed) if placed is not None else Goal("top", top) if top else None
    how = dict(n_models=n, n_variants=wordings, n_calls=23, goal=goal, rng=np.random.default_rng(seed))
    wanted = plain_next(*calls, n, wordings, 23, np.random.default_rng(seed), top, placed)
    assert rows_of(next_calls(*calls, **how)) == wanted


def test_a_new_model_meets_every_opponent_first_and_every_pair_of_its_own_once():
    rng, n, wordings, new = np.random.default_rng(8), 6, np.full(20, 2), 3
    calls = judged(n, wordings, 400, rng)
    others = (calls[2] != new) & (calls[3] != new)
    calls = [part[others] for part in calls]
    turned = calls[2] > calls[3]  # the others stand in the same place always, which is no matter of the new one's
    calls[2:] = [*(np.where(turned, calls[k], calls[5 - k]) for k in (2, 3)), np.where(turned, calls[4], 1 - calls[4])]
    how = dict(n_models=n, n_variants=wordings, goal=Goal("rank", model=new))
    first = next_calls(*calls, n_calls=2 * n - 2, rng=rng, **how)
    pairs = [sorted(row[2:]) for row in rows_of(first)]
    assert all(new in pair for pair in pairs) and len({*map(tuple, pairs[: n - 1])}) == n - 1
    assert len(set(first.question.tolist())) == 2 * n - 2, "each on another question"
    assert abs((first.first == new).sum() - (n - 1)) <= 1, "as often shown first as second"
    asked = []
    while len(asked) < 40 * (n - 1):
        more = next_calls(*calls, n_calls=70, rng=rng, **how)
        calls = judged_too(calls, more, rng.choice([0.0, 0.5, 1.0, np.nan], size=more.n_calls))
        asked += rows_of(more)
    assert len({(*row[:2], *sorted(row[2:])) for row in asked}) == len(asked) == 200
    with pytest.raises(InputError, match="every pair of the model to place"):
        next_calls(*calls, n_calls=1, rng=rng, **how)


def test_nothing_depends_on_the_order_of_the_rows():
    rng = np.random.default_rng(1)
    wordings = np.full(40, 2)
    calls = judged(6, wordings, 150, rng)
    shuffled = rng.permutation(150)
    one, two = (
        next_calls(*part, n_models=6, n_variants=wordings, n_calls=60, rng=np.random.default_rng(3))
        for part in (calls, [column[shuffled] for column in calls])
    )
    assert rows_of(one) == rows_of(two)


@pytest.mark.parametrize("batch", [1, 7, 50])
def test_every_pair_is_judged_once_on_every_wording_and_then_there_is_none(batch):
    rng, n, wordings = np.random.default_rng(2), 4, np.array([1, 3, 2, 1, 1])
    calls = [column[:0] for column in judged(n, wordings, 1, rng)]
    everything, asked = 6 * wordings.sum(), []
    while len(asked) < everything:
        size = batch if asked else max(batch, 3)
        new = next_calls(*calls, n_models=n, n_variants=wordings, n_calls=size, rng=rng)
        calls = judged_too(calls, new, rng.choice([0.0, 0.5, 1.0, np.nan], size=new.n_calls))
        asked += rows_of(new)
    assert len({(*row[:2], *sorted(row[2:])) for row in asked}) == everything == len(asked)
    with pytest.raises(InputError, match="nothing is left to judge"):
        next_calls(*calls, n_models=n, n_variants=wordings, n_calls=1, rng=rng)


def test_balance_of_places_questions_and_pairs_and_no_model_twice_on_a_question_that_need_not_be():
    rng, n, wordings = np.random.default_rng(4), 9, np.ones(300, dtype=int)
    theta = np.linspace(3, -3, n)  # far apart: the scores say that most pairs are not worth a call
    calls = [column[:0] for column in judged(n, wordings, 1, rng)]
    for _ in range(12):
        new = next_calls(*calls, n_models=n, n_variants=wordings, n_calls=50, rng=rng)
        points = (rng.random(new.n_calls) < 1 / (1 + np.exp(theta[new.second] - theta[new.first]))).astype(float)
        calls = judged_too(calls, new, points)
    question, _, first, second, _ = calls
    assert np.abs(np.bincount(first, minlength=n) - np.bincount(second, minlength=n)).max() <= 2
    load = np.bincount(question, minlength=300)
    assert load.min() >= 1 and load.max() <= 3
    seen = np.zeros((300, n), dtype=int)
    np.add.at(seen, (question, first), 1)
    np.add.at(seen, (question, second), 1)
    assert (seen > 1).sum() == 0
    met = np.zeros((n, n), dtype=int)
    np.add.at(met, (first, second), 1)
    met = (met + met.T)[np.triu_indices(n, 1)]
    assert met.min() >= (600 - 50) // 5 // 36, "a fifth of the calls goes to the pairs that were compared least"
    assert met.max() > 2 * met.min(), "the others go where models are close"


def test_no_more_calls_are_prepared_than_there_are():
    rng, wordings = np.random.default_rng(6), np.array([2, 1, 1])
    calls = judged(4, wordings, 10, rng)
    left, more = (
        next_calls(*calls, n_models=4, n_variants=wordings, n_calls=n, rng=np.random.default_rng(1))
        for n in (14, 10**18)
    )
    assert left.n_calls == 4 * 6 - 10
    assert rows_of(left) == rows_of(more)


def test_an_invalid_verdict_is_spent_and_says_nothing():
    wordings, n = np.array([1, 1, 1]), 3
    question, first, second = np.array([[0, 1, 2, 0], [0, 1, 2, 1], [1, 2, 0, 2]])
    calls = question, 0 * question, first, second, np.array([1.0, 0.0, 0.5, np.nan])
    new = next_calls(*calls, n_models=n, n_variants=wordings, n_calls=9, rng=np.random.default_rng(1))
    asked = {(q, *sorted(pair)) for q, _, *pair in rows_of(new)}
    assert new.n_calls == 5 and (0, 1, 2) not in asked
    # Which model the spent call showed first is all that it tells.
    other = tuple(column.copy() for column in calls)
    other[4][3] = 1.0
    told = next_calls(*other, n_models=n, n_variants=wordings, n_calls=9, rng=np.random.default_rng(1))
    assert told.n_calls == 5


def test_a_model_that_nobody_has_judged_comes_first():
    rng, wordings = np.random.default_rng(5), np.ones(200, dtype=int)
    calls = judged(5, wordings, 300, rng, invalid=0.0)
    new = next_calls(*calls, n_models=6, n_variants=wordings, n_calls=20, rng=rng)
    assert ((new.first == 5) | (new.second == 5)).sum() >= 16

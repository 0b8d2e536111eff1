"The next calls: the rule written out plainly, balance, and what does not matter."

from collections import Counter
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import minimize

from ppe import compiled
from ppe.designs import adaptive, stopping
from ppe.designs.adaptive import TOGETHER, next_calls
from ppe.designs.goals import Goal
from ppe.designs.stopping import is_settled
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


def plain_gains(n, first, second, points, n_calls, top, placed):
    "What each further call on each pair takes off, from its definitions: (pair, n-th call) to gain."
    theta, cov = plain_posterior(n, first, second, points)
    unit = {(i, j): np.eye(n)[i] - np.eye(n)[j] for i in range(n) for j in range(i + 1, n)}
    ahead = sorted(range(n), key=lambda i: -theta[i])[:top]
    spread = {p: x @ cov @ x for p, x in unit.items()}
    tie = {p: np.exp(-((theta @ unit[p]) ** 2) / (2 * v)) / np.sqrt(v) for p, v in spread.items()}
    if top:
        tie = {p: value * ((p[0] in ahead) != (p[1] in ahead)) for p, value in tie.items()}
    if placed is not None:
        tie = {p: value * (placed in p) for p, value in tie.items()}
    gains = {}
    for p, x in unit.items():
        chance = 1 / (1 + np.exp(abs(theta @ x) / np.sqrt(1 + np.pi / 8 * spread[p])))
        w, now = chance * (1 - chance), cov
        for number in range(n_calls):
            then = np.linalg.inv(np.linalg.inv(now) + w * np.outer(x, x))
            gains[p, number] = sum(tie[o] / np.sqrt(spread[o]) * (y @ (now - then) @ y) for o, y in unit.items())
            now = then
    return gains


def columns(found):
    return found.question, found.variant, found.first, found.second


def rows_of(found):
    return list(zip(*(column.tolist() for column in columns(found)), strict=True))


def judged_too(calls, new, points):
    return [np.append(*pair) for pair in zip(calls, (*columns(new), points), strict=True)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("top", [0, 1, 2])
@pytest.mark.parametrize("placed", [None, 0, 2])
def test_the_rule_written_out(seed, top, placed):
    "The calls that are chosen at once: their pairs, questions, wordings and places."
    rng = np.random.default_rng(seed + 20 * (placed == 0))  # no two of these have the same score, as a new model may
    n, wordings, number = 4 + seed % 2, np.tile([2, 1, 3, 1, 1, 2], 4), TOGETHER
    calls = judged(n, wordings, 30, rng)
    if placed == 0:  # that nobody has judged
        others = (calls[2] != 0) & (calls[3] != 0)
        calls = [column[others] for column in calls]
    goal = Goal("top" if top else "rank", top, placed) if placed is not None else Goal("top", top) if top else None
    chosen = next_calls(calls, n_models=n, n_variants=wordings, n_calls=number, goal=goal, rng=rng)
    rows = list(zip(*(column.tolist() for column in calls[:4]), strict=True))
    own = [row for row in rows if placed is None or placed in row[2:]]
    met = Counter(tuple(sorted(row[2:])) for row in rows)
    pairs = [p for p in combinations(range(n), 2) if placed is None or placed in p]

    # Every fifth pair has been compared least, the others have the largest gains.
    even = [k % 5 == 4 or (placed is not None and len(own) + k < n - 1) for k in range(number)]
    new = [tuple(sorted(row[2:])) for row in rows_of(chosen)]
    assert all(p in pairs for p in new) and chosen.n_calls == number
    least = sorted(pairs, key=lambda p: met[p])
    assert sorted(met[p] for p, e in zip(new, even, strict=True) if e) == sorted(
        met[least[k % len(least)]] for k in range(sum(even))
    )
    gains = plain_gains(n, *calls[2:], number, top, placed)
    got = Counter(p for p, e in zip(new, even, strict=True) if not e)
    taken_off = sum(gains[p, k] for p, times in got.items() for k in range(times))
    most = sorted((gains[p, k] for p in pairs for k in range(number)), reverse=True)[: number - sum(even)]
    assert np.isclose(taken_off, sum(most), rtol=1e-6)

    # Each on another question: no other choice of questions costs less.
    used = {(q, v, *sorted(pair)) for q, v, *pair in rows}
    load, net = Counter(row[0] for row in own), nx.Graph()
    seen = Counter((q, model) for q, _, *pair in rows for model in pair)
    price = {}
    for k, p in enumerate(new):
        room = [q for q in range(len(wordings)) if any((q, v, *p) not in used for v in range(wordings[q]))]
        for q in room:
            more = load[q] - min(load[r] for r in room)
            beyond = max(more - (placed is None), 0)
            price[k, q] = 10_000 * beyond + 2 * (seen[q, p[0]] + seen[q, p[1]]) + more - beyond
            net.add_edge(("call", k), ("question", q), weight=price[k, q])
    paid = sum(price[k, q] for k, q in enumerate(chosen.question.tolist()))
    matching = nx.bipartite.minimum_weight_full_matching(net, [("call", k) for k in range(number)])
    assert paid == sum(price[k, matching["call", k][1]] for k in range(number))
    assert len({*chosen.question.tolist()}) == number

    # The wording used least that is left to the pair; the model less often shown first comes first.
    lead = Counter(row[2] for row in own)
    lead.subtract(row[3] for row in own)
    before = Counter(row[2:] for row in rows)
    asked = Counter(row[:2] for row in rows)
    for q, v, i, j in rows_of(chosen):
        free = [w for w in range(wordings[q]) if (q, w, *sorted((i, j))) not in used]
        assert v in free and asked[q, v] == min(asked[q, w] for w in free)
        assert (lead[i], before[i, j]) <= (lead[j], before[j, i])
        lead.update({i: 1, j: -1})
        before[i, j] += 1


def test_a_new_model_is_judged_once_on_every_wording_against_every_other():
    rng, n, wordings, new, asked = np.random.default_rng(8), 6, np.full(20, 2), 3, []
    calls = judged(n, wordings, 400, rng)
    others = (calls[2] != new) & (calls[3] != new)
    calls = [part[others] for part in calls]
    how = dict(n_models=n, n_variants=wordings, goal=Goal("rank", model=new))
    few = next_calls(calls, n_calls=2 * n - 2, rng=rng, **how)
    assert len(set(few.question.tolist())) == 2 * n - 2, "each on another question"
    while len(asked) < 40 * (n - 1):
        more = next_calls(calls, n_calls=70, rng=rng, **how)
        calls = judged_too(calls, more, rng.choice([0.0, 0.5, 1.0, np.nan], size=more.n_calls))
        asked += rows_of(more)
    assert len({(*row[:2], *sorted(row[2:])) for row in asked}) == len(asked) == 200
    with pytest.raises(InputError, match="every pair of the model to place"):
        next_calls(calls, n_calls=1, rng=rng, **how)


def test_nothing_depends_on_the_order_of_the_rows():
    rng = np.random.default_rng(1)
    wordings = np.full(40, 2)
    calls = judged(6, wordings, 150, rng)
    shuffled = rng.permutation(150)
    one, two = (
        next_calls(part, n_models=6, n_variants=wordings, n_calls=60, rng=np.random.default_rng(3))
        for part in (calls, [column[shuffled] for column in calls])
    )
    assert rows_of(one) == rows_of(two)


def test_compiled_functions_and_plain_ones_choose_and_settle_alike(monkeypatch):
    calls = judged(6, wordings := np.tile([2, 1, 3], 10), 150, np.random.default_rng(5))
    results = []
    for run in (lambda function: function, compiled._plain):
        for module in (adaptive, stopping):
            plain = lambda function, *more, cost, run=run: run(function)(*more)  # noqa: E731
            monkeypatch.setattr(module, "compiled_or_plain", plain)
        rng = np.random.default_rng(1)
        new = next_calls(calls, n_models=6, n_variants=wordings, n_calls=60, goal=Goal("top", 2), rng=rng)
        look, quick = (is_settled(calls, n_models=6, goal=Goal("top", 2), ranges=ranges) for ranges in (True, False))
        assert (
            sorted(quick.open.tolist()) == sorted(look.open.tolist())
            and (quick.z[*look.open.T] == look.z[*look.open.T]).all()
        )
        results.append((rows_of(new), look.z))
    assert results[0][0] == results[1][0] and np.allclose(results[0][1], results[1][1])


@pytest.mark.parametrize("batch", [1, 7, 50])
def test_every_pair_is_judged_once_on_every_wording_and_then_there_is_none(batch):
    rng, n, wordings = np.random.default_rng(2), 4, np.array([1, 3, 2, 1, 1])
    calls = [column[:0] for column in judged(n, wordings, 1, rng)]
    everything, asked = 6 * wordings.sum(), []
    while len(asked) < everything:
        size = batch if asked else max(batch, 3)
        new = next_calls(calls, n_models=n, n_variants=wordings, n_calls=size, rng=rng)
        calls = judged_too(calls, new, rng.choice([0.0, 0.5, 1.0, np.nan], size=new.n_calls))
        asked += rows_of(new)
    assert len({(*row[:2], *sorted(row[2:])) for row in asked}) == everything == len(asked)
    with pytest.raises(InputError, match="nothing is left to judge"):
        next_calls(calls, n_models=n, n_variants=wordings, n_calls=1, rng=rng)


def test_balance_of_places_questions_and_pairs_and_no_model_twice_on_a_question_that_need_not_be():
    rng, n, wordings = np.random.default_rng(4), 9, np.ones(300, dtype=int)
    theta = np.linspace(3, -3, n)  # far apart: the scores say that most pairs are not worth a call
    calls = [column[:0] for column in judged(n, wordings, 1, rng)]
    for _ in range(12):
        new = next_calls(calls, n_models=n, n_variants=wordings, n_calls=50, rng=rng)
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
        next_calls(calls, n_models=4, n_variants=wordings, n_calls=n, rng=np.random.default_rng(1))
        for n in (14, 10**18)
    )
    assert left.n_calls == 4 * 6 - 10
    assert rows_of(left) == rows_of(more)

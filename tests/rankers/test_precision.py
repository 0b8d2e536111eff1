"""Variance of scores and expected distance against outcomes written out one by one, designs, and simulation."""

from itertools import combinations

import numpy as np
import pytest
from definitions import definitions
from scipy.optimize import minimize
from scipy.stats import norm

from ppe.designs.beliefs import expected_distance
from ppe.designs.layouts import Layout, sharing
from ppe.designs.pair_designs import PairDesign, Sharing
from ppe.errors import InputError
from ppe.rankers.distances import mid_ranks, spearman_distance

THEOREM = definitions("theorems/thm_question_effects.ipynb")
CallEffects, score_precision = THEOREM.CallEffects, THEOREM.score_precision

POINTS = {"a": 1.0, "tie": 0.5, "b": 0.0}


def replies(x: np.ndarray, nu: float) -> dict[str, np.ndarray]:
    "Davidson's chances of the three replies at a gap x."
    total = np.exp(x / 2) + np.exp(-x / 2) + nu
    return {"a": np.exp(x / 2) / total, "tie": nu / total, "b": np.exp(-x / 2) / total}


def written_out(effects, n_wordings: int) -> tuple[np.ndarray, np.ndarray]:
    "Marginal scores, and their covariance from one question that holds all pairs in all its wordings."
    n = len(effects.theta)
    nodes, weights = np.polynomial.hermite_e.hermegauss(22)
    z = np.stack(np.meshgrid(*[nodes] * n, indexing="ij"), axis=-1).reshape(-1, n)
    weight = np.stack(np.meshgrid(*[weights / weights.sum()] * n, indexing="ij"), axis=-1).reshape(-1, n).prod(axis=1)
    utility = effects.theta + effects.sigma * z
    pairs = list(combinations(range(n), 2))
    given, means, variances = [], [], []
    for i, j in pairs:
        chances = replies(utility[:, i] - utility[:, j], effects.nu)
        given.append(sum(POINTS[said] * chance for said, chance in chances.items()))
        means.append(given[-1] @ weight)
        squares = sum(POINTS[said] ** 2 * chance for said, chance in chances.items())
        variances.append(squares @ weight - means[-1] ** 2)
    a = np.array([np.eye(n)[i] - np.eye(n)[j] for i, j in pairs])

    def loss(s: np.ndarray) -> float:
        return float(np.logaddexp(0, -a @ s) @ means + np.logaddexp(0, a @ s) @ (1 - np.array(means)) + (s.sum()) ** 2)

    scores = minimize(loss, np.zeros(n), method="BFGS", options={"gtol": 1e-10}).x
    calls = [p for p in range(len(pairs)) for _ in range(n_wordings)]
    meat = np.zeros((n, n))
    for c, p in enumerate(calls):
        for d, r in enumerate(calls):
            covariance = variances[p] if c == d else (given[p] * given[r]) @ weight - means[p] * means[r]
            meat += covariance * np.outer(a[p], a[r])
    chance = 1 / (1 + np.exp(-a @ scores))
    bread = np.linalg.pinv(n_wordings * a.T @ ((chance * (1 - chance))[:, None] * a))
    return scores, bread @ meat @ bread


@pytest.mark.parametrize("sigma, nu", [(0.0, 0.0), (1.0, 0.0), (0.8, 0.9), (1.2, 0.6)])
@pytest.mark.parametrize("n_wordings", [1, 3])
def test_the_covariance_is_that_of_outcomes_written_out(sigma, nu, n_wordings):
    effects = CallEffects(np.array([1.1, 0.2, -0.1, -0.9]), sigma, nu)
    scores, covariance = written_out(effects, n_wordings)
    found = score_precision(effects)
    assert np.allclose(found.scores, scores, atol=1e-5)
    assert np.allclose(THEOREM.graph_covariance(found, 1, n_wordings), covariance, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sigma", [1e-3, 0.3, 3.0, 8.0, 30.0])
def test_small_and_large_effects_against_adaptive_sums(sigma):
    "The rule's steps follow sigma; three times as many nodes, written out for one triple, give the same."
    effects = CallEffects(np.array([1.5, 0.0, -1.5]), sigma, 0.5)
    z = np.linspace(-7, 7, 1401)
    weight = norm.pdf(z) / norm.pdf(z).sum()
    x = effects.theta[0] + sigma * z

    def points(y: np.ndarray) -> np.ndarray:
        y = np.clip(y, -300, 300)
        return (np.exp(y / 2) + 0.25) / (np.exp(y / 2) + np.exp(-y / 2) + 0.5)

    known = [points(x[:, None] - effects.theta[j] - sigma * z) @ weight for j in range(3)]
    covariance = (known[1] * known[2]) @ weight - (known[1] @ weight) * (known[2] @ weight)
    # By symmetry the outer models' covariances are alike; the middle one's is taken from the middle.
    middle = [points(sigma * z[:, None] - effects.theta[j] - sigma * z) @ weight for j in range(3)]
    inner = (middle[0] * middle[2]) @ weight - (middle[0] @ weight) * (middle[2] @ weight)
    a = np.array([[1.0, -1, 0], [1, 0, -1], [0, 1, -1]])
    meat = np.zeros((3, 3))
    for p, r, c in ((0, 1, covariance), (1, 2, covariance), (0, 2, -inner)):
        meat += c * (np.outer(a[p], a[r]) + np.outer(a[r], a[p]))
    found = score_precision(effects)
    chance = 1 / (1 + np.exp(-a @ found.scores))
    bread = np.linalg.pinv(a.T @ ((chance * (1 - chance))[:, None] * a) / 3)
    assert np.allclose(found.shared, bread @ (meat / 3) @ bread, rtol=1e-5, atol=1e-8)


# ---- how a design shares its questions


def counted(design: PairDesign, orders: str) -> tuple[float, float, float]:
    "The three numbers of Sharing by comparing each verdict with each other."
    rows = list(zip(design.question, design.variant, design.first, design.second, strict=True))
    if orders == "both":
        there = set(rows)
        rows = [(q, v, a, b) for q, v, a, b in rows if a < b and (q, v, b, a) in there]
    one = both = 0.0
    for k, (q, _, a, b) in enumerate(rows):
        for m, (r, _, c, d) in enumerate(rows):
            if k != m and q == r:
                common = len({a, b} & {c, d})
                one, both = one + (common == 1) / 2, both + (common == 2)
    return len(rows) / len({row[0] for row in rows}), one / len(rows), both / len(rows)


@pytest.mark.parametrize("orders", ["one", "both"])
@pytest.mark.parametrize("seed", range(4))
def test_sharing_counts_what_is_shared(seed, orders):
    rng = np.random.default_rng(seed)
    rows = sorted({(q, v, a, b) for q, v, a, b in rng.integers(0, [5, 3, 6, 6], size=(150, 4)).tolist() if a != b})
    design = PairDesign(*np.array(rows).T, 6, 5)
    found = design.sharing(orders)
    assert np.allclose([found.per_question, found.one, found.both], counted(design, orders))


def sharing_of(*questions: list[tuple[int, int]]) -> Sharing:
    rows = np.array([(q, 0, *pair) for q, pairs in enumerate(questions) for pair in pairs])
    return PairDesign(*rows.T, rows[:, 2:].max() + 1, len(questions)).sharing()


def test_closed_forms_are_those_of_designs():
    def promised(kind: str, n: int, calls: int, n_questions: int = 1, **how: int) -> float:
        return sharing(Layout(kind, n, n_questions, **how), calls).one

    block = list(combinations(range(4), 2))
    assert sharing_of(block, [(i + 2, j + 2) for i, j in block]).one == promised("blocks", 9, 6, block_size=4) == 2
    assert sharing_of(block, block).one == promised("complete", 4, 12, 2) == 2
    pairs = list(combinations(range(5), 2))
    for calls in range(1, 11):
        subsets = [sharing_of(list(subset)).one for subset in combinations(pairs, calls)]
        assert np.isclose(promised("spread", 5, calls), min(subsets)), "as even as any choice"
    mixed = sharing_of([(0, 1), (1, 2)], [(0, 2), (2, 3)], [(0, 3)])
    assert np.isclose(mixed.per_question, 5 / 3) and np.isclose(mixed.one, 2 / 5)
    assert promised("spread", 20, 190) == 18 and promised("spread", 2, 1) == 0
    with pytest.raises(InputError, match="no verdict"):
        PairDesign(*np.array([[0, 0, 0, 1]]).T, 2, 1).sharing("both")


# ---- distances


def test_the_distance_to_given_strengths_is_the_mean_over_normal_estimates():
    rng = np.random.default_rng(5)
    scores, root = rng.normal(size=6), rng.normal(size=(6, 6)) / 3
    covariance = root @ root.T
    tied = np.array([1.0, 0.0, 0.0])
    for strengths in (scores, tied):
        own = covariance[: len(strengths), : len(strengths)]
        drawn = rng.multivariate_normal(strengths, own, size=100_000)
        distances = spearman_distance(mid_ranks(drawn), mid_ranks(strengths))
        error = distances.std() / np.sqrt(len(distances))
        assert abs(distances.mean() - expected_distance(strengths, own)) < 4 * error
    assert expected_distance(scores, np.zeros((6, 6))) == pytest.approx(0, abs=1e-12)
    several = [(scores, covariance), (-scores, covariance), (scores, 0.1 * covariance)]
    batch = expected_distance(*map(np.stack, zip(*several, strict=True)))
    assert batch.shape == (3,) and np.allclose(batch, [expected_distance(*one) for one in several], rtol=1e-12)
    assert np.isclose(expected_distance(np.array([1.0, 0.0]), np.array([[0.5, 0], [0, 0.5]])), norm.cdf(-1))

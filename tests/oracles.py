"""What the command line must find, worked out by other means: enumeration, networkx, scipy."""

import itertools
import math
from collections import Counter
from itertools import combinations, permutations

import networkx as nx
import numpy as np
from conftest import graph_rows
from scipy import optimize, special, stats

GRAPH_KEYS = ["judge", "question_id", "category", "variant"]


def graphs_of(rows):
    "Key -> directed graph, in source order; a tie is a pair of opposite edges, an invalid verdict no edge."
    graphs = {}
    for judge, question, category, variant, a, b, verdict in rows:
        graph = graphs.setdefault((judge, question, category, variant), nx.DiGraph())
        graph.add_nodes_from([a, b])
        graph.add_edges_from({"a": [(a, b)], "b": [(b, a)], "tie": [(a, b), (b, a)], "invalid": []}[verdict])
    return graphs


def count_by_hand(graph, length):
    "Directed cycles of a length: every vertex set, every orientation that starts at its first vertex."
    return sum(
        all(graph.has_edge(u, v) for u, v in zip((first, *rest), (*rest, first), strict=True))
        for first, *others in combinations(sorted(graph), length)
        for rest in permutations(others)
    )


def mutual(graph):
    return graph.edge_subgraph([(u, v) for u, v in graph.edges if graph.has_edge(v, u)])


def cycle_row(key, graph, mu=1.0):
    "One object of `ppe cycles`, counted by enumeration."
    c3, c4 = (count_by_hand(graph, length) for length in (3, 4))
    tie3, tie4 = (count_by_hand(mutual(graph), length) for length in (3, 4))
    pairs = math.comb(len(graph), 2)
    return dict(zip(GRAPH_KEYS, key, strict=True)) | {
        "n_models": len(graph),
        "c3": c3,
        "c4": c4,
        "c3_bad": c3 - tie3,
        "c4_bad": c4 - tie4,
        "score": c3 - tie3 + mu * (c4 - tie4),
        "tie_rate": sum(graph.has_edge(v, u) for u, v in graph.edges) / 2 / pairs,
        "largest_scc": max(map(len, nx.strongly_connected_components(graph))),
    }


def selected(rows, select, keep, mu):
    "Keys of the graphs kept, with their scores, in selection order."
    scored = [(key, cycle_row(key, graph, mu)["score"]) for key, graph in graphs_of(rows).items()]
    if select == "none":
        return scored
    by_score = sorted(scored, key=lambda item: item[1])  # stable: ties stay in source order
    if select == "global":
        return by_score[:keep]
    taken = Counter()
    kept = []
    for key, score in by_score:
        taken[key[:2]] += 1
        if taken[key[:2]] <= keep:
            kept.append((key, score))
    return kept


def counts(rows, keys=None):
    "W and T over the given graphs, models sorted by name."
    models = sorted({row[4] for row in rows} | {row[5] for row in rows})
    wins, ties = np.zeros((2, len(models), len(models)))
    for *key, a, b, verdict in rows:
        if keys is None or tuple(key) in keys:
            i, j = models.index(a), models.index(b)
            wins[i, j] += verdict == "a"
            wins[j, i] += verdict == "b"
            ties[i, j] += verdict == "tie"
            ties[j, i] += verdict == "tie"
    return models, wins, ties


def bradley_terry(wins, ties, ridge=0.0):
    half = wins + ties / 2

    def loss(theta):
        margin = theta[:, None] - theta
        value = -(half * special.log_expit(margin)).sum() + ridge / 2 * theta @ theta
        flow = half * special.expit(-margin)
        return value, flow.sum(0) - flow.sum(1) + ridge * theta

    best = optimize.minimize(
        loss, np.zeros(len(wins)), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 10_000}
    )
    theta = best.x - best.x.mean()
    return theta, -loss(theta)[0] + ridge / 2 * theta @ theta


def davidson(wins, ties):
    n = len(wins)
    upper = np.triu_indices(n, 1)

    def loss(point):
        theta, log_nu = point[:n], point[n]
        i, j = upper
        terms = np.stack([theta[i], theta[j], log_nu + (theta[i] + theta[j]) / 2])
        observed = np.stack([wins[i, j], wins[j, i], ties[i, j]])
        return -(observed * (terms - special.logsumexp(terms, axis=0))).sum()

    best = optimize.minimize(
        loss, np.zeros(n + 1), method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000}
    )
    polished = optimize.minimize(loss, best.x, method="BFGS", options={"gtol": 1e-7, "maxiter": 10_000})
    theta = polished.x[:n]
    return theta - theta.mean(), -polished.fun, math.exp(polished.x[n])


def oracle_scores(ranker, wins, ties):
    half, compared = wins + ties / 2, wins + wins.T + ties
    share = np.divide(half, compared, out=np.zeros_like(half), where=compared > 0)
    if ranker == "bradley-terry":
        return bradley_terry(wins, ties)[0]
    if ranker == "davidson":
        return davidson(wins, ties)[0]
    if ranker == "copeland":
        return np.sign(wins - wins.T).sum(1)
    if ranker == "rank-centrality":  # walk from the loser to the winner
        chain = share.T / len(wins)
        chain += np.diag(1 - chain.sum(1))
        stationary = np.linalg.lstsq(
            np.vstack([chain.T - np.eye(len(wins)), np.ones(len(wins))]), np.append(np.zeros(len(wins)), 1), rcond=None
        )[0]
        return np.log(stationary) - np.log(stationary).mean()
    i, j = np.triu_indices(len(wins), 1)
    gradient = np.zeros((len(i), len(wins)))
    gradient[np.arange(len(i)), i], gradient[np.arange(len(i)), j] = 1, -1
    weight = np.sqrt(compared[i, j])
    return np.linalg.lstsq(gradient * weight[:, None], (share - share.T)[i, j] * weight, rcond=None)[0]


def ranked(models, scores):
    "Model -> rank; 1 is best, equal scores by name."
    order = sorted(zip(models, scores, strict=True), key=lambda item: (-round(item[1], 9), item[0]))
    return {model: rank for rank, (model, _) in enumerate(order, 1)}


def strict_orders(ranks):
    "All rankings 1 to n that keep this one and put its tied models in some order."
    for order in itertools.permutations(ranks):
        if all(ranks[a] <= ranks[b] for a, b in itertools.pairwise(order)):
            yield {model: place for place, model in enumerate(order, start=1)}


def oracle_distances(ranks, reference):
    "Distances averaged over the orders of tied models, in both rankings."
    found = []
    for one, other in itertools.product(strict_orders(ranks), strict_orders(reference)):
        r, s = np.array([[one[model], other[model]] for model in one]).T
        n = len(r)
        found.append(
            {
                "spearman": (1 - stats.spearmanr(r, s).statistic) / 2,
                "kendall": (1 - stats.kendalltau(r, s).statistic) / 2,
                "footrule": abs(r - s).sum() / (n * n // 2),
                "chebyshev": abs(r - s).max() / (n - 1),
            }
        )
    return {name: np.mean([one[name] for one in found]) for name in found[0]}


def unlike_pool(n_questions=12, models="pqrstu", spread=1.5, seed=3):
    "Two wordings of every question; questions differ much in how sharply they separate the models."
    rng, strength = np.random.default_rng(seed), np.linspace(2, -2, len(models))
    rows = []
    for question in range(n_questions):
        a = np.exp(spread * rng.normal())
        for variant in range(2):
            verdicts = {}
            for i, j in combinations(range(len(models)), 2):
                wins = special.expit(a * (strength[i] - strength[j]))
                chances = [0.1, 0.9 * wins, 0.9 * (1 - wins)]
                verdicts[models[i], models[j]] = str(rng.choice(["tie", "a", "b"], p=chances))
            rows += graph_rows("j", question, "c", variant, verdicts)
    return rows

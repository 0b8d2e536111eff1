"""The `ppe` command as a contract: output against oracles written here, bad input refused in one line."""

import csv
import gzip
import io
import itertools
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import combinations, permutations

import choix
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from conftest import COLUMNS, MODELS, graph_rows, random_pool, write
from scipy import optimize, special, stats

CYCLE_KEYS = [
    "judge", "question_id", "category", "variant", "n_models",
    "c3", "c4", "c3_bad", "c4_bad", "score", "tie_rate", "largest_scc",
]  # fmt: skip
RANK_KEYS = {
    "ranker",
    "n_models",
    "n_graphs",
    "n_graphs_dropped",
    "selection",
    "kept",
    "models",
    "fit",
    "distances",
}
GRAPH_KEYS = ["judge", "question_id", "category", "variant"]
RANKERS = ["bradley-terry", "davidson", "copeland", "rank-centrality", "hodgerank"]
POOL_RANKERS = [
    "discrimination", "discrimination-cycles", "discrimination-davidson", "soft-weights", "question-effects",
]  # fmt: skip

# ---- oracles


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
            np.vstack([chain.T - np.eye(len(wins)), np.ones(len(wins))]),
            np.append(np.zeros(len(wins)), 1),
            rcond=None,
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


# ---- ppe cycles


@pytest.fixture(scope="module")
def pool():
    return random_pool()


def test_cycles_equal_enumeration_and_networkx(ppe_main, tmp_path):
    pool = random_pool(tie_rate=0.5, variants=(1, 0))
    found = ppe_main("cycles", write(tmp_path / "pool.csv", pool), "--format", "json").json()
    assert all(list(row) == CYCLE_KEYS for row in found)
    graphs = graphs_of(pool)
    assert found == [pytest.approx(cycle_row(key, graph)) for key, graph in graphs.items()]
    for row, graph in zip(found, graphs.values(), strict=True):
        for kind, digraph in (("", graph), ("tie", mutual(graph))):
            lengths = Counter(map(len, nx.simple_cycles(digraph, length_bound=4)))
            for length in (3, 4):
                expected = row[f"c{length}"] - (row[f"c{length}_bad"] if kind else 0)
                assert lengths[length] == expected
    assert any(row["c3"] > row["c3_bad"] > 0 for row in found) and any(
        row["c4"] > row["c4_bad"] > 0 for row in found
    )


TIE = {pair: "tie" for pair in combinations("pqrs", 2)}
HAND = {
    # p beats q beats r beats p; all lose to s: one triangle, no quadrilateral
    "triangle": ({**TIE, ("p", "q"): "a", ("q", "r"): "a", ("p", "r"): "b", **{(m, "s"): "b" for m in "pqr"}},
                 {"c3": 1, "c4": 0, "c3_bad": 1, "c4_bad": 0, "tie_rate": 0, "largest_scc": 3}),
    "order": ({pair: "a" for pair in TIE},
              {"c3": 0, "c4": 0, "c3_bad": 0, "c4_bad": 0, "tie_rate": 0, "largest_scc": 1}),
    # four models all tied: 4 triples × 2 orientations, 6 quadrilaterals, every one a pure tie
    "ties": (TIE, {"c3": 8, "c4": 6, "c3_bad": 0, "c4_bad": 0, "tie_rate": 1, "largest_scc": 4}),
    # one strict verdict among ties: triples with p and q lose one of two orientations and are no pure tie
    "one win": ({**TIE, ("p", "q"): "a"},
                {"c3": 6, "c4": 4, "c3_bad": 2, "c4_bad": 2, "tie_rate": 5 / 6, "largest_scc": 4}),
}  # fmt: skip


def test_cycles_of_graphs_counted_by_hand(ppe_main, tmp_path):
    rows = [row for name, (verdicts, _) in HAND.items() for row in graph_rows("j", name, "c", 0, verdicts)]
    found = ppe_main("cycles", write(tmp_path / "hand.csv", rows), "--format", "json").json()
    for row, (name, (_, expected)) in zip(found, HAND.items(), strict=True):
        assert row["question_id"] == name
        assert {key: row[key] for key in expected} == pytest.approx(expected), name
        assert row["score"] == expected["c3_bad"] + expected["c4_bad"]
        assert all(
            type(row[key]) is int for key in ("n_models", "c3", "c4", "c3_bad", "c4_bad", "largest_scc")
        )


def test_every_input_format_gives_the_same_output(ppe_main, tmp_path, pool):
    frame = pd.DataFrame(pool, columns=COLUMNS)
    frame.to_parquet(tmp_path / "pool.parquet", index=False)
    plain = write(tmp_path / "pool.csv", pool)
    zipped = write(tmp_path / "pool.csv.gz", pool)
    marked = tmp_path / "from a spreadsheet.csv"
    marked.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())  # byte order mark
    shuffled = tmp_path / "more columns.csv"
    frame[list(COLUMNS[::-1])].assign(comment="not of interest").to_csv(shuffled, index=False)
    first = ppe_main("cycles", plain, "--format", "json").json()
    for path in (zipped, tmp_path / "pool.parquet", marked, shuffled):
        assert ppe_main("cycles", path, "--format", "json").json() == first, path.name


def test_cycles_csv_and_table_show_what_json_shows(ppe, ppe_main, tmp_path, pool):
    path = write(tmp_path / "pool.csv", pool)
    rows = ppe_main("cycles", path, "--format", "json").json()
    as_csv = list(csv.DictReader(io.StringIO(ppe_main("cycles", path, "--format", "csv").out)))
    assert list(as_csv[0]) == CYCLE_KEYS
    for text, row in zip(as_csv, rows, strict=True):
        assert {key: text[key] for key in GRAPH_KEYS} == {key: str(row[key]) for key in GRAPH_KEYS}
        assert [float(text[key]) for key in CYCLE_KEYS[4:]] == pytest.approx(
            [row[key] for key in CYCLE_KEYS[4:]]
        )
    table = ppe("cycles", path, "--format", "table")
    assert table == ppe_main("cycles", path), "the table is the default"
    assert (table.code, table.err) == (0, "")
    assert all(key in table.out for key in CYCLE_KEYS)
    lines = [line for line in table.out.splitlines() if re.search(r"zeta|alpha judge", line)]
    assert len(lines) == len(rows)


def test_question_ids_keep_their_kind(ppe_main, tmp_path):
    verdicts = {("x", "y"): "a"}
    numbers = [*graph_rows("j", 10, "NA", 1, verdicts), *graph_rows("j", -2, "NA", 0, verdicts)]
    found = ppe_main("cycles", write(tmp_path / "n.csv", numbers), "--format", "json").json()
    assert [(row["question_id"], row["variant"], row["category"]) for row in found] == [
        (10, 1, "NA"),
        (-2, 0, "NA"),
    ]
    texts = [*graph_rows("j", "007", "c", "turn-1", verdicts), *graph_rows("j", "8", "c", "2", verdicts)]
    found = ppe_main("cycles", write(tmp_path / "t.csv", texts), "--format", "json").json()
    assert [(row["question_id"], row["variant"]) for row in found] == [("007", "turn-1"), ("8", "2")]


# ---- ppe rank


@pytest.mark.parametrize("ranker", RANKERS)
def test_every_ranker_equals_its_oracle(ppe_main, tmp_path, pool, ranker):
    found = ppe_main(
        "rank", write(tmp_path / "pool.csv", pool), "--ranker", ranker, "--format", "json"
    ).json()
    assert RANK_KEYS <= set(found) | {"distances"}
    assert found.get("distances") is None
    graphs = graphs_of(pool)
    assert (found["ranker"], found["selection"]) == (ranker, "none")
    assert (found["n_models"], found["n_graphs"], found["n_graphs_dropped"]) == (len(MODELS), len(graphs), 0)
    assert [tuple(kept[key] for key in GRAPH_KEYS) for kept in found["kept"]] == list(graphs)
    models, wins, ties = counts(pool)
    expected = oracle_scores(ranker, wins, ties)
    assert {row["model"]: row["score"] for row in found["models"]} == pytest.approx(
        dict(zip(models, expected, strict=True)), abs=1e-6
    )
    assert sum(row["score"] for row in found["models"]) == pytest.approx(0, abs=1e-9), "scores are centred"
    assert {row["model"]: row["rank"] for row in found["models"]} == ranked(models, expected)
    assert [row["rank"] for row in found["models"]] == list(range(1, len(MODELS) + 1))
    assert all(list(row) == ["model", "score", "rank"] for row in found["models"])
    fit = found["fit"]
    assert fit["converged"] is True and isinstance(fit["iterations"], int)
    if ranker == "bradley-terry":
        by_choix = choix.ilsr_pairwise_dense(wins + ties / 2, alpha=0.0, tol=1e-10, max_iter=1000)
        assert [
            row["score"] for row in sorted(found["models"], key=lambda row: row["model"])
        ] == pytest.approx(by_choix - np.mean(by_choix), abs=1e-5)
        assert fit["log_likelihood"] == pytest.approx(bradley_terry(wins, ties)[1], rel=1e-9)
    if ranker == "davidson":
        _, log_likelihood, nu = davidson(wins, ties)
        assert fit["log_likelihood"] == pytest.approx(log_likelihood, rel=1e-9)
        assert fit["nu"] == pytest.approx(nu, rel=1e-5)
    else:
        assert fit.get("nu") is None


def test_bradley_terry_of_two_models_by_hand(ppe_main, tmp_path):
    "Three wins and two ties against one win: odds (3 + 1) : (1 + 1), so the scores are ± log(2) / 2."
    rows = [("j", q, "c", 0, "x", "y", v) for q, v in enumerate(["a", "a", "a", "tie", "tie", "b"])]
    found = ppe_main("rank", write(tmp_path / "two.csv", rows), "--format", "json").json()
    assert found["ranker"] == "bradley-terry", "the paper's ranker is the default"
    assert found["models"] == [
        {"model": "x", "score": pytest.approx(math.log(2) / 2), "rank": 1},
        {"model": "y", "score": pytest.approx(-math.log(2) / 2), "rank": 2},
    ]
    assert found["fit"]["log_likelihood"] == pytest.approx(4 * math.log(2 / 3) + 2 * math.log(1 / 3))
    # Davidson by hand: P(tie) = 2/6, P(x beats y) = 3/6, so exp(theta_x - theta_y) = 3 and nu = 2 / sqrt(3)
    found = ppe_main("rank", tmp_path / "two.csv", "--ranker", "davidson", "--format", "json").json()
    assert found["models"][0] == {"model": "x", "score": pytest.approx(math.log(3) / 2, abs=1e-6), "rank": 1}
    assert found["fit"]["nu"] == pytest.approx(2 / math.sqrt(3), abs=1e-5)


@pytest.mark.parametrize(
    ("select", "keep", "mu"),
    [("global", 5, 1.0), ("global", 8, 0.25), ("global", 24, 1.0), ("block", 1, 1.0), ("block", 2, 3.0)],
)
def test_selection_follows_the_rule_of_the_paper(ppe_main, tmp_path, pool, select, keep, mu):
    path = write(tmp_path / "pool.csv", pool)
    arguments = ["--select", select, "--keep", keep, *(["--mu", mu] if mu != 1 else [])]
    found = ppe_main("rank", path, "--ranker", "hodgerank", *arguments, "--format", "json").json()
    expected = selected(pool, select, keep, mu)
    kept = [(tuple(row[key] for key in GRAPH_KEYS), row["score"]) for row in found["kept"]]
    assert found["selection"] == select
    assert all(list(row) == [*GRAPH_KEYS, "score"] for row in found["kept"])
    if select == "global":
        assert kept == expected
    else:
        assert sorted(kept) == sorted(expected)
    models, wins, ties = counts(pool, dict(expected))
    scores = oracle_scores("hodgerank", wins, ties)
    assert {row["model"]: row["score"] for row in found["models"]} == pytest.approx(
        dict(zip(models, scores, strict=True)), abs=1e-9
    )


def test_equal_scores_are_kept_in_source_order(ppe_main, tmp_path):
    "Ten graphs with one cycle each, in no sorted order: K = 4 must take the first four of the file."
    order = [
        ("z", 5, 1),
        ("z", 5, 0),
        ("b", 7, 0),
        ("z", 1, 0),
        ("a", 3, 0),
        ("b", 7, 1),
        ("a", 0, 0),
        ("a", 3, 1),
        ("z", 1, 1),
    ]
    rows = [
        row
        for judge, question, variant in order
        for row in graph_rows(
            judge, question, "c", variant, {("x", "y"): "b", ("y", "w"): "tie", ("x", "w"): "tie"}
        )
    ]
    rows += graph_rows("b", 9, "c", 0, {("x", "y"): "a", ("y", "w"): "a", ("x", "w"): "tie"})
    path = write(tmp_path / "equal.csv", rows)
    scores = [score for _, score in selected(rows, "none", None, 1.0)]
    assert scores == [1] * 9 + [1], "all equal, so only the source order decides"
    found = ppe_main(
        "rank", path, "--ranker", "hodgerank", "--select", "global", "--keep", 4, "--format", "json"
    ).json()
    assert [(row["judge"], row["question_id"], row["variant"]) for row in found["kept"]] == order[:4]
    found = ppe_main(
        "rank", path, "--ranker", "hodgerank", "--select", "block", "--keep", 1, "--format", "json"
    ).json()
    assert {(row["judge"], row["question_id"], row["variant"]) for row in found["kept"]} == {
        ("z", 5, 1), ("b", 7, 0), ("z", 1, 0), ("a", 3, 0), ("a", 0, 0), ("b", 9, 0),
    }  # fmt: skip


def test_judge_and_category_restrict_the_table(ppe_main, tmp_path, pool):
    extra = graph_rows("third", 1, "math", 0, {("only here", "alpaca"): "a"})  # its own models, its own graph
    path = write(tmp_path / "pool.csv", [*pool, *extra])
    part = [row for row in pool if row[0] == "zeta" and row[2] == "math"]
    found = ppe_main("rank", path, "--judge", "zeta", "--category", "math", "--format", "json").json()
    assert (found["n_models"], found["n_graphs"], found["n_graphs_dropped"]) == (len(MODELS), 6, 0)
    assert {(row["judge"], row["category"]) for row in found["kept"]} == {("zeta", "math")}
    models, wins, ties = counts(part)
    assert {row["model"]: row["score"] for row in found["models"]} == pytest.approx(
        dict(zip(models, oracle_scores("bradley-terry", wins, ties), strict=True)), abs=1e-6
    )
    assert ppe_main("rank", path, "--judge", "alpha judge", "--format", "json").json()["n_graphs"] == 12


@pytest.mark.parametrize("ranker", ["bradley-terry", "copeland"])
def test_distances_equal_scipy(ppe_main, tmp_path, pool, ranker):
    reference = tmp_path / "reference.csv"
    ratings = {
        "alpaca": 1210.5,
        "mistral": 1100,
        "NA": 1300,
        MODELS[0]: 1100,
        MODELS[1]: 990,
        MODELS[2]: 1250,
    }
    with open(reference, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("model", "rating"), *ratings.items(), ("a model nobody judged", 1500)])
    path = write(tmp_path / "pool.csv", pool)
    found = ppe_main("rank", path, "--ranker", ranker, "--reference", reference, "--format", "json").json()
    assert RANK_KEYS <= set(found)
    ranks = {row["model"]: row["rank"] for row in found["models"]}
    expected = oracle_distances(ranks, {model: -rating for model, rating in ratings.items()})
    assert found["distances"] == pytest.approx(expected, abs=1e-12)
    assert 0 < expected["spearman"] < 1


def test_a_reference_in_the_same_order_is_at_distance_zero_and_reversed_at_one(ppe_main, tmp_path):
    rows = random_pool(judges=["j"], models=["x", "y", "z", "w"])
    path = write(tmp_path / "pool.csv", rows)
    order = [row["model"] for row in ppe_main("rank", path, "--format", "json").json()["models"]]
    for sign, distance in ((-1, 0), (1, 1)):
        reference = tmp_path / "reference.csv"
        reference.write_text("model,rating\n" + "".join(f"{m},{sign * k}\n" for k, m in enumerate(order)))
        found = ppe_main("rank", path, "--reference", reference, "--format", "json").json()["distances"]
        assert found == pytest.approx(
            dict.fromkeys(["spearman", "kendall", "footrule", "chebyshev"], distance)
        )


def test_rank_csv_and_table_show_what_json_shows(ppe_main, tmp_path, pool):
    path = write(tmp_path / "pool.csv", pool)
    rows = ppe_main("rank", path, "--format", "json").json()["models"]
    as_csv = list(csv.DictReader(io.StringIO(ppe_main("rank", path, "--format", "csv").out)))
    assert [row["model"] for row in as_csv] == [row["model"] for row in rows]
    assert [float(row["score"]) for row in as_csv] == pytest.approx([row["score"] for row in rows])
    assert [int(row["rank"]) for row in as_csv] == [row["rank"] for row in rows]
    table = ppe_main("rank", path, "--format", "table")
    assert table == ppe_main("rank", path), "the table is the default"
    assert table.code == 0 and table.err.startswith("ppe: note: verdicts of 2 judges are pooled")
    places = [table.out.index(row["model"]) for row in rows]
    assert places == sorted(places), "best model first"


# ---- incomplete graphs and invalid verdicts


def incomplete_pool():
    "A complete pool to which one graph lacks a pair and another has an invalid verdict."
    rows = random_pool(judges=["j"], models=["x", "y", "z"], tie_rate=0.2)
    graphs = list(graphs_of(rows))
    gone = next(row for row in rows if row[:4] == graphs[3])
    spoilt = next(row for row in rows if row[:4] == graphs[7])
    rows = [(*row[:6], "invalid") if row == spoilt else row for row in rows if row != gone]
    return rows, graphs[3], graphs[7]


def test_incomplete_graphs_are_dropped_and_counted(ppe_main, tmp_path):
    rows, lacking, spoilt = incomplete_pool()
    path = write(tmp_path / "pool.csv", rows)
    complete = [row for row in rows if row[:4] not in (lacking, spoilt)]
    found = ppe_main("rank", path, "--format", "json").json()
    assert (found["n_graphs"], found["n_graphs_dropped"]) == (10, 2)
    models, wins, ties = counts(complete)
    assert {row["model"]: row["score"] for row in found["models"]} == pytest.approx(
        dict(zip(models, oracle_scores("bradley-terry", wins, ties), strict=True)), abs=1e-6
    )
    shown = ppe_main("cycles", path, "--format", "json").json()
    assert [tuple(row[key] for key in GRAPH_KEYS) for row in shown] == list(graphs_of(complete))


def test_incomplete_graphs_are_kept_on_request_and_invalid_is_no_tie(ppe_main, tmp_path):
    rows, lacking, spoilt = incomplete_pool()
    path = write(tmp_path / "pool.csv", rows)
    found = ppe_main("rank", path, "--incomplete", "keep", "--format", "json").json()
    assert (found["n_graphs"], found["n_graphs_dropped"]) == (12, 0)
    models, wins, ties = counts(rows)
    assert (wins + wins.T + ties).sum() == 2 * (len(rows) - 1), "the oracle counts no invalid verdict"
    assert {row["model"]: row["score"] for row in found["models"]} == pytest.approx(
        dict(zip(models, oracle_scores("bradley-terry", wins, ties), strict=True)), abs=1e-6
    )
    shown = ppe_main("cycles", path, "--incomplete", "keep", "--format", "json").json()
    assert [tuple(row[key] for key in GRAPH_KEYS) for row in shown] == list(graphs_of(rows))
    for row, (key, graph) in zip(shown, graphs_of(rows).items(), strict=True):
        expected = cycle_row(key, graph)
        for name in ("c3", "c4", "c3_bad", "c4_bad", "score", "largest_scc"):
            assert row[name] == expected[name], (key, name)


# ---- separated win graphs

# `top` and `second` win every game against the others; inside each group both have won
SEPARATED = [
    row
    for question in range(4)
    for row in graph_rows(
        "j", question, "c", 0,
        {("top", "second"): "ab"[question % 2], ("low", "lower"): "ba"[question // 3],
         **{(strong, weak): "a" for strong in ("top", "second") for weak in ("low", "lower")}},
    )
]  # fmt: skip


@pytest.mark.parametrize("ranker", ["bradley-terry", "davidson", "rank-centrality"])
def test_a_separated_win_graph_is_an_error_that_names_the_set(ppe_main, tmp_path, ranker):
    done = ppe_main(
        "rank", write(tmp_path / "separated.csv", SEPARATED), "--ranker", ranker, "--format", "json"
    )
    refused(done)
    assert re.search(r"\btop\b", done.err) and re.search(r"\bsecond\b", done.err), done.err
    assert "ridge" in done.err, "the way out"


def test_ridge_ranks_a_separated_win_graph_in_the_order_of_its_components(ppe_main, tmp_path):
    path = write(tmp_path / "separated.csv", SEPARATED)
    found = ppe_main("rank", path, "--on-separation", "ridge", "--format", "json").json()
    models, wins, ties = counts(SEPARATED)
    expected, _ = bradley_terry(wins, ties, ridge=1e-4)
    assert {row["model"]: row["score"] for row in found["models"]} == pytest.approx(
        dict(zip(models, expected, strict=True)), abs=1e-4
    )
    assert {row["model"] for row in found["models"][:2]} == {"top", "second"}
    assert found["fit"]["ridge"] == pytest.approx(1e-4), "the result says that the fallback was used"
    davidson_found = ppe_main(
        "rank", path, "--ranker", "davidson", "--on-separation", "ridge", "--format", "json"
    ).json()
    assert {row["model"] for row in davidson_found["models"][:2]} == {"top", "second"}
    assert found["fit"]["ridge"] > 0


def test_ridge_changes_nothing_where_a_maximum_exists(ppe_main, tmp_path, pool):
    path = write(tmp_path / "pool.csv", pool)
    plain, ridge = (
        ppe_main("rank", path, "--on-separation", how, "--format", "json").json()
        for how in ("error", "ridge")
    )
    assert plain == ridge


# ---- bad input

GOOD = random_pool(judges=["j"], models=["x", "y", "z"], tie_rate=0.2)


def refused(done):
    "Bad input: exit code 2, one clear line on stderr, nothing on stdout, nothing written."
    assert done.code == 2, done
    assert done.out == "", done.out
    assert done.err.endswith("\n") and len(done.err.splitlines()) == 1, done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip()) > 20, "the message says what is wrong"
    assert done.new_files == ()


def changed(index, column, value):
    "The good table with one cell replaced."
    row = list(GOOD[index])
    row[COLUMNS.index(column)] = value
    return [*GOOD[:index], tuple(row), *GOOD[index + 1 :]]


def names_five(message, rows):
    "The message gives the first five bad rows (counted from 0, from 1 or as file lines), not the sixth."
    numbers = set(map(int, re.findall(r"\d+", message)))
    return any(
        {row + start for row in rows[:5]} <= numbers and rows[5] + start not in numbers for start in (0, 1, 2)
    )


TABLES = {
    "missing column": (lambda: [row[:-1] for row in GOOD], COLUMNS[:-1], ["verdict"]),
    "column twice": (lambda: [(*row, row[-1]) for row in GOOD], (*COLUMNS, "verdict"), ["verdict"]),
    "unknown verdict": (lambda: changed(4, "verdict", "A wins"), COLUMNS, ["A wins", "invalid"]),
    "verdict in another case": (lambda: changed(4, "verdict", "TIE"), COLUMNS, ["TIE"]),
    "model against itself": (lambda: changed(2, "model_b", GOOD[2][4]), COLUMNS, [GOOD[2][4]]),
    "same pair twice": (lambda: [*GOOD, GOOD[3]], COLUMNS, [GOOD[3][4], GOOD[3][5]]),
    "same pair twice, swapped": (
        lambda: [*GOOD, (*GOOD[3][:4], GOOD[3][5], GOOD[3][4], "tie")], COLUMNS, [GOOD[3][4], GOOD[3][5]]
    ),
    "header only": (lambda: [], COLUMNS, []),
    "empty verdict": (lambda: changed(5, "verdict", ""), COLUMNS, ["verdict"]),
    "empty model": (lambda: changed(5, "model_a", ""), COLUMNS, ["model_a"]),
    "empty judge": (lambda: changed(5, "judge", ""), COLUMNS, ["judge"]),
    "empty question": (lambda: changed(5, "question_id", ""), COLUMNS, ["question_id"]),
    "two categories in one graph": (lambda: changed(5, "category", "elsewhere"), COLUMNS, ["categor"]),
    "row too long": (lambda: [*GOOD, (*GOOD[0], "more")], COLUMNS, []),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("subcommand", ["cycles", "rank", "diagnose"])
def test_bad_tables_are_refused(ppe_main, tmp_path, subcommand, name):
    rows, columns, named = TABLES[name]
    done = ppe_main(subcommand, write(tmp_path / "bad.csv", rows(), columns), "--format", "json")
    refused(done)
    assert all(word in done.err for word in named), done.err


def test_the_console_command_refuses_bad_input_too(ppe, tmp_path):
    "One case of each kind; the lists of cases below go through the entry point in this process."
    raw_files(tmp_path)
    done = ppe("cycles", "broken.parquet", "--format", "json")
    refused(done)
    assert "broken.parquet" in done.err
    for arguments in ([write(tmp_path / "separated.csv", SEPARATED)], ["good.csv", "--ranker", "elo"]):
        refused(ppe("rank", *arguments))


@pytest.mark.parametrize("fault", ["verdict", "self", "pair"])
def test_the_first_five_bad_rows_are_named(ppe_main, tmp_path, fault):
    bad = [4, 11, 13, 20, 22, 29, 33]
    rows = list(GOOD)
    if fault == "pair":
        bad = list(range(len(GOOD), len(GOOD) + 7))
        rows += [(*row[:4], row[5], row[4], row[6]) for row in GOOD[::5]][:7]
    for index in bad:
        if fault == "verdict":
            rows[index] = (*rows[index][:6], "draw")
        elif fault == "self":
            rows[index] = (*rows[index][:5], rows[index][4], rows[index][6])
    done = ppe_main("cycles", write(tmp_path / "bad.csv", rows), "--format", "json")
    refused(done)
    both = sorted([*bad, *range(0, len(GOOD), 5)][: len(bad) * 2])
    said = done.err.replace(str(tmp_path), "")  # whose number may be that of a row
    assert names_five(said, bad) or (fault == "pair" and names_five(said, both)), said


def raw_files(folder):
    "Files that are not a verdict table at all."
    (folder / "empty.csv").write_bytes(b"")
    (folder / "blank.csv").write_bytes(b"\n\n")
    text = write(folder / "good.csv", GOOD).read_bytes()
    (folder / "latin1.csv").write_bytes(text.replace(b",x,", ",Ä,".encode("latin-1")))
    (folder / "utf16.csv").write_bytes(text.decode().encode("utf-16"))
    (folder / "nul.csv").write_bytes(b"\0" * 200)
    (folder / "open quote.csv").write_bytes(text + b'j,1,c,0,"x,y,a\n')
    (folder / "broken.parquet").write_bytes(b"PAR1 and no more")
    (folder / "cut.csv.gz").write_bytes(gzip.compress(text)[:-20])
    (folder / "noise.csv.gz").write_bytes(b"\x1f\x8b" + bytes(range(60)))
    (folder / "table.xlsx").write_bytes(b"PK\x03\x04" + bytes(range(200)))
    (folder / "folder.csv").mkdir()
    pd.DataFrame({"x": [1]}).to_parquet(folder / "other.parquet")
    pd.DataFrame(GOOD, columns=COLUMNS).assign(verdict=1.0).to_parquet(folder / "number.parquet")
    nulls = pd.DataFrame(GOOD, columns=COLUMNS).astype({"model_a": object})
    nulls.loc[3, "model_a"] = None
    nulls.to_parquet(folder / "null.parquet")


@pytest.mark.parametrize(
    "name",
    [
        "empty.csv", "blank.csv", "latin1.csv", "utf16.csv", "nul.csv", "open quote.csv", "cut.csv.gz",
        "noise.csv.gz", "broken.parquet", "other.parquet", "number.parquet", "null.parquet",
        "table.xlsx", "folder.csv", "no such file.csv", "no such folder/file.csv",
    ],
)  # fmt: skip
def test_files_that_are_no_table_are_refused(ppe_main, tmp_path, name):
    raw_files(tmp_path)
    for subcommand in ("cycles", "rank", "diagnose"):
        done = ppe_main(subcommand, tmp_path / name, "--format", "json")
        refused(done)
        assert name in done.err, "the message names the file"


OPTIONS = {
    "K zero": (["--select", "global", "--keep", 0], ["0"]),
    "K negative": (["--select", "global", "--keep", -3], ["-3"]),
    "K above the number of graphs": (["--select", "global", "--keep", 13], ["13", "12"]),
    "K not an integer": (["--select", "global", "--keep", "2.5"], ["2.5"]),
    "K missing": (["--select", "global"], ["keep"]),
    "block K zero": (["--select", "block", "--keep", 0], ["0"]),
    "block K missing": (["--select", "block"], ["keep"]),
    "judge not there": (["--judge", "nobody"], ["nobody"]),
    "category not there": (["--category", "poetry"], ["poetry", "writing"]),
    "unknown ranker": (["--ranker", "elo"], ["elo", "bradley-terry"]),
    "unknown selection": (["--select", "some"], ["some", "block"]),
    "unknown option": (["--kep", 3], ["--kep"]),
    "unknown format": (["--format", "xml"], ["xml", "json"]),
    "unknown fallback": (["--on-separation", "ignore"], ["ignore", "ridge"]),
    "mu not a number": (["--select", "global", "--keep", 3, "--mu", "much"], ["much"]),
    "mu NaN": (["--select", "global", "--keep", 3, "--mu", "nan"], ["nan"]),
    "mu infinite": (["--select", "global", "--keep", 3, "--mu", "inf"], ["inf"]),
    "intervals negative": (["--intervals", -1], ["-1"]),
    "too few resamples": (["--intervals", 5], ["5", "19"]),
    "too few resamples for percentiles": (["--intervals", 38, "--interval-kind", "percentile"], ["38", "39"]),
    "unknown kind of interval": (["--intervals", 50, "--interval-kind", "exact"], ["exact", "simultaneous"]),
    "level one": (["--intervals", 50, "--level", 1], ["1"]),
    "level NaN": (["--intervals", 50, "--level", "nan"], ["nan"]),
    "seed negative": (["--seed", -1], ["-1"]),
    "reference missing": (["--reference", "no such file.csv"], ["no such file.csv"]),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_options_are_refused(ppe_main, tmp_path, name):
    options, named = OPTIONS[name]
    path = write(tmp_path / "good.csv", GOOD)
    done = ppe_main("rank", path, *(options if "--format" in options else [*options, "--format", "json"]))
    refused(done)
    assert all(word in done.err for word in named), done.err


def test_a_mu_that_makes_scores_infinite_is_refused(ppe_main, tmp_path, pool):
    path = write(tmp_path / "pool.csv", pool)
    commands = (["cycles", path], ["rank", path], ["rank", path, "--select", "global", "--keep", 3])
    for arguments in (*commands, ["diagnose", path]):
        refused(ppe_main(*arguments, "--mu", "1e308", "--format", "json"))


REFERENCES = {
    "lacks a model": ("model,rating\nx,1\nz,2\n", ["y"]),
    "rating NaN": ("model,rating\nx,1\ny,nan\nz,2\n", ["y"]),
    "rating infinite": ("model,rating\nx,1\ny,inf\nz,2\n", ["y"]),
    "rating empty": ("model,rating\nx,1\ny,\nz,2\n", ["y"]),
    "rating a word": ("model,rating\nx,1\ny,good\nz,2\n", ["y"]),
    "model twice": ("model,rating\nx,1\ny,3\nz,2\ny,4\n", ["y"]),
    "column missing": ("model,score\nx,1\ny,3\nz,2\n", ["rating"]),
    "empty": ("", ["reference.csv"]),
    "header only": ("model,rating\n", []),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_bad_references_are_refused(ppe_main, tmp_path, name):
    text, named = REFERENCES[name]
    path = write(tmp_path / "good.csv", GOOD)
    (tmp_path / "reference.csv").write_text(text)
    done = ppe_main("rank", path, "--reference", "reference.csv", "--format", "json")
    refused(done)
    assert all(re.search(rf"\b{re.escape(word)}\b", done.err) for word in named), done.err


def test_a_reference_not_in_utf8_is_refused(ppe_main, tmp_path):
    path = write(tmp_path / "good.csv", GOOD)
    (tmp_path / "reference.csv").write_bytes("model,rating\nx,1\ny,3\nz,2\nÄ,4\n".encode("latin-1"))
    refused(ppe_main("rank", path, "--reference", "reference.csv", "--format", "json"))


def test_a_table_without_any_complete_graph_is_refused_where_complete_ones_are_asked_for(ppe_main, tmp_path):
    path = write(tmp_path / "bad.csv", [row for index, row in enumerate(GOOD) if index % 3])
    refused(ppe_main("rank", path, "--incomplete", "drop", "--format", "json"))
    refused(ppe_main("cycles", path, "--incomplete", "drop", "--format", "json"))
    refused(ppe_main("rank", path, "--select", "global", "--keep", "2", "--format", "json"))
    refused(ppe_main("rank", path, "--ranker", "soft-weights", "--format", "json"))


def test_a_command_that_is_not_there_is_refused(ppe_main):
    refused(ppe_main("rnak"))
    refused(ppe_main("rank"))
    refused(ppe_main("cycles", "a.csv", "b.csv"))


# ---- ppe rank: methods that look at graphs one by one, and intervals


def signed(rows, models):
    "Half-tie points of every pair of every graph (G, n, n), and the block of each graph."
    graphs = graphs_of(rows)
    half = np.zeros((len(graphs), len(models), len(models)))
    for points, graph in zip(half, graphs.values(), strict=True):
        for u, v in graph.edges:
            points[models.index(u), models.index(v)] = 0.5 if graph.has_edge(v, u) else 1.0
    blocks = [key[:2] for key in graphs]
    return half, np.array([sorted(set(blocks)).index(block) for block in blocks])


def joint_maximum(half, blocks, spread, share):
    "Strengths that maximise the joint objective of the discrimination model, by scipy."
    n_graphs, n = half.shape[:2]
    prior = spread**2 * ((1 - share) * np.eye(n_graphs) + share * (blocks[:, None] == blocks))
    precision = np.linalg.inv(prior)

    def loss(point):
        theta, log_a = point[:n], point[n:]
        a = np.exp(log_a)[:, None, None]
        gap = theta[:, None] - theta
        pull = half * special.expit(-a * gap)
        flow = (a * pull).sum(0)
        slope = np.append(flow.sum(0) - flow.sum(1), precision @ log_a - (a * gap * pull).sum((1, 2)))
        return -(half * special.log_expit(a * gap)).sum() + log_a @ precision @ log_a / 2, slope

    start = np.append(bradley_terry(*_counts_of(half))[0], np.zeros(n_graphs))
    best = optimize.minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 10_000})
    theta = best.x[:n] * np.exp(best.x[n:].mean())
    return theta - theta.mean()


def _counts_of(half):
    return (half == 1).sum(0).astype(float), (half == 0.5).sum(0).astype(float)


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


def test_discrimination_equals_scipy_on_the_joint_objective(ppe_main, tmp_path):
    rows = unlike_pool()
    path = write(tmp_path / "pool.csv", rows)
    found = ppe_main("rank", path, "--ranker", "discrimination", "--format", "json").json()
    fit = found["fit"]
    assert fit["spread"] > 0.5 and 0 <= fit["block_share"] < 1 and fit["cycle_slope"] is None
    expected = joint_maximum(*signed(rows, list("pqrstu")), fit["spread"], fit["block_share"])
    assert {row["model"]: row["score"] for row in found["models"]} == pytest.approx(
        dict(zip("pqrstu", expected, strict=True)), abs=1e-4
    )


def test_soft_weights_equal_weighted_counts(ppe_main, tmp_path):
    rows = unlike_pool()
    path = write(tmp_path / "pool.csv", rows)
    found = ppe_main("rank", path, "--ranker", "soft-weights", "--format", "json").json()
    half, _ = signed(rows, list("pqrstu"))
    # Graphs with equal scores share the middle of their places.
    place = (stats.rankdata([kept["score"] for kept in found["kept"]]) - 0.5) / len(half)
    beta = found["fit"]["beta"]
    weights = 2.0 * (place < 0.5) if beta == "inf" else 2 * special.expit(2 * beta * (1 - 2 * place))
    points = (weights[:, None, None] * half).sum(0)
    expected = bradley_terry(points, np.zeros_like(points))[0]
    assert {row["model"]: row["score"] for row in found["models"]} == pytest.approx(
        dict(zip("pqrstu", expected, strict=True)), abs=1e-5
    )


@pytest.mark.parametrize("ranker", POOL_RANKERS)
def test_rankers_of_graphs_take_every_selection(ppe_main, tmp_path, ranker):
    rows = unlike_pool()
    path = write(tmp_path / "pool.csv", rows)
    for select, keep in (("none", None), ("global", 12), ("block", 1)):
        words = [] if keep is None else ["--select", select, "--keep", keep]
        found = ppe_main("rank", path, "--ranker", ranker, *words, "--format", "json").json()
        kept = [key for key, _ in selected(rows, select, keep, 1.0)]
        assert [tuple(graph[key] for key in GRAPH_KEYS) for graph in found["kept"]] == kept
        only = write(tmp_path / "only.csv", [row for key in kept for row in rows if row[:4] == key])
        alone = ppe_main("rank", only, "--ranker", ranker, "--format", "json").json()
        scores, others = (
            {row["model"]: row["score"] for row in report["models"]} for report in (found, alone)
        )
        assert scores == pytest.approx(others, abs=1e-5), "the kept graphs alone give the same"
    text = ppe_main("rank", path, "--ranker", ranker).out
    told = {"soft-weights": "beta", "question-effects": "sigma"}
    assert told.get(ranker, "spread") in text
    assert ("cycle slope" in text) == (ranker == "discrimination-cycles")


@pytest.mark.parametrize("ranker", [*RANKERS, *POOL_RANKERS])
def test_every_ranker_takes_incomplete_graphs(ppe_main, tmp_path, ranker):
    rows, *_ = incomplete_pool()
    path = write(tmp_path / "pool.csv", rows)
    done = ppe_main("rank", path, "--ranker", ranker, "--incomplete", "keep", "--format", "json")
    assert done.json()["n_graphs"] == 12
    assert ("lacks pairs" in done.err) == (ranker in ("discrimination-cycles", "soft-weights"))


def test_tables_too_large_for_their_graphs(ppe_main, tmp_path, pool, monkeypatch):
    path = write(tmp_path / "pool.csv", pool)
    whole = ppe_main("rank", path, "--format", "json").json()
    monkeypatch.setattr("ppe.pool.MAX_ADJACENCY_BYTES", 10)
    counted = ppe_main("rank", path, "--incomplete", "keep", "--format", "json").json()
    assert counted["kept"] is None and counted["models"] == whole["models"]
    for words in (["--ranker", "discrimination"], ["--ranker", "soft-weights"], ["--intervals", 50]):
        done = ppe_main("rank", path, "--incomplete", "keep", *words)
        refused(done)
        assert "too large" in done.err and "--judge" in done.err
    done = ppe_main("diagnose", path, "--incomplete", "keep")
    refused(done)
    assert "too large" in done.err


@pytest.mark.parametrize("ranker", ["bradley-terry", "discrimination", "soft-weights"])
def test_intervals_hold_the_rank_and_the_kinds_are_nested(ppe_main, tmp_path, pool, ranker):
    path = write(tmp_path / "pool.csv", pool)
    plain = ppe_main("rank", path, "--ranker", ranker, "--format", "json").json()
    found = {}
    for kind in ("percentile", "differences", "simultaneous"):
        words = ["rank", path, "--ranker", ranker, "--intervals", 60, "--interval-kind", kind]
        report = ppe_main(*words, "--format", "json").json()
        assert (report["intervals"]["kind"], report["intervals"]["n_resamples"]) == (kind, 60)
        assert report == ppe_main(*words, "--format", "json").json()
        shown = [{key: row[key] for key in ("model", "score", "rank")} for row in report["models"]]
        assert shown == plain["models"]
        assert report["fit"] == plain["fit"]
        found[kind] = {row["model"]: row for row in report["models"]}
        table = list(csv.DictReader(io.StringIO(ppe_main(*words, "--format", "csv").out)))
        assert {row["model"]: int(row["rank_high"]) for row in table} == {
            model: row["rank_high"] for model, row in found[kind].items()
        }
    for model, row in found["differences"].items():
        wide = found["simultaneous"][model]
        assert wide["rank_low"] <= row["rank_low"] <= row["rank"] <= row["rank_high"] <= wide["rank_high"]
    assert found["differences"] != found["simultaneous"]
    assert plain["intervals"] is None and "rank_low" not in plain["models"][0]


# ---- ppe diagnose

DIAGNOSE_KEYS = {
    "pool", "graphs", "spread", "cycles", "question_effects", "question_effect_size", "expected",
    "halves", "misspecification", "ranks", "order_flips", "first_place", "missing", "cautions",
    "use", "advice", "n_simulations", "seed",
}  # fmt: skip
WAYS = ["all-graphs", "truncated-once", "soft-weights", "discrimination"]
FEW = ["--simulations", 12]


def test_a_diagnosis_has_every_part(ppe_main, tmp_path):
    path = write(tmp_path / "pool.csv", unlike_pool())
    done = ppe_main("diagnose", path, *FEW, "--format", "json")
    found = done.json()
    assert set(found) == DIAGNOSE_KEYS and done.new_files == ()
    assert found["pool"] == {
        "n_graphs": 24, "n_questions": 12, "n_models": 6, "complete": True, "n_graphs_complete": 24,
        "n_graphs_dropped": 0, "mu": 1.0,
    }  # fmt: skip
    assert set(found["graphs"].values()) == {24}
    spread = found["spread"]
    assert 0 < spread["low"] < spread["spread"] < spread["high"] and spread["excludes_zero"] is True
    for part in ("expected", "halves"):
        assert [row["way"] for row in found[part]] == WAYS
        for row in found[part]:
            assert row["difference"] == pytest.approx(row["distance"] - found[part][0]["distance"], abs=1e-12)
            assert row["low"] <= row["difference"] <= row["high"] and 0 <= row["distance"] <= 1
    assert found["misspecification"]["label"] in ("no strong", "possible", "likely")
    assert [row["rank"] for row in found["ranks"]] == list(range(1, 7))
    assert found["use"] in WAYS and "if the model held" in found["advice"]
    assert list(found["missing"]) == ["order_flips"] and found["order_flips"] is None
    ranking = ppe_main("rank", path, "--format", "json").json()
    assert [row["model"] for row in found["ranks"]] == [row["model"] for row in ranking["models"]]
    davidson_fit = ppe_main("rank", path, "--ranker", "discrimination-davidson", "--format", "json").json()[
        "fit"
    ]
    assert spread["spread"] == pytest.approx(davidson_fit["spread"])


def test_a_diagnosis_is_the_same_for_the_same_seed(ppe, ppe_main, tmp_path):
    rows = unlike_pool()
    path, turned = (
        write(tmp_path / "pool.csv", rows),
        write(
            tmp_path / "turned.csv",
            [row for key in graphs_of(rows) for row in reversed([row for row in rows if row[:4] == key])],
        ),
    )
    first = ppe_main("diagnose", path, *FEW, "--seed", 1)
    assert first == ppe("diagnose", path, *FEW, "--seed", 1, env={"PYTHONHASHSEED": "1"})
    assert first.err == "" and first.out == ppe_main("diagnose", turned, *FEW, "--seed", 1).out
    assert first.out != ppe_main("diagnose", path, *FEW, "--seed", 2).out


def test_diagnose_text_and_csv_show_what_json_shows(ppe_main, tmp_path):
    path = write(tmp_path / "pool.csv", unlike_pool())
    found = ppe_main("diagnose", path, *FEW, "--format", "json").json()
    text = ppe_main("diagnose", path, *FEW).out
    heads = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert heads == [
        "pool", "spread", "cycles", "question effects", "expected gain",
        "misspecification", "ranks", "order flips", "first place", "advice",
    ]  # fmt: skip
    assert found["advice"] in text and f"{found['spread']['spread']:.3f}" in text
    rows = list(csv.DictReader(io.StringIO(ppe_main("diagnose", path, *FEW, "--format", "csv").out)))
    assert list(rows[0]) == ["part", "name", "value", "low", "high"]
    values = {(row["part"], row["name"]): row for row in rows}
    assert float(values["spread", "spread"]["high"]) == pytest.approx(found["spread"]["high"])
    for row in found["halves"]:
        assert float(values["halves", f"{row['way']} difference"]["low"]) == pytest.approx(row["low"])


def test_equal_graphs_are_told_from_unlike_ones(ppe_main, tmp_path):
    files = [write(tmp_path / f"{spread}.csv", unlike_pool(20, spread=spread)) for spread in (0.0, 2.0)]
    alike, unlike = (ppe_main("diagnose", path, *FEW, "--format", "json").json() for path in files)
    assert alike["use"] == "all-graphs" and alike["advice"].startswith("Use all graphs: ")
    assert alike["spread"]["low"] == 0 < unlike["spread"]["low"]
    assert alike["spread"]["high"] < unlike["spread"]["spread"]


def test_order_flips_are_counted_by_hand(ppe_main, tmp_path):
    "Three pairs of each question in both orders: one verdict stays, one becomes a tie, one is reversed."
    rows = []
    for question in range(6):
        rows += graph_rows("j", question, "c", 0, {("x", "y"): "a", ("y", "z"): "b", ("x", "z"): "a"})
        rows += graph_rows("j", question, "c", 1, {("y", "x"): "b", ("z", "y"): "tie", ("z", "x"): "a"})
    found = ppe_main("diagnose", write(tmp_path / "both.csv", rows), *FEW, "--format", "json").json()
    assert found["order_flips"] == {
        "pairs": 18, "both_valid": 18, "changed": 12, "reversed": 6,
        "changed_rate": pytest.approx(2 / 3), "reversed_rate": pytest.approx(1 / 3),
    }  # fmt: skip
    assert "66.7 % of the verdicts change, 33.3 % are reversed" in ppe_main("diagnose", "both.csv", *FEW).out


def baseline_rows():
    "Every model meets the same baseline: graphs without most pairs."
    rng = np.random.default_rng(4)
    return [
        ("j", question, "c", 0, "base", model, str(rng.choice(["a", "b", "tie"])))
        for question in range(12) for model in "pqrs"
    ]  # fmt: skip


def battle_rows():
    "One pair to a question."
    rng = np.random.default_rng(5)
    pairs = [map(str, rng.permutation(list("pqrs"))[:2]) for _ in range(60)]
    return [("j", k, "c", 0, *pair, str(rng.choice(["a", "b", "tie"]))) for k, pair in enumerate(pairs)]


@pytest.mark.parametrize(
    ("rows", "lacks"),
    [
        (baseline_rows, {"cycles", "diagnosis", "order_flips"}),
        (battle_rows, {"spread", "order_flips"}),
    ],
)
def test_a_table_without_complete_graphs_is_diagnosed_as_far_as_it_goes(ppe_main, tmp_path, rows, lacks):
    path = write(tmp_path / "table.csv", rows())
    done = ppe_main("diagnose", path, *FEW, "--format", "json")
    found = done.json()
    assert "no graph is complete" in done.err and found["pool"]["complete"] is False
    assert set(found["missing"]) == lacks and found["use"] == "all-graphs"
    assert found["cycles"] is None and len(found["ranks"]) == found["pool"]["n_models"]
    if "spread" not in lacks:
        assert [row["way"] for row in found["expected"]] == ["all-graphs", "discrimination"]
    text = ppe_main("diagnose", path, *FEW).out
    assert all(reason in text for reason in found["missing"].values())


SECTIONS = {
    "spread", "question_effects", "question_effect_sizes", "expected_gain", "misspecification", "ranks"
}  # fmt: skip
SCORED = {"cycles", "truncation_and_soft_weights"}  # sections that need cycle scores


def lacking_pool(rate=0.037, n_questions=20):
    "An unlike pool in which verdicts are missing at random; how many of its graphs are complete."
    rng = np.random.default_rng(6)
    rows = [(*row[:6], "invalid") if rng.random() < rate else row for row in unlike_pool(n_questions)]
    spoilt = {row[:4] for row in rows if row[6] == "invalid"}
    assert 0 < len(spoilt) < 2 * n_questions
    return rows, 2 * n_questions - len(spoilt)


def test_incomplete_graphs_serve_where_no_cycle_score_is_needed(ppe_main, tmp_path):
    rows, n_complete = lacking_pool()
    path = write(tmp_path / "pool.csv", rows)
    found = ppe_main("diagnose", path, *FEW, "--format", "json").json()
    assert found["pool"] | {"mu": 1.0} == {
        "n_graphs": 40, "n_questions": 20, "n_models": 6, "complete": False, "n_graphs_complete": n_complete,
        "n_graphs_dropped": 0, "mu": 1.0,
    }  # fmt: skip
    assert found["graphs"] == dict.fromkeys(SECTIONS, 40) | dict.fromkeys(SCORED, n_complete)
    assert [row["way"] for row in found["expected"]] == [row["way"] for row in found["halves"]] == WAYS
    text = ppe_main("diagnose", path, *FEW).out
    assert text.count(f"from {n_complete} complete graphs") == 1 and text.count("from 40 graphs") == 5
    assert text.count(f"choose among the {n_complete} complete graphs") == 2
    rows = list(csv.DictReader(io.StringIO(ppe_main("diagnose", path, *FEW, "--format", "csv").out)))
    sizes = {row["part"].replace(" ", "_"): int(row["value"]) for row in rows if row["name"] == "graphs"}
    assert sizes == found["graphs"]
    # What needs no cycle score is that of all verdicts; the slope is that of the complete graphs alone.
    ranks = ppe_main("rank", path, "--incomplete", "keep", "--format", "json").json()
    assert [row["model"] for row in found["ranks"]] == [row["model"] for row in ranks["models"]]
    dropped = ppe_main("diagnose", path, "--incomplete", "drop", *FEW, "--format", "json").json()
    assert dropped["cycles"]["slope"] == pytest.approx(found["cycles"]["slope"])
    assert dropped["pool"]["n_graphs"] == n_complete
    assert dropped["pool"]["n_graphs_dropped"] == 40 - n_complete
    assert set(dropped["graphs"].values()) == {n_complete} and dropped["spread"] != found["spread"]
    verdicts = lacking_pool()[0]
    spoilt = {row[:4] for row in verdicts if row[6] == "invalid"}
    alone = write(tmp_path / "whole.csv", [row for row in verdicts if row[:4] not in spoilt])
    whole = ppe_main("diagnose", alone, *FEW, "--format", "json").json()
    assert {key: dropped[key] for key in ("spread", "cycles", "expected", "halves", "ranks")} == {
        key: whole[key] for key in ("spread", "cycles", "expected", "halves", "ranks")
    }


def test_question_effects_and_the_first_place_are_reported(ppe_main, tmp_path):
    "Strengths that move with the question are found; who prefers the first answer is told from who does not."
    rng, rows = np.random.default_rng(8), []
    for judge, lean in (("fair", 0.0), ("first", 1.5)):
        for question in range(30):
            moved = 2.0 * rng.standard_normal(5)
            verdicts = {}
            for i, j in combinations(range(5), 2):
                a, b = (i, j) if rng.random() < 0.5 else (j, i)
                chance = special.expit(moved[a] - moved[b] + lean)
                verdicts["vwxyz"[a], "vwxyz"[b]] = "a" if rng.random() < chance else "b"
            rows += graph_rows(judge, question, "c", 0, verdicts)
    path = write(tmp_path / "two.csv", rows)
    found = ppe_main("diagnose", path, *FEW, "--format", "json").json()
    shares = {
        judge: np.mean([row[6] == "a" for row in rows if row[0] == judge]) for judge in ("fair", "first")
    }
    places = {row["judge"]: row for row in found["first_place"]}
    for judge, share in shares.items():
        assert places[judge]["rate"] == pytest.approx(share) and places[judge]["basis"] == "random order"
        assert places[judge]["low"] < share < places[judge]["high"]
    assert places["fair"]["low"] < 0.5 < places["first"]["low"]
    size = found["question_effect_size"]
    assert 0 < size["low"] < size["sigma"] < size["high"] and size["p_value"] < 0.001
    text = ppe_main("diagnose", path, *FEW).out
    assert f"sigma = {size['sigma']:.3f}" in text
    assert f"first: the answer shown first wins {100 * shares['first']:.1f} %" in text
    rows = list(csv.DictReader(io.StringIO(ppe_main("diagnose", path, *FEW, "--format", "csv").out)))
    values = {(row["part"], row["name"]): row for row in rows}
    assert float(values["first place", "first"]["value"]) == pytest.approx(shares["first"])
    assert float(values["question effects", "sigma"]["low"]) == pytest.approx(size["low"])


@pytest.mark.parametrize("n_questions", [1, 2, 3])
def test_a_small_pool_is_cautioned(ppe_main, tmp_path, n_questions):
    path = write(tmp_path / "small.csv", unlike_pool(n_questions))
    found = ppe_main("diagnose", path, *FEW, "--format", "json").json()
    assert found["use"] == "all-graphs" and found["halves"] is None
    assert any("fewer than 5" in line for line in found["cautions"])
    assert all(line in ppe_main("diagnose", path, *FEW).out for line in found["cautions"])


def test_a_separated_pool_is_diagnosed_with_a_caution(ppe_main, tmp_path):
    found = ppe_main("diagnose", write(tmp_path / "s.csv", SEPARATED), *FEW, "--format", "json").json()
    assert any("never lost" in line for line in found["cautions"])


DIAGNOSE_OPTIONS = {
    "one simulation": (["--simulations", 1], ["1"]),
    "simulations not a number": (["--simulations", "many"], ["many"]),
    "judge not there": (["--judge", "nobody"], ["nobody"]),
    "category not there": (["--category", "poetry"], ["poetry"]),
    "format not there": (["--format", "xml"], ["xml", "csv"]),
    "seed not a number": (["--seed", "x"], ["x"]),
}


@pytest.mark.parametrize("name", DIAGNOSE_OPTIONS)
def test_bad_options_of_diagnose_are_refused(ppe_main, tmp_path, name):
    options, named = DIAGNOSE_OPTIONS[name]
    done = ppe_main("diagnose", write(tmp_path / "good.csv", GOOD), *options)
    refused(done)
    assert all(word in done.err for word in named), done.err


# ---- the same question, the same answer


def test_output_does_not_depend_on_the_order_of_rows_within_a_graph(ppe_main, tmp_path, pool):
    rng = np.random.default_rng(5)
    graphs = {}
    for row in pool:
        graphs.setdefault(row[:4], []).append(row)
    shuffled = [graph[k] for graph in graphs.values() for k in rng.permutation(len(graph))]
    assert shuffled != pool and sorted(map(str, shuffled)) == sorted(map(str, pool))
    first, second = write(tmp_path / "a.csv", pool), write(tmp_path / "b.csv", shuffled)
    for arguments in (
        ["cycles"],
        ["rank", "--select", "global", "--keep", 7],
        ["rank", "--ranker", "davidson"],
    ):
        outputs = [ppe_main(*arguments, path, "--format", "json") for path in (first, second)]
        assert outputs[0].json() == outputs[1].json()
        assert outputs[0].out == outputs[1].out


def test_two_runs_print_the_same_bytes(ppe_main, tmp_path, pool):
    "With another hash seed, and so another order of sets: all rankers in one process for each seed."
    path = write(tmp_path / "pool.csv", pool)
    commands = [
        ["rank", str(path), "--ranker", ranker, "--select", "block", "--keep", "2", "--format", "json"]
        for ranker in (*RANKERS, *POOL_RANKERS)
    ]
    program = (
        "import json, sys\nfrom ppe.cli.main import main\nfor words in json.loads(sys.argv[1]): main(words)"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", program, json.dumps(commands)],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
        )
        for seed in ("0", "1")
    )  # fmt: skip
    assert first.stdout == second.stdout and first.stderr == second.stderr
    runs = [ppe_main(*words) for words in commands]
    assert "".join(run.out for run in runs) == first.stdout
    assert all(run.code == 0 and run.new_files == () for run in runs)


# ---- help, data and paper


def test_help_shows_every_option(ppe, ppe_main):
    done = ppe("rank", "--help")
    assert (done.code, done.err) == (0, "")
    options = (
        "--ranker --select --keep --mu --judge --category --reference --on-separation --incomplete --format"
        " --intervals --interval-kind --level --seed"
    )
    for word in (*options.split(), *RANKERS, *POOL_RANKERS):
        assert word in done.out
    shown = ppe_main("diagnose", "--help").out
    options = "--simulations --seed --judge --category --incomplete --format"
    assert all(word in shown for word in options.split())
    assert ppe_main("--help").code == ppe_main("cycles", "--help").code == 0


def test_data_and_paper_can_be_listed(ppe, ppe_main):
    data = ppe("data", "list")
    assert (data.code, data.err) == (0, "")
    assert all(name in data.out for name in ("mt-bench-gpt4", "vicuna80-human", "ppr-arena"))
    paper = ppe_main("paper", "list")
    assert (paper.code, paper.err) == (0, "")
    assert all(
        name in paper.out
        for name in ("fig_cycle_distance", "tab_replication", "tab_target_models", "tab_arena_mapping")
    )


def test_an_unknown_figure_is_refused(ppe_main):
    done = ppe_main("paper", "run", "fig_unknown")
    refused(done)
    assert "fig_unknown" in done.err

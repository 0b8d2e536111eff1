"""The `ppe` command as a contract: output against the oracles, bad input refused in one line."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import combinations

import choix
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from conftest import COLUMNS, MODELS, graph_rows, random_pool, refused, write
from oracles import (
    GRAPH_KEYS,
    bradley_terry,
    counts,
    cycle_row,
    davidson,
    graphs_of,
    mutual,
    oracle_distances,
    oracle_scores,
    ranked,
    selected,
    unlike_pool,
)  # fmt: skip
from scipy import optimize, special

from ppe.inference.advice import SECTIONS

CYCLE_KEYS = [*GRAPH_KEYS, *"n_models c3 c4 c3_bad c4_bad score tie_rate largest_scc".split()]
RANK_KEYS = set("ranker n_models n_graphs n_graphs_dropped selection kept models fit".split())
RANKERS = ["bradley-terry", "davidson", "copeland", "rank-centrality", "hodgerank"]
POOL_RANKERS = ["discrimination", "question-effects"]


@pytest.fixture(scope="module")
def pool():
    return random_pool()


@pytest.fixture
def ask(ppe_main, tmp_path):
    "The JSON that a command makes of rows."

    def asked(command, rows, *words):
        return ppe_main(command, write(tmp_path / "pool.csv", rows), *words, "--format", "json").json()

    return asked


def keys(graphs):
    return [tuple(graph[key] for key in GRAPH_KEYS) for graph in graphs]


def scores(report):
    return {row["model"]: row["score"] for row in report["models"]}


def expected(rows, ranker="bradley-terry", kept=None):
    models, wins, ties = counts(rows, kept)
    return dict(zip(models, oracle_scores(ranker, wins, ties), strict=True))


def as_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


# ---- ppe cycles


def test_cycles_equal_enumeration_and_networkx(ask):
    pool = random_pool(tie_rate=0.5, variants=(1, 0))
    found, graphs = ask("cycles", pool), graphs_of(pool)
    assert all(list(row) == CYCLE_KEYS for row in found)
    assert found == [pytest.approx(cycle_row(key, graph)) for key, graph in graphs.items()]
    for row, graph in zip(found, graphs.values(), strict=True):
        for kind, digraph in (("", graph), ("tie", mutual(graph))):
            lengths = Counter(map(len, nx.simple_cycles(digraph, length_bound=4)))
            for length in (3, 4):
                assert lengths[length] == row[f"c{length}"] - (row[f"c{length}_bad"] if kind else 0)
        assert all(type(row[key]) is int for key in CYCLE_KEYS[4:9])
    assert any(row["c3"] > row["c3_bad"] > 0 for row in found) and any(row["c4"] > row["c4_bad"] > 0 for row in found)


def test_every_input_format_gives_the_same_output(ppe_main, tmp_path, pool):
    frame = pd.DataFrame(pool, columns=COLUMNS)
    frame.to_parquet(tmp_path / "pool.parquet", index=False)
    plain, zipped = write(tmp_path / "pool.csv", pool), write(tmp_path / "pool.csv.gz", pool)
    marked, shuffled = tmp_path / "from a spreadsheet.csv", tmp_path / "more columns.csv"
    marked.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())  # byte order mark
    frame[list(COLUMNS[::-1])].assign(comment="not of interest").to_csv(shuffled, index=False)
    first = ppe_main("cycles", plain, "--format", "json").json()
    for path in (zipped, tmp_path / "pool.parquet", marked, shuffled):
        assert ppe_main("cycles", path, "--format", "json").json() == first, path.name


def test_csv_and_table_show_what_json_shows(ppe, ppe_main, ask, tmp_path, pool):
    path, rows = tmp_path / "pool.csv", ask("cycles", pool)
    for text, row in zip(as_csv(ppe_main("cycles", path, "--format", "csv").out), rows, strict=True):
        assert list(text) == CYCLE_KEYS and [text[key] for key in GRAPH_KEYS] == [str(row[key]) for key in GRAPH_KEYS]
        assert [float(text[key]) for key in CYCLE_KEYS[4:]] == pytest.approx([row[key] for key in CYCLE_KEYS[4:]])
    table = ppe("cycles", path, "--format", "table")
    assert table == ppe_main("cycles", path) and (table.code, table.err) == (0, ""), "the table is the default"
    assert all(key in table.out for key in CYCLE_KEYS)
    assert len([line for line in table.out.splitlines() if re.search(r"zeta|alpha judge", line)]) == len(rows)
    rows = ask("rank", pool)["models"]
    read = as_csv(ppe_main("rank", path, "--format", "csv").out)
    assert [(row["model"], int(row["rank"])) for row in read] == [(row["model"], row["rank"]) for row in rows]
    assert [float(row["score"]) for row in read] == pytest.approx([row["score"] for row in rows])
    table = ppe_main("rank", path)
    assert table.code == 0 and "ppe: note: verdicts of 2 judges are pooled" in table.err
    places = [table.out.index(row["model"]) for row in rows]
    assert places == sorted(places), "best model first"


def test_question_ids_keep_their_kind(ask):
    for question, variant in ((10, 1), (-2, 0), ("007", "turn-1"), ("8", "2")):
        other = "x" if isinstance(question, str) else 5
        rows = [row for q in (question, other) for row in graph_rows("j", q, "NA", variant, {("x", "y"): "a"})]
        assert keys(ask("cycles", rows))[0] == ("j", question, "NA", variant if question != "8" else 2)


# ---- ppe rank


@pytest.mark.parametrize("ranker", RANKERS)
def test_every_ranker_equals_its_oracle(ask, pool, ranker):
    found, graphs = ask("rank", pool, "--ranker", ranker, "--intervals", 0), graphs_of(pool)
    assert RANK_KEYS <= set(found) and found["distances"] is None
    assert (found["ranker"], found["selection"], found["n_models"]) == (ranker, "none", len(MODELS))
    assert (found["n_graphs"], found["n_graphs_dropped"]) == (len(graphs), 0) and keys(found["kept"]) == list(graphs)
    wanted, (models, wins, ties) = expected(pool, ranker), counts(pool)
    assert scores(found) == pytest.approx(wanted, abs=1e-6)
    assert sum(scores(found).values()) == pytest.approx(0, abs=1e-9), "scores are centred"
    assert {row["model"]: row["rank"] for row in found["models"]} == ranked(models, wanted.values())
    assert [row["rank"] for row in found["models"]] == list(range(1, len(MODELS) + 1))
    assert all(list(row) == ["model", "score", "rank"] for row in found["models"])
    fit = found["fit"]
    assert fit["converged"] is True and isinstance(fit["iterations"], int)
    if ranker == "bradley-terry":
        by_choix = choix.ilsr_pairwise_dense(wins + ties / 2, alpha=0.0, tol=1e-10, max_iter=1000)
        assert [scores(found)[model] for model in models] == pytest.approx(by_choix - np.mean(by_choix), abs=1e-5)
        assert fit["log_likelihood"] == pytest.approx(bradley_terry(wins, ties)[1], rel=1e-9)
    if ranker == "davidson":
        _, log_likelihood, nu = davidson(wins, ties)
        assert fit["log_likelihood"] == pytest.approx(log_likelihood, rel=1e-9)
        assert fit["nu"] == pytest.approx(nu, rel=1e-5)
    else:
        assert fit.get("nu") is None


@pytest.mark.parametrize(
    ("select", "keep", "mu"),
    [("global", 5, 1.0), ("global", 8, 0.25), ("global", 24, 1.0), ("block", 1, 1.0), ("block", 2, 3.0)],
)
def test_selection_follows_the_rule_of_the_paper(ask, pool, select, keep, mu):
    found = ask("rank", pool, "--ranker", "hodgerank", "--select", select, "--keep", keep, "--mu", mu)
    wanted = selected(pool, select, keep, mu)
    kept = list(zip(keys(found["kept"]), [row["score"] for row in found["kept"]], strict=True))
    assert found["selection"] == select and all(list(row) == [*GRAPH_KEYS, "score"] for row in found["kept"])
    assert kept == wanted if select == "global" else sorted(kept) == sorted(wanted)
    assert scores(found) == pytest.approx(expected(pool, "hodgerank", dict(wanted)), abs=1e-9)


def test_equal_scores_are_kept_in_source_order(ask):
    "Ten graphs with one cycle each, in no sorted order: K = 4 must take the first four of the file."
    order = [("z", 5, 1), ("z", 5, 0), ("b", 7, 0), ("z", 1, 0), ("a", 3, 0), ("b", 7, 1), ("a", 0, 0), ("a", 3, 1)]
    cycle = {("x", "y"): "b", ("y", "w"): "tie", ("x", "w"): "tie"}
    rows = [row for judge, question, variant in order for row in graph_rows(judge, question, "c", variant, cycle)]
    rows += graph_rows("b", 9, "c", 0, {("x", "y"): "a", ("y", "w"): "a", ("x", "w"): "tie"})
    assert {score for _, score in selected(rows, "none", None, 1.0)} == {1}, "so only the source order decides"
    how = ("--ranker", "hodgerank", "--select")
    kept = [(judge, *rest) for judge, *rest in keys(ask("rank", rows, *how, "global", "--keep", 4)["kept"])]
    assert [(judge, question, variant) for judge, question, _, variant in kept] == order[:4]
    kept = keys(ask("rank", rows, *how, "block", "--keep", 1)["kept"])
    first = {("z", 5, 1), ("b", 7, 0), ("z", 1, 0), ("a", 3, 0), ("a", 0, 0), ("b", 9, 0)}
    assert {(judge, question, variant) for judge, question, _, variant in kept} == first


def test_judge_and_category_restrict_the_table(ask, pool):
    extra = graph_rows("third", 1, "math", 0, {("only here", "alpaca"): "a"})  # its own models, its own graph
    found = ask("rank", [*pool, *extra], "--judge", "zeta", "--category", "math")
    assert (found["n_models"], found["n_graphs"], found["n_graphs_dropped"]) == (len(MODELS), 6, 0)
    assert {(row["judge"], row["category"]) for row in found["kept"]} == {("zeta", "math")}
    part = [row for row in pool if row[0] == "zeta" and row[2] == "math"]
    assert scores(found) == pytest.approx(expected(part), abs=1e-6)
    assert ask("rank", [*pool, *extra], "--judge", "alpha judge")["n_graphs"] == 12


@pytest.mark.parametrize("ranker", ["bradley-terry", "copeland"])
def test_distances_equal_scipy(ask, tmp_path, pool, ranker):
    ratings = dict(zip(("alpaca", "mistral", "NA", *MODELS[:3]), (1210.5, 1100, 1300, 1100, 990, 1250), strict=True))
    with open(tmp_path / "reference.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("model", "rating"), *ratings.items(), ("a model nobody judged", 1500)])
    found = ask("rank", pool, "--ranker", ranker, "--reference", "reference.csv")
    ranks = {row["model"]: row["rank"] for row in found["models"]}
    wanted = oracle_distances(ranks, {model: -rating for model, rating in ratings.items()})
    assert found["distances"] == pytest.approx(wanted, abs=1e-12) and 0 < wanted["spearman"] < 1


# ---- incomplete graphs and invalid verdicts


def incomplete_pool():
    "A complete pool to which one graph lacks a pair and another has an invalid verdict."
    rows = random_pool(judges=["j"], models=["x", "y", "z"], tie_rate=0.2)
    graphs = list(graphs_of(rows))
    gone, spoilt = (next(row for row in rows if row[:4] == graphs[at]) for at in (3, 7))
    return [(*row[:6], "invalid") if row == spoilt else row for row in rows if row != gone], {graphs[3], graphs[7]}


def test_incomplete_graphs_are_dropped_on_request_and_counted(ask):
    rows, lacking = incomplete_pool()
    complete, found = [row for row in rows if row[:4] not in lacking], ask("rank", rows, "--incomplete", "drop")
    assert [found[f"n_graphs{part}"] for part in ("", "_used", "_dropped")] == [12, 10, 2]
    assert scores(found) == pytest.approx(expected(complete), abs=1e-6)
    assert keys(ask("cycles", rows)) == list(graphs_of(complete))


def test_incomplete_graphs_count_and_invalid_is_no_tie(ask):
    rows, _ = incomplete_pool()
    found = ask("rank", rows)
    assert found == ask("rank", rows, "--incomplete", "keep")
    assert (found["n_graphs"], found["n_graphs_dropped"]) == (12, 0)
    _, wins, ties = counts(rows)
    assert (wins + wins.T + ties).sum() == 2 * (len(rows) - 1), "the oracle counts no invalid verdict"
    assert scores(found) == pytest.approx(expected(rows), abs=1e-6)
    shown = ask("cycles", rows, "--incomplete", "keep")
    assert keys(shown) == list(graphs_of(rows))
    for row, (key, graph) in zip(shown, graphs_of(rows).items(), strict=True):
        wanted = cycle_row(key, graph)
        assert all(row[name] == wanted[name] for name in CYCLE_KEYS[5:10] + CYCLE_KEYS[11:]), key


# ---- separated win graphs

# `top` and `second` win every game against the others; inside each group both have won
WON = {(strong, weak): "a" for strong in ("top", "second") for weak in ("low", "lower")}
SEPARATED = [
    row
    for question in range(4)
    for row in graph_rows(
        "j", question, "c", 0, {("top", "second"): "ab"[question % 2], ("low", "lower"): "ba"[question // 3], **WON}
    )
]


@pytest.mark.parametrize("ranker", ["bradley-terry", "davidson", "rank-centrality"])
def test_a_separated_win_graph_is_an_error_that_names_the_set(ppe_main, tmp_path, ranker):
    done = ppe_main("rank", write(tmp_path / "separated.csv", SEPARATED), "--ranker", ranker, "--format", "json")
    refused(done, re.compile(r"\btop\b"), re.compile(r"\bsecond\b"), "ridge")


def test_ridge_ranks_a_separated_win_graph_and_changes_nothing_where_a_maximum_exists(ask, pool):
    found = ask("rank", SEPARATED, "--on-separation", "ridge")
    models, wins, ties = counts(SEPARATED)
    wanted = dict(zip(models, bradley_terry(wins, ties, ridge=1e-4)[0], strict=True))
    assert scores(found) == pytest.approx(wanted, abs=1e-4)
    assert found["fit"]["ridge"] == pytest.approx(1e-4), "the result says that the fallback was used"
    with_ties = ask("rank", SEPARATED, "--ranker", "davidson", "--on-separation", "ridge")
    assert all({row["model"] for row in one["models"][:2]} == {"top", "second"} for one in (found, with_ties))
    assert ask("rank", pool, "--on-separation", "ridge") == ask("rank", pool)


# ---- bad input

GOOD = random_pool(judges=["j"], models=["x", "y", "z"], tie_rate=0.2)


def test_the_first_five_bad_rows_are_named(ppe_main, tmp_path):
    bad, drawn, alone = [4, 11, 13, 20, 22, 29, 33], list(GOOD), list(GOOD)
    for index in bad:
        *key, a, b, verdict = GOOD[index]
        drawn[index], alone[index] = (*key, a, b, "draw"), (*key, a, a, verdict)
    twice = [*GOOD, *((*key, b, a, verdict) for *key, a, b, verdict in GOOD[::5][:7])]
    for rows, said in (
        (drawn, "unknown verdict 'draw' in rows 5, 12, 14, 21, 23, … (7 in all)"),
        (alone, "model against itself in rows 5, 12, 14, 21, 23, … (7 in all) (x)"),
        (twice, "same pair twice in one graph in rows 37, 38, 39, 40, 41, … (7 in all) (the first: y and x,"),
    ):
        refused(ppe_main("cycles", write(tmp_path / "bad.csv", rows), "--format", "json"), said)


OPTIONS = """
    --select global --keep 0: 0; --select global --keep -3: -3; --select global --keep 13: 13 12
    --select global --keep 2.5: 2.5; --select global: keep; --select block --keep 0: 0; --select block: keep
    --keep 3: keep
    --judge nobody: nobody; --category poetry: poetry writing; --ranker elo: elo bradley-terry
    --select some: some block; --kep 3: --kep
    --format xml: xml json; --on-separation ignore: ignore ridge; --select global --keep 3 --mu much: much
    --select global --keep 3 --mu nan: nan; --select global --keep 3 --mu inf: inf; --intervals -1: -1
    --intervals 5: 5 19; --intervals 38 --interval-kind percentile: 38 39
    --intervals 50 --interval-kind exact: exact simultaneous
    --intervals 50 --level 1: 1; --intervals 50 --level nan: nan; --seed -1: -1; --reference nowhere.csv: nowhere.csv
    --mu 1e308: .; --select global --keep 3 --mu 1e308: .
"""
DIAGNOSE_OPTIONS = """
    --level 1: 1; --level many: many; --judge nobody: nobody; --category poetry: poetry
    --format xml: xml csv; --seed x: x; --people nowhere.csv: nowhere.csv; --incomplete auto: auto
"""


@pytest.mark.parametrize(
    "line",
    [
        f"{command} {part.strip()}"
        for command, table in (("rank", OPTIONS), ("diagnose", DIAGNOSE_OPTIONS), ("cycles", "--mu 1e308: ."))
        for part in table.strip().replace("\n", ";").split(";")
    ],
)
def test_bad_options_are_refused(ppe_main, tmp_path, pool, line):
    (command, *options), named = (part.split() for part in line.split(": "))
    rows = pool if "1e308" in options else GOOD  # which makes scores infinite where there are cycles
    form = [] if "--format" in options else ["--format", "json"]
    done = ppe_main(command, write(tmp_path / "t.csv", rows), *options, *form)
    refused(done, *(named if named != ["."] else []))


REFERENCES = {
    "lacks a model": ("model,rating\nx,1\nz,2\n", "y"),
    **{
        f"rating {word!r}": (f"model,rating\nx,1\ny,{word}\nz,2\n", "y")
        for word in ("nan", "inf", "", "good", "1_000", "١", '"1,0"')
    },
    "model twice": ("model,rating\nx,1\ny,3\nz,2\ny,4\n", "y"),
    "column missing": ("model,score\nx,1\ny,3\n", "rating"),
    "column twice": ("model,rating,rating\nx,1,1\ny,3,3\nz,2,2\n", "rating more than once"),
    "empty": ("", "reference.csv"),
    "header only": ("model,rating\n", "no rows"),
    "not UTF-8": ("model,rating\nx,1\ny,3\nz,2\nÄ,4\n", "UTF-8"),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_bad_references_are_refused(ppe_main, tmp_path, name):
    text, named = REFERENCES[name]
    path = write(tmp_path / "good.csv", GOOD)
    (tmp_path / "reference.csv").write_bytes(text.encode("latin-1" if named == "UTF-8" else "utf-8"))
    refused(
        ppe_main("rank", path, "--reference", "reference.csv", "--format", "json"),
        re.compile(rf"\b{re.escape(named)}\b"),
    )


def test_a_table_without_any_complete_graph_is_refused_where_complete_ones_are_asked_for(ppe_main, tmp_path):
    path = write(tmp_path / "bad.csv", [row for index, row in enumerate(GOOD) if index % 3])
    lines = (
        "rank --incomplete drop",
        "cycles --incomplete drop",
        "rank --select global --keep 2",
    )
    for command, *words in map(str.split, lines):
        refused(ppe_main(command, path, *words, "--format", "json"))


# ---- ppe rank: methods that look at graphs one by one, and intervals


@pytest.mark.parametrize("ranker", POOL_RANKERS)
def test_rankers_of_graphs_take_every_selection(ppe_main, ask, tmp_path, ranker):
    rows = unlike_pool()
    for select, keep in (("none", None), ("global", 12), ("block", 1)):
        words = [] if keep is None else ["--select", select, "--keep", keep]
        found, kept = (
            ask("rank", rows, "--ranker", ranker, *words),
            [key for key, _ in selected(rows, select, keep, 1.0)],
        )
        assert keys(found["kept"]) == kept
        alone = ask("rank", [row for key in kept for row in rows if row[:4] == key], "--ranker", ranker)
        assert scores(found) == pytest.approx(scores(alone), abs=1e-5), "the kept graphs alone give the same"
    text = ppe_main("rank", write(tmp_path / "pool.csv", rows), "--ranker", ranker).out
    assert {"question-effects": "sigma", "discrimination": "spread"}[ranker] in text


@pytest.mark.parametrize("ranker", [*RANKERS, *POOL_RANKERS])
def test_every_ranker_takes_incomplete_graphs(ppe_main, tmp_path, ranker):
    path = write(tmp_path / "pool.csv", incomplete_pool()[0])
    done = ppe_main("rank", path, "--ranker", ranker, "--incomplete", "keep", "--format", "json")
    assert done.json()["n_graphs"] == 12
    assert "lacks pairs" not in done.err


@pytest.mark.parametrize("ranker", ["soft-weights", "discrimination-cycles", "discrimination-davidson"])
def test_a_ranker_that_is_gone_says_so_in_one_line(ppe_main, tmp_path, pool, ranker):
    refused(ppe_main("rank", write(tmp_path / "pool.csv", pool), "--ranker", ranker), f"{ranker} is gone", "use ")


def test_tables_too_large_for_their_graphs(ppe_main, ask, tmp_path, pool, monkeypatch):
    path, whole = tmp_path / "pool.csv", ask("rank", pool, "--intervals", 0)
    monkeypatch.setattr("ppe.pool.MAX_ADJACENCY_BYTES", 10)
    counted = ask("rank", pool, "--incomplete", "keep")
    assert counted["kept"] is None and counted["models"] == whole["models"]
    for words in (["--ranker", "discrimination"], ["--intervals", 50]):
        refused(ppe_main("rank", path, "--incomplete", "keep", *words), "too large", "--judge")
    refused(ppe_main("diagnose", path, "--incomplete", "keep"), "too large")


@pytest.mark.parametrize("ranker", ["bradley-terry", "discrimination"])
def test_intervals_hold_the_rank_and_the_kinds_are_nested(ppe_main, ask, tmp_path, pool, ranker):
    plain, found = ask("rank", pool, "--ranker", ranker, "--intervals", 0), {}
    assert plain["intervals"] is None and "rank_low" not in plain["models"][0]
    for kind in ("percentile", "differences", "simultaneous"):
        words = ["--ranker", ranker, "--intervals", 60, "--interval-kind", kind]
        report = ask("rank", pool, *words)
        made = kind if ranker == "bradley-terry" else "percentile"
        assert (report["intervals"]["kind"], report["intervals"]["n_resamples"]) == (made, 60)
        assert report == ask("rank", pool, *words) and report["fit"] == plain["fit"]
        shown = [{key: row[key] for key in ("model", "score", "rank")} for row in report["models"]]
        assert shown == plain["models"]
        found[kind] = {row["model"]: row for row in report["models"]}
        for row in as_csv(ppe_main("rank", tmp_path / "pool.csv", *words, "--format", "csv").out):
            assert int(row["rank_high"]) == found[kind][row["model"]]["rank_high"]
    for model, row in found["differences"].items():
        wide = found["simultaneous"][model]
        assert wide["rank_low"] <= row["rank_low"] <= row["rank"] <= row["rank_high"] <= wide["rank_high"]


# ---- ppe diagnose

DIAGNOSE_KEYS = {*SECTIONS, "use", "advice", "missing", "sentences", "seed"}


def test_a_diagnosis_has_every_part_in_every_format(ppe_main, ask, tmp_path):
    rows, path = unlike_pool(), tmp_path / "pool.csv"
    found = ask("diagnose", rows)
    assert set(found) == DIAGNOSE_KEYS
    assert found["pool"] == {
        "n_verdicts": 360, "n_judges": 1, "n_questions": 12, "n_models": 6, "n_graphs": 24, "n_graphs_used": 24,
        "n_graphs_complete": 24, "n_graphs_dropped": 0, "n_pairs_never_compared": 0,
    }  # fmt: skip
    assert found["use"] == "all-graphs" and found["advice"].startswith("Use all graphs, once")
    assert list(found["missing"]) == ["order_flips"] and found["order_flips"] is None
    assert 0 < found["misspecification"]["p_value"] <= 1
    ranked = ask("rank", rows, "--intervals", 1000, "--interval-kind", "differences")["models"]
    ranks = [(model, row["value"], row["low"], row["high"]) for model, row in found["ranks"].items()]
    assert ranks == [tuple(row[key] for key in ("model", "rank", "rank_low", "rank_high")) for row in ranked]
    assert {row["level"] for row in found["ranks"].values()} == {0.95}
    text = ppe_main("diagnose", path).out.splitlines()
    assert text == found["sentences"] and len(text) <= 15 and all(line.endswith((".", "?")) for line in text)
    table = as_csv(ppe_main("diagnose", path, "--format", "csv").out)
    assert list(table[0]) == ["section", "name", "value", "low", "high", "level"]
    values = {(row["section"], row["name"]): row for row in table}
    assert float(values["question_effect_size", "sigma"]["high"]) == pytest.approx(
        found["question_effect_size"]["sigma"]["high"]
    )
    assert {section for section, _ in values} == {name for name in SECTIONS if found[name] != {}} | {"advice"}
    wider = ask("diagnose", rows, "--level", 0.99)["ranks"]
    assert all(wider[m]["low"] <= row["low"] and row["high"] <= wider[m]["high"] for m, row in found["ranks"].items())


def test_a_diagnosis_is_the_same_for_the_same_seed(ppe, ppe_main, tmp_path):
    rows = unlike_pool()
    backwards = [row for key in graphs_of(rows) for row in reversed([row for row in rows if row[:4] == key])]
    path, turned = write(tmp_path / "pool.csv", rows), write(tmp_path / "turned.csv", backwards)
    first = ppe_main("diagnose", path, "--seed", 1)
    assert first == ppe("diagnose", path, "--seed", 1, env={"PYTHONHASHSEED": "1"})
    assert first.err == "" and first.out == ppe_main("diagnose", turned, "--seed", 1).out
    assert first.out != ppe_main("diagnose", path, "--seed", 2).out


def baseline_rows():
    "Every model meets the same baseline: graphs without most pairs."
    rng = np.random.default_rng(4)
    cells = [(question, model) for question in range(12) for model in "pqrs"]
    return [("j", question, "c", 0, "base", model, str(rng.choice(["a", "b", "tie"]))) for question, model in cells]


def battle_rows():
    "One pair to a question."
    rng = np.random.default_rng(5)
    pairs = [map(str, rng.permutation(list("pqrs"))[:2]) for _ in range(60)]
    return [("j", k, "c", 0, *pair, str(rng.choice(["a", "b", "tie"]))) for k, pair in enumerate(pairs)]


@pytest.mark.parametrize(
    ("rows", "lacks"),
    [
        (baseline_rows, {"misspecification", "order_flips"}),
        (battle_rows, {"question_effect_size", "order_flips"}),
    ],
)
def test_a_table_without_complete_graphs_is_diagnosed_as_far_as_it_goes(ppe_main, tmp_path, rows, lacks):
    path = write(tmp_path / "table.csv", rows())
    found, text = ppe_main("diagnose", path, "--format", "json").json(), ppe_main("diagnose", path).out
    assert found["pool"]["n_graphs_complete"] == 0 and set(found["missing"]) == lacks
    assert len(found["ranks"]) == found["pool"]["n_models"] and "nan" not in text
    assert all(found[section] is None and reason in text for section, reason in found["missing"].items())
    assert "comparison graphs (the verdicts on one wording) lack pairs" in text


def test_incomplete_graphs_serve_or_are_dropped(ppe_main, ask, tmp_path):
    rng, path = np.random.default_rng(6), tmp_path / "pool.csv"
    rows = [(*row[:6], "invalid") if rng.random() < 0.037 else row for row in unlike_pool(20)]
    spoilt = {row[:4] for row in rows if row[6] == "invalid"}
    n_complete = 40 - len(spoilt)
    whole = ask("diagnose", [row for row in rows if row[:4] not in spoilt])
    found, dropped = ask("diagnose", rows), ask("diagnose", rows, "--incomplete", "drop")
    assert 0 < len(spoilt) < 40
    assert [found["pool"][f"n_graphs{part}"] for part in ("", "_complete", "_dropped")] == [40, n_complete, 0]
    assert f"{len(spoilt)} of 40 comparison graphs" in ppe_main("diagnose", path).out
    ranks = ask("rank", rows, "--incomplete", "keep")["models"]
    assert [*found["ranks"]] == [row["model"] for row in ranks]
    parts = [dropped["pool"][f"n_graphs{part}"] for part in ("", "_used", "_dropped")]
    assert parts == [40, n_complete, 40 - n_complete] and f"{len(spoilt)} graphs" in dropped["sentences"][0]
    for part in ("misspecification", "question_effect_size", "ranks"):
        assert dropped[part] == whole[part] != found[part]


def test_question_effects_and_the_first_place_are_reported(ppe_main, ask, tmp_path):
    "Strengths that move with the question are found; who prefers the first answer is told from who does not."
    rng, rows, path = np.random.default_rng(8), [], tmp_path / "pool.csv"
    for judge, lean in (("fair", 0.0), ("first", 1.5)):
        for question in range(30):
            moved, verdicts = 2.0 * rng.standard_normal(5), {}
            for i, j in combinations(range(5), 2):
                a, b = (i, j) if rng.random() < 0.5 else (j, i)
                chance = special.expit(moved[a] - moved[b] + lean)
                verdicts["vwxyz"[a], "vwxyz"[b]] = "a" if rng.random() < chance else "b"
            rows += graph_rows(judge, question, "c", 0, verdicts)
    found = ask("diagnose", rows)
    places, size = found["first_place"], found["question_effect_size"]
    shares = {judge: np.mean([row[6] == "a" for row in rows if row[0] == judge]) for judge in ("fair", "first")}
    for judge, share in shares.items():
        assert places[judge]["value"] == pytest.approx(share)
        assert places[judge]["low"] < share < places[judge]["high"]
    assert places["fair"]["low"] < 0.5 < places["first"]["low"]
    assert 0 < size["sigma"]["low"] < size["sigma"]["value"] < size["sigma"]["high"] and size["p_value"] < 0.001
    text = ppe_main("diagnose", path).out
    assert "Questions favour different models" in text
    assert f"where 50 % is fair: first {100 * shares['first']:.1f} %" in text
    table = as_csv(ppe_main("diagnose", path, "--format", "csv").out)
    values = {(row["section"], row["name"]): row for row in table}
    assert float(values["first_place", "first"]["value"]) == pytest.approx(shares["first"])


@pytest.mark.parametrize(("rows", "said"), [(unlike_pool(1), "fewer than 5"), (SEPARATED, "never lost")])
def test_a_small_or_separated_pool_is_cautioned(ppe_main, ask, tmp_path, rows, said):
    cautions = ask("diagnose", rows)["cautions"].values()
    assert any(said in line for line in cautions)
    assert all(line in ppe_main("diagnose", tmp_path / "pool.csv").out for line in cautions)


def test_people_are_compared_with(ppe_main, tmp_path):
    rows = unlike_pool()
    path = write(tmp_path / "judges.csv", rows)
    people = write(tmp_path / "people.csv", [("someone", *row[1:]) for row in rows if int(row[1]) % 2])
    shares = ppe_main("diagnose", path, "--people", people, "--format", "json").json()["people"]
    assert [row["value"] for row in shares.values()] == [1.0]
    assert "what a person says in so many cases: " in ppe_main("diagnose", path, "--people", people).out
    refused(ppe_main("diagnose", "-", "--people", "-"), "standard input holds one table")


# ---- ppe compare


def versions(n=24, judge="j", drop=1.8):
    "Rows of an old and of a new version of the model m against three others, a tie here and there."
    rng, tables = np.random.default_rng(3), ([], [])
    for question in range(n):
        moved = np.array([0.6, 0.3, 0.0, -0.3]) + rng.standard_normal(4)
        for rows, less in zip(tables, (0.0, drop), strict=True):
            for i, j in combinations(range(4), 2):
                chance = special.expit(moved[i] - moved[j] - less * (i == 0))
                word = "tie" if rng.random() < 0.1 else "a" if rng.random() < chance else "b"
                rows.append((judge, question, "c", 1, "mxyz"[i], "mxyz"[j], word))
    return tables


def renamed(rows, old="m", new="n"):
    return [(*row[:4], *(new if name == old else name for name in row[4:6]), row[6]) for row in rows]


def test_compare_tests_a_change_as_scores_written_out_do(ppe_main, tmp_path):
    "The estimate, its error where nothing changed, and limits at which flipped signs reject one time in twenty."
    old, new = versions()
    new = renamed(new)
    paths = write(tmp_path / "old.csv", old), write(tmp_path / "new.csv", new)
    found = ppe_main("compare", *paths, "--format", "json").json()
    models, wins, ties = counts(old + new)
    theta = dict(zip(models, bradley_terry(wins, ties)[0], strict=True))
    assert found["difference"] == pytest.approx(theta["n"] - theta["m"], abs=1e-5)
    at = {name: k for k, name in enumerate(models)}
    contrast = np.eye(len(models))[at["n"]] - np.eye(len(models))[at["m"]]

    def scores(value):
        "Of every question, from the fit in which the new one is so far ahead."
        free = np.delete(np.eye(len(models)), at["n"], axis=1)
        free[at["n"], list(np.delete(models, at["n"])).index("m")] = 1
        shift, half = value * np.eye(len(models))[at["n"]], np.array(wins) + np.array(ties) / 2

        def loss(beta):
            point = free @ beta + shift
            return (half * np.logaddexp(0, point[None, :] - point[:, None])).sum() + 1e-9 * beta @ beta

        point = free @ optimize.minimize(loss, np.zeros(len(models) - 1), options={"gtol": 1e-9}).x + shift
        information, by_question = np.zeros((len(models),) * 2), np.zeros((24, len(models)))
        for _, question, _, _, a, b, word in old + new:
            x = np.eye(len(models))[at[a]] - np.eye(len(models))[at[b]]
            p = special.expit(point @ x)
            information += p * (1 - p) * np.outer(x, x)
            by_question[question] += ({"a": 1, "b": 0, "tie": 0.5}[word] - p) * x
        return by_question @ np.linalg.pinv(information) @ contrast

    error = np.sqrt(24 * scores(0.0).var(ddof=1))
    assert found["error"] == pytest.approx(error, rel=1e-3) and found["n_questions"] == 24
    signs = np.random.default_rng(1).integers(2, size=(40_000, 24)) * 2 - 1
    for end in ("low", "high"):
        said = scores(found[end])
        assert (np.abs(signs @ said) >= abs(said.sum())).mean() == pytest.approx(0.05, abs=0.012)
    assert found["confidence"] >= 0.999
    assert found["power"] == pytest.approx(1 - special.nctdtr(23, 0.2 / error, special.stdtrit(23, 0.975)), abs=1e-3)
    assert special.nctdtr(23, found["detectable"] / error, special.stdtrit(23, 0.975)) == pytest.approx(0.2, abs=2e-3)
    named = [write(tmp_path / "same.csv", renamed(new, "n", "m")), "--model", "m"]
    again = ppe_main("compare", paths[0], *named, "--format", "json").json()
    assert again["difference"] == pytest.approx(found["difference"]) and again["models"] == ["m, old", "m, new"]
    one = write(tmp_path / "one.csv", old + [row for row in new if "n" in row[4:6]])
    both = ppe_main("compare", one, "--model", "m", "--model", "n", "--format", "json").json()
    assert both["n_questions"] == 24 and both["worse"]


def test_compare_closes_the_gate_with_four_and_errs_with_two(ppe_main, tmp_path):
    old, new = versions()
    paths = write(tmp_path / "old.csv", old), write(tmp_path / "new.csv", renamed(new))
    gate = "--fail-if", "worse"
    codes = [
        ppe_main("compare", *paths, *words).code
        for words in ((), gate, (*gate, "--margin", 2), (*gate, "--level", 0.9999, "--margin", 1))
    ]
    assert codes == [0, 4, 0, 0] and ppe_main("compare", *reversed(paths), *gate).code == 0
    run = ppe_main("compare", *paths, *gate)
    assert run.out.startswith("n is worse (old: m): -") and "this gate would see" in run.out and not run.err
    assert ppe_main("compare", *paths, *gate, "--format", "json").out[0] == "{"
    assert as_csv(ppe_main("compare", *paths, "--format", "csv").out)[0]["worse"] == "True"
    first = [row for row in renamed(new) if "n" not in row[4:6] or row[1] < 20]
    assert "4 questions left out" in ppe_main("compare", paths[0], write(tmp_path / "fewer.csv", first)).err
    tables = [
        write(tmp_path / name, [row for row in rows if row[1] < 20])
        for name, rows in (("o.csv", old), ("n.csv", first))
    ]
    paired = [ppe_main("compare", *two, "--format", "csv").out for two in ((paths[0], tmp_path / "fewer.csv"), tables)]
    differences = [as_csv(text)[0]["difference"] for text in paired]
    assert differences[0] == differences[1] and as_csv(paired[0])[0]["n_left_out"] == "4"
    turned = [(*row[:4], row[5], row[4], {"a": "b", "b": "a", "tie": "tie"}[row[6]]) for row in renamed(new)]
    run = ppe_main("compare", paths[0], write(tmp_path / "turned.csv", turned))
    assert "shown first in 100 %" in run.err and "0 %: what the judge" in run.err
    other = write(tmp_path / "other.csv", [("k", *row[1:]) for row in renamed(new)])
    few = write(tmp_path / "few.csv", [row for row in renamed(new) if row[1] < 4])
    pair = "--model", "m", "--model", "n"
    strange = [(*row[:4], *(f"{name}'" * (name != "n") or name for name in row[4:6]), row[6]) for row in renamed(new)]
    for words, said in (
        ((*paths, paths[0]), "unexpected extra argument"),
        ((paths[0],), "0 models named"),
        ((paths[0], paths[0]), "which model changed"),
        ((*paths, "--level", "0.99999"), "at most 0.9999"),
        ((paths[0], other), "the judge changed too"),
        ((paths[0], few), "fewer than 6 decide nothing"),
        ((paths[0], write(tmp_path / "strange.csv", strange), *pair), "they met different opponents"),
        ((*paths, "--model", "nobody"), "no verdicts of model 'nobody'"),
        ((*paths, "--judges", "--model", "m"), "takes no --model"),
        ((*paths, "--judges"), "two judges are compared"),
        ((*paths, "--margin", "-1"), "--margin"),
        ((*paths, "--margin", "nan"), "--margin"),
        ((*paths, "--drop", "0"), "--drop"),
        ((*paths, "--fail-if", "better"), "--fail-if"),
        ((*paths, "--judge", "j", "--judge", "j"), "2 times --judge"),
    ):
        run = ppe_main("compare", *words, *(() if "--judges" in words else gate[: 2 * ("better" not in words)]))
        refused(run, said)


def test_compare_tells_a_new_judge_from_an_old_one(ppe_main, tmp_path):
    "A judge that says the same of every pair but for each fourth question, where it says the opposite."
    rows = versions()[0]
    opposite = {"a": "b", "b": "a", "tie": "tie"}
    new = [("k", *row[1:6], opposite[row[6]] if row[1] % 4 == 0 else row[6]) for row in rows]
    old, path = write(tmp_path / "old.csv", rows), write(tmp_path / "new.csv", new)
    found = ppe_main("compare", old, path, "--judges", "--format", "json").json()
    share = np.mean([one[6] == other[6] for one, other in zip(rows, new, strict=True)])
    ties = np.mean([row[6] == "tie" for row in rows])
    chance = ties**2 + (1 - ties) ** 2 / 2
    kappa, scale = found["kappa"][0], found["scale"][0]
    assert found["same"]["share"] == pytest.approx(share) and kappa == pytest.approx((share - chance) / (1 - chance))
    theta = [bradley_terry(*counts(table)[1:])[0] for table in (rows, new)]
    assert scale == pytest.approx(theta[1].std() / theta[0].std(), abs=1e-4) and scale < 1
    one = write(tmp_path / "both.csv", rows + new)
    again = ppe_main("compare", one, "--judges", "--judge", "j", "--judge", "k", "--format", "json").json()
    assert again == found
    text = ppe_main("compare", old, path, "--judges").out
    assert text.startswith("j and k say the same of") and "log odds after 24 questions judged by both" in text


# ---- the same question, the same answer


def test_output_does_not_depend_on_the_order_of_rows_within_a_graph(ppe_main, tmp_path, pool):
    rng, graphs = np.random.default_rng(5), {}
    for row in pool:
        graphs.setdefault(row[:4], []).append(row)
    shuffled = [graph[k] for graph in graphs.values() for k in rng.permutation(len(graph))]
    assert shuffled != pool and sorted(map(str, shuffled)) == sorted(map(str, pool))
    paths = write(tmp_path / "a.csv", pool), write(tmp_path / "b.csv", shuffled)
    for words in ("cycles", "rank --select global --keep 7", "rank --ranker davidson"):
        first, second = (ppe_main(*words.split(), path, "--format", "json") for path in paths)
        assert first == second and first.json()


def test_two_runs_print_the_same_bytes(ppe_main, tmp_path, pool):
    "With another hash seed, and so another order of sets: all rankers in one process for each seed."
    path = write(tmp_path / "pool.csv", pool)
    how = ["--select", "block", "--keep", "2", "--format", "json"]
    commands = [["rank", str(path), "--ranker", ranker, *how] for ranker in (*RANKERS, *POOL_RANKERS)]
    program = "import json, sys\nfrom ppe.cli.main import main\nfor words in json.loads(sys.argv[1]): main(words)"
    first, second = (
        subprocess.run(
            [sys.executable, "-c", program, json.dumps(commands)],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
        )
        for seed in "01"
    )  # fmt: skip
    assert first.stdout == second.stdout and first.stderr == second.stderr
    runs = [ppe_main(*words) for words in commands]
    assert "".join(run.out for run in runs) == first.stdout
    assert all(run.code == 0 and run.new_files == () for run in runs)

"""The `ppe` command as a contract: output against the oracles, bad input refused in one line."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from itertools import combinations

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
    oracle_distances,
    oracle_scores,
    ranked,
    selected,
    unlike_pool,
)  # fmt: skip
from scipy import special

from ppe.inference.diagnosis import SECTIONS

CYCLE_KEYS = [*GRAPH_KEYS, *"n_models c3 c4 c3_bad c4_bad score tie_rate largest_scc".split()]
RANK_KEYS = set("ranker n_models n_graphs n_graphs_dropped selection kept models fit".split())
RANKERS = ["bradley-terry", "davidson", "copeland", "rank-centrality", "hodgerank"]


@pytest.fixture(scope="module")
def pool():
    return random_pool()


@pytest.fixture
def ask(ppe_main, tmp_path):
    "The JSON that a command makes of rows."

    def asked(command, rows, *words):
        found = ppe_main(command, write(tmp_path / "pool.csv", rows), *words, "--format", "json").json()
        return found["graphs"] if command == "cycles" else found

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


def test_cycles_equal_enumeration_in_every_form(ppe_main, ask, tmp_path):
    pool = random_pool(tie_rate=0.5, variants=(1, 0))
    rows, path = ask("cycles", pool), tmp_path / "pool.csv"
    assert rows == [pytest.approx(cycle_row(key, graph)) for key, graph in graphs_of(pool).items()]
    assert all(list(row) == CYCLE_KEYS and all(type(row[key]) is int for key in CYCLE_KEYS[4:9]) for row in rows)
    assert any(row["c3"] > row["c3_bad"] > 0 for row in rows) and any(row["c4"] > row["c4_bad"] > 0 for row in rows)
    for text, row in zip(as_csv(ppe_main("cycles", path, "--format", "csv").out), rows, strict=True):
        assert list(text) == CYCLE_KEYS and [text[key] for key in GRAPH_KEYS] == [str(row[key]) for key in GRAPH_KEYS]
        assert [float(text[key]) for key in CYCLE_KEYS[4:]] == pytest.approx([row[key] for key in CYCLE_KEYS[4:]])


def test_every_input_format_gives_the_same_output(ppe, ppe_main, tmp_path, pool):
    frame = pd.DataFrame(pool, columns=COLUMNS)
    frame.to_parquet(tmp_path / "pool.parquet", index=False)
    plain, zipped = write(tmp_path / "pool.csv", pool), write(tmp_path / "pool.csv.gz", pool)
    marked, shuffled = tmp_path / "from a spreadsheet.csv", tmp_path / "more columns.csv"
    marked.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())  # byte order mark
    frame[list(COLUMNS[::-1])].assign(comment="not of interest").to_csv(shuffled, index=False)
    first = ppe("cycles", plain, "--format", "table")  # a process of its own
    for path in (plain, zipped, tmp_path / "pool.parquet", marked, shuffled):
        assert ppe_main("cycles", path) == first and (first.code, first.err) == (0, ""), path.name


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
    assert [(*row, row["rank"]) for row in found["models"]] == [
        ("model", "score", "rank", place) for place in range(1, len(MODELS) + 1)
    ], "best model first"
    fit = found["fit"]
    assert fit["converged"] is True and isinstance(fit["iterations"], int)
    if ranker == "bradley-terry":
        assert fit["log_likelihood"] == pytest.approx(bradley_terry(wins, ties)[1], rel=1e-9)
    if ranker == "davidson":
        _, log_likelihood, nu = davidson(wins, ties)
        assert (fit["log_likelihood"], fit["nu"]) == pytest.approx((log_likelihood, nu), rel=1e-5)


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
    "Graphs with one cycle each, in no sorted order: K = 4 must take the first four of the file."
    order = [("z", 5, 1), ("z", 5, 0), ("b", 7, 0), ("z", 1, 0), ("a", 3, 0), ("b", 7, 1), ("a", 0, 0), ("a", 3, 1)]
    cycle = {("x", "y"): "b", ("y", "w"): "tie", ("x", "w"): "tie"}
    rows = [row for judge, question, variant in order for row in graph_rows(judge, question, "c", variant, cycle)]
    for words, places in (("global --keep 4", (0, 1, 2, 3)), ("block --keep 1", (0, 2, 3, 4, 6))):
        kept = keys(ask("rank", rows, "--ranker", "hodgerank", "--select", *words.split())["kept"])
        assert {(judge, question, variant) for judge, question, _, variant in kept} == {order[at] for at in places}


def test_judge_and_category_restrict_the_table(ask, pool):
    extra = graph_rows("third", 1, "math", 0, {("only here", "alpaca"): "a"})  # its own models, its own graph
    found = ask("rank", [*pool, *extra], "--judge", "zeta", "--category", "math")
    assert (found["n_models"], found["n_graphs"], found["n_graphs_dropped"]) == (len(MODELS), 6, 0)
    assert {(row["judge"], row["category"]) for row in found["kept"]} == {("zeta", "math")}
    part = [row for row in pool if row[0] == "zeta" and row[2] == "math"]
    assert scores(found) == pytest.approx(expected(part), abs=1e-6)


@pytest.mark.parametrize("ranker", ["bradley-terry", "copeland"])
def test_distances_equal_scipy(ask, tmp_path, pool, ranker):
    ratings = dict(zip(("alpaca", "mistral", "NA", *MODELS[:3]), (1210.5, 1100, 1300, 1100, 990, 1250), strict=True))
    with open(tmp_path / "reference.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("model", "rating"), *ratings.items(), ("a model nobody judged", 1500)])
    found = ask("rank", pool, "--ranker", ranker, "--reference", "reference.csv")
    ranks = {row["model"]: row["rank"] for row in found["models"]}
    wanted = oracle_distances(ranks, {model: -rating for model, rating in ratings.items()})
    assert found["distances"] == pytest.approx(wanted, abs=1e-12) and 0 < wanted["spearman"] < 1


def incomplete_pool():
    "A complete pool to which one graph lacks a pair and another has an invalid verdict."
    rows = random_pool(judges=["j"], models=["x", "y", "z"], tie_rate=0.2)
    graphs = list(graphs_of(rows))
    gone, spoilt = (next(row for row in rows if row[:4] == graphs[at]) for at in (3, 7))
    return [(*row[:6], "invalid") if row == spoilt else row for row in rows if row != gone], {graphs[3], graphs[7]}


def test_incomplete_graphs_count_or_are_dropped_and_invalid_is_no_tie(ask):
    rows, lacking = incomplete_pool()
    complete, found = [row for row in rows if row[:4] not in lacking], ask("rank", rows, "--incomplete", "drop")
    assert [found[f"n_graphs{part}"] for part in ("", "_used", "_dropped")] == [12, 10, 2]
    assert scores(found) == pytest.approx(expected(complete), abs=1e-6)
    assert keys(ask("cycles", rows)) == list(graphs_of(complete))
    found = ask("rank", rows)
    assert found == ask("rank", rows, "--incomplete", "keep") and found["n_graphs_dropped"] == 0
    assert scores(found) == pytest.approx(expected(rows), abs=1e-6), "the oracle counts no invalid verdict"
    shown = ask("cycles", rows, "--incomplete", "keep")
    for row, (key, graph) in zip(shown, graphs_of(rows).items(), strict=True):
        wanted = cycle_row(key, graph)
        assert all(row[name] == wanted[name] for name in CYCLE_KEYS[:10] + CYCLE_KEYS[11:]), key


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
        (twice, "the same pair twice in one graph in rows 37, 38, 39, 40, 41, … (7 in all) (the first: y and x,"),
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
    (tmp_path / "reference.csv").write_bytes(text.encode("latin-1" if named == "UTF-8" else "utf-8"))
    done = ppe_main("rank", write(tmp_path / "good.csv", GOOD), "--reference", "reference.csv", "--format", "json")
    refused(done, re.compile(rf"\b{re.escape(named)}\b"))


def test_a_table_without_any_complete_graph_is_refused_where_complete_ones_are_asked_for(ppe_main, tmp_path):
    path = write(tmp_path / "bad.csv", [row for index, row in enumerate(GOOD) if index % 3])
    for line in ("rank --incomplete drop", "cycles --incomplete drop", "rank --select global --keep 2"):
        command, *words = line.split()
        refused(ppe_main(command, path, *words, "--format", "json"))


# ---- ppe rank: intervals


def test_every_ranker_takes_incomplete_graphs(ask):
    for ranker in RANKERS:
        assert ask("rank", incomplete_pool()[0], "--ranker", ranker, "--intervals", 0)["n_graphs_used"] == 12


def test_tables_too_large_for_their_graphs(ppe_main, ask, tmp_path, pool, monkeypatch):
    path, whole = tmp_path / "pool.csv", ask("rank", pool, "--intervals", 0)
    monkeypatch.setattr("ppe.pool.MAX_ADJACENCY_BYTES", 10)
    counted = ask("rank", pool, "--incomplete", "keep")
    assert counted["kept"] is None and counted["models"] == whole["models"]
    refused(ppe_main("rank", path, "--incomplete", "keep", "--intervals", 50), "too large", "--judge")
    refused(ppe_main("diagnose", path, "--incomplete", "keep"), "too large")


@pytest.mark.parametrize("ranker", ["bradley-terry", "copeland"])
def test_intervals_hold_the_rank_and_the_kinds_are_nested(ask, pool, ranker):
    plain, found = ask("rank", pool, "--ranker", ranker, "--intervals", 0), {}
    assert plain["intervals"] is None and "rank_low" not in plain["models"][0]
    for kind in ("percentile", "single", "simultaneous"):
        report = ask("rank", pool, "--ranker", ranker, "--intervals", 40, "--interval-kind", kind)
        made = kind if ranker == "bradley-terry" else "percentile"
        assert (report["intervals"]["kind"], report["intervals"]["n_resamples"]) == (made, 40)
        shown = [{key: row[key] for key in ("model", "score", "rank")} for row in report["models"]]
        assert shown == plain["models"] and report["fit"] == plain["fit"]
        found[kind] = {row["model"]: row for row in report["models"]}
    for model, row in found["single"].items():
        wide = found["simultaneous"][model]
        assert wide["rank_low"] <= row["rank_low"] <= row["rank"] <= row["rank_high"] <= wide["rank_high"]


# ---- ppe diagnose


def test_a_diagnosis_has_every_part_in_every_format(ppe_main, ask, tmp_path):
    rows, path = unlike_pool(), tmp_path / "pool.csv"
    found = ask("diagnose", rows)
    assert set(found) == {*SECTIONS, "use", "advice", "missing", "sentences", "seed", "notes"}
    assert found["pool"] == {
        "n_verdicts": 360, "n_judges": 1, "n_questions": 12, "n_models": 6, "n_graphs": 24, "n_graphs_used": 24,
        "n_graphs_complete": 24, "n_graphs_dropped": 0, "n_pairs_never_compared": 0,
    }  # fmt: skip
    assert found["use"] == "all-graphs" and found["advice"].startswith("Use all graphs, once")
    assert list(found["missing"]) == ["order_flips"] and found["order_flips"] is None
    assert 0 < found["misspecification"]["p_value"] <= 1
    ranks = [(model, row["value"], row["low"], row["high"]) for model, row in found["ranks"].items()]
    rows_of_rank = ask("rank", rows)["models"]
    assert ranks == [tuple(row[key] for key in ("model", "rank", "rank_low", "rank_high")) for row in rows_of_rank]
    assert {row["level"] for row in found["ranks"].values()} == {0.95}
    text = ppe_main("diagnose", path).out.splitlines()
    assert text == found["sentences"] and len(text) <= 15 and all(line.endswith((".", "?")) for line in text)
    table = as_csv(ppe_main("diagnose", path, "--format", "csv").out)
    assert list(table[0]) == ["section", "name", "value", "low", "high", "level"]
    values = {(row["section"], row["name"]): float(row["high"] or "nan") for row in table}
    sigma = found["question_effect_size"]["sigma"]
    assert values["question_effect_size", "sigma"] == pytest.approx(sigma["high"])
    assert {section for section, _ in values} == {name for name in SECTIONS if found[name] != {}} | {"advice"}
    wider = ask("diagnose", rows, "--level", 0.99)["ranks"]
    assert all(wider[m]["low"] <= row["low"] and row["high"] <= wider[m]["high"] for m, row in found["ranks"].items())


def rows_without_complete_graphs(pairs):
    "Coins on pairs, one for each question."
    rng = np.random.default_rng(5)
    return [("j", k, "c", 0, *pair, str(rng.choice(["a", "b", "tie"]))) for k, pair in enumerate(pairs(rng))]


@pytest.mark.parametrize(
    ("pairs", "lacks"),
    [
        (lambda rng: [("base", model) for model in "pqrs"] * 12, "misspecification"),
        (lambda rng: [map(str, rng.permutation(list("pqrs"))[:2]) for _ in range(60)], "question_effect_size"),
    ],
)
def test_a_table_without_complete_graphs_is_diagnosed_as_far_as_it_goes(ppe_main, tmp_path, pairs, lacks):
    path = write(tmp_path / "table.csv", rows_without_complete_graphs(pairs))
    found, text = ppe_main("diagnose", path, "--format", "json").json(), ppe_main("diagnose", path).out
    assert found["pool"]["n_graphs_complete"] == 0 and {lacks, "order_flips"} <= set(found["missing"])
    assert len(found["ranks"]) == found["pool"]["n_models"] and "nan" not in text
    assert all(found[section] is None and reason in text for section, reason in found["missing"].items())
    assert "comparison graphs (the verdicts on one wording) lack pairs" in text


def test_incomplete_graphs_serve_or_are_dropped(ask):
    rng = np.random.default_rng(6)
    rows = [(*row[:6], "invalid") if rng.random() < 0.037 else row for row in unlike_pool(20)]
    spoilt = {row[:4] for row in rows if row[6] == "invalid"}
    n_complete = 40 - len(spoilt)
    whole = ask("diagnose", [row for row in rows if row[:4] not in spoilt])
    found, dropped = ask("diagnose", rows), ask("diagnose", rows, "--incomplete", "drop")
    assert [found["pool"][f"n_graphs{part}"] for part in ("", "_complete", "_dropped")] == [40, n_complete, 0]
    assert any(f"{len(spoilt)} of 40 comparison graphs" in line for line in found["sentences"])
    parts = [dropped["pool"][f"n_graphs{part}"] for part in ("", "_used", "_dropped")]
    assert parts == [40, n_complete, 40 - n_complete] and f"{len(spoilt)} graphs" in dropped["sentences"][0]
    for part in ("misspecification", "question_effect_size", "ranks"):
        assert dropped[part] == whole[part] != found[part]


def test_question_effects_and_the_first_place_are_reported(ask):
    "Strengths that move with the question are found; who prefers the first answer is told from who does not."
    rng, rows = np.random.default_rng(8), []
    for judge, lean in (("fair", 0.0), ("first", 1.5)):
        for question in range(30):
            moved = 2.0 * rng.standard_normal(5)
            for i, j in combinations(range(5), 2):
                a, b = (i, j) if rng.random() < 0.5 else (j, i)
                won = rng.random() < special.expit(moved[a] - moved[b] + lean)
                rows.append((judge, question, "c", 0, "vwxyz"[a], "vwxyz"[b], "ab"[not won]))
    found = ask("diagnose", rows)
    places, size = found["first_place"], found["question_effect_size"]
    shares = {judge: np.mean([row[6] == "a" for row in rows if row[0] == judge]) for judge in ("fair", "first")}
    for judge, share in shares.items():
        assert places[judge]["value"] == pytest.approx(share)
        assert places[judge]["low"] < share < places[judge]["high"]
    assert places["fair"]["low"] < 0.5 < places["first"]["low"]
    assert 0 < size["sigma"]["low"] < size["sigma"]["value"] < size["sigma"]["high"] and size["p_value"] < 0.001
    text = " ".join(found["sentences"])
    assert "Questions differ" in text
    assert f"where 50 % is fair: first {100 * shares['first']:.1f} %" in text


@pytest.mark.parametrize(("rows", "said"), [(unlike_pool(1), "fewer than 5"), (SEPARATED, "never lost")])
def test_a_small_or_separated_pool_is_cautioned(ppe_main, ask, tmp_path, rows, said):
    cautions = ask("diagnose", rows)["cautions"].values()
    assert any(said in line for line in cautions)
    assert all(line in ppe_main("diagnose", tmp_path / "pool.csv").out for line in cautions)


def test_people_are_compared_with(ppe_main, tmp_path):
    rows = unlike_pool()
    path = write(tmp_path / "judges.csv", rows)
    people = write(tmp_path / "people.csv", [("someone", *row[1:]) for row in rows if int(row[1]) % 2])
    found = ppe_main("diagnose", path, "--people", people, "--format", "json").json()
    (judge,) = (row for row in found["people"].values() if isinstance(row, dict))
    assert judge["value"] == 1.0 and found["people"]["n_voted_unmet"] == 0
    assert any(line.startswith("Agreement with people: ") for line in found["sentences"])
    refused(ppe_main("diagnose", "-", "--people", "-"), "standard input can be read once")


# ---- the same question, the same answer


def test_two_runs_print_the_same_bytes_whatever_the_order_within_a_graph(ppe_main, tmp_path):
    "With another hash seed, and so another order of sets: all rankers and a diagnosis in one process for each seed."
    pool = unlike_pool()
    rng, graphs = np.random.default_rng(5), {}
    for row in pool:
        graphs.setdefault(row[:4], []).append(row)
    shuffled = [graph[k] for graph in graphs.values() for k in rng.permutation(len(graph))]
    assert shuffled != pool and sorted(map(str, shuffled)) == sorted(map(str, pool))
    how = ["--select", "block", "--keep", "1", "--intervals", "0", "--format", "json"]
    commands = [["rank", "pool.csv", "--ranker", ranker, *how] for ranker in ("bradley-terry", "kemeny")]
    commands += [["cycles", "pool.csv"], ["diagnose", "pool.csv", "--seed", "1"]]
    program = "import json, sys\nfrom ppe.cli.main import main\nfor words in json.loads(sys.argv[1]): main(words)"
    texts = []
    for seed, rows in (("0", pool), ("1", shuffled)):
        write(tmp_path / "pool.csv", rows)
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONUTF8": "1"}
        call = [sys.executable, "-c", program, json.dumps(commands)]
        done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120, env=env)
        texts.append(done.stdout)
        said = {line.partition(" of models")[0] for line in done.stderr.splitlines()}
        assert said <= {"ppe: note: Nearly every pair"}
    runs = [ppe_main(*words) for words in commands]
    assert texts[0] == texts[1] == "".join(run.out for run in runs)
    assert all(run.code == 0 and run.new_files == () for run in runs)
    assert ppe_main("diagnose", "pool.csv", "--seed", "2").out != runs[-1].out


@pytest.mark.parametrize("name", ["all", "model"])
def test_a_category_is_not_taken_for_the_ranking_of_all(ppe_main, tmp_path, name):
    pairs = [(q, pair) for q in range(8) for pair in combinations("xyz", 2)]
    rows = [("j", q, ["odd", name][q % 2], 0, *pair, "ab"[q % 3 == 0]) for q, pair in pairs]
    file = write(tmp_path / "categories.csv", rows)
    refused(ppe_main("rank", file, "--by", "category"), f"a category is called {name!r}", "rename it")


def test_winners_that_nothing_tests_are_said_so(ppe_main, tmp_path):
    "Ranges of a ranker without a likelihood are shown, and test nothing."
    pairs = [(q, pair) for q in range(8) for pair in combinations("xyz", 2)]
    rows = [("j", q, ["odd", "even"][q % 2], 0, *pair, "ab"[q % 3 == 0]) for q, pair in pairs]
    told = ppe_main("rank", write(tmp_path / "c.csv", rows), "--by", "category", "--ranker", "copeland")
    assert told.code == 0 and "1 (1–" in told.out and "nothing is tested, so which winners" in told.out


# ---- numbers, and standard input


FEW = [("j", q, "c", 0, a, b, v) for q, v in ((1, "a"), (2, "tie")) for a, b in ("xy", "yz", "zx")]
NO_NUMBERS = ("1_0", "٣", "1e1", "0x10", "", "ten", "１０")


WHOLE = (
    ("rank", "v.csv", "--intervals"), ("plan", "--models", "4", "--questions", "20", "--calls"),
    ("judge", "a.jsonl", "--model", "m", "--attempts"), ("theory", "graphs-needed", "--n"),
    ("paper", "run", "--workers"),
)  # fmt: skip


@pytest.mark.parametrize("words, text", [*((WHOLE[0], text) for text in NO_NUMBERS), *((w, "1_0") for w in WHOLE[1:])])
def test_a_whole_number_is_plain_digits(ppe_main, tmp_path, words, text):
    write(tmp_path / "v.csv", FEW)
    refused(ppe_main(*words, text), "is not a whole number", words[-1])


@pytest.mark.parametrize("text", ["0.9_5", "٠.٩", "0,9", "nine", ""])
def test_a_number_is_plain_digits(ppe_main, tmp_path, text):
    write(tmp_path / "v.csv", FEW)
    refused(ppe_main("rank", "v.csv", "--level", text), "is not a number", "--level")
    refused(ppe_main("judge", "a.jsonl", "--model", "m", "--price-in", text), "is not a number", "--price-in")
    assert ppe_main("rank", "v.csv", "--intervals", 0, "--level", "9e-1").code == 0


@pytest.mark.parametrize("text", ["0.9_5", "٠.٩"])
def test_a_number_in_words_is_plain_digits(ppe_main, tmp_path, text):
    (tmp_path / "a.jsonl").write_text("")
    refused(ppe_main("plan", "--models", 4, "--questions", 20, "--target", f"spearman={text}"), "write spearman=D")
    rows = [{"question_id": 1, "prompt": "?", "model": m, "answer": m, "category": "c", "variant": 0} for m in "xy"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused(ppe_main("judge", "a.jsonl", "--model", "m", "--temperature", text), "give a number, or the word default")
    refused(ppe_main("judge", "a.jsonl", "--model", "m", "--judge-variants", "1_0"), "judge variants")


LARGE = "99999999999999999999"


@pytest.mark.parametrize(
    "words", [("rank", "v.csv", "--intervals"), ("rank", "v.csv", "--select", "global", "--keep"),
              ("plan", "--questions", "20", "--models"),
              ("plan", "--models", "4", "--questions"), ("plan", "--models", "4", "--questions", "20", "--calls"),
              ("judge", "a.jsonl", "--model", "m", "--max-requests"),
              ("perturb", "a.jsonl", "--model", "m", "--variants"),
              ("respond", "a.jsonl", "--model", "m", "--draws")],
)  # fmt: skip
def test_a_count_that_nothing_could_hold_is_refused(ppe_main, tmp_path, words):
    write(tmp_path / "v.csv", FEW)
    refused(ppe_main(*words, LARGE), words[-1], LARGE, "at most 1000000000000")


def test_a_seed_may_be_any_whole_number(ppe_main, tmp_path):
    write(tmp_path / "v.csv", FEW)
    assert ppe_main("rank", "v.csv", "--intervals", 0, "--seed", LARGE).code == 0


@pytest.mark.parametrize(
    "words",
    [("compare", "-", "-"), ("rank", "-", "-"), ("rank", "-", "--people", "-"), ("agree", "-", "--people", "-")],
)
def test_standard_input_is_read_once(ppe_main, words):
    refused(ppe_main(*words), "- is given twice", "standard input can be read once")

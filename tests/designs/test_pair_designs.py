"""Designs of pairs: every promise after every row, counted here one by one; `ppe design` as a contract."""

import gzip
import itertools
import json
from collections import Counter, defaultdict

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from ppe.api.pair_selection import design, next_calls
from ppe.api.questions_and_models import cells_from
from ppe.cli.main import main
from ppe.designs.pair_designs import KINDS, PairDesign, design_pairs, pair_table
from ppe.errors import InputError

# ---- oracles: plain counting


def calls(design: PairDesign) -> list[tuple[int, int, int, int]]:
    columns = design.question, design.variant, design.first, design.second
    return list(zip(*(column.tolist() for column in columns), strict=True))


def spread_of(counts: list[int]) -> int:
    return max(counts) - min(counts)


def keep_promises(design: PairDesign, n_variants: list[int], kind: str, times: int = 1) -> None:
    "What is promised of every kind after every call; `times`: calls that a pair takes at once."
    n, pairs = design.n_models, list(itertools.combinations(range(design.n_models), 2))
    lead, of_pair, of_question = [0] * n, dict.fromkeys(pairs, 0), [0] * len(n_variants)
    of_wording, seen, met = [[0] * n_wordings for n_wordings in n_variants], set(), nx.Graph()
    for row, (question, variant, first, second) in enumerate(calls(design), start=1):
        key = (question, variant, *((first, second) if times == 2 else sorted((first, second))))
        assert first != second and key not in seen
        seen.add(key)
        lead[first] += 1
        lead[second] -= 1
        met.add_edge(first, second)
        of_pair[min(first, second), max(first, second)] += 1
        of_question[question] += 1
        of_wording[question][variant] += 1
        early = kind == "complete" or 2 * max(of_question) <= times * len(pairs)
        assert max(map(abs, lead)) <= {"blocks": 3}.get(kind, 1 if early else 5)
        if kind != "blocks":
            assert spread_of(list(of_pair.values())) <= times * (1 if early else 2)
            assert row < times * (n - 1) or (len(met) == n and nx.is_connected(met))
        if kind == "spread":
            assert spread_of(of_wording[question]) <= times or of_question[question] > times * len(pairs)
            most = max(of_question)
            full = [times * len(pairs) * n_wordings for n_wordings in n_variants]
            assert all(most - have <= times or have == room for have, room in zip(of_question, full, strict=True))
    assert len(met) == n and nx.is_connected(met)


def shared(question: np.ndarray, first: np.ndarray, second: np.ndarray) -> float:
    "Other calls of the same question that hold a given model of a call: mean over calls and both models."
    met = Counter(itertools.chain(zip(question, first, strict=True), zip(question, second, strict=True)))
    return sum(k * (k - 1) for k in met.values()) / (2 * len(question))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("orders", ["one", "both"])
def test_promises_at_every_prefix(kind, orders):
    rng, made = np.random.default_rng(5), 0
    times = 2 if orders == "both" else 1
    for _ in range(120):
        n, n_questions = int(rng.integers(2, 10)), int(rng.integers(1, 9))
        n_variants = rng.integers(1, 4, n_questions)
        room = n * (n - 1) // 2 * int(n_variants.sum())
        n_calls = times * int(rng.integers(n - 1, room + 1))
        try:
            size = int(rng.integers(2, n + 1))
            design = design_pairs(n, n_variants, n_calls, kind=kind, block_size=size, orders=orders, rng=rng)
        except InputError as error:
            assert kind == "blocks" and ("never meet" in str(error) or "draws found room" in str(error))
            continue
        keep_promises(design, n_variants.tolist(), kind, times)
        made += 1
    assert made >= (40 if kind == "blocks" else 120)
    if kind == "spread":  # more questions than are matched at once
        n_variants = np.full(100, 3)
        design = design_pairs(20, n_variants, 1000, orders=orders, rng=rng)
        keep_promises(design, n_variants.tolist(), kind, times)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_rows_and_longer_designs_begin_with_shorter_ones(kind):
    def rows(n_calls: int, seed: int) -> list:
        rng = np.random.default_rng(seed)
        return calls(design_pairs(12, np.arange(200) % 3 + 1, n_calls, kind=kind, block_size=4, rng=rng))

    long = rows(1200, 1)
    assert rows(1200, 1) == long != rows(1200, 2)
    for n_calls in (60, 61, 199, 200, 201, 500, 1003, 1150):
        assert rows(n_calls, 1) == long[:n_calls]


def test_more_blocks_than_questions_take_other_wordings_and_then_other_pairs():
    n_variants = [3] * 20
    design = design_pairs(12, np.array(n_variants), 100 * 6, kind="blocks", block_size=4, rng=np.random.default_rng(3))
    keep_promises(design, n_variants, "blocks")
    of_wording = defaultdict(Counter)
    for question, variant, _, _ in calls(design):
        of_wording[question][variant] += 1
    assert all(sorted(counts.values()) == [6, 12, 12] for counts in of_wording.values())


def test_rows_of_questions_in_any_order_find_their_names():
    cells = pd.DataFrame({"question_id": ["p", "q", "p", "r", "p"], "variant": [4, 0, 2, 7, 9]})
    models = ["x", "y", "z"]
    design = design_pairs(3, np.array([3, 1, 1]), 15, kind="complete", rng=np.random.default_rng(0))
    table = pair_table(design, models, cells)
    wordings = {"p": [4, 2, 9], "q": [0], "r": [7]}
    for (question, variant, first, second), row in zip(calls(design), table.itertuples(index=False), strict=True):
        name = "pqr"[question]
        assert tuple(row) == (name, wordings[name][variant], models[first], models[second])
    with pytest.raises(InputError, match="2 models and 3 questions for a design of 3 and 3"):
        pair_table(design, models[:2], cells)


# ---- `ppe design`


def ppe(capsys, *words: object) -> tuple[int, str, str]:
    return main([str(word) for word in words]), *capsys.readouterr()


PROMPTS = [
    {"question_id": question, "category": "any", "variant": variant, "prompt": f"{question} {variant}"}
    for question in ("a", "b", "c")
    for variant in (0, 1)
]


def test_questions_from_whatever_holds_them(tmp_path):
    def cells(name: str, text: str | bytes) -> list[tuple]:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return list(cells_from(str(tmp_path / name))[["question_id", "variant"]].itertuples(index=False, name=None))

    lines = "".join(json.dumps(row) + "\n" for row in PROMPTS)
    want = [(row["question_id"], row["variant"]) for row in PROMPTS]
    assert cells("p.jsonl", lines) == cells("p.jsonl.gz", gzip.compress(lines.encode())) == want
    questions = "".join(json.dumps({k: v for k, v in row.items() if k != "variant"}) + "\n" for row in PROMPTS[::2])
    assert cells("q.jsonl", questions) == [("a", 0), ("b", 0), ("c", 0)]
    assert cells("q.csv.gz", gzip.compress(b"question_id\n3\n1\n")) == [(3, 0), (1, 0)]
    assert cells("v.csv", "variant,question_id,note\n0,q1,\n1,q1,x\n") == [("q1", 0), ("q1", 1)]
    pd.DataFrame({"question_id": [3, 1], "variant": [0, 2]}).to_parquet(tmp_path / "q.parquet")
    assert cells("q2.parquet", (tmp_path / "q.parquet").read_bytes()) == [(3, 0), (1, 2)]


@pytest.mark.parametrize(("options", "said"), [
    ({"--calls": 7}, "3 pairs on each of 2 wordings, 6 calls"),
    ({"--block-size": 2}, "only blocks have a size"),
    ({"--models": "x"}, "no file 'x', and no comma"),
    ({"--models": "x,y,x"}, "given twice: 'x'"),
    ({"q.csv": "id,prompt\n1,x\n"}, "missing column question_id"),
    ({"--out": "pairs.txt"}, "ends in .csv or .csv.gz"),
    ({"--questions": "nothing.csv"}, "cannot read nothing.csv"),
    ({"--models": "x,y,"}, "model ''"),
    ({"--models": "\u00e9,e\u0301"}, "look the same"),
    ({"q.csv": "question_id\n1\n1\n"}, "given twice"),
    ({"q.csv": 'question_id\n1\n""\n'}, "empty question_id in row 2"),
    ({"q.csv": "question_id\n"}, "no rows"),
    ({"q.csv": ""}, "is empty"),
    ({"q.csv": '{"category": "any", "prompt": "x"}\n'}, "question_id"),
    ({"--out": "nowhere/pairs.csv"}, "there is no folder"),
])  # fmt: skip
def test_bad_input_is_one_line_and_nothing_is_written(capsys, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    options = {"q.csv": "question_id\n1\n2\n"} | options
    (tmp_path / "q.csv").write_text(options.pop("q.csv"))
    words = {"--models": "x,y,z", "--questions": "q.csv", "--calls": 3, "--out": "pairs.csv"} | options
    code, out, err = ppe(capsys, "design", *itertools.chain(*words.items()))
    assert code == 2 and not out and err.count("\n") == 1 and said in err
    assert [path.name for path in tmp_path.iterdir()] == ["q.csv"]


def test_the_file_is_the_design_and_the_report_counts_it(capsys, tmp_path):
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PROMPTS))
    words = [*"design --models x,y,z,w --calls 18 --orders both --questions".split(), tmp_path / "p.jsonl"]
    code, out, err = ppe(capsys, *words, "--out", tmp_path / "one.csv", "--format", "json")
    assert code == 0 and not err
    rows = pd.read_csv(tmp_path / "one.csv")
    assert list(rows.columns) == ["question_id", "variant", "model_a", "model_b"] and len(rows) == 18
    pairs = Counter(frozenset(pair) for pair in zip(rows.model_a, rows.model_b, strict=True))
    report, of_question = json.loads(out), Counter(rows.question_id)
    graphs = list(zip(rows.question_id, rows.variant, strict=True))
    answers = {*zip(graphs, rows.model_a, strict=True), *zip(graphs, rows.model_b, strict=True)}
    once = rows.iloc[::2]
    assert report.pop("notes") == []
    assert report.pop("shared") == pytest.approx(shared(once.question_id, once.model_a, once.model_b))
    assert report == {
        "n_calls": 18, "n_models": 4, "n_questions": len(of_question),
        "n_graphs": len(set(graphs)), "n_answers": len(answers),
        "pair_calls_min": min(pairs.values()), "pair_calls_max": max(pairs.values()),
        "question_calls_min": min(of_question.values()), "question_calls_max": max(of_question.values()),
    }  # fmt: skip
    assert (report["pair_calls_min"], report["pair_calls_max"], report["question_calls_min"]) == (2, 4, 6)
    for name in ("two.csv", "two.csv.gz"):
        assert ppe(capsys, *words, "--out", tmp_path / name)[0] == 0
        assert pd.read_csv(tmp_path / name).equals(rows)
    assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert ppe(capsys, *words, "--out", tmp_path / "one.csv", "--seed", 1)[0] == 2  # it is there
    assert ppe(capsys, *words, "--out", tmp_path / "one.csv", "--seed", 1, "--force")[0] == 0
    assert not pd.read_csv(tmp_path / "one.csv").equals(rows)


def test_one_model_in_a_list_and_questions_without_their_variants_are_named():
    with pytest.raises(InputError, match="the list names 1; give names"):
        design(models=["a"], questions=["q", "r"], calls=2)
    table = pd.DataFrame(
        [(q, 1, "a", "b", "a") for q in "qr"], columns=["question_id", "variant", "model_a", "model_b", "verdict"]
    )
    with pytest.raises(InputError, match="question q, variant 1.*and variant where it is not 0"):
        next_calls(table, questions=["q", "r"], calls=1)


@pytest.mark.parametrize(
    "questions",
    [["q", "r"], ("q", "r"), pd.Series(["q", "r"]), pd.DataFrame({"question_id": pd.Categorical(["q", "r", "q"])})],
    ids=["list", "tuple", "series", "categories"],
)
def test_questions_with_names_are_those_of_a_file(questions, tmp_path):
    (tmp_path / "questions.csv").write_text("question_id\nq\nr\n")
    wanted = design(models=["x", "y", "z"], questions=str(tmp_path / "questions.csv"), calls=4).pairs
    pd.testing.assert_frame_equal(design(models=["x", "y", "z"], questions=questions, calls=4).pairs, wanted)

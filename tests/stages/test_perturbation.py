"""Perturbation: what is sent in both phases, limits, batch files. Filter, counts and stops: see the notebook."""

import json
import re
from pathlib import Path

from stages import StandIn, read_rows, write_rows

from ppe.stages.batches import read_batch, write_batch
from ppe.stages.benchmarks import Question
from ppe.stages.chat import Decoding
from ppe.stages.dispatch import Session
from ppe.stages.ledger import Ledger, exchange
from ppe.stages.perturbation import COUNTED, perturb_questions
from ppe.stages.prompts import load_prompts


def question(number: int) -> Question:
    return Question(number, "made", f"Task <{number}>: say it in your own words.")


def scripted(generate, check=lambda number, n: ["YES"] * n) -> StandIn:
    "Answers by question and phase."

    def rule(request):
        number = int(re.search(r"<(\d+)>", request.messages[-1].text)[1])
        if request.stage == "perturb/generate":
            return generate(number)
        return check(number, int(request.expects.removeprefix("labels:")))

    return StandIn(rule)


def wordings(number: int, n: int = 8) -> list[str]:
    return [f"Wording {k} of <{number}>" for k in range(n)]


def test_settings_and_order_of_the_two_phases(ledger: Ledger):
    backend = scripted(wordings)
    prompts = load_prompts()
    session = Session(ledger, backend)
    done = perturb_questions([question(1)], session=session, model="gen", checker="chk", prompts=prompts)
    generate, check = backend.sent
    assert (generate.model, generate.decoding) == ("gen", Decoding(0.7, 1.0, 12_000))
    assert (check.model, check.decoding, check.expects) == ("chk", Decoding(0.0, 1.0, 600), "labels:8")
    assert generate.messages == prompts.render("paraphrase", k=8, original=question(1).prompt)
    assert check.messages == prompts.render("equivalence", original=question(1).prompt, candidates=wordings(1))
    row = done.report.iloc[0]
    assert exchange(ledger, row["generation_key"])["stage"] == "perturb/generate"
    assert json.loads(exchange(ledger, row["check_key"])["parsed"]) == ["YES"] * 8


def test_nothing_left_to_check_asks_nothing(ledger: Ledger):
    backend = scripted(lambda number: ["", " ", question(number).prompt.upper()])
    done = perturb_questions([question(1)], session=Session(ledger, backend), model="x")
    row = done.report.iloc[0]
    assert done.complete and len(backend.sent) == 1
    assert list(row[list(COUNTED)]) == [8, 3, 2, 0, 1, 0, 0, 0] and row["reason"] == row["check_key"] == ""


def test_batch_files_serve_both_phases(tmp_path: Path, ledger: Ledger):
    "What a command with --batch does, by hand, and the live stage finds nothing left to do."
    questions, runs = [question(number) for number in range(4)], []
    for phase, reply in (("generate", wordings(0)), ("check", ["NO"] * 2 + ["YES"] * 6)):
        plan = perturb_questions(questions, session=Session(ledger, "api"), model="x")
        (written,) = write_batch(ledger, plan.run, tmp_path / f"{phase}.jsonl")
        choice = {"message": {"content": json.dumps(reply)}}
        results = write_rows(tmp_path / f"{phase}-out.jsonl", [
            {"custom_id": line["custom_id"], "response": {"status_code": 200, "body": {"choices": [choice]}}}
            for line in read_rows(written)
        ])  # fmt: skip
        assert read_batch(ledger, results)["done"] == 4
        runs.append((plan.run, plan.later))
    assert runs[0] != runs[1] and [later for _, later in runs] == [4, 0]
    done = perturb_questions(questions, session=Session(ledger, silent := scripted(wordings)), model="x")
    assert not silent.sent and done.complete and [p.prompt for p in done.prompts[1:5]] == wordings(0)[2:6]

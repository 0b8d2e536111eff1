"""Perturbation: the filter by its definition, counts by another way, both phases under limits and stops."""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from stages import StandIn, read_rows, write_rows

from ppe.stages.benchmarks import Question
from ppe.stages.chat import Decoding
from ppe.stages.dispatch import Limits, Session, read_batch, write_batch
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
    assert [(p.variant, p.prompt) for p in done.prompts] == list(enumerate([question(1).prompt, *wordings(1, 4)]))
    row = done.report.iloc[0]
    assert exchange(ledger, row["generation_key"])["stage"] == "perturb/generate"
    assert json.loads(exchange(ledger, row["check_key"])["parsed"]) == ["YES"] * 8


UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # examples that write files are too slow to shrink
REPLIES = st.one_of(
    st.lists(st.sampled_from(["", "Same.", "same", "One", "Two.", "Three", "Four", "Five"]), min_size=1, max_size=8),
    st.just("no list at all"),
)


@given(
    st.lists(
        st.tuples(REPLIES, st.lists(st.booleans(), min_size=8, max_size=8), st.booleans()), min_size=1, max_size=6
    ),
    st.integers(1, 5),
    st.lists(st.integers(1, 6), max_size=5),
)
@settings(max_examples=15, deadline=None, phases=UNSHRUNK)
def test_any_replies_and_any_stops(cases, m: int, sittings: list[int]):
    "Everything that the stage says, computed from the replies alone, after any number of interruptions."
    questions = [question(number) for number in range(len(cases))]

    def generate(number: int):
        said = cases[number][0]
        return said if isinstance(said, str) else [text and f"<{number}> {text}" for text in said]

    def check(number: int, n: int):
        return ["YES" if passed else "NO" for passed in cases[number][1][:n]][: n - cases[number][2]]

    with TemporaryDirectory() as folder, Ledger(Path(folder) / "ledger.sqlite") as opened:
        for limit in sittings:
            backend = scripted(generate, check)
            limits = Limits(concurrency=2, attempts=2, max_requests=limit)
            part = perturb_questions(questions, session=Session(opened, backend, limits), model="x", m=m)
            assert len(backend.sent) <= limit and bool(part.stopped) != part.complete
            known = part.report.dropna()
            assert (known["kept"] <= known["accepted"]).all()
        whole = perturb_questions(
            questions, session=Session(opened, scripted(generate, check), Limits(attempts=2)), model="x", m=m
        )
    assert whole.complete and not whole.stopped
    expected, short = [], []
    for (said, passed, too_few), row in zip(cases, whole.report.itertuples(), strict=True):
        number = row.question_id
        distinct = {}
        for text in () if isinstance(said, str) else said:
            distinct.setdefault(text.lower().rstrip("."), text)
        distinct = [f"<{number}> {text}" for form, text in distinct.items() if form]
        labels_fit = not (too_few and distinct)
        good = [text for text, yes in zip(distinct, passed, strict=False) if yes] if labels_fit else []
        expected += enumerate([question(number).prompt, *good[:m]])
        short += [number] * (len(good) < m)
        assert row.kept == min(m, len(good))
        if isinstance(said, str):
            assert row.reason.startswith("generation invalid") and row.returned is pd.NA and row.accepted is pd.NA
            continue
        assert (row.returned, row.empty, row.unchanged) == (len(said), said.count(""), 0)
        assert row.duplicate == len(said) - said.count("") - len(distinct)
        if labels_fit:
            assert (row.accepted, row.not_equivalent, row.reason) == (len(good), len(distinct) - len(good), "")
        else:
            assert row.reason.startswith("check invalid") and row.accepted is pd.NA
    assert [(p.variant, p.prompt) for p in whole.prompts] == expected
    assert whole.short == tuple(short)


def test_nothing_left_to_check_asks_nothing(ledger: Ledger):
    backend = scripted(lambda number: ["", " ", question(number).prompt.upper()])
    done = perturb_questions([question(1)], session=Session(ledger, backend), model="x")
    row = done.report.iloc[0]
    assert done.complete and len(backend.sent) == 1
    assert list(row[list(COUNTED)]) == [8, 3, 2, 0, 1, 0, 0, 0] and row["reason"] == row["check_key"] == ""


def test_a_question_more_asks_only_for_that_one(ledger: Ledger):
    questions = [question(number) for number in range(6)]
    perturb_questions(questions[:5], session=Session(ledger, scripted(wordings)), model="x")
    backend = scripted(wordings)
    done = perturb_questions(questions[::-1], session=Session(ledger, backend), model="x")
    assert len(backend.sent) == 2 and len(done.prompts) == 30
    assert [p.question_id for p in done.prompts[::5]] == [5, 4, 3, 2, 1, 0]


def test_a_limit_inside_the_second_phase_stops_it(ledger: Ledger):
    questions = [question(number) for number in range(5)]
    for limit, complete in ((7, False), (3, True)):
        session = Session(ledger, scripted(wordings), Limits(max_requests=limit))
        done = perturb_questions(questions, session=session, model="x")
        assert (done.complete, bool(done.stopped)) == (complete, not complete)


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

"""The judge stage: what is refused, the random order, what is sent and what a run is known by.

Rules, interruptions, files in another order and hostile answers are tried in the notebook.
"""

import numpy as np
import pytest
from stages import answer, by_number, pool, reader, tagged

from ppe.stages.chat import CallFailed, Decoding
from ppe.stages.dispatch import Session
from ppe.stages.judging import judge_answers


@pytest.fixture
def session(ledger):
    return lambda backend: Session(ledger, backend)


BOTH = {"mode": "single", "order": "both", "flips": "tie"}
REFUSES = CallFailed("http 400", "context length", decided=True)
HEARD = {  # what the judge says of a pair, of one answer, the options; verdicts, bases and causes on two questions
    "refused": (lambda q, a: REFUSES if "1" in q else tagged("A"), REFUSES, {"mode": "single"},
                "invalid a", "invalid single", "unreadable "),
    "refused, hybrid": (lambda q, a: REFUSES if "1" in q else tagged("A"), REFUSES, {},
                        "invalid invalid", "invalid invalid", "unreadable flip"),
    "true tie and half-flip": (lambda q, a: tagged("C") if "1" in q or a == "x" else tagged("A"), "", BOTH,
                               "tie tie", "agree order-flip", " half-flip"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEARD)
def test_refused_texts_are_invalid_and_never_ties_and_true_ties_are_no_half_flips(session, name):
    pair, score, options, *expected = HEARD[name]
    answers = [answer(q, m, m) for q in (1, 2) for m in ("x", "y")]
    backend = reader(lambda question, a, b: pair(question, a), lambda question, text: score)
    judged = judge_answers(answers, session=session(backend), model="m", **options)
    found = [judged.details[column].tolist() for column in ("verdict", "basis", "cause")]
    assert judged.complete and found == [words.split(" ") for words in expected]
    assert judged.verdicts["verdict"].tolist() == found[0]


def test_random_order_depends_on_seed_and_pair_alone(session):
    answers = pool(n_questions=20, n_models=6)

    def first(answers, seed):
        options = {"model": "m", "mode": "single", "order": "random", "seed": seed}
        details = judge_answers(answers, session=session(by_number(0)), **options).details
        shown = zip(details["question_id"], details["model_a"], details["model_b"], strict=True)
        return {(q, *sorted((a, b))): a for q, a, b in shown}

    one = first(answers, 1)
    assert first(answers[::-1], 1) == one, "not on the order of the file"
    fewer = [a for a in answers if a.question_id > 10 and a.model != "model 3"]
    assert one.items() >= first(fewer, 1).items(), "not on the other answers"
    assert first(answers, 2) != one
    share = np.mean([shown == key[1] for key, shown in one.items()])
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(len(one)), "300 throws of a fair coin"


def test_nothing_decided_yet_is_an_empty_table(session):
    made = session(reader(lambda question, a, b: CallFailed("http 401", "no", fatal=True)))
    part = judge_answers(pool(), session=made, model="m")
    assert not part.complete and part.verdicts.empty and part.details.empty and part.counts["open"] == 30
    assert len(made.history) == 1 and made.history[0].stopped, "a refused key is not tried on a second phase"
    whole = judge_answers(pool(), session=session(by_number(1.5)), model="m")
    assert whole.complete and [*part.verdicts, "order_known"] == [*whole.verdicts]  # both orders were asked


# What is sent and what it is known by


def test_requests_and_runs(session):
    answers, backend = pool(n_questions=1, n_models=3), by_number(100)
    made = session(backend)
    judge_answers(answers, session=made, model="m")
    stages = {request.stage: request for request in backend.sent}
    assert stages.keys() == {"judge/pair", "judge/score"}
    assert {r.decoding for r in backend.sent} == {Decoding(0.0, 1.0, 512)}
    assert (stages["judge/pair"].expects, stages["judge/score"].expects) == ("result", "score")
    judge_answers(answers, session=made, model="m", mode="single")
    last = backend.sent[-1]
    assert (last.stage, last.expects, last.decoding) == ("judge/single", "verdict", Decoding(0.0, 1.0, 1024))
    assert [message.role for message in last.messages] == ["user"], "no system message, says the paper"
    n_sent = len(backend.sent)
    for free in ({"name": "another name"}, {"seed": 5}):  # what has been paid for is not asked again
        judge_answers(answers, session=made, model="m", **free)
    assert len(backend.sent) == n_sent
    for options in ({"decoding": Decoding(max_tokens=999)}, {"model": "o"}):
        judge_answers(answers, session=made, **{"model": "m"} | options)
        assert len(backend.sent) > n_sent, options
        n_sent = len(backend.sent)

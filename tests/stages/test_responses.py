"""Responses: what is sent, draws of the control, failures and stops, hostile answers."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from stages import StandIn

from ppe.errors import PpeError
from ppe.stages.benchmarks import Prompt
from ppe.stages.chat import CallFailed
from ppe.stages.dispatch import Session
from ppe.stages.ledger import Ledger
from ppe.stages.limits import Limits
from ppe.stages.responses import STOCHASTIC, answer_prompts

PROMPTS = tuple(
    Prompt(number, "made", variant, f"Task {number}.{variant}") for number in range(6) for variant in range(3)
)


def echo(rule=lambda request: f"{request.messages[-1].text} / {request.repeat}") -> StandIn:
    "Repeats prompt and draw, or answers by a rule."
    return StandIn(rule)


def test_more_draws_later_keep_the_first(ledger: Ledger):
    backend = echo()
    few = answer_prompts(PROMPTS[::3], session=Session(ledger, backend), model="m", decoding=STOCHASTIC, repeats=2)
    more = answer_prompts(PROMPTS[::3], session=Session(ledger, backend), model="m", decoding=STOCHASTIC, repeats=5)
    assert len(backend.sent) == 30 and set(few.answers) < set(more.answers)


@given(
    st.lists(st.sampled_from(["fine", "empty", "blank", "too long", "once empty"]), min_size=1, max_size=8),
    st.lists(st.integers(1, 5), max_size=5),
)
@settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))  # slow to shrink
def test_any_failures_and_any_stops(kinds: list[str], sittings: list[int]):
    prompts, tried = [Prompt(k, "made", 0, f"Task {k}") for k in range(len(kinds))], {}

    def rule(request):
        text = request.messages[-1].text
        tried[text] = tried.get(text, 0) + 1
        kind = kinds[int(text.split()[1])]
        if kind == "too long":
            return CallFailed("http 400", "too long", decided=True)
        return {"empty": "", "blank": " \n\t"}.get(kind, "" if kind == "once empty" and tried[text] == 1 else "Yes.")

    with TemporaryDirectory() as folder, Ledger(Path(folder) / "ledger.sqlite") as opened:
        for limit in sittings:
            limits = Limits(concurrency=2, max_requests=limit)
            try:
                part = answer_prompts(prompts, session=Session(opened, echo(rule), limits), model="m")
                assert len(part.answers) + len(part.missing) == len(prompts)
            except PpeError as error:
                assert "and none was answered" in str(error)
                assert "fine" not in {kinds[int(text.split()[1])] for text in tried}
        if {*kinds} <= {"too long", "empty", "blank"}:
            with pytest.raises(PpeError, match="and none was answered"):
                answer_prompts(prompts, session=Session(opened, echo(rule)), model="m")
            return
        done = answer_prompts(prompts, session=Session(opened, echo(rule)), model="m")
    good = [k for k, kind in enumerate(kinds) if kind in ("fine", "once empty")]
    assert done.complete and [a.question_id for a in done.answers] == good
    assert {a.answer for a in done.answers} <= {"Yes."}
    assert set(done.missing["question_id"]) == set(range(len(kinds))) - set(good)
    for row in done.missing.itertuples():
        assert ("too long" if kinds[row.question_id] == "too long" else "empty") in row.reason
    cost = {"fine": 1, "too long": 1, "once empty": 2, "empty": 3, "blank": 3}
    for k, kind in enumerate(kinds):  # what is refused or blank before anything is answered is asked again
        more = len(sittings) if kind in ("too long", "empty", "blank") else 0
        assert cost[kind] <= tried[f"Task {k}"] <= cost[kind] + more

"""A list of pairs in the stages: exactly these are judged and answered, and old ledgers go on."""

import hashlib
import json
from itertools import combinations

import pandas as pd
import pytest
from stages import NOBODY, StandIn, answer, answers, by_number, fenced, judging, reader, tagged, words

import ppe
from ppe.cli.main import main
from ppe.cli.stages import _input_categories
from ppe.errors import InputError
from ppe.pairs import write_pairs
from ppe.stages.benchmarks import Prompt, write_rows
from ppe.stages.dispatch import Session
from ppe.stages.judging import judge_answers
from ppe.stages.ledger import results
from ppe.stages.responses import answer_prompts
from ppe.verdicts import read_verdicts


def echo() -> StandIn:
    return StandIn(lambda request: f"{request.messages[-1].text} / {request.repeat}")


def table(*rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["question_id", "variant", "model_a", "model_b"])


def asked(backend) -> list[tuple[str, str, str]]:
    "What the judge saw of every comparison: question, first and second answer."
    fields = [fenced(r.messages[-1].text) for r in backend.sent if r.stage != "judge/score"]
    return [(f["INSTRUCTION"], f["ANSWER_A"], f["ANSWER_B"]) for f in fields]


def named():
    "Answers that name their model; the judge prefers the model that comes first in the alphabet."
    return [answer(q, m, f"{'zyxw'.index(m)} says {m}", prompt=f"{q}.0?") for q in (1, 2, 3) for m in "wxyz"]


def judged_by(ledger, backend, pairs, answers=None, **options):
    return judge_answers(answers or named(), pairs=pairs, session=Session(ledger, backend), model="m", **options)


SINGLE = {"mode": "single"}
LIST = table((2, 0, "z", "w"), (1, 0, "x", "y"), (2, 0, "x", "z"), (1, 0, "y", "x"))


# ---- which pairs


def test_exactly_the_pairs_of_the_list_are_judged_with_model_a_first(ledger):
    backend = by_number(0.5)
    judged = judged_by(ledger, backend, LIST, **SINGLE)
    assert asked(backend) == [
        ("2.0?", "0 says z", "3 says w"),
        ("1.0?", "2 says x", "1 says y"),
        ("1.0?", "1 says y", "2 says x"),
        ("2.0?", "2 says x", "0 says z"),
    ]
    rows = judged.verdicts[["question_id", "model_a", "model_b", "verdict"]].astype(object).values.tolist()
    assert rows == [[2, "z", "w", "b"], [1, "x", "y", "a"], [2, "x", "z", "a"]]
    assert judged.details["shown_first"].tolist() == ["z", "", "x"], "the pair in both orders has no first"
    assert judged.complete and judged.counts["answers_not_needed"] == 12 - 5 and judged.counts["missing"] == []


def test_the_hybrid_asks_in_both_orders_whatever_the_list_says(ledger):
    backend = by_number(1)
    once = judged_by(ledger, backend, LIST[:3])
    n_sent = len(backend.sent)
    twice = judged_by(ledger, backend, LIST)
    pd.testing.assert_frame_equal(once.details, twice.details)
    assert len(backend.sent) == n_sent and ledger.query("SELECT count(*) FROM runs") == [(1,)]
    assert len(once.details) == 3 and not once.details["shown_first"].any()


@pytest.mark.parametrize(
    ("pairs", "options", "said"),
    [
        (LIST, {"mode": "single", "order": "random"}, "'random' with a list of pairs"),
        (LIST.replace("w", "v"), {}, r"no answer of v to question 2, variant 0: .*ppe respond PROMPTS .* --name v"),
        (LIST.drop(columns="variant"), {}, "missing column variant"),
    ],
)
def test_a_list_that_cannot_be_judged_sends_nothing(ledger, pairs, options, said):
    backend = by_number(0.5)
    with pytest.raises(InputError, match=said):
        judged_by(ledger, backend, pairs, **options)
    assert not backend.sent and ledger.query("SELECT count(*) FROM requests") == [(0,)]


# ---- runs without a list are what they were


def prints(ledger, run: int) -> tuple[str, str, str]:
    "What a run is known by: its settings, its inputs, the keys and items of its requests."
    ((settings, inputs),) = ledger.query("SELECT settings, inputs FROM runs WHERE id = ?", run)
    uses = repr([(result.key, json.dumps(result.item)) for result in results(ledger, run)])
    return *(hashlib.sha256(text.encode()).hexdigest()[:16] for text in (settings, uses)), inputs


@pytest.mark.parametrize(
    ("options", "settings", "requests"),
    [
        ({}, "cecbfc5152823b9f", "b36bb22d73ac02c5"),
        ({"mode": "single", "order": "given"}, "38842f3b5e145e22", "bdf81a6e90395c06"),
        ({"mode": "single", "order": "both"}, "91738611fad2ce9b", "083676e538f238a3"),
    ],
)
def test_a_ledger_from_before_lists_is_continued(ledger, options, settings, requests):
    "Settings, inputs, keys and items as the program wrote them before it knew lists of pairs."
    answers = [answer(q, m, f"{m} says {q}") for q in (1, 2) for m in "xyz"]
    run = judge_answers(answers, session=Session(ledger, "api"), model="m", **options).run
    inputs = "487da7dce6fef5d110eae69c3df4cf75446ef3e04dabe0192714537effd641a8"
    assert prints(ledger, run) == (settings, requests, inputs)


def test_answers_of_before_lists_are_continued(ledger):
    prompts = [Prompt(1, "test", variant, f"Q {variant}") for variant in range(3)]
    run = answer_prompts(prompts, session=Session(ledger, "api"), model="m").run
    inputs = "acf4f18f3ebe36eaa7bb18061cbab024a742c2122e9efea96feb2cbd9db60f1d"
    assert prints(ledger, run) == ("d6b18b4aa8949321", "25edd536a74d56e4", inputs)


# ---- answers


PROMPTS = [Prompt(q, "test", v, f"Task {q}.{v}") for q in (1, 2, 3) for v in (0, 1)]
NEEDS = table((1, 1, "x", "y"), (3, 0, "y", "z"), (1, 1, "y", "z"))


def test_only_the_answers_that_the_list_needs_are_generated(ledger):
    backend = echo()
    for model, needed in {"x": [(1, 1)], "y": [(1, 1), (3, 0)], "z": [(1, 1), (3, 0)]}.items():
        found = answer_prompts(
            PROMPTS, session=Session(ledger, backend), model=f"vendor/{model}", name=model, pairs=NEEDS
        )
        assert [(a.question_id, a.variant) for a in found.answers] == needed and found.complete
        assert {a.model for a in found.answers} == {model}
    assert len(backend.sent) == 5
    whole = answer_prompts(PROMPTS, session=Session(ledger, backend), model="vendor/y", name="y")
    assert len(whole.answers) == 6 and len(backend.sent) == 5 + 4, "what was there is not asked again"


# ---- the commands


def test_from_a_list_to_a_ranking_on_the_command_line(tmp_path, serve, capsys):
    served = serve()
    common = ["--base-url", f"{served.url}/v1", "--quiet", "--ledger", str(tmp_path / "ledger.sqlite")]
    prompts = tmp_path / "prompts.jsonl"
    write_rows([Prompt(q, "math" if q % 2 else "art", 0, f"What is {q} + {q}?") for q in range(12)], prompts)
    rows = [(q, 0, *pair) for q, pair in zip(range(12), list(combinations("xyz", 2)) * 4, strict=True)]
    listed, out = str(write_pairs(table(*rows), tmp_path / "pairs.csv")), tmp_path / "verdicts.csv"
    files = {model: str(tmp_path / f"{model}.jsonl") for model in "xyzw"}
    for model, file in files.items():
        code = main(["respond", str(prompts), "--model", model, "--out", file, "--pairs", listed, *common])
        assert code == (2 if model == "w" else 0)
    assert served.asked == 24, "two answers for each pair, of 36 that there could be"
    assert "w stands in no pair" in capsys.readouterr().err and not (tmp_path / "w.jsonl").exists()
    judging = ["judge", *list(files.values())[:3], "--model", "j", "--mode", "single", "--pairs", listed, *common]
    assert main([*judging, "--dry-run"]) == 0 and "12 requests" in capsys.readouterr().out
    assert main([*judging, "--order", "both"]) == 2
    assert main([*judging, "--out", listed]) == 2, "the list is an input"
    assert main([*judging, "--category", "poetry"]) == 2
    capsys.readouterr()
    judging += ["--out", str(out)]
    assert main(judging) == 0 and served.asked == 36
    found = read_verdicts(out)[["question_id", "variant", "model_a", "model_b"]].astype(object).values.tolist()
    assert found == [list(row) for row in rows]
    assert main([*judging, "--category", "math"]) == 0 and served.asked == 36
    assert len(read_verdicts(out)) == 6, "pairs on other categories are left out"


def test_launch_has_jobs_for_the_categories_of_the_list_alone(tmp_path, monkeypatch):
    answers(tmp_path, 4)  # odd questions are math, even ones writing
    listed = write_pairs(table((1, 0, "x", "z"), (3, 0, "x", "y")), tmp_path / "pairs.csv")
    words = judging(tmp_path, NOBODY, "--pairs", str(listed))
    assert _input_categories(words) == ["math"]
    assert _input_categories(words[:-2]) == ["writing", "math"]
    write_pairs(table((9, 0, "x", "z")), listed)
    with pytest.raises(InputError, match="none of its pairs"):
        _input_categories(words)


# ---- the loop: choose, judge, look, stop


def test_next_and_judge_in_a_loop_end_when_the_goal_is_settled_and_pay_nothing_twice(tmp_path, monkeypatch):
    "The loop of site/plan.md in a shell, killed after its first judging, and the same in Python."
    clear = reader(lambda question, a, b: tagged("A" if a.split("of ")[1] < b.split("of ")[1] else "B"))
    clear.name = f"api {NOBODY}/v1"
    monkeypatch.setattr("ppe.api.stage_options.Endpoint.connect", lambda endpoint, model: clear)
    file, questions = answers(tmp_path, 60, "wxyz"), tmp_path / "questions.csv"
    questions.write_text("question_id\n" + "".join(f"{q}\n" for q in range(60)))
    table, pairs, batch = (tmp_path / name for name in ("verdicts.csv", "more.csv", "batch.csv"))
    asked = ["next", str(table), "--questions", str(questions), "--calls", "30", "--until", "top=1", "--force"]
    judge = words("judge", file, NOBODY, tmp_path, "batch.csv", "--mode", "single", "--pairs", str(pairs))
    assert (
        main(["design", "--models", "w,x,y,z", "--questions", str(questions), "--calls", "30", "--out", str(pairs)])
        == 0
    )
    assert main(judge) == 0
    batch.rename(table)
    assert main([*asked, "--out", str(pairs)]) == main(judge) == main(judge) == 0
    assert len(clear.sent) == 60, "what the ledger has is not asked for again"
    while main([*asked, "--out", str(pairs)]) == 0:
        assert main(judge) == 0
        with table.open("a") as together:
            together.writelines(batch.read_text().splitlines(keepends=True)[1:])
    settled = read_verdicts(table)
    assert len(settled) == len(clear.sent) < 360 and main([*asked, "--out", str(pairs)]) == 3
    options = {"model": "m", "ledger": tmp_path / "ledger.sqlite", "base_url": f"{NOBODY}/v1", "quiet": True}
    verdicts = settled[:30]
    while not (more := ppe.next_calls(verdicts, questions=questions, calls=30, until="top=1")).is_settled:
        verdicts = pd.concat([verdicts, ppe.judge([file], pairs=more, mode="single", **options).to_frame()])
    assert len(verdicts) == len(clear.sent) == len(settled), "the same way, from the ledger alone"

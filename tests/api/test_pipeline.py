"What a build server gets: Markdown, JUnit XML, exit codes, and the workflow of site/ci.md as it stands there."

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml
from conftest import write
from endpoint import completion, digest
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from stages import KEY, fenced, write_rows
from test_gate import CASES, rows_of

ROOT = Path(__file__).parents[2]
NAMES = {
    "v1": "<b>1</b> & `*v*`", "v2": "- [x](y) _2_ #3", "x": "a|b\\|c", "y": "@someone/~~y~~", "z": 'ü "$z$" ![i](j)',
}  # fmt: skip


def named(name: str) -> list[tuple]:
    return [(*row[:4], *(NAMES[model] for model in row[4:6]), row[6]) for row in rows_of(name)]


def said(node: SyntaxTreeNode) -> str:
    "The text of a paragraph, a cell or an item, in which nothing is marked but what is bold."
    (inline,) = [child for child in node.walk() if child.type == "inline"]
    texts = []
    for child in inline.walk():
        assert child.type in ("inline", "text", "strong", "hardbreak", "html_inline"), child.type
        assert child.type != "html_inline" or child.content == "<!-- -->"
        texts.append({"text": child.content, "hardbreak": "\n"}.get(child.type, ""))
    return "".join(texts)


def blocks(text: str) -> list[str | list]:
    "What a reader of GitHub's Markdown sees: paragraphs, rows of tables, items of lists, and nothing else."
    found = []
    for node in SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(text)).children:
        assert node.type in ("paragraph", "table", "bullet_list"), node.type
        if node.type == "table":
            found.append([[said(cell) for cell in row.children] for part in node.children for row in part.children])
        else:
            found.append(said(node) if node.type == "paragraph" else [said(item) for item in node.children])
    return found


def test_markdown_holds_names_as_they_are(ppe_main, tmp_path):
    old, new = write(tmp_path / "old.csv", named("gate_old")), write(tmp_path / "new.csv", named("gate_new"))
    run = ppe_main("compare", old, new, "--format", "markdown", "--fail-if", "worse")
    told = ppe_main("compare", old, new, "--format", "json").json()
    sentence, table, noticed, notes = blocks(run.out)
    assert run.code == 4 and sentence.startswith(f"WORSE: {NAMES['v2']} would win 0.3 % against {NAMES['v1']} (")
    assert told["low"] is None and table[1][table[0].index("low")] == "" and run.out.startswith("**")
    assert table[0] == ["log odds", "low", "high", "points of 100", "questions"]
    numbers = [told[name] for name in ("difference", "high", "points", "n_questions")]
    assert [float(cell) for cell in table[1] if cell] == pytest.approx(numbers, abs=0.005)
    share = re.match(r"Power: a drop to 45 % would be detected (\d+) % of the time", noticed)[1]
    assert notes == told["notes"] and int(share) == round(100 * told["power"])
    assert run.out.endswith("\n\n")  # more can follow
    run = ppe_main("check", old, "--format", "markdown")
    facts, by, fit, *_ = blocks(run.out)
    assert ["verdicts", f"{len(named('gate_old')):,}"] in facts and fit.startswith("scores (ppe rank): every model")
    assert {row[1] for row in by[1:] if row[0] == "model"} == {NAMES[name] for name in ("v1", "x", "y", "z")}
    ranks, about, *_ = blocks(ppe_main("rank", old, "--intervals", "0", "--format", "markdown").out)
    assert {row[1] for row in ranks[1:]} == {row[1] for row in by[1:] if row[0] == "model"} and about.startswith(
        "Bradley–Terry scores"
    )


def test_the_page_shows_what_is_printed(ppe_main):
    shown = re.findall(r"(?m)^  > ?(.*)$", (ROOT / "site" / "ci.md").read_text(encoding="utf-8"))
    words = "--model gpt-4 --model claude-v1 --format markdown".split()
    run = ppe_main("compare", ROOT / "data" / "verdicts" / "mt-bench-gpt4.csv.gz", *words)
    assert len(shown) == 7 and run.out.startswith("\n".join(shown) + "\n\n- ")


def test_markdown_says_what_to_know_besides(ppe_main, tmp_path):
    copy = shutil.copy(CASES / "gate_old.csv", tmp_path / "copy.csv")
    run = ppe_main("compare", CASES / "gate_old.csv", copy, "--model", "v1", "--format", "markdown")
    assert [line.removeprefix("ppe: note: ") for line in run.err.splitlines()] == blocks(run.out)[-1]


def suite(text: str) -> ET.Element:
    "The one suite of a JUnit file, whose elements, attributes and counts are those of Jenkins' schema."
    root = ET.fromstring(text.encode("ascii"))
    (found,) = root
    assert (root.tag, found.tag) == ("testsuites", "testsuite") and root.attrib == {}
    assert {*found.attrib} == {"name", "tests", "failures", "errors", "skipped", "time"}
    assert {child.tag for child in found} <= {"properties", "testcase", "system-out"}
    cases = found.findall("testcase")
    for case in cases:
        (told,) = case
        assert {*case.attrib} == {"classname", "name", "time"} and case.get("classname") == found.get("name")
        assert told.tag in ("failure", "error", "skipped", "system-out") and told.text and "\n" not in told.text
        assert told.attrib == ({} if told.tag == "system-out" else {"message": told.text, "type": found.get("name")})
    assert len({case.get("name") for case in cases}) == int(found.get("tests")) == len(cases)
    for tag, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert len(found.findall(f"testcase/{tag}")) == int(found.get(count))
    for each in found.find("properties"):
        assert each.tag == "property" and {*each.attrib} == {"name", "value"}
    return found


def outcomes(found: ET.Element) -> dict[str, str]:
    return {case.get("name"): case[0].tag for case in found.findall("testcase")}


def properties(found: ET.Element) -> dict[str, object]:
    return {each.get("name"): each.get("value") for each in found.find("properties")}


GATES = {  # tables, options → code without and with --fail-if worse, the outcome of the test, words of its sentence
    "worse": (("gate_old", "gate_new"), "", 0, 4, "failure", "WORSE: v2 would win 0.3 %"),
    "back": (("gate_new", "gate_old"), "", 0, 0, "system-out", "BETTER: v1 would win 99.7 %"),
    "margin": (("gate_old", "gate_new"), "--margin 9", 0, 0, "system-out", "NOT SHOWN TO BE WORSE by more than 9 log"),
    "copies": (
        ("gate_old", "copy"),
        "--model v1",
        0,
        0,
        "skipped",
        "unknown, since all questions give the same result",
    ),
    "lost": (("gate_lost_half_old", "gate_lost_half_new"), "", 0, 5, "error", "has no valid verdict on 50 of the 100"),
    "twice": (("gate_old", "gate_old"), "--model v1", 2, 2, "error", "gate_old.csv is both the old and the new table"),
    "nobody": (("gate_old", "gate_new"), "--model nobody", 2, 2, "error", "no verdicts of model 'nobody'"),
    "judges": (("judge_mix_old", "judge_mix_new"), "", 2, 2, "error", "1 questions on which old and new both"),
}


@pytest.mark.parametrize("name", GATES)
def test_the_gate_is_a_test_of_junit(name, ppe_main, tmp_path):
    files, options, code, gated, outcome, words = GATES[name]
    copy = shutil.copy(CASES / "gate_old.csv", tmp_path / "copy.csv")
    given = ["compare", *(copy if file == "copy" else CASES / f"{file}.csv" for file in files), *options.split()]
    run = ppe_main(*given, "--format", "junit")
    assert (run.code, ppe_main(*given, "--format", "junit", "--fail-if", "worse").code) == (code, gated)
    found = suite(run.out)
    assert found.get("name") == "ppe.compare" and outcomes(found) == {"not worse": outcome}
    assert words in found.find("testcase")[0].text
    if code == 2:
        assert run.err == f"ppe: error: {found.find('testcase')[0].text}\n" and not properties(found)
        return
    told = ppe_main(*given, "--format", "json").json()
    texts = properties(found)
    shown = {key: text if isinstance(told[key], str) else json.loads(text) for key, text in texts.items()}
    assert shown == {key: value for key, value in told.items() if value is not None and key != "notes"}
    text = ppe_main(*given)
    notes = text.err.replace("ppe: note: ", "note: ")
    assert found.find("system-out").text == f"{text.out}\n{notes}".rstrip("\n") and run.err == text.err
    assert notes == "".join(f"note: {line}\n" for line in told.get("notes", ()))


def test_names_stand_in_junit_as_they_are(ppe_main, tmp_path):
    old, new = write(tmp_path / "old.csv", named("gate_old")), write(tmp_path / "new.csv", named("gate_new"))
    found = suite(ppe_main("compare", old, new, "--format", "junit").out)
    assert json.loads(properties(found)["models"]) == [NAMES["v1"], NAMES["v2"]]
    assert found.find("testcase/failure").get("message").startswith(f"WORSE: {NAMES['v2']} would win ")


def test_the_agreement_of_each_judge_is_a_test_of_junit(ppe_main, tmp_path):
    rows = [(f"j{wrong}", q, "c", 0, "x", "y", "b" if q < wrong else "a") for wrong in (1, 20) for q in range(24)]
    judges = write(tmp_path / "judges.csv", rows)
    people = write(tmp_path / "people.csv", [("p", q, "c", 0, "x", "y", "a") for q in range(24)])
    given = ["agree", judges, "--people", people, "--format", "junit"]
    found = suite(ppe_main(*given).out)
    assert outcomes(found) == {f"j{wrong} agrees with people": "skipped" for wrong in (1, 20)}
    run = ppe_main(*given, "--require-agreement", "0.6")
    found = suite(run.out)
    assert run.code == 4 and found.get("name") == "ppe.agree" and properties(found)["required"] == "0.6"
    assert outcomes(found) == {"j1 agrees with people": "system-out", "j20 agrees with people": "failure"}
    sentence = found.find("testcase/failure").text
    assert sentence.startswith("j20 agrees with people in 17 % of 24 ") and sentence.endswith(" Required: 60 %.")
    assert ppe_main("agree", judges, "--people", people, "--require-agreement", "0.6").out.rstrip() in run.out
    run = ppe_main(*given, "--judge", "nobody")
    assert run.code == 2 and outcomes(suite(run.out)) == {"agrees with people": "error"}


def test_judges_have_no_gate(ppe_main):
    run = ppe_main("compare", CASES / "judge_mix_old.csv", "--judges", "--format", "junit")
    assert run.code == 2 and "--format junit" in suite(run.out).find("testcase/error").text
    assert ppe_main("rank", CASES / "gate_old.csv", "--format", "junit").code == 2


SOUND, FIT = ("rows of a verdict table", "invalid verdicts", "questions that repeat another"), (
    "scores (ppe rank)", "cycle scores (ppe cycles, --select)", "ranges of ranks",
    "an effect of the order (--order-effect)",
)  # fmt: skip


def table(n: int = 12, models: str = "xyz", invalid: str = "", orders: int = 1) -> list[tuple]:
    "Complete graphs; the verdicts of a model on the later half of the questions are invalid."
    rows = []
    for q in range(n):
        for k, (a, b) in enumerate((a, b) for a in models for b in models if a < b):
            word = "invalid" if invalid in (a, b) and q >= n // 2 else "ab"[digest(f"{q} {k}") % 2]
            rows += [("j", q, "c", 0, a, b, word), ("j", q, "c", 1, b, a, word)][:orders]
    return rows


CHECKS = {  # rows → tests that do not pass
    "sound": (table(orders=2), {}),
    "one order": (table(), {FIT[3]: "skipped"}),
    "few": (table(4), {FIT[2]: "failure", FIT[3]: "skipped"}),
    "apart": (table(12, "xyz") + table(12, "uvw"), {FIT[0]: "failure", FIT[1]: "skipped", FIT[3]: "skipped"}),
    "twice": (
        table(12, "stuvwxyz") + [(*row[:1], row[1] + 12, *row[2:]) for row in table(1, "stuvwxyz")],
        {SOUND[2]: "failure", FIT[3]: "skipped"},
    ),
    "one model invalid": (table(60, "wxyz", "w"), {SOUND[1]: "failure", FIT[3]: "skipped"}),
}


@pytest.mark.parametrize("name", CHECKS)
def test_what_check_looks_at_are_tests_of_junit(name, ppe_main, tmp_path):
    rows, others = CHECKS[name]
    run = ppe_main("check", file := write(tmp_path / "v.csv", rows), "--format", "junit")
    found, told = suite(run.out), ppe_main("check", file, "--format", "json").json()
    assert run.code == 0 and outcomes(found) == dict.fromkeys((*SOUND, *FIT), "system-out") | others
    assert {key: int(value) for key, value in properties(found).items()} == {
        key: value for key, value in told.items() if isinstance(value, int)
    }
    assert [f"{case.get('name')}: {case[0].text}" for case in found.findall("testcase")[3:]] == told["fit_for"]


def test_a_file_that_breaks_a_rule_is_unfit(ppe_main, tmp_path):
    file = write(tmp_path / "v.csv", [("j", 1, "c", 0, "x", "x", "a")])
    run = ppe_main("check", file, "--format", "junit")
    assert run.code == 2 and outcomes(suite(run.out)) == {SOUND[0]: "failure"}
    assert run.err == f"ppe: error: {suite(run.out).find('testcase/failure').text}\n"


# ---- the workflow that site/ci.md shows


def judge(endpoint, text: str, writer) -> bytes:
    "A target that says how good it is, by its name; a judge that reads it, and sees the same in either order."
    if "ANSWER_A" not in text:
        return completion(endpoint.bodies[-1]["model"], text)
    fields = fenced(text)
    better = {name: int(re.search(r"good-(\d)", fields[name])[1]) for name in ("ANSWER_A", "ANSWER_B")}
    product = "ANSWER_B" if "other" in fields["ANSWER_A"] else "ANSWER_A"
    chance = 2 * sum(good if name == product else -good for name, good in better.items()) + 4
    wins = digest(fields["INSTRUCTION"]) % 10 < chance
    return completion(f"Verdict: [{'AB'[wins == (product == 'ANSWER_B')]}]", text)


@pytest.fixture
def steps(tmp_path, serve):
    "Runs steps of the workflow by name, as the server does, until one fails; the code of the last one."
    page = (ROOT / "site" / "ci.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"(?ms)^```yaml\n(.*?)^```", page)
    workflow = yaml.safe_load(text)
    (job,) = workflow["jobs"].values()
    scripts = {step["name"]: step["run"] for step in job["steps"] if "run" in step}
    (listed,) = re.findall(r"(?ms)^```sh\n(.*?)^```", page)
    assert not any("${{" in script for script in scripts.values())  # nothing that only the server fills in
    assert {*job["env"]} == {"OPENAI_API_KEY"}
    (tmp_path / "ci").mkdir()
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git", "pip"):
        (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >> "{tmp_path}/installed"\n')
        (tools / name).chmod(0o755)
    environment = os.environ | {
        "PATH": os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{serve(judge).url}/v1", "PYTHONPATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }  # fmt: skip

    def run(model: str = "MODEL", *, only: tuple[str, ...] = (*scripts,)) -> int:
        for name in only:
            script = (scripts | {"Pairs": listed})[name].replace("MODEL", model)
            done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True)
            print(script, done.stderr.decode())
            if done.returncode:
                break
        return done.returncode

    run.scripts, run.job = scripts, job
    return run


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    "The four files that stay, as the first test makes them."
    return tmp_path_factory.mktemp("prepared")


def prepare(steps, folder: Path, prepared: Path) -> None:
    "The four files that stay; pairs and verdicts are made by the commands of the page."
    if not any(prepared.iterdir()):
        prompts = [
            {"question_id": q, "category": "c", "variant": 0, "prompt": f"Question {q}, and what follows from it?"}
            for q in range(24)
        ]
        write_rows(folder / "ci" / "prompts.jsonl", prompts)
        answers = [row | {"model": "other", "answer": "other, good-1"} for row in prompts]
        write_rows(folder / "ci" / "opponents.jsonl", answers)
        assert steps("good-2", only=("Pairs", "Answer and judge")) == 0
        (folder / "new.csv").rename(folder / "ci" / "old.csv")
        (folder / "ledger.sqlite").unlink()
        shutil.copytree(folder / "ci", prepared, dirs_exist_ok=True)
    shutil.copytree(prepared, folder / "ci", dirs_exist_ok=True)


def test_the_workflow_stops_where_the_version_is_worse(steps, tmp_path, prepared):
    prepare(steps, tmp_path, prepared)
    assert steps("good-0") == 4
    assert (tmp_path / "installed").read_text().splitlines() == [
        "git clone REPOSITORY ppe", "pip install ./ppe[api]",
    ]  # fmt: skip
    assert outcomes(suite((tmp_path / "compare.xml").read_text())) == {"not worse": "failure"}
    assert "failure" not in outcomes(suite((tmp_path / "check.xml").read_text())).values()
    sentence, *_ = blocks((tmp_path / "summary.md").read_text())
    assert sentence.startswith("WORSE: product, new would win ")
    new, old = ((tmp_path / name).read_text().count("\n") for name in ("new.csv", "ci/old.csv"))
    assert new == old == 25  # the same pairs again


def test_the_workflow_judges_the_product_alone_and_goes_on(steps, tmp_path, prepared):
    "A third model beside the opponent is in no pair of the list, so nothing is asked about it."
    prepare(steps, tmp_path, prepared)
    opponents = tmp_path / "ci" / "opponents.jsonl"
    third = [json.loads(line) | {"model": "third"} for line in opponents.read_text().splitlines()]
    write_rows(opponents, [*map(json.loads, opponents.read_text().splitlines()), *third])
    assert steps("good-2", only=("Answer and judge", "Compare")) == 0
    assert (tmp_path / "summary.md").read_text().startswith("**NOT SHOWN TO BE WORSE: product, new would win ")
    new = (tmp_path / "new.csv").read_text()
    assert new.count("\n") == 25 and "third" not in new


def test_the_workflow_stops_where_nothing_can_be_told(steps, tmp_path, prepared):
    prepare(steps, tmp_path, prepared)
    rows = (tmp_path / "ci" / "old.csv").read_text()
    (tmp_path / "new.csv").write_text(rows)
    (tmp_path / "ci" / "old.csv").write_text(rows.replace("JUDGE,", "another,"))
    assert steps(only=("Compare",)) == 2
    assert outcomes(suite((tmp_path / "compare.xml").read_text())) == {"not worse": "error"}
    assert not (tmp_path / "summary.md").exists() or not (tmp_path / "summary.md").read_text()


def test_the_workflow_publishes_what_it_wrote(steps):
    later = [step for step in steps.job["steps"] if step.get("if") == "always()"]
    assert [step["with"]["path"] for step in later] == ["*.xml", "*.csv"]
    assert "api" in re.search(r"pip install '\./ppe\[(\w+)\]'", steps.scripts["Install"])[1]

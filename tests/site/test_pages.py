"""README and the pages that it leads to, as a repository shows them: plain Markdown, links and pictures followed."""

import json
import re
import shlex
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from stage_notebooks import ROOT

import ppe

PLAIN = MarkdownIt("commonmark").enable("table")


@cache
def rendered(page: Path) -> str:
    return PLAIN.render(page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    "Of the headings, as repository pages make them: small letters and digits, words joined by hyphens."
    headings = re.findall(r"<h\d>(.*?)</h\d>", rendered(page))
    plain = (re.sub(r"[^\w\- ]", "", re.sub(r"<[^>]*>|&\w+;", "", heading).lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def targets(page: Path) -> list[tuple[Path, str]]:
    "What a page links to or shows in this checkout: file and anchor."
    addresses = re.findall(r'(?:href|src)="([^"]+)"', rendered(page))
    parts = [unquote(address).partition("#") for address in addresses if not re.match(r"[a-z]+:", address)]
    return [((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in parts]


def linked() -> list[Path]:
    pages = {path for path, _ in targets(ROOT / "README.md") if path.suffix == ".md"}
    return [ROOT / "README.md", *sorted(pages - {ROOT / "README.md"})]


@pytest.mark.parametrize("page", linked(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_reads_right_as_plain_markdown(page: Path):
    dead = [
        f"{path.relative_to(ROOT)}#{anchor}"
        for path, anchor in targets(page)
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path))
    ]
    assert not dead
    # What only the site understands: roles, directives, lists of definitions, a mark that nothing stands for.
    text = re.sub(r"(?s)```\w*\n.*?```", "", page.read_text(encoding="utf-8"))
    assert not re.findall(r"\{\w+\}`|(?m:^:::|^```\{|^: )|<!-- (?!end)\w+(?:: [\w ]+)? -->\n(?!- |\|)", text)


def test_a_dead_link_and_a_directive_are_noticed(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# One Two, *three*\n\n[a](#one-two-three) [b](#none) ![c](no.png)\n", encoding="utf-8")
    assert anchors(page) == {"one-two-three"} and targets(page)[1:] == [(page, "none"), (tmp_path / "no.png", "")]


def test_a_test_that_a_page_names_is_there():
    named = {name for page in (ROOT / "site").glob("*.md") for name in re.findall(r"`(test_\w+)`", page.read_text())}
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert named and named <= set(re.findall(r"(?m)^def (test_\w+)", tests))


def readme_commands() -> list[list[str]]:
    "The command lines of README.md, in its order, without those that talk to a server."
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"(?ms)^```(?:console|sh)\n(.*?)^```", text)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    words = [shlex.split(line) for line in lines if line.startswith("ppe ")]
    return [one[1:] for one in words]


FILE = re.compile(r"[\w*-]+\.(?:csv|jsonl|html)")
ON_A_SERVER = ("perturb", "respond", "judge")


def test_a_command_of_the_readme_reads_what_the_readme_makes_or_says_is_yours():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (yours,) = re.findall(r"(?s)Below, (.*?)\s+are files of yours", text)
    there = {*re.findall(FILE, yours)}
    for words in readme_commands():
        made = words[words.index("--out") + 1] if "--out" in words else None
        for name in FILE.findall(" ".join(word for word in words if word != made)):
            if "*" in name:
                assert any(Path(file).match(name) for file in there), words
            else:
                assert name in there, words
        there |= {made} - {None}


def test_the_commands_of_the_readme_run_on_its_files(ppe_main, tmp_path: Path):
    "Files of yours are written here."
    table = ppe.load("mt-bench-gpt4")
    log = table.rename(columns={"question_id": "id", "model_a": "left", "model_b": "right"})
    log["won"] = log["verdict"].astype(str).replace({"a": "L", "b": "R", "tie": "T", "invalid": "err"})
    log[["id", "left", "right", "won"]].drop_duplicates(["id", "left", "right"]).to_csv("log.csv", index=False)
    ppe.write_verdicts(table, "old.csv")
    new = table.copy()
    new.loc[::7, "verdict"] = "tie"
    ppe.write_verdicts(new.assign(judge="other"), "judge_2.csv")
    ppe.write_verdicts(table, "judge_1.csv")
    names = ["model_a", "model_b"]
    ppe.write_verdicts(new.assign(**new[names].astype(str).replace("gpt-4", "gpt-4-new")), "new.csv")
    ppe.write_verdicts(table, "others.csv")
    rows = table[["question_id", "category", "variant"]].drop_duplicates().astype(str).to_dict("records")
    questions = [
        one | {"question_id": int(one["question_id"]), "variant": int(one["variant"]), "prompt": "?"} for one in rows
    ]
    for name in ("q.jsonl", "questions.jsonl"):
        Path(name).write_text("".join(json.dumps(one) + "\n" for one in questions), encoding="utf-8")
    for words in readme_commands():
        if words[0] not in ON_A_SERVER:
            done = ppe_main(*words)
            other = {"agree": 4, "compare": 4, "next": 3}.get(words[0], 0)  # below what is asked; settled
            assert done.code in (0, other), (words, done)
            if "--out" in words and done.code == 0:
                assert (tmp_path / words[words.index("--out") + 1]).is_file()

"""README and the pages that it leads to, as a repository shows them: plain Markdown, links and pictures followed."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from stage_notebooks import ROOT

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
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    assert named and named <= set(re.findall(r"(?m)^def (test_\w+)", tests))

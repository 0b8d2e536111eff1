"""What a reader sees first of each notebook of the paper, and the executed ones as they are committed."""

import html
import os
import re
from pathlib import Path

import markdown_it
import mistune
import pytest
from stage_notebooks import ROOT, stage_notebooks

from ppe.paper.items import FOLDERS, Item, notebook_cells, read_fronts, read_items, read_manifest
from ppe.paper.publication import plain_markdown, published_notebook

ITEMS = read_items(ROOT)
PAPER = pytest.mark.parametrize("item", ITEMS.values(), ids=list(ITEMS))
LINK = re.compile(r"\]\((?![a-z]+:|[#/])([^)\s#]+)")


# ---- question and answer


@PAPER
def test_a_notebook_asks_a_question_and_answers_it_in_a_few_sentences(item: Item):
    assert item.question.endswith("?"), item.question
    words = re.sub(r"\([^)]*\)|\bvs\.|\be\.g\.|\bi\.e\.|\bal\.", "", item.answer)
    assert 1 <= len(re.findall(r"[.!?](?=\s+\S|$)", words)) <= 5 and len(item.answer.split()) <= 120, item.answer
    second = item.cells[1]
    assert (second["cell_type"], second["source"].split("\n")[0]) == ("markdown", "## How it was made")


def test_fronts_hold_all_that_was_saved_the_main_one_first():
    manifest = read_manifest(ROOT, "full")
    for name, front in read_fronts(ROOT).items():
        saved = {file for file in manifest[name]["outputs"] if not file.endswith(".ipynb")}
        assert {file for one in front.artefacts for file in one.files} == saved
        names = [one.name for one in front.artefacts if one.is_figure] or [one.name for one in front.artefacts]
        assert front.artefacts[0].name == (name if name in names else names[0])
        for one in front.artefacts:
            kinds = {file.rsplit(".", 1)[1] for file in one.files}
            assert kinds >= ({"csv", "pdf", "png", "txt"} if one.is_figure else {"csv", "tex", "txt"})
            assert one.caption.endswith(".") and "Seed:" not in one.caption and "Seed:" in one.details, one.caption


# ---- captions are shown as they are

HOSTILE = [
    "a | b || c \\| d",
    "[link](https://example.org) ![picture](x.png) [^note] [x]: y",
    "snake_case_name _em_ __strong__ *em* **strong** ***both*** ~~gone~~",
    "<script>alert(1)</script> <b>bold</b> <!-- gone --> 1 < 2 > 0 & &amp; &lt;",
    "$x^2$ costs $5 and $$y$$, `code` and ``more``",
    "# no heading",
    "1. no list",
    "2) no list",
    "- no list",
    "+ no list",
    "=== no heading",
    "> no quotation",
    "::: {note} no fence",
    "% no comment",
    "--- | ---",
    "{ref}`x` {{ y }} \\( z \\) \\[ w \\]",
    "Pools of 25 % [0.1, 0.2], n = 3 × 10⁻³ – “quoted”.",
]


def shown(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", page)).split())


@pytest.mark.parametrize("text", HOSTILE)
def test_a_caption_is_shown_as_it_is(text: str):
    written = plain_markdown(text)
    for render in (markdown_it.MarkdownIt("gfm-like", {"linkify": False}).render, mistune.html):
        page = render(f"{written}\n")
        assert set(re.findall(r"<(\w+)", page)) == {"p"}, page
        assert shown(page) == text
    page = markdown_it.MarkdownIt().render(f"![{written}](x.png)")
    (alt,) = re.findall(r'<img src="x.png" alt="([^"]*)" />', page)
    assert html.unescape(alt) == text
    # A dollar that opens no formula has a backslash before it, in Jupyter as in GitHub and MyST.
    assert not re.search(r"(?<!\\)\$", written)


# ---- the executed notebooks as they are committed


@PAPER
def test_publishing_would_change_nothing(item: Item):
    "The committed notebook has run with the code of its source, and shows its prose and what was saved."
    path, made = ROOT / "figures" / f"{item.name}.ipynb", read_manifest(ROOT, "full")[item.name]["outputs"]
    text = published_notebook(
        item, notebook_cells(path), files=made, folder=ROOT / "figures",
        place="figures", published={item.notebook for item in ITEMS.values()},
    )  # fmt: skip
    assert text is not None, f"the code has changed: `ppe paper run {item.name}`"
    assert path.read_text(encoding="utf-8") == text, "`ppe paper publish` puts today's prose onto it"


@PAPER
def test_an_executed_notebook_links_to_executed_ones_and_to_its_source(item: Item):
    for at, cell in enumerate(notebook_cells(ROOT / "figures" / f"{item.name}.ipynb")):
        for link in LINK.findall(cell["source"]) if cell["cell_type"] == "markdown" else ():
            target = Path(os.path.normpath(ROOT / "figures" / link))
            assert target.exists(), link
            if target.parent in {ROOT / folder for folder in FOLDERS.values()}:
                assert at == 1 and target == ROOT / item.notebook, f"{link} has not run"


def test_stage_notebooks_guides_and_pages_link_to_the_executed_notebooks():
    pages = {path: path.read_text(encoding="utf-8") for path in (ROOT / "nbs").glob("*.md")}
    for path in stage_notebooks():
        cells = [cell["source"] for cell in notebook_cells(path) if cell["cell_type"] == "markdown"]
        pages[path] = "\n\n".join(cells)
    unexecuted = {ROOT / item.notebook for item in ITEMS.values()}
    for path, text in pages.items():
        for link in LINK.findall(text):
            target = Path(os.path.normpath(path.parent / link))
            assert target not in unexecuted, f"{path.relative_to(ROOT)}: {link} has not run; link to figures/"
            if target.parent == ROOT / "figures" and target.suffix == ".ipynb":
                assert target.is_file(), f"{path.relative_to(ROOT)}: {link}"

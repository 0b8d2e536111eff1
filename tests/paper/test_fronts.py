"""What a reader sees first of each notebook of the paper, and the executed ones as they are committed."""

import html
import re

import markdown_it
import mistune
import nbformat
import pytest
from nbconvert import HTMLExporter
from stage_notebooks import ROOT

from ppe.paper.artefacts import Item, cell_tags, notebook_cells, plain_markdown, read_fronts, read_items, read_manifest

ITEMS = read_items(ROOT)
PAPER = pytest.mark.parametrize("item", ITEMS.values(), ids=list(ITEMS))
LINK = re.compile(r"\]\((?![a-z]+:|[#/])([^)\s#]+)")


# ---- question and answer


@PAPER
def test_a_notebook_asks_a_question_and_answers_it_in_a_few_sentences(item: Item):
    assert item.question.endswith("?"), item.question
    words = re.sub(r"\([^)]*\)|\bvs\.|\be\.g\.|\bi\.e\.|\bal\.", "", item.answer)
    assert 1 <= len(re.findall(r"[.!?](?=\s+\S|$)", words)) <= 5 and len(item.answer.split()) <= 120, item.answer
    _, second, third, *_ = (cell["source"].split("\n")[0] for cell in item.cells if cell["cell_type"] == "markdown")
    assert "## How it was made" in (second, third)


def test_the_picture_stands_directly_under_the_answer():
    for front in read_fronts(ROOT).values():
        figure = next((one for one in front.artefacts if one.is_figure), None)
        if figure is not None:
            shown = f"![Picture for the question: {front.item.question}](../../figures/{figure.name}.png)"
            assert front.item.cells[1]["source"] == shown
            assert front.item.cells[2]["source"].startswith("## How it was made")


def test_fronts_hold_all_that_was_saved_the_main_one_first():
    manifest = read_manifest(ROOT, "full")
    for name, front in read_fronts(ROOT).items():
        saved = set(manifest[name]["outputs"])
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
def test_a_notebook_shows_its_outputs_and_ran_with_the_parameters_of_the_full_profile(item: Item):
    cells = notebook_cells(ROOT / item.notebook)
    counts = [cell["execution_count"] for cell in cells if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1)), f"it has not run: `ppe paper run {item.name}`"
    assert not any("injected-parameters" in cell_tags(cell) for cell in cells), "it was run with other parameters"
    shown = [data for cell in cells for output in cell.get("outputs", []) if (data := output.get("data"))]
    front = read_fronts(ROOT)[item.name]
    figures = [one for one in front.artefacts if one.is_figure]
    # Each figure is shown; a table may show the small pictures that it saves beside itself, each of them.
    beside = {file for one in front.artefacts for file in one.files if file.endswith(".png")}
    assert sum("image/png" in data for data in shown) == (len(figures) or len(beside))
    told = ["".join(data["text/markdown"]) for data in shown if "text/markdown" in data]
    for one in front.artefacts:
        assert any(plain_markdown(one.caption) in text for text in told), f"{one.name}: its caption is not shown"


def test_a_notebook_opened_alone_shows_its_pictures():
    "By nbconvert, in a folder where nothing else is."
    source = nbformat.reads((ROOT / "nbs/figures/fig_pipeline.ipynb").read_text(encoding="utf-8"), as_version=4)
    page, _ = HTMLExporter().from_notebook_node(source)
    (picture,) = re.findall(r'<img[^>]*src="([^"]{40,})"', page)
    assert picture.startswith("data:image/png;base64,iVBOR")


@PAPER
def test_a_notebook_leads_to_files_that_are_there(item: Item):
    for cell in notebook_cells(ROOT / item.notebook):
        for link in LINK.findall(cell["source"]) if cell["cell_type"] == "markdown" else ():
            assert (ROOT / item.notebook).parent.joinpath(link).exists(), link


def test_no_page_leads_to_a_copy_of_a_notebook():
    assert not list((ROOT / "figures").glob("*.ipynb"))

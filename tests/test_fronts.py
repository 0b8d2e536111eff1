"""What a reader sees first of each notebook of the paper, and the executed ones as they are committed."""

import html
import io
import json
import os
import re
from pathlib import Path

import markdown_it
import mistune
import pandas as pd
import pytest
from stage_notebooks import ROOT, stage_notebooks

from ppe.paper.fronts import find_artefacts, notebook_cells, question_and_answer, read_fronts, read_manifest
from ppe.paper.profiles import FOLDERS, Item, read_profiles
from ppe.paper.publication import plain_markdown, published_notebook
from ppe.paper.style import caption, printed_figure, save_figure

ITEMS = read_profiles(ROOT)
PAPER = pytest.mark.parametrize("item", ITEMS.values(), ids=list(ITEMS))
LINK = re.compile(r"\]\((?![a-z]+:|[#/])([^)\s#]+)")


def sources(item: Item) -> list[str]:
    return [cell["source"] for cell in notebook_cells(ROOT / item.notebook) if cell["cell_type"] == "code"]


# ---- question and answer


@PAPER
def test_a_notebook_asks_a_question_and_answers_it_in_at_most_three_sentences(item: Item):
    question, answer = question_and_answer(ROOT / item.notebook)
    assert question.endswith("?"), question
    words = re.sub(r"\([^)]*\)|\bvs\.|\be\.g\.|\bi\.e\.|\bal\.", "", answer)
    assert 1 <= len(re.findall(r"[.!?](?=\s+\S|$)", words)) <= 3, answer
    second = notebook_cells(ROOT / item.notebook)[1]
    assert (second["cell_type"], second["source"].split("\n")[0]) == ("markdown", "## How it was made")


def test_fronts_are_in_the_order_of_the_profiles_and_hold_all_that_was_saved():
    fronts, manifest = read_fronts(ROOT), read_manifest(ROOT, "full")
    assert list(fronts) == list(ITEMS)
    for name, front in fronts.items():
        saved = {file for file in manifest[name]["outputs"] if not file.endswith(".ipynb")}
        assert {file for one in front.artefacts for file in one.files} == saved
        assert len({one.name for one in front.artefacts}) == len(front.artefacts) > 0
        pictures = [one.name for one in front.artefacts if one.kind == "figure"]
        if name in (pictures or {one.name for one in front.artefacts}):
            assert front.artefacts[0].name == name
        assert front.artefacts[0].kind == "figure" or not pictures
        for one in front.artefacts:
            kinds = {file.rsplit(".", 1)[1] for file in one.files}
            assert kinds >= ({"csv", "pdf", "png", "txt"} if one.kind == "figure" else {"csv", "tex", "txt"})
            assert one.caption.startswith(one.alt[:-1]) and " n = " not in one.alt[-5:]
            assert one.alt.endswith(".") and "Seed:" not in one.alt, one.alt


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


# ---- what the front shows is not shown again


def as_output(**data: object) -> dict:
    data = {kind.replace("_", "/"): value for kind, value in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": data}


def inline(fig) -> str:
    "The picture as a notebook shows it: small, and cut to what is drawn."
    import base64

    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=100, bbox_inches="tight")
    return base64.b64encode(buffer.getvalue()).decode()


def drawn(*heights: float):
    fig, ax = printed_figure()
    ax.bar(range(len(heights)), heights)
    ax.set_xlabel("kind")
    return fig


def text_of(what: str) -> str:
    fields = {"n": "3 bars", "replicates": 0, "interval": "none", "seed": "not used"}
    return caption(what=what, data="real: by hand", **fields)


def test_pictures_and_tables_that_the_front_shows_are_dropped_and_others_stay(tmp_path: Path):
    own, other = drawn(1, 2, 3), drawn(3, 0.1, 0.1, 0.1, 2)
    frame = pd.DataFrame({"model": ["a_b", "c | d", "e" * 80], "score": ["0.10", "**no**", "1 < 2"]})
    for name in ("fig_bars", "fig_more"):
        save_figure(
            own if name == "fig_bars" else drawn(2, 2.5, 0.2, 3),
            frame,
            name=name,
            caption=text_of(f"Bars of {name}"),
            output_dir=tmp_path,
        )
    rows = ["| model | score |", "|---|--:|", r"| a\_b | **0.10** |", r"| c \| d | \*\*no\*\* |"]
    (tmp_path / "fig_bars_table.md").write_text("\n".join([*rows, "| " + "e" * 80 + " | 1 &lt; 2 |\n"]))
    (tmp_path / "fig_bars_table.txt").write_text(text_of("A table") + "\n")
    outputs = {
        "save_figure(fig, name='fig_bars')": [as_output(image_png=inline(own))],
        "fig": [as_output(image_png=inline(other)), as_output(image_png=inline(drawn(3, 2, 1)))],
        "save_table(frame, name='fig_bars_table')": [as_output(text_html=frame._repr_html_())],
        "frame.head(1)": [as_output(text_html=frame.assign(score="0.99")._repr_html_())],
        "for name in names:\n    save_figure(fig, name=f'fig_{name}')": [],
        "print(1)": [{"output_type": "stream", "name": "stdout", "text": "1\n"}],
    }
    first = {"cell_type": "markdown", "metadata": {}, "source": "# Which is higher?\n\n> The third."}
    code = {"cell_type": "code", "metadata": {}, "execution_count": 1}
    executed = [first, *({**code, "source": key, "outputs": value} for key, value in outputs.items())]
    item = Item("fig_bars", "Figure 1", "Bars", "nbs/figures/fig_bars.ipynb", (), (), {})
    files = [path.name for path in tmp_path.iterdir()]
    options = {"files": files, "folder": tmp_path, "place": "figures", "published": ()}
    text = published_notebook(item, executed, executed, **options)
    cells = json.loads(text)["cells"]
    assert published_notebook(item, executed, cells, **options) == text
    kept = [(cell["cell_type"], len(cell.get("outputs", []))) for cell in cells]
    assert kept == [
        ("markdown", 0), ("markdown", 0),  # the question, the main picture
        ("code", 0), ("code", 2), ("code", 0), ("markdown", 0), ("code", 1),
        ("code", 0), ("markdown", 0), ("code", 1),
    ]  # fmt: skip
    fronts = ["".join(cell["source"]) for cell in cells if cell["metadata"].get("tags") == ["front"]]
    bars, more = (f"![Bars of fig\\_{one}.](fig_{one}.png)" for one in ("bars", "more"))
    starts = [bars, "| model | score |", more]
    assert [front.split("\n")[0] for front in fronts] == starts
    assert fronts[0].endswith(
        "[Source notebook](../nbs/figures/fig_bars.ipynb) · [data (CSV)](fig_bars.csv) · [PDF](fig_bars.pdf)"
    )
    found = find_artefacts("fig_bars", files, folder=tmp_path, sources=list(outputs))
    for one, front in zip(found, fronts, strict=True):
        assert plain_markdown(one.caption) in front


# ---- the executed notebooks as they are committed


@PAPER
def test_publishing_would_change_nothing(item: Item):
    "The committed notebook has run with the code of its source, and shows its prose and what was saved."
    path, made = ROOT / "figures" / f"{item.name}.ipynb", read_manifest(ROOT, "full")[item.name]["outputs"]
    text = published_notebook(
        item, notebook_cells(ROOT / item.notebook), notebook_cells(path), files=made, folder=ROOT / "figures",
        place="figures", published={item.notebook for item in ITEMS.values()},
    )  # fmt: skip
    assert text is not None, f"the code has changed: `ppe paper run {item.name}`"
    assert path.read_text(encoding="utf-8") == text, "`ppe paper publish` puts today's prose onto it"


@PAPER
def test_an_executed_notebook_begins_with_its_front_and_links_to_executed_ones(item: Item):
    cells = notebook_cells(ROOT / "figures" / f"{item.name}.ipynb")
    assert cells[1]["metadata"] == {"tags": ["front"]}
    (front,) = (one for name, one in read_fronts(ROOT).items() if name == item.name)
    for artefact in front.artefacts:
        shown_at = [cell for cell in cells if f"[data (CSV)]({artefact.name}.csv)" in cell["source"]]
        assert len(shown_at) == 1 and plain_markdown(artefact.caption) in shown_at[0]["source"], artefact.name
    for at, cell in enumerate(cells):
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

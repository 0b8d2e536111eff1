"""Title and language of figures, and the book of them all: hostile texts, wide and long tables."""

import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from made_project import make_project
from pypdf import PdfReader
from stage_notebooks import ROOT

from ppe.errors import InputError
from ppe.paper.artefacts import read_fronts
from ppe.paper.book import numbers, write_book
from ppe.paper.style import caption, describe_pdf, save_figure
from ppe.plot_style import printed_figure

TITLE = 'Distance – of "μ" from (0, 1): $K$ #1 \\ 😀'


def needs(program: str) -> str:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on this machine (poppler-utils has it)")
    return program


@pytest.fixture(scope="module")
def figure(tmp_path_factory) -> Path:
    "A figure saved as the paper's are."
    import matplotlib.pyplot as plt

    folder = tmp_path_factory.mktemp("figure")
    fig, ax = printed_figure()
    ax.fill_between([0, 1], [0, 1], alpha=0.4)
    text = caption(what="A band", n=2, replicates=0, interval="none", seed="not used", data="simulated: hand")
    save_figure(fig, pd.DataFrame({"x": [0, 1]}), name="fig_band", title="It widens", caption=text, output_dir=folder)
    plt.close(fig)
    return folder / "fig_band.pdf"


def test_a_title_of_any_characters_is_read_back_by_another_reader(figure: Path, tmp_path: Path):
    described = describe_pdf(figure.read_bytes(), title=TITLE)
    assert described == describe_pdf(figure.read_bytes(), title=TITLE)
    (tmp_path / "titled.pdf").write_bytes(described)
    command = [needs("pdfinfo"), "-enc", "UTF-8", tmp_path / "titled.pdf"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(r"(?m)^Title: +(.*)$", said.stdout)[1] == TITLE and not said.stderr
    assert "Page size:       244.8 x 172.8 pts" in said.stdout


def test_the_page_itself_is_not_touched(figure: Path, tmp_path: Path):
    (tmp_path / "titled.pdf").write_bytes(describe_pdf(figure.read_bytes(), title=TITLE))
    for path, stem in ((figure, "before"), (tmp_path / "titled.pdf", "after")):
        subprocess.run([needs("pdftoppm"), "-r", "60", "-singlefile", path, tmp_path / stem], check=True)
    assert (tmp_path / "before.ppm").read_bytes() == (tmp_path / "after.ppm").read_bytes()


# ---- the book


HOSTILE = r"#panic(1) $x$ @ref <lab> *b* _i_ `r` \u{41} \ [l] = h // c /* d */ ~ -- 'q' \"Q\" </w> & ü μ字😀"
ITEMS = {
    "fig_odd": ("Figure #1", "Odd"),
    "tab_big": ("Table $2$ (not in the paper)", "Big"),
    "thm_gone": ("Theorem 1", "Gone"),
}
MARKDOWN_MARKS = re.compile(r"([\\`*_\[\]<&$|~#])")


def markdown(text: str) -> str:
    "A text that Markdown shows as it is."
    return MARKDOWN_MARKS.sub(r"\\\1", text)


def caption_of(what: str) -> str:
    return f"{what}.\n\nn = 3. Replicates: 0. Intervals: none. Seed: not used. Data: real: {HOSTILE}."


def pipe_table(heading: list[str], rows: list[list[str]], sides: str) -> str:
    lines = [heading, [side for side in sides.split()], *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


@pytest.fixture(scope="module")
def odd_project(figure: Path, tmp_path_factory) -> Path:
    "A picture, and three tables: hostile, wider than a page, longer than a page; one notebook has not run."
    numbers = [f"{k}.001 [{k}.000, {k}.002]" for k in range(14)]
    wide = pipe_table([f"column {k}" for k in range(14)], [numbers], "--: " * 14)
    sentences = [[str(k), "so many words " * 20] for k in range(90)]
    saved = {
        "fig_odd.pdf": figure.read_bytes(),
        "fig_odd.png": "",
        "fig_odd.txt": f"{HOSTILE}\n\n" + caption_of(f"Picture of {HOSTILE}"),
        "tab_big.md": pipe_table(["name", "**v**"], [[markdown(HOSTILE), "**0.125**"]], ":-- --:"),
        "tab_big_wide.md": wide + "\n" + wide.replace("column", "further"),
        "tab_big_long.md": pipe_table(["place at last", "words"], sentences, "--: :--"),
        **{f"tab_big{end}.txt": caption_of(f"Table{end}") for end in ("", "_wide", "_long")},
    }
    firsts = {
        "figures/fig_odd": f"# Is {markdown(HOSTILE)} shown?\n\n> **Yes**, in [links](a.ipynb) and "
        "`#code`: $S_\\mu \\le 1$, for $5.",
        "tables/tab_big": "# Does it fit?\n\n> It does.",
        "theorems/thm_gone": "# Where is it?\n\n> Nowhere.",
    }
    return make_project(tmp_path_factory.mktemp("book") / "project", ITEMS, firsts, saved)


@pytest.fixture(scope="module")
def odd_book(odd_project: Path) -> Path:
    return write_book(odd_project)


def squeezed(text: str) -> str:
    "Without spaces: where lines are broken is not what is asked."
    return re.sub(r"\s", "", text)


def read(book: Path, *options: str) -> str:
    "The text as another program reads it."
    command = [needs("pdftotext"), *options, book, "-"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def words(book: Path) -> list[tuple[int, float, float, str]]:
    "Page, left and right edge as shares of the page's width, word."
    page, width, found = 0, 1.0, []
    for line in read(book, "-bbox").splitlines():
        if match := re.search(r'<page width="([\d.]+)"', line):
            page, width = page + 1, float(match[1])
        elif match := re.search(r'<word xMin="([-\d.]+)" .* xMax="([-\d.]+)".*?>(.*)</word>', line):
            found.append((page, float(match[1]) / width, float(match[2]) / width, match[3]))
    return found


def test_hostile_texts_are_set_as_they_stand(odd_book: Path):
    # What the fonts of Typst have no sign for is a box, which has no text.
    text, odd = (re.sub(r"[字😀\x00-\x1f\ufffd]", "", squeezed(whole)) for whole in (read(odd_book), HOSTILE))
    # In the contents, the question, a title, a caption, a cell, and at the end of the details of four.
    assert text.count(odd) == 9
    assert squeezed("Figure #1") in text and squeezed("Table $2$ (not in the paper)") in text
    assert squeezed("Yes, in links and #code: 𝑆𝜇 ≤ 1, for $5.") in text and "Nowhere." in text


def test_wide_tables_fit_and_long_ones_repeat_their_heading(odd_book: Path):
    found = words(odd_book)
    outside = [word for word in found if word[1] < 0.04 or word[2] > 0.96]
    assert found and not outside
    pages_of_rows = {page for page, _, _, word in found if word == "many"} - {found[-1][0] + 1}
    assert len(pages_of_rows) > 3
    assert {page for page, _, _, word in found if word == "place"} == pages_of_rows
    broken = [word for _, _, _, word in found if re.fullmatch(r"\d+\.00", word)]
    assert not broken  # a number stays whole


def test_the_book_has_an_outline_a_language_and_the_same_bytes(odd_project: Path, odd_book: Path):
    assert odd_book == odd_project / "build" / "ppe.pdf"
    before = odd_book.read_bytes()
    reader = PdfReader(odd_book)
    titles = [len(item) if isinstance(item, list) else item["/Title"] for item in reader.outline]
    assert titles == ["In the paper", 2, "Not in the paper", 1]
    assert reader.trailer["/Root"]["/Lang"] == "en" and "Figures and tables" in reader.metadata.title
    assert reader.trailer["/Root"]["/ViewerPreferences"]["/DisplayDocTitle"]
    assert write_book(odd_project).read_bytes() == before


def test_mathematics_that_is_not_known_is_named(odd_project: Path, tmp_path: Path):
    shutil.copytree(odd_project, tmp_path / "project")
    notebook = tmp_path / "project" / "nbs" / "tables" / "tab_big.ipynb"
    notebook.write_text(notebook.read_text().replace("> It does.", "> $a \\\\nonsense$."))
    with pytest.raises(InputError, match=r"typeset: .*nonsense"):
        write_book(tmp_path / "project")


@pytest.mark.slow
def test_the_committed_outputs_make_a_book():
    book = write_book(ROOT)
    reader = PdfReader(book)
    assert reader.outline[0]["/Title"] == "The paper and what became of its ideas"
    article, *parts = [part for part in reader.outline if isinstance(part, list)]
    assert sum(map(len, parts)) == len(read_fronts(ROOT)) and len(article) > 5
    # The contents are on page 2, the article on the next pages, with today's numbers and without their marks.
    first = squeezed(" ".join(reader.pages[page].extract_text() for page in range(1, 8)))
    said = numbers(ROOT)
    assert all(squeezed(said[name]) in first for name in ("cut", "cycles_oa", "regime_beside")) and "<!--" not in first
    assert not [word for word in words(book) if word[1] < 0.04 or word[2] > 0.96]

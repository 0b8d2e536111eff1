"""Title and language of PDFs."""

import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from ppe.paper.pdf import describe_pdf
from ppe.paper.style import caption, printed_figure, save_figure

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
    save_figure(fig, pd.DataFrame({"x": [0, 1]}), name="fig_band", caption=text, output_dir=folder)
    plt.close(fig)
    return folder / "fig_band.pdf"


def test_a_saved_figure_says_what_it_shows_and_in_which_language(figure: Path):
    content = figure.read_bytes()
    assert content.startswith(b"%PDF-1.4")
    for written in (rb"/Title \(A band\)", rb"/Lang \(en\)", rb"/DisplayDocTitle true"):
        assert len(re.findall(written, content)) == 1, written
    assert not re.search(rb"Date|Producer|Creator|pypdf|atplotlib", content)


def test_a_title_of_any_characters_is_read_back_by_another_reader(figure: Path, tmp_path: Path):
    described = describe_pdf(figure.read_bytes(), title=TITLE)
    assert described == describe_pdf(figure.read_bytes(), title=TITLE)
    (tmp_path / "titled.pdf").write_bytes(described)
    command = [needs("pdfinfo"), "-enc", "UTF-8", tmp_path / "titled.pdf"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(r"(?m)^Title: +(.*)$", said.stdout)[1] == TITLE and not said.stderr
    assert "Page size:       244.8 x 172.8 pts" in said.stdout


def test_the_page_itself_is_not_touched(figure: Path, tmp_path: Path):
    (tmp_path / "titled.pdf").write_bytes(describe_pdf(figure.read_bytes(), title=TITLE, language="de"))
    for path, stem in ((figure, "before"), (tmp_path / "titled.pdf", "after")):
        subprocess.run([needs("pdftoppm"), "-r", "60", "-singlefile", path, tmp_path / stem], check=True)
    assert (tmp_path / "before.ppm").read_bytes() == (tmp_path / "after.ppm").read_bytes()

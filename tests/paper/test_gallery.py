"""The page that shows all figures and tables, made up and as it is committed; descriptions of pictures."""

import html.parser
import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from made_project import make_project
from markdown_it import MarkdownIt
from stage_notebooks import ROOT, stage_notebooks, title

from ppe.paper.artefacts import read_items
from ppe.paper.book import write_gallery

ITEMS = {
    "tab_later": ("Bills (not in the paper)", "Bills"),
    "fig_size": ("Figure 1", "Sizes"),
    "thm_gone": ("Theorem 1", "Gone"),
}
CAPTION = 'Size of "a" & <b>.\n\nn = 3. Replicates: 0. Intervals: none. Seed: not used. Data: real: by hand.\n'
FIRST = {
    "tables/tab_later": "# What do [bills](https://x.org) cost?\n\n> See [sizes](../figures/fig_size.ipynb).",
    "figures/fig_size": "# Does size matter?\n\n> No: **0.1**.\n\n**In the paper:** 1 Introduction.",
    "theorems/thm_gone": "# Where has it gone?\n\n> It needs [a set](../../data/README.md).",
}
MADE = {
    f"{name}.{end}": "A *grows*\n\n" * (name == "fig_size") + CAPTION if end == "txt" else ""
    for name, ends in (("fig_size", "csv pdf png txt"), ("tab_later", "csv md tex txt"))
    for end in ends.split()
}


class Page(html.parser.HTMLParser):
    "The links and pictures of a page, and its headings, as a browser sees them."

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.pictures: list[dict[str, str | None]] = []
        self.headings: list[str] = []
        self.feed(MarkdownIt("commonmark").render(path.read_text(encoding="utf-8")))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links.append(dict(attributes)["href"] or "")
        elif tag == "img":
            self.pictures.append(dict(attributes))
        elif tag in ("h1", "h2", "h3"):
            self.headings.append("")
        self.within = tag

    def handle_data(self, data: str) -> None:
        if self.within in ("h1", "h2", "h3", "a") and self.headings and not self.headings[-1]:
            self.headings[-1] = data.strip()


def dead_links(path: Path) -> list[str]:
    page = Page(path)
    targets = [*page.links, *(picture["src"] or "" for picture in page.pictures)]
    headings = {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in page.headings}
    there = {target for target in targets if target in headings or ":" in target}
    return [target for target in targets if target not in there and not (path.parent / target).is_file()]


@pytest.mark.parametrize("profile, place", [("full", "figures"), ("quick", "build/quick")])
def test_a_page_shows_what_has_run_and_names_what_has_not(tmp_path: Path, profile: str, place: str):
    root = make_project(tmp_path / "project", ITEMS, FIRST, MADE, place)
    path = write_gallery(root, profile)
    assert path == root / place / "README.md"
    page, text = Page(path), path.read_text(encoding="utf-8")
    assert page.headings == [
        "Figures and tables", "By the paper's own numbers", "In the paper", "Does size matter?", "Where has it gone?",
        "Not in the paper", "What do bills cost?",
    ]  # fmt: skip
    assert page.pictures == [{"src": "fig_size.png", "width": "480", "alt": 'Size of "a" & <b>.'}]
    assert text.count("**A \\*grows\\***\n\n<a ") == 1
    assert not dead_links(path) and {"tab_later.md", "tab_later.tex", "fig_size.pdf"} <= set(page.links)
    # The answer's link counts from the notebook in the source and from the page here.
    up = "/".join([".."] * len(Path(place).parts))
    assert text.count(f"]({up}/nbs/figures/fig_size.ipynb)") == 4 and text.count("not made here yet") == 1
    before = path.read_bytes()
    assert write_gallery(root, profile).read_bytes() == before


def test_the_committed_page_is_what_would_be_written(tmp_path: Path):
    "Links lead to files; every figure is shown, and every notebook there is."
    shutil.copytree(ROOT / "figures", tmp_path / "figures")
    shutil.copytree(ROOT / "nbs", tmp_path / "nbs", ignore=shutil.ignore_patterns("stages", "cli", "*checkpoints"))
    (tmp_path / "figures/README.md").unlink()
    committed = ROOT / "figures" / "README.md"
    assert write_gallery(tmp_path).read_bytes() == committed.read_bytes()
    assert not dead_links(committed) and all((picture["alt"] or "").strip() for picture in Page(committed).pictures)


# ---- pictures of the stage notebooks and guides


def test_the_order_is_that_of_the_paper():
    paper = tomllib.loads((ROOT / "data" / "paper" / "labels.toml").read_text(encoding="utf-8"))
    items = [item.item for item in read_items(ROOT).values()]
    for kind in ("figures", "tables"):
        places = [re.match(rf"{kind[:-1].title()} (\d+) \(([\w-]+)\)", item) for item in items]
        order = list(dict.fromkeys((int(match[1]), match[2]) for match in places if match))
        assert order == [*enumerate(paper[kind], start=1)]
    theorems = [item for item in items if re.match(r"Theorem \d", item)]
    assert theorems == ["Theorem 1", "Theorem 2", "Theorem 3"]
    beyond = [item.endswith("(not in the paper)") for item in items]
    assert beyond == sorted(beyond)


def test_every_picture_of_a_stage_notebook_is_described_by_its_cell():
    "In a first line that readers who do not see the picture are given in its place."
    found, wanting = 0, []
    for path in stage_notebooks():
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            kinds = [kind for output in cell.get("outputs", ()) for kind in output.get("data", ())]
            if any(kind.startswith("image/") for kind in kinds):
                found += 1
                if not re.match(r"#\| fig-alt: \S.{30,300}\.\n", "".join(cell["source"])):
                    wanting.append(f"{title(path)}: {cell['id']}")
    assert found > 60 and not wanting, "begin the cell with `#| fig-alt: What the picture shows.`"

"""Gather the sources of the site: its own pages, the repository's Markdown, the committed notebooks.

The folder mirrors the repository, so a link between two pages stays as it is. Any other file of the repository that a
page links to comes along.
Marks such as `<!-- gallery: fig_mu -->` are filled in; numbers and small pictures are those of tab_pages.
"""

import base64
import csv
import json
import posixpath
import re
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from PIL import Image
from reference import reference_pages

from ppe.paper.artefacts import Artefact, Front, read_fronts, saved_at
from ppe.paper.book import filled, numbers

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]*)(#[^)\s]*)?(?=\))")
# A mark, and what stands for it on the repository's own pages.
MARK = re.compile(r"(?s)<!-- (\w+)(?:: ([\w ]+))? -->(?:\n(?:(?!<!-- ).)*<!-- end -->)?")
DIRECTIVE = re.compile(r"^\s*#\s*\|\s*([\w-]+):?\s*(.*)$")  # of nbdev and Quarto
MARKDOWN = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "data/README.md",
    "data/verdicts/README.md",
    "demo/README.md",
    "figures/MOVED.md",
    "nbs/README.md",
    "nbs/reading.md",
)
# The same, under another name.
INSTEAD = {
    "README.md": "index.md",
    "data": "data/README.md",
    "ppe/__init__.pyi": "api/index.md",
    "figures": "paper.md",
    "figures/README.md": "paper.md",
    "nbs": "nbs/README.md",
    "nbs/figures": "paper.md",
    "nbs/tables": "paper.md",
    "nbs/theorems": "theory.md",
}
NO_ALT = "Output of a cell of"  # of a picture whose cell says nothing about it
THUMBNAIL = 600  # pixels wide at least, twice what is shown


class Staging:
    "What goes into the site, and where its links lead."

    def __init__(self, out: Path) -> None:
        self.out = out
        self.fronts: dict[str, Front] = read_fronts(ROOT)
        own = {path.name: path for path in sorted((ROOT / "site").glob("*.md"))}
        # Those of nbs/own have no outputs: they run on verdicts of the reader.
        notebooks = sorted(path for path in (ROOT / "nbs").rglob("*.ipynb") if path.parent.name != "own")
        # Where each page comes from, by its place in the site.
        self.pages = own | {name: ROOT / name for name in MARKDOWN}
        self.pages |= {
            path.relative_to(ROOT).as_posix(): path for path in notebooks if path.parent.name != ".ipynb_checkpoints"
        }
        self.reference = reference_pages(ROOT)
        self.files = {
            f"figures/{file}": ROOT / "figures" / file
            for front in self.fronts.values()
            for artefact in front.artefacts
            for file in artefact.files
            if not file.endswith(".md")  # a table as it stands on the notebook's own page
        }
        # The small pictures of the pages, and the badges of README.md.
        self.files |= {f"figures/{path.name}": path for path in sorted((ROOT / "figures").glob("tab_pages.*.png"))}
        self.files |= {f"badges/{path.name}": path for path in sorted((ROOT / "site" / "badges").glob("*.svg"))}
        self.marks: dict[str, Callable[[list[str]], str]] = {
            "gallery": self.gallery,
            "readme": self.readme,
            "artefacts": self.artefacts,
        }

    def write(self) -> None:
        said = numbers(ROOT)
        for place, source in self.pages.items():
            target = self.out / place
            target.parent.mkdir(parents=True, exist_ok=True)
            text = source.read_text(encoding="utf-8")
            origin = source.relative_to(ROOT).as_posix()
            if source.suffix == ".ipynb":
                text = json.dumps(self.notebook(json.loads(text), place), ensure_ascii=False)
            else:
                text = MARK.sub(lambda match: self.marks[match[1]]((match[2] or "").split()), text)
                text = filled(self.relinked(text, origin, place), said)
                if place == "nbs/README.md":
                    text = with_contents(text)
            target.write_text(text, encoding="utf-8")
        for place, text in self.reference.items():
            target = self.out / place
            target.parent.mkdir(exist_ok=True)
            target.write_text(self.relinked(text, place, place), encoding="utf-8")
        for place, source in self.files.items():
            (self.out / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, self.out / place)

    # ---- links

    def relinked(self, text: str, origin: str, place: str) -> str:
        "Markdown of a file, for its place in the site: links lead to pages, or to files that come along."

        def lead(match: re.Match) -> str:
            link, anchor = match[1], match[2] or ""
            if not link:
                return anchor.lower()
            target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link)).removeprefix("site/")
            target = INSTEAD.get(target, target)
            if target not in self.pages | self.reference | self.files and not target.startswith("thumbnails/"):
                if not (source := ROOT / target).is_file():
                    raise SystemExit(f"site: error: {origin} links to {link}, which is no file")
                target += ".txt" * target.endswith(".md")  # a licence: a page would want a place in the contents
                self.files.setdefault(target, source)
            return posixpath.relpath(target, posixpath.dirname(place) or ".") + anchor.lower()

        # What stands between ``` or ` is no link.
        parts = re.split(r"(?ms)(^\s*```.*?^\s*```|`[^`\n]+`(?!\]))", text)
        return "".join(part if k % 2 else LINK.sub(lead, part) for k, part in enumerate(parts))

    # ---- notebooks

    def notebook(self, notebook: dict, place: str) -> dict:
        "As it is shown: links of the site, no directives of nbdev, alternative texts of pictures."
        shown, front = [], self.fronts.get(Path(place).stem)
        figures = {one.name: one.caption for one in front.artefacts if one.is_figure} if front else {}
        drawn = iter(saved_at(figures, front.item.sources) if front else ())  # in the order of their pictures
        for cell in notebook["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                cell["source"] = self.relinked(source, place, place)
            elif cell["cell_type"] == "code":
                lines = source.splitlines()
                given = {match[1]: match[2] for line in lines if (match := DIRECTIVE.match(line))}
                if "hide" in given:
                    continue
                cell["source"] = "\n".join(line for line in lines if not DIRECTIVE.match(line)).strip("\n")
                if not cell["source"].strip() and not cell["outputs"]:
                    continue
                alt = given.get("fig-alt") or f"{NO_ALT} {Path(place).stem}"
                pictures = [output["data"] for output in cell["outputs"] if "image/png" in output.get("data", {})]
                for picture, name in zip(pictures, drawn, strict=False):  # as it is printed, in place of the small one
                    picture["image/png"] = base64.b64encode((ROOT / f"figures/{name}.png").read_bytes()).decode()
                    alt = figures[name]
                cell["metadata"]["mystnb"] = {"image": {"alt": alt.strip("\"'")}}
                if front and not cell["outputs"]:  # so that the results stand near the answer
                    tags = cell["metadata"].get("tags", [])
                    cell["metadata"]["tags"] = [*dict.fromkeys((*tags, "hide-input"))]
            shown.append(cell)
        code = "\n".join(cell["source"] for cell in shown if cell["cell_type"] == "code")
        magic = re.search(r"(?m)^\s*[%!]", code)
        lexer = "ipython3" if magic else "python"  # which takes half the time
        language = {"language_info": {"name": "python", "pygments_lexer": lexer}}
        return notebook | {"cells": shown, "metadata": notebook["metadata"] | language}

    # ---- what the marks stand for; links are those of a page in site/

    def answer(self, front: Front) -> str:
        "That of a notebook, for a page in site/."
        folder = posixpath.dirname(f"../{front.item.notebook}")
        return LINK.sub(
            lambda match: posixpath.normpath(posixpath.join(folder, match[1])) + (match[2] or ""),
            front.item.answer,
        )

    def thumbnail(self, front: Front) -> str:
        "A small picture of the first figure, as Markdown, or the first cells of the table."
        picture = next((artefact for artefact in front.artefacts if artefact.is_figure), None)
        if picture is None:
            return f":::{{container}} placard\n{self.first_cells(front.artefacts[0])}\n:::"
        file = f"{picture.name}.png"
        target = self.out / "thumbnails" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(ROOT / "figures" / file) as image:
            image.convert("RGB").reduce(max(1, image.width // THUMBNAIL)).save(target)
        return f"[![{verbatim(picture.caption)}](thumbnails/{file})](../{front.item.notebook})"

    def first_cells(self, table: Artefact) -> str:
        "The upper left corner of a table, as Markdown."
        with (ROOT / "figures" / f"{table.name}.csv").open(encoding="utf-8", newline="") as file:
            rows = [[short(cell) for cell in row[:4]] for row in islice(csv.reader(file), 8)]
        lines = [f"| {' | '.join(map(verbatim, row))} |" for row in rows]
        return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])

    def gallery(self, names: list[str]) -> str:
        "Cards with thumbnail, question and answer, and the pages in the table of contents."
        cards = []
        for front in map(self.fronts.__getitem__, names):
            title = f"**[{front.item.question}](../{front.item.notebook})**"
            parts = [self.thumbnail(front), title, self.answer(front), f"_{front.item.item}_"]
            cards.append("\n\n".join(["::::{container} card-of-front", *parts, "::::"]))
        pages = "".join(f"{self.fronts[name].item.notebook.removesuffix('.ipynb')}\n" for name in names)
        contents = f"```{{toctree}}\n:hidden:\n:titlesonly:\n\n{pages}```\n"
        return "\n\n".join([":::::{container} gallery", *cards, ":::::", contents])

    def readme(self, heading: list[str]) -> str:
        "A section of README.md, or what stands above its first one, for a page in site/."
        _, text = (ROOT / "README.md").read_text(encoding="utf-8").split("\n", 1)  # without its title
        first, *sections = re.split(r"(?m)^## (.*)\n", text)
        found = dict(zip(sections[::2], sections[1::2], strict=True))
        return self.relinked(found.get(" ".join(heading), first), "README.md", "index.md")

    def artefacts(self, _: list[str]) -> str:
        "Every figure and table with its command and its files."
        lines = ["| Paper | Question | Command | Files |", "|---|---|---|---|"]
        for front in self.fronts.values():
            files = ", ".join(
                f"[{artefact.name}{Path(file).suffix}](../figures/{file})"
                for artefact in front.artefacts
                for file in artefact.files
                if file.endswith((".pdf", ".tex", ".csv"))
            )
            cells = [
                front.item.item,
                f"[{front.item.question}](../{front.item.notebook})",
                f"`ppe paper run {front.item.name}`",
                files,
            ]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)


def short(cell: str) -> str:
    "A cell of a small table: a number with three digits, or 24 characters."
    if "." not in cell:
        return " ".join(cell.split())[:24]
    try:
        number = float(cell)
    except ValueError:
        return " ".join(cell.split())[:24]
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


def verbatim(text: str) -> str:
    "Text in which nothing is markup."
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def with_contents(text: str) -> str:
    "The page of contents of the notebooks, with the notebooks of each section in the table of contents."
    head, *sections = re.split(r"(?m)^(?=## )", text)
    parts = [head]
    for section in sections:
        pages = [link.removesuffix(".ipynb") for link in re.findall(r"(?m)^- \[[^\]]*\]\(([\w/]+\.ipynb)\)", section)]
        contents = "".join(f"{page}\n" for page in pages)
        listed = f"\n\n```{{toctree}}\n:hidden:\n:titlesonly:\n\n{contents}```" if pages else ""
        parts.append(f"{section.rstrip()}{listed}\n\n")
    return "".join(parts)


def stage(out: Path) -> None:
    "Write the sources of the site into an empty folder."
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    Staging(out).write()

"Citations of the paper resolve in data/paper/labels.toml; a notebook names the titles of what it cites."

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
LABELS = tomllib.loads((ROOT / "data" / "paper" / "labels.toml").read_text(encoding="utf-8"))
TITLES = {section["number"]: section["title"] for section in LABELS["sections"]}
NUMBER = r"(?:[A-D](?:\.\d)?|\d(?:\.\d)?)"
BETWEEN = r"(?:,\s+and\s+|,\s+|\s+and\s+|\s+to\s+|–)(?:appendix\s+|appendices\s+|section\s+)?"
SECTION = re.compile(rf"\b(?:sections?|appendix|appendices)\s+{NUMBER}(?:{BETWEEN}{NUMBER})*(?!\w)", re.I)
APPENDIX = re.compile(r"(?<![\w.])[A-D]\.[1-9](?![\w.])")  # alone, as in "4, A.3 and C.2"
FLOAT = re.compile(r"\b(Figure|Table) ([a-z][a-z0-9]*[-_][\w-]+)")
# As in "Zheng et al. (2023), section 3.4".
OTHER_WORK = re.compile(r"(?:\(?\d{4}\)?|RFC \d+|FIPS [\d-]+),? (?:in )?$")
TEXT = (".ipynb", ".md", ".toml", ".csv", ".py", ".tex", ".txt", ".json", ".yml")


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    names = [
        name for name in listed.stdout.split("\0") if not name.startswith(("requirements", "data/verdicts/LICENSE"))
    ]
    return [ROOT / name for name in names if name.endswith(TEXT)]


def cited(text: str) -> set[str]:
    "The numbers of sections and appendices of the paper that a text cites."
    found = set()
    for pattern in (SECTION, APPENDIX):
        for match in pattern.finditer(text):
            before = text[max(0, match.start() - 30) : match.start()]
            if not OTHER_WORK.search(re.sub(r"(?:appendix|section) $", "", before)):
                found |= set(re.findall(NUMBER, match[0].split(None, 1)[-1]))
    return found


def test_what_counts_as_a_citation():
    assert cited("(section 4.1, appendices A.2 and C.1)") == {"4.1", "A.2", "C.1"}
    assert cited("Sections 2.1, 3 and 3.2 to 4") == {"2.1", "3", "3.2", "4"}
    assert cited("Zheng et al. (2023), section 3.4; RFC 9110 section 14") == set()
    assert cited("FIPS 180-2, appendix B.1") == set()
    assert cited("A in section 27, sectional B.12, graph A") == set()
    assert cited("Claims of sections 4, A.3 and D.2") == {"4", "A.3", "D.2"}, "an unknown one is seen too"


def test_every_citation_resolves():
    unknown = {
        (path.relative_to(ROOT).as_posix(), number)
        for path in tracked()
        if path != Path(__file__).resolve()
        for number in cited(path.read_text(encoding="utf-8")) - set(TITLES)
    }
    assert not unknown


def test_every_figure_and_table_of_the_paper_that_is_cited_exists():
    known = {"Figure": set(LABELS["figures"]), "Table": set(LABELS["tables"])}
    for path in tracked():
        for kind, label in FLOAT.findall(path.read_text(encoding="utf-8")):
            assert label in known[kind], f"{path.relative_to(ROOT)}: {kind} {label}"


@cache
def named_and_cited(path: Path) -> tuple[dict[str, str], set[str]]:
    "Sections that the line 'In the paper' of the first cell lists, and the numbers of those cited elsewhere."
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells]
    line = re.search(r"^\*\*In the paper:\*\* (.+)\.$", cells[0], re.M)
    named = dict(part.split(" ", 1) for part in line[1].split("; ")) if line else {}
    return named, cited("\n\n".join(cells).replace(line[0], "") if line else "\n\n".join(cells))


@pytest.mark.parametrize("path", sorted((ROOT / "nbs").rglob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_names_the_sections_it_cites(path: Path):
    named, numbers = named_and_cited(path)
    assert set(named) == numbers, "the line 'In the paper' of the first cell lists what the notebook cites"
    assert all(TITLES[number] == title for number, title in named.items())


def test_the_reading_of_the_paper_names_places_that_exist():
    text = (ROOT / "nbs" / "reading.md").read_text(encoding="utf-8")
    verdicts = set(re.findall(r"\*\*([a-z ,]+)\*\*", text.partition("| Section |")[0]))
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ][1:]
    order = list(TITLES)
    assert len(rows) >= 140 and len({row[1] for row in rows}) == len(rows)
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), key=order.index), "in the order of the paper"
    for section, statement, place, verdict in rows:
        target = re.fullmatch(r"\[([\w]+)\]\(([\w/]+\.ipynb)\)", place)
        assert target and Path(target[2]).stem == target[1] and (ROOT / "nbs" / target[2]).is_file(), place
        assert section in named_and_cited((ROOT / "nbs" / target[2]).resolve())[0], f"{place}, {statement}"
        assert verdict in verdicts, f"{section}, {statement}: {verdict}"
    assert {row[3] for row in rows} == verdicts, "no verdict that nothing has"

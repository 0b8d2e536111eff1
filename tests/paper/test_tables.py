"""Every LaTeX table is whole, and fits a page as pdfTeX sets it, where there is one.

PPE_TABLES names another folder than figures/, such as build/quick.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from ppe.errors import InputError
from ppe.paper.style import caption, save_table

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / os.environ.get("PPE_TABLES", "figures")
TABLES = sorted(FOLDER.glob("*.tex"))
PAGE = 6.5  # inches
POINTS = 72.27  # per inch
TABLE = pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
GRID = re.compile(r"\\begin\{(tabular|longtable)\}\{([^\n]*)\}\n(.*?)\\end\{\1\}", re.S)
CAPTION = caption(what="A table", n=1, replicates=0, interval="none", seed="not used", data="simulated: by hand")


def test_there_are_tables():
    assert len(TABLES) >= 30 or FOLDER.name != "figures"
    names = [re.findall(r"\\label\{(.*?)\}", path.read_text(encoding="utf-8")) for path in TABLES]
    assert names == [[f"tab:{path.stem}"] for path in TABLES], "one label each"


@TABLE
def test_a_table_is_a_float_with_its_caption_and_comes_as_markdown(path: Path):
    text, words = (path.with_suffix(end).read_text(encoding="utf-8") for end in (".tex", ".txt"))
    assert not re.search(r"[^\x00-\u017f]", text), "characters beyond Latin are commands"
    if "longtable" in text.splitlines()[0]:
        assert text.count(r"\endhead") == text.count(r"\begin{longtable}") >= 1
    else:
        assert text.splitlines()[1] == r"\begin{table}[htbp]" and text.endswith("\\end{table}\n")
    printed = re.search(r"\\caption\{(.*)\}\\label", text)[1]
    letters = re.compile(r"\\[a-zA-Z]+|[^a-zA-Z]")
    assert letters.sub("", printed) == re.sub("[^a-zA-Z]", "", words)
    tables = path.with_suffix(".md").read_text(encoding="utf-8").strip().split("\n\n")
    for table in tables:
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(counts) == 1 and re.fullmatch(r"\|( (:---|---:) \|)+", table.splitlines()[1])
    # As many cells are best in one as in the other.
    assert sum(table.count("**") for table in tables) == 2 * text.count(r"\textbf")
    assert len(tables) == len(GRID.findall(text))


# ---- widths from pdfTeX

PREAMBLE = r"""\documentclass{article}
\usepackage{booktabs,longtable}
\setlength{\textwidth}{6.5in}\setlength{\textheight}{9in}\setlength{\oddsidemargin}{0pt}
\setlength{\topmargin}{-0.5in}\setlength{\headheight}{0pt}\setlength{\headsep}{0pt}
\begin{document}
"""


@pytest.fixture(scope="session")
def pdflatex(tmp_path_factory: pytest.TempPathFactory):
    "Runs LaTeX over the body of a document; returns the log."
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex: the widths are counted in characters alone")

    def run(body: str, runs: int = 1) -> str:
        folder = tmp_path_factory.mktemp("tex")
        (folder / "all.tex").write_text(f"{PREAMBLE}{body}\n\\end{{document}}\n", encoding="utf-8")
        for _ in range(runs):
            command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
            env = os.environ | {"max_print_line": "10000"}
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=300)
            assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
        return (folder / "all.log").read_text(encoding="utf-8", errors="replace")

    return run


def boxes(text: str, name: str) -> str:
    "LaTeX that writes the width of each tabular of a file into the log; a longtable is set as a tabular."
    settings = "".join(re.findall(r"^\\(?:small|footnotesize)$|\\setlength\{\\tabcolsep\}\{[\d.]+pt\}", text, re.M))
    lines = []
    for _, form, rows in GRID.findall(text):
        own = re.compile(r"\\caption|\\end(firsthead|head|foot)|.*\\tablename")
        kept = [line for line in rows.splitlines() if not own.match(line)]
        body = "\n".join([rf"\begin{{tabular}}{{{form}}}", *kept, r"\end{tabular}"])
        lines.append(rf"\sbox0{{{settings}{body}}}\typeout{{WIDTH {name} \the\wd0}}")
    return "\n".join(lines)


def widths(log: str) -> dict[str, float]:
    "Inches of the widest tabular per name."
    found: dict[str, float] = {}
    for name, points in re.findall(r"^WIDTH (\S+) ([\d.]+)pt$", log, re.M):
        found[name] = max(found.get(name, 0.0), float(points) / POINTS)
    return found


def test_every_table_fits_a_page_by_pdftex(pdflatex):
    body = "\n".join(boxes(path.read_text(encoding="utf-8"), path.stem) for path in TABLES)
    found = widths(pdflatex(body))
    assert set(found) == {path.stem for path in TABLES}
    assert not {name: inches for name, inches in found.items() if inches > PAGE}


def test_every_table_compiles_with_its_caption_and_nothing_overflows(pdflatex):
    body = "\n".join(rf"\input{{{path.with_suffix('').as_posix()}}}\clearpage" for path in TABLES)
    log = pdflatex(body + "\n" + " ".join(rf"\ref{{tab:{path.stem}}}" for path in TABLES), runs=3)
    wrong = [line for line in log.splitlines() if re.match(r"!|Overfull|Missing char|LaTeX Warning", line)]
    assert not wrong


# ---- what is refused, and what is not


def saved(text: str, folder: Path) -> Path:
    frame = pd.DataFrame({"name": [text, "b"], "x": [0.25, 0.5], "y": [1, 2]})
    save_table(frame, name="tab_made", caption=CAPTION, output_dir=folder)
    return folder / "tab_made.tex"


def test_the_widest_table_that_is_accepted_just_fits(tmp_path: Path, request):
    words = "Mean distance of 25→20 graphs, 0.066 ± 0.001 [0.05, 0.08]; " * 4
    with pytest.raises(InputError, match=r"tab_made is about 6\.5\d in wide .* 'name' \(\d+ characters\)"):
        for length in range(80, 200):
            saved(words[:length].strip(), tmp_path)
    # Digits of Computer Modern at 8 pt take 4.25 points; `0.250` and `1` stand beside, 4 points apart.
    assert 4.25 * (length + 6) + 8 == pytest.approx(PAGE * POINTS, abs=2 * 4.25)
    path = saved(words[: length - 1].strip(), tmp_path)
    pdflatex = request.getfixturevalue("pdflatex")
    assert 0.9 * PAGE < widths(pdflatex(boxes(path.read_text(encoding="utf-8"), "made")))["made"] <= PAGE


def test_a_character_without_a_command_is_refused_in_caption_cell_and_heading(tmp_path: Path):
    frame = pd.DataFrame({"a": ["x"]})
    options = dict(name="tab_made", output_dir=tmp_path)
    for bad in (
        lambda: save_table(frame, caption=CAPTION.replace("table", "汉"), **options),
        lambda: save_table(frame.assign(a="汉"), caption=CAPTION, **options),
        lambda: save_table(frame, caption=CAPTION, headers={"a": "汉"}, **options),
        lambda: save_table(frame, caption=CAPTION, spans={"a": ("汉", "a")}, **options),
    ):
        with pytest.raises(InputError, match="plain LaTeX cannot set it"):
            bad()
    assert not list(tmp_path.iterdir()), "nothing is written"


def test_run_by_hand_in_its_own_folder_a_notebook_writes_to_build_of_the_checkout(tmp_path: Path, monkeypatch):
    (tmp_path / "settings.ini").write_text("[DEFAULT]\nlib_name = ppe\n")
    (here := tmp_path / "nbs" / "tables").mkdir(parents=True)
    monkeypatch.chdir(here)
    saved = save_table(pd.DataFrame({"a": ["x"]}), name="tab_made", caption=CAPTION, output_dir="build/quick")
    assert sorted(path.name for path in (tmp_path / "build/quick").iterdir()) == sorted(p.name for p in saved.files)
    assert not list(here.iterdir())


def test_every_character_that_is_known_compiles(tmp_path: Path, pdflatex):
    known = "→←↑↓×±≤≥≈≠∞∈√·°§½ℓ†‡αβγδεζηθικλμνξπρςστυφχψωΓΔΘΛΞΠΣΦΨΩ"
    known += "⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉–—−“”‘’…\\&%$#_{}~^`'<>|\u00a0\u202fÄéő"
    frame = pd.DataFrame({"a": [known[at : at + 12] for at in range(0, len(known), 12)]})
    words = CAPTION.replace("A table", f"A {known} table")
    save_table(frame, name="tab_made", caption=words, output_dir=tmp_path, wrap={"a": 3})
    text = (tmp_path / "tab_made.tex").read_text(encoding="utf-8")
    log = pdflatex(text)
    assert "Missing character" not in log and not re.search(r"^!", log, re.M)


def test_a_tall_table_goes_on_over_pages(tmp_path: Path, pdflatex):
    frame = pd.DataFrame({"group": [f"g{row // 40}" for row in range(200)], "x": range(200), "y": 0.5})
    options = dict(within="group", headings=True, parts=[["x"], ["y"]])
    save_table(frame, name="tab_made", caption=CAPTION, output_dir=tmp_path, **options)
    text = (tmp_path / "tab_made.tex").read_text(encoding="utf-8")
    assert "longtable" in text.splitlines()[0]
    log = pdflatex(text + r"\begin{table}\caption{Next}\end{table}\typeout{NEXT \thetable}", runs=3)
    assert "NEXT 2" in log, "two parts are one table"
    assert not re.search(r"^(!|Overfull)", log, re.M) and int(re.search(r"\((\d+) pages", log)[1]) >= 8

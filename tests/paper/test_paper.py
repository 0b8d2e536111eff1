"""`ppe.paper.runner` on a project of three tiny notebooks, run for real in kernels of their own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from conftest import refused

from ppe.files import file_sha256
from ppe.paper import sentences
from ppe.paper.artefacts import code_cells, notebook_cells
from ppe.paper.runner import list_items, run

ITEMS = {
    "fig_first": ("Figure 1", "First", 2),
    "fig_second": ("Figure 2", "Second", 3),
    "tab_votes": ("Table 1", "Votes", 4),
}
PROFILES = "".join(
    f'\n[{name}]\nitem = "{item}"\ntitle = "{title}"\nquick = {{n = 1}}\n' for name, (item, title, _) in ITEMS.items()
)
DRAW = """
import sys
import tempfile
import time
from pathlib import Path

IMPORT

for piece in ("a", "b", "c"):
    print(piece, end="", flush=True)
    time.sleep(0.02)
print(object(), Path.cwd(), {"set", "of", "words"}, sys.argv[0][:0])
_ = Path(output_dir, "NAME.csv").write_text(f"n,double,seed\\n{n},{double(n)},{seed}\\n")
"""


def draw(name: str, line: str = "from ppe.shared import double") -> str:
    return DRAW.replace("NAME", name).replace("IMPORT", line)


VOTES = """
from pathlib import Path

votes = Path("data/votes.csv").read_text()
_ = Path(output_dir, "tab_votes.csv").write_text(votes * n)
"""


FRONT = "# How much is it?\n\n> So much: [votes](../tables/tab_votes.ipynb), [doubles](../doubles.ipynb)."


def notebook(*cells: str, n: int = 2) -> str:
    parameters = f"seed = 7\noutput_dir = 'build/set'\nn = {n}  # how many"
    front = {"cell_type": "markdown", "id": "front", "metadata": {}, "source": FRONT}
    code = [
        {"cell_type": "code", "execution_count": None, "id": f"c{at}", "outputs": [], "source": source.strip()}
        | {"metadata": {} if at else {"tags": ["parameters"]}}
        for at, source in enumerate((parameters, *cells))
    ]
    kernel = {"kernelspec": {"display_name": "python3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": [front, *code], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, sort_keys=True)


FIRST = "nbs/figures/fig_first.ipynb"
FILES = {
    "settings.ini": "",
    "nbs/profiles.toml": PROFILES,
    FIRST: notebook(draw("fig_first")),
    "nbs/figures/fig_second.ipynb": notebook(draw("fig_second"), n=3),
    "nbs/tables/tab_votes.ipynb": notebook(VOTES, n=4),
    "ppe/__init__.py": "",
    "ppe/shared.py": "def double(n):\n    return 2 * n\n",
    "data/votes.csv": "a,b\n",
}


def make_project(root: Path, files: dict[str, str] = FILES) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def run_in(root: Path, names=None, **options):
    return run(names, root=root, **{"progress": False} | options)


def states(root: Path) -> dict[str, str]:
    return list_items(root=root).set_index("name")["state"].to_dict()


def reword(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def results(root: Path) -> dict[str, bytes]:
    "What is committed of a run."
    return tree(root / "figures") | tree(root / "nbs")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    "A project in which everything has run; copy it, do not change it."
    root = make_project(tmp_path_factory.mktemp("finished") / "project")
    summary = run_in(root)
    assert (summary.ran, summary.exit_code) == (("fig_first", "fig_second", "tab_votes"), 0), summary.report()
    return root


@pytest.fixture
def project(finished: Path, tmp_path: Path) -> Path:
    "A copy of the finished project, in another folder: what is up to date does not depend on the place."
    return Path(shutil.copytree(finished, tmp_path / "elsewhere"))


# ---- what is up to date


def test_a_second_run_does_nothing_and_touches_no_file(finished: Path):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
    summary = run_in(finished)
    assert (summary.ran, summary.up_to_date) == ((), ("fig_first", "fig_second", "tab_votes"))
    after = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.is_file()}
    assert after == before
    assert set(states(finished).values()) == {"up to date"}
    program = (
        "import sys, pathlib, ppe.paper.runner as r; r.run(['fig_first'], root=pathlib.Path(sys.argv[1])); "
        "print({'numpy', 'pandas', 'papermill'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program, finished], capture_output=True, text=True)
    assert done.stdout == "figures/: 0 run, 1 up to date\nset()\n", "what takes long to import is not needed"


def test_what_changed_runs_alone_and_leaves_nothing_that_it_no_longer_makes(project: Path):
    before = results(project)
    reword(project / FIRST, "fig_first.csv", "fig_first_long.csv")
    (project / "figures/tab_votes.csv").unlink()
    summary = run_in(project)
    assert (summary.ran, summary.up_to_date) == (("fig_first", "tab_votes"), ("fig_second",))
    assert (project / "figures/fig_first_long.csv").read_text() == "n,double,seed\n2,4,7\n"
    manifest = json.loads((project / "figures/manifest.json").read_text())["notebooks"]
    assert set(manifest["fig_first"]["outputs"]) == {"fig_first_long.csv"} and set(manifest) == set(ITEMS)
    reword(project / FIRST, "fig_first_long.csv", "fig_first.csv")
    (project / "figures/fig_second.csv").write_text("n,double,seed\n2,5,7\n")
    assert run_in(project).ran == ("fig_first", "fig_second") and results(project) == before


def test_a_lost_manifest_is_written_again_without_running(project: Path):
    path = project / "figures/manifest.json"
    before = path.read_bytes()
    path.unlink()
    assert run_in(project).ran == () and path.read_bytes() == before


DAMAGE = {
    "a conflict": lambda text: f"<<<<<<< HEAD\n{text}",
    "cut off": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "not text": lambda text: "\udcff",
    "a list": lambda text: "[]",
    "null": lambda text: "null",
    "an entry that is none": lambda text: text.replace('"fig_first": {', '"fig_first": 7, "x": {', 1),
    "outputs of another kind": lambda text: re.sub(r'"outputs": \{[^}]*\}', '"outputs": 3', text, count=1),
    "no outputs": lambda text: text.replace('"outputs"', '"output"', 1),
}


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("name", ["figures/manifest.json", "build/full/state.json"])
def test_a_damaged_manifest_or_memory_is_refused(project: Path, ppe_main, monkeypatch, name, how):
    "Written from nothing it would lose what is not run today: 43 of 44 entries of the paper's."
    path = project / name
    path.write_text(DAMAGE[how](path.read_text()), errors="surrogateescape")
    (project / "settings.ini").write_text("[DEFAULT]\nlib_name = ppe\n")
    before = tree(project)
    monkeypatch.chdir(project)
    words = [("run", "fig_first"), ("run",), ("list",)]
    words += [("publish",), ("book",)] if "manifest" in name else []
    for command in words:
        refused(ppe_main("paper", *command), f"{name} is damaged (", "git checkout" if "manifest" in name else "delete")
    assert tree(project) == before


def test_outside_a_checkout_nothing_of_the_paper_runs(ppe_main, tmp_path: Path):
    "Also where the package was installed from one."
    for words in (("run",), ("run", "fig_mu"), ("list",), ("publish",), ("book",)):
        refused(ppe_main("paper", *words), f"no checkout of ppe around {tmp_path}", "clone the repository")


NESTED = {
    "ppe/__init__.py": "from importlib import import_module\n\n\ndef __getattr__(name):\n"
    "    if name != 'double':\n        raise AttributeError(name)\n    return import_module('ppe.sums').double\n",
    "ppe/sums.py": "def double(n):\n    from ppe.deep.down import number\n\n    return number(n + n)\n",
    "ppe/deep/__init__.py": "",
    "ppe/deep/down.py": "def number(n):\n    return n\n",
    "ppe/other.py": "def unused():\n    return 0\n",
}


def test_a_stale_figure_is_never_reported_as_up_to_date(tmp_path: Path):
    "What is imported late, or through a front door, is opened like the rest."
    line = "import ppe as front; double = lambda n: front.double(n)"
    root = make_project(tmp_path, FILES | NESTED | {FIRST: notebook(draw("fig_first", line))})
    assert run_in(root, "fig_first").ran == ("fig_first",)
    for name in NESTED:
        before = (root / name).read_text()
        (root / name).write_text(before + "# a word\n")
        assert states(root)["fig_first"] == ("up to date" if name == "ppe/other.py" else "to run"), name
        (root / name).write_text(before)
    (root / "ppe/deep/down.py").write_text("def number(n):\n    return 10 * n\n")
    assert run_in(root, "fig_first").ran == ("fig_first",)
    assert (root / "figures/fig_first.csv").read_text() == "n,double,seed\n2,40,7\n"


def test_what_reads_another_notebooks_output_is_up_to_date_after_one_run(tmp_path: Path):
    reads = """
from pathlib import Path

_ = Path(output_dir, "fig_first.csv").write_text(Path("figures/tab_votes.csv").read_text())
"""
    root = make_project(tmp_path, FILES | {"figures/tab_votes.csv": "old", FIRST: notebook(reads)})
    summary = run_in(root, workers=1)  # the reader first
    assert set(states(root).values()) == {"up to date"}, summary.report()
    assert (root / "figures/fig_first.csv").read_text() == "a,b\n" * 4


# ---- outputs


def test_outputs_hold_no_time_and_no_path(finished: Path):
    made = results(finished)
    assert "`ppe paper run`" in made.pop("README.md").decode()
    text = b"".join(made.values()).decode()
    assert str(finished) not in text and str(finished.parent) not in text
    told = r"\d\d:\d\d:\d\d|20\d\d-\d\d-\d\d|0x[0-9a-f]{6}|duration|papermill|build/"
    assert not re.search(told, text.lower().replace("'build/set'", ""))


def test_a_notebook_runs_in_place_and_says_with_what(finished: Path):
    executed = json.loads((finished / FIRST).read_text())
    assert set(executed["metadata"]) == {"kernelspec"}
    assert [set(cell["metadata"]) for cell in executed["cells"]] == [set(), {"tags"}, set()]
    assert [cell["source"] for cell in code_cells(notebook_cells(finished / FIRST))] == [
        cell["source"] for cell in json.loads(FILES[FIRST])["cells"][1:]
    ], "the author's cells are as they were"
    assert [cell["execution_count"] for cell in executed["cells"][1:]] == [1, 2]
    (stream,) = executed["cells"][2]["outputs"]
    assert "".join(stream["text"]).startswith("abc<object object> . {")
    assert not list((finished / "figures").glob("*.ipynb"))


def test_outputs_and_injected_parameters_are_no_part_of_what_is_up_to_date(project: Path):
    (project / FIRST).write_text(FILES[FIRST])
    assert run_in(project).ran == () and (project / FIRST).read_text() == FILES[FIRST]
    reword(project / FIRST, "n = 2", "n = 9")
    assert run_in(project).ran == ("fig_first",), "a parameter of its own is code"


PICTURE = """
from pathlib import Path
import matplotlib.pyplot as plt
from ppe.shared import NAME, SHIFT

fig, ax = plt.subplots(figsize=(2, 1))
ax.plot([0, n + SHIFT])
_ = Path(output_dir, "fig_first.csv").write_text(f"a,b\\n1000,{n + SHIFT}\\nx,1\\n")
_ = Path(output_dir, "fig_first.tex").write_text(f"{n + SHIFT:.3f} calls of {NAME}, 12 of them")
"""


@pytest.mark.parametrize(
    ("shared", "typed", "left"),
    [("NAME, SHIFT = 'judges', 1e-8", "12", True), ("NAME, SHIFT = 'people', 0.0", "12", False), ("", "13", False)],
    ids=["last digits", "a word", "a number that was typed"],
)
def test_what_says_the_same_is_left_as_published(tmp_path: Path, shared: str, typed: str, left: bool):
    before = {FIRST: notebook(PICTURE), "ppe/shared.py": "NAME, SHIFT = 'judges', 0.0\n"}
    root = make_project(tmp_path / "project", FILES | before)
    assert run_in(root, "fig_first").left == ()
    kept = json.loads((root / FIRST).read_text())["cells"][2]["outputs"]
    assert ["image/png" in output["data"] for output in kept] == [True], "the notebook shows its picture"
    published = results(root)
    (root / "ppe/shared.py").write_text(shared or before["ppe/shared.py"])
    if typed != "12":  # which differs by one in the last place
        reword(root / FIRST, "12 of them", f"{typed} of them")
    summary = run_in(root, "fig_first")
    assert summary.ran == ("fig_first",) and summary.left == ("fig_first",) * left
    assert ("left as published, the same but for last digits: fig_first" in summary.report()) is left
    assert (results(root) == published) is left
    assert run_in(root, "fig_first").up_to_date == ("fig_first",)


def test_what_took_longest_begins_first(project: Path):
    state = json.loads((project / "build/full/state.json").read_text())
    assert all(memory["seconds"][1] > 0 for memory in state.values())
    state["fig_second"]["seconds"] = [99, 99]
    (project / "build/full/state.json").write_text(json.dumps(state))
    for name in list(ITEMS)[:2]:
        order = f"with open('order', 'a') as file:\n    _ = file.write('{name} ')"
        (project / f"nbs/figures/{name}.ipynb").write_text(notebook(order, draw(name)))
    run_in(project, ["fig_first", "fig_second"], workers=1)
    assert (project / "order").read_text() == "fig_second fig_first "


# ---- parameters of one's own

SENTENCES = "x = [n]\nassert n == 2\nassert x[n] == 2\nassert n > 0\nprint('the end')"


ASSERTED = "from ppe.paper.sentences import asserted_or_noted\n\nasserted_or_noted()"


@pytest.fixture
def with_sentences(project: Path) -> Path:
    "The project, and in its first notebook sentences that hold for the published n alone."
    (project / "ppe/paper").mkdir()
    (project / "ppe/paper/__init__.py").write_text("")
    shutil.copy(sentences.__file__, project / "ppe/paper/sentences.py")
    (project / FIRST).write_text(notebook(ASSERTED, draw("fig_first"), SENTENCES.replace("x[n]", "x[n - 2]")))
    return project


@pytest.mark.parametrize(("words", "notes"), [((), 0), (("-p", "n", "5"), 2)], ids=["published", "others"])
def test_papermill_by_hand_gives_what_the_command_gives(with_sentences: Path, words, notes):
    out, settings = with_sentences / "out.ipynb", {"n": 5} if words else {}
    by_command = run_in(with_sentences, "fig_first", settings=settings)
    place = with_sentences / ("build/set" if words else "figures")
    made = (place / "fig_first.csv").read_bytes()
    (with_sentences / "build/set").mkdir(exist_ok=True)
    (with_sentences / "build/set/fig_first.csv").unlink(missing_ok=True)
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", FIRST, out.name, *words]
    environment = os.environ | {"PYTHONPATH": str(with_sentences)}
    done = subprocess.run(command, cwd=with_sentences, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (with_sentences / "build/set/fig_first.csv").read_bytes() == made
    assert out.read_text().count("drawn; this sentence holds only") == notes
    assert len(by_command.notes.get("fig_first", ())) == notes


def test_parameters_of_ones_own_are_drawn_in_build_and_publish_nothing(with_sentences: Path, capsys):
    project = with_sentences
    assert run_in(project, "fig_first").ran == ("fig_first",)
    before = results(project)
    summary = run(["fig_first"], settings={"n": 5}, root=project, progress=True)
    aside = "drawn; this sentence holds only for the published parameters: "
    assert summary.notes == {"fig_first": [f"{aside}n == 2", f"{aside}x[n - 2] == 2"]} and summary.exit_code == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "build/set/: 1 run, 0 up to date", f"fig_first: {aside}n == 2"
    ]  # fmt: skip
    assert (project / "build/set/fig_first.csv").read_text() == "n,double,seed\n5,10,7\n"
    assert "the end" in (project / "build/set/fig_first.ipynb").read_text()
    assert results(project) == before and run_in(project).ran == ()
    assert run_in(project, "fig_first", settings={"n": 5}).notes == summary.notes, "said every time"
    assert run_in(project, "fig_first", settings={"n": 6}, profile="quick").ran == ("fig_first",)


def test_other_parameters_are_refused_in_one_line(project: Path, ppe_main, monkeypatch):
    before = tree(project)
    monkeypatch.chdir(project)
    for words, said in (
        ("fig_first --set m=2", "fig_first, parameters set: m unknown: the notebook has seed = 7, n = 2"),
        ("fig_first --set output_dir=figures", "fig_first, parameters set: output_dir unknown"),
        ("fig_first --set n=two", "fig_first, parameters set: n of another kind: the notebook has seed = 7, n = 2"),
        ("fig_first --set n", "--set n: a parameter is set as NAME=VALUE"),
        ("fig_first --set =5", "--set =5: a parameter is set as NAME=VALUE"),
        ("fig_first --profile verify --set n=3", "parameters are set over full or quick"),
        ("--set n=3", "by name"),
    ):
        refused(ppe_main("paper", "run", *words.split()), said)
    assert tree(project) == before


def test_manifest_and_memory(finished: Path):
    manifest = json.loads((finished / "figures/manifest.json").read_text())
    entry = manifest["notebooks"]["tab_votes"]
    votes = finished / "data/votes.csv"
    assert entry["inputs"] == {"data/votes.csv": file_sha256(votes)}
    assert entry["outputs"]["tab_votes.csv"] == file_sha256(finished / "figures/tab_votes.csv")
    assert entry["parameters"] == {"n": 4, "seed": 7, "output_dir": "figures"} and entry["seed"] == 7
    state = json.loads((finished / "build/full/state.json").read_text())
    assert set(state["fig_first"]["files"]) == {"ppe/__init__.py", "ppe/shared.py"}
    assert set(state["tab_votes"]["files"]) == {"data/votes.csv"}
    assert not (finished / "build/quick").exists()


def test_the_quick_profile_leaves_figures_alone(project: Path):
    before = tree(project / "figures")
    assert run_in(project, "fig_first", profile="quick").ran == ("fig_first",)
    assert (project / "build/quick/fig_first.csv").read_text() == "n,double,seed\n1,2,7\n"
    assert tree(project / "figures") == before
    (project / "build/quick/fig_first.ipynb").unlink()
    assert run_in(project, "fig_first", profile="quick").ran == ("fig_first",), "its notebook is an output there"


# ---- failures


def test_a_failing_cell_is_kept_and_leaves_no_half_output(project: Path):
    before = tree(project / "figures")
    path = project / FIRST
    path.write_text(notebook(draw("fig_first"), "x = {}\nx['key']", "print('never')"))
    (project / "figures/fig_second.csv").unlink()
    summary = run_in(project)
    kept = "build/full/failed/fig_first.ipynb"
    assert summary.failed == {"fig_first": f"fig_first, cell [4]: KeyError: 'key' (see {kept})"}
    assert summary.ran == ("fig_second",) and summary.exit_code == 1
    assert f"failed: {summary.failed['fig_first']}" in summary.report()
    assert tree(project / "figures") == before, "the earlier outputs stand, the other notebook was run"
    kept = json.loads((project / kept).read_text())["cells"]
    assert any(output.get("ename") == "KeyError" for cell in kept for output in cell.get("outputs", []))
    assert not (project / "build/full/scratch/fig_first").exists()
    path.write_text(FILES[FIRST])
    assert run_in(project).ran == (), "going back to what has run is going back to what is up to date"


NOISE = """
import numpy as np, matplotlib.pyplot as plt
plt.figure(figsize=(9, 9))
_ = plt.imshow(np.random.default_rng(0).random((900, 900)))
"""


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("import os\nos._exit(3)", "(?i)kernel"),
        ("open(output_dir + '/fig_second.csv', 'w').close()", "fig_second.csv is made by fig_second: an output"),
        ("open(output_dir + '/MOVED.md', 'w').close()", "MOVED.md is made by hand: an output has one notebook"),
        ("import os\nopen(output_dir + '/x.csv', 'w').write(os.getcwd() + '/data')", "x.csv holds a path"),
        (NOISE, r"shows a picture of [\d,]+ bytes: at most 150,000"),
    ],
    ids=["kernel dies", "output of another notebook", "a page by hand", "path in an output", "picture too large"],
)
def test_other_failures_are_reported(project: Path, cell: str, message: str):
    before = tree(project / "figures")
    (project / FIRST).write_text(notebook(cell))
    assert re.search(message, run_in(project, "fig_first").failed["fig_first"])
    assert (project / "build/full/failed/fig_first.ipynb").is_file()
    assert tree(project / "figures") == before


def test_what_the_runner_cannot_write_is_named(project: Path):
    (project / "figures/fig_first.csv").unlink()
    (project / "figures/fig_first.csv").mkdir()
    assert "fig_first.csv: it is a folder, not a regular file" in run_in(project, "fig_first").failed["fig_first"]
    (project / "build/full/scratch").rmdir()
    (project / "build/full/scratch").touch()
    with pytest.raises(OSError, match="build/full/scratch"):  # of which the command line makes one line
        run_in(project, "fig_first")


def test_warnings_in_outputs_are_named(project: Path):
    cell = "import warnings\nwarnings.warn('seen')\nopen(output_dir + '/fig_first.csv', 'w').close()"
    (project / FIRST).write_text(notebook(cell))
    summary = run_in(project, "fig_first")
    assert (summary.ran, list(summary.notes)) == (("fig_first",), ["fig_first"])
    assert "fig_first: has warnings in its outputs: see nbs/figures/fig_first.ipynb" in summary.report()


# ---- prose


def test_prose_runs_nothing_and_stays_when_a_run_ends(project: Path):
    before, source = results(project), project / FIRST
    state = (project / "build/full/state.json").read_bytes()
    reword(source, "So much", "Twice as much")
    cell = notebook_cells(source)[2]
    reword(
        source,
        f'"id": "{cell["id"]}",\n   "metadata": {{}}',
        f'"id": "{cell["id"]}",\n   "metadata": {{"tags": ["hide-input"]}}',
    )
    assert set(states(project).values()) == {"up to date"}
    summary = run_in(project)
    assert (summary.ran, summary.up_to_date) == ((), ("fig_first", "fig_second", "tab_votes"))
    after = results(project)
    assert {name for name in after if after[name] != before[name]} == {"README.md", "figures/fig_first.ipynb"}
    assert b"Twice as much" in after["README.md"]
    assert (project / "build/full/state.json").read_bytes() == state, "nothing ran"
    shutil.rmtree(project / "figures"), shutil.rmtree(project / "build")
    assert len(run_in(project).ran) == 3
    assert b"Twice as much" in (project / FIRST).read_bytes() and b"hide-input" in (project / FIRST).read_bytes()


# ---- several at a time, and interruption

MEET = """
import time
from pathlib import Path

Path("ME.ready").touch()
for _ in range(600):
    if Path("OTHER.ready").exists():
        break
    time.sleep(0.05)
else:
    raise TimeoutError("OTHER never came")
"""


def meeting(me: str, other: str, name: str, *first: str) -> str:
    "A notebook that says it is there, and draws when the other is."
    return notebook(*first, MEET.replace("ME", me).replace("OTHER", other), draw(name))


def started(root: Path, *names: str) -> psutil.Popen:
    program = "import sys, pathlib as p, ppe.paper.runner as r; r.run(sys.argv[2:], root=p.Path(sys.argv[1]))"
    call = [sys.executable, "-c", program, str(root), *names]
    return psutil.Popen(call, stdout=-1, stderr=-1, text=True, env=os.environ | {"COLUMNS": "80"})


def wait_for(process: psutil.Popen, *files: Path) -> None:
    deadline = time.monotonic() + 60
    while not all(file.exists() for file in files):
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.05)


def test_two_notebooks_run_at_a_time(project: Path):
    for me, other in (("fig_first", "fig_second"), ("fig_second", "fig_first")):
        (project / f"nbs/figures/{me}.ipynb").write_text(meeting(me, other, me))
    assert run_in(project, workers=2).ran == ("fig_first", "fig_second")


@pytest.mark.slow
def test_a_second_run_of_a_profile_waits_for_the_first(tmp_path: Path):
    once = "with open('ran', 'a') as file:\n    file.write('once')"
    root = make_project(tmp_path / "project", FILES | {FIRST: meeting("here", "go", "fig_first", once)})
    first = started(root, "fig_first", "fig_second")
    wait_for(first, root / "here.ready")
    second, third = started(root, "fig_first"), started(root, "fig_first")
    for waits in (second, third):
        said = waits.stderr.readline()
        assert said == "another run of the profile full is under way: waiting for it (Ctrl-C gives up)\n"
    third.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in third.communicate(timeout=30)[1]
    assert not (root / "figures/fig_first.csv").exists()
    (root / "go.ready").touch()
    assert first.communicate(timeout=60)[0] == "figures/: 2 run, 0 up to date\n"
    assert second.communicate(timeout=60) == ("figures/: 0 run, 1 up to date\n", "")
    assert (root / "ran").read_text() == "once" and run_in(root, ["fig_first", "fig_second"]).ran == ()


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_has_finished(tmp_path: Path):
    second = "nbs/figures/fig_second.ipynb"
    root = make_project(tmp_path / "project", FILES | {second: meeting("here", "go", "fig_second")})
    runner = started(root, "fig_first", "fig_second")
    try:
        wait_for(runner, root / "here.ready", root / "build/full/state.json")
        assert states(root)["fig_first"] == "up to date", "remembered while the run goes on, and so if it is killed"
        children = runner.children(recursive=True)
        assert children, "a kernel"
        runner.send_signal(signal.SIGINT)
        said = runner.communicate(timeout=30)[1]
        assert "KeyboardInterrupt" in said
        assert "stopped: finished fig_first; left fig_second: run again to go on" in said.splitlines()
    finally:
        if runner.poll() is None:
            runner.kill()
    gone, alive = psutil.wait_procs(children, timeout=15)
    assert not alive, "an interrupted run leaves no kernel behind"
    assert list(tree(root / "figures")) == ["fig_first.csv", "manifest.json"]
    (root / "go.ready").touch()
    summary = run_in(root, ["fig_first", "fig_second"])
    assert (summary.up_to_date, summary.ran) == (("fig_first",), ("fig_second",))


@pytest.mark.slow
def test_a_killed_runner_leaves_no_child_and_its_rerun_publishes_the_edited_code(tmp_path: Path):
    busy = (
        "import subprocess, sys\nfrom concurrent.futures import ProcessPoolExecutor\n"
        "from ppe.shared import double\nworkers = ProcessPoolExecutor(1)\n"
        "assert workers.submit(double, 2).result() == 4\n"
        "_ = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])"
    )
    root = make_project(tmp_path / "project", FILES | {FIRST: meeting("here", "go", "fig_first", busy)})
    reword(root / FIRST, "{double(n)}", "{-double(n)}")
    runner = started(root, "fig_first")
    try:
        wait_for(runner, root / "here.ready")
        children = runner.children(recursive=True)
        assert len(children) >= 3, "a kernel, a worker and a process of the notebook's own"
        runner.kill()
        runner.communicate(timeout=10)
        assert not psutil.wait_procs(children, timeout=30)[1], "nothing outlives the runner"
        (root / FIRST).write_text(notebook(draw("fig_first")))
        (root / "go.ready").touch()  # whoever still waits may go on
        again = started(root, "fig_first")
        assert again.communicate(timeout=120)[0] == "figures/: 1 run, 0 up to date\n"
    finally:
        for process in (runner, *runner.children(recursive=True)) if runner.is_running() else ():
            process.kill()
    assert (root / "figures/fig_first.csv").read_text() == "n,double,seed\n2,4,7\n"
    assert "-double" not in (root / FIRST).read_text() and states(root)["fig_first"] == "up to date"
    assert list((root / "build/full/scratch").iterdir()) == []


def test_a_module_that_is_edited_while_a_notebook_runs_runs_it_again(tmp_path: Path):
    first = "from ppe.shared import double"
    root = make_project(tmp_path / "project", FILES | {FIRST: meeting("here", "go", "fig_first", first)})
    runner = started(root, "fig_first")
    wait_for(runner, root / "here.ready")
    (root / "ppe/shared.py").write_text("def double(n):\n    return 200 * n\n")
    (root / "go.ready").touch()
    assert runner.communicate(timeout=60)[0] == "figures/: 1 run, 0 up to date\n"
    assert (root / "figures/fig_first.csv").read_text() == "n,double,seed\n2,4,7\n"
    assert states(root)["fig_first"] == "to run", "its output is that of the module before"
    assert run_in(root, "fig_first").ran == ("fig_first",) and states(root)["fig_first"] == "up to date"
    assert (root / "figures/fig_first.csv").read_text() == "n,double,seed\n2,400,7\n"


def test_figures_may_lie_on_another_disk(tmp_path: Path):
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second disk here")
    root = make_project(tmp_path / "project")
    with tempfile.TemporaryDirectory(dir=shared) as place:
        (root / "figures").symlink_to(place)
        assert run_in(root, "tab_votes").ran == ("tab_votes",)
        names = ["manifest.json", "tab_votes.csv"]
        assert (root / "figures/tab_votes.csv").read_text() == "a,b\n" * 4
        assert [name for name in sorted(os.listdir(place)) if name != "README.md"] == names


def test_another_projects_settings_are_refused_in_one_line(ppe_main, tmp_path: Path):
    for settings, folder in (("[server]\nport = 80\n", "site"), ("[DEFAULT]\nlib_name = theirs\n", "nbs")):
        (tmp_path / folder).mkdir()
        (tmp_path / "settings.ini").write_text(settings)
        for word in ("run", "list", "publish", "book"):
            refused(ppe_main("paper", word), f"{tmp_path / 'settings.ini'} belongs to another project")


def test_make_looks_at_the_version_before_it_makes_anything(tmp_path: Path):
    for name in ("Makefile", "pyproject.toml", "requirements.txt", "requirements-dev.txt"):
        shutil.copy(Path(__file__).parents[2] / name, tmp_path)
    (old := tmp_path / "python3.10").write_text("#!/bin/sh\nexit 1\n")  # what sys.exit(True) gives
    old.chmod(0o755)
    before = sorted(tmp_path.iterdir())
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }  # of `make test`
    done = subprocess.run(["make", f"PYTHON={old}", "paper"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == "" and sorted(tmp_path.iterdir()) == before
    said, of_make = done.stderr.splitlines()
    assert said.startswith(f"ppe needs Python 3.11 or newer, and {old} is not") and of_make.startswith("make: ***")

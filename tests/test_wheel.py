"""The package as it is installed: from its wheel, outside any checkout, with its base dependencies alone."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distributions as distributions_in
from pathlib import Path

import pytest
from conftest import Run, refused

pytestmark = pytest.mark.slow  # a wheel is built and installed
ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = "\n\n".join(re.findall(r"(?ms)^```python\s*\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8")))
BATTLE = {
    "question_id": 81, "model_1": "x", "model_2": "y", "g1_winner": "model_1", "g2_winner": "tie",
    "judge": ["gpt-4", "pair-v2"], "turn": 1,
}  # fmt: skip
COMMANDS = {
    "rank": "rank verdicts.csv --format json",
    "cycles": "cycles verdicts.csv --format csv",
    "diagnose": "diagnose verdicts.csv",
    "import": "import battles.jsonl --out imported.csv",
    "data list": "data list --format json",
    "data write": "data write mt-bench-gpt4 --out real.csv",
    "perturb": "perturb mt-bench --model any --out prompts.jsonl --dry-run",
    "paper list": "paper list",
    "paper run": "paper run fig_mu",
}
# What a process does that has the base dependencies only: the README's example and every command.
SESSION = """
import contextlib, io, json, sys
from pathlib import Path

extras, example, commands = json.load(sys.stdin)

class Absent:
    "Packages that only the extras bring are not there."
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in extras:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import ppe
from ppe.cli.main import main

answers = {}
with contextlib.redirect_stdout(io.StringIO()) as printed:
    exec(example, {})
ppe.write_verdicts(ppe.load("mt-bench-gpt4").head(300), "verdicts.csv")
for name, words in commands.items():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words.split())
    answers[name] = code, out.getvalue(), err.getvalue()
Path("answers.json").write_text(json.dumps({"file": ppe.__file__, "example": printed.getvalue()} | answers))
"""


def pip(*words: str | Path) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", words[0], *quiet, *words[1:]], check=True, timeout=120)


def distributions(requirements: list[str]) -> set[str]:
    "Their names, as modules are called."
    return {re.match(r"[\w.-]+", text)[0].replace("-", "_") for text in requirements}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    "What a wheel is made from, without what git ignores but for a public set that was fetched."
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("ppe", "data"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "external"))
    (copy / "data" / "external" / "mtbench").mkdir(parents=True)
    (copy / "data" / "external" / "mtbench" / "votes.csv").write_text("fetched\n")
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-build-isolation", "--wheel-dir", folder, source)
    (path,) = folder.glob("ppe_ranking-*.whl")
    return path


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    pip("install", "--target", folder, wheel)
    return folder


def elsewhere(site: Path, home: Path) -> dict[str, str]:
    "The environment of a user with the package in `site`."
    return os.environ | {"PYTHONPATH": str(site), "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}


@pytest.fixture(scope="module")
def session(site: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    empty = tmp_path_factory.mktemp("empty")
    (empty / "battles.jsonl").write_text(json.dumps(BATTLE) + "\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = distributions(sum(project["optional-dependencies"].values(), ["requests", "platformdirs"]))
    given = json.dumps([sorted(extras - distributions(project["dependencies"])), EXAMPLE, COMMANDS])
    call = [sys.executable, "-c", SESSION]
    env = elsewhere(site, empty) | {"NUMBA_DISABLE_JIT": "1"}  # compiling all kernels anew takes minutes
    done = subprocess.run(call, cwd=empty, env=env, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads((empty / "answers.json").read_text()) | {"folder": empty}


def answer(session: dict, name: str) -> str:
    code, out, err = session[name]
    assert code == 0, err
    return out


def test_the_wheel_holds_every_module_the_page_of_reports_and_the_data_of_the_repository(wheel: Path):
    packed = {name: zipfile.ZipFile(wheel).read(name) for name in zipfile.ZipFile(wheel).namelist()}
    data = {f"ppe/{path.relative_to(ROOT)}": path for path in (ROOT / "data").rglob("*") if path.is_file()}
    assert len(data) > 10 and {name for name in packed if name.startswith("ppe/data/")} == data.keys()
    assert all(packed[name] == path.read_bytes() for name, path in data.items())
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "ppe").rglob("*.py")}
    assert {name for name in packed if name.endswith(".py")} == modules
    pages = {path.name for path in (ROOT / "ppe" / "reports").iterdir() if path.suffix in (".css",)}
    assert {f"ppe/reports/{name}" for name in pages | {"report.css"}} <= packed.keys()


def test_inspect_finds_the_scorer_by_its_entry_point(site: Path):
    (found,) = [e for d in distributions_in(path=[str(site)]) for e in d.entry_points.select(group="inspect_ai")]
    assert found.name == "ppe" and callable(found.load().pairwise)  # what stands before the scorer's name: ppe/pairwise


def test_the_example_of_the_readme_runs_on_the_installed_package(session: dict, site: Path):
    assert EXAMPLE and Path(session["file"]) == site / "ppe" / "__init__.py"
    head, first, *_ = session["example"].splitlines()
    assert head.split() == ["rank", "model", "score", "rank_low", "rank_high", "score_low", "score_high"]
    assert first.split()[:2] == ["1", "gpt-4"]


def test_verdicts_are_ranked_counted_diagnosed_and_imported(session: dict):
    assert json.loads(answer(session, "rank"))["n_models"] == 6
    assert len(answer(session, "cycles").splitlines()) == 1 + 20
    assert "on 10 questions and 6 models; each of its 20 comparison graphs" in answer(session, "diagnose")
    answer(session, "import")
    assert (session["folder"] / "imported.csv").read_text().count("\n") == 1 + 2


def test_the_command_computes_theory(site: Path, tmp_path: Path):
    "By the script `ppe` in a process of its own."
    words = ["theory", "graphs-needed", "--n", "20", "--p", "0.1", "--confidence", "0.95"]
    env = elsewhere(site, tmp_path)
    done = subprocess.run([site / "bin" / "ppe", *words], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^t +293$", done.stdout)


def test_the_public_sets_come_along_and_what_needs_more_says_so_in_one_line(session: dict):
    sets = {row["name"]: row["verdicts"] for row in json.loads(answer(session, "data list"))}
    assert len(sets) == 9 and sets["mt-bench-gpt4"] == 2400
    answer(session, "data write")
    assert (session["folder"] / "real.csv").read_text().count("\n") == 1 + 2400
    checkout = "no checkout of ppe around"
    needs = {"perturb": "they are question.jsonl of lm-sys/FastChat", "paper list": checkout, "paper run": checkout}
    for name, words in needs.items():
        refused(Run(*session[name], new_files=()), words)


def test_an_editable_install_reads_the_data_beside_it(source: Path, tmp_path: Path):
    # Without --ignore-installed pip would first uninstall the package that these tests run in.
    options = ("--ignore-installed", "--no-build-isolation", "--prefix", tmp_path / "prefix")
    pip("install", *options, "--editable", source)
    (packages,) = (tmp_path / "prefix").rglob("site-packages")
    script = (
        "import site, sys; sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f).lower()]; "
        "[sys.modules.pop(name) for name in list(sys.modules) if name.startswith('__editable__')]; "
        f"sys.path.insert(0, {str(packages)!r}); site.addsitedir({str(packages)!r}); "
        "from ppe.files import data_file; print(data_file('simulated.toml'))"
    )
    env = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.strip() == str(source / "data" / "simulated.toml"), done.stderr

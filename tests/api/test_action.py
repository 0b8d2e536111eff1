"""The steps of action.yml, run one after the other as GitHub runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from test_gate import CASES
from test_pipeline import blocks, outcomes, suite

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "action.yml").read_text(encoding="utf-8")
ACTION = yaml.safe_load(TEXT)
GITHUB = {"github.token": "token", "github.event.pull_request.number": "7"}


def test_the_action_is_short_and_no_input_stands_in_a_script():
    assert TEXT.count("\n") <= 60 and "secrets." not in TEXT
    assert all("${{" not in step["run"] and step["shell"] == "bash" for step in ACTION["runs"]["steps"])
    options = {*ACTION["inputs"]} - {"old", "new", "comment"}
    printed = subprocess.run([Path(sys.executable).parent / "ppe", "compare", "--help"], capture_output=True, text=True)
    assert options <= {*re.findall(r"--([a-z-]+)", printed.stdout)}  # named as those of the command


@pytest.fixture
def run_action(tmp_path: Path):
    "Runs the action with inputs; the code of the step that fails, or 0. `always()` steps run in any case."
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("python", "gh"):
        (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >> "{tmp_path}/called"\n')
        (tools / name).chmod(0o755)
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"PATH": path, "PYTHONPATH": str(ROOT), "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_STEP_SUMMARY": "summary.md"}

    def run(**given: str) -> int:
        inputs = {name: str(about.get("default", "")) for name, about in ACTION["inputs"].items()}
        known = GITHUB | {f"inputs.{name}": value for name, value in (inputs | given).items()}
        code = 0
        for step in ACTION["runs"]["steps"]:
            if code and not step.get("if", "").startswith("always()"):
                continue
            values = {name: known[text.strip("${} ")] for name, text in step.get("env", {}).items()}
            bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(bash, cwd=tmp_path, env=os.environ | own | values, capture_output=True, text=True)
            print(step["name"], done.stdout, done.stderr)
            code = code or done.returncode
        return code

    return run


@pytest.mark.slow
def test_the_action_stops_where_the_version_is_worse(run_action, tmp_path: Path):
    tables = {"old": str(CASES / "gate_old.csv"), "new": str(CASES / "gate_new.csv")}
    assert run_action(**tables, model="v1\nv2") == 4
    called = (tmp_path / "called").read_text().splitlines()
    assert called == [f"python -m pip install --quiet {ROOT}", "gh pr comment 7 --body-file ppe-compare.md"]
    assert outcomes(suite((tmp_path / "ppe-compare.xml").read_text())) == {"not worse": "failure"}
    assert "failure" not in outcomes(suite((tmp_path / "ppe-check.xml").read_text())).values()
    comment = (tmp_path / "ppe-compare.md").read_text()
    assert blocks(comment)[0].startswith("WORSE: v2 would win ") and (tmp_path / "summary.md").read_text() == comment
    assert run_action(**tables, margin="9") == 0
    assert run_action(**tables, **{"fail-if": ""}) == 0


def test_an_input_is_text_and_no_command(run_action, tmp_path: Path):
    tables = {"old": str(CASES / "gate_old.csv"), "new": str(CASES / "gate_new.csv")}
    names = ("model", "judge", "category", "columns", "margin")
    assert run_action(**tables, **dict.fromkeys(names, '"; touch stolen; $(touch stolen) `touch stolen`')) == 2
    assert run_action(old="$(touch stolen).csv", new=tables["new"]) == 2
    assert not (tmp_path / "stolen").exists()

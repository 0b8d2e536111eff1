"""The halves that other tools were run on: the script deals as the notebook does, and needs no tool for it."""

import gzip
import importlib.util
import json
import sys
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from definitions import definitions
from stage_notebooks import ROOT


@pytest.fixture(scope="module")
def peers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("peers", ROOT / "benchmarks" / "peers" / "peers.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["peers"] = module
    spec.loader.exec_module(module)
    return module


def test_the_script_deals_as_the_notebook_does(peers: ModuleType):
    notebook = definitions("tables/tab_calibration.ipynb")
    for deal, n_questions in ((0, 6), (1, 7)):
        names = [f"q{number}" for number in range(n_questions)] * 2  # a name for each verdict
        dealt = peers.halves(names, "a set", deal, seed=3)
        for one, other in zip(dealt, notebook.halves(names[::-1], "a set", deal, 3), strict=True):
            assert list(one) == list(other)
        assert sorted(np.concatenate(dealt)) == sorted(set(names)) and len(dealt[0]) == n_questions // 2


def test_the_script_reads_the_sets_as_the_library_does(peers: ModuleType):
    notebook = definitions("tables/tab_calibration.ipynb")
    for name in ("prd-human", "vicuna80-gpt4"):  # the second has invalid verdicts
        rows, questions = notebook.read_set(name)
        names, counts = peers.counts_of(peers.read_verdicts(name))
        assert names == list(rows.models) and (counts == rows.counts()[:, 0]).all()
        assert set(questions) == set(peers.read_verdicts(name).question)


def test_the_facts_hold_what_the_script_would_run(peers: ModuleType):
    with gzip.open(ROOT / "data" / "peers.csv.gz", "rt") as file:
        facts = json.loads(file.readline().removeprefix("# "))
        rows = pd.read_csv(file)
    assert list(facts["sets"]) == sorted([*peers.NAMES, *peers.VOTES]) and facts["seed"] == peers.SEED
    assert (facts["resamples"], facts["level"]) == (peers.RESAMPLES, peers.LEVEL)
    locked = (ROOT / "benchmarks" / "peers" / "requirements.txt").read_text()
    assert all(f"{package}=={version}" in locked for package, version in facts["versions"].items())
    n_rows = rows.groupby(["set", "tool"]).size().unstack()
    assert set(n_rows) == set(peers.TOOLS) and (n_rows.nunique(axis=1) == 1).all()
    assert (rows["low"] <= rows["score"]).mean() > 0.99 and (rows["score"] <= rows["high"]).mean() > 0.99

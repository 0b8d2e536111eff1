"""Question effects on the command line."""

import numpy as np
import pytest
from conftest import write
from drawn import refused

from ppe.pool import comparison_graphs
from ppe.rankers.question_effects import fit_question_effects
from ppe.verdicts import read_verdicts


def test_the_command_prints_sigma_with_its_interval(tmp_path, ppe_main):
    rng, rows = np.random.default_rng(11), []
    for question in range(15):
        eta = -0.6 * np.arange(4) + 1.5 * rng.standard_normal(4)
        for wording in range(2):
            for i, j in zip(*np.triu_indices(4, 1), strict=True):
                won = rng.random() < 1 / (1 + np.exp(eta[j] - eta[i]))
                rows.append(("j", question, "c", wording, f"m{i}", f"m{j}", "ba"[int(won)]))
    path = write(tmp_path / "table.csv", rows)
    fit = fit_question_effects(comparison_graphs(read_verdicts(path)))
    report = ppe_main("rank", path, "--ranker", "question-effects", "--format", "json").json()
    assert report["fit"]["sigma"] == pytest.approx(fit.sigma, rel=1e-6)
    assert report["fit"]["sigma_low"] == pytest.approx(fit.sigma_low, rel=1e-3)
    scores = {row["model"]: row["score"] for row in report["models"]}
    assert scores == pytest.approx({f"m{k}": fit.theta[k] for k in range(4)}, abs=1e-6)
    text = ppe_main("rank", path, "--ranker", "question-effects", "--intervals", "40").out
    assert f"sigma {fit.sigma:.4f} logits (95 %: {fit.sigma_low:.4f} to {fit.sigma_high:.4f})" in text
    assert "rank_low" in text


def test_the_command_refuses_single_verdicts(tmp_path, ppe_main):
    path = write(tmp_path / "single.csv", [("j", q, "c", 0, "x", "y", "ab"[q % 3 == 0]) for q in range(9)])
    refused(ppe_main("rank", path, "--ranker", "question-effects"), "share a model")

"""Diagnostics across modules: from a verdict table to warnings."""

from itertools import combinations

import pandas as pd
import pytest

from ppe.inference.advice import diagnose_verdicts
from ppe.inference.diagnostics import DIAGNOSTICS, diagnose_fit, question_folds
from ppe.paper.simulated import simulate_pool
from ppe.pool import comparison_graphs
from ppe.streams import stream
from ppe.verdicts import validate_verdicts

SEED = 20260324


def simulated_graphs():
    return comparison_graphs(simulate_pool(judge="simulated-open", category="humanities", seed=SEED).verdicts)


def test_relabelling_models_and_shuffling_rows_change_nothing():
    graphs = simulated_graphs()
    folds = question_folds(graphs.blocks, rng=stream(SEED, "folds"))
    table = simulate_pool(judge="simulated-open", category="humanities", seed=SEED).verdicts
    names = {name: f"z{k}" for k, name in enumerate(reversed(graphs.models))}
    renamed = table.assign(**{c: table[c].astype(str).map(names) for c in ("model_a", "model_b")})
    other = comparison_graphs(validate_verdicts(renamed))
    one, two = (diagnose_fit(g, folds, n_bootstrap=0, rng=stream(SEED)) for g in (graphs, other))
    assert two.worst_pair == tuple(names[name] for name in one.worst_pair)
    for field in ("deviance", "max_residual", "hodge_ratio", "held_out_gap"):
        assert getattr(one, field) == pytest.approx(getattr(two, field), rel=1e-7)
    order = stream(SEED, "order").permutation(len(graphs))
    shuffled = diagnose_fit(graphs.subset(order), folds[order], n_bootstrap=0, rng=stream(SEED))
    assert shuffled.deviance == pytest.approx(one.deviance)
    assert shuffled.held_out_gap == pytest.approx(one.held_out_gap)


def test_the_bootstrap_is_reproducible_and_uses_its_generator_alone():
    graphs = simulated_graphs()
    folds = question_folds(graphs.blocks, rng=stream(SEED, "folds"))
    first, again, other = (
        diagnose_fit(graphs, folds, n_bootstrap=20, rng=stream(SEED, name)) for name in ("a", "a", "b")
    )
    assert first.bootstrap_p == again.bootstrap_p and first.null_means == again.null_means
    assert first.null_means != other.null_means and first.deviance == other.deviance


def level_field(n_models=6, n_questions=8):
    "Verdicts by tossing a coin: every model is as good as another, and HodgeRank finds a score in noise."
    rng, rows = stream(SEED, "coins"), []
    for q in range(n_questions):
        for i, j in combinations(range(n_models), 2):
            rows.append(("j", q, "any", 0, f"m{i}", f"m{j}", "ab"[rng.integers(2)]))
    names = ["judge", "question_id", "category", "variant", "model_a", "model_b", "verdict"]
    return validate_verdicts(pd.DataFrame(rows, columns=names))


def test_a_warning_is_printed_beside_how_often_chance_gives_it():
    found = diagnose_verdicts(level_field(), n_simulations=99)
    diagnosis = found.diagnosis
    assert diagnosis.warnings == ("hodge",) and diagnosis.bootstrap_p["hodge"] > 0.05
    rests_on, warned, meaning, *_ = found.sections()["misspecification"]
    assert rests_on == "from 8 graphs"
    assert warned == (
        "possible misspecification of Bradley–Terry by the paper's thresholds; "
        f"warnings: hodge (p = {diagnosis.bootstrap_p['hodge']:.3f})"
    )
    assert "99 data sets" in meaning and "below 0.05: none, so nothing that such a pool" in meaning
    report = found.report()["misspecification"]
    assert report["warnings"] == ("hodge",) and report["bootstrap_p"] == dict(diagnosis.bootstrap_p)
    assert list(report["bootstrap_p"]) == list(DIAGNOSTICS)
    table = found.table().set_index("name")["value"]
    assert table["bootstrap p of hodge"] == diagnosis.bootstrap_p["hodge"]


def test_a_circle_is_beyond_chance():
    "Rock, paper, scissors: the warnings stand, and every p-value says so."
    verdicts = [
        ("j", q, "any", 0, *pair, "a" if q < 18 else "b")
        for q in range(20)
        for pair in (("rock", "scissors"), ("scissors", "paper"), ("paper", "rock"))
    ]
    names = ["judge", "question_id", "category", "variant", "model_a", "model_b", "verdict"]
    table = validate_verdicts(pd.DataFrame(verdicts, columns=names))
    found = diagnose_verdicts(table, n_simulations=99)
    assert set(found.diagnosis.warnings) >= {"deviance", "residuals", "hodge"}
    assert "below 0.05: deviance, residuals, hodge" in found.sections()["misspecification"][2]

"""Diagnostics across modules: from a verdict table to warnings, invariances, and bad input."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from ppe.errors import InputError, NoMaximumError
from ppe.inference.advice import diagnose_verdicts
from ppe.inference.diagnostics import (
    DIAGNOSTICS,
    LABELS,
    bradley_terry_deviance,
    diagnose_fit,
    diagnostic_batch,
    fold_counts,
    question_folds,
    simulate_counts,
    standardised_residuals,
    tied_null,
)
from ppe.paper.simulated import simulate_pool
from ppe.pool import Pool, comparison_graphs, half_tie_wins, win_tie_counts
from ppe.rankers.bradley_terry import bradley_terry
from ppe.rankers.hodgerank import hodgerank
from ppe.streams import stream
from ppe.verdicts import validate_verdicts

SEED = 20260324


@pytest.fixture(scope="module")
def graphs():
    return comparison_graphs(simulate_pool(judge="simulated-open", category="humanities", seed=SEED).verdicts)


def folds_of(graphs, name="folds"):
    return question_folds(graphs.blocks, rng=stream(SEED, name))


def test_a_diagnosis_agrees_with_the_rankers_own_fit(graphs):
    rows = np.arange(0, len(graphs), 2)
    found = diagnose_fit(graphs, folds_of(graphs), rows=rows, n_bootstrap=0, rng=stream(SEED))
    wins, ties = win_tie_counts(graphs.adjacency[rows])
    theta = bradley_terry(wins, ties, method="best").scores
    assert found.deviance == pytest.approx(bradley_terry_deviance(half_tie_wins(wins, ties), theta), rel=1e-6)
    assert found.df == 190 - 19 and found.n_graphs == 25
    assert found.p_value == pytest.approx(chi2.sf(found.deviance, 171))
    assert found.hodge_ratio == pytest.approx(hodgerank(wins, ties).fit.estimates["cyclic_ratio"])
    assert found.label in LABELS and (found.label == "no strong") == (not found.warnings)


def test_relabelling_models_and_shuffling_rows_change_nothing(graphs):
    table = simulate_pool(judge="simulated-open", category="humanities", seed=SEED).verdicts
    names = {name: f"z{k}" for k, name in enumerate(reversed(graphs.models))}
    renamed = table.assign(**{c: table[c].astype(str).map(names) for c in ("model_a", "model_b")})
    other = comparison_graphs(validate_verdicts(renamed))
    one, two = (
        diagnose_fit(g, folds_of(graphs), n_bootstrap=0, rng=stream(SEED))
        for g in (graphs, other)
    )
    assert two.worst_pair == tuple(names[name] for name in one.worst_pair)
    for field in ("deviance", "max_residual", "hodge_ratio", "held_out_gap"):
        assert getattr(one, field) == pytest.approx(getattr(two, field), rel=1e-7)
    order = stream(SEED, "order").permutation(len(graphs))
    shuffled = diagnose_fit(graphs.subset(order), folds_of(graphs)[order], n_bootstrap=0, rng=stream(SEED))
    assert shuffled.deviance == pytest.approx(one.deviance)
    assert shuffled.held_out_gap == pytest.approx(one.held_out_gap)


def test_no_question_stands_on_both_sides_of_a_fold(graphs):
    folds = folds_of(graphs)
    for question in np.unique(graphs.blocks):
        assert len(set(folds[graphs.blocks == question])) == 1
    wins, ties = fold_counts(graphs.adjacency, folds)
    assert ((wins + ties / 2).sum(axis=(1, 2)) == 10 * 190).all()


def test_the_bootstrap_is_reproducible_and_uses_its_generator_alone(graphs):
    first, again, other = (
        diagnose_fit(graphs, folds_of(graphs), n_bootstrap=20, rng=stream(SEED, name))
        for name in ("a", "a", "b")
    )
    assert first.bootstrap_p == again.bootstrap_p and first.null_means == again.null_means
    assert first.null_means != other.null_means and first.deviance == other.deviance


def test_the_null_has_chi_squared_deviance_without_ties_and_less_with_them():
    complete = np.broadcast_to(200 * (np.ones((8, 8)) - np.eye(8)), (2, 8, 8))
    theta, mean = np.linspace(1, -1, 8), {}
    for nu in (0.0, 1.0):
        drawn = simulate_counts(
            tied_null(theta, nu=nu), complete, n_replicates=2000, rng=stream(SEED, "null")
        )
        batch = diagnostic_batch(*drawn)
        mean[nu] = batch.deviance.mean() / batch.df
        rejected = (batch.p_value < 0.05).mean()
        assert 0.035 < rejected < 0.065 if nu == 0 else rejected < 0.001
    assert mean[0.0] == pytest.approx(1, abs=0.03)
    assert mean[1.0] == pytest.approx(tied_null(theta, nu=1.0).dispersion, abs=0.03)


def test_separated_graphs_are_refused_or_flagged():
    order = np.triu(np.ones((10, 4, 4), dtype=bool), 1)
    folds = question_folds(np.arange(10), rng=stream(SEED))
    with pytest.raises(NoMaximumError) as caught:
        diagnose_fit(Pool.of(order, models=list("abcd")), folds, n_bootstrap=0, rng=stream(SEED))
    assert caught.value.above == ("a",)
    found = diagnose_fit(Pool.of(order), folds, n_bootstrap=9, rng=stream(SEED), on_separation="ridge")
    assert found.ridge and found.ridge_folds == 5 and np.isfinite([found.deviance, found.held_out_gap]).all()


@pytest.mark.parametrize(("questions", "n_folds"), [(np.arange(4), 5), (np.zeros(9), 2), (np.arange(9), 1)])
def test_folds_that_cannot_be_dealt_are_refused(questions, n_folds):
    with pytest.raises(InputError, match="folds"):
        question_folds(questions, n_folds=n_folds, rng=stream(SEED))


def test_a_tree_of_comparisons_leaves_nothing_to_test():
    wins = np.array([[0.0, 2, 0], [2, 0, 2], [0, 2, 0]])
    with pytest.raises(InputError, match="0 degrees of freedom"):
        diagnostic_batch(np.stack([wins, wins])[None], np.zeros((1, 2, 3, 3)))


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
    diagnosis = found.advice.diagnosis
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
    assert set(found.advice.diagnosis.warnings) >= {"deviance", "residuals", "hodge"}
    assert "below 0.05: deviance, residuals, hodge" in found.sections()["misspecification"][2]


def test_a_certain_pair_has_no_residual_that_is_no_number():
    "Strengths so far apart that 1 - p rounds to 0 gave 0/0, and no warning."
    half = np.array([[0.0, 5, 5], [0, 0, 3], [0, 2, 0]])
    residuals = standardised_residuals(half, np.array([60.0, 0.1, -0.1]))
    assert np.isfinite(residuals).all() and np.allclose(residuals[0], 0)

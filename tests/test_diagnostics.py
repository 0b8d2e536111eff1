"""Diagnostics across modules: from a verdict table to warnings, each beside how often chance gives it."""

from itertools import combinations

from drawn import frame

from ppe.inference.advice import diagnose_verdicts
from ppe.inference.diagnostics import DIAGNOSTICS
from ppe.streams import stream


def test_a_warning_is_printed_beside_how_often_chance_gives_it():
    "Verdicts by tossing a coin: every model is as good as another, and HodgeRank finds a score in noise."
    rng, pairs = stream(20260324, "coins"), list(combinations(["m0", "m1", "m2", "m3", "m4", "m5"], 2))
    found = diagnose_verdicts(
        frame([("j", q, "any", 0, *pair, "ab"[rng.integers(2)]) for q in range(8) for pair in pairs]), n_simulations=99
    )
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
    assert found.table().set_index("name")["value"]["bootstrap p of hodge"] == diagnosis.bootstrap_p["hodge"]


def test_a_circle_is_beyond_chance():
    "Rock, paper, scissors: the warnings stand, and every p-value says so."
    circle = (("rock", "scissors"), ("scissors", "paper"), ("paper", "rock"))
    rows = [("j", q, "any", 0, *pair, "a" if q < 18 else "b") for q in range(20) for pair in circle]
    found = diagnose_verdicts(frame(rows), n_simulations=99)
    assert set(found.diagnosis.warnings) >= {"deviance", "residuals", "hodge"}
    assert "below 0.05: deviance, residuals, hodge" in found.sections()["misspecification"][2]

"""`ppe.inference.variance_components` against textbook mean squares, exact expectations, refits and planted effects."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ppe.comparisons import Comparisons
from ppe.errors import InputError, NoMaximumError
from ppe.inference.component_estimates import component_limits, component_matrices, limits_over, turned_share
from ppe.inference.study_cells import Cells, facet_levels, verdict_cells
from ppe.inference.variance_components import generalizability, purchase_sentence, variance_components
from ppe.random_streams import replicate_streams, stream
from ppe.rankers.likelihood import Design, maximise
from ppe.sources.datasets import load_verdicts

SEED = 20260324


@pytest.fixture(scope="module")
def prd() -> Comparisons:
    return Comparisons.of(load_verdicts("prd-judges"))


@pytest.fixture(scope="module")
def mt_bench() -> Comparisons:
    return Comparisons.of(load_verdicts("mt-bench-gpt4"))


def grid_cells(rng: np.random.Generator, numbers: dict[str, int], *, n: int = 4, lost: float = 0.0) -> Cells:
    "Cells of pure noise, some of them lost, the others of uneven weight."
    grid = np.stack(np.meshgrid(*map(np.arange, numbers.values()), indexing="ij"), axis=-1).reshape(-1, len(numbers))
    grid = grid[rng.random(len(grid)) >= lost]
    weights = rng.integers(1, 6, len(grid)) / 1.0 if lost else np.ones(len(grid))
    weights /= weights.sum()
    deviations = rng.standard_normal((len(grid), n))
    deviations -= deviations.mean(axis=1, keepdims=True)
    facets = dict(zip(numbers, grid.T, strict=True))
    return Cells(tuple("abcdefgh"[:n]), np.linspace(-1, 1, n), deviations - weights @ deviations, weights, facets)


@pytest.mark.parametrize("shared", [True, False])
def test_uneven_cells_are_estimated_without_bias(shared):
    "Summed over unit effects of every level of one set, the estimates are their expectation: 1 there, 0 elsewhere."
    cells = grid_cells(stream(SEED, "uneven"), {"question": 9, "judge": 4, "wording": 3}, lost=0.3)
    levels = facet_levels(cells, shared=shared, rng=stream(SEED))[0]
    assert len(levels) == (7 if shared else 5)
    for at, code in enumerate(levels.values()):
        effects = np.eye(code.max() + 1)[code]
        matrices, _ = component_matrices(effects - cells.weights @ effects, cells.weights, levels, list(levels))
        assert np.allclose(np.trace(matrices, axis1=1, axis2=2), np.arange(len(levels)) == at)


@pytest.mark.parametrize("ties", [False, True])
def test_influence_is_the_derivative_of_the_scores(mt_bench, ties):
    cells = verdict_cells(mt_bench, tie_parameter=ties)
    counts, step = mt_bench.counts(mt_bench.graph), 1e-4
    met = counts.sum(axis=(0, 1)) > 0
    first, second = np.nonzero(met)
    outcomes = [counts.sum(axis=1)[:, met] + sign * step * counts[:, 17][:, met] for sign in (1, -1)]
    fit = maximise(Design.of(first, second, mt_bench.models), np.array(outcomes), tie_parameter=ties)
    derivative = (fit.strengths[0] - fit.strengths[1]) / (2 * step)
    assert np.allclose(derivative, cells.deviations[17] * cells.weights[17], rtol=1e-4, atol=1e-9)


def test_nothing_depends_on_names_and_the_order_of_rows(prd):
    one = variance_components(prd, rng=stream(SEED)).to_frame()
    turned = np.array([3, 0, 4, 1, 2])
    names = tuple(np.array(prd.models)[np.argsort(turned)])
    other = replace(prd, first=turned[prd.first], second=turned[prd.second], models=names)
    mixed = other.take(stream(SEED, "rows").permutation(len(prd)))
    for rows in (other, mixed):
        table = variance_components(rows, rng=stream(SEED)).to_frame()
        assert np.allclose(one.iloc[:, 1:].astype(float), table.iloc[:, 1:].astype(float), rtol=1e-6, equal_nan=True)


def test_limits_hold_planted_components():
    planted, numbers, inside = {"question": 1.0, "judge": 0.2}, {"question": 30, "judge": 5}, []
    for rng in replicate_streams(SEED, "planted", n=60):
        cells = grid_cells(rng, numbers, n=6)
        effects = cells.deviations.copy()  # the rest: variance 1
        for name, variance in planted.items():
            drawn_levels = rng.standard_normal((numbers[name], 6)) * np.sqrt(variance)
            effects += (drawn_levels - drawn_levels.mean(axis=1, keepdims=True))[cells.facets[name]]
        study = generalizability(cells._replace(deviations=effects - effects.mean(axis=0)), rng=rng)
        low, high = component_limits(study)
        truth = np.array([1.0, 0.2, 1.0]) * 5 / 6
        inside.append((low <= truth) & (truth <= high))
    assert (np.mean(inside, axis=0) >= 0.9).all()


def test_crossed_and_nested_are_told_apart(prd, mt_bench):
    turns = variance_components(mt_bench, variant="turn", rng=stream(SEED))
    assert turns.nested == () and turns.tested["turn"] == 1 / 500
    orders = variance_components(prd, rng=stream(SEED))
    assert orders.nested == ("order",) and ("order",) not in orders.names


def test_judges_of_their_own_are_nested_and_one_to_a_question_is_no_facet():
    cells = grid_cells(stream(SEED, "own judges"), {"question": 12, "judge": 3})
    question, judge = cells.facets.values()

    def study(question, judge):
        return generalizability(cells._replace(facets={"question": question, "judge": judge}), rng=stream(SEED))

    nested = study(question, 3 * question + judge)
    assert nested.names == (("question",), ("question", "judge")) and nested.levels == {"question": 12, "judge": 3}
    assert study(3 * question + judge, 3 * question + judge).names == (("question",),)
    assert study(question, question // 4).names == (("question",), ("judge",))  # each question has one judge of three


def test_forecasts(prd, mt_bench):
    study = variance_components(prd, rng=stream(SEED))
    assert study.deviation({"order": 1}) > study.deviation()
    assert study.deviation({"order": 4}) == study.deviation()  # there are two
    parts = [study.deviation(over=[name]) for name in ("question", "judge")]
    assert max(parts) < study.deviation() < np.hypot(*parts)  # questions and judges share an interaction
    assert study.deviation(scale="matched") < 0.5 * study.deviation()
    one_judge = variance_components(mt_bench, variant="turn", rng=stream(SEED))
    assert np.isclose(one_judge.deviation({"question": 320}) / one_judge.deviation(), 0.5)
    narrow, wide = limits_over(study, ["question"]), limits_over(study)
    assert (wide[0] < narrow[0]).all() and (wide[1] > narrow[1]).all()
    assert np.isclose(turned_share(study, np.zeros((5, 5))), 0) and turned_share(study, 1e6 * np.eye(5)) > 0.49


def test_what_it_says(prd, mt_bench):
    study = variance_components(prd, rng=stream(SEED))
    four_times = "Four times the questions would narrow the intervals by about 7 %; another judge by "
    assert purchase_sentence(study).startswith(four_times)
    table, said = study.to_frame(), json.loads(json.dumps(study.to_dict(), allow_nan=False))
    assert np.isclose(table["share"].sum(), 1) and (table["variance"] == table["raw"].clip(lower=0)).all()
    assert [row["component"] for row in said["components"]] == table["component"].tolist()
    assert "another judge" in said["matched"]["gains"] and said["nested"] == ["order"]
    assert any("times that over questions alone" in note for note in study.notes())
    one = variance_components(mt_bench, rng=stream(SEED))
    assert one.notes()[0].startswith("One judge") and any(note.startswith("2 wordings") for note in one.notes())
    assert one.to_dict()["components"][1]["low"] is None


def test_what_is_refused(prd):
    with pytest.raises(NoMaximumError):
        variance_components(prd.take((prd.outcome == 0) & (prd.first < prd.second)), rng=stream(SEED))
    apart = grid_cells(stream(SEED, "apart"), {"question": 6, "judge": 2})
    question, judge = apart.facets.values()
    keep = (judge == question % 2) | ((question == 0) & (judge == 1))
    facets = {"question": question[keep], "judge": judge[keep]}
    two = apart._replace(deviations=apart.deviations[keep], weights=apart.weights[keep], facets=facets)
    with pytest.raises(InputError, match="question, judge cannot be separated"):  # but for question 0 they could not
        generalizability(two, rng=stream(SEED))

"""Simulated pools: the same cells however asked for, verdicts at the stated probabilities, honest names."""

import dataclasses
import hashlib

import numpy as np
import pandas as pd
import pytest

from ppe.paper.datasets import arena_reference
from ppe.paper.simulated import KINDS, load_parameters, simulate, simulate_pool
from ppe.pool import comparison_graphs
from ppe.verdicts import COLUMNS, select_verdicts, validate_verdicts

SEED = 20260324


@pytest.fixture(scope="module", params=KINDS)
def pools(request):
    return simulate(seed=SEED, kind=request.param)


def same(verdicts: pd.DataFrame, others: pd.DataFrame) -> bool:
    "All cells and column types alike; text for categories, whose codes depend on what else is in the table."
    text = dict.fromkeys(("judge", "category", "model_a", "model_b", "verdict"), str)
    return verdicts.astype(text).equals(others.astype(text)) and list(verdicts.columns) == list(others.columns)


def test_the_table_has_the_shape_of_the_paper(pools):
    verdicts = pools.verdicts
    assert len(verdicts) == 2 * 8 * 10 * 5 * 190
    assert same(validate_verdicts(verdicts), verdicts)
    assert tuple(verdicts.columns) == COLUMNS and set(verdicts.verdict) == {"a", "b", "tie"}
    assert all("simulated" in judge for judge in verdicts.judge.unique())
    graphs = comparison_graphs(verdicts)
    assert (len(graphs), graphs.n_models, graphs.n_dropped) == (800, 20, 0)
    assert graphs.models == tuple(sorted(arena_reference().model.unique()))
    assert (graphs.index.groupby("question_id").category.nunique() == 1).all()
    assert set(graphs.index.variant) == {1, 2, 3, 4, 5} and graphs.index.question_id.nunique() == 80


def test_the_truth_lines_up_with_the_table(pools):
    # A judge who never errs leaves no doubt about which graph and pair each utility belongs to.
    parameters = load_parameters()
    judges = tuple(dataclasses.replace(judge, sharpness=1000.0, nu=0, nu_replicated=0) for judge in parameters.judges)
    exact = dataclasses.replace(parameters, judges=judges)
    sure = simulate(seed=SEED, kind=pools.kind, categories=["math", "stem"], parameters=exact)
    graphs = comparison_graphs(sure.verdicts)
    for (judge, category), truth in sure.truths.items():
        rows = np.flatnonzero((graphs.index.judge == judge) & (graphs.index.category == category))
        eta = truth.utility.reshape(50, 20)
        assert (graphs.adjacency[rows] == (eta[:, :, None] > eta[:, None, :])).mean() > 0.999
        assert truth.models == graphs.models


def test_a_cell_is_the_same_in_any_subset_and_order(pools):
    cells = list(pools.truths)
    some = dict(judges=["simulated-open", "simulated-strong"], categories=("writing", "coding"))
    asked = simulate(seed=SEED, kind=pools.kind, **some)
    for judge, category in asked.truths:
        whole = select_verdicts(pools.verdicts, judge=judge, category=category)
        assert same(select_verdicts(asked.verdicts, judge=judge, category=category), whole)
        alone = simulate_pool(judge=judge, category=category, kind=pools.kind, seed=SEED)
        assert same(alone.verdicts, whole)
        assert np.array_equal(alone.truth.utility, pools.truths[judge, category].utility)
    judges, categories = zip(*reversed(cells), strict=True)
    turned = simulate(seed=SEED, kind=pools.kind, judges=judges, categories=categories)
    assert same(turned.verdicts, pools.verdicts)


@pytest.mark.parametrize("kind", KINDS)
def test_few_variants_are_the_first_of_many(kind):
    of = {n: dataclasses.replace(load_parameters(), n_variants=n) for n in (2, 5)}
    two, five = (simulate(seed=1, kind=kind, parameters=parameters).verdicts for parameters in of.values())
    assert same(two, five.query("variant <= 2").reset_index(drop=True))


def test_the_published_tables_are_pinned():
    found = {}
    for kind in KINDS:
        text = simulate(seed=SEED, kind=kind).verdicts.to_csv(index=False, lineterminator="\n")
        found[kind] = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert found == {"perturbed": "05adcc6a47f34f65", "replicated": "d5e0567fe48f473c"}

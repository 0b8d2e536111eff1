"""Simulated pools: the same cells however asked for, verdicts at the stated probabilities, honest names."""

import dataclasses
import hashlib
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from ppe.errors import InputError
from ppe.files import data_file
from ppe.paper.datasets import arena_reference
from ppe.paper.simulated import (
    KINDS,
    SimulatedJudge,
    arena_strengths,
    load_parameters,
    outcome_probabilities,
    simulate,
    simulate_pool,
)
from ppe.pool import comparison_graphs, tie_rates
from ppe.verdicts import COLUMNS, select_verdicts, validate_verdicts

SEED = 20260324
TOML = data_file("simulated.toml")


@pytest.fixture(scope="module")
def parameters():
    return load_parameters()


@pytest.fixture(scope="module", params=KINDS)
def pools(request):
    return simulate(seed=SEED, kind=request.param)


def plain(verdicts: pd.DataFrame) -> pd.DataFrame:
    "Text instead of categories, whose codes depend on what else is in the table."
    return verdicts.astype(dict.fromkeys(("judge", "category", "model_a", "model_b", "verdict"), str))


def same(verdicts: pd.DataFrame, others: pd.DataFrame) -> bool:
    "All cells and column types alike; much faster than pandas' own assertion on long text columns."
    return plain(verdicts).equals(plain(others)) and list(verdicts.columns) == list(others.columns)


def digest(verdicts: pd.DataFrame) -> str:
    return hashlib.sha256(verdicts.to_csv(index=False, lineterminator="\n").encode()).hexdigest()


def pair_fractions(truth, i: int, k: int) -> np.ndarray:
    "Win, tie and loss of model i against k in every graph, (3, Q, V): Davidson's fractions, as printed."
    x, y = np.exp(truth.utility[..., i]), np.exp(truth.utility[..., k])
    tie = truth.nu * np.sqrt(x) * np.sqrt(y)
    return np.stack([x, tie, y]) / (x + y + tie)


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
    judges = tuple(
        dataclasses.replace(judge, sharpness=1000.0, nu=0, nu_replicated=0) for judge in parameters.judges
    )
    exact = dataclasses.replace(parameters, judges=judges)
    sure = simulate(seed=SEED, kind=pools.kind, categories=["math", "stem"], parameters=exact)
    graphs = comparison_graphs(sure.verdicts)
    for (judge, category), truth in sure.truths.items():
        rows = np.flatnonzero((graphs.index.judge == judge) & (graphs.index.category == category))
        eta = truth.utility.reshape(50, 20)
        assert (graphs.adjacency[rows] == (eta[:, :, None] > eta[:, None, :])).mean() > 0.999
        assert truth.models == graphs.models


def test_strengths_are_arena_ratings_in_logits():
    models, theta = arena_strengths("coding")
    rating = arena_reference().query("category == 'coding'").set_index("model").rating[list(models)]
    odds = 10 ** (np.subtract.outer(rating.to_numpy(), rating.to_numpy()) / 400)
    assert np.allclose(np.exp(np.subtract.outer(theta, theta)), odds)
    assert abs(theta.sum()) < 1e-9


def test_judges_read_the_same_answers_and_kinds_share_the_original_wording(parameters):
    perturbed, replicated = (simulate(seed=SEED, kind=kind, categories="stem").truths for kind in KINDS)
    strong, open_ = (judge.name for judge in parameters.judges)
    sharpness = {judge.name: judge.sharpness for judge in parameters.judges}

    def answers(truths, judge):
        truth = truths[judge, "stem"]
        worth = truth.discrimination[..., None] * (truth.strength + truth.bias)
        return truth.utility / sharpness[judge] - worth

    assert np.allclose(answers(perturbed, strong), answers(perturbed, open_))
    assert np.allclose(answers(replicated, strong), answers(replicated, open_))
    assert not np.allclose(perturbed[strong, "stem"].bias, perturbed[open_, "stem"].bias)
    same = replicated[strong, "stem"].discrimination
    assert np.allclose(same, perturbed[strong, "stem"].discrimination[:, :1]) and same.shape == (10, 5)


def test_replicates_without_sampling_effects_are_the_original_wording(parameters):
    calm = dataclasses.replace(parameters, response_points=0.0, decoding_points=0.0)
    cell = dict(judge="simulated-open", category="stem", seed=SEED)
    original = simulate_pool(**cell).truth.utility[:, :1]
    assert np.allclose(simulate_pool(**cell, kind="replicated", parameters=calm).truth.utility, original)
    sampled = dataclasses.replace(calm, response_points=40.0)
    utility = simulate_pool(**cell, kind="replicated", parameters=sampled).truth.utility
    assert utility.std(axis=1).min() > 0


def test_effects_have_the_stated_spread(parameters):
    wide = dataclasses.replace(parameters, n_questions=400)
    pool = simulate_pool(judge="simulated-open", category="coding", seed=3, parameters=wide)
    truth, judge, logit = pool.truth, parameters.judges[1], np.log(10) / 400
    log_a = np.log(truth.discrimination)
    assert np.isclose(log_a.var(axis=1, ddof=1).mean() ** 0.5, parameters.wording_sd, rtol=0.05)
    total = parameters.question_sd**2 + parameters.wording_sd**2
    assert np.isclose(log_a[:, 0].std(), total**0.5, rtol=0.1)
    worth = truth.discrimination[..., None] * (truth.strength + truth.bias)
    answers = truth.utility / judge.sharpness - worth
    assert np.isclose(answers.var(axis=1, ddof=1).mean() ** 0.5, parameters.wording_points * logit, rtol=0.03)
    total = parameters.question_points**2 + parameters.wording_points**2
    assert np.isclose(answers[:, 0].std(), total**0.5 * logit, rtol=0.03)


def test_bias_has_the_stated_spread_and_share_in_common(parameters):
    small = dataclasses.replace(parameters, n_questions=1, n_variants=1)
    bias = {judge.name: [] for judge in parameters.judges}
    for seed in range(60):
        for (judge, _), truth in simulate(seed=seed, categories="writing", parameters=small).truths.items():
            bias[judge].append(truth.bias)
    strong, open_ = (np.concatenate(bias[judge.name]) for judge in parameters.judges)
    factor = {category.name: category.bias_factor for category in parameters.categories}["writing"]
    for judge, values in zip(parameters.judges, (strong, open_), strict=True):
        assert np.isclose(values.std(), judge.bias_points * factor * np.log(10) / 400, rtol=0.1)
    assert abs(np.corrcoef(strong, open_)[0, 1] - parameters.bias_shared) < 0.1


def test_a_cell_is_the_same_in_any_subset_and_order(pools):
    cells = list(pools.truths)
    asked = simulate(
        seed=SEED,
        kind=pools.kind,
        judges=["simulated-open", "simulated-strong"],
        categories=("writing", "coding"),
    )
    for judge, category in asked.truths:
        whole = select_verdicts(pools.verdicts, judge=judge, category=category)
        assert same(select_verdicts(asked.verdicts, judge=judge, category=category), whole)
        alone = simulate_pool(judge=judge, category=category, kind=pools.kind, seed=SEED)
        assert same(alone.verdicts, whole)
        assert np.array_equal(alone.truth.utility, pools.truths[judge, category].utility)
    turned = simulate(
        seed=SEED,
        kind=pools.kind,
        judges=[judge for judge, _ in reversed(cells)],
        categories=[category for _, category in reversed(cells)],
    )
    assert same(turned.verdicts, pools.verdicts)


@pytest.mark.parametrize("kind", KINDS)
def test_few_variants_are_the_first_of_many(parameters, kind):
    two, five = (
        simulate(seed=1, kind=kind, parameters=dataclasses.replace(parameters, n_variants=n)).verdicts
        for n in (2, 5)
    )
    assert same(two, five.query("variant <= 2").reset_index(drop=True))


def test_seed_kind_judge_and_category_each_change_the_draws():
    base = dict(judge="simulated-strong", category="math", kind="perturbed", seed=SEED)
    shown = {}
    changes = ({}, {"seed": 1}, {"kind": "replicated"}, {"judge": "simulated-open"}, {"category": "stem"})
    for change in changes:
        verdicts = simulate_pool(**(base | change)).verdicts
        shown[str(change)] = tuple(verdicts.model_a.astype(str))
    assert len(set(shown.values())) == 5


def test_the_published_tables_are_pinned():
    found = {kind: digest(simulate(seed=SEED, kind=kind).verdicts)[:16] for kind in KINDS}
    assert found == {"perturbed": "05adcc6a47f34f65", "replicated": "d5e0567fe48f473c"}


def test_a_pool_travels_to_another_process():
    pool = simulate_pool(judge="simulated-strong", category="math", seed=SEED)
    copy = pickle.loads(pickle.dumps(pool))
    assert same(copy.verdicts, pool.verdicts)
    assert np.array_equal(copy.truth.utility, pool.truth.utility)


@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_are_as_frequent_as_davidson_says(parameters, kind):
    large = dataclasses.replace(parameters, n_questions=2, n_variants=500)
    pool = simulate_pool(
        judge="simulated-open", category="humanities", kind=kind, seed=SEED, parameters=large
    )
    A = comparison_graphs(pool.verdicts).adjacency.reshape(2, 500, 20, 20)
    statistic, cells = 0.0, 0
    for q in range(2):
        for i in range(20):
            for k in range(i + 1, 20):
                forward, backward = A[q, :, i, k], A[q, :, k, i]
                seen = np.array([(forward & ~backward).sum(), (forward & backward).sum()])
                p = pair_fractions(pool.truth, i, k)[:, q]
                # Independent verdicts of unequal probability: the first two counts have this covariance.
                covariance = np.diag(p[:2].sum(axis=1)) - p[:2] @ p[:2].T
                if p.sum(axis=1).min() > 10:
                    excess = seen - p[:2].sum(axis=1)
                    statistic, cells = statistic + excess @ np.linalg.solve(covariance, excess), cells + 1
    assert cells > 100
    assert chi2.ppf(1e-4, 2 * cells) < statistic < chi2.ppf(1 - 1e-4, 2 * cells)


def test_outcome_probabilities_are_davidsons():
    truth = simulate_pool(judge="simulated-strong", category="math", seed=SEED).truth
    win, tie = outcome_probabilities(truth)
    assert win.shape == tie.shape == (10, 5, 190)
    for at, (i, k) in enumerate(zip(*np.triu_indices(20, 1), strict=True)):
        assert np.allclose([win[..., at], tie[..., at]], pair_fractions(truth, i, k)[:2], atol=1e-12)


def test_presentation_order_is_a_fair_coin_without_effect(pools):
    verdicts, n = pools.verdicts, len(pools.verdicts)
    earlier_name_first = (verdicts.model_a.astype(str) < verdicts.model_b.astype(str)).sum()
    assert abs(earlier_name_first - n / 2) < 4 * np.sqrt(n / 4)
    decided = verdicts.verdict[verdicts.verdict != "tie"]
    assert abs((decided == "a").sum() - len(decided) / 2) < 4 * np.sqrt(len(decided) / 4)


def test_a_larger_tie_parameter_only_adds_ties(parameters):
    ties = []
    for nu in (0.0, 0.2, 1.0, 5.0):
        judge = dataclasses.replace(parameters.judges[0], nu=nu)
        verdicts = simulate(
            seed=SEED, categories="math", parameters=dataclasses.replace(parameters, judges=(judge,))
        ).verdicts
        ties.append((verdicts.verdict == "tie").to_numpy())
    assert ties[0].sum() == 0
    for fewer, more in zip(ties, ties[1:], strict=False):
        assert fewer.sum() < more.sum() and not (fewer & ~more).any()


def test_a_stronger_model_wins_more(parameters):
    # Without bias and effects the expected number of wins follows the strengths.
    still = dict.fromkeys(("question_points", "wording_points", "question_sd", "wording_sd"), 0.0)
    judge = dataclasses.replace(parameters.judges[0], bias_points=0.0)
    fair = dataclasses.replace(parameters, **still, n_variants=200, judges=(judge,))
    pool = simulate_pool(judge=judge.name, category="math", seed=SEED, parameters=fair)
    beaten = comparison_graphs(pool.verdicts).adjacency.mean(axis=0).sum(axis=1)
    by_strength = np.argsort(pool.truth.strength)
    gaps = np.diff(pool.truth.strength[by_strength]) > 0.02
    assert gaps.sum() > 10 and (np.diff(beaten[by_strength])[gaps] > 0).all()
    assert (pool.truth.discrimination == 1).all() and (pool.truth.bias == 0).all()


def test_draws_are_rarer_in_the_replicated_pool():
    rates = {}
    for kind in KINDS:
        graphs = comparison_graphs(simulate(seed=SEED, kind=kind).verdicts)
        rates[kind] = pd.Series(tie_rates(graphs.adjacency)).groupby(graphs.index.judge, observed=True).mean()
    assert rates["replicated"]["simulated-strong"] < 0.03
    assert (rates["replicated"] < rates["perturbed"]).all() and rates["perturbed"].between(0.13, 0.25).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("n_questions = 10", "n_questions = 0", "n_questions is 0.*whole number from 1"),
        ("n_questions = 10", "n_questions = true", "n_questions is True"),
        ("n_variants = 5", "n_variants = 5.0", "n_variants is 5.0.*whole"),
        ("nu = 1.2", "nu = -0.1", "judge simulated-strong: nu is -0.1"),
        ("nu = 1.2", "nu = inf", "nu is inf"),
        ("nu = 1.2", "", r"\[\[judges\]\] lacks nu:"),
        ("shared = 0.5", "shared = 1.5", "bias_shared is 1.5.*from 0 to 1"),
        ("shared = 0.5", "shared = nan", "bias_shared is nan"),
        ("math = 0.6", 'math = "low"', "category math: bias_factor is 'low'"),
        ("wording_sd = 0.15", "wording_std = 0.15", "lacks wording_sd and has the unknown key wording_std"),
        ('name = "simulated-strong"', 'name = "gpt-5"', "'gpt-5' does not say that it is simulated"),
        ('name = "simulated-strong"', "name = 5", "judge name 5 does not say"),
        ('name = "simulated-open"', 'name = "simulated-strong"', "judge simulated-strong occurs twice"),
        ("[pool]", "[pools]", "lacks pool and has the unknown key pools"),
        ("[pool]", "[pool", "not TOML"),
    ],
)
def test_nonsense_in_the_parameter_file_is_refused(tmp_path: Path, old: str, new: str, message: str):
    text = TOML.read_text()
    assert text.count(f"\n{old}\n") == 1
    path = tmp_path / "wrong.toml"
    path.write_text(text.replace(f"\n{old}\n", f"\n{new}\n"))
    with pytest.raises(InputError, match=rf"wrong\.toml.*{message}"):
        load_parameters(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "lacks pool, responses, discrimination, bias, judges"),
        (b"pool = 3\nresponses = 1\ndiscrimination = 1\nbias = 1\njudges = 1", r"\[bias\] is 1: a table"),
        (b"\xff", "not TOML"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path: Path, content: bytes, message: str):
    (tmp_path / "wrong.toml").write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_parameters(tmp_path / "wrong.toml")
    with pytest.raises(InputError, match=r"cannot read .*absent\.toml"):
        load_parameters(tmp_path / "absent.toml")


def test_parameters_made_in_code_are_checked_too(parameters):
    with pytest.raises(InputError, match="there is no judge"):
        dataclasses.replace(parameters, judges=())
    with pytest.raises(InputError, match="there is no category"):
        dataclasses.replace(parameters, categories=())
    with pytest.raises(InputError, match="category math occurs twice"):
        dataclasses.replace(parameters, categories=[c for c in parameters.categories if c.name == "math"] * 2)
    with pytest.raises(InputError, match="sharpness is -1"):
        SimulatedJudge("simulated", sharpness=-1, bias_points=0, nu=0, nu_replicated=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(kind="sampled"), "unknown kind 'sampled'.*perturbed, replicated"),
        (dict(judges="GPT-5"), "unknown judge GPT-5: .*simulated-strong, simulated-open"),
        (dict(judges=["simulated-open", "Prometheus"]), "unknown judge Prometheus"),
        (dict(categories=("math", "poetry")), "unknown category poetry"),
        (dict(categories=[]), "no category was asked for"),
        (dict(seed=-1), "seed -1"),
    ],
)
def test_unknown_cells_are_refused(wrong: dict, message: str):
    with pytest.raises(InputError, match=message):
        simulate(**({"seed": SEED} | wrong))
    with pytest.raises(InputError, match="unknown category"):
        arena_strengths("poetry")

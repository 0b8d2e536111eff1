"""Every valid verdict counts; only what compares cycle scores asks for complete graphs, and says what it loses."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from conftest import refused

from ppe.comparisons import Comparisons
from ppe.inference.graph_selection import Method
from ppe.inference.invalid_verdicts import invalid_verdicts, uneven_notes
from ppe.inference.leaderboard import leaderboard
from ppe.rankers.registry import rank_counts
from ppe.verdicts import COLUMNS, validate_verdicts, write_verdicts

N = 6
MODELS = tuple("abcdef")
PAIRS = list(combinations(range(N), 2))
THETA = np.linspace(1.0, -1.0, N)
SIGMA, NU = 0.7, 0.4


def chances(u):
    "Davidson: first wins, second wins, tie."
    won, lost = np.exp(u / 2), np.exp(-u / 2)
    return np.stack([won, lost, np.full_like(u, NU)]) / (won + lost + NU)


def spread(n_questions: int, per_question: int, seed: int) -> pd.DataFrame:
    "A few pairs on each question, every pair equally often; strengths move with the question."
    rng = np.random.default_rng(seed)
    deck, rows = [], []
    for question in range(n_questions):
        effects = THETA + rng.normal(0, SIGMA, N)
        taken: list[int] = []
        while len(taken) < per_question:
            deck = deck or rng.permutation(len(PAIRS)).tolist()
            taken.append(deck.pop())
        for pair in dict.fromkeys(taken):
            i, j = PAIRS[pair][:: rng.choice([1, -1])]
            verdict = rng.choice(["a", "b", "tie"], p=chances(np.array(effects[i] - effects[j])))
            rows.append(("judge", question, "all", 0, MODELS[i], MODELS[j], verdict))
    return validate_verdicts(pd.DataFrame(rows, columns=list(COLUMNS)))


def marginal_scores() -> np.ndarray:
    "Bradley–Terry scores of all questions there could be, by Gauss–Hermite integration over their effects."
    x, weight = np.polynomial.hermite_e.hermegauss(60)
    wins = np.zeros((N, N))
    for i in range(N):
        for j in set(range(N)) - {i}:
            won, _, tie = chances(THETA[i] - THETA[j] + np.sqrt(2) * SIGMA * x)
            wins[i, j] = (won + tie / 2) @ weight / weight.sum()
    return rank_counts(wins, np.zeros((N, N)), models=MODELS).scores


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_verdicts(spread(80, 3, seed=1), tmp_path_factory.mktemp("spread") / "verdicts.csv")


# ---- the three commands, as a newcomer gives them


@pytest.mark.parametrize(
    "options", [(), ("--intervals", "100"), ("--order-effect",), ("--ranker", "davidson"), ("--ranker", "hodgerank")]
)
def test_rank_takes_a_spread_design_by_default(ppe_main, file, options):
    done = ppe_main("rank", file, *options)
    assert done.code == 0 and "240 verdicts on 80 questions, none invalid" in done.out
    assert done.err == "" or (done.err.count("\n") == 1 and "hodgerank" in done.err), "no note: nothing is wrong"


def test_all_verdicts_count(ppe_main, file):
    by_default = ppe_main("rank", file, "--format", "json").json()
    assert by_default == ppe_main("rank", file, "--incomplete", "keep", "--format", "json").json()
    assert (by_default["n_verdicts"], by_default["n_questions"], by_default["n_invalid"]) == (240, 80, 0)


@pytest.mark.parametrize(
    "options",
    [("--select", "global", "--keep", "9"), ("--select", "block", "--keep", "1")],
)
def test_what_needs_cycle_scores_says_so_in_one_line(ppe_main, file, options):
    said = "needs complete graphs", "the fullest with 3 of 15 pairs", "rank every verdict", "ppe design --kind complete"
    refused(ppe_main("rank", file, *options), *said)
    assert ppe_main("rank", file, *options, "--incomplete", "keep", "--on-separation", "ridge").code == 0


def test_cycles_are_counted_among_the_pairs_that_were_judged(ppe_main, tmp_path):
    "A circle of three on one question, two pairs on each of the others."
    rows = [("j", 1, "c", 0, "a", "b", "a"), ("j", 1, "c", 0, "b", "c", "a"), ("j", 1, "c", 0, "c", "a", "a")]
    rows += [("j", q, "c", 0, *pair, "a") for q in range(2, 6) for pair in ("ad", "db")]
    path = write_verdicts(validate_verdicts(pd.DataFrame(rows, columns=list(COLUMNS))), tmp_path / "v.csv")
    done = ppe_main("cycles", path, "--format", "json")
    assert [graph["c3_bad"] for graph in done.json()["graphs"]] == [1, 0, 0, 0, 0]
    assert done.err.count("\n") == 1 and "no graph has all its pairs" in done.err


def test_diagnose_says_what_it_cannot(ppe_main, file):
    done = ppe_main("diagnose", file)
    assert done.code == 0 and done.err == ""
    assert "comparison graphs (the verdicts on one wording) lack pairs" in done.out


# ---- one invalid verdict does not throw its graph away


def table(n_whole: int, n_partial: int, *, invalid: bool = False) -> pd.DataFrame:
    "Graphs of three models; partial ones lack a pair, or have an invalid verdict on it."
    rows = []
    for question in range(n_whole + n_partial):
        for k, pair in enumerate(("xy", "yz", "zx")):
            verdict = "ab"[(question + k) % 2]
            if question >= n_whole and k == 2:
                if not invalid:
                    continue
                verdict = "invalid"
            rows.append(("j", question, "c", 0, *pair, verdict))
    return validate_verdicts(pd.DataFrame(rows, columns=list(COLUMNS)))


def spoilt(n_models: int, n_graphs: int, n_invalid: int, seed: int, *, wordings: int = 1) -> pd.DataFrame:
    "Complete graphs, models half a logit apart, with so many invalid verdicts at random."
    rng, models = np.random.default_rng(seed), [f"m{k:02d}" for k in range(n_models)]
    theta = np.linspace(1.0, -1.0, n_models)
    rows = [
        ("j", graph // wordings, "c", graph % wordings, models[i], models[j],
         "ab"[int(rng.random() > 1 / (1 + np.exp(theta[j] - theta[i])))])
        for graph in range(n_graphs) for i, j in combinations(range(n_models), 2)
    ]  # fmt: skip
    for row in rng.choice(len(rows), n_invalid, replace=False):
        rows[row] = (*rows[row][:6], "invalid")
    return validate_verdicts(pd.DataFrame(rows, columns=list(COLUMNS)))


def counted(verdicts: pd.DataFrame) -> dict[str, float]:
    "Bradley–Terry scores of all valid verdicts, by Zermelo's iteration: an oracle of its own."
    valid = verdicts[verdicts["verdict"] != "invalid"].astype(str)
    models = sorted({*valid["model_a"], *valid["model_b"]})
    wins = np.zeros((len(models), len(models)))
    for a, b, said in valid[["model_a", "model_b", "verdict"]].itertuples(index=False):
        i, j = models.index(a), models.index(b)
        wins[i, j] += {"a": 1, "b": 0, "tie": 0.5}[said]
        wins[j, i] += {"a": 0, "b": 1, "tie": 0.5}[said]
    worth = np.ones(len(models))
    for _ in range(5000):
        games = (wins + wins.T) / (worth[:, None] + worth)
        worth = wins.sum(axis=1) / games.sum(axis=1)
        worth /= np.exp(np.log(worth).mean())
    return dict(zip(models, np.log(worth), strict=True))


@pytest.mark.parametrize(("n_models", "n_graphs", "n_invalid", "wordings"), [(8, 80, 30, 2), (20, 40, 152, 1)])
def test_invalid_verdicts_at_random_lose_nothing_else(ppe_main, tmp_path, n_models, n_graphs, n_invalid, wordings):
    verdicts = spoilt(n_models, n_graphs, n_invalid, seed=n_invalid + 1, wordings=wordings)
    path, n_valid = write_verdicts(verdicts, tmp_path / "v.csv"), len(verdicts) - n_invalid
    n_questions, told = n_graphs // wordings, f"{n_valid:,} verdicts on {n_graphs // wordings:,} questions, "
    found = ppe_main("rank", path, "--format", "json").json()
    assert {row["model"]: row["score"] for row in found["models"]} == pytest.approx(counted(verdicts), abs=1e-6)
    names = "n_verdicts", "n_verdicts_dropped", "n_invalid", "n_questions", "n_graphs_used", "n_graphs_dropped"
    assert [found[name] for name in names] == [n_valid, 0, n_invalid, n_questions, n_graphs, 0]
    bad = verdicts[verdicts["verdict"] == "invalid"].astype(str)
    of_models = {name: int(((bad["model_a"] == name) | (bad["model_b"] == name)).sum()) for name in counted(verdicts)}
    assert found["invalid"]["by_model"] == of_models and found["invalid"]["by_judge"] == {"j": n_invalid}
    done = ppe_main("rank", path)
    assert f"{told}{n_invalid} invalid" in done.out
    assert "more invalid verdicts" not in done.err, "they fall on all alike: no note"
    assert ppe_main("report", path, "--out", "r.html", "--intervals", "100").code == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert f"{told}{n_invalid} invalid" in page


def test_a_selection_by_cycles_says_how_many_valid_verdicts_it_loses(ppe_main, tmp_path):
    verdicts = spoilt(8, 80, 30, seed=1, wordings=2)
    path = write_verdicts(verdicts, tmp_path / "v.csv")
    graph = verdicts[["question_id", "variant"]].astype(str).agg("/".join, axis=1)
    broken = graph.isin(graph[verdicts["verdict"] == "invalid"])
    n_lost, n_broken = int((broken & (verdicts["verdict"] != "invalid")).sum()), graph[broken].nunique()
    for words in (["--select", "global", "--keep", "20"], ["--incomplete", "drop"]):
        done = ppe_main("rank", path, *words)
        notes = [line for line in done.err.splitlines() if "left out" in line]
        assert len(notes) == 1 and f"{n_broken} graphs" in notes[0] and f"{n_lost} valid verdicts" in notes[0]
        assert ("every valid verdict" in notes[0]) and ("--incomplete keep" in notes[0]) == (words[0] == "--incomplete")
        found = ppe_main("rank", path, *words, "--format", "json").json()
        n_used = 20 if "--keep" in words else 80 - n_broken
        assert (found["n_verdicts"], found["n_verdicts_dropped"]) == (28 * n_used, n_lost)
        assert f"{28 * n_used:,} verdicts on" in done.out and f"({n_used} of 80 graphs), 30 invalid" in done.out
    shown = ppe_main("cycles", path, "--format", "json")
    assert len(shown.json()["graphs"]) == 80 - n_broken and f"{n_lost} valid verdicts" in shown.err


def test_every_command_stands_on_the_same_verdicts(ppe_main, tmp_path):
    path = write_verdicts(spoilt(6, 40, 25, seed=3), tmp_path / "v.csv")
    ranked = ppe_main("rank", path, "--format", "json").json()
    advice = ppe_main("diagnose", path, "--format", "json").json()
    assert ranked["n_verdicts"] == advice["pool"]["n_verdicts"] == 575
    assert advice["invalid"]["n_invalid"] == ranked["n_invalid"] == 25
    assert advice["invalid"]["by_model"] == ranked["invalid"]["by_model"]
    text = ppe_main("diagnose", path).out
    assert "575 valid verdicts by 1 judge (j) on 40 questions" in text and "25 of 600 verdicts are invalid" in text
    assert advice["invalid"]["by_judge"] == {"j": 25}
    assert ppe_main("report", path, path, "--out", "r.html", "--intervals", "100").code == 0
    assert (tmp_path / "r.html").read_text(encoding="utf-8").count("575 verdicts on 40 questions, 25 invalid") == 2


def test_oa_gpt4_keeps_its_893_incomplete_graphs(ppe_main, tmp_path):
    assert ppe_main("data", "write", "oa-gpt4", "--out", "oa.csv").code == 0
    found = ppe_main("rank", "oa.csv", "--format", "json").json()
    assert (found["n_graphs"], found["n_graphs_dropped"], found["n_verdicts"]) == (1906, 0, 40026 - 1482)
    chosen = ppe_main("rank", "oa.csv", "--select", "global", "--keep", "500", "--format", "json").json()
    assert (chosen["n_graphs_dropped"], chosen["n_verdicts_dropped"]) == (893, 17271)


# ---- who has the invalid verdicts


def without_long_answers(verdicts: pd.DataFrame, name: str, share: float, seed: int) -> pd.DataFrame:
    "The verdicts on a model's answers to a share of the questions are invalid, all of them."
    rng, question = np.random.default_rng(seed), verdicts["question_id"].astype(str)
    long = {q for q in question.unique() if rng.random() < share}
    hit = question.isin(long) & ((verdicts["model_a"] == name) | (verdicts["model_b"] == name))
    return verdicts.assign(verdict=verdicts["verdict"].astype(str).mask(hit, "invalid"))


def test_a_model_with_more_invalid_verdicts_than_its_share_is_named(ppe_main, tmp_path):
    plain = spoilt(8, 80, 20, seed=4)
    path = write_verdicts(without_long_answers(plain, "m02", 0.15, seed=1), tmp_path / "v.csv")
    for command in ("rank", "diagnose"):
        done = ppe_main(command, path)
        said = done.err if command == "rank" else done.out
        assert said.count("ore invalid verdicts than its share: model m02 (") == 1 and "p corrected" in said
        assert "biased" in said
    found = ppe_main("rank", path, "--format", "json").json()["invalid"]
    assert [row["name"] for row in found["uneven"]] == ["m02"] and found["uneven"][0]["p"] < 0.01 == found["level"]
    assert ppe_main("report", path, "--out", "r.html", "--intervals", "100").code == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "more invalid verdicts than its share: model m02" in page


def test_a_judge_with_more_invalid_verdicts_than_the_others_is_named(ppe_main, tmp_path):
    one, other = spoilt(5, 40, 4, seed=5), spoilt(5, 40, 40, seed=6).assign(judge="k")
    both = validate_verdicts(pd.concat([one, other]).astype(str))
    done = ppe_main("rank", write_verdicts(both, tmp_path / "v.csv"))
    assert "more invalid verdicts than its share: judge k (40 of 400, expected 22.0" in done.err


def test_battles_of_two_models_are_compared_with_each_other(ppe_main, tmp_path):
    "One pair on each question: within it nothing can be told."
    rng = np.random.default_rng(7)
    rows = []
    for question in range(600):
        a, b = rng.choice(list("uvwxyz"), 2, replace=False)
        lost = rng.random() < (0.1 if "w" in (a, b) else 0.01)
        rows.append(("j", question, "c", 0, a, b, "invalid" if lost else "ab"[rng.integers(2)]))
    path = write_verdicts(validate_verdicts(pd.DataFrame(rows, columns=list(COLUMNS))), tmp_path / "v.csv")
    assert "more invalid verdicts than its share: model w (" in ppe_main("rank", path).err


def test_the_note_on_uneven_invalid_verdicts_is_rarely_false():
    "Whole answers lost at random: verdicts on a question then hang together. At level 0.01, of 30 tables."
    whole, rng, false = spoilt(6, 40, 0, seed=8), np.random.default_rng(9), 0
    question, a, b = (whole[name].astype(str).to_numpy() for name in ("question_id", "model_a", "model_b"))
    for _ in range(30):
        lost = {(q, m) for q in set(question) for m in {*a} | {*b} if rng.random() < 0.03}
        hit = [(q, x) in lost or (q, y) in lost for q, x, y in zip(question, a, b, strict=True)]
        tab = whole.assign(verdict=whole["verdict"].astype(str).mask(np.array(hit), "invalid"))
        false += bool(uneven_notes(invalid_verdicts(Comparisons.of(validate_verdicts(tab), invalid=True))))
    assert false <= 2, "P(more than 2) of Binomial(30, 0.01) is 0.003"


def test_invalid_verdicts_are_counted_by_a_stranger():
    "Counts and p against exchanging labels on each question by hand, 20,000 times."
    verdicts, rng = without_long_answers(spoilt(4, 30, 6, seed=10), "m01", 0.1, seed=3), np.random.default_rng(11)
    rows = Comparisons.of(validate_verdicts(verdicts.astype(str)), invalid=True)
    table = invalid_verdicts(rows).set_index("name")
    bad = verdicts["verdict"] == "invalid"
    names, questions = ["m00", "m01", "m02", "m03"], verdicts["question_id"].astype(str)
    by = np.array([
        [(bad & (questions == q) & ((verdicts["model_a"] == m) | (verdicts["model_b"] == m))).sum() for m in names]
        for q in questions.unique()
    ])  # fmt: skip
    assert table.loc[names, "invalid"].tolist() == by.sum(axis=0).tolist()
    assert table.loc[names, "expected"].tolist() == pytest.approx(4 * [by.sum() / 4])
    drawn = sum(rng.permuted(np.tile(row, (20_000, 1)), axis=1)[:, 0] for row in by)
    shares = [(drawn >= count).mean() for count in by.sum(axis=0)]
    raw = np.array(shares)
    order = np.argsort(raw)
    holm = np.empty(4)
    holm[order] = np.minimum(np.maximum.accumulate(raw[order] * np.arange(4, 0, -1)), 1)
    assert table.loc[names, "p"].to_numpy() == pytest.approx(holm, abs=0.03)
    assert np.isnan(table.loc["j", "p"]), "one judge is compared with nobody"


def test_complete_graphs_are_ranked_as_they_were():
    whole = table(9, 0)
    for method in (Method("all", keep=1.0), Method("half", keep=0.5)):
        by_default, dropping = (
            leaderboard(whole, method=method, incomplete=how, on_separation="ridge") for how in ("auto", "drop")
        )
        assert by_default.to_dict() == dropping.to_dict() and by_default.notes() == dropping.notes()


# ---- intervals from resampled questions


@pytest.mark.parametrize(("n_questions", "per_question"), [(60, 3), (30, 1)])
def test_limits_hold_the_truth_also_where_resamples_fall_apart(n_questions, per_question):
    "Scores at level 0.95 in 40 pools; with 30 calls a model often has no limit on one side."
    truth, order = marginal_scores(), np.arange(1, N + 1)
    scores, ranks, open_ends = [], [], []
    for seed in range(40):
        board = leaderboard(spread(n_questions, per_question, seed), on_separation="ridge")
        board = board.with_intervals(n_resamples=60, seed=seed)
        limits = board.table().set_index("model").loc[list(MODELS)]
        scores += ((limits["score_low"] <= truth) & (truth <= limits["score_high"])).tolist()
        ranks += ((limits["rank_low"] <= order) & (order <= limits["rank_high"])).tolist()
        open_ends.append(np.isinf(limits[["score_low", "score_high"]].to_numpy()).mean())
        assert not limits.isna().any(axis=None)
    assert np.mean(scores) > 0.92 and np.mean(ranks) > 0.95
    assert (np.mean(open_ends) > 0.05) == (n_questions * per_question == 30)

"""Ranges over several facets: a sandwich by hand, planted truths, the option in its three forms, refusals."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import ppe
from ppe.cli.main import main
from ppe.comparisons import Comparisons
from ppe.errors import InputError
from ppe.inference.component_estimates import contrast_errors, limits_over
from ppe.inference.normal_intervals import facet_intervals
from ppe.inference.study_cells import facets_over, verdict_cells
from ppe.inference.variance_components import variance_components
from ppe.random_streams import replicate_streams, stream
from ppe.sources.datasets import load_verdicts
from ppe.verdicts import read_verdicts, validate_verdicts, write_verdicts

SEED = 20260324
MODELS = "abcde"
CASES = Path(__file__).parents[1] / "cases"


@pytest.fixture(scope="module")
def prd() -> pd.DataFrame:
    return load_verdicts("prd-judges")


def crossed(rng: np.random.Generator, n_judges: int = 4, size: float = 0.3, models: str = MODELS) -> pd.DataFrame:
    "Equal models on 30 questions by judges of a taste of their own."
    first, second = np.triu_indices(len(models), 1)
    shape = (30, n_judges, len(models))
    likes = size * rng.standard_normal(shape[1:]) + 0.5 * rng.standard_normal((30, 1, len(models)))
    gap = likes[..., first] - likes[..., second]
    won = rng.random(gap.shape) < 1 / (1 + np.exp(-gap))
    question, judge, pair = (grid.ravel() for grid in np.indices(gap.shape))
    names = np.array([*models])
    columns = {"judge": np.char.add("j", judge.astype(str)), "question_id": question, "category": "any", "variant": 0}
    columns |= {"model_a": names[first[pair]], "model_b": names[second[pair]]}
    return validate_verdicts(pd.DataFrame(columns | {"verdict": np.where(won.ravel(), "a", "b")}))


def test_balanced_limits_are_those_of_two_way_tables(prd: pd.DataFrame):
    "Mean squares of a textbook, and the part of judges alike for all models."
    verdicts = ppe.rank(crossed(stream(SEED, "by hand")), intervals=0).verdicts.rows
    assert verdicts is not None
    cells, study = verdict_cells(verdicts), variance_components(verdicts, rng=stream(SEED))
    y = np.zeros((30, 4, 5))
    y[cells.facets["question"], cells.facets["judge"]] = cells.deviations
    rows, columns = y.mean(axis=1, keepdims=True), y.mean(axis=0, keepdims=True)
    rest = ((y - rows - columns) ** 2).sum(axis=(0, 1)) / (29 * 3)
    of_judges = ((30 * (columns**2).sum(axis=(0, 1)) / 3) - rest) / 30 / 4
    of_questions = np.maximum(4 * (rows**2).sum(axis=(0, 1)) / 29 - rest, 0) / 4 / 30 + rest / 120
    shared = np.maximum(of_judges, 0).mean()
    error, freedom = contrast_errors(study, np.eye(5), ["question", "judge"], of_parts=False)
    assert np.allclose(error**2, of_questions + shared, rtol=1e-6)
    assert np.allclose(freedom, (of_questions + shared) ** 2 / (of_questions**2 / 29 + shared**2 / 3), rtol=1e-6)
    low, high = limits_over(study, ["question", "judge"])
    of_both = rest / 120  # judges alone, with what they do on single questions, if that is wider
    fewer = (shared + of_both) ** 2 / (shared**2 / 3 + of_both**2 / 29)
    alone = student.ppf(0.975, fewer) * np.sqrt(shared + of_both)
    assert np.allclose(high - low, 2 * np.maximum(student.ppf(0.975, freedom) * error, alone), rtol=1e-6)


def test_ranges_over_judges_hold_planted_ranks_and_those_over_questions_do_not():
    "Equal models: every rank is as true as another, so a range keeps its word if it holds an order that is dealt out."
    held, alone = [], []
    for rng in replicate_streams(SEED, "equal", 3, n=60):
        rows = Comparisons.of(crossed(rng, 3, models="abc", size=0.4))
        dealt, how = rng.permutation(3) + 1, {"scores": verdict_cells(rows).scores, "ranker": "bradley-terry"}
        for over, kept in ((("question", "judge"), held), (("question",), alone)):
            made = facet_intervals(rows, over, n_draws=99, rng=rng, **how)
            limits = made.limits["simultaneous"]
            kept.append(((limits.rank_low <= dealt) & (dealt <= limits.rank_high)).all())
    assert np.mean(held) > max(0.9, np.mean(alone) + 0.05), (np.mean(held), np.mean(alone))


def test_the_three_forms_say_the_same_and_the_default_is_questions(prd: pd.DataFrame, tmp_path: Path, capsys):
    write_verdicts(prd, path := tmp_path / "prd.csv")
    by_words, by_names = ppe.rank(prd, over="questions,judges"), ppe.rank(prd, over=["judges", "questions"])
    assert by_words.to_dict() == by_names.to_dict()
    assert main(["rank", str(path), "--over", "questions,judges", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(by_words.to_dict()))
    assert by_words.to_dict()["intervals"]["over"] == ["questions", "judges"]
    assert "for other questions of the kind and other judges like these 5" in str(by_words)
    assert "for other questions of the kind and other judges like these 5" in by_words._repr_html_()
    assert main(["rank", str(path), "--over", "questions,judges", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(",over")
    assert ppe.rank(prd, over="questions").to_dict() == ppe.rank(prd).to_dict()
    change = ppe.compare(prd, model=["gpt35", "bard"], over="questions,judges")
    assert main(["compare", str(path), "--model", "gpt35", "--model", "bard", "--over", "questions,judges"]) == 0
    assert capsys.readouterr().out == f"{change}\n".split("\n\nnote: ")[0].rstrip("\n") + "\n"
    assert change.estimate.limits.low < change.difference
    assert (change.estimate.over, change.worse) == (("questions", "judges"), False)
    assert facets_over(" judges , questions") == ("question", "judge")


def test_two_tables_are_compared_within_their_common_cells(prd: pd.DataFrame):
    "The new version is nearly the old one: what judges like in both is gone from the difference."
    table = crossed(stream(SEED, "again"), 5, size=0.8)
    with pytest.raises(InputError, match="all questions give the same result.* copies of one"):
        ppe.compare(table, table.copy(), model="a", over="questions,judges")
    other = table.assign(verdict=table["verdict"].where(stream(SEED, "flip").random(len(table)) < 0.9, "a"))
    change = ppe.compare(table, other, model="a", over="questions,judges")
    apart = ppe.compare(table, model=["a", "b"], over="questions,judges")
    errors = [each.estimate.test.sensitivity.error for each in (change, apart)]
    assert errors[0] < 0.5 * errors[1]


def test_what_is_not_covered_is_noted_where_it_can_be_told_and_is_much(prd: pd.DataFrame):
    said = [line for line in ppe.rank(prd).notes() if "that over questions alone" in line]
    assert len(said) == 1 and "2.4 times that over questions alone" in said[0] and "(--over questions,j" in said[0]
    assert not any("that over questions alone" in line for line in ppe.rank(prd, over="questions,judges").notes())
    for quiet in ("mt-bench-gpt4", "h2o-gpt4"):  # two turns, one wording
        assert not any("that over questions alone" in line for line in ppe.rank(load_verdicts(quiet)).notes())
    told = ppe.diagnose(prd)
    assert any("Four times the questions would narrow the intervals by about " in line for line in told.lines())
    components = told.to_dict()["components"]
    assert components["variance judge"]["low"] > 0 and components["share judge"] > 0.8
    page = ppe.report(prd).html
    assert "Four times the questions would narrow" in page


@pytest.mark.parametrize(
    "options,words",
    [
        ({"over": "questions,judge"}, "--over judge: choose from questions, wordings, judges"),
        ({"over": ()}, "choose from questions"),
        ({"over": None}, "--over None: choose from questions"),
        ({"over": 5}, "--over 5: choose from questions"),
        ({"over": ["questions", 3]}, "--over 3: choose from questions"),
        (
            {"over": "questions,wordings"},
            "wording: a facet needs at least two levels.* question, judge, order have them; leave wordings out",
        ),
        ({"over": "judges", "intervals": 0}, "--over judges needs ranges: leave --intervals 0 out"),
        ({"over": "judges", "judge": "gpt4"}, "judge: a facet needs at least two levels"),
        ({"over": "judges", "ranker": "copeland"}, "known for bradley-terry and davidson of all graphs"),
        ({"over": "judges", "order_effect": True}, "--over with an order effect or covariates"),
        ({"over": "judges", "interval_kind": "percentile"}, "--over with percentiles"),
        ({"level": 0.1}, "--level 0.1: give a number between 0.5 and 1"),
        ({"over": "judges", "select": "global", "keep": 100}, "of all graphs"),
        ({"over": "judges", "intervals": 5}, "5 draws: level 0.95 needs at least 19"),
    ],
)
def test_what_cannot_be_had_is_refused(prd: pd.DataFrame, options: dict, words: str):
    with pytest.raises(InputError, match=words):
        ppe.rank(prd, **options)


def test_few_levels_and_counts_are_refused(prd: pd.DataFrame, tmp_path: Path):
    two = prd[prd["judge"].isin(["gpt4", "gpt35"])]
    few = "judge: limits over a facet need at least three levels, here are 2; add one"
    with pytest.raises(InputError, match=few):
        ppe.rank(two, over="questions,judges")
    with pytest.raises(InputError, match=few):
        ppe.compare(two, model=["gpt35", "bard"], over="judges")
    with pytest.raises(InputError, match="--judges compares judges over questions alone: it takes no --over judges"):
        ppe.compare(prd, judges=True, judge=["gpt35", "gpt4"], over="judges")
    with pytest.raises(InputError, match="--people takes no --over"):
        ppe.rank(prd, people=load_verdicts("prd-human"), over="questions,judges")
    (path := tmp_path / "counts.csv").write_text("model_a,model_b,wins_a,wins_b,ties\nx,y,3,2,1\n")
    with pytest.raises(InputError, match="--over questions,judges: counts of pairs hold no"):
        ppe.rank(str(path), over="questions,judges")


@pytest.mark.parametrize("table", ["copies", "a share each"])
def test_no_variance_between_judges_gives_no_limits_without_width(table: str):
    "Neither NaN, nor certain ranks, nor a gate that closes with a power of 100 %."
    verdicts = crossed(stream(SEED, "no width", table), n_judges=3)
    first = verdicts[verdicts["judge"] == "j0"]
    far = 0 if table == "copies" else 100  # that each judge says the same of, on questions of its own
    copies = [first.assign(judge=f"j{k}", question_id=first["question_id"].astype(int) + far * k) for k in range(3)]
    verdicts = pd.concat(copies)
    verdicts = validate_verdicts(verdicts.astype(object))
    none = "judges: no variance between them is estimated above 0.* over questions too"
    with pytest.raises(InputError, match=none):
        ppe.rank(verdicts, over="judges")
    with pytest.raises(InputError, match=none):
        ppe.compare(verdicts, model=["a", "b"], over="judges")
    wide = ppe.rank(verdicts, over="questions,judges").to_frame()
    assert (wide["score_high"] > wide["score_low"]).all()


def test_judges_of_one_question_each_are_not_promised_by_a_number():
    "Fractions of a judge were."
    verdicts = crossed(stream(SEED, "own"), n_judges=3)
    verdicts["judge"] = verdicts["judge"].astype(str) + "-" + verdicts["question_id"].astype(str)
    verdicts = validate_verdicts(verdicts[~verdicts["judge"].isin(["j0-1", "j1-2"])].astype(object))
    promise = ppe.rank(verdicts, over="questions,judges").intervals.scope.promise("single")
    assert promise.endswith(", for other questions of the kind and other judges of each question")
    alone = verdicts[verdicts["judge"].str.startswith("j2")]
    with pytest.raises(InputError, match="leave judges out, or add verdicts of others on the same questions"):
        ppe.rank(alone, over="questions,judges")
    told = ppe.diagnose(alone)
    assert not any("another judge would rank" in line for line in told.lines())
    notes = told.to_dict()["components"]["notes"]
    assert "30 judges of one question each: their preferences count as part of the question effects." in notes
    assert not any("One judge" in note for note in notes)


def test_copies_of_one_question_by_three_judges_are_seen_through_rounding():
    "Four times the questions narrowed ranges by 0 %, and ranges over questions had 0 % of the width."
    verdicts = crossed(stream(SEED, "copied"), n_judges=6, size=0.3).astype(object)
    one = verdicts[verdicts["question_id"].astype(int) == 0]
    copies = validate_verdicts(pd.concat([one.assign(question_id=number) for number in range(12)]))
    with pytest.raises(InputError, match="all questions give the same result.* look for copies of one question"):
        ppe.rank(copies, over="questions,judges", on_separation="error")
    assert not any("Ranges over questions alone" in line for line in ppe.rank(copies).notes())


def test_three_questions_have_limits_over_judges_alone():
    "For other questions too there are none, as there are none for other questions alone."
    verdicts = crossed(stream(SEED, "three"))
    few = verdicts[verdicts["question_id"].astype(int) < 3]
    judges, both = (ppe.rank(few, over=over) for over in ("judges", "questions,judges"))
    assert np.isfinite(judges.to_frame()[["score_low", "score_high"]]).all(axis=None)
    assert "3 questions decide no rank at level 0.95: 6 are the fewest that can." in judges.notes()
    assert np.isinf(both.to_frame()[["score_low", "score_high"]]).all(axis=None)
    assert any(note.startswith("3 questions decide nothing at level 0.95") for note in both.notes())


def test_a_penalty_has_no_ranges_over_judges_and_is_not_offered_again():
    verdicts = crossed(stream(SEED, "penalty")).astype(object)
    verdicts.loc[verdicts["model_a"] == "a", "verdict"] = "a"
    with pytest.raises(InputError, match="--over: these scores come from a penalty alone"):
        ppe.rank(validate_verdicts(verdicts), over="judges", on_separation="ridge")


def test_copies_of_one_question_have_no_components(prd: pd.DataFrame):
    one = prd[(prd["question_id"] == prd["question_id"].iloc[0]) & (prd["judge"] == "gpt4") & (prd["variant"] == 0)]
    table = pd.concat([one.assign(question_id=number, verdict="tie") for number in range(4)])
    with pytest.raises(InputError, match="all questions give the same result"):
        variance_components(Comparisons.of(validate_verdicts(table.astype(object))), rng=stream(SEED))


def assert_never_narrower(verdicts, **options):
    for kind in ("single", "simultaneous"):
        parts = []
        for over in ("questions", "judges"):
            try:
                parts.append(ppe.rank(verdicts, over=over, interval_kind=kind, **options).to_frame().set_index("model"))
            except InputError:  # no variance between judges
                continue
        both = ppe.rank(verdicts, over="questions,judges", interval_kind=kind, **options).to_frame().set_index("model")
        for part in (part.loc[both.index] for part in parts):
            assert (both["score_low"] <= part["score_low"]).all() and (both["score_high"] >= part["score_high"]).all()
            assert (both["rank_low"] <= part["rank_low"]).all() and (both["rank_high"] >= part["rank_high"]).all()
    return both, parts


def test_over_judges_narrower():
    verdicts = read_verdicts(CASES / "over_judges_narrower.csv")
    both, (_, judges) = assert_never_narrower(verdicts)
    assert (both["score_high"] - both["score_low"]).loc["A"] >= (judges["score_high"] - judges["score_low"]).loc["A"]
    single = ppe.rank(verdicts, over="questions,judges", interval_kind="single").to_frame().set_index("model")
    assert np.isclose(single.loc["A", "score_high"] - single.loc["A", "score_low"], 2.12, atol=0.005)  # 1.79 before
    ends = [
        ppe.compare(verdicts, model=["A", "B"], over=over).estimate.limits for over in ("judges", "questions,judges")
    ]
    assert ends[1].low <= ends[0].low and ends[0].high <= ends[1].high


@pytest.mark.parametrize("n_judges, size", [(3, 0.2), (3, 0.8), (5, 0.4)])
def test_limits_over_more_facets_are_never_narrower(n_judges, size):
    verdicts = crossed(stream(SEED, "narrower", str((n_judges, size))), n_judges, size=size)
    assert_never_narrower(verdicts, intervals=299)
    uneven = verdicts[stream(SEED, "holes").random(len(verdicts)) < 0.7]
    assert_never_narrower(uneven, intervals=299)

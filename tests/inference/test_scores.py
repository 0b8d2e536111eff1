"""Scores of answers: the cases with values by hand, files and frames, what a ranking of means takes and refuses."""

import json
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ppe
from ppe.errors import InputError, NoMaximumError
from ppe.inference.mean_tests import MeanTests, behind_at_most, pair_statistics
from ppe.random_streams import stream
from ppe.scores import ScoreCells, read_scores

CASES = Path(__file__).parents[1] / "cases"


def statistics(name: str) -> dict[tuple[str, str], float]:
    "|z| of each two models of a case."
    tests = MeanTests.of(ScoreCells.of(read_scores(CASES / f"{name}.csv")), n_flips=99, rng=stream(1, name))
    pairs = pair_statistics(tests)
    return {
        (tests.models[i], tests.models[j]): abs(z) for i, j, z in zip(pairs.first, pairs.second, pairs.z, strict=True)
    }


def test_evidence_1_accuracy():
    "Means 5/6, 3/6, 1/6; z = ΣD/√ΣD²: 1, 2 and 1.4142; four unlike questions decide nothing."
    board = ppe.rank(str(CASES / "evidence_1_accuracy.csv"))
    table = board.to_frame()
    assert table["model"].tolist() == ["red", "green", "blue"]
    assert table["score"].tolist() == pytest.approx([5 / 6, 3 / 6, 1 / 6])
    assert table[["rank_low", "rank_high"]].to_numpy().tolist() == [[1, 3]] * 3
    z = statistics("evidence_1_accuracy")
    assert z == pytest.approx({("blue", "green"): np.sqrt(2), ("blue", "red"): 2, ("green", "red"): 1})


def test_evidence_2_skew():
    "Steady is ahead by means, spiky by wins; z is 53/√3607; by Bradley–Terry the gap is ln 7."
    path = str(CASES / "evidence_2_skew.csv")
    board = ppe.rank(path)
    assert board.to_frame()[["model", "score"]].to_numpy().tolist() == [["steady", 70.0], ["spiky", 63.375]]
    assert [*statistics("evidence_2_skew").values()] == pytest.approx([53 / np.sqrt(3607)])
    assert "spiky before steady" in str(board)
    scores = ppe.rank(path, ranker="bradley-terry", intervals=0).ranking.scores
    assert np.ptp(scores) == pytest.approx(np.log(7), abs=1e-6)


def test_evidence_3_missing():
    "On the three common questions old is ahead by 1; what new would have had on all six is 5."
    board = ppe.rank(str(CASES / "evidence_3_missing.csv"))
    assert board.to_frame()[["model", "score"]].to_numpy().tolist() == [["old", 6.0], ["new", 5.0]]
    assert [*statistics("evidence_3_missing").values()] == pytest.approx([3 / np.sqrt(3)])
    assert any("3 of 9 scores are the only ones on their question" in note for note in board.notes())
    assert np.isinf(board.to_frame()[["score_low", "score_high"]].to_numpy(float)).all()


def test_a_frame_two_files_and_the_command_say_the_same(ppe_main, tmp_path):
    frame = pd.read_csv(CASES / "evidence_1_accuracy.csv")
    parts = [tmp_path / "one.csv", tmp_path / "two.csv"]
    frame[:7].to_csv(parts[0], index=False)
    frame[7:].to_csv(parts[1], index=False)
    board = ppe.rank(frame).to_dict()
    assert ppe.rank([str(part) for part in parts]).to_dict() == board
    done = ppe_main("rank", *map(str, parts), "--format", "json")
    assert done.code == 0 and done.json() == json.loads(json.dumps(board))


@pytest.mark.parametrize(
    "options,words",
    [
        ({"order_effect": True}, "takes no --order-effect"),
        ({"select": "global", "keep": 3}, "takes no --select, --keep"),
        ({"over": "questions,judges"}, "a facet needs at least two levels"),
        ({"interval_kind": "percentile"}, "simultaneous or single"),
        ({"judge": "nobody"}, "no scores of judge 'nobody'"),
    ],
)
def test_what_means_cannot_take_is_refused_by_name(options, words):
    with pytest.raises(InputError, match=words):
        ppe.rank(pd.read_csv(CASES / "evidence_1_accuracy.csv"), **options)


def test_means_are_not_of_pairs():
    rows = [("j", q, "c", 0, "x", "y", "ab"[q % 2]) for q in range(8)]
    columns = ["judge", "question_id", "category", "variant", "model_a", "model_b", "verdict"]
    with pytest.raises(InputError, match="--ranker mean"):
        ppe.rank(pd.DataFrame(rows, columns=columns), ranker="mean")


def test_a_reference_and_another_judge_on_another_scale():
    frame = pd.read_csv(CASES / "evidence_1_accuracy.csv")
    board = ppe.rank(frame, reference={"red": 3, "green": 1, "blue": 2})
    assert board.distances["kendall"] == pytest.approx(1 / 3)
    both = pd.concat([frame.assign(judge="x"), frame.assign(judge="y", score=16 * frame["score"])])
    notes = ppe.rank(both).notes()
    assert any("judge y spread 16 times" in note for note in notes)
    one = ppe.rank(both, judge="x").to_frame()
    assert one["score"].tolist() == pytest.approx([5 / 6, 3 / 6, 1 / 6])


def test_questions_asked_again_are_no_other_questions():
    "Five runs of each question, all alike, have the limits of one."
    frame = pd.DataFrame(
        [(q, m, (q * k) % 7) for q in range(30) for k, m in enumerate("abc", 2)],
        columns=["question_id", "model", "score"],
    )
    again = pd.concat([frame.assign(epoch=k) for k in range(5)])
    left, right = (ppe.rank(table).to_frame().drop(columns=["model", "interval_kind"]) for table in (frame, again))
    assert np.allclose(left.to_numpy(float), right.to_numpy(float))


def test_the_best_may_be_behind_by_no_more_than_is_stated():
    "Hsu's bounds hold together in at least 95 % of worlds, less twice the Monte-Carlo error."
    held = 0
    for number in range(100):
        rng = stream(7, "bounds", number)
        truth = np.array([0.5, 0.45, 0.2])
        values = rng.normal(0, 1, (60, 1)) + truth + rng.normal(0, 0.4, (60, 3))
        tests = MeanTests.of(ScoreCells(tuple("abc"), values, np.arange(60), 60), n_flips=199, rng=rng)
        held += (behind_at_most(tests, level=0.95) >= truth.max() - truth).all()
    assert held / 100 >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / 100)


def test_wins_without_a_maximum_are_ranked_by_means():
    "One model scores more on every question: its wins have no maximum, its mean has limits."
    rows = [(q, m, q % 3 + k) for q in range(10) for k, m in enumerate("ab")]
    frame = pd.DataFrame(rows, columns=["question_id", "model", "score"])
    assert ppe.rank(frame).to_frame()["rank_high"].tolist() == [1, 2]
    with pytest.raises(NoMaximumError):
        ppe.rank(frame, ranker="bradley-terry")


def test_missing_scores_are_those_of_what_was_chosen(tmp_path):
    "Also in two files, and of one category alone."
    rows = [(q, m, "xy"[q % 2], q + k) for q in range(12) for k, m in enumerate("abc")]
    frame = pd.DataFrame(rows, columns=["question_id", "model", "category", "score"]).astype({"score": object})
    frame.loc[[0, 1, 3], "score"] = None  # two of question 0, category x; one of question 1, category y
    parts = [tmp_path / "one.csv", tmp_path / "two.csv"]
    frame[:9].to_csv(parts[0], index=False)
    frame[9:].to_csv(parts[1], index=False)
    for table in (frame, [str(part) for part in parts]):
        assert ppe.rank(table).scores.missing == {"a": 2, "b": 1}
    assert ppe.rank(frame, category="x").scores.missing == {"a": 1, "b": 1}
    assert ppe.rank(frame, category="y").scores.missing == {"a": 1}


def test_ranges_over_judges_are_no_narrower_and_say_for_whom():
    rng = stream(3, "judges")
    rows = []
    for j, q in product(range(4), range(20)):
        rows += [(f"j{j}", q, m, rng.normal() + k + (k == j % 3)) for k, m in enumerate("abc")]
    frame = pd.DataFrame(rows, columns=["judge", "question_id", "model", "score"])
    narrow, board = ppe.rank(frame).to_frame(), ppe.rank(frame, over="questions,judges")
    wide = board.to_frame()
    assert (wide["score_high"] - wide["score_low"] > narrow["score_high"] - narrow["score_low"]).all()
    assert "for other questions of the kind and other judges like these 4" in str(board)


def test_fragility_of_scores_needs_all_of_them():
    frame = pd.DataFrame([(q, m, q % 2 if m == "a" else 0.5 + q / 9) for q in range(6) for m in "ab"])
    frame.columns = ["question_id", "model", "score"]
    assert "Robustness: dropping" in str(ppe.rank(frame))
    with pytest.raises(InputError, match="without gaps"):
        ppe.rank(frame[1:], fragility=True)


def fewest_dropped(means: np.ndarray, leader: int) -> int | None:
    "Over every subset of the questions: how many must be left out until another model has at least the leader's mean."
    n_questions = len(means)
    for n_dropped in range(1, n_questions):
        for dropped in combinations(range(n_questions), n_dropped):
            totals = np.delete(means, dropped, axis=0).sum(axis=0).round(9)
            if (np.delete(totals, leader) > totals[leader]).any():
                return n_dropped
    return None


def test_fewest_questions_of_scores_are_those_of_every_subset():
    rng = stream(5, "subsets")
    sizes = []
    for number in range(40):
        n_questions, n_judges = 7 + number % 3, 1 + number % 2
        scores = rng.integers(0, 11, (n_questions, n_judges, 3))
        cells = product(range(n_questions), range(n_judges), range(3))
        rows = [(q, f"j{j}", "abc"[m], scores[q, j, m]) for q, j, m in cells]
        board = ppe.rank(pd.DataFrame(rows, columns=["question_id", "judge", "model", "score"]), fragility=True)
        means = scores.mean(axis=1)
        totals = means.sum(axis=0).round(9)
        if len({*totals}) < 3:
            continue  # shared ranks: what changes is another question
        change = next(change for change in board.fragility.changes if change.kind == "leader")
        fewest = fewest_dropped(means, int(totals.argmax()))
        assert change.exact and (None if change.questions is None else len(change.questions)) == fewest
        sizes.append(fewest)
    assert len(sizes) > 25 and {1, 2, 3} <= {*sizes}


def changed(tmp_path, differences: list[float]) -> tuple[str, str]:
    "Two score files; the old version has 5 on every question."
    paths = str(tmp_path / "old.csv"), str(tmp_path / "new.csv")
    frame = pd.DataFrame({"question_id": range(len(differences)), "model": "m", "score": 5.0})
    other = frame.assign(model="other", score=3.0)
    for path, scores in zip(paths, (frame, frame.assign(score=5.0 + np.array(differences))), strict=True):
        pd.concat([scores, other]).to_csv(path, index=False)
    return paths


@pytest.mark.parametrize("differences,code", [([-1, 0] * 20, 4), ([-1, 1] * 20, 0)])
def test_the_gate_takes_scores(ppe_main, tmp_path, differences, code):
    words = "compare", *changed(tmp_path, differences), "--model", "m", "--fail-if", "worse"
    assert ppe_main(*words).code == code
    assert ppe_main(*words, "--margin", "2").code == 0
    for form in ("json", "csv", "markdown", "junit"):
        assert ppe_main(*words, "--format", form).code == code


def test_the_gate_is_undecided_where_scores_are_lost(ppe_main, tmp_path):
    old, new = changed(tmp_path, [0, 0.1] * 20)
    table = pd.read_csv(new)
    table.loc[table["model"].eq("m") & (table["question_id"] < 4), "score"] = np.nan
    table.to_csv(new, index=False)
    done = ppe_main("compare", old, new, "--model", "m", "--fail-if", "worse")
    assert done.code == 5 and "m, new has no score on 4 of the 40 questions" in done.out


@pytest.mark.parametrize("words", [["--judges"], ["--over", "judges"], ["--drop", "1"]])
def test_the_gate_refuses_what_scores_do_not_have(ppe_main, tmp_path, words):
    models = [] if words == ["--judges"] else ["--model", "m"]
    done = ppe_main("compare", *changed(tmp_path, [0, 1] * 10), *models, *words)
    assert done.code == 2 and words[0] in done.err


ACCURACY = str(CASES / "evidence_1_accuracy.csv")


@pytest.mark.parametrize(
    "words",
    [
        ["cycles", ACCURACY],
        ["counts", ACCURACY, "--out", "c.csv"],
        ["agree", ACCURACY, "--people", ACCURACY],
        ["rank", ACCURACY, "--people", ACCURACY],
        ["rank", ACCURACY, "--covariates", "length"],
        ["rank", ACCURACY, "--order-effect", "--ranker", "bradley-terry"],
        ["rank", ACCURACY, "--select", "global", "--keep", "3"],
        ["next", ACCURACY, "--calls", "3", "--out", "n.csv"],
    ],
)
def test_what_needs_verdicts_refuses_scores_in_one_line(ppe_main, words):
    done = ppe_main(*words)
    assert done.code == 2 and done.err.count("\n") == 1 and not done.out and not done.new_files


@pytest.mark.parametrize(
    "names",
    [
        {"question_id": "sample_id", "model": "model_name", "score": "score_acc"},
        {"question_id": "doc_id", "model": "model_id", "score": "score"},
        {"question_id": "id", "model": "model", "score": "score_exact"},
    ],
)
@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet", "jsonl", "frame"])
def test_names_of_other_frameworks_are_known_in_every_form(tmp_path, names, form):
    frame = pd.read_csv(ACCURACY).rename(columns=names)
    path = str(tmp_path / f"scores.{form}")
    if form == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif form == "parquet":
        frame.to_parquet(path)
    elif form != "frame":
        frame.to_csv(path, index=False)
    board = ppe.rank(frame if form == "frame" else path)
    assert board.to_dict() == ppe.rank(ACCURACY).to_dict()


def test_columns_are_named_and_a_lower_score_may_be_better(ppe_main, tmp_path):
    frame = pd.read_csv(ACCURACY).rename(columns={"question_id": "item", "score": "latency"})
    path = tmp_path / "latency.csv"
    frame.to_csv(path, index=False)
    done = ppe_main("rank", path, "--columns", "question_id=item,score=-latency", "--format", "json")
    assert [row["model"] for row in done.json()["models"]] == ["blue", "green", "red"]
    assert ppe.rank(frame, question_id="item", score="latency").to_dict() == ppe.rank(ACCURACY).to_dict()


REFUSED = {
    "question_id,model,score_acc,score_f1\n1,m,1,1\n": "2 scores: score_acc, score_f1; take one (--columns "
    "score=score_acc), they are not averaged",
    "question_id,red,green\n1,1,0\n2,0,1\n": "the table seems to have a column for each model ('red','green'): "
    'give question_id, model, score (pandas: df.melt("question_id", var_name="model", value_name="score"))',
    "question_id,model,value\n1,m,1\n": "take one (--columns score=value)",
    "question_id,model,score,model_a,model_b\n1,m,1,x,y\n": "the table has model and score, but also model_a and "
    "model_b: a row is either an answer or a pair",
    "question_id,model,score\n1,m,1\n1,m,1\n": "same model twice on a question in rows 1, 2: was it asked again? name "
    "the column that counts (--columns repeat=epoch); was the row copied? remove it",
    "question_id,model,score\n1,x,1\n1,y,1\n": "all scores are 1: there is nothing to rank",
    "question_id,model,score\n1,red,1\n2,blue,2\n": "share no question, directly or through other models: their means "
    "are of different questions; score both on the same",
    "question_id,model,score\n1,x,8/10\n1,y,2\n": "score '8/10' in row 1: a number is needed",
}


@pytest.mark.parametrize("table", REFUSED)
def test_refusals_of_score_tables_are_these(ppe_main, tmp_path, table):
    path = tmp_path / "scores.csv"
    path.write_text(table)
    done = ppe_main("rank", path)
    assert done.code == 2 and REFUSED[table] in done.err and done.err.count("\n") == 1
    with pytest.raises(InputError) as error:
        ppe.rank(pd.read_csv(path))
    assert REFUSED[table].partition("(--")[0] in str(error.value)


def boards_of_two() -> pd.DataFrame:
    "Two judges, two categories: a leads in the first, b in the second."
    rng = stream(9, "categories")
    rows = []
    for judge, question, (k, model) in product("xy", range(40), enumerate("ab")):
        leads = 1 if k == question % 2 else 0
        rows.append((judge, f"c{question % 2}", question, model, leads + rng.normal(0, 0.3)))
    return pd.DataFrame(rows, columns=["judge", "category", "question_id", "model", "score"])


def test_scores_by_category_are_those_of_each_alone(ppe_main, tmp_path):
    frame = boards_of_two()
    boards = ppe.rank(frame, by="category")
    assert boards.winners[["category", "model", "certain"]].to_numpy().tolist() == [
        ["c0", "a", True],
        ["c1", "b", True],
    ]
    alone = ppe.rank(frame, category="c0", level=0.975).to_frame()  # two categories at once
    of_both = boards.to_frame()
    of_both = of_both[of_both["category"] == "c0"].reset_index(drop=True)
    for column in ("score", "score_low", "score_high", "rank_low", "rank_high"):
        assert np.allclose(alone[column], of_both[column], atol=0.02)
    frame.to_csv(tmp_path / "scores.csv", index=False)
    done = ppe_main("rank", tmp_path / "scores.csv", "--by", "category")
    assert done.code == 0 and "more than noise in 2 of them: c0 (a), c1 (b)" in done.out


def test_scores_by_judge_are_those_of_each_alone():
    frame = boards_of_two()
    boards = ppe.rank(frame, judges="separate").boards
    for judge, board in boards.items():
        assert board.to_frame().equals(ppe.rank(frame, judge=judge).to_frame())
    with pytest.raises(InputError, match="one judge, all"):
        ppe.rank(ACCURACY, judges="separate")


def test_wins_say_where_means_would_order_otherwise():
    board = ppe.rank(str(CASES / "evidence_2_skew.csv"), ranker="bradley-terry")
    assert "By mean scores (--ranker mean) the order differs: steady before spiky." in str(board)
    assert "the order is the same" in str(ppe.rank(ACCURACY, ranker="bradley-terry"))


def test_a_file_for_each_model_is_one_table(ppe_main, tmp_path):
    frame = pd.read_csv(ACCURACY)
    for model, part in frame.groupby("model"):
        part.to_csv(tmp_path / f"{model}.csv", index=False)
    assert ppe.rank(str(tmp_path / "*.csv")).to_dict() == ppe.rank(frame).to_dict()
    done = ppe_main("rank", tmp_path / "red.csv")
    assert done.code == 2
    assert "all scores are of one model, red: a comparison needs at least two; add the others" in done.err


def test_check_counts_what_stands_in_the_table(ppe_main):
    path = str(CASES / "evidence_3_missing.csv")
    facts = ppe_main("check", path, "--format", "json").json()
    table = pd.read_csv(path)
    of_new = next(row for row in facts["by"] if row["name"] == "new")
    assert facts["scores"] == len(table) and of_new["questions"] == (table["model"] == "new").sum()
    assert (facts["cells"], facts["complete_cells"], facts["scores_alone"]) == (6, 3, 3)
    assert ppe.read(table)["score"].sum() == table["score"].sum()


def test_diagnose_says_that_raw_means_are_of_other_questions(ppe_main):
    done = ppe_main("diagnose", str(CASES / "evidence_3_missing.csv"))
    assert done.code == 0
    assert "different questions (new on 3, old on 6; 3 have scores of all)" in done.out
    assert "Means of all scores would put new first; on the same questions old is." in done.out


def test_diagnose_names_the_judge_that_decides_the_mean():
    frame = pd.read_csv(ACCURACY)
    both = pd.concat([frame.assign(judge="x"), frame.assign(judge="y", score=16 * frame["score"])])
    assert "those of y decide the mean" in str(ppe.diagnose(both))
    again = pd.concat([frame.assign(epoch=k) for k in range(3)])
    assert "All repeats agree (copies, or temperature 0)" in str(ppe.diagnose(again))


def test_show_lists_the_questions_against_the_order(ppe_main):
    path = str(CASES / "evidence_2_skew.csv")
    shown = ppe.show(path, models="spiky,steady").to_dict()
    wide = pd.read_csv(path).pivot(index="question_id", columns="model", values="score")
    assert len(shown["against"]["rows"]) == (wide["spiky"] > wide["steady"]).sum() == 7
    assert shown["standing"]["rows"][0]["difference"] == pytest.approx((wide["steady"] - wide["spiky"]).mean())
    done = ppe_main("show", path, "--models", "steady,spiky", "--question", "q1")
    assert done.code == 0 and "steady ranks above spiky" in done.out
    assert ppe_main("show", path, "--models", "steady,nobody").code == 2


@pytest.mark.parametrize("others", [[], [str(CASES / "evidence_1_accuracy.csv")]])
def test_the_report_on_scores_holds_their_ranking(ppe_main, tmp_path, others):
    frame = pd.read_csv(ACCURACY)
    frame.loc[frame["model"] == "red", "score"] = 0
    path = tmp_path / "scores.csv"
    frame.assign(score=frame["score"] + (frame["model"] == "green")).to_csv(path, index=False)
    done = ppe_main("report", path, *others, "--out", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert done.code == 0 and "Mean scores from 18 scores of 3 models on 6 questions" in page
    assert ("What changed" if others else "Questions behind the order") in page

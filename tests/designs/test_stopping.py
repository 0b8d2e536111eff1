"When to stop: the boundary, the standard errors, and the words."

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from conftest import write
from scipy.optimize import minimize
from scipy.stats import norm
from scipy.stats import t as student

from ppe.cli.main import main
from ppe.designs.goals import Goal, needed_pairs, parse_goal, reached
from ppe.designs.stopping import is_settled


def random_calls(n, questions, size, rng, theta=None, sigma=1.0):
    theta = np.zeros(n) if theta is None else theta
    effects = sigma * rng.standard_normal((questions, n))
    question, first = rng.integers(0, questions, size), rng.integers(0, n, size)
    second = (first + rng.integers(1, n, size)) % n
    gap = theta[first] + effects[question, first] - theta[second] - effects[question, second]
    points = np.where(rng.random(size) < 0.15, 0.5, (rng.random(size) < 1 / (1 + np.exp(-gap))).astype(float))
    return question, np.zeros(size, dtype=int), first, second, points


@pytest.mark.parametrize("seed", range(2))
def test_standard_errors_written_out(seed):
    rng, n = np.random.default_rng(seed), 4
    question, variant, first, second, points = random_calls(n, 25, 160, rng, np.array([0.8, 0.3, 0.0, -1.0]), 1.5)
    points[rng.random(160) < 0.05] = np.nan
    found = is_settled((question, variant, first, second, points), n_models=n, goal=Goal("order"))
    rows = [(q, i, j, y) for q, i, j, y in zip(question, first, second, points, strict=True) if not np.isnan(y)]

    def loss(theta):
        return (
            sum(np.logaddexp(0, theta[j] - theta[i]) + (1 - y) * (theta[i] - theta[j]) for _, i, j, y in rows)
            + 0.05 * theta @ theta
        )

    theta = minimize(loss, np.zeros(n), method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(found.scores, theta, atol=1e-4)
    for i, j in itertools.combinations(range(n), 2):
        x = np.eye(n)[i] - np.eye(n)[j]
        equal = np.delete(np.eye(n), j, axis=1)  # the fit in which the two are equal
        equal[j, i] = 1
        at = equal @ minimize(lambda free: loss(equal @ free), np.zeros(n - 1), method="BFGS", options={"gtol": 1e-9}).x  # noqa: B023
        information, by_question, told, expected = 0.1 * np.eye(n), {}, {}, 0.0
        for q, a, b, y in rows:
            d, p = np.eye(n)[a] - np.eye(n)[b], 1 / (1 + np.exp(at[b] - at[a]))
            information += p * (1 - p) * np.outer(d, d)
            by_question[q] = by_question.get(q, 0) + (y - p) * d
            told[q] = told.get(q, 0) + p * (1 - p) * np.outer(d, d)
            expected += p * (1 - p)
        along = np.linalg.inv(information) @ x
        steps, share = (np.array([form(q) for q in by_question]) for form in
                        (lambda q: along @ by_question[q], lambda q: along @ told[q] @ along))  # fmt: skip  # noqa: B023
        over = ((steps - steps.sum() * share / share.sum()) ** 2).sum() * len(steps) / (len(steps) - 1)
        ties = sum(y == 0.5 for *_, y in rows) / 4
        variance = max(over, x @ along * (1 - ties / expected))
        behind = min(len({q for q, a, b, _ in rows if m in (a, b)}) for m in (i, j))
        t = steps.sum() / np.sqrt(variance * len(rows) / (len(rows) - n + 1))
        z = norm.isf(student.sf(t, behind - 1))
        assert abs(found.z[i, j] - z) < 1e-3 and abs(found.z[j, i] + z) < 1e-3


def test_ties_alone_settle_nothing():
    at = np.arange(400)
    tied = is_settled((at, 0 * at, at % 2, 0 * at + 2, 0.5 + 0 * at), n_models=3, goal=Goal("top", 1))
    assert not tied.settled and (tied.z == 0).all() and np.isfinite(tied.z).all()


def test_what_certain_differences_leave_open_by_hand():
    scores = np.array([0.0, 3.0, 2.0, 1.0])  # order: 1, 2, 3, 0
    certain = np.zeros((4, 4), dtype=bool)
    certain[1, [0, 2, 3]] = certain[2, 0] = True
    low, high = np.array([3, 1, 2, 2]), np.array([4, 1, 3, 4])
    for goal, expected in (
        ("top=1", []), ("top=2", [[2, 3]]), ("order", [[2, 3], [3, 0]]), ("width=2", []), ("width=1", [[2, 3], [3, 0]]),
    ):  # fmt: skip
        settled, left = reached(parse_goal(goal), needed_pairs(parse_goal(goal), scores), certain, low, high)
        assert settled == (not expected) and sorted(left.tolist()) == expected, goal


@pytest.mark.parametrize(("goal", "shares"), [("top=1", 2), ("top=3", 2), ("order", 2), ("width=0", 20)])
def test_two_statements_share_the_chance_of_an_error_and_all_of_them_that_of_ranges(goal, shares):
    calls = random_calls(5, 900, 700, np.random.default_rng(8), np.array([2.0, 1.0, 0.0, -1.0, -2.0]), sigma=0.5)
    look = is_settled(calls, n_models=5, goal=parse_goal(goal))
    order, k = np.argsort(-look.scores), parse_goal(goal).number or 5
    needed = [
        (i, j)
        for i, j in itertools.combinations(order, 2)
        if not goal.startswith("top") or i in order[:k] and j not in order[:k]
    ]
    hardest = min(float(look.evidence[i, j]) for i, j in needed)
    for slack, settled in ((1e-4, True), (-1e-4, False)):
        level = 1 - shares * np.exp(slack - hardest)
        assert is_settled(calls, n_models=5, goal=parse_goal(goal), level=level).settled == settled


@pytest.mark.parametrize(
    ("goal", "shares"), [(Goal("rank", 0, 4), (2, 2)), (Goal("width", 2, 4), (8, 8)), (Goal("top", 2, 4), (4, 6))]
)
def test_of_a_placed_model_its_own_statements_count_and_no_others(goal, shares):
    "Against the evidence of all pairs, and statements counted one by one."
    n, seen = 5, set()
    for seed, size in itertools.product((0, 3, 7), (100, 300, 900)):
        rng = np.random.default_rng(seed)
        calls = random_calls(n, 300, 900, rng, np.array([0.0, 1.5, 2.5, 3.5, 0.5 + 0.5 * seed]), 0.3)
        part = [column[:size] for column in calls]
        of_all = is_settled(part, n_models=n, goal=Goal("order"))
        for level in (0.2, 0.8, 0.97, 0.999):
            found = is_settled(part, n_models=n, goal=goal, level=level)
            better, worse = ([of_all.evidence[pair] for pair in zip(*sides, strict=True)]
                             for sides in (([4] * 4, range(4)), (range(4), [4] * 4)))  # fmt: skip
            everywhere = np.log(2 * (n - 1) / (1 - level))
            assert found.low[4] == 1 + sum(e >= everywhere for e in worse)
            assert found.high[4] == n - sum(e >= everywhere for e in better)
            above = [e >= np.log(shares[0] / (1 - level)) for e in better]
            below = [e >= np.log(shares[1] / (1 - level)) for e in worse]
            settled = {
                "rank": all(a or b for a, b in zip(above, below, strict=True)),
                "width": found.high[4] - found.low[4] <= goal.number,
                "top": sum(above) >= n - goal.number or sum(below) >= goal.number,
            }
            assert found.settled == settled[goal.kind] == (not len(found.open))
            assert all(4 in pair for pair in found.open.tolist())
            own = (part[2] == 4) | (part[3] == 4)
            assert (found.n_calls, found.n_questions) == (own.sum(), len(np.unique(part[0][own])))
            seen.add(found.settled)
    assert seen == {True, False}


def test_nothing_is_certain_of_a_model_behind_which_there_are_few_questions():
    size = np.arange(4000)
    for questions, settled in ((9, False), (10, True)):
        calls = size % questions, size // questions, 0 * size, 0 * size + 1, np.where(size % 47 == 0, 0.0, 1.0)
        found = is_settled(calls, n_models=2, goal=Goal("order"))
        assert found.settled == settled and found.n_questions == questions


def test_nothing_judged_and_a_model_that_never_was():
    empty = [np.empty(0, dtype=int)] * 4 + [np.empty(0)]
    found = is_settled(empty, n_models=3, goal=parse_goal("top=1"))
    assert not found.settled and found.n_calls == 0
    assert (found.low.tolist(), found.high.tolist()) == ([1, 1, 1], [3, 3, 3])
    calls = random_calls(3, 500, 900, np.random.default_rng(1), np.array([2.0, 0.0, -2.0]), sigma=0.0)
    assert is_settled(calls, n_models=3, goal=Goal("order")).settled
    more = is_settled(calls, n_models=4, goal=Goal("order"))
    assert not more.settled and (more.low[3], more.high[3]) == (1, 4)


# ---- ppe next


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(11)
    names = np.array(["a", "b", "c"])
    question, variant, first, second, points = random_calls(3, 400, 700, rng, np.array([2.0, 0.0, 0.0]), sigma=0.0)
    verdict = np.select([points == 1, points == 0], ["a", "b"], "tie")
    once = {}
    for q, v, one, two, said in zip(question, variant, names[first], names[second], verdict, strict=True):
        once.setdefault((q, frozenset((one, two))), ("j", q, "all", v, one, two, said))
    write(tmp_path / "verdicts.csv", once.values())
    pd.DataFrame({"question_id": range(400)}).to_csv(tmp_path / "questions.csv", index=False)
    return tmp_path


def words(files, *more):
    verdicts, questions, pairs = (str(files / f"{name}.csv") for name in ("verdicts", "questions", "pairs"))
    return ["next", verdicts, "--questions", questions, "--calls", "20", "--out", pairs, *more]


def test_exit_codes_and_the_list_that_is_left_alone(files, capsys):
    assert main(words(files)) == 0 and capsys.readouterr().out.startswith("20 pairs on ")
    assert main(words(files)) == 2 and "is not overwritten" in capsys.readouterr().err
    assert main(words(files, "--force", "--until", "order", "--format", "json")) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["pairs"] == 20 and not report["settled"] and report["open_pairs"] in ([["b", "c"]], [["c", "b"]])
    after = (files / "pairs.csv").read_bytes()
    assert main(words(files, "--force", "--until", "top=1")) == 3
    out = capsys.readouterr().out
    assert out.startswith("settled at 95 % after") and out.count("\n") == 1
    assert out.endswith("the best: a; nothing was written\n")
    assert (files / "pairs.csv").read_bytes() == after


def test_the_same_seed_the_same_file_whatever_the_order_of_the_rows(files):
    assert main(words(files)) == 0
    before = (files / "pairs.csv").read_bytes()
    table = pd.read_csv(files / "verdicts.csv")
    table.sample(frac=1, random_state=1).to_csv(files / "verdicts.csv", index=False)
    assert main(words(files, "--force")) == 0 and (files / "pairs.csv").read_bytes() == before
    assert main(words(files, "--force", "--seed", "2")) == 0 and (files / "pairs.csv").read_bytes() != before


def test_several_judges_are_refused_and_one_is_taken(files, capsys):
    table = pd.read_csv(files / "verdicts.csv")
    pd.concat([table, table.assign(judge="k")]).to_csv(files / "verdicts.csv", index=False)
    assert main(words(files)) == 2
    error = capsys.readouterr().err
    assert "verdicts of 2 judges (j, k)" in error and error.count("\n") == 1 and not (files / "pairs.csv").exists()
    assert main(words(files, "--judge", "k")) == 0


def test_a_model_is_placed_among_others_that_are_judged(files, capsys):
    "No call goes to two others; a model that nobody has judged is named, and so is one that is settled."
    rank = [*words(files, "--place", "new", "--until", "rank"), "--force"]
    assert main(rank) == 0
    said = capsys.readouterr().out
    assert "rank of new is open after 0 calls of its own: rank 1 to " in said and "now" not in said
    assert ((drawn := pd.read_csv(rank[rank.index("--out") + 1]))[["model_a", "model_b"]] == "new").any(axis=1).all()
    assert drawn["question_id"].is_unique


@pytest.mark.parametrize("won", ["a", "b"])
def test_a_model_that_won_or_lost_all_of_400_is_settled_by_the_command(tmp_path, capsys, won):
    "The others are equal, so their order stays open; where the one stands does not."
    rng = np.random.default_rng(3)
    rows = [("j", q, "c", 0, "one", other, won) for q in range(100) for other in "wxyz"]
    rows += [("j", q, "c", 0, a, b, rng.choice(["a", "b"])) for q in range(100) for a, b in ("wx", "xy", "yz", "wz")]
    write(tmp_path / "verdicts.csv", rows)
    pd.DataFrame({"question_id": range(400)}).to_csv(tmp_path / "questions.csv", index=False)
    rank, best = ("rank 1", "top=1") if won == "a" else ("rank 5", "top=4")
    assert main([*words(tmp_path), "--place", "one", "--until", "rank"]) == 3
    assert f"after 400 calls of its own, one has {rank} of 5" in capsys.readouterr().out
    assert main([*words(tmp_path), "--until", best]) == 3
    assert main([*words(tmp_path), "--until", "order"]) == 0 and "order is open" in capsys.readouterr().out

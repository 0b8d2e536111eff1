"""`ppe report`: numbers counted by hand, hostile names in a real browser, what cannot be said, two files."""

import html
import os
import re
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browser import Browser, chromium
from drawn import frame as table

import ppe
from ppe.cli.main import main
from ppe.errors import InputError
from ppe.inference.leaderboard import leaderboard
from ppe.paper.datasets import load_verdicts
from ppe.rankers.registry import RANKERS
from ppe.reports.comparison import compare_tables
from ppe.reports.page import comparison_page, report_page
from ppe.reports.report import SAID, make_report
from ppe.streams import stream
from ppe.verdicts import validate_verdicts, write_verdicts

HOSTILE = (
    "<script>alert(1)</script>",
    "\"'&<img src=x onerror=alert(2)>",
    "../../passwd",
    "$x^2$ \\frac{1}{0}",
    "שלום-7b العربية",
    "模型-七十二亿-聊天",
    "🦙 emoji",
    "x" * 300,
    "{{ 7*7 }}{% raw %}",
    "\u3164\u115f",
    "</title></svg></style><script>alert(4)</script>",
)


def drawn(models: tuple[str, ...], n_questions: int = 15, *, step: float = 0.3, judges=("j",), seed: int = 1):
    "Verdicts of models each a step weaker than the one before, all pairs on all questions."
    rng, rows = stream(seed, "report tests"), []
    for judge, question, (i, j) in product(judges, range(n_questions), list(combinations(range(len(models)), 2))):
        one, two = (i, j) if rng.random() < 0.5 else (j, i)
        won = rng.random() < 1 / (1 + np.exp(step * (one - two)))
        verdict = "invalid" if rng.random() < 0.003 else "tie" if rng.random() < 0.1 else "ab"[not won]
        rows.append((judge, f"<q>{question}", "<i>c</i>", "$v$", models[one], models[two], verdict))
    return table(rows)


def text_of(page: str) -> str:
    "The words of a page, without its pictures."
    page = re.sub(r"(?s)<svg.*?</svg>|<style>.*?</style>", " ", page)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def rows_of(page: str, caption: str) -> list[list[str]]:
    "The cells of the body of the table whose caption begins so."
    found = re.search(rf"(?s)<caption>{caption}.*?<tbody>(.*?)</tbody>", page)
    assert found, caption
    cells = re.compile(r"(?s)<(?:td|th)[^>]*>(.*?)</(?:td|th)>")
    return [[text_of(cell) for cell in cells.findall(row)] for row in found[1].split("</tr>")[:-1]]


# ---- numbers, counted by hand


@pytest.fixture
def counted() -> pd.DataFrame:
    """Twelve questions, both orders. a beats b on all but question 0, whatever is shown first; b and c tie;
    against c the answer shown first wins on the even questions, and a on the odd ones."""
    rows = []
    for q in range(12):
        for one, two in (("a", "b"), ("b", "a")):
            better = "b" if q == 0 else "a"
            rows.append(("j", q, "all", one, one, two, "a" if one == better else "b"))
        rows += [("j", q, "all", "a", "b", "c", "tie"), ("j", q, "all", "b", "c", "b", "tie")]
        rows += [("j", q, "all", "a", "a", "c", "a"), ("j", q, "all", "b", "c", "a", "a" if q % 2 == 0 else "b")]
    return table(rows)


def test_the_numbers_are_those_that_a_hand_counts(counted):
    report = make_report(counted, n_resamples=199)
    assert report.scores["model"].tolist() == ["a", "c", "b"]
    # a over c: 12 wins where a is first, 6 of 12 where c is; a over b: 22 of 24; b and c tie 24 times.
    assert report.wins.tolist() == [[0, 18, 22], [6, 0, 0], [2, 0, 0]]
    assert report.ties.tolist() == [[0, 0, 0], [0, 0, 24], [0, 24, 0]]
    row = report.judges.iloc[0]
    assert (row["verdicts"], row["invalid"], row["ties"], row["both"]) == (72, 0, 24, 36)
    # Decided verdicts in both orders: 24 of a and b, half for the first; 24 of a and c, 12 and 6 of them.
    assert row["rate"] == pytest.approx((12 + 12 + 6) / 48) and row["changed"] == pytest.approx(6 / 36)
    assert (report.board.n_graphs, report.board.n_verdicts, report.board.n_questions) == (24, 72, 12)
    page = report_page(report)
    assert [row[1:] for row in rows_of(page, "Wins–losses")] == [
        ["", "18–6", "22–2"],
        ["6–18", "", "0–0 +24"],
        ["2–22", "0–0 +24", ""],
    ]
    assert ["j", "72", "0.0 %", "33.3 %"] == rows_of(page, "1 judge")[0][:4]
    assert rows_of(page, "1 judge")[0][4].startswith("62.5 % (") and rows_of(page, "1 judge")[0][5] == "16.7 % of 36"
    assert ">75<" in page and ">92<" in page and ">50<" in page  # percentages in the squares


def test_scores_and_ranges_are_those_of_the_leaderboard(counted):
    expected = leaderboard(counted).with_intervals(n_resamples=200, kind="simultaneous", level=0.9, seed=3).table()
    report = make_report(counted, n_resamples=200, level=0.9, seed=3)
    pd.testing.assert_frame_equal(report.scores, expected)
    shown = rows_of(report_page(report), "Scores")
    for cells, row in zip(shown, expected.to_dict("records"), strict=True):
        low, high = row["rank_low"], row["rank_high"]
        limits = f"{row['score_low']:.2f} … {row['score_high']:.2f}".replace("-", "−")
        span = f"{low}" if low == high else f"{low}–{high}"
        assert cells == [f"{row['rank']:g}", span, row["model"], f"{row['score']:.2f}".replace("-", "−"), limits]
    first = expected.loc[expected["rank_low"] == 1, "model"].tolist()
    assert report.could_be_first == first and f"{first[0]} is the best of 3 models" in text_of(report_page(report))


def turns(pairs: list[str], n: int, every: int) -> pd.DataFrame:
    "The first of each pair wins, but for each so many-th question."
    return table([("j", q, "all", 1, *pair.split(), "ab"[(q + at) % every == 0]) for q in range(n)
                  for at, pair in enumerate(pairs)])  # fmt: skip


def test_a_certain_cycle_is_drawn_and_a_decided_order_is_said():
    circle = ["rock scissors", "scissors paper", "paper rock", "rock z", "scissors z", "paper z"]
    report = make_report(turns(circle, 80, 10), n_resamples=199)
    assert report.cycles.confident.tolist() == [True] and not report.decided
    page = report_page(report)
    assert "survives the uncertainty" in text_of(page)
    assert rows_of(page, "The surviving cycles")[0][:3] == ["paper", "rock", "scissors"]
    order = make_report(turns(["a b", "a c", "b c"], 60, 12), n_resamples=199)
    assert order.decided and "All 3 places are decided" in text_of(report_page(order))


def test_the_first_box_names_open_places_and_what_speaks_against_them():
    "Two pairs of equals; a judge that ranks its own family, few questions; lost graphs."
    strong, rng = {"gpt-4-0314": 1, "gpt4-turbo": 1, "llama": 0, "mistral": 0}, stream(2, "first box")
    rows = []
    for judge, q, pair in product(("gpt-4", "people"), range(40), combinations(strong, 2)):
        one, two = pair if rng.random() < 0.5 else pair[::-1]
        rows.append((judge, q, "all", 1, one, two, "ab"[judge == "people" and strong[one] < strong[two]]))
    report = make_report(table(rows[: len(rows) - 60]), incomplete="drop", n_resamples=99)
    assert set(report.self_judged()) == {"gpt-4-0314", "gpt4-turbo"}
    words = text_of(report_page(report))
    box = words[: words.index("At a confidence level")]
    assert "A judge appears to be ranked itself, or a model of its family: gpt" in box and "lack a pair" not in box
    assert "The judge gpt-4 picks the answer shown first in 100 %" not in box, "as a file without an order looks"
    low, high = zip(*report.open_places(), strict=True)
    ranges = report.scores[report.scores["rank_low"] < report.scores["rank_high"]]
    assert min(low) == ranges["rank_low"].min() and max(high) == ranges["rank_high"].max()
    assert all(a > b for a, b in zip(low[1:], high, strict=False))
    few = table([row for row in rows if row[1] < 3 and row[0] == "people"])
    words = text_of(report_page(make_report(few, n_resamples=99)))
    assert re.search(r"3 questions: fewer than \d+ cannot decide the order of any two models", words)
    gone = table([row for at, row in enumerate(rows) if row[0] == "people" and (row[1] >= 8 or at % 6)])
    words = text_of(report_page(make_report(gone, incomplete="drop", n_resamples=99)))
    lost = int((gone["question_id"].astype(int) < 8).sum())
    assert f"{100 * lost / len(gone):.0f} % of the valid verdicts ({lost} of {len(gone)}) are left out" in words
    assert f"{len(gone) - lost} verdicts on 32 questions (32 of 40 graphs), none invalid" in words


def test_a_judge_that_leans_to_one_place_is_warned_of():
    rng = stream(4, "leaning")
    rows = [("j", q, "all", 1, *(pair if rng.random() < 0.5 else pair[::-1]), "ab"[rng.random() < 0.15])
            for q in range(60) for pair in combinations("abc", 2)]  # fmt: skip
    words = text_of(report_page(make_report(table(rows), n_resamples=99)))
    said = re.findall(r"The judge j picks the answer shown first in (\d+) %", words)
    assert [int(share) for share in said] == [round(100 * np.mean([row[6] == "a" for row in rows]))]
    fair = make_report(drawn(tuple("abc"), 40), n_resamples=99)
    assert "picks the answer" not in text_of(report_page(fair))


def test_agreement_of_judges_and_next_calls():
    one, other = drawn(tuple("abcd"), 12), drawn(tuple("abcd"), 12, seed=2).assign(judge="k")
    both = validate_verdicts(pd.concat([one, other]).astype({"judge": str}))
    report = make_report(both, n_resamples=99)
    assert report.agreement["cells"].tolist() == [72]
    assert "choose" not in report.missing["further"] and "--judge" in report.missing["further"]
    further = make_report(one, n_resamples=99).further
    assert further.new_questions and further.pairs["calls"].sum() == further.n_calls
    some = make_report(one.sample(frac=0.5, random_state=1).reset_index(drop=True), incomplete="keep", n_resamples=99)
    assert not some.further.new_questions


# ---- what cannot be said


def test_one_question_two_models_one_of_each():
    questions = (["a", "b"] * 6, ["tie"], ["a"], ["tie"] * 12)  # of two models, one verdict each
    tables = [[("j", q, "all", 1, "a", "b", verdict) for q, verdict in enumerate(said)] for said in questions]
    tables += [[("j", 1, "all", v, a, b, "ab"[v % 3 == 0]) for v in range(6) for a, b in combinations("abc", 2)]]
    for rows in tables:
        report = make_report(table(rows), n_resamples=199)
        words = text_of(report_page(report))
        assert ("cannot be said" in words) == (bool(report.missing.get("ranges")) or report.cycles is None)
        assert not {"nan", "None", "inf"} & set(re.findall(r"\w+", words.replace("None of", "")))


def test_every_verdict_of_incomplete_graphs_counts():
    whole = drawn(tuple("abcdef"), 20)
    part = whole[np.arange(len(whole)) % 3 != 0].reset_index(drop=True)
    report = make_report(part, n_resamples=99)
    assert report.board.n_lost == 0 and report.questions is None
    n_valid = (part["verdict"] != "invalid").sum()
    said = f"This rests on {n_valid} verdicts of the judge j on 20 questions; 1 verdict more is"
    assert said in text_of(report_page(report))


def test_what_diagnose_says_is_on_the_page_and_of_large_tables_what_is_quick(monkeypatch):
    table = drawn(tuple("abcd"), 12)
    report = make_report(table, n_resamples=99)
    whole = text_of(report_page(report))
    assert all(line in whole for line in report.said(*SAID, "advice")) and len(report.said("misspecification")) == 1
    monkeypatch.setattr("ppe.reports.report.LARGE_TABLE", 10)
    report = make_report(table, n_resamples=99)
    assert not report.said("misspecification", "question_effect_size")
    assert report.said("advice")[0] in text_of(report_page(report)) and whole.count("One score per model") == 1


@pytest.mark.parametrize("ranker", RANKERS)
def test_every_ranker_makes_a_report(ranker):
    report = make_report(drawn(tuple("abcd"), 8), ranker=ranker, n_resamples=39)
    words = text_of(report_page(report))
    assert RANKERS[ranker].label in words
    promised = "At a confidence level of 95 % all true ranks lie in their ranges at once (39 sign flips" in words
    assert promised == ("hold for all models at once" in words) == (report.board.kind == "simultaneous")
    assert promised != ("the central 95 % of 39 resamples of the questions: a description" in words)


# ---- the command


def run(capsys, *words: object) -> tuple[int, str, str]:
    code = main(["report", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command_writes_the_same_bytes_and_says_how(capsys, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    write_verdicts(drawn(tuple("abcd")), "it's <here>.csv")
    Path("ref.csv").write_text("model,rating\na,4\nb,3\nc,2\nd,1\n")
    words = ["it's <here>.csv", *"--out r.html --reference ref.csv --level 0.9 --intervals 99 --seed 5".split()]
    assert run(capsys, *words)[0] == 0
    first = Path("r.html").read_bytes()
    page = text_of(first.decode())
    assert "Ranking of models it's <here>.csv · judged by j · 1970-01-02" in " ".join(page.split())
    line = "ppe report 'it'\"'\"'s <here>.csv' --out r.html --reference ref.csv --intervals 99 --level 0.9 --seed 5"
    assert line in page and "Distance to the reference: spearman" in page and str(tmp_path) not in page
    code, _, err = run(capsys, *words)
    assert code == 2 and "not overwritten" in err and Path("r.html").read_bytes() == first
    assert run(capsys, *words, "--force")[0] == 0 and Path("r.html").read_bytes() == first
    program = f"from ppe.cli.main import main; main({['report', *words, '--force']})"
    env = os.environ | {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    hashed = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True)
    assert hashed.returncode == 0 and hashed.stderr == b"" and Path("r.html").read_bytes() == first


def test_what_is_refused_is_one_line_and_writes_nothing(capsys, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = drawn(tuple("abcd"))
    write_verdicts(good, "v.csv")
    write_verdicts(good.assign(verdict="invalid"), "invalid.csv")
    Path("counts.csv").write_text("model_a,model_b,wins_a,wins_b,ties\na,b,3,1,0\n")
    Path("ref.csv").write_text("model,rating\na,4\n")
    Path("link.html").symlink_to("elsewhere.html")
    Path("folder.html").mkdir()
    before = sorted(os.listdir())
    for line, said in (
        ("v.csv", "--out"),
        ("v.csv --out r.txt", ".html"),
        ("v.csv --out no/r.html", "no folder"),
        ("counts.csv --out r.html", "counts of pairs"),
        ("v.csv v.csv v.csv --out r.html", "unexpected extra argument (v.csv)"),
        ("invalid.csv --out r.html", "no valid verdict"),
        ("v.csv --judge x --out r.html", "judge 'x'"),
        ("v.csv --category x --out r.html", "category 'x'"),
        ("v.csv --intervals 3 --out r.html", "resamples"),
        ("v.csv --reference ref.csv --out r.html", "reference"),
        ("v.csv --level 1 --out r.html", "level"),
        ("v.csv --ranker elo --out r.html", "elo"),
        ("v.csv --out link.html --force", "link"),
        ("v.csv --out folder.html --force", "folder"),
        ("- - --out r.html", "standard input"),
        ("v.csv invalid.csv --out r.html", "no valid verdict"),
    ):
        code, out, err = run(capsys, *line.split())
        assert (code, out, err.count("\n")) == (2, "", 1) and said in err, (line, err)
        assert sorted(os.listdir()) == before, line


def test_the_function(tmp_path: Path):
    verdicts, path = drawn(tuple("abc"), 12), tmp_path / "r.html"
    assert "Ranking of models" in ppe.report(verdicts, out=path, intervals=99).html == path.read_text()
    assert "ppe report" not in path.read_text()
    assert "What changed" in ppe.report(verdicts, verdicts, intervals=99).html
    with pytest.raises(InputError, match=r"\.html"):
        ppe.report(verdicts, intervals=99).write(tmp_path / "r.pdf")


# ---- two files


def test_percentiles_decide_no_pair_of_a_comparison():
    old, new = drawn(tuple("abcd"), 12), drawn(tuple("abdc"), 12)
    for ranker, promised in (("copeland", False), ("bradley-terry", True)):
        words = text_of(comparison_page(compare_tables(old, new, ranker=ranker, n_resamples=99)))
        assert promised == ("all pairs of a table at once" in words)
        assert promised != ("percentiles of resamples, which decide no pair" in words)


def test_what_is_compared_is_said():
    old, other = drawn(tuple("abcd"), 20), drawn(tuple("abcd"), 20, judges=("k",), seed=2)
    later = drawn(tuple("abcd"), 30, seed=3)
    judges, files, same = (compare_tables(old, new, n_resamples=99) for new in (other, later, old))
    assert judges.about() == "j and k, two judges, on the same 4 models and the same 20 questions"
    words = text_of(comparison_page(judges))
    assert "Two judges compared" in words and "before" not in words and "changed" not in words
    assert judges.cells["shared"] == 120 and judges.same["valid"] > 100, "verdicts of both on the same pair and wording"
    assert files.about().endswith("the same 4 models and 20 questions in common (10 in the new table alone)")
    assert files.about().startswith("the same judge,") and files.labels == same.labels == ["old", "new"]
    mixed = validate_verdicts(pd.concat([old, other]).astype({"judge": str}))
    assert compare_tables(old, mixed, n_resamples=99).labels == ["first", "second"]


@pytest.mark.parametrize(("models", "sentence", "places"), [
    (("d", "e", "f"), "The tables have no model in common.", "No model is in both tables"),
    (("c", "d", "e"), "one model in common, so there is no order to compare.", "One model has no order")
])  # fmt: skip
def test_tables_with_fewer_than_two_common_models_have_no_order_to_compare(models, sentence, places):
    page = comparison_page(compare_tables(drawn(("a", "b", "c"), 12), drawn(models, 12), n_resamples=99))
    words = text_of(page)
    assert sentence in words and words.count(places) >= 1 and "changed places" not in words


def test_names_that_differ_in_the_middle_stay_apart():
    old, new = (
        [f"organisation/a-model-of-seven-billion-step-{s}-of-2000-trained-on-our-own-data" for s in steps]
        for steps in ((100, 200, 300), (150, 200, 300))
    )
    verdicts = drawn(old, 20, step=0.0, judges=old[:2])
    pages = (
        report_page(make_report(verdicts, n_resamples=99)),
        comparison_page(compare_tables(verdicts, drawn(new, 20, step=0.0, judges=old[:2]), n_resamples=99)),
    )
    for page in pages:
        for picture in re.findall(r"(?s)<svg.*?</svg>", page):
            shown = {html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*…[^<]*)</text>", picture)}
            assert len(shown) == (2 if re.search('id="(places|slopes)-title', picture) else 3), shown
            assert all(len(text.partition("\u2002")[0]) <= 24 for text in shown)  # and its number in the matrix
        for sentence in re.findall(r"(?s)<(?:p|td)>(?:(?!</).)*?(?:<bdi>[^<]*…[^<]*</bdi>[^<]*){2,}", page):
            names = re.findall(r"<bdi>([^<]*)</bdi>", sentence)
            assert len(set(names)) == len(names), names
    added, removed = rows_of(pages[1], "What only")[0][1:]
    assert added != removed and "150" in added and "100" in removed


# ---- hostile names in a real browser


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    "Pages of a table of hostile names, by name."
    folder = tmp_path_factory.mktemp("hostile")
    judges = ('<b>judge</b> "x"', "قاضٍ", "j" * 120)
    write_verdicts(drawn(HOSTILE, 10, judges=judges), folder / "<img src=x>.csv")
    write_verdicts(drawn(HOSTILE[1:], 10, judges=judges[:2], seed=2), folder / "new.csv")
    here = os.getcwd()
    os.chdir(folder)
    try:
        for out, words in (("report", ()), ("comparison", ("new.csv",)), ("single", ("--judge", judges[0]))):
            assert main(["report", "<img src=x>.csv", *words, "--out", f"{out}.html", "--intervals", "99"]) == 0
    finally:
        os.chdir(here)
    return {name: (folder / f"{name}.html").read_text() for name in ("report", "comparison", "single")}


def test_a_hostile_page_is_text(hostile):
    for page in hostile.values():
        lower = page.lower()
        assert not [bad for bad in ("<script", "<img", "<b>", " style=", "javascript:") if bad in lower]
        assert "{{ 7*7 }}{% raw %}" in page
        assert not re.findall(r"\son\w+=", re.sub(r">[^<]*<", "><", page))
        for address in re.findall(r"https?://[^\"\s<)]+", page):
            assert address.startswith("http://www.w3.org/"), address  # names of XML, which nobody fetches
        assert "⟨U+3164⟩⟨U+115F⟩" in page and "$x^2$ \\frac{1}{0}" in page
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1]
        assert html.unescape(policy).startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy
    assert ("x" * 300) in hostile["report"] and ("j" * 120) in hostile["report"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory):
    if chromium() is None:
        pytest.skip("no Chromium on this machine: the page is not opened")
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


SEEN = """(() => { const d = document, charts = [...d.querySelectorAll('svg[role=img]')];
  const described = charts.filter(s => ['title', 'desc'].every(t => s.querySelector(t).textContent));
  return [d.documentElement.lang, d.documentElement.scrollWidth, d.scripts.length + d.images.length,
          d.querySelectorAll('b, i, img, script, iframe, object').length, charts.length, described.length] })()"""


@pytest.mark.parametrize("name", ["report", "comparison", "single"])
@pytest.mark.parametrize("policy", [True, False])
def test_a_browser_shows_names_runs_nothing_and_asks_for_nothing(hostile, name, policy, browser, tmp_path: Path):
    "On a phone of 390 pixels; without the policy a script of a name would run, and an alert would stop the page."
    path = tmp_path / "page.html"
    path.write_text(hostile[name] if policy else re.sub("<meta http-equiv[^>]*>", "", hostile[name]))
    visit = browser.open(path.as_uri(), width=390)
    assert (visit.requests, visit.complaints) == ([path.as_uri()], [])
    language, width, active, strange, charts, described = browser.evaluate(SEEN)
    assert (language, active, strange) == ("en", 0, 0) and width <= 390 and charts == described >= 1
    shown = browser.evaluate("document.documentElement.outerHTML")
    words, titles = text_of(shown), html.unescape(" ".join(re.findall(r'title="([^"]*)"', shown)))
    for text in set(HOSTILE) - ({HOSTILE[0]} if name == "comparison" else set()) - {"\u3164\u115f"}:
        assert " ".join(text.split()) in words or (len(text) > 32 and text in titles), text


# ---- size


@pytest.mark.slow
def test_fifty_models_on_a_thousand_graphs_stay_small():
    rng, (i, j) = np.random.default_rng(1), np.triu_indices(50, 1)
    wins = rng.random((1000, len(i))) < 1 / (1 + np.exp((i - j) * 0.06))
    names, graph = [f"a-model-with-a-name-{k:02d}" for k in range(50)], np.repeat(np.arange(1000), len(i))
    rows = {"judge": "j", "question_id": graph // 5, "category": "all", "variant": graph % 5}
    rows |= {side: pd.Categorical.from_codes(np.tile(at, 1000), names) for side, at in (("model_a", i), ("model_b", j))}
    verdicts = validate_verdicts(pd.DataFrame(rows | {"verdict": np.where(wins.ravel(), "a", "b")}))
    page = ppe.report(verdicts).html
    text = text_of(page)
    assert len(page.encode()) < 2_000_000 and "Use all graphs, once" in text and "a typical question" not in text


def test_a_public_set():
    report = make_report(load_verdicts("vicuna80-gpt4"), n_resamples=199)
    assert report.scores["model"].iloc[0] == "gpt4" and report.could_be_first == ["gpt4"]
    assert len(report_page(report)) < 100_000

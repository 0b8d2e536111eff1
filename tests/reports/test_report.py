"""`ppe report`: what its tables count, hostile names in a real browser, what cannot be had, two files."""

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
from ppe.random_streams import stream
from ppe.rankers.registry import COUNT_RANKERS
from ppe.reports.tables import further_calls, judge_agreement, judge_table
from ppe.sources.datasets import load_verdicts
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


def test_the_judge_and_the_matrix_are_those_that_a_hand_counts(counted):
    row = judge_table(counted).iloc[0]
    assert (row["verdicts"], row["invalid"], row["ties"], row["both"]) == (72, 0, 24, 36)
    # Decided verdicts in both orders: 24 of a and b, half for the first; 24 of a and c, 12 and 6 of them.
    assert row["rate"] == pytest.approx((12 + 12 + 6) / 48) and row["changed"] == pytest.approx(6 / 36)
    # Points in percent: a took 18 of 24 of c and 22 of 24 of b; b and c tie 24 times.
    page = ppe.report(counted, intervals=199).html
    assert ">75<" in page and ">92<" in page and ">50<" in page


def test_a_page_holds_what_the_commands_return(counted):
    page = ppe.report(counted, intervals=200, level=0.9, seed=3)
    results = {section.heading: section.result for section in page.sections}
    board = ppe.rank(counted, intervals=200, level=0.9, seed=3, interval_kind="simultaneous")
    assert results["Ranking"].to_dict() == board.to_dict()
    assert results["How far to trust it"].to_dict() == ppe.diagnose(counted, level=0.9, seed=3).to_dict()
    assert results["Questions behind the order"].to_dict() == ppe.show(counted).to_dict()
    words = text_of(page.html)
    for line in ppe.diagnose(counted, level=0.9, seed=3).lines():
        assert line in words
    for row in board.to_frame().to_dict("records"):
        assert f"{row['rank']:.4g} {row['model']} " in words


def test_agreement_of_judges_and_next_calls():
    one, other = drawn(tuple("abcd"), 12), drawn(tuple("abcd"), 12, seed=2).assign(judge="k")
    both = validate_verdicts(pd.concat([one, other]).astype({"judge": str}))
    assert judge_agreement(both, ["j", "k"])["cells"].tolist() == [72]
    reasons = {section.heading: section.reason for section in ppe.report(both, intervals=99).sections}
    assert "--judge" in reasons["What to judge next"]
    further = further_calls(one)
    assert further.new_questions and further.pairs["calls"].sum() == further.n_calls
    assert not further_calls(one.sample(frac=0.5, random_state=1).reset_index(drop=True)).new_questions


# ---- what cannot be had


def test_one_question_two_models_one_of_each():
    questions = (["a", "b"] * 6, ["tie"], ["a"], ["tie"] * 12)  # of two models, one verdict each
    tables = [[("j", q, "all", 1, "a", "b", verdict) for q, verdict in enumerate(said)] for said in questions]
    tables += [[("j", 1, "all", v, a, b, "ab"[v % 3 == 0]) for v in range(6) for a, b in combinations("abc", 2)]]
    for rows in tables:
        page = ppe.report(table(rows))
        reasons = {section.heading: section.reason for section in page.sections}
        two_models = len({row[4] for row in rows}) == 1
        assert ("two models make no cycle" in reasons["Cycles"]) == two_models
        assert not {"nan", "None", "inf"} & set(re.findall(r"\w+", text_of(page.html)))


@pytest.mark.parametrize("ranker", COUNT_RANKERS)
def test_every_ranker_makes_a_report(ranker):
    page = ppe.report(drawn(tuple("abcd"), 8), ranker=ranker, intervals=39)
    board = page.sections[0].result
    assert board.ranking.ranker == ranker and page.html.count("<svg") >= 2


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
    assert "Ranking of models 1970-01-02" in page and "it's <here>.csv, SHA-256" in page
    line = "ppe report 'it'\"'\"'s <here>.csv' --reference ref.csv --incomplete auto"
    assert f"{line} --intervals 99 --level 0.9 --seed 5" in page
    assert "distance to the reference: spearman" in page and str(tmp_path) not in page
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
    with pytest.raises(InputError, match=r"\.html"):
        ppe.report(verdicts, intervals=99).write(tmp_path / "r.pdf")


# ---- two files


def test_two_tables_are_compared_as_models_or_as_judges():
    old, other = drawn(tuple("abcd"), 20), drawn(tuple("abcd"), 20, judges=("k",), seed=2)
    later = drawn(("a", "b", "c", "e"), 20, seed=3)
    judges, versions, same = (ppe.report(old, new, intervals=99) for new in (other, later, old))
    assert judges.sections[0].result.to_dict() == ppe.compare(old, other, judges=True).to_dict()
    assert versions.sections[0].result.to_dict() == ppe.compare(old, later).to_dict()
    for page, new in ((judges, other), (versions, later)):
        now = ppe.rank(new, intervals=99, interval_kind="simultaneous")
        assert [section.heading for section in page.sections[1:3]] == ["Before", "Now"]
        assert page.sections[2].result.to_dict() == now.to_dict()
    assert same.sections[0].result is not None or same.sections[0].reason


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
        assert not [bad for bad in ("<script", "<img", "<b>judge", "<i>c", "<q>", "javascript:") if bad in lower]
        assert "{{ 7*7 }}{% raw %}" in page
        assert not re.findall(r"\son\w+=", re.sub(r">[^<]*<", "><", page))
        for address in re.findall(r"https?://[^\"\s<)]+", page):
            assert address.startswith("http://www.w3.org/"), address  # names of XML, which nobody fetches
        assert "⟨U+3164⟩⟨U+115F⟩" in page and "$x^2$ \\frac{1}{0}" in page
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1]
        assert html.unescape(policy) == "default-src 'none'; style-src 'unsafe-inline'"
    assert ("x" * 300) in hostile["report"] and ("j" * 120) in hostile["report"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory):
    if chromium() is None:
        pytest.skip("no Chromium on this machine: the page is not opened")
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


SEEN = """(() => { const d = document, charts = [...d.querySelectorAll('figure svg[role=img]')];
  const described = charts.filter(s => ['title', 'desc'].every(t => s.querySelector(t).textContent));
  return [d.documentElement.lang, d.documentElement.scrollWidth, d.scripts.length + d.images.length,
          d.querySelectorAll('i, q, img, script, iframe, object').length, charts.length, described.length] })()"""


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
    words = text_of(shown)
    for text in set(HOSTILE) - ({HOSTILE[0]} if name == "comparison" else set()) - {"\u3164\u115f"}:
        assert " ".join(text.split()) in words, text


# ---- size


@pytest.mark.slow
def test_fifty_models_on_hundreds_of_graphs_stay_small():
    rng, (i, j) = np.random.default_rng(1), np.triu_indices(50, 1)
    wins = rng.random((300, len(i))) < 1 / (1 + np.exp((i - j) * 0.06))
    names, graph = [f"a-model-with-a-name-{k:02d}" for k in range(50)], np.repeat(np.arange(300), len(i))
    rows = {"judge": "j", "question_id": graph // 5, "category": "all", "variant": graph % 5}
    rows |= {side: pd.Categorical.from_codes(np.tile(at, 300), names) for side, at in (("model_a", i), ("model_b", j))}
    verdicts = validate_verdicts(pd.DataFrame(rows | {"verdict": np.where(wins.ravel(), "a", "b")}))
    page = ppe.report(verdicts).html
    text = text_of(page)
    assert len(page.encode()) < 2_000_000 and "Use all graphs, once" in text


def test_a_public_set():
    page = ppe.report(load_verdicts("vicuna80-gpt4"), intervals=199)
    assert page.to_frame()["model"].iloc[0] == "gpt4" and len(page.html) < 150_000

"""The site: its pages agree with the repository, links resolve, nothing is fetched, a browser shows it."""

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from fcntl import LOCK_EX, flock
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import pytest
from stage_notebooks import ROOT, stage_notebooks

SITE = ROOT / "site"
sys.path.insert(0, str(SITE))

import light  # noqa: E402
import links  # noqa: E402
import make_site  # noqa: E402
import reference  # noqa: E402
import stage  # noqa: E402
from browser import Browser, chromium  # noqa: E402

from ppe.cli.main import app  # noqa: E402
from ppe.paper.artefacts import read_fronts  # noqa: E402

PAGES = sorted(SITE.glob("*.md"))
TEXTS = {page.name: page.read_text(encoding="utf-8") for page in (*PAGES, ROOT / "README.md")}

# ---- what the pages say, before anything is built


def commands(text: str) -> list[list[str]]:
    "Words of every `ppe …` in blocks of code and between backticks."
    blocks = re.findall(r"(?ms)^```(?:console)?\n(.*?)^```", text.replace("\\\n", " "))  # a command may go on
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    inline = re.findall(r"`(ppe [a-z][^`]*)`", re.sub(r"(?ms)^```.*?^```", "", text))
    found = [line for line in [*lines, *inline] if line.startswith("ppe ")]
    return [shlex.split(line, comments=True)[1:] for line in found]


def refusal(words: list[str]) -> str:
    "What is wrong with the words after `ppe`: an unknown command or option; empty if nothing is."
    command, context, rest = app, click.Context(app), words
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        if found is None:
            return f"no command {rest[0]!r}"
        command, context, rest = found, click.Context(found, parent=context), rest[1:]
    try:
        command.make_parser(context).parse_args(list(rest))
    except click.UsageError as error:
        return error.format_message()
    return ""


def test_every_command_of_the_pages_and_the_readme_exists_with_its_options():
    shown = [(name, words) for name, text in TEXTS.items() for words in commands(text)]
    assert {"rank.md", "collect.md", "plan.md", "theory.md", "README.md"} <= {name for name, _ in shown}
    assert not {f"{name}: {' '.join(words)}": why for name, words in shown if (why := refusal(words))}


def test_a_wrong_command_or_option_is_noticed():
    for words in ("ranks verdicts.csv", "rank verdicts.csv --interval 3", "data fetches"):
        assert refusal(words.split())
    assert not refusal(["rank", "verdicts.csv", "--intervals", "3"])


def test_every_make_target_that_is_shown_exists():
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    shown = {name for text in TEXTS.values() for name in re.findall(r"`[^`\n]*\bmake ([a-z-]+)", text)}
    assert {"paper", "demo", "test"} <= shown <= targets and "site" in targets


@pytest.mark.parametrize("names", [["README.md"], [page.name for page in PAGES]], ids=["readme", "pages"])
def test_the_python_that_is_shown_runs(tmp_path: Path, names: list[str]):
    blocks = [block for name in names for block in re.findall(r"(?ms)^```python\s*\n(.*?)^```", TEXTS[name])]
    assert blocks
    shutil.copytree(ROOT / "data", tmp_path / "data", ignore=shutil.ignore_patterns("external"))
    command = [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", "\n\n".join(blocks)]
    environment = os.environ | {"MPLBACKEND": "agg"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr


def test_every_notebook_of_the_paper_stands_on_one_page_and_in_one_section():
    shown = re.findall(r"<!-- gallery: ([\w ]+) -->", TEXTS["paper.md"] + TEXTS["theory.md"])
    assert sorted(" ".join(shown).split()) == sorted(read_fronts(ROOT))


def test_pages_have_names_of_their_own_and_cards_say_them(staging: stage.Staging):
    titles = {
        place: re.search(
            r"(?m)^# (.+)$", "".join(json.loads(text)["cells"][0]["source"]) if place.endswith("ipynb") else text
        )[1]
        for place, text in ((place, path.read_text(encoding="utf-8")) for place, path in staging.pages.items())
    }
    assert sorted(titles.values()) == sorted(set(titles.values()))
    for name, link in re.findall(r"(?m)^\*\*\[([^\]]+)\]\(([^)#]+)\)\*\*$", TEXTS["index.md"]):
        assert titles[link.removeprefix("../")] == name
    assert not re.search(r"(?m)^[^`\n]+ <[\w/]+>$", "".join(TEXTS.values())), (
        "an entry of a toctree with a name of its own"
    )


# ---- staging


@pytest.fixture(scope="module")
def staging(tmp_path_factory: pytest.TempPathFactory) -> stage.Staging:
    return stage.Staging(tmp_path_factory.mktemp("staging"))


def test_links_lead_to_pages_and_to_files_that_come_along(staging: stage.Staging):
    figure = ("nbs/figures/fig_mu.ipynb",) * 2
    page, reading = ("site/rank.md", "rank.md"), ("nbs/reading.md",) * 2
    for (origin, place), link, wanted in (
        (figure, "../cycle_scores.ipynb", "../cycle_scores.ipynb"),
        (figure, "../../figures/fig_mu.csv", "../../figures/fig_mu.csv"),
        (reading, "tables/tab_main.ipynb", "tables/tab_main.ipynb"),
        (reading, "#Here", "#here"),
        (page, "../nbs/guide.ipynb#A-b", "nbs/guide.ipynb#a-b"),
        (page, "glossary.md", "glossary.md"),
        (page, "../ppe/cycle_scores.py", "ppe/cycle_scores.py"),
        (page, "https://example.org", "https://example.org"),
    ):
        assert staging.relinked(f"[x]({link})", origin, place) == f"[x]({wanted})"
    assert staging.relinked("`[x](nowhere)`", "site/rank.md", "rank.md") == "`[x](nowhere)`"
    assert staging.files["ppe/cycle_scores.py"] == ROOT / "ppe" / "cycle_scores.py"
    for link in ("nowhere.md", "../tests"):
        with pytest.raises(SystemExit, match=f"site/rank.md links to {link}"):
            staging.relinked(f"[x]({link})", "site/rank.md", "rank.md")


def test_a_notebook_is_shown_without_directives_and_with_alternative_texts(staging: stage.Staging):
    def code(*lines: str, outputs: tuple = ()) -> dict:
        return {"cell_type": "code", "source": "\n".join(lines), "metadata": {}, "outputs": list(outputs)}

    cells = [
        code("#| default_exp cycle_scores"),
        code("#| hide", "secret()"),
        code("#| export", "import re"),
        code(
            "#| fig-alt: Two lines that cross: one falls",
            "draw()",
            outputs=({"output_type": "display_data"},),
        ),
    ]
    shown = staging.notebook({"cells": cells, "metadata": {}}, "nbs/cycle_scores.ipynb")["cells"]
    assert [cell["source"] for cell in shown] == ["import re", "draw()"]
    assert shown[1]["metadata"]["mystnb"]["image"]["alt"] == "Two lines that cross: one falls"


def test_the_reference_has_every_public_name_with_its_parameters():
    pages = reference.reference_pages(ROOT)
    known = reference.Reference(ROOT)
    for name, module in known.front_door.items():
        anchor = reference.label(module, name)
        assert f"](#{anchor})" in pages["api/index.md"], name
        assert sum(f"({anchor})=\n" in text for text in pages.values()) == 1, name
    anchors = [anchor for text in pages.values() for anchor in re.findall(r"(?m)^\((api-[\w-]+)\)=$", text)]
    assert len(anchors) == len(set(anchors))
    entry = pages["api/ppe-rankers.md"].split("(api-rankers-registry-find-ranker)=")[1].split("\n(api-")[0]
    assert entry.split("\n\n")[1:] == [
        "```python\nfind_ranker(name)\n```",
        "The method of this name; an unknown name is an InputError that lists the known ones.",
        f"`name` : `str`\n: a key of [`RANKERS`](#{reference.label('rankers.registry', 'RANKERS')})",
        "**Returns** `Ranker`\n",
    ]


def test_a_picture_in_a_link_gets_no_link_of_its_own(tmp_path: Path):
    light.Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    for before in ('<a href="x.html">', '<a href="x.html"><span class="doc">'):
        assert light.with_pictures(tmp_path / "a.html", f'{before}<img src="a.png" alt="x">').count("<a ") == 1
    assert light.with_pictures(tmp_path / "a.html", '<img src="a.png" alt="x">').count("<a ") == 1


# ---- the link checker, and MathJax


def test_the_link_checker_finds_what_is_broken(tmp_path: Path):
    (tmp_path / "b.html").write_text('<p id="there">x</p><a href="a.html">back</a>')
    page = '<a href="b.html#there">x</a> <a href="https://example.org/gone">x</a> <a href="#top">x</a>'
    (tmp_path / "a.html").write_text(page)
    assert links.broken_links(tmp_path) == []
    for broken in ("c.html", "b.html#nowhere", "#nowhere", "folder/"):
        (tmp_path / "a.html").write_text(f'{page}<a href="{broken}">x</a>')
        assert links.broken_links(tmp_path) == [f"a.html: {broken}"]
    (tmp_path / "a.html").write_text('<img src="no.png" alt="x">')
    assert links.broken_links(tmp_path) == ["a.html: no.png"]


def test_what_is_fetched_from_another_host_is_found(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        '<a href="https://example.org">a click is no request</a><script src="_static/a.js"></script>'
    )
    (tmp_path / "a.css").write_text("a { background: url(data:image/png;base64,AA) url('b.png') }")
    assert links.foreign(tmp_path) == []
    for foreign in (
        '<script src="https://cdn.example.org/a.js"></script>',
        '<link rel="stylesheet" href="//example.org/a.css">',
        '<link rel="preload" href="https://example.org/a.woff2">',
        '<img src="http://example.org/a.png">',
        '<iframe src="https://example.org"></iframe>',
    ):
        (tmp_path / "a.html").write_text(foreign)
        assert len(links.foreign(tmp_path)) == 1, foreign
    (tmp_path / "a.html").write_text("")
    for sheet in (
        "@font-face { src: url('https://fonts.example.org/a.woff2') }",
        '@import "https://example.org/a.css";',
    ):
        (tmp_path / "a.css").write_text(sheet)
        assert links.foreign(tmp_path), sheet


def test_mathjax_without_npm_or_with_another_hash_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(make_site.BuildError, match="install npm"):
        make_site.mathjax(tmp_path)
    (tmp_path / f"mathjax-{make_site.MATHJAX}.tgz").write_bytes(b"something else")
    with pytest.raises(make_site.BuildError, match="not the pinned one: delete it and build again"):
        make_site.mathjax(tmp_path)
    assert not (tmp_path / "mathjax").exists()


# ---- the built site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    "Built once for all processes of one test run, into build/site/."
    try:
        (ROOT / "build").mkdir(exist_ok=True)
        make_site.mathjax()
    except make_site.BuildError as error:
        pytest.skip(str(error))
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    stamp = ROOT / "build" / "site.built"
    with (ROOT / "build" / "site.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not (stamp.exists() and stamp.read_text() == run):
            done = subprocess.run([sys.executable, SITE / "make_site.py"], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            stamp.write_text(run)
    return ROOT / "build" / "site"


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[str, links.Page]:
    return {path.relative_to(site).as_posix(): page for path, page in links.read_pages(site).items()}


@pytest.mark.slow
def test_every_link_resolves_and_nothing_is_fetched_from_elsewhere(site: Path):
    assert links.broken_links(site) == [] and links.foreign(site) == []


@pytest.mark.slow
def test_every_notebook_and_page_of_the_contents_is_there(pages: dict[str, links.Page]):
    wanted = {
        "CHANGELOG.html",
        "data/README.html",
        "demo/README.html",
        "nbs/reading.html",
        "api/index.html",
        "search.html",
    }
    wanted |= {path.relative_to(ROOT).with_suffix(".html").as_posix() for path in stage_notebooks()}
    notebooks = [front.item.notebook for front in read_fronts(ROOT).values()]
    wanted |= {Path(notebook).with_suffix(".html").as_posix() for notebook in notebooks} | {
        f"{page.stem}.html" for page in PAGES
    }
    assert wanted <= set(pages)


@pytest.mark.slow
def test_every_picture_has_an_alternative_text(pages: dict[str, links.Page]):
    "One that was written: not the page's stopgap, nor the file name that Sphinx puts where there is none."
    lacking = [
        f"{name}: {address}"
        for name, page in pages.items()
        for address, alt in page.images
        if not alt.strip() or alt.startswith(stage.NO_ALT) or alt.endswith((".png", ".svg"))
    ]
    assert not lacking


# ---- in a browser


@pytest.fixture(scope="session")
def address(site: Path):
    "The site over HTTP on this machine."

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory):
    if chromium() is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on PATH")
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


# Each kind of page: home, pictures, gallery, commands, table of statements, glossary, reference, a figure, a
# table, a theorem, stage notebooks with formulas and wide tables, guides, Markdown of the repository.
SHOWN = (
    "index", "story", "found", "paper", "rank", "theory", "glossary", "library", "api/index", "api/ppe-rankers",
    "api/ppe-inference", "api/ppe-inference-score_tests",
    "nbs/figures/fig_beyond", "nbs/tables/tab_main", "nbs/theorems/thm_main", "nbs/cycle_scores", "nbs/theory/mallows",
    "nbs/guide", "nbs/guide_calls", "nbs/guide_decisions", "nbs/README", "nbs/reading", "data/README", "CHANGELOG",
)  # fmt: skip
# Without the white frame that a picture has on a dark page.
WARPED = """[...document.images].filter(i => {
    const look = getComputedStyle(i), inside = (length, a, b) => length - parseFloat(look[a]) - parseFloat(look[b]);
    const width = inside(i.clientWidth, 'paddingLeft', 'paddingRight');
    const height = inside(i.clientHeight, 'paddingTop', 'paddingBottom');
    return height > 0 && look.objectFit == 'fill'
           && Math.abs(width * i.naturalHeight / height / i.naturalWidth - 1) > 0.03 }).length"""
UNSET = """[...document.querySelectorAll('.math')]
           .filter(m => !m.querySelector('mjx-container') || m.querySelector('mjx-merror')).length"""


CUT_OFF = "[...document.querySelectorAll('article pre')].filter(block => block.scrollWidth > block.clientWidth).length"


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_a_page_shows_as_it_should(name: str, browser: Browser, address: str):
    for width, dark in ((1280, False), (390, True)):
        visit = browser.open(f"{address}{name}.html", width=width, dark=dark)
        assert not visit.complaints
        outside = [url for url in visit.requests if not url.startswith((address, "data:", "blob:"))]
        assert visit.requests and not outside
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, (
            f"{name} scrolls sideways at {width} px"
        )
        assert browser.evaluate("document.querySelector('article h1').innerText.trim().length") > 0
        assert browser.evaluate(UNSET) == 0, "formulas that MathJax left or refused"
        assert browser.evaluate("[...document.images].filter(i => !i.alt.trim()).length") == 0
        assert browser.evaluate(WARPED) == 0, "pictures out of proportion"
        assert browser.evaluate(CUT_OFF) == 0 or width < 1280
        assert browser.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")


@pytest.mark.slow
def test_formulas_are_set(browser: Browser, address: str):
    browser.open(f"{address}nbs/cycle_scores.html")
    assert browser.evaluate("document.querySelectorAll('mjx-container').length") > 20


@pytest.mark.slow
def test_the_browser_notices_an_error_and_a_request(browser: Browser, tmp_path: Path):
    (tmp_path / "a.html").write_text("<script>console.error('bad'); nowhere()</script><img src='gone.png'>")
    visit = browser.open((tmp_path / "a.html").as_uri())
    assert len(visit.complaints) >= 3 and any("nowhere" in text for text in visit.complaints)
    assert any(url.endswith("gone.png") for url in visit.requests)


@pytest.mark.slow
def test_no_page_is_heavy(browser: Browser, address: str, site: Path):
    "What the pages of `SHOWN` load, pictures included, before anything is scrolled."
    heavy = {}
    browser.call("Network.setCacheDisabled", cacheDisabled=True)  # fonts of the page before would count again
    for name in (*SHOWN, "search"):
        requests = {url.split("?")[0] for url in browser.open(f"{address}{name}.html").requests}
        files = [site / url.removeprefix(address) for url in requests if url.startswith(address)]
        heavy[name] = sum(file.stat().st_size for file in files if file.is_file())
    assert heavy.pop("search") <= 800_000, "with the words of all pages"
    assert max(heavy.values()) <= 660_000, heavy


FOUND = """new Promise((done) => { const look = (n) => {
    const found = [...document.querySelectorAll('#search-results li a')].map((link) => link.innerText);
    /found [0-9]/.test(document.querySelector('.search-summary')?.innerText) || !n
      ? done(found) : setTimeout(() => look(n - 1), 100) }; look(300) })"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "title"),
    [("install", "Rank your own models"), ("glossary", "Glossary"), ("Davidson", "The Davidson model")],
)
def test_search_finds_a_word_in_a_site_opened_from_a_file(browser: Browser, site: Path, word: str, title: str):
    visit = browser.open(f"{site.as_uri()}/search.html?q={word}")
    assert any(title in found for found in browser.evaluate(FOUND)) and not visit.complaints


@pytest.mark.slow
def test_a_picture_opens_large_by_click_or_key(browser: Browser, address: str, site: Path):
    browser.open(f"{address}nbs/figures/fig_mu.html")
    link = browser.evaluate("(link => (link.focus(), link === document.activeElement && link.href))"
                            "(document.querySelector('a.enlarge'))")  # fmt: skip
    shown = browser.evaluate("document.querySelector('a.enlarge img').getAttribute('src')")
    assert link.startswith(address) and (site / link.removeprefix(address)).is_file() and shown


def test_the_workflow_and_the_environments_start_where_they_should():
    assert "make site" in (ROOT / ".github" / "workflows" / "pages.yml").read_text()
    assert "make setup" in (ROOT / ".binder" / "postBuild").read_text()
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert container["postCreateCommand"] == "make setup"
    opened = container["customizations"]["codespaces"]["openFiles"]
    assert opened == ["nbs/guide.ipynb"] and all((ROOT / path).is_file() for path in opened)

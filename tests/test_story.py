"""The article, the findings, the home page and README.md say and draw what the published tables say."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stage_notebooks import ROOT

from ppe.designs.plans import WORDING_SHARE
from ppe.paper import story

TABLE = story.published(ROOT / "figures")
SAID = story.numbers(TABLE)
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in story.PAGES}
PAGE = pytest.mark.parametrize("name", story.PAGES)


@PAGE
def test_the_committed_page_says_what_the_tables_say(name: str):
    assert story.filled(TEXTS[name], SAID, marked=True) == TEXTS[name], "run `ppe paper publish`"
    assert "<!--" not in re.sub(r"<!-- .*? -->", "", story.filled(TEXTS[name], SAID))


def test_every_number_has_its_place():
    assert {mark for text in TEXTS.values() for mark in re.findall(r"<!--(\w+)-->", text)} == set(SAID)


@PAGE
def test_no_result_is_typed(name: str):
    "What has a decimal point, a percent sign or brackets stands before a mark, but for levels, factors and versions."
    text = re.sub(r"(?ms)^```.*?^```|`[^`]*`|\]\([^)]*\)", "", TEXTS[name])
    text = story._NUMBER.sub("", text)
    found = re.findall(r"(?<![\w.-])(?<!arXiv )−?\d+\.\d+|\d+ %|\[[−\d., ]+\]", text)
    assert set(found) <= {"5 %", "90 %", "95 %", "100 %", "1.25", "3.11"}


def test_a_table_that_changes_changes_the_page(tmp_path: Path):
    read: set[str] = set()

    def seen(name: str) -> pd.DataFrame:
        read.add(name)
        return TABLE(name)

    assert story.numbers(seen) == SAID
    for name in read:
        folder = tmp_path / name
        folder.mkdir()
        for other in read - {name}:
            shutil.copy(ROOT / "figures" / f"{other}.csv", folder)
        frame = TABLE(name).copy()
        drawn = frame.select_dtypes("float").columns.difference(["p", "spread", "settled any time"])
        frame[drawn] = frame[drawn] * 0.8 + 0.02
        frame[["instead of all"] if "instead of all" in frame else []] += 5
        if "holds" in frame:
            frame["holds"] = "no"
        if name in ("fig_real_cycles", "fig_leaderboard"):
            frame[["graphs", "questions"] if "graphs" in frame else ["rank_low"]] += 1
        frame.to_csv(folder / f"{name}.csv", index=False)
        moved = story.numbers(story.published(folder))
        changed = {key for key in SAID if moved[key] != SAID[key]}
        assert changed, name
        for text in TEXTS.values():
            marks = set(re.findall(r"<!--(\w+)-->", text))
            assert (story.filled(text, moved) != story.filled(text, SAID)) == bool(marks & changed)


# ---- pictures


def test_the_pictures_of_the_pages_are_what_would_be_drawn(tmp_path: Path):
    committed = {path.stem: path for path in (ROOT / "site" / "pictures").iterdir()}
    assert set(committed) == set(story.PICTURES)
    for name in ("cut", "calls"):  # one of each kind
        again = story.write_picture(name, TABLE, tmp_path / f"{name}.png")
        assert again.read_bytes() == committed[name].read_bytes(), "run `ppe paper publish`"


@pytest.mark.parametrize("name", story.PICTURES)
def test_a_picture_fits_its_page_and_says_its_message(name: str):
    import matplotlib.pyplot as plt

    fig = story.draw(story.PICTURES[name], TABLE)
    title = fig.get_suptitle()
    fig.canvas.draw()
    box = fig.get_tightbbox()
    wide, high = fig.get_size_inches()
    plt.close(fig)
    assert title and "{" not in title and len(fig.axes) == 1
    assert box.x0 >= -0.02 and box.y0 >= -0.02 and box.x1 <= wide + 0.02 and box.y1 <= high + 0.02
    assert ("imulated" in title) == (name in ("regime", "stopping", "wordings"))


def test_the_article_has_eight_to_ten_pictures_each_with_its_notebook_and_fits_its_length():
    text = TEXTS["site/story.md"]
    shown = re.findall(
        r"!\[(.+)\]\(pictures/(\w+)\.png\)\n\n\*(?s:.+?)\[The\s+notebook\]\(\.\./(nbs/\w+/\w+\.ipynb)\)\*", text
    )
    names = [name for _, name, _ in shown]
    assert 8 <= len(names) <= 10 and len(set(names)) == len(names) == text.count("](pictures/")
    assert set(names) <= set(story.PICTURES) and all((ROOT / notebook).is_file() for *_, notebook in shown)
    everywhere = "".join(TEXTS.values())
    assert all(f"pictures/{name}.png" in everywhere for name in story.PICTURES)
    words = len(re.sub(r"<!--.*?-->|\]\([^)]*\)|!\[.*?\]", " ", text).split())
    assert 2500 <= words <= 3500, words


# ---- what the sentences claim beyond their numbers


def test_what_is_said_of_cycles_and_of_leaving_graphs_out():
    cycles = story.PICTURES["cycles"].rows(TABLE).set_index("label")
    assert (cycles["value"] > 0).all() and (cycles["high"] > 0).all()
    assert set(cycles.index[cycles["low"] > 0]) == {"OpenAssistant, GPT-4", "Vicuna-80, people"}
    panels = TABLE("fig_cycle_distance").groupby("label", sort=False).size().filter(regex="^(?!simulated)")
    assert len(panels) == 7 and (panels.index.str.contains("other questions")).sum() == 5
    cut = story._cut(TABLE).set_index("label")
    assert (cut["value"] > 0).all() and cut.loc["Four sets together", "low"] > 0
    for end in ("", "_left_out"):
        forest = TABLE(f"tab_replication_forest{end}")
        assert not ((forest["difference"] < 0) & (forest["p_holm"] < 0.05)).any() and forest["set"].nunique() == 5
    half = TABLE("tab_replication_forest").query("method == 'TruncFixed' and n_questions == 20")
    assert len(half) == 5 and (half["decision"] == "open").all() and cut.loc["Vicuna-80, people", "low"] < 0
    parts = story._contrasts(TABLE).pivot(index="label", columns="series", values="value")
    assert (parts.sum(axis=1) > 0).all() and (parts["how many graphs"] > 0).all()
    which = story._contrasts(TABLE).query("series == 'which graphs'").set_index("label")
    assert which.index[which["high"] < 0].tolist() == ["OpenAssistant, GPT-4"] and not (which["low"] > 0).any()
    real = TABLE("fig_real_cycles").query("data == 'real'")
    assert (real["cycles"] <= real["Bradley–Terry: high"]).all()
    regime = story._regime(TABLE).set_index(["world", "spread"])
    assert (regime.loc["effects within", "TruncFixed low"] > 0).all()
    assert (
        regime.loc["effects beside", "TruncFixed high"].iloc[-1]
        < 0
        < regime.loc["effects beside", "TruncFixed low"].iloc[0]
    )
    paper = TABLE("tab_main_beside").set_index(["judge", "method"])["published"]
    assert (paper.groupby("judge").idxmin().map(lambda at: at[1]) == "Trunc25→20").all()


def test_what_is_said_of_calls_wordings_stops_and_judges():
    calls = story.PICTURES["calls"].rows(TABLE).set_index("label")
    assert set(calls.index[calls["high"] > 100]) == {
        "Vicuna-80, GPT-4 (8)",
        "Vicuna-80, people (8)",
        "OpenAssistant, GPT-4 (7)",
    }
    assert (
        calls["value"].filter(like="GPT-4").idxmin().startswith("H2O") and len(calls.filter(like="GPT-4", axis=0)) == 4
    )
    judges = TABLE("fig_wordings_judges")
    assert len(judges) == 9 and judges["seen"].between(10, 50).all()
    ratios = judges.filter(like=": ratio")
    assert ratios.shape[1] == 3 and ratios.min(axis=None) > 1.3 and judges["segments"].between(1500, 2100).all()
    # What predictions_wordings and the prose of fig_wordings say beyond their own assertions.
    assert (judges["another judge: ratio"] < judges["all wordings: ratio"]).all()
    assert (judges["seen"] / judges["predicted"]).between(0.9, 1.1).all()
    assert 8 <= 2 * 105 / 15 * WORDING_SHARE / (1 - WORDING_SHARE) < 8.5  # calls that an answer costs, Cochran's rule
    stopping = story._stopping(TABLE)
    assert stopping["label"].str.contains("models").all() and (stopping["series"] == "ordinary error bars").sum() == 3
    assert (stopping.query("series != 'ordinary error bars'")["value"] < 5).all()
    pooled = story.PICTURES["judges"].rows(TABLE).set_index("label")
    assert pooled.loc["GPT-4", "high"] < 0 < pooled.loc["Claude 3 Opus", "high"]
    alone = TABLE("tab_judges").set_index("method")["spearman"][["GPT-4", "Claude 3 Opus", "GPT-3.5"]]
    assert alone.idxmin() == "Claude 3 Opus"
    blocks = TABLE("tab_blocks_real")
    assert not (blocks[["other questions high", "people high"]] < 0).any(axis=None)
    made = story._theory(TABLE).set_index("max_triangles")
    assert (np.diff(made["log10_generated"]) < 0).all() and made["t_product"].iloc[0] < made["t_plain"].iloc[0]
    held = TABLE("fig_plan").groupby(["size", "set"])["in_widened"].mean().unstack("set")
    assert (held["MT-Bench, GPT-4"] < 0.8).all() and (held.drop(columns="MT-Bench, GPT-4") > 0.85).all(axis=None)

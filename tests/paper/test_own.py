"""The paper's studies on verdicts of one's own: what the page says is of these files, and what they lack is said.

Distances are computed again with numpy, networkx and scipy, without the library.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import log_expit
from scipy.stats import rankdata, spearmanr
from test_processors import environment, processors

from ppe.errors import InputError
from ppe.paper.notebook_outputs import papermill_engine
from ppe.paper.own_runner import OWN_NOTEBOOKS, OwnRun, run_own
from ppe.paper.own_verdicts import own_verdicts

ROOT = Path(__file__).resolve().parents[2]
FEW = {"n_pools": 12, "n_resamples": 60, "n_bootstrap": 19, "n_splits": 2}
SOME = ("tab_target_models", "fig_graph_stats", "fig_keep_k")  # in every run of the tests; all of them in the slow ones
# Names of the data that come with the project, of which no page of another file may speak.
OURS = re.compile(r"mt-bench|vicuna|alpaca|llama|claude|simulated|h2o|openassistant|gpt-4|gpt-3\.5", re.IGNORECASE)


def invented(n_models: int, judges: list[str], categories: dict[str, int], n_wordings: int, seed: int) -> pd.DataFrame:
    "Verdicts on models in a known order: Model 1 is the best. A question has effects of its own, a wording noise."
    rng = np.random.default_rng(seed)
    strength = np.linspace(1.5, -1.5, n_models)
    names = [f"Model {number + 1:02d}" for number in range(n_models)]
    first, second = np.triu_indices(n_models, 1)
    frames = []
    for judge in judges:
        for category, n_questions in categories.items():
            for question in range(n_questions):
                effects = 0.8 * rng.standard_normal(n_models)
                for wording in range(n_wordings):
                    utility = strength + effects + 0.4 * rng.standard_normal(n_models)
                    gap = utility[first] - utility[second] + rng.logistic(size=len(first))
                    verdict = np.where(np.abs(gap) < 0.3, "tie", np.where(gap > 0, "a", "b"))
                    frames.append(
                        pd.DataFrame({
                            "judge": judge, "question_id": f"{category}-{question}", "category": category,
                            "variant": wording, "model_a": np.array(names)[first], "model_b": np.array(names)[second],
                            "verdict": verdict,
                        })
                    )  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def settings_of(names: Iterable[str]) -> dict[str, int]:
    "The few draws of all studies, or of those named, which have neither of two."
    of_none = {"n_bootstrap", "n_splits"} if names else set()
    return {name: number for name, number in FEW.items() if name not in of_none}


def options_of(names: Iterable[str]) -> list[str]:
    "The same on the command line, and the names."
    return [part for name, number in settings_of(names).items() for part in ("--set", f"{name}={number}")] + [*names]


def run(folder: Path, verdicts: str, reference: str = "", names: tuple[str, ...] = ()) -> OwnRun:
    done = run_own(verdicts, reference, out=folder, settings=settings_of(names), names=names, progress=False)
    assert not done.failed, done.failed
    return done


def finding(folder: Path, name: str) -> dict:
    return json.loads((folder / f"{name}.json").read_text())


def half_wins(table: pd.DataFrame, models: list[str]) -> np.ndarray:
    "Wins and half the ties of the row over the column."
    number, wins = {model: at for at, model in enumerate(models)}, np.zeros((len(models), len(models)))
    for a, b, verdict in table[["model_a", "model_b", "verdict"]].itertuples(index=False):
        share = {"a": 1.0, "b": 0.0, "tie": 0.5}[verdict]
        wins[number[a], number[b]] += share
        wins[number[b], number[a]] += 1 - share
    return wins


def fitted_ranks(wins: np.ndarray) -> np.ndarray:
    "Ranks by Bradley–Terry, its likelihood maximised by scipy."

    def loss(theta: np.ndarray) -> float:
        return -(wins * log_expit(theta[:, None] - theta)).sum() + 1e-9 * theta @ theta

    return rankdata(-minimize(loss, np.zeros(len(wins)), tol=1e-10).x.round(4))


def bad_cycles(graph: pd.DataFrame, models: list[str]) -> tuple[int, int]:
    "3- and 4-cycles of a graph in which some edge is a win; a tie is an edge both ways."
    edges = nx.DiGraph()
    edges.add_nodes_from(models)
    for a, b, verdict in graph[["model_a", "model_b", "verdict"]].itertuples(index=False):
        if verdict in ("a", "tie"):
            edges.add_edge(a, b)
        if verdict in ("b", "tie"):
            edges.add_edge(b, a)
    counts = {3: 0, 4: 0}
    for cycle in nx.simple_cycles(edges, length_bound=4):
        steps = list(zip(cycle, cycle[1:] + cycle[:1], strict=True))
        if len(cycle) > 2 and any(not edges.has_edge(b, a) for a, b in steps):
            counts[len(cycle)] += 1
    return counts[3], counts[4]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame, pd.Series]:
    "A page of two judges, two categories, three wordings, five models; the reference knows four of them."
    folder = tmp_path_factory.mktemp("small")
    table = invented(5, ["Judge <b>A</b>", "Judge $B$"], {"law": 8, "art": 8}, 3, seed=3)
    ratings = pd.Series({"Model 01": 9.0, "Model 02": 4.0, "Model 03": 6.0, "Model 05": 1.0}, name="rating")
    table.to_csv(folder / "mine.csv", index=False)
    ratings.rename_axis("model").reset_index().to_csv(folder / "ref.csv", index=False)
    run(folder / "page", str(folder / "mine.csv"), str(folder / "ref.csv"), names=SOME)
    return folder / "page", table, ratings


def assert_speaks_of_these_alone(folder: Path, table: pd.DataFrame, names: Iterable[str]) -> str:
    page, text = (folder / "index.html").read_text(), (folder / "index.md").read_text()
    assert all(model in page and model in text for model in set(table["model_a"]))
    assert "<b>A</b>" not in page and "Judge &lt;b&gt;A&lt;/b&gt;" in page and "default-src 'none'" in page
    for shown in (page, text):
        without_pictures = re.sub(r"data:image/png;base64,[\w+/=]+", "", shown)
        assert not OURS.search(without_pictures), OURS.search(without_pictures)
    for name in names:
        assert f'href="{name}.ipynb"' in page and finding(folder, name)["answer"], name
        notebook = nbformat.read(folder / f"{name}.ipynb", as_version=4)
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
        assert not [output for output in outputs if output.get("name") == "stderr"], (name, outputs)
        said = str([output for output in outputs if output["output_type"] != "display_data"])
        assert not OURS.search(re.sub(r"image/png': '[^']+'", "", said)), name
    return page


def test_the_page_speaks_of_these_files_alone(small: tuple[Path, pd.DataFrame, pd.Series]):
    assert_speaks_of_these_alone(*small[:2], SOME)


@pytest.mark.slow
def test_the_page_of_all_studies_speaks_of_these_files_alone(small: tuple[Path, pd.DataFrame, pd.Series]):
    folder, table, _ = small
    whole = folder.with_name("whole")
    run(whole, str(folder.with_name("mine.csv")), str(folder.with_name("ref.csv")))
    page = assert_speaks_of_these_alone(whole, table, OWN_NOTEBOOKS)
    assert "0.056" in page and "likely 2, possible 2, no strong 4" in page  # as the paper prints them


def test_distances_from_the_reference_are_those_of_scipy(small: tuple[Path, pd.DataFrame, pd.Series]):
    folder, table, ratings = small
    drawn = pd.read_csv(folder / "fig_keep_k.csv")
    on_all = drawn[drawn["against"] == "ref.csv, all questions"].set_index(["judge", "share"])["distance"]
    models = sorted(set(table["model_a"]) | set(table["model_b"]))
    known = [models.index(model) for model in ratings.index]
    for judge in table["judge"].unique():
        distances = {1.0: [], 0.5: []}
        for category in ("art", "law"):
            part = table[(table["judge"] == judge) & (table["category"] == category)]
            graphs = [graph for _, graph in part.groupby(["question_id", "variant"], sort=False)]
            order = np.argsort([sum(bad_cycles(graph, models)) for graph in graphs], kind="stable")
            for share, of_share in distances.items():
                kept = pd.concat([graphs[at] for at in order[: round(share * len(graphs))]])
                among = rankdata(fitted_ranks(half_wins(kept, models))[known])
                rho = spearmanr(among, rankdata(-ratings.to_numpy())).statistic
                of_share.append((1 - rho) / 2)
        for share, of_share in distances.items():
            assert np.isclose(on_all[judge, share], np.mean(of_share), atol=1e-9), (judge, share)


def test_graph_statistics_are_those_of_networkx(small: tuple[Path, pd.DataFrame, pd.Series]):
    folder, table, _ = small
    drawn = pd.read_csv(folder / "fig_graph_stats.csv").set_index(["judge", "category", "source", "statistic"])["mean"]
    models = sorted(set(table["model_a"]) | set(table["model_b"]))
    for (judge, category), part in table.groupby(["judge", "category"]):
        first = part["variant"] == 0
        for source, rows in {"first wording": part[first], "other wordings": part[~first]}.items():
            graphs = [graph for _, graph in rows.groupby(["question_id", "variant"])]
            cycles = np.mean([bad_cycles(graph, models) for graph in graphs], axis=0)
            assert np.isclose(drawn[judge, category, source, "bad 3-cycles"], cycles[0])
            assert np.isclose(drawn[judge, category, source, "bad 4-cycles"], cycles[1])
            assert np.isclose(drawn[judge, category, source, "draw rate"], (rows["verdict"] == "tie").mean())


@pytest.mark.parametrize(
    "names",
    [("fig_graph_stats", "fig_mu", "fig_perturb_vs_sampling"), pytest.param((), marks=pytest.mark.slow)],
    ids=["some studies", "all studies"],
)
def test_three_models_and_twelve_questions_without_anything_else(tmp_path: Path, names: tuple[str, ...]):
    table = invented(3, ["j"], {"all": 12}, 1, seed=5)
    table.to_csv(tmp_path / "tiny.csv", index=False)
    done = run(tmp_path / "page", str(tmp_path / "tiny.csv"), names=names)
    assert done.lacking == {
        "fig_mu": "Models are lacking: this study needs 4, and a judge compared 3.",
        "fig_perturb_vs_sampling": "Wordings are lacking: every question was judged in one wording.",
    }
    cells = nbformat.read(tmp_path / "page" / "fig_mu.ipynb", as_version=4).cells
    said = [cell for cell in cells if "lacking" in str(cell.get("outputs", ""))]
    assert len(said) == 1 and not any(cell.outputs for cell in cells[cells.index(said[0]) + 1 :])
    page = (tmp_path / "page" / "index.html").read_text()
    assert "Reference: none was given" in page and "other questions" in page
    # A cycle of three models is all that there can be: the number of graphs that are one.
    graphs = [graph for _, graph in table.groupby("question_id")]
    models = ["Model 01", "Model 02", "Model 03"]
    n_bad = sum(bad_cycles(graph, models)[0] for graph in graphs)
    drawn = pd.read_csv(tmp_path / "page" / "fig_graph_stats.csv").set_index("statistic")["mean"]
    assert np.isclose(drawn["bad 3-cycles"], n_bad / 12)


def test_a_file_without_one_complete_graph_is_ranked_and_the_rest_is_said_to_lack_it(tmp_path: Path):
    table = invented(4, ["j"], {"all": 12}, 1, seed=6)
    table.groupby("question_id").head(5).to_csv(tmp_path / "sparse.csv", index=False)
    names = ("tab_target_models", "tab_main", "fig_graph_stats")
    done = run(tmp_path / "page", str(tmp_path / "sparse.csv"), names=names)
    assert set(done.lacking) == {"tab_main", "fig_graph_stats"}
    assert all("Complete graphs are lacking" in sentence for sentence in done.lacking.values())
    assert "Model 04" in (tmp_path / "page" / "index.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verdicts", "reference"), [("oa-gpt4", ""), ("h2o-gpt4", ""), ("vicuna80-gpt4", "vicuna80-human")]
)
def test_public_sets_with_wordings_and_without(tmp_path: Path, verdicts: str, reference: str):
    names = ("tab_main", "fig_perturb_vs_sampling", "tab_keep_k_cv")
    few = {name: number for name, number in FEW.items() if name != "n_bootstrap"}  # which none of these has
    done = run_own(verdicts, reference, out=tmp_path, names=names, settings=few, progress=False)
    assert not done.failed, done.failed
    assert set(done.lacking) == ({"fig_perturb_vs_sampling"} if verdicts == "h2o-gpt4" else set())
    page = (tmp_path / "index.html").read_text()
    assert f"Reference: {reference or 'none was given'}" in page
    own = own_verdicts(verdicts, reference)
    assert all(model in page for cell in own.all_graphs for model in cell.pool.models)


def test_by_papermill_one_notebook_gives_the_same_finding(tmp_path: Path, small: tuple[Path, pd.DataFrame, pd.Series]):
    import papermill

    folder, *_ = small
    files = {"verdicts": str(folder.parent / "mine.csv"), "reference": str(folder.parent / "ref.csv")}
    parameters = files | {"output_dir": str(tmp_path / "out"), "n_pools": FEW["n_pools"]}
    notebook, executed = ROOT / "nbs" / "own" / "fig_keep_k.ipynb", tmp_path / "out.ipynb"
    papermill.execute_notebook(notebook, executed, parameters, papermill_engine(), progress_bar=False, folder=tmp_path)
    assert finding(tmp_path / "out", "fig_keep_k") == finding(folder, "fig_keep_k")


def test_what_cannot_run_is_refused_before_anything_is_written(tmp_path: Path):
    ratings = tmp_path / "ref.csv"
    ratings.write_text("model,rating\ngpt-4,1\nclaude-v1,2\nnobody,3\n")
    cases = {
        "knows 2 of the 6 models": {"verdicts": "mt-bench-gpt4", "reference": str(ratings)},
        "does not run on verdicts of your own": {"verdicts": "mt-bench-gpt4", "names": ["tab_coverage"]},
        "no notebook has a parameter n_pool:": {"verdicts": "mt-bench-gpt4", "settings": {"n_pool": 3}},
        "cannot read": {"verdicts": str(tmp_path / "absent.csv")},
    }
    for message, arguments in cases.items():
        with pytest.raises(InputError, match=message):
            run_own(**arguments, out=tmp_path / "page")
    assert not (tmp_path / "page").exists()


@pytest.mark.slow
def test_twenty_models_have_every_study(tmp_path: Path):
    table = invented(20, ["first", "second"], {"art": 8, "law": 8}, 3, seed=8)
    table.to_csv(tmp_path / "shape.csv", index=False)
    done = run(tmp_path / "page", str(tmp_path / "shape.csv"))
    assert not done.lacking
    assert "96 complete graphs in 4 pools" in (tmp_path / "page" / "index.html").read_text()


@pytest.mark.slow
def test_the_page_of_own_verdicts_has_the_same_bytes_on_every_processor(tmp_path: Path):
    table = invented(5, ["one", "other"], {"all": 12}, 2, seed=9)
    table.to_csv(tmp_path / "mine.csv", index=False)
    names = ["tab_main", "fig_graph_stats"]  # the decisions of the others are those of the studies of the paper
    pages = {}
    for name in processors():
        page = tmp_path / (name or "own")
        call = [Path(sys.executable).parent / "ppe", "paper", "run", "--verdicts", tmp_path / "mine.csv", "--out", page]
        subprocess.run([*call, *options_of(names)], env=environment(name), check=True, capture_output=True)
        pages[name] = (page / "index.md").read_text()
    assert "Judge other" in pages[""]
    assert {name: page for name, page in pages.items() if page != pages[""]} == {}


@pytest.mark.slow
def test_the_verdicts_of_the_guide_become_a_page(tmp_path: Path, monkeypatch):
    "The cells of the guide up to its ranking, against its own server; then the command that stands at its end."
    monkeypatch.chdir(tmp_path)
    guide = nbformat.read(ROOT / "nbs" / "guide_paper.ipynb", as_version=4)
    sources = [cell.source for cell in guide.cells if cell.cell_type == "code"]
    names: dict[str, object] = {}
    for source in sources[:-2]:
        exec(compile(source, "guide_paper", "exec"), names)
    names["both_orders"].to_frame().to_csv("verdicts.csv", index=False)
    Path("reference.csv").write_text("model,rating\n" + "".join(f"{m},{at}\n" for at, m in enumerate(names["MODELS"])))
    exec("server.shutdown(); server.server_close(); folder.cleanup()", names)
    command = "ppe paper run --verdicts verdicts.csv --reference reference.csv"
    assert command in guide.cells[-1].source
    here = command.replace("verdicts.csv", f"{tmp_path}/verdicts.csv").replace(
        "reference.csv", f"{tmp_path}/reference.csv"
    )
    call = [
        Path(sys.executable).parent / "ppe",
        *here.split()[1:],
        "--out",
        tmp_path / "page",
        *options_of(["tab_main", *SOME]),
    ]
    subprocess.run(call, cwd=ROOT, check=True, capture_output=True)
    page = Path("page", "index.md").read_text()
    assert all(model in page for model in names["MODELS"]) and "reference.csv, which knows 6 of 6 models" in page
    assert not OURS.search(page)

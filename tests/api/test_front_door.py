"""What a first call costs: the names of `import ppe`, the help of `ppe`, and no library behind them."""

import ast
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import click
import numpy as np
import pandas as pd
import pytest

import ppe
from ppe.api.stage_options import KINDS
from ppe.cli.main import COMMANDS, app, main
from ppe.errors import as_options, one_line

HEAVY = ("click", "jinja2", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "scipy")


def loaded(program: str) -> list[str]:
    "Heavy libraries that a fresh interpreter has imported after a program."
    show = f"import sys; print(*sorted(set(sys.modules) & set({HEAVY})), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", f"{program}; {show}"], capture_output=True, text=True, check=True)
    return done.stderr.split()


def test_every_public_name_resolves_and_is_listed():
    assert set(ppe.__all__) <= set(dir(ppe)) and ppe.__version__
    for name in ppe.__all__:
        value = getattr(ppe, name)
        home = getattr(value, "__module__", None)
        assert home is None or not home.startswith("ppe.") or home == ppe._HOME[name], f"{name} lives in {home}"
    with pytest.raises(AttributeError, match="rnak"):
        ppe.rnak  # noqa: B018


def test_a_name_of_the_door_is_no_module():
    "Once imported, the module would stand in place of the function."
    modules = {path.stem for path in Path(ppe.__file__).parent.iterdir()}
    assert not modules & {*ppe.__all__}


def test_import_and_help_load_nothing_heavy():
    assert loaded("import ppe") == []
    assert loaded("from ppe.cli.main import main; main(['--help']); main(['--version'])") == ["click"]


def test_types_see_the_same_names():
    "The stub for type checkers names what the table names, from the same modules."
    tree = ast.parse(Path(ppe.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: f"ppe.{node.module}" for node in imports for alias in node.names}
    assert seen == ppe._HOME


FUNCTIONS = {
    "agree": "agree", "check": "check", "compare": "compare", "cycles": "cycles", "design": "design",
    "diagnose": "diagnose", "import": "read", "judge": "judge", "next": "next_calls", "perturb": "perturb",
    "plan": "plan", "rank": "rank", "report": "report", "respond": "respond", "show": "show",
}  # fmt: skip
OF_COMMANDS_ALONE = {"format", "force", "out", "fail_if", "columns", "with_others"}  # where to, how, and exit codes


def comments(thing: Callable | type) -> dict[str, str]:
    "What stands behind each parameter or field, or in the lines above it."
    told, above = {}, []
    for line in inspect.getsource(thing).splitlines():
        name, _, text = line.strip().partition(":")
        if line.strip().startswith("# "):
            above.append(line.strip("# "))
        elif line.startswith("    ") and name.isidentifier():
            told.setdefault(name, " ".join(above) or text.partition("  # ")[2])
            above = []
    return told


def command(name: str) -> click.Command:
    return app.get_command(click.Context(app), name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_command_has_the_options_defaults_choices_and_help_of_its_function(name: str):
    function, made = getattr(ppe, FUNCTIONS[name]), command(name)
    parameters = {
        key: parameter for key, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }  # fmt: skip
    options = {option.name: option for option in made.params}
    own = [key for key in parameters if key not in OF_COMMANDS_ALONE]
    assert [key for key in options if key not in OF_COMMANDS_ALONE] == own
    assert made.help == inspect.getdoc(inspect.unwrap(function))
    assert made.get_short_help_str(99) == COMMANDS[name][1].rstrip(".") + "."
    told = comments(function)
    for kind in KINDS:
        told = comments(kind) | told
    hints = get_type_hints(function, dict(vars(import_module(function.__module__)), JudgeChange=object))
    for key in own:
        option, default = options[key], parameters[key].default
        is_option = parameters[key].kind is inspect.Parameter.KEYWORD_ONLY
        assert isinstance(option, click.Option if is_option else click.Argument), key
        assert option.required == (default is inspect.Parameter.empty), key
        if default not in (None, inspect.Parameter.empty, ()):
            assert option.get_default(click.Context(made)) == default, key
        if get_origin(hints[key]) is Literal:
            assert tuple(option.type.choices) == get_args(hints[key]), key
        if is_option:
            assert option.help == told[key], key


@pytest.mark.slow
def test_the_help_is_the_same_with_either_release_of_the_library_that_reads_it(tmp_path: Path):
    "fastcore 1, with which the notebooks are exported, and 2, which a user gets."
    program = "import sys; from ppe.cli.main import main; [main([name, '--help']) for name in sys.argv[1:]]"
    texts = []
    for version in (">=1.13,<2", ">=2"):
        folder = tmp_path / version[2]
        fetch = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target", folder]
        if subprocess.run([*fetch, f"fastcore{version}"], cwd=tmp_path, capture_output=True).returncode:
            pytest.skip("no package index can be reached")
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(Path(ppe.__file__).parents[1])])}
        done = subprocess.run([sys.executable, "-c", program, *FUNCTIONS], env=env, capture_output=True, text=True)
        texts.append(done.stdout)
    assert texts[0] == texts[1] and "How verdicts become scores" in texts[0]


ANSWERS = {
    "rank": ["{v}", "--intervals", "0"], "cycles": ["{v}"], "check": ["{v}"], "diagnose": ["{v}"],
    "compare": ["{v}", "--model", "gpt-4", "--model", "claude-v1"], "show": ["{v}", "--models", "gpt-4,claude-v1"],
    "plan": ["--models", "5", "--questions", "20", "--calls", "100"],
}  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("door") / "verdicts.csv"
    verdicts = ppe.load("mt-bench-gpt4")
    few = ["gpt-4", "claude-v1", "llama-13b"]
    ppe.write_verdicts(verdicts[verdicts["model_a"].isin(few) & verdicts["model_b"].isin(few)], path)
    return path


@pytest.mark.parametrize("name", ANSWERS)
def test_a_command_prints_what_its_function_returns(name: str, table: Path, capsys: pytest.CaptureFixture[str]):
    words = [word.format(v=table) for word in ANSWERS[name]]
    context = command(name).make_context(name, [*words])
    given = {key: value for key, value in context.params.items() if key not in OF_COMMANDS_ALONE}
    function = getattr(ppe, FUNCTIONS[name])
    places = [
        given.pop(key) for key, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]  # fmt: skip
    answer = function(*places, **given)
    readable = f"{answer}\n".split("\n\nnote: ")[0].rstrip("\n") + "\n"  # notes stand on standard error
    shown = {"table": readable, "json": json.dumps(answer.to_dict(), indent=2, ensure_ascii=False) + "\n"}
    notes = "".join(f"ppe: note: {as_options(one_line(note))}\n" for note in answer.notes())
    for form, text in shown.items():
        capsys.readouterr()
        assert main([name, *words, "--format", form]) == 0
        assert capsys.readouterr() == (text, notes)
    assert len(repr(answer).splitlines()) <= 8 and answer._repr_html_().startswith("<div")
    frame = answer.to_frame()
    assert main([name, *words, "--format", "csv"]) == 0
    out, err = capsys.readouterr()
    assert len(pd.read_csv(StringIO(out))) == len(frame) and err == notes


def test_import_ppe_has_at_most_thirty_names():
    assert len(ppe.__all__) <= 30


def test_a_ranking_in_a_terminal_loads_no_pictures():
    path = Path(ppe.__file__).parents[1] / "data" / "verdicts" / "mt-bench-gpt4.csv.gz"
    assert "matplotlib" not in loaded(f"import ppe; print(repr(ppe.rank({str(path)!r}, intervals=0)))")


def test_every_result_shows_itself():
    "It says once what it has to say; its short form and its page are those of all results."
    from ppe.api import graph, pair_selection, planning, reporting, table_check  # noqa: F401  (all results)
    from ppe.results import Result

    # A class with slots is made twice, and the first one is in no module.
    modules = {kind: sys.modules.get(kind.__module__) for kind in Result.__subclasses__()}
    kinds = [kind for kind, module in modules.items() if getattr(module, kind.__name__, None) is kind]
    kinds = [kind for kind in kinds if kind.__module__.startswith("ppe.")]
    assert len(kinds) >= 13
    for kind in kinds:
        assert not {"__repr__", "__str__"} & {*vars(kind)}, kind
        needed = {"parts"} if kind.__name__ == "Page" else {"parts", "to_frame", "to_dict"}
        assert needed <= {*vars(kind)}, kind


def _pipeline_cost() -> "ppe.results.Result":
    from ppe.api.pipeline import Pipeline, PipelineCost, ServedModel, stage_costs

    targets = ServedModel("*a*"), ServedModel("b_c_")
    pipeline = Pipeline("questions.jsonl", (20, 30), targets, ServedModel("judge"), wordings=1, mode="hybrid")
    return PipelineCost(pipeline, tuple(stage_costs(pipeline)))


def _scored(**options: object) -> "ppe.results.Result":
    rows = [(question, model, question % 3) for question in range(4) for model in ("*a*", "b_c_")]
    rows[1] = (0, "b_c_", None)
    return ppe.rank(pd.DataFrame(rows, columns=["question_id", "model", "score"]), **options)


def _few_scores() -> "pd.DataFrame":
    rows = [(q, m, q % 2 * k + q % 3) for q in range(8) for k, m in enumerate("ab")]
    return pd.DataFrame(rows, columns=["question_id", "model", "score"])


def _noted_results() -> dict[str, "ppe.results.Result"]:
    "A result of each kind, of verdicts that give each something to note."
    from ppe.comparisons import Comparisons
    from ppe.inference.variance_components import variance_components
    from ppe.random_streams import stream

    rng, models = np.random.default_rng(5), ["m*1*", "m_2_", "<b>3", "m4"]
    pairs = [(a, b) for i, a in enumerate(models) for b in models[i + 1 :]]
    rows = [
        (judge, question, f"c{question % 2}", 0, a, b, rng.choice(["a", "b", "tie"]))
        for question in range(8) for judge in ("one", "two") for a, b in pairs
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["judge", "question_id", "category", "variant", "model_a", "model_b", "verdict"])
    broken = table.copy()
    broken.loc[(broken["model_a"] == "m*1*") & (broken["question_id"] < 6), "verdict"] = "invalid"
    people = table[table["judge"] == "one"].assign(judge="ann")
    people.loc[people.index[:3], "verdict"] = "invalid"
    one = broken[broken["judge"] == "one"]
    won = ppe.rank(table.assign(verdict="a"), intervals=0, on_separation="ridge")
    return {
        "rank": ppe.rank(broken), "by category": ppe.rank(broken, by="category"),
        "judges": ppe.rank(broken, judges="separate"), "people": ppe.rank(table, people=people),
        "agree": ppe.agree(table, people=people), "costs": _scored(costs={"*a*": 1, "b_c_": 2}),
        "compare scores": ppe.compare(_few_scores(), model=["a", "b"]),
        "compare": ppe.compare(broken, model=["m_2_", "m4"]),
        "compare --judges": ppe.compare(table, judges=True, judge=["one", "two"]), "diagnose": ppe.diagnose(broken),
        "cycles": ppe.cycles(broken), "check": ppe.check(broken), "show": ppe.show(broken, models=["m4", "m*1*"]),
        "graph": ppe.graph(one, 1), "report": ppe.report(broken), "report of two": ppe.report(one, table),
        "plan": ppe.plan(models=4, questions=20), "pipeline": _pipeline_cost(), "scores": _scored(),
        "design": ppe.design(models=models[2:], questions=range(9), calls=9),
        "components": variance_components(Comparisons.of(ppe.read(table)), rng=stream(1, "components")),
        "next": ppe.next_calls(people, questions=range(9), models=[*models, "new"], calls=3), "ranking": won.ranking,
    }  # fmt: skip


def test_notes_stand_in_every_form_and_the_most_serious_come_first():
    "Of each kind of result: in print, to_dict, the page of a notebook and Markdown, word for word."
    from ppe.api.markup_formats import as_markdown
    from ppe.results import Concern, Note, Result

    results = _noted_results()
    without = {
        "Fit",
        "Fragility",
        "Collected",
        "Text",
        "ImportedScores",
    }  # they say it in their own words; parts of others
    kinds = {kind.__name__ for kind in Result.__subclasses__() if kind.__module__.startswith("ppe.")}
    assert {type(result).__name__ for result in results.values()} == kinds - without
    for name in ("design", "next", "diagnose"):  # of these verdicts they have nothing to note
        results[name] = replace(results[name], remarks=("*read* this", Note("few <b>", Concern.ROUGH)))
    assert all(result.notes() for result in results.values())
    for name, result in results.items():
        notes = result.notes()
        assert len({*notes}) == len(notes) and all(type(note) is Note for note in notes), name
        assert [note.concern for note in notes] == sorted(note.concern for note in notes), name
        assert json.loads(json.dumps(result.to_dict()))["notes"] == notes, name
        printed, page = str(result).splitlines(), unescape(unescape(result._repr_html_()))
        markdown = as_markdown(result).replace("\\", "").replace("<!-- -->", "")
        assert [line for line in printed if line.startswith("note: ")] == [f"note: {note}" for note in notes], name
        assert [note for note in notes if note not in page or f"- {as_options(note)}\n" not in markdown] == [], name


def test_what_the_door_is_made_with_is_no_name_of_it():
    assert not {"import_module", "sys", "os"} & {*dir(ppe)}
    with pytest.raises(AttributeError, match="import_module"):
        ppe.import_module  # noqa: B018


def test_help_is_parsed_when_it_is_shown():
    "Reading the comments of all options takes longer than the command line itself."
    program = "import sys; from ppe.cli.main import main; main({}); print('fastcore.docments' in sys.modules)"
    done = [
        subprocess.run([sys.executable, "-c", program.format(words)], capture_output=True, text=True).stdout
        for words in (["rank", "no.csv"], ["judge", "no.jsonl", "--model", "m"], ["rank", "--help"])
    ]
    assert [text.splitlines()[-1] for text in done[:2]] == ["False", "False"] and done[2].endswith("True\n")
    assert "--interval-kind" in done[2] and "  -h, --help" in done[2]


@pytest.mark.parametrize("wanted", [["gpt-4"], ("gpt-4",), {"gpt-4"}, ["gpt-4", "other"], b"gpt-4"])
@pytest.mark.parametrize("column", ["judge", "category"])
def test_one_judge_is_selected_by_its_name(wanted, column):
    with pytest.raises(ppe.PpeError, match=rf"{column}=.*: one {column} is selected by its name"):
        ppe.rank(ppe.load("mt-bench-gpt4"), intervals=0, **{column: wanted})


def test_a_picture_refuses_what_it_does_not_have():
    board = ppe.rank(ppe.load("mt-bench-gpt4"), intervals=0)
    for options, words in (({"kind": "ranks"}, "scores, wins or cycles"), ({"ax": "wins"}, "axes of matplotlib")):
        with pytest.raises(ppe.PpeError, match=words):
            board.plot(**options)
    with pytest.raises(TypeError, match="kind"):
        ppe.cycles(ppe.load("mt-bench-gpt4")).plot(kind="wins")


def test_every_result_has_a_frame():
    "The report, too: that of its first section."
    page = ppe.report(ppe.load("mt-bench-gpt4"))
    assert {"model", "rank"} <= {*page.to_frame()} and page.to_dict()


def test_a_change_of_judges_says_what_the_report_asks_beside_it():
    verdicts = ppe.load("prd-judges")
    old, new = (verdicts[verdicts["judge"] == name] for name in ("gpt4", "gpt35"))
    (note,) = [line for line in ppe.compare(old, new, judges=True).notes() if "another question" in line]
    assert note in ppe.report(old, new).notes() and "a common scale" in note and "scale of its own" in note

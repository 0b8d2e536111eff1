"""What a first call costs: the names of `import ppe`, the help of `ppe`, and no library behind them."""

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ppe

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
        assert not isinstance(value, ModuleType), f"the module {name} hides the function"
        home = getattr(value, "__module__", None)
        assert home is None or not home.startswith("ppe.") or home == ppe._HOME[name], f"{name} lives in {home}"
    with pytest.raises(AttributeError, match="rnak"):
        ppe.rnak  # noqa: B018


def test_import_and_help_load_nothing_heavy():
    assert loaded("import ppe") == []
    assert loaded("from ppe.cli.main import main; main(['--help']); main(['--version'])") == ["click"]


def test_types_see_the_same_names():
    "The stub for type checkers names what the table names, from the same modules."
    tree = ast.parse(Path(ppe.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: f"ppe.{node.module}" for node in imports for alias in node.names}
    assert seen == ppe._HOME


def test_the_function_stands_before_the_module_of_its_name():
    "In a process that loads the module first: here both may be there already."
    assert loaded("import ppe.cycles, ppe; assert callable(ppe.cycles)")


def test_a_ranking_in_a_terminal_loads_no_pictures():
    path = Path(ppe.__file__).parents[1] / "data" / "verdicts" / "mt-bench-gpt4.csv.gz"
    assert "matplotlib" not in loaded(f"import ppe; print(repr(ppe.rank({str(path)!r}, intervals=0)))")


def test_every_result_shows_itself():
    "It says once what it has to say; its short form, its page and its picture are those of all results."
    from ppe.door import display, planning, reading  # noqa: F401  (with these all results are defined)
    from ppe.results import Result

    kinds = [kind for kind in Result.__subclasses__() if kind.__module__.startswith("ppe.")]
    assert len(kinds) >= 13
    for kind in kinds:
        assert not {"__repr__", "__str__", "plot"} & {*vars(kind)}, kind
        needed = {"parts"} if kind.__name__ == "Page" else {"parts", "to_frame", "to_dict"}
        assert needed <= {*vars(kind)}, kind


FUNCTIONS = {
    name: name for name in "check compare cycles design diagnose judge perturb plan rank report respond".split()
}


@pytest.mark.parametrize(("command", "function"), (FUNCTIONS | {"import": "read", "next": "next_calls"}).items())
def test_a_command_has_the_options_defaults_and_help_of_its_function(command, function):
    from importlib import import_module
    from inspect import Parameter, getdoc, signature

    from ppe.cli.main import app

    of_the_door = getattr(import_module(ppe._HOME[function]), function)
    made, parameters = app.get_command(None, command), signature(of_the_door).parameters
    known = {option.name: option for option in made.params}
    assert made.help == getdoc(of_the_door)
    of_the_command = {"out", "force", "format", "fail_if", "columns", "with_others"}
    asked = {name: each for name, each in parameters.items() if each.kind is not Parameter.VAR_KEYWORD}
    assert asked.keys() <= known.keys() and known.keys() - asked.keys() <= of_the_command
    for name, parameter in asked.items():
        if parameter.kind is Parameter.KEYWORD_ONLY and name not in of_the_command:
            option, plain = known[name], parameter.default in (Parameter.empty, None, (), False)
            assert option.help and option.required == (parameter.default is Parameter.empty)
            assert plain or option.default == parameter.default

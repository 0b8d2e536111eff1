"""What a first call costs: the names of `import ppe`, the help of `ppe`, and no library behind them."""

import ast
import subprocess
import sys
from pathlib import Path

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

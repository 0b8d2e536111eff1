"""Help of every public function, as Python, IPython and JupyterLab show it."""

import inspect
import re

import pytest
from IPython.core.oinspect import Inspector

import ppe

FUNCTIONS = [name for name in ppe.__all__ if inspect.isfunction(getattr(ppe, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_names_types_and_defaults_and_says_what_each_parameter_is(name: str):
    function = getattr(ppe, name)
    shown = Inspector(theme_name="nocolor").info(function, oname=name)  # what Shift+Tab asks for
    text = shown["definition"] + shown["docstring"]
    assert not re.search(r"Annotated| at 0x|<lambda>|<class|typing\.|collections\.|ppe\.(?:api|inference)\.", text)
    sections = re.split(r"\n\n(\w+)\n-+\n", shown["docstring"])
    told = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert [*told][:3] == ["Parameters", "Returns", "Raises"] and sections[0]
    entries = re.findall(r"(?m)^\*{0,2}(\w+)(?: : .+)?\n    \S", told["Parameters"])
    assert entries == [*inspect.signature(function).parameters]
    assert max(map(len, shown["definition"].splitlines())) <= 120
    assert "FILE" not in sections[0] and "--" not in re.sub(r"`[^`]*`", "", sections[0] + told["Parameters"])

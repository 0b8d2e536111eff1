"""A made-up project of the paper: notebooks with a first cell and parameters, what some of them saved, a manifest."""

import json
from pathlib import Path


def profiles(items: dict[str, tuple[str, str]]) -> str:
    "`profiles.toml` of notebooks by name: place in the paper, title."
    parts = []
    for name, (item, title) in items.items():
        parts.append(f'[{name}]\nitem = "{item}"\ntitle = "{title}"\nquick = {{}}\n')
    return "\n".join(parts)


def make_project(
    root: Path,
    items: dict[str, tuple[str, str]],
    firsts: dict[str, str],  # folder and name of a notebook -> its first cell
    saved: dict[str, str | bytes],  # name of a saved file -> its content
    place: str = "figures",
) -> Path:
    files: dict[str, str | bytes] = {"nbs/profiles.toml": profiles(items), "data/README.md": ""}
    for name, first in firsts.items():
        front = {"cell_type": "markdown", "id": "m", "metadata": {}, "source": first}
        code = {"cell_type": "code", "id": "p", "execution_count": None, "outputs": []}
        code |= {"metadata": {"tags": ["parameters"]}, "source": 'seed = 1\noutput_dir = "build/quick"'}
        notebook = {"cells": [front, code], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        files[f"nbs/{name}.ipynb"] = json.dumps(notebook)
    made = {name: [file for file in saved if file.startswith(name)] for name in items}
    entries = {name: {"outputs": dict.fromkeys(own, "hash")} for name, own in made.items() if own}
    files |= {f"{place}/{name}": content for name, content in saved.items()}
    files[f"{place}/manifest.json"] = json.dumps({"profile": "full", "notebooks": entries})
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return root

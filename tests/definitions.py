"""What a figure's notebook defines, for tests that look at more than the notebook does."""

import json
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[1]


def definitions(path: str) -> SimpleNamespace:  # as "tables/tab_gate.ipynb"
    "Names of the cells that are tagged `definitions`: functions, constants and what they import."
    cells = json.loads((ROOT / "nbs" / path).read_text())["cells"]
    tagged = [cell for cell in cells if "definitions" in cell["metadata"].get("tags", ())]
    assert tagged, f"no cell of {path} is tagged as definitions"
    names: dict[str, object] = {"__name__": Path(path).stem}
    for cell in tagged:
        exec(compile("".join(cell["source"]), path, "exec"), names)
    return SimpleNamespace(**names)

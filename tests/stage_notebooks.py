"""Restart and run the stage notebooks: those of the library and the guides, in the folders of `nbs/`.

As a script it runs the notebooks in place, so that what is committed is what a fresh kernel prints:
`python tests/stage_notebooks.py [notebook …]`. A notebook that fails is left as it was. `--number [folder]` gives all
notebooks, those of the paper too, the execution counts that nbdev's cleaning has stripped.
`tests/test_notebooks.py` uses the same functions to compare a fresh run with the committed outputs.
"""

import json
import os
import sys
from itertools import count
from pathlib import Path

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellExecutionError

from ppe.paper.notebook_outputs import clean_cells, notebook_client, notebook_text

ROOT = Path(__file__).resolve().parents[1]
PAPER_FOLDERS = ("figures", "tables", "theorems", "own")
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
WIDGET = "application/vnd.jupyter.widget-view+json"  # lives in its kernel: nothing of it can be committed


class NotebookFailed(Exception):
    "A cell raised; the message holds its source and the error."


def stage_notebooks() -> list[Path]:
    "All notebooks but those of the paper, and the record of raw files only beside these."
    left_out = set() if (ROOT.parent / "shared" / "raw").is_dir() else {ROOT / "nbs" / "raw_verdicts.ipynb"}
    notebooks = {*(ROOT / "nbs").rglob("*.ipynb")} - left_out
    return sorted(path for path in notebooks if path.parent.name not in PAPER_FOLDERS and path.parent.name[0] != ".")


def title(path: Path) -> str:
    "The notebook's name in `nbs/`, as `rankers/davidson`."
    return path.relative_to(ROOT / "nbs").with_suffix("").as_posix()


def executed(
    path: Path,
    timeout: int = 600,  # seconds a single cell may take
    *,
    kernels: type[AsyncKernelManager] = AsyncKernelManager,  # how the kernel is started
) -> nbformat.NotebookNode:
    "The notebook after restart-and-run-all in the project root; the file itself is not touched."
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    try:
        with notebook_client(notebook, folder=ROOT, kernels=kernels, timeout=timeout) as client:
            client.execute(cleanup_kc=True, env=os.environ | THREADS)
    except CellExecutionError as error:
        source = next(
            cell.source
            for cell in notebook.cells
            if cell.cell_type == "code" and any(output.output_type == "error" for output in cell.outputs)
        )
        raise NotebookFailed(f"{path.name}\n{source}\n\n{error.ename}: {error.evalue}") from None
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
    return nbformat.reads(notebook_text(clean_cells(notebook.cells)), as_version=4)


def text_outputs(notebook: nbformat.NotebookNode) -> list[tuple[str, list[str]]]:
    "Per code cell: its source, then what it printed and each text/plain value it displayed."
    found = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        printed = "".join(
            output.text for output in cell.outputs if output.output_type == "stream" and output.name == "stdout"
        )
        shown = [output.data["text/plain"] for output in cell.outputs if "text/plain" in output.get("data", {})]
        found.append((cell.source, [printed, *shown]))
    return found


def stderr_outputs(notebook: nbformat.NotebookNode) -> list[str]:
    "Everything the notebook wrote to stderr, warnings above all."
    return [
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stderr"
    ]


def number(folder: Path) -> None:
    "Write execution counts into all notebooks of a folder, in the form that nbdev writes; an empty cell has none."
    for path in folder.rglob("*.ipynb"):
        whole = json.loads(before := path.read_text(encoding="utf-8"))
        counts = count(1)
        for cell in whole["cells"]:
            if cell["cell_type"] == "code":
                cell["execution_count"] = next(counts) if "".join(cell["source"]).strip() else None
                for output in cell["outputs"]:
                    if output["output_type"] == "execute_result":
                        output["execution_count"] = cell["execution_count"]
        if (text := json.dumps(whole, sort_keys=True, indent=1, ensure_ascii=False) + "\n") != before:
            path.write_text(text, encoding="utf-8")


def main(paths: list[Path]) -> int:
    "Run the notebooks in place, all stage notebooks by default; 1 if any failed."
    failures = 0
    for path in paths or stage_notebooks():
        try:
            notebook = executed(path)
            if warnings := stderr_outputs(notebook):
                raise NotebookFailed(f"{path.name} writes to stderr:\n{''.join(warnings)}")
        except NotebookFailed as failure:
            failures += 1
            print(f"FAILED {failure}", file=sys.stderr)
        else:
            path.write_text(notebook_text(notebook.cells), encoding="utf-8")
            print(f"ran {path.name}")
    return min(failures, 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--number"]:
        number(Path(*sys.argv[2:]) if sys.argv[2:] else ROOT / "nbs")
    else:
        sys.exit(main([Path(name) for name in sys.argv[1:]]))

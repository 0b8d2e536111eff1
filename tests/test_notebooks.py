"""Every stage notebook restarts and runs, and prints what is committed.

A notebook holds its module's tests next to each function, so a passing run here means that those tests pass.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
import stage_notebooks
from forked_kernels import ForkedKernelManager
from jupyter_client.manager import AsyncKernelManager
from stage_notebooks import ROOT

from ppe.paper.notebook_outputs import KERNELSPEC, same_text

# Over seven seconds of processor each: they simulate, fit hundreds of models, start kernels of their own, run a guide
# from end to end, or compare predictions and raw files that no edit of `ppe/` changes.
SLOW = {
    "designs/adaptive",
    "guide_calls",
    "guide_decisions",
    "guide_paper",
    "inference/categories",
    "inference/change_tests",
    "inference/diagnostics",
    "paper/runner",
    "paper/studies/aggregation",
    "predictions",
    "predictions_graded",
    "predictions_rewordings",
    "predictions_wordings",
    "rankers/discrimination",
    "rankers/question_effects",
    "raw_verdicts",
    "sources/datasets",
    "sources/simulated",
    "theory/mallows",
    "theory/recovery",
    "theory/tournaments",
}
NOTEBOOKS = [
    pytest.param(path, id=name, marks=pytest.mark.slow if name in SLOW else ())
    for path, name in ((path, stage_notebooks.title(path)) for path in stage_notebooks.stage_notebooks())
]


def test_the_slow_notebooks_exist():
    assert {name for name in SLOW if (ROOT / "nbs" / f"{name}.ipynb").is_file()} == SLOW


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_notebook_runs_and_prints_what_is_committed(path: Path):
    try:
        fresh = stage_notebooks.executed(path, kernels=ForkedKernelManager)
    except stage_notebooks.NotebookFailed as failure:
        pytest.fail(str(failure), pytrace=False)
    assert not stage_notebooks.stderr_outputs(fresh), "the notebook writes to stderr"
    committed = stage_notebooks.text_outputs(nbformat.read(path, as_version=4))
    for (source, old), (_, new) in zip(committed, stage_notebooks.text_outputs(fresh), strict=True):
        assert same_text(" ".join(old), " ".join(new)), (
            f"stale output in {path.name}; run `make notebooks`. Cell:\n{source}"
        )


# Ports are drawn before the kernel binds them, and another program may have taken one by then.
PORTS = """
import psutil
from ipykernel.connect import get_connection_info
from ipykernel.kernelapp import IPKernelApp

heard = IPKernelApp.instance().iopub_thread._pipe_port  # bound as it is drawn: forked processes print there
ports = {one.laddr.port for one in psutil.Process().net_connections("tcp") if one.status == "LISTEN"}
print(get_connection_info(unpack=True)["transport"], len(ports - {heard}))
"""


@pytest.mark.parametrize("kernels", [AsyncKernelManager, ForkedKernelManager])
@pytest.mark.parametrize("folder", ["t", "t" * 100], ids=["as told", "too long for a socket"])
def test_a_kernel_is_spoken_to_without_ports(
    tmp_path: Path, monkeypatch, kernels: type[AsyncKernelManager], folder: str
):
    (place := tmp_path / folder).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(PORTS)]), path := tmp_path / "a.ipynb")
    fresh = stage_notebooks.executed(path, kernels=kernels)
    assert stage_notebooks.text_outputs(fresh)[0][1] == ["ipc 0\n"]
    assert not list(place.iterdir())


def test_a_failing_cell_is_reported_with_its_source(tmp_path: Path):
    cells = map(nbformat.v4.new_code_cell, ("x = 1\nx + 1", "raise ValueError('seen')", "never = 'run'"))
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells)), path := tmp_path / "01_broken.ipynb")
    with pytest.raises(stage_notebooks.NotebookFailed, match=r"(?s)raise ValueError.*ValueError: seen"):
        stage_notebooks.executed(path)


def test_a_script_run_writes_fresh_outputs_and_keeps_tags(tmp_path: Path):
    stale = nbformat.v4.new_code_cell(
        "print('now', 1 + 1)",
        metadata={"tags": ["parameters"], "collapsed": True},
        outputs=[nbformat.v4.new_output("stream", name="stdout", text="then\n")],
    )
    nbformat.write(nbformat.v4.new_notebook(cells=[stale]), path := tmp_path / "01_stale.ipynb")
    assert stage_notebooks.main([path]) == 0
    written = nbformat.read(path, as_version=4)
    assert stage_notebooks.text_outputs(written) == [("print('now', 1 + 1)", ["now 2\n"])]
    assert written.cells[0].metadata == {"tags": ["parameters"]}
    assert written.cells[0].execution_count == 1
    assert written.metadata == {"kernelspec": KERNELSPEC}


def test_running_a_notebook_in_a_thread_leaves_no_event_loop_open(tmp_path: Path):
    "One that is collected later warns then, in the middle of whatever runs."
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")]), path := tmp_path / "a.ipynb")
    made, new_loop = [], asyncio.new_event_loop

    def kept() -> asyncio.AbstractEventLoop:
        made.append(new_loop())
        return made[-1]

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(asyncio.events, "new_event_loop", kept)
        patch.setattr(asyncio, "new_event_loop", kept)
        pool.submit(stage_notebooks.executed, path).result()
    assert made and all(loop.is_closed() for loop in made)

"""Studies on a Dask cluster: a scheduler and two workers on this machine, which may lose one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_paper import FILES, FIRST, make_project, notebook

from ppe.errors import InputError
from ppe.paper.runner import run
from ppe.parallel import parallel_map
from ppe.theory.recovery import recovery_cells, run_grid

ROOT = Path(__file__).resolve().parents[2]
STUDY = """
import os
from pathlib import Path

import pandas as pd

from ppe.parallel import parallel_map
from ppe.theory.recovery import recovery_cells, run_cell


def study(cell):
    return run_cell(cell, n_trials=10 * n, seed=seed) | {"process": os.getpid()}


cells = recovery_cells(sizes=[5, 8], levels=[0.1], constants=[1, 2])
rows = pd.DataFrame(parallel_map(study, cells, workers=2))
Path("processes").write_text(" ".join(map(str, rows.pop("process"))))
rows.to_csv(Path(output_dir, "fig_first.csv"))
"""


@pytest.fixture
def cluster(tmp_path: Path):
    "Workers forked from a server that has imported all: a process of its own each, without a start-up each."
    dask, distributed = (pytest.importorskip(name) for name in ("dask", "distributed"))
    from distributed.utils import get_mp_context

    get_mp_context().set_forkserver_preload(["distributed", "ppe.theory.recovery"])
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        distributed.LocalCluster(**options, local_directory=str(tmp_path / "dask")) as cluster,
    ):
        with distributed.Client(cluster) as client:
            client.wait_for_workers(2, timeout=60)
        yield cluster.scheduler_address, {worker.pid for worker in cluster.workers.values()}


@pytest.mark.slow
def test_a_notebook_gives_the_same_numbers_on_a_cluster_and_a_lost_worker_changes_nothing(
    cluster, tmp_path, monkeypatch
):
    address, pids = cluster
    files = {name: text for name, text in FILES.items() if not name.startswith(("ppe/", "data/"))}
    root = make_project(tmp_path / "project", files | {FIRST: notebook(STUDY)})
    (root / "ppe").symlink_to(ROOT / "ppe")
    made = []
    for scheduler in (None, address):
        (root / "figures/fig_first.csv").unlink(missing_ok=True)
        summary = run("fig_first", root=root, scheduler=scheduler, progress=False)
        assert summary.ran == ("fig_first",), summary.report()
        made.append((root / "figures/fig_first.csv").read_bytes())
        assert ({*map(int, (root / "processes").read_text().split())} <= pids) is (scheduler is not None)
    assert made[0] == made[1]
    monkeypatch.setenv("PPE_SCHEDULER", address)
    assert parallel_map(eval, ["__import__('os').getpid()"]) == [os.getpid()], "one worker: here"
    # The first leaves a mark and kills its worker; begun again, it finds the mark.
    mark = str(tmp_path / "killed")
    kill = f"(open({mark!r}, 'x'), __import__('os').kill(__import__('os').getpid(), 9))"
    tasks = [f"0 if __import__('os').path.exists({mark!r}) else {kill}", *map(str, range(1, 6))]
    assert parallel_map(eval, tasks, workers=2) == list(range(6)) and Path(mark).exists()
    begun = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        parallel_map(eval, ["1 / 0", "__import__('time').sleep(600)"], workers=2)
    assert time.monotonic() - begun < 60


def test_no_scheduler_is_one_line(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("ppe.parallel.SCHEDULER_SECONDS", 0.5)
    cells = recovery_cells(sizes=[5], levels=[0.1], constants=[1])
    with pytest.raises(InputError, match="127.0.0.1:9"):
        run_grid(cells, n_trials=2, seed=1, scheduler="tcp://127.0.0.1:9")
    with pytest.raises(InputError, match="127.0.0.1:9"):  # before a notebook is started
        run("fig_pipeline", profile="quick", scheduler="tcp://127.0.0.1:9", root=ROOT)


def test_the_base_install_does_not_import_the_cluster_and_make_names_it():
    code = "import sys, ppe.theory.recovery; sys.exit('distributed' in sys.modules or 'dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    call = ["make", "-n", "paper", "SCHEDULER=tcp://there:1"]
    assert "--scheduler tcp://there:1" in subprocess.run(call, cwd=ROOT, capture_output=True, text=True).stdout

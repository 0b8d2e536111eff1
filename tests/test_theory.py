"""`ppe theory`: answers of the library. Grids give the same rows wherever they run."""

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
from drawn import refused

from ppe.errors import InputError
from ppe.paper.runner import run
from ppe.parallel import parallel_map
from ppe.theory.mallows import alpha, mallows_q
from ppe.theory.recovery import recovery_cells, run_grid
from ppe.theory.tournaments import exact_recovery, graphs_needed


def test_answers_are_those_of_the_library(ppe_main):
    def answer(*words):
        done = ppe_main("theory", *words, "--format", "json")
        assert (done.code, done.err) == (0, "")
        return done.json()

    report, scale = answer("recovery", "--n", 100, "--p", 0.25, "--t", 64), math.log(100) / math.log(4 / 3)
    for name, value in {
        "edge_error": 1.456577e-05, "exact_recovery": 0.930437, "triangle_free": 0.931780,
        "expected_triangles": 2.355251, "threshold_plain": 4 * scale, "threshold_truncated": 2 * scale,
    }.items():  # fmt: skip
        assert report[name] == pytest.approx(value, rel=1e-6)
    report = answer("graphs-needed", "--n", 20, "--p", 0.4, "--confidence", 0.999)
    assert report["t"] == graphs_needed(20, 0.4, 0.999)
    assert report["exact_recovery"] == pytest.approx(exact_recovery(20, report["t"], 0.4))
    report = answer("alpha", "--p", 0.1, "--d", 4)
    assert (report["q"], report["alpha"]) == pytest.approx((mallows_q(0.1), alpha(4, 0.1)))


@pytest.mark.parametrize("words", [
    "recovery --n 1 --p 0.1 --t 3",
    "recovery --n 5 --p 0 --t 3",
    "recovery --n 5 --p 0.51 --t 3",
    "recovery --n 5 --p nan --t 3",
    "recovery --n 5 --p 0.1 --t 0",
    "recovery --n 5 --p 0.1 --t 2.5",
    "recovery --n 5 --p 0.1",
    "graphs-needed --n 5 --p 0.1 --confidence 1",
    "graphs-needed --n 5 --p 0.1 --confidence 0",
    "graphs-needed --n 5 --p -0.1",
    "alpha --p 0.1 --d 0",
    "alpha --p 0.6 --d 2",
])  # fmt: skip
def test_bad_input_is_one_line(ppe_main, words):
    refused(ppe_main("theory", *words.split()), "ppe: error: ")


def running(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def within(seconds: float, condition) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_workers_end_with_the_command(tmp_path, number):
    code = "from ppe.theory.recovery import recovery_cells, run_grid\n"
    code += "cells = recovery_cells(sizes=[3000], levels=[0.1], constants=[1, 2, 3])\n"
    code += "run_grid(cells, n_trials=100000, seed=1, workers=2)"
    process = psutil.Popen([sys.executable, "-c", code], cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE)
    workers = []
    try:
        assert within(60, lambda: len(process.children()) == 2)
        workers = process.children()
        time.sleep(0.5)  # into their cells, each of which takes minutes
        assert all(map(running, workers))
        process.send_signal(number)  # to the command alone, not its group
        # At once on a quiet machine; without an end to them the workers stay until their cells are done.
        assert within(10, lambda: process.poll() is not None)
        assert within(10, lambda: not any(map(running, workers)))
    finally:
        for one in filter(running, [process, *workers]):
            one.kill()
        process.communicate()


def test_a_cluster_that_loses_a_worker_gives_the_same_rows(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    import dask
    from distributed import Client, LocalCluster
    from distributed.utils import get_mp_context

    laws = ["plain", "truncated"]
    cells = recovery_cells(laws=laws, sizes=[8, 20], levels=[0.1, 0.25], constants=[1, 2, 4])
    local = run_grid(cells, n_trials=60, seed=5)
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    # Workers forked from a server that has imported all: a process of its own each, without a start-up each.
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "ppe.theory.recovery"])
        with LocalCluster(**options, host="127.0.0.1", local_directory=str(tmp_path)) as cluster:
            with Client(cluster) as client:
                client.wait_for_workers(2, timeout=60)
                pids = list(client.run(os.getpid).values())
            lost = []

            def rows(found, total):
                for number, row in enumerate(found):
                    if number == 2:
                        os.kill(pids[0], signal.SIGKILL)
                        lost.append(pids[0])
                    yield row

            address = cluster.scheduler_address
            remote = run_grid(cells, n_trials=60, seed=5, scheduler=address, progress=rows)
            monkeypatch.setenv("PPE_SCHEDULER", address)
            where = ["__import__('os').getpid()"] * 3
            assert os.getpid() not in parallel_map(eval, where, workers=2)
            assert set(parallel_map(eval, where)) == {os.getpid()}  # one worker: here
            begun = time.monotonic()
            with pytest.raises(ZeroDivisionError):
                parallel_map(eval, ["1 / 0", "__import__('time').sleep(600)"], workers=2)
            assert time.monotonic() - begun < 60
    assert lost
    pd.testing.assert_frame_equal(remote, local, check_exact=True)


def test_no_scheduler_is_one_line(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("ppe.parallel.SCHEDULER_SECONDS", 0.5)
    cells = recovery_cells(sizes=[5], levels=[0.1], constants=[1])
    with pytest.raises(InputError, match="127.0.0.1:9"):
        run_grid(cells, n_trials=2, seed=1, scheduler="tcp://127.0.0.1:9")
    with pytest.raises(InputError, match="127.0.0.1:9"):  # before a notebook is started
        run("fig_pipeline", profile="quick", scheduler="tcp://127.0.0.1:9", root=Path(__file__).parents[1])


def test_the_base_install_does_not_import_the_cluster():
    code = "import sys, ppe.theory.recovery; sys.exit('distributed' in sys.modules or 'dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

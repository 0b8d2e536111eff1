"""`ppe theory`: answers of the library. Grids give the same rows wherever they run."""

import math
import signal
import subprocess
import sys
import time

import psutil
import pytest
from drawn import refused

from ppe.theory.mallows import alpha, mallows_q
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

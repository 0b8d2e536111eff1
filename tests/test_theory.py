"""`ppe theory`: answers against rational arithmetic, and grids that give the same rows wherever they run."""

import json
import math
import os
import signal
import subprocess
import sys
from fractions import Fraction
from itertools import permutations

import pandas as pd
import pytest

from ppe.theory.recovery import recovery_cells, run_grid

# ---- oracles in rational arithmetic


def edge_error(t, p):
    right = Fraction(1, 2) + Fraction(str(p))
    return sum(math.comb(t, k) * right**k * (1 - right) ** (t - k) for k in range(t // 2 + 1))


def exact_recovery(n, t, p):
    return float((1 - edge_error(t, p)) ** math.comb(n, 2))


def triangle_free(n, t, p):
    wrong = edge_error(t, p)
    q, product = wrong / (1 - wrong), Fraction(1)
    for r in range(1, n + 1):
        product *= sum(q**k for k in range(r))
    return float((1 - wrong) ** math.comb(n, 2) * product)


def answer(done):
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


@pytest.mark.parametrize("n, p, t", [(5, 0.25, 3), (12, 0.1, 20), (20, 0.4, 5), (2, 0.5, 1)])
def test_recovery_equals_rational_arithmetic(ppe_main, n, p, t):
    report = answer(ppe_main("theory", "recovery", "--n", n, "--p", p, "--t", t, "--format", "json"))
    assert report["edge_error"] == pytest.approx(float(edge_error(t, p)), rel=1e-10)
    assert report["exact_recovery"] == pytest.approx(exact_recovery(n, t, p), rel=1e-10)
    assert report["triangle_free"] == pytest.approx(triangle_free(n, t, p), rel=1e-10)
    wrong = float(edge_error(t, p))
    assert report["expected_triangles"] == pytest.approx(math.comb(n, 3) * wrong * (1 - wrong), rel=1e-10)


def test_recovery_gives_the_stated_values(ppe):
    report = answer(ppe("theory", "recovery", "--n", 100, "--p", 0.25, "--t", 64, "--format", "json"))
    stated = {
        "edge_error": 1.456577e-05,
        "exact_recovery": 0.930437,
        "triangle_free": 0.931780,
        "expected_triangles": 2.355251,
    }
    for name, value in stated.items():
        assert report[name] == pytest.approx(value, rel=1e-6)
    scale = math.log(100) / math.log(1 / (1 - 4 * 0.25**2))
    assert report["threshold_plain"] == pytest.approx(4 * scale)
    assert report["threshold_truncated"] == pytest.approx(2 * scale)


@pytest.mark.parametrize(
    "n, p, confidence", [(20, 0.1, 0.95), (5, 0.3, 0.99), (3, 0.45, 0.5), (20, 0.4, 0.999)]
)
def test_graphs_needed_is_the_smallest_number(ppe_main, n, p, confidence):
    words = ("theory", "graphs-needed", "--n", n, "--p", p, "--confidence", confidence, "--format", "json")
    report = answer(ppe_main(*words))
    t = report["t"]
    assert report["exact_recovery"] == pytest.approx(exact_recovery(n, t, p), rel=1e-9)
    assert exact_recovery(n, t, p) >= confidence
    # Not monotone in t (an even number is worse than one fewer), so look at more than the one before.
    assert all(exact_recovery(n, fewer, p) < confidence for fewer in range(max(1, t - 9), t))


def test_alpha_equals_enumeration_of_orders(ppe_main):
    for d in (1, 2, 4):
        report = answer(ppe_main("theory", "alpha", "--p", 0.1, "--d", d, "--format", "json"))
        q = (0.5 - 0.1) / (0.5 + 0.1)
        weight = {
            order: q ** sum(a > b for k, a in enumerate(order) for b in order[k + 1 :])
            for order in permutations(range(d + 1))
        }
        right = sum(w for order, w in weight.items() if order.index(0) < order.index(d))
        assert report["q"] == pytest.approx(q)
        assert report["alpha"] == pytest.approx(right / sum(weight.values()), rel=1e-12)


@pytest.mark.parametrize(
    "words",
    [
        ("recovery", "--n", 1, "--p", 0.1, "--t", 3),
        ("recovery", "--n", 5, "--p", 0, "--t", 3),
        ("recovery", "--n", 5, "--p", 0.51, "--t", 3),
        ("recovery", "--n", 5, "--p", "nan", "--t", 3),
        ("recovery", "--n", 5, "--p", 0.1, "--t", 0),
        ("recovery", "--n", 5, "--p", 0.1, "--t", 2.5),
        ("recovery", "--n", 5, "--p", 0.1),
        ("graphs-needed", "--n", 5, "--p", 0.1, "--confidence", 1),
        ("graphs-needed", "--n", 5, "--p", 0.1, "--confidence", 0),
        ("graphs-needed", "--n", 5, "--p", -0.1),
        ("alpha", "--p", 0.1, "--d", 0),
        ("alpha", "--p", 0.6, "--d", 2),
        ("grid", "--n", 5, "--p", 0.7, "--out", "grid.csv"),
        ("grid", "--n", 1, "--p", 0.1, "--out", "grid.csv"),
        ("grid", "--n", 5, "--p", 0.1, "--out", "no/such/folder/grid.csv"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_bad_input_is_one_line(ppe_main, words):
    done = ppe_main("theory", *words)
    assert (done.code, done.out, done.new_files) == (2, "", ())
    assert done.err.startswith("ppe: error: ") and done.err.count("\n") == 1


def test_a_grid_is_the_same_for_any_number_of_workers_and_goes_on(ppe, tmp_path):
    words = (
        "theory",
        "grid",
        "--law",
        "plain",
        "--law",
        "truncated",
        "--n",
        6,
        "--p",
        0.25,
        "--c",
        1,
        "--c",
        3,
    )
    words = (*words, "--trials", 50, "--seed", 3)
    assert ppe(*words, "--out", "one.csv", "--workers", 1).code == 0
    assert ppe(*words, "--out", "two.csv", "--workers", 2).code == 0
    one = (tmp_path / "one.csv").read_bytes()
    assert one == (tmp_path / "two.csv").read_bytes()
    # A run that was stopped after two of four cells.
    part = b"\n".join(one.split(b"\n")[:3]) + b"\n"
    (tmp_path / "part.csv").write_bytes(part)
    assert ppe(*words, "--out", "part.csv").code == 0
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "part.csv"), pd.read_csv(tmp_path / "one.csv"))
    other = ppe(*words[:-1], 4, "--out", "one.csv")
    assert other.code == 2 and (tmp_path / "one.csv").read_bytes() == one


def test_a_cluster_that_loses_a_worker_gives_the_same_rows(tmp_path):
    pytest.importorskip("distributed")
    from distributed import Client, LocalCluster

    laws = ["plain", "truncated"]
    cells = recovery_cells(laws=laws, sizes=[8, 60], levels=[0.1, 0.25], constants=[1, 2, 4])
    local = run_grid(cells, n_trials=150, seed=5)
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**options, host="127.0.0.1", local_directory=str(tmp_path)) as cluster:
        with Client(cluster) as client:
            client.wait_for_workers(2, timeout=60)
            pids = list(client.run(os.getpid).values())
        lost = []

        def rows(found):
            for number, row in enumerate(found):
                if number == 2:
                    os.kill(pids[0], signal.SIGKILL)
                    lost.append(pids[0])
                yield row

        remote = run_grid(cells, n_trials=150, seed=5, scheduler=cluster.scheduler_address, progress=rows)
    assert lost
    pd.testing.assert_frame_equal(remote, local, check_exact=True)


def test_no_scheduler_is_one_line(ppe_main):
    pytest.importorskip("distributed")
    words = ("theory", "grid", "--n", 5, "--p", 0.1, "--out", "grid.csv", "--scheduler", "tcp://127.0.0.1:9")
    done = ppe_main(*words)
    assert (done.code, done.new_files) == (2, ())
    assert "127.0.0.1:9" in done.err


def test_the_base_install_does_not_import_the_cluster():
    code = "import sys, ppe.theory.recovery; sys.exit('distributed' in sys.modules or 'dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""The same numbers on every processor: studies at small size under processors that this one can pretend to be.

Which instructions numpy, OpenBLAS, numba and the C library take is said by environment variables, each setting in a
process of its own; numba keeps what it compiles for each apart. An emulation is no other machine: ARM and another libm
are not among them.
"""

import importlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from definitions import definitions

ROOT = Path(__file__).resolve().parents[2]
DIGITS = 1e-10  # of the largest number of its column: so far a number may be from what this processor gives
SEED = 20260324


@dataclass(frozen=True)
class Processor:
    "What a processor is called, and what it lacks."

    needs: tuple[str, ...]  # one of these features of this machine, as versions of numpy call it
    numba: str
    features: str  # as LLVM calls them
    lacks: tuple[str, ...]  # parts of the names of numpy's groups
    tunables: str = ""  # of the C library


# By the name of OpenBLAS; from a machine with AVX-512 the first three are taken, from one with AVX2 the last three.
PROCESSORS = {
    "SkylakeX": Processor(("AVX512_SKX", "X86_V4"), "skylake-avx512", "+avx512f,+avx2,+fma", ("ICL", "SPR")),
    "Haswell": Processor(("AVX2", "X86_V3"), "haswell", "-avx512f,+avx2,+fma", ("AVX512", "V4")),
    "Sandybridge": Processor(
        ("AVX", "X86_V3"), "sandybridge", "-avx2,-fma,+avx", ("",), "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"
    ),
    "Nehalem": Processor(("SSE42", "X86_V2"), "nehalem", "-avx,-fma", ("",), "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"),
}
OURS = "OPENBLAS_CORETYPE NPY_DISABLE_CPU_FEATURES NUMBA_CPU_NAME NUMBA_CPU_FEATURES GLIBC_TUNABLES".split()


def numpy_features() -> tuple[list[str], set[str]]:
    "Groups that numpy chooses among when it runs, and what this machine has; both by the names of this numpy."
    umath = importlib.import_module("numpy._core._multiarray_umath")
    return list(umath.__cpu_dispatch__), {name for name, there in umath.__cpu_features__.items() if there}


def environment(name: str) -> dict[str, str]:
    "Of a process with this processor; of the one that is there if the name is empty."
    clean = {key: value for key, value in os.environ.items() if key not in OURS}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    common = clean | threads | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    if not name:
        return common
    one, (groups, there) = PROCESSORS[name], numpy_features()
    off = [group for group in groups if group in there and any(part in group for part in one.lacks)]
    values = name, " ".join(off), one.numba, one.features, one.tunables
    return common | {key: value for key, value in zip(OURS, values, strict=True) if value}


# ---- the studies, each of a decision that rounding could turn


def keep_k() -> object:
    from ppe.paper.reference_pools import simulated_pools

    pools = simulated_pools(seed=SEED, categories=["coding", "stem"], replicated=False)
    return definitions("tables/tab_keep_k_cv.ipynb").budget_study(pools, n_splits=1, seed=SEED)


def plans() -> Iterator[object]:
    from ppe.designs.beliefs import public_beliefs
    from ppe.designs.plans import make_plan, parse_target
    from ppe.random_streams import stream

    for n, how in ((6, {"target": parse_target("top=2", 6)}), (15, {"n_calls": 1000}), (20, {"n_calls": 1000})):
        beliefs = public_beliefs([f"model {k}" for k in range(n)], n_draws=60, rng=stream(SEED, "beliefs"))
        yield make_plan(beliefs, 80, rng=stream(SEED, "plan"), n_wordings=3, **how).designs


def diagnostics() -> object:
    from ppe.paper.reference_pools import real_pools

    (one,), how = real_pools(["h2o"]), {"judge": "h2o", "per_question": 1, "seed": SEED}
    task_diagnostics = definitions("tables/tab_bt_diagnostic.ipynb").task_diagnostics
    category = one.pool.index["category"].astype(str).to_numpy()
    pools = {task: one.pool.subset(np.flatnonzero(category == task)) for task in sorted(set(category))}
    return pd.concat([task_diagnostics(pool, task=task, n_bootstrap=999, **how) for task, pool in pools.items()])


def stopping() -> Iterator[object]:
    table = definitions("tables/tab_stopping.ipynb")
    top = next(case for case in table.CASES if (case.name, case.goal) == ("h2o", "top=1"))
    for run in (54, 127):  # in which equal scores decided what came next
        first, since = table.stops((top, run), seed=SEED)
        yield [since, *(part for stop in first.values() for part in stop or (-1, -1))]
    equal = next(case for case in table.CASES if case.name == "2 equal models")
    for run in range(2):
        yield table.stops((equal, run), seed=SEED)[1]


def gates() -> object:
    return definitions("tables/tab_gate.ipynb").gate_study(["h2o", "mtbench"], [20], n_runs=3, seed=SEED)


def coverage() -> object:
    table = definitions("tables/tab_coverage.ipynb")
    setting = table.CoverageSetting("near ties", 6, 12, 2, 0.001)
    return table.coverage_study([setting], rankers=["bradley-terry", "kemeny"], n_pools=3, n_resamples=59, seed=SEED)


def replication() -> object:
    from ppe.inference.graph_selection import METHODS
    from ppe.paper.reference_pools import real_pools
    from ppe.paper.studies.aggregation import replication_cells, replication_table

    names = ("AllGraphs", "TruncFixed", "BlockTop1", "discrimination", "denoise", "ScoreWin40")
    how = {"methods": [METHODS[name] for name in names], "n_pools": 8, "seed": SEED}
    return replication_table(replication_cells(real_pools(["h2o", "mtbench"]), pool_sizes=[5], **how))


def leaderboards() -> Iterator[object]:
    from ppe import leaderboard
    from ppe.sources.datasets import load_verdicts

    yield leaderboard(load_verdicts("h2o-gpt4"), on_separation="ridge", order_effect=True).table()


def judges() -> object:
    from ppe.comparisons import Comparisons

    table = definitions("tables/tab_judges.ipynb")
    return table.judges_study(Comparisons.of(table.arena_verdicts()), sizes=[500], n_splits=1, seed=SEED)


def wordings() -> object:
    theorem = definitions("theorems/thm_question_effects.ipynb")
    effects = theorem.CallEffects(np.array([0.6, 0.2, 0.2, -0.3, -0.7]), 1.5, 0.6)
    return theorem.compare_ways(effects, sizes=[40, 120], n_questions=20, n_trials=60, seed=SEED)


def designs() -> Iterator[object]:
    study = definitions("figures/fig_design.ipynb")
    kinds = ("spread", "complete", "swiss", "trees")
    sets = study.recorded_sets(["h2o"])
    for replay in study.replay_sets(sets, kinds=kinds, graphs=(2, 5), n_repetitions=4, seed=SEED):
        yield from asdict(replay).values()


def placing() -> object:
    return definitions("figures/fig_place.ipynb").placing_study(["h2o"], n_runs=1, most=60, sizes=(20, 50), seed=SEED)


STUDIES: dict[str, Callable[[], object]] = {
    one.__name__: one
    for one in (
        keep_k, plans, diagnostics, stopping, gates, coverage, replication, leaderboards, judges, wordings, designs,
        placing,
    )
}  # fmt: skip


def columns(result: object) -> dict[str, list]:
    "Numbers and words of what a study gives, by column."
    parts, found = list(result) if isinstance(result, Iterator) else [result], {}
    for k, part in enumerate(parts):
        if isinstance(part, pd.DataFrame):
            named = {f"{k} {name}": part[name].tolist() for name in part.columns}
        elif isinstance(part, dict):
            named = {f"{k} {name}": np.ravel(values).tolist() for name, values in part.items()}
        else:
            named = {str(k): np.ravel(part).tolist()}
        found |= named
    return found


def main(out: str, *names: str) -> None:
    found = {name: columns(STUDIES[name]()) for name in names}
    Path(out).write_text(json.dumps(found, default=str))


# ---- the comparison


def apart(one: list, other: list) -> float:
    "How far two columns are apart, as a share of the largest number in them; infinite if more than numbers differ."
    if len(one) != len(other):
        return np.inf
    number = [isinstance(a, int | float) and isinstance(b, int | float) for a, b in zip(one, other, strict=True)]
    if any(a != b for a, b, numeric in zip(one, other, number, strict=True) if not numeric):
        return np.inf
    a, b = (np.array([x for x, numeric in zip(each, number, strict=True) if numeric], float) for each in (one, other))
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    a, b = a[finite], b[finite]
    return float(np.abs(a - b).max(initial=0.0) / max(np.abs(a).max(initial=0.0), np.finfo(float).tiny))


def test_a_column_apart_is_seen():
    one = [1.0, 2.0, float("nan"), "a", None, float("inf")]
    assert apart(one, list(one)) == 0 and apart([0.0], [0.0]) == 0
    assert DIGITS < apart(one, [1.0 + 4e-10, *one[1:]]) < 3e-10 and apart(one, [1.0 + 1e-10, *one[1:]]) < DIGITS
    assert {apart(one, other) for other in (one[1:], one[:-1], [*one[:-1], 1.0], [*one[:3], "b", *one[4:]])} == {np.inf}


def processors() -> list[str]:
    "The one that is there, under no name, and three that it can pretend to be."
    if platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip(f"{platform.machine()}: no x86-64, so there is no other x86-64 to pretend to be")
    there = numpy_features()[1]
    return ["", *[name for name, one in PROCESSORS.items() if there & {*one.needs}][:3]]


# Fits, resamples and decisions in a few seconds; the others take two minutes.
QUICK = ("leaderboards", "wordings")
SLOW = tuple(name for name in STUDIES if name not in QUICK)


@cache
def results(studies: tuple[str, ...]) -> dict[str, dict[str, dict[str, list]]]:
    "What each processor gives, the one that is there under no name: study, column, values."

    def run(name: str) -> dict[str, dict[str, list]]:
        with TemporaryDirectory() as folder:
            out = Path(folder, "numbers.json")
            call = [sys.executable, __file__, str(out), *studies]
            done = subprocess.run(call, env=environment(name), capture_output=True, text=True)
            assert done.returncode == 0, f"{name or 'own'}: {done.stderr[-3000:]}"
            return json.loads(out.read_text())

    with ThreadPoolExecutor(2) as pool:
        names = processors() if studies != QUICK else processors()[:: len(processors()) - 1 or 1]  # most unlike
        return dict(zip(names, pool.map(run, names), strict=True))


@pytest.mark.parametrize("study", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_a_study_gives_the_same_numbers_on_every_processor(study: str):
    "Every number within 1e-10 of the largest of its column: ten digits of that. Words and what is not finite: equal."
    numbers = results(QUICK if study in QUICK else SLOW)
    own = numbers[""][study]
    assert any(isinstance(value, float) for values in own.values() for value in values)
    for name in filter(None, numbers):
        moved = {column: apart(own[column], values) for column, values in numbers[name][study].items()}
        assert moved.keys() == own.keys()
        assert {column: by for column, by in moved.items() if not by <= DIGITS} == {}, name


if __name__ == "__main__":
    main(*sys.argv[1:])

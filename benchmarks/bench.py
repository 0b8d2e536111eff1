"""Speed of the library, as ratios to its peers measured in the same run: `make bench`.

Every ratio repeats our work and the peer's in turn and takes the median, so that a busy machine slows both.
Compilation is left out: each compiled function runs once before the clock starts (numba keeps the compiled
code on disk, so only the first session pays for it). Exits with 1 if a bound is missed or an answer differs.
"""

import argparse
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

import evalica
import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from scipy.optimize import minimize
from scipy.stats import norm

from ppe.cycle_scores import cycle_counts
from ppe.designs.pair_designs import PairDesign, design_pairs, pair_table
from ppe.inference.pool_intervals import pool_tests
from ppe.inference.score_limits import score_limits
from ppe.inference.score_tests import pair_tests
from ppe.pairs import write_pairs
from ppe.pool import Pool, half_tie_wins, win_tie_counts_from_table
from ppe.rankers.bradley_terry import bradley_terry, bradley_terry_batch
from ppe.rankers.discrimination import draw_graphs, fit_discrimination, fit_discrimination_batch
from ppe.rankers.kemeny import kemeny
from ppe.theory.mallows import majority_recovers, mallows_q, sample_orders
from ppe.verdicts import COLUMNS as VERDICT_COLUMNS
from ppe.verdicts import read_verdicts

ROOT = Path(__file__).resolve().parents[1]
SEED = 20260324
COLUMNS = ("what", "ours", "peer", "ratio", "bound", "result")


@dataclass(frozen=True)
class Line:
    "One line of the printed table."

    what: str
    ours: str
    bound: str
    passed: bool
    peer: str = ""
    ratio: str = ""

    def cells(self) -> tuple[str, ...]:
        result = "" if not self.bound else "pass" if self.passed else "FAIL"
        return self.what, self.ours, self.peer, self.ratio, self.bound, result


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved(
    *works: Callable[[], object],
    rounds: int,
) -> list[list[float]]:  # seconds of each work in each round
    "Time the works in turn, round after round."
    return list(zip(*([seconds(work) for work in works] for _ in range(rounds)), strict=True))


def show(value: float) -> str:
    "Seconds in the unit that reads best."
    scale, unit = next(pair for pair in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")) if value >= pair[0] or pair[0] < 1e-5)
    return f"{value / scale:.3g} {unit}"


def davidson_verdicts(
    rng: np.random.Generator,
    strengths: np.ndarray,  # (..., n)
    n_graphs: int,
    nu: float = 0.6,
) -> np.ndarray:  # (n_graphs, ..., n, n) bool adjacency of complete comparison graphs with ties
    "Graphs drawn from the Davidson model, the model of ties that the paper uses."
    worth = np.exp(strengths / 2)
    win = worth[..., :, None] / worth[..., None, :]
    tie = nu / (win + 1 / win + nu)
    win = win / (win + 1 / win + nu)
    draw = np.triu(rng.random((n_graphs, *win.shape)), 1)
    beats, ties = (draw < win), (draw >= win) & (draw < win + tie)
    upper = np.triu(np.ones(win.shape[-2:], dtype=bool), 1)
    loses = upper & ~beats & ~ties
    return (upper & (beats | ties)) | np.swapaxes(loses | (upper & ties), -1, -2)


def bradley_terry_lines(quick: bool) -> list[Line]:
    "10,000 fits in one call, against one call of evalica per matrix."
    n_fits, n, n_peer = (1000 if quick else 10_000), 20, 50
    rng = np.random.default_rng(SEED)
    wins, ties = np.zeros((2, n_fits, n, n))
    strengths = rng.normal(0, 0.8, (n_fits, n))
    for _ in range(20):  # twenty graphs each, one after the other to save memory
        graph = davidson_verdicts(rng, strengths, 1)[0]
        tied = graph & np.swapaxes(graph, 1, 2)
        wins += graph & ~tied
        ties += tied
    ours = bradley_terry_batch(wins, ties)  # compiles
    if ours.ridge.any():
        raise SystemExit(f"{ours.ridge.sum()} of the matrices have no maximum: nothing to compare")
    # evalica takes lists of x, y, winner and weight. They are made outside the clock, in two ways: as a user
    # has them, named models and one row for each count (half a win for a tie is its default too); and in the
    # cheapest way found, integers for names and half-tie sums, one row per ordered pair.
    names = np.array([f"model {k}" for k in range(n)])
    i, j = np.triu_indices(n, 1)
    rows = (np.tile(names[i], 3).tolist(), np.tile(names[j], 3).tolist())
    winners = [w for w in (evalica.Winner.X, evalica.Winner.Y, evalica.Winner.Draw) for _ in i]
    usual = [
        (*rows, winners, np.concatenate([wins[k][i, j], wins[k][j, i], ties[k][i, j]]).tolist()) for k in range(n_peer)
    ]
    i, j = np.nonzero(~np.eye(n, dtype=bool))
    half = half_tie_wins(wins, ties)
    cheapest = [(i.tolist(), j.tolist(), [evalica.Winner.X] * len(i), half[k][i, j].tolist()) for k in range(n_peer)]

    def call(inputs: list[tuple], **options: float) -> list[evalica.BradleyTerryResult]:
        return [evalica.bradley_terry(x, y, winner, weights=weight, **options) for x, y, winner, weight in inputs]

    mine, theirs, least = interleaved(
        lambda: bradley_terry_batch(wins, ties), lambda: call(usual), lambda: call(cheapest), rounds=5
    )
    per_fit, per_usual, per_least = median(mine) / n_fits, median(theirs) / n_peer, median(least) / n_peer
    ratio, least_ratio = (
        median(b / n_peer / (a / n_fits) for a, b in zip(mine, peer, strict=True)) for peer in (theirs, least)
    )
    worst = 0.0
    for k, tight in enumerate(call(usual, tolerance=1e-13, limit=100_000)):
        theta = np.log(tight.scores[names].to_numpy())
        worst = max(worst, float(np.abs(theta - theta.mean() - ours.scores[k]).max()))
    mine = show(per_fit)
    return [
        Line(f"Bradley–Terry, {n_fits:,} matrices 20 × 20, per fit", mine, "≤ 25 µs", per_fit <= 25e-6),
        Line(
            "… against evalica.bradley_terry, named models, a row per count", mine, "≥ 35 ×", ratio >= 35,
            show(per_usual), f"{ratio:,.0f} ×",
        ),
        Line(
            "… its cheapest input: integers, half-ties summed", mine, "", True,
            show(per_least), f"{least_ratio:,.0f} ×",
        ),
        Line("… largest difference, evalica's tolerance at 1e-13", f"{worst:.1e}", "≤ 1e-6", worst <= 1e-6),
    ]  # fmt: skip


def interval_lines(quick: bool) -> list[Line]:
    "Ranges of ranks and limits of scores by score tests, against 1,000 resamples of the questions, each fitted."
    n, n_questions = (20 if quick else 60), 80
    rng = np.random.default_rng(SEED)
    graphs = davidson_verdicts(rng, np.repeat(rng.normal(0, 0.8, (1, n)), n_questions, axis=0), 1)[0]
    pool = Pool.of(graphs)
    times = rng.multinomial(n_questions, np.full(n_questions, 1 / n_questions), size=1000)
    left = np.triu(rng.random(graphs.shape) < 0.9, 1)
    incomplete = Pool.of(graphs & (left | np.swapaxes(left, 1, 2)))

    def tested(some: Pool) -> object:
        tests = pool_tests(some, n_flips=1000, rng=rng)
        limits = score_limits(tests, level=0.95, simultaneous=True)
        return pair_tests(tests).certain(level=0.95, simultaneous=True), limits

    tested(pool), tested(incomplete), bradley_terry_batch(*pool.counts(times[:2]))  # compile
    works = lambda: tested(pool), lambda: tested(incomplete), lambda: bradley_terry_batch(*pool.counts(times))
    mine, lacking, theirs = interleaved(*works, rounds=3)
    ratio = median(b / a for a, b in zip(mine, theirs, strict=True))
    longer = median(b / a for a, b in zip(mine, lacking, strict=True))
    return [
        Line(
            f"score tests, {n} models, {n_questions} questions; beside 1,000 refits", show(median(mine)), "≤ 2 s",
            median(mine) <= 2, show(median(theirs)), f"{ratio:.1f} ×",
        ),
        Line(
            "… a tenth of the verdicts missing; beside all of them", show(median(lacking)), "≤ 3 ×",
            longer <= 3, show(median(mine)), f"{longer:.1f} ×",
        ),
    ]  # fmt: skip


def networkx_counts(graph: nx.DiGraph) -> tuple[int, int]:
    "Directed 3- and 4-cycles; a tie is also a cycle of length two, which does not count."
    lengths = [len(cycle) for cycle in nx.simple_cycles(graph, length_bound=4)]
    return lengths.count(3), lengths.count(4)


def cycle_lines(quick: bool) -> list[Line]:
    "400 graphs of 20 models, and one of 2,000."
    n_graphs, n_peer = 400, 2
    rng = np.random.default_rng(SEED)
    adjacency = davidson_verdicts(rng, rng.normal(0, 1, 20), n_graphs)
    counts = cycle_counts(adjacency)  # compiles
    graphs = [nx.from_numpy_array(a, create_using=nx.DiGraph) for a in adjacency[:n_peer]]
    mutual = [nx.from_numpy_array(a & a.T, create_using=nx.DiGraph) for a in adjacency[:n_peer]]

    def peer() -> None:  # all cycles only, although ours counts those of ties as well
        for graph in graphs:
            networkx_counts(graph)

    mine, theirs = interleaved(lambda: cycle_counts(adjacency), peer, rounds=7)
    per_graph, per_peer = median(mine) / n_graphs, median(theirs) / n_peer
    ratio = median(b / n_peer / (a / n_graphs) for a, b in zip(mine, theirs, strict=True))
    equal = all(
        networkx_counts(graph) == (counts.c3[k], counts.c4[k])
        and networkx_counts(ties) == (counts.c3_tie[k], counts.c4_tie[k])
        for k, (graph, ties) in enumerate(zip(graphs, mutual, strict=True))
    )
    large = davidson_verdicts(rng, rng.normal(0, 1, 500 if quick else 2000), 1)
    one = median(seconds(lambda: cycle_counts(large)) for _ in range(3))
    mine = show(per_graph)
    return [
        Line("3- and 4-cycles, 400 graphs of 20 models, per graph", mine, "≤ 6 µs", per_graph <= 6e-6),
        Line(
            "… against networkx.simple_cycles(length_bound=4)", mine, "≥ 2,500 ×", ratio >= 2500,
            show(per_peer), f"{ratio:,.0f} ×",
        ),
        Line(f"… counts on {n_peer} graphs, ties included", "equal" if equal else "differ", "equal", equal),
        Line(f"3- and 4-cycles, one graph of {large.shape[1]:,} models", show(one), "≤ 0.5 s", one <= 0.5),
    ]  # fmt: skip


def battle_rows(rng: np.random.Generator, strengths: np.ndarray, first: int, n_rows: int) -> pa.Table:
    "Battles from question number `first` on; each is a question of its own, in one of five categories."
    n_models, question = len(strengths), np.arange(first, first + n_rows)
    a = rng.integers(0, n_models, n_rows)
    b = (a + rng.integers(1, n_models, n_rows)) % n_models
    draw, margin = rng.random(n_rows), (strengths[a] - strengths[b]) / 2
    scale = np.exp(margin) + np.exp(-margin) + 0.6
    outcome = (draw >= np.exp(margin) / scale).astype(int) + (draw >= (np.exp(margin) + 0.6) / scale)
    words = {
        "judge": (np.zeros(n_rows), ["crowd"]),
        "category": (question % 5, [f"category {k}" for k in range(5)]),
        "model_a": (a, [f"model-{k:03d}" for k in range(n_models)]),
        "model_b": (b, [f"model-{k:03d}" for k in range(n_models)]),
        "verdict": (outcome, ["a", "tie", "b"]),
    }
    columns = {"question_id": question, "variant": np.zeros(n_rows, np.int64)} | {
        name: pa.DictionaryArray.from_arrays(codes.astype(np.int32), texts).cast(pa.string())
        for name, (codes, texts) in words.items()
    }
    return pa.table({name: columns[name] for name in VERDICT_COLUMNS})


def battles(rng: np.random.Generator, n_models: int, n_rows: int) -> dict[str, bytes]:
    "A file of battles in memory, as Parquet and as CSV."
    table = battle_rows(rng, rng.normal(0, 1, n_models), 0, n_rows)
    parquet = io.BytesIO()
    pa.parquet.write_table(table, parquet)
    return {"Parquet": parquet.getvalue(), "CSV": table.to_pandas().to_csv(index=False).encode()}


def read_aggregate_fit(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    "From the bytes of a file to a ranking; the counts are handed on to the bootstrap."
    wins, ties, models = win_tie_counts_from_table(read_verdicts(io.BytesIO(data)))
    bradley_terry(wins, ties, models=models)
    return wins, ties


def resamples(wins: np.ndarray, ties: np.ndarray, times: int) -> tuple[np.ndarray, np.ndarray]:
    "Wins and ties of resamples of the battles, each taken a Poisson number of times."
    rng = np.random.default_rng(SEED)
    drawn, tied = rng.poisson(wins, (times, *wins.shape)), rng.poisson(np.triu(ties), (times, *ties.shape))
    return drawn, tied + np.swapaxes(tied, 1, 2)


def table_lines(quick: bool) -> list[Line]:
    "300 models and two million battles."
    n_models, n_rows = (50, 100_000) if quick else (300, 2_000_000)
    files = battles(np.random.default_rng(SEED), n_models, n_rows)
    wins, ties = read_aggregate_fit(files["Parquet"])  # compiles
    bradley_terry_batch(*resamples(wins, ties, 1))
    lines = []
    for kind, data in files.items():
        took = median(seconds(lambda data=data: read_aggregate_fit(data)) for _ in range(3))
        what = f"{kind} in memory, {n_models} models, {n_rows:,} battles: read, aggregate, fit"
        lines.append(Line(what, show(took), "≤ 1.5 s", took <= 1.5))
    drawn = resamples(wins, ties, 100)
    took = median(seconds(lambda: bradley_terry_batch(*drawn)) for _ in range(3))
    lines.append(Line("100 bootstrap refits of these battles", show(took), "≤ 1.5 s", took <= 1.5))
    return lines


# Each in a process of its own: seconds after the imports, and peak memory. On Linux getrusage begins with the
# peak of the parent, so the system is asked for that of the process itself.
READERS = {
    "table": "from ppe.pool import win_tie_counts_from_table as count\n"
    "from ppe.verdicts import read_verdicts\nwork = lambda: count(read_verdicts(sys.argv[1]))",
    "pieces": "from ppe.large_files import stream_counts\n"
    "def work():\n    c = stream_counts(sys.argv[1:]).counts\n    return c.wins, c.ties, c.models",
}
MEASURE = """
import json, resource, sys, time, zlib
from pathlib import Path
from ppe.rankers.bradley_terry import bradley_terry
{reader}
start = time.perf_counter()
wins, ties, models = work()
bradley_terry(wins, ties, models=models)
took = time.perf_counter() - start
peak, status = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, Path("/proc/self/status")
if status.exists():
    peak = int(status.read_text().split("VmHWM:")[1].split()[0])
print(json.dumps([took, peak / 2**20, zlib.crc32(wins.tobytes() + ties.tobytes())]))
"""


# Of scores: seconds of processor after the imports, peak memory, and the means.
SCORE_READERS = {
    "ranges": "from ppe.inference.score_leaderboard import score_leaderboard\nfrom ppe.scores import read_scores\n"
    "def work(path):\n    board = score_leaderboard(read_scores(path)).with_intervals()\n"
    "    return board.to_frame().sort_values('model')['score']",
    "means": "import pandas as pd\nwork = lambda path: pd.read_csv(path).groupby('model')['score'].mean().sort_index()",
    "bootstrap": "import numpy as np\nimport pandas as pd\n"
    "def work(path):\n"
    "    table = pd.read_csv(path).pivot(index='question_id', columns='model', values='score').to_numpy()\n"
    "    rng, n = np.random.default_rng(1), len(table)\n"
    "    draws = (rng.integers(n, size=n) for _ in range(1000))\n"
    "    drawn = [(table[rows, 0] - table[rows, 1]).mean() for rows in draws]\n"
    "    np.quantile(drawn, [0.025, 0.975])\n"
    "    return table.mean(axis=0)",
}
SCORE_MEASURE = """
import json, sys, time
from pathlib import Path
{reader}
start = time.process_time()
means = [float(value) for value in work(sys.argv[1])]
took, status = time.process_time() - start, Path("/proc/self/status")
peak = int(status.read_text().split("VmHWM:")[1].split()[0]) / 2**20 if status.exists() else 0.0
print(json.dumps([took, peak, means]))
"""


def score_lines(quick: bool) -> list[Line]:
    "A million scores, from CSV to ranges, each in a new process; against pandas' means, and one paired bootstrap."
    n_questions, n_models = (2_000 if quick else 100_000), 10
    rng, names = np.random.default_rng(SEED), np.array([f"model-{k}" for k in range(n_models)])
    right = rng.random((n_questions, n_models)) < np.linspace(0.7, 0.6, n_models)
    table = {"question_id": np.arange(n_questions).repeat(n_models), "model": np.tile(names, n_questions)}
    measures: dict[str, list[tuple[float, float, list[float]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.csv"
        pd.DataFrame(table | {"score": right.ravel().astype(int)}).to_csv(path, index=False)
        for name, reader in SCORE_READERS.items():
            program = [sys.executable, "-c", SCORE_MEASURE.format(reader=reader), str(path)]
            runs = [subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True) for _ in range(3)]
            measures[name] = [tuple(json.loads(run.stdout)) for run in runs]
    took = {name: median(run[0] for run in runs) for name, runs in measures.items()}
    peak = {name: max(run[1] for run in runs) for name, runs in measures.items()}
    apart = float(np.abs(np.subtract(measures["ranges"][0][2], measures["means"][0][2])).max())
    what = f"CSV, {n_questions * n_models:,} scores: check, means, ranges, limits; pandas' means alone"
    ours, memory = took["ranges"], peak["ranges"]
    return [
        Line(what, show(ours), "≤ 1.5 s", ours <= 1.5, show(took["means"]), f"{took['means'] / ours:.1f} ×"),
        Line(
            "… one paired bootstrap of two models in numpy", show(ours), "", True,
            show(took["bootstrap"]), f"{took['bootstrap'] / ours:.1f} ×",
        ),
        Line(
            "… peak memory of the process; of pandas' means", f"{memory:.2f} GiB", "≤ 1 GiB", memory <= 1,
            f"{peak['means']:.2f} GiB", f"{peak['means'] / memory:.1f} ×",
        ),
        Line("… largest difference of a mean", f"{apart:.1e}", "≤ 1e-9", apart <= 1e-9),
    ]  # fmt: skip


def measured(reader: str, path: Path) -> tuple[float, float, int]:  # seconds, GiB, checksum of the counts
    "Read, check, count and fit a file in a new process."
    program = MEASURE.format(reader=READERS[reader])
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return tuple(json.loads(done.stdout))


def large_lines(n_rows: int, *, seconds_bound: float, memory_bound: float, table: bool) -> list[Line]:
    "A file that should not be in memory, read in pieces; against the reader of tables where it may be."
    rng, part, n_models = np.random.default_rng(SEED), 1_000_000, 300
    strengths, peers = rng.normal(0, 1, n_models), [("", ""), ("", "")]
    with tempfile.TemporaryDirectory() as folder:
        small, path = Path(folder) / "small.parquet", Path(folder) / "large.parquet"
        pa.parquet.write_table(battle_rows(rng, strengths, 0, 20 * n_models), small)
        with pa.parquet.ParquetWriter(path, pa.parquet.read_schema(small)) as writer:
            for first in range(0, n_rows, part):
                writer.write_table(battle_rows(rng, strengths, first, min(part, n_rows - first)))
        measured("pieces", small)  # compiles
        took, peak, counts = measured("pieces", path)
        what = f"Parquet in pieces, {n_models} models, {n_rows:,} battles: check, count, fit"
        if table:
            whole, whole_peak, whole_counts = measured("table", path)
            peers = [
                (show(whole), f"{whole / took:.1f} ×"),
                (f"{whole_peak:.2f} GiB", f"{whole_peak / peak:.1f} ×"),
            ]
        lines = [
            Line(what, show(took), f"≤ {seconds_bound:g} s", took <= seconds_bound, *peers[0]),
            Line(
                "… peak memory of the process", f"{peak:.2f} GiB", f"≤ {memory_bound:g} GiB",
                peak <= memory_bound, *peers[1],
            ),
        ]  # fmt: skip
        if table:
            equal = counts == whole_counts
            said = "equal" if equal else "differ"
            lines.append(Line("… counts, against those of the table", said, "equal", equal))
    return lines


def streaming_lines(quick: bool) -> list[Line]:
    "A tenth of the full size, with the reader of tables beside it."
    return large_lines(200_000 if quick else 10_000_000, seconds_bound=10, memory_bound=1, table=True)


def design_lines(quick: bool) -> list[Line]:
    "200 models, 10,000 questions, a million calls: from the numbers to the file; and how evenly they spread."
    n, n_questions, n_calls = (50, 1000, 20_000) if quick else (200, 10_000, 1_000_000)
    models = [f"model-{k:03d}" for k in range(n)]
    cells = pd.DataFrame({"question_id": [f"question-{k:05d}" for k in range(n_questions)], "variant": 0})
    n_variants = np.ones(n_questions, dtype=np.int64)

    def make(path: Path, **options: object) -> PairDesign:
        design = design_pairs(n, n_variants, n_calls, rng=np.random.default_rng(SEED), **options)
        write_pairs(pair_table(design, models, cells), path)
        return design

    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, options in (("spread", {}), ("blocks", {"kind": "blocks", "block_size": 15})):
            design = make(Path(folder) / "pairs.csv", **options)  # compiles
            took = median(
                seconds(lambda options=options: make(Path(folder) / "pairs.csv", **options)) for _ in range(3)
            )
            what = f"{kind}: {n} models, {n_questions:,} questions, {n_calls:,} calls, written"
            lines.append(Line(what, show(took), "≤ 5 s", took <= 5))
            if kind == "spread":
                at_random = PairDesign(
                    np.random.default_rng(SEED).permutation(design.question),
                    design.variant, design.first, design.second, n, n_questions,
                )  # fmt: skip
                ours, chance = design.sharing().one, at_random.sharing().one
                lines.append(
                    Line("… calls sharing a model within a question, to chance", f"{ours:.3f}", "≤ 0.2 ×",
                         ours <= 0.2 * chance, f"{chance:.3f}", f"{ours / chance:.2f} ×")
                )  # fmt: skip
    return lines


def theory_lines(quick: bool) -> list[Line]:
    "One trial of Theorem 2, exact sampling of orders against prefsampling, and exact Kemeny orders."
    from prefsampling.ordinal import mallows as peer_mallows

    n, t, q = (200 if quick else 1000), 51, mallows_q(0.25)
    rng = np.random.default_rng(SEED)

    def one_trial() -> bool:
        return majority_recovers(sample_orders(n, q, size=t, rng=rng))

    one_trial()  # compiles
    trial = median(seconds(one_trial) for _ in range(51))
    mine, theirs = interleaved(
        lambda: sample_orders(n, q, size=t, rng=rng),
        lambda: peer_mallows(t, n, phi=q, seed=SEED),
        rounds=5,
    )
    ratio = median(b / a for a, b in zip(mine, theirs, strict=True))
    lines = [
        Line(f"Mallows trial, {n} models, {t} orders", show(trial), "≤ 6 ms", trial <= 6e-3),
        Line(
            f"… sampling, against prefsampling {version('prefsampling')}", show(median(mine)), "≥ 300 ×",
            ratio >= 300, show(median(theirs)), f"{ratio:,.0f} ×",
        ),
    ]  # fmt: skip
    for size, level, bound in ((20, 0.0, 1.0), (20, 0.25, 25e-3)):
        counts = []
        for _ in range(3 if quick else 9):
            right = np.triu(rng.binomial(25, 0.5 + level, size=(size, size)), 1)
            counts.append(right + np.tril(25 - right.T, -1))
        kemeny(counts[0])
        times, certified = [], True
        for table in counts:
            start = time.perf_counter()
            certified &= kemeny(table).optimal
            times.append(time.perf_counter() - start)
        lines.append(
            Line(
                f"Kemeny, {size} models, 25 graphs, p = {level:g}, {'' if certified else 'NOT '}certified",
                show(median(times)), f"≤ {show(bound)}", certified and median(times) <= bound,
            )
        )  # fmt: skip
    return lines


def discrimination_pool(rng: np.random.Generator) -> Pool:
    "50 graphs of 20 models, 25 questions in two wordings, whose log discriminations have a spread of 0.7."
    log_a = np.repeat(rng.normal(0, 0.6, 25), 2) + rng.normal(0, 0.36, 50)
    utility = np.multiply.outer(np.exp(log_a), rng.normal(0, 0.8, 20))
    adjacency = draw_graphs(utility, 0.6, rng=rng)
    return Pool.of(adjacency, np.repeat(np.arange(25), 2))


def scipy_discrimination(pool: Pool, spread: float, share: float) -> np.ndarray:  # (n,) strengths
    "The marginal maximum by L-BFGS-B on a fine grid, in numpy as a reader of the model would; two graphs a question."
    i, j = np.triu_indices(pool.n_models, 1)
    sign = pool.adjacency[:, i, j].astype(float) - pool.adjacency[:, j, i]
    incidence = (np.arange(pool.n_models)[:, None] == i).astype(float) - (np.arange(pool.n_models)[:, None] == j)
    grid, width = np.linspace(-6 * spread, 6 * spread, 301, retstep=True)
    kernel = norm.pdf(grid - grid[:, None], scale=spread * np.sqrt(1 - share)) * width
    prior, a = norm.pdf(grid, scale=spread * np.sqrt(share)) * width, np.exp(grid)

    def terms(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        half = np.outer(a, theta @ incidence) / 2
        table = sign @ half.T - np.logaddexp(half, -half).sum(axis=1)
        likelihood = np.exp(table - table.max(axis=1, keepdims=True))
        inner = likelihood @ kernel.T
        of_question = inner[::2] * inner[1::2] * prior
        total = of_question.sum(axis=1, keepdims=True)
        posterior = likelihood * ((of_question / total).repeat(2, axis=0) / inner @ kernel)
        by_pair = posterior @ a @ sign - posterior.sum(axis=0) * a @ np.tanh(half)
        return table.max(axis=1).sum() + np.log(total).sum(), incidence @ by_pair / 2, posterior @ grid

    options = {"maxiter": 1000, "ftol": 0.0, "gtol": 1e-7, "maxcor": 30}
    start = bradley_terry(*pool.counts()).scores
    theta = minimize(
        lambda x: tuple(-part for part in terms(x)[:2]), start, jac=True, method="L-BFGS-B", options=options
    ).x
    return (theta - theta.mean()) * np.exp(terms(theta)[2].mean())


def aggregator_lines(quick: bool) -> list[Line]:
    "Discrimination against scipy; refits."
    rng = np.random.default_rng(SEED)
    pool, n_refits, rounds = discrimination_pool(rng), (5 if quick else 100), (1 if quick else 9)
    weights = np.repeat(rng.multinomial(25, np.full(25, 1 / 25), size=n_refits), 2, axis=1)
    fit = fit_discrimination(pool)
    apart = np.abs(fit.theta - scipy_discrimination(pool, fit.spread, fit.block_share)).max()
    mine, theirs = interleaved(
        lambda: fit_discrimination(pool),
        lambda: scipy_discrimination(pool, fit.spread, fit.block_share),
        rounds=rounds,
    )
    ratio = median(b / a for a, b in zip(mine, theirs, strict=True))
    (refits,) = interleaved(lambda: fit_discrimination_batch(pool, weights), rounds=3)
    per_refit = median(refits) / n_refits
    return [
        Line(
            "Discrimination, 50 graphs of 20 models, against scipy L-BFGS-B for the strengths alone",
            show(median(mine)), "≥ 5 ×", ratio >= 5, show(median(theirs)), f"{ratio:,.0f} ×",
        ),
        Line("… largest difference of a strength", f"{apart:.1e}", "≤ 1e-5", apart <= 1e-5),
        Line(
            f"… {n_refits} resamples of questions, spread estimated in each, per fit", show(per_refit),
            "≤ 50 ms", per_refit <= 0.05,
        ),
    ]  # fmt: skip


def paper_lines() -> list[Line]:
    "`make paper` in a copy of the checkout: each profile, and a second run of it."
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "ppe"
        for name in filter(None, listed.split("\0")):
            # Nothing that an earlier run has made, or there would be nothing to do.
            if (ROOT / name).is_file() and not name.startswith("figures/"):
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, copy / name)
        subprocess.run(["git", "init", "--quiet"], cwd=copy, check=True)
        env = os.environ | {"PYTHONPATH": str(copy)}
        env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        program = "import sys; from ppe.cli.main import main; sys.exit(main())"  # the library of the copy
        for profile, bound in (("quick", 120), ("full", 300)):
            call = [sys.executable, "-c", program, "paper", "run", "--profile", profile, "--workers", "2"]
            outputs = copy / ("figures" if profile == "full" else "build/quick")
            for what, limit in ((f"make paper PROFILE={profile}", bound), ("… a second run", 5)):
                start = time.perf_counter()
                done = subprocess.run(call, cwd=copy, env=env, capture_output=True, text=True)
                took = time.perf_counter() - start
                n_pictures = len(list(outputs.rglob("*.pdf")))
                if done.returncode or not n_pictures:
                    print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
                passed = took <= limit and not done.returncode and n_pictures > 0
                lines.append(Line(what, show(took), f"≤ {limit} s", passed))
    return lines


def print_table(lines: list[Line]) -> None:
    rows = [COLUMNS, *(line.cells() for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller work, to see that the benchmark runs")
    parser.add_argument("--paper", action="store_true", help="time `make paper` instead, in a copy of the checkout")
    parser.add_argument(
        "--large", action="store_true", help="time a file of 100 million verdicts instead (some minutes)"
    )
    options = parser.parse_args()
    packages = ", ".join(f"{name} {version(name)}" for name in ("ppe-ranking", "numpy", "numba", "evalica", "networkx"))
    print(f"Python {platform.python_version()}, {packages}, {os.cpu_count()} cores; compilation not counted\n")
    if options.paper:
        lines = paper_lines()
    elif options.large:
        lines = large_lines(100_000_000, seconds_bound=60, memory_bound=1.5, table=False)
    else:
        parts = (
            bradley_terry_lines, interval_lines, cycle_lines, table_lines, score_lines, streaming_lines, design_lines,
            theory_lines, aggregator_lines,
        )  # fmt: skip
        lines = [line for part in parts for line in part(options.quick)]
    print_table(lines)
    return 0 if all(line.passed for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())

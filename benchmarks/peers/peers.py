"""Scores and 95 % limits of three other tools on halves of the public sets, for nbs/tables/tab_calibration.ipynb.

`make peers` runs it in an environment of its own (benchmarks/peers/requirements.txt). Of this repository it imports the
named random streams alone; the tools are imported where they are called.
"""

import argparse
import csv
import gzip
import hashlib
import io
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ppe.random_streams import stream

ROOT = Path(__file__).resolve().parents[2]
SEED = 20260324
LEVEL = 0.95
RESAMPLES = 200  # of the verdicts, for evalica and choix
DEALS, DEALS_OF_MANY, MANY = 20, 5, 20_000  # deals of a set, and of one of so many verdicts
PACKAGES = ("evalica", "arena-rank", "choix", "jax", "numpy", "pandas", "scipy")
NAMES = (
    "mt-bench-gpt4", "mt-bench-human", "vicuna80-gpt4", "vicuna80-human", "h2o-gpt4", "oa-gpt4", "prd-judges",
    "prd-human", "ppr-arena",
)  # fmt: skip
VOTES = {"ppr-arena-people": ("ppr-arena", "human")}  # one judge of a set: here a question is a vote


@dataclass(frozen=True)
class Verdicts:
    "Valid verdicts of a set, in the order of its file."

    question: np.ndarray  # (V,) identifiers
    first: np.ndarray  # (V,) names
    second: np.ndarray  # (V,) names
    verdict: np.ndarray  # (V,) a, b or tie

    def take(self, rows: np.ndarray) -> "Verdicts":
        return Verdicts(self.question[rows], self.first[rows], self.second[rows], self.verdict[rows])


@dataclass(frozen=True)
class Limits:
    "Log-odds with mean 0, and their 95 % limits; models in alphabetical order."

    score: np.ndarray  # (n,)
    low: np.ndarray  # (n,)
    high: np.ndarray  # (n,)


def verdict_file(name: str) -> Path:
    return ROOT / "data" / "verdicts" / f"{VOTES.get(name, (name,))[0]}.csv.gz"


def read_verdicts(name: str) -> Verdicts:
    with gzip.open(verdict_file(name), "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["verdict"] != "invalid"]
    if name in VOTES:
        rows = [row for row in rows if row["judge"] == VOTES[name][1]]
    columns = ("question_id", "model_a", "model_b", "verdict")
    return Verdicts(*(np.array([row[column] for row in rows]) for column in columns))


def halves(questions: Sequence[str], name: str, deal: int, seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    "Two halves of the different questions of a set: its names in alphabetical order, dealt by a named stream."
    names = np.unique(np.asarray(questions, dtype=str))
    dealt = names[stream(seed, "halves", name, deal).permutation(len(names))]
    return dealt[: len(names) // 2], dealt[len(names) // 2 :]


def digest(questions: Sequence[str], name: str, n_deals: int, seed: int = SEED) -> str:
    "SHA-256 of the first halves, a line each."
    lines = [" ".join(sorted(halves(questions, name, deal, seed)[0])) for deal in range(n_deals)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def evalica_limits(verdicts: Verdicts, rng: np.random.Generator) -> Limits:
    "Percentiles of `evalica.bootstrap` over verdicts. Its scores have geometric mean 1: logarithms are log-odds."
    import evalica

    word = {"a": evalica.Winner.X, "b": evalica.Winner.Y, "tie": evalica.Winner.Draw}
    result = evalica.bootstrap(
        evalica.bradley_terry,
        verdicts.first.tolist(),
        verdicts.second.tolist(),
        [word[verdict] for verdict in verdicts.verdict],
        n_resamples=RESAMPLES,
        confidence_level=LEVEL,
        bootstrap_method="percentile",
        random_state=rng,
        limit=1000,
    )
    columns = (result.result.scores, result.low, result.high)
    return Limits(*(np.log(column.sort_index().to_numpy()) for column in columns))


def counts_of(verdicts: Verdicts) -> tuple[list[str], np.ndarray]:  # n names; (3, n, n) first won, second won, tie
    names, codes = np.unique(np.concatenate([verdicts.first, verdicts.second]), return_inverse=True)
    n, n_verdicts = len(names), len(verdicts.verdict)
    outcome = np.array(["a", "b", "tie"]).searchsorted(verdicts.verdict)
    cell = (outcome * n + codes[:n_verdicts]) * n + codes[n_verdicts:]
    return names.tolist(), np.bincount(cell, minlength=3 * n * n).reshape(3, n, n)


@cache
def minimiser() -> Callable:
    "What `fit` of arena-rank does, as one function of rows and parameters: compiled once for a number of rows."
    import jax
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.math_utils import lbfgs_minimize

    def fitted(rows: dict, start: dict) -> dict:
        loss = partial(BradleyTerry.loss_function, data=rows)
        return lbfgs_minimize(loss, start, max_iter=1000, gtol=1e-9, ftol=1e-9)[0]

    return jax.jit(fitted)


def arena_rank_limits(verdicts: Verdicts, rng: np.random.Generator) -> Limits:
    """Sandwich limits of `BradleyTerry.compute_ratings_and_cis`, over battles; nothing is drawn.

    A row for every model, opponent and outcome, so that it compiles once for a set; a row that does not occur has no
    weight, and the constant on the diagonal is that of the rows that do.
    """
    import jax.numpy as jnp
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    names, counts = counts_of(verdicts)
    outcome, first, second = (part.ravel() for part in np.indices(counts.shape))
    weights = jnp.asarray(counts.ravel(), dtype=jnp.float64)
    dataset = PairDataset(
        names,
        pairs=jnp.asarray(np.stack([first, second], axis=1), dtype=jnp.int32),
        outcomes=jnp.asarray(np.array([1.0, 0.0, 0.5])[outcome]),
        counts=jnp.maximum(weights, 1.0),
        weights=jnp.ones_like(weights),
        opt_weights=weights,
    )
    diagonal = 1e-5 * float(weights.sum() / dataset.counts.sum())
    model = BradleyTerry(len(names), scale=1.0, base=float(np.e), init_rating=0.0, hessian_reg=diagonal)
    model.params, model.fitted = minimiser()(dataset.as_dict(), model.params), True
    return _arena_limits(model.compute_ratings_and_cis(dataset, significance_level=1 - LEVEL, ci_method="sandwich"))


def plain_arena_rank_limits(verdicts: Verdicts) -> Limits:
    "The same as its manual shows it, which compiles anew for every table."
    import pandas as pd
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    winner = pd.Series(verdicts.verdict).map({"a": "model_a", "b": "model_b", "tie": "tie"})
    frame = pd.DataFrame({"model_a": verdicts.first, "model_b": verdicts.second, "winner": winner})
    dataset = PairDataset.from_pandas(frame)
    model = BradleyTerry(dataset.n_competitors, scale=1.0, base=float(np.e), init_rating=0.0)
    return _arena_limits(model.compute_ratings_and_cis(dataset, significance_level=1 - LEVEL, ci_method="sandwich"))


def _arena_limits(result: dict) -> Limits:
    assert result["competitors"] == sorted(result["competitors"])
    return Limits(*(np.asarray(result[key]) for key in ("ratings", "rating_lower", "rating_upper")))


def choix_limits(verdicts: Verdicts, rng: np.random.Generator) -> Limits:
    "Percentiles of `choix.ilsr_pairwise_dense` over resampled verdicts; a tie is half a win for each."
    import choix

    counts = counts_of(verdicts)[1]
    drawn = rng.multinomial(counts.sum(), counts.ravel() / counts.sum(), size=RESAMPLES)

    def scores(cells: np.ndarray) -> np.ndarray:
        first, second, tied = cells.reshape(counts.shape).astype(float)
        wins = first + second.T + (tied + tied.T) / 2
        return choix.ilsr_pairwise_dense(wins, alpha=1e-6, max_iter=1000)

    low, high = np.quantile([scores(row) for row in drawn], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return Limits(scores(counts), low, high)


TOOLS = {"evalica": evalica_limits, "arena-rank": arena_rank_limits, "choix": choix_limits}


def same(one: Limits, other: Limits) -> bool:
    return all(np.allclose(getattr(one, key), getattr(other, key), atol=1e-4) for key in ("score", "low", "high"))


def rows_of(name: str, verdicts: Verdicts, n_deals: int) -> list[list[str]]:
    "A row for each tool, deal, half and model."
    models, rows = sorted({*verdicts.first, *verdicts.second}), []
    for deal in range(n_deals):
        for half, questions in enumerate(halves(verdicts.question, name, deal)):
            part = verdicts.take(np.isin(verdicts.question, questions))
            assert sorted({*part.first, *part.second}) == models, f"{name}, deal {deal}: a model has no verdict"
            for tool, limits_of in TOOLS.items():
                limits = limits_of(part, stream(SEED, "peers", name, deal, half, tool))
                assert abs(limits.score.mean()) < 1e-6, f"{tool}: scores are not centred"
                if tool == "arena-rank" and name == NAMES[0] and deal == half == 0:
                    assert same(limits, plain_arena_rank_limits(part)), "arena-rank says something else"
                for model, *numbers in zip(models, limits.score, limits.low, limits.high, strict=True):
                    rows.append([name, tool, str(deal), str(half), model, *(f"{number:.4f}" for number in numbers)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "data" / "peers.csv.gz")
    parser.add_argument("--sets", nargs="*", default=[*NAMES, *VOTES])
    parser.add_argument("--deals", type=int, help="at most so many of each set")
    options = parser.parse_args()
    sets, rows = {}, []
    for name in options.sets:
        verdicts = read_verdicts(name)
        n_deals = DEALS if len(verdicts.question) < MANY else DEALS_OF_MANY
        if options.deals:
            n_deals = min(n_deals, options.deals)
        rows += rows_of(name, verdicts, n_deals)
        file = hashlib.sha256(verdict_file(name).read_bytes()).hexdigest()
        sets[name] = {"deals": n_deals, "halves": digest(verdicts.question, name, n_deals), "file": file}
        print(f"{name}: {n_deals} deals", flush=True)
    versions = {package: version(package) for package in PACKAGES}
    facts = {"seed": SEED, "level": LEVEL, "resamples": RESAMPLES, "python": platform.python_version()}
    text = io.StringIO(newline="")
    text.write(f"# {json.dumps(facts | {'versions': versions, 'sets': sets}, sort_keys=True)}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["set", "tool", "deal", "half", "model", "score", "low", "high"])
    writer.writerows(rows)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


if __name__ == "__main__":
    main()

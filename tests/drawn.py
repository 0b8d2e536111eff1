"""Verdicts of judges with known strengths and leanings, resampled by hand; what a refusal looks like."""

from itertools import combinations

import numpy as np
import pandas as pd
from conftest import COLUMNS
from scipy.special import expit

from ppe.comparisons import Comparisons
from ppe.inference.graph_selection import ALL_GRAPHS
from ppe.inference.question_resamples import question_weights
from ppe.random_streams import stream
from ppe.verdicts import validate_verdicts


def drawn_rows(seed, strength, judges, *, n_questions, ties=0.15, holes=0.0, fixed=False):
    "Every pair of every question once by each judge (discrimination, first place), in random order or the alphabet's."
    rng, rows = np.random.default_rng(seed), []
    for judge, (a, first_place) in judges.items():
        for question in range(n_questions):
            for x, y in combinations(strength, 2):
                first, second = (x, y) if fixed or rng.random() < 0.5 else (y, x)
                win = rng.random() < expit(a * (strength[first] - strength[second]) + first_place)
                verdict = "tie" if rng.random() < ties else "ab"[not win]
                verdict = "invalid" if rng.random() < holes else verdict
                rows.append((judge, question, "any", 0, first, second, verdict))
    return rows


def frame(rows):
    return validate_verdicts(pd.DataFrame(rows, columns=COLUMNS))


def comparisons(rows, models=None):
    return Comparisons.of(frame(rows), models=models)


def copied(rows, board, n_resamples, seed):
    "The rows of each resample of questions, graph by graph, a copy of a graph under a variant of its own."
    weights = question_weights(ALL_GRAPHS, board.pool, n_resamples=n_resamples, rng=stream(seed, "intervals"))
    graphs = {}
    for row in rows:
        graphs.setdefault(row[:2], []).append(row)
    keys = list(zip(board.pool.index["judge"], board.pool.index["question_id"], strict=True))
    for drawn in weights:
        times = [(key, copy) for key, n in zip(keys, drawn, strict=True) for copy in range(n)]
        yield [(*row[:3], copy, *row[4:]) for key, copy in times for row in graphs[key]]


def resampled(rows, board, n_resamples, seed):
    "Their comparisons."
    for copies in copied(rows, board, n_resamples, seed):
        yield comparisons(copies, board.pool.models)


def refused(done, *words):
    "One line of error with these words, exit code 2, and nothing written."
    assert (done.code, done.out, done.err.count("\n"), done.new_files) == (2, "", 1, ()), done
    assert all(word in done.err for word in words), done.err

"Accuracies in rewordings: the functions take any table, here the half of the public set that has other models."

import numpy as np
import pytest

from ppe.errors import InputError
from ppe.paper.studies.rewordings import (
    accuracy_components,
    bad_cycles,
    crossed_accuracies,
    design_distances,
    other_best,
)
from ppe.sources.datasets import load_rewordings


@pytest.fixture(scope="module")
def lmentry():
    table = load_rewordings()
    return table[table["task"].str.startswith("LMentry")]


def test_other_tasks_and_models_are_studied_alike(lmentry):
    study = crossed_accuracies(lmentry)
    assert (len(study.tasks), len(study.models), study.left_out) == (5, 16, ())
    far = design_distances(study, [(3, 2), (2, 3), (1, 6)], n_draws=1000, seed=1)
    components = accuracy_components(study)
    reference = components.deviation({"question": 2})
    told = [
        np.hypot(components.deviation({"question": k, "wording": m}), reference) for k, m in ((3, 2), (2, 3), (1, 6))
    ]
    assert np.allclose(far["apart"], told, rtol=0.04) and np.isfinite(far["ratio_high"]).all()
    assert other_best(study, n_draws=50, seed=1)["task"].tolist() == [*study.tasks, "all tasks"]
    assert bad_cycles(study, 3, n_draws=50, seed=1)["with_bad"][0] == 0
    with pytest.raises(InputError, match="here are 5 tasks, of which one is needed as reference"):
        design_distances(study, [(8, 1)], n_draws=10, seed=1)


def test_only_what_is_marked_and_what_all_were_asked_counts(lmentry):
    whole = crossed_accuracies(lmentry)
    first = (lmentry["task"] == whole.tasks[0]) & (lmentry["rewording"] == 1)
    unmarked = crossed_accuracies(lmentry.assign(correct=lmentry["correct"] & ~first))
    assert len(unmarked.of_task[0]) == len(whole.of_task[0]) - 1
    missed = crossed_accuracies(lmentry[~(first & (lmentry["model"] == "t0_3b"))])
    assert missed.left_out == ("t0_3b",) and len(missed.models) == 15
    with pytest.raises(InputError, match=r"LMentry/all_words_from_category / 1 / .* from 0 to 1"):
        crossed_accuracies(lmentry.assign(accuracy=lmentry["accuracy"].mask(first, 58.0)))
    renamed = lmentry.assign(model=lmentry["model"].astype(str).map(lambda name: name[::-1]))
    table = accuracy_components(crossed_accuracies(renamed)).to_frame()
    assert np.allclose(table.iloc[:, 1:], accuracy_components(whole).to_frame().iloc[:, 1:])

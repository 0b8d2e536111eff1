"""Logs of Inspect that did not end."""

import json
import zipfile
from pathlib import Path

import pytest

from ppe.verdicts import read_verdicts


@pytest.mark.parametrize("status", ["started", "cancelled", "error", "success"])
def test_a_log_of_inspect_that_did_not_end_is_imported_and_said(ppe_main, tmp_path: Path, status: str):
    samples = [
        {"id": k, "epoch": 1, "scores": {"s": {"value": "A"}}, "metadata": {"model_a": "x", "model_b": "y"}}
        for k in range(3)
    ]
    header = {"version": 2, "eval": {"model": "judge"}, "status": status}
    (tmp_path / "log.json").write_text(json.dumps(header | {"samples": samples}))
    del header["status"]  # of the first part of an archive, written before the run has ended
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        start = {"header.json": header | {"status": status}} if status == "success" else {"_journal/start.json": header}
        for name, entry in (start | {f"samples/{k}_epoch_1.json": sample for k, sample in enumerate(samples)}).items():
            archive.writestr(name, json.dumps(entry))
    for file, shown in (("log.json", status), ("log.eval", status if status == "success" else "started")):
        run = ppe_main("import", file, "--out", f"{file}.csv")
        assert run.code == 0 and len(read_verdicts(tmp_path / f"{file}.csv")) == 3
        said = f"samples of a log that did not finish (status {shown}), so that others may be missing: 3"
        assert (said in run.out + run.err) == (status != "success"), run

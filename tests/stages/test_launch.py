"""`launch` with real commands, `kill -9`, and signals; what concerns GPUs is tried in the notebook.

No test measures time: commands wait for files, and the only clocks are limits that a passing run does not reach.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ppe.stages.launch import Job, launch

LIMIT = 120.0  # seconds after which a test has failed


def wait_for(condition):
    "The condition's value once it is true."
    end = time.monotonic() + LIMIT
    while not (value := condition()):
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)
    return value


def runs(pid: int) -> bool:
    "Whether the process runs; one that has ended and was not collected does not."
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip()[:1] not in ("", "Z", "X")


def shell(name: str, script: str, *arguments: object) -> Job:
    return Job(name, ("sh", "-c", script, *map(str, arguments)))


def workers(*results: Job) -> set[str]:
    return {worker for result in results for worker, _ in result.attempts}


@pytest.fixture
def home(tmp_path: Path, monkeypatch) -> Path:
    "An empty working folder."
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def on_cpu(home, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return lambda jobs, **options: launch(jobs, **{"log_folder": "logs", "workers": 2} | options)


# ---- jobs


def test_each_job_ends_in_its_own_way_and_a_later_launch_adds_to_the_logs(on_cpu):
    cases = {
        "bad": ("exit 2", "bad input", 1),
        "dies": ("exit 1", "failed", 2),
        "killed": ("kill -9 $$", "failed", 2),
        "gone": ("exec ./no-such-command", "failed", 2),
        "a/b c": ("echo said", "done", 1),
        **{300 * "x" + more: ("true", "done", 1) for more in ("", "y")},
    }
    for times in (1, 2):
        results = on_cpu([shell(name, script) for name, (script, *_) in cases.items()], attempts=2)
        assert [[result.outcome, len(result.attempts)] for result in results] == [end for _, *end in cases.values()]
        log = Path("logs/05-a-b-c.log").read_text().splitlines()
        assert log[1::2] == times * ["said"] and log[0].startswith("# a/b c, attempt 1, ")
    words = "bad input|(exit 2)|failed|(exit 1)|(Killed)|(exit 127)|done|(exit 0)|logs/05-a-b-c".split("|")
    assert all(word in "\n".join(map(str, results)) for word in words)
    assert "no-such-command" in Path("logs/04-gone.log").read_text() and len({result.log for result in results}) == 7
    assert workers(*results) == {"CPU 1", "CPU 2"}


def test_a_log_that_cannot_be_written_fails_its_job_alone(on_cpu):
    Path("logs/01-a.log").mkdir(parents=True)
    said: list[str] = []
    bad, good = on_cpu([Job("a", ("true",)), Job("b", ("true",))], say=said.append)
    assert (bad.outcome, len(bad.attempts), good.outcome) == ("failed", 3, "done")
    assert any("Is a directory" in text for text in said)


# ---- the launching process is told to end, or killed


# Signals that the test's own parents ignore, as under nohup, would be ignored by the launcher too.
LAUNCHER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from ppe.stages.launch import Job, launch

jobs = [*(Job(name, ("sh", "-c", sys.argv[1], name)) for name in "ab"), Job("c", ("true",))]
launch(jobs, workers=2, grace_seconds=float(sys.argv[2]), log_folder="logs")
print("returned", flush=True)
"""
HELPER = 'sleep 300 & echo "$$ $!" > tmp.$0; mv tmp.$0 pids.$0; wait; sleep 300'


def launcher(script: str, grace: float, folder: Path) -> tuple[subprocess.Popen, list[int]]:
    "A launching process with two commands at work, and the process ids of these and of their helpers."
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, script, str(grace)], start_new_session=True,
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    pids = []
    for name in "ab":
        wait_for(lambda file=folder / f"pids.{name}": process.poll() is not None or file.exists())
        pids += map(int, (folder / f"pids.{name}").read_text().split())
    return process, pids


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_ends_the_commands_and_all_they_started(home, number):
    # Each command is asked to end; in the case of SIGTERM none of them listens, and a short grace ends.
    deaf = number == signal.SIGTERM
    trap = 'trap "" TERM; ' if deaf else 'trap "> asked.$0; exit" TERM; '
    process, pids = launcher(trap + HELPER, 0.1 if deaf else LIMIT, home)
    assert all(map(runs, pids))
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT)
    wait_for(lambda: not any(map(runs, pids)))
    assert out == "" and all((home / f"asked.{name}").exists() != deaf for name in "ab")
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in err  # which the command line turns into its own words
    else:
        assert (process.returncode, err) == (128 + number, "")


@pytest.mark.parametrize("trap, second", [('trap "> asked.$0" TERM; ', True), ('trap "" TERM; ', False)])
def test_a_second_signal_does_not_wait_for_the_grace_and_a_killed_launch_leaves_nothing(home, trap, second):
    process, pids = launcher(trap + HELPER, 1000, home)
    process.send_signal(signal.SIGINT if second else signal.SIGKILL)
    if second:
        wait_for(lambda: all((home / f"asked.{name}").exists() for name in "ab"))
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT)
    wait_for(lambda: not any(map(runs, pids)))


def test_a_signal_that_was_ignored_stays_ignored(on_cpu):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        (result,) = on_cpu([shell("a", 'kill -HUP "$0"', os.getpid())])
        assert result.outcome == "done" and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)

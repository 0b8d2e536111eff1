"""`launch` with real processes: a stand-in for `nvidia-smi` on PATH, `kill -9`, and signals to the launcher.

No test measures time: workers wait for files, GPUs change with the number of polls, and the only clocks are
limits that a passing run does not reach.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ppe.errors import InputError, PpeError
from ppe.stages.launch import Event, Gpu, Job, NoFreeGpuError, launch, query_gpus

LIMIT = 30.0  # seconds after which a test has failed
FREE, BUSY = "512, 81559, 0", "70120, 81559, 97"


def wait_for(condition):
    "The condition's value once it is true."
    end = time.monotonic() + LIMIT
    while not (value := condition()):
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)
    return value


def runs(pid: int) -> bool:
    "Whether the process runs; one that has ended and was not collected does not."
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if not Path("/proc/self/stat").exists():
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def shell(name: str, script: str, *arguments: object) -> Job:
    return Job(name, ("sh", "-c", script, *map(str, arguments)))


def idle(*numbers: int) -> tuple[Gpu, ...]:
    return tuple(Gpu(k, f"GPU-{k}", 512, 81559, 0) for k in numbers)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch):
    "A folder with an `nvidia-smi` on PATH that prints the n-th table at its n-th call, the last one again."
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def tables(*answers: str, status: int = 0) -> None:
        for number, answer in enumerate(answers, start=1):
            (folder / f"table.{number}").write_text(answer)
        (folder / "calls").write_text("0")
        script = folder / "nvidia-smi"
        script.write_text(
            f'#!/bin/sh\ncd "{folder}"\necho "$*" > arguments\nn=$(( $(cat calls) + 1 ))\n'
            f"test -e table.$n || n={len(answers)}\necho $n > calls\ncat table.$n\nexit {status}\n"
        )
        script.chmod(0o755)

    return tables


@pytest.fixture
def run(tmp_path: Path, monkeypatch):
    "`launch` with short times and everything in this test's folder."
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def call(jobs, **options):
        defaults = {"log_folder": "logs", "lock_folder": tmp_path, "poll_seconds": 0.01, "grace_seconds": 0.2}
        return launch(jobs, **defaults | {"patience": LIMIT} | options)

    return call


def lines(text: str, *gpus: str) -> str:
    return "".join(f"{number}, GPU-{number}, {gpu}\n" for number, gpu in enumerate(gpus)) + text


# ---- the executable


def test_the_query_asks_the_executable_on_the_path(machine, tmp_path):
    machine(lines("", FREE, BUSY, "[N/A], [N/A], 4", "[Unknown Error], 81559, [GPU requires reset]"))
    gpus = query_gpus()
    assert gpus[:3] == (
        Gpu(0, "GPU-0", 512, 81559, 0),
        Gpu(1, "GPU-1", 70120, 81559, 97),
        Gpu(2, "GPU-2", None, None, 4),
    )
    assert gpus[3].problem == "[GPU requires reset], [Unknown Error]"
    asked = "--query-gpu=index,uuid,memory.used,memory.total,utilization.gpu --format=csv,noheader,nounits\n"
    assert (tmp_path / "bin" / "arguments").read_text() == asked


def test_a_gpu_without_a_uuid_goes_by_its_number(machine):
    machine("3, [N/A], 512, 81559, 0\n4, [Unknown Error], [N/A], [N/A], [N/A]\n")
    three, four = query_gpus()
    assert (three.key, three.problem, four.key, four.problem) == ("3", "", "4", "[Unknown Error]")


@pytest.mark.parametrize(
    "answer, status, words",
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9, "exit 9"),
        ("Unable to determine the device handle for GPU0: Unknown Error\n", 15, "exit 15.*device handle"),
        ("0, GPU-0, 512\n", 0, "'0, GPU-0, 512'"),
        ("index, uuid, memory.used [MiB], memory.total [MiB], utilization.gpu [%]\n", 0, "the rule is index"),
    ],
)
def test_a_driver_that_fails_is_told_in_one_line_before_anything_starts(machine, run, answer, status, words):
    machine(answer, status=status)
    with pytest.raises(PpeError, match=words) as raised:
        run([Job("never", ("touch", "started"))])
    assert "\n" not in str(raised.value) and "CUDA_VISIBLE_DEVICES" in str(raised.value)
    assert not Path("started").exists()


def test_a_driver_that_hangs_is_left_with_all_it_started(tmp_path):
    script = 'sleep 300 & echo $! > "$0"; wait'
    with pytest.raises(PpeError, match="has not answered"):
        query_gpus(("sh", "-c", script, str(tmp_path / "pid")), timeout_seconds=0.5)
    pid = tmp_path / "pid"
    wait_for(lambda: not pid.exists() or not runs(int(pid.read_text())))


def test_a_gpu_that_becomes_free_is_taken_and_the_worker_sees_it_alone(machine, run):
    # Free at one poll only (the third), then from the fifth on; the first call is not a poll.
    busy, free = lines("", BUSY, BUSY), lines("", BUSY, FREE)
    machine(busy, busy, busy, free, busy, free, free)
    events: list[Event] = []
    report = run([shell("math", "echo $CUDA_VISIBLE_DEVICES")], on_event=events.append)
    started = next(event for event in events if event.kind == "started")
    assert (started.poll, started.gpu) == (6, "GPU 1")
    assert report.results[0].attempts[0].log.read_text().splitlines()[1:] == ["GPU-1"]
    assert next(event.text for event in events if event.kind == "waiting") == (
        "GPU 0: 70120 of 81559 MiB in use; GPU 1: 70120 of 81559 MiB in use"
    )


def test_visible_means_named_by_the_variable_in_its_order(machine, run):
    machine(lines("", FREE, FREE, FREE))
    sees = [shell(name, "echo $CUDA_VISIBLE_DEVICES") for name in "ab"]
    report = run(sees, environment=os.environ | {"CUDA_VISIBLE_DEVICES": "2,GPU-0"})
    assert [r.attempts[0].log.read_text().split("\n")[1] for r in report.results] == ["GPU-2", "GPU-0"]
    with pytest.raises(InputError, match="'3' fits 0 GPUs"):
        run(sees, environment=os.environ | {"CUDA_VISIBLE_DEVICES": "0,3"})


@pytest.mark.parametrize("mask", ["", "-1"])
def test_a_mask_that_hides_all_gpus_means_the_cpu_and_no_query(run, mask):
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": mask}
    job = shell("math", 'echo "[$CUDA_VISIBLE_DEVICES]"')
    report = run([job], environment=environment, query=lambda: pytest.fail("asked"))
    assert report.results[0].attempts[0].gpu == "CPU"
    assert report.results[0].attempts[0].log.read_text().endswith("\n[]\n")


# ---- workers


CLAIM = 'set -C; > "gpu.$CUDA_VISIBLE_DEVICES" || exit 9; sleep 0.02; rm "gpu.$CUDA_VISIBLE_DEVICES"'


def test_one_worker_to_a_gpu(run):
    # Each worker claims a file named after its GPU, and fails if it is there.
    report = run([shell(f"job {k}", CLAIM) for k in range(12)], query=lambda: idle(0, 1, 2))
    assert report.all_done and all(len(result.attempts) == 1 for result in report.results)
    assert {result.attempts[0].gpu for result in report.results} == {"GPU 0", "GPU 1", "GPU 2"}


def test_as_many_workers_as_asked_for_and_no_more(run):
    # Each job ends only when its partner has started.
    script = '> "here.$0"; while [ ! -e "here.$1" ]; do sleep 0.01; done'
    pairs = [shell("job", script, a, b).arguments for a, b in ("ab", "ba", "cd", "dc")]
    jobs = [Job(f"job {k}", words) for k, words in enumerate(pairs)]
    peak, alive = [], set()

    def watch(event: Event) -> None:
        if event.kind == "started":
            alive.add(event.job)
        elif event.kind == "done":
            alive.discard(event.job)
        peak.append(len(alive))

    for query in (lambda: (), lambda: idle(0, 1, 2, 3)):
        for mark in Path().glob("here.*"):
            mark.unlink()
        peak.clear()
        assert run(jobs, query=query, workers=2, on_event=watch).all_done
        assert max(peak) == 2


def test_a_killed_workers_job_is_done_by_another_on_another_gpu(run):
    # The first attempt waits for ever; it has written its half when it is killed.
    script = """
    if [ ! -e half ]; then echo first > half.tmp; mv half.tmp half; sleep 300; fi
    echo second >> half
    """
    killed = []

    def kill_the_first(event: Event) -> None:
        if event.kind == "started" and event.job == "math" and not killed:
            wait_for(Path("half").exists)
            os.kill(event.pid, signal.SIGKILL)
            killed.append(event.pid)

    jobs = [shell("math", script), shell("stem", "while [ ! -e half ]; do sleep 0.01; done")]
    report = run(jobs, query=lambda: idle(0, 1), on_event=kill_the_first)
    math = report.results[0]
    assert math.outcome == "done" and [a.status for a in math.attempts] == [-signal.SIGKILL, 0]
    assert [a.gpu for a in math.attempts] == ["GPU 0", "GPU 1"]
    assert Path("half").read_text() == "first\nsecond\n"
    assert len({attempt.log for attempt in math.attempts}) == 2
    assert re.search(r"^math +2 +0,1 +done +logs/01-math\.2\.log$", report.table(), re.M)
    assert not runs(killed[0])


def test_what_a_dead_worker_leaves_is_ended_before_its_job_starts_again(run):
    # The shell dies, the program it ran goes on: the second attempt fails if that still runs.
    script = """
    if [ ! -e orphan ]; then sleep 300 & echo $! > orphan; kill -9 $$; fi
    state=$(sed 's/.*) //; s/ .*//' /proc/$(cat orphan)/stat 2>/dev/null)
    test -z "$state" -o "$state" = Z || exit 9
    """
    if not Path("/proc/self/stat").exists():
        pytest.skip("the worker looks into /proc")
    report = run([shell("math", script)], query=lambda: idle(0))
    assert [attempt.status for attempt in report.results[0].attempts] == [-signal.SIGKILL, 0]
    assert not runs(int(Path("orphan").read_text()))


def test_bad_input_is_not_tried_again_and_attempts_have_an_end(run):
    jobs = [
        shell("bad", "exit 2"),
        shell("dies", "exit 1"),
        shell("killed", "kill -9 $$"),
        shell("good", "true"),
    ]
    for query in (lambda: (), lambda: idle(0, 1)):
        report = run(jobs, query=query, attempts=2, strikes=9)
        outcomes = [(result.outcome, len(result.attempts)) for result in report.results]
        assert outcomes == [("bad input", 1), ("failed", 2), ("failed", 2), ("done", 1)]
        assert not report.all_done and not report.set_aside
    table = report.table()
    assert "bad input (exit 2)" in table and "failed (exit 1)" in table and "failed (SIGKILL)" in table


def test_a_gpu_on_which_jobs_die_is_set_aside(run):
    script = 'echo "$CUDA_VISIBLE_DEVICES" >> seen; test "$CUDA_VISIBLE_DEVICES" != GPU-0'
    events: list[Event] = []
    jobs = [shell(f"job {k}", script) for k in range(10)]
    report = run(jobs, query=lambda: idle(0, 1), on_event=events.append)
    assert report.all_done and report.set_aside == ("GPU 0",)
    assert Path("seen").read_text().split().count("GPU-0") == 3
    after = events[[event.kind for event in events].index("set aside") + 1 :]
    assert not [event for event in after if event.gpu == "GPU 0"]


def test_one_job_that_dies_everywhere_does_not_set_a_gpu_aside(run):
    jobs = [shell("dies", "exit 1"), *(shell(name, "true") for name in "abc")]
    report = run(jobs, query=lambda: idle(0), attempts=5)
    assert not report.set_aside and [r.outcome for r in report.results] == ["failed", "done", "done", "done"]


def test_a_driver_that_fails_in_mid_run_disturbs_no_worker(run):
    calls = []

    def query():
        calls.append(None)
        if len(calls) > 3:
            Path("go").touch()  # the worker ends only after the driver has failed
            if len(calls) < 8:
                raise PpeError("nvidia-smi failed (exit 15): 'GPU is lost'")
        return idle(0)

    events: list[Event] = []
    jobs = [shell("a", "while [ ! -e go ]; do sleep 0.01; done"), shell("b", "true")]
    assert run(jobs, query=query, on_event=events.append).all_done
    assert [event.kind for event in events].count("no answer") == 4
    assert next(e.poll for e in events if (e.kind, e.job) == ("started", "b")) >= 8


def test_no_free_gpu_is_told_with_what_was_done_before(run):
    # The GPU is ours for one job; then somebody else takes it.
    def query():
        return (Gpu(0, "GPU-0", 70120, 81559, 97),) if Path("taken").exists() else idle(0)

    with pytest.raises(NoFreeGpuError, match="within 0.1 s, 1 of 2 jobs not done: GPU 0: 70120 of") as raised:
        run([shell("a", "touch taken"), shell("b", "true")], query=query, patience=0.1)
    assert [result.outcome for result in raised.value.report.results] == ["done", "not run"]


@pytest.mark.parametrize(
    "jobs, options, words",
    [
        ([], {}, "no jobs"),
        ([Job("a", ("true",)), Job("a", ("true",))], {}, "used twice: a"),
        ([Job("a", ("no-such-command",))], {}, r"no-such-command \(a\)"),
        ([Job("a", ("true",))], {"workers": 0}, "workers = 0"),
        ([Job("a", ("true",))], {"attempts": 0}, "attempts = 0"),
        ([Job("a", ("true",))], {"poll_seconds": 0}, "poll_seconds = 0"),
        ([Job("a", ("true",))], {"patience": float("nan")}, "patience = nan"),
        ([Job("a", ("true",))], {"log_folder": __file__}, "folder"),
    ],
)
def test_bad_input_is_told_before_anything_starts(run, jobs, options, words):
    with pytest.raises(InputError, match=words):
        run(jobs, query=lambda: (), on_event=lambda event: pytest.fail(event.text), **options)


def test_a_later_launch_adds_to_the_logs(run):
    for word in ("one", "two"):
        run([shell("a/b c", f"echo {word}")], query=lambda: ())
    log = Path("logs/01-a-b-c.1.log").read_text().splitlines()
    assert log[1::2] == ["one", "two"] and log[0].startswith("# a/b c, attempt 1, CPU: sh -c")


# ---- the launching process is told to end, or killed


LAUNCHER = """
import sys
from ppe.stages.launch import Gpu, Job, launch

gpus = tuple(Gpu(k, f"GPU-{k}", 512, 81559, 0) for k in range(2))
jobs = [*(Job(name, ("sh", "-c", sys.argv[1], name)) for name in "ab"), Job("c", ("true",))]
launch(jobs, query=lambda: gpus, poll_seconds=0.01, grace_seconds=float(sys.argv[2]), log_folder="logs",
       lock_folder=".", on_event=lambda event: print(event.kind, event.pid, event.job, flush=True))
print("returned", flush=True)
"""
HELPER = "sleep 300 & echo $! > tmp.$0; mv tmp.$0 helper.$0; wait; sleep 300"


def launcher(script: str, grace: float, folder: Path) -> tuple[subprocess.Popen, list[int]]:
    "A launching process with two workers at work, and the process ids of these and of their helpers."
    environment = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, script, str(grace)],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    pids = [int(process.stdout.readline().split()[1]) for _ in range(2)]
    for name in "ab":
        wait_for((folder / f"helper.{name}").exists)
    return process, pids + [int((folder / f"helper.{name}").read_text()) for name in "ab"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_ends_the_workers_and_all_they_started(tmp_path, number):
    process, pids = launcher(HELPER, LIMIT, tmp_path)
    assert all(map(runs, pids))
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT)
    assert not any(map(runs, pids))
    assert [line.split()[0] for line in out.splitlines()] == ["stopped", "stopped"]
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in err  # which the command line turns into its own words
    else:
        assert (process.returncode, err) == (128 + number, "")


def test_workers_that_do_not_end_are_killed_after_the_grace(tmp_path):
    process, pids = launcher('trap "" TERM; ' + HELPER, 0.1, tmp_path)
    process.terminate()
    process.communicate(timeout=LIMIT)
    assert not any(map(runs, pids)) and process.returncode == 143


def test_a_second_signal_does_not_wait_for_the_grace(tmp_path):
    process, pids = launcher('trap "> asked.$0" TERM; ' + HELPER, 1000, tmp_path)
    process.send_signal(signal.SIGINT)
    wait_for(lambda: all((tmp_path / f"asked.{name}").exists() for name in "ab"))
    assert all(map(runs, [process.pid, *pids[:2]]))  # the helpers end when asked, the workers do not
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT)
    assert not any(map(runs, pids))


def test_no_second_worker_beside_those_of_a_killed_launch(tmp_path, run):
    process, pids = launcher(HELPER, 1, tmp_path)
    process.kill()
    process.communicate(timeout=LIMIT)
    try:
        assert all(map(runs, pids))
        # The numbers say that both GPUs are free; the locks know better.
        with pytest.raises(NoFreeGpuError, match="GPU 1: another launch has a worker on it"):
            run([Job("a", ("true",))], query=lambda: idle(0, 1), patience=0.1)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    assert run([Job("a", ("true",))], query=lambda: idle(0, 1)).all_done


def test_outside_the_main_thread_signals_are_left_alone(run):
    before, reports = signal.getsignal(signal.SIGTERM), []
    thread = threading.Thread(target=lambda: reports.append(run([Job("a", ("true",))], query=lambda: ())))
    thread.start()
    thread.join(LIMIT)
    assert reports[0].all_done and signal.getsignal(signal.SIGTERM) == before

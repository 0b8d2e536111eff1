"""`launch` with real Dask workers and commands: a stand-in for `nvidia-smi`, `kill -9`, and signals.

No test measures time: commands wait for files, and the only clocks are limits that a passing run does not
reach. Tests that do not concern the GPUs of a machine share one cluster of two workers.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ppe.errors import InputError, PpeError
from ppe.stages.launch import (
    FreeRule,
    Gpu,
    GpuWatch,
    Job,
    JobResult,
    add_worker,
    ending,
    guarded,
    launch,
    local_cluster,
    query_gpus,
    signals_raise,
)  # fmt: skip

pytest.importorskip("distributed", reason="needs ppe[cluster]")

LIMIT = 60.0  # seconds after which a test has failed
FREE, BUSY, BROKEN = "512, 81559, 0", "70120, 81559, 97", "[Unknown Error], 81559, [GPU requires reset]"


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


def idle(*numbers: int) -> tuple[Gpu, ...]:
    return tuple(Gpu(k, f"GPU-{k}", 512, 81559, 0) for k in numbers)


def workers_of(result: JobResult) -> list[str]:
    return [attempt.worker for attempt in result.attempts]


@pytest.fixture
def home(tmp_path: Path, monkeypatch) -> Path:
    "An empty working folder, and no GPU hidden."
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


@pytest.fixture
def machine(home, monkeypatch):
    "An `nvidia-smi` on PATH that prints the n-th table at its n-th call, the last one again."
    folder = home / "bin"
    folder.mkdir()
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
def run(home):
    "`launch` with short times."
    return lambda jobs, **options: launch(
        jobs, **{"log_folder": "logs", "poll_seconds": 0.01, "patience": LIMIT} | options
    )


@pytest.fixture(scope="module")
def cluster():
    "A cluster that exists: two workers, and a Dask scheduler."
    with local_cluster() as cluster:
        for name in ("one", "two"):
            add_worker(cluster, name, "")
        cluster.wait_for_workers(2, timeout=LIMIT)
        yield cluster


@pytest.fixture
def remote(run, cluster):
    return lambda jobs, **options: run(jobs, scheduler=cluster.scheduler_address, **options)


def lines(*gpus: str) -> str:
    return "".join(f"{number}, GPU-{number}, {gpu}\n" for number, gpu in enumerate(gpus))


# ---- the driver


def test_the_query_asks_the_executable_on_the_path(machine, home):
    machine(lines(FREE, BUSY, "[N/A], [N/A], 4", BROKEN))
    gpus = query_gpus()
    assert gpus[:3] == (
        Gpu(0, "GPU-0", 512, 81559, 0),
        Gpu(1, "GPU-1", 70120, 81559, 97),
        Gpu(2, "GPU-2", None, None, 4),
    )
    assert gpus[3].problem == "[GPU requires reset], [Unknown Error]"
    asked = "--query-gpu=index,uuid,memory.used,memory.total,utilization.gpu --format=csv,noheader,nounits\n"
    assert (home / "bin" / "arguments").read_text() == asked


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


def test_a_driver_that_hangs_is_killed(home):
    with pytest.raises(PpeError, match="has not answered"):
        query_gpus(("sh", "-c", "echo $$ > pid; exec sleep 300"), timeout_seconds=0.5)
    wait_for(lambda: not Path("pid").exists() or not runs(int(Path("pid").read_text())))


def test_a_driver_that_fails_in_mid_run_is_asked_again():
    def fail():
        raise PpeError("nvidia-smi failed (exit 15): 'GPU is lost'")

    answers = iter([lambda: idle(0), fail, lambda: idle(0), lambda: idle(0)])
    watch = GpuWatch(lambda: next(answers)(), None, FreeRule())
    assert [[gpu.name for gpu in watch.poll()] for _ in range(4)] == [[], [], [], ["GPU 0"]]


# ---- GPUs


def test_one_worker_to_a_free_gpu_and_none_to_one_that_is_busy_or_broken(machine, run):
    # Each job claims a file named after its GPU, fails if it is there, and ends when both have been seen.
    claim = """
    echo "$CUDA_VISIBLE_DEVICES"; set -C; > "gpu.$CUDA_VISIBLE_DEVICES" || exit 2; set +C
    > "seen.$CUDA_VISIBLE_DEVICES"; while [ ! -e seen.GPU-0 -o ! -e seen.GPU-3 ]; do sleep 0.02; done
    sleep 0.1; rm "gpu.$CUDA_VISIBLE_DEVICES"
    """
    machine(lines(FREE, BUSY, BROKEN, FREE))
    report = run([shell(f"job {k}", claim) for k in range(6)])
    assert report.all_done and all(len(result.attempts) == 1 for result in report.results)
    assert {result.attempts[0].worker for result in report.results} == {"GPU 0", "GPU 3"}
    for result in report.results:
        assert result.log.read_text().splitlines()[-1] == result.attempts[0].worker.replace(" ", "-")


def test_a_gpu_that_becomes_free_gets_a_worker_and_the_mask_says_which_may(run, monkeypatch):
    # Job a holds GPU 2 until b has run, which is possible on GPU 0 alone; GPU 1 is not to be seen.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-0")
    taken = Gpu(0, "GPU-0", 70120, 81559, 97)
    script = '> "here.$0"; while [ ! -e "here.$1" ]; do sleep 0.02; done'
    report = run(
        [shell("a", script, "a", "b"), shell("b", script, "b", "a")],
        query=lambda: idle(0, 1, 2) if Path("here.a").exists() else (taken, *idle(1, 2)),
    )
    assert [workers_of(result) for result in report.results] == [["GPU 2"], ["GPU 0"]]
    with pytest.raises(InputError, match="'3' fits 0 GPUs"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
        run([Job("a", ("true",))], query=lambda: idle(0, 1, 2))


def test_a_gpu_on_which_jobs_die_costs_each_job_one_attempt(run):
    # GPU 0 fails at once and is idle all the time; GPU 1 needs a while for each job.
    script = 'test "$CUDA_VISIBLE_DEVICES" != GPU-0 || exit 1; sleep 0.2'
    report = run([shell(f"job {k}", script) for k in range(5)], query=lambda: idle(0, 1))
    assert report.all_done and {workers_of(result)[-1] for result in report.results} == {"GPU 1"}
    assert all(workers_of(result).count("GPU 0") <= 1 for result in report.results)


def test_a_killed_workers_job_is_done_on_another_gpu_and_nothing_of_it_is_left(run):
    # The worker is the parent of the parent of the command. The helper would outlive it.
    script = """
    if [ ! -e first ]; then sleep 300 & echo "$$ $!" > tmp; mv tmp first; kill -9 $(ps -o ppid= -p $PPID)
    wait; fi
    for pid in $(cat first); do
        while ps -o stat= -p $pid | grep -qv Z; do sleep 0.02; done
    done
    """
    said: list[str] = []
    jobs = [shell("math", script), shell("stem", "while [ ! -e first ]; do sleep 0.02; done")]
    report = run(jobs, query=lambda: idle(0, 1), say=said.append)
    math = report.results[0]
    assert report.all_done and math.attempts[0].status is None and math.attempts[1].status == 0
    assert len(set(workers_of(math))) == 2, "the other GPU"
    assert any("math died on" in text and "its worker died" in text for text in said)
    assert math.log.read_text().count("# math, attempt") == 2


def test_a_mask_that_hides_all_gpus_means_the_cpu_and_no_query(run, monkeypatch):
    # Two workers, each with the environment of the launch: the jobs end only when both have started.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    script = """
    echo "[$CUDA_VISIBLE_DEVICES] $OMP_NUM_THREADS"; > "here.$0"
    while [ ! -e "here.$1" ]; do sleep 0.02; done
    """
    jobs = [shell("a", script, "a", "b"), shell("b", script, "b", "a")]
    report = run(jobs, workers=2, query=lambda: pytest.fail("asked"))
    assert {worker for result in report.results for worker in workers_of(result)} == {"CPU 1", "CPU 2"}
    assert all(result.log.read_text().endswith("\n[] 7\n") for result in report.results)


def test_no_free_gpu_is_told(run):
    said: list[str] = []
    with pytest.raises(PpeError, match="no worker within 0.2 s, 2 of 2 jobs not done: GPU 0: 70120 of 81559"):
        jobs = [shell("a", "true"), shell("b", "true")]
        run(jobs, query=lambda: (Gpu(0, "GPU-0", 70120, 81559, 97),), patience=0.2, say=said.append)
    assert said == ["waiting for a GPU: GPU 0: 70120 of 81559 MiB in use"]


# ---- a cluster that exists


def test_bad_input_is_not_tried_again_and_attempts_have_an_end(remote):
    jobs = [
        shell("bad", "exit 2"),
        shell("dies", "exit 1"),
        shell("killed", "kill -9 $$"),
        shell("good", "true"),
    ]
    report = remote(jobs, attempts=2)
    outcomes = [(result.outcome, len(result.attempts)) for result in report.results]
    assert outcomes == [("bad input", 1), ("failed", 2), ("failed", 2), ("done", 1)] and not report.all_done
    table = report.table()
    assert "bad input (exit 2)" in table and "failed (exit 1)" in table and "failed (SIGKILL)" in table
    assert {worker for result in report.results for worker in workers_of(result)} == {"one", "two"}


def test_a_worker_of_the_cluster_is_killed_in_mid_job(remote):
    script = "if [ ! -e first ]; then > first; kill -9 $(ps -o ppid= -p $PPID); sleep 300; fi"
    report = remote([shell("math", script)])
    assert [attempt.status for attempt in report.results[0].attempts] == [None, 0]
    assert len(set(workers_of(report.results[0]))) == 2


def test_a_later_launch_adds_to_the_logs(remote):
    for word in ("one", "two"):
        remote([shell("a/b c", f"echo {word}")])
    log = Path("logs/01-a-b-c.log").read_text().splitlines()
    assert log[1::2] == ["one", "two"] and log[0].startswith("# a/b c, attempt 1, ")


def test_outside_the_main_thread_signals_are_left_alone(remote):
    before, reports = signal.getsignal(signal.SIGTERM), []
    thread = threading.Thread(target=lambda: reports.append(remote([Job("a", ("true",))])))
    thread.start()
    thread.join(LIMIT)
    assert reports[0].all_done and signal.getsignal(signal.SIGTERM) == before


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
        ([Job("a", ("true",))], {"scheduler": "tcp://127.0.0.1:9", "workers": 2}, "leave the number out"),
        ([Job("a", ("true",))], {"scheduler": "nonsense://x"}, "no Dask scheduler answers at nonsense"),
    ],
)
def test_bad_input_is_told_before_anything_starts(run, jobs, options, words):
    with pytest.raises(InputError, match=words):
        run(jobs, query=lambda: (), say=lambda text: "CPU" in text or pytest.fail(text), **options)


def test_a_missing_extra_is_one_line_that_names_it(run, monkeypatch):
    monkeypatch.setattr("ppe.stages.launch.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'ppe\[cluster\]'"):
        run([Job("a", ("true",))])


def test_dask_is_imported_by_a_launch_alone():
    code = "import sys, ppe.stages.launch; sys.exit('distributed' in sys.modules or 'dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- the guard of a command


def test_what_a_command_leaves_behind_is_killed_when_it_ends(home):
    status = guarded(("sh", "-c", "sleep 300 & echo $!"), Path("log"), ".", lambda: True, 1)
    assert status == 0
    wait_for(lambda: not runs(int(Path("log").read_text())))


@pytest.mark.parametrize(
    "script, status",
    [("exit 7", 7), ("kill -TERM $$", -signal.SIGTERM), ("kill -9 $$", -signal.SIGKILL)],
)
def test_a_command_ends_in_its_own_way(home, script, status):
    assert guarded(("sh", "-c", script), Path("log"), ".", lambda: True, 1) == status
    assert ending(status) in ("exit 7", "SIGTERM", "SIGKILL")


def test_a_file_that_cannot_be_run_is_told_in_the_log(home):
    Path("text").write_text("not a program")
    Path("text").chmod(0o755)
    assert guarded(("./text",), Path("log"), ".", lambda: True, 1) == 127
    assert "cannot be started: Exec format error" in Path("log").read_text()


# ---- the launching process is told to end, or killed


# Signals that the test's own parents ignore, as under nohup, would be ignored by the launcher too.
LAUNCHER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from ppe.stages.launch import Gpu, Job, launch

gpus = tuple(Gpu(k, f"GPU-{k}", 512, 81559, 0) for k in range(2))
jobs = [*(Job(name, ("sh", "-c", sys.argv[1], name)) for name in "ab"), Job("c", ("true",))]
launch(jobs, query=lambda: gpus, poll_seconds=0.01, grace_seconds=float(sys.argv[2]), log_folder="logs")
print("returned", flush=True)
"""
HELPER = 'sleep 300 & echo "$$ $!" > tmp.$0; mv tmp.$0 pids.$0; wait; sleep 300'


def launcher(script: str, grace: float, folder: Path) -> tuple[subprocess.Popen, list[int]]:
    "A launching process with two commands at work, and the process ids of these and of their helpers."
    environment = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
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
    # A terminal sends Ctrl-C to the launch and to its workers.
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT)
    wait_for(lambda: not any(map(runs, pids)))
    assert out == "" and all((home / f"asked.{name}").exists() != deaf for name in "ab")
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in err  # which the command line turns into its own words
    else:
        assert (process.returncode, err) == (128 + number, "")


def test_a_second_signal_does_not_wait_for_the_grace(home):
    process, pids = launcher('trap "> asked.$0" TERM; ' + HELPER, 1000, home)
    process.send_signal(signal.SIGINT)
    wait_for(lambda: all((home / f"asked.{name}").exists() for name in "ab"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT)
    wait_for(lambda: not any(map(runs, pids)))


def test_a_launch_that_is_killed_leaves_nothing_running(home):
    process, pids = launcher('trap "" TERM; ' + HELPER, 1000, home)
    process.kill()
    process.communicate(timeout=LIMIT)
    wait_for(lambda: not any(map(runs, pids)))


def test_a_signal_that_was_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with signals_raise():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)

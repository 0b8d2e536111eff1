"""Stage commands in processes of their own, each forked from one that has imported what they need.

Starting an interpreter and importing the client take longer than most of the runs that the tests kill. A
forked process is a process like any other: it opens the ledger itself, has its own locks, and can be killed.
`python tests/driver.py` reads an order a line, as JSON, and answers each: ["start", [argument, …]] with the
process id; ["poll", id] with the exit code (minus the signal if it was killed), or null while it runs;
["wait", id] with the exit code.
"""

import json
import os
import subprocess
import sys


class Forked:
    "A command under way, with the methods of `subprocess.Popen` that the tests use."

    def __init__(self, server: subprocess.Popen, arguments: list[str]):
        self.server, self.code = server, None
        self.pid = self._ask("start", arguments)

    def _ask(self, *order: object) -> int | None:
        self.server.stdin.write(json.dumps(order) + "\n")
        self.server.stdin.flush()
        return json.loads(self.server.stdout.readline())

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def poll(self) -> int | None:
        self.code = self._ask("poll", self.pid) if self.code is None else self.code
        return self.code

    def wait(self) -> int:
        self.code = self._ask("wait", self.pid) if self.code is None else self.code
        return self.code


def start(arguments: list[str]) -> int:
    "Fork a process that runs a command and says nothing."
    if pid := os.fork():
        return pid
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        code = llm_commands()[arguments[0]].main(arguments[1:], standalone_mode=False)
    except SystemExit as ending:
        code = ending.code
    except BaseException:
        code = 70
    os._exit(code or 0)


def ended(pid: int, options: int) -> int | None:
    found, status = os.waitpid(pid, options)
    return os.waitstatus_to_exitcode(status) if found else None


if __name__ == "__main__":
    import httpx2  # noqa: F401 - what the client imports at its first request
    import openai  # noqa: F401

    from ppe.cli.stages import llm_commands

    for line in sys.stdin:
        what, given = json.loads(line)
        answer = start(given) if what == "start" else ended(given, os.WNOHANG if what == "poll" else 0)
        print(json.dumps(answer), flush=True)

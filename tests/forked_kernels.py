"""Kernels that are forked from a process in which the libraries are loaded, instead of started from nothing.

A kernel needs some seconds to import what every notebook imports. Here one process imports that once, and
each kernel is a fork of it which serves its own connection file: a fresh process that has imported nothing of
`ppe`, and speaks to the client as any kernel does.
"""

import os
import sys
from contextlib import contextmanager
from functools import cache
from multiprocessing import forkserver, get_context, set_start_method
from multiprocessing.process import BaseProcess
from pathlib import Path

import pandas
from jupyter_client.manager import AsyncKernelManager

PRELOADED = [
    "ipykernel.debugger", "ipykernel.kernelapp", "IPython.extensions.storemagic", "jupyter_client.manager",
    "matplotlib.pyplot", "mpmath", "networkx", "numba", "numpy", "pandas", "psutil", "pyarrow.parquet",
    "scipy.optimize", "scipy.sparse.csgraph", "scipy.special", "scipy.stats", "sqlite3",
]  # fmt: skip
# Only a process of one thread may be forked: arrow's allocator starts one more unless told not to.
LOADING = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # no advice on the debugger
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
}


@contextmanager
def environment(**changes: str):
    "Environment variables of this process, for the time of a `with`."
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@cache
def server():
    "The process that forks, with the libraries loaded; it ends with this one."
    from stage_notebooks import THREADS  # here, so that a kernel does not import what runs notebooks

    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with environment(**THREADS, **LOADING):
        forkserver.ensure_running()
    return context


def serve(connection_file: str, folder: str, variables: dict[str, str]) -> None:
    "In the fork: be the kernel of this connection file, in a process group of its own."
    from ipykernel.kernelapp import launch_new_instance

    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    set_start_method(None, force=True)  # a fork server is this file's choice, not that of pools in a notebook
    # pandas asks when it is imported whether it is in a notebook, and shows all columns if so.
    pandas.set_option("display.max_columns", 20)
    sys.path[:] = [place for place in sys.path if Path(place) != Path(__file__).parent]
    parent = f"--IPKernelApp.parent_handle={os.getppid()}"  # the kernel ends with it
    sys.argv = ["ipykernel_launcher.py", "-f", connection_file, parent]
    launch_new_instance()


class Forked:
    "What the kernel manager asks of a process, as `subprocess.Popen` answers it."

    stdin = stdout = stderr = None

    def __init__(self, process: BaseProcess):
        self.process = process
        self.pid = process.pid
        self.send_signal = lambda number: os.kill(process.pid, number)
        self.kill, self.terminate = process.kill, process.terminate

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self) -> int | None:
        self.process.join()
        return self.process.exitcode


class ForkedKernelManager(AsyncKernelManager):
    "Starts its kernel by a fork."

    async def _async_launch_kernel(self, kernel_cmd: list[str], *, env: dict[str, str], cwd: str, **_) -> None:
        process = server().Process(target=serve, args=(self.connection_file, str(cwd), dict(env)))
        process.start()
        self.provisioner.process = Forked(process)
        self.provisioner.pid = self.provisioner.pgid = process.pid
        self.provisioner.cwd = cwd
        self._reconcile_connection_info(self.provisioner.connection_info)

"""Rank language models from pairwise verdicts over comparison graphs; the names here are imported when they are used."""

import os
import sys
from importlib import import_module

__version__ = "0.1.0"


def _find_room_for_compiled_code() -> None:
    """Let numba keep what it compiles where it can.

    It writes beside the sources, or else into the user's cache folder. Where neither can be written, as for a
    service with a read-only installation and no home, it would fail; there it gets a folder of this user's own
    among the temporary files. A folder that somebody else could have made is not used: what lies in it is run.
    """
    home = os.path.expanduser("~")
    user = os.environ.get("XDG_CACHE_HOME") or (home if os.path.isabs(home) else "")  # no home: nowhere
    if os.environ.get("NUMBA_CACHE_DIR") or any(os.access(at, os.W_OK) for at in (os.path.dirname(__file__), user)):
        return
    import tempfile

    try:
        folder = os.path.join(tempfile.gettempdir(), f"ppe-compiled-{os.getuid()}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
        if os.path.islink(folder) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            folder = tempfile.mkdtemp(prefix="ppe-compiled-")
    except OSError:
        return  # no temporary files either: numba says so
    os.environ["NUMBA_CACHE_DIR"] = folder
    if "numba" in sys.modules:  # imported before us, and read the environment then
        sys.modules["numba"].config.CACHE_DIR = folder


_find_room_for_compiled_code()

# Where each name lives; written out, so that it can be read without importing anything. Types: __init__.pyi.
_HOME = {
    "read_verdicts": "ppe.verdicts",
    "write_verdicts": "ppe.verdicts",
    "Pool": "ppe.pool",
    "comparison_graphs": "ppe.pool",
    "graph_table": "ppe.pool",
    "cycle_counts": "ppe.cycles",
    "block_top_k": "ppe.truncation",
    "global_top_k": "ppe.truncation",
    "RANKERS": "ppe.rankers.registry",
    "Ranking": "ppe.rankers.rankings",
    "rank": "ppe.rankers.registry",
    "rank_counts": "ppe.rankers.registry",
    "METHODS": "ppe.inference.methods",
    "Method": "ppe.inference.methods",
    "rank_intervals": "ppe.inference.intervals",
    "Leaderboard": "ppe.inference.leaderboard",
    "leaderboard": "ppe.inference.leaderboard",
    "diagnose": "ppe.inference.advice",
    "import_verdicts": "ppe.importers.registry",
    "simulate_pool": "ppe.paper.simulated",
    "PpeError": "ppe.errors",
}
__all__ = [*_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'ppe' has no attribute {name!r}; it has {', '.join(_HOME)}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})

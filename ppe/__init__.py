"""Rank language models from pairwise verdicts over comparison graphs; names are imported when they are used."""

from importlib import import_module as _import_module
from types import FunctionType as _FunctionType

__version__ = "3.0.0"

# The names of each module; written out, so that it can be read without importing anything. Types: __init__.pyi.
_NAMES = {
    "ppe.api.loading": "read load",
    "ppe.api.table_check": "check",
    "ppe.api.ranking": "rank",
    "ppe.api.cycle_counts": "cycles",
    "ppe.api.verdict_quality": "diagnose agree",
    "ppe.api.comparing": "compare",
    "ppe.api.reporting": "report",
    "ppe.api.graph": "graph",
    "ppe.api.pair_evidence": "show",
    "ppe.api.pipeline": "pipeline",
    "ppe.api.planning": "plan",
    "ppe.api.pair_selection": "design next_calls",
    "ppe.api.llm_stages": "perturb respond judge simulate",
    "ppe.verdicts": "write_verdicts",
    "ppe.pool": "Pool comparison_graphs",
    "ppe.rankers.registry": "RANKERS",
    "ppe.inference.leaderboard": "leaderboard",
    "ppe.inference.leaderboard_result": "Leaderboard",
    "ppe.truncation": "block_top_k global_top_k",
    "ppe.errors": "PpeError",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*_HOME]



def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'ppe' has no attribute {name!r}; it has {', '.join(_HOME)}")
    value = getattr(_import_module(_HOME[name]), name)
    if isinstance(value, _FunctionType):
        from .api.help import with_help

        value = with_help(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})

"""Rank language models from pairwise verdicts over comparison graphs; names are imported when they are used."""

from importlib import import_module as _import_module

__version__ = "3.0.0"

# The names of each module; written out, so that it can be read without importing anything. Types: __init__.pyi.
_NAMES = {
    "ppe.door.reading": "read check load",
    "ppe.door.ranking": "rank cycles diagnose agree compare",
    "ppe.door.reporting": "report",
    "ppe.door.graph": "graph",
    "ppe.door.showing": "show",
    "ppe.door.planning": "plan design next_calls",
    "ppe.door.collecting": "perturb respond judge simulate",
    "ppe.verdicts": "write_verdicts",
    "ppe.pool": "Pool comparison_graphs",
    "ppe.rankers.registry": "RANKERS",
    "ppe.inference.leaderboard": "Leaderboard leaderboard",
    "ppe.truncation": "block_top_k global_top_k",
    "ppe.designs.adaptive": "judge_adaptively",
    "ppe.errors": "PpeError",
}
_MOVED = {  # what was a name of the door before 2.0
    "ppe.verdicts": "read_verdicts",
    "ppe.counts": "read_counts write_counts",
    "ppe.streaming": "stream_counts",
    "ppe.pool": "graph_table",
    "ppe.cycle_scores": "cycle_counts",
    "ppe.rankers.registry": "rank_counts",
    "ppe.rankers.rankings": "Ranking",
    "ppe.inference.methods": "METHODS Method",
    "ppe.inference.intervals": "rank_intervals",
    "ppe.inference.leaderboard": "counts_leaderboard judge_leaderboards",
    "ppe.inference.diagnostics": "first_place_rates",
    "ppe.designs.adaptive": "is_settled parse_goal",
    "ppe.designs.plans": "make_plan pilot_beliefs public_beliefs",
    "ppe.inference.people_and_judges": "people_and_judges",
    "ppe.inference.change": "model_change",
    "ppe.reports.comparison": "judge_change",
    "ppe.designs.pair_designs": "design_pairs pair_table",
    "ppe.pairs": "read_pairs write_pairs",
    "ppe.importers.layouts": "import_verdicts",
    "ppe.paper.datasets": "load_verdicts",
    "ppe.paper.simulated": "simulate_pool",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*_HOME]



def __getattr__(name: str) -> object:
    if name not in _HOME:
        for module, names in _MOVED.items():
            if name in names.split():
                raise AttributeError(f"ppe.{name} has moved: from {module} import {name}")
        raise AttributeError(f"module 'ppe' has no attribute {name!r}; it has {', '.join(_HOME)}")
    value = globals()[name] = getattr(_import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})

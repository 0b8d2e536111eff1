"""Rank language models from pairwise verdicts over comparison graphs; names are imported when they are used."""

from importlib import import_module

__version__ = "0.1.0"

# Where each name lives; written out, so that it can be read without importing anything. Types: __init__.pyi.
_HOME = {
    "read_verdicts": "ppe.verdicts",
    "write_verdicts": "ppe.verdicts",
    "read_counts": "ppe.counts",
    "write_counts": "ppe.counts",
    "stream_counts": "ppe.streaming",
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
    "counts_leaderboard": "ppe.inference.leaderboard",
    "first_place_rates": "ppe.inference.diagnostics",
    "write_report": "ppe.reports.page",
    "diagnose": "ppe.inference.advice",
    "judge_leaderboards": "ppe.inference.leaderboard",
    "next_calls": "ppe.designs.adaptive",
    "is_settled": "ppe.designs.adaptive",
    "parse_goal": "ppe.designs.adaptive",
    "make_plan": "ppe.designs.plans",
    "pilot_beliefs": "ppe.designs.plans",
    "public_beliefs": "ppe.designs.plans",
    "judge_adaptively": "ppe.designs.adaptive",
    "people_and_judges": "ppe.inference.people_and_judges",
    "design_pairs": "ppe.designs.pair_designs",
    "pair_table": "ppe.designs.pair_designs",
    "read_pairs": "ppe.pairs",
    "write_pairs": "ppe.pairs",
    "import_verdicts": "ppe.importers.layouts",
    "load_verdicts": "ppe.paper.datasets",
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

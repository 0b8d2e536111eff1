"What a figure's notebook defines, for tests that look at more than the notebook does."

from ppe.paper.own_verdicts import definitions

__all__ = ["definitions"]

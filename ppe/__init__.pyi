"""The names of the front door, for type checkers and editors."""

from .counts import read_counts as read_counts
from .counts import write_counts as write_counts
from .cycles import cycle_counts as cycle_counts
from .designs.adaptive import is_settled as is_settled
from .designs.adaptive import judge_adaptively as judge_adaptively
from .designs.adaptive import next_calls as next_calls
from .designs.adaptive import parse_goal as parse_goal
from .designs.pair_designs import design_pairs as design_pairs
from .designs.pair_designs import pair_table as pair_table
from .designs.plans import make_plan as make_plan
from .designs.plans import pilot_beliefs as pilot_beliefs
from .designs.plans import public_beliefs as public_beliefs
from .errors import PpeError as PpeError
from .importers.layouts import import_verdicts as import_verdicts
from .inference.advice import diagnose as diagnose
from .inference.change import model_change as model_change
from .inference.diagnostics import first_place_rates as first_place_rates
from .inference.intervals import rank_intervals as rank_intervals
from .inference.leaderboard import Leaderboard as Leaderboard
from .inference.leaderboard import counts_leaderboard as counts_leaderboard
from .inference.leaderboard import judge_leaderboards as judge_leaderboards
from .inference.leaderboard import leaderboard as leaderboard
from .inference.methods import METHODS as METHODS
from .inference.methods import Method as Method
from .inference.people_and_judges import people_and_judges as people_and_judges
from .pairs import read_pairs as read_pairs
from .pairs import write_pairs as write_pairs
from .paper.datasets import load_verdicts as load_verdicts
from .paper.simulated import simulate_pool as simulate_pool
from .pool import Pool as Pool
from .pool import comparison_graphs as comparison_graphs
from .pool import graph_table as graph_table
from .rankers.rankings import Ranking as Ranking
from .rankers.registry import RANKERS as RANKERS
from .rankers.registry import rank as rank
from .rankers.registry import rank_counts as rank_counts
from .reports.comparison import judge_change as judge_change
from .reports.page import write_report as write_report
from .streaming import stream_counts as stream_counts
from .truncation import block_top_k as block_top_k
from .truncation import global_top_k as global_top_k
from .verdicts import read_verdicts as read_verdicts
from .verdicts import write_verdicts as write_verdicts

__version__: str

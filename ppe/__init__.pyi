"""The names of the front door, for type checkers and editors."""

from .api.comparing import compare as compare
from .api.cycle_counts import cycles as cycles
from .api.graph import graph as graph
from .api.llm_stages import judge as judge
from .api.llm_stages import perturb as perturb
from .api.llm_stages import respond as respond
from .api.llm_stages import simulate as simulate
from .api.loading import load as load
from .api.loading import read as read
from .api.pair_evidence import show as show
from .api.pair_selection import design as design
from .api.pair_selection import next_calls as next_calls
from .api.pipeline import pipeline as pipeline
from .api.planning import plan as plan
from .api.ranking import rank as rank
from .api.reporting import report as report
from .api.table_check import check as check
from .api.verdict_quality import agree as agree
from .api.verdict_quality import diagnose as diagnose
from .errors import PpeError as PpeError
from .inference.leaderboard import leaderboard as leaderboard
from .inference.leaderboard_result import Leaderboard as Leaderboard
from .pool import Pool as Pool
from .pool import comparison_graphs as comparison_graphs
from .rankers.registry import RANKERS as RANKERS
from .truncation import block_top_k as block_top_k
from .truncation import global_top_k as global_top_k
from .verdicts import write_verdicts as write_verdicts

__version__: str

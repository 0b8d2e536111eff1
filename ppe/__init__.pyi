"""The names of the front door, for type checkers and editors."""

from .door.collecting import judge as judge
from .door.collecting import perturb as perturb
from .door.collecting import respond as respond
from .door.collecting import simulate as simulate
from .door.graph import graph as graph
from .door.planning import design as design
from .door.planning import next_calls as next_calls
from .door.planning import plan as plan
from .door.ranking import agree as agree
from .door.ranking import compare as compare
from .door.ranking import cycles as cycles
from .door.ranking import diagnose as diagnose
from .door.ranking import rank as rank
from .door.reading import check as check
from .door.reading import load as load
from .door.reading import read as read
from .door.reporting import report as report
from .door.showing import show as show
from .errors import PpeError as PpeError
from .inference.leaderboard import Leaderboard as Leaderboard
from .inference.leaderboard import leaderboard as leaderboard
from .pool import Pool as Pool
from .pool import comparison_graphs as comparison_graphs
from .rankers.registry import RANKERS as RANKERS
from .truncation import block_top_k as block_top_k
from .truncation import global_top_k as global_top_k
from .verdicts import write_verdicts as write_verdicts

__version__: str

"""From a question and a target to a protocol, an epsilon, and a number of users."""

from ._comparison import Comparison as Comparison
from ._comparison import TwoGroups as TwoGroups
from ._marginals import Marginals as Marginals
from ._measure import Measure as Measure
from ._option import Goal as Goal
from ._option import Option as Option
from ._plan import Plan as Plan
from ._plan import plan as plan
from ._plan import rank as rank
from ._question import Errors as Errors
from ._question import Question as Question
from ._question import Users as Users
from ._questions import Histogram as Histogram
from ._questions import LinearQueries as LinearQueries
from ._questions import Mean as Mean
from ._questions import PairStatistic as PairStatistic
from ._questions import Quantiles as Quantiles
from ._several import Several as Several
from ._several import Way as Way
from ._several import several as several
from ._top_k import TopK as TopK

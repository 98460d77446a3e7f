"""From a question and a target to a protocol, an epsilon, and a number of users."""

from ._measure import Measure as Measure
from ._option import Goal as Goal
from ._option import Option as Option
from ._plan import Plan as Plan
from ._plan import plan as plan
from ._plan import rank as rank
from ._questions import Errors as Errors
from ._questions import Histogram as Histogram
from ._questions import LinearQueries as LinearQueries
from ._questions import Mean as Mean
from ._questions import PairStatistic as PairStatistic
from ._questions import Quantiles as Quantiles
from ._questions import Question as Question
from ._questions import Users as Users

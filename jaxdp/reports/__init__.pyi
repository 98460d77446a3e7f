"""The names of `jaxdp.reports`; a client imports no jax."""

from ._aggregate import Added as Added
from ._aggregate import Aggregate as Aggregate
from ._answer import Answer as Answer
from ._client import Client as Client
from ._collection import Collection as Collection
from ._collection import report_bytes as report_bytes
from ._costs import ReportCost as ReportCost
from ._costs import report_cost as report_cost
from ._improve import base_cut as base_cut
from ._improve import norm_sub as norm_sub
from ._influence import Attacked as Attacked
from ._influence import influence as influence
from ._likelihood import DistributionFit as DistributionFit
from ._likelihood import expectation_maximization as expectation_maximization
from ._likelihood import maximum_likelihood as maximum_likelihood

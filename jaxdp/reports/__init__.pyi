"""The names of `jaxdp.reports`; a client imports no jax."""

from ._client import Client as Client
from ._collection import Collection as Collection
from ._collection import Decoded as Decoded
from ._improve import base_cut as base_cut
from ._improve import norm_sub as norm_sub
from ._likelihood import DistributionFit as DistributionFit
from ._likelihood import expectation_maximization as expectation_maximization
from ._likelihood import maximum_likelihood as maximum_likelihood

"""What all protocols share whose estimate is made of another protocol's."""

import functools
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._contract import Params, Spec
from .._prediction import Kind
from .._queries import LinearProtocol
from .._ranking import whole_users
from ..engine import SimulatedErrors
from ..population import Population


class PostProcessed(LinearProtocol[Params[Any]], SimulatedErrors):
    """Base of the protocols whose reports are another protocol's, and whose estimate is better.

    Attributes:
      protocol: what users run, with its own, raw estimate.
    """

    __slots__ = ()

    protocol: LinearProtocol[Params[Any]]

    @property
    def num_queries(self) -> int:
        return self.protocol.num_queries

    @property
    def num_values(self) -> int:
        return self.protocol.num_values

    @property
    def reporter(self) -> Spec[Any]:
        """The protocol that users run."""
        return self.protocol

    def exact_epsilon(self) -> float:
        """The realised privacy parameter of the protocol that users run."""
        return self.protocol.exact_epsilon()

    def composed_delta(self, num_reports: int, epsilon: float) -> float | None:
        """The delta of several reports, as the protocol that users run computes it."""
        return self.protocol.composed_delta(num_reports, epsilon)

    def answers(self, histograms: Float[np.ndarray, "*n k"]) -> Float[np.ndarray, "*n m"]:
        return self.protocol.answers(histograms)

    def matrix(self) -> Float[np.ndarray, "m k"]:
        return self.protocol.matrix()

    def check_population(self, population: Population) -> None:
        self.protocol.check_population(population)

    @property
    def variance_kind(self) -> Kind:
        """A bound: what is gained has no closed form; see `expected_error`."""
        return "bound"

    def prior_users(self, prior: ArrayLike | str, num_users: int) -> Population:
        """Users whose histogram is in proportion to the prior."""
        return Population.from_histogram(whole_users(prior, num_users, self.num_values, "prior"))


@functools.lru_cache(maxsize=64)
def ranges(
    protocol: LinearProtocol[Params[Any]],
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """The least and the largest answer to each query."""
    if protocol.is_histogram:
        ones = np.ones(protocol.num_queries)
        # Of a single value the share is 1 always.
        return (ones if ones.size == 1 else np.zeros_like(ones)), ones
    matrix = protocol.matrix()
    return matrix.min(axis=1), matrix.max(axis=1)

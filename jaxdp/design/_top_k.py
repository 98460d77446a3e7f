"""The question for the most frequent values."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import jax
import numpy as np

from .._checks import Integer
from .._contract import field, spec
from .._spec import check_int
from ..engine import Trials
from ._question import Data, Errors, Maker, OfBins, Users
from ._questions import Histogram


@spec
class TopK(OfBins):
    """Asks which values are the most frequent.

    The answers say of each value whether it is one of them. The error is the probability that the
    set is wrong, so data must be given; or "missed", the share of the set that is missing from the
    answer. Neither has a formula: both are simulated.

    Args:
      num_values: k, at least 2.
      top: how many values are asked for, fewer than k.

    Example:
      >>> from jaxdp.design import TopK, plan
      >>> data = [40, 25, 15, 8, 6, 3, 2, 1]
      >>> found = plan(TopK(8, 2), users=20_000, error=0.05, data=data, num_trials=500)
      >>> print(f"epsilon {found.best.epsilon:.1f}")
      epsilon 0.3
    """

    num_values: int = field(Integer(2, 2**20))
    top: int = field(Integer(1))

    NAMED_DATA: ClassVar[tuple[str, ...]] = ("zipf",)
    LOSSES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"max": "probability that the set is wrong"}
    )

    def validate(self) -> None:
        """Raises ValueError unless some value is not asked for."""
        check_int("top", self.top, low=1, high=self.num_values - 1)

    @property
    def size(self) -> int:
        """k, the number of values."""
        return self.num_values

    @property
    def num_answers(self) -> int:
        """The number of values."""
        return self.num_values

    @property
    def typical(self) -> float:
        """1: of a probability."""
        return 1.0

    def describe(self) -> str:
        """The question in words."""
        return f"the {self.top:,} most frequent of {self.num_values:,} values"

    def candidates(self, delta: float | None = None, norm: str = "mean") -> dict[str, Maker]:
        """The frequency oracles."""
        return Histogram(self.num_values).candidates(delta, norm)

    def users(self, data: Data, num_users: int) -> Users | None:
        """The users that the data stand for.

        Raises:
          ValueError: also where some of the values asked for are as frequent as one that is not.
        """
        users = super().users(data, num_users)
        if users is not None:
            falling = np.sort(users.counts)[::-1]
            if falling[self.top - 1] == falling[self.top]:
                raise ValueError(
                    f"data must separate the first {self.top} values from the others, but the last "
                    f"of these and the next one have {falling[self.top]:,} of {num_users:,} users "
                    "each; take more users, or another top."
                )
        return users

    def errors(self, protocol: Any, num_users: int, users: Users | None) -> Errors:
        """About how often a value is on the wrong side of the last, or the first beyond it."""
        if users is None:
            raise ValueError("data must be given: no protocol ranks equally frequent values.")
        variances = protocol.variance(users.counts)
        order = np.argsort(-users.counts, kind="stable")
        shares, spread = users.counts[order] / num_users, variances[order]
        beyond = np.where(np.arange(self.num_values) < self.top, self.top, self.top - 1)
        gap = np.abs(shares - shares[beyond]) / np.sqrt(spread + spread[beyond])
        wrong = np.array([math.erfc(g / math.sqrt(2)) / 2 for g in gap])
        return Errors.of(wrong, "delta")

    def postprocessed(self, protocol: Any) -> dict[str, Any]:
        """Nothing: a projection keeps the order of the estimates."""
        del protocol
        return {}

    def trials(self, protocol: Any, users: Users, key: jax.Array, num_trials: int) -> Trials:
        """Simulated sets, as 0 and 1 for each value."""
        simulated = super().trials(protocol, users, key, num_trials)
        found, truth = self._members(simulated.estimates), self._members(users.counts[None])[0]
        return Trials(found, truth, simulated.method, simulated.num_users)

    def _members(self, estimates: np.ndarray) -> np.ndarray:
        """Which values have the largest estimates, float64[trials, k]."""
        first = np.argpartition(-estimates, self.top - 1, axis=1)[:, : self.top]
        members = np.zeros(estimates.shape)
        np.put_along_axis(members, first, 1.0, axis=1)
        return members

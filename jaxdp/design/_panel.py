"""Share of the people asked who report, and how much their reports count."""

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike

from .._spec import as_float64, check_real

_LEAST = 1e-6  # of the share of people who report


@dataclasses.dataclass(frozen=True)
class Panel:
    """Share of the people asked who report, and how much their reports count.

    Attributes:
      response: the share of them who report.
      design_effect: of the weights of those who do, see `design_effect`.
    """

    response: float = 1.0
    design_effect: float = 1.0

    @classmethod
    def of(cls, response: object, effect: object) -> "Panel":
        """Makes a panel of checked numbers."""
        return cls(
            check_real("response", response, low=_LEAST, high=1.0, open_ends=False),
            check_real("design_effect", effect, low=1.0, open_ends=False),
        )

    @property
    def is_all(self) -> bool:
        """Whether all report, and count alike."""
        return self.response == 1 and self.design_effect == 1

    def counted(self, asked: int) -> int:
        """Effective number of users: as many of weight 1 would have the same error."""
        users = math.floor(asked * self.response / self.design_effect * (1 + 1e-12))
        if users < 2:
            raise ValueError(
                f"users must leave two whose reports count, got {asked:,} with response = "
                f"{self.response:g} and design_effect = {self.design_effect:g}."
            )
        return users

    def reports(self, counted: int) -> int:
        """Number of users who must report for an effective number of users."""
        return math.ceil(counted * self.design_effect * (1 - 1e-12))

    def asked(self, counted: int) -> int:
        """Number of people who must be asked for an effective number of users."""
        return math.ceil(counted * self.design_effect / self.response * (1 - 1e-12))


def design_effect(weights: ArrayLike) -> float:
    """Factor by which survey weights raise a mean's variance: `n sum w**2 / (sum w)**2`.

    Kish's formula. With weights that do not depend on the noise it is exact for that of private
    reports if their variance is the same for all values, or on the worst data: n users of these
    weights have the error of `n / design_effect(weights)` users who count alike.

    Args:
      weights: float[n] >= 0, of the users, not all 0. Public: they must not tell the value.

    Returns:
      At least 1.

    Raises:
      ValueError: a weight is negative or not finite, or all are 0.

    Example:
      >>> from jaxdp.design import design_effect
      >>> print(f"{design_effect([1, 1, 2, 4]):.3f}")
      1.375

    References:
      Kish (1965), Survey sampling, section 11.7.
    """
    given = as_float64("weights", weights).ravel()
    if not given.size or not np.all(np.isfinite(given) & (given >= 0)) or not given.max() > 0:
        raise ValueError("weights must be finite, >= 0 and not all 0.")
    given = given / given.max()
    return max(len(given) * float(np.sum(given**2)) / float(np.sum(given)) ** 2, 1.0)

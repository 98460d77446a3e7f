"""Errors of a plan's protocols at other epsilons and numbers of users."""

import dataclasses
import math
import time
import warnings

import numpy as np

from ._option import Option
from ._plan_numbers import PlanNumbers

MOST = 6
"""Protocols that are drawn; the others are in tables."""

_EPSILONS, _USERS = 17, 5  # points of the finest grid, in whose middle the plan is
_STRIDES = (8, 2), (4, 2), (2, 2), (1, 1)  # of ever finer grids
_WIDE = 8.0, 16.0  # how far epsilon and users go up and down: factors
_HIGHEST, _LOWEST = 24.0, 2.0**-7  # epsilons
_SLOW = 10.0  # seconds that an error may take for which a program must be compiled


@dataclasses.dataclass(frozen=True)
class Span:
    """Numbers from `low` to `high`, equally far apart on a log scale.

    Attributes:
      low: > 0.
      high: > low.
    """

    low: float
    high: float

    @classmethod
    def around(cls, middle: float, factor: float) -> "Span":
        """As far below a number as above it."""
        return cls(middle / factor, middle * factor)

    def points(self, number: int) -> np.ndarray:
        """float64[number], the ends included."""
        return np.geomspace(self.low, self.high, number)


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """The errors of a protocol.

    Attributes:
      place: of the option in the plan.
      errors: float64[e, n] at equally many steps of both spans, NaN where there is none; None where
        it takes too long.
    """

    place: int
    errors: np.ndarray | None

    @property
    def by_epsilon(self) -> np.ndarray | None:
        """At the users of the plan, float64[e]."""
        return None if self.errors is None else self.errors[:, self.errors.shape[1] // 2]

    @property
    def by_users(self) -> np.ndarray | None:
        """At the epsilon of the plan, float64[n]."""
        return None if self.errors is None else self.errors[len(self.errors) // 2]

    @property
    def middle(self) -> float:
        """At both, or NaN."""
        line = self.by_users
        return math.nan if line is None else float(line[len(line) // 2])


@dataclasses.dataclass(frozen=True, eq=False)
class Curves:
    """The errors of a plan's first protocols.

    Attributes:
      epsilon: around that of the best option.
      users: around those of the best option.
      curves: one for each protocol.
    """

    epsilon: Span
    users: Span
    curves: tuple[Curve, ...]


def curves_of(plan: PlanNumbers, seconds: float) -> Curves:
    """The errors of the first options, at as many points as there is time for.

    Args:
      plan: of whose options.
      seconds: for all of them. Where there are few, errors that are simulated are left alone.
    """
    best = plan.best
    wide = min(_WIDE[0], _HIGHEST / best.epsilon, best.epsilon / _LOWEST)
    many = min(_WIDE[1], best.num_users / 2)
    epsilon = Span.around(best.epsilon, max(wide, 2.0))
    users = Span.around(best.num_users, max(many, 2.0))
    drawn = range(min(len(plan.options), MOST))
    # What is quick first: the time that it leaves is for the others.
    order = sorted(drawn, key=lambda place: _is_slow(plan.options[place]))
    end = time.perf_counter() + seconds
    found = []
    for left, place in zip(range(len(order), 0, -1), order, strict=True):
        share = (end - time.perf_counter()) / left
        found.append(Curve(place, _errors(plan, place, epsilon, users, share)))
    return Curves(epsilon, users, tuple(sorted(found, key=lambda curve: curve.place)))


def _errors(
    plan: PlanNumbers, place: int, epsilon: Span, users: Span, seconds: float
) -> np.ndarray | None:
    """On the finest grid that the time is enough for; None where it is for none."""
    if _is_slow(plan.options[place]) and seconds < _SLOW:
        return None
    epsilons, numbers = epsilon.points(_EPSILONS), np.rint(users.points(_USERS)).astype(int)
    grid = np.full((_EPSILONS, _USERS), np.nan)
    done = np.zeros(grid.shape, bool)
    shown = None
    began = time.perf_counter()
    for by_epsilon, by_users in _STRIDES:
        wanted = np.zeros(grid.shape, bool)
        wanted[::by_epsilon, ::by_users] = True
        for i, j in np.argwhere(wanted & ~done):
            spent = time.perf_counter() - began
            todo = int((wanted & ~done).sum())
            if done.any() and spent * (1 + todo / int(done.sum())) > seconds:
                return shown
            grid[i, j] = _error(plan, place, float(epsilons[i]), max(int(numbers[j]), 2))
            done[i, j] = True
        shown = grid[::by_epsilon, ::by_users].copy()
    return shown


def _is_slow(option: Option) -> bool:
    """Whether an error is simulated, or has an epsilon that must be searched for."""
    return option.num_trials is not None or option.trust == "shuffler"


def _error(plan: PlanNumbers, place: int, epsilon: float, users: int) -> float:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(plan.error(epsilon=epsilon, users=users, option=place))
    except ValueError:  # too few users, or an epsilon that it cannot have
        return math.nan

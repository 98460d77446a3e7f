"""One question to groups of users who have different epsilons."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from .._prediction import Prediction, least_known
from .._ranking import table
from .._spec import (
    check_bool,
    check_choice,
    check_epsilon,
    check_int,
    check_probabilities,
    check_real,
)
from ._option import Loss, Option
from ._plan import plan
from ._question import Data, Question, asked_for
from ._solve import least_epsilon, least_users


@dataclasses.dataclass(frozen=True)
class Pooled:
    """A question to groups of users, and how their answers are averaged; `print` shows it.

    Attributes:
      question: what all are asked.
      options: by group, the protocol with its users, epsilon and error.
      weights: by group, of its answers in the average; of sum 1.
      error: of the average.
      num_users: of all groups together.
      factor: of the epsilons that were given; 1 unless they were asked for.
    """

    question: Question
    options: Mapping[str, Option]
    weights: Mapping[str, float]
    error: Prediction
    num_users: int
    factor: float = 1.0

    def __str__(self) -> str:
        """A Markdown table with a line for each group, and one for all."""
        rows = [
            (
                name,
                option.name,
                f"{option.num_users:,}",
                f"{option.epsilon:.4g}",
                f"{option.error:.4g}",
                f"{self.weights[name]:.3f}",
            )
            for name, option in self.options.items()
        ]
        rows.append(("all", "", f"{self.num_users:,}", "", f"{self.error:.4g}", "1"))
        return table(("group", "protocol", "users", "epsilon", "error", "weight"), rows, ())


def pooled(
    question: Question,
    epsilons: Mapping[str, float],
    shares: Mapping[str, float],
    *,
    users: int | None = None,
    error: float | None = None,
    loss: Loss | None = None,
    data: Data = "worst",
    alike: bool = False,
) -> Pooled:
    """Computes the third of users, epsilons and error, for groups that have an epsilon each.

    With users and error given, the epsilons are in proportion to those of `epsilons`: the least
    common factor is asked for with which the error is reached.

    Each group is planned for by itself, and the answers are averaged. With `alike=False` the weight
    of a group is its share of the users, so that the average is of all of them, whatever the groups
    hold. Where people's epsilon has nothing to do with their values, `alike=True`, weights are in
    proportion to the inverse of the variances, which makes the error the least there is: groups
    with a small epsilon count little.

    Args:
      question: as of `plan`.
      epsilons: the privacy parameter of each group, by name; with users and error, in any
        proportion.
      shares: of the users in each group, by the same names, in any proportion.
      users: n of all groups together; None to ask for the least number.
      error: of the average; None to ask for it.
      loss: "rmse" or "worst", as of `plan`; not "max".
      data: what users hold, the same in each group, as of `plan`.
      alike: whether all groups hold the same, but for chance.

    Returns:
      A `Pooled`. Errors have closed forms; what is solved for is at most 0.01 % above the least.

    Raises:
      ValueError: an argument is out of range, names differ, users and error are both left out, or
        no number of users or no factor is large enough.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> from jaxdp.design import Histogram, pooled
      >>> epsilons, shares = {"careful": 0.5, "open": 2.0}, {"careful": 3, "open": 1}
      >>> for alike in (False, True):
      ...     found = pooled(Histogram(10), epsilons, shares, users=20_000, alike=alike)
      ...     print(f"{found.error:.4f}, {found.weights['careful']:.2f}")
      0.0219, 0.75
      0.0095, 0.11
      >>> found = pooled(Histogram(10), epsilons, shares, users=20_000, error=0.01)
      >>> print(*(f"{name}: {option.epsilon:.2f}" for name, option in found.options.items()))
      careful: 1.04 open: 4.17
    """
    if not isinstance(question, Question):
        raise TypeError(f"question must be one of jaxdp.design's, got {question!r}.")
    if "rmse" not in question.LOSSES:
        raise ValueError(f"question must be one whose answers are numbers, got {question!r}.")
    if loss is not None:
        check_choice("loss", loss, ("rmse", "worst"))
    for name, given in (("epsilons", epsilons), ("shares", shares)):
        if not isinstance(given, Mapping):
            raise TypeError(f"{name} must be a mapping from names, got {given!r}.")
    if set(epsilons) != set(shares) or len(epsilons) < 2:
        raise ValueError(
            f"shares must be of the groups that have epsilons, two at least: "
            f"{', '.join(map(repr, epsilons))}; got {', '.join(map(repr, shares))}."
        )
    if users is None or error is None:
        asked_for(users=users, error=error)
    each = {name: check_epsilon(epsilon) for name, epsilon in epsilons.items()}
    sizes = dict(
        zip(
            each,
            check_probabilities([shares[name] for name in each], "shares").tolist(),
            strict=True,
        )
    )
    groups = _Groups(question, each, sizes, loss, data, check_bool("alike", alike))
    target = None if error is None else check_real("error", error, low=0.0)
    if users is None:
        assert target is not None
        users, _ = least_users(lambda n: groups.of(n).error, target)
        return groups.of(users)
    users = check_int("users", users, low=2)
    if target is None:
        return groups.of(users)
    most = max(each.values())
    found, _ = least_epsilon(lambda e: groups.times(e / most).of(users).error, target)
    return groups.times(found / most).of(users)


@dataclasses.dataclass(frozen=True, eq=False)
class _Groups:
    """What is asked of whom."""

    question: Question
    epsilons: Mapping[str, float]
    shares: Mapping[str, float]
    loss: Loss | None
    data: Data
    alike: bool
    factor: float = 1.0

    def times(self, factor: float) -> "_Groups":
        """The same groups with epsilons so many times as large."""
        return dataclasses.replace(self, factor=factor)

    def of(self, users: int) -> Pooled:
        """The groups of so many users together."""
        options = {
            name: self.option(name, round(users * self.shares[name])) for name in self.shares
        }
        squares = np.array([float(option.error) ** 2 for option in options.values()])
        weights = np.array([self.shares[name] for name in options])
        if self.alike:
            weights = 1 / squares
            weights = weights / weights.sum()
        kind = least_known(option.error.kind for option in options.values())
        error = Prediction(float(np.sqrt(weights**2 @ squares)), kind)
        by_group = dict(zip(options, weights.tolist(), strict=True))
        return Pooled(self.question, options, by_group, error, users, self.factor)

    def option(self, name: str, users: int) -> Option:
        """The best option of a group."""
        if users < 2:
            raise ValueError(f"shares must leave two users to each group, {name!r} has {users}.")
        return plan(
            self.question,
            users=users,
            epsilon=self.factor * self.epsilons[name],
            loss=self.loss,
            data=self.data,
            num_trials=0,
        ).best

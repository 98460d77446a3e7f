"""What the protocols for the area under the ROC curve share: values, targets, populations."""

import abc
import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from jaxtyping import Float, Num
from numpy.typing import ArrayLike

from .._contract import Params, Spec, Tree
from .._prediction import Prediction
from .._spec import check_counts, check_probabilities
from ..population import DistributionSource, Population
from .kernels._auc import AUC

Labels = Literal["public", "private", "randomized"]

P_co = TypeVar("P_co", bound=Params[Any], covariant=True)


class AUCProtocol(Spec[P_co]):
    """Base of the specs that estimate the area under the ROC curve of users' scores.

    A user's value is a cell of the table labels x scores, row by row: `score` for a negative user,
    `num_scores + score` for a positive one.

    A subclass has the fields `num_scores`, `epsilon` and `labels`.

    Attributes:
      num_scores: d, scores are 0 .. d-1.
      epsilon: privacy parameter.
      labels: "public", or how labels are protected.
    """

    __slots__ = ()

    num_scores: int
    epsilon: float
    labels: Labels

    @property
    @abc.abstractmethod
    def kernel(self) -> AUC:
        """The statistic."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the table whose cells are the values, (2, d)."""
        return 2, self.num_scores

    @property
    def bias(self) -> float:
        """The bias for given users but for that of ratios: 0."""
        return 0.0

    @abc.abstractmethod
    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The mean squared error for given users.

        Args:
          counts: int[2 d], the number of users with each value.
          inputs: None; values are cells.
        """

    @abc.abstractmethod
    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The mean squared error about `population_truth` for independent users."""

    @abc.abstractmethod
    def worst_case_variance(self, num_users: int, num_positive: int | None = None) -> Prediction:
        """The largest mean squared error over all data sets of a size, or a bound on it."""

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The target: the area under the users' curve.

        Args:
          counts: int[2 d], the number of users with each value.
          inputs: None; values are cells.
        """
        return np.asarray(self.kernel.of_counts(self._table(check_counts(counts), inputs)))

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The target for users drawn from a distribution: the statistic of two new users.

        Args:
          probabilities: float[2 d], of each value.
          num_users: unused; the target does not depend on it.
          inputs: None; values are cells.
        """
        del num_users
        p = self._table(check_probabilities(probabilities), inputs)
        negative, positive = p / p.sum(axis=1, keepdims=True)
        # Pr[negative score < s] for each score s, and `tie` of those with the same
        below = np.cumsum(negative) - negative
        return np.asarray(positive @ (below + self.kernel.tie * negative))

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are cells and both labels occur."""
        population.require_bins(2 * self.num_scores, "2 * num_scores")
        sizes = self.class_sizes(population)
        if sizes is not None:
            self._check_classes(sizes, population.num_users)

    def class_sizes(self, population: Population) -> Float[np.ndarray, "2"] | None:
        """Numbers of negative and positive users, or their means if users are drawn.

        None where the users are not known yet.

        Raises:
          ValueError: the users' values are not cells, or have one label only.
        """
        masses = expected_users(population)
        return None if masses is None else self._table(masses, None).sum(axis=1, dtype=np.float64)

    def alike(self, population: Population) -> Float[np.ndarray, "2"] | None:
        """Least number of users of each class whose reports hide among each other.

        All of a class by default. None where the users are not known yet.
        """
        return self.class_sizes(population)

    def _check_classes(self, masses: Float[np.ndarray, "2"], num_users: int) -> None:
        """Hook for what a protocol asks of the sizes of the classes; both are positive."""
        del masses, num_users

    def _table(self, masses: np.ndarray, inputs: Tree) -> np.ndarray:
        """Counts or probabilities by label and score, or raises unless they fit the domain."""
        if inputs is not None:
            raise ValueError("inputs must be None: values are cells of the table labels x scores.")
        if masses.size != 2 * self.num_scores:
            raise ValueError(
                f"counts must have 2 * num_scores = {2 * self.num_scores} entries, those of the "
                f"negative users first, got {masses.size}."
            )
        table = masses.reshape(self.shape)
        if not np.all(table.sum(axis=1) > 0):
            raise ValueError(
                "counts must hold users of both labels: the area is undefined. Positive users "
                f"have the values {self.num_scores} to {2 * self.num_scores - 1}."
            )
        return table


def expected_users(population: Population) -> np.ndarray | None:
    """The number of users with each value, or its mean if they are drawn; None if not known yet."""
    if not population.is_random:
        return population.counts().numpy()
    if isinstance(population.source, DistributionSource):
        return population.num_users * population.probabilities()
    return None


class PredictsErrors(Protocol):
    """A spec that predicts the errors of one or several statistics."""

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, "*statistics"]:
        """The mean squared errors for given users."""
        ...

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, "*statistics"]:
        """The mean squared errors for independent users."""
        ...


def check_labels(
    protocol: PredictsErrors,
    areas: Sequence[bool],
    population: Population,
    histogram: Num[np.ndarray, "2 d"],
    inputs: Tree = None,
) -> None:
    """What a protocol for an AUC with private labels asks of the users: both labels, not too few.

    Warns where the error that is predicted is above that of the answer 1/2.

    Args:
      protocol: the spec.
      areas: which of the statistics are areas.
      population: the users.
      histogram: how many of them have each label and score.
      inputs: what the protocol's values stand for.

    Raises:
      ValueError: all users have one label.
    """
    sizes = histogram.sum(axis=1)  # of the classes, negative first
    if not np.all(sizes > 0):
        raise ValueError(
            f"the population must hold users of both labels, or the area is undefined, got "
            f"{sizes[0]:.0f} negative and {sizes[1]:.0f} positive ones; a value is (label, score), "
            "and in a table the second half of the values has label 1."
        )
    if population.is_random:
        p, n = population.probabilities(), population.num_users
        errors = protocol.population_variance(p, n, inputs)
    else:
        errors = protocol.variance(population.counts().numpy(), inputs)
    warn_of_noise(float(sizes.min()), float(np.max(np.atleast_1d(errors)[list(areas)])))


def warn_of_noise(smaller: float, error: float) -> None:
    """Warns if a mean squared error of the area is above 1/4, the largest of the answer 1/2."""
    if error > 0.25:  # the answer 1/2 is off by 1/2 at most
        warnings.warn(
            f"the smaller class has {smaller:.0f} users, and the predicted root mean squared error "
            f"of the area is {math.sqrt(error):.2g}, more than that of the answer 1/2: the "
            "estimate is noise. Use fewer scores, or a larger epsilon.",
            stacklevel=7,
        )

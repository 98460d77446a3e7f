"""What the protocols for the area under the ROC curve share: values, targets, populations."""

import abc
import math
import warnings
from typing import Any

import numpy as np

from .._spec import check_counts, check_probabilities
from ..population._distribution import DistributionSource
from ._auc import AUC


class AUCProtocol(abc.ABC):
    """Base class of the specs that estimate the area under the ROC curve of users' scores.

    A user's value is a cell of the table labels x scores, row by row: `score` for a negative user,
    `num_scores + score` for a positive one.

    A subclass is a frozen, slotted dataclass with the fields `num_scores` and `epsilon`.

    Attributes:
      num_scores: d, scores are 0 .. d-1.
      epsilon: privacy parameter.
    """

    __slots__ = ()

    num_scores: int
    epsilon: float

    @property
    @abc.abstractmethod
    def kernel(self) -> AUC:
        """The statistic."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the table whose cells are the values, (2, d)."""
        return 2, self.num_scores

    @abc.abstractmethod
    def build(self, word_bits: int = 32):
        """The params: a pytree with the functions that run inside jit."""

    @abc.abstractmethod
    def exact_epsilon(self) -> float:
        """The realised privacy parameter, at most `epsilon`."""

    @abc.abstractmethod
    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error for given users, float64[].

        Args:
          counts: int[2 d], the number of users with each value.
          inputs: None; values are cells.
        """

    def truth(self, counts, inputs=None) -> np.ndarray:
        """The target: the area under the users' curve, float64[].

        Args:
          counts: int[2 d], the number of users with each value.
          inputs: None; values are cells.
        """
        counts = self._table(check_counts(counts), inputs)
        return np.asarray(self.kernel.of_counts(counts))

    def population_truth(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The target for users drawn from a distribution, float64[]: that of two new users.

        Args:
          probabilities: float[2 d], of each value.
          num_users: unused; the target does not depend on it.
          inputs: None; values are cells.
        """
        del num_users
        p = self._table(check_probabilities(probabilities), inputs)
        negative, positive = p / p.sum(axis=1, keepdims=True)
        below = np.cumsum(negative) - negative
        tie = 0.5 if self.kernel.ties == "half" else 0.0
        return np.asarray(positive @ (below + tie * negative))

    def check_population(self, population) -> None:
        """Raises ValueError unless the users' values are cells and both labels occur."""
        population.require_bins(2 * self.num_scores, "2 * num_scores")
        masses = expected_users(population)
        if masses is not None:
            self._check_classes(self._table(masses, None).sum(axis=1), population.num_users)

    def _check_classes(self, masses: np.ndarray, num_users: int) -> None:
        """Hook for what a protocol asks of the sizes of the classes; both are positive."""
        del masses, num_users

    def _table(self, masses: np.ndarray, inputs) -> np.ndarray:
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


def expected_users(population) -> np.ndarray | None:
    """The number of users with each value, or its mean if they are drawn; None if not known yet."""
    if not population.is_random:
        return population.counts().numpy()
    if isinstance(population.source, DistributionSource):
        return population.num_users * population.probabilities()
    return None


def check_labels(protocol: Any, population, histogram: np.ndarray, inputs: Any = None) -> None:
    """What a protocol for an AUC with private labels asks of the users: both labels, not too few.

    Warns where the error that is predicted is above that of the answer 1/2.

    Args:
      protocol: the spec, which predicts errors of one or several statistics.
      population: the users.
      histogram: float64[2, d], how many of them have each label and score.
      inputs: what the protocol's values stand for.

    Raises:
      ValueError: all users have one label.
    """
    sizes = histogram.sum(axis=1)
    if not np.all(sizes > 0):
        raise ValueError(
            f"the population must hold users of both labels, or the area is undefined, got "
            f"{sizes[0]:.0f} negative and {sizes[1]:.0f} positive ones; a value is (label, score), "
            "and in a table the second half of the values has label 1."
        )
    if population.is_random:
        p, n = population.probabilities(), population.num_users
        errors = protocol.population_variance(p, n, *(() if inputs is None else (inputs,)))
    else:
        errors = protocol.variance(population.counts().numpy(), inputs)
    kernel = protocol.kernel
    areas = [isinstance(k, AUC) for k in (kernel if isinstance(kernel, tuple) else (kernel,))]
    warn_of_noise(float(sizes.min()), float(np.max(np.atleast_1d(errors)[areas])))


def warn_of_noise(smaller: float, error: float) -> None:
    """Warns if a mean squared error of the area is above 1/4, the largest of the answer 1/2."""
    if error > 0.25:
        warnings.warn(
            f"the smaller class has {smaller:.0f} users, and the predicted root mean squared error "
            f"of the area is {math.sqrt(error):.2g}, more than that of the answer 1/2: the "
            "estimate is noise. Use fewer scores, or a larger epsilon.",
            stacklevel=7,
        )

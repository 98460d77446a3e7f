"""What learners share: losses as linear queries, the choice of a concept, and its guarantees."""

import abc
import math
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int32, Int64
from numpy.typing import ArrayLike

from .._checks import Check
from .._contract import Params
from .._queries import AdditiveProtocol
from .._spec import FrozenArray, as_array, check_counts, check_int, check_real
from ..population import Population
from ..randomizers import Tail
from ._examples import CONCEPTS, loss_matrix


class Learner(AdditiveProtocol[Params[Any]]):
    """Base of the specs that estimate the losses of all concepts of a class.

    A user holds a labelled example: (x, +1) is the value x, (x, -1) the value k + x. The loss of a
    concept c is the share of the users with c(x) != y, a linear query. The estimate is float[m],
    the estimates of all losses, not clipped to [0, 1]; `select` makes a choice. Without privacy,
    `select` of the true losses of the sample (`truth(counts)`, or `Trials.truth`) is empirical risk
    minimisation.

    Guarantees are for n users drawn independently from any distribution of examples.

    A subclass has the field `concepts`, made by `field(Learner.CONCEPTS)`.

    Attributes:
      CONCEPTS: the check of the field `concepts`: a matrix of +1 and -1.
      concepts: float64[m, k], a row for each concept.
    """

    __slots__ = ()

    CONCEPTS: ClassVar[Check] = CONCEPTS

    concepts: FrozenArray

    @property
    def workload(self) -> FrozenArray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The losses as linear queries, float64[m, 2 k]."""
        return loss_matrix(self.concepts)

    @property
    def num_points(self) -> int:
        """k, the number of points x: columns of the concept matrix."""
        return self.concepts.values.shape[1]

    def labelled(self, points: ArrayLike, labels: ArrayLike) -> Int32[np.ndarray, " n"]:
        """The values of users who hold labelled examples, for `Population.from_values`.

        Args:
          points: int[n] in [0, k), the columns of the concept matrix.
          labels: [n] of +1 and -1.

        Returns:
          Values in [0, 2 k): x for (x, +1) and k + x for (x, -1).

        Raises:
          ValueError, TypeError: points or labels are out of range, or their shapes differ.

        Example:
          >>> import jaxdp
          >>> from jaxdp.learning import RandomConcept
          >>> learner = RandomConcept(jaxdp.workloads.thresholds(3), epsilon=1.0)
          >>> learner.labelled([0, 2, 2], [1, 1, -1]).tolist()
          [0, 2, 5]
        """
        points, labels = as_array("points", points), as_array("labels", labels)
        k = self.num_points
        if not np.issubdtype(points.dtype, np.integer):
            raise TypeError(f"points must be integers, got dtype {points.dtype}.")
        if points.ndim != 1 or labels.shape != points.shape:
            raise ValueError(
                "points and labels must be vectors of one length, got shapes "
                f"{points.shape} and {labels.shape}."
            )
        if points.size and not 0 <= points.min() <= points.max() < k:
            raise ValueError(
                f"points must be in [0, num_points = {k}), got {points.min()} to {points.max()}."
            )
        if labels.dtype.kind not in "if" or not np.all(np.abs(labels) == 1):
            raise ValueError("labels must be +1 or -1; map 0/1 labels by 2 y - 1.")
        return (points + k * (labels < 0)).astype(np.int32)

    def labelled_histogram(
        self, positive: ArrayLike, negative: ArrayLike
    ) -> Int64[np.ndarray, " bins"]:
        """The histogram of labelled examples, for `Population.from_histogram`.

        Args:
          positive: int[k], the number of examples (x, +1).
          negative: int[k], the number of examples (x, -1).

        Raises:
          ValueError, TypeError: they are not counts, or not of the length k.

        Example:
          >>> import jaxdp
          >>> from jaxdp.learning import RandomConcept
          >>> learner = RandomConcept(jaxdp.workloads.thresholds(2), epsilon=1.0)
          >>> learner.labelled_histogram([3, 0], [1, 2]).tolist()
          [3, 0, 1, 2]
        """
        positive, negative = np.asarray(positive), np.asarray(negative)
        if positive.ndim != 1 or positive.shape != negative.shape:
            raise ValueError(
                "positive and negative must be vectors of one length, got shapes "
                f"{positive.shape} and {negative.shape}."
            )
        both = check_counts(np.concatenate([positive, negative]), "positive and negative")
        return self._check_size(both, "positive and negative")

    @staticmethod
    def select(losses: ArrayLike) -> Int64[np.ndarray | np.int64, "*n"]:
        """The concept of the least estimated loss; the first of several.

        Args:
          losses: float[..., m], estimates such as `Trials.estimates`.

        Returns:
          Rows of the concept matrix.

        Raises:
          ValueError: there are no concepts, or a loss is NaN.

        Example:
          >>> from jaxdp.learning import Learner
          >>> Learner.select([[0.5, 0.2, 0.3], [0.1, 0.9, 0.1]]).tolist()
          [1, 0]
        """
        losses = np.asarray(losses, np.float64)
        if losses.ndim == 0 or losses.shape[-1] == 0:
            raise ValueError(f"losses must have an axis of concepts, got shape {losses.shape}.")
        if np.any(np.isnan(losses)):
            raise ValueError("losses must not be NaN.")
        return np.argmin(losses, axis=-1)

    @abc.abstractmethod
    def tail(self) -> Tail:
        """Tail of the deviation of a user's contribution from its mean.

        It holds for both signs, every concept and every distribution of the users.
        """

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are labelled examples of the domain."""
        population.require_bins(self.num_values, "twice the number of columns of the concepts")

    @property
    def bias(self) -> float:
        """The largest bias of an estimated loss over all distributions."""
        return 0.0

    def excess_risk(self, losses: ArrayLike, probabilities: ArrayLike) -> Float[np.ndarray, "*n"]:
        """Excess of the selected concept's loss over that of the best concept.

        Args:
          losses: float[..., m], estimates.
          probabilities: float[2 k], of each labelled example; or counts of the users.
        """
        true = self.answers(self.check_distribution(probabilities))
        return true[self.select(losses)] - true.min()

    def deviation(self, num_users: int, beta: float) -> float:
        """An error that, with probability 1 - beta, no estimated loss exceeds.

        `bias + sqrt(2 v L / n) + b L / n` with `L = ln(2 m / beta)` and the (v, b) of `tail`.

        Formal guarantees:
          Proven, for every distribution of the users and the loss under it: Bernstein's inequality
          for sub-gamma averages, and a union bound over both signs of all concepts.

        Args:
          num_users: n.
          beta: in (0, 1).
        """
        n, (variance, scale), log = self._setting(num_users, beta)
        # Boucheron, Lugosi, Massart (2013), Section 2.4, for sub-gamma averages
        return self.bias + math.sqrt(2 * variance * log / n) + scale * log / n

    def excess_risk_bound(self, num_users: int, beta: float) -> float:
        """Twice `deviation`: the excess risk that is exceeded with probability at most beta."""
        return 2 * self.deviation(num_users, beta)

    def expected_excess_risk_bound(self, num_users: int) -> float:
        """`2 bias + sqrt(2 v ln(m) / n) + b ln(m) / n`, a proven bound on the mean excess risk.

        With e the errors of the estimates about their means, c the selected concept and c* the best
        one, the excess is at most `2 bias + e_{c*} - e_c`; e_{c*} has mean 0, and -e_c at most the
        mean of the largest of m sub-gamma variables.

        Args:
          num_users: n.
        """
        n, (variance, scale), _ = self._setting(num_users, 0.5)
        log = math.log(self.num_queries)
        return 2 * self.bias + math.sqrt(2 * variance * log / n) + scale * log / n

    def min_users(self, alpha: float, beta: float) -> int:
        """The number of users with which the learner (alpha, beta)-learns the class; Theorem 24.

        From then on, with probability 1 - beta, the selected concept has an excess risk of at most
        alpha, and its estimated loss is within beta of the true one: `deviation` is at most
        `min(alpha / 2, beta)`. (The paper's sample size leaves beta out: it takes it as constant.)

        Args:
          alpha: in (0, 1).
          beta: in (0, 1).

        Raises:
          ValueError: the bias alone is too large.
        """
        alpha = check_real("alpha", alpha, low=0.0, high=1.0)
        _, (variance, scale), log = self._setting(1, beta)
        room = min(alpha / 2, float(beta)) - self.bias
        if room <= 0:
            raise ValueError(
                f"min(alpha / 2, beta) must be above {self.bias:.3g}, the bias of the approximate "
                f"factorization, got alpha = {alpha!r} and beta = {beta!r}; lower the tolerance."
            )
        # With x = sqrt(n): spread / x + scale log / x**2 <= room is a quadratic in x.
        spread = math.sqrt(2 * variance * log)
        root = (spread + math.sqrt(spread**2 + 4 * room * scale * log)) / (2 * room)
        return max(math.ceil(root**2), 1)

    def _setting(self, num_users: int, beta: float) -> tuple[int, Tail, float]:
        n = check_int("num_users", num_users, low=1)
        beta = check_real("beta", beta, low=0.0, high=1.0)
        # Both signs of the errors of all m concepts
        return n, self.tail(), math.log(2 * self.num_queries) - math.log(beta)

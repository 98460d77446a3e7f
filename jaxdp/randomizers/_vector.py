"""What the randomizers of vectors in an L2 ball share: checks, moments, decoding."""

import abc
import math

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import check_epsilon, check_int
from ._mean import MeanRandomizer, SumParams, check_norms, check_scale
from ._sphere import MAX_EPSILON, MIN_EPSILON, Solution

MAX_DIM = 2**20


class VectorRandomizer(MeanRandomizer):
    """Base class of the unbiased randomizers of vectors in the L2 ball of a radius.

    A report leads to a vector Y; for an input x = radius * rho * u, |u| = 1, its mean is x and its
    covariance `radius**2 (across I + (along - across - 1) rho**2 u u^T)`, where (along, across) are
    the second moments of Y / radius along and across the direction of an input of norm `radius`.
    """

    __slots__ = ()

    dim: int
    epsilon: float
    radius: float

    def _check(self) -> None:
        """Validates the three fields that every subclass has."""
        dim = check_int("dim", self.dim, low=1, high=MAX_DIM)
        epsilon = check_epsilon(self.epsilon)
        if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
            raise ValueError(
                f"epsilon must be in [{MIN_EPSILON:g}, {MAX_EPSILON:g}], got {self.epsilon!r}: "
                "beyond these a word of 32 bits is too coarse for its probabilities."
            )
        radius = check_scale("radius", self.radius)
        for name, value in (("dim", dim), ("epsilon", epsilon), ("radius", radius)):
            object.__setattr__(self, name, value)

    @property
    def value_shape(self) -> tuple[int, ...]:
        """(dim,)."""
        return (self.dim,)

    @abc.abstractmethod
    def second_moments(self) -> tuple[float, float]:
        """The second moments (along, across) of a decoded report of an input of norm 1, radius 1.

        `E[Y Y^T] = along u u^T + across (I - u u^T)` for the unit input u.
        """

    @abc.abstractmethod
    def log_density(self, reports, value) -> np.ndarray:
        """The log-density of reports, relative to a law that does not depend on the value.

        Args:
          reports: float[n, m], as `privatize` returns them.
          value: float[dim].

        Returns:
          float64[n].
        """

    def moments(self, value) -> tuple[np.ndarray, np.ndarray]:
        """The exact mean float64[dim] and covariance float64[dim, dim] of one decoded report.

        Args:
          value: float[dim], the user's vector.
        """
        value = self.check_value(value)
        along, across = self.second_moments()
        covariance = across * self.radius**2 * np.eye(self.dim)
        return value, covariance + (along - across - 1) * np.outer(value, value)

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The exact variance of each entry of the estimated mean, float64[dim].

        Args:
          counts: int[k], the number of users with each vector.
          inputs: float[k, dim], the vectors; needed, since the bins alone say nothing of them.
        """
        counts, inputs = self.check_inputs(counts, inputs)
        along, across = self.second_moments()
        n = float(counts.sum())
        squares = counts @ np.square(inputs)
        return across * self.radius**2 / n + (along - across - 1) * squares / n**2

    def worst_case_variance(self, num_users: int) -> float:
        """The largest variance of an entry of the estimated mean over all data sets; exact."""
        n = check_int("num_users", num_users, low=1)
        along, across = self.second_moments()
        return self.radius**2 * max(across, along - 1) / n

    def check_population(self, population) -> None:
        """Raises unless the users' values are vectors in the ball."""
        population.require_ball(self.dim, self.radius)
        self.check_total(population)

    def check_range(self, name, values) -> None:
        """Raises unless vectors are in the ball."""
        check_norms(name, values, "radius", self.radius)


class CapRandomizer(VectorRandomizer):
    """Base class of the specs whose reports are tilted towards a cap; see `_sphere`."""

    __slots__ = ()

    @abc.abstractmethod
    def _solution(self) -> Solution:
        """The cap that is built."""

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, rounded up; at most `epsilon`."""
        require_words(word_bits)
        return self._solution().epsilon


class PaddedCapRandomizer(CapRandomizer):
    """Base class of the specs that report from a cap around the padded vector (x, last)."""

    __slots__ = ()

    @property
    def threshold(self) -> float:
        """gamma, which is also the mean m of V along u."""
        return self._solution().cap.gamma

    def probabilities(self) -> tuple[float, float]:
        """(p, q): how often a report comes from the cap, and how often it would by chance."""
        solution = self._solution()
        return solution.keep / 2**32, solution.cap.mass

    def log_density(self, reports, value) -> np.ndarray:
        """The log-density of reports relative to the law without a cap, which has two values.

        Args:
          reports: float[n, dim + 1].
          value: float[dim].

        Returns:
          float64[n].
        """
        value = self.check_value(value)
        head = value / self.radius
        unit = np.append(head, math.sqrt(max(1 - float(head @ head), 0.0)))
        p, q = self.probabilities()
        inside = np.asarray(reports, np.float64) @ unit >= self.threshold
        return np.where(inside, math.log(p / q), math.log((1 - p) / (1 - q)))


class VectorParams(SumParams):
    """Base class of the params of vector randomizers: pytrees with these fields.

    Attributes:
      radius: float32[], of the ball.
      unit: float64[], what 1 in a report stands for.
      dim: static.
    """

    radius: jax.Array | np.ndarray
    dim: int

    lazy_words = True  # also without rejection: the words then fuse into the normals

    def decode(self, reports):
        """The unbiased vectors that reports stand for.

        Args:
          reports: float32[..., m].

        Returns:
          float32[..., dim], each of mean the user's vector. A protocol that needs more than their
          sum, such as the sum of y^T D y, tallies functions of these.
        """
        return self.summands(reports) * jnp.asarray(self.unit).astype(jnp.float32)

    def summands(self, reports):
        """The coordinates that are used, float32[..., dim]."""
        return reports[..., : self.dim]


def require_words(word_bits: int) -> None:
    """Raises unless words have 32 bits: samplers of floats have no enumerable twin."""
    if word_bits != 32:
        raise ValueError(
            f"word_bits must be 32 for a randomizer of float vectors, got {word_bits!r}: its law "
            "is checked by its density and its moments, not by enumeration."
        )

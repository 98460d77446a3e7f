"""The piecewise mechanism: a bounded report for a bounded number."""

import dataclasses
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import check_epsilon, check_int
from ._exact import exp_lower, log_upper
from ._mean import (
    MeanRandomizer,
    SumParams,
    check_interval,
    check_scale,
    into_interval,
    unit_above,
)

_WORDS = 2**32


@dataclasses.dataclass(frozen=True, slots=True)
class Piecewise(MeanRandomizer):
    """Wang et al.'s piecewise mechanism for a number in [-bound, bound].

    In units of the bound, the report is uniform on the interval `[m - w/2, m + w/2]` around
    `m = (C + 1) x / 2`, of length `w = C - 1`, with probability p, and otherwise uniform on the
    rest of [-C, C]. The estimate is the mean.

    With any p > 1/2 the choice `C = 1 / (2 p - 1)` makes the report unbiased, and then the ratio
    of the two densities is `(p / (1 - p))**2`. So p is realised as the largest multiple of 2**-32
    for which that is at most e**epsilon (about `e**(epsilon/2) / (1 + e**(epsilon/2))`), and C
    follows from it: neither privacy nor bias is lost to rounding. One word chooses the piece, one
    the place in it.

    Formal guarantees:
      * Privacy: pure epsilon-LDP. The density has two levels, of the exact ratio
        `(p / (1 - p))**2 <= e**epsilon`, and their intervals have the same lengths for every x; in
        real arithmetic for the place, since a float32 report is rounded. Numbers outside the range
        are clamped by the params, and NaN counts as 0.
      * Bias: none.
      * Variance of one report, exact: with `s = p / (1 - p)`, which is about e**(epsilon/2),
        `x**2 / (s - 1) + bound**2 (s + 3) / (3 (s - 1)**2)`; of the mean, the sum over n**2.

    Below epsilon = 1.29 or so the one-bit `BinaryResponse` has the smaller worst case, above it
    this.

    Edge cases:
      =============================  ============================================================
      epsilon below 1e-6             ValueError: p would be rounded too coarsely
      epsilon above 40               ValueError: 1 - p would be
      bound beyond 1e-20 .. 1e20     ValueError: change the unit of the values
      more than 2**42 users          ValueError: sums are kept in 63 bits
      =============================  ============================================================

    Args:
      epsilon: privacy parameter, in [1e-6, 40].
      bound: the largest absolute value, > 0; rounded to float32.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import Piecewise
      >>> round(Piecewise(epsilon=4.0).worst_case_variance(num_users=1), 4)
      0.2414

    References:
      Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu (2019), Collecting and analyzing multidimensional
      data with local differential privacy, Algorithm 2.
    """

    epsilon: float
    bound: float = 1.0

    def __post_init__(self):
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "bound", check_scale("bound", self.bound))
        if not 1e-6 <= self.epsilon <= 40:
            raise ValueError(
                f"epsilon must be in [1e-6, 40], got {self.epsilon!r}: the probability of a piece "
                "is a multiple of 2**-32."
            )

    @property
    def value_shape(self) -> tuple[int, ...]:
        """(): numbers."""
        return ()

    def _near(self) -> int:
        """The number of words that choose the near piece."""
        squared = exp_lower(self.epsilon)
        near = math.floor(_WORDS / (1 + math.exp(-self.epsilon / 2))) + 2**12
        near = min(near, _WORDS - 1)  # the float above may be off by 1e-16 of 2**32
        while Fraction(near, _WORDS - near) ** 2 > squared:
            near -= 1
        return near

    def probabilities(self) -> tuple[Fraction, Fraction]:
        """The realised probabilities (p, 1 - p) of the near piece and of the rest."""
        p = Fraction(self._near(), _WORDS)
        return p, 1 - p

    @property
    def reach(self) -> Fraction:
        """C: reports lie within C bounds of zero; exact."""
        return 1 / (2 * self.probabilities()[0] - 1)

    def build(self, word_bits: int = 32) -> "PiecewiseParams":
        """The params; the sampler needs words of 32 bits."""
        check_int("word_bits", word_bits, low=32, high=32)
        c = self.reach
        return PiecewiseParams(
            np.asarray(self._near(), np.uint32),
            np.asarray(float(c), np.float32),
            np.asarray(float(c - 1), np.float32),
            np.asarray(self.bound, np.float32),
            unit_above(self.bound * float(c)),
        )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, the log-ratio of the two densities, rounded up."""
        del word_bits
        p, q = self.probabilities()
        return log_upper((p / q) ** 2)

    def log_density(self, reports, value) -> np.ndarray:
        """The log-density of reports of a value, with respect to Lebesgue measure.

        Args:
          reports: float[n]; a relative 1e-6 beyond the range is taken for rounding.
          value: float[].

        Returns:
          float64[n], of two values within the range and -inf outside of it.
        """
        p, q = map(float, self.probabilities())
        c, width = float(self.reach), float(self.reach - 1)
        y = np.asarray(reports, np.float64) / self.bound
        middle = (c + 1) / 2 * float(self.check_value(value)) / self.bound
        near = math.log(p / width) - math.log(self.bound)
        far = math.log(q / (c + 1)) - math.log(self.bound)
        density = np.where(np.abs(y - middle) <= width / 2, near, far)
        return np.where(np.abs(y) <= c * (1 + 1e-6), density, -np.inf)

    def moments(self, value) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the variance of one report, float64[] each."""
        value = self.check_value(value)
        return value, self._spread(value)

    def _spread(self, x: np.ndarray) -> np.ndarray:
        """The variance of one report of x."""
        p, q = self.probabilities()
        s = p / q
        return x**2 * float(1 / (s - 1)) + self.bound**2 * float((s + 3) / (3 * (s - 1) ** 2))

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The exact variance of the mean, float64[].

        Args:
          counts: int[k], the number of users with each value.
          inputs: float[k], the values.
        """
        counts, inputs = self.check_inputs(counts, inputs)
        return np.asarray(np.sum(counts * self._spread(inputs)) / counts.sum() ** 2)

    def worst_case_variance(self, num_users: int) -> float:
        """The largest variance of the mean over all data sets: at x = bound; exact."""
        n = check_int("num_users", num_users, low=1)
        return float(self._spread(np.asarray(self.bound))) / n

    def check_range(self, name, values) -> None:
        """Raises unless numbers are in [-bound, bound]."""
        check_interval(name, values, self.bound)

    def check_population(self, population) -> None:
        """Raises unless the users' values are numbers in [-bound, bound]."""
        population.require_reals((), low=-self.bound, high=self.bound)
        self.check_total(population)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PiecewiseParams(SumParams):
    """The params of `Piecewise`: a pytree.

    Attributes:
      near: uint32[], the report is in the near piece when its first word is below.
      reach: float32[], C.
      width: float32[], C - 1, the length of the near piece in units of the bound.
      bound: float32[].
      unit: float32[], the power of two in which sums are kept.
    """

    near: jax.Array | np.ndarray
    reach: jax.Array | np.ndarray
    width: jax.Array | np.ndarray
    bound: jax.Array | np.ndarray
    unit: jax.Array | np.ndarray

    lazy_words = True  # each word is used once: made where it is read, it is never stored

    @property
    def num_words(self) -> int:
        """One word for the piece, one for the place in it."""
        return 2

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[2].
          value: float32[] in [-bound, bound]; clamped into it, NaN counts as 0.

        Returns:
          float32[] in [-C bound, C bound].
        """
        x = into_interval(value, self.bound) / self.bound
        high, low = (words[1] >> np.uint32(16)), words[1] & np.uint32(2**16 - 1)
        place = high.astype(jnp.float32) * np.float32(2**-16)
        place = place + (low.astype(jnp.float32) + np.float32(0.5)) * np.float32(2**-32)
        side = self.reach + np.float32(1)  # the length of the rest of [-C, C]
        near = np.float32(0.5) * side * x + self.width * (place - np.float32(0.5))
        left = np.float32(0.5) * side * (x + np.float32(1))  # how much of it lies on the left
        far = side * place
        far = far - jnp.where(far < left, self.reach, np.float32(1))
        return jnp.where(words[0] < self.near, near, far) * self.bound

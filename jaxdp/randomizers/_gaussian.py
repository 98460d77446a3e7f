"""Gaussian noise for vectors in a Euclidean ball."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp_kernels.standard_normal import standard_normal

from .._spec import check_choice, check_counts, check_epsilon, check_int, check_real
from .._x64 import compiled_in_float64
from ..accounting import gaussian_delta, gaussian_sigma
from ..random import Count
from ..random._gamma import normal
from ._mean import (
    MeanRandomizer,
    SumParams,
    check_norms,
    check_scale,
    into_ball,
    unit_above,
    weighted_sum,
)

MAX_NOISE = 1e10  # sigma / radius; float32 reports lose the value beyond 1e7 anyway


@dataclasses.dataclass(frozen=True, slots=True)
class Gaussian(MeanRandomizer):
    """Gaussian noise for vectors of L2 norm at most radius.

    `report = x + sigma z` with z ~ N(0, I). The estimate is the mean.

    In the local model any two inputs are neighbours, so the sensitivity is 2 radius. With
    `calibration="analytic"` sigma is the least for which the mechanism is (epsilon, delta)-LDP.
    `"as_printed"` keeps the `sigma**2 = 2 r**2 log(2 / delta) / epsilon**2` of Bassily's
    Algorithm 1 for study.

    Formal guarantees:
      * Privacy: (epsilon, exact_delta())-LDP in real arithmetic, exact for dim >= 1. Analytic:
        `exact_delta() <= delta`. As printed it is NOT (epsilon, delta)-LDP: at epsilon = 1,
        delta = 1e-6 its true delta is 6.5e-4. Normals of one 32-bit word end at 6.3 sigma, so a
        delta below about dim 2**-32 speaks of the formula and not of the sampler. Vectors beyond
        the ball are scaled to its surface by the params, and NaN counts as 0.
      * Bias: none.
      * Variance, exact and the same for all inputs: `sigma**2 / n` for each entry of the mean.

    Edge cases:
      ==================================  =======================================================
      sigma above 1e10 or below 1e-4 r    ValueError: float32 cannot hold a value and its noise
      radius beyond 1e-20 .. 1e20         ValueError: change the unit of the values
      norm above radius                   ValueError from specs and populations; params scale it
      more than 2**42 users               ValueError: sums are kept in 63 bits
      ==================================  =======================================================

    Args:
      dim: d, the dimension, >= 1.
      epsilon: privacy parameter, > 0.
      delta: probability, in (0, 1), with which the privacy loss may exceed epsilon.
      radius: r, the largest L2 norm, > 0; rounded to float32.
      calibration: "analytic" or "as_printed".

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import Gaussian
      >>> spec = Gaussian(dim=3, epsilon=1.0, delta=1e-6)
      >>> round(spec.sigma, 3), spec.exact_delta() <= 1e-6
      (8.449, True)
      >>> printed = Gaussian(dim=3, epsilon=1.0, delta=1e-6, calibration="as_printed")
      >>> round(printed.sigma, 3), round(printed.exact_delta(), 6)
      (5.387, 0.000654)

    References:
      Balle, Wang (2018), Improving the Gaussian mechanism for differential privacy; Bassily (2019),
      Linear queries estimation with local differential privacy, Algorithm 1. Erratum: Theorem 3.1
      there calibrates to the sensitivity r of one vector against zero; two vectors of norm r are up
      to 2 r apart.
    """

    dim: int
    epsilon: float
    delta: float
    radius: float = 1.0
    calibration: str = "analytic"

    def __post_init__(self):
        object.__setattr__(self, "dim", check_int("dim", self.dim, low=1))
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_real("delta", self.delta, low=0.0, high=1.0))
        object.__setattr__(self, "radius", check_scale("radius", self.radius))
        check_choice("calibration", self.calibration, ("analytic", "as_printed"))
        if not 1e-4 <= self.sigma / self.radius <= MAX_NOISE:
            raise ValueError(
                f"epsilon and delta must need a sigma between 1e-4 and {MAX_NOISE:g} times radius, "
                f"got {self.epsilon!r} and {self.delta!r}, which need {self.sigma / self.radius:g}."
            )

    @property
    def value_shape(self) -> tuple[int, ...]:
        """(dim,)."""
        return (self.dim,)

    @property
    def sigma(self) -> float:
        """The standard deviation of each coordinate, a float32; analytic: rounded up."""
        if self.calibration == "as_printed":
            exact = self.radius * math.sqrt(2 * math.log(2 / self.delta)) / self.epsilon
        else:
            exact = gaussian_sigma(self.epsilon, self.delta, 2 * self.radius)
        nearest = np.float32(exact)
        if self.calibration == "analytic" and float(nearest) < exact:
            nearest = np.nextafter(nearest, np.float32(np.inf))
        return float(nearest)

    def build(self, word_bits: int = 32) -> "GaussianParams":
        """The params; the sampler needs words of 32 bits."""
        check_int("word_bits", word_bits, low=32, high=32)
        sigma = self.sigma
        return GaussianParams(
            np.asarray(sigma, np.float32),
            np.asarray(self.radius, np.float32),
            unit_above(self.radius + sigma),
            self.dim,
        )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The epsilon at which `exact_delta()` holds: `epsilon` itself."""
        del word_bits
        return self.epsilon

    def exact_delta(self) -> float:
        """The smallest delta at which the mechanism as built is (epsilon, delta)-LDP."""
        return gaussian_delta(self.epsilon, 2 * self.radius, self.sigma)

    def log_density(self, reports, value) -> np.ndarray:
        """The log-density of reports of a value, with respect to Lebesgue measure.

        Args:
          reports: float[n, dim].
          value: float[dim].

        Returns:
          float64[n].
        """
        gap = np.asarray(reports, np.float64) - self.check_value(value)
        normaliser = self.dim * (math.log(2 * math.pi) / 2 + math.log(self.sigma))
        return -np.sum(gap**2, axis=1) / (2 * self.sigma**2) - normaliser

    def moments(self, value) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the covariance of one report: the value, and sigma**2 I."""
        return self.check_value(value), self.sigma**2 * np.eye(self.dim)

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The exact variance of each entry of the mean, float64[dim].

        Args:
          counts: int[k], the number of users with each value.
          inputs: float[k, dim], the values; may be None, since the variance is the same for all of
            them.
        """
        counts = check_counts(counts).ravel()
        if inputs is not None:
            self.check_inputs(counts, inputs)
        return np.full(self.dim, self.sigma**2 / counts.sum())

    def worst_case_variance(self, num_users: int) -> float:
        """The variance of an entry of the mean, sigma**2 / n; exact, for every data set."""
        return self.sigma**2 / check_int("num_users", num_users, low=1)

    def check_range(self, name, values) -> None:
        """Raises unless vectors are in the ball."""
        check_norms(name, values, "radius", self.radius)

    def check_population(self, population) -> None:
        """Raises unless the users' values are vectors in the ball."""
        population.require_ball(self.dim, self.radius)
        self.check_total(population)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GaussianParams(SumParams):
    """The params of `Gaussian`: a pytree.

    Attributes:
      sigma: float32[], the standard deviation of each coordinate.
      radius: float32[], the largest norm.
      unit: float32[], the power of two in which sums are kept.
      dim: d, static.
    """

    sigma: jax.Array | np.ndarray
    radius: jax.Array | np.ndarray
    unit: jax.Array | np.ndarray
    dim: int = dataclasses.field(metadata={"static": True})

    @property
    def num_words(self) -> int:
        """One word for each coordinate."""
        return self.dim

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[dim].
          value: float32[dim] in the ball; scaled into it, NaN counts as 0.

        Returns:
          float32[dim], always finite.
        """
        noise = standard_normal(words[0 : self.dim])
        return into_ball(value, self.radius) + self.sigma * noise

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law: the sum of the values and sqrt(n) sigma N(0, I).

        Args:
          key: a key; it is folded.
          counts: Count[k], the number of users with each value.
          inputs: float32[k, dim], the values.

        Returns:
          {"sum": Fixed[dim], "users": Count[]}.
        """
        users = counts.sum()
        total = weighted_sum(counts, into_ball(jnp.asarray(inputs), self.radius))
        spread = jnp.sqrt(users.f64()) * jnp.asarray(self.sigma).astype(jnp.float64)
        noise = normal(jax.random.fold_in(key, 0), (self.dim,))
        return self.fixed_sum(self.in_units(total + spread * noise), users)

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly: one normal an entry, and the sum of the bins."""
        del num_users
        return (100.0 + num_bins) * self.dim

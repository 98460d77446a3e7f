"""Laplace noise for a bounded number, or for a vector of bounded L1 norm."""

import dataclasses
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import check_counts, check_epsilon, check_int, is_traced
from .._x64 import compiled_in_float64
from ..random import Count
from ..random._gamma import gamma
from ._mean import (
    MeanRandomizer,
    SumParams,
    check_interval,
    check_norms,
    check_scale,
    into_interval,
    unit_above,
    weighted_sum,
)

MAX_EPSILON = 1e4  # noise of 2e-4 bounds, still far above the spacing of float32 reports


@dataclasses.dataclass(frozen=True, slots=True)
class Laplace(MeanRandomizer):
    """Laplace noise, for a number in [-bound, bound] or a vector of L1 norm at most bound.

    `report = x + b (E - E')` in every coordinate, with independent standard exponentials E, E' and
    the scale `b = 2 bound / epsilon`: two users may differ by 2 bound, in L1 norm. The estimate is
    the mean.

    One word a coordinate: its upper bit is the sign, the other 31 bits the magnitude
    `-b log((k + 1/2) / 2**31)`, which is finite and at most 22.2 b.

    Formal guarantees:
      * Privacy: pure epsilon-LDP in real arithmetic; `exact_epsilon()` is that of b as rounded to
        float32, upwards. The low bits of a float32 report may say more (Mironov 2012): where that
        matters use `DiscreteLaplace`, whose guarantee holds bit by bit. Inputs outside the range
        are scaled into it by the params, and NaN counts as 0.
      * Bias: none.
      * Variance, exact and the same for all inputs: `2 b**2 / n` for each entry of the mean.

    Edge cases:
      ==================================  =======================================================
      epsilon above 1e4                   ValueError: the noise would drown in float32 rounding
      bound beyond 1e-20 .. 1e20          ValueError: change the unit of the values
      value out of range                  ValueError from specs and populations; params clamp
                                          numbers, and divide vectors by norm / bound
      more than 2**42 users               ValueError: sums are kept in 63 bits
      ==================================  =======================================================

    Args:
      epsilon: privacy parameter, > 0.
      bound: the largest absolute value, or L1 norm, > 0; rounded to float32.
      dim: None for numbers, d >= 1 for vectors float32[d].

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import Laplace
      >>> Laplace(epsilon=1.0).worst_case_variance(num_users=1)
      8.0
      >>> Laplace(epsilon=2.0, dim=3).variance([10**6], [[0.5, 0.25, 0.0]]).tolist()
      [2e-06, 2e-06, 2e-06]

    References:
      Dwork, McSherry, Nissim, Smith (2006), Calibrating noise to sensitivity in private data
      analysis; Mironov (2012), On significance of the least significant bits for differential
      privacy.
    """

    epsilon: float
    bound: float = 1.0
    dim: int | None = None

    def __post_init__(self):
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "bound", check_scale("bound", self.bound))
        if self.dim is not None:
            object.__setattr__(self, "dim", check_int("dim", self.dim, low=1))
        if not 2e-10 <= self.epsilon <= MAX_EPSILON:
            raise ValueError(
                f"epsilon must be in [2e-10, {MAX_EPSILON:g}], got {self.epsilon!r}: beyond it "
                "float32 cannot hold a value and its noise."
            )

    @property
    def value_shape(self) -> tuple[int, ...]:
        """() for numbers, (dim,) for vectors."""
        return () if self.dim is None else (self.dim,)

    @property
    def scale(self) -> float:
        """b, the scale of the noise: the smallest float32 not below 2 bound / epsilon."""
        exact = 2 * Fraction(self.bound) / Fraction(self.epsilon)
        nearest = np.float32(float(exact))
        if Fraction(float(nearest)) < exact:
            nearest = np.nextafter(nearest, np.float32(np.inf))
        return float(nearest)

    def build(self, word_bits: int = 32) -> "LaplaceParams":
        """The params; the sampler needs words of 32 bits."""
        check_int("word_bits", word_bits, low=32, high=32)
        scale = self.scale
        return LaplaceParams(
            np.asarray(scale, np.float32),
            np.asarray(self.bound, np.float32),
            unit_above(self.bound + scale),
            self.dim,
        )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter 2 bound / b, rounded up."""
        del word_bits
        exact = 2 * Fraction(self.bound) / Fraction(self.scale)
        nearest = float(exact)
        return math.nextafter(nearest, math.inf) if Fraction(nearest) < exact else nearest

    def log_density(self, reports, value) -> np.ndarray:
        """The log-density of reports of a value, with respect to Lebesgue measure.

        Args:
          reports: float[n], or float[n, dim].
          value: float[], or float[dim].

        Returns:
          float64[n].
        """
        gap = np.abs(np.asarray(reports, np.float64) - self.check_value(value))
        entries = gap.reshape(gap.shape[0], -1)
        return -entries.sum(axis=1) / self.scale - entries.shape[1] * math.log(2 * self.scale)

    def moments(self, value) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the covariance of one report: the value, and 2 b**2 in each entry."""
        spread = 2 * self.scale**2
        covariance = np.asarray(spread) if self.dim is None else spread * np.eye(self.dim)
        return self.check_value(value), covariance

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The exact variance of each entry of the mean, float64 of the shape of a value.

        Args:
          counts: int[k], the number of users with each value.
          inputs: float[k] or float[k, dim], the values; may be None, since the variance is the same
            for all of them.
        """
        counts = check_counts(counts).ravel()
        if inputs is not None:
            self.check_inputs(counts, inputs)
        return np.full(self.value_shape, 2 * self.scale**2 / counts.sum())

    def worst_case_variance(self, num_users: int) -> float:
        """The variance of an entry of the mean, 2 b**2 / n; exact, for every data set."""
        return 2 * self.scale**2 / check_int("num_users", num_users, low=1)

    def check_range(self, name, values) -> None:
        """Raises unless numbers, or the L1 norms of vectors, are within the bound."""
        if self.dim is None:
            check_interval(name, values, self.bound)
        else:
            check_norms(name, values, "bound", self.bound, order=1)

    def check_population(self, population) -> None:
        """Raises unless the users' values are numbers, or vectors, within the bound."""
        if self.dim is None:
            population.require_reals((), low=-self.bound, high=self.bound)
        else:
            population.require_reals((self.dim,))
            self._check_norms(population.inputs)
        self.check_total(population)

    def _check_norms(self, inputs) -> None:
        if is_traced(inputs):
            return
        norms = jnp.sum(jnp.abs(inputs), axis=1)
        worst = int(jnp.argmax(norms))
        if float(norms[worst]) > self.bound * (1 + 1e-6):
            raise ValueError(
                f"the population's values must have an L1 norm of at most bound = {self.bound:g}, "
                f"but row {worst} has {float(norms[worst]):g}; scale the vectors, or raise bound."
            )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LaplaceParams(SumParams):
    """The params of `Laplace`: a pytree.

    Attributes:
      scale: float32[], b.
      bound: float32[], the largest absolute value or L1 norm.
      unit: float32[], the power of two in which sums are kept.
      dim: None for numbers; static.
    """

    scale: jax.Array | np.ndarray
    bound: jax.Array | np.ndarray
    unit: jax.Array | np.ndarray
    dim: int | None = dataclasses.field(default=None, metadata={"static": True})

    @property
    def num_words(self) -> int:
        """One word for each coordinate."""
        return 1 if self.dim is None else self.dim

    def _inside(self, value):
        if self.dim is None:
            return into_interval(value, self.bound)
        far = np.float32(1e15)
        scaled = jnp.clip(jnp.nan_to_num(value.astype(jnp.float32)) / self.bound, -far, far)
        norm = jnp.sum(jnp.abs(scaled), axis=-1, keepdims=True)
        return scaled / jnp.maximum(norm, np.float32(1)) * self.bound

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[num_words].
          value: float32[] or float32[dim], within the bound; scaled into it, NaN counts as 0.

        Returns:
          float32[] or float32[dim], always finite.
        """
        words = words[0] if self.dim is None else words[0 : self.dim]
        low_bits = (words & np.uint32(2**31 - 1)).astype(jnp.int32).astype(jnp.float32)
        magnitude = -jnp.log((low_bits + np.float32(0.5)) * np.float32(2**-31))
        noise = jnp.where(words >> np.uint32(31) == 0, magnitude, -magnitude)
        return self._inside(value) + self.scale * noise

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law: for each entry the difference of two gammas.

        Args:
          key: a key; it is folded.
          counts: Count[k], the number of users with each value.
          inputs: float32[k] or float32[k, dim], the values.

        Returns:
          {"sum": Fixed[...], "users": Count[]}.
        """
        users = counts.sum()
        total = weighted_sum(counts, self._inside(jnp.asarray(inputs)))
        shape = (2, *total.shape)
        each = jax.tree.map(lambda limb: jnp.broadcast_to(limb, shape), users)
        up, down = gamma(jax.random.fold_in(key, 0), each)
        scale = jnp.asarray(self.scale).astype(jnp.float64)
        return self.fixed_sum(self.in_units(total + scale * (up - down)), users)

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly: two gammas an entry, and the sum of the bins."""
        del num_users
        return (400.0 + num_bins) * self.num_words

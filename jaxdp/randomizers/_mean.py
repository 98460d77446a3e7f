"""What the randomizers of a mean share: users hold numbers or vectors, and reports are added."""

import abc
import math

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import check_counts, check_real
from .._x64 import compiled_in_float64
from ..random import Count, Fixed
from ._params import RandomizerParams
from ._randomizer import Randomizer, check_law

FIXED_BITS = 20
MAX_SUMMED = 2**42
"""Largest number of users whose reports can be added: sums of `FIXED_BITS` are below 2**43."""

_SLACK = 1 + 1e-6  # of float32 numbers and vectors that were scaled to the bound
_LARGEST, _SMALLEST = 1e20, 1e-20  # scales whose squares float32 can hold


class MeanRandomizer(Randomizer):
    """Base class of specs whose estimate is the mean of the users' numbers or vectors."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def value_shape(self) -> tuple[int, ...]:
        """The shape of a user's value: () for a number, (dim,) for a vector."""

    @abc.abstractmethod
    def moments(self, value) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the covariance of one decoded report of a value, in float64.

        Args:
          value: float[] or float[d].

        Returns:
          float64[] and float64[] for numbers, float64[d] and float64[d, d] for vectors.
        """

    @abc.abstractmethod
    def check_range(self, name: str, values: np.ndarray) -> None:
        """Raises ValueError unless finite values, float64[..., *value_shape], are in the range.

        Args:
          name: what the message calls them.
          values: numbers or vectors.
        """

    def truth(self, counts, inputs=None) -> np.ndarray:
        """The target: the mean of the users' values, float64 of the shape of a value."""
        counts, inputs = self.check_inputs(counts, inputs)
        return np.tensordot(counts, inputs, axes=1) / counts.sum()

    def population_truth(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The mean of the distribution that users are drawn from."""
        del num_users
        p = check_law(probabilities, np.size(probabilities))
        return np.tensordot(p, self._fitting(p, inputs), axes=1)

    def check_inputs(self, counts, inputs) -> tuple[np.ndarray, np.ndarray]:
        """Counts and inputs as float64[k] and float64[k, ...], or raises unless they fit.

        Args:
          counts: int[k], the number of users with each input.
          inputs: float[k, *value_shape]; finite, in the range of the randomizer.
        """
        counts = check_counts(counts).ravel()
        return counts.astype(np.float64), self._fitting(counts, inputs)

    def check_value(self, value) -> np.ndarray:
        """A value as float64, or raises unless it is finite and in the range.

        Args:
          value: float[d] where values are vectors; where they are numbers, float[...], an array of
            values.
        """
        value = np.asarray(value, np.float64)
        if self.value_shape and value.shape != self.value_shape:
            raise ValueError(f"value must have shape {self.value_shape}, got {value.shape}.")
        return self._checked("value", value)

    def _checked(self, name: str, values: np.ndarray) -> np.ndarray:
        if not np.all(np.isfinite(values)):
            raise ValueError(f"{name} must be finite, got NaN or inf.")
        self.check_range(name, values)
        return values

    def _fitting(self, counts: np.ndarray, inputs) -> np.ndarray:
        """The inputs of as many bins, checked."""
        if inputs is None:
            raise ValueError(
                "inputs must give the value that each bin of counts stands for; make the "
                "population with Population.from_histogram(counts, values=inputs)."
            )
        inputs = np.asarray(inputs, np.float64)
        if inputs.shape != (counts.size, *self.value_shape):
            raise ValueError(
                f"inputs must have shape {(counts.size, *self.value_shape)}, one value for each of "
                f"the {counts.size} counts, got {inputs.shape}."
            )
        return self._checked("inputs", inputs)

    def check_total(self, population) -> None:
        """Raises unless the population is small enough for its reports to be added."""
        if population.num_users > MAX_SUMMED:
            raise ValueError(
                f"the population must have at most 2**42 users for {type(self).__name__}, got "
                f"{population.num_users}: sums of its reports are kept in 63 bits; randomizers "
                "whose reports are counted, such as BinaryResponse, take up to 2**53."
            )


class SumParams(RandomizerParams):
    """What params whose reports are added share.

    A subclass is a pytree with the leaf `unit`, of about the size of a report: sums are kept in
    multiples of it, so that their fixed-point grid fits any scale.
    """

    unit: jax.Array | np.ndarray
    fixed_bits = FIXED_BITS
    value_dtype = jnp.float32

    def summands(self, reports):
        """What is summed of reports: the reports themselves, in units."""
        return reports / self.unit

    def tally(self, reports, mask):
        """The sum of the masked reports in units, and the number of users.

        Args:
          reports: float32[n, ...].
          mask: bool[n].

        Returns:
          {"sum": float32[...], "users": int32[]}.
        """
        keep = mask.reshape(mask.shape + (1,) * (reports.ndim - 1))
        kept = jnp.where(keep, self.summands(reports), np.float32(0))
        return {"sum": jnp.sum(kept, axis=0), "users": jnp.sum(mask, dtype=jnp.int32)}

    @compiled_in_float64
    def estimate(self, tally):
        """The estimated mean of the users' values, float[...]."""
        unit = jnp.asarray(self.unit).astype(jnp.float64)
        return tally["sum"].f64() * (unit / tally["users"].f64())

    def in_units(self, total):
        """A float64 sum of reports in units; inside an x64 block."""
        return total / jnp.asarray(self.unit).astype(jnp.float64)

    def fixed_sum(self, total, users: Count):
        """The tally whose sum of `summands` is a float64 array; inside an x64 block."""
        units = Count.from_float(jnp.rint(total * 2.0**FIXED_BITS))
        return {"sum": Fixed(units, FIXED_BITS), "users": users}


def weighted_sum(counts: Count, inputs):
    """The sum of the users' values as float64; inside an x64 block."""
    return over_rows(counts.f64(), inputs.astype(jnp.float64))


def over_rows(weights, rows):
    """The weighted sum over the first axis: a float64 dot that vmap may transform in a 32-bit jit.

    The batching rule of a dot runs outside of the x64 block, where jax refuses float64.
    """
    return jnp.sum(weights.reshape(weights.shape + (1,) * (rows.ndim - 1)) * rows, axis=0)


def check_interval(name: str, values: np.ndarray, bound: float) -> None:
    """Raises ValueError unless numbers, float64[...], are in [-bound, bound], up to rounding."""
    if np.any(np.abs(values) > bound * _SLACK):
        worst = values.flat[np.argmax(np.abs(values))]
        raise ValueError(
            f"{name} must be in [{-bound:g}, {bound:g}], got {worst:g}; rescale or clip the "
            "numbers, or raise bound."
        )


def check_norms(name: str, values: np.ndarray, field: str, most: float, order: int = 2) -> None:
    """Raises ValueError unless vectors, float64[..., d], have at most a norm, up to rounding.

    Args:
      name: what the message calls them.
      values: the vectors.
      field: the field of the spec that holds the largest norm.
      most: the largest norm.
      order: 1 or 2.
    """
    with np.errstate(over="ignore"):
        worst = np.max(np.linalg.norm(values, order, axis=-1))
    if worst > most * _SLACK:
        raise ValueError(
            f"{name} must have an L{order} norm of at most {field} = {most:g}, got {worst:g}; "
            f"scale or clip the vectors, or raise {field}."
        )


def check_scale(name: str, value) -> float:
    """Returns a bound on values rounded to float32, or raises unless float32 can scale by it."""
    scale = float(np.float32(check_real(name, value, low=0.0)))
    if not _SMALLEST <= scale <= _LARGEST:
        raise ValueError(
            f"{name} must be between {_SMALLEST:g} and {_LARGEST:g} so that float32 can scale "
            f"values by it, got {value!r}; change the unit of the values."
        )
    return scale


def unit_above(size: float) -> np.ndarray:
    """The smallest power of two that is not below `size`, float32[]."""
    return np.asarray(2.0 ** math.ceil(math.log2(size)), np.float32)


def into_interval(value, bound):
    """A number clamped to [-bound, bound]; NaN counts as 0."""
    return jnp.clip(jnp.nan_to_num(value.astype(jnp.float32)), -bound, bound)


def into_ball(value, radius):
    """Vectors (the last axis) of L2 norm above `radius` scaled down to it; NaN counts as 0.

    Entries beyond 1e15 radii count as that many.
    """
    far = np.float32(1e15)
    scaled = jnp.clip(jnp.nan_to_num(value.astype(jnp.float32)) / radius, -far, far)
    norm = jnp.sqrt(jnp.sum(scaled * scaled, axis=-1, keepdims=True))
    return scaled / jnp.maximum(norm, np.float32(1)) * radius

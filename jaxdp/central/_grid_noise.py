"""Gaussian noise in whole steps of a grid, for what a curator answers.

A float plus float noise tells the float in its last bits (Mironov 2012). So answers are rounded to
whole steps, and what is added to them are integers from tables of exact masses. The sum is private;
floats come after it.
"""

import abc
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int64

from .._contract import params
from .._x64 import compiled_in_float64, dot
from ..accounting import gaussian_delta, gaussian_sigma
from ..random import Count, NormalNoise, words

_STEPS = 2**19  # in a standard deviation of the noise, or a few more
MAX_SUM = 2**62
"""Answers stay below it, in steps, so that they and their noise fit 63 bits."""

_MOVED = 1.5  # steps per entry that rounding moves two neighbours apart, see `GaussianPrivacy`
_MOST_COST = 2.0**-4  # of sigma, for the grid
_LARGEST = 2.0**49  # steps; a product of floats below it is right to 1/16 of a step


def _table_delta(epsilon: float, num_entries: int) -> float:
    """What the distance of the noise from a rounded normal adds to delta."""
    distance = num_entries * NormalNoise.of(_STEPS).distance
    return (1 + math.exp(min(epsilon, 700.0))) * distance


@functools.lru_cache(maxsize=256)
def _calibrated_step(
    epsilon: float, delta: float, sensitivity: float, num_entries: int, moved: float
) -> float:
    """The step of the grid with the least private sigma.

    Args:
      epsilon: privacy parameter.
      delta: in (0, 1).
      sensitivity: of the answers, > 0.
      num_entries: d, of the noise.
      moved: steps by which rounding moves two neighbours apart; 0 for whole answers, which remain
        whole: then 1 is a multiple of the step.
    """
    table, steps = _table_delta(epsilon, num_entries), NormalNoise.of(_STEPS).steps
    if table > delta / 2:
        raise ValueError(
            f"delta must be at least {2 * table:.2g} for epsilon = {epsilon:g} and {num_entries} "
            f"entries of noise, whose tables have 63 bits, got {delta!r}; lower epsilon."
        )
    # sigma = unit (sensitivity + moved step), and sigma = steps step
    unit = gaussian_sigma(epsilon, delta - table, 1.0) * (1 + 1e-12)
    if unit * (moved or sensitivity) > _MOST_COST * steps:
        raise ValueError(
            f"epsilon must be larger for {num_entries} entries of noise and a sensitivity of "
            f"{sensitivity:g}, got {epsilon!r}: the grid of the noise is not fine enough."
        )
    if not moved:
        return 1 / math.floor(steps / (unit * sensitivity))
    step = unit * sensitivity / (steps - unit * moved)
    if not 2.0**-100 < step < 2.0**100:
        raise ValueError(
            f"sensitivity must be within 1e-20 and 1e20 or so, got {sensitivity!r}: change the "
            "unit of the answers."
        )
    # A number of float32, rounded up, is the same one inside of jit without x64.
    nearest = np.float32(step)
    return float(nearest if float(nearest) >= step else np.nextafter(nearest, np.float32(np.inf)))


class GaussianPrivacy(abc.ABC):
    """Base of the mechanisms that add Gaussian noise once; all else is post-processing.

    Answers in whole steps s get noise in whole steps: round(z / s), z normal with standard
    deviation sigma, about 2**19 s.

    Formal guarantees:
      * Rounding commutes with shifts by integers, so integers q plus the noise are distributed as
        `round(q + z / s)`: post-processing of `s q + z`. What holds for that, as a curve of
        (epsilon, delta) or as the rho = `|s q - s q'|**2 / (2 sigma**2)` of zero-concentrated
        differential privacy, holds for the release, up to the distance of the noise's tables from
        its law, which counts `1 + e**epsilon` times per entry in delta.
      * What must be hidden is the distance of *rounded* answers. Rounding moves each of the d
        entries of two neighbours by half a step at most, and what computes them in floats by 1/4
        (`to_steps`, and answers that are themselves right to 1/8): `|s q - s q'|` is at most
        `sensitivity + 1.5 s sqrt(d)`. With c = sigma / sensitivity of a plain Gaussian it costs a
        share of `2.9e-6 c sqrt(d)` of sigma: 0.4 % for 1,000 entries at epsilon = 0.1.
      * Answers that are integers, with s a fraction 1/u of them, lose nothing by rounding, and a
        share of at most 1/u of sigma by the choice of s.

    Attributes:
      epsilon: privacy parameter.
      delta: in (0, 1).
    """

    __slots__ = ()

    epsilon: float
    delta: float

    @property
    @abc.abstractmethod
    def sensitivity(self) -> float:
        """The largest Euclidean distance by which one user moves what is noised.

        With 0 there is no noise, and nothing to hide.
        """

    @property
    @abc.abstractmethod
    def num_entries(self) -> int:
        """d, the number of independent entries of the noise."""

    @property
    def _moved(self) -> float:
        """Steps by which rounding moves the answers of neighbours apart, beyond `sensitivity`."""
        return _MOVED * math.sqrt(self.num_entries)

    @property
    def step(self) -> float:
        """The step of the grid of the answers and of the noise; 0 where there is no noise."""
        if self.sensitivity == 0:
            return 0.0
        arguments = (self.epsilon, self.delta, self.sensitivity, self.num_entries, self._moved)
        return _calibrated_step(*arguments)

    @property
    def rounded_sensitivity(self) -> float:
        """A bound on the distance by which one user moves the rounded answers."""
        return self.sensitivity + self._moved * self.step

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise: the least that is private on its grid."""
        return NormalNoise.of(_STEPS).steps * self.step

    def exact_epsilon(self) -> float:
        """The epsilon at which `exact_delta()` holds: `epsilon` itself."""
        return self.epsilon

    def exact_delta(self, epsilon: float | None = None) -> float:
        """A proven delta at which the mechanism as built is (epsilon, delta)-private.

        The exact one of a normal with `sigma` and a distance of `rounded_sensitivity`, and what the
        tables of the noise add: `(1 + e**epsilon)` times their distance from a normal.

        Args:
          epsilon: >= 0; the mechanism's own for None.
        """
        if self.sensitivity == 0:
            return 0.0
        epsilon = self.epsilon if epsilon is None else epsilon
        normal = gaussian_delta(epsilon, self.rounded_sensitivity, self.sigma)
        return min(normal + _table_delta(epsilon, self.num_entries), 1.0)

    def noise_params(self) -> "GridNoise":
        """The params of the noise."""
        return GridNoise(NormalNoise.of(_STEPS), np.asarray(self.step))


@params
class GridNoise:
    """Draws normal noise in whole steps of a grid.

    Attributes:
      normal: its law.
      step: of the grid, in the unit of the answers.
    """

    normal: NormalNoise
    step: Float[Array | np.ndarray, ""]

    def draw(self, key: jax.Array, shape: tuple[int, ...]) -> Count:
        """Independent noise for every entry.

        Args:
          key: a stream key; it is turned into words here and must not be folded as well.
          shape: static.
        """
        size, levels = math.prod(shape), self.normal.levels
        each = words(key, Count.zeros(), size, 2 * levels, tiled=True)
        return Count.of(self.normal.draw(each[:levels], each[levels:])).reshape(shape)

    def values(self, steps: Count) -> Float64[Array, "..."]:
        """Whole steps in the unit of the answers; only inside an x64 block."""
        return steps.f64() * jnp.asarray(self.step).astype(jnp.float64)


def to_steps(answers: Float64[Array, "*s"], per_unit: Float64[Array, "*s"]) -> Count:
    """Answers rounded to whole steps, cut to 2**49 of them; only inside an x64 block.

    Args:
      answers: finite.
      per_unit: steps in a unit of each.
    """
    return Count.from_float(jnp.rint(jnp.clip(answers * per_unit, -_LARGEST, _LARGEST)))


def in_range(radius: float, step: float) -> bool:
    """Whether numbers of absolute value up to radius are rounded by `to_steps` without a cut."""
    return radius <= _LARGEST * step


def fixed_point(rows: Float64[np.ndarray, "l k"]) -> Count:
    """Rows in units of 2**-32, to the nearest, on the host."""
    return Count.of(np.rint(rows * 2.0**32).astype(np.int64))


@compiled_in_float64
def rounded_product(rows: Count, counts: Count) -> Count:
    """`rows @ counts`, rounded to the nearest integer in exact arithmetic; Count[l].

    Args:
      rows: Count[l, k], in units of 2**-32.
      counts: Count[k], >= 0, of a sum of at most `largest_total`.
    """
    users = to_int64(counts)
    # Each entry is hi 2**32 + (lo >> 16) 2**16 + (lo & 0xFFFF), and none of the three sums leaves
    # 63 bits for `largest_total` users.
    whole, high, low = (
        dot(piece.astype(jnp.int64), users)
        for piece in (rows.hi, rows.lo >> np.uint32(16), rows.lo & np.uint32(0xFFFF))
    )
    # + 2**15 before the last shift: to the nearest integer, halves up
    return from_int64(whole + ((high + (low >> 16) + 2**15) >> 16))


def largest_total(rows: Float64[np.ndarray, "l k"]) -> int:
    """The number of users up to which `rounded_product` fits its integers."""
    return int(MAX_SUM / max(np.abs(rows).max(initial=0.0) + 1, 2.0**17))


def to_int64(counts: Count) -> Int64[Array, "..."]:
    """The same integers; only inside an x64 block."""
    return (counts.hi.astype(jnp.int64) << 32) | counts.lo.astype(jnp.int64)


def from_int64(numbers: Int64[Array, "..."]) -> Count:
    """The inverse of `to_int64`."""
    low = (numbers & (2**32 - 1)).astype(jnp.uint32)
    return Count((numbers >> 32).astype(jnp.int32), low)

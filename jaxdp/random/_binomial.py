"""Exact binomial draws."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import ArrayLike

from .._spec import MAX_USERS, as_float64, check_key
from .._stored import stored
from .._x64 import compiled_in_float64
from ._count import Count
from ._log_pmf import correction, deviance, near_deviance
from ._rejection import UNDECIDED, Keys, draw_lanes


def binomial(key: jax.Array, n: ArrayLike | Count, p: ArrayLike) -> Count:
    """Binomial draws, for any number of trials up to 2**53.

    Pr[X = k] = C(n, k) p^k (1 - p)^(n - k), by transformed rejection (Hörmann's BTRS) where
    n min(p, 1 - p) >= 10 and by sequential search below.

    *Formal guarantees.* Exact in law up to float64: uniforms of 53 bits, and acceptance by
    log-probabilities that are right to 2e-12 apart from the rounding of n·p, which moves the law by
    1e-16·sqrt(n) standard deviations. The total-variation distance from Binomial(n, p) is below
    1e-11 for n <= 1e6, 1e-9 for n <= 1e12 and 1e-7 for n = 2**53. A draw depends on its own
    arguments and flat index only, not on its neighbours.

    *Cost.* 50 to 120 CPU-nanoseconds a draw in large arrays, 140 to 250 in arrays of 1,000: a
    squeeze decides four lanes of five, and workers make the attempts of the others.

    Edge cases:
      ================================================  ========================
      n = 0 or p = 0                                    0
      p = 1                                             n
      traced n < 0, or traced p outside [0, 1] or NaN   -1 (concrete ones raise)
      ================================================  ========================

    Args:
      key: a stream key; it is turned into words here and must not be folded as well.
      n: Count[...], or integers, in [0, 2**53].
      p: float[...] in [0, 1], broadcasts with `n`. Python floats and NumPy float64 keep their full
        precision in a 32-bit program; traced float64 needs a float64 block (`jaxdp._x64`).

    Returns:
      Count of the broadcast shape.

    Raises:
      ValueError: a concrete `n` or `p` is out of range.

    Example:
      >>> import jax
      >>> draws = binomial(jax.random.key(0), 10**12, [0.0, 0.3, 1.0])
      >>> abs(int(draws[1]) - 3 * 10**11) < 5 * 10**6
      True
      >>> int(draws[0]), int(draws[2]) == 10**12
      (0, True)

    References:
      Hörmann (1993), The generation of binomial random variates, algorithm BTRS.
    """
    return binomials([(key, n, p)])[0]


def binomials(draws: Sequence[tuple[jax.Array, ArrayLike | Count, ArrayLike]]) -> list[Count]:
    """Several arrays of binomials by one program: what `binomial` draws of each.

    A sampler takes most of a second to compile, one for all no more than one of them.

    Args:
      draws: (key, n, p) of each, as for `binomial`; all keys differ.

    Returns:
      Count of the broadcast shape of each.

    Raises:
      ValueError: as `binomial`.

    Example:
      >>> import jax
      >>> one, two = jax.random.split(jax.random.key(0))
      >>> [x.shape for x in binomials([(one, 10, [0.0, 0.3]), (two, 10**12, 1.0)])]
      [(2,), ()]
    """
    keys, trials, chances = [], [], []
    for key, n, p in draws:
        check_key(key)
        keys.append(key)
        trials.append(count_operand("n", n))
        chances.append(float_operand("p", p, high=1.0))
        check_broadcast(n=trials[-1], p=chances[-1])
    return _binomials(keys, trials, chances) if keys else []


@compiled_in_float64
def _binomials(keys: list[jax.Array], trials: list[Count], chances: list[jax.Array]) -> list[Count]:
    shapes, lanes = [], []
    for key, n, p in zip(keys, trials, chances, strict=True):
        shape = jnp.broadcast_shapes(n.shape, p.shape)
        n, p = jnp.broadcast_to(n.f64(), shape), jnp.broadcast_to(p.astype(jnp.float64), shape)
        # A key for each lane, unless it is the same for all.
        halves = (
            jnp.full(n.size if len(keys) > 1 else 1, half) for half in jax.random.key_data(key)
        )
        lanes.append((*halves, jnp.arange(n.size, dtype=jnp.uint32), n.ravel(), p.ravel()))
        shapes.append(shape)
    *halves, index, n, p = (jnp.concatenate(part) for part in zip(*lanes, strict=True))
    draws = Count.from_float(draw_binomial(tuple(halves), index, n, p))
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    return [
        draws[end - math.prod(shape) : end].reshape(*shape)
        for end, shape in zip(ends.tolist(), shapes, strict=True)
    ]


def count_operand(name: str, value: ArrayLike | Count) -> Count:
    """A Count, or integers, as a Count; concrete values are checked."""
    count = Count.of(value, name)
    if not isinstance(count.lo, Tracer):
        concrete = count.numpy()
        if np.any((concrete < 0) | (concrete > MAX_USERS)):
            raise ValueError(
                f"{name} must be in [0, 2**53], got values from {concrete.min()} to "
                f"{concrete.max()}; larger totals are not exact in float64."
            )
    return count


def check_broadcast(**operands: jax.Array | np.ndarray | Count) -> None:
    """Raises ValueError unless the shapes of some arguments, by name, broadcast together."""
    shapes = {name: operand.shape for name, operand in operands.items()}
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        said = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
        raise ValueError(f"{' and '.join(shapes)} must broadcast together, got {said}.") from None


def float_operand(name: str, value: ArrayLike, *, high: float) -> jax.Array | np.ndarray:
    """An array of floats; a concrete one is checked to be in [0, high], and becomes float64."""
    if isinstance(value, Tracer):
        return value
    value = as_float64(name, value)
    if not np.all((value >= 0) & (value <= high)):
        raise ValueError(f"{name} must be in [0, {high:g}], got {value}.")
    return value


@jax.jit
def draw_binomial(key: jax.Array | Keys, index: jax.Array, n: jax.Array, p: jax.Array) -> jax.Array:
    """Binomial draws as float64, inside a float64 block.

    Args:
      key: uint32[2], key data; or those of the lanes.
      index: uint32[...], the lane of each draw.
      n: float64[...], whole numbers.
      p: float64[...].

    Returns:
      float64[...]; -1 where `n` or `p` is out of range.
    """
    valid = (n >= 0) & (n <= MAX_USERS) & (p >= 0) & (p <= 1)
    # The last bit of a half, which many splits have, may differ from machine to machine.
    mirrored = p > 0.5 + 2.0**-44
    n = jnp.where(valid, n, 0.0)
    p = jnp.where(valid, jnp.where(mirrored, 1 - p, p), 0.0)
    x = draw_lanes(key, index, Law(n, p))
    return stored(jnp.where(valid, jnp.where(mirrored, n - x, x), -1.0))


class Law(NamedTuple):
    """Binomial(n, p) for p <= 1/2, or a rounding above it, as `_rejection.Law`."""

    n: jax.Array
    p: jax.Array

    def mean(self):
        return self.n * self.p

    def pmf_of_zero(self):
        return jnp.exp(self.n * jnp.log1p(-self.p))

    def ratio(self):
        odds = self.p / (1 - self.p)
        return lambda x: (self.n - x) / (x + 1) * odds

    def usual(self, rare):
        return Law(jnp.where(rare, 100.0, self.n), jnp.where(rare, 0.5, self.p))

    def squeeze(self, u, v):
        return _Hat.without_mode(self.n, self.p).squeeze(u, v)

    def hat(self):
        return _Hat.of(self.n, self.p)


class _Hat(NamedTuple):
    """Hörmann's table mountain hat over Binomial(n, p), for p <= 1/2 and n·p >= 10.

    Results are offsets from floor(n·p), which keep all their digits where n is large.
    """

    n: jax.Array
    p: jax.Array
    center: jax.Array  # floor(n p)
    fraction: jax.Array  # n p - floor(n p)
    slope: jax.Array  # a and b of the paper
    width: jax.Array
    scale: jax.Array  # alpha of the paper
    mode: jax.Array  # log pmf at the mode, up to the constant of `_log_pmf`

    @classmethod
    def of(cls, n: jax.Array, p: jax.Array) -> Self:
        hat = cls.without_mode(n, p)
        return hat._replace(mode=hat._log_pmf(jnp.floor(hat.fraction + p), near_deviance))

    @classmethod
    def without_mode(cls, n: jax.Array, p: jax.Array) -> Self:
        """What a squeeze needs: no logarithm of a probability."""
        center = jnp.floor(n * p)
        fraction = n * p - center
        deviation = jnp.sqrt(n * p * (1 - p))
        # Hörmann's constants for BTRS.
        width = 1.15 + 2.53 * deviation
        slope = -0.0873 + 0.0248 * width + 0.01 * p
        scale = (2.83 + 5.1 / width) * deviation
        return cls(n, p, center, fraction, slope, width, scale, jnp.zeros_like(n))

    def attempt(self, u, v):
        """(proposal, accept) with the exact condition."""
        offset, edge, height = self._propose(u, v)
        draw = self.center + offset
        inside = (draw >= 0) & (draw <= self.n)
        log_pmf = self._log_pmf(jnp.where(inside, offset, 0.0), deviance)
        # v alpha / (a / us**2 + b) <= pmf(draw) / pmf(mode), the exact test of BTRS.
        height = height * self.scale / (self.slope / (edge * edge) + self.width)
        return draw, inside & (jnp.log(height) <= log_pmf - self.mode)

    def squeeze(self, u, v):
        """The proposal where the exact condition surely holds, else `UNDECIDED`.

        Hörmann's box: away from the sides, and not high. In the limit of large n p the exact test
        holds everywhere in it with 0.00499 to spare between its logarithms (least where the
        distance from the sides is 0.195), and with more for smaller n p: so whatever the box
        accepts `attempt` accepts too. `tests/random/test_workers.py` looks for an exception.
        """
        offset, edge, height = self._propose(u, v)
        certain = (edge >= 0.07) & (height <= 0.92 - 4.2 / self.width)
        return jnp.where(certain, self.center + offset, UNDECIDED)

    def _propose(self, u, v):
        """The offset at a point of the unit square, its distance from the sides, and its height.

        u is centred on half a step and the height is in (0, 1]: neither distance nor height is 0.
        """
        u = (u - 0.5) + 2.0**-54
        edge = 0.5 - jnp.abs(u)
        offset = jnp.floor((2 * self.slope / edge + self.width) * u + (self.fraction + 0.5))
        return offset, edge, 1 - v

    def _log_pmf(self, offset, deviance):
        draw = self.center + offset
        gap = (offset - self.fraction) + (0.5 - self.p)
        q = 1 - self.p
        means = jnp.stack([self.n * self.p + self.p, self.n * q + q])
        distance = deviance(jnp.stack([gap, -gap]), means)
        rest = correction(jnp.stack([draw, self.n - draw]))
        return -(distance[0] + distance[1] + rest[0] + rest[1])

"""Exact hypergeometric draws, of two kinds and of many."""

from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import ArrayLike

from .._spec import MAX_USERS, check_key
from .._x64 import compiled_in_float64
from ._binomial import check_broadcast, count_operand
from ._count import Count
from ._log_pmf import correction, deviance, near_deviance
from ._rejection import UNDECIDED, draw_lanes
from ._splitting import first_lanes, split_binary


def hypergeometric(
    key: jax.Array, good: ArrayLike | Count, bad: ArrayLike | Count, draws: ArrayLike | Count
) -> Count:
    """The number of good ones among draws without replacement, for totals up to 2**53.

    Pr[X = k] = C(good, k) C(bad, draws - k) / C(good + bad, draws), by the ratio of uniforms (HRUA)
    where the rarer kind has a mean of 10 or more and by sequential search below.

    *Formal guarantees.* As for `binomial`: exact in law up to float64, total-variation distance
    below 1e-11 for good + bad <= 1e6, 1e-9 up to 1e12 and 1e-7 up to 2**53. The symmetries
    good - bad, drawn - left are used exactly, so the support is never left.

    Args:
      key: a stream key; it is turned into words here and must not be folded as well.
      good: Count[...], or integers >= 0.
      bad: Count[...], or integers >= 0, with good + bad <= 2**53.
      draws: Count[...], or integers in [0, good + bad]. All three broadcast together.

    Returns:
      Count of the broadcast shape; -1 where traced arguments are out of range.

    Raises:
      ValueError: a concrete argument is out of range.

    Example:
      >>> import jax
      >>> x = hypergeometric(jax.random.key(0), [5, 10**12], [0, 10**12], [3, 10**12])
      >>> int(x[0]), abs(int(x[1]) - 5 * 10**11) < 5 * 10**6
      (3, True)

    References:
      Stadlober (1990), The ratio of uniforms approach for generating discrete random variates.
    """
    check_key(key)
    good, bad = count_operand("good", good), count_operand("bad", bad)
    draws = count_operand("draws", draws)
    check_broadcast(good=good, bad=bad, draws=draws)
    _check_draws(draws, "good + bad", good, bad)
    return _hypergeometric(key, good, bad, draws)


@compiled_in_float64
def _hypergeometric(key, good, bad, draws):
    good, bad, draws = good.f64(), bad.f64(), draws.f64()
    shape = jnp.broadcast_shapes(good.shape, bad.shape, draws.shape)
    good, bad, draws = (jnp.broadcast_to(x, shape) for x in (good, bad, draws))
    index = jnp.arange(good.size, dtype=jnp.uint32).reshape(shape)
    return Count.from_float(draw_hypergeometric(jax.random.key_data(key), index, good, bad, draws))


def multivariate_hypergeometric(
    key: jax.Array, counts: ArrayLike | Count, draws: ArrayLike | Count
) -> Count:
    """Number of each kind among draws without replacement, for totals up to 2**53.

    Pr[X = x] = C(c_1, x_1) ... C(c_k, x_k) / C(c_1 + ... + c_k, draws), by binary splitting: k - 1
    `hypergeometric` draws in ceil(log2 k) vectorised levels.

    *Formal guarantees.* Cells add up to `draws` and stay within `counts` exactly; the law is that
    of `hypergeometric`.

    Args:
      key: a stream key; it is turned into words here and must not be folded as well.
      counts: Count[..., k], or integers >= 0, with a sum of at most 2**53.
      draws: Count[...], or integers in [0, sum of counts]; broadcasts with the leading axes.

    Returns:
      Count[..., k]; -1 in every cell where traced arguments are out of range.

    Raises:
      ValueError: a concrete argument is out of range.

    Example:
      >>> import jax
      >>> half = multivariate_hypergeometric(jax.random.key(0), [10, 0, 1], 11)
      >>> half.numpy().tolist()
      [10, 0, 1]

    References:
      Devroye (1986), Non-uniform random variate generation, Section XI.1.4.
    """
    check_key(key)
    counts, draws = count_operand("counts", counts), count_operand("draws", draws)
    if counts.ndim == 0 or counts.shape[-1] == 0:
        raise ValueError(f"counts must have an axis of kinds, got shape {counts.shape}.")
    check_broadcast(draws=draws, counts=counts[..., 0])
    _check_draws(draws, "the sum of counts", counts)
    return _multivariate(key, counts, draws)


@compiled_in_float64
def _multivariate(key, counts, draws):
    counts, draws = counts.f64(), draws.f64()
    batch = jnp.broadcast_shapes(draws.shape, counts.shape[:-1])
    draws = jnp.broadcast_to(draws, batch)
    counts = jnp.broadcast_to(counts, (*batch, counts.shape[-1]))
    return Count.from_float(_draw_multivariate(jax.random.key_data(key), counts, draws))


def _check_draws(draws: Count, name: str, *kinds: Count) -> None:
    """Raises ValueError if concrete draws exceed the sum of two kinds, or of all in a row."""
    if any(isinstance(x, Tracer) for x in jax.tree.leaves((draws, kinds))):
        return
    numbers = [kind.numpy() for kind in kinds]
    rows = numbers[0] if len(kinds) == 1 else np.stack(np.broadcast_arrays(*numbers), axis=-1)
    total, rounded = rows.sum(axis=-1), rows.sum(axis=-1, dtype=np.float64)
    if np.any((total > MAX_USERS) | (rounded > 2 * MAX_USERS)):  # int64 may have wrapped
        raise ValueError(f"{name} must be at most 2**53, got {np.max(rounded):.0f}.")
    if np.any(draws.numpy() > total):
        raise ValueError(f"draws must be at most {name} = {total}, got {draws.numpy()}.")


def _is_total(some: jax.Array, others: jax.Array) -> jax.Array:
    """Whether some + others is a number of users: 2**53 + 1 would round to 2**53."""
    return (some >= 0) & (others >= 0) & (some <= MAX_USERS - others)


@jax.jit
def _draw_multivariate(key, counts, draws):
    def split(index, drawn, left, right):
        return draw_hypergeometric(key, index, left, right, drawn)

    some, others = counts[..., 1:].sum(-1), counts[..., 0]
    valid = _is_total(some, others) & (draws >= 0) & (draws <= some + others)
    valid = valid & jnp.all(counts >= 0, axis=-1)
    first = first_lanes(draws, counts.shape[-1])
    return jnp.where(valid[..., None], split_binary(split, first, draws, counts), -1.0)


@jax.jit
def draw_hypergeometric(
    key: jax.Array, index: jax.Array, good: jax.Array, bad: jax.Array, draws: jax.Array
) -> jax.Array:
    """Hypergeometric draws as float64, inside a float64 block.

    Args:
      key: uint32[2], key data.
      index: uint32[...], the lane of each draw.
      good: float64[...], whole numbers, as the next two.
      bad: float64[...].
      draws: float64[...].

    Returns:
      float64[...]; -1 where an argument is out of range.
    """
    valid = _is_total(good, bad) & (draws >= 0) & (draws <= good + bad)
    good, bad, draws = (jnp.where(valid, x, 0.0) for x in (good, bad, draws))
    total = good + bad
    # By symmetry, count the rarer kind in the smaller of what is drawn and what is left.
    rarer, sample = jnp.minimum(good, bad), jnp.minimum(draws, total - draws)
    x = draw_lanes(key, index, Law(total, rarer, sample))
    x = jnp.where(draws > sample, rarer - x, x)
    x = jnp.where(good > rarer, draws - x, x)
    return jnp.where(valid, x, -1.0)


class Law(NamedTuple):
    """The number of the rarer kind, of at most half of the total, in a sample of at most half.

    It is a `_rejection.Law`.
    """

    total: jax.Array
    rarer: jax.Array
    sample: jax.Array

    def mean(self):
        return self.rarer * (self.sample / jnp.maximum(self.total, 1.0))

    def pmf_of_zero(self):
        """(total - rarer)! (total - sample)! / (total! (total - rarer - sample)!)."""
        few, many = jnp.minimum(self.rarer, self.sample), jnp.maximum(self.rarer, self.sample)
        total, z = self.total, self.total + 0.5
        log_pmf = few * jnp.log1p(-many / z) + deviance(-few, z) - deviance(-few, z - many)
        log_pmf = log_pmf + correction(total - few) + correction(total - many)
        return jnp.exp(log_pmf - correction(total) - correction(total - few - many))

    def ratio(self):
        rarer, sample, rest = self.rarer, self.sample, self.total - self.rarer - self.sample
        return lambda x: (rarer - x) * (sample - x) / ((x + 1) * (rest + x + 1))

    def usual(self, rare):
        half = jnp.where(rare, 100.0, self.rarer), jnp.where(rare, 100.0, self.sample)
        return Law(jnp.where(rare, 200.0, self.total), *half)

    def squeeze(self, u, v):
        """Nothing: every test that Stadlober makes first needs the probability too."""
        return jnp.full_like(u, UNDECIDED)

    def hat(self):
        return _Hat.of(self.total, self.rarer, self.sample)


class _Hat(NamedTuple):
    """The ratio-of-uniforms rectangle over the hypergeometric law, for means of 10 and more.

    Results are offsets from floor(mean), which keep all their digits where the mean is large.
    """

    total: jax.Array
    rarer: jax.Array
    sample: jax.Array
    share: jax.Array  # sample / total
    center: jax.Array  # floor(mean)
    fraction: jax.Array  # mean - floor(mean)
    width: jax.Array
    mode: jax.Array  # log pmf at the mode, up to the constant of `_log_pmf`

    @classmethod
    def of(cls, total: jax.Array, rarer: jax.Array, sample: jax.Array) -> Self:
        share = sample / total
        mean = rarer * share
        center = jnp.floor(mean)
        variance = mean * (1 - share) * ((total - rarer) / (total - 1))
        # Stadlober's width of the rectangle, 2 sqrt(2 / e) s + 3 - 2 sqrt(3 / e), s**2 = Var + 1/2.
        width = 2 * np.sqrt(2 / np.e) * jnp.sqrt(variance + 0.5) + (3 - 2 * np.sqrt(3 / np.e))
        zero = jnp.zeros_like(total)
        hat = cls(total, rarer, sample, share, center, mean - center, width, zero)
        # The mode of the law.
        top = jnp.floor((sample + 1) * ((rarer + 1) / (total + 2)))
        return hat._replace(mode=hat._log_pmf(top - center, near_deviance))

    def attempt(self, u, v):
        """(proposal, accept) of one point of the rectangle, whose x is in (0, 1]."""
        x, y = 1 - u, v
        offset = jnp.floor(self.width * ((y - 0.5) / x) + (self.fraction + 0.5))
        draw = self.center + offset
        inside = (draw >= 0) & (draw <= jnp.minimum(self.rarer, self.sample))
        log_pmf = self._log_pmf(jnp.where(inside, offset, 0.0), deviance)
        # A ratio of uniforms y / x is accepted where x**2 <= pmf(draw) / pmf(mode).
        return draw, inside & (2 * jnp.log(x) <= log_pmf - self.mode)

    def _log_pmf(self, offset, deviance):
        """A product of two binomial probabilities of parameter `share`, given their sum."""
        draw = self.center + offset
        p, q = self.share, 1 - self.share
        others = self.total - self.rarer
        gap = offset - self.fraction
        half = 0.5 - p
        gaps = jnp.stack([gap + half, -gap - half, half - gap, gap - half])
        rarer, others_1 = self.rarer + 1, others + 1
        distance = deviance(gaps, jnp.stack([rarer * p, rarer * q, others_1 * p, others_1 * q]))
        cells = [draw, self.rarer - draw, self.sample - draw, others - self.sample + draw]
        rest = correction(jnp.stack(cells))
        return -(sum(distance) + sum(rest))

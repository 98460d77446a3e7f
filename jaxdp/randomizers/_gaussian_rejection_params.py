"""What runs inside jit for Bassily's Gaussian rejection sampling."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr, ndtri

from jaxdp_kernels.standard_normal import standard_normal

from .._x64 import compiled_in_float64
from ..random import Count, binomial, multinomial
from ..random._gamma import normal
from ..random._rejection import uniforms
from ._gaussian_rejection_law import Pieces, clipped_pieces, truncated_pieces
from ._mean import SumParams, into_ball, over_rows

WORDS = 2.0**32
MOST = 2**32 - 2**8
"""The largest float32 below 2**32: as many words keep a report at most."""
_LANES = 2**8  # of a block of `sample_tally`, small since trials may run side by side


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GaussianRejectionParams(SumParams):
    """The params of `GaussianRejection`: a pytree.

    Attributes:
      slope: float32[], radius / sigma.
      level: float32[], log A - slope**2 / 2 of the repaired variant.
      bounds: float32[2], the least and the most words that keep a report of the repaired variant.
      epsilon: float32[], of the printed variant.
      radius: float32[], the largest norm.
      gain: float32[], what a kept y is multiplied by in the estimate.
      unit: float32[], the power of two in which sums are kept.
      dim: d, static.
      variant: static.
    """

    slope: jax.Array | np.ndarray
    level: jax.Array | np.ndarray
    bounds: jax.Array | np.ndarray
    epsilon: jax.Array | np.ndarray
    radius: jax.Array | np.ndarray
    gain: jax.Array | np.ndarray
    unit: jax.Array | np.ndarray
    dim: int = dataclasses.field(metadata={"static": True})
    variant: str = dataclasses.field(default="repaired", metadata={"static": True})

    @property
    def _pure(self) -> bool:
        return self.variant == "repaired"

    @property
    def num_words(self) -> int:
        """One word for each coordinate, one to keep or drop, and one for the padding."""
        return self.dim + (2 if self._pure else 1)

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[num_words].
          value: float32[dim] in the ball; scaled into it, NaN counts as 0.

        Returns:
          float32[dim + 1]: y and 1 where kept, zeros where dropped; always finite.
        """
        unit = into_ball(value, self.radius) / self.radius
        z = standard_normal(words[0 : self.dim])
        along = jnp.sum(z * unit, axis=-1)
        square = jnp.minimum(jnp.sum(unit * unit, axis=-1), np.float32(1))
        if self._pure:
            along = along + jnp.sqrt(1 - square) * standard_normal(words[self.dim + 1])
            log_keep = jnp.minimum(self.level + self.slope * along, np.float32(0))
            keep = jnp.clip(jnp.exp(log_keep) * np.float32(WORDS), self.bounds[0], self.bounds[1])
        else:
            log_ratio = self.slope * along - np.float32(0.5) * self.slope * self.slope * square
            good = jnp.abs(log_ratio) <= np.float32(0.25) * self.epsilon
            ratio = jnp.exp(jnp.where(good, log_ratio, np.float32(0))) * np.float32(WORDS / 2)
            keep = jnp.where(good, jnp.minimum(ratio, np.float32(MOST)), np.float32(0))
        kept = words[self.dim] < keep.astype(jnp.uint32)
        y = jnp.where(kept, z * (self.radius / self.slope), np.float32(0))
        return jnp.concatenate([y, kept.astype(jnp.float32)[None]])

    def tally(self, reports, mask):
        """The sum of the kept reports in units, how many there are, and the number of users.

        Args:
          reports: float32[n, dim + 1].
          mask: bool[n].

        Returns:
          {"sum": float32[dim], "active": int32[], "users": int32[]}.
        """
        sums = super().tally(reports[:, :-1], mask)
        kept = mask & (reports[:, -1] > 0)
        return {**sums, "active": jnp.sum(kept, dtype=jnp.int32)}

    @compiled_in_float64
    def estimate(self, tally):
        """The estimated mean of the users' vectors, float[dim]."""
        size = tally["users"] if self._pure else tally["active"]
        unit, gain = (jnp.asarray(x).astype(jnp.float64) for x in (self.unit, self.gain))
        return tally["sum"].f64() * (unit * gain) / jnp.maximum(size.f64(), 1.0)

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law: one number a user and one vector a value.

        How many users of each value are kept is binomial; their sum along the value is that of as
        many draws of truncated normals, and across it a Gaussian vector.

        Args:
          key: a key; it is folded.
          counts: Count[k], the number of users with each value.
          inputs: float32[k, dim], the values.

        Returns:
          {"sum": Fixed[dim], "active": Count[], "users": Count[]}.
        """
        unit = into_ball(jnp.asarray(inputs), self.radius).astype(jnp.float64)
        unit = unit / jnp.asarray(self.radius).astype(jnp.float64)
        norm = jnp.minimum(jnp.sqrt(jnp.sum(unit * unit, axis=1)), 1.0)
        slope = jnp.asarray(self.slope).astype(jnp.float64)
        if self._pure:
            unit = jnp.concatenate([unit, jnp.sqrt(1 - norm * norm)[:, None]], axis=1)
            least, most = (jnp.asarray(self.bounds).astype(jnp.float64) / WORDS)[jnp.arange(2)]
            level = jnp.asarray(self.level).astype(jnp.float64)
            one = clipped_pieces(jnp, level, slope, least, most)
            pieces = Pieces(*(jnp.broadcast_to(x, (unit.shape[0], 3)) for x in one))
        else:
            unit = unit / jnp.maximum(norm, 1e-30)[:, None]
            epsilon = jnp.asarray(self.epsilon).astype(jnp.float64)
            pieces = truncated_pieces(jnp, slope * norm, epsilon)
        masses = pieces.masses(jnp, ndtr)
        kept = binomial(jax.random.fold_in(key, 0), counts, jnp.sum(masses, axis=1))
        drawn = multinomial(jax.random.fold_in(key, 1), kept, masses)
        along = _sums(jax.random.fold_in(key, 2), drawn, pieces)
        noise = normal(jax.random.fold_in(key, 3), unit.shape)
        root = jnp.sqrt(kept.f64())
        across = along - root * jnp.sum(noise * unit, axis=1)
        total = over_rows(across, unit) + over_rows(root, noise)
        sigma = jnp.asarray(self.radius).astype(jnp.float64) / slope
        sums = self.fixed_sum(self.in_units(sigma * total[: self.dim]), counts.sum())
        return {**sums, "active": kept.sum()}

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly: a number a user and a vector a value."""
        return 150.0 * num_users + (1000.0 + 100.0 * self.dim) * num_bins


def _sums(key, counts: Count, pieces: Pieces):
    """Sums of truncated normals, of each piece as many as its count; float64[k] over pieces.

    One draw after the other, in blocks, so that memory does not depend on the counts.
    """
    flat = Pieces(*(x.reshape(-1) for x in pieces))
    ends = jnp.cumsum(counts.f64().reshape(-1))
    last = ends.shape[0] - 1
    a, b = flat.low - flat.mean, flat.high - flat.mean
    flip = a + b > 0  # draw in the lower tail, where probabilities keep their digits
    below, above = ndtr(jnp.where(flip, -b, a)), ndtr(jnp.where(flip, -a, b))
    lane = jnp.arange(_LANES, dtype=jnp.uint32)
    data = jax.random.key_data(key)

    def block(state):
        number, begin, sums = state
        u = uniforms(data, lane, number).ravel() + 2.0**-54
        user = begin + jnp.arange(2 * _LANES, dtype=jnp.float64)
        piece = jnp.minimum(jnp.searchsorted(ends, user, side="right"), last).astype(jnp.int32)
        low, high = below[piece], above[piece]
        x = ndtri(jnp.clip(low + u * (high - low), low, high))
        draw = flat.mean[piece] + jnp.where(flip[piece], -x, x)
        draw = jnp.where(user < ends[-1], draw, 0.0)
        sums = sums + jax.ops.segment_sum(draw, piece, last + 1)
        return number + np.uint32(1), begin + 2 * _LANES, sums

    start = (jnp.zeros((), jnp.uint32), jnp.zeros(()), jnp.zeros_like(ends))
    sums = lax.while_loop(lambda state: state[1] < ends[-1], block, start)[2]
    return jnp.sum(sums.reshape(pieces.mean.shape), axis=1)

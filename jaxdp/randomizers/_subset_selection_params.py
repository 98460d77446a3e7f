"""What runs inside jit for subset selection."""

import dataclasses
import functools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._x64 import compiled_in_float64
from ..random import Count, binomial, multinomial, multivariate_hypergeometric
from ._support import SupportParams


def num_lanes(num_values: int) -> int:
    """Words of a packed set."""
    return -(-num_values // 32)


def _moduli(num_values: int, size: int) -> np.ndarray:
    """What each word but the first picks out of: Floyd's algorithm on the k - 1 others."""
    return np.arange(num_values - size + 1, num_values, dtype=np.uint32)


@functools.lru_cache(maxsize=1024)
def speaking(num_values: int, size: int, word_bits: int) -> Fraction:
    """The probability that every word but the first is below its largest multiple."""
    space = 2**word_bits
    below = (space - space % int(m) for m in _moduli(num_values, size))
    return Fraction(math.prod(below), space ** (size - 1))


@functools.partial(jax.jit, static_argnames=("num_values", "word_bits"))
def _draw_set(own, first, words, value, num_values: int, word_bits: int):
    """The packed set of one user: its own value or a first other one, and one for each word."""

    def other(label):
        """The values other than the own one, as 0 .. k - 2."""
        label = label.astype(jnp.int32)
        return label + (label >= value).astype(jnp.int32)

    def add(chosen, xs):
        pick, last = xs
        taken = (chosen[pick >> 5] & _bit(pick)) != 0
        pick = jnp.where(taken, last, pick)
        return chosen.at[pick >> 5].add(_bit(pick), mode="promise_in_bounds"), None

    moduli = _moduli(num_values, words.shape[0] + 1)
    start = jnp.where(own, value, other(first))
    chosen = jnp.zeros(num_lanes(num_values), jnp.uint32).at[start >> 5].set(_bit(start))
    lasts = other(jnp.asarray(moduli - np.uint32(1)))
    chosen, _ = lax.scan(add, chosen, (other(words % moduli), lasts))
    limits = 2**word_bits - 2**word_bits % moduli.astype(np.int64)
    speaks = jnp.all(words <= (limits - 1).astype(np.uint32))
    return jnp.where(speaks, chosen, np.uint32(0))


def _bit(value):
    return np.uint32(1) << (value & 31).astype(jnp.uint32)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SubsetSelectionParams(SupportParams):
    """The params of `SubsetSelection`: a pytree.

    Attributes:
      keep: uint32[], the own value is in the set when the first word is below `keep`.
      num_values: k, static.
      subset_size: d, static.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    keep: jax.Array | np.ndarray
    num_values: int = dataclasses.field(metadata={"static": True})
    subset_size: int = dataclasses.field(metadata={"static": True})
    word_bits: int = dataclasses.field(default=32, metadata={"static": True})

    @property
    def num_words(self) -> int:
        """One word for each member of the set."""
        return self.subset_size

    @property
    def _speaking(self) -> float:
        return float(speaking(self.num_values, self.subset_size, self.word_bits))

    def _inclusion(self):
        return jnp.asarray(self.keep).astype(jnp.float64) / 2.0**self.word_bits

    def probabilities(self):
        """The realised (p, q) as float64; only inside an x64 block."""
        own, speaking = self._inclusion(), self._speaking
        return speaking * own, speaking * (self.subset_size - own) / (self.num_values - 1)

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[d].
          value: int32[] in [0, k); clamped into it.

        Returns:
          uint32[ceil(k / 32)], the set: v is in it where bit `v % 32` of entry `v // 32` is 1.
        """
        k = self.num_values
        value = jnp.clip(value.astype(jnp.int32), 0, k - 1)
        own = words[0] < self.keep
        first = (words[0] - self.keep) % np.uint32(k - self.subset_size)
        return _draw_set(own, first, words[1 : self.subset_size], value, k, self.word_bits)

    def tally(self, reports, mask):
        """The number of masked sets that hold each value, and of masked reports.

        Args:
          reports: uint32[n, ceil(k / 32)].
          mask: bool[n].

        Returns:
          {"support": int32[k], "users": int32[]}.
        """
        kept = jnp.where(mask[:, None], reports, np.uint32(0))

        def count(bit):
            return jnp.sum((kept >> bit) & np.uint32(1), axis=0, dtype=jnp.uint32)

        bits = jnp.arange(min(32, self.num_values), dtype=jnp.uint32)
        support = lax.map(count, bits).T.reshape(-1)[: self.num_values].astype(jnp.int32)
        return {"support": support, "users": jnp.sum(mask, dtype=jnp.int32)}

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law, in k sequential steps of 3d draws.

        A set is either uniform over all sets of d, or it holds the own value *for certain*. The
        values are visited in order, and all that matters of a user is how many values its set still
        has to take: `free[r]` users take r of the values left; `bound[r]` users hold their own
        value for certain, have not met it, and take r others besides. At each value its own certain
        users are drawn from `bound` without replacement, for what a user has taken does not
        depend on where its own value lies ahead; then the others take it, each by chance.
        Of users drawn from a distribution the engine draws the counts first: their reports are one
        multinomial, but with a cell for each of the (k choose d) sets.

        Args:
          key: a key; it is folded.
          counts: Count[k], the users' values.
          inputs: unused; the values are the bins.

        Returns:
          {"support": Count[k], "users": Count[]}.
        """
        del inputs
        k, d = self.num_values, self.subset_size
        certain = (self._inclusion() * k - d) / (k - d)
        shares = jnp.stack([certain, 1 - certain, 1 / self._speaking - jnp.ones_like(certain)])
        kinds = multinomial(jax.random.fold_in(key, 0), counts, shares)
        owners, others = kinds[:, 0], kinds[:, 1]
        keys = jax.random.split(jax.random.fold_in(key, 1), (k, 2))
        left = jnp.arange(d + 1, dtype=jnp.float64)

        def put(row, users):
            return Count(*(jnp.zeros(d + 1, x.dtype).at[row].set(x) for x in (users.hi, users.lo)))

        def visit(state, xs):
            free, bound = state
            value, owner, keys = xs
            met = multivariate_hypergeometric(keys[0], bound, owner)
            bound = bound - met
            users = jax.tree.map(lambda *x: jnp.stack(x), free, bound)
            ahead = k - value - jnp.arange(2, dtype=jnp.float64)  # but for one's own value
            chance = jnp.minimum(left[None] / jnp.maximum(ahead, 1.0)[:, None], 1.0)
            takes = binomial(keys[1], users, chance)
            after = (
                users - takes + jax.tree.map(lambda x: jnp.pad(x[:, 1:], ((0, 0), (0, 1))), takes)
            )
            return (after[0] + met, after[1]), takes.sum() + owner

        start = put(d, others.sum()), put(d - 1, owners.sum())
        _, support = lax.scan(visit, start, (jnp.arange(k, dtype=jnp.float64), owners, keys))
        return {"support": support, "users": counts.sum()}

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly."""
        del num_users, num_bins
        return self.num_values * (3e4 + 2800.0 * self.subset_size)

"""The params of TwoReport."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64
from ..linear._encoded import VectorParams
from ..random import Count, Fixed, part_of, user_words
from ._exact import Form


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TwoReportParams(VectorParams):
    """The params of `TwoReport`: a pytree.

    Attributes:
      vector: the params of the randomizer of vectors, for half of the budget.
      left: float32[k, l], the first vector of each value.
      right: float32[k, l], the second.
      scale: float64[], of the inner product of the means.
      constant: float64[], what is added to it.
      form: "u" or "v", static.
    """

    vector: Any
    left: jax.Array | np.ndarray
    right: jax.Array | np.ndarray
    scale: jax.Array | np.ndarray
    constant: jax.Array | np.ndarray
    form: Form = dataclasses.field(metadata={"static": True})

    @property
    def num_words(self) -> int:
        """Twice those of the randomizer."""
        return 2 * self.vector.num_words

    def from_bits(self, words, value):
        """One user's two reports, independent of each other.

        Args:
          words: uint32[num_words].
          value: int32[] in [0, k).

        Returns:
          float32[2, ..].
        """
        half = self.vector.num_words
        first, second = part_of(words, 0, half), part_of(words, half, half)
        return jnp.stack(
            [
                self.vector.from_bits(first, jnp.asarray(self.left)[value]),
                self.vector.from_bits(second, jnp.asarray(self.right)[value]),
            ]
        )

    def privatize(self, key, value):
        """One user's two reports, their words drawn from `key`; see `from_bits`."""
        words = user_words(key, 0, self.num_words)[:]
        return self.from_bits(words, jnp.asarray(value, jnp.int32))

    def tally(self, reports, mask):
        """The sums of the masked reports, for the U-form that of their products, and the users.

        Args:
          reports: float32[n, 2, ..].
          mask: bool[n].

        Returns:
          {"sum": float32[2, l], "users": int32[]}, in units of the randomizer, and "products":
          float32[l].
        """
        kept = jnp.where(mask[:, None, None], self.vector.summands(reports), np.float32(0))
        tally = {"sum": jnp.sum(kept, axis=0), "users": jnp.sum(mask, dtype=jnp.int32)}
        if self.form == "u":
            tally["products"] = jnp.sum(kept[:, 0] * kept[:, 1], axis=0)
        return tally

    @compiled_in_float64
    def estimate(self, tally):
        """The estimated statistic, float[].

        Args:
          tally: as `tally` returns it, of Fixed and Count.
        """
        scale, constant, unit = (
            jnp.asarray(x).astype(jnp.float64)
            for x in (self.scale, self.constant, self.vector.unit)
        )
        n, total = tally["users"].f64(), tally["sum"].f64()
        product = total[..., 0, :] * total[..., 1, :] / n
        pairs = n
        if self.form == "u":
            product, pairs = product - tally["products"].f64() / n, n - 1
        return scale * unit**2 * jnp.sum(product, axis=-1) / pairs + constant


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TwoReportLawParams(TwoReportParams):
    """`TwoReportParams` where the law of the tally is known."""

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law: a few scalars for a user, vectors for a value.

        Args:
          key: a key; it is folded.
          counts: Count[k], the number of users with each value.
          inputs: unused; values are bins.

        Returns:
          As `tally`, of Fixed and Count.
        """
        del inputs
        first, second = (
            self.vector.sample_tally(jax.random.fold_in(key, number), counts, jnp.asarray(side))
            for number, side in enumerate((self.left, self.right))
        )
        pair = (first["sum"].units, second["sum"].units)
        units = jax.tree.map(lambda *limbs: jnp.stack(limbs), *pair)
        return {"sum": Fixed(units, first["sum"].bits), "users": first["users"]}

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly."""
        return 2 * self.vector.tally_cost(num_users, num_bins)

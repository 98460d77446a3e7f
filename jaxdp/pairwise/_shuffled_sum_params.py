"""The params of ShuffledSum."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64, dot
from ..random import Count, standard_normal, user_words

_DIGITS, _DIGIT = 4, 7  # how many digits a message has, and the bits of one


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ShuffledSumParams:
    """The params of `ShuffledSum`: a pytree.

    Attributes:
      columns: int32[k, l], the vectors in steps of the grid, below 2**16.
      noise: float32[], the deviation of a user's noise before it is rounded, in steps.
      variance: float64[], of a user's noise, in units.
      steps: float64[], of the grid, for a unit.
      scales: float64[l], the quadratic form of the mean vector.
      linear: float64[l].
      constant: float64[].
      diagonal: float64[], of W, where it is constant.
      form: "u" or "v", static.
    """

    columns: jax.Array | np.ndarray
    noise: jax.Array | np.ndarray
    variance: jax.Array | np.ndarray
    steps: jax.Array | np.ndarray
    scales: jax.Array | np.ndarray
    linear: jax.Array | np.ndarray
    constant: jax.Array | np.ndarray
    diagonal: jax.Array | np.ndarray
    form: str = dataclasses.field(metadata={"static": True})

    lazy_words = False

    @property
    def num_words(self) -> int:
        """One for each coordinate."""
        return self.columns.shape[-1]

    def from_bits(self, words, value):
        """The sum of one user's messages.

        Args:
          words: uint32[l].
          value: int32[] in [0, k).

        Returns:
          int32[l].
        """
        noise = jnp.rint(jnp.asarray(self.noise) * standard_normal(words)).astype(jnp.int32)
        return jnp.asarray(self.columns)[value] + noise

    def privatize(self, key, value):
        """The sum of one user's messages, its words drawn from `key`; see `from_bits`."""
        words = user_words(key, 0, self.num_words)[:]
        return self.from_bits(words, jnp.asarray(value, jnp.int32))

    def tally(self, reports, mask):
        """The sum of the masked users' messages, and how many users.

        Messages are below 2**27. Their digits to base 2**7 are added up one by one, so that the
        sums of 2**24 users fit.

        Returns:
          {"digits": int32[4, l], the lowest first and the sign in the last; "users": int32[]}.
        """
        kept = jnp.where(mask[:, None], reports, np.int32(0))
        low = [(kept >> np.int32(_DIGIT * i)) & np.int32(2**_DIGIT - 1) for i in range(_DIGITS - 1)]
        digits = jnp.stack([*low, kept >> np.int32(_DIGIT * (_DIGITS - 1))])
        return {
            "digits": jnp.sum(digits, axis=1, dtype=jnp.int32),
            "users": jnp.sum(mask, dtype=jnp.int32),
        }

    @compiled_in_float64
    def estimate(self, tally):
        """The estimated statistic, float[].

        Args:
          tally: {"digits": Count[4, l], "users": Count[]}.
        """
        scales, linear, constant, diagonal, variance, steps = (
            jnp.asarray(x).astype(jnp.float64)
            for x in (
                self.scales,
                self.linear,
                self.constant,
                self.diagonal,
                self.variance,
                self.steps,
            )
        )
        n = tally["users"].f64()
        places = 2.0 ** (_DIGIT * np.arange(_DIGITS))
        mean = dot(tally["digits"].f64().T, jnp.asarray(places)) / (steps * n)
        found = dot(scales, mean**2) - variance * jnp.sum(scales) / n
        found = found + 2 * dot(linear, mean) + constant
        return found if self.form == "v" else (n * found - diagonal) / (n - 1)

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, in O(k l) steps for any number of users.

        The sum of the rounded noises is drawn as one rounded Gaussian number of their variance.

        Args:
          key: a key; it is folded.
          counts: Count[k], the number of users with each value.
          inputs: unused; values are bins.
        """
        del inputs
        users = counts.sum()
        deviation = jnp.asarray(self.noise).astype(jnp.float64)
        total = users.f64() * (deviation**2 + 1 / 12)
        words = user_words(jax.random.fold_in(key, 0), 0, self.num_words)[:]
        normal = standard_normal(words).astype(jnp.float64)
        noise = jnp.rint(jnp.sqrt(jnp.maximum(total - 1 / 12, 0.0)) * normal)
        exact = dot(jnp.asarray(self.columns).astype(jnp.float64).T, counts.f64())
        rest = jnp.zeros((_DIGITS - 1, self.num_words))  # the sum is its own lowest digit
        digits = Count.from_float(jnp.concatenate([(exact + noise)[None], rest]))
        return {"digits": digits, "users": users}

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly."""
        del num_users
        return 1000.0 + 2.0 * num_bins * self.num_words

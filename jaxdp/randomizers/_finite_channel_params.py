"""The functions of `FiniteChannel` that run inside jit."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64, dot
from ..random import Count, multinomial
from ._params import IndependentUsersParams

NO_DECODER = (
    "table does not determine the counts: its rows are linearly dependent, up to the rounding to "
    "words. Only linear combinations can be estimated, by a linear protocol with this channel."
)


def split(matrix: np.ndarray) -> np.ndarray:
    """float64[...] as the sum of two float32, float32[2, ...]: jax has no other 48 bits."""
    high = matrix.astype(np.float32)
    return np.stack([high, (matrix - high).astype(np.float32)])


def joined(halves: jax.Array | np.ndarray) -> jax.Array:
    """The matrix that `split` was given, to 48 bits; only inside an x64 block."""
    wide = jnp.asarray(halves).astype(jnp.float64)
    return wide[0] + wide[1]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FiniteChannelParams(IndependentUsersParams):
    """The params of `FiniteChannel`: a pytree.

    Attributes:
      thresholds: uint32[k, m - 1], the cumulative weights of each row but for the last.
      decoder: float32[2, k, m], the sum of which makes counts of reports; None if there is none.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    thresholds: jax.Array | np.ndarray
    decoder: jax.Array | np.ndarray | None
    word_bits: int = dataclasses.field(default=32, metadata={"static": True})

    iid_stream: ClassVar[int] = 1

    @property
    def num_words(self) -> int:
        """One word per user."""
        return 1

    @property
    def num_reports(self) -> int:
        """The table's columns."""
        return self.thresholds.shape[-1] + 1

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[1].
          value: int32[] in [0, k); clamped into it.

        Returns:
          int32[] in [0, num_reports).
        """
        k, last = self.thresholds.shape
        value = jnp.clip(value.astype(jnp.int32), 0, k - 1)
        flat = jnp.asarray(self.thresholds).reshape(-1)
        report = jnp.int32(0)
        for step in (2**i for i in reversed(range(last.bit_length()))):
            next_report = report + step
            inside = jnp.minimum(next_report, last)
            passed = words[0] >= flat[value * last + inside - 1]
            report = jnp.where((next_report <= last) & passed, next_report, report)
        return report

    def law(self) -> jax.Array:
        """The realised channel, float64[k, m], exact; only inside an x64 block."""
        cumulative = jnp.asarray(self.thresholds).astype(jnp.float64)
        padded = jnp.pad(cumulative, ((0, 0), (1, 0)))
        following = jnp.pad(cumulative, ((0, 0), (0, 1)), constant_values=2.0**self.word_bits)
        return (following - padded) / 2.0**self.word_bits

    @compiled_in_float64
    def estimate(self, tally: Count):
        """Unbiased counts of the users' values, float[k].

        Raises:
          ValueError: the channel does not determine them.
        """
        if self.decoder is None:
            raise ValueError(NO_DECODER)
        return dot(joined(self.decoder), tally.f64())

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None) -> Count:
        """A tally drawn at once, exact in law: the sum of a multinomial for each value.

        Args:
          key: a key; it is folded.
          counts: Count[k], the users' values.
          inputs: unused; the values are the bins.

        Returns:
          Count[m].
        """
        del inputs
        return multinomial(jax.random.fold_in(key, 0), counts, self.law()).sum(0)

    def report_law(self, law):
        return dot(self.law().T, law)

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly: it draws k (m - 1) binomials."""
        del num_users
        return 400.0 * num_bins * self.num_reports

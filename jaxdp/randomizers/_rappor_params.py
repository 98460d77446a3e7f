"""What runs inside jit for RAPPOR."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64
from ..random import Count, binomial, multinomial
from ._params import RandomizerParams


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RapporParams(RandomizerParams):
    """The params of `Rappor`: a pytree.

    Attributes:
      law: uint32[3], words below which a permanent bit is flipped, a 0 is sent as 1, and a 1 is.
      positions: int32[C, k, h], the bits that each value sets in each cohort.
      solution_high: float32[k, k], the matrix of the least-squares decoder, with the next one.
      solution_low: float32[k, k], what the first one lacks.
      num_bits: B, static.
      num_rounds: R, static.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    law: jax.Array | np.ndarray
    positions: jax.Array | np.ndarray
    solution_high: jax.Array | np.ndarray
    solution_low: jax.Array | np.ndarray
    num_bits: int = dataclasses.field(metadata={"static": True})
    num_rounds: int = dataclasses.field(metadata={"static": True})
    word_bits: int = dataclasses.field(default=32, metadata={"static": True})

    @property
    def num_words(self) -> int:
        """One word for the cohort, one for each permanent bit and one for each reported bit."""
        return 1 + (1 + self.num_rounds) * self.num_bits

    @property
    def _num_cohorts(self) -> int:
        return self.positions.shape[-3]

    def from_bits(self, words, value):
        """One user's reports of all rounds.

        Args:
          words: uint32[1 + (1 + R) B].
          value: int32[] in [0, k); clamped into it.

        Returns:
          uint8[1 + R B]: the cohort, then the bits of each round.
        """
        b = self.num_bits
        value = jnp.clip(value.astype(jnp.int32), 0, self.positions.shape[-2] - 1)
        cohort = words[0] & np.uint32(self._num_cohorts - 1)
        mine = jnp.asarray(self.positions)[cohort.astype(jnp.int32), value]
        bits = jnp.any(mine[:, None] == jnp.arange(b, dtype=jnp.int32)[None], axis=0)
        permanent = bits ^ (words[1 : 1 + b] < self.law[0])
        threshold = jnp.where(permanent, self.law[2], self.law[1])
        sent = words[1 + b : self.num_words].reshape(self.num_rounds, b) < threshold[None]
        return jnp.concatenate([cohort[None].astype(jnp.uint8), sent.astype(jnp.uint8).ravel()])

    def tally(self, reports, mask):
        """The masked users of each cohort, and the ones of each bit over all rounds.

        Args:
          reports: uint8[n, 1 + R B].
          mask: bool[n].

        Returns:
          {"ones": int32[C, B], "users": int32[C]}.
        """
        n = reports.shape[0]
        ones = reports[:, 1:].reshape(n, self.num_rounds, self.num_bits)
        ones = jnp.where(mask[:, None], jnp.sum(ones, axis=1, dtype=jnp.int32), 0)
        both = jnp.concatenate([ones, mask[:, None].astype(jnp.int32)], axis=1)
        cohort = reports[:, 0].astype(jnp.int32)
        sums = jax.ops.segment_sum(both, cohort, self._num_cohorts)
        return {"ones": sums[:, :-1], "users": sums[:, -1]}

    def _chances(self):
        """The realised f / 2, p and q as float64; only inside an x64 block."""
        return jnp.asarray(self.law).astype(jnp.float64) / 2.0**self.word_bits

    @compiled_in_float64
    def estimate(self, tally):
        """Unbiased counts of the users' values, float[k].

        Args:
          tally: {"ones": Count[C, B], "users": Count[C]}.
        """
        flip, p, q = self._chances()
        ones = tally["ones"].f64() / self.num_rounds
        base = p + flip * (q - p)  # of a report's bit to be 1 where the filter's is 0
        bits = (ones - tally["users"].f64()[..., None] * base) / ((1 - 2 * flip) * (q - p))
        cohorts = jnp.arange(self._num_cohorts, dtype=jnp.int32)[:, None, None]
        seen = bits[..., cohorts, jnp.asarray(self.positions)].sum(axis=(-3, -1))
        solution = self.solution_high, self.solution_low
        high, low = (jnp.asarray(x).astype(jnp.float64) for x in solution)
        matrix = (high + low).reshape((1,) * (seen.ndim - 1) + high.shape)
        return jnp.sum(matrix * seen[..., None, :], axis=-1)

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law, in C (k + 4 B) draws.

        Given the cohorts' members, bits are independent of each other: of the users of a cohort
        those with a permanent 1 are counted, then the ones that these and the others send.
        Of users drawn from a distribution the engine draws the counts first: the bits of a cohort
        are dependent then, and one multinomial would have a cell for each of 2**B filters.

        Args:
          key: a key; it is folded.
          counts: Count[k], the users' values.
          inputs: unused; the values are the bins.

        Returns:
          {"ones": Count[C, B], "users": Count[C]}.
        """
        del inputs
        flip, p, q = self._chances()
        keys = [jax.random.fold_in(key, i) for i in range(5)]
        members = multinomial(keys[0], counts, jnp.ones(self._num_cohorts, jnp.float64))
        members = jax.tree.map(jnp.transpose, members)
        users = members.sum(axis=1)
        positions = jnp.asarray(self.positions)
        row = (
            positions
            + jnp.arange(self._num_cohorts, dtype=jnp.int32)[:, None, None] * self.num_bits
        )
        spread = jnp.broadcast_to(members.f64()[:, :, None], positions.shape)
        have = jax.ops.segment_sum(spread.ravel(), row.ravel(), self._num_cohorts * self.num_bits)
        have = Count.from_float(have.reshape(self._num_cohorts, self.num_bits))
        everyone = Count.zeros(have.shape) + users[:, None]
        permanent = binomial(keys[1], have, 1 - flip) + binomial(keys[2], everyone - have, flip)
        rounds = np.uint32(self.num_rounds)
        sent = binomial(keys[3], permanent.times(rounds), q)
        sent = sent + binomial(keys[4], (everyone - permanent).times(rounds), p)
        return {"ones": sent, "users": users}

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly: it draws C (k + 4 B) binomials."""
        del num_users
        return 200.0 * self._num_cohorts * (num_bins + 4 * self.num_bits)

"""A frequency oracle that jaxdp does not have, written from its public names."""

import functools
import math
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp.engine import (
    Independent,
    TallyLaw,
    Tree,
    Words,
    Work,
    checks,
    field,
    params,
    spec,
    static,
)
from jaxdp.random import Count, multinomial
from jaxdp.randomizers import CountedRound, SupportOracle, TableNoise, exp_lower, log_upper


@spec
class PaleyResponse(SupportOracle["PaleyParams"]):
    """Report a place on a circle, more often one at a square distance from your value.

    The circle has P places, P the least prime of the form `4 t + 3` with `P >= num_values`, and D
    is the set of the `d = (P - 1) / 2` nonzero squares modulo P. A report y supports the value v if
    `y - v mod P` is in D. Each value is supported by d reports, and any two values share
    `(d - 1) / 2` of them, since D is a difference set (Paley).

    One word decides: each report that supports the user's value has `high` of the 2**32 words, and
    each other one `low`. As d and P - d have no common factor there are whole numbers with
    `d high + (P - d) low = 2**32`; of these, `low` is the least one with
    `high / low <= e**epsilon`.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly: `high / low <= e**epsilon`, in integers. Where `low` is
        small, for many values and a large epsilon, a part of epsilon is not used.
      * Estimate: without bias, `(N_v - n q) / (p - q)`, N_v the number of reports that support v.
      * Variance: exact, see `SupportOracle`.

    Args:
      num_values: k, from 2 to 4096.
      epsilon: privacy parameter, > 0.

    Raises:
      ValueError: an argument is out of range, or one word is too coarse for epsilon.

    References:
      Paley (1933), On orthogonal matrices; Park, Nam, Lee (2023), Exactly optimal and
      communication-efficient private estimation via block designs.
    """

    num_values: int = field(checks.Integer(2, 4096))
    epsilon: float = field(checks.Epsilon())

    def validate(self) -> None:
        """Raises ValueError unless a word can be shared so."""
        self.shares(32)

    @property
    def num_places(self) -> int:
        """P, the number of distinct reports."""
        return _prime(self.num_values)

    def shares(self, word_bits: int) -> tuple[int, int]:
        """How many words a report has that supports the user's value, and one that does not."""
        bits = checks.Integer(1, 32)("word_bits", word_bits)
        words, d, others = 2**bits, self.num_places // 2, self.num_places // 2 + 1
        low = math.ceil(words / (d * exp_lower(self.epsilon) + others))
        low += (words - low) % d  # P - d = d + 1, so `low` must be 2**32 modulo d
        high = (words - others * low) // d
        if not high > low:
            raise ValueError(
                f"epsilon must be larger for num_values = {self.num_values}, got {self.epsilon!r}: "
                f"a word of {bits} bits is too coarse."
            )
        return high, low

    def build(self, word_bits: int = 32) -> "PaleyParams":
        """What users and the analyst run; with words of 8 bits it can be enumerated."""
        high, low = self.shares(word_bits)
        shares = np.array([high, low], np.uint32)
        return PaleyParams(shares, _order(self.num_places), self.num_values, word_bits)

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """`ln(high / low)`, rounded up."""
        return log_upper(Fraction(*self.shares(word_bits)))

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """(p, q): how often a report supports the user's value, and any other given one."""
        (high, low), d = self.shares(word_bits), self.num_places // 2
        both = (d - 1) // 2  # reports that support two given values
        words = 2**word_bits
        return Fraction(d * high, words), Fraction(both * high + (d - both) * low, words)

    def channel(self, word_bits: int = 32, inputs: Any = None) -> list[list[Fraction]]:
        """The exact probabilities of all reports, a row for each input."""
        high, low = (Fraction(share, 2**word_bits) for share in self.shares(word_bits))
        rows = range(self.num_values) if inputs is None else np.asarray(inputs).tolist()
        supported = _supports(self.num_places, self.num_values)
        return [[high if yes else low for yes in supported[v].tolist()] for v in rows]

    def noise(self) -> TableNoise:
        """The moments of one user's estimate, by listing its reports."""
        supported = _supports(self.num_places, self.num_values)
        high, low = self.shares(32)
        p, q = map(float, self.probabilities())
        return TableNoise(np.where(supported, high, low) / 2.0**32, (supported - q) / (p - q))

    def covariance(self, value: int) -> np.ndarray:
        """The covariance of one user's estimate, float64[k, k]."""
        value = checks.Integer(0, self.num_values - 1)("value", value)
        table, unit = self.noise(), np.eye(self.num_values)[value]
        return (table.decoder * table.law[value]) @ table.decoder.T - np.outer(unit, unit)


@params
class PaleyParams(CountedRound):
    """What a user of `PaleyResponse` runs, and what the analyst makes of the counted reports.

    Attributes:
      shares: uint32[2], words of a report that supports the user's value, and of another one.
      order: int32[P], the squares, then the other distances.
      num_values: k, static.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    shares: jax.Array | np.ndarray
    order: jax.Array | np.ndarray
    num_values: int = static()
    word_bits: int = static(default=32)

    @property
    def num_words(self) -> int:
        """One word for each user."""
        return 1

    @property
    def num_reports(self) -> int:
        """P; `CountedRound` tallies how often each of them is reported."""
        return self.order.shape[0]

    def from_bits(self, words: Words, value: jax.Array, /) -> jax.Array:
        """One user's report; values out of the domain are moved into it."""
        high, low = self.shares[0], self.shares[1]
        d = self.num_reports // 2
        border = high * np.uint32(d)  # words below it lead to a square
        far = np.uint32(d) + (words[0] - border) // low
        index = jnp.where(words[0] < border, words[0] // high, far)
        value = jnp.clip(value, 0, self.num_values - 1)
        return (value + jnp.asarray(self.order)[index]) % np.int32(self.num_reports)

    def supported(self) -> jax.Array:
        """Which values each report supports, bool[k, P]."""
        places = jnp.arange(self.num_reports, dtype=jnp.int32)[None, :]
        values = jnp.arange(self.num_values, dtype=jnp.int32)[:, None]
        squares = jnp.asarray(self.order)[: self.num_reports // 2]
        is_square = jnp.zeros(self.num_reports, bool).at[squares].set(True)
        return is_square[(places - values) % np.int32(self.num_reports)]

    def estimate(self, outcome: Count, /) -> jax.Array:
        """Unbiased counts of the users' values, float[k]."""
        default = jnp.result_type(float)  # float32, unless the caller's program is in float64
        with jax.enable_x64(True):
            share = jnp.asarray(self.shares).astype(jnp.float64) / 2.0**self.word_bits
            d = self.num_reports // 2
            both = (d - 1) // 2
            p, q = d * share[0], both * share[0] + (d - both) * share[1]
            reports = outcome.f64()
            # A sum of products, which jax.vmap may batch in a 32-bit program; a matmul may not.
            support = jnp.sum(jnp.where(self.supported(), reports[None, :], 0.0), axis=1)
            return ((support - jnp.sum(reports) * q) / (p - q)).astype(default)

    @property
    def law(self) -> TallyLaw[Count]:
        """Draws the tally at once: one multinomial for each value, or one for random users."""

        def draw(key: jax.Array, counts: Count, inputs: Tree) -> Count:
            del inputs  # values are bins
            with jax.enable_x64(True):
                return multinomial(jax.random.fold_in(key, 0), counts, self._weights()).sum(axis=0)

        def draw_independent(key: jax.Array, users: Independent) -> Count:
            with jax.enable_x64(True):
                bins = users.weights.f64()
                mixed = jnp.sum((bins / jnp.sum(bins))[:, None] * self._weights(), axis=0)
                return multinomial(jax.random.fold_in(key, 1), users.size, mixed)

        def cost(work: Work) -> float:
            return work.draws(self.num_values * self.num_reports)

        return TallyLaw(draw, cost, draw_independent)

    def _weights(self) -> jax.Array:
        """The words of each report for each value, float64[k, P]; only in 64-bit mode."""
        high, low = jnp.asarray(self.shares).astype(jnp.float64)
        return jnp.where(self.supported(), high, low)


@functools.cache
def _prime(least: int) -> int:
    """The least prime of the form 4 t + 3 that is at least `least`."""
    candidate = least + (3 - least) % 4
    while any(candidate % divisor == 0 for divisor in range(3, math.isqrt(candidate) + 1, 2)):
        candidate += 4
    return candidate


@functools.cache
def _order(prime: int) -> np.ndarray:
    """The nonzero squares modulo a prime, then 0 and the non-squares; int32[prime]."""
    everything = np.arange(prime)
    squares = np.unique(everything[1:] ** 2 % prime)
    return np.append(squares, np.setdiff1d(everything, squares)).astype(np.int32)


@functools.cache
def _supports(prime: int, num_values: int) -> np.ndarray:
    """Which reports support each value, bool[num_values, prime]."""
    is_square = np.isin(np.arange(prime), _order(prime)[: prime // 2])
    return is_square[(np.arange(prime) - np.arange(num_values)[:, None]) % prime]

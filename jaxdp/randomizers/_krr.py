"""k-ary randomized response."""

import dataclasses
import math
from fractions import Fraction
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from .._checks import Epsilon, Integer
from .._contract import Padded, Words, field, params, spec, static
from .._x64 import compiled_in_float64
from ..accounting import PairLaw
from ..random import Count
from ._count_noise import TableNoise
from ._exact import exp_lower, log_upper
from ._mixture import MixtureRound
from ._pair_laws import set_pair_law, set_patterns
from ._params import padded_bins
from ._randomizer import check_word_bits, listed_rows
from ._support import SupportOracle, table_noise

MAX_VALUES = 2**30


@spec
class KRR(SupportOracle):
    """k-ary randomized response: report your value, or now and then any other one.

    `Pr[report = y | x] = p` if `y = x` and `q` otherwise, with `p + (k - 1) q = 1`.

    One word decides: below a threshold the user reports the truth, and the other words are shared
    evenly by the other values. The builder takes the smallest `m` with
    `(2**32 - (k - 1) m) / m <= e**epsilon`; then `q = m / 2**32` and `p = 1 - (k - 1) q` hold
    exactly, for every pair of values. The granularity of a word loses about
    `k**2 / 2**32` of epsilon.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly: `p / q <= e**epsilon` in rational arithmetic;
        `exact_epsilon()` is what is realised. It holds for every int32 input, since values outside
        the domain are clamped into it.
      * Estimate: `(N_v - n q) / (p - q)` counts the users with value v without bias, N_v being the
        number of reports v.
      * Variance, exact for a fixed data set with counts c_v:
        `(c_v p (1 - p) + (n - c_v) q (1 - q)) / (p - q)**2`.

    Edge cases:
      ==================================  =======================================================
      epsilon above `ln(2**32 - k + 1)`   ValueError: one word of 32 bits cannot realise it
      epsilon below about `k**2 / 2**32`  ValueError: p and q would be the same multiple of 2**-32
      value outside the domain            ValueError from a Population; the params clamp it
      ==================================  =======================================================

    Args:
      num_values: k, the size of the domain {0, .., k-1}; 2 to 2**30.
      epsilon: privacy parameter, > 0.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> import jaxdp
      >>> krr = jaxdp.randomizers.KRR(num_values=4, epsilon=1.0)
      >>> krr.exact_epsilon() <= 1.0
      True
      >>> krr.variance([600, 300, 100, 0]).round(2).tolist()
      [2296.44, 1947.25, 1714.46, 1598.07]

    References:
      Warner (1965); Kairouz, Bonawitz, Ramage (2016), Discrete distribution estimation under local
      privacy; Bell, Bellet, Gascón, Kulkarni (2020), equation (9), whose symbol for the probability
      of the truth lacks the `beta / k` of drawing it by chance.
    """

    num_values: int = field(Integer(2, MAX_VALUES))
    epsilon: float = field(Epsilon())

    def validate(self) -> None:
        """Raises ValueError where a word cannot realise epsilon."""
        self._other(32)

    def _other(self, word_bits: int) -> int:
        """The number of the 2**word_bits words that lead to each value but the user's."""
        word_bits = check_word_bits(word_bits)
        space, k = 2**word_bits, self.num_values
        highest = math.log(space - k + 1) if space >= k else -math.inf
        if self.epsilon > highest:
            raise ValueError(
                f"epsilon must be at most {highest:.6g} for num_values = {k}, got "
                f"{self.epsilon!r}: a word of {word_bits} bits has no smaller probability than "
                f"2**-{word_bits}."
            )
        # (2**w - (k - 1) m) / m <= e**epsilon, solved for m; a lower bound on e**epsilon is safe.
        other = math.ceil(space / (exp_lower(self.epsilon) + k - 1))
        if other * k >= space:
            raise ValueError(
                f"epsilon must be at least about {math.log1p(k * k / space):.3g} for num_values = "
                f"{k}, got {self.epsilon!r}: the probabilities of the truth and of a lie round to "
                f"the same multiple of 2**-{word_bits}."
            )
        return other

    def build(self, word_bits: int = 32) -> "KRRParams":
        """The params; `word_bits=8` makes a twin whose 256 words can be enumerated."""
        threshold = 2**word_bits - (self.num_values - 1) * self._other(word_bits)
        return KRRParams(np.asarray(threshold, np.uint32), self.num_values, word_bits)

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """Exact probabilities (p, q) that the report is the user's value, and another given one."""
        other, space = self._other(word_bits), 2**word_bits
        return 1 - Fraction((self.num_values - 1) * other, space), Fraction(other, space)

    def joint_support(self) -> tuple[Fraction, Fraction]:
        """Returns (0, 0), since a report supports one value."""
        return Fraction(0), Fraction(0)

    def channel(
        self, word_bits: int = 32, inputs: ArrayLike | None = None
    ) -> list[list[Fraction]] | None:
        """The exact `Pr[report = y | x]`, row x of the inputs (of all values if None), column y."""
        p, q = self.probabilities(word_bits)
        k = self.num_values
        rows = listed_rows(k, k, inputs)
        return None if rows is None else [[p if x == y else q for y in range(k)] for x in rows]

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """One kind: reports are the first value, the second one, a third one, or another."""
        k = self.num_values
        p, q = (float(k * x) for x in self.probabilities())
        return (set_pair_law(set_patterns(k, 1), p, q),) if k > 2 else None

    def _shuffled_channel(self) -> list[list[Fraction]] | None:
        """The channel of few values: more is proven of it, for few users, than of `pair_laws`."""
        return self._small_channel()

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter ln(p / q), rounded up; at most `epsilon`."""
        p, q = self.probabilities(word_bits)
        return log_upper(p / q)

    def noise(self) -> TableNoise:
        """The moments of the noise, from the table of the k reports."""
        return table_noise(self.build(), self.num_values)


@params
class KRRParams(MixtureRound):
    """The params of `KRR`: a pytree.

    Attributes:
      threshold: uint32[], a user tells the truth when its word is below it.
      num_values: k, static.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    threshold: jax.Array | np.ndarray
    num_values: int = static()
    word_bits: int = static(default=32)

    independent_stream: ClassVar[int] = 2

    @property
    def num_words(self) -> int:
        """One word per user."""
        return 1

    @property
    def num_reports(self) -> int:
        """Number of distinct reports, `k`."""
        return self.num_values

    def from_bits(self, words: Words, value: jax.Array, /) -> jax.Array:
        """One user's report, int32[] in [0, k); a value outside the domain is clamped into it."""
        k = self.num_values
        value = jnp.clip(value.astype(jnp.int32), 0, k - 1)
        # How far round the domain from the value; below the threshold it is not used.
        step = (words[0] - self.threshold) % np.uint32(k - 1)  # 2**32 - threshold is a multiple
        other = value + 1 + step.astype(jnp.int32)
        other = jnp.where(other >= k, other - k, other)
        return jnp.where(words[0] < self.threshold, value, other)

    def probabilities(self) -> tuple[jax.Array, jax.Array]:
        """The realised (p, q) as float64, exact; only inside an x64 block."""
        space = 2.0**self.word_bits
        threshold = jnp.asarray(self.threshold).astype(jnp.float64)
        return threshold / space, (space - threshold) / ((self._size - 1) * space)

    @property
    def _size(self) -> float | jax.Array:
        """Number of values, `k`."""
        return float(self.num_values)

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> jax.Array:
        """Unbiased counts of the users' values, float[k]: `(N_v - n q) / (p - q)`."""
        p, q = self.probabilities()
        reports = outcome.f64()
        return (reports - jnp.sum(reports, axis=-1, keepdims=True) * q) / (p - q)

    @property
    def set_size(self) -> int:
        """The set of a value is the value."""
        return 1

    def set_probability(self) -> jax.Array:
        """With probability `p - q` a report is the value for certain, else uniform."""
        p, q = self.probabilities()
        return p - q

    def members(self, values: jax.Array) -> jax.Array:
        """The value itself."""
        return values[:, None]

    @property
    def padded(self) -> Padded[Count] | None:
        """The params of the next power of two of values, of which k is a leaf."""
        bins = padded_bins(self.num_values)
        if bins is None:
            return None
        size = np.asarray(self.num_values, np.float64)
        round = PaddedKRRParams(self.threshold, bins, self.word_bits, size=size)
        return Padded(round, lambda tally: tally[..., : self.num_values])

    def report_law(self, law: jax.Array) -> jax.Array:
        p, q = self.probabilities()
        return q + (p - q) * law

    @property
    def transform_cost(self) -> float:
        return 2.0 * self.num_values

    def over_reports(self, numbers: jax.Array) -> jax.Array:
        p, q = self.probabilities()
        return q * jnp.sum(numbers) + (p - q) * numbers


@params
class PaddedKRRParams(KRRParams):
    """`KRRParams` of fewer values than `num_values`, for tallies that are drawn at once.

    Attributes:
      size: float64[], k.
    """

    size: jax.Array | np.ndarray = dataclasses.field(kw_only=True)

    @property
    def _size(self) -> jax.Array:
        return jnp.asarray(self.size)

    def report_weights(self) -> jax.Array:
        """1 for each of the k reports, 0 for what fills them up."""
        report = jnp.arange(self.num_values, dtype=jnp.int32).astype(jnp.float64)
        return (report < self._size).astype(jnp.float64)

    def from_bits(self, words: Words, value: jax.Array, /) -> jax.Array:
        """Not defined: this draws tallies."""
        raise NotImplementedError("padded params draw tallies, and make no reports.")

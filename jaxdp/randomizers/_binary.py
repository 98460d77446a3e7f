"""One-bit response for a bounded number."""

import dataclasses
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import check_epsilon, check_int, check_real
from .._x64 import compiled_in_float64
from ..random import Count, binomial
from ._exact import exp_lower, log_upper
from ._mean import MeanRandomizer, check_interval
from ._params import CountedParams
from ._randomizer import check_word_bits


@dataclasses.dataclass(frozen=True, slots=True)
class BinaryResponse(MeanRandomizer):
    """Duchi, Jordan and Wainwright's one-bit response for a number in [-bound, bound].

    `Pr[report = 1 | x] = 1/2 + x / (2 B)`, else the report is 0; a report stands for +B or -B,
    where `B = c bound` and `c = (e**epsilon + 1) / (e**epsilon - 1)`. The estimate is the mean.

    One word decides: it is below `2**31 + round(scale x)`, where `scale` is as large as float32
    allows while the ratio of the extreme probabilities is at most e**epsilon. `B` is
    `2**31 / scale`, so the realised channel and its decoder agree.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly, for every float32 input: values outside the range are
        clamped, NaN counts as 0.
      * Bias: none where `scale x` is an integer and a float32, as at 0. Otherwise its rounding to
        these moves x by at most `2**-24 |x| + bound 2**-31 c`.
      * Variance, exact for fixed x: `(B**2 - x**2)` for one report; `sum (B**2 - x_i**2) / n**2`
        for the mean.

    Edge cases:
      ==========================  ==============================================================
      epsilon above about 17.3    ValueError: a float32 threshold has 24 bits
      epsilon below about 1e-6    ValueError: `scale x` would be rounded too coarsely
      ==========================  ==============================================================

    Args:
      epsilon: privacy parameter, > 0.
      bound: the largest absolute value, > 0; rounded to float32.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> import jaxdp
      >>> bit = jaxdp.randomizers.BinaryResponse(epsilon=1.0)
      >>> round(bit.worst_case_variance(num_users=1), 3)
      4.683

    References:
      Duchi, Jordan, Wainwright (2018), Minimax optimal procedures for locally private estimation,
      section 4.1; Bassily (2019), Algorithm 6.
    """

    epsilon: float
    bound: float = 1.0

    def __post_init__(self):
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        bound = float(np.float32(check_real("bound", self.bound, low=0.0)))
        tiny = float(np.finfo(np.float32).tiny)
        if not tiny * 2**31 <= bound <= float(np.finfo(np.float32).max) / 2**31:
            raise ValueError(
                f"bound must be between 1e-28 and 1e29 so that float32 can scale it, got "
                f"{self.bound!r}; change the unit of the values."
            )
        object.__setattr__(self, "bound", bound)
        self._limit(32)

    def _limit(self, word_bits: int) -> int:
        """The number of words by which the threshold moves at most from one half of them."""
        word_bits = check_word_bits(word_bits)
        half = 2 ** (word_bits - 1)
        e = exp_lower(self.epsilon)
        limit = math.floor(half * (e - 1) / (e + 1))
        excess = max(limit.bit_length() - 24, 0)
        limit = (limit >> excess) << excess
        lowest = 2**10 if word_bits == 32 else 1
        if limit < lowest:
            raise ValueError(
                f"epsilon must be at least about {2 * lowest / half:.3g}, got {self.epsilon!r}: "
                f"in words of {word_bits} bits the two reports would be equally likely, or nearly."
            )
        highest = math.log(2**25 - 1)
        if word_bits == 32 and self.epsilon > highest:
            raise ValueError(
                f"epsilon must be at most {highest:.6g}, got {self.epsilon!r}: a float32 threshold "
                "has 24 bits."
            )
        return limit

    def _scale(self, word_bits: int) -> np.float32:
        """The largest float32 whose product with `bound` rounds to at most the limit."""
        limit, bound = np.float32(self._limit(word_bits)), np.float32(self.bound)
        scale = np.float32(limit / bound)
        while np.float32(scale * bound) > limit:
            scale = np.nextafter(scale, np.float32(0))
        return scale

    def _edge(self, word_bits: int) -> int:
        """The words by which an input of `bound` moves the threshold: the most that any does.

        Where the limit is not a multiple of `bound` in float32, it is a little less than the limit.
        """
        return int(np.rint(self._scale(word_bits) * np.float32(self.bound)))

    def build(self, word_bits: int = 32) -> "BinaryResponseParams":
        """The params; `word_bits=8` makes a twin whose 256 words can be enumerated."""
        return BinaryResponseParams(
            np.asarray(self._scale(word_bits)),
            np.asarray(self._edge(word_bits), np.int32),
            word_bits,
        )

    def _shift(self, inputs, word_bits: int) -> np.ndarray:
        """The words by which each input moves the threshold, exactly as `from_bits` computes it."""
        edge = self._edge(word_bits)
        with np.errstate(over="ignore"):  # infinite is beyond the edge, as in float32 numbers
            numbers = np.nan_to_num(np.asarray(inputs).astype(np.float32))
            moved = np.rint(numbers * self._scale(word_bits))
        return np.clip(moved, -edge, edge).astype(np.int64)

    def channel(self, word_bits: int = 32, inputs=None) -> list[list[Fraction]]:
        """The exact probabilities of the reports 0 and 1 for given inputs.

        Args:
          word_bits: bits of a word.
          inputs: float32[m]; -bound, 0 and bound when None. Those outside the range have the law of
            its ends, and NaN that of 0, as in the params.

        Returns:
          m rows of two Fractions.
        """
        inputs = (-self.bound, 0.0, self.bound) if inputs is None else inputs
        half = 2 ** (word_bits - 1)
        plus = [Fraction(half + int(s), 2 * half) for s in self._shift(inputs, word_bits)]
        return [[1 - p, p] for p in plus]

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, rounded up: the log-ratio of the extreme thresholds."""
        half, edge = 2 ** (word_bits - 1), self._edge(word_bits)
        return log_upper(Fraction(half + edge, half - edge))

    @property
    def value_shape(self) -> tuple[int, ...]:
        """()."""
        return ()

    @property
    def magnitude(self) -> float:
        """B, the absolute value that a report stands for."""
        return 2.0**31 / float(self._scale(32))

    def moments(self, value) -> tuple[np.ndarray, np.ndarray]:
        """The mean of one report, which is the value up to its rounding, and its variance."""
        mean = self._shift(self.check_value(value), 32) / 2.0**31 * self.magnitude
        return mean, self.magnitude**2 - mean**2

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The exact mean squared error of the estimated mean, float64[].

        Args:
          counts: int[k], the number of users with each input.
          inputs: float[k], the inputs; needed, since the bins alone say nothing of them.
        """
        counts, inputs = self.check_inputs(counts, inputs)
        mean, spread = self.moments(inputs)
        bias = np.sum(counts * (mean - inputs)) / counts.sum()
        return np.asarray(np.sum(counts * spread) / counts.sum() ** 2 + bias**2)

    def worst_case_variance(self, num_users: int) -> float:
        """The largest variance of the estimated mean: B**2 / n; exact, attained at x = 0."""
        return self.magnitude**2 / check_int("num_users", num_users, low=1)

    def check_range(self, name, values) -> None:
        """Raises unless numbers are in [-bound, bound]."""
        check_interval(name, values, self.bound)

    def check_population(self, population) -> None:
        """Raises unless the users' values are numbers in [-bound, bound]."""
        population.require_reals((), low=-self.bound, high=self.bound)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BinaryResponseParams(CountedParams):
    """The params of `BinaryResponse`: a pytree.

    Attributes:
      scale: float32[], words by which the threshold moves for an input of 1.
      limit: int32[], words by which it moves at most.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    scale: jax.Array | np.ndarray
    limit: jax.Array | np.ndarray
    word_bits: int = dataclasses.field(default=32, metadata={"static": True})

    value_dtype = jnp.float32

    @property
    def num_words(self) -> int:
        """One word per user."""
        return 1

    def _threshold(self, value):
        moved = jnp.rint(jnp.nan_to_num(value.astype(jnp.float32)) * self.scale)
        edge = jnp.asarray(self.limit).astype(jnp.float32)
        moved = jnp.clip(moved, -edge, edge).astype(jnp.int32)
        return np.uint32(2 ** (self.word_bits - 1)) + moved.astype(jnp.uint32)

    @property
    def num_reports(self) -> int:
        """Two."""
        return 2

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[1].
          value: float32[] in [-bound, bound]; clamped into it, NaN counts as 0.

        Returns:
          int32[], 1 for +B and 0 for -B.
        """
        return (words[0] < self._threshold(value)).astype(jnp.int32)

    @compiled_in_float64
    def estimate(self, tally: Count):
        """The estimated mean of the users' values, float[]."""
        reports = tally.f64()
        signed = (reports[..., 1] - reports[..., 0]) / jnp.sum(reports, axis=-1)
        half = 2.0 ** (self.word_bits - 1)
        return signed * (half / jnp.asarray(self.scale).astype(jnp.float64))

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None) -> Count:
        """A tally drawn at once, exact in law: one binomial for each distinct input.

        Of users drawn from a distribution the engine draws the counts first, by one multinomial.
        The tally alone would be one binomial, but its probability depends on the inputs, which a
        `sample_tally_iid` is not given.

        Args:
          key: a key; it is folded.
          counts: Count[k], the number of users with each input.
          inputs: float32[k], the inputs.

        Returns:
          Count[2].
        """
        threshold = self._threshold(inputs).astype(jnp.float64)
        plus = binomial(jax.random.fold_in(key, 0), counts, threshold / 2.0**self.word_bits).sum()
        return jax.tree.map(lambda a, b: jnp.stack([a, b]), counts.sum() - plus, plus)

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly: it draws one binomial for each input."""
        del num_users
        return 200.0 * num_bins

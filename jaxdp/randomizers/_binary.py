"""One-bit response for a bounded number."""

import math
from fractions import Fraction
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32, UInt32
from numpy.typing import ArrayLike

from .._checks import By, Epsilon
from .._contract import Population, TallyLaw, Tree, Words, field, params, spec, static
from .._prediction import Prediction
from .._spec import check_int, check_real
from .._x64 import compiled_in_float64
from ..accounting import ShuffleBracket, channel_shuffle_delta, shuffle_bracket
from ..random import Count, binomial
from ._exact import exp_lower, log_upper
from ._mean import MeanRandomizer, MeanRound, check_interval
from ._randomizer import check_word_bits


def _check_bound(name: str, value: object) -> float:
    """A bound rounded to float32, or raises unless float32 can scale it to words."""
    bound = float(np.float32(check_real(name, value, low=0.0)))
    tiny = float(np.finfo(np.float32).tiny)
    if not tiny * 2**31 <= bound <= float(np.finfo(np.float32).max) / 2**31:
        raise ValueError(
            f"{name} must be between 1e-28 and 1e29 so that float32 can scale it, got {value!r}; "
            "change the unit of the values."
        )
    return bound


@spec
class BinaryResponse(MeanRandomizer):
    """Duchi, Jordan and Wainwright's one-bit response for a number in [-bound, bound].

    `Pr[report = 1 | x] = 1/2 + x / (2 B)`, else the report is -1; it stands for +B or -B, where
    `B = c bound` and `c = (e**epsilon + 1) / (e**epsilon - 1)`. The estimate is the mean.

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

    epsilon: float = field(Epsilon())
    bound: float = field(By(_check_bound, (0.0, -2.0, float("nan"), 1e38, "1")), default=1.0)

    def validate(self) -> None:
        """Raises ValueError where a word cannot realise epsilon."""
        self._limit(32)

    def _limit(self, word_bits: int) -> int:
        """The number of words by which the threshold moves at most from one half of them."""
        word_bits = check_word_bits(word_bits)
        highest = math.log(2**25 - 1)
        if word_bits == 32 and self.epsilon > highest:
            raise ValueError(
                f"epsilon must be at most {highest:.6g}, got {self.epsilon!r}: a float32 threshold "
                "has 24 bits."
            )
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
            np.asarray(2.0 ** (word_bits - 1) / float(self._scale(word_bits))),
            word_bits,
        )

    def _shift(self, inputs: ArrayLike | None, word_bits: int) -> np.ndarray:
        """The words by which each input moves the threshold, exactly as `from_bits` computes it."""
        edge = self._edge(word_bits)
        with np.errstate(over="ignore"):  # infinite is beyond the edge, as in float32 numbers
            numbers = np.nan_to_num(np.asarray(inputs).astype(np.float32))
            moved = np.rint(numbers * self._scale(word_bits))
        return np.clip(moved, -edge, edge).astype(np.int64)

    def channel(self, word_bits: int = 32, inputs: ArrayLike | None = None) -> list[list[Fraction]]:
        """The exact probabilities of the reports -1 and 1 for given inputs.

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

    def reports(self) -> np.ndarray:
        """-1 and 1."""
        return np.array([-1, 1], np.int32)

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, rounded up: the log-ratio of the extreme thresholds."""
        half, edge = 2 ** (word_bits - 1), self._edge(word_bits)
        return log_upper(Fraction(half + edge, half - edge))

    def shuffle_bracket(self, num_users: int, delta: float) -> ShuffleBracket:
        """Bounds of the epsilon of shuffled reports; other inputs mix the two extreme ones."""
        return shuffle_bracket(self.channel(), num_users, delta)

    def shuffle_delta(self, num_users: int, epsilon: float) -> float:
        """The delta of shuffled reports, rounded up."""
        return channel_shuffle_delta(self.channel(), num_users, epsilon)

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of a value, (): a number."""
        return ()

    @property
    def largest_value(self) -> float:
        """The largest value, which is the bound."""
        return self.bound

    @property
    def magnitude(self) -> float:
        """B, the absolute value that a report stands for."""
        return 2.0**31 / float(self._scale(32))

    def moments(self, value: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """The mean of one report, which is the value up to its rounding, and its variance."""
        mean = self._shift(self.check_value(value), 32) / 2.0**31 * self.magnitude
        return mean, self.magnitude**2 - mean**2

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The exact mean squared error of the estimated mean, float64[].

        Args:
          counts: int[k], the number of users with each input.
          inputs: float[k], the inputs; needed, since the bins alone say nothing of them.
        """
        counts, inputs = self.check_inputs(counts, inputs)
        mean, spread = self.moments(inputs)
        bias = np.sum(counts * (mean - inputs)) / counts.sum()
        return np.asarray(np.sum(counts * spread) / counts.sum() ** 2 + bias**2)

    def reported_variance(self, outcome: Tree, num_users: int) -> np.ndarray:
        """`(B**2 - mean**2) / n`: for users who all hold the mean, of whom it is largest."""
        mean = np.clip(self.built.estimate(outcome), -self.bound, self.bound)
        return self.variance([num_users], [float(mean)])

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest variance of the estimated mean: B**2 / n; exact, attained at x = 0."""
        return Prediction(self.magnitude**2 / check_int("num_users", num_users, low=1))

    def check_range(self, name: str, values: np.ndarray) -> None:
        """Raises unless numbers are in [-bound, bound]."""
        check_interval(name, values, self.bound)

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are numbers in [-bound, bound]."""
        population.require_reals((), low=-self.bound, high=self.bound)


@params
class BinaryResponseParams(MeanRound):
    """The params of `BinaryResponse`: a pytree.

    Attributes:
      scale: float32[], words by which the threshold moves for an input of 1.
      limit: int32[], words by which it moves at most.
      unit: float64[], B.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    bit_private: ClassVar[bool] = True

    scale: Float32[Array | np.ndarray, ""]
    limit: Int32[Array | np.ndarray, ""]
    unit: Float[Array | np.ndarray, ""]
    word_bits: int = static(default=32)

    @property
    def largest_value(self) -> Float[Array | np.ndarray, ""]:
        """The largest value, which is the bound."""
        return self.limit / self.scale

    @property
    def num_words(self) -> int:
        """One word per user."""
        return 1

    @property
    def largest_report(self) -> int:
        """Reports are -1 or 1."""
        return 1

    @property
    def law(self) -> TallyLaw[dict[str, Count]]:
        """One binomial for each distinct input."""
        return TallyLaw(self._draw, lambda work: work.draws(work.num_bins))

    def thresholds(self, values: Float[Array, "*k"]) -> UInt32[Array, "*k"]:
        """The number of words that lead to the report 1, for each value."""
        moved = jnp.rint(jnp.nan_to_num(values.astype(jnp.float32)) * self.scale)
        edge = jnp.asarray(self.limit).astype(jnp.float32)
        # After the rounding: whatever floats do, no threshold lies beyond the edge.
        moved = jnp.clip(moved, -edge, edge).astype(jnp.int32)
        return np.uint32(2 ** (self.word_bits - 1)) + moved.astype(jnp.uint32)

    def from_bits(self, words: Words, value: Float[Array, ""], /) -> Int32[Array, ""]:
        """One user's report, -1 or 1; a value beyond the bound is clamped, NaN counts as 0."""
        return jnp.where(words[0] < self.thresholds(value), np.int32(1), np.int32(-1))

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        threshold = self.thresholds(inputs).astype(jnp.float64)
        plus = binomial(jax.random.fold_in(key, 0), counts, threshold / 2.0**self.word_bits).sum()
        users = counts.sum()
        return {"sum": plus + plus - users, "users": users}

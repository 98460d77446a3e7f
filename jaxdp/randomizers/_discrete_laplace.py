"""Two-sided geometric noise for a bounded integer, clamped to its range."""

import functools
import math
from fractions import Fraction
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Float32, Int32, UInt32
from numpy.typing import ArrayLike

from .._checks import Epsilon, Integer
from .._contract import Population, Tree, Words, Work, field, params, spec, static
from .._prediction import Prediction
from .._spec import check_int
from .._x64 import compiled_in_float64
from ..random import AliasTable, Count, merge, multinomial
from ._exact import exp_lower, log_upper
from ._params import DrawnCountsRound
from ._randomizer import BinRandomizer, check_bins, check_law, check_word_bits, values_of

MAX_VALUES = 2**11
_FARTHEST = 2**52  # from 0, of the smallest integer
_CHUNK = 2**16  # cells of the multinomials that are drawn side by side


@spec
class DiscreteLaplace(BinRandomizer):
    """Discrete Laplace noise for an integer in [low, high], clamped to the range.

    The report of the integer `low + x` is `y = clamp(x + N, 0, D)`, D = high - low, where
    `Pr[N = j]` is about `(1 - a) a**|j| / (1 + a)` with `a = e**(-epsilon / D)`. A user's value is
    x and a report is y, both in {0, .., D}: bins of the range. The estimate is the mean of the
    integers.

    One word draws N from an alias table of the whole numbers `2**32 Pr[N = j]`, made of the tails
    `C_j = 2**32 Pr[N >= j]`, j = 1 .. D, the same for both signs. The builder shrinks epsilon until
    the probabilities that these numbers realise are private, by a share of about
    `2 D**2 e**epsilon / (epsilon 2**32)`. A report y is decoded as `low + f(y)`, where f solves
    `E[f(y) | x] = x` for the realised channel: it is about y, and at the ends y plus or minus the
    mean `1 / (e**(epsilon / D) - 1)` of what clamping cut off.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly, for the bits of the report: every ratio of the realised
        probabilities of a report is at most e**epsilon in rational arithmetic. There is no tail
        beyond which only some inputs could report. Values outside the range are clamped into it.
      * Bias: none; f is solved in float64.
      * Variance, exact: the variance of f(y) under the realised channel, smaller than
        `2 a / (1 - a)**2`, which the noise has without clamping; the mean has the sum over n**2.

    Edge cases:
      ==================================  =======================================================
      more than 2**11 integers            ValueError: group them
      epsilon too small or too large      ValueError where rounding takes a tenth of it: words of
                                          32 bits cannot tell the probabilities apart
      value outside the range             ValueError from a Population; the params clamp it
      ==================================  =======================================================

    Args:
      low: the smallest integer, within 2**52 of 0.
      high: the largest one, low + 1 to low + 2**11 - 1.
      epsilon: privacy parameter for the whole range, > 0.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import DiscreteLaplace
      >>> stars = DiscreteLaplace(low=1, high=5, epsilon=1.0)
      >>> stars.exact_epsilon() <= 1.0
      True
      >>> stars.truth([10, 0, 0, 0, 30]).item()
      4.0

    References:
      Ghosh, Roughgarden, Sundararajan (2012), Universally utility-maximizing privacy mechanisms,
      for the clamped geometric mechanism.
    """

    low: int = field(Integer(-_FARTHEST, _FARTHEST))
    high: int = field(Integer(1 - _FARTHEST, _FARTHEST + MAX_VALUES - 1))
    epsilon: float = field(Epsilon())

    def validate(self) -> None:
        """Raises ValueError where words of 32 bits cannot realise the noise."""
        check_int("high", self.high, low=self.low + 1, high=self.low + MAX_VALUES - 1)
        _scores(self._reach, self.epsilon, 32)

    @property
    def _reach(self) -> int:
        """D, the largest bin."""
        return self.high - self.low

    @property
    def num_values(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """D + 1, the number of integers in the range."""
        return self._reach + 1

    def tails(self, word_bits: int = 32) -> tuple[Fraction, ...]:
        """The realised `Pr[N >= j]` for j = 1 .. D, before clamping."""
        return tuple(Fraction(c, 2**word_bits) for c in self._tails(word_bits).tolist())

    def _tails(self, word_bits: int) -> np.ndarray:
        return _tails(self._reach, self.epsilon, check_word_bits(word_bits))

    def channel(self, word_bits: int = 32, inputs: ArrayLike | None = None) -> list[list[Fraction]]:
        """The exact `Pr[report = y | x]`, row x of the inputs, column y.

        Args:
          word_bits: bits of a word.
          inputs: int[m], the bins of the rows; None for all.
        """
        space, d = 2**word_bits, self._reach
        point, beyond = (row.tolist() for row in _words(self._tails(word_bits), word_bits))

        def words(x, y):
            return beyond[x] if y == 0 else beyond[d - x] if y == d else point[abs(y - x)]

        rows = values_of(inputs, d + 1)
        return [[Fraction(words(x, y), space) for y in range(d + 1)] for x in rows]

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter: the largest log-ratio in a column, rounded up."""
        return log_upper(_worst_ratio(self._tails(word_bits), word_bits))

    def build(self, word_bits: int = 32) -> "DiscreteLaplaceParams":
        """The params; `word_bits=8` makes a twin whose 256 words can be enumerated."""
        tails = self._tails(word_bits)
        scores = _scores(self._reach, self.epsilon, word_bits)
        first = scores.astype(np.float32)
        rest = (scores - first).astype(np.float32)
        point, beyond = _words(tails, word_bits)
        # -D, .., D; what is farther out is clamped to an end of the range from anywhere in it.
        side = np.append(point[1:-1], beyond[-1])
        noise = AliasTable.of(np.concatenate([side[::-1], point[:1], side]), word_bits)
        halves = np.stack([first, rest])
        return DiscreteLaplaceParams(noise, tails.astype(np.uint32), halves, self.low, word_bits)

    def report_variances(self) -> np.ndarray:
        """The exact variance of one decoded report `low + f(y)` of each bin, float64[D + 1]."""
        middle = self._reach / 2  # squares of centred numbers cancel less
        scores = _scores(self._reach, self.epsilon, 32) - middle
        x = np.arange(self.num_values) - middle
        return _expected(scores**2, *_words(self._tails(32), 32)) / 2.0**32 - x**2

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The exact variance of the mean, float64[].

        Args:
          counts: int[k], the number of users with each integer of the range.
          inputs: unused; the values are the bins.
        """
        del inputs
        counts = check_bins(counts, self.num_values).astype(np.float64)
        return np.asarray(np.sum(counts * self.report_variances()) / counts.sum() ** 2)

    def reported_variance(self, outcome: Tree, num_users: int) -> np.ndarray:
        """The largest variance of the mean, since reports do not show how integers spread."""
        del outcome
        return np.asarray(self.worst_case_variance(num_users))

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest variance of the mean over all data sets of `num_users`; exact."""
        n = check_int("num_users", num_users, low=1)
        return Prediction(float(self.report_variances().max()) / n)

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The target: the mean of the users' integers, float64[]."""
        del inputs
        counts = check_bins(counts, self.num_values).astype(np.float64)
        return np.asarray(self.low + np.sum(counts * np.arange(counts.size)) / counts.sum())

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> np.ndarray:
        """The mean of the distribution that users are drawn from, float64[]."""
        del num_users, inputs
        p = check_law(probabilities, self.num_values)
        return np.asarray(self.low + np.sum(p * np.arange(p.size)))

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins of the range."""
        population.require_bins(self.num_values, "high - low + 1")


@functools.lru_cache(maxsize=256)
def _tails(reach: int, epsilon: float, word_bits: int) -> np.ndarray:
    """`C_1 .. C_D`, the numbers of words with noise of at least 1 .. D, int64[D]; read-only."""
    tails = _realised(reach, epsilon, word_bits)
    if tails is None:
        raise _unrealisable(reach, epsilon, word_bits)
    tails.setflags(write=False)
    return tails


def _realised(reach: int, epsilon: float, word_bits: int) -> np.ndarray | None:
    """The tails with nine tenths of epsilon at least, and no more than epsilon; else None."""
    allowed, exponents = exp_lower(epsilon), np.arange(1, reach + 1) / reach
    for shrink in (0.0, *(2.0**-bits for bits in range(40, 1, -1))):
        # Pr[N >= j] = a**j / (1 + a), with a = e**(-decay / D).
        decay = epsilon * (1 - shrink)
        ends = np.exp(-decay * exponents) / (1 + math.exp(-decay / reach))
        tails = np.rint(2.0**word_bits * ends).astype(np.int64)
        ratio = _worst_ratio(tails, word_bits)
        if 1 < ratio <= allowed:
            return tails if math.log(ratio) >= 0.9 * epsilon else None
    return None


def _ends(reach: int, word_bits: int) -> tuple[float, float] | None:
    """About the least and the largest epsilon that is realised, by steps of a tenth; or None."""
    if _realised(reach, 2.0, word_bits) is None:
        return None
    ends = []
    for factor in (1 / 1.1, 1.1):
        end = 2.0
        while 1e-9 < end < 1e2 and _realised(reach, end * factor, word_bits) is not None:
            end *= factor
        ends.append(end)
    return ends[0], ends[1]


def _unrealisable(reach: int, epsilon: float, word_bits: int) -> ValueError:
    ends = _ends(reach, word_bits)
    allowed = "no epsilon" if ends is None else "about {:.2g} to {:.2g}".format(*ends)
    return ValueError(
        f"epsilon must be one that words of {word_bits} bits can realise for a range of "
        f"{reach + 1} integers, {allowed}, got {epsilon!r}; change epsilon, or group the integers."
    )


def _words(tails: np.ndarray, word_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of words with N = j (or N = -j), and with N >= j.

    Returns:
      int64[D + 1] twice, for j = 0 .. D; the last entry of the first one is not used.
    """
    space = 2**word_bits
    point = np.append(space - 2 * tails[0], tails - np.append(tails[1:], 0))
    return point, np.append(space - tails[0], tails)


def _worst_ratio(tails: np.ndarray, word_bits: int) -> Fraction:
    """The largest ratio of two probabilities of one report; 0 where some are not positive.

    A report inside the range is at most D - 1 away from the values, and all distances up to that
    occur in the column next to an end; an end has the ratio of `N >= 0` to `N >= D`.
    """
    point, beyond = _words(tails, word_bits)
    inner = point[:-1]
    if inner.min() <= 0 or beyond[-1] <= 0:
        return Fraction(0)
    ratio = Fraction(int(beyond.max()), int(beyond.min()))
    if len(tails) == 1:
        return ratio
    return max(ratio, Fraction(int(inner.max()), int(inner.min())))


def _expected(scores: np.ndarray, point: np.ndarray, beyond: np.ndarray) -> np.ndarray:
    """The mean of a function of the report for each value, in words, float64[D + 1]."""
    d = len(scores) - 1
    side = np.append(point[1:-1], beyond[-1])
    kernel = np.concatenate([side[::-1], point[:1], side]).astype(np.float64)
    return np.convolve(np.pad(scores, d, mode="edge"), kernel, mode="valid")


@functools.lru_cache(maxsize=256)
def _scores(reach: int, epsilon: float, word_bits: int) -> np.ndarray:
    """f, with `E[f(y) | x] = x` for all x, float64[D + 1]; read-only.

    The channel is symmetric, so `f(y) - D / 2` is odd around the middle: half of the equations.
    """
    point, beyond = _words(_tails(reach, epsilon, word_bits), word_bits)
    half = (reach + 1) // 2
    x, y = np.arange(half)[:, None], np.arange(1, half)[None, :]
    odd = np.empty((half, half))
    odd[:, :1] = beyond[x] - beyond[reach - x]
    odd[:, 1:] = point[np.abs(y - x)] - point[reach - y - x]
    try:
        lower = np.linalg.solve(odd, (np.arange(half) - reach / 2) * 2.0**word_bits)
    except np.linalg.LinAlgError:
        raise _unrealisable(reach, epsilon, word_bits) from None
    middle = np.zeros(reach + 1 - 2 * half)
    scores = np.concatenate([lower, middle, -lower[::-1]])
    squares = _expected(scores**2, point, beyond) / 2.0**word_bits
    if squares.max() > 4 * (reach / epsilon) ** 2 + reach**2:  # twice the unclamped noise's
        raise _unrealisable(reach, epsilon, word_bits)
    scores = scores + reach / 2
    scores.setflags(write=False)
    return scores


@params
class DiscreteLaplaceParams(DrawnCountsRound):
    """The params of `DiscreteLaplace`: a pytree.

    Attributes:
      noise: draws N + D.
      tails: uint32[D], the numbers of words with noise of at least 1, .., D.
      scores: float32[2, D + 1], f in two pieces whose sum is it.
      low: the integer that bin 0 stands for; static.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    noise: AliasTable
    tails: UInt32[Array | np.ndarray, " D"]
    scores: Float32[Array | np.ndarray, "2 reports"]
    low: int = static()
    word_bits: int = static(default=32)

    independent_stream: ClassVar[int] = 2**31

    @property
    def num_bins(self) -> int:
        """The bins of the domain."""
        return self.num_reports

    @property
    def num_words(self) -> int:
        """One word per user."""
        return 1

    @property
    def _reach(self) -> int:
        return self.tails.shape[-1]

    @property
    def num_reports(self) -> int:
        """Number of distinct reports, D + 1."""
        return self._reach + 1

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> Int32[Array, ""]:
        """One user's report, in [0, D]; a value outside the range is clamped into it."""
        d = self._reach
        noise = self.noise.draw(words[0]) - np.int32(d)
        return jnp.clip(jnp.clip(value.astype(jnp.int32), 0, d) + noise, 0, d)

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> Float[Array, "*batch"]:
        """The estimated mean of the users' integers: `low` plus the mean of f(y)."""
        reports = outcome.f64()
        scores = jnp.sum(jnp.asarray(self.scores).astype(jnp.float64), axis=0)
        return self.low + jnp.sum(reports * scores, axis=-1) / jnp.sum(reports, axis=-1)

    def _probabilities(self) -> tuple[Float[Array, " reports"], Float[Array, " reports"]]:
        """`Pr[N = j]` and `Pr[N >= j]` for j = 0 .. D; only in an x64 block."""
        tails = jnp.asarray(self.tails).astype(jnp.float64) / 2.0**self.word_bits
        one, zero = jnp.ones(1), jnp.zeros(1)
        point = jnp.concatenate([one - 2 * tails[:1], tails - jnp.append(tails[1:], zero)])
        return point, jnp.concatenate([one - tails[:1], tails])

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> Count:
        """One multinomial for each integer of the range, some of them side by side."""
        del inputs
        point, beyond = self._probabilities()
        d = self._reach
        rows = max(min(_CHUNK // (d + 1), d + 1), 1)
        steps = -(-(d + 1) // rows)
        padding = steps * rows - (d + 1)
        chunks = jax.tree.map(lambda limb: jnp.pad(limb, (0, padding)).reshape(steps, rows), counts)
        y = jnp.arange(d + 1, dtype=jnp.int32)[None, :]

        def step(total, chunk):
            number, users = chunk
            x = number * rows + jnp.arange(rows, dtype=jnp.int32)
            x = jnp.minimum(x, d)[:, None]
            inner = point[jnp.abs(y - x)]
            law = jnp.where(y == 0, beyond[x], jnp.where(y == d, beyond[d - x], inner))
            drawn = multinomial(jax.random.fold_in(key, number), users, law)
            return merge(total, drawn.sum(0)), None

        numbers = jnp.arange(steps, dtype=jnp.int32)
        return lax.scan(step, Count.zeros((d + 1,)), (numbers, chunks))[0]

    def report_law(self, law: Float[Array, " reports"]) -> Float[Array, " reports"]:
        # A convolution with the noise inside the range; the ends collect what is clamped.
        point, beyond = self._probabilities()
        kernel = jnp.concatenate([point[:0:-1], point])
        inner = jnp.convolve(law, kernel, precision="highest")[self._reach : 2 * self._reach + 1]
        first, last = jnp.sum(law * beyond), jnp.sum(law[::-1] * beyond)
        return jnp.concatenate([first[None], inner[1:-1], last[None]])

    def _cost(self, work: Work) -> float:
        return work.draws(work.num_bins * (self._reach + 1))

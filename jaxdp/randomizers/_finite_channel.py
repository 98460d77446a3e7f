"""Any finite channel, given by its table of probabilities."""

import functools
import math
from fractions import Fraction
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Float32, Int32, UInt32
from numpy.typing import ArrayLike

from .._checks import By, Epsilon, Optional
from .._contract import Tree, Words, Work, field, params, spec, static
from .._spec import FrozenArray, as_array, check_int, exact_sum
from .._x64 import compiled_in_float64, dot
from ..random import AliasTable, Count, multinomial
from ._count_noise import TableNoise
from ._exact import exp_lower, log_upper
from ._params import DrawnCountsRound
from ._randomizer import check_word_bits
from ._support import LinearOracle

MAX_ENTRIES = 2**24
"""Largest number of entries of a table."""

_SLACK = 1e-6  # of a probability, which tables in float32 may be off by
_NO_DECODER = (
    "table does not determine the counts: its rows are linearly dependent, up to the rounding to "
    "words. Only linear combinations can be estimated, by a linear protocol with this channel."
)


def check_table(name: str, value: object) -> FrozenArray:
    """The table as int64 or float64[k, m], or an error that says what is wrong with it."""
    if isinstance(value, Tracer):
        raise TypeError(
            f"{name} must be a concrete array, got a traced value. A spec is built on the host: "
            "build it outside jit and pass its params (spec.build()) into the function."
        )
    array = as_array(name, value)  # pyright: ignore[reportArgumentType]
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be an array of numbers, got dtype {array.dtype}.")
    if array.ndim != 2 or min(array.shape) < 2 or array.size > MAX_ENTRIES:
        raise ValueError(
            f"{name} must have shape [k, m], a row for each of k >= 2 values, a column for each of "
            f"m >= 2 reports, and at most 2**24 entries, got shape {array.shape}."
        )
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
        sums = array.sum(axis=1)
        if not np.all(np.isfinite(array)) or np.abs(sums - 1).max() > _SLACK:
            worst = int(np.argmax(np.where(np.isfinite(sums), np.abs(sums - 1), np.inf)))
            raise ValueError(
                f"{name} must have rows of probabilities that add up to 1, got a sum of "
                f"{sums[worst]!r} in row {worst}; if the values are its columns, pass its "
                "transpose."
            )
    else:
        if array.max() > 2**53:
            raise ValueError(
                f"{name} of integers must have rows of one sum, at most 2**53, got an entry of "
                f"{array.max()}."
            )
        array = array.astype(np.int64)
        sums = np.array([exact_sum(row) for row in array], object)  # sums in int64 may wrap
        if np.any(sums != sums[0]) or not 0 < sums[0] <= 2**53:
            raise ValueError(
                f"{name} of integers must have rows of one sum, at most 2**53, got sums from "
                f"{sums.min()} to {sums.max()}."
            )
    if not np.all(array > 0):
        row, column = (int(i) for i in np.argwhere(~(array > 0))[0])
        raise ValueError(
            f"{name} must be positive, got {array[row, column]} in row {row}, column {column}: a "
            "report that some values never send tells them apart, and no epsilon is finite. Leave "
            "out a column that is 0 throughout."
        )
    return FrozenArray(array)


@spec
class FiniteChannel(LinearOracle):
    """The randomizer with a given table of probabilities: `Pr[report = y | x] = table[x, y]`.

    One word decides, by the alias table of the user's row: a look-up, however many reports there
    are. The builder rounds the rows to integers `n_xy` that add up to `2**32` exactly. Where
    `epsilon` is given it takes for each report y an integer `l` next to the column's least
    probability, and keeps every `n_xy` of the column in [l, floor(e**epsilon l)]; no entry moves by
    more than a few units of 2**-32.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly: `max_x n_xy / min_x n_xy <= e**epsilon` for every report
        y, in integers. `exact_epsilon()` is what is realised. It holds for every int32 input, since
        values outside the domain are clamped into it.
      * Estimate: the weighted least squares solution c of `N = Q^T c`, where N_y is the number of
        reports y, Q the realised channel, and the weights are those of users spread evenly over the
        values. It counts the users with each value without bias, and is the unbiased linear
        estimate with the least sum of variances for such users.
      * Variance, exact for a fixed data set with counts c: `sum_x c_x (sum_y A_vy**2 n_xy / 2**32 -
        [x = v])`, A the decoder.

    Edge cases:
      ===================================  ======================================================
      rows do not add up to 1 within 1e-6  ValueError
      integers                             weights: each row over its sum, all sums alike; exact,
                                           as they are, where the sum is a power of two <= 2**32
      a column with zeros                  ValueError: no epsilon is finite
      a ratio above e**epsilon             up to a relative 1e-6 it is cut off; beyond, ValueError
      epsilon None                         what the rounded table has
      epsilon too small for the words      ValueError
      Q of rank below k                    no estimate: `estimate` and `variance` raise ValueError
      value outside the domain             ValueError from a Population; the params clamp it
      ===================================  ======================================================

    Args:
      table: float[k, m] or int[k, m], a row for each value, a column for each report; k and m at
        least 2, k m at most 2**24.
      epsilon: privacy parameter, > 0; None for the table's own.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not of numbers, or is traced.

    Example:
      >>> from jaxdp.randomizers import FiniteChannel
      >>> channel = FiniteChannel([[3, 1, 2, 2], [1, 3, 2, 2], [2, 2, 3, 1]])
      >>> round(channel.exact_epsilon(), 6)
      1.098612
      >>> channel.variance([100, 200, 700]).round(1).tolist()
      [3677.8, 3644.4, 6944.4]

    References:
      Kairouz, Oh, Viswanath (2016), Extremal mechanisms for local differential privacy; McKenna,
      Maity, Mazumdar, Miklau (2020), A workload-adaptive mechanism for linear queries under local
      differential privacy.
    """

    table: Any = field(By(check_table, ("a", [0.5, 0.5], [[0.5, 0.4], [0.5, 0.5]], [[1], [1]])))
    epsilon: float | None = field(Optional(Epsilon()), default=None)  # pyright: ignore[reportIncompatibleVariableOverride]

    def validate(self) -> None:
        """Raises ValueError where words cannot realise the table within epsilon."""
        if self.epsilon is not None:
            _check_ratios(self.table.values, self.epsilon)
        self.weights(32)

    @property
    def num_values(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """k, the number of values."""
        return self.table.values.shape[0]

    @property
    def num_reports(self) -> int:
        """m, the number of reports."""
        return self.table.values.shape[1]

    def weights(self, word_bits: int = 32) -> np.ndarray:
        """The realised channel in units of 2**-word_bits, int64[k, m]; rows add up to 2**word_bits.

        Raises:
          ValueError: words of so few bits cannot realise the table.
        """
        return _weights(self, check_word_bits(word_bits))

    def build(self, word_bits: int = 32) -> "FiniteChannelParams":
        """The params; `word_bits=8` makes a twin whose 256 words can be enumerated."""
        decoder = self.decoder()
        halves = None if decoder is None else split(decoder)
        weights = self.weights(word_bits)
        table = AliasTable.of(weights, word_bits)
        return FiniteChannelParams(table, weights.astype(np.uint32), halves, word_bits)

    def channel(self, word_bits: int = 32, inputs: ArrayLike | None = None) -> list[list[Fraction]]:
        """The exact `Pr[report = y | x]`, row x of the inputs (of all values if None), column y."""
        weights, space = self.weights(word_bits), 2**word_bits
        rows = weights if inputs is None else weights[np.asarray(inputs)]
        return [[Fraction(n, space) for n in row] for row in rows.tolist()]

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, rounded up; at most `epsilon` where that is given."""
        weights = self.weights(word_bits)
        extremes = zip(weights.max(axis=0).tolist(), weights.min(axis=0).tolist(), strict=True)
        return log_upper(max(Fraction(high, low) for high, low in extremes))

    def decoder(self) -> np.ndarray | None:
        """The matrix that makes unbiased counts of counted reports, float64[k, m].

        None where the channel does not determine the counts: rank below k up to its rounding.
        """
        return _decoder(self)

    def noise(self) -> TableNoise:
        """The moments of the noise, from the table."""
        return TableNoise(*self._law_and_decoder())

    def covariance(self, value: int) -> np.ndarray:
        """The exact covariance of the estimate from one user, float64[k, k].

        Args:
          value: the user's value, an int in [0, k).
        """
        value = check_int("value", value, low=0, high=self.num_values - 1)
        law, decoder = self._law_and_decoder()
        mean = decoder @ law[value]
        return (decoder * law[value]) @ decoder.T - np.outer(mean, mean)

    def _user_variances(self) -> np.ndarray:
        law, decoder = self._law_and_decoder()
        return np.square(decoder) @ law.T - np.square(decoder @ law.T)

    def _law_and_decoder(self) -> tuple[np.ndarray, np.ndarray]:
        """The realised channel and the decoder, float64[k, m] each; or a ValueError."""
        decoder = self.decoder()
        if decoder is None:
            raise ValueError(_NO_DECODER)
        return self.weights() / 2.0**32, decoder


def _check_ratios(table: np.ndarray, epsilon: float) -> None:
    """Raises unless the table is epsilon-private up to rounding."""
    ratios = table.max(axis=0) / table.min(axis=0)
    worst = int(np.argmax(ratios))
    if math.log(ratios[worst]) > epsilon + _SLACK:
        raise ValueError(
            f"epsilon = {epsilon!r} must be at least ln({ratios[worst]:.6g}) = "
            f"{math.log(ratios[worst]):.6g} for this table, the largest ratio in column {worst}; "
            "mix the rows with their mean until it fits."
        )


@functools.lru_cache(maxsize=64)
def _weights(spec: FiniteChannel, word_bits: int) -> np.ndarray:
    table, space = spec.table.values, 2**word_bits
    total = table[0].sum()
    if table.dtype.kind == "i" and space % total == 0:
        weights = table * (space // total)
        if spec.epsilon is None or _fits(weights, spec.epsilon):
            weights.setflags(write=False)
            return weights
    target = table / table.sum(axis=1, keepdims=True) * space
    low, high = _range(target, spec.epsilon, word_bits)
    weights = np.stack([_round_row(row, low, high, space) for row in target])
    weights.setflags(write=False)
    return weights


def _fits(weights: np.ndarray, epsilon: float) -> bool:
    ratio = exp_lower(epsilon)
    extremes = zip(weights.max(axis=0).tolist(), weights.min(axis=0).tolist(), strict=True)
    return all(high <= ratio * low for high, low in extremes)


def _range(
    target: np.ndarray, epsilon: float | None, word_bits: int
) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest integer that each column may hold, int64[m] each."""
    space = 2**word_bits
    if epsilon is None:
        shape = target.shape[1]
        low, high = np.ones(shape, np.int64), np.full(shape, space, np.int64)
    else:
        ratio = exp_lower(epsilon)
        top, bottom = ratio.numerator, ratio.denominator
        low = np.maximum(1, np.floor(target.min(axis=0))).astype(np.int64)
        high = np.array([top * n // bottom for n in low.tolist()], np.int64)
        low = np.where(high < np.ceil(target.max(axis=0)), np.ceil(target.min(axis=0)), low)
        low = np.maximum(1, low).astype(np.int64)
        high = np.array([min(space, top * n // bottom) for n in low.tolist()], np.int64)
    if low.sum() > space or high.sum() < space:
        size = "" if epsilon is None else f", epsilon = {epsilon!r},"
        raise ValueError(
            f"table with {target.shape[1]} reports{size} cannot be realised with words of "
            f"{word_bits} bits: 2**-{word_bits} is too coarse. Take fewer reports"
            f"{'.' if epsilon is None else ' or a larger epsilon.'}"
        )
    return low, high


def _round_row(target: np.ndarray, low: np.ndarray, high: np.ndarray, space: int) -> np.ndarray:
    """Integers in [low, high] of sum `space`, near the target, int64[m]."""
    row = np.clip(np.floor(target), low, high).astype(np.int64)
    missing = space - int(row.sum())
    step, room = (1, high) if missing > 0 else (-1, low)
    while missing:
        free = np.flatnonzero(row != room)
        gain = step * (target[free] - row[free])
        order = free[np.argsort(-gain, kind="stable")[: abs(missing)]]
        row[order] += step
        missing -= step * order.size
    return row


@functools.lru_cache(maxsize=64)
def _decoder(spec: FiniteChannel) -> np.ndarray | None:
    law = spec.weights() / 2.0**32
    decoder = left_inverse(law, np.full(spec.num_values, 1 / spec.num_values))
    rounding = np.abs(decoder @ law.T - np.eye(spec.num_values)).max()
    return decoder if rounding < 1e-6 else None


def left_inverse(law: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """`(Q^T D^-1 Q)^+ Q^T D^-1`, Q the transpose of `law` and D the law of a user's report.

    Among the unbiased linear decoders it has the least variance, of every linear combination of the
    counts, for users with the prior. Singular values at the level of the rounding to words are
    taken for 0.

    Args:
      law: float64[k, m], the probabilities of the reports of each value.
      prior: float64[k], of the values; all positive.

    Returns:
      float64[k, m], read-only.
    """
    root = np.sqrt(prior @ law)
    decoder = np.linalg.pinv((law / root).T, rcond=law.shape[1] * 2.0**-30) / root
    decoder.setflags(write=False)
    return decoder


def split(matrix: Float[np.ndarray, "*s"]) -> Float32[np.ndarray, "2 *s"]:
    """A float64 array as the sum of two float32 ones: params hold no float64."""
    high = matrix.astype(np.float32)
    return np.stack([high, (matrix - high).astype(np.float32)])


def joined(halves: Float32[Array | np.ndarray, "2 *s"]) -> Float[Array, "*s"]:
    """The array that `split` was given, to 48 bits; only inside an x64 block."""
    wide = jnp.asarray(halves).astype(jnp.float64)
    return wide[0] + wide[1]


@params
class FiniteChannelParams(DrawnCountsRound):
    """The params of `FiniteChannel`: a pytree.

    Attributes:
      alias: a table for each value, which draws its report.
      weights: uint32[k, m], the probabilities of the reports in units of 2**-word_bits.
      decoder: float32[2, k, m], the sum of which makes counts of reports; None if there is none.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    alias: AliasTable
    weights: UInt32[Array | np.ndarray, "k m"]
    decoder: Float32[Array | np.ndarray, "2 k m"] | None
    word_bits: int = static(default=32)

    independent_stream: ClassVar[int] = 1

    @property
    def num_bins(self) -> int:
        """The bins of the domain."""
        return self.weights.shape[-2]

    @property
    def num_words(self) -> int:
        """One word per user."""
        return 1

    @property
    def num_reports(self) -> int:
        """Number of distinct reports: the table's columns."""
        return self.weights.shape[-1]

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> Int32[Array, ""]:
        """One user's report, in [0, m); a value outside the domain is clamped into it."""
        value = jnp.clip(value.astype(jnp.int32), 0, self.weights.shape[0] - 1)
        return self.alias.draw(words[0], row=value)

    def table(self) -> Float[Array, "k m"]:
        """The realised channel as float64, exact; only inside an x64 block."""
        return jnp.asarray(self.weights).astype(jnp.float64) / 2.0**self.word_bits

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> Float[Array, " k"]:
        """Unbiased counts of the users' values.

        Raises:
          ValueError: the channel does not determine them.
        """
        if self.decoder is None:
            raise ValueError(_NO_DECODER)
        return dot(joined(self.decoder), outcome.f64())

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> Count:
        """The sum of a multinomial for each value."""
        del inputs
        return multinomial(jax.random.fold_in(key, 0), counts, self.table()).sum(0)

    def report_law(self, law: Float[Array, " k"]) -> Float[Array, " m"]:
        return dot(self.table().T, law)

    def _cost(self, work: Work) -> float:
        return work.draws(2.0 * work.num_bins * self.num_reports)

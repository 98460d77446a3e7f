"""The piecewise mechanism on a grid: a bounded report for a bounded number."""

import math
from fractions import Fraction
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32, UInt32
from numpy.typing import ArrayLike

from .._checks import By, Integer, Optional
from .._contract import Draft, Population, TallyLaw, Tree, Words, Work, field, params, spec, static
from .._prediction import Prediction
from .._spec import check_epsilon, check_int
from .._x64 import compiled_in_float64
from ..accounting import PairLaw, opposite_pairs
from ..random import Count, sum_integers
from ._exact import exp_lower, log_upper
from ._levels import (
    FRACTION,
    NoiseTable,
    Steps,
    count_levels,
    dither_of,
    reports_by_entry,
    steps_of,
    sum_reports,
)
from ._mean import MeanRandomizer, MeanRound, Tail, check_interval, check_scale
from ._pair_laws import MOST_SHUFFLED_EPSILON

_MOST_LEVELS = 2**13


def _check_epsilon(name: str, value: object) -> float:
    epsilon = check_epsilon(value, name)
    if not 1e-6 <= epsilon <= 40:
        raise ValueError(
            f"{name} must be in [1e-6, 40], got {value!r}: the masses of the reports are multiples "
            "of 2**-64."
        )
    return epsilon


class Window(NamedTuple):
    """The reports of a level, in cells on a circle.

    Attributes:
      near: w, the cells of the window, of mass `high` each.
      far: 2 J, the other cells, of mass `low` each, or one more.
      high: in units of 2**-64.
      low: in units of 2**-64.
    """

    near: int
    far: int
    high: int
    low: int

    @property
    def cells(self) -> int:
        """The number of reports."""
        return self.near + self.far

    def masses(self) -> tuple[int, ...]:
        """The masses of all cells, the window's first; they add up to 2**64."""
        left = 2**64 - self.near * self.high - self.far * self.low
        each, more = divmod(left, self.far)
        far = [self.low + each + (i < more) for i in range(self.far)]
        return (*[self.high] * self.near, *far)


@spec
class Piecewise(MeanRandomizer["PiecewiseParams"]):
    """Wang et al.'s piecewise mechanism for a number in [-bound, bound], on a grid.

    The input is rounded at random, without bias, to one of the levels j = -J, .., J. The w + 2 J
    reports lie side by side; the w of them from number J + j on have a mass of `a` each, the others
    one of `b`, with `a <= e**epsilon b`. The estimate is the mean of the centred reports, times
    one unit. As J grows this is the mechanism of the paper, its interval being the window.

    `w = 2 J e**(-epsilon / 2)` leads to the smallest worst variance, as in the paper.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, bit by bit. Masses are integers, and the same ones for every
        input: `exact_epsilon()` is the log-ratio of the largest and the smallest. Numbers outside
        the range are clamped by the params, and NaN counts as 0.
      * Bias: none, up to the rounding of an input to 2**-16 levels.
      * Variance of one report, exact at level j: `(a S(j) + b (S - S(j))) u**2 - x**2`, S(j) and S
        being the sums of the squares of the centred reports of the window and of all, u the unit;
        in between it is mixed, and `(s / 2)**2` more at most, s being the size of a level. It is
        about `x**2 / (t - 1) + bound**2 (t + 3) / (3 (t - 1)**2)` with t = e**(epsilon / 2).

    Below epsilon = 1.29 or so the one-bit `BinaryResponse` has the smaller worst case, above it
    this.

    Edge cases:
      =============================  ============================================================
      epsilon outside [1e-6, 40]     ValueError
      bound beyond 1e-20 .. 1e20     ValueError: change the unit of the values
      =============================  ============================================================

    Args:
      epsilon: privacy parameter, in [1e-6, 40].
      bound: the largest absolute value, > 0; rounded to float32.
      steps: J, the levels on each side of 0; None for the power of two above 4 e**(epsilon / 2), at
        least 128 and at most 2**13.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import Piecewise
      >>> round(Piecewise(epsilon=4.0).worst_case_variance(num_users=1), 3)
      0.239

    References:
      Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu (2019), Collecting and analyzing multidimensional
      data with local differential privacy, Algorithm 2.
    """

    epsilon: float = field(By(_check_epsilon, (1e-7, 41.0, 0, -1.0, float("nan"), "1", None, True)))
    bound: float = field(By(check_scale, (0.0, -1.0, 1e30, float("nan"), "1")), default=1.0)
    steps: int | None = field(Optional(Integer(1, _MOST_LEVELS)), default=None)

    @property
    def num_levels(self) -> int:
        """J, the levels on each side of 0."""
        if self.steps is not None:
            return self.steps
        wanted = 2 ** math.ceil(math.log2(4) + self.epsilon / (2 * math.log(2)))
        return min(max(128, wanted), _MOST_LEVELS)

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of a value, (): a number."""
        return ()

    @property
    def largest_value(self) -> float:
        """The largest value, which is the bound."""
        return self.bound

    def window(self) -> Window:
        """The window of cells and its masses, in integers."""
        far, ratio = 2 * self.num_levels, exp_lower(self.epsilon)
        near = max(round(far * math.exp(-self.epsilon / 2)), 1)
        # Rounded up, so that what is left for the window is at most e**epsilon times as much.
        low = math.ceil(2**64 / (near * ratio + far))
        high = (2**64 - far * low) // near
        return Window(near, far, high, low)

    @property
    def _scale(self) -> np.float32:
        """Parts of a level for 1."""
        return np.float32(self.num_levels * FRACTION / self.bound)

    @property
    def _level(self) -> float:
        """The size of a level."""
        return FRACTION / float(self._scale)

    @property
    def _unit(self) -> float:
        """What 1 in a report stands for: the mean at level j is `2 j w (a - b)` of them."""
        window = self.window()
        shift = Fraction(2 * window.near * (window.high - window.low), 2**64)
        return self._level / float(shift)

    def build(self, word_bits: int = 32) -> "PiecewiseParams":
        """The params; the noise needs words of 32 bits."""
        check_int("word_bits", word_bits, low=32, high=32)
        window = self.window()
        return PiecewiseParams(
            NoiseTable.of(window.masses()),
            np.asarray(window.cells, np.int32),
            np.asarray(self._scale),
            np.asarray(self._unit),
            self.num_levels,
        )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter: the log-ratio of the extreme masses, rounded up."""
        check_int("word_bits", word_bits, low=32, high=32)
        masses = self.window().masses()
        return log_upper(Fraction(max(masses), min(masses)))

    def channel(self, word_bits: int = 32, inputs: ArrayLike | None = None) -> list[list[Fraction]]:
        """The exact probabilities of the reports.

        Args:
          word_bits: 32.
          inputs: float32[m]; `extreme_inputs` when None.

        Returns:
          m rows, a column for each of `reports`.
        """
        check_int("word_bits", word_bits, low=32, high=32)
        inputs = self.extreme_inputs() if inputs is None else inputs
        low, share = self._levels(np.asarray(inputs, np.float32).reshape(-1))
        masses, size = self.window().masses(), self.num_levels

        def row(level: int) -> list[int]:
            start = level + size  # of the window
            return [masses[(cell - start) % len(masses)] for cell in range(len(masses))]

        mixed = []
        for level, moved in zip(low.tolist(), share.tolist(), strict=True):
            weight = Fraction(moved)
            pairs = zip(row(level), row(min(level + 1, size)), strict=True)
            mixed.append([((1 - weight) * x + weight * y) / 2**64 for x, y in pairs])
        return mixed

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """The two ends, whose windows are disjoint: no pair hides less."""
        if self.epsilon > MOST_SHUFFLED_EPSILON:
            return None
        masses = np.array([mass / 2**64 for mass in self.window().masses()])
        size = self.num_levels
        rows = np.stack([np.roll(masses, start) for start in (0, size, 2 * size)])
        # All levels have the same masses, in another order.
        return tuple(opposite_pairs(rows, np.full(len(masses), masses.min())))

    def reports(self) -> np.ndarray:
        """The centred reports: odd or even integers around 0."""
        cells = self.window().cells
        return np.arange(1 - cells, cells, 2, dtype=np.int32)

    def log_density(self, reports: ArrayLike, value: ArrayLike) -> np.ndarray:
        """The log-probability of reports of a value.

        Args:
          reports: int[n].
          value: float[].

        Returns:
          float64[n].
        """
        (row,) = self.channel(inputs=[float(self.check_value(value))])
        cells = len(row)
        return np.log(np.array(row, np.float64))[(np.asarray(reports) + cells - 1) // 2]

    def _levels(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The level below each value, and the probability of the next one."""
        steps = steps_of(
            values.astype(np.float32)[..., None], jnp.asarray(self._scale), self.num_levels
        )
        parts = np.asarray(steps.ends * steps.signs)[..., 0]
        return parts // FRACTION, parts % FRACTION / FRACTION

    def _mean_square(self) -> tuple[float, float]:
        """(A, B) of the mean `A + B j**2` of the square of a centred report at level j."""
        window = self.window()
        high, low = window.high / 2**64, window.low / 2**64
        near, everywhere = (w * (w**2 - 1) / 3 for w in (window.near, window.cells))
        return near * (high - low) + everywhere * low, 4 * window.near * (high - low)

    def _level_variances(self) -> np.ndarray:
        """The variance of a decoded report at each level, in units of the value; [2 J + 1]."""
        levels = np.arange(-self.num_levels, self.num_levels + 1.0)
        constant, slope = self._mean_square()
        return (constant + slope * levels**2) * self._unit**2 - (levels * self._level) ** 2

    def report_variances(self, values: np.ndarray) -> np.ndarray:
        """The variance of one report of each value."""
        low, share = self._levels(values)
        each, size = self._level_variances(), self.num_levels
        mixed = (1 - share) * each[low + size] + share * each[np.minimum(low + 1, size) + size]
        return mixed + share * (1 - share) * self._level**2

    def moments(self, value: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the variance of one report, float64[] each."""
        value = self.check_value(value)
        return value, self.report_variances(value)

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The exact variance of the mean, float64[].

        Args:
          counts: int[k], the number of users with each value.
          inputs: float[k], the values.
        """
        counts, inputs = self.check_inputs(counts, inputs)
        return np.asarray(np.sum(counts * self.report_variances(inputs)) / counts.sum() ** 2)

    def reported_variance(self, outcome: Tree, num_users: int) -> np.ndarray:
        """The variance for users of the mean square that the reports' squares estimate.

        It is above that of the users by `(s / 2)**2 / n` at most, s being the size of a level.
        """
        constant, slope = self._mean_square()
        upper, lower = map(int, outcome["squares"].numpy())
        square = (upper * 2**self.built.half_bits + lower) / num_users
        # Of the users' levels j the mean square is at least the squared mean, and at most J**2.
        least = min(float(self.built.estimate(outcome)) / self._level, self.num_levels) ** 2
        levels = min(max((square - constant) / slope, least), self.num_levels**2)
        # Rounding to levels adds s**2 f (1 - f) to the mean square of a value: at most s**2 / 4.
        spread = (constant + slope * levels) * self._unit**2 - self._level**2 * (levels - 0.25)
        return np.asarray(spread / num_users)

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest variance of the mean over all data sets; exact."""
        n = check_int("num_users", num_users, low=1)
        each, step = self._level_variances(), self._level**2
        low, high = each[:-1], each[1:]
        # Between levels it is low + (high - low) f + step f (1 - f), largest where its slope is 0.
        share = np.clip((1 + (high - low) / step) / 2, 0.0, 1.0)
        return Prediction(
            float(np.max(low + (high - low) * share + step * share * (1 - share))) / n
        )

    def tail(self) -> Tail:
        """Bernstein's inequality: decoded reports are bounded."""
        largest = self.window().cells * self._unit + self.bound
        return Tail(self.worst_case_variance(1), largest / 3)

    def check_range(self, name: str, values: np.ndarray) -> None:
        """Raises unless numbers are in [-bound, bound]."""
        check_interval(name, values, self.bound)

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are numbers in [-bound, bound]."""
        population.require_reals((), low=-self.bound, high=self.bound)
        self.check_total(population)


@params
class PiecewiseParams(MeanRound):
    """The params of `Piecewise`: a pytree.

    Attributes:
      noise: the law of a report's place on the circle of cells, from the window's start on.
      cells: int32[], w + 2 J, the number of reports.
      scale: float32[], parts of a level for 1 in a value.
      unit: float64[], what 1 in a report stands for.
      num_levels: J, static.
    """

    bit_private: ClassVar[bool] = True

    noise: NoiseTable
    cells: Int32[Array | np.ndarray, ""]
    scale: Float32[Array | np.ndarray, ""]
    unit: Float[Array | np.ndarray, ""]
    num_levels: int = static()

    @property
    def largest_value(self) -> Float[Array | np.ndarray, ""]:
        """The largest value, which is the bound."""
        return self.num_levels * FRACTION / self.scale

    @property
    def num_words(self) -> int:
        """One for the place, one for rounding, and one for a tie."""
        return 3

    @property
    def largest_report(self) -> int:
        """4 J: the window has at most as many cells as the rest."""
        return 4 * self.num_levels

    @property
    def half_bits(self) -> int:
        """The bits of the lower half of a squared report."""
        return (self.largest_report - 1).bit_length()

    @property
    def largest_added(self) -> int:
        """More than a report, and than either half of its square."""
        return 2**self.half_bits

    def _inside(self, values: jax.Array) -> Steps:
        return steps_of(values[..., None], jnp.asarray(self.scale), self.num_levels)

    def tally(
        self, reports: Int32[Array, " n"], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Count]:
        """{"sum": Count[] in units, "users": Count[], "squares": Count[2]}.

        The squares of the reports tell how the users' values spread. They are added in two halves:
        `upper 2**half_bits + lower` is their sum.
        """
        squares = sum_integers(jnp.stack(self._halves(reports), axis=-1), self.largest_added, mask)
        return super().tally(reports, mask) | {"squares": squares}

    def _halves(self, reports: Int32[Array, "*k"]) -> tuple[Int32[Array, "*k"], Int32[Array, "*k"]]:
        """The upper and the lower half of the squares of reports."""
        squares = reports * reports  # at most (4 * 2**13)**2 = 2**30
        return squares >> np.int32(self.half_bits), squares & np.int32(2**self.half_bits - 1)

    def _report(self, level: jax.Array, place: jax.Array) -> jax.Array:
        """The centred report at a place of the circle that starts with the level's window."""
        cell, cells = level + np.int32(self.num_levels) + place, jnp.asarray(self.cells)
        cell = jnp.where(cell >= cells, cell - cells, cell)
        return 2 * cell + 1 - cells

    def from_bits(self, words: Words, value: Float[Array, ""], /) -> Int32[Array, ""]:
        """One user's report; a value beyond the bound is clamped, NaN counts as 0."""
        place = self.noise.alias.draw(words[0], words[2])
        return self._report(self._level(words[1], value), place)

    @property
    def draft(self) -> Draft:
        """Without the word for ties."""
        return Draft(2, self._draft)

    def _draft(self, words: UInt32[Array, "2 n"], values: Float[Array, " n"]) -> Int32[Array, " n"]:
        def report(levels: jax.Array, words: jax.Array) -> jax.Array:
            place, sure = self.noise.alias.draft(words)
            return jnp.where(sure, self._report(levels, place), Draft.UNSURE)

        scale = jnp.asarray(self.scale)
        return reports_by_entry(
            values[:, None], scale, self.num_levels, words[1], words[0:1], report
        )[0]

    def _level(self, word: jax.Array, value: jax.Array) -> jax.Array:
        return self._inside(value).levels(dither_of(word))[0]

    @property
    def law(self) -> TallyLaw[dict[str, Count]]:
        """Levels and their reports, each a multinomial."""
        return TallyLaw(self._draw, self._cost)

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        levels_key, key = jax.random.split(key)
        levels, users = count_levels(levels_key, counts, self._inside(jnp.asarray(inputs)))
        p, cells = self.noise.probabilities(), jnp.asarray(self.cells)
        cell = jnp.arange(p.shape[0], dtype=jnp.int32)

        def row(level: jax.Array) -> jax.Array:
            place = (cell - level - np.int32(self.num_levels)) % cells
            return jnp.where(cell < cells, p[place], 0.0)

        centred = jnp.where(cell < cells, 2 * cell + 1 - cells, 0)
        added = jnp.stack([centred, *self._halves(centred)])
        sums = sum_reports(key, levels, users, self.num_levels, row, added)[:, 0]
        return {"sum": sums[0], "users": counts.sum(), "squares": sums[1:]}

    def _cost(self, work: Work) -> float:
        levels = min(2 * work.num_bins, 2 * self.num_levels + 1)
        return work.draws(work.num_bins + levels * self.noise.masses.shape[1] / 6)

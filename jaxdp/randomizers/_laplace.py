"""Laplace noise on a grid, for a bounded number or for a vector of bounded L1 norm."""

import dataclasses
import decimal
import functools
import itertools
import math
from fractions import Fraction
from typing import ClassVar

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
from ..accounting import PairLaw
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
from ._mean import MeanRandomizer, MeanRound, Tail, check_interval, check_norms, check_scale
from ._pair_laws import laplace_pair_laws

MIN_EPSILON, MAX_EPSILON = 2e-10, 30.0
_DIGITS = decimal.Context(prec=60, Emin=-99999, Emax=99999)


def _check_epsilon(name: str, value: object) -> float:
    """A privacy parameter for which 64 bits of a mass are enough."""
    epsilon = check_epsilon(value, name)
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        raise ValueError(
            f"{name} must be in [{MIN_EPSILON:g}, {MAX_EPSILON:g}], got {value!r}: beyond these "
            "the masses of the noise, of 64 bits, are too coarse."
        )
    return epsilon


@dataclasses.dataclass(frozen=True)
class LaplaceMasses:
    """The masses of two-sided geometric noise on the integers, cut to atoms at both ends.

    `Pr[m] ~ e**(-rate |m|)` for |m| < end, and the whole tails at -end and end: a report that is
    itself cut to [-J, J] has the ratios of the noise at every input in [-J, J], with end = 2 J.

    Attributes:
      half: the masses of 0, 1, .., end in units of 2**-64.
    """

    half: tuple[int, ...]

    @property
    def whole(self) -> tuple[int, ...]:
        """The masses of -end, .., end."""
        return (*self.half[:0:-1], *self.half)

    def tails(self) -> list[int]:
        """The masses of the numbers from 0, 1, .., end on: what falls to a report J."""
        return list(itertools.accumulate(reversed(self.half)))[::-1]

    def worst_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of a report at any two inputs in [-J, J]."""
        inside, tails = self.half[:-1], self.tails()
        return max(Fraction(max(inside), min(inside)), Fraction(tails[0], tails[-1]))

    def worst_step(self) -> Fraction:
        """The largest ratio of the probabilities of a report at inputs one apart."""
        inside, tails = self.half[:-1], self.tails()
        pairs = [*itertools.pairwise(inside), *itertools.pairwise(tails)]
        return max(Fraction(max(pair), min(pair)) for pair in pairs)


@functools.lru_cache(maxsize=256)
def laplace_masses(epsilon: float, num_levels: int, every_step: bool) -> LaplaceMasses:
    """Noise for integers in [-J, J], reports cut to the same range.

    Built from the tail in. A report r has `c(|r - j|)` of the words at the input j, and J all words
    of the noise from J - j on. What privacy asks for is `c(0) <= e**epsilon c(2 J - 1)`, and the
    same for the tails; for vectors, whose entries share the budget, `c(m) <= e**rate c(m + 1)` for
    every single step, and the same for the tails.

    Args:
      epsilon: of two inputs 2 J apart.
      num_levels: J.
      every_step: whether each step must keep to its share of epsilon, for vectors.
    """
    end = 2 * num_levels
    with decimal.localcontext(_DIGITS):
        rate = decimal.Decimal(epsilon) / end
        fall = (-rate).exp()
        # Less than the whole by 2**4, more than what rounding up the atoms takes.
        peak = decimal.Decimal((1 << 64) - (1 << 4)) * (1 - fall) / (1 + fall)
        ideal = [_even(peak * (-rate * m).exp()) for m in range(end)]
        ratio = Fraction(rate.exp()) * (1 - Fraction(1, 10**55))  # below e**rate
    limit = exp_lower(epsilon)
    c = [0] * end
    c[-1] = ideal[-1]
    if every_step:
        atom = math.ceil(c[-1] / (ratio - 1))  # c(end - 1) + atom <= e**rate atom
        tail = atom + c[-1]
        for m in range(end - 2, -1, -1):
            c[m] = min(ideal[m], _even(ratio * c[m + 1]), _even((ratio - 1) * tail))
            tail += c[m]
    else:
        most = _even(limit * c[-1])
        c = [min(each, most) for each in ideal]
        atom = math.ceil(sum(c) / (limit - 1))  # the noise from 0 on, against the atom alone
    # What rounding down has left over goes to the atoms, which makes their ratios smaller. It is
    # even, since all masses are.
    left = (1 << 64) - (c[0] + 2 * sum(c[1:]) + 2 * atom)
    return LaplaceMasses((*c, atom + left // 2))


def _even(number: Fraction | decimal.Decimal) -> int:
    """The number rounded down to an even one."""
    return int(number) // 2 * 2


@spec
class Laplace(MeanRandomizer["LaplaceParams"]):
    """Laplace noise on a grid, for a number in [-bound, bound] or a vector of L1 norm <= bound.

    The input is rounded at random, without bias, to one of the levels j = -J, .., J of size
    `s = bound / J`, for vectors with an L1 norm of at most J. The report is j plus two-sided
    geometric noise, `Pr[m] ~ e**(-epsilon |m| / (2 J))`, in every entry, cut to [-J, J]. A report
    r inside stands for r s, and one at an end for `(J + 1 / (e**(epsilon / (2 J)) - 1)) s`, the
    mean of the tail that was cut: the estimate, the mean, stays unbiased, and a report has log2(2 J
    + 1) bits an entry.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, bit by bit. Noise has a table of integer masses, in which every
        ratio of two inputs is at most e**epsilon; `exact_epsilon()` is the largest of them. Inputs
        outside the range are scaled into it by the params, and NaN counts as 0.
      * Bias: none, up to the rounding of an input to 2**-16 levels and of what an end stands for:
        1e-16 of the bound for epsilon in [0.01, 12], and 1e-6 beyond.
      * Variance of one report: never above `2 (2 bound / epsilon)**2`, that of Laplace noise, up to
        the rounding of inputs, at most `s**2 / 4`. It depends on the input; `variance` is exact.

    Edge cases:
      ==================================  =======================================================
      epsilon outside [2e-10, 30]         ValueError
      bound beyond 1e-20 .. 1e20          ValueError: change the unit of the values
      value out of range                  ValueError from specs and populations; params clamp
                                          numbers, and divide vectors by norm / bound
      ==================================  =======================================================

    Args:
      epsilon: privacy parameter, in [2e-10, 30].
      bound: the largest absolute value, or L1 norm, > 0; rounded to float32.
      dim: None for numbers, d >= 1 for vectors float32[d].
      steps: J, the levels on each side of 0; None for 128, or the power of two above 32 epsilon.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import Laplace
      >>> spec = Laplace(epsilon=1.0)
      >>> spec.exact_epsilon() <= 1.0
      True
      >>> round(spec.worst_case_variance(10**6), 9)
      5.569e-06

    References:
      Dwork, McSherry, Nissim, Smith (2006), Calibrating noise to sensitivity in private data
      analysis; Ghosh, Roughgarden, Sundararajan (2012), Universally utility-maximizing privacy
      mechanisms; Mironov (2012), On significance of the least significant bits for differential
      privacy. The decoding of the ends is derived here.
    """

    epsilon: float = field(
        By(_check_epsilon, (1e-11, 31.0, 0, -1.0, float("nan"), "1", None, True))
    )
    bound: float = field(By(check_scale, (0.0, -1.0, 1e30, float("nan"), "1")), default=1.0)
    dim: int | None = field(Optional(Integer(1)), default=None)
    steps: int | None = field(Optional(Integer(1, 2**12)), default=None)

    @property
    def num_levels(self) -> int:
        """J, the levels on each side of 0."""
        if self.steps is not None:
            return self.steps
        return max(128, 2 ** math.ceil(math.log2(32 * self.epsilon)))

    @property
    def value_shape(self) -> tuple[int, ...]:
        """() for numbers, (dim,) for vectors."""
        return () if self.dim is None else (self.dim,)

    @property
    def largest_value(self) -> float:
        """The largest value, which is the bound."""
        return self.bound

    @property
    def scale(self) -> float:
        """The scale of the Laplace law that the noise comes from, 2 bound / epsilon."""
        return 2 * self.bound / self.epsilon

    def _masses(self) -> LaplaceMasses:
        return laplace_masses(self.epsilon, self.num_levels, self.dim is not None)

    def _facts(self) -> "_Facts":
        return _facts(self.epsilon, self.num_levels, self.dim is not None)

    @property
    def _scale(self) -> np.float32:
        """Parts of a level for 1."""
        return np.float32(self.num_levels * FRACTION / self.bound)

    @property
    def _unit(self) -> float:
        """What a level stands for."""
        return FRACTION / float(self._scale)

    def build(self, word_bits: int = 32) -> "LaplaceParams":
        """The params; the noise needs words of 32 bits."""
        check_int("word_bits", word_bits, low=32, high=32)
        return LaplaceParams(
            NoiseTable.of(self._masses().whole),
            np.asarray(self._scale),
            np.asarray(self._unit),
            np.asarray(self._facts().excess),
            self.num_levels,
            self.dim,
        )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter of the worst report, or of 2 J worst steps, rounded up."""
        check_int("word_bits", word_bits, low=32, high=32)
        masses = self._masses()
        if self.dim is None:
            return log_upper(masses.worst_ratio())
        return log_upper(masses.worst_step() ** (2 * self.num_levels))

    def channel(
        self, word_bits: int = 32, inputs: ArrayLike | None = None
    ) -> list[list[Fraction]] | None:
        """The exact probabilities of the reports of numbers; None for vectors.

        Args:
          word_bits: 32.
          inputs: float32[m]; `extreme_inputs` when None.

        Returns:
          m rows, a column for each of `reports`.
        """
        check_int("word_bits", word_bits, low=32, high=32)
        if self.dim is not None:
            return None
        inputs = self.extreme_inputs() if inputs is None else inputs
        low, other, share = self._levels(np.asarray(inputs, np.float32).reshape(-1))
        masses, size = self._masses(), self.num_levels
        tails = masses.tails()

        def row(level: int) -> list[int]:
            inside = [masses.half[abs(r - level)] for r in range(1 - size, size)]
            return [tails[size + level], *inside, tails[size - level]]

        mixed = []
        for a, b, moved in zip(low.tolist(), other.tolist(), share.tolist(), strict=True):
            weight = Fraction(moved)
            pairs = zip(row(a), row(b), strict=True)
            mixed.append([((1 - weight) * x + weight * y) / 2**64 for x, y in pairs])
        return mixed

    def pair_laws(self) -> tuple[PairLaw, ...]:
        """The two ends, or opposite vectors along an axis: no pair hides less."""
        masses, rate = self._masses(), self.epsilon / (2 * self.num_levels)
        inside, beyond = (
            np.array([mass / 2**64 for mass in part]) for part in (masses.half[:-1], masses.tails())
        )
        return laplace_pair_laws(rate, inside, beyond, self.dim or 1)

    def reports(self) -> np.ndarray | None:
        """-J, .., J; None for vectors."""
        size = self.num_levels
        return None if self.dim is not None else np.arange(-size, size + 1, dtype=np.int32)

    def log_density(self, reports: ArrayLike, value: ArrayLike) -> np.ndarray:
        """The log-probability of reports of a value.

        Args:
          reports: int[n], or int[n, dim].
          value: float[], or float[dim].

        Returns:
          float64[n].
        """
        reports = np.asarray(reports)
        reports = reports.reshape(len(reports), -1)
        value = np.asarray(self.check_value(value), np.float32).reshape(-1)
        levels, weights = _pieces(self._steps(value))
        with np.errstate(divide="ignore"):
            rows, size = np.log(self._facts().rows), self.num_levels
        total = np.full(len(reports), -np.inf)
        for level, weight in zip(levels, weights, strict=True):
            each = rows[level[None, :] + size, reports + size].sum(axis=1)
            total = np.logaddexp(total, each + math.log(weight))
        return total

    def _steps(self, values: np.ndarray) -> Steps:
        """Values as the params see them, on the host; float32[.., d]."""
        steps = _compiled_steps(values, jnp.asarray(self._scale), self.num_levels)
        return Steps(*(np.asarray(x) for x in steps))  # pyright: ignore[reportArgumentType]

    def _levels(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The two levels of each entry, and the probability of the second one."""
        entries = values[:, None] if self.dim is None else values
        steps = self._steps(entries.astype(np.float32))
        crossed = steps.ends % FRACTION / FRACTION
        moved = np.diff(crossed, axis=-1, prepend=0.0)
        low = np.diff(steps.ends // FRACTION, axis=-1, prepend=0)
        other = low + np.sign(moved).astype(np.int32)
        each = steps.signs * low, steps.signs * other, np.abs(moved)
        return tuple(x.reshape(values.shape) for x in each)  # pyright: ignore[reportReturnType]

    def report_variances(self, values: np.ndarray) -> np.ndarray:
        """The variance of each entry of a report, of numbers [k] or vectors [k, d]."""
        low, other, share = self._levels(values)
        noise, size = self._facts().variances, self.num_levels
        each = (1 - share) * noise[low + size] + share * noise[other + size] + share * (1 - share)
        return each * self._unit**2

    def moments(self, value: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the covariance of one report; of numbers, for each of an array."""
        value = self.check_value(value)
        if self.dim is None:
            return value, self.report_variances(value.reshape(-1)).reshape(value.shape)
        levels, weights = _pieces(self._steps(value.astype(np.float32)))
        noise = weights @ self._facts().variances[levels + self.num_levels]
        centred = levels - weights @ levels
        covariance = np.diag(noise) + centred.T @ (weights[:, None] * centred)
        return value, self._unit**2 * covariance

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The exact variance of each entry of the mean, float64 of the shape of a value.

        Args:
          counts: int[k], the number of users with each value.
          inputs: float[k] or float[k, dim], the values.
        """
        counts, inputs = self.check_inputs(counts, inputs)
        return np.asarray(
            np.tensordot(counts, self.report_variances(inputs), 1) / counts.sum() ** 2
        )

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest variance of an entry of the mean, over all data sets; exact."""
        n = check_int("num_users", num_users, low=1)
        low, high = self._facts().variances[:-1], self._facts().variances[1:]
        # Between levels it is low + (high - low) f + f (1 - f), largest where its slope is 0.
        share = np.clip((1 + high - low) / 2, 0.0, 1.0)
        worst = np.max(low + (high - low) * share + share * (1 - share))
        return Prediction(float(worst) * self._unit**2 / n)

    def tail(self) -> Tail:
        """Bernstein's inequality for the bounded noise, and Hoeffding's for the rounding."""
        facts = self._facts()
        largest = 2 * self.num_levels + facts.excess
        rounding = 1 if self.dim is None else self.dim  # the squared norm of rounding errors
        variance = float(np.max(facts.variances)) + rounding
        return Tail(variance * self._unit**2, largest * self._unit / 3)

    def check_range(self, name: str, values: np.ndarray) -> None:
        """Raises unless numbers, or the L1 norms of vectors, are within the bound."""
        if self.dim is None:
            check_interval(name, values, self.bound)
        else:
            check_norms(name, values, "bound", self.bound, order=1)

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are numbers, or vectors, within the bound."""
        if self.dim is None:
            population.require_reals((), low=-self.bound, high=self.bound)
        else:
            population.require_ball(self.dim, self.bound, order=1, name="bound")
        self.check_total(population)


class _Facts:
    """Numbers about the noise, in units of a level.

    Attributes:
      excess: what a report at an end stands for, minus J: where the input J has the mean J.
      rows: the probabilities of the reports of each level, float64[2 J + 1, 2 J + 1].
      variances: of a decoded report of each level, float64[2 J + 1].
    """

    def __init__(self, masses: LaplaceMasses, size: int):
        tails, half = masses.tails(), masses.half
        # At the input J: J = mean inside + (J + excess) (Pr[report J] - Pr[report -J]).
        mean = sum(r * (half[size - r] - half[size + r]) for r in range(1, size))
        ends = tails[0] - tails[-1]  # of J less of -J, at the input J
        self.excess = float(Fraction(size * 2**64 - mean, ends) - size)
        levels = np.arange(-size, size + 1)
        table = np.array([mass / 2**64 for mass in half])
        self.rows = table[np.abs(levels[None, :] - levels[:, None])]
        beyond = np.array([mass / 2**64 for mass in tails])
        self.rows[:, -1], self.rows[:, 0] = beyond[size - levels], beyond[size + levels]
        decoded = levels.astype(np.float64)
        decoded[[0, -1]] += np.array([-1, 1]) * self.excess
        self.variances = self.rows @ decoded**2 - levels.astype(np.float64) ** 2


@functools.lru_cache(maxsize=64)
def _facts(epsilon: float, num_levels: int, every_step: bool) -> _Facts:
    return _Facts(laplace_masses(epsilon, num_levels, every_step), num_levels)


_compiled_steps = jax.jit(steps_of, static_argnums=2)


def _pieces(steps: Steps) -> tuple[np.ndarray, np.ndarray]:
    """The levels that one vector may be rounded to, int[m, d], and their probabilities."""
    crossing = np.unique(FRACTION - steps.ends % FRACTION)
    starts = np.concatenate([[0], crossing[crossing < FRACTION]])
    weights = np.diff(np.append(starts, FRACTION)) / FRACTION
    return np.stack([np.asarray(steps.levels(jnp.int32(at))) for at in starts]), weights


@params
class LaplaceParams(MeanRound):
    """The params of `Laplace`: a pytree.

    Attributes:
      noise: the law of the noise, on -2 J, .., 2 J.
      scale: float32[], parts of a level for 1 in a value.
      unit: float64[], what a level stands for.
      excess: float64[], what a report at an end stands for, minus J, in levels.
      num_levels: J, static.
      dim: None for numbers; static.
    """

    bit_private: ClassVar[bool] = True

    noise: NoiseTable
    scale: Float32[Array | np.ndarray, ""]
    unit: Float[Array | np.ndarray, ""]
    excess: Float[Array | np.ndarray, ""]
    num_levels: int = static()
    dim: int | None = static(default=None)

    @property
    def largest_value(self) -> Float[Array | np.ndarray, ""]:
        """The largest value, which is the bound."""
        return self.num_levels * FRACTION / self.scale

    @property
    def _entries(self) -> int:
        return 1 if self.dim is None else self.dim

    @property
    def num_words(self) -> int:
        """For each entry one for the noise, one for rounding, and for each one for a tie."""
        return 2 * self._entries + 1

    def check_size(self, population: Population, most: float) -> None:
        """Raises ValueError where numbers are beyond the bound, or vectors in the L1 norm."""
        if self.dim is None:
            super().check_size(population, most)
        else:
            population.require_ball(self.dim, most, order=1, name="bound")

    @property
    def largest_report(self) -> int:
        """J, the highest level."""
        return self.num_levels

    @property
    def value_shape(self) -> tuple[int, ...]:
        """() for numbers, (dim,) for vectors."""
        return () if self.dim is None else (self.dim,)

    def _inside(self, values: jax.Array) -> Steps:
        entries = values[..., None] if self.dim is None else values
        return steps_of(entries, jnp.asarray(self.scale), self.num_levels)

    def from_bits(self, words: Words, value: Float[Array, "..."], /) -> Int32[Array, "..."]:
        """One user's report; values beyond the bound are scaled into it, NaN counts as 0."""
        d = self._entries
        noise = self.noise.alias.draw(words[0:d], words[d + 1 : 2 * d + 1])
        return self._noisy(self._levels(words[d], value), noise).reshape(self.value_shape)

    @property
    def draft(self) -> Draft:
        """Without the words for ties."""
        return Draft(self._entries + 1, self._draft)

    def _draft(
        self, words: UInt32[Array, "w n"], values: Float[Array, "n ..."]
    ) -> Int32[Array, "... n"]:
        def report(levels: jax.Array, words: jax.Array) -> jax.Array:
            noise, sure = self.noise.alias.draft(words)
            return jnp.where(sure, self._noisy(levels, noise), Draft.UNSURE)

        entries = values[:, None] if self.dim is None else values
        d, scale = self._entries, jnp.asarray(self.scale)
        reports = reports_by_entry(entries, scale, self.num_levels, words[d], words[0:d], report)
        return reports.reshape(*self.value_shape, -1)

    def _levels(self, words: jax.Array, values: jax.Array) -> jax.Array:
        """The levels of values, rounded by the lower halves of words."""
        return self._inside(values).levels(dither_of(words))

    def _noisy(self, levels: jax.Array, noise: jax.Array) -> jax.Array:
        """Levels plus noise, which is shifted to start at 0, cut to [-J, J]."""
        size = np.int32(self.num_levels)
        return jnp.clip(levels + noise - 2 * size, -size, size)

    def _ends(self, reports: Int32[Array, "*n"]) -> Int32[Array, "*n"]:
        """1 at J and -1 at -J."""
        return jnp.where(jnp.abs(reports) == np.int32(self.num_levels), jnp.sign(reports), 0)

    def tally(
        self, reports: Int32[Array, "n ..."], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Count]:
        """{"sum": Count[...] in levels, "ends": Count[...] at J minus those at -J, "users"}."""
        ends = sum_integers(self._ends(reports), 1, mask)
        return {**MeanRound.tally(self, reports, mask), "ends": ends}

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, "..."]:
        """The estimated mean of the users' values."""
        excess, unit = (jnp.asarray(x).astype(jnp.float64) for x in (self.excess, self.unit))
        total = outcome["sum"].f64() + excess * outcome["ends"].f64()
        return total * (unit / outcome["users"].f64())

    def decode(self, reports: Int32[Array, "*n m"]) -> Float[Array, "*n d"]:
        """The unbiased estimates that single reports stand for, in float32."""
        ends = self._ends(reports).astype(jnp.float32) * jnp.asarray(self.excess, jnp.float32)
        unit = jnp.asarray(self.unit, jnp.float32)
        return (reports.astype(jnp.float32) + ends) * unit

    @property
    def law(self) -> TallyLaw[dict[str, Count]]:
        """Levels and their reports, each a multinomial."""
        return TallyLaw(self._draw, self._cost)

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        size, reports = self.num_levels, 2 * self.num_levels + 1
        levels_key, reports_key = jax.random.split(key)
        levels, users = count_levels(levels_key, counts, self._inside(jnp.asarray(inputs)))
        p = self.noise.probabilities()
        below, above = jnp.cumsum(p), jnp.cumsum(p[::-1])[::-1]

        def row(level: jax.Array) -> jax.Array:
            inside = jax.lax.dynamic_slice(p, (size - level,), (reports,))
            return inside.at[0].set(below[size - level]).at[-1].set(above[3 * size - level])

        numbers = np.arange(-size, size + 1)
        ends = np.where(np.abs(numbers) == size, np.sign(numbers), 0)
        values = jnp.asarray(np.stack([numbers, ends]), jnp.int32)
        sums = sum_reports(reports_key, levels, users, size, row, values)
        total, at_ends = (sums[i].reshape(self.value_shape) for i in range(2))
        return {"sum": total, "ends": at_ends, "users": counts.sum()}

    def _cost(self, work: Work) -> float:
        d, reports = self._entries, 2 * self.num_levels + 1
        # The levels of an entry, of either sign: of d entries few are far above J / d.
        levels = min(2 * work.num_bins, reports, 2 * self.num_levels // d + 2)
        # A binomial for each report takes less than one alone: most are of few users.
        return work.draws(work.num_bins * d + d * levels * reports / 6)

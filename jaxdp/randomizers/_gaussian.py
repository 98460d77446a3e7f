"""Gaussian noise on a grid, for vectors in a Euclidean ball."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Float32, Int32, UInt32
from numpy.typing import ArrayLike

from .._bits import FRACTION, dithered, rounded, to_even
from .._checks import By, Choice, Epsilon, Optional, Real
from .._contract import (
    Draft,
    Population,
    Summed,
    TallyLaw,
    Tree,
    Words,
    Work,
    field,
    params,
    spec,
    static,
)
from .._prediction import Prediction
from .._spec import check_counts, check_int, check_real
from .._x64 import compiled_in_float64
from ..accounting import ShuffleBracket, dithered_gaussian_delta, gaussian_sigma
from ..random import Count, FlatWords, NormalNoise, normal
from ._gaussian_shuffle import HiddenNoise, hidden_noise
from ._mean import (
    MeanRandomizer,
    MeanRound,
    SelfMoments,
    Tail,
    added_up,
    check_norms,
    into_unit_ball,
    over_rows,
)
from ._vector import DIM, RADIUS

_STEPS = (2**8, 2**10, 2**12, 2**15, 2**17, 2**19)  # in sigma; from 2**13 on two tables
_LARGEST_INPUT = 2**14  # in grid steps, so that the parts of a step fit an int32


def check_steps(name: str, value: object) -> int:
    """A power of two from 2**6 to 2**19."""
    steps = check_int(name, value, low=2**6, high=_STEPS[-1])
    if steps & (steps - 1):
        raise ValueError(f"{name} must be a power of two, got {value!r}.")
    return steps


def _norm_excess(dim: int) -> float:
    """By how much float32 may leave a scaled vector longer than the radius, relatively.

    A sum of d squares, in any order, is off by a relative d 2**-24; the few other operations by
    2**-24 each.
    """
    return (dim + 16) * 2.0**-24


def _longer(dim: int, radius: float, step: float) -> float:
    """By how much a vector in parts of a grid step may be longer than the radius."""
    # Half a part of each entry, besides.
    return radius * _norm_excess(dim) + math.sqrt(dim) * step / (2 * FRACTION)


def rounded_delta(
    epsilon: float,
    sigma: float,
    radius: float,
    noise: NormalNoise,
    dim: int,
    diameter: float | None = None,
) -> float:
    """A bound on the delta of noise from tables, for inputs that are rounded at random to a grid.

    Args:
      epsilon: privacy parameter.
      sigma: of the noise.
      radius: of the ball; a little more is taken, for float32.
      noise: in grid steps.
      dim: d.
      diameter: the largest distance of two inputs; 2 radius when None.
    """
    step = sigma / noise.steps
    apart = radius if diameter is None else diameter / 2
    r = apart + _longer(dim, radius, step)
    dithered = dithered_gaussian_delta(epsilon, 2 * r, sigma, step, dim)
    return dithered + table_delta(epsilon, noise, dim)


def table_delta(epsilon: float, noise: NormalNoise, dim: int) -> float:
    """What the distance of the noise from a rounded Gaussian adds to delta."""
    return (1 + math.exp(min(epsilon, 700.0))) * dim * noise.distance


@spec
class Gaussian(MeanRandomizer["GaussianParams"]):
    """Gaussian noise for vectors of L2 norm at most radius, in whole steps of a grid.

    In steps s of the grid, the report is `floor(x / s + u) + m`: u are independent dithers, which
    round without bias, and m is a normal of standard deviation sigma / s, rounded to an integer. m
    comes from a table of exact masses, so a report tells nothing but its law in its last bits. The
    estimate is the mean.

    In the local model any two inputs are neighbours, so the sensitivity is the diameter of the set
    of inputs: 2 radius, unless they are known to be closer. With `calibration="analytic"` sigma is
    the least for which the mechanism is (epsilon, delta)-LDP, grid included. `"as_printed"` keeps
    the `sigma**2 = 2 r**2 log(2 / delta) / epsilon**2` of Bassily's Algorithm 1 for study.

    Formal guarantees:
      * Privacy: (epsilon, exact_delta())-LDP, see `jaxdp.accounting.dithered_gaussian_delta`.
        Analytic: `exact_delta() <= delta`; the grid costs about 0.3 % of sigma at the default
        steps. As printed it is NOT (epsilon, delta)-LDP: at epsilon = 1, delta = 1e-6 its true
        delta is 6.5e-4. Vectors beyond the ball are scaled to its surface by the params; NaN counts
        as 0.
      * Shuffled reports: `shuffle_bracket`, by `jaxdp.accounting.gaussian_pairs`; the rounding of
        inputs costs a sixth to a quarter of epsilon at 2**8 steps, a hundredth at 2**12.
      * Bias: none, up to the rounding of an input to 2**-16 steps and to float32.
      * Variance: `sigma**2 + s**2 / 4` for each entry of a report; for a given input it is exact
        up to `s**2 / 6`, less than 3e-6 of it.

    Edge cases:
      ==================================  =======================================================
      more than 2**14 steps in radius     ValueError: pin fewer steps
      grid too coarse for epsilon, delta  ValueError: pin more steps
      epsilon above 20 at delta = 1e-6    ValueError: probabilities are multiples of 2**-64
      radius beyond 1e-20 .. 1e20         ValueError: change the unit of the values
      norm above radius                   ValueError from specs and populations; params scale it
      diameter above 2 radius             ValueError
      inputs farther apart than diameter  not refused: privacy then is that of their distance
      users times reach above 2**63       ValueError: sums are kept in 63 bits
      ==================================  =======================================================

    Args:
      dim: d, the dimension, 1 to 2**20.
      epsilon: privacy parameter, > 0.
      delta: probability, in (0, 1), with which the privacy loss may exceed epsilon.
      radius: r, the largest L2 norm, > 0; rounded to float32.
      calibration: "analytic" or "as_printed".
      steps: grid steps in sigma, a power of two from 2**6 to 2**19; None for the fewest of 2**8,
        2**10, 2**12, 2**15, 2**17 and 2**19 that cost less than 1 % of sigma. Small epsilons and
        many dimensions need fine grids. Pin it where params of several epsilons are stacked.
      diameter: the largest L2 distance of two inputs, where that is less than 2 radius, such as
        among the columns of a matrix; None for 2 radius.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import Gaussian
      >>> spec = Gaussian(dim=3, epsilon=1.0, delta=1e-6)
      >>> round(spec.sigma, 2), spec.exact_delta() <= 1e-6
      (8.46, True)
      >>> printed = Gaussian(dim=3, epsilon=1.0, delta=1e-6, calibration="as_printed")
      >>> round(printed.sigma, 3), round(printed.exact_delta(), 5)
      (5.387, 0.00065)

    References:
      Balle, Wang (2018), Improving the Gaussian mechanism for differential privacy; Bassily (2019),
      Linear queries estimation with local differential privacy, Algorithm 1. Erratum: Theorem 3.1
      there calibrates to the sensitivity r of one vector against zero; two vectors of norm r are up
      to 2 r apart. The bound for dithered inputs is derived here.
    """

    dim: int = field(DIM)
    epsilon: float = field(Epsilon())
    delta: float = field(Real(0.0, 1.0))
    radius: float = field(RADIUS, default=1.0)
    calibration: str = field(Choice("analytic", "as_printed"), default="analytic")
    steps: int | None = field(Optional(By(check_steps, (0, 96, 2**20, 1.5, "1"))), default=None)
    diameter: float | None = field(Optional(Real(0.0, math.inf)), default=None)

    def validate(self) -> None:
        """Raises ValueError where no grid fits the noise."""
        if self.diameter is not None and self.diameter > 2 * self.radius:
            raise ValueError(
                f"diameter must be at most 2 radius = {2 * self.radius:g}, got {self.diameter!r}; "
                "leave it out for all of the ball."
            )
        if self.diameter is not None and self.diameter < 1e-20 * self.radius:
            raise ValueError(
                f"diameter must be at least 1e-20 radius, got {self.diameter!r}: no grid is fine "
                "enough for noise of that size."
            )
        unit = self.radius / self._step
        if unit > _LARGEST_INPUT:
            raise ValueError(
                f"steps must be at most {_LARGEST_INPUT * self.sigma / self.radius:.3g} for "
                f"epsilon = {self.epsilon:g} and delta = {self.delta:g}, so that radius has "
                f"{_LARGEST_INPUT} grid steps at most; got {self.num_steps:g}. With noise so small "
                "compared with radius, lower epsilon."
            )

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of a value, (dim,)."""
        return (self.dim,)

    @property
    def largest_value(self) -> float:
        """The largest norm of a value, which is the radius."""
        return self.radius

    @property
    def noise(self) -> NormalNoise:
        """The noise in grid steps."""
        return NormalNoise.of(self._grid()[0])

    @property
    def num_steps(self) -> float:
        """Grid steps in sigma."""
        return self.noise.steps

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise in each entry, before it is rounded to the grid."""
        return self.num_steps * self._step

    @property
    def _step(self) -> float:
        """The size of a grid step, as float32 realises it: rounded up."""
        return self.radius * FRACTION / float(self._scale)

    @property
    def _scale(self) -> np.float32:
        """Parts of a grid step in radius: rounded down, so that a step is rounded up."""
        exact = self.radius / self._grid()[1] * self.num_steps * FRACTION
        nearest = np.float32(exact)
        return nearest if float(nearest) <= exact else np.nextafter(nearest, np.float32(0))

    def _grid(self) -> tuple[int, float]:
        """The nominal steps in sigma, and sigma."""
        if self.calibration == "as_printed":
            sigma = self.radius * math.sqrt(2 * math.log(2 / self.delta)) / self.epsilon
            return self.steps or _STEPS[0], sigma
        distances = self.radius, self.diameter
        return _calibrated(self.dim, self.epsilon, self.delta, *distances, self.steps)

    def build(self, word_bits: int = 32) -> "GaussianParams":
        """The params; the sampler needs words of 32 bits."""
        check_int("word_bits", word_bits, low=32, high=32)
        noise = self.noise
        reach = max(2 * math.ceil(noise.steps), math.ceil(self.radius / self._step) + 2)
        return GaussianParams(
            noise,
            np.asarray(self._scale),
            np.asarray(self.radius, np.float32),
            np.asarray(self._step),
            self.dim,
            reach + noise.reach,
        )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The epsilon at which `exact_delta()` holds: `epsilon` itself."""
        check_int("word_bits", word_bits, low=32, high=32)
        return self.epsilon

    def exact_delta(self) -> float:
        """A proven delta at which the mechanism as built is (epsilon, delta)-LDP."""
        distances = self.radius, self.noise, self.dim, self.diameter
        return min(rounded_delta(self.epsilon, self.sigma, *distances), 1.0)

    def composed_delta(self, num_reports: int, epsilon: float) -> float:
        """A proven delta at which several reports of one user are (epsilon, delta)-LDP together.

        Each is of an input of its own. k reports are one of k d entries, whose noise and grid are
        the same and whose inputs are sqrt(k) times as far apart.

        Args:
          num_reports: k, at least 1.
          epsilon: of all of them, >= 0.
        """
        k = check_int("num_reports", num_reports, low=1)
        epsilon = check_real("epsilon", epsilon, low=0.0, open_ends=False)
        further = math.nextafter(math.sqrt(k), math.inf)
        diameter = None if self.diameter is None else further * self.diameter
        given = further * self.radius, self.noise, k * self.dim, diameter
        return min(rounded_delta(epsilon, self.sigma, *given), 1.0)

    def shuffle_bracket(self, num_users: int, delta: float) -> ShuffleBracket:
        """Bounds of the epsilon of shuffled reports, by `accounting.gaussian_pairs`.

        `upper` is inf where nothing is proven at so small a delta: many dimensions or little noise
        leave next to no blanket, and many users add up the distances of their tables from a normal.
        """
        found = self._hidden().bracket(num_users, delta)
        alone = self.epsilon if self.exact_delta() <= delta else math.inf
        return dataclasses.replace(found, upper=min(found.upper, alone))

    def shuffle_delta(self, num_users: int, epsilon: float) -> float:
        """A proven delta of shuffled reports, by `accounting.gaussian_pairs`; or that of one."""
        alone = self.composed_delta(1, epsilon)
        return min(alone, self._hidden().delta(num_users, epsilon))

    def _hidden(self) -> HiddenNoise:
        apart, around = self.radius, self.radius
        if self.diameter is not None:
            # A set of diameter D has a ball around it of radius D / sqrt(2) (Jung's theorem).
            apart, around = self.diameter / 2, min(self.radius, self.diameter / math.sqrt(2))
        longest = around + _longer(self.dim, self.radius, self._step)
        return hidden_noise(self.dim, apart, longest, self.sigma, self._grid()[0])

    def log_density(self, reports: ArrayLike, value: ArrayLike) -> np.ndarray:
        """The log-probability of reports of a value.

        Args:
          reports: int[n, dim].
          value: float[dim].

        Returns:
          float64[n].
        """
        parts = self._parts(self.check_value(value)[None])[0]
        low, share = parts // FRACTION, parts % FRACTION / FRACTION
        at, above = (self.noise.log_mass(np.asarray(reports) - low - i) for i in (0, 1))
        with np.errstate(divide="ignore"):
            return np.logaddexp(np.log(1 - share) + at, np.log(share) + above).sum(axis=1)

    def _parts(self, values: np.ndarray) -> np.ndarray:
        """Vectors as the params see them, in parts of a grid step, on the host; int32[k, dim]."""
        return np.asarray(self.build()._parts(jnp.asarray(values, jnp.float32)))

    @property
    def _variance(self) -> float:
        # Rounding the noise adds 1/12, rounding the input between 0 and 1/4, 1/6 on average.
        return self.sigma**2 + self._step**2 / 4

    def covariance_form(self) -> tuple[float, float]:
        """The variance of an entry, and 0."""
        return self._variance, 0.0

    def tail(self) -> Tail:
        """Sub-Gaussian: a rounded normal with `sigma**2 + s**2 / 12`, a dither with `s**2 / 4`."""
        return Tail(self.sigma**2 + self._step**2 / 3, 0.0)

    def self_moments(self, means: np.ndarray, weights: np.ndarray) -> SelfMoments:
        """The moments of `z^T D z` for normal z: E[q z] = 0, `Var q = 2 sigma**4 |D|**2`."""
        fourth = np.full(len(means), 2 * self._variance**2 * np.sum(weights**2))
        return SelfMoments(np.zeros(means.shape), fourth)

    def moments(self, value: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the covariance of one report: the value, and a multiple of I."""
        return self.check_value(value), self._variance * np.eye(self.dim)

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The variance of each entry of the mean, float64[dim].

        Args:
          counts: int[k], the number of users with each value.
          inputs: float[k, dim], the values; may be None, since the variance is the same for all of
            them.
        """
        counts = check_counts(counts).ravel()
        if inputs is not None:
            self.check_inputs(counts, inputs)
        return np.full(self.dim, self._variance / counts.sum())

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The variance of an entry of the mean, the same for every data set."""
        return Prediction(self._variance / check_int("num_users", num_users, low=1))

    def check_range(self, name: str, values: np.ndarray) -> None:
        """Raises unless vectors are in the ball."""
        check_norms(name, values, "radius", self.radius)

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are vectors in the ball."""
        population.require_ball(self.dim, self.radius)
        self.check_total(population)


@functools.lru_cache(maxsize=256)
def _calibrated(
    dim: int,
    epsilon: float,
    delta: float,
    radius: float,
    diameter: float | None,
    steps: int | None,
) -> tuple[int, float]:
    """The nominal steps in sigma, and the least sigma whose `rounded_delta` is at most delta."""
    least = gaussian_sigma(epsilon, delta, 2 * radius if diameter is None else diameter)
    # Of the grids that `validate` accepts; the smallest where there is none, which it then refuses.
    fine = tuple(n for n in _STEPS if n * radius <= _LARGEST_INPUT * least) or _STEPS[:1]
    for number in (steps,) if steps else fine:
        noise = NormalNoise.of(number)

        def bound(factor: float, noise: NormalNoise = noise) -> float:
            return rounded_delta(epsilon, least * factor, radius, noise, dim, diameter)

        pinned = steps is not None or number == fine[-1]
        for most in (1.01, 1.1, 1.3, 2.0) if pinned else (1.01,):
            if bound(most) <= delta:
                return number, least * _smallest(bound, delta, most)
    if table_delta(epsilon, NormalNoise.of(_STEPS[0]), dim) > delta / 2:
        raise ValueError(
            f"epsilon must be smaller for dim = {dim} and delta = {delta:g}, got {epsilon:g}: the "
            "probabilities of the noise are multiples of 2**-64; lower epsilon, or raise delta."
        )
    raise ValueError(
        f"steps must be larger for dim = {dim}, epsilon = {epsilon:g} and delta = {delta:g}, got "
        f"{steps}: the rounding of inputs to the grid takes all of delta; pin more steps, or take "
        "fewer dimensions or a larger delta."
    )


def _smallest(bound: Callable[[float], float], delta: float, most: float) -> float:
    """The smallest number in [1, most] with a bound of delta, to 1e-9, rounded up."""
    low, high = 1.0, most
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (low, middle) if bound(middle) <= delta else (middle, high)
    return high


@params
class GaussianParams(MeanRound):
    """The params of `Gaussian`: a pytree.

    Attributes:
      noise: in grid steps.
      scale: float32[], parts of a grid step in radius.
      radius: float32[], the largest norm.
      unit: float64[], the size of a grid step.
      dim: d, static.
      reach: the largest report, static.
    """

    bit_private: ClassVar[bool] = True

    noise: NormalNoise
    scale: Float32[Array | np.ndarray, ""]
    radius: Float32[Array | np.ndarray, ""]
    unit: Float[Array | np.ndarray, ""]
    dim: int = static()
    reach: int = static()

    @property
    def largest_value(self) -> Float[Array | np.ndarray, ""]:
        """The largest norm of a value, which is the radius."""
        return self.radius

    @property
    def num_words(self) -> int:
        """For each entry half of one for its dither, and one or two for its noise and for ties."""
        return 2 * self.noise.levels * self.dim + self._dither_words

    @property
    def _dither_words(self) -> int:
        return -(-self.dim // 2)

    @property
    def largest_report(self) -> int:
        """The reach of the noise, and of an input."""
        return self.reach

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of a value, (dim,)."""
        return (self.dim,)

    def user_cost(self, work: Work) -> float:
        """Nanoseconds of a user, roughly: table draws cost about what words do."""
        return work.words(2.0 + 2.0 * self.noise.levels * self.dim)

    def _parts(self, values: Float[Array, "*k d"]) -> Int32[Array, "*k d"]:
        """Vectors in parts of a grid step."""
        return to_even(into_unit_ball(values, self.radius) * self.scale).astype(jnp.int32)

    def from_bits(self, words: Words, value: Float[Array, " d"], /) -> Int32[Array, " d"]:
        """One user's report; a value beyond the ball is scaled into it, NaN counts as 0."""
        size = self.dim * self.noise.levels
        ties = size + self._dither_words
        pair = words[0:size].reshape(-1, self.dim), words[ties : ties + size].reshape(-1, self.dim)
        return rounded(self._parts(value), words[size:ties]) + self.noise.draw(*pair)

    @property
    def draft(self) -> Draft:
        """Without the words for ties."""
        return Draft(self.dim * self.noise.levels + self._dither_words, self._draft)

    def _draft(
        self, words: UInt32[Array, "w n"], values: Float[Array, "n d"]
    ) -> Int32[Array, "d n"]:
        size, users = self.dim * self.noise.levels, words.shape[1]
        noise, sure = self.noise.draft(words[0:size].reshape(-1, self.dim, users))
        reports = rounded(self._parts(values).T, words[size:]) + noise
        return jnp.where(sure, reports, Draft.UNSURE)

    @property
    def summed(self) -> Summed[dict[str, Count]]:
        """The sum of the reports."""
        dim, levels, half = self.dim, self.noise.levels, self._dither_words
        ties = dim * levels + half

        def numbers(
            words: FlatWords, values: Float[Array, "n d"], alone: tuple[()]
        ) -> Int32[Array, "n d"]:
            del alone
            shape = values.shape
            # An entry of the upper half of a vector has the upper half of the dither's word.
            upper = lax.broadcasted_iota(jnp.uint32, shape, 1) >= np.uint32(half)
            both = words.repeated(dim * levels, half, dim).reshape(shape)
            dithers = jnp.where(upper, both >> np.uint32(16), both & np.uint32(FRACTION - 1))

            def level(start: int, i: int) -> UInt32[Array, "n d"]:
                return words[start + i * dim : start + (i + 1) * dim].reshape(shape)

            firsts = [level(0, i) for i in range(levels)]
            noise, sure = self.noise.draft(firsts)
            noise = words.quick(
                sure,
                lambda: noise,
                lambda: self.noise.draw(firsts, [level(ties, i) for i in range(levels)]),
            )
            return dithered(self._parts(values), dithers) + noise

        return Summed(numbers, dim, self.reach, added_up)

    @property
    def law(self) -> TallyLaw[dict[str, Count]]:
        """A normal of the exact mean and variance of the sum.

        The characteristic functions of the noise and of a normal differ by the cumulants of the
        dithers alone: an entry's total variation is at most 0.02 over the cube of the steps in
        sigma (Fourier inversion with the weight 1 + k**2).
        """
        return TallyLaw(self._draw, self._cost, distance=0.02 * self.dim / self.noise.steps**3)

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        users, parts = counts.sum(), self._parts(jnp.asarray(inputs))
        shares = (parts & np.int32(FRACTION - 1)).astype(jnp.float64) / FRACTION
        mean = over_rows(counts.f64(), parts.astype(jnp.float64)) / FRACTION
        dithers = over_rows(counts.f64(), shares * (1 - shares))
        spread = jnp.sqrt(users.f64() * self.noise.variance + dithers)
        total = mean + spread * normal(jax.random.fold_in(key, 0), (self.dim,))
        return {"sum": Count.from_float(jnp.rint(total)), "users": users}

    def _cost(self, work: Work) -> float:
        return work.words((100.0 + work.num_bins) * self.dim)

"""Bassily's Gaussian rejection sampling, repaired and as printed."""

import math
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, Bool, Float, Float32, Int32
from numpy.typing import ArrayLike

from .._checks import Choice, Epsilon, Integer, Optional, Real
from .._contract import Population, TallyLaw, Tree, Words, Work, field, params, spec, static
from .._prediction import Prediction
from .._spec import check_int, check_real
from .._x64 import compiled_in_float64
from ..accounting import PairLaw
from ..random import Count, binomial, everyone, multinomial, normal, standard_normal
from ..random._rejection import uniforms
from ._exact import exp_lower, log_upper
from ._gaussian_rejection_law import (
    Pieces,
    absolute_moment,
    best_level,
    clipped_pair_laws,
    clipped_pieces,
    marginal_acceptance,
    ratio_error,
    truncated_pieces,
)
from ._mean import (
    MeanRandomizer,
    MeanRound,
    Tail,
    check_norms,
    into_unit_ball,
    over_rows,
)
from ._pair_laws import MOST_SHUFFLED_EPSILON
from ._sphere import WORDS
from ._vector import DIM, GRID, RADIUS

MOST = 2**32 - 2**8
"""The largest float32 below 2**32: as many words keep a report at most."""
_REACH = 16  # standard deviations that an entry of y stays below
_LANES = 2**8  # of a block of `_sums`, small since trials may run side by side


class KeptLaw(NamedTuple):
    """How a report of a vector of some norm is kept, and its coordinate along the vector.

    Attributes:
      probability: of being kept.
      mean: of the coordinate, if kept.
      variance: of the coordinate, if kept; across the vector it is sigma**2.
    """

    probability: float
    mean: float
    variance: float


@spec
class GaussianRejection(MeanRandomizer["GaussianRejectionParams"]):
    """Send a Gaussian vector that ignores your input, or drop out, as rejection sampling tells you.

    The user draws y ~ N(0, sigma**2 I), and keeps it with a probability that grows with the
    likelihood ratio `e**l` of N(x, sigma**2 I) to N(0, sigma**2 I) at y, so that a kept report
    leans towards x. A report is y on a grid of 2**10 steps for sigma, and 1; or zeros if dropped.

    `"repaired"`: x is padded by one coordinate to the norm r = radius (y has it too, and it is not
    sent), and y is kept with probability `clip(A e**l, a, a')`, `a' / a <= e**epsilon`, `a'` almost
    1. The estimate is `gain * sum of kept y / n`. A is the one of least variance. The smaller sigma
    is, the nearer the clip is to a step and the variance to its infimum; the default r / 8 is
    within 1 % of it for epsilon <= 4. `"as_printed"`: Bassily's Algorithm 3, for study. No padding,
    probability `e**l / 2` where `|l| <= epsilon / 4` and 0 elsewhere,
    `sigma**2 = 4 r**2 log(n) / epsilon**2`; the estimate is the average of the kept y.

    Formal guarantees, repaired:
      * Privacy: pure epsilon-LDP. Whatever y is, the probability of keeping it is a multiple of
        2**-32 between bounds whose ratio is at most e**epsilon, exactly; that of dropping out is
        the same for all inputs, since all have norm r (in real arithmetic). `PrivUnitG` has a
        variance 1.3 / 1.6 / 2.7 times smaller at epsilon = 0.5 / 1 / 2.
      * Bias: none.
      * Variance, exact: with P = Pr[kept] and m, s the means of t and t**2 over kept reports times
        P, t = <y, x> / (sigma r), entry j of one report has
        `r**2 P / m**2 + ((s - P) / m**2 - 1) x_j**2`.
    As printed:
      * Privacy: NOT pure LDP. A y that one input never keeps is kept by another: at n = 1e4,
        epsilon = 1, 6.5 % of the reports of a zero vector are impossible for a vector of norm r,
        and 1.3 % of all reports (3 % of those sent) of one vector for its opposite.
        `exact_epsilon()` is inf.
      * Bias: kept reports average 0.78 x at n = 1e4, epsilon = 1, `|x| = r`, and vectors of
        different norm have different weights.
      * `variance` is the exact mean squared error, that bias included; the estimate is 0 if nobody
        is kept. `worst_case_variance` is a bound.

    Edge cases:
      ==================================  =======================================================
      epsilon outside [1e-4, 20]          ValueError
      as printed, epsilon above 4 log 2   ValueError: the probability e**l / 2 would exceed 1
      norm above radius                   ValueError from specs and populations; params scale it
      NaN                                 counts as 0
      more than 2**42 users               ValueError: sums are kept in 63 bits
      ==================================  =======================================================

    Args:
      dim: d, the dimension, >= 1.
      epsilon: privacy parameter.
      radius: r, the largest L2 norm, > 0; rounded to float32.
      variant: "repaired" or "as_printed".
      num_users: n of the printed sigma, >= 2; None for the repaired variant.
      noise: sigma / radius in [1/16, 1e4]; None for 1/8, or for the printed one.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import GaussianRejection
      >>> spec = GaussianRejection(dim=3, epsilon=1.0)
      >>> spec.exact_epsilon() <= 1.0
      True
      >>> printed = GaussianRejection(3, 1.0, variant="as_printed", num_users=10**4)
      >>> law = printed.kept_law(norm=1.0)
      >>> round(printed.sigma, 3), round(law.probability, 4), round(law.mean, 4)
      (6.07, 0.4348, 0.78)

    References:
      Bassily (2019), Linear queries estimation with local differential privacy, Algorithms 3 and 4.
      Errata: the proof of Theorem 3.3 bounds the ratio of the probabilities of dropping out and
      forgets that y is sent along; its sigma suits a `|l|` up to epsilon, where the algorithm cuts
      at epsilon / 4 (16 times the variance would be needed); the acceptance depends on `|x|`.
    """

    dim: int = field(DIM)
    epsilon: float = field(Epsilon())
    radius: float = field(RADIUS, default=1.0)
    variant: str = field(Choice("repaired", "as_printed"), default="repaired")
    num_users: int | None = field(Optional(Integer(2)), default=None)
    noise: float | None = field(Optional(Real(1 / 16, 1e4, closed=True)), default=None)

    def validate(self) -> None:
        """Raises ValueError unless epsilon and the number of users suit the variant."""
        high = 20.0 if self._pure else 4 * math.log(2)
        if not 1e-4 <= self.epsilon <= high:
            raise ValueError(
                f"epsilon must be in [1e-4, {high:.4g}] for variant={self.variant!r}, got "
                f"{self.epsilon!r}."
            )
        if self._pure and self.num_users is not None:
            raise ValueError(
                f"num_users must be None for variant='repaired', got {self.num_users!r}: only the "
                "printed sigma depends on it."
            )
        if not self._pure:
            check_int("num_users", self.num_users, low=2)

    @property
    def _pure(self) -> bool:
        return self.variant == "repaired"

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of a value, (dim,)."""
        return (self.dim,)

    @property
    def largest_value(self) -> float:
        """The largest norm of a value, which is the radius."""
        return self.radius

    @property
    def always_reports(self) -> bool:
        """Whether the estimate is the mean over all users: in the repaired variant."""
        return self._pure

    @property
    def _slope(self) -> float:
        """The ratio radius / sigma, a float32."""
        if self.noise is not None:
            noise = self.noise
        elif self._pure:
            noise = 1 / 8
        else:
            noise = 2 * math.sqrt(math.log(self.num_users or 2)) / self.epsilon
        return float(np.float32(1 / noise))

    @property
    def sigma(self) -> float:
        """The standard deviation of each coordinate of y."""
        return self.radius / self._slope

    def _bounds(self) -> tuple[int, int]:
        """The least and the most words that keep a report, both float32 numbers."""
        least = math.ceil(MOST / exp_lower(self.epsilon))
        # Rounded up, never down: the ratio of the bounds must stay at most e**epsilon.
        as_float = np.float32(least)
        if int(as_float) < least:
            as_float = np.nextafter(as_float, np.float32(np.inf))
        return int(as_float), MOST

    def _clip(self) -> tuple[float, float, float, float]:
        """(level, slope, least, most) of the acceptance of the repaired variant, as built."""
        least, most = (words / WORDS for words in self._bounds())
        level = float(np.float32(best_level(self._slope, least, most)))
        return level, self._slope, least, most

    def _pieces(self, norm) -> Pieces:
        """What is kept of vectors of some norms, float64[k], in units of sigma."""
        if self._pure:
            return clipped_pieces(np, *(np.float64(x) for x in self._clip()))
        slope = np.asarray(norm, np.float64) / self.sigma
        return truncated_pieces(np, slope, self.epsilon)

    def kept_law(self, norm: float) -> KeptLaw:
        """The law of a report of a vector of this norm; repaired, of the padded vector.

        Args:
          norm: the norm, in [0, radius].
        """
        norm = check_real("norm", norm, low=0.0, high=self.radius, open_ends=False)
        kept, mean, square = (float(x) for x in self._pieces(np.float64(norm)).moments())
        mean, square = mean / kept, square / kept
        return KeptLaw(kept, self.sigma * mean, self.sigma**2 * (square - mean**2))

    @property
    def gain(self) -> float:
        """The factor of a kept y in the estimate, a float32; 1 as printed."""
        if not self._pure:
            return 1.0
        law = self.kept_law(self.radius)
        return float(np.float32(self.radius / (law.probability * law.mean)))

    def build(self, word_bits: int = 32) -> "GaussianRejectionParams":
        """The params; the sampler needs words of 32 bits."""
        check_int("word_bits", word_bits, low=32, high=32)
        level = self._clip()[0] if self._pure else 0.0
        least, most = self._bounds() if self._pure else (0, 0)
        return GaussianRejectionParams(
            np.asarray(self._slope, np.float32),
            np.asarray(level, np.float32),
            np.asarray([least, most], np.float32),
            np.asarray(self.epsilon, np.float32),
            np.asarray(self.radius, np.float32),
            np.asarray(self.gain * self.sigma / GRID),
            self.dim,
            self.variant,
        )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """Repaired: the log-ratio of the bounds on keeping, rounded up. As printed: inf."""
        del word_bits
        if not self._pure:
            return math.inf
        least, most = self._bounds()
        return log_upper(Fraction(most, least))

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """Repaired: opposite vectors; no pair hides less, in real arithmetic.

        It is proven for observers who see the padding too.
        """
        if not self._pure or self.epsilon > MOST_SHUFFLED_EPSILON:
            return None
        return clipped_pair_laws(*self._clip(), 1 / GRID, self.dim == 1)

    def log_density(self, reports: ArrayLike, value: ArrayLike) -> np.ndarray:
        """The log-density of reports of a value, up to the grid.

        The base measure is the law of y, N(0, sigma**2 I), for reports that are kept, and one more
        point for those that are dropped.

        Args:
          reports: int[n, dim + 1].
          value: float[dim].

        Returns:
          float64[n].
        """
        reports, x = np.asarray(reports, np.float64), self.check_value(value)
        norm = min(float(np.linalg.norm(x)), self.radius)
        seen = reports[:, :-1] @ x / (GRID * self.radius)
        if self._pure:
            hidden = math.sqrt(1 - (norm / self.radius) ** 2)
            keep = marginal_acceptance(*self._clip(), seen, hidden)
        else:
            slope = self._slope * norm / self.radius
            log_ratio = self._slope * seen - slope**2 / 2
            good = np.abs(log_ratio) <= self.epsilon / 4
            keep = np.where(good, np.exp(np.where(good, log_ratio, 0.0)) / 2, 0.0)
        with np.errstate(divide="ignore"):
            kept = np.log(keep)
        return np.where(reports[:, -1] > 0, kept, math.log1p(-self.kept_law(norm).probability))

    def covariance_form(self) -> tuple[float, float] | None:
        """Repaired: `r**2 P / m**2` and `(s - P) / m**2 - 1`; as printed reports are biased."""
        if not self._pure:
            return None
        kept, mean, square = (float(x) for x in self._pieces(self.radius).moments())
        return self.radius**2 * kept / mean**2, (square - kept) / mean**2 - 1

    def tail(self) -> Tail | None:
        """Repaired: a coordinate of a decoded report is `g B z`, z normal and B in {0, 1}.

        So `E |B z|**q <= E |z|**q`, which is at most `q! / 2 E[B z**2] c**(q - 2)` for the c below,
        the condition of Bernstein's inequality.
        """
        if not self._pure:
            return None
        law = self.kept_law(self.radius)
        along = law.probability * (law.variance + law.mean**2) / self.sigma**2
        square = max(along, law.probability)  # at least E[B z**2] in every direction
        powers = range(3, 64)
        logs = [math.log(2 * absolute_moment(q) / square) - math.lgamma(q + 1) for q in powers]
        scale = max(math.exp(log / (q - 2)) for log, q in zip(logs, powers, strict=True))
        gain = self.gain * self.sigma
        return Tail(gain**2 * square, gain * scale)

    def moments(self, value: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the covariance of one user's estimate, of which a dropped one is 0."""
        x = self.check_value(value)
        norm = float(np.linalg.norm(x))
        kept, mean, square = self._pieces(np.float64(norm)).moments()
        outer = np.outer(x, x)
        if self._pure:
            across = self.radius**2 * kept / mean**2
            return x, across * np.eye(self.dim) + ((square - kept) / mean**2 - 1) * outer
        unit = x / max(norm, 1e-30)
        along = (square - kept - mean**2) * np.outer(unit, unit)
        return self.sigma * mean * unit, self.sigma**2 * (kept * np.eye(self.dim) + along)

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The exact mean squared error of each entry of the estimate, float64[dim].

        Args:
          counts: int[k], the number of users with each value.
          inputs: float[k, dim], the values.
        """
        counts, x = self.check_inputs(counts, inputs)
        norm = np.linalg.norm(x, axis=1)
        kept, mean, square = self._pieces(norm).moments()
        if self._pure:
            across = self.radius**2 * kept / mean**2
            along = ((square - kept) / mean**2 - 1) * x**2
            return (counts @ (across + along)) / counts.sum() ** 2
        unit = x / np.maximum(norm, 1e-30)[:, None]
        mean, square = (mean / kept)[:, None], (square / kept)[:, None]
        spread = self.sigma**2 * (1 + (square - mean**2 - 1) * unit**2)
        target = self.truth(counts, inputs)
        gap = self.sigma * mean * unit - target
        return ratio_error(counts, kept, gap, spread, target)

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest mean squared error of an entry over all data sets of `num_users`.

        Repaired: exact. As printed: a bound, `4 r**2 + 2 sigma**2 / ((n + 1) P) + r**2 (1 - P)**n`
        with P the probability that a vector of norm r is kept, the smallest there is.
        """
        n = check_int("num_users", num_users, low=1)
        square = self.radius**2
        if not self._pure:
            kept = self.kept_law(self.radius).probability
            missed = square * (1 - kept) ** n
            return Prediction(4 * square + 2 * self.sigma**2 / ((n + 1) * kept) + missed, "bound")
        kept, mean, second = self._pieces(self.radius).moments()
        along = (second - kept) / mean**2 - 1
        return Prediction(float(square * (kept / mean**2 + max(along, 0.0)) / n))

    def check_range(self, name: str, values: np.ndarray) -> None:
        """Raises unless vectors are in the ball."""
        check_norms(name, values, "radius", self.radius)

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are vectors in the ball."""
        population.require_ball(self.dim, self.radius)
        self.check_total(population)


@params
class GaussianRejectionParams(MeanRound):
    """The params of `GaussianRejection`: a pytree.

    Attributes:
      slope: float32[], radius / sigma.
      level: float32[], log A - slope**2 / 2 of the repaired variant.
      bounds: float32[2], the least and the most words that keep a report of the repaired variant.
      epsilon: float32[], of the printed variant.
      radius: float32[], the largest norm.
      unit: float64[], what 1 in a report of a user stands for.
      dim: d, static.
      variant: static.
    """

    slope: Float32[Array | np.ndarray, ""]
    level: Float32[Array | np.ndarray, ""]
    bounds: Float32[Array | np.ndarray, "2"]
    epsilon: Float32[Array | np.ndarray, ""]
    radius: Float32[Array | np.ndarray, ""]
    unit: Float[Array | np.ndarray, ""]
    dim: int = static()
    variant: str = static(default="repaired")

    @property
    def largest_value(self) -> Float[Array | np.ndarray, ""]:
        """The largest norm of a value, which is the radius."""
        return self.radius

    @property
    def _pure(self) -> bool:
        return self.variant == "repaired"

    @property
    def num_words(self) -> int:
        """One word for each coordinate, one to keep or drop, and one for the padding."""
        return self.dim + (2 if self._pure else 1)

    @property
    def largest_report(self) -> int:
        """16 standard deviations."""
        return _REACH * GRID

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of a value, (dim,)."""
        return (self.dim,)

    @property
    def lazy_words(self) -> bool:
        """True: words fuse into the normals that are made of them."""
        return True

    def user_cost(self, work: Work) -> float:
        """Nanoseconds of a user, roughly: normals cost three times what words do."""
        return work.words(20.0 + 3.0 * self.num_words)

    def summands(self, reports: Int32[Array, "*n m"]) -> Int32[Array, "*n d"]:
        """The coordinates, without the flag."""
        return reports[..., :-1]

    def from_bits(self, words: Words, value: Float[Array, " d"], /) -> Int32[Array, " m"]:
        """One user's report: y on the grid and 1, or zeros.

        A value beyond the ball is scaled into it, NaN counts as 0.
        """
        unit = into_unit_ball(value, self.radius)
        z = standard_normal(words[0 : self.dim])
        along = jnp.sum(z * unit, axis=-1)
        square = jnp.minimum(jnp.sum(unit * unit, axis=-1), np.float32(1))
        if self._pure:
            # The coordinate along the padded vector: y has one entry more, which is not sent.
            along = along + jnp.sqrt(1 - square) * standard_normal(words[self.dim + 1])
            log_ratio = jnp.minimum(self.level + self.slope * along, np.float32(0))
            threshold = jnp.exp(log_ratio) * np.float32(WORDS)
            threshold = jnp.clip(threshold, self.bounds[0], self.bounds[1])
        else:
            log_ratio = self.slope * along - np.float32(0.5) * self.slope * self.slope * square
            good = jnp.abs(log_ratio) <= np.float32(0.25) * self.epsilon
            ratio = jnp.exp(jnp.where(good, log_ratio, np.float32(0))) * np.float32(WORDS / 2)
            threshold = jnp.where(good, jnp.minimum(ratio, np.float32(MOST)), np.float32(0))
        kept = words[self.dim] < threshold.astype(jnp.uint32)
        y = jnp.where(kept, jnp.rint(z * np.float32(GRID)), np.float32(0)).astype(jnp.int32)
        return jnp.concatenate([y, kept.astype(jnp.int32)[None]])

    def tally(
        self, reports: Int32[Array, "n m"], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Count]:
        """{"sum": Count[d] in units, "active": Count[], who is kept, "users": Count[]}."""
        kept = everyone(reports, mask) & (reports[:, -1] > 0)
        active = Count.of(jnp.sum(kept, dtype=jnp.int32))
        return {**MeanRound.tally(self, reports, mask), "active": active}

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, " d"]:
        """The estimated mean of the users' vectors."""
        size = outcome["users"] if self._pure else outcome["active"]
        unit = jnp.asarray(self.unit).astype(jnp.float64)
        return outcome["sum"].f64() * unit / jnp.maximum(size.f64(), 1.0)

    @property
    def law(self) -> TallyLaw[dict[str, Count]]:
        """One number a user and one vector a value; the rounding to the grid is left out.

        How many users of each value are kept is binomial; their sum along the value is that of as
        many draws of truncated normals, and across it a Gaussian vector.
        """
        return TallyLaw(self._draw, self._cost, distance=math.sqrt(self.dim) / GRID**2)

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        unit = into_unit_ball(jnp.asarray(inputs), self.radius).astype(jnp.float64)
        norm = jnp.minimum(jnp.sqrt(jnp.sum(unit * unit, axis=1)), 1.0)
        slope = jnp.asarray(self.slope).astype(jnp.float64)
        if self._pure:
            unit = jnp.concatenate([unit, jnp.sqrt(1 - norm * norm)[:, None]], axis=1)
            least, most = (jnp.asarray(self.bounds).astype(jnp.float64) / WORDS)[jnp.arange(2)]
            level = jnp.asarray(self.level).astype(jnp.float64)
            one = clipped_pieces(jnp, level, slope, least, most)
            pieces = Pieces(*(jnp.broadcast_to(x, (unit.shape[0], 3)) for x in one))
        else:
            unit = unit / jnp.maximum(norm, 1e-30)[:, None]
            epsilon = jnp.asarray(self.epsilon).astype(jnp.float64)
            pieces = truncated_pieces(jnp, slope * norm, epsilon)
        # A kept y is t u + g, t from a piece and g normal across u: the sum over the kept ones is a
        # normal vector whose part along u is replaced by the sum of the t.
        masses = pieces.masses(jnp, ndtr)
        kept_key, pieces_key, along_key, noise_key = jax.random.split(key, 4)
        kept = binomial(kept_key, counts, jnp.sum(masses, axis=1))
        drawn = multinomial(pieces_key, kept, masses)
        along = _sums(along_key, drawn, pieces)
        noise = normal(noise_key, unit.shape)
        root = jnp.sqrt(kept.f64())
        across = along - root * jnp.sum(noise * unit, axis=1)
        total = over_rows(across, unit) + over_rows(root, noise)
        return {
            "sum": Count.from_float(jnp.rint(total[: self.dim] * GRID)),
            "active": kept.sum(),
            "users": counts.sum(),
        }

    def _cost(self, work: Work) -> float:
        each = 1000.0 + 100.0 * self.dim
        return work.words(15.0 * work.num_users + each * work.num_bins)


def _sums(key: jax.Array, counts: Count, pieces: Pieces) -> Float[Array, " k"]:
    """Sums of truncated normals, of each piece as many as its count, over the pieces.

    One draw after the other, in blocks, so that memory does not depend on the counts.
    """
    flat = Pieces(*(x.reshape(-1) for x in pieces))
    ends = jnp.cumsum(counts.f64().reshape(-1))
    last = ends.shape[0] - 1
    a, b = flat.low - flat.mean, flat.high - flat.mean
    flip = a + b > 0  # draw in the lower tail, where probabilities keep their digits
    below, above = ndtr(jnp.where(flip, -b, a)), ndtr(jnp.where(flip, -a, b))
    lane = jnp.arange(_LANES, dtype=jnp.uint32)
    data = jax.random.key_data(key)

    def block(state):
        number, begin, sums = state
        u = uniforms(data, lane, number).ravel() + 2.0**-54
        user = begin + jnp.arange(2 * _LANES, dtype=jnp.float64)
        piece = jnp.minimum(jnp.searchsorted(ends, user, side="right"), last).astype(jnp.int32)
        low, high = below[piece], above[piece]
        x = ndtri(jnp.clip(low + u * (high - low), low, high))
        draw = flat.mean[piece] + jnp.where(flip[piece], -x, x)
        draw = jnp.where(user < ends[-1], draw, 0.0)
        # As integers: floats would add up in any order. Draws are below 2**10, and in a block few.
        parts = Count.from_float(jnp.rint(draw * 2.0**40)).segment_sum(piece, last + 1)
        sums = sums + parts.f64() * 2.0**-40
        return number + np.uint32(1), begin + 2 * _LANES, sums

    start = (jnp.zeros((), jnp.uint32), jnp.zeros(()), jnp.zeros_like(ends))
    sums = lax.while_loop(lambda state: state[1] < ends[-1], block, start)[2]
    return jnp.sum(sums.reshape(pieces.mean.shape), axis=1)

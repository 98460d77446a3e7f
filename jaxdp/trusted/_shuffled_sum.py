"""Vector sums by split and mix: users send shares of noisy vectors through a shuffler."""

import dataclasses
import functools
import math
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32
from numpy.typing import ArrayLike

from .._checks import Epsilon, Integer, Real
from .._contract import Round, TallyLaw, Tree, Words, field, params, spec, static
from .._prediction import Prediction
from .._spec import check_counts, check_int, check_probabilities
from .._x64 import as_float64, compiled_in_float64, dot
from ..accounting import gaussian_delta, gaussian_sigma
from ..pairwise import Kernel, PairwiseProtocol
from ..pairwise.vectors._quadratic_factor import QuadraticFactor, best_factor
from ..population import Population
from ..random import Count, standard_normal, sum_integers, user_words
from ._shuffled import check_enough

_BITS = 12  # of a coordinate, at least: columns are rounded to 2**-13 of the largest
_SHARE = 4.0  # least standard deviation of a user's noise, in steps of the grid
_SECURITY = 100.0  # the part of delta that is not left to the messages' security
_COARSEST = 64  # times as far apart as the diagonal's coordinates the vectors are, at most
_ROUNDING = math.sqrt(1 / 12)  # standard deviation of what is rounded off
_FINE = 4.0  # least standard deviation of the noise of the mean, in steps
_MAX_STEPS = 2.0**21  # sums of 2**31 users are exact
_MAX_SHARE = 2.0**24
_LARGEST = 2**27  # reports are within 6.5 deviations of their vectors


@spec
class ShuffledSum(PairwiseProtocol["ShuffledSumParams"]):
    """Statistics of pairs from the sum of users' vectors, added up by split and mix.

    With `W[v, w] = L_v^T D L_w + g^T L_v + g^T L_w + c`, D diagonal, the V-statistic needs nothing
    but the sum of the users' vectors. A user rounds `L_v` to integers, adds normal noise of
    variance `s**2 / n`, rounded to integers, and splits every coordinate, modulo a power of two,
    into random numbers that add up to it. The shuffler mixes the numbers of all users, coordinate
    by coordinate; their sum S, which is all that they reveal, is that of a central mechanism with
    noise `s**2`, whatever n is. The estimate

        `V = (S^T D S - s**2 tr(D)) / n**2 + 2 g^T S / n + c`

    has error of order `1 / n` where local reports have `1 / sqrt(n)`.

    The U-statistic is `(n V - m) / (n - 1)` with m the mean of `W[v, v]` over the users. Where the
    diagonal of W is not constant, `W[v, v] - b` is one more coordinate of a user's vector, times a
    lambda that minimises the largest variance. With R the largest distance between vectors, G the
    largest `|D L_v + g|` and r the range of the diagonal that is `R / (2 G r n)`, squared, and the
    error grows by a factor of `1 + r / (2 G R n)`. (No lambda is below `R / (64 r)`, lest the grid
    be too coarse for the coordinate.)

    Formal guarantees:
      * Privacy: (epsilon, `exact_delta()`)-DP in the value of one user, for whoever sees the mixed
        numbers, if all users add their noise. Two parts: the sum of n normals of 4 steps of the
        grid or more, each rounded, is but for a total variation below 1e-17 post-processing of one
        normal with s, as in `SecureSum`, whose exact delta counts; and `num_messages` numbers a
        coordinate are within a total variation of `2**-security` of what depends on the sum alone,
        for n >= 19, which costs `(1 + e**epsilon) l 2**-security`.
      * Bias: vectors are rounded to a grid of steps of at most 2**-12 and `s / (4 n)`, but for a
        least step of 2**-21, so that the bias is small beside the noise; `variance` includes its
        square.
      * `variance(counts)`: the mean squared error for the given users, exact but for the fourth
        cumulant of the sum's noise, which is neglected beside `s**4`: with r >= 4 the deviation of
        a user's noise in steps, it is of the order of `exp(-2 pi**2 r**2) s**4`, and for the
        rounded Gaussian noise of simulations at most `s**4 / (120 n r**4)`, which is below
        `s**4 / (30_000 n)`.
      * `worst_case_variance(n)`: a proven bound.

    In simulation a user's normal is a floating-point number, whose last bits an attack could tell
    from those of another one; the splitting is not simulated,
    since the sum does not depend on it.

    Edge cases:
      =================================  =======================================================
      fewer than 19 users                ValueError
      epsilon too small or too large     ValueError: the noise of a user does not fit the grid
      kernel that is not linear          ValueError
      fewer users than `num_users`       ValueError from a Population: too little noise
      =================================  =======================================================

    Args:
      kernel: the statistic, or a matrix float[k, k].
      epsilon: central privacy parameter.
      delta: in (0, 1).
      num_users: n, which the noise is shared among; 19 to 2**31.
      num_values: how many bins there are, or the shape of the table whose cells they are.
      form: "u" or "v".

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.pairwise import GiniMeanDifference, OneReport
      >>> from jaxdp.trusted import ShuffledSum
      >>> counts = [2000] * 5
      >>> local = OneReport(GiniMeanDifference(), 1.0, num_values=5)
      >>> shuffled = ShuffledSum(GiniMeanDifference(), 1.0, 1e-6, num_users=10**4, num_values=5)
      >>> bool(local.variance(counts) > 100 * shuffled.variance(counts))
      True

    References:
      Ghazi et al. (2023), remark after Corollary 7; Ishai, Kushilevitz, Ostrovsky, Sahai (2006),
      Cryptography from anonymity; Balle, Bell, Gascón, Nissim (2019), Improved summation from
      shuffling; Kairouz, Liu, Steinke (2021), The distributed discrete Gaussian mechanism, whose
      noise is 7 % larger at epsilon = 1 and delta = 1e-6 by concentrated privacy.
    """

    kernel: Kernel = field(PairwiseProtocol.KERNEL)
    epsilon: float = field(Epsilon())
    delta: float = field(Real(0.0, 1.0))
    num_users: int = field(Integer(19, 2**31))
    num_values: int | tuple[int, ...] | None = field(PairwiseProtocol.NUM_VALUES, default=None)
    form: Literal["u", "v"] = field(PairwiseProtocol.FORM, default="u")

    def validate(self) -> None:
        """Raises unless the kernel is linear, and float64 can hold what the noise is made of."""
        PairwiseProtocol.validate(self)
        if self.epsilon > 700 or self.delta < 1e-250:
            raise ValueError(
                "epsilon must be at most 700 and delta at least 1e-250, which float64 can hold the "
                f"shares of, got {self.epsilon!r} and {self.delta!r}."
            )
        if not self.kernel.is_linear:
            raise ValueError(
                f"kernel must have a statistic that is a mean over pairs, but {self.kernel!r} is a "
                "function of several; take each of them as a kernel."
            )

    def build(self, word_bits: int = 32) -> "ShuffledSumParams":
        """Builds the params, which users and the analyst run."""
        del word_bits
        plan = _plan(self)
        noise = _normal_of(plan.share)
        return ShuffledSumParams(
            columns=plan.columns.astype(np.int32),
            noise=np.asarray(noise, np.float32),
            variance=np.asarray((plan.share / plan.steps) ** 2),
            steps=np.asarray(plan.steps),
            scales=plan.scales,
            linear=plan.linear,
            constant=np.asarray(plan.constant),
            loops=plan.loops,
            diagonal=np.asarray(plan.diagonal),
            form=self.form,
        )

    @property
    def noise(self) -> float:
        """s, the standard deviation of the noise in a coordinate of the sum of unit vectors."""
        plan = _plan(self)
        return plan.share * math.sqrt(self.num_users) / plan.steps

    @property
    def security(self) -> int:
        """The bits of statistical security of the mixed numbers."""
        dim = len(_plan(self).scales)
        return math.ceil(math.log2(_SECURITY * (1 + math.exp(self.epsilon)) * dim / self.delta))

    @property
    def message_bits(self) -> int:
        """The bits of a number: sums stay within them but with probability 2**-100."""
        plan = _plan(self)
        largest = self.num_users * float(np.abs(plan.columns).max())
        tail = 12 * plan.share * math.sqrt(self.num_users)
        return math.ceil(math.log2(2 * (largest + tail) + 1))

    @property
    def num_messages(self) -> int:
        """Number of messages that a user sends for each coordinate."""
        # Balle, Bell, Gascón, Nissim (2019): m >= 2 + (2 security + log2 q) / log2(n / e) messages
        hidden = math.log2(self.num_users) - math.log2(math.e)
        return math.ceil(2 + (2 * self.security + self.message_bits) / hidden)

    def exact_epsilon(self) -> float:
        """The central privacy parameter, at `exact_delta()`."""
        return self.epsilon

    def exact_delta(self) -> float:
        """The delta at `epsilon`: of the noise, and of the security of the mixed numbers."""
        plan = _plan(self)
        given = plan.distance, _normal_of(plan.share), len(plan.scales), self.num_users
        mixed = (1 + math.exp(self.epsilon)) * len(plan.scales) * 2.0**-self.security
        return _sum_delta(self.epsilon, *given) + mixed

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The mean squared error for given users; exact up to the noise's kurtosis.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        counts = self._check_bins(check_counts(counts), inputs).astype(np.float64)
        n, plan = counts.sum(), _plan(self)
        bias = counts @ (plan.matrix - self.matrices()[0]) @ counts / n**2
        if self.form == "u":
            bias -= counts @ (plan.diagonals - np.diagonal(self.matrices()[0])) / n**2
        factor = self._factor(n)
        return np.asarray(factor**2 * (self._noise_variance(counts / n, n) + bias**2))

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The mean squared error about `population_truth` for independent users.

        Sampling is included: a bound, which adds the standard deviation among samples, and the
        largest bias.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: None; values are bins.
        """
        p = self._check_bins(check_probabilities(probabilities), inputs)
        n, w = check_int("num_users", num_users, low=2), self.matrices()[0]
        rows = w @ p
        mean = p @ rows
        centred = w - rows[:, None] - rows + mean
        # Hoeffding: 4 zeta_1 / n and 2 Var of the centred kernel / (n (n - 1))
        sampling = 4 * (p @ rows**2 - mean**2) / n + 2 * (p @ centred**2 @ p) / (n * (n - 1))
        loops = abs(p @ np.diagonal(w) - mean) / n if self.form == "v" else 0.0
        root = math.sqrt(self.worst_case_variance(n)) + math.sqrt(max(sampling, 0.0)) + loops
        return np.asarray(root**2)

    def worst_case_variance(self, num_users: int) -> Prediction:
        """A proven bound on the mean squared error over all data sets of a size.

        The noise's part is convex in the histogram, so largest where all users hold one value; the
        bias is at most the largest error of an entry of W.
        """
        n, plan = check_int("num_users", num_users, low=2), _plan(self)
        eye = np.eye(self.num_bins)
        noise = max(self._noise_variance(row, float(n)) for row in eye)
        bias = float(np.abs(plan.matrix - self.matrices()[0]).max())
        if self.form == "u":
            bias += float(np.abs(plan.diagonals - np.diagonal(self.matrices()[0])).max()) / n
        return Prediction(self._factor(n) ** 2 * (noise + bias**2), "bound")

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins, and the users enough."""
        PairwiseProtocol.check_population(self, population)
        check_enough(population, self.num_users)

    def _factor(self, num_users: float) -> float:
        return num_users / (num_users - 1) if self.form == "u" else 1.0

    def _noise_variance(self, histogram: np.ndarray, n: float) -> float:
        """The variance over the square of `_factor`, for noise without a fourth cumulant."""
        plan = _plan(self)
        noise = n * plan.share**2 / plan.steps**2
        # Half of the gradient at the mean vector; the square of the noise has 2 s**4 |D|**2 / n**4.
        slope = histogram @ plan.columns / plan.steps * plan.scales + plan.linear
        if self.form == "u":
            slope = slope - plan.loops / (2 * n)
        second = 2 * noise**2 * float(plan.scales @ plan.scales)
        return 4 * noise * float(slope @ slope) / n**2 + second / n**4


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What a spec computes once: integer vectors, their quadratic form, and the noise."""

    columns: np.ndarray  # float64[k, l], whole numbers
    steps: float  # of the grid, for a unit
    scales: np.ndarray  # of the vectors in units
    linear: np.ndarray
    constant: float
    loops: np.ndarray  # of W[v, v], as a linear function of the vectors; 0 if it is constant
    diagonal: float  # its constant
    distance: float  # between two columns, in steps
    share: float  # standard deviation of a user's noise, in steps

    @property
    def matrix(self) -> np.ndarray:
        """What the rounded vectors make of W."""
        vectors = self.columns / self.steps
        rows = vectors @ self.linear
        return (vectors * self.scales) @ vectors.T + rows[:, None] + rows + self.constant

    @property
    def diagonals(self) -> np.ndarray:
        """What the rounded vectors make of the diagonal of W."""
        return self.columns / self.steps @ self.loops + self.diagonal


@functools.lru_cache(maxsize=32)
def _plan(spec: ShuffledSum) -> _Plan:
    factor, loops, diagonal = _with_diagonal(spec)
    multiple = gaussian_sigma(spec.epsilon, spec.delta * (1 - 1 / _SECURITY) * (1 - 1e-9), 1.0)
    size = _diameter(factor.columns) or 1.0
    # The grid is so fine that a user's noise, s / sqrt(n), has _SHARE steps at least.
    needed = _SHARE * math.sqrt(spec.num_users) / (multiple * size)
    if needed > _MAX_STEPS:
        raise ValueError(
            f"epsilon must be smaller for so many users: {spec.epsilon:g} leaves each of "
            f"{spec.num_users} users less noise than a grid of 2**-21 can carry."
        )
    # Rounding moves the mean vector by a part of a step, and the noise moves it by s / n.
    fine = min(_FINE * spec.num_users / (multiple * size), _MAX_STEPS)
    steps = 2.0 ** max(_BITS, math.ceil(math.log2(max(needed, fine))))
    columns = np.rint(factor.columns * steps)
    distance = _diameter(columns)
    # Rounding a normal adds 1/12 to its variance, and takes nothing from what it hides.
    share = math.hypot(max(multiple * distance / math.sqrt(spec.num_users), _SHARE), _ROUNDING)
    if share > _MAX_SHARE:
        raise ValueError(
            f"epsilon must be larger for so few users: {spec.epsilon:g} asks each of "
            f"{spec.num_users} users for noise of {share:.2g} steps of the grid, above 2**24."
        )
    form = factor.scales, factor.linear, factor.constant
    return _Plan(columns, steps, *form, loops, diagonal, distance, share)


def _with_diagonal(spec: ShuffledSum) -> tuple[QuadraticFactor, np.ndarray, float]:
    """The factor, with a coordinate for the diagonal of W where the form needs one.

    Returns:
      The factor; and `loops` and `diagonal` as of a `_Plan`.
    """
    matrix = spec.matrices()[0]
    factor, diagonal = best_factor(matrix, shift=True), np.diagonal(matrix)
    spread, loops = float(np.ptp(diagonal)), np.zeros(len(factor.scales))
    if spec.form == "v" or spread <= 1e-9 * np.abs(matrix).max():
        return factor, loops, float(diagonal[0])
    middle = float(diagonal.max() + diagonal.min()) / 2
    size = _diameter(factor.columns)
    # Minimises (R**2 + (t r)**2) (4 G**2 + 1 / (n t)**2), by which the variance grows.
    best = math.sqrt(size / (2 * factor.norm * spread * spec.num_users))
    unit = max(best, size / (_COARSEST * spread))
    more = QuadraticFactor(
        np.column_stack([factor.columns, unit * (diagonal - middle)]),
        np.append(factor.scales, 0.0),
        np.append(factor.linear, 0.0),
        factor.constant,
    )
    return more, np.append(loops, 1 / unit), middle


def _diameter(vectors: np.ndarray) -> float:
    """The largest distance between two of the vectors, float64[k, l]."""
    return float(np.linalg.norm(vectors[:, None] - vectors, axis=2).max())


def _normal_of(share: float) -> float:
    """The deviation of a user's normal before it is rounded."""
    return math.sqrt(share**2 - _ROUNDING**2)


def _sum_delta(epsilon: float, distance: float, share: float, dim: int, num_users: int) -> float:
    """The delta of the sum of all users' noise, for integer vectors so far apart."""
    sigma = share * math.sqrt(num_users)
    normal = gaussian_delta(epsilon, distance, sigma)
    # Two laws on 80 sigma integers, whose characteristic functions differ by n of the tails of a
    # normal's beyond pi, at most; 3 sums the tails.
    laws = 40 * sigma * 3 * num_users * math.exp(-((math.pi * share) ** 2) / 2)
    return min(normal + (1 + math.exp(epsilon)) * dim * laws, 1.0)


@params
class ShuffledSumParams(Round[dict[str, Count]]):
    """The params of `ShuffledSum`: a pytree.

    Attributes:
      columns: int32[k, l], the vectors in steps of the grid, at most about 2**21.
      noise: float32[], the deviation of a user's noise before it is rounded, in steps.
      variance: float64[], of a user's noise, in units.
      steps: float64[], of the grid, for a unit.
      scales: float64[l], the quadratic form of the mean vector.
      linear: float64[l].
      constant: float64[].
      loops: float64[l], the linear part of W[v, v] as a function of the vectors.
      diagonal: float64[], its constant.
      form: "u" or "v", static.
    """

    columns: Int32[Array | np.ndarray, "k l"]
    noise: Float32[Array | np.ndarray, ""]
    variance: Float[Array | np.ndarray, ""]
    steps: Float[Array | np.ndarray, ""]
    scales: Float[Array | np.ndarray, " l"]
    linear: Float[Array | np.ndarray, " l"]
    constant: Float[Array | np.ndarray, ""]
    loops: Float[Array | np.ndarray, " l"]
    diagonal: Float[Array | np.ndarray, ""]
    form: str = static()

    @property
    def num_bins(self) -> int:
        """The bins of the domain."""
        return self.columns.shape[-2]

    @property
    def num_words(self) -> int:
        """One for each coordinate."""
        return self.columns.shape[-1]

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> Int32[Array, " l"]:
        """The sum of one user's messages."""
        normals = standard_normal(words[0 : self.num_words])
        noise = jnp.rint(jnp.asarray(self.noise) * normals).astype(jnp.int32)
        return jnp.asarray(self.columns)[value] + noise

    def tally(
        self, reports: Int32[Array, "n l"], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Count]:
        """{"sum": Count[l], "users": Count[]}; a report is below 2**27 for each coordinate."""
        users = sum_integers(jnp.ones(reports.shape[0], jnp.int32), 1, mask)
        return {"sum": sum_integers(reports, _LARGEST, mask), "users": users}

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, ""]:
        """The estimated statistic."""
        scales, linear, constant, loops, diagonal = as_float64(
            self.scales, self.linear, self.constant, self.loops, self.diagonal
        )
        variance, steps = as_float64(self.variance, self.steps)
        n = outcome["users"].f64()
        mean = outcome["sum"].f64() / (steps * n)
        # The noise adds its variance to the squares: n users with `variance` each, over n**2.
        average = dot(scales, mean**2) - variance * jnp.sum(scales) / n
        average = average + 2 * dot(linear, mean) + constant
        if self.form == "v":
            return average
        return (n * average - dot(loops, mean) - diagonal) / (n - 1)

    @property
    def law(self) -> TallyLaw[dict[str, Count]]:
        """Draws the sum of the rounded noises as one rounded normal number of their variance."""
        return TallyLaw(self._draw, lambda work: 1000.0 + 2.0 * work.num_bins * self.num_words)

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        del inputs
        users = counts.sum()
        (deviation,) = as_float64(self.noise)
        total = users.f64() * (deviation**2 + 1 / 12)
        words = user_words(jax.random.fold_in(key, 0), 0, self.num_words)[:]
        normal = standard_normal(words).astype(jnp.float64)
        noise = jnp.rint(jnp.sqrt(jnp.maximum(total - 1 / 12, 0.0)) * normal)
        (columns,) = as_float64(self.columns)
        exact = dot(columns.T, counts.f64())
        return {"sum": Count.from_float(exact + noise), "users": users}

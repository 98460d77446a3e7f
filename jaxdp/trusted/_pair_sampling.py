"""U-statistics from the randomized kernel values of randomly matched pairs of users."""

import dataclasses
import math
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int32
from numpy.typing import ArrayLike

from .._checks import Epsilon, Integer, Optional
from .._contract import Collect, Step, Tree, Work, field, params, spec
from .._prediction import Prediction
from .._spec import check_counts, check_int
from ..accounting import split_epsilon
from ..pairwise import Kernel
from ..population import Population
from ..random import Stream, merge, stream
from ._pair_sources import MatchingSource
from ._pairs import DELTA, NOISE, PairOutcome, PairsParams, PairsProtocol

MAX_PERMUTATIONS = 2**16


@spec
class PairSampling(PairsProtocol["PairSamplingParams"]):
    """A U-statistic from P random matchings, each pair of which sends its randomized kernel value.

    The analyst draws P independent random permutations of the users and joins neighbours: P
    matchings, in each of which a user is in one pair. A pair computes `f(x_i, x_j)` plus noise by a
    secure two-party computation, and sends it. The estimate is the mean of what was sent.

    This is **not** the local model: a pair's value is computed by an ideal functionality, which is
    simulated here. Neither partner sees the other's value nor the noise. A real computation, by
    garbled circuits, gives *computational* differential privacy against semi-honest partners.

    A report is epsilon/P-private in the value of either partner, whatever the other's value is:

      * "laplace": `Laplace` noise, of scale R P / epsilon before it is cut to a grid, R being the
        range of f on the bins. A statistic that is a function of several averages (tau_b, AUC by
        plug-in) reports all of their kernels, with noise for the L1 norm.
      * "discrete_laplace": two-sided geometric noise, clamped to the range, for integer f.
      * "binary": one bit whose mean is the value (Duchi et al.); up to 16 % less variance than
        "laplace" where epsilon/P is below 1.8.
      * "krr": k-ary randomized response among the different values of f, or of its several
        kernels together: for AUC, ties, signs.

    Formal guarantees:
      * Privacy, for ideal two-party computations: (epsilon, delta)-differential privacy of each
        user's value, by composition over the P reports that the user is in; pure by default. It is
        that of `randomizer`, exact for all kinds of noise.
      * Bias: none for linear kernels, but for the rounding of f to float32 (not of "krr" and
        "discrete_laplace"). Plug-in estimates are consistent.
      * `variance(counts)`, exact for linear kernels: with m = floor(n / 2) pairs in a matching, S
        the variance of the mean of f over one matching and v the mean variance of a report,
        `S / P + v / (P m)`. For the Laplace noise and even n that is at most
        `S / P + 4 P R**2 / (n epsilon**2)`, up to the grid.
      * `population_variance(p, n)`, exact too: with `zeta_2 = Var f(X, X')` and U the complete
        U-statistic, `zeta_2 / (P m) + (1 - 1/P) Var U + v / (P m)`.
      * `worst_case_variance(n)`: a proven bound for linear kernels; inf for others.

    Edge cases:
      =====================================  ====================================================
      odd number of users                    in each matching one of them, at random, has no pair
      num_permutations >= number of users    ValueError
      form="v"                               for kernels that are constant on equal values only
      kernel constant on all pairs           ValueError
      =====================================  ====================================================

    Args:
      kernel: the statistic, or its matrix.
      epsilon: privacy parameter of a user, > 0.
      num_values: how many bins there are, or the shape of the table whose cells they are; left out
        for a matrix.
      num_permutations: P, or None for the number that minimises `worst_case_variance` for many
        users; stored resolved.
        `best_num_permutations` is the best for users known roughly.
      noise: how a pair randomizes its value, see above.
      delta: of approximate privacy, in [0, 1); the P reports then have a larger share of epsilon,
        by optimal composition.
      form: "u" for pairs of different users, "v" to average over all pairs, self pairs included.

    Raises:
      ValueError: an argument is out of range, or the kernel does not go with the noise.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> from jaxdp.pairwise import GiniMeanDifference
      >>> from jaxdp.trusted import PairSampling
      >>> counts = [3000, 1000, 4000, 2000, 5000]
      >>> for noise in ("laplace", "binary"):
      ...     protocol = PairSampling(GiniMeanDifference(), epsilon=1.0, num_values=5, noise=noise)
      ...     print(noise, round(float(protocol.variance(counts)) ** 0.5, 3))
      laplace 0.056
      binary 0.049

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), section 5, Theorem 5, whose noise term
      `2 P / (n epsilon**2)` should be `4 P / (n epsilon**2)`; Blom (1976), Some properties of
      incomplete U-statistics.
    """

    kernel: Kernel = field(PairsProtocol.KERNEL)
    epsilon: float = field(Epsilon())
    num_values: int | tuple[int, ...] | None = field(PairsProtocol.NUM_VALUES, default=None)
    num_permutations: int | None = field(Optional(Integer(1, MAX_PERMUTATIONS)), default=1)
    noise: str = field(NOISE, default="laplace")
    delta: float = field(DELTA, default=0.0)
    form: Literal["u", "v"] = field(PairsProtocol.FORM, default="u")

    def validate(self) -> None:
        """Raises unless the kernel goes with the rest; finds the number of matchings."""
        best = self.num_permutations is None
        if best:
            self.settle(num_permutations=1)
        PairsProtocol.validate(self)
        if best:
            if not self.kernel.is_linear:
                raise ValueError(
                    "num_permutations must be given for a statistic that is not linear, whose "
                    "worst case is not known; best_num_permutations(counts) finds it for users."
                )
            self.settle(num_permutations=self._best(lambda one: one._limit()))

    @property
    def pair_epsilon(self) -> float:
        """The privacy parameter of one pair's report, about epsilon / P."""
        return split_epsilon(self.epsilon, self.reports_per_user, self.delta)

    @property
    def reports_per_user(self) -> int:
        """P, one for each matching."""
        assert self.num_permutations is not None
        return self.num_permutations

    def num_reports(self, num_users: int) -> int:
        """Number of reports in all: P floor(n / 2)."""
        return self.reports_per_user * (num_users // 2)

    def build(self, word_bits: int = 32) -> "PairSamplingParams":
        """Builds the params, which users and the analyst run."""
        return PairSamplingParams(
            self._build_pair(word_bits),
            np.array(self._diagonals()[:, 0]),
            self.kernel.link,
            self.form,
            np.asarray(self.reports_per_user, np.int32),
        )

    def best_num_permutations(self, counts: ArrayLike) -> int:
        """The number of matchings P that minimises `variance(counts)`.

        It depends on the users little, and may be computed from a guess at their histogram.

        Args:
          counts: int[k], the number of users with each value.
        """
        n = int(check_counts(counts).sum())
        return self._best(lambda one: float(one.variance(counts)), most=n - 1)

    def worst_case_variance(self, num_users: int) -> Prediction:
        """A proven bound on the mean squared error over all data sets of a size; inf by plug-in.

        With R the range of f on the bins and v the largest variance of a report, for even n > 2 it
        is `R**2 (n - 2) / (2 P n (n - 3)) + 2 v / (P n)`: the sums of f over the pairs of a user
        are as different as they may be, and the variance of f over all pairs is at most R**2 / 4.
        """
        n = check_int("num_users", num_users, low=2)
        self._check_num_users(n)
        if not self.kernel.is_linear:
            return Prediction(math.inf, "bound")
        spread, noise, rounding = self._linear_range()
        drawn = self._drawn(n, n * (n - 1) / 2 * spread**2 / 4, 0.0)
        drawn = min(drawn, spread**2 / 4 / self.reports_per_user)
        return Prediction(drawn + noise / self.num_reports(n) + rounding**2, "bound")

    def _limit(self) -> float:
        """What n / 2 times `worst_case_variance` tends to for many users."""
        spread, noise, _ = self._linear_range()  # Popoviciu: a variance is at most R**2 / 4
        return (spread**2 / 4 + noise) / self.reports_per_user

    def _best(self, error: Callable[["PairSampling"], float], most: int = MAX_PERMUTATIONS) -> int:
        """The first P whose successor has a larger error: it falls, and then rises."""
        number = 1
        here = error(dataclasses.replace(self, num_permutations=1))
        while number < most:
            after = error(dataclasses.replace(self, num_permutations=number + 1))
            if after >= here:
                break
            number, here = number + 1, after
        return number

    def _drawn(self, num_users: int, squares: float, rows: float) -> float:
        n, m = num_users, num_users // 2
        # Var of the mean over m disjoint pairs: the mean square of one, and the mean product of two
        one = 2 * squares / (n * (n - 1) * m)
        if m == 1:
            return one / self.reports_per_user
        # The sum of f f' over disjoint pairs is 0 minus those over equal pairs and over pairs that
        # share a user, -squares - (rows - 2 squares).
        both = 4 * (squares - rows) / (n * (n - 1) * (n - 2) * (n - 3))
        return (one + both * (m - 1) / m) / self.reports_per_user

    def _drawn_iid(self, num_users: int, of_two: float, complete: float) -> float:
        # Blom (1976): matchings are independent given the users.
        p = self.reports_per_user
        return of_two / (p * (num_users // 2)) + (1 - 1 / p) * complete

    def _check_num_users(self, num_users: int) -> None:
        if self.reports_per_user >= num_users:
            raise ValueError(
                f"num_permutations must be less than the number of users, which is {num_users}, "
                f"got {self.num_permutations}; AllPairs asks every pair once."
            )


@params
class PairSamplingParams(PairsParams):
    """The params of `PairSampling`: a pytree.

    Attributes:
      num_permutations: int32[], P; another one does not recompile.
    """

    num_permutations: Int32[Array | np.ndarray, ""]

    def rounds(self, work: Work) -> tuple[Step]:
        """One matching; all of them take as long, on both paths."""
        return (Step(self.pair, Work(work.num_users / 2, work.num_bins**2, work.platform)),)

    def play(self, key: jax.Array, users: Population, collect: Collect) -> PairOutcome:
        """Runs the matchings one after the other; each has public randomness of its own."""
        public = stream(key, Stream.PUBLIC)

        def matching(number: jax.Array) -> Tree:
            number = number.astype(jnp.uint32)
            source = MatchingSource(users.source, jax.random.fold_in(public, number))
            return collect(self.pair, Population(source), number)

        def step(number: jax.Array, total: Tree) -> Tree:
            return merge(total, matching(number))

        first = jnp.int32(0)
        shapes = jax.eval_shape(matching, first)
        zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        rounds = jnp.asarray(self.num_permutations, jnp.int32)
        return PairOutcome(lax.fori_loop(first, rounds, step, zero), users.size)

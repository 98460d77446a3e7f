"""U-statistics from the randomized kernel values of all pairs of users."""

import functools
import math
from typing import Literal

import jax
import numpy as np

from .._checks import Choice, Epsilon, Integer
from .._contract import Collect, Step, Work, field, params, spec
from .._prediction import Prediction
from .._spec import check_int
from ..accounting import optimal_delta, split_epsilon
from ..pairwise import Kernel
from ..population import Population
from ._pair_sources import EveryPairSource
from ._pairs import DELTA, NOISE, PairOutcome, PairsParams, PairsProtocol

MAX_USERS = 2**26


@spec
class AllPairs(PairsProtocol["AllPairsParams"]):
    """A U-statistic from all pairs of users, each of which sends its randomized kernel value.

    Every pair of different users computes `f(x_i, x_j)` plus noise by a secure two-party
    computation, and sends it. The estimate is the mean of what was sent. A user is in n - 1 pairs,
    and their privacy parameters add up; approximate privacy makes that bearable. As in
    `PairSampling`, this is **not** the local model, and the two-party computation is simulated as
    an ideal functionality. It takes n (n - 1) / 2 of them.

    Formal guarantees:
      * Privacy, for ideal two-party computations: (epsilon, delta)-differential privacy of each
        user's value, by composition of the n - 1 reports that the user is in.
      * Bias: none for linear kernels, but for the rounding of f to float32 (not of "krr" and
        "discrete_laplace"). Plug-in estimates are consistent.
      * `variance(counts)`, exact for linear kernels: `2 v / (n (n - 1))` with v the mean variance
        of a report. For Laplace noise and advanced composition that is at most about
        `8 R**2 ln(1/delta) / (n epsilon**2)`, against `4 R**2 / (n epsilon**2)` and the variance of
        one random matching for `PairSampling`.
      * `population_variance(p, n)`, exact too: with the variance of the U-statistic.
      * `worst_case_variance(n)`: for linear kernels a proven bound; inf for others.

    Edge cases:
      ==================================  =======================================================
      fewer users than num_users          the guarantee holds, with room to spare
      more users than num_users           ValueError
      more than 2**26 users               ValueError: the tally would leave 63 bits
      form="v"                            for kernels that are constant on equal values only
      ==================================  =======================================================

    Args:
      kernel: the statistic, or its matrix.
      epsilon: privacy parameter of a user, > 0.
      num_users: n, or an upper bound on it, for which the budget is split.
      num_values: how many bins there are, or the shape of the table whose cells they are; left out
        for a matrix.
      noise: how a pair randomizes its value, as in `PairSampling`.
      delta: of approximate privacy, in [0, 1).
      composition: by which theorem epsilon is split: "optimal" (Kairouz, Oh and Viswanath),
        "advanced" (Dwork, Rothblum and Vadhan, the paper's) or "basic" (with delta = 0).
      form: "u" for pairs of different users, "v" to average over all pairs, self pairs included.

    Raises:
      ValueError: an argument is out of range, or the kernel does not go with the noise.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> from jaxdp.pairwise import GiniMeanDifference
      >>> from jaxdp.trusted import AllPairs, PairSampling
      >>> counts = [300, 100, 400, 200, 500]
      >>> all_of_them = AllPairs(GiniMeanDifference(), 1.0, num_users=1500, num_values=5)
      >>> once = PairSampling(GiniMeanDifference(), 1.0, num_values=5)
      >>> bool(all_of_them.variance(counts) > 10 * once.variance(counts))
      True

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), section 5 and Figure 4.
    """

    kernel: Kernel = field(PairsProtocol.KERNEL)
    epsilon: float = field(Epsilon())
    num_users: int = field(Integer(2, MAX_USERS))
    num_values: int | tuple[int, ...] | None = field(PairsProtocol.NUM_VALUES, default=None)
    noise: str = field(NOISE, default="laplace")
    delta: float = field(DELTA, default=1e-8)
    composition: str = field(Choice("optimal", "advanced", "basic"), default="optimal")
    form: Literal["u", "v"] = field(PairsProtocol.FORM, default="u")

    def validate(self) -> None:
        """Raises unless delta goes with the composition, and the kernel with the rest."""
        if self.composition == "basic" and self.delta > 0:
            raise ValueError(
                f"delta must be 0 with composition = 'basic', which does not use it; got "
                f"{self.delta!r}."
            )
        PairsProtocol.validate(self)

    @property
    def pair_epsilon(self) -> float:
        """The privacy parameter of one pair's report."""
        return _split(self.epsilon, self.reports_per_user, self.delta, self.composition)

    @property
    def reports_per_user(self) -> int:
        """Number of reports of a user: one for each other user, n - 1."""
        return self.num_users - 1

    def num_reports(self, num_users: int) -> int:
        """Number of reports in all: n (n - 1) / 2."""
        return num_users * (num_users - 1) // 2

    def build(self, word_bits: int = 32) -> "AllPairsParams":
        """Builds the params, which users and the analyst run."""
        return AllPairsParams(
            self._build_pair(word_bits),
            np.array(self._diagonals()[:, 0]),
            self.kernel.link,
            self.form,
        )

    def exact_delta(self) -> float:
        """The smallest delta at which all reports of a user are (epsilon, delta)-private."""
        one = self.randomizer.exact_epsilon()
        return optimal_delta(one, self.reports_per_user, self.epsilon)

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest mean squared error over all data sets, or a bound on it; inf by plug-in.

        `2 v / (n (n - 1))`, with v the largest variance of a report over the values of f.
        """
        n = check_int("num_users", num_users, low=2)
        self._check_num_users(n)
        if not self.kernel.is_linear:
            return Prediction(math.inf, "bound")
        _, noise, rounding = self._linear_range()
        return Prediction(noise / self.num_reports(n) + rounding**2, "bound")

    def _drawn(self, num_users: int, squares: float, rows: float) -> float:
        del num_users, squares, rows
        return 0.0  # all pairs are there

    def _drawn_iid(self, num_users: int, of_two: float, complete: float) -> float:
        del num_users, of_two
        return complete  # the variance of the U-statistic alone

    def _check_num_users(self, num_users: int) -> None:
        if num_users > self.num_users:
            raise ValueError(
                f"num_users must be at least the number of users, which is {num_users}, got "
                f"{self.num_users}: epsilon is split for so many pairs of a user."
            )


@functools.lru_cache(maxsize=256)
def _split(epsilon: float, rounds: int, delta: float, method: str) -> float:
    return split_epsilon(epsilon, rounds, delta, method)


@params
class AllPairsParams(PairsParams):
    """The params of `AllPairs`: a pytree."""

    def rounds(self, work: Work) -> tuple[Step]:
        """All pairs at once."""
        pairs = work.num_users * (work.num_users - 1) / 2
        return (Step(self.pair, Work(pairs, work.num_bins**2, work.platform)),)

    def play(self, key: jax.Array, users: Population, collect: Collect) -> PairOutcome:
        """Runs all pairs in one round."""
        pairs = Population(EveryPairSource(users.source, key))
        return PairOutcome(collect(self.pair, pairs, 0), users.size)

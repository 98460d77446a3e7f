"""U-statistics from the randomized kernel values of all pairs of users."""

import dataclasses
import functools
import math

import numpy as np

from .._spec import check_choice, check_int, check_real
from ..accounting import optimal_delta, split_epsilon
from ._exact import Form
from ._kernel import Kernel
from ._pairs_params import AllPairsParams
from ._pairs_protocol import PairsProtocol

MAX_COUNTED = 2**26
MAX_SUMMED = 2**21


@dataclasses.dataclass(frozen=True, slots=True)
class AllPairs(PairsProtocol):
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
        of a report. For Laplace noise and advanced composition that is about
        `8 R**2 ln(1/delta) / (n epsilon**2)`, against `4 R**2 / (n epsilon**2)` and the variance of
        one random matching for `PairSampling`.
      * `population_variance(p, n)`, exact too: that and the variance of the U-statistic.
      * `worst_case_variance(n)`: for linear kernels a proven bound, exact with "laplace"; inf for
        others.

    Edge cases:
      ==================================  =======================================================
      fewer users than num_users          the guarantee holds, with room to spare
      more users than num_users           ValueError
      more than 2**21 users, or 2**26     ValueError: the tally would leave 63 bits
       if noise is not "laplace"
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
      >>> from jaxdp.pairwise import AllPairs
      >>> from jaxdp.pairwise import PairSampling
      >>> counts = [300, 100, 400, 200, 500]
      >>> all_of_them = AllPairs(GiniMeanDifference(), 1.0, num_users=1500, num_values=5)
      >>> once = PairSampling(GiniMeanDifference(), 1.0, num_values=5)
      >>> bool(all_of_them.variance(counts) > 10 * once.variance(counts))
      True

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), section 5 and Figure 4.
    """

    kernel: Kernel
    epsilon: float
    num_users: int
    num_values: int | tuple[int, ...] | None = None
    noise: str = "laplace"
    delta: float = 1e-8
    composition: str = "optimal"
    form: Form = "u"

    def __post_init__(self):
        delta = check_real("delta", self.delta, low=0.0, high=1 - 2.0**-53, open_ends=False)
        object.__setattr__(self, "delta", delta)
        check_choice("composition", self.composition, ("optimal", "advanced", "basic"))
        if self.composition == "basic" and delta > 0:
            raise ValueError(
                f"delta must be 0 with composition = 'basic', which has no use for it, got "
                f"{self.delta!r}."
            )
        check_int("num_users", self.num_users, low=2, high=MAX_COUNTED)
        if self.noise == "laplace" and self.num_users > MAX_SUMMED:
            raise ValueError(
                f"num_users must be at most 2**21 with noise = 'laplace', got {self.num_users}: "
                "sums of reports are kept in 63 bits; the other kinds take up to 2**26."
            )
        self._check_pairs()
        _ = self.randomizer  # its constructor checks the rest

    @property
    def pair_epsilon(self) -> float:
        """The privacy parameter of one pair's report."""
        return _split(self.epsilon, self.reports_per_user, self.delta, self.composition)

    @property
    def reports_per_user(self) -> int:
        """All the others: n - 1."""
        return self.num_users - 1

    def num_reports(self, num_users: int) -> int:
        """How many reports there are in all: n (n - 1) / 2."""
        return num_users * (num_users - 1) // 2

    def build(self, word_bits: int = 32) -> AllPairsParams:
        """The params."""
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

    def worst_case_variance(self, num_users: int) -> float:
        """The largest mean squared error over all data sets, or a bound on it; inf by plug-in.

        `2 v / (n (n - 1))`, with v the largest variance of a report over the values of f.
        """
        n = check_int("num_users", num_users, low=2)
        self._check_num_users(n)
        if not self.kernel.is_linear:
            return math.inf
        _, noise, rounding = self._linear_range()
        return noise / self.num_reports(n) + rounding**2

    def _drawn(self, num_users, squares, rows):
        del num_users, squares, rows
        return 0.0

    def _drawn_iid(self, num_users, of_two, complete):
        del num_users, of_two
        return complete

    def _check_num_users(self, num_users):
        if num_users > self.num_users:
            raise ValueError(
                f"num_users must be at least the number of users, which is {num_users}, got "
                f"{self.num_users}: epsilon is split for so many pairs of a user."
            )


@functools.lru_cache(maxsize=256)
def _split(epsilon: float, rounds: int, delta: float, method: str) -> float:
    return split_epsilon(epsilon, rounds, delta, method)

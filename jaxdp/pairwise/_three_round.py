"""Statistics of pairs in three rounds, with a leading error that does not depend on gamma_2."""

import dataclasses
import math
from typing import Any

import numpy as np

from .._spec import check_choice
from ..linear._encoded import EncodedLawParams
from ..randomizers._binary import BinaryResponse
from ..randomizers._laplace import Laplace
from ..randomizers._priv_unit_g import PrivUnitG
from ._exact import Form
from ._quadratic_factor import QuadraticFactor
from ._rounds import check_groups, check_scalar, check_shares, group_sizes
from ._rounds_protocol import RoundsProtocol, require_linear, rounded_factor
from ._three_round_errors import data_free_bound, paper_error, tuned_error
from ._three_round_params import ThreeRoundParams


@dataclasses.dataclass(frozen=True, slots=True)
class ThreeRound(RoundsProtocol):
    """Three rounds: a rough mean vector, a vector across it, and numbers (Theorem 24).

    With `W = L^T R`, `R = D L`: the first round estimates `mu` near `R h` by the projection
    mechanism, the second the mean y of randomized columns of L, and then the users answer with
    numbers whose mean is that of `<L_v, mu> + <y, R_v - mu>` over v. The noise of y counts times
    `R h - mu` only, so that the leading error is that of the numbers.

    =====================  ==========================  ==========================================
    `variant`              "paper"                     "tuned"
    =====================  ==========================  ==========================================
    who                    everyone, in all rounds     a random group each round
    epsilon                a quarter for each report   full
    mu                     projected on the hull of    projected on the hull of the columns
                           the columns and negatives
    numbers                two, by Laplace noise:      one bit for their sum
                           within `|W|`, and clipped
                           to `tau = 4 |W|`
    constants              none taken out of W         W less the best constant
    =====================  ==========================  ==========================================

    Formal guarantees:
      * Privacy: "paper" adds up the four reports that are realised; in "tuned" a user sends one.
      * Bias: none, but for what clipping takes and the rounding of numbers to 24 bits ("tuned":
        and for groups of fewer than two users, whose probability is at most 1e-9).
      * Variance: a proven bound. The Laplace noise of "paper" alone has, exactly,
        `2176 |W|**2 / (epsilon**2 n)`, `|W|` the largest entry; y adds at most
        `s**2 C**2 E |R h - mu|**2 / n`. "tuned" has `c**2 tau**2 / b`, of which what users would
        answer without noise is not subtracted, with terms of second order.

    Edge cases:
      ==================================  ====================================================
      kernel of several averages          ValueError
      "paper" with the U-form             ValueError: it estimates quadratic forms
      fewer users than groups need        ValueError with the number ("tuned")
      more than 2**42 users               ValueError: sums are kept in 63 bits
      ==================================  ====================================================

    Args:
      kernel: the statistic, or a matrix W.
      epsilon: privacy parameter.
      num_values: as in `PairwiseProtocol`.
      form: "u" or "v"; "paper" estimates the V-form.
      variant: "tuned" or "paper"; see the table.
      shares: of the users in each round ("tuned").
      tau: the bound that numbers are clipped to. None for `4 |W|` in "paper"; in "tuned" for half
        of the range of the numbers, which all users know, so that nothing is clipped. "bound"
        ("tuned"): what no number is beyond, whatever the data, but for a probability of 1e-9; with
        b users in the second round and W less its constant it is `2 |W| + t / sqrt(b)`, t from the
        tail of a report. The range is at most twice that and needs no such margin, so that its
        predicted error is less: it is the default.

    Raises:
      ValueError: an argument is out of range, or the kernel does not fit.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> from jaxdp.pairwise import GiniDiversity
      >>> from jaxdp.pairwise import ThreeRound
      >>> paper = ThreeRound(GiniDiversity(), 1.0, num_values=3, form="v", variant="paper")
      >>> tuned = ThreeRound(GiniDiversity(), 1.0, num_values=3)
      >>> n = 10**6
      >>> round(n * paper.worst_case_variance(n)), round(n * tuned.worst_case_variance(n))
      (2176, 12)

    References:
      Ghazi et al. (2023), Theorem 24 and Appendix C.
    """

    kernel: Any
    epsilon: float
    num_values: int | tuple[int, ...] | None = None
    form: Form = "u"
    variant: str = "tuned"
    shares: tuple[float, float, float] = (0.2, 0.3, 0.5)
    tau: float | str | None = None

    def __post_init__(self):
        self._check_statistic()
        require_linear(self)
        check_choice("variant", self.variant, ("tuned", "paper"))
        object.__setattr__(self, "shares", check_shares("shares", self.shares, 3))
        if self.tau != "bound" or self.variant == "paper":
            object.__setattr__(self, "tau", check_scalar("bit", self.tau))
        if self.variant == "paper" and self.form == "u":
            raise ValueError(
                "form must be 'v' for variant 'paper', which estimates quadratic forms; got 'u'."
            )
        PrivUnitG(1, self._report_epsilon)

    @property
    def groups(self) -> tuple[float, ...] | None:
        """The shares of the users in each round; None where all answer in all of them."""
        return self.shares if self.variant == "tuned" else None

    @property
    def _report_epsilon(self) -> float:
        return self.epsilon / 4 if self.variant == "paper" else self.epsilon

    @property
    def factor(self) -> QuadraticFactor:
        """The factorization in use."""
        return rounded_factor(self, self.variant == "tuned")

    @property
    def randomizer(self) -> PrivUnitG:
        """What users run on their column, in the first and in the second round."""
        factor = self.factor
        return PrivUnitG(factor.scales.size, self._report_epsilon, factor.radius)

    @property
    def scalar_randomizer(self) -> BinaryResponse | Laplace:
        """What users run on a number scaled to [-1, 1]."""
        kind = Laplace if self.variant == "paper" else BinaryResponse
        return kind(self._report_epsilon)

    @property
    def norm(self) -> float:
        """`|W|`, the largest absolute value of an entry."""
        return float(np.abs(self.matrices()[0]).max())

    @property
    def clip(self) -> tuple[float, float] | None:
        """The bound `x + t / sqrt(b)` that numbers are clipped to, as (x, t); or None."""
        if self.tau == "bound":
            return data_free_bound(self)
        if self.variant == "paper" and self.tau is None:
            return 4 * self.norm, 0.0
        return None if self.tau is None else (float(self.tau), 0.0)

    def build(self, word_bits: int = 32) -> "ThreeRoundParams":
        """The params."""
        factor, offset = self.factor, np.zeros(self.factor.scales.size)
        clip, margin = self.clip or (None, 0.0)
        return ThreeRoundParams(
            EncodedLawParams(self.randomizer.build(word_bits), factor.columns, None, offset),
            self.scalar_randomizer.build(word_bits),
            factor.scales,
            np.diagonal(factor.rest).copy(),
            np.asarray(factor.constant),
            np.asarray(self.norm, np.float32),
            None if clip is None else np.asarray(clip, np.float32),
            np.asarray(margin),
            self.shares,
            self.variant,
            self.form,
        )

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: the sum of four reports', or the largest of three."""
        vector, scalar = self.randomizer.exact_epsilon(), self.scalar_randomizer.exact_epsilon()
        return 2 * vector + 2 * scalar if self.variant == "paper" else max(vector, scalar)

    def check_population(self, population) -> None:
        """Raises unless values are bins and the groups have enough users, but not too many."""
        super(ThreeRound, self).check_population(population)
        if self.variant == "tuned":
            check_groups(population.num_users, self.shares)
        self.randomizer.check_total(population)

    def _error(self, users: np.ndarray | None, num_users: int, drawn: bool) -> np.ndarray:
        if num_users < 4:
            raise ValueError(f"num_users must be at least 4 for a prediction, got {num_users}.")
        if self.variant == "paper":
            return np.asarray(paper_error(self, users, float(num_users), drawn))
        check_groups(num_users, self.shares)
        groups = group_sizes(num_users, self.shares)
        found, second = tuned_error(self, users, float(num_users), groups.sizes, drawn)
        total, lost = groups.weights @ found, groups.weights @ second
        return np.asarray((math.sqrt(total) + math.sqrt(lost)) ** 2)

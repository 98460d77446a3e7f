"""Statistics of pairs in three rounds, with a leading error that does not depend on gamma_2."""

import dataclasses
import math
from typing import Any

import numpy as np

from .._spec import check_choice
from ..linear._encoded import EncodedLawParams
from ..linear._tails import Tail, tail_of
from ..randomizers._binary import BinaryResponse
from ..randomizers._laplace import Laplace
from ..randomizers._priv_unit_g import PrivUnitG
from ._exact import Form
from ._rounds import (
    averages,
    check_groups,
    check_scalar,
    check_shares,
    clipped,
    group_sizes,
    mean_square,
    square_of_target,
    squared_range,
)
from ._rounds_protocol import RoundsProtocol
from ._signed_factor import SignedFactor, require_linear, signed_factor
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
      kernel: the statistic, or a symmetric matrix W.
      epsilon: privacy parameter.
      num_values: as in `PairwiseProtocol`.
      form: "u" or "v"; "paper" estimates the V-form.
      variant: "tuned" or "paper"; see the table.
      shares: of the users in each round ("tuned").
      tau: the bound that numbers are clipped to. None for `4 |W|` in "paper"; in "tuned" for half
        of the range of the numbers, which all users know, so that nothing is clipped.

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
    tau: float | None = None

    def __post_init__(self):
        self._check_statistic()
        require_linear(self)
        check_choice("variant", self.variant, ("tuned", "paper"))
        object.__setattr__(self, "shares", check_shares("shares", self.shares, 3))
        object.__setattr__(self, "tau", check_scalar("bit", self.tau))
        if self.variant == "paper" and self.form == "u":
            raise ValueError(
                "form must be 'v' for variant 'paper', which estimates quadratic forms; got 'u'."
            )
        PrivUnitG(1, self._report_epsilon)

    @property
    def _report_epsilon(self) -> float:
        return self.epsilon / 4 if self.variant == "paper" else self.epsilon

    @property
    def factor(self) -> SignedFactor:
        """The factorization in use."""
        return signed_factor(self, self.variant == "tuned")

    @property
    def randomizer(self) -> PrivUnitG:
        """What users run on their column, in the first and in the second round."""
        factor = self.factor
        return PrivUnitG(factor.signs.size, self._report_epsilon, factor.radius)

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
    def _clip(self) -> float | None:
        return 4 * self.norm if self.variant == "paper" and self.tau is None else self.tau

    def build(self, word_bits: int = 32) -> "ThreeRoundParams":
        """The params."""
        factor, offset = self.factor, np.zeros(self.factor.signs.size)
        clip = self._clip
        return ThreeRoundParams(
            EncodedLawParams(self.randomizer.build(word_bits), factor.columns, None, offset),
            self.scalar_randomizer.build(word_bits),
            factor.signs,
            np.diagonal(factor.matrix).copy(),
            np.asarray(factor.shift),
            np.asarray(self.norm, np.float32),
            None if clip is None else np.asarray(clip, np.float32),
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
            return np.asarray(_paper_error(self, users, float(num_users), drawn))
        check_groups(num_users, self.shares)
        groups = group_sizes(num_users, self.shares)
        found, second = _tuned_error(self, users, float(num_users), groups.sizes, drawn)
        total, lost = groups.weights @ found, groups.weights @ second
        return np.asarray((math.sqrt(total) + math.sqrt(lost)) ** 2)


def _off_mean(spec: ThreeRound, num_users, num_vertices: int):
    """A bound on `E |mu - R h|**2`, h of the users of the first round.

    That of the raw mean, or `E max <z, w>` over the vertices, whichever is less; see `Projected`.
    """
    tail = tail_of(spec.randomizer)
    assert tail is not None
    raw = spec.factor.signs.size * spec.randomizer.worst_case_variance(1) / num_users
    width = np.array([tail.of_mean(n).largest(num_vertices, spec.factor.radius) for n in num_users])
    return np.minimum(raw, width)


def _sampled(spec: ThreeRound, users, products: np.ndarray) -> np.ndarray:
    """The mean square whose coefficients on the averages of W less a constant are given."""
    matrix = spec.factor.matrix
    if users is None:
        return np.abs(products).sum(axis=0) * (float(np.ptp(matrix)) / 2) ** 2
    counts, drawn = users
    own = np.diagonal(matrix)
    middle = averages(matrix, own, counts, drawn).pair
    return np.maximum(averages(matrix - middle, own - middle, counts, drawn).of(products), 0.0)


def _paper_error(spec: ThreeRound, users: np.ndarray | None, n: float, drawn: bool) -> float:
    """The Laplace noise, that of y, the users' sampling if drawn, and what clipping takes."""
    tau, radius, matrix = spec._clip, spec.factor.radius, spec.factor.matrix
    assert tau is not None
    scalar = float(spec.scalar_randomizer.worst_case_variance(1)) / n
    total = scalar * (spec.norm**2 + tau**2)
    off = float(_off_mean(spec, np.array([n]), 2 * len(matrix))[0])
    total += float(spec.randomizer.worst_case_variance(1)) / n * off
    if drawn:
        total += float(_sampled(spec, (users, True), square_of_target("v", n))[0])
    tail = tail_of(spec.randomizer)
    assert tail is not None
    noise = Tail(
        4 * radius**2 * tail.variance / n, 2 * radius * tail.scale / n
    )  # |R_v - mu| <= 2 C
    size = np.full(len(matrix), 2 * float(np.abs(matrix).max()))
    share = np.full(len(matrix), 1 / len(matrix))
    if users is not None:
        share = users / users.sum()
        if not drawn:
            answers = np.abs(matrix @ share)
            size = answers + answers.max()
    second, _ = clipped(size, tau, [noise] * len(matrix))
    lost = second.max() if users is None else share[share > 0] @ second[share > 0]
    return (math.sqrt(total) + math.sqrt(lost)) ** 2


def _tuned_error(spec: ThreeRound, users, n: float, sizes: np.ndarray, drawn: bool):
    """For given sizes of the groups A, B, S: the error without clipping, and what clipping takes.

    With o = mu - R h_A, the error is that of `h_S W h_A + h_B W h_S - h_B W h_A` for the split,
    plus `<L h_S - L h_B, o>`, of mean 0 given A and variance at most `|o|**2 C**2 (1/b + 1/s)` up
    to a factor for draws without replacement, plus the noise of y times `R (h_S - h_A) - o`.
    """
    first, second, third = sizes
    factor, matrix = spec.factor, spec.factor.matrix
    columns, own = factor.columns.astype(np.float64), np.diagonal(matrix)
    step, extra = (1.0, 0.0) if spec.form == "u" else (1 - 1 / n, 1 / n)
    terms = [
        (step, ("T", 0, 2)),
        (step, ("T", 1, 2)),
        (-step, ("T", 0, 1)),
        (extra, ("d", 2)),
    ]
    products = mean_square(terms, sizes) - (0.0 if drawn else square_of_target(spec.form, n))
    split = _sampled(spec, None if users is None else (users, drawn), products)
    off = step**2 * _off_mean(spec, first, len(matrix))
    square = factor.radius**2
    rest = second + third
    across = off * square * (1 / second + 1 / third) * rest / (rest - 1)
    spread = square * n / (n - 1)
    if users is not None:
        share = users / users.sum()
        centred = columns - share @ columns
        spread = share @ np.sum(centred**2, axis=1) * (1.0 if drawn else n / (n - 1))
    seen = (np.sqrt(step**2 * spread * (1 / first + 1 / third)) + np.sqrt(off)) ** 2
    t = float(spec.randomizer.worst_case_variance(1))
    total = (np.sqrt(split) + np.sqrt(across)) ** 2 + t * seen / second

    unit = float(spec.scalar_randomizer.worst_case_variance(1))
    tail = tail_of(spec.randomizer)
    assert tail is not None
    norms, width = np.linalg.norm(columns, axis=1), np.ptp(matrix, axis=1)
    highs, lows = matrix.max(axis=1), matrix.min(axis=1)
    high, low = 2 * highs, 2 * lows
    if users is not None:  # mu is in the hull, so that <L_v, mu> is between the entries of a row
        high, low = (matrix @ share + x for x in (highs, lows))
        slack = width / (n - 1)
        high, low = high + slack, low - slack
    high, low = step * high + extra * own, step * low + extra * own
    taus, lost = np.zeros_like(second), np.zeros_like(second)
    for i, size in enumerate(second):
        sampling = 0.0 * width if users is None else width**2 / (4 * size)
        tails = [
            Tail(step**2 * (r**2 * tail.variance / size + s), step * r * tail.scale / size)
            for r, s in zip(norms, sampling, strict=True)
        ]
        if spec.tau is None:
            taus[i] = squared_range(high, low, tails)
            if users is not None:  # or mu is near R h, by the mean square `off`
                means = 2 * step * matrix @ share + extra * own
                near = [  # of the sum of two dependent means, by the inequality of Cauchy
                    Tail(x.variance + (step * w) ** 2 * (2 / first[i] + 1 / size) / 4, x.scale)
                    for x, w in zip(tails, width, strict=True)
                ]
                close = squared_range(means + 2 * step * slack, means - 2 * step * slack, near)
                lost_range = math.sqrt(float(off[i]) * square)
                taus[i] = min(taus[i], (math.sqrt(close) + lost_range) ** 2)
            continue
        taus[i] = spec.tau**2
        each, _ = clipped(np.maximum(np.abs(high), np.abs(low)), spec.tau, tails)
        lost[i] = each.max() if users is None else share[share > 0] @ each[share > 0]
    return total + unit * taus / third, lost

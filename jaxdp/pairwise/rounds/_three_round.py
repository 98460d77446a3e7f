"""Statistics of pairs in three rounds, with a leading error that does not depend on gamma_2."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ..._checks import By, Choice, Epsilon
from ..._contract import Collect, Interactive, Sent, Step, Work, field, params, spec, static
from ..._x64 import as_float64, compiled_in_float64, dot
from ...population import GroupSource, Population
from ...projections import hull, symmetric_polytope
from ...random import Count
from ...randomizers import BinaryResponse, Laplace, MeanRandomizer, MeanRound, PrivUnitG
from ..kernels._exact import FORM, Form
from ..kernels._kernel import Kernel, Link
from ..kernels._pair_kernel import KERNEL, NUM_VALUES
from ..vectors._quadratic_factor import QuadraticFactor
from ..vectors._quadratic_form import (
    RANDOMIZER,
    Reports,
    VectorMaker,
    check_randomizer,
    randomizer_of,
)
from . import _group_errors as errors
from . import _ranges as ranges
from ._centred_errors import error_bound, off_mean, sampled, split_products
from ._rounds import (
    TAU,
    Factors,
    LookupRound,
    RoundsOutcome,
    RoundsProtocol,
    answered,
    broadcast,
    check_shares,
    combined,
    left_over,
    linked,
    rounded_factors,
    tangent,
    users_in,
)

_BEYOND = 1e-9  # the largest probability that a number is beyond its data-independent bound
_TOL = 1e-9  # of projections


def _shares(name: str, value: object) -> tuple[float, ...]:
    return check_shares(name, value, 3)


def _tau(name: str, value: float | str | None) -> float | str | None:
    return value if isinstance(value, str) and value == "bound" else TAU(name, value)


@spec
class ThreeRound(RoundsProtocol["ThreeRoundParams"]):
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
    constants              none taken out of W         W minus the best constant
    =====================  ==========================  ==========================================

    Where the statistic is a function of several averages (AUC by plug-in, tau_b, collision
    entropy), users report vectors of all of them, and W is the combination of their matrices by the
    derivatives of the statistic at the averages that mu leads to ("tuned"). The estimate is the
    statistic of these averages, moved as little as gives the combination its estimate.

    Formal guarantees:
      * Privacy: "paper" adds up the four reports that are realised; in "tuned" a user sends one.
      * Bias: none, but for what clipping takes and the rounding of numbers to 24 bits ("tuned":
        and for groups of fewer than two users, whose probability is at most 1e-9). Statistics by
        plug-in are consistent.
      * Variance: with "tuned" and `tau=None` that of normal means of reports, with groups of the
        expected sizes: mu, y and the range of the numbers are averaged over fixed draws of them; of
        a statistic by plug-in that of the linear combination at the true averages (delta method),
        with the curve of the statistic along it, and what mu's linearisation leaves, to second
        order: within 6 % for 5,000 users with two labels and 8 scores at epsilon = 1 and 2.
        Otherwise, and in `worst_case_variance`, a proven bound. The Laplace noise of "paper" alone
        has at most `17 |W|**2 v / n`, `|W|` the largest entry and v the worst variance of `Laplace`
        at epsilon / 4, which is below `128 / epsilon**2`; y adds at most
        `s**2 C**2 E |R h - mu|**2 / n`. That of "tuned" has `c**2 tau**2 / b`, of which what users
        would answer without noise is not subtracted, with terms of second order.

    Edge cases:
      ==================================  ====================================================
      several averages                    ValueError with `tau`, and with "paper": their slopes
                                          set the scale of the numbers
      "paper" with the U-form             ValueError: it estimates quadratic forms
      fewer users than groups need        ValueError with the number ("tuned")
      more than about 2**35 users         ValueError: sums are kept in 63 bits
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
        b users in the second round and W minus its constant it is `2 |W| + t / sqrt(b)`, t from the
        tail of a report, which must be sub-Gaussian. The range is at most twice that and needs no
        such margin, so that its predicted error is smaller: it is the default.
      randomizer: makes the spec of a randomizer of vectors in a ball from the keywords dim, epsilon
        and radius, as in `OneReport`.

    Raises:
      ValueError: an argument is out of range, or the kernel does not fit.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> from jaxdp.pairwise import GiniDiversity, ThreeRound
      >>> paper = ThreeRound(GiniDiversity(), 1.0, num_values=3, form="v", variant="paper")
      >>> tuned = ThreeRound(GiniDiversity(), 1.0, num_values=3)
      >>> n = 10**6
      >>> round(n * paper.worst_case_variance(n)), round(n * tuned.worst_case_variance(n))
      (1215, 12)

    References:
      Ghazi et al. (2023), Theorem 24 and Appendix C.
    """

    kernel: Kernel = field(KERNEL)
    epsilon: float = field(Epsilon())
    num_values: int | tuple[int, ...] | None = field(NUM_VALUES, default=None)
    form: Form = field(FORM, default="u")
    variant: str = field(Choice("tuned", "paper"), default="tuned")
    shares: tuple[float, float, float] = field(
        By(_shares, ((0.5, 0.5), (0.5, 0.5, 0.5), 1.0)), default=(0.2, 0.3, 0.5)
    )
    tau: float | str | None = field(By(_tau, (0.0, -1.0, "range")), default=None)
    randomizer: VectorMaker = field(RANDOMIZER, default=PrivUnitG)

    def validate(self) -> None:
        """Raises unless the kernel and the other arguments fit the variant."""
        RoundsProtocol.validate(self)
        if self.variant == "paper" and not self.kernel.is_linear:
            raise ValueError(
                f"variant must be 'tuned' for {self.kernel!r}, a function of several averages: "
                "'paper' clips numbers to a bound that depends on one matrix."
            )
        if self.variant == "paper":
            TAU("tau", self.tau)
            if self.form == "u":
                raise ValueError(
                    "form must be 'v' for variant 'paper', which estimates quadratic forms; got "
                    "'u'."
                )
        unit = check_randomizer(self.randomizer, self.num_bins, self._report_epsilon)
        if self.tau == "bound" and errors.tail_of(unit).scale > 0:
            raise ValueError(
                "tau must be None or a number for a randomizer without a sub-Gaussian tail, got "
                f"'bound' with {type(unit).__name__}."
            )

    @property
    def groups(self) -> tuple[float, ...] | None:
        """The shares of the users in each round; None if all users answer in all rounds."""
        return self.shares if self.variant == "tuned" else None

    @property
    def _report_epsilon(self) -> float:
        return self.epsilon / 4 if self.variant == "paper" else self.epsilon

    @property
    def factors(self) -> Factors:
        """The factorizations in use, one for each average."""
        return rounded_factors(self, self.variant == "tuned")

    @property
    def factor(self) -> QuadraticFactor:
        """The factorization of the matrix of a linear kernel."""
        return self.factors.combined(np.ones(1))

    @property
    def vector_randomizer(self) -> MeanRandomizer:
        """The randomizer that users run on their column, in the first and in the second round."""
        return randomizer_of(self.randomizer, self.factors.columns, self._report_epsilon)

    @property
    def _is_plug_in(self) -> bool:
        """Whether nothing is clipped."""
        return self.tau is None and self.variant == "tuned"

    def reports(self) -> Reports:
        """The moments of the reports of the first two rounds."""
        covariance = self.vector_randomizer.covariance_form()
        assert covariance is not None, "checked by `check_randomizer`"
        return Reports(self.factors.columns.astype(np.float64), *covariance)

    @property
    def scalar_randomizer(self) -> BinaryResponse | Laplace:
        """The randomizer that users run on a number scaled to [-1, 1]."""
        kind = Laplace if self.variant == "paper" else BinaryResponse
        return kind(self._report_epsilon)

    @property
    def norm(self) -> float:
        """`|W|`, the largest absolute value of an entry."""
        return float(np.abs(self.matrices()[0]).max())

    @property
    def clip(self) -> tuple[float, float] | None:
        """The bound `x + t / sqrt(b)` that numbers are clipped to, as (x, t); or None.

        With `tau="bound"` it is what no number of "tuned" is beyond, whatever the data. With W
        minus its constant, both `<L_v, D mu>`, mu in the hull of the columns, and the mean of
        W[v, w] over the b users of the second round are at most `|W|`; the noise of their y adds
        one that is sub-Gaussian of variance `|L_v|**2 s / b`. It is beyond
        `sqrt(2 log(2 / p) s / b) |L_v|` with probability p at most.
        """
        if self.tau == "bound":
            variance = errors.tail_of(self.vector_randomizer).variance
            margin = self.factor.radius * math.sqrt(2 * math.log(2 / _BEYOND) * variance)
            return 2 * float(np.abs(self.factor.centred).max()), margin
        if self.variant == "paper" and self.tau is None:
            return 4 * self.norm, 0.0
        return None if self.tau is None else (float(self.tau), 0.0)

    def build(self, word_bits: int = 32) -> "ThreeRoundParams":
        """Builds the params, which users and the analyst run."""
        factors = self.factors
        clip, margin = self.clip or (None, 0.0)
        return ThreeRoundParams(
            LookupRound(self.vector_randomizer.build(word_bits), factors.columns),
            self.scalar_randomizer.build(word_bits),
            factors.scales,
            factors.diagonals,
            factors.constants,
            np.asarray(self.norm, np.float32),
            None if clip is None else np.asarray(clip, np.float32),
            np.asarray(margin),
            self.kernel.link,
            self.shares,
            self.variant,
            self.form,
        )

    @property
    def sent(self) -> tuple[Sent, ...]:
        """Two vectors and two numbers of each user in "paper", else one of three from each."""
        vector, scalar = self.vector_randomizer, self.scalar_randomizer
        if self.groups is None:
            return Sent(vector, times=2), Sent(scalar, times=2)
        return tuple(map(Sent, (vector, vector, scalar), self.groups))

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: the sum of four reports', or the largest of three."""
        vector = self.vector_randomizer.exact_epsilon()
        scalar = self.scalar_randomizer.exact_epsilon()
        return 2 * vector + 2 * scalar if self.variant == "paper" else max(vector, scalar)

    def exact_delta(self) -> float:
        """A delta at which `exact_epsilon()` holds, by basic composition; 0 if pure."""
        return self.vector_randomizer.exact_delta() * (2 if self.variant == "paper" else 1)

    def check_population(self, population: Population) -> None:
        """Raises unless values are bins and the groups have enough users, but not too many."""
        RoundsProtocol.check_population(self, population)
        if self.variant == "tuned":
            errors.check_groups(population.num_users, self.shares)
        self.vector_randomizer.check_total(population)

    def _error(
        self,
        users: Float[np.ndarray, " k"] | None,
        num_users: int,
        drawn: bool,
        slopes: Float[np.ndarray, " m"],
    ) -> Float[np.ndarray, ""]:
        if num_users < 4:
            raise ValueError(f"num_users must be at least 4 for a prediction, got {num_users}.")
        if self.variant == "paper":
            return np.asarray(_paper_error(self, users, float(num_users), drawn))
        errors.check_groups(num_users, self.shares)
        sizes, weights = errors.group_sizes(num_users, self.shares)
        if users is not None and self._is_plug_in:
            factor = self.factors.combined(slopes)
            return np.asarray(_plug_in_error(self, factor, users, float(num_users), drawn))
        unclipped, lost = _tuned_error(self, users, float(num_users), sizes, drawn)
        return np.asarray((math.sqrt(weights @ unclipped) + math.sqrt(weights @ lost)) ** 2)

    @staticmethod
    def error_bound(
        norm: float,
        radius: float,
        num_values: int,
        num_users: int,
        epsilon: float,
        dim: int,
        shares: tuple[float, float, float] | None,
    ) -> float:
        """A proven bound on the mean squared error for all kernels with given norms.

        `jaxdp.bounds.three_round_mse` has it in formulas.

        Args:
          norm: `|W|`; of "tuned", of W minus a constant.
          radius: C, the largest norm of a column.
          num_values: k.
          num_users: n.
          epsilon: privacy parameter.
          dim: of the columns.
          shares: of the users in each round of "tuned"; None for "paper".
        """
        return error_bound(norm, radius, num_values, num_users, epsilon, dim, shares)


def _paper_error(
    spec: ThreeRound, users: Float[np.ndarray, " k"] | None, n: float, drawn: bool
) -> float:
    """The Laplace noise, that of y, the users' sampling if drawn, and what clipping takes."""
    assert spec.clip is not None
    (tau, _), radius, matrix = spec.clip, spec.factor.radius, spec.factor.centred
    vectors, size = spec.vector_randomizer, len(matrix)
    # Theorem 24 with its constants: Laplace noise of numbers within |W|, and within tau
    total = spec.scalar_randomizer.worst_case_variance(1) / n * (spec.norm**2 + tau**2)
    off = off_mean(vectors, radius, np.array([n]), spec.factor.scales.size, 2 * size)
    total += vectors.worst_case_variance(1) / n * float(off[0])
    if drawn:
        total += float(sampled(matrix, users, errors.square_of_target("v", n), True)[0])
    # The noise of <y, R_v - mu>, where |R_v - mu| <= 2 C
    tails = errors.answer_tails(
        errors.tail_of(vectors), 1.0, np.full(size, 2 * radius), n, np.zeros(size)
    )
    reach = np.full(size, 2 * float(np.abs(matrix).max()))
    if users is not None and not drawn:
        answers = np.abs(matrix @ users / users.sum())
        reach = answers + answers.max()
    lost = errors.over_users(users, errors.clipped(reach, tau, tails)[0])
    return (math.sqrt(total) + math.sqrt(lost)) ** 2


def _tuned_error(
    spec: ThreeRound,
    users: Float[np.ndarray, " k"] | None,
    n: float,
    sizes: Float[np.ndarray, "3 m"],
    drawn: bool,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """For given sizes of the groups A, B, S: the error without clipping, and what clipping takes.

    With o = mu - R h_A, the error is that of `h_S W h_A + h_B W h_S - h_B W h_A` for the split,
    plus `<L h_S - L h_B, o>`, of mean 0 given A and variance at most `|o|**2 C**2 (1/b + 1/s)` up
    to a factor for draws without replacement, plus the noise of y times `R (h_S - h_A) - o`.
    """
    first, second, third = sizes
    factor, matrix, vectors = spec.factor, spec.factor.centred, spec.vector_randomizer
    columns, diagonal = factor.columns.astype(np.float64), np.diagonal(matrix)
    step, extra = (1.0, 0.0) if spec.form == "u" else (1 - 1 / n, 1 / n)
    split = sampled(matrix, users, split_products(spec.form, n, sizes, drawn), drawn)
    square = factor.radius**2
    off = step**2 * off_mean(vectors, factor.radius, first, factor.scales.size, len(matrix))
    later = second + third
    # B and S are drawn without replacement from those who are not in A.
    across = off * square * (1 / second + 1 / third) * later / (later - 1)
    spread, share = square * n / (n - 1), None
    if users is not None:
        share = users / users.sum()
        spread = np.trace(ranges.column_covariance(columns, share)) * (
            1.0 if drawn else n / (n - 1)
        )
    # The noise of y times R (h_S - h_A) - o, whose norm is at most the sum of the two norms
    root = np.sqrt(step**2 * spread * (1 / first + 1 / third)) + np.sqrt(off)
    noise = vectors.worst_case_variance(1) * root**2 / second
    total = (np.sqrt(split) + np.sqrt(across)) ** 2 + noise
    clip, tail = spec.clip, errors.tail_of(vectors)
    norms, width = np.linalg.norm(columns, axis=1), np.ptp(matrix, axis=1)
    highs, lows, slack = matrix.max(axis=1), matrix.min(axis=1), 0.0
    # <L_v, mu> and the mean of W[v, .] over B are both between the extremes of a row.
    high, low = 2 * highs, 2 * lows
    if share is not None:  # mu is in the hull, so that <L_v, mu> is between the entries of a row
        slack = width / (n - 1)
        high, low = matrix @ share + highs + slack, matrix @ share + lows - slack
    high, low = step * high + extra * diagonal, step * low + extra * diagonal
    taus, lost = np.zeros_like(second), np.zeros_like(second)
    for i, size in enumerate(second):
        sampling = 0.0 * width if users is None else width**2 / (4 * size)
        tails = errors.answer_tails(tail, step, norms, size, sampling)
        if clip is None:
            taus[i] = errors.squared_range(high, low, tails)
            continue
        tau = clip[0] + clip[1] / math.sqrt(size)
        taus[i] = tau**2
        reach = np.maximum(np.abs(high), np.abs(low))
        if spec.tau == "bound":  # what no data set exceeds, but for the noise
            reach = np.full(len(norms), clip[0])
            tails = errors.answer_tails(tail, 1.0, norms, size, 0.0 * width)
        lost[i] = errors.over_users(users, errors.clipped(reach, tau, tails)[0])
    unit = spec.scalar_randomizer.worst_case_variance(1)
    return total + unit * taus / third, lost


def _plug_in_error(
    spec: ThreeRound,
    factor: QuadraticFactor,
    users: Float[np.ndarray, " k"],
    n: float,
    drawn: bool,
) -> float:
    """The error of "tuned" where nothing is clipped, for groups A, B, S of the expected sizes.

    Mu and all that users of S are asked are had from normal means; parts as in `_tuned_error`.
    """
    matrix, reports = factor.centred, spec.reports()
    columns, signs, share = reports.means, factor.scales, users / users.sum()
    first, second, third = sizes = np.array(spec.shares) * n
    mean = share @ columns
    step, extra = (1.0, 0.0) if spec.form == "u" else (1 - 1 / n, 1 / n)
    # Of the column of a user, among those who are left, and of the noise of a report
    one, report = ranges.column_covariance(columns, share), reports.total(share)
    one *= 1.0 if drawn else n / (n - 1)
    # A projection takes hundreds of products with the columns.
    number = min(ranges.num_draws(*columns.shape, work=2**23), 2**11)
    draws = [ranges.normal_draws(number, columns.shape[1], seed) for seed in range(4)]
    among = 0.0 if drawn else 1 / n  # users of a group are drawn without replacement
    of_first = ranges.normals(draws[0], (1 / first - among) * one)  # L h_A - L h
    raw = mean + of_first + ranges.normals(draws[1], report / first)
    # mu, less R h, but for D
    off = np.asarray(hull(raw, columns.T, tol=1e-4 * factor.radius**2, float64=True).point) - mean
    reported = ranges.normals(draws[2], (1 / second - among) * one + report / second)
    numbers = step * ((2 * mean + off + reported) * signs) @ columns.T
    numbers += extra * np.diagonal(matrix)
    unit = spec.scalar_randomizer.worst_case_variance(1)
    scalar = ranges.number_noise(numbers, share, unit, bit=True) / third
    products = split_products(spec.form, n, sizes[:, None], drawn)
    split = float(sampled(matrix, users, products, drawn)[0])
    error = (off - of_first) * signs  # D o
    # <L h_S - L h_B, D o>, and twice its covariance with 2 <L h_S, D L h>, the slope of `split`
    across = (1 / second + 1 / third) * float(np.mean(np.sum(error @ one * error, axis=1)))
    across += 4 / third * float(np.mean(error, axis=0) @ one @ (signs * mean))
    # The noise of y times R h_S - mu, where A and S have no user in common
    left, rest = (0.0, 0.0) if drawn else (first / (n - first), 1 / (n - first))
    covariance = (1 / third - rest) * one
    rest = (ranges.normals(draws[3], covariance) - left * of_first - off) * signs
    noise = float(np.mean(np.sum(rest @ report * rest, axis=1))) / second
    # What is left of the curve of the statistic, after the step along the slopes at mu
    factors, averages = spec.factors, spec._averages(users, n, drawn)
    found = (off + mean) ** 2 @ factors.scales.T + factors.constants
    curved = float(np.mean(left_over(spec.kernel.link, found, averages, n) ** 2))
    return split + step**2 * (across + noise) + scalar + curved


@params
class ThreeRoundParams(Interactive[RoundsOutcome]):
    """The params of `ThreeRound`: a pytree.

    Attributes:
      vectors: the first two rounds.
      scalar: the params of the randomizer of numbers in [-1, 1].
      scales: float64[m, l], the diagonal of D of each average.
      diagonals: float64[m, k], of W minus its shift.
      shifts: float64[m], what was taken out of W.
      norm: float32[], `|W|`.
      tau: float32[], the clipping bound; or None for the range.
      margin: float64[], what is added to it, times the root of the size of the second round.
      link: the statistic as a function of the averages, static.
      shares: of the users in each round, static.
      variant: static.
      form: static.
    """

    vectors: LookupRound
    scalar: MeanRound
    scales: Float[Array | np.ndarray, "m l"]
    diagonals: Float[Array | np.ndarray, "m k"]
    shifts: Float[Array | np.ndarray, " m"]
    norm: Float[Array | np.ndarray, ""]
    tau: Float[Array | np.ndarray, ""] | None
    margin: Float[Array | np.ndarray, ""]
    link: Link = static()
    shares: tuple[float, float, float] = static()
    variant: str = static()
    form: Form = static()

    def rounds(self, work: Work) -> tuple[Step, ...]:
        """Two rounds of vectors, and one of numbers; "paper" has two of these, all from all."""
        numbers = LookupRound(self.scalar, np.zeros(self.vectors.num_bins, np.float32))
        if self.variant == "paper":
            return Step(self.vectors, work, 2.0), Step(numbers, work, 2.0)
        steps = zip((self.vectors, self.vectors, numbers), self.shares, strict=True)
        return tuple(Step(round, work.of(share)) for round, share in steps)

    def play(self, key: jax.Array, users: Population, collect: Collect) -> RoundsOutcome:
        """All rounds.

        Returns:
          Broadcasts "center" float32[l], D mu; "mean" float32[l], y; of several averages "averages"
          and "slopes" float32[m], where the statistic is linearised; and the numbers asked, each
          with "values", "middle", "tau": "numbers" and, in "paper", "alone", those of mu only.
          Tallies "center", "mean", "numbers" and "alone".
        """
        groups = (users,) * 3
        if self.variant == "tuned":
            groups = users.split(key, self.shares)

        def vectors_of(number: jax.Array) -> dict[str, Count]:
            source = groups[0].source
            if self.variant == "tuned":
                assert isinstance(source, GroupSource)
                source = dataclasses.replace(source, group=number)
            return collect(self.vectors, Population(source), number)

        # Both ask the same of their users, whatever the others answer: one program to compile.
        vectors = lax.map(vectors_of, jnp.arange(2, dtype=jnp.int32))
        first, second = (jax.tree.map(lambda x, i=i: x[i], vectors) for i in range(2))
        sent = self._center(first, users.size)
        sent |= self._numbers(sent, second, users.size)
        tallies = {"center": first, "mean": second}
        tallies["numbers"] = collect(
            LookupRound(self.scalar, sent["numbers"]["values"]), groups[2], 2
        )
        if self.variant == "paper":
            tallies["alone"] = collect(LookupRound(self.scalar, sent["alone"]["values"]), users, 3)
        return RoundsOutcome(sent, tallies)

    @compiled_in_float64
    def _center(self, tally: dict[str, Count], num_users: Count) -> dict[str, jax.Array]:
        columns, scales, shifts = as_float64(self.vectors.embedding, self.scales, self.shifts)
        project = symmetric_polytope if self.variant == "paper" else hull
        point = project(self.vectors.estimate(tally), columns.T, tol=_TOL).point
        plane = tangent(self.link, dot(scales, point**2) + shifts, num_users.f64())
        return plane | {"center": (combined(plane, scales) * point).astype(jnp.float32)}

    @compiled_in_float64
    def _numbers(
        self, sent: dict[str, jax.Array], tally: dict[str, Count], num_users: Count
    ) -> dict[str, Any]:
        n, mean = num_users.f64(), self.vectors.estimate(tally)
        center, columns, scales, diagonals = as_float64(
            sent["center"], self.vectors.embedding, self.scales, self.diagonals
        )
        signs, diagonal = combined(sent, scales), combined(sent, diagonals)
        # <L_v, mu> and <y, R_v>, and <y, mu>, which is the same for all
        alone, along = dot(columns, center), dot(columns, signs * mean)
        constant = jnp.sum(mean * center)
        told = {"mean": mean.astype(jnp.float32)}
        if self.variant == "paper":
            numbers = broadcast(along - constant, self.tau)
            return told | {"alone": broadcast(alone, self.norm), "numbers": numbers}
        if self.form == "u":
            step, extra = jnp.ones_like(n), jnp.zeros_like(n)
        else:
            step, extra = 1 - 1 / n, 1 / n
        tau = self.tau
        if tau is not None:
            margin, tau = as_float64(self.margin, tau)
            tau = tau + margin / jnp.sqrt(jnp.maximum(tally["users"].f64(), 1.0))
        numbers = broadcast(step * (alone + along) + extra * diagonal, tau)
        return told | {"constant": (step * constant).astype(jnp.float32), "numbers": numbers}

    @compiled_in_float64
    def estimate(self, outcome: RoundsOutcome, /) -> Float[Array, ""]:
        """The estimated statistic."""
        sent, tallies = outcome.broadcasts, outcome.tallies
        mean = answered(self.scalar, sent["numbers"], tallies["numbers"])
        if self.variant == "paper":
            return mean + answered(self.scalar, sent["alone"], tallies["alone"])
        constant, shifts = as_float64(sent["constant"], self.shifts)
        value = mean - constant + combined(sent, shifts)
        return linked(self.link, sent, value, users_in(tallies))

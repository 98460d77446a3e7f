"""Statistics of pairs in two rounds: a plug-in estimate, and one step that corrects it."""

import dataclasses
from typing import Any

import numpy as np

from ..linear._encoded import EncodedLawParams
from ..linear._tails import Tail, tail_of
from ..randomizers._priv_unit_g import PrivUnitG
from ._exact import Form
from ._one_step_params import OneStepParams, weights_of
from ._quadratic_factor import QuadraticFactor
from ._rounds import (
    Averages,
    averages,
    check_groups,
    check_scalar,
    check_shares,
    clipped,
    group_sizes,
    mean_square,
    scalar_randomizer,
    square_of_target,
    squared_range,
)
from ._rounds_protocol import RoundsProtocol, require_linear, rounded_factor


@dataclasses.dataclass(frozen=True, slots=True)
class OneStep(RoundsProtocol):
    """Two rounds: some users report vectors, the others one number that corrects their error.

    With `W = L^T D L + c`, D = diag(+-1), users of a random group A report randomized columns of L
    (`PrivUnitG`) in the first round, y their mean. All are told `g(v) = 2 y^T D L_v`, which is the
    derivative of the quadratic form at y, and the users of the other group B answer with a
    randomized g(v) in the second. The mean of g less `y^T D y` has, as one step of Newton's method,
    an error of second order in that of y: the leading error does not depend on gamma_2(W).

    In the U-form, with a users in A, s**2 l C**2 the mean square of the noise of a report,
    w = a / (a + 1), d the diagonal of W - c:

      `T = mean over B of (w g(v) + d(v) / (a + 1)) - w (y^T D y - s**2 C**2 tr(D) / a) + c`.

    Formal guarantees:
      * Privacy: a user sends one report, of the full epsilon.
      * Bias: none about the U- or V-statistic of given users, over their random split, and for
        independent users none about the population's U-statistic, but for clipping where `tau` is
        given, the rounding of numbers to 24 bits, and the event, of probability at most 1e-9, that
        a group has fewer than two users.
      * Variance, for `tau` given and but for what clipping takes: exact. The noise has
        `(c**2 tau**2 - E g**2) / b + 2 l C**4 s**4 / (a + 1)**2` and terms of order
        `gamma_2 / n**2 + 1 / n**3`, c**2 tau**2 the largest second moment of an answer, that of the
        noise of y included, and b the size of B; the split adds about `4 zeta_1 a / (b n)`. (Less
        the U-statistic of A's reports in place of `w (..)` the second term would be larger,
        `2 l C**4 s**4 / (a (a - 1))`.)
        With `tau=None` it is a proven bound, tight as the groups grow.

    Edge cases:
      ==================================  ====================================================
      kernel of several averages          ValueError
      W constant                          answers of size 1e-20; the estimate is c
      fewer users than groups need        ValueError with the number
      more than 2**42 users               ValueError: sums are kept in 63 bits
      `tau` below the answers             clipped, biased; `variance` bounds the effect
      ==================================  ====================================================

    Args:
      kernel: the statistic, or a matrix W.
      epsilon: privacy parameter.
      num_values: as in `PairwiseProtocol`.
      form: "u" or "v".
      share: of the users in A, between 0 and 1.
      scalar: "bit" or "laplace", how numbers are randomized.
      tau: the bound that numbers are clipped to. None for half of the range of g, which all users
        know, so that nothing is clipped.

    Raises:
      ValueError: an argument is out of range, or the kernel does not fit.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> import jax, jaxdp, numpy as np
      >>> from jaxdp.pairwise import GiniDiversity
      >>> from jaxdp.pairwise import OneStep
      >>> protocol = OneStep(GiniDiversity(), epsilon=2.0, num_values=3)
      >>> users = jaxdp.Population.from_histogram([6000, 3000, 1000])
      >>> bool(abs(jaxdp.run(protocol, users, jax.random.key(0)) - 0.54) < 0.2)
      True

    References:
      Derived here; the protocol of Ghazi et al. (2023), Section 1.2, without its correction, is
      `TwoRound`.
    """

    kernel: Any
    epsilon: float
    num_values: int | tuple[int, ...] | None = None
    form: Form = "u"
    share: float = 0.5
    scalar: str = "bit"
    tau: float | None = None

    def __post_init__(self):
        self._check_statistic()
        require_linear(self)
        check_shares("share", (self.share, 1 - self.share), 2)
        object.__setattr__(self, "tau", check_scalar(self.scalar, self.tau))
        scalar_randomizer(self.scalar, self.epsilon)
        PrivUnitG(1, self.epsilon)

    @property
    def groups(self) -> tuple[float, float]:
        """The shares of the users in the two rounds."""
        return self.share, 1 - self.share

    @property
    def factor(self) -> QuadraticFactor:
        """The factorization in use."""
        return rounded_factor(self)

    @property
    def randomizer(self) -> PrivUnitG:
        """What users of the first round run on their column."""
        factor = self.factor
        return PrivUnitG(factor.scales.size, self.epsilon, factor.radius)

    @property
    def scalar_randomizer(self):
        """What users of the second round run on their number, scaled to [-1, 1]."""
        return scalar_randomizer(self.scalar, self.epsilon)

    def build(self, word_bits: int = 32) -> "OneStepParams":
        """The params."""
        factor, randomizer = self.factor, self.randomizer
        offset = np.zeros(factor.scales.size)
        return OneStepParams(
            EncodedLawParams(randomizer.build(word_bits), factor.columns, None, offset),
            self.scalar_randomizer.build(word_bits),
            factor.scales,
            np.diagonal(factor.rest).copy(),
            np.asarray(factor.constant),
            np.asarray(randomizer.worst_case_variance(1)),
            None if self.tau is None else np.asarray(self.tau, np.float32),
            self.share,
            self.form,
        )

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: the larger of those of the two groups."""
        return max(self.randomizer.exact_epsilon(), self.scalar_randomizer.exact_epsilon())

    def check_population(self, population) -> None:
        """Raises unless values are bins and the groups have enough users, but not too many."""
        super(OneStep, self).check_population(population)
        check_groups(population.num_users, self.groups)
        self.randomizer.check_total(population)

    def _error(self, users: np.ndarray | None, num_users: int, drawn: bool) -> np.ndarray:
        check_groups(num_users, self.groups)
        groups = group_sizes(num_users, self.groups)
        noise, scalar = conditional_error(self, users, float(num_users), groups.sizes, drawn)
        total = groups.weights @ noise
        if self.tau is None:
            return np.asarray(total + groups.weights @ scalar)
        second, excess = (
            groups.weights @ x for x in self._clipping(users, float(num_users), groups.sizes)
        )
        total += groups.weights @ scalar + groups.weights @ (excess / groups.sizes[1])
        return np.asarray((np.sqrt(total) + np.sqrt(second)) ** 2)

    def _clipping(self, users, num_users: float, sizes: np.ndarray):
        """Bounds on what clipping takes, averaged over users, for each pair of group sizes."""
        assert self.tau is not None
        found = []
        for a in sizes[0]:
            high, low, tails = self._answers(users, num_users, a)
            each = clipped(np.maximum(np.abs(high), np.abs(low)), self.tau, tails)
            share = None if users is None else users / users.sum()
            bounds = [np.max(x) if share is None else _weighted(share, x) for x in each]
            found.append(bounds)
        return np.array(found).T

    def _answers(self, users, num_users: float, a: float):
        """Bounds on the means of what users of B answer, and the tails of the rest, by value."""
        factor, matrix = self.factor, self.factor.rest
        step, own = weights_of(self.form, num_users, a)
        tail = tail_of(self.randomizer)
        assert tail is not None
        diagonal = np.diagonal(matrix)
        width = np.ptp(matrix, axis=1)
        norms = np.linalg.norm(factor.columns.astype(np.float64), axis=1)
        if users is None:
            highs, lows = matrix.max(axis=1), matrix.min(axis=1)
            sampling = np.zeros_like(width)  # the mean of a group's W_vj is between these
        else:
            highs = lows = matrix @ users / users.sum()
            sampling = width**2 / (4 * a)  # Hoeffding, also for draws without replacement
        tails = [
            Tail(4 * step**2 * (norm**2 * tail.variance / a + s), 2 * step * norm * tail.scale / a)
            for norm, s in zip(norms, sampling, strict=True)
        ]
        slack = 2 * step * width / max(num_users - 1, 1.0)  # of a user who is not in A
        high, low = (2 * step * x + own * diagonal for x in (highs, lows))
        return high + slack, low - slack, tails


def _weighted(share: np.ndarray, values: np.ndarray) -> float:
    return float(np.sum(share[share > 0] * values[share > 0]))


def conditional_error(
    protocol: OneStep, users: np.ndarray | None, n: float, sizes: np.ndarray, drawn: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The mean squared error for given sizes (a, b) of the groups, without clipping.

    Let X be the estimate without noise; z_i the noise of a report, of covariance `t I`, t = s**2
    C**2, Z its mean, w the factor of g. The noise of the first round is
    `2 w Z^T D (L h_B - L h_A) - w (Z^T D Z - t tr(D) / a)`. Along a padded column a report of
    `PrivUnitG` has the third cumulant -gamma and the fourth gamma**2, in units of s C = C / gamma,
    all others being those of a normal, so that with d the diagonal of W

      `Cov(z^T D u, z^T D z) = -d u^T D L / gamma**2`, `Var(z^T D z) = 2 t**2 l + d**2 / gamma**2`.

    Args:
      protocol: the spec.
      users: counts, or probabilities if `drawn`; None for a bound over all users.
      n: the number of users.
      sizes: float64[2, m].
      drawn: whether users are independent.

    Returns:
      float64[m] without, and float64[m] of the noise of the numbers of B.
    """
    factor, matrix = protocol.factor, protocol.factor.rest
    columns = factor.columns.astype(np.float64)
    diagonal = np.diagonal(matrix)
    a, b = sizes
    step, own = weights_of(protocol.form, n, a)
    terms = [
        (2 * step, ("T", 0, 1)),
        (-step * (1 - 1 / a), ("U", 0)),
        (-step / a, ("d", 0)),
        (own, ("d", 1)),
    ]
    products = mean_square(terms, sizes)
    if not drawn:  # for W less the mean over pairs the target of independent users is 0
        products = products - square_of_target(protocol.form, n)
    t = float(protocol.randomizer.worst_case_variance(1))
    inverse = t / factor.radius**2  # 1 / gamma**2
    length = float(np.sum(factor.scales**2))  # 0 of a constant
    if users is None:
        middle = (matrix.max() + matrix.min()) / 2
        half, largest = float(np.ptp(matrix)) / 2, np.abs(diagonal).max()
        split = np.abs(products).sum(axis=0) * half**2
        spread, third = factor.radius**2 * n / (n - 1), largest * (2 * half + 2 * abs(middle))
        fourth, answers = largest**2, 0.0
    else:
        raw = averages(matrix, diagonal, users, drawn)
        split = averages(matrix - raw.pair, diagonal - raw.pair, users, drawn).of(products)
        spread = _spread(columns, users, drawn)
        third, fourth = raw.own_in - raw.own_same, raw.own_same
        norms = users @ np.sum(columns**2, axis=1) / users.sum()
        answers = _square_of_answers(raw, step, own, a, t * norms)
    noise = 4 * step**2 * t * spread * (1 / a + 1 / b) / a
    noise += step**2 * (2 * length * t**2 / a**2 + fourth * inverse / a**3)
    noise += 4 * step**2 * inverse * third / a**3
    return split + noise, _scalar_error(protocol, users, n, a, answers) / b


def _scalar_error(protocol: OneStep, users, n: float, a: np.ndarray, answers) -> np.ndarray:
    """The noise of one number of B, float64[m]."""
    bit, scalar = protocol.scalar == "bit", protocol.scalar_randomizer
    unit = float(scalar.worst_case_variance(1))
    if protocol.tau is not None:
        return unit * protocol.tau**2 - (answers if bit else 0.0) + np.zeros_like(a)
    return unit * np.array([squared_range(*protocol._answers(users, n, x)) for x in a])


def _spread(columns: np.ndarray, users: np.ndarray, drawn: bool) -> float:
    """Half of the mean squared distance of the columns of two different users."""
    share = users / users.sum()
    centred = columns - share @ columns
    found = share @ np.sum(centred**2, axis=1)
    return float(found if drawn else found * users.sum() / (users.sum() - 1))


def _square_of_answers(raw: Averages, step, own, a, noise) -> np.ndarray:
    """The mean square of what users of B answer, before it is randomized."""
    slopes = raw.shared * (1 - 1 / a) + raw.same / a + noise / a
    return 4 * step**2 * slopes + 4 * step * own * raw.own_in + own**2 * raw.own_same

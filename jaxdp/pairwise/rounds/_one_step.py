"""Statistics of pairs in two rounds: a plug-in estimate, and one step that corrects it."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._checks import Epsilon, Real
from ..._contract import Collect, Interactive, Sent, Step, Work, field, params, spec, static
from ..._x64 import as_float64, compiled_in_float64, dot
from ...population import Population
from ...random import Count
from ...randomizers import (
    BinaryResponse,
    Laplace,
    MeanRandomizer,
    MeanRound,
    PrivUnitG,
    SelfMoments,
    Tail,
)
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
from ._rounds import (
    SCALAR,
    TAU,
    Factors,
    LookupRound,
    Number,
    RoundsOutcome,
    RoundsProtocol,
    answered,
    broadcast,
    combined,
    linked,
    rounded_factors,
    scalar_randomizer,
    tangent,
    users_in,
)


@spec
class OneStep(RoundsProtocol["OneStepParams"]):
    """Two rounds: some users report vectors, the others one number that corrects their error.

    With `W = L^T D L + c`, D = diag(+-1), users of a random group A report randomized columns of L
    in the first round, y their mean. `g(v) = 2 y^T D L_v`, which is the derivative of the quadratic
    form at y, is broadcast, and the users of the other group B answer with a randomized g(v) in the
    second. The mean of g minus `y^T D y` has, as one step of Newton's method, an error of second
    order in that of y: the leading error does not depend on gamma_2(W).

    In the U-form, with a users in A, s**2 C**2 the variance of a report's noise in every direction,
    w = a / (a + 1), d the diagonal of W - c:

      `T = mean over B of (w g(v) + d(v) / (a + 1)) - w (y^T D y - s**2 C**2 tr(D) / a) + c`.

    With a randomizer whose noise has the covariance `s**2 C**2 I + b L_v L_v^T` users of B add
    `w b d(v) / a`, the mean of what `w y^T D y` has too much.

    Where the statistic is a function of several averages (AUC by plug-in, tau_b, collision
    entropy), users of A report vectors of all of them, and W is the combination of their matrices
    by the derivatives of the statistic at the averages that y leads to. The estimate is the
    statistic of these averages, moved as little as gives the combination the value T.

    Formal guarantees:
      * Privacy: a user sends one report, of the full epsilon.
      * Bias: statistics by plug-in are consistent. Of linear kernels none about the U- or
        V-statistic of given users, over their random split, and for independent users none about
        the population's U-statistic, but for clipping where `tau` is given, the rounding of numbers
        to 24 bits, and the event, of probability at most 1e-9, that a group has fewer than two
        users.
      * Variance, for `tau` given, "bit", an isotropic randomizer that knows its `self_moments`, and
        but for what clipping takes: exact. With m users in B the noise has
        `(c**2 tau**2 - E g**2) / m + 2 l C**4 s**4 / (a + 1)**2` and terms of order
        `gamma_2 / n**2 + 1 / n**3`, c**2 tau**2 the largest second moment of an answer, that of the
        noise of y included; the split adds about `4 zeta_1 a / (m n)`. (With the U-statistic of the
        reports of A in place of `w (..)` the second term would be larger,
        `2 l C**4 s**4 / (a (a - 1))`.)
        With `tau=None` it is that of normal means of reports: the mean square of the range is
        averaged over fixed draws of them, for groups of the expected sizes. The noise of reports of
        other randomizers is taken at the users' mean covariance, and as normal in the second term.
        Of a statistic by plug-in it is that of the linear combination at the true averages (delta
        method). `worst_case_variance` is a proven bound, tight as the groups grow; inf by plug-in,
        and for a randomizer that knows neither `self_moments` nor its `tail`.

    Edge cases:
      ==================================  ====================================================
      several averages and `tau`          ValueError: their slopes set the scale of the numbers
      W constant                          answers of size 1e-20; the estimate is c
      fewer users than groups need        ValueError with the number
      more than about 2**35 users         ValueError: sums are kept in 63 bits
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
      randomizer: makes the spec of a randomizer of vectors in a ball from the keywords dim, epsilon
        and radius, for the first round, as in `OneReport`.

    Raises:
      ValueError: an argument is out of range, or the kernel does not fit.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.pairwise import GiniDiversity, OneStep
      >>> protocol = OneStep(GiniDiversity(), epsilon=2.0, num_values=3)
      >>> users = jaxdp.Population.from_histogram([6000, 3000, 1000])
      >>> bool(abs(jaxdp.run(protocol, users, jax.random.key(0)) - 0.54) < 0.2)
      True

    References:
      Derived here; the protocol of Ghazi et al. (2023), Section 1.2, without its correction, is
      `TwoRound`.
    """

    kernel: Kernel = field(KERNEL)
    epsilon: float = field(Epsilon())
    num_values: int | tuple[int, ...] | None = field(NUM_VALUES, default=None)
    form: Form = field(FORM, default="u")
    share: float = field(Real(0.0, 1.0), default=0.5)
    scalar: str = field(SCALAR, default="bit")
    tau: float | None = field(TAU, default=None)
    randomizer: VectorMaker = field(RANDOMIZER, default=PrivUnitG)

    def validate(self) -> None:
        """Raises unless the randomizers can have the epsilon."""
        RoundsProtocol.validate(self)
        scalar_randomizer(self.scalar, self.epsilon)
        check_randomizer(self.randomizer, self.num_bins, self.epsilon)

    @property
    def groups(self) -> tuple[float, float]:
        """The shares of the users in the two rounds."""
        return self.share, 1 - self.share

    @property
    def factors(self) -> Factors:
        """The factorizations in use, one for each average."""
        return rounded_factors(self)

    @property
    def factor(self) -> QuadraticFactor:
        """The factorization of the matrix of a linear kernel."""
        return self.factors.combined(np.ones(1))

    @property
    def vector_randomizer(self) -> MeanRandomizer:
        """The randomizer that users of the first round run on their column."""
        return randomizer_of(self.randomizer, self.factors.columns, self.epsilon)

    @property
    def scalar_randomizer(self) -> BinaryResponse | Laplace:
        """The randomizer that users of the second round run on their number, scaled to [-1, 1]."""
        return scalar_randomizer(self.scalar, self.epsilon)

    @property
    def _is_plug_in(self) -> bool:
        """Whether nothing is clipped."""
        return self.tau is None

    def reports(self) -> Reports:
        """The moments of the reports of the first round."""
        covariance = self.vector_randomizer.covariance_form()
        assert covariance is not None, "checked by `check_randomizer`"
        return Reports(self.factors.columns.astype(np.float64), *covariance)

    def build(self, word_bits: int = 32) -> "OneStepParams":
        """Builds the params, which users and the analyst run."""
        factors, reports = self.factors, self.reports()
        return OneStepParams(
            LookupRound(self.vector_randomizer.build(word_bits), factors.columns),
            self.scalar_randomizer.build(word_bits),
            factors.scales,
            factors.diagonals,
            factors.constants,
            np.asarray(reports.isotropic),
            np.asarray(reports.along),
            None if self.tau is None else np.asarray(self.tau, np.float32),
            self.kernel.link,
            self.share,
            self.form,
        )

    @property
    def sent(self) -> tuple[Sent, ...]:
        """A vector from the users of one group, a number from those of the other."""
        return tuple(map(Sent, (self.vector_randomizer, self.scalar_randomizer), self.groups))

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: the larger of those of the two groups."""
        return max(self.vector_randomizer.exact_epsilon(), self.scalar_randomizer.exact_epsilon())

    def exact_delta(self) -> float:
        """The smallest delta at which `exact_epsilon()` holds; 0 for pure randomizers."""
        return self.vector_randomizer.exact_delta()

    def check_population(self, population: Population) -> None:
        """Raises unless values are bins and the groups have enough users, but not too many."""
        RoundsProtocol.check_population(self, population)
        errors.check_groups(population.num_users, self.groups)
        self.vector_randomizer.check_total(population)

    def _error(
        self,
        users: Float[np.ndarray, " k"] | None,
        num_users: int,
        drawn: bool,
        slopes: Float[np.ndarray, " m"],
    ) -> Float[np.ndarray, ""]:
        errors.check_groups(num_users, self.groups)
        sizes, weights = errors.group_sizes(num_users, self.groups)
        factor, n = self.factors.combined(slopes), float(num_users)
        noise, numbers = conditional_error(self, factor, users, n, sizes, drawn)
        total = weights @ (noise + numbers)
        if self.tau is None:
            return np.asarray(total)
        lost = np.array([self._lost(factor, self.tau, users, n, a) for a in sizes[0]])
        total += weights @ (lost[:, 1] / sizes[1])
        # What is clipped is not independent of the rest: norms add up (Minkowski).
        return np.asarray((math.sqrt(total) + math.sqrt(weights @ lost[:, 0])) ** 2)

    def _lost(
        self,
        factor: QuadraticFactor,
        tau: float,
        users: Float[np.ndarray, " k"] | None,
        num_users: float,
        a: float,
    ) -> list[float]:
        """Bounds on what clipping takes, averaged over users: of g, and of its square."""
        high, low, tails = self._answers(factor, users, num_users, a)
        bounds = errors.clipped(np.maximum(np.abs(high), np.abs(low)), tau, tails)
        return [errors.over_users(users, each) for each in bounds]

    def _answers(
        self,
        factor: QuadraticFactor,
        users: Float[np.ndarray, " k"] | None,
        num_users: float,
        a: float,
    ) -> tuple[np.ndarray, np.ndarray, list[Tail]]:
        """Bounds on the means of what users of B answer, and the tails of the noise, by value."""
        matrix, reports = factor.centred, self.reports()
        step, diagonal = weights_of(self.form, num_users, a, reports.along)
        width, norms = np.ptp(matrix, axis=1), np.linalg.norm(reports.means, axis=1)
        if users is None:
            highs, lows = matrix.max(axis=1), matrix.min(axis=1)
            sampling = np.zeros_like(width)  # the mean of a group's W_vj is between these
        else:
            highs = lows = matrix @ users / users.sum()
            sampling = width**2 / (4 * a)  # Hoeffding, also for draws without replacement
        tails = errors.answer_tails(
            errors.tail_of(self.vector_randomizer), 2 * step, norms, a, sampling
        )
        slack = 2 * step * width / max(num_users - 1, 1.0)  # of a user who is not in A
        high, low = (2 * step * x + diagonal * np.diagonal(matrix) for x in (highs, lows))
        return high + slack, low - slack, tails


def weights_of(form: Form, num_users: Number, a: Number, along: Number) -> tuple[Any, Any]:
    """The factors of g and of d in what users of B answer.

    Args:
      form: "u" or "v".
      num_users: n.
      a: users in A.
      along: b, of the covariance of a report.
    """
    scale, extra = (1.0, 0.0) if form == "u" else (1 - 1 / num_users, 1 / num_users)
    # 2 w - w (1 - 1/a) is 1 for w = a / (a + 1), and the d of A, -w / a, cancels that of B.
    step = scale * a / (a + 1)
    return step, scale / (a + 1) + step * along / a + extra


def conditional_error(
    protocol: OneStep,
    factor: QuadraticFactor,
    users: Float[np.ndarray, " k"] | None,
    n: float,
    sizes: Float[np.ndarray, "2 m"],
    drawn: bool,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """The mean squared error for given sizes (a, b) of the groups, without clipping.

    Let z_i be the noise of a report, Z its mean, S_i its covariance, w the factor of g and
    `q = z^T D z`. The noise of the first round is `X - Y`, `X = 2 w Z^T D u` with
    `u = L h_B - L h_A`, and `Y = w (Z^T D Z - E Z^T D Z)`:

      `Var X = 4 w**2 u^T D mean(S_i) D u / a`,
      `Var Y = w**2 (sum_i Var q_i + 2 sum_{i != j} tr(D S_i D S_j)) / a**4`,
      `Cov(X, Y) = 2 w**2 mean(E[q_i z_i])^T D u / a**2`.

    Args:
      protocol: the spec.
      factor: of W.
      users: counts, or probabilities if `drawn`; None for a bound over all users.
      n: the number of users.
      sizes: of the groups.
      drawn: whether users are independent.

    Returns:
      The error without the noise of the numbers of B, and the latter.
    """
    matrix, reports = factor.centred, protocol.reports()
    columns, diagonal, weights = reports.means, np.diagonal(matrix), np.diag(factor.scales)
    a, b = sizes
    step, self_weight = weights_of(protocol.form, n, a, reports.along)
    # h_A^T W h_A is 1 - 1 / a of a U-statistic and 1 / a of the mean of d.
    terms: list[tuple[Any, errors.Term]] = [
        (2 * step, ("T", 0, 1)),
        (-step * (1 - 1 / a), ("U", 0)),
        (-step * (1 + reports.along) / a, ("d", 0)),  # E Z^T D Z included
        (self_weight, ("d", 1)),
    ]
    products = errors.mean_square(terms, sizes)
    if not drawn:  # for W minus the mean over pairs the target of independent users is 0
        products = products - errors.square_of_target(protocol.form, n)
    moments = protocol.vector_randomizer.self_moments(columns, weights)
    if users is None:
        split = np.abs(products).sum(axis=0) * (float(np.ptp(matrix)) / 2) ** 2
        noise = _largest_noise(protocol, factor, moments, n, a, b, step)
        return split + noise, _scalar_error(protocol, factor, users, n, a, 0.0, drawn) / b
    raw = errors.averages(matrix, diagonal, users, drawn)
    split = errors.averages(matrix - raw.pair, diagonal - raw.pair, users, drawn).of(products)
    share, signs = users / users.sum(), factor.scales
    # E u u^T: two different ones of n given users are n / (n - 1) times as far apart.
    apart = ranges.column_covariance(columns, share) * (1.0 if drawn else n / (n - 1))
    covariance = signs[:, None] * reports.total(share)  # D S, S the mean covariance of a report
    linear = 4 * step**2 * float(np.sum(covariance * (apart * signs).T)) * (1 / a + 1 / b) / a
    if moments is None:  # z^T D z as of normal noise
        fourths, third = 2 * reports.squares(factor.scales), 0.0
    else:
        fourths, crossed = moments.fourth, moments.third @ weights @ columns.T
        # E[q_i z_i]^T D (L_j - L_k), j in B and k in A, where k = i with probability 1 / a
        cross = errors.averages(crossed, np.diagonal(crossed), users, drawn)
        third = cross.single - cross.pair
    pairs = float(np.sum(covariance * covariance.T))
    square = step**2 * (2 * (1 - 1 / a) * pairs / a**2 + share @ fourths / a**3)
    norms = share @ np.sum(columns**2, axis=1)
    of_noise = reports.isotropic * norms + reports.along * raw.same
    answers = _square_of_answers(raw, step, self_weight, a, of_noise)
    noise = linear + square + 4 * step**2 * third / a**3
    return split + noise, _scalar_error(protocol, factor, users, n, a, answers, drawn) / b


def _largest_noise(
    protocol: OneStep,
    factor: QuadraticFactor,
    moments: SelfMoments | None,
    n: float,
    a: Float[np.ndarray, " m"],
    b: Float[np.ndarray, " m"],
    step: Float[np.ndarray, " m"],
) -> Float[np.ndarray, " m"]:
    """A bound on the noise of the first round over all users; see `conditional_error`."""
    reports, weights = protocol.reports(), np.diag(factor.scales)
    # Var X with E |u|**2 = C**2 n / (n - 1) (1/a + 1/b) at most, and the two parts of Var Y
    spread = factor.radius**2 * n / (n - 1)
    linear = 4 * step**2 * float(reports.largest().max()) * spread * (1 / a + 1 / b) / a
    pairs = float(reports.squares(np.abs(weights)).max())
    if moments is None:
        # Var q <= E |z|**4 <= l**2 max_u E <z, u>**4, the latter by Theorem 2.3 of Boucheron,
        # Lugosi, Massart (2013); Cov(X, Y) is bounded by Cauchy-Schwarz.
        tail = errors.tail_of(protocol.vector_randomizer)
        fourth = len(weights) ** 2 * (128 * tail.variance**2 + 6144 * tail.scale**4)
        square = step**2 * (2 * (1 - 1 / a) * pairs / a**2 + fourth / a**3)
        return (np.sqrt(linear) + np.sqrt(square)) ** 2
    third = 2 * np.abs(moments.third @ weights @ reports.means.T).max()
    square = step**2 * (2 * (1 - 1 / a) * pairs / a**2 + moments.fourth.max() / a**3)
    return linear + square + 4 * step**2 * third / a**3


def _scalar_error(
    protocol: OneStep,
    factor: QuadraticFactor,
    users: Float[np.ndarray, " k"] | None,
    n: float,
    a: Float[np.ndarray, " m"],
    answers: Float[np.ndarray, " m"] | float,
    drawn: bool,
) -> Float[np.ndarray, " m"]:
    """The noise of one number of B."""
    bit, unit = protocol.scalar == "bit", protocol.scalar_randomizer.worst_case_variance(1)
    if protocol.tau is not None:
        # A bit of mean f / tau has the variance c**2 tau**2 - f**2; `unit` is c**2.
        return unit * protocol.tau**2 - (answers if bit else 0.0) + np.zeros_like(a)
    if users is None:
        answered = [protocol._answers(factor, users, n, x) for x in a]
        return unit * np.array([errors.squared_range(*each) for each in answered])
    # Groups of the expected size stand for all
    share, expected = users / users.sum(), protocol.share * n
    numbers = _drawn_answers(protocol, factor, share, n, expected, drawn)
    return np.full_like(a, ranges.number_noise(numbers, share, unit, bit))


def _drawn_answers(
    protocol: OneStep,
    factor: QuadraticFactor,
    share: Float[np.ndarray, " k"],
    n: float,
    a: float,
    drawn: bool,
) -> Float[np.ndarray, "number k"]:
    """What users of B would answer, in fixed draws of y."""
    reports = protocol.reports()
    columns, signs = reports.means, factor.scales
    step, self_weight = weights_of(protocol.form, n, a, reports.along)
    sampling = ranges.group_variance(a, n, drawn) * ranges.column_covariance(columns, share)
    draws = ranges.normal_draws(ranges.num_draws(*columns.shape), columns.shape[1], seed=0)
    mean = share @ columns + ranges.normals(draws, reports.total(share) / a + sampling)
    return 2 * step * (mean * signs) @ columns.T + self_weight * np.diagonal(factor.centred)


def _square_of_answers(
    raw: errors.Averages,
    step: Float[np.ndarray, " m"],
    self_weight: Float[np.ndarray, " m"],
    a: Float[np.ndarray, " m"],
    noise: float,
) -> Float[np.ndarray, " m"]:
    """The mean square of what users of B answer, before it is randomized."""
    # E (y^T D L_v)**2: of pairs of users of A, of one user, and of the noise
    slopes = raw.shared * (1 - 1 / a) + raw.same / a + noise / a
    return (
        4 * step**2 * slopes + 4 * step * self_weight * raw.mixed_in + self_weight**2 * raw.square
    )


@params
class OneStepParams(Interactive[RoundsOutcome]):
    """The params of `OneStep`: a pytree.

    Attributes:
      vectors: the first round.
      scalar: the params of the randomizer of numbers in [-1, 1].
      scales: float64[m, l], the diagonal of D of each average.
      diagonals: float64[m, k], of W minus its shift.
      shifts: float64[m], c.
      noise: float64[], the variance of an entry of a report, and
      along: float64[], b of its covariance `noise I + b L_v L_v^T`.
      tau: float32[], the clipping bound; or None for the range.
      link: the statistic as a function of the averages, static.
      share: of the users in the first round, static.
      form: "u" or "v", static.
    """

    vectors: LookupRound
    scalar: MeanRound
    scales: Float[Array | np.ndarray, "m l"]
    diagonals: Float[Array | np.ndarray, "m k"]
    shifts: Float[Array | np.ndarray, " m"]
    noise: Float[Array | np.ndarray, ""]
    along: Float[Array | np.ndarray, ""]
    tau: Float[Array | np.ndarray, ""] | None
    link: Link = static()
    share: float = static()
    form: Form = static()

    def rounds(self, work: Work) -> tuple[Step, Step]:
        """Vectors from some users, numbers from the others."""
        numbers = LookupRound(self.scalar, np.zeros(self.vectors.num_bins, np.float32))
        return Step(self.vectors, work.of(self.share)), Step(numbers, work.of(1 - self.share))

    def play(self, key: jax.Array, users: Population, collect: Collect) -> RoundsOutcome:
        """Both rounds.

        Returns:
          Broadcast "mean" float32[l], y; "values", "middle", "tau": what g is; "square" float32[],
          the term in y alone; of several averages "averages" and "slopes" float32[m], where the
          statistic is linearised. Tallies "vectors" and "numbers".
        """
        first, second = users.split(key, (self.share, 1 - self.share))
        vectors = collect(self.vectors, first, 0)
        question = self._question(vectors, users.size)
        numbers = collect(LookupRound(self.scalar, question["values"]), second, 1)
        return RoundsOutcome(question, {"vectors": vectors, "numbers": numbers})

    @compiled_in_float64
    def _question(self, tally: dict[str, Count], num_users: Count) -> dict[str, jax.Array]:
        columns, scales, diagonals, shifts, noise, along = as_float64(
            self.vectors.embedding,
            self.scales,
            self.diagonals,
            self.shifts,
            self.noise,
            self.along,
        )
        a, n = tally["users"].f64(), num_users.f64()
        step, self_weight = weights_of(self.form, n, a, along)
        mean = self.vectors.estimate(tally)
        averages = dot(scales, mean**2) - noise / a * jnp.sum(scales, axis=1) + shifts
        plane = tangent(self.link, averages, n)
        signs, diagonal = combined(plane, scales), combined(plane, diagonals)
        # g(v) and its diagonal, and y^T D y without the mean of what noise adds to it
        values = 2 * step * dot(columns, signs * mean) + self_weight * diagonal
        square = step * (jnp.sum(signs * mean**2) - noise * jnp.sum(signs) / a)
        point = {"mean": mean.astype(jnp.float32), "square": square.astype(jnp.float32)}
        return broadcast(values, self.tau) | point | plane

    @compiled_in_float64
    def estimate(self, outcome: RoundsOutcome, /) -> Float[Array, ""]:
        """The estimated statistic."""
        question = outcome.broadcasts
        mean = answered(self.scalar, question, outcome.tallies["numbers"])
        square, shifts = as_float64(question["square"], self.shifts)
        value = mean - square + combined(question, shifts)
        return linked(self.link, question, value, users_in(outcome.tallies))

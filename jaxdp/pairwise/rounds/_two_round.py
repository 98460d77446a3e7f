"""Statistics of pairs from linear queries, in two rounds."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._checks import Choice, Epsilon, Instance, Maker, Real, made_by
from ..._contract import (
    Collect,
    Interactive,
    Round,
    Sent,
    Step,
    Tree,
    Work,
    field,
    params,
    spec,
    static,
)
from ..._x64 import as_float64, compiled_in_float64, dot
from ...linear import FactorizedQueries, LinearProtocol
from ...population import Population
from ...projections import hull
from ...random import Count
from ...randomizers import BinaryResponse, Laplace, MeanRound, Tail
from .._protocol import is_one_round
from ..kernels._exact import FORM, Form
from ..kernels._kernel import Kernel, Link
from ..kernels._pair_kernel import KERNEL, NUM_VALUES
from ..vectors._quadratic_form import Reports
from . import _group_errors as errors
from . import _ranges as ranges
from ._rounds import (
    SCALAR,
    TAU,
    LookupRound,
    RoundsOutcome,
    RoundsProtocol,
    answered,
    broadcast,
    combined,
    linked,
    scalar_randomizer,
    tangent,
)

_TOL = 1e-9  # of projections

_QUERIES = Instance(LinearProtocol, "one that makes a LinearProtocol")


@spec
class TwoRound(RoundsProtocol["TwoRoundParams"]):
    """Two rounds: the answers to the linear queries W, and then the answer of each user's value.

    The first round estimates `z = W h`, a query for each value, by any protocol for linear queries.
    z is broadcast, and in the second round users answer with a randomized number, f(v) = z_v; the
    mean of z_v over users with histogram h is `h^T W h`. What f is exactly, and who answers:

    ==========  =====================================  ===========================================
    `sharing`   who                                    f(v) for the U-form; for the V-form
    ==========  =====================================  ===========================================
    "users"     a random group answers in each round,  z_v; `((n - 1) z_v + W_vv) / n`
                with the full epsilon
    "budget"    everyone answers in both, with         `(n z_v - W_vv) / (n - 1)`; z_v
                shares of epsilon
    ==========  =====================================  ===========================================

    With the default queries, `FactorizedQueries`, it is the protocol of Ghazi et al.: z_v is `<y,
    R_v>` with y the mean of randomized columns of L, `W = R^T L`. ("White-box": they broadcast y.)

    Where the statistic is a function of several averages (AUC by plug-in, tau_b, collision
    entropy), the first round answers the queries of all of their matrices, and f is that of the
    combination of the matrices by the derivatives of the statistic, at the averages of the
    histogram whose answers are nearest to those of the first round. The estimate is the statistic
    of these averages, moved as little as gives the combination its estimate.

    Formal guarantees:
      * Privacy: users who answer once have the full epsilon; those who answer twice the sum of the
        two that are realised.
      * Bias: none if the queries' answers have none, but for clipping where `tau` is given, the
        rounding of numbers to 24 bits and, with "users", for groups of fewer than two users, whose
        probability is at most 1e-9. Statistics by plug-in are consistent.
      * Variance, for `tau` given, "bit", unbiased queries on vectors with a covariance
        `a I + b x x^T`, and but for what clipping takes: exact. With "budget" and `PrivUnitG` it is
        `s**2 C**2 |R h|**2 / n + v tau**2 / n` at most, s**2 C**2 the variance of an entry of a
        report, and v the worst variance of a number. With `tau=None` it is that of normal answers:
        the mean square of the range is averaged over fixed draws of them, for groups of the
        expected sizes; of a statistic by plug-in that of the linear combination at the true
        averages (delta method). For other queries, and in `worst_case_variance`, it is a proven
        bound; of statistics by plug-in one to first order, and in the worst case inf.

    Edge cases:
      ==================================  ====================================================
      several averages and `tau`          ValueError: their slopes set the scale of the numbers
      fewer users than groups need        ValueError with the number ("users")
      `tau` below the answers             clipped, biased; `variance` bounds the effect
      ==================================  ====================================================

    Args:
      kernel: the statistic, or a matrix W.
      epsilon: privacy parameter.
      num_values: as in `PairwiseProtocol`.
      form: "u" or "v".
      queries: makes the `LinearProtocol` of the first round from W, float[k, k], or the matrices
        of all averages one below the other, and its epsilon.
      sharing: "users" or "budget", what the rounds share.
      share: the share of the first round, between 0 and 1.
      scalar: "bit" or "laplace", how numbers are randomized.
      tau: the bound that numbers are clipped to. None for half of the range of f, which all users
        know, so that nothing is clipped.

    Raises:
      ValueError: an argument is out of range, or the kernel does not fit.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.pairwise import GiniDiversity, TwoRound
      >>> protocol = TwoRound(GiniDiversity(), epsilon=2.0, num_values=3)
      >>> users = jaxdp.Population.from_histogram([6000, 3000, 1000])
      >>> bool(abs(jaxdp.run(protocol, users, jax.random.key(0)) - 0.54) < 0.2)
      True

    References:
      Ghazi et al. (2023), Section 1.2.
    """

    kernel: Kernel = field(KERNEL)
    epsilon: float = field(Epsilon())
    num_values: int | tuple[int, ...] | None = field(NUM_VALUES, default=None)
    form: Form = field(FORM, default="u")
    queries: Callable[..., LinearProtocol[Any]] = field(
        Maker("a callable such as FactorizedQueries"), default=FactorizedQueries
    )
    sharing: str = field(Choice("users", "budget"), default="users")
    share: float = field(Real(0.0, 1.0), default=0.5)
    scalar: str = field(SCALAR, default="bit")
    tau: float | None = field(TAU, default=None)

    def validate(self) -> None:
        """Raises unless `queries` makes a protocol for the rows of the matrices."""
        RoundsProtocol.validate(self)
        scalar_randomizer(self.scalar, self.epsilon)
        maker = "a callable of (workload, epsilon)"
        protocol = _QUERIES("queries", made_by("queries", self.queries, maker, *self._queries_of))
        asked = len(self._queries_of[0])
        if protocol.num_queries != asked:
            raise TypeError(
                f"queries must make a LinearProtocol with a query for each of {asked} rows, got "
                f"one with {protocol.num_queries} queries."
            )

    @property
    def shares(self) -> tuple[float, float]:
        """The shares of the two rounds, of the users or of epsilon."""
        return (self.share, 1 - self.share)

    @property
    def groups(self) -> tuple[float, float] | None:
        """The shares of the users in the two rounds; None where all answer in both."""
        return self.shares if self.sharing == "users" else None

    @property
    def protocol(self) -> LinearProtocol[Any]:
        """The protocol of the first round."""
        return self.queries(*self._queries_of)

    @property
    def _is_plug_in(self) -> bool:
        """Whether nothing is clipped, and the law of the answers is known."""
        return self.tau is None and _answers(self.protocol) is not None

    @property
    def _queries_of(self) -> tuple[Float[np.ndarray, "m k"], float]:
        share = self.share if self.sharing == "budget" else 1.0
        return np.concatenate(self.matrices()), self.epsilon * share

    @property
    def scalar_randomizer(self) -> BinaryResponse | Laplace:
        """The randomizer that users of the second round run on their number, scaled to [-1, 1]."""
        epsilon = self.epsilon * (1 - self.share if self.sharing == "budget" else 1.0)
        return scalar_randomizer(self.scalar, epsilon)

    def build(self, word_bits: int = 32) -> "TwoRoundParams":
        """Builds the params, which users and the analyst run."""
        queries = self.protocol.build(word_bits)
        if not is_one_round(queries):
            raise TypeError("queries must make a non-interactive protocol.")
        return TwoRoundParams(
            queries,
            self.scalar_randomizer.build(word_bits),
            self.matrices(),
            None if self.tau is None else np.asarray(self.tau, np.float32),
            self.kernel.link,
            self.share if self.sharing == "users" else None,
            self.form,
        )

    @property
    def sent(self) -> tuple[Sent, ...]:
        """A report of the queries, and one of the number: from two groups, or both from all."""
        shares = self.groups or (1.0, 1.0)
        return Sent(self.protocol, shares[0]), Sent(self.scalar_randomizer, shares[1])

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: the sum of the rounds'; for "users" the larger."""
        both = self.protocol.exact_epsilon(), self.scalar_randomizer.exact_epsilon()
        return max(both) if self.sharing == "users" else sum(both)

    def exact_delta(self) -> float:
        """The smallest delta at which `exact_epsilon()` holds; 0 for pure queries."""
        return self.protocol.exact_delta()

    def check_population(self, population: Population) -> None:
        """Raises unless values are bins and the groups have enough users."""
        RoundsProtocol.check_population(self, population)
        if self.sharing == "users":
            errors.check_groups(population.num_users, self.shares)
        self.protocol.check_population(population)

    def _error(
        self,
        users: Float[np.ndarray, " k"] | None,
        num_users: int,
        drawn: bool,
        slopes: Float[np.ndarray, " m"],
    ) -> Float[np.ndarray, ""]:
        n = float(num_users)
        if num_users < 4:
            raise ValueError(f"num_users must be at least 4 for a prediction, got {num_users}.")
        sizes, weights = np.full((2, 1), n), np.ones(1)
        if self.sharing == "users":
            errors.check_groups(num_users, self.shares)
            sizes, weights = errors.group_sizes(num_users, self.shares)
        model = Model(self, users, n, drawn, slopes)
        split, noise = weights @ model.split(sizes), weights @ model.noise(sizes)
        total = split + noise
        if model.biased:  # the error of an answer may depend on the split
            total = (math.sqrt(split) + math.sqrt(noise)) ** 2
        total += weights @ (model.scalar(sizes) / sizes[1])
        if self.tau is not None:
            second, excess = (weights @ x for x in model.clipping(sizes))
            total = (np.sqrt(total + weights @ (excess / sizes[1])) + np.sqrt(second)) ** 2
        if model.biased and users is not None and not drawn:
            # The bound over all users holds for these too.
            total = min(total, self._error(None, num_users, False, slopes))
        return np.asarray(total)


@dataclasses.dataclass(frozen=True)
class _Answers:
    """How an estimate of W h by vectors errs.

    Attributes:
      embedding: L, float64[k, l], a row for each value.
      decoder: R, float64[m, l], a row for each query.
      decoded: `R L`, float64[m, k], a column for each value, without any offset.
      isotropic: a, and
      along: b of the covariance `a I + b x x^T` of a report.
      tail: of a report.
    """

    embedding: np.ndarray
    decoder: np.ndarray
    decoded: np.ndarray
    isotropic: float
    along: float
    tail: Tail

    def combined(self, slopes: Float[np.ndarray, " m"]) -> "_Answers":
        """The answers of combinations: queries of several matrices follow one another."""
        m = len(slopes)
        decoder, decoded = (
            np.tensordot(slopes, rows.reshape(m, -1, rows.shape[1]), axes=1)
            for rows in (self.decoder, self.decoded)
        )
        return dataclasses.replace(self, decoder=decoder, decoded=decoded)


@functools.lru_cache(maxsize=32)
def _answers(protocol: LinearProtocol[Any]) -> _Answers | None:
    """For a protocol on vectors, unbiased and with a covariance of that form; None for others."""
    encoding, workload = protocol.encoding(), protocol.matrix()
    if encoding is None:
        return None
    vectors = encoding.embedding.astype(np.float64)
    decoder = np.eye(vectors.shape[1]) if encoding.decoder is None else encoding.decoder
    decoded = decoder @ vectors.T
    covariance = encoding.randomizer.covariance_form()
    error = np.abs(decoded + encoding.offset[:, None] - workload).max()
    if covariance is None or error > 1e-6 * np.abs(workload).max():
        return None
    isotropic, along = covariance
    return _Answers(
        vectors, decoder, decoded, isotropic, along, errors.tail_of(encoding.randomizer)
    )


class Model:
    """The parts of the error of `TwoRound`, for given sizes of the groups, float64[2, m].

    Of the combination of the averages by `slopes`.
    """

    def __init__(
        self,
        spec: TwoRound,
        users: Float[np.ndarray, " k"] | None,
        n: float,
        drawn: bool,
        slopes: Float[np.ndarray, " m"],
    ):
        self.spec, self.users, self.n, self.drawn = spec, users, n, drawn
        self.matrix = np.tensordot(slopes, spec.matrices(), axes=1)
        self.weight = float(np.abs(slopes).sum())
        self.diagonal = np.diagonal(self.matrix)
        self.raw = (
            None if users is None else errors.averages(self.matrix, self.diagonal, users, drawn)
        )
        self.protocol = spec.protocol
        known = _answers(self.protocol)
        self.answers = known and known.combined(slopes)
        self.biased = self.answers is None
        self.split_users = spec.sharing == "users"
        if self.split_users:  # the factors of z and of the diagonal in f
            self.factors = (1.0, 0.0) if spec.form == "u" else (1 - 1 / n, 1 / n)
        else:
            self.factors = (n / (n - 1), -1 / (n - 1)) if spec.form == "u" else (1.0, 0.0)

    def split(self, sizes: Float[np.ndarray, "2 m"]) -> Float[np.ndarray, " m"]:
        """The error without any noise, from who joins which group, and from who is drawn."""
        step, extra = self.factors
        target = errors.square_of_target(self.spec.form, self.n)
        if self.split_users:
            terms: list[tuple[Any, errors.Term]] = [(step, ("T", 0, 1)), (extra, ("d", 1))]
            products = errors.mean_square(terms, sizes) - (0.0 if self.drawn else target)
        else:
            products = target if self.drawn else np.zeros((7, 1))
        if self.raw is None or self.users is None:
            half = float(np.ptp(self.matrix)) / 2
            return np.abs(products).sum(axis=0) * half**2
        # W minus its mean over pairs: the mean square of the combination is then its variance.
        middle = self.raw.pair
        centred = errors.averages(
            self.matrix - middle, self.diagonal - middle, self.users, self.drawn
        )
        return np.maximum(centred.of(products), 0.0)

    def noise(self, sizes: Float[np.ndarray, "2 m"]) -> Float[np.ndarray, " m"]:
        """What the noise of the answers adds."""
        a, b = sizes
        square = self.factors[0] ** 2
        if self.answers is None:
            return square * self._worst(a)
        r, decoded = self.answers.decoder, self.answers.decoded
        # mean over i of R Sigma_i R^T, Sigma_i = a I + b x_i x_i^T, at the mean of B's queries
        if self.users is None:
            across, along = np.sum(r**2, axis=1).max(), np.square(decoded).max()
        else:
            share = self.users / self.users.sum()
            norms, whole = share @ np.sum(r**2, axis=1), np.sum((share @ r) ** 2)
            apart = whole if self.drawn else (self.n * whole - norms) / (self.n - 1)
            # E |mean of R_v over B|**2; B is drawn without replacement from given users
            across = norms / b + (1 - 1 / b) * apart
            along = self._column_squares(decoded, b)
        return square * (self.answers.isotropic * across + self.answers.along * along) / a

    def scalar(self, sizes: Float[np.ndarray, "2 m"]) -> Float[np.ndarray, " m"]:
        """The noise of one number of the second round."""
        unit, (a, _) = self.spec.scalar_randomizer.worst_case_variance(1), sizes
        if self.spec.tau is None:
            if self.users is None or self.answers is None:
                return unit * np.array([errors.squared_range(*self._ranges(x)) for x in a])
            return np.full_like(a, self._plug_in(self.users / self.users.sum(), unit))
        exact = self.spec.scalar == "bit" and self.raw is not None and not self.biased
        square = self._square_of_answers(a) if exact else 0.0
        return unit * self.spec.tau**2 - square + np.zeros_like(a)

    def _plug_in(self, share: Float[np.ndarray, " k"], unit: float) -> float:
        """The noise of one number within its range, where groups have their expected sizes."""
        answers, n, (step, extra) = self.answers, self.n, self.factors
        assert answers is not None
        a, columns = n * (self.spec.share if self.split_users else 1.0), answers.embedding
        covariance = Reports(columns, answers.isotropic, answers.along).total(share) / a
        sampling = ranges.column_covariance(columns, share)
        covariance += ranges.group_variance(a, n, self.drawn) * sampling
        draws = ranges.normal_draws(ranges.num_draws(*columns.shape), columns.shape[1], seed=0)
        noise = ranges.normals(draws, covariance) @ answers.decoder.T
        numbers = step * (self.matrix @ share + noise) + extra * self.diagonal
        return ranges.number_noise(numbers, share, unit, self.spec.scalar == "bit")

    def clipping(self, sizes: Float[np.ndarray, "2 m"]) -> Float[np.ndarray, "2 m"]:
        """Bounds on what clipping takes, averaged over users: of f, and of f**2."""
        tau, bounds = self.spec.tau, []
        assert tau is not None
        for a in sizes[0]:
            high, low, tails = self._ranges(a)
            each = errors.clipped(np.maximum(np.abs(high), np.abs(low)), tau, tails)
            bounds.append([errors.over_users(self.users, x) for x in each])
        return np.array(bounds).T

    def _worst(self, a: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """The largest mean squared error of an answer, or of a combination of answers."""
        return self.weight**2 * np.array([self.protocol.worst_case_variance(int(x)) for x in a])

    def _ranges(self, a: float) -> tuple[np.ndarray, np.ndarray, list[Tail]]:
        """Bounds on the means of f, and the tails of the noise, by value."""
        step, extra = self.factors
        width = np.ptp(self.matrix, axis=1)
        if self.users is None:
            highs, lows, sampling = self.matrix.max(axis=1), self.matrix.min(axis=1), 0.0 * width
        else:
            highs = lows = self.matrix @ self.users / self.users.sum()
            random = self.split_users or self.drawn
            sampling = width**2 / (4 * a) if random else 0.0 * width  # Hoeffding's lemma
        # Whether the user who holds v is in the first group moves its mean by width / (n - 1).
        slack = abs(step) * width / max(self.n - 1, 1.0) if self.split_users else 0.0
        if self.answers is None:
            # `answer_tails` divides by a, and leaves the variance of an answer.
            tail, norms = Tail(float(self._worst(np.array([a]))[0]) * a, math.inf), width**0
        else:
            tail, norms = self.answers.tail, np.linalg.norm(self.answers.decoder, axis=1)
        tails = errors.answer_tails(tail, step, norms, a, sampling)
        high, low = (step * x + extra * self.diagonal for x in (highs, lows))
        return high + slack, low - slack, tails

    def _square_of_answers(self, a: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """The mean square of what users of the second round answer, before it is randomized."""
        raw, answers, n = self.raw, self.answers, self.n
        assert raw is not None
        assert answers is not None
        assert self.users is not None
        share = self.users / self.users.sum()
        squares = share @ np.square(answers.decoded) @ share
        if self.split_users:
            step, extra = self.factors
            # E z_v**2 for the mean z_v of W over a users: two different ones, or one twice
            slopes = raw.shared * (1 - 1 / a) + raw.same / a
        else:
            step, extra = (1.0, 0.0) if self.spec.form == "u" else (1 - 1 / n, 1 / n)
            slopes = raw.shared * (1 - 1 / (n - 1)) + raw.same / (n - 1)
        # Different users answer in the two rounds, or one user may be in both.
        loop = share @ np.diagonal(answers.decoded) ** 2
        if self.split_users and not self.drawn:
            squares = (n * squares - loop) / (n - 1)
        elif not self.split_users and self.drawn:
            squares = (1 - 1 / n) * squares + loop / n
        norms = share @ np.sum(answers.decoder**2, axis=1)
        noise = (answers.isotropic * norms + answers.along * squares) / a
        # E f**2 for f(v) = step z_v + extra W_vv: of the truth, and of the noise of z
        mean = step**2 * slopes + 2 * step * extra * raw.mixed_in + extra**2 * raw.square
        return mean + self.factors[0] ** 2 * noise

    def _column_squares(
        self, decoded: Float[np.ndarray, "k k"], b: Float[np.ndarray, " m"]
    ) -> Float[np.ndarray, " m"]:
        """The mean over users i of the first round of `(h_B^T M e_i)**2`, M = `decoded`."""
        users, n = self.users, self.n
        assert users is not None
        share, diagonal = users / users.sum(), np.diagonal(decoded)
        whole, squares = share @ decoded, share @ np.square(decoded)  # over j, by i
        if self.drawn:
            apart, same, mixed = share @ whole**2, share @ squares, share @ (whole * diagonal)
        else:
            # Sums over users j other than i, of which products of different ones are averaged
            others = n * whole - diagonal
            second = n * squares - diagonal**2
            same, mixed = share @ second / (n - 1), share @ (others * diagonal) / (n - 1)
            apart = share @ (others**2 - second) / ((n - 1) * (n - 2))
        if self.split_users:
            return (1 - 1 / b) * apart + same / b
        # Both indices of h_B run over all users: neither is i, one is, or both are.
        pairs = (n - 1) * (n - 2) * apart + (n - 1) * same
        return (pairs + 2 * (n - 1) * mixed + share @ diagonal**2) / n**2 + 0 * b


@params
class TwoRoundParams(Interactive[RoundsOutcome]):
    """The params of `TwoRound`: a pytree.

    Attributes:
      queries: the first round.
      scalar: the params of the randomizer of numbers in [-1, 1].
      matrices: float64[m, k, k], W of each average.
      tau: float32[], the clipping bound; or None for the range.
      link: the statistic as a function of the averages, static.
      share: of the users in the first round; None if everyone is in both; static.
      form: "u" or "v", static.
    """

    queries: Round[Any]
    scalar: MeanRound
    matrices: Float[Array | np.ndarray, "m k k"]
    tau: Float[Array | np.ndarray, ""] | None
    link: Link = static()
    share: float | None = static()
    form: Form = static()

    def rounds(self, work: Work) -> tuple[Step, Step]:
        """Queries to some users, and numbers from the others; or both from all."""
        numbers = LookupRound(self.scalar, np.zeros(self.matrices.shape[-1], np.float32))
        shares = (1.0, 1.0) if self.share is None else (self.share, 1 - self.share)
        return Step(self.queries, work.of(shares[0])), Step(numbers, work.of(shares[1]))

    def play(self, key: jax.Array, users: Population, collect: Collect) -> RoundsOutcome:
        """Both rounds.

        Returns:
          Broadcast "values", "middle", "tau": what f is; of several averages "averages" and
          "slopes" float32[m], where the statistic is linearised. Tallies "queries" and "numbers".
        """
        first = second = users
        if self.share is not None:
            first, second = users.split(key, (self.share, 1 - self.share))
        queries = collect(self.queries, first, 0)
        question = self._question(queries, users.size)
        numbers = collect(LookupRound(self.scalar, question["values"]), second, 1)
        return RoundsOutcome(question, {"queries": queries, "numbers": numbers})

    @compiled_in_float64
    def _question(self, tally: Tree, num_users: Count) -> dict[str, jax.Array]:
        (matrices,) = as_float64(self.matrices)
        n, (m, k, _) = num_users.f64(), matrices.shape
        estimates = self.queries.estimate(tally)
        answers, point = estimates.reshape(m, k), {}
        if m > 1:
            # The averages of the histogram whose answers are nearest to the estimated ones
            found = hull(estimates, matrices.reshape(m * k, k), tol=_TOL).weights
            point = tangent(self.link, dot(dot(matrices, found), found), n)
        answers = combined(point, answers)
        diagonal = combined(point, jnp.diagonal(matrices, axis1=1, axis2=2))
        # Of the users in z_v the user who holds v is one, or with disjoint groups none.
        if self.share is None and self.form == "u":
            answers = (n * answers - diagonal) / (n - 1)
        elif self.share is not None and self.form == "v":
            answers = ((n - 1) * answers + diagonal) / n
        return broadcast(answers, self.tau) | point

    @compiled_in_float64
    def estimate(self, outcome: RoundsOutcome, /) -> Float[Array, ""]:
        """The estimated statistic."""
        question, numbers = outcome.broadcasts, outcome.tallies["numbers"]
        n = numbers["users"].f64() / (1.0 if self.share is None else 1 - self.share)
        return linked(self.link, question, answered(self.scalar, question, numbers), n)

"""Linear queries that are chosen one by one, each from the answers to those before."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Float32, Int32
from numpy.typing import ArrayLike

from jaxdp_kernels import register_dataclass

from .._checks import Epsilon, Instance, Integer, Maker
from .._contract import (
    Collect,
    Independent,
    Sent,
    Spec,
    TallyLaw,
    Tree,
    field,
    params,
    spec,
    static,
)
from .._prediction import Prediction
from .._spec import check_counts, check_int, check_key, check_probabilities
from .._x64 import compiled_in_float64, dot
from ..engine import outcome
from ..population import Population, RoundSource
from ..random import Count, binomial
from ..randomizers import BinaryResponse
from ._encoded import EncodedRound
from ._split_rounds import SplitRounds

_SERIES_FROM = 1e3  # mean size of a group from which on `mean_inverse` is a series

Analyst = Callable[[Any, Any], Any]
"""`(round, answers) -> query`."""

Ask = Callable[[Any, Any], tuple[jax.Array, Count]]
"""`(query, number of the round) -> (answer, users of the round)`."""


class QueryError(ValueError):
    """A query that cannot be asked.

    Attributes:
      answers: float64[t], the answers of the rounds before.
    """

    def __init__(self, message: str, answers: Sequence[float] | np.ndarray = ()):
        super().__init__(message)
        self.answers = np.array(answers, np.float64)


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Transcript:
    """Questions and answers of one run of `AdaptiveQueries`; a pytree.

    Attributes:
      answers: float64[d].
      queries: float32[d, k], what the users were asked.
      users: int64[d], how many users each round had.
    """

    answers: Any
    queries: Any
    users: Any  # Count[d] while it is being made

    def truth(self, weights: ArrayLike) -> Float[np.ndarray, " d"]:
        """The true answers `q_t h`.

        Args:
          weights: counts of the users, or the probabilities they are drawn from, float[k]; they
            need not add up to 1.
        """
        weights = np.asarray(weights, np.float64).ravel()
        return self.queries.astype(np.float64) @ (weights / weights.sum())

    def max_error(self, weights: ArrayLike) -> float:
        """The largest absolute error of an answer; see `truth`."""
        return float(np.abs(self.answers - self.truth(weights)).max())


@spec
class AdaptiveQueries(Spec["AdaptiveQueriesParams"]):
    """Bassily's protocol for d linear queries, each chosen from the answers before: Algorithm 6.

    Every user joins one of d rounds at random, before the first. In round t the analyst asks a
    query q_t with `|q_t(v)| <= bound`; the users of the round answer `q_t(v)` in one bit, +B or -B
    (`BinaryResponse`), and the answer y_t is their mean, which estimates `q_t h`. No user is asked
    twice, so no query can be fitted to the noise or to the sample that it is evaluated on.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, whatever the analyst asks: a user sends one bit, in one round.
      * Bias: for independent users with the distribution p, none about `q_t p` given that the round
        has users, *for every analyst*. (For given users a chosen query is not independent of who is
        left; there the paper guarantees nothing.) The rounding of a query's values moves an answer
        by at most `2**-24 |q| + bound 2**-31 c`, c = (e**epsilon + 1) / (e**epsilon - 1).
      * Variance, given m users in the round: `(B**2 - (q_t p)**2) / m` about `q_t p`. See
        `population_variance`, `variance` and `worst_case_variance`.
      * The largest error of d answers: `bounds.adaptive_max_error`.

    Edge cases:
      =====================================  ====================================================
      a round without users                  its answer is 0
      num_rounds above the number of users   UserWarning: some rounds have no users
      a query of the wrong shape             `QueryError` (a ValueError) that names the round and
                                             keeps the earlier `answers`
      a query with NaN, or beyond `bound`    the same; under `traceable=True` NaN counts as 0, and
                                             values are clipped
      =====================================  ====================================================

    Args:
      num_values: k, the number of values a user may hold.
      epsilon: privacy parameter, > 0.
      num_rounds: d, from 1 to 2**16.
      analyst: `analyst(round, answers) -> query`. It gets the number of the round, from 0, and all
        answers, float[d], those of this round and later being 0; it returns float[k] with absolute
        values of at most `bound`, used as float32. By default it is called on the host with an int
        and a NumPy array, and may be any Python. It must be hashable.
      bound: r, the largest absolute value of a query, > 0; rounded to float32.
      traceable: whether the analyst is written in jax and is traced, once, with an int32[] and a
        float32[d]; whole simulations are then compiled. The leaves of an analyst that is a pytree
        (a frozen dataclass registered with jax, with `__call__`) are arguments of the compiled
        program, so that analysts that differ in them share it.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> import jax, jaxdp, numpy as np
      >>> from jaxdp.linear import AdaptiveQueries
      >>> score = np.linspace(0, 1, 11)
      >>> def above_average(round, answers):
      ...     return score if round == 0 else score > answers[0]
      >>> protocol = AdaptiveQueries(
      ...     num_values=11, epsilon=1.0, num_rounds=2, analyst=above_average
      ... )
      >>> users = jaxdp.Population.from_histogram([10**6] * 10 + [5 * 10**6])
      >>> average, share = jaxdp.run(protocol, users, jax.random.key(0))
      >>> print(f"average {average:.2f}, above it {share:.2f}")
      average 0.63, above it 0.53

    References:
      Bassily (2019), Algorithm 6, Theorems 5.1 and 5.2.
    """

    num_values: int = field(Integer(1, 2**30))
    epsilon: float = field(Epsilon())
    num_rounds: int = field(Integer(1, RoundSource.MAX_ROUNDS))
    analyst: Analyst = field(Maker("a function of the round and the answers so far"))
    bound: float = 1.0
    traceable: bool = field(Instance(bool, "True or False"), default=False)

    def validate(self) -> None:
        """Raises unless one bit can answer queries so bounded, and the analyst can be hashed."""
        self.settle(bound=self.randomizer.bound)
        try:
            hash(self.analyst)
        except TypeError as error:
            raise TypeError(
                f"analyst must be hashable, got {self.analyst!r}; use a function, or a frozen "
                "dataclass of numbers and tuples."
            ) from error

    @property
    def randomizer(self) -> BinaryResponse:
        """The randomizer that a user runs on the value of a query."""
        return BinaryResponse(self.epsilon, self.bound)

    def build(self, word_bits: int = 32) -> "AdaptiveQueriesParams":
        """Builds the params, which users and the analyst run."""
        bit = self.randomizer.build(word_bits)
        analyst: Any = self.analyst
        if not self.traceable or jax.tree_util.all_leaves([analyst]):
            analyst = jax.tree_util.Partial(analyst)  # a pytree without leaves
        with jax.enable_x64(False):
            analyst = jax.tree.map(jnp.asarray, analyst)
        return AdaptiveQueriesParams(
            QueryRound(bit, np.zeros(self.num_values, np.float32)),
            analyst,
            np.asarray(self.bound, np.float32),
            self.num_rounds,
            self.traceable,
        )

    @property
    def sent(self) -> tuple[Sent, ...]:
        """A bit from each user, in one of the rounds."""
        return (Sent(self.randomizer, 1 / self.num_rounds),) * self.num_rounds

    def exact_epsilon(self) -> float:
        """The realised privacy parameter of the one bit that a user sends; at most `epsilon`."""
        return self.randomizer.exact_epsilon()

    def transcript(
        self,
        population: Population,
        key: jax.Array,
        method: Literal["auto", "per_user", "tally"] = "auto",
    ) -> Transcript:
        """The questions and answers of `run` with this key.

        Args:
          population: as in `jaxdp.run`.
          key: as in `jaxdp.run`.
          method: as in `jaxdp.run`.
        """
        script = outcome(self, population, check_key(key), method=method)
        answers = np.asarray(script.answers, np.float64)
        return dataclasses.replace(script, answers=answers, users=script.users.numpy())

    def variance(self, counts: ArrayLike, queries: ArrayLike) -> Float[np.ndarray, "*n"]:
        """The exact mean squared error of the answer to a query about `q h`, for given users.

        The assignment of users to rounds is part of it. With s the variance of q(v) over the users
        and M ~ Binomial(n, 1/d) the size of a round, it is, up to the rounding of q,
        `(B**2 - (q h)**2) E[1/M; M >= 1] - s E[1 - 1/M; M >= 1] / (n - 1) + Pr[M = 0] (q h)**2`. It
        holds for queries fixed in advance: chosen ones depend on who is left.

        Args:
          counts: int[k], the number of users with each value.
          queries: float[..., k].
        """
        counts = check_counts(counts).ravel()
        n = int(counts.sum())
        inverse, empty, mean, truth, spread = self._moments(counts / n, n, queries)
        # Var of a mean of m values drawn without replacement: s (1/m - (1 - 1/m) / (n - 1))
        drawn = spread / max(n - 1, 1) * (1 - empty - inverse)  # by drawing without replacement
        return self._error(inverse, empty, mean, truth) - drawn

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, queries: ArrayLike
    ) -> Float[np.ndarray, "*n"]:
        """The exact mean squared error of the answer to a query about `q p`, independent users.

        `(B**2 - (q p)**2) E[1/M; M >= 1] + Pr[M = 0] (q p)**2`, up to the rounding of q, for
        queries fixed in advance. A chosen query has the same error given the size M of its round.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          queries: float[..., k].
        """
        p = check_probabilities(probabilities)
        n = check_int("num_users", num_users, low=1)
        return self._error(*self._moments(p, n, queries)[:4])

    def worst_case_variance(self, num_users: int) -> Prediction:
        """A bound on the mean squared error of an answer about `q_t p`, for every analyst.

        `B**2 E[1/M; M >= 1] + bound**2 Pr[M = 0]`, for independent users of any distribution. The
        query 0 attains all but the second term.
        """
        n = check_int("num_users", num_users, low=1)
        inverse, empty = mean_inverse(n, 1 / self.num_rounds)
        return Prediction(self.randomizer.magnitude**2 * inverse + self.bound**2 * empty, "bound")

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are bins of the domain; warns of rounds without users."""
        population.require_bins(self.num_values)
        if population.num_users < self.num_rounds:
            warnings.warn(
                f"num_rounds = {self.num_rounds} rounds share {population.num_users} users, so "
                "that some rounds have none and answer 0; ask fewer queries.",
                stacklevel=4,
            )

    def _error(
        self, inverse: float, empty: float, mean: np.ndarray, truth: np.ndarray
    ) -> np.ndarray:
        # A report is +-B of mean q(v), so its second moment is B**2; an empty round answers 0.
        spread = (self.randomizer.magnitude**2 - mean**2) * inverse
        return spread + (1 - empty) * (mean - truth) ** 2 + empty * truth**2

    def _moments(
        self, histogram: np.ndarray, num_users: int, queries: ArrayLike
    ) -> tuple[float, float, np.ndarray, np.ndarray, np.ndarray]:
        """E[1/M; M >= 1], Pr[M = 0], and the mean, the target and the variance of the values."""
        queries = np.asarray(queries)
        if queries.dtype.kind not in "biuf":
            raise TypeError(f"queries must be real numbers, got dtype {queries.dtype}.")
        if queries.ndim == 0 or queries.shape[-1] != self.num_values:
            raise ValueError(
                f"queries must have shape [..., num_values = {self.num_values}], got "
                f"{queries.shape}."
            )
        if histogram.size != self.num_values:
            raise ValueError(
                f"the users must hold one of num_values = {self.num_values} values, got "
                f"{histogram.size} counts or probabilities."
            )
        queries = queries.astype(np.float32)
        if not np.all(np.abs(queries) <= self.bound):
            raise ValueError(f"queries must be in [-{self.bound:g}, {self.bound:g}] and not NaN.")
        answered = self.randomizer.moments(queries)[0]  # rounded to what thresholds can say
        mean, truth = answered @ histogram, queries.astype(np.float64) @ histogram
        spread = np.square(answered - mean[..., None]) @ histogram
        return *mean_inverse(num_users, 1 / self.num_rounds), mean, truth, spread


def mean_inverse(num_users: int, probability: float) -> tuple[float, float]:
    """E[1/M; M >= 1] and Pr[M = 0] for M ~ Binomial(n, p), to a relative 1e-11.

    A sum over the values within 40 standard deviations of the mean m. From m = 10**3 on the
    expansion `sum_j A_j(q) / m**(j + 1)` with the Eulerian polynomials of q = 1 - p: the expansion
    of 1/M about its mean, by powers of m; the first term left out is below `120 / m**6`.

    Args:
      num_users: n, at least 1.
      probability: p in (0, 1].
    """
    n, p = float(num_users), probability
    if p == 1:
        return 1 / n, 0.0
    mean, q = n * p, 1 - p
    empty = math.exp(n * math.log1p(-p))
    if mean >= _SERIES_FROM:
        eulerian = (1, q, q + q**2, q + 4 * q**2 + q**3, q + 11 * q**2 + 11 * q**3 + q**4)
        return sum(a / mean ** (j + 1) for j, a in enumerate(eulerian)), empty
    # Beyond 40 standard deviations there is less than the rounding of the sum, by Bernstein.
    reach = 40 * math.sqrt(mean * q) + 60
    low, high = math.floor(max(mean - reach, 0)), math.ceil(min(mean + reach, n))
    sizes = np.arange(low, high + 1, dtype=np.float64)
    steps = np.log((n - sizes[:-1]) / sizes[1:]) + math.log(p / q)  # of the log-probabilities
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    positive = sizes > 0
    return float(np.sum(weights[positive] / sizes[positive]) / weights.sum()), empty


@params
class QueryRound(EncodedRound[dict[str, Count]]):
    """One round of `AdaptiveQueries`, in which every user answers one query: a pytree.

    Attributes:
      inner: the params of `BinaryResponse`, which randomizes the answer.
      query: float32[k].
    """

    inner: Any
    query: Float32[Array | np.ndarray, " k"]

    @property
    def num_bins(self) -> int:
        """The bins of the domain."""
        return self.query.shape[-1]

    @property
    def value(self) -> Tree:
        """A bin."""
        return jax.ShapeDtypeStruct((), jnp.int32)

    def encode(self, values: Int32[Array, "*n"]) -> Float32[Array, "*n"]:
        """The query's answers for values."""
        return jnp.asarray(self.query)[values]

    @property
    def law(self) -> TallyLaw[dict[str, Count]] | None:
        """One binomial for each value; one alone for independent users."""
        law = super().law
        assert law is not None
        return dataclasses.replace(law, independent=self._draw_independent)

    @compiled_in_float64
    def _draw_independent(self, key: jax.Array, users: Independent) -> dict[str, Count]:
        thresholds = self.inner.thresholds(jnp.asarray(self.query)).astype(jnp.float64)
        share = users.weights.f64() / jnp.sum(users.weights.f64())
        p = jnp.clip(dot(thresholds, share) / 2.0**self.inner.word_bits, 0.0, 1.0)
        # The answer of a random user is +B with the mean of the values' probabilities.
        plus = binomial(jax.random.fold_in(key, 0), users.size, p)
        # The signs of `plus` users are +1, of the others -1.
        return {"sum": plus + plus - users.size, "users": users.size}

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, ""]:
        """The answer; 0 where there are no users."""
        users = outcome["users"]  # taken to be 1 where there are none
        empty = (users.f64() == 0).astype(jnp.int32)
        return self.inner.estimate({**outcome, "users": users + Count.of(empty)})


@params
class AdaptiveQueriesParams(SplitRounds[Transcript]):
    """The params of `AdaptiveQueries`: a pytree.

    Attributes:
      user: the round of the query 0.
      analyst: chooses the queries; a pytree.
      bound: float32[], the largest absolute value of a query.
      num_rounds: d, static.
      traced: whether the analyst is traced, static.
    """

    user: QueryRound
    analyst: Analyst
    bound: Float32[Array | np.ndarray, ""]
    num_rounds: int = static()
    traced: bool = static()

    @property
    def traceable(self) -> bool:
        """Whether the analyst is traced."""
        return self.traced

    def play(self, key: jax.Array, users: Population, collect: Collect) -> Transcript:
        """Asks all queries."""

        def ask(
            query: Float32[Array | np.ndarray, " k"], number: int | jax.Array
        ) -> tuple[jax.Array, Count]:
            asked = dataclasses.replace(self.user, query=query)
            tally = collect(asked, self.users_of_round(users, key, number), number)
            return _answer(asked, tally), tally["users"]

        return self._play_traced(ask) if self.traced else self._play_on_host(ask)

    def _play_traced(self, ask: Ask) -> Transcript:
        def step(answers: jax.Array, number: jax.Array) -> tuple[jax.Array, Any]:
            query = self._trace_query(number, answers.astype(jnp.float32))
            answer, users = ask(query, number)
            return answers.at[number].set(answer), (query, users)

        numbers = jnp.arange(self.num_rounds, dtype=jnp.int32)
        answers, (queries, users) = lax.scan(step, jnp.zeros(self.num_rounds), numbers)
        return Transcript(answers, queries, users)

    def _trace_query(self, number: jax.Array, answers: jax.Array) -> Float32[Array, " k"]:
        """The query of a round, with every value that is no answer to the question made one."""
        with jax.enable_x64(False):  # an analyst sees the same types whatever its caller does
            query = jnp.asarray(self.analyst(number, answers))
            if query.shape != self.user.query.shape:
                raise ValueError(self._wrong_shape("traced", query.shape))
            query = jnp.nan_to_num(query.astype(jnp.float32))
            return jnp.clip(query, -self.bound, self.bound)

    def _play_on_host(self, ask: Ask) -> Transcript:
        answers = np.zeros(self.num_rounds)
        queries = np.zeros((self.num_rounds, *self.user.query.shape), np.float32)
        users = np.zeros(self.num_rounds, np.int64)
        for number in range(self.num_rounds):
            queries[number] = self._checked_query(number, answers)
            with jax.enable_x64(True):
                answers[number], size = ask(queries[number], number)
            users[number] = size.numpy()
        return Transcript(answers, queries, Count.of(users))

    def _checked_query(self, number: int, answers: np.ndarray) -> Float32[np.ndarray, " k"]:
        """The query of a round, or raises QueryError unless it can be asked."""
        query = np.asarray(self.analyst(number, answers.copy()))
        if query.shape != self.user.query.shape:
            raise QueryError(self._wrong_shape(str(number), query.shape), answers[:number])
        if query.dtype.kind not in "biuf":
            problem = f"be of real numbers, got dtype {query.dtype}"
            raise QueryError(f"the query of round {number} must {problem}.", answers[:number])
        query, bound = query.astype(np.float32), float(self.bound)
        wrong = ~(np.abs(query) <= bound)
        if np.any(wrong):
            where = int(np.argmax(wrong))
            raise QueryError(
                f"the query of round {number} must have values in [-{bound:g}, {bound:g}], got "
                f"{query[where]} at value {where}; scale it, or raise bound.",
                answers[:number],
            )
        return query

    def _wrong_shape(self, number: str, shape: tuple[int, ...]) -> str:
        return (
            f"the query of round {number} must have shape {self.user.query.shape}, a number for "
            f"each value a user may hold, got {shape}."
        )

    def estimate(self, outcome: Transcript, /) -> Float[Array | np.ndarray, " d"]:
        """The answers."""
        return outcome.answers

    @compiled_in_float64
    def target(
        self, outcome: Transcript, histogram: jax.Array, inputs: Tree, /
    ) -> Float[Array, " d"]:
        """The true answers to the queries that were asked."""
        del inputs
        queries = jnp.asarray(outcome.queries).astype(jnp.float64)
        return dot(queries, jnp.asarray(histogram).astype(jnp.float64))


@jax.jit
def _answer(asked: QueryRound, tally: dict[str, Count]) -> jax.Array:
    return asked.estimate(tally)

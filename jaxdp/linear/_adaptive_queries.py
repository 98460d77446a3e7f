"""Linear queries that are chosen one by one, each from the answers to those before."""

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import check_counts, check_int, check_key, check_probabilities
from ..engine import outcome
from ..population import Population
from ..population._rounds import MAX_ROUNDS
from ..randomizers import BinaryResponse
from ._adaptive_params import AdaptiveQueriesParams, Analyst, QueryParams, Transcript
from ._group_size import mean_inverse


@dataclasses.dataclass(frozen=True, slots=True)
class AdaptiveQueries:
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
      a query of the wrong shape, with NaN,  `QueryError` (a ValueError) that names the round and
      or beyond `bound`                      keeps the earlier `answers`; under `traceable=True`
                                             the shape is checked, NaN counts as 0, and values are
                                             clipped
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

    num_values: int
    epsilon: float
    num_rounds: int
    analyst: Analyst
    bound: float = 1.0
    traceable: bool = False

    def __post_init__(self):
        check_int("num_values", self.num_values, low=1, high=2**30)
        randomizer = BinaryResponse(self.epsilon, self.bound)
        object.__setattr__(self, "epsilon", randomizer.epsilon)
        object.__setattr__(self, "bound", randomizer.bound)
        check_int("num_rounds", self.num_rounds, low=1, high=MAX_ROUNDS)
        if not callable(self.analyst):
            raise TypeError(
                f"analyst must be a function of the round and the answers so far, got "
                f"{self.analyst!r}."
            )
        try:
            hash(self.analyst)
        except TypeError as error:
            raise TypeError(
                f"analyst must be hashable, got {self.analyst!r}; use a function, or a frozen "
                "dataclass of numbers and tuples."
            ) from error
        if not isinstance(self.traceable, bool):
            raise TypeError(f"traceable must be True or False, got {self.traceable!r}.")

    @property
    def randomizer(self) -> BinaryResponse:
        """What a user runs on a query's value."""
        return BinaryResponse(self.epsilon, self.bound)

    def build(self, word_bits: int = 32) -> "AdaptiveQueriesParams":
        """The params."""
        bit = self.randomizer.build(word_bits)
        held: Any = self.analyst
        if not self.traceable or jax.tree_util.all_leaves([held]):
            held = jax.tree_util.Partial(held)  # a pytree without leaves
        with jax.enable_x64(False):
            held = jax.tree.map(jnp.asarray, held)
        return AdaptiveQueriesParams(
            QueryParams(bit, np.zeros(self.num_values, np.float32)),
            held,
            np.asarray(self.bound, np.float32),
            self.num_rounds,
            self.traceable,
        )

    def exact_epsilon(self) -> float:
        """The realised privacy parameter, at most `epsilon`: that of one bit."""
        return self.randomizer.exact_epsilon()

    def transcript(self, population: Population, key: jax.Array, **options) -> Transcript:
        """What `run` with this key asks, and gets as answers.

        Args:
          population: as in `jaxdp.run`.
          key: as in `jaxdp.run`.
          **options: as in `jaxdp.run`.
        """
        found = outcome(self, population, check_key(key), **options)
        answers = np.asarray(found.answers, np.float64)
        return dataclasses.replace(found, answers=answers, users=found.users.numpy())

    def variance(self, counts, queries) -> np.ndarray:
        """The exact mean squared error of the answer to a query about `q h`, for given users.

        The assignment of users to rounds is part of it. With s the variance of q(v) over the users
        and M ~ Binomial(n, 1/d) the size of a round, it is, up to the rounding of q,
        `(B**2 - (q h)**2) E[1/M; M >= 1] - s E[1 - 1/M; M >= 1] / (n - 1) + Pr[M = 0] (q h)**2`. It
        is that of queries fixed in advance: chosen ones depend on who is left.

        Args:
          counts: int[k], the number of users with each value.
          queries: float[..., k].

        Returns:
          float64[...].
        """
        counts = check_counts(counts).ravel()
        n = int(counts.sum())
        inverse, empty, mean, truth, spread = self._moments(counts / n, n, queries)
        drawn = spread / max(n - 1, 1) * (1 - empty - inverse)  # by drawing without replacement
        return self._error(inverse, empty, mean, truth) - drawn

    def population_variance(self, probabilities, num_users: int, queries) -> np.ndarray:
        """The exact mean squared error of the answer to a query about `q p`, independent users.

        `(B**2 - (q p)**2) E[1/M; M >= 1] + Pr[M = 0] (q p)**2`, up to the rounding of q, for
        queries fixed in advance. A chosen query has the same error given the size M of its round.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          queries: float[..., k].

        Returns:
          float64[...].
        """
        p = check_probabilities(probabilities)
        n = check_int("num_users", num_users, low=1)
        return self._error(*self._moments(p, n, queries)[:4])

    def worst_case_variance(self, num_users: int) -> float:
        """A bound on the mean squared error of an answer about `q_t p`, for every analyst.

        `B**2 E[1/M; M >= 1] + bound**2 Pr[M = 0]`, for independent users of any distribution. The
        query 0 attains all but the second term.
        """
        n = check_int("num_users", num_users, low=1)
        inverse, empty = mean_inverse(n, 1 / self.num_rounds)
        return self.randomizer.magnitude**2 * inverse + self.bound**2 * empty

    def check_population(self, population) -> None:
        """Raises unless the users' values are bins of the domain; warns of rounds without users."""
        population.require_bins(self.num_values)
        if population.num_users < self.num_rounds:
            warnings.warn(
                f"num_rounds = {self.num_rounds} rounds share {population.num_users} users, so "
                "that some rounds have none and answer 0; ask fewer queries.",
                stacklevel=4,
            )

    def _error(self, inverse, empty, mean, truth) -> np.ndarray:
        spread = (self.randomizer.magnitude**2 - mean**2) * inverse
        return spread + (1 - empty) * (mean - truth) ** 2 + empty * truth**2

    def _moments(self, histogram, num_users: int, queries):
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
        told = self.randomizer.moments(queries)[0]
        mean, truth = told @ histogram, queries.astype(np.float64) @ histogram
        spread = np.square(told - mean[..., None]) @ histogram
        return *mean_inverse(num_users, 1 / self.num_rounds), mean, truth, spread

"""The params of `AdaptiveQueries`: what a round's users run, and how rounds follow each other."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._x64 import compiled_in_float64, dot
from ..population import Population
from ..population._rounds import RoundSource
from ..random import Count, binomial
from ..randomizers._binary import BinaryResponseParams
from ..randomizers._params import RandomizerParams

Analyst = Callable[[Any, Any], Any]


class QueryError(ValueError):
    """A query that cannot be asked.

    Attributes:
      answers: float64[t], the answers of the rounds before.
    """

    def __init__(self, message: str, answers=()):
        super().__init__(message)
        self.answers = np.array(answers, np.float64)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Transcript:
    """What was asked and answered in one run of `AdaptiveQueries`; a pytree.

    Attributes:
      answers: float64[d].
      queries: float32[d, k], those that the users were asked.
      users: int64[d], how many users each round had.
    """

    answers: Any
    queries: Any
    users: Any  # Count[d] while it is being made

    def truth(self, weights) -> np.ndarray:
        """The true answers `q_t h`, float64[d].

        Args:
          weights: counts of the users, or the probabilities they are drawn from, float[k]; they
            need not add up to 1.
        """
        weights = np.asarray(weights, np.float64).ravel()
        return self.queries.astype(np.float64) @ (weights / weights.sum())

    def max_error(self, weights) -> float:
        """The largest absolute error of an answer; see `truth`."""
        return float(np.abs(self.answers - self.truth(weights)).max())


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class QueryParams(RandomizerParams):
    """The params of one round, in which every user answers one query: a pytree.

    Attributes:
      bit: the params of the randomizer of the answer.
      query: float32[k].
    """

    bit: BinaryResponseParams
    query: jax.Array | np.ndarray

    @property
    def num_words(self) -> int:
        """One word per user."""
        return self.bit.num_words

    def from_bits(self, words, value):
        """One user's report, 1 for +B and 0 for -B.

        Args:
          words: uint32[1].
          value: int32[] in [0, k).
        """
        return self.bit.from_bits(words, jnp.asarray(self.query)[value])

    def tally(self, reports, mask):
        """The number of each report, int32[2]."""
        return self.bit.tally(reports, mask)

    def sample_tally(self, key, counts: Count, inputs=None) -> Count:
        """A tally drawn at once, exact in law: one binomial for each value.

        Args:
          key: a key; it is folded.
          counts: Count[k], the number of users with each value.
          inputs: unused; values are bins.
        """
        del inputs
        return self.bit.sample_tally(key, counts, jnp.asarray(self.query))

    @compiled_in_float64
    def sample_tally_iid(self, key, num_users: Count, weights: Count) -> Count:
        """A tally of independent users drawn at once, exact in law: one binomial.

        Args:
          key: a key; it is folded.
          num_users: Count[].
          weights: Count[k], probabilities times any constant.
        """
        words = self.bit._threshold(jnp.asarray(self.query)).astype(jnp.float64)
        share = weights.f64() / jnp.sum(weights.f64())
        p = jnp.clip(dot(words, share) / 2.0**self.bit.word_bits, 0.0, 1.0)
        plus = binomial(jax.random.fold_in(key, 0), num_users, p)
        return jax.tree.map(lambda a, b: jnp.stack([a, b]), num_users - plus, plus)

    @compiled_in_float64
    def estimate(self, tally: Count):
        """The answer, float[]; 0 where there are no users."""
        empty = tally.f64().sum() == 0
        return self.bit.estimate(tally + Count.of(empty.astype(jnp.int32)))  # or one of each


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AdaptiveQueriesParams:
    """The params of `AdaptiveQueries`: a pytree.

    Attributes:
      user: the params of a round, with the query 0.
      analyst: chooses the queries; a pytree.
      bound: float32[], the largest absolute value of a query.
      num_rounds: d, static.
      traceable: whether the analyst is traced, static.
    """

    user: QueryParams
    analyst: Analyst
    bound: jax.Array | np.ndarray
    num_rounds: int = dataclasses.field(metadata={"static": True})
    traceable: bool = dataclasses.field(metadata={"static": True})

    @property
    def num_words(self) -> int:
        """Those of a round."""
        return self.user.num_words

    @property
    def sample_tally(self):
        """That of a round."""
        return self.user.sample_tally

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds that drawing a round's tally takes, roughly."""
        del num_users
        return 200.0 * num_bins * (1 + (self.num_rounds - 1).bit_length())

    def play(self, key, population: Population, collect) -> Transcript:
        """Asks all queries.

        Args:
          key: the trial's key.
          population: the users.
          collect: runs a round; see `jaxdp.engine`.
        """

        def ask(query, round):
            asked = dataclasses.replace(self.user, query=query)
            everyone = population.source
            source = RoundSource(everyone, key, jnp.asarray(round, jnp.int32), self.num_rounds)
            tally = collect(asked, Population(source), round)
            return _answer(asked, tally), tally

        return self._play_traced(ask) if self.traceable else self._play_on_host(ask)

    def _play_traced(self, ask) -> Transcript:
        def step(answers, round):
            query = self._trace_query(round, answers.astype(jnp.float32))
            answer, tally = ask(query, round)
            return answers.at[round].set(answer), (query, tally.sum())

        rounds = jnp.arange(self.num_rounds, dtype=jnp.int32)
        answers, (queries, users) = lax.scan(step, jnp.zeros(self.num_rounds), rounds)
        return Transcript(answers, queries, users)

    def _trace_query(self, round, answers):
        """The query of a round, with every value that is no answer to the question made one."""
        with jax.enable_x64(False):  # an analyst sees the same types whatever its caller does
            query = jnp.asarray(self.analyst(round, answers))
            if query.shape != self.user.query.shape:
                raise ValueError(self._wrong_shape("traced", query.shape))
            query = jnp.nan_to_num(query.astype(jnp.float32))
            return jnp.clip(query, -self.bound, self.bound)

    def _play_on_host(self, ask) -> Transcript:
        answers = np.zeros(self.num_rounds)
        queries = np.zeros((self.num_rounds, *self.user.query.shape), np.float32)
        users = np.zeros(self.num_rounds, np.int64)
        for round in range(self.num_rounds):
            queries[round] = self._checked_query(round, answers)
            with jax.enable_x64(True):
                answers[round], tally = ask(queries[round], round)
            users[round] = tally.numpy().sum()
        return Transcript(answers, queries, Count.of(users))

    def _checked_query(self, round: int, answers: np.ndarray) -> np.ndarray:
        """The query of a round, or raises QueryError unless it can be asked."""
        query = np.asarray(self.analyst(round, answers.copy()))
        if query.shape != self.user.query.shape:
            raise QueryError(self._wrong_shape(str(round), query.shape), answers[:round])
        if query.dtype.kind not in "biuf":
            problem = f"be of real numbers, got dtype {query.dtype}"
            raise QueryError(f"the query of round {round} must {problem}.", answers[:round])
        query, bound = query.astype(np.float32), float(self.bound)
        wrong = ~(np.abs(query) <= bound)
        if np.any(wrong):
            where = int(np.argmax(wrong))
            raise QueryError(
                f"the query of round {round} must have values in [-{bound:g}, {bound:g}], got "
                f"{query[where]} at value {where}; scale it, or raise bound.",
                answers[:round],
            )
        return query

    def _wrong_shape(self, round: str, shape) -> str:
        return (
            f"the query of round {round} must have shape {self.user.query.shape}, a number for "
            f"each value a user may hold, got {shape}."
        )

    def estimate(self, transcript: Transcript):
        """The answers, float[d]."""
        return transcript.answers

    @compiled_in_float64
    def target(self, transcript: Transcript, histogram):
        """The true answers to the queries that were asked, float[d].

        Args:
          transcript: of `play`.
          histogram: float64[k], the normalised histogram of the users or their distribution.
        """
        queries = jnp.asarray(transcript.queries).astype(jnp.float64)
        return dot(queries, jnp.asarray(histogram).astype(jnp.float64))


@jax.jit
def _answer(asked: QueryParams, tally: Count):
    return asked.estimate(tally)

"""Protocols that jaxdp does not have, of one round and of two, written from its public names."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp import Population
from jaxdp.engine import (
    Collect,
    Interactive,
    Kernels,
    Round,
    Spec,
    Step,
    TallyLaw,
    Through,
    Tree,
    Words,
    Work,
    checks,
    field,
    params,
    spec,
    static,
)
from jaxdp.random import Count, binomial, histogram
from jaxdp.randomizers import KRR, BinaryResponse, MeanRound, log_upper

_SHARE = checks.Real(2.0**-8, 1 - 2.0**-8)


@spec
class UnrelatedQuestion(Spec["UnrelatedQuestionParams"]):
    """The share of users who hold 1, by the unrelated question.

    With probability P a user is asked for its value, and otherwise a question that does not concern
    anybody, to which the answer is 1 with probability u. P and u are rounded to multiples of
    2**-32.

    Args:
      asked: P, between 2**-8 and 1 - 2**-8.
      innocent: u, within the same limits.

    References:
      Greenberg, Abul-Ela, Simmons, Horvitz (1969), The unrelated question randomized response
      model: theoretical framework.
    """

    asked: float = field(_SHARE, default=0.5)
    innocent: float = field(_SHARE, default=0.5)

    def _thresholds(self, word_bits: int) -> tuple[int, int]:
        """How many words ask for the value, and how many answer 1 otherwise."""
        bits = checks.Integer(8, 32)("word_bits", word_bits)
        return round(self.asked * 2**bits), round(self.innocent * 2**bits)

    def build(self, word_bits: int = 32) -> "UnrelatedQuestionParams":
        """What users and the analyst run."""
        return UnrelatedQuestionParams(np.array(self._thresholds(word_bits), np.uint32), word_bits)

    def chances(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """The exact probabilities of the answer 1 from users who hold 0 and 1."""
        thresholds = self._thresholds(word_bits)
        asked, innocent = (Fraction(threshold, 2**word_bits) for threshold in thresholds)
        return (1 - asked) * innocent, (1 - asked) * innocent + asked

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The larger log-ratio of the probabilities of an answer, rounded up."""
        no, yes = self.chances(word_bits)
        return log_upper(max(yes / no, (1 - no) / (1 - yes)))

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless values are 0 and 1."""
        population.require_bins(2)

    def truth(self, counts: Any, inputs: Tree = None) -> np.ndarray:
        """The share of the users who hold 1."""
        del inputs
        return np.asarray(counts[1] / np.sum(counts), np.float64)

    def population_truth(
        self, probabilities: Any, num_users: int, inputs: Tree = None
    ) -> np.ndarray:
        """The probability of the value 1."""
        del num_users, inputs
        return np.asarray(probabilities[1], np.float64)

    def variance(self, counts: Any, inputs: Tree = None) -> np.ndarray:
        """The mean squared error for given users; exact."""
        del inputs
        no, yes = map(float, self.chances())
        total = counts[0] * no * (1 - no) + counts[1] * yes * (1 - yes)
        return np.asarray(total / (np.sum(counts) * (yes - no)) ** 2)


@params
class UnrelatedQuestionParams(Round[Count]):
    """What a user of `UnrelatedQuestion` runs, and what the analyst makes of the counted answers.

    Attributes:
      thresholds: uint32[2], words below which the value is asked for, and below which the answer to
        the other question is 1.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    thresholds: jax.Array | np.ndarray
    word_bits: int = static(default=32)

    @property
    def num_words(self) -> int:
        """One for the question, one for the answer to the other one."""
        return 2

    def from_bits(self, words: Words, value: jax.Array, /) -> jax.Array:
        """One user's answer, 0 or 1; values out of the domain are moved into it."""
        innocent = (words[1] < self.thresholds[1]).astype(jnp.int32)
        return jnp.where(words[0] < self.thresholds[0], jnp.clip(value, 0, 1), innocent)

    def tally(self, reports: jax.Array, mask: jax.Array | None = None, /) -> Count:
        """The number of each answer, Count[2]."""
        return histogram(reports, 2, mask)

    def _chances(self) -> jax.Array:
        """The probabilities of 1 from users who hold 0 and 1, float64[2]; only in 64-bit mode."""
        asked, innocent = jnp.asarray(self.thresholds).astype(jnp.float64) / 2.0**self.word_bits
        return jnp.stack([(1 - asked) * innocent, (1 - asked) * innocent + asked])

    def estimate(self, outcome: Count, /) -> jax.Array:
        """The unbiased share of the users who hold 1."""
        default = jnp.result_type(float)  # float32, unless the caller's program is in float64
        with jax.enable_x64(True):
            no, yes = self._chances()
            share = outcome[1].f64() / outcome.sum().f64()
            return ((share - no) / (yes - no)).astype(default)

    @property
    def law(self) -> TallyLaw[Count]:
        """Draws the tally at once: a binomial for each value."""

        def draw(key: jax.Array, counts: Count, inputs: Tree) -> Count:
            del inputs  # values are bins
            with jax.enable_x64(True):
                ones = binomial(jax.random.fold_in(key, 0), counts, self._chances()).sum()
            return jax.tree.map(lambda *limbs: jnp.stack(limbs), counts.sum() - ones, ones)

        return TallyLaw(draw, lambda work: work.draws(2))


@spec
class TwoRoundCollision(Spec["TwoRoundCollisionParams"]):
    """The share of pairs of different users who agree, in two rounds.

    Randomized response estimates the histogram h in the first round. The estimate z is broadcast,
    and in the second round a user of value v reports the number z_v, by a randomizer of one bit.
    The mean of these numbers is `sum_v h_v z_v`, which is `sum_v h_v**2` in the mean; the estimate
    is what follows for different users. Each round has half of epsilon, and the bound of the second
    is as large as z_v can be.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, by composition.
      * Bias: none but for rounding in the second round, about 2**-24.
      * Variance: exact, `(n / (n - 1))**2 (h^T S h + (B**2 - sum_v h_v E[z_v**2]) / n)`, S the
        covariance of z and B what a bit stands for.

    Args:
      num_values: k, from 2 to 4096.
      epsilon: privacy parameter of both rounds together, > 0.
    """

    num_values: int = field(checks.Integer(2, 4096))
    epsilon: float = field(checks.Epsilon())

    def validate(self) -> None:
        """Raises ValueError where a word cannot realise half of epsilon."""
        self.bit.build()

    @property
    def oracle(self) -> KRR:
        """What users run in the first round."""
        return KRR(self.num_values, self.epsilon / 2)

    @property
    def bit(self) -> BinaryResponse:
        """What users run in the second round."""
        p, q = self.oracle.probabilities()
        return BinaryResponse(self.epsilon / 2, bound=float((1 - q) / (p - q)))

    def build(self, word_bits: int = 32) -> "TwoRoundCollisionParams":
        """What users and the analyst run."""
        rounds = self.oracle.build(word_bits), self.bit.build(word_bits)
        return TwoRoundCollisionParams(*rounds, self.num_values)

    def exact_epsilon(self) -> float:
        """The sum of what the rounds realise."""
        return self.oracle.exact_epsilon() + self.bit.exact_epsilon()

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless values are bins, of at least two users."""
        population.require_bins(self.num_values)
        if population.num_users < 2:
            raise ValueError(f"the population must have a pair, got {population.num_users} users.")

    def truth(self, counts: Any, inputs: Tree = None) -> np.ndarray:
        """The share of pairs of different users who agree."""
        del inputs
        counts = np.asarray(counts, np.float64)
        return np.asarray((counts @ counts - counts.sum()) / (counts.sum() * (counts.sum() - 1)))

    def population_truth(
        self, probabilities: Any, num_users: int, inputs: Tree = None
    ) -> np.ndarray:
        """The probability that two users agree."""
        del num_users, inputs
        return np.asarray(np.square(probabilities).sum(), np.float64)

    def variance(self, counts: Any, inputs: Tree = None) -> np.ndarray:
        """The mean squared error for given users; exact."""
        del inputs
        n = np.sum(counts)
        h = np.asarray(counts) / n
        spread = self.oracle.variance(counts) / n**2  # of each z_v
        first = (self.oracle.query_variances(h[None]) @ h)[0] / n  # of sum_v h_v z_v
        second = (self.bit.magnitude**2 - h @ (h**2 + spread)) / n
        return np.asarray((n / (n - 1)) ** 2 * (first + second))


@params
class TwoRoundCollisionParams(Interactive[dict[str, Count]]):
    """What users of `TwoRoundCollision` and the analyst run.

    Attributes:
      oracle: the first round.
      bit: what users of the second round do with their number.
      num_values: k, static.
    """

    oracle: Round[Count]
    bit: MeanRound
    num_values: int = static()

    def rounds(self, work: Work) -> Sequence[Step]:
        """Everybody answers twice; the cost of the second round depends on no broadcast."""
        anything = jnp.zeros(self.num_values, jnp.float32)
        return Step(self.oracle, work), Step(LookupRound(self.bit, anything), work)

    def play(self, key: jax.Array, users: Population, collect: Collect) -> dict[str, Count]:
        """One trial: the tally of the second round, which depends on the first."""
        del key  # nothing is drawn but by users
        counts = self.oracle.estimate(collect(self.oracle, users, 0))
        shares = (counts / jnp.sum(counts)).astype(jnp.float32)  # estimated counts add up to n
        return collect(LookupRound(self.bit, shares), users, 1)

    def estimate(self, outcome: dict[str, Count], /) -> jax.Array:
        """The unbiased share of pairs of different users who agree."""
        default = jnp.result_type(float)  # float32, unless the caller's program is in float64
        with jax.enable_x64(True):
            n = outcome["users"].f64()
            return ((n * self.bit.estimate(outcome) - 1) / (n - 1)).astype(default)


@params
class LookupRound(Through[dict[str, Count]]):
    """Users look their value up in a table, and run an inner round on the number they find.

    Attributes:
      inner: what they run.
      table: float32[k].
    """

    inner: MeanRound
    table: jax.Array

    @property
    def value(self) -> Tree:
        """A bin, while the inner round takes a number."""
        return jax.ShapeDtypeStruct((), jnp.int32)

    @property
    def report_limits(self) -> tuple[Tree, Tree] | None:
        """Limits of the inner round, which makes the reports."""
        return self.inner.report_limits

    @property
    def draft(self) -> None:
        """None: that of the inner round takes numbers."""
        return None

    def from_bits(self, words: Words, value: jax.Array, /) -> jax.Array:
        """One user's report; values out of the domain are moved into it."""
        return self.inner.from_bits(words, self.table[jnp.clip(value, 0, len(self.table) - 1)])

    @property
    def law(self) -> TallyLaw[dict[str, Count]] | None:
        """The law of the inner round, for users who hold the numbers of the table."""
        inner = self.inner.law
        if inner is None:
            return None

        def draw(key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
            del inputs  # values are bins
            return inner.draw(key, counts, self.table)

        return TallyLaw(draw, inner.cost, distance=inner.distance)

    @property
    def kernels(self) -> Kernels[dict[str, Count]]:
        """None: those of the inner round take numbers."""
        return Kernels()

    def estimate(self, outcome: dict[str, Count], /) -> jax.Array:
        """The mean of the numbers."""
        return self.inner.estimate(outcome)

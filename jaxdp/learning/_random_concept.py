"""The statistical-query baseline: every user answers for one concept, drawn at random."""

from fractions import Fraction
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, UInt8

from .._bits import mul_32x32
from .._checks import Epsilon
from .._contract import Tree, Words, Work, field, params, spec
from .._x64 import compiled_in_float64
from ..random import Count, binomial, merge, multinomial, part_of
from ..randomizers import KRR, Tail
from ..randomizers._params import DrawnCountsRound
from ._examples import CONCEPTS
from ._learner import Learner


@spec
class RandomConcept(Learner):
    """Losses from randomized response, one bit on one random concept from every user.

    A user with the example (x, y) draws a concept c of m, reports it, and reports whether
    `c(x) = y` by randomized response, the truth with probability p. The report s = +-1 counts as
    `1/2 - m s / (2 (2 p - 1))` for the loss of c and as 1/2 for all others. It is how statistical
    queries are answered in the local model; a class of m concepts costs about m / gamma_2(D)**2
    times the users of `AgnosticLearner`.

    One word draws the concept: concept c has the probability `w_c`, a multiple of 2**-32 next to
    1/m, and its inverse replaces the m above.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly, by `KRR(2, epsilon)`.
      * Bias: none.
      * Variance, exact and the same for all data sets: `(1/(w_c (2 p - 1)**2) - 1) / (4 n)` for the
        loss of concept c.
      * Learning: as of every `Learner`, by Bernstein's inequality.

    Edge cases:
      ==========================  ===============================================================
      no report on a concept      its estimated loss is 1/2
      concepts with 0/1 entries   ValueError: map them by 2 c - 1
      ==========================  ===============================================================

    Args:
      concepts: float[m, k] of +1 and -1, m <= 2**24.
      epsilon: privacy parameter, > 0.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a matrix or a number, or is traced.

    Example:
      >>> import jaxdp
      >>> from jaxdp.learning import AgnosticLearner, RandomConcept
      >>> concepts = jaxdp.workloads.thresholds(64)
      >>> learners = [RandomConcept(concepts, epsilon=1.0), AgnosticLearner(concepts, epsilon=1.0)]
      >>> [round(learner.worst_case_variance(num_users=10_000), 4) for learner in learners]
      [0.0075, 0.0021]

    References:
      Kasiviswanathan, Lee, Nissim, Raskhodnikova, Smith (2011), What can we learn privately?,
      Section 5.
    """

    concepts: Any = field(CONCEPTS)  # stored as a FrozenArray
    epsilon: float = field(Epsilon())

    def validate(self) -> None:
        """Raises ValueError where words cannot realise epsilon, or draw so many concepts."""
        if len(self.concepts.values) > 2**24:
            raise ValueError(
                f"concepts must be at most 2**24 for one word to draw them, got "
                f"{len(self.concepts.values)}."
            )
        self.bit.validate()

    @property
    def bit(self) -> KRR:
        """The randomized response on whether the concept is right."""
        return KRR(2, self.epsilon)

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, rounded up; at most `epsilon`."""
        return self.bit.exact_epsilon(word_bits)

    def build(self, word_bits: int = 32) -> "RandomConceptParams":
        """The params; `word_bits=8` makes a twin whose pairs of words can be enumerated."""
        answers = np.concatenate([self.concepts.values, -self.concepts.values], axis=1)
        return RandomConceptParams((answers.T > 0).astype(np.uint8), self.bit.build(word_bits))

    def channel(self, word_bits: int = 32) -> list[list[Fraction]]:
        """The exact `Pr[report | example]` as Fractions, row a value, column 2 c + (s > 0)."""
        p, q = self.bit.probabilities(word_bits)
        params = self.build(word_bits)
        shares = [Fraction(int(w), 2**word_bits) for w in _shares(self.num_queries, word_bits)]
        return [
            [
                w * (p if right == s else q)
                for w, right in zip(shares, row, strict=True)
                for s in (0, 1)
            ]
            for row in np.asarray(params.right)
        ]

    def contributions(self) -> tuple[Float[np.ndarray, "m k"], Float[np.ndarray, "m k"]]:
        p, q = self.bit.probabilities()
        square = 2.0**32 / _shares(self.num_queries, 32) / float((p - q) ** 2)  # of 1 - 2 loss
        variance = np.broadcast_to(((square - 1) / 4)[:, None], self.workload.values.shape)
        return self.workload.values, variance

    def tail(self) -> Tail:
        """By Bernstein: the second moment of a contribution about 1/2, and a third of its range."""
        p, q = self.bit.probabilities()
        most = 2.0**32 / float(_shares(self.num_queries, 32).min())
        # A contribution is 1/2 -+ 1 / (2 w_c (2 p - 1)) with probability w_c, and else 1/2.
        largest = most / float(p - q) / 2
        return Tail(most / float((p - q) ** 2) / 4, (largest + 0.5) / 3)


def _shares(num_concepts: int, word_bits: int) -> Float[np.ndarray, " m"]:
    """How many words draw each concept c: those with floor(word m / 2**bits) = c."""
    space = 1 << word_bits
    # The first word of each concept: ceil(c 2**bits / m)
    edges = -(-np.arange(num_concepts + 1, dtype=np.int64) * space // num_concepts)
    return np.diff(edges).astype(np.float64)


@params
class RandomConceptParams(DrawnCountsRound):
    """The params of `RandomConcept`: a pytree.

    Attributes:
      right: uint8[2 k, m], whether each concept is right on each example.
      bit: the params of `KRR(2, epsilon)`, which randomizes the response.
    """

    right: UInt8[Array | np.ndarray, "k m"]
    bit: Any

    independent_stream: ClassVar[int] = 3

    @property
    def num_bins(self) -> int:
        """The bins of the domain."""
        return self.right.shape[-2]

    @property
    def num_words(self) -> int:
        """One word for the concept and one for the response."""
        return 2

    @property
    def num_concepts(self) -> int:
        """Number of concepts, m."""
        return self.right.shape[-1]

    @property
    def num_reports(self) -> int:
        """Number of distinct reports, 2 m."""
        return 2 * self.num_concepts

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> Int32[Array, ""]:
        """One user's report in [0, 2 m): twice the concept, plus 1 if it is said to be right.

        A value outside the domain is clamped into it.
        """
        word = words[0] << np.uint32(32 - self.bit.word_bits)
        high, _ = mul_32x32(word, jnp.uint32(self.num_concepts))  # floor(word m / 2**32)
        concept = high.astype(jnp.int32)
        value = jnp.clip(value.astype(jnp.int32), 0, self.right.shape[-2] - 1)
        right = jnp.asarray(self.right)[value, concept].astype(jnp.int32)
        return 2 * concept + self.bit.from_bits(part_of(words, 1, 1), right)

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> Float[Array, " m"]:
        """Unbiased losses, from the number of each report."""
        p, q = self.bit.probabilities()
        reports = outcome.f64().reshape(-1, 2)  # by concept, and whether it is said to be right
        excess = (reports[:, 1] - reports[:, 0]) / (p - q) / self._share()
        return 0.5 - excess / (2 * jnp.sum(reports))

    def _share(self) -> Float[Array, " m"]:
        """The probability of each concept; inside an x64 block."""
        bits = self.bit.word_bits
        return jnp.asarray(_shares(self.num_concepts, bits)) / 2.0**bits

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> Count:
        """With probability 2 q a user's bit is a coin, otherwise it is the truth.

        Coins say nothing of the examples; the others split over the concepts, one multinomial for
        each kind of example.
        """
        del inputs
        p, q = self.bit.probabilities()
        share = self._share()
        honest = binomial(jax.random.fold_in(key, 0), counts, p - q)
        coins = counts.sum() - honest.sum()
        # A coin shows either side of every concept with the same probability.
        random = multinomial(jax.random.fold_in(key, 1), coins, jnp.repeat(share, 2))
        drawn = multinomial(jax.random.fold_in(key, 2), honest, share).f64()
        right = jnp.asarray(self.right).astype(jnp.float64)
        true = jnp.stack([jnp.sum(drawn * (1 - right), axis=0), jnp.sum(drawn * right, axis=0)])
        return merge(random, Count.from_float(true.T.reshape(-1)))

    def report_law(self, law: Float[Array, " k"]) -> Float[Array, " reports"]:
        p, q = self.bit.probabilities()
        right = jnp.sum(jnp.asarray(self.right).astype(jnp.float64) * law[:, None], axis=0)
        says = q + (p - q) * right
        cells = jnp.stack([1 - says, says], axis=1) * self._share()[:, None]
        return cells.reshape(-1)

    def _cost(self, work: Work) -> float:
        # A binomial for each concept and example.
        return work.draws((work.num_bins + 2.0) * self.num_concepts)

"""Agnostic learning by the local approximate factorization mechanism."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from .._checks import Epsilon, Optional, Real
from .._contract import field, spec
from ..linear import AnswerRound, FactorizedQueries
from ..population import Population
from ..randomizers import MeanRandomizer, PrivUnitG, Tail
from ._examples import CONCEPTS, loss_matrix
from ._learner import Learner


@spec
class AgnosticLearner(Learner):
    """Estimates the losses of all concepts from one private report of every user.

    The loss of a concept is `1/2 - E[c(x) y] / 2`. With a factorization `D ~ L^T R` of the concept
    matrix, a user with the example (x, y) sends a randomized `y R_x`, and the losses are
    `1/2 - L^T (mean of reports) / 2`. The best factors are those of gamma_2(D), or of
    gamma_2(D; alpha) where a bias of alpha / 2 is worth it.

    Formal guarantees:
      * Privacy: the randomizer's, pure epsilon-LDP for `PrivUnitG`.
      * Bias: none for alpha = 0; at most `bias` otherwise.
      * Mean squared errors of the losses: exact in `variance` and the other predictions.
      * Learning: `deviation`, `excess_risk_bound` and `min_users` are proven, with
        `v = gamma_2(D)**2 K sigma**2 / 4 + 1/4` for `PrivUnitG`: sigma**2 is the variance of its
        reports, K how much heavier than normal their tails are, 1.17 at epsilon = 1, and 1/4 is for
        the draw of the users. So `2 ln(2 m / beta) v / min(alpha / 2, beta)**2` users are enough.

    Edge cases:
      ==========================  ===============================================================
      concepts with 0/1 entries   ValueError: map them by 2 c - 1
      examples                    values in [0, 2 k): `labelled` and `labelled_histogram` make them
      one concept                 is selected, with its estimated loss
      ==========================  ===============================================================

    Args:
      concepts: float[m, k] of +1 and -1, such as `workloads.thresholds(k)`; a row for each concept.
      epsilon: privacy parameter.
      num_users: n that the tolerance is chosen for; None for no bias.
      tolerance: how much entries of D may be off, instead of num_users; None for 0.
      factorization: a `Factorization` of D, or (left, right), instead of computing one.
      randomizer: makes the spec of a randomizer of vectors in a ball from the keywords dim, epsilon
        and radius, such as `PrivUnitG`, `PrivUnit` or `L2Ball`.

    Raises:
      ValueError: an argument is out of range, or a factorization is not one of the concepts.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jax, jaxdp, numpy as np
      >>> from jaxdp.learning import AgnosticLearner
      >>> learner = AgnosticLearner(jaxdp.workloads.thresholds(8), epsilon=2.0)
      >>> below = np.arange(8) <= 4  # labels follow the threshold 4, a tenth of them wrong
      >>> right, wrong = np.where(below, 9000, 1000), np.where(below, 1000, 9000)
      >>> users = learner.labelled_histogram(right, wrong)
      >>> pop = jaxdp.Population.from_histogram(users)
      >>> losses = jaxdp.run(learner, pop, jax.random.key(0))
      >>> print(learner.select(losses), round(learner.truth(users)[4], 3))
      4 0.1
      >>> learner.min_users(alpha=0.1, beta=0.1)
      12705

    References:
      Edmonds, Nikolov, Ullman (2020), The power of factorization mechanisms in local and central
      differential privacy, Section 4, Theorem 24.
    """

    concepts: Any = field(CONCEPTS)  # stored as a FrozenArray
    epsilon: float = field(Epsilon())
    num_users: int | None = None
    tolerance: float | None = field(Optional(Real(0.0, closed=True)), default=None)
    factorization: Any = None  # stored as a tuple of three FrozenArrays
    randomizer: Callable[..., MeanRandomizer] = PrivUnitG

    def validate(self) -> None:
        """Raises unless the arguments suit `FactorizedQueries`; stores them as it does."""
        if self.tolerance is not None and self.num_users is not None:
            raise ValueError(
                f"tolerance must be None where num_users is given, got {self.tolerance!r}: "
                "the best one for that many users is chosen."
            )
        queries = self._correlations()
        self.settle(
            num_users=queries.num_users,
            factorization=queries.factorization,
            tolerance=queries.alpha,
        )

    def _correlations(self) -> FactorizedQueries:
        """The queries E[c(x)] on unlabelled points, which have the factors that are wanted."""
        return FactorizedQueries(
            self.concepts,
            self.epsilon,
            num_users=self.num_users,
            alpha=self.tolerance,
            factorization=self.factorization,
            randomizer=self.randomizer,
            shift=False,
        )

    @property
    def queries(self) -> FactorizedQueries:
        """The losses as factorized linear queries on labelled examples."""
        return _queries(self)

    @property
    def bias(self) -> float:
        return self.queries.bias if self.tolerance or self.num_users is not None else 0.0

    def build(self, word_bits: int = 32) -> AnswerRound:
        """The params of `queries`."""
        return self.queries.build(word_bits)

    def exact_epsilon(self) -> float:
        """The realised privacy parameter of the randomizer."""
        return self.queries.exact_epsilon()

    def exact_delta(self) -> float:
        """The smallest delta at which `exact_epsilon()` holds; 0 of a pure randomizer."""
        return self.queries.exact_delta()

    def contributions(self) -> tuple[Float[np.ndarray, "m k"], Float[np.ndarray, "m k"]]:
        return self.queries.contributions()

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are labelled examples, and few enough to be added."""
        Learner.check_population(self, population)
        self.queries.check_population(population)

    def tail(self) -> Tail:
        """The report's tail in the direction of the concept's decoder, and the user's draw.

        Raises:
          ValueError: it is not known of the randomizer.
        """
        encoding = self.queries.encoding()
        report = encoding.randomizer.tail()
        if report is None:
            raise ValueError(
                "randomizer must be one with a known tail, such as PrivUnitG, PrivUnit or L2Ball, "
                f"for a proven guarantee, got {type(encoding.randomizer).__name__}."
            )
        assert encoding.decoder is not None
        size = float(np.linalg.norm(encoding.decoder, axis=1).max())
        mean, _ = self.contributions()
        span = float(np.ptp(mean, axis=1).max())  # Hoeffding's lemma for the draw: span**2 / 4
        # Independent noises: variances add up. The draw is bounded, so it has no scale.
        return Tail(report.variance * size**2 + span**2 / 4, report.scale * size)


@functools.lru_cache(maxsize=64)
def _queries(learner: AgnosticLearner) -> FactorizedQueries:
    # 1/2 - E[c(x) y] / 2: the factors of D, with both labels of each point, halved and negated
    left, right, _ = learner._correlations().factors()
    workload = loss_matrix(learner.concepts)
    factors = (-left / 2, np.concatenate([right, -right], axis=1), np.full(len(left.T), 0.5))
    product = factors[0].T @ factors[1] + 0.5
    return FactorizedQueries(
        workload,
        learner.epsilon,
        alpha=float(np.abs(product - workload.values).max()),
        factorization=factors,
        randomizer=learner.randomizer,
    )

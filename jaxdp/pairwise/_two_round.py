"""Statistics of pairs from linear queries, in two rounds."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .._queries import LinearProtocol
from .._spec import check_choice
from ..linear import FactorizedQueries
from ._exact import Form
from ._rounds import check_groups, check_scalar, check_shares, group_sizes, scalar_randomizer
from ._rounds_protocol import RoundsProtocol, require_linear
from ._two_round_errors import Model
from ._two_round_params import TwoRoundParams


@dataclasses.dataclass(frozen=True, slots=True)
class TwoRound(RoundsProtocol):
    """Two rounds: the answers to the linear queries W, and then every user's own answer.

    The first round estimates `z = W h`, a query for each value, by any protocol for linear queries.
    All are told z, and in the second round users answer with a randomized number, f(v) = z_v; the
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

    Formal guarantees:
      * Privacy: users who answer once have the full epsilon; those who answer twice the sum of the
        two that are realised.
      * Bias: none if the queries' answers have none, but for clipping where `tau` is given, the
        rounding of numbers to 24 bits and, with "users", for groups of fewer than two users, whose
        probability is at most 1e-9.
      * Variance, for `tau` given, unbiased queries on vectors with a covariance `a I + b x x^T`,
        and but for what clipping takes: exact. With "budget", `PrivUnitG` and Laplace noise it is
        `s**2 C**2 |R h|**2 / n + 8 tau**2 / (eps_2**2 n)`, s**2 C**2 the variance of an entry of a
        report. Otherwise a proven bound, which for other queries takes the largest error of an
        answer, and with `tau=None` is tight as the groups grow.

    Edge cases:
      ==================================  ====================================================
      kernel of several averages          ValueError
      fewer users than groups need        ValueError with the number ("users")
      `tau` below the answers             clipped, biased; `variance` bounds the effect
      ==================================  ====================================================

    Args:
      kernel: the statistic, or a matrix W.
      epsilon: privacy parameter.
      num_values: as in `PairwiseProtocol`.
      form: "u" or "v".
      queries: makes the `LinearProtocol` of the first round from W and its epsilon.
      sharing: "users" or "budget", what the rounds share.
      share: that of the first round, between 0 and 1.
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

    kernel: Any
    epsilon: float
    num_values: int | tuple[int, ...] | None = None
    form: Form = "u"
    queries: Callable[..., LinearProtocol] = FactorizedQueries
    sharing: str = "users"
    share: float = 0.5
    scalar: str = "bit"
    tau: float | None = None

    def __post_init__(self):
        self._check_statistic()
        require_linear(self)
        check_choice("sharing", self.sharing, ("users", "budget"))
        check_shares("share", self.shares, 2)
        object.__setattr__(self, "tau", check_scalar(self.scalar, self.tau))
        scalar_randomizer(self.scalar, self.epsilon)
        if not callable(self.queries):
            raise TypeError(
                f"queries must be a callable such as FactorizedQueries, got {self.queries!r}."
            )
        protocol = self.protocol
        if not isinstance(protocol, LinearProtocol) or protocol.num_queries != self.num_bins:
            raise TypeError(
                f"queries must make a LinearProtocol with a query for each of the {self.num_bins} "
                f"values, got {type(protocol).__name__}."
            )

    @property
    def shares(self) -> tuple[float, float]:
        """Those of the two rounds."""
        return (self.share, 1 - self.share)

    @property
    def groups(self) -> tuple[float, float] | None:
        """The shares of the users in the two rounds; None where all answer in both."""
        return self.shares if self.sharing == "users" else None

    @property
    def protocol(self) -> LinearProtocol:
        """The protocol of the first round."""
        epsilon = self.epsilon * (self.share if self.sharing == "budget" else 1.0)
        return self.queries(self.matrices()[0], epsilon)

    @property
    def scalar_randomizer(self):
        """What users of the second round run on their number, scaled to [-1, 1]."""
        epsilon = self.epsilon * (1 - self.share if self.sharing == "budget" else 1.0)
        return scalar_randomizer(self.scalar, epsilon)

    def build(self, word_bits: int = 32) -> "TwoRoundParams":
        """The params."""
        queries = self.protocol.build(word_bits)
        if hasattr(queries, "play"):
            raise TypeError("queries must make a non-interactive protocol.")
        return TwoRoundParams(
            queries,
            self.scalar_randomizer.build(word_bits),
            np.diagonal(self.matrices()[0]).copy(),
            None if self.tau is None else np.asarray(self.tau, np.float32),
            self.share if self.sharing == "users" else None,
            self.form,
        )

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: the sum of the rounds'; for "users" the larger."""
        both = self.protocol.exact_epsilon(), self.scalar_randomizer.exact_epsilon()
        return max(both) if self.sharing == "users" else sum(both)

    def check_population(self, population) -> None:
        """Raises unless values are bins and the groups have enough users."""
        super(TwoRound, self).check_population(population)
        if self.sharing == "users":
            check_groups(population.num_users, self.shares)
        self.protocol.check_population(population)

    def _error(self, users: np.ndarray | None, num_users: int, drawn: bool) -> np.ndarray:
        n = float(num_users)
        if num_users < 4:
            raise ValueError(f"num_users must be at least 4 for a prediction, got {num_users}.")
        sizes, weights = np.full((2, 1), n), np.ones(1)
        if self.sharing == "users":
            check_groups(num_users, self.shares)
            sizes, weights = group_sizes(num_users, self.shares)
        model = Model(self, users, n, drawn)
        split, noise = weights @ model.split(sizes), weights @ model.noise(sizes)
        found = (np.sqrt(split) + np.sqrt(noise)) ** 2 if model.biased else split + noise
        found += weights @ (model.scalar(sizes) / sizes[1])
        if self.tau is not None:
            second, excess = (weights @ x for x in model.clipping(sizes))
            found = (np.sqrt(found + weights @ (excess / sizes[1])) + np.sqrt(second)) ** 2
        if model.biased and users is not None and not drawn:
            found = min(found, self._error(None, num_users, drawn=False))
        return np.asarray(found)

"""Linear queries out of a protocol for statistics of pairs."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._queries import LinearProtocol
from .._spec import check_int
from ..population import HistogramSource, Population
from ..random import Count, merge
from ._protocol import PairwiseProtocol
from ._quantized_rr import QuantizedRR


@dataclasses.dataclass(frozen=True, slots=True)
class QueriesFromPairs(LinearProtocol):
    """The linear queries W from a non-interactive protocol for the statistic of pairs with W.

    n users send their reports. For each value j the analyst makes up n users who hold j, simulates
    their reports and lets the protocol estimate the statistic z_j of all 2 n users, and from the
    users' own reports that of those, z. In the V-form

        `(W h)_j = 2 z_j - z / 2 - W_jj / 2`,

    since `h_(x + y)` is the mean of h and of the indicator of j. In the U-form it is `((2 n - 1)
    z_j - (n - 1) (z + W_jj) / 2) / n`.

    It proves that statistics of pairs are no easier than linear queries, whose errors have lower
    bounds. As a protocol for linear queries it is a poor one.

    Formal guarantees:
      * Privacy: `num_reports` times that of the protocol; the made-up users are nobody's.
      * Bias: none, as the kernel is linear, where the protocol has none.
      * Mean squared error: at most `(2 sqrt(a_2n) + sqrt(a_n) / 2)**2` in the V-form, a_m the
        largest of the protocol for m users; the theorem with its constant.
      * `variance(counts)`: with two reports of each user, `4 v_j + v / 4` in the V-form, v_j and v
        being the protocol's own predictions: exact where these are, and the protocol is unbiased.
        With one report a proven bound, the two errors being dependent.
      * `population_variance`, `worst_case_variance`, `worst_case_total_variance`: proven bounds.

    Edge cases:
      ==============================  ====================================================
      interactive protocol            TypeError: a later round would depend on made-up users
      `QuantizedRR`                   TypeError: on bins use `OracleStatistic` with `KRR`
      kernel that is not linear       ValueError
      one user, protocol in U-form    ValueError from a Population
      ==============================  ====================================================

    Args:
      protocol: the spec of a non-interactive pairwise protocol on bins, such as `OneReport`.
      num_reports: 2 for another report of each user for each of the two estimates, as in the
        theorem; 1 to use one report for both, at half the privacy parameter.

    Raises:
      ValueError, TypeError: see above.

    Example:
      >>> import jax, jaxdp, numpy as np
      >>> from jaxdp.pairwise import GiniDiversity, OracleStatistic, QueriesFromPairs
      >>> oracle = jaxdp.randomizers.KRR(3, epsilon=2.0)
      >>> queries = QueriesFromPairs(OracleStatistic(GiniDiversity(), oracle))
      >>> users = jaxdp.Population.from_histogram([60_000, 30_000, 10_000])
      >>> answers = jaxdp.run(queries, users, jax.random.key(0))  # the shares of other values
      >>> bool(np.abs(answers - [0.4, 0.7, 0.9]).max() < 0.06)
      True

    References:
      Ghazi et al. (2023), Theorem 14.
    """

    protocol: Any
    num_reports: int = 2

    def __post_init__(self):
        protocol = self.protocol
        if isinstance(protocol, QuantizedRR):
            raise TypeError(
                f"protocol must be a pairwise protocol on bins, got {protocol!r}; use the same one "
                "by the name of OracleStatistic(kernel, KRR(num_values, epsilon))."
            )
        if not isinstance(protocol, PairwiseProtocol) or hasattr(protocol.build(), "play"):
            raise TypeError(
                "protocol must be the spec of a non-interactive pairwise protocol on bins, such as "
                f"OneReport, got {protocol!r}."
            )
        if not protocol.kernel.is_linear:
            raise ValueError(
                f"protocol must estimate a mean over pairs, but {protocol.kernel!r} is a function "
                "of several; take each of them as a kernel."
            )
        check_int("num_reports", self.num_reports, low=1, high=2)

    @property
    def num_queries(self) -> int:
        return self.protocol.num_bins

    @property
    def num_values(self) -> int:
        return self.protocol.num_bins

    def build(self, word_bits: int = 32) -> "QueriesFromPairsParams":
        """The params."""
        return QueriesFromPairsParams(
            ReportParams(self.protocol.build(word_bits)),
            np.diagonal(self._matrix()).astype(np.float32),
            self.protocol.form,
            self.num_reports,
        )

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: `num_reports` times that of the protocol."""
        return self.num_reports * self.protocol.exact_epsilon()

    def answers(self, histograms: np.ndarray) -> np.ndarray:
        return np.asarray(histograms, np.float64) @ self._matrix()

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error of each answer for given users, float64[k].

        Exact with two reports, where the protocol's own prediction is and it is unbiased; with one
        a bound.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        counts = self.check_histogram(counts, inputs).astype(np.int64)
        n, eye = int(counts.sum()), np.eye(self.num_values, dtype=np.int64)
        joint = np.array([float(self.protocol.variance(counts + n * row)) for row in eye])
        return self._combined(joint, float(self.protocol.variance(counts)), n)

    def population_variance(self, probabilities, num_users: int) -> np.ndarray:
        """A bound on the mean squared error about `W p` for independent users, float64[k].

        The worst case for given users, and the variance of the answer among samples.
        """
        p = self.check_distribution(probabilities)
        w = self._matrix()
        return self.worst_case_variance(num_users) + (w**2 @ p - (w @ p) ** 2) / num_users

    def worst_case_variance(self, num_users: int) -> float:
        """A bound on the mean squared error of an answer over all data sets of a size."""
        n = check_int("num_users", num_users, low=1)
        joint, own = (self.protocol.worst_case_variance(m) for m in (2 * n, n))
        return float(self._combined(np.asarray(joint), own, n))

    def worst_case_total_variance(self, num_users: int) -> float:
        """A bound on the summed mean squared error over all data sets of a size."""
        return self.num_queries * self.worst_case_variance(num_users)

    def check_population(self, population) -> None:
        """Raises ValueError unless the users' values are bins, and enough for a pair."""
        self.protocol.check_population(population)

    def _matrix(self) -> np.ndarray:
        return self.protocol.matrices()[0]

    def _combined(self, joint: np.ndarray, own, num_users: int) -> np.ndarray:
        """The error of the combination, from those of the two estimates."""
        first, second = factors(self.protocol.form, num_users)
        if self.num_reports == 2:
            return first**2 * joint + second**2 * own
        return (first * np.sqrt(joint) + second * np.sqrt(own)) ** 2


def factors(form: str, n):
    """The factors of the statistic of all 2 n users, and of that of the n users and W_jj."""
    if form == "v":
        return 2.0, 0.5
    return 2 - 1 / n, 0.5 - 0.5 / n


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ReportParams:
    """The reports of a protocol's users: a pytree.

    It has no `sample_tally_iid`, which would draw other users for another report.

    Attributes:
      protocol: the params of the protocol.
    """

    protocol: Any

    @property
    def num_words(self) -> int:
        """Those of the protocol."""
        return self.protocol.num_words

    @property
    def lazy_words(self) -> bool:
        """Whether `from_bits` reads words one by one."""
        return getattr(self.protocol, "lazy_words", False)

    @property
    def fixed_bits(self) -> int:
        """The grid of float sums."""
        return getattr(self.protocol, "fixed_bits", 20)

    def from_bits(self, words, value):
        """One user's report; see the protocol's."""
        return self.protocol.from_bits(words, value)

    def tally(self, reports, mask):
        """The protocol's tally of the masked reports."""
        return self.protocol.tally(reports, mask)

    @property
    def sample_tally(self):
        """The protocol's: a tally drawn at once from the users' counts."""
        return self.protocol.sample_tally

    @property
    def tally_cost(self):
        """The protocol's: nanoseconds of `sample_tally`, roughly."""
        return self.protocol.tally_cost


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class QueriesFromPairsParams:
    """The params of `QueriesFromPairs`: a pytree.

    Attributes:
      reports: the reports of users, real and made up.
      diagonal: float32[k], that of W.
      form: of the protocol, static.
      num_reports: of a user, static.
    """

    reports: ReportParams
    diagonal: jax.Array | np.ndarray
    form: str = dataclasses.field(metadata={"static": True})
    num_reports: int = dataclasses.field(metadata={"static": True})

    @property
    def num_words(self) -> int:
        """Those of a report."""
        return self.reports.num_words

    def from_bits(self, words, value):
        """One report of a user, who sends `num_reports`; see the protocol's."""
        return self.reports.from_bits(words, value)

    @property
    def sample_tally(self):
        """That of the reports, once for the users and once for each value."""
        return self.reports.sample_tally

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds that drawing the tallies takes, roughly."""
        k = self.diagonal.shape[0]
        return (k + self.num_reports) * self.reports.tally_cost(num_users, num_bins)

    def play(self, key, population: Population, collect):
        """Collects the reports of the users, makes up others, and combines the estimates.

        Args:
          key: the trial's key; unused, since `collect` has it.
          population: the users.
          collect: runs a round; see `jaxdp.engine`.

        Returns:
          The answers, float[k].
        """
        del key
        size, k = population.size, self.diagonal.shape[0]
        joined = collect(self.reports, population, 0)
        alone = collect(self.reports, population, 1) if self.num_reports == 2 else joined
        own = self.reports.protocol.estimate(alone)
        first, second = factors(self.form, size.f32().astype(own.dtype))

        def answer(inputs):
            value, diagonal = inputs
            made_up = collect(self.reports, Population(same_users(size, value, k)), 2 + value)
            both = self.reports.protocol.estimate(merge(joined, made_up))
            return first * both - second * (own + diagonal.astype(own.dtype))

        values = jnp.arange(k, dtype=jnp.int32)
        return lax.map(answer, (values, jnp.asarray(self.diagonal)))


def same_users(size: Count, value, num_values: int) -> HistogramSource:
    """As many users who all hold one value, which may be traced."""
    bins = jnp.arange(num_values, dtype=jnp.int32)

    def where(mask):
        return jax.tree.map(lambda limb: jnp.where(mask, limb, jnp.zeros_like(limb)), size)

    return HistogramSource(where(bins == value), where(bins >= value), size)

"""Linear queries out of a protocol for statistics of pairs."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from ..._checks import By, Integer
from ..._contract import (
    Collect,
    Interactive,
    Round,
    Sent,
    Step,
    TallyLaw,
    Through,
    Tree,
    Work,
    field,
    params,
    spec,
    static,
)
from ..._prediction import Kind, Prediction
from ..._queries import LinearProtocol
from ..._spec import check_int
from ...population import HistogramSource, Population
from ...random import Count, merge
from .._protocol import PairwiseProtocol, is_one_round
from ..kernels._exact import Form
from ._quantized_rr import QuantizedRR


def _protocol(name: str, value: object) -> PairwiseProtocol[Any]:
    if isinstance(value, QuantizedRR):
        raise TypeError(
            f"{name} must be a pairwise protocol on bins, got {value!r}; use the same one by the "
            "name of OracleStatistic(kernel, KRR(num_values, epsilon))."
        )
    if not isinstance(value, PairwiseProtocol) or not is_one_round(value.build()):
        raise TypeError(
            f"{name} must be the spec of a non-interactive pairwise protocol on bins, such as "
            f"OneReport, got {value!r}."
        )
    if len(value.kernels) > 1 or not all(kernel.is_linear for kernel in value.kernels):
        raise ValueError(
            f"{name} must estimate a mean over pairs, but {value.kernel!r} is a function of "
            "several; take each of them as a kernel."
        )
    return value


N = TypeVar("N", float, jax.Array)


@spec
class QueriesFromPairs(LinearProtocol["QueriesFromPairsParams"]):
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
      * Privacy: `num_reports` times the protocol's; nobody is behind the made-up users.
      * Bias: none, as the kernel is linear, where the protocol has none.
      * Mean squared error: at most `(2 sqrt(a_2n) + sqrt(a_n) / 2)**2` in the V-form, a_m the
        largest of the protocol for m users; the theorem with its constant.
      * `variance(counts)`: with two reports of each user, `4 v_j + v / 4` in the V-form, v_j and v
        being the protocol's predictions: exact where these are, and the protocol is unbiased.
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

    protocol: PairwiseProtocol[Any] = field(By(_protocol, (3, "none", None)))
    num_reports: int = field(Integer(1, 2), default=2)

    @property
    def num_queries(self) -> int:
        """k, a query for each value."""
        return self.protocol.num_bins

    @property
    def num_values(self) -> int:
        """k, the number of bins of the protocol."""
        return self.protocol.num_bins

    def build(self, word_bits: int = 32) -> "QueriesFromPairsParams":
        """Builds the params, which users and the analyst run."""
        return QueriesFromPairsParams(
            ReportParams(self.protocol.build(word_bits)),
            np.diagonal(self.matrix()).astype(np.float32),
            self.protocol.form,
            self.num_reports,
        )

    @property
    def sent(self) -> tuple[Sent, ...]:
        """`num_reports` reports of each user."""
        return (Sent(self.protocol, times=self.num_reports),)

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: `num_reports` times that of the protocol."""
        return self.num_reports * self.protocol.exact_epsilon()

    def matrix(self) -> Float[np.ndarray, "k k"]:
        """W, the kernel on the bins."""
        return self.protocol.matrices()[0]

    def answers(self, histograms: Float[np.ndarray, "*n k"]) -> Float[np.ndarray, "*n k"]:
        """`W h` for each histogram."""
        return np.asarray(histograms, np.float64) @ self.matrix()

    @property
    def variance_kind(self) -> Kind:
        """With two reports that of the protocol, with one a bound."""
        return self.protocol.variance_kind if self.num_reports == 2 else "bound"

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, " k"]:
        """The mean squared error of each answer for given users.

        Exact with two reports, where the protocol's prediction is and it is unbiased; with one a
        bound.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        counts = self.check_histogram(counts, inputs).astype(np.int64)
        n, eye = int(counts.sum()), np.eye(self.num_values, dtype=np.int64)
        # n users who all hold j beside the given ones, for each j
        joint = np.array([float(self.protocol.variance(counts + n * row)) for row in eye])
        return np.asarray(self._combined(joint, float(self.protocol.variance(counts)), n))

    def population_variance(
        self, probabilities: ArrayLike, num_users: int
    ) -> Float[np.ndarray, " k"]:
        """A bound on the mean squared error about `W p` for independent users.

        The worst case for given users, and the variance of the answer among samples.
        """
        p = self.check_distribution(probabilities)
        w = self.matrix()
        # Given the users the error is at most the worst; W h is off W p by Var W_jX / n.
        return self.worst_case_variance(num_users) + (w**2 @ p - (w @ p) ** 2) / num_users

    def worst_case_variance(self, num_users: int) -> Prediction:
        """A bound on the mean squared error of an answer over all data sets of a size."""
        n = check_int("num_users", num_users, low=1)
        joint, users = (self.protocol.worst_case_variance(m) for m in (2 * n, n))
        return Prediction(float(self._combined(np.asarray(joint), users, n)), "bound")

    def worst_case_total_variance(self, num_users: int) -> Prediction:
        """A bound on the summed mean squared error over all data sets of a size."""
        return Prediction(self.num_queries * self.worst_case_variance(num_users), "bound")

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins, and enough for a pair."""
        self.protocol.check_population(population)

    def _combined(
        self, joint: Float[np.ndarray, "*k"], users: float, num_users: int
    ) -> Float[np.ndarray | np.float64, "*k"]:
        """The error of the combination, from those of the two estimates."""
        first, second = factors(self.protocol.form, num_users)
        if self.num_reports == 2:  # independent errors; else by the inequality of Minkowski
            return first**2 * joint + second**2 * users
        return (first * np.sqrt(joint) + second * np.sqrt(users)) ** 2


def factors(form: Form, n: N) -> tuple[N | float, N | float]:
    """The factors of the statistic of all 2 n users, and of that of the n users and W_jj."""
    # With n users who all hold j beside n given ones, 2 n**2 pairs are mixed, of mean (W h)_j. So
    # 4 n**2 V_2n = n**2 (V_n + W_jj) + 2 n**2 (W h)_j, and
    # 2 n (2 n - 1) U_2n = n (n - 1) (U_n + W_jj) + 2 n**2 (W h)_j.
    if form == "v":
        return 2.0, 0.5
    return 2 - 1 / n, 0.5 - 0.5 / n


@params
class ReportParams(Through[Tree]):
    """The reports of a protocol's users: a pytree.

    Attributes:
      inner: the params of the protocol.
    """

    inner: Round[Any]

    @property
    def law(self) -> TallyLaw[Tree] | None:
        """The protocol's, for given users: independent ones would be others for another report."""
        law = self.inner.law
        return law and TallyLaw(law.draw, law.cost, distance=law.distance)

    def estimate(self, outcome: Tree, /) -> Float[Array, ""]:
        """The protocol's estimate."""
        return self.inner.estimate(outcome)


@params
class QueriesFromPairsParams(Interactive[Array]):
    """The params of `QueriesFromPairs`: a pytree.

    Attributes:
      reports: the reports of users, real and made up.
      diagonal: the diagonal of W.
      form: of the protocol, static.
      num_reports: of a user, static.
    """

    reports: ReportParams
    diagonal: Float[Array | np.ndarray, " k"]
    form: Form = static()
    num_reports: int = static()

    def rounds(self, work: Work) -> tuple[Step, ...]:
        """The reports of the users, and of as many made-up ones for each value."""
        return (Step(self.reports, work, self.diagonal.shape[0] + self.num_reports),)

    def play(self, key: jax.Array, users: Population, collect: Collect) -> Float[Array, " k"]:
        """Collects the reports of the users, makes up others, and combines the estimates."""
        del key
        size, k = users.size, self.diagonal.shape[0]
        joined = collect(self.reports, users, 0)
        alone = collect(self.reports, users, 1) if self.num_reports == 2 else joined
        statistic = self.reports.estimate(alone)
        first, second = factors(self.form, size.f32().astype(statistic.dtype))

        def answer(inputs: tuple[jax.Array, jax.Array]) -> jax.Array:
            value, diagonal = inputs
            made_up = collect(self.reports, Population(same_users(size, value, k)), 2 + value)
            both = self.reports.estimate(merge(joined, made_up))
            return first * both - second * (statistic + diagonal.astype(statistic.dtype))

        values = jnp.arange(k, dtype=jnp.int32)
        return lax.map(answer, (values, jnp.asarray(self.diagonal)))

    def estimate(self, outcome: Float[Array, " k"], /) -> Float[Array, " k"]:
        """The answers themselves."""
        return outcome


def same_users(size: Count, value: jax.Array, num_values: int) -> HistogramSource:
    """As many users who all hold one value, which may be traced."""
    bins = jnp.arange(num_values, dtype=jnp.int32)

    def where(mask: jax.Array) -> Count:
        return jax.tree.map(lambda limb: jnp.where(mask, limb, jnp.zeros_like(limb)), size)

    # The counts, and how many users have at most each value
    return HistogramSource(where(bins == value), where(bins >= value), size)

"""Statistics of triples from the reports of a frequency oracle."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._contract import Round, Through, Tree, field, params, spec
from ..._plausible import plausible_counts
from ..._prediction import Prediction
from ..._queries import ORACLE, num_counted_reports
from ..._spec import check_int
from ..._x64 import as_float64, compiled_in_float64
from ...random import Count
from ...randomizers import FrequencyOracle
from ...randomizers._support import table_noise
from ._tensors import KERNEL
from ._triple_protocol import TripleProtocol, total_variance

_MOST_NUMBERS = 2**22  # of the table of what reports stand for


@spec
class TripleStatistic(TripleProtocol["TripleStatisticParams"]):
    """A U-statistic of triples of users from one report of a frequency oracle each.

    Users hold one of k values, and the statistic is the mean of `T[x_i, x_j, x_l]` over all triples
    of different users. A report r stands for a vector y with mean `e_x`, the indicator of the
    user's value, whose entries sum to 1. T is linear in each of its arguments, and reports are
    independent, so the same mean of `T(y_i, y_j, y_l)` is unbiased. With N the counts of the
    reports, `Y = sum_r N_r y_r` and `M = sum_r N_r y_r y_r^T`, it is

        `(T(Y, Y, Y) - 3 T(M, Y) + 2 sum_r N_r T(y_r, y_r, y_r)) / (n (n - 1) (n - 2))`,

    which leaves out triples of fewer users: O(k**3 + R k**2) steps for R reports, whatever n is. So
    its tally is the oracle's, and has the same exact law.

    Formal guarantees:
      * Privacy: that of the oracle, `oracle.exact_epsilon()`; users send nothing else.
      * Bias: none.
      * `variance(counts)`: exact. With `y_i = e_x + z_i` the estimate is a polynomial in
        independent z of mean 0 and covariance S_x, so its parts of degree 1, 2 and 3 are
        uncorrelated (Hoeffding's decomposition), and their variances add up:
        `9 s / n + 18 t / (n (n - 1)) + 6 u / (n (n - 1) (n - 2))`, where s, t and u are the means
        over users, pairs and triples of the variances of `T(z_i, *, *)`, `T(z_i, z_j, *)` and
        `T(z_i, z_j, z_l)`, a star being the mean over the other users.
      * `worst_case_variance(n)`: a proven bound.

    Edge cases:
      ==================================  ========================================================
      fewer than 3 users                  ValueError
      oracle and kernel do not fit        ValueError that names both sizes
      reports are not counted             ValueError: `SubsetSelection`, `LocalHashing` and others
      value outside the domain            ValueError from a Population; clamped inside jit
      ==================================  ========================================================

    Args:
      kernel: T, float[k, k, k] with k at most 64; one that is not symmetric is averaged over the
        orders of its arguments.
      oracle: a frequency oracle on k values whose reports are counted, such as `KRR`,
        `AffineSubsets` or `HadamardResponse`.

    Raises:
      ValueError: an argument is out of range, or the kernel does not fit the oracle.
      TypeError: `oracle` is not the spec of a frequency oracle.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.pairwise import TripleStatistic, mean_range
      >>> from jaxdp.randomizers import KRR
      >>> statistic = TripleStatistic(mean_range(range(5)), KRR(5, 2.0))
      >>> counts = [30_000, 20_000, 20_000, 10_000, 20_000]
      >>> users = jaxdp.Population.from_histogram(counts)
      >>> estimate = jaxdp.run(statistic, users, jax.random.key(0))
      >>> error = abs(float(estimate) - float(statistic.truth(counts)))
      >>> error < 4 * float(statistic.variance(counts)) ** 0.5
      True

    References:
      Hoeffding (1948), A class of statistics with asymptotically normal distribution; Bell,
      Bellet, Gascón, Kulkarni (2020), Algorithm 1, for pairs.
    """

    kernel: Any = field(KERNEL)
    oracle: FrequencyOracle[Any] = field(ORACLE)

    def validate(self) -> None:
        """Raises ValueError unless the kernel and the oracle have one domain, and reports count."""
        k = self.num_values
        if self.oracle.num_values != k:
            raise ValueError(
                f"kernel is of {k} values, but the oracle has num_values = "
                f"{self.oracle.num_values}; both must name one domain."
            )
        reports = num_counted_reports(self.oracle.built)
        if reports is None or reports * k > _MOST_NUMBERS:
            raise ValueError(
                f"oracle must be one whose reports are counted, at most {_MOST_NUMBERS // k} of "
                f"them for {k} values, such as KRR or HadamardResponse, got {self.oracle}."
            )

    @property
    def epsilon(self) -> float:
        """The realised privacy parameter, `exact_epsilon()`."""
        return self.exact_epsilon()

    @property
    def reporter(self) -> FrequencyOracle[Any]:
        """The oracle."""
        return self.oracle

    def exact_epsilon(self) -> float:
        """The realised privacy parameter, the oracle's."""
        return self.oracle.exact_epsilon()

    def build(self, word_bits: int = 32) -> "TripleStatisticParams":
        """Builds the params, which users and the analyst run."""
        inner = self.oracle.build(word_bits)
        _, decoder = _reports(self.oracle) if word_bits == 32 else _table(inner, self.num_values)
        tensor = self.kernel.values
        cubes = np.einsum("ijl,ri,rj,rl->r", tensor, decoder, decoder, decoder, optimize=True)
        return TripleStatisticParams(inner, tensor, decoder, cubes)

    def _spreads(self) -> Float[np.ndarray, "k k k"]:
        return _covariances(self.oracle)

    def reported_variance(self, outcome: Tree, num_users: int) -> Float[np.ndarray, ""]:
        """The variance for the users nearest to the estimated ones."""
        estimate = np.asarray(self.oracle.built.estimate(outcome))
        return self.variance(plausible_counts(estimate, num_users))

    def worst_case_variance(self, num_users: int) -> Prediction:
        """A proven bound on the variance over all data sets of a size.

        What a user, a pair and a triple add is bounded apart: the first by the worst pair of
        others, of which it is a convex function; the others by the largest eigenvalue of all S_v.

        Args:
          num_users: n, at least 3.
        """
        n = check_int("num_users", num_users, low=3)
        tensor, spreads = self.kernel.values, _covariances(self.oracle)
        single = np.einsum("iuv,aij,juv->auv", tensor, spreads, tensor, optimize=True).max()
        largest = float(np.linalg.eigvalsh(spreads).max())
        pair = largest**2 * np.sum(tensor**2, axis=(0, 1)).max()
        triple = largest**3 * np.sum(tensor**2)
        return Prediction(total_variance(n, float(single), float(pair), float(triple)), "bound")


def _table(
    inner: Round[Any], num_values: int
) -> tuple[Float[np.ndarray, "k R"], Float[np.ndarray, "R k"]]:
    """The law of the reports of each value, and the vectors that they stand for.

    Estimates of single reports need not sum to 1, but their mean does: what they differ by is
    taken out evenly, and with it the noise of the sum.
    """
    noise: Any = table_noise(inner, num_values)  # pyright: ignore[reportArgumentType]
    decoder = np.asarray(noise.decoder).T
    return np.asarray(noise.law), decoder + (1 - decoder.sum(axis=1, keepdims=True)) / num_values


@functools.lru_cache(maxsize=16)
def _reports(
    oracle: FrequencyOracle[Any],
) -> tuple[Float[np.ndarray, "k R"], Float[np.ndarray, "R k"]]:
    return _table(oracle.built, oracle.num_values)


@functools.lru_cache(maxsize=16)
def _covariances(oracle: FrequencyOracle[Any]) -> Float[np.ndarray, "k k k"]:
    """S_v of the vectors of reports, by value."""
    law, decoder = _reports(oracle)
    second = np.stack([decoder.T @ (row[:, None] * decoder) for row in law])
    units = np.eye(len(law))
    return second - units[:, :, None] * units[:, None, :]


@params
class TripleStatisticParams(Through[Count]):
    """The params of `TripleStatistic`: a pytree. Users do what the oracle says.

    Attributes:
      inner: the params of the frequency oracle.
      tensor: T.
      decoder: the vector that each report stands for.
      cubes: `T(y, y, y)` of each report.
    """

    inner: Any  # Round of a frequency oracle
    tensor: Float[Array | np.ndarray, "k k k"]
    decoder: Float[Array | np.ndarray, "R k"]
    cubes: Float[Array | np.ndarray, " R"]

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> Float[Array, ""]:
        """The estimated statistic, from the counts of the reports."""
        tensor, decoder, cubes = as_float64(self.tensor, self.decoder, self.cubes)
        counts = outcome.f64()
        n = jnp.sum(counts)
        # Sums of products: a product of matrices, batched outside of the block, is of 32 bits.
        users = jnp.sum(counts[:, None] * decoder, axis=0)
        pairs = jnp.sum((counts[:, None] * decoder)[:, :, None] * decoder[:, None, :], axis=0)
        slices = jnp.sum(tensor * users[None, None], axis=2)
        total = jnp.sum(slices * (users[:, None] * users[None] - 3 * pairs))
        cubed = jnp.sum(counts * cubes)
        return (total + 2 * cubed) / (n * (n - 1) * (n - 2))

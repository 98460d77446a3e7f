"""What frequency oracles share: targets, variances, the noise of their counts."""

import abc
from fractions import Fraction
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt32
from numpy.typing import ArrayLike

from .._contract import Round, Tree
from .._plausible import plausible_counts
from .._prediction import Prediction
from .._spec import check_int
from .._x64 import compiled_in_float64
from ..random import Count, count_bits, everyone
from ._count_noise import CountNoise, DenseNoise, SymmetricNoise, TableNoise
from ._params import BinRound, DrawnCountsRound
from ._randomizer import BinRandomizer, check_bins, check_law

_CHUNK = 2**22  # numbers of an array that is made on the way
_USERS = 2**52

P_co = TypeVar("P_co", bound=Round[Any], covariant=True)


class FrequencyOracle(BinRandomizer[P_co]):
    """Base of the specs that count how many users have each of `num_values` values.

    A subclass gives `covariance(value)`, or overrides `noise`; from it follow the variances of
    linear queries and the moments of quadratic forms of the estimated counts.
    """

    __slots__ = ()

    @property
    def answers_bins(self) -> bool:
        """True: entry v of the estimate is the number of users with value v."""
        return True

    @abc.abstractmethod
    def covariance(self, value: int) -> np.ndarray:
        """The exact covariance of the estimate from one user, float64[k, k].

        Args:
          value: the user's value, an int in [0, k).
        """

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The target: the counts themselves, float64[k]."""
        del inputs
        return check_bins(counts, self.num_values).astype(np.float64)

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> np.ndarray:
        """The expected counts of independent users, float64[k]."""
        del inputs
        return check_law(probabilities, self.num_values) * num_users

    def reported_variance(self, outcome: Tree, num_users: int) -> np.ndarray:
        """The variances of the estimated counts, at the nearest counts that are possible."""
        estimate = np.asarray(self.built.estimate(outcome))
        return self.variance(plausible_counts(estimate, num_users))

    def noise(self) -> CountNoise:
        """The moments of the noise of one user's estimate, for linear and quadratic forms."""
        return DenseNoise.of([self.covariance(v) for v in range(self.num_values)])

    def query_variances(self, queries: np.ndarray) -> np.ndarray:
        """The variance of each query's answer from one user's estimate, by the user's value.

        `w^T S_v w` for each query w, S_v being `covariance(v)`.

        Args:
          queries: float64[m, k].

        Returns:
          float64[m, k]: row w, column v.
        """
        rows = max(_CHUNK // self._query_width, 1)
        parts = [self._forms(queries[i : i + rows]) for i in range(0, len(queries), rows)]
        return np.maximum(np.concatenate(parts), 0.0)  # rounded, it may be below 0

    @property
    def _query_width(self) -> int:
        """How many numbers `_forms` holds for a query."""
        return self.num_values

    def _forms(self, queries: np.ndarray) -> np.ndarray:
        """`query_variances` of a few queries."""
        return self.noise().forms(queries)

    def expected_variances(self, probabilities: np.ndarray) -> np.ndarray:
        """The mean variance of each entry of one user's estimate, the value being random.

        Args:
          probabilities: float64[k] of sum 1, of each value; rounded to multiples of 2**-52.

        Returns:
          float64[k].
        """
        counts = np.rint(probabilities * _USERS).astype(np.int64)
        return self.variance(counts) / counts.sum()

    def worst_case_total_variance(self, num_users: int) -> Prediction:
        """The largest sum of the variances of all counts over all data sets of a size; exact.

        The sum is linear in the counts, so users who all hold one value attain it.
        """
        n = check_int("num_users", num_users, low=1)
        return Prediction(
            n * float(self.query_variances(np.eye(self.num_values)).sum(axis=0).max())
        )


class LinearOracle(FrequencyOracle[P_co]):
    """Base of the specs that know the variances of the estimate from one user."""

    __slots__ = ()

    @abc.abstractmethod
    def _user_variances(self) -> np.ndarray:
        """The variances of the estimate from one user, float64[k, k], a column for each value."""

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The exact variance of each estimated count, float64[k].

        Args:
          counts: int[k], the number of users with each value.
          inputs: unused; the values are the bins.
        """
        del inputs
        return self._user_variances() @ check_bins(counts, self.num_values)

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest variance of one estimated count over all data sets of `num_users`; exact.

        The variance is linear in the counts, so it is largest where all users have one value.
        """
        n = check_int("num_users", num_users, low=1)
        return Prediction(n * float(self._user_variances().max()))


class SupportOracle(FrequencyOracle[P_co]):
    """Base of the specs of frequency oracles whose reports support sets of values.

    A report supports the user's value with probability p, and each other value with probability q.
    So the number of reports that support v has mean `c_v p + (n - c_v) q`.
    """

    __slots__ = ()

    @abc.abstractmethod
    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """Exact probabilities (p, q) that a report supports the user's value, and another one."""

    def joint_support(self) -> tuple[Fraction, Fraction] | None:
        """Probabilities that a report supports the user's value and another, and two others.

        None where that depends on the values, or is not known.
        """
        return None

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The exact variance of each estimated count, float64[k].

        Args:
          counts: int[k], the number of users with each value.
          inputs: unused; the values are the bins.
        """
        del inputs
        counts = check_bins(counts, self.num_values)
        user, other, gap = self._spreads()
        # N_v is a sum of independent bits: p for users of value v, q for all others.
        return (counts * user + (counts.sum() - counts) * other) / gap**2

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest variance of one estimated count over all data sets of `num_users`; exact.

        The variance is linear in c_v, so it is largest at c_v = 0 or at c_v = n.
        """
        n = check_int("num_users", num_users, low=1)
        user, other, gap = self._spreads()
        return Prediction(n * max(user, other) / gap**2)

    def worst_case_total_variance(self, num_users: int) -> Prediction:
        """The largest sum of the variances of all counts; exact, and the same for every value."""
        n = check_int("num_users", num_users, low=1)
        user, other, gap = self._spreads()
        return Prediction(n * (user + (self.num_values - 1) * other) / gap**2)

    def _spreads(self) -> tuple[float, float, float]:
        """Returns p (1 - p), q (1 - q) and p - q."""
        p, q = self.probabilities()
        return float(p * (1 - p)), float(q * (1 - q)), float(p - q)

    def covariance(self, value: int) -> np.ndarray:
        """The exact covariance of the estimate from one user, from `joint_support`.

        Args:
          value: the user's value, an int in [0, k).

        Returns:
          float64[k, k].
        """
        value = check_int("value", value, low=0, high=self.num_values - 1)
        joint = self.joint_support()
        if joint is None:
            name = type(self).__name__
            raise NotImplementedError(f"{name} must give `joint_support` or `covariance`.")
        return symmetric_noise(self.probabilities(), joint).covariance(value, self.num_values)

    def noise(self) -> CountNoise:
        """The moments of the noise: symmetric in the values where `joint_support` is known."""
        joint = self.joint_support()
        if joint is None:
            return FrequencyOracle.noise(self)
        return symmetric_noise(self.probabilities(), joint)

    def _forms(self, queries: np.ndarray) -> np.ndarray:
        joint = self.joint_support()
        if joint is None:
            return self.noise().forms(queries)
        return symmetric_noise(self.probabilities(), joint).forms(queries)


def symmetric_noise(
    probabilities: tuple[Fraction, Fraction], joint: tuple[Fraction, Fraction]
) -> SymmetricNoise:
    """The noise of an oracle that treats all values alike.

    Args:
      probabilities: (p, q) that a report supports the user's value, and another given one.
      joint: how often it supports the user's value and another, and two others.
    """
    p, q = probabilities
    with_user, others = joint
    # Variances and covariances of the support bits of the user's value and of others; dividing the
    # bits by p - q makes an estimate of them.
    each = p * (1 - p), with_user - p * q, q * (1 - q), others - q * q
    return SymmetricNoise.of(*(float(c / (p - q) ** 2) for c in each))


class SupportRound(BinRound[dict[str, Count]]):
    """Base of the params of a `SupportOracle` whose tally is the support of each value.

    A subclass has the field `num_values`, k.
    """

    @abc.abstractmethod
    def probabilities(self) -> tuple[jax.Array, jax.Array]:
        """The realised (p, q) as float64; only inside an x64 block."""

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Count], /) -> jax.Array:
        """Unbiased counts of the users' values, float[k].

        Args:
          outcome: {"support": Count[k], "users": Count[]}.
        """
        p, q = self.probabilities()
        support, users = outcome["support"].f64(), outcome["users"].f64()
        return (support - users[..., None] * q) / (p - q)


class SetRound(SupportRound):
    """Base of the params of a `SupportOracle` whose reports are sets of values, packed into words.

    A value v is in a set where bit `v % 32` of entry `v // 32` is 1.
    """

    @property
    def report_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """A bit for each value."""
        return packed_limits(self.num_values)

    def extreme_reports(self, queries: np.ndarray | None = None) -> np.ndarray:
        """No value and all of them, or of each query those that it weighs by one sign.

        For a count depends on its own bit alone.
        """
        if queries is None:
            return np.stack(packed_limits(self.num_values)).astype(np.uint32)
        return packed(np.concatenate([queries < 0, queries > 0]))

    def tally(
        self, reports: UInt32[Array, "n W"], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Count]:
        """{"support": Count[k], the sets that hold each value, "users": Count[]}."""
        users = jnp.sum(everyone(reports, mask), dtype=jnp.int32)
        return {
            "support": count_bits(reports, self.num_values, mask),
            "users": Count.of(users),
        }


def packed_limits(num_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of each word that bits are packed into."""
    bits = np.minimum(num_bits - 32 * np.arange(-(-num_bits // 32)), 32)
    return np.zeros(len(bits), np.int64), 2**bits - 1


def packed(bits: np.ndarray) -> np.ndarray:
    """Bits as reports hold them, bool[..., B] to uint32[..., ceil(B / 32)], the lowest first."""
    padding = [(0, 0)] * (bits.ndim - 1) + [(0, -bits.shape[-1] % 32)]
    padded = np.ascontiguousarray(np.pad(bits, padding))
    return np.packbits(padded, axis=-1, bitorder="little").view("<u4")


def table_noise(params: DrawnCountsRound, num_values: int) -> TableNoise:
    """The noise of an oracle whose reports are counted, from the law and the decoding of each."""
    with jax.enable_x64(True):
        reports = Count.of(np.eye(params.num_reports, dtype=np.int64))
        values = jnp.eye(num_values, dtype=float)
        decoder, law = (np.asarray(x) for x in _decoder_and_law(params, reports, values))
    law = np.maximum(law, 0.0)  # known up to a constant, and rounded
    return TableNoise(law / law.sum(axis=1, keepdims=True), decoder.T)


@jax.jit
def _decoder_and_law(params, reports, values):
    """What each report decodes to, and the law of the reports of each value, as one program."""
    return jax.vmap(params.estimate)(reports), jax.vmap(params.report_law)(values)

"""The bases of the specs and params of the protocols of several rounds."""

import abc
import functools
from typing import Any

import numpy as np

from .._spec import check_counts, check_int, check_probabilities
from ._protocol import PairwiseProtocol
from ._quadratic_factor import QuadraticFactor, signed_factor


class RoundsProtocol(PairwiseProtocol):
    """Base class of the specs of several rounds: one error for given, drawn, and any users."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def groups(self) -> tuple[float, ...] | None:
        """The shares of the random groups that answer one round each; None if users answer more."""

    @abc.abstractmethod
    def _error(self, users: np.ndarray | None, num_users: int, drawn: bool) -> np.ndarray:
        """The error for counts, probabilities, or any users at all.

        Args:
          users: float64[k], counts, or probabilities of drawn users; None for any users.
          num_users: n.
          drawn: whether users are drawn independently.
        """

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error for given users, float64[]; the split of users is part of it.

        Exact, or a proven bound, as the guarantees of the protocol say.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        counts = self._check_bins(check_counts(counts), inputs).astype(np.float64)
        return self._error(counts, int(counts.sum()), drawn=False)

    def population_variance(self, probabilities, num_users: int) -> np.ndarray:
        """The mean squared error about the population's statistic, independent users, float64[].

        Exact, or a proven bound, as `variance`.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
        """
        p = self._check_bins(check_probabilities(probabilities), None)
        return self._error(p, check_int("num_users", num_users, low=4), drawn=True)

    def worst_case_variance(self, num_users: int) -> float:
        """A proven bound on the mean squared error over all data sets of a size."""
        return float(self._error(None, check_int("num_users", num_users, low=4), drawn=False))


def require_linear(protocol: PairwiseProtocol) -> None:
    """Raises unless the statistic is itself an average over pairs."""
    if not protocol.kernel.is_linear:
        raise ValueError(
            f"kernel must be linear for {type(protocol).__name__}, but {protocol.kernel!r} is a "
            "function of several averages; estimate each of them, or use QuantizedRR."
        )


@functools.lru_cache(maxsize=32)
def rounded_factor(protocol: PairwiseProtocol, shift: bool = True) -> QuadraticFactor:
    """The signed factor of the protocol's matrix, or of it less a constant, in float32."""
    return signed_factor(protocol.matrices()[0], shift).rounded()


class RoundsParams(abc.ABC):
    """Base class of the params of several rounds: what a user does in the first."""

    @property
    @abc.abstractmethod
    def first_round(self) -> Any:
        """The params of the first round."""

    @property
    def num_words(self) -> int:
        """Those of the first round."""
        return self.first_round.num_words

    @property
    def lazy_words(self) -> bool:
        """Whether `from_bits` reads words one by one."""
        return getattr(self.first_round, "lazy_words", False)

    def from_bits(self, words, value):
        """What a user of the first round reports.

        Args:
          words: uint32[num_words].
          value: int32[] in [0, k).
        """
        return self.first_round.from_bits(words, value)

    @property
    def sample_tally(self):
        """That of the first round, if it has one."""
        return self.first_round.sample_tally

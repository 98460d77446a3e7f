"""What every randomizer spec has, and the checks they share."""

import abc
import dataclasses
import functools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from .._contract import Population, Round, Spec, Tree
from .._prediction import Prediction
from .._spec import as_float64, check_counts, check_int
from ..accounting import (
    PairLaw,
    ShuffleBracket,
    channel_shuffle_delta,
    opposite_pairs,
    shuffle_bracket,
    shuffle_delta,
    shuffle_epsilon,
)

MOST_ENTRIES = 2**22
"""Numbers of a channel that is listed."""

MOST_SHUFFLED = 2**18
"""Numbers of a channel that shuffled reports are accounted by."""

P_co = TypeVar("P_co", bound=Round[Any], covariant=True)


class Randomizer(Spec[P_co]):
    """Base of the specs of local randomizers.

    A spec is checked when it is made, builds its params once (`build`), and answers exact questions
    about them on the host: what a protocol must know of a randomizer is asked of its spec. A
    subclass is made by `jaxdp.engine.spec`.

    Attributes:
      epsilon: the privacy parameter that is claimed.
      delta: with which it is claimed; 0 where the claim is pure.
    """

    __slots__ = ()

    epsilon: float
    delta: float = 0.0

    @abc.abstractmethod
    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, computed from the built thresholds and rounded up."""

    @abc.abstractmethod
    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The mean squared error of the estimate for users with the given histogram."""

    @abc.abstractmethod
    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest mean squared error over all data sets of a size."""

    @abc.abstractmethod
    def truth(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The quantity that is estimated, for users with the given histogram."""

    @abc.abstractmethod
    def check_values(self, name: str, values: np.ndarray) -> None:
        """Raises ValueError unless values are in the domain.

        Args:
          name: what the message calls them.
          values: a row for each value.
        """

    @abc.abstractmethod
    def extreme_inputs(self) -> np.ndarray:
        """Inputs at the ends of the domain, a row for each: those that an audit compares."""

    @abc.abstractmethod
    def one_user(self, value: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns (counts, inputs) of a data set of one user, for `truth` and `variance`."""

    def channel(
        self, word_bits: int = 32, inputs: ArrayLike | None = None
    ) -> list[list[Fraction]] | None:
        """The exact probabilities of the reports; None where they are too many to list.

        Args:
          word_bits: bits of a word.
          inputs: a row for each input; None for all bins, or for `extreme_inputs`.

        Returns:
          A row for each input, a column for each of `reports`.
        """
        del word_bits, inputs
        return None

    def reports(self) -> np.ndarray | None:
        """The reports that the columns of `channel` are of, a row each; None for 0, 1, 2, ..."""
        return None

    def shuffle_bracket(self, num_users: int, delta: float) -> ShuffleBracket:
        """Bounds of the epsilon of shuffled reports, by `pair_laws`, or by a small `channel`."""
        if (channel := self._shuffled_channel()) is None:
            return super().shuffle_bracket(num_users, delta)
        found = shuffle_bracket(channel, num_users, delta)
        generic = shuffle_epsilon(self._pure_epsilon(), num_users, delta)
        return dataclasses.replace(found, upper=min(found.upper, generic))

    def shuffle_delta(self, num_users: int, epsilon: float) -> float:
        """A proven delta of shuffled reports, by `pair_laws`, or by a small `channel`."""
        if (channel := self._shuffled_channel()) is None:
            return super().shuffle_delta(num_users, epsilon)
        generic = shuffle_delta(epsilon, self._pure_epsilon(), num_users)
        return min(channel_shuffle_delta(channel, num_users, epsilon), generic)

    def _shuffled_channel(self) -> list[list[Fraction]] | None:
        return None if self.reporter is not None else _known(self).channel

    def _shuffled_pairs(self) -> Sequence[PairLaw] | None:
        """`pair_laws`, or the pairs of a channel of many values."""
        return _known(self).pairs

    def _small_channel(self) -> list[list[Fraction]] | None:
        """The channel of all that a user sends, where all its pairs can be shuffled."""
        return None

    def _listed_channel(self) -> list[list[Fraction]] | None:
        """The channel of all that a user sends, where it is not too large to account by."""
        return None

    def log_density(self, reports: ArrayLike, value: ArrayLike) -> np.ndarray | None:
        """The log-density of reports of a value, for a continuous law; else None.

        Args:
          reports: float[n, ...], as `privatize` returns them.
          value: one user's.

        Returns:
          float64[n], relative to a measure that does not depend on the value.
        """
        del reports, value
        return None


class _Known(NamedTuple):
    """What shuffled reports are accounted by: pairs, or a channel all of whose pairs are tried."""

    pairs: Sequence[PairLaw] | None
    channel: list[list[Fraction]] | None


@functools.lru_cache(maxsize=16)
def _known(spec: Randomizer[Any]) -> _Known:
    """What is known of the reports; cached, since composition asks for hundreds of deltas."""
    if (laws := spec.pair_laws()) is not None:
        return _Known(laws, None)
    if (small := spec._small_channel()) is not None:
        return _Known(None, small)
    channel = spec._listed_channel()
    # Reports that prove a value have no opposite.
    if channel is None or not all(map(all, channel)):
        return _Known(None, None)
    return _Known(opposite_pairs(channel), None)


class BinRandomizer(Randomizer[P_co]):
    """Base of the specs whose values are the bins 0, .., num_values - 1 of a histogram."""

    __slots__ = ()

    num_values: int

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins of this domain."""
        population.require_bins(self.num_values, "num_values")

    def _small_channel(self) -> list[list[Fraction]] | None:
        """The channel, if it has few values and reports."""
        channel = self._listed_channel()
        small = channel is not None and len(channel[0]) * len(channel) ** 3 <= MOST_ENTRIES
        return channel if small else None

    def _listed_channel(self) -> list[list[Fraction]] | None:
        """The channel, if it is not too large to account by."""
        if self.num_values**2 > MOST_SHUFFLED:
            return None
        channel = self.channel()
        listed = channel is not None and len(channel[0]) * len(channel) <= MOST_SHUFFLED
        return channel if listed else None

    def check_values(self, name: str, values: np.ndarray) -> None:
        """Raises ValueError unless values are bins of this domain."""
        k, whole = self.num_values, np.issubdtype(values.dtype, np.integer)
        if not whole or values.ndim != 1 or values.min() < 0 or values.max() >= k:
            raise ValueError(f"{name} must be integers in [0, num_values = {k}), got {values!r}.")

    def extreme_inputs(self) -> np.ndarray:
        """The first two bins, the middle one and the last."""
        k = self.num_values
        # For k < 4 some of these are one bin.
        return np.unique(np.array([0, 1, k // 2, k - 1], np.int32))

    def one_user(self, value: np.ndarray) -> tuple[np.ndarray, None]:
        """The histogram of one user."""
        return (np.arange(self.num_values) == value).astype(np.int64), None


def values_of(inputs: ArrayLike | None, num_values: int) -> list[int]:
    """The values of the rows of a channel: the inputs, or all values if there are none given."""
    return list(range(num_values)) if inputs is None else np.asarray(inputs).tolist()


def listed_rows(num_values: int, num_reports: int, inputs: ArrayLike | None) -> list[int] | None:
    """The values of the rows of a channel; None if it is too large to list."""
    values = values_of(inputs, num_values)
    return values if len(values) * num_reports <= MOST_ENTRIES else None


def check_word_bits(word_bits: object) -> int:
    """Returns the number of bits of a word, or raises unless it is an integer from 1 to 32."""
    return check_int("word_bits", word_bits, low=1, high=32)


def check_law(probabilities: ArrayLike, size: int) -> np.ndarray:
    """Returns a distribution as float64[size], or raises unless it is one on `size` bins."""
    law = as_float64("probabilities", probabilities).ravel()
    if law.size != size:
        raise ValueError(
            f"probabilities must have {size} entries, one for each value, got {law.size}."
        )
    if not (np.all(np.isfinite(law)) and np.all(law >= 0) and abs(law.sum() - 1) <= 1e-6):
        raise ValueError(
            f"probabilities must be finite, >= 0 and of sum 1, got {probabilities!r}; divide by "
            "the sum."
        )
    return law


def check_bins(counts: ArrayLike, num_values: int) -> np.ndarray:
    """Returns a flat int64 histogram, or raises unless it has `num_values` bins."""
    flat = check_counts(counts).ravel()
    if flat.size != num_values:
        raise ValueError(
            f"counts must have num_values = {num_values} entries, got {flat.size}; a randomizer "
            "and its population must share one domain."
        )
    return flat

"""What every randomizer spec has, and the checks they share."""

import abc

import numpy as np

from .._spec import check_counts, check_int


class Randomizer(abc.ABC):
    """Base class of the specs of local randomizers.

    A spec is validated when it is made, builds its params once (`build`), and answers exact
    questions about them on the host. A subclass is a frozen, slotted dataclass.
    """

    __slots__ = ()

    @abc.abstractmethod
    def build(self, word_bits: int = 32):
        """The params: a pytree with the functions that run inside jit."""

    @abc.abstractmethod
    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, computed from the built thresholds."""

    @abc.abstractmethod
    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error of the estimate, for users with the given histogram."""

    @abc.abstractmethod
    def worst_case_variance(self, num_users: int) -> float:
        """The largest mean squared error over all data sets of a size."""

    @abc.abstractmethod
    def truth(self, counts, inputs=None) -> np.ndarray:
        """What the estimate estimates, for users with the given histogram."""

    @abc.abstractmethod
    def check_population(self, population) -> None:
        """Raises ValueError when a population does not fit this randomizer."""


def check_word_bits(word_bits) -> int:
    """Returns the number of bits of a word, or raises unless it is an integer from 1 to 32."""
    return check_int("word_bits", word_bits, low=1, high=32)


def check_law(probabilities, size: int) -> np.ndarray:
    """Returns a distribution as float64[size], or raises unless it is one on `size` bins."""
    law = np.asarray(probabilities, np.float64).ravel()
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


def check_bins(counts, num_values: int) -> np.ndarray:
    """Returns a flat int64 histogram, or raises unless it has `num_values` bins."""
    flat = check_counts(counts).ravel()
    if flat.size != num_values:
        raise ValueError(
            f"counts must have num_values = {num_values} entries, got {flat.size}; a randomizer "
            "and its population must share one domain."
        )
    return flat

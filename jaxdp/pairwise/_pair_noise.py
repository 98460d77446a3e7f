"""How a pair of users randomizes the value of a kernel."""

import dataclasses
from typing import Any

import numpy as np

from .._spec import check_choice
from ..randomizers import KRR, BinaryResponse, DiscreteLaplace, Laplace

NOISES = ("laplace", "discrete_laplace", "binary", "krr")
MAX_INTEGERS = 2**11


@dataclasses.dataclass(frozen=True)
class PairNoise:
    """The randomizer of a pair's values, and what its reports say of them.

    The kernels take s different values on the pairs of bins, the *levels*: numbers, or vectors
    where a statistic is made of several averages.

    Attributes:
      randomizer: what a pair runs, on its entry of `inputs`.
      inputs: the randomizer's input for each level, int32[s], float32[s] or float32[s, m].
      levels: float64[s, m], in increasing order; of "discrete_laplace" all integers in the range.
      index: int32[k, k], the level of each pair of bins.
      center: float64[m], what is added to the randomizer's estimate, if that is a mean.
    """

    randomizer: Any
    inputs: np.ndarray
    levels: np.ndarray
    index: np.ndarray
    center: np.ndarray

    @classmethod
    def make(cls, matrices: np.ndarray, epsilon: float, noise: str) -> "PairNoise":
        """The noise of a kind, for kernels float64[m, k, k] and a pair's privacy parameter."""
        levels, index = _levels(matrices, noise)
        m = len(matrices)
        center = np.zeros(m)
        inputs = np.arange(len(levels), dtype=np.int32)
        if noise == "krr":
            randomizer = KRR(len(levels), epsilon)
        elif noise == "discrete_laplace":
            randomizer = DiscreteLaplace(int(levels[0, 0]), int(levels[-1, 0]), epsilon)
        else:
            center = (levels.min(axis=0) + levels.max(axis=0)) / 2
            inputs = (levels - center).astype(np.float32)
            bound = _float32_above(np.abs(inputs.astype(np.float64)).sum(axis=1).max())
            inputs = inputs[:, 0] if m == 1 else inputs
            if noise == "binary":
                randomizer = BinaryResponse(epsilon, bound)
            else:
                randomizer = Laplace(epsilon, bound, None if m == 1 else m)
        return cls(randomizer, inputs, levels, index, center)

    @property
    def counted(self) -> bool:
        """Whether the randomizer estimates how many pairs have each level, rather than a mean."""
        return isinstance(self.randomizer, KRR)

    def means(self) -> np.ndarray:
        """The mean of a report of each level, float64[s, m]: the level, but for its rounding."""
        randomizer = self.randomizer
        if isinstance(randomizer, (KRR, DiscreteLaplace)):
            return self.levels
        realised = self.inputs.astype(np.float64)
        if isinstance(randomizer, BinaryResponse):
            realised = randomizer.moments(self.inputs)[0]
        return realised.reshape(self.levels.shape) + self.center

    def variances(self, slopes: np.ndarray) -> np.ndarray:
        """The variance of `slopes` times a report of each level, float64[s].

        Args:
          slopes: float64[m].
        """
        randomizer, ones = self.randomizer, np.ones(len(self.levels))
        if isinstance(randomizer, Laplace):
            return 2 * randomizer.scale**2 * (slopes @ slopes) * ones
        if isinstance(randomizer, BinaryResponse):
            return slopes[0] ** 2 * randomizer.moments(self.inputs)[1]
        if isinstance(randomizer, DiscreteLaplace):
            return slopes[0] ** 2 * randomizer._spread()
        p, q = map(float, randomizer.probabilities())
        score = self.levels @ slopes
        score = score - score.mean()  # what is constant in a report has no variance
        return (q * np.sum(score**2) + (p - q) * score**2) / (p - q) ** 2 - score**2


def _levels(matrices: np.ndarray, noise: str) -> tuple[np.ndarray, np.ndarray]:
    """The levels and the index of each pair of bins, or an error where a noise cannot take them."""
    check_choice("noise", noise, NOISES)
    m, k = matrices.shape[:2]
    levels, index = np.unique(matrices.reshape(m, -1).T + 0.0, axis=0, return_inverse=True)
    index = index.reshape(k, k).astype(np.int32)
    if len(levels) < 2:
        raise ValueError(
            f"kernel must take two different values at least, but is {levels[0, 0]:g} on all pairs."
        )
    if m > 1 and noise in ("binary", "discrete_laplace"):
        raise ValueError(
            f"noise must be 'krr' or 'laplace' for a statistic made of {m} averages, got {noise!r}."
        )
    if noise == "discrete_laplace":
        low, high = levels[0, 0], levels[-1, 0]
        if np.any(levels != np.rint(levels)) or high - low >= MAX_INTEGERS:
            raise ValueError(
                f"noise must be 'laplace', 'binary' or 'krr' for this kernel, got {noise!r}, which "
                f"is for kernels with integer values in a range of fewer than {MAX_INTEGERS}; "
                "scale and round the kernel to take it."
            )
        index = (matrices[0] - low).astype(np.int32)
        levels = np.arange(low, high + 1)[:, None]
    return levels, index


def _float32_above(number: float) -> float:
    """The smallest float32 that is not below a number."""
    nearest = np.float32(number)
    if nearest < number:
        nearest = np.nextafter(nearest, np.float32(np.inf))
    return float(nearest)

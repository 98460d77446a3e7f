"""Kernels of triples, as tensors on the bins."""

import itertools
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..._checks import By
from ..._spec import FrozenArray, as_float64, check_int

MAX_VALUES = 64


def check_tensor(name: str, value: object) -> FrozenArray:
    """A kernel as float64[k, k, k], averaged over the orders of its arguments: the statistic stays.

    Raises:
      ValueError: the shape is another one, k is below 2 or above 64, or an entry is not finite.
      TypeError: it is no array of numbers.
    """
    given: Any = value
    array = as_float64(name, given)
    if array.ndim != 3 or len(set(array.shape)) != 1 or not 2 <= len(array) <= MAX_VALUES:
        raise ValueError(
            f"{name} must have shape [k, k, k] with k from 2 to {MAX_VALUES}, got {array.shape}."
        )
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got NaN or inf.")
    return FrozenArray(symmetrized(array))


KERNEL = By(check_tensor, ("a", [[1.0]], np.zeros((1, 1, 1))))
"""The check of a field that holds a kernel of triples."""


def symmetrized(tensor: np.ndarray) -> Float[np.ndarray, "k k k"]:
    """The mean over the six orders of the arguments."""
    orders = itertools.permutations(range(3))
    return np.mean([tensor.transpose(order) for order in orders], axis=0)


def volume_under_roc(
    num_scores: int, class_sizes: tuple[int, int, int] | None = None
) -> Float[np.ndarray, "k k k"]:
    """The volume under the ROC surface: how often three users of three classes are in order.

    A user's value is (class, score) as the bin `class d + score`, both private, with classes 0, 1
    and 2 and d scores. Of one user of each class it is the share whose scores increase with the
    class; it is 1/6 for scores that say nothing, and 1 for those that separate the classes. Tied
    scores count as if ties were broken at random: 1/2 for two of them, 1/6 for three.

    If the sizes of the classes are public, the statistic is the mean over all triples of users,
    times `n (n - 1) (n - 2) / (6 n_0 n_1 n_2)`, and its estimate is unbiased. If they are private,
    it is the mean among the triples of `one_of_each_class`, a ratio of two estimates.

    Args:
      num_scores: d, at most 21.
      class_sizes: public numbers of users of the classes; None if they are private.

    Returns:
      float64[3 d, 3 d, 3 d], for `TripleStatistic`, or for `TripleRatio` if sizes are private.

    Example:
      >>> from jaxdp.pairwise import TripleStatistic, volume_under_roc
      >>> from jaxdp.randomizers import KRR
      >>> kernel = volume_under_roc(num_scores=2, class_sizes=(2, 2, 2))
      >>> statistic = TripleStatistic(kernel, KRR(6, 1.0))
      >>> statistic.truth([2, 0, 1, 1, 0, 2]).round(6).item()  # of each class, scores 0 and 1
      0.5

    References:
      Mossman (1999), Three-way ROCs; Nakas and Yiannoutsos (2004), Ordered multiple-class ROC
      analysis with continuous measurements.
    """
    d = check_int("num_scores", num_scores, low=1, high=MAX_VALUES // 3)
    sizes = None if class_sizes is None else _class_sizes(class_sizes)
    low, middle, high = np.ogrid[:d, :d, :d]
    ordered = ((low <= middle) & (middle <= high)).astype(float)
    ordered *= np.where((low == middle) & (middle == high), 1 / 6, 1)
    ordered *= np.where((low == middle) ^ (middle == high), 1 / 2, 1)
    tensor = _of_classes(ordered)
    if sizes is None:
        return tensor
    n = sum(sizes)
    return n * (n - 1) * (n - 2) / (6 * sizes[0] * sizes[1] * sizes[2]) * tensor


def one_of_each_class(num_scores: int) -> Float[np.ndarray, "k k k"]:
    """Whether three users are of three different classes, whatever their scores.

    Args:
      num_scores: d, at most 21; a user's value is the bin `class d + score`, of 3 classes.

    Returns:
      float64[3 d, 3 d, 3 d], the condition of a `TripleRatio` of `volume_under_roc(d)`.

    Example:
      >>> from jaxdp.pairwise import one_of_each_class
      >>> one_of_each_class(num_scores=1)[0].astype(int).tolist()
      [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    """
    d = check_int("num_scores", num_scores, low=1, high=MAX_VALUES // 3)
    return _of_classes(np.ones((d, d, d)))


def _of_classes(scores: Float[np.ndarray, "d d d"]) -> Float[np.ndarray, "k k k"]:
    """A function of the scores of three users of classes 0, 1 and 2, in any order of the users."""
    d = len(scores)
    tensor = np.zeros((3, d, 3, d, 3, d))
    for order in itertools.permutations(range(3)):
        tensor[order[0], :, order[1], :, order[2], :] = scores.transpose(order)
    return tensor.reshape(3 * d, 3 * d, 3 * d)


def _class_sizes(value: object) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        raise TypeError(f"class_sizes must be three integers, got {value!r}.")
    return tuple(check_int("class_sizes", size, low=1) for size in value)


def third_l_moment(values: ArrayLike) -> Float[np.ndarray, "k k k"]:
    """The third L-moment, a robust measure of skewness: a third of the mean of `x - 2 y + z`.

    Here x, y and z are the largest, the middle and the least of the values of three users.

    Args:
      values: float[k], what the bins stand for.

    Returns:
      float64[k, k, k], for `TripleStatistic`.

    Example:
      >>> from jaxdp.pairwise import third_l_moment
      >>> third_l_moment([0, 1, 4])[0, 1, 2].round(4).item()  # (0 - 2 * 1 + 4) / 3
      0.6667

    References:
      Hosking (1990), L-moments: analysis and estimation of distributions using linear combinations
      of order statistics.
    """
    low, middle, high = _ordered(values)
    return (low - 2 * middle + high) / 3


def mean_range(values: ArrayLike) -> Float[np.ndarray, "k k k"]:
    """Gini's mean difference of three: the mean of the largest less the least of three values.

    Args:
      values: float[k], what the bins stand for.

    Returns:
      float64[k, k, k], for `TripleStatistic`.

    Example:
      >>> from jaxdp.pairwise import mean_range
      >>> mean_range([0, 1, 4])[0, 1, 2].item()
      4.0
    """
    low, _, high = _ordered(values)
    return high - low


def _ordered(values: ArrayLike) -> np.ndarray:
    """The values of each triple of bins in order, float64[3, k, k, k]."""
    array = as_float64("values", values)
    if array.ndim != 1 or not 2 <= array.size <= MAX_VALUES or not np.all(np.isfinite(array)):
        raise ValueError(
            f"values must be 2 to {MAX_VALUES} finite numbers, got shape {array.shape}."
        )
    return np.sort(np.stack(np.meshgrid(array, array, array, indexing="ij")), axis=0)


def triangles(adjacency: ArrayLike) -> Float[np.ndarray, "k k k"]:
    """How often any two of three users have adjacent values.

    Args:
      adjacency: float[k, k], symmetric; 1 for values that are adjacent, 0 for others, or weights
        that are multiplied.

    Returns:
      float64[k, k, k], for `TripleStatistic`.

    Example:
      >>> import numpy as np
      >>> from jaxdp.pairwise import triangles
      >>> triangles(1 - np.eye(3)).sum().item()  # three different values, in any order
      6.0
    """
    array = as_float64("adjacency", adjacency)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not np.array_equal(array, array.T):
        raise ValueError(f"adjacency must be a symmetric matrix, got shape {array.shape}.")
    if not 2 <= len(array) <= MAX_VALUES:
        raise ValueError(f"adjacency must be of 2 to {MAX_VALUES} values, got {len(array)}.")
    return array[:, :, None] * array[:, None, :] * array[None]

"""Marginals and parities: change of basis, tables, and what one user can change."""

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Float64, Shaped

from .._spec import check_int
from .._subsets import are_num_subsets, children, joined, num_subsets, rank, with_each
from ._convex_set import real_array


def parities_from_marginals(
    answers: ArrayLike, num_features: int, order: int
) -> Float[Array, "*b N"]:
    """Parities of at most k features from the marginals of at most k.

    As `1 - 2 x` multiplies out, `p_U = sum over S in U of (-2)^|S| y_S`.

    Formal guarantees:
      Linear, and the inverse of `marginals_from_parities`. All coefficients are powers of 2.

    Args:
      answers: float[..., N], y_U for all U of at most k features, by size, then lexicographically;
        the empty set, with y = 1, comes first.
      num_features: n >= 1.
      order: k in [1, n].

    Returns:
      The mean over the users of the product over U of 1 - 2 x_i.

    Raises:
      ValueError: an argument is out of range or has the wrong shape.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp.central import parities_from_marginals
      >>> print(parities_from_marginals(jnp.array([1.0, 0.5, 0.25, 0.25]), 2, 2))
      [1.  0.  0.5 0.5]

    References:
      Barak et al. (2007), Privacy, accuracy, and consistency too: a holistic solution to
      contingency table release.
    """
    return parities_of(*_check(answers, num_features, order))


def marginals_from_parities(
    answers: ArrayLike, num_features: int, order: int
) -> Float[Array, "*b N"]:
    """Marginals of at most k features from the parities of at most k.

    `y_U = 2^(-|U|) sum over S in U of (-1)^|S| p_S`.

    Formal guarantees:
      Linear, and the inverse of `parities_from_marginals`. All coefficients are powers of 2. Noise
      of variance v on all parities but the empty one becomes `(2^|U| - 1) 4^(-|U|) v`.

    Args:
      answers: float[..., N], p_U in the order of `parities_from_marginals`, p = 1 first.
      num_features: n >= 1.
      order: k in [1, n].

    Returns:
      The share of users who have all features in U.

    Raises:
      ValueError: an argument is out of range or has the wrong shape.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp.central import marginals_from_parities
      >>> print(marginals_from_parities(jnp.array([1.0, 0.0, 0.5, 0.5]), 2, 2))
      [1.   0.5  0.25 0.25]
    """
    return marginals_of(*_check(answers, num_features, order))


def _check(answers: ArrayLike, num_features: int, order: int) -> tuple[jax.Array, int, int]:
    n = check_int("num_features", num_features, low=1)
    k = check_int("order", order, low=1, high=n)
    array = jnp.asarray(real_array("answers", answers))
    if array.ndim == 0 or not are_num_subsets(array.shape[-1], n, k):
        raise ValueError(
            f"answers must have an entry on the last axis for each set of at most order = {k} of "
            f"num_features = {n} features, got shape {array.shape}."
        )
    return array, n, k


def parities_of(
    answers: Shaped[Array, "*b N"], num_features: int, order: int
) -> Shaped[Array, "*b N"]:
    """`parities_from_marginals` without checks; integers remain integers."""
    return _combine(answers, num_features, order, -2, 1)


def marginals_of(
    answers: Float[Array, "*b N"], num_features: int, order: int
) -> Float[Array, "*b N"]:
    """`marginals_from_parities` without checks."""
    return _combine(answers, num_features, order, -1, 0.5)


def _combine(
    answers: Shaped[Array, "*b N"], num_features: int, order: int, inner: float, outer: float
) -> Shaped[Array, "*b N"]:
    """`outer^|U| sum over S in U of inner^|S| answers_S`."""
    parts = []
    for size, places in enumerate(children(num_features, order)):
        # Column b of `children` is the subset of the places that are ones of b.
        powers = [inner ** b.bit_count() * outer**size for b in range(2**size)]
        weights = jnp.asarray(powers, answers.dtype)
        chosen = answers[..., places]
        parts.append(jnp.sum(chosen * jnp.broadcast_to(weights, chosen.shape), axis=-1))
    return jnp.concatenate(parts, axis=-1)


def marginals_sensitivity(num_features: int, order: int, sparsity: int | None = None) -> float:
    """How far the replacement of one user moves the sums of all marginals, in Euclidean norm.

    Two users with sets A and B of features differ in the U inside one of them but not in both, so
    the square is `max f(|A|) + f(|B|) - 2 f(|A and B|)`, with f(a) the number of nonempty sets of
    at most k out of a elements. That grows as the common part shrinks, and is largest for a user
    with all features beside one with none, or for two with t features and as few as possible in
    common.

    Args:
      num_features: n.
      order: k.
      sparsity: t, or None for n.

    Returns:
      float, the exact maximum over all pairs of users up to rounding.
    """
    n = num_features
    t = n if sparsity is None else sparsity

    def inside(size: int) -> int:
        return num_subsets(size, order) - 1

    # Two users with a and b features have at least a + b - n in common.
    squares = [
        inside(a) + inside(b) - 2 * inside(max(a + b - n, 0))
        for a in range(t + 1)
        for b in range(a + 1)
    ]
    return math.sqrt(max(squares))


def parities_sensitivity(num_features: int, order: int, sparsity: int | None = None) -> float:
    """How far the replacement of one user moves the sums of all parities, in Euclidean norm.

    A parity changes, by 2, if its set has an odd number of the features in which the users differ:
    the square is 4 times the largest number of such sets.

    Args:
      num_features: n.
      order: k.
      sparsity: t, or None for n: users then differ in at most 2 t features.

    Returns:
      float, the exact maximum over all pairs of users up to rounding.
    """
    n = num_features
    reach = n if sparsity is None else min(2 * sparsity, n)

    def changed(apart: int) -> int:
        return sum(
            math.comb(apart, odd) * math.comb(n - apart, size - odd)
            for size in range(1, order + 1)
            for odd in range(1, size + 1, 2)
        )

    return 2 * math.sqrt(max(changed(apart) for apart in range(reach + 1)))


@dataclasses.dataclass(frozen=True)
class MarginalsConsistency:
    """Distances of answers from those of some data set; all are >= 0 for answers of data.

    Attributes:
      smallest_cell: the smallest entry of a table of k features.
      smallest_eigenvalue: of the moment matrix of level floor(k / 2), in marginals.
      smallest_slack: the least `t y_U - sum_i y_(U + i)` with `|U|` < k; None without a sparsity.
    """

    smallest_cell: float
    smallest_eigenvalue: float
    smallest_slack: float | None


def place_of(features: Sequence[int], num_features: int, order: int) -> int:
    """The place of a set of features among the answers; raises unless it is one of at most k."""
    high = num_features - 1
    chosen = sorted(check_int("features", i, low=0, high=high) for i in features)
    if len(set(chosen)) < len(chosen) or len(chosen) > order:
        raise ValueError(
            f"features must be at most {order} distinct numbers, got {tuple(features)}."
        )
    return int(rank(np.array(chosen, np.int64), num_features)) if chosen else 0


def table_of(
    marginals: Float64[np.ndarray, "*b N"], features: Sequence[int], num_features: int, order: int
) -> Float64[np.ndarray, "..."]:
    """The table of some features: an axis of 2 for each, after the leading axes."""
    width = len(features)
    chosen = [
        [feature for j, feature in enumerate(features) if (code >> (width - 1 - j)) & 1]
        for code in range(2**width)
    ]
    # Marginals of the subsets of the features, in the order of the table's cells
    places = [place_of(some, num_features, order) for some in chosen]
    return _cells(marginals[..., places].reshape(*marginals.shape[:-1], *[2] * width), width)


def consistency_of(
    marginals: Float64[np.ndarray, " N"], num_features: int, order: int, sparsity: int | None
) -> MarginalsConsistency:
    """How far marginals are from those of some data set."""
    n, k = num_features, order
    if marginals.ndim != 1:
        raise ValueError(f"answers must have shape [N], got {marginals.shape}.")
    tables = marginals[children(n, k)[k]]
    cells = _cells(tables.reshape(-1, *[2] * k), k)
    slack = None
    if sparsity is not None:
        groups = with_each(n, k - 1)
        # A user has at most t features: sum_i y_(U + i) <= t y_U, i in U included
        slack = float(np.min(marginals[groups] @ np.r_[sparsity, -np.ones(n)]))
    lowest = float(np.linalg.eigvalsh(marginals[joined(n, k // 2, "marginals")])[0])
    return MarginalsConsistency(float(cells.min()), lowest, slack)


def _cells(tables: np.ndarray, width: int) -> np.ndarray:
    """Cells from marginals on the last axes: entry 0 of an axis loses entry 1."""
    cells = np.array(tables)
    for axis in range(cells.ndim - width, cells.ndim):
        low = np.moveaxis(cells, axis, 0)
        low[0] -= low[1]  # inclusion and exclusion, a feature at a time
    return cells

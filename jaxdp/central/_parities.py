"""Marginals and parities: the change of basis between them, and what one user can change."""

import math

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from .._spec import check_int
from .._subsets import children, num_subsets
from ..projections._inputs import check_array


def parities_from_marginals(answers: ArrayLike, num_features: int, order: int) -> jax.Array:
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
      float[..., N], the mean over the users of the product over U of 1 - 2 x_i.

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


def marginals_from_parities(answers: ArrayLike, num_features: int, order: int) -> jax.Array:
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
      float[..., N], the share of users who have all features in U.

    Raises:
      ValueError: an argument is out of range or has the wrong shape.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp.central import marginals_from_parities
      >>> print(marginals_from_parities(jnp.array([1.0, 0.0, 0.5, 0.5]), 2, 2))
      [1.   0.5  0.25 0.25]
    """
    return marginals_of(*_check(answers, num_features, order))


def _check(answers, num_features, order):
    n = check_int("num_features", num_features, low=1)
    k = check_int("order", order, low=1, high=n)
    array = check_array("answers", answers, "N", 1)
    if array.shape[-1] != num_subsets(n, k):
        raise ValueError(
            f"answers must have {num_subsets(n, k)} entries on the last axis, one for "
            f"each set of at most {k} of {n} features, got shape {array.shape}."
        )
    return array, n, k


def parities_of(answers: jax.Array, num_features: int, order: int) -> jax.Array:
    """`parities_from_marginals` without checks."""
    return _combine(answers, num_features, order, -2.0, 1.0)


def marginals_of(answers: jax.Array, num_features: int, order: int) -> jax.Array:
    """`marginals_from_parities` without checks."""
    return _combine(answers, num_features, order, -1.0, 0.5)


def _combine(answers, num_features, order, inner, outer):
    """`outer^|U| sum over S in U of inner^|S| answers_S`."""
    parts = []
    for size, places in enumerate(children(num_features, order)):
        powers = [inner ** bin(b).count("1") * outer**size for b in range(2**size)]
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

    def inside(size):
        return num_subsets(size, order) - 1

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

    def changed(apart):
        return sum(
            math.comb(apart, odd) * math.comb(n - apart, size - odd)
            for size in range(1, order + 1)
            for odd in range(1, size + 1, 2)
        )

    return 2 * math.sqrt(max(changed(apart) for apart in range(reach + 1)))

"""Factors of a matrix from its optimal weights."""

import jax.numpy as jnp

from .._x64 import svd


def _first(flags, dtype):
    """The indicator of the first True; argmax does not lower inside a caller's 32-bit program."""
    places = jnp.arange(len(flags), dtype=jnp.int32).astype(dtype)
    marked = jnp.where(flags, places, jnp.inf)
    return (marked == jnp.min(marked)).astype(dtype)


def locate(values):
    """Indicator vectors of the row and of the column of the first largest entry."""
    largest = values == jnp.max(values)
    row = _first(jnp.any(largest, axis=1), values.dtype)
    return row, _first(jnp.any(largest & (row > 0)[:, None], axis=0), values.dtype)


def column_norm(factor):
    """The largest Euclidean norm of a column of `factor`, float[l, k] -> float[]."""
    return jnp.sqrt(jnp.max(jnp.sum(factor**2, axis=0)))


def balance(left, right, mean: bool = False):
    """Scales both factors to equal norms; returns them and the product of the norms.

    The norm of `left` is its largest column norm, or with `mean` the root mean square of them.
    """
    if mean:
        left_norm = jnp.sqrt(jnp.mean(jnp.sum(left**2, axis=0)))
    else:
        left_norm = column_norm(left)
    right_norm = column_norm(right)
    # A factor that is 0 has no scale: then both stay as they are.
    positive = (left_norm > 0) & (right_norm > 0)
    ratio = jnp.where(positive, left_norm, 1.0) / jnp.where(positive, right_norm, 1.0)
    return left / jnp.sqrt(ratio), right * jnp.sqrt(ratio), left_norm * right_norm


def decompose(matrix, rows, cols):
    """The thin SVD (U, s, V) of diag(√rows)·matrix·diag(√cols)."""
    scaled = jnp.sqrt(rows)[:, None] * matrix * jnp.sqrt(cols)[None, :]
    left, values, right = svd(scaled)
    return left, values, right.T


def read_factors(matrix, rows, cols, spectrum, scale):
    """Factors of `matrix` from U·diag(s)·Vᵀ = diag(√rows)·matrix·diag(√cols) / scale.

    The columns of the left factor are √s·U_i/√rows_i, which lose digits as rows_i → 0. The same
    vectors are s^(-1/2)·Vᵀ·diag(√cols)·W_i, which do not. So where V is square the left factor
    is read off W, and W = leftᵀ·right holds to rounding; where U is square the right one is.
    """
    left, values, right = spectrum[:3]
    rows, cols, values = jnp.sqrt(rows), jnp.sqrt(cols), scale * values
    tiny = 0.1 * jnp.finfo(matrix.dtype).eps * jnp.max(values)
    root = jnp.sqrt(jnp.maximum(values, tiny))[:, None]
    root = jnp.where(root > 0, root, 1.0)
    if matrix.shape[0] >= matrix.shape[1]:
        return (right * cols[:, None]).T @ matrix.T / root, root * right.T / cols[None, :]
    return root * left.T / rows[None, :], (left * rows[:, None]).T @ matrix / root


def read_signed_factor(matrix, rows, spectrum, scale):
    """A, diag(signs)·A and signs with matrix = Aᵀ·diag(signs)·A, where rows = cols.

    Both forms A_0, A_1 of the factor satisfy A_0ᵀ·diag(signs)·A_1 = W. Their mean has an error that
    is quadratic in A_0 − A_1.
    """
    left, values, right = spectrum[:3]
    rows, values = jnp.sqrt(rows), scale * values
    signs = jnp.where(jnp.sum(left * right, axis=0) < 0, -1.0, 1.0)
    kept = values > 8 * jnp.finfo(matrix.dtype).eps * jnp.max(values)
    root = jnp.where(kept, jnp.sqrt(values), 0.0)[:, None]
    inverse = jnp.where(kept, 1.0 / jnp.sqrt(jnp.where(kept, values, 1.0)), 0.0)[:, None]
    factor = (root * left.T / rows[None, :] + inverse * (right * rows[:, None]).T @ matrix) / 2
    return factor, signs[:, None] * factor, signs

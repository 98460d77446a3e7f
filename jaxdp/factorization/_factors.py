"""Factors of a matrix from its optimal weights."""

import math

import numpy as np
from jax.typing import ArrayLike

from ._arrays import eigh, namespace, solve_transposed, svd, triangle_of

_REST = 1e-10
"""What a coordinate must add to some row, of its largest entry, to be more than rounding."""

_GOLDEN = (1 + math.sqrt(5)) / 2


def _first(flags, dtype):
    """The indicators of the first True along the last axis.

    For argmax does not lower inside a caller's 32-bit program.
    """
    xp = namespace(flags)
    places = xp.arange(flags.shape[-1], dtype=xp.int32).astype(dtype)
    marked = xp.where(flags, places, xp.inf)
    return (marked == xp.min(marked, axis=-1, keepdims=True)).astype(dtype)


def locate(values):
    """Indicator vectors of the row and of the column of the first largest entry."""
    xp = namespace(values)
    largest = values == xp.max(values)
    row = _first(xp.any(largest, axis=1), values.dtype)
    return row, _first(xp.any(largest & (row > 0)[:, None], axis=0), values.dtype)


def column_norm(factor):
    """The largest Euclidean norm of a column of `factor`, float[l, k] -> float[]."""
    xp = namespace(factor)
    return xp.sqrt(xp.max(xp.sum(factor**2, axis=0)))


def balance(left, right, mean: bool = False):
    """Scales both factors to equal norms; returns them and the product of the norms.

    The norm of `left` is its largest column norm, or with `mean` the root mean square of them.
    """
    xp = namespace(left)
    if mean:
        left_norm = xp.sqrt(xp.mean(xp.sum(left**2, axis=0)))
    else:
        left_norm = column_norm(left)
    right_norm = column_norm(right)
    # A factor that is 0 has no scale: then both stay as they are.
    positive = (left_norm > 0) & (right_norm > 0)
    ratio = xp.where(positive, left_norm, 1.0) / xp.where(positive, right_norm, 1.0)
    return left / xp.sqrt(ratio), right * xp.sqrt(ratio), left_norm * right_norm


def kept(values):
    """Singular values no smaller than rounding makes them: no direction is dropped."""
    xp = namespace(values)
    return xp.maximum(values, xp.finfo(values.dtype).eps / 8 * xp.max(values))


def decompose(matrix, rows, cols):
    """The thin SVD (U, s, V) of diag(√rows)·matrix·diag(√cols)."""
    xp = namespace(matrix)
    scaled = xp.sqrt(rows)[:, None] * matrix * xp.sqrt(cols)[None, :]
    left, values, right = svd(scaled)
    return left, values, right.T


def read_factors(matrix, rows, cols, spectrum, scale):
    """Factors of `matrix` from U·diag(s)·Vᵀ = diag(√rows)·matrix·diag(√cols) / scale.

    Where V is square, those of the Gram matrix V·diag(scale·s)·Vᵀ of the right factor, in the
    metric of the weights; else those of the left factor's.
    """
    left, values, right = spectrum[:3]
    wide = matrix.shape[0] < matrix.shape[1]
    vectors, weights = (left, rows) if wide else (right, cols)
    return factors_of(matrix, _triangle(vectors, values, weights, scale), rows, cols)


def factors_of(matrix, triangle, rows, cols):
    """Factors of `matrix`, the right one with the Gram matrix RᵀR in the metric of the weights.

    The right factor is R·diag(√cols)⁻¹, and the left one solves leftᵀ·right = matrix. However wrong
    R is, and however small a weight is, the product is the matrix up to rounding that is small
    beside the norms of the two columns that make an entry: orthogonalisation and triangular solves
    do not mix columns of different scale. Of a wide matrix R is the left factor's.
    """
    xp = namespace(matrix)
    wide = matrix.shape[0] < matrix.shape[1]
    root = xp.sqrt(rows if wide else cols)
    target = matrix.T if wide else matrix
    axes = principal_axes(triangle)
    given = axes.T @ triangle / root[None, :]
    solved = axes.T @ solve_transposed(triangle, (target * root[None, :]).T)
    return _without_rest(matrix, *((given, solved) if wide else (solved, given)))


def principal_axes(rows, signs=None):
    """Orthonormal columns Q whose coordinates Qᵀ·rows the Gram matrix of the columns determines.

    Reports depend on the coordinates, which must not depend on how a machine rounds. Principal axes
    show the rank; but where some are of one length, any basis of their space will do, so columns
    are weighed a little differently here. The first of its largest entries makes a row positive.

    Args:
      rows: float[l, k].
      signs: float[l] of ±1; axes are then of rows of one sign each. None for no such distinction.
    """
    xp = namespace(rows)
    weights = 1 + np.mod(_GOLDEN * np.arange(1, rows.shape[1] + 1), 1) / 8
    products = (rows * weights.astype(rows.dtype)[None, :]) @ rows.T
    if signs is not None:
        # The two signs are kept far apart.
        products = xp.where(signs[:, None] == signs[None, :], products, 0.0)
        apart = 2.0 * xp.trace(products) + xp.finfo(rows.dtype).tiny
        products = products + xp.diag(apart * signs)
    axes = eigh(products)[1][:, ::-1]
    turned = axes.T @ rows
    # Equal sizes differ by rounding, and the first of them decides.
    largest = xp.abs(turned) >= (1 - 1e-6) * xp.max(xp.abs(turned), axis=1, keepdims=True)
    leading = xp.sum(_first(largest, rows.dtype) * turned, axis=1)
    return axes * xp.where(leading < 0, -1.0, 1.0)[None, :]


def read_signed_factor(matrix, rows, spectrum, scale):
    """A, diag(signs)·A and signs with matrix = Aᵀ·diag(signs)·A, where rows = cols.

    With R the triangle of diag(√s)·Uᵀ, matrix = diag(√rows)⁻¹·Rᵀ·K·R·diag(√rows)⁻¹ for a K that
    triangular solves find to rounding, as in `factors_of`. K is near diag(signs) in the basis of
    its eigenvectors Q, and A = diag(√abs(λ))·Qᵀ·R·diag(√rows)⁻¹ takes up what is missing.
    """
    xp = namespace(matrix)
    root = xp.sqrt(rows)
    triangle = _triangle(spectrum.left, spectrum.values, rows, scale)
    core = solve_transposed(triangle, root[:, None] * matrix * root[None, :])
    core = solve_transposed(triangle, core.T)
    values, vectors = eigh((core + core.T) / 2)
    signs = xp.where(values < 0, -1.0, 1.0)
    factor = xp.sqrt(xp.abs(values))[:, None] * (vectors.T @ triangle)
    # Rows of one sign may be turned into one another.
    axes = principal_axes(factor, signs)
    signs, factor = xp.where(signs @ axes**2 < 0, -1.0, 1.0), axes.T @ factor / root[None, :]
    factor = _without_rest(matrix, factor, factor)[0]
    return factor, signs[:, None] * factor, signs


def _without_rest(matrix, left, right):
    """Both factors, without what rounding alone put there.

    Coordinates that add nothing but rounding to any row become 0, so that the rank of a matrix
    shows: more coordinates mean more noise. So do the columns that answer rows and columns of 0,
    whose least rounding would be infinite beside the largest entry of their row.
    """
    xp = namespace(matrix)
    size = xp.max(xp.abs(matrix), axis=1)
    left = xp.where(size[None, :] > 0, left, 0.0)
    right = xp.where(xp.any(matrix != 0, axis=0)[None, :], right, 0.0)
    shares = xp.abs(left) / xp.where(size > 0, size, 1.0)[None, :]
    adds = xp.max(shares, axis=1) * xp.max(xp.abs(right), axis=1)
    used = (adds > _REST)[:, None]
    return xp.where(used, left, 0.0), xp.where(used, right, 0.0)


def _triangle(vectors, values, weights, scale):
    """R with RᵀR = V·diag(scale·s)·Vᵀ, s no smaller than rounding makes it, V square."""
    xp = namespace(vectors)
    root = xp.sqrt(scale * kept(values))[:, None] * vectors.T
    # Where all values are 0 any factor does, and the other one is 0.
    root = xp.where(xp.max(values) > 0, root, xp.diag(xp.sqrt(weights)))
    return triangle_of(root)


def misfit(matrix, left, right, alpha: ArrayLike = 0.0):
    """How far leftᵀ·right is from the matrix in a row, beyond alpha, relative to the largest entry.

    The largest of these over rows. What rounding of the product itself may add is left out.
    """
    xp = namespace(matrix)
    rounding = 4.0 * left.shape[0] * xp.finfo(matrix.dtype).eps
    lefts, rights = (xp.sqrt(xp.sum(factor**2, axis=0)) for factor in (left, right))
    lengths = xp.outer(lefts, rights)
    error = xp.max(xp.abs(left.T @ right - matrix) - rounding * lengths, axis=1) - alpha
    size = xp.max(xp.abs(matrix), axis=1) + alpha
    relative = xp.where(size > 0, error / xp.where(size > 0, size, 1.0), xp.inf)
    return xp.max(xp.where(error > 0, relative, 0.0))

"""Convolutions over abelian groups, which Fourier's basis factorizes.

W_xy = f(x − y) is the same when a group element is added to x and to y. The trace norm is concave
in the weights of rows and of columns, so that the mean over all of these moves of any weights is no
worse: equal weights are optimal, and γ2(W) is the mean of the singular values, the moduli of f's
Fourier coefficients. Along a skew axis f changes its sign once around; then some rows and columns
of W change theirs when they move, which no norm sees.
"""

from collections.abc import Sequence

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int

from ..._spec import as_float64
from .._inputs import check_memory
from .._result import Factorization
from ._claim import claim, uniform

_ROUNDING = 4e-15  # of a Fourier coefficient, over the root of the sum of their mean square


def circulant(kernel: ArrayLike, *, skew: bool | Sequence[bool] = False) -> Factorization:
    """The convolution W_xy = f(x − y) over an abelian group: γ2 = mean of abs(f̂), optimal.

    The group is a product of cycles, one for each axis of `kernel`: one axis makes a circulant
    matrix, axes of length 2 make a function of x XOR y. Row v of `right` is √abs(f̂_v) times a wave
    of the real Fourier basis, and of `left` the same wave, moved by f̂'s phase. No solver and no
    decomposition is needed. `circulant(f - f.mean())` attains min over u of γ2(W − u·1ᵀ) too.

    Args:
      kernel: float[n_1, ..., n_d], f; x and y run through its entries in C order.
      skew: whether f(x + n) = −f(x) along an axis of length n; for all axes, or for each one. The
        workloads `thresholds` and `sign` are such matrices.

    Returns:
      Factorization with N = n_1⋯n_d rows and columns, upper = lower up to rounding, and as many
      coordinates as W has rank; with `signs` where W is symmetric.

    Raises:
      ValueError: `kernel` has no axis or no entries, or NaN or inf; `skew` has not one value for
        each axis; W does not fit in memory.

    Example:
      >>> import numpy as np
      >>> from jaxdp.factorization import explicit
      >>> f = explicit.circulant(np.ones(8), skew=True)  # the workload `thresholds(8)`
      >>> print(f"{f.lower:.5f} {f.upper:.5f}")
      2.28702 2.28702
      >>> hamming = explicit.circulant(np.array([[[0, 1], [1, 2]], [[1, 2], [2, 3]]]))
      >>> print(round(float(hamming.upper), 6), hamming.rank)  # the distance of three bits
      3.0 4

    References:
      Linial, Shraibman (2009), for the norm of matrices with such symmetries.
    """
    f = as_float64("kernel", kernel)
    if f.ndim == 0 or f.size == 0 or not np.all(np.isfinite(f)):
        raise ValueError(f"kernel must have one axis or more, and finite entries, got {kernel}.")
    turns = np.broadcast_to(np.asarray(skew), np.shape(skew) or f.ndim)
    if turns.dtype != bool or turns.shape != (f.ndim,):
        raise ValueError(f"skew must be True or False, or one of them for each axis, got {skew}.")
    size, shape = f.size, np.array(f.shape)
    check_memory(8.0 * 12 * size**2, f"a kernel of {size} group elements")
    places = np.indices(f.shape).reshape(f.ndim, size)

    # The characters of the group are exp(i·π·Σ_a (2·j_a + skew_a)·x_a/n_a).
    twist = np.exp(-1j * np.pi * ((turns / shape) @ places)).reshape(f.shape)
    coefficients = np.fft.fftn(f * twist).ravel()
    matrix = _convolution(f.ravel(), places, shape, turns)
    symmetric = np.array_equal(matrix, matrix.T)
    coefficients = coefficients.real if symmetric else coefficients
    sizes = np.abs(coefficients)
    used = sizes > _ROUNDING * np.linalg.norm(f)
    phases = np.divide(coefficients, sizes, out=np.zeros_like(coefficients), where=used)
    polar = np.fft.ifftn(phases.reshape(f.shape)) / twist
    dual = _convolution(polar.real.ravel() / size, places, shape, turns)

    # Characters come in conjugate pairs, of which the first makes a cosine and a sine. A character
    # that is its own conjugate is real.
    mirrored = (-places - turns[:, None]) % shape[:, None]
    conjugates = np.asarray(np.ravel_multi_index(tuple(mirrored), f.shape))
    first = np.flatnonzero(used & (np.arange(size) <= conjugates))
    alone = conjugates[first] == first
    angles = np.zeros((len(first), size))
    for place, n, turn in zip(places, shape, turns, strict=True):
        angles += np.outer(2 * place[first] + turn, place) % (2 * n) * (np.pi / n)
    lengths = np.sqrt(np.where(alone, 1.0, 2.0) * sizes[first] / size)
    waves = lengths[:, None] * np.exp(1j * angles)
    moved = phases[first][:, None] * waves
    left, right = (np.concatenate([np.real(w), np.imag(w)[~alone]]) for w in (moved, waves))
    signs = np.real(np.concatenate([phases[first], phases[first][~alone]]))
    if not len(first):
        left, right, signs = np.zeros((1, size)), np.zeros((1, size)), np.ones(1)
    weights = uniform(size)
    return claim(matrix, left, right, dual, weights, weights, signs if symmetric else None)


def _convolution(
    f: Float[np.ndarray, " N"],
    places: Int[np.ndarray, "d N"],
    shape: Int[np.ndarray, " d"],
    turns: Bool[np.ndarray, " d"],
) -> Float[np.ndarray, "N N"]:
    """The matrix f(x − y), with f's sign for each skew axis along which x − y is negative."""
    index, sign = np.zeros((places.shape[1],) * 2, np.int64), 1.0
    for place, n, turn in zip(places, shape, turns, strict=True):
        difference = np.subtract.outer(place, place)
        index = index * n + difference % n
        if turn:
            sign = sign * np.where(difference < 0, -1.0, 1.0)
    return sign * f[index]


def kernel_of(matrix: Float[np.ndarray, "N N"]) -> tuple[Float[np.ndarray, "..."], bool] | None:
    """The kernel of a matrix that is circulant, skew-circulant, or a function of x XOR y.

    Returns:
      The arguments with which `circulant` makes the matrix; None for other matrices.
    """
    size, f = len(matrix), matrix[:, 0]
    if np.array_equal(matrix[1:, 1:], matrix[:-1, :-1]):
        for skew in (False, True):
            if np.array_equal(matrix[0, 1:], (1 - 2 * skew) * f[:0:-1]):
                return f, skew
    elif size & (size - 1) == 0:
        places = np.arange(size)
        if np.array_equal(matrix, f[np.bitwise_xor.outer(places, places)]):
            return f.reshape((2,) * (size.bit_length() - 1)), False
    return None

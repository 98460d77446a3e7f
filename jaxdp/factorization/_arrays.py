"""Operations that the solvers need in NumPy as well as in JAX.

A solver is written once. It runs as a compiled program for stacks of matrices and inside of
transformations, and in NumPy for a single matrix of moderate size: there a program would take a
hundred times longer to compile, for each shape anew, than to run.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from .. import _lapack

State = TypeVar("State")


def on_host(value: Any) -> bool:
    """Whether a value is NumPy's."""
    return isinstance(value, np.ndarray | np.generic)


def namespace(array: Any) -> Any:
    """`numpy` for its own arrays and numbers, else `jax.numpy`."""
    return np if on_host(array) else jnp


def while_loop(
    unfinished: Callable[[State], Any], step: Callable[[State], State], state: State
) -> State:
    """`jax.lax.while_loop`, of arrays of either kind."""
    if not all(map(on_host, jax.tree.leaves(state))):
        return jax.lax.while_loop(unfinished, step, state)
    while unfinished(state):
        state = step(state)
    return state


def accumulate(term: Callable[[Any], Any], number: int, host: bool) -> Any:
    """The sum of term(0), ..., term(number − 1), pytrees of arrays."""

    def add(i, total):
        return jax.tree.map(lambda old, new: old + new, total, term(i))

    if host:
        total = term(0)
        for i in range(1, number):
            total = add(i, total)
        return total
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape), jax.eval_shape(term, jnp.int32(0)))
    return jax.lax.fori_loop(0, number, add, zeros)


def choose(condition: Any, first: Callable[[], State], second: Callable[[], State]) -> State:
    """`jax.lax.cond` of functions without arguments."""
    if on_host(condition):
        return first() if condition else second()
    return jax.lax.cond(condition, first, second)


def svd(matrix: Any) -> tuple[Any, Any, Any]:
    """The thin singular value decomposition (U, s, Vᵀ)."""
    if on_host(matrix):
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        return left, values, right
    return _lapack.svd(matrix)


def eigh(matrix: Any) -> tuple[Any, Any]:
    """The eigenvalues, ascending, and eigenvectors of a symmetric matrix."""
    if on_host(matrix):
        values, vectors = np.linalg.eigh(matrix)
        return values, vectors
    return _lapack.eigh(matrix)


def triangle_of(matrix: Any) -> Any:
    """R of the thin QR decomposition."""
    return np.linalg.qr(matrix, mode="r") if on_host(matrix) else _lapack.triangle_of(matrix)


def solve_definite(matrix: Any, right: Any) -> Any:
    """Solves matrix·x = right; NaN where the matrix is not positive definite."""
    if not on_host(matrix):
        return _lapack.solve_by_cholesky(_lapack.cholesky(matrix), right)
    if np.isnan(cholesky(matrix)).any():
        return np.full_like(right, np.nan)
    return np.linalg.solve(matrix, right)


def eigenvalues(matrix: Any) -> Any:
    """The eigenvalues of a symmetric matrix, ascending; NaN where it has NaN."""
    if not on_host(matrix):
        return _lapack.eigvalsh(matrix)
    if not np.isfinite(matrix).all():
        return np.full(len(matrix), np.nan)
    return np.linalg.eigvalsh(matrix)


def cholesky(matrix: Any) -> Any:
    """The lower triangle L of L·Lᵀ = matrix; NaN where the matrix is not positive definite."""
    if not on_host(matrix):
        return _lapack.cholesky(matrix)
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


def solve_transposed(triangle: Any, right: Any) -> Any:
    """Solves triangleᵀ·x = right for an upper triangle."""
    if not on_host(triangle):
        return _lapack.solve_upper_transposed(triangle, right)
    # Backwards it is an upper triangle itself, on which elimination has nothing to do.
    return np.linalg.solve(triangle.T[::-1, ::-1], right[::-1])[::-1]

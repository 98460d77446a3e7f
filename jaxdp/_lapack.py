"""Decompositions and solutions of linear systems, in float64 and in batches that cannot hang.

jaxlib shares out a batch of LAPACK's among the threads of a CPU, or one of Fourier transforms, and
waits for them in one of these threads. Two of them at once, of one program or of two, may each hold
a thread that the other one waits for, and on a machine of two cores they soon do: so here a CPU
does the items of a batch in turn. Nothing else in jaxdp calls LAPACK within a program.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

F = TypeVar("F", bound=Callable[..., Any])


def one_at_a_time(function: F, axes: int = 2) -> F:
    """A function of arrays that a CPU does for one item of a batch after the other.

    Its rule for batches keeps float64 besides: what is inside a jit is batched when the caller's
    vmap reaches it, after the float64 block has ended.

    Args:
      function: of arrays.
      axes: those of the first array; leading ones are a batch, which all arrays have.
    """
    single = jax.custom_batching.custom_vmap(function)

    @single.def_vmap
    def _(axis_size: int, in_batched: list[bool], *arrays: jax.Array) -> tuple[Any, Any]:
        with jax.enable_x64(True):
            rows = [
                x if batched else jnp.broadcast_to(x[None], (axis_size, *x.shape))
                for x, batched in zip(arrays, in_batched, strict=True)
            ]
            found = lax.platform_dependent(
                *rows,
                cpu=lambda *rows: lax.map(lambda row: single(*row), rows),
                default=one_at_a_time(jax.vmap(function), axes + 1),
            )
            return found, jax.tree.map(lambda _: True, found)

    @functools.wraps(function)
    def over_batches(*arrays: jax.Array) -> Any:
        return single(*arrays) if arrays[0].ndim == axes else jax.vmap(over_batches)(*arrays)

    return over_batches  # pyright: ignore[reportReturnType]


@one_at_a_time
def eigh(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The eigenvalues, ascending, and eigenvectors of a symmetric matrix."""
    values, vectors = jnp.linalg.eigh(matrix)
    return values, vectors


@one_at_a_time
def eigvalsh(matrix: jax.Array) -> jax.Array:
    """The eigenvalues of a symmetric matrix, ascending."""
    return jnp.linalg.eigvalsh(matrix)


@one_at_a_time
def cholesky(matrix: jax.Array) -> jax.Array:
    """The lower triangle L of L·Lᵀ = matrix; NaN where the matrix is not positive definite."""
    return lax.linalg.cholesky(matrix, symmetrize_input=False)


@one_at_a_time
def solve_lower(triangle: jax.Array, right: jax.Array) -> jax.Array:
    """Solves L·x = right, float[n, r], for a lower triangle L."""
    return lax.linalg.triangular_solve(triangle, right, left_side=True, lower=True)


@one_at_a_time
def solve_lower_transposed(triangle: jax.Array, right: jax.Array) -> jax.Array:
    """Solves Lᵀ·x = right, float[n, r], for a lower triangle L."""
    return lax.linalg.triangular_solve(
        triangle, right, left_side=True, lower=True, transpose_a=True
    )


@one_at_a_time
def solve_upper_transposed(triangle: jax.Array, right: jax.Array) -> jax.Array:
    """Solves Rᵀ·x = right, float[n, r], for an upper triangle R."""
    return lax.linalg.triangular_solve(triangle, right, left_side=True, transpose_a=True)


@one_at_a_time
def solve(matrix: jax.Array, right: jax.Array) -> jax.Array:
    """Solves matrix·x = right, float[n]."""
    return jnp.linalg.solve(matrix, right)


@one_at_a_time
def inverse(matrix: jax.Array) -> jax.Array:
    """The inverse of a square matrix."""
    return jnp.linalg.inv(matrix)


def solve_by_cholesky(triangle: jax.Array, right: jax.Array) -> jax.Array:
    """Solves L·Lᵀ·x = right, float[n] or float[n, r]."""
    columns = right[:, None] if right.ndim == 1 else right
    return solve_lower_transposed(triangle, solve_lower(triangle, columns)).reshape(right.shape)


@one_at_a_time
def qr(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The thin QR decomposition (Q, R)."""
    orthogonal, triangle = jnp.linalg.qr(matrix)
    return orthogonal, triangle


@one_at_a_time
def triangle_of(matrix: jax.Array) -> jax.Array:
    """R of the thin QR decomposition."""
    return jnp.linalg.qr(matrix, mode="r")


def svd(matrix: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The thin SVD (U, s, Vᵀ) of float[..., m, n]; on a TPU also inside a float64 block.

    jax lowers its own SVD for TPUs after the block has ended, in the precision of the caller. There
    it is made of the polar decomposition A = Q·H and the eigenvectors of H.
    """
    return lax.platform_dependent(
        matrix, tpu=svd_by_polar_decomposition, default=_svd_of_the_library
    )


@one_at_a_time
def _svd_of_the_library(matrix: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    left, values, right = jnp.linalg.svd(matrix, full_matrices=False)
    return left, values, right


def svd_by_polar_decomposition(matrix: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The thin SVD of float[..., m, n], by operations that keep the precision they have."""
    if matrix.ndim > 2:
        return jax.vmap(svd_by_polar_decomposition)(matrix)
    if matrix.shape[0] < matrix.shape[1]:
        left, values, right = svd_by_polar_decomposition(matrix.T)
        return right.T, values, left.T
    orthogonal, positive, _, _ = lax.linalg.qdwh(matrix)
    vectors, values = lax.linalg.eigh(positive)  # ascending
    vectors, values = vectors[:, ::-1], jnp.maximum(values[::-1], 0.0)
    # Q is 0 on the kernel of A: what U lacks there are columns that complete it to a basis.
    left, triangle = jnp.linalg.qr(orthogonal @ vectors)
    signs = jnp.where(jnp.diagonal(triangle) < 0, -1.0, 1.0)
    return left * signs[None, :], values, vectors.T

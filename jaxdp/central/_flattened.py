"""Answers of even order as a matrix, and the nearest one of bounded trace (and sum)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from .._lapack import eigh
from .._subsets import joined, num_subsets
from .._x64 import dot
from ..projections import IntersectionProjection, l1_ball, simplex
from ._convex_set import Intersection


def project_flattened(
    answers: Float64[Array, " N"],
    num_features: int,
    order: int,
    basis: str,
    sparsity: int | None,
    max_steps: int,
) -> IntersectionProjection:
    """The projection of flattened answers, each the mean of its entries, clipped; in x64 only.

    The matrix has a row and a column for each set of at most k / 2 features and the answer of their
    union (or symmetric difference) there. It is moved to the nearest positive semidefinite matrix
    of a trace that all data sets have, or stay below, and with a sparsity of a sum of the absolute
    values of its entries that they stay below.

    Formal guarantees:
      Every answer but the first, 1, stands in at least c entries, so means over them are at most
      1 / sqrt(c) times as far apart as the matrices: `gap`, that of the matrix over c, bounds the
      squared distance of `point` from the means of the exact projection. Without a sparsity that is
      in closed form, and `gap` 0.

    Args:
      answers: 1 first.
      num_features: n.
      order: k, even.
      basis: "marginals" or "parities".
      sparsity: t, only for marginals; or None.
      max_steps: upper limit on the steps where there is a sparsity.
    """
    pairs = joined(num_features, order // 2, basis)
    most = num_features if sparsity is None else sparsity
    # The diagonal has y_S, or the parity 1 of no feature, for the sets S of at most k / 2: a user
    # has all that are made of its features.
    trace = float(num_subsets(most, order // 2))
    matrix = answers[pairs]
    if sparsity is None:
        point = _spectral(matrix, trace, exactly=basis == "parities")
        zero = jnp.zeros((), point.dtype)
        projection = IntersectionProjection(point, zero, zero, jnp.bool_(True), jnp.int32(0))
    else:
        projection = _small_sum(len(pairs), trace).project(matrix, tol=1e-6, max_steps=max_steps)
    # How many entries of the matrix are one answer, which becomes their mean
    times = np.bincount(pairs.reshape(-1)).astype(np.float64)
    total = jax.ops.segment_sum(projection.point.reshape(-1), pairs.reshape(-1), len(times))
    low = 0.0 if basis == "marginals" else -1.0
    return IntersectionProjection(
        jnp.clip(total / times, low, 1.0).at[0].set(1.0),
        projection.residual,
        projection.gap / times[1:].min(),
        projection.converged,
        projection.num_steps,
    )


@functools.lru_cache(maxsize=16)
def _small_sum(size: int, trace: float) -> Intersection:
    """Positive semidefinite matrices of at most this trace, the sum of entries at most its square.

    Within `trace / (2 size)` of as many times the identity: the eigenvalues stay positive, the
    trace grows by `trace / 2`, and so does the sum, for a change of norm r has a trace of at most
    `sqrt(size) r` and a sum of at most `size r`.
    """

    def bounded(x: Array) -> Array:
        return _spectral(x, trace, exactly=False)

    def small(x: Array) -> Array:
        return l1_ball(x.reshape(-1), trace**2).reshape(x.shape)

    inner = trace / (2 * size)
    # The set outlives the program that first asks for it: its arrays must not be traced.
    with jax.ensure_compile_time_eval():
        return Intersection(
            (size, size),
            (bounded, small),
            radius=trace,
            symmetric=True,
            center=inner * np.eye(size),
            inner_radius=inner,
        )


def _spectral(matrix: Float[Array, "D D"], trace: float, exactly: bool) -> Float[Array, "D D"]:
    """The nearest positive semidefinite matrix of a trace, or of at most that."""
    values, vectors = eigh(0.5 * (matrix + matrix.T))
    # Projecting the eigenvalues on a simplex projects the matrix on those of the trace.
    projected = simplex(values, trace)
    if not exactly:
        positive = jnp.maximum(values, 0.0)
        projected = jnp.where(jnp.sum(positive) <= trace, positive, projected)
    return dot(vectors * projected[None, :], vectors.T)

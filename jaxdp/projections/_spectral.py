"""Sets of matrices that are defined by eigenvalues or singular values."""

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from .._lapack import eigh, svd
from .._spec import check_bool
from ._inputs import check_array, check_radius, check_square, symmetrize
from ._simplex import project_l1_ball, project_simplex


def psd(x: ArrayLike) -> jax.Array:
    """The nearest positive semidefinite matrix: negative eigenvalues become 0.

    With the symmetric part (X + Xᵀ)/2 = U diag(λ) Uᵀ the projection is U diag(max(λ, 0)) Uᵀ.

    Formal guarantees:
      * The projection of X itself, symmetric or not: its antisymmetric part is orthogonal to every
        symmetric matrix.
      * Equal to its transpose bit for bit; eigenvalues ≥ −u·‖X‖ with u a few units of rounding.
      * Derivative (Löwner): H ↦ U (Θ ∘ UᵀHU) Uᵀ, Θ_ij = (λ_i⁺ − λ_j⁺)/(λ_i − λ_j), and 1 or 0 for
        eigenvalues on one side of 0. It is finite where eigenvalues coincide, unlike derivatives
        of `jnp.linalg.eigh`; the projection is differentiable where no eigenvalue is 0.

    Args:
      x: float[..., n, n].

    Returns:
      float[..., n, n].

    Raises:
      ValueError: `x` is not finite (outside of jit) or not square.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp import projections
      >>> print(projections.psd(jnp.diag(jnp.array([1.0, -2.0]))))
      [[1. 0.]
       [0. 0.]]

    References:
      Higham (1988), Computing a nearest symmetric positive semidefinite matrix; Malick, Sendov
      (2006), Clarke generalized Jacobian of the projection onto the cone of positive semidefinite
      matrices.
    """
    x = check_square("x", x)
    return _project_symmetric(x, jnp.ones(x.shape[:-2], x.dtype), "psd")


def spectraplex(x: ArrayLike, trace: ArrayLike = 1.0, *, at_most: bool = False) -> jax.Array:
    """The nearest positive semidefinite matrix of given trace, or of trace at most that.

    The eigenvalues of (X + Xᵀ)/2 are projected onto the simplex of sum t.

    Formal guarantees:
      As for `psd`, with the derivative of the projection of the eigenvalues. The trace is t up to
      rounding.

    Args:
      x: float[..., n, n].
      trace: t > 0, a number or an array that broadcasts to the leading axes.
      at_most: project onto {X psd, tr X ≤ t} instead.

    Returns:
      float[..., n, n].

    Raises:
      ValueError: `x` is not finite or not square, or `trace` is not > 0 (outside of jit).

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp import projections
      >>> print(projections.spectraplex(jnp.diag(jnp.array([1.0, 0.5]))))
      [[0.75 0.  ]
       [0.   0.25]]

    References:
      Cohen-Addad et al. (2024), Section A: marginals of even order, flattened, lie in such a set.
    """
    x = check_square("x", x)
    trace = check_radius("trace", trace, x.shape[:-2], x.dtype)
    kind = "at_most" if check_bool("at_most", at_most) else "equal"
    return _project_symmetric(x, trace, kind)


def nuclear_ball(x: ArrayLike, radius: ArrayLike = 1.0) -> jax.Array:
    """The nearest matrix whose singular values sum to at most `radius`.

    The singular values are projected onto the L1 ball. For symmetric matrices the sum is Σ|λ|.

    Formal guarantees:
      Bit for bit `x` inside the ball. The derivative is finite where singular values coincide or
      vanish; it is exact where the projection is differentiable.

    Args:
      x: float[..., m, k].
      radius: r > 0, a number or an array that broadcasts to the leading axes.

    Returns:
      float[..., m, k].

    Raises:
      ValueError: `x` is not finite or has fewer than two axes, or `radius` is not > 0 (outside of
        jit).

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp import projections
      >>> print(projections.nuclear_ball(jnp.array([[0.0, 1.0], [0.5, 0.0]])).round(4))
      [[0.   0.75]
       [0.25 0.  ]]
    """
    x = check_array("x", x, "m, k", 2)
    return _project_nuclear(x, check_radius("radius", radius, x.shape[:-2], x.dtype))


def _project_eigenvalues(values, radius, kind):
    if kind == "psd":
        return jnp.maximum(values, 0.0)
    positive = jnp.maximum(values, 0.0)
    if kind == "at_most":
        # Too large a trace makes the bound tight: then the nearest point has the trace itself.
        inside = jnp.sum(positive, axis=-1) <= radius
        return jnp.where(inside[..., None], positive, project_simplex(values, radius))
    return project_simplex(values, radius)


def recompose(vectors: jax.Array, values: jax.Array) -> jax.Array:
    """U diag(values) Uᵀ, symmetric bit for bit."""
    scaled = vectors * values[..., None, :]
    return symmetrize(jnp.matmul(scaled, jnp.swapaxes(vectors, -1, -2), precision="highest"))


@functools.partial(jax.jit, static_argnames="kind")
def _symmetric_parts(x, radius, kind):
    values, vectors = eigh(x)
    projected = _project_eigenvalues(values, radius, kind)
    return recompose(vectors, projected), values, vectors, projected


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _project_symmetric(x, radius, kind):
    return _symmetric_parts(x, radius, kind)[0]


@_project_symmetric.defjvp
def _project_symmetric_jvp(kind, primals, tangents):
    (x, radius), (dx, dradius) = primals, tangents
    out, values, vectors, projected = _symmetric_parts(x, radius, kind)
    transposed = jnp.swapaxes(vectors, -1, -2)
    inner = transposed @ symmetrize(dx) @ vectors
    # The eigenvalues move by the diagonal, and their projection as a vector does.
    moved = jnp.diagonal(inner, axis1=-2, axis2=-1)
    _, diagonal = jax.jvp(
        lambda v, r: _project_eigenvalues(v, r, kind), (values, radius), (moved, dradius)
    )
    rotated = divided_differences(values, projected) * inner
    size = x.shape[-1]
    rotated = jnp.where(jnp.eye(size, dtype=bool), diagonal[..., None], rotated)
    return out, symmetrize(vectors @ rotated @ transposed)


def divided_differences(values: jax.Array, projected: jax.Array) -> jax.Array:
    """(p_i − p_j)/(λ_i − λ_j) for p = max(λ − τ, 0), with 1 or 0 where λ_i = λ_j."""
    positive = projected > 0
    both = positive[..., :, None] & positive[..., None, :]
    neither = ~(positive[..., :, None] | positive[..., None, :])
    change = projected[..., :, None] - projected[..., None, :]
    distance = values[..., :, None] - values[..., None, :]
    mixed = change / jnp.where(both | neither | (distance == 0), 1.0, distance)
    return jnp.where(both, 1.0, jnp.where(neither, 0.0, mixed))


@jax.jit
def _nuclear_parts(x, radius):
    left, values, right = svd(x)
    projected = project_l1_ball(values, radius)
    out = jnp.matmul(left * projected[..., None, :], right, precision="highest")
    inside = jnp.sum(values, axis=-1) <= radius
    return jnp.where(inside[..., None, None], x, out), left, values, right, projected, inside


@jax.custom_jvp
def _project_nuclear(x, radius):
    return _nuclear_parts(x, radius)[0]


@_project_nuclear.defjvp
def _project_nuclear_jvp(primals, tangents):
    (x, radius), (dx, dradius) = primals, tangents
    out, left, values, right, projected, inside = _nuclear_parts(x, radius)
    right = jnp.swapaxes(right, -1, -2)
    inner = jnp.swapaxes(left, -1, -2) @ dx @ right
    even, odd = symmetrize(inner), inner - symmetrize(inner)
    moved = jnp.diagonal(inner, axis1=-2, axis2=-1)
    _, diagonal = jax.jvp(project_l1_ball, (values, radius), (moved, dradius))

    total = values[..., :, None] + values[..., None, :]
    both = projected[..., :, None] + projected[..., None, :]
    # In the basis of singular vectors the symmetric part of a change moves by the differences of
    # singular values, the antisymmetric part by their sums.
    turned = both / jnp.where(total > 0, total, 1.0)
    rotated = divided_differences(values, projected) * even + turned * odd
    rotated = jnp.where(jnp.eye(values.shape[-1], dtype=bool), diagonal[..., None], rotated)
    # Directions outside of the rows or columns of x turn with the ratio of the singular values.
    ratio = (projected / jnp.where(values > 0, values, 1.0))[..., None, :]
    new_left = dx @ right - left @ inner
    new_right = jnp.swapaxes(dx, -1, -2) @ left - right @ jnp.swapaxes(inner, -1, -2)
    tangent = (left @ rotated + ratio * new_left) @ jnp.swapaxes(right, -1, -2)
    tangent = tangent + left @ jnp.swapaxes(ratio * new_right, -1, -2)
    return out, jnp.where(inside[..., None, None], dx, tangent)

"""Balls of the Euclidean norm, and boxes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._spec import as_float64, is_traced
from .._x64 import one_program
from ._inputs import check_array, check_radius


def l2_ball(x: ArrayLike, radius: ArrayLike = 1.0) -> jax.Array:
    """The nearest point with Euclidean norm ≤ `radius`: x·min(1, r/‖x‖).

    Formal guarantees:
      Norms neither overflow nor underflow. Derivative: exact inside and outside, that of the
      inside on the sphere, and finite at 0.

    `optax.projections.projection_l2_ball` takes a whole array as one vector, and squares it: in
    float32 it maps entries above 2e19 to 0.

    Args:
      x: float[..., d]; the last axis is projected.
      radius: r > 0, a number or an array that broadcasts to the leading axes.

    Returns:
      float[..., d]; bit for bit `x` inside the ball.

    Raises:
      ValueError: `x` is not finite or has no last axis, or `radius` is not > 0 (outside of jit).

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp import projections
      >>> print(projections.l2_ball(jnp.array([[3.0, 4.0], [0.3, 0.4]])))
      [[0.6 0.8]
       [0.3 0.4]]
    """
    x = check_array("x", x, "d", 1)
    return _shrink(x, check_radius("radius", radius, x.shape[:-1], x.dtype), axes=(-1,))


def column_norm_ball(x: ArrayLike, radius: ArrayLike = 1.0) -> jax.Array:
    """The nearest matrix whose columns have Euclidean norms ≤ `radius`.

    Every column is projected as by `l2_ball`: the set of the right factors of a factorization
    mechanism, one column a user's value.

    Args:
      x: float[..., m, k].
      radius: r > 0, a number or an array that broadcasts to [..., k].

    Returns:
      float[..., m, k].

    Raises:
      ValueError: `x` is not finite or has fewer than two axes, or `radius` is not > 0 (outside of
        jit).

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp import projections
      >>> print(projections.column_norm_ball(jnp.array([[3.0, 0.0], [4.0, 0.5]])))
      [[0.6 0. ]
       [0.8 0.5]]
    """
    x = check_array("x", x, "m, k", 2)
    lead = (*x.shape[:-2], x.shape[-1])
    return _shrink(x, check_radius("radius", radius, lead, x.dtype), axes=(-2,))


def frobenius_ball(x: ArrayLike, radius: ArrayLike = 1.0) -> jax.Array:
    """The nearest matrix with Frobenius norm ≤ `radius`: x·min(1, r/‖x‖_F).

    After `psd`, the two together project onto {X psd, ‖X‖_F ≤ r}: for a cone and a ball around its
    apex the order does the intersection.

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
      >>> print(projections.frobenius_ball(2 * jnp.eye(4)))
      [[0.5 0.  0.  0. ]
       [0.  0.5 0.  0. ]
       [0.  0.  0.5 0. ]
       [0.  0.  0.  0.5]]
    """
    x = check_array("x", x, "m, k", 2)
    return _shrink(x, check_radius("radius", radius, x.shape[:-2], x.dtype), axes=(-2, -1))


def box(x: ArrayLike, low: ArrayLike = -np.inf, high: ArrayLike = np.inf) -> jax.Array:
    """The nearest point with low ≤ w ≤ high, entry by entry: clipping.

    `box(x, low=0)` is the non-negative orthant and `box(x, -c, c)` the ball of the maximum norm.

    Args:
      x: float[...].
      low: float[...] that broadcasts to the shape of x; may be −inf.
      high: float[...] that broadcasts to the shape of x; may be inf.

    Returns:
      float[...]. The derivative is 1 strictly inside, 0 strictly outside.

    Raises:
      ValueError: `x` is not finite, a bound does not fit, or low > high somewhere (outside of jit).

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp import projections
      >>> print(projections.box(jnp.array([-0.5, 0.25, 2.0]), 0, 1))
      [0.   0.25 1.  ]
    """
    x = check_array("x", x, "", 0)
    bounds = []
    for name, bound in (("low", low), ("high", high)):
        if not is_traced(bound):
            wide = as_float64(name, bound)
            if np.any(np.isnan(wide)):
                raise ValueError(f"{name} must not be NaN, got {bound!r}.")
            if np.any(np.isfinite(wide) & (np.abs(wide) > float(jnp.finfo(x.dtype).max))):
                raise ValueError(
                    f"{name} must be within the range of {x.dtype}, the type of x, or infinite, "
                    f"got {bound!r}."
                )
        bound = jnp.asarray(bound, x.dtype)
        shapes = zip(bound.shape[::-1], x.shape[::-1], strict=False)
        if bound.ndim > x.ndim or any(ours not in (1, theirs) for ours, theirs in shapes):
            raise ValueError(
                f"{name} must broadcast to the shape {x.shape} of x, got shape {bound.shape}."
            )
        bounds.append(jnp.broadcast_to(bound, x.shape))
    if not is_traced(bounds) and bool(jnp.any(bounds[0] > bounds[1])):
        raise ValueError(f"low must be <= high everywhere, got low = {low!r}, high = {high!r}.")
    return jnp.clip(x, min=bounds[0], max=bounds[1])


@functools.partial(one_program, static_argnames="axes")
def _shrink(x, radius, axes):
    """x·min(1, r/‖x‖) over the axes; the radius has the shape of the other axes."""
    radius = jnp.expand_dims(radius, axes)
    # Scaled by a number the result does not depend on; the root is of a positive number.
    largest = jnp.maximum(jnp.max(jnp.abs(x), axis=axes, keepdims=True), radius)
    scale = jax.lax.stop_gradient(largest)
    squares = jnp.sum((x / scale) ** 2, axis=axes, keepdims=True)
    limit = radius / scale
    outside = squares > limit**2
    norm = jnp.sqrt(jnp.where(outside, squares, 1.0))
    return jnp.where(outside, (limit / norm) * x, x)

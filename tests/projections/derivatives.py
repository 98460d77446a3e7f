"""Derivatives against central differences, with few compilations."""

import jax
import jax.numpy as jnp
import numpy as np


def check(function, x, *, modes=("rev", "fwd"), step=1e-6, tol=1e-6):
    """Asserts that the derivatives of `function` at float64 `x` along a few directions are right.

    `function` maps an array to an array; x64 must be on.
    """
    x = jnp.asarray(x)
    compiled = jax.jit(function)
    out = compiled(x)
    rng = np.random.default_rng(0)
    direction = jnp.asarray(rng.standard_normal(x.shape))
    weights = jnp.asarray(rng.standard_normal(out.shape))
    ahead, behind = compiled(x + step * direction), compiled(x - step * direction)
    measured = np.asarray(ahead - behind) / (2 * step)
    if "fwd" in modes:
        moved = jax.jit(lambda x, d: jax.jvp(function, (x,), (d,))[1])(x, direction)
        np.testing.assert_allclose(moved, measured, atol=tol, rtol=tol)
    if "rev" in modes:
        pulled = jax.jit(lambda x, w: jax.vjp(function, x)[1](w)[0])(x, weights)
        along = float(jnp.sum(pulled * direction))
        np.testing.assert_allclose(along, np.sum(weights * measured), atol=tol, rtol=tol)

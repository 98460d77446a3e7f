"""What is made for a platform that lacks it: tested where the platform's own is at hand too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp._x64 import svd, svd_by_polar_decomposition

GRADED = np.diag([1.0, 1e-4, 1e-9, 0.0]) @ np.arange(1, 17).reshape(4, 4) ** 1.5
MATRICES = {
    "tall": np.random.default_rng(0).normal(size=(9, 5)),
    "wide": np.random.default_rng(1).normal(size=(5, 9)),
    "equal rows": np.tile(np.arange(1.0, 5), (6, 1)),
    "graded": GRADED,
    "prefix": np.tril(np.ones((16, 16))),
    "zero": np.zeros((4, 3)),
    "negative": -np.eye(5),
}


@pytest.mark.parametrize("x", MATRICES.values(), ids=MATRICES)
def test_svd_by_polar_decomposition(x):
    with jax.enable_x64(True):
        matrix = jnp.asarray(x, jnp.float64)
        found = jax.jit(svd_by_polar_decomposition)(matrix)
        left, values, right = map(np.asarray, found)
        expected = np.asarray(svd(matrix)[1])
    rounding = 1e-14 * x.size * np.abs(x).max()
    np.testing.assert_allclose(values, expected, rtol=0, atol=rounding)
    np.testing.assert_allclose((left * values) @ right, x, rtol=0, atol=rounding)
    np.testing.assert_allclose(left.T @ left, np.eye(len(values)), rtol=0, atol=1e-13)
    np.testing.assert_allclose(right @ right.T, np.eye(len(values)), rtol=0, atol=1e-13)

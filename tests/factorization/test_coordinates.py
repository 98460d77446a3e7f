"""Factors have coordinates that the matrix determines, however a machine rounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import factorization as fz
from jaxdp import workloads
from jaxdp.factorization import _factors

MATRICES = {
    "many equal axes": workloads.identity(8),
    "equal axes and zeros": np.kron(np.eye(3), np.ones((2, 2))),
    "reflection": np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0))) - 2,
    "signs": workloads.kendall(3, 3),
    "parities": workloads.parity(3, 2),
    "prefix": workloads.prefix(9),
}


def check_turned(axes, rows):
    """Rows that are turned have the same coordinates along their axes."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        wanted = axes(jnp.asarray(rows)).T @ rows
        for _ in range(4):
            turned = np.linalg.qr(rng.normal(size=(len(rows), len(rows))))[0] @ rows
            np.testing.assert_allclose(axes(jnp.asarray(turned)).T @ turned, wanted, atol=1e-9)


@pytest.mark.parametrize("name", MATRICES)
def test_the_gram_matrix_determines_coordinates(name):
    check_turned(_factors.principal_axes, MATRICES[name])


@pytest.mark.parametrize("name", ["many equal axes", "prefix"])
def test_principal_axes_are_not_determined(name):
    """They turn in their spaces, or at least change their signs."""
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_turned(lambda rows: jnp.linalg.eigh(rows @ rows.T)[1], MATRICES[name])


def coordinates(result):
    """Both factors, without the coordinates that answer nothing, wherever they stand."""
    used = np.any(result.left, axis=1)
    return np.concatenate([result.left[used], result.right[used]])


@pytest.mark.parametrize("solve", [fz.gamma2, fz.signed])
@pytest.mark.parametrize("name", ["many equal axes", "equal axes and zeros", "reflection", "signs"])
def test_factors_move_with_the_last_bits_of_a_matrix_alone(name, solve):
    matrix = MATRICES[name]
    noise = np.random.default_rng(0).normal(size=(4, *matrix.shape))
    found = [coordinates(solve(matrix * (1 + 4e-16 * (x + x.T)))) for x in noise]
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0], atol=1e-5)

"""Matrices that are solved in halves, against what solves any matrix."""

import functools

import jax
import numpy as np
import pytest

from jaxdp import factorization as fz
from jaxdp import workloads


@pytest.mark.parametrize("value", [0.0, 0.1, -1e10])
def test_a_constant_is_nothing_but_its_shift(value):
    matrix = np.full((3, 3), value)
    found = fz.signed(matrix, shift=True)
    fz.certify(matrix, found)
    assert found.upper == 0
    assert found.shift == value


def backwards_alike(shape, sign, seed=0):
    matrix = np.random.default_rng(seed).normal(size=shape)
    return matrix + sign * matrix[::-1, ::-1]


HALVED = {
    "even": backwards_alike((16, 18), 1),
    "odd": backwards_alike((17, 17), 1),
    "negated": backwards_alike((16, 17), -1),
    "negated, odd": backwards_alike((17, 16), -1),
    "distances": workloads.lipschitz(17),
    "kendall": workloads.kendall(4, 5),
    "prefix": workloads.prefix(17),
    "toeplitz": np.random.default_rng(1).normal(size=33)[
        np.subtract.outer(np.arange(17), np.arange(17))
    ],
}


CASES = [(norm, name) for norm in ("gamma2", "gamma_f", "signed") for name in HALVED]
QUICK = [("gamma2", "odd"), ("gamma2", "negated"), ("signed", "distances"), ("gamma2", "prefix")]


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize(
    ("norm", "name"),
    [case if case in QUICK else pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
def test_matrices_that_read_alike_backwards_are_solved_in_halves(norm, name, shift):
    """As under jit, where nobody can see that they do."""
    matrix = HALVED[name]
    if norm == "signed" and not np.array_equal(matrix, matrix.T):
        matrix = matrix @ np.diag(np.linspace(-1, 1, matrix.shape[1]) ** 3) @ matrix.T
    solve = functools.partial(getattr(fz, norm), shift=shift)
    found = solve(matrix)
    assert found.converged
    assert fz.certify(matrix, found).gap <= 1e-6
    with jax.enable_x64(True):
        blind = jax.tree.map(np.asarray, jax.jit(solve)(matrix))
    assert found.lower <= blind.upper * (1 + 1e-9)
    assert blind.lower <= found.upper * (1 + 1e-9)


@pytest.mark.parametrize("sign", [1, -1])
def test_halves_of_several_matrices_are_those_of_each(sign):
    """Several are solved by a compiled program, and one by NumPy."""
    matrices = np.stack([backwards_alike((16, 17), sign, seed) for seed in (0, 1)])
    for shift in (False, True):
        together = fz.gamma2(matrices, shift=shift)
        for i, matrix in enumerate(matrices):
            alone = fz.gamma2(matrix, shift=shift)
            found = jax.tree.map(lambda x, i=i: x[i], together)
            assert fz.certify(matrix, found).gap <= 1e-6
            np.testing.assert_allclose(found.upper, alone.upper, rtol=1e-9)
            np.testing.assert_allclose(found.lower, alone.lower, rtol=1e-9)


def test_a_large_matrix_is_solved_in_halves():
    """More than 256 rows are solved by a compiled program, too."""
    matrix = workloads.lipschitz(257)
    found = fz.gamma2(matrix, shift=True)
    assert fz.certify(matrix, found).gap <= 1e-6

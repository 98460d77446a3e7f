"""What is made for a platform that lacks it, and that batches of LAPACK's cannot hang.

jaxlib's own batches wait for each other forever, now and then: of six processes that solved a stack
of 32 matrices twenty times, on two cores, three stopped. Nothing here waits for that to happen.
Programs must not have such a batch, which is looked for before they are compiled.
"""

import functools
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp import factorization, projections, randomizers, reports
from jaxdp._lapack import svd, svd_by_polar_decomposition

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


SOLVERS = {
    "gamma2": factorization.gamma2,
    "gamma2, shifted": functools.partial(factorization.gamma2, shift=True),
    "gamma_f": factorization.gamma_f,
    "signed": lambda w: factorization.signed(w + jnp.swapaxes(w, -1, -2)),
    "gamma2_dual": factorization.gamma2_dual,
    "gamma2_approx": functools.partial(factorization.gamma2_approx, alpha=0.1),
    "zeta": functools.partial(factorization.zeta, weight=2.0),
    "projected_gradient": functools.partial(
        factorization.projected_gradient, rank=3, alpha=0.1, num_steps=3
    ),
    "gamma2_rank": functools.partial(factorization.gamma2_rank, rank=3, alpha=0.5),
    "maximum_likelihood": lambda tallies: (
        reports.maximum_likelihood(_CHANNEL, jnp.abs(tallies)).probabilities
    ),
    "psd": projections.psd,
    "nuclear_ball": projections.nuclear_ball,
    "correlation": lambda x: projections.correlation(x).point,
    "ProjectiveGeometryResponse": lambda keys: jax.vmap(
        lambda key: jaxdp.run(_SUPPORT, _USERS, jax.random.key(key[0, 0]), method="tally")
    )(keys.astype(jnp.int32)),
}
_SUPPORT = randomizers.ProjectiveGeometryResponse(6, 1.0)
_USERS = jaxdp.Population.from_histogram([1000] * 6)
_CHANNEL = (np.ones((6, 6)) + np.eye(6)) / 7


def batched_calls(function, *shapes) -> list[str]:
    """The calls of LAPACK's, and the Fourier transforms, that a CPU does for several at once."""
    program = jax.jit(function).trace(*shapes).lower(lowering_platforms=("cpu",)).as_text()
    found = re.findall(r"@(lapack_\w+)\(.*-> .?tensor<(\d+)x\d+x\d+x", program)
    found += re.findall(r"(stablehlo\.fft) .*-> tensor<(\d+)x\d+x", program)
    return [name for name, number in found if int(number) > 1]


@pytest.mark.parametrize("solve", SOLVERS.values(), ids=SOLVERS)
def test_stacks_have_no_batch_that_may_hang(solve):
    assert not batched_calls(solve, jax.ShapeDtypeStruct((4, 6, 6), jnp.float32))


@pytest.mark.parametrize("call", [jnp.linalg.eigh, jnp.linalg.svd, jnp.fft.rfft])
def test_batches_are_found(call):
    assert batched_calls(jax.vmap(call), jax.ShapeDtypeStruct((4, 6, 6), jnp.float32))


def test_nothing_else_calls_lapack():
    """By the source: a program that no test lowers may hang as well."""
    calls = re.compile(r"\b(?:jnp|lax|jax\.\w+)\.(?:linalg|fft)\.(?!norm)\w+\(|jax\.scipy\.linalg")
    package = pathlib.Path(jaxdp.__file__).parent
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if calls.search(path.read_text())
    }
    assert found == {"_lapack.py", "randomizers/_projective_geometry.py"}

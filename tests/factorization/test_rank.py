"""Low rank: random projection, optimised factors and the matmul-only solver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import factorization as fz
from jaxdp import workloads
from jaxdp.factorization._descent import polar, product
from tests.marks import slow

W = workloads.prefix(32)
ALPHA = 0.3
SIGNS = workloads.kendall(5, 6)


@pytest.fixture(scope="module")
def optimised():
    return fz.gamma2_rank(W, 12, ALPHA)


@pytest.fixture(scope="module")
def descended():
    return fz.projected_gradient(W, 12, ALPHA)


@pytest.mark.slow
def test_both_keep_their_promises(optimised, descended):
    for result in (optimised, descended):
        fz.certify(W, result)
        assert result.rank == 12
        assert result.alpha <= ALPHA
        assert np.abs(result.matrix - W).max() <= ALPHA
        assert result.lower <= fz.gamma2_approx(W, ALPHA).upper


def test_a_third_of_the_rank_costs_a_tenth_of_the_norm(optimised):
    assert optimised.upper <= 1.1 * fz.gamma2_approx(W, ALPHA).upper


@pytest.mark.slow
def test_optimised_factors_beat_random_projection(optimised):
    exact = fz.gamma2(W)
    for seed in range(5):
        projected = fz.johnson_lindenstrauss(W, exact, 12, seed=seed)
        fz.certify(W, projected)
        assert projected.rank == 12
        assert optimised.alpha < 0.5 * projected.alpha
        assert optimised.upper < projected.upper


def test_random_projections_improve_with_rank_and_are_unbiased():
    """The mean over 200 projections is within 6 standard errors of W, entry by entry."""
    exact = fz.gamma2(W)
    errors = [fz.johnson_lindenstrauss(W, exact, rank).alpha for rank in (4, 64, 1024)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    draws = np.array([fz.johnson_lindenstrauss(W, exact, 64, seed=s).matrix for s in range(200)])
    standard = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - W) <= 6.5 * standard + 1e-12)


@pytest.mark.slow
def test_an_exact_low_rank_matrix_needs_no_more(rng):
    matrix = np.kron(workloads.kendall(4, 4), np.ones((2, 2)))
    result = fz.gamma2_rank(matrix, 16, 0.05, num_steps=2000)
    fz.certify(matrix, result)
    assert result.upper <= 1.03 * fz.gamma2_approx(matrix, 0.05).upper


def test_an_unreachable_tolerance_is_reported():
    matrix = workloads.rademacher(32, 32, seed=3)
    for result in (
        fz.gamma2_rank(matrix, 12, 0.1, num_steps=200),
        fz.projected_gradient(matrix, 12, 0.1, num_steps=200),
    ):
        assert not result.converged
        assert result.alpha > 0.1
        fz.certify(matrix, result)


def test_full_rank_is_the_unrestricted_norm():
    result = fz.gamma2_rank(W, 40, ALPHA)
    np.testing.assert_array_equal(result.upper, fz.gamma2_approx(W, ALPHA, tol=1e-3).upper)
    assert fz.gamma2_rank(np.zeros((3, 4)), 2, 0.1).upper == 0


@pytest.mark.parametrize("size", [0.0, 1e-320])
def test_projected_gradient_of_nothing(size):
    result = fz.projected_gradient(np.full((3, 4), size), 2, 1e6, num_steps=3)
    fz.certify(np.full((3, 4), size), result)
    assert (result.rank, result.lower) == (2, 0)
    assert result.upper <= size
    assert all(np.all(np.isfinite(x)) for x in (result.left, result.right, result.dual))


def test_projected_gradient_takes_no_endless_reweighting():
    with pytest.raises(ValueError, match="num_reweights must be"):
        fz.projected_gradient(W, 12, ALPHA, num_reweights=10**6)


def test_projected_gradient_proves_bounds_close_to_the_norm():
    result = fz.projected_gradient(SIGNS, 30, 0.1)
    exact = fz.gamma2_approx(SIGNS, 0.1)
    assert result.upper <= 1.05 * exact.upper
    assert result.lower >= 0.95 * exact.lower
    assert result.converged == (result.gap <= 0.05)


def test_results_do_not_depend_on_units():
    small, large = (fz.projected_gradient(c * W, 12, c * ALPHA, num_steps=50) for c in (1.0, 64.0))
    np.testing.assert_allclose(large.upper, 64 * small.upper, rtol=1e-3)


def test_newton_schulz_finds_the_polar_factor(rng):
    matrix = jnp.asarray(rng.normal(size=(12, 8)), jnp.float32)
    left, _, right = np.linalg.svd(np.asarray(matrix), full_matrices=False)
    np.testing.assert_allclose(jax.jit(polar)(matrix), left @ right, atol=1e-5)


def test_products_of_float32_use_the_matrix_units_of_a_gpu(rng):
    left, right = rng.normal(size=(2, 8, 8)).astype(np.float32)
    np.testing.assert_allclose(jax.jit(product)(left, right), left @ right, rtol=1e-5)

    def algorithms(platform, *factors):
        with jax.enable_x64(True):
            lowered = jax.export.export(jax.jit(product), platforms=[platform])(*factors)
        return lowered.mlir_module().count("num_primitive_operations = 6")

    assert algorithms("cuda", left, right) == 1
    assert algorithms("cpu", left, right) == algorithms("tpu", left, right) == 0
    assert algorithms("cuda", np.float64(left), np.float64(right)) == 0


@pytest.mark.slow
def test_a_stack_is_searched_in_one_call():
    stack = np.stack([W, 2 * W[::-1]])
    exact = fz.gamma2(stack)
    for result in (
        fz.gamma2_rank(stack, 12, ALPHA, num_steps=100),
        fz.projected_gradient(stack, 12, ALPHA, num_steps=50),
        fz.johnson_lindenstrauss(stack, exact, 12),
    ):
        assert result.left.shape == (2, 12, 32)
        fz.certify(stack, result)


SEARCHES = {
    "gamma2_rank": lambda w, alpha: fz.gamma2_rank(w, 5, alpha, num_steps=60),
    "projected_gradient": lambda w, alpha: fz.projected_gradient(w, 5, alpha, num_steps=60),
    "johnson_lindenstrauss": lambda w, alpha: fz.johnson_lindenstrauss(w, fz.gamma2(w), 5),
}


@pytest.mark.parametrize("search", [slow("gamma2_rank"), *list(SEARCHES)[1:]])
def test_inside_of_jit_and_vmap(search, rng):
    """The same factors up to float32, with bounds that hold, for a level of each matrix."""
    search = SEARCHES[search]
    stack, levels = rng.normal(size=(3, 8, 9)), np.array([0.1, 0.3, 0.2])
    eager = [search(w, a) for w, a in zip(stack, levels, strict=True)]
    traced = jax.jit(jax.vmap(search))(stack.astype(np.float32), levels.astype(np.float32))
    assert traced.left.dtype == np.float32
    for i, one in enumerate(eager):
        np.testing.assert_allclose(traced.upper[i], one.upper, rtol=0.02)
        assert traced.left[i].shape == (5, 8)
        fits = np.abs(traced.left[i].T @ traced.right[i] - stack[i]).max()
        assert fits <= traced.alpha[i] * (1 + 1e-5) + 1e-6


@pytest.mark.slow
def test_a_thousand_matrices_in_one_call(rng, count_compilations):
    stack = rng.normal(size=(1000, 32, 32))
    fz.projected_gradient(stack[::-1], 12, 0.5, num_steps=20)
    with count_compilations() as seen:
        found = fz.projected_gradient(stack, 12, 0.5, num_steps=20)
    assert not seen.compiled
    assert found.left.shape == (1000, 12, 32)
    fz.certify(stack[:5], jax.tree.map(lambda x: x[:5], found))


BAD = [
    (lambda: fz.gamma2_rank(W, 0, 0.1), ValueError, "rank"),
    (lambda: fz.gamma2_rank(W, 2.5, 0.1), TypeError, "rank"),
    (lambda: fz.gamma2_rank(W, 3, -0.1), ValueError, "alpha"),
    (lambda: fz.gamma2_rank(np.stack([W, W]), 3, [0.1, 0.2, 0.3]), ValueError, "alpha"),
    (lambda: fz.projected_gradient(W, 3, 0.0), ValueError, "alpha"),
    (lambda: fz.projected_gradient(W, 3, np.nan), ValueError, "alpha"),
    (lambda: fz.projected_gradient([[np.inf]], 3, 0.1), ValueError, "matrix"),
    (
        lambda: fz.projected_gradient(np.broadcast_to(1.0, (10**6, 10**6)), 3, 0.1),
        ValueError,
        "bytes",
    ),
    (lambda: fz.johnson_lindenstrauss(W, fz.explicit.identity(4), 3), ValueError, "result"),
    (lambda: fz.johnson_lindenstrauss(W, fz.gamma2(W), 3, seed=-1), ValueError, "seed"),
]


@pytest.mark.parametrize(("call", "error", "name"), BAD)
def test_bad_input_is_named(call, error, name):
    with pytest.raises(error, match=name):
        call()

"""Norms are differentiable: their gradients are the witnesses that prove them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import factorization as fz

STEP = 1e-4
SYMMETRIC = ("signed", "signed shifted")
NORMS = {
    "gamma2": lambda w: fz.gamma2(w, tol=1e-9),
    "gamma2 shifted": lambda w: fz.gamma2(w, shift=True, tol=1e-9),
    "gamma_f": lambda w: fz.gamma_f(w, tol=1e-9),
    "gamma_f shifted": lambda w: fz.gamma_f(w, shift=True, tol=1e-9),
    "signed": lambda w: fz.signed((w + w.T) / 2, tol=1e-9),
    "signed shifted": lambda w: fz.signed((w + w.T) / 2, shift=True, tol=1e-9),
    "gamma2_dual": lambda w: fz.gamma2_dual(w, tol=1e-9),
    "gamma2_approx": lambda w: fz.gamma2_approx(w, 0.2, tol=1e-7, max_steps=20_000),
    "gamma_f_approx": lambda w: fz.gamma_f_approx(w, 0.2, tol=1e-7, max_steps=20_000),
    "zeta": lambda w: fz.zeta(w, weight=1.5, tol=1e-7, max_steps=20_000),
}
QUICK = ("gamma2", "gamma_f", "signed shifted", "gamma2_dual")


@pytest.mark.parametrize(
    "norm", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NORMS]
)
def test_gradients_are_those_of_finite_differences(norm, rng):
    matrix, direction = rng.normal(size=(2, 4, 4))
    with jax.enable_x64(True):
        value = jax.jit(lambda w: NORMS[norm](w).upper)
        slope = jax.jit(jax.grad(value))(jnp.asarray(matrix))
        ends = [float(value(jnp.asarray(matrix + s * STEP * direction))) for s in (-1, 1)]
    found = float(np.sum(np.asarray(slope) * direction))
    assert found == pytest.approx((ends[1] - ends[0]) / (2 * STEP), rel=1e-4, abs=1e-5)


def test_gradients_of_stacks_in_a_32_bit_program(rng):
    stack = rng.normal(size=(3, 4, 4)).astype(np.float32)
    found = jax.jit(jax.grad(lambda w: jnp.sum(fz.gamma2(w).lower)))(stack)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, fz.gamma2(stack).dual, atol=1e-4)


@pytest.mark.slow
def test_gradients_by_the_tolerance_and_the_price(rng):
    matrix = rng.normal(size=(4, 4))
    with jax.enable_x64(True):
        for norm, at in (
            (lambda x: fz.gamma2_approx(matrix, x, tol=1e-7, max_steps=20_000), 0.2),
            (lambda x: fz.zeta(matrix, weight=x, tol=1e-7, max_steps=20_000), 1.5),
        ):
            value = jax.jit(lambda x, norm=norm: norm(x).upper)
            ends = [float(value(at + s * STEP)) for s in (-1, 1)]
            expected = (ends[1] - ends[0]) / (2 * STEP)
            assert float(jax.grad(value)(at)) == pytest.approx(expected, rel=1e-3)


def test_gradients_by_one_price_of_a_stack(rng):
    stack = rng.normal(size=(2, 3, 3, 4)).astype(np.float32)

    def total(price):
        return jnp.sum(fz.zeta(stack, weight=price, max_steps=200).upper)

    each = np.asarray(jax.jit(jax.grad(total))(jnp.full((2, 3), 1.5)))
    for shape in ((), (3,), (2, 1), (1, 3)):
        found = np.asarray(jax.jit(jax.grad(total))(jnp.full(shape, 1.5)))
        wide = each.reshape(-1, *shape) if len(shape) < 2 else each
        axes = tuple(i for i, size in enumerate(shape) if size == 1)
        expected = wide.sum(axis=0) if len(shape) < 2 else wide.sum(axis=axes, keepdims=True)
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_what_has_no_gradient_is_refused():
    matrix = jnp.eye(3)
    for name in ("left", "right", "gap", "dual"):
        with pytest.raises(TypeError, match=f"{name} of Factorization has no gradient"):
            jax.grad(lambda w, name=name: jnp.sum(getattr(fz.gamma2(w), name)))(matrix)
    with pytest.raises(TypeError, match="tol must not be differentiated"):
        jax.grad(lambda tol: fz.gamma2(matrix, tol=tol).upper)(1e-6)
    with pytest.raises(TypeError, match="core of DualNorm has no gradient"):
        jax.grad(lambda w: jnp.sum(fz.gamma2_dual(w).core))(matrix)


def test_a_workload_is_improved_by_descent(rng):
    """The mixture of two queries that is cheapest to answer, by projected steps of the gradient."""
    first, second = rng.normal(size=(2, 3, 4)).astype(np.float32)

    def cost(share):
        return fz.gamma2(share * first + (1 - share) * second).upper

    step = jax.jit(jax.value_and_grad(cost))
    share, costs = jnp.float32(0.9), []
    for _ in range(40):
        found, slope = step(share)
        costs.append(float(found))
        share = jnp.clip(share - 0.05 * slope, 0.0, 1.0)
    grid = [float(cost(x)) for x in np.linspace(0, 1, 41, dtype=np.float32)]
    assert costs[-1] <= min(grid) * 1.001
    assert costs[-1] < costs[0]

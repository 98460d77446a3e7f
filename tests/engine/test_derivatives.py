"""A run has no derivative: where one is taken, it is refused rather than 0."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.engine import outcome
from jaxdp.randomizers import KRR, Laplace

VALUES = jnp.array([0.1, 0.2, 0.3])
LAPLACE = Laplace(1.0).build()
refused = pytest.raises(TypeError, match="stop_gradient")


def of_values(x, key):
    return jaxdp.run(LAPLACE, jaxdp.Population.from_values(x), key, method="per_user")


def of_unit(unit, key):
    params = dataclasses.replace(LAPLACE, unit=unit)
    return jaxdp.run(params, jaxdp.Population.from_values(VALUES), key, method="per_user")


@pytest.mark.parametrize("transform", [jax.grad, jax.jacfwd, jax.value_and_grad])
def test_derivatives_with_respect_to_values_are_refused(transform, key):
    with refused:
        transform(of_values)(VALUES, key)
    with refused:
        jax.jit(transform(of_values))(VALUES, key)
    with refused:
        transform(jax.jit(of_values))(VALUES, key)


def test_derivatives_with_respect_to_params_are_refused(key):
    with refused:
        jax.grad(of_unit)(jnp.float32(1.0), key)


def test_a_run_beside_what_is_differentiated(key):
    """Integers have no derivatives, and what is held fixed needs none."""
    counts = jaxdp.Population.from_histogram([50, 30, 20])

    def loss(x, population):
        noisy = jaxdp.run(KRR(3, 1.0), population, key, method="per_user")
        return jnp.sum((x - jax.lax.stop_gradient(noisy)) ** 2)

    x = jnp.zeros(3)
    noisy = jax.jit(lambda: jaxdp.run(KRR(3, 1.0), counts, key, method="per_user"))()
    found = jax.grad(loss)(x, counts)
    np.testing.assert_allclose(found, -2 * noisy, rtol=1e-5)
    held = jax.grad(lambda x: jnp.sum(x * of_values(jax.lax.stop_gradient(x), key)))(VALUES)
    np.testing.assert_allclose(held, jnp.full(3, jax.jit(of_values)(VALUES, key)), rtol=1e-5)


def test_estimates_of_a_given_tally_have_derivatives(key):
    tally = outcome(LAPLACE, jaxdp.Population.from_values(VALUES), key)
    slope = jax.grad(lambda p: jnp.sum(p.estimate(tally)), allow_int=True)(LAPLACE)
    assert float(slope.unit) != 0

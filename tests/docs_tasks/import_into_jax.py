"""A program of one's own in JAX: private counts on the simplex, and private gradient descent."""

import jax
import jax.numpy as jnp
import optax

import jaxdp
from jaxdp.projections import simplex

SHARES = jnp.array([0.5, 0.3, 0.2])


@jax.jit
def shares(params, key, values):
    reports = jax.vmap(params.privatize)(jax.random.split(key, len(values)), values)
    return simplex(params.estimate(params.tally(reports)) / len(values))


values = jax.random.choice(jax.random.key(0), 3, (20_000,), p=SHARES)
grid = jaxdp.stack([jaxdp.randomizers.KRR(3, epsilon) for epsilon in (1.0, 4.0)])
found = jax.vmap(shares, in_axes=(0, None, None))(grid, jax.random.key(1), values)
assert jnp.all(found >= 0)
assert jnp.all(jnp.abs(jnp.sum(found, axis=1) - 1) < 1e-5)
assert jnp.all(jnp.abs(found - SHARES[None]) < 0.1)

randomizer = jaxdp.randomizers.PrivUnitG(dim=2, epsilon=4.0, radius=2.0).build()
goal, point = jnp.array([0.5, -1.0]), jnp.zeros(2)
optimizer = optax.sgd(0.5)
state = optimizer.init(point)
for round_key in jax.random.split(jax.random.key(2), 10):
    gradients = jnp.tile(point - goal, (5000, 1))  # of the users' squared distances
    keys = jax.random.split(round_key, 5000)
    reports = jax.vmap(randomizer.privatize)(keys, gradients)
    updates, state = optimizer.update(randomizer.estimate(randomizer.tally(reports)), state)
    point = optax.apply_updates(point, updates)
assert jnp.all(jnp.abs(point - goal) < 0.3)

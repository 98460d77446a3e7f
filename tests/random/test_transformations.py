"""Draws are one function of the key in eager mode, jit, vmap, map, scan, and with x64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp._x64 import in_float64
from jaxdp.random import (
    Count,
    binomial,
    hypergeometric,
    multinomial,
    multivariate_hypergeometric,
    permute,
)
from tests.marks import slow

N = np.array([3, 50, 10**6, 10**9, 10**12])
DRAWS = {
    "binomial": lambda key: binomial(key, N, 0.3),
    "multinomial": lambda key: multinomial(key, 10**12, N.astype(float)),
    "hypergeometric": lambda key: hypergeometric(key, N, N // 2, N // 3),
    "multivariate_hypergeometric": lambda key: multivariate_hypergeometric(key, N, 10**9),
    "permute": lambda key: permute(key, np.arange(5), 10**9),
}


@pytest.mark.parametrize("name", [name if name == "permute" else slow(name) for name in DRAWS])
def test_one_function_of_the_key(key, name):
    draw = DRAWS[name]
    keys = jax.random.split(key, 3)
    expected = np.stack([draw(k).numpy() for k in keys])
    assert len(np.unique(expected[:, -1])) == 3

    vmapped = jax.jit(jax.vmap(draw))
    for run in (vmapped, lambda keys: jax.lax.map(draw, keys)):
        got = run(keys)
        assert got.lo.dtype == jnp.uint32
        assert np.array_equal(got.numpy(), expected)
    with jax.enable_x64(True):
        assert np.array_equal(vmapped(keys).numpy(), expected)


@pytest.mark.parametrize("name", DRAWS)
def test_lowers_for_cuda(name):
    key = jax.eval_shape(lambda: jax.random.key(0))
    exported = jax.export.export(jax.jit(DRAWS[name]), platforms=["cuda"])(key)
    assert [x.dtype for x in exported.out_avals] == [jnp.int32, jnp.uint32]


def test_draws_do_not_depend_on_their_neighbours(key):
    """A lane's draw is that of the same lane in a longer array."""
    short = binomial(key, np.full(5, 10**9), 0.3).numpy()
    longer = binomial(key, np.append(np.full(5, 10**9), np.arange(40)), 0.3).numpy()
    assert np.array_equal(short, longer[:5])


def test_a_traced_probability_of_32_bits_is_exact(key):
    """keep / 2**32 from a uint32 that is traced in a 32-bit program."""

    @jax.jit
    @in_float64
    def kept(key, keep):
        return binomial(key, N, keep.astype(jnp.float64) * 2.0**-32)

    keep = 1_288_490_189
    assert np.array_equal(
        kept(key, jnp.uint32(keep)).numpy(), binomial(key, N, keep / 2**32).numpy()
    )


def test_nothing_is_compiled_twice(key, count_compilations):
    draw = jax.jit(binomial)
    arguments = [(Count.of(np.full(3, n)), jnp.float32(p)) for n, p in [(5, 0.1), (10**12, 0.9)]]
    draw(key, *arguments[0])
    with count_compilations() as seen:
        draw(key, *arguments[1])
    assert "binomial" not in seen.compiled

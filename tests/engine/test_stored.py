"""What `stored` marks is stored by programs of draws on a CPU, and by no others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from jaxdp._stored import stored
from jaxdp.engine._programs import _known_options


def read_twice(x):
    made = stored(jnp.sin(x))
    return jnp.cumsum(made), jnp.sort(made)


@pytest.fixture
def x():
    return jnp.linspace(0, 1, 64, dtype=jnp.float32)


def compiled_text(x, options):
    return jax.jit(read_twice, compiler_options=options).lower(x).compile().as_text()


def test_programs_of_tallies_keep_what_is_stored(x):
    options = _known_options("tally")
    if options is None:
        pytest.skip("this XLA does not know the options")
    assert "opt-barrier" in compiled_text(x, options)


@pytest.mark.parametrize("method", [None, "per_user"])
def test_other_programs_do_not(x, method):
    options = None if method is None else _known_options(method)
    assert "opt-barrier" not in compiled_text(x, options)


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_only_a_cpu_is_told(x, platform):
    lowered = export.export(jax.jit(read_twice), platforms=[platform])(x).mlir_module()
    assert ("optimization_barrier" in lowered) == (platform == "cpu")


def test_values_are_those_given(x):
    want = np.asarray(x)
    np.testing.assert_array_equal(stored(x), want)
    np.testing.assert_array_equal(jax.jit(stored)(x), want)
    np.testing.assert_array_equal(jax.jit(jax.vmap(stored))(x.reshape(8, 8)), want.reshape(8, 8))

"""The test configuration: devices, strictness, seeds, compilation counts, flag guard."""

import os
import pathlib
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest_plugins = ["pytester"]


def test_eight_devices_and_strict_promotion():
    assert len(jax.devices("cpu")) == 8
    with pytest.raises(ValueError, match="dtype_promotion"):
        jnp.ones(3, jnp.int32) + jnp.ones(3, jnp.float32)
    with pytest.raises(ValueError, match="rank_promotion"):
        jnp.ones((2, 3)) + jnp.ones(3)


def test_seed_comes_from_the_name_of_the_test(request, seed, key, rng):
    name = request.node.nodeid + os.environ.get("JAXDP_TEST_SEED", "")
    assert seed == zlib.crc32(name.encode())
    assert rng.bit_generator.state == np.random.default_rng(seed).bit_generator.state
    np.testing.assert_array_equal(
        jax.random.key_data(key), jax.random.key_data(jax.random.key(seed))
    )


def test_compilations_are_counted(count_compilations):
    @jax.jit
    def triple(x):
        return 3 * x

    x, y = (jax.device_put(np.ones(n, np.float32)) for n in (2, 3))
    with count_compilations() as first:
        triple(x)
        triple(x + x)
        triple(y)
    assert first.traced.count("triple") == first.compiled.count("triple") == 2
    with count_compilations() as second:
        triple(y)
    assert second.traced == second.compiled == []
    triple(jax.device_put(np.ones(4, np.float32)))
    assert second.compiled == []  # no longer listening


def test_failures_name_their_seed_and_changed_flags(pytester, monkeypatch):
    monkeypatch.setenv("JAXDP_TEST_SEED", "another")
    pytester.makeconftest(pathlib.Path(__file__).with_name("conftest.py").read_text())
    pytester.makepyfile(
        """
        import jax

        def test_wrong(rng):
            assert rng.random() > 1

        def test_flag():
            jax.config.update("jax_debug_nans", True)

        def test_next():
            assert not jax.config.jax_debug_nans
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1, passed=2, errors=1)
    name = "test_failures_name_their_seed_and_changed_flags.py::test_wrong"
    seed = zlib.crc32(f"{name}another".encode())
    result.stdout.fnmatch_lines([f"{seed} (JAXDP_TEST_SEED='another')"])
    result.stdout.fnmatch_lines(["*changed*jax_debug_nans*(False, True)*"])

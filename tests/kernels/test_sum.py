"""What users add, fused with its sums: the definition, the kernel for GPUs, and refusals."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.randomizers import KRR, Gaussian, PrivUnitG
from jaxdp_kernels.randomize_and_sum import IMPLEMENTATIONS, num_rows, randomize_and_sum
from jaxdp_kernels.randomize_and_sum.arg_specs import ARG_SPECS
from jaxdp_kernels.randomize_and_sum.bench import by_stored_words
from jaxdp_kernels.randomize_and_sum.ref import users_of
from jaxdp_kernels.randomize_and_sum.triton import randomize_and_sum_triton, unserved
from jaxdp_kernels.threefry_words import TILE, FlatWords, StreamKey
from tests.lowering import lowered_for_h200

SMALL = [spec for spec in ARG_SPECS if spec.num_users * spec.dim <= 2**20]
SUM = jax.jit(randomize_and_sum, static_argnames=("row", "implementation"))
KERNEL = jax.jit(functools.partial(randomize_and_sum_triton, interpret=True), static_argnames="row")
STREAM = StreamKey.of(jax.random.key(3))
START = np.array([0, 2**32 - 5000], np.uint32)  # whose counters pass 2**32


@pytest.mark.parametrize("spec", SMALL, ids=lambda spec: spec.name)
def test_sums_are_those_of_each_users_words(spec):
    *arguments, row = spec.arguments()
    got = SUM(*arguments, row=row)
    assert got.shape == (num_rows(spec.num_users, row), spec.dim)
    np.testing.assert_array_equal(got.sum(axis=0), by_stored_words(*arguments))
    if row % TILE == 0:
        np.testing.assert_array_equal(got, KERNEL(*arguments, row=row))


@pytest.mark.parametrize("spec", [Gaussian(16, 1.0, 1e-6), PrivUnitG(16, 1.0)], ids=["g", "p"])
@pytest.mark.parametrize("kind", ["first", "masked", "by tile"])
def test_the_kernel_adds_what_randomizers_add(spec, kind, rng):
    """Integers to the bit; a number that another program may round otherwise, to a few users."""
    params, n = spec.build(), 3 * TILE - 100
    vectors = rng.standard_normal((n, 16)).astype(np.float32)
    vectors /= 1.1 * np.linalg.norm(vectors, axis=1, keepdims=True)
    members = {
        "first": np.uint32(n - 300),
        "masked": rng.random(n) < 0.5,
        "by tile": np.array([2048, 7, 0, 1500], np.uint32),
    }[kind]
    vectors = vectors[:4] if kind == "by tile" else vectors
    arguments = params, STREAM, START, jnp.asarray(vectors), jnp.asarray(members)
    got = KERNEL(*arguments, row=2 * TILE)
    expected = SUM(*arguments, row=2 * TILE)
    most = 0 if isinstance(spec, Gaussian) else 8
    assert np.abs(got - expected).max() <= most
    assert np.abs(expected).max() > 1000


def test_ties_are_decided_by_their_words():
    """A quarter of the users of `Steps` take the second way: it is seen if none does."""
    spec = dataclasses.replace(SMALL[0], num_users=2000)
    randomizer, *arguments, row = spec.arguments()
    got = KERNEL(randomizer, *arguments, row=row)

    @dataclasses.dataclass(frozen=True)
    class Quick(FlatWords):
        def quick(self, enough, quick, exact):
            return quick()

    values, counts = users_of(*arguments[2:], row)
    words = Quick(*arguments[:2], counts.shape[0], randomizer.num_words)
    made = randomizer.summed.numbers(words, values, randomizer.summed.alone(words))
    assert (np.asarray(jnp.where(counts[:, None], made, 0).sum(axis=0)) != got.sum(axis=0)).any()


def test_the_kernel_runs_side_by_side_for_many_trials():
    *arguments, row = SMALL[0].arguments()
    starts = jnp.stack([arguments[2], arguments[2] + np.uint32(2**20)])

    def kernel(start):
        return randomize_and_sum_triton(*arguments[:2], start, *arguments[3:], row, interpret=True)

    got = jax.jit(jax.vmap(kernel))(starts)
    for found, start in zip(got, starts, strict=True):
        expected = SUM(*arguments[:2], start, *arguments[3:], row=row)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend:DeprecationWarning")
@pytest.mark.parametrize("spec", [Gaussian(64, 1.0, 1e-6), PrivUnitG(256, 1.0)], ids=["g", "p"])
def test_the_kernel_lowers_for_cuda(spec):
    """All of it is one call of a Triton kernel, without a GPU."""
    values = jax.ShapeDtypeStruct((2**16, spec.dim), jnp.float32)
    run = jax.jit(functools.partial(randomize_and_sum_triton, row=2 * TILE))
    text = lowered_for_h200(run, spec.build(), STREAM, START, values, jnp.uint32(2**16))
    assert text.count("custom_call") == text.count("__gpu$xla.gpu.triton") == 1


@pytest.mark.parametrize(
    ("spec", "shape", "row", "reason"),
    [
        (PrivUnitG(16, 1.0), (4096, 16), TILE, None),
        (PrivUnitG(15, 1.0), (4096, 15), TILE, "a power of two of entries"),
        (PrivUnitG(8, 1.0), (4096, 8), TILE, "16 to 2048, not 8"),
        (PrivUnitG(16, 1.0), (4096,), TILE, "a vector of float32"),
        (PrivUnitG(16, 1.0), (4096, 32), TILE, "as many numbers"),
        (KRR(16, 1.0), (4096, 16), TILE, "KRRParams does not add"),
        (PrivUnitG(16, 1.0), (4096, 16), TILE // 2, "multiples of 2048 users, not of 1024"),
        (PrivUnitG(16, 1.0), (0, 16), TILE, "must be some"),
        (PrivUnitG(16, 1.0), (2**27, 16), TILE, "fewer than 2**31 entries and words"),
    ],
)
def test_whom_the_kernel_serves(spec, shape, row, reason):
    values = jax.ShapeDtypeStruct(shape, jnp.float32)
    found = unserved(spec.build(), values, row)
    assert found is None if reason is None else reason in found


def test_bad_arguments():
    *arguments, row = SMALL[0].arguments()
    randomizer, key, start, values, members = arguments
    if jax.default_backend() != "gpu":
        with pytest.raises(ValueError, match="needs a GPU"):
            randomize_and_sum(*arguments, row, "triton")
    assert "triton" in IMPLEMENTATIONS
    with pytest.raises(ValueError, match="does not serve these users: rows"):
        randomize_and_sum_triton(*arguments, 1024)
    for changed, message in (
        ((randomizer, key, start[0], values, members, row), "start must be uint32"),
        ((KRR(4, 1.0).build(), key, start, values, members, row), "must add its reports"),
        ((randomizer, key, start, values, jnp.int32(3), row), "members must be uint32"),
        ((randomizer, key, start, values, jnp.ones(3, bool), row), "equally many rows"),
        ((randomizer, key, start, values, members, 3000), "row must be a power of two"),
        ((*arguments, row, "mosaic"), "implementation must be None or one of"),
    ):
        with pytest.raises(ValueError, match=message):
            randomize_and_sum(*changed)

"""Reports fused with their counts or sums: the definitions, the engine, and blocks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.engine._stream import stream_tally
from jaxdp.random import Count
from jaxdp.randomizers import KRR, BinaryResponse
from jaxdp.randomizers._priv_unit_g import PrivUnitG
from jaxdp.randomizers._unary_encoding import UnaryEncoding
from jaxdp_kernels.randomize_and_count import arg_specs as count_specs
from jaxdp_kernels.randomize_and_count import randomize_and_count
from jaxdp_kernels.randomize_and_count.ref import randomize_and_count_ref
from jaxdp_kernels.randomize_and_sum import arg_specs as sum_specs
from jaxdp_kernels.randomize_and_sum import randomize_and_sum
from jaxdp_kernels.randomize_and_sum.ref import randomize_and_sum_ref
from tests.marks import slow

ORIGIN = np.zeros(2, np.uint32)
SMALL_COUNTS = [spec for spec in count_specs.ARG_SPECS if spec.num_users < 2**14]
SMALL_SUMS = [spec for spec in sum_specs.ARG_SPECS if spec.num_users < 2**14]


@pytest.mark.parametrize("spec", SMALL_COUNTS, ids=lambda spec: spec.name)
def test_counts_equal_the_definition(spec):
    arguments = spec.arguments()
    got = randomize_and_count(*arguments, block_size=spec.block_size)
    assert got.dtype == jnp.int32
    expected = jax.jit(randomize_and_count_ref, static_argnums=4)(*arguments)
    np.testing.assert_array_equal(got, expected)
    if spec.channel == "response":
        assert got.sum() == spec.num_users


@pytest.mark.parametrize("spec", SMALL_SUMS, ids=lambda spec: spec.name)
def test_sums_equal_the_definition(spec):
    arguments = spec.arguments()
    total, form = randomize_and_sum(*arguments, block_size=spec.block_size)
    expected = jax.jit(randomize_and_sum_ref)(*arguments)
    np.testing.assert_allclose(total, expected[0], rtol=1e-5)
    np.testing.assert_allclose(form, expected[1], rtol=1e-4)
    assert total.shape == arguments[-1].shape


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (KRR(num_values=5, epsilon=1.0), np.arange(700) % 5),
        slow(KRR(num_values=2, epsilon=1.0), np.arange(700) % 2),
        (BinaryResponse(epsilon=1.0), np.linspace(-1, 1, 700)),
        slow(UnaryEncoding(num_values=6, epsilon=1.0), np.arange(700) % 6),
    ],
    ids=lambda x: getattr(type(x), "__name__", None),
)
def test_counts_are_the_engines(spec, values, key):
    """Bit for bit the tally of the per-user path, for the same key."""
    bins = isinstance(spec, KRR | UnaryEncoding)
    values = values.astype(np.int32 if bins else np.float32)
    options = {"num_values": spec.num_values} if bins else {}
    population = jaxdp.Population.from_values(values, **options)
    params = spec.build()
    tally = stream_tally(params, population, key, mesh=None, block_size=None)
    expected = tally["support"] if isinstance(tally, dict) else tally
    num_reports = expected.shape[0]
    data = jax.random.key_data(key)
    got = randomize_and_count(params, data, ORIGIN, values, num_reports, block_size=256)
    np.testing.assert_array_equal(got, expected.numpy())
    other = jax.random.key_data(jax.random.fold_in(key, 1))
    assert (
        np.asarray(randomize_and_count(params, other, ORIGIN, values, num_reports)) != got
    ).any()


@pytest.mark.slow
def test_vector_sums_are_those_of_the_reports(key):
    dim, users = 6, 512
    params = PrivUnitG(dim=dim, epsilon=1.0).build()
    vectors = np.asarray(jax.random.ball(jax.random.fold_in(key, 1), dim, shape=(users,)))
    signs = np.where(np.arange(dim) % 3 == 0, -1, 1).astype(np.float32)
    data = jax.random.key_data(key)
    total, form = randomize_and_sum(params, data, ORIGIN, vectors, signs, block_size=128)
    words = jax.random.bits(key, (users, params.num_words))
    reports = jax.jit(jax.vmap(params.from_bits))(words, vectors)
    reports = np.asarray(reports, np.float64)[:, :dim]
    np.testing.assert_allclose(total, reports.sum(axis=0), atol=1e-3)
    assert form == pytest.approx(np.sum(np.square(reports) * signs), rel=1e-4)


@pytest.mark.parametrize("first", [1, 2**32 - 11, 2**40])
def test_later_users_and_blocks(first, key):
    """Users are found by their words' index, whatever the blocks, across the carry too."""
    params, values = KRR(num_values=7, epsilon=1.0).build(), np.arange(100, dtype=np.int32) % 7
    data = jax.random.key_data(key)
    start = np.array([first >> 32, first & 0xFFFFFFFF], np.uint32)
    whole = randomize_and_count(params, data, start, values, 7, block_size=128)
    np.testing.assert_array_equal(
        whole, randomize_and_count(params, data, start, values, 7, block_size=8)
    )
    later = Count.of(first + 40)
    parts = [
        (start, values[:40]),
        (jnp.stack([later.hi.astype(jnp.uint32), later.lo]), values[40:]),
    ]
    split = [randomize_and_count(params, data, at, part, 7) for at, part in parts]
    np.testing.assert_array_equal(whole, split[0] + split[1])


def test_sums_of_many_blocks_are_compensated(key):
    """100,000 blocks of one user; a plain float32 sum would lose the eighths."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Itself:
        num_words = 1

        def from_bits(self, words, value):
            del words
            return value

    values = np.concatenate([np.full((1, 1), 2.0**23), np.full((99_999, 1), 0.125)])
    values = values.astype(np.float32)
    total, form = randomize_and_sum(
        Itself(), jax.random.key_data(key), ORIGIN, values, np.ones(1, np.float32), block_size=1
    )
    exact = values.astype(np.float64)
    assert total[0] == np.float32(exact.sum())
    assert form == np.float32(np.square(exact).sum())
    assert np.cumsum(values)[-1] == values[0, 0]  # the plain sum


def test_no_users_and_transformations(key):
    data = jax.random.key_data(key)
    params = KRR(num_values=3, epsilon=1.0).build()
    empty = randomize_and_count(params, data, ORIGIN, np.zeros(0, np.int32), 3)
    np.testing.assert_array_equal(empty, np.zeros(3))
    values = np.arange(60, dtype=np.int32).reshape(2, 30) % 3
    starts = np.array([[0, 0], [0, 30]], np.uint32)
    each = jax.vmap(lambda at, v: randomize_and_count(params, data, at, v, 3))(starts, values)
    whole = randomize_and_count(params, data, ORIGIN, values.ravel(), 3)
    np.testing.assert_array_equal(each.sum(axis=0), whole)


def test_compiles_once(count_compilations, key):
    values, data = np.arange(50, dtype=np.int32) % 3, jax.random.key_data(key)
    randomize_and_count(KRR(3, 1.0).build(), data, ORIGIN, values, 3)
    with count_compilations() as seen:
        randomize_and_count(KRR(3, 2.0).build(), data, ORIGIN, values, 3)
    assert seen.compiled == []


def test_reports_are_not_in_memory():
    """The program's temporary memory is that of a block."""
    params = UnaryEncoding(num_values=64, epsilon=1.0).build()
    shapes = [jax.ShapeDtypeStruct((2,), jnp.uint32)] * 2
    values = jax.ShapeDtypeStruct((2**20,), jnp.int32)

    def temporary(function):
        compiled = jax.jit(lambda d, s, v: function(params, d, s, v, 64)).lower(*shapes, values)
        return compiled.compile().memory_analysis().temp_size_in_bytes

    assert temporary(randomize_and_count) < 2**24 < 2**26 <= temporary(randomize_and_count_ref)


def test_lower_for_cuda():
    data = jax.ShapeDtypeStruct((2,), jnp.uint32)
    count = count_specs.ARG_SPECS[3].arguments()
    f = jax.jit(lambda d, s, v: randomize_and_count(count[0], d, s, v, count[4]))
    exported = jax.export.export(f, platforms=["cuda"])(data, data, count[3])
    assert exported.platforms == ("cuda",)
    params = PrivUnitG(dim=4, epsilon=1.0).build()
    vectors, signs = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((99, 4), (4,)))
    g = jax.jit(lambda d, s, v, signs: randomize_and_sum(params, d, s, v, signs))
    assert jax.export.export(g, platforms=["cuda"])(data, data, vectors, signs).platforms


def test_bad_arguments(key):
    data, bins = jax.random.key_data(key), np.zeros(4, np.int32)
    vectors, signs = np.zeros((4, 2), np.float32), np.ones(2, np.float32)
    krr, unit = KRR(3, 1.0).build(), PrivUnitG(dim=2, epsilon=1.0).build()

    def count(*arguments, **options):
        return lambda: randomize_and_count(*arguments, **options)

    def add(*arguments, **options):
        return lambda: randomize_and_sum(*arguments, **options)

    for call, message in (
        (count(krr, data, ORIGIN, bins, 3, implementation="mosaic"), "implementation must be"),
        (count(krr, data, ORIGIN, bins, 0), "num_reports must be at least 1"),
        (count(krr, data, np.zeros(2, np.int32), bins, 3), "start must be uint32"),
        (count(krr, data, ORIGIN, np.int32(0), 3), "values must have one row"),
        (count(unit, data, ORIGIN, vectors, 3), "a report must be an integer scalar or bool"),
        (add(krr, data, ORIGIN, bins, signs), "a report must be float32"),
        (add(unit, data, ORIGIN, vectors, np.ones(4, np.float32)), "signs must be float32"),
        (add(unit, data, ORIGIN, vectors, np.ones(2, np.int32)), "signs must be float32"),
        (add(unit, data, ORIGIN, vectors, signs, implementation="triton"), "implementation must"),
    ):
        with pytest.raises(ValueError, match=message):
            call()

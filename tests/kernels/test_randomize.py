"""Reports fused with their tally: the definition, the engine, and blocks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.engine._config import Config
from jaxdp.engine._stream import stream_tally
from jaxdp.random import Count
from jaxdp.randomizers import KRR, BinaryResponse, Gaussian, Laplace, PrivUnitG, UnaryEncoding
from jaxdp_kernels.randomize_and_tally import arg_specs, randomize_and_tally
from jaxdp_kernels.randomize_and_tally.ref import count_in_copies, randomize_and_tally_ref
from jaxdp_kernels.threefry_words import StreamKey
from tests.marks import slow

ORIGIN = np.zeros(2, np.uint32)
STREAM = StreamKey.of(jax.random.key(0))
TALLY = jax.jit(randomize_and_tally, static_argnames="implementation")
DEFINITION = jax.jit(randomize_and_tally_ref)
SMALL = [spec for spec in arg_specs.ARG_SPECS if spec.num_users < 2**13]


@pytest.mark.parametrize("spec", SMALL, ids=lambda spec: spec.name)
def test_tallies_equal_the_definition(spec):
    arguments = spec.arguments()
    got = TALLY(*arguments)
    np.testing.assert_array_equal(got, DEFINITION(*arguments))
    for other in ("pairs", "wide", "ref"):
        np.testing.assert_array_equal(got, TALLY(*arguments, implementation=other))
    if spec.channel != "bits":
        assert got.sum() == arguments[-1].sum()


@pytest.mark.parametrize("num_values", [3, 8, 9, 16, 17])
def test_reports_of_pairs_are_counted(num_values, rng):
    """Few reports in counters of four bits, 8 at a time, and more of them by scattering."""
    params, key = KRR(num_values, epsilon=1.0).build(), StreamKey.of(jax.random.key(7))
    values = jnp.asarray(rng.integers(0, num_values, 70_001), jnp.int32)
    mask = jnp.asarray(rng.random(values.size) < 0.9)
    arguments = params, key, jnp.zeros(2, jnp.uint32), None, values, mask
    got = TALLY(*arguments, implementation="pairs").numpy()
    np.testing.assert_array_equal(got, DEFINITION(*arguments).numpy())
    assert got.sum() == mask.sum()


@pytest.mark.parametrize("copies", [2, 64, 1024])
@pytest.mark.parametrize("num_reports", [3, 256])
def test_copies_of_a_histogram_are_added(num_reports, copies, rng):
    reports = rng.integers(0, num_reports, 5001).astype(np.int32)
    mask = rng.random(5001) < 0.7
    found = count_in_copies(jnp.asarray(reports), jnp.asarray(mask), num_reports, copies)
    np.testing.assert_array_equal(found, np.bincount(reports[mask], minlength=num_reports))


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (KRR(num_values=5, epsilon=1.0), np.arange(5000) % 5),
        slow(KRR(num_values=2, epsilon=1.0), np.arange(5000) % 2),
        (BinaryResponse(epsilon=1.0), np.linspace(-1, 1, 5000)),
        slow(UnaryEncoding(num_values=6, epsilon=1.0), np.arange(5000) % 6),
    ],
    ids=lambda x: getattr(type(x), "__name__", None),
)
def test_tallies_are_the_engines(spec, values, key):
    """Bit for bit the tally of the per-user path, for the same key and the same rounds."""
    bins = isinstance(spec, KRR | UnaryEncoding)
    values = jnp.asarray(values, jnp.int32 if bins else jnp.float32)
    options = {"num_values": spec.num_values} if bins else {}
    population = jaxdp.Population.from_values(values, **options)
    params, everyone = spec.build(), np.ones(len(values), bool)
    stream = StreamKey.of(key)

    def counted(tally):
        leaves = jax.tree.leaves(tally, is_leaf=lambda x: isinstance(x, Count))
        return np.concatenate([np.ravel(leaf.numpy()) for leaf in leaves])

    def found(stream: StreamKey):
        return counted(TALLY(params, stream, ORIGIN, None, values, everyone))

    tally = stream_tally(params, population, stream, config=Config("per_user", None, None))
    np.testing.assert_array_equal(found(stream), counted(tally))
    for other in (StreamKey.of(key, rounds=13), StreamKey.of(jax.random.fold_in(key, 1))):
        assert (found(other) != counted(tally)).any()


@pytest.mark.parametrize(
    ("spec", "n"),
    [(Gaussian(5, 1.0, 1e-6), 7000), (Laplace(1.0), 3000), (Laplace(1.0, dim=3), 3000)],
    ids=["gaussian", "number", "vector"],
)
def test_drafts_make_the_definitions_tallies(spec, n, key):
    """More users than ties are made anew at a time."""
    params, everyone = spec.build(), np.ones(n, bool)
    rows = np.random.default_rng(n).uniform(-0.3, 0.3, (n, *params.value.shape))
    arguments = params, StreamKey.of(key), ORIGIN, None, jnp.float32(rows), everyone
    got = TALLY(*arguments)
    expected = DEFINITION(*arguments)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("tile", [0, 2**22 - 1, 2**30])
def test_blocks_that_begin_anywhere_add_up(tile, key):
    params = KRR(num_values=7, epsilon=1.0).build()
    values, everyone = np.arange(3000, dtype=np.int32) % 7, np.ones(3000, bool)
    stream, counter = StreamKey.of(key), tile * 1024
    start = np.array([counter >> 32, counter & 0xFFFFFFFF], np.uint32)
    whole = TALLY(params, stream, start, None, values, everyone)
    parts = [
        TALLY(params, stream, start, np.uint32(a), values[a:b], everyone[a:b])
        for a, b in ((0, 40), (40, 1500), (1500, 3000))
    ]
    np.testing.assert_array_equal(whole.numpy(), jaxdp.merge(*parts).numpy())


def test_users_out_of_the_mask_do_not_count(key):
    stream, params = StreamKey.of(key), KRR(num_values=3, epsilon=1.0).build()
    values, mask = np.arange(90, dtype=np.int32) % 3, np.arange(90) < 40
    masked = TALLY(params, stream, ORIGIN, None, values, mask)
    few = TALLY(params, stream, ORIGIN, None, values[:40], mask[:40])
    np.testing.assert_array_equal(masked.numpy(), few.numpy())


def test_words_alone_are_in_memory():
    """Two arrays of them, as blocks and as rows of users: packed reports are few beside them.

    And of a CPU's own way, nothing but such reports.
    """
    params = UnaryEncoding(num_values=64, epsilon=1.0).build()
    start = jax.ShapeDtypeStruct((2,), jnp.uint32)
    values, mask = (jax.ShapeDtypeStruct((2**16,), dtype) for dtype in (jnp.int32, jnp.bool_))

    def temporaries(tally) -> int:
        run = jax.jit(lambda k, s, v, m: tally(params, k, s, None, v, m))
        memory = run.lower(STREAM, start, values, mask).compile().memory_analysis()
        return memory.temp_size_in_bytes

    words = 4 * 64 * 2**16
    assert temporaries(randomize_and_tally) <= 2.1 * words
    assert temporaries(params.kernels.tally["cpu"]) <= 0.12 * words


def test_lowers_for_cuda():
    start = jax.ShapeDtypeStruct((2,), jnp.uint32)
    values, mask = (jax.ShapeDtypeStruct((4096,), dtype) for dtype in (jnp.int32, jnp.bool_))
    vectors = jax.ShapeDtypeStruct((4096, 4), jnp.float32)
    for params, held in ((KRR(4, 1.0).build(), values), (PrivUnitG(4, 1.0).build(), vectors)):
        f = jax.jit(lambda k, s, v, m, p=params: randomize_and_tally(p, k, s, None, v, m))
        exported = jax.export.export(f, platforms=["cuda"])(STREAM, start, held, mask)
        assert exported.platforms == ("cuda",)


def test_bad_arguments(key):
    stream, bins, everyone = StreamKey.of(key), np.zeros(4, np.int32), np.ones(4, bool)
    krr = KRR(3, 1.0).build()
    for arguments, message in (
        ((stream, np.zeros(2, np.int32), None, bins, everyone), "start must be uint32"),
        ((stream, ORIGIN, None, np.int32(0), everyone), "values must have one row"),
        ((stream, ORIGIN, None, bins, np.ones(3, bool)), "values must have one row"),
        ((stream, ORIGIN, None, bins, bins), "mask"),
        ((stream, ORIGIN, None, bins, everyone, "mosaic"), "implementation must be"),
    ):
        with pytest.raises(ValueError, match=message):
            randomize_and_tally(krr, *arguments)

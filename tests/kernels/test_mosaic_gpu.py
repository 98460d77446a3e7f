"""The kernel for NVIDIA GPUs: its words, its memory, its tallies in interpret mode, its lowering.

`tests/aot` compiles it. Nothing here runs the instruction that counts: no interpreter does.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu

from jaxdp import randomizers
from jaxdp.population._distribution import DrawnBin
from jaxdp.random import AliasTable
from jaxdp_kernels import _samples, register_dataclass
from jaxdp_kernels.randomize_and_tally import Drawn, arg_specs, mosaic_gpu, randomize_and_tally
from jaxdp_kernels.randomize_and_tally.mosaic_gpu import (
    MAX_REPORTS,
    randomize_and_tally_mosaic_gpu,
    unserved,
)
from jaxdp_kernels.randomize_and_tally.scalarise import Table, cells
from jaxdp_kernels.threefry_words import TILE, StreamKey, threefry_words

KEY = jax.random.key(3)
STREAM = StreamKey.of(KEY)
NUMBERS = np.zeros(4096, np.int32)
interpreted = pytest.mark.skipif(
    not hasattr(plgpu, "InterpretGPUParams"), reason="jax 0.10 has no interpreter of Mosaic GPU"
)


def kernel_of(randomizer, rounds=20):
    structure = jax.tree.structure(0)
    number = randomizer.counted.num_reports
    return mosaic_gpu._Kernel(randomizer, number, (rounds,), structure, False, False, 0, None)


@pytest.mark.parametrize(
    ("high", "low", "tile"), [(0, 0, 0), (5, 2**32 - 2048, 1), (2**32 - 1, 2**20, 2**19 - 1)]
)
def test_words_are_those_of_the_stream(high, low, tile):
    """One tile, with counters that pass 2**32 within it, or before it."""
    kernel = kernel_of(randomizers.ProjectiveGeometryResponse(6, 1.0).build())
    lane = jnp.arange(TILE // 2, dtype=jnp.int32)
    start = (jnp.uint32(high), jnp.uint32(low))
    key = STREAM.data[0], STREAM.data[1]
    halves = kernel._words(key, start, jnp.int32(tile), lane, 2, 20)
    found = np.stack([np.concatenate(both) for both in zip(*halves, strict=True)])
    counter = (high * 2**32 + low + tile * 2 * 1024) % 2**64
    first = jnp.asarray([counter >> 32, counter & 0xFFFFFFFF], jnp.uint32)
    np.testing.assert_array_equal(found, threefry_words(STREAM, first, TILE, 2))


@pytest.mark.parametrize("num_reports", [2, 16, 256, 257, 1000, 4096, 8191, MAX_REPORTS])
def test_blocks_share_the_memory_of_a_multiprocessor(num_reports):
    kernel = kernel_of(_samples.Response(jnp.uint32(1), num_reports))
    assert kernel.size % 128 == 0
    assert kernel.size >= kernel.copies * (num_reports + 1)
    assert kernel.copies in (1, 2, 4, 8, 16, 32)
    per_block = 4 * kernel.size + 1024
    assert per_block * (6 if kernel.copies > 1 else 3) <= 227 * 1024
    if num_reports <= 256:
        assert kernel.copies == 32  # no two lanes of a warp ever wait for each other


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Unsigned(_samples.Response):
    """Reports that no bin has as its number."""

    def from_bits(self, words, value):
        return words[0] % np.uint32(3)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Sorted(_samples.Response):
    """Reports that need what lanes lack."""

    def from_bits(self, words, value):
        return jnp.sort(jnp.stack([value, words[0].astype(jnp.int32)]))[0]


REASONS = {
    "does not count": (_samples.Bits(jnp.zeros(2, jnp.uint32), 7), NUMBERS),
    "has 16385 reports": (_samples.Response(jnp.uint32(1), MAX_REPORTS + 1), NUMBERS),
    "begin a tile": (_samples.Response(jnp.uint32(1), 3), NUMBERS),
    "must be numbers": (_samples.Response(jnp.uint32(1), 3), np.zeros((4096, 2), np.float32)),
    "32 bits": (_samples.Response(jnp.uint32(1), 3), NUMBERS.astype(np.int8)),
    "fewer than": (_samples.Response(jnp.uint32(1), 3), jax.ShapeDtypeStruct((2**31,), jnp.int32)),
    "is not an int32": (Unsigned(jnp.uint32(1), 3), NUMBERS),
    "lanes have no operation 'sort'": (Sorted(jnp.uint32(1), 3), NUMBERS),
}


@pytest.mark.parametrize(("reason", "given"), REASONS.items(), ids=REASONS)
def test_what_is_not_served_is_refused(reason, given):
    randomizer, values = given
    first = jnp.uint32(1) if reason == "begin a tile" else None
    assert reason in (unserved(randomizer, first, values) or "")
    if not isinstance(values, jax.ShapeDtypeStruct):
        start = jnp.zeros(2, jnp.uint32)
        arguments = randomizer, STREAM, start, first, jnp.asarray(values), jnp.ones(4096, bool)
        with pytest.raises(ValueError, match=f"does not serve these users.*{reason}"):
            randomize_and_tally_mosaic_gpu(*arguments)


def test_it_needs_a_gpu():
    arguments = arg_specs.ARG_SPECS[2].arguments()
    with pytest.raises(ValueError, match="needs an NVIDIA GPU, and jax computes on 'cpu'"):
        randomize_and_tally(*arguments, implementation="mosaic_gpu")


def masks(size):
    """All users, some of the first, and others."""
    return jnp.uint32(2**32 - 1), jnp.uint32(size // 2), jnp.arange(size) % 3 != 0


TALLIES = pytest.mark.parametrize(
    ("spec", "size", "mask"),
    [
        (randomizers.KRR(5, 1.0), 3 * TILE + 100, 0),
        (randomizers.KRR(300, 1.0), 2 * TILE, 1),
        (randomizers.HadamardResponse(20, 1.0), 100, 2),
        (randomizers.DiscreteLaplace(0, 30, 1.0), 2 * TILE + 1, 2),
        (randomizers.ProjectiveGeometryResponse(6, 1.0), TILE + 9, 1),
        (randomizers.AffineHashing(20, 1.0, hash_range=4), TILE + 9, 1),
        (randomizers.AffineHashing(20, 1.0, hash_range=3), TILE + 9, 1),
        (randomizers.AffineSubsets(20, 1.0, modulus=23), TILE + 9, 1),
    ],
    ids=lambda x: type(x).__name__ if not isinstance(x, int) else None,
)


def check_tallies(spec, size, mask, interpret, several):
    """The tally of some users is that of the definition, for one stream or two at a time."""
    params, users = spec.build(), masks(size)[mask]
    values = (jnp.arange(size, dtype=jnp.int32) * 7) % (params.num_bins + 2) - 1
    start = jnp.asarray([0, 2**32 - 1024], jnp.uint32)

    @jax.jit
    def tally(params, stream):
        arguments = params, stream, start, None, values, users
        return randomize_and_tally_mosaic_gpu(*arguments, interpret=interpret)

    expected = randomize_and_tally(params, STREAM, start, None, values, users, "ref")
    np.testing.assert_array_equal(tally(params, STREAM).numpy(), expected.numpy())
    if several:
        other = StreamKey.of(jax.random.key(4))
        streams = jax.tree.map(lambda *x: jnp.stack(x), other, STREAM)
        both = jax.vmap(lambda stream: tally(params, stream))(streams)
        np.testing.assert_array_equal(both[1].numpy(), expected.numpy())
        assert (both[0].numpy() != expected.numpy()).any()


def check_tallies_of_tiles(spec, interpret):
    """Users of one value a tile, of whom some of the first ones count."""
    params, start = spec.build(), jnp.asarray([0, 2**32 - 1024], jnp.uint32)
    values = (jnp.arange(4, dtype=jnp.int32) * 7) % params.num_bins
    numbers = jnp.array([2048, 0, 1500, 3], jnp.uint32)
    arguments = params, STREAM, start, None, values, numbers
    found = jax.jit(
        lambda *arguments: randomize_and_tally_mosaic_gpu(*arguments, interpret=interpret)
    )(*arguments)
    each = jnp.repeat(values, TILE), (lax.iota(jnp.uint32, TILE)[None] < numbers[:, None]).ravel()
    expected = randomize_and_tally(*arguments[:4], *each, "ref")
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    for implementation in ("xla", "wide", "ref"):
        same = randomize_and_tally(*arguments, implementation)
        np.testing.assert_array_equal(same.numpy(), expected.numpy())


TILES = pytest.mark.parametrize(
    "spec",
    [randomizers.KRR(5, 1.0), randomizers.ProjectiveGeometryResponse(6, 1.0)],
    ids=lambda spec: type(spec).__name__,
)


@interpreted
@TILES
def test_tallies_of_tiles_in_interpret_mode(spec):
    check_tallies_of_tiles(spec, plgpu.InterpretGPUParams())


def check_tallies_of_drawn_users(bits, number, interpret):
    """Users whose values are made of one word of theirs, or of two, in streams of their own."""
    params = randomizers.ProjectiveGeometryResponse(6, 1.0).build()
    masses = [2**bits // 6] * 5 + [2**bits - 5 * (2**bits // 6)]
    maker = DrawnBin(jax.tree.map(jnp.asarray, AliasTable.of(tuple(masses), bits)), None)
    size, place = 3 * TILE + 100, jnp.asarray([0, 2**32 - 2048], jnp.uint32)
    keys = tuple(StreamKey.of(jax.random.key(9 + i)) for i in range(maker.num_words))
    drawn, count = Drawn(maker, keys, place, size), jnp.uint32(number)
    start, key = jnp.asarray([0, 2**32 - 1024], jnp.uint32), dataclasses.replace(STREAM, rounds=13)
    words = [threefry_words(each, place, size, 1)[0] for each in keys]
    arguments = params, key, start, None
    expected = randomize_and_tally(
        *arguments, maker.make(words), lax.iota(jnp.uint32, size) < count, "ref"
    )
    assert unserved(params, None, drawn) is None
    most = dataclasses.replace(drawn, number=2**30 - 1)  # two words each
    assert unserved(params, None, most) is None
    found = jax.jit(
        lambda *arguments: randomize_and_tally_mosaic_gpu(*arguments, interpret=interpret)
    )(*arguments, drawn, count)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    for implementation in ("xla", "wide", "ref"):
        same = randomize_and_tally(*arguments, drawn, count, implementation)
        np.testing.assert_array_equal(same.numpy(), expected.numpy())


DRAWN = pytest.mark.parametrize(("bits", "number"), [(32, 3 * TILE + 70), (64, 2 * TILE)])


@interpreted
@DRAWN
def test_tallies_of_drawn_users_in_interpret_mode(bits, number):
    check_tallies_of_drawn_users(bits, number, plgpu.InterpretGPUParams())


@interpreted
@TALLIES
def test_tallies_in_interpret_mode(spec, size, mask):
    check_tallies(spec, size, mask, plgpu.InterpretGPUParams(), several=size == 2 * TILE)


@pytest.fixture
def in_plain_jax(monkeypatch):
    """The kernel's body in plain JAX."""

    def counts_of_tiles(self, streams, rows, tiles, most):
        lane = jnp.arange(TILE // 2, dtype=jnp.int32)
        leaves = [
            Table(leaf.shape, leaf.dtype, lambda at, leaf=leaf: leaf.ravel()[at])
            if mosaic_gpu._is_table(leaf)
            else cells(leaf)
            for leaf in map(jnp.asarray, jax.tree.leaves(self.randomizer))
        ]
        found = jnp.zeros(self.num_reports, jnp.int32)
        for tile in range(most):
            sizes = [self.randomizer.num_words - self.drawn] + [1] * self.drawn
            made = [
                self._words(tuple(key.data[:2]), start, jnp.int32(tile), lane, size, rounds)
                for (key, start), size, rounds in zip(streams, sizes, self.rounds, strict=True)
            ]
            for number in (0, 1):
                half = [word for both in (*made[1:], made[0]) for word in both[number]]
                first = tile * TILE + number * (TILE // 2)
                if self.by_tile:
                    held = [row[tile] for row in rows]
                    counts = (lane + number * (TILE // 2) < held.pop()).astype(jnp.int32)
                else:
                    held = [row[first : first + TILE // 2] for row in rows]
                    counts = held.pop() if self.masked else jnp.ones(TILE // 2, jnp.int32)
                value = jax.tree.unflatten(self.structure, held)
                report = mosaic_gpu._report(self.randomizer, leaves, half, value)
                found = found.at[report].add(jnp.where(tile < tiles, counts, 0).astype(jnp.int32))
        return found

    monkeypatch.setattr(mosaic_gpu._Kernel, "_counts_of_tiles", counts_of_tiles)


@TALLIES
def test_tallies_of_the_same_parts_in_plain_jax(spec, size, mask, in_plain_jax):
    """Which users are whole tiles, who is left, who counts: all but the kernel's own body."""
    check_tallies(spec, size, mask, None, several=False)


@TILES
def test_tallies_of_tiles_in_plain_jax(spec, in_plain_jax):
    check_tallies_of_tiles(spec, None)


@DRAWN
def test_tallies_of_drawn_users_in_plain_jax(bits, number, in_plain_jax):
    check_tallies_of_drawn_users(bits, number, None)


@pytest.mark.parametrize(
    ("spec", "mask"),
    [
        (randomizers.KRR(256, 1.0), 0),
        (randomizers.DiscreteLaplace(0, 127, 1.0), 2),
        (randomizers.ProjectiveGeometryResponse(6, 1.0), 0),
    ],
    ids=lambda x: type(x).__name__ if not isinstance(x, int) else None,
)
def test_lowers_for_cuda(spec, mask):
    """All tiles are counted by one kernel, on any jax."""
    params, values = spec.build(), jnp.zeros(2**14, jnp.int32)
    users, start = masks(2**14)[mask], jnp.zeros(2, jnp.uint32)
    function = jax.jit(randomize_and_tally_mosaic_gpu)
    lowered = function.trace(params, STREAM, start, None, values, users).lower(
        lowering_platforms=("cuda",)
    )
    text = lowered.as_text()
    assert text.count("custom_call @mosaic_gpu") == 1


@pytest.mark.parametrize("number", [0, 1700, 5000, 9999])
def test_a_number_says_who_counts(number):
    arguments = list(arg_specs.ARG_SPECS[2].arguments())
    size = arguments[-1].shape[0]
    found = randomize_and_tally(*arguments[:-1], jnp.uint32(number))
    expected = randomize_and_tally(*arguments[:-1], jnp.arange(size) < number)
    np.testing.assert_array_equal(found, expected)
    assert found.sum() == min(number, size)

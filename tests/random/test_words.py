"""Threefry words: published vectors, the address of every word, and the arithmetic of counters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32

from jaxdp import random as jr
from jaxdp.random import Count
from jaxdp.random._words import tile_start
from jaxdp_kernels.threefry_words import IMPLEMENTATIONS, StreamKey, threefry_words
from jaxdp_kernels.threefry_words.arg_specs import ARG_SPECS
from jaxdp_kernels.threefry_words.ref import (
    LANES,
    UserWords,
    first_words,
    threefry2x32,
    threefry_words_ref,
    users_words,
)
from tests.marks import slow

SMALL_SPECS = [spec for spec in ARG_SPECS if spec.num_users * spec.num_words <= 2**16]
ONES, PI, MORE = (0xFFFFFFFF,) * 2, (0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344)
# Random123's kat_vectors for threefry2x32: rounds, counter, key, result.
PUBLISHED = [
    (13, (0, 0), (0, 0), (0x9D1C5EC6, 0x8BD50731)),
    (13, ONES, ONES, (0xFD36D048, 0x2D17272C)),
    (13, PI, MORE, (0xBA3E4725, 0xF27D669E)),
    (20, (0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    (20, ONES, ONES, (0x1CB996FC, 0xBB002BE7)),
    (20, PI, MORE, (0xC4923A9C, 0x483DF7A0)),
    (32, (0, 0), (0, 0), (0xCEE3D47E, 0xA23DFD5C)),
    (32, ONES, ONES, (0x6E2FE0D0, 0xB1B76F82)),
]


def address(user: int, word: int, num_words: int) -> tuple[int, int]:
    """The counter and the half of a word, in Python's integers, as the design states them."""
    return ((user >> 11) * num_words + word) * 1024 + (user & 1023), (user >> 10) & 1


def jax_words(key: jax.Array, users: list[int], num_words: int) -> np.ndarray:
    """uint32[num_words, users] by jax's own threefry at the counters (high, low)."""
    at = [address(user, word, num_words) for word in range(num_words) for user in users]
    counters = np.array([counter % 2**64 for counter, _ in at], np.uint64)
    halves = [counters >> np.uint64(32), counters & np.uint64(0xFFFFFFFF)]
    blocks = threefry_2x32(jax.random.key_data(key), np.concatenate(halves).astype(np.uint32))
    blocks = np.asarray(blocks).reshape(2, -1)
    chosen = np.where([half == 1 for _, half in at], blocks[1], blocks[0])
    return chosen.reshape(num_words, len(users))


@pytest.mark.parametrize(("rounds", "counter", "key", "expected"), PUBLISHED)
def test_published_vectors(rounds, counter, key, expected):
    got = threefry2x32(*np.array([key, counter], np.uint32)[..., None], rounds)
    assert (int(got[0][0]), int(got[1][0])) == expected


def test_a_stream_of_fewer_rounds_has_its_words_at_the_same_addresses(key):
    """By both ways in which columns of words are made, and one at a time."""
    stream, users, tile = StreamKey.of(key, rounds=13), 5000, 2**22 - 1
    for num_words in (2, 3):
        counter = tile * num_words * 1024
        start = np.array([counter >> 32, counter % 2**32], np.uint32)
        make = jax.jit(threefry_words, static_argnums=(2, 3))
        at = [
            address(2048 * tile + user, word, num_words)
            for word in range(num_words)
            for user in range(users)
        ]
        counters = np.array([[counter >> 32, counter % 2**32] for counter, _ in at], np.uint32).T
        blocks = threefry2x32(np.asarray(stream.data)[:2, None], counters, 13)
        expected = np.where([half == 1 for _, half in at], blocks[1], blocks[0])
        words = make(stream, start, users, num_words)
        np.testing.assert_array_equal(words, expected.reshape(num_words, users))
    lazy = users_words(stream, jnp.asarray(start), jnp.array([1024, 4999], jnp.uint32), num_words)
    np.testing.assert_array_equal(first_words(lazy, num_words), words[:, np.array([1024, 4999])])


@pytest.mark.parametrize("implementation", [None, *IMPLEMENTATIONS])
@pytest.mark.parametrize("spec", SMALL_SPECS, ids=lambda spec: spec.name)
def test_words_of_the_shared_arguments(spec, implementation):
    got = threefry_words(*spec.arguments(), implementation)
    assert got.shape == (spec.num_words, spec.num_users)
    np.testing.assert_array_equal(got, threefry_words_ref(*spec.arguments()))
    first = 2048 * spec.tile
    some = sorted({0, spec.num_users // 3, spec.num_users // 2, spec.num_users - 1})
    expected = jax_words(jax.random.key(spec.seed), [first + u for u in some], spec.num_words)
    np.testing.assert_array_equal(got[:, np.array(some)], expected)


def test_lowers_for_cuda():
    f = jax.jit(threefry_words, static_argnums=(2, 3))
    start = jax.ShapeDtypeStruct((2,), jnp.uint32)
    exported = jax.export.export(f, platforms=["cuda"])(STREAM, start, 4096, 3)
    assert exported.platforms == ("cuda",)
    assert exported.out_avals[0].shape == (3, 4096)


FIRST_USERS = [0, 1020, 2044, 12345, 2**32 - 5, 2**33 - 3, 2**40, 2**53 - 9]


@pytest.mark.parametrize("num_words", [slow(1), 3, slow(7)])
@pytest.mark.parametrize("first", FIRST_USERS)
def test_words_of_users(key, first, num_words):
    """Consecutive users, single users and jax agree, across halves, tiles and the carry."""
    users = [first + i for i in range(9)]
    expected = jax_words(key, users, num_words)
    np.testing.assert_array_equal(jr.words(key, Count.of(first), 9, num_words), expected)
    np.testing.assert_array_equal(jr.words_at(key, Count.of(users), num_words), expected)


def test_words_do_not_depend_on_blocks_or_transformations(key):
    whole = np.asarray(jr.words(key, Count.of(0), 6000, 5, tiled=True))
    assert len(np.unique(whole)) > 29_900
    np.testing.assert_array_equal(whole, jr.words(key, Count.of(0), 6000, 5))
    np.testing.assert_array_equal(
        whole[:, 4096:], jr.words(key, Count.of(4096), 1904, 5, tiled=True)
    )
    np.testing.assert_array_equal(whole[:, 1000:1100], jr.words(key, Count.of(1000), 100, 5))
    for few in (7, 1024, 1030, 2048):
        np.testing.assert_array_equal(
            whole[:, :few], jr.words(key, Count.of(0), few, 5, tiled=True)
        )
    shuffled = np.array([[5999, 0], [1024, 7]])
    np.testing.assert_array_equal(whole[:, shuffled], jr.words_at(key, Count.of(shuffled), 5))
    each = jax.vmap(lambda user: jr.words_at(key, user, 5))(Count.of(np.arange(96)))
    np.testing.assert_array_equal(whole[:, :96].T, each)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(whole, jr.words(key, Count.of(0), 6000, 5, tiled=True))


def test_streams_are_folds_and_distinct(key):
    names = [*jr.Stream, jr.Stream.ROUND + 1, jr.Stream.TALLY + 1]
    data = {tuple(jax.random.key_data(jr.stream(key, name)).tolist()) for name in names}
    assert len(data) == len(set(names)) == len(names)
    for name in (jr.Stream.ROUND + 1, 2**32 - 1):
        assert jr.stream(key, name) == jax.random.fold_in(key, np.uint32(name))
    with pytest.raises(ValueError, match="name must be"):
        jr.stream(key, 2**32)


START = np.zeros(2, np.uint32)
STREAM = StreamKey.of(jax.random.key(0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((StreamKey(np.zeros(4, np.uint32)), START, 1, 1), "key.data must be uint32"),
        ((StreamKey(np.zeros(3, np.int32)), START, 1, 1), "key.data must be uint32"),
        ((STREAM, np.zeros((), np.uint32), 1, 1), "start must be uint32"),
        ((STREAM, START, -1, 1), "num_users and num_words must be"),
        ((STREAM, START, 1, -1), "num_users and num_words must be"),
        ((STREAM, START, 2**20, 2**14), "num_users and num_words must be"),
        ((STREAM, START, 1, 1, "mosaic"), "implementation must be"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        threefry_words(*arguments)


@pytest.mark.parametrize("user", [0, 1500, 2**31 // 7, 2**40 + 5])
def test_words_made_as_they_are_read_are_the_users_words(user, key):
    every = jr.words(key, Count.of(user), 1, 7)[:, 0]
    lazy = jr.user_words(key, user, 7)
    for index in (0, 6, slice(None), slice(2, 5), slice(-2, None), np.array([4, 4, 0])):
        np.testing.assert_array_equal(lazy[index], every[index])
    picked = jax.jit(jax.vmap(lambda j: lazy[j]))(jnp.arange(7))
    np.testing.assert_array_equal(picked, every)
    for words in (lazy, every):
        inner = jr.part_of(words, 2, 4)
        np.testing.assert_array_equal(inner[:], every[2:6])
        np.testing.assert_array_equal(inner[3], every[5])


@pytest.mark.parametrize("first", [0, 2**32 // (7 * 1024) * 2048])
def test_words_from_their_places_are_the_users_words(first, key):
    """Over a tile's end and the carry of the counter."""
    every, stream = jr.words(key, Count.of(first), 3000, 7), StreamKey.of(key)
    flat = jr.FlatWords(stream, tile_start(Count.of(first), 7), 3000, 7)
    np.testing.assert_array_equal(flat[0], every[0])
    np.testing.assert_array_equal(flat[-1], every[6])
    np.testing.assert_array_equal(flat[2:6].reshape(3000, 4), every[2:6].T)
    np.testing.assert_array_equal(flat[5:].reshape(3000, 2), every[5:].T)
    repeated = np.asarray(every)[[1, 2, 3, 1, 2]]
    np.testing.assert_array_equal(flat.repeated(1, 3, 5).reshape(3000, 5), repeated.T)
    assert flat.quick(jnp.array(True), lambda: "quick", lambda: "exact") == "exact"


def test_a_part_of_words_past_a_carry():
    """Words whose counter passes 2**32 within a user: those of a part are those of the whole."""
    stream = StreamKey.of(jax.random.key(1))
    for low in (2**32 - 1, 2**32 - 5 * LANES, 7):
        whole = UserWords(stream, jnp.uint32(3), jnp.uint32(low), jnp.bool_(True), 12)
        for start in (0, 1, 6):
            part = jr.part_of(whole, start, 5)
            np.testing.assert_array_equal(part[:], whole[start : start + 5])

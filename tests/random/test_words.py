"""Threefry words: published vectors, jax's own words, and the arithmetic of the counters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32

from jaxdp import random as jr
from jaxdp.random import Count
from jaxdp_kernels.threefry_words import IMPLEMENTATIONS, threefry2x32, threefry_words
from jaxdp_kernels.threefry_words.arg_specs import ARG_SPECS
from tests.marks import slow

SMALL_SPECS = [spec for spec in ARG_SPECS if spec.num_words <= 2**16]
# Random123's kat_vectors, threefry2x32 with 20 rounds: counter, key, result.
PUBLISHED = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def jax_words(key: jax.Array, first: int, count: int) -> np.ndarray:
    """Words first .. first + count - 1 by jax's threefry at the counters (high, low)."""
    counters = first + np.arange(count, dtype=np.uint64)
    halves = [counters >> np.uint64(32), counters & np.uint64(0xFFFFFFFF)]
    blocks = threefry_2x32(jax.random.key_data(key), np.concatenate(halves).astype(np.uint32))
    return np.asarray(blocks[:count] ^ blocks[count:])


@pytest.mark.parametrize(("counter", "key", "expected"), PUBLISHED)
def test_published_vectors(counter, key, expected):
    key, counter = (tuple(jnp.array(pair, jnp.uint32)) for pair in (key, counter))
    got = threefry2x32(key, counter)
    assert tuple(int(x) for x in got) == expected


@pytest.mark.parametrize("implementation", [None, *IMPLEMENTATIONS])
@pytest.mark.parametrize("spec", SMALL_SPECS, ids=lambda spec: spec.name)
def test_equals_jax_on_the_shared_arguments(spec, implementation):
    key = jax.random.key(spec.seed)
    start = jnp.array([spec.start >> 32, spec.start & 0xFFFFFFFF], jnp.uint32)
    got = threefry_words(jax.random.key_data(key), start, spec.num_words, implementation)
    assert np.array_equal(got, jax_words(key, spec.start, spec.num_words))
    if spec.start + spec.num_words <= 2**20:
        bits = jax.random.bits(key, (spec.start + spec.num_words,))
        assert np.array_equal(got, bits[spec.start :])


def test_lowers_for_cuda():
    f = jax.jit(threefry_words, static_argnums=2)
    arguments = [jax.ShapeDtypeStruct((2,), jnp.uint32)] * 2
    exported = jax.export.export(f, platforms=["cuda"])(*arguments, 1024)
    assert exported.platforms == ("cuda",)
    assert exported.out_avals[0].shape == (1024,)


FIRST_USERS = [0, 12345, (2**32 - 5) // 3, 2**32 - 2, 2**40, 2**53 - 9]


@pytest.mark.parametrize("num_words", [slow(1), 3, slow(7)])
@pytest.mark.parametrize("first", FIRST_USERS)
def test_words_of_users(key, first, num_words):
    """Consecutive users, single users and jax agree, across the carry into the upper half too."""
    users = Count.of(first) + Count.of(np.arange(9))
    block = jr.words(key, Count.of(first), 9, num_words)
    assert np.array_equal(block, jr.words_at(key, users, num_words))
    expected = jax_words(key, first * num_words, 9 * num_words)
    assert np.array_equal(np.asarray(block).ravel(), expected)


def test_words_do_not_depend_on_blocks_or_transformations(key):
    whole = np.asarray(jr.words(key, Count.of(0), 96, 5))
    assert np.array_equal(whole, jax.random.bits(key, (96, 5)))
    blocks = [jr.words(key, Count.of(i), 32, 5) for i in (0, 32, 64)]
    assert np.array_equal(whole, np.concatenate(blocks))
    shuffled = np.array([[95, 0], [7, 7]])
    assert np.array_equal(whole[shuffled], jr.words_at(key, Count.of(shuffled), 5))
    each = jax.vmap(lambda user: jr.words_at(key, user, 5))(Count.of(np.arange(96)))
    assert np.array_equal(whole, each)
    with jax.enable_x64(True):
        assert np.array_equal(whole, jr.words(key, Count.of(0), 96, 5))


def test_streams_are_folds_and_distinct(key):
    names = [jr.POPULATION, jr.ASSIGN, jr.PUBLIC, jr.PERMANENT, jr.ORDER, jr.DRAWS]
    names += [jr.ROUND, jr.ROUND + 1, jr.TALLY, jr.TALLY + 1]
    data = {tuple(jax.random.key_data(jr.stream(key, name)).tolist()) for name in names}
    assert len(data) == len(set(names)) == len(names)
    folded = jax.random.fold_in(key, jr.ROUND + 1)
    assert jr.stream(key, jr.ROUND + 1) == folded


@pytest.mark.parametrize(
    ("key_data", "start", "num_words", "implementation", "message"),
    [
        (np.zeros(4, np.uint32), np.zeros(2, np.uint32), 1, None, "key_data must be uint32"),
        (np.zeros(2, np.int32), np.zeros(2, np.uint32), 1, None, "key_data must be uint32"),
        (np.zeros(2, np.uint32), np.zeros((), np.uint32), 1, None, "start must be uint32"),
        (np.zeros(2, np.uint32), np.zeros(2, np.uint32), -1, None, "num_words must be in"),
        (np.zeros(2, np.uint32), np.zeros(2, np.uint32), 2**32, None, "num_words must be in"),
        (np.zeros(2, np.uint32), np.zeros(2, np.uint32), 1, "mosaic", "implementation must be"),
    ],
)
def test_bad_arguments(key_data, start, num_words, implementation, message):
    with pytest.raises(ValueError, match=message):
        threefry_words(key_data, start, num_words, implementation)


@pytest.mark.slow
@pytest.mark.parametrize("user", [0, 1, 2**31 // 7, 2**40 + 5])
def test_words_made_as_they_are_read_are_the_users_words(user, key):
    every = jr.words(key, Count.of(user), 1, 7)[0]
    lazy = jr.UserWords.of_user(key, Count.of(user), 7)
    for index in (0, 6, slice(None), slice(2, 5), slice(-2, None), np.array([4, 4, 0])):
        np.testing.assert_array_equal(lazy[index], every[index])
    picked = jax.jit(jax.vmap(lambda j: lazy[j]))(jnp.arange(7))
    np.testing.assert_array_equal(picked, every)

"""Words of 13 rounds as randomness: what a cipher of too few rounds does not pass.

A cipher that mixes badly is seen where words of neighbouring addresses are compared: users, the two
halves of a block, words, tiles, keys. Together the tests catch up to 8 rounds; too few for each of
them stand beside it.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp_kernels.threefry_words import StreamKey, threefry_words
from jaxdp_kernels.threefry_words.ref import threefry2x32
from tests import stats
from tests.marks import slow

ROUNDS = [13, slow(20)]
TOO_FEW = 4
USERS, NUM_WORDS = 2**16, 2

draw = jax.jit(lambda stream: threefry_words(stream, jnp.zeros(2, jnp.uint32), USERS, NUM_WORDS))


def drawn(data: jax.Array, rounds: int) -> np.ndarray:
    """uint32[words, users] of a stream."""
    return np.asarray(draw(StreamKey.of(jax.random.wrap_key_data(data), rounds)))


def columns(words: np.ndarray) -> np.ndarray:
    """Each of the 32 bits of all words, packed, uint8[32, n / 8]."""
    bits = (words.ravel() >> np.arange(32, dtype=np.uint32)[:, None]) & 1
    return np.packbits(bits.astype(bool), axis=1)


def neighbours(key: jax.Array, rounds: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Words side by side, for every way in which addresses can be next to each other."""
    data = jax.random.key_data(key)
    words = drawn(data, rounds)
    blocks = words.reshape(NUM_WORDS, -1, 2, 1024)

    def other(change: int, half: int) -> np.ndarray:
        return drawn(data.at[half].set(data[half] ^ np.uint32(change)), rounds)

    return {
        "users": (words[:, :-1], words[:, 1:]),
        "halves of a block": (blocks[:, :, 0], blocks[:, :, 1]),
        "words of a user": (words[:-1], words[1:]),
        "tiles": (blocks[:, :-1], blocks[:, 1:]),
        "trials": (words, drawn(jax.random.key_data(jax.random.fold_in(key, 1)), rounds)),
        "keys, first half": (words, other(1, 0)),
        "keys, second half": (words, other(2**31, 1)),
    }


@pytest.mark.parametrize("rounds", ROUNDS)
def test_words_of_neighbouring_addresses_are_independent(rounds, key):
    """No bit of one tells a bit of the other: a correlation of 5 % of any two bits is found."""
    pairs, controls = neighbours(key, rounds), neighbours(key, TOO_FEW)
    assert stats.detectable_proportion(USERS, 0.5, cells=32**2 * len(pairs)) < 0.05 / 2

    def check(first, second):
        differing = columns(first)[:, None] ^ columns(second)
        number = np.bitwise_count(differing).sum(axis=2, dtype=np.int64)
        stats.check_proportion(number, first.size, 0.5, cells=len(pairs))

    for name in pairs:
        check(*pairs[name])
        stats.must_fail(check, *controls[name])


@pytest.mark.parametrize("rounds", ROUNDS)
def test_every_byte_is_uniform(rounds, key):
    """Counted over consecutive users; only 3 rounds are so few that it shows."""

    def check(words):
        for byte in words.ravel()[:, None].view(np.uint8).T:
            counts = np.bincount(byte, minlength=256)
            stats.check_multinomial(counts, np.full(256, 1 / 256), cells=4)

    check(drawn(jax.random.key_data(key), rounds))
    stats.must_fail(check, drawn(jax.random.key_data(key), 3))


@pytest.mark.parametrize("rounds", ROUNDS)
def test_every_input_bit_changes_every_output_bit_in_half_of_the_cases(rounds, rng):
    """128 bits of key and counter, 64 of the result."""
    n = 2**12
    inputs = rng.integers(0, 2**32, (4, 1, n), dtype=np.uint32)
    flips = np.zeros((4, 128, 1), np.uint32)
    flips[np.arange(128) // 32, np.arange(128)] = 1 << (np.arange(128) % 32)[:, None]

    def changes(rounds):
        def block(x):
            return jnp.stack(threefry2x32((x[0], x[1]), (x[2], x[3]), rounds))

        found = np.asarray(jax.jit(block)(inputs) ^ jax.jit(block)(inputs ^ flips))
        return np.stack([(found >> np.uint32(bit) & 1).sum(axis=-1) for bit in range(32)])

    stats.check_proportion(changes(rounds), n, 0.5)
    stats.must_fail(stats.check_proportion, changes(TOO_FEW), n, 0.5)

"""Sums of integers over users, however large they are and however they lie."""

import jax
import numpy as np
import pytest

from jaxdp.random import count_bits, sum_integers, sum_squares

# One row of 32 bits, few long ones, many short ones, and both halves of every integer.
BOUNDS = [7, 2**20, 2**25 - 1, 2**29]


def numbers_and_mask(bound: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """6,000 users with three integers each; most of them large, so that an int32 sum wraps."""
    numbers = rng.integers(-bound, bound + 1, (6000, 3), dtype=np.int32)
    numbers[:, 0] = bound
    return numbers, rng.random(6000) < 0.7


@pytest.mark.parametrize("users_last", [False, True])
@pytest.mark.parametrize("bound", BOUNDS)
def test_sums_are_exact(bound, users_last, rng):
    numbers, mask = numbers_and_mask(bound, rng)
    for kept in (None, mask):
        expected = numbers.astype(np.int64)[slice(None) if kept is None else kept].sum(axis=0)
        summed = jax.jit(lambda x, m: sum_integers(x, bound, m, users_last=users_last))
        np.testing.assert_array_equal(summed(numbers, kept).numpy(), expected)


@pytest.mark.parametrize("bound", [7, 2**16 - 1, 2**20, 2**25])
def test_squares_are_exact(bound, rng):
    numbers, mask = numbers_and_mask(bound, rng)
    expected = np.square(numbers[mask].astype(np.int64)).sum(axis=0)  # below 2**63
    found = jax.jit(lambda x, m: sum_squares(x, bound, m))(numbers, mask)
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize(("users", "num_bits"), [(1, 3), (15, 32), (129, 33), (5000, 70)])
def test_bits_are_counted(users, num_bits, rng):
    """All users with the first bit: no sum of some of them wraps."""
    packed = rng.integers(0, 2**32, (users, -(-num_bits // 32)), dtype=np.uint32) | np.uint32(1)
    mask = rng.random(users) < 0.7
    bits = np.unpackbits(packed.view(np.uint8), axis=1, bitorder="little")[:, :num_bits]
    for kept in (None, mask):
        expected = bits[slice(None) if kept is None else kept].sum(axis=0)
        found = jax.jit(count_bits, static_argnums=1)(packed, num_bits, kept)
        np.testing.assert_array_equal(found.numpy(), expected)

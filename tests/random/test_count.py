"""Count against Python's integers."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp._bits import mul_32x32
from jaxdp.random import Count, merge

INT64 = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0, 1, -1, 2**31, 2**32 - 1, 2**32, -(2**32), 2**53, 2**63 - 1, -(2**63)]),
)
UINT32 = st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2**16, 2**32 - 1]))


def wrapped(value: int) -> int:
    """The int64 that is congruent to `value` modulo 2**64."""
    return (value + 2**63) % 2**64 - 2**63


@hypothesis.given(INT64, INT64, UINT32)
def test_arithmetic(a, b, factor):
    x, y = Count.of(np.int64(a)), Count.of(np.int64(b))
    assert int(x) == a
    assert int(x + y) == wrapped(a + b)
    assert int(x - y) == wrapped(a - b)
    assert int(-x) == wrapped(-a)
    assert int(x.times(np.uint32(factor))) == wrapped(a * factor)
    assert bool(x < y) == (a < b)
    assert bool(x >= y) == (a >= b)


@hypothesis.given(UINT32, UINT32)
def test_product_of_words(a, b):
    high, low = mul_32x32(np.uint32(a), np.uint32(b))
    assert (int(high) << 32) + int(low) == a * b


@hypothesis.given(st.integers(-(2**53), 2**53))
def test_floats(value):
    count = Count.of(np.int64(value))
    with jax.enable_x64(True):
        assert float(count.f64()) == value
        assert int(Count.from_float(count.f64())) == value
    assert float(count.f32()) == pytest.approx(value, rel=2**-23)
    single = int(np.float32(value))
    assert int(Count.from_float(jnp.float32(single))) == single


@pytest.mark.parametrize("shape", [(2, 3, 4), (2**17 + 3,)])
def test_sums(rng, shape):
    values = rng.integers(-(2**44), 2**44, shape)
    count = Count.of(values)
    assert count.shape == shape
    assert count.ndim == len(shape)
    assert int(count.sum()) == values.sum()
    for axis in range(-len(shape), len(shape)):
        assert np.array_equal(count.sum(axis).numpy(), values.sum(axis))
    if len(shape) == 3:
        assert np.array_equal(count.sum((0, -1)).numpy(), values.sum((0, 2)))
    assert np.array_equal(count.reshape(-1)[1:].numpy(), values.ravel()[1:])


@pytest.mark.parametrize("size", [1, 1000, 2**16, 2**17 + 3])
def test_sums_of_segments(rng, size):
    values, segments = rng.integers(-(2**44), 2**44, size), rng.integers(0, 3, size)
    sums = Count.of(values).segment_sum(jnp.asarray(segments, jnp.int32), 4)
    assert sums.numpy().tolist() == [values[segments == s].sum() for s in range(4)]
    rows = Count.of(np.stack([values, values], axis=1)).segment_sum(jnp.zeros(size, jnp.int32), 1)
    assert rows.numpy().tolist() == [[values.sum()] * 2]


def test_segments_of_full_halves():
    # Every piece of the lower half is as large as it can be.
    count = Count.of(np.full(2**16 + 1, 2**32 - 1))
    (total,) = count.segment_sum(jnp.zeros(2**16 + 1, jnp.int32), 1).numpy()
    assert total == (2**16 + 1) * (2**32 - 1)


def test_sum_past_every_float():
    count = Count.of(np.full(3 * 2**16, 2**44 + 1))
    assert int(count.sum()) == 3 * 2**16 * (2**44 + 1)


def test_of():
    assert int(Count.of(2**40)) == 2**40
    assert Count.of(jnp.array([-1, 5], jnp.int32)).numpy().tolist() == [-1, 5]
    assert Count.of(jnp.array([2**32 - 1], jnp.uint32)).numpy().tolist() == [2**32 - 1]
    assert int(Count.of(Count.of(3))) == 3
    assert Count.zeros((2, 3)).numpy().tolist() == [[0] * 3] * 2
    assert int(Count.of(np.uint64(2**63 - 1))) == 2**63 - 1
    for value in (2**63, np.array([0, 2**64 - 1], np.uint64)):
        with pytest.raises(ValueError, match="value must be below 2"):
            Count.of(value)
    for value in (1.5, jnp.float32(1.0), np.ones(3), "7"):
        with pytest.raises(TypeError, match="value must be"):
            Count.of(value)


def test_inside_transformations(rng):
    values = rng.integers(-(2**60), 2**60, (4, 6))
    count = Count.of(values)
    assert np.array_equal(jax.jit(lambda c: c + c)(count).numpy(), 2 * values)
    rows = jax.vmap(lambda c: c.sum())(count)
    assert np.array_equal(rows.numpy(), values.sum(1))
    total, _ = jax.lax.scan(lambda acc, c: (acc + c, None), Count.zeros((6,)), count)
    assert np.array_equal(total.numpy(), values.sum(0))
    with jax.enable_x64(True):
        assert np.array_equal((count + count).numpy(), 2 * values)


def test_merge_adds_leaves_exactly(rng):
    parts = [
        {"counts": Count.of(rng.integers(0, 2**50, 5)), "users": Count.of(rng.integers(0, 2**50))}
        for _ in range(3)
    ]
    left = merge(merge(parts[0], parts[1]), parts[2])
    right = merge(parts[0], merge(parts[2], parts[1]))
    expected = sum(p["counts"].numpy() for p in parts)
    assert np.array_equal(left["counts"].numpy(), expected)
    assert np.array_equal(right["counts"].numpy(), expected)
    at_once = merge(*parts)
    assert np.array_equal(at_once["counts"].numpy(), expected)
    assert int(at_once["users"]) == sum(int(p["users"]) for p in parts)
    assert int(merge(parts[0])["users"]) == int(parts[0]["users"])


@hypothesis.given(st.lists(INT64, min_size=1, max_size=20))
def test_sums_by_a_function_that_sums_uint32(values):
    count = Count.of(np.array(values, np.int64))
    total = count.summed(lambda limb: limb.sum(dtype=jnp.uint32))
    assert int(total) == wrapped(sum(values))

"""permute: bijections, and the law over keys."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.random import Count, permute
from tests import stats

KEYS = 40_000


@pytest.fixture(scope="module")
def permute_100k():
    """One program for all n up to 100,000: ids past n stay where they are."""
    ids = Count.of(np.arange(100_000))
    return jax.jit(lambda key, n: permute(key, ids, n))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 7, 10, 97, 1000, 2**16, 65_537, 99_999, 100_000])
def test_bijection(permute_100k, key, n):
    images = permute_100k(key, Count.of(n)).numpy()
    assert np.array_equal(np.sort(images[:n]), np.arange(n))
    assert np.array_equal(images[n:], np.arange(n, 100_000))
    assert n < 100 or np.mean(images[:n] == np.arange(n)) < 0.1


@pytest.fixture(scope="module")
def small() -> dict[int, np.ndarray]:
    """int64[keys, n] for some small n: the image of [0, n) under many keys."""
    keys = jax.random.split(jax.random.key(0x9E), KEYS)
    ids = Count.of(np.arange(9))
    images = jax.jit(jax.vmap(lambda key, n: permute(key, ids, n), in_axes=(0, None)))
    return {n: images(keys, Count.of(n)).numpy()[:, :n] for n in (2, 3, 4, 5, 9)}


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_law_of_whole_permutations(small, n):
    index = {x: i for i, x in enumerate(itertools.permutations(range(n)))}
    seen = np.bincount([index[tuple(x)] for x in small[n].tolist()], minlength=len(index))
    stats.check_multinomial(seen, np.full(len(index), 1 / len(index)))


def test_law_of_pairs(small):
    """Images of every pair of ids in [0, 9). Shifts x -> x + c fail, their images alone do not."""
    uniform = np.full(72, 1 / 72)
    pairs = list(itertools.permutations(range(9), 2))

    def seen(images, a, b):
        table = np.bincount(9 * images[:, a] + images[:, b], minlength=81).reshape(9, 9)
        return np.array([table[pair] for pair in pairs])

    for a, b in pairs:
        stats.check_multinomial(seen(small[9], a, b), uniform, cells=len(pairs))
    shifts = (small[9][:, :1] + np.arange(9)) % 9
    stats.check_multinomial(np.bincount(shifts[:, 3], minlength=9), np.full(9, 1 / 9))
    stats.must_fail(stats.check_multinomial, seen(shifts, 0, 1), uniform)


@pytest.mark.parametrize("n", [10**6, 10**12, 2**53 - 1, 2**53])
def test_large(permute_100k, key, n):
    """Distinct images, spread evenly, alone and in neighbouring pairs."""
    images = permute_100k(key, Count.of(n)).numpy()
    assert len(np.unique(images)) == len(images)
    assert images.min() >= 0
    assert images.max() < n
    bins = np.array([int(x) * 16 // n for x in images])
    edges = [-(-n * i // 16) for i in range(17)]
    p = np.diff(edges) / n
    # Without replacement, counts are closer to their means than independent ones.
    stats.check_multinomial(np.bincount(bins, minlength=16), p)
    pairs = np.bincount(16 * bins[::2] + bins[1::2], minlength=256)
    stats.check_multinomial(pairs, np.outer(p, p).ravel())
    low = np.bincount(images & 15, minlength=16)
    stats.check_multinomial(low, [len(range(r, n, 16)) / n for r in range(16)])


def test_keys_differ(permute_100k, key):
    other = jax.random.fold_in(key, 1)
    a, b = (permute_100k(k, Count.of(100_000)).numpy() for k in (key, other))
    stats.check_proportion(np.sum(a == b), 100_000, 1e-3, at_most=True)


def test_ids_out_of_range_stay(key):
    ids = np.array([-1, 5, 2**53, 2**53 + 1, 2**60 + 1])
    assert permute(key, ids, 5).numpy().tolist() == ids.tolist()
    assert jax.jit(permute)(key, jnp.arange(3), Count.of(-7)).numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("n", "message"), [(-7, "n must be in"), (2**53 + 1, "n must be in"), ([5, 6], "n must be one")]
)
def test_bad_input(key, n, message):
    with pytest.raises(ValueError, match=message):
        permute(key, np.arange(3), n)

"""Normals from words: the quantile function, its symmetry, and the law over all words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erfinv, ndtri

from jaxdp_kernels.standard_normal import IMPLEMENTATIONS, standard_normal
from jaxdp_kernels.standard_normal.arg_specs import ARG_SPECS
from jaxdp_kernels.standard_normal.bench import by_erf_inv

ERROR = 5e-7  # relative
EDGES = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1], np.uint32)


def quantile(words):
    """The inverse of Phi at (w + 1/2) / 2**32 in float64, accurate near the middle and in tails."""
    below = words < 2**31
    tail = np.where(below, words, ~words).astype(np.float64)
    middle = 1 - (tail + 0.5) / 2.0**31
    center = np.sqrt(2) * erfinv(np.minimum(middle, 0.5))
    size = np.where(middle <= 0.5, center, -ndtri((tail + 0.5) / 2.0**32))
    return np.where(below, -size, size)


def relative_error(words, normals=standard_normal):
    got = np.asarray(jax.jit(normals)(jnp.asarray(words)))
    assert got.dtype == np.float32
    assert np.isfinite(got).all()
    exact = quantile(words)
    return np.max(np.abs(got / exact - 1))


def grid(points):
    """Words spread evenly over all, over the lower tail by powers of two, and about the middle."""
    even = (np.arange(points, dtype=np.uint64) * (2**32 // points) + 12345).astype(np.uint32)
    tail = np.exp2(np.linspace(0, 31.999, points)).astype(np.uint32)
    middle = (2**31 + (tail >> np.uint32(2)).astype(np.int64) - 2**12).astype(np.uint32)
    return np.concatenate([EDGES, even, tail, ~tail, middle])


def test_is_the_quantile_function():
    words = grid(2**17)
    assert relative_error(words) <= ERROR
    assert relative_error(words, by_erf_inv) > 1e-2  # coarser by far, and without the tails


def check_words(normals, number, size, above):
    """Checks words `number * size` and on, of the lower half, and those opposite to them.

    All are finite and below zero, `~w` is minus `w`, none falls below an earlier one by more than
    two errors, and every 32nd is the quantile; so are all of the first block, the tail.

    Args:
      normals: a jitted function of words.
      number: of the block.
      size: words of a block.
      above: the largest of the earlier results.

    Returns:
      The largest result up to here, and the sum of the squares.
    """
    words = np.arange(size, dtype=np.uint32) + np.uint32(number * size)
    got, opposite = (np.asarray(x) for x in normals(words))
    assert np.isfinite(got).all()
    assert got.max() < 0
    np.testing.assert_array_equal(opposite, -got)
    highest = np.maximum.accumulate(np.append(np.float32(above), got))[1:]
    assert np.max((highest - got) / -got) <= 2 * ERROR
    some = slice(None) if number == 0 else slice(number % 32, None, 32)
    assert np.max(np.abs(got[some] / quantile(words[some]) - 1)) <= ERROR
    return highest[-1], np.sum(np.square(got, dtype=np.float64))


def both(normals):
    """Results of words and of their opposites, in one program."""
    return jax.jit(lambda words: (normals(words), normals(~words)))


@pytest.mark.slow
def test_every_word():
    """All 2**32 of them, block by block.

    Results that are in order and near the quantiles at every 32nd word are near them at all.
    """
    size, above, squares = 2**22, np.float32(-np.inf), 0.0
    normals = both(standard_normal)
    for number in range(2**31 // size):
        above, more = check_words(normals, number, size, above)
        squares += more
    assert squares / 2**31 == pytest.approx(1, abs=2 * ERROR)


@pytest.mark.parametrize(
    "plant",
    [
        lambda z, w: jnp.where(w == 5000, jnp.nan, z),
        lambda z, w: jnp.where(w == 5000, -z, z),
        lambda z, w: jnp.where(w < np.uint32(2**31), z, z * np.float32(1 + 1e-6)),
        lambda z, w: jnp.where(jnp.minimum(w, ~w) == 5000, z * np.float32(1 + 3e-3), z),
        lambda z, w: z * np.float32(1 + 1e-6),
    ],
    ids=["not a number", "sign", "asymmetry", "order", "scale"],
)
def test_planted_errors_are_seen(plant):
    """One word of 4,096 is not finite, of the other sign or out of order, or a half is off."""
    start = 1, 2**12, -np.inf
    check_words(both(standard_normal), *start)
    with pytest.raises(AssertionError):
        check_words(both(lambda w: plant(standard_normal(w), w)), *start)


def test_symmetry_and_range():
    words = grid(2**12)
    got = np.asarray(standard_normal(words))
    np.testing.assert_array_equal(standard_normal(~words), -got)
    extreme = np.asarray(standard_normal(EDGES))
    assert np.abs(got).max() == extreme[-1] == pytest.approx(-ndtri(2.0**-33), rel=ERROR)
    assert (got != 0).all()


def test_moments_over_all_words():
    """A mean over all words, in float64: exact in the tail, by midpoints in between."""
    width, cells = 2.0**-32, 2**20
    tail = quantile(np.arange(cells, dtype=np.uint32))
    z = quantile(np.array([cells - 1], np.uint32))[0]
    edge = ndtri(cells * width)
    assert z < edge
    density = np.exp(-(edge**2) / 2) / np.sqrt(2 * np.pi)
    below = cells * width
    for power, integral in (
        (2, below - edge * density),
        (4, 3 * below - (edge**3 + 3 * edge) * density),
    ):
        lost = 2 * (integral - np.sum(tail**power) * width)
        assert lost == pytest.approx({2: 3.16e-10, 4: 2.72e-8}[power], rel=0.01)


def test_shapes_and_transformations():
    spec = ARG_SPECS[1]
    (words,) = spec.arguments()
    whole = jax.jit(standard_normal)(words)
    assert whole.shape == spec.shape
    np.testing.assert_array_equal(jax.jit(jax.vmap(standard_normal))(words), whole)
    np.testing.assert_allclose(standard_normal(words), whole, rtol=ERROR)
    assert standard_normal(*ARG_SPECS[0].arguments()).shape == ()
    with jax.enable_x64(True):
        in_x64 = jax.jit(standard_normal)(words)
    assert in_x64.dtype == jnp.float32
    np.testing.assert_array_equal(in_x64, whole)


def test_lowers_for_cuda():
    words = jax.ShapeDtypeStruct((1024,), jnp.uint32)
    exported = jax.export.export(jax.jit(standard_normal), platforms=["cuda"])(words)
    assert exported.platforms == ("cuda",)


def test_bad_arguments():
    with pytest.raises(ValueError, match="words must be uint32"):
        standard_normal(np.zeros(3, np.int32))
    with pytest.raises(ValueError, match="implementation must be"):
        standard_normal(EDGES, "mosaic")
    assert set(IMPLEMENTATIONS) == {"xla"}

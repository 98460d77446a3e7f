"""Sums, squares and products of reports that are normal across the input, against the reports."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.random import Count
from jaxdp.randomizers import CandidateResponse, PrivUnitG
from jaxdp.randomizers._tilt import distance_of, merge_cells
from jaxdp.randomizers._tilted_normal import TiltedNormalRound
from tests import stats

LEFT = np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 0.0], [-0.3, 0.2, 0.5]], np.float32)
RIGHT = np.array([[0.6, 0.0, 0.8], [0.5, 0.0, 0.0], [0.3, -0.2, -0.5]], np.float32)
COUNTS = np.array([[5, 3, 4], [2, 0, 1], [0, 0, 1]])  # of users, few enough to see each
TRIALS = 2000


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("make", [PrivUnitG, CandidateResponse])
def test_cells_have_the_moments_of_the_law(make, epsilon):
    """E a and E a**2, and no cell is so wide that its bound would be needed for few users."""
    spec = make(3, epsilon)
    tilt = spec.build().tilt
    along, across = spec.second_moments()
    mean = 1 / np.sqrt(across) if make is CandidateResponse else spec.threshold
    plain, (masses, mean_of, second, _, _) = float(tilt.plain), tilt.cells
    first, square = masses @ mean_of, masses @ (mean_of**2 + second)
    assert (1 - plain) * first == pytest.approx(mean, rel=1e-10)
    assert plain + (1 - plain) * square == pytest.approx(along * mean**2, rel=1e-10)
    with jax.enable_x64(True):
        wide = np.asarray(merge_cells(jnp.asarray(tilt.cells)))
        bound = float(distance_of(plain * 1e8, (1 - plain) * 1e8, jnp.asarray(tilt.cells)))
    assert bound < 2.0**-17
    masses, mean_of, second, _, _ = wide
    assert masses @ mean_of == pytest.approx(first, rel=1e-12)
    assert masses @ (mean_of**2 + second) == pytest.approx(square, rel=1e-12)


def _reported(params, key, counts, inputs):
    """What users report: both sums, the products, and the squares of the first reports."""
    n = int(COUNTS.sum(axis=1).max())
    held = jnp.repeat(jnp.arange(len(counts)), counts, total_repeat_length=n)
    mask = jnp.arange(n) < jnp.sum(counts)
    made = []
    for side, vectors in enumerate(inputs):
        keys = jax.random.split(jax.random.fold_in(key, side), n)
        reports = params.summands(jax.vmap(params.privatize)(keys, jnp.asarray(vectors)[held]))
        made.append(jnp.where(mask[:, None], reports, 0).astype(jnp.float32) / params.grid)
    left, right = made
    return left.sum(axis=0), right.sum(axis=0), (left * right).sum(), (left**2).sum(axis=0)


def _drawn(params, key, counts, inputs):
    """The same by both laws; and the parities of sums of squares, less those of sums."""
    first, second = (jax.random.fold_in(key, i) for i in range(2))
    counts, grid = Count.of(counts), params.grid
    pair = params.products_law.draw(first, counts, tuple(map(jnp.asarray, inputs)))
    one = params.squares_law.draw(second, counts, jnp.asarray(inputs[0]))
    sides = (pair[name]["sum"].f32() / grid for name in ("left", "right"))
    parity = (one["squares"].lo ^ one["sum"].lo) & 1
    products, squares = pair["products"].f32() / grid**2, one["squares"].f32() / grid**2
    return *sides, products, one["sum"].f32() / grid, squares, parity


def _numbers(sums, others):
    """Statistics that see every pair of entries, of a few users."""
    weights = np.random.default_rng(0).normal(size=(sums.shape[1], 2))
    mixed = [sums @ weights, others, (sums @ weights) * others[:, :1], sums[:, :1] * sums[:, -1:]]
    return np.concatenate(mixed, axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "dim"),
    [
        (PrivUnitG, 3),
        (PrivUnitG, 2),
        (PrivUnitG, 1),
        (lambda dim, e: CandidateResponse(dim, e, num_candidates=16), 3),
    ],
)
def test_laws_of_squares_and_products(make, dim, key, monkeypatch):
    """Few users, where no sum hides a shape: one by one, and by cells, whatever the bound is."""
    params = make(dim, 2.0).build()
    inputs = tuple(side[:, :dim] for side in (LEFT, RIGHT))

    @jax.jit
    def samples(keys, counts, cells):
        monkeypatch.setattr(TiltedNormalRound, "_many", staticmethod(lambda *_: cells))
        both = lambda key: (  # noqa: E731
            _reported(params, jax.random.fold_in(key, 0), counts, inputs),
            _drawn(params, jax.random.fold_in(key, 1), counts, inputs),
        )
        return jax.lax.map(both, keys, batch_size=100)

    for number, counts in enumerate(COUNTS):
        for cells in (False, True):
            keys = jax.random.split(jax.random.fold_in(key, 2 * number + cells), TRIALS)
            made, drawn = samples(keys, jnp.asarray(counts), jnp.asarray(cells))
            left, right, products, squares = (np.asarray(x).reshape(TRIALS, -1) for x in made)
            *sides, of_pairs, total, of_squares, parity = (
                np.asarray(x).reshape(TRIALS, -1) for x in drawn
            )
            assert not parity.any()
            pairs = _numbers(np.c_[left, right], products)
            found = _numbers(np.c_[tuple(sides)], of_pairs)
            stats.check_two_samples(pairs, found)
            stats.check_two_samples(_numbers(left, squares), _numbers(total, of_squares))
            if counts.sum() > 1:
                # Without what joins them: the products of other users
                apart = _numbers(np.c_[tuple(sides)], np.roll(of_pairs, 1))
                stats.must_fail(stats.check_two_samples, pairs, 1.5 * apart)

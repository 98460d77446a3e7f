"""Simplex, balls and boxes: optimality in both precisions, ties and offsets, derivatives."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from jaxdp import projections as pj

from . import derivatives

PRECISIONS = {"float32": 1e-6, "float64": 1e-10}


def exact_simplex(x, radius):
    """The projection by sorting, in extended precision."""
    x = np.asarray(x, np.longdouble)
    x = x - x.max(axis=-1, keepdims=True)
    excess = np.cumsum(-np.sort(-x, axis=-1), axis=-1) - radius
    levels = excess / np.arange(1, x.shape[-1] + 1)
    # The threshold is the largest of the levels: each is a lower bound of the root.
    return np.maximum(x - levels.max(axis=-1, keepdims=True), 0)


def exact_l1_ball(x, radius):
    x = np.asarray(x, np.longdouble)
    inside = np.abs(x).sum(axis=-1, keepdims=True) <= radius
    return np.where(inside, x, np.sign(x) * exact_simplex(np.abs(x), radius))


def vectors(rng, k):
    """Rows with offsets, ties, spikes and small ones, as float64."""
    noise = rng.standard_normal((8, k))
    noise[1] += 1e6
    noise[2] = 1e6 + 1e-6 * noise[2]
    noise[3] = -3e7
    noise[4, : k // 2] = noise[4].max()
    noise[5] = np.where(np.arange(k) == k // 3, 0.5, 1e-6 * noise[5])
    noise[6] *= 1e-8
    noise[7] = np.arange(k) / k + 1e30
    return noise


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("k", [1, 5, 4099])
def test_simplex_and_l1_ball_are_optimal(precision, k, rng):
    tol = PRECISIONS[precision]
    with jax.enable_x64(precision == "float64"):
        x = jnp.asarray(vectors(rng, k), precision)
        for radius in (1.0, 1e-4, 1e4):
            for project, exact in ((pj.simplex, exact_simplex), (pj.l1_ball, exact_l1_ball)):
                w = np.asarray(project(x, radius))
                assert w.dtype == precision
                assert np.abs(w - exact(x, radius)).max() <= tol * radius
                total = np.abs(w.astype(np.longdouble)).sum(axis=-1)
                assert (total <= radius * (1 + tol)).all()
                if project is pj.simplex:
                    assert (w >= 0).all()
                    assert (total >= radius * (1 - tol)).all()


@pytest.mark.slow
def test_optax_simplex_fails_where_ours_holds():
    """The negative control of the test above, and what the docstring says of optax."""
    import optax

    x = jnp.full((4099,), 1e6).at[::2].add(0.25)
    ours = np.asarray(pj.simplex(x), np.float64)
    with jax.numpy_dtype_promotion("standard"):
        theirs = np.asarray(optax.projections.projection_simplex(x), np.float64)
    assert abs(ours.sum() - 1) < 1e-6
    assert abs(theirs.sum() - 1) > 1e-2


def test_equal_entries_get_equal_weights():
    for offset in (0.0, 1e7, -3e20):
        w = np.asarray(pj.simplex(jnp.full((7,), offset)))
        assert (w == w[0]).all()
        assert abs(w[0] - 1 / 7) < 1e-7


def test_the_result_of_a_row_does_not_depend_on_the_others(rng):
    x = jnp.asarray(vectors(rng, 33), jnp.float32)
    together = np.asarray(pj.simplex(x))
    apart = np.stack([np.asarray(pj.simplex(row[None]))[0] for row in x])
    np.testing.assert_allclose(together, apart, rtol=1e-6)


SETS = {
    "simplex": (pj.simplex, lambda d: d.max(-1)),
    "l1_ball": (pj.l1_ball, lambda d: np.abs(d).max(-1)),
    "l2_ball": (pj.l2_ball, lambda d: np.linalg.norm(d, axis=-1)),
    "box": (lambda x: pj.box(x, -0.5, 0.25), lambda d: np.where(d > 0, d / 4, -d / 2).sum(-1)),
}


def violation(x, p, support):
    """Largest ⟨x − p, c − p⟩ over the points c of a set: 0 exactly at the projection."""
    x, p = np.asarray(x, np.float64), np.asarray(p, np.float64)
    return (support(x - p) - np.sum((x - p) * p, axis=-1)) / (1 + np.sum(x**2, axis=-1))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_variational_inequality(name, precision, rng):
    project, support = SETS[name]
    with jax.enable_x64(precision == "float64"):
        x = jnp.asarray(rng.standard_normal((64, 6)) * 10 ** rng.uniform(-2, 2, (64, 1)), precision)
        p = project(x)
        tol = PRECISIONS[precision]
        assert np.abs(violation(x, p, support)).max() <= tol
        # A point of the set that is not the projection.
        other = project(x + 0.05 * jnp.roll(x, 1, axis=-1))
        assert violation(x, other, support).max() > 100 * tol


@pytest.mark.parametrize("name", SETS)
@hypothesis.given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=6, max_size=6),
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=6, max_size=6),
)
@hypothesis.settings(max_examples=50)
def test_idempotent_and_non_expansive(name, x, y):
    project = SETS[name][0]
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    p, q = np.asarray(project(x)), np.asarray(project(y))
    np.testing.assert_allclose(np.asarray(project(p)), p, atol=1e-6)
    apart = np.linalg.norm(np.asarray(x, np.float64) - np.asarray(y, np.float64))
    assert np.linalg.norm(p - q) <= apart + 3e-6


def test_points_inside_come_back_bit_for_bit(rng):
    x = jnp.asarray(rng.uniform(-0.1, 0.1, (5, 6)), jnp.float32)
    for project in (pj.l1_ball, pj.l2_ball, pj.column_norm_ball, pj.frobenius_ball):
        np.testing.assert_array_equal(np.asarray(project(x, 5.0)), np.asarray(x))


def test_norms_neither_overflow_nor_underflow():
    huge = jnp.array([3e30, 4e30], jnp.float32)
    np.testing.assert_allclose(np.asarray(pj.l2_ball(huge)), [0.6, 0.8], rtol=1e-6)
    tiny = jnp.array([3e-30, 4e-30], jnp.float32)
    np.testing.assert_allclose(np.asarray(pj.l2_ball(tiny, 5e-31)), [3e-31, 4e-31], rtol=1e-6)


def test_column_norms_and_radii_of_a_batch(rng):
    x = jnp.asarray(rng.standard_normal((2, 5, 3)), jnp.float32)
    radius = jnp.array([0.5, 1.0, 9.0])
    out = np.asarray(pj.column_norm_ball(x, radius))
    columns = np.asarray(pj.l2_ball(jnp.swapaxes(x, 1, 2), radius))
    np.testing.assert_allclose(out, np.swapaxes(columns, 1, 2), rtol=1e-6)
    one = np.asarray(pj.simplex(x[0], 2.0))
    many = np.asarray(pj.simplex(x, jnp.array([[2.0], [7.0]])))
    np.testing.assert_allclose(many[0], one, atol=1e-6)
    np.testing.assert_allclose(many.sum(-1), [[2.0] * 5, [7.0] * 5], rtol=1e-6)


@pytest.mark.slow
def test_derivatives(rng):
    with jax.enable_x64(True):
        x = rng.standard_normal((4, 5))
        for project in (pj.simplex, pj.l1_ball, pj.column_norm_ball, pj.box):
            # The last row is the radius, or half the width of the box.
            bounds = (lambda r: (-r, r)) if project is pj.box else (lambda r: (r,))
            derivatives.check(lambda x, p=project, b=bounds: p(x[:3], *b(jnp.abs(x[3]).mean())), x)
        for project in (pj.l1_ball, pj.l2_ball):
            np.testing.assert_array_equal(jax.jacobian(project)(jnp.zeros(3)), np.eye(3))


def test_transformations(rng, count_compilations):
    x = jnp.asarray(rng.standard_normal((4, 9)), jnp.float32)
    plain = np.asarray(pj.simplex(x, 2.0))
    mapped = jax.jit(jax.vmap(pj.simplex, in_axes=(0, None)))(x, jnp.float32(2.0))
    np.testing.assert_allclose(np.asarray(mapped), plain, atol=1e-6)
    with count_compilations() as seen:
        pj.simplex(x, 3.0)
    assert seen.compiled == []
    poisoned = np.asarray(jax.jit(pj.simplex)(x.at[1, 2].set(jnp.nan)))
    assert np.isnan(poisoned[1]).all()
    np.testing.assert_allclose(poisoned[0], pj.simplex(x[0]), atol=1e-6)

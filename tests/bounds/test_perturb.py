"""Gaussian complexity by Monte Carlo and in closed form, and the error bounds it gives."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from jaxdp._x64 import in_float64
from jaxdp.bounds import _perturb as bounds
from jaxdp.central import CosineSet, Intersection
from jaxdp.projections import box, l2_ball, spectraplex
from jaxdp.random._gamma import normal


def cube(x):
    return box(x, -1.0, 1.0)


def unit_ball(x):
    return l2_ball(x)


def unit_trace(x):
    return spectraplex(x, at_most=True)


@pytest.mark.parametrize(
    ("convex_set", "exact"),
    [
        (Intersection((6,), (cube,), math.sqrt(6)), 6 * math.sqrt(2 / math.pi)),
        (
            Intersection((6,), (unit_ball,), 1.0),
            math.sqrt(2) * math.exp(special.gammaln(3.5) - special.gammaln(3)),
        ),
    ],
)
def test_monte_carlo_finds_known_complexities(convex_set, exact, key):
    found = bounds.gaussian_complexity(convex_set, key, num_samples=60)
    assert found.lower <= found.upper <= 1.02 * found.lower
    assert abs(found.upper - exact) < 7 * found.deviation + 0.02 * exact
    assert found.limit > exact
    assert found.deviation < 0.1 * exact
    again = bounds.gaussian_complexity(convex_set, key, num_samples=60)
    assert again == found


def test_limit_of_one_exact_direction(key, rng):
    """Each sample's enclosure holds the maximum over the ball, the norm of that sample."""
    ball = Intersection((6,), (unit_ball,), 1.0)
    found = bounds.gaussian_complexity(ball, key, num_samples=1, scale=3.0)
    w = np.asarray(in_float64(lambda: normal(jax.random.fold_in(key, 0), (6,)))())
    assert found.lower <= np.linalg.norm(w) * (1 + 1e-6)
    assert found.upper >= np.linalg.norm(w) * (1 - 1e-6)


@pytest.mark.slow
def test_cosine_complexity_is_close_above_the_estimate(key):
    n = 16
    found = bounds.gaussian_complexity(CosineSet(n), key, num_samples=20)
    bound = CosineSet(n).complexity_bound()
    assert 0.65 * bound < found.lower <= found.upper < bound <= math.sqrt(2) * n**1.5


@pytest.mark.slow
def test_spectraplex_complexity(key):
    plex = Intersection((8, 8), (unit_trace,), 1.0, symmetric=True)
    found = bounds.gaussian_complexity(plex, key, num_samples=20)
    assert 0.6 * bounds.spectraplex_complexity(8) < found.lower
    assert found.upper < bounds.spectraplex_complexity(8) <= math.sqrt(2 * 8)
    assert bounds.spectraplex_complexity(8, 3.0) == 3 * bounds.spectraplex_complexity(8)


def test_projections_are_firmly_non_expansive_so_the_constant_is_one(rng):
    """|P(A + W) - P(A)|^2 <= <W, P(A + W) - P(A)> for every W: the step behind the bounds."""
    n, spec = 16, CosineSet(16)
    with jax.enable_x64(True):
        a = jnp.eye(n, dtype=jnp.float64)
        w = rng.standard_normal((20, n, n)) * np.geomspace(0.01, 5, 20)[:, None, None]
        w = jnp.asarray(np.triu(w, 1) + np.swapaxes(np.triu(w, 1), 1, 2))
        change = jnp.stack([spec.project(a + x, tol=1e-8).point - a for x in w])
    squares = np.sum(np.asarray(change) ** 2, axis=(1, 2))
    inner = np.sum(np.asarray(change * w), axis=(1, 2))
    assert (squares <= inner + 1e-7).all()
    assert (squares > 0.99 * inner).any()  # no smaller constant holds
    assert (squares < 0.5 * inner).any()


def test_bounds_on_a_segment_by_quadrature():
    """S = [-1, 1] with G(S) = sqrt(2 / pi), A at its end: a bound with little to spare."""
    w, weight = np.polynomial.hermite_e.hermegauss(200)
    weight = weight / weight.sum()
    ratios = []
    for sigma in np.geomspace(0.1, 100, 30):
        error = weight @ (np.clip(1 + sigma * w, -1, 1) - 1) ** 2
        bound = bounds.perturb_and_project_mse(
            sigma, math.sqrt(2 / math.pi), dimension=1, radius=1.0
        )
        ratios.append(error / bound)
    assert 0.45 < max(ratios) <= 1
    assert bounds.perturb_and_project_mse(50.0, math.sqrt(2 / math.pi), radius=1.0) == 4.0
    assert bounds.perturb_and_project_mse(0.5, 3.0, dimension=4) == 1.0
    assert bounds.perturb_and_project_mse(0.5, 1.0, dimension=40) == 0.5


def test_cosine_bound_takes_the_least_of_three():
    n = 16
    assert bounds.cosine_similarity_mse(n, 1e-3) == pytest.approx(1e-6 * n * (n + 1) / 2)
    assert bounds.cosine_similarity_mse(n, 1.0) == pytest.approx(CosineSet(n).complexity_bound())
    assert bounds.cosine_similarity_mse(n, 100.0) == 4.0 * n**2
    for name, arguments in (
        ("num_items", (0, 1.0)),
        ("num_items", (2**53, 1.0)),
        ("sigma", (4, 0.0)),
        ("sigma", (4, math.nan)),
    ):
        with pytest.raises(ValueError, match=f"{name} must be"):
            bounds.cosine_similarity_mse(*arguments)

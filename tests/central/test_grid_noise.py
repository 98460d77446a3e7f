"""Noise in whole steps: its law, exact sums, what rounding costs, what last bits tell."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as laws

import jaxdp
from jaxdp import workloads
from jaxdp.central import (
    CosineSimilarity,
    FactorizationMechanism,
    Intersection,
    Marginals,
    PerturbAndProject,
)
from jaxdp.central._grid_noise import (
    _STEPS,
    GridNoise,
    _calibrated_step,
    fixed_point,
    in_range,
    largest_total,
    rounded_product,
    to_steps,
)
from jaxdp.projections import box
from jaxdp.random import Count, NormalNoise
from tests import stats


def bounded(x):
    return box(x, -1.0, 1.0)


def test_noise_is_normal_with_the_stated_deviation(key):
    normal = NormalNoise.of(_STEPS)
    draws = GridNoise(normal, np.asarray(1.0)).draw(key, (40, 500))
    assert draws.shape == (40, 500)
    values = draws.numpy().ravel() / normal.steps
    stats.check_cdf(values, laws.norm.cdf)
    stats.must_fail(stats.check_cdf, 1.1 * values, laws.norm.cdf)
    assert len(np.unique(draws.numpy() % 64)) == 64


def test_products_are_exact(rng):
    """Against rational arithmetic, for as many users as are allowed; the nearest integers."""
    rows = rng.normal(size=(4, 5)) * 10.0 ** rng.integers(0, 5, (4, 5))
    counts = rng.multinomial(largest_total(rows), np.ones(5) / 5)
    found = jax.jit(rounded_product)(fixed_point(rows), Count.of(counts)).numpy()
    exact = [product(map(Fraction, row), counts) for row in rows]
    for number, value in zip(found, exact, strict=True):
        assert abs(int(number) - value) <= Fraction(1, 2) + Fraction(int(counts.sum()), 2**33)
    found = rounded_product(fixed_point(rows), Count.of(counts // 2**20)).numpy()
    for number, row in zip(found, rows, strict=True):
        assert abs(int(number) - product(map(Fraction, row), counts // 2**20)) < 0.51


def product(row, counts):
    return sum(x * int(c) for x, c in zip(row, counts, strict=True))


def test_rounded_answers_of_neighbours_are_as_near_as_stated(rng):
    """For few users, and for so many that float sums would be off by more than the noise."""
    mechanism = FactorizationMechanism(workloads.prefix(6), 1.0, 1e-6)
    right, step = mechanism.build().right, mechanism.step
    largest = 0.0
    for users in (10, 10**12):
        counts = rng.multinomial(users, np.ones(6) / 6)
        for x in range(6):
            for y in range(6):
                other = counts - np.eye(6, dtype=int)[x] + np.eye(6, dtype=int)[y]
                pair = [rounded_product(right, Count.of(c)).numpy() for c in (counts, other)]
                largest = max(largest, float(np.linalg.norm(pair[0] - pair[1]) * step))
    assert 0.999 * mechanism.sensitivity < largest <= mechanism.rounded_sensitivity


def test_the_grid_costs_next_to_nothing_until_it_is_refused():
    for entries, epsilon in ((1, 8.0), (1000, 0.01), (1000, 8.0), (10**6, 1.0)):
        step = _calibrated_step(epsilon, 1e-6, 2.0, entries, 1.5 * math.sqrt(entries))
        tables = (1 + math.exp(epsilon)) * entries * NormalNoise.of(_STEPS).distance
        plain = jaxdp.accounting.gaussian_sigma(epsilon, 1e-6 - tables, 2.0)
        steps = NormalNoise.of(_STEPS).steps
        share = 1.5 * math.sqrt(entries) * (plain / 2) / steps  # of sigma, for rounding
        assert share < 0.03
        assert plain < steps * step == pytest.approx(plain / (1 - share), rel=1e-6)
        assert float(np.float32(step)) == step
    step = _calibrated_step(1.0, 1e-6, 30.0, 100, 0.0)
    assert 1 / step == round(1 / step)
    with pytest.raises(ValueError, match=r"delta must be at least .*63 bits"):
        FactorizationMechanism(np.eye(3), 1.0, 1e-16).build()
    with pytest.raises(ValueError, match="epsilon must be larger"):
        Marginals(5, 2, 1e-9, 1e-12, method="none")
    interval = Intersection((1,), (bounded,), 1.0)
    with pytest.raises(ValueError, match="sensitivity must be larger"):
        PerturbAndProject(interval, 1e-14, 1.0, 1e-6)
    with pytest.raises(ValueError, match="sensitivity must be within"):
        PerturbAndProject(interval, 1e36, 1.0, 1e-6)
    with pytest.raises(ValueError, match="sensitivity must be larger"):
        CosineSimilarity(3, 1e-9, 1.0, 1e-6).release(jax.random.key(0), np.eye(3, 10**6))


def test_delta_is_of_rounded_neighbours_and_of_the_tables():
    for mechanism in (
        FactorizationMechanism(workloads.prefix(6), 1.0, 1e-6),
        PerturbAndProject(Intersection((64,), (bounded,), 8.0), 0.5, 0.1, 1e-9),
        Marginals(5, 2, 2.0, 1e-6, method="none"),
    ):
        distance, sigma = mechanism.rounded_sensitivity, mechanism.sigma
        moved = 1.5 * math.sqrt(mechanism.num_entries) * mechanism.step
        assert distance - mechanism.sensitivity in (0, pytest.approx(moved, rel=1e-6))
        for epsilon in (0.0, mechanism.epsilon, 2 * mechanism.epsilon):
            plain = jaxdp.accounting.gaussian_delta(epsilon, distance, sigma)
            tables = (1 + math.exp(epsilon)) * mechanism.num_entries
            tables *= NormalNoise.of(_STEPS).distance
            assert mechanism.exact_delta(epsilon) == pytest.approx(plain + tables, rel=1e-9)
        assert mechanism.exact_delta() <= mechanism.delta < 1.001 * mechanism.exact_delta()


def test_answers_are_rounded_to_steps_and_cut():
    with jax.enable_x64(True):
        answers = jnp.asarray([0.0, 0.74, -0.76, 1e9, 2.0**48, -(2.0**60)])
        steps = to_steps(answers, jnp.asarray(2.0)).numpy()
    np.testing.assert_array_equal(steps, [0, 1, -2, 2 * 10**9, 2**49, -(2**49)])
    assert in_range(2.0**48, 0.5)
    assert not in_range(2.0**48 * (1 + 1e-9), 0.5)


def test_more_users_than_the_sums_hold_are_refused(key):
    for spec, values in (
        (FactorizationMechanism(np.eye(3), 1.0, 1e-6), None),
        (Marginals(3, 2, 1.0, 1e-6, method="none"), np.eye(3, dtype=np.float32)),
    ):
        many = jaxdp.Population.from_histogram([2**50, 0, 0], values)
        with pytest.raises(ValueError, match="63 bits"):
            jaxdp.run(spec, many, key)
        some = jaxdp.Population.from_histogram([2**40, 2**39, 0], values)
        answers = jaxdp.run(spec, some, key)
        np.testing.assert_allclose(answers, spec.truth([2**40, 2**39, 0], values), atol=1e-9)


def test_releases_are_whole_steps_whatever_the_target(key):
    """Nothing but multiples of one number; a float plus float noise is a multiple of no such."""
    spec = PerturbAndProject(Intersection((64,), (bounded,), 8.0), 0.5, 1.0, 1e-6)
    params = spec.build()
    with jax.enable_x64(True):
        for target in (np.zeros(64), np.full(64, 1 / 3), np.full(64, 1e-9)):
            steps = np.asarray(params.perturb(key, jnp.asarray(target))) / spec.step
            np.testing.assert_allclose(steps, np.rint(steps), rtol=0, atol=1e-6)
    near = [np.asarray(params.perturb(key, np.full(64, x))) for x in (0.1, 0.1 + spec.step / 64)]
    assert np.mean(near[0] == near[1]) > 0.9

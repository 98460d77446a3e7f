"""Affine hashing: the field, the classes of functions, sums over buckets, and the laws."""

import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.random import Count
from jaxdp.randomizers import KRR, AffineHashing, _affine_hashing
from jaxdp.randomizers import _parallel_classes as classes
from jaxdp.randomizers._projective_geometry_points import num_points
from tests import stats

SPACES = [(2, 4), (3, 3), (4, 3), (5, 2), (8, 2), (7, 1)]


def hashes(order: int, dimension: int) -> np.ndarray:
    """The bucket of each value under each function, int[functions, values]."""
    numbers = np.arange(num_points(order, dimension), dtype=np.uint32)
    vectors = classes.class_vector(numbers, order, dimension)
    points = np.arange(order**dimension, dtype=np.uint32)
    grid = np.meshgrid(vectors, points, indexing="ij")
    return classes.product(*grid, order, dimension).astype(int)


@pytest.mark.parametrize("order", [2**i for i in range(1, 11)] + [3, 5, 31])
def test_elements_are_a_field(order, rng):
    """No two elements but 0 have the product 0, and products are bilinear."""
    assert order in classes.orders()
    elements = np.arange(1, order, dtype=np.uint32)
    table = classes.product(*np.meshgrid(elements, elements), order)
    assert table.min() > 0
    assert table.max() < order
    x, y, z = rng.integers(0, order, size=(3, 1000), dtype=np.uint32)
    total = classes.product(x, classes.add(y, z, order), order)
    parts = classes.add(classes.product(x, y, order), classes.product(x, z, order), order)
    np.testing.assert_array_equal(total, parts)
    np.testing.assert_array_equal(classes.product(x, y, order), classes.product(y, x, order))
    assert not np.any(classes.add(x, classes.negative(x, order), order))


def test_orders_are_primes_and_powers_of_two():
    assert classes.orders()[:12] == (2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 19, 23)
    assert 1024 in classes.orders()
    assert 1021 in classes.orders()


@pytest.mark.parametrize(("order", "dimension"), [(2, 4), (3, 3), (4, 3), (5, 2), (7, 1)])
def test_classes_are_the_vectors_up_to_factors(order, dimension):
    numbers = np.arange(num_points(order, dimension), dtype=np.uint32)
    vectors = classes.class_vector(numbers, order, dimension)
    multiples = set()
    for factor in range(1, order):
        total = np.zeros_like(vectors)
        for place in range(dimension):
            entry = vectors // order**place % order
            scaled = classes.product(entry, np.full_like(entry, factor), order)
            total += scaled * np.uint32(order**place)
        multiples |= set(total.tolist())
    assert multiples == set(range(1, order**dimension))


@pytest.mark.parametrize(("order", "dimension"), SPACES)
def test_collisions_of_two_values_and_of_three(order, dimension):
    """Enumerated; three values on a line collide where two do. Control: one function fewer."""
    table = hashes(order, dimension)
    points = order**dimension
    same = table[:, :, None] == table[:, None, :]
    two = same.sum(axis=0)
    others = ~np.eye(points, dtype=bool)
    assert np.all(two[others] == num_points(order, dimension - 1))
    assert dimension == 1 or len(np.unique(same[1:].sum(axis=0)[others])) == 2
    three = np.einsum("fu,fw->uw", same[:, 0].astype(int), same[:, 0].astype(int))
    found = set(three[1:, 1:][others[1:, 1:]].tolist())
    plane = {num_points(order, dimension - 2)} if dimension > 1 else set()
    line = {num_points(order, dimension - 1)} if order > 2 else set()
    assert found == plane | line


@pytest.mark.parametrize(("order", "dimension"), SPACES)
def test_sums_over_buckets_and_over_functions(order, dimension, rng):
    table = hashes(order, dimension)
    inside = (table.T[:, :, None] == np.arange(order)).reshape(order**dimension, -1).astype(int)
    numbers = rng.integers(0, 2**40, size=order**dimension)
    reports = rng.integers(0, 2**40, size=inside.shape[1])
    with jax.enable_x64(True):
        summed = classes.hyperplanes_of_points(jnp.asarray(numbers, float), order, dimension)
        decoded = classes.points_of_hyperplanes(jnp.asarray(reports, float), order, dimension)
        summed, decoded = np.asarray(summed), np.asarray(decoded)
    np.testing.assert_array_equal(summed, numbers @ inside)
    np.testing.assert_array_equal(decoded, inside @ reports)


def test_blanks_make_functions_equally_likely():
    """Eight bits: 255 words lead to five functions, 51 each, and one to a blank."""
    spec = AffineHashing(6, 1.0, hash_range=4)
    params = spec.build(8)
    words = np.stack(np.meshgrid(np.arange(256), np.arange(256)), -1).reshape(-1, 2)
    send = jax.jit(jax.vmap(params.from_bits, (0, None)))
    reports = np.asarray(send(jnp.asarray(words, jnp.uint32), jnp.int32(3)))
    functions = np.bincount(reports // 4, minlength=6)
    np.testing.assert_array_equal(functions, [51 * 256] * 5 + [256])
    p, _ = KRR(4, 1.0).probabilities(8)
    assert spec.probabilities(8)[0] == p * Fraction(255, 256)
    assert spec.exact_epsilon() == KRR(4, 1.0).exact_epsilon() <= 1.0


@pytest.mark.parametrize(("values", "order"), [(7, 3), (100, 4)])
def test_forms_are_the_same_by_a_table_and_by_transforms(values, order, rng, monkeypatch):
    spec, queries = AffineHashing(values, 1.0, order), rng.normal(size=(3, values))
    by_table = spec.query_variances(queries)
    monkeypatch.setattr(_affine_hashing, "_MOST_HELD", 0)
    np.testing.assert_allclose(spec.query_variances(queries), by_table, rtol=1e-12)


@pytest.mark.parametrize(("values", "order"), [(7, 3), (16, 4), (6, 2)])
def test_covariance_is_that_of_the_channel(values, order, rng):
    """Compares decoded reports; control: the covariance for another value."""
    spec = AffineHashing(values, 1.0, order)
    law = np.array([[float(p) for p in row] for row in spec.channel()])
    decoder = spec.noise().decoder
    queries = rng.normal(size=(3, values))
    for value in (0, values - 1):
        second = np.einsum("ur,wr,r->uw", decoder, decoder, law[value])
        mean = np.eye(values)[value]
        np.testing.assert_allclose(decoder @ law[value], mean, atol=1e-9)
        covariance = second - np.outer(mean, mean)
        np.testing.assert_allclose(spec.covariance(value), covariance, atol=1e-8)
        forms = np.einsum("mi,ij,mj->m", queries, covariance, queries)
        np.testing.assert_allclose(spec.query_variances(queries)[:, value], forms, rtol=1e-8)
        other = spec.covariance((value + 1) % values)
        assert np.abs(other - covariance).max() > 1e-3
    assert spec.variance(np.eye(values, dtype=int)[0]) == pytest.approx(
        spec.covariance(0).diagonal()
    )


@pytest.mark.parametrize(("values", "order", "value"), [(20, 3, 17), (17, 4, 14)])
def test_drawn_reports_of_one_value_are_multinomial(values, order, value, key):
    """Reports of users of one value have the law of its row. Control: another value's row."""
    spec = AffineHashing(values, 1.0, order)
    counts = np.where(np.arange(values) == value, 10**6, 0)
    drawn = spec.build().sample_tally(key, Count.of(counts)).numpy()
    assert drawn.sum() == 10**6
    right, wrong = ([float(p) for p in row] for row in spec.channel(inputs=[value, value - 1]))
    stats.check_multinomial(drawn, right)
    stats.must_fail(stats.check_multinomial, drawn, wrong)


def test_range_is_the_best_by_exact_variance():
    for values, epsilon in itertools.product((5, 40, 1000), (0.5, 1.0, 3.0)):
        alone = np.eye(values, dtype=int)[0]
        total = [
            AffineHashing(values, epsilon, g).variance(alone).sum()
            for g in (2, 3, 4, 5, 7, 8, 19, 23)
        ]
        best = AffineHashing(values, epsilon)
        assert best.variance(alone).sum() <= min(total) * (1 + 1e-9)
    assert [AffineHashing(1000, e).hash_range for e in (0.5, 1.0, 2.0, 3.0)] == [3, 4, 8, 19]


def test_one_function_is_randomized_response():
    spec, response = AffineHashing(5, 1.0, hash_range=5), KRR(5, 1.0)
    assert spec.num_functions == 1
    assert spec.probabilities() == response.probabilities()
    assert spec.channel() == [[*row, 0] for row in response.channel()]


@pytest.mark.slow
def test_estimate_at_a_trillion_users_is_that_of_the_supports(key):
    spec = AffineHashing(12, 1.0, hash_range=3)
    params = spec.build()
    tally = params.sample_tally(key, Count.of(np.arange(12) * 10**11))
    reports = tally.numpy()[:-1].reshape(-1, 3)
    table = hashes(3, 3)[:, :12]
    support = [sum(int(r[c]) for r, c in zip(reports, column, strict=True)) for column in table.T]
    p, q = spec.probabilities()
    expected = [float((s - q * int(tally.numpy().sum())) / (p - q)) for s in support]
    with jax.enable_x64(True):
        found = np.asarray(params.estimate(tally))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-2)
    spread = math.sqrt(spec.worst_case_variance(66 * 10**11))
    assert np.all(np.abs(found - np.arange(12) * 1e11) < 10 * spread)

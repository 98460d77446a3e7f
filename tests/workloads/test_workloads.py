import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import workloads as w


def answers(function, points):
    return np.array([[float(function(i, j)) for j in points] for i in points])


def test_ordered_workloads_by_definition():
    k = 7
    ranges = [[a <= x <= b for x in range(k)] for a in range(k) for b in range(a, k)]
    np.testing.assert_array_equal(w.all_range(k), ranges)
    windows = [[a <= x < a + 3 for x in range(k)] for a in range(k - 2)]
    np.testing.assert_array_equal(w.width_range(k, 3), windows)
    np.testing.assert_array_equal(w.prefix(k), answers(lambda t, x: x <= t, range(k)))
    np.testing.assert_array_equal(w.width_range(k, k), w.total(k))
    np.testing.assert_array_equal(w.width_range(k, 1), w.identity(k))


@pytest.mark.parametrize("order", [0, 1, 2, 4])
def test_bit_workloads_by_definition(order):
    d = 4
    masks = sorted(range(2**d), key=lambda s: (s.bit_count(), [j for j in range(d) if s >> j & 1]))
    masks = [s for s in masks if s.bit_count() <= order]
    parity = [[(-1) ** (s & x).bit_count() for x in range(2**d)] for s in masks]
    np.testing.assert_array_equal(w.parity(d, order), parity)
    np.testing.assert_array_equal(
        w.marginal(d, order), [[(s & x) == s for x in range(2**d)] for s in masks]
    )
    full = w.marginal(d, order, negations=True)
    assert full.shape[0] == sum(math.comb(d, i) * 2**i for i in range(order + 1))
    # Every table of a subset S adds up to 1 at each point.
    start = 0
    for s in masks:
        size = 2 ** s.bit_count()
        np.testing.assert_array_equal(full[start : start + size].sum(axis=0), np.ones(2**d))
        start += size


def test_kendall_and_auc_by_definition():
    a, b = 3, 4
    grid = [(y, z) for y in range(a) for z in range(b)]
    expected = answers(lambda p, q: np.sign(p[0] - q[0]) * np.sign(p[1] - q[1]), grid)
    np.testing.assert_array_equal(w.kendall(a, b), expected)
    examples = [(s, y) for s in range(3) for y in (0, 1)]
    expected = answers(lambda p, q: np.sign(p[0] - q[0]) * np.sign(p[1] - q[1]), examples)
    np.testing.assert_array_equal(w.auc(3), expected)


def test_tie_conventions_differ_by_the_collision_probability(rng):
    h = rng.dirichlet(np.ones(12))
    plus = h @ w.kendall(3, 4, ties="plus") @ h
    np.testing.assert_allclose(plus, h @ w.kendall(3, 4) @ h + h @ h, atol=1e-15)


def test_auc_of_a_sample(rng):
    scores, labels = rng.integers(0, 5, 60), rng.integers(0, 2, 60)
    positive, negative = scores[labels == 1], scores[labels == 0]
    wins = (positive[:, None] > negative).mean() + 0.5 * (positive[:, None] == negative).mean()
    counts = np.bincount(2 * scores + labels, minlength=10)
    statistic = counts @ w.auc(5) @ counts
    assert math.isclose(wins, 0.5 + statistic / (4 * len(positive) * len(negative)))


def test_pair_matrices_by_definition():
    k = 6
    np.testing.assert_array_equal(w.lipschitz(k), answers(lambda i, j: abs(i - j), range(k)))
    np.testing.assert_array_equal(
        w.lipschitz(k, np.sqrt), answers(lambda i, j: abs(i - j) ** 0.5, range(k))
    )
    np.testing.assert_array_equal(w.gini_diversity(k), answers(lambda i, j: i != j, range(k)))
    np.testing.assert_array_equal(w.identity(k), answers(lambda i, j: i == j, range(k)))
    made = w.from_function(lambda x, y: x * y, [1.0, 2.0], [3.0, 4.0, 5.0])
    np.testing.assert_array_equal(made, [[3, 4, 5], [6, 8, 10]])


def test_concepts_are_signs_and_count_right():
    classes = [
        (w.thresholds(5), 5),
        (w.intervals(5), 15),
        (w.rectangles(2, 3), 18),
        (w.conjunctions(3, 2), 19),
        (w.parity(3, 2), 7),
        (w.decision_stumps(3), 6),
    ]
    for concepts, size in classes:
        assert concepts.shape[0] == size
        assert np.all(np.abs(concepts) == 1)
        assert len(np.unique(concepts, axis=0)) == size
    assert np.all(np.abs(w.rademacher(4, 5, seed=1)) == 1)
    signed = w.signed_examples(w.thresholds(3))
    np.testing.assert_array_equal(signed[:, :3], -signed[:, 3:])


OPERATORS = {
    "prefix": (w.Operator.prefix(6), w.prefix(6)),
    "difference": (w.Operator.difference(6), np.linalg.inv(w.prefix(6))),
    "all_range": (w.Operator.all_range(5), w.all_range(5)),
    "parity": (w.Operator.parity(3), w.parity(3, 3)[[0, 1, 2, 4, 3, 5, 6, 7]]),
    "matrix": (w.Operator.from_matrix(w.width_range(5, 2)), w.width_range(5, 2)),
    "kronecker": (
        w.Operator.kronecker(w.Operator.all_range(3), w.Operator.prefix(4)),
        np.kron(w.all_range(3), w.prefix(4)),
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_multiply_like_their_matrices(name, rng):
    operator, matrix = OPERATORS[name]
    assert operator.shape == matrix.shape
    np.testing.assert_allclose(operator.dense(), matrix, atol=1e-12)
    x = rng.normal(size=(2, 3, matrix.shape[1])).astype(np.float32)
    y = rng.normal(size=(2, 3, matrix.shape[0])).astype(np.float32)
    np.testing.assert_allclose(jax.jit(operator.matvec)(jnp.array(x)), x @ matrix.T, atol=1e-4)
    np.testing.assert_allclose(jax.jit(operator.rmatvec)(jnp.array(y)), y @ matrix, atol=1e-4)


BAD = [
    (lambda: w.prefix(0), ValueError, "num_values"),
    (lambda: w.identity(2.5), TypeError, "num_values"),
    (lambda: w.total(True), TypeError, "num_values"),
    (lambda: w.width_range(4, 5), ValueError, "width"),
    (lambda: w.parity(3, 4), ValueError, "order"),
    (lambda: w.parity(31, 1), ValueError, "num_bits"),
    (lambda: w.marginal(3, -1), ValueError, "order"),
    (lambda: w.sign(3, ties="half"), ValueError, "ties"),
    (lambda: w.lipschitz(3, lambda d: d[:2]), ValueError, "function"),
    (lambda: w.lipschitz(3, lambda d: np.full_like(d, np.nan)), ValueError, "NaN"),
    (lambda: w.lipschitz(3, int), TypeError, "function must take arrays"),
    (lambda: w.from_function(len, [1.0]), TypeError, "function must take arrays"),
    (lambda: w.from_function(np.add, [[1.0]]), ValueError, "rows"),
    (lambda: w.from_function(np.add, [1.0], []), ValueError, "cols"),
    (lambda: w.rademacher(0, 3, seed=0), ValueError, "num_queries"),
    (lambda: w.signed_examples(np.array([[0.0, 1.0]])), ValueError, "concepts"),
    (lambda: w.Operator.from_matrix([1.0]), ValueError, "matrix"),
]


@pytest.mark.parametrize(("call", "error", "name"), BAD)
def test_bad_input_is_named(call, error, name):
    with pytest.raises(error, match=name):
        call()

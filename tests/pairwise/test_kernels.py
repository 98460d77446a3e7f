"""Reference values of the kernels: brute force in exact arithmetic, scipy, and known facts."""

import itertools
import json
import math
from fractions import Fraction

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.stats

from jaxdp._form import FrozenArray, spec_from_json, spec_to_json
from jaxdp.data import load_flights
from jaxdp.pairwise import (
    AUC,
    CollisionEntropy,
    GiniCoefficient,
    GiniDiversity,
    GiniMeanDifference,
    Grid,
    KendallTau,
    MatrixKernel,
    PairKernel,
    ProductGrid,
    QuantizedRR,
)
from jaxdp.pairwise.kernels._exact import exact_dot
from jaxdp.pairwise.kernels._kendall import inversions


def squared_difference(x, y):
    return (x - y) ** 2


def sign(a, b):
    return (a > b) - (a < b)


# One pair of values, as tuples of coordinates, by the definition in the docstring.
DEFINITIONS = {
    GiniMeanDifference(): lambda x, y: abs(x[0] - y[0]),
    GiniDiversity(): lambda x, y: int(x != y),
    KendallTau(): lambda x, y: sign(x[0], y[0]) * sign(x[1], y[1]),
    PairKernel(squared_difference): lambda x, y: (x[0] - y[0]) ** 2,
}


def mean_over_pairs(f, users, form):
    pairs = itertools.product if form == "v" else lambda a, b: itertools.permutations(a, 2)
    values = [Fraction(f(x, y)) for x, y in pairs(users, users)]
    return sum(values, Fraction(0)) / len(values)


def users_of(table):
    """The users of a histogram as tuples of indices."""
    cells = np.ndindex(*table.shape)
    return [cell for cell in cells for _ in range(table[cell])]


@pytest.mark.parametrize("form", ["u", "v"])
@pytest.mark.parametrize("kernel", DEFINITIONS, ids=lambda k: type(k).__name__)
def test_histograms_and_arrays_agree_with_the_definition(kernel, form, rng):
    for _ in range(20):
        shape = (3, 4) if kernel.dim == 2 else (5,)
        table = rng.integers(0, 4, shape)
        table.flat[0] += 2
        users = users_of(table)
        expected = float(mean_over_pairs(DEFINITIONS[kernel], users, form))
        assert kernel.of_counts(table, form=form) == pytest.approx(expected, abs=1e-14)
        shuffled = rng.permutation(np.array(users))
        assert kernel.of_values(shuffled, form=form) == pytest.approx(expected, abs=1e-14)
        if form == "v":
            of_law = kernel.of_distribution(table / table.sum())
            assert of_law == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("form", ["u", "v"])
def test_collision_entropy_is_minus_the_log_of_the_share_of_equal_pairs(form, rng):
    kernel = CollisionEntropy()
    for _ in range(10):
        counts = rng.integers(1, 5, 4)
        equal = mean_over_pairs(lambda x, y: int(x == y), users_of(counts), form)
        assert kernel.of_counts(counts, form=form) == pytest.approx(-math.log(equal))
    assert kernel.of_counts([1, 1, 1]) == math.inf
    assert kernel.of_distribution([0.5, 0.25, 0.25]) == pytest.approx(math.log(8 / 3))


@pytest.mark.parametrize("form", ["u", "v"])
def test_gini_coefficient_is_the_difference_by_twice_the_mean(form, rng):
    kernel = GiniCoefficient()
    for _ in range(10):
        counts = rng.integers(0, 5, 6) + np.eye(6, dtype=int)[3]
        users = users_of(counts)
        difference = mean_over_pairs(lambda x, y: abs(x[0] - y[0]), users, form)
        mean = Fraction(sum(x[0] for x in users), len(users))
        expected = float(difference / (2 * mean))
        assert kernel.of_counts(counts, form=form) == pytest.approx(expected, abs=1e-15)
        scaled = 0.3 * rng.permutation(np.array(users, np.float64))
        assert kernel.of_values(scaled, form=form) == pytest.approx(expected, abs=1e-14)
        if form == "v":
            law = kernel.of_distribution(counts / counts.sum())
            assert law == pytest.approx(expected, abs=1e-13)
    assert kernel.of_counts([99, 0, 1]) == 1.0
    with pytest.raises(ValueError, match="above 0"):
        kernel.of_counts([5, 0])
    with pytest.raises(ValueError, match="values must be >= 0"):
        kernel.of_counts([2, 2], values=[-1.0, 2.0])


def test_gini_coefficient_on_a_grid():
    """A bin's mean is its middle; an estimate of the mean that is too low is raised."""
    grid, values = Grid.uniform(4), np.array([0.1, 0.4, 0.6, 0.9])
    found = GiniCoefficient().matrices(grid)
    assert np.array_equal(found[0], GiniMeanDifference().matrix(grid))
    assert np.diagonal(found[1]) == pytest.approx([0.125, 0.375, 0.625, 0.875])
    u = found @ np.full(4, 0.25) @ np.full(4, 0.25)
    assert GiniCoefficient().linked(u, 4.0) == pytest.approx(u[0])
    assert GiniCoefficient().linked(np.array([-0.5, 0.1]), 4.0) == -1.0
    points = GiniCoefficient().matrices(grid, "points")[1]
    assert np.diagonal(points) == pytest.approx(np.linspace(0, 1, 5))
    assert QuantizedRR(GiniCoefficient(), 1.0, grid=grid).truth([1] * 4, values) == (
        GiniCoefficient().of_values(values)
    )
    with pytest.raises(ValueError, match="low = -1"):
        GiniCoefficient().matrices(Grid.uniform(4, low=-1.0))


def test_repeated_values_are_one_value():
    assert GiniDiversity().of_counts([2, 3, 1], values=[7.0, 1.0, 7.0]) == pytest.approx(0.6)
    assert CollisionEntropy().of_distribution([0.5, 0.5], values=[1.0, 1.0]) == pytest.approx(0.0)


@pytest.mark.parametrize("ties", ["half", "zero"])
def test_auc_is_the_share_of_ordered_pairs(ties, rng):
    tied = Fraction(1, 2) if ties == "half" else 0
    for _ in range(20):
        table = rng.integers(0, 4, (2, 5)) + np.eye(2, 5, dtype=int)
        sizes = tuple(int(s) for s in table.sum(axis=1))
        users = users_of(table)
        negatives, positives = ([u[1] for u in users if u[0] == label] for label in (0, 1))
        won = sum((p > m) + (p == m) * tied for p in positives for m in negatives)
        area = float(Fraction(won) / (sizes[0] * sizes[1]))
        for kernel in (AUC(ties), AUC(ties, class_sizes=sizes)):
            assert kernel.of_counts(table) == pytest.approx(area)
            assert kernel.of_values(rng.permutation(np.array(users))) == pytest.approx(area)
        assert AUC(ties).of_counts(table, form="v") == pytest.approx(area)
        n = sum(sizes)
        scaled = AUC(ties, class_sizes=sizes).of_counts(table, form="v")
        assert scaled == pytest.approx(area * (n - 1) / n)


def test_auc_is_the_mann_whitney_statistic(rng):
    scores = [np.round(rng.normal(size=400), 1), np.round(rng.normal(0.7, size=300), 1)]
    x = np.concatenate([np.stack([np.full(len(s), y), s], 1) for y, s in enumerate(scores)])
    expected = scipy.stats.mannwhitneyu(scores[1], scores[0]).statistic / (400 * 300)
    assert AUC().of_values(x) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("decimals", [0, 1, 15])
def test_tau_b_is_scipys(decimals, rng):
    x = rng.normal(size=(3000, 2))
    x[:, 1] += x[:, 0]
    x = np.round(x, decimals)
    expected = scipy.stats.kendalltau(x[:, 0], x[:, 1]).statistic
    assert KendallTau("b").of_values(x) == pytest.approx(expected, abs=1e-14)


def test_flights():
    data = load_flights()
    table = data["dep_arr_delay_table"]
    assert KendallTau("a").of_counts(table) == pytest.approx(0.432628, abs=5e-7)
    assert KendallTau("b").of_counts(table) == pytest.approx(0.527226, abs=5e-7)
    scores = np.stack([data["score_hist_neg4096"], data["score_hist_pos4096"]])
    assert AUC().of_counts(scores) == pytest.approx(0.736209, abs=5e-7)
    classes = np.argwhere(np.ones_like(table))
    assert KendallTau("a").of_counts(table, values=classes) == KendallTau("a").of_counts(table)


def test_one_trillion_users_are_counted_exactly(rng):
    table = rng.integers(1, 10**11, (4, 5))
    weights = {cell: int(table[cell]) for cell in np.ndindex(4, 5)}
    n = sum(weights.values())
    assert n > 10**11
    score = sum(
        a * b * sign(x[0], y[0]) * sign(x[1], y[1])
        for (x, a), (y, b) in itertools.product(weights.items(), repeat=2)
    )
    assert KendallTau().of_counts(table) == score / (n * (n - 1))
    cells = np.argwhere(table)
    assert KendallTau().of_counts(table.ravel(), values=cells) == score / (n * (n - 1))
    row = table[0]
    total = sum(int(a) * int(b) * abs(i - j) for i, a in enumerate(row) for j, b in enumerate(row))
    n = int(row.sum())
    assert GiniMeanDifference().of_counts(row) == total / (n * (n - 1))
    assert GiniMeanDifference().of_counts(row, values=np.arange(5)) == pytest.approx(
        total / (n * (n - 1)), rel=1e-15
    )


whole = st.integers(-(2**53) + 1, 2**53 - 1)


@hypothesis.given(st.lists(st.tuples(whole, whole), max_size=20))
def test_exact_dot(pairs):
    a, b = np.array(pairs, np.int64).reshape(-1, 2).T
    assert exact_dot(a, b) == sum(x * y for x, y in pairs)


@hypothesis.given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 9)), min_size=1))
def test_inversions(elements):
    ranks, weights = np.array(elements).T
    expected = sum(v * w for (a, v), (b, w) in itertools.combinations(elements, 2) if a > b)
    assert inversions(ranks, weights) == expected


def test_matrix_kernel_is_a_table_of_values(rng):
    matrix = rng.normal(size=(4, 4))
    matrix = (matrix + matrix.T) / 2
    kernel = PairKernel.from_matrix(matrix)
    assert isinstance(kernel, MatrixKernel)
    assert np.array_equal(kernel.matrix(4), matrix)
    assert np.array_equal(kernel.matrix((2, 2)), matrix)
    counts = np.array([3, 0, 2, 4])
    users = [v for v, c in enumerate(counts) for _ in range(c)]
    for form in ("u", "v"):
        expected = mean_over_pairs(lambda i, j: matrix[i, j], users, form)
        assert kernel.of_counts(counts, form=form) == pytest.approx(float(expected))
    assert kernel.of_distribution(counts / 9) == pytest.approx(counts @ matrix @ counts / 81)


def test_matrices_hold_the_kernel_of_every_pair_of_bins():
    assert np.array_equal(
        GiniMeanDifference().matrix(3), [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    )
    bins = list(np.ndindex(3, 2))
    tau = KendallTau("b").matrices((3, 2))
    assert tau.shape == (3, 6, 6)
    for i, x in enumerate(bins):
        for j, y in enumerate(bins):
            assert tau[0, i, j] == sign(x[0], y[0]) * sign(x[1], y[1])
            assert tau[1, i, j] == (x[0] != y[0])
            assert tau[2, i, j] == (x[1] != y[1])
    assert np.array_equal(GiniDiversity().matrix((2, 2)), 1 - np.eye(4))
    assert np.array_equal(CollisionEntropy().matrix(3), np.eye(3))
    half = AUC().matrices((2, 2))
    assert half[0].tolist() == [[0, 0, 0.5, 1], [0, 0, 0, 0.5], [0.5, 0, 0, 0], [1, 0.5, 0, 0]]


def test_ones_on_the_diagonal_count_ties(rng):
    """The paper's matrix of Kendall's kernel, U x U, and the kernel's own differ by |h|**2."""
    above = [2 * np.triu(np.ones((m, m))) - 1 for m in (4, 3)]
    h = rng.dirichlet(np.ones(12))
    own = KendallTau().matrix((4, 3))
    assert h @ np.kron(*above) @ h == pytest.approx(h @ own @ h + h @ h)
    assert abs(np.kron(*above) - own).max() == 1


SPECS = [
    PairKernel(squared_difference, lipschitz=2.0, value_range=(0, 1)),
    PairKernel.from_matrix([[0, 1], [1, 0]]),
    GiniMeanDifference(),
    GiniDiversity(),
    CollisionEntropy(),
    KendallTau("b"),
    AUC(ties="zero", class_sizes=(3, 4)),
    Grid(edges=(0.0, 1.0)),
    Grid.uniform(3, -1.0, 1.0),
    ProductGrid((Grid.uniform(3), Grid(edges=(0.0,)))),
    QuantizedRR(KendallTau("b"), 1.0, num_values=(3, 4)),
    QuantizedRR(GiniMeanDifference(), 1.0, grid=Grid.uniform(3), rounding="randomized"),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: type(s).__name__)
def test_specs_are_values(spec):
    again = spec_from_json(json.loads(json.dumps(spec_to_json(spec))))
    assert again == spec
    assert hash(again) == hash(spec)


def test_a_matrix_kernel_is_compared_by_content():
    matrix = np.eye(3)
    kernel = PairKernel.from_matrix(matrix)
    matrix[0, 0] = 5
    assert kernel == PairKernel.from_matrix(np.eye(3))
    assert kernel == MatrixKernel(FrozenArray(np.eye(3)))
    assert kernel != PairKernel.from_matrix(2 * np.eye(3))

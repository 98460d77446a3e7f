"""Explicit constructions equal their matrices and attain the stated norms."""

import functools
import math

import numpy as np
import pytest

from jaxdp import factorization as fz
from jaxdp import workloads
from jaxdp.factorization import explicit

SIZES = [1, 2, 3, 7, 8, 21]


def check(matrix, result, upper=None, optimal=True):
    np.testing.assert_allclose(result.matrix, matrix, atol=1e-12 * max(1, np.abs(matrix).max()))
    fz.certify(matrix, result)
    if upper is not None:
        np.testing.assert_allclose(result.upper, upper, rtol=1e-12, atol=1e-12)
    if optimal:
        np.testing.assert_allclose(result.lower, result.upper, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k", SIZES)
def test_optimal_constructions(k):
    check(workloads.identity(k), explicit.identity(k), 1.0)
    check(workloads.gini_diversity(k), explicit.gini_diversity(k), 2 - 2 / k)
    distance = workloads.lipschitz(k)
    check(distance, explicit.lipschitz_thresholds(distance), k - 1)


@pytest.mark.parametrize("sign", [1, -1])
def test_semidefinite(sign, rng):
    """Also of low rank, with rows of very different sizes, or of 0."""
    sizes = np.array([1.0, 1e-6, 1e4, 0.0, 3.0])
    rows = rng.normal(size=(2, 5)) * sizes
    for factor in (rows, np.eye(4), np.zeros((1, 3))):
        matrix = sign * factor.T @ factor
        result = explicit.semidefinite(matrix)
        np.testing.assert_allclose(result.matrix, matrix, rtol=1e-10, atol=1e-300)
        fz.certify(matrix, result)
        assert result.rank == max(np.linalg.matrix_rank(factor), 1)
        assert np.all(result.signs == sign) or not np.any(matrix)
        np.testing.assert_allclose(result.upper, np.abs(matrix).max(), rtol=1e-12)
        np.testing.assert_allclose(result.lower, result.upper, rtol=1e-12)


def test_other_matrices_are_not_semidefinite():
    for matrix in (workloads.sign(3) @ workloads.sign(3).T - np.eye(3), [[0, 1], [1, 0]]):
        with pytest.raises(ValueError, match="matrix must be positive or negative semidefinite"):
            explicit.semidefinite(matrix)
    with pytest.raises(ValueError, match="matrix must equal its transpose"):
        explicit.semidefinite([[1, 2], [0, 1]])


@pytest.mark.parametrize(("bits", "order"), [(1, 0), (3, 1), (4, 4)])
def test_orthogonal_rows(bits, order):
    matrix = workloads.parity(bits, order)
    check(matrix, explicit.orthogonal_rows(matrix), math.sqrt(len(matrix)))


GROUPS = [
    ((1,), True),
    ((2,), False),
    ((7,), False),
    ((8,), True),
    ((2, 2, 2), False),
    ((3, 4), [True, False]),
    ((5, 1, 2), [False, True, True]),
]


@pytest.mark.parametrize(("shape", "skew"), GROUPS)
def test_convolutions(shape, skew, rng):
    """Entries by the definition, and no factors are shorter, with and without a constant."""
    kernel = rng.normal(size=shape)
    turns = np.broadcast_to(skew, len(shape))
    matrix = np.empty((kernel.size,) * 2)
    for i, x in enumerate(np.ndindex(shape)):
        for j, y in enumerate(np.ndindex(shape)):
            once_around = sum(t and a < b for t, a, b in zip(turns, x, y, strict=True))
            difference = tuple((a - b) % n for a, b, n in zip(x, y, shape, strict=True))
            matrix[i, j] = (-1) ** once_around * kernel[difference]
    result = explicit.circulant(kernel, skew=skew)
    check(matrix, result, fz.gamma2(matrix).upper)
    assert (result.signs is not None) == np.array_equal(matrix, matrix.T)
    np.testing.assert_allclose(fz.gamma_f(matrix).upper, result.upper, rtol=1e-12)
    if not np.any(skew):
        centred = explicit.circulant(kernel - kernel.mean())
        check(matrix - kernel.mean(), centred, fz.gamma2(matrix, shift=True).upper)


def test_convolutions_of_low_rank():
    for kernel, rank in (
        (np.zeros(4), 1),
        (np.ones(6), 1),
        (np.cos(2 * np.pi * np.arange(9) / 9), 2),
    ):
        result = explicit.circulant(kernel)
        index = np.subtract.outer(np.arange(len(kernel)), np.arange(len(kernel)))
        check(kernel[index % len(kernel)], result, np.abs(np.fft.fft(kernel)).mean())
        assert result.rank == rank


PLACES = np.arange(16)
CONVOLUTIONS = {
    "circulant": np.minimum(PLACES, 16 - PLACES)[np.subtract.outer(PLACES, PLACES) % 16],
    "exclusive or": np.sqrt(1.0 + PLACES)[np.bitwise_xor.outer(PLACES, PLACES)],
    "thresholds": workloads.thresholds(16),
}


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("norm", ["gamma2", "gamma_f", "signed"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_large_convolutions_are_answered_as_small_ones(name, norm, shift, monkeypatch):
    """By the solver, too: what is skew where constants are free, and what is no convolution."""
    matrix = CONVOLUTIONS[name] if norm != "signed" or name != "thresholds" else np.eye(16)
    solve = functools.partial(getattr(fz, norm), shift=shift)
    small = solve(matrix)
    monkeypatch.setattr("jaxdp.factorization._gamma2.MODERATE", 15)
    large = solve(matrix)
    fz.certify(matrix, large)
    assert large.num_steps == 0 or (name == "thresholds" and shift)
    assert large.norm == small.norm
    assert (large.signs is None) == (small.signs is None)
    np.testing.assert_allclose(large.upper, small.upper, rtol=2e-6)
    if shift:
        np.testing.assert_allclose(large.shift, small.shift, atol=1e-5)
    other = matrix + np.outer(PLACES == 3, PLACES == 3)
    fz.certify(other, solve(other))


@pytest.mark.parametrize("k", SIZES)
def test_toeplitz_root_of_prefix_sums(k):
    result = explicit.toeplitz_prefix(k)
    check(workloads.prefix(k), result, optimal=False)
    squares = [(math.comb(2 * i, i) / 4**i) ** 2 for i in range(k)]
    np.testing.assert_allclose(result.upper, sum(squares), rtol=1e-12)
    assert result.upper <= 1 + (1 + math.log(k)) / math.pi
    singular = np.linalg.svd(workloads.prefix(k), compute_uv=False)
    np.testing.assert_allclose(result.lower, singular.mean(), rtol=1e-12)


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("branching", [2, 3, 16])
def test_hierarchical_prefix_sums(k, branching):
    result = explicit.hierarchical_prefix(k, branching)
    check(workloads.prefix(k), result, optimal=False)
    digits = 1
    while branching**digits <= k:
        digits += 1
    assert result.upper <= digits * math.sqrt(branching - 1) + 1e-12


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("decay", [0.75, 5 / 6, 2**-0.25])
def test_lipschitz_tree_of_lemma_17(k, decay, rng):
    slopes = rng.uniform(-1, 1, (k, k))
    shapes = [workloads.lipschitz(k), np.cumsum(slopes, axis=1), -workloads.lipschitz(k, np.sqrt)]
    size = 2 ** k.bit_length()
    bound = math.sqrt((1 + 1 / (4 * (2 * decay**2 - 1))) / (1 - decay**2))
    for matrix in shapes:
        result = explicit.lipschitz_tree(matrix, decay)
        check(matrix, result, optimal=False)
        assert result.upper <= bound * size
        assert result.lower == np.abs(matrix).max()


@pytest.mark.parametrize("k", SIZES)
def test_lipschitz_thresholds_keep_their_bound(k, rng):
    matrix = rng.uniform(-1, 1, (5, 1)) + np.cumsum(rng.uniform(-1, 1, (5, k)), axis=1)
    result = explicit.lipschitz_thresholds(matrix)
    check(matrix, result, optimal=False)
    ends = np.abs(matrix[:, 0] + matrix[:, -1]).max() / 2
    slopes = np.linalg.norm(np.diff(matrix, axis=1), axis=1).max()
    assert result.upper <= ends + slopes * math.sqrt(k - 1) / 2 + 1e-12


def test_kronecker_products_multiply():
    sign = fz.gamma2(workloads.sign(4))
    result = explicit.kronecker(sign, sign)
    check(workloads.kendall(4, 4), result, 2.0)
    distance, diversity = (
        explicit.lipschitz_thresholds(workloads.lipschitz(4)),
        fz.signed(np.eye(3)),
    )
    mixed = explicit.kronecker(distance, diversity)
    check(np.kron(workloads.lipschitz(4), np.eye(3)), mixed, 3.0)
    signed = explicit.kronecker(explicit.gini_diversity(3), fz.signed(workloads.lipschitz(3)))
    fz.certify(np.kron(workloads.gini_diversity(3), workloads.lipschitz(3)), signed)
    assert signed.signs is not None


BAD = [
    (lambda: explicit.identity(0), ValueError, "num_values"),
    (lambda: explicit.orthogonal_rows([[1.0, 0.5]]), ValueError, "±1"),
    (lambda: explicit.orthogonal_rows([[1.0, 1.0], [1.0, 1.0]]), ValueError, "orthogonal"),
    (lambda: explicit.circulant(1.0), ValueError, "kernel"),
    (lambda: explicit.circulant([]), ValueError, "kernel"),
    (lambda: explicit.circulant([np.nan]), ValueError, "kernel"),
    (lambda: explicit.circulant([1.0, 2.0], skew=[True, False]), ValueError, "skew"),
    (lambda: explicit.circulant([1.0, 2.0], skew=1), ValueError, "skew"),
    (lambda: explicit.circulant(np.zeros(10**6)), ValueError, "bytes"),
    (lambda: explicit.hierarchical_prefix(4, 1), ValueError, "branching"),
    (lambda: explicit.toeplitz_prefix(10**7), ValueError, "bytes"),
    (lambda: explicit.lipschitz_tree(np.eye(3), 1.0), ValueError, "decay"),
    (lambda: explicit.lipschitz_thresholds(np.ones((2, 2, 2))), ValueError, "matrix"),
    (
        lambda: explicit.kronecker(fz.gamma_f(np.eye(2)), explicit.identity(2)),
        ValueError,
        "outer must be one exact",
    ),
]


@pytest.mark.parametrize(("call", "error", "name"), BAD)
def test_bad_input_is_named(call, error, name):
    with pytest.raises(error, match=name):
        call()

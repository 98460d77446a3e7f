"""The hard distributions keep the inequalities of Lemmas 15, 18, 19 and 21."""

import math

import numpy as np
import pytest

from jaxdp import factorization as fz
from jaxdp import workloads

# All of one shape: a shape is a compilation.
WORKLOADS = {
    "prefix": workloads.prefix(8)[:7],
    "identity": workloads.identity(8)[:7],
    "ranges": workloads.all_range(8)[::5][:7],
    "windows": workloads.width_range(8, 2),
    "parities": workloads.parity(3, 2),
    "marginals": workloads.marginal(3, 2),
    "tables": workloads.marginal(3, 1, negations=True),
    "random signs": workloads.rademacher(7, 8, seed=5),
    "thresholds": workloads.thresholds(8)[:7],
    "conjunctions": workloads.conjunctions(3, 1),
}
ALPHA = 0.1
SINGLE = np.repeat(workloads.parity(3, 1)[1:2], 7, axis=0)


@pytest.fixture(scope="module", params=WORKLOADS)
def case(request):
    matrix = WORKLOADS[request.param]
    return matrix, fz.gamma2_approx(matrix, ALPHA, tol=1e-4)


def all_signs(size):
    return 2.0 * (np.arange(2**size)[:, None] >> np.arange(size) & 1) - 1


def is_distribution(rows):
    return np.all(rows >= 0) and np.allclose(rows.sum(axis=-1), 1, atol=1e-12)


def test_first_distributions(case):
    matrix, result = case
    hard = fz.hard_distributions(matrix, result)
    assert is_distribution(hard.null)
    assert is_distribution(hard.signal)
    assert is_distribution(hard.prior)
    signed = fz.symmetrize(matrix)
    np.testing.assert_allclose(signed @ hard.null.T, 0, atol=1e-12)
    np.testing.assert_allclose(hard.answers, np.sum(signed * hard.signal, axis=1), atol=1e-12)
    mean = np.sum(matrix * result.dual) / np.abs(result.dual).sum()
    assert math.isclose(hard.prior @ hard.answers, mean, rel_tol=1e-9)
    assert mean >= ALPHA  # as lower >= 0


def test_lemma_19(case):
    matrix, result = case
    first = fz.hard_distributions(matrix, result)
    hard = first.restrict()
    assert is_distribution(hard.signal)
    assert is_distribution(hard.prior)
    # (1) null answers vanish
    np.testing.assert_allclose(fz.symmetrize(matrix) @ hard.null.T, 0, atol=1e-12)
    # (2) every kept query has a large answer
    mean, largest = first.prior @ first.answers, first.answers.max()
    for beta in (ALPHA / 4, ALPHA / 2, ALPHA):
        bound = (mean - beta) / (1 + math.log(max(largest / beta, 1.0)))
        assert hard.separation >= bound - 1e-12
    # (3) the weighted difference is that before with rows set to 0
    before = first.prior[:, None] * (first.null - first.signal)
    after = hard.prior[:, None] * (hard.null - hard.signal)
    kept = hard.prior > 0
    np.testing.assert_allclose(after, np.where(kept[:, None], before, 0.0), atol=1e-12)
    k = matrix.shape[1]
    small, large = fz.gamma2_dual(after[:, :k]), fz.gamma2_dual(before[:, :k])
    assert small.lower <= large.upper * (1 + 1e-9)


def test_lemma_21(case):
    matrix, result = case
    hard = fz.hardest(matrix, result)
    assert is_distribution(hard.prior)
    unit = np.abs(result.dual).sum()
    dual = fz.gamma2_dual(result.dual)
    assert hard.spread <= dual.upper / unit * (1 + 1e-5)
    # The paper's form of the right side, with gamma2(W, alpha) in it.
    paper = 4 * (np.sum(matrix * result.dual) / unit - ALPHA) / result.lower
    assert hard.spread <= paper * (1 + 1e-4)
    # The norm from L∞ to L2(π), by enumeration of all signs of the test function.
    half = (hard.null - hard.signal)[:, : matrix.shape[1]]
    responses = 2 * half @ all_signs(matrix.shape[1]).T
    attained = np.sqrt(np.max(hard.prior @ responses**2))
    assert attained <= hard.spread * (1 + 1e-6)
    assert attained >= 0.3 * hard.spread  # the bound is not vacuous


def test_distributions_on_the_values_themselves(case):
    """For W alone: what Lemmas 19 and 21 say, with differences of answers."""
    matrix, _ = case
    first = fz.hard_distributions(matrix, fz.gamma2(matrix, shift=True), symmetric=False)
    assert first.null.shape == matrix.shape
    for hard in (first, first.restrict()):
        assert is_distribution(hard.null)
        assert is_distribution(hard.signal)
        assert is_distribution(hard.prior)
        answers = np.sum(matrix * (hard.signal - hard.null), axis=1)
        np.testing.assert_allclose(hard.answers, answers, atol=1e-12)
    mean, largest = first.prior @ first.answers, first.answers.max()
    for beta in (largest / 8, largest / 2):
        assert hard.separation >= (mean - beta) / (1 + math.log(largest / beta)) - 1e-12
    hard = hard.reweight()
    attained = np.max(hard.prior @ ((hard.null - hard.signal) @ all_signs(matrix.shape[1]).T) ** 2)
    assert 0.3 * hard.spread <= np.sqrt(attained) <= hard.spread * (1 + 1e-6)


@pytest.mark.slow
def test_lemma_18_symmetric_workloads_have_the_same_norms():
    matrix = WORKLOADS["windows"][:, :4]
    signed = fz.symmetrize(matrix)
    np.testing.assert_allclose(fz.gamma2(signed).upper, fz.gamma2(matrix).upper, rtol=3e-6)
    half, whole = fz.gamma2_approx(matrix, ALPHA), fz.gamma2_approx(signed, ALPHA)
    np.testing.assert_allclose(whole.upper, half.upper, rtol=3e-4)
    witness = fz.symmetrize(half.dual) / 2
    norm = fz.gamma2_dual(witness)
    value = np.sum(signed * witness) - ALPHA * np.abs(witness).sum()
    assert value / norm.upper >= half.lower * (1 - 1e-5)


@pytest.mark.parametrize("symmetric", [True, False])
def test_min_users_bounds_the_relative_entropy_of_randomized_response(symmetric):
    """k-RR reports: the entropy of one user is below what the bound allows."""
    matrix = WORKLOADS["parities"]
    hard = fz.hardest(matrix, fz.gamma2(matrix), symmetric=symmetric)
    epsilon, size = 1.0, hard.null.shape[1]
    keep = math.exp(epsilon) / (math.exp(epsilon) + size - 1)
    other = (1 - keep) / (size - 1)
    channel = np.full((size, size), other) + (keep - other) * np.eye(size)
    null, signal = hard.null @ channel, hard.signal @ channel
    entropy = hard.prior @ np.sum(null * np.log(null / signal), axis=1)
    per_user = (math.expm1(epsilon) / 2 * hard.spread) ** 2
    assert 0 < entropy <= per_user
    # As the error goes to 0: 0.39·(separation/error)² users of that entropy.
    error = 1e-4 * hard.separation
    assert 0.37 < hard.min_users(epsilon, error) * per_user * 1e-8 < 0.393
    assert hard.min_users(epsilon, hard.separation / 2) == 0.0


def test_lower_bounds_grow_as_they_should():
    easy = fz.local_lower_bound(SINGLE, 1.0, 0.02)
    hard = fz.local_lower_bound(WORKLOADS["parities"], 1.0, 0.02)
    assert hard > 2 * easy > 0
    private = fz.local_lower_bound(SINGLE, 0.1, 0.02)
    # Between 1/sinh²(ε/2) and 4/(e^ε − 1)².
    floor = (math.sinh(0.5) / math.sinh(0.05)) ** 2
    assert floor < private / easy < (math.expm1(1.0) / math.expm1(0.1)) ** 2
    assert fz.local_lower_bound(SINGLE, 1.0, 1.0) == 0.0


def test_constants_of_the_queries_need_no_users():
    matrix, constants = WORKLOADS["marginals"], np.arange(7.0)[:, None]
    bound = fz.local_lower_bound(matrix, 1.0, 0.02)
    assert math.isclose(fz.local_lower_bound(matrix + constants, 1.0, 0.02), bound, rel_tol=0.02)
    for constant in (np.zeros((7, 8)), constants + np.zeros((7, 8))):
        assert fz.local_lower_bound(constant, 1.0, 0.02) == 0.0


def test_the_bound_for_a_symmetric_workload_is_that_of_signed_copies():
    """On one signed value the query is ±1, and the bound is that of Lemma 21 on (W, −W)."""
    matrix = np.ones((7, 4))
    signed = fz.symmetrize(matrix)
    lemma = fz.hardest(matrix, fz.gamma2(matrix)).min_users(1.0, 0.02)
    assert fz.local_lower_bound(signed, 1.0, 0.02) >= 0.999 * lemma > 0
    assert fz.local_lower_bound(np.ones((7, 8)), 1.0, 0.02) == 0.0


ONE = fz.explicit.identity(1)
BAD = [
    (lambda: fz.hard_distributions(np.eye(2), ONE), "result must be of one"),
    (lambda: fz.hard_distributions(SINGLE, fz.gamma2_approx(SINGLE, 2.0)), "not 0"),
    (lambda: fz.hard_distributions([[1.0]], ONE, symmetric=False), "not 0"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()

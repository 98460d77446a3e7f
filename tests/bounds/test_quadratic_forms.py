"""Bounds for quadratic forms: exact errors below the upper ones, and above the lower one."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2

from jaxdp.bounds._quadratic_forms import (
    bilinear_auc_mse,
    gini_diversity_mse,
    kendall_mse,
    lipschitz_mse,
    non_interactive_mse,
    quadratic_form_lower_bound,
    quadratic_form_mse,
)
from jaxdp.factorization import gamma2, signed
from jaxdp.pairwise import (
    AUC,
    GiniDiversity,
    GiniMeanDifference,
    Grid,
    KendallTau,
    PairKernel,
    QuantizedRR,
)
from jaxdp.randomizers import PrivUnitG

SIGNS = np.array([[1.0, 1.0], [1.0, -1.0]])
PARITIES = np.kron(np.kron(SIGNS, SIGNS), SIGNS)


def one_report_variance(factor, signs, counts, epsilon):
    """The exact variance of the U-form of one report with covariance C**2 s I, written out."""
    radius = float(np.square(factor).sum(axis=0).max())
    noise = radius * PrivUnitG(1, epsilon).worst_case_variance(1)
    n, total = counts.sum(), factor @ counts
    off = np.square(total[:, None] - factor).sum(axis=0)
    pairs = 2 * n * (n - 1) * noise**2 * len(signs)
    return (4 * noise * counts @ off + pairs) / (n * (n - 1)) ** 2


def statistics(k):
    """Matrices of U-statistics with k values, and the bound for n users."""
    table = KendallTau().matrix((2, k // 2))
    auc = KendallTau().matrix((k // 2, 2))
    diversity = GiniDiversity().matrix(k)
    line = GiniMeanDifference().matrix(Grid.uniform(k))
    return (
        (table, lambda n, e: kendall_mse((2, k // 2), n, e)),
        (auc, lambda n, e: kendall_mse((k // 2, 2), n, e)),
        (diversity, lambda n, e: gini_diversity_mse(k, n, e)),
        (line, lambda n, e: lipschitz_mse(1.0, n, e, num_bins=k)),
    )


@pytest.mark.parametrize("which", range(4))
def test_one_report_is_within_the_bounds(which, rng):
    """The optimal signed factor, on users who all agree and on random ones."""
    matrix, bound = statistics(8)[which]
    found = signed(matrix, shift=True, tol=1e-4)
    assert found.signs is not None
    factor, largest = np.asarray(found.left), 0.0
    for n in (2, 50, 10**4):
        for counts in (n * np.eye(8)[0], rng.multinomial(n, rng.dirichlet(np.ones(8)))):
            variance = one_report_variance(factor, found.signs, counts, 1.0)
            generic = quadratic_form_mse(float(found.upper), len(found.signs), n, 1.0)
            assert variance <= generic * (1 + 1e-9)
            assert variance <= bound(n, 1.0) * (1 + 1e-3)  # the factor's gap
            largest = max(largest, variance / generic)
    assert largest > 0.5


def test_two_reports_cost_twice_to_eight_times():
    for rank, factor in ((1, 2.0), (10**12, 8.0)):
        one = quadratic_form_mse(1.0, rank, 10**12, 0.01)
        two = quadratic_form_mse(1.0, rank, 10**12, 0.01, num_reports=2)
        assert two / one == pytest.approx(factor, rel=1e-3)
    assert quadratic_form_mse(0.0, 1, 10, 1.0, alpha=0.5) == 0.25


def test_tail_behind_the_projection_to_fewer_dimensions():
    """P(|chi2_l / l - 1| > b) <= 2 exp(-l (b**2 / 4 - b**3 / 6)), and not by far."""
    closest = math.inf
    for size, b in itertools.product((1, 3, 30, 300), (0.05, 0.3, 0.6, 0.999)):
        tail = chi2.sf(size * (1 + b), size) + chi2.cdf(size * (1 - b), size)
        bound = 2 * math.exp(-size * (b**2 / 4 - b**3 / 6))
        assert tail <= bound
        if bound < 1e-3 < tail * 1e20:
            closest = min(closest, math.log(tail) / math.log(bound))
    assert closest < 2


def test_dimension_is_the_smaller_of_k_and_log_k():
    n, e = 10**5, 1.0
    assert non_interactive_mse(1.0, 64, n, e) == quadratic_form_mse(1.0, 64, n, e)
    huge = [non_interactive_mse(1.0, 2**j, n, e) for j in (40, 60, 80)]
    assert huge[2] < 2**-20 * quadratic_form_mse(1.0, 2**80, n, e)
    assert huge[2] - huge[1] == pytest.approx(huge[1] - huge[0], rel=0.2)  # linear in log k


@pytest.mark.slow
def test_lipschitz_kernels_need_no_logarithm():
    errors = [n * lipschitz_mse(2.0, n, 1.0) for n in (10**6, 10**9, 10**12)]
    assert errors[0] > errors[1] > errors[2]
    leading = 4 * 4 * PrivUnitG(1, 1.0).worst_case_variance(1)
    assert errors[2] == pytest.approx(leading, rel=1e-3)
    assert lipschitz_mse(1.0, 10**6, 1.0) < lipschitz_mse(1.0, 10**6, 1.0, num_bins=10**12)


def test_auc_is_scaled_by_its_classes():
    even, skew = (bilinear_auc_mse(16, m, 10_000 - m, 1.0) for m in (5000, 1000))
    assert skew / even == pytest.approx((25 / 9) ** 2)
    # what is scaled is T: the exact AUC from it, on a small table
    counts = np.array([[3, 1, 2], [1, 2, 4]])
    t = 13 * 12 * KendallTau().of_counts(counts)
    assert 0.5 + t / (4 * 6 * 7) == pytest.approx(AUC().of_counts(counts))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["u", "v"])
def test_protocols_are_above_the_lower_bound(form):
    """All users alike is not the worst for randomized response, but worse than the bound."""
    matrix = PARITIES
    for n, epsilon in ((300, 0.1), (3000, 0.2)):
        bound = quadratic_form_lower_bound(matrix, n, epsilon, form=form)
        protocol = QuantizedRR(PairKernel.from_matrix(matrix), epsilon, form=form)
        alike = float(protocol.variance(n * np.eye(8, dtype=int)[0]))
        upper = non_interactive_mse(float(gamma2(matrix).upper), 8, n, epsilon)
        assert 0 < bound < min(alike, upper)
        assert bound > 1e-6 * upper


@pytest.mark.slow
def test_lower_bound_scales():
    matrix = PARITIES
    bound = quadratic_form_lower_bound(matrix, 10**4, 0.1)
    assert quadratic_form_lower_bound(3 * matrix, 10**4, 0.1) == pytest.approx(9 * bound, rel=0.05)
    shifted = quadratic_form_lower_bound(matrix + 5, 10**4, 0.1)
    assert shifted == pytest.approx(bound, rel=0.05)
    few, many = (quadratic_form_lower_bound(matrix, n, 0.1) for n in (10**6, 10**8))
    assert many == pytest.approx(few / 100, rel=0.2)
    assert quadratic_form_lower_bound(np.ones((4, 4)), 100, 1.0) == 0.0
    rank_one = np.subtract.outer([0.0, 1.0], [0.0, 1.0]) ** 2
    assert quadratic_form_lower_bound(rank_one, 10, 8.0) == 0.0


def test_bad_input():
    for wrong in (
        lambda: quadratic_form_mse(-1.0, 1, 10, 1.0),
        lambda: quadratic_form_mse(1.0, 1, 10, 1.0, num_reports=3),
        lambda: non_interactive_mse(1.0, 4, 1, 1.0),
        lambda: lipschitz_mse(-1.0, 10, 1.0),
        lambda: quadratic_form_lower_bound(np.eye(3), 2, 1.0),
        lambda: quadratic_form_lower_bound(np.tri(2), 10, 1.0),
        lambda: quadratic_form_lower_bound(np.eye(3), 10, 1.0, form="w"),
        lambda: kendall_mse((4,), 10, 1.0),
        lambda: kendall_mse((4, 1), 10, 1.0),
        lambda: kendall_mse((4, 2**60), 10, 1.0),
    ):
        with pytest.raises(ValueError, match="must be"):
            wrong()
    with pytest.raises(TypeError, match="num_values must be a pair"):
        kendall_mse(4, 10, 1.0)  # pyright: ignore[reportArgumentType]

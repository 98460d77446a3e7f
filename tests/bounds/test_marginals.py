"""Theorem A.4 and the bounds for the baselines."""

import itertools
import math

import numpy as np
import pytest

from jaxdp.bounds._marginals import MarginalsBounds

SETTING = {"num_users": 10**4, "epsilon": 0.5, "delta": 1e-6}
SIGMA = math.sqrt(8 * math.log(2e6)) / (0.5 * 10**4)


def test_theorem_in_the_terms_of_theorem_2_2():
    """Averages over n^k queries: n^(k/4) for even k, (n^k k log n)^(1/4) for odd k."""
    for n, k in itertools.product((10, 1000), (2, 4)):
        assert MarginalsBounds(n, k, **SETTING).theorem() / n**k == pytest.approx(
            SIGMA * n ** (k / 4)
        )
    for n, k in itertools.product((10, 1000), (1, 3, 5)):
        expected = SIGMA * (n**k * k * math.log(n)) ** 0.25
        assert MarginalsBounds(n, k, **SETTING).theorem() / n**k == pytest.approx(expected)


def test_theorem_in_the_terms_of_theorem_2_3():
    """(t^(3/2) / n)^k, times a root: sparse where that is the least."""
    n, t = 10**4, 5
    for k, root in ((2, math.sqrt(2 * math.log(n / t**2))), (3, math.sqrt(3 * math.log(n)))):
        found = MarginalsBounds(n, k, sparsity=t, **SETTING).theorem() / n**k
        assert found == pytest.approx(SIGMA * (t**1.5 / n) ** k * root)
    dense = MarginalsBounds(100, 2, **SETTING).theorem()
    assert MarginalsBounds(100, 2, sparsity=10, **SETTING).theorem() == dense  # n = t^2
    assert (
        MarginalsBounds(100, 3, sparsity=99, **SETTING).theorem()
        == MarginalsBounds(100, 3, **SETTING).theorem()
    )


def test_sparse_bound_is_above_the_largest_of_normals(rng):
    """sup <W, X> over nonnegative X of sum at most t^k, scaled to rows of norm 1."""
    n, k, t = 12, 3, 2
    tensors = np.abs(rng.normal(size=(200, n**k))).max(axis=1)
    support = t**k * tensors.mean() / math.sqrt(t) ** k
    found = MarginalsBounds(n, k, sparsity=t, **SETTING).sparse()
    measured = SIGMA * support * t**k
    assert measured < found < 1.5 * measured


def test_largest_entries_of_noise(rng):
    """Measured error of the plain mechanism and of its m t^k largest entries, tensors of 0/1."""
    n, k, t, m = 80, 2, 2, 3
    setting = {"num_users": m, "epsilon": 1.0, "delta": 1e-2}
    sigma = math.sqrt(8 * math.log(200)) / m * t ** (k / 2)
    rows = np.zeros((m, n))
    for row in rows:
        row[rng.choice(n, t, replace=False)] = 1
    truth = np.einsum("ui,uj->ij", rows, rows) / m
    noisy = truth + sigma * rng.normal(size=(100, n, n))
    bounds = MarginalsBounds(n, k, sparsity=t, **setting)
    plain = bounds.plain()
    assert np.mean(np.sum((noisy - truth) ** 2, axis=(1, 2))) == pytest.approx(plain, rel=0.03)
    cut = np.sort(np.abs(noisy).reshape(100, -1), axis=1)[:, -m * t**k]
    kept = np.where(np.abs(noisy) >= cut[:, None, None], noisy, 0.0)
    bound = bounds.plain(keep_largest=True)
    assert np.mean(np.sum((kept - truth) ** 2, axis=(1, 2))) < bound < plain


def test_bad_arguments():
    for change, name in (
        ({"num_features": 1}, "num_features"),
        ({"order": 9}, "order"),
        ({"num_users": 0}, "num_users"),
        ({"epsilon": 1.5}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"sparsity": 9}, "sparsity"),
    ):
        with pytest.raises(ValueError, match=name):
            MarginalsBounds(**{"num_features": 8, "order": 2, **SETTING} | change)
    with pytest.raises(ValueError, match="sparsity"):
        MarginalsBounds(8, 2, **SETTING).plain(keep_largest=True)
    with pytest.raises(ValueError, match="sparsity"):
        MarginalsBounds(8, 2, **SETTING).sparse()

"""Subsets as indices, and the change of basis between marginals and parities."""

import itertools

import jax
import numpy as np
import pytest

from jaxdp import _subsets, workloads
from jaxdp.central._parities import (
    marginals_from_parities,
    marginals_sensitivity,
    parities_from_marginals,
    parities_sensitivity,
)

N, K = 6, 3


def as_sets(rows):
    return [frozenset(int(i) for i in row if i < N) for row in rows]


def test_order_is_that_of_the_workloads():
    expected = [s for size in range(K + 1) for s in itertools.combinations(range(N), size)]
    rows = _subsets.subsets(N, K)
    assert [tuple(sorted(s)) for s in as_sets(rows)] == expected
    assert list(_subsets.sizes(N, K)) == [len(s) for s in expected]
    assert list(_subsets.rank(rows, N)) == list(range(len(expected)))
    assert _subsets.num_subsets(N, K) == len(expected)


def test_more_subsets_than_any_memory_holds_are_not_added_up():
    assert _subsets.num_subsets(62, 62) == 2**62
    assert _subsets.num_subsets(3, 2**60) == 2**3
    assert _subsets.num_subsets(2**60, 2**60) >= 2**63


def test_unions_and_differences():
    everything = {s: i for i, s in enumerate(as_sets(_subsets.subsets(N, N)))}
    rows = _subsets.subsets(N, K)
    sets = as_sets(rows)
    for combine, operation in ((_subsets.union, "__or__"), (_subsets.difference, "__xor__")):
        found = _subsets.rank(combine(rows[:, None], rows[None], N), N)
        expected = [[everything[getattr(a, operation)(b)] for b in sets] for a in sets]
        np.testing.assert_array_equal(found, expected)
    groups = _subsets.with_each(N, 2)
    for row in groups:
        assert [sets[row[0]] | {i} for i in range(N)] == [sets[j] for j in row[1:]]


def test_children_are_the_subsets_of_each_set():
    sets = as_sets(_subsets.subsets(N, K))
    for size, table in enumerate(_subsets.children(N, K)):
        owners = [s for s in sets if len(s) == size]
        for owner, row in zip(owners, table, strict=True):
            members = sorted(owner)
            for code, place in enumerate(row):
                chosen = {members[j] for j in range(size) if (code >> j) & 1}
                assert sets[place] == chosen


def test_change_of_basis_is_exact(rng):
    """Both are the queries of one histogram, and integers stay integers."""
    histogram = rng.integers(0, 1000, 2**N).astype(np.float64)
    marginals = workloads.marginal(N, K) @ histogram
    parities = workloads.parity(N, K) @ histogram
    with jax.enable_x64(True):
        np.testing.assert_array_equal(parities_from_marginals(marginals, N, K), parities)
        np.testing.assert_array_equal(marginals_from_parities(parities, N, K), marginals)


def test_change_of_basis_checks_its_arguments():
    for change in (parities_from_marginals, marginals_from_parities):
        with pytest.raises(ValueError, match="answers"):
            change(np.ones(5), N, K)
        with pytest.raises(ValueError, match="order"):
            change(np.ones(5), 3, 4)


@pytest.mark.parametrize("sparsity", [None, 1, 2, 3])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_sensitivity_is_the_largest_move_of_one_user(order, sparsity):
    """Search over all pairs of users."""
    n = 4
    size = np.array([bin(x).count("1") for x in range(2**n)])
    users = np.flatnonzero(size <= (n if sparsity is None else sparsity))
    for matrix, find in (
        (workloads.marginal(n, order), marginals_sensitivity),
        (workloads.parity(n, order), parities_sensitivity),
    ):
        columns = matrix[:, users]
        apart = np.linalg.norm(columns[:, :, None] - columns[:, None, :], axis=0).max()
        assert find(n, order, sparsity) == pytest.approx(apart, rel=1e-12)

"""The projection on moments of pseudo-distributions: against a conic solver, with its gap."""

import functools
import itertools
import warnings
from typing import Any, cast

import cvxpy
import jax
import numpy as np
import pytest

from jaxdp import workloads
from jaxdp._subsets import joined, with_each
from jaxdp.central._moment_set import MomentSet

SETS = {
    "odd": MomentSet(4, 3),
    "parities": MomentSet(4, 3, "parities"),
    "sparse": MomentSet(5, 2, sparsity=2),
    "higher": MomentSet(4, 2, level=2),
}


@functools.cache
def queries(name):
    """The moments of every single user that the set allows, float64[N, users]."""
    spec = SETS[name]
    find = workloads.marginal if spec.basis == "marginals" else workloads.parity
    columns = find(spec.num_features, spec.order)
    size = np.array([bin(x).count("1") for x in range(2**spec.num_features)])
    return columns[1:, size <= (spec.sparsity or spec.num_features)]


def truth(name, rng):
    users = queries(name)
    return users @ rng.dirichlet(np.full(users.shape[1], 0.2))


def by_conic_solver(name, noisy):
    """The projection from the definition, moments by frozensets."""
    spec = SETS[name]
    n, r = spec.num_features, spec.level or 0
    join = frozenset.union if spec.basis == "marginals" else frozenset.symmetric_difference
    rows = [frozenset(s) for i in range(r + 1) for s in itertools.combinations(range(n), i)]
    known = [frozenset(s) for i in range(2 * r + 1) for s in itertools.combinations(range(n), i)]
    y = {u: cvxpy.Variable() for u in known}
    matrix = cvxpy.bmat([[y[join(a, b)] for b in rows] for a in rows])
    constraints = [y[frozenset()] == 1, matrix >> 0]
    constraints += [y[u] >= 0 for u in known if spec.basis == "marginals"]
    if spec.sparsity is not None:
        t = spec.sparsity
        constraints += [y[u] == 0 for u in known if len(u) > t]
        constraints += [
            sum(y[u | {i}] for i in range(n)) <= t * y[u] for u in known if len(u) < spec.order
        ]
    fitted = cvxpy.hstack([y[u] for u in known[1 : len(noisy) + 1]])
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(fitted - noisy)), constraints)
    with warnings.catch_warnings():  # it says so where it makes no more progress
        warnings.simplefilter("ignore", UserWarning)
        problem.solve(cvxpy.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return np.asarray(fitted.value)


SOLVER = 5e-5  # relative error granted to Clarabel, which stops short of the 1e-12 it is asked for


@pytest.mark.parametrize("name", SETS)
def test_projection_is_that_of_a_conic_solver(name, rng):
    """The distance to it is certified, up to the error of the solver itself, 5e-5 of the norm.

    How early that one stops depends on its version; ours must be at least as near in any case.
    """
    noisy = truth(name, rng) + 0.3 * rng.normal(size=SETS[name].shape)
    expected = by_conic_solver(name, noisy)
    size, distance = float(np.linalg.norm(expected)), np.inf
    with jax.enable_x64(True):
        for tol in (1e-1, 1e-6):
            found = SETS[name].project(noisy, tol=tol, max_steps=100_000)
            distance = float(np.linalg.norm(np.asarray(found.point) - expected))
            assert distance <= float(found.gap) ** 0.5 + SOLVER * size
            assert bool(found.converged)
            assert float(found.gap) <= tol**2 * np.sum(noisy**2) * (1 + 1e-9)
    assert distance <= 2 * SOLVER * size
    near, other = (np.sum((np.asarray(x) - noisy) ** 2) for x in (found.point, expected))
    assert near <= other * (1 + 1e-9)


@pytest.mark.parametrize("name", SETS)
def test_point_is_in_the_set(name, rng):
    """Also of a projection that stops early; the noisy answers are not."""
    spec = SETS[name]
    noisy = truth(name, rng) + 0.3 * rng.normal(size=spec.shape)
    pairs = joined(spec.num_features, spec.order // 2, spec.basis)
    with jax.enable_x64(True):
        found = spec.project(noisy, max_steps=40)
    for point, inside in ((np.asarray(found.point), True), (noisy, False)):
        full = np.concatenate([[1.0], point])
        lowest = np.linalg.eigvalsh(full[pairs])[0]
        low = 0 if spec.basis == "marginals" else -1
        slacks = [lowest, point.min() - low, 1 - point.max()]
        if spec.sparsity is not None:
            groups = with_each(spec.num_features, spec.order - 1)
            slacks.append((spec.sparsity * full[groups[:, 0]] - full[groups[:, 1:]].sum(1)).min())
        assert (min(slacks) >= -1e-12) == inside


@pytest.mark.parametrize("name", SETS)
def test_data_sets_are_in_the_set(name, rng):
    """A member is its own projection, up to the tolerance."""
    member = truth(name, rng)
    with jax.enable_x64(True):
        found = SETS[name].project(member, tol=1e-4, max_steps=20_000)
    assert bool(found.converged)
    assert np.sum((np.asarray(found.point) - member) ** 2) <= float(found.gap)


@pytest.mark.slow
def test_the_highest_level_is_the_hull_of_the_users(rng):
    """At level n nothing but data sets is left: the projection is that on the hull."""
    spec = MomentSet(3, 2, level=3)
    users = workloads.marginal(3, 2)[1:]
    noisy = users @ rng.dirichlet(np.ones(8)) + 0.3 * rng.normal(size=6)
    weights = cvxpy.Variable(8, nonneg=True)
    distance = cvxpy.sum_squares(users @ weights - noisy)
    whole: Any = cvxpy.sum(weights) == 1
    cvxpy.Problem(cvxpy.Minimize(distance), [whole]).solve(cvxpy.CLARABEL)
    with jax.enable_x64(True):
        found = spec.project(noisy, tol=1e-4, max_steps=20_000)
    np.testing.assert_allclose(found.point, users @ weights.value, atol=1e-3)


@pytest.mark.parametrize("name", SETS)
def test_complexity_bound_is_above_that_of_single_users(name, rng):
    """E max over the users is a lower bound on G; by Monte Carlo, below the bound by far."""
    users = queries(name)
    largest = (rng.normal(size=(4000, len(users))) @ users).max(axis=1)
    spec = SETS[name]
    assert largest.mean() < spec.complexity_bound() <= spec.radius * np.sqrt(len(users)) + 1e-9


def test_complexity_bound_has_the_order_of_the_papers():
    """For k = 2 n^(3/2) sqrt(log n) instead of n^2, for sparse users hardly any growth with n."""
    few, many = (MomentSet(n, 2, "parities").complexity_bound() for n in (64, 256))
    assert 8 < many / few < 8 * 1.25
    few, many = (MomentSet(n, 3, sparsity=3).complexity_bound() for n in (16, 32))
    assert many / few < 1.3


def test_equal_sets_share_their_projection():
    """A function object of its own for each access would be compiled anew each time."""
    assert SETS["odd"].parts == MomentSet(4, 3).parts
    assert SETS["odd"].parts != SETS["parities"].parts


def test_bad_arguments():
    for make, name in (
        (lambda: MomentSet(3, 4), "order"),
        (lambda: MomentSet(3, 0), "order"),
        (lambda: MomentSet(0, 1), "num_features"),
        (lambda: MomentSet(3, 3, level=1), "level"),
        (lambda: MomentSet(3, 3, level=4), "level"),
        (lambda: MomentSet(3, 2, sparsity=4), "sparsity"),
        (lambda: MomentSet(3, 2, "parities", sparsity=2), "sparsity"),
        (lambda: MomentSet(3, 2, cast(Any, "both")), "basis"),
        (lambda: MomentSet(4000, 3), "bytes"),
        (lambda: SETS["odd"].project(np.ones(3)), "x must have shape"),
        (lambda: SETS["odd"].project(np.full(14, np.nan)), "x must be finite"),
    ):
        with pytest.raises(ValueError, match=name):
            make()

"""Marginals and Gram matrices from local reports: encodings, projections, bounds."""

import dataclasses
import functools
from typing import Any, cast

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp import workloads
from jaxdp.central import CosineSet, MomentSet
from jaxdp.linear import GramQueries, MarginalQueries
from jaxdp.randomizers import CandidateResponse, GaussianRejection, L2Ball, Laplace
from tests import stats

N = 4
ROWS = ((np.arange(2**N)[:, None] >> np.arange(N)) & 1).astype(np.float32)
COUNTS = np.r_[300, 200, 100, 50, np.full(12, 5)]
SPECS = {
    "marginals": MarginalQueries(N, 2, 1.0, MomentSet(N, 2)),
    "parities": MarginalQueries(N, 3, 1.0, MomentSet(N, 3, "parities"), "parities"),
    "sparse": MarginalQueries(N, 2, 1.0, MomentSet(N, 2, sparsity=1), sparsity=1),
    "gram": GramQueries(N, 1.0, CosineSet(N)),
}


def users_of(name):
    """Rows of all values, and how many hold each."""
    if name == "gram":
        return 1 - 2 * ROWS, COUNTS
    if name == "sparse":
        few = ROWS.sum(axis=1) <= 1
        return ROWS[few], COUNTS[few]
    return ROWS, COUNTS


def population(name):
    rows, counts = users_of(name)
    return jaxdp.Population.from_histogram(counts, rows)


@pytest.mark.parametrize("name", SPECS)
def test_truth_is_that_of_the_workload(name):
    """The dense workload reads bit j of a value as feature j."""
    rows, counts = users_of(name)
    spec, law = SPECS[name], counts / counts.sum()
    values = (rows < 0 if name == "gram" else rows > 0) @ 2 ** np.arange(N)
    if name == "gram":
        expected = np.einsum("r,ri,rj->ij", law, rows, rows)
    else:
        find = workloads.parity if name == "parities" else workloads.marginal
        expected = find(N, spec.order)[1:, values] @ law
    np.testing.assert_allclose(spec.truth(counts, rows), expected, atol=1e-12)
    np.testing.assert_allclose(spec.population_truth(law, 9, rows), expected, atol=1e-12)


@pytest.mark.parametrize("name", SPECS)
def test_vectors_fill_their_ball_and_decode_to_the_answers(name, rng):
    """The radius is attained, so that no noise is wasted; decoding undoes the encoding."""
    spec = SPECS[name]
    rows, counts = users_of(name)
    params, encoding = spec.build(), spec.encoding()
    vectors = np.asarray(jax.jit(params.encode)(rows), np.float64)
    norms = np.linalg.norm(vectors, axis=1)
    assert norms.max() == pytest.approx(encoding.radius, rel=1e-6)
    assert norms.max() <= encoding.radius * (1 + 1e-7)
    mean = counts / counts.sum() @ vectors / encoding.weight + encoding.shift
    mean = mean if encoding.place is None else mean[encoding.place]
    np.testing.assert_allclose(mean, spec.truth(counts, rows), atol=1e-7)
    if name == "gram":
        inside = np.asarray(jax.jit(params.encode)(rng.uniform(-1, 1, rows.shape)))
        assert np.linalg.norm(inside, axis=1).max() <= encoding.radius


def test_users_out_of_range_are_clamped():
    features, signs = SPECS["marginals"].build(), SPECS["gram"].build()
    odd = np.array([np.nan, 7.0, 0.4, -3.0], np.float32)
    for params, clean in ((features, [0, 1, 0, 0]), (signs, [0, 1, 0.4, -1])):
        expected = params.encode(np.array(clean, np.float32))
        np.testing.assert_allclose(params.encode(odd), expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["marginals", "gram"])
def test_projection_never_hurts(name, key):
    """`|P - a|**2 <= <z, P - a>` for the raw estimate a + z, outcome by outcome.

    Half of the noise is left, 0.43 and 0.49 on average: a ratio of sums of 400 outcomes strays from
    these by 0.011, so that one above 0.6 is ten deviations off.
    """
    spec, users = SPECS[name], population(name)
    raw_spec, params = dataclasses.replace(spec, onto=None), spec.build()
    truth = spec.truth(users.counts().numpy(), np.asarray(users.inputs))
    raw = jaxdp.simulate(raw_spec, users, key, num_trials=400, method="tally").estimates
    both = jaxdp.simulate(spec, users, key, num_trials=400, method="tally").estimates
    noise, error = (np.asarray(x, np.float64).reshape(400, -1) - truth.ravel() for x in (raw, both))
    slack = 1e-3 * np.square(noise).sum(axis=1)
    assert np.all(np.square(error).sum(axis=1) <= (noise * error).sum(axis=1) + slack)
    assert np.square(error).sum() < 0.6 * np.square(noise).sum()
    tally = jaxdp.engine.outcome(spec, users, jax.random.fold_in(key, 0))
    found = params.projection(tally)
    assert bool(found.converged)
    np.testing.assert_allclose(
        params.raw(tally),
        jaxdp.run(raw_spec, users, jax.random.fold_in(key, 0)),
        rtol=1e-5,
        atol=1e-6,
    )
    np.testing.assert_allclose(found.point, params.estimate(tally), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_errors_are_below_the_bounds(name, key):
    """Power 0.999 to see a mean square 1.4 times the bound."""
    spec, users = SPECS[name], population(name)
    trials = jaxdp.simulate(spec, users, key, num_trials=1000, method="tally")
    size = users.num_users
    total = np.sqrt(np.square(trials.errors.reshape(1000, -1)).sum(axis=1, keepdims=True))
    bound = spec.total_variance(size)
    options: Any = dict(mean=0.0, kurtosis=6.0, at_most=True)
    stats.check_variance(total, bound, **options)
    stats.must_fail(stats.check_variance, total, np.square(total).mean() / 2, **options)
    assert np.all(np.square(trials.errors).mean(axis=0) <= spec.variance([size]))


def test_bounds_are_the_least_of_three():
    """Many users: the noise. Fewer: the complexity of the set. Hardly any: its diameter."""
    spec = GramQueries(256, 1.0, CosineSet(256))
    for users, least in ((10**9, "raw"), (10**6, "width"), (10, "diameter")):
        raw = dataclasses.replace(spec, onto=None).total_variance(users)
        sigma = spec.vector_randomizer.worst_case_variance(users) ** 0.5
        width = sigma * (CosineSet(256).complexity_bound() + 2**0.5 * 256)
        terms = {"raw": raw, "width": width, "diameter": 4 * 256.0**2}
        assert spec.total_variance(users) == pytest.approx(min(terms.values()))
        assert min(terms, key=lambda term: terms[term]) == least
    assert np.all(spec.variance([10]) == 4.0)
    assert spec.worst_case_variance(10) == 4.0


@pytest.mark.parametrize("name", SPECS)
def test_variances_of_any_randomizer_are_those_of_its_reports(name):
    """L2Ball's covariance depends on the vector, so that `variance` needs the users."""
    rows, counts = users_of(name)
    spec = dataclasses.replace(SPECS[name], onto=None, randomizer=L2Ball)
    encoding, n = spec.encoding(), counts.sum()
    vectors = np.asarray(spec.build().encode(rows))
    expected = spec.vector_randomizer.variance(counts, vectors) / encoding.weight**2
    expected = expected if encoding.place is None else expected[encoding.place]
    found = spec.variance(counts, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert np.all(found <= spec.raw_variance(n) * (1 + 1e-6))
    with pytest.raises(ValueError, match="inputs must have shape"):
        spec.variance(counts)
    collected = dataclasses.replace(SPECS[name], randomizer=CandidateResponse)
    assert collected.total_variance(n) >= SPECS[name].total_variance(n)


def test_bad_arguments():
    def features(**options):
        return MarginalQueries(**{"num_features": N, "order": 2, "epsilon": 1.0} | options)

    for make, error, name in (
        (lambda: features(onto=MomentSet(N, 3)), ValueError, r"shape \(10,\)"),
        (lambda: features(onto=MomentSet(N, 2, "parities")), ValueError, "marginals"),
        (lambda: features(onto="simplex"), TypeError, "onto"),
        (lambda: features(basis="parities", sparsity=2), ValueError, "sparsity"),
        (lambda: features(sparsity=5), ValueError, "sparsity"),
        (lambda: features(tol=0.0), ValueError, "tol"),
        (lambda: features(num_features=2000), ValueError, "order.*2,001,000"),
        (lambda: GramQueries(1500, 1.0), ValueError, "num_items"),
        (lambda: GramQueries(N, 1.0, CosineSet(3)), ValueError, r"shape \(4, 4\)"),
        (lambda: GramQueries(N, 1.0, tol=cast(Any, None)), TypeError, "tol"),
        (lambda: GramQueries(N, 1.0, randomizer=cast(Any, Laplace)), TypeError, "randomizer"),
        (lambda: features(randomizer=AS_PRINTED), TypeError, "covariance_form"),
        (lambda: SPECS["gram"].truth([1], ROWS), ValueError, "row"),
        (lambda: SPECS["gram"].truth(COUNTS, 2 * ROWS), ValueError, r"row 1"),
        (lambda: GramQueries(N, 1.0).build().projection({}), ValueError, "onto"),
        (lambda: jaxdp.run(SPECS["sparse"], population("marginals"), KEY), ValueError, "row 3"),
        (lambda: jaxdp.run(SPECS["marginals"], population("gram"), KEY), ValueError, "0 or 1"),
    ):
        with pytest.raises(error, match=name):
            make()


KEY = jax.random.key(0)
AS_PRINTED = functools.partial(GaussianRejection, variant="as_printed", num_users=10**4)

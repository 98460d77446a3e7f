"""Statistics of triples from vectors: the form, estimates by definition, moments, refusals."""

import functools
import itertools

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.factorization import gamma2
from jaxdp.pairwise import TripleForm, TripleStatistic, mean_range, third_l_moment
from jaxdp.pairwise.triples._triple_form import _embedding
from jaxdp.randomizers import (
    KRR,
    AffineSubsets,
    CandidateResponse,
    Gaussian,
    L2Ball,
    PrivUnit,
    PrivUnitG,
)
from tests import stats

RANDOM = np.random.default_rng(5).integers(-4, 5, size=(4, 4, 4)).astype(float)
FEW = np.multiply.outer(np.multiply.outer([0.0, 1, 1, 4], [0.0, 1, 1, 4]), [0.0, 1, 1, 4])
KERNELS = {
    "random": RANDOM,
    "range": mean_range([0.0, 1.0, 2.5, 4.0]),
    "one factor": FEW,
    "constant": np.full((3, 3, 3), 2.0),
}
MAKERS = {
    "normal": PrivUnitG,
    "sphere": PrivUnit,
    "candidates": CandidateResponse,
    "ball": L2Ball,
    "gaussian": functools.partial(Gaussian, delta=1e-6),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_form_of_the_vectors_is_the_kernel(name):
    spec = TripleForm(KERNELS[name], 1.0)
    embedding = _embedding(spec)
    full = embedding.homogeneous
    found = np.einsum("abc,xa,yb,zc->xyz", embedding.form, full, full, full)
    np.testing.assert_allclose(found, spec.kernel.values, atol=1e-5 * np.abs(found).max())
    assert np.linalg.norm(embedding.vectors, axis=1).max() == pytest.approx(
        0.0 if name == "constant" else 1.0
    )


def test_vectors_are_no_longer_than_it_takes():
    assert _embedding(TripleForm(FEW, 1.0)).vectors.shape == (4, 1)
    assert _embedding(TripleForm(third_l_moment(range(6)), 1.0)).vectors.shape[1] <= 5


def test_norms_are_those_of_the_unfolded_kernel():
    """The radius times the largest slope is gamma_2. Control: indicators of the values."""
    spec = TripleForm(RANDOM, 1.0)
    tensor, embedding = spec.kernel.values, _embedding(spec)

    def norm(columns):
        full = np.column_stack([columns, np.ones(4)])
        inverse = np.linalg.pinv(full)
        form = np.einsum("av,bw,cx,vwx->abc", inverse, inverse, inverse, tensor)
        slopes = np.einsum("abc,yb,zc->yza", form, full, full)[:, :, :-1]
        return np.linalg.norm(columns, axis=1).max() * np.linalg.norm(slopes, axis=2).max()

    least = float(gamma2(tensor.reshape(16, 4), shift=True).upper)
    assert norm(embedding.vectors.astype(float)) == pytest.approx(least, rel=1e-5)
    assert norm(np.eye(4)[:, :3]) > 1.05 * least


@pytest.mark.parametrize("maker", MAKERS)
def test_the_estimate_is_the_mean_over_triples_of_reports(maker, key):
    """By definition, of seven users' reports, some masked. Control: all triples, alike or not."""
    spec = TripleForm(RANDOM, 1.0, MAKERS[maker])
    params, embedding = spec.build(), _embedding(spec)
    values = np.array([0, 1, 1, 2, 3, 3, 0, 2], np.int32)
    reports = jax.vmap(params.privatize)(jax.random.split(key, 8), values)
    mask = np.arange(8) != 4
    tally = params.tally(reports, mask)
    vectors = float(params.inner.unit) * np.asarray(params.inner.summands(reports), float)[mask]
    full = np.column_stack([vectors, np.ones(7)])
    table = np.einsum("abc,xa,yb,zc->xyz", embedding.form, full, full, full)
    triples = [table[t] for t in itertools.permutations(range(7), 3)]
    with jax.enable_x64(True):
        found = float(params.estimate(tally))
    # The cubic forms are rounded.
    assert found == pytest.approx(np.mean(triples), abs=7 * float(params.step) / (7 * 6 * 5) * 2)
    assert abs(found - table.mean()) > 0.01 * abs(found)
    assert float(params.step) * 100 < np.std(triples)


@pytest.mark.parametrize("maker", ["normal", "sphere", "ball"])
def test_spread_of_simulated_estimates(maker, key):
    """Mean and variance; controls: an offset, wider errors."""
    spec = TripleForm(RANDOM, 1.0, MAKERS[maker])
    counts = np.array([30, 10, 0, 20])
    users = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, users, key, num_trials=3000)
    found, variance = trials.estimates[:, None], spec.variance(counts)[None]
    truth = spec.truth(counts)[None]
    kurtosis = 6.0  # few users: the part of triples counts
    stats.check_mean(found, truth, variance=variance)
    stats.check_variance(found, variance=variance, mean=truth, kurtosis=kurtosis)
    with pytest.raises(stats.CheckFailed):
        stats.check_mean(found + 0.25 * np.sqrt(variance), truth, variance=variance)
    wide = truth + 1.3 * (found - truth)
    with pytest.raises(stats.CheckFailed):
        stats.check_variance(wide, variance=variance, mean=truth, kurtosis=kurtosis)


def test_no_part_of_the_variance_can_be_left_out():
    """At sixty users pairs and triples have their share."""
    spec, counts = TripleForm(RANDOM, 1.0), np.array([30, 10, 0, 20])
    many = float(spec.variance(1000 * counts)) * 1000
    assert float(spec.variance(counts)) > 1.2 * many


def test_spread_for_users_of_a_distribution(key):
    spec, p = TripleForm(mean_range(range(4)), 2.0), np.array([0.1, 0.4, 0.3, 0.2])
    users = jaxdp.Population.from_distribution(p, num_users=100)
    trials = jaxdp.simulate(spec, users, key, num_trials=3000)
    found = trials.estimates[:, None]
    variance, truth = (
        x[None] for x in (spec.population_variance(p, 100), spec.population_truth(p, 100))
    )
    stats.check_mean(found, truth, variance=variance)
    stats.check_variance(found, variance=variance, mean=truth, kurtosis=4.5)
    fixed = spec.variance(np.array([10, 40, 30, 20]))
    with pytest.raises(stats.CheckFailed):
        stats.check_variance(1.3 * (found - truth), variance=variance, mean=0 * truth, kurtosis=4.5)
    assert fixed < variance


@pytest.mark.parametrize("name", KERNELS)
def test_the_worst_case_bounds_all_data_sets(name):
    spec = TripleForm(KERNELS[name], 1.0)
    worst = spec.worst_case_variance(12)
    assert worst.kind == "bound"
    for users in itertools.combinations_with_replacement(range(spec.num_values), 12):
        counts = np.bincount(users, minlength=spec.num_values)
        assert float(spec.variance(counts)) <= worst * (1 + 1e-9) + 1e-30


def test_it_pays_where_factors_are_short():
    """The mean range of three of sixteen values; not so for third L-moments."""
    counts = np.rint(10**6 * np.exp(-np.arange(16) / 8)).astype(int)

    def ratio(kernel):
        oracle = TripleStatistic(kernel, AffineSubsets(16, 1.0))
        return float(TripleForm(kernel, 1.0).variance(counts) / oracle.variance(counts))

    assert ratio(mean_range(range(16))) < 0.65
    assert ratio(third_l_moment(range(16))) > 1.2


def test_a_constant_is_answered(key):
    spec = TripleForm(KERNELS["constant"], 1.0)
    users = jaxdp.Population.from_histogram([5, 3, 2])
    assert float(jaxdp.run(spec, users, key)) == pytest.approx(2.0)
    assert float(spec.variance([5, 3, 2])) == 0


def test_what_is_refused():
    for make, message in (
        (lambda: TripleForm(np.zeros((2, 2)), 1.0), "kernel must have shape"),
        (lambda: TripleForm(RANDOM, -1.0), "epsilon"),
        (lambda: TripleForm(RANDOM, 1.0).variance([1, 1, 0, 0]), "at least 3 users"),
        (lambda: TripleForm(RANDOM, 1.0).variance([1, 1]), "4 entries"),
        (lambda: TripleForm(RANDOM, 1.0).worst_case_variance(2), "num_users"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    for maker in (KRR, "PrivUnitG", lambda dim, epsilon, radius: KRR(5, epsilon)):
        with pytest.raises(TypeError, match="randomizer"):
            TripleForm(RANDOM, 1.0, maker)  # pyright: ignore[reportArgumentType]
    many = jaxdp.Population.from_histogram([2**40, 1, 1, 1])
    with pytest.raises(ValueError, match="at most"):
        TripleForm(RANDOM, 1.0).check_population(many)

"""Pairwise statistics from frequency oracles: exact moments by enumeration, and bounds."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.pairwise import (
    AUC,
    CollisionEntropy,
    GiniDiversity,
    GiniMeanDifference,
    KendallTau,
    OracleStatistic,
    QuantizedRR,
)
from jaxdp.random import Count
from jaxdp.randomizers import (
    KRR,
    AffineHashing,
    FiniteChannel,
    HadamardBit,
    HadamardResponse,
    LocalHashing,
    ProjectiveGeometryResponse,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)
from tests import stats
from tests.marks import slow
from tests.strangers import Stranger

TABLE = [[3, 1, 2, 1, 1], [1, 3, 2, 1, 1], [2, 2, 1, 2, 1]]


SMALL = {
    "finite": (FiniteChannel(TABLE), "v"),
    "hadamard": (HadamardResponse(3, 1.0), "u"),
    "bit": (HadamardBit(3, 2.0), "u"),
    "subset": (SubsetSelection(5, 1.0, subset_size=2), "u"),
    "unary": (UnaryEncoding(5, 1.5), "v"),
    "rappor": (Rappor(3, 2.0, num_bits=4, num_hashes=1, num_cohorts=2, num_rounds=1), "u"),
    "stranger": (Stranger(4, False), "v"),
    "stranger-counted": (Stranger(4, True), "u"),
}


def matrix_of(k, rng=None):
    matrix = (rng or np.random.default_rng(5)).normal(size=(k, k))
    return matrix + matrix.T


def is_count(x):
    return isinstance(x, Count)


def all_reports(oracle):
    """The probabilities of all reports of each value, float64[k, m], and the reports."""
    law = np.array([[float(p) for p in row] for row in oracle.channel()])
    reports = oracle.reports()
    return law, np.arange(law.shape[1]) if reports is None else reports


@pytest.mark.parametrize("name", SMALL)
def test_exact_moments_by_enumeration(name):
    """Every vector of reports of three users, two of them alike; and of independent users."""
    oracle, form = SMALL[name]
    k, n = oracle.num_values, 2 if name in ("unary", "rappor") else 3
    protocol = OracleStatistic(matrix_of(k), oracle, form=form)
    law, reports = all_reports(oracle)
    params = protocol.build()
    single = jax.vmap(lambda r: params.tally(r[None]))(jnp.asarray(reports))
    index = np.array(list(itertools.product(range(len(reports)), repeat=n)))
    tallies = jax.tree.map(lambda x: Count.of(x.numpy()[index].sum(1)), single, is_leaf=is_count)
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(jax.vmap(params.estimate))(tallies))
    values = (0, 2, 2)[-n:]
    weights = np.prod(law[values, index], axis=1)
    counts = np.bincount(values, minlength=k)
    mean = weights @ found
    assert mean == pytest.approx(float(protocol.truth(counts)), rel=1e-9)
    spread = weights @ (found - mean) ** 2
    assert spread == pytest.approx(float(protocol.variance(counts)), rel=1e-9)
    assert spread <= protocol.worst_case_variance(n) * (1 + 1e-9)

    p = np.arange(1.0, k + 1) / (k * (k + 1) / 2)
    weights = np.prod((p @ law)[index], axis=1)
    truth = float(protocol.population_truth(p, n))
    error = weights @ (found - truth) ** 2
    assert error == pytest.approx(float(protocol.population_variance(p, n)), rel=1e-9)
    assert form == "v" or weights @ found == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize(
    "oracle",
    [
        KRR(6, 1.0),
        ProjectiveGeometryResponse(6, 1.0),
        SubsetSelection(6, 1.0),
        UnaryEncoding(6, 1.0),
        LocalHashing(6, 1.0),
        AffineHashing(6, 1.0, hash_range=3),
        HadamardBit(2, 1.0),
    ],
    ids=lambda oracle: type(oracle).__name__,
)
def test_moments_are_those_of_the_covariances(oracle, rng):
    k, law = oracle.num_values, oracle.noise()
    matrix, rows = matrix_of(k, rng), rng.normal(size=(k, k))
    covariances = [oracle.covariance(value) for value in range(k)]
    forms = [[row @ s @ row for s in covariances] for row in rows]
    assert law.forms(rows) == pytest.approx(np.array(forms))
    times = [s @ row for s, row in zip(covariances, rows, strict=True)]
    assert law.times(rows) == pytest.approx(np.array(times))
    assert law.traces(matrix) == pytest.approx([np.trace(matrix @ s) for s in covariances])
    pairs = [[np.trace(matrix @ s @ matrix @ t) for s in covariances] for t in covariances]
    assert law.cross_traces(matrix) == pytest.approx(np.array(pairs))
    if oracle.num_values > 2:
        wrong = matrix + np.eye(k)
        assert law.cross_traces(wrong) != pytest.approx(np.array(pairs))


@pytest.mark.parametrize("oracle", [UnaryEncoding(6, 0.7), SubsetSelection(6, 0.7)])
def test_fourth_moments_by_enumeration(oracle, rng):
    """Six values, so that four values other than a user's own are among them."""
    matrix, law = matrix_of(6, rng), oracle.noise()
    shares, _ = all_reports(oracle)
    sets = (np.array(oracle.reports())[:, :1] >> np.arange(6)) & 1  # as bits of words
    third, variance = law.self_moments(matrix)
    for value in range(6):
        z = (sets - law.q) / (law.p - law.q) - np.eye(6)[value]
        form = np.einsum("ra,ab,rb->r", z, matrix, z)
        share = shares[value]
        assert third[value] == pytest.approx((share * form) @ z)
        assert variance[value] == pytest.approx(share @ form**2 - (share @ form) ** 2)


@pytest.mark.parametrize(
    "oracle",
    [slow(HadamardResponse(5, 1.0)), LocalHashing(5, 1.0)],
    ids=["counted", "pairs"],
)
def test_is_the_u_statistic_of_the_reports(oracle, key):
    """No more than their decoded sums: each user's pair with itself is taken out exactly."""
    matrix = matrix_of(5)
    params = OracleStatistic(matrix, oracle).build()
    words = jax.random.bits(key, (40, params.num_words), jnp.uint32)
    reports = jax.jit(jax.vmap(params.from_bits))(words, jnp.arange(40, dtype=jnp.int32) % 5)
    mask = jnp.arange(40) < 33

    def decoded(report):
        return params.inner.estimate(params.inner.tally(report[None]))

    with jax.enable_x64(True):
        y = np.asarray(jax.jit(jax.vmap(decoded))(reports))[:33]
        tally = jax.jit(params.tally)(reports, mask)
        found = float(jax.jit(params.estimate)(tally))
    centre = np.eye(5) - 1 / 5
    pairs = y @ centre @ matrix @ centre @ y.T
    rows = matrix.mean(axis=1) - matrix.mean()
    expected = (pairs.sum() - np.trace(pairs)) / (33 * 32)
    expected += 2 * rows @ y.mean(axis=0) + matrix.mean()
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("form", ["u", "v"])
def test_randomized_response_is_quantized_rr(form):
    kernel, counts = KendallTau(), [5, 1, 0, 2, 7, 3]
    one = OracleStatistic(kernel, KRR(6, 1.5), num_values=(2, 3), form=form)
    two = QuantizedRR(kernel, 1.5, num_values=(2, 3), form=form)
    assert float(one.variance(counts)) == pytest.approx(float(two.variance(counts)))
    p = np.array(counts) / 18
    expected = float(two.population_variance(p, 30))
    assert float(one.population_variance(p, 30)) == pytest.approx(expected)
    tally = Count.of(np.array([4, 1, 3, 2, 5, 3]))
    assert float(one.build().estimate(tally)) == pytest.approx(float(two.build().estimate(tally)))


def test_plug_in_statistics_follow_the_delta_method():
    for kernel, shape in ((CollisionEntropy(), None), (AUC(), (2, 3))):
        counts = np.array([50, 200, 100, 400, 10, 60])
        one = OracleStatistic(kernel, KRR(6, 2.0), num_values=shape)
        two = QuantizedRR(kernel, 2.0, num_values=shape or 6)
        assert float(one.variance(counts)) == pytest.approx(float(two.variance(counts)))
        assert one.worst_case_variance(100) == math.inf


def test_worst_case_variance_bounds_every_data_set(rng):
    for oracle in (HadamardResponse(5, 0.5), SubsetSelection(5, 2.0), LocalHashing(5, 1.0)):
        for form in ("u", "v"):
            protocol = OracleStatistic(matrix_of(5, rng), oracle, form=form)
            for n in (2, 7, 500):
                bound, law = protocol.worst_case_variance(n), rng.dirichlet(np.full(5, 0.2))
                assert protocol.variance(rng.multinomial(n, law)) <= bound * (1 + 1e-9)
                alone = protocol.variance(n * np.eye(5, dtype=int)[0])
                assert bound <= 100 * alone  # and not by far


@pytest.mark.slow
def test_large_domains_profit_from_better_oracles():
    """The error of randomized response grows with k, that of Hadamard response does not."""
    n, kernel = 10**6, GiniMeanDifference()
    ratio = []
    for k in (16, 128):
        even = np.full(k, n // k)
        kinds = OracleStatistic(kernel, KRR(k, 1.0)), OracleStatistic(kernel, HadamardBit(k, 1.0))
        errors = [float(protocol.variance(even)) for protocol in kinds]
        ratio.append(errors[0] / errors[1])
    assert ratio[1] > 5 * ratio[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "oracle", [LocalHashing(8, 1.0), SubsetSelection(8, 1.0), HadamardResponse(8, 1.0)]
)
def test_simulated_variance(oracle, key):
    counts = np.array([30, 10, 0, 40, 20, 5, 15, 80])
    protocol = OracleStatistic(GiniMeanDifference(), oracle)
    population = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(protocol, population, key, num_trials=4000)
    predicted = protocol.variance(counts)
    assert trials.truth is not None
    stats.check_mean(trials.estimates, trials.truth, variance=predicted, cells=2)
    stats.check_variance(trials.estimates, predicted, kurtosis=8, mean=trials.truth, cells=2)
    stats.must_fail(
        stats.check_variance, trials.estimates, 2 * predicted, kurtosis=8, mean=trials.truth
    )


def test_bad_input():
    oracle = HadamardResponse(6, 1.0)
    with pytest.raises(ValueError, match=r"num_values.*5.*6"):
        OracleStatistic(GiniDiversity(), oracle, num_values=5)
    with pytest.raises(ValueError, match=r"k = 3 bins.*6"):
        OracleStatistic(np.eye(3), oracle)
    with pytest.raises(ValueError, match="axes"):
        OracleStatistic(KendallTau(), oracle)
    with pytest.raises(ValueError, match="form"):
        OracleStatistic(GiniDiversity(), oracle, form="w")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="oracle"):
        OracleStatistic(GiniDiversity(), jaxdp.randomizers.Laplace(1.0))  # pyright: ignore
    with pytest.raises(ValueError, match="linearly dependent"):
        OracleStatistic(GiniDiversity(), FiniteChannel([[1, 1], [1, 1]]))
    with pytest.raises(ValueError, match="at least 2 users"):
        OracleStatistic(GiniDiversity(), oracle).variance([1, 0, 0, 0, 0, 0])
    channel = FiniteChannel([[3, 1], [1, 3]])
    assert OracleStatistic(np.eye(2), channel).epsilon == channel.exact_epsilon()

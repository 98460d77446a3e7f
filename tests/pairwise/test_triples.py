"""Statistics of triples: estimates and moments by enumeration in rationals, kernels, laws."""

import itertools
import math
from fractions import Fraction

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.pairwise import (
    TripleRatio,
    TripleStatistic,
    mean_range,
    one_of_each_class,
    third_l_moment,
    triangles,
    volume_under_roc,
)
from jaxdp.pairwise.triples import _triple_protocol as shared
from jaxdp.random import Count
from jaxdp.randomizers import (
    KRR,
    AffineSubsets,
    HadamardResponse,
    LocalHashing,
    ProjectiveGeometryResponse,
    SubsetSelection,
)
from jaxdp_experiments import vus_flights
from tests import stats

RANDOM = np.random.default_rng(3).integers(-4, 5, size=(3, 3, 3)).astype(float)
ORACLES = {
    "krr": KRR(3, 1.0),
    "hadamard": HadamardResponse(3, 1.0),
    "subsets": AffineSubsets(3, 0.7, 3, 2),
    "geometry": ProjectiveGeometryResponse(3, 0.5, order=2),
}
USERS = [(0, 1, 2), (0, 0, 1), (1, 1, 1, 2), (0, 1, 2, 2)]


def decoded(oracle) -> list[list[Fraction]]:
    """The vector of each report, exactly, for KRR."""
    p, q = oracle.probabilities()
    k = oracle.num_values
    return [[((r == v) - q) / (p - q) for v in range(k)] for r in range(k)]


def exact_moments(tensor, oracle, users):
    """Mean and variance over all reports, by the definition, in rationals."""
    channel, vectors, n = oracle.channel(), decoded(oracle), len(users)
    k = oracle.num_values
    numbers = [[[Fraction(float(x)) for x in row] for row in rows] for rows in tensor]

    def of(r, s, t):
        return sum(
            numbers[a][b][c] * vectors[r][a] * vectors[s][b] * vectors[t][c]
            for a, b, c in itertools.product(range(k), repeat=3)
        )

    table = {x: of(*x) for x in itertools.product(range(k), repeat=3)}
    first = second = Fraction(0)
    found = {}
    for reports in itertools.product(range(k), repeat=n):
        weight = math.prod(channel[v][r] for v, r in zip(users, reports, strict=True))
        triples = itertools.permutations(reports, 3)
        value = sum(table[x] for x in triples) / shared.num_triples(n)
        first, second = first + weight * value, second + weight * value**2
        found[reports] = value
    return first, second - first**2, found


@pytest.mark.parametrize("users", USERS, ids=str)
def test_moments_by_enumeration_in_rationals(users):
    """Of all reports. Controls: other users' truth; a variance without triples."""
    oracle = KRR(3, 1.0)
    spec = TripleStatistic(RANDOM, oracle)
    counts = np.bincount(users, minlength=3)
    mean, variance, found = exact_moments(spec.kernel.values, oracle, users)
    tensor = spec.kernel.values
    truth = np.mean([tensor[x] for x in itertools.permutations(users, 3)])
    assert float(mean) == pytest.approx(truth, rel=1e-9, abs=1e-9)
    assert spec.truth(counts) == pytest.approx(truth, rel=1e-12, abs=1e-12)
    assert spec.variance(counts) == pytest.approx(float(variance), rel=1e-9)
    assert spec.variance(counts) <= spec.worst_case_variance(len(users))
    parts = shared.mean_parts(tensor, spec._spreads(), counts.astype(float))
    for missing in range(3):
        fewer = [part * (i != missing) for i, part in enumerate(parts)]
        assert shared.total_variance(len(users), *fewer) < 0.999 * float(variance)
    reports = np.array(list(found))
    tallies = np.stack([np.sum(reports == r, axis=1) for r in range(3)], axis=1)
    with jax.enable_x64(True):
        estimates = jax.vmap(spec.build().estimate)(Count.of(tallies))
    np.testing.assert_allclose(estimates, [float(x) for x in found.values()], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ORACLES)
def test_moments_with_any_counted_oracle(name):
    """Of three users, all reports, in floats. Control: the covariances of k-RR."""
    oracle = ORACLES[name]
    spec, users = TripleStatistic(RANDOM, oracle), (0, 1, 1)
    counts = np.bincount(users, minlength=3)
    law = np.array([[float(x) for x in row] for row in oracle.channel()])
    reports = np.array(list(itertools.product(range(law.shape[1]), repeat=3)))
    tallies = np.stack([np.sum(reports == r, axis=1) for r in range(law.shape[1])], axis=1)
    weights = np.prod(law[np.array(users), reports], axis=1)
    with jax.enable_x64(True):
        found = np.asarray(jax.vmap(spec.build().estimate)(Count.of(tallies)))
    assert weights @ found == pytest.approx(float(spec.truth(counts)), abs=1e-8)
    variance = weights @ found**2 - (weights @ found) ** 2
    assert spec.variance(counts) == pytest.approx(variance, rel=1e-8)
    if name != "krr":
        assert abs(TripleStatistic(RANDOM, KRR(3, 1.0)).variance(counts) / variance - 1) > 0.01


def test_population_variance_is_the_mean_of_the_users_and_their_spread():
    """Of three users, over all their values. Control: without the spread."""
    spec, p = TripleStatistic(RANDOM, KRR(3, 1.0)), np.array([0.5, 0.3, 0.2])
    truths, variances, weights = [], [], []
    for users in itertools.product(range(3), repeat=3):
        counts = np.bincount(users, minlength=3)
        truths.append(float(spec.truth(counts)))
        variances.append(float(spec.variance(counts)))
        weights.append(np.prod(p[list(users)]))
    truths, variances, weights = map(np.array, (truths, variances, weights))
    assert weights @ truths == pytest.approx(float(spec.population_truth(p, 3)))
    spread = weights @ truths**2 - (weights @ truths) ** 2
    assert spec.population_variance(p, 3) == pytest.approx(weights @ variances + spread)
    assert spread > 0.005 * (weights @ variances)


def test_kernels():
    """Against the definitions, on the values of some users."""
    values, rng = np.array([0.0, 1.0, 4.0, 9.0]), np.random.default_rng(0)
    users = rng.integers(0, 4, size=12)
    counts = np.bincount(users, minlength=4)
    triples = np.sort(values[list(itertools.combinations(users, 3))], axis=1)
    oracle = KRR(4, 1.0)

    def truth(tensor):
        return float(TripleStatistic(tensor, oracle).truth(counts))

    low, middle, high = triples.T
    assert truth(third_l_moment(values)) == pytest.approx(np.mean(high - 2 * middle + low) / 3)
    assert truth(mean_range(values)) == pytest.approx(np.mean(high - low))
    # Gini's: the mean range of three is 3/2 of the mean difference of two
    pairs = np.array(list(itertools.combinations(values[users], 2)))
    difference = np.mean(np.abs(pairs[:, 0] - pairs[:, 1]))
    assert truth(mean_range(values)) == pytest.approx(1.5 * difference)
    path = np.eye(4, k=1) + np.eye(4, k=-1) + np.eye(4)
    near = [
        all(path[a, b] for a, b in itertools.combinations(t, 2))
        for t in itertools.combinations(users, 3)
    ]
    assert truth(triangles(path)) == pytest.approx(np.mean(near))


def test_volume_under_the_roc_surface():
    """Against all triples of one user of each class; ties broken in all ways."""
    rng, d = np.random.default_rng(1), 4
    scores = [rng.integers(0, d, size=size) for size in (5, 3, 4)]
    total = 0.0
    for triple in itertools.product(*scores):
        ways = [
            all((triple[i], order[i]) < (triple[i + 1], order[i + 1]) for i in range(2))
            for order in itertools.permutations(range(3))
        ]
        total += np.mean(ways)
    counts = np.concatenate([np.bincount(s, minlength=d) for s in scores])
    spec = TripleStatistic(volume_under_roc(d, (5, 3, 4)), KRR(12, 1.0))
    assert float(spec.truth(counts)) == pytest.approx(total / 60)
    same = TripleStatistic(volume_under_roc(1, (5, 3, 4)), KRR(3, 1.0))
    assert float(same.truth([5, 3, 4])) == pytest.approx(1 / 6)


RATIO = TripleRatio(volume_under_roc(2), one_of_each_class(2), KRR(6, 2.0))


def test_private_sizes_of_classes():
    """The truth is that for public sizes, whatever they are; undefined where a class is empty."""
    rng = np.random.default_rng(2)
    for _ in range(3):
        table = rng.integers(1, 50, size=(3, 2))
        sizes = tuple(table.sum(axis=1).tolist())
        public = TripleStatistic(volume_under_roc(2, sizes), KRR(6, 2.0)).truth(table.ravel())
        assert float(RATIO.truth(table.ravel())) == pytest.approx(float(public), rel=1e-12)
        law = table.ravel() / table.sum()
        assert float(RATIO.population_truth(law, 100)) == pytest.approx(float(public), rel=1e-12)
    for ask in (RATIO.truth, RATIO.variance, RATIO.relative_error):
        with pytest.raises(ValueError, match="undefined"):
            ask([5, 5, 0, 0, 5, 5])
    # What rounding leaves of no triples is not taken for some.
    alike = 0.1 * triangles(np.eye(3))
    assert TripleStatistic(alike, KRR(3, 1.0)).truth([2, 2, 2]) != 0
    with pytest.raises(ValueError, match="undefined"):
        TripleRatio(alike, alike, KRR(3, 1.0)).truth([2, 2, 2])


def test_the_ratio_is_linearised_by_enumeration():
    """Of all reports of four users: the variance of `N - A D` over `D**2`. Control: of N alone."""
    condition = np.ones((3, 3, 3))
    condition[0, 0, 0] = 0
    kernel = RANDOM * condition
    oracle, users = KRR(3, 1.0), (0, 1, 2, 2)
    spec, counts = TripleRatio(kernel, condition, oracle), np.bincount(users, minlength=3)
    above, below = spec.kernel.values, spec.condition.values
    ratio = np.mean([above[x] for x in itertools.permutations(users, 3)]) / np.mean(
        [below[x] for x in itertools.permutations(users, 3)]
    )
    assert float(spec.truth(counts)) == pytest.approx(ratio, rel=1e-12)
    share = np.mean([below[x] for x in itertools.permutations(users, 3)])
    _, _, found = exact_moments(above - ratio * below, oracle, users)
    channel = oracle.channel()
    weights = [
        math.prod(float(channel[v][r]) for v, r in zip(users, reports, strict=True))
        for reports in found
    ]
    values = np.array([float(x) for x in found.values()])
    assert np.dot(weights, values) == pytest.approx(0, abs=1e-9)
    variance = np.dot(weights, values**2) / share**2
    assert float(spec.variance(counts)) == pytest.approx(variance, rel=1e-8)
    assert float(spec.variance(counts)) <= spec.worst_case_variance(4, share)
    assert spec.worst_case_variance(4, share) < spec.worst_case_variance(4)
    alone = TripleStatistic(kernel, oracle).variance(counts) / share**2
    assert abs(float(alone) / variance - 1) > 0.01
    # The estimate is the ratio of both estimates.
    tally = Count.of(np.array([5, 4, 7]))
    with jax.enable_x64(True):
        parts = [TripleStatistic(x, oracle).build().estimate(tally) for x in (kernel, condition)]
        assert float(spec.build().estimate(tally)) == pytest.approx(float(parts[0] / parts[1]))


@pytest.mark.parametrize("iid", [False, True])
def test_spread_of_ratios(iid, key):
    """Of so many users that the bias is a hundredth of the deviation, in unequal classes.

    Controls: an offset; the error with public sizes, whose own noise the ratio cancels.
    """
    counts = np.array([1000, 500, 300, 300, 3000, 6000]) * 1000
    n, law = int(counts.sum()), counts / counts.sum()
    public = TripleStatistic(volume_under_roc(2, (1_500_000, 600_000, 9_000_000)), KRR(6, 2.0))
    if iid:
        users = jaxdp.Population.from_distribution(law, num_users=n)
        truth, variance = RATIO.population_truth(law, n), RATIO.population_variance(law, n)
        wrong = public.population_variance(law, n)
    else:
        users = jaxdp.Population.from_histogram(counts)
        truth, variance = RATIO.truth(counts), RATIO.variance(counts)
        wrong = public.variance(counts)
    assert RATIO.relative_error(counts) < 0.01
    trials = jaxdp.simulate(RATIO, users, key, num_trials=3000, method="tally")
    found, truth = trials.estimates[:, None], truth[None]
    stats.check_mean(found, truth, variance=variance[None])
    stats.check_variance(found, variance=variance[None], mean=truth, kurtosis=3.5)
    with pytest.raises(stats.CheckFailed):
        stats.check_mean(found + 0.25 * np.sqrt(variance), truth, variance=variance[None])
    with pytest.raises(stats.CheckFailed):
        stats.check_variance(found, variance=wrong[None], mean=truth, kurtosis=3.5)


@pytest.mark.parametrize("method", ["per_user", "tally"])
def test_spread_of_simulated_estimates(method, key):
    """Mean and variance; controls: an offset, wider errors."""
    spec = TripleStatistic(mean_range(range(4)), KRR(4, 1.0))
    counts = np.array([300, 100, 0, 200])
    users = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, users, key, num_trials=3000, method=method)
    found, variance = trials.estimates[:, None], spec.variance(counts)[None]
    truth = spec.truth(counts)[None]
    stats.check_mean(found, truth, variance=variance)
    stats.check_variance(found, variance=variance, mean=truth, kurtosis=3.5)
    with pytest.raises(stats.CheckFailed):
        stats.check_mean(found + 0.25 * np.sqrt(variance), truth, variance=variance)
    wide = truth + 1.25 * (found - truth)
    with pytest.raises(stats.CheckFailed):
        stats.check_variance(wide, variance=variance, mean=truth, kurtosis=3.5)


def test_a_trillion_users(key):
    counts = np.array([4, 1, 2, 3]) * 10**11
    spec = TripleStatistic(third_l_moment([0, 1, 2, 5]), KRR(4, 1.0))
    estimate = jaxdp.run(spec, jaxdp.Population.from_histogram(counts), key)
    error = float(estimate) - float(spec.truth(counts))
    assert abs(error) < 7 * float(spec.variance(counts)) ** 0.5 < 1e-4


def test_what_is_refused():
    for make, message in (
        (lambda: TripleStatistic(np.zeros((2, 2)), KRR(2, 1.0)), "kernel must have shape"),
        (lambda: TripleStatistic(np.full((2, 2, 2), np.nan), KRR(2, 1.0)), "kernel.*finite"),
        (lambda: TripleStatistic(RANDOM, KRR(4, 1.0)), "both must name one domain"),
        (lambda: TripleStatistic(RANDOM, SubsetSelection(3, 1.0)), "oracle.*counted"),
        (lambda: TripleStatistic(RANDOM, LocalHashing(3, 1.0)), "oracle.*counted"),
        (lambda: TripleStatistic(RANDOM, KRR(3, 1.0)).variance([1, 1, 0]), "at least 3 users"),
        (lambda: TripleStatistic(RANDOM, KRR(3, 1.0)).variance([1, 1]), "3 entries"),
        (lambda: volume_under_roc(22, (1, 1, 1)), "num_scores"),
        (lambda: volume_under_roc(3, (0, 1, 1)), "class_sizes"),
        (lambda: one_of_each_class(22), "num_scores"),
        (lambda: TripleRatio(RANDOM, np.ones((2, 2, 2)), KRR(3, 1.0)), "condition.*shape"),
        (lambda: TripleRatio(RANDOM, -np.ones((3, 3, 3)), KRR(3, 1.0)), "condition must be at"),
        (lambda: TripleRatio(0 * RANDOM, 0 * RANDOM, KRR(3, 1.0)), "condition must be at"),
        (lambda: TripleRatio(RANDOM + 5, triangles(np.eye(3)), KRR(3, 1.0)), "kernel must be 0"),
        (lambda: TripleRatio(RANDOM, np.ones((3, 3, 3)), KRR(4, 1.0)), "both must name one domain"),
        (lambda: RATIO.worst_case_variance(10, 0.0), "share"),
        (lambda: RATIO.worst_case_variance(10, 1.5), "share"),
        (lambda: RATIO.worst_case_variance(2), "num_users"),
        (lambda: RATIO.variance([1, 1]), "6 entries"),
        (lambda: mean_range([1.0]), "values"),
        (lambda: triangles([[0, 1], [0, 0]]), "adjacency"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match="class_sizes"):
        volume_under_roc(3, (1, 1))  # pyright: ignore[reportArgumentType]


def test_flights_by_definition():
    """The volume of the coarsest table, each triple of groups. Control: two classes swapped."""
    table = vus_flights.merged_table(2)
    assert table.sum() == 327_346

    def volume(rows):
        orders = {(0, 0, 0): 1 / 6, (0, 0, 1): 1 / 2, (0, 1, 1): 1 / 2, (1, 1, 1): 1 / 6}
        total = sum(
            weight * math.prod(int(row[s]) for row, s in zip(rows, scores, strict=True))
            for scores, weight in orders.items()
        )
        return total / math.prod(map(int, table.sum(axis=1)))

    spec = vus_flights.protocol("KRR", 2, 1.0)
    assert float(spec.truth(table.ravel())) == pytest.approx(volume(table), rel=1e-12)
    assert abs(volume(table[[1, 0, 2]]) - volume(table)) > 0.01

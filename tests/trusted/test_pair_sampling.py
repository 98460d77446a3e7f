"""Random matchings of users: exact errors by enumeration, one law on both paths, bad input."""

import functools
import itertools
import math

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.bounds._pairs import pair_sampling_mse
from jaxdp.pairwise import (
    AUC,
    CollisionEntropy,
    GiniDiversity,
    GiniMeanDifference,
    KendallTau,
    PairKernel,
)
from jaxdp.random import Count
from jaxdp.randomizers import Laplace
from jaxdp.trusted import PairOutcome, PairSampling
from jaxdp.trusted._pair_sources import MatchingSource
from tests import stats

THREE = PairKernel.from_matrix([[0.0, 0.5, 2.0], [0.5, -1.0, 0.5], [2.0, 0.5, 2.0]])


def matchings(users):
    """All maximal matchings of a tuple of users, one of an odd number of whom stays alone."""
    if len(users) < 2:
        return [()]
    first, rest = users[0], users[1:]
    found = []
    for i, partner in enumerate(rest):
        others = rest[:i] + rest[i + 1 :]
        found += [((first, partner), *more) for more in matchings(others)]
    if len(users) % 2:
        found += matchings(rest)
    return [m for m in found if len(m) == len(users) // 2]


def one_matching(protocol, values):
    """The law of the mean debiased report of one matching: pairs (estimate, probability)."""
    p, q = map(float, protocol.randomizer.probabilities())
    matrix = protocol.matrices()[0]
    levels = np.unique(matrix)
    scores = (levels - q * levels.sum()) / (p - q)
    law = []
    joined = matchings(tuple(range(len(values))))
    for matching in joined:
        held = [matrix[values[i], values[j]] for i, j in matching]
        for reports in itertools.product(range(len(levels)), repeat=len(held)):
            chance = math.prod(
                p if levels[r] == v else q for r, v in zip(reports, held, strict=True)
            )
            law.append((np.mean(scores[list(reports)]), chance / len(joined)))
    return np.array(law).T


def test_the_number_of_matchings():
    assert [len(matchings(tuple(range(n)))) for n in (2, 3, 4, 5, 6)] == [1, 3, 3, 15, 15]


@pytest.mark.parametrize(
    ("values", "rounds"), [((0, 2), 1), ((0, 1, 1, 2), 2), ((0, 0, 1, 2, 2), 1)]
)
def test_variance_by_enumeration(values, rounds):
    """Every matching and every vector of reports: unbiased, of exactly the predicted error."""
    protocol = PairSampling(THREE, 2.0, num_permutations=rounds, noise="krr")
    counts = np.bincount(values, minlength=3)
    estimates, chances = one_matching(protocol, values)
    assert chances.sum() == pytest.approx(1)
    mean = chances @ estimates
    spread = chances @ (estimates - mean) ** 2
    assert mean == pytest.approx(protocol.truth(counts), abs=1e-12)
    assert protocol.variance(counts) == pytest.approx(spread / rounds, rel=1e-9)


@pytest.mark.parametrize("num_users", [4, 5])
def test_population_variance_by_enumeration(num_users):
    """Every sample of independent users: the errors about it, and its own about the population."""
    p = np.array([0.2, 0.5, 0.3])
    protocol = PairSampling(THREE, 1.5, num_permutations=2, noise="krr")
    target = protocol.population_truth(p, num_users)
    total = 0.0
    for values in itertools.product(range(3), repeat=num_users):
        counts = np.bincount(values, minlength=3)
        error = protocol.variance(counts) + (protocol.truth(counts) - target) ** 2
        total += np.prod(p[list(values)]) * error
    assert protocol.population_variance(p, num_users) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("noise", ["laplace", "discrete_laplace", "binary", "krr"])
@pytest.mark.parametrize("num_users", [2, 3, 10, 11])
def test_worst_case_bounds_every_data_set(noise, num_users, rng):
    """Random integer kernels, random users; the bound on S is nearly attained by f = x y."""
    for _ in range(20):
        half = np.triu(rng.integers(-1, 3, (3, 3)))
        matrix = half + np.triu(half, 1).T
        if np.ptp(matrix) == 0:
            continue
        protocol = PairSampling(PairKernel.from_matrix(matrix), 3.0, noise=noise)
        counts = rng.multinomial(num_users, rng.dirichlet(np.ones(3)))
        assert protocol.variance(counts) <= protocol.worst_case_variance(num_users) * (1 + 1e-9)
    signs = PairSampling(PairKernel.from_matrix([[1, -1], [-1, 1]]), 16.0, noise=noise)
    assert signs.variance([500, 500]) > 0.98 * signs.worst_case_variance(1000)


def test_the_theorem_of_the_paper():
    """Theorem 5 for f in [0, 1] and even n, but for the noise, whose ends are cut.

    With its noise term doubled the theorem is a bound.
    """
    p = np.array([0.1, 0.4, 0.2, 0.3])
    centred = 1 - np.eye(4) - (1 - p @ p)
    zeta_1, zeta_2 = p @ (centred @ p) ** 2, p @ centred**2 @ p
    for rounds in (1, 3, 9):
        protocol = PairSampling(GiniDiversity(), 0.7, num_values=4, num_permutations=rounds)
        bound = pair_sampling_mse(50, 0.7, rounds, zeta_1=zeta_1, zeta_2=zeta_2)
        report = Laplace(0.7 / rounds, 0.5).variance([1], [0.5])  # of f - 1/2, of either value
        expected = bound - 4 * rounds / (50 * 0.7**2) + 2 * report / (rounds * 50)
        assert expected < bound
        assert protocol.population_variance(p, 50) == pytest.approx(expected, rel=1e-6)


COUNTS = (11, 4, 0, 9, 17)


@functools.cache
def simulated(noise, method):
    protocol = PairSampling(
        GiniMeanDifference(), 6.0, num_values=5, num_permutations=2, noise=noise
    )
    population = jaxdp.Population.from_histogram(COUNTS)
    trials = 3000 if method == "tally" else 300
    key = jax.random.fold_in(jax.random.key(5), len(noise) + (method == "tally"))
    return protocol, jaxdp.simulate(protocol, population, key, num_trials=trials, method=method)


PATHS = [
    (noise, method)
    for noise in ("laplace", "krr", "discrete_laplace", "binary")
    for method in ("per_user", "tally")
]


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "method"), PATHS)
def test_simulated_errors_are_the_predicted_ones(noise, method):
    """An odd number of users, two matchings.

    300 trials user by user see an offset of 0.5 standard deviations and a variance off by a factor
    of two with power 0.999; 3,000 drawn tallies 0.15 and a third.
    """
    protocol, trials = simulated(noise, method)
    variance = protocol.variance(COUNTS)
    estimates = trials.estimates[:, None]
    stats.check_mean(estimates, trials.truth, variance=variance)
    stats.check_variance(estimates, variance, mean=trials.truth, kurtosis=6.0)
    off = 0.8 * np.sqrt(variance)
    stats.must_fail(stats.check_mean, estimates + off, trials.truth, variance=variance)
    stats.must_fail(stats.check_variance, estimates, variance / 3, mean=trials.truth, kurtosis=6.0)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", "krr"])
def test_both_paths_have_one_law(noise):
    one, two = (simulated(noise, method)[1].estimates[:, None] for method in ("per_user", "tally"))
    stats.check_two_samples(one, two)
    stats.must_fail(stats.check_two_samples, one, two + two.std())


@pytest.mark.slow
def test_matchings_of_random_users_share_their_users(key):
    """Margins of every round's table are the users' own counts, also where these are random."""
    population = jaxdp.Population.from_distribution([0.2, 0.3, 0.5], 1000).bind(key)
    held = population.counts().numpy()
    tables = []
    for number in range(2):
        source = MatchingSource(population.source, jax.random.fold_in(key, number))
        table = source.counts().numpy().reshape(3, 3)
        np.testing.assert_array_equal(table.sum(axis=0) + table.sum(axis=1), held)
        tables.append(table)
    assert np.any(tables[0] != tables[1])


@pytest.mark.slow
@pytest.mark.parametrize("num_users", [6, 7])
def test_a_matching_joins_each_user_once(num_users, key):
    """The seven users have different values, so the pairs tell who is in them."""
    users = jaxdp.Population.from_values(np.arange(num_users), num_values=num_users)
    source = MatchingSource(users.source, key)
    first, second = source.at(Count.of(np.arange(num_users // 2)))
    joined = np.concatenate([first, second])
    assert len(set(joined.tolist())) == 2 * (num_users // 2)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["krr", "laplace"])
def test_plug_in_statistics(noise, key):
    """tau_b and the area under the curve: measured errors are those of the linearised statistic.

    2,000 trials with many users: a variance off by a third is detected with power 0.999.
    """
    counts = np.array([[3000, 1000, 500], [200, 1800, 3500]])
    for kernel in (KendallTau(variant="b"), AUC()):
        protocol = PairSampling(
            kernel, 4.0, num_values=(2, 3), num_permutations=2, noise=noise, form="v"
        )
        assert protocol.worst_case_variance(10_000) == math.inf
        population = jaxdp.Population.from_histogram(counts)
        trials = jaxdp.simulate(protocol, population, key, num_trials=2000, method="tally")
        variance = protocol.variance(counts)
        estimates = trials.estimates[:, None]
        stats.check_variance(estimates, variance, mean=trials.truth, kurtosis=6.0)
        stats.must_fail(
            stats.check_variance, estimates, 2 * variance, mean=trials.truth, kurtosis=6.0
        )


def test_the_v_form_is_the_u_form_and_the_diagonal():
    outcome = PairOutcome(Count.of(np.array([13, 37])), Count.of(100))
    for kernel, own in ((GiniDiversity(), 0.0), (PairKernel(lambda x, y: x == y), 1.0)):
        u, v = (PairSampling(kernel, 2.0, 3, noise="krr", form=f) for f in ("u", "v"))
        with jax.enable_x64(True):
            found = [float(p.build().estimate(outcome)) for p in (u, v)]
        assert found[1] == pytest.approx((99 * found[0] + own) / 100)
        assert v.variance([30, 20, 50]) == pytest.approx(0.99**2 * u.variance([30, 20, 50]))
    entropy = PairSampling(CollisionEntropy(), 2.0, num_values=3, noise="krr", form="v")
    assert entropy.truth([30, 20, 50]) == pytest.approx(-np.log(0.38))


@pytest.mark.parametrize("noise", ["laplace", "discrete_laplace", "binary", "krr"])
def test_the_budget_is_kept(noise):
    for epsilon, rounds, delta in itertools.product((0.1, 1.0, 7.0), (1, 3, 10), (0.0, 1e-6)):
        protocol = PairSampling(
            GiniMeanDifference(), epsilon, 3, num_permutations=rounds, noise=noise, delta=delta
        )
        assert 0.99 * epsilon < protocol.exact_epsilon() <= epsilon
        assert protocol.pair_epsilon >= 0.999 * epsilon / rounds
    pure, loose = (PairSampling(THREE, 0.1, num_permutations=100, delta=d) for d in (0.0, 1e-5))
    assert loose.pair_epsilon > 1.5 * pure.pair_epsilon


@pytest.mark.parametrize("noise", ["laplace", "krr"])
@pytest.mark.parametrize("epsilon", [1.0, 6.0, 12.0])
def test_the_best_number_of_matchings(epsilon, noise):
    """No P up to 30 does better, for given users or in the worst case of many."""
    counts = [400, 300, 200, 100]
    protocol = PairSampling(GiniDiversity(), epsilon, 4, noise=noise)
    best = protocol.best_num_permutations(counts)
    for number in range(1, 31):
        errors = [
            PairSampling(GiniDiversity(), epsilon, 4, num_permutations=p, noise=noise).variance(
                counts
            )
            for p in (best, number)
        ]
        assert errors[0] <= errors[1]
    automatic = PairSampling(GiniDiversity(), epsilon, 4, num_permutations=None, noise=noise)
    worst = [
        PairSampling(
            GiniDiversity(), epsilon, 4, num_permutations=p, noise=noise
        ).worst_case_variance(10**8)
        for p in range(1, 31)
    ]
    assert automatic.num_permutations == 1 + np.argmin(worst)
    assert (automatic.num_permutations == 1) == (epsilon == 1.0)


BAD = {
    "kernel": lambda: PairSampling(PairKernel.from_matrix(np.ones((2, 2))), 1.0),
    "epsilon": lambda: PairSampling(THREE, 0.0),
    "num_values": lambda: PairSampling(GiniMeanDifference(), 1.0),
    "num_permutations": lambda: PairSampling(THREE, 1.0, num_permutations=0),
    "num_permutations-tau": lambda: PairSampling(
        KendallTau(variant="b"), 1.0, (2, 2), num_permutations=None
    ),
    "num_permutations-users": lambda: PairSampling(THREE, 1.0, num_permutations=6).variance(
        [2, 2, 2]
    ),
    "num_permutations-population": lambda: jaxdp.run(
        PairSampling(THREE, 1.0, num_permutations=6),
        jaxdp.Population.from_histogram([2, 2, 2]),
        jax.random.key(0),
    ),
    "noise": lambda: PairSampling(THREE, 1.0, noise="gauss"),
    "noise-halves": lambda: PairSampling(THREE, 1.0, noise="discrete_laplace"),
    "noise-tau": lambda: PairSampling(KendallTau(variant="b"), 1.0, (2, 2), noise="binary"),
    "delta": lambda: PairSampling(THREE, 1.0, delta=1.0),
    "form": lambda: PairSampling(THREE, 1.0, form="v"),
    "form-unknown": lambda: PairSampling(THREE, 1.0, form="w"),  # pyright: ignore
    "counts": lambda: PairSampling(THREE, 1.0).variance([1, 2]),
    "inputs": lambda: PairSampling(THREE, 1.0).variance([1, 2, 3], inputs=[1.0]),
    "a group": lambda: PairSampling(THREE, 1.0).check_population(
        jaxdp.Population.from_histogram([4, 4, 4]).split(jax.random.key(0), [0.5, 0.5])[0]
    ),
}


@pytest.mark.parametrize("label", BAD)
def test_bad_input(label):
    with pytest.raises((ValueError, TypeError), match=label.partition("-")[0]):
        BAD[label]()


def test_one_user_makes_no_pair():
    with pytest.raises(ValueError, match="num_users"):
        PairSampling(THREE, 1.0).worst_case_variance(1)
    with pytest.raises(ValueError, match="at least 2 users"):
        PairSampling(THREE, 1.0).check_population(jaxdp.Population.from_histogram([1, 0, 0]))

"""The hierarchical AUC with labels that are not public: law, exact errors, the part of epsilon."""

import functools
import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.pairwise import HierarchicalAUC
from jaxdp.pairwise.auc._label_errors import (
    LevelReports,
    _private_pairs,
    _private_part,
    _randomized_pairs,
    _randomized_part,
    private_bound,
    private_variance,
    randomized_variance,
)
from jaxdp.pairwise.auc._tree_errors import ScoreTree, unpruned_variance
from jaxdp.random import Count
from tests import stats
from tests.marks import slow

BITS = 4

SPECS = {
    "users": HierarchicalAUC(4, 4.0, labels="randomized", threshold=0.0),
    "basic": HierarchicalAUC(3, 4.0, labels="randomized", threshold=0.0, split="basic"),
    "joint": HierarchicalAUC(4, 2.0, labels="private", threshold=0.0),
    "joint-two": HierarchicalAUC(2, 2.0, labels="private", threshold=0.0, ties="zero"),
    "joint-basic": HierarchicalAUC(3, 3.0, labels="private", threshold=0.0, split="basic"),
}


@functools.cache
def law(spec):
    """What a user can report and how often, by value, from all words of 4 bits.

    Returns:
      int[outcomes, ..] and int[2 d, outcomes], and the number of words.
    """
    params = spec.build(BITS)
    words = np.arange(2**BITS)
    rows = np.arange(2 ** (params.height + params.private))
    if spec.split == "users":
        axes = [words, rows, words]
    else:
        axes = [x for level in params.levels for x in (rows[: 2 ** (level + 1)], words)]
    axes += [words] * params.randomized
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    run = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    reports = [
        np.asarray(run(grid.astype(np.uint32), jnp.int32(value)))
        for value in range(2 * spec.num_scores)
    ]
    outcomes = np.unique(np.concatenate(reports), axis=0)
    numbers = np.array([[np.sum(_same(r, outcome)) for outcome in outcomes] for r in reports])
    return outcomes, numbers, len(grid)


def _same(reports, outcome):
    return reports == outcome if outcome.ndim == 0 else np.all(reports == outcome, axis=-1)


def test_privacy_is_that_of_the_enumerated_reports():
    """The largest ratio of two values' probabilities of a report, exact; labels included."""
    for name in ("users", "joint"):
        spec = SPECS[name]
        _, numbers, total = law(spec)
        assert np.all(numbers.sum(axis=1) == total)
        assert numbers.min() > 0
        worst = max(Fraction(int(c.max()), int(c.min())) for c in numbers.T)
        assert math.log(worst) == pytest.approx(spec.exact_epsilon(BITS), abs=1e-12)
    for spec in SPECS.values():
        assert spec.exact_epsilon(BITS) <= spec.epsilon
        assert spec.exact_epsilon() <= spec.epsilon


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("users", (0, 1, 0, 0, 0, 0, 1, 1)),
        ("users", (1, 0, 0, 1, 0, 0, 0, 1)),
        pytest.param("basic", (0, 1, 0, 0, 1, 0), marks=pytest.mark.slow),
        ("joint", (0, 1, 0, 0, 0, 0, 1, 1)),
        ("joint", (1, 0, 0, 1, 0, 0, 0, 1)),
        ("joint-two", (1, 0, 1, 1)),
        pytest.param("joint-basic", (0, 1, 0, 0, 1, 0), marks=pytest.mark.slow),
    ],
)
def test_errors_are_those_of_all_reports(name, counts):
    """All reports of two or three users: the linearised estimate is unbiased, its variance exact.

    Numerator and denominator come from the estimator itself.
    """
    spec = SPECS[name]
    params = spec.build(BITS)
    outcomes, numbers, words = law(spec)
    values = np.repeat(np.arange(2 * spec.num_scores), counts)
    one = jax.jit(jax.vmap(lambda report: params.tally(report[None])))
    singles, n = one(outcomes).numpy(), len(values)
    size = len(outcomes)
    tallies, weights = np.zeros((1, singles.shape[1]), int), np.ones(1)
    for value in values:
        tallies = (tallies[:, None] + singles).reshape(-1, singles.shape[1])
        weights = (weights[:, None] * numbers[value] / words).ravel()
    assert len(weights) == size**n
    estimates = np.asarray(jax.jit(jax.vmap(params.estimate))(Count.of(tallies)), np.float64)
    scale, chances = float(_scale(params.bit_threshold)), params._chances()
    if params.randomized:
        label = _scale(params.label_threshold)
        square, gap = label**2, label * (tallies[:, 3] - tallies[:, 2])
    else:
        square, gap = scale**2 / chances[0], scale / chances[0] * tallies[:, 3]
    pairs = (n**2 - gap**2 + n * (square - 1)) / 4
    ordered = estimates * np.maximum(pairs, n - 1)
    sizes = np.reshape(counts, (2, -1)).sum(axis=1)
    truth = float(spec.truth(counts))
    assert weights @ pairs == pytest.approx(np.prod(sizes))
    assert weights @ ordered == pytest.approx(truth * np.prod(sizes), abs=1e-3)
    expected = weights @ (ordered - truth * pairs) ** 2 / np.prod(sizes) ** 2
    tree = ScoreTree.of(np.reshape(counts, (2, -1)).astype(float), params.height, spec.kernel.tie)
    exclusive = spec.split == "users"
    if params.randomized:
        found = randomized_variance(tree, scale**2 / chances, (square - 1) / 4, exclusive)
    else:
        reports = LevelReports(params.height, scale, chances, exclusive)
        found = private_variance(tree, reports)
        assert found <= private_bound(sizes.astype(float), spec.kernel.tie, reports)
    assert found == pytest.approx(expected, rel=1e-4)


def _scale(threshold):
    """What decodes a sign that is true where a word is below a threshold."""
    return 1 / (2 * int(threshold) / 2**BITS - 1)


@pytest.mark.parametrize("exclusive", [True, False])
def test_known_labels_and_independent_users(exclusive):
    """Without noise on labels it is the public error; independent users are all samples."""
    rng = np.random.default_rng(0)
    per_user = rng.uniform(2, 3, 3)
    tree = ScoreTree.of(rng.integers(1, 9, (2, 6)).astype(float), 3, 0.5)
    public = unpruned_variance(tree, per_user, exclusive) / np.prod(tree.sizes) ** 2
    assert randomized_variance(tree, per_user, 0.0, exclusive) == pytest.approx(public)
    chances = np.array([0.3, 0.4, 0.3]) if exclusive else np.ones(3)
    reports = LevelReports(2, 1.7, chances, exclusive)
    per_user, kappa = per_user[:2], 1.5

    def randomized(tree, area):
        _, spread = _randomized_part(tree, area, per_user, kappa, exclusive, among=True)
        return np.sum(tree.levels[-1] * spread) + _randomized_pairs(tree, area, per_user, kappa)

    def private(tree, area):
        mean, second = _private_part(tree, area, reports)
        return np.sum(tree.levels[-1] * (second - mean**2)) + _private_pairs(tree, area, reports)

    found = randomized_variance(_EXPECTED, per_user, kappa, exclusive, iid=True)
    assert found == pytest.approx(_over_samples(randomized))
    assert private_variance(_EXPECTED, reports, iid=True) == pytest.approx(_over_samples(private))


_SHARES, _USERS = np.array([[0.1, 0.3, 0.1], [0.2, 0.1, 0.2]]), 3
_EXPECTED = ScoreTree.of(_USERS * _SHARES, 2, 0.5)


def _over_samples(noise):
    """The mean squared error about the population's area, over all samples of users.

    Args:
      noise: (tree of a sample, area) -> the variance of numerator less area times denominator.
    """
    negative, positive = _SHARES / _SHARES.sum(axis=1, keepdims=True)
    area, total = positive @ (np.cumsum(negative) - negative / 2), 0.0
    for cells in itertools.product(range(6), repeat=_USERS):
        table = np.bincount(cells, minlength=6).reshape(2, 3).astype(float)
        tree = ScoreTree.of(table, 2, 0.5)
        bias = float(tree.below()[0][0]) - area * np.prod(tree.sizes)
        total += np.prod(_SHARES.ravel()[list(cells)]) * (noise(tree, area) + bias**2)
    return total / (_USERS * (_USERS - 1) * np.prod(_SHARES.sum(axis=1))) ** 2


def test_predictions_and_the_part_for_labels():
    """The worst case is above; the part is a minimiser; joint reports are better below 4."""
    uniform = np.repeat([62, 94], 64)
    apart = np.zeros(128, np.int64)
    apart[[0, 127]] = 4000, 6000
    for epsilon in (1.0, 6.0):
        joint = HierarchicalAUC(64, epsilon, labels="private", threshold=0.0)
        worst = joint.worst_case_variance(10_000, 6000)
        assert float(joint.variance(uniform)) < float(joint.variance(apart)) <= worst
        assert worst < 3 * float(joint.variance(apart))
        spec = HierarchicalAUC(64, epsilon, labels="randomized", threshold=0.0)
        worst = spec.worst_case_variance(10_000, 6000)
        assert float(spec.variance(uniform)) < float(spec.variance(apart)) <= worst
        assert worst < 3 * float(spec.variance(apart))
        assert worst <= spec.worst_case_variance(10_000)
        assert (joint.variance(apart) < spec.variance(apart)) == (epsilon < 4)

        def cost(spec):
            return spec.count_variance * (1 + 2 * spec.label_variance)

        assert spec.label_epsilon is not None
        for factor in (0.95, 1.05):
            part = spec.label_epsilon * factor
            other = HierarchicalAUC(64, epsilon, labels="randomized", label_epsilon=part)
            assert cost(spec) < cost(other)
    for labels in ("private", "randomized"):
        pruned = HierarchicalAUC(64, 1.0, labels=labels)
        assert pruned.variance(apart) < pruned.worst_case_variance(10_000) == math.inf


@pytest.mark.slow
def test_drawn_tallies_have_the_predicted_error(key):
    """2,000 trials of 4,000 users: offsets of a quarter in the variance are seen."""
    spec = HierarchicalAUC(2, 4.0, labels="randomized", threshold=0.0)
    counts = np.array([1500, 500, 700, 1300])
    population = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, population, key, num_trials=2000, method="tally")
    expected, errors = float(spec.variance(counts)), trials.errors.ravel()
    stats.check_mean(errors, 0.0, variance=1.1 * expected)
    stats.check_variance(errors, expected, mean=0.0, kurtosis=6.0)
    stats.must_fail(stats.check_variance, 1.5 * errors, expected, mean=0.0, kurtosis=6.0)


@pytest.mark.slow
@pytest.mark.parametrize("split", ["users", "basic"])
@pytest.mark.parametrize("threshold", [0.0, "optimal"])
def test_both_paths_share_a_law(split, threshold, key):
    """Two samples of 2,000: a Kolmogorov distance of 0.16 is seen with power 0.999."""
    spec = HierarchicalAUC(4, 5.0, labels="randomized", split=split, threshold=threshold)
    population = jaxdp.Population.from_histogram(np.array([6, 2, 1, 1, 1, 2, 3, 8]) * 200)
    one, two = (
        jaxdp.simulate(spec, population, jax.random.fold_in(key, i), num_trials=2000, method=m)
        for i, m in enumerate(("per_user", "tally"))
    )
    stats.check_two_samples(one.estimates, two.estimates)
    spread = 0.5 * two.estimates.std()
    stats.must_fail(stats.check_two_samples, one.estimates, two.estimates + spread)


def test_bad_parts():
    with pytest.raises(ValueError, match="label_epsilon must be None for labels = 'public'"):
        HierarchicalAUC(4, 1.0, label_epsilon=0.5)
    with pytest.raises(ValueError, match="label_epsilon"):
        HierarchicalAUC(4, 1.0, labels="randomized", label_epsilon=1.0)


@pytest.mark.parametrize("labels", [slow("public"), slow("randomized"), "private"])
def test_plausible_users_are_the_users_where_there_is_no_noise(labels):
    spec = HierarchicalAUC(5, 16.0, labels=labels, threshold=0.0)
    counts = np.array([3, 0, 5, 1, 2, 0, 4, 2, 2, 7]) * 10**8
    tally = jax.jit(spec.built.sample_tally)(jax.random.key(0), Count.of(counts))
    found = np.asarray(spec.built.plausible_users(tally))
    np.testing.assert_allclose(found.ravel(), counts, atol=1e-3 * counts.sum())
    np.testing.assert_allclose(found.sum(), counts.sum(), rtol=1e-12)
    assert np.all(found >= 0)


def test_plausible_users_are_spread_evenly_where_all_is_noise():
    spec = HierarchicalAUC(5, 0.5, threshold=0.0)
    tally = spec.built.sample_tally(jax.random.key(0), Count.of(np.array([9, 0, 0, 0, 0] * 2)))
    np.testing.assert_allclose(spec.built.plausible_users(tally), np.full((2, 5), 9 / 5))


@pytest.mark.parametrize("labels", [slow("public"), "private"])
def test_errors_of_pruned_trees_are_reported(labels):
    spec = HierarchicalAUC(4, 2.0, labels=labels)
    counts = np.array([300, 400, 200, 100, 100, 150, 300, 450])
    n, params = int(counts.sum()), spec.built
    users = jaxdp.Population.from_histogram(counts)
    measured = jaxdp.simulate(spec, users, jax.random.key(3), num_trials=400, method="tally").mse
    for seed in range(3):
        tally = params.sample_tally(jax.random.key(seed), Count.of(counts))
        assert 0.5 < float(spec.reported_variance(tally, n)) / measured < 2


@pytest.mark.parametrize("labels", ["public", "private"])
@pytest.mark.parametrize("threshold", [slow(0.0), "optimal"])
def test_errors_of_one_user_are_not_known(labels, threshold):
    spec = HierarchicalAUC(2, 2.0, labels=labels, threshold=threshold)
    tally = spec.built.sample_tally(jax.random.key(0), Count.of(np.array([0, 0, 1, 0])))
    assert spec.reported_variance(tally, 1) is None


def test_errors_of_users_of_one_label_are_not_known():
    spec = HierarchicalAUC(2, 2.0, threshold=0.0)
    tally = spec.built.sample_tally(jax.random.key(0), Count.of(np.array([0, 0, 9, 5])))
    assert spec.reported_variance(tally, 14) is None

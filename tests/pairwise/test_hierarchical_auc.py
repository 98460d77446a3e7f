"""The hierarchical AUC: law of a report, the walk, exact and bounded errors."""

import dataclasses
import functools
import itertools
import math
import warnings
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.pairwise import AUC, HierarchicalAUC
from jaxdp.pairwise.auc._pruned_errors import _recursed, pruned_error
from jaxdp.pairwise.auc._tree_errors import ScoreTree, sampling_variance, unpruned_variance
from jaxdp.random import Count
from tests import stats
from tests.marks import slow

UNIFORM = np.concatenate([np.full(64, 62), np.full(64, 94)]) + np.eye(128, dtype=int)[[0, 64]].T @ [
    32,
    -16,
]
APART = np.zeros(128, np.int64)
APART[[0, 127]] = 4000, 6000


def law(protocol, word_bits=8):
    """The number of words that lead to each report, by value, on each level: exact enumeration.

    Returns:
      int[levels, 2 d, 2 num_slots], and the number of words of each level.
    """
    params = protocol.build(word_bits)
    rows = np.arange(2 ** (params.height + 1))
    words = np.arange(2**word_bits)
    if protocol.split == "users":
        grid = np.stack(np.meshgrid(words, rows, words, indexing="ij"), axis=-1).reshape(-1, 3)
    else:
        grid = np.stack(np.meshgrid(rows, words, indexing="ij"), axis=-1).reshape(-1, 2)
        grid = np.tile(grid, len(params.levels))
    run = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    found = []
    for value in range(2 * protocol.num_scores):
        reports = np.asarray(run(grid.astype(np.uint32), jnp.int32(value)))
        reports = reports.reshape(len(grid), -1)
        found.append([np.bincount(column, minlength=2 * params.num_slots) for column in reports.T])
    return params, np.array(found), len(grid)


@functools.cache
def moments(protocol):
    """Mean and covariance of one user's estimated counts of all nodes, by value, from the law."""
    params, numbers, total = law(protocol)
    groups = numbers.shape[1]
    size = params.num_slots
    with jax.enable_x64(True):
        unit = Count.of(np.eye(size, dtype=np.int64))
        decode = [
            jax.vmap(lambda t, level=level: params.counts(t, level).ravel())(unit)
            for level in range(1, params.height + 1)
        ]
        decoder = np.concatenate([np.asarray(x) for x in decode], axis=1)  # slots x nodes
    rows = np.concatenate([decoder, -decoder])  # the report 2 slot + bit at place slot + size bit
    place = np.concatenate([np.arange(0, 2 * size, 2), np.arange(1, 2 * size, 2)])
    means, covariances = [], []
    for value in range(len(numbers)):
        mean, covariance = 0.0, 0.0
        for group in range(groups):
            p = numbers[value, group][place] / total
            own = p @ rows
            mean = mean + own
            covariance = covariance + (rows.T * p) @ rows - np.outer(own, own)
        means.append(mean)
        covariances.append(covariance)
    return np.array(means), np.array(covariances)


def nodes_of(height):
    """The position of (level, label, node) in the vector of `moments`."""
    index, place = {}, 0
    for level in range(1, height + 1):
        for label, node in itertools.product((0, 1), range(2**level)):
            index[level, label, node] = place
            place += 1
    return index, place


def bilinear_form(height, tie):
    """M with unpruned pairs = (positive counts)^T M (negative counts), from the definition."""
    index, size = nodes_of(height)
    form = np.zeros((size, size))
    for level in range(1, height + 1):
        for node in range(0, 2**level, 2):
            form[index[level, 1, node + 1], index[level, 0, node]] = 1.0
    for node in range(2**height):
        form[index[height, 1, node], index[height, 0, node]] = tie
    return form


SPECS = {
    "users": HierarchicalAUC(4, 1.0, threshold=0.0),
    "users-odd": HierarchicalAUC(3, 0.7, threshold=0.0, ties="zero"),
    "basic": HierarchicalAUC(4, 1.0, threshold=0.0, split="basic"),
}


@pytest.mark.parametrize("name", SPECS)
def test_the_unpruned_variance_is_that_of_the_enumerated_reports(name):
    """Every report of every value: unbiased counts, and the variance of the bilinear form."""
    spec = SPECS[name]
    twin = spec.build(8)
    means, covariances = moments(spec)
    index, _ = nodes_of(spec.height)
    for value in range(2 * spec.num_scores):
        label, score = divmod(value, spec.num_scores)
        for (level, side, node), place in index.items():
            inside = side == label and score >> (spec.height - level) == node
            assert means[value, place] == pytest.approx(float(inside), abs=1e-9)
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 9, 2 * spec.num_scores)
    form = bilinear_form(spec.height, 0.5 if spec.ties == "half" else 0.0)
    table = counts.reshape(2, -1)
    sides = []
    for label in (0, 1):
        part = slice(label * spec.num_scores, (label + 1) * spec.num_scores)
        mean = table[label] @ means[part]
        sides.append((mean, np.tensordot(table[label], covariances[part], axes=1)))
    (low, of_low), (high, of_high) = sides
    slope_low, slope_high = high @ form, form @ low
    expected = slope_low @ of_low @ slope_low + slope_high @ of_high @ slope_high
    expected += np.sum((form.T @ of_high @ form) * of_low)
    pairs = table[0].sum() * table[1].sum()
    assert high @ form @ low / pairs == pytest.approx(float(spec.truth(counts)))
    twin_spread = (1 / (2 * int(twin.bit_threshold) / 256 - 1)) ** 2 / twin._chances()
    tree = ScoreTree.of(table.astype(float), spec.height, 0.5 if spec.ties == "half" else 0.0)
    found = unpruned_variance(tree, twin_spread, spec.split == "users")
    assert found == pytest.approx(expected, rel=1e-9)
    assert float(spec.variance(counts)) == pytest.approx(expected / pairs**2, rel=0.05)


def test_the_mean_over_samples_of_the_variance_is_exact():
    """Population errors: all samples of two negative and three positive users, enumerated."""
    p = np.array([[0.5, 0.2, 0.3], [0.1, 0.6, 0.3]])
    spec = HierarchicalAUC(3, 1.0, threshold=0.0)
    total, area, square = 0.0, 0.0, 0.0
    for scores in itertools.product(range(3), repeat=5):
        weight = np.prod([p[int(i >= 2), s] for i, s in enumerate(scores)])
        counts = np.zeros((2, 3), np.int64)
        np.add.at(counts, ([0, 0, 1, 1, 1], list(scores)), 1)
        truth = float(spec.truth(counts))
        total += weight * float(spec.variance(counts))
        area, square = area + weight * truth, square + weight * truth**2
    shares = (p * np.array([[0.4], [0.6]])).ravel()
    assert float(spec.population_truth(shares, 5)) == pytest.approx(area)
    found = float(spec.population_variance(shares, 5))
    assert found == pytest.approx(total + square - area**2, rel=1e-9)
    tree = ScoreTree.of(p * np.array([[2], [3]]), 2, 0.5)
    assert sampling_variance(tree) == pytest.approx(square - area**2)


@pytest.mark.parametrize(
    "spec",
    [
        HierarchicalAUC(4, 1.0),
        HierarchicalAUC(4, 1.0, labels="private"),
        HierarchicalAUC(3, 1.0, split="basic"),
    ],
)
def test_privacy_is_that_of_the_enumerated_reports(spec):
    """The largest ratio of two values' probabilities of a report, exact; labels only if private."""
    _, numbers, total = law(spec)
    d = spec.num_scores
    classes = [numbers] if spec.labels == "private" else [numbers[:d], numbers[d:]]
    worst = Fraction(1)
    for group in range(numbers.shape[1]):
        largest = Fraction(1)
        for side in classes:
            own = side[:, group]
            assert np.all(own.sum(axis=1) == total)
            seen = own[:, own.max(axis=0) > 0]
            assert seen.min() > 0
            largest = max(largest, *(Fraction(int(c.max()), int(c.min())) for c in seen.T))
        worst *= largest
    assert math.log(worst) == pytest.approx(spec.exact_epsilon(8), abs=1e-12)
    assert spec.exact_epsilon(8) <= 1.0
    assert spec.exact_epsilon() <= 1.0


def recursive(spec, counts, sizes, spreads, product):
    """Equation (10), node by node; `counts[label][level][node]`."""
    a = spec.threshold_for(int(sizes[0]), int(sizes[1]))
    tau = a * math.sqrt(spreads[0] * spreads[1])

    def walk(level, node):
        held = [counts[label][level][node] for label in (0, 1)]
        if level == spec.height:
            return held[0] * held[1] / 2 if spec.ties == "half" else 0.0
        reckoned = [max(h, math.sqrt(a * v) / 2) for h, v in zip(held, spreads, strict=True)]
        below = [[counts[label][level + 1][2 * node + i] for i in (0, 1)] for label in (0, 1)]
        if reckoned[0] * reckoned[1] < tau:
            return sum(below[0]) * sum(below[1]) / 2 if spec.discarded == "half" else 0.0
        return below[1][1] * below[0][0] + walk(level + 1, 2 * node) + walk(level + 1, 2 * node + 1)

    return walk(0, 0) / product


@pytest.mark.parametrize(
    ("threshold", "discarded", "ties"),
    [
        ("paper", "half", "zero"),
        ("optimal", "zero", "half"),
        (0.05, "half", "half"),
        (0.05, "zero", "zero"),
        (0.0, "half", "half"),
    ],
)
def test_the_walk_is_equation_10(threshold, discarded, ties):
    spec = HierarchicalAUC(16, 2.0, threshold=threshold, discarded=discarded, ties=ties)
    params = spec.build()
    rng = np.random.default_rng(5)
    signs = rng.integers(-40, 60, params.num_slots)
    signs[2:4] = 4000, 3000
    tally = Count.of(signs)
    with jax.enable_x64(True):
        levels = [np.asarray(params.counts(tally, level)) for level in range(1, 5)]
        found = float(params.estimate(tally))
        _, product, spreads = params._classes(tally[2:4].f64())
    counts = [[np.array([n]), *(x[label] for x in levels)] for label, n in enumerate((4000, 3000))]
    expected = recursive(spec, counts, (4000, 3000), np.asarray(spreads), float(product))
    assert found == pytest.approx(expected, rel=1e-9)


def test_thresholds():
    """The rules solve the equation of the minimiser, or the first step of it."""
    spec = HierarchicalAUC(2**10, 1.0)
    v = spec.count_variance
    root = math.sqrt(spec.threshold_for(3000, 9000))
    assert root * (root - 1) ** 2 == pytest.approx(21 / 8 * math.sqrt(2 * 12000 * v) / 3000)
    paper = HierarchicalAUC(2**10, 1.0, threshold="paper", discarded="zero")
    root = math.sqrt(paper.threshold_for(3000, 9000))
    assert (root - 1) ** 2 == pytest.approx(math.sqrt(2 * 12000 * v) / 3000 / 16)
    assert HierarchicalAUC(8, 1.0, threshold=2.5).threshold_for(1, 1) == 2.5


def test_errors_are_the_published_ones():
    """d = 64, epsilon = 1, 4,000 and 6,000 users: 0.007 for uniform scores, 0.07 for auc_one."""
    spec = HierarchicalAUC(64, 1.0, threshold=0.0, ties="zero")
    assert UNIFORM[:64].sum() == 4000
    assert UNIFORM[64:].sum() == 6000
    assert 0.0065 < float(spec.variance(UNIFORM)) < 0.008
    assert 0.065 < float(spec.variance(APART)) < 0.075


def test_the_bound_is_above_the_error_and_grows_with_what_is_unknown():
    for split in ("users", "basic"):
        exact = HierarchicalAUC(64, 1.0, threshold=0.0, split=split)
        pruned = HierarchicalAUC(64, 1.0, threshold=1e-9, split=split)
        for counts in (UNIFORM, APART):
            worst = pruned.worst_case_variance(10_000, 6000)
            assert float(exact.variance(counts)) <= worst <= pruned.worst_case_variance(10_000)
            rule = HierarchicalAUC(64, 1.0, split=split)
            assert float(rule.variance(counts)) <= rule.worst_case_variance(10_000, 6000)


@pytest.mark.parametrize("labels", ["public", "randomized", "private"])
@pytest.mark.parametrize("split", ["users", "basic"])
@pytest.mark.parametrize("ties", ["half", "zero"])
def test_the_plug_in_is_exact_where_nothing_is_discarded(labels, split, ties, rng):
    """The formulas of both files, for users of all kinds, given and independent."""
    spec = HierarchicalAUC(24, 2.0, labels=labels, split=split, ties=ties, threshold=0.0)
    for shares in (np.eye(48)[3] + np.eye(48)[40], np.arange(48) ** 2, np.ones(48)):
        table = rng.multinomial(10**5, shares / shares.sum()).reshape(2, 24) * 1.0
        tree = ScoreTree.of(table, spec.height, spec.kernel.tie)
        law = spec._count_law(tree.sizes, spec._reports())
        for iid in (False, True):
            exact = spec._error(table, iid)
            assert pruned_error(tree, law, iid) == pytest.approx(exact, rel=2e-3)
    wrong = dataclasses.replace(law, spreads=1.01 * law.spreads)  # the control
    assert pruned_error(tree, wrong) != pytest.approx(spec._error(table, False), rel=5e-3)


def test_recursions_are_those_of_normal_counts(rng):
    """The probability, and covariances with both counts, by a million draws."""
    spec = HierarchicalAUC(64, 1.0, labels="randomized", threshold=0.3)
    sizes = np.array([4000.0, 6000.0])
    law = spec._count_law(sizes, spec._reports())
    counts = np.array([[0.0, 500.0, 3000.0], [0.0, 2000.0, 6000.0]])
    noise, both = law.spreads[2][:, None] - counts, law.covariances[2]
    chance, linked = _recursed(counts, noise, both, law)
    for i in range(3):
        cov = np.diag(noise[:, i]) + both * (1 - np.eye(2))
        x = rng.multivariate_normal(counts[:, i], cov, size=10**6)
        deeper = np.prod(np.maximum(x, law.least), axis=1) >= law.tau
        stats.check_proportion(int(deeper.sum()), 10**6, chance[i])
        found = (x - counts[:, i]).T @ deeper / 1e6
        np.testing.assert_allclose(linked[:, i], found, atol=0.005 * np.sqrt(noise[:, i]).max())


@pytest.mark.parametrize("labels", [slow("public"), slow("randomized"), "private"])
@pytest.mark.parametrize(
    "options", [{}, slow({"split": "basic"}), slow({"discarded": "zero", "threshold": "paper"})]
)
@pytest.mark.parametrize("counts", [UNIFORM, slow(APART)], ids=["uniform", "auc_one"])
def test_pruned_errors_are_predicted(counts, options, labels, key):
    """2,000 tallies; the bound that this replaced was 7 times the error, or inf."""
    spec: Any = HierarchicalAUC(64, 3.0, labels=labels, **options)
    assert spec.variance_kind == "delta"
    users = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, users, key, num_trials=2000, method="tally")
    predicted, errors = float(spec.variance(counts)), trials.errors.ravel()
    stats.check_variance(errors, predicted, mean=0.0, kurtosis=6.0)
    stats.must_fail(stats.check_variance, 1.5 * errors, predicted, mean=0.0, kurtosis=6.0)


def test_splits_of_the_budget():
    basic = HierarchicalAUC(2**12, 1.0, split="basic")
    assert basic.level_epsilon == pytest.approx(1 / 12)
    assert basic.exact_delta() == 0
    for split in ("advanced", "optimal"):
        spec = HierarchicalAUC(2**20, 1.0, split=split, delta=1e-6)
        assert spec.exact_epsilon() <= 1.0
        assert spec.exact_delta() == 1e-6
    assert HierarchicalAUC(2**12, 1.0, labels="private").num_levels == 13


@functools.cache
def estimates(spec, method, counts=(60, 20, 5, 15, 10, 20, 30, 80)):
    """Estimates of 2,000 trials for a few hundred users."""
    population = jaxdp.Population.from_histogram(np.array(counts) * 20)
    key = jax.random.fold_in(jax.random.key(3), method == "tally")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return jaxdp.simulate(spec, population, key, num_trials=2000, method=method)


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["private", "public"])
@pytest.mark.parametrize("split", ["users", "basic"])
def test_paths_agree_with_private_labels_and_pruning(labels, split):
    """Two samples of 2,000: a Kolmogorov distance of 0.16 is seen with power 0.999."""
    spec = HierarchicalAUC(4, 3.0, labels=labels, split=split)
    one, two = (estimates(spec, m) for m in ("per_user", "tally"))
    stats.check_two_samples(one.estimates, two.estimates)
    stats.must_fail(
        stats.check_two_samples, one.estimates, two.estimates + 0.5 * two.estimates.std()
    )


@pytest.mark.slow
def test_private_labels_are_consistent():
    """The bias of the ratio is of the order of its variance."""
    spec = HierarchicalAUC(4, 3.0, labels="private", threshold=0.0)
    trials = estimates(spec, "tally")
    assert abs(trials.bias) < 5 * trials.mse + 5 * float(np.std(trials.estimates)) / 2000**0.5


@pytest.mark.slow
@pytest.mark.parametrize("counts", [UNIFORM, APART], ids=["uniform", "auc_one"])
def test_pruned_errors_are_the_published_ones(counts, key):
    """By simulation: 0.0055 to 0.008, and 0.06 to 0.085, and below the bound."""
    spec = HierarchicalAUC(64, 1.0, ties="zero")
    population = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, population, key, num_trials=1000, method="per_user")
    low, high = (0.0055, 0.0085) if counts is UNIFORM else (0.06, 0.085)
    assert low < trials.mse < high
    assert trials.mse < spec.worst_case_variance(10_000, 6000)


def test_bad_populations():
    spec = HierarchicalAUC(4, 1.0)
    with pytest.raises(ValueError, match="both labels"):
        spec.truth([1, 2, 3, 4, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="8 entries"):
        spec.variance([1, 2, 3, 4])
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="both labels"):
        jaxdp.run(spec, jaxdp.Population.from_histogram([0, 0, 0, 0, 1, 2, 3, 4]), key)
    with pytest.raises(ValueError, match="2 \\* num_scores = 8"):
        jaxdp.run(spec, jaxdp.Population.from_histogram([5, 5, 5]), key)
    unbalanced = jaxdp.Population.from_histogram([9000, 0, 0, 0, 0, 0, 0, 7])
    with pytest.warns(UserWarning, match="smaller class has 7 users, fewer than 9"):
        spec.check_population(unbalanced)
    distribution = jaxdp.Population.from_distribution([0.5, 0, 0, 0, 0, 0, 0.5, 0], 1000)
    spec.check_population(distribution)


def test_the_kernel_is_the_auc():
    """The target is the area of the plain kernel, for given users and for a distribution."""
    spec = HierarchicalAUC(3, 1.0, ties="zero")
    counts = np.array([3, 1, 2, 1, 4, 2])
    assert float(spec.truth(counts)) == AUC("zero").of_counts(counts.reshape(2, 3))
    shares = counts / counts.sum()
    half = HierarchicalAUC(3, 1.0)
    expected = AUC().of_distribution(shares.reshape(2, 3))
    assert float(half.population_truth(shares, 9)) == pytest.approx(expected)

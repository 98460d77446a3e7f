"""The hierarchical AUC whose users are dealt evenly over the levels."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.pairwise import Grid, HierarchicalAUC, OnGrid, ProductGrid
from jaxdp.pairwise.auc._hierarchical_auc import square_scale
from jaxdp.pairwise.auc._hierarchical_auc_even import dealt_out
from jaxdp.pairwise.auc._pruned_errors import pruned_error
from jaxdp.pairwise.auc._tree_errors import ScoreTree, even_variance
from jaxdp.random import Count
from jaxdp.trusted import Shuffled
from tests import stats
from tests.pairwise.test_hierarchical_auc import bilinear_form, nodes_of

SMALL = HierarchicalAUC(3, 1.0, split="even", threshold=0.0)


def of_class(spec, label, scores):
    """Mean and covariance of the estimated counts of all nodes, by enumeration of all deals."""
    height, n = spec.height, len(scores)
    index, size = nodes_of(height)
    groups = [(n + height - 1 - place) // height for place in range(height)]
    scale = square_scale(spec._bit)
    nodes = np.zeros((n, height), int)  # of each user on each level
    for level in range(1, height + 1):
        nodes[:, level - 1] = [index[level, label, score >> (height - level)] for score in scores]
    means, within = [], np.zeros((size, size))
    deals = [
        deal
        for deal in itertools.product(range(height), repeat=n)
        if [deal.count(place) for place in range(height)] == groups
    ]
    for deal in deals:
        mean = np.zeros(size)
        for user, place in enumerate(deal):
            weight = n / groups[place]
            mean[nodes[user, place]] += weight
            # One report: the mean is the indicator e of the node, second moments c**2 I.
            level = [index[place + 1, label, node] for node in range(2 ** (place + 1))]
            within[level, level] += weight**2 * scale / len(deals)
            within[nodes[user, place], nodes[user, place]] -= weight**2 / len(deals)
        means.append(mean)
    between = np.cov(np.array(means).T, ddof=0)
    return np.mean(means, axis=0), within + between


@pytest.mark.parametrize("ties", ["half", "zero"])
@pytest.mark.parametrize("num_scores", [2, 4, 7])
def test_the_variance_is_that_of_all_deals(num_scores, ties, rng):
    """Of 4 and 6 users, whose groups are of different sizes: unbiased, and the exact variance."""
    spec = dataclasses.replace(SMALL, num_scores=num_scores, ties=ties, epsilon=2.0)
    scores = rng.integers(0, num_scores, 4), rng.integers(0, num_scores, 6)
    counts = np.stack([np.bincount(s, minlength=num_scores) for s in scores])
    form = bilinear_form(spec.height, spec.kernel.tie)
    (low, of_low), (high, of_high) = (of_class(spec, label, s) for label, s in enumerate(scores))
    assert high @ form @ low / 24 == pytest.approx(float(spec.truth(counts.ravel())))
    slope_low, slope_high = high @ form, form @ low
    expected = slope_low @ of_low @ slope_low + slope_high @ of_high @ slope_high
    expected += np.sum((form.T @ of_high @ form) * of_low)
    assert float(spec.variance(counts.ravel())) == pytest.approx(expected / 24**2, rel=1e-9)


def test_the_mean_over_samples_of_the_variance_is_exact():
    """Population errors: all samples of two negative and four positive users, enumerated."""
    p = np.array([[0.5, 0.2, 0.3], [0.1, 0.6, 0.3]])
    total, area, square = 0.0, 0.0, 0.0
    for scores in itertools.product(range(3), repeat=6):
        weight = np.prod([p[int(i >= 2), s] for i, s in enumerate(scores)])
        counts = np.zeros((2, 3), np.int64)
        np.add.at(counts, ([0, 0, 1, 1, 1, 1], list(scores)), 1)
        truth = float(SMALL.truth(counts))
        total += weight * float(SMALL.variance(counts))
        area, square = area + weight * truth, square + weight * truth**2
    shares = (p * np.array([[1 / 3], [2 / 3]])).ravel()
    found = float(SMALL.population_variance(shares, 6))
    assert found == pytest.approx(total + square - area**2, rel=1e-9)


APART = np.zeros(8, np.int64)
APART[[0, 7]] = 300, 601


@pytest.mark.parametrize("method", ["tally", "per_user"])
def test_nothing_comes_from_how_many_are_on_a_level(method, key):
    """Classes that part at the root, at a large epsilon: levels by chance have 1.5 times this."""
    even, chance = (
        HierarchicalAUC(4, 9.0, split=split, threshold=0.0, ties="zero")
        for split in ("even", "users")
    )
    predicted, other = float(even.variance(APART)), float(chance.variance(APART))
    assert other == pytest.approx(1.5 * predicted, rel=0.01)  # (alpha + 1) / alpha
    users = jaxdp.Population.from_histogram(APART)
    trials = jaxdp.simulate(even, users, key, num_trials=5000, method=method)
    errors = trials.errors.ravel()
    stats.check_variance(errors, predicted, mean=0.0, kurtosis=6.0)
    stats.must_fail(stats.check_variance, errors, other, mean=0.0, kurtosis=6.0)


def slots_of(spec, counts, key):
    """The slots of the users of one deal, int32[n]."""
    users = dealt_out(spec._tree_params(), key, jaxdp.Population.from_histogram(counts))
    number = int(users.source.size)
    return np.asarray(users.source.at(Count.of(np.arange(number))))


def test_users_are_dealt_evenly(key):
    """All users are dealt, as many of each class to each level, and at their nodes."""
    spec = HierarchicalAUC(6, 1.0, split="even")
    counts = np.array([5, 0, 3, 1, 1, 1, 7, 7, 0, 2, 0, 0])
    slots = slots_of(spec, counts, key)
    assert slots.size == counts.sum()
    spec._check_dealt(slots)
    with pytest.raises(ValueError, match="spread evenly"):
        spec._check_dealt(np.where(slots == slots[0], slots[-1], slots))
    levels = np.frexp(slots)[1] - 2
    for level in (1, 2, 3):
        held = np.bincount(slots[levels == level], minlength=64)
        for label in (0, 1):
            below = np.pad(counts[6 * label : 6 * label + 6], (0, 2)).reshape(2**level, -1).sum(1)
            first = 2 ** (level + 1) + (label << level)
            assert np.all(held[first : first + 2**level] <= below)
        # Leaves of one level's users: the classes have 11 and 16.
        assert [held[2 ** (level + 1) + (i << level) :][: 2**level].sum() for i in (0, 1)] == [
            (11 + 3 - level) // 3,
            (16 + 3 - level) // 3,
        ]


def test_all_deals_are_equally_likely(key):
    """Three users of different scores: any two are on the first level, one in three times."""
    spec = HierarchicalAUC(4, 1.0, split="even")
    counts = np.array([1, 0, 1, 1, 0, 3, 0, 0])

    @jax.vmap
    def alone(key):  # the leaf of the one negative user on the second level
        users = dealt_out(spec._tree_params(), key, jaxdp.Population.from_histogram(counts))
        return jnp.argmax(users.source.counts().lo[8:12])

    found = np.bincount(np.asarray(jax.jit(alone)(jax.random.split(key, 5000))), minlength=4)
    stats.check_multinomial(found[[0, 2, 3]], np.full(3, 1 / 3))
    assert found[1] == 0
    stats.must_fail(stats.check_multinomial, found[[0, 2, 3]] + [0, 0, 600], np.full(3, 1 / 3))


@pytest.mark.parametrize("threshold", [0.2, 0.0])
def test_reports_lead_to_the_estimate_of_a_run(threshold, key, rng):
    """From reports themselves, also in little memory; other numbers on the levels are refused."""
    spec = HierarchicalAUC(12, 3.0, split="even", threshold=threshold)
    tree = spec._tree_params()
    slots = slots_of(spec, rng.integers(0, 200, 24), key)
    words = rng.integers(0, 2**32, (slots.size, tree.num_words), np.uint32)
    reports = np.asarray(jax.jit(jax.vmap(tree.from_bits))(words, slots))
    found = spec.estimate_reports(reports)
    with jax.enable_x64(True):
        assert found == pytest.approx(float(tree.estimate(tree.tally(jnp.asarray(reports)))), 1e-6)
    if threshold:
        small = dataclasses.replace(spec, memory=1024)
        assert small.estimate_reports(reports) == pytest.approx(found, 1e-5)
    with pytest.raises(ValueError, match="spread evenly"):
        spec.estimate_reports(np.append(reports, [reports[0]] * 5))


def test_the_report_of_a_level_is_private():
    """All 2**8 words and rows of all levels and labels: the ratio of two nodes' probabilities."""
    spec = HierarchicalAUC(4, 1.0, split="even")
    tree = spec._tree_params(8)
    grid = np.stack(np.meshgrid(np.arange(8), np.arange(256), indexing="ij"), -1).reshape(-1, 2)
    run = jax.jit(jax.vmap(tree.from_bits, in_axes=(0, None)))
    worst = 1.0
    for level, label in itertools.product((1, 2), (0, 1)):
        first = 2 ** (level + 1) + (label << level)
        seen = np.array(
            [
                np.bincount(
                    np.asarray(run(grid.astype(np.uint32), jnp.int32(slot))),
                    minlength=2 * tree.num_slots,
                )
                for slot in range(first, first + 2**level)
            ]
        )
        seen = seen[:, seen.max(axis=0) > 0]
        assert seen.min() > 0
        worst = max(worst, (seen.max(axis=0) / seen.min(axis=0)).max())
    assert math.log(worst) == pytest.approx(spec.exact_epsilon(8), abs=1e-12)
    assert spec.exact_epsilon() <= spec.level_epsilon == 1.0
    outside = np.asarray(run(grid[:1].astype(np.uint32), jnp.int32(-7)))
    assert outside == run(grid[:1].astype(np.uint32), jnp.int32(4))


@pytest.mark.parametrize("ties", ["half", "zero"])
def test_the_plug_in_is_exact_where_nothing_is_discarded(ties, rng):
    spec = HierarchicalAUC(24, 3.0, split="even", ties=ties, threshold=0.0)
    for shares in (np.eye(48)[3] + np.eye(48)[40], np.arange(48) ** 2, np.ones(48)):
        table = rng.multinomial(10**5, shares / shares.sum()).reshape(2, 24) * 1.0
        tree = ScoreTree.of(table, spec.height, spec.kernel.tie)
        law = spec._count_law(tree.sizes, spec._reports())
        for iid in (False, True):
            assert pruned_error(tree, law, iid) == pytest.approx(spec._error(table, iid), rel=2e-3)
    apart = np.eye(48)[[3, 40]].sum(0).reshape(2, 24) * 10**4
    tree, by_chance = ScoreTree.of(apart, 5, 0.5), dataclasses.replace(law, dealt=False)
    assert pruned_error(tree, by_chance) > 1.2 * spec._error(apart, False)  # the control


def test_pruned_errors_are_predicted(key):
    """2,000 tallies, of classes that part at the root."""
    spec = HierarchicalAUC(64, 5.0, split="even")
    counts = np.zeros(128, np.int64)
    counts[[0, 127]] = 4000, 6000
    counts[20:100] += 20
    users = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, users, key, num_trials=2000, method="tally")
    predicted, errors = float(spec.variance(counts)), trials.errors.ravel()
    assert spec.variance_kind == "delta"
    stats.check_variance(errors, predicted, mean=0.0, kurtosis=6.0)
    stats.must_fail(stats.check_variance, 1.5 * errors, predicted, mean=0.0, kurtosis=6.0)


def test_many_users_have_the_variance_of_expected_groups():
    """About a distribution, groups of n / alpha: larger than by chance by nothing."""
    table = np.array([[3.0, 1.0, 0.0, 2.0], [1.0, 1.0, 4.0, 6.0]]) * 1e6
    tree, groups = ScoreTree.of(table, 2, 0.5), np.stack([table.sum(1) / 2] * 2)
    given, drawn = (even_variance(tree, 3.0, groups, iid) for iid in (False, True))
    assert given < drawn < even_variance(tree, 3.0, groups / 2, True)


def test_bounds():
    for counts in (np.eye(16, dtype=int)[0] * 300 + 5, np.arange(16) * 40, np.full(16, 7)):
        negative, positive = map(int, np.array(counts).reshape(2, -1).sum(axis=1))
        base = HierarchicalAUC(8, 1.0, split="even")
        for options in ({"threshold": 0.0}, {}, {"discarded": "zero"}):
            spec = dataclasses.replace(base, **options)
            worst = spec.worst_case_variance(negative + positive, positive)
            assert float(spec.variance(counts)) <= worst < math.inf
    by_chance = HierarchicalAUC(8, 1.0).worst_case_variance(900, 300)
    even = HierarchicalAUC(8, 1.0, split="even")
    assert even.worst_case_variance(900, 300) == pytest.approx(by_chance, rel=1e-6)
    assert even.worst_case_variance(900) == math.inf


def test_what_it_refuses(key):
    with pytest.raises(ValueError, match="labels must be public"):
        HierarchicalAUC(8, 1.0, "private", split="even")
    few = jaxdp.Population.from_histogram([2, *[0] * 14, 300])
    spec = HierarchicalAUC(8, 1.0, split="even")
    with pytest.raises(ValueError, match="a user for each of the 3 levels"):
        jaxdp.run(spec, few, key)
    with pytest.raises(ValueError, match="a user for each of the 3 levels"):
        spec.variance([2, *[0] * 14, 300])
    with pytest.raises(ValueError, match="2 \\* num_scores = 16"):
        jaxdp.run(spec.build(), jaxdp.Population.from_histogram([5, 5, 5]), key)
    with pytest.raises(ValueError, match="deal out users by their bins"):
        OnGrid(spec, ProductGrid((Grid.uniform(2), Grid.uniform(8))))


def test_shuffled_reports_hide_among_those_of_their_level():
    users = jaxdp.Population.from_histogram([600, *[0] * 14, 900])
    Shuffled(HierarchicalAUC(8, 1.0), 1500, 1e-6, group_size=600).check_population(users)
    even = HierarchicalAUC(8, 1.0, split="even")
    Shuffled(even, 1500, 1e-6, group_size=200).check_population(users)
    with pytest.raises(ValueError, match="smaller class has 200 users who report alike"):
        Shuffled(even, 1500, 1e-6, group_size=201).check_population(users)

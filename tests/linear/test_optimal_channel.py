"""The best channel for given queries: both bounds, the witness in fractions, and what it beats."""

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from jaxdp.linear import OptimizedStrategy, optimal_channel
from jaxdp.linear._extreme_rays import (
    Witness,
    _integer_form,
    _positive,
    exact,
    largest_ratio,
    local_search,
)
from jaxdp.randomizers import KRR, SubsetSelection
from jaxdp.workloads import all_range, prefix
from tests.marks import slow


def variances(workload, channel, prior):
    """The total variance of each value, with the best decoder for users of the prior."""
    law = prior @ channel
    root = np.sqrt(law)
    decoder = workload @ np.linalg.pinv((channel / root).T) / root
    np.testing.assert_allclose(decoder @ channel.T, workload, atol=1e-6 * np.abs(workload).max())
    return np.square(decoder).sum(axis=0) @ channel.T - np.square(workload).sum(axis=0)


def proven(workload, epsilon, found, *, loosened=1):
    """The lower bound of a witness in fractions, or None where it is none, for every ray.

    The rays are of ones and a fraction that is not below e**epsilon: a wider cone.
    """
    most = Fraction(math.exp(epsilon) * (1 + 1e-12))
    prior, prices = exact(found.prior), exact(found.prices * (1 + 1e-7)) * loosened
    workload, tests = exact(workload), exact(found.tests)
    gram = tests.T @ tests
    for chosen in itertools.product((False, True), repeat=len(prior)):
        ray = np.where(chosen, most, Fraction(1))
        if ray @ gram @ ray > (prior @ ray) * (prices @ ray):
            return None
    paid = prices.sum() + (prior @ (workload**2).sum(axis=0))
    return 2 * (workload * tests).sum() - paid


CASES = [
    (prefix(6), 1.0, "worst"),
    (prefix(5), 4.0, "mean"),
    (all_range(5), 0.3, "worst"),
    (np.eye(5), 1.0, [0.0, 1.0, 2.0, 3.0, 4.0]),
    (np.array([[0.0, 1.0, 5.0, 2.0]]), 1.0, "worst"),
    (np.eye(6)[:2], 1.0, "worst"),
    (np.eye(6)[:2], 1.0, "mean"),
    (np.array([[1, 1, 0, 0, 1.0], [0, 0, 1, 1, 0]]), 2.0, [5.0, 1.0, 1.0, 1.0, 0.0]),
]


@pytest.mark.parametrize(("workload", "epsilon", "objective"), CASES)
def test_both_bounds(workload, epsilon, objective):
    found = optimal_channel(workload, epsilon, objective=objective, tol=2e-3)
    assert 0 <= found.gap <= 2e-3
    workload = np.asarray(workload, np.float64)
    k = workload.shape[1]
    # The channel is private, and has the variance that is said.
    channel = found.channel
    np.testing.assert_allclose(channel.sum(axis=1), 1, rtol=1e-12)
    assert np.log(channel.max(axis=0) / channel.min(axis=0)).max() <= epsilon + 1e-7
    if objective == "worst":
        strategy = OptimizedStrategy(workload, epsilon, channel=channel)
        assert strategy.worst_case_total_variance(1) <= found.upper * (1 + 1e-5)
        assert strategy.worst_case_total_variance(1) >= found.lower * (1 - 1e-6)
    else:
        law = np.full(k, 1 / k) if objective == "mean" else np.array(objective) / sum(objective)
        of_law = law @ variances(workload, channel, law)
        assert of_law == pytest.approx(found.upper, rel=1e-5)
        np.testing.assert_allclose(found.prior, law, atol=1e-12)
    # The lower bound holds in fractions.
    bound = proven(workload, epsilon, found)
    assert bound is not None
    assert float(bound) == pytest.approx(found.lower, rel=1e-4)
    assert found.prove(workload, epsilon) == pytest.approx(found.lower, rel=1e-6)


def test_a_false_witness_proves_nothing():
    """Prices that are too small are found out, and `prove` pays for them."""
    workload = np.asarray(prefix(6), np.float64)
    found = optimal_channel(workload, 1.0, tol=2e-3)
    assert proven(workload, 1.0, found, loosened=Fraction(99, 100)) is None
    cheap = dataclasses.replace(found, prices=0.9 * found.prices)
    # The largest ratio is below 1 by what the barrier leaves, which only `cheap` is not denied.
    assert cheap.prove(workload, 1.0) <= found.lower * (1 + 1e-5)
    # For a larger epsilon it proves less than for its own.
    assert found.prove(workload, 1.5) < found.lower


@pytest.mark.parametrize(("k", "epsilon"), [(4, 1.0), slow(8, math.log(3)), slow(7, 0.2), (5, 3.0)])
def test_subset_selection_is_the_best_for_a_histogram(k, epsilon):
    """Ye and Barg (2018): no channel has less variance for the identity."""
    each = SubsetSelection(k, epsilon).variance(np.ones(k, int)).sum() / k
    for objective in ("worst", "mean"):
        found = optimal_channel(np.eye(k), epsilon, objective=objective, tol=1e-3)
        assert found.lower <= each * (1 + 1e-7)
        assert each <= found.upper * (1 + 1e-7)
    assert KRR(k, 0.2).variance(np.ones(k, int)).sum() / k > 0.99 * each


def test_one_query_is_best_answered_by_one_bit_of_its_ends():
    """Of values between 0 and 1: rounded to an end at random, c**2 / 4 for the middle at worst."""
    c = 1 / math.tanh(0.5)
    found = optimal_channel(np.linspace(0, 1, 5)[None], 1.0, tol=1e-3)
    assert found.upper <= c**2 / 4 * (1 + 1e-3)
    two = optimal_channel(np.array([[0.0, 1.0]]), 1.0, tol=1e-3)
    assert two.upper == pytest.approx((c**2 - 1) / 4, rel=1e-3)


def test_nothing_is_needed_for_known_answers():
    found = optimal_channel(np.ones((2, 3)), 1.0)
    assert found.upper == found.lower == found.gap == found.prove(np.ones((2, 3)), 1.0) == 0


def test_no_channel_of_a_search_is_below(rng):
    """Those of the descent, randomized response, and random ones."""
    workload = np.asarray(prefix(5), np.float64)
    found = optimal_channel(workload, 1.0, tol=1e-3)
    channels = [OptimizedStrategy(workload, 1.0, num_steps=300).randomizer.weights() / 2.0**32]
    for _ in range(20):
        rows = np.where(rng.uniform(size=(40, 5)) < 0.4, math.e, 1.0)
        weights, *_ = np.linalg.lstsq(rows.T, np.ones(5), rcond=None)
        if weights.min() > 0:
            channels.append((rows * weights[:, None]).T)
    assert len(channels) > 3
    for channel in channels:
        assert found.prior @ variances(workload, channel, found.prior) > found.lower


def test_all_rays_are_looked_at(rng):
    for k in (2, 3, 9):
        witness = Witness(
            rng.normal(size=(k, k)), rng.dirichlet(np.ones(k)), rng.uniform(0.5, 1.5, size=k), 3.0
        )
        rays = np.array(list(itertools.product((1.0, 3.0), repeat=k)))
        ratios = witness.ratios(rays)
        for least in (0.5 * ratios.max(), 0.9 * ratios.max()):
            most, found = largest_ratio(witness, least)
            assert ratios.max() < most <= ratios.max() * (1 + 1e-6)
            np.testing.assert_array_equal(found[0], rays[np.argmax(ratios)])
        near = local_search(witness, rays[:2], rng)
        assert 0.9 * most < witness.ratios(near[:1])[0] <= most
        assert largest_ratio(witness, 2 * most)[0] <= 2 * most * (1 + 1e-6)
    free = Witness(np.eye(3), np.ones(3) / 3, np.array([1.0, 1.0, -1.0]), 3.0)
    assert math.isinf(largest_ratio(free)[0])


def test_no_ray_is_missed_by_rounding():
    """A ratio one unit in the last place above the claim is seen, with entries of all sizes."""
    tests = np.diag([1.0, 2.0**-20, 2.0**-40])
    witness = Witness(tests, np.ones(3), np.ones(3), 2.0)
    rays = np.array(list(itertools.product((1, 2), repeat=3)), dtype=object)
    squares = [sum((exact(tests) @ ray) ** 2) for ray in rays]
    true = max(x / Fraction(sum(ray)) ** 2 for x, ray in zip(squares, rays, strict=True))
    constant, linear, pairs = _integer_form(witness, true)
    values = [
        constant + linear @ x + x @ pairs @ x for x in itertools.product((0.0, 1.0), repeat=3)
    ]
    assert max(values) >= 0
    assert all(float(value).is_integer() for value in values)
    assert _positive(*_integer_form(witness, true * (1 - Fraction(2) ** -40)))[0]
    assert not _positive(*_integer_form(witness, true * (1 + Fraction(2) ** -40)))[0]


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        ((np.eye(33), 1.0), {}, "2 to 32"),
        ((np.ones((2, 1)), 1.0), {}, "2 to 32"),
        ((np.eye(3), 0.0), {}, "epsilon"),
        ((np.eye(3), 30.0), {}, "epsilon"),
        ((np.eye(3), 1.0), {"objective": "median"}, "objective"),
        ((np.eye(3), 1.0), {"objective": [1.0, 2.0]}, "objective"),
        ((np.eye(3), 1.0), {"tol": 0.0}, "tol"),
        ((np.eye(3), 1.0), {"max_rounds": 0}, "max_rounds"),
        ((np.eye(3), 1.0), {"seed": -1}, "seed"),
    ],
)
def test_bad_arguments(arguments, options, match):
    with pytest.raises(ValueError, match=match):
        optimal_channel(*arguments, **options)


def test_mirrored_workloads_give_mirrored_channels():
    """A ray and its mirror image have one weight, and the hardest law is the same backwards."""
    for workload in (prefix(8), all_range(6), np.eye(8)):
        found = optimal_channel(workload, 1.0)
        np.testing.assert_allclose(found.prior, found.prior[::-1], rtol=1e-9)
        reports = {tuple(np.round(column, 12)) for column in found.channel.T}
        assert reports == {tuple(np.round(column, 12)) for column in found.channel[::-1].T}
        # Values in an order without a mirror image have the same bracket.
        shuffled = optimal_channel(workload[:, np.argsort(np.arange(workload.shape[1]) % 3)], 1.0)
        assert shuffled.lower <= found.upper
        assert found.lower <= shuffled.upper


@pytest.mark.slow
def test_prefix_sums_of_sixteen_values():
    """The channel that OptimizedStrategy finds is within 4 % of the best there is."""
    found = optimal_channel(prefix(16), 1.0)
    assert found.gap <= 0.01
    assert 74.1 < found.lower < 74.83
    assert found.prove(prefix(16), 1.0) == pytest.approx(found.lower, rel=1e-6)
    searched = OptimizedStrategy(prefix(16), 1.0).worst_case_total_variance(1)
    assert found.lower < searched < 1.04 * found.lower


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "low", "high"), [(prefix(32), 216.3, 218.2), (all_range(32), 5104, 5135)]
)
def test_thirty_two_values(workload, low, high):
    """A minute of one core each; the proof looks at all 2**32 rays, in integers."""
    found = optimal_channel(workload, 1.0)
    assert found.gap <= 0.01
    # The optimum is between bounds that another search has proven, and between these.
    assert found.lower < found.upper
    assert found.lower < high
    assert found.upper > low
    assert found.prove(workload, 1.0) == pytest.approx(found.lower, rel=1e-6)
    cheap = dataclasses.replace(found, prices=0.9 * found.prices)
    assert cheap.prove(workload, 1.0) <= found.lower * (1 + 1e-5)
    answers = OptimizedStrategy(workload, 1.0, channel=found.channel)
    # Its probabilities are rounded to integers over 2**32, of thousands of reports.
    assert answers.worst_case_total_variance(1) == pytest.approx(found.upper, rel=1e-4)

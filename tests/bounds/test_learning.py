"""Sample sizes of agnostic learning: the upper bound, and every step of the lower bound."""

import math

import numpy as np
import pytest

from jaxdp import factorization, workloads
from jaxdp.bounds._learning import learning_lower_bound, learning_upper_bound
from jaxdp.learning import AgnosticLearner, RandomConcept

CONCEPTS = workloads.thresholds(6)


@pytest.mark.slow
def test_upper_bound_is_a_learner_of_some_tolerance():
    exact = AgnosticLearner(CONCEPTS, 1.0).min_users(0.3, 0.15)
    bound = learning_upper_bound(CONCEPTS, 1.0, 0.3, 0.15)
    assert learning_lower_bound(CONCEPTS, 1.0, 0.3, 0.15) < bound <= exact


@pytest.mark.slow
def test_lower_bound_of_orthogonal_concepts():
    """With m orthogonal concepts the spread is 1/m by symmetry: the limit of small errors."""
    parities = workloads.parity(3, 2)
    alpha, beta = 0.02, 0.03
    needed = -math.log1p(-((1 - 2 * beta) ** 2))
    limit = needed * 7 / (math.sinh(0.25) * (alpha + 2 * beta)) ** 2
    assert 0.85 * limit < learning_lower_bound(parities, 0.5, alpha, beta) < limit


def test_lower_bound_falls_with_what_is_asked():
    strict = learning_lower_bound(CONCEPTS, 1.0, 0.01, 0.01)
    assert strict > learning_lower_bound(CONCEPTS, 1.0, 0.05, 0.01) > 0
    assert strict > learning_lower_bound(CONCEPTS, 2.0, 0.01, 0.01) > 0
    assert learning_lower_bound(CONCEPTS, 1.0, 0.1, 0.5) == 0
    assert learning_lower_bound(CONCEPTS, 1.0, 0.49, 0.01) == 0


def test_hard_populations_are_hard_to_tell_apart():
    """What the proof says of them, for the reports of a private learner."""
    solved = factorization.gamma2_approx(CONCEPTS, 0.1)
    hard = factorization.hardest(CONCEPTS, solved)
    share = 0.5
    signal = (1 - share) * hard.null + share * hard.signal
    losses = RandomConcept(CONCEPTS, 1.0).answers
    np.testing.assert_allclose(losses(hard.null), 0.5, atol=1e-12)
    support = hard.prior > 0
    least = losses(signal).min(axis=1)
    assert np.all(least[support] <= (1 - share * hard.separation) / 2 + 1e-12)
    law = np.array([[float(p) for p in row] for row in RandomConcept(CONCEPTS, 1.0).channel()])
    one, two = hard.null @ law, signal @ law
    entropy = hard.prior @ np.sum(one * np.log(one / two), axis=1)
    bound = (math.expm1(1.0) / 2 * share * hard.spread) ** 2
    assert 0 < entropy <= bound


@pytest.mark.parametrize("function", [learning_upper_bound, learning_lower_bound])
def test_bad_input(function):
    for arguments, name in (
        ((CONCEPTS / 2, 1.0, 0.1, 0.1), "concepts"),
        ((CONCEPTS, 0.0, 0.1, 0.1), "epsilon"),
        ((CONCEPTS, 1.0, 0.0, 0.1), "alpha"),
        ((CONCEPTS, 1.0, 0.1, 1.0), "beta"),
        ((CONCEPTS, 1.0, float("nan"), 0.1), "alpha"),
    ):
        with pytest.raises(ValueError, match=name):
            function(*arguments)

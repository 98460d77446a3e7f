"""Labelled examples as values, and their losses as linear queries."""

import numpy as np
import pytest

from jaxdp import workloads
from jaxdp.learning import AgnosticLearner, RandomConcept

THREE = RandomConcept(workloads.thresholds(3), 1.0)


def test_losses_of_examples_are_the_share_of_wrong_labels(rng):
    concepts = workloads.intervals(5)
    points, labels = rng.integers(0, 5, 300), rng.choice([-1, 1], 300)
    learner = AgnosticLearner(concepts, 1.0)
    values = learner.labelled(points, labels)
    expected = [np.mean(concept[points] != labels) for concept in concepts]
    found = learner.truth(np.bincount(values, minlength=10))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    positive = np.bincount(points[labels > 0], minlength=5)
    negative = np.bincount(points[labels < 0], minlength=5)
    np.testing.assert_array_equal(
        learner.labelled_histogram(positive, negative), np.bincount(values, minlength=10)
    )


def test_select_takes_the_least_and_the_first_of_equals(rng):
    losses = rng.normal(size=(2, 3, 7))
    np.testing.assert_array_equal(THREE.select(losses), losses.argmin(axis=2))
    assert THREE.select([0.5, 0.1, 0.1]) == 1


def test_excess_risk_is_against_the_best_concept():
    learner = AgnosticLearner(workloads.thresholds(3), 1.0)
    users = learner.labelled_histogram([8, 6, 1], [2, 4, 9])  # losses 9, 7, 15 of 30
    np.testing.assert_allclose(learner.truth(users), np.array([9, 7, 15]) / 30)
    guesses = [[0.1, 0.5, 0.5], [0.5, 0.1, 0.5], [0.5, 0.5, 0.1]]
    np.testing.assert_allclose(
        learner.excess_risk(guesses, users / 30), np.array([2, 0, 8]) / 30, atol=1e-15
    )


BAD = {
    "points-range": lambda: THREE.labelled([3], [1]),
    "points-negative": lambda: THREE.labelled([-1], [1]),
    "points-float": lambda: THREE.labelled([0.5], [1]),
    "points-shape": lambda: THREE.labelled([[0]], [[1]]),
    "labels-length": lambda: THREE.labelled([0, 1], [1]),
    "labels-zero": lambda: THREE.labelled([0], [0]),
    "labels-bool": lambda: THREE.labelled([0], [True]),
    "positive": lambda: THREE.labelled_histogram([1, 2], [1]),
    "positive-negative": lambda: THREE.labelled_histogram([-1, 0, 0], [2, 0, 0]),
    "positive-points": lambda: THREE.labelled_histogram([1], [2]),
    "losses-nan": lambda: THREE.select([0.1, np.nan]),
    "losses-empty": lambda: THREE.select([]),
}


@pytest.mark.parametrize("label", BAD)
def test_bad_input(label):
    with pytest.raises((ValueError, TypeError), match=label.split("-")[0]):
        BAD[label]()

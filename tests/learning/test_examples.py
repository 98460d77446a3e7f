"""Labelled examples as values, and their losses as linear queries."""

import numpy as np
import pytest

from jaxdp import workloads
from jaxdp.learning import AgnosticLearner, labelled, labelled_histogram, select


def test_losses_of_examples_are_the_share_of_wrong_labels(rng):
    concepts = workloads.intervals(5)
    points, labels = rng.integers(0, 5, 300), rng.choice([-1, 1], 300)
    values = labelled(points, labels, num_points=5)
    expected = [np.mean(concept[points] != labels) for concept in concepts]
    learner = AgnosticLearner(concepts, 1.0)
    found = learner.truth(np.bincount(values, minlength=10))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    positive = np.bincount(points[labels > 0], minlength=5)
    negative = np.bincount(points[labels < 0], minlength=5)
    np.testing.assert_array_equal(
        labelled_histogram(positive, negative), np.bincount(values, minlength=10)
    )


def test_select_takes_the_least_and_the_first_of_equals(rng):
    losses = rng.normal(size=(2, 3, 7))
    np.testing.assert_array_equal(select(losses), losses.argmin(axis=2))
    assert select([0.5, 0.1, 0.1]) == 1


def test_excess_risk_is_against_the_best_concept():
    learner = AgnosticLearner(workloads.thresholds(3), 1.0)
    users = labelled_histogram([8, 6, 1], [2, 4, 9])  # losses 9, 7, 15 of 30
    np.testing.assert_allclose(learner.truth(users), np.array([9, 7, 15]) / 30)
    guesses = [[0.1, 0.5, 0.5], [0.5, 0.1, 0.5], [0.5, 0.5, 0.1]]
    np.testing.assert_allclose(
        learner.excess_risk(guesses, users / 30), np.array([2, 0, 8]) / 30, atol=1e-15
    )


BAD = {
    "points-range": lambda: labelled([3], [1], 3),
    "points-negative": lambda: labelled([-1], [1], 3),
    "points-float": lambda: labelled([0.5], [1], 3),
    "points-shape": lambda: labelled([[0]], [[1]], 3),
    "labels-length": lambda: labelled([0, 1], [1], 3),
    "labels-zero": lambda: labelled([0], [0], 3),
    "labels-bool": lambda: labelled([0], [True], 3),
    "num_points": lambda: labelled([0], [1], 0),
    "positive": lambda: labelled_histogram([1, 2], [1]),
    "positive-negative": lambda: labelled_histogram([-1], [2]),
    "losses-nan": lambda: select([0.1, np.nan]),
    "losses-empty": lambda: select([]),
}


@pytest.mark.parametrize("label", BAD)
def test_bad_input(label):
    with pytest.raises((ValueError, TypeError), match=label.split("-")[0]):
        BAD[label]()

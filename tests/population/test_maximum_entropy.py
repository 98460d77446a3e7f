"""The maximum-entropy prior: closed forms, its conditions, and what nobody can have."""

import numpy as np
import pytest

from jaxdp.population import maximum_entropy

BITS = (np.arange(16)[None] >> np.arange(4)[:, None]) & 1


def test_nothing_known_is_uniform():
    np.testing.assert_allclose(maximum_entropy(np.ones(5), 1.0), 0.2)


@pytest.mark.parametrize("mean", [0.3, 1.5, 2.9])
def test_a_mean_makes_a_geometric_law(mean):
    found = maximum_entropy(range(4), mean)
    assert found @ range(4) == pytest.approx(mean, abs=1e-8)
    assert np.ptp(np.diff(np.log(found))) < 1e-9


def test_known_marginals_make_features_independent():
    shares = np.array([0.05, 0.5, 0.7, 0.2])
    expected = np.prod(np.where(BITS == 1, shares[:, None], 1 - shares[:, None]), axis=0)
    np.testing.assert_allclose(maximum_entropy(BITS, shares), expected, atol=1e-9)


def test_pairs_are_as_proportional_fitting_has_them(rng):
    """All tables of two of three features: no third-order interaction is left."""
    truth = rng.dirichlet(np.ones(8)).reshape(2, 2, 2)
    ones = np.eye(8).reshape(8, 2, 2, 2)
    rows = np.concatenate([ones.sum(axis=axis).reshape(8, 4).T for axis in (1, 2, 3)])
    found = maximum_entropy(rows, rows @ truth.ravel()).reshape(2, 2, 2)
    fitted = np.full((2, 2, 2), 1 / 8)
    for _ in range(2000):
        for axis in range(3):
            have, want = (x.sum(axis=axis, keepdims=True) for x in (fitted, truth))
            fitted = fitted * want / have
    np.testing.assert_allclose(found, fitted, atol=1e-8)
    assert not np.allclose(found, truth, atol=1e-3)


def test_a_base_is_what_is_left_alone():
    base = np.array([1.0, 3.0, 0.0, 4.0])
    np.testing.assert_allclose(maximum_entropy(range(4), 15 / 8, base=base), base / 8)
    moved = maximum_entropy([0, 0, 1, 1], 0.3, base=base)
    np.testing.assert_allclose(moved, [0.175, 0.525, 0.0, 0.3])


def test_the_ends_of_a_range_can_be_had():
    np.testing.assert_allclose(maximum_entropy(range(3), 2.0), [0, 0, 1], atol=1e-7)


def test_no_other_distribution_has_more_entropy(rng):
    rows = rng.normal(size=(3, 10))
    answers = rows @ rng.dirichlet(np.ones(10))
    found = maximum_entropy(rows, answers)
    flat = np.linalg.svd(np.vstack([rows, np.ones(10)]))[2][4:]  # moves that change no answer
    for _ in range(50):
        move = rng.normal(size=len(flat)) @ flat
        other = found + 1e-3 * found.min() * move / np.abs(move).max()
        assert -(other @ np.log(other)) <= -(found @ np.log(found))


@pytest.mark.parametrize(
    ("queries", "answers", "message"),
    [
        (range(4), 3.2, "answers must be those of some distribution"),
        ([[1, 0, 0], [1, 0, 0]], [0.2, 0.3], "answers must be those of some distribution"),
        ([[1, 0, 0]], [0.2, 0.3], "one number for each"),
        ([np.nan, 1], 0.5, "finite"),
        (np.zeros((1, 0)), [0.5], "must have shape"),
    ],
)
def test_what_nobody_can_have_is_refused(queries, answers, message):
    with pytest.raises(ValueError, match=message):
        maximum_entropy(queries, answers)
    with pytest.raises(ValueError, match="base must"):
        maximum_entropy(range(3), 1.0, base=[1, 2])

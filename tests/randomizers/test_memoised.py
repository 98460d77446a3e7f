"""What repeated reports of a remembered one reveal, and predict."""

import itertools
import math

import numpy as np
import pytest

from jaxdp.random import Count
from jaxdp.randomizers import (
    KRR,
    FiniteChannel,
    HadamardResponse,
    LocalHashing,
    Memoised,
    SubsetSelection,
    UnaryEncoding,
)

GIVEN = FiniteChannel([[6, 1, 1, 8], [2, 9, 3, 2], [4, 4, 4, 4]])
AGAIN = FiniteChannel([[5, 1, 2], [1, 6, 1], [2, 2, 4], [3, 3, 2]])


def channels(spec: Memoised) -> tuple[np.ndarray, np.ndarray]:
    return np.array(spec.permanent.channel(), float), np.array(spec.instantaneous.channel(), float)


def likeliest(spec: Memoised, num_reports: int) -> float:
    """The largest log-ratio over all sequences of reports and all pairs of values, in floats."""
    law, again = channels(spec)
    worst = 0.0
    for sent in itertools.product(range(again.shape[1]), repeat=num_reports):
        chances = law @ again[:, list(sent)].prod(axis=1)
        worst = max(worst, math.log(chances.max() / chances.min()))
    return worst


@pytest.mark.parametrize("spec", [Memoised(GIVEN, AGAIN), Memoised(KRR(3, 2.0), KRR(3, 1.0))])
def test_reports_together_have_the_ratios_of_all_sequences(spec):
    for number in range(1, 5):
        expected = likeliest(spec, number)
        assert expected - 1e-12 <= spec.report_epsilon(number) <= expected + 1e-9
    composed = np.array(spec.channel(), float)
    ratio = (composed.max(axis=0) / composed.min(axis=0)).max()
    assert spec.report_epsilon() == pytest.approx(math.log(ratio))


@pytest.mark.parametrize("spec", [Memoised(GIVEN, AGAIN), Memoised(KRR(3, 2.0), KRR(3, 1.0))])
def test_bound_is_above_all_sequences(spec):
    for number in range(1, 5):
        assert spec.report_epsilon(number) <= spec._bound(number) + 1e-12
    # Where too many sets of reports are possible it is the bound, below the permanent report's.
    assert spec.report_epsilon(200) <= spec.exact_epsilon()


def test_bound_of_two_randomized_responses_is_attained():
    spec = Memoised(KRR(20, 3.0), KRR(20, 2.0))
    law, again = channels(spec)
    for number in (1, 3, 30):
        same = law @ again[:, 0] ** number
        assert spec._bound(number) == pytest.approx(math.log(same.max() / same.min()))


def test_many_reports_reveal_what_is_remembered():
    spec = Memoised(KRR(4, 2.0), KRR(4, 1.0))
    found = [spec.report_epsilon(number) for number in (1, 2, 5, 20, 10**6)]
    assert found == sorted(found)
    assert found[-1] == spec.exact_epsilon() <= 2.0 < 1.01 * found[-1]


@pytest.mark.parametrize(
    "again", [KRR(16, 1.0), UnaryEncoding(16, 1.0), SubsetSelection(16, 1.0), LocalHashing(16, 1.0)]
)
def test_variances_are_those_of_the_covariances(again):
    spec = Memoised(HadamardResponse(7, 2.0), again)
    queries = np.random.default_rng(0).normal(size=(3, 7))
    forms = spec.query_variances(queries)
    for value in range(7):
        covariance = spec.covariance(value)
        np.testing.assert_allclose(forms[:, value], np.diag(queries @ covariance @ queries.T))
        np.testing.assert_allclose(spec.variance(np.eye(7, dtype=int)[value]), np.diag(covariance))
    np.testing.assert_allclose(spec.noise().forms(queries), forms)


def test_an_exact_second_report_changes_nothing():
    """Where the sent report is nearly always the remembered one, errors are the permanent ones."""
    permanent, counts = KRR(5, 1.0), np.array([4, 0, 1, 3, 2])
    spec = Memoised(permanent, KRR(5, 20.0))
    np.testing.assert_allclose(spec.variance(counts), permanent.variance(counts), rtol=1e-6)
    assert spec.report_epsilon() == pytest.approx(permanent.exact_epsilon(), abs=1e-6)


@pytest.mark.parametrize(
    "spec",
    [
        Memoised(KRR(3, 2.0), KRR(3, 1.0)),
        Memoised(FiniteChannel([[8, 4, 4], [2, 10, 4], [4, 4, 8]]), KRR(3, 1.0)),
    ],
)
def test_changes_have_the_variance_of_all_pairs_of_reports(spec):
    """Enumerated: of the permanent reports that are kept, and the reports sent of them."""
    law, again = channels(spec)
    k, sent = len(law), again.shape[1]
    tallies = np.eye(sent, dtype=np.int32)
    decoded = np.stack([np.asarray(spec.built.estimate(Count.of(t)), float) for t in tallies], 1)
    same, alone = np.zeros((k, k)), np.zeros((k, k))
    for value in range(k):
        for kept in range(law.shape[1]):
            mean = decoded @ again[kept]
            inner = np.square(decoded) @ again[kept] - mean**2
            same[:, value] += law[value, kept] * 2 * inner
        chances = law[value] @ again
        alone[:, value] = np.square(decoded) @ chances - (decoded @ chances) ** 2
    kept, before, after = (np.array(x[:k]) for x in ([5, 0, 7], [3, 1, 0], [0, 2, 2]))
    expected = same @ kept + alone @ (before + after)
    np.testing.assert_allclose(spec.change_variance(kept, before, after), expected, rtol=1e-5)
    nobody = np.zeros(k)
    fresh = 2 * spec.variance(kept)
    assert np.all(spec.change_variance(kept, nobody, nobody) < fresh)


def test_users_who_change_are_the_same_ones():
    spec = Memoised(KRR(3, 2.0), KRR(3, 1.0))
    with pytest.raises(ValueError, match="after must be of as many users as before, 3, got 2"):
        spec.change_variance([1, 1, 1], [1, 1, 1], [2, 0, 0])
    with pytest.raises(ValueError, match="kept must be 3 numbers of users"):
        spec.change_variance([1, 1], [1, 1, 1], [2, 0, 1])

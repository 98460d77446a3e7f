"""The audit finds planted faults, and the reason; `test_planted` has the whole table."""

import math
from typing import Any

import jax
import numpy as np
import pytest

from jaxdp.audit import AuditError, estimate_epsilon, exact_epsilon
from jaxdp.randomizers import KRR, BinaryResponse
from tests.audit import faults

CONFIDENCE = 1 - 1e-9


def audit(randomizer, key, num_samples=20_000, **options):
    return estimate_epsilon(
        randomizer, key, num_samples, confidence=CONFIDENCE, batch_size=20_000, **options
    )


def product(reports):
    return reports[:, 0] * reports[:, 1]


def test_what_only_a_statistic_of_the_user_shows(key):
    """Each number, and the norm, has one law for both inputs; the sign of the product shows."""
    options: dict[str, Any] = dict(inputs=[0, 1], epsilon=1.0)
    signs = faults.SignOfProduct(0.1)
    assert audit(signs, key, **options).epsilon_lower == 0
    report = audit(signs, key, **options, statistics=(product,))
    assert report.violates
    assert report.epsilon_lower <= math.log(9)
    assert "product (0)" in report.worst.event


def test_blind_reports(key):
    report = audit(faults.Blind(4, 1.0), key)
    assert report.epsilon_lower == 0
    assert report.spends_nothing
    assert report.biased
    assert not report.violates
    assert {off.value for off in report.decoding or ()} == {1, 2, 3}
    assert "SPENDS NOTHING" in str(report)
    assert exact_epsilon(faults.Blind(4, 1.0).build(word_bits=8), inputs=range(4)) == 0.0
    with pytest.raises(AuditError, match="input 1, report 0"):
        exact_epsilon(faults.Blind(4, 1.0))


@pytest.mark.slow
def test_gaussian_for_half_the_distance_at_a_small_delta(key):
    wrong = faults.HalfSensitivity.make(2, 1.0, 1e-6, sensitivity=1.0)
    inputs = [[1.0, 0.0], [-1.0, 0.0]]
    report = audit(wrong, key, 3_000_000, inputs=inputs, epsilon=1.0, delta=1e-6)
    assert report.violates


@pytest.mark.parametrize("num_values", [2, 3])
def test_threshold_one_step_too_high(num_values):
    right, wrong = KRR(num_values, 1.0), faults.KeepsOneMore(num_values, 1.0)
    assert exact_epsilon(right) <= 1.0 < exact_epsilon(wrong)
    assert exact_epsilon(wrong) - 1.0 < 1e-8  # a step of 2**-32: no sampling could see it
    twin = faults.KeepsOneMoreUnsaid(num_values, 1.0)
    with pytest.raises(AuditError, match="input 0"):
        exact_epsilon(twin)
    params = twin.build(word_bits=16)
    assert right.exact_epsilon(16) <= 1.0 < exact_epsilon(params, inputs=range(num_values))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_scale_one_ulp_too_high(epsilon):
    """A float32 fault, of a few words out of 2**32; params and channel agree with each other."""
    right, wrong = BinaryResponse(epsilon), faults.ScalesByOneUlpMore(epsilon)
    scales = [float(spec.build().scale) for spec in (right, wrong)]
    assert 0 < scales[1] / scales[0] - 1 < 2e-7
    assert exact_epsilon(right) <= epsilon < exact_epsilon(wrong) < epsilon * (1 + 1e-3)
    edge = int(wrong.build().limit)
    words = np.array([[2**31 + edge - 1], [2**31 + edge]], np.uint32)
    reports = [int(wrong.build().from_bits(w, jax.numpy.float32(1))) for w in words]
    assert reports == [1, -1]  # what is played is what was audited


def test_the_same_key_gives_the_same_report(key):
    first, second = (audit(faults.Blind(4, 1.0), key) for _ in range(2))
    assert first == second
    other = audit(faults.Blind(4, 1.0), jax.random.fold_in(key, 1))
    assert [p.probability for p in other.pairs] != [p.probability for p in first.pairs] or (
        other.decoding != first.decoding
    )


def test_batches_do_not_change_the_reports(key):
    """User i's words do not depend on the batch that it is in."""
    options: dict[str, Any] = dict(confidence=CONFIDENCE, inputs=np.array([0, 1]), outside=False)
    whole = estimate_epsilon(KRR(2, 1.0), key, 10_000, batch_size=10_000, **options)
    parts = estimate_epsilon(KRR(2, 1.0), key, 10_000, batch_size=4096, **options)
    assert whole.pairs == parts.pairs

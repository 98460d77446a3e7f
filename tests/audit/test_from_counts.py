"""Audits of counted reports: the same bounds as of the reports themselves, and refusals."""

import math

import numpy as np
import pytest

from jaxdp.audit import (
    estimate_epsilon_from_counts,
    estimate_epsilon_from_reports,
    reports_needed,
)
from tests import stats


def law(epsilon, value, k=4):
    return np.where(np.arange(k) == value, math.exp(epsilon), 1) / (math.exp(epsilon) + k - 1)


def counts(rng, epsilon, size, inputs=(0, 2), k=4):
    return {x: rng.multinomial(size // 2, law(epsilon, x, k), size=2) for x in inputs}


def test_counts_say_what_reports_say(rng):
    """Up to the statistics that are tried besides the symbols, which share the chance of error."""
    reports = {x: rng.choice(4, 40_000, p=law(2.0, x)) for x in (0, 2)}
    halves = {
        x: [np.bincount(half, minlength=4) for half in np.split(batch, 2)]
        for x, batch in reports.items()
    }
    counted = estimate_epsilon_from_counts(halves, 1.0)
    kept = estimate_epsilon_from_reports(reports, 1.0)
    assert counted.violates
    assert kept.epsilon_lower <= counted.epsilon_lower < kept.epsilon_lower + 0.02
    assert counted.num_samples == kept.num_samples == 40_000
    worst = counted.worst
    assert (worst.probability, worst.event) == (kept.worst.probability, "report in {0}") or (
        worst.value == 2
    )
    assert str(counted).startswith("counted reports of 2 inputs\n")


def test_bounds_hold(rng):
    """Of 200 audits at confidence 0.5, at most half may have a bound above the truth."""

    def wrong(truth):
        return sum(
            estimate_epsilon_from_counts(counts(rng, truth, 2000), 1.0, confidence=0.5).violates
            for _ in range(200)
        )

    stats.check_proportion(wrong(1.0), 200, 0.5, at_most=True)
    stats.must_fail(stats.check_proportion, wrong(2.0), 200, 0.5, at_most=True)


def test_a_thousand_million_reports_show_a_quarter_of_a_percent(rng):
    """They have the power that is said for so small an excess, and a tenth of them has not."""
    options = dict(excess=0.0025, num_tests=2)
    size = reports_needed(1.0, float(law(1.0025, 0)[0]), **options)
    assert 10**8 < size < 10**9

    def missed(size):
        return sum(
            not estimate_epsilon_from_counts(counts(rng, 1.0025, size), 1.0).violates
            for _ in range(100)
        )

    stats.check_proportion(missed(size), 100, 0.01, at_most=True)
    stats.must_fail(stats.check_proportion, missed(size // 10), 100, 0.01, at_most=True)


def test_three_inputs_of_unequal_numbers(rng):
    given = counts(rng, 2.0, 40_000, inputs=(0, 1, 2))
    given["all"] = given.pop(1) // 4
    found = estimate_epsilon_from_counts(given, 1.0)
    assert len(found.pairs) == 6
    assert found.num_samples == int(given["all"].sum())
    assert found.violates
    assert 1.7 < found.epsilon_lower < 2.0
    near = estimate_epsilon_from_counts(given, 1.0, delta=0.3)
    assert near.epsilon_lower < found.epsilon_lower


@pytest.mark.parametrize(
    ("given", "options", "error", "match"),
    [
        ([1, 2], {}, TypeError, "counts must be a dict"),
        ({0: [[500], [500]]}, {}, ValueError, "2 to 16 inputs"),
        ({0: [[500], [500]], 1: [500, 500]}, {}, ValueError, r"counts\[1\] must be of shape"),
        ({0: [[500], [500]], 1: [[500.5], [500]]}, {}, TypeError, r"counts\[1\] must be whole"),
        ({0: [[500], [500]], 1: [[500], [499]]}, {}, ValueError, "500 reports in each half"),
        ({0: [[500], [500]], 1: [[501, -1], [500, 0]]}, {}, ValueError, "0 or more"),
        ({0: [[500], [500]], 1: [[2**53], [500]]}, {}, ValueError, r"2\*\*53"),
        ({0: [[500], [500]], 1: [[500, 0], [500, 0]]}, {}, ValueError, "one shape"),
        ({0: [[500], [500]], 1: [[500], [500]]}, {"epsilon": 0.0}, ValueError, "epsilon"),
        ({0: [[500], [500]], 1: [[500], [500]]}, {"delta": 1.0}, ValueError, "delta"),
        ({0: [[500], [500]], 1: [[500], [500]]}, {"confidence": 1.0}, ValueError, "confidence"),
    ],
)
def test_bad_arguments(given, options, error, match):
    with pytest.raises(error, match=match):
        estimate_epsilon_from_counts(given, **{"epsilon": 1.0} | options)

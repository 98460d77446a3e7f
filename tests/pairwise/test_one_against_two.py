"""One report against two halves, measured: leading errors a factor of 1.95 or more apart."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.pairwise import KendallTau, OneReport, TwoReport
from tests import stats

TRIALS = 20_000
COUNTS = np.array([2, 1, 1, 1, 1, 2]) * 10**4  # the second order adds a percent or two


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1.0])
def test_measured_errors_differ_by_the_leading_ratio(epsilon, key):
    """Each measured error is the predicted one, and the predictions are a factor 1.95 apart.

    A ratio below 1.5 would be seen. The
    ratio of two measured errors has a standard error of 0.03.
    """
    users = jaxdp.Population.from_histogram(COUNTS)
    errors, predicted = [], []
    for number, protocol in enumerate((OneReport, TwoReport)):
        spec = protocol(KendallTau(), epsilon, (2, 3), form="v", shift=False)
        trials = jaxdp.simulate(
            spec, users, jax.random.fold_in(key, number), num_trials=TRIALS, method="tally"
        )
        errors.append(np.asarray(trials.errors).reshape(-1, 1))
        predicted.append(float(spec.variance(COUNTS)))
    one, two = errors
    assert predicted[1] >= 1.95 * predicted[0]
    stats.check_variance(two, predicted[1], mean=0.0, kurtosis=3.5, cells=2)
    stats.check_variance(one, predicted[1] / 1.95, mean=0.0, kurtosis=3.5, cells=2, at_most=True)
    more = 1 + stats.detectable_variance(TRIALS, 3.5, cells=2)
    stats.must_fail(
        stats.check_variance,
        one * more**0.5,
        predicted[1] / 2.05,
        mean=0.0,
        kurtosis=3.5,
        cells=2,
        at_most=True,
    )
    ratio = np.mean(two**2) / np.mean(one**2)
    print(f"epsilon {epsilon}: {ratio:.3f} +- {ratio * (4 / TRIALS) ** 0.5:.3f}")

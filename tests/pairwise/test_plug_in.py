"""Statistics that are functions of several averages, from two reports and in several rounds."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri

import jaxdp
from jaxdp.pairwise import (
    AUC,
    CollisionEntropy,
    KendallTau,
    OneStep,
    ThreeRound,
    TwoReport,
    TwoRound,
)
from jaxdp.pairwise.kernels._auc import auc_ratio
from jaxdp.pairwise.kernels._gini import negative_log
from jaxdp.pairwise.rounds._rounds import along_slopes, left_over, linked, rounded_factors, tangent
from tests import stats
from tests.marks import slow

AREA = (AUC(), (2, 2), np.array([4, 2, 1, 5]))
TAU_B = (KendallTau("b"), (2, 3), np.array([4, 1, 1, 1, 1, 4]))
ENTROPY = (CollisionEntropy(), 3, np.array([3, 2, 1]))
QUANTILES = ndtri((np.arange(10**6) + 0.5) / 10**6)
BUDGET = functools.partial(TwoRound, sharing="budget")
PROTOCOLS = {
    "two reports": TwoReport,
    "two rounds": TwoRound,
    "budget": BUDGET,
    "one step": OneStep,
    "three rounds": ThreeRound,
}


@pytest.mark.parametrize(
    "name", [slow(n) if n.endswith(("rounds", "step")) else n for n in PROTOCOLS]
)
@pytest.mark.parametrize("case", [AREA, slow(TAU_B), slow(ENTROPY)], ids=["area", "tau", "entropy"])
def test_errors_are_those_of_the_linearised_statistic(name, case, key):
    """2,000 trials of many users: detects 1.6 times the error with power 0.999."""
    kernel, shape, counts = case
    # Products of two reports are not drawn at once for several averages.
    form = "v" if name == "two reports" else "u"
    protocol, counts = PROTOCOLS[name](kernel, 4.0, shape, form=form), 5000 * counts
    found = jaxdp.simulate(
        protocol, jaxdp.Population.from_histogram(counts), key, num_trials=2000
    ).estimates
    truth, predicted = float(protocol.truth(counts)), float(protocol.variance(counts))
    assert protocol.variance_kind == "delta"
    assert protocol.worst_case_variance(1000) == np.inf
    law = {"variance": predicted, "mean": truth, "kurtosis": 3.5}
    stats.check_variance(np.asarray(found, np.float64), **law)
    stats.must_fail(
        stats.check_variance, np.asarray(found, np.float64), **law | {"variance": 0.6 * predicted}
    )


@pytest.mark.parametrize(
    "name", [slow(n) if n in ("two rounds", "one step") else n for n in PROTOCOLS]
)
def test_one_average_is_a_function_of_its_estimate(name, key):
    """The entropy of the estimate of Gini's diversity, from the same reports."""
    kernel, shape, counts = ENTROPY
    protocol = PROTOCOLS[name](kernel, 2.0, shape)
    linear = PROTOCOLS[name](kernel.matrix(shape), 2.0)
    users = jaxdp.Population.from_histogram(300 * counts)
    share = float(jaxdp.run(linear, users, key))
    expected = -np.log(max(share, 2 / (1800 * 1799)))
    np.testing.assert_allclose(float(jaxdp.run(protocol, users, key)), expected, rtol=1e-5)
    p = counts / counts.sum()
    truth, error = (
        float(f(p, 1800)) for f in (linear.population_truth, linear.population_variance)
    )
    expected = error / truth**2
    if name != "two reports":  # which has the linearised statistic's, here that of a normal error
        draws = np.maximum(truth + np.sqrt(error) * QUANTILES, 2 / (1800 * 1799))
        expected = np.mean((np.log(draws) - np.log(truth)) ** 2)
    np.testing.assert_allclose(protocol.population_variance(p, 1800), expected, rtol=1e-3)


def test_curves_are_of_second_order():
    """A combination that errs by a normal of size s: `s**2 + 11/4 s**4` for the logarithm."""
    for size in (0.01, 0.05):
        found = along_slopes(negative_log, np.array([0.3]), np.array([-1 / 0.3]), size**2, 1e9)
        np.testing.assert_allclose(found, size**2 * (1 + 11 / 4 * size**2), rtol=3 * size**4 * 10)
    # Of a ratio, what the first round leaves is of second order in its error.
    truth, step = np.array([0.2, 0.5]), np.array([0.03, 0.02])
    left = [left_over(auc_ratio, (truth + e * step)[None], truth, 1e9)[0] for e in (0.1, 0.2)]
    np.testing.assert_allclose(left[1] / left[0], 4, rtol=0.05)
    assert left_over(negative_log, np.array([[0.3]]), np.array([0.2]), 10.0) == [0]


@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("case", [AREA, TAU_B], ids=["area", "tau"])
def test_factors_are_those_of_all_matrices(case, shift):
    kernel, shape, _ = case
    protocol = OneStep(kernel, 1.0, shape)
    factors = rounded_factors(protocol, shift)
    matrices, slopes = protocol.matrices(), np.arange(1.0, len(protocol.matrices()) + 1)
    found = factors.combined(slopes).matrix
    np.testing.assert_allclose(found, np.tensordot(slopes, matrices, 1), atol=1e-5)
    expected = [np.diagonal(w) - c for w, c in zip(matrices, factors.constants, strict=True)]
    np.testing.assert_allclose(factors.diagonals, expected, atol=1e-5)


def test_a_step_along_the_tangent():
    """The combination has the value, and to second order the statistic is the linearised one."""
    with jax.enable_x64(True):
        averages, n = jnp.array([0.3, 0.5]), jnp.float64(1000)
        point = tangent(auc_ratio, averages, n)
        slopes = np.asarray(point["slopes"], np.float64)
        np.testing.assert_allclose(slopes, [2.0, -1.2], rtol=1e-6)
        for step in (0.0, 1e-3, -1e-3):
            value = jnp.float64(slopes @ np.asarray(point["averages"], np.float64) + step)
            assert float(linked(auc_ratio, point, value, n)) == pytest.approx(0.6 + step, abs=1e-6)
        assert tangent(negative_log, jnp.array([0.5]), n) == {}
        half = float(linked(negative_log, {}, jnp.float64(0.5), n))
    assert half == pytest.approx(np.log(2))

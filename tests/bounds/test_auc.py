"""Bounds on the error of the hierarchical AUC."""

import dataclasses
import itertools
import math

import pytest

from jaxdp.bounds._auc import (
    AUCSetting,
    hierarchical_auc_corollary,
    hierarchical_auc_mse,
    hierarchical_auc_threshold,
    tight_hierarchical_auc_mse,
)

GRID = [
    AUCSetting(negative, positive, height, spread * height, discarded)
    for negative, positive in ((4000, 6000), (10**6, 10**6), (10**3, 10**6), (400, 500))
    for height, spread in itertools.product((2, 6, 20), (1.1, 4.7, 60.0))
    for discarded in ("half", "zero")
]


@pytest.mark.parametrize("setting", GRID, ids=str)
def test_thresholds_minimise_theorem_3(setting):
    a = hierarchical_auc_threshold(setting)
    least = hierarchical_auc_mse(setting)
    assert least == pytest.approx(hierarchical_auc_mse(setting, a))
    for factor in (0.99, 1.01):
        assert least <= hierarchical_auc_mse(setting, 1 + (a - 1) * factor)
    corollary = hierarchical_auc_corollary(setting)
    paper = hierarchical_auc_threshold(setting, "paper")
    assert corollary == pytest.approx(hierarchical_auc_mse(setting, paper))
    assert least <= corollary


def test_the_constant_of_corollary_4():
    """The printed 14 is too small for its own theorem."""
    setting = AUCSetting(4000, 6000, 6, 28.1)
    a = hierarchical_auc_threshold(setting, "paper")
    fourth = (28.1 * 10_000 * 4000**2) ** 0.25
    scale = 28.1 * 6 / (4000 * 6000)
    printed = scale * (20_000 + (4 * a + 1) * 4000 + 14 * fourth)
    assert printed < hierarchical_auc_mse(setting, a)


@pytest.mark.parametrize("setting", GRID, ids=str)
def test_our_bound_proves_theorem_3(setting):
    """With independent levels it is smaller at both thresholds; split users add a drift."""
    for rule in ("optimal", "paper"):
        a = hierarchical_auc_threshold(setting, rule)
        tight = tight_hierarchical_auc_mse(setting, a)
        assert tight <= hierarchical_auc_mse(setting, a)
        assert tight <= tight_hierarchical_auc_mse(setting, a, num_groups=setting.height)


def test_rates():
    """alpha**2 / n for users that are split, whatever is compared with."""
    first = AUCSetting(10**8, 10**8, 10, 47.0)
    second = AUCSetting(10**8, 10**8, 20, 94.0)
    for groups in (1, 0):
        ratio = tight_hierarchical_auc_mse(second, num_groups=groups or 20)
        ratio /= tight_hierarchical_auc_mse(first, num_groups=groups or 10)
        assert 3.5 < ratio < 4.6
    tenth = dataclasses.replace(first, num_negative=10**7, num_positive=10**7)
    assert hierarchical_auc_mse(tenth) / hierarchical_auc_mse(first) == pytest.approx(10, rel=0.2)


def test_bad_settings():
    good = AUCSetting(10, 10, 3, 4.0)
    for field, value in (("num_negative", 0), ("height", 0), ("count_variance", -1.0)):
        with pytest.raises(ValueError, match=field):
            hierarchical_auc_mse(dataclasses.replace(good, **{field: value}))
    with pytest.raises(ValueError, match="discarded"):
        hierarchical_auc_mse(dataclasses.replace(good, discarded="all"))
    with pytest.raises(ValueError, match="threshold"):
        hierarchical_auc_mse(good, 1.0)
    with pytest.raises(ValueError, match="rule"):
        hierarchical_auc_threshold(good, "best")
    assert math.isfinite(tight_hierarchical_auc_mse(good, 0.0))

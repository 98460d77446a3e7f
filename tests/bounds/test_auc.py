"""Bounds on the error of the hierarchical AUC."""

import dataclasses
import itertools
import math

import pytest

from jaxdp.bounds._auc import HierarchicalAUCBounds

GRID = [
    HierarchicalAUCBounds(negative, positive, height, spread * height, discarded)
    for negative, positive in ((4000, 6000), (10**6, 10**6), (10**3, 10**6), (400, 500))
    for height, spread in itertools.product((2, 6, 20), (1.1, 4.7, 60.0))
    for discarded in ("half", "zero")
]


@pytest.mark.parametrize("setting", GRID, ids=str)
def test_thresholds_minimise_theorem_3(setting):
    a = setting.threshold()
    least = setting.theorem()
    assert least == pytest.approx(setting.theorem(a))
    for factor in (0.99, 1.01):
        assert least <= setting.theorem(1 + (a - 1) * factor)
    corollary = setting.corollary()
    paper = setting.threshold("paper")
    assert corollary == pytest.approx(setting.theorem(paper))
    assert least <= corollary


def test_the_constant_of_corollary_4():
    """The printed 14 is too small for its own theorem."""
    setting = HierarchicalAUCBounds(4000, 6000, 6, 28.1)
    a = setting.threshold("paper")
    fourth = (28.1 * 10_000 * 4000**2) ** 0.25
    scale = 28.1 * 6 / (4000 * 6000)
    printed = scale * (20_000 + (4 * a + 1) * 4000 + 14 * fourth)
    assert printed < setting.theorem(a)


@pytest.mark.parametrize("setting", GRID, ids=str)
def test_our_bound_proves_theorem_3(setting):
    """With independent levels it is smaller at both thresholds; split users add a drift."""
    for rule in ("optimal", "paper"):
        a = setting.threshold(rule)
        tight = setting.tight(a)
        assert tight <= setting.theorem(a)
        assert tight <= setting.tight(a, num_groups=setting.height)


def test_rates():
    """alpha**2 / n for users that are split, whatever is compared with."""
    first = HierarchicalAUCBounds(10**8, 10**8, 10, 47.0)
    second = HierarchicalAUCBounds(10**8, 10**8, 20, 94.0)
    for groups in (1, 0):
        ratio = second.tight(num_groups=groups or 20)
        ratio /= first.tight(num_groups=groups or 10)
        assert 3.5 < ratio < 4.6
    tenth = dataclasses.replace(first, num_negative=10**7, num_positive=10**7)
    assert tenth.theorem() / first.theorem() == pytest.approx(10, rel=0.2)


def test_bad_settings():
    good = HierarchicalAUCBounds(10, 10, 3, 4.0)
    for field, value in (("num_negative", 0), ("height", 0), ("count_variance", -1.0)):
        with pytest.raises(ValueError, match=field):
            dataclasses.replace(good, **{field: value})
    with pytest.raises(ValueError, match="discarded"):
        dataclasses.replace(good, discarded="all")
    with pytest.raises(ValueError, match="threshold"):
        good.theorem(1.0)
    with pytest.raises(ValueError, match="rule"):
        good.threshold("best")
    assert math.isfinite(good.tight(0.0))

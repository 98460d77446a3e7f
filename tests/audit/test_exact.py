"""`exact_epsilon` on channels, on params, and on what it refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest

from jaxdp.audit import exact_epsilon
from jaxdp.randomizers import KRR, BinaryResponse, Gaussian, SubsetSelection

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        ([[HALF, HALF], [HALF, HALF]], 0.0),
        ([[HALF, HALF, 0], [HALF, HALF, 0]], 0.0),
        ([[1, 0], [HALF, HALF]], math.inf),
        ([[2 * THIRD, THIRD], [THIRD, 2 * THIRD]], math.log(2)),
        (np.array([[0.75, 0.25], [0.25, 0.75]]), math.log(3)),
        ([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.375, 0.375, 0.25]], math.log(2)),
    ],
)
def test_channels(channel, expected):
    found = exact_epsilon(channel)
    assert found >= expected
    assert found == pytest.approx(expected, rel=1e-15)


def test_rounds_up():
    """The float nearest to ln 2 is below it."""
    found = exact_epsilon([[2 * THIRD, THIRD], [THIRD, 2 * THIRD]])
    assert found == math.nextafter(math.log(2), 1)
    barely = Fraction(1, 2) + Fraction(1, 2**100)
    assert exact_epsilon([[HALF, HALF], [barely, 1 - barely]]) > 0
    for broken in (math.inf, math.nan):
        with pytest.raises(ValueError, match="finite probabilities"):
            exact_epsilon([[HALF, HALF], [broken, 0.5]])


def test_params_are_enumerated():
    for bits in (8, 12):
        krr = KRR(3, 1.0)
        assert exact_epsilon(krr.build(bits), inputs=range(3)) == krr.exact_epsilon(bits)
    binary = BinaryResponse(1.0, bound=2.0)
    inputs = np.array([-2.0, 0.0, 2.0], np.float32)
    assert exact_epsilon(binary.build(8), inputs=inputs) == binary.exact_epsilon(8)
    less = exact_epsilon(binary.build(8), inputs=inputs[1:])
    assert 0 < less < binary.exact_epsilon(8)


def test_without_a_list_of_reports_the_spec_is_asked():
    many = SubsetSelection(100, 1.0)
    assert many.channel() is None
    assert exact_epsilon(many) == many.exact_epsilon()
    assert exact_epsilon(Gaussian(3, 1.0, 1e-6)) == 1.0


@pytest.mark.parametrize(
    ("randomizer", "options", "message"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], {}, "row 0"),
        ([[1.5, -0.5], [0.5, 0.5]], {}, "row 0"),
        ([[1e308, 1e308]] * 2, {}, "randomizer must be rows of finite"),
        ([[10**400]] * 2, {}, "randomizer must be rows of finite"),
        ([[0.5, 0.5]], {}, "two rows"),
        ([[], []], {}, "two rows"),
        ([[0.5, 0.5], [1.0]], {}, "two rows"),
        (KRR(3, 1.0).build(), {}, "max_words"),
        (KRR(3, 1.0).build(8), {"max_words": 0}, "max_words"),
        (KRR(3, 1.0).build(8), {}, "inputs"),
        (BinaryResponse(1.0).build(8), {}, "inputs"),
    ],
)
def test_refusals(randomizer, options, message):
    with pytest.raises(ValueError, match=message):
        exact_epsilon(randomizer, **options)


def test_refuses_what_is_no_randomizer():
    for other in (
        object(),
        "12",
        [1, 2],
        [["a", "b"], [0.5, 0.5]],
        np.ones((2, 2, 1)),
        np.array(1),
    ):
        with pytest.raises(TypeError, match="randomizer must be"):
            exact_epsilon(other)  # pyright: ignore[reportArgumentType]

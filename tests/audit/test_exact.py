"""`exact_epsilon` on channels, on params, and on what it refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest

from jaxdp.audit import exact_epsilon
from jaxdp.randomizers import KRR, BinaryResponse

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


def test_params_are_enumerated():
    for bits in (8, 12):
        krr = KRR(3, 1.0)
        assert exact_epsilon(krr.build(bits)) == krr.exact_epsilon(bits)
    binary = BinaryResponse(1.0, bound=2.0)
    inputs = np.array([-2.0, 0.0, 2.0], np.float32)
    assert exact_epsilon(binary.build(8), inputs=inputs) == binary.exact_epsilon(8)
    less = exact_epsilon(binary.build(8), inputs=inputs[1:])
    assert 0 < less < binary.exact_epsilon(8)


def test_too_long_channels_fall_back_on_the_spec():
    class Long(KRR):
        __slots__ = ()

        def channel(self, word_bits=32):
            raise ValueError("too many reports")

    assert exact_epsilon(Long(5, 1.0)) == KRR(5, 1.0).exact_epsilon()


def test_a_spec_without_a_channel_speaks_for_itself():
    class Continuous:
        def build(self):
            raise NotImplementedError

        def exact_epsilon(self):
            return 0.75

    assert exact_epsilon(Continuous()) == 0.75


@pytest.mark.parametrize(
    ("randomizer", "options", "message"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], {}, "row 0"),
        ([[1.5, -0.5], [0.5, 0.5]], {}, "row 0"),
        ([[0.5, 0.5]], {}, "two rows"),
        ([[0.5, 0.5], [1.0]], {}, "two rows"),
        (KRR(3, 1.0).build(), {}, "max_words"),
        (KRR(3, 1.0).build(8), {"max_words": 0}, "max_words"),
        (BinaryResponse(1.0).build(8), {}, "inputs"),
        (object(), {}, "from_bits"),
    ],
)
def test_refusals(randomizer, options, message):
    with pytest.raises(ValueError, match=message):
        exact_epsilon(randomizer, **options)

"""The pair that hides less than all pairs of a channel, against all pairs and enumeration."""

import math
from fractions import Fraction

import numpy as np
import pytest

from jaxdp.accounting import (
    PairLaw,
    _opposite,
    opposite_pairs,
    pair_shuffle_bracket,
    pair_shuffle_delta,
    shuffle_bracket,
)
from jaxdp.randomizers import KRR, HadamardResponse, Laplace, SubsetSelection
from tests.accounting.test_shuffle_bracket import exact_delta, sixteenths

CHANNELS = [
    sixteenths([8, 4, 4], [4, 8, 4], [4, 4, 8]),
    sixteenths([10, 3, 3], [2, 9, 5], [5, 5, 6]),
    sixteenths([7, 3, 3, 3], [3, 7, 3, 3], [1, 1, 7, 7]),
    sixteenths([12, 4], [3, 13], [8, 8]),
]


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda x: str(x)[-40:])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_brackets_hold_what_enumeration_finds(channel, n):
    """In rational arithmetic; the control is a channel that tells more."""
    further = [[(5 * p - Fraction(1, len(row))) / 4 for p in row] for row in channel]
    for delta in (1e-3, 0.05):
        found = pair_shuffle_bracket(opposite_pairs(channel), n, delta)
        assert exact_delta(channel, n, found.upper) <= delta
        assert found.lower == 0 or exact_delta(channel, n, found.lower) > delta
        tight = shuffle_bracket(channel, n, delta)
        assert tight.upper <= found.upper * (1 + 1e-4)
        assert exact_delta(further, n, tight.lower) > delta


def test_no_random_pair_hides_less(rng):
    """Above all pairs, where rows have no opposite."""
    for size in (3, 5, 8):
        channel = rng.dirichlet(np.full(size, 2.0), size=6)
        above = pair_shuffle_bracket(opposite_pairs(channel), 20_000, 1e-6)
        tight = shuffle_bracket(channel, 20_000, 1e-6)
        assert tight.upper * (1 - 1e-4) <= above.upper < 2 * tight.upper
        assert 0.8 * tight.lower < above.lower <= tight.lower * (1 + 1e-3)
        # One pair alone is no proof.
        close = PairLaw(channel[0], (channel[0] + channel[1]) / 2, channel.min(axis=0), channel)
        assert pair_shuffle_bracket([close], 20_000, 1e-6).upper < 0.9 * above.upper


@pytest.mark.parametrize(
    ("spec", "gap"),
    [(KRR(8, 2.0), 1.0), (HadamardResponse(5, 2.0), 1.0), (SubsetSelection(6, 2.0), 1.15)],
    ids=str,
)
def test_exact_where_values_have_opposites(spec, gap):
    above = pair_shuffle_bracket(opposite_pairs(spec.channel()), 20_000, 1e-6)
    tight = shuffle_bracket(spec.channel(), 20_000, 1e-6)
    assert tight.upper * (1 - 1e-4) <= above.upper <= gap * tight.upper * (1 + 1e-4)


def test_few_ratios_are_enough(monkeypatch):
    """Fewer ratios spread the law, and cost little."""
    spec = Laplace(3.0, steps=40)
    rows = np.array(spec.channel(inputs=np.arange(-40, 41) / 40), np.float64)
    exact = pair_shuffle_bracket(opposite_pairs(rows), 1000, 1e-6).upper
    assert exact == pytest.approx(spec.shuffle_bracket(1000, 1e-6).upper, rel=1e-5)
    found = []
    for most in (40, 10, 3):
        monkeypatch.setattr(_opposite, "_MOST_RATIOS", most)
        found.append(pair_shuffle_bracket(opposite_pairs(rows), 1000, 1e-6).upper)
    assert exact <= found[0] <= found[1] <= found[2]
    assert found[0] < 1.01 * exact
    assert found[2] > 1.05 * exact


def test_both_laws_are_laws_and_the_local_epsilon_is_kept():
    for epsilon in (1e-3, 1.0, 10.0):
        spec = KRR(6, epsilon)
        first, *_ = opposite_pairs(np.array(spec.channel(), np.float64))
        for law in (first.first, first.second):
            assert law.sum() == pytest.approx(1, abs=1e-10)
        assert np.log(first.first / first.second).max() == pytest.approx(
            spec.exact_epsilon(), rel=1e-6
        )
        assert pair_shuffle_delta([first], 1, epsilon * (1 + 1e-6)) < 1e-9
        assert pair_shuffle_delta([first], 1, epsilon / 2) > 1e-5


def test_equal_rows_tell_nothing():
    pairs = opposite_pairs([[0.25, 0.75], [0.25, 0.75], [0.25, 0.75]])
    assert pair_shuffle_bracket(pairs, 10, 1e-6).upper == 0


def test_what_is_refused():
    with pytest.raises(ValueError, match="every value may send"):
        opposite_pairs([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25]])
    with pytest.raises(ValueError, match="at most those of every row"):
        opposite_pairs([[0.5, 0.5], [0.25, 0.75]], least=np.array([0.3, 0.3]))
    with pytest.raises(ValueError, match="opposite_pairs"):
        shuffle_bracket(np.full((100, 100), 0.01), 100, 1e-6)
    assert math.isclose(opposite_pairs(np.full((100, 100), 0.01))[0].least.sum(), 1)

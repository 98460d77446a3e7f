"""The search for the best shuffled channel: its channels, and what it says of them."""

import math

import numpy as np
import pytest

from jaxdp.accounting import pair_shuffle_bracket, shuffle_bracket
from jaxdp.randomizers import KRR, SubsetSelection
from jaxdp_experiments.shuffled_channel import (
    AUGMENTED,
    DELTA,
    EXPERIMENT,
    Sets,
    ShuffledCell,
    SymmetricChannel,
    canonical,
    proven,
)

MIXED = SymmetricChannel(4, (Sets(1, 1.2, 0.7), Sets(2, 0.8, 0.2)))


def test_channels_are_what_is_accounted():
    rows = np.array(MIXED.listed())
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-12)
    listed = shuffle_bracket(rows, 1000, DELTA)
    known = pair_shuffle_bracket([MIXED.pair()], 1000, DELTA)
    assert (known.lower, known.upper) == pytest.approx((listed.lower, listed.upper), rel=1e-4)
    p, q = rows[:2]
    assert MIXED.canonical_divergence() == pytest.approx(float(((p - q) ** 2 / p).sum()))


def test_variances_are_those_of_the_decoders():
    """Of the table, by the pseudoinverse for a uniform histogram; and of two oracles."""
    rows = np.array(MIXED.listed())
    mean = rows.mean(axis=0)
    information = (rows / mean) @ rows.T
    centred = np.eye(4) - 1 / 4
    total = np.trace(centred @ np.linalg.pinv(centred @ information @ centred) @ centred)
    assert MIXED.total_variance() == pytest.approx(total - 3 / 4)
    for oracle, size in ((KRR(5, 2.0), 1), (SubsetSelection(5, 2.0, subset_size=2), 2)):
        channel = SymmetricChannel(5, (Sets(size, 2.0, 1.0),))
        expected = float(np.sum(oracle.variance([1, 0, 0, 0, 0])))
        assert channel.total_variance() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("sizes", [(1, 2), (1, 3), (2, 3)])
def test_no_mixture_beats_k_ary_response(sizes):
    best = proven(4, 10_000, 0.25, (1,), np.zeros(3)).total_variance()
    for shape in ((0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (0.05, 0.3, -0.5), (0.0, 0.9, 0.2)):
        found = proven(4, 10_000, 0.25, sizes, np.array(shape)).total_variance()
        assert found > best * (1 + 1e-3) or sizes == (1, 1)


@pytest.mark.parametrize("num_values", [4, 16, 64])
def test_augmented_response_wins_where_others_hold_the_users_value(num_values):
    """By the factor for a vanishing budget; and others with a third value show that it is false."""
    pair = [canonical(num_values, 100, 1e-4, augmented) for augmented in (False, True)]
    gain = 2 * num_values / (1 + math.sqrt(num_values - 1)) ** 2
    ratio = pair[0].total_variance() / pair[1].total_variance()
    assert ratio == pytest.approx(gain, rel=0.01)
    assert pair[1].sets[0].epsilon == pytest.approx(math.log(num_values - 1) / 2, rel=0.02)
    worst = pair[1].pair()
    third = worst.others[0]
    seen = third > 0
    divergence = np.sum((worst.first - worst.second)[seen] ** 2 / third[seen])
    assert divergence > 1.15 * pair[1].canonical_divergence()


def test_cells_and_rows():
    cells = EXPERIMENT.cells(EXPERIMENT.settings)
    assert len({cell.labels for cell in cells}) == len(cells) == 16
    rows = {row["channel"]: row for row in ShuffledCell("canonical", 16, 10_000, 0.01).rows()}
    augmented = rows[AUGMENTED]
    assert augmented["loss"] < -0.05
    assert augmented["attained"] > 1.2 * augmented["canonical"] > 1.2 * 0.0099

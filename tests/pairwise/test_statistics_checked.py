"""What all protocols check of a statistic: matrices that are not symmetric, labels of one class."""

import numpy as np
import pytest

from jaxdp import Population
from jaxdp.pairwise import (
    AUC,
    BilinearAUC,
    GiniDiversity,
    Grid,
    OneReport,
    OneStep,
    OracleStatistic,
    ProductGrid,
    QuantizedRR,
    ThreeRound,
    TwoReport,
    TwoRound,
)
from jaxdp.randomizers import KRR
from jaxdp.trusted import AllPairs, PairSampling, ShuffledSum

LOPSIDED = np.triu(np.ones((3, 3)), 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda w: OneReport(w, 1.0),
        lambda w: TwoReport(w, 1.0),
        lambda w: OneStep(w, 1.0),
        lambda w: TwoRound(w, 1.0),
        lambda w: ThreeRound(w, 1.0),
        lambda w: OracleStatistic(w, KRR(3, 1.0)),
        lambda w: ShuffledSum(w, 1.0, 1e-6, num_users=100),
        lambda w: PairSampling(w, 1.0),
        lambda w: AllPairs(w, 1.0, 20),
    ],
    ids="one two step two-round three-round oracle sum sampling all".split(),
)
def test_matrices_are_made_symmetric(make):
    with pytest.warns(UserWarning, match="not symmetric") as caught:
        spec = make(LOPSIDED)
    assert caught[0].filename == __file__
    assert spec == make((LOPSIDED + LOPSIDED.T) / 2)


SCORES = ProductGrid((Grid(edges=(0.5,)), Grid.uniform(2)))
PROTOCOLS = {
    "quantized": QuantizedRR(AUC(), 1.0, (2, 2)),
    "oracle": OracleStatistic(AUC(), KRR(4, 1.0), (2, 2)),
    "one-report": OneReport(AUC(), 1.0, (2, 2)),
    "several": OneReport((GiniDiversity(), AUC()), 1.0, (2, 2)),
    "sizes": OracleStatistic(AUC(class_sizes=(5000, 5000)), KRR(4, 1.0), (2, 2)),
    "bilinear": BilinearAUC(2, 1.0),
    "private": BilinearAUC(2, 1.0, labels="private"),
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_users_of_one_label_have_no_area(name):
    for counts in ([300, 700, 0, 0], [0, 0, 300, 700]):
        for users in (
            Population.from_histogram(counts),
            Population.from_distribution(np.array(counts) / 1000, 1000),
        ):
            with pytest.raises(ValueError, match="both labels"):
                PROTOCOLS[name].check_population(users)
    PROTOCOLS[name].check_population(Population.from_histogram([3000, 2000, 1000, 4000]))


@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name != "sizes"])
def test_classes_too_small_for_the_noise(name):
    """The warning has the number: the predicted error, above that of answering 1/2."""
    with pytest.warns(UserWarning, match="class has 2 users.*root mean squared error"):
        PROTOCOLS[name].check_population(Population.from_histogram([300, 698, 0, 2]))


def test_sizes_that_are_not_those_of_the_classes():
    with pytest.raises(ValueError, match="class_sizes"):
        PROTOCOLS["sizes"].check_population(Population.from_histogram([3000, 2000, 1000, 3000]))


def test_labels_on_a_grid():
    protocol = QuantizedRR(AUC(), 4.0, grid=SCORES)
    scores = np.linspace(0, 1, 1000, dtype=np.float32)
    users = np.column_stack([np.zeros(1000, np.float32), scores])
    with pytest.raises(ValueError, match="both labels"):
        protocol.check_population(Population.from_values(users))
    users[500:, 0] = 1
    protocol.check_population(Population.from_values(users))

"""Channels given by their tables."""

import numpy as np

from jaxdp._spec import check_epsilon
from jaxdp.randomizers import FiniteChannel
from tests.contracts.case import Case

LIKELY = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0]], bool)
FLAT = [[0.5, 0.5], [0.5, 0.5]]


def channel(epsilon) -> FiniteChannel:
    """Three values, two of five reports likelier by e**epsilon for each."""
    table = np.where(LIKELY, np.exp(check_epsilon(epsilon)), 1.0)
    return FiniteChannel(table / table[0].sum(), epsilon)


def bad(name, table=FLAT, epsilon=None):
    return lambda: FiniteChannel(table, epsilon), name


CASES = (
    Case(
        "finite-channel",
        channel,
        counts=(500, 300, 200),
        epsilons=(0.5, 1.0, 4.0),
        bad=(
            bad("epsilon", [[0.8, 0.2], [0.2, 0.8]], 1.0),
            bad("table", [[0.8, 0.3], [0.2, 0.7]]),
            bad("table", [[1.5, -0.5], [0.5, 0.5]]),
            bad("table", [[1.0, 0.0], [0.5, 0.5]]),
            bad("table", [[float("nan"), 0.5], [0.5, 0.5]]),
            bad("table", [[3, 1], [1, 2]]),
            bad("table", [["a", "b"], ["b", "a"]]),
        ),
    ),
)

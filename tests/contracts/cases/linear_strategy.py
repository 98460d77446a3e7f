"""Linear queries through optimized channels."""

import numpy as np

from jaxdp.linear import OptimizedStrategy
from tests.contracts.case import Case
from tests.contracts.cases.finite_channel import FLAT, channel

QUERIES = np.array([[1.0, 0, 0], [1, 1, 0], [-0.5, 2, 0.25]])


def bad(name, workload=QUERIES, **options):
    return lambda: OptimizedStrategy(workload, 1.0, **options), name


CASES = (
    Case(
        "optimized-strategy",
        lambda e: OptimizedStrategy(QUERIES, e, objective="mean", channel=channel(e).table),
        counts=(500, 300, 200),
        epsilons=(0.5, 1.0, 4.0),
        bad=(
            bad("num_outputs", num_outputs=1),
            bad("num_outputs", num_outputs=2**24),
            bad("num_outputs", num_outputs=7, channel=channel(1.0).table),
            bad("objective", objective="best"),
            bad("objective", objective=[1.0, 1.0]),
            bad("objective", objective=[1.0, -1.0, 0.5]),
            bad("objective", objective=[0, 0, 0]),
            bad("channel", channel=FLAT),
            bad("channel", channel=np.full((3, 4), 0.25)),
            bad("epsilon", channel=channel(1.5).table),
        ),
        variant=True,
    ),
)

"""Linear queries through frequency oracles."""

from typing import Any

import numpy as np

from jaxdp.linear import HierarchicalQueries, HistogramQuery, OracleQueries
from jaxdp.randomizers import KRR, HadamardBit, HadamardResponse, Laplace, UnaryEncoding
from tests.contracts.case import Case

RANGES = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 1, 0], [0.5, 0, 0, -1, 2]])
PREFIX = np.tril(np.ones((4, 5)))


def tree(epsilon, **options):
    """A tree of two levels, {0, 1, 2}, {3, 4} and single values, of one structure."""
    pinned: dict[str, Any] = dict(branching=3, oracle=KRR, level_weights=(1.0, 2.0))
    return HierarchicalQueries(PREFIX, epsilon, **pinned | options)


def one_block(num_values, epsilon):
    """Hadamard response of one structure for all epsilons."""
    return HadamardResponse(num_values, epsilon, num_blocks=1)


CASES = (
    Case(
        "histogram-hadamard-bit",
        lambda e: HistogramQuery(HadamardBit(5, e)),
        counts=(400, 0, 100, 300, 200),
        variant=True,
    ),
    Case(
        "oracle-queries-unary",
        lambda e: OracleQueries(RANGES, UnaryEncoding(5, e)),
        counts=(400, 0, 100, 300, 200),
        bad=((lambda: OracleQueries(RANGES.T, KRR(5, 1.0)), "oracle.*5.*3 columns"),),
        variant=True,
    ),
    Case(
        "hierarchical-prefix",
        tree,
        counts=(400, 0, 100, 300, 200),
        bad=(
            (lambda: tree(1.0, branching=1), "branching"),
            (lambda: tree(1.0, branching=6), "branching"),
            (lambda: tree(1.0, branching=None), "branching"),
            (lambda: tree(1.0, oracle=lambda k, e: Laplace(e)), "oracle"),
            (lambda: tree(1.0, oracle=lambda k, e: e), "oracle"),
            (lambda: tree(1.0, level_weights=(1.0,)), "level_weights"),
            (lambda: tree(1.0, level_weights=(1.0, -1.0)), "level_weights"),
            (lambda: tree(1.0, level_weights="ab"), "level_weights"),
            (lambda: HierarchicalQueries(np.ones((3, 1)), 1.0), "workload.*column"),
        ),
    ),
    Case(
        "hierarchical-intervals",
        lambda e: tree(e, oracle=one_block, consistency=False),
        counts=(400, 0, 100, 300, 200),
        variant=True,
    ),
)

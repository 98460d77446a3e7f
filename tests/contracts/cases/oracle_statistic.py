"""Statistics of pairs and triples from frequency oracles, of triples from vectors, and queries."""

import numpy as np

from jaxdp.pairwise import (
    GiniDiversity,
    GiniMeanDifference,
    OracleStatistic,
    QueriesFromPairs,
    TripleForm,
    TripleRatio,
    TripleStatistic,
    mean_range,
    triangles,
)
from jaxdp.randomizers import KRR, HadamardResponse, LocalHashing, SubsetSelection
from tests.contracts.case import Case


def _queries(epsilon, kernel=None, **options):
    """Linear queries from what estimates a statistic of pairs."""
    kernel = GiniMeanDifference() if kernel is None else kernel
    return QueriesFromPairs(OracleStatistic(kernel, KRR(3, epsilon)), **options)


CASES = (
    Case(
        "oracle-statistic-hadamard",
        lambda e: OracleStatistic(GiniMeanDifference(), HadamardResponse(5, e, num_blocks=2)),
        counts=(400, 0, 100, 300, 200),
        bad=(
            (lambda: OracleStatistic(GiniDiversity(), HadamardResponse(5, 1.0), 4), "num_values"),
        ),
    ),
    Case(
        "oracle-statistic-subset",
        lambda e: OracleStatistic(GiniMeanDifference(), SubsetSelection(5, e, subset_size=2)),
        counts=(400, 0, 100, 300, 200),
        variant=True,
    ),
    Case(
        "oracle-statistic-hashing",
        lambda e: OracleStatistic(GiniMeanDifference(), LocalHashing(5, e, hash_range=4)),
        counts=(400, 0, 100, 300, 200),
        variant=True,
    ),
    Case(
        "queries-from-pairs",
        _queries,
        counts=(50, 20, 30),
        variant=True,
    ),
    Case(
        "queries-from-pairs-once",
        lambda e: _queries(e, num_reports=1),
        counts=(50, 20, 30),
        variant=True,
    ),
    Case(
        "triple-statistic",
        lambda e: TripleStatistic(mean_range(range(4)), KRR(4, e)),
        counts=(400, 0, 100, 300),
        bad=(
            (lambda: TripleStatistic(mean_range(range(4)), KRR(5, 1.0)), "kernel.*domain"),
            (lambda: TripleStatistic(mean_range(range(4)), SubsetSelection(4, 1.0)), "oracle"),
        ),
    ),
    Case(
        "triple-form",
        lambda e: TripleForm(mean_range(range(4)), e),
        counts=(400, 0, 100, 300),
        floats=True,
        bad=(
            (lambda: TripleForm(np.ones((2, 3, 2)), 1.0), "kernel"),
            (lambda: TripleForm(mean_range(range(4)), 1.0, KRR), "randomizer"),
        ),
    ),
    Case(
        "triple-ratio",  # the mean range of three users who are not all alike
        lambda e: TripleRatio(mean_range(range(3)), 1 - triangles(np.eye(3)), KRR(3, e)),
        counts=(3000, 2000, 4000),
        variant=True,
        unbiased=False,
    ),
)

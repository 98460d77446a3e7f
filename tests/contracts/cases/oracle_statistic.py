"""Pairwise statistics from frequency oracles."""

from jaxdp.pairwise import GiniDiversity, GiniMeanDifference
from jaxdp.pairwise._oracle_statistic import OracleStatistic
from jaxdp.randomizers import HadamardResponse, Laplace, LocalHashing, SubsetSelection
from tests.contracts.case import Case

CASES = (
    Case(
        "oracle-statistic-hadamard",
        lambda e: OracleStatistic(GiniMeanDifference(), HadamardResponse(5, e)),
        counts=(400, 0, 100, 300, 200),
        finite=False,
        bad=(
            (lambda: OracleStatistic(GiniDiversity(), HadamardResponse(5, 1.0), 4), "num_values"),
            (lambda: OracleStatistic(GiniDiversity(), Laplace(1.0)), "oracle"),  # pyright: ignore
        ),
    ),
    Case(
        "oracle-statistic-subset",
        lambda e: OracleStatistic(GiniMeanDifference(), SubsetSelection(5, e, subset_size=2)),
        counts=(400, 0, 100, 300, 200),
        finite=False,
        variant=True,
    ),
    Case(
        "oracle-statistic-hashing",
        lambda e: OracleStatistic(GiniMeanDifference(), LocalHashing(5, e)),
        counts=(400, 0, 100, 300, 200),
        finite=False,
        has_law=False,
        variant=True,
    ),
)

"""Pairwise statistics in the shuffle model."""

from jaxdp.pairwise import GiniDiversity, GiniMeanDifference, QuantizedRR
from jaxdp.trusted import ShuffledReports, ShuffledSum
from tests.contracts.case import Case

CASES = (
    Case(
        "shuffled-sum",
        lambda e: ShuffledSum(GiniMeanDifference(), e, 1e-6, num_users=1000, num_values=5),
        counts=(400, 0, 100, 300, 200),
        floats=True,  # of the noise
        variant=True,
    ),
    Case(
        "shuffled-reports",
        lambda e: ShuffledReports(QuantizedRR(GiniDiversity(), e, 5), 1000, 1e-6),
        counts=(400, 0, 100, 300, 200),
        variant=True,
    ),
)

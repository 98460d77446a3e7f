"""Protocols with a shuffler or a secure sum."""

from jaxdp.pairwise import GiniDiversity, GiniMeanDifference, QuantizedRR
from jaxdp.trusted import SecureSum, Shuffled, ShuffledSum
from jaxdp.workloads import prefix
from tests.contracts.case import Case

CASES = (
    Case(
        "secure-sum",
        lambda e: SecureSum(prefix(5), e, 1e-6, num_users=1000),
        counts=(400, 0, 100, 300, 200),
        variant=True,
    ),
    Case(
        "shuffled-sum",
        lambda e: ShuffledSum(GiniMeanDifference(), e, 1e-6, num_users=1000, num_values=5),
        counts=(400, 0, 100, 300, 200),
        floats=True,  # of the noise
        variant=True,
    ),
    Case(
        "shuffled-reports",
        lambda e: Shuffled(QuantizedRR(GiniDiversity(), e, 5), 1000, 1e-6),
        counts=(400, 0, 100, 300, 200),
        variant=True,
    ),
)

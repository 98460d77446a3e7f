"""Randomized response on a finite domain and for a bounded number."""

from jaxdp.randomizers import KRR, BinaryResponse
from tests.contracts.case import Case

CASES = (
    Case(
        "krr-2",
        lambda e: KRR(2, e),
        counts=(700, 300),
        bad=(
            (lambda: KRR(4, 25.0), "epsilon"),
            (lambda: KRR(2**20, 0.01), "epsilon"),
        ),
        variant=True,
    ),
    Case("krr-5", lambda e: KRR(5, e), counts=(400, 0, 100, 300, 200)),
    Case(
        "krr-16",
        lambda e: KRR(16, e),
        counts=(7,) * 15 + (900,),
        epsilons=(0.8, 1.0, 4.0),
        variant=True,
    ),
    Case(
        "binary",
        BinaryResponse,
        counts=(300, 200, 400, 100),
        values=(-1.0, -0.25, 0.5, 1.0),
        epsilons=(0.1, 1.0, 3.0),
        bad=(
            (lambda: BinaryResponse(20.0), "epsilon"),
            (lambda: BinaryResponse(1e-9), "epsilon"),
        ),
    ),
    Case(
        "binary-wide",
        lambda e: BinaryResponse(e, bound=100.0),
        counts=(300, 200, 400),
        values=(-100.0, 12.5, 50.0),
        epsilons=(1.0,),
        variant=True,
    ),
)

"""Statistics of pairs from two reports of vectors."""

import numpy as np

from jaxdp.pairwise import AUC, GiniMeanDifference, TwoReport
from jaxdp.randomizers import PrivUnit
from tests.contracts.case import Case

COUNTS = (40, 0, 10, 30, 20)
LEFT = np.where(np.arange(4)[:, None] < np.arange(5), 0.5, -0.5)
GINI = GiniMeanDifference()
LOPSIDED = np.triu(np.ones((5, 5)))


def given(**options):
    return TwoReport(GINI, 1.0, 5, **options)


CASES = (
    Case(
        "two-report",
        lambda e: TwoReport(GINI, e, 5, form="v", factorization=(LEFT, -2 * LEFT, 2.0)),
        counts=COUNTS,
        floats=True,
        bad=(
            (lambda: TwoReport(GINI, 1.0), "num_values"),
            (lambda: TwoReport(AUC(), 1.0, (2, 3), factorization=(LEFT, LEFT)), "factorization"),
            (lambda: given(rank=6), "rank"),
            (lambda: given(alpha=2.0), "alpha must be below 2"),
            (lambda: given(alpha=4.0, shift=False), "alpha must be below 4"),
            (lambda: given(num_users=10, alpha=0.1), "num_users"),
            (lambda: given(factorization=LEFT), "factorization"),
            (lambda: given(factorization=(LEFT, -2 * LEFT)), "factorization.*alpha"),
            (lambda: given(factorization=(LEFT, LEFT[:2])), "factorization.*shape"),
            (lambda: given(factorization=(LEFT, -2 * LEFT, np.full(5, 2.0))), "shift of shape"),
            (lambda: given(factorization=(LEFT, -2 * LEFT, 2.0), rank=2), "rank"),
            (lambda: given(factorization=(LEFT, -2 * LEFT, 2.0), num_users=9), "num_users"),
            (lambda: TwoReport(LOPSIDED, 1.0, factorization=(LEFT, LEFT)), "symmetric"),
        ),
    ),
    Case(
        "two-report-products",
        lambda e: TwoReport(GINI, e, 5, factorization=(LEFT, -2 * LEFT, 2.0)),
        counts=COUNTS,
        floats=True,
        variant=True,
    ),
    Case(
        "two-report-plug-in",
        lambda e: TwoReport(AUC(), e, (2, 3)),
        counts=(30_000, 20_000, 0, 10_000, 20_000, 20_000),
        epsilons=(1.0, 4.0),
        floats=True,
        variant=True,
        unbiased=False,
    ),
    Case(
        "two-report-pairs",
        lambda e: TwoReport(GINI, e, 5, randomizer=PrivUnit),
        counts=COUNTS,
        floats=True,
        variant=True,
    ),
)

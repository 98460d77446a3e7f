"""Statistics of pairs from two reports of vectors."""

import numpy as np

from jaxdp.pairwise import AUC, GiniMeanDifference
from jaxdp.pairwise._two_report import TwoReport
from jaxdp.randomizers import PrivUnit
from tests.contracts.case import Case, bad_epsilons

COUNTS = (40, 0, 10, 30, 20)
LEFT = np.where(np.arange(4)[:, None] < np.arange(5), 0.5, -0.5)
GINI = GiniMeanDifference()
LOPSIDED = np.triu(np.ones((5, 5)))


def given(**options):
    return TwoReport(GINI, 1.0, 5, **options)


# `density` says that reports are floats; these are no randomizers, so no density is asked for.
CASES = (
    Case(
        "two-report",
        lambda e: TwoReport(GINI, e, 5, form="v", factorization=(LEFT, -2 * LEFT, 2.0)),
        counts=COUNTS,
        finite=False,
        density=True,
        bad=(
            *bad_epsilons(lambda e: TwoReport(GINI, e, 5)),
            (lambda: TwoReport(GINI, 1.0), "num_values"),
            (lambda: TwoReport(AUC(), 1.0, (2, 3)), "kernel must be linear"),
            (lambda: given(form="w"), "form"),
            (lambda: given(rank=0), "rank"),
            (lambda: given(rank=6), "rank"),
            (lambda: given(alpha=-0.1), "alpha"),
            (lambda: given(alpha=float("nan")), "alpha"),
            (lambda: given(alpha=2.0), "alpha must be below 2"),
            (lambda: given(alpha=4.0, shift=False), "alpha must be below 4"),
            (lambda: given(num_users=1), "num_users"),
            (lambda: given(num_users=10, alpha=0.1), "num_users"),
            (lambda: given(reduction="svd"), "reduction"),
            (lambda: given(shift=None), "shift"),
            (lambda: given(randomizer=7), "randomizer"),
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
        "two-report-pairs",
        lambda e: TwoReport(GINI, e, 5, randomizer=PrivUnit),
        counts=COUNTS,
        finite=False,
        has_law=False,
        density=True,
        variant=True,
    ),
)

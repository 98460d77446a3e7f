"""Statistics of pairs from one report of a vector."""

import numpy as np

from jaxdp.pairwise import AUC, GiniDiversity, GiniMeanDifference, OneReport
from jaxdp.randomizers import KRR, L2Ball, PrivUnit
from tests.contracts.case import Case

COUNTS = (40, 0, 10, 30, 20)
LEFT = np.where(np.arange(4)[:, None] < np.arange(5), 0.5, -0.5)
SIGNS = np.full(4, -2.0)
GINI = GiniMeanDifference()
LOPSIDED = np.triu(np.ones((5, 5)))


def given(**options):
    return OneReport(GINI, 1.0, 5, **options)


CASES = (
    Case(
        "one-report",
        lambda e: OneReport(GINI, e, 5, factorization=(LEFT, SIGNS, 2.0)),
        counts=COUNTS,
        floats=True,
        bad=(
            (lambda: OneReport(GINI, 1.0), "num_values"),
            (lambda: OneReport("gini", 1.0, 5), "kernel|matrix"),
            (lambda: OneReport((GINI, "gini"), 1.0, 5), "kernel"),
            (lambda: OneReport((GINI, GINI), 1.0), "num_values"),
            (lambda: OneReport(np.ones((5, 4)), 1.0), "square"),
            (lambda: OneReport(np.ones((5, 5)) * np.nan, 1.0), "finite"),
            (lambda: given(rank=6), "rank"),
            (lambda: given(weights=(1.0, 1.0)), "weights"),
            (lambda: given(weights=(-1.0,)), "weights"),
            (lambda: given(randomizer=lambda dim, epsilon, radius: KRR(5, epsilon)), "randomizer"),
            (lambda: given(randomizer=L2Ball, form="v"), "randomizer.*form"),
            (lambda: given(factorization=LEFT), "factorization"),
            (lambda: given(factorization=(LEFT, SIGNS)), "factorization.*off by"),
            (lambda: given(factorization=(LEFT * np.nan, SIGNS, 2.0)), "factorization"),
            (lambda: given(factorization=(LEFT.T, SIGNS, 2.0)), "factorization.*shape"),
            (lambda: given(factorization=(LEFT, SIGNS, 2.0), rank=2), "rank"),
            (lambda: given(factorization=(LEFT, SIGNS, 2.0), num_users=9), "num_users"),
            (lambda: OneReport(LOPSIDED, 1.0, factorization=(LEFT, SIGNS)), "symmetric"),
            (
                lambda: OneReport(AUC(), 1.0, (2, 3), factorization=(LEFT, SIGNS)),
                "factorization.*averages",
            ),
        ),
    ),
    Case(
        "one-report-sum",
        lambda e: OneReport(GINI, e, 5, form="v"),
        counts=COUNTS,
        floats=True,
        variant=True,
    ),
    Case(
        "one-report-sphere",
        lambda e: OneReport(GINI, e, 5, form="v", randomizer=PrivUnit),
        counts=COUNTS,
        floats=True,
        variant=True,
    ),
    Case(
        "one-report-several",
        lambda e: OneReport((GINI, GiniDiversity()), e, 5),
        counts=COUNTS,
        floats=True,
        variant=True,
    ),
)

"""Linear queries whose users report vectors."""

import numpy as np

from jaxdp.linear import FactorizedQueries, GaussianQueries, LaplaceQueries, RejectionQueries
from jaxdp.randomizers import Gaussian, L2Ball
from tests.contracts.case import Case

QUERIES = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 1, 0], [0.5, 0, 0, -1, 2]])
COUNTS = (40, 0, 10, 30, 20)
LEFT, RIGHT = np.eye(3), QUERIES - 0.25
FACTORS = (LEFT, RIGHT, 0.25)  # given: cases are built when tests are collected


def given(**options):
    return FactorizedQueries(QUERIES, 1.0, **options)


CASES = (
    Case(
        "factorized-queries",
        lambda e: FactorizedQueries(QUERIES, e, factorization=FACTORS),
        counts=COUNTS,
        floats=True,
        bad=(
            (lambda: given(num_users=10, alpha=0.1), "num_users"),
            (lambda: given(randomizer=Gaussian), "delta.*functools.partial"),
            (lambda: given(factorization=(LEFT, RIGHT)), "factorization.*alpha"),
            (lambda: given(factorization=LEFT), "factorization"),
            (lambda: given(factorization=(RIGHT, LEFT)), "left.*m = 3"),
            (lambda: given(factorization=(LEFT, RIGHT.T)), "right.*k = 5"),
            (lambda: given(factorization=(LEFT, RIGHT[:2], 0.25)), "factorization.*rows"),
            (lambda: given(factorization=(LEFT, RIGHT, np.ones(2))), "factorization.*shift"),
            (lambda: given(factorization=(LEFT, RIGHT * np.nan, 0.25)), "factorization"),
        ),
    ),
    Case(
        "factorized-queries-biased",
        lambda e: FactorizedQueries(
            QUERIES, e, alpha=0.3, factorization=(LEFT, 0.9 * RIGHT, 0.25), randomizer=L2Ball
        ),
        counts=COUNTS,
        floats=True,
        variant=True,
        unbiased=False,
    ),
    Case(
        "gaussian-queries",
        lambda e: GaussianQueries(QUERIES, e, 1e-3),
        counts=COUNTS,
        floats=True,
        variant=True,
    ),
    Case(
        "rejection-queries",
        lambda e: RejectionQueries(QUERIES, e),
        counts=COUNTS,
        floats=True,
        bad=(
            (lambda: RejectionQueries(QUERIES, 1.0, "as_printed"), "num_users"),
            (lambda: RejectionQueries(QUERIES, 1.0, num_users=10), "num_users"),
            (lambda: RejectionQueries(QUERIES, 3.0, "as_printed", 1000), "epsilon"),
        ),
        variant=True,
    ),
    Case(
        "rejection-queries-printed",
        lambda e: RejectionQueries(QUERIES, e, "as_printed", 1000),
        counts=COUNTS,
        epsilons=(0.5, 1.0),
        floats=True,
        variant=True,
        unbiased=False,
    ),
    Case(
        "laplace-queries",
        lambda e: LaplaceQueries(QUERIES, e),
        counts=COUNTS,
        floats=True,
        variant=True,
    ),
)

"""Linear queries whose users report vectors."""

import numpy as np

from jaxdp.linear._factorized_queries import FactorizedQueries
from jaxdp.linear._gaussian_queries import GaussianQueries
from jaxdp.linear._laplace_queries import LaplaceQueries
from jaxdp.linear._rejection_queries import RejectionQueries
from jaxdp.randomizers import Gaussian, L2Ball
from tests.contracts.case import Case, bad_epsilons

QUERIES = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 1, 0], [0.5, 0, 0, -1, 2]])
COUNTS = (40, 0, 10, 30, 20)
LEFT, RIGHT = np.eye(3), QUERIES - 0.25
FACTORS = (LEFT, RIGHT, 0.25)  # given: cases are built when tests are collected


def bad(make):
    """Invalid constructions of a spec of a workload and epsilon."""
    return (
        *bad_epsilons(lambda e: make(QUERIES, e)),
        (lambda: make(QUERIES * np.nan, 1.0), "workload"),
        (lambda: make(QUERIES[0], 1.0), "workload"),
        (lambda: make(QUERIES[:0], 1.0), "workload"),
        (lambda: make(QUERIES[:, :0], 1.0), "workload"),
        (lambda: make("W", 1.0), "workload"),
    )


def given(**options):
    return FactorizedQueries(QUERIES, 1.0, **options)


# `density` says that reports are floats; these are no randomizers, so no density is asked for.
CASES = (
    Case(
        "factorized-queries",
        lambda e: FactorizedQueries(QUERIES, e, factorization=FACTORS),
        counts=COUNTS,
        finite=False,
        density=True,
        bad=(
            *bad(FactorizedQueries),
            (lambda: given(num_users=0), "num_users"),
            (lambda: given(num_users=10.5), "num_users"),
            (lambda: given(num_users=10, alpha=0.1), "num_users"),
            (lambda: given(alpha=-0.1), "alpha"),
            (lambda: given(alpha=float("nan")), "alpha"),
            (lambda: given(norm="max ", alpha=0.1), "norm"),
            (lambda: given(norm="mean", alpha=0.1), "norm"),
            (lambda: given(norm="mean", num_users=10), "norm"),
            (lambda: given(randomizer="PrivUnitG"), "randomizer"),
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
        finite=False,
        density=True,
        variant=True,
        unbiased=False,
    ),
    Case(
        "gaussian-queries",
        lambda e: GaussianQueries(QUERIES, e, 1e-3),
        counts=COUNTS,
        finite=False,
        density=True,
        variant=True,
        bad=(
            *bad(lambda workload, epsilon: GaussianQueries(workload, epsilon, 1e-3)),
            (lambda: GaussianQueries(QUERIES, 1.0, 0.0), "delta"),
            (lambda: GaussianQueries(QUERIES, 1.0, 1.0), "delta"),
            (lambda: GaussianQueries(QUERIES, 1.0, None), "delta"),  # pyright: ignore
            (lambda: GaussianQueries(QUERIES, 1.0, 0.1, "printed"), "calibration"),
        ),
    ),
    Case(
        "rejection-queries",
        lambda e: RejectionQueries(QUERIES, e),
        counts=COUNTS,
        finite=False,
        density=True,
        bad=(
            *bad(RejectionQueries),
            (lambda: RejectionQueries(QUERIES, 1.0, "printed"), "variant"),
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
        finite=False,
        density=True,
        variant=True,
        unbiased=False,
    ),
    Case(
        "laplace-queries",
        lambda e: LaplaceQueries(QUERIES, e),
        counts=COUNTS,
        finite=False,
        density=True,
        variant=True,
        bad=bad(LaplaceQueries),
    ),
)

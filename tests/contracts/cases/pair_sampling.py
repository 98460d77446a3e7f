"""Pairs of users who report together."""

import numpy as np

from jaxdp.pairwise import AllPairs, GiniMeanDifference, KendallTau, PairSampling
from tests.contracts.case import Case, bad_epsilons

CASES = (
    Case(
        "pairs-laplace",
        lambda e: PairSampling(GiniMeanDifference(), e, num_values=4, num_permutations=2),
        counts=(300, 0, 101, 200),
        bad=(
            *bad_epsilons(lambda e: PairSampling(GiniMeanDifference(), e, num_values=4)),
            (lambda: PairSampling(GiniMeanDifference(), 1.0), "num_values"),
            (lambda: PairSampling(GiniMeanDifference(), 1.0, 4, num_permutations=0), "num_perm"),
            (lambda: PairSampling(GiniMeanDifference(), 1.0, 4, noise="none"), "noise"),
            (lambda: PairSampling(GiniMeanDifference(), 1.0, 4, delta=2.0), "delta"),
            (lambda: PairSampling(np.ones((3, 3)), 1.0), "kernel"),  # pyright: ignore
            (lambda: PairSampling(np.eye(3) - 2 * np.eye(3)[::-1], 1.0, form="v"), "form"),  # pyright: ignore
        ),
        finite=False,
        variant=True,
    ),
    Case(
        "pairs-krr",
        lambda e: PairSampling(KendallTau(), e, num_values=(2, 2), noise="krr"),
        counts=(250, 50, 70, 230),
        finite=False,
    ),
    Case(
        "all-pairs",
        lambda e: AllPairs(GiniMeanDifference(), e, num_users=2000, num_values=4, noise="krr"),
        counts=(8, 0, 5, 7),
        bad=(
            *bad_epsilons(lambda e: AllPairs(GiniMeanDifference(), e, 10, num_values=4)),
            (lambda: AllPairs(GiniMeanDifference(), 1.0, 10), "num_values"),
            (lambda: AllPairs(GiniMeanDifference(), 1.0, 1, num_values=4), "num_users"),
        ),
        finite=False,
        variant=True,
        any_size=False,
    ),
)

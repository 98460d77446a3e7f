"""Pairs of users who report together."""

import numpy as np

from jaxdp.pairwise import GiniMeanDifference, KendallTau
from jaxdp.trusted import AllPairs, PairSampling
from tests.contracts.case import Case

CASES = (
    Case(
        "pairs-laplace",
        lambda e: PairSampling(GiniMeanDifference(), e, num_values=4, num_permutations=2),
        counts=(60, 0, 21, 40),
        bad=(
            (lambda: PairSampling(GiniMeanDifference(), 1.0), "num_values"),
            (lambda: PairSampling(np.ones((3, 3)), 1.0), "kernel"),  # pyright: ignore
            (lambda: PairSampling(np.eye(3) - 2 * np.eye(3)[::-1], 1.0, form="v"), "form"),  # pyright: ignore
        ),
        variant=True,
    ),
    Case(
        "pairs-krr",
        lambda e: PairSampling(KendallTau(), e, num_values=(2, 2), noise="krr"),
        counts=(250, 50, 70, 230),
    ),
    Case(
        "all-pairs",
        lambda e: AllPairs(GiniMeanDifference(), e, num_users=2000, num_values=4, noise="krr"),
        counts=(8, 0, 5, 7),
        bad=((lambda: AllPairs(GiniMeanDifference(), 1.0, 10), "num_values"),),
        variant=True,
        any_size=False,
    ),
)

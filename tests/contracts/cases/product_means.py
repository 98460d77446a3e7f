"""Means of products of features, from vector reports."""

import functools

from jaxdp.linear import GramQueries, MarginalQueries
from jaxdp.randomizers import CandidateResponse
from tests.contracts.case import Case

# The release form, of few candidates so that tests are fast.
FEW = functools.partial(CandidateResponse, num_candidates=16, num_high=4)

# `variant`: of the protocols of vectors.
CASES = (
    Case(
        "marginal-queries",
        lambda e: MarginalQueries(3, 2, e),
        counts=(40, 10, 20, 30),
        values=((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0)),
        bad=(
            (lambda: MarginalQueries(3, 4, 1.0), "order"),
            (lambda: MarginalQueries(3, 2, 1.0, sparsity=4), "sparsity"),
        ),
        floats=True,
        variant=True,
    ),
    Case(
        "marginal-queries-collected",
        lambda e: MarginalQueries(3, 2, e, randomizer=FEW),
        counts=(40, 10, 20, 30),
        values=((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0)),
        floats=True,
        variant=True,
    ),
    Case(
        "gram-queries",
        lambda e: GramQueries(2, e),
        counts=(40, 10, 50),
        values=((1.0, -1.0), (0.5, 0.0), (-1.0, -1.0)),
        floats=True,
        variant=True,
    ),
)

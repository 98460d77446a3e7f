"""Means of products of features, from vector reports."""

from jaxdp.linear._gram_queries import GramQueries
from jaxdp.linear._marginal_queries import MarginalQueries
from tests.contracts.case import Case, bad_epsilons

# `density` says that reports are floats; these are no randomizers, so no density is asked for.
# `variant`: of the protocols of vectors.
CASES = (
    Case(
        "marginal-queries",
        lambda e: MarginalQueries(3, 2, e),
        counts=(40, 10, 20, 30),
        values=((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0)),
        bad=(
            *bad_epsilons(lambda e: MarginalQueries(3, 2, e)),
            (lambda: MarginalQueries(0, 1, 1.0), "num_features"),
            (lambda: MarginalQueries(3, 0, 1.0), "order"),
            (lambda: MarginalQueries(3, 4, 1.0), "order"),
            (lambda: MarginalQueries(3, 2, 1.0, basis="both"), "basis"),  # pyright: ignore
            (lambda: MarginalQueries(3, 2, 1.0, sparsity=4), "sparsity"),
            (lambda: MarginalQueries(3, 2, 1.0, onto="hull"), "onto"),
        ),
        finite=False,
        density=True,
        variant=True,
    ),
    Case(
        "gram-queries",
        lambda e: GramQueries(2, e),
        counts=(40, 10, 50),
        values=((1.0, -1.0), (0.5, 0.0), (-1.0, -1.0)),
        bad=(
            *bad_epsilons(lambda e: GramQueries(2, e)),
            (lambda: GramQueries(1, 1.0), "num_items"),
            (lambda: GramQueries(2, 1.0, onto="hull"), "onto"),
        ),
        finite=False,
        density=True,
        variant=True,
    ),
)

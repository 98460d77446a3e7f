"""Linear queries whose estimates are projected, and the raw estimates of these."""

from jaxdp.linear import (
    ColumnQueries,
    HistogramQuery,
    LaplaceQueries,
    MaximumLikelihood,
    Projected,
    ProjectedHadamard,
    ProjectionMechanism,
)
from jaxdp.randomizers import Gaussian, HadamardResponse, SubsetSelection
from tests.contracts.case import Case
from tests.contracts.cases.linear_vectors import COUNTS, QUERIES

RAW = LaplaceQueries(QUERIES, 1.0)

CASES = (
    Case(
        "projected-hadamard",
        lambda e: ProjectedHadamard(5, e),
        counts=COUNTS,
        unbiased=False,
        variant=True,
    ),
    Case(
        "projected-hadamard-raw",
        lambda e: ProjectedHadamard(5, e, postprocess="none"),
        counts=COUNTS,
        variant=True,
    ),
    Case(
        "projected-clip",
        lambda e: Projected(LaplaceQueries(QUERIES, e), "clip"),
        counts=COUNTS,
        floats=True,
        unbiased=False,
        bad=((lambda: Projected(RAW, "simplex"), "onto"),),
        variant=True,
    ),
    Case(
        "maximum-likelihood",
        lambda e: MaximumLikelihood(HistogramQuery(HadamardResponse(5, e))),
        counts=COUNTS,
        floats=True,
        unbiased=False,
        bad=((lambda: MaximumLikelihood(HistogramQuery(SubsetSelection(5, 1.0))), "counts each"),),
        variant=True,
    ),
    Case(
        "projection-mechanism",
        lambda e: ProjectionMechanism(QUERIES, e, tol=1e-9),
        counts=COUNTS,
        floats=True,
        unbiased=False,
        bad=((lambda: ProjectionMechanism(QUERIES, 1.0, randomizer=Gaussian), "delta.*partial"),),
        variant=True,
    ),
    Case(
        "column-queries",
        lambda e: ColumnQueries(QUERIES, e),
        counts=COUNTS,
        floats=True,
        variant=True,
    ),
)

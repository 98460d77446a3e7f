"""Linear queries whose estimates are projected, and the raw estimates of these."""

from jaxdp.linear._laplace_queries import LaplaceQueries
from jaxdp.linear._projected import Projected
from jaxdp.linear._projected_hadamard import ProjectedHadamard
from jaxdp.linear._projection_mechanism import ColumnQueries, ProjectionMechanism
from jaxdp.randomizers import KRR, Gaussian
from tests.contracts.case import Case, bad_epsilons
from tests.contracts.cases.linear_vectors import COUNTS, QUERIES, bad

RAW = LaplaceQueries(QUERIES, 1.0)

CASES = (
    Case(
        "projected-hadamard",
        lambda e: ProjectedHadamard(5, e),
        counts=COUNTS,
        finite=False,
        unbiased=False,
        exact=False,
        bad=(
            *bad_epsilons(lambda e: ProjectedHadamard(5, e)),
            (lambda: ProjectedHadamard(1, 1.0), "num_values"),
            (lambda: ProjectedHadamard(5.5, 1.0), "num_values"),  # pyright: ignore
            (lambda: ProjectedHadamard(5, 1.0, "project"), "postprocess"),
        ),
        variant=True,
    ),
    Case(
        "projected-hadamard-raw",
        lambda e: ProjectedHadamard(5, e, postprocess="none"),
        counts=COUNTS,
        finite=False,
        variant=True,
    ),
    Case(
        "projected-clip",
        lambda e: Projected(LaplaceQueries(QUERIES, e), "clip"),
        counts=COUNTS,
        finite=False,
        density=True,
        unbiased=False,
        exact=False,
        bad=(
            (lambda: Projected(KRR(3, 1.0)), "protocol"),  # pyright: ignore
            (lambda: Projected(RAW, "box"), "onto"),
            (lambda: Projected(RAW, "simplex"), "onto"),
            (lambda: Projected(RAW, below=0), "below"),
            (lambda: Projected(RAW, tol=0.0), "tol"),
        ),
        variant=True,
    ),
    Case(
        "projection-mechanism",
        lambda e: ProjectionMechanism(QUERIES, e, tol=1e-9),
        counts=COUNTS,
        finite=False,
        density=True,
        unbiased=False,
        exact=False,
        bad=(
            *bad(ProjectionMechanism),
            (lambda: ProjectionMechanism(QUERIES, 1.0, randomizer=Gaussian), "delta.*partial"),
        ),
        variant=True,
    ),
    Case(
        "column-queries",
        lambda e: ColumnQueries(QUERIES, e),
        counts=COUNTS,
        finite=False,
        density=True,
        bad=bad(ColumnQueries),
        variant=True,
    ),
)

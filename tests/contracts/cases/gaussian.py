"""Gaussian noise, and Gaussian rejection sampling, for vectors in the L2 ball."""

from jaxdp.randomizers import Gaussian, GaussianRejection
from tests.contracts.case import Case

COUNTS = (300, 200, 100, 400)
VALUES = ((0.6, -0.8, 0.0), (0.3, 0.1, -0.5), (0.0, 0.0, 0.0), (-0.6, 0.8, 0.0))

CASES = (
    Case(
        "gaussian",
        lambda e: Gaussian(3, e, 1e-6),
        counts=COUNTS,
        values=VALUES,
        floats=True,
    ),
    Case(
        "gaussian-as-printed",
        lambda e: Gaussian(3, e, 1e-6, calibration="as_printed"),
        counts=COUNTS,
        values=VALUES,
        floats=True,
        private=False,
        variant=True,
    ),
    Case(
        "gaussian-rejection",
        lambda e: GaussianRejection(3, e),
        counts=COUNTS,
        values=VALUES,
        bad=(
            (lambda: GaussianRejection(2, 1e-5), "epsilon"),
            (lambda: GaussianRejection(2, 21.0), "epsilon"),
            (lambda: GaussianRejection(2, 1.0, num_users=100), "num_users"),
            (lambda: GaussianRejection(2, 1.0, variant="as_printed"), "num_users"),
            (
                lambda: GaussianRejection(2, 3.0, variant="as_printed", num_users=100),
                "epsilon",
            ),
        ),
        floats=True,
    ),
    Case(
        "gaussian-rejection-as-printed",
        lambda e: GaussianRejection(3, e / 2, variant="as_printed", num_users=1000),
        counts=COUNTS,
        values=VALUES,
        floats=True,
        private=False,
        unbiased=False,
        variant=True,
    ),
)

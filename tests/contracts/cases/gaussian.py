"""Gaussian noise, and Gaussian rejection sampling, for vectors in the L2 ball."""

from jaxdp.randomizers._gaussian import Gaussian
from jaxdp.randomizers._gaussian_rejection import GaussianRejection
from tests.contracts.case import Case, bad_epsilons

COUNTS = (300, 200, 100, 400)
VALUES = ((0.6, -0.8, 0.0), (0.3, 0.1, -0.5), (0.0, 0.0, 0.0), (-0.6, 0.8, 0.0))

CASES = (
    Case(
        "gaussian",
        lambda e: Gaussian(3, e, 1e-6),
        counts=COUNTS,
        values=VALUES,
        bad=(
            *bad_epsilons(lambda e: Gaussian(2, e, 1e-6)),
            (lambda: Gaussian(0, 1.0, 1e-6), "dim"),
            (lambda: Gaussian(2.0, 1.0, 1e-6), "dim"),  # pyright: ignore[reportArgumentType]
            (lambda: Gaussian(2, 1.0, 0.0), "delta"),
            (lambda: Gaussian(2, 1.0, 1.0), "delta"),
            (lambda: Gaussian(2, 1.0, 1e-6, radius=0.0), "radius"),
            (lambda: Gaussian(2, 1.0, 1e-6, radius=1e30), "radius"),
            (lambda: Gaussian(2, 1e-12, 1e-6, calibration="as_printed"), "epsilon"),
            (lambda: Gaussian(2, 1.0, 1e-6, calibration="mine"), "calibration"),
        ),
        finite=False,
        density=True,
    ),
    Case(
        "gaussian-as-printed",
        lambda e: Gaussian(3, e, 1e-6, calibration="as_printed"),
        counts=COUNTS,
        values=VALUES,
        finite=False,
        density=True,
        variant=True,
    ),
    Case(
        "gaussian-rejection",
        lambda e: GaussianRejection(3, e),
        counts=COUNTS,
        values=VALUES,
        bad=(
            *bad_epsilons(lambda e: GaussianRejection(2, e)),
            (lambda: GaussianRejection(2, 1e-5), "epsilon"),
            (lambda: GaussianRejection(2, 21.0), "epsilon"),
            (lambda: GaussianRejection(0, 1.0), "dim"),
            (lambda: GaussianRejection(2, 1.0, radius=-1.0), "radius"),
            (lambda: GaussianRejection(2, 1.0, noise=0.01), "noise"),
            (lambda: GaussianRejection(2, 1.0, num_users=100), "num_users"),
            (lambda: GaussianRejection(2, 1.0, variant="as_printed"), "num_users"),
            (lambda: GaussianRejection(2, 1.0, variant="mine"), "variant"),
            (
                lambda: GaussianRejection(2, 3.0, variant="as_printed", num_users=100),
                "epsilon",
            ),
        ),
        finite=False,
        density=True,
    ),
    Case(
        "gaussian-rejection-as-printed",
        lambda e: GaussianRejection(3, e / 2, variant="as_printed", num_users=1000),
        counts=COUNTS,
        values=VALUES,
        finite=False,
        unbiased=False,
        variant=True,
    ),
)

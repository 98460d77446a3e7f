"""Bounded numbers and integers, and vectors of bounded L1 norm."""

from jaxdp.randomizers import DiscreteLaplace, Laplace, Piecewise
from tests.contracts.case import Case

CASES = (
    Case(
        "laplace",
        Laplace,
        counts=(300, 200, 400, 100),
        values=(-1.0, -0.3, 0.5, 1.0),
    ),
    Case(
        "laplace-l1",
        lambda e: Laplace(e, bound=2.0, dim=3),
        counts=(300, 200, 500),
        values=((2.0, 0.0, 0.0), (-0.5, 0.5, 1.0), (-2.0, 0.0, 0.0)),
        floats=True,
        variant=True,
    ),
    Case(
        "piecewise",
        lambda e: Piecewise(e, bound=2.0),
        counts=(300, 200, 400, 100),
        values=(-2.0, -0.7, 1.0, 2.0),
    ),
    Case(
        "discrete-laplace",
        lambda e: DiscreteLaplace(-1, 3, e),
        counts=(400, 0, 100, 300, 200),
        epsilons=(0.5, 1.0, 3.0),
        bad=(
            (lambda: DiscreteLaplace(0, 4, 30.0), "epsilon"),
            (lambda: DiscreteLaplace(0, 3, 1e-5), "epsilon"),
            (lambda: DiscreteLaplace(4, 4, 1.0), "high"),
            (lambda: DiscreteLaplace(0, 2**11, 1.0), "high"),
        ),
    ),
)

"""Bounded numbers and integers, and vectors of bounded L1 norm."""

from jaxdp.randomizers._discrete_laplace import DiscreteLaplace
from jaxdp.randomizers._laplace import Laplace
from jaxdp.randomizers._piecewise import Piecewise
from tests.contracts.case import Case, bad_epsilons

CASES = (
    Case(
        "laplace",
        Laplace,
        counts=(300, 200, 400, 100),
        values=(-1.0, -0.25, 0.5, 1.0),
        bad=(
            *bad_epsilons(Laplace),
            (lambda: Laplace(1e5), "epsilon"),
            (lambda: Laplace(1.0, 0.0), "bound"),
            (lambda: Laplace(1.0, float("inf")), "bound"),
            (lambda: Laplace(1.0, 1e30), "bound"),
            (lambda: Laplace(1.0, dim=0), "dim"),
            (lambda: Laplace(1.0, dim=2.0), "dim"),  # pyright: ignore[reportArgumentType]
        ),
        finite=False,
        density=True,
    ),
    Case(
        "laplace-l1",
        lambda e: Laplace(e, bound=2.0, dim=3),
        counts=(300, 200, 500),
        values=((2.0, 0.0, 0.0), (-0.5, 0.5, 1.0), (-2.0, 0.0, 0.0)),
        finite=False,
        density=True,
        variant=True,
    ),
    Case(
        "piecewise",
        lambda e: Piecewise(e, bound=2.0),
        counts=(300, 200, 400, 100),
        values=(-2.0, -0.5, 1.0, 2.0),
        bad=(
            *bad_epsilons(Piecewise),
            (lambda: Piecewise(1e-7), "epsilon"),
            (lambda: Piecewise(41.0), "epsilon"),
            (lambda: Piecewise(1.0, -1.0), "bound"),
            (lambda: Piecewise(1.0, 1e-30), "bound"),
        ),
        finite=False,
        has_law=False,
        density=True,
    ),
    Case(
        "discrete-laplace",
        lambda e: DiscreteLaplace(-1, 3, e),
        counts=(400, 0, 100, 300, 200),
        epsilons=(0.5, 1.0, 3.0),
        bad=(
            *bad_epsilons(lambda e: DiscreteLaplace(0, 4, e)),
            (lambda: DiscreteLaplace(0, 4, 30.0), "epsilon"),
            (lambda: DiscreteLaplace(0, 3, 1e-5), "epsilon"),
            (lambda: DiscreteLaplace(0.5, 4, 1.0), "low"),  # pyright: ignore[reportArgumentType]
            (lambda: DiscreteLaplace(4, 4, 1.0), "high"),
            (lambda: DiscreteLaplace(0, 2**11, 1.0), "high"),
        ),
    ),
)

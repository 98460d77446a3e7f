"""Randomizers of vectors in the L2 ball."""

from jaxdp.randomizers._l2_ball import L2Ball
from jaxdp.randomizers._priv_unit import PrivUnit
from jaxdp.randomizers._priv_unit_g import PrivUnitG
from jaxdp.randomizers._proj_unit import ProjUnit
from tests.contracts.case import Case, bad_epsilons

VECTORS = ((0.6, 0.8), (-1.0, 0.0), (0.0, 0.0), (0.3, -0.4))


def bad(make):
    """Invalid constructions of a spec whose fields are dim, epsilon and radius."""
    return (
        *bad_epsilons(lambda e: make(2, e)),
        (lambda: make(2, 1e-6), "epsilon"),
        (lambda: make(2, 50.0), "epsilon"),
        (lambda: make(0, 1.0), "dim"),
        (lambda: make(2.0, 1.0), "dim"),
        (lambda: make(2**21, 1.0), "dim"),
        (lambda: make(2, 1.0, 0.0), "radius"),
        (lambda: make(2, 1.0, float("inf")), "radius"),
        (lambda: make(2, 1.0, 1e-40), "radius"),
    )


CASES = (
    Case(
        "l2-ball",
        lambda e: L2Ball(2, e),
        counts=(40, 30, 20, 10),
        values=VECTORS,
        bad=bad(L2Ball),
        finite=False,
        density=True,
    ),
    Case(
        "priv-unit",
        lambda e: PrivUnit(2, e),
        counts=(40, 30, 20, 10),
        values=VECTORS,
        bad=bad(PrivUnit),
        finite=False,
        density=True,
    ),
    Case(
        "priv-unit-g",
        lambda e: PrivUnitG(3, e, radius=10.0),
        counts=(50, 1, 49),
        values=((6.0, 0.0, 8.0), (0.0, 0.0, 0.0), (-3.0, 4.0, 5.0)),
        bad=bad(PrivUnitG),
        finite=False,
        density=True,
    ),
    Case(
        "proj-unit",
        lambda e: ProjUnit(4, e, num_projected=2),
        counts=(70, 30),
        values=((0.6, 0.0, 0.8, 0.0), (-0.1, 0.2, -0.3, 0.4)),
        bad=(
            *bad(lambda dim, epsilon, radius=1.0: ProjUnit(dim, epsilon, 2, radius)),
            (lambda: ProjUnit(1, 1.0, 2), "dim"),
            (lambda: ProjUnit(4, 1.0, 1), "num_projected"),
            (lambda: ProjUnit(4, 1.0, 5), "num_projected"),
        ),
        finite=False,
        density=True,
    ),
)

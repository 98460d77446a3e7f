"""Randomizers of vectors in the L2 ball."""

from jaxdp.randomizers import CandidateResponse, L2Ball, PrivUnit, PrivUnitG, ProjUnit
from tests.contracts.case import Case

VECTORS = ((0.6, 0.8), (-1.0, 0.0), (0.0, 0.0), (0.3, -0.4))


CASES = (
    Case(
        "l2-ball",
        lambda e: L2Ball(2, e),
        counts=(40, 30, 20, 10),
        values=VECTORS,
        floats=True,
    ),
    Case(
        "priv-unit",
        lambda e: PrivUnit(2, e),
        counts=(40, 30, 20, 10),
        values=VECTORS,
        floats=True,
    ),
    Case(
        "priv-unit-unpadded",
        lambda e: PrivUnit(2, e, padded=False),
        counts=(40, 30, 30),
        values=((0.6, 0.8), (-1.0, 0.0), (0.0, -1.0)),
        bad=((lambda: PrivUnit(1, 1.0, padded=False), "dim"),),
        floats=True,
        variant=True,
    ),
    Case(
        "priv-unit-g",
        lambda e: PrivUnitG(3, e, radius=10.0),
        counts=(50, 1, 49),
        values=((6.0, 0.0, 8.0), (0.0, 0.0, 0.0), (-3.0, 4.0, 5.0)),
        floats=True,
    ),
    Case(
        "proj-unit",
        lambda e: ProjUnit(4, e, num_projected=2),
        counts=(70, 30),
        values=((0.6, 0.0, 0.8, 0.0), (-0.1, 0.2, -0.3, 0.4)),
        bad=((lambda: ProjUnit(4, 1.0, 5), "num_projected"),),
        floats=True,
    ),
    Case(
        "candidate-response",
        lambda e: CandidateResponse(2, e, num_candidates=16, num_high=4),
        counts=(40, 30, 20, 10),
        values=VECTORS,
        bad=((lambda: CandidateResponse(2, 1.0, num_candidates=16, num_high=9), "num_high"),),
        floats=True,
    ),
)

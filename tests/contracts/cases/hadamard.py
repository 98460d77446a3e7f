"""Hadamard and projective geometry response, and the one-bit Hadamard response."""

from jaxdp.randomizers import HadamardBit, HadamardResponse, ProjectiveGeometryResponse
from tests.contracts.case import Case

CASES = (
    Case(
        "hadamard-bit-5",
        lambda e: HadamardBit(5, e),
        counts=(400, 0, 100, 300, 200),
        epsilons=(0.5, 1.0, 3.0),
        bad=(
            (lambda: HadamardBit(5, 22.0), "epsilon"),
            (lambda: HadamardBit(5, 1e-9), "epsilon"),
            (lambda: HadamardBit(2**12, 1.0).build(8), "word_bits"),
        ),
    ),
    Case(
        "hadamard-response-7",
        lambda e: HadamardResponse(7, e, num_blocks=1),
        counts=(400, 0, 50, 300, 150, 60, 40),
        epsilons=(0.5, 1.0, 3.0),
        bad=(
            (lambda: HadamardResponse(7, 1.0, 3), "num_blocks"),
            (lambda: HadamardResponse(7, 1.0, 8), "num_blocks"),
            (lambda: HadamardResponse(7, 25.0), "epsilon"),
            (lambda: HadamardResponse(7, 1e-9), "epsilon"),
            (lambda: HadamardResponse(2**12, 1.0).build(8), "word_bits"),
        ),
    ),
    Case(
        "hadamard-blocks-7",
        lambda e: HadamardResponse(7, e, num_blocks=4),
        counts=(400, 0, 50, 300, 150, 60, 40),
        epsilons=(0.5, 1.0, 3.0),
        variant=True,
    ),
    Case(
        "projective-geometry-6",
        lambda e: ProjectiveGeometryResponse(6, e, order=3),
        counts=(400, 0, 100, 200, 150, 150),
        epsilons=(0.5, 1.0, 3.0),
        bad=(
            (lambda: ProjectiveGeometryResponse(6, 1.0, order=6), "order"),
            (lambda: ProjectiveGeometryResponse(6000, 1.0, order=5003), "order.*too large"),
            (lambda: ProjectiveGeometryResponse(6, 40.0), "epsilon"),
            (lambda: ProjectiveGeometryResponse(6, 1e-18), "epsilon"),
        ),
    ),
)

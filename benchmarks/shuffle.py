"""Privacy of shuffled reports: brackets of the randomizers, bounds for any reports, and times.

    python -m benchmarks.shuffle                    # four minutes
    python -m benchmarks.shuffle --only each        # one section
    python -m benchmarks.shuffle --largest 100000   # does it run? prints only

Writes results/shuffle/. The figure of docs/trusted/shuffle.md is drawn from `each`.
"""

import argparse
import functools
import pathlib

import numpy as np

from jaxdp.accounting import shuffle_epsilon
from jaxdp.randomizers import (
    KRR,
    AffineHashing,
    AffineSubsets,
    BinaryResponse,
    CandidateResponse,
    DiscreteLaplace,
    FiniteChannel,
    Gaussian,
    GaussianRejection,
    HadamardBit,
    HadamardResponse,
    L2Ball,
    Laplace,
    LocalHashing,
    Memoised,
    Piecewise,
    PrivUnit,
    PrivUnitG,
    ProjectiveGeometryResponse,
    ProjUnit,
    Randomizer,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)

from ._report import Rows, rows_table, run_sections
from ._timing import timed

FOLDER = pathlib.Path(__file__).parent / "results" / "shuffle"
SIZES = [10**4, 10**6, 10**8, 10**10]
DELTA = 1e-8
MAKERS = {
    "BinaryResponse": BinaryResponse,
    "KRR, 3 values": functools.partial(KRR, 3),
    "KRR, 64 values": functools.partial(KRR, 64),
    "SubsetSelection, 64 values": functools.partial(SubsetSelection, 64),
    "HadamardResponse, 64 values": functools.partial(HadamardResponse, 64),
    "UnaryEncoding, 64 values": functools.partial(UnaryEncoding, 64),
    "HadamardBit, 64 values": functools.partial(HadamardBit, 64),
}
EACH_SIZES = [10**3, 10**4, 10**5, 10**6, 10**7]
EACH_DELTA = 1e-6
EACH_EPSILONS = (1.0, 4.0)


def ring(epsilon: float, num_values: int = 16, reach: int = 4) -> FiniteChannel:
    """Values on a ring, whose reports are likelier the nearer they are, up to a reach."""
    far = np.abs(np.subtract.outer(np.arange(num_values), np.arange(num_values)))
    near = np.maximum(1 - np.minimum(far, num_values - far) / reach, 0.0)
    weights = np.exp(epsilon * near)
    return FiniteChannel(weights / weights.sum(axis=1, keepdims=True), epsilon)


EACH = {
    "BinaryResponse": BinaryResponse,
    "KRR": functools.partial(KRR, 64),
    "SubsetSelection": functools.partial(SubsetSelection, 64),
    "ProjectiveGeometryResponse": functools.partial(ProjectiveGeometryResponse, 64),
    "HadamardResponse": functools.partial(HadamardResponse, 64),
    "HadamardBit": functools.partial(HadamardBit, 64),
    "LocalHashing": functools.partial(LocalHashing, 64),
    "AffineHashing": functools.partial(AffineHashing, 64),
    "AffineSubsets": functools.partial(AffineSubsets, 64),
    "UnaryEncoding": functools.partial(UnaryEncoding, 64),
    "Rappor": functools.partial(Rappor, 64),
    "Memoised": lambda epsilon: Memoised(KRR(64, epsilon), KRR(64, epsilon / 2)),
    "DiscreteLaplace": functools.partial(DiscreteLaplace, 0, 63),
    "FiniteChannel": ring,
    "Laplace": Laplace,
    "Piecewise": Piecewise,
    "L2Ball": functools.partial(L2Ball, 16),
    "PrivUnit": functools.partial(PrivUnit, 16),
    "PrivUnitG": functools.partial(PrivUnitG, 16),
    "ProjUnit": functools.partial(ProjUnit, 64, num_projected=16),
    "CandidateResponse": functools.partial(CandidateResponse, 16, num_candidates=256),
    "Gaussian": functools.partial(Gaussian, 16, delta=1e-6, steps=2**12),
    "GaussianRejection": functools.partial(GaussianRejection, 16),
}
"""Every randomizer by name, made from its epsilon."""


def brackets(sizes: list[int] = SIZES) -> Rows:
    """The epsilon of shuffled reports at delta = 1e-8: attained, proven, and proven for any."""
    rows: Rows = []
    for name, make in MAKERS.items():
        for epsilon in (1.0, 4.0):
            for n in sizes:
                ask = functools.partial(make(epsilon).shuffle_bracket, n, DELTA)
                found, _, busy = timed(ask, first=lambda: None)
                rows.append(
                    {
                        "reports": name,
                        "epsilon of a report": f"{epsilon:g}",
                        "users": f"{n:,}",
                        "attained": f"{found.lower:.4g}",
                        "proven": f"{found.upper:.4g}",
                        "proven / attained": f"{found.upper / found.lower:.4f}",
                        "ratio of indices": f"{found.index_ratio:.4f}",
                        "any reports": f"{shuffle_epsilon(epsilon, n, DELTA):.4g}",
                        "processor seconds": f"{busy:.2f}",
                    }
                )
                print(rows_table(rows[-1:]).splitlines()[-1], flush=True)
    return rows


def each(sizes: list[int] = EACH_SIZES) -> Rows:
    """The epsilon of shuffled reports of every randomizer at delta = 1e-6: attained to proven."""
    rows: Rows = []
    for epsilon in EACH_EPSILONS:
        generic = (f"{shuffle_epsilon(epsilon, n, EACH_DELTA):.4g}" for n in sizes)
        rows.append(_row("any reports", epsilon, dict(zip(sizes, generic, strict=True))))
        for name, make in EACH.items():
            reports = make(epsilon)
            cells = {n: _attained_to_proven(reports, n) for n in sizes}
            rows.append(_row(name, epsilon, cells))
            print(rows_table(rows[-1:]).splitlines()[-1], flush=True)
    return rows


def _row(name: str, epsilon: float, cells: dict[int, str]) -> dict[str, str]:
    return {
        "reports": name,
        "epsilon of a report": f"{epsilon:g}",
        **{f"n = {n:,}": cell for n, cell in cells.items()},
    }


def _attained_to_proven(reports: Randomizer, num_users: int) -> str:
    found = reports.shuffle_bracket(num_users, EACH_DELTA)
    return f"{found.lower:.4g} to {found.upper:.4g}"


def main() -> None:
    """Measures and writes the tables; of fewer users it prints only."""
    sections = {"brackets": brackets, "each": each}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--largest", type=int, help="most users; nothing is written")
    parser.add_argument("--only", choices=list(sections), help="one section")
    arguments = parser.parse_args()
    chosen = [arguments.only] if arguments.only else list(sections)
    if (largest := arguments.largest) is not None:
        for name, sizes in (("brackets", SIZES), ("each", EACH_SIZES)):
            if name in chosen:
                found = sections[name]([n for n in sizes if n <= largest])
                print(rows_table(found), flush=True)
        return
    run_sections(sections, chosen, FOLDER)


if __name__ == "__main__":
    main()

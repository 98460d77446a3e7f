"""Privacy of shuffled reports: brackets of the randomizers, bounds for any reports, and times.

    python -m benchmarks.shuffle                    # two minutes
    python -m benchmarks.shuffle --largest 100000   # does it run? prints only

Writes results/shuffle/.
"""

import argparse
import functools
import pathlib

from jaxdp.accounting import shuffle_epsilon
from jaxdp.randomizers import (
    KRR,
    BinaryResponse,
    HadamardBit,
    HadamardResponse,
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


def main() -> None:
    """Measures and writes the table; of fewer users it prints only."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--largest", type=int, help="most users; nothing is written")
    largest = parser.parse_args().largest
    if largest is not None:
        print(rows_table(brackets([n for n in SIZES if n <= largest])), flush=True)
        return
    run_sections({"brackets": brackets}, ["brackets"], FOLDER)


if __name__ == "__main__":
    main()

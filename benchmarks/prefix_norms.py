"""Factorization norms of prefix sums of up to a million values, certified: a table and a figure.

    python -m benchmarks.prefix_norms                   # a quarter of an hour
    python -m benchmarks.prefix_norms --largest 1024    # does it run? prints only

Writes results/prefix_norms/ and docs/_static/prefix_norms.svg.
"""

import argparse
import functools
import json
import math
import pathlib

import numpy as np

from jaxdp import figures
from jaxdp.factorization import prefix_norm

from ._report import Rows, rows_table, run_sections
from ._timing import timed

FOLDER = pathlib.Path(__file__).parent / "results" / "prefix_norms"
FIGURE = pathlib.Path(__file__).parents[1] / "docs" / "_static" / "prefix_norms.svg"
SIZES = [2**power for power in range(6, 21, 2)]
KINDS = {
    "γ2": ("gamma2", False),
    "γF": ("gamma_f", False),
    "γ2, shifted": ("gamma2", True),
    "γF, shifted": ("gamma_f", True),
}


def equal_weights(k: int | None, shift: bool) -> float:
    """The constant of equal weights, the singular values' mean minus ln(k)/π; None for k → ∞."""
    if k is None:
        return (np.euler_gamma + math.log((4 if shift else 16) / math.pi)) / math.pi
    if shift:
        angles = np.arange(1, k) * np.pi / (2 * k)
    else:
        angles = np.arange(1, 2 * k, 2) * np.pi / (4 * k + 2)
    return float(np.sum(1 / (2 * np.sin(angles))) / k - math.log(k) / math.pi)


def norms(sizes: list[int] = SIZES) -> Rows:
    """The norm of `prefix(k)` minus ln(k)/π between proven bounds, and that of equal weights."""
    rows: Rows = []
    for name, (norm, shift) in KINDS.items():
        for k in sizes:
            solve = functools.partial(prefix_norm, k, norm=norm, shift=shift)
            found, seconds, busy = timed(solve, first=lambda: None)
            rows.append(
                {
                    "norm": name,
                    "k": f"{k:,}",
                    "equal weights": f"{equal_weights(k, shift):.6f}",
                    "lower": f"{found.lower - math.log(k) / math.pi:.6f}",
                    "upper": f"{found.upper - math.log(k) / math.pi:.6f}",
                    "gap": f"{found.gap:.1e}",
                    "evaluations": found.num_steps,
                    "seconds": f"{seconds:.1f}",
                    "processor seconds": f"{busy:.1f}",
                }
            )
            print(rows_table(rows[-1:]).splitlines()[-1], flush=True)
    return rows


def draw(rows: Rows, output: pathlib.Path) -> None:
    """The constants against k, without and with a shift, and the limits for equal weights."""
    with figures.style():
        figure, grid = figures.panels(2, height=3.0)
        for axes, shift in zip(grid[0], (False, True), strict=True):
            kinds = [name for name, (_, shifted) in KINDS.items() if shifted == shift]
            for place, name in enumerate(kinds):
                mine = [row for row in rows if row["norm"] == name]
                sizes = [int(row["k"].replace(",", "")) for row in mine]
                color, marker, _ = figures.mark(place)
                values = [float(row["upper"]) for row in mine]
                label = name.partition(",")[0]
                axes.plot(sizes, values, color=color, marker=marker, label=label)
            limit = equal_weights(None, shift)
            look = dict(color=figures.LIGHT.ink, linestyle=":", label="limit of equal weights")
            axes.axhline(limit, **look)
            axes.annotate(
                f"{limit:.4f}", (2**20, limit), (0, 3), textcoords="offset points", ha="right"
            )
            axes.set(xscale="log", xlabel="number of values k")
            axes.set_title("shifted by a constant" if shift else "as it is")
            figures.tidy(axes, x={2.0**i: f"$2^{{{i}}}$" for i in range(6, 21, 2)})
        grid[0, 0].set_ylabel("norm − ln(k)/π (certified to 1e-6)")
        figures.legend(figure)
        output.write_bytes(figures.encode(figure, ["svg"], name="prefix_norms")["svg"])


def main() -> None:
    """Measures, writes the table and draws the figure; of fewer sizes it prints only."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--largest", type=int, help="most values; nothing is written")
    largest = parser.parse_args().largest
    if largest is not None:
        print(rows_table(norms([k for k in SIZES if k <= largest])), flush=True)
        return
    run_sections({"norms": norms}, ["norms"], FOLDER)
    draw(json.loads((FOLDER / "results.json").read_text())["sections"]["norms"], FIGURE)


if __name__ == "__main__":
    main()

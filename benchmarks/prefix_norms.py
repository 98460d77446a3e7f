"""Factorization norms of prefix sums of up to a million values, certified: a table and a figure.

    python -m benchmarks.prefix_norms                   # a quarter of an hour
    python -m benchmarks.prefix_norms --largest 1024    # does it run? prints only

Writes results/prefix_norms/ and docs/_static/prefix_norms.png.
"""

import argparse
import functools
import json
import math
import pathlib

import matplotlib.pyplot as plt
import numpy as np

from jaxdp.factorization import prefix_norm

from ._report import Rows, rows_table, run_sections
from ._timing import timed

FOLDER = pathlib.Path(__file__).parent / "results" / "prefix_norms"
FIGURE = pathlib.Path(__file__).parents[1] / "docs" / "_static" / "prefix_norms.png"
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
    figure, panels = plt.subplots(1, 2, figsize=(7.2, 3.4), layout="constrained")
    for axes, shift in zip(panels, (False, True), strict=True):
        for name, (_, shifted) in KINDS.items():
            mine = [row for row in rows if row["norm"] == name]
            if shifted == shift:
                sizes = [int(row["k"].replace(",", "")) for row in mine]
                values = [float(row["upper"]) for row in mine]
                axes.semilogx(sizes, values, base=2, marker="o", markersize=3.5, label=name)
        limit = equal_weights(None, shift)
        axes.axhline(limit, color="k", linewidth=0.8, linestyle=":")
        axes.annotate(
            f"{limit:.4f}", (2**20, limit), (0, 3), textcoords="offset points", ha="right"
        )
        axes.set_xlabel("number of values k")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("norm − ln(k)/π (certified to 1e-6)")
    figure.savefig(output, dpi=150)


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

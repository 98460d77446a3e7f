"""How γ2 grows with the size of the domain: a figure for the guide, every point certified.

python benchmarks/gamma2_growth.py docs/_static/gamma2_growth.svg
"""

import argparse
import pathlib

import numpy as np

from jaxdp import factorization, figures, workloads

POWERS = range(2, 10)
FAMILIES = {
    "Rademacher": [(2**d, workloads.rademacher(2**d, 2**d, seed=d)) for d in POWERS],
    "parity, order ≤ 2": [(2**d, workloads.parity(d, 2)) for d in POWERS],
    "marginal, order ≤ 2": [(2**d, workloads.marginal(d, 2)) for d in POWERS],
    "Kendall, √k × √k": [(s * s, workloads.kendall(s, s)) for s in (2, 3, 4, 6, 8, 11, 16, 22)],
    "prefix": [(2**d, workloads.prefix(2**d)) for d in POWERS],
}


def main() -> None:
    """Solves and certifies every point, prints it, and draws the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", help="an image file")
    output = parser.parse_args().output
    values: dict[str, list[float]] = {}
    for name, family in FAMILIES.items():
        values[name] = []
        for size, matrix in family:
            result = factorization.gamma2(matrix)
            certificate = factorization.certify(matrix, result)
            print(f"{name}, k = {size}: {certificate.upper:.6f}, gap {certificate.gap:.1e}")
            values[name].append(float(certificate.upper))
    pathlib.Path(output).write_bytes(draw(values, pathlib.Path(output).suffix[1:]))


def draw(values: dict[str, list[float]], kind: str) -> bytes:
    """The figure of the values of each family, in a format."""
    with figures.style():
        figure, grid = figures.panels(width=0.75 * figures.PAGE)
        axes = grid[0, 0]
        for place, (name, family) in enumerate(FAMILIES.items()):
            color, marker, _ = figures.mark(place)
            sizes = [size for size, _ in family]
            axes.loglog(sizes, values[name], color=color, marker=marker, label=name)
        ends = np.array([4, 512])
        axes.loglog(ends, ends**0.5, ":", color=figures.LIGHT.ink, label="√k")
        axes.set(xlabel="domain size k", ylabel="γ2 (certified to 1e-6)")
        figures.tidy(axes, x=[4, 16, 64, 256])
        figures.legend(figure)
        return figures.encode(figure, [kind], name="gamma2_growth")[kind]


if __name__ == "__main__":
    main()

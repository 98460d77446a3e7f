"""How γ2 grows with the size of the domain: a figure for the guide, every point certified.

python benchmarks/gamma2_growth.py docs/_static/gamma2_growth.svg
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from jaxdp import factorization, workloads

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
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for name, family in FAMILIES.items():
        sizes, values = [], []
        for size, matrix in family:
            result = factorization.gamma2(matrix)
            certificate = factorization.certify(matrix, result)
            print(f"{name}, k = {size}: {certificate.upper:.6f}, gap {certificate.gap:.1e}")
            sizes.append(size)
            values.append(float(certificate.upper))
        axes.loglog(sizes, values, marker="o", markersize=3.5, linewidth=1.2, label=name)
    sizes = np.array([4, 512])
    axes.loglog(sizes, sizes**0.5, "k:", linewidth=0.8, label="√k")
    axes.set_xlabel("domain size k")
    axes.set_ylabel("γ2 (certified to 1e-6)")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(output)


if __name__ == "__main__":
    main()

"""`python -m benchmarks.oracles`: exact variances of the frequency oracles, and a map of the best.

With `--write`, the table and the map of the page "Which randomizer?" are written to `docs/`.
"""

import argparse
import functools
import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from jaxdp import figures
from jaxdp.randomizers import (
    KRR,
    HadamardBit,
    HadamardResponse,
    LocalHashing,
    ProjectiveGeometryResponse,
    SubsetSelection,
    UnaryEncoding,
)

DOCS = pathlib.Path(__file__).parents[1] / "docs"
TABLE = DOCS / "randomizers" / "oracle_variances.inc"
REGIONS = DOCS / "_static" / "oracle_regions.svg"

ORACLES: dict[str, Callable] = {
    "k-RR": KRR,
    "HR": HadamardResponse,
    "bit": HadamardBit,
    "PGR": ProjectiveGeometryResponse,
    "SS": SubsetSelection,
    "OUE": UnaryEncoding,
    "SUE": functools.partial(UnaryEncoding, kind="symmetric"),
    "OLH": LocalHashing,
}
SHORT = ("k-RR", "HR", "bit", "PGR")
"""Reports of O(log k) bits that are tallied by one addition and decoded in O(k log k) or so."""

NUM_VALUES = (2, 8, 32, 128, 1024)
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
TIE = 1.001
"""Oracles within this factor of the least variance are equally good: the first of them is."""


def user_variances(name: str, num_values: int, epsilon: float) -> np.ndarray | None:
    """Exact variances of the counts that one user of value 0 leads to; None where refused."""
    try:
        spec = ORACLES[name](num_values, epsilon)
    except ValueError:
        return None
    return spec.variance(np.eye(1, num_values, dtype=np.int64)[0])


def noise(name: str, num_values: int, epsilon: float) -> float:
    """Variance, for each user, of the count of a value that nobody has; nan where refused.

    Where it depends on the values that the users do have (HR), the mean over values.
    """
    variances = user_variances(name, num_values, epsilon)
    return float("nan") if variances is None else float(variances[1:].mean())


@functools.cache
def total(name: str, num_values: int, epsilon: float) -> float:
    """The sum of the variances of all counts, for each user; inf where refused."""
    variances = user_variances(name, num_values, epsilon)
    return float("inf") if variances is None else float(variances.sum())


def cell(value: float) -> str:
    """Four digits, without an exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:#.4g}".rstrip(".")


def row(num_values: int, epsilon: float) -> list[str]:
    """The variances of all oracles as in the table, the least in bold."""
    values = [noise(name, num_values, epsilon) for name in ORACLES]
    texts = ["—" if np.isnan(value) else cell(value) for value in values]
    best = texts[int(np.nanargmin(values))]
    return [f"**{text}**" if text == best else text for text in texts]


def table() -> str:
    """The table, in Markdown."""
    head = ["k", "ε", *ORACLES]
    rows = [
        [str(k) if epsilon == EPSILONS[0] else "", f"{epsilon:g}", *row(k, epsilon)]
        for k in NUM_VALUES
        for epsilon in EPSILONS
    ]
    lines = [head, ["--:"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def best(names: Sequence[str], num_values: int, epsilon: float) -> tuple[str, float]:
    """The oracle of the least total variance, and that variance; the first one of a tie."""
    totals = [total(name, num_values, epsilon) for name in names]
    first = next(i for i, value in enumerate(totals) if value <= TIE * min(totals))
    return names[first], totals[first]


def grid() -> tuple[np.ndarray, np.ndarray]:
    """Domain sizes and epsilons of the map, evenly spaced on log axes."""
    sizes = np.unique(np.rint(np.geomspace(2, 4096, 56)).astype(int))
    return sizes, np.geomspace(0.25, 8, 56)


def edges(centres: np.ndarray) -> np.ndarray:
    """Borders of the cells around points of a log axis."""
    logs = np.log(centres)
    middle = (logs[1:] + logs[:-1]) / 2
    return np.exp(np.concatenate([logs[:1], middle, logs[-1:]]))


def draw(path: pathlib.Path) -> None:
    """Draws the map of the best oracles; hatched is where the short ones lose more than 5 %."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    names = tuple(ORACLES)
    colours = [plt.get_cmap("Set2")(i) for i in range(len(names))]
    sizes, epsilons = grid()
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.6), sharey=True, layout="constrained")
    found, variances = set(), []
    panels = {"all oracles": names, "short reports, fast decoding": SHORT}
    for axis, (title, competitors) in zip(axes, panels.items(), strict=True):
        winners = [[best(competitors, int(k), e) for k in sizes] for e in epsilons]
        index = np.array([[names.index(name) for name, _ in line] for line in winners])
        variances.append(np.array([[value for _, value in line] for line in winners]))
        found |= set(index.ravel().tolist())
        axis.pcolormesh(
            edges(sizes),
            edges(epsilons),
            index,
            cmap=ListedColormap(colours),
            vmin=-0.5,
            vmax=len(names) - 0.5,
            rasterized=True,
        )
        axis.set(title=title, xlabel="number of values k", xscale="log", yscale="log")
        axis.set_xticks([2, 8, 32, 128, 512, 2048], labels="2 8 32 128 512 2048".split())
        axis.set_yticks([0.25, 0.5, 1, 2, 4, 8], labels="¼ ½ 1 2 4 8".split())
        axis.minorticks_off()
    axes[0].set_ylabel("ε")
    loss = variances[1] / variances[0] - 1
    median = np.median(loss)
    print(f"Short reports: at most {loss.max():.1%} above the least, {median:.1%} in the median.")
    plt.rcParams["hatch.linewidth"] = 0.5
    axes[1].contourf(sizes, epsilons, loss, [0.05, np.inf], colors="none", hatches=["////"])
    handles = [Patch(color=colours[i], label=names[i]) for i in sorted(found)]
    handles.append(Patch(facecolor="none", hatch="////", label="> 5 % above\nthe least"))
    figure.legend(handles=handles, frameon=False, loc="outside right center")
    path.write_bytes(figures.encode(figure, ["svg"], name="oracle_regions")["svg"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table; with `--write`, writes table and map."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.oracles", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the files of the docs")
    write = parser.parse_args(arguments).write
    print(table(), end="")
    if write:
        TABLE.write_text(table())
        draw(REGIONS)


if __name__ == "__main__":
    main()

"""Kendall's tau between the departure and arrival delays of real flights, estimated privately.

Every flight is a user who knows the classes of its two delays (`jaxdp.data.load_flights`). On a
g × g grid the ten classes are merged into g groups of neighbours, class c into group floor(c·g/10).
This is fixed before anyone's delay is seen, so it costs no privacy; and the groups are ordered, so
pairs of flights either keep their sign or become ties. A coarse grid therefore has a truth of its
own, further from the tau of all ten classes, and a smaller error around it: randomized response has
only g² values to choose from.
"""

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from jaxdp.bounds import u_statistic_variance
from jaxdp.data import load_flights
from jaxdp.pairwise import KendallTau, QuantizedRR
from jaxdp.sweep import Experiment, HistogramData, Settings, Simulation

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NUM_CLASSES = 10
GRIDS = tuple(range(2, NUM_CLASSES + 1))


@functools.cache
def merged_table(grid: int) -> np.ndarray:
    """Flights by groups of departure and arrival delay classes, int64[grid, grid]."""
    group = np.arange(NUM_CLASSES) * grid // NUM_CLASSES
    merged = np.zeros((grid, grid), np.int64)
    np.add.at(merged, np.ix_(group, group), load_flights()["dep_arr_delay_table"])
    return merged


def protocol(grid: int, epsilon: float) -> QuantizedRR:
    """The protocol on a grid × grid domain."""
    return QuantizedRR(KendallTau(), epsilon, num_values=(grid, grid))


def bound_rmse(protocol: QuantizedRR, num_users: int) -> float:
    """Theorem 1 of Bell et al. (2020) as a root mean squared error.

    The theorem is for kernels with values in [0, 1]; those of Kendall's tau span [-1, 1], so that
    the error doubles.
    """
    num_values = protocol.randomizer.num_values
    return 2 * math.sqrt(u_statistic_variance(num_users, num_values, protocol.epsilon))


def cells(settings: Settings) -> list[Simulation]:
    """A cell for each grid and epsilon."""
    finest = protocol(NUM_CLASSES, 1.0).truth(merged_table(NUM_CLASSES))
    return [
        Simulation(
            protocol=protocol(grid, epsilon),
            data=HistogramData(merged_table(grid)),
            num_trials=settings.num_trials,
            seed=settings.seed,
            target=float(finest),
            bound=bound_rmse,
            labels={"grid": f"{grid}×{grid}", "epsilon": epsilon},
        )
        for grid in ((2, 3, 5) if settings.quick else GRIDS)
        for epsilon in settings.epsilons
    ]


def figure(results: "pa.Table") -> "Figure":
    """RMSE against epsilon: measured points on predicted curves, the paper's bounds dashed."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    rows = results.to_pylist()
    labels = list(dict.fromkeys(row["grid"] for row in rows))
    epsilons = sorted({row["epsilon"] for row in rows})
    dense = np.geomspace(epsilons[0], epsilons[-1], 21)
    canvas = Figure(figsize=(8, 6.4), layout="constrained")
    upper, lower = canvas.subplots(2, height_ratios=(4, 1), sharex=True)
    colors = colormaps["viridis"](np.linspace(0, 0.9, len(labels)))
    # Side by side within 8 % of each epsilon, so that the error bars below can be told apart.
    shifts = np.geomspace(0.92, 1 / 0.92, len(labels)) if len(labels) > 1 else [1.0]
    for label, color, shift in zip(labels, colors, shifts, strict=True):
        grid = int(label.partition("×")[0])
        specs = [protocol(grid, epsilon) for epsilon in dense]
        predicted = [math.sqrt(spec.variance(merged_table(grid))) for spec in specs]
        bounds = [bound_rmse(spec, rows[0]["num_users"]) for spec in specs]
        measured = [row for row in rows if row["grid"] == label]
        columns = "epsilon", "rmse", "mse_stderr", "predicted_rmse"
        points, rmse, stderr, expected = np.array([[r[c] for c in columns] for r in measured]).T
        stderr /= 2 * rmse  # of a root: the square's over twice the root (delta method)
        upper.plot(dense, bounds, "--", color=color, linewidth=0.8, alpha=0.6)
        upper.plot(dense, predicted, color=color, linewidth=1.3)
        dots = dict(fmt="o", color=color, markersize=4, elinewidth=1)
        upper.errorbar(points, rmse, 2 * stderr, label=label, **dots)
        lower.errorbar(points * shift, rmse / expected, 2 * stderr / expected, **dots)
    _dress(canvas, upper, lower, epsilons)
    upper.set_title(
        f"Kendall's τ of the departure and arrival delays of {rows[0]['num_users']:,} flights, "
        f"{rows[0]['num_trials']:,} trials a point",
        loc="left",
        fontsize=10,
    )
    return canvas


def _dress(canvas: "Figure", upper: "Axes", lower: "Axes", epsilons: list[float]) -> None:
    """Scales, ticks, labels and legends."""
    from matplotlib.lines import Line2D

    upper.set(xscale="log", yscale="log", ylabel="root mean squared error")
    lower.set(xlabel="ε", ylabel="measured /\npredicted")
    lower.axhline(1, color="0.3", linewidth=1, zorder=0)
    lower.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    lower.set_xticks([], minor=True)
    for axes in (upper, lower):
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    dots, grids = upper.get_legend_handles_labels()
    canvas.legend(  # in the order of the curves
        dots[::-1], grids[::-1], title="grid", frameon=False, loc="outside right upper"
    )
    kinds = [
        Line2D([], [], color="0.3", marker="o", markersize=4, linestyle="", label="measured"),
        Line2D([], [], color="0.3", linewidth=1.3, label="predicted"),
        Line2D([], [], color="0.3", linestyle="--", linewidth=0.8, label="bound of the paper"),
    ]
    upper.legend(handles=kinds, frameon=False, loc="lower left")
    lower.set_title("with 2 standard errors", loc="left", fontsize=8, color="0.3")


EXPERIMENT = Experiment(
    name="kendall-flights",
    summary="Kendall's tau of the departure and arrival delays of 327,346 flights",
    cells=cells,
    settings=Settings(epsilons=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0), num_trials=1000),
    quick=Settings(epsilons=(0.5, 2.0, 8.0), num_trials=1000, quick=True),
    figure=figure,
)

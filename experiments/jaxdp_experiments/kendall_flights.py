"""Kendall's tau between the departure and arrival delays of real flights, estimated privately.

Every flight is a user who knows the classes of its two delays (`jaxdp.data.load_flights`). On a g ×
g grid the ten classes are merged into g groups of neighbours, class c into group floor(c·g/10). The
grouping is fixed before anyone's delay is seen, so it costs no privacy; and the groups are ordered,
so a pair of flights either keeps its sign or becomes a tie. The true tau of a coarse grid is
therefore further from the tau of all ten classes, but its estimate has a smaller error: randomized
response has only g² values to choose from.
"""

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from jaxdp import figures
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
    """RMSE against epsilon: measured points on predicted curves, the paper's bounds dotted.

    Below, what is measured over what is predicted, with two standard errors.
    """
    rows = results.to_pylist()
    labels = list(dict.fromkeys(row["grid"] for row in rows))
    epsilons = sorted({row["epsilon"] for row in rows})
    dense = np.geomspace(epsilons[0], epsilons[-1], 21)
    canvas, panels = figures.panels(rows=2, height=5.6, height_ratios=(4, 1.2), sharex=True)
    upper, lower = panels[:, 0]
    # Side by side within 10 % of each epsilon, so that the error bars below can be told apart.
    shifts = np.geomspace(0.9, 1 / 0.9, len(labels)) if len(labels) > 1 else [1.0]
    shades = figures.shades(len(labels))
    for place, (label, color, shift) in enumerate(zip(labels, shades, shifts, strict=True)):
        grid = int(label.partition("×")[0])
        specs = [protocol(grid, epsilon) for epsilon in dense]
        predicted = [math.sqrt(spec.variance(merged_table(grid))) for spec in specs]
        bounds = [bound_rmse(spec, rows[0]["num_users"]) for spec in specs]
        measured = [row for row in rows if row["grid"] == label]
        columns = "epsilon", "rmse", "mse_stderr", "predicted_rmse"
        points, rmse, stderr, expected = np.array([[r[c] for c in columns] for r in measured]).T
        stderr /= 2 * rmse  # of a root: the square's over twice the root (delta method)
        upper.plot(dense, bounds, ":", color=color, linewidth=0.9)
        upper.plot(dense, predicted, "--", color=color)
        dots = dict(
            color=color, marker=figures.mark(place).marker, linestyle="none", elinewidth=0.9
        )
        upper.errorbar(points, rmse, 2 * stderr, label=label, **dots)
        lower.errorbar(points * shift, rmse / expected, 2 * stderr / expected, **dots)
    upper.set(xscale="log", yscale="log", ylabel="root mean squared error")
    lower.set(xlabel="ε", ylabel="measured /\npredicted")
    lower.axhline(1, color=figures.LIGHT.axis, linewidth=0.9, zorder=0)
    lower.grid(visible=False, axis="x")
    figures.tidy(upper)
    figures.tidy(lower, x=epsilons)
    upper.set_title(
        f"Kendall's τ of the delays of {rows[0]['num_users']:,} flights, "
        f"{rows[0]['num_trials']:,} trials a point",
        loc="left",
    )
    _name(canvas, upper)
    return canvas


def _name(canvas: "Figure", upper: "Axes") -> None:
    """Legends: of the grids in the order of the curves, and of what lines and points are."""
    from matplotlib.lines import Line2D

    dots, labels = upper.get_legend_handles_labels()
    canvas.legend(dots[::-1], labels[::-1], title="grid", loc="outside right upper")
    quiet = figures.LIGHT.quiet
    kinds = [
        Line2D([], [], color=quiet, marker="o", linestyle="", label="measured, 2 s.e."),
        Line2D([], [], color=quiet, linestyle="--", label="predicted"),
        Line2D([], [], color=quiet, linestyle=":", label="bound of Bell et al., Theorem 1"),
    ]
    figures.legend(canvas, kinds)


EXPERIMENT = Experiment(
    name="kendall-flights",
    summary="Kendall's tau of the departure and arrival delays of 327,346 flights",
    cells=cells,
    settings=Settings(epsilons=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0), num_trials=1000),
    quick=Settings(epsilons=(0.5, 2.0, 8.0), num_trials=1000, quick=True),
    figure=figure,
)

"""Figure 4 of Bell et al. (2020): Kendall's tau of hotel ratings, by matchings and by all pairs.

Users are reviews of hotels that rate the rooms and their cleanliness. The paper's "246K records"
with a true tau of 0.8 are matched by the 243,713 reviews of `table_all`, where "not rated" is the
lowest level, and by tau_b = 0.783. But a quarter of the pairs tie in either rating, and the kernel
sgn(x_1 - y_1) sgn(x_2 - y_2) of the paper's protocol estimates tau_a = 0.586: against 0.8 its error
would not fall below 0.2. So both statistics are estimated here, each against its own truth; tau_b
by plug-in, a pair reporting the kernels of both ties as well.

What the paper reports, and what we find (Laplace noise, tau_a):

  * "P = 1 is best in high privacy regimes": it is best up to epsilon = 6; where noise dominates,
    other P have nearly sqrt(P) times its error.
  * "P > 1 can be used to reduce the overall error in low privacy regimes": at epsilon = 16, where
    P = 3 is the best and P = 2 has 0.81 times the error of P = 1.
  * Matchings have "lower error by roughly an order of magnitude" than all pairs with advanced
    composition and delta = 1e-8: P = 1 has 5 times less up to epsilon = 2, and 3 times at 8; as
    noise alone it would be `sqrt(2 ln(1 / delta))`, 6.1 times. With optimal composition, which the
    paper does not use, it has 4 times less up to epsilon = 2.

Our Laplace noise is cut at its ends, which takes 17 % off the error of P = 1 at epsilon = 1, and
more off that of all pairs, whose reports have a small epsilon each. The noise term of Theorem 5 is
printed half as large as it is; the predictions use the right one. With P = 1, k-ary randomized
response among the kernel's signs does better than this noise: for tau_a from epsilon = 1 on, by a
tenth there, and for tau_b, whose three kernels it reports at once, throughout, by half there.

The tables are read from `tripadvisor_tables.npz` in the folder that the environment variable
`JAXDP_DATA` names; they may not be redistributed.
"""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jaxdp import figures
from jaxdp.data import load_tripadvisor
from jaxdp.pairwise import KendallTau
from jaxdp.sweep import Experiment, HistogramData, Settings, Simulation
from jaxdp.trusted import AllPairs, PairSampling
from jaxdp_experiments._data import data_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

FILE = "tripadvisor_tables.npz"
PERMUTATIONS = (1, 2, 3, 5, 10)
DELTA = 1e-8
STATISTICS: dict[str, Literal["a", "b"]] = {"tau_a": "a", "tau_b": "b"}
NOISES = ("laplace", "krr")
LABELS = {"laplace": "Laplace noise", "krr": "k-RR"}
ALL, OPTIMAL = "all pairs", "all pairs, optimal"
"""All pairs with epsilon split by advanced composition, as in the paper, and by optimal one."""


def read_table() -> np.ndarray:
    """The reviews by rooms and cleanliness, "not rated" lowest: int64[6, 6]."""
    return load_tripadvisor(data_folder(FILE) / FILE)["table_all"]


def protocols(shape: tuple[int, int], num_users: int, statistic: str, noise: str, epsilon: float):
    """The protocols that are compared, by name."""
    kernel = KendallTau(STATISTICS[statistic])
    found: dict[str, Any] = {
        f"P = {p}": PairSampling(kernel, epsilon, shape, num_permutations=p, noise=noise)
        for p in PERMUTATIONS
    }
    for name, composition in ((OPTIMAL, "optimal"), (ALL, "advanced")):
        found[name] = AllPairs(
            kernel, epsilon, num_users, shape, noise=noise, delta=DELTA, composition=composition
        )
    return found


def cells_of(table: np.ndarray, settings: Settings) -> list[Simulation]:
    """A cell for each statistic, kind of noise, protocol and epsilon, of the users of a table."""
    return [
        Simulation(
            protocol=protocol,
            data=HistogramData(table),
            num_trials=settings.num_trials,
            seed=settings.seed,
            method="tally",
            labels={"statistic": statistic, "noise": noise, "pairs": name, "epsilon": epsilon},
        )
        for statistic in STATISTICS
        for noise in (NOISES[:1] if settings.quick else NOISES)
        for epsilon in settings.epsilons
        for name, protocol in protocols(
            table.shape, int(table.sum()), statistic, noise, epsilon
        ).items()
        if not settings.quick or name in ("P = 1", "P = 3", OPTIMAL, ALL)
    ]


def cells(settings: Settings) -> list[Simulation]:
    """The cells of the paper's table."""
    return cells_of(read_table(), settings)


def figure(results: "pa.Table") -> "Figure":
    """Mean absolute error with its standard deviation over trials, beside the predicted mean.

    A normal error's absolute value is sqrt(2/pi) times its root mean square on average.
    """
    from matplotlib.lines import Line2D

    rows = results.to_pylist()
    noises = [noise for noise in NOISES if any(row["noise"] == noise for row in rows)]
    every = (*(f"P = {p}" for p in PERMUTATIONS), OPTIMAL, ALL)
    names = [name for name in every if any(row["pairs"] == name for row in rows)]
    looks = {name: figures.mark(place) for place, name in enumerate(names)}
    epsilons = sorted({row["epsilon"] for row in rows})
    canvas, grid = figures.panels(
        2, len(noises), height=0.6 + 2.3 * len(noises), sharex=True, sharey=True
    )
    each = 0.8 / len(names)
    for line, noise in zip(grid, noises, strict=True):
        for axes, statistic in zip(line, STATISTICS, strict=True):
            own = [r for r in rows if (r["noise"], r["statistic"]) == (noise, statistic)]
            for row in own:
                # Side by side within each epsilon, so that no bar covers another.
                place = names.index(row["pairs"])
                at = epsilons.index(row["epsilon"]) + (place - (len(names) - 1) / 2) * each
                error = np.abs(np.array(row["estimates"]) - row["truth"])
                color, marker, _ = looks[row["pairs"]]
                axes.errorbar(at, error.mean(), error.std(), color=color, marker=marker)
                predicted = row["predicted_rmse"] * np.sqrt(2 / np.pi)
                ends = [at - each / 2, at + each / 2]
                axes.plot(ends, [predicted] * 2, color=figures.LIGHT.ink, linewidth=0.8)
            for border in range(1, len(epsilons)):
                axes.axvline(border - 0.5, color=figures.LIGHT.line, linewidth=0.5)
            symbol = rf"$\tau_{STATISTICS[statistic]}$"
            axes.set(yscale="log", title=f"{symbol} = {own[0]['truth']:.3f}, {LABELS[noise]}")
            axes.set_xlim(-0.5, len(epsilons) - 0.5)
            axes.grid(visible=False, axis="x")
            figures.tidy(axes, x={i: f"{epsilon:g}" for i, epsilon in enumerate(epsilons)})
    for axes in grid[-1]:
        axes.set_xlabel("ε")
    for axes in grid[:, 0]:
        axes.set_ylabel("absolute error")
    handles = [
        Line2D([], [], color=look.color, marker=look.marker, linestyle="", label=name)
        for name, look in looks.items()
    ]
    handles.append(
        Line2D([], [], color=figures.LIGHT.ink, linewidth=0.8, label="predicted; bars: ± 1 s.d.")
    )
    figures.legend(canvas, handles)
    return canvas


EXPERIMENT = Experiment(
    name="bell-fig4",
    summary="Bell et al.'s Figure 4: Kendall's tau of hotel ratings by pairs of users",
    cells=cells,
    settings=Settings(epsilons=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0), num_trials=100),
    quick=Settings(epsilons=(1.0, 8.0), num_trials=20, quick=True),
    figure=figure,
)

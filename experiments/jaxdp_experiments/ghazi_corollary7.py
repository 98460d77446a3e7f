"""Corollary 7 of Ghazi et al. (2023): errors of four statistics of pairs against the domain's size.

The paper has, in O notation and without numbers, a mean squared error of `log n`, `(log k)**5`,
`(log k)**3` and `log k` over `epsilon**2 n` for Lipschitz functions, Kendall's tau, the AUC and
Gini's diversity index, by two reports of each user (Lemma 11). Here its protocol is run, as it is
printed and with the best constant taken out of W, beside one report with all of epsilon, on users
whose frequencies rise linearly from value to value; with the worst case of each, which is proven,
and the proven constants of `jaxdp.bounds`.

What we find: with the dimension of the vectors at most k, the factor log k of Theorem 5 does not
occur unless n is below k times the variance of a report. What remains is gamma_2**2: constant for
Lipschitz functions (of the range) and diversity, `(2 / pi ln m)**2` for each coordinate of m values
of Kendall's tau, and for the scores of the AUC. Two reports cost twice as much, and up to seven
times where the second order matters. As printed, without a constant taken out, they cost 13 to 23
times as much as one report for Lipschitz functions, and 60 to 570 times for the diversity of these
users.
"""

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import jaxdp
from jaxdp import figures
from jaxdp.bounds import (
    gini_diversity_mse,
    kendall_mse,
    lipschitz_mse,
)
from jaxdp.pairwise import (
    GiniDiversity,
    GiniMeanDifference,
    Grid,
    KendallTau,
    OneReport,
    PairKernel,
    TwoReport,
)
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._cells import coordinates, key_of

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

NUM_USERS = 10**5
STATISTICS = ("lipschitz", "kendall", "auc", "diversity")
TITLES = {
    "lipschitz": "|x − y|",
    "kendall": "Kendall's tau",
    "auc": "area under the curve",
    "diversity": "Gini's diversity",
}
"""The statistics, as they are called in the figure."""

PROTOCOLS = {
    "one report": functools.partial(OneReport, form="v"),
    "two reports": functools.partial(TwoReport, form="v"),
    "as printed": functools.partial(TwoReport, form="v", shift=False),
}
"""One report of each user; the paper's two, by factors of W minus the best constant and of W."""

LABELS = {
    "one report": "one report",
    "two reports": "two reports, W minus a constant",
    "as printed": "two reports, as printed",
}
"""The protocols, as they are called in the figure."""


def rising_users(num_values: int, num_users: int) -> np.ndarray:
    """Users whose numbers rise linearly from value to value, int64[k]."""
    counts = np.arange(1, num_values + 1) * 2 * num_users // (num_values * (num_values + 1))
    # What rounding down left over.
    counts[0] += num_users - counts.sum()
    return counts


@dataclasses.dataclass(frozen=True, slots=True)
class CorollaryCell:
    """One statistic on one domain.

    Args:
      statistic: one of `STATISTICS`.
      num_values: k; a square for Kendall's tau, twice the scores for the AUC.
      epsilon: privacy parameter.
      num_trials: how many trials are simulated.
      seed: an integer.
    """

    statistic: str
    num_values: int
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "statistic", "num_values", "epsilon")

    def matrix(self) -> np.ndarray:
        """The kernel's matrix; that of the AUC is of its T, for classes of half the users each."""
        k = self.num_values
        if self.statistic == "lipschitz":
            return GiniMeanDifference().matrix(Grid.uniform(k))
        if self.statistic == "diversity":
            return GiniDiversity().matrix(k)
        return KendallTau().matrix(self.table())

    def bound(self) -> float:
        """The proven bound of `jaxdp.bounds`."""
        k, e = self.num_values, self.epsilon
        if self.statistic == "lipschitz":
            return lipschitz_mse(1.0, NUM_USERS, e, num_bins=k)
        if self.statistic == "diversity":
            return gini_diversity_mse(k, NUM_USERS, e)
        return kendall_mse(self.table(), NUM_USERS, e)

    def table(self) -> tuple[int, int]:
        """The shape of the table of Kendall's tau, or of the AUC's labels and scores."""
        side = math.isqrt(self.num_values)
        return (side, side) if self.statistic == "kendall" else (2, self.num_values // 2)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each protocol of `PROTOCOLS`: errors times n, predicted, proven, measured."""
        k = self.num_values
        counts = rising_users(k, NUM_USERS)
        users = jaxdp.Population.from_histogram(counts)
        found = []
        for name, make in PROTOCOLS.items():
            protocol = make(PairKernel.from_matrix(self.matrix()), self.epsilon)
            trials = jaxdp.simulate(
                protocol,
                users,
                key_of(self.seed, f"{name} {self.statistic} {k} {self.epsilon}"),
                num_trials=self.num_trials,
                method="tally",
                mesh="local",
            )
            errors = {
                "measured": float(trials.mse),
                "measured_stderr": float(trials.mse_stderr),
                "predicted": float(protocol.variance(counts)),
                "worst": protocol.worst_case_variance(NUM_USERS),
                "bound": self.bound(),
            }
            row = dict(self.labels) | {"protocol": name, "num_users": NUM_USERS}
            row |= {column: NUM_USERS * float(error) for column, error in errors.items()}
            found.append(row | {"num_trials": self.num_trials})
        return found


def cells(settings: Settings) -> list[CorollaryCell]:
    """A cell for each statistic and size."""
    sizes = (4,) if settings.quick else (4, 16, 64, 256)
    statistics = STATISTICS[3:] if settings.quick else STATISTICS
    return [
        CorollaryCell(statistic, k, epsilon, settings.num_trials, settings.seed)
        for epsilon in settings.epsilons
        for statistic in statistics
        for k in sizes
    ]


def figure(results: "pa.Table") -> "Figure":
    """Errors times n against k, a panel for each statistic; those of `PROTOCOLS` by color."""
    from matplotlib.lines import Line2D

    rows = results.to_pylist()
    names = list(dict.fromkeys(row["statistic"] for row in rows))
    epsilon = rows[0]["epsilon"]
    canvas, grid = figures.panels(
        min(len(names), 2), -(-len(names) // 2), height=0.6 + 2.2 * -(-len(names) // 2), sharex=True
    )
    for axes, name in zip(grid.flat, names, strict=False):
        mine = [r for r in rows if (r["statistic"], r["epsilon"]) == (name, epsilon)]
        for place, (protocol, label) in enumerate(LABELS.items()):
            own = [r for r in mine if r["protocol"] == protocol]
            k = [r["num_values"] for r in own]
            color, marker, _ = figures.mark(place)
            dots: dict[str, Any] = dict(color=color, marker=marker, linestyle="none")
            bars = [2 * r["measured_stderr"] for r in own]
            axes.errorbar(k, [r["measured"] for r in own], bars, label=label, **dots)
            axes.plot(k, [r["predicted"] for r in own], "--", color=color, linewidth=1)
            axes.plot(k, [r["worst"] for r in own], color=color, linewidth=1)
        bounds = {r["num_values"]: r["bound"] for r in mine}
        axes.plot([*bounds], [*bounds.values()], ":", color=figures.LIGHT.ink)
        axes.set(xscale="log", yscale="log", title=TITLES[name])
        figures.tidy(axes, x=[*bounds])
    for axes in grid[-1]:
        axes.set_xlabel("values k")
    for axes in grid[:, 0]:
        axes.set_ylabel("mean squared error times n")
    canvas.suptitle(f"ε = {epsilon:g}, n = {NUM_USERS:,}")
    handles = [
        Line2D([], [], color=figures.mark(i).color, marker=figures.mark(i).marker, label=label)
        for i, label in enumerate(LABELS.values())
    ]
    quiet = figures.LIGHT.quiet
    handles += [
        Line2D([], [], color=quiet, linestyle="-", label="worst case"),
        Line2D([], [], color=quiet, linestyle="--", label="these users, exact"),
        Line2D([], [], color=quiet, marker="o", linestyle="", label="measured, 2 s.e."),
        Line2D([], [], color=figures.LIGHT.ink, linestyle=":", label="proven bound"),
    ]
    figures.legend(canvas, handles)
    return canvas


EXPERIMENT = Experiment(
    name="ghazi-corollary7",
    summary="Errors of four statistics of pairs against the size of the domain",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=200),
    quick=Settings(epsilons=(1.0,), num_trials=50, quick=True),
    figure=figure,
)

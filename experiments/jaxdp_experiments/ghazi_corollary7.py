"""Corollary 7 of Ghazi et al. (2023): errors of four statistics of pairs against the domain's size.

The paper has, in O notation and without numbers, a mean squared error of `log n`, `(log k)**5`,
`(log k)**3` and `log k` over `epsilon**2 n` for Lipschitz functions, Kendall's tau, the AUC and
Gini's diversity index. Here are the proven constants (`jaxdp.bounds`), the proven worst case of one
report and of the paper's two, and the error measured with one report on users whose frequencies
rise linearly from value to value.

What we find: with the dimension of the vectors at most k, the factor log k of Theorem 5 does not
occur unless n is below k times the variance of a report. What remains is gamma_2**2: constant for
Lipschitz functions (of the range) and diversity, `(2 / pi ln m)**2` for each coordinate of m values
of Kendall's tau, and for the scores of the AUC. Two reports cost twice as much, and eight times
where the second order matters.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import jax
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
from jaxdp_experiments._cells import coordinates

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
        """One row: errors times n, predicted, proven and measured."""
        kernel, k = PairKernel.from_matrix(self.matrix()), self.num_values
        one = OneReport(kernel, self.epsilon, form="v")
        two = TwoReport(kernel, self.epsilon, form="v")
        counts = np.arange(1, k + 1) * 2 * NUM_USERS // (k * (k + 1))
        # What rounding down left over.
        counts[0] += NUM_USERS - counts.sum()
        users = jaxdp.Population.from_histogram(counts)
        key = jax.random.fold_in(jax.random.key(self.seed), k)
        trials = jaxdp.simulate(
            one, users, key, num_trials=self.num_trials, method="tally", mesh="local"
        )
        return [
            dict(self.labels)
            | {
                "num_users": NUM_USERS,
                "measured": NUM_USERS * float(np.square(trials.errors).mean()),
                "predicted": NUM_USERS * float(one.variance(counts)),
                "one_report": NUM_USERS * one.worst_case_variance(NUM_USERS),
                "two_reports": NUM_USERS * two.worst_case_variance(NUM_USERS),
                "bound": NUM_USERS * self.bound(),
                "num_trials": self.num_trials,
            }
        ]


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
    """Errors times n against k, a panel for each statistic."""
    rows = results.to_pylist()
    names = list(dict.fromkeys(row["statistic"] for row in rows))
    epsilon = rows[0]["epsilon"]
    canvas, grid = figures.panels(
        min(len(names), 2), -(-len(names) // 2), height=0.6 + 2.2 * -(-len(names) // 2), sharex=True
    )
    lines = (
        ("bound", figures.LIGHT.ink, ":", None, "proven bound"),
        ("two_reports", figures.mark(1).color, "-", "s", "two reports, worst case"),
        ("one_report", figures.mark(0).color, "-", "o", "one report, worst case"),
        ("predicted", figures.mark(2).color, "--", None, "one report, these users"),
        ("measured", figures.mark(2).color, "none", "^", "the same, measured"),
    )
    for axes, name in zip(grid.flat, names, strict=False):
        mine = [r for r in rows if (r["statistic"], r["epsilon"]) == (name, epsilon)]
        k = [r["num_values"] for r in mine]
        for column, color, dashes, marker, label in lines:
            look = dict(color=color, linestyle=dashes, marker=marker, label=label)
            axes.plot(k, [r[column] for r in mine], **look)
        axes.set(xscale="log", yscale="log", title=TITLES[name])
        figures.tidy(axes, x=k)
    for axes in grid[-1]:
        axes.set_xlabel("values k")
    for axes in grid[:, 0]:
        axes.set_ylabel("mean squared error times n")
    canvas.suptitle(f"ε = {epsilon:g}, n = {NUM_USERS:,}")
    figures.legend(canvas)
    return canvas


EXPERIMENT = Experiment(
    name="ghazi-corollary7",
    summary="Errors of four statistics of pairs against the size of the domain",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=200),
    quick=Settings(epsilons=(1.0,), num_trials=50, quick=True),
    figure=figure,
)

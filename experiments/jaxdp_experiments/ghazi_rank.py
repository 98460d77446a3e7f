"""The rank of the factors of a quadratic form: random projection against leading directions.

Ghazi et al. (2023) bound the second-order noise of their two reports, proportional to the dimension
l of the factors, by a Johnson-Lindenstrauss projection to l = O(log k) / alpha**2 (Lemma 12), and
report no numbers. Here is what reduction costs for a given l: the largest squared bias, which is
that of an entry of W, and the proven error of a protocol of that rank, for two reports with the
projection, and for one report with the leading directions of its vectors.

What we find: for the statistics of practice the projection is a device of the proof. At every l its
squared bias is larger than that of leading directions: for Gini's mean difference (k = 64) by about
3 at l = 1, by 7 at l = 2 and by 20 to 60 from l = 4 to 48, for Kendall's tau (k = 64) by about 40
at l = 1 and by 5 to 30 from l = 4 to 48. At l = 63 that of leading directions is gone, while that
of the projection is still about 100 (of entries up to 63) and 2 (of entries up to 1). Leading
directions pay for few users; full rank is best once n is large against l times the variance of a
report.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp import figures
from jaxdp.factorization import gamma2, johnson_lindenstrauss
from jaxdp.pairwise import GiniMeanDifference, KendallTau, OneReport
from jaxdp.randomizers import PrivUnitG
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._cells import coordinates

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

KERNELS = {"gini": GiniMeanDifference(), "kendall": KendallTau()}
SHAPES = {"gini": 64, "kendall": (8, 8)}
USERS = (10**3, 10**5)
TITLES = {"gini": "Gini's mean difference", "kendall": "Kendall's tau"}
REDUCTIONS = {"jl": "random projection, two reports", "leading": "leading directions, one report"}
"""Statistics and reductions, as they are called in the figure."""


@functools.lru_cache(maxsize=4)
def factors(statistic: str):
    """The kernel's matrix minus its middle value, and optimal factors of it."""
    matrix = KERNELS[statistic].matrix(SHAPES[statistic])
    # A constant added to W adds the same to every answer, and makes factors longer.
    matrix = matrix - (matrix.max() + matrix.min()) / 2
    return matrix, gamma2(matrix, tol=1e-3)


@dataclasses.dataclass(frozen=True, slots=True)
class RankCell:
    """The bias and the proven error of one reduction at one rank.

    Args:
      statistic: "gini" or "kendall".
      reduction: "jl" (two reports) or "leading" (one report).
      rank: l.
      epsilon: privacy parameter.
      num_trials: how many projections are drawn; the one of least bias is used.
      seed: an integer.
    """

    statistic: str
    reduction: str
    rank: int
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "statistic", "reduction", "rank", "epsilon")

    def rows(self) -> list[dict[str, Any]]:
        """A row for each number of users: the squared `bias` and the proven `mse`."""
        found = []
        for n in USERS:
            bias, mse = self._jl(n) if self.reduction == "jl" else self._leading(n)
            found.append(dict(self.labels) | {"num_users": n, "bias_squared": bias, "mse": mse})
        return found

    def _jl(self, n: int) -> tuple[float, float]:
        matrix, full = factors(self.statistic)
        seeds = range(self.seed, self.seed + self.num_trials)
        drawn = [johnson_lindenstrauss(matrix, full, self.rank, seed=s) for s in seeds]
        best = min(drawn, key=lambda f: float(f.alpha))
        alpha, norm = float(best.alpha), float(best.upper)
        noise = PrivUnitG(1, self.epsilon / 2).worst_case_variance(1)
        # Each report spends half of epsilon: twice the noise of one against the mean vector of the
        # other, and noise against noise in every coordinate.
        mse = alpha**2 + norm**2 * (2 * noise / n + self.rank * noise**2 / n**2)
        return alpha**2, mse

    def _leading(self, n: int) -> tuple[float, float]:
        protocol = OneReport(
            KERNELS[self.statistic],
            self.epsilon,
            num_values=SHAPES[self.statistic],
            rank=self.rank,
        )
        return float(protocol.bias) ** 2, protocol.worst_case_variance(n)


def cells(settings: Settings) -> list[RankCell]:
    """A cell for each statistic, reduction and rank."""
    ranks = (4, 32) if settings.quick else (1, 2, 4, 8, 16, 32, 48, 63)
    statistics = ("gini",) if settings.quick else tuple(KERNELS)
    return [
        RankCell(statistic, reduction, rank, epsilon, settings.num_trials, settings.seed)
        for epsilon in settings.epsilons
        for statistic in statistics
        for reduction in ("jl", "leading")
        for rank in ranks
    ]


def figure(results: "pa.Table") -> "Figure":
    """The proven error against the rank, a panel for each statistic and number of users."""
    from matplotlib.lines import Line2D

    rows = results.to_pylist()
    names = list(dict.fromkeys(row["statistic"] for row in rows))
    epsilon = rows[0]["epsilon"]
    canvas, grid = figures.panels(
        len(USERS), len(names), height=0.6 + 2.2 * len(names), sharex=True, sharey="row"
    )
    ranks = sorted({row["rank"] for row in rows})
    looks = {reduction: figures.mark(place) for place, reduction in enumerate(REDUCTIONS)}
    for line, name in zip(grid, names, strict=True):
        for axes, n in zip(line, USERS, strict=True):
            for reduction, look in looks.items():
                mine = [
                    (r["rank"], r["bias_squared"], r["mse"])
                    for r in rows
                    if (r["statistic"], r["reduction"], r["num_users"], r["epsilon"])
                    == (name, reduction, n, epsilon)
                ]
                rank, bias, mse = np.array(mine).T
                axes.plot(rank, mse, color=look.color, marker=look.marker)
                # A bias of rounding errors is none, and has no place on a log axis.
                axes.plot(rank, np.where(bias < 1e-9, np.nan, bias), ":", color=look.color)
            axes.set(xscale="log", yscale="log", title=f"{TITLES[name]}, n = {n:,}")
            figures.tidy(axes, x=[r for r in ranks if r != 63])
    for axes in grid[-1]:
        axes.set_xlabel("rank l")
    for axes in grid[:, 0]:
        axes.set_ylabel("mean squared error")
    handles = [
        Line2D([], [], color=look.color, marker=look.marker, label=REDUCTIONS[reduction])
        for reduction, look in looks.items()
    ]
    handles.append(
        Line2D([], [], color=figures.LIGHT.quiet, linestyle=":", label="its squared bias")
    )
    figures.legend(canvas, handles)
    return canvas


EXPERIMENT = Experiment(
    name="ghazi-rank",
    summary="Quadratic forms at reduced rank: random projection against leading directions",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=5),
    quick=Settings(epsilons=(1.0,), num_trials=2, quick=True),
    figure=figure,
)

"""The rank of the factors of a quadratic form: random projection against leading directions.

Ghazi et al. (2023) bound the second-order noise of their two reports, proportional to the dimension
l of the factors, by a Johnson-Lindenstrauss projection to l = O(log k) / alpha**2 (Lemma 12), and
report no numbers. Here is what reduction costs for a given l: the largest squared bias, which is
that of an entry of W, and the proven error. From each protocol to the next one thing changes: two
reports by a random projection of the optimal factors (the best of 20); two reports by the leading
directions; one report of the same vectors, with all of epsilon; and the same with a constant of
each row taken out of W.

What we find: for the statistics of practice the projection is a device of the proof. At k = 64 and
every l its squared bias is larger than that of leading directions: for Gini's mean difference by 2
to 12 at l = 1 and 2, and by 40 to 2,800 from l = 4 to 48; for Kendall's tau by 10 to 80. At full
rank that of leading directions is gone, and the projection's is not. One report takes another half
of what noise is left, two thirds where users are few. Constants of rows matter little, and with a
low rank they may do harm: for Kendall's tau their vectors are other ones, shorter and not as soon
used up. A lower rank pays for few users alone.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp import figures
from jaxdp.factorization import gamma2, johnson_lindenstrauss
from jaxdp.pairwise import GiniMeanDifference, KendallTau, OneReport, PairKernel
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
REDUCTIONS = {
    "projection": "random projection, two reports",
    "leading": "leading directions, two reports",
    "one report": "leading directions, one report",
    "row constants": "the same, row constants taken out",
}
"""Statistics and protocols, as they are called in the figure: each changes one thing more."""


@functools.lru_cache(maxsize=4)
def factors(statistic: str):
    """The kernel's matrix minus its middle value, and optimal factors of it."""
    matrix = KERNELS[statistic].matrix(SHAPES[statistic])
    # A constant added to W adds the same to every answer, and makes factors longer.
    matrix = matrix - (matrix.max() + matrix.min()) / 2
    return matrix, gamma2(matrix, tol=1e-3)


@dataclasses.dataclass(frozen=True, slots=True)
class RankCell:
    """The bias and the proven error of one protocol at one rank.

    Args:
      statistic: "gini" or "kendall".
      reduction: one of `REDUCTIONS`.
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
        """A row for each number of users: the squared `bias` and the proven `mse`.

        Of projections `bias_squared` is the least of all draws; `mean_bias_squared` is the mean,
        with its standard error.
        """
        matrix, full = factors(self.statistic)
        one = OneReport(
            PairKernel.from_matrix(matrix),
            self.epsilon,
            rank=self.rank,
            shift=self.reduction == "row constants",
        )
        biases, norm = [float(one.bias)], 0.0
        if self.reduction == "projection":
            seeds = range(self.seed, self.seed + self.num_trials)
            drawn = [johnson_lindenstrauss(matrix, full, self.rank, seed=s) for s in seeds]
            biases = [float(found.alpha) for found in drawn]
            norm = float(min(drawn, key=lambda found: float(found.alpha)).upper)
        if self.reduction == "leading":
            embedding = one.embedding()
            vectors, weights = embedding.vectors, embedding.forms[0].weights
            norm = lengths(vectors) * lengths(vectors * weights)
        squares, found = np.square(biases), []
        for n in USERS:
            if self.reduction in ("projection", "leading"):
                mse = squares.min() + two_reports(norm, self.rank, n, self.epsilon)
            else:
                mse = one.worst_case_variance(n)
            row = {"num_users": n, "bias_squared": float(squares.min()), "mse": float(mse)}
            row |= {
                "mean_bias_squared": float(squares.mean()),
                "bias_stderr": float(squares.std() / np.sqrt(len(squares))),
            }
            found.append(dict(self.labels) | row)
        return found


def lengths(vectors: np.ndarray) -> float:
    """The largest length of a row."""
    return float(np.linalg.norm(vectors, axis=1).max())


def two_reports(norm: float, rank: int, num_users: int, epsilon: float) -> float:
    """The largest variance of two reports of vectors, the product of whose lengths is `norm`."""
    noise = PrivUnitG(1, epsilon / 2).worst_case_variance(1)
    # Each report spends half of epsilon: twice the noise of one against the mean vector of the
    # other, and noise against noise in every coordinate.
    return norm**2 * (2 * noise / num_users + rank * noise**2 / num_users**2)


def cells(settings: Settings) -> list[RankCell]:
    """A cell for each statistic, reduction and rank."""
    ranks = (4, 32) if settings.quick else (1, 2, 4, 8, 16, 32, 48, 64)
    statistics = ("gini",) if settings.quick else tuple(KERNELS)
    return [
        RankCell(statistic, reduction, rank, epsilon, settings.num_trials, settings.seed)
        for epsilon in settings.epsilons
        for statistic in statistics
        for reduction in REDUCTIONS
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
            figures.tidy(axes, x=[r for r in ranks if r != 48])
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
    settings=Settings(epsilons=(1.0,), num_trials=20),
    quick=Settings(epsilons=(1.0,), num_trials=2, quick=True),
    figure=figure,
)

"""Figure 5 of Bell et al. (2020): the AUC of two made-up data sets of two million users.

In `auc_one` all negative users have the least score and all positive ones the largest, so that
every level of the tree adds an error; in `uniform` scores are independent and uniform, and most of
the tree is discarded. There are 10**6 users of each label, and epsilon is 1.

What the paper reports, and what we find:

  * "our analysis is not far from being tight" on auc_one: the root of the bound of Theorem 3, which
    is proven for independent levels, is 2 to 3 times the measured error; with our constants, and
    for the users at hand, it is 1.5 to 2 times, and 2.3 times at d = 4, for the same protocol.
  * the error on uniform scores is "much lower": so it is, by a factor of 7 at d = 2^20. It grows
    by a factor of 4 from d = 2^2 to 2^20, nearly all of it up to d = 2^12.

The lines of Theorem 3 have C = c**2, c = (e**eps + 1) / (e**eps - 1), as the right form of equation
(23) has it, and the threshold that makes the bound least.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp import figures
from jaxdp.bounds import HierarchicalAUCBounds
from jaxdp.pairwise import HierarchicalAUC
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._auc import Users, measured
from jaxdp_experiments._cells import coordinates

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

BENCHES = {"auc_one": "separated scores", "uniform": "uniform scores"}
"""The data sets, as they are called in the figure."""
PER_CLASS = 10**6


def users_of(bench: str, num_scores: int, per_class: int) -> Users:
    """The users of a data set; the uniform scores are drawn once."""
    labels = np.repeat([0, 1], per_class)
    if bench == "auc_one":
        return Users(labels * (num_scores - 1), labels, num_scores, 1.0)
    scores = np.random.default_rng(num_scores).integers(0, num_scores, 2 * per_class)
    users = Users(scores, labels, num_scores, 0.0)
    area = HierarchicalAUC(num_scores, 1.0, ties="zero").truth(users.counts)
    return dataclasses.replace(users, target=float(area))


@dataclasses.dataclass(frozen=True, slots=True)
class BenchCell:
    """One data set, number of scores and epsilon.

    Args:
      bench: "auc_one" or "uniform".
      log_scores: the logarithm of d.
      epsilon: privacy parameter.
      per_class: users of each label.
      num_trials: how many trials.
      seed: an integer.
    """

    bench: str
    log_scores: int
    epsilon: float
    per_class: int
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The data set, d's logarithm and epsilon."""
        return coordinates(self, "bench", "log_scores", "epsilon")

    def rows(self) -> list[dict[str, Any]]:
        """One row: as `jaxdp_experiments._auc.measured`, and `theory`, the root of Theorem 3."""
        protocol = HierarchicalAUC(2**self.log_scores, self.epsilon, ties="zero")
        users = users_of(self.bench, 2**self.log_scores, self.per_class)
        name = f"{self.bench} {self.log_scores} {self.epsilon}"
        spread = float(protocol.count_variance)
        bounds = HierarchicalAUCBounds(self.per_class, self.per_class, self.log_scores, spread)
        theory = {"theory": float(np.sqrt(bounds.theorem()))}
        row = measured(protocol, users, self.num_trials, self.seed, name)
        return [dict(self.labels) | row | theory]


def cells(settings: Settings) -> list[BenchCell]:
    """A cell for each data set and number of scores."""
    sizes = (4, 8) if settings.quick else range(2, 21, 2)
    per_class = PER_CLASS // 50 if settings.quick else PER_CLASS
    return [
        BenchCell(bench, size, epsilon, per_class, settings.num_trials, settings.seed)
        for epsilon in settings.epsilons
        for bench in BENCHES
        for size in sizes
    ]


def figure(results: "pa.Table") -> "Figure":
    """Root mean squared errors by d, with those that are predicted and the bound of the paper."""
    from matplotlib.lines import Line2D

    rows = results.to_pylist()
    canvas, grid = figures.panels(width=figures.PAGE * 0.75)
    axes, handles = grid[0, 0], []
    for number, (bench, name) in enumerate(BENCHES.items()):
        own = sorted((r for r in rows if r["bench"] == bench), key=lambda r: r["log_scores"])
        scores = [2.0 ** r["log_scores"] for r in own]
        bars = [2 * r["rmse_stderr"] for r in own]
        color, marker, _ = figures.mark(number)
        look: dict[str, Any] = dict(color=color, marker=marker, linestyle="none")
        axes.errorbar(scores, [r["rmse"] for r in own], bars, **look)
        axes.plot(scores, [r["predicted_rmse"] for r in own], "--", color=color)
        if bench == "auc_one":
            axes.plot(scores, [r["theory"] for r in own], ":", color=figures.LIGHT.ink)
        handles.append(Line2D([], [], label=name, **look))
    axes.set(xscale="log", yscale="log", xlabel="scores d", ylabel="root mean squared error")
    figures.tidy(axes, x={2.0**i: f"$2^{{{i}}}$" for i in range(2, 21, 3)})
    handles += [
        Line2D([], [], color=figures.LIGHT.quiet, linestyle="--", label="predicted"),
        Line2D([], [], color=figures.LIGHT.ink, linestyle=":", label="Theorem 3, separated scores"),
    ]
    figures.legend(canvas, handles, columns=2)
    return canvas


EXPERIMENT = Experiment(
    name="bell-fig5",
    summary="Bell et al.'s Figure 5: the AUC of two million users with up to 2**20 scores",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=50),
    quick=Settings(epsilons=(1.0,), num_trials=20, quick=True),
    figure=figure,
)

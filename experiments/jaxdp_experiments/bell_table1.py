"""Table 1 of Bell et al. (2020), measured: how the error of the AUC grows with levels and users.

Scores are 0 or d - 1 with d = 2**alpha, so that every level of the tree adds an error. Rows about
the sample, and those of the budget, have the users of `bell-fig5`'s auc_one, all negative ones at 0
and all positive ones at d - 1, and errors about them; in those about the population users are drawn
independently, a quarter of each class at the other end, and errors are about their distribution.
The paper's rows for users are about an even split, "even" here; in "users" a user draws its level.
There is a line of measured errors against alpha and one against the number of users n for each row,
each with the slope of a straight line through the logarithms, beside that of the paper's bound. The
figure leaves "even" out, whose lines would lie on those of "users".

What the paper reports, and what we find, by measured slopes at epsilon = 1 whose standard error is
0.06; those at other epsilons, from 0.5 to 4, are on the page:

  * Budget by basic composition: alpha**3 / n. So it is (slope 3.02): the noise of a count is
    `(2 alpha / epsilon)**2`, and alpha of them are added up.
  * Budget by advanced composition: alpha**2 / n. So it is (2.02), though with delta = 1e-6 its
    constant is so large that basic composition is better below some dozens of levels.
  * Users, about the sample: the paper has alpha**3 / n for lack of a proof. The error grows as
    alpha**2 (2.04): given who reports on which level, levels are independent; see
    `HierarchicalAUC`.
  * Users, about the population: alpha**2 / n, as in the paper (2.18; by exact errors 2.02).
  * An even split: alpha**2 / n about both (by exact errors 2.06 and 2.03). In the paper, levels
    that users draw add "slightly more noise": about the sample 6 % at alpha = 2 and 2 % at 9, and
    at epsilon = 4 43 and 10 %.

`predicted` is the exact error of the tree that discards nothing. Discarding changes it little where
users are many, as here.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import jaxdp
from jaxdp import figures
from jaxdp.pairwise import HierarchicalAUC
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._cells import coordinates, key_of

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

DELTA = 1e-6
Split = Literal["users", "even", "basic", "advanced"]
ROWS: dict[str, tuple[Split, str, int]] = {
    "budget, basic": ("basic", "sample", 3),
    "budget, advanced": ("advanced", "sample", 2),
    "users, sample": ("users", "sample", 3),
    "users, population": ("users", "population", 2),
    "even, sample": ("even", "sample", 3),
    "even, population": ("even", "population", 2),
}
"""How epsilon or users are split, what errors are about, and the paper's exponent of alpha.

The paper has one row for users who are split evenly and users who take a level each by chance.
"""
DRAWN = tuple(ROWS)[:4]
"""The rows of the figure: the lines of an even split would lie on those of users."""

USERS = (10**5, 3 * 10**5, 10**6, 3 * 10**6)
MANY, LEVELS = 10**6, 8
"""The users of the lines against alpha, and alpha of those against users."""


@dataclasses.dataclass(frozen=True, slots=True)
class LineCell:
    """One row of the table against one of alpha and n.

    Args:
      row: one of `ROWS`.
      axis: "alpha" or "num_users".
      points: where it is measured, at least two.
      fixed: the other of alpha and n.
      epsilon: privacy parameter.
      num_trials: how many trials for each point.
      seed: an integer.
    """

    row: str
    axis: str
    points: tuple[int, ...]
    fixed: int
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The row, the axis and epsilon."""
        return coordinates(self, "row", "axis", "epsilon")

    def rows(self) -> list[dict[str, Any]]:
        """A row for each point, each with the slope of the whole line and its standard error."""
        found = [self._measured(point) for point in self.points]
        logs = np.log([[own[self.axis], own["mse"]] for own in found])
        relative = np.array([own["mse_stderr"] / own["mse"] for own in found])
        # Least squares through the logarithms, whose errors are the relative errors.
        x = logs[:, 0] - logs[:, 0].mean()
        slope = {
            "slope": float(x @ logs[:, 1] / (x @ x)),
            "slope_stderr": float(np.sqrt(np.sum((x * relative) ** 2)) / (x @ x)),
            "paper": ROWS[self.row][2] if self.axis == "alpha" else -1,
        }
        return [dict(self.labels) | own | slope for own in found]

    def _measured(self, point: int) -> dict[str, Any]:
        alpha, n = (point, self.fixed) if self.axis == "alpha" else (self.fixed, point)
        split, about, _ = ROWS[self.row]
        delta = DELTA if split == "advanced" else 0.0
        protocol = HierarchicalAUC(2**alpha, self.epsilon, split=split, delta=delta, ties="zero")
        # Where nothing is discarded the error is known exactly.
        exact = dataclasses.replace(protocol, threshold=0.0)
        table = np.zeros((2, 2**alpha))
        if about == "sample":
            table[0, 0] = table[1, -1] = n // 2
            users = jaxdp.Population.from_histogram(table.ravel().astype(np.int64))
            predicted = exact.variance(table.ravel().astype(np.int64))
        else:
            # A quarter of each class is at the other end.
            table[:, 0], table[:, -1] = (3 / 8, 1 / 8), (1 / 8, 3 / 8)
            users = jaxdp.Population.from_distribution(table.ravel(), num_users=n)
            predicted = exact.population_variance(table.ravel(), n)
        name = f"{self.row} {alpha} {n} {self.epsilon}"
        key = key_of(self.seed, name)
        trials = jaxdp.simulate(
            protocol,
            users,
            key,
            num_trials=self.num_trials,
            method="tally",
            mesh="local",
            truth=about,
        )
        return {
            "alpha": alpha,
            "num_users": n,
            "mse": float(trials.mse),
            "mse_stderr": float(trials.mse_stderr),
            "predicted": float(predicted),
            "num_trials": self.num_trials,
        }


def cells(settings: Settings) -> list[LineCell]:
    """A cell for each row of the table and each axis."""
    lines = {"alpha": ((2, 3, 4, 6, 9), MANY), "num_users": (USERS, LEVELS)}
    if settings.quick:
        lines = {"alpha": ((2, 4), MANY // 10), "num_users": ((MANY // 10, MANY), LEVELS // 2)}
    return [
        LineCell(row, axis, points, fixed, epsilon, settings.num_trials, settings.seed)
        for epsilon in settings.epsilons
        for row in ROWS
        for axis, (points, fixed) in lines.items()
    ]


def figure(results: "pa.Table") -> "Figure":
    """Errors against both axes at one epsilon, with the predicted ones and the slopes."""
    rows = results.to_pylist()
    epsilons = {row["epsilon"] for row in rows}
    shown = 1.0 if 1.0 in epsilons else min(epsilons)
    rows = [row for row in rows if row["epsilon"] == shown]
    canvas, grid = figures.panels(2, height=4.2, sharey=True)
    for axes, axis in zip(grid[0], ("alpha", "num_users"), strict=True):
        for number, name in enumerate(DRAWN):
            own = [r for r in rows if (r["row"], r["axis"]) == (name, axis)]
            own.sort(key=lambda r: r[axis])
            if not own:
                continue
            at, errors, bars = np.array([(r[axis], r["mse"], r["mse_stderr"]) for r in own]).T
            slope, paper = f"{own[0]['slope']:.2f}", own[0]["paper"]
            label = f"{name}: {slope}, in the paper {paper}".replace("-", "−")
            color, marker, _ = figures.mark(number)
            dots = dict(color=color, marker=marker, linestyle="none", label=label)
            axes.errorbar(at, errors, 2 * bars, **dots)
            axes.plot(at, [r["predicted"] for r in own], "--", color=color, linewidth=1)
        axes.set(xscale="log", yscale="log")
        # Under its own panel, where it covers no data.
        below = dict(loc="upper left", bbox_to_anchor=(0, -0.17), borderaxespad=0)
        axes.legend(title="slope of measured errors", alignment="left", **below)
        figures.tidy(
            axes,
            x=sorted({r["alpha"] for r in rows if r["axis"] == "alpha"})
            if axis == "alpha"
            else None,
        )
    grid[0, 0].set(xlabel="levels α", ylabel="mean squared error (dashed: exact)")
    grid[0, 1].set(xlabel="users n")
    canvas.suptitle(f"ε = {shown:g}")
    return canvas


EXPERIMENT = Experiment(
    name="bell-table1",
    summary="Bell et al.'s Table 1: the AUC's errors against levels and users, with their slopes",
    cells=cells,
    settings=Settings(epsilons=(0.5, 1.0, 2.0, 4.0), num_trials=400),
    quick=Settings(epsilons=(1.0,), num_trials=200, quick=True),
    figure=figure,
)

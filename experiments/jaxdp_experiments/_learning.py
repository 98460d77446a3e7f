"""Cells and figures of the learning experiments: the excess risk of private learners."""

import dataclasses
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxdp import Population, figures, simulate
from jaxdp._checked import Checked
from jaxdp._spec import FrozenArray
from jaxdp.learning import AgnosticLearner, Learner, RandomConcept
from jaxdp.sweep import Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

LOOKS: dict[str, tuple[str, Any]] = {"factorization": ("o", "-"), "random concept": ("s", "--")}
"""Marker and dashes of each learner."""
_LEAST = 1e-5
"""Where an excess risk of 0 is drawn."""
LEARNERS = {"factorization": AgnosticLearner, "random concept": RandomConcept}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LearningCell(Checked):
    """Trials of a learner on users drawn from a distribution of labelled examples.

    Args:
      learner: the spec of a learner.
      probabilities: float[2 k], of the labelled examples.
      num_users: n.
      num_trials: how many trials.
      seed: an integer in [0, 2**32).
      labels: the cell's coordinates in the grid.
    """

    learner: Learner
    probabilities: Any
    num_users: int
    num_trials: int
    seed: int
    labels: Any

    def validate(self) -> None:
        """Stores the arrays and labels so that equal cells have equal hashes."""
        labels = self.labels.items() if isinstance(self.labels, Mapping) else self.labels
        self.settle(probabilities=FrozenArray(self.probabilities), labels=tuple(labels))

    def rows(self) -> list[dict[str, Any]]:
        """One row: mean excess risks with their standard errors, the bound, and losses.

        `excess` is that of the learner, `erm` that of empirical risk minimisation on as many users,
        without privacy; `loss_rmse` is the error of the selected concept's estimated loss.
        """
        p = self.probabilities.values
        population = Population.from_distribution(p, self.num_users)
        place = zlib.crc32(json.dumps(self.labels).encode())
        key = jax.random.fold_in(jax.random.key(self.seed), place)
        trials = simulate(self.learner, population, key, num_trials=self.num_trials, mesh="local")
        draws = np.random.default_rng([self.seed, place])
        samples = draws.multinomial(self.num_users, p / p.sum(), size=self.num_trials)
        excess = self.learner.excess_risk(trials.estimates, p)
        erm = self.learner.excess_risk(self.learner.answers(samples / self.num_users), p)
        losses = self.learner.population_truth(p, self.num_users)
        # The true loss of the concept that each trial selected.
        chosen = losses.min() + excess
        root = math.sqrt(self.num_trials)
        return [
            dict(self.labels)
            | {
                "num_users": self.num_users,
                "num_trials": self.num_trials,
                "excess": float(excess.mean()),
                "excess_stderr": float(excess.std(ddof=1) / root),
                "excess_q95": float(np.quantile(excess, 0.95)),
                "bound": self.learner.expected_excess_risk_bound(self.num_users),
                "erm": float(erm.mean()),
                "erm_stderr": float(erm.std(ddof=1) / root),
                "best_loss": float(losses.min()),
                "worst_loss": float(losses.max()),
                "loss_rmse": float(np.sqrt(np.mean((trials.estimates.min(axis=1) - chosen) ** 2))),
                "method": trials.method,
            }
        ]


def learning_cells(
    concepts: np.ndarray,
    probabilities: np.ndarray,
    sizes: Sequence[int],
    settings: Settings,
    labels: dict[str, Any],
) -> list[LearningCell]:
    """Cells for each size, epsilon and learner."""
    return [
        LearningCell(
            learner=make(concepts, epsilon),
            probabilities=probabilities,
            num_users=num_users,
            num_trials=settings.num_trials,
            seed=settings.seed,
            labels=labels | {"users": num_users, "epsilon": epsilon, "learner": name},
        )
        for num_users in sizes
        for epsilon in settings.epsilons
        for name, make in LEARNERS.items()
    ]


def excess_figure(results: "pa.Table", panel: Sequence[str]) -> "Figure":
    """Mean excess risk against the number of users, a panel for each value of the given labels.

    An excess risk of 0, which no trial had anything of, stands at the lower edge.
    """
    from matplotlib.lines import Line2D

    rows = results.to_pylist()
    panels = list(dict.fromkeys(tuple(row[name] for name in panel) for row in rows))
    epsilons = sorted({row["epsilon"] for row in rows})
    colors = dict(zip(epsilons, figures.shades(len(epsilons)), strict=True))
    columns = min(3, len(panels))
    height = -(-len(panels) // columns)
    width = figures.PAGE if columns > 1 else 0.75 * figures.PAGE
    canvas, grid = figures.panels(
        columns,
        height,
        width=width,
        height=0.9 + (2.0 if columns > 1 else 2.8) * height,
        sharex=True,
        sharey=True,
    )
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    for axes, place in zip(grid.flat, panels, strict=False):
        here = [row for row in rows if tuple(row[name] for name in panel) == place]
        for epsilon in epsilons:
            for name, (marker, style) in LOOKS.items():
                chosen = [r for r in here if (r["epsilon"], r["learner"]) == (epsilon, name)]
                _curve(axes, chosen, "excess", marker, style, colors[epsilon])
                if name == "factorization":
                    n, bound = [r["num_users"] for r in chosen], [r["bound"] for r in chosen]
                    axes.plot(n, bound, ":", color=colors[epsilon])
        same = [r for r in here if (r["epsilon"], r["learner"]) == (epsilons[-1], "factorization")]
        _curve(axes, same, "erm", "^", "-.", figures.LIGHT.quiet)
        title = ", ".join(
            value if isinstance(value, str) else f"{name} {value:g}"
            for name, value in zip(panel, place, strict=True)
        )
        axes.set(
            xscale="log",
            yscale="log",
            title=title if len(panels) > 1 else None,
            ylim=(_LEAST / 1.6, 2),
        )
        decades = {10.0**i: f"$10^{{{i}}}$" for i in range(-4, 1)}
        figures.tidy(axes, y={_LEAST: "0"} | decades)
    for axes in grid[-1]:
        axes.set_xlabel("users")
    for axes in grid[:, 0]:
        axes.set_ylabel("mean excess risk")
    quiet = figures.LIGHT.quiet
    handles = [
        *(Line2D([], [], color=colors[e], linewidth=3, label=f"ε = {e:g}") for e in epsilons),
        *(
            Line2D([], [], color=quiet, marker=marker, linestyle=style, label=name)
            for name, (marker, style) in LOOKS.items()
        ),
        Line2D([], [], color=quiet, linestyle=":", label="bound of factorization"),
        Line2D([], [], color=quiet, marker="^", linestyle="-.", label="without privacy"),
    ]
    figures.legend(canvas, handles)
    return canvas


def _curve(axes, rows, column: str, marker: str, style: str, color: str) -> None:
    """A curve with two standard errors; what is 0 stands at the lower edge, hollow."""
    n = np.array([row["num_users"] for row in rows])
    mean = np.array([row[column] for row in rows])
    error = np.array([2 * row[f"{column}_stderr"] for row in rows])
    none = mean <= 0
    axes.plot(n, np.where(none, _LEAST, mean), style, color=color, linewidth=0.9)
    axes.errorbar(n[~none], mean[~none], error[~none], fmt=marker, color=color, elinewidth=0.9)
    hollow = dict(markerfacecolor="white", markeredgewidth=0.9, zorder=4)
    axes.plot(n[none], np.full(none.sum(), _LEAST), marker, color=color, linestyle="none", **hollow)

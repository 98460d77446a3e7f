"""Cells and figures of the learning experiments: the excess risk of private learners."""

import dataclasses
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxdp import Population, simulate
from jaxdp._checked import Checked
from jaxdp._spec import FrozenArray
from jaxdp.learning import AgnosticLearner, Learner, RandomConcept
from jaxdp.sweep import Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

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
    """Mean excess risk against the number of users, a panel for each value of the given labels."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    rows = results.to_pylist()
    panels = list(dict.fromkeys(tuple(row[name] for name in panel) for row in rows))
    epsilons = sorted({row["epsilon"] for row in rows})
    shades = colormaps["viridis"](np.linspace(0, 0.85, len(epsilons)))
    colors = dict(zip(epsilons, shades, strict=True))
    columns = min(3, len(panels))
    height = -(-len(panels) // columns)
    figure = Figure(figsize=(max(3.1 * columns, 6.4), 2.7 * height + 1.2), layout="constrained")
    axes = figure.subplots(height, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    for axis, place in zip(axes, panels, strict=False):
        here = [row for row in rows if tuple(row[name] for name in panel) == place]
        for epsilon in epsilons:
            for name, style in zip(LEARNERS, ("o-", "s--"), strict=True):
                chosen = [r for r in here if (r["epsilon"], r["learner"]) == (epsilon, name)]
                _curve(axis, chosen, "excess", style, colors[epsilon])
                if name == "factorization":
                    n, bound = [r["num_users"] for r in chosen], [r["bound"] for r in chosen]
                    axis.plot(n, bound, color=colors[epsilon], linewidth=0.7, alpha=0.7)
        same = [r for r in here if (r["epsilon"], r["learner"]) == (epsilons[-1], "factorization")]
        _curve(axis, same, "erm", "^:", "0.3")
        title = ", ".join(f"{name} {value}" for name, value in zip(panel, place, strict=True))
        axis.set(xscale="log", yscale="log", title=title, ylim=(1e-5, 1))
        axis.title.set_fontsize("small")
        axis.grid(alpha=0.25, linewidth=0.6)
        axis.set(xlabel="users", ylabel="mean excess risk")
        axis.label_outer()
    handles = [
        Line2D([], [], color="0.3", marker="o", label="factorization"),
        Line2D([], [], color="0.3", marker="s", linestyle="--", label="random concept"),
        Line2D([], [], color="0.3", marker="^", linestyle=":", label="without privacy"),
        Line2D([], [], color="0.3", linewidth=0.7, label="bound of factorization"),
        *(Line2D([], [], color=colors[e], label=f"ε = {e:g}") for e in epsilons),
    ]
    figure.legend(handles=handles, frameon=False, loc="outside lower center", ncols=4)
    return figure


def _curve(axis, rows, column: str, style: str, color) -> None:
    """A curve with two standard errors; what is 0 has no place on a log axis."""
    seen = [(r["num_users"], r[column], 2 * r[f"{column}_stderr"]) for r in rows if r[column] > 0]
    if seen:
        n, mean, error = zip(*seen, strict=True)
        axis.errorbar(n, mean, error, fmt=style, color=color, markersize=3.5, linewidth=1)

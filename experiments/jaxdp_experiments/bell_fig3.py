"""Figure 3 of Bell et al. (2020): the AUC of patients' risk scores, by the number of scores.

Users are 7,367 patients with the score of a logistic regression in [0, 1] and a public label; 661
are positive, as in the paper, whose features and split are not published. Scores are cut to
`floor(score d)`, and errors are about the area of the scores themselves, 0.657.

What the paper reports, the mean and the deviation of the absolute error over 20 runs, and what we
find in 500:

  * "d = 2^9 gives the smallest error": with few scores the error is that of lost ties, which count
    0 in the paper's tree; with many, it grows with the number of levels. The least mean was at
    d = 2^6 on our scores for epsilon from 2 on, and that at 2^9 was 14 to 20 % larger. But 20 runs
    do not tell: cut into batches of 20, as `best_in_runs` does, our trials name any d from 2^4 to
    2^11 the best at epsilon = 5, and 2^9 in 3 batches of 25.
  * "increasing epsilon beyond 5 does not improve results significantly": the noise of a report is
    proportional to `((e**eps + 1) / (e**eps - 1))**2`, which is 1.03 at 5 and cannot fall below 1.
    What is left is that of who reports on which level.

Dotted lines, on the right, are the same protocol with ties counted half: 16 scores lose next to
nothing then.

The scores are read from `diabetes_scores.npz` in the folder that the environment variable
`JAXDP_DATA` names.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jaxdp import figures
from jaxdp.data import load_diabetes_scores
from jaxdp.pairwise import HierarchicalAUC
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._auc import Users, measured
from jaxdp_experiments._cells import coordinates
from jaxdp_experiments._data import data_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

FILE = "diabetes_scores.npz"
Ties = Literal["zero", "half"]
TIES: tuple[Ties, ...] = ("zero", "half")


@functools.cache
def read_scores() -> tuple[np.ndarray, np.ndarray, float]:
    """Scores, labels and area of the sample with 661 positive patients."""
    data = load_diabetes_scores(data_folder(FILE) / FILE)
    sample = data["sub661"]
    return data["score"][sample], data["label"][sample], float(data["sub661_auc"])


def patients(num_scores: int) -> Users:
    """The patients with their scores as fixed-point numbers."""
    score, label, area = read_scores()
    # A score of 1 is of the last cell.
    cells = np.minimum(np.floor(score.astype(np.float64) * num_scores), num_scores - 1)
    return Users(cells.astype(np.int64), label.astype(np.int64), num_scores, area)


@dataclasses.dataclass(frozen=True, slots=True)
class PatientCell:
    """One number of scores, epsilon and rule for ties.

    Args:
      log_scores: the logarithm of d.
      epsilon: privacy parameter.
      ties: what a tied score counts, "zero" or "half".
      num_trials: how many trials.
      seed: an integer.
    """

    log_scores: int
    epsilon: float
    ties: Ties
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """D's logarithm, epsilon and ties."""
        return coordinates(self, "log_scores", "epsilon", "ties")

    def rows(self) -> list[dict[str, Any]]:
        """One row; see `jaxdp_experiments._auc.measured`."""
        protocol = HierarchicalAUC(2**self.log_scores, self.epsilon, ties=self.ties)
        users = patients(2**self.log_scores)
        name = f"{self.log_scores} {self.epsilon}"
        return [dict(self.labels) | measured(protocol, users, self.num_trials, self.seed, name)]


def cells(settings: Settings) -> list[PatientCell]:
    """A cell for each number of scores, epsilon and rule for ties."""
    sizes = (4, 9) if settings.quick else range(2, 15)
    return [
        PatientCell(size, epsilon, ties, settings.num_trials, settings.seed)
        for epsilon in settings.epsilons
        for size in sizes
        for ties in TIES
    ]


PAPER_RUNS = 20


def best_in_runs(rows: list[dict[str, Any]], target: float) -> dict[int, float]:
    """How often each number of scores has the least mean absolute error of 20 runs, by log d.

    The trials of each row of one epsilon and rule for ties are cut into batches of 20, as many as
    the paper has.
    """
    errors = np.array([np.abs(np.array(row["estimates"]) - target) for row in rows])
    batches = errors.shape[1] // PAPER_RUNS
    means = errors[:, : batches * PAPER_RUNS].reshape(len(rows), batches, -1).mean(axis=2)
    wins = np.bincount(means.argmin(axis=0), minlength=len(rows)) / batches
    return {row["log_scores"]: float(share) for row, share in zip(rows, wins, strict=True)}


def figure(results: "pa.Table") -> "Figure":
    """By d, a line for each epsilon: mean absolute errors with deviations, as in the paper; RMSE.

    On the left ties count 0, as in the paper, and bars are one standard deviation of a run.
    """
    from matplotlib.lines import Line2D

    rows = results.to_pylist()
    canvas, grid = figures.panels(2, height=3.2, sharey=True)
    paper, ours = grid[0]
    epsilons, handles = sorted({row["epsilon"] for row in rows}), []
    shifts = np.geomspace(0.8, 1 / 0.8, len(epsilons)) if len(epsilons) > 1 else [1.0]
    shades = figures.shades(len(epsilons))
    for number, (epsilon, color) in enumerate(zip(epsilons, shades, strict=True)):
        marker = figures.mark(number).marker
        for ties, style in zip(TIES, ("-", ":"), strict=True):
            own = [r for r in rows if (r["epsilon"], r["ties"]) == (epsilon, ties)]
            own.sort(key=lambda r: r["log_scores"])
            scores = np.array([2.0 ** r["log_scores"] for r in own])
            look: dict[str, Any] = dict(color=color, marker=marker)
            bars = [2 * r["rmse_stderr"] for r in own]
            ours.errorbar(scores, [r["rmse"] for r in own], bars, linestyle=style, **look)
            if ties == "zero":
                # Side by side, so that no bar covers another.
                mean, deviation = np.array([(r["absolute"], r["absolute_sd"]) for r in own]).T
                low = np.minimum(deviation, 0.9 * mean)  # a log axis has no 0
                ends = scores * shifts[number]
                paper.errorbar(ends, mean, [low, deviation], linestyle="-", **look)
        handles.append(Line2D([], [], label=f"ε = {epsilon:g}", color=color, marker=marker))
    quiet = figures.LIGHT.quiet
    handles.append(Line2D([], [], color=quiet, linestyle=":", label="right: ties count half"))
    for axes, title in (
        (paper, "absolute error of a run, mean ± s.d."),
        (ours, "root mean squared error, ± 2 s.e."),
    ):
        axes.set(xscale="log", yscale="log", xlabel="scores d", title=title)
        figures.tidy(axes, x={4.0**i: f"$2^{{{2 * i}}}$" for i in range(1, 8)})
    paper.set_ylabel("error of the area")
    figures.legend(canvas, handles)
    return canvas


EXPERIMENT = Experiment(
    name="bell-fig3",
    summary="Bell et al.'s Figure 3: the AUC of patients' risk scores by the number of scores",
    cells=cells,
    settings=Settings(epsilons=(1.0, 2.0, 5.0, 10.0), num_trials=500),
    quick=Settings(epsilons=(1.0, 5.0), num_trials=50, quick=True),
    figure=figure,
)

"""Figure 3 of Bell et al. (2020): the AUC of patients' risk scores, by the number of scores.

Users are 7,367 patients with the score of a logistic regression in [0, 1] and a public label; 661
are positive, as in the paper, whose features and split are not published. Scores are cut to
`floor(score d)`, and errors are about the area of the scores themselves, 0.657.

What the paper reports, and what we find:

  * "d = 2^9 gives the smallest error": with few scores the error is that of lost ties, which count
    0 in the paper's tree; with many, it grows with the number of levels. Between them lie errors of
    about 0.17 to 0.21 for epsilon from 5. In 500 trials, whose standard errors are 3 %, the least
    was at d = 2^6 on our scores for epsilon from 2 on, and that at 2^9 was 15 to 30 % larger.
  * "increasing epsilon beyond 5 does not improve results significantly": the noise of a report is
    proportional to `((e**eps + 1) / (e**eps - 1))**2`, which is 1.03 at 5 and cannot fall below 1.
    What is left is that of who reports on which level.

Dotted lines are the same protocol with ties counted half: 16 scores lose next to nothing then.

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


def figure(results: "pa.Table") -> "Figure":
    """The standard error by d, a line for each epsilon."""
    from matplotlib.lines import Line2D

    rows = results.to_pylist()
    canvas, grid = figures.panels(width=figures.PAGE * 0.75)
    axes, handles = grid[0, 0], []
    epsilons = sorted({row["epsilon"] for row in rows})
    for number, (epsilon, color) in enumerate(
        zip(epsilons, figures.shades(len(epsilons)), strict=True)
    ):
        for ties, style in zip(TIES, ("-", ":"), strict=True):
            own = [r for r in rows if (r["epsilon"], r["ties"]) == (epsilon, ties)]
            own.sort(key=lambda r: r["log_scores"])
            scores = [2.0 ** r["log_scores"] for r in own]
            marker = figures.mark(number).marker if ties == "zero" else None
            axes.plot(scores, [r["rmse"] for r in own], style, color=color, marker=marker)
        look: dict[str, Any] = dict(color=color, marker=figures.mark(number).marker)
        handles.append(Line2D([], [], label=f"ε = {epsilon:g}", **look))
    handles.append(
        Line2D([], [], color=figures.LIGHT.quiet, linestyle=":", label="ties count half")
    )
    axes.set(xscale="log", yscale="log", xlabel="scores d", ylabel="root mean squared error")
    figures.tidy(axes, x=[4, 16, 64, 256, 1024, 4096, 16384])
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

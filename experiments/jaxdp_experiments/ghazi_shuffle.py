"""The remark after Corollary 7 of Ghazi et al. (2023): statistics of pairs behind a shuffler.

"Since our non-interactive algorithm only requires a vector-summation primitive, we can also apply
protocols for vector summation in the shuffle model [...], reducing the MSE by a factor of n." Three
guarantees are compared, the same (epsilon, delta), by the same factorization:

  * local: `OneReport` with epsilon, no shuffler;
  * one message: `OneReport` with the larger epsilon that shuffling amplifies to the guarantee
    (`Shuffled.calibrated`), a user still sending one vector;
  * sums: `ShuffledSum`, by split and mix, where many numbers of each user are shuffled and show
    nothing but the sum.

Of each value there are more users than of the one before; the error is that of the V-statistic.

What we find: sums do what the remark says. From 1,000 to a million users their error falls as
`n**(-2)`, and is 105 to 166,000 times below that of local reports. With one message a user the
error falls as `n**(-1.3)`, and with a million users it is 69 times below that of local reports, not
a million times: a report has an epsilon of 10 then, and the noise of a vector falls as 1 / epsilon
once that is large.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import jaxdp
from jaxdp import figures
from jaxdp.pairwise import GiniDiversity, GiniMeanDifference, Grid, OneReport, PairKernel
from jaxdp.sweep import Experiment, Settings
from jaxdp.trusted import Shuffled, ShuffledSum
from jaxdp_experiments import _measured
from jaxdp_experiments._cells import coordinates, key_of
from jaxdp_experiments.ghazi_corollary7 import rising_users

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

NUM_VALUES, DELTA = 16, 1e-6
MODELS = ("local", "one message", "sums")
MATRICES = {
    "|x − y|": GiniMeanDifference().matrix(Grid.uniform(NUM_VALUES)),
    "diversity": GiniDiversity().matrix(NUM_VALUES),
}


def protocol_of(model: str, statistic: str, num_users: int, epsilon: float):
    """The protocol of one of `MODELS`."""
    kernel = PairKernel.from_matrix(MATRICES[statistic])
    if model == "local":
        return OneReport(kernel, epsilon, form="v")
    if model == "sums":
        return ShuffledSum(kernel, epsilon, DELTA, num_users=num_users, form="v")
    make = functools.partial(OneReport, kernel, form="v")
    return Shuffled.calibrated(make, epsilon, num_users=num_users, delta=DELTA)


@dataclasses.dataclass(frozen=True, slots=True)
class ShuffleCell:
    """One statistic, model and number of users.

    Args:
      statistic: a name in `MATRICES`.
      model: one of `MODELS`.
      num_users: n.
      epsilon: of the guarantee; delta is 1e-6, or 0 without a shuffler.
      num_trials: how many trials are simulated.
      seed: an integer.
    """

    statistic: str
    model: str
    num_users: int
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "statistic", "model", "num_users", "epsilon")

    def rows(self) -> list[dict[str, Any]]:
        """One row: the error, exact and measured, and the epsilon of a user's report."""
        n = self.num_users
        protocol = protocol_of(self.model, self.statistic, n, self.epsilon)
        counts = rising_users(NUM_VALUES, n)
        trials = jaxdp.simulate(
            protocol,
            jaxdp.Population.from_histogram(counts),
            key_of(self.seed, f"{self.statistic} {self.model} {n} {self.epsilon}"),
            num_trials=self.num_trials,
            method="tally",
            mesh="local",
        )
        local = {"local": self.epsilon, "sums": None}
        reported = protocol.protocol.epsilon if isinstance(protocol, Shuffled) else None
        return [
            dict(self.labels)
            | {
                "report_epsilon": local.get(self.model, reported),
                "predicted": float(protocol.variance(counts)),
                "mse": float(trials.mse),
                "mse_stderr": float(trials.mse_stderr),
                "num_trials": self.num_trials,
            }
        ]


def cells(settings: Settings) -> list[ShuffleCell]:
    """A cell for each statistic, model and number of users."""
    sizes = (10**3, 10**4) if settings.quick else (10**3, 10**4, 10**5, 10**6)
    return [
        ShuffleCell(statistic, model, n, epsilon, settings.num_trials, settings.seed)
        for epsilon in settings.epsilons
        for statistic in (tuple(MATRICES)[:1] if settings.quick else MATRICES)
        for model in (("local", "sums") if settings.quick else MODELS)
        for n in sizes
    ]


def figure(results: "pa.Table") -> "Figure":
    """Errors against users, a panel for each statistic."""
    rows = results.to_pylist()
    names = list(dict.fromkeys(row["statistic"] for row in rows))
    epsilon, handles = rows[0]["epsilon"], []
    canvas, grid = figures.panels(len(names), height=3.0, sharey=True)
    for axes, name in zip(grid[0], names, strict=True):
        for place, model in enumerate(MODELS):
            own = [
                r
                for r in rows
                if (r["statistic"], r["model"], r["epsilon"]) == (name, model, epsilon)
            ]
            if not own:
                continue
            columns = "num_users", "predicted", "mse"
            key = _measured.draw(axes, place, own, columns, model, "--")
            if axes is grid[0, 0]:
                handles.append(key)
        axes.set(xscale="log", yscale="log", xlabel="users n", title=name)
        figures.tidy(axes)
    grid[0, 0].set_ylabel("mean squared error")
    canvas.suptitle(f"ε = {epsilon:g}, δ = 1e−6; dashed: predicted, points: measured, 2 s.e.")
    figures.legend(canvas, handles)
    return canvas


EXPERIMENT = Experiment(
    name="ghazi-shuffle",
    summary="Statistics of pairs without a shuffler, with one message a user, and by shuffled sums",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=200),
    quick=Settings(epsilons=(1.0,), num_trials=50, quick=True),
    figure=figure,
)

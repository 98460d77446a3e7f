"""Theorem 14 of Ghazi et al. (2023), carried out: linear queries out of a quadratic form.

A non-interactive protocol for `h^T W h` with mean squared error a(epsilon, n) yields one for the
linear queries W with at most `O(a(epsilon / 2, n) + a(epsilon / 2, 2 n))`: for each value j the
analyst makes up n users who hold j. That is how the lower bound for linear queries becomes one for
quadratic forms (Theorem 6). Here the reduction is run, by `QueriesFromPairs`, on the paper's
protocol of two reports and on one report, with half of epsilon for each of its two estimates;
`one for both` uses one report of each user for both of them.

Errors are those of the query with the largest predicted error, for users who all hold the first
value and for as many of each, times n. Beside them are those of the same queries asked directly, by
`FactorizedQueries`, the constant of the theorem, and the lower bound for every protocol.

What we find: the theorem's constant, `4 a(2 n) + a(n) / 4` in all, is reached. As a protocol it is
a poor one: half of epsilon twice, and twice the noise. With the paper's reports its error is 80 to
330 times that of asking directly, with one report for each estimate 36 to 50 times, and with one
for both 5 times, a third of what is proven, as the two estimates err alike. What a proof loses here
is lost in Theorem 6's lower bound, too.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

import jaxdp
from jaxdp import figures
from jaxdp.bounds import linear_queries_lower_mse
from jaxdp.linear import FactorizedQueries
from jaxdp.pairwise import (
    GiniMeanDifference,
    Grid,
    OneReport,
    PairKernel,
    QueriesFromPairs,
    TwoReport,
)
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments import _measured
from jaxdp_experiments._cells import coordinates, key_of
from jaxdp_experiments.ghazi_separation import random_signs, users_of

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

NUM_VALUES = 8
MATRICES = {
    "|x − y|": GiniMeanDifference().matrix(Grid.uniform(NUM_VALUES)),
    "random signs": random_signs(NUM_VALUES, 0),
}
PROTOCOLS = {
    "two reports": functools.partial(TwoReport, shift=False),
    "one report": OneReport,
    "one for both": OneReport,
    "direct": FactorizedQueries,
}
LABELS = {
    "two reports": "from two reports (the paper)",
    "one report": "from one report",
    "one for both": "from one report, for both estimates",
    "direct": "asked directly",
}
"""Protocols, and what they are called in the figure."""


def protocol_of(name: str, matrix: np.ndarray, epsilon: float):
    """One of `PROTOCOLS`, for the linear queries of a matrix, with epsilon in all."""
    if name == "direct":
        return FactorizedQueries(matrix, epsilon)
    reports = 1 if name == "one for both" else 2
    kernel = PairKernel.from_matrix(matrix)
    return QueriesFromPairs(PROTOCOLS[name](kernel, epsilon / reports, form="v"), reports)


@dataclasses.dataclass(frozen=True, slots=True)
class ReductionCell:
    """One matrix, protocol and number of users.

    Args:
      matrix: a name in `MATRICES`.
      protocol: a name in `PROTOCOLS`.
      num_users: n.
      epsilon: privacy parameter.
      num_trials: how many trials are simulated.
      seed: an integer.
    """

    matrix: str
    protocol: str
    num_users: int
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "matrix", "protocol", "num_users", "epsilon")

    def rows(self) -> list[dict[str, Any]]:
        """A row for each kind of users: the largest error of a query, times n."""
        n, matrix = self.num_users, MATRICES[self.matrix]
        protocol = protocol_of(self.protocol, matrix, self.epsilon)
        lower = linear_queries_lower_mse(matrix, n, self.epsilon)
        found = []
        for name in ("one value", "uniform"):
            counts = users_of(name, NUM_VALUES, n)
            predicted = np.asarray(protocol.variance(counts))
            query = int(predicted.argmax())
            trials = jaxdp.simulate(
                protocol,
                jaxdp.Population.from_histogram(counts),
                key_of(self.seed, f"{self.matrix} {self.protocol} {name} {n} {self.epsilon}"),
                num_trials=self.num_trials,
                method="tally",
                mesh="local",
            )
            squares = np.square(np.asarray(trials.errors, np.float64)[:, query])
            found.append(
                dict(self.labels)
                | {
                    "users": name,
                    "measured": n * float(squares.mean()),
                    "measured_stderr": n * float(squares.std() / np.sqrt(len(squares))),
                    "predicted": n * float(predicted[query]),
                    "theorem": n * float(protocol.worst_case_variance(n)),
                    "lower": n * lower,
                    "num_trials": self.num_trials,
                }
            )
        return found


def cells(settings: Settings) -> list[ReductionCell]:
    """A cell for each matrix, protocol and number of users."""
    sizes = (10**3,) if settings.quick else (10**3, 10**4, 10**5, 10**6)
    return [
        ReductionCell(matrix, protocol, n, epsilon, settings.num_trials, settings.seed)
        for epsilon in settings.epsilons
        for matrix in (tuple(MATRICES)[:1] if settings.quick else MATRICES)
        for protocol in (("one report", "direct") if settings.quick else PROTOCOLS)
        for n in sizes
    ]


def figure(results: "pa.Table") -> "Figure":
    """Errors times n against n, a panel for each matrix."""
    from matplotlib.lines import Line2D

    rows = results.to_pylist()
    names = list(dict.fromkeys(row["matrix"] for row in rows))
    epsilon, handles = rows[0]["epsilon"], []
    canvas, grid = figures.panels(len(names), height=3.0)
    for axes, name in zip(grid[0], names, strict=True):
        mine = [r for r in rows if (r["matrix"], r["epsilon"]) == (name, epsilon)]
        for place, (protocol, label) in enumerate(LABELS.items()):
            own = [r for r in mine if (r["protocol"], r["users"]) == (protocol, "one value")]
            if not own:
                continue
            key = _measured.draw(axes, place, own, ("num_users", "theorem", "measured"), label)
            if axes is grid[0, 0]:
                handles.append(key)
        lower = {r["num_users"]: r["lower"] or np.nan for r in mine}
        axes.plot([*lower], [*lower.values()], ":", color=figures.LIGHT.ink)
        axes.set(xscale="log", yscale="log", xlabel="users n", title=name)
        figures.tidy(axes)
    grid[0, 0].set_ylabel("mean squared error times n")
    canvas.suptitle(f"ε = {epsilon:g}; lines: proven, points: measured, one value, 2 s.e.")
    handles.append(Line2D([], [], color=figures.LIGHT.ink, linestyle=":", label="lower bound"))
    figures.legend(canvas, handles)
    return canvas


EXPERIMENT = Experiment(
    name="ghazi-theorem14",
    summary="Theorem 14: linear queries out of quadratic forms, beside the queries themselves",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=100),
    quick=Settings(epsilons=(1.0,), num_trials=50, quick=True),
    figure=figure,
)

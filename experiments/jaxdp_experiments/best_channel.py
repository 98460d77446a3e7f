"""What each protocol loses against the best possible local channel.

`linear.optimal_channel` brackets the least possible variance, summed over the answers and for the
worst data, of a non-interactive epsilon-LDP channel with an unbiased linear decoder. The upper end
is attained by a channel it constructs; the lower end comes with a proof that no channel is better.
Protocols are compared with the lower end, so the losses below are upper bounds. Everything is
exact; nothing is simulated.

What we find, for 4, 8, 16 and 32 values and epsilon from 0.5 to 4, with brackets 0 to 1 % wide:

  * For 32 values at epsilon = 1 the least total variance of prefix sums is between 216.4 and 218.1,
    of all ranges between 5,104 and 5,135, of a histogram between 108.7 and 109.8: the last is
    `SubsetSelection`'s.
  * `OptimizedStrategy`, a descent without a proof, is at most 6.5 % above the optimum for prefix
    sums and ranges, and at most 8.3 % for a histogram. For the prefix sums of 16 values at epsilon
    = 1 the optimum is between 74.7 and 74.9; that search ends at 76.5.
  * `SubsetSelection` is optimal for a histogram, as Ye and Barg (2018) proved. For prefix sums it
    loses the more the more values there are: it has up to 1.5 times the optimum for 8 of them,
    twice for 16 and 2.9 times for 32.
  * For prefix sums of 8 to 32 values the tree with consistency is 25 to 59 % above the optimum up
    to epsilon = 2. Vectors of a factorization are 52 to 136 % above it up to epsilon = 2, and at
    4.7 to 5 times the optimum at epsilon = 4.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp import figures
from jaxdp.linear import (
    FactorizedQueries,
    HierarchicalQueries,
    OptimizedStrategy,
    OracleQueries,
    optimal_channel,
)
from jaxdp.randomizers import KRR, HadamardResponse, PrivUnit, SubsetSelection, UnaryEncoding
from jaxdp.sweep import Experiment, Settings
from jaxdp.workloads import all_range, identity, prefix
from jaxdp_experiments._cells import coordinates

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

TOL = 0.01
BEST = "best channel"


WORKLOADS: dict[str, Callable[[int], np.ndarray]] = {
    "prefix sums": prefix,
    "ranges": all_range,
    "histogram": identity,
}
SIZES = (4, 8, 16, 32)


def _by_oracle(oracle: Callable) -> Callable:
    return lambda workload, epsilon: OracleQueries(workload, oracle(workload.shape[1], epsilon))


MAKERS: dict[str, Callable] = {
    "OptimizedStrategy": OptimizedStrategy,
    "HierarchicalQueries": HierarchicalQueries,
    "FactorizedQueries": lambda w, e: FactorizedQueries(w, e, norm="mean", randomizer=PrivUnit),
    "SubsetSelection": _by_oracle(SubsetSelection),
    "KRR": _by_oracle(KRR),
    "HadamardResponse": _by_oracle(HadamardResponse),
    "UnaryEncoding": _by_oracle(UnaryEncoding),
}


@dataclasses.dataclass(frozen=True, slots=True)
class BracketCell:
    """All protocols for one workload, size and epsilon.

    Args:
      workload: a key of `WORKLOADS`.
      num_values: k.
      epsilon: privacy parameter.
    """

    workload: str
    num_values: int
    epsilon: float

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "workload", "num_values", "epsilon")

    def rows(self) -> list[dict[str, Any]]:
        """A row for the best channel, and one for each protocol.

        Returns:
          The labels, `protocol`, `total_variance`: for the worst data of one user, `least`: what no
          channel is below, and `loss`: the one over the other, less 1.
        """
        workload = WORKLOADS[self.workload](self.num_values)
        found = optimal_channel(workload, self.epsilon, tol=TOL)
        variances = {BEST: found.upper} | {
            name: float(make(workload, self.epsilon).worst_case_total_variance(1))
            for name, make in MAKERS.items()
        }
        return [
            dict(self.labels)
            | {
                "protocol": name,
                "total_variance": variance,
                "least": found.lower,
                "loss": variance / found.lower - 1,
            }
            for name, variance in variances.items()
        ]


def cells(settings: Settings) -> list[BracketCell]:
    """A cell for each workload, size and epsilon, those that take longest first."""
    return [
        BracketCell(workload, size, epsilon)
        for size in (SIZES[:1] if settings.quick else SIZES[::-1])
        for workload in WORKLOADS
        for epsilon in settings.epsilons
    ]


def figure(results: "pa.Table") -> "Figure":
    """The variance over the least against epsilon, a panel a workload, of the largest size."""
    rows = results.to_pylist()
    size = max(row["num_values"] for row in rows)
    rows = [row for row in rows if row["num_values"] == size]
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    canvas, grid = figures.panels(len(workloads), height=3.6, sharey=True)
    for axes, workload in zip(grid[0], workloads, strict=True):
        for place, name in enumerate((BEST, *MAKERS)):
            line = [r for r in rows if (r["workload"], r["protocol"]) == (workload, name)]
            color, marker, _ = figures.mark(place)
            axes.plot(
                [row["epsilon"] for row in line],
                [1 + row["loss"] for row in line],
                color=color,
                marker=marker,
                label=name,
            )
        axes.axhline(1, color=figures.LIGHT.ink, linewidth=0.8, label="no channel is below")
        axes.set(xscale="log", yscale="log", xlabel="ε", title=f"{workload} of {size} values")
        axes.set_ylim(0.9, 30)
        figures.tidy(axes, x=sorted({row["epsilon"] for row in rows}))
    grid[0, 0].set_ylabel("worst total variance, over the least")
    figures.legend(canvas)
    return canvas


EXPERIMENT = Experiment(
    name="best-channel",
    summary="What protocols for linear queries lose against the best local channel, proven",
    cells=cells,
    settings=Settings(epsilons=(0.5, 1.0, 2.0, 4.0), num_trials=1),
    quick=Settings(epsilons=(1.0, 4.0), num_trials=1, quick=True),
    figure=figure,
)

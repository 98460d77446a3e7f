"""Corollary 7 of Ghazi et al. (2023) for real values: Lipschitz kernels on ever finer grids.

Users hold real numbers in [0, 1], of a smooth density, and errors are about it. A grid of k bins
makes them bins, and a protocol on bins does the rest. The paper takes about `epsilon n**2` bins:
the noise of vectors does not grow with k, so that what rounding costs can be made as small as one
likes, and the mean squared error is `O(log n / (epsilon**2 n))`. Randomized response of the bin
(Bell et al. 2020, Algorithm 1) has noise that grows with k, and must balance it with rounding.

Here both are measured on 4 to 256 bins, for two Lipschitz kernels, `|x - y|` and `exp(-4 |x - y|)`.

What we find: with one report the error falls with the bins until rounding is gone, at 16 bins for
10**4 users and 64 for 10**6, and grows little beyond: by 37 to 43 % up to 256 bins for few users,
by 3 % for many. So the finest grid that one cares to compute with is safe, as the paper has it,
and `epsilon n**2` bins are many more than are of use. The error of randomized response grows up to
40-fold from one of these grids to the next; with the best of them it is 3 to 11 times that of one
report.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

import jaxdp
from jaxdp import figures
from jaxdp.pairwise import (
    GiniMeanDifference,
    Grid,
    GridKernel,
    OneReport,
    OnGrid,
    PairKernel,
    QuantizedRR,
)
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments import _measured
from jaxdp_experiments._cells import coordinates, key_of

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

NUM_VALUES = 2000
USERS = (10**4, 10**6)
PROTOCOLS = ("one report", "randomized response")


def near(x, y):
    """`exp(-4 |x - y|)`; 4-Lipschitz in each."""
    return np.exp(-4 * np.abs(x - y))


KERNELS = {
    "|x − y|": GiniMeanDifference(),
    "exp(−4|x − y|)": PairKernel(near),
}


def users() -> tuple[np.ndarray, np.ndarray]:
    """Real values, float32[2000] in [0, 1], on no grid, and their probabilities."""
    values = np.sort(np.random.default_rng(0).random(NUM_VALUES)).astype(np.float32)
    density = values.astype(np.float64) * (1 - values) ** 3
    return values, density / density.sum()


def protocol_of(name: str, kernel: str, num_bins: int, epsilon: float):
    """A protocol of `PROTOCOLS` for real values on so many bins."""
    grid = Grid.uniform(num_bins)
    if name == "randomized response":
        return QuantizedRR(KERNELS[kernel], epsilon, grid=grid)
    return OnGrid(OneReport(GridKernel(KERNELS[kernel], grid), epsilon), grid)


@dataclasses.dataclass(frozen=True, slots=True)
class GridCell:
    """One kernel, protocol and number of bins.

    Args:
      kernel: a name in `KERNELS`.
      protocol: one of `PROTOCOLS`.
      num_bins: k.
      epsilon: privacy parameter.
      num_trials: how many trials for each number of users.
      seed: an integer.
    """

    kernel: str
    protocol: str
    num_bins: int
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "kernel", "protocol", "num_bins", "epsilon")

    def rows(self) -> list[dict[str, Any]]:
        """A row for each number of users: the predicted error, and the measured one."""
        values, law = users()
        protocol = protocol_of(self.protocol, self.kernel, self.num_bins, self.epsilon)
        found = []
        for n in USERS:
            trials = jaxdp.simulate(
                protocol,
                jaxdp.Population.from_distribution(law, num_users=n, values=values),
                key_of(self.seed, f"{self.kernel} {self.protocol} {self.num_bins} {n}"),
                num_trials=self.num_trials,
                method="tally",
                mesh="local",
                truth="population",
            )
            found.append(
                dict(self.labels)
                | {
                    "num_users": n,
                    "predicted": float(protocol.population_variance(law, n, values)),
                    "mse": float(trials.mse),
                    "mse_stderr": float(trials.mse_stderr),
                    "num_trials": self.num_trials,
                }
            )
        return found


def cells(settings: Settings) -> list[GridCell]:
    """A cell for each kernel, protocol and number of bins."""
    sizes = (4, 8) if settings.quick else (4, 16, 64, 256)
    return [
        GridCell(kernel, protocol, k, epsilon, settings.num_trials, settings.seed)
        for epsilon in settings.epsilons
        for kernel in (tuple(KERNELS)[:1] if settings.quick else KERNELS)
        for protocol in PROTOCOLS
        for k in sizes
    ]


def figure(results: "pa.Table") -> "Figure":
    """The error against the bins, a panel for each kernel."""
    rows = results.to_pylist()
    names = list(dict.fromkeys(row["kernel"] for row in rows))
    epsilon, sizes = rows[0]["epsilon"], {row["num_bins"] for row in rows}
    canvas, grid = figures.panels(len(names), height=3.0, sharey=True)
    handles = []
    for axes, name in zip(grid[0], names, strict=True):
        for place, (protocol, n) in enumerate((p, n) for p in PROTOCOLS for n in USERS):
            own = [
                r
                for r in rows
                if (r["kernel"], r["protocol"], r["num_users"], r["epsilon"])
                == (name, protocol, n, epsilon)
            ]
            columns, label = ("num_bins", "predicted", "mse"), f"{protocol}, n = {n:,}"
            key = _measured.draw(axes, place, own, columns, label, "--")
            if axes is grid[0, 0]:
                key.set_linestyle("--")
                handles.append(key)
        axes.set(xscale="log", yscale="log", xlabel="bins k", title=name)
        figures.tidy(axes, x=[4**i for i in range(1, 5) if 4**i in sizes] or None)
    grid[0, 0].set_ylabel("mean squared error")
    canvas.suptitle(f"ε = {epsilon:g}; dashed: exact, points: measured, 2 s.e.")
    figures.legend(canvas, handles)
    return canvas


EXPERIMENT = Experiment(
    name="ghazi-grids",
    summary="Lipschitz statistics of real values against the bins of their grid",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=200),
    quick=Settings(epsilons=(1.0,), num_trials=50, quick=True),
    figure=figure,
)

"""Gini's mean difference of real values: the generic protocol of Bell et al., and one report.

Users hold one of 512 values in [0, 1], drawn from a fixed distribution, and errors are with respect
to it. The generic protocol rounds a value to one of k bins and reports the bin by k-ary randomized
response. With few bins rounding dominates the error; with many it is the noise, which grows with k.
Corollary 1 of Bell et al. (2020) balances the two bounds with a k of order `n**(1/4)`, for a mean
squared error of order `n**(-1/2)`. One report of a vector (`OneReport`) needs no bins: its noise
comes from a factorization of `|x - y|` and does not grow with the number of values, so its error is
of order 1/n, as in Corollary 7 of Ghazi et al. (2023).

What we find, at epsilon = 1:

  * With the k of Corollary 1 the generic protocol has slope -1/2. With the k that would be best for
    these users, which nobody knows in advance, the slope is about -0.7: on a smooth density
    rounding costs less than its bound.
  * One report has slope -1 from 10**4 users on, where it overtakes Corollary 1's k; at 10**8 its
    error is 150 times smaller. With 10**3 users it is worse: the second-order noise of 512
    coordinates, which falls as n**(-2), still exceeds the first-order noise.
    `OneReport(num_users=...)` takes fewer coordinates.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

import jaxdp
from jaxdp import figures
from jaxdp.bounds import optimal_num_bins
from jaxdp.pairwise import GiniMeanDifference, Grid, OneReport, PairKernel, QuantizedRR
from jaxdp.sweep import Experiment, Settings, plot
from jaxdp_experiments._cells import coordinates, key_of

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

NUM_VALUES = 512
PROTOCOLS = {
    "corollary 1": "generic, k of Corollary 1",
    "best bins": "generic, best k for these users",
    "one report": "one report",
}
MEASURED = 10**6
"""Beyond this many users errors are predicted, exactly, and not measured."""


def users() -> tuple[np.ndarray, np.ndarray]:
    """The values, float64[512], and their probabilities: a smooth density with its mode at 1/4."""
    values = (np.arange(NUM_VALUES) + 0.5) / NUM_VALUES
    density = values * (1 - values) ** 3
    return values, density / density.sum()


@functools.lru_cache(maxsize=8)
def one_report(num_values: int, epsilon: float) -> OneReport:
    """One report of a vector, of all values."""
    matrix = GiniMeanDifference().matrix(Grid.uniform(num_values))
    return OneReport(PairKernel.from_matrix(matrix), epsilon, form="v")


def generic(num_bins: int, epsilon: float) -> QuantizedRR:
    """Rounding to a number of bins, and k-ary randomized response."""
    return QuantizedRR(GiniMeanDifference(), epsilon, grid=Grid.uniform(num_bins))


def best_bins(num_users: int, epsilon: float) -> int:
    """The k of least error for these users."""
    values, law = users()
    most = optimal_num_bins(num_users, epsilon, lipschitz=1.0)
    errors = {
        k: float(generic(k, epsilon).population_variance(law, num_users, values))
        for k in range(2, most + 1)
    }
    return min(errors, key=errors.__getitem__)


@dataclasses.dataclass(frozen=True, slots=True)
class ScalingCell:
    """One protocol and number of users.

    Args:
      protocol: a name in `PROTOCOLS`.
      num_users: n.
      epsilon: privacy parameter.
      num_trials: how many trials are simulated.
      seed: an integer.
    """

    protocol: str
    num_users: int
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "protocol", "epsilon", "num_users")

    def rows(self) -> list[dict[str, Any]]:
        """One row: the exact mean squared error, and the measured one with its standard error."""
        n, (values, law) = self.num_users, users()
        if self.protocol == "one report":
            protocol, num_bins, inputs = one_report(NUM_VALUES, self.epsilon), NUM_VALUES, None
        else:
            corollary = self.protocol == "corollary 1"
            choose = functools.partial(optimal_num_bins, lipschitz=1.0) if corollary else best_bins
            num_bins, inputs = choose(n, self.epsilon), values
            protocol = generic(num_bins, self.epsilon)
        row = dict(self.labels) | {
            "num_bins": num_bins,
            "predicted": float(protocol.population_variance(law, n, inputs)),
        }
        if n > MEASURED:
            return [row | {"mse": None, "mse_stderr": None, "num_trials": 0}]
        population = jaxdp.Population.from_distribution(law, num_users=n, values=inputs)
        name = f"{self.protocol} {n} {self.epsilon}"
        key = key_of(self.seed, name)
        trials = jaxdp.simulate(
            protocol,
            population,
            key,
            num_trials=self.num_trials,
            mesh="local",
            truth="population",
        )
        measured = {"mse": float(trials.mse), "mse_stderr": float(trials.mse_stderr)}
        return [row | measured | {"num_trials": self.num_trials}]


def cells(settings: Settings) -> list[ScalingCell]:
    """A cell for each protocol and number of users."""
    sizes = (10**3, 10**4) if settings.quick else tuple(10**i for i in range(3, 9))
    return [
        ScalingCell(protocol, n, epsilon, settings.num_trials, settings.seed)
        for epsilon in settings.epsilons
        for protocol in (tuple(PROTOCOLS)[:2] if settings.quick else PROTOCOLS)
        for n in sizes
    ]


def figure(results: "pa.Table") -> "Figure":
    """Mean squared error against users: lines exact, points measured."""
    import pyarrow as pa

    epsilon = results["epsilon"][0].as_py()
    rows = [row for row in results.to_pylist() if row["epsilon"] == epsilon]
    for name, label in PROTOCOLS.items():
        own = sorted((r for r in rows if r["protocol"] == name), key=lambda r: r["num_users"])
        if not own:
            continue
        at, exact = np.array([(r["num_users"], r["predicted"]) for r in own]).T
        first = len(at) // 2 if len(at) > 3 else 0
        slope = np.polyfit(np.log(at[first:]), np.log(exact[first:]), 1)[0]
        for row in own:
            row["of"] = f"{label}: slope {slope:.2f}".replace("-", "−")
    table = pa.Table.from_pylist(rows)
    shown: dict[str, Any] = dict(names={"predicted": "exact"}, width=figures.PAGE * 0.75)
    canvas = plot(table, x="num_users", y="mse", hue="of", **shown)
    canvas.suptitle(f"ε = {epsilon:g}; slopes over the larger half of n")
    return canvas


EXPERIMENT = Experiment(
    name="gini-scaling",
    summary="Gini's mean difference against the users: the generic protocol and one report",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=200),
    quick=Settings(epsilons=(1.0,), num_trials=50, quick=True),
    figure=figure,
)
"""Run by `jaxdp run gini-scaling`."""

"""Bassily's Table 1, measured: the L2 error of three protocols against the number of users.

Users are drawn from the uniform distribution on J values. Of it, the Hadamard protocol estimates
all J shares; the Gaussian protocol, (1, 1e-6)-LDP, and the rejection protocol, repaired, answer d
queries whose answers are random signs over sqrt(d), so that all columns have norm 1. All project
their estimate: onto the simplex, or the hull of the columns. The bounds are proven, with constants
of our own: `jaxdp.bounds`. What the paper says: while users are few (n below about J**2 / log J, or
d**2 / log J) the errors fall as n**(-1/4) and do not depend on d; from there on as n**(-1/2).

What we find: while users are few the slopes of shares, and of 256 and 1,024 queries, are -0.19 to
-0.28; those of 64 queries are flatter, to -0.06 with 65,536 values. Afterwards they are -0.5 +- 0.1
between neighbouring numbers of users. From 256 to 1,024 queries of 1,024 values the Gaussian
protocol's errors change by 3 to 13 %, in the other direction, for up to a million users. No error
is above its bound by more than 1.9 standard errors: where queries are few and users many the
projection changes nothing, the bound is the very error, and measurements scatter around it.
"""

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import jaxdp
from jaxdp import figures
from jaxdp.bounds import projected_hadamard_error, projected_queries_error
from jaxdp.linear import ColumnQueries, Projected, ProjectedHadamard
from jaxdp.randomizers import Gaussian, GaussianRejection
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._cells import coordinates, key_of

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

DELTA = 1e-6
TOL = 1e-5  # of the projections onto hulls: a gap far below the errors

RANDOMIZERS = {
    "gaussian": functools.partial(Gaussian, delta=DELTA),
    "rejection": GaussianRejection,
}

HADAMARD_VALUES = (2**8, 2**12, 2**16)
SIZES = (
    (2**4, 2**10),
    (2**6, 2**10),
    (2**8, 2**10),
    (2**10, 2**10),
    (2**6, 2**8),
    (2**6, 2**16),
)
"""(d, J) of the Gaussian and the rejection protocol."""

FEWER_TRIALS = 10
"""Most trials where J or n is large; there errors hardly vary."""


@functools.lru_cache(maxsize=4)
def queries(num_queries: int, num_values: int) -> np.ndarray:
    """Random signs over sqrt(d), float64[d, J]."""
    rng = np.random.default_rng([num_queries, num_values])
    return rng.choice([-1.0, 1.0], size=(num_queries, num_values)) / math.sqrt(num_queries)


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorCell:
    """One protocol at one number of users: its measured L2 error, and the bound.

    Args:
      protocol: "hadamard", "gaussian" or "rejection".
      num_queries: d.
      num_values: J.
      num_users: n.
      epsilon: privacy parameter.
      num_trials: how many trials.
      seed: an integer.
    """

    protocol: str
    num_queries: int
    num_values: int
    num_users: int
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "protocol", "epsilon", "num_values", "num_queries", "num_users")

    def spec(self) -> Any:
        """The protocol."""
        if self.protocol == "hadamard":
            return ProjectedHadamard(self.num_values, self.epsilon)
        workload = queries(self.num_queries, self.num_values)
        # As in the paper for any columns of norm 1: `GaussianQueries` and `RejectionQueries` would
        # look for the center of these, and for the two that are farthest apart.
        raw = ColumnQueries(workload, self.epsilon, RANDOMIZERS[self.protocol], shift=False)
        return Projected(raw, tol=TOL)

    def bound(self) -> float:
        """The proven bound on the error."""
        if self.protocol == "hadamard":
            return projected_hadamard_error(self.num_values, self.num_users, self.epsilon)
        randomizer = RANDOMIZERS[self.protocol](dim=self.num_queries, epsilon=self.epsilon)
        return projected_queries_error(randomizer, self.num_values, self.num_users)

    def rows(self) -> list[dict[str, Any]]:
        """One row: `l2_error`, the root of the mean squared L2 error, and its standard error."""
        uniform = np.full(self.num_values, 1 / self.num_values)
        population = jaxdp.Population.from_distribution(uniform, self.num_users)
        key = key_of(self.seed, repr(self.labels))
        trials = jaxdp.simulate(
            self.spec(),
            population,
            key,
            num_trials=self.num_trials,
            method="tally",
            mesh="local",
        )
        squares = np.square(trials.errors).sum(axis=1)
        error = math.sqrt(squares.mean())
        spread = float(squares.std(ddof=1)) if self.num_trials > 1 else math.inf
        bound = self.bound()
        return [
            dict(self.labels)
            | {
                "l2_error": error,
                # By the delta method, as the error is a square root.
                "stderr": spread / math.sqrt(self.num_trials) / (2 * error),
                "bound": bound,
                "of_bound": error / bound,
                "num_trials": self.num_trials,
            }
        ]


def cells(settings: Settings) -> list[ErrorCell]:
    """A cell for each protocol, size and number of users."""
    users = (10**3, 10**5) if settings.quick else tuple(round(10 ** (3 + i / 2)) for i in range(9))
    shares = [("hadamard", values, values) for values in HADAMARD_VALUES]
    linear = [(name, *size) for name in ("gaussian", "rejection") for size in SIZES]
    if settings.quick:
        shares, linear = shares[:1], linear[:2] + linear[len(SIZES) : len(SIZES) + 1]
    return [
        ErrorCell(
            name,
            num_queries,
            num_values,
            num_users,
            epsilon,
            _num_trials(settings, num_values, num_users),
            settings.seed,
        )
        for epsilon in settings.epsilons
        for name, num_queries, num_values in shares + linear
        for num_users in users
    ]


def _num_trials(settings: Settings, num_values: int, num_users: int) -> int:
    large = num_values > 2**12 or num_users > 10**6
    return min(settings.num_trials, FEWER_TRIALS) if large else settings.num_trials


def figure(results: "pa.Table") -> "Figure":
    """Error against users, a panel a protocol: measured points, their bounds, and two slopes."""
    rows = results.to_pylist()
    names = list(dict.fromkeys(row["protocol"] for row in rows))
    epsilon = rows[0]["epsilon"]
    titles = {
        "hadamard": "shares of J values (Hadamard)",
        "gaussian": "d queries (Gaussian)",
        "rejection": "d queries (rejection, repaired)",
    }
    canvas, grid = figures.panels(len(names), height=4.1, sharex=True, sharey=True)
    for axes, name in zip(grid[0], names, strict=True):
        mine = [row for row in rows if row["protocol"] == name and row["epsilon"] == epsilon]
        sizes = list(dict.fromkeys((row["num_queries"], row["num_values"]) for row in mine))
        for place, (queries, values) in enumerate(sizes):
            line = [r for r in mine if (r["num_queries"], r["num_values"]) == (queries, values)]
            users, error, stderr, bound = np.array(
                [(r["num_users"], r["l2_error"], r["stderr"], r["bound"]) for r in line]
            ).T
            label = f"J = {values:,}" + ("" if name == "hadamard" else f", d = {queries:,}")
            color, marker, _ = figures.mark(place)
            dots = dict(color=color, marker=marker, linewidth=0.9)
            axes.errorbar(users, error, 2 * stderr, label=label, **dots)
            axes.plot(users, bound, ":", color=color)
        ends = np.array([1e3, 1e7])
        for slope, height in ((-0.25, 2.5), (-0.5, 0.12)):
            axes.plot(ends, height * (ends / 1e3) ** slope, color=figures.LIGHT.axis, linewidth=0.8)
        axes.text(1.2e5, 1.05, "slope −1/4", color=figures.LIGHT.quiet, fontsize=7)
        axes.text(1.2e3, 0.036, "slope −1/2", color=figures.LIGHT.quiet, fontsize=7)
        axes.set(xscale="log", yscale="log", xlabel="users n", title=titles[name])
        axes.set_ylim(1e-3, 5)
        figures.tidy(axes)
        # Under its own panel, where it covers no data.
        axes.legend(loc="upper left", bbox_to_anchor=(-0.12, -0.18), borderaxespad=0)
    grid[0, 0].set_ylabel(f"L2 error at ε = {epsilon:g} (dotted: bound)")
    return canvas


EXPERIMENT = Experiment(
    name="bassily-table1",
    summary="L2 errors of projected protocols for linear queries against the number of users",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=100),
    quick=Settings(epsilons=(1.0,), num_trials=30, quick=True),
    figure=figure,
)

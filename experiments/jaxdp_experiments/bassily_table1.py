"""Bassily's Table 1, measured: errors against the number of users, between proven bounds.

For each of three problems the paper's table gives an upper bound, the bound of earlier protocols,
and a lower bound:

  * shares of J values: `ProjectedHadamard`, and `HadamardResponse` without a projection;
  * d linear queries whose columns have norm 1 (random signs over sqrt(d)): the Gaussian protocol,
    (1, 1e-6)-LDP, and the rejection protocol, repaired, projected onto the hull of the columns; and
    `L2Ball` without a projection;
  * d queries with values +-1, Walsh functions, asked one a round: `AdaptiveQueries`, judged by its
    largest error.

Users are drawn from the uniform distribution; for some sizes also from a Zipf distribution, or all
of them hold the same value. All bounds are proven and have explicit constants: `jaxdp.bounds`. The
paper's claim: while users are few (n below about J**2 / log J, or d**2 / log J), L2 errors fall as
n**(-1/4) and do not depend on d; from there on they fall as n**(-1/2).

What we find at epsilon = 1:

  * Shares of 4,096 or more values: the error falls with slopes of -0.21 to -0.27 up to ten million
    users, and is 1.9 to 2.4 times the lower bound, so little is left to gain over projecting. With
    4,096 values and no projection the error is 46 times the lower bound for 1,000 users, and 4
    times for ten million.
  * Queries answered by rejection: slopes of -0.20 to -0.27 for 256 and 1,024 queries and few users,
    and as flat as -0.08 for 64 queries of 65,536 values; later -0.5 +- 0.1. The error is 2.4 to 3.4
    times the lower bound for 1,024 queries, and 1.6 to 1.9 times for 16 to 256 queries and ten
    million users. There `L2Ball` is at 1.3 to 1.5 times the lower bound, but at 29 times with 1,024
    queries and 1,000 users. The Gaussian protocol, although it need only be (epsilon, delta)-LDP,
    is at 4.2 to 8.8 times.
  * Queries in rounds: the largest error is 3.6 to 9.2 times the lower bound, and 0.34 to 0.72 of
    the upper one.
  * If all users hold the same value the problem is easier: errors fall as n**(-1/2) throughout, to
    a fifth of the lower bound for the hardest distribution.
  * Of 288 measured errors none is above its upper bound by more than 2.5 standard errors. Where
    queries are few and users many, the bound equals the error, and measurements scatter around it.
"""

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import jaxdp
from jaxdp import figures
from jaxdp.bounds import (
    adaptive_lower_max_error,
    adaptive_max_error,
    distribution_lower_error,
    linear_queries_lower_error,
    mean_queries_error,
    projected_hadamard_error,
    projected_queries_error,
)
from jaxdp.linear import AdaptiveQueries, ColumnQueries, Projected, ProjectedHadamard
from jaxdp.randomizers import Gaussian, GaussianRejection, HadamardResponse, L2Ball
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._cells import coordinates, key_of
from jaxdp_experiments.adaptive import Overfitter

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

DELTA = 1e-6
TOL = 1e-5  # of the projections onto hulls: a gap far below the errors

RANDOMIZERS = {
    "gaussian": functools.partial(Gaussian, delta=DELTA),
    "rejection": GaussianRejection,
    "ball": L2Ball,
}

_SHARES = ((2**8, 2**8), (2**12, 2**12), (2**16, 2**16))
_OF_QUERIES = ((2**4, 2**10), (2**6, 2**10), (2**8, 2**10), (2**10, 2**10))
_OTHER_VALUES = ((2**6, 2**8), (2**6, 2**16))

SIZES = {
    "hadamard": _SHARES,
    "response": _SHARES,
    "gaussian": _OF_QUERIES + _OTHER_VALUES,
    "rejection": _OF_QUERIES + _OTHER_VALUES,
    "ball": _OF_QUERIES,
    "adaptive": _OF_QUERIES,
}
"""(d, J) of each protocol."""

UNEVEN = {"hadamard": (2**12, 2**12), "gaussian": (2**8, 2**10), "rejection": (2**8, 2**10)}
"""The sizes that meet other distributions than the uniform one."""

FEWER_TRIALS = 10
"""Most trials where J or n is large; there errors hardly vary."""


@functools.lru_cache(maxsize=4)
def queries(num_queries: int, num_values: int) -> np.ndarray:
    """Random signs over sqrt(d), float64[d, J]."""
    rng = np.random.default_rng([num_queries, num_values])
    return rng.choice([-1.0, 1.0], size=(num_queries, num_values)) / math.sqrt(num_queries)


def distribution(name: str, num_values: int) -> np.ndarray:
    """The shares of the values: "uniform", "zipf" or "one value"."""
    weights = {
        "uniform": np.ones(num_values),
        "zipf": 1 / np.arange(1, num_values + 1),
        "one value": np.eye(1, num_values)[0],
    }[name]
    return weights / weights.sum()


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorCell:
    """One protocol at one number of users: its measured error, between bounds.

    Args:
      protocol: a key of `SIZES`.
      distribution: of the users.
      num_queries: d.
      num_values: J.
      num_users: n.
      epsilon: privacy parameter.
      num_trials: how many trials.
      seed: an integer.
    """

    protocol: str
    distribution: str
    num_queries: int
    num_values: int
    num_users: int
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        names = ("protocol", "distribution", "epsilon", "num_values", "num_queries", "num_users")
        return coordinates(self, *names)

    def spec(self) -> Any:
        """The protocol."""
        if self.protocol == "hadamard":
            return ProjectedHadamard(self.num_values, self.epsilon)
        if self.protocol == "response":
            return HadamardResponse(self.num_values, self.epsilon)
        if self.protocol == "adaptive":
            d, k = self.num_queries, self.num_values
            analyst = Overfitter(0, first=d, num_values=k, num_rounds=d)  # who never attacks
            return AdaptiveQueries(k, self.epsilon, d, analyst, traceable=True)
        workload = queries(self.num_queries, self.num_values)
        # As in the paper for any columns of norm 1: `GaussianQueries` and `RejectionQueries` would
        # look for the center of these, and for the two that are farthest apart.
        raw = ColumnQueries(workload, self.epsilon, RANDOMIZERS[self.protocol], shift=False)
        return raw if self.protocol == "ball" else Projected(raw, tol=TOL)

    def bound(self) -> float:
        """The proven bound on the error; of `HadamardResponse` the error that is predicted."""
        n = self.num_users
        if self.protocol == "hadamard":
            return projected_hadamard_error(self.num_values, n, self.epsilon)
        if self.protocol == "response":
            # Of uniform users: what one of each value adds, and their sampling.
            ones = np.ones(self.num_values, np.int64)
            each = float(self.spec().variance(ones).sum()) / self.num_values
            return math.sqrt((each + 1 - 1 / self.num_values) / n)
        if self.protocol == "adaptive":
            return adaptive_max_error(n, self.num_queries, self.epsilon)
        randomizer = RANDOMIZERS[self.protocol](dim=self.num_queries, epsilon=self.epsilon)
        if self.protocol == "ball":
            return mean_queries_error(randomizer, n)
        return projected_queries_error(randomizer, self.num_values, n)

    def least(self) -> float:
        """The error that no protocol is below, for the hardest queries and distribution."""
        if self.protocol in ("hadamard", "response"):
            return distribution_lower_error(self.num_values, self.num_users, self.epsilon)
        if self.protocol == "adaptive":
            return adaptive_lower_max_error(self.num_users, self.num_queries, self.epsilon)
        return linear_queries_lower_error(
            self.num_queries, self.num_values, self.num_users, self.epsilon
        )

    def rows(self) -> list[dict[str, Any]]:
        """One row.

        Returns:
          The labels, `error`: the root of the mean squared L2 error, or the mean of the largest
          error of a trial, `stderr`: its standard error, `bound`, `least`, and `of_bound` and
          `of_least`: the error over each of the two.
        """
        shares = distribution(self.distribution, self.num_values)
        population = jaxdp.Population.from_distribution(shares, self.num_users)
        key = key_of(self.seed, repr(self.labels))
        trials = jaxdp.simulate(
            self.spec(),
            population,
            key,
            num_trials=self.num_trials,
            method="tally",
            mesh="local",
        )
        if self.protocol == "adaptive":
            losses, power = np.asarray(trials.max_error, np.float64), 1
        else:
            # Oracles estimate counts.
            scale = self.num_users if self.protocol == "response" else 1
            losses, power = np.square(trials.errors / scale).sum(axis=1), 2
        error = float(losses.mean()) ** (1 / power)
        spread = float(losses.std(ddof=1)) if self.num_trials > 1 else math.inf
        bound, least = self.bound(), self.least()
        return [
            dict(self.labels)
            | {
                "error": error,
                # By the delta method, where the error is a root.
                "stderr": spread / math.sqrt(self.num_trials) / (power * error ** (power - 1)),
                "bound": bound,
                "of_bound": error / bound,
                "least": least,
                "of_least": error / least,
                "num_trials": self.num_trials,
            }
        ]


def cells(settings: Settings) -> list[ErrorCell]:
    """A cell for each protocol, size, distribution and number of users."""
    users = (10**3, 10**5) if settings.quick else tuple(round(10 ** (3 + i / 2)) for i in range(9))
    places = [
        (protocol, "uniform", *size)
        for protocol, sizes in SIZES.items()
        for size in (sizes[:1] if settings.quick else sizes)
    ]
    uneven = ("zipf",) if settings.quick else ("zipf", "one value")
    places += [(name, shares, *size) for name, size in UNEVEN.items() for shares in uneven]
    if settings.quick:
        places.remove(("rejection", "zipf", *UNEVEN["rejection"]))
    return [
        ErrorCell(
            protocol,
            shares,
            num_queries,
            num_values,
            num_users,
            epsilon,
            _num_trials(settings, num_values, num_users),
            settings.seed,
        )
        for epsilon in settings.epsilons
        for protocol, shares, num_queries, num_values in places
        for num_users in users
    ]


def _num_trials(settings: Settings, num_values: int, num_users: int) -> int:
    large = num_values > 2**12 or num_users > 10**6
    return min(settings.num_trials, FEWER_TRIALS) if large else settings.num_trials


PANELS = (
    ("shares of J values, Hadamard", "hadamard", "response"),
    ("d queries, Gaussian", "gaussian", "ball"),
    ("d queries, rejection, repaired", "rejection", "ball"),
    ("d queries in rounds, largest error", "adaptive", None),
)
"""The title of each panel, its protocol, and the one before."""


def figure(results: "pa.Table") -> "Figure":
    """Error against users, a panel a protocol, for uniform users.

    Measured points with solid lines; their bounds dotted, what no protocol is below dash-dotted,
    the protocol before dashed.
    """
    from matplotlib.lines import Line2D

    rows = [row for row in results.to_pylist() if row["distribution"] == "uniform"]
    epsilon = rows[0]["epsilon"]
    rows = [row for row in rows if row["epsilon"] == epsilon]
    canvas, grid = figures.panels(2, 2, height=7.0, sharex=True, sharey=True)
    for axes, (title, name, before) in zip(grid.flat, PANELS, strict=True):
        mine = [row for row in rows if row["protocol"] == name]
        for place, (queries, values) in enumerate(SIZES[name]):

            def line(protocol: str | None, *columns: str, size=(queries, values)) -> np.ndarray:
                """The columns of a protocol's rows of this size, float64[columns, n]."""
                found = [r for r in rows if r["protocol"] == protocol]
                found = [r for r in found if (r["num_queries"], r["num_values"]) == size]
                return np.array([[r[c] for r in found] for c in columns])

            users, error, stderr, bound, least = line(
                name, "num_users", "error", "stderr", "bound", "least"
            )
            label = f"J = {values:,}" + ("" if name == "hadamard" else f", d = {queries:,}")
            color, marker, _ = figures.mark(place)
            dots = dict(color=color, marker=marker, linewidth=0.9, markersize=4)
            axes.errorbar(users, error, 2 * stderr, label=label, **dots)
            axes.plot(users, bound, ":", color=color)
            axes.plot(users, least, "-.", color=color, linewidth=0.8)
            axes.plot(*line(before, "num_users", "error"), "--", color=color, linewidth=0.8)
        axes.set(xscale="log", yscale="log", title=title)
        axes.set_ylim(1e-3, 5)
        figures.tidy(axes)
        if mine:
            axes.legend(loc="lower left", fontsize=6)
    for axes in grid[1]:
        axes.set_xlabel("users n")
    for axes in grid[:, 0]:
        axes.set_ylabel(f"error at ε = {epsilon:g}")
    looks: dict[str, Any] = {
        "measured": "-",
        "proven bound": ":",
        "the protocol before, measured": "--",
        "no protocol is below": "-.",
    }
    ink = figures.LIGHT.ink
    figures.legend(
        canvas,
        [Line2D([], [], color=ink, linestyle=s, label=text) for text, s in looks.items()],
    )
    return canvas


EXPERIMENT = Experiment(
    name="bassily-table1",
    summary="Errors of protocols for linear queries against the number of users, between bounds",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=100),
    quick=Settings(epsilons=(1.0,), num_trials=30, quick=True),
    figure=figure,
)

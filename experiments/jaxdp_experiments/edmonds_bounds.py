"""Bounds of Edmonds, Nikolov and Ullman (2020) in numbers: users that are enough, users needed.

The paper bounds the sample complexity of four workloads from both sides, up to constants:
thresholds, parities of up to two bits, marginals of up to two bits, and all conjunctions (Sections
2.5 and 3.6, Corollaries 4 to 6), learning them (Theorems 24 and 25), and the central model
(Theorems 28 and 30). Here both sides are proven numbers. Each row has both bounds for one loss:

* `mean`: the root of the mean over the queries of their mean squared errors;
* `worst`: the largest root mean squared error of a query;
* `maximum`: the expected largest error of all queries, which is the paper's loss;
* `learning`: an excess risk of `ALPHA` and a loss estimated within `BETA`, but with a probability
  of at most `BETA`.

Local errors are with respect to the distribution that users are drawn from, central ones to the
users themselves. The upper bounds are those of the factorization mechanisms, with PrivUnitG in the
local and Gaussian noise in the central model.

What we find, at epsilon = 1 and an error of 0.01: both sides are within a factor of 1.8 to 2.1 of
each other for `mean` and `worst` and up to 16 values, and within 1.9 for all parities; for 64
values of the other workloads, the bound for `worst` is within 4. As the error goes to 0 the factor
is 1.72, the variance of PrivUnitG times sinh(1/2)**2. For `maximum` it is 18 to 87: the paper's
logarithm of the number of queries is a factor of 2 ln(2 m), 10 for 73 marginals.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp import figures, workloads
from jaxdp.accounting import gaussian_sigma
from jaxdp.bounds import (
    central_lower_bound,
    central_upper_bound,
    learning_lower_bound,
    learning_upper_bound,
    local_lower_bound,
    local_upper_bound,
)
from jaxdp.factorization import gamma2, gamma2_approx, gamma_f
from jaxdp.randomizers import PrivUnitG
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._cells import coordinates

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ERRORS = (0.05, 0.01)
ALPHA, BETA = 0.05, 0.025
DELTA = 1e-6  # of the central model
TOL = 3e-3  # of the norms
PARTS_OF_RANGE = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""The α of γ2(W; α), in halves of the range of the entries: from 1 on the norm is 0, or nearly."""

WORKLOADS: dict[str, Callable[[int], np.ndarray]] = {
    "thresholds": lambda bits: workloads.prefix(2**bits),
    "parities": lambda bits: workloads.parity(bits, 2),
    "marginals": lambda bits: workloads.marginal(bits, 2, negations=True),
    "conjunctions": lambda bits: workloads.marginal(bits, bits),
}
"""The queries on 2**bits values."""

PANELS = {
    ("local", "mean"): f"local, RMSE of all queries: {ERRORS[1]:g}",
    ("local", "worst"): f"local, RMSE of each query: {ERRORS[1]:g}",
    ("local", "maximum"): f"local, E of largest error: {ERRORS[1]:g}",
    ("central", "mean"): f"central, RMSE of all queries: {ERRORS[1]:g}",
    ("learning", "learning"): f"learning, α = {ALPHA:g}, β = {BETA:g}",
}
"""The panels of the figure over k, and what they are called."""


@dataclasses.dataclass(frozen=True, slots=True)
class BoundsCell:
    """Bounds of one kind for one workload.

    Args:
      part: "local", "central", "learning" or "norm".
      workload: a key of `WORKLOADS`.
      num_bits: the number of values is 2**num_bits.
      epsilon: privacy parameter; None for "norm", which has none.
    """

    part: str
    workload: str
    num_bits: int
    epsilon: float | None

    @property
    def labels(self) -> tuple[tuple[str, Any], ...]:
        """The coordinates of the cell."""
        return (
            *coordinates(self, "part", "workload"),
            ("num_values", 2**self.num_bits),
            ("epsilon", self.epsilon),
        )

    def rows(self) -> list[dict[str, Any]]:
        """A row for each loss and error: `lower` and `upper` bounds, their ratio, and the norm."""
        matrix = WORKLOADS[self.workload](self.num_bits)
        parts = {"local": _local, "central": _central, "learning": _learning}
        if self.part == "learning" and self.workload != "parities":
            matrix = 2 * matrix - 1  # concepts have the entries -1 and 1
        found = _norms(matrix) if self.epsilon is None else parts[self.part](matrix, self.epsilon)
        return [
            dict(self.labels)
            | {
                "num_queries": len(matrix),
                "loss": loss,
                "error": error,
                "norm": norm,
                "lower": lower,
                "upper": upper,
                "ratio": upper / lower if lower > 0 else None,
            }
            for loss, error, norm, lower, upper in found
        ]


_Row = tuple[str, float, float, float, float]
_NORMS = {"gamma2": gamma2, "gamma_f": gamma_f}


def _local(matrix: np.ndarray, epsilon: float) -> Iterator[_Row]:
    form = PrivUnitG(dim=1, epsilon=epsilon).covariance_form()  # of any dimension
    assert form is not None
    variance, _ = form
    mean, size = (
        float(_NORMS[n](matrix, shift=True, tol=TOL).upper) for n in ("gamma_f", "gamma2")
    )
    for error in ERRORS:
        needed = functools.partial(local_lower_bound, matrix, epsilon, error, tol=TOL)
        enough = functools.partial(
            local_upper_bound, matrix, variance, error, population=True, tol=TOL
        )
        upper = enough(norm="gamma_f")
        yield "mean", error, mean, needed(norm="gamma_f"), upper
        yield "worst", error, size, needed(power=2), enough(norm="gamma2")
        # The largest error is at most the root of the sum of all squares.
        upper = min(_maximal(matrix, size, epsilon, error), upper * len(matrix))
        yield "maximum", error, size, needed(power=1), upper


def _maximal(matrix: np.ndarray, norm: float, epsilon: float, error: float) -> float:
    """Users with which the expected largest error of the factorization mechanism is `error`.

    An error is a mean of n independent variables, each a decoded report about its user's answer
    and that answer about its mean: sub-gamma, with the tail of the randomizer for vectors of the
    length of the norm, and Hoeffding's quarter of the squared range. Of 2 m signed errors the
    largest is at most √(2 v ln(2 m)/n) + b ln(2 m)/n in expectation.
    """
    report = PrivUnitG(dim=min(matrix.shape), epsilon=epsilon).tail()
    assert report is not None
    log = math.log(2 * len(matrix))
    variance = report.variance * norm**2 + float(np.ptp(matrix, axis=1).max()) ** 2 / 4
    spread, scale = math.sqrt(2 * variance * log), report.scale * norm * log
    # With x = √n: spread/x + scale/x² = error is a quadratic in x.
    return ((spread + math.sqrt(spread**2 + 4 * error * scale)) / (2 * error)) ** 2


def _central(matrix: np.ndarray, epsilon: float) -> Iterator[_Row]:
    multiplier, error = gaussian_sigma(epsilon, DELTA, 1.0), ERRORS[1]  # users go as 1/error
    for loss, norm in (("mean", "gamma_f"), ("worst", "gamma2")):
        size = float(_NORMS[norm](matrix, shift=True).upper)
        lower = central_lower_bound(matrix, epsilon, DELTA, error, norm=norm)
        upper = central_upper_bound(matrix, multiplier, error, norm=norm)
        yield loss, error, size, lower, upper


def _learning(concepts: np.ndarray, epsilon: float) -> Iterator[_Row]:
    lower = learning_lower_bound(concepts, epsilon, ALPHA, BETA, tol=TOL)
    upper = learning_upper_bound(concepts, epsilon, ALPHA, BETA)
    yield "learning", ALPHA, float(gamma2(concepts, tol=TOL).upper), lower, float(upper)


def _norms(matrix: np.ndarray) -> Iterator[_Row]:
    for part in PARTS_OF_RANGE:
        alpha = part * float(np.ptp(matrix)) / 2
        found = gamma2_approx(matrix, alpha, tol=TOL)
        norm = float(found.upper)
        yield "gamma2(W; alpha)", alpha, norm, float(found.lower), norm


def cells(settings: Settings) -> list[BoundsCell]:
    """A cell for each part, workload and size; the central model has no hard solves, so more."""
    local, central, fixed = ((2, 3), (2, 3), 3) if settings.quick else (range(2, 7), range(2, 8), 6)
    sizes = {"local": local, "central": central, "learning": local}
    bounds = [
        BoundsCell(part, workload, bits, epsilon)
        for part, several in sizes.items()
        for workload in WORKLOADS
        for bits in several
        for epsilon in settings.epsilons
    ]
    return bounds + [BoundsCell("norm", workload, fixed, None) for workload in WORKLOADS]


def figure(results: "pa.Table") -> "Figure":
    """Users against k, upper bounds and lower ones, a panel a loss; and γ2(W; α) against α."""
    rows = results.to_pylist()
    epsilon = next(row["epsilon"] for row in rows if row["epsilon"] is not None)
    canvas, grid = figures.panels(3, 2, height=4.9)
    for axes, ((part, loss), title) in zip(grid.flat, PANELS.items(), strict=False):
        error = ALPHA if part == "learning" else ERRORS[1]
        mine = [
            row
            for row in rows
            if (row["part"], row["loss"], row["error"], row["epsilon"])
            == (part, loss, error, epsilon)
        ]
        _curves(axes, mine, "num_values", "users")
        axes.set(xscale="log", yscale="log", xlabel="values k", title=title)
        sizes = sorted({row["num_values"] for row in mine})
        figures.tidy(axes, x=sizes[:: 1 + len(sizes) // 6])
    axes = grid[1, 2]
    mine = [row for row in rows if row["part"] == "norm"]
    _curves(axes, mine, "error", "γ2(W; α)")
    values = mine[0]["num_values"] if mine else 0
    axes.set(xlabel="α", title=f"γ2(W; α), k = {values}", ylim=(0, None))
    figures.tidy(axes)
    canvas.suptitle(f"solid: enough, dotted: needed, ε = {epsilon:g}")
    figures.legend(canvas)
    return canvas


def _curves(axes: "Axes", rows: list[dict[str, Any]], x: str, label: str) -> None:
    for place, workload in enumerate(WORKLOADS):
        mine = [row for row in rows if row["workload"] == workload]
        at = [row[x] for row in mine]
        color, marker, _ = figures.mark(place)
        axes.plot(at, [row["upper"] for row in mine], color=color, marker=marker, label=workload)
        # A bound of 0 has no place on a log axis.
        axes.plot(at, [row["lower"] or np.nan for row in mine], ":", color=color)
    axes.set_ylabel(label)


EXPERIMENT = Experiment(
    name="edmonds-bounds",
    summary="Users that are enough and users that are needed, local, central and for learning",
    cells=cells,
    settings=Settings(epsilons=(1.0, 4.0), num_trials=1),
    quick=Settings(epsilons=(1.0,), num_trials=1, quick=True),
    figure=figure,
)

"""ζ against γ2 in Ghazi et al. (2023): what an approximate matrix saves where users are few.

`zeta(W, n)` is the least of `gamma_2(W~) + epsilon sqrt(n) |W~ - W|`: less noise against a bias.
Theorem 5 is stated with it (by Lemma 10), the protocols in the text with gamma_2. Both are run
here, two reports of the exact factors of W and of those of the best approximation, for the true
weight of the bias, which is one over the root mean squared error of a unit norm. Users all hold the
value with the largest predicted error. Where the best approximation is a constant no reports are
needed, and nothing is measured.

What we find: of matrices of signs no approximation lies between W and a constant, and for
`|x - y|` hardly one. Where zeta is below gamma_2 noticeably, the best answer is a constant: with
fewer than about 600 users for random signs and 200 for Kendall's tau, at epsilon = 1 and 16 values.
In the window where W~ is neither, the error falls by 3 % for `|x - y|` and by 11 % for a product
with signs a tenth as large. The paper's zeta, without constants, sees none of it: it is gamma_2
from 32 users on.
"""

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

import jaxdp
from jaxdp import figures
from jaxdp.factorization import gamma2, zeta
from jaxdp.pairwise import GiniMeanDifference, Grid, KendallTau, PairKernel, TwoReport
from jaxdp.randomizers import PrivUnitG
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments import _measured
from jaxdp_experiments._cells import coordinates, key_of
from jaxdp_experiments.ghazi_separation import random_signs

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

NUM_VALUES = 16
MATRICES = ("random signs", "|x − y|", "Kendall's tau", "a product and signs")


@functools.cache
def matrix_of(name: str) -> np.ndarray:
    """The matrix minus the middle of its range, float64[16, 16]."""
    if name == "random signs":
        matrix = random_signs(NUM_VALUES, 0)
    elif name == "|x − y|":
        matrix = GiniMeanDifference().matrix(Grid.uniform(NUM_VALUES))
    elif name == "Kendall's tau":
        matrix = KendallTau().matrix((4, 4))
    else:
        # A product, and signs a tenth as large: an approximation can drop the signs.
        sizes = np.linspace(-1, 1, NUM_VALUES)
        matrix = np.outer(sizes, sizes) + 0.1 * random_signs(NUM_VALUES, 0)
    return matrix - (matrix.max() + matrix.min()) / 2


@dataclasses.dataclass(frozen=True, slots=True)
class ZetaCell:
    """One matrix and number of users.

    Args:
      matrix: one of `MATRICES`.
      num_users: n.
      epsilon: privacy parameter.
      num_trials: how many trials are simulated.
      seed: an integer.
    """

    matrix: str
    num_users: int
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "matrix", "num_users", "epsilon")

    def rows(self) -> list[dict[str, Any]]:
        """Two rows, by the exact factors and by the approximate ones; errors times n."""
        n, matrix = self.num_users, matrix_of(self.matrix)
        exact = gamma2(matrix, tol=1e-3)
        printed = zeta(matrix, num_users=n, epsilon=self.epsilon, tol=1e-3)
        noise = PrivUnitG(1, self.epsilon / 2).worst_case_variance(n)
        best = zeta(matrix, weight=1 / math.sqrt(2 * noise), tol=1e-3)
        row = dict(self.labels) | {
            "gamma2": float(exact.upper),
            "zeta": float(printed.upper),
            "num_trials": self.num_trials,
        }
        kernel, largest = PairKernel.from_matrix(matrix), float(np.abs(matrix).max())
        found = []
        for name, factors in (("γ2", exact), ("ζ", best)):
            alpha = float(factors.alpha)
            own = row | {"factors": name, "alpha": alpha, "norm": gamma_of(factors)}
            if name == "ζ" and alpha >= largest * (1 - 1e-6):
                # The answer 0 is off by the largest entry at most.
                constant = {"proven": n * largest**2, "predicted": n * largest**2}
                found.append(own | constant | {"measured": None, "measured_stderr": None})
                continue
            # An `alpha` that is rounded down by the solver would refuse its own factors.
            given: dict[str, Any] = dict(factorization=(factors.left, factors.right, 0.0))
            if name == "ζ" and alpha > 1e-9 * largest:
                given["alpha"] = alpha * (1 + 1e-6)
            protocol = TwoReport(kernel, self.epsilon, form="v", **given)
            points = n * np.eye(NUM_VALUES, dtype=np.int64)
            errors = [float(protocol.variance(counts)) for counts in points]
            worst = int(np.argmax(errors))
            trials = jaxdp.simulate(
                protocol,
                jaxdp.Population.from_histogram(points[worst]),
                key_of(self.seed, f"{self.matrix} {name} {n} {self.epsilon}"),
                num_trials=self.num_trials,
                method="tally",
                mesh="local",
            )
            found.append(
                own
                | {
                    "proven": n * float(protocol.worst_case_variance(n)),
                    "predicted": n * errors[worst],
                    "measured": n * float(trials.mse),
                    "measured_stderr": n * float(trials.mse_stderr),
                }
            )
        return found


def gamma_of(factors) -> float:
    """The product of the largest column norms of both factors."""
    sides = (np.asarray(factors.left), np.asarray(factors.right))
    return float(np.prod([np.linalg.norm(side, axis=0).max() for side in sides]))


def cells(settings: Settings) -> list[ZetaCell]:
    """A cell for each matrix and number of users."""
    exponents = (2.0, 4.0) if settings.quick else np.arange(1.0, 5.1, 0.5)
    return [
        ZetaCell(matrix, round(10**e), epsilon, settings.num_trials, settings.seed)
        for epsilon in settings.epsilons
        for matrix in (MATRICES[:1] if settings.quick else MATRICES)
        for e in exponents
    ]


def figure(results: "pa.Table") -> "Figure":
    """Errors times n by both factorizations against n, a panel for each matrix."""
    rows = results.to_pylist()
    names = list(dict.fromkeys(row["matrix"] for row in rows))
    epsilon, columns = rows[0]["epsilon"], min(len(names), 2)
    lines = -(-len(names) // columns)
    canvas, grid = figures.panels(columns, lines, height=0.6 + 2.3 * lines, sharex=True)
    handles = []
    for axes, name in zip(grid.flat, names, strict=True):
        for place, factors in enumerate(("γ2", "ζ")):
            own = [
                r
                for r in rows
                if (r["matrix"], r["factors"], r["epsilon"]) == (name, factors, epsilon)
            ]
            label = {"γ2": "exact factors, γ2", "ζ": "best approximation, ζ"}[factors]
            key = _measured.draw(axes, place, own, ("num_users", "proven", "measured"), label)
            if axes is grid.flat[0]:
                handles.append(key)
        axes.set(xscale="log", yscale="log", title=name)
        figures.tidy(axes)
    for axes in grid[-1]:
        axes.set_xlabel("users n")
    for axes in grid[:, 0]:
        axes.set_ylabel("mean squared error times n")
    canvas.suptitle(f"two reports, ε = {epsilon:g}; lines: proven, points: measured, 2 s.e.")
    figures.legend(canvas, handles)
    return canvas


EXPERIMENT = Experiment(
    name="ghazi-zeta",
    summary="Quadratic forms by an approximate matrix where users are few: ζ against γ2",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=200),
    quick=Settings(epsilons=(1.0,), num_trials=50, quick=True),
    figure=figure,
)

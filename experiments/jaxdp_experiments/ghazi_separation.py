"""Section C.1 of Ghazi et al. (2023): when do three rounds provably beat one, for random signs?

A symmetric matrix of random signs has entries of 1 and `gamma_2` of about `0.85 sqrt(k)`. Without
interaction the error is of order `gamma_2**2 / (epsilon**2 n)`, and so is the lower bound; with
three rounds it is `1 / (epsilon**2 n)` for n large enough. The paper concludes, without numbers,
that some n and k separate the two.

Here are the proven errors, of one report, of two and three rounds, and the lower bound for every
protocol of one round; and, for up to 64 values, those of 200 trials of each protocol, with 10**4 to
10**12 users by tallies drawn at once. In the figure all users hold one value, which is the worst
case of one report but for a tenth; the page has others.

What we find: the guarantee of three rounds, tuned, is below that of one report at 16 values
already; as printed, with 2176 for a constant, only from about 120. With 256 values and 10**9 users
it is also below the lower bound for every protocol of one round: a separation that is proven, with
every constant. The lower bound is 70 to 100 times below the error of one report, and less where the
users' own sampling hides it, so interaction helps in practice long before: measured at 16 values
and with 10**6 users, two rounds err half as much as one report, and three a seventh.
`jaxdp.bounds.rounds_separation` computes the number of users from which it provably does, for
larger matrices too. Where users are few the proof for the protocol as printed is far off: with
10**4 of them its error is 190 times below what is proven for 16 values and 1,700 times for 64.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import jaxdp
from jaxdp import figures
from jaxdp.bounds import non_interactive_mse, quadratic_form_lower_bound, three_round_mse
from jaxdp.factorization import gamma2
from jaxdp.pairwise import OneReport, PairKernel, PairwiseProtocol, ThreeRound, TwoRound
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments import _measured
from jaxdp_experiments._cells import coordinates, key_of

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

USERS = tuple(10**i for i in range(4, 13))


def random_signs(k: int, seed: int) -> np.ndarray:
    """A symmetric matrix of random signs, float64[k, k]."""
    signs = np.random.default_rng([seed, k]).choice([-1.0, 1.0], size=(k, k))
    return np.triu(signs) + np.triu(signs, 1).T


PROTOCOLS: dict[str, Callable[..., PairwiseProtocol[Any]]] = {
    "one report": OneReport,
    "two rounds": TwoRound,
    "three rounds, as printed": functools.partial(ThreeRound, variant="paper"),
    "three rounds, tuned": ThreeRound,
}
LOWER = "lower bound, one round"
MEASURED = 64
"""Errors for more values than this are proven, not measured: a program takes minutes to compile."""


def protocol_of(name: str, matrix: np.ndarray, epsilon: float) -> PairwiseProtocol[Any]:
    """A protocol of `PROTOCOLS` for the quadratic form of a matrix."""
    return PROTOCOLS[name](PairKernel.from_matrix(matrix), epsilon, form="v")


def users_of(name: str, num_values: int, num_users: int) -> np.ndarray:
    """Users who all hold the first value, or as many of each value, int64[k]."""
    if name == "one value":
        return np.bincount([0], [num_users], num_values).astype(np.int64)
    return np.full(num_values, num_users // num_values) + (
        np.arange(num_values) < num_users % num_values
    )


@dataclasses.dataclass(frozen=True, slots=True)
class SeparationCell:
    """One matrix of random signs, by one protocol; or the lower bound for all of one round.

    Args:
      num_values: k.
      protocol: one of `PROTOCOLS`, or `LOWER`.
      epsilon: privacy parameter.
      num_trials: how many trials for each number of users.
      seed: an integer.
    """

    num_values: int
    protocol: str
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "num_values", "protocol", "epsilon")

    def rows(self) -> list[dict[str, Any]]:
        """A row for each number of users and kind of users: errors times n, proven and measured."""
        k, epsilon = self.num_values, self.epsilon
        matrix = random_signs(k, self.seed)
        norm = float(gamma2(matrix, tol=1e-2).upper)
        found = []
        for n in USERS:
            row = dict(self.labels) | {"num_users": n, "gamma2": norm}
            row["proven"] = n * self._proven(matrix, norm, n)
            if self.protocol == LOWER or k > MEASURED:
                nothing = dict(measured=None, measured_stderr=None, predicted=None)
                found.append(row | {"users": "worst"} | nothing)
                continue
            protocol = protocol_of(self.protocol, matrix, epsilon)
            for name in ("one value", "uniform"):
                counts = users_of(name, k, n)
                trials = jaxdp.simulate(
                    protocol,
                    jaxdp.Population.from_histogram(counts),
                    key_of(self.seed, f"{self.protocol} {name} {k} {n} {epsilon}"),
                    num_trials=self.num_trials,
                    method="tally",
                    mesh="local",
                )
                errors = {
                    "measured": n * float(trials.mse),
                    "measured_stderr": n * float(trials.mse_stderr),
                    "predicted": n * float(protocol.variance(counts)),
                }
                found.append(row | {"users": name} | errors)
        return found

    def _proven(self, matrix: np.ndarray, norm: float, num_users: int) -> float:
        """The bound of this row."""
        k, n, epsilon = self.num_values, num_users, self.epsilon
        if self.protocol == LOWER:
            return quadratic_form_lower_bound(matrix, n, epsilon, tol=1e-2)
        if self.protocol == "one report":
            return non_interactive_mse(norm, k, n, epsilon)
        if self.protocol == "two rounds":
            return float(protocol_of(self.protocol, matrix, epsilon).worst_case_variance(n))
        variant = "tuned" if self.protocol.endswith("tuned") else "paper"
        return three_round_mse(1.0, norm, k, n, epsilon, variant=variant)


def cells(settings: Settings) -> list[SeparationCell]:
    """A cell for each size and protocol."""
    sizes = (4,) if settings.quick else (16, 64, 256)
    protocols = ("one report", LOWER) if settings.quick else (*PROTOCOLS, LOWER)
    return [
        SeparationCell(k, protocol, e, settings.num_trials, settings.seed)
        for e in settings.epsilons
        for k in sizes
        for protocol in protocols
    ]


def figure(results: "pa.Table") -> "Figure":
    """Proven errors times n against n, and measured ones as points, a panel for each size."""
    from matplotlib.lines import Line2D

    rows = results.to_pylist()
    sizes = list(dict.fromkeys(row["num_values"] for row in rows))
    epsilon = rows[0]["epsilon"]
    canvas, grid = figures.panels(len(sizes), height=3.2, sharey=True)
    handles = []
    for axes, k in zip(grid[0], sizes, strict=True):
        mine = [r for r in rows if (r["num_values"], r["epsilon"]) == (k, epsilon)]
        for place, name in enumerate((*PROTOCOLS, LOWER)):
            own = [r for r in mine if r["protocol"] == name and r["users"] != "uniform"]
            if name == LOWER:
                # A bound of 0 has no place on a log axis.
                bound = [r["proven"] or np.nan for r in own]
                axes.plot([r["num_users"] for r in own], bound, ":", color=figures.LIGHT.ink)
                continue
            columns = "num_users", "proven", "measured"
            key = _measured.draw(axes, place, own, columns, name, width=None)
            if axes is grid[0, 0]:
                handles.append(key)
        axes.set(xscale="log", yscale="log", xlabel="users n", title=f"k = {k}")
        figures.tidy(axes)
    grid[0, 0].set_ylabel("mean squared error times n")
    canvas.suptitle(f"random signs, ε = {epsilon:g}; lines: proven, points: measured, one value")
    handles.append(Line2D([], [], color=figures.LIGHT.ink, linestyle=":", label=LOWER))
    figures.legend(canvas, handles)
    return canvas


EXPERIMENT = Experiment(
    name="ghazi-separation",
    summary="Errors of one, two and three rounds for matrices of random signs, proven and measured",
    cells=cells,
    settings=Settings(epsilons=(0.1,), num_trials=200),
    quick=Settings(epsilons=(0.1,), num_trials=50, quick=True),
    figure=figure,
)

"""Section C.1 of Ghazi et al. (2023): when do three rounds provably beat one, for random signs?

A symmetric matrix of random signs has entries of 1 and `gamma_2` of about `0.85 sqrt(k)`. Without
interaction the error is of order `gamma_2**2 / (epsilon**2 n)`, and so is the lower bound; with
three rounds it is `1 / (epsilon**2 n)` for n large enough. The paper concludes, without numbers,
that some n and k separate the two.

Here are the proven errors: of one report, of three rounds as printed and tuned, and the lower bound
for every protocol of one round. What we find: the guarantee of three rounds, tuned, is below that
of one report at 16 values already; as printed, with 2176 for a constant, only from about 120.
With 256 values and 10**9 users it is also below the lower bound for every protocol of one round: a
separation that is proven, with every constant. The lower bound is 70 to 100 times below the error
of one report, and less where the users' own sampling hides it, so interaction helps in practice
long before; `jaxdp.bounds.rounds_separation` computes the number of users from which it provably
does, for larger matrices too.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdp import figures
from jaxdp.bounds import non_interactive_mse, quadratic_form_lower_bound, three_round_mse
from jaxdp.factorization import gamma2
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._cells import coordinates

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

USERS = tuple(10**i for i in range(4, 13))


def random_signs(k: int, seed: int) -> np.ndarray:
    """A symmetric matrix of random signs, float64[k, k]."""
    signs = np.random.default_rng([seed, k]).choice([-1.0, 1.0], size=(k, k))
    return np.triu(signs) + np.triu(signs, 1).T


@dataclasses.dataclass(frozen=True, slots=True)
class SeparationCell:
    """One matrix of random signs.

    Args:
      num_values: k.
      epsilon: privacy parameter.
      seed: an integer.
    """

    num_values: int
    epsilon: float
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "num_values", "epsilon")

    def rows(self) -> list[dict[str, Any]]:
        """A row for each number of users: proven errors, times n."""
        k, epsilon = self.num_values, self.epsilon
        matrix = random_signs(k, self.seed)
        norm = float(gamma2(matrix, tol=1e-2).upper)
        found = []
        for n in USERS:
            errors = {
                "lower": quadratic_form_lower_bound(matrix, n, epsilon, tol=1e-2),
                "one_report": non_interactive_mse(norm, k, n, epsilon),
                "printed": three_round_mse(1.0, norm, k, n, epsilon),
                "tuned": three_round_mse(1.0, norm, k, n, epsilon, variant="tuned"),
            }
            row = dict(self.labels) | {"num_users": n, "gamma2": norm}
            found.append(row | {name: n * error for name, error in errors.items()})
        return found


def cells(settings: Settings) -> list[SeparationCell]:
    """A cell for each size."""
    sizes = (16,) if settings.quick else (16, 64, 256)
    return [SeparationCell(k, e, settings.seed) for e in settings.epsilons for k in sizes]


def figure(results: "pa.Table") -> "Figure":
    """Proven errors times n against n, a panel for each size."""
    rows = results.to_pylist()
    sizes = list(dict.fromkeys(row["num_values"] for row in rows))
    epsilon = rows[0]["epsilon"]
    canvas, grid = figures.panels(len(sizes), height=3.0, sharey=True)
    names = {
        "printed": "three rounds, as printed",
        "tuned": "three rounds, tuned",
        "one_report": "one report",
        "lower": "lower bound, one round",
    }
    for axes, k in zip(grid[0], sizes, strict=True):
        mine = [r for r in rows if (r["num_values"], r["epsilon"]) == (k, epsilon)]
        n = [r["num_users"] for r in mine]
        for place, (column, label) in enumerate(names.items()):
            color, marker, _ = figures.mark(place)
            look = dict(color=color, marker=marker, label=label)
            if column == "lower":
                look |= dict(color=figures.LIGHT.ink, marker=None, linestyle=":")
            # A bound of 0 has no place on a log axis.
            axes.plot(n, [r[column] or np.nan for r in mine], **look)
        axes.set(xscale="log", yscale="log", xlabel="users n", title=f"k = {k}")
        figures.tidy(axes)
    grid[0, 0].set_ylabel("proven mean squared error times n")
    canvas.suptitle(f"random signs, ε = {epsilon:g}")
    figures.legend(canvas)
    return canvas


EXPERIMENT = Experiment(
    name="ghazi-separation",
    summary="Proven errors of one round and of three for matrices of random signs",
    cells=cells,
    settings=Settings(epsilons=(0.1,), num_trials=1),
    quick=Settings(epsilons=(0.1,), num_trials=1, quick=True),
    figure=figure,
)

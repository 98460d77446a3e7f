"""How errors of k-way marginals grow with the features: Theorems 2.2 and 2.3 of Cohen-Addad et al.

For m users with n features Theorem 2.2 promises an average squared error of a query of the order
`n**(k/4) / m` for even k and `(n**k k log n)**(1/4) / m` for odd k, where the noise alone has `n**k
/ m**2`. Here it is measured for parities of up to k features and 300 users, of whom there are a few
kinds, as many as `cosine-scaling` has dimensions of the hardest vectors: with users who all differ
errors hardly grow. Even k are flattened. Odd k are moments of the level k - 1, for which the
theorem is proven, and prefixes of flattened answers of order k + 1.

With at most t features a user, and noise on marginals, Theorem 2.3 promises `(t**1.5 / n)**k` up to
logarithms. 100 users have t random features each. Exponents are fitted where the projection at
least halves the error.

What we find: see the table on the page. Exponents are far below those of the noise; for k = 2 and 4
they are above those of the theorem and fall towards them. Users with few features are where most is
gained.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

import jaxdp
from jaxdp import figures
from jaxdp.bounds import MarginalsBounds
from jaxdp.central import Marginals
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._cells import coordinates, key_of
from jaxdp_experiments._scaling import exponent, mean_and_stderr

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DELTA = 1e-6
MAX_STEPS = 2000
METHODS = {
    "flattened": "flattened",
    "order k + 1": "order k + 1, flattened",
    "moments": "moments",
    "sparse": "moments, t known",
    "largest": "m tᵏ largest",
    "t unknown": "flattened, t unknown",
}
"""The methods, as they are called in the figure."""

DENSE = {
    2: {"flattened": (8, 16, 32, 64, 128, 256)},
    3: {"moments": (6, 8, 12), "order k + 1": (8, 12, 16, 24)},
    4: {"flattened": (8, 12, 16, 24, 32)},
    5: {"moments": (8, 10, 12, 14), "order k + 1": (8, 10, 12, 14)},
    6: {"flattened": (8, 10, 12, 14)},
    7: {"moments": (8, 9, 10), "order k + 1": (8, 9, 10, 11)},
}
"""The numbers of features, by order and method: what one projection of some minutes reaches."""

SPARSE = {2: {"sparse": (8, 16, 32, 64)}, 3: {"sparse": (6, 8)}}
"""The same with 3 features a user."""

FEW = 3
FEATURES_OF_USERS = (1, 2, 4, 8, 16)
WIDE = 48
"""The features where the number of features of a user varies."""


def users(count: int, num_features: int, sparsity: int | None, num_kinds: int) -> np.ndarray:
    """Rows of features, float32[m, n].

    Dense users are of some kinds, each drawn by coin flips and as frequent as the others; sparse
    ones have t features at random, each others.
    """
    rng = np.random.default_rng([num_features, sparsity or 0])
    if sparsity is None:
        kinds = rng.random((num_kinds, num_features)) < 0.5
        return kinds[np.arange(count) % num_kinds].astype(np.float32)
    draws = rng.random((count, num_features))
    return (np.argsort(np.argsort(draws, axis=1), axis=1) < sparsity).astype(np.float32)


def num_users(sparsity: int | None) -> int:
    """So few that the noise exceeds what the theorem promises, and so many that it promises < 1."""
    return 100 if sparsity is not None else 300


def num_subsets(num_features: int, size: int) -> int:
    """How many sets of at most so many features there are."""
    return sum(math.comb(num_features, s) for s in range(size + 1))


@dataclasses.dataclass(frozen=True, slots=True)
class MarginalsScalingCell:
    """One method on one number of features.

    Args:
      method: a key of `METHODS`.
      order: k.
      num_features: n.
      sparsity: t, or None for dense users.
      epsilon: privacy parameter.
      num_trials: how many releases.
      seed: an integer.
    """

    method: str
    order: int
    num_features: int
    sparsity: int | None
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        own = coordinates(self, "epsilon", "order", "method", "num_features")
        return (*own, ("sparsity", self.sparsity or 0))

    def spec(self, method: str) -> Marginals:
        """The mechanism of a method, with noise on marginals."""
        order = self.order + 1 if method == "order k + 1" else self.order
        name = {"order k + 1": "flattened", "t unknown": "flattened"}.get(method, "moments")
        plain = method in ("none", "flattened", "largest")
        basis = "parities" if self.sparsity is None else "marginals"
        return Marginals(
            self.num_features,
            order,
            self.epsilon,
            DELTA,
            sparsity=None if method == "t unknown" else self.sparsity,
            queries=basis,
            noise=basis,
            method=method if plain else name,  # pyright: ignore[reportArgumentType]
            level=self.order - 1 if method == "moments" and self.order > 2 else None,
            max_steps=MAX_STEPS,
        )

    def rows(self) -> list[dict[str, Any]]:
        """One row.

        Returns:
          `error`: the squared error of an answer, the mean over all sets of 1 to k features and
          over the trials; `stderr` its standard error; `noise` the same of the noise alone, exact;
          `gap`: the mean certificate of the projection, over the squared error.
        """
        spec, count = self.spec(self.method), num_users(self.sparsity)
        rows = users(count, self.num_features, self.sparsity, self.num_kinds())
        population = jaxdp.Population.from_values(rows)
        truth = spec.truth(np.ones(count, np.int64), rows)
        queries = slice(1, self.spec("none").num_queries)
        key = key_of(self.seed, repr(self.labels))
        losses, gaps = [], []
        for trial in range(self.num_trials):
            found = spec.release(population, jax.random.fold_in(key, trial))
            squares = (np.asarray(found.answers) - truth) ** 2
            losses.append(float(np.mean(squares[queries])))
            gaps.append(float(found.gap) / float(squares.sum()))
        error, stderr = mean_and_stderr(losses)
        return [
            dict(self.labels)
            | {
                "num_users": count,
                "num_kinds": self.num_kinds() if self.sparsity is None else 0,
                "error": error,
                "stderr": stderr,
                "noise": float(np.mean(self.spec("none").noise_variance(count)[queries])),
                "theorem": self.theorem(count),
                "gap": float(np.mean(gaps)),
                "num_trials": self.num_trials,
            }
        ]

    def num_kinds(self) -> int:
        """Kinds of users that are hardest: the rank at which the theorem's bound is attained.

        Of a flattened tensor with D rows and noise of deviation s an entry, sqrt(D) / s: as of
        vectors in sqrt(n) / sigma dimensions, see `cosine-scaling`.
        """
        count = num_users(self.sparsity)
        rows = num_subsets(self.num_features, -(-self.order // 2))
        deviation = math.sqrt(float(self.spec("none").noise_variance(count)[-1]))
        return min(max(1, round(math.sqrt(rows) / deviation)), count)

    def theorem(self, count: int) -> float | None:
        """The order of the error of a query by Theorem A.4, with the constant 1."""
        if self.epsilon > 1:
            return None  # its noise is calibrated for epsilon <= 1
        n, k = self.num_features, self.order
        bounds = MarginalsBounds(n, k, count, self.epsilon, DELTA, sparsity=self.sparsity)
        return bounds.theorem() / n**k


def cells(settings: Settings) -> list[MarginalsScalingCell]:
    """A cell for each method and number of features, of dense and of sparse users."""
    if settings.quick:
        places = [("flattened", 2, n, None) for n in (6, 12)]
        places += [("moments", 3, n, None) for n in (4, 6)]
        places += [("order k + 1", 3, n, None) for n in (4, 6)]
        places += [("sparse", 2, n, 2) for n in (6, 12)]
    else:
        families = [(None, DENSE), (FEW, SPARSE)]
        places = [
            (method, order, n, t)
            for t, family in families
            for order, methods in family.items()
            for method, sizes in methods.items()
            for n in sizes
        ]
        places += [
            (method, 2, WIDE, t)
            for method in ("sparse", "largest", "t unknown")
            for t in FEATURES_OF_USERS
        ]
    return [
        MarginalsScalingCell(method, order, n, t, epsilon, settings.num_trials, settings.seed)
        for epsilon in settings.epsilons
        for method, order, n, t in places
    ]


def growth(
    rows: list[dict[str, Any]], method: str, order: int, *, sparse: bool = False
) -> list[dict[str, Any]]:
    """The rows of one method and order by the features n, of dense or of sparse users."""
    mine = [row for row in rows if (row["method"], row["order"]) == (method, order)]
    mine = [row for row in mine if (row["sparsity"] > 0) == sparse]
    if sparse:
        fixed = min((row["sparsity"] for row in mine if row["num_features"] != WIDE), default=0)
        mine = [r for r in mine if r["sparsity"] == fixed and r["num_features"] != WIDE]
    return sorted(mine, key=lambda row: row["num_features"])


def gained(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows where the projection at least halves the error: where its own growth is seen."""
    return [row for row in rows if row["noise"] >= 2 * row["error"]]


def figure(results: "pa.Table") -> "Figure":
    """Errors of an answer against n, for even and odd k and for sparse users, and against t."""
    rows = results.to_pylist()
    canvas, grid = figures.panels(2, 2, height=6.4)
    orders = sorted({row["order"] for row in rows if row["sparsity"] == 0})
    even = [("flattened", k) for k in orders if k % 2 == 0]
    odd = [(name, k) for k in orders if k % 2 for name in ("moments", "order k + 1")]
    few = [("sparse", k) for k in (2, 3)]
    _draw(grid[0, 0], [(name, k, growth(rows, name, k)) for name, k in even], "even k")
    _draw(grid[0, 1], [(name, k, growth(rows, name, k)) for name, k in odd], "odd k")
    lines = [(name, k, growth(rows, name, k, sparse=True)) for name, k in few]
    _draw(grid[1, 0], lines, f"{FEW} features a user")
    wide = [r for r in rows if r["sparsity"] > 0 and r["num_features"] == WIDE]
    wide.sort(key=lambda row: row["sparsity"])
    names = dict.fromkeys(row["method"] for row in wide)
    lines = [(name, 2, [row for row in wide if row["method"] == name]) for name in names]
    _draw(grid[1, 1], lines, f"t features a user, k = 2, n = {WIDE}", size="sparsity")
    for axes in grid.flat:
        axes.set(xscale="log", yscale="log")
    grid[0, 1].set_ylim(top=30 * grid[0, 1].get_ylim()[1])  # room for the legend
    for axes in grid.flat:
        figures.tidy(axes)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=6)
    for axes in grid[:, 0]:
        axes.set_ylabel("squared error of an answer")
    return canvas


def _draw(
    axes: "Axes",
    lines: list[tuple[str, int, list[dict[str, Any]]]],
    title: str,
    size: str = "num_features",
) -> None:
    """Errors with their exponents, and the noise alone, dashed, for each order once."""
    drawn = set()
    for place, (method, order, mine) in enumerate(lines):
        if not mine:
            continue
        color, marker, _ = figures.mark(place)
        x = [row[size] for row in mine]
        label = METHODS[method] if size == "sparsity" else f"k = {order}, {METHODS[method]}"
        fitted = gained(mine)
        if len(fitted) > 1:
            slope, stderr = exponent(fitted, size)
            label = f"{label}: {slope:.2f} ± {stderr:.2f}".replace("-", "−")
        spread = [2 * (row["stderr"] or 0.0) for row in mine]
        look: dict[str, Any] = dict(
            color=color, marker=marker, markersize=4, linewidth=0.9, label=label
        )
        axes.errorbar(x, [row["error"] for row in mine], spread, **look)
        if size == "sparsity" or order not in drawn:
            axes.plot(x, [row["noise"] for row in mine], "--", color=color, linewidth=0.8)
        drawn.add(order)
    axes.set_title(title)
    axes.set_xlabel("features n" if size == "num_features" else "features of a user t")


EXPERIMENT = Experiment(
    name="marginals-scaling",
    summary="How errors of k-way marginals grow with the features, for k = 2 to 7, and with t",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=4),
    quick=Settings(epsilons=(1.0,), num_trials=2, quick=True),
    figure=figure,
)
"""Run by `jaxdp run marginals-scaling`."""

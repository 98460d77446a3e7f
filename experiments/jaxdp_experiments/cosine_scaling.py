"""How errors of private cosine similarities grow: Theorem 2.1, and Algorithms 2 and 4 beside it.

Cohen-Addad et al. (2024) release the similarities of n vectors by noise and a projection, and prove
a squared error of the order `sigma n**1.5` for all entries together, where the noise has `n**2`.
Here it is measured for GloVe words and for the hardest vectors, random ones in about `sqrt(n) /
sigma` dimensions, with the projection on {X psd, X_ii <= 1} of Algorithm 3. Algorithms 2 and 4
take averages of two projections instead, for log2 n steps, rounded up; Theorem 5.4 says that their
distance from the projection falls exponentially in the steps. All methods see the same noise.

What we find: see the table on the page. The exponent is right, and the averages are not the
projection.

The vectors are read from `glove6b100d_top10k_f16.npz` in the folder that the environment variable
JAXDP_DATA names.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxdp import figures
from jaxdp.central import CosineSet, PerturbAndProject
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments import cosine_glove
from jaxdp_experiments._cells import coordinates, key_of
from jaxdp_experiments._scaling import exponent, mean_and_stderr

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DELTA = 1e-6
TOL = 1e-2  # of the exact projection: its certified distance is below 1 % of the error's root
SENSITIVITIES = (0.03, 0.3)
EPSILON = 1.0
AVERAGES = {
    "algorithm 2": ("diagonal", 1),
    "algorithm 4": ("frobenius", 1),
    "algorithm 2, 16 times the steps": ("diagonal", 16),
}
"""The averages: what is averaged, and the steps in multiples of log2 n, rounded up."""

_SHORT = ("exact", "algorithm 2", "algorithm 4")
_ALL = ("exact", *AVERAGES)


def vectors(kind: str, num_vectors: int, sigma: float) -> np.ndarray:
    """Unit vectors as rows: "glove", or "hardest": random ones in sqrt(n) / sigma dimensions."""
    if kind == "glove":
        return cosine_glove.vectors(num_vectors)
    dim = max(1, round(math.sqrt(num_vectors) / sigma))
    rows = np.random.default_rng(num_vectors).standard_normal((num_vectors, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def printed_sigma(sensitivity: float, epsilon: float) -> float:
    """The paper's noise, `sqrt(2 log(2 / delta))` sensitivities over epsilon."""
    return sensitivity * math.sqrt(2 * math.log(2 / DELTA)) / epsilon


@dataclasses.dataclass(frozen=True, slots=True)
class CosineScalingCell:
    """All methods on the same releases of one number of vectors.

    Args:
      kind: of `vectors`.
      methods: "exact", and keys of `AVERAGES`.
      num_vectors: n.
      sensitivity: the Frobenius distance of neighbours' similarities.
      epsilon: privacy parameter.
      num_trials: how many releases.
      seed: an integer.
    """

    kind: str
    methods: tuple[str, ...]
    num_vectors: int
    sensitivity: float
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The coordinates of the cell."""
        return coordinates(self, "kind", "epsilon", "sensitivity", "num_vectors")

    def mechanism(self, method: str) -> PerturbAndProject:
        """The mechanism of a method."""
        n = self.num_vectors
        split, times = AVERAGES.get(method, ("diagonal", 0))
        return PerturbAndProject(
            CosineSet(n, "at_most_one", split),  # pyright: ignore[reportArgumentType]
            self.sensitivity,
            self.epsilon,
            DELTA,
            method="average" if times else "exact",
            tol=1e-9 if times else TOL,
            max_steps=times * math.ceil(math.log2(n)) if times else 50,
            float64=n <= 1024,
        )

    def rows(self) -> list[dict[str, Any]]:
        """A row for each method.

        Returns:
          `error`: the mean over the trials of the squared error of all entries, `stderr` its
          standard error; `noise` the same of the noise alone, exact; `bound` what is proven of the
          exact projection; `steps`: how many; `apart`: the distance from the exact projection, over
          that of the noisy matrix from it, which Theorem 5.4 has fall exponentially in the steps.
        """
        sigma = self.mechanism("exact").sigma
        v = vectors(self.kind, self.num_vectors, sigma)
        truth = v @ v.T
        key = key_of(self.seed, repr(self.labels))
        losses: dict[str, list[float]] = {method: [] for method in self.methods}
        steps: dict[str, list[int]] = {method: [] for method in self.methods}
        apart: dict[str, list[float]] = {method: [] for method in self.methods}
        for trial in range(self.num_trials):
            exact = np.zeros(0)
            for method in self.methods:
                # All methods draw the same noise.
                mechanism = self.mechanism(method)
                found = mechanism.release(jax.random.fold_in(key, trial), truth)
                point = np.asarray(found.estimate, np.float64)
                if method == "exact":
                    exact = point
                losses[method].append(float(np.sum((point - truth) ** 2)))
                steps[method].append(int(found.num_steps))
                moved = np.linalg.norm(np.asarray(found.noisy, np.float64) - exact)
                apart[method].append(float(np.linalg.norm(point - exact) / moved))
        mechanism = self.mechanism("exact")
        rows = []
        for method in self.methods:
            error, stderr = mean_and_stderr(losses[method])
            rows.append(
                dict(self.labels)
                | {
                    "method": method,
                    "sigma": sigma,
                    "printed_sigma": printed_sigma(self.sensitivity, self.epsilon),
                    "error": error,
                    "stderr": stderr,
                    "noise": sigma**2 * mechanism.num_entries,
                    "bound": mechanism.error_bound(),
                    "complexity": mechanism.set.complexity_bound(),
                    "steps": float(np.mean(steps[method])),
                    "apart": float(np.mean(apart[method])),
                    "num_trials": self.num_trials,
                }
            )
        return rows


def cells(settings: Settings) -> list[CosineScalingCell]:
    """Cells of more and more vectors at epsilon = 1, and of 48 vectors at other epsilons."""
    if settings.quick:
        places = [
            ("hardest", _SHORT, n, 0.3, EPSILON, settings.num_trials) for n in (16, 32, 64)
        ] + [("hardest", ("exact",), 32, 0.3, e, settings.num_trials) for e in settings.epsilons]
    else:
        trials = settings.num_trials
        sizes = {0.03: (64, 128, 256, 512), 0.3: (64, 256, 1024, 2048, 4096)}
        places = [
            ("glove", _ALL if n <= 128 else _SHORT, n, size, EPSILON, _most(n, trials))
            for size, numbers in sizes.items()
            for n in numbers
        ]
        places += [
            ("hardest", ("exact",), n, 0.3, EPSILON, trials) for n in (16, 64, 128, 256, 512)
        ]
        # Beyond 8 the tables of the noise, of 63 bits, are too coarse for more entries.
        places += [("glove", ("exact",), 48, 0.3, e, trials) for e in settings.epsilons]
    return [
        CosineScalingCell(
            kind, methods, n, size, epsilon, min(most, settings.num_trials), settings.seed
        )
        for kind, methods, n, size, epsilon, most in places
    ]


def _most(num_vectors: int, num_trials: int) -> int:
    """Fewer trials of many vectors, whose errors hardly vary."""
    return num_trials if num_vectors <= 256 else 4 if num_vectors <= 512 else 3


def growth(
    rows: list[dict[str, Any]], kind: str, method: str, sensitivity: float
) -> list[dict[str, Any]]:
    """The rows at epsilon = 1 of one method, by the number of vectors."""
    at = kind, method, sensitivity, EPSILON
    mine = [r for r in rows if (r["kind"], r["method"], r["sensitivity"], r["epsilon"]) == at]
    return sorted(mine, key=lambda row: row["num_vectors"])


def figure(results: "pa.Table") -> "Figure":
    """Errors against n, the averages' distance from the projection, and errors against epsilon."""
    rows = results.to_pylist()
    canvas, grid = figures.panels(3, height=3.3)
    left, middle, right = grid[0]
    _draw_growth(left, rows)
    _draw_averages(middle, rows)
    _draw_epsilons(right, rows)
    sizes = sorted({row["num_vectors"] for row in rows})
    for axes in (left, middle):
        figures.tidy(axes, x=sizes[:: 1 + (len(sizes) > 5)])
    figures.tidy(right, x=sorted({row["epsilon"] for row in rows}))
    left.set_ylim(top=30 * left.get_ylim()[1])  # room for the legend
    for axes in grid[0]:
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=6)
    return canvas


def _draw_growth(axes: "Axes", rows: list[dict[str, Any]]) -> None:
    lines = [("hardest", 0.3), *(("glove", size) for size in SENSITIVITIES)]
    for place, (kind, sensitivity) in enumerate(lines):
        mine = growth(rows, kind, "exact", sensitivity)
        if len(mine) < 2:
            continue
        slope, stderr = exponent(mine, "num_vectors")
        color, marker, _ = figures.mark(place)
        n, error, noise, bound = (
            [row[name] for row in mine] for name in ("num_vectors", "error", "noise", "bound")
        )
        name = "GloVe" if kind == "glove" else "hardest"
        label = f"{name}, σ = {mine[0]['sigma']:.2g}: {slope:.2f} ± {stderr:.2f}"
        spread = [2 * (row["stderr"] or 0.0) for row in mine]
        axes.errorbar(n, error, spread, color=color, marker=marker, markersize=4, label=label)
        axes.plot(n, bound, ":", color=color)
        axes.plot(n, noise, "--", color=color, linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="vectors n", ylabel="squared error, all entries")
    axes.set_title("exact projection: exponents")


def _draw_averages(axes: "Axes", rows: list[dict[str, Any]]) -> None:
    for place, method in enumerate(AVERAGES):
        for sensitivity, style in zip(SENSITIVITIES[::-1], ("-", "--"), strict=True):
            mine = growth(rows, "glove", method, sensitivity)
            mine = mine or growth(rows, "hardest", method, sensitivity)
            look: dict[str, Any] = dict(
                color=figures.mark(place)[0], marker=figures.mark(place)[1], markersize=4
            )
            name = method if mine and style == "-" else None
            n = [row["num_vectors"] for row in mine]
            axes.plot(n, [row["apart"] for row in mine], style, label=name, **look)
    axes.set(xscale="log", yscale="log", xlabel="vectors n")
    axes.set_ylabel("distance from the projection / of the noise")
    axes.set_title("averages, less noise dashed")


def _draw_epsilons(axes: "Axes", rows: list[dict[str, Any]]) -> None:
    by_epsilon = [row for row in rows if row["epsilon"] != EPSILON]
    if not by_epsilon:
        return
    n, size, kind = (by_epsilon[0][name] for name in ("num_vectors", "sensitivity", "kind"))
    at = n, size, kind, "exact"
    mine = [r for r in rows if (r["num_vectors"], r["sensitivity"], r["kind"], r["method"]) == at]
    mine.sort(key=lambda row: row["epsilon"])
    epsilons = [row["epsilon"] for row in mine]
    color, marker, _ = figures.mark(0)
    error, spread = [r["error"] for r in mine], [2 * (r["stderr"] or 0.0) for r in mine]
    axes.errorbar(epsilons, error, spread, color=color, marker=marker, markersize=4, label="error")
    axes.plot(epsilons, [row["bound"] for row in mine], ":", color=color, label="proven bound")
    printed = [row["complexity"] * row["printed_sigma"] for row in mine]
    axes.plot(epsilons, printed, "--", color=figures.LIGHT.ink, label="with the printed noise")
    axes.set(xscale="log", yscale="log", xlabel="ε", ylabel="squared error, all entries")
    axes.set_title(f"{n:,} vectors")


EXPERIMENT = Experiment(
    name="cosine-scaling",
    summary="How errors of private cosine similarities grow with the vectors and with epsilon",
    cells=cells,
    settings=Settings(epsilons=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0), num_trials=8),
    quick=Settings(epsilons=(0.25, 4.0), num_trials=3, quick=True),
    figure=figure,
)
"""Run by `jaxdp run cosine-scaling`."""

"""What the experiments on private marginals share: data, one cell, and a figure."""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

import jaxdp
from jaxdp import figures
from jaxdp.central import Marginals
from jaxdp.data import load_msnbc, load_mushrooms, load_retail
from jaxdp_experiments._cells import key_of
from jaxdp_experiments._data import data_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

DELTA = 1e-6


@functools.cache
def users(data: str, num_features: int, sparsity: int | None, num_users: int, seed: int):
    """Rows of features and how many users have each, as a pair of arrays.

    Of users with more than t features the most frequent t are kept: `sparsity` is a promise that
    the curator makes true. `num_users` users are drawn with replacement, 0 for all of them.
    """
    rng = np.random.default_rng(seed)
    if data == "synthetic":
        rows, counts = (rng.random((500, num_features)) < 0.15).astype(np.float32), np.ones(500)
    else:
        folder = data_folder(f"the data {data!r}")
        loaders = {"msnbc": load_msnbc, "mushrooms": load_mushrooms}
        found = loaders[data](folder) if data in loaders else load_retail(folder, num_features)
        rows, counts = found["rows"], found["counts"]
        order = np.argsort(-(counts @ rows), kind="stable")[:num_features]
        rows = rows[:, order]
    if sparsity is not None:
        # Columns are ordered by frequency: the first t ones of a row are the most frequent.
        rows = rows * (np.cumsum(rows, axis=1) <= sparsity)
    counts = counts.astype(np.int64)
    if num_users:
        counts = rng.multinomial(num_users, counts / counts.sum())
    # Users with the same features are one row.
    rows, place = np.unique(rows[counts > 0], axis=0, return_inverse=True)
    merged = np.bincount(place.ravel(), weights=counts[counts > 0]).astype(np.int64)
    return rows.astype(np.float32), merged


@dataclasses.dataclass(frozen=True, slots=True)
class MarginalsCell:
    """One method on one data set at one epsilon.

    Args:
      data: "msnbc", "mushrooms", "retail" or "synthetic".
      num_features: the most frequent ones are kept.
      order: k.
      sparsity: t, or None.
      method: of `Marginals`.
      noise: of `Marginals`.
      epsilon: privacy parameter.
      num_users: how many are drawn, 0 for all.
      num_trials: how many trials.
      seed: an integer.
    """

    data: str
    num_features: int
    order: int
    sparsity: int | None
    method: str
    noise: str
    epsilon: float
    num_users: int
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The data, their size, k, the method and epsilon."""
        return (
            ("data", self.data),
            ("order", self.order),
            ("num_users", self.num_users),
            ("method", f"{self.method}, {self.noise}"),
            ("epsilon", self.epsilon),
        )

    def rows(self) -> list[dict[str, Any]]:
        """One row: the root of the mean over answers and trials of the squared error.

        `gap` is the mean certificate, `gain` the squared error of the noisy answers over that of
        the released ones, `predicted` the root mean square of the noise alone.
        """
        rows, counts = users(self.data, self.num_features, self.sparsity, self.num_users, self.seed)
        spec = Marginals(
            self.num_features,
            self.order,
            self.epsilon,
            DELTA,
            sparsity=self.sparsity,
            noise=self.noise,  # pyright: ignore[reportArgumentType]
            method=self.method,  # pyright: ignore[reportArgumentType]
            max_steps=2000,
        )
        population = jaxdp.Population.from_histogram(counts, rows)
        # all methods see the same noise
        key = key_of(self.seed, repr(dataclasses.replace(self, method="")))
        truth = spec.truth(counts, rows)
        released, noisy, gaps = [], [], []
        for trial in range(self.num_trials):
            found = spec.release(population, jax.random.fold_in(key, trial))
            released.append(np.sum((found.answers - truth) ** 2))
            noisy.append(np.sum((found.noisy - truth) ** 2))
            gaps.append(float(found.gap))
        number = spec.num_queries - 1
        noise = spec.noise_variance(population.num_users).sum()
        return [
            dict(self.labels)
            | {
                "rmse": float(np.sqrt(np.mean(released) / number)),
                "predicted": float(np.sqrt(noise / number)),
                "gain": float(np.mean(noisy) / np.mean(released)),
                "gap": float(np.mean(gaps)),
                "num_trials": self.num_trials,
            }
        ]


def draw(results: "pa.Table") -> "Figure":
    """Errors against epsilon: a column for each data set and size, a row for each order."""
    rows = results.to_pylist()
    sizes = list(dict.fromkeys((row["data"], row["num_users"]) for row in rows))
    orders = sorted({row["order"] for row in rows})
    methods = list(dict.fromkeys(row["method"] for row in rows))
    epsilons = sorted({row["epsilon"] for row in rows})
    canvas, grid = figures.panels(
        len(sizes), len(orders), height=0.8 + 2.0 * len(orders), sharex=True, sharey="col"
    )
    for line, order in zip(grid, orders, strict=True):
        for axes, (data, size) in zip(line, sizes, strict=True):
            for place, name in enumerate(methods):
                at = data, size, order, name
                own = [
                    r for r in rows if (r["data"], r["num_users"], r["order"], r["method"]) == at
                ]
                own.sort(key=lambda r: r["epsilon"])
                look = figures.mark(place)._asdict() | dict(linewidth=0.9, label=name)
                axes.plot([r["epsilon"] for r in own], [r["rmse"] for r in own], **look)
            people = f"{size:,} users" if size else "all users"
            axes.set(xscale="log", yscale="log", title=f"{data}, {people}, k = {order}")
    for axes in grid.flat:  # the range of a column is that of all of its panels
        figures.tidy(axes, x=epsilons)
    for axes in grid[-1]:
        axes.set_xlabel("ε")
    for axes in grid[:, 0]:
        axes.set_ylabel("root mean squared error")
    figures.legend(canvas)
    return canvas

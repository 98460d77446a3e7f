"""The outcome of many trials."""

import dataclasses
import math
from collections.abc import Hashable
from typing import Literal

import numpy as np

from .._prediction import Prediction
from .._spec import check_choice

_SHOWN = 6  # entries of a summary
_WIDEST = 32  # letters of a label in it


@dataclasses.dataclass(frozen=True, eq=False)
class Trials:
    """The estimates of independent trials of one protocol, and what they say about its error.

    Attributes:
      estimates: float64[trials, ...], one estimate a trial.
      truth: float64[...], or float64[trials, ...] where the target differs from trial to trial;
        None where it is not known.
      method: "per_user" or "tally", the path that made the estimates.
      num_users: the number of users in a trial.
      labels: what the entries of an estimate are of, where they are of bins that have labels; else
        None.

    Example:
      >>> import jax, jaxdp
      >>> pop = jaxdp.Population.from_histogram([600, 300, 100])
      >>> krr = jaxdp.randomizers.KRR(num_values=3, epsilon=1.0)
      >>> trials = jaxdp.simulate(krr, pop, jax.random.key(0), num_trials=500)
      >>> bool((abs(trials.bias) < 5 * trials.bias_stderr).all())
      True
    """

    estimates: np.ndarray
    truth: np.ndarray | None
    method: str
    num_users: int
    labels: tuple[Hashable, ...] | None = None

    @property
    def num_trials(self) -> int:
        """The number of trials."""
        return self.estimates.shape[0]

    @property
    def mean(self) -> np.ndarray:
        """The mean estimate, float64[...]."""
        return self.estimates.mean(axis=0)

    @property
    def variance(self) -> np.ndarray:
        """The sample variance of the estimates, float64[...]; inf of a single trial."""
        if self.num_trials == 1:
            return np.full(self.estimates.shape[1:], np.inf)
        return self.estimates.var(axis=0, ddof=1)

    @property
    def errors(self) -> np.ndarray:
        """Estimate minus truth, float64[trials, ...]."""
        if self.truth is None:
            raise ValueError(
                "truth is not known, so errors are not either: give simulate a spec rather than "
                "its params, or truth=<array>."
            )
        return self.estimates - self.truth

    @property
    def bias(self) -> np.ndarray:
        """The mean error, float64[...]."""
        return self.errors.mean(axis=0)

    @property
    def bias_stderr(self) -> np.ndarray:
        """The standard error of `bias`, float64[...]; inf of a single trial."""
        return _standard_error(self.errors)

    @property
    def mse(self) -> np.ndarray:
        """The mean squared error, float64[...]."""
        return np.mean(self.errors**2, axis=0)

    @property
    def mse_stderr(self) -> np.ndarray:
        """The standard error of `mse`, float64[...]; inf of a single trial."""
        return _standard_error(self.errors**2)

    @property
    def rmse(self) -> np.ndarray:
        """The root of `mse`, float64[...]."""
        return np.sqrt(self.mse)

    @property
    def max_error(self) -> np.ndarray:
        """The largest absolute error over the entries of each trial's estimate, float64[trials]."""
        return np.abs(self.errors).reshape(self.num_trials, -1).max(axis=1)

    def error(self, objective: Literal["mean", "max"] = "mean") -> Prediction:
        """The mean squared error as a simulated `Prediction`, with its standard error.

        Args:
          objective: "mean" over the entries of the estimate, or "max" for the entry with the
            largest, which chance makes a little too large.
        """
        squares = np.square(self.errors).reshape(self.num_trials, -1)
        if check_choice("objective", objective, ("mean", "max")) == "max":
            squares = squares[:, [squares.mean(axis=0).argmax()]]
        each = squares.mean(axis=1)
        return Prediction(each.mean(), "simulated", float(_standard_error(each)))

    def quantiles(self, q=(0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles of the estimates.

        Args:
          q: probabilities in [0, 1].

        Returns:
          float64[len(q), ...].
        """
        levels = np.asarray(q, np.float64)
        if not np.all((levels >= 0) & (levels <= 1)):
            raise ValueError(f"q must be probabilities in [0, 1], got {q!r}.")
        return np.quantile(self.estimates, levels, axis=0)

    def summary(self) -> str:
        """A few lines of text: trials, mean, and, where the truth is known, bias and error.

        Where entries have labels, a table with a line for each of the first ones.
        """
        columns = {"mean": [self.mean]}
        if self.truth is not None:
            truth = self.truth if self.truth.ndim < self.estimates.ndim else self.truth.mean(axis=0)
            columns |= {
                "truth": [truth],
                "bias": [self.bias, self.bias_stderr],
                "mse": [self.mse, self.mse_stderr],
                "rmse": [self.rmse],
            }
        head = f"{self.num_trials} trials of {self.num_users} users, method {self.method}"
        if self.labels is not None:
            return "\n".join([head, *_table(self.labels, columns)])
        lines = [f"{name:10}{'  +- '.join(map(_show, of))}" for name, of in columns.items()]
        return "\n".join([head, *lines])

    def to_dict(self) -> dict:
        """Plain values: counts, mean, quantiles, and errors where the truth is known.

        Labels are among them where there are any, as texts unless they are numbers.
        """
        levels = (0.05, 0.25, 0.5, 0.75, 0.95)
        out = {
            "method": self.method,
            "num_users": self.num_users,
            "num_trials": self.num_trials,
            "mean": self.mean.tolist(),
            "variance": self.variance.tolist(),
            "quantiles": {
                str(level): row.tolist()
                for level, row in zip(levels, self.quantiles(levels), strict=True)
            },
        }
        if self.labels is not None:
            plain = (str, int, float)
            out |= {"labels": [x if isinstance(x, plain) else str(x) for x in self.labels]}
        if self.truth is not None:
            names = ("bias", "bias_stderr", "mse", "mse_stderr", "rmse")
            out |= {"truth": self.truth.tolist()}
            out |= {name: getattr(self, name).tolist() for name in names}
        return out


def _standard_error(samples: np.ndarray) -> np.ndarray:
    if samples.shape[0] == 1:
        return np.full(samples.shape[1:], np.inf)
    return samples.std(axis=0, ddof=1) / math.sqrt(samples.shape[0])


def _show(value: np.ndarray) -> str:
    flat = np.atleast_1d(value).ravel()
    shown = ", ".join(f"{x:.6g}" for x in flat[:_SHOWN])
    return shown + (f", ... ({flat.size} values)" if flat.size > _SHOWN else "")


def _table(labels: tuple[Hashable, ...], columns: dict[str, list[np.ndarray]]) -> list[str]:
    """Lines with the first labels and their numbers, in columns."""
    shown = [" ".join(str(label).split()) for label in labels[:_SHOWN]]
    cells = [["", *(x if len(x) <= _WIDEST else f"{x[: _WIDEST - 3]}..." for x in shown)]]
    for name, of in columns.items():
        numbers = [" +- ".join(f"{value[i]:.6g}" for value in of) for i in range(len(shown))]
        cells.append([name, *numbers])
    widths = [max(map(len, column)) for column in cells]
    lines = [
        "  ".join(
            f"{cell:{'>' if place else '<'}{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in zip(*cells, strict=True)
    ]
    return lines + ([f"... ({len(labels)} bins)"] if len(labels) > _SHOWN else [])

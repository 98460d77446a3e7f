"""Better estimates from the same reports: projection, thresholds, maximum likelihood, smoothing.

Every user has sent one report; the estimates differ in what the analyst makes of the tally. The
unbiased counts of an oracle (`raw`) are compared with

  * `norm-sub`: `jaxdp.reports.norm_sub`, the nearest non-negative counts of the right sum;
  * `base-cut`: `jaxdp.reports.base_cut`, only the counts that stand out from the noise;
  * `norm-cut`: only the largest counts, as many as it takes to add up to the number of users;
  * `norm-mul`: negative counts set to 0, the others scaled to the right sum;
  * `likelihood`: `jaxdp.reports.maximum_likelihood`;
  * `em`, `em smoothed`: `jaxdp.reports.expectation_maximization`, stopped as in the literature.

The data are 50,000 users with Zipf's law on 1,000 values; 529,231 sales of a shop's 1,000 most
frequent items to 88,162 customers (`jaxdp.data.load_retail`), each sale a user; and the arrival
delays of 327,346 flights (`jaxdp.data.load_flights`), clamped to [-75, 180] minutes, in 128
consecutive groups of two minutes. Errors are of shares: their mean square over values (mse), half
the sum of their magnitudes (tv), for delays the largest error of the distribution function
(kolmogorov), and how many of the ten most frequent values are among the ten largest positive
estimates (recall).

What we find at epsilon = 1:

  * On Zipf's law the root mean squared error after Norm-Sub is 3.2 to 3.4 times smaller than before
    for all oracles but KRR, where it is 8.9 times smaller; on retail 2 times (KRR 5), on delays 1.2
    to 1.3 times (KRR 1.5). The ranking, and so the recall, stays as it was.
  * Where most values are rare (Zipf, retail) Base-Cut has an even smaller mean squared error, since
    it leaves nearly everything out; on delays it has about twice that of Norm-Sub.
  * Norm-Cut has a larger mean squared error than Norm-Sub everywhere. Norm-Mul has a smaller one
    for KRR, and up to 3 times as much for the other oracles. Neither is part of the library.
  * For the distribution function of the delays, projection helps some oracles and hurts others, by
    at most a third; `cdf-flights` has the protocols made for that question.
  * For KRR and HadamardResponse maximum likelihood gains little over the projection: the counts
    hold nearly all the information. EM that stops early is 5 to 11 % better on delays.
  * `DiscreteLaplace` itself estimates only the mean. From its reports EM recovers the distribution
    of the delays with a hundredth of the mean squared error of maximum likelihood, which has
    spikes. The smoothed version flattens too much here, even at epsilon = 4; but by borrowing from
    neighbours it finds 8.9 of the top ten from the reports of KRR, where all others find 6.6.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxdp.data import load_flights, load_retail
from jaxdp.random import Count
from jaxdp.randomizers import (
    KRR,
    DiscreteLaplace,
    HadamardResponse,
    SubsetSelection,
    UnaryEncoding,
)
from jaxdp.reports import base_cut, expectation_maximization, maximum_likelihood, norm_sub
from jaxdp.sweep import Experiment, Settings
from jaxdp_experiments._cells import coordinates, key_of
from jaxdp_experiments._data import data_folder

TOP = 10
LARGE = 256
"""Above so many values a step of the likelihood takes long: a tenth of the trials must do."""

ORACLES: dict[str, Callable[[int, float], Any]] = {
    "KRR": KRR,
    "HadamardResponse": HadamardResponse,
    "SubsetSelection": SubsetSelection,
    "UnaryEncoding": UnaryEncoding,
    "DiscreteLaplace": lambda num_values, epsilon: DiscreteLaplace(0, num_values - 1, epsilon),
}
COUNTED = ("KRR", "HadamardResponse", "DiscreteLaplace")
"""Oracles with a likelihood of the tally."""


@functools.cache
def users(data: str) -> np.ndarray:
    """The histogram of the users, int64[k]."""
    if data == "zipf":
        shares = 1 / np.arange(1, 1001)
        counts = np.floor(50_000 * shares / shares.sum()).astype(np.int64)
        counts[0] += 50_000 - counts.sum()
        return np.random.default_rng(0).permutation(counts)
    if data == "retail":
        rows = load_retail(data_folder("retail_baskets.npz"), 1000)["rows"]
        return np.random.default_rng(0).permutation(rows.sum(axis=0, dtype=np.int64))
    flights = load_flights()
    minutes = int(flights["arr_delay_min"]) + np.arange(flights["arr_delay_hist"].size)
    group = (np.clip(minutes, -75, 180) + 75) // 2
    return np.bincount(group, weights=flights["arr_delay_hist"]).astype(np.int64)


def norm_cut(counts: np.ndarray, num_users: float) -> np.ndarray:
    """The largest counts of each row, as many as add up to at most the number of users."""
    ordered = -np.sort(-np.maximum(counts, 0), axis=1)
    kept = np.maximum((np.cumsum(ordered, axis=1) <= num_users).sum(axis=1), 1)
    least = np.take_along_axis(ordered, kept[:, None] - 1, axis=1)
    return np.where((counts >= least) & (counts > 0), counts, 0)


def norm_mul(counts: np.ndarray, num_users: float) -> np.ndarray:
    """The positive counts of each row, scaled to add up to the number of users."""
    positive = np.maximum(counts, 0)
    return positive * num_users / positive.sum(axis=1, keepdims=True)


@dataclasses.dataclass(frozen=True, slots=True)
class EstimateCell:
    """One oracle on one data set: the errors of all estimates of the same reports.

    Args:
      data: "zipf", "retail" or "delays".
      oracle: one of `ORACLES`.
      epsilon: privacy parameter.
      num_trials: how many trials.
      seed: an integer.
    """

    data: str
    oracle: str
    epsilon: float
    num_trials: int
    seed: int

    @property
    def labels(self) -> tuple[tuple[str, str | float], ...]:
        """The data, the oracle and epsilon."""
        return coordinates(self, "data", "oracle", "epsilon")

    def rows(self) -> list[dict[str, Any]]:
        """A row for each estimate: the mean errors over the trials, and their standard errors."""
        counts = users(self.data)
        found = []
        for method, estimates in self._estimates(counts).items():
            errors = _errors(estimates / counts.sum(), counts / counts.sum(), self.data == "delays")
            row = dict(self.labels) | {"method": method, "num_trials": len(estimates)}
            for name, each in errors.items():
                row[name] = float(each.mean())
                row[f"{name}_stderr"] = float(each.std(ddof=1) / np.sqrt(len(each)))
            found.append(row)
        return found

    def _estimates(self, counts: np.ndarray) -> dict[str, np.ndarray]:
        """Estimated counts of all trials, float64[trials, k], by method."""
        spec = ORACLES[self.oracle](counts.size, self.epsilon)
        params, total = spec.build(), float(counts.sum())
        key = key_of(self.seed, f"{self.data} {self.oracle} {self.epsilon}")
        tallies = _tallies(params, jax.random.split(key, self.num_trials), Count.of(counts))
        found: dict[str, np.ndarray] = {}
        if self.oracle != "DiscreteLaplace":  # whose estimate is the mean
            raw = np.asarray(jax.vmap(params.estimate)(tallies), np.float64)
            nobody = np.where(np.arange(counts.size) == 0, total, 0).astype(np.int64)
            stderr = float(np.sqrt(spec.variance(nobody)[1]))
            found = {
                "raw": raw,
                "norm-sub": np.asarray(norm_sub(raw, total), np.float64),
                "base-cut": np.asarray(base_cut(raw, stderr), np.float64),
                "norm-cut": norm_cut(raw, total),
                "norm-mul": norm_mul(raw, total),
            }
        if self.oracle in COUNTED:
            large = counts.size > LARGE
            some = tallies[: max(self.num_trials // 10, 2) if large else self.num_trials]
            fits = {"likelihood": maximum_likelihood(params, some)}
            if not large:
                fits["em"] = expectation_maximization(params, some)
            if self.data == "delays":
                fits["em smoothed"] = expectation_maximization(params, some, smooth=True)
            if not all(np.all(fit.converged) for fit in fits.values()):
                raise RuntimeError(f"a fit did not converge in {self}")
            for method, fit in fits.items():
                found[method] = np.asarray(fit.probabilities, np.float64) * total
        return found


@jax.jit
def _tallies(params: Any, keys: jax.Array, counts: Count) -> Any:
    return jax.vmap(lambda key: params.sample_tally(key, counts))(keys)


def _errors(shares: np.ndarray, truth: np.ndarray, ordered: bool) -> dict[str, np.ndarray]:
    """The errors of each trial, by name."""
    errors = shares - truth
    top = np.argsort(-truth, kind="stable")[:TOP]
    largest = np.argsort(-shares, axis=1, kind="stable")[:, :TOP]
    chosen = np.isin(largest, top) & (np.take_along_axis(shares, largest, axis=1) > 0)
    found = {
        "mse": np.mean(errors**2, axis=1),
        "tv": np.abs(errors).sum(axis=1) / 2,
        "recall": chosen.mean(axis=1),
    }
    if ordered:
        found["kolmogorov"] = np.abs(np.cumsum(errors, axis=1)).max(axis=1)
    return found


def cells(settings: Settings) -> list[EstimateCell]:
    """A cell for each data set, epsilon and oracle."""
    return [
        EstimateCell(data, oracle, epsilon, settings.num_trials, settings.seed)
        for data in (("delays",) if settings.quick else ("zipf", "retail", "delays"))
        for epsilon in settings.epsilons
        for oracle in ORACLES
        if data == "delays" or oracle != "DiscreteLaplace"
    ]


EXPERIMENT = Experiment(
    name="estimates",
    summary="Projection, thresholds, likelihood and smoothing on Zipf's law, flights and retail",
    cells=cells,
    settings=Settings(epsilons=(1.0,), num_trials=200),
    quick=Settings(epsilons=(1.0,), num_trials=20, quick=True),
)

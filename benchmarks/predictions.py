"""Predicted errors against measured ones, for all protocols: what `Prediction.kind` is worth.

    python -m benchmarks.predictions                # all sections, about an hour
    python -m benchmarks.predictions --only pairs   # one section

Every protocol that competes in a ranking is run 500 times on six data sets of 2,000 users, at
epsilon = 0.5, 1, 2 and 4. Of so many cells some are off by three standard errors by chance: such
a cell is run 4,000 times more, with new words, and what is said of it is what these show. Prints
Markdown tables and writes them, with the machine and the versions, to
benchmarks/results/predictions/. Sections that are not run keep their last results.
"""

import warnings
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxdp
from jaxdp import central, linear, pairwise, workloads
from jaxdp.data import load_flights, load_military

from ._report import RESULTS, Rows, choose_sections

FOLDER = RESULTS / "predictions"
VALUES, USERS, TRIALS, AGAIN, DELTA = 16, 2000, 500, 4000, 1e-6
EPSILONS = (0.5, 1.0, 2.0, 4.0)
NOISY = 0.1  # a root mean squared error beyond which a ratio is not nearly linear
FEW = (
    "SubsetSelection",
    "HadamardResponse",
    "UnaryEncoding, optimal",
)  # of the oracles, plugged in


class Cell(NamedTuple):
    """One protocol on one data set at one epsilon.

    Attributes:
      ratio: predicted over measured.
      spread: the standard error of the measured error, by itself.
      kind: of the prediction.
      noisy: whether the predicted root mean squared error of a ratio is above 0.1.
      again: whether it was measured a second time.
    """

    ratio: float
    spread: float
    kind: str
    noisy: bool
    again: bool = False

    @property
    def off(self) -> float:
        """What predicted and measured are apart, in standard errors."""
        return (self.ratio - 1) / self.spread

    @property
    def as_claimed(self) -> bool:
        """Whether the prediction is worth what its kind says, up to three standard errors."""
        if self.kind == "bound":
            return self.off > -3
        if self.kind == "delta" and not self.noisy:
            return 1 / 1.1 - 3 * self.spread < self.ratio < 1.1 + 3 * self.spread
        return self.noisy or abs(self.off) < 3


def data_sets() -> dict[str, np.ndarray]:
    """Six histograms of 2,000 users."""
    ranks = np.arange(1, VALUES + 1)
    one, two, military = np.zeros(VALUES), np.zeros(VALUES), load_military()
    one[VALUES // 3], two[[2, -3]] = 1.0, 0.5
    shares = {
        "uniform": np.ones(VALUES),
        "zipf": 1.0 / ranks,
        "one value": one,
        "two spikes": two,
        "flights": _binned(load_flights()["dep_minute_hist"]),
        "military": np.bincount(military["cells"][:, 5], military["counts"], VALUES),  # by rank
    }
    whole = {}
    for name, share in shares.items():
        counts = np.floor(share / share.sum() * USERS).astype(np.int64)
        counts[np.argmax(share)] += USERS - counts.sum()
        whole[name] = counts
    return whole


def _binned(counts: np.ndarray) -> np.ndarray:
    """The sums of as many runs of a histogram."""
    return np.array([part.sum() for part in np.array_split(counts, VALUES)], np.float64)


def with_labels(counts: np.ndarray) -> np.ndarray:
    """Users with a score and a label: two in five are negative, with the scores the other way."""
    scores = counts.reshape(-1, 2).sum(axis=1)
    negative = scores[::-1] * 2 // 5
    return np.concatenate([negative, scores - scores * 2 // 5])


def compare(
    protocol: Any,
    counts: np.ndarray,
    ratio: bool = False,
    inputs: np.ndarray | None = None,
    trials: int = TRIALS,
) -> Cell:
    """What a protocol predicts for users, and what is measured, a second time if they differ.

    Args:
      protocol: the spec.
      counts: the users.
      ratio: whether it estimates a ratio.
      inputs: what the values stand for; None for themselves.
      trials: how many runs.
    """
    users = jaxdp.Population.from_histogram(counts, inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of noise
        predicted = float(np.mean(protocol.variance(counts, inputs)))
        noisy = ratio and predicted**0.5 > NOISY

        def cell(trials: int, again: bool) -> Cell:
            name = f"{protocol} {counts.tolist()}" + again * " again"
            key = jax.random.key(zlib.crc32(name.encode()))
            measured = jaxdp.simulate(protocol, users, key, num_trials=trials).error()
            spread = measured.stderr / measured
            return Cell(predicted / measured, spread, protocol.variance_kind, noisy, again)

        first = cell(trials, again=False)
        return first if first.as_claimed else cell(AGAIN, again=True)


def _rows(
    makers: Mapping[str, Callable[[float, int], Any]],
    users: Mapping[str, np.ndarray],
    ratio: bool = False,
    inputs: np.ndarray | None = None,
) -> Rows:
    rows = []
    for name, make in makers.items():
        cells = []
        for epsilon in EPSILONS:
            try:
                protocol = make(epsilon, USERS)
            except ValueError:
                continue
            cells += [compare(protocol, counts, ratio, inputs) for counts in users.values()]
        sure = [cell for cell in cells if not cell.noisy]
        ratios = [cell.ratio for cell in sure] or [np.nan]
        rows.append(
            {
                "protocol": name,
                "kind": "/".join(sorted({cell.kind for cell in cells})),
                "cells": len(cells),
                "least": f"{min(ratios):.3f}",
                "median": f"{np.median(ratios):.3f}",
                "largest": f"{max(ratios):.3f}",
                "standard error": f"{np.median([cell.spread for cell in cells]):.3f}",
                "measured again": sum(cell.again for cell in cells),
                "not as claimed": sum(not cell.as_claimed for cell in cells),
                "noisy": len(cells) - len(sure),
            }
        )
        print(rows[-1], flush=True)
    return rows


def queries() -> Rows:
    """Prefix queries of 16 values: predicted over measured mean squared error."""
    workload = workloads.prefix(VALUES)
    makers = linear.candidates(workload, DELTA)
    # With the alpha for so many users it is the exact one, for the larger epsilon.
    makers["FactorizedQueries, approximate"] = lambda e, _: linear.FactorizedQueries(
        workload, e, alpha=0.1
    )
    return _rows(makers, data_sets())


def curators() -> Rows:
    """Mechanisms of the central model: prefix queries of 16 values, pairs of 4 binary features."""
    workload, bits = workloads.prefix(VALUES), np.arange(VALUES)[:, None] >> np.arange(4) & 1
    queries: dict[str, Callable[[float, int], Any]] = {
        f"FactorizationMechanism, {norm}": lambda e, _, norm=norm: central.FactorizationMechanism(
            workload, e, DELTA, norm=norm
        )
        for norm in ("gamma2", "gamma_f")
    }
    marginals: dict[str, Callable[[float, int], Any]] = {
        "Marginals": lambda e, _: central.Marginals(4, 2, e, DELTA, method="none")
    }
    users = data_sets()
    return _rows(queries, users) + _rows(marginals, users, inputs=bits.astype(np.float32))


def pairs() -> Rows:
    """The mean difference of 16 values (`GiniMeanDifference`): predicted over measured."""
    kernel = pairwise.GiniMeanDifference()
    return _rows(pairwise.candidates(kernel, VALUES, rounds=3), data_sets())


def areas() -> Rows:
    """The area under the ROC curve of 8 scores with private labels: predicted over measured."""
    labelled = {name: with_labels(counts) for name, counts in data_sets().items()}
    return _rows(_few(pairwise.AUC(), (2, VALUES // 2)), labelled, ratio=True)


def entropies() -> Rows:
    """The collision entropy of 16 values, minus a logarithm: predicted over measured."""
    return _rows(_few(pairwise.CollisionEntropy(), VALUES), data_sets(), ratio=True)


def _few(
    kernel: pairwise.Kernel, num_values: int | tuple[int, ...]
) -> dict[str, Callable[[float, int], Any]]:
    """What competes for a statistic by plug-in, but for most of the oracles."""
    makers = pairwise.candidates(kernel, num_values, rounds=3)
    kept = [name for name in makers if not name.startswith("Oracle")]
    return {name: makers[name] for name in kept} | {
        name: makers[name] for name in (f"OracleStatistic, {oracle}" for oracle in FEW)
    }


SECTIONS: dict[str, Callable[[], Rows]] = {
    "queries": queries,
    "curators": curators,
    "pairs": pairs,
    "areas": areas,
    "entropies": entropies,
}

if __name__ == "__main__":
    choose_sections(__doc__, SECTIONS, FOLDER)

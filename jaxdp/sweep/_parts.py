"""Simulations of many trials, in parts.

A trial has a key of its own, so any process may run any range of them. The rows of the whole cell
are made of the estimates of all its trials, in their order, by what makes them for a cell that is
not split: so its file is the same, byte for byte, whoever computed which part.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from .._checked import Checked
from ..engine import Trials
from ._cell import Simulation, trials_of
from ._fingerprint import Label, Row


def parts_of(whole: Simulation, most: int) -> list["Part"]:
    """The simulation in parts of as many trials each, at most so many; none for one part."""
    if whole.num_trials <= most:
        return []
    number = -(-whole.num_trials // -(-whole.num_trials // most))
    starts = range(0, whole.num_trials, number)
    return [Part(whole=whole, first=first, number=number) for first in starts]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part(Checked):
    """A cell with the estimates of some trials of a simulation.

    Args:
      whole: the simulation.
      first: the number of the first trial.
      number: of trials that are run, the same for all parts, so that they share their programs;
        those beyond the simulation's last one are dropped.
    """

    whole: Simulation
    first: int
    number: int

    @property
    def labels(self) -> tuple[tuple[str, Label], ...]:
        """Those of the simulation, and which trials these are."""
        last = min(self.first + self.number, self.whole.num_trials) - 1
        return (*self.whole.labels, ("trials", f"{self.first}-{last}"))

    def rows(self) -> list[Row]:
        """What `joined` makes the trials of: a row for each number of the estimate."""
        trials = trials_of(self.whole, self.first, self.number)
        left = min(self.number, self.whole.num_trials - self.first)
        estimates, truth = trials.estimates[:left], trials.truth
        shape = estimates.shape[1:]
        if truth is None:
            truth = np.empty((0, *shape))
        truth_of_all = truth.ndim < estimates.ndim
        if truth_of_all:
            truth = truth[None]
        flat, truth = (x.reshape(len(x), math.prod(shape)) for x in (estimates, truth[:left]))
        return [
            {
                "entry_label": None if trials.labels is None else str(trials.labels[entry]),
                "shape": np.asarray(shape, np.int64),
                "method": trials.method,
                "num_users": trials.num_users,
                "truth_of_all": truth_of_all,
                "truth": truth[:, entry],
                "estimates": flat[:, entry],
            }
            for entry in range(flat.shape[1])
        ]


def joined(parts: Sequence[list[Row]]) -> Trials:
    """The trials of consecutive parts, from their rows."""
    rows = parts[0]
    shape = tuple(rows[0]["shape"])

    def column(part: list[Row], name: str) -> np.ndarray:
        return np.stack([np.asarray(row[name], np.float64) for row in part], axis=-1)

    # Laid out as the engine does it: sums of another layout may differ in the last digit.
    estimates = np.concatenate([column(part, "estimates") for part in parts])
    of_all = rows[0]["truth_of_all"]
    truth = np.concatenate([column(part, "truth") for part in (parts[:1] if of_all else parts)])
    truth = truth.reshape(-1, *shape)
    labels = tuple(row["entry_label"] for row in rows)
    return Trials(
        estimates.reshape(-1, *shape),
        truth[0] if of_all else truth if len(truth) else None,
        rows[0]["method"],
        rows[0]["num_users"],
        None if labels[0] is None else labels,
    )

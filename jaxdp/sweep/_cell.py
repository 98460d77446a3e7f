"""Cells that simulate a protocol."""

import dataclasses
import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np

from .._checked import Checked
from .._form import FrozenArray, spec_to_json
from .._spec import check_choice, check_int
from ..engine import Trials, simulate
from ..population import Population, labels_and_counts
from ._fingerprint import Cell, Label, Row

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclasses.dataclass(frozen=True, slots=True)
class HistogramData(Checked):
    """Users given by a histogram; the JSON-able twin of `Population.from_histogram`.

    Args:
      counts: whole numbers of any shape, bins being numbered row by row; or by label, as a dict, a
        Counter or `value_counts()`.
      values: what a user's value is in each bin, float32 or int32; None for the bins themselves.
      labels: texts or numbers, as in `Population.from_histogram`. Rows of estimates of the bins
        have them.

    Raises:
      ValueError, TypeError: as `Population.from_histogram`; or a label is no text and no number.

    Example:
      >>> from jaxdp.sweep import HistogramData
      >>> HistogramData([[30, 10], [20, 40]]).population().num_users
      100
    """

    counts: Any  # a FrozenArray, once constructed
    values: Any = None
    labels: Any = None

    def validate(self) -> None:
        labels, counts = labels_and_counts(self.counts, self.labels)
        if wrong := [x for x in labels or () if not isinstance(x, Label)]:
            raise TypeError(
                f"labels must be texts or numbers, to be stored, got {wrong[0]!r}; give others as "
                "texts."
            )
        self.settle(counts=FrozenArray(counts), labels=labels)
        if self.values is not None:
            self.settle(values=FrozenArray(self.values))
            self.population()  # checks them; not without need, since it starts jax's backend

    def population(self) -> Population:
        """The users as a population."""
        values = None if self.values is None else self.values.values
        return Population.from_histogram(self.counts.values, values, labels=self.labels)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Simulation(Checked):
    """A cell that simulates a protocol on given users, and measures its error.

    The random key is derived from the seed and the labels, so a cell has the same result in every
    grid that contains it, and cells of different labels are independent.

    Args:
      protocol: the spec of a randomizer or protocol.
      data: the users.
      num_trials: how many trials, at least 1.
      seed: an integer in [0, 2**32).
      method: as in `jaxdp.simulate`.
      rounds: as in `jaxdp.simulate`.
      target: what the truth itself approximates, such as the statistic before quantisation; None
        if there is no such thing.
      bound: a function at the top level of a module, of the protocol and the number of users, that
        gives a proven upper bound on the root mean squared error; None if there is none.
      labels: the cell's coordinates in the grid, a mapping of names to strings or numbers.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind, or the protocol has no JSON form.

    Example:
      >>> import jaxdp
      >>> from jaxdp.sweep import HistogramData, Simulation
      >>> cell = Simulation(
      ...     protocol=jaxdp.randomizers.KRR(num_values=3, epsilon=1.0),
      ...     data=HistogramData([600, 300, 100]),
      ...     num_trials=100,
      ...     labels={"epsilon": 1.0},
      ... )
      >>> [row["truth"] for row in cell.rows()]
      [600.0, 300.0, 100.0]
    """

    protocol: Any
    data: HistogramData
    num_trials: int
    seed: int = 0
    method: Literal["auto", "per_user", "tally"] = "auto"
    rounds: Literal[13, 20] = 20
    target: float | None = None
    bound: Callable[[Any, int], float] | None = None
    labels: Any = ()

    def validate(self) -> None:
        if not isinstance(self.data, HistogramData):
            raise TypeError(f"data must be a jaxdp.sweep.HistogramData, got {self.data!r}.")
        check_int("num_trials", self.num_trials, low=1)
        check_int("seed", self.seed, low=0, high=2**32 - 1)
        check_choice("method", self.method, ("auto", "per_user", "tally"))
        self.settle(rounds=int(check_choice("rounds", self.rounds, (13, 20))))
        self.settle(labels=_check_labels(self.labels))
        spec_to_json(self)

    @property
    def key(self) -> jax.Array:
        """The key of the trials."""
        # Not `hash`, which differs from process to process.
        place = zlib.crc32(json.dumps(self.labels).encode())
        return jax.random.fold_in(jax.random.key(self.seed), place)

    def rows(self) -> list[Row]:
        """Runs the trials, over all devices of this process: a row for each number of the estimate.

        Returns:
          Rows with the labels, `entry` (the index in the flattened estimate) and, where entries are
          of bins that have labels, `entry_label`, as a text; `target`, `truth`,
          `mean`, `bias`, `bias_stderr`, `mse`, `mse_stderr`, `rmse`, `predicted_rmse` (from
          `protocol.variance`), `bound_rmse`, quantiles `q05` to `q95`, `num_trials`, `num_users`,
          `method`, and `estimates`, one of every trial.
        """
        rows = rows_of(self, trials_of(self, 0, self.num_trials))
        return [row | {"estimates": row["estimates"].tolist()} for row in rows]

    def parts(self, most: int) -> Sequence[Cell]:
        """Cells of as many trials each, at most so many; none for one part.

        A trial has a key of its own, so any process may run any range of them.
        """
        if self.num_trials <= most:
            return []
        number = -(-self.num_trials // -(-self.num_trials // most))
        starts = range(0, self.num_trials, number)
        return [Part(whole=self, first=first, number=number) for first in starts]

    def joined(self, parts: Sequence[list[Row]]) -> list[Row]:
        """The rows, from those of all `parts`, in their order; the same as `rows`, bit for bit.

        They are made of the estimates of all trials by what makes them for a cell that is whole.
        """
        return rows_of(self, joined(parts))


def trials_of(cell: Simulation, first: int, number: int) -> Trials:
    """Some consecutive trials of a cell, over all devices of this process."""
    return simulate(
        cell.protocol,
        cell.data.population(),
        cell.key,
        num_trials=number,
        first_trial=first,
        method=cell.method,
        mesh="local",
        rounds=cell.rounds,
    )


def rows_of(cell: Simulation, trials: Trials) -> list[Row]:
    """The rows of a cell, from all its trials; `estimates` are arrays."""
    columns = {
        "truth": trials.truth,
        "mean": trials.mean,
        "bias": trials.bias,
        "bias_stderr": trials.bias_stderr,
        "mse": trials.mse,
        "mse_stderr": trials.mse_stderr,
        "rmse": trials.rmse,
        "predicted_rmse": np.sqrt(
            cell.protocol.variance(cell.data.counts.values, cell.data.population().inputs)
        ),
    }
    quantiles = zip(QUANTILES, trials.quantiles(QUANTILES), strict=True)
    columns |= {f"q{100 * level:02.0f}": value for level, value in quantiles}
    columns = {name: np.ravel(np.asarray(value)) for name, value in columns.items()}
    estimates = trials.estimates.reshape(trials.num_trials, -1)
    same = {
        "target": cell.target,
        "bound_rmse": cell.bound and float(cell.bound(cell.protocol, trials.num_users)),
        "num_trials": trials.num_trials,
        "num_users": trials.num_users,
        "method": trials.method,
    }
    return [
        dict(cell.labels)
        | {"entry": entry}
        | ({} if trials.labels is None else {"entry_label": str(trials.labels[entry])})
        | same
        | {name: float(value[entry]) for name, value in columns.items()}
        | {"estimates": estimates[:, entry]}
        for entry in range(estimates.shape[1])
    ]


def _check_labels(labels: object) -> tuple[tuple[str, Label], ...]:
    pairs = tuple((dict(labels) if isinstance(labels, Mapping | tuple) else {}).items())
    if (labels and not pairs) or not all(isinstance(v, Label) for _, v in pairs):
        raise TypeError(f"labels must be a mapping of names to strings or numbers, got {labels!r}.")
    return pairs


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
        """The labels of the simulation, and which trials these are."""
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

"""Protocols that answer a question, and how their errors become one number."""

import dataclasses
import functools
import math
from typing import Any, Literal

from .._prediction import Prediction
from .._ranking import kind_cell
from ..engine import Trials
from ..reports import ReportCost, report_bytes, report_cost
from ._question import Helper, Maker

Loss = Literal["rmse", "worst", "max"]
Trust = Literal["local", "shuffler", Helper]

HEADER = (
    *("protocol", "users", "epsilon", "error", "kind", "trust", "rounds", "bytes"),
    *("client", "server"),
)
"""What the cells of an option are; the last two are what a report costs, see `report_cost`."""


@dataclasses.dataclass(frozen=True)
class Goal:
    """Combines the errors of a question's answers into one number.

    Attributes:
      loss: "rmse" for the root of the mean squared error over the answers; "worst" for that of the
        answer with the largest; "max" for the expectation of the largest absolute error.
      factor: what it is multiplied by.
      units: of the error, in words; empty for those of the answers.
    """

    loss: Loss
    factor: float
    units: str = ""

    def of(self, errors: tuple[Prediction, Prediction]) -> Prediction:
        """The error from mean squared errors (largest, mean); a root, times the factor."""
        square = errors[1] if self.loss == "rmse" else errors[0]
        root = math.sqrt(square)
        spread = square.stderr / (2 * root) if root else 0.0
        return Prediction(root, square.kind, spread).scaled(self.factor)

    def of_trials(self, trials: Trials) -> Prediction:
        """The simulated error."""
        if self.loss == "max":
            largest = trials.max_error
            spread = float(largest.std(ddof=1)) / math.sqrt(len(largest))
            return Prediction(float(largest.mean()), "simulated", spread).scaled(self.factor)
        return self.of((trials.error("max"), trials.error("mean")))


@dataclasses.dataclass(frozen=True)
class Option:
    """A protocol that answers the question.

    Attributes:
      name: of the protocol, and of what is done to its estimate.
      protocol: its spec.
      num_users: how many take part.
      epsilon: the privacy parameter.
      error: in the units that were asked for; says whether it is exact, a bound or simulated.
      rounds: how often a user is asked.
      trust: whom users trust: nobody ("local"), a "shuffler", a "secure sum" of their vectors, or
        a curator ("central").
      make: the protocol at other numbers: a function of (epsilon, num_users).
      num_trials: in the simulation that the error is of; None where it has a formula.
      noisy: whether the error is by the delta method, and so large that it may be off by more than
        a tenth.
      timed: whether the cost of a report is measured on this machine, too.
    """

    name: str
    protocol: Any
    num_users: int
    epsilon: float
    error: Prediction
    rounds: int
    trust: Trust
    make: Maker = dataclasses.field(repr=False, compare=False)
    num_trials: int | None = None
    noisy: bool = False
    timed: bool = False

    @property
    def cells(self) -> tuple[str, ...]:
        """The option as a row of a table under `HEADER`."""
        size = self.report_bytes
        return (
            self.name,
            f"{self.num_users:,}",
            f"{self.epsilon:.4g}",
            f"{self.error:.4g}",
            kind_cell(self.error, root=True, noisy=self.noisy),
            self.trust,
            str(self.rounds),
            "-" if size is None else str(size),
            *(self.cost.cells if self.cost else ("-", "-")),
        )

    @functools.cached_property
    def cost(self) -> ReportCost | None:
        """What a report costs a client and a server, also in seconds if `timed`.

        None for a curator, to whom values go as they are.
        """
        if self.trust == "central":
            return None
        spec = estimator(self.protocol, self.trust)
        return report_cost(spec, self.num_users, timed=self.timed)

    @functools.cached_property
    def report_bytes(self) -> int | None:
        """The length of a user's report; None where no wire format is known, or of many rounds."""
        if self.rounds != 1 or self.trust == "central":
            return None
        return report_bytes(estimator(self.protocol, self.trust))


def estimator(protocol: Any, trust: Trust) -> Any:
    """The protocol that estimates: behind a shuffler the one whose reports are shuffled."""
    return protocol.protocol if trust == "shuffler" else protocol

"""The subcommand `jaxdp plan`."""

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ._commands import Mistake, OptionalInteger, numbers, option

if TYPE_CHECKING:
    from ..design import Question

OptionalNumber = Annotated[float | None, numbers(float, "X")]


@dataclasses.dataclass(frozen=True)
class Plan:
    """Choose a protocol: give two of --users, --epsilon and --error, and get the third.

    Errors are absolute root mean squared errors: for a histogram those of the share of a value, for
    quantiles those of a cumulative share, for a mean in its own units.

    Example: jaxdp plan histogram --values 1000 --users 50000 --error 0.01
    """

    question: Annotated[
        tyro.conf.Positional[Literal["histogram", "quantiles", "mean"]],
        option("What is asked.", "required"),
    ]
    values: Annotated[
        OptionalInteger, option("Values a user may hold.", "for histogram and quantiles")
    ] = None
    low: Annotated[OptionalNumber, option("The least number.", "for mean")] = None
    high: Annotated[OptionalNumber, option("The largest number.", "for mean")] = None
    users: Annotated[OptionalInteger, option("How many take part.", "or it is asked for")] = None
    epsilon: Annotated[OptionalNumber, option("The privacy parameter.", "or it is asked for")] = (
        None
    )
    error: Annotated[OptionalNumber, option("The error.", "or it is asked for")] = None
    loss: Annotated[
        Literal["rmse", "worst", "max"],
        option("Of all answers, of the worst one, or the largest error of any.", "default: rmse"),
    ] = "rmse"
    data: Annotated[
        Literal["worst", "uniform", "zipf"], option("What users hold.", "default: worst")
    ] = "worst"
    confidence: Annotated[
        OptionalNumber, option("Makes the error the half-width of an interval.", "default: none")
    ] = None
    relative: Annotated[
        tyro.conf.FlagCreatePairsOff[bool],
        option("Makes errors relative to an average answer.", "default: absolute"),
    ] = False
    json: Annotated[
        tyro.conf.FlagCreatePairsOff[bool],
        option("Print the numbers and the spec to deploy as JSON.", "default: words"),
    ] = False

    def __call__(self) -> int:
        """Prints the plan."""
        from ..design import plan

        try:
            found = plan(
                self._asked(),
                users=self.users,
                epsilon=self.epsilon,
                error=self.error,
                loss=self.loss,
                relative=self.relative,
                confidence=self.confidence,
                data=self.data,
            )
        except ValueError as error:
            raise Mistake(str(error)) from None
        print(json.dumps(found.to_json(), indent=2) if self.json else found.in_words())
        return 0

    def _asked(self) -> "Question":
        from ..design import Histogram, Mean, Quantiles

        if self.question == "mean":
            if self.low is None or self.high is None:
                raise Mistake("a mean needs --low and --high, the ends of its interval")
            return Mean(self.low, self.high)
        if self.values is None:
            raise Mistake(f"a question of {self.question} needs --values, how many there are")
        return (Histogram if self.question == "histogram" else Quantiles)(self.values)

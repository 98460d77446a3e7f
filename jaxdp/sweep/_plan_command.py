"""The subcommand `jaxdp plan`."""

import dataclasses
import json
import pathlib
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ._words import Mistake, OptionalInteger, numbers, option

if TYPE_CHECKING:
    from ..design import Question
    from ..design._option import Trust

OptionalNumber = Annotated[float | None, numbers(float, "X")]
Trusted = Literal["local", "shuffler", "secure-sum", "central"]
_TRUST: "dict[Trusted, Trust]" = {
    "local": "local",
    "shuffler": "shuffler",
    "secure-sum": "secure sum",
    "central": "central",
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """Choose a protocol: give two of --users, --epsilon and --error, and get the third.

    Errors are absolute root mean squared errors: for a histogram those of the share of a value, for
    quantiles those of a cumulative share, for marginals those of the share of the users who have
    all features of a set, for a mean in its own units. For the top values the error is the
    probability that the set is wrong, and --data must be given.

    With --html the answer is written as a page, too: errors against epsilon and users, what a
    report reveals, a simulated result, a privacy statement, and what to deploy.

    Data of your own are a column of a file, whose rows are people. They serve the plan alone, which
    is not private: do not show it, or its page, to people who may not see them.

    Example: jaxdp plan histogram --values 1000 --users 50000 --error 0.01 --html plan.html

    Example: jaxdp plan histogram --data people.csv --column city --epsilon 1 --error 0.02
    """

    question: Annotated[
        tyro.conf.Positional[Literal["histogram", "quantiles", "mean", "top", "marginals"]],
        option("What is asked.", "required"),
    ]
    values: Annotated[
        OptionalInteger, option("Values a user may hold.", "for histogram, quantiles, top")
    ] = None
    top: Annotated[OptionalInteger, option("How many of the values.", "for top")] = None
    features: Annotated[OptionalInteger, option("Binary features of a user.", "for marginals")] = (
        None
    )
    order: Annotated[OptionalInteger, option("The most features in a set.", "default: 2")] = None
    low: Annotated[OptionalNumber, option("The least number.", "for mean")] = None
    high: Annotated[OptionalNumber, option("The largest number.", "for mean")] = None
    users: Annotated[OptionalInteger, option("How many take part.", "or it is asked for")] = None
    epsilon: Annotated[OptionalNumber, option("The privacy parameter.", "or it is asked for")] = (
        None
    )
    error: Annotated[OptionalNumber, option("The error.", "or it is asked for")] = None
    groups: Annotated[
        OptionalNumber,
        option("Compare two groups; the first has this share.", "in (0, 1); default: none"),
    ] = None
    changed: Annotated[
        OptionalNumber,
        option(
            "Plan for the change between two collections, of users of whom this share change.",
            "in (0, 1]; default: none",
        ),
    ] = None
    response: Annotated[
        float,
        numbers(float, "X"),
        option("The share of the people asked who report.", "default: 1"),
    ] = 1.0
    design_effect: Annotated[
        float,
        numbers(float, "X"),
        option("By how much survey weights make variances grow.", "default: 1"),
    ] = 1.0
    reports: Annotated[
        int,
        numbers(int, "N"),
        option("Reports of a user that epsilon is of, over time.", "default: 1"),
    ] = 1
    delta: Annotated[
        OptionalNumber, option("Lets protocols compete that are private but for it.", "default: 0")
    ] = None
    trust: Annotated[
        tuple[Trusted, ...],
        option(
            "Whom users trust; those of several compete. All but local need --delta.",
            "default: local",
            metavar="{local,shuffler,secure-sum,central} [...]",
        ),
    ] = ("local",)
    loss: Annotated[
        Literal["rmse", "worst", "max"] | None,
        option(
            "Of all answers, of the worst one, or the largest error of any.",
            "default: rmse",
            metavar="{rmse,worst,max}",
        ),
    ] = None
    data: Annotated[
        str,
        option(
            "What users hold: data of your own are a .csv or .parquet file.",
            "default: worst",
            metavar="{worst,uniform,zipf,FILE}",
        ),
    ] = "worst"
    column: Annotated[
        str, option("The column of the file with the values.", "with a FILE", metavar="NAME")
    ] = ""
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

    html: Annotated[
        str, option("Write the plan as a page, too.", "default: none", metavar="FILE")
    ] = ""
    seconds: Annotated[
        float,
        numbers(float, "X"),
        option("How long the curves of the page may take.", "default: 3; simulated ones: a minute"),
    ] = 3.0

    def __call__(self) -> int:
        """Prints the plan."""
        from ..design import plan

        labels, data = self._held()
        try:
            found = plan(
                self._asked(labels),
                users=self.users,
                epsilon=self.epsilon,
                error=self.error,
                loss=self.loss,
                relative=self.relative,
                confidence=self.confidence,
                data=data,
                delta=self.delta,
                trust=[_TRUST[name] for name in self.trust],
                num_reports=self.reports,
                response=self.response,
                design_effect=self.design_effect,
            )
        except ValueError as error:
            raise Mistake(str(error)) from None
        print(json.dumps(found.to_json(), indent=2) if self.json else found.in_words())
        if self.html:
            try:
                found.to_html(self.html, labels=labels, seconds=self.seconds)
            except ValueError as error:
                raise Mistake(str(error)) from None
            except OSError as error:
                raise Mistake(
                    f"--html must be a file that can be written, got {self.html!r}: "
                    f"{error.strerror}"
                ) from None
            print(f"The plan as a page: {self.html}", file=sys.stderr)
        return 0

    def _held(self) -> "tuple[tuple[str, ...] | None, Any]":
        """The labels of the values, if they have any, and the data."""
        path = pathlib.Path(self.data)
        if bool(path.suffix) != bool(self.column):
            raise Mistake("--data FILE and --column go together: a file, and where its values are")
        if not self.column:
            return None, self.data
        values = _column(path, self.column)
        if self.question == "mean":
            return None, values.to_numpy(zero_copy_only=False)
        from ..population import labels_and_codes

        try:
            found, codes = labels_and_codes(
                values, None if self.values is None else range(self.values)
            )
        except (ValueError, TypeError) as error:
            hint = "" if self.values is None else " (--values N is for the values 0 to N - 1)"
            raise Mistake(f"--column {self.column}: {error}{hint}") from None
        import numpy as np

        return tuple(map(str, found)), np.bincount(codes, minlength=len(found))

    def _asked(self, labels: tuple[str, ...] | None) -> "Question":
        from ..design import Change, Comparison

        if self.groups is not None and self.changed is not None:
            raise Mistake("--groups and --changed are two questions: ask one of them")
        question = self._of_all(labels)
        if self.changed is not None:
            return Change(question, self.changed)
        return question if self.groups is None else Comparison(question, self.groups)

    def _of_all(self, labels: tuple[str, ...] | None) -> "Question":
        """The question to all users, or to each group."""
        from ..design import Histogram, Marginals, Mean, Quantiles, TopK

        if self.question == "mean":
            if self.low is None or self.high is None:
                raise Mistake("a mean needs --low and --high, the ends of its interval")
            return Mean(self.low, self.high)
        if self.question == "marginals":
            if self.features is None:
                raise Mistake("marginals need --features, how many there are")
            return Marginals(self.features, self.order or min(2, self.features))
        values = self.values if labels is None else len(labels)
        if values is None:
            raise Mistake(f"a question of {self.question} needs --values, how many there are")
        if self.question == "top":
            if self.top is None:
                raise Mistake("a question of top needs --top, how many of the values")
            return TopK(values, self.top)
        return (Histogram if self.question == "histogram" else Quantiles)(values)


def _column(path: pathlib.Path, name: str) -> Any:
    """A column of a file, an array of Arrow."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        if path.suffix == ".parquet":
            names = parquet.read_schema(path).names
            table = parquet.read_table(path, columns=[name]) if name in names else None
        elif path.suffix == ".csv":
            table = csv.read_csv(path)
            names = table.column_names
        else:
            raise Mistake(f"--data must be a .csv or .parquet file, got {str(path)!r}")
    except (OSError, pa.ArrowInvalid) as error:
        reason = str(error).splitlines()[0]
        raise Mistake(f"--data must be a file that can be read: {reason}") from None
    if table is None or name not in names:
        raise Mistake(f"--column must be one of {', '.join(names)}, got {name!r}")
    return table.column(name).combine_chunks()

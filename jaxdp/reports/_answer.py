"""An estimate with what it may be off, as a table, a figure, a data frame."""

import dataclasses
import math
import os
import pathlib
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import figures
from .._install import install
from .._spec import check_real
from ..engine import Trials

if TYPE_CHECKING:  # extras
    import matplotlib.axes
    import pandas

_SHOWN = 20  # rows of a table as text
_NAMED = 40  # entries that have a line and a name in a figure


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    """Values estimated from reports, with their standard errors.

    Intervals are those of a normal error, which sums over many users have. They are centred at the
    unbiased estimate, and may reach below 0 or above the number of users: such an end says that
    little is known.

    Attributes:
      values: float64[...], the estimate: numbers of users for frequency oracles, means for numbers
        and vectors, answers for protocols.
      standard_errors: float64[...]; None where they are not known.
      labels: texts that say what the entries are; None for their indices.
      num_users: how many reported.
      epsilon: the privacy parameter that each of them has; None where it is not known.
      confidence: of the intervals.
      purpose: what the reports were collected for.

    Example:
      >>> import numpy as np
      >>> from jaxdp.reports import Answer
      >>> print(Answer(np.array([60.0, 40.0]), np.array([5.0, 5.0]), ("no", "yes"), 100, 1.0))
      100 users, epsilon = 1, confidence 95 %
           value  standard error   low  high
      no    60.0             5.0  50.2  69.8
      yes   40.0             5.0  30.2  49.8
    """

    values: np.ndarray
    standard_errors: np.ndarray | None
    labels: tuple[Any, ...] | None
    num_users: int
    epsilon: float | None
    confidence: float = 0.95
    purpose: str = ""

    def __post_init__(self) -> None:
        check_real("confidence", self.confidence, low=0.0, high=1.0)

    @classmethod
    def from_trials(
        cls, trials: Trials, confidence: float = 0.95, epsilon: float | None = None
    ) -> "Answer":
        """The answer of one run, with its errors from many simulated ones.

        Args:
          trials: of `jaxdp.simulate`. Values are the mean of their estimates, standard errors the
            standard deviations of one estimate.
          confidence: of the intervals.
          epsilon: of the protocol that was simulated.
        """
        errors = np.sqrt(trials.variance)
        return cls(trials.mean, errors, trials.labels, trials.num_users, epsilon, confidence)

    @property
    def intervals(self) -> np.ndarray:
        """float64[..., 2]: each entry is inside its own with probability `confidence`.

        Raises:
          ValueError: standard errors are not known.
        """
        return self._around((1 + self.confidence) / 2)

    @property
    def simultaneous_intervals(self) -> np.ndarray:
        """float64[..., 2]: all entries are inside theirs with probability `confidence`.

        By Bonferroni's inequality.

        Raises:
          ValueError: standard errors are not known.
        """
        return self._around(1 - (1 - self.confidence) / (2 * max(self.values.size, 1)))

    def _around(self, level: float) -> np.ndarray:
        if self.standard_errors is None:
            raise ValueError(
                "standard errors of this protocol's estimate are not known from its reports; ask "
                "its `worst_case_variance(num_users)`, or simulate it on data like the estimate."
            )
        half = statistics.NormalDist().inv_cdf(level) * self.standard_errors
        return np.stack([self.values - half, self.values + half], axis=-1)

    def _columns(self) -> dict[str, np.ndarray]:
        columns = {"value": self.values.ravel()}
        if self.standard_errors is not None:
            ends = self.intervals.reshape(-1, 2)
            columns |= {"standard error": self.standard_errors.ravel()}
            columns |= {"low": ends[:, 0], "high": ends[:, 1]}
        return columns

    def _names(self) -> list[str]:
        if self.labels is not None:
            return list(map(str, self.labels))
        indices = np.ndindex(self.values.shape)
        return [", ".join(map(str, index)) for index in indices]

    def _shown(self, number: float) -> str:
        """To two digits of the least standard error."""
        known = self.standard_errors
        if known is None or not np.any(known > 0) or abs(number) >= 1e15:
            return f"{number:.6g}"
        decimals = 1 - math.floor(math.log10(np.min(known[known > 0])))
        return f"{number:,.{min(max(decimals, 0), 15)}f}"

    def __str__(self) -> str:
        head = f"{self.num_users:,} users"
        if self.epsilon is not None:
            head += f", epsilon = {self.epsilon:.4g}"
        if self.standard_errors is not None:
            head += f", confidence {100 * self.confidence:.6g} %"
        if self.purpose:
            head = f"{self.purpose}\n{head}"
        number = self.values.size
        table = self.table(_SHOWN if number > _SHOWN + 1 else number)
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        rows = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in table
        ]
        if number > len(rows) - 1:
            rows.append(f"... ({number} rows)")
        return "\n".join([head, *rows])

    def table(self, most: int | None = None) -> list[tuple[str, ...]]:
        """The answer as texts: a row of headings, and one for each entry, in the digits that count.

        Args:
          most: how many entries; None for all.
        """
        columns = self._columns()
        names = self._names()[:most]
        parts = [[name, *map(self._shown, part[:most])] for name, part in columns.items()]
        return list(zip(["", *names], *parts, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and texts."""
        return {
            "purpose": self.purpose,
            "num_users": self.num_users,
            "epsilon": self.epsilon,
            "confidence": self.confidence,
            "labels": None if self.labels is None else list(self.labels),
            "values": self.values.tolist(),
            "standard_errors": (
                None if self.standard_errors is None else self.standard_errors.tolist()
            ),
        }

    def to_pandas(self) -> "pandas.DataFrame":
        """A data frame: a row for each entry, columns value, standard error, low and high.

        Raises:
          ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError(
                f"to_pandas makes a data frame of pandas: {install('pandas')}, or use to_dict()."
            ) from error
        index = self.labels if self.labels is not None else self._names()
        return pandas.DataFrame(self._columns(), index=pandas.Index(list(index)))

    def plot(self, axes: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
        """Draws the values with their intervals; of up to 40 entries, each has a line and its name.

        Args:
          axes: of matplotlib; None for new ones.

        Returns:
          The axes, to be titled or saved: `answer.plot().figure.savefig("answer.png")`.

        Raises:
          ImportError: matplotlib is not installed.
        """
        if axes is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise ImportError(
                    f"plot draws with matplotlib: {install('sweep')}, or use to_dict()."
                ) from error
            with figures.style():
                few = self.values.size <= _NAMED
                height = 0.9 + 0.22 * self.values.size if few else 3.2
                drawn = plt.subplots(figsize=(0.75 * figures.PAGE, height))[1]
                return self.plot(drawn)
        values, few = self.values.ravel(), self.values.size <= _NAMED
        place = np.arange(values.size)
        half = None
        if self.standard_errors is not None:
            half = values - self.intervals.reshape(-1, 2)[:, 0]
        if few:
            axes.errorbar(values, place, xerr=half, fmt="o")
            axes.set_yticks(place, self._names())
            axes.set_ylim(values.size - 0.5, -0.5)
            axes.axvline(0.0, color=figures.LIGHT.axis, linewidth=0.8, zorder=0)
            axes.grid(visible=False, axis="y")
            axes.xaxis.set_major_formatter("{x:,.6g}")
        else:
            if half is not None:
                axes.fill_between(place, values - half, values + half, alpha=0.3, linewidth=0)
            axes.plot(place, values, linewidth=1)
            axes.axhline(0.0, color=figures.LIGHT.axis, linewidth=0.8, zorder=0)
            axes.set_xlabel("entry")
        about = f"{self.num_users:,} users"
        if self.epsilon is not None:
            about += f", ε = {self.epsilon:.4g}"
        if half is not None:
            about += f", {100 * self.confidence:.6g} % intervals"
        axes.set_title(f"{self.purpose}\n{about}" if self.purpose else about, fontsize="medium")
        return axes

    def to_html(self, path: "str | os.PathLike | None" = None) -> str:
        """A page: the values with their intervals, as a chart and as a table.

        It is one file that needs no server and no network.

        Args:
          path: the file to write; None to write none.

        Returns:
          The page, text of HTML.

        Raises:
          OSError: the file cannot be written.
        """
        from ._answer_page import answer_page

        page = answer_page(self)
        if path is not None:
            pathlib.Path(path).write_text(page, encoding="utf-8")
        return page

"""Results as a table on the terminal."""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ._fingerprint import Row

if TYPE_CHECKING:
    import pyarrow as pa

# What follows the labels in the table: column of the results, heading.
TITLES = {
    "target": "target",
    "truth": "truth",
    "mean": "mean",
    "bias": "bias ± s.e.",
    "rmse": "RMSE ± s.e.",
    "predicted_rmse": "predicted",
    "deviation": "in s.e.",
    "bound_rmse": "bound",
}


def deviation(row: Row) -> float:
    """How far the measured RMSE is from the predicted one, in standard errors."""
    stderr = rmse_stderr(row)
    return (row["rmse"] - row["predicted_rmse"]) / stderr if stderr else math.nan


def rmse_stderr(row: Row) -> float:
    """Standard error of the measured RMSE of a simulation's row, by the delta method."""
    return row["mse_stderr"] / (2 * row["rmse"]) if row["rmse"] else 0.0


Formats = Mapping[str, Callable[[Row], str]]

SIMULATED: Formats = {
    "bias": lambda row: f"{row['bias']:+.1e} ± {row['bias_stderr']:.1e}",
    "rmse": lambda row: f"{row['rmse']:.3g} ± {rmse_stderr(row):.1g}",
    "deviation": lambda row: f"{deviation(row):+.1f}",
}
"""Columns of a `Simulation`, which alone has an `entry`, that are shown with others."""


def print_results(results: "pa.Table", labels: list[str]) -> None:
    """Prints results as a table: those of simulations with their errors, others as they are.

    Args:
      results: of `collect`.
      labels: the names of the columns that are coordinates of the grid.
    """
    import rich.box
    import rich.console
    import rich.table

    rows = results.to_pylist()
    formats: Formats = SIMULATED if "entry" in rows[0] else {}
    if not formats:
        titles = {n: n for n, v in rows[0].items() if n not in labels and not isinstance(v, list)}
    else:
        titles = {n: t for n, t in TITLES.items() if any(row.get(n, 0) is not None for row in rows)}
        if any(row["entry"] for row in rows):
            if all(row.get("entry_label") is not None for row in rows):
                rows = [row | {"entry": row["entry_label"]} for row in rows]
            labels = [*labels, "entry"]
        same = {name: {row[name] for row in rows} for name in ("num_users", "num_trials", "method")}
        print(
            ", ".join(f"{name} {values.pop()}" for name, values in same.items() if len(values) == 1)
        )
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in [*labels, *titles.values()]:
        table.add_column(heading, justify="right", no_wrap=True)
    # Rows that differ in the last label only belong together; the first says what they share.
    outer = labels[:-1]
    shared = [*outer, "target", *(["truth"] if "entry" not in labels else [])]
    before: Row = {}
    for row in rows:
        if before and [row[name] for name in outer] != [before[name] for name in outer]:
            table.add_section()
            before = {}
        table.add_row(
            *(
                ""
                if name in shared and before and before[name] == row[name]
                else _cell(row, name, formats)
                for name in [*labels, *titles]
            )
        )
        before = row
    # Wider than any terminal: a long line that wraps can be read, numbers cut off cannot.
    rich.console.Console(width=200, highlight=False, markup=False).print(table)
    if "deviation" in titles:
        print("in s.e.: how far the RMSE is from the predicted one, in standard errors")


def _cell(row: Row, name: str, formats: Formats) -> str:
    if name in formats:
        return formats[name](row)
    value: Any = row[name]
    if value is None:
        return ""
    digits = 3 if name in ("predicted_rmse", "bound_rmse") else 6
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)

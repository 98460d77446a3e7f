"""Results as a table on the terminal."""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ._fingerprint import Row

if TYPE_CHECKING:
    import pyarrow as pa

    from ._store import Store

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


# The same of rows of `summarize`.
SUMMARY_TITLES = {
    "entries": "entries",
    "rmse": "RMSE ± s.e.",
    "predicted_rmse": "predicted",
    "deviation": "in s.e.",
    "max_rmse": "largest RMSE",
    "max_error": "largest error",
    "tv": "TV ± s.e.",
}


def deviation(row: Row) -> float:
    """How far the measured RMSE is from the predicted one, in standard errors."""
    stderr = row["rmse_stderr"] if "rmse_stderr" in row else rmse_stderr(row)
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


SUMMARIZED: Formats = {
    "rmse": lambda row: _with_error(row["rmse"], row["rmse_stderr"]),
    "deviation": lambda row: f"{deviation(row):+.1f}",
    "max_rmse": lambda row: f"{row['max_rmse']:.3g}",
    "max_error": lambda row: f"{row['max_error']:.3g}",
    "tv": lambda row: _with_error(row["tv"], row["tv_stderr"]),
}
"""Columns of `summarize` that are shown with others, or in few digits."""


def _with_error(value: float, stderr: float | None) -> str:
    return f"{value:.3g}" + (f" ± {stderr:.1g}" if stderr is not None else "")


def print_results(results: "pa.Table", labels: list[str]) -> None:
    """Prints results as a table: those of simulations with their errors, others as they are.

    Where cells have many entries, and these are not asked for, a row is a cell.

    Args:
      results: of `collect` or `summarize`, with a row at least.
      labels: the names of the columns that are coordinates of the grid.
    """
    import rich.box
    import rich.console
    import rich.table

    rows = results.to_pylist()
    formats: Formats = {}
    if "entry" in rows[0]:
        formats = SIMULATED
    elif "total_mse" in rows[0]:
        formats = SUMMARIZED
    if formats is SUMMARIZED:
        known = {n for n in SUMMARY_TITLES if all(row.get(n, 0) is not None for row in rows)}
        if any(row["rmse_stderr"] is None for row in rows):
            known.discard("deviation")
        titles = {name: title for name, title in SUMMARY_TITLES.items() if name in known}
        _print_shared(rows)
    elif not formats:
        titles = {n: n for n, v in rows[0].items() if n not in labels and not isinstance(v, list)}
    else:
        titles = {n: t for n, t in TITLES.items() if any(row.get(n, 0) is not None for row in rows)}
        if any(row["entry"] for row in rows):
            if all(row.get("entry_label") is not None for row in rows):
                rows = [row | {"entry": row["entry_label"]} for row in rows]
            labels = [*labels, "entry"]
        _print_shared(rows)
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


def _print_shared(rows: list[Row]) -> None:
    """A line of what all rows have alike."""
    same = {name: {row[name] for row in rows} for name in ("num_users", "num_trials", "method")}
    print(", ".join(f"{name} {values.pop()}" for name, values in same.items() if len(values) == 1))


def print_sweep(store: "Store", missing: int) -> None:
    """Prints where the files of a sweep are.

    Args:
      store: its directory.
      missing: how many cells are not finished.
    """
    from ._store import figure_files

    manifest = store.manifest()
    if missing:
        print(f"{missing} of {len(manifest.cells)} cells are missing; run it again to go on")
    files = [file for file in figure_files(manifest.experiment) if store.folder.exists(file)]
    if files:
        print(f"figure   {', '.join(map(store.folder.at, files))}")
    out = str(store.folder)
    print(f"results  {store.folder.at('cells')}/*.parquet, jaxdp.sweep.collect({out!r})")


def _cell(row: Row, name: str, formats: Formats) -> str:
    if name in formats:
        return formats[name](row)
    value: Any = row[name]
    if value is None:
        return ""
    digits = 3 if name in ("predicted_rmse", "bound_rmse") else 6
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)

"""A row for each cell of many estimates: their errors together."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ._fingerprint import Row

if TYPE_CHECKING:
    import pyarrow as pa

# The columns of a row of a `Simulation` that are no labels: one for each entry of the estimate.
ENTRY_COLUMNS = (
    *("entry", "entry_label", "target", "bound_rmse", "num_trials", "num_users", "method"),
    *("truth", "mean", "bias", "bias_stderr", "mse", "mse_stderr", "rmse", "predicted_rmse"),
    *("q05", "q25", "q50", "q75", "q95", "estimates"),
)

MANY = 16
"""Entries of a cell from which on they are shown together."""


def summarize(table: "pa.Table") -> "pa.Table":
    """Makes one row for each cell, with the errors of all entries of its estimate.

    Args:
      table: of `collect`, whole or some of its rows.

    Returns:
      A table with the labels; `entries`, how many there are; `num_users`, `num_trials`, `method`;
      `total_mse`, the sum of the mean squared errors, with `total_mse_stderr` and
      `predicted_total_mse`; `rmse`, the root of their mean, with `rmse_stderr` and
      `predicted_rmse`; `max_rmse`, the largest root mean squared error of an entry; `max_error`,
      the largest error of a trial, in the mean over trials; and where the truth is a histogram
      `tv`, the total variation distance of the estimated shares from the true ones in the mean over
      trials, with `tv_stderr`. Where trials are not stored, what needs them is None. Rows of other
      cells are returned as they are.

    Example:
      >>> import pyarrow as pa
      >>> from jaxdp import randomizers, sweep
      >>> cell = sweep.Simulation(
      ...     protocol=randomizers.KRR(3, 1.0),
      ...     data=sweep.HistogramData([600, 300, 100]),
      ...     num_trials=50,
      ...     labels={"epsilon": 1.0},
      ... )
      >>> summary = sweep.summarize(pa.Table.from_pylist(cell.rows()))
      >>> summary.num_rows, summary["entries"][0].as_py()
      (1, 3)
    """
    if "entry" not in table.column_names:
        return table
    import pyarrow as pa

    return pa.Table.from_pylist([_summary(cell) for cell in _cells(table)])


def readable(table: "pa.Table") -> "pa.Table":
    """The rows as they are, or `summarize` of them where a cell has many."""
    many = "entry" in table.column_names and table["entry"].to_numpy().max(initial=0) >= MANY
    return summarize(table) if many else table


def label_columns(table: "pa.Table") -> list[str]:
    """The columns of simulations' rows that are labels."""
    return [name for name in table.column_names if name not in ENTRY_COLUMNS]


def _cells(table: "pa.Table") -> "Iterator[pa.Table]":
    """The rows of each cell: entries ascend within one, and labels stay the same."""
    names = [*label_columns(table), "entry"]
    keys = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    starts = [
        i
        for i, key in enumerate(keys)
        if not i or key[:-1] != keys[i - 1][:-1] or key[-1] <= keys[i - 1][-1]
    ]
    for start, stop in zip(starts, [*starts[1:], len(keys)], strict=True):
        yield table.slice(start, stop - start)


def _summary(cell: "pa.Table") -> Row:
    first = cell.slice(0, 1).to_pylist()[0]
    mse = cell["mse"].to_numpy()
    predicted = cell["predicted_rmse"].to_numpy() ** 2
    errors = _errors(cell)
    total, stderr = float(mse.sum()), None
    row = {name: first[name] for name in label_columns(cell)}
    row |= {"entries": len(mse)} | {n: first[n] for n in ("num_users", "num_trials", "method")}
    found: dict[str, Any] = dict.fromkeys(("max_error", "tv", "tv_stderr"))
    if errors is not None:
        stderr = _stderr(np.sum(errors**2, axis=0))
        found["max_error"] = float(np.abs(errors).max(axis=0).mean())
        if size := _histogram_size(cell["truth"].to_numpy(), first["num_users"]):
            tv = np.abs(errors).sum(axis=0) / (2 * size)
            found |= {"tv": float(tv.mean()), "tv_stderr": _stderr(tv)}
    rmse = float(np.sqrt(mse.mean()))
    # The standard error of a root is that of the square over twice the root.
    rmse_stderr = stderr / len(mse) / (2 * rmse) if stderr is not None and rmse else None
    return row | {
        "total_mse": total,
        "total_mse_stderr": stderr,
        "predicted_total_mse": float(predicted.sum()),
        "rmse": rmse,
        "rmse_stderr": rmse_stderr,
        "predicted_rmse": float(np.sqrt(predicted.mean())),
        "max_rmse": float(np.sqrt(mse.max())),
        **found,
    }


def _errors(cell: "pa.Table") -> np.ndarray | None:
    """The errors of all trials, float64[entries, trials]; None if they are not stored."""
    if "estimates" not in cell.column_names or cell["estimates"].null_count:
        return None
    flat = cell["estimates"].combine_chunks().flatten()
    estimates = flat.to_numpy(zero_copy_only=False).reshape(cell.num_rows, -1)
    return estimates - cell["truth"].to_numpy()[:, None]


def _stderr(values: np.ndarray) -> float | None:
    """Standard error of a mean; None for a single trial."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else None


def _histogram_size(truth: np.ndarray, num_users: int) -> float:
    """What the entries of a histogram add up to: users, or 1; 0 if it is none."""
    total = float(truth.sum())
    sizes = [size for size in (float(num_users), 1.0) if abs(total - size) <= 1e-9 * size]
    return sizes[0] if sizes and len(truth) > 1 and truth.min() >= 0 else 0.0

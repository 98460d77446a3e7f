"""What the experiments on growth share: exponents of errors, with standard errors."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def mean_and_stderr(losses: Sequence[float]) -> tuple[float, float | None]:
    """The mean of trials and its standard error, None for a single trial."""
    values = np.asarray(losses, np.float64)
    if values.size < 2:
        return float(values.mean()), None
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


def exponent(
    rows: Sequence[dict[str, Any]], size: str, error: str = "error"
) -> tuple[float, float]:
    """The slope of log error in log size by least squares, and its standard error.

    All points weigh the same: where a power law holds only in the limit, the standard error is that
    of the chance in the trials, and not of what a straight line misses. Points of a single trial
    have the relative standard error of the other points, the largest of them.

    Args:
      rows: at least two, with `size`, `error` and `stderr`; exact where that is 0.
      size: the name of the column on the horizontal axis.
      error: that of the errors.
    """
    x = np.log([row[size] for row in rows])
    y = np.log([row[error] for row in rows])
    known = [row["stderr"] / row["error"] for row in rows if row["stderr"] is not None]
    relative = np.array(
        [max(known) if row["stderr"] is None else row["stderr"] / row["error"] for row in rows]
    )
    weights = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    spread = relative if error == "error" else np.zeros(len(rows))
    return float(weights @ y), float(np.sqrt(np.sum((weights * spread) ** 2)))

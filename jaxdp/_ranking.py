"""Rankings of protocols by predicted error: what `linear.best`, `pairwise.best` and plans share."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ._prediction import Prediction
from ._spec import (
    as_array,
    by_largest_remainders,
    check_choice,
    check_counts,
    check_items,
    check_probabilities,
)

T = TypeVar("T")


def named(candidates: Mapping[str, T] | Sequence[T] | None) -> dict[str, T]:
    """Candidates by name; those of a sequence are named by their class and number.

    Raises:
      TypeError: a sequence holds a function, which has no class to be named by.
    """
    if candidates is None or isinstance(candidates, Mapping):
        return dict(candidates or {})
    candidates = check_items("candidates", candidates, "a mapping from names, or a sequence")
    for candidate in candidates:
        if callable(candidate):
            raise TypeError(
                f"candidates must be given by name where they are functions, got {candidate!r} in "
                "a sequence; use {'a name': function}."
            )
    return {f"{type(each).__name__}, candidate {i}": each for i, each in enumerate(candidates, 1)}


def build_all(
    makers: dict[str, Callable[[], Any]],
    measure: Callable[[str, Any], Any],
    tell: Callable[[str], None] = lambda name: None,
) -> tuple[list[Any], list[tuple[str, str]]]:
    """What `measure(name, protocol)` says of each protocol, and the names that are refused and why.

    A protocol is refused whose construction or prediction raises ValueError. Warnings, such as that
    of few users, are silent: protocols are ranked for what these say. `tell` hears of each name
    before it is made.
    """
    entries, refused = [], []
    for name, make in makers.items():
        tell(name)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                entries.append(measure(name, make()))
        except ValueError as error:
            refused.append((name, str(error)))
    return entries, refused


def with_times(entries: Iterable[Any], tell: Callable[[str], None]) -> list[Any]:
    """The entries with `timed`, their costs measured now, while `tell` hears of each."""
    timed = [dataclasses.replace(entry, timed=True) for entry in entries]
    for entry in timed:
        tell(f"{entry.name}, timed")
        _ = entry.cost
    return timed


def best_first(entries: Iterable[T], error: Callable[[T], Prediction]) -> tuple[T, ...]:
    """The entries by their errors: those that are known, and then those of which a bound is.

    A bound may be far above its error, and a bound below the least known error proves that its
    protocol is better: its ratio to that, below 1, says so. Of equal ones the first comes first.
    """
    return tuple(sorted(entries, key=lambda entry: (error(entry).kind == "bound", error(entry))))


NEARLY_LINEAR = 0.1
"""The root mean squared error up to which a function of estimated averages is nearly linear.

Beyond it the delta method may be off by more than a tenth. Of a collision entropy it is the
standard error of the share of equal pairs, by itself.
"""


def is_noisy(error: Prediction, *, root: bool = False) -> bool:
    """Whether the error of a function of averages is by the delta method, and large for that.

    Args:
      error: a mean squared error.
      root: whether it is a root already.
    """
    return error.kind == "delta" and error > (NEARLY_LINEAR if root else NEARLY_LINEAR**2)


def kind_cell(error: Prediction, *, root: bool = False, noisy: bool = False) -> str:
    """What an error is, for a table; of a simulated one also its standard error, relative.

    Args:
      error: a mean squared error, of whose root the table has.
      root: whether it is a root already.
      noisy: whether it `is_noisy`.
    """
    if error.kind != "simulated" or not error:
        return error.kind + ", noisy" * noisy
    return f"simulated ±{error.stderr / error / (1 if root else 2):.1%}"


def ratio(error: Prediction, least: Prediction) -> str:
    """An error by the least, as text; at most this for a bound."""
    value = error / least if least else 1.0
    return f"{'<= ' if error.kind == 'bound' and least.kind != 'bound' else ''}{value:.3f}"


def whole_users(
    histogram: ArrayLike | str, num_users: int, num_values: int, name: str = "histogram"
) -> np.ndarray:
    """Whole numbers of users in these proportions, int64[k]; largest remainders round up.

    Args:
      histogram: numbers in proportion to the users of each value; or "uniform", or "zipf" for one
        over the number of the value.
      num_users: n.
      num_values: k.
      name: the argument's name in messages.
    """
    if isinstance(histogram, str):
        zipf = check_choice(name, histogram, ("uniform", "zipf")) == "zipf"
        histogram = np.arange(1, num_values + 1, dtype=float) ** (-1 if zipf else 0)
    shares = as_array(name, histogram)
    if shares.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be of numbers, got dtype {shares.dtype}.")
    if shares.size != num_values:
        raise ValueError(
            f"{name} must have {num_values} entries, one for each value, got {shares.size}."
        )
    shares = check_probabilities(shares, name)
    return check_counts(by_largest_remainders(shares, num_users))


def table(
    header: Iterable[str],
    rows: list[tuple[str, ...]],
    refused: Iterable[tuple[str, str]],
    note: str = "",
) -> str:
    """A Markdown table, names on the left and numbers on the right; a note; what was left out."""
    rows = [tuple(header), *rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    rows.insert(1, ("-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])))
    lines = []
    for name, *numbers in rows:
        right = (cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))
        lines.append(f"| {' | '.join([name.ljust(widths[0]), *right])} |")
    notes = [note] if note else []
    left_out = (f"Left out: {name}: {reason}" for name, reason in refused)
    return "\n".join([*lines, *notes, *left_out])

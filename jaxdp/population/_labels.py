"""Values as people have them: labels in lists, pandas or Arrow, as the numbers of bins.

Neither pandas nor pyarrow is imported here: who holds an object of theirs has imported them.
"""

import importlib
import itertools
import numbers
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from typing import Any

import jax
import numpy as np

from .._spec import as_array, check_counts, is_traced

Labels = tuple[Hashable, ...]
"""What bins stand for, in their order."""

LABEL_KINDS = "bmMOSTU"
"""Kinds of NumPy's dtypes whose entries are labels: flags, times, objects and texts."""

_MISSING, _UNKNOWN = -1, -2  # in place of a bin
_NAMED = 3  # labels that a message lists
_PAIRS = 2**16  # of labels, at most
_NUMBERS = {"i": np.int64, "u": np.uint64, "f": np.float64}


def labels_and_codes(
    values: Any, labels: Iterable[Hashable] | None = None, missing: Hashable = None
) -> tuple[Labels, np.ndarray]:
    """The labels of a domain, and the number of each value's label.

    Edge cases:
      ===============================  =========================================================
      `labels` not given               those of a Categorical or a dictionary of Arrow in their
                                       order, unused ones included; (False, True) for flags;
                                       otherwise those that occur, sorted, or in the order of
                                       their first occurrence where they cannot be compared
      None, NaN, NaT, `pandas.NA`      ValueError, unless `missing` is given
      `missing` among given `labels`   missing values count as that label
      1, 1.0 and True                  one label: they are equal
      ===============================  =========================================================

    Args:
      values: n values that are hashable: a list or an array of one axis, a Series, Index or
        Categorical of pandas, or an array of Arrow.
      labels: the domain, in the order of the bins; None to take it from the values. Where values
        are private, give it: a domain that is taken from them tells which of them occur.
      missing: the label of missing values, which becomes the last one; None to refuse them.

    Returns:
      The labels, k of them, and int32[n] in [0, k).

    Raises:
      ValueError: a value is missing, or is none of the labels; or labels are equal.
      TypeError: values or labels are not hashable, or are no sequences.

    Example:
      >>> labels, codes = labels_and_codes(["no", "yes", None, "no"], missing="unknown")
      >>> labels, codes.tolist()
      (('no', 'yes', 'unknown'), [0, 1, 2, 0])
    """
    return coded("values", values, labels, missing)


def labels_and_counts(
    counts: Any, labels: Iterable[Hashable] | None = None, missing: Hashable = None
) -> tuple[Labels | None, np.ndarray]:
    """The labels of a histogram, and its counts in their order.

    Args:
      counts: whole numbers by label, a mapping or a Series of pandas such as `value_counts()`; or a
        table of pandas, whose labels are pairs (row, column); or an array of any shape.
      labels: of a histogram by label: which labels there are, in which order; those without a count
        have 0. Of an array: what its entries stand for, row by row. None for those of `counts`.
      missing: as in `labels_and_codes`.

    Returns:
      The labels, or None where there are none; and int64 counts: of the labels, or of the array's
      shape.

    Raises:
      ValueError: counts are no histogram; or their labels are equal, missing, or not among those
        given.
      TypeError: counts are not numbers, or labels are not hashable.

    Example:
      >>> labels, counts = labels_and_counts({"yes": 3, "no": 2}, labels=["no", "yes", "unsure"])
      >>> labels, counts.tolist()
      (('no', 'yes', 'unsure'), [2, 3, 0])
    """
    return labelled("counts", counts, labels, missing, check_counts)


def coded(
    name: str, values: Any, labels: Iterable[Hashable] | None, missing: Hashable
) -> tuple[Labels, np.ndarray]:
    """`labels_and_codes` of values that messages call by a name."""
    found, numbered, ordered = _factorized(name, values)
    domain, bins = _domain(name, found, labels, missing, ordered)
    codes = bins[numbered]
    if codes.size and codes.min() < 0:
        lost = codes == _MISSING
        if np.any(lost):
            raise _missing_values(
                name, lost, "count them as a category of their own by missing='unknown'"
            )
        unknown = codes == _UNKNOWN
        others = [found[i] for i in np.unique(numbered[unknown])]
        raise ValueError(
            f"{name} must hold nothing but the given labels, got {_listed(others)}, the first in "
            f"row {int(np.argmax(unknown))}; add what is absent to labels, or drop those rows."
        )
    return domain, codes


def labelled(
    name: str,
    table: Any,
    labels: Iterable[Hashable] | None,
    missing: Hashable,
    check: Callable[[Any], np.ndarray],
) -> tuple[Labels | None, np.ndarray]:
    """`labels_and_counts` of a table that messages call by a name; `check` makes its numbers."""
    found, given = _table(name, table)
    array = check(given)
    if found is None:
        if missing is not None:
            raise ValueError(f"missing is for {name} by label, such as a dict; leave it out.")
        return None if labels is None else checked_labels(labels, array.size, name), array
    if array.shape != (len(found),):
        raise ValueError(f"{name} must have one number for each label, got shape {array.shape}.")
    _check_different(f"the labels of {name}", [x for x in found if not _is_missing(x)])
    domain, bins = _domain(name, found, labels, missing, ordered=True)
    bins = bins[:-1]
    if np.any(bins == _MISSING):
        raise ValueError(
            f"{name} has a missing value among its labels, with "
            f"{array[bins == _MISSING].sum():g}; leave it out, or count it as a category of its "
            "own by missing='unknown'."
        )
    if np.any(bins == _UNKNOWN):
        others = [found[i] for i in np.flatnonzero(bins == _UNKNOWN)]
        raise ValueError(
            f"{name} must be of the given labels, got {_listed(others)}; add what is absent to "
            "labels, or leave it out."
        )
    ordered = np.zeros(len(domain), array.dtype)
    np.add.at(ordered, bins, array)  # several missing values, such as None and NaN, are one bin
    return domain, ordered


def checked_labels(labels: Iterable[Hashable], number: int | None, name: str) -> Labels:
    """Labels as a tuple, or raises unless they differ and, if a number is given, are so many.

    Args:
      labels: of bins.
      number: how many bins there are, if that is known.
      name: what the message calls that which has so many.
    """
    if isinstance(labels, str | bytes | Mapping | Set) or not isinstance(labels, Iterable):
        raise TypeError(f"labels must be a sequence, such as a list of texts, got {labels!r}.")
    if isinstance(labels, np.ndarray | jax.Array):
        labels = as_array("labels", labels)
        if labels.ndim != 1:
            raise ValueError(f"labels must have one axis, got shape {labels.shape}.")
    listed = tuple(map(_plain, labels))
    _check_different("labels", listed)
    if not listed or any(map(_is_missing, listed)):
        raise ValueError(
            "labels must be one or more, none of them None or NaN; for missing values give a label "
            "as missing."
        )
    if number is not None and number != len(listed):
        raise ValueError(f"labels must be {number}, one for each bin of {name}, got {len(listed)}.")
    return listed


def pairs_of(labels: Labels | None) -> Labels | None:
    """The labels of all pairs of bins; None where they would be more than 2**16."""
    if labels is None or len(labels) ** 2 > _PAIRS:
        return None
    return tuple(itertools.product(labels, repeat=2))


def described(labels: Labels) -> str:
    """The first labels, for people."""
    return _listed(list(labels))


def surely_labels(x: object) -> bool:
    """Whether values are labels, as can be said without looking at all of them."""
    if (column := _column_of_pandas(x)) is not None:
        return is_categorical(x) or column.dtype.kind in LABEL_KINDS
    if (column := _column_of_arrow(x)) is not None:
        types = sys.modules["pyarrow"].types
        return not (types.is_integer(column.type) or types.is_floating(column.type))
    # As an array, texts would all be as long as the longest.
    return isinstance(x, list | tuple) and len(x) > 0 and isinstance(x[0], str | bytes)


def as_numbers(name: str, x: Any) -> np.ndarray:
    """Values that are no labels as an array, or raises where some are missing."""
    if _column_of_pandas(x) is not None:
        _refuse_missing(name, np.asarray(x.isna()))
        # Of a type of pandas, NumPy would make objects.
        x = x if isinstance(x.dtype, np.dtype) else x.to_numpy(_NUMBERS.get(x.dtype.kind))
    elif _column_of_arrow(x) is not None:
        _refuse_missing(name, np.asarray(x.is_null()))
    array = as_array(name, x)
    # The least of numbers among which is a NaN is NaN, and quickly found.
    if array.dtype.kind == "f" and array.ndim and array.size and np.isnan(array.min()):
        rows = array.reshape(len(array), array[:1].size)
        _refuse_missing(name, np.any(np.isnan(rows), axis=1))
    return array


def only_numbers(labels: Labels, missing: Hashable) -> bool:
    """Whether the labels found are numbers other than flags: values that mean a quantity."""
    found = [x for x in labels if x is not missing and x != missing]
    return bool(found) and all(
        isinstance(x, numbers.Number) and not isinstance(x, bool) for x in found
    )


def is_categorical(x: object) -> bool:
    """Whether values say themselves that they are of some categories."""
    if (column := _column_of_pandas(x)) is not None:
        return isinstance(column.dtype, sys.modules["pandas"].CategoricalDtype)
    if (column := _column_of_arrow(x)) is not None:
        return bool(sys.modules["pyarrow"].types.is_dictionary(column.type))
    return False


def _imported(module: str) -> Any:
    """A module if anybody has imported it, else None."""
    # What another thread is still importing is there, and empty: importing it waits for the end.
    return None if sys.modules.get(module) is None else importlib.import_module(module)


def _column_of_pandas(x: object) -> Any:
    """The argument if it is a Series, an Index or an array of pandas, else None."""
    # Where nobody has imported pandas, no object is of it.
    if (pandas := _imported("pandas")) is None:
        return None
    kinds = (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)
    return x if isinstance(x, kinds) else None


def _column_of_arrow(x: object) -> Any:
    """The argument if it is an array of Arrow, whole or in chunks, else None."""
    if (arrow := _imported("pyarrow")) is None:
        return None
    return x if isinstance(x, (arrow.Array, arrow.ChunkedArray)) else None


def _factorized(name: str, values: Any) -> tuple[list[Any], np.ndarray, bool]:
    """The values that occur, each value's number among them, and whether they have an order.

    The number is -1 where a value is missing.
    """
    pandas, ordered = _imported("pandas"), is_categorical(values)
    if pandas is not None and isinstance(values, pandas.DataFrame):
        raise ValueError(f"{name} must be one column, as in {name}['answer'], got a table.")
    if pandas is not None and _column_of_pandas(values) is not None:
        if ordered:
            held = values.cat if isinstance(values, pandas.Series) else values
            return list(map(_plain, held.categories)), np.asarray(held.codes), True
        codes, found = values.factorize()
        return list(map(_plain, found)), codes, False
    if _column_of_arrow(values) is not None:
        encoded = values if ordered else values.dictionary_encode()
        if isinstance(encoded, sys.modules["pyarrow"].ChunkedArray):
            encoded = encoded.unify_dictionaries().combine_chunks()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return encoded.dictionary.to_pylist(), codes, ordered
    return *_of_items(name, values), False


def _of_items(name: str, values: Any) -> tuple[list[Any], np.ndarray]:
    """The values that occur in a sequence, and each one's number among them."""
    if is_traced(values):
        raise TypeError(f"{name} must be known to find labels in it, and is traced.")
    if isinstance(values, np.ndarray | jax.Array):
        array = as_array(name, values)
        if array.ndim != 1:
            raise ValueError(f"{name} must have one axis to hold labels, got shape {array.shape}.")
        items: Any = list(array) if array.dtype.kind in "mM" else array.tolist()
    elif isinstance(values, str | bytes | Mapping | Set) or not isinstance(values, Iterable):
        raise TypeError(
            f"{name} must be a sequence of labels, such as a list of texts, got {values!r}."
        )
    else:
        items = values if isinstance(values, list | tuple) else list(values)
    found: list[Any] = []
    number: dict[Any, int] = {}
    try:
        for item in dict.fromkeys(items):
            number[item] = _MISSING if _is_missing(item) else len(found)
            if number[item] >= 0:
                found.append(_plain(item))
    except TypeError:
        raise TypeError(f"{name} must hold hashable values, such as texts.") from None
    return found, np.fromiter(map(number.__getitem__, items), np.int32, len(items))


def _domain(
    name: str,
    found: list[Any],
    labels: Iterable[Hashable] | None,
    missing: Hashable,
    ordered: bool,
) -> tuple[Labels, np.ndarray]:
    """The labels of all bins, and the bin of each value found.

    Args:
      name: of what holds the values.
      found: the values that occur.
      labels: the domain, if it is given.
      missing: the label of missing values, or None.
      ordered: whether the values that occur are in the order of the bins.

    Returns:
      The labels; and int32, an entry for each value found and a last one, for missing values.
    """
    lacking = list(map(_is_missing, found))
    if labels is not None:
        domain = list(checked_labels(labels, None, name))
    else:
        domain = [x for x, lost in zip(found, lacking, strict=True) if not lost]
        if domain and not ordered:
            flags = all(isinstance(x, bool) for x in domain)
            domain = [False, True] if flags else _sorted(domain)
    if missing is not None:
        try:
            known = missing in dict.fromkeys(domain)  # a set would take sets
        except TypeError:
            raise TypeError(f"missing must be a label, such as a text, got {missing!r}.") from None
        if _is_missing(missing):
            raise ValueError(f"missing must be a label, such as 'unknown', got {missing!r}.")
        if known and labels is None:
            raise ValueError(
                f"missing = {_short(missing)} is also a value of {name}; choose another label, or "
                "give all labels with this one among them."
            )
        domain += [] if known else [_plain(missing)]
    bins = {label: number for number, label in enumerate(domain)}
    lost = _MISSING if missing is None else bins[missing]
    places = [
        lost if lacks else bins.get(x, _UNKNOWN) for x, lacks in zip(found, lacking, strict=True)
    ]
    return tuple(domain), np.array([*places, lost], np.int32)


def _sorted(labels: list[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:  # of several kinds
        return labels


def _table(name: str, table: Any) -> tuple[list[Any] | None, Any]:
    """The labels and the numbers of a table; its labels are None where it is an array."""
    pandas = _imported("pandas")
    if isinstance(table, Mapping):
        return list(map(_plain, table)), list(table.values())
    if pandas is None or not isinstance(table, (pandas.Series, pandas.DataFrame)):
        return None, table
    if isinstance(table, pandas.Series):
        values = as_numbers(name, table)
        return (None if _is_range(pandas, table.index) else list(map(_plain, table.index))), values
    plain = _is_range(pandas, table.index) and _is_range(pandas, table.columns)
    pairs = itertools.product(map(_plain, table.index), map(_plain, table.columns))
    values = table.to_numpy()
    return (None, values) if plain else (list(pairs), values.ravel())


def _is_range(pandas: Any, index: Any) -> bool:
    """Whether an index is that of rows without names."""
    return isinstance(index, pandas.RangeIndex) and (index.start, index.step) == (0, 1)


def _plain(label: Any) -> Any:
    """A number of NumPy as one of Python, which is equal to it and has the same hash."""
    plain = isinstance(label, np.generic) and label.dtype.kind not in "mMV"
    return label.item() if plain else label


def _is_missing(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return value is None
    pandas = _imported("pandas")
    if pandas is not None and value is pandas.NA:
        return True
    try:
        return bool(value != value)  # as NaN and NaT alone do
    except (TypeError, ValueError):
        return False


def _refuse_missing(name: str, lost: np.ndarray) -> None:
    if np.any(lost):
        raise _missing_values(name, lost, "fill them in; for categories, give their labels")


def _missing_values(name: str, lost: np.ndarray, remedy: str) -> ValueError:
    """An error that says how many rows are missing, and where."""
    number, row = int(np.count_nonzero(lost)), int(np.argmax(lost))
    has = "1 missing value, in" if number == 1 else f"{number} missing values, the first in"
    return ValueError(f"{name} has {has} row {row}; drop such rows, or {remedy}.")


def _check_different(name: str, labels: Sequence[Any]) -> None:
    """Raises unless labels are hashable and differ."""
    seen: set[Any] = set()
    try:
        twice = [x for x in labels if x in seen or seen.add(x)]
    except TypeError:
        raise TypeError(f"{name} must be hashable, such as texts.") from None
    if twice:
        raise ValueError(f"{name} must differ, got {_short(twice[0])} twice.")


def _short(label: Hashable) -> str:
    text = " ".join(repr(label).split())
    return text if len(text) <= 24 else f"{text[:21]}..."


def _listed(labels: list[Any]) -> str:
    first = ", ".join(map(_short, labels[:_NAMED]))
    return first if len(labels) <= _NAMED else f"{first}, ..."

"""Grids of configurations, with the labels that tables will have."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ._fingerprint import Label


class Point:
    """One point of a `grid`.

    Attributes:
      labels: the label of each axis, by name, as a cell takes them.

    The value of each axis is an attribute of the axis's name.
    """

    labels: dict[str, Label]

    def __init__(self, labels: dict[str, Label], values: dict[str, Any]):
        self.labels = labels
        self._values = values

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"a point of a grid has {', '.join(values)}, and not {name!r}")
        return values[name]

    def __repr__(self) -> str:
        return f"Point({', '.join(f'{k}={v!r}' for k, v in self.labels.items())})"


def grid(**axes: Iterable[Label] | Mapping[Label, Any]) -> list[Point]:
    """Every combination of the values of some axes; the last axis varies fastest.

    Args:
      **axes: by name, texts or numbers, which label themselves; or a mapping of labels to values of
        any kind, such as `{"k-RR": KRR}`.

    Returns:
      The points. Each has the value of an axis as an attribute, and `labels`.

    Raises:
      ValueError: there is no axis, or one is empty, repeats a label or is called "labels".
      TypeError: a label is no text and no number.

    Example:
      >>> from jaxdp import randomizers, sweep
      >>> points = sweep.grid(mechanism={"k-RR": randomizers.KRR}, epsilon=[0.5, 1.0])
      >>> points
      [Point(mechanism='k-RR', epsilon=0.5), Point(mechanism='k-RR', epsilon=1.0)]
      >>> points[1].mechanism(4, points[1].epsilon).epsilon
      1.0
    """
    if not axes or "labels" in axes:
        raise ValueError(f"axes must be one or more, and not be called labels, got {list(axes)}.")
    pairs = {name: _pairs(name, axis) for name, axis in axes.items()}
    return [
        Point(
            {name: label for name, (label, _) in zip(pairs, chosen, strict=True)},
            {name: value for name, (_, value) in zip(pairs, chosen, strict=True)},
        )
        for chosen in itertools.product(*pairs.values())
    ]


def _pairs(name: str, axis: Iterable[Label] | Mapping[Label, Any]) -> list[tuple[Label, Any]]:
    """The labels of an axis with its values."""
    if isinstance(axis, str) or not isinstance(axis, Iterable):
        raise TypeError(f"{name} must be several values, or a mapping of labels, got {axis!r}.")
    if isinstance(axis, np.ndarray):
        axis = axis.tolist()  # whose numbers have a JSON form
    found = list(axis.items()) if isinstance(axis, Mapping) else [(x, x) for x in axis]
    if wrong := [label for label, _ in found if not isinstance(label, Label)]:
        raise TypeError(
            f"{name} must have texts or numbers for labels, got {wrong[0]!r}; give a mapping of "
            "labels to values."
        )
    if not found or len({label for label, _ in found}) < len(found):
        raise ValueError(f"{name} must have one or more different labels, got {axis!r}.")
    return found

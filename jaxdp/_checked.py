"""Frozen values whose fields are checked on creation: specs, kernels, grids, convex sets."""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import numpy as np

from ._checks import Check

P = ParamSpec("P")
R = TypeVar("R")


def within_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Lets a formula refuse arguments, by name, for which it leaves the range of float64.

    Each argument may be in its range, and the formula not: 1 / epsilon**2 for epsilon = 1e-200.
    """

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            answer = function(*args, **kwargs)
            if not (isinstance(answer, float) and math.isnan(answer)):
                return answer
        except (OverflowError, ZeroDivisionError):
            pass
        given = inspect.signature(function).bind(*args, **kwargs).arguments
        said = [f"{k} = {v!r}" if np.ndim(v) == 0 else f"this {k}" for k, v in given.items()]
        raise ValueError(
            f"{function.__name__} is beyond the range of float64 for {', '.join(said)}; take "
            "less extreme numbers."
        )

    return checked


class Checked:
    """Base of frozen classes, made by `spec`, whose fields are checked on creation."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name, check in field_checks(type(self)):
            self.settle(**{name: check(name, getattr(self, name))})
        self.validate()

    def settle(self, **fields: object) -> None:
        """Stores fields that are made of others; for `validate` alone."""
        # A frozen dataclass refuses assignment, in its own __post_init__ too; this is the only way.
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def validate(self) -> None:
        """Raises ValueError unless the fields, each checked before, fit together."""


def field_checks(cls: type) -> Iterator[tuple[str, Check]]:
    """The names and checks of the checked fields of a class made by `spec`, in their order."""
    for each in dataclasses.fields(cls):
        if "check" in each.metadata:
            yield each.name, each.metadata["check"]

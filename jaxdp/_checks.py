"""Checks of the fields of specs: from a name and a value to the value that is stored.

A check raises a ValueError or a TypeError that names the argument, the value, what is allowed and
the remedy. `bad` holds values that it must refuse: the contract tests try them on every field.
"""

import abc
import dataclasses
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ._form import is_frozen
from ._spec import (
    FrozenArray,
    as_array,
    check_bool,
    check_choice,
    check_epsilon,
    check_int,
    check_real,
    frozen,
)

T = TypeVar("T")


class Check(abc.ABC):
    """Base of the checks."""

    @abc.abstractmethod
    def __call__(self, name: str, value: object) -> Any:
        """The value to store, or raises."""

    @property
    def bad(self) -> tuple[Any, ...]:
        """Some values that are refused, whatever the other fields are."""
        return ()


@dataclasses.dataclass(frozen=True)
class Integer(Check):
    """An integer in [low, high]."""

    low: int
    high: int | None = None

    def __call__(self, name: str, value: object) -> int:
        return check_int(name, value, low=self.low, high=self.high)

    @property
    def bad(self) -> tuple[Any, ...]:
        beyond = () if self.high is None else (self.high + 1,)
        return (self.low - 1, self.low + 0.5, float("nan"), "1", True, *beyond)


@dataclasses.dataclass(frozen=True)
class Real(Check):
    """A finite number between low and high, which are allowed themselves where `closed`."""

    low: float = -math.inf
    high: float = math.inf
    closed: bool = False

    def __call__(self, name: str, value: object) -> float:
        return check_real(name, value, low=self.low, high=self.high, open_ends=not self.closed)

    @property
    def bad(self) -> tuple[Any, ...]:
        # Open ends are refused themselves, closed ones from the next float on.
        step = math.nextafter if self.closed else lambda end, _: end
        ends = [(self.low, -math.inf), (self.high, math.inf)]
        refused = (step(end, away) for end, away in ends if math.isfinite(end))
        return (float("nan"), float("inf"), "1", True, *refused)


@dataclasses.dataclass(frozen=True)
class Epsilon(Check):
    """A privacy parameter: finite and positive."""

    def __call__(self, name: str, value: object) -> float:
        return check_epsilon(value, name)

    @property
    def bad(self) -> tuple[Any, ...]:
        return (0, 0.0, -1.0, float("nan"), float("inf"), "1", None, True)


class Boolean(Check):
    """True or False."""

    def __call__(self, name: str, value: object) -> bool:
        return check_bool(name, value)

    @property
    def bad(self) -> tuple[Any, ...]:
        return (None, 2, "yes", [True])


class Choice(Check):
    """One of some values.

    Args:
      choices: those allowed.
    """

    def __init__(self, *choices: object):
        self.choices = choices

    def __call__(self, name: str, value: object) -> Any:
        return check_choice(name, value, self.choices)

    @property
    def bad(self) -> tuple[Any, ...]:
        return ("none of these", 3.5)


@dataclasses.dataclass(frozen=True)
class Optional(Check):
    """None, or what another check allows."""

    check: Check

    def __call__(self, name: str, value: object) -> Any:
        return None if value is None else self.check(name, value)

    @property
    def bad(self) -> tuple[Any, ...]:
        return tuple(value for value in self.check.bad if value is not None)


@dataclasses.dataclass(frozen=True)
class By(Check):
    """What a function of (name, value) makes of it, and values that it refuses.

    Attributes:
      function: from (name, value) to the value that is stored.
      refused: `bad`.
    """

    function: Callable[[str, Any], Any]
    refused: tuple[Any, ...] = ()

    def __call__(self, name: str, value: object) -> Any:
        return self.function(name, value)

    @property
    def bad(self) -> tuple[Any, ...]:
        return self.refused


@dataclasses.dataclass(frozen=True)
class Instance(Check):
    """An instance of a class.

    Attributes:
      kind: the class.
      wanted: what the message asks for, such as "a linear protocol such as FactorizedQueries".
    """

    kind: type | tuple[type, ...]
    wanted: str

    def __call__(self, name: str, value: object) -> Any:
        if not isinstance(value, self.kind):
            raise TypeError(f"{name} must be {self.wanted}, got {value!r}.")
        return value

    @property
    def bad(self) -> tuple[Any, ...]:
        return (3, "none", None)


@dataclasses.dataclass(frozen=True)
class Maker(Check):
    """A callable.

    Attributes:
      wanted: what the message asks for, such as "a function that makes randomizers".
    """

    wanted: str

    def __call__(self, name: str, value: object) -> Any:
        if not callable(value):
            raise TypeError(f"{name} must be {self.wanted}, got {value!r}.")
        if isinstance(value, functools.partial) and is_frozen(value.func) and not value.args:
            return Given(value.func, tuple(sorted(value.keywords.items())))
        return value

    @property
    def bad(self) -> tuple[Any, ...]:
        return (3, "none")


@dataclasses.dataclass(frozen=True, repr=False)
class Given:
    """A `functools.partial` of a spec's class as a value: equal to another of the same keywords.

    So specs that hold one are equal, hash alike and have a JSON form, as `functools.partial` has
    not. Documents are read from others, so that it calls nothing but classes of specs.

    Attributes:
      function: the class.
      keywords: what it is called with, by name.
    """

    function: Callable[..., Any]
    keywords: tuple[tuple[str, Any], ...]

    def __post_init__(self) -> None:
        if not is_frozen(self.function):
            raise ValueError(f"function must name a class of specs, got {self.function!r}.")

    @property
    def _partial(self) -> Callable[..., Any]:
        return functools.partial(self.function, **dict(self.keywords))

    @property
    def __signature__(self) -> inspect.Signature:
        """What it may still be called with."""
        return inspect.signature(self._partial)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """What the function makes of these and the keywords."""
        return self._partial(*arguments, **keywords)

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.keywords)
        return f"functools.partial({self.function!r}{given})"


def made_by(
    name: str,
    make: Callable[..., T],
    wanted: str,
    *arguments: object,
    remedy: str = "",
    **keywords: object,
) -> T:
    """What a given callable makes, or raises unless it takes such arguments.

    Args:
      name: the argument's name in messages.
      make: the callable.
      wanted: what the message asks for, such as "a function that makes randomizers".
      *arguments: it is called with.
      remedy: what the message ends with.
      **keywords: the same.
    """
    try:
        inspect.signature(make).bind(*arguments, **keywords)
    except (TypeError, ValueError) as error:  # ValueError: built in, without a signature
        raise TypeError(f"{name} must be {wanted}, got {make!r}: {error}{remedy}.") from None
    return make(*arguments, **keywords)


@dataclasses.dataclass(frozen=True)
class Numbers(Check):
    """An array of finite numbers, stored read-only and hashed by content.

    Attributes:
      ndim: how many axes it must have; None for any.
    """

    ndim: int | None = None

    def __call__(self, name: str, value: object) -> FrozenArray:
        array = as_array(name, value)  # pyright: ignore[reportArgumentType]
        if array.dtype.kind not in "biuf":
            raise TypeError(f"{name} must be an array of real numbers, got dtype {array.dtype}.")
        if self.ndim is not None and array.ndim != self.ndim:
            raise ValueError(f"{name} must have {self.ndim} axes, got shape {array.shape}.")
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} must be finite, got NaN or inf.")
        return frozen(array, value)

    @property
    def bad(self) -> tuple[Any, ...]:
        return (["a"], [float("nan")])

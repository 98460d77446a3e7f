"""How the arguments of `jaxdp` are read and explained, and what is said of wrong ones."""

import decimal
from typing import Annotated, Any, Literal

import tyro
from tyro.constructors import PrimitiveConstructorSpec


class Mistake(Exception):
    """What a user did wrong, in one line."""


def numbers(kind: type, metavar: str, nargs: Literal[1, "*"] = 1) -> PrimitiveConstructorSpec:
    """Reads one number, such as 1e3, or several, also with commas between them."""

    def read(words: list[str]) -> Any:
        try:
            values = [_number(kind, part) for word in words for part in word.split(",") if part]
        except (ValueError, ArithmeticError):
            wanted = "an integer" if kind is int else "numbers"
            raise ValueError(f"must be {wanted}, got {' '.join(words)!r}") from None
        if nargs == 1 and len(values) != 1:
            raise ValueError(f"must be one number, got {' '.join(words)!r}")
        return values[0] if nargs == 1 else tuple(values)

    return PrimitiveConstructorSpec(
        nargs=nargs,
        metavar=metavar,
        instance_from_str=read,
        is_instance=lambda value: value is None or isinstance(value, int | tuple),
        str_from_instance=lambda value: [str(value)],
    )


def option(
    help: str, hint: str, metavar: str | None = None, aliases: list[str] | None = None
) -> Any:
    """The help of an option, and a hint in brackets."""
    return tyro.conf.arg(
        help=help, help_behavior_hint=f"({hint})", metavar=metavar, aliases=aliases
    )


OptionalInteger = Annotated[int | None, numbers(int, "N")]
OptionalNumber = Annotated[float | None, numbers(float, "X")]


ExperimentName = Annotated[
    tyro.conf.Positional[str],
    option(
        "An experiment of `jaxdp list`; a file that defines EXPERIMENT; or module:NAME.",
        "required",
        metavar="NAME|FILE.py",
    ),
]
ResultsName = Annotated[
    tyro.conf.Positional[str],
    option("An experiment, or a directory with results.", "required", metavar="NAME|DIR"),
]


def _number(kind: type, word: str) -> Any:
    if kind is not int:
        return kind(word)
    value = decimal.Decimal(word)  # exact: 1e3 is an integer, 1e-3 is none
    if value != value.to_integral_value():
        raise ValueError
    return int(value)

"""Conditions on rows, such as `epsilon == 1 and mechanism in ("k-RR", "RAPPOR")`."""

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ._fingerprint import Row

_COMPARED: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def condition(text: str, columns: Sequence[str]) -> Callable[[Row], bool]:
    """A condition that rows meet or do not; a part of Python's expressions, none of which is run.

    Args:
      text: comparisons of columns and constants by ==, !=, <, <=, >, >=, in and not in, joined by
        and, or and not.
      columns: the names that may be used.

    Returns:
      Whether a row meets it. A row whose values cannot be compared, such as a missing one with a
      number, does not.

    Raises:
      ValueError: the text is no such condition, or names something else.
    """
    try:
        return _test(ast.parse(text.strip(), mode="eval").body, text, columns)
    except _Unlike:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(
            f"where must be a condition such as 'epsilon == 1 and n > 100', got {text!r}."
        ) from None


class _Unlike(ValueError):
    """What is no condition, or names no column."""


def _test(node: ast.expr, text: str, columns: Sequence[str]) -> Callable[[Row], bool]:
    match node:
        case ast.BoolOp(op=op, values=values):
            tests = [_test(value, text, columns) for value in values]
            joined = all if isinstance(op, ast.And) else any
            return lambda row: joined(test(row) for test in tests)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            test = _test(operand, text, columns)
            return lambda row: not test(row)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            type(op) in _COMPARED for op in ops
        ):
            values = [_value(value, text, columns) for value in (left, *others)]
            compared = [_COMPARED[type(op)] for op in ops]
            return lambda row: _holds(compared, [value(row) for value in values])
    raise _unlike(node, text)


def _holds(compared: list[Callable[[Any, Any], bool]], values: list[Any]) -> bool:
    try:
        pairs = zip(compared, values, values[1:], strict=False)
        return all(compare(a, b) for compare, a, b in pairs)
    except TypeError:  # a text and a number, or None
        return False


def _value(node: ast.expr, text: str, columns: Sequence[str]) -> Callable[[Row], Any]:
    match node:
        case ast.Constant(value=int() | float() | str() | None as constant):
            return lambda row: constant
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as constant)):
            return lambda row: -constant
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            values = [_value(part, text, columns) for part in parts]
            return lambda row: [value(row) for value in values]
        case ast.Name(id=name):
            if name not in columns:
                raise _Unlike(
                    f"where must name columns: {', '.join(columns)}; got {name!r} (texts stand in "
                    "quotes)."
                )
            return lambda row: row[name]
    raise _unlike(node, text)


def _unlike(node: ast.expr, text: str) -> _Unlike:
    part = ast.get_source_segment(text.strip(), node) or text
    return _Unlike(
        "where must consist of columns, numbers, texts in quotes, ==, !=, <, <=, >, >=, in, and, "
        f"or, not, got {part!r}."
    )

"""Signatures as the code has them: types and shapes, such as `Float64[Array, "n d"]`, and defaults.

Sphinx would show annotations after Python has evaluated them, with aliases such as `ArrayLike`
spelled out. These are the texts of the code, of functions and of the fields of dataclasses.
"""

import ast
import dataclasses
import functools
import inspect
import pathlib
import sys
import typing
from collections.abc import Mapping
from typing import Any

from reference import public_classes
from sphinx.application import Sphinx

from jaxdp.engine import checks

QUOTED = (
    "Literal",
    "Bool",
    "Complex",
    "Float",
    "Inexact",
    "Int",
    "Key",
    "Num",
    "Real",
    "Shaped",
    "UInt",
)
"""How the types begin whose brackets hold texts, not names of classes."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def definitions(path: str) -> tuple[dict[int, Function], dict[str, ast.ClassDef]]:
    """The functions of a file by their first lines, and its classes by their qualified names."""
    functions: dict[int, Function] = {}
    classes: dict[str, ast.ClassDef] = {}

    def look(node: ast.AST, place: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                functions[first] = child
                look(child, f"{place}{child.name}.<locals>.")
            elif isinstance(child, ast.ClassDef):
                classes[place + child.name] = child
                look(child, f"{place}{child.name}.")
            else:
                look(child, place)

    look(ast.parse(pathlib.Path(path).read_text(encoding="utf-8")), "")
    return functions, classes


class _Unquote(ast.NodeTransformer):
    """Names of classes without quotes, shapes without a space in front, choices in full."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A type: the choices if its name stands for some, a public class by its full name."""
        value = self.names.get(node.id)
        if typing.get_origin(value) is typing.Literal:
            return ast.Name(f"Literal{list(typing.get_args(value))}")
        if inspect.isclass(value) and value.__module__.startswith("jaxdp"):
            # `checks` is a public module that is no package of its own.
            found = (
                f"jaxdp.engine.checks.{node.id}" if vars(checks).get(node.id) is value else node.id
            )
            return ast.Name(public_classes().get(value, found))
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """A type with brackets."""
        name = ast.unparse(node.value).rpartition(".")[2]
        if name.startswith(QUOTED):
            for part in ast.walk(node.slice):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    part.value = part.value.strip()
            return node
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A text, which is a type."""
        if isinstance(node.value, str):
            return self.visit(ast.parse(node.value.strip(), mode="eval").body)
        return node


def shown(annotation: ast.expr, names: Mapping[str, Any]) -> str:
    """The text of an annotation, in a module with such names."""
    copy = ast.parse(ast.unparse(annotation), mode="eval").body
    return ast.unparse(_Unquote(names).visit(copy))


def source_of(function: Any) -> Function | None:
    """Where a function is defined; None if it has no Python code, or is made by a program."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or not pathlib.Path(code.co_filename).is_file():
        return None
    return definitions(code.co_filename)[0].get(code.co_firstlineno)


def of_function(node: Function, names: Mapping[str, Any], bound: bool) -> tuple[str, str | None]:
    """The arguments of a function, and what it returns.

    Args:
      node: its definition.
      names: what names mean there.
      bound: whether the first argument is left out.
    """
    # A copy, which may be changed.
    (copy,) = ast.parse(ast.unparse(node)).body
    assert isinstance(copy, Function)
    given = copy.args
    if bound:
        (given.posonlyargs or given.args).pop(0)
    parts = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    for part in filter(None, parts):
        if part.annotation is not None:
            part.annotation = ast.Name(shown(part.annotation, names))
    returned = None if copy.returns is None else shown(copy.returns, names)
    return f"({ast.unparse(given)})", returned


def default(value: Any) -> str:
    """A default as a reader would write it."""
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__name__
    # What a factory makes has no value in the class.
    return "..." if repr(value) == "<factory>" else repr(value)


def of_fields(cls: type) -> str:
    """The arguments of a dataclass."""
    types: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        try:
            path = inspect.getsourcefile(base)
        except TypeError:  # a class of Python itself
            continue
        node = definitions(path)[1].get(base.__qualname__) if path else None
        for part in node.body if node else ():
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                types[part.target.id] = shown(part.annotation, vars(sys.modules[base.__module__]))
    arguments, named = [], False
    for argument in inspect.signature(cls).parameters.values():
        if argument.kind is argument.KEYWORD_ONLY and not named:
            arguments.append("*")
            named = True
        text = argument.name
        if text in types:
            text += f": {types[text]}"
        if argument.default is not argument.empty:
            text += f" = {default(argument.default)}"
        arguments.append(text)
    return f"({', '.join(arguments)})"


def _signature(app, what, name, obj, options, signature, returned):
    if signature is None or what not in ("function", "method", "class", "exception"):
        return None
    if inspect.isclass(obj):
        made = source_of(obj.__init__)
        if made is not None and made.name == "__init__":
            return of_function(made, obj.__init__.__globals__, bound=True)[0], None
        return (of_fields(obj), None) if dataclasses.is_dataclass(obj) else None
    node = source_of(obj)
    if node is None:
        return None
    decorators = {ast.unparse(each) for each in node.decorator_list}
    bound = what == "method" and "staticmethod" not in decorators
    return of_function(node, inspect.unwrap(obj).__globals__, bound)


def setup(app: Sphinx) -> dict[str, bool]:
    """Puts them in the place of autodoc's."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True}

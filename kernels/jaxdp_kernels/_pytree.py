"""Dataclasses as pytrees that are told apart by their classes."""

import dataclasses
from operator import attrgetter
from typing import Any, TypeVar

import jax

C = TypeVar("C", bound=type)


def register_dataclass(cls: C) -> C:
    """Registers a dataclass as a pytree; a decorator.

    It does what `jax.tree_util.register_dataclass` does, and keeps classes apart. jax (0.10 to
    0.12) leaves the class out where it compares structures, so that those of two dataclasses with
    equal static fields and as many leaves are equal. Their hashes differ, but for a few bits: in
    one of some hundred processes `jax.jit` finds, for an object of one class, the program that it
    has compiled for the other, and runs it.

    Args:
      cls: a dataclass. Fields with `metadata={"static": True}` are part of the structure, and must
        be hashable. Those with `metadata={"outside": True}` are no part of the pytree: what a
        transformation returns has their defaults. All others are children.

    Returns:
      The class.

    Example:
      >>> import dataclasses, jax
      >>> @register_dataclass
      ... @dataclasses.dataclass(frozen=True)
      ... class Metres:
      ...     number: float
      >>> @register_dataclass
      ... @dataclasses.dataclass(frozen=True)
      ... class Feet:
      ...     number: float
      >>> jax.tree.structure(Metres(1.0)) == jax.tree.structure(Feet(1.0))
      False
      >>> jax.tree.map(lambda x: 2 * x, Feet(1.0))
      Feet(number=2.0)
    """
    fields = [
        field
        for field in dataclasses.fields(cls)
        if field.init and not field.metadata.get("outside", False)
    ]
    static = tuple(field.name for field in fields if field.metadata.get("static", False))
    data = tuple(field.name for field in fields if field.name not in static)
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in data)
    children, structure = _reader(data), _reader(static)

    def flatten(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return children(x), structure(x)

    def flatten_with_keys(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(zip(keys, children(x), strict=True)), structure(x)

    def unflatten(structure: tuple[Any, ...], children: Any) -> Any:
        named = dict(zip(data, children, strict=True))
        return cls(**named, **dict(zip(static, structure, strict=True)))

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def _reader(names: tuple[str, ...]) -> Any:
    """Reads these attributes of an object, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda x: tuple(getattr(x, name) for name in names)

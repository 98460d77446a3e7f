"""What cells that are no `Simulation` share: the labels they have, and the keys they take."""

import zlib
from typing import Any

import jax


def coordinates(cell: object, *names: str) -> tuple[tuple[str, Any], ...]:
    """The labels of a cell that are fields of it, by name."""
    return tuple((name, getattr(cell, name)) for name in names)


def key_of(seed: int, name: str) -> jax.Array:
    """The key of a cell: a function of the seed and of its name alone."""
    return jax.random.fold_in(jax.random.key(seed), zlib.crc32(name.encode()))

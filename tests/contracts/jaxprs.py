"""Programs within programs."""

from collections.abc import Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr


def is_jaxpr(value: object) -> bool:
    return isinstance(value, (Jaxpr, ClosedJaxpr))


def inner_jaxprs(equation: Any) -> Iterator[Any]:
    """The bodies of an equation's loops, branches and calls."""
    return filter(is_jaxpr, jax.tree.leaves(list(equation.params.values()), is_leaf=is_jaxpr))

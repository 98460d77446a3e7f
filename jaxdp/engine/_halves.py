"""Long programs cut in two, whose halves compile side by side.

XLA spends half of its time with a program on one core, and on a long one more than in proportion.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jax.extend.core import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    jaxpr_as_fun,
    jaxprs_in_params,
)

_LONG = 4000  # equations of a program that is cut
_MIDDLE = 0.35, 0.7  # of its equations are in the first half: that one begins to compile first
_OF_A_DRAW = 1300  # equations of a draw by rejection, which is not traced before it is lowered


class Halves:
    """A program that runs as two, the second given what the first one makes. `cut` makes it."""

    def __init__(
        self,
        first: jax.stages.Wrapped,
        second: jax.stages.Wrapped,
        arguments: list[jax.ShapeDtypeStruct],
        made: list[jax.ShapeDtypeStruct],
    ):
        """Takes the types of the program's arguments and of what the first half makes."""
        self._first, self._second = first, second
        self._arguments, self._made = arguments, made
        self.compile()  # jax keeps the code for calls

    def compile(self) -> Callable[[Sequence[Any]], list[jax.Array]]:
        """The program with its code, which may be called from any thread."""
        with ThreadPoolExecutor(1) as thread:
            compiling = thread.submit(self._first.lower(*self._arguments).compile)
            second = self._second.lower(*self._arguments, *self._made).compile()
        first = compiling.result()
        return lambda arguments: second(*arguments, *first(*arguments))

    def __call__(self, arguments: Sequence[Any]) -> list[jax.Array]:
        """What the whole program returns."""
        return self._second(*arguments, *self._first(*arguments))


def cut(
    program: ClosedJaxpr, name: str, options: dict[str, int | bool | str] | None
) -> Halves | None:
    """The halves of a long program; None of a short one.

    It is cut where a value is stored anyway, by a loop or as `stored`, so that no kernel reaches
    across; and where least crosses: XLA may compute a small part of what it need not store.

    Args:
      program: what is cut.
      name: of both halves, but for a number.
      options: of the compiler.
    """
    jaxpr: Jaxpr = program.jaxpr
    place = None if jaxpr.effects else _place(jaxpr)
    if place is None:
        return None
    made = _crossing(jaxpr, place)
    first = jaxpr.replace(eqns=jaxpr.eqns[:place], outvars=made)
    second = jaxpr.replace(eqns=jaxpr.eqns[place:], invars=[*jaxpr.invars, *made])

    def compilable(half: Jaxpr, number: int) -> jax.stages.Wrapped:
        function = jaxpr_as_fun(ClosedJaxpr(half, program.consts))

        def named(*arguments):
            return function(*arguments)

        named.__name__ = f"{name}_{number}"
        return jax.jit(named, compiler_options=options)

    return Halves(compilable(first, 0), compilable(second, 1), _types(jaxpr.invars), _types(made))


def _place(jaxpr: Jaxpr) -> int | None:
    """How many equations to give to the first half; None where there is no need or no place."""
    until = np.cumsum([_weight(eqn) for eqn in jaxpr.eqns])
    if not len(until) or until[-1] < _LONG:
        return None
    least, most = (share * until[-1] for share in _MIDDLE)
    places = [
        number
        for number, (eqn, weight) in enumerate(zip(jaxpr.eqns, until, strict=True), 1)
        if least <= weight <= most and _stores(eqn)
    ]

    def size(place: int) -> int:
        return sum(x.size for x in _types(_crossing(jaxpr, place)))

    return min(places, key=size, default=None)


def _crossing(jaxpr: Jaxpr, place: int) -> list[Var]:
    """What is made by the equations before a place and used after it."""
    made = {v for eqn in jaxpr.eqns[:place] for v in eqn.outvars}
    used = [*(v for eqn in jaxpr.eqns[place:] for v in eqn.invars), *jaxpr.outvars]
    return list(dict.fromkeys(v for v in used if not isinstance(v, Literal) and v in made))


def _types(variables: Sequence[Var]) -> list[jax.ShapeDtypeStruct]:
    types: list[Any] = [v.aval for v in variables]
    return [jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in types]


def _weight(eqn: JaxprEqn) -> int:
    """How many equations it is, those of functions and loops included."""
    inside = sum(_weight(inner) for jaxpr in jaxprs_in_params(eqn.params) for inner in jaxpr.eqns)
    return 1 + inside + _OF_A_DRAW * (eqn.primitive.name == "draw_lanes")


def _stores(eqn: JaxprEqn) -> bool:
    """Whether its values are stored, by XLA's rules or by ours."""
    ends = (jaxpr.eqns[-1] for jaxpr in jaxprs_in_params(eqn.params) if jaxpr.eqns)
    return eqn.primitive.name in ("stored", "while", "scan") or any(map(_stores, ends))

"""A function of one user, computed for many: every number of the user's becomes a vector of lanes.

Kernels for accelerators have vectors of one shape and elementwise operations on them, and no small
arrays within a lane. So `on_lanes` traces the function for one user, and runs its jaxpr with arrays
of *cells* in place of arrays. A cell is a number that all users share, or a vector of a number for
each lane. Reshapes, slices and the like only move cells, at trace time. What is left is elementwise
and the same in XLA and in Mosaic.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from numpy.typing import ArrayLike

from .._table import Table as Table
from .ref import Tree

FEW_ENTRIES = 8
"""Entries of an array that a lane looks up by comparing its index with each of them."""

Cell = Any
"""A number: one of NumPy's, known at trace time; a traced scalar; or a vector of lanes."""


class Unsupported(NotImplementedError):
    """A function has an operation that lanes do not have."""


def on_lanes(function: Callable[..., Any], *arguments: Tree) -> list[np.ndarray]:
    """What a function of one user returns, for many users.

    Args:
      function: of one user.
      *arguments: pytrees of arrays of cells (`cells`) and tables.

    Returns:
      For each leaf of the result an array of cells, an object array of its shape.

    Raises:
      Unsupported: the function does what lanes cannot.
    """
    leaves, structure = jax.tree.flatten(arguments, is_leaf=_is_value)
    with jax.enable_x64(False):
        traced = jax.make_jaxpr(lambda *leaves: function(*jax.tree.unflatten(structure, leaves)))(
            *map(_abstract, leaves)
        )
        return _run(traced, leaves)


def cells(array: ArrayLike) -> np.ndarray:
    """An array of numbers that all users share, not empty, as cells."""
    held = array if isinstance(array, jax.Array) else np.asarray(array)
    found = np.empty(held.shape, object)
    for index in np.ndindex(held.shape):
        found[index] = held[index]
    return found


def cell(number: Cell) -> np.ndarray:
    """An array of shape () that holds one cell, such as a vector of lanes."""
    found = np.empty((), object)
    found[()] = number
    return found


def _is_value(x: object) -> bool:
    return isinstance(x, np.ndarray | Table)


def _abstract(value: "np.ndarray | Table") -> jax.ShapeDtypeStruct:
    if isinstance(value, Table):
        return jax.ShapeDtypeStruct(value.shape, value.dtype)
    return jax.ShapeDtypeStruct(value.shape, value.flat[0].dtype)


def _run(closed: core.ClosedJaxpr, arguments: Sequence[Any]) -> list[Any]:
    jaxpr = closed.jaxpr
    held: dict[Any, Any] = dict(zip(jaxpr.constvars, map(cells, closed.consts), strict=True))
    held.update(zip(jaxpr.invars, arguments, strict=True))

    def value(atom: core.Var | core.Literal) -> "np.ndarray | Table":
        return cells(atom.val) if isinstance(atom, core.Literal) else held[atom]

    for equation in jaxpr.eqns:
        results = _apply(equation, [value(atom) for atom in equation.invars])
        held.update(zip(equation.outvars, results, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def _apply(equation: core.JaxprEqn, arguments: list[Any]) -> list[Any]:
    """The results of an operation on cells."""
    name, params = equation.primitive.name, equation.params
    for inner in ("jaxpr", "call_jaxpr"):
        if name in _CALLS and inner in params:
            return _run(params[inner], arguments)
    if name == "call_hi_primitive":  # from jax 0.12 on, such as searchsorted: what it is made of
        avals = [atom.aval for atom in equation.invars]
        return _run(jax.make_jaxpr(params["_prim"].expand)(*avals), arguments)
    if any(isinstance(x, Table) for x in arguments):
        rule = _OF_TABLES.get(name)
    elif name in _STRUCTURE:
        rule = _STRUCTURE[name]
    elif name in _ELEMENTWISE:
        return [_each(_special(equation), *arguments)]
    else:
        rule = None
    if rule is None:
        raise Unsupported(f"lanes have no operation {name!r}.")
    return [rule(equation, *arguments)]


def _aval(equation: core.JaxprEqn) -> Any:
    """The shape and dtype of the one result of an operation."""
    (out,) = equation.outvars
    return out.aval


def _each(function: Callable[..., Cell], *arrays: np.ndarray) -> np.ndarray:
    """An elementwise function of arrays of cells."""
    arrays = tuple(np.broadcast_arrays(*arrays))
    found = np.empty(arrays[0].shape, object)
    for index in np.ndindex(found.shape):
        found[index] = function(*(array[index] for array in arrays))
    return found


def _bind(equation: core.JaxprEqn, *numbers: Cell) -> Cell:
    """An operation on cells: at trace time where all are known, else on lanes of one shape."""
    params = dict(equation.params)
    if equation.primitive.name == _CONVERT:
        params["sharding"] = None
    if all(map(_known, numbers)):
        with jax.ensure_compile_time_eval():
            made = equation.primitive.bind(*map(jnp.asarray, numbers), **params)
        return np.asarray(made)[()]
    return equation.primitive.bind(*_alike(*numbers), **params)


def _alike(*numbers: Cell) -> list[jax.Array]:
    """Cells as arrays of one shape."""
    shape = np.broadcast_shapes(*(np.shape(number) for number in numbers))
    return [jnp.broadcast_to(jnp.asarray(number), shape) for number in numbers]


def _special(equation: core.JaxprEqn) -> Callable[..., Cell]:
    """The function of cells that an elementwise operation is, with what Mosaic has for it."""
    name, dtype = equation.primitive.name, _aval(equation).dtype
    kinds = [v.aval.dtype for v in equation.invars] + [dtype]  # pyright: ignore[reportAttributeAccessIssue]
    floats = [jnp.issubdtype(kind, jnp.floating) for kind in kinds]
    if any(floats) and name not in _EXACT and not (name == _CONVERT and floats == [False, True]):
        # Two compilers may round, contract or saturate in two ways.
        raise Unsupported(f"lanes have no {name!r} of floats that is the same bits everywhere.")
    if name == "population_count":
        return _population_count
    if name == "select_n":
        return lambda which, *options: _pick(options, which)
    if name in _TOTAL_ORDER:
        return _TOTAL_ORDER[name]
    if name.startswith("shift_"):
        return functools.partial(_shift, equation)
    if name == "sign":
        return _sign
    if dtype == jnp.bool_ and name == "not":
        return lambda x: _chosen(x, np.int32(0), np.int32(1)) != np.int32(0)
    if dtype == jnp.bool_ and name == _CONVERT:
        return lambda x: x if x.dtype == jnp.bool_ else x != np.zeros((), x.dtype)
    return functools.partial(_bind, equation)


def _known(number: Cell) -> bool:
    """Whether a cell is a number that is known at trace time."""
    return isinstance(number, np.generic | np.ndarray)


def _chosen(condition: Cell, yes: Cell, no: Cell) -> Cell:
    """`where(condition, yes, no)`."""
    if _known(condition):
        return yes if condition else no
    condition, yes, no = _alike(condition, yes, no)
    return lax.select(condition, yes, no)


def _pick(options: Sequence[Cell], which: Cell) -> Cell:
    """`options[which]`, by a comparison with each of their places; `which` is in range."""
    if which.dtype == jnp.bool_:
        return _chosen(which, options[1], options[0])
    found = options[0]
    for place, option in enumerate(options[1:], 1):
        found = _chosen(which >= np.asarray(place, which.dtype), option, found)
    return found


def _population_count(x: Cell) -> Cell:
    """The number of bits that are 1, by sums of pairs, quarters, bytes (Warren, figure 5-2)."""
    if x.dtype.itemsize != 4:
        raise Unsupported(f"lanes do not count the bits of {x.dtype}.")
    if _known(x):
        return np.asarray(x.view(np.uint32).item().bit_count(), x.dtype)[()]
    u = np.uint32
    n = x.astype(jnp.uint32)
    n = n - ((n >> u(1)) & u(0x55555555))
    n = (n & u(0x33333333)) + ((n >> u(2)) & u(0x33333333))
    n = (n + (n >> u(4))) & u(0x0F0F0F0F)
    return ((n * u(0x01010101)) >> u(24)).astype(x.dtype)


def _sign(x: Cell) -> Cell:
    """-1, 0 or 1, of integers."""
    zero, one = np.zeros((), x.dtype)[()], np.ones((), x.dtype)[()]
    positive = _chosen(x > zero, one, zero)
    if not jnp.issubdtype(x.dtype, jnp.signedinteger):
        return positive
    return _chosen(x < zero, -one, positive)


def _total(x: Cell) -> Cell:
    """Integers in the total order of floats: -NaN, -inf, .., -0, +0, .., inf, NaN."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    if x.dtype.itemsize != 4:
        raise Unsupported(f"lanes have no total order of {x.dtype}.")
    known = _known(x)
    bits = x.view(np.int32) if known else lax.bitcast_convert_type(x, jnp.int32)
    return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


def _compared(compare: Callable[[Cell, Cell], Cell], x: Cell, y: Cell) -> Cell:
    """A comparison of floats in the total order, as vectors: Mosaic sees no bits of scalars."""
    if not (_known(x) and _known(y)):
        x, y = _alike(x, y)
    return compare(_total(x), _total(y))


_TOTAL_ORDER = {
    "le_to": functools.partial(_compared, operator.le),
    "lt_to": functools.partial(_compared, operator.lt),
}
"""Comparisons of a binary search among floats, which Mosaic lacks."""


def _shift(equation: core.JaxprEqn, x: Cell, by: Cell) -> Cell:
    """A shift. By 32 bits or more, XLA shifts all of them out, and LLVM does what it likes."""
    if _known(by) and 0 <= by < 32:
        return _bind(equation, x, by)
    within = by < np.asarray(32, by.dtype)
    if jnp.issubdtype(by.dtype, jnp.signedinteger):
        within = within & (by >= np.zeros((), by.dtype))
    if equation.primitive.name == "shift_right_arithmetic":
        return _bind(equation, x, _chosen(within, by, np.asarray(31, by.dtype)))
    moved = _bind(equation, x, by & np.asarray(31, by.dtype))
    return _chosen(within, moved, np.zeros((), x.dtype))


def _reduced(
    combine: Callable[[Cell, Cell], Cell], equation: core.JaxprEqn, x: np.ndarray
) -> np.ndarray:
    """A reduction, in the order of the cells."""
    if jnp.issubdtype(_aval(equation).dtype, jnp.floating):
        raise Unsupported("lanes do not reduce floats: the order, so the result, may be another.")
    for axis in sorted(equation.params["axes"], reverse=True):
        parts = np.moveaxis(x, axis, 0)
        if len(parts) == 0:
            raise Unsupported("lanes do not reduce what is empty.")
        x = functools.reduce(lambda a, b: _each(combine, a, b), (_array(part) for part in parts))
    return x


def _array(x: Cell) -> np.ndarray:
    """NumPy's indexing gives the cell itself where no axis is left."""
    return x if isinstance(x, np.ndarray) and x.dtype == object else cell(x)


def _minimum(x: Cell, y: Cell) -> Cell:
    return _chosen(y < x, y, x)


def _maximum(x: Cell, y: Cell) -> Cell:
    return _chosen(y > x, y, x)


def _sliced(equation: core.JaxprEqn, x: np.ndarray) -> np.ndarray:
    params = equation.params
    strides = params["strides"] or [1] * x.ndim
    ranges = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return x[tuple(slice(*each) for each in ranges)]


def _broadcast(equation: core.JaxprEqn, x: np.ndarray) -> np.ndarray:
    shape = [1] * len(equation.params["shape"])
    for axis, size in zip(equation.params["broadcast_dimensions"], x.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(x.reshape(shape), equation.params["shape"])


def _reshaped(equation: core.JaxprEqn, x: np.ndarray) -> np.ndarray:
    return x.reshape(_aval(equation).shape)


def _iota(equation: core.JaxprEqn) -> np.ndarray:
    params = equation.params
    shape, axis = params["shape"], params["dimension"]
    line = np.arange(shape[axis], dtype=params["dtype"])
    line = line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return cells(np.broadcast_to(line, shape))


def _looked_up(equation: core.JaxprEqn, x: "np.ndarray | Table", *index: np.ndarray) -> np.ndarray:
    """`dynamic_slice`, entry by entry; its place is moved into range as in XLA."""
    sizes = equation.params["slice_sizes"]
    place: Cell = np.int32(0)
    for size, taken, start in zip(x.shape, sizes, index, strict=True):
        each, last = start.item(), np.int32(size - taken)
        inside = _minimum(_maximum(each, np.zeros((), each.dtype)[()]), last.astype(each.dtype))
        place = place * np.int32(size) + inside.astype(jnp.int32)
    found = np.empty(sizes, object)
    for offset in np.ndindex(sizes):
        found[offset] = _entry(x, place + np.int32(np.ravel_multi_index(offset, x.shape)))
    return found


def _entry(x: "np.ndarray | Table", place: Cell) -> Cell:
    """One entry of an array, by its place in the flattened one."""
    if isinstance(x, Table):
        return x.read(place)
    if _known(place):
        return x.flat[int(place)]
    if x.size <= FEW_ENTRIES:
        return _pick(list(x.flat), place)
    raise Unsupported(f"lanes look up entries of {FEW_ENTRIES} cells at most, got {x.size}.")


def _same_table(equation: core.JaxprEqn, x: Table) -> Table:
    """A table in another shape."""
    return dataclasses.replace(x, shape=_aval(equation).shape)


_CONVERT = "convert_element_type"
_EXACT = frozenset("abs eq ge gt le le_to lt lt_to ne neg select_n".split())
"""What is exact on floats; of conversions, that from integers is, which rounds to nearest."""

_CALLS = frozenset("jit pjit closed_call core_call custom_jvp_call custom_vjp_call".split())
_ELEMENTWISE = frozenset(
    "abs add and clamp convert_element_type div eq ge gt le le_to lt lt_to max min mul ne neg not "
    "or population_count rem select_n shift_left shift_right_arithmetic shift_right_logical sign "
    "sub xor".split()
)
_STRUCTURE: dict[str, Callable[..., np.ndarray]] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda e, *x: np.concatenate(x, e.params["dimension"]),
    "dynamic_slice": _looked_up,
    "expand_dims": _reshaped,
    "iota": _iota,
    "reduce_and": functools.partial(_reduced, lambda x, y: x & y),
    "reduce_max": functools.partial(_reduced, _maximum),
    "reduce_min": functools.partial(_reduced, _minimum),
    "reduce_or": functools.partial(_reduced, lambda x, y: x | y),
    "reduce_sum": functools.partial(_reduced, lambda x, y: x + y),
    "reduce_xor": functools.partial(_reduced, lambda x, y: x ^ y),
    "reshape": _reshaped,
    "rev": lambda e, x: np.flip(x, e.params["dimensions"]),
    "slice": _sliced,
    "squeeze": _reshaped,
    "stack": lambda e, *x: np.stack(x, e.params.get("axis", 0)),
    "transpose": lambda e, x: x.transpose(e.params["permutation"]),
}
_OF_TABLES: dict[str, Callable[..., Any]] = {
    "dynamic_slice": _looked_up,
    "expand_dims": _same_table,
    "reshape": _same_table,
    "squeeze": _same_table,
}

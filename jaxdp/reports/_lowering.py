"""Programs of randomizers, from what jax traces of `from_bits`."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from .._contract import Round
from ._interpreter import DTYPES, Instruction, Kind, Program

_SAME_NAME = {
    "add", "sub", "mul", "div", "rem", "neg", "abs", "sign", "min", "max", "and", "or", "xor",
    "not", "eq", "ne", "lt", "le", "gt", "ge", "floor", "sqrt", "exp", "log", "shift_left",
    "shift_right_arithmetic",
}  # fmt: skip
_RENAMED = {"shift_right_logical": "shift_right", "population_count": "ones", "round": "round"}
_REDUCTIONS = {"reduce_sum": "sum", "reduce_max": "largest", "reduce_or": "any"}
_INLINED = ("jaxpr", "call_jaxpr")


def lower(params: Round[Any], name: str) -> Program:
    """The program of what one user runs: from its words and its value to its report.

    Args:
      params: of the randomizer.
      name: what messages call it.

    Raises:
      ValueError: the randomizer computes what programs cannot.
    """
    words = jax.ShapeDtypeStruct((params.num_words,), np.uint32)

    def report(words: jax.Array, *leaves: jax.Array) -> list[jax.Array]:
        value = jax.tree.unflatten(structure, leaves)
        return jax.tree.leaves(params.from_bits(words, value))

    leaves, structure = jax.tree.flatten(params.value)
    try:
        with jax.enable_x64(False):
            return _program(jax.make_jaxpr(report)(words, *leaves))
    except NotImplementedError as error:
        raise ValueError(
            f"{name} cannot be run without jax: it computes {error}. Take a randomizer of "
            "integers, such as KRR, Laplace or CandidateResponse."
        ) from None


def _kind(aval: Any) -> Kind:
    dtype = str(aval.dtype)
    if dtype not in DTYPES:
        raise NotImplementedError(f"with numbers of type {dtype}")
    return Kind(dtype, tuple(aval.shape))


def _program(closed: Any) -> Program:
    """The program of a closed jaxpr: constants are found first, for their numbers come first."""
    constants: list[np.ndarray] = []
    steps: list[tuple[str, Kind, list[Any], dict[str, Any]]] = []
    outputs = _walk(
        closed.jaxpr,
        [("constant", _held(constants, value)) for value in closed.consts],
        [("input", i) for i in range(len(closed.jaxpr.invars))],
        constants,
        steps,
    )
    first = len(closed.jaxpr.invars)
    start = {"input": 0, "constant": first, "result": first + len(constants)}

    def number(place: tuple[str, int]) -> int:
        return start[place[0]] + place[1]

    code = tuple(
        Instruction(operation, kind, tuple(map(number, operands)), options)
        for operation, kind, operands, options in steps
    )
    inputs = tuple(_kind(variable.aval) for variable in closed.jaxpr.invars)
    return Program(inputs, tuple(constants), code, tuple(map(number, outputs)))


def _held(constants: list[np.ndarray], value: Any) -> int:
    """The number of a constant, which is added unless it is there."""
    array = np.asarray(value)
    if str(array.dtype) not in DTYPES:
        raise NotImplementedError(f"with numbers of type {array.dtype}")
    for i, other in enumerate(constants):
        if other.dtype == array.dtype and other.shape == array.shape and (other == array).all():
            return i
    constants.append(array)
    return len(constants) - 1


def _walk(
    jaxpr: Any,
    consts: Sequence[tuple[str, int]],
    inputs: Sequence[tuple[str, int]],
    constants: list[np.ndarray],
    steps: list[tuple[str, Kind, list[Any], dict[str, Any]]],
) -> list[tuple[str, int]]:
    """Writes a jaxpr's equations; returns the places of its outputs."""
    places = dict(zip(jaxpr.constvars, consts, strict=True))
    places |= zip(jaxpr.invars, inputs, strict=True)

    def place(atom: Any) -> tuple[str, int]:
        if isinstance(atom, core.Literal):
            aval: Any = atom.aval
            return "constant", _held(constants, np.asarray(atom.val, aval.dtype))
        return places[atom]

    def write(operation: str, kind: Kind, operands: list[Any], **options: Any) -> tuple[str, int]:
        steps.append((operation, kind, operands, options))
        return "result", len(steps) - 1

    for eqn in jaxpr.eqns:
        operands = [place(atom) for atom in eqn.invars]
        name = eqn.primitive.name
        inner = next((eqn.params[k] for k in _INLINED if k in eqn.params), None)
        if name == "call_hi_primitive":  # of jax from 0.12 on, such as searchsorted
            inner = jax.make_jaxpr(eqn.params["_prim"].expand)(*(x.aval for x in eqn.invars))
        if inner is not None and name != "scan":
            held = [("constant", _held(constants, value)) for value in inner.consts]
            found = _walk(inner.jaxpr, held, operands, constants, steps)
        elif all(kind == "constant" for kind, _ in operands) and not name.startswith("random"):
            values = [constants[i] for _, i in operands]
            found = [("constant", _held(constants, x)) for x in _evaluated(eqn, values)]
        elif name in ("optimization_barrier", "random_wrap", "random_unwrap"):
            found = operands
        elif name in ("scan", "sort"):
            found = _several(eqn, operands, write)
        elif name in ("le_to", "lt_to"):
            kind = _kind(eqn.outvars[0].aval)
            shift, mask = (("constant", _held(constants, np.int32(x))) for x in (31, 2**31 - 1))
            found = [write(name[:2], kind, _in_total_order(eqn, operands, shift, mask, write))]
        elif name == "unstack":
            found = _unstacked(eqn, operands[0], write)
        elif name == "stack":
            kind, axis = _kind(eqn.outvars[0].aval), eqn.params["axis"]
            shape = (*kind.shape[:axis], 1, *kind.shape[axis + 1 :])
            parts = [write("reshape", Kind(kind.dtype, shape), [x]) for x in operands]
            found = [write("join", kind, parts, axis=axis)]
        else:
            kind = _kind(eqn.outvars[0].aval)
            operation, operands, options = _translated(eqn, operands, kind)
            found = [write(operation, kind, operands, **options)]
        places |= zip(eqn.outvars, found, strict=True)
    return [place(atom) for atom in jaxpr.outvars]


def _evaluated(eqn: Any, values: list[np.ndarray]) -> list[Any]:
    """What an equation of constants makes."""
    found = eqn.primitive.bind(*values, **eqn.params)
    return list(found) if eqn.primitive.multiple_results else [found]


def _several(eqn: Any, operands: list[Any], write: Callable[..., Any]) -> list[Any]:
    """An equation that makes several values."""
    given = eqn.params
    kinds = [_kind(variable.aval) for variable in eqn.outvars]
    if eqn.primitive.name == "sort":
        if given["num_keys"] != 1:
            raise NotImplementedError("an order by several keys")
        whole = write("sort", kinds[0], operands, axis=given["dimension"])
    else:
        if given["reverse"]:
            raise NotImplementedError("a loop from the last row on")
        if "num_consts" in given:
            constants, state = given["num_consts"], given["num_carry"]
        else:  # jax from 0.12 on
            constants, state = map(len, given["ft_in"].unpack()[:2])
        options = {"constants": constants, "state": state}
        body, steps = _program(given["jaxpr"]), given["length"]
        whole = write("loop", kinds[0], operands, body=body, steps=steps, **options)
    return [write("part", kind, [whole], number=i) for i, kind in enumerate(kinds)]


def _unstacked(eqn: Any, operand: Any, write: Callable[..., Any]) -> list[Any]:
    """The slices of an array along an axis, without it."""
    shape, axis = tuple(eqn.invars[0].aval.shape), eqn.params["axis"]
    kind = _kind(eqn.outvars[0].aval)
    whole = Kind(kind.dtype, (*shape[:axis], 1, *shape[axis + 1 :]))
    found = []
    for place in range(shape[axis]):
        start, stop = [0] * len(shape), list(shape)
        start[axis], stop[axis] = place, place + 1
        options = {"start": start, "stop": stop, "step": [1] * len(shape)}
        found.append(write("reshape", kind, [write("slice", whole, [operand], **options)]))
    return found


def _in_total_order(
    eqn: Any, operands: list[Any], shift: Any, mask: Any, write: Callable[..., Any]
) -> list[Any]:
    """Integers in the order of floats, -0.0 before 0.0: their bits, those below 0 turned round."""
    turned = []
    for x, variable in zip(operands, eqn.invars, strict=True):
        if str(variable.aval.dtype) != "float32":
            return operands
        kind = Kind("int32", tuple(variable.aval.shape))
        bits = write("bits", kind, [x])
        sign = write("shift_right_arithmetic", kind, [bits, shift])
        turned.append(write("xor", kind, [bits, write("and", kind, [sign, mask])]))
    return turned


def _translated(eqn: Any, operands: list[Any], kind: Kind) -> tuple[str, list[Any], dict[str, Any]]:
    """The operation of an equation, what it reads, and its options."""
    name, given = eqn.primitive.name, eqn.params
    rank = len(eqn.invars[0].aval.shape)
    if name in _SAME_NAME:
        return name, operands, {}
    if name in _RENAMED:
        if name == "round" and given["rounding_method"] != jax.lax.RoundingMethod.TO_NEAREST_EVEN:
            raise NotImplementedError("with numbers rounded away from zero")
        return _RENAMED[name], operands, {}
    if name in _REDUCTIONS:
        return _REDUCTIONS[name], operands, {"axes": list(given["axes"])}
    match name:
        case "select_n" if len(operands) == 3:
            return "select", operands, {}
        case "convert_element_type":
            return "cast", operands, {}
        case "bitcast_convert_type":
            return "bits", operands, {}
        case "squeeze" | "reshape" | "expand_dims":
            return "reshape", operands, {}
        case "broadcast_in_dim":
            return "spread", operands, {"axes": list(given["broadcast_dimensions"])}
        case "transpose":
            return "transpose", operands, {"axes": list(given["permutation"])}
        case "concatenate":
            return "join", operands, {"axis": given["dimension"]}
        case "slice":
            step = given["strides"] or (1,) * rank
            options = {"start": given["start_indices"], "stop": given["limit_indices"]}
            return "slice", operands, {k: list(v) for k, v in (options | {"step": step}).items()}
        case "dynamic_slice":
            return "window", operands, {}
        case "gather" if _takes_rows(eqn):
            return "rows", operands, {}
        case "square":
            return "mul", operands * 2, {}
    raise NotImplementedError(f"`{name}`")


def _takes_rows(eqn: Any) -> bool:
    """Whether a gather reads whole rows of its first axis, or single entries of a vector."""
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    shape, index = (variable.aval.shape for variable in eqn.invars)
    last = tuple(range(len(index) - 1, len(index) - 1 + len(shape) - 1))
    return (
        numbers.start_index_map == (0,)
        and numbers.collapsed_slice_dims == (0,)
        and not numbers.operand_batching_dims
        and tuple(numbers.offset_dims) == last
        and index[-1] == 1
        and tuple(sizes) == (1, *shape[1:])
    )

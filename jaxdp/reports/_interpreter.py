"""Randomizers without jax: programs of a few integer operations, and NumPy to run them.

A *program* is what a user's report is made by, written down: constants, among them all tables, and
a list of instructions, each of which makes one value of those before it. `_lowering` writes it from
`from_bits`; here it is run, for one user or for many at once. Integers wrap at 32 bits as they do
on every device, floats are IEEE's of 32 bits, and so a program of integers makes the same report
everywhere.

This module imports nothing of jax: a client is to start at once.
"""

import base64
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

DTYPES = {name: np.dtype(name) for name in ("bool", "uint8", "int32", "uint32", "float32")}
"""What a value may be made of."""

Array = NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Kind:
    """The dtype and the shape of one user's value."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> "Kind":
        """Reads `[dtype, shape]`."""
        dtype, shape = data
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {sorted(DTYPES)}, got {dtype!r}.")
        return cls(dtype, tuple(map(int, shape)))

    def to_json(self) -> list[Any]:
        """`[dtype, shape]`."""
        return [self.dtype, list(self.shape)]


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One operation.

    Attributes:
      operation: its name, of `OPERATIONS`.
      kind: of the result; of the first where there are several.
      operands: the numbers of values: inputs first, then constants, then results in their order.
      options: what else the operation must know.
    """

    operation: str
    kind: Kind
    operands: tuple[int, ...]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Program:
    """How values are made of others, one after the other.

    Attributes:
      inputs: of a report: the words of a user, and the leaves of its value.
      constants: arrays.
      code: the instructions.
      outputs: the numbers of the values that are returned: the leaves of a report.
    """

    inputs: tuple[Kind, ...]
    constants: tuple[Array, ...]
    code: tuple[Instruction, ...]
    outputs: tuple[int, ...]

    @functools.cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The kind of every value: inputs, constants and results."""
        held = (Kind(str(array.dtype), array.shape) for array in self.constants)
        return (*self.inputs, *held, *(each.kind for each in self.code))

    def __call__(self, *inputs: Array) -> tuple[Array, ...]:
        """Runs the program for n users at once.

        Args:
          inputs: arrays [n, ...], of the dtypes and shapes of `inputs`.

        Returns:
          Arrays [n, ...], one for each output.
        """
        n = len(inputs[0])
        values = [*inputs, *(constant[None] for constant in self.constants)]
        with np.errstate(all="ignore"):  # integers wrap
            for each in self.code:
                values.append(_run(each, [values[i] for i in each.operands]))
        return tuple(np.broadcast_to(values[i], (n, *self.kinds[i].shape)) for i in self.outputs)

    def to_json(self) -> dict[str, Any]:
        """The program as plain values, for JSON."""
        return {
            "inputs": [kind.to_json() for kind in self.inputs],
            "constants": [_encoded(array) for array in self.constants],
            "code": [
                [each.operation, *each.kind.to_json(), list(each.operands), _plain(each.options)]
                for each in self.code
            ],
            "outputs": list(self.outputs),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Program":
        """The program that `to_json` wrote; raises ValueError unless operands precede their use."""
        inputs = tuple(map(Kind.from_json, data["inputs"]))
        constants = tuple(map(_decoded, data["constants"]))
        code, made = [], len(inputs) + len(constants)
        for operation, dtype, shape, operands, options in data["code"]:
            if operation not in OPERATIONS:
                raise ValueError(f"the program has an unknown operation {operation!r}.")
            if not all(0 <= i < made for i in operands):
                raise ValueError(f"{operation!r} reads a value that is not made yet.")
            kind = Kind.from_json((dtype, shape))
            code.append(Instruction(operation, kind, tuple(operands), _parsed(options)))
            made += 1
        if not all(0 <= i < made for i in data["outputs"]):
            raise ValueError("the program returns a value that it does not make.")
        return cls(inputs, constants, tuple(code), tuple(data["outputs"]))


def _encoded(array: Array) -> list[Any]:
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    return [str(array.dtype), list(array.shape), base64.b64encode(data).decode()]


def _decoded(data: Sequence[Any]) -> Array:
    kind, text = Kind.from_json(data[:2]), data[2]
    dtype = DTYPES[kind.dtype]
    flat = np.frombuffer(base64.b64decode(text), dtype.newbyteorder("<"))
    return flat.astype(dtype).reshape(kind.shape)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {k: v.to_json() if isinstance(v, Program) else v for k, v in options.items()}


def _parsed(options: dict[str, Any]) -> dict[str, Any]:
    return {k: Program.from_json(v) if k == "body" else v for k, v in options.items()}


def _run(each: Instruction, operands: list[Any]) -> Any:
    result = OPERATIONS[each.operation](*operands, kind=each.kind, **each.options)
    if isinstance(result, tuple):  # several values, and "part" reads them
        return result
    return np.asarray(result).astype(DTYPES[each.kind.dtype], copy=False)


def _elementwise(function: Callable[..., Any]) -> Callable[..., Array]:
    """An operation of which entry i of the result is made of entries i, or of numbers."""

    def run(*operands: Array, kind: Kind) -> Array:
        axes = [1] * len(kind.shape)
        return function(*(x.reshape(-1, *axes) if x.ndim == 1 else x for x in operands))

    return run


def _shift(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """A shift by 32 bits or more leaves nothing of a number without sign."""

    def shifted(x: Array, by: Array) -> Array:
        return np.where(by.astype(np.uint32) < 32, function(x, by & by.dtype.type(31)), 0)

    return _elementwise(shifted)


def _right(x: Array, by: Array) -> Array:
    """As of a number without sign; NumPy would repeat the sign of an int32."""
    return (x.view(np.uint32) >> by.view(np.uint32)).view(x.dtype)


def _right_arithmetic(x: Array, by: Array) -> Array:
    shifted = x.view(np.int32) >> np.minimum(by.view(np.uint32), 31).astype(np.int32)
    return shifted.view(x.dtype)


def _quotient(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return x / y
    safe = np.where(y == 0, 1, y).astype(x.dtype)
    quotient = x // safe
    # Towards zero, where NumPy rounds down; by 0 all bits are 1.
    quotient = quotient + ((x % safe != 0) & ((x < 0) != (safe < 0)))
    return np.where(y == 0, ~np.zeros_like(x), quotient)


def _remainder(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y).astype(x.dtype)))


def _cast(x: Array, *, kind: Kind) -> Array:
    target = DTYPES[kind.dtype]
    if target.kind in "iu" and x.dtype.kind == "f":
        limits = np.iinfo(target)
        whole = np.clip(np.trunc(x.astype(np.float64)), limits.min, limits.max)
        return np.nan_to_num(whole, nan=0.0).astype(target)
    return x != 0 if target.kind == "b" else x.astype(target)


def _bits(x: Array, *, kind: Kind) -> Array:
    return np.ascontiguousarray(x).view(DTYPES[kind.dtype])


def _ones(x: Array) -> Array:
    """The number of bits that are 1."""
    x = x.astype(np.uint32)
    x = x - ((x >> np.uint32(1)) & np.uint32(0x55555555))
    x = (x & np.uint32(0x33333333)) + ((x >> np.uint32(2)) & np.uint32(0x33333333))
    x = (x + (x >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return (x * np.uint32(0x01010101)) >> np.uint32(24)


def _slice(x: Array, *, kind: Kind, start: list[int], stop: list[int], step: list[int]) -> Array:
    del kind
    return x[(slice(None), *map(slice, start, stop, step))]


def _reshape(x: Array, *, kind: Kind) -> Array:
    return x.reshape(len(x), *kind.shape)


def _spread(x: Array, *, kind: Kind, axes: list[int]) -> Array:
    """Axis i becomes `axes[i]` of the result, along whose other axes all is the same."""
    shape = [1] * len(kind.shape)
    for axis, size in zip(axes, x.shape[1:], strict=True):
        shape[axis] = size
    return np.broadcast_to(x.reshape(len(x), *shape), (len(x), *kind.shape))


def _transpose(x: Array, *, kind: Kind, axes: list[int]) -> Array:
    del kind
    return x.transpose(0, *(axis + 1 for axis in axes))


def _join(*parts: Array, kind: Kind, axis: int) -> Array:
    del kind
    n = max(map(len, parts))
    return np.concatenate([np.broadcast_to(x, (n, *x.shape[1:])) for x in parts], axis + 1)


def _window(x: Array, *starts: Array, kind: Kind) -> Array:
    """The part of the result's shape that begins at `starts`, moved inside where it ends beyond."""
    n = max(map(len, (x, *starts)))
    rank = len(kind.shape)
    user = np.zeros(1, np.intp) if len(x) == 1 else np.arange(n)
    index = [user.reshape(-1, *([1] * rank))]
    for axis, (start, size) in enumerate(zip(starts, kind.shape, strict=True)):
        first = np.clip(start.astype(np.int64), 0, x.shape[axis + 1] - size)
        place = first[:, None] + np.arange(size)
        shape = [1] * rank
        shape[axis] = size
        index.append(place.reshape(len(first), *shape))
    return x[tuple(index)]


def _rows(x: Array, index: Array, *, kind: Kind) -> Array:
    """The rows of an array at the numbers in `index`; numbers outside are moved inside."""
    n = max(len(x), len(index))
    index = np.clip(index.astype(np.int64), 0, x.shape[1] - 1)
    user = np.zeros(1, np.intp) if len(x) == 1 else np.arange(n)
    found = x[user.reshape(-1, *([1] * (index.ndim - 1))), index]
    return found.reshape(n, *kind.shape)


def _reduction(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(x: Array, *, kind: Kind, axes: list[int]) -> Array:
        del kind
        dtype = None if x.dtype == bool else x.dtype
        return function(x, axis=tuple(axis + 1 for axis in axes), dtype=dtype)

    return run


def _loop(
    *operands: Array, kind: Kind, body: Program, constants: int, state: int, steps: int
) -> tuple[Array, ...]:
    """A loop whose state is made of itself, constants, and row after row of the other operands.

    Returns:
      The state after the last step, and the rows that the steps make besides.
    """
    del kind
    n = max(map(len, operands))
    every = [np.broadcast_to(x, (n, *x.shape[1:])) for x in operands]
    held, values, rows = every[:constants], every[constants:][:state], every[constants + state :]
    if n == 1 and not state:  # steps of one user are as good as users of one step
        held = [np.broadcast_to(x, (steps, *x.shape[1:])) for x in held]
        return tuple(row[None] for row in body(*held, *(x[0] for x in rows)))
    made = []
    for step in range(steps):
        values = list(body(*held, *values, *(x[:, step] for x in rows)))
        made.append(values[state:])
        values = values[:state]
    return (*values, *(np.stack(row, axis=1) for row in zip(*made, strict=True)))


def _sort(key: Array, *others: Array, kind: Kind, axis: int) -> tuple[Array, ...]:
    """A key in ascending order, equal ones as they were, and others in the order of the key."""
    del kind
    order = np.argsort(key, axis + 1, kind="stable")
    n = max(map(len, (key, *others)))
    every = (np.broadcast_to(x, (n, *x.shape[1:])) for x in (key, *others))
    return tuple(np.take_along_axis(x, order, axis + 1) for x in every)


def _part(values: tuple[Array, ...], *, kind: Kind, number: int) -> Array:
    del kind
    return values[number]


OPERATIONS: dict[str, Callable[..., Any]] = {
    **{
        name: _elementwise(function)
        for name, function in {
            "add": np.add,
            "sub": np.subtract,
            "mul": np.multiply,
            "div": _quotient,
            "rem": _remainder,
            "neg": np.negative,
            "abs": np.abs,
            "sign": np.sign,
            "min": np.minimum,
            "max": np.maximum,
            "and": np.bitwise_and,
            "or": np.bitwise_or,
            "xor": np.bitwise_xor,
            "not": np.invert,
            "eq": np.equal,
            "ne": np.not_equal,
            "lt": np.less,
            "le": np.less_equal,
            "gt": np.greater,
            "ge": np.greater_equal,
            "ones": _ones,
            "shift_right_arithmetic": _right_arithmetic,
            "select": lambda which, false, true: np.where(which, true, false),
            "round": np.rint,
            "floor": np.floor,
            "sqrt": np.sqrt,
            "exp": np.exp,
            "log": np.log,
        }.items()
    },
    "shift_left": _shift(np.left_shift),
    "shift_right": _shift(_right),
    "cast": _cast,
    "bits": _bits,
    "slice": _slice,
    "reshape": _reshape,
    "spread": _spread,
    "transpose": _transpose,
    "join": _join,
    "window": _window,
    "rows": _rows,
    "sum": _reduction(np.add.reduce),
    "largest": _reduction(np.maximum.reduce),
    "any": _reduction(np.logical_or.reduce),
    "loop": _loop,
    "sort": _sort,
    "part": _part,
}
"""By name, what makes a value of others: arrays [n, ...], or [1, ...] where all users have one."""

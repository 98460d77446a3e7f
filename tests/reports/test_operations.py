"""Every operation of a program is XLA's, at the ends of its operands' range as well."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxdp.reports._interpreter import OPERATIONS, Program
from jaxdp.reports._lowering import _program

ENDS = np.array([0, 1, 2, 3, 31, 32, 33, 2**31 - 1, -1, -2, -33, -(2**31 - 1), -(2**31)])
INT = np.repeat(ENDS, len(ENDS)).astype(np.int32), np.tile(ENDS, len(ENDS)).astype(np.int32)
UINT = INT[0].astype(np.uint32), INT[1].astype(np.uint32)
BOOL = np.array([False, False, True, True]), np.array([False, True, False, True])
_NUMBERS = np.array([0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1e-3, -7.25, 2.0**23 + 1, 1e18], np.float32)
FLOAT = np.repeat(_NUMBERS, 10), np.tile(_NUMBERS, 10)
WITHIN = np.where(np.abs(FLOAT[0]) < 2**31, FLOAT[0], 9).astype(np.float32)
ONE = np.float32(1).view(np.uint32)
CUBE = np.arange(24, dtype=np.int32).reshape(2, 3, 4) * 7 % 11
GRID = np.array([[3.0, -1.0, 2.0], [0.25, 7.0, -3.0]], np.float32)


def two(function, *kinds):
    return [(f"{function.__name__}-{kind[0].dtype}", function, kind) for kind in kinds]


def one(function, *arrays):
    return [(f"{function.__name__}-{x.dtype}", function, (x,)) for x in arrays]


def looped(state, row):
    return state * 3 + row, state - row


def window(x, i):
    return lax.dynamic_slice(x, (i, i, i), (1, 2, 3))


MEMBERS = [
    *two(lax.add, INT, UINT, FLOAT),
    *two(lax.sub, INT, UINT, FLOAT),
    *two(lax.mul, INT, UINT, FLOAT),
    *two(lax.div, INT, UINT, (FLOAT[0], np.where(FLOAT[1] == 0, 1, FLOAT[1]))),
    *two(lax.rem, INT, UINT),
    *two(lax.min, INT, UINT, FLOAT),
    *two(lax.max, INT, UINT, FLOAT),
    *two(lax.bitwise_and, INT, UINT, BOOL),
    *two(lax.bitwise_or, INT, UINT, BOOL),
    *two(lax.bitwise_xor, INT, UINT, BOOL),
    *two(lax.eq, INT, UINT, FLOAT, BOOL),
    *two(lax.ne, INT, UINT, FLOAT, BOOL),
    *two(lax.lt, INT, UINT, FLOAT),
    *two(lax.le, INT, UINT, FLOAT),
    *two(lax.gt, INT, UINT, FLOAT),
    *two(lax.ge, INT, UINT, FLOAT),
    *two(lax.shift_left, INT, UINT),
    *two(lax.shift_right_logical, INT, UINT),
    *two(lax.shift_right_arithmetic, INT, UINT),
    *one(lax.neg, INT[0], FLOAT[0]),
    *one(lax.abs, INT[0], FLOAT[0]),
    *one(lax.sign, INT[0], FLOAT[0]),
    *one(lax.bitwise_not, INT[0], UINT[0], BOOL[0]),
    *one(lax.population_count, INT[0], UINT[0]),
    *one(lax.floor, FLOAT[0]),
    *one(lax.sqrt, np.abs(FLOAT[0])),
    *one(jnp.rint, FLOAT[0]),
    ("stretched", lambda x: x / x.sum(1, keepdims=True), (GRID,)),
    ("select", lax.select, (BOOL[0], INT[0][5:9], INT[1][5:9])),
    ("select-number", lax.select, (BOOL[0][3], *INT)),
    ("int32-of-float32", lambda x: x.astype(jnp.int32), (WITHIN,)),
    ("int32-of-large-float32", lambda x: x.astype(jnp.int32), (FLOAT[0],)),
    ("int32-of-no-number", lambda x, y: (x / y).astype(jnp.int32), (FLOAT[0], 0 * FLOAT[0])),
    ("uint32-of-float32", lambda x: x.astype(jnp.uint32), (np.abs(FLOAT[0]),)),
    ("uint32-of-int32", lambda x: x.astype(jnp.uint32), (INT[0],)),
    ("int32-of-uint32", lambda x: x.astype(jnp.int32), (UINT[0],)),
    ("float32-of-uint32", lambda x: x.astype(jnp.float32), (UINT[0],)),
    ("float32-of-int32", lambda x: x.astype(jnp.float32), (INT[0],)),
    ("bool-of-int32", lambda x: x.astype(bool), (INT[0],)),
    ("int32-of-bool", lambda x: x.astype(jnp.int32), (BOOL[0],)),
    ("bits", lambda x: lax.bitcast_convert_type(x, jnp.uint32), (FLOAT[0],)),
    ("bits-back", lambda x: lax.bitcast_convert_type(x, jnp.float32), (UINT[0] >> 9 | ONE,)),
    ("slice", lambda x: lax.slice(x, (0, 1, 0), (2, 3, 4), (1, 1, 2)), (CUBE,)),
    ("reshape", lambda x: x.reshape(6, 4), (CUBE,)),
    ("spread", lambda x: lax.broadcast_in_dim(x, (4, 2, 3), (1, 2)), (GRID,)),
    ("spread-stretched", lambda x: lax.broadcast_in_dim(x, (4, 2, 3), (1, 2)), (GRID[:, :1],)),
    ("transpose", lambda x: x.transpose(2, 0, 1), (CUBE,)),
    ("join", lambda x: jnp.concatenate([x, x[:, :2]], 1), (CUBE,)),
    ("stack", lambda x: jnp.stack([x, x + 1], 1), (GRID,)),
    ("window", window, (CUBE, np.int32(1))),
    ("window-beyond", window, (CUBE, np.int32(9))),
    ("window-before", window, (CUBE, np.int32(-9))),
    ("rows", lambda x, i: x.at[i].get(mode="clip"), (CUBE, np.array([1, 0, 5, 1], np.int32))),
    ("sum-int32", lambda x: x.sum((0, 2)), (CUBE * 2**27,)),
    ("sum-float32", lambda x: x.sum(0), (GRID,)),
    ("largest-int32", lambda x: x.max(1), (-CUBE,)),
    ("largest-float32", lambda x: x.max((0, 1)), (-np.abs(GRID),)),
    ("any", lambda x: (x > 9).any(2), (CUBE,)),
    ("loop", lambda x: lax.scan(looped, jnp.int32(5), x), (CUBE[0, 0],)),
    ("loop-rows", lambda x: lax.scan(looped, x[0], x), (CUBE,)),
    ("sort", lambda x: lax.sort(x, dimension=1), (CUBE,)),
    ("sort-rows", lambda x, y: lax.sort((x, y), dimension=0, num_keys=1), (CUBE, CUBE[::-1] + 50)),
]  # fmt: skip
"""(name, function, arrays of one user)."""

WITHOUT = {"exp", "log"}
"""Functions of floats may differ in the last bit; `test_vectors` counts what that moves."""


def lowered(function, arrays) -> Program:
    return _program(jax.make_jaxpr(lambda *x: jax.tree.leaves(function(*x)))(*arrays))


def expected(function, arrays) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(*arrays))]


def operations(program: Program) -> set[str]:
    bodies = (each.options["body"] for each in program.code if "body" in each.options)
    return {each.operation for each in program.code}.union(*map(operations, bodies))


@pytest.mark.parametrize(
    ("name", "function", "arrays"), MEMBERS, ids=[name for name, *_ in MEMBERS]
)
def test_operations_are_those_of_xla(name, function, arrays):
    program = lowered(function, arrays)
    read = Program.from_json(program.to_json())
    for each in (program, read):
        made = each(*(np.asarray(x)[None] for x in arrays))
        for x, y in zip(made, expected(function, arrays), strict=True):
            np.testing.assert_array_equal(x[0], y, strict=True)
    # For many users at once, of whom each has other numbers.
    users = [np.stack([x, x]) for x in arrays]
    for x, y in zip(program(*users), expected(function, arrays), strict=True):
        np.testing.assert_array_equal(x, np.stack([y, y]), strict=True)


def test_every_operation_is_tested():
    tested = set().union(*(operations(lowered(f, arrays)) for _, f, arrays in MEMBERS))
    assert tested == OPERATIONS.keys() - WITHOUT

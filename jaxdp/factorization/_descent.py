"""First-order search for factors of low rank: matrix products only."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._lapack import qr, svd
from ._factors import column_norm

_CHECK_EVERY = 10  # steps between adjustments of the radius
_FIRST_CHANGE = 0.03  # relative, of the squared radius: down after a feasible check, half of it up
_CHANGES = (1e-3, 0.1)  # least and largest
_FASTER, _SLOWER = 1.2, 0.5  # of the change, after two checks that agree or do not
_MARGIN = 0.97  # the loss aims at this fraction of alpha, so that the maximum can be met
_UNITS = jax.lax.DotAlgorithmPreset.BF16_BF16_F32_X6


class _State(NamedTuple):
    left: jax.Array
    right: jax.Array
    optimizer: Any  # optax.OptState
    square: jax.Array  # squared radius of the column-norm balls
    change: jax.Array  # by how much the next check changes it
    was_feasible: jax.Array  # at the last check
    best: tuple[jax.Array, jax.Array]
    best_error: jax.Array
    best_norm: jax.Array
    step: jax.Array


def product(left, right):
    """left·right, in float32 on the matrix units of a GPU and with the digits of float32.

    Each factor is the sum of three bfloat16 numbers, of 24 bits in all, and six of the nine
    products of these matter: on an H100 that is 165 Tflop/s, where float32 itself has 67. A TPU
    does the same for "highest", and a CPU has no such units.
    """
    plain = functools.partial(jnp.matmul, precision="highest")
    if left.dtype != jnp.float32 or right.dtype != jnp.float32:
        return plain(left, right)
    split = functools.partial(jnp.matmul, precision=_UNITS)
    return jax.lax.platform_dependent(left, right, cuda=split, default=plain)


def _project(factor, radius):
    """Every column onto the ball of that radius."""
    norms = jnp.linalg.norm(factor, axis=0, keepdims=True)
    return factor * jnp.minimum(1.0, radius / jnp.maximum(norms, 1e-30))


def truncate(matrix, sketch, num_iterations: int = 2):
    """Balanced factors of a nearly best approximation of low rank, by subspace iteration.

    Args:
      matrix: float[m, k].
      sketch: float[k, rank], normally distributed.
      num_iterations: of the subspace.
    """
    basis = qr(product(matrix, sketch))[0]
    for _ in range(num_iterations):
        basis = qr(product(matrix, product(matrix.T, basis)))[0]
    left, values, right = svd(product(basis.T, matrix))
    root = jnp.sqrt(values)[:, None]
    return root * product(basis, left).T, root * right


def _rate(step, num_steps):
    """A cosine from 0.1 to a fiftieth of it."""
    share = jnp.minimum(step, num_steps) / num_steps
    return 0.1 * (0.02 + 0.98 * (1 + jnp.cos(jnp.pi * share)) / 2)


@jax.jit
def descend(matrix, left, right, alpha, square, num_steps):
    """Lowers the largest column norms of the factors while abs(leftᵀ·right − matrix) ≤ alpha.

    Adam on ½·Σ max(abs(leftᵀ·right − matrix) − 0.97·alpha, 0)², every step followed by the
    projection of all columns onto a ball. The ball, of squared radius `square` at first, shrinks
    while the constraint holds and grows while it does not, by steps that get longer as long as
    they go one way.

    Returns:
      The feasible factors of least norm seen, or, if none was feasible, those of least error.
    """
    import optax  # here: it takes a tenth of the time of `import jaxdp`, and only this needs it

    dtype = matrix.dtype
    norm = jnp.sqrt(column_norm(left) * column_norm(right))
    typical = norm / jnp.sqrt(jnp.asarray(left.shape[0], dtype))
    optimizer = optax.scale_by_adam(0.9, 0.99)

    def excess(left, right):
        return product(left.T, right) - matrix

    def step(state: _State) -> _State:
        error = excess(state.left, state.right)
        over = jnp.sign(error) * jnp.maximum(jnp.abs(error) - _MARGIN * alpha, 0.0)
        gradient = (
            product(state.right, over.T),
            product(state.left, over),
        )
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer step
            updates, optimizer_state = optimizer.update(gradient, state.optimizer)
        length = -typical * _rate(state.step.astype(dtype), num_steps.astype(dtype))
        updates = jax.tree.map(lambda u: length * u, updates)
        moved: Any = optax.apply_updates((state.left, state.right), updates)

        largest = jnp.max(jnp.abs(error))  # of the factors before this step
        size = column_norm(state.left) * column_norm(state.right)
        feasible, found_one = largest <= alpha, state.best_error <= alpha
        better = jnp.where(
            found_one, feasible & (size < state.best_norm), largest < state.best_error
        )
        keep = functools.partial(jnp.where, better)
        due = state.step % _CHECK_EVERY == _CHECK_EVERY - 1
        change = state.change * jnp.where(feasible == state.was_feasible, _FASTER, _SLOWER)
        change = jnp.where(due, jnp.clip(change, *_CHANGES), state.change)
        factor = jnp.where(feasible, 1 - change, 1 + change / 2)
        square = state.square * jnp.where(due, factor, 1.0)
        radius = jnp.sqrt(square)
        return _State(
            _project(moved[0], radius),
            _project(moved[1], radius),
            optimizer_state,
            square,
            change,
            jnp.where(due, feasible, state.was_feasible),
            jax.tree.map(keep, (state.left, state.right), state.best),
            keep(largest, state.best_error),
            keep(size, state.best_norm),
            state.step + 1,
        )

    ratio = jnp.sqrt(column_norm(left) / column_norm(right))
    left, right = left / ratio, right * ratio
    start = _State(
        left=left,
        right=right,
        optimizer=optimizer.init((left, right)),
        square=jnp.asarray(square, dtype),
        change=jnp.asarray(_FIRST_CHANGE, dtype),
        was_feasible=jnp.asarray(True),
        best=(left, right),
        best_error=jnp.max(jnp.abs(excess(left, right))),
        best_norm=norm**2,
        step=jnp.int32(0),
    )
    return jax.lax.while_loop(lambda state: state.step < num_steps, step, start).best


@functools.partial(jax.jit, static_argnames=("num_iterations",))
def polar(matrix, *, num_iterations: int = 28):
    """The orthogonal polar factor by Newton–Schulz; tiny singular values may stay below 1."""
    bound = jnp.sqrt(
        jnp.max(jnp.sum(jnp.abs(matrix), axis=0)) * jnp.max(jnp.sum(jnp.abs(matrix), axis=1))
    )
    start = matrix / jnp.where(bound > 0, bound, 1.0)

    def step(_, x):
        return 1.5 * x - 0.5 * product(x, product(x.T, x))

    return jax.lax.fori_loop(0, num_iterations, step, start)

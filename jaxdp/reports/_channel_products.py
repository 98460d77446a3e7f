"""Products with the table of a channel's probabilities, from its structure where it has one."""

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._lapack import cholesky, solve_by_cholesky
from .._x64 import dot
from ..randomizers._params import DrawnCountsRound

_STEPS = 200  # of conjugate gradients at most
_RESIDUAL = 1e-9  # where they end, relative


class Products(abc.ABC):
    """Products with M, float64[k, r], whose row v has the probabilities of the reports of value v.

    All of it is for the inside of an x64 block.

    Attributes:
      num_values: k.
      numbers: that a fit to one tally by Newton's method holds at a time, roughly.
      em_numbers: that one by EM holds.
    """

    num_values: int
    numbers: int
    em_numbers: int

    @abc.abstractmethod
    def law(self, point: jax.Array) -> jax.Array:
        """`Mᵀ point`, float64[r]."""

    @abc.abstractmethod
    def over(self, numbers: jax.Array) -> jax.Array:
        """`M numbers`, float64[k]."""

    @abc.abstractmethod
    def solver(self, root: jax.Array, weights: jax.Array, diagonal: jax.Array) -> Any:
        """A function that solves `(R M W Mᵀ R + D) x = b` for x.

        Args:
          root: the diagonal of R, float64[k] > 0.
          weights: that of W, float64[r] >= 0.
          diagonal: that of D, float64[k] > 0.
        """


class TableProducts(Products):
    """With the table itself."""

    def __init__(self, table: jax.Array) -> None:
        self.table = table
        self.num_values = len(table)
        self.numbers = 2 * len(table) ** 2 + 2 * table.size
        self.em_numbers = 8 * sum(table.shape)

    def law(self, point: jax.Array) -> jax.Array:
        return dot(self.table.T, point)

    def over(self, numbers: jax.Array) -> jax.Array:
        return dot(self.table, numbers)

    def solver(self, root: jax.Array, weights: jax.Array, diagonal: jax.Array) -> Any:
        scaled = root[:, None] * self.table * jnp.sqrt(weights)[None, :]
        contract = (((1,), (1,)), ((), ()))
        matrix = lax.dot_general(scaled, scaled, contract, precision=lax.Precision.HIGHEST)
        factor = cholesky(matrix + jnp.diag(diagonal))
        return lambda right: solve_by_cholesky(factor, right)


class FastProducts(Products):
    """With transforms of the channel: of Hadamard, of Fourier, or over lines of points."""

    def __init__(self, channel: DrawnCountsRound) -> None:
        assert channel.num_bins is not None
        self.channel = channel
        self.num_values = channel.num_bins
        self.numbers = 16 * (channel.num_bins + channel.num_reports)
        self.em_numbers = self.numbers
        # Laws are known up to a constant, and linear but for one.
        self._offset = channel.report_law(jnp.zeros(self.num_values, jnp.float64))
        one = jnp.zeros(self.num_values, jnp.float64).at[0].set(1.0)
        self._total = jnp.sum(channel.report_law(one))

    def law(self, point: jax.Array) -> jax.Array:
        found = self._law(point)
        return jnp.maximum(found, 0.0)  # rounded, it may be below

    def _law(self, point: jax.Array) -> jax.Array:
        moved = (jnp.sum(point) - 1.0) * self._offset
        return (self.channel.report_law(point) + moved) / self._total

    def over(self, numbers: jax.Array) -> jax.Array:
        return self.channel.over_reports(numbers) / self._total

    def solver(self, root: jax.Array, weights: jax.Array, diagonal: jax.Array) -> Any:
        """By conjugate gradients, in 10 to 20 steps: these channels treat values nearly alike."""

        def product(x: jax.Array) -> jax.Array:
            return root * self.over(weights * self._law(root * x)) + diagonal * x

        # Apart from the mean, M W Mᵀ is nearly a multiple of the identity.
        signs = jnp.where(lax.iota(jnp.int32, self.num_values) % 2 == 0, 1.0, -1.0)
        signs = signs - jnp.mean(signs)
        scale = jnp.sum(signs * self.over(weights * self._law(signs))) / self.num_values
        near = 1.0 / (scale * root**2 + diagonal)
        return lambda right: _conjugate_gradients(product, near, right)


class _Descent(NamedTuple):
    """Where conjugate gradients are."""

    point: jax.Array
    residual: jax.Array
    direction: jax.Array
    size: jax.Array
    steps: jax.Array


def _conjugate_gradients(product: Any, near: jax.Array, right: jax.Array) -> jax.Array:
    """Solves `product(x) = right`, `near` being roughly the inverse of the product's diagonal."""
    start = near * right
    size = jnp.sum(right * start)
    least = _RESIDUAL**2 * size

    def going(at: _Descent) -> jax.Array:
        return (at.size > least) & (at.steps < _STEPS)

    def step(at: _Descent) -> _Descent:
        ahead = product(at.direction)
        length = at.size / jnp.sum(at.direction * ahead)
        residual = at.residual - length * ahead
        scaled = near * residual
        size = jnp.sum(residual * scaled)
        direction = scaled + size / at.size * at.direction
        return _Descent(at.point + length * at.direction, residual, direction, size, at.steps + 1)

    zero = jnp.zeros_like(right)
    return lax.while_loop(going, step, _Descent(zero, right, start, size, jnp.int32(0))).point


def products(channel: Any) -> Products:
    """Products with a table, or with the params of a randomizer whose reports are counted."""
    if not isinstance(channel, DrawnCountsRound):
        return TableProducts(jnp.asarray(channel).astype(jnp.float64))
    assert channel.num_bins is not None
    if channel.needs_no_table:
        return FastProducts(channel)
    rows = jax.vmap(channel.report_law)(jnp.eye(channel.num_bins, dtype=jnp.float64))
    rows = jnp.maximum(rows, 0.0)  # rounded, it may be below
    return TableProducts(rows / jnp.sum(rows, axis=1, keepdims=True))

"""Workloads that are never stored: products with W and Wᵀ in nearly linear time."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .._spec import as_float64, check_int
from ._dense import check_dense


@dataclasses.dataclass(frozen=True)
class Operator:
    """A matrix W known by its products; usable under jit, vmap and grad.

    Attributes:
      shape: (m, k).
      matvec: maps float[..., k] to W·x, float[..., m].
      rmatvec: maps float[..., m] to Wᵀ·y, float[..., k].
    """

    shape: tuple[int, int]
    matvec: Callable[[jax.Array], jax.Array]
    rmatvec: Callable[[jax.Array], jax.Array]

    def dense(self) -> np.ndarray:
        """W itself, float64[m, k]."""
        check_dense(f"an operator of {self.shape[1]} columns", self.shape, "its products")
        # Products act on the last axis: row i of the identity gives column i of W.
        with jax.enable_x64(True):
            return np.asarray(self.matvec(jnp.eye(self.shape[1], dtype=jnp.float64))).T

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        del copy  # always a new array
        return np.asarray(self.dense(), dtype)

    @classmethod
    def prefix(cls, num_values: int) -> "Operator":
        """The workload `prefix` as cumulative sums.

        Args:
          num_values: k >= 1.

        Returns:
          Operator of shape (k, k).

        Example:
          >>> import jax.numpy as jnp
          >>> from jaxdp import workloads
          >>> print(workloads.Operator.prefix(3).matvec(jnp.array([1.0, 2.0, 4.0])))
          [1. 3. 7.]
        """
        k = check_int("num_values", num_values, low=1)
        return cls((k, k), lambda x: jnp.cumsum(x, axis=-1), _suffix_sums)

    @classmethod
    def difference(cls, num_values: int) -> "Operator":
        """The inverse of `prefix`: x_i − x_{i−1}, with x_{−1} = 0.

        Args:
          num_values: k >= 1.

        Returns:
          Operator of shape (k, k).

        Example:
          >>> import jax.numpy as jnp
          >>> from jaxdp import workloads
          >>> print(workloads.Operator.difference(3).matvec(jnp.array([1.0, 3.0, 7.0])))
          [1. 2. 4.]
        """
        k = check_int("num_values", num_values, low=1)
        return cls(
            (k, k),
            lambda x: jnp.diff(x, axis=-1, prepend=jnp.zeros_like(x[..., :1])),
            lambda y: -jnp.diff(y, axis=-1, append=jnp.zeros_like(y[..., :1])),
        )

    @classmethod
    def all_range(cls, num_values: int) -> "Operator":
        """The workload `all_range` as differences of cumulative sums: O(k²) instead of O(k³).

        Args:
          num_values: k in [1, 2**14].

        Returns:
          Operator of shape (k·(k + 1)/2, k).

        Example:
          >>> import jax.numpy as jnp
          >>> from jaxdp import workloads
          >>> print(workloads.Operator.all_range(2).matvec(jnp.array([1.0, 2.0])))
          [1. 3. 2.]
        """
        k = check_int("num_values", num_values, low=1, high=2**14)  # the ends of 2**27 ranges
        first, last = np.triu_indices(k)

        def matvec(x):
            # The sum over [a, b] is the sum up to b minus the sum before a.
            sums = jnp.cumsum(x, axis=-1)
            before = jnp.concatenate([jnp.zeros_like(x[..., :1]), sums], axis=-1)
            return sums[..., last] - before[..., first]

        def rmatvec(y):
            # The transpose: y enters at the first value of its range, and leaves after the last.
            ranges = jnp.zeros((*y.shape[:-1], k, k), y.dtype)
            ranges = ranges.at[..., first, last].set(y, unique_indices=True)
            enter, leave = ranges.sum(-1), ranges.sum(-2)
            return jnp.cumsum(enter, axis=-1) - jnp.cumsum(leave, axis=-1) + leave

        return cls((k * (k + 1) // 2, k), matvec, rmatvec)

    @classmethod
    def parity(cls, num_bits: int) -> "Operator":
        """All parities of d bits: the Walsh–Hadamard transform, row S read as a bit mask.

        Args:
          num_bits: d in [1, 30].

        Returns:
          Operator of shape (2**d, 2**d), equal to its transpose.

        Example:
          >>> import jax.numpy as jnp
          >>> from jaxdp import workloads
          >>> print(workloads.Operator.parity(1).matvec(jnp.array([1.0, 2.0])))
          [ 3. -1.]
        """
        d = check_int("num_bits", num_bits, low=1, high=30)

        def transform(x):
            # One butterfly for each bit: d·2**d additions instead of 4**d products.
            for bit in range(d):
                pairs = x.reshape(*x.shape[:-1], -1, 2, 2**bit)
                even, odd = pairs[..., 0, :], pairs[..., 1, :]
                x = jnp.stack([even + odd, even - odd], axis=-2).reshape(x.shape)
            return x

        return cls((2**d, 2**d), transform, transform)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> "Operator":
        """A dense matrix as an operator, to be combined with others by `kronecker`.

        Args:
          matrix: float[m, k].

        Returns:
          Operator of shape (m, k).

        Example:
          >>> import jax.numpy as jnp
          >>> from jaxdp import workloads
          >>> print(workloads.Operator.from_matrix([[1.0, 1.0]]).matvec(jnp.array([1.0, 2.0])))
          [3.]
        """
        dense = as_float64("matrix", matrix)
        if dense.ndim != 2 or dense.size == 0:
            raise ValueError(f"matrix must have shape [m, k], got {dense.shape}.")

        def product(x, matrix):
            # Cast at each call: products are as precise as what they are applied to.
            return jnp.matmul(x, jnp.asarray(matrix, x.dtype), precision="highest")

        return cls(
            (dense.shape[0], dense.shape[1]),
            lambda x: product(x, dense.T),
            lambda y: product(y, dense),
        )

    @classmethod
    def kronecker(cls, outer: "Operator", inner: "Operator") -> "Operator":
        """The Kronecker product: answers outer ⊗ inner, applied one axis at a time.

        Args:
          outer: of shape (m, k).
          inner: of shape (m', k').

        Returns:
          Operator of shape (m·m', k·k').

        Example:
          >>> import jax.numpy as jnp
          >>> from jaxdp import workloads
          >>> prefix = workloads.Operator.prefix(2)
          >>> print(workloads.Operator.kronecker(prefix, prefix).matvec(jnp.ones(4)))
          [1. 2. 2. 4.]
        """

        def both(first, second, lengths):
            def apply(x):
                # (A ⊗ B)·vec(X) = vec(A·X·Bᵀ), X of shape (k, k').
                grid = second(x.reshape(*x.shape[:-1], *lengths))
                grid = jnp.swapaxes(first(jnp.swapaxes(grid, -1, -2)), -1, -2)
                return grid.reshape(*x.shape[:-1], -1)

            return apply

        return cls(
            (outer.shape[0] * inner.shape[0], outer.shape[1] * inner.shape[1]),
            both(outer.matvec, inner.matvec, (outer.shape[1], inner.shape[1])),
            both(outer.rmatvec, inner.rmatvec, (outer.shape[0], inner.shape[0])),
        )


def _suffix_sums(y):
    # The transpose of a sum from the left is a sum from the right.
    return jnp.flip(jnp.cumsum(jnp.flip(y, axis=-1), axis=-1), axis=-1)

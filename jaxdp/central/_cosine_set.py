"""The matrices of all inner products of unit vectors, and of vectors of the unit ball."""

import dataclasses
import functools
import math
from typing import Literal

import jax
import jax.numpy as jnp

from .._spec import check_choice, check_int
from ..projections import (
    IntersectionProjection,
    bounded_diagonal,
    correlation,
    frobenius_ball,
    psd,
)
from ._convex_set import ConvexSet, Projection


@dataclasses.dataclass(frozen=True, slots=True)
class CosineSet(ConvexSet):
    """Positive semidefinite matrices with X_ii = 1, the elliptope, or with X_ii <= 1.

    Formal guarantees:
      * `project` is exact: Newton's method on the dual problem, `jaxdp.projections.correlation` or
        `bounded_diagonal`. Its point always lies in the set, and `gap` is a duality gap.
      * Complexity: `G(S) <= n E max(l, 0) <= sqrt(2) n E|g|`, l the largest eigenvalue of
        (W + W^T)/2 and g of n normals: Sudakov and Fernique's comparison with `sqrt(2) <g, u>`,
        since `|u u^T - v v^T|**2 <= 2 |u - v|**2` for unit vectors. At most `sqrt(2) n**1.5`.
      * The two splits describe one set: a positive semidefinite matrix with `|X_ij| <= 1` has
        X_ii <= 1 and a Frobenius norm of at most n. Without semidefiniteness, as Remark 6.1 of the
        paper prints it, "frobenius" would be the cube `|X_ij| <= 1`. Only `average` depends on
        them.

    Args:
      num_items: n, at least 1.
      diagonal: "one" for X_ii = 1, "at_most_one" as in Algorithm 3 of the paper.
      split: the parts that are averaged. "diagonal": semidefinite matrices, and matrices with such
        a diagonal. "frobenius", Remark 6.1: semidefinite matrices with a Frobenius norm of at most
        n, and matrices with `|X_ij| <= 1` (and X_ii = 1 for "one").

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp.central import CosineSet
      >>> found = CosineSet(2).project(jnp.array([[0.0, 2.0], [2.0, 0.0]]))
      >>> print(found.point.round(3))
      [[1. 1.]
       [1. 1.]]

    References:
      Cohen-Addad et al. (2024), Algorithms 3 and 4, Remark 6.1, Theorem 2.1.
    """

    num_items: int
    diagonal: Literal["one", "at_most_one"] = "one"
    split: Literal["diagonal", "frobenius"] = "diagonal"

    def __post_init__(self):
        check_int("num_items", self.num_items, low=1)
        check_choice("diagonal", self.diagonal, ("one", "at_most_one"))
        check_choice("split", self.split, ("diagonal", "frobenius"))

    @property
    def shape(self) -> tuple[int, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(n, n)."""
        return (self.num_items, self.num_items)

    @property
    def symmetric(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True."""
        return True

    @property
    def radius(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The trace bounds the norm: n."""
        return float(self.num_items)

    @property
    def parts(self) -> tuple[Projection, ...]:
        """The two projections of `split`."""
        one = self.diagonal == "one"
        if self.split == "diagonal":
            return psd, unit_diagonal if one else short_diagonal
        return _psd_ball(self.num_items), unit_entries if one else short_entries

    def project(
        self, x: jax.Array, *, tol: float = 1e-6, max_steps: int = 50
    ) -> IntersectionProjection:
        """The nearest point, by Newton's method on the dual."""
        enough = max(0.5 * tol**2, 8.0 * float(jnp.finfo(x.dtype).eps))
        if self.diagonal == "one":
            found = correlation(x, tol=enough, max_steps=max_steps)
        else:
            found = bounded_diagonal(x, tol=enough, max_steps=max_steps)
        return IntersectionProjection(
            found.point, jnp.zeros_like(found.gap), 2 * found.gap, found.converged, found.num_steps
        )

    def complexity_bound(self) -> float:
        """`sqrt(2) n E|g|`, g of n normals, at most `sqrt(2) n**1.5`."""
        n = self.num_items
        length = math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2)) * math.sqrt(2)
        return math.sqrt(2) * n * length


def unit_diagonal(x: jax.Array) -> jax.Array:
    """The nearest matrix with X_ii = 1."""
    return jnp.where(_on_diagonal(x), 1.0, x)


def short_diagonal(x: jax.Array) -> jax.Array:
    """The nearest matrix with X_ii <= 1."""
    return jnp.where(_on_diagonal(x), jnp.minimum(x, 1.0), x)


def short_entries(x: jax.Array) -> jax.Array:
    """The nearest matrix with |X_ij| <= 1."""
    return jnp.clip(x, -1.0, 1.0)


def unit_entries(x: jax.Array) -> jax.Array:
    """The nearest matrix with |X_ij| <= 1 and X_ii = 1."""
    return unit_diagonal(jnp.clip(x, -1.0, 1.0))


def _on_diagonal(x: jax.Array) -> jax.Array:
    return jnp.eye(x.shape[-1], dtype=bool)


@functools.lru_cache(maxsize=64)
def _psd_ball(num_items: int) -> Projection:
    def psd_ball(x):
        return frobenius_ball(psd(x), float(num_items))

    return psd_ball

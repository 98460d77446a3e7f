"""The law of the sums that the U-form of one report needs: of reports, and of their squares."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._x64 import compiled_in_float64
from ..random import Count, Fixed, standard_normal, user_words
from ..random._gamma import gamma
from ..randomizers._cap import embed
from ..randomizers._vector_sums import sum_parts
from ._one_report_params import OneReportParams


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OneReportPairsLawParams(OneReportParams):
    """`OneReportParams` for the U-form with `PrivUnitG`, where the law of the tally is known.

    The report of a user with the unit vector (head, last) is `w + head t` with `t = a - head^T w /
    (1 + last)`, w standard normal and a the coordinate along the vector. The sums over the users of
    one value need the sum and the sum of squares of their a, and, given these, the sums of w, of a
    w and of w w^T: two normal vectors, and a Wishart matrix of two degrees less by its Cholesky
    factor (Bartlett).
    """

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law: O(1) scalars for a user, O(l**2) for a value.

        Args:
          key: a key; it is folded.
          counts: Count[k], the number of users with each value.
          inputs: unused; values are bins.

        Returns:
          As `tally`, of Fixed and Count.
        """
        del inputs
        columns, radius = jnp.asarray(self.columns), jnp.asarray(self.vector.radius)
        k, dim = columns.shape
        along_key, matrix_key, size_key = (jax.random.fold_in(key, i) for i in range(3))

        def along(power):
            def part(w, _):
                a = self.vector._along(w)
                return (a if power == 1 else a * a), jnp.float32(0)

            return sum_parts(along_key, counts, part, 2, None, None)[0]

        first, second, users = along(1), along(2), counts.f64()
        order = jnp.arange(dim, dtype=jnp.int32).astype(jnp.float64)
        degrees = jnp.maximum(users[:, None] - 2 - order[None, :], 0.0)
        diagonal = jnp.sqrt(_chi_square(size_key, degrees))

        def add(number, totals):
            row = jnp.asarray(number, jnp.int32)
            w = user_words(matrix_key, Count.of(row), (dim + 2) * dim)[:]
            normals = standard_normal(w).astype(jnp.float64).reshape(dim + 2, dim)
            head, last = (x.astype(jnp.float64) for x in embed(columns[row], radius))
            n = users[row]
            found = _sums(n, first[row], second[row], head, last, normals, diagonal[row])
            return jax.tree.map(lambda x, y: x + y, totals, found)

        zero = jnp.zeros(dim, jnp.float64)
        total, squares = lax.fori_loop(0, k, add, (zero, zero))
        tally = self.vector.fixed_sum(total, counts.sum())
        bits = tally["sum"].bits
        tally["squares"] = Fixed(Count.from_float(jnp.rint(squares * 2.0**bits)), bits)
        return tally

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly."""
        dim = self.columns.shape[1]
        return 40.0 * (num_users + num_bins) + num_bins * dim * (200.0 + 8.0 * dim)


def _chi_square(key, degrees):
    """Chi-square draws of whole degrees of freedom, float64[k, l]; inside an x64 block."""
    pairs = jnp.floor(degrees / 2)
    sums = gamma(jax.random.fold_in(key, 0), Count.from_float(pairs))
    shape = degrees.shape
    w = user_words(jax.random.fold_in(key, 1), 0, int(np.prod(shape)))[:]
    normal = standard_normal(w).astype(jnp.float64).reshape(shape)
    return 2 * sums + jnp.where(degrees > 2 * pairs, normal**2, 0.0)


def _sums(n, first, second, head, last, normals, diagonal):
    """The sums over the n users of one value of their reports and of the squares, float64[l] each.

    Args:
      n: float64[].
      first: float64[], the sum of their coordinates a.
      second: float64[], the sum of the squares of these.
      head: float64[l].
      last: float64[].
      normals: float64[l + 2, l], standard.
      diagonal: float64[l], of the Cholesky factor.
    """
    dim, base = head.shape[0], 1 + last
    some = jnp.where(n > 0, 1.0, 0.0)
    common = normals[0] * some  # along the users' constant direction
    other = normals[1] * jnp.where(n > 1, 1.0, 0.0)  # along that of a less its mean
    below = jnp.tril(jnp.ones((dim, dim), bool), -1) & (diagonal > 0)[None, :]
    factor = jnp.where(below, normals[2:], 0.0)
    factor = factor + jnp.where(jnp.eye(dim, dtype=bool), diagonal[None, :], 0.0)
    size = jnp.sqrt(jnp.maximum(n, 1.0))
    spread = jnp.sqrt(jnp.maximum(second - (first / size) ** 2, 0.0))
    across = size * common
    mixed = first / size * common + spread * other  # the sum of a w
    sides = jnp.stack([common, other])
    lower, upper = jnp.sum(factor * head[:, None], axis=0), jnp.sum(sides * head[None, :], axis=1)
    turned = jnp.sum(factor * lower[None, :], axis=1) + jnp.sum(sides * upper[:, None], axis=0)
    own = jnp.sum(factor**2, axis=1) + jnp.sum(sides**2, axis=0)
    total = across + head * (first - jnp.sum(head * across) / base)
    level = second - 2 * jnp.sum(head * mixed) / base + jnp.sum(head * turned) / base**2
    squares = own + 2 * head * (mixed - turned / base) + head**2 * level
    return some * total, some * squares

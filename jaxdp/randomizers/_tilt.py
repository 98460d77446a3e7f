"""The coordinate of a report along its input, tilted from a normal: its sums in cells.

With probability `plain` the coordinate a is standard normal, otherwise it has a law of its own. Of
the users of an input whose a is tilted, the sum A and the sum of squares B of their a are drawn at
once: they are dealt to cells of a, and given the numbers n_c in the cells

    (A, B) is normal with the mean `sum_c n_c (E a, E a**2)` and the covariance `sum_c n_c Cov_c`,

Cov_c being that of (a, a**2) within a cell, exact. So the cost does not depend on the users.

*Why the law is right.* By Lindeberg's argument: the users' (a, a**2) are exchanged one by one
for normal pairs of the same mean and covariance given the cell. Let g, `|g| <= 1`, be any function
of the tally and F its mean over the m plain reports, which are independent of all else. Their law
is smooth: the sum of a coordinate is normal of variance m, and the squares about its mean are
chi-square of m - 1 degrees. Split into j groups, each of m / j reports gives one derivative of F,
at the price of the root of the group's Fisher information: `|D^j F[e, .., e]| <= (j I / m)^(j/2)`,
where `I <= 2.1 + 7.4 max(a**2, 1)` on average for the direction e = (head, 2 y head) in which the
sums and squares move with the coordinate a of a report y. An exchange keeps the terms of order 0 to
2. The third is in proportion to the third central moment c3 within the cell, the fourth to its
fourth, c4; for a smooth law and a cell of width w, `a w**4 / 120` and `w**4 / 80`. So the distance
in total variation is at most, up to terms of higher order in 1 / m,

    `(n - m) / 2 E[|c3| (3 I)**1.5 / (6 m**1.5) + (c4 + 3 var**2) (4 I)**2 / (24 m**2)]`,

and cells are used where that, from the cells' own moments, is at most 2**-17.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._contract import params
from ..random import Count, binomial

REACH, CELLS = 9.0, 96
"""The cells' range, beyond which a normal has a mass of 1e-19, and their number."""

_MERGED = 2  # neighbours that are one cell where pairs of coordinates are counted
MERGED_CELLS = CELLS // _MERGED
"""The number of wider cells, for pairs of coordinates."""


@params
class Tilt:
    """The law of the coordinate of a report along the unit vector of the input.

    Attributes:
      plain: the probability that it is standard normal.
      cells: of the rest of the law: the masses of cells, which add up to 1, and the mean and the
        central moments of order 2, 3 and 4 within each.
    """

    plain: Float[Array | np.ndarray, ""]
    cells: Float[Array | np.ndarray, "5 cells"]

    @classmethod
    def of(
        cls,
        plain: float,
        nodes: Float[np.ndarray, "cells p"],
        weights: Float[np.ndarray, "cells p"],
    ) -> "Tilt":
        """The law with masses at nodes, a quadrature in each cell; the masses need not add up."""
        masses = weights.sum(axis=1)
        share = weights / np.where(masses > 0, masses, 1.0)[:, None]
        mean = np.sum(share * nodes, axis=1)
        gaps = nodes - mean[:, None]
        moments = [np.sum(share * gaps**j, axis=1) for j in (2, 3, 4)]
        return cls(np.asarray(plain, np.float64), np.stack([masses / masses.sum(), mean, *moments]))


def quadrature(start: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss and Legendre in cells from a point on, float64[CELLS, 16] each."""
    x, w = np.polynomial.legendre.leggauss(16)
    half = REACH / CELLS / 2
    middles = start + half * (2 * np.arange(CELLS) + 1)
    return middles[:, None] + half * x, np.broadcast_to(half * w, (CELLS, 16))


class Along(NamedTuple):
    """The sums of the coordinates a of the tilted reports of each input; float64[k] each.

    Attributes:
      users: how many they are.
      first: of a.
      second: of a**2.
    """

    users: jax.Array
    first: jax.Array
    second: jax.Array


class Pairs(NamedTuple):
    """`Along` of both reports of users, all of whose reports are tilted, and the sum of products.

    Attributes:
      left: of the first report.
      right: of the second; of the same users.
      mixed: of the products of the two coordinates, float64[k].
    """

    left: Along
    right: Along
    mixed: jax.Array


def distance_of(
    plain: Float[Array, ""], others: Float[Array, ""], cells: Float[Array, "5 c"]
) -> Float[Array, ""]:
    """The bound of the module on the distance of normal sums in cells, for so many reports."""
    masses, mean, second, third, fourth = cells
    m = jnp.maximum(plain, 1.0)
    information = 2.1 + 7.4 * jnp.maximum(mean**2, 1.0)
    cubic = masses * jnp.abs(third) * (3 * information) * jnp.sqrt(3 * information) / 6
    quartic = masses * (fourth + 3 * second**2) * (4 * information) ** 2 / 24
    return others / 2 * (jnp.sum(cubic) / (m * jnp.sqrt(m)) + jnp.sum(quartic) / m**2)


def deal_to_cells(
    key: jax.Array, users: Float[Array, " k"], masses: Float[Array, " c"]
) -> Float[Array, "k c"]:
    """Multinomial numbers of users in cells, as `jaxdp.random.multinomial` draws them.

    Users are dealt to the rows of a square of cells, halving by halving, and then to the cells of
    all rows, one after the other: few steps, of which each is the draw of the same shape, so that
    there is one to compile.
    """
    k, number = users.shape[0], masses.shape[0]
    levels = (number.bit_length() - 1) // 2
    rows, width = 2**levels, -(-number // 2**levels)
    square = jnp.pad(masses, (0, rows * width - number)).reshape(rows, width)
    row = jnp.arange(rows, dtype=jnp.int32)

    # Its first row holds a group; half of it goes `stride` rows on, or at last nowhere.
    strides = np.append(rows >> np.arange(1, levels + 1), np.zeros(width)).astype(np.int32)
    places, stride = np.arange(rows), strides[:levels, None, None]
    together = places // (2 * stride) == places[:, None] // (2 * stride)
    whole = together & (places[:, None] % (2 * stride) == 0)
    of_rows = np.stack([whole & (places // stride % 2 == 0), whole]).astype(np.float64)
    halves = jnp.sum(of_rows * jnp.sum(square, axis=1)[None, None, None], axis=-1)
    rest = jnp.cumsum(square[:, ::-1], axis=1)[:, ::-1]  # of a cell and all that follow
    chances = jnp.concatenate([_over(halves[0], halves[1]), _over(square, rest).T])

    def deal(left: jax.Array, step: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        number, stride, chance = step
        spread = jnp.broadcast_to(chance[:, None], left.shape)
        drawn = binomial(jax.random.fold_in(key, number), Count.from_float(left), spread).f64()
        moved = (left - drawn)[(row - stride) % np.int32(rows)]
        return jnp.where(stride > 0, drawn + moved, moved), drawn

    steps = jnp.arange(levels + width, dtype=jnp.int32), jnp.asarray(strides), chances
    _, dealt = lax.scan(deal, jnp.zeros((rows, k), jnp.float64).at[0].set(users), steps)
    return jnp.transpose(dealt[levels:], (2, 1, 0)).reshape(k, -1)[:, :number]


def sums_of_cells(
    dealt: Float[Array, "k c"], cells: Float[Array, "5 c"], noise: Float[Array, "2 k"]
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The users of each input in cells, and the sums of their a and of a**2."""
    first, second, *covariance = _moments(dealt, cells)
    size, tilt, rest = _factor(*covariance)
    second = second + tilt * noise[0] + rest * noise[1]
    return jnp.sum(dealt, axis=1), first + size * noise[0], second


def sums_of_pairs(
    dealt: Float[Array, "k c c"], cells: Float[Array, "5 c"], noise: Float[Array, "5 k"]
) -> Pairs:
    """`sums_of_cells` of both coordinates of users in pairs of cells, and the sums of products."""
    _, mean, second, third, _ = cells
    left = Along(*sums_of_cells(jnp.sum(dealt, axis=2), cells, noise[0:2]))
    right = Along(*sums_of_cells(jnp.sum(dealt, axis=1), cells, noise[2:4]))
    # (mean + o) (mean' + o') for independent offsets
    square = mean**2
    terms = _outer(second, square) + _outer(square, second) + _outer(second, second)
    mixed = _over_pairs(dealt, _outer(mean, mean))
    spread = _over_pairs(dealt, terms)
    parts = ((dealt, noise[0:2]), (jnp.swapaxes(dealt, 1, 2), noise[2:4]))
    for numbers, normals in parts:
        _, _, variance, covariance, of_squares = _moments(jnp.sum(numbers, axis=2), cells)
        size, tilt, rest = _factor(variance, covariance, of_squares)
        # The parts of the product along the two normals that (a, a**2) is made of
        with_a = _over_pairs(numbers, _outer(second, mean))
        with_square = _over_pairs(numbers, _outer(2 * mean * second + third, mean))
        first = _over(with_a, size)
        other = _over(with_square - tilt * first, rest)
        mixed = mixed + first * normals[0] + other * normals[1]
        spread = spread - first**2 - other**2
    return Pairs(left, right, mixed + jnp.sqrt(jnp.maximum(spread, 0.0)) * noise[4])


def _moments(dealt: Float[Array, "k c"], cells: Float[Array, "5 c"]) -> tuple[jax.Array, ...]:
    """The means of the sums of a and of a**2 of users in cells, and their covariance."""
    _, mean, second, third, fourth = cells
    # a**2 - E a**2 = 2 mean o + o**2 - E o**2 for the offset o from the mean
    covariance = 2 * mean * second + third
    variance = 4 * mean * (covariance - mean * second) + fourth - second**2
    terms = mean, mean**2 + second, second, covariance, variance
    return tuple(jnp.sum(dealt * x[None], axis=1) for x in terms)


def _factor(
    variance: Float[Array, " k"], covariance: Float[Array, " k"], other: Float[Array, " k"]
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The lower Cholesky factor of 2 x 2 matrices; zeros where the first variance is 0."""
    size = jnp.sqrt(variance)
    tilt = _over(covariance, size)
    return size, tilt, jnp.sqrt(jnp.maximum(other - tilt**2, 0.0))


def _over(number: Float[Array, "*s"], size: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """The quotient, or 0 where the size is 0."""
    return jnp.where(size > 0, number / jnp.where(size > 0, size, 1.0), 0.0)


def _outer(first: Float[Array, " c"], second: Float[Array, " c"]) -> Float[Array, "c c"]:
    return first[:, None] * second[None]


def _over_pairs(dealt: Float[Array, "k c c"], terms: Float[Array, "c c"]) -> Float[Array, " k"]:
    return jnp.sum(dealt * terms[None], axis=(1, 2))


def merge_cells(cells: Float[Array, "5 cells"]) -> Float[Array, "5 merged"]:
    """Wider cells, each of a few neighbours."""
    masses, mean, second, third, fourth = cells.reshape(5, -1, _MERGED)
    total = jnp.sum(masses, axis=1)
    share = masses / jnp.where(total > 0, total, 1.0)[:, None]
    middle = jnp.sum(share * mean, axis=1)
    d = mean - middle[:, None]
    moments = (
        second + d**2,
        third + 3 * d * second + d**3,
        fourth + 4 * d * third + 6 * d**2 * second + d**4,
    )
    return jnp.stack([total, middle, *(jnp.sum(share * x, axis=1) for x in moments)])

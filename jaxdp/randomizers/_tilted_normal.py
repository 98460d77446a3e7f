"""Reports that are normal across the input: their sums, squares and products, drawn at once.

The report of an input with the unit vector u of R^(d+1) is `V = a u + W`: W is standard normal
across u, and the coordinate a, independent of W, has a *tilted* law, a mixture: with
probability `plain` a is standard normal too, so that V is a standard normal vector, whatever the
input is; otherwise it has the tilted part of the law.

Plain reports of all inputs are added up as normal vectors are. Of the others, who hold a value, the
sum A and the sum of squares B of their a say all: given these the rest is normal.

(A, B) is drawn user by user where users are few; where they are many, they are dealt to cells of a,
see `_tilt`, and the cost does not depend on them.
"""

import abc
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Float32

from .._contract import TallyLaw, Tree, Words, Work
from .._stored import stored
from .._x64 import as_float64, compiled_in_float64
from ..random import Count, part_of, standard_normal, user_words
from ..random._gamma import gamma, normal
from ._cap import direction, embed
from ._tilt import (
    CELLS,
    MERGED_CELLS,
    Along,
    Pairs,
    Tilt,
    deal_to_cells,
    distance_of,
    merge_cells,
    sums_of_cells,
    sums_of_pairs,
)
from ._vector import VectorRound
from ._vector_sums import sum_parts, sum_points

_USERS = 4  # drawn one by one in the time of a binomial draw
_FEWEST = 2**12  # plain reports for which cells are used
_DISTANCE = 2.0**-17


class TiltedNormalRound(VectorRound):
    """Base of the params whose reports are normal across the input, and tilted along it.

    Attributes:
      tilt: the law of the coordinate along the unit vector of the input.
    """

    tilt: Tilt

    @property
    @abc.abstractmethod
    def along_words(self) -> int:
        """The words of `propose_along`; static."""

    @abc.abstractmethod
    def propose_along(self, words: Words) -> tuple[Float32[Array, ""], Bool[Array, ""]]:
        """A proposal of one user's coordinate a, from its first words; whether it is accepted."""

    @property
    def rounding(self) -> float:
        """The variance that the grid adds to an entry of a report, in squared steps; static."""
        return 1 / 6  # f (1 - f) for a uniform fraction f

    @property
    @abc.abstractmethod
    def along_cost(self) -> float:
        """Words that cost as much as a coordinate that is drawn for one user."""

    @property
    def _distance(self) -> float:
        return super()._distance + _DISTANCE

    def _along_cost(self, work: Work, num_draws: float, number: float = 1) -> float:
        """Nanoseconds of the coordinates of all users, `number` for each, roughly."""
        singly = work.words(number * self.along_cost * (work.num_users + work.num_bins))
        many = work.num_users >= max(_USERS * num_draws * work.num_bins, 8 * _FEWEST)
        return min(singly, work.draws(num_draws * work.num_bins)) if many else singly

    @staticmethod
    def _many(
        total: Float[Array, ""],
        plain: Float[Array, ""],
        distance: Float[Array, ""],
        num_draws: int,
        num_inputs: int,
    ) -> Bool[Array, ""]:
        """Whether users are dealt to cells: as many as pay for it, and as its bound allows."""
        pays = total >= float(_USERS * num_draws * num_inputs)
        return pays & (plain >= _FEWEST) & (distance <= _DISTANCE)

    def _sum(self, key: jax.Array, counts: Count, inputs: jax.Array) -> Float[Array, " d"]:
        parts_key, points_key, _, cells_key = jax.random.split(key, 4)
        cells_key, noise_key = jax.random.split(cells_key)
        noise = normal(noise_key, (3, *counts.shape))
        plain, tilted = self._sums(parts_key, cells_key, counts, noise[:2])
        first = tilted.first + jnp.sqrt(plain) * noise[2]

        def axis(value):
            return *embed(value, jnp.asarray(self.radius)), jnp.float32(1)

        lengths = jnp.sqrt(counts.f64())
        return sum_points(points_key, first, lengths, inputs, axis, gaussian=True)[:-1]

    def _sum_cost(self, work: Work) -> float:
        return self._along_cost(work, CELLS + 1) + work.words(4.0 * self.dim * work.num_bins)

    def _sums(
        self,
        parts_key: jax.Array,
        cells_key: jax.Array,
        counts: Count,
        noise: Float[Array, "2 k"],
    ) -> tuple[Float[Array, " k"], Along]:
        """How many reports of each input are plain, and the sums of the others.

        Where users are few, none count as plain, and all are drawn one by one; else `noise` is what
        makes the sums normal.
        """
        users = counts.f64()
        total, (plain, cells) = jnp.sum(users), as_float64(self.tilt.plain, self.tilt.cells)
        m = plain * total
        many = self._many(total, m, distance_of(m, total - m, cells), CELLS + 1, users.shape[0])

        def attempt(words: Words, _: Tree) -> tuple[tuple[jax.Array, ...], jax.Array, jax.Array]:
            a, accepted = self.propose_along(words)
            return (a, a**2), jnp.float32(0), accepted

        few = Count.from_float(jnp.where(many, 0.0, users))
        sums, _ = sum_parts(parts_key, few, attempt, self.along_words, None, None)
        singly = (jnp.zeros_like(users), few.f64(), *sums)

        def deal(_, __):
            masses = jnp.append(plain, (1 - plain) * cells[0])
            dealt = deal_to_cells(cells_key, users, masses)
            return dealt[:, 0], *sums_of_cells(dealt[:, 1:], cells, noise)

        num_plain, *along = lax.fori_loop(0, many.astype(jnp.int32), deal, singly)
        return num_plain, Along(*along)

    @property
    def squares_law(self) -> TallyLaw[dict[str, Count]]:
        """Draws {"sum", "users", "squares"}, in O(d**2) for an input.

        The report of a user with the unit vector (head, last) is `w + head t` with `t = a - head^T
        w / (1 + last)`, w standard normal and a the coordinate along the vector. The sums over the
        users of one value need the sum and the sum of squares of their a, and, given these, the
        sums of w, of a w and of w w^T: two normal vectors, and a Wishart matrix of two degrees
        fewer by its Cholesky factor (Bartlett 1933). Plain reports need none of it: the entries of
        a sum of theirs are independent, normal and chi-square.

        A square and its root are of one parity, and so are their sums.
        """
        return TallyLaw(self._draw_squares, self._squares_cost, distance=self._distance)

    def _squares_cost(self, work: Work) -> float:
        each = self.dim * (200.0 + 8.0 * self.dim)
        return self._along_cost(work, CELLS + 1) + work.words(work.num_bins * each)

    @compiled_in_float64
    def _draw_squares(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        k, dim = inputs.shape
        along_key, matrix_key, size_key, noise_key, cells_key = jax.random.split(key, 5)
        of_cells, of_plain, of_grid = normals(noise_key, (2, k), (dim,), (2, dim))
        plain, tilted = self._sums(along_key, jax.random.fold_in(cells_key, 0), counts, of_cells)
        order = jnp.arange(dim, dtype=jnp.int32).astype(jnp.float64)
        m = jnp.sum(plain)
        degrees = jnp.append(
            tilted.users[:, None] - 2 - order[None], jnp.full((1, dim), m - 1), axis=0
        )
        drawn = chi_squares(size_key, jnp.maximum(degrees, 0.0))
        diagonal = jnp.sqrt(drawn[:-1])

        def add(number, totals):
            row = jnp.asarray(number, jnp.int32)
            normals = _normals_of(matrix_key, Count.of(row), (dim + 2, dim))
            head, last = (x.astype(jnp.float64) for x in embed(inputs[row], self.radius))
            n, first, second = (each[row] for each in tilted)
            sums = _sums_and_squares(n, first, second, head, last, normals, diagonal[row])
            return jax.tree.map(lambda x, y: x + y, totals, sums)

        common = jnp.where(m > 0, of_plain, 0.0)
        start = jnp.sqrt(m) * common, common**2 + drawn[-1]
        total, squares = lax.fori_loop(0, k, add, start)
        # Rounding to the grid adds e of mean 0 and a known variance, on average over reports, to
        # each entry v: its square grows by 2 v e + e**2.
        scale, size = float(self.grid), counts.sum()
        noise = of_grid * np.sqrt(self.rounding)
        total = jnp.rint(total * scale + noise[0] * jnp.sqrt(size.f64()))
        squares = squares * scale**2
        squares = squares + 2 * noise[1] * jnp.sqrt(squares) + size.f64() * self.rounding
        return {
            "sum": Count.from_float(total),
            "users": size,
            "squares": of_parity(squares, total),
        }

    @property
    def products_law(self) -> TallyLaw[dict[str, dict[str, Count] | Count]]:
        """Draws {"left", "right", "products"} of two reports, in O(d) for an input.

        Given its left reports, the sum S of which and the sum q of whose squared norms are known, n
        plain right reports add up to `sqrt(n) Z`, Z standard normal, and the products to `<S, Z> /
        sqrt(n)` plus a normal of variance `q - |S|**2 / n`. So users with a plain report need two
        sums only, over all inputs. Where both are plain, q and S are known too: the products are
        `<Z, Z'>` plus half the difference of two chi-squares of `(n - 1) d` degrees.

        Where both are tilted, let h and k be the directions of the two inputs in R^d, `rho = <h,
        k>` and `sigma**2 = 1 - rho**2`. A left report is `xi h + eta e + s`, where e and h span the
        plane of h and k, s is standard normal across the plane, eta standard normal, and `xi = |x|
        a + last z` for a standard normal z; a right report likewise with `e' = sigma h - rho e`.
        Their product is

            `rho (xi xi' - eta eta') + sigma (xi eta' + eta xi') + <s, s'>`.

        Sums over users of products of normals follow as above from their parts along the vectors
        (1, .., 1), a and a' of R^n, whose inner products are drawn, and from a product of two
        normal matrices of n - 3 rows across them.
        """
        return TallyLaw(self._draw_products, self._products_cost, distance=3 * self._distance)

    @property
    def _pair_draws(self) -> int:
        return 1 + 2 * CELLS + MERGED_CELLS**2

    def _products_cost(self, work: Work) -> float:
        # A million for the tree that adds up the five sums of all lanes, however few users report
        vectors = work.words(1e6 + work.num_bins * (3000.0 + 100.0 * self.dim))
        return self._along_cost(work, self._pair_draws, 2) + vectors

    def _pair_sums(
        self,
        parts_key: jax.Array,
        cells_key: jax.Array,
        counts: Count,
        noise: Float[Array, "9 k"],
    ) -> tuple[Float[Array, ""], Along, Along, Pairs]:
        """The users both of whose reports are plain, and the sums of all others.

        Those of users of whom the left report alone is tilted, or the right one, or both are.
        """
        users = counts.f64()
        k, zero = users.shape[0], jnp.zeros_like(users)
        total, (plain, cells) = jnp.sum(users), as_float64(self.tilt.plain, self.tilt.cells)
        tilted, merged, m = 1 - plain, merge_cells(cells), plain**2 * total
        distance = distance_of(m, 2 * tilted * plain * total, cells)
        distance = distance + distance_of(m, tilted**2 * total, merged)
        many = self._many(total, m, distance, self._pair_draws, k)
        half = self.along_words

        def attempt(words: Words, _: Tree) -> tuple[tuple[jax.Array, ...], jax.Array, jax.Array]:
            a, right = self.propose_along(part_of(words, 0, half))
            b, also = self.propose_along(part_of(words, half, half))
            return (a, a**2, b, b**2, a * b), jnp.float32(0), right & also

        few = Count.from_float(jnp.where(many, 0.0, users))
        sums, _ = sum_parts(parts_key, few, attempt, 2 * half, None, None)
        one = Along(zero, zero, zero)
        left, right = Along(few.f64(), *sums[:2]), Along(few.f64(), *sums[2:4])
        singly = jnp.zeros((), jnp.float64), one, one, Pairs(left, right, sums[4])

        def deal(_, __):
            pairs = (merged[0][:, None] * merged[0][None]).reshape(-1)
            alone = tilted * plain * cells[0]
            masses = [(plain**2)[None], alone, alone, tilted**2 * pairs]
            dealt = deal_to_cells(cells_key, users, jnp.concatenate(masses))
            lefts, rights, both = (dealt[:, 1 + i * CELLS :] for i in range(3))
            square = both.reshape(k, merged.shape[1], -1)
            return (
                jnp.sum(dealt[:, 0]),
                Along(*sums_of_cells(lefts[:, :CELLS], cells, noise[:2])),
                Along(*sums_of_cells(rights[:, :CELLS], cells, noise[2:4])),
                sums_of_pairs(square, merged, noise[4:]),
            )

        return lax.fori_loop(0, many.astype(jnp.int32), deal, singly)

    @compiled_in_float64
    def _draw_products(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Any]:
        k, dim = inputs[0].shape
        parts_key, cells_key, size_key, noise_key, matrix_key = jax.random.split(key, 5)
        cells_key = jax.random.fold_in(cells_key, 0)
        of_cells, noise, z, rounding = normals(noise_key, (9, k), (21, k), (4, dim + 1), (2, dim))
        m, lefts, rights, both = self._pair_sums(parts_key, cells_key, counts, of_cells)
        sides = [jax.vmap(lambda x: direction(x, self.radius))(side) for side in inputs]
        (h, norm), (g, other) = (_float64_units(*side) for side in sides)

        n, n_lefts, n_rights = both.left.users, lefts.users, rights.users
        fewer = [jnp.sum(jnp.maximum(x - 1, 0.0)) for x in (n_lefts, n_rights, n)]
        degrees = jnp.stack([n_lefts - 2, n_rights - 2, n - 3, n - 4], axis=1)
        pooled = jnp.maximum(m - 1, 0.0) * dim + fewer[2] * max(dim - 2, 0)
        pooled = jnp.stack([fewer[0] * (dim - 1), fewer[1] * (dim - 1), pooled, pooled])
        drawn = chi_squares(size_key, jnp.maximum(jnp.append(degrees, pooled[None], axis=0), 0.0))
        sizes, pooled = drawn[:-1].T, drawn[-1]
        of_lefts = _along_the_input(lefts, norm, noise[0:2], sizes[0])
        of_rights = _along_the_input(rights, other, noise[2:4], sizes[1])

        # The sums of xi, eta and their products, and then what is across the plane of h and g
        rho = jnp.sum(h * g, axis=1)
        e, sigma = _completed(h, g - rho[:, None] * h)
        planar = 1.0 if dim > 1 else 0.0  # on the line there is no eta
        xi, eta, products = _in_the_plane(both, norm, other, noise[4:], sizes[2:])
        direct = products[0, 0] - planar * products[1, 1]
        crossed = planar * (products[0, 1] + products[1, 0])
        start = jnp.sum(rho * direct + sigma * crossed) + (pooled[2] - pooled[3]) / 2
        opposite = sigma[:, None] * h - rho[:, None] * e
        along = [
            of_lefts[0][:, None] * h,
            of_rights[0][:, None] * g,
            xi[0][:, None] * h + planar * eta[0][:, None] * e,
            xi[1][:, None] * g + planar * eta[1][:, None] * opposite,
        ]
        sums = [jnp.sum(x, axis=0) for x in along]

        def add(number, state):
            row = jnp.asarray(number, jnp.int32)
            z = _normals_of(matrix_key, Count.of(row), (4, dim))
            first, second, third = h[row], g[row], e[row]
            across = [_across(z[0], first), _across(z[1], second)]
            across += [_across(_across(x, first), third) for x in (z[2], z[3])]
            users = n_lefts[row], n_rights[row], n[row], n[row]
            across = [jnp.where(x > 0, v, 0.0) for x, v in zip(users, across, strict=True)]
            sums = [
                total + jnp.sqrt(x) * v for total, x, v in zip(state[0], users, across, strict=True)
            ]
            squares = [total + jnp.sum(v**2) for total, v in zip(state[1], across, strict=False)]
            return sums, squares, state[2] + jnp.sum(across[2] * across[3])

        squares = [jnp.sum(of_lefts[1]) + pooled[0], jnp.sum(of_rights[1]) + pooled[1]]
        sums, squares, total = lax.fori_loop(0, k, add, (sums, squares, start))
        plain = jnp.where(m > 0, z[:2, :dim], 0.0)
        total = total + jnp.sum(plain[0] * plain[1])
        ends = [sums[2] + jnp.sqrt(m) * plain[0], sums[3] + jnp.sqrt(m) * plain[1]]
        for side, users in enumerate((jnp.sum(n_lefts), jnp.sum(n_rights))):
            size, facing = jnp.sqrt(jnp.maximum(users, 1.0)), z[2 + side, :dim]
            lean = jnp.sum(sums[side] * facing) / size
            left = jnp.maximum(squares[side] - jnp.sum(sums[side] ** 2) / size**2, 0.0)
            total = total + lean + jnp.sqrt(left) * z[2 + side, dim]
            ends[side] = ends[side] + sums[side]
            ends[1 - side] = ends[1 - side] + jnp.sqrt(users) * facing

        scale, size = float(self.grid), counts.sum()
        rounding = rounding * jnp.sqrt(size.f64() * self.rounding)
        left, right = (jnp.rint(x * scale + r) for x, r in zip(ends, rounding, strict=True))
        return {
            "left": {"sum": Count.from_float(left), "users": size},
            "right": {"sum": Count.from_float(right), "users": size},
            "products": Count.from_float(jnp.rint(total * scale**2)),
        }


def of_parity(values: Float[Array, "*s"], like: Float[Array, "*s"]) -> Count:
    """The whole numbers nearest to `values` of the parity of the whole numbers `like`."""
    half = Count.from_float(jnp.rint((values - like) / 2))
    return half + half + Count.from_float(like)


def normals(key: jax.Array, *shapes: tuple[int, ...]) -> list[jax.Array]:
    """Arrays of standard normals, drawn at once, so that one quantile function is compiled."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    drawn = jnp.split(normal(key, (int(ends[-1]),)), ends[:-1])
    return [part.reshape(shape) for part, shape in zip(drawn, shapes, strict=True)]


def _normals_of(key: jax.Array, number: Count | int, shape: tuple[int, ...]) -> jax.Array:
    """Standard normals in float64 from the words of one user or row; inside an x64 block."""
    words = user_words(key, number, math.prod(shape))[:]
    return stored(standard_normal(words)).astype(jnp.float64).reshape(shape)


def chi_squares(key: jax.Array, degrees: Float[Array, "k l"]) -> Float[Array, "k l"]:
    """Chi-square draws of whole degrees of freedom; inside an x64 block."""
    pairs = jnp.floor(degrees / 2)
    sums_key, normals_key = jax.random.split(key)
    sums = gamma(sums_key, Count.from_float(pairs))
    normals = _normals_of(normals_key, 0, degrees.shape)
    return 2 * sums + jnp.where(degrees > 2 * pairs, normals**2, 0.0)


def in_the_span(
    n: Float[Array, "*s"],
    first: tuple[Float[Array, "*s"], Float[Array, "*s"]],
    second: tuple[Float[Array, "*s"], Float[Array, "*s"]],
    mixed: Float[Array, "*s"],
) -> tuple[Float[Array, "3 *s"], Float[Array, "3 *s"], Float[Array, "3 *s"]]:
    """Two vectors of R^n in an orthonormal basis whose first vector is that of equal entries.

    Args:
      n: the dimension.
      first: the sum of a vector's entries, and of their squares.
      second: those of the other vector.
      mixed: the inner product of the two.

    Returns:
      The coordinates of both, and 1 or 0 for each vector of the basis that R^n has.
    """
    size = jnp.sqrt(jnp.maximum(n, 1.0))
    there = jnp.stack([n > i for i in range(3)]).astype(jnp.float64)
    means = first[0] / size, second[0] / size
    spread = jnp.sqrt(jnp.maximum(first[1] - means[0] ** 2, 0.0))
    shared = (mixed - means[0] * means[1]) / jnp.where(spread > 0, spread, 1.0)
    shared = jnp.where(spread > 0, shared, 0.0)
    own = jnp.sqrt(jnp.maximum(second[1] - means[1] ** 2 - shared**2, 0.0))
    a = jnp.stack([means[0], spread, jnp.zeros_like(spread)]) * there
    return a, jnp.stack([means[1], shared, own]) * there, there


def _along_the_input(
    along: Along, norm: Float[Array, " k"], noise: Float[Array, "2 k"], rest: Float[Array, " k"]
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """The sums of `xi = norm a + last z` over the users of each input, and of the squares.

    Args:
      along: the sums of a and a**2.
      norm: of the inputs; `last**2 = 1 - norm**2`.
      noise: standard, for z along (1, .., 1) and along the part of a across it.
      rest: the squared norm of the rest of z.
    """
    last = jnp.sqrt(jnp.maximum(1 - norm**2, 0.0))
    moments = along.first, along.second
    a, _, there = in_the_span(along.users, moments, moments, along.second)
    parts = norm[None] * a[:2] + last[None] * noise * there[:2]
    squares = jnp.sum(parts**2, axis=0) + last**2 * rest
    return jnp.sqrt(along.users) * parts[0], squares


def _in_the_plane(
    both: Pairs,
    norm: Float[Array, " k"],
    other: Float[Array, " k"],
    noise: Float[Array, "17 k"],
    sizes: Float[Array, "2 k"],
) -> tuple[Float[Array, "2 k"], Float[Array, "2 k"], Float[Array, "2 2 k"]]:
    """The sums of (xi, xi'), of (eta, eta') and of the products of (xi, eta) and (xi', eta').

    Args:
      both: the sums of the coordinates a and a' of users.
      norm: of the left inputs.
      other: of the right inputs.
      noise: standard.
      sizes: chi-squares of n - 3 and n - 4 degrees, for n users of an input.
    """
    n, *left = both.left
    a, b, there = in_the_span(n, (left[0], left[1]), both.right[1:], both.mixed)
    last, last_other = (jnp.sqrt(jnp.maximum(1 - x**2, 0.0)) for x in (norm, other))
    z = noise[:12].reshape(4, 3, -1) * there[None]
    xi, xi_other = norm[None] * a + last[None] * z[0], other[None] * b + last_other[None] * z[2]
    firsts, seconds = jnp.stack([xi, z[1]]), jnp.stack([xi_other, z[3]])
    # X^T Y of normal matrices of n - 3 rows: given X^T X = C C^T, it is C times a normal matrix.
    size, lower = jnp.sqrt(sizes[0]), jnp.sqrt(sizes[1])
    tilt, square = jnp.where(sizes[0] > 0, noise[12], 0.0), noise[13:17].reshape(2, 2, -1)
    rest = jnp.stack([size[None] * square[0], tilt[None] * square[0] + lower[None] * square[1]])
    scale = jnp.stack([jnp.stack([last * last_other, last]), jnp.stack([last_other, 1 + 0 * last])])
    products = jnp.sum(firsts[:, None] * seconds[None], axis=2) + scale * rest
    root = jnp.sqrt(n)[None]
    return root * jnp.stack([xi[0], xi_other[0]]), root * z[1::2, 0], products


def _float64_units(
    unit: Float32[Array, "k d"], norm: Float32[Array, " k"]
) -> tuple[Float[Array, "k d"], Float[Array, " k"]]:
    """Unit vectors to the last digits of float64, and norms."""
    (unit, norm) = as_float64(unit, norm)
    return unit / jnp.sqrt(jnp.sum(unit**2, axis=1, keepdims=True)), norm


def _completed(
    unit: Float[Array, "k d"], gap: Float[Array, "k d"]
) -> tuple[Float[Array, "k d"], Float[Array, " k"]]:
    """Unit vectors across others, along the gaps where they are not 0; and the gaps' norms."""
    sigma = jnp.sqrt(jnp.sum(gap**2, axis=1))
    # An axis that is far from the unit vector: the first one or the second
    rows = jnp.arange(unit.shape[1], dtype=jnp.int32)
    axis = jnp.where(jnp.abs(unit[:, :1]) < 0.8, rows[None] == 0, rows[None] == 1).astype(
        jnp.float64
    )
    axis = jnp.where(sigma[:, None] > 1e-9, gap, axis)
    axis = axis - jnp.sum(axis * unit, axis=1, keepdims=True) * unit
    size = jnp.sqrt(jnp.sum(axis**2, axis=1, keepdims=True))
    return axis / jnp.where(size > 0, size, 1.0), sigma  # on the line there is none


def _across(vector: Float[Array, " d"], unit: Float[Array, " d"]) -> Float[Array, " d"]:
    return vector - jnp.sum(vector * unit) * unit


def _sums_and_squares(
    n: Float[Array, ""],
    first: Float[Array, ""],
    second: Float[Array, ""],
    head: Float[Array, " l"],
    last: Float[Array, ""],
    normals: Float[Array, "l+2 l"],
    diagonal: Float[Array, " l"],
) -> tuple[Float[Array, " l"], Float[Array, " l"]]:
    """The sums over the n users of one value of their vectors and of the squares.

    Args:
      n: users.
      first: the sum of their coordinates a.
      second: the sum of the squares of these.
      head: of the unit vector of the value.
      last: of the unit vector.
      normals: standard.
      diagonal: of the Cholesky factor.
    """
    dim, base = head.shape[0], 1 + last
    some = jnp.where(n > 0, 1.0, 0.0)
    common = normals[0] * some  # along the constant direction of the users
    other = normals[1] * jnp.where(n > 1, 1.0, 0.0)  # along the direction of a minus its mean
    below = jnp.tril(jnp.ones((dim, dim), bool), -1) & (diagonal > 0)[None, :]
    factor = jnp.where(below, normals[2:], 0.0)
    factor = factor + jnp.where(jnp.eye(dim, dtype=bool), diagonal[None, :], 0.0)
    size = jnp.sqrt(jnp.maximum(n, 1.0))
    spread = jnp.sqrt(jnp.maximum(second - (first / size) ** 2, 0.0))
    across = size * common
    mixed = first / size * common + spread * other  # the sum of a w
    sides = jnp.stack([common, other])
    # head^T W for W = factor factor^T + common common^T + other other^T, the sum of w w^T
    lower, upper = jnp.sum(factor * head[:, None], axis=0), jnp.sum(sides * head[None, :], axis=1)
    turned = jnp.sum(factor * lower[None, :], axis=1) + jnp.sum(sides * upper[:, None], axis=0)
    diagonals = jnp.sum(factor**2, axis=1) + jnp.sum(sides**2, axis=0)
    total = across + head * (first - jnp.sum(head * across) / base)
    level = second - 2 * jnp.sum(head * mixed) / base + jnp.sum(head * turned) / base**2
    squares = diagonals + 2 * head * (mixed - turned / base) + head**2 * level
    return some * total, some * squares

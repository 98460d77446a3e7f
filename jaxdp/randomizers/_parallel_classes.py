"""Parallel classes of hyperplanes of an affine space over a small field, and sums over them.

The values are the points of the space: the entries of a point are the digits of its number to the
base g, the order of the field, the lowest first. A class is a vector a up to a factor: the one
whose last entry that is not 0 is 1. Its g hyperplanes are the points v with `<a, v> = c`, one for
each c of the field. Those of t dimensions are numbered from those with the fewest entries on:
`N_j = (g**j - 1) / (g - 1)` classes have only entries before the j-th, and the g**j from N_j on
have a 1 there, before it the digits of `class - N_j`. So a hyperplane has the number `class g + c`.

The order is a prime, where numbers are added and multiplied modulo g, or a power of two, where the
bits of a number are the coefficients of a polynomial over GF(2).
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32, UInt32

from ..random import Count, multinomial
from ._projective_geometry_points import num_points, prime_powers

MAX_ORDER = 2**10

# Irreducible polynomials over GF(2) by degree, without their leading term.
_POLYNOMIALS = (0, 0, 0x3, 0x3, 0x3, 0x5, 0x3, 0x3, 0x1B, 0x11, 0x9)


@functools.cache
def orders() -> tuple[int, ...]:
    """The primes and the powers of two up to `MAX_ORDER`."""
    powers = prime_powers(MAX_ORDER)
    return tuple(q for q in powers if q & (q - 1) == 0 or all(q % p for p in powers if p < q))


def add(
    x: UInt32[Array | np.ndarray, "*s"], y: UInt32[Array | np.ndarray, "*s"], order: int
) -> UInt32[Array | np.ndarray, "*s"]:
    """The sum of elements of the field."""
    return x ^ y if order & (order - 1) == 0 else (x + y) % np.uint32(order)


def negative(x: UInt32[Array | np.ndarray, "*s"], order: int) -> UInt32[Array | np.ndarray, "*s"]:
    """What adds up to 0 with elements of the field."""
    return x if order & (order - 1) == 0 else (np.uint32(order) - x) % np.uint32(order)


def product(
    x: UInt32[Array | np.ndarray, "*s"],
    y: UInt32[Array | np.ndarray, "*s"],
    order: int,
    entries: int = 1,
) -> UInt32[Array | np.ndarray, "*s"]:
    """The inner product of vectors, or the product of elements of the field.

    Args:
      x: vectors; their entries are the digits to the base `order`.
      y: vectors.
      order: of the field, static.
      entries: how many, static.
    """
    if order & (order - 1):
        total = x % np.uint32(order) * (y % np.uint32(order))
        for _ in range(entries - 1):
            x, y = x // np.uint32(order), y // np.uint32(order)
            total = total + x % np.uint32(order) * (y % np.uint32(order))
        return total % np.uint32(order)
    # All entries at once: x times a power of the field's generator, where y has that bit.
    bits = order.bit_length() - 1
    lowest = np.uint32(sum(1 << bits * i for i in range(entries)))
    total = x & _whole(y & lowest, bits)
    for i in range(1, bits):
        carry = (x >> np.uint32(bits - 1)) & lowest
        x = (x ^ (carry << np.uint32(bits - 1))) << np.uint32(1)
        x = x ^ (carry * np.uint32(_POLYNOMIALS[bits]))
        total = total ^ (x & _whole((y >> np.uint32(i)) & lowest, bits))
    width = bits
    while width < bits * entries:
        total = total ^ (total >> np.uint32(width))
        width *= 2
    return total & np.uint32(order - 1)


def _whole(lowest, bits: int):
    """The entries of which the lowest bit is set, with all of their bits set."""
    return (lowest << np.uint32(bits)) - lowest


def class_vector(
    number: UInt32[Array | np.ndarray, "*s"], order: int, dimension: int
) -> UInt32[Array | np.ndarray, "*s"]:
    """The vector of each class, as a number."""
    vector, ahead = number + np.uint32(1), 1  # a 1 after j digits is g**j, and N_j classes before
    for j in range(1, dimension):
        first = num_points(order, j)
        further = np.uint32(order**j - first - ahead)
        vector = vector + (number >= np.uint32(first)).astype(jnp.uint32) * further
        ahead = order**j - first
    return vector


def hyperplanes_of_points(
    numbers: Float[Array, " points"], order: int, dimension: int
) -> Float[Array, " hyperplanes"]:
    """The sum of the numbers of the points of each hyperplane; in float64, exact for integers.

    Entry by entry, points are replaced by vectors. In between, a number stands for the entries of a
    vector up to some place and those of points after it, and for what the sum of the products of
    the settled entries is: `t g` additions for each hyperplane instead of as many as it has points.
    """
    state = _up_to_the_one(lambda place: numbers, order, dimension)
    return _settle(state, order, dimension, back=False)


def points_of_hyperplanes(
    numbers: Float[Array, " hyperplanes"], order: int, dimension: int
) -> Float[Array, " points"]:
    """The sum of the numbers of the hyperplanes through each point, one of each class.

    The same way back: here c is what the entries that are not settled have to add up to, in the end
    the entry of the point where the vector has its 1.
    """
    state = _settle(numbers, order, dimension, back=True)
    point, total = lax.iota(jnp.int32, order**dimension), jnp.zeros(order**dimension)
    for j in range(dimension):
        below = np.int32(order**j)
        cell = num_points(order, j) + point % below
        total += state[cell * np.int32(order) + point // below % np.int32(order)]
    return total


def spread_over_classes(
    key: jax.Array, users: Float[Array, "points dimension"], order: int, dimension: int
) -> Float[Array, " hyperplanes"]:
    """Exact counts of hyperplanes through users' points, of random classes, in a float64 block.

    Each user draws the entries of a vector one by one, in the order of `hyperplanes_of_points`.
    Users that agree in the entries they have drawn, in the further ones of their points and in the
    sum of products so far are exchangeable. Only their number is stored, and each entry splits it
    evenly, by `g - 1` binomials: `(t - 1) (g - 1)` for each hyperplane, whatever the number of
    users.

    Args:
      key: a key; it is folded.
      users: how many have each point and, by column, a vector whose 1 is at that place.
      order: g.
      dimension: t.
    """

    def settle(place, state):
        step = _Step.of(order, dimension, place)
        going = Count.from_float(jnp.where(step.open, state, 0.0))
        drawn = multinomial(jax.random.fold_in(key, place), going, np.ones((1, order))).f64()
        entry = step.entry.astype(jnp.int32)
        return jnp.where(step.open, step.sum(lambda cell: drawn[cell, entry]), state)

    state = _up_to_the_one(lambda place: users[:, place], order, dimension)
    return lax.fori_loop(0, dimension - 1, settle, state)


def _up_to_the_one(
    numbers_of: Callable[[int], Float[Array, " points"]], order: int, dimension: int
) -> Float[Array, " hyperplanes"]:
    """The state before the first entry is settled: numbers summed over the entries after the 1.

    Args:
      numbers_of: from the place of the 1 to the numbers of the points.
      order: g.
      dimension: t.
    """
    sums = []
    for j in range(dimension):
        up_to = (
            numbers_of(j).reshape(-1, order, order**j).sum(axis=0)
        )  # by entry j, then those before
        sums.append(up_to.T.ravel())
    return jnp.concatenate(sums)


def _settle(
    state: Float[Array, " hyperplanes"], order: int, dimension: int, back: bool
) -> Float[Array, " hyperplanes"]:
    """Replaces all entries before the 1 by those of vectors, or of points where it goes back."""

    def settle(place, state):
        step = _Step.of(order, dimension, place)
        return jnp.where(step.open, step.sum(lambda cell: state[cell], back), state)

    return lax.fori_loop(0, dimension - 1, settle, state)


@dataclasses.dataclass(frozen=True)
class _Step:
    """Replaces the entry at one place; all arrays are by hyperplane.

    Attributes:
      order: g, static.
      number: the class.
      rest: c.
      open: whether the place is before the 1 of the vector.
      entry: the entry there, after the step.
      unit: what the class grows by with the entry.
    """

    order: int
    number: Int32[Array, " hyperplanes"]
    rest: UInt32[Array, " hyperplanes"]
    open: Bool[Array, " hyperplanes"]
    entry: UInt32[Array, " hyperplanes"]
    unit: Int32[Array, ""]

    @classmethod
    def of(cls, order: int, dimension: int, place: jax.Array) -> "_Step":
        """The step at a place, which may be traced."""
        cell = lax.iota(jnp.int32, order * num_points(order, dimension))
        number, rest = cell // np.int32(order), cell % np.int32(order)
        firsts = [num_points(order, j) for j in range(dimension + 1)]
        first = jnp.zeros_like(number)  # of the classes with a 1 at the same place
        for j in range(1, dimension):
            later = (number >= np.int32(firsts[j])).astype(jnp.int32)
            first += later * np.int32(firsts[j] - firsts[j - 1])
        unit = jnp.asarray([order**j for j in range(dimension)], jnp.int32)[place]
        before = number >= jnp.asarray(firsts, jnp.int32)[place + 1]
        entry = (number - first) // unit % np.int32(order)
        return cls(order, number, rest.astype(jnp.uint32), before, entry.astype(jnp.uint32), unit)

    def sum(
        self, read: Callable[[Array], Float[Array, " hyperplanes"]], back: bool = False
    ) -> Float[Array, " hyperplanes"]:
        """The sum over the entries that may have been there before.

        Args:
          read: the numbers at places in the state before.
          back: whether entries of vectors are replaced by those of points.
        """

        def add_up(entry, total):
            old = jnp.full_like(self.entry, jnp.asarray(entry).astype(jnp.uint32))
            term = product(self.entry, old, self.order)
            rest = add(self.rest, term if back else negative(term, self.order), self.order)
            moved = (old.astype(jnp.int32) - self.entry.astype(jnp.int32)) * self.unit
            cell = (self.number + moved) * np.int32(self.order) + rest.astype(jnp.int32)
            return total + read(jnp.where(self.open, cell, np.int32(0)))

        return lax.fori_loop(0, self.order, add_up, jnp.zeros(self.number.shape))

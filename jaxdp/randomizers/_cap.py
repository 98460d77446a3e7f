"""One coordinate of a rotation-symmetric vector, within a cap or outside it, in float32.

On the unit sphere in R^dim a coordinate X has the density `(1 - x**2)**((dim - 3) / 2)`. Where
`1 - x**2 = e**-t` and `z = sign(x) sqrt((dim - 3/2) t)` the density of z is
`e**(-z**2 / 2) a(t)` with `a(t) = sqrt((t/2) / sinh(t/2)) <= 1`. So z is drawn as a truncated
standard normal and kept with probability a(t), relative to its largest value on the branch. A
proposal is kept with probability 0.89, 0.98 and 0.99 at dim = 2, 3 and 4, and 1 - 1 / (16 dim**2)
for large dim; at least `(2 dim - 3) / (2 dim - 2)` within any cap.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Float32, Int32, UInt32

from .._contract import Words
from ..random._normal import truncated_normal, unit

PROPOSAL_WORDS = 2
"""Words of a proposal of a coordinate."""

_FAILURE_BITS = 64
_NO_REST = np.float32(2.0**-20)  # of a squared norm of 1, and so an error of 5e-7 of the vector


def rounds(dim: int) -> int:
    """Proposals after which a draw on the sphere in R^dim has failed with probability < 2**-64.

    Within a cap {t >= t0}: `-d/dt ln a(t) <= 1/4`, and Mills' ratio M has `z M(z)` increasing, so a
    proposal is kept with probability at least `1 / (1 + 1 / (2 (dim - 3/2)))`. Outside of a cap of
    less than one half, and without a cap, it is more.
    """
    return math.floor(_FAILURE_BITS / math.log2(2 * dim - 2)) + 1


def coordinate_words(dim: int) -> int:
    """The words of `Coordinate.draw`: two for each proposal."""
    return PROPOSAL_WORDS * rounds(dim) if dim > 1 else 1


class Coordinate(NamedTuple):
    """One coordinate of a uniform unit vector in R^dim, within a cap or outside of it.

    Attributes:
      dim: at least 1, static; a cap needs 2. On the line, dim = 1, it is a random sign.
      high: bool[], whether to draw from the cap.
      tail: float32[], the probability that a standard normal exceeds `sqrt((dim - 3/2) level)`.
      level: float32[], `-ln(1 - gamma**2)` for the cap {X >= gamma}.
    """

    dim: int
    high: bool | Bool[Array, ""] = False
    tail: float | Float32[Array | np.ndarray, ""] = 0.0
    level: float | Float32[Array | np.ndarray, ""] = 0.0

    def draw(self, words: Words, first: int) -> tuple[Float32[Array, ""], Float32[Array, ""]]:
        """A draw, from `coordinate_words(dim)` words from `first` on, read as far as needed.

        Returns:
          float32[] x, and float32[] `sqrt(1 - x**2)`; both are zero where every proposal was
          refused, which has a probability below 2**-64.
        """
        if self.dim == 1:
            return _sign(words[first]), jnp.float32(0)
        largest = self._largest()

        def again(state):
            number, _, _ = state
            place = first + PROPOSAL_WORDS * number
            return number + np.int32(1), *self._proposal(words, place, largest)

        def refused(state):
            number, _, kept = state
            return ~kept & (number < np.int32(rounds(self.dim)))

        start = again((jnp.int32(0), jnp.float32(0), jnp.asarray(False)))
        _, z, kept = lax.while_loop(refused, again, start)
        x, across = self._point(z)
        return jnp.where(kept, x, np.float32(0)), jnp.where(kept, across, np.float32(0))

    def propose(
        self, words: Words, first: int
    ) -> tuple[Float32[Array, ""], Float32[Array, ""], Bool[Array, ""]]:
        """The first proposal of `draw`, from `PROPOSAL_WORDS` words, and whether it is accepted."""
        if self.dim == 1:
            return _sign(words[first]), jnp.float32(0), jnp.asarray(True)
        z, kept = self._proposal(words, first, self._largest())
        return *self._point(z), kept

    def _largest(self) -> Float32[Array, ""]:
        """The largest a(t)**2: a(t) falls, so at the edge of the cap, elsewhere at t = 0."""
        level = jnp.maximum(jnp.asarray(self.level, jnp.float32), np.float32(1e-30))
        above, below = _squared_accept(level)
        return jnp.where(self.high, above / below, np.float32(1))

    def _proposal(
        self, words: Words, first: int | Int32[Array, ""], largest: Float32[Array, ""]
    ) -> tuple[Float32[Array, ""], Bool[Array, ""]]:
        """A proposal z, and whether it is accepted."""
        z = truncated_normal(words[first], self.high, jnp.float32(self.tail))
        above, below = _squared_accept(z * z / np.float32(self.dim - 1.5))
        return z, jnp.square(unit(words[first + 1])) * largest * below <= above

    def _point(self, z: Float32[Array, ""]) -> tuple[Float32[Array, ""], Float32[Array, ""]]:
        """The coordinate x that z stands for, and `sqrt(1 - x**2)`."""
        t = z * z / np.float32(self.dim - 1.5)
        # Not 1 - e**-t, which would cancel near the equator.
        return jnp.sign(z) * jnp.sqrt(-jnp.expm1(-t)), jnp.exp(-t / 2)


def _squared_accept(t: Float32[Array, ""]) -> tuple[Float32[Array, ""], Float32[Array, ""]]:
    """a(t)**2 = t e**(-t/2) / (1 - e**-t) as a quotient."""
    return t * jnp.exp(-t / 2), -jnp.expm1(-t)


def _sign(word: UInt32[Array, ""]) -> Float32[Array, ""]:
    return jnp.where(word >> np.uint32(31) == 0, np.float32(1), np.float32(-1))


def embed(
    value: Float[Array, " d"], radius: Float32[Array | np.ndarray, ""]
) -> tuple[Float32[Array, " d"], Float32[Array, ""]]:
    """A vector of the ball as the head and the last entry of a unit vector.

    Args:
      value: float32[d]; projected to the ball where it lies outside, zero where it holds a NaN.
      radius: float32[].

    Returns:
      float32[d] and float32[] >= 0, whose squares sum to 1.
    """
    entries, scale, last = _factors(value, np.float32(1) / jnp.asarray(radius))
    return entries * scale, last


def direction(
    value: Float[Array, " d"], radius: Float32[Array | np.ndarray, ""]
) -> tuple[Float32[Array, " d"], Float32[Array, ""]]:
    """A vector of the ball as a unit vector and its norm over the radius; see `embed`.

    Returns:
      float32[d], a unit vector, of the first axis where the value is zero; float32[] in [0, 1].
    """
    entries, scale, square = _scaled(value, np.float32(1) / jnp.asarray(radius))
    head = entries * scale
    # Over its largest entry, lest the squares of small ones underflow.
    largest = jnp.max(jnp.abs(head))
    first = (jnp.arange(head.shape[0]) == 0).astype(jnp.float32)
    tilted = jnp.where(largest > 0, head / jnp.where(largest > 0, largest, np.float32(1)), first)
    return tilted / jnp.sqrt(jnp.sum(tilted * tilted)), jnp.sqrt(square)


def axis_of(
    value: Float[Array, " d"], radius: Float32[Array | np.ndarray, ""]
) -> tuple[Float32[Array, " m"], Float32[Array, ""], Float32[Array, ""]]:
    """The direction of a vector, or its opposite, as `point` takes it; see `direction`.

    Returns:
      float32[d - 1] and float32[] >= 0, the head and the last entry of a unit vector, and
      float32[], 1 or -1, by which it is multiplied to point along the value.
    """
    unit, _ = direction(value, radius)
    sign = jnp.where(unit[-1] < 0, np.float32(-1), np.float32(1))
    return sign * unit[:-1], sign * unit[-1], sign


def _factors(
    value: Float[Array, " d"], inverse: Float32[Array, ""]
) -> tuple[Float32[Array, " d"], Float32[Array, ""], Float32[Array, ""]]:
    """`embed`, its head as the product of a vector and a number."""
    entries, scale, square = _scaled(value, inverse)
    # Of a vector as long as the radius the rest is the rounding error of its square, which differs
    # from program to program and whose root is large: 3e-4. It counts as 0.
    rest = np.float32(1) - square
    return entries, scale, jnp.where(rest > _NO_REST, jnp.sqrt(rest), np.float32(0))


def _scaled(
    value: Float[Array, " d"], inverse: Float32[Array, ""]
) -> tuple[Float32[Array, " d"], Float32[Array, ""], Float32[Array, ""]]:
    """The value over the radius, within the unit ball, and its squared norm in [0, 1].

    Large entries are clipped, so that their squares can be summed. A NaN becomes an entry that
    alone is longer than any clipped vector: the norm tells, without another pass over the entries.

    Returns:
      float32[d] and float32[], whose product it is, and float32[].
    """
    far, lost = np.float32(1e15), np.float32(1e19)  # the squares of 2**20 times far sum to 1e36
    entries = value.astype(jnp.float32) * inverse
    entries = jnp.where(entries == entries, jnp.clip(entries, -far, far), lost)
    square = jnp.sum(entries * entries)
    valid = square < np.float32(1e37)
    scale = np.float32(1) / jnp.sqrt(jnp.maximum(square, np.float32(1)))
    scale = jnp.where(valid, scale, np.float32(0))
    return entries, scale, jnp.where(valid, jnp.minimum(square, np.float32(1)), np.float32(0))


def report(
    value: Float[Array, " d"],
    inverse: Float32[Array, ""],
    along: Float32[Array, ""],
    across: Float32[Array, " d"],
    length: Float32[Array, ""] | None = None,
) -> Float32[Array, " m"]:
    """The vector with given parts along and across the unit vector of a value.

    Args:
      value: float32[d], as in `embed`.
      inverse: float32[], of the radius.
      along: float32[], as in `point`.
      across: float32[d].
      length: float32[], what `across` is stretched to; None to leave it.

    Returns:
      float32[d + 1].
    """
    return jnp.append(*report_parts(value, inverse, along, across, length))


def report_parts(
    value: Float[Array, " d"],
    inverse: Float32[Array, ""],
    along: Float32[Array, ""],
    across: Float32[Array, " d"],
    length: Float32[Array, ""] | None = None,
) -> tuple[Float32[Array, " d"], Float32[Array, ""]]:
    """`report` as its first d entries and the last one."""
    if length is not None:
        across = across * (length / jnp.sqrt(jnp.sum(across * across)))
    return _reflected(*_factors(value, inverse), along, across)


def point(
    head: Float[Array, " d"],
    last: Float[Array, ""],
    along: Float[Array, ""],
    across: Float[Array, " d"],
) -> tuple[Float[Array, " d"], Float[Array, ""]]:
    """The vector with given parts along and across a unit vector (head, last), `last >= 0`.

    A reflection that maps the last axis to the unit vector moves `(across, along)` there; nothing
    cancels, since `last >= 0`.

    Args:
      head: float[d].
      last: float[].
      along: float[], the coordinate along the unit vector.
      across: float[d], the coordinates across it, in a basis that the reflection chooses; its law
        must be rotation-symmetric.

    Returns:
      float[d] and float[], the head and the last entry of the vector.
    """
    return _reflected(head, jnp.ones((), head.dtype), last, along, across)


def _reflected(
    entries: Float[Array, " d"],
    scale: Float[Array, ""],
    last: Float[Array, ""],
    along: Float[Array, ""],
    across: Float[Array, " d"],
) -> tuple[Float[Array, " d"], Float[Array, ""]]:
    """`point` with the head `entries * scale`, which takes no pass over the users of its own."""
    shared = jnp.sum(entries * across)
    # Never NaN; but jax 0.10.2 on CPU rewrites the products of sums wrongly in batched loops over
    # users, unless something that is not linear stands between them.
    shared = jnp.where(shared == shared, shared, jnp.zeros_like(shared)) * scale
    base = jnp.ones((), entries.dtype) + last
    # Divided before the product: XLA does not compute a quotient again for each entry of the head.
    factor = (along * base - shared) / base * scale
    return across + entries * factor, last * along - shared

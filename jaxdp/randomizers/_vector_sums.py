"""Sums of rotation-symmetric reports, drawn at once from scalars.

A report is `T u + R W`: u is the direction of the user's input, W uniform on the unit sphere across
u and independent of (T, R). The sum over the users of one input is `(sum of T) u + S W`, where S is
the norm of a sum of independent vectors of lengths R and uniform directions: lengths r and s merge
to `|(r + s cos, s sin)|`, cos being a coordinate of a uniform direction. So a user costs a few
scalars, whatever the dimension, and an input one vector.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Float32, Int32

from jaxdp_kernels.threefry_words import StreamKey
from jaxdp_kernels.threefry_words.xla import joined, separated

from .._contract import Tree, Words
from .._stored import stored
from ..random import Count, standard_normal, user_words, words
from ._cap import PROPOSAL_WORDS, Coordinate, axis_of, coordinate_words, embed, point

_LANES = 2**11
_MOST, _SPARE = 4, 2**8  # attempts for each user of a lane, as if it had so many more
_BLOCK = 2**16  # numbers of the vectors that are drawn at a time


def sum_parts(
    key: jax.Array,
    counts: Count,
    attempt: Callable[[Words, Tree], tuple[Tree, jax.Array, jax.Array]],
    attempt_words: int,
    extra: Tree,
    across_dim: int | None,
) -> tuple[Tree, Float[Array, " k"]]:
    """The parts along and across of the sum of the reports of each input.

    Users are dealt to lanes, each of one input; a lane adds up its users one by one, and then the
    lanes of an input are merged by a tree. What a user is drawn from by rejection is proposed all
    at once, and a lane whose attempt is refused makes another while others go on to their next
    users: no lane waits for the slowest one.

    Args:
      key: a key; it is folded.
      counts: Count[k], the users of each input.
      attempt: (words, extra) -> T, a pytree of float32[], and float32[] R of one user, and bool[],
        whether they are accepted: with probability 0.4 at least, along with a merge.
      attempt_words: the words that `attempt` may read.
      extra: a pytree of arrays [k, ...], what `attempt` must know of an input.
      across_dim: the dimension of the space across u; None to leave out the part across.

    Returns:
      The sums of T, a pytree of float64[k], and float64[k].
    """
    users = counts.f64()
    value, first, rank, size, left, most = _deal(users)
    num_lanes = value.shape[0]
    mine = jax.tree.map(lambda x: x[value], extra)
    merge_words = 0 if across_dim is None else PROPOSAL_WORDS
    users_key, lanes_key = jax.random.split(key)
    pairs, num_words = -(-num_lanes // 2), attempt_words + merge_words
    stream = StreamKey.of(users_key)

    def blocks(number):
        """The blocks of threefry of an attempt of all lanes, complex64[num_words, pairs].

        Two lanes share each. As carried values both words of a block are computed once, where XLA
        would else repeat all rounds in each of the fusions that use one.
        """
        start = Count.of(number).times(num_words * pairs)
        offset = lax.iota(jnp.uint32, num_words * pairs).reshape(num_words, pairs)
        return joined(*stream.blocks((start.hi.astype(jnp.uint32), start.lo), offset))

    def one(words, extra, length):
        along, across, accepted = attempt(words, extra)
        if across_dim is None:
            return along, length, accepted
        cos, sin, merged = Coordinate(across_dim).propose(words, attempt_words)
        length = _merged(length, across.astype(jnp.float64), cos, sin)
        return along, length, accepted & merged

    def add(state):
        number, made, left, total, length = state
        words = jnp.concatenate(separated(made), axis=1)[:, :num_lanes]
        along, longer, accepted = jax.vmap(one, in_axes=(-1, 0, 0))(words, mine, length)
        accepted = accepted & (left > 0)

        def added(total, along):
            return total + jnp.where(accepted, along, np.float32(0)).astype(jnp.float64)

        total = jax.tree.map(added, total, along)
        length = jnp.where(accepted, longer, length)
        number = number + np.int32(1)
        return number, blocks(number), left - accepted.astype(jnp.int32), total, length

    zero = jnp.zeros(num_lanes, jnp.float64)
    word = jax.ShapeDtypeStruct((attempt_words,), jnp.uint32)
    shapes, *_ = jax.eval_shape(attempt, word, jax.tree.map(lambda x: x[0], extra))
    start = jax.tree.map(lambda _: zero, shapes)

    def unfinished(state):
        # The bound is never met, but by params that hold a NaN: with probability below 2**-400.
        return jnp.any(state[2] > 0) & (state[0] // np.int32(_MOST) < most + np.int32(_SPARE))

    number = jnp.int32(0)
    state = (number, blocks(number), left, start, zero)
    *_, along, length = lax.while_loop(unfinished, add, state)

    def longer(dim, user, length, other):
        w = user_words(lanes_key, user, coordinate_words(dim))
        return _merged(length, other, *Coordinate(dim).draw(w, 0))

    def merge(index, lane, other):
        length = lane[1]
        if across_dim is not None:
            length = jax.vmap(functools.partial(longer, across_dim))(index, length, other[1])
        return jax.tree.map(lambda x, y: x + y, lane[0], other[0]), length

    merged = _merge_lanes(merge, (along, length), rank, size)
    along, length = jax.tree.map(lambda x: jnp.where(users > 0, x[first], 0.0), merged)
    return along, jnp.sqrt(users) if across_dim is None else length


class _Lanes(NamedTuple):
    value: Int32[Array, " lanes"]  # the input of each
    first: Int32[Array, " k"]  # the first lane of each input, or any of one without users
    rank: Int32[Array, " lanes"]  # among the lanes of the input
    size: Int32[Array, " lanes"]  # how many these are
    users: Int32[Array, " lanes"]
    most: Int32[Array, ""]  # users of a lane


def _deal(users: Float[Array, " k"]) -> _Lanes:
    """Deals the users of each input to lanes, as evenly as can be."""
    num_values = users.shape[0]
    spread = max(_LANES, num_values)
    # As many are enough: the sum of ceil(users / share) is at most spread + num_values.
    num_lanes = spread + num_values
    share = jnp.maximum(jnp.ceil(jnp.sum(users) / spread), 1.0)
    lanes_of = jnp.ceil(users / share)
    ends = jnp.cumsum(lanes_of)
    lane = jnp.arange(num_lanes, dtype=jnp.int32)
    value = jnp.searchsorted(ends, lane.astype(jnp.float64), side="right").astype(jnp.int32)
    value = jnp.minimum(value, np.int32(num_values - 1))
    first = (ends - lanes_of).astype(jnp.int32)
    rank, size = lane - first[value], lanes_of.astype(jnp.int32)[value]
    each = jnp.floor(users / jnp.maximum(lanes_of, 1.0))
    rest = (users - each * lanes_of).astype(jnp.int32)[value]
    dealt = each.astype(jnp.int32)[value] + (rank < rest).astype(jnp.int32)
    dealt = jnp.where(rank < size, dealt, np.int32(0))
    first = jnp.minimum(first, np.int32(num_lanes - 1))
    return _Lanes(value, first, rank, size, dealt, share.astype(jnp.int32))


def _merged(
    length: Float[Array, ""],
    other: Float[Array, ""],
    cos: Float32[Array, ""],
    sin: Float32[Array, ""],
) -> Float[Array, ""]:
    """The length of the sum of two vectors of given lengths, at a given angle."""
    wide = cos.astype(jnp.float64), sin.astype(jnp.float64)
    return jnp.sqrt((length + other * wide[0]) ** 2 + (other * wide[1]) ** 2)


def _merge_lanes(
    merge: Callable[[Count, Tree, Tree], Tree],
    lanes: Tree,
    rank: Int32[Array, " lanes"],
    size: Int32[Array, " lanes"],
) -> Tree:
    """Merges neighbouring lanes of an input into its first lane, by a binary tree.

    Its order is that of the lanes; floats that a scatter adds are in any order on a GPU.
    """
    lane = jnp.arange(rank.shape[0], dtype=jnp.int32)

    def level(number, lanes):
        number = jnp.asarray(number, jnp.int32)
        step = jnp.left_shift(np.int32(1), number)
        partner = jnp.minimum(lane + step, np.int32(lane.size - 1))
        index = Count.of(number).times(lane.size) + Count.of(lane)
        active = (rank % (2 * step) == 0) & (rank + step < size)
        merged = merge(index, lanes, jax.tree.map(lambda x: x[partner], lanes))
        return jax.tree.map(lambda new, old: jnp.where(active, new, old), merged, lanes)

    return lax.fori_loop(0, int(lane.size - 1).bit_length(), level, lanes)


def sum_points(
    key: jax.Array,
    along: Float[Array, " k"],
    lengths: Float[Array, " k"],
    inputs: Float32[Array, "k d"],
    direction: Callable[[jax.Array], tuple[jax.Array, jax.Array, jax.Array]],
    gaussian: bool,
) -> Float[Array, " m"]:
    """The sum over inputs of vectors with given parts along and across.

    Args:
      key: a stream key, used for words.
      along: float64[k].
      lengths: float64[k]; a vector's part across is this times a standard normal or, unless
        `gaussian`, times a uniform unit vector.
      inputs: float32[k, d].
      direction: float32[d] -> the head and the last entry >= 0 of a unit vector, and the sign of
        the part along it.
      gaussian: static.

    Returns:
      float64[m + 1] for heads of length m.
    """
    k = along.shape[0]
    head = jax.eval_shape(direction, jax.ShapeDtypeStruct(inputs.shape[1:], inputs.dtype))[0]
    m = head.shape[0]
    block = min(max(_BLOCK // max(m, 1), 1), k)

    def one(w, x, along, length):
        head, last, sign = (p.astype(jnp.float64) for p in direction(x))
        across = stored(standard_normal(w)).astype(jnp.float64)
        if not gaussian and m > 0:
            across = across / jnp.sqrt(jnp.sum(across * across))
        head, last = point(head, last, sign * along, across * length)
        return jnp.append(head, last)

    def add(number, total):
        number = jnp.asarray(number, jnp.int32)
        row = number * np.int32(block) + jnp.arange(block, dtype=jnp.int32)
        at = jnp.minimum(row, np.int32(k - 1))
        w = words(key, Count.of(number).times(block), block, m)
        points = jax.vmap(one, in_axes=(-1, 0, 0, 0))(w, inputs[at], along[at], lengths[at])
        return total + jnp.sum(jnp.where((row < k)[:, None], points, 0.0), axis=0)

    return lax.fori_loop(0, -(-k // block), add, jnp.zeros(m + 1, jnp.float64))


def sum_of_caps(
    key: jax.Array,
    counts: Count,
    inputs: Float32[Array, "k d"],
    radius: Float32[Array | np.ndarray, ""],
    attempt: Callable[[Words], tuple[jax.Array, jax.Array, jax.Array]],
    attempt_words: int,
    padded: bool = True,
) -> Float[Array, " d"]:
    """The sum of reports from caps around vectors, the coordinate of the padding left out.

    Args:
      key: a key; it is folded.
      counts: Count[k].
      inputs: float32[k, d], vectors of the ball.
      radius: float32[], of the ball.
      attempt: words -> float32[] T and R of one user, and bool[]; see `sum_parts`.
      attempt_words: the words that it may read.
      padded: whether vectors are padded to unit vectors, static; else they have the norm `radius`.

    Returns:
      float64[d].
    """

    def center(value):
        if padded:
            return *embed(value, jnp.asarray(radius)), jnp.float32(1)
        return axis_of(value, jnp.asarray(radius))

    parts_key, points_key = jax.random.split(key)
    dim = inputs.shape[1]
    across = dim if padded else dim - 1
    along, lengths = sum_parts(
        parts_key, counts, lambda w, _: attempt(w), attempt_words, None, across
    )
    return sum_points(points_key, along, lengths, inputs, center, gaussian=False)[:dim]

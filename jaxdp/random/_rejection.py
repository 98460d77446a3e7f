"""What the exact samplers share: uniforms of a lane, rejection, and sequential search.

A *lane* is one draw: a uint32 index under a key. The uniforms of its attempt `t` are the threefry
blocks at the counters `(2t, index)` and `(2t + 1, index)`, so a draw depends on its own arguments
only, and neither on how many lanes run beside it nor on vmap, jit or scan.

A law of counts is drawn by sequential search where its mean is below 10 and by rejection elsewhere,
in one of two ways that take the same attempts: *in step*, every attempt made for all lanes until
the last one has accepted, or by *workers*, each of which makes the attempts of its own lanes, one
lane after another. In step suits accelerators and few lanes. Of many lanes on a CPU, workers make
a third of the attempts, and those that a squeeze has decided need none at all.

Everything here runs inside a float64 block (`jaxdp._x64`).
"""

from collections.abc import Callable
from typing import Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from jaxdp_kernels.threefry_words.ref import threefry2x32

from .._stored import stored

SEARCH_BELOW = 10.001
"""The mean up to which sequential search is used; the rejections need 10.

A little above it: means of 10 are common, and their last bit may differ from machine to machine.
"""

SEARCH_LIMIT = 64
"""Largest result of `search`: a mean below 10 exceeds it with a probability below 2**-80."""

UNDECIDED = -1.0
"""Marks a lane that has no draw yet."""

FEW = 256
"""Fewer lanes than this are drawn in step on a CPU too: workers would gain nothing."""

_LANES = 64  # of a worker: one for each bit of a word
_WORKERS = 32  # at least, to fill vector registers
_CHUNK = 2**12  # lanes at a time, whose arrays stay in a core's cache

Keys = tuple[jax.Array, jax.Array]
"""The key of each lane: the halves of `key_data`, of shapes that broadcast with the lanes."""


class Hat(Protocol):
    """A rejection, of many lanes."""

    def attempt(self, u: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(proposal, accept) of one attempt, given its `uniforms`; accepted ones are >= 0."""
        ...


class Law(Protocol):
    """A law of counts, of many lanes: a pytree of float64[...]."""

    def mean(self) -> jax.Array:
        """The mean, to a few roundings."""
        ...

    def pmf_of_zero(self) -> jax.Array:
        """The probability of 0."""
        ...

    def ratio(self) -> Callable[[jax.Array], jax.Array]:
        """Maps one x, float64[], to pmf(x + 1) / pmf(x); 0 beyond the support."""
        ...

    def usual(self, rare: jax.Array) -> Self:
        """The law, and where `rare` one on which the formulas of its hat are finite."""
        ...

    def squeeze(self, u: jax.Array, v: jax.Array) -> jax.Array:
        """What the first attempt surely accepts, of means of 10 and more; else `UNDECIDED`."""
        ...

    def hat(self) -> Hat:
        """The rejection, for means of 10 and more."""
        ...


def uniforms(key: jax.Array | Keys, index: jax.Array, attempt: jax.Array | np.uint32) -> jax.Array:
    """Two independent uniforms of 53 bits for one attempt of every lane.

    They are one array, made by one evaluation of threefry: half the code to compile of two.

    Args:
      key: uint32[2], key data; or those of the lanes.
      index: uint32[...], the lanes.
      attempt: uint32[] or uint32[...], below 2**31.

    Returns:
      float64[2, ...]: multiples of 2**-53 in [0, 1).
    """
    half = jnp.arange(2, dtype=jnp.uint32).reshape((2,) + (1,) * index.ndim)
    shape = (2, *index.shape)
    first, second, attempt, index = (
        jnp.broadcast_to(x, shape) for x in (key[0], key[1], attempt * np.uint32(2), index)
    )
    return stored(fraction(*threefry2x32((first, second), (attempt + half, index))))


def fraction(high: jax.Array, low: jax.Array) -> jax.Array:
    """The uniform of 53 bits, float64[...], that two words uint32[...] stand for."""
    # 27 and 26 bits: what float64 holds exactly.
    whole = (high >> np.uint32(5)).astype(jnp.float64) * 2.0**26
    return (whole + (low >> np.uint32(6)).astype(jnp.float64)) * 2.0**-53


def until_accepted(
    key: jax.Array | Keys,
    index: jax.Array,
    attempt: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]],
    draw: jax.Array,
    accepted: jax.Array,
) -> jax.Array:
    """Repeats independent attempts until every lane has accepted one.

    Args:
      key: uint32[2], key data; or those of the lanes.
      index: uint32[...], the lanes.
      attempt: maps the two `uniforms` of an attempt to (proposal, accept), of all lanes.
      draw: float64[...], results of the lanes that are accepted already; overwritten elsewhere.
      accepted: bool[...]; the other lanes begin with attempt 0.

    Returns:
      float64[...], for each lane its first accepted proposal.
    """

    def again(state):
        number, points, draw, accepted = state
        proposal, accept = attempt(*points)
        draw = jnp.where(accepted, draw, proposal)
        number = number + np.uint32(1)
        return number, uniforms(key, index, number), draw, accepted | accept

    # The uniforms are made one attempt ahead: as carried values they are computed once, where XLA
    # would else repeat all rounds of threefry in each of the fusions that use them.
    start = (jnp.zeros((), jnp.uint32), uniforms(key, index, np.uint32(0)), draw, accepted)
    return lax.while_loop(lambda state: ~jnp.all(state[-1]), again, start)[-2]


def search(
    u: jax.Array,
    pmf: jax.Array,
    ratio: Callable[[jax.Array], jax.Array],
    active: jax.Array,
) -> jax.Array:
    """The inverse of a distribution function on 0, 1, 2, ... at `u`, by sequential search.

    Args:
      u: float64[...], uniforms in [0, 1).
      pmf: float64[...], the probability of 0.
      ratio: maps x, float64[], to pmf(x + 1) / pmf(x) of all lanes; 0 beyond the support.
      active: bool[...], the lanes to search; their mean is below 10.

    Returns:
      float64[...], at most `SEARCH_LIMIT`; 0 where not active.
    """

    def step(state):
        x, result, pmf, below, active = state
        below = below + pmf
        pmf = pmf * ratio(x)
        # Rounding alone leads past the support of a lane, where its pmf is 0.
        active = active & (u >= below) & (pmf > 0)
        return x + 1, jnp.where(active, x + 1, result), pmf, below, active

    zero = jnp.zeros_like(u)
    start = (jnp.zeros(()), zero, pmf, zero, active)

    def unfinished(state):
        return (state[0] < SEARCH_LIMIT) & jnp.any(state[-1])

    return lax.while_loop(unfinished, step, start)[1]


def draw_lanes(key: jax.Array | Keys, index: jax.Array, law: Law) -> jax.Array:
    """One draw of a law in every lane.

    Args:
      key: uint32[2], key data; or those of the lanes.
      index: uint32[...], the lanes.
      law: of the same shape.

    Returns:
      float64[...].
    """
    keys = (x.reshape((1,) * (index.ndim - x.ndim) + x.shape) for x in (key[0], key[1]))
    leaves, tree = jax.tree.flatten(lax.stop_gradient(law))  # whole numbers have no slope
    return _draw.bind(*keys, index, *leaves, tree=tree)


# A primitive, of which a program is made only when it is lowered: once, for the one platform, and
# of as many lanes as all batches around it have. Tracing and batching a sampler as they do any
# other function takes longer than what surrounds it, and both ways of drawing are traced.
_draw = Primitive("draw_lanes")


@_draw.def_abstract_eval
def _(first, second, index, *leaves, tree):
    del first, second, leaves, tree
    return ShapedArray(index.shape, np.dtype(np.float64))


def _batch(arguments, axes, *, tree):
    """A batch is more lanes: as a batch of loops, every one would take as long as the slowest."""
    (size,) = {x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None}

    def leading(x, axis):
        return x[None] if axis is None else jnp.moveaxis(x, axis, 0)

    with jax.enable_x64(True):  # what is inside a jit is batched after its float64 block has ended
        first, second, *lanes = map(leading, arguments, axes)
        lanes = [jnp.broadcast_to(x, (size, *x.shape[1:])) for x in lanes]
        return _draw.bind(first, second, *lanes, tree=tree), 0


def _lowering(draw: Callable[[Keys, jax.Array, Law], jax.Array]):
    def program(first, second, index, *leaves, tree):
        with jax.enable_x64(True):  # lowered after the block has ended, too
            return draw((first, second), index, jax.tree.unflatten(tree, leaves))

    return mlir.lower_fun(program, multiple_results=False)


def _draw_on_cpu(keys: Keys, index: jax.Array, law: Law) -> jax.Array:
    draw = draw_in_step if index.size < FEW else draw_by_workers
    return draw(keys, index, law)


def draw_in_step(keys: Keys, index: jax.Array, law: Law) -> jax.Array:
    """The draws, each attempt made for all lanes at once."""
    rare = law.mean() < SEARCH_BELOW
    u, _ = uniforms(keys, index, np.uint32(0))
    found = search(u, law.pmf_of_zero(), law.ratio(), rare)
    return until_accepted(keys, index, law.usual(rare).hat().attempt, found, rare)


def draw_by_workers(keys: Keys, index: jax.Array, law: Law) -> jax.Array:
    """The draws, a chunk of lanes after another."""
    rows = -(-index.size // _CHUNK)
    size = -(-index.size // rows)
    keys = jax.tree.map(lambda x: jnp.broadcast_to(x, index.shape), keys)
    lanes = jax.tree.map(jnp.ravel, (keys, index, law))

    def step(row, draws):
        # The last chunk may repeat some lanes of the one before, which draw the same.
        start = jnp.minimum(row * np.int32(size), np.int32(index.size - size))
        chunk = jax.tree.map(lambda x: lax.dynamic_slice(x, (start,), (size,)), lanes)
        return lax.dynamic_update_slice(draws, draw_chunk(*chunk), (start,))

    draws = lax.fori_loop(np.int32(0), np.int32(rows), step, jnp.zeros(index.size))
    return draws.reshape(index.shape)


def draw_chunk(keys: Keys, index: jax.Array, law: Law) -> jax.Array:
    """The draws of some lanes in a row, float64[n]."""
    mean = law.mean()
    rare = mean < SEARCH_BELOW
    # What no lane needs is skipped; and what a branch has made is made once, where XLA would else
    # repeat all rounds of threefry in each of the fusions that use it.
    points = lax.cond(
        jnp.any(mean > 0),
        lambda: uniforms(keys, index, np.uint32(0)),
        lambda: jnp.zeros((2, index.size)),
    )
    found = lax.cond(
        jnp.any(rare & (mean > 0)),
        lambda: search(points[0], law.pmf_of_zero(), law.ratio(), rare),
        lambda: jnp.zeros(index.size),
    )
    return lax.cond(
        jnp.all(rare),
        lambda: found,
        lambda: _by_workers(keys, index, law, points, jnp.where(rare, found, law.squeeze(*points))),
    )


def _by_workers(
    keys: Keys, index: jax.Array, law: Law, points: jax.Array, draws: jax.Array
) -> jax.Array:
    """Makes attempts for the undecided lanes of a chunk, one lane of each worker at a time.

    A worker keeps its undecided lanes as the bits of a word. It waits for no other worker, and of
    64 lanes each all have about as much to do.
    """
    lanes = min(max(index.size // _WORKERS, 1), _LANES)
    workers = -(-index.size // lanes)
    first = jnp.arange(workers, dtype=jnp.int32) * np.int32(lanes)
    one = np.uint64(1)

    def next_lane(left):
        """The lane of each worker's lowest bit; beyond all lanes if it has none left."""
        lowest = lax.population_count((left & -left) - one).astype(jnp.int32)
        return jnp.where(left == 0, np.int32(index.size), first + lowest)

    def at(lane, *arrays):  # of some lane where there is none, to no effect
        return jax.tree.map(lambda x: x.at[..., lane].get(mode="clip"), arrays)

    def step(state):
        left, number, points, draws = state
        lane = next_lane(left)
        (of,) = at(lane, law)
        proposal, accept = of.hat().attempt(*points)
        proposal = jnp.where(accept, proposal, UNDECIDED)
        draws = draws.at[lane].set(proposal, mode="drop")
        # Read again: else XLA would make the attempt anew for each of the following.
        accepted = at(lane, draws)[0] != UNDECIDED
        left = jnp.where(accepted, left & (left - one), left)
        number = jnp.where(accepted, np.uint32(0), number + np.uint32(1))
        key, which = at(next_lane(left), keys, index)
        return left, number, uniforms(key, which, number), draws

    waits = jnp.pad(draws == UNDECIDED, (0, workers * lanes - index.size)).reshape(workers, lanes)
    bits = one << np.arange(lanes, dtype=np.uint64)
    left = jnp.sum(jnp.where(waits, bits[None], np.uint64(0)), axis=1)
    start = (left, jnp.zeros(workers, jnp.uint32), *at(next_lane(left), points), draws)
    return lax.while_loop(lambda state: jnp.any(state[0] != 0), step, start)[-1]


batching.primitive_batchers[_draw] = _batch
mlir.register_lowering(_draw, _lowering(draw_in_step))
mlir.register_lowering(_draw, _lowering(_draw_on_cpu), platform="cpu")

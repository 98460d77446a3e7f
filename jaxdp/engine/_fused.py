"""One kernel for the reports of a block and their counts: who uses it, and whether it is right.

The kernel is compiled by Mosaic GPU, whose interpreter leaves out the instruction that counts. So a
process compares it with XLA before it uses it, once for each kind of round.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp_kernels.randomize_and_tally import randomize_and_tally
from jaxdp_kernels.threefry_words import StreamKey

from .._contract import Round
from .._spec import Tree, is_traced
from ..random import TILE

_CHECKED_USERS = 1600 * TILE + 1000  # several tiles for each block of threads, and a part of one
_accepted: set[Any] = set()


def can_fuse(round: Round[Any]) -> bool:
    """Whether the kernel serves a round, and has been found right for its kind."""
    return _kind(round) in _accepted


def accept(round: Round[Any]) -> None:
    """Has the kernel serve rounds of a kind without a check, as to compile for another machine."""
    if not _unserved(round):
        _accepted.add(_kind(round))


def check_fused(round: Round[Any]) -> None:
    """Compares the kernel with XLA on the default device, once for each kind of round.

    It is not used where it does not serve a round, nor for a round that is traced in a kind that no
    call outside of jit has checked.

    Raises:
      RuntimeError: it has another tally, or does not run.
    """
    if can_fuse(round) or _unserved(round) or is_traced(round):
        return
    with jax.ensure_compile_time_eval(), jax.enable_x64(False):
        try:
            same = _is_right(round)
        except jax.errors.JaxRuntimeError as error:
            raise RuntimeError(f"implementation='mosaic_gpu' does not run here: {error}") from error
    if not same:
        raise RuntimeError(
            f"implementation='mosaic_gpu' has another tally of {type(round).__name__} than XLA on "
            "this device; leave it out, and report this with the versions of jax and of the driver."
        )
    _accepted.add(_kind(round))


def fused_tally(round, key, start, first, values, mask) -> Tree:
    """`randomize_and_tally` by the kernel, for the platform that a program is lowered for."""
    # Imported where it is used: Pallas is slow to import.
    from jaxdp_kernels.randomize_and_tally.mosaic_gpu import randomize_and_tally_mosaic_gpu

    return randomize_and_tally_mosaic_gpu(round, key, start, first, values, mask)


def _kind(round: Round[Any]) -> Any:
    leaves, structure = jax.tree.flatten(round)
    return structure, tuple((jnp.shape(leaf), str(jnp.result_type(leaf))) for leaf in leaves)


def _unserved(round: Round[Any]) -> str | None:
    """Why the kernel does not serve a round; None if it does."""
    if round.counted is None or round.kernels.tally:
        return "its reports are not counted, or it has kernels of its own"
    try:
        from jaxdp_kernels.randomize_and_tally.mosaic_gpu import unserved
    except ImportError as error:
        return f"this jax has no Mosaic GPU: {error}"
    users = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((_CHECKED_USERS, *x.shape), x.dtype), round.value
    )
    return unserved(round, None, users)


def _is_right(round: Round[Any]) -> bool:
    """Whether the kernel has XLA's tally of some users, half of whom have one value."""
    key = jax.random.key(0)
    stream, start = StreamKey.of(key), jnp.asarray([0, 2**32 - TILE // 2], jnp.uint32)

    def values(number: int, shape: jax.ShapeDtypeStruct) -> jax.Array:
        draw, half = jax.random.fold_in(key, number), _CHECKED_USERS // 2
        if jnp.issubdtype(shape.dtype, jnp.floating):
            drawn = jax.random.uniform(draw, (_CHECKED_USERS,), shape.dtype, -1.0, 1.0)
        else:
            high = 2**16 if round.num_bins is None else round.num_bins
            drawn = jax.random.randint(draw, (_CHECKED_USERS,), 0, high).astype(shape.dtype)
        return drawn.at[:half].set(drawn[0])

    leaves, structure = jax.tree.flatten(round.value)
    users = jax.tree.unflatten(structure, [values(i, leaf) for i, leaf in enumerate(leaves, 1)])
    count = jnp.uint32(_CHECKED_USERS - 500)
    found = jax.jit(fused_tally)(round, stream, start, None, users, count)
    wide = jax.jit(randomize_and_tally, static_argnames="implementation")
    expected = wide(round, stream, start, None, users, count, implementation="wide")
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(bool(np.array_equal(a, b)) for a, b in pairs)

"""One kernel for the reports of a block and their tally: who uses it, and whether it is right.

Reports that are counted have a kernel of Mosaic GPU, whose interpreter leaves out the instruction
that counts; vectors that are added have one of Triton. What compiles them is new, and changes. So a
process compares a kernel with XLA before it uses it, once for each kind of round.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp_kernels.randomize_and_sum import randomize_and_sum
from jaxdp_kernels.randomize_and_tally import Drawn, randomize_and_tally
from jaxdp_kernels.threefry_words import StreamKey

from .._contract import Round
from .._spec import Tree, is_traced
from ..random import TILE

_CHECKED_USERS = 1600 * TILE + 1000  # several tiles for each block of threads, and a part of one
_accepted: set[Any] = set()  # kinds of rounds for which the kernel has been found right,
_left: set[Any] = set()  # and those that are left to XLA

WORTHWHILE = 2**28
"""Users of a call, in all trials, for whom it is worth the second that the comparison takes."""

WORTH_ADDING = 2**33
"""Numbers that they add, where they add vectors: that kernel takes longer to compile."""

ROW = 2 * TILE
"""Users whose integers are added as one row: XLA for GPUs would split sums of more."""

_ADDED_USERS = 8 * TILE  # who are added to compare the kernel
_ROUNDED = 2**-8  # of the users of a row, how many may be rounded otherwise by another program

_OLDEST = 9.0  # compute capability of a GPU that has the kernel's instructions


def can_fuse(round: Round[Any], maker: Tree = None) -> bool:
    """Whether the kernel serves a round, and has been found right for its kind.

    Args:
      round: what users run.
      maker: what makes their values within the kernel; None where they are given to it.
    """
    return _kind((round, maker)) in _accepted


def accept(round: Round[Any], maker: Tree = None) -> None:
    """Has the kernel serve rounds of a kind without a check, as to compile for another machine."""
    for made in (None, maker):
        if not _unserved(round, made):
            _accepted.add(_kind((round, made)))


def check_fused(round: Round[Any], maker: Tree = None) -> None:
    """Compares the kernel with XLA on the default device, once for each kind of round.

    It is not used where it does not serve a round, nor for a round that is traced in a kind that no
    call outside of jit has checked.

    Args:
      round: what users run.
      maker: what may make their values within the kernel; None if nothing may.

    Raises:
      RuntimeError: it has another tally, or does not run.
    """
    _check(round, None)
    if maker is not None and can_fuse(round):
        _check(round, maker)


def try_fused(round: Round[Any], maker: Tree = None) -> None:
    """`check_fused`, after which XLA serves a round where the kernel is not right.

    Warns:
      RuntimeWarning: the kernel has another tally, or does not run; once for each kind of round.
    """
    if _kind((round, maker)) in _left:
        return
    try:
        check_fused(round, maker)
    except RuntimeError as error:
        _left.add(_kind((round, maker)))
        warnings.warn(f"{error} XLA's programs run in its place.", RuntimeWarning, stacklevel=2)
    else:
        if not can_fuse(round, maker) and not is_traced((round, maker)):
            _left.add(_kind((round, maker)))


def have_kernel(devices: Sequence[Any]) -> bool:
    """Whether all of some devices are NVIDIA GPUs that can run the kernel: Hopper, or later."""
    found = [getattr(device, "compute_capability", "") for device in devices]
    try:
        return all(float(capability) >= _OLDEST for capability in found)
    except ValueError:  # none, or that of another maker
        return False


def _check(round: Round[Any], maker: Tree) -> None:
    if can_fuse(round, maker) or _unserved(round, maker) or is_traced((round, maker)):
        return
    try:
        same = _compared(round, maker)
    except Exception as error:  # of any kind: what compiles the kernel is new, and changes
        raise RuntimeError(
            f"implementation='kernel' does not run here: {type(error).__name__}: {error}."
        ) from error
    if not same:
        raise RuntimeError(
            f"implementation='kernel' has another tally of {type(round).__name__} than XLA on "
            "this device; use 'xla', and report this with the versions of jax and of the driver."
        )
    _accepted.add(_kind((round, maker)))


def _compared(round: Round[Any], maker: Tree) -> bool:
    """Whether the kernel has XLA's tally on the default device.

    A thread of its own computes it: what is traced around the call cannot be seen from there, and
    `ensure_compile_time_eval` would see axes of the kernel as unbound.
    """
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]

    def compare() -> bool:
        with jax.default_device(device), jax.enable_x64(False):
            if round.counted is None:
                return bool(jax.jit(_sums_are_right, static_argnums=0)(fused_sums, round))
            return bool(jax.jit(_is_right, static_argnums=0)(fused_tally, round, maker))

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(compare).result()


def fused_tally(round, key, start, first, values, mask) -> Tree:
    """`randomize_and_tally` by the kernel, for the platform that a program is lowered for."""
    # Imported where it is used: Pallas is slow to import.
    from jaxdp_kernels.randomize_and_tally.mosaic_gpu import randomize_and_tally_mosaic_gpu

    return randomize_and_tally_mosaic_gpu(round, key, start, first, values, mask)


def fused_sums(round, key, start, values, members, row: int) -> jax.Array:
    """`randomize_and_sum` by the kernel, for the platform that a program is lowered for."""
    from jaxdp_kernels.randomize_and_sum.triton import randomize_and_sum_triton

    return randomize_and_sum_triton(round, key, start, values, members, row)


def _kind(tree: Tree) -> Any:
    """The structure of a round and what makes its users' values, and the types of their leaves."""
    leaves, structure = jax.tree.flatten(tree)

    def name(leaf: Any) -> str:
        return str(jnp.result_type(leaf)).replace("64", "32")  # as kernels see it, whoever asks

    return structure, tuple((jnp.shape(leaf), name(leaf)) for leaf in leaves)


def _unserved(round: Round[Any], maker: Tree) -> str | None:
    """Why the kernel does not serve a round; None if it does."""
    if round.kernels.tally:
        return "it has kernels of its own"
    if round.counted is None:
        return _unserved_sums(round, maker)
    try:
        from jaxdp_kernels.randomize_and_tally.mosaic_gpu import unserved
    except ImportError as error:
        return f"this jax has no Mosaic GPU: {error}"
    if maker is not None:
        return unserved(round, None, _drawn(maker))
    return unserved(round, None, _shapes(round, _CHECKED_USERS))


def _unserved_sums(round: Round[Any], maker: Tree) -> str | None:
    if round.summed is None:
        return "its reports are neither counted nor added"
    if maker is not None:
        return "what makes users' values within the kernel makes no vectors"
    if round.summed.bound * ROW >= 2**31:
        return f"a user may add {round.summed.bound}, and a row of users more than 32 bits hold"
    try:
        from jaxdp_kernels.randomize_and_sum.triton import unserved
    except ImportError as error:
        return f"this jax has no Triton: {error}"
    return unserved(round, _shapes(round, _ADDED_USERS), ROW)


def _shapes(round: Round[Any], number: int) -> Tree:
    """The values of so many users."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((number, *x.shape), x.dtype), round.value)


def _drawn(maker: Tree) -> Drawn:
    """Users whose values a maker makes; the counter of their words passes 2**32."""
    keys = tuple(StreamKey.of(jax.random.key(i + 1)) for i in range(maker.num_words))
    return Drawn(maker, keys, jnp.asarray([0, 2**32 - 3 * TILE], jnp.uint32), _CHECKED_USERS)


def _users(round: Round[Any], maker: Tree) -> Iterator[tuple[Tree, jax.Array]]:
    """Values and masks, as blocks have them, of which half of the users have one value."""
    count = jnp.uint32(_CHECKED_USERS - 500)
    if maker is not None:
        yield _drawn(maker), count
        return
    key = jax.random.key(0)

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
    yield users, count
    tiles = _CHECKED_USERS // TILE
    numbers = lax.iota(jnp.uint32, tiles) * np.uint32(400) % np.uint32(TILE + 1)
    yield jax.tree.map(lambda row: row[:tiles], users), numbers


def _is_right(kernel: Callable[..., Tree], round: Round[Any], maker: Tree) -> jax.Array:
    """Whether the kernel has XLA's tally of some users, bool[]."""
    stream = StreamKey.of(jax.random.key(0))
    start = jnp.asarray([0, 2**32 - TILE // 2], jnp.uint32)
    same = []
    for users, count in _users(round, maker):
        found = kernel(round, stream, start, None, users, count)
        expected = randomize_and_tally(round, stream, start, None, users, count, "wide")
        pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
        same += [jnp.all(a == b) for a, b in pairs]
    return jnp.all(jnp.stack(same))


def _sums_are_right(kernel: Callable[..., jax.Array], round: Round[Any]) -> jax.Array:
    """Whether the kernel has XLA's sums of some users, to a few roundings, bool[]."""
    assert round.summed is not None
    stream = StreamKey.of(jax.random.key(0))
    start = jnp.asarray([0, 2**32 - TILE // 2], jnp.uint32)
    vectors = jax.random.normal(jax.random.key(1), (_ADDED_USERS, round.summed.size))
    users = jax.tree.map(lambda _: vectors, round.value)
    tiles = jax.tree.map(lambda row: row[: _ADDED_USERS // TILE], users)
    some = lax.iota(jnp.uint32, _ADDED_USERS // TILE) * np.uint32(400)
    most, same = int(ROW * _ROUNDED), []
    for held, members in ((users, jnp.uint32(_ADDED_USERS - 500)), (tiles, some)):
        arguments = round, stream, start, held, members, ROW
        apart = kernel(*arguments) - randomize_and_sum(*arguments)
        same.append(jnp.all(jnp.abs(apart) <= most))
    return jnp.all(jnp.stack(same))

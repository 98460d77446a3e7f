"""Exact tallies of one block of reports: how often each occurs, and sums of integers."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int, Shaped, UInt32

from jaxdp_kernels.randomize_and_tally import count_reports

from ._count import Count

_FEWEST = 2**6  # users whose numbers are summed as one; of fewer, the halves are


def everyone(reports: jax.Array, mask: Bool[Array, " n"] | None) -> Bool[Array, " n"]:
    """The mask, or one of all reports, whose first axis is that of the users."""
    return jnp.ones(reports.shape[0], bool) if mask is None else jnp.asarray(mask)


def histogram(
    reports: Int[Array, " n"], num_reports: int, mask: Bool[Array, " n"] | None = None
) -> Count:
    """Counts how often each report occurs.

    Args:
      reports: in [0, num_reports); fewer than 2**31.
      num_reports: static.
      mask: which of them count; None for all.

    Returns:
      Count[num_reports].

    Example:
      >>> import jax.numpy as jnp
      >>> histogram(jnp.array([2, 0, 2]), 4).numpy().tolist()
      [1, 0, 2, 0]
    """
    return Count.of(count_reports(reports, everyone(reports, mask), num_reports))


def sum_integers(
    numbers: Shaped[Array, "n ..."],
    bound: int,
    mask: Bool[Array, " n"] | None = None,
    *,
    users_last: bool = True,
) -> Count:
    """The exact sum of integers or bools over users; it never wraps.

    Args:
      numbers: of absolute value at most `bound`.
      bound: below 2**31, static.
      mask: which of them count; None for all.
      users_last: whether they lie in memory with the users along the last axis, as the engine makes
        reports but for `lazy_words`; static. The sum is the same: it reads what it adds in order.

    Returns:
      Count[...].

    Example:
      >>> import jax.numpy as jnp
      >>> int(sum_integers(jnp.full(3, 2**30), 2**30))
      3221225472
    """
    counted = everyone(numbers, mask)
    if users_last:
        numbers, axis = jnp.moveaxis(numbers, 0, -1), -1
    else:
        counted, axis = counted.reshape(-1, *[1] * (numbers.ndim - 1)), 0
    terms = jnp.where(counted, numbers.astype(jnp.int32), 0)
    if terms.shape[axis] * bound < 2**31:
        return Count.of(jnp.sum(terms, axis=axis, dtype=jnp.int32))
    # Rows of so many users that their sum fits into 32 bits; or the sums of both of their halves.
    row = 2 ** ((2**31 // (bound + 1)).bit_length() - 1)
    if row >= _FEWEST:
        return Count.of(_row_sums(terms, row, axis)).sum(axis)
    high = Count.of(_row_sums(terms >> np.int32(16), 2**15, axis)).sum(axis)
    return high.times(2**16) + Count.of(_row_sums(terms & np.int32(0xFFFF), 2**15, axis)).sum(axis)


def _row_sums(terms: jax.Array, row: int, axis: int) -> jax.Array:
    """The sums of the terms along an axis, the first or the last, a row at a time."""
    rows = -(-terms.shape[axis] // row)
    padding = [(0, 0)] * terms.ndim
    padding[axis] = (0, rows * row - terms.shape[axis])
    shape = list(terms.shape)
    shape[axis : axis + 1 or None] = [rows, row]
    within = -1 if axis == -1 else 1
    return jnp.sum(jnp.pad(terms, padding).reshape(shape), axis=within, dtype=jnp.int32)


def count_bits(
    packed: UInt32[Array, "n w"], num_bits: int, mask: Bool[Array, " n"] | None = None
) -> Count:
    """Counts the users who have each bit, of bits that are packed into words.

    On a CPU users are added as binary digits in parallel, 32 sums of a word at a time: a tenth of
    the time of a sum over each bit.

    Args:
      packed: bit `v % 32` of word `v // 32` is bit v; fewer than 2**31 users.
      num_bits: at most 32 w, static.
      mask: which users count; None for all.

    Returns:
      Count[num_bits].

    Example:
      >>> import jax.numpy as jnp
      >>> count_bits(jnp.array([[0b101], [0b110]], jnp.uint32), 3).numpy().tolist()
      [1, 1, 2]
    """
    kept = jnp.where(everyone(packed, mask)[:, None], packed, np.uint32(0)).T
    sums = lax.platform_dependent(kept, cpu=_sums_by_adders, default=_sums_of_bits)
    return Count.of(sums.ravel()[:num_bits])


def _sums_of_bits(packed: UInt32[Array, "w n"]) -> UInt32[Array, "w 32"]:
    """The sum of each bit over users: one reduction, for many threads."""
    bits = np.arange(32, dtype=np.uint32)[None, :, None]
    return jnp.sum((packed[:, None] >> bits) & np.uint32(1), axis=-1, dtype=jnp.uint32)


def _sums_by_adders(packed: UInt32[Array, "w n"]) -> UInt32[Array, "w 32"]:
    """The same: sixteen users are added as binary digits in parallel, and then in bytes."""
    width, users = packed.shape
    rows = 8 if users >= 128 else 1  # up to 128 users are added in a byte
    packed = jnp.pad(packed, ((0, 0), (0, -users % (16 * rows)))).reshape(width, 16, -1)
    digits = jnp.stack([*_binary_sum([packed[:, user] for user in range(15)]), packed[:, 15]])
    digits = digits.reshape(5, width, rows, -1)
    byte = np.uint32(0x01010101)

    def in_bytes(bit: int) -> jax.Array:
        """The sums of every eighth bit, from this one on, four in a word."""
        one, two, four, eight, other = (digits >> np.uint32(bit)) & byte
        each = one + (two << np.uint32(1)) + (four << np.uint32(2)) + (eight << np.uint32(3))
        return jnp.sum(each + other, axis=1, dtype=jnp.uint32)

    sums = jnp.stack([in_bytes(bit) for bit in range(8)])
    shifts = np.arange(0, 32, 8, dtype=np.uint32).reshape(4, 1, 1, 1)
    sums = jnp.sum((sums[None] >> shifts) & np.uint32(0xFF), axis=-1, dtype=jnp.uint32)
    return jnp.transpose(sums, (2, 0, 1)).reshape(width, 32)


def _binary_sum(words: list[jax.Array]) -> list[jax.Array]:
    """The binary digits of how many of 2**m - 1 words have each bit, the lowest digit first."""
    digits = []
    while words:
        carries = []
        while len(words) > 1:
            a, b, c, *words = words
            carries.append((a & b) | (c & (a ^ b)))
            words = [a ^ b ^ c, *words]
        digits.append(words[0])
        words = carries
    return digits


def sum_squares(
    numbers: Int[Array, "n ..."], bound: int, mask: Bool[Array, " n"] | None = None
) -> Count:
    """The exact sum of squared integers over users; it never wraps.

    Args:
      numbers: of absolute value at most `bound`.
      bound: below 2**30, static.
      mask: which of them count; None for all.

    Returns:
      Count[...].

    Example:
      >>> import jax.numpy as jnp
      >>> int(sum_squares(jnp.full(3, -(2**29)), 2**29))
      864691128455135232
    """
    if bound**2 < 2**31:
        return sum_integers(numbers * numbers, bound**2, mask)
    # (2**15 a + b)**2 = 2**30 a**2 + 2**16 a b + b**2 for the upper and the lower 15 bits of |x|.
    size = jnp.abs(numbers)
    high, low = size >> np.int32(15), size & np.int32(2**15 - 1)
    most = bound >> 15
    squares = sum_integers(high * high, most**2, mask).times(2**30)
    mixed = sum_integers(high * low, most * 2**15, mask).times(2**16)
    return squares + mixed + sum_integers(low * low, 2**30, mask)

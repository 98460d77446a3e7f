"""Alias tables of integer masses: a word leads to an index, with probabilities that are exact."""

import dataclasses
import numbers

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, UInt32

from jaxdp_kernels import Table, register_dataclass

from .._spec import as_array, check_int


@register_dataclass
@dataclasses.dataclass(frozen=True)
class AliasTable:
    """Draws an index from a word, and in tables of more than 32 bits a second one after a tie.

    The low bits of a word choose a column; the others are compared with the column's threshold,
    below which the index is the column itself, and otherwise its alias (Walker 1977). Threshold and
    alias share 32 bits, so that a draw reads memory once. In a table of more bits, a threshold goes
    on in a second array: where a word is equal to its upper part a second word decides.

    Attributes:
      packed: uint32[.., 2**a], the upper bits of each threshold above the a bits of the alias; with
        a leading axis, a table in each row.
      lower: uint32[.., 2**a], the lower 32 bits of each threshold; None if there are none.
    """

    packed: UInt32[Array | np.ndarray, "*rows columns"]
    lower: UInt32[Array | np.ndarray, "*rows columns"] | None

    @classmethod
    def of(
        cls, masses: Int[np.ndarray, "*rows cells"] | tuple[int, ...], bits: int
    ) -> "AliasTable":
        """The table of masses that add up to 2**bits, exactly; or one for each row of masses.

        Args:
          masses: of the indices 0, 1, ..; Python integers where they are beyond int64.
          bits: at most 32 for tables that need one word, else at most 64, with fewer than 64 where
            upper bits of the first word are spared.

        Returns:
          A table of a power of two of columns; indices beyond the masses are never drawn.

        Raises:
          ValueError: there are more masses than words, or they do not add up to 2**bits.
          TypeError: masses are not integers.
        """
        bits = check_int("bits", bits, low=1, high=64)
        # Sums of rows stay below rows * 2**bits: where int64 may not hold them they are Python's.
        array = as_array("masses", masses)
        if bits > 32:
            array = np.asarray(masses, object)
        whole = array.dtype.kind in "iu"
        if array.dtype == object:
            whole = all(isinstance(mass, numbers.Integral) for mass in array.flat)
        if not whole:
            raise TypeError(f"masses must be integers that add up to 2**{bits}.")
        if array.ndim == 0 or array.size == 0:
            raise ValueError(f"masses must be a vector, or rows of them, got shape {array.shape}.")
        a = max((array.shape[-1] - 1).bit_length(), 1)
        extra = 32 if bits > 32 else 0  # bits that second words decide
        if a > bits - extra:
            raise ValueError(
                f"masses must be at most 2**{bits - extra}, which words of {bits - extra} bits "
                f"tell apart, got {array.shape[-1]}."
            )
        # Each is in range before they are added up: no sum wraps.
        valid = not np.any((array < 0) | (array > 2**bits))
        if bits <= 32 and valid:
            array = array.astype(np.int64)
        if not valid or np.any(array.sum(axis=-1) != 2**bits):
            raise ValueError(f"masses must be >= 0 and add up to 2**{bits} in each row.")
        columns = 2**a
        padded = np.full((*array.shape[:-1], columns), 0, array.dtype)
        padded[..., : array.shape[-1]] = array
        threshold, alias = _columns(padded.reshape(-1), columns, 1 << (bits - a))
        packed = (((threshold >> extra) << a) | (alias & (columns - 1))).astype(np.uint32)
        lower = (threshold & (2**extra - 1)).astype(np.uint32).reshape(padded.shape)
        return cls(packed.reshape(padded.shape), lower if extra else None)

    @property
    def column_bits(self) -> int:
        """The bits of a word that choose the column, a."""
        return self.packed.shape[-1].bit_length() - 1

    def draw(
        self,
        word: UInt32[Array, "*s"],
        second: UInt32[Array, "*s"] | None = None,
        *,
        row: Int32[Array, "*s"] | None = None,
        spare: int = 0,
    ) -> Int32[Array, "*s"]:
        """The index that each word, or pair of words, leads to, in [0, 2**a).

        Args:
          word: the first words.
          second: the second words; None for tables of at most 32 bits.
          row: which table of several, in range.
          spare: upper bits of the first words that are not used, static.
        """
        entry, place = self._read(word, row)
        below, tie = self._compared(word, entry, spare)
        if self.lower is not None:
            assert second is not None, "a table of more than 32 bits needs second words"
            below |= tie & (second < _looked_up(self.lower, place))
        return self._chosen(word, entry, below)

    def draft(
        self, word: UInt32[Array, "*s"], *, spare: int = 0
    ) -> tuple[Int32[Array, "*s"], Bool[Array, "*s"]]:
        """The index that each first word leads to, and whether no second one is needed."""
        entry, _ = self._read(word, None)
        below, tie = self._compared(word, entry, spare)
        return self._chosen(word, entry, below), ~tie

    def _read(self, word: jax.Array, row: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        """The entry of a word's column, and its place."""
        place = self._low(word)
        if row is not None:
            place += row * np.int32(self.packed.shape[-1])
        return _looked_up(self.packed, place), place

    def _low(self, word: jax.Array) -> jax.Array:
        """The column of a word, or the alias of an entry."""
        return (word & np.uint32(self.packed.shape[-1] - 1)).astype(jnp.int32)

    def _compared(
        self, word: jax.Array, entry: jax.Array, spare: int
    ) -> tuple[jax.Array, jax.Array]:
        """Whether the upper bits of a word are below the threshold, and whether they are equal."""
        low = np.uint32(self.packed.shape[-1] - 1)
        used = word & np.uint32(2 ** (32 - spare) - 1)
        # With all low bits of the word set, the alias beside the threshold does not matter. One
        # comparison of whole words: with more to do, XLA for CPU makes the words a second time.
        return used | low < entry, (used | low) == (entry | low)

    def _chosen(self, word: jax.Array, entry: jax.Array, below: jax.Array) -> jax.Array:
        return jnp.where(below, self._low(word), self._low(entry))


def _looked_up(table: Array | np.ndarray | Table, place: jax.Array) -> jax.Array:
    if isinstance(table, Table):  # within a kernel
        return table.read(place)
    return jnp.asarray(table).reshape(-1).at[place].get(mode="promise_in_bounds")


def _columns(masses: np.ndarray, columns: int, capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """The thresholds and the aliases of the columns of all rows, in one sweep of prefix sums.

    Light columns, of less than the capacity, are filled up in order from the heavy ones of their
    row. Light i begins with the first heavy that is not used up by those before it, and that one
    serves it whole; a heavy that falls below its own capacity by this is filled up by the next
    heavy. Rows do not mix: in each, as much is missing as is left over.
    """
    threshold, alias = masses.copy(), np.arange(masses.size)
    light = (masses < capacity).astype(bool)
    lights, heavies = np.flatnonzero(light), np.flatnonzero(~light)
    missing = capacity - masses[lights]
    after, offered = np.cumsum(missing), np.cumsum(masses[heavies] - capacity)
    before = after - missing
    alias[lights] = heavies[np.searchsorted(offered, before, side="right")]
    # The light that takes more than is left of each heavy, if there is one.
    last = np.minimum(np.searchsorted(after, offered, side="right"), max(lights.size - 1, 0))
    beyond = np.zeros(heavies.size, bool)
    if lights.size:
        beyond = ((before[last] < offered) & (offered < after[last])).astype(bool)
    threshold[heavies[~beyond]] = 0  # full columns are their own alias
    (used,) = np.nonzero(beyond)
    threshold[heavies[used]] = capacity + offered[used] - after[last[used]]
    alias[heavies[used]] = heavies[used + 1]
    return threshold, alias

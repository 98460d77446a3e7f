"""Bits flipped at random, many at once: what unary encodings and RAPPOR send.

A bit is 1 where a random number of 32 bits is below a threshold. The numbers of 32 bits lie across
32 words, a *plane* each: the plane of the most significant digits first. So a word is a digit of 32
numbers, which are compared with their thresholds all at once, and a few planes decide nearly all.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int32, UInt32

from jaxdp_kernels.randomize_and_tally import randomize_and_tally
from jaxdp_kernels.threefry_words import TILE, StreamKey, UserWords
from jaxdp_kernels.threefry_words.ref import (
    LANES,
    first_blocks,
    pairs_users,
    user_axes,
    users_words,
)
from jaxdp_kernels.threefry_words.xla import joined, separated, stored

from .._contract import Kernels, Round, Tree, Words

_QUICK = 12  # planes that are made for everyone
_AT_ONCE = 8  # planes that a kernel of an accelerator makes and reads, with none stored
_GROUP = 512  # words of reports of which one at a time is made anew
_OPEN = np.uint32(0xAAAAAAAA)
"""Marks a word of a report with bits that more planes must decide. Likely bits are alike: a word
that happens to be this one is rare, and made anew as well."""


def num_lanes(num_bits: int) -> int:
    """Numbers that are drawn for some bits, and words that hold them: up to 32, a power of two."""
    return 1 << (num_bits - 1).bit_length() if num_bits <= 32 else 32 * num_packed(num_bits)


def num_packed(num_bits: int) -> int:
    """Words of so many bits, 32 in each."""
    return -(-num_bits // 32)


@dataclasses.dataclass(frozen=True)
class NoisyBits:
    """Some bits of a user, each flipped at random, and flipped again whenever they are sent.

    Attributes:
      thresholds: uint32[1 or 2, 2]; for the bits, and for those that are sent, the numbers below
        which a 0 becomes 1, and a 1 remains 1.
      user: from the first words, uint32[num_first], and the user's value to what comes first in the
        report, uint32[f], and to which bits are 1 at first, int32[h].
      num_bits: static.
      num_first: words of a user before those of the bits, static.
      num_rounds: how often they are sent; 0 to send the bits of the first noise themselves, static.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    thresholds: UInt32[Array | np.ndarray, "s 2"]
    user: Callable[[jax.Array, Tree], tuple[jax.Array, jax.Array]]
    num_bits: int
    num_first: int = 0
    num_rounds: int = 0
    word_bits: int = 32

    @property
    def num_words(self) -> int:
        """The first words of a user, then a word for each lane, each time that bits are flipped."""
        return self.num_first + (1 + self.num_rounds) * num_lanes(self.num_bits)

    @property
    def _sent(self) -> int:
        """Words of what is sent."""
        return max(self.num_rounds, 1) * num_packed(self.num_bits)

    @property
    def _rows(self) -> int:
        """Words of the numbers of 32 bits, or of as many as there are; some hold several planes."""
        return min(num_lanes(self.num_bits), 32)

    @property
    def _used(self) -> np.ndarray:
        """The bits of each word that stand for one, uint32[W]."""
        used = np.full(num_packed(self.num_bits), 2**32 - 1, np.uint32)
        used[-1] >>= np.uint32(-self.num_bits % 32)
        return used

    def report(self, words: Words, value: Tree) -> UInt32[Array, " length"]:
        """One user's report: what `user` says comes first, then the bits of each round, packed."""
        first, lanes = self.num_first, num_lanes(self.num_bits)
        head, ones = self.user(words[0:first], value)
        bits = _packed(ones, np.arange(num_packed(self.num_bits), dtype=np.int32))
        # Stored by a GPU: it would make the words of each plane anew for what reads several.
        drawn = lax.optimization_barrier(words[first : first + lanes])
        bits, _ = self._flipped(self._planes(drawn), bits, 0)
        if self.num_rounds:
            drawn = lax.optimization_barrier(words[first + lanes : self.num_words])
            drawn = drawn.reshape(self.num_rounds, lanes)
            bits = jnp.broadcast_to(bits[None], (self.num_rounds, len(bits)))
            bits, _ = self._flipped(self._planes(drawn), bits, 1)
            return jnp.concatenate([head, (bits & self._used[None]).ravel()])
        return jnp.concatenate([head, bits & self._used])

    def _planes(self, drawn: UInt32[Array, "*r lanes"]) -> list[UInt32[Array, "*r W"]]:
        """The planes of the numbers that lie in these words."""
        lead = drawn.shape[:-1]
        if self.word_bits == 32:
            return self._in_rows(jnp.moveaxis(drawn.reshape(*lead, self._rows, -1), -2, 0), 32)
        # Shorter words hold the same sequence of digits.
        digits = jnp.broadcast_to(drawn[..., None], (*drawn.shape, self.word_bits))
        digits = ((digits >> _places(digits)) & np.uint32(1)).reshape(*lead, self.word_bits, -1)
        width = 32 * num_packed(self.num_bits) - digits.shape[-1]
        digits = jnp.pad(digits, [(0, 0)] * (digits.ndim - 1) + [(0, width)])
        digits = digits.reshape(*lead, self.word_bits, -1, 32)
        packed = jnp.sum(digits << _places(digits), axis=-1, dtype=jnp.uint32)
        return list(jnp.moveaxis(packed, -2, 0))

    def _in_rows(self, rows: Sequence[jax.Array] | jax.Array, number: int) -> list[jax.Array]:
        """The first planes in words that hold one each, or several, the lowest bits first."""
        each = 32 // self._rows
        return [
            rows[plane // each] >> np.uint32(plane % each * self._rows) for plane in range(number)
        ]

    def _flipped(
        self,
        planes: Iterable[jax.Array],
        bits: jax.Array,
        step: int,
        begin: int = 0,
        state: tuple[jax.Array, jax.Array] | None = None,
    ) -> tuple[jax.Array, jax.Array]:
        """The bits after a step, and which of them need more planes than these.

        Args:
          planes: the next ones.
          bits: before the step.
          step: whose thresholds are theirs.
          begin: how many planes came before.
          state: what these led to.
        """
        low, high = jnp.asarray(self.thresholds)[step]
        noisy, undecided = state or (jnp.zeros_like(bits), ~jnp.zeros_like(bits))
        for number, plane in enumerate(planes, begin):
            # A digit of all thresholds: that of a 0, or of a 1 where they differ.
            shift = np.uint32(self.word_bits - 1 - number)
            digit, other = (-((x >> shift) & np.uint32(1)) for x in (low, high))
            digit = digit ^ (bits & (digit ^ other))
            noisy = noisy | (undecided & digit & ~plane)
            undecided = undecided & ~(digit ^ plane)
        return noisy, undecided

    @property
    def kernels(self) -> Kernels[Any]:
        """The same tally: on a CPU of a few planes first, elsewhere without a plane stored."""
        if self.word_bits != 32:
            return Kernels()
        wide = dict.fromkeys(("cuda", "rocm", "tpu"), self._wide_tally)
        return Kernels(tally={"cpu": self._quick_tally, **wide})

    def _wide_tally(
        self,
        round: Round[Any],
        key: StreamKey,
        start: jax.Array,
        first: jax.Array | None,
        values: Tree,
        mask: jax.Array,
    ) -> Tree:
        """The tally of the reports of consecutive users; see `randomize_and_tally`.

        A kernel reads several planes of all users as it makes them; what it stores is the bits so
        far, and which are undecided. All that it makes follows from a word's place in a flat array:
        XLA for GPUs would make what depends on the user alone, or on the word alone, in kernels of
        their own.
        """
        size, width = mask.shape[0], num_packed(self.num_bits)
        if first is not None or size % TILE or self._rows < 32 or self.num_rounds > 1:
            return randomize_and_tally(
                round, key, start, first, values, mask, implementation="wide"
            )
        pairs = size // 2
        place = lax.iota(jnp.uint32, width * pairs)
        column = place // np.uint32(pairs)
        pair, word = place - column * np.uint32(pairs), column.astype(jnp.int32)
        place = first_blocks(pair, self.num_words) + column * np.uint32(LANES)
        held = jax.tree.map(pairs_users, values)
        head, ones = self._users(
            key, start, first_blocks(lax.iota(jnp.uint32, pairs), self.num_words), held, False
        )
        bits = []
        for half in (0, 1):
            of_words = jnp.broadcast_to(ones[:, half, None], (len(ones), width, pairs))
            bits.append(_packed(of_words.reshape(len(ones), -1), word))
        for step in range(1 + self.num_rounds):
            at = place + np.uint32((self.num_first + step * num_lanes(self.num_bits)) * LANES)
            bits = self._flipped_pairs(key, start, at, bits, step)
        sent = [noisy.reshape(width, pairs) & self._used[:, None] for noisy in bits]
        reports = jnp.concatenate([head, jnp.concatenate(sent, axis=1)])
        return round.tally(reports.T, pairs_users(mask).ravel())

    def _flipped_pairs(
        self, key: StreamKey, start: jax.Array, at: jax.Array, bits: list[jax.Array], step: int
    ) -> list[jax.Array]:
        """The bits of both users after a step, from the blocks of all planes."""
        row = num_packed(self.num_bits) * LANES
        state: list[tuple[jax.Array, jax.Array] | None] = [None, None]
        for begin in range(0, 32, _AT_ONCE):
            blocks = [
                key.blocks((start[0], start[1]), at + np.uint32(plane * row))
                for plane in range(begin, begin + _AT_ONCE)
            ]
            state = [
                self._flipped(planes, before, step, begin, now)
                for planes, before, now in zip(zip(*blocks, strict=True), bits, state, strict=True)
            ]
            state = lax.optimization_barrier(state)
        return [now[0] for now in state if now is not None]

    def _quick_tally(
        self,
        round: Round[Any],
        key: StreamKey,
        start: jax.Array,
        first: jax.Array | None,
        values: Tree,
        mask: jax.Array,
    ) -> Tree:
        """The tally of the reports of consecutive users; see `randomize_and_tally`."""
        size = mask.shape[0]
        if first is not None or size <= LANES:
            return randomize_and_tally(round, key, start, first, values, mask)
        tiles = -(-size // TILE)

        def padded(leaf: jax.Array) -> jax.Array:
            return jnp.pad(leaf, [(0, tiles * TILE - size)] + [(0, 0)] * (leaf.ndim - 1))

        values = jax.tree.map(padded, values)
        held, members = jax.tree.map(pairs_users, values), pairs_users(padded(mask)).ravel()
        place = first_blocks(lax.iota(jnp.uint32, tiles * LANES), self.num_words)
        head, ones = self._users(key, start, place, held, True)
        sent = self._quick(key, start, place, ones)

        def entry(at: jax.Array) -> jax.Array:
            """Words of what is sent, from their places in the array of all of them."""
            row, user = at // members.size, at % members.size
            half, user = user // (tiles * LANES), user % (tiles * LANES)
            user = (user >> 10) * TILE + half * LANES + (user & (LANES - 1))
            words = users_words(key, start, user.astype(jnp.uint32), self.num_words)
            axes = user_axes(self.num_words)
            theirs = jax.tree.map(lambda leaf: leaf[user], values)
            return jax.vmap(self._entry, in_axes=(axes, 0, 0))(words, theirs, row)

        sent = _completed(sent, members, entry)
        return round.tally(jnp.concatenate([head, sent]).T, members)

    def _users(
        self, key: StreamKey, start: jax.Array, place: jax.Array, held: Tree, store: bool
    ) -> tuple[UInt32[Array, "f n"], Int32[Array, "h 2 m"]]:
        """What `user` says of all users; on a CPU it is quicker if that is stored."""
        rows = np.arange(self.num_first, dtype=np.uint32)[:, None] * np.uint32(LANES)

        def make() -> tuple[jax.Array, jax.Array]:
            words = jnp.stack(key.blocks(start, place[None] + rows))
            each = jax.vmap(jax.vmap(self.user, (-1, 0), -1), (0, 0), 1)
            return each(words, held)

        head, ones = stored(make, start) if self.num_first and store else make()
        return head.reshape(-1, 2 * place.size), ones

    def _quick(
        self, key: StreamKey, start: jax.Array, place: jax.Array, ones: Int32[Array, "h 2 m"]
    ) -> UInt32[Array, "e n"]:
        """The words of what is sent, from a few planes; _OPEN where these are too few."""
        width, lanes = num_packed(self.num_bits), num_lanes(self.num_bits)
        column = np.arange(width, dtype=np.int32)[:, None]
        place = place[None] + column.astype(np.uint32) * np.uint32(LANES)

        def step(number: int, place: jax.Array, bits: Sequence[jax.Array]) -> jax.Array:
            """The words of both halves, joined."""
            rows = range(-(-_QUICK * self._rows // 32))
            blocks = [key.blocks(start, place + np.uint32(width * row * LANES)) for row in rows]
            used = self._used.reshape(*[1] * (place.ndim - 2), width, 1)
            made = []
            for half, before in zip(zip(*blocks, strict=True), bits, strict=True):
                noisy, undecided = self._flipped(self._in_rows(half, _QUICK), before, number)
                is_open = (undecided & used) != 0
                if number:
                    is_open |= before == _OPEN
                made.append(jnp.where(is_open, _OPEN, noisy & used))
            return joined(*made)

        def noisy() -> jax.Array:
            bits = [_packed(ones[:, half, None], column) for half in (0, 1)]
            return step(0, place + np.uint32(self.num_first * LANES), bits)

        both = stored(noisy, start)
        if self.num_rounds:
            rounds = np.arange(self.num_rounds, dtype=np.uint32)[:, None, None]
            offset = np.uint32((self.num_first + lanes) * LANES)
            at = place[None] + (rounds * np.uint32(lanes * LANES) + offset)
            bits = [jnp.broadcast_to(part[None], at.shape) for part in separated(both)]
            both = stored(lambda: step(1, at, bits), start)
        return jnp.stack(separated(both), axis=-2).reshape(self._sent, -1)

    def _entry(self, words: UserWords, value: Tree, entry: Int32[Array, ""]) -> UInt32[Array, ""]:
        """One word of what a user sends, from all planes of its own words alone."""
        width, lanes = num_packed(self.num_bits), num_lanes(self.num_bits)
        _, ones = self.user(words[0 : self.num_first], value)
        column = entry % width
        rows = self.num_first + column + width * np.arange(self._rows, dtype=np.int32)
        bits = _packed(ones, column)
        bits, _ = self._flipped(self._in_rows(words[rows], 32), bits, 0)
        if self.num_rounds:
            rows = rows + lanes * (1 + entry // width)
            bits, _ = self._flipped(self._in_rows(words[rows], 32), bits, 1)
        return bits & jnp.asarray(self._used)[column]


def _places(digits: jax.Array) -> jax.Array:
    """The place of each digit along the last axis."""
    return lax.broadcasted_iota(jnp.uint32, digits.shape, digits.ndim - 1)


def _packed(ones: Int32[Array, "h ..."], column: jax.Array | np.ndarray) -> jax.Array:
    """The words of given columns, of bits that are 1 in these places."""
    bits = [
        jnp.where(one >> 5 == column, np.uint32(1) << (one & 31).astype(jnp.uint32), np.uint32(0))
        for one in ones
    ]
    return functools.reduce(jnp.bitwise_or, bits)


def _completed(
    sent: UInt32[Array, "e n"], members: jax.Array, entry: Callable[[jax.Array], jax.Array]
) -> UInt32[Array, "e n"]:
    """The words of what is sent, those that are open made anew.

    They are so few that a list of them would take longer than all else. So of each of many groups
    the first one is made, as vectors, while any group has one.
    """
    groups = sent.size // _GROUP
    is_open = ((sent == _OPEN) & members[None]).reshape(-1, 32, groups)
    left = is_open.astype(jnp.uint32) << np.arange(32, dtype=np.uint32)[None, :, None]
    left = jnp.sum(left, axis=1, dtype=jnp.uint32)
    group = lax.iota(jnp.int32, groups)

    def again(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        sent, left = state
        high = jnp.argmax(left != 0, axis=0)
        word = jnp.take_along_axis(left, high[None], axis=0)[0]
        lowest = word & -word
        low = lax.population_count(lowest - np.uint32(1)).astype(jnp.int32)
        at = (high.astype(jnp.int32) * 32 + low) * groups + group
        at = jnp.where(word == 0, sent.size, at)
        made = entry(jnp.minimum(at, sent.size - 1))
        sent = sent.at[at].set(made, mode="drop", unique_indices=True)
        row = lax.broadcasted_iota(jnp.int32, left.shape, 0)
        return sent, jnp.where(row == high[None], left & ~lowest[None], left)

    state = sent.ravel(), left
    return lax.while_loop(lambda state: jnp.any(state[1] != 0), again, state)[0].reshape(sent.shape)

"""Uniform sets by Floyd's algorithm, of many users at a time."""

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int, Shaped, UInt32

from jaxdp_kernels.threefry_words.xla import joined, separated

from .._bits import mul_32x32

NO_LABEL = np.uint32(2**31)
"""Stands for no label; and a bit of picks that labels leave free."""

_AT_ONCE = 3  # picks of a step
_FEW_LANES = 16  # of which one is read by comparing them all


def bit(label: UInt32[Array, "*s"]) -> UInt32[Array, "*s"]:
    """The bit of a label in its lane."""
    return np.uint32(1) << (label & np.uint32(31))


@dataclasses.dataclass(frozen=True)
class Floyd:
    """Adds labels to sets, one a word, such that uniform sets stay uniform.

    A word picks uniformly out of the labels below a modulus, which grows by one from pick to pick.
    A pick that is in the set already is replaced by the last label below the modulus. A word that
    is not below the largest multiple of its modulus makes the user silent.

    Attributes:
      num_labels: the last modulus, below 2**31.
      num_picks: labels to add, fewer than `num_labels`.
      word_bits: words are uniform on [0, 2**word_bits).
    """

    num_labels: int
    num_picks: int
    word_bits: int = 32

    @property
    def num_lanes(self) -> int:
        """Words that hold a bit for each label, and for one more."""
        return self.num_labels // 32 + 1

    @property
    def moduli(self) -> Int[np.ndarray, " picks"]:
        """The modulus of each pick."""
        return np.arange(self.num_labels - self.num_picks + 1, self.num_labels + 1)

    @functools.cached_property
    def heard(self) -> Fraction:
        """The probability that no word makes the user silent."""
        space = 2**self.word_bits
        below = (space - space % modulus for modulus in self.moduli.tolist())
        return Fraction(math.prod(below), space**self.num_picks)

    @property
    def _label_bits(self) -> int:
        return max((self.num_labels - 1).bit_length(), 1)

    @property
    def at_once(self) -> int:
        """Picks of a step: as many as fit into a word with a bit to spare."""
        return max(min(_AT_ONCE, 31 // self._label_bits, self.num_picks), 1)

    def rows(self, picks: Shaped[Array, "picks ..."]) -> Shaped[Array, "steps at_once ..."]:
        """What each step takes of an array; the last one takes the first picks once more."""
        each = self.at_once
        again = picks[: -self.num_picks % each]
        return jnp.concatenate([picks, again]).reshape(-1, each, *picks.shape[1:])

    def steps(self, at_once: int) -> UInt32[np.ndarray, "steps 5 at_once"]:
        """The table of `sets`: place, modulus, its inverse, limit of a word, and whether it counts.

        Args:
          at_once: picks of a step, the property of this name, or that of more picks.
        """
        number = -(-self.num_picks // at_once) * at_once
        real, space = np.arange(number) < self.num_picks, 2**self.word_bits
        place = np.arange(number) % max(self.num_picks, 1)
        moduli = self.num_labels - self.num_picks + 1 + place
        limits = np.where(real, space - space % moduli - 1, 2**32 - 1)
        table = np.stack([place, moduli, 2**32 // moduli, limits, real])
        return np.moveaxis(table.reshape(5, -1, at_once), 0, 1).astype(np.uint32)

    def sets(
        self,
        first: jax.Array,
        rows: jax.Array,
        steps: UInt32[Array | np.ndarray, "steps 5 at_once"],
        number: int | Int[Array, ""],
        read: Callable[[jax.Array], Sequence[UInt32[Array, " n"]]],
        store: Callable[[Callable[[], jax.Array]], jax.Array],
    ) -> list[tuple[UInt32[Array, "lanes n"], Bool[Array, " n"]]]:
        """The sets after all picks, of users in one part or two: those of both words of blocks.

        Args:
          first: the label of each set before the picks, or NO_LABEL; uint32[n] of one part, or two
            as `joined` makes them one.
          rows: [steps, at_once, ..], what stands for the words of the picks.
          steps: as of `steps`; there may be more rows where `number` is traced.
          number: of steps that are made.
          read: makes such an entry the words of the users of each part.
          store: calls a function, and keeps the array that it returns in memory. (XLA for CPU makes
            an entry anew for each that reads it.)

        Returns:
          For each part the sets, and who is silent.
        """
        width, at_once = self._label_bits, steps.shape[2]
        tables = rows, jnp.asarray(steps)
        offsets = np.arange(self.num_lanes, dtype=np.uint32)[:, None] * np.uint32(32)

        def with_label(held: jax.Array, label: jax.Array) -> jax.Array:
            # A label of another lane shifts the bit out. (A scatter takes several times as long.)
            return held | (np.uint32(1) << (label[None] - offsets))

        def make(state: tuple[list[jax.Array], jax.Array], row: tuple[jax.Array, jax.Array]):
            (sets, before), (sources, (_, moduli, inverses, limits, real)) = state, row

            def pick() -> jax.Array:
                words = [read(sources[i]) for i in range(at_once)]
                made = []
                for part, (held, last) in enumerate(zip(sets, separated(before), strict=True)):
                    labels, silent = [], last & NO_LABEL
                    for i in range(at_once):
                        word = words[i][part]
                        label = _remainder(word, moduli[i], inverses[i])
                        taken = (self._lane(held, label) & bit(label)) != 0
                        for other in labels:
                            taken = taken | (label == other)
                        label = jnp.where(taken, moduli[i] - np.uint32(1), label)
                        labels.append(jnp.where(real[i] != 0, label, labels[0]) if i else label)
                        silent = silent | jnp.where(word > limits[i], NO_LABEL, np.uint32(0))
                    shifted = (label << np.uint32(i * width) for i, label in enumerate(labels))
                    made.append(functools.reduce(operator.or_, shifted, silent))
                return joined(*made)

            picks = store(pick)
            mask, made = np.uint32(2**width - 1), []
            for held, labels in zip(sets, separated(picks), strict=True):
                for i in range(at_once):
                    held = with_label(held, (labels >> np.uint32(i * width)) & mask)
                made.append(held)
            return (made, picks), None

        def make_at(number: jax.Array, state: tuple[list[jax.Array], jax.Array]):
            row = (lax.dynamic_index_in_dim(table, number, 0, False) for table in tables)
            return make(state, tuple(row))[0]

        empty = jnp.zeros((self.num_lanes, first.size), jnp.uint32)
        state = [with_label(empty, label) for label in separated(first)], jnp.zeros_like(first)
        if isinstance(number, int):
            (sets, last), _ = lax.scan(make, state, tables)
        else:
            sets, last = lax.fori_loop(0, number, make_at, state)
        silent = [(picks & NO_LABEL) != 0 for picks in separated(last)]
        return list(zip(sets, silent, strict=True))

    def _lane(
        self, held: UInt32[Array, "lanes n"], label: UInt32[Array, " n"]
    ) -> UInt32[Array, " n"]:
        """The lanes that have the bits of some labels."""
        place = label >> 5
        if self.num_lanes <= _FEW_LANES:
            each = (
                jnp.where(place == np.uint32(lane), held[lane], np.uint32(0))
                for lane in range(self.num_lanes)
            )
            return functools.reduce(operator.or_, each)
        at = place.astype(jnp.int32)[None]
        return jnp.take_along_axis(held, at, axis=0, mode="promise_in_bounds")[0]


def _remainder(
    word: UInt32[Array, " n"], modulus: UInt32[Array, ""], inverse: UInt32[Array, ""]
) -> UInt32[Array, " n"]:
    """`word % modulus`, by a product with `inverse = floor(2**32 / modulus)`.

    Its upper half is the quotient, or one less: `word (2**32 / modulus - inverse) < 2**32`.
    """
    rest = word - mul_32x32(word, inverse)[0] * modulus
    return jnp.minimum(rest, rest - modulus)  # below 0 it wraps to a large number

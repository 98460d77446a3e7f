"""The sets of an affine design, and how a user picks one of them, from five words."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, UInt32

from jaxdp_kernels import register_dataclass

from .._bits import mul_32x32
from .._contract import Words, static

NUM_WORDS = 5
"""One for whether a set holds the value, two for the residue, two for the function."""


@register_dataclass
@dataclasses.dataclass(frozen=True)
class AffineMaps:
    """The sets of a design, and how a user picks one; a pytree.

    For a modulus of more than 16 bits `a v` stands for `a v / 2**32` modulo M, a product by
    Montgomery: what the multipliers are called does not matter.

    Attributes:
      threshold: uint32[], the set holds the user's value where the first word is below it.
      multipliers: uint32[U], or None for 1, .., M - 1.
      blocks: int32[L, t], the base blocks, sorted; None for 0, .., t - 1 alone.
      num_values: k, static.
      modulus: M, static.
      set_size: t, static.
      num_functions: F, static: number `U i + j` is block i and multiplier j.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    threshold: UInt32[Array | np.ndarray, ""]
    multipliers: UInt32[Array | np.ndarray, " U"] | None
    blocks: Int32[Array | np.ndarray, "L t"] | None
    num_values: int = static()
    modulus: int = static()
    set_size: int = static()
    num_functions: int = static()
    word_bits: int = static(default=32)

    @property
    def num_multipliers(self) -> int:
        """U, static."""
        return self.modulus - 1 if self.multipliers is None else self.multipliers.shape[0]

    def products(
        self, function: UInt32[Array, "*#s"], value: UInt32[Array, "*#s"]
    ) -> UInt32[Array, "*#s"]:
        """`a v` modulo M."""
        function, value = _alike(function, value)
        number = function % np.uint32(self.num_multipliers)
        if self.multipliers is None:
            multiplier = number + np.uint32(1)
        elif self.num_multipliers == 1:
            return value
        else:
            multiplier = jnp.asarray(self.multipliers)[number.astype(jnp.int32)]
        if self.modulus < 2**16:
            return multiplier * value % np.uint32(self.modulus)
        high, low = mul_32x32(multiplier, value)
        # A multiple of M with the same lower half: the difference is 2**32 times the product.
        quotient = low * np.uint32(pow(self.modulus, -1, 2**32))
        multiple, _ = mul_32x32(quotient, jnp.uint32(self.modulus))
        return jnp.where(high < multiple, high + np.uint32(self.modulus), high) - multiple

    def holds(
        self,
        function: UInt32[Array, "*#s"],
        shift: UInt32[Array, "*#s"],
        value: UInt32[Array, "*#s"],
    ) -> Bool[Array, "*#s"]:
        """Whether a set holds a value; the shift of a blank, M, leads to none."""
        function, shift, value = _alike(function, shift, value)
        product = self.products(function, value)
        rest = np.uint32(self.modulus) - shift
        residue = jnp.where(product >= rest, product - rest, product + shift)
        if self.blocks is None:
            held = residue < np.uint32(self.set_size)
        else:
            rows = self.rows(function)
            held = jnp.any(rows == residue[..., None].astype(jnp.int32), axis=-1)
        return held & (shift != np.uint32(self.modulus))

    def rows(self, function: UInt32[Array, "*s"]) -> Int32[Array, "*s t"]:
        """The base blocks of functions."""
        return jnp.asarray(self.blocks)[self._block(function)]

    def _block(self, function: UInt32[Array, "*s"]) -> Int32[Array, "*s"]:
        """Which base block functions move."""
        return (function // np.uint32(self.num_multipliers)).astype(jnp.int32)

    def pick(
        self, words: Words, value: Int32[Array, ""]
    ) -> tuple[UInt32[Array, ""], UInt32[Array, ""], Bool[Array, ""]]:
        """One user's function and shift, and whether the report is none but a blank."""
        value = jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1).astype(jnp.uint32)
        size, others = self.set_size, self.modulus - self.set_size
        inside = words[0] < self.threshold
        index, short = self._number(words[1], words[2], (size, others), inside)
        function, lost = self._number(
            words[3], words[4], (self.num_functions, self.num_functions), inside
        )
        if self.blocks is None:
            residue = jnp.where(inside, index, index + np.uint32(size))
        else:
            row = self.rows(function)
            # The index-th residue outside is so many further on as there are members before it.
            before = row - np.arange(size, dtype=np.int32) <= index.astype(jnp.int32)
            beyond = index + jnp.sum(before, dtype=jnp.uint32)
            place = jnp.minimum(index, np.uint32(size - 1)).astype(jnp.int32)
            member = jnp.asarray(self.blocks)[self._block(function), place]
            residue = jnp.where(inside, member.astype(jnp.uint32), beyond)
        product = self.products(function, value)
        wrap = jnp.where(residue < product, np.uint32(self.modulus), np.uint32(0))
        return function, residue - product + wrap, short | lost

    def _number(
        self, high: jax.Array, low: jax.Array, limits: tuple[int, int], first: Bool[Array, ""]
    ) -> tuple[UInt32[Array, ""], Bool[Array, ""]]:
        """A uniform number below a limit, and whether two words are refused (Lemire 2019).

        It is the integer part of a product with the limit, in units of all pairs of words; those
        with the smallest remainders are refused, as many as there are pairs too many.

        Args:
          high: the first word.
          low: the second.
          limits: two of them.
          first: which one.
        """
        excess = [4**self.word_bits % limit for limit in limits]
        limit = jnp.where(first, np.uint32(limits[0]), np.uint32(limits[1]))
        refused = jnp.where(first, np.uint32(excess[0]), np.uint32(excess[1]))
        if self.word_bits < 32:
            bits = np.uint32(2 * self.word_bits)
            product = ((high << np.uint32(self.word_bits)) | low) * limit
            rest = product & np.uint32(4**self.word_bits - 1)
            return product >> bits, rest < refused
        carried, rest = mul_32x32(low, limit)
        number, middle = mul_32x32(high, limit)
        middle = middle + carried
        number = number + (middle < carried).astype(jnp.uint32)
        return number, (middle == 0) & (rest < refused)

    def shares(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The probabilities of a report whose set holds the value, and of one that does not.

        As float64; only inside an x64 block.
        """
        space, size, others = 2**self.word_bits, self.set_size, self.modulus - self.set_size
        chance = jnp.asarray(self.threshold).astype(jnp.float64) / space
        each = space**2 // self.num_functions / space**2
        inside = each * (space**2 // size / space**2) * chance
        return inside, each * (space**2 // others / space**2) * (1 - chance)

    def blank(self) -> Float[Array, ""]:
        """The probability of a blank; only inside an x64 block."""
        pairs, space = 4**self.word_bits, 2**self.word_bits
        chance = jnp.asarray(self.threshold).astype(jnp.float64) / space
        inside, outside, function = (
            pairs % limit / pairs
            for limit in (self.set_size, self.modulus - self.set_size, self.num_functions)
        )
        residue = chance * inside + (1 - chance) * outside
        return function + residue - function * residue

    def probabilities(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The realised (p, q) as float64; only inside an x64 block."""
        inside, outside = self.shares()
        holding = self.num_functions * self.set_size
        others = (self.set_size - 1) * inside + (self.modulus - self.set_size) * outside
        return holding * inside, holding / (self.modulus - 1) * others


def _alike(*arrays: jax.Array) -> list[jax.Array]:
    """Arrays broadcast to one shape."""
    shape = np.broadcast_shapes(*(np.shape(x) for x in arrays))
    return [jnp.broadcast_to(x, shape) for x in arrays]


class SumsOfSets:
    """Sums over the sets of a design, on the host: a program of jax would serve one modulus alone.

    Args:
      maps: the design, with a number for each function and shift.
    """

    def __init__(self, maps: AffineMaps) -> None:
        modulus = maps.modulus
        known = maps.multipliers
        multipliers = np.arange(1, modulus) if known is None else np.asarray(known, np.int64)
        if modulus >= 2**16 and len(multipliers) > 1:  # as `AffineMaps.products` has it
            multipliers = multipliers * pow(2**32, -1, modulus) % modulus
        images = multipliers[:, None] * np.arange(maps.num_values) % modulus
        self.blocks = None if maps.blocks is None else np.asarray(maps.blocks)
        self.images = np.tile(images, (1 if self.blocks is None else len(self.blocks), 1))
        self.modulus, self.size = modulus, maps.set_size

    def _windows(self, numbers: Float[np.ndarray, "m F M"]) -> Float[np.ndarray, "m F M"]:
        """The sum of the numbers of each function over its base block, moved by each shift."""
        modulus, size = self.modulus, self.size
        if self.blocks is None:
            after = np.concatenate([numbers, numbers[..., : size - 1]], axis=-1)
            sums = np.pad(np.cumsum(after, axis=-1), ((0, 0), (0, 0), (1, 0)))
            return sums[..., size:] - sums[..., :modulus]
        place = np.arange(modulus)
        away = (place[:, None] - place) % modulus
        parts = np.split(numbers, len(self.blocks), axis=1)
        moved = [np.isin(place, block).astype(np.float64)[away] for block in self.blocks]
        return np.concatenate([x @ move for x, move in zip(parts, moved, strict=True)], axis=1)

    def over_sets(self, numbers: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m reports"]:
        """The sum of the numbers of the values in each report's set, but for the blank."""
        moved = np.zeros((len(numbers), len(self.images), self.modulus))
        moved[:, np.arange(len(self.images))[:, None], self.images] = numbers[:, None]
        windows = self._windows(moved)
        return np.concatenate([windows[..., :1], windows[..., :0:-1]], -1).reshape(len(numbers), -1)

    def over_values(self, numbers: Float[np.ndarray, "m reports"]) -> Float[np.ndarray, "m k"]:
        """The sum of the numbers of the reports whose sets hold each value, but for the blank."""
        windows = self._windows(numbers.reshape(len(numbers), len(self.images), self.modulus))
        return np.take_along_axis(windows, (-self.images % self.modulus)[None], axis=2).sum(axis=1)

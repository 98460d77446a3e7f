"""What users and the analyst of the hierarchical AUC run: reports, tally, law and estimate.

Level l of both trees has `2**l` nodes for each label, and `2**(l+1)` sums of signs, which are kept
in the slots `2**(l+1) .. 2**(l+2) - 1` of one flat tally: a scatter into one array is many times
faster than one into each level's.

Where labels are randomized, one user has a part in both estimated counts of a product, which adds
`-kappa (c / chance)**2 s s'` for the signs s and s' of both nodes in its row. These terms are taken
out exactly: siblings differ in the lowest bit, so that `s s'` is -1 for odd rows, and the numbers
of users with even and odd rows are counted for each level behind the slots.
"""

import dataclasses
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32, UInt32

from jaxdp_kernels.fwht import fwht

from ..._bits import mul_32x32, parity
from ..._contract import Round, TallyLaw, Tree, Words, Work, params, static
from ..._x64 import as_float64, compiled_in_float64
from ...random import Count, binomial, everyone, multinomial
from ...randomizers import HadamardBit
from ._tree_errors import threshold_of

Numbers = TypeVar("Numbers", np.ndarray, jax.Array)

_BIT = HadamardBit(2, 1.0).build()  # whose law takes any threshold and number of nodes
_FEW_BITS = 6  # levels 1 to 6 are drawn by one program


def level_chances(
    num_levels: int, word_bits: int, split_users: bool
) -> Float[np.ndarray, " levels"]:
    """The probability that a user reports on each of the levels.

    It is the chance that `floor(word * num_levels / 2**word_bits)` is the level; or 1, where users
    are not split.
    """
    if not split_users:
        return np.ones(num_levels)
    borders = [-(-(level << word_bits) // num_levels) for level in range(num_levels + 1)]
    return np.diff(borders) / 2.0**word_bits


def group_size(users: Numbers, num_levels: int, place: int | Array) -> Numbers:
    """How many of a class's users report on one of the levels where they are dealt evenly.

    The user of rank r in a random order reports on the level in place `r mod num_levels`.

    Args:
      users: of the class or of both, a float array of whole numbers.
      num_levels: how many levels are reported on.
      place: of the level among them, from 0.
    """
    return (users + (num_levels - 1 - place)) // num_levels


def tree_bytes(height: int) -> int:
    """What the tally and the estimate of a full tree take, in bytes; about five float64 a slot."""
    return 40 * 2 ** (height + 2)


@params
class HierarchicalAUCParams(Round[Count]):
    """The params of `HierarchicalAUC`: a pytree.

    Attributes:
      bit_threshold: a report's bit is true when its word is below this.
      cutoff: the parameter a; unused where a rule gives it.
      height: the level of the leaves, static.
      num_scores: d, static.
      private: whether labels are private, static.
      split_users: whether a user reports on one level, rather than on all, static.
      rule: "fixed", "paper" or "optimal", static.
      half_discarded: whether a discarded node counts half of its pairs, rather than none, static.
      half_ties: whether tied scores count half, rather than nothing, static.
      word_bits: words are uniform on [0, 2**word_bits), static.
      label_threshold: a label is reported as it is when its word is below this; None where labels
        are not randomized.
      dealt: whether users' levels are dealt out rather than drawn from their words, static. A
        user's value is then the slot `2**(l+1) + label 2**l + node` of its level l and its node
        there, and the level is as public as the label.
    """

    bit_threshold: UInt32[Array | np.ndarray, ""]
    cutoff: Float[Array | np.ndarray, ""]
    height: int = static()
    num_scores: int = static()
    private: bool = static()
    split_users: bool = static()
    rule: str = static()
    half_discarded: bool = static()
    half_ties: bool = static()
    word_bits: int = static(default=32)
    label_threshold: UInt32[Array | np.ndarray, ""] | None = None
    dealt: bool = static(default=False)

    @property
    def num_bins(self) -> int:
        """The cells, of a label and a score; or the slots of a level, a label and a node."""
        return self.num_slots if self.dealt else 2 * self.num_scores

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels that are reported on; the root too where labels are private."""
        return tuple(range(0 if self.private else 1, self.height + 1))

    @property
    def num_words(self) -> int:
        """A word for the level, one for the row and one for the lie; or the last two a level.

        One more, the last, where labels are randomized. None for a level that is dealt.
        """
        if self.dealt:
            return 2
        return (3 if self.split_users else 2 * len(self.levels)) + self.randomized

    @property
    def lazy_words(self) -> bool:
        """True: words made where they are read vectorise ten times better than a block's slices."""
        return True

    @property
    def randomized(self) -> bool:
        """Whether users report their label by randomized response."""
        return self.label_threshold is not None

    @property
    def num_slots(self) -> int:
        """The number of slots for the sums of signs."""
        return 2 ** (self.height + 2)

    @property
    def report_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Both signs of the slots of all levels, or of each of them."""
        first = 2 ** (np.array(self.levels) + 1)
        low, high = 2 * first, 4 * first - 1
        low[0] += 2 * self.private  # of level 0, with slots 2 and 3, only row 1 is used
        return (low[0], high[-1]) if self.split_users else (low, high)

    @property
    def law(self) -> TallyLaw[Count]:
        """Draws each level's signs by the law of `HadamardBit`."""
        return TallyLaw(self._draw, self._cost)

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> Int32[Array, "*levels"]:
        """One user's report, `2 slot + bit`; one for each level where all are reported on.

        A value outside of [0, 2 d), the cells, is clamped into it, and so is one that is no slot.
        """
        if self.dealt:
            slot = jnp.clip(value.astype(jnp.int32), 4, self.num_slots - 1)
            level = np.int32(30) - lax.clz(slot)
            label = (slot >> level) & 1
            node = slot & ((np.int32(1) << level) - 1)
            return self._report(words[0], words[1], level, label, node << (self.height - level))
        value = jnp.clip(value.astype(jnp.int32), 0, 2 * self.num_scores - 1)
        label = (value >= self.num_scores).astype(jnp.int32)
        score = value - label * np.int32(self.num_scores)
        if self.label_threshold is not None:
            label = label ^ (words[self.num_words - 1] >= self.label_threshold).astype(jnp.int32)
        if not self.split_users:
            levels = jnp.array(self.levels, jnp.int32)
            pairs = words[0 : 2 * len(self.levels)].reshape(-1, 2)
            return self._report(pairs[:, 0], pairs[:, 1], levels, label, score)
        upper = words[0] << np.uint32(32 - self.word_bits)
        level, _ = mul_32x32(upper, jnp.uint32(len(self.levels)))
        level = level.astype(jnp.int32) + np.int32(self.levels[0])
        return self._report(words[1], words[2], level, label, score)

    def _report(
        self,
        row: UInt32[Array, "*levels"],
        word: UInt32[Array, "*levels"],
        level: Int32[Array, "*levels"],
        label: Int32[Array, ""],
        score: Int32[Array, ""],
    ) -> Int32[Array, "*levels"]:
        """The report on a level; entrywise."""
        node = score >> (self.height - level)
        ones = (np.int32(1) << level) - 1
        if self.private:
            cell = (label << level) | node
            row = row.astype(jnp.int32) & (2 * ones + 1)
            row = jnp.where(level == 0, 1, row)  # of one label, row 0 would say nothing
            bit = parity(row & cell)
        else:
            row = row.astype(jnp.int32) & ones
            bit = parity(row & node)
            # With public labels the row's next bit says which tree it is of.
            row = row | (label << level)
        lie = (word >= self.bit_threshold).astype(jnp.int32)
        return 2 * ((np.int32(2) << level) + row) + (bit ^ lie)

    def tally(
        self, reports: Int32[Array, "n *levels"], mask: Bool[Array, " n"] | None = None, /
    ) -> Count:
        """The sum of the signs in each slot, Count[2**(height + 2)].

        Slots 2 and 3 hold the numbers of users with each reported label; or with private labels the
        number of users, and the sum of the signs of the labels. Where labels are randomized there
        are 2 * height more entries: the users with an even and with an odd row, for each level.
        """
        return self.tally_down_to(self.height, reports, mask)

    def tally_down_to(
        self, deepest: int, reports: Int32[Array, "n *levels"], mask: Bool[Array, " n"] | None
    ) -> Count:
        """`tally` without the slots of the levels below `deepest`, which is static."""
        counted = everyone(reports, mask)
        reports = reports.reshape(reports.shape[0], -1)
        slots = reports >> 1
        signs = jnp.where(counted[:, None], 1 - 2 * (reports & 1), 0)
        # A scatter drops what is out of range.
        sums = jax.ops.segment_sum(signs.ravel(), slots.ravel(), 2 ** (deepest + 2))
        users = jnp.sum(counted, dtype=jnp.int32)
        if self.private:
            return Count.of(sums.at[2].set(users))
        # Level l has the slots 2**(l + 1) .. 2**(l + 2) - 1, so that the top bit of a slot is bit
        # l + 1, and where labels are not private bit l is the label.
        top = 31 - lax.clz(slots)
        label = (slots[:, 0] >> (top[:, 0] - 1)) & 1
        positive = jnp.sum(jnp.where(counted, label, 0), dtype=jnp.int32)
        sums = sums.at[2].set(users - positive).at[3].set(positive)
        if not self.randomized:
            return Count.of(sums)
        # An entry for each level from 1, `top` - 1, and each parity of the row
        places, ones = 2 * (top - 2) + (slots & 1), jnp.broadcast_to(counted[:, None], slots.shape)
        rows = jax.ops.segment_sum(ones.ravel().astype(jnp.int32), places.ravel(), 2 * self.height)
        return Count.of(jnp.concatenate([sums, rows]))

    def check_reports(self, reports: np.ndarray) -> None:
        """Raises ValueError unless an array holds reports: those of `from_bits`, on the host."""
        shape = () if self.split_users else (len(self.levels),)
        if reports.ndim == 0 or len(reports) == 0 or reports.shape[1:] != shape:
            raise ValueError(f"reports must have shape (n, *{shape}), got {reports.shape}.")
        least, most = self.report_limits
        if not np.issubdtype(reports.dtype, np.integer) or not (
            np.all(reports >= least) and np.all(reports <= most)
        ):
            raise ValueError(
                f"reports must be integers from {least} to {most} for num_scores = "
                f"{self.num_scores}, got {reports.dtype} from {reports.min()} to {reports.max()}."
            )

    def _chances(self) -> Float[np.ndarray, " levels"]:
        """The probability that a user reports on each of the levels."""
        return level_chances(len(self.levels), self.word_bits, self.split_users)

    def _weight(self, level: int) -> Float[Array, ""]:
        """What a sign of a level counts, c over the level's chance; only inside an x64 block."""
        return self._bit_scale() / float(self._chances()[level - self.levels[0]])

    def _of_signs(
        self, users: Float[Array, "2"], level: int, sums: Float[Array, "2 *nodes"]
    ) -> Float[Array, "2 *nodes"]:
        """Counts by label from the sums of signs of a level; not where labels are private.

        Where users are dealt over the levels, a report counts the class over its users on the
        level, and not 1 / chance.

        Args:
          users: slots 2 and 3.
          level: from 1.
          sums: of signs, by reported label.
        """
        counts = self._unmixed(self._weight(level) * sums)
        if not self.dealt:
            return counts
        place = level - self.levels[0]
        group = jnp.maximum(group_size(users, len(self.levels), place), 1.0)
        factor = users * float(self._chances()[place]) / group
        return counts * factor.reshape(2, *[1] * (counts.ndim - 1))

    def _bit_scale(self) -> Float[Array, ""]:
        """c; only inside an x64 block."""
        return self._scale_of(self.bit_threshold)

    def _label_scale(self) -> Float[Array, ""]:
        """The scale of a randomized label, 1 of others; only inside an x64 block."""
        if self.label_threshold is None:
            return jnp.ones((), jnp.float64)
        return self._scale_of(self.label_threshold)

    def _scale_of(self, threshold: UInt32[Array | np.ndarray, ""]) -> Float[Array, ""]:
        """What decodes a sign that is true where a word is below a threshold."""
        (below,) = as_float64(threshold)
        return 1 / (2 * below / 2.0**self.word_bits - 1)  # 1 / (2 p - 1)

    def _classes(
        self, users: Float[Array, "2"]
    ) -> tuple[Float[Array, "2"], Float[Array, ""], Float[Array, "2"]]:
        """The sizes of the classes, negative first, the product of them, and counts' variances.

        Args:
          users: slots 2 and 3.
        """
        c2 = self._bit_scale() ** 2
        spread = c2 / float(self._chances()[-1])
        if self.private:
            n, chance = users[0], float(self._chances()[0])
            gap, square = users[1] * (jnp.sqrt(c2) / chance), c2 / chance
        elif self.randomized:
            n, scale = users[0] + users[1], self._label_scale()
            gap, square = (users[0] - users[1]) * scale, scale**2
        else:
            return users, jnp.maximum(users[0] * users[1], 1.0), spread * users
        # n+ n- = (n**2 - (n- - n+)**2) / 4, and E gap**2 is that square plus the variance of gap.
        # `gap`, an unbiased estimate of n- - n+, is a sum of terms of mean square `square`.
        product = (n**2 - gap**2 + n * (square - 1)) / 4
        sizes = jnp.clip(jnp.stack([n + gap, n - gap]) / 2, 1.0, jnp.maximum(n - 1, 1.0))
        users = jnp.stack([n] * 2) if self.private else sizes + n * (square - 1) / 4
        return sizes, jnp.maximum(product, n - 1), spread * users

    def _cutoffs(
        self, sizes: Float[Array, "2"], spreads: Float[Array, "2"]
    ) -> tuple[Float[Array, ""], Float[Array, "2"]]:
        """Tau, and the least count that is reckoned with, of each class."""
        a = self._parameter(sizes, spreads)
        return a * jnp.sqrt(spreads[0] * spreads[1]), jnp.sqrt(a * spreads) / 2

    def _parameter(self, sizes: Float[Array, "2"], spreads: Float[Array, "2"]) -> Float[Array, ""]:
        """The threshold parameter a; of a rule for these classes."""
        if self.rule == "fixed":
            return as_float64(self.cutoff)[0]
        n = jnp.sum(sizes)
        per_user = jnp.sum(spreads) / (2 * n if self.private else n)
        root, smaller = jnp.sqrt(2 * n * per_user), jnp.maximum(jnp.min(sizes), 1.0)
        return jnp.asarray(threshold_of(self.rule, self.half_discarded, root, smaller))

    def counts(self, tally: Count, level: int) -> Float[Array, "2 nodes"]:
        """The estimated number of users in each node of a level above 0, by label and node.

        Only inside an x64 block.
        """
        signs = tally[2 ** (level + 1) : 2 ** (level + 2)].f64()
        if self.private:
            return self._weight(level) * fwht(signs).reshape(2, -1)
        return self._of_signs(tally[2:4].f64(), level, fwht(signs.reshape(2, -1)))

    def _unmixed(self, counts: Float[Array, "2 ..."]) -> Float[Array, "2 ..."]:
        """The counts by label that lead to these by reported label."""
        if not self.randomized:
            return counts
        scale = self._label_scale()  # the inverse of [[p, 1 - p], [1 - p, p]]
        return ((1 + scale) * counts + (1 - scale) * counts[::-1]) / 2

    def _self_products(self, rows: Float[Array, " rows"], level: int) -> Float[Array, "2"]:
        """What users take from the product of both labels' counts, of one node and of siblings.

        Args:
          rows: the users with an even and an odd row on each level.
          level: from 1.
        """
        if not self.randomized:
            return jnp.zeros(2)
        # -kappa (c / chance)**2 s s' of each user, s s' = -1 where siblings' signs differ
        kappa = (self._label_scale() ** 2 - 1) / 4
        even, odd = rows[2 * level - 2], rows[2 * level - 1]
        return kappa * self._weight(level) ** 2 * jnp.stack([even + odd, even - odd])

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> Float[Array, ""]:
        """The estimated area; the whole of both trees is held."""
        sizes, product, spreads = self._classes(outcome[2:4].f64())
        tau, least = self._cutoffs(sizes, spreads)
        counts, active, total = sizes[:, None], jnp.ones(1, bool), jnp.zeros(())
        rows, same = outcome[self.num_slots :].f64(), jnp.zeros(())
        for level in range(1, self.height + 1):
            children = self.counts(outcome, level).reshape(2, -1, 2)
            reckoned = jnp.maximum(counts, least[:, None])
            recursed = active & (reckoned[0] * reckoned[1] >= tau)
            same, siblings = self._self_products(rows, level)
            # Equation (10): pairs of a right and a left child, or half the pairs of a node.
            gain = jnp.where(recursed, children[1, :, 1] * children[0, :, 0] + siblings, 0.0)
            if self.half_discarded:
                whole = jnp.sum(children, axis=-1)
                half = whole[0] * whole[1] / 2 + same + siblings
                gain = jnp.where(active & ~recursed, half, gain)
            total = total + jnp.sum(gain)
            active = jnp.broadcast_to(recursed[:, None], (recursed.size, 2)).reshape(-1)
            counts = children.reshape(2, -1)
        if self.half_ties:
            total = total + jnp.sum(jnp.where(active, (counts[0] * counts[1] + same) / 2, 0.0))
        return total / product

    @compiled_in_float64
    def plausible_users(self, tally: Count) -> Float[Array, "2 d"]:
        """Users whose trees would be about the estimated ones, by label and score.

        From the root down those of a node are split by the difference of its children's counts; or
        evenly over its scores where they are fewer than two standard errors of a count, which would
        make noise of the difference.
        """
        users, _, spreads = self._classes(tally[2:4].f64())
        masses, least = users[:, None], 2 * jnp.sqrt(spreads)[:, None]
        for level in range(1, self.height + 1):
            children = self.counts(tally, level).reshape(2, -1, 2)
            width = 2 ** (self.height - level)  # of a child
            ends = np.clip(self.num_scores - np.arange(2**level) * width, 0, width).reshape(-1, 2)
            share = (ends[:, 0] / np.maximum(ends.sum(axis=1), 1))[None]
            split = (masses > least) & (ends[:, 1] > 0)[None]
            left = jnp.clip((masses + children[..., 0] - children[..., 1]) / 2, 0.0, masses)
            left = jnp.where(split, left, masses * share)
            masses = jnp.stack([left, masses - left], axis=-1).reshape(2, -1)
        return masses[:, : self.num_scores]

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> Count:
        """The tally of given users, exact in law.

        Where users are split, those of each value are split over the levels by a multinomial.
        """
        del inputs
        keys = jax.random.split(key, len(self.levels) + 2)
        split_key, level_keys, labels_key = keys[0], keys[1:-1], keys[-1]
        if self.dealt:
            return self._draw_dealt(level_keys, counts)
        pad = [(0, 0), (0, 2**self.height - self.num_scores)]
        table: Count = jax.tree.map(lambda limb: jnp.pad(limb.reshape(2, -1), pad), counts)
        if self.randomized:
            table = self._mislabelled(labels_key, table)
        split = None
        if self.split_users:
            chances = jnp.asarray(self._chances())
            split = multinomial(split_key, table.reshape(-1), chances).reshape(*table.shape, -1)
        users = table.sum(1)
        parts, rows = [Count.zeros((2,)), users], []
        if self.levels[0] == 0:
            at_root = table if split is None else split[..., 0]
            parts[1] = self._draw_labels(level_keys[0], users.sum(), at_root.sum(1))
        for places in self._groups():
            whole = table[..., None] if split is None else split[..., places[0] : places[-1] + 1]
            signs, parities = self._draw_signs(level_keys, whole, places)
            parts += signs
            rows.append(parities.reshape(-1))
        parts += rows if self.randomized else []
        return jax.tree.map(lambda *limbs: jnp.concatenate(limbs), *parts)

    def _draw_dealt(self, keys: jax.Array, slots: Count) -> Count:
        """The tally of users by slot; those of a node are drawn as if at its first leaf."""
        width, by_level = 2**self.height, []
        for level in self.levels:
            nodes = slots[2 ** (level + 1) : 2 ** (level + 2)].reshape(2, -1, 1)
            spread = [(0, 0), (0, 0), (0, (width >> level) - 1)]
            leaves = jax.tree.map(lambda limb, spread=spread: jnp.pad(limb, spread), nodes)
            by_level.append(leaves.reshape(2, width))
        split: Count = jax.tree.map(lambda *limbs: jnp.stack(limbs, axis=-1), *by_level)
        parts = [Count.zeros((2,)), split.sum(2).sum(1)]
        for places in self._groups():
            parts += self._draw_signs(keys, split[..., places[0] : places[-1] + 1], places)[0]
        return jax.tree.map(lambda *limbs: jnp.concatenate(limbs), *parts)

    def _groups(self) -> list[range]:
        """The places of the levels from 1 that are drawn by one program.

        Each program takes seconds to compile, and draws all of its levels as wide as its last: up
        to 64 nodes that costs little, and beyond that two levels are a group.
        """
        first = 1 - self.levels[0]
        few = min(max(first, _FEW_BITS + first), len(self.levels))
        ends = [few, *range(few + 2, len(self.levels), 2)]
        starts = [first, *ends]
        return [
            range(a, b) for a, b in zip(starts, [*ends, len(self.levels)], strict=True) if a < b
        ]

    def _mislabelled(self, key: jax.Array, table: Count) -> Count:
        """The users by reported label and score, Count[2, leaves]."""
        p = (1 + 1 / self._label_scale()) / 2  # 2 p - 1 is one over the scale
        truthful = binomial(key, table, jnp.broadcast_to(p, table.shape))
        return truthful + (table - truthful)[::-1]

    def _draw_signs(
        self, keys: jax.Array, users: Count, places: range
    ) -> tuple[list[Count], Count]:
        """The sums of signs of some levels, Count[2**(level+1)] each, and the users by parity.

        Args:
          keys: of all levels.
          users: those of each level by label and leaf, Count[2, leaves, levels], or of all levels.
          places: of the levels.

        Returns:
          The sums, and how many users of each level have an even and an odd row, Count[levels, 2].
        """
        deepest = self.levels[places[-1]]
        nodes = users.reshape(2, 2**deepest, -1, users.shape[-1]).sum(2)
        blocks = 1 if self.private else 2
        width = 2 ** (deepest + 1) // blocks
        bit = dataclasses.replace(
            _BIT, threshold=self.bit_threshold, num_values=width, word_bits=self.word_bits
        )
        node = jnp.arange(2**deepest, dtype=jnp.int32)

        def draw(place: jax.Array) -> Count:
            level = place + np.int32(self.levels[0])
            at_level = nodes[..., jnp.minimum(place - np.int32(places[0]), nodes.shape[-1] - 1)]
            # A node of the level is where the first of its descendants is.
            below = np.int32(deepest) - level
            ancestor = (node >> below) << below
            placed = jax.vmap(lambda row: row.segment_sum(ancestor, node.size))(at_level)
            drawn = jax.vmap(bit.draw_coarse, in_axes=(0, 0, None))
            bits = level + np.int32(2 - blocks)  # where labels are private they are the top bit
            each = jax.random.split(keys[place], blocks), placed.reshape(blocks, width)
            return drawn(*each, bits).reshape(blocks, 2, width)

        reports = lax.map(draw, jnp.arange(places[0], places[-1] + 1, dtype=jnp.int32))
        signs = reports[:, :, 0] - reports[:, :, 1]
        parities = reports.reshape(len(places), -1, 2).sum(1)
        widths = [2 ** (self.levels[place] + 1) // blocks for place in places]
        return [signs[i, :, :w].reshape(-1) for i, w in enumerate(widths)], parities

    def _draw_labels(self, key: jax.Array, users: Count, labels: Count) -> Count:
        """Slots 2 and 3 where labels are private, from the users that report on their label."""
        p = as_float64(self.bit_threshold)[0] / 2.0**self.word_bits
        # In row 1 the sign of a label is -1 for positive users, but for a lie.
        even = binomial(key, labels, jnp.stack([p, 1 - p])).sum()
        signs = even + even - labels.sum()
        return jax.tree.map(lambda *limbs: jnp.stack(limbs), users, signs)

    def _cost(self, work: Work) -> float:
        # Splits of the values, and halves of the users at half of the price.
        drawn = self.split_users and not self.dealt
        splits = len(self.levels) * 2 ** (self.height + 1) if drawn else 0
        return work.draws(splits + sum((level + 1) * 2**level for level in self.levels))

"""What runs inside jit for the hierarchical protocol for the area under the ROC curve.

Level l of both trees has `2**l` nodes for each label, and `2**(l+1)` sums of signs, which are kept
in the slots `2**(l+1) .. 2**(l+2) - 1` of one flat tally: a scatter into one array is many times
faster than one into each level's.

Where labels are randomized, one user has a part in both estimated counts of a product, which adds
`-kappa (c / chance)**2 s s'` for the signs s and s' of both nodes in its row. These terms are taken
out exactly: siblings differ in the lowest bit, so that `s s'` is -1 for odd rows, and the numbers
of users with even and odd rows are counted for each level behind the slots.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp_kernels.fwht import fwht

from .._x64 import compiled_in_float64
from ..random import Count, binomial, multinomial
from ..random._count import mul_32x32
from ..randomizers._hadamard_bit import HadamardBitParams
from ..randomizers._hadamard_words import parity
from ..randomizers._params import RandomizerParams


def level_chances(num_levels: int, word_bits: int, split_users: bool) -> np.ndarray:
    """The probability that a user reports on each of the levels, float64[num_levels].

    That `floor(word * num_levels / 2**word_bits)` is the level; or 1, where users are not split.
    """
    if not split_users:
        return np.ones(num_levels)
    borders = [-(-(level << word_bits) // num_levels) for level in range(num_levels + 1)]
    return np.diff(borders) / 2.0**word_bits


def tree_bytes(height: int) -> int:
    """What the tally and the estimate of a full tree take, in bytes; about five float64 a slot."""
    return 40 * 2 ** (height + 2)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HierarchicalAUCParams(RandomizerParams):
    """The params of `HierarchicalAUC`: a pytree.

    Attributes:
      true: uint32[], a report is true when its last word is below `true`.
      threshold: float64[], the parameter a; unused where a rule gives it.
      height: the level of the leaves, static.
      num_scores: d, static.
      private: whether labels are private, static.
      split_users: whether a user reports on one level, rather than on all, static.
      rule: "fixed", "paper" or "optimal", static.
      half_discarded: whether a discarded node counts half of its pairs, rather than none, static.
      half_ties: whether tied scores count half, rather than nothing, static.
      word_bits: words are uniform on [0, 2**word_bits), static.
      label_true: uint32[], a label is reported as it is when its word is below this; None where
        labels are not randomized.
    """

    true: jax.Array | np.ndarray
    threshold: jax.Array | np.ndarray
    height: int = dataclasses.field(metadata={"static": True})
    num_scores: int = dataclasses.field(metadata={"static": True})
    private: bool = dataclasses.field(metadata={"static": True})
    split_users: bool = dataclasses.field(metadata={"static": True})
    rule: str = dataclasses.field(metadata={"static": True})
    half_discarded: bool = dataclasses.field(metadata={"static": True})
    half_ties: bool = dataclasses.field(metadata={"static": True})
    word_bits: int = dataclasses.field(default=32, metadata={"static": True})
    label_true: jax.Array | np.ndarray | None = None

    value_dtype: ClassVar = jnp.int32
    lazy_words: ClassVar = True
    """Words that are made where they are read vectorise ten times better than slices of a block."""

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels that are reported on; the root too where labels are private."""
        return tuple(range(0 if self.private else 1, self.height + 1))

    @property
    def num_words(self) -> int:
        """A word for the level, one for the row and one for the lie; or the last two a level.

        One more, the last, where labels are randomized.
        """
        words = 3 if self.split_users else 2 * len(self.levels)
        return words + self.randomized

    @property
    def randomized(self) -> bool:
        """Whether users report their label by randomized response."""
        return self.label_true is not None

    @property
    def num_slots(self) -> int:
        """The number of slots for the sums of signs."""
        return 2 ** (self.height + 2)

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[num_words].
          value: int32[] in [0, 2 d), the cell; clamped into it.

        Returns:
          int32[], `2 slot + bit`, or int32[levels] where all are reported on.
        """
        value = jnp.clip(value.astype(jnp.int32), 0, 2 * self.num_scores - 1)
        label = (value >= self.num_scores).astype(jnp.int32)
        score = value - label * np.int32(self.num_scores)
        if self.label_true is not None:
            label = label ^ (words[self.num_words - 1] >= self.label_true).astype(jnp.int32)
        if not self.split_users:
            levels = jnp.array(self.levels, jnp.int32)
            pairs = words[: 2 * len(self.levels)].reshape(-1, 2)
            return self._report(pairs[:, 0], pairs[:, 1], levels, label, score)
        upper = words[0] << np.uint32(32 - self.word_bits)
        level, _ = mul_32x32(upper, jnp.uint32(len(self.levels)))
        level = level.astype(jnp.int32) + np.int32(self.levels[0])
        return self._report(words[1], words[2], level, label, score)

    def _report(self, row, word, level, label, score):
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
            row = row | (label << level)
        lie = (word >= self.true).astype(jnp.int32)
        return 2 * ((np.int32(2) << level) + row) + (bit ^ lie)

    def tally(self, reports, mask, deepest: int | None = None):
        """The sum of the signs in each slot, int32[2**(height + 2)].

        Slots 2 and 3 hold the numbers of users with each reported label; or with private labels the
        number of users, and the sum of the signs of the labels. Where labels are randomized there
        are 2 * height more entries: the users with an even and with an odd row, for each level.

        Args:
          reports: int32[n] or int32[n, levels].
          mask: bool[n].
          deepest: the last level with slots, static; None for that of the leaves.
        """
        reports = reports.reshape(mask.shape[0], -1)
        slots = reports >> 1
        signs = jnp.where(mask[:, None], 1 - 2 * (reports & 1), 0)
        size = self.num_slots if deepest is None else 2 ** (deepest + 2)
        sums = jax.ops.segment_sum(signs.ravel(), slots.ravel(), size)  # others are dropped
        users = jnp.sum(mask, dtype=jnp.int32)
        if self.private:
            return sums.at[2].set(users)
        top = 31 - lax.clz(slots)
        label = (slots[:, 0] >> (top[:, 0] - 1)) & 1
        positive = jnp.sum(jnp.where(mask, label, 0), dtype=jnp.int32)
        sums = sums.at[2].set(users - positive).at[3].set(positive)
        if not self.randomized:
            return sums
        places, ones = 2 * (top - 2) + (slots & 1), jnp.broadcast_to(mask[:, None], slots.shape)
        rows = jax.ops.segment_sum(ones.ravel().astype(jnp.int32), places.ravel(), 2 * self.height)
        return jnp.concatenate([sums, rows])

    def check_reports(self, reports: np.ndarray) -> None:
        """Raises ValueError unless an array holds reports: those of `from_bits`, on the host."""
        shape = () if self.split_users else (len(self.levels),)
        if reports.ndim == 0 or len(reports) == 0 or reports.shape[1:] != shape:
            raise ValueError(f"reports must have shape (n, *{shape}), got {reports.shape}.")
        least, most = 6 if self.private else 8, 2 * self.num_slots
        if not np.issubdtype(reports.dtype, np.integer) or not (
            reports.min() >= least and reports.max() < most
        ):
            raise ValueError(
                f"reports must be integers in [{least}, {most}) for num_scores = "
                f"{self.num_scores}, got {reports.dtype} from {reports.min()} to {reports.max()}."
            )

    def _chances(self) -> np.ndarray:
        """The probability that a user reports on each of the levels, float64[levels]."""
        return level_chances(len(self.levels), self.word_bits, self.split_users)

    def _bit_scale(self):
        """c; only inside an x64 block."""
        return self._scale_of(self.true)

    def _label_scale(self):
        """That of a randomized label, 1 where labels are not; only inside an x64 block."""
        if self.label_true is None:
            return jnp.ones((), jnp.float64)
        return self._scale_of(self.label_true)

    def _scale_of(self, true):
        """What decodes a sign that is true with the probability of a threshold."""
        return 1 / (2 * (jnp.asarray(true).astype(jnp.float64) / 2.0**self.word_bits) - 1)

    def _classes(self, users: jax.Array):
        """The sizes of the classes, the product of them, and the variances of counts.

        Args:
          users: float64[2], slots 2 and 3.

        Returns:
          float64[2] negative and positive, float64[], and float64[2].
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
        product = (n**2 - gap**2 + n * (square - 1)) / 4
        sizes = jnp.clip(jnp.stack([n + gap, n - gap]) / 2, 1.0, jnp.maximum(n - 1, 1.0))
        held = jnp.stack([n] * 2) if self.private else sizes + n * (square - 1) / 4
        return sizes, jnp.maximum(product, n - 1), spread * held

    def _cutoffs(self, sizes, spreads):
        """Tau, and the least count that is reckoned with, of each class."""
        a = self._parameter(sizes, spreads)
        return a * jnp.sqrt(spreads[0] * spreads[1]), jnp.sqrt(a * spreads) / 2

    def _parameter(self, sizes, spreads):
        """The threshold parameter a, float64[]; of a rule for these classes."""
        if self.rule == "fixed":
            return jnp.asarray(self.threshold).astype(jnp.float64)
        n = jnp.sum(sizes)
        per_user = jnp.sum(spreads) / (2 * n if self.private else n)
        ratio = (21 / 8 if self.half_discarded else 1 / 16) * jnp.sqrt(2 * n * per_user)
        return threshold_of(self.rule, ratio / jnp.maximum(jnp.min(sizes), 1.0))

    def counts(self, tally: Count, level: int):
        """The estimated number of users in each node, float64[2, 2**level], by label and node.

        Only inside an x64 block.

        Args:
          tally: Count[num_slots].
          level: one of `levels` but 0.
        """
        signs = tally[2 ** (level + 1) : 2 ** (level + 2)].f64()
        scale = self._bit_scale() / float(self._chances()[level - self.levels[0]])
        if self.private:
            return scale * fwht(signs).reshape(2, -1)
        return self._unmixed(scale * fwht(signs.reshape(2, -1)))

    def _unmixed(self, counts):
        """The counts by label float64[2, ...] that lead to these by reported label."""
        if not self.randomized:
            return counts
        scale = self._label_scale()
        return ((1 + scale) * counts + (1 - scale) * counts[::-1]) / 2

    def _own(self, rows, level: int):
        """What users take from the product of both labels' counts, float64[2].

        Of the counts of one node, and of two that are siblings.

        Args:
          rows: float64[2 height], the users with an even and an odd row on each level.
          level: from 1.
        """
        if not self.randomized:
            return jnp.zeros(2)
        weight = self._bit_scale() / float(self._chances()[level - self.levels[0]])
        kappa = (self._label_scale() ** 2 - 1) / 4
        even, odd = rows[2 * level - 2], rows[2 * level - 1]
        return kappa * weight**2 * jnp.stack([even + odd, even - odd])

    @compiled_in_float64
    def estimate(self, tally: Count):
        """The estimated area, float[]; the whole of both trees is held."""
        sizes, product, spreads = self._classes(tally[2:4].f64())
        tau, least = self._cutoffs(sizes, spreads)
        held, active, total = sizes[:, None], jnp.ones(1, bool), jnp.zeros(())
        rows, own = tally[self.num_slots :].f64(), jnp.zeros(2)
        for level in range(1, self.height + 1):
            children = self.counts(tally, level).reshape(2, -1, 2)
            reckoned = jnp.maximum(held, least[:, None])
            recursed = active & (reckoned[0] * reckoned[1] >= tau)
            own = self._own(rows, level)
            gain = jnp.where(recursed, children[1, :, 1] * children[0, :, 0] + own[1], 0.0)
            if self.half_discarded:
                whole = jnp.sum(children, axis=-1)
                half = whole[0] * whole[1] / 2 + own[0] + own[1]
                gain = jnp.where(active & ~recursed, half, gain)
            total = total + jnp.sum(gain)
            active = jnp.broadcast_to(recursed[:, None], (recursed.size, 2)).reshape(-1)
            held = children.reshape(2, -1)
        if self.half_ties:
            total = total + jnp.sum(jnp.where(active, (held[0] * held[1] + own[0]) / 2, 0.0))
        return total / product

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None) -> Count:
        """A tally drawn at once, exact in law.

        Where users are split, those of each value are split over the levels by a multinomial. Then
        each level's signs are drawn by the law of `HadamardBit`.

        Args:
          key: a key; it is folded.
          counts: Count[2 d], the users' values.
          inputs: unused; the values are the cells.

        Returns:
          As `tally`, Count[num_slots] or more.
        """
        del inputs
        pad = [(0, 0), (0, 2**self.height - self.num_scores)]
        table: Count = jax.tree.map(lambda limb: jnp.pad(limb.reshape(2, -1), pad), counts)
        if self.randomized:
            table = self._mislabelled(jax.random.fold_in(key, 1 + len(self.levels)), table)
        split = None
        if self.split_users:
            stream = jax.random.fold_in(key, 0)
            chances = jnp.asarray(self._chances())
            split = multinomial(stream, table.reshape(-1), chances).reshape(*table.shape, -1)
        users = table.sum(1)
        first = Count.zeros((2,))
        parts, rows = [first, users], []
        for place, level in enumerate(self.levels):
            own = table if split is None else split[..., place]
            nodes = own.reshape(2, 2**level, -1).sum(2)
            stream = jax.random.fold_in(key, 1 + place)
            if level:
                signs, parities = self._sample_signs(stream, nodes)
                parts.append(signs)
                rows.append(parities)
            else:
                parts[1] = self._sample_labels(stream, users.sum(), nodes[:, 0])
        parts += rows if self.randomized else []
        return jax.tree.map(lambda *limbs: jnp.concatenate(limbs), *parts)

    def _mislabelled(self, key, table: Count) -> Count:
        """The users by reported label and score, Count[2, leaves]."""
        p = (1 + 1 / self._label_scale()) / 2
        kept = binomial(key, table, jnp.broadcast_to(p, table.shape))
        return kept + (table - kept)[::-1]

    def _sample_signs(self, key, nodes: Count) -> tuple[Count, Count]:
        """The sums of signs of one level, from the users in each node.

        Returns:
          Count[2**(level+1)], and Count[2], how many users have an even and an odd row.
        """
        nodes = nodes.reshape(1 if self.private else 2, -1)
        level = HadamardBitParams(self.true, nodes.shape[1], self.word_bits)
        keys = jnp.stack([jax.random.fold_in(key, i) for i in range(nodes.shape[0])])
        reports = jax.vmap(level.sample_tally)(keys, nodes).reshape(nodes.shape[0], 2, -1)
        signs = (reports[:, 0] - reports[:, 1]).reshape(-1)
        return signs, reports.reshape(-1, 2).sum(0)

    def _sample_labels(self, key, users: Count, labels: Count) -> Count:
        """Slots 2 and 3 where labels are private, from the users that report on their label."""
        p = jnp.asarray(self.true).astype(jnp.float64) / 2.0**self.word_bits
        even = binomial(key, labels, jnp.stack([p, 1 - p])).sum()
        signs = even + even - labels.sum()
        return jax.tree.map(lambda *limbs: jnp.stack(limbs), users, signs)

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly: splits of the values, and halves of the users."""
        del num_users, num_bins
        splits = 200.0 * len(self.levels) * 2 ** (self.height + 1) if self.split_users else 0.0
        return splits + sum(100.0 * (level + 1) * 2 ** (level + 1) for level in self.levels)


def threshold_of(rule: str, ratio):
    """A for `r = kappa sqrt(2 n C alpha) / n_min`: the minimiser of the paper's bound.

    That is the square of `x = 1 + y > 1` with `x (x - 1)**2 = r`, or `y**3 + y**2 = r`: rule
    "optimal" solves it by Newton's method, rule "paper" takes y for small r, `sqrt(r)`.
    """
    y = ratio**0.5
    if rule == "optimal":
        for _ in range(20):  # from above: the cubic is convex
            y = y - (y**3 + y**2 - ratio) / (3 * y**2 + 2 * y)
    return (1 + y) ** 2

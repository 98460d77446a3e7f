"""What runs inside jit for the hierarchical protocol for the area under the ROC curve.

Level l of both trees has `2**l` nodes for each label, and `2**(l+1)` sums of signs, which are kept
in the slots `2**(l+1) .. 2**(l+2) - 1` of one flat tally: a scatter into one array is many times
faster than one into each level's.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp_kernels.fwht import fwht

from .._x64 import in_float64
from ..random import Count, binomial, multinomial
from ..random._count import mul_32x32
from ..randomizers._hadamard_bit import HadamardBitParams
from ..randomizers._hadamard_words import parity
from ..randomizers._params import RandomizerParams


def level_chances(num_levels: int, word_bits: int) -> np.ndarray:
    """The probability that `floor(word * num_levels / 2**word_bits)` is each level, float64[H]."""
    borders = [-(-(level << word_bits) // num_levels) for level in range(num_levels + 1)]
    return np.diff(borders) / 2.0**word_bits


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

    value_dtype: ClassVar = jnp.int32
    lazy_words: ClassVar = True
    """Words that are made where they are read vectorise ten times better than slices of a block."""

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels that are reported on; the root too where labels are private."""
        return tuple(range(0 if self.private else 1, self.height + 1))

    @property
    def num_words(self) -> int:
        """A word for the level, one for the row and one for the lie; or the last two a level."""
        return 3 if self.split_users else 2 * len(self.levels)

    @property
    def num_slots(self) -> int:
        """The length of the tally."""
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
        if not self.split_users:
            levels = jnp.array(self.levels, jnp.int32)
            pairs = words[: self.num_words].reshape(-1, 2)
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

    def tally(self, reports, mask):
        """The sum of the signs in each slot, int32[2**(height + 2)].

        Slots 2 and 3 hold the sizes of the classes where labels are public; otherwise the number of
        users, and the sum of the signs of the labels.

        Args:
          reports: int32[n] or int32[n, levels].
          mask: bool[n].
        """
        reports = reports.reshape(mask.shape[0], -1)
        slots = reports >> 1
        signs = jnp.where(mask[:, None], 1 - 2 * (reports & 1), 0)
        sums = jax.ops.segment_sum(signs.ravel(), slots.ravel(), self.num_slots)
        users = jnp.sum(mask, dtype=jnp.int32)
        if self.private:
            return sums.at[2].set(users)
        top = 31 - lax.clz(slots[:, 0])
        label = (slots[:, 0] >> (top - 1)) & 1
        positive = jnp.sum(jnp.where(mask, label, 0), dtype=jnp.int32)
        return sums.at[2].set(users - positive).at[3].set(positive)

    def _chances(self) -> np.ndarray:
        """The probability that a user reports on each of the levels, float64[levels]."""
        if self.split_users:
            return level_chances(len(self.levels), self.word_bits)
        return np.ones(len(self.levels))

    def _bit_scale(self):
        """c; only inside an x64 block."""
        true = jnp.asarray(self.true).astype(jnp.float64)
        return 1 / (2 * (true / 2.0**self.word_bits) - 1)

    def _classes(self, users: jax.Array):
        """The sizes of the classes, the product of them, and the variances of counts.

        Args:
          users: float64[2], slots 2 and 3.

        Returns:
          float64[2] negative and positive, float64[], and float64[2].
        """
        c2 = self._bit_scale() ** 2
        spread = c2 / float(self._chances()[-1])
        if not self.private:
            return users, jnp.maximum(users[0] * users[1], 1.0), spread * users
        n, chance = users[0], float(self._chances()[0])
        gap = users[1] * (jnp.sqrt(c2) / chance)
        product = (n**2 - gap**2 + n * (c2 / chance - 1)) / 4
        sizes = jnp.clip(jnp.stack([n + gap, n - gap]) / 2, 1.0, jnp.maximum(n - 1, 1.0))
        return sizes, jnp.maximum(product, n - 1), jnp.stack([spread * n] * 2)

    def _cutoffs(self, sizes, spreads):
        """tau, and the least count that is reckoned with, of each class."""
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
        return scale * fwht(signs.reshape(2, -1))

    @in_float64
    def estimate(self, tally: Count):
        """The estimated area, float[]; the whole of both trees is held."""
        sizes, product, spreads = self._classes(tally[2:4].f64())
        tau, least = self._cutoffs(sizes, spreads)
        held, active, total = sizes[:, None], jnp.ones(1, bool), jnp.zeros(())
        for level in range(1, self.height + 1):
            children = self.counts(tally, level).reshape(2, -1, 2)
            reckoned = jnp.maximum(held, least[:, None])
            recursed = active & (reckoned[0] * reckoned[1] >= tau)
            gain = jnp.where(recursed, children[1, :, 1] * children[0, :, 0], 0.0)
            if self.half_discarded:
                whole = jnp.sum(children, axis=-1)
                gain = jnp.where(active & ~recursed, whole[0] * whole[1] / 2, gain)
            total = total + jnp.sum(gain)
            active = jnp.broadcast_to(recursed[:, None], (recursed.size, 2)).reshape(-1)
            held = children.reshape(2, -1)
        if self.half_ties:
            total = total + jnp.sum(jnp.where(active, held[0] * held[1] / 2, 0.0))
        return total / product

    @in_float64
    def sample_tally(self, key, counts: Count, inputs=None) -> Count:
        """A tally drawn at once, exact in law.

        Where users are split, those of each value are split over the levels by a multinomial. Then
        each level's signs are drawn by the law of `HadamardBit`.

        Args:
          key: a key; it is folded.
          counts: Count[2 d], the users' values.
          inputs: unused; the values are the cells.

        Returns:
          Count[num_slots].
        """
        del inputs
        pad = [(0, 0), (0, 2**self.height - self.num_scores)]
        table: Count = jax.tree.map(lambda limb: jnp.pad(limb.reshape(2, -1), pad), counts)
        split = None
        if self.split_users:
            stream = jax.random.fold_in(key, 0)
            chances = jnp.asarray(self._chances())
            split = multinomial(stream, table.reshape(-1), chances).reshape(*table.shape, -1)
        users = table.sum(1)
        first = Count.zeros((2,))
        parts = [first, users]
        for place, level in enumerate(self.levels):
            own = table if split is None else split[..., place]
            nodes = own.reshape(2, 2**level, -1).sum(2)
            stream = jax.random.fold_in(key, 1 + place)
            if level:
                parts.append(self._sample_signs(stream, nodes))
            else:
                parts[1] = self._sample_labels(stream, users.sum(), nodes[:, 0])
        return jax.tree.map(lambda *limbs: jnp.concatenate(limbs), *parts)

    def _sample_signs(self, key, nodes: Count) -> Count:
        """The sums of signs of one level, Count[2**(level+1)], from the users in each node."""
        nodes = nodes.reshape(1 if self.private else 2, -1)
        level = HadamardBitParams(self.true, nodes.shape[1], self.word_bits)
        keys = jnp.stack([jax.random.fold_in(key, i) for i in range(nodes.shape[0])])
        reports = jax.vmap(level.sample_tally)(keys, nodes).reshape(nodes.shape[0], 2, -1)
        return (reports[:, 0] - reports[:, 1]).reshape(-1)

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

"""Hierarchical histograms: each user reports the node above its value on one level of a tree."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, UInt32

from .._checks import Choice, Epsilon, Instance, Maker, Optional, made_by
from .._contract import (
    Counted,
    Independent,
    Round,
    TallyLaw,
    Tree,
    Words,
    Work,
    field,
    params,
    spec,
    static,
)
from .._queries import WORKLOAD, AdditiveProtocol, num_counted_reports, users_of
from .._spec import check_int, check_items, check_real
from .._x64 import as_float64, compiled_in_float64, dot
from ..random import Count, everyone, histogram, multinomial, part_of
from ..randomizers import KRR, FrequencyOracle, HadamardResponse, ProjectiveGeometryResponse
from ..randomizers._params import BinRound
from ._tree import consistent_parts, interval_parts, level_widths, node_shares, num_nodes

OracleMaker = Callable[[int, float], FrequencyOracle]
"""A function of (num_values, epsilon)."""

_BRANCHINGS = (2, 3, 4, 5, 6, 8, 12, 16)
_ROUNDS = 6  # of a descent that halves its distance each time; its aim is a rule of thumb
_LEAST_CHANCE = 1e-6
_ORACLE = (
    "a function of (num_values, epsilon) that makes a frequency oracle, such as KRR, "
    "HadamardResponse, HadamardBit or ProjectiveGeometryResponse"
)
_MADE = Instance(FrequencyOracle, _ORACLE)


@spec
class HierarchicalQueries(AdditiveProtocol["HierarchicalParams"]):
    """Linear queries on intervals: estimated counts of the nodes of a tree, added up.

    The domain is cut into intervals, level by level, each into `branching` smaller ones. A user's
    first word draws a level, whatever the value, and the user reports the interval of that level
    that holds the value through a frequency oracle, with all of epsilon. A range of values is the
    union of few intervals, so that its answer adds up few estimates.

    Each query is written as `w_v = u + sum_l R_l[node of v on level l]`; with pi_l the probability
    of level l and c_l the estimated counts of its users in its nodes, the answers are
    `u + sum_l R_l . c_l / (n pi_l)`. With `consistency` R is that of weighted least squares: the
    answers of the one histogram that fits all estimates best. Weights are the inverse mean squares
    of the nodes' estimates for uniformly distributed users, and estimates are taken about their
    mean for such users, which leaves less to the chance of which users are on a level. Without
    `consistency` R consists of the largest intervals on which a query is constant.

    Formal guarantees:
      * Privacy: pure epsilon-LDP: the level is independent of the value, and given the level the
        report is that of the level's oracle. `exact_epsilon()` is the largest of the levels'.
      * Estimate: without bias, for every data set.
      * Variance, exact for a fixed data set, over levels and oracles: a user of value v contributes
        `sum_l (V_l + r_l**2) / pi_l - (sum_l r_l)**2`, V_l being the variance of `R_l` applied to
        the oracle's estimate of one user on level l and r_l the mean. For the count of one node by
        an oracle of variance `c**2` it is `c**2 / pi_l - 1` on the node and `c**2 / pi_l` off it.
        What is chosen for uniform users affects how small this is, not that it is exact.

    Edge cases:
      ===================================  ======================================================
      branching of k                       one level: the oracle, its shares adding up to 1
      a query that is constant             answered exactly
      level_weights without branching      ValueError: the number of levels is not given
      oracle whose reports are not counts  each level has a tally of its own; a report has one part
                                           a level, of which all but one are zeros
      oracle without a tally's law         per-user simulation only, as for `LocalHashing`
      value outside the domain             ValueError from a Population; clamped inside jit
      ===================================  ======================================================

    Args:
      workload: W, float[m, k], a row for each query, or an `Operator`; k at least 2.
      epsilon: privacy parameter, > 0.
      branching: intervals that an interval is cut into, 2 to k. None for the one out of
        {2, 3, 4, 5, 6, 8, 12, 16, k} with the least predicted error: summed over the queries, for
        uniform users, the covariances of nodes left out.
      oracle: a function of (num_values, epsilon) that makes the oracle of a level: any frequency
        oracle, such as `KRR`, `HadamardResponse` or `ProjectiveGeometryResponse`. None for the one
        out of these three with the least variance on that level; on a level of thousands of nodes
        the last takes long to simulate many users with, the second does not.
      consistency: whether to combine all levels by least squares.
      level_weights: proportional to the probabilities of the levels, coarse to fine, H numbers > 0.
        None for those with the least predicted error.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jaxdp
      >>> from jaxdp.linear import HierarchicalQueries
      >>> cdf = HierarchicalQueries(jaxdp.workloads.prefix(128), epsilon=1.0)
      >>> cdf.branching, len(cdf.oracles)
      (2, 7)
      >>> round(cdf.worst_case_total_variance(num_users=1))
      2265

    References:
      Hay, Rastogi, Miklau, Suciu (2010), Boosting the accuracy of differentially private histograms
      through consistency; Cormode, Kulkarni, Srivastava (2019), Answering range queries under local
      differential privacy; Bell, Bellet, Gascón, Kulkarni (2020), section 5.
    """

    workload: Any = field(WORKLOAD)  # stored as a FrozenArray
    epsilon: float = field(Epsilon())
    branching: int | None = None
    oracle: OracleMaker | None = field(Optional(Maker(_ORACLE)), default=None)
    consistency: bool = field(Choice(True, False), default=True)
    level_weights: tuple[float, ...] | None = None

    def validate(self) -> None:
        """Raises unless the tree can be built; settles its branching and the levels' weights."""
        k = self.num_values
        if k < 2:
            raise ValueError("workload must have at least 2 columns: one value leaves no question.")
        branching, weights = self.branching, self.level_weights
        if branching is not None:
            branchings = (check_int("branching", branching, low=2, high=k),)
        elif weights is not None:
            raise ValueError("level_weights need branching, which sets the number of levels.")
        else:
            branchings = (*(b for b in _BRANCHINGS if b < k), k)
        if branching is None or weights is None:
            fits = {b: _fit(self, b) for b in branchings}
            branching = min(fits, key=lambda b: fits[b][0])
            weights = fits[branching][1]
        self.settle(branching=branching)
        weights = check_items("level_weights", weights, "a sequence of numbers")
        if len(weights) != len(self.widths):
            raise ValueError(
                f"level_weights must be {len(self.widths)} numbers, one for each level of "
                f"branching = {branching} on {k} values, got {weights!r}."
            )
        weights = tuple(check_real("level_weights", w, low=0.0) for w in weights)
        self.settle(level_weights=weights)
        _oracles(self.oracle, k, self.widths, self.epsilon)  # raises where a level has none

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of values in a node of each level, from coarse to fine."""
        assert self.branching is not None
        return tuple(level_widths(self.num_values, self.branching))

    @property
    def oracles(self) -> tuple[FrequencyOracle, ...]:
        """The frequency oracle of each level, coarse to fine."""
        return _oracles(self.oracle, self.num_values, self.widths, self.epsilon)

    def _words(self, word_bits: int) -> list[int]:
        """How many of the 2**word_bits first words lead to each level; at least one."""
        weights = np.array(self.level_weights, np.float64)
        shared = 2**word_bits - weights.size  # what is left over goes to the largest
        words = [1 + int(shared * w) for w in weights / weights.sum()]
        words[int(np.argmax(weights))] += 2**word_bits - sum(words)
        return words

    def level_probabilities(self, word_bits: int = 32) -> Float[np.ndarray, " levels"]:
        """The realised probability of each level, coarse to fine."""
        return np.array(self._words(word_bits)) / 2.0**word_bits

    def build(self, word_bits: int = 32) -> "HierarchicalParams":
        """The params; `word_bits=8` makes a twin with words of 8 bits."""
        parts, shifts, offset = _reconstruction(self)
        chances = self.level_probabilities(word_bits)
        columns = [part / chance for part, chance in zip(parts, chances, strict=True)]
        levels = tuple(oracle.build(word_bits) for oracle in self.oracles)
        sizes = tuple(size for size in map(num_counted_reports, levels) if size is not None)
        return HierarchicalParams(
            levels=levels,
            borders=np.cumsum(self._words(word_bits))[:-1].astype(np.uint32),
            decoder=np.concatenate([*columns, shifts / chances], axis=1),
            offset=offset,
            widths=self.widths,
            sizes=sizes if len(sizes) == len(levels) else None,
            num_values=self.num_values,
            word_bits=word_bits,
        )

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: the largest of the levels' oracles."""
        return max(oracle.exact_epsilon() for oracle in self.oracles)

    def contributions(self) -> tuple[Float[np.ndarray, "m k"], Float[np.ndarray, "m k"]]:
        return self.workload.values, _variances(self)


@functools.lru_cache(maxsize=256)
def _oracles(
    make: OracleMaker | None, num_values: int, widths: tuple[int, ...], epsilon: float
) -> tuple[FrequencyOracle, ...]:
    sizes = (num_nodes(num_values, width) for width in widths)
    if make is None:
        return tuple(_best(size, epsilon) for size in sizes)
    return tuple(_MADE("oracle", made_by("oracle", make, _ORACLE, size, epsilon)) for size in sizes)


@functools.lru_cache(maxsize=1024)
def _best(num_values: int, epsilon: float) -> FrequencyOracle:
    """The oracle of short reports with the least sum of variances for uniform users."""
    made, refused = [], None
    for make in (KRR, HadamardResponse, ProjectiveGeometryResponse):
        try:
            made.append(make(num_values, epsilon))
        except ValueError as error:  # epsilon is too large or too small for its words
            refused = error
    if not made:
        assert refused is not None
        raise refused
    return min(made, key=lambda oracle: oracle.variance(np.ones(num_values, np.int64)).sum())


def _mean_squares(
    protocol: HierarchicalQueries, oracles: Sequence[FrequencyOracle], widths: Sequence[int]
) -> list[np.ndarray]:
    """The mean square of each node's estimate by one user on its level, for uniform users."""
    shares = [node_shares(protocol.num_values, width) for width in widths]
    # Estimates are taken about their mean for uniform users, unless parts are intervals.
    about = [share if protocol.consistency else 0.0 for share in shares]
    return [
        oracle.expected_variances(share) + share * (1 - centre)
        for oracle, share, centre in zip(oracles, shares, about, strict=True)
    ]


def _parts(
    protocol: HierarchicalQueries,
    queries: np.ndarray,
    branching: int,
    squares: Sequence[np.ndarray],
    chances: np.ndarray,
) -> tuple[list[np.ndarray], np.ndarray]:
    if not protocol.consistency:
        return interval_parts(queries, branching, len(squares))
    costs = [square / chance for square, chance in zip(squares, chances, strict=True)]
    return consistent_parts(queries, branching, costs)


def _fit(protocol: HierarchicalQueries, branching: int) -> tuple[float, tuple[float, ...]]:
    """The predicted error of a branching, and the probabilities of the levels that attain it.

    `sum_l (sum of squares * R_l**2) / pi_l` is convex in (R, pi); it is minimised in turns.
    """
    queries, widths = protocol.workload.values, tuple(level_widths(protocol.num_values, branching))
    oracles = _oracles(protocol.oracle, protocol.num_values, widths, protocol.epsilon)
    if protocol.consistency and len(queries) > protocol.num_values:
        # The error is a function of W^T W, which R of W = Q R has too.
        queries = np.asarray(np.linalg.qr(queries, "r"))
    squares = _mean_squares(protocol, oracles, widths)
    chances, loads = np.full(len(widths), 1 / len(widths)), np.zeros(len(widths))
    for _ in range(_ROUNDS if protocol.consistency else 1):
        parts, _ = _parts(protocol, queries, branching, squares, chances)
        # For given R the best pi_l is proportional to the root of the sum of level l.
        loads = np.sqrt([np.sum(s * r**2) for s, r in zip(squares, parts, strict=True)])
        if not loads.any():
            break
        chances = np.maximum(loads / loads.sum(), _LEAST_CHANCE)
    # sum_l loads_l**2 / pi_l at pi_l = loads_l / sum of the loads
    return float(loads.sum() ** 2), tuple((chances / chances.sum()).tolist())


class _Reconstruction(NamedTuple):
    """How nodes make answers.

    Attributes:
      parts: R_l, float64[m, nodes] for each level.
      shifts: float64[m, levels], what a user of each level adds.
      offset: float64[m].
    """

    parts: list[np.ndarray]
    shifts: np.ndarray
    offset: np.ndarray


@functools.lru_cache(maxsize=16)
def _reconstruction(protocol: HierarchicalQueries) -> _Reconstruction:
    assert protocol.branching is not None
    squares = _mean_squares(protocol, protocol.oracles, protocol.widths)
    chances = protocol.level_probabilities()
    queries = protocol.workload.values
    parts, constant = _parts(protocol, queries, protocol.branching, squares, chances)
    if not protocol.consistency:
        return _Reconstruction(parts, np.zeros((len(queries), len(parts))), constant)
    shares = [node_shares(protocol.num_values, width) for width in protocol.widths]
    # A user of level l adds (R_l of its estimate - R_l of the shares) / pi_l: about the mean.
    means = [part @ share for part, share in zip(parts, shares, strict=True)]
    shifts = -np.stack(means, axis=1)
    return _Reconstruction(parts, shifts, constant - shifts.sum(axis=1))


@functools.lru_cache(maxsize=16)
def _variances(protocol: HierarchicalQueries) -> Float[np.ndarray, "m k"]:
    parts, shifts, offset = _reconstruction(protocol)
    values = np.arange(protocol.num_values)
    second = np.zeros(protocol.workload.values.shape)
    for oracle, chance, width, part, shift in zip(
        protocol.oracles,
        protocol.level_probabilities(),
        protocol.widths,
        parts,
        shifts.T,
        strict=True,
    ):
        # sum_l (V_l + r_l**2) / pi_l - (sum_l r_l)**2, r_l the mean on level l; see the class.
        square = oracle.query_variances(part) + (part + shift[:, None]) ** 2
        second += square[:, values // width] / chance
    return np.maximum(second - (protocol.workload.values - offset[:, None]) ** 2, 0.0)


@params
class HierarchicalParams(BinRound[Tree]):
    """The params of `HierarchicalQueries`: a pytree.

    Where the tallies of all levels count reports, the reports of the levels are numbered one after
    the other, and the tally is one Count of them. Else a report is the level and, for every level,
    the report there, zeros but for one; and the tally is that of each level.

    Attributes:
      levels: the params of each level's frequency oracle.
      borders: uint32[H - 1], the first word of each level but the first.
      decoder: float64[m, N + H], what each node's estimated count, and each level's number of
        users, adds to the answers; N nodes in all.
      offset: float64[m].
      widths: values in a node of each level, static.
      sizes: the number of reports of each level; None where they are not counted; static.
      num_values: k, static.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    levels: tuple[Round[Any], ...]
    borders: UInt32[Array | np.ndarray, " levels-1"]
    decoder: Float[Array | np.ndarray, "m nodes+levels"]
    offset: Float[Array | np.ndarray, " m"]
    widths: tuple[int, ...] = static()
    sizes: tuple[int, ...] | None = static()
    num_values: int = static()
    word_bits: int = static(default=32)

    @property
    def num_words(self) -> int:
        """One word for the level, and as many as the oracle that takes the most."""
        return 1 + max(level.num_words for level in self.levels)

    def user_cost(self, work: Work) -> float:
        """A user computes the reports of all levels."""
        return sum(level.user_cost(work) for level in self.levels)

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> Tree:
        """One user's report; a value outside the domain is clamped into it."""
        value = jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1)
        chosen = jnp.sum(words[0] >= jnp.asarray(self.borders), dtype=jnp.int32)
        reports = [
            level.from_bits(part_of(words, 1, level.num_words), value // width)
            for level, width in zip(self.levels, self.widths, strict=True)
        ]
        if self.sizes is None:
            # All levels read the same words, and have all of epsilon: one report may be sent.
            def sent(i: int, report: Tree) -> Tree:
                return jax.tree.map(lambda x: jnp.where(chosen == i, x, jnp.zeros_like(x)), report)

            return chosen, tuple(sent(i, report) for i, report in enumerate(reports))
        numbered = jnp.int32(0)
        for i, (report, first) in enumerate(zip(reports, self._firsts(), strict=True)):
            numbered = jnp.where(chosen == i, first + report, numbered)
        return numbered

    @property
    def report_limits(self) -> tuple[Tree, Tree] | None:
        """The number of a report of any level, or the level and a report of each."""
        if self.sizes is not None:
            return 0, sum(self.sizes) - 1
        limits = [level.report_limits for level in self.levels]
        if None in limits:
            return None
        low, high = zip(*limits, strict=True)  # pyright: ignore[reportArgumentType]
        return (0, low), (len(limits) - 1, high)

    def _firsts(self) -> list[int]:
        """The number of the first report of each level."""
        return [0, *itertools.accumulate(self.sizes or ())][:-1]

    def tally(self, reports: Tree, mask: jax.Array | None = None, /) -> Tree:
        """The number of each report, Count[sum of sizes]; or a tally for each level."""
        if self.sizes is not None:
            return histogram(reports, sum(self.sizes), mask)
        chosen, each = reports
        counted = everyone(chosen, mask)
        return tuple(
            level.tally(report, counted & (chosen == i))
            for i, (level, report) in enumerate(zip(self.levels, each, strict=True))
        )

    @property
    def counted(self) -> Counted | None:
        """The counts are the tally where all levels share one numbering of reports."""
        return None if self.sizes is None else Counted(sum(self.sizes), Count.of)

    def _split(self, outcome: Tree) -> list[Tree]:
        """The tally of each level."""
        if self.sizes is None:
            return list(outcome)
        starts = self._firsts()
        return [outcome[a : a + size] for a, size in zip(starts, self.sizes, strict=True)]

    @compiled_in_float64
    def estimate(self, outcome: Tree, /) -> Float[Array, " m"]:
        """The estimated answers."""
        tallies = self._split(outcome)
        counts = [level.estimate(x) for level, x in zip(self.levels, tallies, strict=True)]
        users = [users_of(x) for x in tallies]
        seen = jnp.concatenate([*counts, jnp.stack(users)])
        decoder, offset = as_float64(self.decoder, self.offset)
        return dot(decoder, seen) / sum(users) + offset

    @property
    def law(self) -> TallyLaw[Tree] | None:
        """The users of each value split over the levels, and each level's law; if all have one."""
        laws = [level.law for level in self.levels if level.law is not None]
        if len(laws) < len(self.levels):
            return None
        short = all(law.independent is not None for law in laws)
        distance = sum(law.distance for law in laws)
        return TallyLaw(self._draw, self._cost, self._draw_independent if short else None, distance)

    def _chances(self) -> Float[Array, " levels"]:
        """The realised probability of each level; only inside an x64 block."""
        borders = jnp.asarray(self.borders).astype(jnp.float64) / 2.0**self.word_bits
        return jnp.diff(borders, prepend=0.0, append=1.0)

    def _nodes(self, counts: Count, width: int) -> Count:
        """The number of users in each node of a level, from that of each value."""
        # The last node may hold fewer values than others.
        pad = (0, -self.num_values % width)
        whole: Count = jax.tree.map(lambda limb: jnp.pad(limb, pad), counts)
        return whole.reshape(-1, width).sum(1)

    def _joined(self, tallies: list[Tree]) -> Tree:
        if self.sizes is None:
            return tuple(tallies)
        return jax.tree.map(lambda *limbs: jnp.concatenate(limbs), *tallies)

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> Tree:
        del inputs
        split_key, *keys = jax.random.split(key, 1 + len(self.levels))
        split = multinomial(split_key, counts, self._chances())
        nodes = [self._nodes(split[:, i], width) for i, width in enumerate(self.widths)]
        return self._joined(_draw_each(self.levels, keys, nodes))

    @compiled_in_float64
    def _draw_independent(self, key: jax.Array, users: Independent) -> Tree:
        # Levels are drawn whatever the value: given their sizes, the users of each are independent.
        split_key, *keys = jax.random.split(key, 1 + len(self.levels))
        split = multinomial(split_key, users.size, self._chances())
        tallies = []
        for i, (level, width) in enumerate(zip(self.levels, self.widths, strict=True)):
            law = level.law
            assert law is not None
            assert law.independent is not None
            nodes = Independent(split[i], self._nodes(users.weights, width))
            tallies.append(law.independent(keys[i], nodes))
        return self._joined(tallies)

    def _cost(self, work: Work) -> float:
        levels = zip(self.levels, self.widths, strict=True)
        works = [
            (level.law, dataclasses.replace(work, num_bins=num_nodes(self.num_values, width)))
            for level, width in levels
        ]
        drawn = sum(law.cost(part) for law, part in works if law is not None)
        return work.draws(work.num_bins * len(self.levels)) + drawn


def _draw_each(
    levels: Sequence[Round[Any]], keys: Sequence[jax.Array], nodes: Sequence[Count]
) -> list[Tree]:
    """The tally of each level; those that can be drawn together are."""
    tallies = {}
    laws = [level.law for level in levels]
    for i, law in enumerate(laws):
        assert law is not None
        if i in tallies:
            continue
        if law.together is None:
            tallies[i] = law.draw(keys[i], nodes[i], None)
            continue
        same = [j for j, other in enumerate(laws) if other and other.together is law.together]
        drawn = law.together(
            [levels[j] for j in same], [keys[j] for j in same], [nodes[j] for j in same]
        )
        tallies |= dict(zip(same, drawn, strict=True))
    return [tallies[i] for i in range(len(laws))]
